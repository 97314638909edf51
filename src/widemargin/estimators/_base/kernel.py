"""Base class of the kernel estimators: hyperparameters, kernel, training set, prediction."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from widemargin._base.messages import warn
from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin._base.validation import (
    TrainingSet,
    canonical,
    check_fit,
    check_X,
    require,
    require_budget,
    require_number,
    scale_gamma,
)
from widemargin.kernels import NAMES, Kernel, Rows, is_mercer
from widemargin.kernels.objects.from_sklearn import converted
from widemargin.kernels.objects.questions import has_own_noise
from widemargin.solvers.base import Budget, Monitor

# Largest rounding error of a float32 decision value that is accepted, relative to the margin.
SINGLE_ERROR = 1e-3
# Range of k(x, x) in which neither k(x, x)^3 nor a cost divided by k(x, x) overflows.
SMALLEST_VALUE, LARGEST_VALUE = 1e-200, 1e100
# Hyperparameter, default value, kernels that depend on it.
KERNEL_PARAMETERS = (
    ("degree", 3, ("poly",)),
    ("coef0", 0.0, ("poly", "sigmoid")),
    ("gamma", "scale", ("poly", "rbf", "sigmoid")),
)
# Only the leading block of this size is checked: if it is indefinite, so is the whole matrix.
MERCER_ROWS = 2_000


class KernelEstimator(BaseEstimator):
    """Base class of the estimators whose decision function is a kernel expansion."""

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        cache_size: float = 500,
        max_iter: int = -1,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    # -- parameters ------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        """Validate the hyperparameters that can be checked without the data."""
        known = self._knows_kernel()
        fix = f"one of {', '.join(NAMES)}, a kernel object or a function of two arrays"
        require(known, "kernel", self.kernel, fix)
        require_number("tol", self.tol, "a positive number")
        require_number("cache_size", self.cache_size, "a positive number of megabytes")
        self._check_budget()
        if self.kernel == "poly":
            require_number("degree", self.degree, "a positive number")
        if self.kernel in ("poly", "sigmoid"):
            require_number("coef0", self.coef0, "a finite number", above=-np.inf)
        fix = '"scale", "auto" or a positive number'
        if isinstance(self.gamma, str):
            require(self.gamma in ("scale", "auto"), "gamma", self.gamma, fix)
        elif isinstance(self.gamma, numbers.Real):
            require_number("gamma", self.gamma, "a positive number")
        else:
            self._check_widths(np.asarray(self.gamma))
        # A parameter that the kernel ignores is probably a mistake of the user.
        for name, default, users in KERNEL_PARAMETERS:
            value = getattr(self, name)
            changed = isinstance(value, np.ndarray) or value != default
            if changed and self.kernel not in users:
                warn(f"{name}={value!r} has no effect: kernel={self.kernel!r} does not use it")

    def _check_budget(self) -> None:
        """Validate max_iter and time_limit, if the estimator has them."""
        require_budget(self.max_iter, self.time_limit, default=True)

    def _knows_kernel(self) -> bool:
        named = isinstance(self.kernel, str)
        return callable(self.kernel) or (named and self.kernel in NAMES)

    def _check_widths(self, gamma: Any) -> None:
        """Validate an array of gammas, one per feature."""
        good = gamma.ndim == 1 and np.issubdtype(gamma.dtype, np.number)
        fix = '"scale", "auto", a number or one number per feature'
        require(good, "gamma", self.gamma, fix)
        fix = "a number: only rbf takes one per feature"
        require(self.kernel == "rbf", "gamma", self.gamma, fix)
        finite = bool(np.isfinite(gamma).all() and (gamma >= 0).all() and gamma.any())
        require(finite, "gamma", self.gamma, "finite, not negative and not all zero")

    def _resolved_kernel(self, X: Matrix, weight: FloatArray) -> Kernel:
        """Return the kernel with "scale" and "auto" replaced by numbers."""
        if callable(self.kernel):
            return Kernel("callable", function=converted(self.kernel))
        gamma: Any = self.gamma
        if self.kernel in ("linear", "precomputed"):
            gamma = 1.0
        elif isinstance(gamma, str):
            gamma = scale_gamma(X, weight) if gamma == "scale" else 1.0 / X.shape[1]
        elif not isinstance(gamma, numbers.Real):
            gamma = np.asarray(gamma, dtype=np.float64)
            require(len(gamma) == X.shape[1], "gamma", self.gamma,
                    f"a number or one number per feature (X has {X.shape[1]})")  # fmt: skip
        return Kernel(self.kernel, gamma, self.degree, self.coef0)

    def _check_kernel_matrix(self, kernel: Kernel, X: Matrix) -> bool:
        """Warn about kernels that may be indefinite; return whether the matrix is known to be."""
        if kernel.name in ("poly", "sigmoid") and not kernel.is_mercer_by_name:
            warn(
                f"kernel={kernel.name!r} with these parameters is not positive semi-definite in "
                "general: the fit may end at a stationary point that is not the optimum",
                UserWarning,
            )  # fmt: skip
        if kernel.name != "precomputed":
            return False
        block = X[:MERCER_ROWS, :MERCER_ROWS]
        if is_mercer(block):
            return False
        warn(
            "the precomputed kernel matrix is not symmetric positive semi-definite "
            "(widemargin.kernels.is_mercer): the problem is not convex, the result is a "
            "stationary point and its certificate no bound", UserWarning,
        )  # fmt: skip
        return True

    # -- fitting ---------------------------------------------------------------------------

    def _training_set(
        self, X: Any, y: Any, sample_weight: Any, *, numeric: bool, always_merge: bool = False
    ) -> TrainingSet:
        """Validate the arguments of `fit` and return the training set in canonical order."""
        X, y, weight = self._checked_arguments(X, y, sample_weight, numeric=numeric)
        y = y.astype(np.float64) if numeric else y
        precomputed = self.kernel == "precomputed"
        # The noise of a kernel object is that of single samples, equal or not.
        merge = not has_own_noise(self.kernel)
        return canonical(X, y, weight, precomputed=precomputed, always=always_merge, merge=merge)

    def _checked_arguments(self, X: Any, y: Any, sample_weight: Any, **checks: bool) -> Any:
        """Return validated X, y and sample weights; `checks` are passed to `check_fit`."""
        precomputed = self.kernel == "precomputed"
        X, y, weight = check_fit(self, X, y, sample_weight, accept_sparse=not precomputed, **checks)
        if precomputed and X.shape[0] != X.shape[1]:
            raise ValueError(
                f'X must be the square kernel matrix of the training rows when kernel="precomputed"'
                f"; got shape {X.shape}"
            )
        return X, y, weight

    def _kernel_rows(self, data: TrainingSet) -> Rows:
        """Return the training samples as `Rows` and store the kernel for prediction."""
        kernel = self._resolved_kernel(data.X, data.weight)
        self._indefinite = self._check_kernel_matrix(kernel, data.X)
        self.gamma_ = kernel.gamma
        self._kernel_ = kernel
        self._cost_error = data.cost_error
        rows = Rows(kernel, data.X)
        check_range(rows)
        self._centre_ = rows.centre
        return rows

    def _budget(self, watch: Monitor | None = None, *, default: int = -1) -> Budget:
        """Return the budget of one solver run: steps, monitor and memory."""
        steps = int(self.max_iter) if self.max_iter > 0 else default
        return Budget(steps, watch, self.cache_size * 1e6)

    def _keep_support(self, data: TrainingSet, rows: IntArray) -> None:
        """Store the support vectors, given by their indices in the training set."""
        self.support_ = data.index[rows].astype(np.int32)
        # A precomputed kernel has no vectors; prediction selects columns of X by support_.
        self.support_vectors_ = np.empty((0, 0)) if self.kernel == "precomputed" else data.X[rows]

    def _keep_support_by_class(
        self, data: TrainingSet, rows: IntArray, codes: IntArray
    ) -> IntArray:
        """Store the support vectors grouped by class; return their indices in that order."""
        # A stable sort keeps the canonical order within each class: sums over the support vectors
        # are then bit-identical for any order of the input.
        rows = rows[np.argsort(codes[rows], kind="stable")]
        self._keep_support(data, rows)
        self.n_support_ = np.bincount(codes[rows], minlength=int(codes.max()) + 1).astype(np.int32)
        return rows

    # -- prediction ------------------------------------------------------------------------

    def _expansion_values(self, X: Any, coefficients: FloatArray) -> FloatArray:
        """Return sum_j coefficients_j k(x_j, x) over the support vectors, for each sample of X."""
        X = check_X(self, X, accept_sparse=self.kernel != "precomputed")
        return self._sums_over(X, coefficients, slice(None))

    def _sums_over(self, X: Matrix, coefficients: FloatArray, part: slice) -> FloatArray:
        """Return sum_j coefficients_j k(x_j, x) over a part of the support vectors."""
        if not len(coefficients):  # no support vectors: the decision function is constant
            return np.zeros((X.shape[0], *coefficients.shape[1:]))
        kernel = self._kernel_
        if kernel.name == "precomputed":
            columns, right = self.support_[part].astype(np.intp), Rows(kernel, X)
        else:
            X, support = same_container(X, self.support_vectors_[part])
            right = Rows(kernel, support, self._centre_)
            columns = np.arange(support.shape[0])
        dtype = self._summing_precision(X, coefficients)
        with worker_threads() as threads:
            left = Rows(kernel, X, right.centre, threads)
            return left.weighted_sum(np.arange(left.n), right, columns, coefficients, dtype)

    def _summing_precision(self, X: Matrix, coefficients: FloatArray) -> type:
        """Return float32 for float32 samples if its rounding error is negligible, else float64."""
        bounded = self._kernel_.name in ("rbf", "sigmoid")
        rounding = float(np.finfo(np.float32).eps) * float(np.abs(coefficients).sum(axis=0).max())
        single = X.dtype == np.float32 and bounded and rounding < SINGLE_ERROR
        return np.float32 if single else np.float64


class CentredSamples:
    """Mixin that centres dense samples for the linear kernel.

    For estimators whose coefficients sum to zero, where an offset cancels in exact arithmetic. Far
    from the origin, inner products of uncentred samples lose their significant digits. Precedes
    `KernelEstimator` in the bases of an estimator.
    """

    _origin_: FloatArray | None

    def _kernel_rows(self, data: TrainingSet) -> Rows:
        rows: Rows = super()._kernel_rows(data)  # type: ignore[misc]
        self._origin_ = None
        if rows.kernel.name == "linear" and not sp.issparse(data.X):
            self._origin_ = data.X.mean(axis=0, dtype=np.float64)
            centred = Rows(rows.kernel, data.X.astype(np.float64) - self._origin_)
            centred.stated = rows
            rows = centred
        return rows


def same_container(X: Matrix, support: Matrix) -> tuple[Matrix, Matrix]:
    """Convert the support vectors to the container of X, dense or sparse."""
    if sp.issparse(X) and not sp.issparse(support):
        return X, sp.csr_array(support)
    if sp.issparse(support) and not sp.issparse(X):
        return X, support.toarray()
    return X, support


def check_range(rows: Rows) -> None:
    """Raise if kernel values are so large or small that float64 arithmetic fails."""
    if rows.kernel.name not in ("linear", "poly", "sigmoid"):
        return  # the other kernels are bounded or given by the user
    # The sigmoid itself is bounded, so its inner products are checked instead.
    seen = Rows(Kernel("linear"), rows.X) if rows.kernel.name == "sigmoid" else rows
    with np.errstate(over="ignore", invalid="ignore"):
        largest = float(np.abs(seen.diagonal()).max())
    if largest > 0 and not SMALLEST_VALUE < largest < LARGEST_VALUE:
        raise ValueError(
            f"kernel={rows.kernel.name!r} has values up to {largest:.1e} on the rows of X, too "
            f"{'small' if largest < 1 else 'large'} to compute with: scale the features (e.g. with "
            "StandardScaler)"
        )
