r"""Mean-field equations of Gaussian-process classification (naive and TAP) and their certificate.

The latent function f has a Gaussian prior with covariance k(x, x'). Labels -1 and +1 are the signs
of f plus Gaussian noise of variance v, flipped with probability :math:`\kappa` (Opper and Winther
2000, (8.12)-(8.17)). The posterior mean is a kernel expansion, (8.35),

.. math::

    \langle f(x) \rangle = \sum_j k(x, x_j)\, A_j, \qquad A_j = w_j y_j \alpha_j ,

where a sample of weight w represents w equal samples, each with its own noise and *embedding
strength* :math:`\alpha`. The mean-field equations are, (8.40),

.. math::

    \alpha_i = \frac{F(z_i)}{\sqrt{\lambda_i}}, \quad z_i = \frac{y_i h_i}{\sqrt{\lambda_i}}, \quad
    h_i = \sum_j k_{ij} A_j - c_i y_i \alpha_i, \quad
    F(z) = \frac{(1 - 2\kappa) D(z)}{\kappa + (1 - 2\kappa) \Phi(z)} ,

where

- :math:`y_i, w_i`: label, -1 or +1, and weight of sample i;
- :math:`A_j, \alpha_j`: coefficient and embedding strength;
- :math:`c_i`: cavity variance, the variance of f at sample i given the other samples;
- :math:`\lambda_i = c_i + v`: the same with the noise;
- :math:`h_i, z_i`: cavity field, the mean of f at sample i given the others, and its standardised
  value;
- :math:`D, \Phi`: density and distribution function of the standard normal distribution;
- :math:`v, \kappa`: input noise and flip noise.

The **naive** theory sets :math:`c_i = k(x_i, x_i)`. **TAP** uses the cavity variance implied by the
solution: with the slope :math:`d = -F' = F (z + F) < 1` each of the w copies of a sample acts on f
as a Gaussian factor of precision :math:`\tau_i = (d_i/\lambda_i) / (1 - c_i d_i/\lambda_i)`, and

.. math::

    \Sigma = (K^{-1} + \mathrm{diag}(w\tau))^{-1}, \qquad
    c_i = \frac{\Sigma_{ii}}{1 - \tau_i \Sigma_{ii}} .

**Primal and dual.** For :math:`\kappa = 0` and given c, the equations are the stationarity
conditions of the strictly convex **primal** (its Hessian in A is
:math:`K + \mathrm{diag}(1/(w\tau))`)

.. math::

    E(A) = \tfrac12 A'KA + \sum_i w_i \psi_i(\alpha_i), \qquad
    \psi_i = \log\Phi(t_i) - t_i F(t_i) - \tfrac12 c_i \alpha_i^2
    \quad\text{with}\quad \alpha_i = F(t_i)/\sqrt{\lambda_i} ,

so that they have at most one solution, and exactly one if v > 0. The Fenchel **dual**,

.. math:: \max_f \; -\tfrac12 f'K^{-1}f - \sum_i w_i \psi_i^*(-y_i f_i),

is evaluated at f = KA. Both objectives of the certificate are functions of A, the labels and K
alone; E is infinite where an :math:`\alpha` is negative. They are enclosed with all rounding
errors, see :mod:`widemargin.problems.mean_field.bounds`; the lower bound assumes that K is positive
semi-definite, which is known for kernels by name and tested with a tolerance for others. The
minimum of E is the naive approximation of log p(y). For :math:`\kappa > 0` the problem is not
convex, nor is it for TAP and expectation propagation: a fit then reports the residual of the
equations and no certificate.

In the paper's notation, (8.42): :math:`\Omega_i = \lambda_i (1/d_i - 1)`, and
:math:`1/\tau_i = v + \Omega_i`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.linalg.blas import dsymv
from scipy.special import erfcx, log_ndtr, ndtr

from widemargin._base.double_double import U
from widemargin._base.normal import excess_far_left
from widemargin._base.typing import FloatArray
from widemargin.certificate import Bracket, Certificate, tightest
from widemargin.problems.mean_field.bounds import Covariance, bracket

FAR_LEFT = -4.0  # below it z + F(z) suffers from cancellation; use a continued fraction
LARGEST_Z = 1e100  # its square does not overflow
DUAL_STEPS = 60
FIELD_STEPS = 60
FEW_SIGMAS = 0.3  # strengths below this have z > 0, where F is close to the normal density
LARGEST_FIELD = 37.5  # F is 5e-307 here and underflows beyond
SMALLEST_STRENGTH = 1e-306
WEIGHT_ERROR = 4.0 * U  # relative error of a sample weight that is not a sum of many
SMALL_GAP = 1e-6  # relative gap above which other dual points are tried


@dataclass(frozen=True)
class Likelihood:
    r"""Probability of a label given a standardised field, and its derivatives.

    With :math:`Z(z) = \kappa + (1 - 2\kappa)\Phi(z)` these are log Z, F = (log Z)' and d = -F'.
    They are accurate for all z, also where :math:`\Phi` underflows and F(z) is close to -z.

    Attributes
    ----------
    flip_noise : float
        Probability :math:`\kappa` that a label is flipped, in [0, 0.5).
    """

    flip_noise: float = 0.0

    def log_probability(self, z: FloatArray) -> FloatArray:
        """Return log Z(z)."""
        if self.flip_noise == 0:
            return np.asarray(log_ndtr(z))
        return np.asarray(np.log(self.probability(z)))

    def probability(self, z: FloatArray) -> FloatArray:
        """Return Z(z)."""
        return np.asarray(self.flip_noise + (1 - 2 * self.flip_noise) * ndtr(z))

    def strength(self, z: FloatArray) -> FloatArray:
        """Return F(z), the embedding strength of a sample with lambda = 1."""
        if self.flip_noise == 0:
            return np.asarray(np.sqrt(2 / np.pi) / erfcx(np.minimum(-z / np.sqrt(2), LARGEST_Z)))
        density = np.exp(-0.5 * np.clip(z, -LARGEST_Z, LARGEST_Z) ** 2) / np.sqrt(2 * np.pi)
        return np.asarray((1 - 2 * self.flip_noise) * density / self.probability(z))

    def slope(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return d = -F'(z) and 1 - d, each with full relative accuracy for kappa = 0."""
        z = np.clip(z, -LARGEST_Z, LARGEST_Z)
        strength = self.strength(z)
        d = strength * (z + strength)
        rest = 1 - d
        if self.flip_noise == 0:
            far = z < FAR_LEFT
            d[far], rest[far] = _slope_far_left(-z[far])
        return d, rest


