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

from widemargin._base.double_double import CHARGE, U, add, multiply, two_product, two_sum
from widemargin._base.enclosure import DUST, Enclosure
from widemargin._base.jit import jit
from widemargin._base.products import combine, times
from widemargin._base.typing import FloatArray, Matrix
from widemargin.certificate import Bracket
from widemargin.problems.cumulative.links import LINKS
from widemargin.problems.cumulative.tangents import Tangents, losses, tangents
from widemargin.problems.linear_bounds import NOTHING, best_on_ray

if TYPE_CHECKING:
    from widemargin.problems.cumulative import CumulativeProblem

SETTLING = 60  # most Newton steps in the thresholds of the dual point; usually one or two
CLOSE = 1e-6  # steps below it decrease quadratically, down to rounding errors
SETTLED = 1e-14


def bracket(
    problem: CumulativeProblem,
    X: Matrix,
    coef: FloatArray,
    thresholds: FloatArray,
    *,
    blur: float,
    precise: bool,
    threads: int = 1,
) -> tuple[Bracket, float]:
    """Return bounds on the optimum, and the largest entry of the gradient of the model.

    That is the gradient of J with respect to the thresholds, and with respect to the weights at
    thresholds that are optimal for them. `blur` is the relative error of the sample weights.
    Without a penalty the lower bound is 0.
    """
    utility = times(X, coef, precise=precise, threads=threads)
    with np.errstate(all="ignore"):
        primal, dual = _loss(problem, utility, thresholds, blur), NOTHING
        ends, by_threshold = _dual_ends(problem, utility, thresholds)
        gain, pull = _minorant(problem, X, ends, blur, precise=precise, threads=threads)
        if problem.alpha > 0.0:
            w = Enclosure.exact(coef)
            primal = primal + w.dot(w) * (0.5 * problem.alpha)
            dual = best_on_ray(gain, pull.dot(pull) * 0.5 / problem.alpha, 1.0)
        by_weight = float(np.abs(problem.alpha * coef + pull.hi).max(initial=0.0))
    return Bracket.of(primal, dual, trivial=0.0), max(by_weight, by_threshold)


def _loss(
    problem: CumulativeProblem, utility: Enclosure, thresholds: FloatArray, blur: float
) -> Enclosure:
    """Return the sum of the losses; its upper end is proved, its centre an ordinary sum."""
    low, high = problem.ends(utility.hi, thresholds)
    low, high = low - utility.lo, high - utility.lo
    inner = utility.error + 8.0 * U * np.abs(utility.lo)
    outer_low = np.where(np.isfinite(low), low + (inner + 8.0 * U * np.abs(low)), low)
    outer_high = np.where(np.isfinite(high), high - (inner + 8.0 * U * np.abs(high)), high)
    found = losses(problem.link, outer_low, outer_high).dot(problem.weight).blurred(blur)
    above = found.upper()
    middle = float(problem.weight @ LINKS[problem.link].loss(low, high))
    if not (np.isfinite(above) and middle <= above):
        return Enclosure.within(above, 0.0)
    return Enclosure.within(middle, (above - middle) * (1.0 + 4.0 * U))


