"""Search of a parameter grid by leave-one-out, with scikit-learn's search interface."""

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
    retraining; a Gaussian process also by its left-out probabilities or its evidence. SVC and SVR
    on up to 1,500 rows share kernel matrices between settings of one kernel and start each C from
    the one before. There is nothing random.

    Parameters
    ----------
    estimator : SVC, NuSVC, SVR, NuSVR, LinearSVC, MeanFieldGPClassifier, a linear program, Pipeline
        What to tune. LOOSVC, AdaptiveMarginSVC, LPSVC and NuLPSVC are trained again for each row
        that they depend on, on up to 500 rows, else by ten folds. Of a pipeline the last step is
        left out; its other steps are fitted on all rows, without weights, once for each of their
        own settings, so a step that looks at y (a feature selection) makes the scores optimistic.
    param_grid : dict or list of dict
        Lists of values by parameter name, as for scikit-learn's GridSearchCV.
    method : {"exact", "linear_response"}, default="exact"
        "exact" gives way to the linear response beyond 5,000 rows (to ten folds beyond 500 where
        machines are trained again); MeanFieldGPClassifier has the linear response only. The column
        ``loo_kind`` of `cv_results_` says which it was.
    scoring : {"error", "log_loss", "evidence"}, default="error"
        What a setting is judged by: its leave-one-out error; or, for MeanFieldGPClassifier, the
        mean logarithm of the left-out probabilities, or the log evidence of all rows, those of
        several classes added up, for which nothing is left out.
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
        error for classifiers, minus the mean absolute error for regressors, minus the log-loss, or
        the log evidence), ``std_test_score`` (its standard error over the rows left out; nan for
        the evidence), ``rank_test_score``, ``loo_kind`` ("exact", "estimate", "evidence" or
        "failed"), ``mean_fit_time`` and ``mean_score_time``.
    best_estimator_ : estimator
        Fitted with the best setting, if `refit`.
    best_score_, best_params_, best_index_
        Of the best setting; of equal ones the first of the grid.
    n_splits_ : int
        Number of rows that were left out, one at a time; 0 for the evidence.
    refit_time_ : float
        Seconds of the final fit.
    n_features_in_, feature_names_in_, classes_
        Of the best estimator, as far as it has them.

    See Also
    --------
    tune : Chooses parameters by gradient, without a grid.

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
        """Score every setting by leave-one-out and fit the best one.

        An interrupt keeps what is there: `cv_results_` and the best setting so far, but no model.

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
        """Check the parameters; return the settings of the grid."""
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
        """Check the names of a setting's parameters and what they make of the estimator."""
        try:
            changed = changed_by(self.estimator, setting)
        except ValueError as unknown:
            raise ValueError(
                f"param_grid must have parameters of the estimator only; got {setting}: {unknown}"
            ) from unknown
        machine = changed.steps[-1][1] if is_pipeline(changed) else changed
        known = (
            "SVC, NuSVC, SVR, NuSVR, LinearSVC, LOOSVC, AdaptiveMarginSVC, LPSVC, NuLPSVC, "
            "MeanFieldGPClassifier or a pipeline that ends in one of them"
        )
        scorings = getattr(machine, "loo_scorings", ())
        require(bool(scorings), "estimator", changed, known)
        fix = f'"error" for {type(machine).__name__}: the others are for MeanFieldGPClassifier'
        require(self.scoring in scorings, "scoring", self.scoring, fix)

    def _keep(self, run: Run) -> None:
        """Store the table of the settings scored so far and the best of them, if there is one."""
        settings, scores = run.done()
        if all(score.kind == "failed" for score in scores):
            return
        for name in ("best_estimator_", "refit_time_", "n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # of an earlier fit
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
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels or values.
        """
        return self._from_best("predict", X)

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
        return self._from_best("decision_function", X)

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
        return self._from_best("predict_proba", X)

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
        return self._from_best("predict_log_proba", X)

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
