"""Perceptron, in input space or in the feature space of a kernel: PerceptronClassifier."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from widemargin._base.messages import warn
from widemargin._base.multiclass import check_classes, rest_labels
from widemargin._base.progress import Watch
from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, Matrix
from widemargin._base.validation import TrainingSet, check_scale, require_number
from widemargin.estimators._base.classification import (
    OneVsRestClassifier,
    ScoredClassifier,
    hyperplane_values,
    set_per_machine,
)
from widemargin.estimators._base.kernel import KernelEstimator
from widemargin.estimators._base.rollback import whole_fit
from widemargin.kernels import Kernel, Rows
from widemargin.problems import training_bounds
from widemargin.problems.perceptron import SeparatingPlane
from widemargin.solvers.literature.perceptron import PerceptronResult, solve

DEFAULT_PASSES = 1000  # of max_iter=-1


class PerceptronClassifier(OneVsRestClassifier, ScoredClassifier, KernelEstimator):
    r"""Perceptron, optionally with a kernel.

    Starting from w = 0 and b = 0, the algorithm cycles through the samples in their order; for each
    sample with :math:`y_i (w \cdot x_i + b) \le 0` it adds :math:`\eta y_i x_i` to w and
    :math:`\eta y_i` to b (Smola et al. 2000, Table 1.1). If the classes are linearly separable, it
    finds a separating hyperplane after a bounded number of updates (:meth:`mistake_bound`), though
    not the one with the largest margin. The result depends on the order of the samples, hence there
    is no `sample_weight`. The decision function is :math:`w \cdot x + b`. Multiclass problems are
    one-vs-rest.

    Parameters
    ----------
    eta : float, default=1.0
        Learning rate, positive. It only scales the decision function.
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"}, callable or None, default=None
        None updates the weights of the features. With a kernel, the perceptron operates in its
        feature space by counting the updates of each sample; "linear" makes the same updates as
        None.
    degree, gamma, coef0
        As for :class:`SVC`.
    cache_size : float, default=500
        Memory for kernel values, in megabytes.
    max_iter : int, default=1000
        Maximum number of passes over the data; -1 is 1000.
    time_limit : float, default=None
        Time limit in seconds; `fit` then stops and keeps the current model. None: no limit.
    verbose : int, default=0
        If positive, display a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    coef_ : ndarray of shape (n_machines, n_features)
        Weights of the features; one row for two classes, otherwise one per class. Only without a
        kernel.
    intercept_ : ndarray of shape (n_machines,)
        Intercepts.
    dual_coef_ : ndarray of shape (n_machines, n_support)
        Coefficients of the samples of `support_`: eta times label times number of updates. Only
        with a kernel.
    support_, support_vectors_, gamma_
        As for :class:`SVC`, for the samples that caused updates. Only with a kernel.
    n_updates_ : int or ndarray of shape (n_classes,)
        Number of updates; an int for two classes.
    converged_ : bool
        Whether the last pass of every binary problem made no update. If not, `fit` issues a
        ConvergenceWarning.
    n_iter_ : int
        Maximum number of passes over the binary problems, including the last one without updates.
    n_features_in_, feature_names_in_
        Number of features seen during `fit`, and their names if X has string column names.

    See Also
    --------
    MaxMarginClassifier : Hyperplane with the largest margin.
    bounds.perceptron : Bound on the number of updates.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import PerceptronClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PerceptronClassifier().fit(X[:100], y[:100])
    >>> model.n_updates_, model.converged_, model.score(X[:100], y[:100])
    (5, True, 1.0)
    """

    # Required by KernelEstimator; the perceptron has no tolerance.
    tol: float = 1.0

    def __init__(
        self,
        eta: float = 1.0,
        *,
        kernel: Any = None,
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        cache_size: float = 500,
        max_iter: int = 1000,
        time_limit: float | None = None,
        verbose: int = 0,
    ) -> None:
        self.eta = eta
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.verbose = verbose

    def _check_parameters(self) -> None:
        require_number("eta", self.eta, "a positive number")
        super()._check_parameters()

    def _knows_kernel(self) -> bool:
        return self.kernel is None or super()._knows_kernel()

    def _check_kernel_matrix(self, kernel: Kernel, X: Matrix) -> bool:
        """Accept any kernel: the updates do not require positive semi-definiteness."""
        return False

    # -- fitting ---------------------------------------------------------------------------

    @whole_fit
    def fit(self, X: Any, y: Any) -> PerceptronClassifier:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training samples, visited in this order, or their kernel matrix if
            ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Class labels; at least two classes must occur.

        Returns
        -------
        self : PerceptronClassifier
            The fitted model.
        """
        self._check_parameters()
        X, y, ones = self._checked_arguments(X, y, None, numeric=False)
        if self.kernel is None:
            check_scale(X)
        self.classes_, codes = check_classes(y)
        every = np.arange(len(ones))
        data = TrainingSet(X, y, ones, every, every, y, ones, X[:0])
        rows = Rows(Kernel("linear"), X) if self.kernel is None else self._kernel_rows(data)
        labels = rest_labels(codes, len(self.classes_))
        name = type(self).__name__
        watch = Watch(name, 1.0 / len(ones), self.verbose, self.time_limit, len(labels),
                      "{:.1%} of the samples on the wrong side")  # fmt: skip
        with watch, worker_threads() as rows.threads:
            machines = [self._train(rows, label, watch) for label in labels]
        self._keep_machines(data, machines)
        # Kept for `mistake_bound`.
        self._training_rows_: tuple[Matrix, FloatArray | None, FloatArray] | None
        self._training_rows_ = (X, rows.centre, np.array(labels))
        self._warn_if_wrong(machines, len(ones))
        return self

    def _train(self, rows: Rows, label: FloatArray, watch: Watch) -> PerceptronResult:
        watch.next_part()
        budget = self._budget(watch, default=DEFAULT_PASSES)
        method = "primal" if self.kernel is None else "dual"
        return solve(SeparatingPlane(label), rows, budget=budget, method=method)

    def _keep_machines(self, data: TrainingSet, machines: list[PerceptronResult]) -> None:
        """Store the solutions, scaled by eta."""
        coef = float(self.eta) * np.array([m.coef for m in machines])
        self.intercept_ = float(self.eta) * np.array([m.intercept for m in machines])
        if self.kernel is None:
            self.coef_ = coef
        else:
            support = np.flatnonzero(coef.any(axis=0))
            self._keep_support(data, support)
            self.dual_coef_ = coef[:, support]
        set_per_machine(self, n_updates_=np.array([m.n_updates for m in machines]))
        self.converged_ = all(m.status == "converged" for m in machines)
        self.n_iter_ = max(m.n_iter for m in machines)

    def _warn_if_wrong(self, machines: list[PerceptronResult], n: int) -> None:
        if self.converged_:
            return
        worst = max(machines, key=lambda m: (m.status != "converged", m.n_wrong))
        late = worst.status == "stopped"
        richer = 'a kernel (kernel="rbf")' if self.kernel is None else "another kernel"
        limit = f"time_limit={self.time_limit:g} s" if late else f"max_iter={worst.n_iter} passes"
        warn(
            f"PerceptronClassifier did not converge within {limit}: after {worst.n_updates} "
            f"updates {worst.n_wrong} of {n} rows are wrong. It ends on classes that a hyperplane "
            f"separates only. If these are such, raise {'time_limit' if late else 'max_iter'} and "
            f"bring the features to one scale; else use {richer}, or a soft margin "
            "(LinearSVC, MaxMarginClassifier, SVC)", ConvergenceWarning,
        )  # fmt: skip

    # -- bound on the number of updates ----------------------------------------------------

    def mistake_bound(self, w: Any = None, b: Any = None) -> float | FloatArray:
        r"""Return an upper bound on the number of updates, given a separating hyperplane.

        Smola et al. (2000), theorem 1.1, with :math:`R = \max_i |x_i|` (printed there with a
        square): :math:`(1 + b^2)(1 + R^2) / \rho^2` for w scaled to unit norm and
        :math:`\rho = \min_i y_i (w \cdot x_i + b)`. See :func:`widemargin.bounds.perceptron`. The
        theorem requires an inner product, hence a positive semi-definite kernel.

        Parameters
        ----------
        w : array-like, default=None
            Weights of the features or, with a kernel, coefficients of all training samples; one row
            per binary problem if there are several. None: those of the fitted model.
        b : float or array-like of shape (n_machines,), default=None
            Intercepts; required if and only if w is given.

        Returns
        -------
        float or ndarray of shape (n_classes,)
            Bound per binary problem; infinite if the hyperplane does not separate the samples.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from widemargin import MaxMarginClassifier, PerceptronClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> X, y = X[:100], y[:100]
        >>> plane = MaxMarginClassifier(C=np.inf).fit(X, y)
        >>> model = PerceptronClassifier().fit(X, y)
        >>> model.n_updates_ <= model.mistake_bound(plane.coef_[0], plane.intercept_[0])
        True
        """
        check_is_fitted(self)
        if (w is None) != (b is None):
            raise ValueError(f"w and b must be given together, or neither; got w={w!r}, b={b!r}")
        if self._training_rows_ is None:
            raise ValueError(
                "mistake_bound needs the training rows, which compact() has dropped: ask the "
                "fitted model itself"
            )
        X, centre, labels = self._training_rows_
        rows = Rows(Kernel("linear") if self.kernel is None else self._kernel_, X, centre)
        every = np.arange(rows.n)
        n_terms = rows.X.shape[1] if self.kernel is None else rows.n
        planes, thresholds = self._planes(w, b, (len(labels), n_terms))
        if self.kernel is None:
            f = np.asarray(rows.X @ planes.T, dtype=np.float64)
            norm2 = np.einsum("kj,kj->k", planes, planes)
        else:
            f = rows.weighted_sum(every, rows, every, np.ascontiguousarray(planes.T))
            norm2 = np.einsum("ki,ik->k", planes, f)
        R = float(np.sqrt(rows.diagonal().max()))
        found = [
            _bound(R, label * (f[:, k] + thresholds[k]), float(norm2[k]), float(thresholds[k]))
            for k, label in enumerate(labels)
        ]
        return found[0] if len(found) == 1 else np.array(found)

    def _planes(self, w: Any, b: Any, shape: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
        """Return one hyperplane per binary problem, by default those of the fitted model."""
        if w is None:
            if self.kernel is None:
                return self.coef_, self.intercept_
            own = np.zeros(shape)
            own[:, self.support_] = self.dual_coef_
            return own, self.intercept_
        planes = np.atleast_2d(np.asarray(w, dtype=np.float64))
        thresholds = np.atleast_1d(np.asarray(b, dtype=np.float64))
        if planes.shape != shape or thresholds.shape != shape[:1]:
            what = "features" if self.kernel is None else "training rows"
            raise ValueError(
                f"w must have shape {shape}, one weight for each of the {shape[1]} {what}, and b "
                f"shape {shape[:1]}; got {planes.shape} and {thresholds.shape}"
            )
        finite = np.isfinite(planes).all() and np.isfinite(thresholds).all()
        if not finite:
            raise ValueError("w and b must be finite numbers; got infinite ones or NaN")
        return planes, thresholds

    def compact(self) -> PerceptronClassifier:
        """Return a copy of the model without its training data, for storage.

        Predictions are unchanged; `mistake_bound` is not available.

        Returns
        -------
        PerceptronClassifier
            The compact model.
        """
        check_is_fitted(self)
        smaller = copy.copy(self)
        smaller._training_rows_ = None
        return smaller

    # -- prediction ------------------------------------------------------------------------

    def _machine_values(self, X: Any) -> FloatArray:
        if self.kernel is None:
            return hyperplane_values(self, X)
        return self._expansion_values(X, self.dual_coef_.T) + self.intercept_


def _bound(R: float, values: FloatArray, norm2: float, b: float) -> float:
    """Return the bound for a hyperplane of any norm, given the margins y f of all samples."""
    if norm2 <= 0:
        return np.inf
    size = float(np.sqrt(norm2))
    return training_bounds.perceptron(R, float(values.min()) / size, b / size)
