"""Linear support vector classification, in memory or out of core: LinearSVC."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from widemargin._base.multiclass import check_classes, class_pairs, pair_rows
from widemargin._base.progress import Watch
from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin._base.validation import (
    canonical,
    check_calibration,
    check_fit,
    check_scale,
    class_costs,
    require,
    require_bool,
    require_budget,
    require_choice,
    require_number,
    seed_of,
)
from widemargin.certificate import Certificate, warn_unconverged, worst
from widemargin.estimators._base.classification import (
    OneVsOneClassifier,
    ScoredClassifier,
    hyperplane_values,
)
from widemargin.estimators._base.diagnostics import Diagnosed, Displayed
from widemargin.estimators._base.rollback import whole_fit
from widemargin.estimators.linear.parts import calibrations_of, check_labels, fit_pairs
from widemargin.fitted.by_path import Machine, Training
from widemargin.fitted.by_reading import ReadTraining
from widemargin.fitted.record import Record
from widemargin.kernels import Kernel
from widemargin.problems.linear_scan import LinearProblem, linear_certificate
from widemargin.problems.soft_margin import c_classification
from widemargin.solvers.base import Budget
from widemargin.solvers.linear import LinearResult, LinearRows, can_read, solve
from widemargin.sources import Dataset, as_dataset

METHODS = {"auto": "auto", "newton": "smoothed_newton", "sampling": "out_of_core"}


class LinearSVC(OneVsOneClassifier, ScoredClassifier, Diagnosed, Displayed, BaseEstimator):
    r"""Linear support vector classification for many samples or many features.

    Minimises :math:`\frac12 |w|^2 + C \sum_i s_i \ell(1 - y_i (w \cdot x_i + b))`, the problem of
    ``SVC(kernel="linear")``. In contrast to LIBLINEAR the intercept is not penalised, so that both
    estimators have the same optimum. Multiclass problems are one-vs-one. The time is proportional
    to the size of the data, which may exceed the memory: `fit` also accepts files, Dask collections
    and data sets of :mod:`widemargin.sources`.

    Parameters
    ----------
    C : float, default=1.0
        Cost per unit of slack, positive. The larger C, the weaker the regularisation.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss function: the hinge loss, linear in the slack, or its square.
    fit_intercept : bool, default=True
        Whether to fit an intercept b.
    solver : {"auto", "newton", "sampling"}, default="auto"
        "newton" is Newton's method on a smoothed hinge, whose smoothing width is decreased; it
        requires data in memory. "sampling" screens samples far from the margin by means of a
        subsample and solves for the others exactly, in about four passes over the data (hinge
        loss, dense samples); with the squared hinge, for data in parts only, each Newton step is
        one pass. "auto" is "sampling" for data in parts, and in memory for the hinge loss and at
        least 500,000 dense samples of at most 30 features; otherwise "newton".
    calibration : {"sigmoid", "isotonic"}, default="sigmoid"
        As for :class:`SVC`. Data in parts are calibrated on the decision values of a subsample.
    tol : float, default=1e-4
        Tolerance for stopping: largest relative duality gap.
    class_weight : dict or "balanced", default=None
        Factor of C per class label; "balanced" uses inverse class frequencies. None: 1 for all.
    max_iter : int, default=1000
        Maximum number of Newton steps (or rounds of "sampling") per pair of classes.
    time_limit : float, default=None
        Time limit in seconds; `fit` then stops and keeps the current model. None: no limit.
    random_state : int, RandomState or None, default=None
        Seed for the subsamples used for warm starts on large data; it changes the result only
        within the tolerance. None is a fixed seed.
    checkpoint : path, default=None
        For data in parts: file in which the state is saved after every round. An interrupted fit
        resumes from it and reaches the same model. The file is removed on convergence.
    verbose : int, default=0
        If positive, display a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    coef_ : ndarray of shape (n_pairs, n_features)
        Weights of the features; one row for two classes, otherwise one per pair of classes in the
        order of ``itertools.combinations``, positive for the first class of the pair.
    intercept_ : ndarray of shape (n_pairs,)
        Intercepts, one per pair of classes.
    certificate_ : Certificate
        The worst of `certificates_`: unconverged ones first, then the largest relative gap.
    certificates_ : list of Certificate
        Certificates of optimality, one per pair of classes. For data in parts, the objectives and
        the KKT violation are those of the last pass; with the squared hinge the violation is NaN.
    n_iter_ : int
        Maximum number of Newton steps (or rounds) over the pairs of classes.
    history_ : list of list of dict
        Rounds of "sampling" per pair of classes: passes, explicit samples, violators and bounds on
        the optimum.
    passes_ : float
        Number of passes of "sampling" over the data, summed over the pairs of classes. The initial
        pass that describes data in parts is not included.
    n_features_in_, feature_names_in_
        Number of features seen during `fit`, and their names if X has string column names.

    See Also
    --------
    SVC : Support vector classification with kernels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import LinearSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearSVC().fit(X, y)
    >>> model.predict(X[:3])
    array([0, 0, 0])
    >>> model.certificate_.relative_gap < 1e-4
    True
    """

    tunable = ("C",)  # hyperparameters that `tune` accepts

    def __init__(
        self,
        *,
        C: float = 1.0,
        loss: str = "hinge",
        fit_intercept: bool = True,
        solver: str = "auto",
        calibration: str = "sigmoid",
        tol: float = 1e-4,
        class_weight: Any = None,
        max_iter: int = 1000,
        time_limit: float | None = None,
        random_state: Any = None,
        checkpoint: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.calibration = calibration
        self.tol = tol
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.solver != "sampling"
        return tags

    def _check_parameters(self) -> None:
        require_number("C", self.C, "a positive number")
        require_number("tol", self.tol, "a positive number")
        require_bool("fit_intercept", self.fit_intercept)
        check_calibration(self.calibration)
        require_choice("loss", self.loss, ("hinge", "squared_hinge"))
        require_choice("solver", self.solver, ("auto", "newton", "sampling"))
        path = self.checkpoint is None or isinstance(self.checkpoint, str | os.PathLike)
        require(path, "checkpoint", self.checkpoint, "the path of a file, or None")
        require_budget(self.max_iter, self.time_limit)

    @whole_fit
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearSVC:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or data in parts
            Training samples. Data in parts are a :class:`~widemargin.sources.Dataset`, a Dask array
            or DataFrame, a large memory map, or the paths of files.
        y : array-like of shape (n_samples,), default=None
            Class labels; at least two classes must occur. Not needed for a Dataset, which contains
            them; for files, the name of the column of labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, not negative: weight 2 is equivalent to repeating the sample, weight 0
            to omitting it. None: all weights are 1.

        Returns
        -------
        self : LinearSVC
            The fitted model.
        """
        self._check_parameters()
        dataset = as_dataset(X, y, sample_weight)
        if dataset is not None:
            return self._fit_dataset(dataset)
        fix = "None for rows in memory: it is for data in parts (widemargin.sources)"
        require(self.checkpoint is None, "checkpoint", self.checkpoint, fix)
        X, y, weight = check_fit(self, X, y, sample_weight, numeric=False)
        check_scale(X)
        data = canonical(X, y, weight)
        self.classes_, codes = check_classes(data.y)
        factors = class_costs(self.class_weight, self.classes_, codes, data.weight)
        costs = self.C * data.weight * factors[codes]
        pairs = class_pairs(len(self.classes_))
        with (
            Watch("LinearSVC", self.tol, self.verbose, self.time_limit, len(pairs)) as watch,
            worker_threads() as threads,
        ):
            fits = [self._fit_pair(data.X, codes, costs, pair, watch, threads) for pair in pairs]
        results, certificates, machines = (list(column) for column in zip(*fits, strict=True))
        self._record_ = Record(
            Training(data, Kernel("linear"), None, pairs, machines, bool(self.fit_intercept))
        )
        self._keep(results, certificates, data.X)
        return self

    def _fit_pair(
        self,
        X: Matrix,
        codes: IntArray,
        costs: FloatArray,
        pair: tuple[int, int],
        watch: Watch,
        threads: int,
    ) -> tuple[LinearResult, Certificate, Machine]:
        """Fit and certify the hyperplane of one pair of classes, in memory."""
        rows, label = pair_rows(codes, pair)
        if len(rows) < len(codes):
            X, costs = X[rows], costs[rows]
        squared, intercept = self.loss == "squared_hinge", bool(self.fit_intercept)
        problem = c_classification(label, costs, squared=squared, intercept=intercept)
        require(
            self.solver != "sampling" or can_read(problem, X), "solver", self.solver,
            '"auto" or "newton" for the squared hinge and for sparse rows in memory',
        )  # fmt: skip
        watch.next_part()
        result = solve(
            problem, X, tol=self.tol, budget=Budget(int(self.max_iter), watch),
            method=METHODS[self.solver], seed=seed_of(self.random_state),
        )  # fmt: skip
        assert result.alpha is not None
        certificate = linear_certificate(
            problem, LinearRows(X, threads=threads), result.coef, result.intercept, result.alpha,
            tol=self.tol, n_iter=result.n_iter,
        )  # fmt: skip
        return result, certificate, Machine(rows, problem, result.alpha, result.intercept)

    def _fit_dataset(self, dataset: Dataset) -> LinearSVC:
        """Fit the model on data in parts."""
        require(
            self.solver != "newton", "solver", self.solver, '"auto" or "sampling" for data in parts'
        )
        found = dataset.describe()
        self.classes_ = check_labels(found)
        check_scale(np.hypot(found.mean, found.std))
        seed = seed_of(self.random_state)
        codes = np.arange(len(self.classes_))
        assert found.class_weights is not None
        factors = class_costs(self.class_weight, self.classes_, codes, found.class_weights)
        self.n_features_in_ = dataset.n_features
        if dataset.feature_names is not None:
            self.feature_names_in_ = np.asarray(dataset.feature_names, dtype=object)
        kind: Any = self.loss
        problem = LinearProblem(kind, float(self.C), bool(self.fit_intercept))
        pairs = class_pairs(len(self.classes_))
        with Watch("LinearSVC", self.tol, self.verbose, self.time_limit, len(pairs)) as watch:
            fits = fit_pairs(
                dataset,
                problem,
                pairs,
                found=found,
                class_weight=self.class_weight,
                factors=factors,
                tol=float(self.tol),
                max_iter=int(self.max_iter),
                seed=seed,
                checkpoint=self.checkpoint,
                watch=watch,
            )
        results, certificates, read = (list(column) for column in zip(*fits, strict=True))
        self._keep(results, certificates, found.scale[None, :])
        calibrate = partial(calibrations_of, read, self.coef_, self.intercept_)
        self._record_ = Record(ReadTraining(calibrate))
        return self

    def _keep(
        self, results: list[LinearResult], certificates: list[Certificate], X: Matrix
    ) -> None:
        """Store hyperplanes, history and certificates; warn if one has not converged."""
        self.coef_ = np.array([result.coef for result in results])
        self.history_ = [list(result.history) for result in results]
        self.passes_ = float(sum(result.passes for result in results))
        self.n_iter_ = max(c.n_iter for c in certificates)
        statuses = [result.status for result in results]
        self.intercept_ = np.array([result.intercept for result in results])
        self.certificates_ = certificates
        self.certificate_ = worst(certificates)
        warn_unconverged("LinearSVC", self.certificate_, statuses, self.tol, X, "gap")

    def _pair_values(self, X: Any) -> FloatArray:
        return hyperplane_values(self, X)
