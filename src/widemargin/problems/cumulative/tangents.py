r"""Losses of the links and their slopes, with bounds on their errors.

For float64 numbers :math:`a < b` (:math:`a = -\infty` or :math:`b = \infty` allowed) let
:math:`\ell = -\log(P(b) - P(a))`, :math:`q = -\partial\ell/\partial b \ge 0`,
:math:`p = \partial\ell/\partial a \ge 0` and the *score* :math:`q - p`, the derivative with respect
to the utility. As :math:`\ell` is convex, it is nowhere below its tangent

.. math:: \ell(a', b') \ge e + p\, a' - q\, b', \qquad
    e = \ell - p\,a + q\,b = \ell + q\,(b - a) + (q - p)\,a .

The formulas are those of :mod:`widemargin.problems.cumulative.links`, arranged so that no term is
large where the result is small: the score of a narrow interval is the difference of two slopes that
tend to infinity. With :math:`g = b - a` and :math:`\varphi(g) = -\log(1 - e^{-g})`,

=======  ===================================================  ====================================
link     slopes                                               score
=======  ===================================================  ====================================
logit    :math:`\sigma(a) + o, \sigma(-b) + o`,               :math:`\sigma(-b) - \sigma(a)`
         :math:`o = 1/(e^g - 1)`
cloglog  :math:`e^a (1 + o), e^b o`, with                     :math:`o\,(e^b - e^a) - e^a`
         :math:`o = 1/(\exp(e^b - e^a) - 1)`
probit   density over probability; the probability from       :math:`q (1 - e^{-g |m|})` left of
         Mills' ratios left of zero, from erf around it,      zero, m the midpoint
         from a series at the midpoint of short intervals
=======  ===================================================  ====================================

Errors are counted from those of the elementary functions, which are **assumed** to be at most
`EXP_ULP` and `NORMAL_ULP` units (:mod:`widemargin._base.normal`), and tested against mpmath.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from widemargin._base.double_double import EXP_ULP, U
from widemargin._base.enclosure import DUST, Enclosure
from widemargin._base.normal import (
    HALF_LOG_2PI,
    RATIO_UNITS,
    central_mass,
    density,
    mills,
    upper_tail,
)
from widemargin._base.typing import FloatArray

FAR_LEFT = -40.0  # cloglog: exp(b) is below the rounding error of -b
SHORT = 0.005  # probit: half-width times (1 + |midpoint|) up to which the series is used
LOG_2 = 0.6931471805599453


class Tangents(NamedTuple):
    """Float64 values of loss, p, q and score, and bounds on their absolute errors."""

    loss: FloatArray
    loss_error: FloatArray
    p: FloatArray
    p_error: FloatArray
    q: FloatArray
    q_error: FloatArray
    score: FloatArray
    score_error: FloatArray


def tangents(link: str, a: FloatArray, b: FloatArray) -> Tangents:
    """Return losses, slopes and scores at the ends a and b; unknown where a >= b."""
    with np.errstate(all="ignore"):
        rough = _of_link(link, a, b)
        bounds = [np.where(a < b, rough[k] * (1 + 1e-6) + DUST, np.inf) for k in (1, 3, 5, 7)]
        return Tangents(
            *(rough[k] if k % 2 == 0 else bounds[k // 2] for k in range(8)),
        )


def losses(link: str, a: FloatArray, b: FloatArray) -> Enclosure:
    """Return the losses at the ends a and b, infinite where a >= b."""
    with np.errstate(all="ignore"):
        rough = _of_link(link, a, b)
        value = np.where(a < b, rough.loss, np.inf)
        return Enclosure.within(value, rough.loss_error * (1 + 1e-6) + DUST)


def _of_link(link: str, a: FloatArray, b: FloatArray) -> Tangents:
    return {"logit": _logit, "cloglog": _cloglog, "probit": _probit}[link](a, b)


def _minus_log_rest(gap: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return -log(1 - exp(-gap)) for float64 gaps, and its relative error in U."""
    small = gap < LOG_2
    value = np.where(small, -np.log(-np.expm1(-gap)), -np.log1p(-np.exp(-gap)))
    return value, np.asarray(3.0 * EXP_ULP + 2.0)


