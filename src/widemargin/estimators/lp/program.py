"""Classification by linear programs over kernel expansions: what the four machines share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from widemargin._base.messages import warn
from widemargin._base.multiclass import check_classes, rest_labels
from widemargin._base.progress import Watch
from widemargin._base.threads import worker_threads
from widemargin._base.typing import BoolArray, FloatArray, IntArray, Matrix
from widemargin._base.validation import TrainingSet, canonical, class_costs, require_number, seed_of
from widemargin.certificate import Certificate, warn_unconverged, worst
from widemargin.estimators._base.kernel import KernelMachine
from widemargin.estimators._base.one_vs_rest import OneVsRestClassifier, of_given_rows
from widemargin.estimators._base.rollback import whole_fit
from widemargin.fitted.calibration import check_calibration
from widemargin.fitted.program import ProgramMachine, ProgramTraining
from widemargin.kernels import Kernel, Rows
from widemargin.problems.linear_program import LIMIT, MarginProgram, largest_lam, limits
from widemargin.solvers.linear_program import ProgramResult, solve_lp_machine

DEFAULT_STEPS = 100  # Newton steps, or sweeps of pivots; the solvers need far fewer as a rule
ASYMMETRY = {"f": 1e-5, "d": 1e-8}  # of a kernel matrix by dtype, in units of its largest entry
ROUNDING = 1e-15  # of a sum, in units of its terms
AT_LIMIT = 1 - 1e-6
ALONE = 1e-3  # largest value of k(x, .) for other rows, in units of k(x, x)
BLOCK = 512


@dataclass(frozen=True, eq=False)
class Geometry:
    """What the programs need to know of the kernel on the training rows.

    Attributes
    ----------
    rows : Rows
        The rows seen through the kernel.
    diagonal : ndarray
        k(x_i, x_i).
    limit : ndarray
        Largest coefficients, see `problems.linear_program.limits`.
    equal : ndarray or None
        The same number for equal rows of different classes; None where there are none.
    """

    rows: Rows
    diagonal: FloatArray
    limit: FloatArray
    equal: IntArray | None


@dataclass(frozen=True, eq=False)
class Fitted:
    """One machine: its program, the optimum, the proof and what the user has to know of it."""

    problem: MarginProgram
    result: ProgramResult
    certificate: Certificate
    lam_max: float
    warning: str = ""
    rho: float = 1.0  # what coefficients were divided by to have the margin 1

    @property
    def scale_of_gap(self) -> float:
        """What the tolerance of the gap is relative to."""
        return self.problem.scale(self.result.alpha, self.result.f)

    @property
    def slack(self) -> FloatArray:
        """How much each row lacks of its margin."""
        return self.problem.slack(self.result.alpha, self.result.f)


class ProgramClassifier(OneVsRestClassifier, KernelMachine):
    """One-vs-rest classification by a linear program; subclasses state the program."""

    # -- what the machines differ in -------------------------------------------------------

    path_parameter: ClassVar[str] = ""  # the one that `regularisation_path` changes

    def _program(self, y: FloatArray, weight: FloatArray, geometry: Geometry) -> MarginProgram:
        """State the program of one machine."""
        raise NotImplementedError

    def _unit(self, geometry: Geometry) -> FloatArray:
        """Return what lam is a multiple of, see `largest_lam`."""
        return np.ones(geometry.rows.n)

    def _asked_lam(self) -> float | None:
        """Return lam, if the machine has one."""
        raise NotImplementedError

    def _check_diagonal(self, diagonal: FloatArray) -> None:
        """Refuse values of k(x, x) that the program has no meaning for."""

    def _restated(self, problem: MarginProgram, rows: Rows) -> MarginProgram:
        """State the program of a fitted machine of this kind at this estimator's parameters."""
        geometry = Geometry(rows, rows.diagonal(), problem.limit, None)
        return self._program(problem.y, problem.weight, geometry)

    # -- fitting ---------------------------------------------------------------------------

    @whole_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training rows, or the symmetric kernel matrix when ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Class labels of any kind, two or more classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 means the same as the row twice, 0 the same as its absence.

        Returns
        -------
        self : object
            The fitted model.
        """
        self._check_parameters()
        data = self._training_set(X, y, sample_weight, numeric=False, always_merge=True)
        if self.kernel == "precomputed":
            data = replace(data, X=_symmetric(data.X))
        self.classes_, codes = check_classes(data.y)
        weight = data.weight * self._class_factors(codes, data.weight)
        seed = seed_of(self.random_state)
        geometry = self._geometry(data)
        labels = rest_labels(codes, len(self.classes_))
        name = type(self).__name__
        with Watch(name, self.tol, self.verbose, self.time_limit, len(labels)) as watch:
            machines = [self._fit_one(label, weight, geometry, seed, watch) for label in labels]
        self._keep_machines(data, codes, machines)
        self._keep_record(data, machines, seed)
        for message in self._messages(machines, geometry):
            warn(message, UserWarning)
        statuses = [machine.result.status for machine in machines]
        warn_unconverged(
            name, self.certificate_, statuses, self.tol, data.X, "gap",
            next(m.scale_of_gap for m in machines if m.certificate is self.certificate_),
        )  # fmt: skip
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_calibration(self.calibration)

    def _check_kernel_matrix(self, kernel: Kernel, X: Matrix) -> bool:
        """Accept kernels that are indefinite: nothing in a linear program needs them not to be."""
        return False

    def _class_factors(self, codes: IntArray, weight: FloatArray) -> FloatArray:
        """Return the factor of each row's weight."""
        class_weight = getattr(self, "class_weight", None)
        return class_costs(class_weight, self.classes_, codes, weight)[codes]

    def _geometry(self, data: TrainingSet) -> Geometry:
        rows = self._begin(data)
        with worker_threads() as rows.threads:
            diagonal = rows.diagonal()
            self._check_diagonal(diagonal)
            limit = limits(diagonal, _row_sizes(rows, diagonal))
        several = len(self.classes_) > 2 and self.kernel != "precomputed"
        return Geometry(rows, diagonal, limit, _equal_rows(data) if several else None)

    def _fit_one(
        self, y: FloatArray, weight: FloatArray, geometry: Geometry, seed: int, watch: Watch
    ) -> Fitted:
        """Solve one program and certify the result."""
        watch.next_part()
        rows = geometry.rows
        evaluations = rows.evaluations
        problem = self._program(y, weight, geometry)
        with worker_threads() as rows.threads:
            whole = rows.symmetric_sum(np.arange(rows.n), y * weight)
        lam, lam_max = self._asked_lam(), self._lam_max(y * whole, weight, geometry)
        if lam is not None and lam >= lam_max:
            none = np.zeros(rows.n)
            result = ProgramResult(none, weight, none, whole, 1, "converged", "no coefficients")
        else:
            result = solve_lp_machine(
                problem, rows, tol=self.tol, seed=seed, monitor=watch, whole=whole, **self._budget()
            )
            if geometry.equal is not None:
                result = replace(result, alpha=_split(result.alpha, y, weight, geometry.equal))
        certificate = problem.certificate(
            result.alpha,
            result.f,
            result.z,
            result.g,
            tol=self.tol,
            n_iter=result.n_iter,
            kernel_evaluations=rows.evaluations - evaluations,
        )
        return Fitted(problem, result, certificate, lam_max)

    def _lam_max(self, pull: FloatArray, weight: FloatArray, geometry: Geometry) -> float:
        """Return the lam from which on nothing is learnt; a pull within its rounding is none."""
        size = np.divide(LIMIT, geometry.limit, out=np.zeros(len(pull)), where=geometry.limit > 0)
        certain = pull > ROUNDING * size * weight.sum()
        return largest_lam(np.where(certain, pull, 0.0), self._unit(geometry))

    def _budget(self) -> dict[str, Any]:
        """Return the steps and the memory that one program may take."""
        steps = int(self.max_iter) if self.max_iter > 0 else DEFAULT_STEPS
        return {"max_iter": steps, "cache_bytes": self.cache_size * 1e6}

    # -- what is kept ----------------------------------------------------------------------

    def _keep_machines(self, data: TrainingSet, codes: IntArray, machines: list[Fitted]) -> None:
        """Store the coefficients, by class in the canonical order, and what proves them."""
        alpha = np.array([m.result.alpha for m in machines])
        support = np.flatnonzero(alpha.any(axis=0))
        support = support[np.argsort(codes[support], kind="stable")]
        self._keep_support(data, support)
        self.dual_coef_ = (alpha * np.array([m.problem.y for m in machines]))[:, support]
        self.n_support_ = np.bincount(codes[support], minlength=len(self.classes_)).astype(np.int32)
        self.certificates_ = [m.certificate for m in machines]
        self.certificate_ = worst(self.certificates_)
        self.n_iter_ = np.array([c.n_iter for c in self.certificates_], dtype=np.int32)
        share = data.given_weight / np.append(data.weight, 1.0)[data.member]
        self._note(
            alpha_=of_given_rows(alpha, data) * share,
            slack_=of_given_rows(np.array([m.slack for m in machines]), data),
            lam_max_=np.array([m.lam_max for m in machines]),
        )

    def _keep_record(self, data: TrainingSet, machines: list[Fitted], seed: int) -> None:
        """Keep what leave-one-out and everything that rests on it need."""
        kept = [
            ProgramMachine(m.problem, m.result, tol=self.tol, seed=seed, **self._budget())
            for m in machines
        ]
        self._keep_refits(data, kept, seed, ProgramTraining)

    def _messages(self, machines: list[Fitted], geometry: Geometry) -> list[str]:
        """Return what the user has to know of the fit, apart from its convergence."""
        found = [m.warning for m in machines if m.warning]
        lam = self._asked_lam()
        zero = [k for k, m in enumerate(machines) if lam is not None and lam >= m.lam_max]
        if zero:
            several = len(machines) > 1
            classes, largest = self.classes_.tolist(), max(machines[k].lam_max for k in zero)
            which = f" for the classes {[classes[k] for k in zero]}" if several else ""
            found.append(
                f"lam={lam:g} is not below lam_max_={largest:g}: all coefficients{which} are zero, "
                f"and so are the decision values{'' if several else f' (predict: {classes[0]!r})'}."
                " Lower lam"
            )
        limited = np.flatnonzero(np.any([_at_limit(m) for m in machines], axis=0))
        if len(limited):
            found.append(self._why_limited(int(limited[0]), geometry))
        return found

    def _why_limited(self, row: int, geometry: Geometry) -> str:
        """Return why a coefficient is at its limit: the row is alone, or like the others."""
        rows = geometry.rows
        values = np.abs(rows.block(np.array([row]), rows, np.arange(rows.n))[0])
        values[row] = 0.0
        alone = values.max() < ALONE * geometry.diagonal[row]
        width = f"gamma={self.gamma_}" if self._kernel_.name == "rbf" else "its parameters"
        reason = (
            f"the kernel with {width} is so narrow that some rows see no others: widen it (lower "
            "gamma)"
            if alone
            else f"rows hardly differ in the kernel with {width}: standardise the features, narrow "
            "the kernel (raise gamma) or raise lam"
        )
        return (
            f"coefficients have reached their limit, alpha k(x, x) = {LIMIT:g}, where the model "
            f"means little; {reason}"
        )

    # -- prediction ------------------------------------------------------------------------

    def _machine_values(self, X: Any) -> FloatArray:
        return self._expansion_values(X, self.dual_coef_.T)


