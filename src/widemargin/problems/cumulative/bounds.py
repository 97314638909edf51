r"""Bounds of cumulative link models that hold in exact arithmetic.

**Above.** The losses of the published model decrease in the upper end of a sample's interval and
increase in the lower one. The ends are enclosed, and the loss is evaluated at the floats that are
outside of the enclosures.

**Below.** Let :math:`a_i < b_i` be *any* float64 numbers, for instance the ends at a model, and
:math:`e_i, p_i, q_i \ge 0` the constant and the slopes of the tangent of the loss there
(:mod:`widemargin.problems.cumulative.tangents`). As losses are not negative, a factor
:math:`0 \le c \le 1` of a tangent is below the loss as well. With one factor for each rank k,

.. math::

    J(w, \theta) \ge \tfrac{\alpha}{2} |w|^2 + \sum_i c_{y_i} s_i
    \bigl[e_i + p_i (\theta_{y_i - 1} - u_i) - q_i (\theta_{y_i} - u_i)\bigr].

Threshold k has the coefficient :math:`c_{k+1} A_{k+1} - c_k B_k`, where :math:`A_k = \sum s_i p_i`
and :math:`B_k = \sum s_i q_i` over the samples of rank k. The factors

.. math:: c_{k+1} = c_k\, B_k / A_{k+1}

make all of these coefficients **exactly** zero: they are real numbers of which enclosures are
known, all close to 1 if the thresholds are optimal for the utilities. What is left is a function
of w whose minimum is known, so that

.. math::

    \min J \ge \max_{0 \le t \le 1} \; t \sum_i c_{y_i} s_i e_i - \frac{t^2}{2 \alpha} |v|^2, \qquad
    v = \sum_i c_{y_i} s_i (q_i - p_i)\, x_i .

The coefficients of v have the sum zero, also exactly, so that v does not depend on the origin of
the samples: the errors of the coefficients are multiplied by distances to the mean.

No step uses that a point is optimal; a poor one gives a poor bound, and 0 always holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from widemargin._base.double_double import U
from widemargin._base.enclosure import Enclosure
from widemargin._base.products import combine, times
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin.certificate import Bracket
from widemargin.problems.cumulative.tangents import Tangents, losses, tangents
from widemargin.problems.linear_bounds import NOTHING, best_on_ray

if TYPE_CHECKING:
    from widemargin.problems.cumulative import CumulativeProblem

SETTLING = 6  # Newton steps in the thresholds of the dual point; one or two suffice near an optimum
SETTLED = 1e-15  # residual of the thresholds relative to the sum of their slopes


def bracket(
    problem: CumulativeProblem,
    X: Matrix,
    coef: FloatArray,
    thresholds: FloatArray,
    *,
    blur: float,
    precise: bool,
    threads: int = 1,
) -> tuple[Bracket, FloatArray]:
    """Return bounds on the optimum, and the gradient of J at the settled thresholds.

    `blur` is the relative error of the sample weights. Without a penalty the lower bound is 0.
    """
    utility = times(X, coef, precise=precise, threads=threads)
    weight = Enclosure.exact(problem.weight).blurred(blur)
    with np.errstate(all="ignore"):
        primal = _loss(problem, utility, thresholds, weight)
        if problem.alpha > 0.0:
            w = Enclosure.exact(coef)
            primal = primal + w.dot(w) * (0.5 * problem.alpha)
        ends = _dual_ends(problem, utility, thresholds)
        gain, pull = _minorant(problem, X, ends, weight, precise=precise, threads=threads)
        dual = NOTHING
        if problem.alpha > 0.0:
            dual = best_on_ray(gain, pull.dot(pull) * 0.5 / problem.alpha, 1.0)
        gradient = problem.alpha * coef + pull.hi
    return Bracket.of(primal, dual, trivial=0.0), gradient


def _loss(
    problem: CumulativeProblem, utility: Enclosure, thresholds: FloatArray, weight: Enclosure
) -> Enclosure:
    """Return the sum of the losses, from its values at the outer and at the inner ends."""
    inner = Enclosure.exact(np.append(thresholds, 0.0)[problem.codes]) - utility
    outer = Enclosure.exact(np.append(0.0, thresholds)[problem.codes]) - utility
    first, last = problem.codes == 0, problem.codes == problem.n_ranks - 1
    worst = losses(
        problem.link,
        np.where(first, -np.inf, outer.upper()),
        np.where(last, np.inf, inner.lower()),
    )
    best = losses(
        problem.link,
        np.where(first, -np.inf, outer.lower()),
        np.where(last, np.inf, inner.upper()),
    )
    above, below = worst.dot(weight).upper(), max(0.0, best.dot(weight).lower())
    if not np.isfinite(above):
        return Enclosure.within(np.inf, 0.0)
    middle = 0.5 * (above + below)
    return Enclosure.within(middle, (0.5 * (above - below)) * (1.0 + 8.0 * U) + 2.0 * U * above)


def _dual_ends(
    problem: CumulativeProblem, utility: Enclosure, thresholds: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the ends at the model, at thresholds that are optimal for it up to rounding."""
    origin = float(thresholds[len(thresholds) // 2])
    centred = (utility - origin).hi
    best = here = thresholds - origin
    least = np.inf
    for _ in range(SETTLING):
        if not (np.diff(here) > 0.0).all():
            break
        slopes = problem.slopes(centred, here)
        size = np.abs(slopes.threshold).max() / max(float(problem.weight.sum()), U)
        if not size < least:
            break
        best, least = here, size
        if size <= SETTLED:
            break
        here = here - slopes.solve_thresholds(slopes.threshold)
    return problem.ends(centred, best)


def _minorant(
    problem: CumulativeProblem,
    X: Matrix,
    ends: tuple[FloatArray, FloatArray],
    weight: Enclosure,
    *,
    precise: bool,
    threads: int,
) -> tuple[Enclosure, Enclosure]:
    """Return the constant of the minorant of the losses and v, see the module."""
    tangent = tangents(problem.link, *ends)
    factor = _factors(problem.codes, problem.n_ranks, tangent, weight)
    share = weight * factor[problem.codes]
    gain = tangent.constant.dot(share)
    coefficients = tangent.score * share
    value = coefficients.hi
    if not np.isfinite(coefficients.error).all():
        nothing = np.full(X.shape[1], np.inf)
        return NOTHING, Enclosure.within(np.zeros(X.shape[1]), nothing)
    error = coefficients.error + np.abs(coefficients.lo)
    mean = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    total = Enclosure.exact(value).sum()
    pull = combine(X, value, precise=precise, threads=threads) - total * mean
    return gain, pull.widened(_spread(X, mean, error) * (1.0 + (len(value) + 8) * U))


def _factors(codes: IntArray, n_ranks: int, tangent: Tangents, weight: Enclosure) -> Enclosure:
    """Return the factors c of the ranks, the largest of them at most 1."""
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(n_ranks + 1))
    rises, falls = (weight * tangent.p)[order], (weight * tangent.q)[order]
    factors = [Enclosure.exact(1.0)]
    for k in range(1, n_ranks):
        fall = falls[starts[k - 1] : starts[k]].sum()
        factors.append(factors[-1] * (fall / rises[starts[k] : starts[k + 1]].sum()))
    largest = max(float(factor.upper()) for factor in factors)
    if not np.isfinite(largest):
        return Enclosure.within(np.zeros(n_ranks), np.full(n_ranks, np.inf))
    joined = Enclosure(*(np.array([getattr(f, name) for f in factors], dtype=np.float64)
                         for name in ("hi", "lo", "error")))  # fmt: skip
    return joined * ((1.0 - 4.0 * U) / largest)


def _spread(X: Matrix, mean: FloatArray, error: FloatArray) -> FloatArray:
    """Return an upper bound of sum_i error_i |x_i - mean| per feature, up to rounding."""
    if sp.issparse(X):
        return np.asarray(abs(X).T @ error) + float(error.sum()) * np.abs(mean)
    return np.asarray(error @ np.abs(X - mean))
