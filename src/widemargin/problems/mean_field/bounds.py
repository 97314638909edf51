r"""Bounds of the naive mean-field problem that hold in exact arithmetic.

Let :math:`\sigma_i` be the strength of one copy of sample i, :math:`\lambda_i = c_i + v`,
F and e hazard and excess of the normal distribution, and M as in
:mod:`widemargin._base.normal`. The terms of the problem are

.. math:: \psi_i(\sigma) = M(F) + \tfrac12 v \sigma^2, \qquad F = \sigma \sqrt{\lambda_i},

in which the terms of the order of :math:`c_i \sigma^2` have cancelled. They are convex, since M is
a convex function of F with derivative :math:`-e \le 0`.

**Above.** E at the published strengths needs M at the real number F. With any float64 number t near
the solution of F(t) = F, and :math:`\delta = |F - F(t)|`,

.. math:: |M(F) - M(F(t))| \le (\bar e + \delta)\, \delta,

where :math:`\bar e` bounds e between t and that solution. It is within 1 of t if
:math:`\delta \le F / (10 (|t| + 4))`, because the derivative of log F is -e, and :math:`e(t) \ge
1/(|t| + 3)` for t < 0 and increases; e(t) < 1/|t| for t < 0, and e(t) < t + 0.8 for t > 0.

**Below.** For any coefficients A and f = KA, the optimum is at least

.. math:: -\tfrac12 A'f - \sum_i w_i \psi_i^*(-y_i f_i), \qquad
    \psi_i^*(-s) = \sup_{\sigma \ge 0} \{-s \sigma - \psi_i(\sigma)\},

if K is positive semi-definite. The conjugate decreases in s, so that s is the lower end of the
enclosure of :math:`y_i f_i`. At :math:`\sigma = F(t)/\sqrt\lambda` for any t the concave function
in the supremum has the slope :math:`g = \sqrt\lambda\, e(t) - v \sigma - s`, hence

.. math:: \psi^*(-s) \le -s \sigma - \psi(\sigma) + \begin{cases}
    |g| \sigma & \text{if } g \le 0, \\ g^2 / (2 v) & \text{if } v > 0. \end{cases}

The bound at A = 0 is the trivial one. Without input noise it is minus infinity, since E is not
bounded from below for a sample with s <= 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from widemargin._base.double_double import U
from widemargin._base.enclosure import Enclosure
from widemargin._base.normal import hazard
from widemargin._base.products import gamma, times
from widemargin._base.typing import FloatArray
from widemargin.certificate import Bracket
from widemargin.kernels import Rows
from widemargin.kernels.sums import TINY, enclosed_sum, majorants, roundings

if TYPE_CHECKING:
    from widemargin.problems.mean_field import MeanField

NO_STRENGTH = 1e-280  # F below it: the term is between 0 and -1e-270
ADJUSTMENTS = 4
SHRUNK = (0.5, 0.1, 0.01, 0.0)  # multiples of A tried for the lower bound if it is poor


@dataclass(frozen=True, eq=False)
class Covariance:
    """Covariance matrix of the latent function, and what is known of its errors.

    Attributes
    ----------
    K : ndarray of shape (n, n)
        The matrix in float64, with the offset.
    rows : Rows, optional
        Samples with their kernel, whose exact values are the covariances; None: those of K are.
    offset : float
        Variance of the constant mean, which is added to the kernel.
    """

    K: FloatArray
    rows: Rows | None = None
    offset: float = 0.0

    @cached_property
    def size(self) -> FloatArray:
        """Majorants: the covariance of two samples is at most the product of theirs."""
        if self.rows is None:
            return np.asarray(np.sqrt(np.abs(self.K).max(axis=0)) * (1 + 4 * U))
        return np.asarray(np.sqrt(majorants(self.rows) ** 2 + self.offset) * (1 + 8 * U))

    @cached_property
    def diagonal(self) -> Enclosure:
        """Variances of the samples."""
        if self.rows is None:
            return Enclosure.exact(np.diagonal(self.K))
        own = np.diagonal(self.K)
        error = U * np.abs(own) if self.offset else 0.0
        if self.rows.kernel.name in ("linear", "poly", "sigmoid"):
            error = error + gamma(roundings(self.rows, 1) + 2.0) * self.size**2 + TINY
        return Enclosure.within(own, error)

    def fields(self, coefficients: FloatArray, *, precise: bool) -> Enclosure:
        """Return K A, in float64 or in more digits."""
        n = len(coefficients)
        if precise and self.rows is None:
            return times(self.K, coefficients, precise=True)
        if precise and self.rows is not None:
            used, everything = np.flatnonzero(coefficients), np.arange(n)
            found = enclosed_sum(
                self.rows, everything, used, coefficients[used], size=self.size, precise=True
            )
            return found + Enclosure.exact(coefficients).sum() * self.offset
        with np.errstate(all="ignore"):
            steps = n + 6.0 + (roundings(self.rows, 1) if self.rows is not None else 0.0)
            mass = float(np.abs(coefficients) @ self.size) * (1 + n * U)
            error = gamma(steps) * mass * self.size + TINY * (1 + mass) * (1 + self.size)
            return Enclosure.within(self.K @ coefficients, np.where(error >= 0, error, np.inf))


def bracket(
    problem: MeanField,
    covariance: Covariance,
    coefficients: FloatArray,
    z: FloatArray,
    *,
    blur: float,
    tol: float,
    precise: bool,
) -> Bracket:
    """Return bounds on the minimum of E; z are the fields of the coefficients, approximately.

    `blur` is the relative error of the weights; that of the published strengths is twice as large.
    """
    f = covariance.fields(coefficients, precise=precise)
    weight = Enclosure.exact(problem.weight).blurred(blur)
    terms = Terms(covariance.diagonal, problem)
    with np.errstate(all="ignore"):
        norm = f.dot(coefficients)
        primal = _energy(problem, terms, covariance, coefficients, z, f, norm, weight, blur)
        found = Bracket.of(primal, _dual(problem, terms, f, norm, weight, z))
        gap = found.primal - found.dual
        if not gap <= tol * max(1.0, abs(found.primal)):
            others = [_shrunk(problem, terms, f, norm, weight, z, t) for t in SHRUNK]
            found = Bracket.of(primal, max(others, key=lambda e: e.lower()), trivial=found.dual)
    return found


class Terms:
    """lambda and its root, enclosed, and the terms psi at float64 fields t."""

    def __init__(self, cavity: Enclosure, problem: MeanField) -> None:
        self.noise = problem.input_noise
        total = cavity + self.noise
        with np.errstate(all="ignore"):
            root = np.sqrt(total.hi)
            known = total.lower() > 0.0
            error = (total.error + np.abs(total.lo)) / root * 1.01 + 2.0 * U * root
            self.root = Enclosure.within(root, np.where(known, error, np.inf))

    def of_strengths(self, strength: Enclosure, t: FloatArray) -> Enclosure:
        """Return psi at strengths whose fields are near t."""
        asked, at = strength * self.root, hazard(t)
        away = (asked - at.value).size()
        near = away <= asked.lower() / (10.0 * (np.abs(t) + 4.0))
        steep = np.where(t < -2.25, 1.0 / (-t - 1.0), np.maximum(t + 1.0, 0.0) + 0.8)
        spread = np.where(near, (steep + away) * away * (1.0 + 8.0 * U), np.inf)
        legendre = at.legendre.widened(spread)
        tiny = asked.upper() < NO_STRENGTH
        nothing = Enclosure.within(np.zeros(len(t)), 1e-270)
        legendre = legendre.replaced(tiny, nothing[tiny])
        return legendre + strength * strength * (0.5 * self.noise)

    def conjugate(self, s: FloatArray, t: FloatArray) -> Enclosure:
        """Return upper bounds of psi*(-s), from fields near t."""
        t = t.copy()
        for step in range(ADJUSTMENTS + 1):
            at = hazard(t)
            strength = at.value / self.root
            slope = self.root * at.excess - strength * self.noise - s
            most = slope.upper()
            above = most > 0.0
            if step == ADJUSTMENTS or not above.any():
                break
            # The slope increases in t; its derivative is that of root * e, plus a positive number.
            rise = self.root.hi * (1.0 - at.value.hi * at.excess.hi) + self.noise / self.root.hi
            moved = 2.0**step * (most / np.maximum(rise, U) + 4.0 * U * np.abs(t))
            t = np.where(above & np.isfinite(moved), t - moved, t)
        size = slope.size()
        by_sign = np.where(most <= 0.0, size * strength.upper(), np.inf)
        by_noise = size * size / (2.0 * self.noise) if self.noise > 0.0 else np.inf
        extra = np.minimum(by_sign, by_noise) * (1.0 + 8.0 * U)
        legendre = at.legendre + strength * strength * (0.5 * self.noise)
        return strength * (-s) - legendre + np.where(np.isnan(extra), np.inf, extra)


def _energy(
    problem: MeanField,
    terms: Terms,
    covariance: Covariance,
    coefficients: FloatArray,
    t: FloatArray,
    f: Enclosure,
    norm: Enclosure,
    weight: Enclosure,
    blur: float,
) -> Enclosure:
    """Return E at the published strengths, those of the coefficients up to rounding."""
    if np.isnan(t).any():  # a negative strength
        return Enclosure.within(np.inf, 0.0)
    size, each = np.abs(coefficients), 4.0 * U
    mass = float(size @ covariance.size) * (1.0 + len(size) * U)
    change = 2.0 * (blur + each)
    spread = change * float(size @ f.size()) + 0.5 * (change * mass) ** 2
    strength = (Enclosure.exact(size) / problem.weight).blurred(each)
    return norm.widened(2.0 * spread) * 0.5 + terms.of_strengths(strength, t).dot(weight)


def _dual(
    problem: MeanField,
    terms: Terms,
    f: Enclosure,
    norm: Enclosure,
    weight: Enclosure,
    start: FloatArray,
) -> Enclosure:
    """Return the dual objective at f = KA, where norm = A'KA; an infinite error if unknown."""
    signed = (f * problem.label).lower()
    t = problem.supporting(signed, np.where(np.isnan(start), 0.0, start))
    unknown = Enclosure.within(0.0, np.inf)
    if not (np.isfinite(t).all() and np.isfinite(signed).all()):
        return unknown
    return norm * (-0.5) - terms.conjugate(signed, t).dot(weight)


def _shrunk(
    problem: MeanField,
    terms: Terms,
    f: Enclosure,
    norm: Enclosure,
    weight: Enclosure,
    start: FloatArray,
    share: float,
) -> Enclosure:
    """Return the dual objective at a multiple of A."""
    return _dual(problem, terms, f * share, norm * (share * share), weight, start)
