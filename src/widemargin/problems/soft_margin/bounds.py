r"""Bounds on the optimum of a soft-margin problem that hold in exact arithmetic.

Given are dual variables alpha, a model with coefficients :math:`\theta \beta` and thresholds, and
f = K beta with an error bound. The **primal** is evaluated at the model, every slack at the upper
end of its error bound. Samples that are surely beyond the margin contribute exactly zero.

The **dual** needs a feasible point of real numbers, not of floats. It is made from alpha in three
steps, whose effect on the objective is computed, not estimated:

1. alpha is multiplied by 1 - kappa, as the costs are known up to a relative error of kappa;
2. the exact residual r of a group's sum is moved onto one variable k of the group with enough
   room. With :math:`\delta = -r e_k`, :math:`f_k` known and :math:`K_{kk} \le q_k^2`,

   .. math:: D(\alpha + \delta) = D(\alpha) - r (t_k - f_k - \rho_k \alpha_k)
             - \tfrac12 r^2 (K_{kk} + \rho_k);

3. if all totals are zero, the point is multiplied by the factor in [0, 1] that maximises D.

Sums are double-double; the remaining scalars are combined with a margin of a few units in the last
place. See Neumaier and Shcherbina (2004) for the same idea in linear programming.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from widemargin._base.double_double import U
from widemargin._base.enclosure import Enclosure
from widemargin._base.products import row_norms, times
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin.certificate import Bracket, tightest
from widemargin.kernels import Rows
from widemargin.kernels.sums import enclosed_sum
from widemargin.problems.soft_margin.interval import interval, target_error
from widemargin.problems.soft_margin.loops import slacks

if TYPE_CHECKING:
    from widemargin.problems.soft_margin import SoftMargin

UNKNOWN = np.full(3, np.nan)


@dataclass(frozen=True, eq=False)
class Point:
    """Dual variables and a model of a soft-margin problem, with what is known of their errors.

    Attributes
    ----------
    alpha : ndarray of shape (n_variables,)
        Dual variables, inside their boxes.
    beta : ndarray of shape (n_rows,)
        Coefficients of f: `SoftMargin.coefficients` of alpha.
    thresholds : ndarray of shape (n_groups,)
        Thresholds of the model.
    size : ndarray of shape (n_rows,)
        Majorants q of the kernel, see :mod:`widemargin.kernels.sums`.
    scale : float
        Factor theta of the coefficients of the model.
    cost_error, coefficient_error : float
        Relative errors of the costs (and totals), and of the coefficients of the model with respect
        to theta beta.
    threshold_error : float
        Absolute error of the thresholds.
    mercer : bool
        Whether the kernel is positive semi-definite; otherwise there is no lower bound.
    model : callable, optional
        Returns f and |w|^2 of the model, given whether to be precise, if these are not those of
        theta beta up to rounding: a linear model that is published by its weights.
    """

    alpha: FloatArray
    beta: FloatArray
    thresholds: FloatArray
    size: FloatArray
    scale: float = 1.0
    cost_error: float = 16.0 * U
    coefficient_error: float = 0.0
    threshold_error: float = 0.0
    mercer: bool = True
    model: Callable[[bool], tuple[Enclosure, Enclosure]] | None = None


Enclose: TypeAlias = Callable[[IntArray | None, bool], Enclosure]
"""Returns f on some samples (None: all of them), with double-double sums if the flag is set."""


def kernel_values(rows: Rows, beta: FloatArray, f: FloatArray, size: FloatArray) -> Enclose:
    """Return a function that encloses f = K beta; `f` are its float64 values computed by `rows`."""
    used = np.flatnonzero(beta)

    def enclose(at: IntArray | None, precise: bool) -> Enclosure:
        at = np.arange(len(f)) if at is None else at
        return enclosed_sum(rows, at, used, beta[used], f[at], size=size, precise=precise)

    return enclose


def bracket(problem: SoftMargin, point: Point, enclose: Enclose) -> Bracket:
    """Return bounds on the optimum, with more precise values of f if rounding blurs them."""
    plain = enclose(None, False)

    def evaluate(precise: bool) -> Bracket:
        known = point.model(precise) if point.model is not None else None
        if not precise:
            return _bracket(problem, point, plain, known)
        at = relevant_rows(problem, point, plain)
        return _bracket(problem, point, plain.replaced(at, enclose(at, True)), known)

    return tightest(evaluate)


def linear_values(X: Matrix, w: FloatArray, precise: bool) -> tuple[Enclosure, Enclosure]:
    """Return Xw and |w|^2 for weights that are known up to a rounding error."""
    blur = 4.0 * U
    spread = blur * float(np.linalg.norm(w)) * row_norms(X)
    norm2 = Enclosure.exact(w).dot(w)
    return times(X, w, precise=precise).widened(spread), norm2.blurred(3.0 * blur)


def _bracket(
    problem: SoftMargin,
    point: Point,
    f: Enclosure,
    model: tuple[Enclosure, Enclosure] | None = None,
) -> Bracket:
    at, norm = (f, UNKNOWN) if model is None else (model[0], _numbers_of(model[1]))
    numbers = np.array(
        [
            point.scale, point.cost_error, point.coefficient_error, point.threshold_error,
            point.mercer,
        ]
    )  # fmt: skip
    known = (
        *_variables(problem), problem.totals, point.alpha, point.beta, _thresholds(problem, point),
        point.size, f.hi, f.lo, f.error, at.hi, at.lo, at.error, norm,
    )  # fmt: skip
    primal, dual, rounding, asked = interval(*known, UNKNOWN, numbers)
    if asked:
        groups = range(problem.n_groups)
        sums = np.array([fsum(point.alpha[problem.group == g]) for g in groups])
        primal, dual, rounding, _ = interval(*known, sums, numbers)
    return Bracket(primal, dual, rounding)


def _numbers_of(value: Enclosure) -> FloatArray:
    return np.array([value.hi, value.lo, value.error], dtype=np.float64)


def _variables(problem: SoftMargin) -> tuple[Any, ...]:
    """Return the arrays that describe the variables, in the order of compiled loops."""
    return (
        problem.row, problem.target, problem.lower, problem.upper, problem.ridge, problem.group
    )  # fmt: skip


def _thresholds(problem: SoftMargin, point: Point) -> FloatArray:
    return point.thresholds if problem.n_groups else np.zeros(1)


def relevant_rows(problem: SoftMargin, point: Point, f: Enclosure) -> IntArray:
    """Return the samples whose values matter: support vectors and those that may have a slack."""
    row, target, lower, upper, _, group = _variables(problem)
    slack = np.empty((2, problem.n_variables))
    slacks(
        row, target, lower, upper, group, _thresholds(problem, point), point.scale, f.hi, f.lo,
        f.error * abs(point.scale), target_error(row, problem.n_rows), point.threshold_error, slack,
    )  # fmt: skip
    matters = (slack[0] != 0.0).reshape(-1, problem.n_rows).any(axis=0)
    return np.flatnonzero(matters | (point.beta != 0))
