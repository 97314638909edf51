"""The claims of the soft-margin machines, recomputed from public attributes and the data.

Everything is float64 and comes from `byhand`, which imports nothing of widemargin. A number is
compared to within what rounding can do to it: kernel values by inner products are right to some
units in the last place *of the terms they are made of*, and a sum of n of them likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from tests.helpers.byhand import Hinge, Nu, NuTube, SquaredHinge, Tube, dense, gram
from tests.helpers.fuzzing_containers import SPARSE
from tests.helpers.fuzzing_counts import note_error
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


def pair_machines(model: Any, problem: Problem) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield for each pair of classes its number, its labels (0: other class) and coefficients.

    Two classes: the second is positive. More: the first of each pair, in LIBSVM's layout, where
    the columns of class i have the machine against j > i in row j - 1, those of j in row i.
    """
    codes = np.searchsorted(model.classes_, problem.y)
    n_classes = len(model.classes_)
    dual = dense(model.dual_coef_)
    spread = np.zeros((len(dual), problem.n))
    spread[:, model.support_] = dual
    if n_classes == 2:
        yield 0, np.where(codes == 1, 1.0, -1.0), spread[0]
        return
    for k, (i, j) in enumerate(combinations(range(n_classes), 2)):
        label = np.where(codes == i, 1.0, np.where(codes == j, -1.0, 0.0))
        beta = np.where(codes == i, spread[j - 1], np.where(codes == j, spread[i], 0.0))
        yield k, label, beta


def check_numbers(
    certificate: Any,
    by_hand: Any,
    beta: np.ndarray,
    kernel: Seen,
    cost: np.ndarray,
    tol: float,
    threshold: float | None = None,
) -> None:
    """Compare a certificate with the problem by hand, to within rounding.

    The primal is that of the best threshold, or of the one that is given.
    """
    off, f = kernel.sums(beta), kernel.K @ beta
    primal = by_hand.primal(beta) if threshold is None else by_hand.primal_at(beta, threshold)
    dual = by_hand.dual(beta)
    dual_off = float(np.abs(beta) @ off) + 8 * EPS * float(np.abs(by_hand.y) @ np.abs(beta))
    slack_off = off + 8 * EPS * (1 + np.abs(by_hand.y) + np.abs(f) + abs(threshold or 0.0))
    loss_off = float(cost @ slack_off)
    if isinstance(by_hand, SquaredHinge):
        # sum c (s + e)^2 - c s^2 = 2 sum c s e + c e^2; the first by Cauchy and Schwarz.
        loss = max(0.0, primal - 0.5 * float(beta @ f)) + dual_off
        squares = float(cost @ slack_off**2)
        loss_off = 2 * np.sqrt(loss * squares) + squares
    claimed = certificate.dual
    if isinstance(by_hand, (Tube, NuTube)):
        # A row has two variables up to its cost, of which beta is the difference: sums round at
        # their size. Where both are positive, a tube's dual is below that of beta, and true.
        dual_off += 8 * EPS * float(np.abs(by_hand.y) @ cost)
        claimed = max(claimed, dual) if isinstance(by_hand, Tube) else claimed
    primal_off = dual_off + loss_off
    say(certificate.primal, primal, primal_off, "primal")
    say(claimed, dual, dual_off, "dual")
    assert by_hand.infeasibility(beta) <= 1e-9, "the dual point is not feasible"
    check_gap(certificate, primal_off + dual_off)
    if hasattr(by_hand, "kkt") and certificate.converged:
        assert by_hand.kkt(beta) <= tol * (1 + 1e-6) + 4 * off.max() + 1e-12, (
            f"converged, but the violation is {by_hand.kkt(beta):g}"
        )


def say(claimed: float, found: float, off: float, what: str) -> None:
    """Demand that a claimed number is what was found, to within its rounding error."""
    allowed = CLOSE * max(1.0, abs(found)) + off
    assert abs(claimed - found) <= allowed, f"{what}: {claimed!r} claimed, {found!r} found"


