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
from dataclasses import dataclass, replace
from math import fsum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from widemargin._base.double_double import U, two_product
from widemargin._base.enclosure import Enclosure
from widemargin._base.products import row_norms, times
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin.certificate import Bracket, tightest
from widemargin.kernels import Rows
from widemargin.kernels.sums import enclosed_sum
from widemargin.problems.soft_margin.loops import (
    TINY,
    dual_sums,
    losses,
    norm_squared,
    roomy,
    slacks,
)

if TYPE_CHECKING:
    from widemargin.problems.soft_margin import SoftMargin

FEW = 32.0 * U  # relative error of a short formula of scalars
FULL = 1e-11  # relative distance from its cap within which a variable counts as at its cap


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
    with np.errstate(all="ignore"):
        mass = float(np.abs(point.beta) @ point.size) * (1 + len(point.beta) * U)
        norm = norm_squared(point.beta, f.hi, f.lo, f.error)
        if model is None:
            primal, primal_rounding = _primal(problem, point, f, norm, mass)
        else:
            of_model = (float(model[1].hi), float(model[1].lo), float(model[1].error), 0.0)
            known = replace(point, coefficient_error=0.0)
            primal, primal_rounding = _primal(problem, known, model[0], of_model, mass)
        dual, dual_rounding = _dual(problem, point, f, norm)
    rounding = primal_rounding + dual_rounding
    return Bracket(_known(primal), dual, _known(rounding))


def _known(value: float) -> float:
    return np.inf if np.isnan(value) else value


def relevant_rows(problem: SoftMargin, point: Point, f: Enclosure) -> IntArray:
    """Return the samples whose values matter: support vectors and those that may have a slack."""
    with np.errstate(all="ignore"):
        slack = np.abs(_slack_bounds(problem, point, f)[0])
    matters = (slack > 0).reshape(-1, problem.n_rows).any(axis=0)
    return np.flatnonzero(matters | (point.beta != 0))


