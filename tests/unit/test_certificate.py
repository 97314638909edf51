"""Certificates in print: rounding is not shown as a negative gap, an indefinite kernel is."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from widemargin import AdaBoostClassifier, Certificate, MeanFieldGPClassifier
from widemargin.certificate import warn_unconverged
from widemargin.cli._summary import describe_certificate


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


def _violating(violation: float, *, dual: float, converged: bool) -> Certificate:
    return Certificate.from_objectives(
        "C-hinge", primal=1.0, dual=dual, kkt_violation=violation, converged=converged, n_iter=1
    )


def test_no_summary_shows_a_large_violation_beside_converged() -> None:
    done = _violating(46.0, dual=0.999, converged=True)
    for text in (str(done), describe_certificate(done)):
        assert "converged" in text
        assert "KKT" not in text
    small = _violating(4.6e-4, dual=0.999, converged=True)
    ended = _violating(46.0, dual=0.999, converged=False)
    for text in (str(small), describe_certificate(small)):
        assert "KKT violation 4.6e-04" in text
    for text in (str(ended), describe_certificate(ended)):
        assert "KKT violation 4.6e+01" in text
        assert "NOT converged" in text


@pytest.mark.parametrize(
    ("violation", "tol"), [(4e-5, "5e-07"), (3e-8, "4e-10"), (1e-3, "1e-05"), (0.0, "1e-05")]
)
def test_a_small_violation_with_a_large_gap_names_the_tol_that_would_do(
    violation: float, tol: str
) -> None:
    """The gap shrinks as the violation does: from 0.8 to 0.01 by a factor of 80."""
    found = _violating(violation, dual=0.2, converged=False)
    with pytest.warns(ConvergenceWarning) as told:
        warn_unconverged("SVC", found, ["converged"], 1e-3, np.eye(2))
    [text] = [str(warning.message) for warning in told]
    assert "the relative gap exceeds 0.01" in text
    assert f"lower tol to {tol} and raise max_iter" in text
    assert "by up to 0.8 of its value" in text
    assert "usable" not in text


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
