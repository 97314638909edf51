r"""Differentiate any loss of a mean-field solution by kernel and noise: the adjoint method.

Problem: a loss is known as a function of what a solution gives (:mod:`widemargin.problems.
mean_field`, same symbols): the means f = KA, the coefficients A, the precisions
:math:`n = w d / (v + c (1 - d))` and the variances :math:`S = \mathrm{diag}\,\Sigma`. Its
derivative with respect to K, v and :math:`\kappa` is wanted, where the fields z, and for TAP the
cavity variances c, move along so that

.. math::

    r(z) = KA - c A / w - y \sqrt{\lambda}\, z = 0, \qquad A = w y F(z) / \sqrt{\lambda},

and :math:`c = S / (1 - \tau S)`, :math:`\tau = n/w`. The naive theory has c = diag K instead.

**Fields.** With :math:`B = (I + \mathrm{diag}(n) K)^{-1}` and :math:`q = 1 - c d / \lambda` the
Jacobian of the first equations needs no factorisation of its own,

.. math:: r_z = -\,(I + K \mathrm{diag}(n))\, \mathrm{diag}(q\, y \sqrt\lambda), \qquad
    r_z^{-T} g = -B\, \frac{y\, g}{q \sqrt\lambda} =: p .

The adjoint p of a derivative g with respect to z takes its place: dJ = -p'dr.

**Variances.** From :math:`d\Sigma = B' dK B - \Sigma\, \mathrm{diag}(dn)\, \Sigma` a derivative
:math:`\bar S` becomes :math:`B \mathrm{diag}(\bar S) B'` with respect to K and
:math:`-(\Sigma \circ \Sigma) \bar S` with respect to n.

**Cavities** (TAP). Let :math:`Q = \mathrm{diag}(1 - \tau S)^{-2} (\mathrm{diag}(S^2/w) - \Sigma
\circ \Sigma)`, the change of c with n, and N that of n with c, the fields following. Then a
derivative g with respect to c has the adjoint :math:`(I - QN)^{-T} g`: one dense system.

Everything but that system and three products of matrices costs O(n^2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.lapack import dgetrf, dgetri, dgetri_lwork

from widemargin._base.typing import FloatArray
from widemargin.problems.mean_field import Likelihood
from widemargin.solvers.mean_field import MeanFieldResult
from widemargin.tuning.kernel_paths import KernelGradient

# 1/Z of an all but impossible row, in derivatives by the flip noise. A flip noise of 1e-4 bounds it
# by itself; nearer to 0 such rows bend the loss within less than a descent can see.
LARGEST_RARITY = 1e4


@dataclass(frozen=True, eq=False)
class LatentGradient(KernelGradient):
    """Value of a loss and its derivatives with respect to the kernel matrix and the noise.

    dJ = left' dK right + sum_ij W_ij dK_ij + by_input_noise dv + by_flip_noise dkappa. All rows
    are support rows.
    """

    by_input_noise: float
    by_flip_noise: float


def flip_slopes(likelihood: Likelihood, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives of log Z(z) and of F(z) with respect to the flip noise."""
    surprise = np.minimum(-likelihood.log_probability(z), np.log(LARGEST_RARITY))
    rarity, contrast = np.exp(surprise), 1 - 2 * likelihood.flip_noise
    return (rarity - 2) / contrast, -likelihood.strength(z) * rarity / contrast


def shrinkage(K: FloatArray, precision: FloatArray) -> FloatArray:
    """Return B = (I + diag(n) K)^-1, whatever the signs of n."""
    system = precision[:, None] * K
    system[np.diag_indices_from(system)] += 1.0
    factor, pivots, failed = dgetrf(system.T, overwrite_a=1)
    if failed:
        raise FloatingPointError("the mean-field equations are singular at this point")
    room = int(dgetri_lwork(len(K))[0])
    return np.asarray(dgetri(factor, pivots, lwork=room, overwrite_lu=1)[0].T)


@dataclass
class SolutionGradient:
    """Derivatives of a loss with respect to what a solution gives, collected on the way back.

    Attributes
    ----------
    mean, coefficients, precision, variance : ndarray of shape (n,)
        With respect to f, A, n and S.
    input_noise, flip_noise : float
        With respect to v and kappa where they appear in the loss itself.
    """

    mean: FloatArray
    coefficients: FloatArray
    precision: FloatArray
    variance: FloatArray
    input_noise: float
    flip_noise: float


class Response:
    """The mean-field equations linearised at their solution.

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
        # First derivatives at given cavity variances: of n by d, z and c (d' = F (1 - d) - d (z +
        # F)), of A by z and by v or c, and of y sqrt(lambda) z by v at given z.
        root = np.sqrt(self.lam)
        bend = self.strength * self.rest - self.slope * (z + self.strength)
        self.precision_by_slope = problem.weight * self.lam / self.spread**2
        self.precision_by_field = self.precision_by_slope * bend
        self.precision_by_cavity = -self.precision * self.rest / self.spread
        self.coefficients_by_field = -problem.weight * problem.label * self.slope / root
        self.coefficients_by_noise = -0.5 * result.coefficients / self.lam
        self.field_by_noise = 0.5 * problem.label * z / root

    def gradient(self, loss: float, by: SolutionGradient) -> LatentGradient:
        """Return the derivatives of a loss with respect to K, v and kappa."""
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
        """Return the derivative with respect to n, variances following."""
        return by.precision - self.covariance**2 @ by.variance

    def _with_cavities(self, by: SolutionGradient, coefficients: FloatArray) -> SolutionGradient:
        """Add to the derivatives with respect to n and S what they do by way of c."""
        weight = self.result.problem.weight
        follow = self._fields_by_cavity()
        precision = self._precision(by)
        fields = coefficients * self.coefficients_by_field + precision * self.precision_by_field
        direct = coefficients * self.coefficients_by_noise + precision * self.precision_by_cavity
        left = (1 - (1 - self.kept) / weight) ** 2
        change = -(self.covariance**2)  # Q, but for the division by `left`
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
        """Return dz/dc by the first equations."""
        problem, A = self.result.problem, self.result.coefficients
        inner = self.covariance - self.B.T * (problem.cavity / problem.weight)  # B' (K - c/w)
        inner *= self.coefficients_by_noise
        inner -= self.B.T * (A / problem.weight + self.field_by_noise)
        inner *= (problem.label * np.sqrt(self.lam) / self.spread)[:, None]
        return np.asarray(inner)
