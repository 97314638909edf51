"""Predict by a boosted model, at the end and after each round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted, column_or_1d

from widemargin._base.bound import Bound
from widemargin._base.multiclass import predicted_class
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin._base.validation import check_X
from widemargin.estimators.boosting.ensemble import ClassifierEnsemble, StumpEnsemble
from widemargin.fitted.calibration import LIMIT
from widemargin.fitted.coupling import against_rest
from widemargin.problems import training_bounds
from widemargin.problems.boosting import margins_of


class BoostedPrediction:
    """Mixin of the weighted votes of hypotheses, one ensemble for two classes, else one per class.

    Stands before OneVsRestClassifier and ScoredClassifier.
    """

    classes_: Any
    reg: float
    n_features_in_: int
    errors_: Any
    stopped_: Any
    _ensembles_: list[StumpEnsemble | ClassifierEnsemble]
    _alphas_: list[FloatArray]

    def _takes_sparse(self) -> bool:
        raise NotImplementedError

    def _checked(self, X: Any) -> Matrix:
        check_is_fitted(self)
        return check_X(self, X, accept_sparse=self._takes_sparse())

    def _totals(self, X: Matrix) -> FloatArray:
        """Return the sums of alpha_t g_t, a column for each machine."""
        pairs = zip(self._ensembles_, self._alphas_, strict=True)
        return np.column_stack([ensemble.total(X, alpha) for ensemble, alpha in pairs])

    def _alpha_sums(self) -> FloatArray:
        return np.array([alpha.sum() for alpha in self._alphas_])

    # -- the model -------------------------------------------------------------------------

    def _machine_values(self, X: Any) -> FloatArray:
        """Return f, the weighted mean of the votes of the hypotheses, in [-1, 1]."""
        return normalised(self._totals(self._checked(X)), self._alpha_sums())

    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities by the logistic link, p = 1 / (1 + exp(-2 F)).

        F is the sum of alpha_t g_t, of which AdaBoost's loss makes half the log-odds (Friedman,
        Hastie and Tibshirani 2000). They are **not calibrated**: the more rounds, the closer they
        are to 0 and 1. ``sklearn.calibration.CalibratedClassifierCV`` gives better ones. With more
        than two classes the machines' probabilities are normalised.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`; the largest is that of the predicted class.
        """
        totals = self._totals(self._checked(X))
        each = np.clip(expit(2.0 * totals), LIMIT, 1.0 - LIMIT)
        return against_rest(each, normalised(totals, self._alpha_sums()))

    @property
    def estimators_(self) -> list[Any]:
        """The hypotheses, round by round; a list for each class if there are more than two."""
        check_is_fitted(self)
        members = [ensemble.members() for ensemble in self._ensembles_]
        return members if len(members) > 1 else members[0]

    @property
    def feature_importances_(self) -> FloatArray:
        """The share of the coefficients that each feature's stumps have."""
        check_is_fitted(self)
        total = np.zeros(self.n_features_in_)
        for ensemble, alpha in zip(self._ensembles_, self._alphas_, strict=True):
            total += ensemble.feature_shares(alpha, len(total))
        return total / max(float(total.sum()), np.finfo(np.float64).tiny)

    @property
    def margin_limit_(self) -> Any:
        """A margin that no convex combination of stumps exceeds on all training rows.

        By duality: under any weights of the rows, the weighted mean of the margins of a
        combination is at most that of the best stump. It is the least 1 - 2 error of the rounds.
        """
        check_is_fitted(self)
        if not self._ensembles_[0].has_stumps:
            raise AttributeError("margin_limit_ is there for stumps only (base=None)")
        pairs = zip(self._each(self.errors_), self._each(self.stopped_), strict=True)
        limits = [0.0 if "no_edge" in end else 1.0 - 2.0 * max(errors) for errors, end in pairs]
        return np.array(limits) if len(limits) > 1 else float(limits[0])

    def _each(self, of_machines: Any) -> list[Any]:
        """Return a list with an entry for each machine."""
        return of_machines if len(self._alphas_) > 1 else [of_machines]

    # -- round by round --------------------------------------------------------------------

    def _staged_values(self, X: Any) -> Iterator[FloatArray]:
        """Yield the normalised values after each round; machines that have ended stay."""
        X = self._checked(X)
        runs = [e.staged(X, a) for e, a in zip(self._ensembles_, self._alphas_, strict=True)]
        totals = np.zeros((X.shape[0], len(runs)))
        for t in range(max(len(alpha) for alpha in self._alphas_)):
            for k, run in enumerate(runs):
                totals[:, k] = next(run, totals[:, k])
            scale = np.array([alpha[: t + 1].sum() for alpha in self._alphas_])
            yield normalised(totals, scale)

    def staged_decision_function(self, X: Any) -> Iterator[FloatArray]:
        """Yield the decision function of the model after each round.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to score.

        Yields
        ------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            As :meth:`decision_function` returns them.
        """
        for values in self._staged_values(X):
            yield values[:, 0] if len(self.classes_) == 2 else values

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Yield the predicted classes after each round.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to classify.

        Yields
        ------
        ndarray of shape (n_samples,)
            Labels.
        """
        for scores in self.staged_decision_function(X):
            yield self.classes_[predicted_class(scores)]

    def staged_margins(self, X: Any, y: Any) -> Iterator[FloatArray]:
        """Yield the margins of some rows after each round.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their labels, all among `classes_`.

        Yields
        ------
        ndarray of shape (n_samples,)
            y f(x) in [-1, 1]; with more than two classes (f_y - largest other f) / 2.
        """
        X = self._checked(X)
        codes = self._codes(y, X.shape[0])
        for values in self._staged_values(X):
            yield margins_of(values, codes)

    def _codes(self, y: Any, n_rows: int) -> IntArray:
        y = column_or_1d(y)
        if len(y) != n_rows:
            raise ValueError(f"y must have a label for each of the {n_rows} rows; got {len(y)}")
        strange = np.setdiff1d(y, self.classes_)
        if len(strange):
            raise ValueError(
                f"y must hold labels among the classes {self.classes_.tolist()}; got "
                f"{strange.tolist()[0]!r}, for which there is no margin"
            )
        return np.searchsorted(self.classes_, y)

    def margin_bound(self, rho: float) -> Bound:
        r"""Return the bound of theorem 1.12 on the share of training rows with a margin below rho.

        Smola et al. (2000), (1.86):
        :math:`\prod_t 2 \sqrt{\varepsilon_t^{1-\rho} (1 - \varepsilon_t)^{1+\rho}}`. At rho = 0 it
        equals the mean exponential loss of the training rows. Rows count by their weights. With
        more than two classes it is the sum of the machines' bounds: a margin is below rho only if
        it is so for a machine.

        Parameters
        ----------
        rho : float
            The margin.

        Returns
        -------
        Bound
            A float; 1 or more says nothing.
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


def normalised(totals: FloatArray, scale: FloatArray) -> FloatArray:
    """Return F / sum of alpha, which rounding must not take out of [-1, 1]."""
    return np.clip(totals / scale, -1.0, 1.0)
