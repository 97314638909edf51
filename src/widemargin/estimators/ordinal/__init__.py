"""Large-margin ordinal regression and ranking: OrdinalSVC."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from widemargin._base.typing import FloatArray
from widemargin._base.validation import (
    check_X,
    require,
    require_bool,
    require_choice,
    require_number,
    seed_of,
)
from widemargin.certificate import warn_unconverged
from widemargin.estimators._base.rollback import whole_fit
from widemargin.estimators.ordinal.fit import PreferenceMachine
from widemargin.problems.preference.risk import preference_risk
from widemargin.problems.ranks import comparable_numbers
from widemargin.problems.ranks.thresholds import rank_of, rank_scores


class OrdinalSVC(ClassifierMixin, PreferenceMachine):
    r"""Large-margin ordinal regression, and ranking within queries.

    Learns a utility f that is larger for samples of higher rank, by a margin of 1,

    .. math:: \min_f \; \tfrac12 \|f\|^2 + C \sum_{y_i > y_j} s_i s_j \,
              \ell\bigl(1 - (f(x_i) - f(x_j))\bigr), \qquad \ell(z) = z_+ \text{ or } z_+^2 ,

    over all pairs of samples of different rank, with sample weights s, and then thresholds on f
    that separate the ranks (Herbrich et al. 2000, (2.19)-(2.25)). The pairs are never formed: with
    the linear kernel, time and memory are proportional to the size of the data up to a logarithm.
    `certificate_` bounds the distance to the optimum.

    With `qid`, only samples of the same query are compared, and the model sorts the samples of a
    query. It does not predict ranks, since utilities of different queries are not comparable.

    Parameters
    ----------
    C : float, default=1.0
        Cost of the slack, positive; its scale depends on `C_scale`.
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable, default="rbf"
        Kernel function, as for :class:`SVC`. "linear" fits weights of the features, dense or
        sparse, and scales to many samples.
    degree : float, default=3
        Degree of the "poly" kernel, positive. Other kernels ignore it.
    gamma : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
        Coefficient of "rbf", "poly" and "sigmoid", as for :class:`SVC`.
    coef0 : float, default=0.0
        Constant term of "poly" and "sigmoid". Other kernels ignore it.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss of a pair: the hinge loss, linear in the slack, or its square.
    norm : {2, 1}, default=2
        Norm of the weights in the regularisation term. 1 replaces :math:`\frac12 |w|^2` by
        :math:`\sum_k |w_k|`, which gives sparse weights (section 2.4 there); it requires
        ``kernel="linear"`` and the hinge loss.
    thresholds : {"optimal", "margin"}, default="optimal"
        Rule for the thresholds. "optimal" minimises the sum of abs(predicted - true rank) over the
        training samples, with ranks numbered 1, 2, 3. "margin" places them midway between samples
        of adjacent ranks at the margin, (2.26)-(2.28) with a corrected sign; if there are none,
        midway between the closest samples in the right order.
    classes : sequence of labels, default=None
        Ranks in increasing order; labels that do not occur in y are dropped. None: the order of an
        ordered pandas Categorical or a polars Enum, otherwise numerical order, otherwise
        alphabetical order with a warning.
    C_scale : {"pair", "total"}, default="pair"
        "pair": C is the cost per unit of slack of each pair; the number of pairs grows with the
        square of the number of samples. "total": C is divided by the number of pairs, so that it is
        the cost of the mean slack and comparable between data sets of different size.
    pooled_ranks : bool, default=False
        Whether to predict ranks also after a fit with `qid`, with thresholds on the utilities of
        all queries. Only meaningful if utilities of different queries are comparable.
    tol : float, default=1e-4
        Tolerance for stopping: largest relative duality gap.
    cache_size : float, default=500
        Memory for kernel values, in megabytes.
    max_iter : int, default=-1
        Maximum number of Newton steps; -1 is 1000.
    time_limit : float, default=None
        Time limit in seconds; `fit` then stops and keeps the current model. None: no limit.
    random_state : int, RandomState or None, default=None
        Seed for the folds of :mod:`widemargin.loo` on large data; the fit itself is deterministic.
        None is a fixed seed.
    verbose : int, default=0
        If positive, display a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Ranks in increasing order.
    thresholds_ : ndarray of shape (n_classes - 1,)
        Thresholds on the utility, nondecreasing. Not set after a fit with `qid` unless
        ``pooled_ranks=True``.
    coef_ : ndarray of shape (n_features,)
        Weights of the features. Only with ``kernel="linear"``.
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors. Not with ``kernel="linear"``.
    support_vectors_ : ndarray or CSR of shape (n_SV, n_features)
        Support vectors. Not with ``kernel="linear"``.
    dual_coef_ : ndarray of shape (1, n_SV)
        Coefficients of the support vectors, which sum to zero within each query. Not with
        ``kernel="linear"``.
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors per rank. Not with ``kernel="linear"``.
    certificate_ : Certificate
        Certificate of optimality.
    n_pairs_ : float
        Number of pairs compared, counted by weight.
    n_iter_ : int
        Number of Newton steps.
    gamma_ : float or ndarray
        Value of gamma used in the fit.
    n_features_in_, feature_names_in_
        Number of features seen during `fit`, and their names if X has string column names.

    See Also
    --------
    CumulativeLinkClassifier : Probabilistic ordinal regression by maximum likelihood.
    metrics.preference_risk : Fraction of pairs in the wrong order.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import OrdinalSVC
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 2))
    >>> y = np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.0, 0.3])
    >>> model = OrdinalSVC().fit(X, y)
    >>> model.predict([[0.9, 0.9], [0.9, -0.9], [0.4, -0.4]])
    array([3, 0, 1])
    >>> model.certificate_.relative_gap < 1e-4
    True
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        loss: str = "hinge",
        norm: int = 2,
        thresholds: str = "optimal",
        classes: Any = None,
        C_scale: str = "pair",
        pooled_ranks: bool = False,
        tol: float = 1e-4,
        cache_size: float = 500,
        max_iter: int = -1,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            kernel=kernel, degree=degree, gamma=gamma, coef0=coef0, tol=tol, cache_size=cache_size,
            max_iter=max_iter, time_limit=time_limit, random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.C = C
        self.loss = loss
        self.norm = norm
        self.thresholds = thresholds
        self.classes = classes
        self.C_scale = C_scale
        self.pooled_ranks = pooled_ranks

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn's estimator checks use unordered classes, which no linear utility can fit.
        tags.classifier_tags.poor_score = self.kernel in ("linear", "precomputed")
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_number("C", self.C, "a positive number")
        require_bool("pooled_ranks", self.pooled_ranks)
        require_choice("loss", self.loss, ("hinge", "squared_hinge"))
        require_choice("thresholds", self.thresholds, ("optimal", "margin"))
        require_choice("C_scale", self.C_scale, ("pair", "total"))
        whole = isinstance(self.norm, numbers.Integral) and not isinstance(self.norm, bool)
        require(whole and self.norm in (1, 2), "norm", self.norm, "1 or 2")
        possible = self.norm == 2 or (self.kernel == "linear" and self.loss == "hinge")
        require(possible, "norm", self.norm, '2 unless kernel="linear" and loss="hinge"')

    # -- fitting ---------------------------------------------------------------------------

    @whole_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None, qid: Any = None) -> OrdinalSVC:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training samples, or their kernel matrix if ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Ranks; at least two must occur. With `qid` any numbers, of which only the order is used.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, not negative: weight 2 is equivalent to repeating the sample, weight 0
            to omitting it. The weight of a pair is the product of two sample weights. None: all
            weights are 1.
        qid : array-like of shape (n_samples,), default=None
            Query identifier of each sample; only samples of the same query are compared. None: all
            samples are compared.

        Returns
        -------
        self : OrdinalSVC
            The fitted model.
        """
        self._check_parameters()
        seed = seed_of(self.random_state)
        rows = self._ranked_rows(X, y, sample_weight, qid)
        problem = self._problem(rows)
        result, certificate = self._result(problem, self._kernel_rows(rows.data))
        self._keep_model(rows, problem, result, certificate)
        self._keep_record(rows, problem, result, seed)
        warn_unconverged(
            "OrdinalSVC", self.certificate_, [result.status], self.tol, rows.data.X, "gap",
            indefinite=self._indefinite or not self._kernel_.is_mercer_by_name,
        )  # fmt: skip
        return self

    # -- prediction ------------------------------------------------------------------------

    def utility(self, X: Any) -> FloatArray:
        """Return the utility of each sample, for ranking.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples, or their kernel values with the training samples if ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_samples,)
            Utilities, on the scale of `thresholds_`. Only differences are meaningful; after a fit
            with `qid`, only those between samples of the same query.
        """
        check_is_fitted(self)
        if self.kernel != "linear":
            return self._expansion_values(X, self.dual_coef_[0])
        X = check_X(self, X)
        return np.asarray(safe_sparse_dot(X, self.coef_), dtype=np.float64)

    def decision_function(self, X: Any) -> FloatArray:
        """Return the signed distance of each utility from the thresholds of each rank.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples to score.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Two ranks: utility minus threshold, positive for ``classes_[1]``. More: distance to the
            nearer threshold of each rank, negative outside its interval, so that the largest entry
            is the predicted rank. After a fit with `qid` and ``pooled_ranks=False``: the utility.
        """
        utility = self.utility(X)
        if not hasattr(self, "thresholds_"):
            return utility
        above = utility[:, None] - self.thresholds_
        if len(self.thresholds_) == 1:
            return np.asarray(above[:, 0])
        return rank_scores(above)

    def predict(self, X: Any) -> Any:
        """Predict the rank of each sample; a utility equal to a threshold gives the lower rank.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples to classify.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted ranks.
        """
        check_is_fitted(self)
        if not hasattr(self, "thresholds_"):
            raise ValueError(
                "this model was fitted with qid: it sorts the rows of a query, and its utilities "
                "mean nothing across queries, so that there are no thresholds to predict ranks "
                "by. Sort by utility(X), or fit with pooled_ranks=True if queries are alike"
            )
        return self.classes_[rank_of(self.utility(X), self.thresholds_)]

    def score(self, X: Any, y: Any, sample_weight: Any = None, qid: Any = None) -> float:
        """Return the accuracy or, after a fit with `qid`, the fraction of correctly ordered pairs.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            True ranks.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. None: all weights are 1.
        qid : array-like of shape (n_samples,), default=None
            Query identifier of each sample; required if and only if `fit` was called with `qid`.

        Returns
        -------
        float
            Accuracy, or one minus the scaled :func:`widemargin.metrics.preference_risk`.
        """
        check_is_fitted(self)
        if not self._by_query_:
            fix = "None: the model was fitted without it (use widemargin.metrics.preference_risk)"
            require(qid is None, "qid", qid, fix)
            return float(super().score(X, y, sample_weight))
        fix = "given: the model was fitted with qid, and compares rows of the same query only"
        require(qid is not None, "qid", qid, fix)
        ranks = comparable_numbers(y, self.classes, self.classes_)
        risk = preference_risk(
            ranks, self.utility(X), qid, scaled=True, sample_weight=sample_weight
        )
        return 1.0 - risk
