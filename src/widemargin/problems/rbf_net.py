r"""State the problem of radial-basis networks with adaptive centres: regularised least squares.

The model is a weighted sum of Gaussian bumps, each with a centre and a width to fit,

.. math::

    f(x) = \sum_k a_k \, g_k(x), \qquad
    g_k(x) = \exp\Bigl(-\frac{|x - c_k|^2}{2 \sigma_k^2}\Bigr).

The **problem** is the weighted squared error of labels :math:`y_i = \pm 1` with weight decay
(Rätsch, Onoda and Müller 2001, appendix on RBF nets with adaptive centres),

.. math::

    \min_{c, \sigma, a} \; \tfrac12 \sum_i s_i \bigl(f(x_i) - y_i\bigr)^2
    + \tfrac{\lambda}{2} |a|^2, \qquad \sum_i s_i = 1 .

It is a mean over the rows, so that the decay means the same for any number of them, and for the
weights of boosting, which add up to one.

For given bumps :math:`G_{ik} = g_k(x_i)` the error is quadratic in the output weights, hence
:math:`a = (G'SG + \lambda I)^{-1} G'Sy`. What remains is the **reduced error** E of centres and
widths alone. Since its derivative by a is zero, its gradient is the partial one at that a:

.. math::

    \frac{\partial E}{\partial c_k} = \sum_i h_{ik} (x_i - c_k), \qquad
    \frac{\partial E}{\partial \log \sigma_k} = \sum_i h_{ik} |x_i - c_k|^2, \qquad
    h_{ik} = \frac{s_i \bigl(f(x_i) - y_i\bigr) a_k g_k(x_i)}{\sigma_k^2} .

E is not convex: where a descent ends depends on where it starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin._base.typing import FloatArray, Matrix


@dataclass(frozen=True)
class ReducedError:
    """The reduced error at some centres and widths.

    Attributes
    ----------
    value : float
        E.
    coef : ndarray of shape (n_centres,)
        The output weights a that are optimal there.
    by_centre : ndarray of shape (n_centres, n_features)
        Gradient by the centres.
    by_log_width : ndarray of shape (n_centres,)
        Gradient by the logarithms of the widths.
    """

    value: float
    coef: FloatArray
    by_centre: FloatArray
    by_log_width: FloatArray


@dataclass(frozen=True, eq=False)
class RBFNetProblem:
    """The regularised squared error above.

    Attributes
    ----------
    label : ndarray of shape (n_samples,)
        Labels -1 and +1.
    weight : ndarray of shape (n_samples,)
        Weights s, which add up to 1.
    ridge : float
        Weight decay, positive.
    n_centres : int
        Number of bumps, fewer where there are fewer different samples.
    """

    label: FloatArray
    weight: FloatArray
    ridge: float
    n_centres: int

    def reduced(
        self, X: Matrix, norms: FloatArray, centres: FloatArray, widths: FloatArray
    ) -> ReducedError:
        """Return the reduced error, its output weights and its gradient.

        X are the samples in float64, dense ones near the origin, so that squared distances keep
        their digits; `norms` their squared lengths.
        """
        distance = squared_distances(X, norms, centres)
        bump = bumps(distance, widths)
        weighted = bump * self.weight[:, None]
        curvature = bump.T @ weighted
        curvature.flat[:: len(widths) + 1] += self.ridge
        coef: FloatArray = np.linalg.solve(curvature, weighted.T @ self.label).astype(
            np.float64, copy=False
        )
        wrong = bump @ coef - self.label
        value = 0.5 * float(self.weight @ wrong**2) + 0.5 * self.ridge * float(coef @ coef)
        share = weighted
        share *= wrong[:, None]
        share *= coef / widths**2
        by_centre = np.asarray(X.T @ share).T - share.sum(axis=0)[:, None] * centres
        return ReducedError(value, coef, by_centre, np.einsum("ik,ik->k", share, distance))


def squared_lengths(X: Matrix) -> FloatArray:
    """Return |x|^2 of each row."""
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    return np.einsum("ij,ij->i", X, X)


def squared_distances(X: Matrix, norms: FloatArray, centres: FloatArray) -> FloatArray:
    """Return |x_i - c_k|^2, never below zero."""
    products: Any = X @ centres.T
    products *= -2.0
    products += norms[:, None]
    products += np.einsum("kj,kj->k", centres, centres)
    return np.maximum(products, 0.0, out=products)


def bumps(distance: FloatArray, widths: FloatArray) -> FloatArray:
    """Return g_k(x_i) from squared distances."""
    exponent = distance * (-0.5 / widths**2)
    return np.exp(exponent, out=exponent)


def network_values(
    X: Matrix, centres: FloatArray, widths: FloatArray, coef: FloatArray
) -> FloatArray:
    """Return f(x) of each row."""
    return bumps(squared_distances(X, squared_lengths(X), centres), widths) @ coef
