"""Support vector classification: SVC, NuSVC."""

from __future__ import annotations

from typing import Any

import numpy as np

from widemargin._base.messages import warn
from widemargin._base.progress import Watch
from widemargin._base.typing import FloatArray, IntArray
from widemargin._base.validation import (
    TrainingSet,
    check_calibration,
    class_costs,
    require,
    require_bool,
    require_choice,
    require_cost,
    seed_of,
)
from widemargin.estimators.svm import nu as by_nu
from widemargin.estimators.svm.certified import CertifiedModel
from widemargin.estimators.svm.expansion import Expansion
from widemargin.estimators.svm.support import LinearCoefficients, SupportClassifier
from widemargin.kernels import Rows
from widemargin.problems import soft_margin as problems
from widemargin.solvers.base import DualResult


class SVC(LinearCoefficients, SupportClassifier):
    r"""C-support vector classification with hinge or squared hinge loss.

    Minimises :math:`\frac12 |w|^2 + C \sum_i s_i \xi_i` (or :math:`\xi_i^2`) subject to
    :math:`y_i (\langle w, \phi(x_i) \rangle + b) \ge 1 - \xi_i, \; \xi_i \ge 0`, where
    :math:`s_i` is the weight of sample i (Smola et al. 2000, (1.25)). The hinge loss gives the
    problem of LIBSVM. Multiclass is one-vs-one. `certificate_` bounds the distance to the optimum.

    Parameters
    ----------
    C : float, default=1.0
        Cost per unit of slack, positive. The larger C, the weaker the regularisation. np.inf is the
        hard margin, for either loss: no slack is allowed, and ValueError is raised if the kernel
        does not separate the classes. Sample weights then matter only if they are zero.
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable, default="rbf"
        Kernel function, see :class:`widemargin.kernels.Kernel`, or a kernel object such as
        :class:`widemargin.kernels.Matern`. A callable takes two arrays of
        samples and returns the matrix of kernel values between them.
    degree : float, default=3
        Degree of the "poly" kernel, positive. Other kernels ignore it.
    gamma : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
        Coefficient of "rbf", "poly" and "sigmoid". "scale" is 1 / (n_features * X.var()), with X
        weighted by sample; "auto" is 1 / n_features; an array ("rbf" only) has one per feature.
    coef0 : float, default=0.0
        Constant term of "poly" and "sigmoid". Other kernels ignore it.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss function: the hinge loss, linear in the slack, or its square.
    fit_intercept : bool, default=True
        Whether to fit an intercept b. Without it and with C = 1 / (2 lam), the model is the
        quadratic counterpart of :class:`LPSVC`, Smola et al. (2000), (2.15).
    solver : {"auto", "smo", "sampling", "adatron"}, default="auto"
        Algorithm; all reach the same optimum. Above 5,000 samples, "auto" warm-starts from
        subsamples of doubling size, "sampling" from a subsample extended by its violators (for few
        support vectors), "smo" from zero. For the linear kernel and many dense samples, "auto" and
        "sampling" use a linear solver. "adatron" is the Kernel Adatron of Opper and Winther (2000),
        a historical baseline, slow for large C.
    calibration : {"sigmoid", "isotonic"}, default="sigmoid"
        Map from decision values to probabilities in `predict_proba`: a sigmoid with one slope on
        each side of the decision boundary, or isotonic regression.
    tol : float, default=1e-3
        Tolerance for stopping: largest violation of the KKT conditions, defined as in LIBSVM.
    class_weight : dict or "balanced", default=None
        Factor of C per class label; "balanced" uses inverse class frequencies. None: 1 for all.
    cache_size : float, default=500
        Memory for kernel values, in megabytes.
    max_iter : int, default=-1
        Maximum number of solver steps per pair of classes; -1 is max(500,000, 100 n_samples).
    time_limit : float, default=None
        Time limit in seconds; `fit` then stops and keeps the current model. None: no limit.
    random_state : int, RandomState or None, default=None
        Seed for subsamples and for the order of updates of "adatron"; it changes the result only
        within the tolerance. None is a fixed seed, so that fits are reproducible.
    verbose : int, default=0
        If positive, display a progress bar.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Shape of `decision_function` with more than two classes: one score per class, or the
        decision values of the pairs of classes. `predict` does not depend on it.
    break_ties : bool, default=False
        For compatibility with scikit-learn: ties of votes are always broken by the decision
        values, as there with True. True with ``decision_function_shape="ovo"`` is an error.
    probability : bool, default=False
        For compatibility with scikit-learn, no effect: `predict_proba` is always available.
    shrinking : bool, default=True
        For compatibility with scikit-learn, no effect: the solver chooses its active set itself.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors, grouped by class. Up to 5,000 samples, equal samples are
        represented by the first one, and the order within a class does not depend on that of X.
    support_vectors_ : ndarray or CSR of shape (n_SV, n_features)
        Support vectors.
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors per class.
    dual_coef_ : ndarray or CSR of shape (n_classes - 1, n_SV)
        Coefficients of the support vectors in the decision function, in LIBSVM's layout; sparse if
        X is.
    coef_ : ndarray or CSR of shape (n_pairs, n_features)
        Weights of the features, for the linear kernel only; read-only, sparse if X is.
    intercept_ : ndarray of shape (n_pairs,)
        Intercepts, one per pair of classes.
    margin_ : float or ndarray of shape (n_pairs,)
        :math:`1 / |w|`, the distance in feature space from the decision boundary to where the
        decision value is 1 or -1; one per pair for more than two classes. For the hard margin it is
        the distance to the nearest sample. Infinite if w = 0.
    certificate_ : Certificate
        The worst of `certificates_`: unconverged ones first, then the largest relative gap.
    certificates_ : list of Certificate
        Certificates of optimality, one per pair of classes.
    gamma_ : float or ndarray
        Value of gamma used in the fit.
    n_iter_ : ndarray of shape (n_pairs,)
        Number of solver steps per pair of classes.
    class_weight_ : ndarray of shape (n_classes,)
        Factor of C per class.
    fit_status_ : int
        0 if the fit has converged, else 1.
    shape_fit_ : tuple of int
        Shape of X in `fit`.
    n_features_in_, feature_names_in_
        Number of features seen during `fit`, and their names if X has string column names.

    See Also
    --------
    NuSVC : Soft margin controlled by the fraction of margin errors.
    LinearSVC : Linear kernel only, same optimum; scales to data larger than memory.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVC(C=10).fit(X, y)
    >>> model.predict(X[:3])
    array([0, 0, 0])
    >>> model.certificate_.converged
    True
    """

    tunable = ("C", "gamma", "ard")  # hyperparameters that `tune` accepts

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        loss: str = "hinge",
        fit_intercept: bool = True,
        solver: str = "auto",
        calibration: str = "sigmoid",
        tol: float = 1e-3,
        class_weight: Any = None,
        cache_size: float = 500,
        max_iter: int = -1,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        probability: Any = False,
        shrinking: bool = True,
    ) -> None:
        super().__init__(
            kernel=kernel, degree=degree, gamma=gamma, coef0=coef0, tol=tol, cache_size=cache_size,
            max_iter=max_iter, time_limit=time_limit, random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.probability = probability
        self.shrinking = shrinking
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.calibration = calibration
        self.class_weight = class_weight

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_cost(self.C)
        require_choice("loss", self.loss, ("hinge", "squared_hinge"))
        require_bool("fit_intercept", self.fit_intercept)
        check_calibration(self.calibration)
        require_choice("solver", self.solver, ("auto", "smo", "sampling", "adatron"))
        require_choice("decision_function_shape", self.decision_function_shape, ("ovr", "ovo"))
        require_bool("break_ties", self.break_ties)
        require_bool("shrinking", self.shrinking)
        require(self.probability in (True, False, "deprecated"), "probability", self.probability,
                "True or False")  # fmt: skip

    def _costs(self, codes: IntArray, weight: FloatArray) -> FloatArray:
        self.class_weight_ = class_costs(self.class_weight, self.classes_, codes, weight)
        return self.C * weight * self.class_weight_[codes]

    def _problem(self, y: FloatArray, cost: FloatArray) -> problems.SoftMargin:
        squared = self.loss == "squared_hinge"
        return problems.c_classification(y, cost, squared=squared, intercept=self.fit_intercept)


class NuSVC(LinearCoefficients, SupportClassifier):
    r"""Nu-support vector classification.

    Minimises :math:`\frac12 |w|^2 - \nu \rho \sum_i s_i + \sum_i s_i \xi_i` subject to
    :math:`y_i (\langle w, \phi(x_i) \rangle + b) \ge \rho - \xi_i, \; \xi_i \ge 0` (Schölkopf et
    al. 2000): nu bounds the fraction of margin errors from above and that of support vectors from
    below. The fitted model is divided by rho, so that its margin is 1 as for :class:`SVC`.

    Parameters
    ----------
    nu : float, default=0.5
        Upper bound on the fraction of margin errors, in (0, 1]. For each pair of classes it must
        not exceed twice the share of the smaller class.
    kernel, degree, gamma, coef0, calibration, tol
        As for :class:`SVC`.
    class_weight : dict or "balanced", default=None
        Factor of the sample weights per class label; "balanced" uses inverse class frequencies. If
        nu is infeasible only because of these factors, it is lowered to the largest feasible value
        with a warning.
    cache_size, max_iter, time_limit
        As for :class:`SVC`.
    random_state, verbose, decision_function_shape, break_ties, probability, shrinking
        As for :class:`SVC`.

    Attributes
    ----------
    margin_ : float or ndarray of shape (n_pairs,)
        As for :class:`SVC`; zero if `rho_` is.
    rho_ : ndarray of shape (n_pairs,)
        Margins in the scale of the problem, which ``dual_coef_ * rho_`` solves. Zero if nu is too
        small for overlapping classes: the optimum is then w = 0, a warning names the smallest nu
        that leaves a margin (up to 500 samples per pair), leave-one-out is not available, and
        probabilities are 1/2 but for ties.
    classes_, support_, support_vectors_, n_support_, dual_coef_, coef_, intercept_
        As for :class:`SVC`.
    certificate_, certificates_, gamma_, n_iter_, class_weight_, fit_status_, shape_fit_
        As for :class:`SVC`.
    n_features_in_, feature_names_in_
        As for :class:`SVC`.

    See Also
    --------
    SVC : Soft margin controlled by the cost C.
    ReducedHullSVC : Same boundary, controlled by a number of samples per class.

    Notes
    -----
    Leave-one-out is that of the equivalent :class:`SVC`, with ``C = 1 / rho_`` held at its value
    on all samples, "exact at fixed C": refits with nu would change it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import NuSVC
    >>> NuSVC(nu=0.1).fit(*load_iris(return_X_y=True)).rho_.round(2)
    array([1.18, 2.67, 0.01])
    """

    def __init__(
        self,
        *,
        nu: float = 0.5,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        calibration: str = "sigmoid",
        tol: float = 1e-3,
        class_weight: Any = None,
        cache_size: float = 500,
        max_iter: int = -1,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        probability: Any = False,
        shrinking: bool = True,
    ) -> None:
        super().__init__(
            kernel=kernel, degree=degree, gamma=gamma, coef0=coef0, tol=tol, cache_size=cache_size,
            max_iter=max_iter, time_limit=time_limit, random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.probability = probability
        self.shrinking = shrinking
        self.nu = nu
        self.calibration = calibration
        self.class_weight = class_weight

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_calibration(self.calibration)
        by_nu.check_nu(self.nu)
        require_choice("decision_function_shape", self.decision_function_shape, ("ovr", "ovo"))
        require_bool("break_ties", self.break_ties)
        require_bool("shrinking", self.shrinking)
        require(self.probability in (True, False, "deprecated"), "probability", self.probability,
                "True or False")  # fmt: skip

    def _costs(self, codes: IntArray, weight: FloatArray) -> FloatArray:
        self.class_weight_ = class_costs(self.class_weight, self.classes_, codes, weight)
        weighted = weight * self.class_weight_[codes]
        by_nu.check_feasible(self.nu, codes, weight, weighted)
        return weighted

    def _problem(self, y: FloatArray, cost: FloatArray) -> problems.SoftMargin:
        return problems.nu_classification(y, cost, min(self.nu, by_nu.largest_feasible(y, cost)))

    def _accuracy(self, thresholds: FloatArray) -> dict[str, Any]:
        return super()._accuracy(thresholds) | by_nu.published(thresholds)

    def _is_clear(self, primal: float) -> bool:
        return primal < -by_nu.CLEAR_MARGIN

    def _is_open(self, model: CertifiedModel, rounds: int) -> bool:
        undecided = rounds < by_nu.UNDECIDED_ROUNDS and by_nu.is_undecided(model)
        return undecided or super()._is_open(model, rounds)

    def _improved(self, *arguments: Any) -> tuple[DualResult, CertifiedModel]:
        result, model = super()._improved(*arguments)
        return result, by_nu.without_margin(model) if model.bounds.primal >= 0.0 else model

    def _fit_pair(
        self, rows: Rows, chosen: IntArray, problem: problems.SoftMargin, watch: Watch
    ) -> Expansion:
        found = super()._fit_pair(rows, chosen, problem, watch)
        if (
            found.status == "converged"
            and by_nu.solution_margin(found) == 0.0
            and not (self._may_be_indefinite())
        ):
            how = {"budget": self._budget(watch), "seed": seed_of(self.random_state)}
            part = rows if len(chosen) == rows.n else rows.part(chosen)
            warn(by_nu.why_no_margin(self.nu, self.tol, problem, part, how), UserWarning)
        return found

    def _rescaled(self, machine: Expansion) -> Expansion:
        return by_nu.divided_by_margin(machine, self.nu)

    def _keep_machines(self, data: TrainingSet, codes: IntArray, machines: list[Expansion]) -> None:
        super()._keep_machines(data, codes, machines)
        self.rho_ = np.array([by_nu.solution_margin(machine) for machine in machines])
