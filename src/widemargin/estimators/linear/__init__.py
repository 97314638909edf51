"""Linear support vector classification, in memory or out of core: LinearSVC."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from widemargin._base.multiclass import Sides, check_classes, class_pairs, rest_sides
from widemargin._base.progress import Watch
from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, Matrix
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
from widemargin.certificate import warn_unconverged
from widemargin.estimators._base.classification import (
    RestOrPairsClassifier,
    ScoredClassifier,
    hyperplane_values,
)
from widemargin.estimators._base.diagnostics import Diagnosed, Displayed
from widemargin.estimators._base.proof import Certified, Proof
from widemargin.estimators._base.rollback import whole_fit
from widemargin.estimators.linear.memory import Plan, fit_in_memory, linear_kernel
from widemargin.estimators.linear.parts import calibrations_of, check_labels, fit_in_parts
from widemargin.fitted.by_reading import ReadTraining
from widemargin.fitted.record import Record
from widemargin.kernels import Kernel
from widemargin.solvers.linear import LinearResult
from widemargin.sources import Dataset, as_dataset

MULTI_CLASS = ("ovr", "ovo", "crammer_singer")
BEFORE = {"penalty": "l2", "dual": "auto", "multi_class": "ovo", "intercept_scaling": None}


class LinearSVC(
    RestOrPairsClassifier, ScoredClassifier, Certified, Diagnosed, Displayed, BaseEstimator
):
    r"""Linear support vector classification for many samples or many features.

    Minimises :math:`\frac12 |w|^2 + C \sum_i s_i \ell(1 - y_i (w \cdot x_i + b))` with the squared
    hinge :math:`\ell(t) = \max(0, t)^2` or the hinge :math:`\ell(t) = \max(0, t)`. Parameters and
    defaults are those of scikit-learn's LinearSVC, with one difference: unless `intercept_scaling`
    is a number, the intercept b is not penalised. Then ``LinearSVC(loss="hinge",
    multi_class="ovo")`` has the optimum of ``SVC(kernel="linear")``. The time is proportional to
    the size of the data, which may exceed the memory: `fit` also accepts files, Dask collections
    and data sets of :mod:`widemargin.sources`.

    Parameters
    ----------
    penalty : {"l2", "l1"}, default="l2"
        Norm of w in the objective: 1/2 the square of the l2 norm, or the l1 norm, which makes many
        weights zero (squared hinge and data in memory only; see :func:`l1_min_c`).
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss function: the hinge loss, linear in the slack, or its square.
    dual : bool or "auto", default="auto"
        Without effect: the solver works on both problems. For compatibility with scikit-learn.
    tol : float, default=1e-4
        Tolerance for stopping: largest relative duality gap.
    C : float, default=1.0
        Cost per unit of slack, positive. The larger C, the weaker the regularisation.
    multi_class : {"ovr", "ovo", "crammer_singer"}, default="ovr"
        Decomposition of problems with more than two classes: one hyperplane per class against all
        others ("ovr"), or per pair of classes ("ovo"). "crammer_singer" minimises a joint loss, the
        largest violation of a sample over all other classes; as in scikit-learn it ignores
        `penalty` and `loss`. Data in memory only.
    fit_intercept : bool, default=True
        Whether to fit an intercept b.
    intercept_scaling : float, default=None
        None: the intercept is not penalised. A positive number s: it is penalised as in LIBLINEAR,
        whose value is 1. A feature of the constant value s is appended to the samples; its weight v
        is penalised like the others, and b = s v. The larger s, the weaker the penalty.
    class_weight : dict or "balanced", default=None
        Factor of C per class label; "balanced" uses inverse class frequencies. With several
        classes and "ovr" the factor is that of the class against the others, which have factor 1,
        as in LIBLINEAR. None: 1 for all.
    verbose : int, default=0
        If positive, display a progress bar.
    random_state : int, RandomState or None, default=None
        Seed for the subsamples used for warm starts on large data; it changes the result only
        within the tolerance. None is a fixed seed.
    max_iter : int, default=1000
        Maximum number of steps per hyperplane: sweeps of coordinate descent and Newton steps
        together, or rounds of "sampling".
    solver : {"auto", "newton", "sampling"}, default="auto"
        "newton" is Newton's method on a smoothed hinge, whose smoothing width is decreased; it
        requires data in memory. "sampling" screens samples far from the margin by means of a
        subsample and solves for the others exactly, in about four passes over the data (hinge
        loss, dense samples); with the squared hinge, for data in parts only, each Newton step is
        one pass. "auto" is "sampling" for data in parts, and in memory for the hinge loss and at
        least 500,000 dense samples of at most 30 features; otherwise "newton". For sparse or very
        few samples it first tries some sweeps of dual coordinate descent.
    calibration : {"sigmoid", "isotonic"}, default="sigmoid"
        As for :class:`SVC`. Data in parts are calibrated on the decision values of a subsample.
    time_limit : float, default=None
        Time limit in seconds; `fit` then stops and keeps the current model. None: no limit.
    checkpoint : path, default=None
        For data in parts: file in which the state is saved after every round. An interrupted fit
        resumes from it and reaches the same model. The file is removed on convergence.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    coef_ : ndarray of shape (n_hyperplanes, n_features)
        Weights of the features; one row for two classes, positive for the second. Otherwise one
        row per class; with "ovo" one per pair of classes in the order of
        ``itertools.combinations``, positive for the first class of the pair.
    intercept_ : ndarray of shape (n_hyperplanes,)
        Intercepts.
    certificate_ : Certificate
        The worst of `certificates_`: unconverged ones first, then the largest relative gap.
    certificates_ : list of Certificate
        Certificates of optimality, one per hyperplane. For data in parts, the objectives and the
        KKT violation are those of the last pass; with the squared hinge the violation is NaN.
    n_iter_ : int
        Maximum number of steps over the hyperplanes.
    history_ : list of list of dict
        Rounds of "sampling" per hyperplane: passes, explicit samples, violators and bounds on the
        optimum.
    passes_ : float
        Number of passes of "sampling" over the data, summed over the hyperplanes. The initial pass
        that describes data in parts is not included.
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
    >>> model.coef_.shape, model.certificate_.relative_gap < 1e-4
    ((3, 4), True)
    """

    tunable = ("C",)  # hyperparameters that `tune` accepts

    def __init__(
        self,
        penalty: str = "l2",
        loss: str = "squared_hinge",
        *,
        dual: bool | str = "auto",
        tol: float = 1e-4,
        C: float = 1.0,
        multi_class: str = "ovr",
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
        class_weight: Any = None,
        verbose: int = 0,
        random_state: Any = None,
        max_iter: int = 1000,
        solver: str = "auto",
        calibration: str = "sigmoid",
        time_limit: float | None = None,
        checkpoint: Any = None,
    ) -> None:
        self.penalty = penalty
        self.loss = loss
        self.dual = dual
        self.tol = tol
        self.C = C
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.solver = solver
        self.calibration = calibration
        self.time_limit = time_limit
        self.checkpoint = checkpoint

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a model; one saved before these parameters existed gets their former values."""
        if "multi_class" not in state:
            state = {**BEFORE, "_one_vs_one_": True, **state}
        super().__setstate__(state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.solver != "sampling"
        return tags

    def _check_parameters(self) -> None:
        require_choice("penalty", self.penalty, ("l1", "l2"))
        require_choice("loss", self.loss, ("hinge", "squared_hinge"))
        require_choice("multi_class", self.multi_class, MULTI_CLASS)
        # scikit-learn ignores penalty and loss for "crammer_singer".
        possible = self.penalty == "l2" or self.loss != "hinge"
        if not possible and self.multi_class != "crammer_singer":
            raise ValueError(
                f"Unsupported set of arguments: penalty={self.penalty!r}, loss={self.loss!r}, "
                f'dual={self.dual!r}; with loss="hinge" penalty must be "l2"'
            )
        is_bool = isinstance(self.dual, bool | np.bool_)
        require(is_bool or self.dual == "auto", "dual", self.dual, 'True, False or "auto"')
        require_number("C", self.C, "a positive number")
        require_number("tol", self.tol, "a positive number")
        require_bool("fit_intercept", self.fit_intercept)
        if self.intercept_scaling is not None:
            require_number("intercept_scaling", self.intercept_scaling, "a positive number or None")
        check_calibration(self.calibration)
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
        plan = self._plan(factors, seed_of(self.random_state), data.X.dtype)
        with (
            Watch("LinearSVC", self.tol, self.verbose, self.time_limit, len(plan.sides)) as watch,
            worker_threads() as threads,
        ):
            results, proofs, model = fit_in_memory(plan, data, codes, watch, threads)
        self._record_ = Record(model)
        self._keep(results, proofs, data.X)
        return self

    def _fit_dataset(self, dataset: Dataset) -> LinearSVC:
        """Fit the model on data in parts."""
        require(
            self.solver != "newton", "solver", self.solver, '"auto" or "sampling" for data in parts'
        )
        require(self.penalty == "l2", "penalty", self.penalty, '"l2" for data in parts')
        fix = '"ovr" or "ovo" for data in parts'
        require(self.multi_class != "crammer_singer", "multi_class", self.multi_class, fix)
        found = dataset.describe()
        self.classes_ = check_labels(found)
        check_scale(np.hypot(found.mean, found.std))
        codes = np.arange(len(self.classes_))
        assert found.class_weights is not None
        factors = class_costs(self.class_weight, self.classes_, codes, found.class_weights)
        seed = seed_of(self.random_state)
        self.n_features_in_ = dataset.n_features
        if dataset.feature_names is not None:
            self.feature_names_in_ = np.asarray(dataset.feature_names, dtype=object)
        plan = self._plan(factors, seed, dataset.dtype)
        tolerances = plan.tolerances(found.class_weights)
        with Watch("LinearSVC", self.tol, self.verbose, self.time_limit, len(plan.sides)) as watch:
            results, certificates, read = fit_in_parts(
                plan, tolerances, dataset, found, self.class_weight, self.checkpoint, watch
            )
        self._keep(results, [*map(Proof.of, certificates)], found.scale[None, :])
        calibrate = partial(calibrations_of, read, self.coef_, self.intercept_)
        self._record_ = Record(ReadTraining(calibrate))
        return self

    def _sides(self, n_classes: int) -> list[Sides]:
        """Return the positive and negative class of each hyperplane."""
        return [*class_pairs(n_classes)] if self.multi_class == "ovo" else rest_sides(n_classes)

    def _resolved_kernel(self, X: Matrix, weight: FloatArray) -> Kernel:
        """Return the kernel of which the model is the linear machine, for `tune`."""
        return linear_kernel(self._constant(X.dtype))

    def _constant(self, dtype: Any) -> float | None:
        """Return the value of the constant feature, as rounded in the data; None without one."""
        if not self.fit_intercept or self.intercept_scaling is None:
            return None
        return float(np.dtype(dtype).type(self.intercept_scaling))

    def _plan(self, factors: FloatArray, seed: int, dtype: Any) -> Plan:
        """Return the parameters of the fit, with the cost factor of each class."""
        constant = self._constant(dtype)
        return Plan(
            penalty=self.penalty,
            loss=self.loss,
            multi_class=self.multi_class,
            sides=self._sides(len(factors)),
            C=float(self.C),
            factors=factors,
            intercept=bool(self.fit_intercept) and self.intercept_scaling is None,
            constant=constant,
            tol=float(self.tol),
            max_iter=int(self.max_iter),
            solver=self.solver,
            seed=seed,
        )

    def _keep(self, results: list[LinearResult], proofs: list[Proof], X: Matrix) -> None:
        """Store hyperplanes, history and proofs; warn if one has not converged."""
        self._one_vs_one_ = self.multi_class == "ovo"
        self.coef_: Any = np.array([result.coef for result in results])
        self.history_ = [list(result.history) for result in results]
        self.passes_ = float(sum(result.passes for result in results))
        self.n_iter_ = max(proof.n_iter for proof in proofs)
        self.intercept_ = np.array([result.intercept for result in results])
        self._keep_proofs(proofs)
        if not all(proof.converged for proof in proofs):
            statuses = [result.status for result in results]
            warn_unconverged("LinearSVC", self.certificate_, statuses, self.tol, X, "gap")

    def _machine_values(self, X: Any) -> FloatArray:
        return hyperplane_values(self, X)

    def sparsify(self) -> LinearSVC:
        """Convert `coef_` to a sparse matrix, which saves memory if most weights are zero.

        Returns
        -------
        self : LinearSVC
            The model; predictions are the same.
        """
        check_is_fitted(self)
        self.coef_ = sp.csr_matrix(self.coef_)
        return self

    def densify(self) -> LinearSVC:
        """Convert `coef_` back to an array.

        Returns
        -------
        self : LinearSVC
            The model.
        """
        check_is_fitted(self)
        if sp.issparse(self.coef_):
            self.coef_ = self.coef_.toarray()
        return self
