"""Linear-programming machines with an l_1 penalty on the coefficients: LPSVC, NuLPSVC."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from widemargin._base.progress import Watch
from widemargin._base.typing import FloatArray, IntArray
from widemargin._base.validation import TrainingSet, require_number
from widemargin.estimators._base.classification import set_per_machine
from widemargin.estimators.lp.fit import BinaryFit, KernelData
from widemargin.estimators.lp.program import ProgramClassifier, check_lam
from widemargin.problems.linear_program import MarginProgram, lp_machine, nu_lp_machine
from widemargin.solvers.linear_program import ProgramResult, solve


class LPSVC(ProgramClassifier):
    r"""Linear-programming support vector machine with sparse coefficients.

    Minimises :math:`\sum_i \xi_i + \lambda \sum_i \alpha_i` subject to
    :math:`y_i f(x_i) \ge 1 - \xi_i, \; \xi_i \ge 0` over decision functions without intercept,
    :math:`f(x) = \sum_j \alpha_j y_j k(x_j, x)`, :math:`\alpha \ge 0` (Smola et al. 2000,
    (2.17)-(2.18)). The problem with the norm of f in place of the sum of the coefficients, (2.15),
    is ``SVC(fit_intercept=False, C=1/(2 lam))``. Multiclass problems are one-vs-rest.

    Parameters
    ----------
    lam : float, default=1.0
        Regularisation parameter: cost per unit of the coefficients, not negative. It scales with
        the kernel: doubling both k and lam halves the coefficients.
    kernel, degree, gamma, coef0, calibration, tol, class_weight
        As for :class:`LOOSVC`; k(x, x) may be negative.
    cache_size, max_iter, time_limit, random_state, verbose
        As for :class:`LOOSVC`.

    Attributes
    ----------
    alpha_, slack_, certificate_, certificates_, n_iter_
        As for :class:`LOOSVC`.
    lam_max_ : float or ndarray of shape (n_classes,)
        Smallest lam for which all coefficients are zero.
    classes_, support_, support_vectors_, n_support_, dual_coef_, gamma_
        As for :class:`LOOSVC`.
    n_features_in_, feature_names_in_
        Number of features seen during `fit`, and their names if X has string column names.

    See Also
    --------
    NuLPSVC : Same models, controlled by the fraction of margin errors.
    regularisation_path : Errors and support vectors as functions of lam.

    Notes
    -----
    See :class:`LOOSVC` for the choice among several optima, the limit of the coefficients and ties.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import LPSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LPSVC().fit(X[50:], y[50:])
    >>> model.n_support_, model.score(X[50:], y[50:])
    (array([2, 1], dtype=int32), 0.93)
    """

    path_parameter = "lam"

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
        return lp_machine(y, weight, kernel.limit, float(self.lam))


class NuLPSVC(ProgramClassifier):
    r"""Linear-programming support vector machine parameterised by nu.

    Minimises :math:`-\nu \rho + \frac1m \sum_i \xi_i` subject to
    :math:`y_i f(x_i) \ge \rho - \xi_i, \; \xi_i \ge 0` with
    :math:`f(x) = \sum_j \alpha_j y_j k(x_j, x)`, :math:`\alpha \ge 0`,
    :math:`\sum_j \alpha_j = 1` (Graepel et al. 1999): at most a fraction nu of the samples has a
    margin below rho, and at least a fraction nu has a margin of at most rho. The fitted model is
    divided by rho, so that its margin is 1; it is then a solution of ``LPSVC(lam=lam_)``.

    Parameters
    ----------
    nu : float, default=0.2
        Upper bound on the fraction of margin errors, in [0, 1]. 0 is the hard margin, as is any nu
        below the share of the lightest sample. If the samples are not separable, nu must exceed
        some nu_min; otherwise there is no margin, and a warning reports nu_min.
    kernel, degree, gamma, coef0, calibration, tol
        As for :class:`LOOSVC`; k(x, x) may be negative.
    cache_size, max_iter, time_limit, random_state, verbose
        As for :class:`LOOSVC`.

    Attributes
    ----------
    rho_ : float or ndarray of shape (n_classes,)
        Margin in the scale of the problem: ``alpha_ * rho_`` sums to 1. If nu is not above nu_min,
        there is no margin in spite of a `rho_` that may be positive: a warning says so, `lam_` is
        0, and `alpha_` is not rescaled, so that it sums to 1 itself.
    lam_ : float or ndarray of shape (n_classes,)
        Parameter lam of :class:`LPSVC` with the same solution; 0 if there is no margin.
    alpha_, slack_, n_iter_
        As for :class:`LOOSVC`.
    lam_max_ : float or ndarray of shape (n_classes,)
        Largest possible `lam_`, over all nu.
    certificate_, certificates_
        Certificates of the problem above, in its own scale.
    classes_, support_, support_vectors_, n_support_, dual_coef_, gamma_
        As for :class:`LOOSVC`.
    n_features_in_, feature_names_in_
        Number of features seen during `fit`, and their names if X has string column names.

    See Also
    --------
    LPSVC : Same models, controlled by the cost lam of the coefficients.

    Notes
    -----
    The coefficients sum to 1 and have no other limits, and neither has the lower bound of the
    certificate.

    Leave-one-out holds `lam_` at its value on all samples, "exact at fixed lam": refits with nu
    would change it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import NuLPSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NuLPSVC(nu=0.3).fit(X[50:], y[50:])
    >>> errors = (model.slack_ > 1e-6).mean()
    >>> bool(errors <= 0.3)
    True
    """

    path_parameter = "nu"

    def __init__(
        self,
        *,
        nu: float = 0.2,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        calibration: str = "sigmoid",
        tol: float = 1e-6,
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
        require_number("nu", self.nu, "in [0, 1]", least=0.0, most=1.0)

    def _lam(self) -> None:
        return None

    def _program(self, y: FloatArray, weight: FloatArray, kernel: KernelData) -> MarginProgram:
        return nu_lp_machine(y, weight, kernel.limit, float(self.nu))

    def _fit_one(
        self, y: FloatArray, weight: FloatArray, kernel: KernelData, seed: int, watch: Watch
    ) -> BinaryFit:
        """Solve the nu program, and the program of nu_min if there is no margin."""
        found = super()._fit_one(y, weight, kernel, seed, watch)
        if found.held:
            return found
        errors = lp_machine(y, weight, kernel.limit, 0.0)
        budget = self._budget(watch)
        least = solve(errors, kernel.rows, tol=self.tol, budget=budget, seed=seed)
        return replace(found, warning=self._why_no_margin(found.rho, errors, least))

    def _rescaled(self, fit: BinaryFit, kernel: KernelData) -> BinaryFit:
        """Rescale the solution to the equivalent LP machine, if there is a margin.

        For rho > 0 the objective is rho times (mean slack of alpha / rho at margin 1, minus nu). It
        is negative if and only if nu exceeds nu_min, the smallest such mean slack. A margin so
        small that alpha / rho exceeds the limits of the coefficients counts as no margin.
        """
        problem, result = fit.problem, fit.result
        rho = problem.demand(problem.product(result.alpha, result.f))
        no_margin = problem.primal(result.alpha, result.f) >= 0
        if no_margin or (result.alpha > rho * problem.limit).any():
            return replace(fit, rho=rho)
        total = float(problem.weight.sum())
        lam = max(0.0, total * float(problem.product(result.z, result.g).max()))
        scaled = replace(
            result,
            alpha=result.alpha / rho,
            f=result.f / rho,
            z=total * result.z,
            g=total * result.g,
        )
        equivalent = lp_machine(problem.y, problem.weight, kernel.limit, lam)
        original = problem, result.z
        return replace(
            fit, problem=equivalent, result=scaled, rho=rho, held="lam", original=original
        )

    def _why_no_margin(self, rho: float, errors: MarginProgram, least: ProgramResult) -> str:
        """Return the warning for a missing margin, with nu_min, the smallest mean slack."""
        nu_min = errors.primal(least.alpha, least.f) / float(errors.weight.sum())
        if least.status == "converged" and nu_min >= 1.0 - self.tol:
            reason = "no nu leaves one, as no model of this kernel has a smaller mean slack than 0 "
            reason += "(equal rows with different labels do this). Correct the labels, or use "
            reason += "another kernel"
        elif least.status == "converged" and nu_min >= self.nu:
            reason = f"rows like these need more than nu_min = {nu_min:.6g}. Raise nu"
        else:  # only an upper bound of nu_min is known
            reason = f"nu_min is not known but for nu_min <= {nu_min:.6g}. Raise nu, or tol is too "
            reason += f"coarse ({self.tol:g}), or the kernel so wide that rows hardly differ in it"
        return f"nu={self.nu:g} leaves no margin (rho_ = {rho:.1e}): {reason}"

    def _keep_model(self, data: TrainingSet, codes: IntArray, fits: list[BinaryFit]) -> None:
        super()._keep_model(data, codes, fits)
        set_per_machine(
            self,
            rho_=np.array([fit.rho for fit in fits]),
            lam_=np.array([fit.problem.price for fit in fits]),
        )