def _odds(gap: FloatArray, blur: float) -> tuple[FloatArray, FloatArray]:
    """Return 1 / (exp(gap) - 1) for gaps with a relative error of `blur` U, and its own in U."""
    odds = 1.0 / np.expm1(gap)
    return odds, np.where(odds > 0.0, EXP_ULP + 3.0 + 1.01 * blur * (1.0 + gap), 0.0)


# ------------------------------------------------------------------------------------- logit


def _sigmoid(x: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(-x)), within EXP_ULP + 3 units of U."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0.0, 1.0, e) / (1.0 + e)


def _softplus(x: FloatArray) -> FloatArray:
    """Return log(1 + exp(x)), within 2 EXP_ULP + 2 units of U."""
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def _logit(a: FloatArray, b: FloatArray) -> Tangents:
    gap = b - a
    odds, units = _odds(gap, 1.0)
    rest, rest_units = _minus_log_rest(gap)
    outer = _softplus(-b) + _softplus(a)
    loss = outer + rest
    # A relative error U of the gap changes `rest` by gap * odds * U, at most U.
    loss_error = (2.0 * EXP_ULP + 6.0) * outer + (rest_units + 4.0) * rest
    loss_error += np.where(odds > 0.0, 1.01 * gap * odds, 0.0)
    low, high = _sigmoid(a), _sigmoid(-b)
    each = EXP_ULP + 4.0
    return Tangents(
        loss, loss_error * U,
        low + odds, (each * low + (units + 1.0) * odds) * U,
        high + odds, (each * high + (units + 1.0) * odds) * U,
        high - low, (each + 1.0) * (high + low) * U,
    )  # fmt: skip


# ----------------------------------------------------------------------------------- cloglog


def _cloglog(a: FloatArray, b: FloatArray) -> Tangents:
    gap = b - a
    low, high = np.exp(a), np.exp(b)
    mass = np.where(gap <= 1.0, low * np.expm1(gap), high - low)
    blur = 2.0 * EXP_ULP + 6.0  # of the mass; the difference of far ends loses a factor of 2.2
    odds, units = _odds(mass, blur)
    rest, rest_units = _minus_log_rest(mass)
    pulled = np.where(odds > 0.0, mass * odds, 0.0)  # from 1 to 0
    loss = low + rest
    loss_error = (EXP_ULP + 1.0) * low + (rest_units + 1.0) * rest + 1.01 * blur * pulled
    q = np.where(odds > 0.0, high * odds, 0.0)
    units_of_slope = units + EXP_ULP + 3.0
    near = Tangents(
        loss, loss_error * U,
        low * (1.0 + odds), (units_of_slope * low * odds + (EXP_ULP + 2.0) * low) * U,
        # Where the odds underflow, q = high exp(-mass) does as well, unless low is near high.
        q, units_of_slope * q * U + np.where(high > 2.0 * mass, DUST * high, 0.0),
        pulled - low, (units + blur + 3.0) * (pulled + low) * U,
    )  # fmt: skip
    far = b < FAR_LEFT
    if not far.any():
        return near
    # P(t) = exp(t) there, up to a relative error below U: the loss is -b - log(1 - exp(-gap)).
    odds, units = _odds(gap, 1.0)
    rest, rest_units = _minus_log_rest(gap)
    rest_error = (rest_units + 1.0) * rest + np.where(odds > 0.0, 1.01 * gap * odds, 0.0)
    tangent = Tangents(
        rest - b, (rest_error + 2.0 * np.abs(b)) * U,
        odds, (units + 2.0) * odds * U,
        1.0 + odds, ((units + 2.0) * odds + 2.0) * U,
        np.ones_like(b), np.full_like(b, 2.0 * U),
    )  # fmt: skip
    return Tangents(*(np.where(far, one, other) for one, other in zip(tangent, near, strict=True)))


# ------------------------------------------------------------------------------------ probit


def _probit(a: FloatArray, b: FloatArray) -> Tangents:
    """Return the values of the interval or of its mirror image, the one further left."""
    mirror = a + b > 0.0
    left, right = np.where(mirror, -b, a), np.where(mirror, -a, b)
    middle, gap = 0.5 * (left + right), right - left
    short = 0.5 * gap * (1.0 + np.abs(middle)) < SHORT
    out = np.empty((8, len(right)))
    parts = (short, _short), (~short & (right <= 0.0), _tail), (~short & (right > 0.0), _central)
    for where, values in parts:
        chosen = np.flatnonzero(where)
        if len(chosen):
            at = left[chosen], right[chosen], middle[chosen], gap[chosen]
            for row, value in zip(out, values(*at), strict=True):
                row[chosen] = value
    loss, loss_error, p, p_error, q, q_error, score, score_error = out
    return Tangents(
        loss, loss_error,
        np.where(mirror, q, p), np.where(mirror, q_error, p_error),
        np.where(mirror, p, q), np.where(mirror, p_error, q_error),
        np.where(mirror, -score, score), score_error,
    )  # fmt: skip


