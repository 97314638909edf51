"""Maximum-margin hyperplanes in arbitrary l_p norms: MaxMarginClassifier."""

from __future__ import annotations

import numbers
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from widemargin._base.messages import warn
from widemargin._base.multiclass import check_classes, class_pairs, pair_rows
from widemargin._base.progress import Watch
from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin._base.validation import (
    TrainingSet,
    canonical,
    check_calibration,
    check_fit,
    check_scale,
    class_costs,
    require,
    require_budget,
    require_number,
    seed_of,
)
from widemargin.certificate import Certificate, warn_unconverged, worst
from widemargin.estimators._base.classification import (
    OneVsOneClassifier,
    ScoredClassifier,
    hyperplane_values,
    set_per_machine,
    shared_by_weight,
)
from widemargin.estimators._base.diagnostics import Diagnosed, Displayed
from widemargin.estimators._base.rollback import whole_fit
from widemargin.estimators.linear.memory import not_worse_than_constant
from widemargin.fitted.by_path import Machine, Training
from widemargin.fitted.plane import NormMachine, PlaneTraining
from widemargin.fitted.record import Record
from widemargin.kernels import Kernel
from widemargin.problems.norm_margin import NormMargin
from widemargin.solvers import norm_margin
from widemargin.solvers.base import Budget
from widemargin.solvers.norm_margin import MarginResult


