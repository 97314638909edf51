r"""Amplitude and noise of largest evidence, at a given kernel.

In the coordinates of the eigenvectors of :math:`W^{1/2} K W^{1/2}` with eigenvalues
:math:`\lambda`, the covariance of the weighted targets is diagonal, :math:`d = a\lambda + s`, so
that the evidence and its gradient take O(n) operations for each a and s. It is maximised over log a
and log(s / a) from the best point of a grid. Of many samples, a random subsample is used.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize

from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray
from widemargin.kernels import Rows

MOST_ROWS = 1_000  # samples that determine the two numbers: an eigenvalue problem of 0.3 s
AMPLITUDES = (0.1, 1.0, 10.0, 100.0)  # grid, relative to the variance of the targets
RATIOS = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # grid of s / a
RANGE = 1e6  # of the amplitude, around the variance of the targets
RATIO_RANGE = (1e-8, 1e4)  # of s / a; below it rounding errors of the factorisation matter


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Weighted targets in the coordinates of the eigenvectors.

    Attributes
    ----------
    values : ndarray of shape (n,)
        Eigenvalues, not negative.
    target, ones : ndarray of shape (n,)
        Weighted targets and the weighted constant function.
    copies : float
        Total weight minus n: further observations, of which each has the variance s.
    mean_variance : float
        Prior variance of the constant mean.
    """

    values: FloatArray
    target: FloatArray
    ones: FloatArray
    copies: float
    mean_variance: float

    def loss(self, amplitude: float, noise: float) -> tuple[float, FloatArray]:
        """Return minus the log evidence up to a constant, and its gradient in log a and log s."""
        d = amplitude * self.values + noise
        by_d = 1.0 / d
        total = float(np.log(d).sum()) + self.copies * float(np.log(noise))
        z, centred = self.ones / d, self.target
        if self.mean_variance > 0:
            precision = float(self.ones @ z) + 1.0 / self.mean_variance
            mean = float(self.target @ z) / precision
            centred = self.target - mean * self.ones
            total += float(np.log(precision)) + mean**2 / self.mean_variance
            by_d = by_d - z**2 / precision
        beta = centred / d
        total += float(centred @ beta)
        by_d = by_d - beta**2
        by_noise = float(by_d.sum()) + self.copies / noise
        return 0.5 * total, 0.5 * np.array([amplitude * (by_d @ self.values), noise * by_noise])


def evident_scales(
    rows: Rows,
    target: FloatArray,
    weight: FloatArray,
    *,
    amplitude: float | None,
    noise: float | None,
    mean_variance: float,
) -> tuple[float, float]:
    """Return amplitude and noise of largest evidence; a number that is given is kept.

    Parameters
    ----------
    rows : Rows
        Samples with their kernel.
    target, weight : ndarray of shape (n,)
        Targets and sample weights.
    amplitude, noise : float or None
        Numbers to keep, or None.
    mean_variance : float
        Prior variance of the constant mean, from 0 to infinity.
    """
    if amplitude is not None and noise is not None:
        return amplitude, noise
    chosen = np.arange(rows.n)
    if rows.n > MOST_ROWS:
        chosen = np.sort(np.random.default_rng(0).permutation(rows.n)[:MOST_ROWS])
    y, w = target[chosen], weight[chosen]
    K = rows.part(chosen).matrix()
    unit = _variance(y, w, mean_variance) / (float(np.diagonal(K).mean()) or 1.0)
    spectrum = _spectrum(K, y, w, mean_variance)

    def scales(x: FloatArray) -> tuple[float, float]:
        a = unit * float(np.exp(x[0])) if amplitude is None else amplitude
        s = a * float(np.exp(x[1])) if noise is None else noise
        return a, s

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        value, (by_a, by_s) = spectrum.loss(*scales(x))
        # log s = log a + x_1 if both are free.
        by_first = (by_a + (by_s if noise is None else 0.0)) if amplitude is None else 0.0
        return value, np.array([by_first, by_s if noise is None else 0.0])

    grid = [np.log(pair) for pair in itertools.product(AMPLITUDES, RATIOS)]
    start = min(grid, key=lambda x: loss(x)[0])
    if amplitude is None and noise is not None:  # the range of s / a is that of a
        bounds = sorted(np.log(noise / unit / np.array(RATIO_RANGE)))
        bounds = [tuple(bounds), (0.0, 0.0)]
    else:
        bounds = [(-np.log(RANGE), np.log(RANGE)), tuple(np.log(RATIO_RANGE))]
    low, high = np.array(bounds).T
    # Evaluations are cheap, and an exact maximum does not depend on the order of the samples.
    found = minimize(
        loss, np.clip(start, low, high), jac=True, method="L-BFGS-B", bounds=bounds,
        options={"ftol": 1e-14, "gtol": 1e-9},
    )  # fmt: skip
    return scales(found.x)


def _variance(y: FloatArray, weight: FloatArray, mean_variance: float) -> float:
    """Return the variance of the targets, around zero without a mean; positive."""
    share = weight / weight.sum()
    size = float(share @ y**2)
    spread = float(share @ (y - share @ y) ** 2) if mean_variance > 0 else size
    # Constant targets have no scale of their own.
    return spread if spread > 1e-24 * size else (1e-12 * size or 1.0)


def _spectrum(K: FloatArray, y: FloatArray, weight: FloatArray, mean_variance: float) -> Spectrum:
    root = np.sqrt(weight)
    K *= root
    K *= root[:, None]
    with worker_threads():  # on a busy computer the threads of BLAS wait for each other
        values, vectors = eigh(K, overwrite_a=True, check_finite=False, driver="evd")
    return Spectrum(
        np.maximum(values, 0.0),
        (root * y) @ vectors,
        root @ vectors,
        float(weight.sum()) - len(weight),
        mean_variance,
    )
