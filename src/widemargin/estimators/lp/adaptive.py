"""Adaptive-margin machines, the leave-one-out machine among them: LOOSVC, AdaptiveMarginSVC."""

from __future__ import annotations

from typing import Any

from widemargin._base.typing import FloatArray
from widemargin.estimators.lp.program import KernelData, ProgramClassifier, check_lam
from widemargin.problems.linear_program import MarginProgram, adaptive_margin


class LOOSVC(ProgramClassifier):
    r"""Leave-one-out support vector machine: a soft margin without a parameter to choose.

    The decision function :math:`f(x) = \sum_j \alpha_j y_j k(x_j, x)`, :math:`\alpha \ge 0`, has
    no threshold. It minimises :math:`\sum_i \xi_i` subject to

    .. math:: y_i \sum_{j \ne i} \alpha_j y_j k(x_j, x_i) \ge 1 - \xi_i, \quad \xi_i \ge 0:

    every row has to be classified by the others (Smola et al. 2000, (2.7)-(2.9)). A row that the
    others do not support is given up, however hard it is: outliers have no influence. The values
    k(x_i, x_i) play no part in that, but they do in f.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable, default="rbf"
        See :class:`widemargin.kernels.Kernel`. It need not be positive semi-definite, but
        symmetric, and k(x, x) must not be negative.
    degree : float, default=3
        Degree of the polynomial kernel.
    gamma : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
        Coefficient of rbf, poly and sigmoid, as for :class:`SVC`.
    coef0 : float, default=0.0
        Constant of poly and sigmoid.
    calibration : {"sigmoid", "isotonic"}, default="sigmoid"
        How `predict_proba` turns decision values into probabilities, as for :class:`SVC`.
    tol : float, default=1e-6
        Largest relative duality gap.
    class_weight : dict or "balanced", default=None
        Factor of the weights of each class.
    cache_size : float, default=500
        Megabytes for kernel values.
    max_iter : int, default=-1
        Largest number of steps of the solver for each machine, Newton steps or sweeps of pivots;
        -1 is 100.
    time_limit : float, default=None
        Seconds after which the fit stops with the model reached.
    random_state : int, RandomState or None, default=None
        Seed of the solver and of the folds of leave-one-out; it moves the model within the
        tolerance only. None is a fixed seed.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels. With more than two there is a machine for each class against the rest.
    alpha_ : ndarray of shape (n_samples,) or (n_classes, n_samples)
        Coefficients of the training rows. Equal rows of a class count as one row, whose
        coefficient they share in proportion to their weights.
    slack_ : ndarray of shape (n_samples,) or (n_classes, n_samples)
        xi; rows of zero weight have none. The rows with xi > 1 are those that the others get wrong.
    support_ : ndarray of shape (n_SV,)
        Rows with a coefficient in any machine, by class; of equal rows the first stands for all.
    support_vectors_ : ndarray or CSR of shape (n_SV, n_features)
        These rows.
    n_support_ : ndarray of shape (n_classes,)
        Their number in each class.
    dual_coef_ : ndarray of shape (1, n_SV) or (n_classes, n_SV)
        y alpha of the support vectors for each machine.
    lam_max_ : float or ndarray of shape (n_classes,)
        From lam = ``lam_max_`` on, :class:`AdaptiveMarginSVC` has no coefficient but zero. A
        machine with ``lam_max_`` <= 1 here has learnt nothing, and says so.
    certificate_ : Certificate
        The worst of `certificates_`.
    certificates_ : list of Certificate
        One for each machine: the objective of the model and a lower bound, both computed with the
        true kernel. The objective is never above the sum of the weights.
    gamma_ : float or ndarray
        The gamma used.
    n_iter_ : ndarray of shape (n_machines,)
        Steps taken.
    n_features_in_, feature_names_in_
        Number of the features, and their names where X has any.

    See Also
    --------
    AdaptiveMarginSVC : The same with a parameter for the margin of a row.
    LPSVC : Coefficients have a price instead.

    Notes
    -----
    Where all rows have their margin (the objective is 0) the optimum is not unique: of all
    coefficients with objective 0 those of the least sum of alpha_i k(x_i, x_i) are returned. Other
    data have one optimum as a rule. Where they have several, the one that is found depends on the
    data alone, not on the order of the rows (for kernels other than "precomputed").

    No alpha_i k(x_i, x_i) is above 1e8. A kernel so narrow that rows do not see each other would
    have coefficients without bound; such a fit ends with a warning that names the width.

    Where a decision value is exactly 0, as everywhere from ``lam_max_`` on, the prediction is
    ``classes_[0]``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from widemargin import LOOSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LOOSVC().fit(scale(X), y)
    >>> model.certificate_.converged, round(model.score(scale(X), y), 3)
    (True, 0.996)
    """

    _lam_times_diagonal = True

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
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
        self.calibration = calibration
        self.class_weight = class_weight

    def _lam(self) -> float:
        return 1.0

    def _program(self, y: FloatArray, weight: FloatArray, kernel: KernelData) -> MarginProgram:
        return adaptive_margin(y, weight, kernel.diagonal, kernel.limit, 1.0, "leave-one-out")


class AdaptiveMarginSVC(ProgramClassifier):
    r"""Adaptive-margin support vector machine, robust to outliers.

    The decision function :math:`f(x) = \sum_j \alpha_j y_j k(x_j, x)`, :math:`\alpha \ge 0`, has
    no threshold. It minimises :math:`\sum_i \xi_i` subject to

    .. math:: y_i f(x_i) \ge 1 - \xi_i + \lambda \alpha_i k(x_i, x_i), \quad \xi_i \ge 0

    (Smola et al. 2000, (2.10)-(2.12)): the more a row contributes to f, the larger a margin it
    must have. Nothing else regularises f; lam = 1 is :class:`LOOSVC`. lam = 0 minimises the
    training error alone, and from `lam_max_` on all coefficients are zero.

    Parameters
    ----------
    lam : float, default=1.0
        How much the margin of a row grows with its own contribution, not negative.
    kernel, degree, gamma, coef0, calibration, tol, class_weight
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
        Number of the features, and their names where X has any.

    See Also
    --------
    LOOSVC : The member of the family with lam = 1.
    regularisation_path : Errors and support vectors along lam.

    Notes
    -----
    Which of several optima it is, limits and ties: see :class:`LOOSVC`.

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
        self.calibration = calibration
        self.class_weight = class_weight

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_lam(self.lam)

    def _lam(self) -> float:
        return float(self.lam)

    def _program(self, y: FloatArray, weight: FloatArray, kernel: KernelData) -> MarginProgram:
        return adaptive_margin(y, weight, kernel.diagonal, kernel.limit, float(self.lam))
