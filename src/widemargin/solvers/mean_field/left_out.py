r"""Compute leave-one-out means and variances by linear response, from one factorisation.

Opper and Winther (2000), (8.41) with (8.42): leaving out row l changes the others so little that
their equations may be linearised, and then its field and variance are those of the Gaussian
posterior with the factor of row l divided out,

.. math::

    f^{\setminus l} = f_l - A_l\, c_l, \qquad c_l = \frac{\Sigma_{ll}}{1 - n_l \Sigma_{ll}},
    \qquad 1 - n_l \Sigma_{ll} = B_{ll} .

That is (8.41) with nothing divided by n or alpha: c is :math:`1/[(\Omega + k)^{-1}]_{ll} -
\Omega_l` less the input noise. Of a row of weight w > 1, one copy is left out: a share 1/w of its
coefficient and precision. For TAP and EP the result is the cavity field h itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from widemargin._base.typing import FloatArray
from widemargin.problems.mean_field import Likelihood
from widemargin.solvers.mean_field.posterior import Posterior
from widemargin.solvers.mean_field.result import MeanFieldResult

WIDEST_SCALE, GRID = float(np.log(1e3)), 29


@dataclass(frozen=True, eq=False)
class LeftOutFields:
    """Leave-one-out of a mean-field solution.

    Attributes
    ----------
    mean, variance : ndarray of shape (n,)
        Of the latent function at each row, without that row (one copy of it).
    """

    mean: FloatArray
    variance: FloatArray


def leave_out(result: MeanFieldResult, posterior: Posterior, K: FloatArray) -> LeftOutFields:
    """Return the posterior at every row without that row."""
    kept, variance = posterior.diagonals(K)
    weight = result.problem.weight
    share = np.minimum(1.0, weight) / weight
    with np.errstate(divide="ignore", invalid="ignore"):
        cavity = variance / (1 - share * (1 - kept))
    # Where flip noise kept the equations from being solved, the rest need not be a distribution.
    cavity = np.where(np.isfinite(cavity) & (cavity > 0), cavity, result.problem.cavity)
    return LeftOutFields(result.field - share * result.coefficients * cavity, cavity)


def fit_scale(signed: FloatArray, weight: FloatArray, likelihood: Likelihood) -> float:
    """Return the factor s of left-out fields z that makes the labels most probable.

    Maximises sum_i w_i log Z(s z_i) - (log s)^2 / 2. The last term, as much as one row has to say,
    keeps s finite where leave-one-out makes no errors.
    """

    def cost(log_scale: float) -> float:
        scaled = np.exp(log_scale) * signed
        return float(0.5 * log_scale**2 - weight @ likelihood.log_probability(scaled))

    def slope(log_scale: float) -> float:
        scaled = np.exp(log_scale) * signed
        return float(log_scale - weight @ (scaled * likelihood.strength(scaled)))

    grid = np.linspace(-WIDEST_SCALE, WIDEST_SCALE, GRID)
    best = int(np.argmin([cost(x) for x in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, GRID - 1)]
    if slope(low) >= 0 or slope(high) <= 0:  # at an end of the grid
        return float(np.exp(grid[best]))
    return float(np.exp(brentq(slope, low, high, xtol=1e-14, rtol=1e-14)))
