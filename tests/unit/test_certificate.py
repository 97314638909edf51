"""Certificates in print: rounding is not shown as a negative gap, an indefinite kernel is."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from widemargin import AdaBoostClassifier, Certificate, MeanFieldGPClassifier
from widemargin.certificate import warn_unconverged


def _certificate(dual: float, *, converged: bool = True) -> Certificate:
    return Certificate.from_objectives(
        "C-hinge", primal=1.0, dual=dual, kkt_violation=0.0, converged=converged, n_iter=1
    )


def test_a_gap_that_rounding_makes_negative_is_shown_as_none() -> None:
    assert "(relative gap 0.0e+00)" in str(_certificate(1.0 + 2.3e-16))
    with pytest.warns(ConvergenceWarning, match=r"relative duality gap 0\.00e\+00 "):
        warn_unconverged("SVC", _certificate(1.0 + 2.3e-16, converged=False), [], 1e-3, np.eye(2))


def test_a_gap_that_is_negative_beyond_rounding_is_shown() -> None:
    assert "(relative gap -1.0e-01)" in str(_certificate(1.1))
    assert "(relative gap 1.0e-01)" in str(_certificate(0.9))


@pytest.mark.parametrize(
    ("model", "n", "d"),
    [
        (AdaBoostClassifier(cache_size=0.001), 40, 31),
        (MeanFieldGPClassifier(cache_size=0.01), 20, 2),
    ],
)
def test_the_cache_size_that_is_asked_for_is_enough(model, n: int, d: int) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, d)), np.arange(n) % 2
    with pytest.raises(ValueError, match="cache_size must be at least") as raised:
        model.fit(X, y)
    asked = float(str(raised.value).split("at least ")[1].split(" megabytes")[0])
    model.set_params(cache_size=asked).fit(X, y)
