"""Radial-basis networks with adaptive centres: RBFNetClassifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from widemargin._base.multiclass import check_classes, rest_labels
from widemargin._base.typing import FloatArray, Matrix
from widemargin._base.validation import (
    canonical,
    check_fit,
    check_scale,
    check_X,
    require_integer,
    require_number,
    seed_of,
)
from widemargin.estimators._base.classification import OneVsRestClassifier, ScoredClassifier
from widemargin.estimators._base.rollback import whole_fit
from widemargin.problems.rbf_net import RBFNetProblem, network_values
from widemargin.solvers import rbf_net
from widemargin.solvers.base import Budget
from widemargin.solvers.rbf_net import RBFNetResult

LEAST_RIDGE = 1e-12  # with less, bumps that are nearly equal could not be told apart
LARGEST = 1e150  # its square is a float64, and so is one over it


class RBFNetClassifier(OneVsRestClassifier, ScoredClassifier, BaseEstimator):
    r"""Radial-basis network with adaptive centres.

    A sum of Gaussian bumps is fitted to labels of -1 and +1 by regularised least squares:

    .. math:: f(x) = \sum_k a_k \exp\Bigl(-\frac{|x - c_k|^2}{2 \sigma_k^2}\Bigr).

    The centres start from k-means on the weighted rows, each width from the distance to the nearest
    other centre, and a few conjugate-gradient steps adapt both to the labels; the output weights
    have a closed form throughout (Rätsch, Onoda and Müller 2001). It is a quick learner of moderate
    strength, made to be boosted. The error has many local minima, and none is waited for, so there
    is no certificate.

    The decision function is f; far from all centres it is 0. Three and more classes: one network
    for each against the rest, from the same start. Features should have comparable scales.

    Parameters
    ----------
    n_centres : int, default=10
        Number of bumps. There are fewer if the data have fewer different rows.
    n_steps : int, default=10
        Conjugate-gradient steps on centres and widths; 0 leaves them as k-means has found them.
    ridge : float, default=1e-6
        Weight decay of the output weights, against the mean squared error; at least 1e-12.
    random_state : int, RandomState or None, default=None
        Seed of the random start of k-means; None is a fixed one.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    centres_ : ndarray of shape (n_networks, n_centres, n_features)
        Centres; one network for two classes, else one for each class.
    widths_ : ndarray of shape (n_networks, n_centres)
        Widths sigma.
    coef_ : ndarray of shape (n_networks, n_centres)
        Output weights a.
    errors_ : ndarray of shape (n_networks,)
        Half the mean squared error of the training rows plus the weight decay.
    n_steps_ : int
        Steps taken, of all networks the most; fewer than `n_steps` where no step gains anything.
    n_features_in_, feature_names_in_
        Number of the features, and their names where X has any.

    See Also
    --------
    AdaBoostClassifier : Boosts these networks.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import RBFNetClassifier
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> model = RBFNetClassifier(n_centres=8).fit(X[:200], y[:200])
    >>> model.score(X[200:], y[200:])
    0.96
    """

    def __init__(
        self,
        n_centres: int = 10,
        *,
        n_steps: int = 10,
        ridge: float = 1e-6,
        random_state: Any = None,
    ) -> None:
        self.n_centres = n_centres
        self.n_steps = n_steps
        self.ridge = ridge
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        require_integer("n_centres", self.n_centres, "a positive integer")
        require_integer("n_steps", self.n_steps, "an integer, not negative", least=0)
        fix = f"a number, at least {LEAST_RIDGE:g}"
        require_number("ridge", self.ridge, fix, least=LEAST_RIDGE)

    @whole_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RBFNetClassifier:
        """Fit the network.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
            Class labels of any kind, two or more classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 means the same as the row twice, 0 the same as its absence. A common factor of
            all weights means nothing.

        Returns
        -------
        self : RBFNetClassifier
            The fitted model.
        """
        self._check_parameters()
        X, y, weight = check_fit(self, X, y, sample_weight, numeric=False)
        # Always in canonical order, for the random start depends on it; that costs only a sort.
        data = canonical(X, y, weight, always=True)
        self.classes_, codes = check_classes(data.y)
        check_scale(data.X, 1.0 / LARGEST, LARGEST)
        share = data.weight / data.weight.sum()
        # Dense samples are seen from their mean, sparse ones stay as they are.
        sparse = sp.issparse(data.X)
        self._origin_ = np.zeros(data.X.shape[1]) if sparse else np.asarray(share @ data.X, float)
        rows = _shifted(self._origin_, data.X)
        problems = [
            RBFNetProblem(label, share, float(self.ridge), int(self.n_centres))
            for label in rest_labels(codes, len(self.classes_))
        ]
        start = rbf_net.k_means(problems[0], rows, seed=seed_of(self.random_state))
        steps = int(self.n_steps)
        self._keep([rbf_net.solve(p, rows, budget=Budget(steps), start=start) for p in problems])
        return self

    def _keep(self, nets: list[RBFNetResult]) -> None:
        """Store the networks, centres in the user's coordinates."""
        self.centres_ = np.array([net.centres for net in nets]) + self._origin_
        self.widths_ = np.array([net.widths for net in nets])
        self.coef_ = np.array([net.coef for net in nets])
        self.errors_ = np.array([net.error for net in nets])
        self.n_steps_ = max(net.n_iter for net in nets)

    def _machine_values(self, X: Any) -> FloatArray:
        X = check_X(self, X)
        # A model of dense rows may be asked about sparse ones.
        origin = np.zeros(X.shape[1]) if sp.issparse(X) else self._origin_
        rows = _shifted(origin, X)
        networks = zip(self.centres_ - origin, self.widths_, self.coef_, strict=True)
        return np.column_stack([network_values(rows, *network) for network in networks])


def _shifted(origin: FloatArray, X: Matrix) -> Matrix:
    """Return float64 rows, dense ones shifted: squared distances far from zero lose digits."""
    return X.astype(np.float64) if sp.issparse(X) else X - origin
