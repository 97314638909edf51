"""Support vector regression: SVR, NuSVR."""

from __future__ import annotations

from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin._base.validation import TrainingSet, require_bool, require_cost, require_number
from widemargin.estimators.svm import nu as by_nu
from widemargin.estimators.svm.expansion import Expansion
from widemargin.estimators.svm.support import LinearCoefficients, SupportRegressor
from widemargin.fitted.by_path import Machine
from widemargin.problems import soft_margin as problems


class SVR(LinearCoefficients, SupportRegressor):
    r"""Epsilon-support vector regression.

    Minimises :math:`\frac12 |w|^2 + C \sum_i s_i \max(0, |y_i - f(x_i)| - \epsilon)` with
    :math:`f(x) = \langle w, \phi(x) \rangle + b` (Vapnik 1995).

    Parameters
    ----------
    C : float, default=1.0
        Cost per unit of error beyond the tube, positive. np.inf allows no error beyond it and
        minimises :math:`|w|` alone; ValueError is raised if no function of the kernel is that close
        to y. With epsilon=0 rounding prevents a proof that the model is inside the tube.
    epsilon : float, default=0.1
        Half width of the tube within which errors cost nothing, in units of y; not negative.
    kernel, degree, gamma, coef0, fit_intercept, tol, cache_size, max_iter, time_limit
        As for :class:`SVC`.
    random_state, verbose, shrinking
        As for :class:`SVC`.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, coef_, intercept_
        As for :class:`SVC`.
    certificate_, certificates_, gamma_, fit_status_, shape_fit_
        As for :class:`SVC`.
    n_iter_ : int
        Number of solver steps.
    n_features_in_, feature_names_in_
        As for :class:`SVC`.

    See Also
    --------
    NuSVR, TubeSVR : Regression with a tube whose width is determined by the fit.

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
        shrinking: bool = True,
    ) -> None:
        super().__init__(
            kernel=kernel, degree=degree, gamma=gamma, coef0=coef0, tol=tol, cache_size=cache_size,
            max_iter=max_iter, time_limit=time_limit, random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.shrinking = shrinking
        self.C = C
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_cost(self.C)
        require_bool("shrinking", self.shrinking)
        require_bool("fit_intercept", self.fit_intercept)
        require_number("epsilon", self.epsilon, "a number, not negative", least=0.0)

    def _problem(self, y: FloatArray, weight: FloatArray) -> problems.SoftMargin:
        return problems.epsilon_tube(y, self.C * weight, self.epsilon, intercept=self.fit_intercept)


class NuSVR(LinearCoefficients, SupportRegressor):
    r"""Nu-support vector regression: nu determines the width of the tube.

    Minimises :math:`\frac12 |w|^2 + C \nu \epsilon \sum_i s_i + C \sum_i s_i
    \max(0, |y_i - f(x_i)| - \epsilon)` over w, b, :math:`\epsilon \ge 0` (Schölkopf et al. 2000).

    Parameters
    ----------
    nu : float, default=0.5
        Upper bound on the fraction of samples outside the tube, in (0, 1].
    C : float, default=1.0
        Cost per unit of error beyond the tube, positive.
    kernel, degree, gamma, coef0, tol, cache_size, max_iter, time_limit, random_state, verbose
        As for :class:`SVC`.
    shrinking
        As for :class:`SVC`.

    Attributes
    ----------
    epsilon_ : float
        Half width of the fitted tube, in units of y.
    support_, support_vectors_, n_support_, dual_coef_, coef_, intercept_
        As for :class:`SVC`.
    certificate_, certificates_, gamma_, fit_status_, shape_fit_
        As for :class:`SVC`.
    n_iter_ : int
        Number of solver steps.
    n_features_in_, feature_names_in_
        As for :class:`SVC`.

    See Also
    --------
    SVR : Regression with a tube of given width.

    Notes
    -----
    Leave-one-out is that of the equivalent :class:`SVR`, with `epsilon_` held at its value on all
    samples, "exact at fixed epsilon": refits with nu would change it.

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
        shrinking: bool = True,
    ) -> None:
        super().__init__(
            kernel=kernel, degree=degree, gamma=gamma, coef0=coef0, tol=tol, cache_size=cache_size,
            max_iter=max_iter, time_limit=time_limit, random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.shrinking = shrinking
        self.nu = nu
        self.C = C

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_number("C", self.C, "a positive number")
        require_bool("shrinking", self.shrinking)
        by_nu.check_nu(self.nu)

    def _problem(self, y: FloatArray, weight: FloatArray) -> problems.SoftMargin:
        return problems.nu_tube(y, self.C * weight, self.nu)

    def _thresholds(self, problem: problems.SoftMargin, f: FloatArray) -> FloatArray:
        return by_nu.tube_thresholds(problem.thresholds(f))

    def _accuracy(self, thresholds: FloatArray) -> dict[str, Any]:
        error = by_nu.ROUNDED_THRESHOLDS * float(np.abs(thresholds).max())
        return super()._accuracy(thresholds) | {"threshold_error": error}

    def _keep_machine(self, data: TrainingSet, machine: Expansion) -> None:
        super()._keep_machine(data, machine)
        self.epsilon_ = by_nu.tube_width(machine)

    def _loo_machine(self, machine: Expansion) -> Machine:
        return by_nu.with_tube_held(machine)