def check_gap(certificate: Any, off: float) -> None:
    """Demand the definitions of both gaps, and weak duality."""
    c = certificate
    note_error(off, c.primal)
    assert c.gap == c.primal - c.dual
    assert c.gap >= -CLOSE * max(1.0, abs(c.primal)) - off, f"primal below dual by {-c.gap:g}"
    assert np.isclose(c.relative_gap, c.gap / max(1.0, abs(c.primal)), rtol=1e-12, atol=0)
    assert c.n_iter >= 1


# ---------------------------------------------------------------- machines


def class_factors(class_weight: Any, problem: Problem) -> np.ndarray:
    """Return what class_weight makes of the weight of each row."""
    factors = np.ones(problem.n)
    for label in np.unique(problem.y):
        own = problem.y == label
        if class_weight == "balanced":
            share = problem.weight[own].sum() / problem.weight.sum()
            factors[own] = 1.0 / (problem.n_classes * share)
        elif class_weight is not None:
            factors[own] = class_weight.get(label, 1.0)
    return factors


def classifier_truth(matrix: np.ndarray | None = None, *, indefinite: bool = False) -> Any:
    """Return the truth of SVC and NuSVC; of an indefinite kernel only that nothing is claimed."""

    def truth(model: Any, problem: Problem) -> None:
        if indefinite:
            return
        kernel = seen(model, problem, matrix)
        weight = problem.weight * class_factors(getattr(model, "class_weight", None), problem)
        for k, label, beta in pair_machines(model, problem):
            inside = np.flatnonzero(label)
            few = merged(
                problem.values[inside], label[inside], weight[inside], apart=matrix is not None
            )
            rows = inside[few.rows]
            part, y, folded = kernel.part(rows), label[rows], few.fold(beta[inside])
            if hasattr(model, "nu"):
                by_hand = Nu(part.K, y, few.weight, model.nu)
                cost, scale = few.weight, by_hand.rescaled(folded)
                check_numbers(model.certificates_[k], _Fixed(by_hand), scale, part, cost, model.tol)
                continue
            cost = model.C * few.weight
            machine = Hinge if model.loss == "hinge" else SquaredHinge
            by_hand = machine(part.K, y, cost, model.fit_intercept)
            # The best threshold of squared slacks comes from running sums: a row far from its
            # margin leaves it few digits. The objective is that of the threshold of the model.
            b = float(model.intercept_[k]) if model.loss != "hinge" else None
            check_numbers(model.certificates_[k], by_hand, folded, part, cost, model.tol, b)
        worst = max(c.relative_gap for c in model.certificates_)
        assert model.certificate_.converged == all(c.converged for c in model.certificates_)
        assert not model.certificate_.converged or model.certificate_.relative_gap == worst

    return truth


class _Fixed:
    """The nu problem at coefficients that are rescaled already."""

    def __init__(self, problem: Nu) -> None:
        self.y = np.zeros_like(problem.y)
        self.primal, self.dual, self.kkt = problem.primal, problem.dual, problem.kkt
        self.infeasibility = problem.infeasibility


def regressor_truth(matrix: np.ndarray | None = None) -> Any:
    """Return the truth of SVR and NuSVR."""

    def truth(model: Any, problem: Problem) -> None:
        y = problem.y.astype(np.float64)
        few = merged(problem.values, y, problem.weight, apart=matrix is not None)
        beta = np.zeros(problem.n)
        beta[model.support_] = dense(model.dual_coef_)[0]
        part, cost = seen(model, problem, matrix).part(few.rows), model.C * few.weight
        if hasattr(model, "nu"):
            by_hand: Any = NuTube(part.K, y[few.rows], cost, model.nu)
        else:
            by_hand = Tube(part.K, y[few.rows], cost, model.epsilon, model.fit_intercept)
        check_numbers(model.certificate_, by_hand, few.fold(beta), part, cost, model.tol)

    return truth
