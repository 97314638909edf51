"""Search of a parameter grid by leave-one-out, with scikit-learn's search interface."""

from __future__ import annotations

import itertools
import numbers
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, MetaEstimatorMixin, is_regressor
from sklearn.exceptions import FitFailedWarning
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from widemargin._progress import Bar
from widemargin._threads import for_each, worker_threads
from widemargin._typing import FloatArray, IntArray
from widemargin._validation import require, require_bool
from widemargin.estimators._diagnosed import Diagnosed
from widemargin.tuning._candidates import (
    Branch,
    Score,
    SharedKernel,
    branches,
    can_share,
    changed_by,
    is_pipeline,
    last_step,
    score_alone,
)

METHODS = ("exact", "linear_response")

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _delegated(method: _Method) -> _Method:
    """Hide a method where nothing is refitted or the estimator, fitted or not, does not have it."""

    def check(search: LOOSearch) -> bool:
        search._check_refit(method.__name__)
        getattr(getattr(search, "best_estimator_", search.estimator), method.__name__)
        return True

    hidden: _Method = available_if(check)(method)
    return hidden


class LOOSearch(MetaEstimatorMixin, BaseEstimator):
    """Search a parameter grid by leave-one-out instead of cross-validation.

    Each setting is solved once, on all rows, and scored by its leave-one-out error without
    retraining. SVC and SVR on up to 1,500 rows share kernel matrices between settings of one
    kernel and start each C from the one before. There is nothing random.

    Parameters
    ----------
    estimator : SVC, NuSVC, SVR, NuSVR, LinearSVC, one of the linear programs, or Pipeline
        What to tune. LOOSVC, AdaptiveMarginSVC, LPSVC and NuLPSVC are trained again for each row
        that they depend on, on up to 500 rows, else by ten folds. Of a pipeline the last step is
        left out; its other steps are fitted on all rows, without weights, once for each of their
        own settings, so a step that looks at y (a feature selection) makes the scores optimistic.
    param_grid : dict or list of dict
        Lists of values by parameter name, as for scikit-learn's GridSearchCV.
    method : {"exact", "linear_response"}, default="exact"
        "exact" gives way to the linear response beyond 5,000 rows (to ten folds beyond 500 where
        machines are trained again); the column ``loo_kind`` of `cv_results_` says which it was.
    refit : bool, default=True
        Whether to fit the best setting on all rows.
    n_jobs : int, default=None
        Threads that work on different kernels at a time; None is 1, -1 all cores.
    error_score : "raise" or float, default=nan
        Score of a setting that cannot be fitted or left out; nan is the last rank.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    cv_results_ : dict of arrays
        A table with one row for each setting: ``params``, ``param_*``, ``mean_test_score`` (1 -
        error for classifiers, minus the mean absolute error for regressors), ``std_test_score``
        (its standard error over the rows left out), ``rank_test_score``, ``loo_kind``,
        ``mean_fit_time`` and ``mean_score_time``.
    best_estimator_ : estimator
        Fitted with the best setting, if `refit`.
    best_score_, best_params_, best_index_
        Of the best setting; of equal ones the first of the grid.
    n_splits_ : int
        Number of rows that were left out, one at a time.
    refit_time_ : float
        Seconds of the final fit.
    n_features_in_, feature_names_in_, classes_
        Of the best estimator, as far as it has them.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from widemargin import SVC, LOOSearch
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), SVC())
    >>> search = LOOSearch(pipeline, {"svc__C": [0.1, 1, 10], "svc__gamma": [0.01, 0.1]})
    >>> search.fit(X, y).best_params_
    {'svc__C': 1, 'svc__gamma': 0.01}
    >>> round(search.best_score_, 3)
    0.979
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        method: str = "exact",
        refit: bool = True,
        n_jobs: int | None = None,
        error_score: Any = np.nan,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.method = method
        self.refit = refit
        self.n_jobs = n_jobs
        self.error_score = error_score
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        tags.target_tags = inner.target_tags
        tags.input_tags.pairwise = inner.input_tags.pairwise
        tags.input_tags.sparse = inner.input_tags.sparse
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LOOSearch:
        """Score every setting by leave-one-out and fit the best one.

        An interrupt keeps what is there: `cv_results_` and the best setting so far.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 means the same as the row twice, of which one at a time is left out. Of a
            pipeline, the last step gets them.

        Returns
        -------
        self : LOOSearch
            The search with its results.
        """
        run = _Run(self, self._check_parameters(), X, y, sample_weight)
        try:
            run.work()
        finally:  # also after an interrupt
            self._keep(run)
        if self.refit:
            started = time.perf_counter()
            self.best_estimator_ = run.fitted(self.best_params_)
            self.refit_time_ = time.perf_counter() - started
            for name in ("n_features_in_", "feature_names_in_"):
                if hasattr(self.best_estimator_, name):
                    setattr(self, name, getattr(self.best_estimator_, name))
        return self

    def _check_parameters(self) -> list[dict[str, Any]]:
        """Check the parameters; return the settings of the grid."""
        from sklearn.model_selection import ParameterGrid

        require(self.method in METHODS, "method", self.method, '"exact" or "linear_response"')
        require_bool("refit", self.refit)
        jobs = self.n_jobs
        good = jobs is None or (isinstance(jobs, numbers.Integral) and (jobs > 0 or jobs == -1))
        require(good, "n_jobs", jobs, "None, a positive integer or -1")
        good = isinstance(self.error_score, numbers.Real) or self.error_score == "raise"
        require(good, "error_score", self.error_score, '"raise" or a number')
        settings = list(ParameterGrid(self.param_grid))
        require(len(settings) > 0, "param_grid", self.param_grid, "a grid with at least one value")
        for setting in settings:
            self._check_setting(setting)
        return settings

    def _check_setting(self, setting: dict[str, Any]) -> None:
        """Check the names of a setting's parameters and what they make of the estimator."""
        try:
            changed = changed_by(self.estimator, setting)
        except ValueError as unknown:
            raise ValueError(
                f"param_grid must have parameters of the estimator only; got {setting}: {unknown}"
            ) from unknown
        machine = changed.steps[-1][1] if is_pipeline(changed) else changed
        known = (
            "SVC, NuSVC, SVR, NuSVR, LinearSVC, LOOSVC, AdaptiveMarginSVC, LPSVC, NuLPSVC or a "
            "pipeline that ends in one of them"
        )
        require(isinstance(machine, Diagnosed), "estimator", changed, known)

    def _keep(self, run: _Run) -> None:
        """Store the table of the settings scored so far and the best of them, if there is one."""
        settings, scores = run.done()
        n_left_out = max((score.n_left_out for score in scores), default=0)
        if not n_left_out:
            return
        for name in ("best_estimator_", "refit_time_", "n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        self.cv_results_ = _table(settings, scores, run.regressor)
        self.n_splits_ = n_left_out
        self.best_index_ = int(self.cv_results_["rank_test_score"].argmin())
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])

    # -- the best estimator speaks ---------------------------------------------------------

    @property
    def classes_(self) -> Any:
        """Classes of the best estimator."""
        self._check_refit("classes_")
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.classes_

    def _check_refit(self, name: str) -> None:
        if not self.refit:
            raise AttributeError(f"{name} needs the best setting to be fitted: set refit=True")

    def _speak(self, name: str, X: Any) -> Any:
        check_is_fitted(self, "best_estimator_")
        return getattr(self.best_estimator_, name)(X)

    @_delegated
    def predict(self, X: Any) -> Any:
        """Predict with the best estimator.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels or values.
        """
        return self._speak("predict", X)

    @_delegated
    def decision_function(self, X: Any) -> Any:
        """Return the decision values of the best estimator.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Decision values.
        """
        return self._speak("decision_function", X)

    @_delegated
    def predict_proba(self, X: Any) -> Any:
        """Return the class probabilities of the best estimator.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities.
        """
        return self._speak("predict_proba", X)

    @_delegated
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of the class probabilities of the best estimator.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithms of probabilities.
        """
        return self._speak("predict_log_proba", X)

    @_delegated
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of the best estimator on other data: accuracy or R^2.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
            The estimator's own score.
        """
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y, sample_weight=sample_weight))


