"""Support vector machines: SVC, NuSVC, SVR, NuSVR."""

from __future__ import annotations

from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray, IntArray
from widemargin._base.validation import (
    TrainingSet,
    check_calibration,
    class_costs,
    require_bool,
    require_choice,
    require_number,
)
from widemargin.estimators.svm import nu as by_nu
from widemargin.estimators.svm.expansion import Expansion
from widemargin.estimators.svm.support import SupportClassifier, SupportRegressor
from widemargin.fitted.by_path import Machine
from widemargin.problems import soft_margin as problems


class SVC(SupportClassifier):
    r"""Support vector classifier with soft margin.

    Minimises :math:`\frac12 |w|^2 + C \sum_i s_i \xi_i` (or :math:`\xi_i^2`) subject to
    :math:`y_i (\langle w, \phi(x_i) \rangle + b) \ge 1 - \xi_i, \; \xi_i \ge 0`, where
    :math:`s_i` is the weight of row i (Smola et al. 2000, (1.25)). The optimum is that of LIBSVM;
    `certificate_` proves how close the model is to it.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of slack.
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable, default="rbf"
        See :class:`widemargin.kernels.Kernel`. A callable gets two arrays of rows and returns the
        block of kernel values.
    degree : float, default=3
        Degree of the polynomial kernel.
    gamma : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
        Coefficient of rbf, poly and sigmoid. "scale" is 1 / (n_features * variance of X), rows
        counted by weight; "auto" is 1 / n_features; an array (rbf only) has one per feature.
    coef0 : float, default=0.0
        Constant of poly and sigmoid.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Linear or squared slack.
    fit_intercept : bool, default=True
        Whether there is a threshold b. Without one and with C = 1 / (2 lam) it is the quadratic
        member of the family of :class:`LPSVC`, Smola et al. (2000), (2.15).
    solver : {"auto", "smo", "sampling", "adatron"}, default="auto"
        "auto" grows a sample and works in a band around the margin; "smo" works on all rows from
        the start. "sampling" grows a training set by the rows that violate its optimum: for many
        rows with few support vectors. Many dense rows with a linear kernel are solved exactly in
        a few reads by both. "adatron" is the Kernel Adatron of Opper and Winther (2000), the
        historical baseline, slow where C is large. All end at the same optimum.
    calibration : {"sigmoid", "isotonic"}, default="sigmoid"
        How `predict_proba` turns decision values into probabilities: one slope on each side of
        zero, or any increasing function.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, as in LIBSVM.
    class_weight : dict or "balanced", default=None
        Factor of C for each class.
    cache_size : float, default=500
        Megabytes for kernel values.
    max_iter : int, default=-1
        Largest number of pair steps for a pair of classes; -1 is max(500,000, 100 n_samples).
    time_limit : float, default=None
        Seconds after which the fit stops with the model reached.
    random_state : int, RandomState or None, default=None
        Seed of the samples, and of the order of rows of "adatron"; it moves the result within the
        tolerance only. None is a fixed seed.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    support_ : ndarray of shape (n_SV,)
        Rows of the support vectors, by class; of equal rows the first stands for all. Up to
        5,000 rows the order within a class does not depend on the order of the rows.
    support_vectors_ : ndarray or CSR of shape (n_SV, n_features)
        The support vectors.
    n_support_ : ndarray of shape (n_classes,)
        Their number in each class.
    dual_coef_ : ndarray of shape (n_classes - 1, n_SV)
        Coefficients of the support vectors, in LIBSVM's layout.
    intercept_ : ndarray of shape (n_pairs,)
        Thresholds.
    certificate_ : Certificate
        The worst of `certificates_`.
    certificates_ : list of Certificate
        One for each pair of classes.
    gamma_ : float or ndarray
        The gamma used.
    n_iter_ : ndarray of shape (n_pairs,)
        Steps taken.
    n_features_in_, feature_names_in_
        Number of the features, and their names where X has any.

    See Also
    --------
    NuSVC : Soft margin by a fraction of margin errors.
    LinearSVC : The same optimum for the linear kernel and data of any size.

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

    tunable = ("C", "gamma", "ard")  # by `tune`

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
    ) -> None:
        super().__init__(
            kernel=kernel, degree=degree, gamma=gamma, coef0=coef0, tol=tol, cache_size=cache_size,
            max_iter=max_iter, time_limit=time_limit, random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.calibration = calibration
        self.class_weight = class_weight

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_number("C", self.C, "a positive number")
        require_choice("loss", self.loss, ("hinge", "squared_hinge"))
        require_bool("fit_intercept", self.fit_intercept)
        check_calibration(self.calibration)
        require_choice("solver", self.solver, ("auto", "smo", "sampling", "adatron"))

    def _costs(self, codes: IntArray, weight: FloatArray) -> FloatArray:
        return self.C * weight * class_costs(self.class_weight, self.classes_, codes, weight)[codes]

    def _problem(self, y: FloatArray, cost: FloatArray) -> problems.SoftMargin:
        squared = self.loss == "squared_hinge"
        return problems.c_classification(y, cost, squared=squared, intercept=self.fit_intercept)


class NuSVC(SupportClassifier):
    r"""Support vector classifier controlled by the fraction of margin errors.

    Minimises :math:`\frac12 |w|^2 - \nu \rho \sum_i s_i + \sum_i s_i \xi_i` subject to
    :math:`y_i (\langle w, \phi(x_i) \rangle + b) \ge \rho - \xi_i, \; \xi_i \ge 0`: at most a
    fraction nu of the rows violates the margin, at least that fraction are support vectors. The
    model is stored divided by rho: its margin is 1 as for :class:`SVC` (Schölkopf et al. 2000).

    Parameters
    ----------
    nu : float, default=0.2
        In (0, 1]; at most twice the share of the smaller class of each pair.
    kernel, degree, gamma, coef0, calibration, tol, cache_size, max_iter, time_limit
        As for :class:`SVC`.
    random_state, verbose
        As for :class:`SVC`.

    Attributes
    ----------
    rho_ : ndarray of shape (n_pairs,)
        Margin of each machine in the scale of the problem; ``dual_coef_ * rho_`` solves it. Where
        nu is too small for classes that overlap it is zero up to the tolerance: there is no margin,
        and no leave-one-out.
    classes_, support_, support_vectors_, n_support_, dual_coef_, intercept_
        As for :class:`SVC`.
    certificate_, certificates_, gamma_, n_iter_, n_features_in_, feature_names_in_
        As for :class:`SVC`.

    See Also
    --------
    SVC : Soft margin by a cost.
    ReducedHullSVC : The same boundary, by a number of examples.

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
        nu: float = 0.2,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        calibration: str = "sigmoid",
        tol: float = 1e-3,
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
        self.nu = nu
        self.calibration = calibration

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_calibration(self.calibration)
        by_nu.check_nu(self.nu)

    def _costs(self, codes: IntArray, weight: FloatArray) -> FloatArray:
        by_nu.check_feasible(self.nu, codes, weight)
        return weight

    def _problem(self, y: FloatArray, cost: FloatArray) -> problems.SoftMargin:
        return problems.nu_classification(y, cost, self.nu)

    def _rescaled(self, machine: Expansion) -> Expansion:
        return by_nu.divided_by_margin(machine, self.nu)

    def _keep_machines(self, data: TrainingSet, codes: IntArray, machines: list[Expansion]) -> None:
        super()._keep_machines(data, codes, machines)
        self.rho_ = np.array([by_nu.margin(machine) for machine in machines])


