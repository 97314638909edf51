"""What a notebook shows of a model: the certificate, and leave-one-out where it is known."""

from __future__ import annotations

import html
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import (
    LOOSVC,
    LPSVC,
    SVC,
    SVR,
    AdaptiveMarginSVC,
    CumulativeLinkClassifier,
    LinearSVC,
    LinearSVR,
    MeanFieldGPClassifier,
    NuLPSVC,
    NuSVC,
    NuSVR,
    OrdinalSVC,
    ReducedHullSVC,
    TubeSVR,
    loo,
)

ALL = [
    SVC, NuSVC, SVR, NuSVR, LinearSVC, LinearSVR, ReducedHullSVC, TubeSVR, LOOSVC,
    AdaptiveMarginSVC, LPSVC, NuLPSVC, OrdinalSVC, CumulativeLinkClassifier, MeanFieldGPClassifier,
]  # fmt: skip
BLOCK = re.compile(r'<div class="widemargin-certificate"[^>]*>(.*?)</div>', re.DOTALL)


def moons():
    return make_moons(40, noise=0.2, random_state=0)


def shown(model):
    """What the block below the diagram says; None where there is none."""
    pages = [model._repr_html_(), model._repr_mimebundle_()["text/html"]]
    found = [BLOCK.findall(page) for page in pages]
    assert found[0] == found[1]
    assert len(found[0]) <= 1
    return html.unescape(found[0][0]).split("\n") if found[0] else None


@pytest.mark.parametrize("kind", ALL)
def test_a_fitted_machine_shows_its_certificate_and_computes_nothing(kind):
    assert shown(kind()) is None
    model = kind().fit(*moons())
    record = getattr(model, "_record_", None)
    before = None if record is None else set(record.stored)
    assert shown(model) == [f"certificate: {model.certificate_}"]
    assert record is None or set(record.stored) == before


@pytest.mark.parametrize("kind", [SVC, SVR, LOOSVC, OrdinalSVC, LinearSVC])
def test_leave_one_out_is_shown_once_it_is_known(kind):
    model = kind().fit(*moons())
    result = loo.result(model)
    assert shown(model) == [f"certificate: {model.certificate_}", str(result)]
    assert shown(model.compact()) == shown(model)
    assert shown(kind().fit(*moons())) == [f"certificate: {model.certificate_}"]


def test_the_best_known_result_is_shown():
    model = SVC().fit(*moons())
    bound = loo.result(model, "support_vectors")
    assert shown(model)[1] == str(bound)
    estimate = loo.result(model, "linear_response")
    assert shown(model)[1] == str(estimate)
    assert shown(model)[1] != str(bound)
    assert shown(model)[1] != str(loo.result(model, "exact"))
    assert shown(model)[1] == str(loo.result(model, "exact"))


def test_machines_without_a_certificate_show_none():
    model = MeanFieldGPClassifier(inference="tap").fit(*moons())
    assert model.certificate_ is None
    assert shown(model) is None


def test_a_fit_that_did_not_converge_is_seen():
    X, y = make_moons(200, noise=0.3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(C=1e4, max_iter=1, solver="smo").fit(X, y)
    page = model._repr_html_()
    assert "NOT converged" in shown(model)[0]
    assert "not converged" in page.replace("NOT converged", "")
    assert "solid #D55E00" in page
    assert "solid #009E73" not in page


def test_texts_are_escaped():
    model = SVC().fit(*moons())
    model.certificate_ = replace(model.certificate_, problem="<script>alert(1)</script>")
    assert "<script>alert" not in model._repr_html_()
    assert "<script>alert(1)</script>" in shown(model)[0]


def test_pipelines_show_a_caption():
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(), SVC(C=3))
    assert "relative gap" not in model._repr_html_()
    page = model.fit(X, y)._repr_html_()
    gap = f"relative gap {model[-1].certificate_.relative_gap:.1e}"
    assert f'<div class="caption">{gap}</div>' in page
    error = loo.error(model)
    captions = re.findall(r'<div class="caption">(.*?)</div>', model._repr_html_())
    assert captions == [f"{gap}; leave-one-out error {error:.3g}"]


def test_text_display_has_no_diagram():
    model = SVC().fit(*moons())
    with sklearn.config_context(display="text"):
        assert list(model._repr_mimebundle_()) == ["text/plain"]
        assert not hasattr(model, "_repr_html_")
    assert repr(model) == "SVC()"


def test_listing_the_names_of_a_model_computes_nothing():
    model = MeanFieldGPClassifier().fit(*moons())
    before = set(model._record_.stored)
    names = set(dir(model))
    assert set(model._record_.stored) == before
    assert {"fit", "predict", "alpha_", "certificate_", "loo_error", "gamma"} <= (names)
    assert not {"loo_error_", "loo_proba_", "readings_"} & names
    assert model.loo_proba_.shape == (40, 2)  # they are still there
    hidden = ReducedHullSVC(cut="hull").fit(*moons())
    assert "predict_proba" not in dir(hidden)
    assert np.all(hidden.predict(moons()[0]) >= 0)