class _Run:
    """One run of a search: the settings and the scores so far."""

    def __init__(
        self, search: LOOSearch, settings: list[dict[str, Any]], X: Any, y: Any, sample_weight: Any
    ) -> None:
        self.search = search
        self.settings = settings
        self.X, self.y, self.sample_weight = X, y, sample_weight
        shape = getattr(X, "shape", None) or np.asarray(X).shape
        self.n_rows = shape[0] if shape else 0
        self.regressor = is_regressor(search.estimator)
        self.scores: dict[int, Score] = {}
        self.failures: dict[int, Exception] = {}
        self.threads = 1
        self.lock = threading.Lock()

    def work(self) -> None:
        """Score all settings, group by group."""
        with (
            Bar("leave-one-out search", self.search.verbose, len(self.settings)) as self.bar,
            worker_threads() as cores,
        ):
            groups = self._groups()
            jobs = self.search.n_jobs or 1
            jobs = min(cores if jobs < 0 else int(jobs), len(groups))
            self.threads = max(1, cores // jobs)
            for_each(self._score_group, groups, jobs)
        if len(self.failures) == len(self.settings):
            raise next(iter(self.failures.values()))  # then it is not the settings
        for k, failure in sorted(self.failures.items()):
            warnings.warn(
                f"the setting {self.settings[k]} could not be scored and gets "
                f"{self.search.error_score}: {failure}", FitFailedWarning, stacklevel=3,
            )  # fmt: skip

    def _groups(self) -> list[tuple[Branch, list[int]]]:
        """Return the settings in groups that share a kernel, if they can."""
        split = branches(self.search.estimator, self.settings, self.X, self.y)
        return [(branch, group) for branch in split for group in branch.kernel_groups(self.n_rows)]

    def _score_group(self, group: tuple[Branch, list[int]]) -> None:
        """Score settings one after the other, each from the optimum of the one before."""
        branch, members = group
        kernel: SharedKernel | None = None
        for k in members:
            try:
                kernel, score = self._score(branch, k, kernel)
            except Exception as failure:  # users' transformers and kernels raise what they like
                score = self._failed(failure, k)
            branch.forget(k)
            with self.lock:
                self.scores[k] = score
                self.bar.advance(self._best())

    def _score(
        self, branch: Branch, k: int, kernel: SharedKernel | None
    ) -> tuple[SharedKernel | None, Score]:
        """Return the score of a setting, and what the next one of its group can start from."""
        X, machine, method = branch.rows(), branch.machine_of(k), self.search.method
        if not can_share(machine, self.n_rows):
            return None, score_alone(machine, X, self.y, self.sample_weight, method)
        machine._check_parameters()
        if kernel is None:
            kernel = SharedKernel(machine, X, self.y, self.sample_weight, method, self.threads)
        return kernel, kernel.score(machine)

    def _failed(self, failure: Exception, k: int) -> Score:
        if self.search.error_score == "raise":
            raise failure
        if self.failures:
            failure = failure.with_traceback(None)  # its frames hold kernel matrices
        self.failures[k] = failure
        error = -self.search.error_score if self.regressor else 1.0 - self.search.error_score
        return Score(float(error), float("nan"), 0, "failed", 0.0, 0.0)

    def _best(self) -> str:
        errors = [s.error for s in self.scores.values() if np.isfinite(s.error)]
        return f"least error {min(errors):.4g}" if errors else ""

    def done(self) -> tuple[list[dict[str, Any]], list[Score]]:
        """Return the settings that have a score, in the order of the grid, and their scores."""
        with self.lock:  # after an interrupt another thread may still be at its last setting
            scores = sorted(self.scores.items())
        return [self.settings[k] for k, _ in scores], [score for _, score in scores]

    def fitted(self, params: dict[str, Any]) -> Any:
        """Return the estimator with a setting, fitted on all rows."""
        estimator = changed_by(self.search.estimator, params)
        if self.sample_weight is None:
            return estimator.fit(self.X, self.y)
        if not is_pipeline(estimator):
            return estimator.fit(self.X, self.y, sample_weight=self.sample_weight)
        weights = {f"{last_step(estimator)}__sample_weight": self.sample_weight}
        with config_context(enable_metadata_routing=False):  # with it, steps have no such names
            return estimator.fit(self.X, self.y, **weights)


def _table(settings: list[dict[str, Any]], scores: list[Score], regressor: bool) -> dict[str, Any]:
    """Return `cv_results_`."""
    error = np.array([s.error for s in scores])
    mean = -error if regressor else 1.0 - error
    table: dict[str, Any] = {
        "mean_fit_time": np.array([s.fit_time for s in scores]),
        "mean_score_time": np.array([s.score_time for s in scores]),
    }
    for name in dict.fromkeys(itertools.chain.from_iterable(settings)):
        column: Any = np.ma.array(np.empty(len(settings), dtype=object), mask=True)
        for k, setting in enumerate(settings):
            if name in setting:
                column[k] = setting[name]
        table[f"param_{name}"] = column
    table["params"] = settings
    table["mean_test_score"] = mean
    table["std_test_score"] = np.array([s.spread for s in scores])
    table["rank_test_score"] = _ranks(mean)
    table["loo_kind"] = np.array([s.kind for s in scores])
    return table


def _ranks(mean: FloatArray) -> IntArray:
    """Return the place of each score; what differs by rounding only has the same one."""
    rounding = 1e-12 * np.abs(mean[np.isfinite(mean)]).max(initial=0.0)
    worst_last = np.where(np.isnan(mean), -np.inf, mean)
    better = [np.count_nonzero(worst_last > m + rounding) for m in worst_last]
    return np.array(better, dtype=np.int32) + np.int32(1)
