r"""Link functions: log-probabilities of intervals and their derivatives, accurate in the tails.

A sample of rank k has the likelihood :math:`P(b) - P(a)`, where :math:`a < b` are the thresholds
around the rank minus the utility of the sample; :math:`a = -\infty` for the lowest rank and
:math:`b = \infty` for the highest. A link computes :math:`\ell(a, b) = -\log(P(b) - P(a))` and its
first and second derivatives. All three densities are log-concave, hence :math:`\ell` is jointly
convex in (a, b). The formulas avoid the difference of two probabilities that may be equal in
float64:

=======  ========================  =======================================================
link     P(t)                      -log(P(b) - P(a))
=======  ========================  =======================================================
logit    1 / (1 + exp(-t))         softplus(-b) + softplus(a) - log(1 - exp(a - b))
cloglog  1 - exp(-exp(t))          exp(a) - log(1 - exp(exp(a) - exp(b)))
probit   standard normal           -log P(b) - log(1 - exp(log P(a) - log P(b))), on the side
                                   of zero where the interval has the smaller probability
=======  ========================  =======================================================

Herbrich et al. (2000), table 2.1. The noise of cloglog does not have mean zero; the thresholds
absorb its mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_ndtr, ndtri

from widemargin._base.typing import FloatArray

HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


class Curvature(NamedTuple):
    """First and second derivatives of the loss with respect to the ends a and b."""

    a: FloatArray
    b: FloatArray
    aa: FloatArray
    ab: FloatArray
    bb: FloatArray


class Link(NamedTuple):
    """Distribution of the noise.

    Attributes
    ----------
    quantile : callable
        Inverse of P.
    loss : callable
        -log(P(b) - P(a)) for arrays a < b; inf where the probability is not positive.
    curvature : callable
        First and second derivatives of the loss.
    """

    quantile: Callable[[FloatArray], FloatArray]
    loss: Callable[[FloatArray, FloatArray], FloatArray]
    curvature: Callable[[FloatArray, FloatArray], Curvature]


def _log1mexp(gap: FloatArray) -> FloatArray:
    """Return log(1 - exp(-gap)) for gap > 0, accurate near 0 and near infinity."""
    small = gap < 0.6931471805599453  # log 2
    with np.errstate(divide="ignore", under="ignore"):
        return np.where(
            small,
            np.log(-np.expm1(-np.where(small, gap, 1.0))),
            np.log1p(-np.exp(-np.where(small, 1.0, gap))),
        )


def _odds(gap: FloatArray) -> FloatArray:
    """Return 1 / (exp(gap) - 1), the derivative of log(1 - exp(-gap))."""
    with np.errstate(over="ignore", divide="ignore"):
        return np.asarray(1.0 / np.expm1(gap))


def _where_finite(t: FloatArray, values: FloatArray) -> FloatArray:
    """Return values, with zero where the end t is infinite."""
    return np.where(np.isfinite(t), values, 0.0)


def _logit_loss(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.logaddexp(0.0, -b) + np.logaddexp(0.0, a) - _log1mexp(b - a)


def _logit_curvature(a: FloatArray, b: FloatArray) -> Curvature:
    odds = _odds(b - a)
    bend = odds * (1.0 + odds)
    above_a, below_a, above_b, below_b = expit(-a), expit(a), expit(-b), expit(b)
    return Curvature(
        a=below_a + odds,
        b=-above_b - odds,
        aa=below_a * above_a + bend,
        ab=-bend,
        bb=below_b * above_b + bend,
    )


def _hazards(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return exp(a), exp(b) and exp(b) - exp(a) without cancellation."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        low, high = np.exp(a), np.exp(b)
        gap = np.where(low > 0, low * np.expm1(b - a), high)
    return low, high, gap


def _cloglog_loss(a: FloatArray, b: FloatArray) -> FloatArray:
    low, _, gap = _hazards(a, b)
    with np.errstate(invalid="ignore"):
        loss = low - _log1mexp(gap)
    return np.where(np.isfinite(low), loss, np.inf)


def _cloglog_curvature(a: FloatArray, b: FloatArray) -> Curvature:
    low, high, gap = _hazards(a, b)
    odds = _odds(gap)
    with np.errstate(invalid="ignore", over="ignore"):
        pull_b = np.where(odds > 0, high * odds, 0.0)  # 0 for the highest rank, where b = inf
        pull_a = low * (1.0 + odds)
        bend = np.where(odds > 0, high * (1.0 + odds), 0.0)
    return Curvature(
        a=pull_a,
        b=-pull_b,
        aa=pull_a + low * odds * pull_a,
        ab=-pull_a * pull_b,
        # 0 in the limit b -> -inf; clipped, as rounding may make it negative there
        bb=pull_b * np.maximum(bend - 1.0, 0.0),
    )


def _probit_loss(a: FloatArray, b: FloatArray) -> FloatArray:
    mirror = a + b > 0  # by symmetry, use the interval or its mirror image, the one further left
    left, right = np.where(mirror, -b, a), np.where(mirror, -a, b)
    log_right = log_ndtr(right)
    return np.asarray(-log_right - _log1mexp(log_right - log_ndtr(left)))


def _probit_curvature(a: FloatArray, b: FloatArray) -> Curvature:
    log_mass = -_probit_loss(a, b)

    def density(t: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(-0.5 * t * t - HALF_LOG_2PI - log_mass)

    at_a, at_b = density(a), density(b)
    with np.errstate(invalid="ignore"):
        return Curvature(
            a=at_a,
            b=-at_b,
            aa=_where_finite(a, np.maximum(at_a * (at_a - a), 0.0)),
            ab=-at_a * at_b,
            bb=_where_finite(b, np.maximum(at_b * (at_b + b), 0.0)),
        )


LINKS: dict[str, Link] = {
    "logit": Link(lambda p: np.log(p) - np.log1p(-p), _logit_loss, _logit_curvature),
    "probit": Link(ndtri, _probit_loss, _probit_curvature),
    "cloglog": Link(lambda p: np.log(-np.log1p(-p)), _cloglog_loss, _cloglog_curvature),
}


def log_probabilities(link: str, thresholds: FloatArray, utility: FloatArray) -> FloatArray:
    """Return the log-probability of each rank, of shape (n_rows, n_ranks)."""
    ends = np.concatenate([[-np.inf], thresholds, [np.inf]])
    return -LINKS[link].loss(ends[:-1] - utility[:, None], ends[1:] - utility[:, None])
