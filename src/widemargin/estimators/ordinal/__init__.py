"""Ordinal regression and ranking with large margins: OrdinalSVC."""

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
    r"""Large-margin rank boundaries: ordinal regression, and ranking within queries.

    Learns a utility f that puts rows of higher rank above rows of lower rank by a margin of 1,

    .. math:: \min_f \; \tfrac12 \|f\|^2 + C \sum_{y_i > y_j} s_i s_j \,
              \ell\bigl(1 - (f(x_i) - f(x_j))\bigr), \qquad \ell(z) = z_+ \text{ or } z_+^2 ,

    over all pairs of rows of different rank, with weights s, and then thresholds on f that part
    the ranks: Herbrich et al. (2000), (2.19)-(2.25). The pairs are never formed: time and memory
    of the linear machine grow in proportion to the data, up to a logarithm. `certificate_` proves
    how close the model is to the optimum.

    With `qid`, pairs are those of the same query only, and what is learnt is how to sort the rows
    of a query. Ranks are not predicted then: a threshold on f means nothing across queries.

    Parameters
    ----------
    C : float, default=1.0
        Cost of the slack, see `C_scale`.
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable, default="rbf"
        See :class:`widemargin.kernels.Kernel`. "linear" works with the features themselves,
        dense or sparse, for many rows.
    degree : float, default=3
        Degree of the polynomial kernel.
    gamma : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
        Coefficient of rbf, poly and sigmoid, as for :class:`SVC`.
    coef0 : float, default=0.0
        Constant of poly and sigmoid.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Linear or squared slack of a pair.
    norm : {2, 1}, default=2
        1, with ``kernel="linear"`` and the hinge: :math:`\sum_k |w_k|` takes the place of
        :math:`\frac12 |w|^2`, so that many weights are exactly zero (section 2.4 there).
    thresholds : {"optimal", "margin"}, default="optimal"
        "optimal": the thresholds with the smallest sum of abs(predicted - true rank) over the
        training rows, ranks counted 1, 2, 3. "margin": midway between the rows of neighbouring
        ranks that are at the margin, (2.26)-(2.28) with a sign set right; where there are none,
        between the closest rows in the right order.
    classes : sequence of labels, default=None
        The ranks, lowest first; labels that do not occur are left out. None: the order of an
        ordered pandas Categorical or a polars Enum; else of numbers; else strings alphabetically,
        with a warning that shows the order.
    C_scale : {"pair", "total"}, default="pair"
        "pair": C is the cost of a unit of slack of one pair. The number of pairs grows with the
        square of the number of rows. "total": C is shared by all pairs, so that it is the cost of
        the mean slack, and means the same for any number of rows.
    pooled_ranks : bool, default=False
        Whether to predict ranks also after a fit with `qid`, by thresholds on the utilities of
        all queries together. Only sensible if utilities of different queries can be compared.
    tol : float, default=1e-4
        Largest relative duality gap.
    cache_size : float, default=500
        Megabytes for kernel values.
    max_iter : int, default=-1
        Largest number of Newton steps; -1 is a budget that is rarely needed.
    time_limit : float, default=None
        Seconds after which the fit stops with the model reached.
    random_state : int, RandomState or None, default=None
        Seed of the folds of :mod:`widemargin.loo` where there are many rows; the fit itself
        leaves nothing to chance. None is a fixed seed.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The ranks, lowest first.
    thresholds_ : ndarray of shape (n_classes - 1,)
        Thresholds on the utility, not decreasing. Absent after a fit with `qid` unless
        ``pooled_ranks=True``.
    coef_ : ndarray of shape (n_features,)
        ``kernel="linear"``: weights of the features.
    support_ : ndarray of shape (n_SV,)
        Other kernels: rows of the training data with a coefficient.
    support_vectors_ : ndarray or CSR of shape (n_SV, n_features)
        Other kernels: these rows.
    dual_coef_ : ndarray of shape (1, n_SV)
        Other kernels: their coefficients; those of each query add up to zero.
    n_support_ : ndarray of shape (n_classes,)
        Other kernels: number of them by rank.
    certificate_ : Certificate
        Bounds around the optimum of the problem.
    n_pairs_ : float
        Number of pairs compared, by weight.
    n_iter_ : int
        Newton steps.
    gamma_ : float or ndarray
        The gamma used.
    n_features_in_, feature_names_in_
        Number of the features, and their names where X has any.

    See Also
    --------
    CumulativeLinkClassifier : Probabilities of ranks by maximum likelihood.
    metrics.preference_risk : Share of pairs in the wrong order.

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
        # scikit-learn's data have classes without an order, which no linear utility can follow.
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
            Training rows, or the kernel matrix when ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Ranks, two or more. With `qid` any numbers, only their order counts.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 means the same as the row twice, 0 the same as its absence; a pair has the
            product of two weights.
        qid : array-like of shape (n_samples,), default=None
            Query (or user, or race) of each row; only rows of the same one are compared.

        Returns
        -------
        self : OrdinalSVC
            The fitted model.
        """
        self._check_parameters()
        seed = seed_of(self.random_state)
        rows = self._ranked_rows(X, y, sample_weight, qid)
        problem = self._problem(rows)
        result = self._result(problem, self._kernel_rows(rows.data))
        self._keep_model(rows, problem, result)
        self._keep_record(rows, problem, result, seed)
        warn_unconverged(
            "OrdinalSVC", self.certificate_, [result.status], self.tol, rows.data.X, "gap",
            indefinite=self._indefinite or not self._kernel_.is_mercer_by_name,
        )  # fmt: skip
        return self

    # -- prediction ------------------------------------------------------------------------

    def utility(self, X: Any) -> FloatArray:
        """Return the utility of each row, by which rows can be ranked.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows, or their kernel values with the training rows when ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_samples,)
            To be compared with `thresholds_`. Only differences count, after a fit with `qid` those
            between rows of a query.
        """
        check_is_fitted(self)
        if self.kernel != "linear":
            return self._expansion_values(X, self.dual_coef_[0])
        X = check_X(self, X)
        return np.asarray(safe_sparse_dot(X, self.coef_), dtype=np.float64)

    def decision_function(self, X: Any) -> FloatArray:
        """Return how far within the bounds of each rank the utility of a row is.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to score.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Two ranks: utility less the threshold, positive for ``classes_[1]``. More: the distance
            to the nearer bound of each rank, negative outside, so that the largest is the predicted
            rank. After a fit with `qid` without ``pooled_ranks=True``: the utility.
        """
        utility = self.utility(X)
        if not hasattr(self, "thresholds_"):
            return utility
        above = utility[:, None] - self.thresholds_
        if len(self.thresholds_) == 1:
            return np.asarray(above[:, 0])
        return rank_scores(above)

    def predict(self, X: Any) -> Any:
        """Return the rank of each row; a utility on a threshold goes to the lower rank.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
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
        """Return the accuracy; after a fit with `qid`, the share of pairs in the right order.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their true ranks.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        qid : array-like of shape (n_samples,), default=None
            Query of each row; needed if, and only if, the model was fitted with `qid`.

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