def _slope_far_left(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return d and 1 - d at z = -x from F(-x) = x + 1/(x + 2/(x + 3/(x + ...)))."""
    excess, tail = excess_far_left(x)  # F + z
    return (x + excess) * excess, (tail - excess) / (x + tail)


class SymmetricMatrix(Protocol):
    """Operations of a covariance matrix that the equations need: an array has them."""

    def __matmul__(self, other: FloatArray, /) -> FloatArray:
        """Return the product with a vector."""

    def diagonal(self) -> FloatArray:
        """Return the diagonal."""


def symmetric_product(K: SymmetricMatrix, vector: FloatArray) -> FloatArray:
    """Return K @ vector; of an array one triangle is read only."""
    if not isinstance(K, np.ndarray):
        return np.asarray(K @ vector)
    return np.asarray(dsymv(1.0, K.T, vector, lower=1))


@dataclass(frozen=True, eq=False)
class Fields:
    """Mean-field equations evaluated at standardised fields z.

    Attributes
    ----------
    z : ndarray of shape (n,)
        Standardised fields.
    coefficients : ndarray of shape (n,)
        A, computed from z.
    field : ndarray of shape (n,)
        K A.
    reached : ndarray of shape (n,)
        Standardised fields computed from A; equal to z at the solution.
    residual : float
        Largest relative error of the equations.
    """

    z: FloatArray
    coefficients: FloatArray
    field: FloatArray
    reached: FloatArray
    residual: float


@dataclass(frozen=True, eq=False)
class MeanField:
    """Mean-field equations of a binary problem at given cavity variances.

    Attributes
    ----------
    label : ndarray of shape (n,)
        Labels -1 and +1.
    weight : ndarray of shape (n,)
        Positive sample weights: the number of equal samples that each one represents.
    cavity : ndarray of shape (n,)
        c; the diagonal of K for the naive theory.
    input_noise : float or ndarray of shape (n,)
        v; a low-rank model adds the variance that it does not represent.
    likelihood : Likelihood
        Z, F and d.
    """

    label: FloatArray
    weight: FloatArray
    cavity: FloatArray
    input_noise: Any
    likelihood: Likelihood = Likelihood()

    @property
    def n_rows(self) -> int:
        """Number of samples."""
        return len(self.label)

    @cached_property
    def scale(self) -> FloatArray:
        """Return sqrt(lambda), the standard deviation of the noisy cavity field."""
        return np.sqrt(self.cavity + self.input_noise)

    @property
    def least_noise(self) -> float:
        """Smallest input noise of a sample."""
        return float(np.min(self.input_noise))

    @property
    def is_convex(self) -> bool:
        """Whether the solution is the minimum of a convex function."""
        return self.likelihood.flip_noise == 0

    def with_flip_noise(self, flip_noise: float) -> MeanField:
        """Return the same equations with another flip noise."""
        return replace(self, likelihood=Likelihood(flip_noise))

    def coefficients(self, z: FloatArray) -> FloatArray:
        """Return A = w y alpha, alpha = F(z) / sqrt(lambda)."""
        return self.weight * self.label * self.likelihood.strength(z) / self.scale

    def reached(self, coefficients: FloatArray, field: FloatArray) -> FloatArray:
        """Return y h / sqrt(lambda), which is z at the solution; `field` is K A."""
        h = field - self.cavity * coefficients / self.weight
        return self.label * h / self.scale

    def residual(self, z: FloatArray, reached: FloatArray) -> float:
        """Return the largest error of alpha sqrt(lambda) = F(z), relative to max(1, F).

        `reached` is the z computed from the coefficients at z.
        """
        asked = self.likelihood.strength(reached)
        error = np.abs(self.likelihood.strength(z) - asked) / np.maximum(1.0, asked)
        return float(error.max(initial=0.0))

    def at(self, K: SymmetricMatrix, z: FloatArray) -> Fields:
        """Evaluate the equations at standardised fields z."""
        coefficients = self.coefficients(z)
        field = symmetric_product(K, coefficients)
        reached = self.reached(coefficients, field)
        return Fields(z, coefficients, field, reached, self.residual(z, reached))

    def log_evidence(self, fields: Fields) -> float:
        """Return sum_i w_i log Z(z_i) - A'h / 2, the minimum of E for flip noise 0."""
        h = fields.field - self.cavity * fields.coefficients / self.weight
        likely = self.weight @ self.likelihood.log_probability(fields.z)
        return float(likely - 0.5 * fields.coefficients @ h)

    def precision(self, z: FloatArray) -> FloatArray:
        """Return w tau, the precision of the Gaussian factors of all copies of each sample.

        It is negative for a sample that the flip noise explains better than f does.
        """
        d, rest = self.likelihood.slope(z)
        return self.weight * d / (self.input_noise + self.cavity * rest)

    def omega(self, z: FloatArray) -> FloatArray:
        """Return Omega of Opper and Winther (2000), (8.42); infinite where d vanishes."""
        d, rest = self.likelihood.slope(z)
        with np.errstate(divide="ignore", over="ignore"):
            return (self.cavity + self.input_noise) * (rest / d)

    def objective(self, z: FloatArray, field: FloatArray) -> float:
        """Return E at A = coefficients(z), given `field` = K A."""
        coefficients = self.coefficients(z)
        return float(0.5 * coefficients @ field + self.weight @ self._psi(z))

    def _psi(self, t: FloatArray) -> FloatArray:
        strength = self.likelihood.strength(t)
        legendre = self.likelihood.log_probability(t) - t * strength
        return legendre - 0.5 * self.cavity * (strength / self.scale) ** 2

    def fields_of(self, coefficients: FloatArray) -> FloatArray:
        """Solve F(z) = alpha sqrt(lambda) for z by Newton's method; for flip noise 0 only.

        log F is concave and decreasing in z, so the iterates of Newton's method for log F(z) =
        log(alpha sqrt(lambda)) are not left of the root after one step and decrease from there. z
        is NaN where alpha is negative, and close to LARGEST_FIELD where alpha underflows.
        """
        asked = self.label * coefficients / self.weight * self.scale
        asked = np.where(asked >= 0, np.maximum(asked, SMALLEST_STRENGTH), np.nan)
        with np.errstate(invalid="ignore"):
            tail = np.sqrt(np.maximum(-2 * np.log(np.sqrt(2 * np.pi) * asked), 0.0))
        z = np.where(asked < FEW_SIGMAS, tail, -asked)
        for _ in range(FIELD_STEPS):
            strength = self.likelihood.strength(z)
            step = np.log(strength / asked) * strength / self.likelihood.slope(z)[0]
            z = np.minimum(z + step, LARGEST_FIELD)
            if not (np.abs(step) > 1e-15 * np.maximum(1.0, np.abs(z))).any():
                break
        return z

    def supporting(self, signed: FloatArray, start: FloatArray) -> FloatArray:
        """Solve sqrt(lambda) t + c F(t) / sqrt(lambda) = signed by Newton's method.

        The solutions are the fields of the maximisers in the conjugates, at y f = `signed`.

        The left side is increasing and convex in t, so the iterates decrease to the root from the
        second step on. Without input noise it is positive, so that there is no root for signed <= 0
        and the result is -inf.
        """
        t, scale = start.copy(), self.scale
        lam = scale * scale
        for _ in range(DUAL_STEPS):
            strength = self.likelihood.strength(t)
            d, rest = self.likelihood.slope(t)
            # d / F is t + F without cancellation; the terms with c t cancel as well.
            with np.errstate(invalid="ignore"):
                pulled = np.where(t > 0.0, t + strength, d / strength)
            excess = scale * pulled - self.input_noise * strength / scale - signed
            step = excess * scale / (self.input_noise + self.cavity * rest)
            t = t - step
            if (np.abs(step) <= 1e-14 * np.maximum(1.0, np.abs(t))).all():
                return t
        unsolved = np.abs(excess) > 1e-10 * (np.abs(signed) + lam)
        return np.where(unsolved, -np.inf, t)

    def certificate(
        self,
        name: str,
        coefficients: FloatArray,
        covariance: Covariance,
        *,
        tol: float,
        n_iter: int,
        kernel_evaluations: int = 0,
        blur: float = WEIGHT_ERROR,
    ) -> Certificate:
        """Return the certificate: E, the Fenchel dual and the residual of the equations.

        It depends on A = `coefficients` and the covariance only, not on the state of the solver.
        For flip noise 0 only. `blur` is the relative error of the weights.
        """
        z = self.fields_of(coefficients)

        def evaluate(precise: bool) -> Bracket:
            return bracket(
                self, covariance, coefficients, z, blur=blur, tol=SMALL_GAP, precise=precise
            )

        found, residual = tightest(evaluate), np.inf
        if not np.isnan(z).any():
            field = covariance.K @ coefficients
            residual = self.residual(z, self.reached(coefficients, field))
        return Certificate.from_objectives(
            name,
            primal=found.primal,
            dual=found.dual,
            kkt_violation=residual,
            converged=residual <= tol,
            n_iter=n_iter,
            kernel_evaluations=kernel_evaluations,
            rounding=found.rounding,
        )


def naive(
    label: FloatArray,
    weight: FloatArray,
    diagonal: FloatArray,
    input_noise: Any,
    flip_noise: float = 0.0,
) -> MeanField:
    """Return the naive mean-field equations, with cavity variances k(x_i, x_i)."""
    return MeanField(label, weight, diagonal, input_noise, Likelihood(flip_noise))
