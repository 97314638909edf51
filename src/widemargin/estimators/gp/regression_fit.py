"""Fit a Gaussian-process regression: validate, choose amplitude and noise, solve."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from widemargin._base.typing import Matrix
from widemargin._base.validation import TrainingSet, require, require_integer, require_number
from widemargin.kernels import Kernel, Rows, is_mercer
from widemargin.problems.gp_regression import GPRegression
from widemargin.solvers import gp_regression
from widemargin.solvers.base import Budget
from widemargin.solvers.gp_regression import GPRegressionResult

MERCER_ROWS = 2_000  # only the leading block of this size is checked


def check_hyperparameters(amplitude: Any, noise: Any, mean_variance: Any, rank: Any) -> None:
    """Validate the parameters of the prior, the noise and the rank."""
    fix = '"auto" or a positive number'
    for name, value in {"amplitude": amplitude, "noise": noise}.items():
        if not _is_auto(name, value, fix):
            require_number(name, value, fix)
    fix = '"auto", np.inf or a number, not negative'
    flat = isinstance(mean_variance, numbers.Real) and float(mean_variance) == np.inf
    if not (flat or _is_auto("mean_variance", mean_variance, fix)):
        require_number("mean_variance", mean_variance, fix, least=0.0)
    fix = '"auto", None or a positive integer'
    if rank is not None and not _is_auto("rank", rank, fix):
        require_integer("rank", rank, fix)


def _is_auto(name: str, value: Any, fix: str) -> bool:
    """Return whether a parameter is "auto"; raise for other strings."""
    if isinstance(value, str):
        require(value == "auto", name, value, fix)
    return isinstance(value, str)


def check_positive(kernel: Kernel, X: Matrix, given: Any) -> None:
    """Raise if the kernel matrix of the first samples is not positive semi-definite.

    `given` is the estimator's parameter, used in the error message.
    """
    if kernel.is_mercer_by_name:
        return
    rows = Rows(kernel, X)
    first = np.arange(min(rows.n, MERCER_ROWS))
    block = rows.block(first, rows, first)
    fix = "symmetric and positive semi-definite (widemargin.kernels.is_mercer)"
    good = bool(np.isfinite(block).all()) and is_mercer(block)
    require(good, "the matrix of the kernel", given, fix)


def check_memory(n: int, rank: Any, cache_size: float) -> None:
    """Raise if the matrices of an exact fit would exceed cache_size."""
    needed = gp_regression.bytes_needed(n) / 1e6
    if rank is None and needed > cache_size:
        raise ValueError(
            f"cache_size must be at least {math.ceil(needed)} megabytes for the exact posterior of "
            f"{n} rows; got cache_size={cache_size!r}. Raise it if the machine has the memory, or "
            'use rank="auto"'
        )


def problem_of(
    data: TrainingSet, rows: Rows, amplitude: Any, noise: Any, mean_variance: Any
) -> GPRegression:
    """Return the problem; amplitude and noise that are "auto" have the largest evidence."""
    spread = np.inf if isinstance(mean_variance, str) else float(mean_variance)
    chosen = gp_regression.evident_scales(
        rows,
        data.y,
        data.weight,
        amplitude=None if isinstance(amplitude, str) else float(amplitude),
        noise=None if isinstance(noise, str) else float(noise),
        mean_variance=spread,
    )
    return GPRegression(data.y, data.weight, *chosen, spread)


def solve_problem(
    problem: GPRegression, rows: Rows, rank: Any, *, tol: float, cache_size: float, kernel: Any
) -> GPRegressionResult:
    """Solve the problem; raise ValueError if rounding makes the matrix indefinite.

    `kernel` is the estimator's parameter, used in the error message.
    """
    method = "cholesky" if rank is None else "auto" if rank == "auto" else "low_rank"
    most = int(rank) if method == "low_rank" else None
    budget = Budget(1, cache_bytes=cache_size * 1e6)
    try:
        return gp_regression.solve(problem, rows, tol=tol, budget=budget, method=method, rank=most)
    except np.linalg.LinAlgError as failure:
        raise ValueError(
            f"noise must be larger, or the kernel positive semi-definite; got "
            f"noise={problem.noise:g}, amplitude={problem.amplitude:g} and kernel={kernel!r}, and "
            f"{failure}"
        ) from failure
