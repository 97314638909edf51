"""Fit one latent function: validate, compute the covariance, solve and certify."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from widemargin._base.messages import warn
from widemargin._base.typing import FloatArray
from widemargin._base.validation import require, require_choice, require_number
from widemargin.certificate import Certificate, reason_of
from widemargin.fitted.latent import kernel_matrix
from widemargin.kernels import Rows, is_mercer
from widemargin.problems.mean_field import MeanField
from widemargin.problems.mean_field.bounds import Covariance
from widemargin.solvers import mean_field
from widemargin.solvers.base import Budget
from widemargin.solvers.mean_field import (
    INFERENCES,
    METHODS,
    MeanFieldResult,
    factorise,
    matrices_needed,
)

MERCER_MATRICES = 6  # n x n matrices that is_mercer needs, its argument included
NOTHING = 1e-250  # variances below this are the result of underflow
DOUBTFUL = 0.01  # rounding error of I + T K T above which it may have negative eigenvalues


def check_method(inference: str, solver: str) -> None:
    """Raise if the solver is not available for the approximation."""
    require_choice("inference", inference, INFERENCES)
    require_choice("solver", solver, METHODS)
    if inference == "naive":
        fix = 'another one with inference="naive": expectation propagation solves TAP'
        require(solver != "sweeps", "solver", solver, fix)
    else:
        fix = f'another one with inference="{inference}": Table 8.1 is for the naive theory'
        require(solver != "table", "solver", solver, fix)


def check_mean_variance(value: Any) -> None:
    """Raise if a prior variance of the constant mean is neither "auto" nor a number."""
    if not (isinstance(value, str) and value == "auto"):
        require_number("mean_variance", value, '"auto" or a number, not negative', least=0.0)


def check_calibrate(value: Any) -> None:
    """Raise if the choice of calibration is neither "auto" nor a boolean."""
    if not (isinstance(value, str) and value == "auto"):
        require(isinstance(value, bool | np.bool_), "calibrate", value, '"auto", True or False')


def is_calibrated(calibrate: Any, inference: str) -> bool:
    """Return whether latent means are scaled by leave-one-out; "auto": for the naive theory."""
    return inference == "naive" if isinstance(calibrate, str) else bool(calibrate)


def check_memory(
    rows: Rows, n_functions: int, inference: str, solver: str, cache_size: float
) -> None:
    """Raise if the n x n matrices would exceed cache_size, before they are allocated."""
    # Leave-one-out holds K and one factor per latent function, which TAP keeps during the fit.
    own = matrices_needed(inference, solver)
    matrices = max(own, 3 + n_functions) if inference == "naive" else own - 1 + n_functions
    if not rows.kernel.is_mercer_by_name:
        matrices = max(matrices, MERCER_MATRICES)
    needed = 8e-6 * matrices * float(rows.n) ** 2
    if needed > cache_size:
        raise ValueError(
            f"cache_size must be at least {math.ceil(needed)} megabytes for {rows.n} rows, "
            f"{n_functions} latent function(s) and inference={inference!r}, which take "
            f"{matrices} matrices of {rows.n} x {rows.n} float64; got "
            f"cache_size={cache_size!r}. Raise it if the machine has the memory, or fit "
            "on a sample of the rows"
        )


def covariance(rows: Rows, kernel: Any, mean_variance: float, input_noise: float) -> FloatArray:
    """Return the covariance matrix of the latent function; raise if it is not usable.

    `kernel` is the estimator's parameter, used in error messages.
    """
    K = kernel_matrix(rows, float(mean_variance))
    if not np.isfinite(K).all():
        raise ValueError(f"kernel={kernel!r} gives values that are not finite numbers")
    if not rows.kernel.is_mercer_by_name:
        fix = "symmetric and positive semi-definite (widemargin.kernels.is_mercer)"
        require(is_mercer(K), "the matrix of the kernel", kernel, fix)
    least = float(np.diagonal(K).min()) + input_noise
    if least <= NOTHING:
        raise ValueError(
            f"input_noise must be positive where k(x, x) is 0 (a row of zeros, say); got "
            f"input_noise={input_noise!r} and k(x, x) + input_noise = {least:g}"
        )
    return K


def solve_function(
    problem: MeanField,
    K: Any,
    *,
    tol: float,
    budget: Budget,
    method: str,
    inference: str,
    kernel: Any,
) -> MeanFieldResult:
    """Solve the equations of one latent function; raise if rounding makes them unsolvable."""
    try:
        result = mean_field.solve(
            problem, K, tol=tol, budget=budget, method=method, inference=inference
        )
        # Factorise here so that `fit` raises, not `predict`, if rounding in K outweighs the noise.
        if result.posterior is not None:
            return result
        precision = result.precision()
        largest = float((np.abs(precision) * K.diagonal()).max())
        if len(K) * np.finfo(np.float64).eps * largest > DOUBTFUL:
            factorise(K, precision)
        return result
    except (FloatingPointError, np.linalg.LinAlgError) as failure:
        raise ValueError(
            f"kernel must be positive semi-definite and input_noise not too small; got "
            f"kernel={kernel!r} and input_noise={problem.input_noise!r}, and {failure}"
        ) from failure


def certificates(
    known: Covariance, results: list[MeanFieldResult], tol: float, blur: float
) -> list[Certificate]:
    """Return the certificates of convex problems at the fitted coefficients.

    `blur` is the relative error of the weights of the samples.
    """
    evaluations = known.rows.evaluations if known.rows is not None else 0
    return [
        result.problem.certificate(
            "naive mean field",
            result.coefficients,
            known,
            tol=tol,
            n_iter=max(1, result.n_iter),
            kernel_evaluations=evaluations,
            blur=blur,
        )
        for result in results
    ]


def warn_unconverged(
    name: str, results: list[MeanFieldResult], residual: float, tol: float, solver: str
) -> None:
    """Warn about equations that are not solved, with the reason and a remedy."""
    worst = max(results, key=lambda result: result.residual)
    reason, fix = reason_of([worst.status])
    if worst.status == "stalled" and not worst.problem.is_convex:
        reason, fix = "no step improves the equations", "lower flip_noise or raise input_noise"
    elif worst.status == "stalled" and solver == "table":
        reason, fix = "the iteration of Table 8.1 diverges", 'take solver="newton"'
    steps = max(1, *(result.n_iter for result in results))
    warn(
        f"{name} did not converge ({reason}): after {steps} steps the equations are met to "
        f"{residual:.2e} (asked: {tol:g}). To go on, {fix}.",
        ConvergenceWarning,
    )
