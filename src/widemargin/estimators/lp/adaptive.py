"""Leave-one-out and adaptive-margin support vector machines: LOOSVC, AdaptiveMarginSVC."""

from __future__ import annotations

from typing import Any

from widemargin._base.typing import FloatArray
from widemargin._base.validation import require_choice
from widemargin.estimators.lp.fit import KernelData
from widemargin.estimators.lp.program import ProgramClassifier, check_lam
from widemargin.problems.linear_program import MarginProgram, adaptive_margin

LOSSES = ("hinge", "squared_hinge")


class LOOSVC(ProgramClassifier):
    r"""Leave-one-out support vector machine: a soft margin without regularisation parameter.

    Decision functions :math:`f(x) = \sum_j \alpha_j y_j k(x_j, x)`, :math:`\alpha \ge 0`, have no
    intercept. Minimises :math:`\sum_i \xi_i` subject to

    .. math:: y_i \sum_{j \ne i} \alpha_j y_j k(x_j, x_i) \ge 1 - \xi_i, \quad \xi_i \ge 0:

    each sample has to be classified correctly by the others (Smola et al. 2000, (2.7)-(2.9)). A
    large coefficient does not help a sample to meet its own constraint, so that outliers have
    little influence. The values k(x_i, x_i) do not enter the problem, but they enter f. With
    ``loss="squared_hinge"`` the objective is :math:`\sum_i \xi_i^2`, (2.4) with
    :math:`\delta = 2`.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable, default="rbf"
        Kernel function, as for :class:`SVC`. It must be symmetric with k(x, x) not negative, but
        need not be positive semi-definite.
    degree : float, default=3
        Degree of the "poly" kernel, positive. Other kernels ignore it.
    gamma : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
        Coefficient of "rbf", "poly" and "sigmoid", as for :class:`SVC`.
    coef0 : float, default=0.0
        Constant term of "poly" and "sigmoid". Other kernels ignore it.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss function: linear in the slack, or its square. With squares large slacks weigh more,
        and the slacks are unique.
    calibration : {"sigmoid", "isotonic"}, default="sigmoid"
        Map from decision values to probabilities in `predict_proba`, as for :class:`SVC`.
    tol : float, default=1e-6
        Tolerance for stopping: largest relative duality gap.
    class_weight : dict or "balanced", default=None
        Factor of the sample weights per class label; "balanced" uses inverse class frequencies.
        None: 1 for all classes.
    cache_size : float, default=500
        Memory for kernel values, in megabytes.
    max_iter : int, default=-1
        Maximum number of solver steps (Newton steps or sweeps of pivots) per binary problem; -1 is
        100.
    time_limit : float, default=None
        Time limit in seconds; `fit` then stops and keeps the current model. None: no limit.
    random_state : int, RandomState or None, default=None
        Seed for the solver and for the folds of leave-one-out; it changes the model only within
        the tolerance. None is a fixed seed.
    verbose : int, default=0
        If positive, display a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted. With more than two classes, the binary problems are one-vs-rest.
    alpha_ : ndarray of shape (n_samples,) or (n_classes, n_samples)
        Coefficients of the training samples. Equal samples of a class share one coefficient in
        proportion to their weights.
    slack_ : ndarray of shape (n_samples,) or (n_classes, n_samples)
        Slacks xi; 0 for samples of zero weight. The other samples misclassify those with xi > 1.
    support_ : ndarray of shape (n_SV,)
        Indices of the samples with a nonzero coefficient in any binary problem, grouped by class;
        equal samples are represented by the first one.
    support_vectors_ : ndarray or CSR of shape (n_SV, n_features)
        Support vectors.
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors per class.
    dual_coef_ : ndarray of shape (1, n_SV) or (n_classes, n_SV)
        Coefficients y alpha of the support vectors, one row per binary problem.
    lam_max_ : float or ndarray of shape (n_classes,)
        Smallest lam for which all coefficients of :class:`AdaptiveMarginSVC` are zero. If it is at
        most 1, all coefficients of this model are zero, and `fit` warns.
    certificate_ : Certificate
        The worst of `certificates_`: unconverged ones first, then the largest relative gap.
    certificates_ : list of Certificate
        Certificates of optimality, one per binary problem: objective and lower bound, both with
        their rounding errors. The objective is at most the sum of the weights, that of alpha = 0.
    gamma_ : float or ndarray
        Value of gamma used in the fit.
    n_iter_ : ndarray of shape (n_machines,)
        Number of solver steps per binary problem.
    n_features_in_, feature_names_in_
        Number of features seen during `fit`, and their names if X has string column names.

    See Also
    --------
    AdaptiveMarginSVC : Generalisation with a parameter for the margins.
    LPSVC : Linear program with an l_1 penalty on the coefficients instead.

    Notes
    -----
    If all samples reach their margin (the objective is 0), the optimum is not unique: among the
    optima, the one with the smallest sum of alpha_i k(x_i, x_i) is returned. Otherwise the optimum
    is usually unique. If it is not, the one returned depends only on the data, not on the order of
    the samples (for kernels other than "precomputed").

    Coefficients are limited to 1e8 over the largest kernel value of the sample, so that
    alpha_i k(x_i, x_i) is at most 1e8; equal samples of a class have one coefficient, and the limit
    holds for it, their sum. If the kernel is so narrow that samples have no influence on
    each other, the coefficients would be unbounded; `fit` warns and reports the kernel width. The
    lower bound of the certificate holds without these limits, unless its `problem` ends with
    "limited coefficients": then it is a bound for the problem with the limits. For kernels other
    than "rbf", the largest kernel value is bounded by
    :math:`\sqrt{k(x_i, x_i) \max_j k(x_j, x_j)}` if the kernel is positive semi-definite. Samples
    whose kernel values are all below 1e-250 have no coefficient.

    A decision value of exactly 0 predicts ``classes_[0]``; with lam of at least ``lam_max_`` all
    decision values are 0.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from widemargin import LOOSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LOOSVC().fit(scale(X), y)
    >>> model.certificate_.converged, round(model.score(scale(X), y), 3)
    (True, 0.996)
    >>> squared = LOOSVC(loss="squared_hinge").fit(scale(X), y)
    >>> squared.certificate_.converged, round(squared.score(scale(X), y), 3)
    (True, 0.995)
    """

    _lam_times_diagonal = True

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        loss: str = "hinge",
        calibration: str = "sigmoid",
        tol: float = 1e-6,
        class_weight: Any = None,
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
        self.loss = loss
        self.calibration = calibration
        self.class_weight = class_weight

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_choice("loss", self.loss, LOSSES)

    def _lam(self) -> float:
        return 1.0

    def _program(self, y: FloatArray, weight: FloatArray, kernel: KernelData) -> MarginProgram:
        squared = self.loss == "squared_hinge"
        return adaptive_margin(
            y, weight, kernel.diagonal, kernel.limit, 1.0, "leave-one-out", squared=squared
        )


