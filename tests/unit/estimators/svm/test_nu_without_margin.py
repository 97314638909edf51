"""NuSVC with a nu too small for overlapping classes: the optimum is w = 0, with a warning."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification

from widemargin import NuSVC, loo


def overlapping(seed=0, n=200):
    return make_classification(
        n, 5, n_informative=3, n_redundant=0, flip_y=0.3, class_sep=0.7, random_state=seed
    )


def warned(model, X, y, **known):
    """Fit; return the messages about a missing margin."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, **known)
    return [str(w.message) for w in caught if "margin between two classes" in str(w.message)]


@pytest.mark.parametrize("kernel", ["linear", "poly"])
@pytest.mark.parametrize("seed", range(4))
def test_the_smallest_nu_is_named_and_is_the_smallest(kernel, seed):
    X, y = overlapping(seed)
    gamma = {"degree": 2, "gamma": 0.5, "coef0": 1.0} if kernel == "poly" else {}
    [message] = warned(NuSVC(nu=0.02, kernel=kernel, **gamma), X, y)
    least = float(re.search(r"above ([\d.e-]+), the smallest", message)[1])
    below = NuSVC(nu=0.9 * least, kernel=kernel, **gamma)
    assert len(warned(below, X, y)) == 1
    assert (below.rho_ == 0).all()
    above = NuSVC(nu=1.1 * least, kernel=kernel, tol=1e-5, **gamma)
    assert warned(above, X, y) == []
    assert (above.rho_ > 0).all()
    assert above.certificate_.primal < 0


def test_a_model_without_margin_is_not_silent_and_has_no_certain_probabilities():
    X, y = overlapping()
    model = NuSVC(nu=0.2, kernel="linear")
    [message] = warned(model, X, y)
    assert message.startswith("nu=0.2 leaves no margin between two classes (rho_ = 0)")
    assert model.rho_ == [0.0]
    np.testing.assert_allclose(model.predict_proba(X), 0.5, atol=1e-6)
    with pytest.raises(ValueError, match="leaves no margin"):
        loo.error(model)


def test_weights_count_as_repetitions():
    X, y = overlapping(1, 120)
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    [weighted] = warned(NuSVC(nu=0.02, kernel="linear"), X, y, sample_weight=weight)
    again = np.repeat(np.arange(len(y)), weight)
    [repeated] = warned(NuSVC(nu=0.02, kernel="linear"), X[again], y[again])
    values = [float(re.search(r"above ([\d.e-]+),", text)[1]) for text in (weighted, repeated)]
    assert values[0] == pytest.approx(values[1], rel=1e-5)


def test_classes_at_one_place_have_no_feasible_nu():
    X, y = np.ones((10, 2)), np.arange(10) % 2
    [message] = warned(NuSVC(nu=0.5, kernel="linear"), X, y)
    assert "No feasible nu" in message


def test_only_the_pairs_without_margin_have_uncertain_probabilities():
    X, y = load_iris(return_X_y=True)
    model = NuSVC(nu=0.005, kernel="linear")
    assert len(warned(model, X, y)) == int((model.rho_ == 0).sum())
    assert (model.rho_ > 0).any()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        proba = model.predict_proba(X)
    assert (proba.argmax(axis=1) == model.predict(X)).all()


def test_separable_classes_have_a_margin_for_every_nu():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(40, 2)) - 4, rng.normal(size=(40, 2)) + 4])
    y = np.repeat([0, 1], 40)
    for nu in (1e-4, 0.05, 0.5):
        model = NuSVC(nu=nu, kernel="linear")
        assert warned(model, X, y) == []
        assert model.score(X, y) == 1.0
