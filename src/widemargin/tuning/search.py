"""Grid search by leave-one-out, with the interface of scikit-learn's searches."""

from __future__ import annotations

import numbers
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from widemargin._base.validation import require, require_bool
from widemargin.tuning.candidates import changed_by, is_pipeline
from widemargin.tuning.search_run import SCORINGS, Run, table

METHODS = ("exact", "linear_response")

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _delegated(method: _Method) -> _Method:
    """Make a method available only if `refit` is True and the estimator has it."""

    def check(search: LOOSearch) -> bool:
        search._check_refit(method.__name__)
        getattr(getattr(search, "best_estimator_", search.estimator), method.__name__)
        return True

    hidden: _Method = available_if(check)(method)
    return hidden


class LOOSearch(MetaEstimatorMixin, BaseEstimator):
    """Search a parameter grid by leave-one-out instead of cross-validation.

    Each parameter setting is fitted once, on all samples, and scored by its leave-one-out error
    without refits; Gaussian processes also by leave-one-out log-loss or evidence. With up to 1,500
    samples, SVC and SVR share the kernel matrix between settings with the same kernel and
    warm-start each C from the one before. The search is deterministic.

    Parameters
    ----------
    estimator : SVC, NuSVC, SVR, NuSVR, LinearSVC, a Gaussian process, a linear program, Pipeline
        The estimator to tune. LOOSVC, AdaptiveMarginSVC, LPSVC and NuLPSVC are refitted without
        each sample that they depend on, for up to 500 samples, else by ten-fold cross-validation.
        Leave-one-out concerns only the last step of a pipeline; the other steps are fitted on all
        samples, without weights, once per setting of their own. So a step that uses y (such as
        feature selection) makes the scores optimistic.
    param_grid : dict or list of dict
        Lists of values by parameter name, as for scikit-learn's GridSearchCV.
    method : {"exact", "linear_response"}, default="exact"
        "exact" is replaced by linear response above 5,000 samples (by ten folds above 500 samples
        for estimators that are refitted); MeanFieldGPClassifier has linear response only. The
        column ``loo_kind`` of `cv_results_` reports the kind of result.
    scoring : {"error", "log_loss", "evidence"}, default="error"
        The leave-one-out error; or, for MeanFieldGPClassifier and GPRegressor only, the log-loss of
        the leave-one-out probabilities (minus the log density of the targets), or the log evidence
        of all samples (summed over the latent functions), which does not leave samples out.
    refit : bool, default=True
        Whether to fit the best setting on all samples.
    n_jobs : int, default=None
        Number of threads, each for a different kernel; None means 1, -1 all cores.
    error_score : "raise" or float, default=nan
        Score of a setting that cannot be fitted or scored; nan is ranked last.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    cv_results_ : dict of arrays
        A table with one row per setting: ``params``, ``param_*``, ``mean_test_score`` (1 - error
        for classifiers, minus the mean absolute error for regressors, minus the log-loss, or the
        log evidence), ``std_test_score`` (its standard error over the left-out samples; nan for
        the evidence), ``rank_test_score``, ``loo_kind`` (as `kind` of
        :class:`widemargin.loo.LOOResult`, "evidence" or "failed"), ``mean_fit_time``
        and ``mean_score_time``.
    best_estimator_ : estimator
        Estimator fitted with the best setting, if `refit`.
    best_score_, best_params_, best_index_
        Score, parameters and index of the best setting, the first one in case of ties.
    n_splits_ : int
        Number of samples left out, one at a time; 0 for the evidence.
    refit_time_ : float
        Seconds for the final fit.
    n_features_in_, feature_names_in_, classes_
        Attributes of the best estimator, if it has them.

    See Also
    --------
    tune : Gradient-based tuning, without a grid.

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
        scoring: str = "error",
        refit: bool = True,
        n_jobs: int | None = None,
        error_score: Any = np.nan,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.method = method
        self.scoring = scoring
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
        """Score every parameter setting by leave-one-out and fit the best one.

        After an interrupt, `cv_results_` and the best setting so far are kept, without a fitted
        model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 is equivalent to repeating the sample; one copy at a time is left out.
            The weights are passed to the last step of a pipeline.

        Returns
        -------
        self : LOOSearch
            The fitted search.
        """
        run = Run(self, self._check_parameters(), X, y, sample_weight)
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
        """Validate the parameters and return the settings of the grid."""
        from sklearn.model_selection import ParameterGrid

        require(self.method in METHODS, "method", self.method, '"exact" or "linear_response"')
        known = self.scoring in SCORINGS
        require(known, "scoring", self.scoring, f"one of {', '.join(SCORINGS)}")
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
        """Validate the parameter names of a setting and the estimator that it defines."""
        try:
            changed = changed_by(self.estimator, setting)
        except ValueError as unknown:
            raise ValueError(
                f"param_grid must have parameters of the estimator only; got {setting}: {unknown}"
            ) from unknown
        machine = changed.steps[-1][1] if is_pipeline(changed) else changed
        known = (
            "SVC, NuSVC, SVR, NuSVR, LinearSVC, LOOSVC, AdaptiveMarginSVC, LPSVC, NuLPSVC, "
            "GPRegressor, MeanFieldGPClassifier or a pipeline that ends in one of them"
        )
        scorings = getattr(machine, "loo_scorings", ())
        require(bool(scorings), "estimator", changed, known)
        fix = f'"error" for {type(machine).__name__}: the others are for Gaussian processes'
        require(self.scoring in scorings, "scoring", self.scoring, fix)

    def _keep(self, run: Run) -> None:
        """Store `cv_results_` of the settings scored so far, and the best one if any."""
        settings, scores = run.done()
        if all(score.kind == "failed" for score in scores):
            return
        for name in ("best_estimator_", "refit_time_", "n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # may be left from an earlier fit
        self.cv_results_ = table(settings, scores, run.best_possible)
        self.n_splits_ = max(score.n_left_out for score in scores)
        self.best_index_ = int(self.cv_results_["rank_test_score"].argmin())
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])

    # -- methods of the best estimator -------------------------------------------------------

    @property
    def classes_(self) -> Any:
        """Classes of the best estimator."""
        self._check_refit("classes_")
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.classes_

    def _check_refit(self, name: str) -> None:
        if not self.refit:
            raise AttributeError(f"{name} needs the best setting to be fitted: set refit=True")

    def _from_best(self, name: str, X: Any) -> Any:
        check_is_fitted(self, "best_estimator_")
        return getattr(self.best_estimator_, name)(X)

    @_delegated
    def predict(self, X: Any) -> Any:
        """Predict with the best estimator.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted labels or values.
        """
        return self._from_best("predict", X)

    @_delegated
    def decision_function(self, X: Any) -> Any:
        """Return the decision values of the best estimator.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Decision values.
        """
        return self._from_best("decision_function", X)

    @_delegated
    def predict_proba(self, X: Any) -> Any:
        """Return the class probabilities of the best estimator.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities.
        """
        return self._from_best("predict_proba", X)

    @_delegated
    def predict_log_proba(self, X: Any) -> Any:
        """Return the log-probabilities of the classes by the best estimator.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log-probabilities.
        """
        return self._from_best("predict_log_proba", X)

    @_delegated
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of the best estimator on the given data: accuracy or R^2.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            True labels or targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        float
            Score by the `score` method of the best estimator.
        """
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y, sample_weight=sample_weight))
