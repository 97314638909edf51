r"""Adjoint method for the gradient of a loss of a mean-field solution.

The loss is a function of the means f = KA, the coefficients A, the precisions
:math:`n = w d / (v + c (1 - d))` and the variances :math:`S = \mathrm{diag}\,\Sigma` of the
solution; the symbols are those of :mod:`widemargin.problems.mean_field`. This module computes its
derivatives with respect to K, v and :math:`\kappa`, where the fields z, and for TAP the cavity
variances c, are implicit functions of these by

.. math::

    r(z) = KA - c A / w - y \sqrt{\lambda}\, z = 0, \qquad A = w y F(z) / \sqrt{\lambda},

and :math:`c = S / (1 - \tau S)`, :math:`\tau = n/w`. The naive theory has c = diag K instead.

**Fields.** With :math:`B = (I + \mathrm{diag}(n) K)^{-1}` and :math:`q = 1 - c d / \lambda` the
Jacobian of the first equations does not need another factorisation,

.. math:: r_z = -\,(I + K \mathrm{diag}(n))\, \mathrm{diag}(q\, y \sqrt\lambda), \qquad
    r_z^{-T} g = -B\, \frac{y\, g}{q \sqrt\lambda} =: p .

A derivative g with respect to z contributes dJ = -p'dr, with its adjoint p.

**Variances.** From :math:`d\Sigma = B' dK B - \Sigma\, \mathrm{diag}(dn)\, \Sigma` a derivative
:math:`\bar S` becomes :math:`B \mathrm{diag}(\bar S) B'` with respect to K and
:math:`-(\Sigma \circ \Sigma) \bar S` with respect to n.

**Cavities** (TAP). Let :math:`Q = \mathrm{diag}(1 - \tau S)^{-2} (\mathrm{diag}(S^2/w) - \Sigma
\circ \Sigma)` be the derivative of c with respect to n, and N that of n with respect to c,
including the change of the fields. Then a derivative g with respect to c has the adjoint
:math:`(I - QN)^{-T} g`, the solution of one dense system.

Apart from this system and three matrix products the cost is O(n^2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.lapack import dgetrf, dgetri, dgetri_lwork

from widemargin._base.typing import FloatArray
from widemargin.problems.mean_field import Likelihood
from widemargin.solvers.mean_field import MeanFieldResult
from widemargin.tuning.kernel_paths import KernelGradient

# Upper bound of 1/Z, for samples of very small probability, in derivatives with respect to the flip
# noise. A flip noise of 1e-4 implies this bound; closer to 0, such samples change the loss over
# distances too small for a descent to resolve.
LARGEST_RARITY = 1e4


@dataclass(frozen=True, eq=False)
class LatentGradient(KernelGradient):
    """Value of a loss and its derivatives with respect to the kernel matrix and the noise.

    dJ = left' dK right + sum_ij W_ij dK_ij + by_input_noise dv + by_flip_noise dkappa. All samples
    are support vectors.
    """

    by_input_noise: float
    by_flip_noise: float

    def by_constant(self) -> float:
        """Return the derivative with respect to a constant added to the kernel."""
        both = 2.0 * float(self.factor.sum()) - float(np.trace(self.factor))
        return float(self.left.sum() * self.right.sum()) + both


def flip_slopes(likelihood: Likelihood, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives of log Z(z) and of F(z) with respect to the flip noise."""
    surprise = np.minimum(-likelihood.log_probability(z), np.log(LARGEST_RARITY))
    rarity, contrast = np.exp(surprise), 1 - 2 * likelihood.flip_noise
    return (rarity - 2) / contrast, -likelihood.strength(z) * rarity / contrast


def shrinkage(K: FloatArray, precision: FloatArray) -> FloatArray:
    """Return B = (I + diag(n) K)^-1, for precisions n of any sign."""
    system = precision[:, None] * K
    system[np.diag_indices_from(system)] += 1.0
    factor, pivots, failed = dgetrf(system.T, overwrite_a=1)
    if failed:
        raise FloatingPointError("the mean-field equations are singular at this point")
    room = int(dgetri_lwork(len(K))[0])
    return np.asarray(dgetri(factor, pivots, lwork=room, overwrite_lu=1)[0].T)


@dataclass
class SolutionGradient:
    """Derivatives of a loss with respect to the quantities of a mean-field solution.

    Attributes
    ----------
    mean, coefficients, precision, variance : ndarray of shape (n,)
        Derivatives with respect to f, A, n and S.
    input_noise, flip_noise : float
        Partial derivatives with respect to v and kappa, where the loss depends on them explicitly.
    """

    mean: FloatArray
    coefficients: FloatArray
    precision: FloatArray
    variance: FloatArray
    input_noise: float
    flip_noise: float


