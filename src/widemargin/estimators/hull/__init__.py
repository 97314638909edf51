"""Support vector classification by reduced convex hulls: ReducedHullSVC."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if

from widemargin._base.double_double import U
from widemargin._base.multiclass import class_pairs
from widemargin._base.progress import Watch
from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray
from widemargin._base.validation import (
    TrainingSet,
    check_calibration,
    check_X,
    require,
    require_choice,
    seed_of,
)
from widemargin.certificate import Bracket
from widemargin.estimators._base.classification import set_per_machine
from widemargin.estimators._base.kernel import CentredSamples
from widemargin.estimators.hull.expansion import NEEDS_THETA, HullExpansion
from widemargin.estimators.hull.sizes import (
    Sizes,
    asked_sizes,
    check_limits,
    check_sizes,
    single,
    smallest_sizes,
    tidy,
    why_not,
)
from widemargin.estimators.svm.certified import power_of_two
from widemargin.estimators.svm.expansion import Expansion
from widemargin.estimators.svm.support import SupportClassifier
from widemargin.fitted.by_path import Machine
from widemargin.kernels import Rows
from widemargin.kernels.sums import majorants
from widemargin.problems.reduced_hull import (
    class_masses,
    equivalent_nu,
    masses,
    reduced_hulls,
    shrink,
)
from widemargin.problems.soft_margin import SoftMargin
from widemargin.problems.soft_margin.bounds import (
    Point,
    bracket,
    kernel_values,
    linear_values,
)
from widemargin.solvers import reduced_hull
from widemargin.solvers.reduced_hull import LINEAR_METHODS, HullResult

SOLVERS = ("auto", "smo", "qp", "implicit", "sampling")


def _cut_is_theta(model: ReducedHullSVC) -> bool:
    """Return whether probabilities are available; raise AttributeError with the reason if not."""
    if model.cut == "hull":
        raise AttributeError(f"probabilities {NEEDS_THETA}")
    return True


class ReducedHullSVC(CentredSamples, SupportClassifier):
    r"""Support vector classification by the nearest points of reduced convex hulls.

    In the reduced convex hull of a class, the mass of each sample is at most D = 1/k: the hull
    shrinks as k grows, and up to about k samples of each class may be on the wrong side. Minimises
    :math:`\frac12 |w|^2 - (\theta_+ - \theta_-) + \sum_i D_i \xi_i` subject to
    :math:`\langle w, \phi(x_i) \rangle \ge \theta_+ - \xi_i` for the positive samples and
    :math:`\le \theta_- + \xi_i` for the negative ones (P2 of Balcázar et al. 2008). k = 1 is
    the hard margin. ``NuSVC(nu=nu_)`` and ``SVC(C=equivalent_C_)`` have the same decision boundary;
    here k is a number of samples, and the smallest feasible k can be computed.

    Parameters
    ----------
    k : "auto", number, or pair (k_plus, k_minus), default="auto"
        Minimum number of samples that share the unit mass of a class. A number from 1 up to the
        class size counts samples (by weight); a float in (0, 1) is a fraction of the class. "auto"
        is the smallest integer for which the reduced hulls are disjoint (for nonlinear kernels: by
        more than 1e-5 of the extent of the data). If no common k separates them, it is the smallest
        pair in proportion to the class sizes, with a warning. In a pair, plus is ``classes_[1]``;
        with more than two classes, the first class of each pair of classes.
    D : number or pair (D_plus, D_minus), default=None
        Largest mass of a sample, 1/k; an alternative to k. Values above 1 are equivalent to 1.
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"} or callable, default="linear"
        As for :class:`SVC`. Narrow kernels separate any samples, so that k="auto" is 1 and the
        model overfits; choose k explicitly for these.
    degree, gamma, coef0
        As for :class:`SVC`.
    cut : {"theta", "hull"}, default="theta"
        Position of the boundary: midway between the thresholds, as for :class:`SVC`, or midway
        between the nearest points. With "hull" there are no probabilities and no leave-one-out.
    solver : {"auto", "qp", "smo", "implicit", "sampling"}, default="auto"
        "smo" is the solver of :class:`SVC`, for any kernel. The others are exact and require the
        linear kernel and dense samples: "qp" is an interior-point method, "implicit" applies it to
        the samples near the thresholds in a few passes over the data, and "sampling" solves random
        subsamples as in Balcázar et al. (2008), Fig. 3, for small k. "auto" is "qp" or "implicit"
        for dense samples, the linear kernel and up to 100 features, otherwise "smo".
    calibration : {"sigmoid", "isotonic"}, default="sigmoid"
        As for :class:`SVC`.
    tol : float, default=1e-3
        Tolerance for stopping: largest violation of the KKT conditions, in units of half the
        margin theta_plus - theta_minus, as for :class:`SVC`.
    cache_size, max_iter, time_limit, random_state, verbose
        As for :class:`SVC`.

    Attributes
    ----------
    theta_plus_, theta_minus_ : float, or ndarray of shape (n_pairs,) for more than two classes
        Thresholds on w.x, in the scale of the problem above.
    k_ : number or pair, or a list with one for each pair of classes
        Value of k used in the fit, or (k_plus, k_minus) if these differ.
    outliers_ : ndarray
        Indices of the training samples beyond the threshold of their class (xi > 0) in any pair.
    nu_ : float, or ndarray of shape (n_pairs,)
        2 / sum(D), the nu of :class:`NuSVC` with the same boundary. For the hard margin, k = 1,
        D = 2 is used here and below: any D > 1 gives the same boundary, and with D = 2 the
        solutions of the equivalent problems are unique as well.
    equivalent_C_ : float or pair, or a list with one for each pair of classes
        2 D / (theta_plus - theta_minus), the C of :class:`SVC` with the same boundary; a pair if
        k_plus and k_minus differ.
    history_ : list of dict, or a list of them for more than two classes
        Rounds of "implicit" and "sampling": samples used, violators, bounds. Otherwise empty.
    margin_ : float or ndarray of shape (n_pairs,)
        Half the distance of the planes at theta_plus and theta_minus, as for :class:`SVC`.
    dual_coef_, intercept_
        As for :class:`SVC` with C = `equivalent_C_`: `decision_function` is +1 at theta_plus and -1
        at theta_minus (with ``cut="hull"``, shifted to be 0 at that boundary).
    coef_ : ndarray of shape (n_pairs, n_features)
        Weights of the features in the same scale; linear kernel only.
    certificate_, certificates_
        Objectives in the scale of the problem above, KKT violation in the units of tol.
    classes_, support_, support_vectors_, n_support_, gamma_, n_iter_, fit_status_, shape_fit_
        As for :class:`SVC`.
    n_features_in_, feature_names_in_
        Number of features seen during `fit`, and their names if X has string column names.

    See Also
    --------
    NuSVC : Same boundary, controlled by the fraction of margin errors.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import ReducedHullSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ReducedHullSVC().fit(X[50:], y[50:])  # two classes that overlap
    >>> model.k_, model.outliers_
    (3, array([20, 33, 83, 88]))
    """

    def __init__(
        self,
        *,
        k: Any = "auto",
        D: Any = None,
        kernel: Any = "linear",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        cut: str = "theta",
        solver: str = "auto",
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
        self.k = k
        self.D = D
        self.cut = cut
        self.solver = solver
        self.calibration = calibration

    # -- parameters ------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_calibration(self.calibration)
        require_choice("cut", self.cut, ("theta", "hull"))
        require_choice("solver", self.solver, SOLVERS)
        if self.solver in LINEAR_METHODS and self.kernel != "linear":
            require(False, "solver", self.solver, '"auto" or "smo" unless kernel="linear"')
        check_sizes(self.k, self.D)

    def _asked_sizes(self, m_plus: float, m_minus: float) -> Sizes | None:
        """Return (k_plus, k_minus) as set by the parameters; None for "auto"."""
        return asked_sizes(self.k, self.D, m_plus, m_minus)

    def _costs(self, codes: IntArray, weight: FloatArray) -> FloatArray:
        masses = np.bincount(codes, weights=weight)
        for positive, negative in class_pairs(len(masses)):
            most = float(masses[positive]), float(masses[negative])
            check_limits(self._asked_sizes(*most), most, "k" if self.D is None else "1/D")
        return weight

    def _problem(self, y: FloatArray, cost: FloatArray) -> SoftMargin:
        """Return the hulls with k = 1; `_fit_pair` shrinks them, since "auto" needs the kernel."""
        return reduced_hulls(y, cost)

    # -- fitting ---------------------------------------------------------------------------

    def _fit_pair(
        self, rows: Rows, chosen: IntArray, problem: SoftMargin, watch: Watch
    ) -> Expansion:
        part = rows if len(chosen) == rows.n else rows.part(chosen)
        evaluations = part.evaluations
        how: dict[str, Any] = {
            "budget": self._budget(watch),
            "method": self.solver,
            "seed": seed_of(self.random_state),
        }
        watch.next_part()
        with worker_threads() as part.threads:
            asked = self._asked_sizes(*class_masses(problem))
            sizes = smallest_sizes(problem, part, how) if asked is None else asked
            hulls = shrink(problem, *sizes)
            found = reduced_hull.solve(hulls, part, tol=self.tol, **how)
            # For an indefinite kernel a zero distance does not imply that the hulls meet.
            certain = found.status in ("converged", "stalled") and not self._indefinite
            if not found.separable and certain:
                raise ValueError(why_not(sizes, problem, part, how))
            coef = part.X.T @ found.alpha if self.kernel == "linear" else None
            theta = self._published_thresholds(found, coef)
            unit = 0.5 * float(theta[0] - theta[1])
            theta, bounds = self._not_worse_than_zero(hulls, found, part, theta, coef)
        if not unit > 0:
            unit = max(found.points.norm2, 1e-300)
        coef = None if coef is None else coef / unit
        spent = part.evaluations - evaluations
        certificate = self._certificate(hulls, found, bounds, spent, unit)
        model = HullExpansion.of(found, certificate, unit, chosen, hulls, sizes, self.cut)
        return replace(model, theta=theta, coef=coef)

    def _published_thresholds(self, found: HullResult, coef: FloatArray | None) -> FloatArray:
        """Return theta+ and theta- for the samples as given by the user; zero without a margin."""
        theta = np.array([found.points.theta_plus, found.points.theta_minus])
        if coef is not None and self._origin_ is not None:
            theta += float(coef @ self._origin_)
        return theta if theta[0] > theta[1] else np.zeros(2)

    def _not_worse_than_zero(
        self,
        hulls: SoftMargin,
        found: HullResult,
        rows: Rows,
        theta: FloatArray,
        coef: FloatArray | None,
    ) -> tuple[FloatArray, Bracket]:
        """Return thresholds and bounds; scale the solution if it is worse than w = 0.

        The boundary does not depend on the scale of the solution; the objective of w = 0 is 0.
        """
        bounds = self._hull_bounds(hulls, found, rows, theta, coef)
        apart, norm2 = found.points.eta_plus - found.points.eta_minus, found.points.norm2
        for factor in (power_of_two(apart / norm2) if norm2 > 0 else 0.0, 0.0):
            if bounds.primal <= 0.0:
                break
            dual, scaled = bounds.dual, None if coef is None else factor * coef
            bounds = self._hull_bounds(hulls, found, rows, factor * theta, scaled, factor)
            bounds = replace(bounds, dual=max(bounds.dual, dual))
            theta = factor * theta
        return theta, bounds

    def _hull_bounds(
        self,
        hulls: SoftMargin,
        found: HullResult,
        rows: Rows,
        theta: FloatArray,
        coef: FloatArray | None,
        scale: float = 1.0,
    ) -> Bracket:
        """Return bounds on the optimum of the hull problem on the samples as given by the user."""
        alpha, f, stated = found.alpha, found.f, rows.stated
        size = majorants(stated)
        if stated is not rows:
            used = np.flatnonzero(alpha)
            f = stated.weighted_sum(np.arange(stated.n), stated, used, alpha[used])
        scale = scale if theta.any() else 0.0
        known: dict[str, Any] = {"coefficient_error": 4.0 * U}
        if coef is not None:
            weights = coef if theta.any() else 0.0 * coef
            known = {"model": partial(linear_values, stated.X, weights)}
        point = Point(
            alpha, alpha, -theta, size, scale if coef is None else 1.0,
            cost_error=self._cost_error, mercer=not self._may_be_indefinite(), **known,
        )  # fmt: skip
        return bracket(hulls, point, kernel_values(stated, alpha, f, size))

    def _keep_machines(self, data: TrainingSet, codes: IntArray, machines: list[Expansion]) -> None:
        pairs = cast(list[HullExpansion], machines)
        super()._keep_machines(data, codes, machines)
        scales = np.array([max(0.0, 0.5 * m.points.margin) for m in pairs])
        self._inner_intercept_ = self.intercept_
        if self.kernel == "linear":
            self.coef_ = np.array([m.coef for m in pairs])
            if self._origin_ is not None:
                self.intercept_ = self._inner_intercept_ - self.coef_ @ self._origin_
        both = np.array([m.theta for m in pairs])
        ones = [[masses(np.ones(1), k)[0] for k in m.sizes] for m in pairs]
        costs = [
            (float(D[0] / scale), float(D[1] / scale)) if scale else (np.inf, np.inf)
            for D, scale in zip(ones, scales, strict=True)
        ]
        set_per_machine(
            self,
            theta_plus_=both[:, 0],
            theta_minus_=both[:, 1],
            nu_=np.array([equivalent_nu(m.hulls) for m in pairs]),
            k_=[single((tidy(m.sizes[0]), tidy(m.sizes[1]))) for m in pairs],
            history_=[m.history for m in pairs],
            equivalent_C_=[single(c) for c in costs],
        )
        outlier = np.zeros(len(data.weight) + 1, dtype=bool)  # last: zero weight
        for m in pairs:
            outlier[m.machine.rows[m.outlier]] = True
        self.outliers_ = np.flatnonzero(outlier[data.member])

    def _keep_record(
        self,
        data: TrainingSet,
        machines: list[Machine],
        pairs: list[tuple[int, int]],
        refusal: str = "",
    ) -> None:
        if self.kernel == "linear" and self._origin_ is not None:
            shifts = self.coef_ @ self._origin_
            machines = [
                replace(m, threshold=m.threshold - float(shift))
                for m, shift in zip(machines, shifts, strict=True)
            ]
        refusal = f": left-out values {NEEDS_THETA}" if self.cut == "hull" else ""
        super()._keep_record(data, machines, pairs, refusal)

    def _pair_values(self, X: Any) -> FloatArray:
        if self.kernel != "linear":
            return super()._pair_values(X)
        X = check_X(self, X)
        if self._origin_ is None or sp.issparse(X):
            return np.asarray(safe_sparse_dot(X, self.coef_.T)) + self.intercept_
        return np.asarray((X - self._origin_) @ self.coef_.T) + self._inner_intercept_

    @available_if(_cut_is_theta)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class, see :meth:`SVC.predict_proba`.

        Not available with ``cut="hull"``: the calibration uses leave-one-out decision values of
        the equivalent :class:`SVC`, whose boundary is that of ``cut="theta"``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`.
        """
        return super().predict_proba(X)