def _loss_of_slope(right: FloatArray, q: FloatArray, units: FloatArray) -> tuple[FloatArray, ...]:
    """Return -log(density(right) / q) and its error, given the relative error of q in U."""
    half, log = 0.5 * right * right, np.log(q)
    error = 1.01 * units + EXP_ULP * np.abs(log) + 4.0 * (half + 1.0 + np.abs(log))
    return half + HALF_LOG_2PI + log, error * U


def _short(left: FloatArray, right: FloatArray, m: FloatArray, gap: FloatArray) -> Tangents:
    """Expand the probability at the midpoint m in powers of half the width."""
    h = 0.5 * gap
    square, s = h * h, m * m
    series = 1.0 + square * ((s - 1.0) / 6.0 + square * (s * s - 6.0 * s + 3.0) / 120.0)
    units = EXP_ULP + 14.0 + np.zeros_like(m)
    common = np.exp(-0.5 * square) / (gap * series)
    q, p = common * np.exp(-h * m), common * np.exp(h * m)
    score = -2.0 * np.sinh(h * m) * common
    units = units + EXP_ULP
    loss, loss_error = _loss_of_slope(right, q, units)
    return Tangents(
        loss, loss_error, p, units * p * U, q, units * q * U, score, units * np.abs(score) * U
    )


def _tail(left: FloatArray, right: FloatArray, m: FloatArray, gap: FloatArray) -> Tangents:
    """Use Mills' ratios of both ends, which are not positive."""
    closed = np.isfinite(left)
    exponent = np.where(closed, gap * m, -np.inf)
    fall, steep = np.exp(exponent), mills(-right)
    ratio = np.where(closed, fall * mills(np.where(closed, -left, 0.0)) / steep, 0.0)
    rest = 1.0 - ratio
    blur = np.where(closed, 4.0 * np.abs(exponent), 0.0) + EXP_ULP + 2.0
    ratio_error = np.where(ratio > 0.0, ratio * (blur + 2.0 * RATIO_UNITS), 0.0)
    units = RATIO_UNITS + 3.0 + 1.01 * ratio_error / rest
    q = 1.0 / (steep * rest)
    p = fall * q
    score = -q * np.expm1(exponent)
    p_units = np.where(p > 0.0, units + blur, 0.0)
    loss, loss_error = _loss_of_slope(right, q, units)
    return Tangents(
        loss, loss_error, p, p_units * p * U, q, units * q * U,
        score, (units + EXP_ULP + 8.0) * score * U,
    )  # fmt: skip


def _central(left: FloatArray, right: FloatArray, m: FloatArray, gap: FloatArray) -> Tangents:
    """Use the error function; zero is inside the interval."""
    (tail, units), (other, other_units) = upper_tail(right), upper_tail(-left)
    other = np.where(np.isfinite(left), other, 0.0)
    outside = tail + other
    probability = np.where(outside < 0.5, 1.0 - outside, central_mass(-left, right))
    wide = outside < 0.5
    loss = np.where(wide, -np.log1p(-outside), -np.log(probability))
    tails_error = units * tail + np.where(other > 0.0, other_units * other, 0.0) + outside
    own = np.where(wide, 2.0 * tails_error, RATIO_UNITS + 2.0)
    found, errors = [], []
    for end in (left, right):
        value, value_units = density(end)
        value = np.where(np.isfinite(end), value / probability, 0.0)
        found.append(value)
        errors.append(np.where(value > 0.0, value * (value_units + own + 2.0) * U, 0.0))
    score = found[1] - found[0]
    return Tangents(
        loss, (1.01 * own + (EXP_ULP + 1.0) * np.abs(loss)) * U,
        found[0], errors[0], found[1], errors[1],
        score, errors[0] + errors[1] + 2.0 * U * np.abs(score),
    )  # fmt: skip