def _dual_ends(
    problem: CumulativeProblem, utility: Enclosure, thresholds: FloatArray
) -> tuple[tuple[FloatArray, FloatArray], float]:
    """Return the ends at the model with thresholds that are optimal for it up to rounding.

    The second value is the largest entry of the gradient at the given thresholds.
    """
    origin = float(thresholds[len(thresholds) // 2])
    centred = (utility.hi - origin) + utility.lo
    best = here = thresholds - origin
    first = least = np.inf
    for step in range(SETTLING):
        slopes = problem.slopes(centred, here)
        first = float(np.abs(slopes.threshold).max()) if step == 0 else first
        move = slopes.solve_thresholds(slopes.threshold)
        size = float(np.abs(move).max())
        if not size < (least if least < CLOSE else np.inf):  # rounding errors, or not finite
            break
        best, least = here, size
        here = here - move
        if size <= SETTLED or not (np.diff(here) > 0.0).all():
            break
    return problem.ends(centred, best), first


def _minorant(
    problem: CumulativeProblem,
    X: Matrix,
    ends: tuple[FloatArray, FloatArray],
    blur: float,
    *,
    precise: bool,
    threads: int,
) -> tuple[Enclosure, Enclosure]:
    """Return the constant of the minorant of the losses and v, see the module."""
    tangent, codes, d = tangents(problem.link, *ends), problem.codes, X.shape[1]
    factor, gain = _factors(problem, ends, tangent, blur)
    if not (np.isfinite(tangent).all() and np.isfinite(gain.error)):
        return NOTHING, Enclosure.within(np.zeros(d), np.full(d, np.inf))
    known = (factor.error + np.abs(factor.lo)) / factor.hi + blur + 8.0 * U
    share = factor.hi[codes] * problem.weight
    value = share * tangent.score
    error = np.abs(value) * known[codes] + share * tangent.score_error * (1.0 + 8.0 * U)
    mean = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    total = Enclosure.exact(value).sum()
    pull = combine(X, value, precise=precise, threads=threads) - total * mean
    return gain, pull.widened(_spread(X, mean, error) * (1.0 + (len(value) + 8) * U))


def _factors(
    problem: CumulativeProblem,
    ends: tuple[FloatArray, FloatArray],
    tangent: Tangents,
    blur: float,
) -> tuple[Enclosure, Enclosure]:
    """Return the factors c of the ranks, the largest at most 1, and the sum of c s e."""
    sums = np.zeros((3, 4, problem.n_ranks))
    rank_sums(problem.codes, problem.weight, blur, *ends, *tangent, sums)
    n = len(problem.codes)
    error = sums[:, 2] * (1.0 + (n + 8) * U) + CHARGE * (n + 16) * U * U * sums[:, 3] + DUST * n
    found = Enclosure(sums[:, 0], sums[:, 1], error)
    rises, falls, constants = found[0], found[1], found[2]
    chain = [Enclosure.exact(1.0)]
    for k in range(1, problem.n_ranks):
        chain.append(chain[-1] * (falls[k - 1] / rises[k]))
    largest = max(float(factor.upper()) for factor in chain)
    joined = Enclosure(*(np.array([getattr(f, name) for f in chain], dtype=np.float64)
                         for name in ("hi", "lo", "error")))  # fmt: skip
    factor = joined * ((1.0 - 4.0 * U) / largest)
    return factor, factor.dot(constants)


def _spread(X: Matrix, mean: FloatArray, error: FloatArray) -> FloatArray:
    """Return an upper bound of sum_i error_i |x_i - mean| per feature, up to rounding."""
    if sp.issparse(X):
        return np.asarray(abs(X).T @ error) + float(error.sum()) * np.abs(mean)
    return np.asarray(error @ np.abs(X - mean))


@jit
def rank_sums(  # type: ignore[no-untyped-def]
    codes, weight, blur, a, b, loss, loss_error, p, p_error, q, q_error, score, score_error, out
):
    """Add p, q and e, times the weights, to out: hi, lo, error and size of terms for each rank."""
    for i in range(len(codes)):
        k, s = codes[i], weight[i]
        for r in range(2):
            slope, wrong = (p[i], p_error[i]) if r == 0 else (q[i], q_error[i])
            h, low = two_product(s, slope)
            out[r, 0, k], out[r, 1, k] = add(out[r, 0, k], out[r, 1, k], h, low)
            out[r, 2, k] += s * wrong + blur * h
            out[r, 3, k] += h
        end = b[i] if np.isinf(a[i]) else a[i]
        h, low = two_product(score[i], end)
        wrong, size = loss_error[i] + abs(end) * score_error[i], loss[i] + abs(h)
        h, low = add(h, low, loss[i], 0.0)
        if not (np.isinf(a[i]) or np.isinf(b[i])):
            wide, rest = two_sum(b[i], -a[i])
            wide, rest = multiply(wide, rest, q[i], 0.0)
            h, low = add(h, low, wide, rest)
            wrong += (b[i] - a[i]) * q_error[i]
            size += abs(wide)
        h, low = multiply(h, low, s, 0.0)
        out[2, 0, k], out[2, 1, k] = add(out[2, 0, k], out[2, 1, k], h, low)
        out[2, 2, k] += s * wrong * (1.0 + 8.0 * U) + blur * abs(h)
        out[2, 3, k] += s * size
