"""Ordinal regression and ranking by large-margin rank boundaries: OrdinalSVC."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from widemargin._progress import Watch
from widemargin._threads import worker_threads
from widemargin._typing import FloatArray
from widemargin._validation import (
    canonical,
    check_fit,
    check_X,
    require,
    require_bool,
    require_number,
    seed_of,
)
from widemargin.assess.metrics import preference_risk
from widemargin.assess.ordinal_machine import OrdinalMachine, rank_thresholds
from widemargin.assess.record import Record, RefitMachine, RefitTraining
from widemargin.certificate import Certificate, warn_unconverged
from widemargin.estimators._kernel_machine import KernelMachine, _check_square
from widemargin.estimators._ordinal_data import (
    RankedRows,
    check_queries,
    check_ranks,
    comparable_numbers,
    query_codes,
)
from widemargin.problems.preference import PreferenceProblem, preference_problem
from widemargin.problems.rank_scores import rank_scores
from widemargin.problems.ranks import ordered_classes, used_ranks
from widemargin.problems.thresholds import rank_of
from widemargin.solvers.preference import PreferenceResult, solve_preference

DEFAULT_STEPS = 1000  # Newton steps; tens are the rule
NOT_ALWAYS = ("thresholds_", "coef_", "support_", "support_vectors_", "dual_coef_", "n_support_")
OF_QUERIES = (
    "the model was fitted with qid, and what it would say of a row says nothing without the rest "
    "of its query. Leave out whole queries (GroupKFold with groups=qid)"
)


class OrdinalSVC(ClassifierMixin, KernelMachine):
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
        Relative duality gap at which the fit ends.
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
    support_vectors_ : ndarray or sparse matrix of shape (n_SV, n_features)
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
        The coefficient that `gamma` came to.

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
            kernel=kernel,
            degree=degree,
            gamma=gamma,
            coef0=coef0,
            tol=tol,
            cache_size=cache_size,
            max_iter=max_iter,
            time_limit=time_limit,
            random_state=random_state,
            verbose=verbose,
        )
        self.C = C
        self.loss = loss
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
        for name, first, second in (
            ("loss", "hinge", "squared_hinge"),
            ("thresholds", "optimal", "margin"),
            ("C_scale", "pair", "total"),
        ):
            value = getattr(self, name)
            good = isinstance(value, str) and value in (first, second)
            require(good, name, value, f'"{first}" or "{second}"')

    # -- fitting ---------------------------------------------------------------------------

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
        X, labels, weight = self._checked(X, y, sample_weight, ranked=qid is not None)
        classes, codes = ordered_classes(y, self.classes)
        group = query_codes(qid, len(labels))
        precomputed = self.kernel == "precomputed"
        data = canonical(X, codes, weight, group=group, precomputed=precomputed)
        self.classes_, codes = used_ranks(classes, data.y)
        data = replace(data, y=labels[data.index], given_y=labels)
        rows = RankedRows(data, codes, group[data.index], qid is not None)
        if rows.by_query:
            check_queries(rows, qid)
        self._fit_rows(rows)
        return self

    def _checked(self, X: Any, y: Any, sample_weight: Any, *, ranked: bool) -> tuple[Any, ...]:
        precomputed = self.kernel == "precomputed"
        X, labels, weight = check_fit(
            self, X, y, sample_weight, numeric=False, accept_sparse=not precomputed, any_labels=True
        )
        _check_square(X, precomputed)
        if not ranked:
            check_ranks(labels)
        return X, labels, weight

    def _problem(self, rows: RankedRows) -> PreferenceProblem:
        problem = preference_problem(
            rows.codes, C=self.C, loss=self.loss, group=rows.group, weight=rows.data.weight
        )
        if self.C_scale == "total":
            return replace(problem, C=problem.C / problem.n_pairs)
        return problem

    def _budget(self) -> dict[str, Any]:
        """Return what a fit may take."""
        steps = int(self.max_iter) if self.max_iter > 0 else DEFAULT_STEPS
        return {"tol": self.tol, "max_iter": steps, "cache_bytes": self.cache_size * 1e6}

    def _fit_rows(self, rows: RankedRows) -> None:
        """Solve the problem; keep the model, what proves it and what diagnostics need."""
        problem = self._problem(rows)
        seed = seed_of(self.random_state)
        seen = self._begin(rows.data)
        linear = self.kernel == "linear"
        with (
            Watch("OrdinalSVC", self.tol, self.verbose, self.time_limit) as watch,
            worker_threads() as seen.threads,
        ):
            operand = rows.data.X if linear else seen
            result = solve_preference(problem, operand, monitor=watch, **self._budget())
        certificate = result.certificate(problem, self.tol)
        if self._indefinite:
            certificate = replace(certificate, converged=False)
        self._keep_model(rows, problem, result, certificate)
        self._keep_record(rows, problem, result, seed)
        name, statuses = "OrdinalSVC", [str(result.status)]
        warn_unconverged(name, certificate, statuses, self.tol, rows.data.X, "gap")

    def _keep_model(
        self,
        rows: RankedRows,
        problem: PreferenceProblem,
        result: PreferenceResult,
        certificate: Certificate,
    ) -> None:
        """Store the utility, the thresholds and what proves them."""
        for name in NOT_ALWAYS:  # of an earlier fit
            self.__dict__.pop(name, None)
        self.certificate_ = certificate
        self.n_pairs_ = problem.n_pairs
        self.n_iter_ = certificate.n_iter
        if self.kernel == "linear":
            self.coef_ = result.coef
        else:
            support = np.flatnonzero(result.coef)
            self._keep_support(rows.data, support)
            self.dual_coef_ = result.coef[support][None, :]
            counts = np.bincount(rows.codes[support], minlength=len(self.classes_))
            self.n_support_ = counts.astype(np.int32)
        self._by_query_ = rows.by_query
        if self.pooled_ranks or not rows.by_query:
            n_ranks = len(self.classes_)
            self.thresholds_ = rank_thresholds(self.thresholds, problem, result.f, n_ranks)

    def _keep_record(
        self, rows: RankedRows, problem: PreferenceProblem, result: PreferenceResult, seed: int
    ) -> None:
        """Keep what leave-one-out and everything that rests on it need."""
        machines: list[RefitMachine] = []
        if rows.by_query:
            refusal = OF_QUERIES
        elif self._indefinite:
            refusal = "the kernel matrix is not positive semi-definite, so that optima are not sure"
        else:
            refusal = ""
            linear, proved = self.kernel == "linear", self.certificate_.converged
            machines = [
                OrdinalMachine(problem, result, linear, proved, self.thresholds, **self._budget())
            ]
        kernel, centre = self._kernel_, self._centre_
        self._record_ = Record(
            RefitTraining(rows.data, kernel, centre, machines, seed, self.classes_, refusal)
        )

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
        X = check_X(self, X, reset=False)
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
