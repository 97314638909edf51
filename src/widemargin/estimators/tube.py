"""Tube regression by reduced convex hulls: TubeSVR."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from widemargin._base.double_double import U
from widemargin._base.progress import Watch
from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray
from widemargin._base.validation import TrainingSet, check_X, require, require_number, seed_of
from widemargin.certificate import Bracket
from widemargin.estimators._base.kernel import CentredSamples
from widemargin.estimators._base.proof import Proof
from widemargin.estimators.svm.expansion import Expansion
from widemargin.estimators.svm.support import SupportRegressor
from widemargin.fitted.by_path import Machine
from widemargin.kernels import Rows
from widemargin.kernels.sums import majorants
from widemargin.problems.reduced_hull import NearestPoints, masses
from widemargin.problems.soft_margin import SoftMargin, nu_tube
from widemargin.problems.soft_margin.bounds import Point, bracket
from widemargin.problems.tube import (
    Tube,
    lifted_model,
    lifted_rows,
    lifted_targets,
    lifted_values,
    tube_hulls,
)
from widemargin.solvers import reduced_hull
from widemargin.solvers.reduced_hull import HullResult

DOUBLINGS = 60  # limit for epsilon="auto"; if 2^60 is not enough, X or y must be rescaled


@dataclass(frozen=True)
class TubeExpansion(Expansion):
    """Kernel expansion of a fitted tube."""

    tube: Tube
    epsilon: float
    coef: FloatArray | None  # weights of a linear model


class TubeSVR(CentredSamples, SupportRegressor):
    r"""Tube regression by separating upward from downward shifted samples.

    Each sample (x, y) is shifted up to (x, y + epsilon) and down to (x, y - epsilon). The function
    is the hyperplane that separates the reduced convex hulls of the two sets (P6 and P7 of Balcázar
    et al. 2008, see :class:`ReducedHullSVC`), solved for the target. **epsilon is the
    regularisation parameter**: the larger it is, the flatter the function. The half width of the
    tube, `tube_width_`, is a result of the fit: with k = 1 the tube contains all samples, otherwise
    about k samples may be above it and k below.

    The function is also the solution of ``SVR(C=equivalent_C_, epsilon=tube_width_)`` and of
    ``NuSVR(C=equivalent_C_, nu=nu_)``.

    Parameters
    ----------
    epsilon : "auto" or float, default="auto"
        Shift of the samples, positive, in units of y. "auto" starts from half the standard
        deviation of y (1 if y is constant) and doubles it until the hulls can be separated. A float
        that is too small raises an error that names the smallest possible value.
    k : number, default=0.1
        Approximate number of samples allowed on each side of the tube, counted by weight. Either a
        number from 1 (hard tube) to half the number of samples, or a float in (0, 1) as a fraction
        of the samples, at most 0.5.
    kernel, degree, gamma, coef0
        As for :class:`SVC`.
    tol : float, default=1e-3
        Tolerance for stopping: largest violation of the KKT conditions, in units of y.
    cache_size, max_iter, time_limit, random_state, verbose
        As for :class:`SVC`.

    Attributes
    ----------
    tube_width_ : float
        Half width of the fitted tube, in units of y.
    epsilon_ : float
        Value of epsilon used in the fit.
    k_ : float
        Value of k used in the fit, as a number of samples.
    nu_, equivalent_C_ : float
        Values of nu and C for which :class:`NuSVR` and :class:`SVR` have the same solution.
    certificate_ : Certificate
        Certificate of the hull problem, objectives in its own scale, KKT violation in units of y.
    certificates_ : list of Certificate
        List that contains `certificate_` only.
    support_, support_vectors_, n_support_, dual_coef_, intercept_, gamma_, n_iter_
        As for :class:`SVR`.
    fit_status_, shape_fit_
        As for :class:`SVR`.
    n_features_in_, feature_names_in_
        Number of features seen during `fit`, and their names if X has string column names.

    See Also
    --------
    SVR : Regression with a tube of given width.
    NuSVR : Regression with a bound on the fraction of samples outside the tube.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import TubeSVR
    >>> X = np.linspace(0, 1, 21)[:, None]
    >>> y = 2 * X[:, 0] + 0.1 * (-1.0) ** np.arange(21)
    >>> model = TubeSVR(kernel="linear", epsilon=0.2, k=1).fit(X, y)  # all examples in the tube
    >>> bool(np.abs(y - model.predict(X)).max() <= model.tube_width_ + 1e-3)
    True
    """

    def __init__(
        self,
        *,
        epsilon: Any = "auto",
        k: float = 0.1,
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
        self.epsilon = epsilon
        self.k = k

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.epsilon, str):
            require(self.epsilon == "auto", "epsilon", self.epsilon, '"auto" or a positive number')
        else:
            require_number("epsilon", self.epsilon, '"auto" or a positive number')
        fix = "at least 1, or a float in (0, 1) as a fraction of the examples"
        require_number("k", self.k, fix)
        require(self.k >= 1 or not isinstance(self.k, numbers.Integral), "k", self.k, fix)

    def _problem(self, y: FloatArray, weight: FloatArray) -> SoftMargin:
        """Return the nu-tube problem that has the solution of P7 up to the scale of f."""
        total = float(weight.sum())
        k = float(self.k) if self.k >= 1 else self.k * total
        if 2.0 * k > total * (1 + 1e-12):
            raise ValueError(
                f"k must be <= {total / 2:g}, half of the {total:g} examples (by weight); got "
                f"k={self.k}: nu = 2 k / m = {2.0 * k / total:.4g} would exceed 1, and the width "
                "of the tube be negative"
            )
        self.k_ = k
        D = masses(weight, k)
        self.nu_ = 2.0 / float(D.sum())
        return nu_tube(y, D, self.nu_)

    def _expansion(
        self, problem: SoftMargin, whole: Rows, watch: Watch, chosen: IntArray | None = None
    ) -> Expansion:
        n, rows = problem.n_rows, whole
        t, D = problem.target[:n], problem.upper[:n]
        watch.next_part()
        evaluations = rows.evaluations
        with worker_threads() as rows.threads:
            epsilon, z, lifted, found = self._tube(t, D, rows, watch)
            hulls = tube_hulls(D)
            found = _summed_by_rows(found, hulls, rows, z)
            coef = None
            if rows.kernel.name == "linear":
                coef = rows.X.T @ (found.alpha[:n] + found.alpha[n:])
            bounds = self._tube_bounds(hulls, found, rows, t, z, epsilon, coef)
        tube = Tube.of(found.alpha, z, epsilon, found.points)
        spent = rows.evaluations - evaluations + lifted.evaluations
        middle = 0.5 * (t.min() + t.max())
        intercept = float(middle + found.points.cut("theta") / tube.sigma)
        svr, b = tube.as_svr(t, found.alpha, D)
        used = np.flatnonzero(tube.beta)
        return TubeExpansion(
            rows=used,
            beta=tube.beta[used],
            intercept=intercept,
            thresholds=np.array([-found.points.theta_plus, -found.points.theta_minus]),
            proof=Proof.of(self._certificate(hulls, found, bounds, spent, tube.sigma)),
            status=found.status,
            machine=Machine(np.arange(n), svr, b, intercept, held="C and epsilon"),
            tube=tube,
            epsilon=epsilon,
            coef=None if coef is None else -coef / tube.sigma,
        )

    def _tube_bounds(
        self,
        hulls: SoftMargin,
        found: HullResult,
        rows: Rows,
        t: FloatArray,
        z: FloatArray,
        epsilon: float,
        coef: FloatArray | None,
    ) -> Bracket:
        """Return bounds on the optimum of P7 on the samples as given by the user."""
        s, stated = found.alpha, rows.stated
        theta = np.array([found.points.theta_plus, found.points.theta_minus])
        middle, sigma = 0.5 * (t.min() + t.max()), float(z @ s)
        # z is rounded; the model is published by sigma, the intercept and the width of the tube.
        wrong = 4.0 * U * (np.tile(np.abs(t), 2) + abs(middle) + np.abs(z) + epsilon)
        known: dict[str, Any] = {"coefficient_error": 8.0 * U}
        shift = 0.0
        if coef is not None:
            if self._origin_ is not None:
                theta += float(coef @ self._origin_)
                shift = float(np.linalg.norm(coef)) * float(np.linalg.norm(self._origin_))
            known = {"model": partial(lifted_model, stated.X, coef, sigma, z, wrong)}
        reach = float(np.abs(theta).max()) + abs(sigma) * (abs(middle) + epsilon) + shift
        units = 32.0 + 2.0 * rows.X.shape[1]
        size = np.tile(majorants(stated), 2)
        lifted = np.sqrt(size**2 + z**2) * (1.0 + 16.0 * U) + wrong
        point = Point(
            s, s, -theta, lifted, threshold_error=units * U * reach,
            cost_error=self._cost_error, mercer=not self._may_be_indefinite(), **known,
        )  # fmt: skip
        return bracket(hulls, point, lifted_values(stated, s, z, wrong))

    def _tube(
        self, t: FloatArray, D: FloatArray, rows: Rows, watch: Watch
    ) -> tuple[float, FloatArray, Rows, HullResult]:
        """Solve P7; with epsilon="auto", double epsilon until the hulls are separable."""
        budget, seed = self._budget(watch), seed_of(self.random_state)
        automatic = isinstance(self.epsilon, str)
        epsilon = _half_deviation(t, D) if automatic else float(self.epsilon)
        for _ in range(DOUBLINGS):
            z = lifted_targets(t, epsilon)
            lifted = lifted_rows(rows, z)
            lifted.threads = rows.threads

            def sigma(s: FloatArray, _: NearestPoints, z: FloatArray = z) -> float:
                return float(z @ s)

            found = reduced_hull.solve(
                tube_hulls(D), lifted, tol=self.tol, budget=budget, seed=seed, unit=sigma
            )
            unfinished = found.status in ("max_iter", "stopped")
            # Hulls so near each other that the default number of steps does not tell them apart
            # are as good as hulls that meet.
            near = found.status == "max_iter" and self.max_iter == -1 and not found.separable
            if automatic and near:
                epsilon *= 2.0
                continue
            if sigma(found.alpha, found.points) > 0 and (found.separable or unfinished):
                return epsilon, z, lifted, found
            if unfinished:
                raise ValueError(
                    f"max_iter={self.max_iter} and time_limit={self.time_limit} end the fit before "
                    f"it finds a tube at epsilon={epsilon:g}: raise them, or raise epsilon"
                )
            if not automatic:
                smallest = reduced_hull.smallest_epsilon(rows, t, D, budget=budget, seed=seed)
                raise ValueError(
                    f"epsilon={epsilon:g} is too small: there is no tube with k={self.k} unless "
                    f"epsilon > {smallest:.6g}. Raise epsilon (the regulariser, not the width of "
                    'the tube), raise k, or use epsilon="auto"'
                )
            epsilon *= 2.0
        raise ValueError(
            f'epsilon="auto" found no tube up to epsilon={epsilon:.1e}: scale X or y, or raise k'
        )

    def _keep_machine(self, data: TrainingSet, machine: Expansion) -> None:
        super()._keep_machine(data, machine)
        machine = cast(TubeExpansion, machine)
        self.tube_width_ = max(0.0, machine.tube.half_width)  # negative only through rounding
        self.epsilon_ = machine.epsilon
        self.equivalent_C_ = float(masses(np.ones(1), self.k_)[0] / machine.tube.sigma)
        self._inner_intercept_ = machine.intercept
        if self._origin_ is not None:
            assert machine.coef is not None
            self.coef_ = machine.coef[None, :]
            self.intercept_ = self.intercept_ - float(self.coef_[0] @ self._origin_)

    def _loo_machine(self, machine: Expansion) -> Machine:
        return replace(machine.machine, threshold=float(self.intercept_[0]))

    def _values(self, X: Any) -> FloatArray:
        checked = check_X(self, X, accept_sparse=self.kernel != "precomputed")
        if self._origin_ is None or sp.issparse(checked):  # or a DataFrame of sparse columns
            return super()._values(X)
        return np.asarray((checked - self._origin_) @ self.coef_[0] + self._inner_intercept_)


def _summed_by_rows(found: HullResult, hulls: SoftMargin, rows: Rows, z: FloatArray) -> HullResult:
    """Recompute decision values and nearest points from one coefficient per sample."""
    # The masses of a sample's two copies nearly cancel: summing them before the kernel expansion
    # avoids the loss of significant digits.
    s, everything = found.alpha, np.arange(rows.n)
    beta = s[: rows.n] + s[rows.n :]
    used = np.flatnonzero(beta)
    values = rows.weighted_sum(everything, rows, used, beta[used])
    sigma = float(z @ s)
    f = np.tile(values, 2) + sigma * z
    points = NearestPoints.of(hulls, f, float(beta @ values) + sigma * sigma)
    return replace(found, f=f, points=points)


def _half_deviation(t: FloatArray, D: FloatArray) -> float:
    """Return half the weighted standard deviation of the targets, or 1 if they are constant."""
    share = D / D.sum()
    centred = t - share @ t
    deviation = float(np.sqrt(share @ centred**2))
    # Constant targets can differ from their computed mean by rounding.
    return 0.5 * deviation if deviation > 1e-14 * float(np.abs(t).max()) else 1.0
