r"""Leave-one-out means and variances of Gaussian-process regression in closed form.

Let c be the diagonal of P, t = tau, and :math:`\sigma = \min(1, w) / w` the fraction of a sample's
weight that is left out. Given the other samples, and the other copies of the same sample, its mean
:math:`\mu` and the variance u of f are

.. math::

    y - \mu = \frac{\beta\, t}{1 - \sigma + \sigma\, c\, t}, \qquad
    u = a\, \frac{t\, (1 - c\, t)}{1 - \sigma + \sigma\, c\, t},

which are :math:`\beta / c` and :math:`a (1/c - t)` if the whole sample is left out (Rasmussen and
Williams 2006, (5.12)). A single sample with a flat prior of the mean has nothing left to predict
it: its mean is 0 and its variance infinite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.typing import FloatArray


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Leave-one-out predictions.

    Attributes
    ----------
    mean, variance : ndarray
        Mean and variance of f, without noise.
    """

    mean: FloatArray
    variance: FloatArray

    def log_density(self, target: FloatArray, noise: float) -> FloatArray:
        """Return the log density of the targets."""
        spread = self.variance + noise
        with np.errstate(divide="ignore", invalid="ignore"):
            found = -0.5 * (np.log(2.0 * np.pi * spread) + (target - self.mean) ** 2 / spread)
        return np.asarray(found)


def leave_out(
    target: FloatArray,
    coefficients: FloatArray,
    inverse: FloatArray,
    ridge: FloatArray,
    share: FloatArray,
    amplitude: float,
) -> LeftOut:
    """Return the leave-one-out predictions.

    Parameters
    ----------
    target, coefficients : ndarray of shape (n,)
        y and beta.
    inverse : ndarray of shape (n,)
        c, the diagonal of P.
    ridge : ndarray of shape (n,)
        tau.
    share : ndarray of shape (n,)
        sigma.
    amplitude : float
        a.
    """
    kept = inverse * ridge
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = ridge / (1.0 - share + share * kept)
        mean = target - coefficients * scale
        variance = amplitude * np.maximum(1.0 - kept, 0.0) * scale
    known = np.isfinite(scale)
    return LeftOut(np.where(known, mean, 0.0), np.where(known, variance, np.inf))