def _symmetric(K: Matrix) -> Matrix:
    """Return a kernel matrix that is symmetric to the last bit; refuse one that is not at all."""
    exact, largest, worst_pair = True, 0.0, (0.0, 0, 0)
    for start in range(0, len(K), BLOCK):
        strip, mirrored = K[start : start + BLOCK], K[:, start : start + BLOCK].T
        away = np.abs(strip - mirrored)
        largest = max(largest, float(np.abs(strip).max()))
        i, j = divmod(int(away.argmax()), len(K))
        worst_pair = max(worst_pair, (float(away[i, j]), start + i, j))
        exact = exact and worst_pair[0] == 0
    if exact:
        return K
    away, i, j = worst_pair
    if away > ASYMMETRY[K.dtype.char] * largest:
        raise ValueError(
            'X must be a symmetric kernel matrix when kernel="precomputed"; got '
            f"X[{i}, {j}]={K[i, j]} and X[{j}, {i}]={K[j, i]} (rows of positive weight counted): "
            "correct them, or pass (X + X.T) / 2"
        )
    return 0.5 * (K + K.T)


def _row_sizes(rows: Rows, diagonal: FloatArray) -> FloatArray:
    """Return a bound on the kernel values of each row."""
    if rows.kernel.is_mercer_by_name:  # Cauchy-Schwarz
        return np.sqrt(np.maximum(diagonal, 0.0) * max(0.0, float(diagonal.max())))
    everything = np.arange(rows.n)
    parts = (everything[k : k + BLOCK] for k in range(0, rows.n, BLOCK))
    return np.concatenate([np.abs(rows.block(p, rows, everything)).max(axis=1) for p in parts])


