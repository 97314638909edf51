r"""Newton's method for the cavity variances of TAP, from an approximate inverse in float32.

The cavity variances c determine the fields z and the precisions n, and these the variances of the
posterior and thereby the cavity variances c'(c) that they imply. With :math:`T = \mathrm{diag}
(n)^{1/2}`, :math:`X = (I + TKT)^{-1}` and the symbols of :mod:`widemargin.problems.mean_field`,

.. math::

    dz &= \frac{y \sqrt\lambda}{v + c (1 - d)} \; T^{-1} \bigl[ (I - X) T^{-1} a
        - X T (c a / w + b) \bigr], \qquad
        a = -\frac{A\, dc}{2 \lambda}, \quad
        b = \Bigl( \frac Aw + \frac{y z}{2 \sqrt\lambda} \Bigr) dc,

    dn &= \frac{\partial n}{\partial z} dz + \frac{\partial n}{\partial c} dc, \qquad
    dc' = \frac{(S^2 / w)\, dn - (\Sigma \circ \Sigma)\, dn}{(1 - \tau S)^2}, \quad
    \Sigma = T^{-1} (I - X) T^{-1} .

The Newton step solves :math:`dc - dc' = c' - c` by conjugate residuals of few products with X.
Rounding of X to float32 and the distance to the point at which it was computed only slow down the
convergence, since the right side is the residual of the equations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np
from scipy.linalg.lapack import spotrf, spotri
from scipy.sparse.linalg import LinearOperator, gmres

from widemargin._base.typing import FloatArray, RealArray
from widemargin.problems.mean_field import MeanField
from widemargin.solvers.base import Budget
from widemargin.solvers.mean_field.newton import Direction, solve_newton

STEP_TOL = 1e-4  # residual of a Newton step
STEP_PRODUCTS = 20
SURE = 0.01  # if 1 - X_ii is below this, it is computed from the variance
SMALLEST = 1e-6  # smallest X_ii that float32 is taken to resolve
NO_ROOT = 1e-15  # of an entry of T, relative to the largest
BLOCK_ROWS = 512
# If 1 - X_ii is below this, the response of the sample is taken to be 0: it determines hardly
# anything, and float32 does not resolve the response.
RESPONDING = 1e-4
SHRUNK = 0.1  # a step that makes a variance smaller than this fraction of itself is not taken

MOST_ROUGH_ROUNDS = 8
ROUGH_TOL = 1e-7  # smallest residual of the fields in a round in float32
ROUGH_CHANGE = 1e-4  # relative change of the variances below which the rounds are in float64
STALLED = 0.3  # factor by which the change must decrease, else rounding in float32 dominates
LARGEST = 1e15  # larger kernel values are beyond the range of float32 when multiplied

Moved: TypeAlias = tuple[FloatArray, FloatArray]


class RoughInverse:
    """X in float32, with the diagonals of the posterior.

    Attributes
    ----------
    precision, root : ndarray of shape (n,)
        n and the diagonal of T.
    X : ndarray of shape (n, n)
        The inverse.
    """

    def __init__(self, single: RealArray, precision: FloatArray) -> None:
        """Raise FloatingPointError if the matrix is not positive definite in float32."""
        self.precision, self.root = precision, np.sqrt(precision)
        root = self.root.astype(np.float32)
        system = single * root
        system *= root[:, None]
        system[np.diag_indices_from(system)] += np.float32(1.0)
        factor, failed = spotrf(system.T, lower=1, clean=0, overwrite_a=1)
        inverse, singular = spotri(factor, lower=1, overwrite_c=1)
        if failed or singular or not np.isfinite(inverse.diagonal()).all():
            raise FloatingPointError("the posterior is not resolved in float32")
        self.X = _symmetric(inverse.T)

    def diagonals(self, K: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the diagonals of B and of Sigma = K T X T^-1, whose terms hardly cancel."""
        variance = np.empty(len(K))
        for start in range(0, len(K), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            variance[part] = np.einsum("ij,ij->i", K[part] * self.root, self.X[part])
        tiny = self.root <= NO_ROOT * float(self.root.max(initial=0.0))
        np.divide(variance, self.root, out=variance, where=~tiny)
        variance[tiny] = K.diagonal()[tiny]  # samples that determine nothing
        kept = np.clip(self.X.diagonal().astype(np.float64), SMALLEST, 1.0)
        unsure = 1 - kept < SURE
        kept[unsure] = 1 - self.precision[unsure] * variance[unsure]
        return kept, variance


class CavityStep:
    """Linearised equations of the cavity variances at one point.

    Parameters
    ----------
    problem : MeanField
        The equations at cavity variances c.
    z : ndarray of shape (n,)
        Their solution.
    inverse : RoughInverse
        X at this point.
    kept, variance : ndarray of shape (n,)
        The diagonals of B and Sigma.
    """

    def __init__(
        self,
        problem: MeanField,
        z: FloatArray,
        inverse: RoughInverse,
        kept: FloatArray,
        variance: FloatArray,
    ) -> None:
        likelihood, w, c = problem.likelihood, problem.weight, problem.cavity
        strength = likelihood.strength(z)
        d, rest = likelihood.slope(z)
        lam = problem.scale**2
        spread = problem.input_noise + c * rest
        A = problem.coefficients(z)
        self.X, root = inverse.X, inverse.root
        large = 1 - kept > RESPONDING
        self.root = np.where(large, root, 0.0)
        self.inverse_root = np.divide(1.0, root, out=np.zeros_like(root), where=large)
        self.field = problem.label * problem.scale / spread
        self.by_coefficient = -0.5 * A / lam
        self.by_field = (
            c / w * self.by_coefficient + A / w + 0.5 * problem.label * z / problem.scale
        )
        bend = strength * rest - d * (z + strength)
        self.precision_by_field = w * lam / spread**2 * bend
        self.precision_by_cavity = -w * d / spread * rest / spread
        self.own = np.where(large, variance**2 * (1 / w - 1), 0.0)
        self.left = (1 - (1 - kept) / w) ** 2
        self.unit = c + problem.input_noise

    def _product(self, vector: FloatArray) -> FloatArray:
        return np.asarray(self.X @ vector.astype(np.float32), dtype=np.float64)

    def fields(self, change: FloatArray) -> FloatArray:
        """Return the change of the fields z for a change of c."""
        first = self.inverse_root * self.by_coefficient * change
        moved = first - self._product(first + self.root * self.by_field * change)
        return self.field * self.inverse_root * moved

    def _implied(self, change: FloatArray) -> FloatArray:
        """Return the change of the implied cavity variances for a change of c."""
        dn = self.precision_by_field * self.fields(change) + self.precision_by_cavity * change
        scaled = self.inverse_root**2 * dn
        # (I - X) squared entry by entry is X squared off the diagonal; that is known in float64.
        squares = np.einsum("ij,ij,j->i", self.X, self.X, scaled.astype(np.float32))
        others = self.inverse_root**2 * (squares - self.X.diagonal() ** 2 * scaled)
        return (self.own * dn - others) / self.left

    def moved(self, problem: MeanField, implied: FloatArray, z: FloatArray) -> Moved | None:
        """Return the cavity variances and fields after a Newton step; None if it is too long.

        `problem` and z may be those of a later point, at which c' is `implied`.
        """
        step = self._solve(implied - problem.cavity)
        cavity = problem.cavity + step
        if not (cavity > SHRUNK * problem.cavity).all():
            return None
        return cavity, z + self.fields(step)

    def _solve(self, missing: FloatArray) -> FloatArray:
        """Return the step in c, given c' - c."""
        unit = self.unit

        def residual(step: FloatArray) -> FloatArray:
            return step - self._implied(unit * step) / unit

        system = LinearOperator((len(unit), len(unit)), matvec=residual, dtype=np.float64)
        options = {"rtol": STEP_TOL, "restart": STEP_PRODUCTS, "maxiter": 1}
        return np.asarray(unit * gmres(system, missing / unit, **options)[0])


def goal_after(change: float) -> float:
    """Return the residual of the fields at which a Newton step for the variances is useful."""
    return 1e-3 * min(1.0, change) ** 2


def rough_rounds(
    problem: MeanField,
    K: FloatArray,
    z: FloatArray,
    direction: Direction,
    *,
    tol: float,
    budget: Budget,
) -> tuple[MeanField, FloatArray, CavityStep | None]:
    """Improve the cavity variances by Newton steps with posteriors in float32.

    Returns the equations at the new variances, a start for their fields, and the last response;
    None if there is none because float32 or negative precisions do not allow it.
    """
    response, change = None, np.inf
    if float(np.diagonal(K).max()) > LARGEST:
        return problem, z, None
    single = K.astype(np.float32)
    for _ in range(MOST_ROUGH_ROUNDS):
        goal = max(0.1 * tol, ROUGH_TOL, goal_after(change))
        z = solve_newton(problem, K, direction, tol=goal, budget=budget, start=z).z
        precision = problem.precision(z)
        if budget.status != "converged" or (precision < 0).any():
            return problem, z, None
        try:
            inverse = RoughInverse(single, precision)
        except FloatingPointError:
            return problem, z, None
        kept, variance = inverse.diagonals(K)
        rest = 1 - (1 - kept) / problem.weight
        if not (rest > 0).all():
            return problem, z, None
        implied = variance / rest
        response = CavityStep(problem, z, inverse, kept, variance)
        moved = response.moved(problem, implied, z)
        before = change
        change = float((np.abs(implied - problem.cavity) / problem.scale**2).max())
        cavity, z = (implied, z) if moved is None else moved
        problem = replace(problem, cavity=cavity)
        if change < ROUGH_CHANGE or (change < 0.3 and change > STALLED * before):
            break
    return problem, z, response


def _symmetric(lower: RealArray) -> RealArray:
    """Return the symmetric matrix of which the upper triangle is given, in place."""
    n, size = len(lower), 512
    for start in range(0, n, size):
        stop = min(start + size, n)
        block = lower[start:stop, start:stop]
        block[...] = np.triu(block) + np.triu(block, 1).T
        lower[stop:, start:stop] = lower[start:stop, stop:].T
    return lower
