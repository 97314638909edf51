"""Cumulative link models for ordered ranks: CumulativeLinkClassifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from widemargin._base.messages import warn
from widemargin._base.progress import Watch
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
LOG_LEAST = -float(np.finfo(np.float64).max)  # cloglog's logarithms are exponentials of utilities


class CumulativeLinkClassifier(ScoredClassifier, Displayed, BaseEstimator):
    r"""Cumulative link model (proportional odds and its kin) for ordered ranks.

    :math:`\Pr(y \le r_k \mid x) = P(\theta_k - w \cdot x)` with increasing thresholds
    :math:`\theta_k`: Herbrich et al. (2000), (2.3). Minimises the negative log-likelihood, summed
    over the rows, plus :math:`\frac{\alpha}{2} |w|^2`, by Newton's method.

    Parameters
    ----------
    link : {"logit", "probit", "cloglog"}, default="logit"
        Distribution P of the noise: logistic (proportional odds), normal, or
        :math:`1 - \exp(-\exp(t))` (proportional hazards). The last is not symmetric: reversing the
        order of the ranks gives another model.
    alpha : float, default=1e-3
        Penalty on the weights, against the sum (not the mean) of the rows' losses; 0 is pure
        maximum likelihood, which has no solution where the ranks can be separated.
    classes : sequence of labels, default=None
        The ranks, lowest first; labels that do not occur are left out. None: the order of an
        ordered pandas Categorical or a polars Enum; else of numbers; else strings alphabetically,
        with a warning that shows the order.
    tol : float, default=1e-8
        Bound on the objective's distance from its optimum, relative to max(1, objective). With
        alpha=0, which has no such bound, on what the last Newton step promised.
    max_iter : int, default=100
        Largest number of Newton steps.
    time_limit : float, default=None
        Seconds after which the fit stops with the model reached.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The ranks, lowest first.
    coef_ : ndarray of shape (n_features,)
        Weights w: a positive one means that the feature goes with higher ranks.
    thresholds_ : ndarray of shape (n_classes - 1,)
        Thresholds, strictly increasing.
    log_likelihood_ : float
        Of the training rows, without the penalty.
    certificate_ : Certificate or None
        Bounds around the optimum; None with alpha=0, where none can be given.
    n_iter_ : int
        Newton steps.
    n_features_in_, feature_names_in_
        Number of the features, and their names where X has any.

    See Also
    --------
    OrdinalSVC : Large-margin rank boundaries, with kernels.

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
        # scikit-learn's data have classes without an order, which one utility cannot follow.
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
            Training rows.
        y : array-like of shape (n_samples,)
            Ranks.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 means the same as the row twice, 0 the same as its absence.

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
        certificate = problem.certificate(result, tol=self.tol)
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
        """Say what may be wrong without a penalty: no maximum, more than one, or none reached."""
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
        """Name what the likelihood does not determine."""
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
        """Return the latent utility w . x of each row, by which rows can be ranked.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            To be compared with `thresholds_`.
        """
        check_is_fitted(self)
        X = check_X(self, X)
        return np.asarray(safe_sparse_dot(X, self.coef_), dtype=np.float64)

    def decision_function(self, X: Any) -> FloatArray:
        """Return the log-probabilities of the ranks; of two ranks, the log-odds.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to score.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Two ranks: positive for ``classes_[1]``. More: the largest is the predicted rank.
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
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`; each row adds up to 1. None is below the
            smallest float64, 2e-308, so that no logarithm of them is infinite.
        """
        probabilities = np.exp(self.predict_log_proba(X))
        return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of the probability of each rank.

        Far in the tails, where a probability is no float64 any more, `decision_function` still
        tells the ranks apart.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithms of :meth:`predict_proba`.
        """
        utility = self.utility(X)
        return np.maximum(log_probabilities(self.link, self.thresholds_, utility), LOG_TINY)