class AdaptiveMarginSVC(ProgramClassifier):
    r"""Adaptive-margin support vector machine.

    Decision functions :math:`f(x) = \sum_j \alpha_j y_j k(x_j, x)`, :math:`\alpha \ge 0`, have no
    intercept. Minimises :math:`\sum_i \xi_i` subject to

    .. math:: y_i f(x_i) \ge 1 - \xi_i + \lambda \alpha_i k(x_i, x_i), \quad \xi_i \ge 0

    (Smola et al. 2000, (2.10)-(2.12)): the margin required of a sample grows with its own
    contribution to f, which limits the influence of outliers. This is the only regularisation.
    lam = 1 is :class:`LOOSVC`, lam = 0 minimises the training loss alone, and with lam of at least
    `lam_max_` all coefficients are zero. With ``loss="squared_hinge"`` the objective is
    :math:`\sum_i \xi_i^2`.

    Parameters
    ----------
    lam : float, default=1.0
        Factor of the sample's own contribution in its margin, not negative; larger values
        regularise more.
    kernel, degree, gamma, coef0, loss, calibration, tol, class_weight
        As for :class:`LOOSVC`.
    cache_size, max_iter, time_limit, random_state, verbose
        As for :class:`LOOSVC`.

    Attributes
    ----------
    alpha_, slack_, lam_max_, certificate_, certificates_, n_iter_
        As for :class:`LOOSVC`.
    classes_, support_, support_vectors_, n_support_, dual_coef_, gamma_
        As for :class:`LOOSVC`.
    n_features_in_, feature_names_in_
        Number of features seen during `fit`, and their names if X has string column names.

    See Also
    --------
    LOOSVC : The special case lam = 1.
    regularisation_path : Errors and support vectors as functions of lam.

    Notes
    -----
    See :class:`LOOSVC` for the choice among several optima, the limit of the coefficients and ties.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import AdaptiveMarginSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AdaptiveMarginSVC(lam=2.0).fit(X[50:], y[50:])
    >>> round(model.lam_max_, 2), model.score(X[50:], y[50:])
    (15.92, 0.94)
    """

    path_parameter = "lam"
    _lam_times_diagonal = True

    def __init__(
        self,
        *,
        lam: float = 1.0,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        loss: str = "hinge",
        calibration: str = "sigmoid",
        tol: float = 1e-6,
        class_weight: Any = None,
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
        self.lam = lam
        self.loss = loss
        self.calibration = calibration
        self.class_weight = class_weight

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_lam(self.lam)
        require_choice("loss", self.loss, LOSSES)

    def _lam(self) -> float:
        return float(self.lam)

    def _program(self, y: FloatArray, weight: FloatArray, kernel: KernelData) -> MarginProgram:
        squared = self.loss == "squared_hinge"
        return adaptive_margin(
            y, weight, kernel.diagonal, kernel.limit, float(self.lam), squared=squared
        )