class SVR(SupportRegressor):
    r"""Support vector regression with a tube of given width.

    Minimises :math:`\frac12 |w|^2 + C \sum_i s_i \max(0, |y_i - f(x_i)| - \epsilon)` with
    :math:`f(x) = \langle w, \phi(x) \rangle + b` (Vapnik 1995).

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit outside the tube.
    epsilon : float, default=0.1
        Half width of the tube, in units of y.
    kernel, degree, gamma, coef0, fit_intercept, tol, cache_size, max_iter, time_limit
        As for :class:`SVC`.
    random_state, verbose
        As for :class:`SVC`.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, certificate_, certificates_
        As for :class:`SVC`.
    gamma_, n_iter_, n_features_in_, feature_names_in_
        As for :class:`SVC`.

    See Also
    --------
    NuSVR, TubeSVR : The width of the tube is found.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import SVR
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> model = SVR(kernel="linear", C=100, epsilon=0.01).fit(X, 2 * X[:, 0])
    >>> float(model.predict([[0.5]])[0].round(1))
    1.0
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        epsilon: float = 0.1,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        fit_intercept: bool = True,
        tol: float = 1e-3,
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
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_number("C", self.C, "a positive number")
        require_bool("fit_intercept", self.fit_intercept)
        require_number("epsilon", self.epsilon, "a number, not negative", least=0.0)

    def _problem(self, y: FloatArray, weight: FloatArray) -> problems.SoftMargin:
        return problems.epsilon_tube(y, self.C * weight, self.epsilon, intercept=self.fit_intercept)


class NuSVR(SupportRegressor):
    r"""Support vector regression whose tube holds all but a fraction nu of the rows.

    Minimises :math:`\frac12 |w|^2 + C \nu \epsilon \sum_i s_i + C \sum_i s_i
    \max(0, |y_i - f(x_i)| - \epsilon)` over w, b, :math:`\epsilon \ge 0` (Schölkopf et al. 2000).

    Parameters
    ----------
    nu : float, default=0.5
        Fraction of rows outside the tube, in (0, 1].
    C : float, default=1.0
        Cost of a unit outside the tube.
    kernel, degree, gamma, coef0, tol, cache_size, max_iter, time_limit, random_state, verbose
        As for :class:`SVC`.

    Attributes
    ----------
    epsilon_ : float
        Half width of the tube that was found.
    support_, support_vectors_, n_support_, dual_coef_, intercept_, certificate_, certificates_
        As for :class:`SVC`.
    gamma_, n_iter_, n_features_in_, feature_names_in_
        As for :class:`SVC`.

    See Also
    --------
    SVR : The width of the tube is given.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import NuSVR
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> model = NuSVR(kernel="linear", C=100).fit(X, 2 * X[:, 0])
    >>> float(model.predict([[0.5]])[0].round(1))
    1.0
    """

    def __init__(
        self,
        *,
        nu: float = 0.5,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
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
        self.nu = nu
        self.C = C

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_number("C", self.C, "a positive number")
        by_nu.check_nu(self.nu)

    def _problem(self, y: FloatArray, weight: FloatArray) -> problems.SoftMargin:
        return problems.nu_tube(y, self.C * weight, self.nu)

    def _keep_machine(self, data: TrainingSet, machine: Expansion) -> None:
        super()._keep_machine(data, machine)
        self.epsilon_ = by_nu.tube_width(machine)

    def _loo_machine(self, machine: Expansion) -> Machine:
        return by_nu.with_tube_held(machine)
