"""Radial basis function networks with adaptive centres: RBFNetClassifier."""

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

LEAST_RIDGE = 1e-12  # below this, the least-squares system of nearly equal units is singular
LARGEST = 1e150  # neither the square of this nor that of its inverse leaves the float64 range


class RBFNetClassifier(OneVsRestClassifier, ScoredClassifier, BaseEstimator):
    r"""Radial basis function (RBF) network classifier with adaptive centres.

    A sum of Gaussian units is fitted to the labels -1 and +1 by regularised least squares:

    .. math:: f(x) = \sum_k a_k \exp\Bigl(-\frac{|x - c_k|^2}{2 \sigma_k^2}\Bigr).

    The centres are initialised by weighted k-means, the widths by the distance to the nearest other
    centre. A few conjugate-gradient steps adapt both to the labels, with the output weights in
    closed form throughout (Rätsch, Onoda and Müller 2001). The network is a fast base learner of
    moderate accuracy for boosting. The error has many local minima and is not minimised to
    convergence, so there is no certificate.

    The decision function is f, which is 0 far from all centres. Multiclass is one-vs-rest, one
    network per class from the same initialisation. Features should have comparable scales.

    Parameters
    ----------
    n_centres : int, default=10
        Number of Gaussian units, positive. Reduced if there are fewer distinct samples.
    n_steps : int, default=10
        Maximum number of conjugate-gradient steps on centres and widths; 0 keeps the initial ones.
    ridge : float, default=1e-6
        Weight decay of the output weights, relative to the mean squared error; at least 1e-12.
    random_state : int, RandomState or None, default=None
        Seed for the initialisation of k-means. None is a fixed seed.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    centres_ : ndarray of shape (n_networks, n_centres, n_features)
        Centres c; one network for two classes, otherwise one per class.
    widths_ : ndarray of shape (n_networks, n_centres)
        Widths sigma of the units.
    coef_ : ndarray of shape (n_networks, n_centres)
        Output weights a.
    errors_ : ndarray of shape (n_networks,)
        Training objective: half the mean squared error plus the weight decay.
    n_steps_ : int
        Maximum number of steps over the networks; less than `n_steps` if no step reduces the error.
    n_features_in_, feature_names_in_
        Number of features seen during `fit`, and their names if X has string column names.

    See Also
    --------
    AdaBoostClassifier : Boosting, with these networks as a possible base.

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
            Training samples.
        y : array-like of shape (n_samples,)
            Class labels; at least two classes must occur.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, not negative: weight 2 is equivalent to repeating the sample, weight 0
            to omitting it. A common factor of all weights has no effect. None: all weights are 1.

        Returns
        -------
        self : RBFNetClassifier
            The fitted model.
        """
        self._check_parameters()
        X, y, weight = check_fit(self, X, y, sample_weight, numeric=False)
        # Canonical order for any size: the initialisation of k-means depends on the order.
        data = canonical(X, y, weight, always=True)
        self.classes_, codes = check_classes(data.y)
        check_scale(data.X, 1.0 / LARGEST, LARGEST)
        share = data.weight / data.weight.sum()
        # Only dense samples are centred; centring would destroy sparsity.
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
        """Store the networks, with the centres in the original coordinates."""
        self.centres_ = np.array([net.centres for net in nets]) + self._origin_
        self.widths_ = np.array([net.widths for net in nets])
        self.coef_ = np.array([net.coef for net in nets])
        self.errors_ = np.array([net.error for net in nets])
        self.n_steps_ = max(net.n_iter for net in nets)

    def _machine_values(self, X: Any) -> FloatArray:
        X = check_X(self, X)
        # A model fitted on dense samples may predict sparse ones, which are not centred.
        origin = np.zeros(X.shape[1]) if sp.issparse(X) else self._origin_
        rows = _shifted(origin, X)
        networks = zip(self.centres_ - origin, self.widths_, self.coef_, strict=True)
        return np.column_stack([network_values(rows, *network) for network in networks])


def _shifted(origin: FloatArray, X: Matrix) -> Matrix:
    """Return X in float64; dense samples are shifted to the origin."""
    # Squared distances lose significant digits far from the origin.
    return X.astype(np.float64) if sp.issparse(X) else X - origin
