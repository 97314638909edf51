r"""Functions of the standard normal distribution with bounds on their errors.

With the density :math:`\varphi` and the distribution function :math:`\Phi` these are Mills' ratio
:math:`\Phi(-x)/\varphi(x)`, the hazard :math:`F(t) = \varphi(t)/\Phi(t)`, the excess
:math:`e(t) = t + F(t)`, and

.. math:: M(t) = \log\Phi(t) - t F(t) - \tfrac12 F(t)^2 = -\tfrac12 e(t)^2 - \log(\sqrt{2\pi} F(t)),

of which the first form is accurate on the right and the second one on the left, where the terms of
the first one are of the order of :math:`t^2` and cancel. F, e and M decrease, increase and increase
in t; M is convex as a function of F, with derivative -e.

The functions of SciPy are **assumed** to be accurate: `erfcx` of numbers that are not negative and
`erf` within `NORMAL_ULP`, those of NumPy within `EXP_ULP` units of U. This is tested against
mpmath, not proved. The other errors are counted. Let :math:`|\delta| \le k U` be the relative error
of an argument:

- erf(x) and erfcx(x), x > 0, change by at most :math:`|\delta|`, relatively;
- :math:`\exp(-t^2/2)` from the rounded square of t has a relative error of :math:`t^2/2` U more
  than the exponential function itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import erf, erfcx

from widemargin._base.double_double import EXP_ULP, U
from widemargin._base.enclosure import DUST, Enclosure
from widemargin._base.typing import FloatArray

NORMAL_ULP = 16.0
"""Assumed bound on the relative error of SciPy's erf and erfcx (arguments >= 0), in U."""

RATIO_UNITS = NORMAL_ULP + 8.0
ROOT_2 = float(np.sqrt(2.0))
ROOT_HALF_PI = float(np.sqrt(0.5 * np.pi))
ROOT_2PI = float(np.sqrt(2.0 * np.pi))
HALF_LOG_2PI = float(0.5 * np.log(2.0 * np.pi))
FAR_LEFT = -4.0  # below it t + F(t) suffers from cancellation; use a continued fraction
FRACTION_TERMS = 60  # further terms are below the rounding error at t = -4
FRACTION_UNITS = 16.0
MIDDLE = -1.0  # where the two forms of M are equally accurate


class Hazard(NamedTuple):
    """Enclosures of F, e and M at float64 numbers t, see the module."""

    value: Enclosure
    excess: Enclosure
    legendre: Enclosure


def mills(x: FloatArray) -> FloatArray:
    """Return (1 - Phi(x)) / phi(x) for x >= 0, within RATIO_UNITS units of U."""
    return np.asarray(ROOT_HALF_PI * erfcx(x / ROOT_2))


def density(t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return phi(t) and its relative error in units of U, up to underflow."""
    half = 0.5 * t * t
    return np.exp(-half) / ROOT_2PI, EXP_ULP + 4.0 + 1.01 * half


def upper_tail(t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return 1 - Phi(t) for t >= 0 and its relative error in units of U, up to underflow."""
    value, units = density(t)
    return value * mills(t), units + RATIO_UNITS + 1.0


def central_mass(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return Phi(right) - Phi(-left) for left, right >= 0, within RATIO_UNITS units of U."""
    return np.asarray(0.5 * (erf(left / ROOT_2) + erf(right / ROOT_2)))


def hazard(t: FloatArray) -> Hazard:
    """Return enclosures of the hazard F, the excess e and M; see the module."""
    t = np.asarray(t, dtype=np.float64)
    value, value_error = np.empty_like(t), np.empty_like(t)
    excess, excess_error = np.empty_like(t), np.empty_like(t)
    with np.errstate(all="ignore"):
        far = t < FAR_LEFT
        x = -t[far]
        excess[far] = excess_far_left(x)[0]
        excess_error[far] = FRACTION_UNITS * U * excess[far]
        value[far] = x + excess[far]
        value_error[far] = 4.0 * U * value[far]  # the excess is at most a fifth of F
        left = ~far & (t <= 0.0)
        value[left] = 1.0 / mills(-t[left])
        value_error[left] = (RATIO_UNITS + 2.0) * U * value[left]
        right = ~(far | left)
        dense, units = density(t[right])
        rest = 1.0 - upper_tail(t[right])[0]
        value[right] = dense / rest
        value_error[right] = (units + 2.0 * RATIO_UNITS) * U * value[right]
        near = ~far
        excess[near] = t[near] + value[near]
        excess_error[near] = value_error[near] + 2.0 * U * np.abs(excess[near])
        legendre, legendre_error = _legendre(t, value, value_error, excess, excess_error)
    return Hazard(
        Enclosure.within(value, value_error + DUST),
        Enclosure.within(excess, excess_error + DUST),
        Enclosure.within(legendre, legendre_error + DUST),
    )


def _legendre(
    t: FloatArray,
    value: FloatArray,
    value_error: FloatArray,
    excess: FloatArray,
    excess_error: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return M and a bound on its error."""
    legendre, error = np.empty_like(t), np.empty_like(t)
    left = t <= MIDDLE
    e, log = excess[left], np.log(ROOT_2PI * value[left])
    legendre[left] = -0.5 * e * e - log
    error[left] = (
        1.01 * (e * excess_error[left] + value_error[left] / value[left])
        + ((EXP_ULP + 2.0) * np.abs(log) + 4.0 + 2.0 * e * e) * U
    )
    near = ~left
    s, F, F_error = t[near], value[near], value_error[near]
    tail, units = upper_tail(np.abs(s))
    below = s <= 0.0
    probability = np.where(below, np.log(tail), np.log1p(-tail))
    blur = np.where(below, units, 2.0 * units * tail) + EXP_ULP * np.abs(probability)
    legendre[near] = probability - s * F - 0.5 * F * F
    sizes = np.abs(probability) + np.abs(s) * F + F * F
    error[near] = 1.01 * (blur * U + (np.abs(s) + F) * F_error) + 6.0 * U * sizes
    return legendre, error


def excess_far_left(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return e(-x) = 1/(x + 2/(x + 3/(x + ...))) for x > 4, and the tail 2/(x + 3/(x + ...))."""
    tail = np.zeros_like(x)
    for term in range(FRACTION_TERMS, 1, -1):
        tail = term / (x + tail)
    return 1.0 / (x + tail), tail
