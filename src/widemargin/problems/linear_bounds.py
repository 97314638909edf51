r"""Bounds of linear problems that hold in exact arithmetic: sums over samples with their errors.

A linear model is certified by a few sums over the samples, each an
:class:`~widemargin._base.enclosure.Enclosure`: the loss, and for multipliers :math:`a_v \ge 0` of
the positive and of the negative variables (sign :math:`s_v`, target :math:`t_v`, cost
:math:`c_v`) separately

==========  ==============================================  ======================================
sum         formula                                         meaning
==========  ==============================================  ======================================
`charge`    :math:`\sum_v a_v`                              equal for both signs with an intercept
`gain`      :math:`\sum_v s_v t_v a_v`                      linear part of the dual
`square`    :math:`\sum_v a_v^2 / (4 c_v)`                  quadratic part for squared losses
`pull`      :math:`\sum_v s_v a_v x_v`                      w of the dual
==========  ==============================================  ======================================

The multipliers are float64 numbers, whose sums differ from each other by rounding errors. The
proof needs a feasible *real* point only: the variables of the sign with the larger charge are
multiplied by the exact quotient of the charges, a real number of which an enclosure is known, and
all of them by a factor that maximises the dual. Costs are products of float64 numbers, so that the
stored ones have a relative error of `cost_error`; a factor below 1 keeps the variables within the
exact costs. Sums over parts of the data are added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin._base.double_double import CHARGE, U, add, multiply
from widemargin._base.enclosure import Enclosure
from widemargin._base.jit import jit
from widemargin._base.products import combine, gamma
from widemargin._base.typing import FloatArray, Matrix
from widemargin.certificate import Bracket

PLAIN_COST_ERROR = 12.0 * U
"""Relative error of a cost: products of C, a weight and a factor of a class, and a reciprocal."""

NOTHING = Enclosure.exact(0.0)


@dataclass(frozen=True, eq=False)
class DualSums:
    """Sums of the multipliers, for the positive and the negative variables; see the module.

    Attributes
    ----------
    charge, gain, square : Enclosure of shape (2,)
        Sums over the variables.
    pull : Enclosure of shape (2, n_features)
        Sums over the samples.
    """

    charge: Enclosure
    gain: Enclosure
    square: Enclosure
    pull: Enclosure

    def __add__(self, other: DualSums) -> DualSums:
        return DualSums(
            self.charge + other.charge,
            self.gain + other.gain,
            self.square + other.square,
            self.pull + other.pull,
        )

    def scaled(self, cap: float) -> DualSums:
        """Return the sums of multipliers and costs that are `cap` times as large."""
        return DualSums(self.charge * cap, self.gain * cap, self.square * cap, self.pull * cap)

    def balanced(self, intercept: bool) -> tuple[Enclosure, Enclosure, Enclosure] | None:
        """Return gain, square and pull of variables that satisfy the equality constraint.

        Without an intercept there is none. None is returned if the sums are too uncertain.
        """
        share = [Enclosure.exact(1.0)] * 2
        if intercept:
            light = int(self.charge.hi[1] < self.charge.hi[0])
            if not self.charge[light].lower() > 0.0:
                return None
            share[1 - light] = self.charge[light] / self.charge[1 - light]
            most = share[1 - light].upper()
            if not most <= 2.0:
                return None
            if most > 1.0 + 16.0 * U:  # equal charges, up to their errors: shrink both classes
                share = [found * ((1.0 - 4.0 * U) / most) for found in share]
        gain = self.gain[0] * share[0] + self.gain[1] * share[1]
        square = self.square[0] * share[0] * share[0] + self.square[1] * share[1] * share[1]
        return gain, square, self.pull[0] * share[0] + self.pull[1] * share[1]


def dual_sums(
    X: Matrix,
    signed: tuple[FloatArray, FloatArray],
    target: tuple[FloatArray, FloatArray],
    cost: tuple[FloatArray, FloatArray],
    *,
    squared: bool,
    target_error: float = 0.0,
    precise: bool = False,
    threads: int = 1,
) -> DualSums:
    """Return the sums of dual variables with signs.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        Samples.
    signed : pair of ndarray of shape (n,)
        Positive variables, and negative ones; zero where a sample has none.
    target, cost : pair of ndarray of shape (n,)
        Targets and costs of these variables.
    squared : bool
        Whether the loss is squared.
    target_error : float, default=0.0
        Relative error of the targets.
    precise, threads
        As in :func:`widemargin._base.products.times`.
    """
    found = np.zeros((2, 3, 3))
    for k in range(2):
        variable_sums(signed[k], target[k], cost[k], squared, found[k])
    unit = CHARGE * (2.0 * X.shape[0] + 16.0) * U * U
    with np.errstate(all="ignore"):
        error = found[:, :, 2] * unit + 1e-290
        sums = [Enclosure(found[:, m, 0], found[:, m, 1], error[:, m]) for m in range(3)]
        if target_error:
            sums[1] = sums[1].widened(target_error * (1.0 + 1e-6) * found[:, 1, 2])
    pulls = [combine(X, a, precise=precise, threads=threads) for a in signed]
    parts = zip(*((p.hi, p.lo, p.error) for p in pulls), strict=True)
    pull = Enclosure(*(np.stack(part) for part in parts))
    return DualSums(sums[0], sums[1], sums[2], pull)


def loss_sum(
    target: FloatArray,
    f: Enclosure,
    intercept: float,
    sign: FloatArray,
    cost: FloatArray,
    *,
    squared: bool,
    target_error: float = 0.0,
) -> Enclosure:
    """Return the sum of cost * max(0, sign (target - f - intercept)), or of its square."""
    out = np.zeros(4)
    sum_losses(target, f.hi, f.lo, f.error, intercept, sign, cost, squared, target_error, out)
    with np.errstate(all="ignore"):
        n = len(target)
        error = out[2] * (1.0 + gamma(n + 16)) + CHARGE * (4.0 * n + 16.0) * U * U * out[3]
        return Enclosure(np.asarray(out[0]), np.asarray(out[1]), np.asarray(error + 1e-290))


def squared_norm(w: FloatArray, intercept: float, constant: float | None) -> Enclosure:
    """Return |w|^2, plus the square of a penalised intercept over its constant feature."""
    weights = Enclosure.exact(w)
    found = weights.dot(weights)
    if constant is not None:
        last = Enclosure.exact(intercept) / constant
        found = found + last * last
    return found


def ridge_bracket(
    norm2: Enclosure, loss: Enclosure, sums: DualSums, *, intercept: bool, capped: bool, blur: float
) -> Bracket:
    """Return the bounds of 1/2 |w|^2 + loss, with variables below their costs if `capped`.

    `blur` is the relative error of the costs.
    """
    primal = norm2 * 0.5 + loss.blurred(blur)
    dual = NOTHING
    found = sums.balanced(intercept)
    if found is not None:
        gain, square, pull = found
        curve = pull.dot(pull) * 0.5 + square.blurred(blur)
        dual = best_on_ray(gain, curve, 1.0 - 2.0 * blur if capped else np.inf)
    return Bracket.of(primal, dual, trivial=0.0)


def best_on_ray(gain: Enclosure, curve: Enclosure, longest: float) -> Enclosure:
    """Return max_t (t gain - t^2 curve) at a t of [0, longest] that is near the best one."""
    most, least = float(gain.hi), float(curve.hi)
    if not (most > 0.0 and np.isfinite(most) and np.isfinite(least)):
        return NOTHING
    length = longest
    if 2.0 * least * longest > most:
        length = min(longest, most / (2.0 * least))
    if not np.isfinite(length):
        return NOTHING
    return gain * length - curve * length * length


@jit
def variable_sums(signed, target, cost, squared, out):  # type: ignore[no-untyped-def]
    """Add the charge, gain and square of variables to out: hi, lo and sum of absolute terms."""
    for i in range(len(signed)):
        s = signed[i]
        if s == 0.0:
            continue
        out[0, 0], out[0, 1] = add(out[0, 0], out[0, 1], abs(s), 0.0)
        h, low = multiply(s, 0.0, target[i], 0.0)
        out[1, 0], out[1, 1] = add(out[1, 0], out[1, 1], h, low)
        out[1, 2] += abs(h)
        if squared:
            h, low = multiply(s, 0.0, s, 0.0)
            # One rounding of the quotient: a relative error of a few units, charged to the cost.
            h = 0.25 * (h + low) / cost[i]
            out[2, 0], out[2, 1] = add(out[2, 0], out[2, 1], h, 0.0)
    out[0, 2] += out[0, 0]
    out[2, 2] += out[2, 0]


@jit
def sum_losses(target, hi, lo, error, b, sign, cost, squared, target_error, out):  # type: ignore[no-untyped-def]
    """Write hi, lo, error and sum of absolute terms of the weighted losses to out."""
    h, low, wrong, size = 0.0, 0.0, 0.0, 0.0
    for i in range(len(target)):
        t, f = target[i], hi[i]
        terms = abs(t) + abs(f) + abs(b)
        rough = sign[i] * (t - f - b)
        if rough + error[i] + (8.0 * U + target_error) * terms < 0.0:
            continue  # surely without a loss
        sh, sl = add(t, 0.0, -f, -lo[i])
        sh, sl = add(sh, sl, -b, 0.0)
        sh, sl = sign[i] * sh, sign[i] * sl
        e = error[i] + target_error * abs(t) + 24.0 * U * U * terms
        if sh < 0.0:
            sh, sl = 0.0, 0.0
        c = cost[i]
        if squared:
            e = (2.0 * sh + e) * e * (1.0 + 1e-12)
            sh, sl = multiply(sh, sl, sh, sl)
        sh, sl = multiply(sh, sl, c, 0.0)
        h, low = add(h, low, sh, sl)
        size += sh
        wrong += c * e
    out[0], out[1], out[2], out[3] = h, low, wrong, size


def positive_and_negative(alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the positive and the negative part of dual variables with signs."""
    return np.maximum(alpha, 0.0), np.minimum(alpha, 0.0)


def halves(values: Any) -> tuple[Any, Any]:
    """Return the two blocks of the variables of a tube."""
    n = len(values) // 2
    return values[:n], values[n:]