def _equal_rows(data: TrainingSet) -> IntArray | None:
    """Number the rows so that equal ones have the same number, None where all are different."""
    one_class = canonical(data.X, np.zeros(len(data.weight)), data.weight, always=True)
    return one_class.member if len(one_class.weight) < len(data.weight) else None


def _split(alpha: FloatArray, y: FloatArray, weight: FloatArray, equal: IntArray) -> FloatArray:
    """Share coefficients of equal rows with equal labels by weight: their sum is all that counts.

    Of the optima that differ in nothing else this one treats the rows alike. The merging of equal
    rows does that within a class; here they are of two classes that are both among the rest.
    """
    group = 2 * equal + (y > 0)
    share = weight / np.bincount(group, weights=weight)[group]
    return np.where(share < 1, share * np.bincount(group, weights=alpha)[group], alpha)


def _at_limit(machine: Fitted) -> BoolArray:
    """Tell which coefficients are as large as they may be; the nu machine's have a sum of 1."""
    alpha, limit = machine.result.alpha, machine.problem.limit
    return np.asarray((limit > 0) & (alpha >= AT_LIMIT * limit) & (machine.problem.nu is None))


def check_lam(lam: Any) -> None:
    """Raise unless lam is a number that is not negative."""
    require_number("lam", lam, "a number, not negative", least=0.0)
