"""Cumulative link models for ordinal regression: CumulativeLinkClassifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from widemargin._base.messages import warn
from widemargin._base.progress import Watch
from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray
from widemargin._base.validation import (
    canonical,
    check_fit,
    check_scale,
    check_X,
    require_budget,
    require_choice,
    require_number,
)
from widemargin.certificate import reason_of, warn_unconverged
from widemargin.estimators._base.classification import ScoredClassifier
from widemargin.estimators._base.diagnostics import Displayed
from widemargin.estimators._base.rollback import whole_fit
from widemargin.problems.cumulative import CumulativeProblem
from widemargin.problems.cumulative.links import LINKS, log_probabilities
from widemargin.problems.ranks import ordered_classes, used_ranks
from widemargin.solvers.base import Budget
from widemargin.solvers.cumulative import CumulativeResult, solve

LOG_TINY = float(np.log(np.finfo(np.float64).tiny))
# Log-probabilities of cloglog are exponentials of utilities and may overflow to -inf.
LOG_LEAST = -float(np.finfo(np.float64).max)


class CumulativeLinkClassifier(ScoredClassifier, Displayed, BaseEstimator):
    r"""Cumulative link model for ordinal regression, e.g. proportional odds.

    :math:`\Pr(y \le r_k \mid x) = P(\theta_k - w \cdot x)` with increasing thresholds
    :math:`\theta_k` (Herbrich et al. 2000, (2.3)). Newton's method minimises the negative
    log-likelihood, summed over the samples, plus :math:`\frac{\alpha}{2} |w|^2`.

    Parameters
    ----------
    link : {"logit", "probit", "cloglog"}, default="logit"
        Distribution function P of the noise: logistic (proportional odds), normal, or
        :math:`1 - \exp(-\exp(t))` (proportional hazards). The last one is not symmetric: reversing
        the order of the ranks gives a different model.
    alpha : float, default=1e-3
        Strength of the l_2 penalty, relative to the sum (not the mean) of the losses; not negative.
        0 is maximum likelihood, which has no solution if the ranks are linearly separable.
    classes : sequence of labels, default=None
        Ranks in increasing order; labels that do not occur in y are dropped. None: the order of an
        ordered pandas Categorical or a polars Enum, otherwise numerical order, otherwise
        alphabetical order with a warning.
    tol : float, default=1e-8
        Largest difference between the objective and its optimum, relative to max(1, objective).
        With alpha=0 there is no such bound; the decrease predicted by the last Newton step is used.
    max_iter : int, default=100
        Maximum number of Newton steps.
    time_limit : float, default=None
        Time limit in seconds; `fit` then stops and keeps the current model. None: no limit.
    verbose : int, default=0
        If positive, display a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Ranks in increasing order.
    coef_ : ndarray of shape (n_features,)
        Weights w of the features; a positive weight favours higher ranks.
    thresholds_ : ndarray of shape (n_classes - 1,)
        Thresholds between the ranks, strictly increasing.
    log_likelihood_ : float
        Log-likelihood of the training samples, without the penalty.
    certificate_ : Certificate or None
        Certificate of optimality, with its rounding errors; None with alpha=0, where no lower bound
        is available.
    n_iter_ : int
        Number of Newton steps.
    n_features_in_, feature_names_in_
        Number of features seen during `fit`, and their names if X has string column names.

    See Also
    --------
    OrdinalSVC : Large-margin ordinal regression with kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import CumulativeLinkClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = np.digitize(2 * X[:, 0] - X[:, 1] + rng.logistic(size=300), [-2, 0, 2])
    >>> model = CumulativeLinkClassifier().fit(X, y)
    >>> model.coef_.round(1), model.thresholds_.round(1)
    (array([ 1.9, -1. ]), array([-2.2,  0. ,  2.2]))
    >>> model.predict_proba(X[:1]).round(2)
    array([[0.07, 0.34, 0.45, 0.14]])
    """

    def __init__(
        self,
        *,
        link: str = "logit",
        alpha: float = 1e-3,
        classes: Any = None,
        tol: float = 1e-8,
        max_iter: int = 100,
        time_limit: float | None = None,
        verbose: int = 0,
    ) -> None:
        self.link = link
        self.alpha = alpha
        self.classes = classes
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # scikit-learn's estimator checks use unordered classes, which one utility cannot fit.
        tags.classifier_tags.poor_score = True
        return tags

    def _check_parameters(self) -> None:
        require_choice("link", self.link, LINKS)
        require_number("alpha", self.alpha, "a number, not negative", least=0.0)
        require_number("tol", self.tol, "a positive number")
        require_budget(self.max_iter, self.time_limit)

    @whole_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CumulativeLinkClassifier:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Ranks.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, not negative: weight 2 is equivalent to repeating the sample, weight 0
            to omitting it. None: all weights are 1.

        Returns
        -------
        self : CumulativeLinkClassifier
            The fitted model.
        """
        self._check_parameters()
        X, _, weight = check_fit(self, X, y, sample_weight, numeric=False)
        classes, codes = ordered_classes(y, self.classes)
        data = canonical(X, codes, weight)
        check_scale(data.X)
        self.classes_, codes = used_ranks(classes, data.y)
        problem = CumulativeProblem(self.link, codes, data.weight, float(self.alpha))
        name = "CumulativeLinkClassifier"
        with Watch(name, self.tol, self.verbose, self.time_limit) as watch:
            budget = Budget(int(self.max_iter), watch)
            result = solve(problem, data.X, tol=self.tol, budget=budget)
        with worker_threads() as threads:
            certificate = problem.certificate(
                data.X,
                result.coef,
                result.thresholds,
                tol=self.tol,
                n_iter=result.n_iter,
                blur=data.cost_error,
                threads=threads,
                solved=result.status == "converged",
            )
        self.coef_, self.thresholds_ = result.coef, result.thresholds
        self.log_likelihood_ = result.likelihood
        self.certificate_ = certificate if self.alpha > 0 else None
        self.n_iter_ = result.n_iter
        if self.alpha > 0:
            warn_unconverged(name, certificate, [result.status], self.tol, data.X, "gap")
        else:
            self._warn_of_pure_likelihood(result, certificate.kkt_violation)
        return self

    def _warn_of_pure_likelihood(self, result: CumulativeResult, violation: float) -> None:
        """Warn about a fit with alpha=0 that has no maximum, no unique one, or did not converge."""
        size = float(np.abs(result.coef).max(initial=0.0))
        where = f"log-likelihood {result.likelihood:.3g}, largest coefficient {size:.3g}"
        if result.separated:
            message = (
                "the ranks of some rows can be told apart without error by a linear utility, so "
                "that with alpha=0 the likelihood has no maximum: the coefficients grow without "
                f"end (stopped at {where}). Give alpha > 0, for instance the default 1e-3."
            )
            warn(message, ConvergenceWarning)
            return
        if result.status != "converged":
            how, advice = reason_of([result.status])
            message = (
                f"CumulativeLinkClassifier did not converge ({how}) in {result.n_iter} steps: "
                f"largest entry of the gradient {violation:.2e}, {where}. "
                f"To go on, {advice}; alpha > 0 helps."
            )
            warn(message, ConvergenceWarning)
        self._warn_of_unidentified(np.flatnonzero(result.constant), result.n_dependent)

    def _warn_of_unidentified(self, constant: IntArray, n_dependent: int) -> None:
        """Warn about coefficients that the likelihood does not identify."""
        if len(constant):
            names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
            shown = ", ".join(str(name) for name in names[constant][:10])
            warn(
                f"constant columns of X ({shown}): with alpha=0 their coefficients are not "
                "identified, for the thresholds make up for any value; they were set to 0. Drop "
                "the columns or give alpha > 0.",
                UserWarning,
            )
        if n_dependent > len(constant):
            warn(
                f"columns of X depend on each other linearly ({n_dependent - len(constant)} too "
                "many): with alpha=0 their coefficients are not identified, only their effect on "
                "the utility is. Drop columns or give alpha > 0.",
                UserWarning,
            )

    def utility(self, X: Any) -> FloatArray:
        """Return the latent utility w . x of each sample, for ranking.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Utilities, on the scale of `thresholds_`.
        """
        check_is_fitted(self)
        X = check_X(self, X)
        return np.asarray(safe_sparse_dot(X, self.coef_), dtype=np.float64)

    def decision_function(self, X: Any) -> FloatArray:
        """Return the log-probability of each rank, or the log-odds if there are two ranks.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples to score.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Two ranks: positive for ``classes_[1]``. More: the largest entry is the predicted rank.
        """
        utility = self.utility(X)
        logs = log_probabilities(self.link, self.thresholds_, utility)
        logs = np.maximum(logs, LOG_LEAST)
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each rank.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`; each row sums to 1. They are at least about
            2e-308, the smallest normal float64, so that their logarithms are finite.
        """
        probabilities = np.exp(self.predict_log_proba(X))
        return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the log-probability of each rank.

        Values are clipped at the logarithm of the smallest normal float64; `decision_function`
        distinguishes the ranks beyond that.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithms of :meth:`predict_proba`.
        """
        utility = self.utility(X)
        return np.maximum(log_probabilities(self.link, self.thresholds_, utility), LOG_TINY)