class Response:
    """Linearisation of the mean-field equations at their solution.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel matrix.
    result : MeanFieldResult
        The solution.
    self_consistent : bool
        Whether the cavity variances are those of TAP, else the diagonal of K.
    """

    def __init__(self, K: FloatArray, result: MeanFieldResult, *, self_consistent: bool) -> None:
        self.K, self.result, self.self_consistent = K, result, self_consistent
        problem, z = result.problem, result.z
        likelihood = problem.likelihood
        self.strength = likelihood.strength(z)
        self.slope, self.rest = likelihood.slope(z)
        self.lam = problem.cavity + problem.input_noise
        self.spread = problem.input_noise + problem.cavity * self.rest  # q lambda
        self.precision = problem.weight * self.slope / self.spread
        self.B = shrinkage(K, self.precision)
        self.covariance = K @ self.B
        self.variance = np.diagonal(self.covariance).copy()
        self.kept = np.diagonal(self.B).copy()  # 1 - n S
        # Partial derivatives at fixed cavity variances: of n with respect to d, z and c
        # (d' = F (1 - d) - d (z + F)), of A with respect to z and to v or c, and of
        # y sqrt(lambda) z with respect to v at fixed z.
        root = np.sqrt(self.lam)
        bend = self.strength * self.rest - self.slope * (z + self.strength)
        self.precision_by_slope = problem.weight * self.lam / self.spread**2
        self.precision_by_field = self.precision_by_slope * bend
        self.precision_by_cavity = -self.precision * self.rest / self.spread
        self.coefficients_by_field = -problem.weight * problem.label * self.slope / root
        self.coefficients_by_noise = -0.5 * result.coefficients / self.lam
        self.field_by_noise = 0.5 * problem.label * z / root

    def gradient(self, loss: float, by: SolutionGradient) -> LatentGradient:
        """Compute the derivatives of a loss with respect to K, v and kappa."""
        problem, A = self.result.problem, self.result.coefficients
        coefficients = by.coefficients + self.K @ by.mean
        if self.self_consistent:
            by = self._with_cavities(by, coefficients)
        precision = self._precision(by)
        fields = coefficients * self.coefficients_by_field + precision * self.precision_by_field
        scaled = problem.label * fields * np.sqrt(self.lam) / self.spread
        p = np.asarray(-(self.B @ scaled))
        coefficients = coefficients - self.K @ p + problem.cavity * p / problem.weight
        by_flips = self.precision_by_slope * (self.result.z + 2 * self.strength)  # d = F (z + F)
        strength = coefficients * problem.weight * problem.label / np.sqrt(self.lam)
        flips = flip_slopes(problem.likelihood, self.result.z)[1] @ (
            strength + precision * by_flips
        )
        common = coefficients * self.coefficients_by_noise + p * self.field_by_noise
        noise = common.sum() - precision @ (self.precision / self.spread)
        W = (self.B * by.variance) @ self.B.T
        if not self.self_consistent:  # the cavity variances are the diagonal of K
            by_cavity = common + p * A / problem.weight + precision * self.precision_by_cavity
            W[np.diag_indices_from(W)] += by_cavity
        return LatentGradient(
            loss,
            by.mean - p,
            A,
            np.triu(W).T,
            np.ones(len(A), dtype=bool),
            by.input_noise + float(noise),
            by.flip_noise + float(flips),
        )

    def _precision(self, by: SolutionGradient) -> FloatArray:
        """Return the derivative with respect to n, including that of the variances."""
        return by.precision - self.covariance**2 @ by.variance

    def _with_cavities(self, by: SolutionGradient, coefficients: FloatArray) -> SolutionGradient:
        """Add the contribution of the cavity variances c to the derivatives for n and S."""
        weight = self.result.problem.weight
        follow = self._fields_by_cavity()
        precision = self._precision(by)
        fields = coefficients * self.coefficients_by_field + precision * self.precision_by_field
        direct = coefficients * self.coefficients_by_noise + precision * self.precision_by_cavity
        left = (1 - (1 - self.kept) / weight) ** 2
        change = -(self.covariance**2)  # Q before the division by `left`
        change[np.diag_indices_from(change)] += self.variance**2 / weight
        moved = self.precision_by_field[:, None] * follow  # N
        moved[np.diag_indices_from(moved)] += self.precision_by_cavity
        system = -(change / left[:, None]) @ moved
        system[np.diag_indices_from(system)] += 1.0
        cavity = np.linalg.solve(system.T, direct + fields @ follow)
        return replace(
            by,
            precision=by.precision + cavity * self.variance**2 / (weight * left),
            variance=by.variance + cavity / left,
        )

    def _fields_by_cavity(self) -> FloatArray:
        """Return dz/dc, by implicit differentiation of r(z) = 0."""
        problem, A = self.result.problem, self.result.coefficients
        inner = self.covariance - self.B.T * (problem.cavity / problem.weight)  # B' (K - c/w)
        inner *= self.coefficients_by_noise
        inner -= self.B.T * (A / problem.weight + self.field_by_noise)
        inner *= (problem.label * np.sqrt(self.lam) / self.spread)[:, None]
        return np.asarray(inner)
