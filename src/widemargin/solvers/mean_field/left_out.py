r"""Compute leave-one-out means and variances by linear response, from one factorisation.

Opper and Winther (2000), (8.41) with (8.42): leaving out sample l changes the others so little that
their equations may be linearised; its field and variance are then those of the Gaussian posterior
with the factor of sample l divided out,

.. math::

    f^{\setminus l} = f_l - A_l\, c_l, \qquad c_l = \frac{\Sigma_{ll}}{1 - n_l \Sigma_{ll}},
    \qquad 1 - n_l \Sigma_{ll} = B_{ll} .

This is (8.41) without divisions by n or alpha: c is :math:`1/[(\Omega + k)^{-1}]_{ll} - \Omega_l`
minus the input noise. Of a sample of weight w > 1, one copy is left out: a fraction 1/w of its
coefficient and precision. For TAP and EP the result is the cavity field h itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from widemargin._base.typing import FloatArray
from widemargin.problems.mean_field import Likelihood
from widemargin.solvers.mean_field.posterior import Posterior
from widemargin.solvers.mean_field.result import MeanFieldResult

WIDEST_SCALE, GRID = float(np.log(1e3)), 29  # range of log s to either side of 0, grid points
# Precision of the prior of log s. One left-out sample has at most 0.6 of information on log s, most
# have less: the prior counts as some ten samples, and its standard deviation is a factor of 1.65.
SCALE_PRECISION = 4.0


@dataclass(frozen=True, eq=False)
class LeftOutFields:
    """Leave-one-out posterior of a mean-field solution.

    Attributes
    ----------
    mean, variance : ndarray of shape (n,)
        Of the latent function at each sample, without (one copy of) that sample.
    """

    mean: FloatArray
    variance: FloatArray


def leave_out(result: MeanFieldResult, posterior: Posterior, K: Any) -> LeftOutFields:
    """Compute the leave-one-out mean and variance at every sample."""
    kept, variance = posterior.diagonals(K)
    weight = result.problem.weight
    share = np.minimum(1.0, weight) / weight
    with np.errstate(divide="ignore", invalid="ignore"):
        cavity = variance / (1 - share * (1 - kept))
    # If the equations could not be solved (flip noise), the cavity need not be a distribution.
    cavity = np.where(np.isfinite(cavity) & (cavity > 0), cavity, result.problem.cavity)
    return LeftOutFields(result.field - share * result.coefficients * cavity, cavity)


def fit_scale(signed: FloatArray, weight: FloatArray, likelihood: Likelihood) -> float:
    """Return the factor s of leave-one-out fields z that maximises the likelihood of the labels.

    Maximises sum_i w_i log Z(s z_i) - scale_cost(s). The last term keeps s near 1 if the samples
    are few, and finite where leave-one-out makes no errors.
    """

    def cost(log_scale: float) -> float:
        scaled = np.exp(log_scale) * signed
        return float(
            0.5 * SCALE_PRECISION * log_scale**2 - weight @ likelihood.log_probability(scaled)
        )

    def slope(log_scale: float) -> float:
        scaled = np.exp(log_scale) * signed
        return float(SCALE_PRECISION * log_scale - weight @ (scaled * likelihood.strength(scaled)))

    # The cost is not convex in log s: bracket its least value on a grid first.
    grid = np.linspace(-WIDEST_SCALE, WIDEST_SCALE, GRID)
    best = int(np.argmin([cost(x) for x in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, GRID - 1)]
    if slope(low) >= 0 or slope(high) <= 0:  # at an end of the grid
        return float(np.exp(grid[best]))
    return float(np.exp(brentq(slope, low, high, xtol=1e-14, rtol=1e-14)))


def scale_cost(scale: float) -> float:
    """Return minus the log prior density of a scale, 0 at s = 1."""
    return 0.5 * SCALE_PRECISION * float(np.log(scale)) ** 2