def _slack_bounds(
    problem: SoftMargin, point: Point, f: Enclosure, mass: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Return the largest slack of each variable with the sign of its loss, and its error."""
    theta = abs(point.scale)
    error = f.error * theta + point.coefficient_error * theta * mass * point.size
    # The targets of tubes are rounded sums.
    uncertain = 2.0 * U if problem.n_variables > problem.n_rows else 0.0
    thresholds = point.thresholds if problem.n_groups else np.zeros(1)
    out = np.empty((2, problem.n_variables))
    losses_in = (problem.row, problem.target, problem.lower, problem.upper, problem.group)
    slacks(*losses_in, thresholds, point.scale, f.hi, f.lo, error, uncertain,
           point.threshold_error, out)  # fmt: skip
    return out[0], out[1]


def _primal(
    problem: SoftMargin, point: Point, f: Enclosure, norm: tuple[float, ...], mass: float
) -> tuple[float, float]:
    """Return an upper bound of the primal objective of the model, and the part due to rounding."""
    theta, blur = point.scale, point.coefficient_error
    slack, error = _slack_bounds(problem, point, f, mass)
    loss, loss_rounding = losses(slack, error, problem.lower, problem.upper, problem.ridge)
    # Coefficients beta (1 + eps): Q changes by 2 sum eps beta f + (sum eps beta q)^2 at most.
    high, low, error_of_norm, size_of_norm = norm
    spread = error_of_norm + 2.0 * blur * size_of_norm + (blur * mass) ** 2
    half = 0.5 * theta * theta
    offsets = [x for g in range(problem.n_groups)
               for x in _product(problem.totals[g], point.thresholds[g])]  # fmt: skip
    cost_error = point.cost_error + problem.n_variables * U
    spent = sum(abs(x) for x in offsets) * cost_error
    spent += float(np.abs(problem.totals).sum()) * point.threshold_error * (1 + cost_error)
    spent += half * spread + (loss + half * abs(high)) * FEW + loss * cost_error
    if theta == 1.0:
        quadratic = [0.5 * high, 0.5 * low]
    else:
        quadratic = [half * (high + low) * (1.0 + FEW)]
    total = fsum([*quadratic, loss, *offsets, spent * (1 + FEW), TINY])
    return float(np.nextafter(total, np.inf)), spent + loss_rounding


def _product(a: float, b: float) -> tuple[float, float]:
    """Return two numbers whose sum is a * b exactly."""
    return two_product(float(a), float(b))


def _dual(
    problem: SoftMargin, point: Point, f: Enclosure, norm: tuple[float, ...]
) -> tuple[float, float]:
    """Return a lower bound of the optimum, and the part of its error that is due to rounding."""
    # A negative |w|^2 proves that a matrix or function of the user is indefinite.
    mercer = point.mercer and not norm[0] + norm[1] + norm[2] < 0.0
    trivial = trivial_bound(problem, point.size) if mercer else -np.inf
    inside = (point.alpha >= problem.lower) & (point.alpha <= problem.upper)
    if not (mercer and inside.all()):
        return trivial, 0.0
    shrink = _shrink(problem, point)
    arrays = problem.target, problem.ridge, problem.group, problem.totals
    out = np.zeros((4, max(1, problem.n_groups)))
    linear, quadratic, linear_error = dual_sums(point.alpha, *arrays, shrink, out)
    high, low, error_of_norm, size_of_norm = norm
    if problem.n_variables > problem.n_rows:  # beta is a rounded sum of two variables
        mass = float(np.abs(point.beta) @ point.size)
        error_of_norm += 4.0 * U * size_of_norm + (2.0 * U * mass) ** 2
    norm2 = shrink * shrink * (high + low) + error_of_norm
    moved = _moves(problem, point, f, shrink, out)
    if moved is None:
        return trivial, 0.0
    gain, growth, cost = moved
    targets = 2.0 * U * (problem.n_variables > problem.n_rows)  # those of tubes are rounded sums
    absolute = float(np.abs(problem.target) @ np.abs(point.alpha))
    cost += linear_error + targets * absolute
    T = shrink * linear + gain - cost - FEW * (abs(linear) + abs(gain) + cost) - TINY
    quadratic *= shrink * shrink * (1.0 + 2.0 * point.cost_error)
    Q = max(0.0, norm2 + quadratic + growth)
    Q += FEW * (abs(high) + quadratic + abs(growth)) + TINY
    theta = 1.0
    if not problem.totals.any():
        free = np.isinf(problem.upper - problem.lower).all()
        theta = min(np.inf if free else 1.0, max(0.0, T / Q))
    dual = theta * T - 0.5 * theta * theta * Q
    dual -= FEW * (abs(theta * T) + theta * theta * Q)
    rounding = theta * cost + 0.5 * theta * theta * error_of_norm
    if not np.isfinite(dual):
        return trivial, np.inf
    return max(trivial, float(np.nextafter(dual, -np.inf))), rounding


def _shrink(problem: SoftMargin, point: Point) -> float:
    """Return the factor of alpha that makes it fit into boxes known up to a relative error.

    If totals are not zero, they are uncertain as well. The factor then leaves a residual whose sign
    is certain, so that variables at zero have room for it.
    """
    return 1.0 - _shrinkage(problem, point)


def _shrinkage(problem: SoftMargin, point: Point) -> float:
    units = np.ceil(point.cost_error / U)
    if problem.totals.any():
        units = 2.0 * (units + problem.n_variables) + 8.0
    return float(units * U)


def trivial_bound(problem: SoftMargin, size: FloatArray) -> float:
    """Return the lower bound that every feasible point gives.

    It is 0 if alpha = 0 is feasible, or if the two variables of a sample of a tube can cancel. In
    the other problems all targets are zero and |w| is at most the sum of |d_g| q.
    """
    if not problem.totals.any() or problem.n_variables > problem.n_rows:
        return 0.0
    largest = float(np.abs(problem.totals).sum()) * float(size.max()) * (1 + 1e-9)
    return float(-0.5 * largest * largest * (1 + FEW) - TINY)


def _moves(
    problem: SoftMargin, point: Point, f: Enclosure, shrink: float, sums: FloatArray
) -> tuple[float, float, float] | None:
    """Return what moving the residuals adds to the linear and quadratic terms, and its error.

    The rows of `sums` are the sums over each group (two parts), their error and the sum of absolute
    values. None: no variable has room for the residual.
    """
    gain = growth = cost = reach = 0.0
    for g in range(problem.n_groups):
        total = float(problem.totals[g])
        doubt = abs(total) * (point.cost_error + problem.n_variables * U) if total else 0.0
        low = shrink * sums[1, g]
        residual = fsum([*two_product(shrink, float(sums[0, g])), low, -total])
        doubt += sums[2, g] + 2.0 * U * (abs(low) + abs(residual))
        if residual == 0.0 and doubt == 0.0:
            continue
        k = _roomy(problem, point, f, g, shrink, residual, doubt)
        if k < 0 and total == 0.0:  # without free variables the sign of the residual matters
            residual = shrink * fsum(point.alpha[problem.group == g])
            doubt = 4.0 * U * abs(residual)
            if residual == 0.0:
                continue
            k = _roomy(problem, point, f, g, shrink, residual, doubt)
        if k < 0:
            full = _full(problem, point, g)
            if full is None:
                return None
            cost, growth, reach = cost + full[0], growth + full[1], reach + full[2]
            continue
        r = problem.row[k]
        value, size = float(f.hi[r] + f.lo[r]), float(point.size[r])
        error = float(f.error[r]) + 4.0 * U * abs(value)
        most = abs(residual) + doubt
        gain -= residual * float(problem.target[k])
        growth -= 2.0 * shrink * residual * value
        growth += 2.0 * (most * error + doubt * abs(value))
        ridge = float(problem.ridge[k])
        growth += ridge * (2.0 * abs(float(point.alpha[k])) * most + most * most)
        cost += doubt * abs(float(problem.target[k]))
        reach += most * size
    return gain, growth + reach * reach * (1 + FEW), cost


def _roomy(
    problem: SoftMargin,
    point: Point,
    f: Enclosure,
    g: int,
    shrink: float,
    residual: float,
    doubt: float,
) -> int:
    """Return the variable of group g that takes the residual, or -1."""
    arrays = point.alpha, problem.target, problem.lower, problem.upper, problem.ridge
    threshold = float(point.thresholds[g]) / point.scale if point.scale else 0.0
    return int(roomy(*arrays, problem.group, problem.row, f.hi, f.error, g, threshold,
                     shrink, residual, doubt))  # fmt: skip


def _full(problem: SoftMargin, point: Point, g: int) -> tuple[float, float, float] | None:
    """Return the errors of a group whose variables are all at their caps, or None.

    The total of such a group is the sum of its caps, so that there is no residual; the caps are
    known up to their relative error, and alpha was reduced by as much.
    """
    member = problem.group == g
    cap = np.where(problem.totals[g] > 0, problem.upper, problem.lower)[member]
    below = np.abs(cap - point.alpha[member]) / np.abs(cap)
    if not below.max(initial=0.0) <= FULL:
        return None
    doubt = 2.0 * (_shrinkage(problem, point) + float(below.max(initial=0.0)))
    mass = float(np.abs(cap) @ point.size[problem.row[member]])
    everything = float(np.abs(point.beta) @ point.size)
    linear = doubt * float(np.abs(cap) @ np.abs(problem.target[member]))
    return linear, 2.0 * doubt * mass * everything, doubt * mass
