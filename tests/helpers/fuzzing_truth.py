"""Claims of machines, recomputed in float64 from public attributes and the data.

Everything is float64 and comes from `byhand`, which imports nothing of widemargin. A number is
compared to within what rounding can do to it: kernel values by inner products are right to some
units in the last place *of the terms they are made of*, and a sum of n of them likewise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.helpers.byhand import dense, gram
from tests.helpers.fuzzing_containers import SPARSE
from tests.helpers.fuzzing_data import Problem

EPS = float(np.finfo(float).eps)
CLOSE = 1e-9  # relative; as tests/oracle/test_certificates.py asks


@dataclass
class Merged:
    """The rows that count: none of weight zero, equal (x, y) as one of their common weight.

    Attributes
    ----------
    rows : ndarray
        A row number for each group.
    weight : ndarray
        Its weight.
    fold : callable
        Coefficients of all rows in, those of the groups out.
    """

    rows: np.ndarray
    weight: np.ndarray
    fold: Callable[[np.ndarray], np.ndarray]


def merged(values: np.ndarray, y: np.ndarray, weight: np.ndarray, *, apart: bool) -> Merged:
    """Merge equal rows, or (apart: precomputed kernels) only drop those of no weight."""
    present = np.flatnonzero(weight > 0)
    table = np.c_[values, np.unique(y, return_inverse=True)[1]][present]
    if apart:
        table = present[:, None]
    _, first, group = np.unique(table, axis=0, return_index=True, return_inverse=True)

    def fold(beta: np.ndarray) -> np.ndarray:
        assert not np.delete(beta, present).any(), "a row of weight zero got a coefficient"
        return np.bincount(group, weights=beta[present])

    return Merged(present[first], np.bincount(group, weights=weight[present]), fold)


@dataclass
class Seen:
    """Rows through a kernel: the matrix, and bounds on the errors of its entries in float64."""

    K: np.ndarray
    error: np.ndarray

    def part(self, rows: np.ndarray) -> Seen:
        """Return the block of some rows."""
        return Seen(self.K[np.ix_(rows, rows)], self.error[np.ix_(rows, rows)])

    def sums(self, beta: np.ndarray) -> np.ndarray:
        """Return what rounding can do to each K beta."""
        return (self.error + 4 * len(beta) * EPS * np.abs(self.K)) @ np.abs(beta)


def seen(model: Any, problem: Problem, matrix: np.ndarray | None, *, centred: bool = False) -> Seen:
    """Return the kernel of a fitted model on the training rows.

    With `centred` the linear kernel is that of rows less their mean, as hulls and tubes see them:
    where coefficients add up to zero, the mean does not matter but for rounding.

    The rbf kernel of dense rows is computed from rows less their mean, that of sparse rows from
    the rows as they are: |x|^2 + |z|^2 - 2 x.z, times gamma, is the exponent that is rounded.
    """
    if matrix is not None:
        return Seen(matrix, EPS * np.abs(matrix))
    X, kernel = problem.values, model.kernel
    names = {"gamma": getattr(model, "gamma_", 1.0), "degree": model.degree, "coef0": model.coef0}
    with np.errstate(all="ignore"):
        K = gram(X, X, kernel=kernel, **names)
        terms = (problem.d + 4) * EPS * (np.abs(X) @ np.abs(X).T)
        if kernel == "linear" and centred and problem.container not in SPARSE:
            Z = X - np.average(X, axis=0, weights=problem.weight)
            rounded = np.abs(Z) @ (np.abs(Z) + 2 * np.abs(X).max(axis=0)).T
            return Seen(Z @ Z.T, (problem.d + 4) * EPS * (rounded + rounded.T))
        if kernel == "linear":
            return Seen(K, terms)
        gamma = names["gamma"]
        if kernel == "rbf":
            origin = X if problem.container in SPARSE else X - X.mean(axis=0)
            size = (origin**2).sum(axis=1)
            exponent = (problem.d + 4) * EPS * gamma * (size[:, None] + size)
            return Seen(K, np.minimum(1.0, K * np.expm1(np.minimum(exponent, 40.0)) + 8 * EPS * K))
        inner = np.abs(gamma) * (np.abs(X) @ np.abs(X).T) + abs(model.coef0)
        if kernel == "sigmoid":
            return Seen(K, np.minimum(2.0, (problem.d + 8) * EPS * inner))
        degree = model.degree
        return Seen(K, (problem.d + 8) * EPS * degree * inner**degree)


def say(claimed: float, found: float, off: float, what: str) -> None:
    """Demand that a claimed number is what was found, to within its rounding error."""
    allowed = CLOSE * max(1.0, abs(found)) + off
    assert abs(claimed - found) <= allowed, f"{what}: {claimed!r} claimed, {found!r} found"


def check_gap(certificate: Any, off: float) -> None:
    """Demand the definitions of both gaps, and weak duality."""
    c = certificate
    assert c.gap >= c.primal - c.dual
    assert np.isclose(c.gap, c.primal - c.dual, rtol=1e-12, atol=EPS * abs(c.primal) + 1e-300)
    assert c.gap >= -CLOSE * max(1.0, abs(c.primal)) - off, f"primal below dual by {-c.gap:g}"
    assert np.isclose(c.relative_gap, c.gap / max(1.0, abs(c.primal)), rtol=1e-12)
    assert c.n_iter >= 1


def perceptron_truth(matrix: np.ndarray | None = None) -> Any:
    """Return the truth of PerceptronClassifier: when it says so, no training row is wrong."""

    def truth(model: Any, problem: Problem) -> None:
        codes = np.searchsorted(model.classes_, problem.y)
        n_classes = len(model.classes_)
        machines = [1] if n_classes == 2 else range(n_classes)
        for k, c in enumerate(machines):
            y = np.where(codes == c, 1.0, -1.0)
            if model.kernel is None:
                values = problem.values @ model.coef_[k]
                off = (problem.d + 4) * EPS * (np.abs(problem.values) @ np.abs(model.coef_[k]))
            else:
                beta = np.zeros(problem.n)
                beta[model.support_] = dense(model.dual_coef_)[k]
                kernel = seen(model, problem, matrix)
                values, off = kernel.K @ beta, kernel.sums(beta)
                steps = np.abs(beta).sum() / model.eta
                assert np.isclose(steps, np.atleast_1d(model.n_updates_)[k])
            # Steps are added up one by one: each rounds at the size that the sum has by then.
            steps_off = EPS * float(np.atleast_1d(model.n_updates_)[k]) * (1 + np.abs(values).max())
            right = y * (values + model.intercept_[k]) > -(off + steps_off)
            assert not model.converged_ or right.all(), "converged, and a row is wrong"

    return truth
