"""Certificates of drawn problems beside exact objectives: no rounding error is granted.

The exact objectives are those of `exact_quadratic` and `exact_programs`, which read what a model
publishes as rational numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.helpers.byhand import dense
from tests.helpers.exact_programs import norm_margins
from tests.helpers.exact_quadratic import Merged, kernel_pairs, planes, regression, tube_hulls
from tests.helpers.exact_verdict import Truth, judged
from tests.helpers.fuzzing_data import Problem

Exact = Callable[[Any, list[Any], Any, Any, Any], list[Truth]]


def check_certificates(model: Any, exact: list[Truth]) -> None:
    """Demand true bounds of each certificate, and that certificate_ is the worst of them."""
    certificates = getattr(model, "certificates_", [model.certificate_])
    for certificate, truth in zip(certificates, exact, strict=True):
        verdict = judged(certificate, truth)
        assert not verdict.faults, f"{verdict.faults}: {certificate!r}, {truth!r}"
        check_definitions(certificate)
    overall = model.certificate_
    assert overall.converged == all(c.converged for c in certificates)
    if overall.converged:
        assert overall.relative_gap == max(c.relative_gap for c in certificates)


def check_definitions(certificate: Any) -> None:
    """Demand the definitions of both gaps, which are rounded up."""
    c = certificate
    assert c.n_iter >= 1
    if np.isfinite(c.gap):
        assert c.gap >= c.primal - c.dual
        atol = 1e-15 * abs(c.primal)
        assert np.isclose(c.gap, c.primal - c.dual, rtol=1e-12, atol=atol)
        assert np.isclose(c.relative_gap, c.gap / max(1.0, abs(c.primal)), rtol=1e-12, atol=0)


def exact_truth(exact: Exact, matrix: np.ndarray | None = None) -> Callable[[Any, Problem], None]:
    """Return the truth of a machine: its certificates hold beside exact objectives."""

    def truth(model: Any, problem: Problem) -> None:
        X = problem.values if matrix is None else matrix
        check_certificates(model, exact(model, [], X, problem.y, problem.weight))

    return truth


# ---------------------------------------------------------------- machines


def check_boxes(model: Any, X: np.ndarray, y: np.ndarray, cost: np.ndarray) -> None:
    """Demand coefficients within the costs; equal samples have one coefficient and one cost."""
    few = Merged.of(X, y, cost, apart=model.kernel == "precomputed")
    allowed = [float(few.weight[few.place[i]]) * (1 + 1e-9) for i in model.support_]
    assert (np.abs(dense(model.dual_coef_)) <= allowed).all(), "a coefficient exceeds its cost"


def classifier_truth(matrix: np.ndarray | None = None) -> Any:
    """Return the truth of SVC and NuSVC."""
    of_certificates = exact_truth(kernel_pairs, matrix)

    def truth(model: Any, problem: Problem) -> None:
        of_certificates(model, problem)
        if getattr(model, "loss", None) == "hinge":
            codes = np.searchsorted(model.classes_, problem.y)
            cost = model.C * problem.weight * model.class_weight_[codes]
            check_boxes(model, problem.values, codes, cost)

    return truth


def regressor_truth(matrix: np.ndarray | None = None) -> Any:
    """Return the truth of SVR and NuSVR."""
    of_certificates = exact_truth(regression, matrix)

    def truth(model: Any, problem: Problem) -> None:
        of_certificates(model, problem)
        check_boxes(model, problem.values, problem.y, model.C * problem.weight)

    return truth


hull_truth = exact_truth(kernel_pairs)
tube_truth = exact_truth(tube_hulls)
_of_planes = exact_truth(planes)
_of_norms = exact_truth(norm_margins)


def linear_truth(model: Any, problem: Problem) -> None:
    """Check LinearSVC; it converges by its stated gap."""
    _of_planes(model, problem)
    assert all(c.converged == (c.relative_gap <= model.tol) for c in model.certificates_)


def norm_truth(model: Any, problem: Problem) -> None:
    """Check MaxMarginClassifier: its certificates, and feasible dual variables."""
    (_of_planes if model.norm == 2 and np.isfinite(model.C) else _of_norms)(model, problem)
    duals = np.atleast_2d(model.dual_)
    assert duals.min() >= 0.0
    assert not duals[:, problem.weight == 0].any(), "a sample of no weight has a dual variable"
    if np.isfinite(model.C):
        assert (duals <= model.C * problem.weight * (1 + 1e-9)).all(), "a variable exceeds its cost"
    assert all(c.converged == (c.relative_gap <= model.tol) for c in model.certificates_)
