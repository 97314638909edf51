"""Give tuning, assessment and reports what they need of an estimator beyond its public interface.

These are functions and not methods, since they are of no use to a user of the estimators.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_regressor

from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin._base.validation import TrainingSet
from widemargin.kernels import Kernel, Rows
from widemargin.problems.linear_program import MarginProgram
from widemargin.problems.soft_margin import SoftMargin


def check_parameters(est: Any) -> None:
    """Check the parameters that do not need the data, as `fit` does."""
    est._check_parameters()


def training_set_for(est: Any, X: Any, y: Any, sample_weight: Any) -> TrainingSet:
    """Check the data of a kernel estimator as its fit does, and return them in canonical order."""
    data: TrainingSet = est._training_set(X, y, sample_weight, numeric=is_regressor(est))
    return data


def kernel_for(est: Any, X: Matrix, weight: FloatArray) -> Kernel:
    """Return the kernel that a fit on these rows would use, with numbers for its parameters."""
    kernel: Kernel = est._resolved_kernel(X, weight) if hasattr(est, "kernel") else Kernel("linear")
    return kernel


def problems_for(
    est: Any, data: TrainingSet
) -> tuple[list[tuple[int, int]], list[tuple[IntArray, SoftMargin]]]:
    """Return the pairs of classes of an SVC or SVR, and rows and problem of each machine."""
    pairs, parts = est._problems(data)
    return pairs, parts


def program_for(est: Any, problem: MarginProgram, rows: Rows) -> MarginProgram:
    """Return a fitted linear program restated at the parameters of an estimator of its kind."""
    program: MarginProgram = est._restated(problem, rows)
    return program


def fitted_kernel(est: Any) -> Kernel | None:
    """Return the kernel of a fitted estimator; None if it is a function of the features itself."""
    kernel: Kernel | None = getattr(est, "_kernel_", None)
    return kernel


def kernel_rows(est: Any, X: Matrix) -> Rows:
    """Return rows seen through the kernel of a fitted estimator."""
    return Rows(est._kernel_, X, est._centre_)


def expansion_coefficients(est: Any) -> FloatArray:
    """Return the coefficients of the support vectors, one column per machine."""
    if hasattr(est, "_pair_coefficients"):
        return np.asarray(est._pair_coefficients())
    return np.asarray(est.dual_coef_).T


def votes_by_pairs(est: Any) -> bool:
    """Return whether several classes have one machine per pair of classes."""
    return hasattr(est, "_pair_values")


def pair_values(est: Any, X: Any) -> FloatArray:
    """Return the decision values of the pairs of classes, one column per pair."""
    return np.asarray(est._pair_values(X))
