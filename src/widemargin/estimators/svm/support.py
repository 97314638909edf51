"""Base classes of the soft-margin estimators: SupportClassifier, SupportRegressor."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from widemargin._base.multiclass import check_classes, class_pairs, pair_places, pair_rows
from widemargin._base.progress import Watch
from widemargin._base.threads import for_each, worker_threads
from widemargin._base.typing import FloatArray, IntArray
from widemargin._base.validation import TrainingSet
from widemargin.estimators._base.classification import (
    OneVsOneClassifier,
    ScoredClassifier,
    set_per_machine,
)
from widemargin.estimators._base.diagnostics import Diagnosed, Displayed
from widemargin.estimators._base.kernel import KernelEstimator
from widemargin.estimators._base.proof import Certified
from widemargin.estimators._base.rollback import whole_fit
from widemargin.estimators.svm.expansion import Expansion, SoftMarginFit
from widemargin.estimators.svm.values import ClassSums, FewSamplesCache, dense
from widemargin.fitted.by_path import Machine
from widemargin.kernels import Kernel, Rows
from widemargin.problems.soft_margin import SoftMargin

WORTH_A_THREAD = 1e7  # squared numbers of samples times features; below that threads cost more

Part: TypeAlias = tuple[IntArray, SoftMargin]
"""Rows of the training set and the problem on them."""


class LinearCoefficients:
    """Mixin that adds `coef_` to estimators with a linear kernel; first of their bases."""

    support_vectors_: Any
    _kernel_: Kernel

    @property
    def coef_(self) -> Any:
        """Weights of the features, one row per decision function; linear kernel only."""
        check_is_fitted(self)
        if self._kernel_.name != "linear":
            raise AttributeError(
                "coef_ is only available when using a linear kernel; got "
                f"kernel={self._kernel_.name!r}"
            )
        coef = self._pair_coefficients().T @ self.support_vectors_  # type: ignore[attr-defined]
        if sp.issparse(self.support_vectors_):
            coef = type(self.support_vectors_)(coef)
            coef.data.flags.writeable = False
        else:
            coef.flags.writeable = False  # a change would have no effect on predictions
        return coef


class SupportClassifier(
    OneVsOneClassifier,
    ScoredClassifier,
    SoftMarginFit,
    ClassSums,
    Certified,
    Diagnosed,
    Displayed,
    KernelEstimator,
):
    """Base of the one-vs-one kernel classifiers; subclasses define the binary problem."""

    @whole_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training samples, or their kernel matrix if ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Class labels; at least two classes must occur.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, not negative: weight 2 is equivalent to repeating the sample, weight 0
            to omitting it. None: all weights are 1.

        Returns
        -------
        self : object
            The fitted model.
        """
        self._check_parameters()
        data = self._training_set(X, y, sample_weight, numeric=False)
        self.classes_, codes = check_classes(data.y)
        pairs, problems = self._problems(data, codes)
        rows = self._kernel_rows(data)
        name = type(self).__name__
        with Watch(name, self.tol, self.verbose, self.time_limit, len(pairs)) as watch:
            machines = self._fit_pairs(rows, problems, watch)
        self._keep_machines(data, codes, machines)
        self._keep_record(data, [machine.machine for machine in machines], pairs)
        self._warn_unconverged([machine.status for machine in machines], data.X)
        return self

    def _costs(self, codes: IntArray, weight: FloatArray) -> FloatArray:
        """Return the cost per sample; validate parameters that depend on the labels."""
        raise NotImplementedError

    def _problem(self, y: FloatArray, cost: FloatArray) -> SoftMargin:
        """Return the binary problem for labels -1 and +1."""
        raise NotImplementedError

    def _problems(
        self, data: TrainingSet, codes: IntArray | None = None
    ) -> tuple[list[tuple[int, int]], list[Part]]:
        """Return the class pairs and, for each, its sample indices and binary problem."""
        if codes is None:
            self.classes_, codes = check_classes(data.y)
        costs = self._costs(codes, data.weight)
        pairs = class_pairs(len(self.classes_))
        parts = []
        for pair in pairs:
            chosen, label = pair_rows(codes, pair)
            parts.append((chosen, self._problem(label, costs[chosen])))
        return pairs, parts

    def _fit_pairs(self, rows: Rows, problems: list[Part], watch: Watch) -> list[Expansion]:
        """Solve all binary problems, several at a time if they are worth a thread."""
        found: list[Any] = [None] * len(problems)

        def fit(k: int) -> None:
            found[k] = self._fit_pair(rows, *problems[k], watch)

        work = sum(float(len(chosen)) ** 2 for chosen, _ in problems) * rows.X.shape[1]
        with worker_threads() as threads:
            if len(problems) > 1:
                _ = rows.single_rows  # computed once, for all pairs
            for_each(fit, range(len(problems)), threads if work > WORTH_A_THREAD else 1)
        return found

    def _fit_pair(
        self, rows: Rows, chosen: IntArray, problem: SoftMargin, watch: Watch
    ) -> Expansion:
        part = None if len(chosen) == rows.n else chosen
        return self._rescaled(self._expansion(problem, rows, watch, part))

    def _rescaled(self, machine: Expansion) -> Expansion:
        """Return the solution scaled to margin 1; NuSVC overrides this."""
        return machine

    def _keep_machines(self, data: TrainingSet, codes: IntArray, machines: list[Expansion]) -> None:
        """Store all pairwise solutions in LIBSVM's layout, support vectors grouped by class."""
        support = np.unique(np.concatenate([m.rows for m in machines]))
        support = self._keep_support_by_class(data, support, codes)
        place = np.empty(len(codes), dtype=np.intp)
        place[support] = np.arange(len(support))
        owner = codes[support]
        n_classes = len(self.classes_)
        self.dual_coef_ = np.zeros((max(1, n_classes - 1), len(support)))
        for (i, j), machine in zip(class_pairs(n_classes), machines, strict=True):
            at = place[machine.rows]
            # Support vectors of class i have the coefficients of pair (i, j), i < j, in row j - 1;
            # those of class j have them in row i.
            low, high = min(i, j), max(i, j)
            row = np.where(owner[at] == low, high - 1, low) if n_classes > 2 else 0
            self.dual_coef_[row, at] = machine.beta
        if sp.issparse(self.support_vectors_):
            self.dual_coef_ = type(self.support_vectors_)(self.dual_coef_)
        self.intercept_ = np.array([m.intercept for m in machines])
        self._keep_proofs([m.proof for m in machines])
        self._few_ = FewSamplesCache()
        self.n_iter_ = np.array([proof.n_iter for proof in self._proofs_], dtype=np.int32)
        with np.errstate(divide="ignore"):
            set_per_machine(self, margin_=1.0 / np.sqrt([m.norm2 for m in machines]))
        _keep_fit_facts(self, data)

    def _pair_coefficients(self) -> FloatArray:
        """Return the coefficients of the support vectors, one column per pair of classes."""
        n_classes, dual = len(self.classes_), dense(self.dual_coef_)
        if n_classes == 2:
            return dual.T
        owner = np.repeat(np.arange(n_classes), self.n_support_)
        columns = []
        for i, j in class_pairs(n_classes):
            first = np.where(owner == i, dual[j - 1], 0.0)
            columns.append(first + np.where(owner == j, dual[i], 0.0))
        return np.column_stack(columns)

    def _pair_values(self, X: Any) -> FloatArray:
        sums = self._class_sums(X)
        if len(self.classes_) > 2:
            first, second = pair_places(len(self.classes_))
            flat = sums.reshape(len(sums), -1)
            values = flat[:, first] + flat[:, second]
        else:
            values = sums[:, 0]
        return np.asarray(values + self.intercept_)


