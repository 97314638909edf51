"""A machine that solves mean-field equations: parameters, covariance, solution, proof."""

from __future__ import annotations

import math

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from widemargin._base.messages import warn
from widemargin._base.progress import Watch
from widemargin._base.typing import FloatArray, Matrix
from widemargin._base.validation import require, require_bool, require_choice, require_number
from widemargin.certificate import Certificate, reason_of, worst
from widemargin.estimators._base.kernel import KernelMachine
from widemargin.fitted.latent import kernel_matrix
from widemargin.kernels import Kernel, Rows, is_mercer
from widemargin.problems.mean_field import naive
from widemargin.solvers.mean_field import (
    INFERENCES,
    SOLVERS,
    MeanFieldResult,
    factorise,
    matrices_needed,
    solve_mean_field,
)

MERCER_MATRICES = 6  # that is_mercer and its argument take
NOTHING = 1e-250  # a variance that is no more than what underflow has left of it
DOUBTFUL = 0.01  # rounding of I + T K T from which on it may have negative eigenvalues


class MeanFieldMachine(KernelMachine):
    """Base of MeanFieldGPClassifier: everything between its arguments and its solutions."""

    inference: str
    input_noise: float
    flip_noise: float
    mean_variance: float
    solver: str
    calibrate: bool
    n_iter_: int

    # -- parameters ------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_number("input_noise", self.input_noise, "a number, not negative", least=0.0)
        require_number("mean_variance", self.mean_variance, "a number, not negative", least=0.0)
        require_number("flip_noise", self.flip_noise, "a number in [0, 0.5)", least=0.0)
        require(self.flip_noise < 0.5, "flip_noise", self.flip_noise, "a number in [0, 0.5)")
        require_bool("calibrate", self.calibrate)
        require_choice("inference", self.inference, INFERENCES)
        require_choice("solver", self.solver, SOLVERS)
        if self.inference == "ep":
            fix = '"auto" with inference="ep", which has an algorithm of its own'
            require(self.solver == "auto", "solver", self.solver, fix)
        if self.inference == "tap":
            fix = 'another one with inference="tap": Table 8.1 is for the naive theory'
            require(self.solver != "table", "solver", self.solver, fix)

    def _check_memory(self, rows: Rows, n_functions: int) -> None:
        """Refuse before anything of size n x n is allocated."""
        # Leave-one-out holds K, a factor for each latent function and two inverse factors.
        matrices = max(matrices_needed(self.inference), 3 + n_functions)
        if not rows.kernel.is_mercer_by_name:
            matrices = max(matrices, MERCER_MATRICES)
        needed = 8e-6 * matrices * float(rows.n) ** 2
        if needed > self.cache_size:
            raise ValueError(
                f"cache_size must be at least {math.ceil(needed)} megabytes for {rows.n} rows, "
                f"{n_functions} latent function(s) and inference={self.inference!r}, which take "
                f"{matrices} matrices of {rows.n} x {rows.n} float64; got "
                f"cache_size={self.cache_size!r}. Raise it if the machine has the memory, or fit "
                "on a sample of the rows"
            )

    def _check_kernel_matrix(self, kernel: Kernel, X: Matrix) -> bool:
        """Say nothing: what is not positive semi-definite is refused later, see _covariance."""
        return False

    # -- one latent function ---------------------------------------------------------------

    def _covariance(self, rows: Rows) -> FloatArray:
        """Return the covariance of the latent function at the rows, or refuse it."""
        K = kernel_matrix(rows, float(self.mean_variance))
        if not np.isfinite(K).all():
            raise ValueError(f"kernel={self.kernel!r} gives values that are not finite numbers")
        if not rows.kernel.is_mercer_by_name:
            fix = "symmetric and positive semi-definite (widemargin.kernels.is_mercer)"
            require(is_mercer(K), "the matrix of the kernel", self.kernel, fix)
        least = float(np.diagonal(K).min()) + self.input_noise
        if least <= NOTHING:
            raise ValueError(
                f"input_noise must be positive where k(x, x) is 0 (a row of zeros, say); got "
                f"input_noise={self.input_noise!r} and k(x, x) + input_noise = {least:g}"
            )
        return K

    def _solve(
        self, K: FloatArray, label: FloatArray, weight: FloatArray, watch: Watch
    ) -> MeanFieldResult:
        """Solve for one latent function."""
        noise, flips = float(self.input_noise), float(self.flip_noise)
        problem = naive(label, weight, np.diagonal(K).copy(), noise, flips)
        watch.next_part()
        try:
            result = solve_mean_field(
                problem,
                K,
                inference=self.inference,
                solver=self.solver,
                tol=self.tol,
                max_iter=None if self.max_iter < 0 else int(self.max_iter),
                monitor=watch,
            )
            _check_posterior(K, result.precision())
            return result
        except (FloatingPointError, np.linalg.LinAlgError) as failure:
            raise ValueError(
                f"kernel must be positive semi-definite and input_noise not too small; got "
                f"kernel={self.kernel!r} and input_noise={self.input_noise!r}, and {failure}"
            ) from failure

    def _certify(self, K: FloatArray, results: list[MeanFieldResult], evaluations: int) -> None:
        """Prove the minima of the convex problems by their coefficients; note what is missing."""
        self.certificates_: list[Certificate] = []
        if self.inference == "naive" and self.flip_noise == 0:
            self.certificates_ = [
                result.problem.certificate(
                    "naive mean field",
                    result.coefficients,
                    K @ result.coefficients,
                    tol=self.tol,
                    n_iter=max(1, result.n_iter),
                    kernel_evaluations=evaluations,
                )
                for result in results
            ]
        self.certificate_ = worst(self.certificates_) if self.certificates_ else None
        proved = [certificate.kkt_violation for certificate in self.certificates_]
        self.residual_ = max(proved or [result.residual for result in results])

    def _warn_unconverged(self, results: list[MeanFieldResult]) -> None:
        if self.residual_ <= self.tol:
            return
        status = max(results, key=lambda result: result.residual).status
        reason, fix = reason_of([status])
        if status == "stalled" and self.flip_noise > 0:
            reason, fix = "no step improves the equations", "lower flip_noise or raise input_noise"
        elif status == "stalled" and self.solver == "table":
            reason, fix = "the iteration of Table 8.1 diverges", 'take solver="newton"'
        warn(
            f"{type(self).__name__} did not converge ({reason}): after {self.n_iter_} steps the "
            f"equations are met to {self.residual_:.2e} (asked: {self.tol:g}). To go on, {fix}.",
            ConvergenceWarning,
        )


def _check_posterior(K: FloatArray, precision: FloatArray) -> None:
    """Raise now what predictions would raise: rounding errors of K that outweigh the noise."""
    largest = float((np.abs(precision) * np.diagonal(K)).max())
    if len(K) * np.finfo(np.float64).eps * largest > DOUBTFUL:
        factorise(K, precision)
