"""Where a mean-field iteration stands and what it ends with; what all methods for it share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.problems.mean_field import MeanField
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.mean_field.posterior import symmetric_product

# Squared distance of the classes' hulls, relative to the kernel's diagonal. At that distance 1 -
# F(z) / alpha is of its size, which a residual of 1e-10 can still tell from 0.
SINGULAR = 1e-9


@dataclass(frozen=True, eq=False)
class Fields:
    """Where an iteration stands.

    Attributes
    ----------
    z : ndarray of shape (n,)
        Standardised fields; the coefficients are those that they ask for.
    coefficients : ndarray of shape (n,)
        A.
    field : ndarray of shape (n,)
        K A.
    reached : ndarray of shape (n,)
        The fields that the coefficients lead to.
    residual : float
        Largest relative error of the equations.
    """

    z: FloatArray
    coefficients: FloatArray
    field: FloatArray
    reached: FloatArray
    residual: float

    @classmethod
    def at(cls, problem: MeanField, K: FloatArray, z: FloatArray) -> Fields:
        """Evaluate the equations at some fields."""
        coefficients = problem.coefficients(z)
        field = symmetric_product(K, coefficients)
        reached = problem.reached(coefficients, field)
        return cls(z, coefficients, field, reached, problem.residual(z, reached))


@dataclass(frozen=True, eq=False)
class MeanFieldResult:
    """A solution of the mean-field equations.

    Attributes
    ----------
    problem : MeanField
        The equations, with the cavity variances of the solution.
    z : ndarray of shape (n,)
        Standardised fields.
    coefficients : ndarray of shape (n,)
        A, so that the posterior mean is sum_j A_j k(x, x_j).
    field : ndarray of shape (n,)
        K A, the posterior mean at the rows.
    log_evidence : float
        Approximation of log p(y).
    residual : float
        Largest error of the equations, relative to max(1, F).
    n_iter : int
        Newton steps (of EP: sweeps; of Table 8.1: updates).
    status : {"converged", "max_iter", "stopped", "stalled"}
        As for the other solvers.
    """

    problem: MeanField
    z: FloatArray
    coefficients: FloatArray
    field: FloatArray
    log_evidence: float
    residual: float
    n_iter: int
    status: Status

    def precision(self) -> FloatArray:
        """Return the precision with which each row fixes f."""
        return self.problem.precision(self.z)


def naive_evidence(problem: MeanField, fields: Fields) -> float:
    """Return sum_i w_i log Z(z_i) - A'h / 2, the minimum of E where flip noise is 0."""
    h = fields.field - problem.cavity * fields.coefficients / problem.weight
    likely = problem.weight @ problem.likelihood.log_probability(fields.z)
    return float(likely - 0.5 * fields.coefficients @ h)


def finished(problem: MeanField, fields: Fields, budget: Budget) -> MeanFieldResult:
    """Return the result of a method for the naive equations."""
    return MeanFieldResult(
        problem,
        fields.z,
        fields.coefficients,
        fields.field,
        naive_evidence(problem, fields),
        fields.residual,
        budget.used,
        budget.status,
    )


def require_separable(K: FloatArray, coefficients: FloatArray) -> None:
    """Raise if coefficients prove that equations without input noise have no solution.

    They have none if and only if some coefficients of the labels' signs, not all zero, combine the
    rows to zero: the classes cannot be separated without a threshold. An iteration then leads
    there, its coefficients growing without bound.
    """
    total = max(float(np.abs(coefficients).sum()), np.finfo(np.float64).tiny)
    share = coefficients / total
    largest = float(np.diagonal(K).max())
    if float(share @ symmetric_product(K, share)) <= SINGULAR * largest:
        raise ValueError(
            "input_noise=0 needs classes that the kernel separates (equal rows with different "
            "labels cannot be), and these are not: give a positive input_noise, e.g. "
            f"input_noise={0.1 * largest:.2g}, a tenth of the kernel's diagonal"
        )
