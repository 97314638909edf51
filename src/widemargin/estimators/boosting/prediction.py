"""Prediction with boosted ensembles, final and staged by round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from widemargin._base.bound import Bound
from widemargin._base.multiclass import predicted_class
from widemargin._base.typing import FloatArray
from widemargin.estimators.boosting.votes import VotingEnsemble, normalised
from widemargin.fitted.calibration import LIMIT
from widemargin.fitted.coupling import against_rest
from widemargin.problems import training_bounds
from widemargin.problems.boosting import margins_of


class BoostedPrediction(VotingEnsemble):
    """Mixin for votes that are found one hypothesis per round."""

    reg: float
    errors_: Any
    stopped_: Any

    # -- the model -------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class by the logistic link, p = 1 / (1 + exp(-2 F)).

        F is the sum of alpha_t g_t, an estimate of half the log-odds under AdaBoost's exponential
        loss (Friedman, Hastie and Tibshirani 2000). The probabilities are **not calibrated**: they
        approach 0 and 1 with the number of rounds. For calibrated ones use
        ``sklearn.calibration.CalibratedClassifierCV``. With more than two classes the one-vs-rest
        probabilities are normalised.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`; the largest is that of the predicted class.
        """
        totals = self._totals(self._checked(X))
        each = np.clip(expit(2.0 * totals), LIMIT, 1.0 - LIMIT)
        return against_rest(each, normalised(totals, self._alpha_sums()))

    @property
    def margin_limit_(self) -> Any:
        """Upper bound on the smallest training margin of any convex combination of stumps.

        By duality: for any sample weights, the weighted mean margin of a convex combination is at
        most that of the best stump. The bound is the smallest value of 1 - 2 error of all rounds.
        """
        check_is_fitted(self)
        if not self._ensembles_[0].has_stumps:
            raise AttributeError("margin_limit_ is there for stumps only (base=None)")
        pairs = zip(self._each(self.errors_), self._each(self.stopped_), strict=True)
        limits = [0.0 if "no_edge" in end else 1.0 - 2.0 * max(errors) for errors, end in pairs]
        return np.array(limits) if len(limits) > 1 else float(limits[0])

    # -- round by round --------------------------------------------------------------------

    def _staged_values(self, X: Any) -> Iterator[FloatArray]:
        """Yield f after each round; ensembles with fewer rounds keep their final values."""
        X = self._checked(X)
        runs = [e.staged(X, a) for e, a in zip(self._ensembles_, self._alphas_, strict=True)]
        totals = np.zeros((X.shape[0], len(runs)))
        for t in range(max(len(alpha) for alpha in self._alphas_)):
            for k, run in enumerate(runs):
                totals[:, k] = next(run, totals[:, k])
            scale = np.array([alpha[: t + 1].sum() for alpha in self._alphas_])
            yield normalised(totals, scale)

    def staged_decision_function(self, X: Any) -> Iterator[FloatArray]:
        """Yield the decision function after each round.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples to score.

        Yields
        ------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Scores as returned by :meth:`decision_function`.
        """
        for values in self._staged_values(X):
            yield values[:, 0] if len(self.classes_) == 2 else values

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Yield the predicted classes after each round.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples to classify.

        Yields
        ------
        ndarray of shape (n_samples,)
            Predicted class labels.
        """
        for scores in self.staged_decision_function(X):
            yield self.classes_[predicted_class(scores)]

    def staged_margins(self, X: Any, y: Any) -> Iterator[FloatArray]:
        """Yield the margins of labelled samples after each round.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            True labels, all of them in `classes_`.

        Yields
        ------
        ndarray of shape (n_samples,)
            Margins y f(x) in [-1, 1]; with more than two classes (f_y - largest other f) / 2.
        """
        X = self._checked(X)
        codes = self._codes(y, X.shape[0])
        for values in self._staged_values(X):
            yield margins_of(values, codes)

    def margin_bound(self, rho: float) -> Bound:
        r"""Return the bound of theorem 1.12 on the fraction of training margins below rho.

        Smola et al. (2000), (1.86):
        :math:`\prod_t 2 \sqrt{\varepsilon_t^{1-\rho} (1 - \varepsilon_t)^{1+\rho}}`. At rho = 0 it
        equals the mean exponential loss of the training samples. Samples are counted by weight.
        With more than two classes it is the sum of the one-vs-rest bounds (union bound): a margin
        is below rho only if it is below rho in one of the binary problems.

        Parameters
        ----------
        rho : float
            Margin threshold.

        Returns
        -------
        Bound
            A float; values of 1 or more are vacuous.
        """
        check_is_fitted(self)
        if self.reg != 0:
            raise ValueError(
                f"theorem 1.12 is about AdaBoost, reg=0; got reg={self.reg!r}. Compare rho with "
                "margins_ instead"
            )
        machines = [training_bounds.adaboost(errors, rho) for errors in self._each(self.errors_)]
        if len(machines) == 1:
            return machines[0]
        unmet = tuple(condition for machine in machines for condition in machine.unmet)
        first = machines[0]
        return Bound(sum(machines), first.name, unmet, of=first.of)
