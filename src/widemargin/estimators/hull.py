"""Nearest points of reduced convex hulls as a classifier: ReducedHullSVC."""

from __future__ import annotations

import numbers
import warnings
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if

from widemargin._progress import Watch
from widemargin._threads import worker_threads
from widemargin._typing import BoolArray, FloatArray, IntArray
from widemargin._validation import TrainingSet, check_X, require
from widemargin.assess.probability import check_calibration
from widemargin.assess.record import Machine, Record, Training
from widemargin.estimators._kernel_machine import Expansion
from widemargin.estimators._support import SupportClassifier
from widemargin.kernels import Rows
from widemargin.problems.one_vs_one import class_pairs
from widemargin.problems.reduced_hull import (
    NearestPoints,
    class_masses,
    equivalent_cost,
    equivalent_nu,
    reduced_hulls,
    shrink,
)
from widemargin.problems.soft_margin import SoftMargin, c_classification
from widemargin.solvers.nearest_points import half_margin, solve_nearest
from widemargin.solvers.smallest_k import critical_k, smallest_k, smallest_pair

Sizes: TypeAlias = tuple[float, float]
"""k_plus and k_minus."""

SOLVERS = ("auto", "smo")
_NEEDS_THETA = (
    "need cut='theta': leave-one-out is that of the machine at its equivalent C, whose boundary "
    "is the middle of the thresholds; this model has cut='hull'"
)
AT_BOUND = 1e-9  # relative: a mass this near its bound is at it


@dataclass(frozen=True)
class HullExpansion(Expansion):
    """A fitted pair of classes with the hulls that it stands between."""

    sizes: Sizes
    hulls: SoftMargin
    points: NearestPoints
    outlier: BoolArray  # over the rows of the pair


def _cut_is_theta(model: ReducedHullSVC) -> bool:
    """Tell whether there are probabilities; scikit-learn shows the error as the reason."""
    if model.cut == "hull":
        raise AttributeError(f"probabilities {_NEEDS_THETA}")
    return True