class SingleExpansion:
    """Mixin for estimators with one kernel expansion: coefficients in LIBSVM's layout."""

    support_vectors_: Any
    _keep_proofs: Any
    _keep_support: Any
    _class_sums: Any

    def _keep_machine(self, data: TrainingSet, machine: Expansion) -> None:
        """Store the solution in LIBSVM's layout."""
        self._keep_support(data, machine.rows)
        self.n_support_ = np.array([len(machine.rows)], dtype=np.int32)
        self.dual_coef_ = machine.beta[None, :]
        if sp.issparse(self.support_vectors_):
            self.dual_coef_ = type(self.support_vectors_)(self.dual_coef_)
        self.intercept_ = np.array([machine.intercept])
        self._keep_proofs([machine.proof])
        self._few_ = FewSamplesCache()
        self.n_iter_ = machine.proof.n_iter
        _keep_fit_facts(self, data)

    def _values(self, X: Any) -> FloatArray:
        return np.asarray(self._class_sums(X)[:, 0, 0] + self.intercept_[0])

    def _pair_coefficients(self) -> FloatArray:
        """Return the coefficients of the support vectors as the single column of a matrix."""
        return dense(self.dual_coef_).T


class SupportRegressor(
    RegressorMixin,
    SingleExpansion,
    ClassSums,
    SoftMarginFit,
    Certified,
    Diagnosed,
    Displayed,
    KernelEstimator,
):
    """Base of the kernel regressors; subclasses define the problem."""

    @whole_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training samples, or their kernel matrix if ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Target values.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, not negative: weight 2 is equivalent to repeating the sample, weight 0
            to omitting it. None: all weights are 1.

        Returns
        -------
        self : object
            The fitted model.
        """
        self._check_parameters()
        data = self._training_set(X, y, sample_weight, numeric=True)
        _, [(_, problem)] = self._problems(data)
        rows = self._kernel_rows(data)
        with Watch(type(self).__name__, self.tol, self.verbose, self.time_limit) as watch:
            machine = self._expansion(problem, rows, watch)
        self._keep_machine(data, machine)
        self._keep_record(data, [self._loo_machine(machine)], [])
        self._warn_unconverged([machine.status], data.X)
        return self

    def _problem(self, y: FloatArray, weight: FloatArray) -> SoftMargin:
        """Return the regression problem."""
        raise NotImplementedError

    def _problems(self, data: TrainingSet) -> tuple[list[tuple[int, int]], list[Part]]:
        """Return an empty list of class pairs and the single problem on all samples."""
        return [], [(np.arange(len(data.weight)), self._problem(data.y, data.weight))]

    def _loo_machine(self, machine: Expansion) -> Machine:
        """Return an equivalent problem with at most one threshold, for leave-one-out."""
        return machine.machine

    def predict(self, X: Any) -> FloatArray:
        """Predict the target of each sample.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted values.
        """
        check_is_fitted(self)
        return self._values(X)


def _keep_fit_facts(est: Any, data: TrainingSet) -> None:
    """Store the attributes of scikit-learn's estimators that describe a fit."""
    est.shape_fit_ = (len(data.given_weight), est.n_features_in_)
    est.fit_status_ = 0 if all(proof.converged for proof in est._proofs_) else 1
