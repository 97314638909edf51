r"""Radial-basis-function networks with adaptive centres: regularised least squares.

The model is a weighted sum of Gaussian basis functions with adjustable centres and widths,

.. math::

    f(x) = \sum_k a_k \, g_k(x), \qquad
    g_k(x) = \exp\Bigl(-\frac{|x - c_k|^2}{2 \sigma_k^2}\Bigr).

The **problem** is the weighted squared error of labels :math:`y_i = \pm 1` with weight decay
(Rätsch, Onoda and Müller 2001, appendix on RBF nets with adaptive centres),

.. math::

    \min_{c, \sigma, a} \; \tfrac12 \sum_i s_i \bigl(f(x_i) - y_i\bigr)^2
    + \tfrac{\lambda}{2} |a|^2, \qquad \sum_i s_i = 1 ,

where

- :math:`x_i, y_i, s_i`: sample i, its label and its weight;
- :math:`c_k, \sigma_k`: centre and width of basis function k;
- :math:`a_k`: output weight;
- :math:`\lambda`: weight decay.

The error is a weighted mean, so that the weight decay does not depend on the number of samples; the
weights of boosting sum to one, too.

For given basis functions :math:`G_{ik} = g_k(x_i)` the error is quadratic in the output weights,
with the minimum at :math:`a = (G'SG + \lambda I)^{-1} G'Sy`. This leaves the **reduced error** E as
a function of centres and widths. As the derivative with respect to a is zero there, the gradient of
E is the partial gradient at that a:

.. math::

    \frac{\partial E}{\partial c_k} = \sum_i h_{ik} (x_i - c_k), \qquad
    \frac{\partial E}{\partial \log \sigma_k} = \sum_i h_{ik} |x_i - c_k|^2, \qquad
    h_{ik} = \frac{s_i \bigl(f(x_i) - y_i\bigr) a_k g_k(x_i)}{\sigma_k^2} .

E is not convex: the result of a descent method depends on its starting point, and there is no
certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin._base.typing import FloatArray, Matrix


@dataclass(frozen=True)
class ReducedError:
    """Reduced error and its gradient at given centres and widths.

    Attributes
    ----------
    value : float
        Value of E.
    coef : ndarray of shape (n_centres,)
        Optimal output weights a.
    by_centre : ndarray of shape (n_centres, n_features)
        Gradient with respect to the centres.
    by_log_width : ndarray of shape (n_centres,)
        Gradient with respect to the logarithms of the widths.
    """

    value: float
    coef: FloatArray
    by_centre: FloatArray
    by_log_width: FloatArray


@dataclass(frozen=True, eq=False)
class RBFNetProblem:
    """Regularised least-squares problem of an RBF network.

    Attributes
    ----------
    label : ndarray of shape (n_samples,)
        Labels -1 and +1.
    weight : ndarray of shape (n_samples,)
        Sample weights s, which sum to 1.
    ridge : float
        Weight decay lambda, positive.
    n_centres : int
        Number of basis functions; fewer if there are fewer distinct samples.
    """

    label: FloatArray
    weight: FloatArray
    ridge: float
    n_centres: int

    def reduced(
        self, X: Matrix, norms: FloatArray, centres: FloatArray, widths: FloatArray
    ) -> ReducedError:
        """Return the reduced error, the output weights and the gradient.

        X holds the samples in float64, centred if dense, so that squared distances are accurate;
        `norms` are their squared norms.
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
    """Return the squared norm of each sample."""
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    return np.einsum("ij,ij->i", X, X)


def squared_distances(X: Matrix, norms: FloatArray, centres: FloatArray) -> FloatArray:
    """Return |x_i - c_k|^2, clipped at zero."""
    products: Any = X @ centres.T
    products *= -2.0
    products += norms[:, None]
    products += np.einsum("kj,kj->k", centres, centres)
    return np.maximum(products, 0.0, out=products)


def bumps(distance: FloatArray, widths: FloatArray) -> FloatArray:
    """Return the basis functions g_k(x_i), given squared distances."""
    exponent = distance * (-0.5 / widths**2)
    return np.exp(exponent, out=exponent)


def network_values(
    X: Matrix, centres: FloatArray, widths: FloatArray, coef: FloatArray
) -> FloatArray:
    """Return f(x) for each sample."""
    return bumps(squared_distances(X, squared_lengths(X), centres), widths) @ coef
