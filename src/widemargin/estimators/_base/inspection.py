"""Access internals of the estimators for tuning, assessment and reports.

These are functions rather than methods to keep them out of the public API of the estimators.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_regressor

from widemargin._base.multiclass import Sides, class_pairs, combine
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin._base.validation import TrainingSet
from widemargin.kernels import Kernel, Rows
from widemargin.problems.linear_program import MarginProgram
from widemargin.problems.soft_margin import SoftMargin


def check_parameters(est: Any) -> None:
    """Validate the hyperparameters of an estimator as `fit` does before reading the data."""
    est._check_parameters()


def training_set_for(est: Any, X: Any, y: Any, sample_weight: Any) -> TrainingSet:
    """Validate the data of a kernel estimator as `fit` does; return the training set."""
    data: TrainingSet = est._training_set(X, y, sample_weight, numeric=is_regressor(est))
    return data


def kernel_for(est: Any, X: Matrix, weight: FloatArray) -> Kernel:
    """Return the kernel that a fit on these samples would use, with numeric parameters."""
    kernel: Kernel = est._resolved_kernel(X, weight)
    return kernel


def sides_for(est: Any, n_classes: int) -> list[Sides]:
    """Return the positive and negative class of each binary problem of an estimator."""
    own = getattr(est, "_sides", class_pairs)
    return [*own(n_classes)]


def has_threshold(est: Any) -> bool:
    """Return whether an estimator has an intercept that is not penalised."""
    return bool(est.fit_intercept) and getattr(est, "intercept_scaling", None) is None


def problems_for(
    est: Any, data: TrainingSet
) -> tuple[list[tuple[int, int]], list[tuple[IntArray, SoftMargin]]]:
    """Return the class pairs of an SVC or SVR, and sample indices and problem of each."""
    pairs, parts = est._problems(data)
    return pairs, parts


def program_for(est: Any, problem: MarginProgram, rows: Rows) -> MarginProgram:
    """Return the linear program of a fitted model at the hyperparameters of another estimator."""
    program: MarginProgram = est._restated(problem, rows)
    return program


def fitted_kernel(est: Any) -> Kernel | None:
    """Return the kernel of a fitted estimator; None for linear models of the features."""
    kernel: Kernel | None = getattr(est, "_kernel_", None)
    return kernel


def kernel_rows(est: Any, X: Matrix) -> Rows:
    """Return samples as `Rows` with the kernel of a fitted estimator."""
    return Rows(est._kernel_, X, est._centre_)


def expansion_coefficients(est: Any) -> FloatArray:
    """Return the coefficients of the support vectors, one column per binary problem."""
    if hasattr(est, "_pair_coefficients"):
        return np.asarray(est._pair_coefficients())
    return np.asarray(est.dual_coef_).T


def votes_by_pairs(est: Any) -> bool:
    """Return whether multiclass problems are handled one-vs-one."""
    return bool(getattr(est, "_one_vs_one_", hasattr(est, "_pair_values")))


def class_scores(est: Any, scores: FloatArray) -> FloatArray:
    """Return one score per class, given the values of `decision_function`."""
    by_pairs = getattr(est, "decision_function_shape", "ovr") == "ovo" and scores.ndim == 2
    return combine(scores, len(est.classes_)) if by_pairs else scores


def pair_values(est: Any, X: Any) -> FloatArray:
    """Return the pairwise decision values, one column per pair of classes."""
    return np.asarray(est._pair_values(X))