class MaxMarginClassifier(
    OneVsOneClassifier, ScoredClassifier, Diagnosed, Displayed, BaseEstimator
):
    r"""Linear maximum-margin classifier for arbitrary l_p norms.

    Minimising the l_p norm of the weights maximises the distance to the hyperplane in the dual norm
    l_q, 1/p + 1/q = 1 (Smola et al. 2000, (1.15)-(1.22); Mangasarian 1997). The hard margin,
    ``C=np.inf``, minimises :math:`|w|_p` subject to :math:`y_i (w \cdot x_i + b) \ge 1`. The soft
    margin minimises :math:`|w|_p + C \sum_i \xi_i`, or for p = 2 as usual
    :math:`\frac12 |w|_2^2 + C \sum_i \xi_i` (1.25), subject to
    :math:`y_i (w \cdot x_i + b) \ge 1 - \xi_i`, :math:`\xi_i \ge 0`. With p = 1 the weights are
    sparse; with p = inf they tend to have equal size. Multiclass problems are one-vs-one.

    Parameters
    ----------
    norm : float, default=2
        Norm p of the weights: any number of at least 1, or np.inf.
    C : float, default=1.0
        Cost per unit of slack, positive. np.inf is the hard margin, which raises ValueError unless
        the classes are linearly separable.
    calibration : {"sigmoid", "isotonic"}, default="sigmoid"
        As for :class:`SVC`.
    tol : float, default=1e-6
        Largest relative duality gap of a converged fit. The solvers themselves continue to the
        limits of float64.
    class_weight : dict or "balanced", default=None
        Factor of C per class label; "balanced" uses inverse class frequencies. None: 1 for all. No
        effect on the hard margin.
    max_iter : int, default=-1
        Maximum number of solver steps per pair of classes; -1 is a default of the solver.
    time_limit : float, default=None
        Time limit in seconds; `fit` then stops and keeps the current model. None: no limit.
    random_state : int, RandomState or None, default=None
        Seed for the subsamples used for warm starts (norm=2) and for the folds of leave-one-out; it
        changes the model only within the tolerance. None is a fixed seed.
    verbose : int, default=0
        If positive, display a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    coef_ : ndarray of shape (n_pairs, n_features)
        Weights of the features; one row for two classes, otherwise one per pair of classes in the
        order of ``itertools.combinations``, positive for the first class of the pair. For norm=1
        and norm=np.inf the optimum need not be unique.
    intercept_ : ndarray of shape (n_pairs,)
        Intercepts, one per pair of classes; the midpoint if an interval is optimal for `coef_`.
    margin_ : float or ndarray of shape (n_pairs,)
        Hard margin: l_q distance from the hyperplane to the nearest training sample. Soft margin:
        :math:`1 / |w|_p`, the l_q distance from the hyperplane to the planes
        :math:`w \cdot x + b = \pm 1`; infinite if w = 0 is optimal.
    dual_ : ndarray of shape (n_samples,) or (n_pairs, n_samples)
        Dual variables of the certificate: between 0 and C, :math:`\sum_i y_i a_i = 0`, and zero for
        samples beyond the margin.
    certificate_ : Certificate
        The worst of `certificates_`: unconverged ones first, then the largest relative gap.
    certificates_ : list of Certificate
        Certificates of optimality, one per pair of classes. The primal objective of the hard margin
        is the reciprocal of the margin.
    n_iter_ : int
        Maximum number of solver steps over the pairs of classes.
    n_features_in_, feature_names_in_
        Number of features seen during `fit`, and their names if X has string column names.

    See Also
    --------
    SVC : Support vector classification with kernels.
    bounds.summary : Generalisation bounds based on margins.

    Notes
    -----
    norm=1 and norm=np.inf are linear programs, solved by HiGHS; norm=2 uses the solvers of
    :class:`LinearSVC` and :class:`ReducedHullSVC`; other norms are power-cone programs, solved by
    Clarabel. HiGHS and Clarabel cannot be interrupted except by `time_limit`.

    For leave-one-out and probabilities, the model is refitted without each sample that it depends
    on; norm=2 with a soft margin follows the solution path instead.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import MaxMarginClassifier
    >>> X, y = np.array([[0.0, 0.0], [2.0, 1.0]]), [0, 1]
    >>> for norm in (1, 2, np.inf):
    ...     model = MaxMarginClassifier(norm=norm, C=np.inf).fit(X, y)
    ...     print(norm, model.coef_[0].round(3), round(model.margin_, 3))
    1 [1. 0.] 1.0
    2 [0.8 0.4] 1.118
    inf [0.667 0.667] 1.5
    """

    def __init__(
        self,
        norm: float = 2,
        *,
        C: float = 1.0,
        calibration: str = "sigmoid",
        tol: float = 1e-6,
        class_weight: Any = None,
        max_iter: int = -1,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.norm = norm
        self.C = C
        self.calibration = calibration
        self.tol = tol
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        for name, value, least, fix in (
            ("norm", self.norm, 1.0, "a number from 1 on, or np.inf"),
            ("C", self.C, np.nextafter(0.0, 1.0), "a positive number, or np.inf (hard margin)"),
        ):
            real = isinstance(value, numbers.Real) and not isinstance(value, bool)
            require(real and float(value) >= least, name, value, fix)
        require_number("tol", self.tol, "a positive number")
        check_calibration(self.calibration)
        require_budget(self.max_iter, self.time_limit, default=True)
        if np.isinf(self.C) and self.class_weight is not None:
            warn(
                f"class_weight={self.class_weight!r} has no effect: the hard margin, C=inf, has no "
                "slack that could be weighted", UserWarning,
            )  # fmt: skip

    @whole_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MaxMarginClassifier:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Class labels; at least two classes must occur.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, not negative: weight 2 is equivalent to repeating the sample, weight 0
            to omitting it. None: all weights are 1.

        Returns
        -------
        self : MaxMarginClassifier
            The fitted model.
        """
        self._check_parameters()
        X, y, weight = check_fit(self, X, y, sample_weight, numeric=False)
        check_scale(X)
        data = canonical(X, y, weight)
        self.classes_, codes = check_classes(data.y)
        factors = class_costs(self.class_weight, self.classes_, codes, data.weight)
        costs = float(self.C) * data.weight * factors[codes]
        pairs = class_pairs(len(self.classes_))
        name = type(self).__name__
        with Watch(name, self.tol, self.verbose, self.time_limit, len(pairs)) as watch:
            blur = data.cost_error
            fits = [self._fit_pair(data.X, codes, costs, blur, pair, watch) for pair in pairs]
        machines = [machine for machine, _ in fits]
        self._keep_planes(data, machines, [certificate for _, certificate in fits])
        self._record_ = Record(self._training(data, pairs, machines))
        statuses: list[str] = [machine.result.status for machine in machines]
        warn_unconverged(name, self.certificate_, statuses, self.tol, data.X, "gap")
        return self

    def _fit_pair(
        self,
        X: Matrix,
        codes: IntArray,
        costs: FloatArray,
        blur: float,
        pair: tuple[int, int],
        watch: Watch,
    ) -> tuple[NormMachine, Certificate]:
        rows, label = pair_rows(codes, pair)
        if len(rows) < len(codes):
            X, costs = X[rows], costs[rows]
        problem = NormMargin(label, costs, float(self.norm))
        watch.next_part()
        steps, seed = int(self.max_iter), seed_of(self.random_state)
        with worker_threads():
            budget = Budget(steps, watch)
            result = norm_margin.solve(
                problem, X, tol=self.tol, budget=budget, seed=seed, deadline=watch.deadline
            )
            if not result.separable:
                raise ValueError(self._why_not(pair, result, problem))
            certify = partial(
                problem.certificate,
                X,
                a=result.alpha,
                tol=self.tol,
                n_iter=result.n_iter,
                blur=blur,
            )
            coef, intercept = result.coef, result.intercept
            if problem.hard:
                certificate = certify(coef, intercept)
            else:
                constant = 1.0 if float(label @ costs) > 0.0 else -1.0
                coef, intercept, certificate = not_worse_than_constant(
                    certify, coef, intercept, constant
                )
            if coef is not result.coef:
                result = replace(result, coef=coef, thresholds=np.array([intercept]), margin=np.inf)
        return NormMachine(rows, problem, result, self.tol, steps, seed), certificate

    def _why_not(self, pair: tuple[int, int], result: MarginResult, problem: NormMargin) -> str:
        """Return the error message for two classes that are not linearly separable."""
        first, second = (self.classes_.tolist()[k] for k in sorted(pair))
        most = 1.0 / result.dual if result.dual > 0 else np.inf
        return (
            f"C=inf asks for a hyperplane that separates the classes {first!r} and {second!r}, and "
            f"there is none: their convex hulls meet (any margin in l_{problem.dual_norm:g} is at "
            f"most {most:.1e}). Give a finite C, such as C=1.0, for the soft margin"
        )

    def _keep_planes(
        self, data: TrainingSet, machines: list[NormMachine], certificates: list[Certificate]
    ) -> None:
        """Store hyperplanes, margins, dual variables and certificates."""
        results = [machine.result for machine in machines]
        self.coef_ = np.array([result.coef for result in results])
        self.intercept_ = np.array([result.intercept for result in results])
        self.certificates_ = certificates
        self.certificate_ = worst(certificates)
        self.n_iter_ = max(c.n_iter for c in certificates)
        dual = np.zeros((len(machines), len(data.weight)))
        for k, machine in enumerate(machines):
            dual[k, machine.rows] = machine.result.alpha
        margins = np.array([result.margin for result in results])
        set_per_machine(self, margin_=margins, dual_=shared_by_weight(dual, data))

    def _training(
        self, data: TrainingSet, pairs: list[tuple[int, int]], machines: list[NormMachine]
    ) -> Training | PlaneTraining:
        """Return the model for leave-one-out: by solution path for (1.25), else by refits."""
        if not machines[0].problem.squared:
            return PlaneTraining(data, pairs, machines, seed_of(self.random_state))
        paths = [
            Machine(m.rows, m.problem.box, m.problem.y * m.result.alpha, m.result.intercept)
            for m in machines
        ]
        return Training(data, Kernel("linear"), None, pairs, paths, True)

    def _pair_values(self, X: Any) -> FloatArray:
        return hyperplane_values(self, X)
