"""Result of the solvers for the mean-field equations."""

from __future__ import annotations

from dataclasses import dataclass

from widemargin._base.typing import FloatArray
from widemargin.problems.mean_field import Fields, MeanField
from widemargin.solvers.base import Budget, Result
from widemargin.solvers.mean_field.posterior import Posterior


@dataclass(frozen=True, eq=False, kw_only=True)
class MeanFieldResult(Result):
    """Solution of the mean-field equations.

    Steps are Newton steps, sweeps of expectation propagation or updates of Table 8.1.

    Attributes
    ----------
    problem : MeanField
        The equations, with the cavity variances of the solution.
    z : ndarray of shape (n,)
        Standardised fields.
    coefficients : ndarray of shape (n,)
        A; the posterior mean is sum_j A_j k(x, x_j).
    field : ndarray of shape (n,)
        K A, the posterior mean at the samples.
    log_evidence : float
        Approximation of log p(y).
    residual : float
        Largest error of the equations, relative to max(1, F).
    posterior : Posterior, optional
        The factorised posterior, if the solver has computed it.
    """

    problem: MeanField
    z: FloatArray
    coefficients: FloatArray
    field: FloatArray
    log_evidence: float
    residual: float
    posterior: Posterior | None = None

    @classmethod
    def at(
        cls,
        problem: MeanField,
        fields: Fields,
        budget: Budget,
        *,
        log_evidence: float,
        residual: float,
        posterior: Posterior | None = None,
    ) -> MeanFieldResult:
        """Construct the result of a run from its last fields and its budget."""
        return cls(
            problem=problem,
            z=fields.z,
            coefficients=fields.coefficients,
            field=fields.field,
            log_evidence=log_evidence,
            residual=residual,
            posterior=posterior,
            n_iter=budget.used,
            status=budget.status,
        )

    def precision(self) -> FloatArray:
        """Return the precision of each sample's Gaussian factor, all copies together."""
        return self.problem.precision(self.z)