class ReducedHullSVC(SupportClassifier):
    r"""Classifier between the nearest points of the classes' reduced convex hulls.

    A class may put at most the mass D = 1/k on any one example: its hull shrinks as k grows, and up
    to about k examples of each class may lie on the wrong side. The machine minimises
    :math:`\frac12 |w|^2 - (\theta_+ - \theta_-) + \sum_i D_i \xi_i` subject to
    :math:`\langle w, \phi(x_i) \rangle \ge \theta_+ - \xi_i` for the positive examples and
    :math:`\le \theta_- + \xi_i` for the negative ones (P2 of Balcázar et al. 2008). k = 1 is the hard
    margin. The same boundary is that of ``NuSVC(nu=nu_)`` and ``SVC(C=equivalent_C_)``; what is
    new is that k counts examples, and that the smallest workable k is found.

    Parameters
    ----------
    k : "auto", number, or pair (k_plus, k_minus), default="auto"
        How many examples share the mass of a class at least. A number from 1 on counts examples
        (by weight); a float in (0, 1) is a fraction of the class. "auto" is the smallest
        integer at which the hulls are apart (for kernels other than the linear one: by more
        than 1e-5 of the data's extent); where no common k works it is, with a warning, the smallest
        pair in proportion to the sizes of the classes. In a pair, plus is ``classes_[1]``; with
        more than two classes, the earlier class of each pair of them.
    D : number or pair (D_plus, D_minus), default=None
        1/k, instead of k. More than 1 is the same as 1.
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"} or callable, default="linear"
        As for :class:`SVC`. With narrow kernels every set of points is separable, so that
        k="auto" is 1 and follows every label: give a k with these.
    cut : {"theta", "hull"}, default="theta"
        Where the boundary is: in the middle of the thresholds, as for :class:`SVC`, or in the
        middle of the nearest points.
    solver : {"auto", "smo"}, default="auto"
        "smo" works on all rows from the start, "auto" predicts from samples which rows matter.
    calibration : {"sigmoid", "isotonic"}, default="sigmoid"
        As for :class:`SVC`.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, in units of half the margin
        theta_plus - theta_minus, as it is for :class:`SVC`.
    degree, gamma, coef0, cache_size, max_iter, time_limit, random_state, verbose
        As for :class:`SVC`.

    Attributes
    ----------
    theta_plus_, theta_minus_ : float, or ndarray of shape (n_pairs,) for more than two classes
        Thresholds of w.x in the scale of the problem.
    k_ : number or pair, or a list with one for each pair of classes
        The k used; (k_plus, k_minus) where they differ.
    outliers_ : ndarray
        Training rows beyond the threshold of their class (xi > 0), in any pair of classes.
    nu_ : float, or ndarray of shape (n_pairs,)
        2 / sum(D): nu of the machine with the same boundary.
    equivalent_C_ : float or pair, or a list with one for each pair of classes
        2 D / (theta_plus - theta_minus): C of the machine with the same boundary, as a pair
        where k_plus and k_minus differ.
    dual_coef_, intercept_
        In the scale of that C-machine: `decision_function` is +1 at theta_plus and -1 at
        theta_minus (with ``cut="hull"`` the same function less its value at the cut).
    coef_ : ndarray of shape (n_pairs, n_features)
        Weights of the linear kernel in that scale.
    certificate_, certificates_
        Primal and dual of the problem in its own scale; the KKT violation in units of tol.
    classes_, support_, support_vectors_, n_support_, gamma_, n_iter_
        As for :class:`SVC`.

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
            kernel=kernel,
            degree=degree,
            gamma=gamma,
            coef0=coef0,
            tol=tol,
            cache_size=cache_size,
            max_iter=max_iter,
            time_limit=time_limit,
            random_state=random_state,
            verbose=verbose,
        )
        self.k = k
        self.D = D
        self.cut = cut
        self.solver = solver
        self.calibration = calibration

    # -- parameters ------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_calibration(self.calibration)
        require(self.cut in ("theta", "hull"), "cut", self.cut, '"theta" or "hull"')
        names = " or ".join(f'"{name}"' for name in SOLVERS)
        require(self.solver in SOLVERS, "solver", self.solver, names)
        automatic = isinstance(self.k, str)
        if self.D is not None:
            require(automatic and self.k == "auto", "k", self.k, '"auto" where D is given')
            good = all(_is_number(D) and D > 0 for D in _pair(self.D))
            require(good, "D", self.D, "a positive number (1/k) or a pair of them")
        elif automatic:
            require(self.k == "auto", "k", self.k, '"auto", a number or a pair of numbers')
        else:
            good = all(_is_number(k) and (k >= 1 or _is_fraction(k)) for k in _pair(self.k))
            fix = 'at least 1, a float in (0, 1) as a fraction of the class, a pair, or "auto"'
            require(good, "k", self.k, fix)

    def _asked_sizes(self, m_plus: float, m_minus: float) -> Sizes | None:
        """Return the k that the parameters ask for; None for the smallest that works."""
        if self.D is not None:
            D_plus, D_minus = _pair(self.D)
            return max(1.0, 1.0 / D_plus), max(1.0, 1.0 / D_minus)
        if isinstance(self.k, str):
            return None
        k_plus, k_minus = (
            k * m if _is_fraction(k) else k
            for k, m in zip(_pair(self.k), (m_plus, m_minus), strict=True)
        )
        return float(k_plus), float(k_minus)

    def _costs(self, codes: IntArray, weight: FloatArray) -> FloatArray:
        masses = np.bincount(codes, weights=weight)
        for pair in class_pairs(len(masses)):
            most = masses[pair[0]], masses[pair[1]]
            asked = self._asked_sizes(*most)
            if asked is None:
                continue
            for k, m in zip(asked, most, strict=True):
                if k > m * (1 + 1e-12):
                    limit = _tidy(min(most)) if asked[0] == asked[1] else _tidy(m)
                    which = "the smaller class" if asked[0] == asked[1] else "its class"
                    name = "k" if self.D is None else "1/D"
                    raise ValueError(
                        f"{name} must be <= {limit}, the size of {which}; got "
                        f"{name}={_tidy(k)} (rows are counted by sample_weight)"
                    )
        return weight

    def _problem(self, y: FloatArray, cost: FloatArray) -> SoftMargin:
        """Return the hulls at k = 1: they are shrunk when the kernel is known."""
        return reduced_hulls(y, cost)

    # -- fitting ---------------------------------------------------------------------------

    def _begin(self, data: TrainingSet) -> Rows:
        """The linear kernel sees the rows from their mean: a shift changes no mass."""
        rows = super()._begin(data)
        self._origin_: FloatArray | None = None
        if rows.kernel.name == "linear" and not sp.issparse(data.X):
            self._origin_ = data.X.mean(axis=0, dtype=np.float64)
            rows = Rows(rows.kernel, data.X.astype(np.float64) - self._origin_)
        return rows

    def _fit_pair(
        self, rows: Rows, chosen: IntArray, problem: SoftMargin, watch: Watch
    ) -> Expansion:
        part = self._rows_of(rows, chosen)
        evaluations = part.evaluations
        options = self._solver_options(problem.n_rows, watch)
        options["sample"] = self.solver == "auto"
        watch.next_part()
        with worker_threads() as part.threads:
            asked = self._asked_sizes(*class_masses(problem))
            sizes = self._smallest_sizes(problem, part, options) if asked is None else asked
            hulls = shrink(problem, *sizes)
            result, points, apart = solve_nearest(hulls, part, half_margin, tol=self.tol, **options)
            if not apart and result.status in ("optimal", "stalled"):
                raise ValueError(self._why_not(sizes, problem, part, options))
        unit = 0.5 * points.margin if points.margin > 0 else max(points.norm2, 1e-300)
        violation = hulls.kkt_violation(result.b, result.f) / unit
        certificate = hulls.certificate(
            result.b,
            result.f,
            tol=self.tol,
            n_iter=result.n_iter,
            kernel_evaluations=part.evaluations - evaluations,
            converged=violation <= self.tol and not self._indefinite,
        )
        cost = equivalent_cost(hulls, 2.0 * unit)
        label = np.where(hulls.group == 0, 1.0, -1.0)
        b = result.b / unit
        used = np.flatnonzero(b)
        at_bound = np.abs(result.b) >= (1.0 - AT_BOUND) * (hulls.upper - hulls.lower)
        beyond = points.slack(hulls, result.f) > AT_BOUND * unit
        return HullExpansion(
            rows=chosen[used],
            beta=b[used],
            intercept=-points.cut(self.cut) / unit,
            thresholds=np.array([-points.theta_plus, -points.theta_minus]),
            certificate=replace(certificate, kkt_violation=violation),
            status=result.status,
            machine=Machine(chosen, c_classification(label, cost), b, -points.cut("theta") / unit),
            sizes=sizes,
            hulls=hulls,
            points=points,
            outlier=at_bound & beyond,
        )

    def _smallest_sizes(self, problem: SoftMargin, rows: Rows, options: dict[str, Any]) -> Sizes:
        """Return the smallest common k that works, or else the smallest pair."""
        most = min(class_masses(problem))
        k = smallest_k(critical_k(problem, rows, **options), most)
        if k is not None:
            return k, k
        pair = smallest_pair(problem, rows, **options)
        if pair is None:
            raise ValueError(_NO_PAIR)
        warnings.warn(
            f'k="auto": no common k separates the classes (up to {_tidy(most)}, the size of the '
            f"smaller one). Taken is k_plus={_tidy(pair[0])}, k_minus={_tidy(pair[1])}, the "
            "smallest pair in proportion to the classes; give k=(k_plus, k_minus) for another",
            UserWarning, stacklevel=5,
        )  # fmt: skip
        return pair

    def _why_not(
        self, sizes: Sizes, problem: SoftMargin, rows: Rows, options: dict[str, Any]
    ) -> str:
        """Say that the hulls meet, and which k would do."""
        given = _tidy(sizes[0]) if sizes[0] == sizes[1] else tuple(_tidy(k) for k in sizes)
        meet = f"k={given} is too small: the reduced hulls of the two classes meet"
        if sizes == (1.0, 1.0):
            meet = "k=1 is too small: the classes are not separable"
        k = smallest_k(critical_k(problem, rows, **options), min(class_masses(problem)))
        if k is not None:
            return f"{meet}. The smallest k that works for both is {_tidy(k)}: use k >= {_tidy(k)}"
        pair = smallest_pair(problem, rows, **options)
        if pair is None:
            return f"{meet}. {_NO_PAIR}"
        return (
            f"{meet}, and no common k works: one class lies inside the other. Use k_plus != "
            f"k_minus, for instance k=({_tidy(pair[0])}, {_tidy(pair[1])}), the smallest pair in "
            "proportion to the classes"
        )

    def _keep_machines(self, data: TrainingSet, codes: IntArray, machines: list[Expansion]) -> None:
        pairs = [m for m in machines if isinstance(m, HullExpansion)]
        super()._keep_machines(data, codes, machines)
        scales = np.array([0.5 * m.points.margin for m in pairs])
        shifts = np.zeros(len(pairs))
        self._inner_intercept_ = self.intercept_
        if self.kernel == "linear":
            support = self.support_vectors_
            if self._origin_ is not None:
                support = support - self._origin_
            self.coef_ = np.asarray(safe_sparse_dot(self._pair_coefficients().T, support))
            if self._origin_ is not None:
                shifts = self.coef_ @ self._origin_
                self.intercept_ = self._inner_intercept_ - shifts
        both = np.array([[m.points.theta_plus, m.points.theta_minus] for m in pairs])
        both += (shifts * scales)[:, None]
        costs = [(1.0 / (m.sizes[0] * c), 1.0 / (m.sizes[1] * c))
                 for m, c in zip(pairs, scales, strict=True)]  # fmt: skip
        self._note(
            theta_plus_=both[:, 0],
            theta_minus_=both[:, 1],
            nu_=np.array([equivalent_nu(m.hulls) for m in pairs]),
            k_=[_single(tuple(_tidy(k) for k in m.sizes)) for m in pairs],
            equivalent_C_=[_single(tuple(map(float, c))) for c in costs],
        )
        outlier = np.zeros(len(data.weight) + 1, dtype=bool)  # the last entry: rows of no weight
        for m in pairs:
            outlier[m.machine.rows[m.outlier]] = True
        self.outliers_ = np.flatnonzero(outlier[data.member])

    def _note(self, **found: Any) -> None:
        """Set attributes: the value itself for two classes, one for each pair for more."""
        for name, values in found.items():
            single = float(values[0]) if isinstance(values, np.ndarray) else values[0]
            setattr(self, name, single if len(values) == 1 else values)

    def _keep_record(
        self, data: TrainingSet, machines: list[Machine], pairs: list[tuple[int, int]]
    ) -> None:
        if self.kernel == "linear" and self._origin_ is not None:
            shifts = self.coef_ @ self._origin_
            machines = [
                replace(m, threshold=m.threshold - float(shift))
                for m, shift in zip(machines, shifts, strict=True)
            ]
        super()._keep_record(data, machines, pairs)
        if self.cut == "hull":
            self._record_ = _ThetaOnly(self._record_.training)

    def _pair_values(self, X: Any) -> FloatArray:
        if self.kernel != "linear":
            return super()._pair_values(X)
        X = check_X(self, X, reset=False)
        if self._origin_ is None or sp.issparse(X):
            return np.asarray(safe_sparse_dot(X, self.coef_.T)) + self.intercept_
        return np.asarray((X - self._origin_) @ self.coef_.T) + self._inner_intercept_

    @available_if(_cut_is_theta)
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class, see :meth:`SVC.predict_proba`.

        With ``cut="hull"`` there are none: they rest on leave-one-out, which is that of the
        machine at its equivalent C, and its boundary is the other one.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`.
        """
        return super().predict_proba(X)

    @available_if(_cut_is_theta)
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of the probability of each class; not with ``cut="hull"``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithms of :meth:`predict_proba`.
        """
        return super().predict_log_proba(X)


_NO_PAIR = (
    "No k works: the means of the classes coincide, so that even the smallest hulls meet. Use "
    "another kernel, for instance kernel='rbf'"
)


class _ThetaOnly(Record):
    """The record of a machine whose boundary is not that of its equivalent C-machine."""

    def require_training(self, question: str) -> Training:
        raise ValueError(f"{question}: left-out values {_NEEDS_THETA}")


def _pair(value: Any) -> tuple[Any, Any]:
    """Return the values for the two classes."""
    if isinstance(value, tuple | list | np.ndarray) and len(value) == 2:
        return value[0], value[1]
    return value, value


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, numbers.Real)
        and not isinstance(value, bool)
        and np.isfinite(float(value))
    )


def _is_fraction(k: Any) -> bool:
    return not isinstance(k, numbers.Integral) and 0 < k < 1


def _tidy(k: float) -> float | int:
    """Whole numbers as int."""
    return int(k) if float(k).is_integer() else float(k)


def _single(pair: tuple[Any, ...]) -> Any:
    """One number where both are the same."""
    return pair[0] if pair[0] == pair[1] else pair
