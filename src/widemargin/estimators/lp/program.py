"""Base class of the linear-programming classifiers with kernel expansions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from widemargin._base.messages import warn
from widemargin._base.multiclass import check_classes, rest_labels
from widemargin._base.progress import Watch
from widemargin._base.threads import worker_threads
from widemargin._base.tolerances import SHORT_SUM_ROUNDING
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin._base.validation import (
    TrainingSet,
    canonical,
    check_calibration,
    class_costs,
    require_number,
    seed_of,
)
from widemargin.certificate import gap_scale, warn_unconverged, worst
from widemargin.estimators._base.classification import (
    CalibratedOneVsRest,
    OneVsRestClassifier,
    ScoredClassifier,
    of_given_rows,
    set_per_machine,
    shared_by_weight,
)
from widemargin.estimators._base.diagnostics import Diagnosed, Displayed
from widemargin.estimators._base.kernel import KernelEstimator
from widemargin.estimators._base.rollback import whole_fit
from widemargin.estimators.lp.fit import BinaryFit, KernelData
from widemargin.fitted.program import ProgramMachine, ProgramTraining
from widemargin.fitted.record import Record
from widemargin.kernels import Kernel, Rows
from widemargin.kernels.objects.questions import has_own_noise
from widemargin.problems.linear_program import LIMIT, MarginProgram, largest_lam, limits
from widemargin.solvers.base import Budget, Monitor
from widemargin.solvers.linear_program import solve, zero_result

DEFAULT_STEPS = 100  # Newton steps or sweeps of pivots; usually far fewer are needed
# Asymmetry of a kernel matrix attributed to rounding, by dtype, relative to its largest entry.
ASYMMETRY = {"f": 1e-5, "d": 1e-8}
UNKNOWN = 1e-3  # fraction of an objective above which its rounding errors hide its value
ALONE = 1e-3  # a sample is isolated if all other k(x, .) are below this fraction of k(x, x)
BLOCK = 512  # rows of the kernel matrix per block: bounds the memory of temporaries


class ProgramClassifier(
    OneVsRestClassifier,
    CalibratedOneVsRest,
    ScoredClassifier,
    Diagnosed,
    Displayed,
    KernelEstimator,
):
    """Base of the one-vs-rest linear-programming classifiers; subclasses define the program."""

    # -- to be defined by subclasses -------------------------------------------------------

    path_parameter: ClassVar[str] = ""  # parameter that `regularisation_path` varies
    _lam_times_diagonal = False  # whether lam multiplies k(x, x)

    def _program(self, y: FloatArray, weight: FloatArray, kernel: KernelData) -> MarginProgram:
        """Return the linear program of one binary problem."""
        raise NotImplementedError

    def _lam(self) -> float | None:
        """Return lam, or None if the estimator has no such parameter."""
        raise NotImplementedError

    def _restated(self, problem: MarginProgram, rows: Rows) -> MarginProgram:
        """Return the program of a fitted model with this estimator's parameters."""
        kernel = KernelData(rows, rows.diagonal(), problem.limit, None)
        return self._program(problem.y, problem.weight, kernel)

    # -- fitting ---------------------------------------------------------------------------

    @whole_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training samples, or their symmetric kernel matrix if ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Class labels; at least two classes must occur.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, not negative: weight 2 is equivalent to repeating the sample, weight 0
            to omitting it. None: all weights are 1.

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
        class_weight = getattr(self, "class_weight", None)
        factors = class_costs(class_weight, self.classes_, codes, data.weight)
        weight = data.weight * factors[codes]
        seed = seed_of(self.random_state)
        kernel = replace(self._kernel_data(data), weight_error=_weight_error(data, factors))
        labels = rest_labels(codes, len(self.classes_))
        name = type(self).__name__
        with Watch(name, self.tol, self.verbose, self.time_limit, len(labels)) as watch:
            fits = [self._fit_one(label, weight, kernel, seed, watch) for label in labels]
        self._keep_model(data, codes, fits)
        self._keep_record(data, fits, seed)
        self._warn(data, fits, kernel)
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_calibration(self.calibration)

    def _check_kernel_matrix(self, kernel: Kernel, X: Matrix) -> bool:
        """Accept any kernel: a linear program does not require positive semi-definiteness."""
        return False

    def _kernel_data(self, data: TrainingSet) -> KernelData:
        rows = self._kernel_rows(data)
        with worker_threads() as rows.threads:
            diagonal = rows.diagonal()
            self._check_diagonal(diagonal)
            limit = limits(diagonal, _row_sizes(rows, diagonal))
        # Noise of a kernel object makes equal samples different.
        alike = self.kernel != "precomputed" and not has_own_noise(self.kernel)
        several = len(self.classes_) > 2 and alike
        return KernelData(rows, diagonal, limit, _equal_rows(data) if several else None)

    def _check_diagonal(self, diagonal: FloatArray) -> None:
        """Raise if k(x, x) is negative and the margins depend on it."""
        worst_row = int(diagonal.argmin())
        if self._lam_times_diagonal and (self._lam() or 0.0) > 0 and diagonal[worst_row] < 0:
            raise ValueError(
                f"kernel={self.kernel!r} has k(x, x)={diagonal[worst_row]:g} for a training row: "
                "margins that adapt to k(x, x) need values that are not negative. Use another "
                "kernel, or LPSVC"
            )

    def _fit_one(
        self, y: FloatArray, weight: FloatArray, kernel: KernelData, seed: int, watch: Watch
    ) -> BinaryFit:
        """Solve one binary problem and certify the solution."""
        watch.next_part()
        rows = kernel.rows
        evaluations = rows.evaluations
        problem = self._program(y, weight, kernel)
        with worker_threads() as rows.threads:
            of_weights = rows.symmetric_sum(np.arange(rows.n), y * weight)
        lam, lam_max = self._lam(), self._lam_max(problem, of_weights, kernel)
        if lam is not None and lam >= lam_max:
            result = zero_result(problem, of_weights)
        else:
            result = solve(
                problem,
                rows,
                tol=self.tol,
                budget=self._budget(watch),
                seed=seed,
                weight_values=of_weights,
            )
            if kernel.equal is not None:
                result = replace(result, alpha=_split(result.alpha, y, weight, kernel.equal))
        fit = BinaryFit(problem, result, lam_max, problem.scale(result.alpha, result.f))
        return self._certified(self._rescaled(fit, kernel), kernel, evaluations)

    def _rescaled(self, fit: BinaryFit, kernel: KernelData) -> BinaryFit:
        """Return the solution as it is published, in another scale if the machine has one."""
        return fit

    def _certified(self, fit: BinaryFit, kernel: KernelData, evaluations: int) -> BinaryFit:
        """Return the fit with its certificate, or that of alpha = 0 if its objective is lower."""
        problem, rows, result = fit.certified, kernel.rows, fit.result
        with worker_threads() as rows.threads:
            certificate = problem.certificate(
                rows,
                result.alpha,
                fit.multipliers,
                tol=self.tol,
                n_iter=result.n_iter,
                kernel_evaluations=rows.evaluations - evaluations,
                weight_error=kernel.weight_error,
            )
        of_zero = np.inf if problem.nu is not None else float(problem.weight.sum())
        worse = of_zero < certificate.primal < np.inf
        # Without precise sums (sigmoid kernel) rounding errors can hide an objective that is lower.
        known = certificate.rounding <= UNKNOWN * certificate.primal
        if worse and known and result.alpha.any():
            nothing = np.zeros(rows.n)
            fit = replace(fit, result=replace(result, alpha=nothing, f=nothing))
            return self._certified(fit, kernel, evaluations)
        scale = fit.gap_scale if problem.nu is not None else gap_scale(certificate.primal)
        return replace(fit, found=certificate, gap_scale=scale)

    def _lam_max(self, problem: MarginProgram, of_weights: FloatArray, kernel: KernelData) -> float:
        """Return the smallest lam for which all coefficients are zero."""
        # Gradients at zero that are within their rounding error count as zero.
        pull = problem.y * of_weights
        certain = pull > SHORT_SUM_ROUNDING * problem.kernel_sizes() * problem.weight.sum()
        unit = kernel.diagonal if self._lam_times_diagonal else np.ones(kernel.rows.n)
        return largest_lam(np.where(certain, pull, 0.0), unit)

    def _budget(self, watch: Monitor | None = None, *, default: int = DEFAULT_STEPS) -> Budget:
        return super()._budget(watch, default=default)

    # -- fitted attributes -----------------------------------------------------------------

    def _keep_model(self, data: TrainingSet, codes: IntArray, fits: list[BinaryFit]) -> None:
        """Store support vectors, coefficients, slacks and certificates."""
        alpha = np.array([fit.result.alpha for fit in fits])
        support = np.flatnonzero(alpha.any(axis=0))
        support = self._keep_support_by_class(data, support, codes)
        self.dual_coef_ = (alpha * np.array([fit.problem.y for fit in fits]))[:, support]
        self.certificates_ = [fit.certificate for fit in fits]
        self.certificate_ = worst(self.certificates_)
        self.n_iter_ = np.array([c.n_iter for c in self.certificates_], dtype=np.int32)
        set_per_machine(
            self,
            alpha_=shared_by_weight(alpha, data),
            slack_=of_given_rows(np.array([fit.slack for fit in fits]), data),
            lam_max_=np.array([fit.lam_max for fit in fits]),
        )

    def _keep_record(self, data: TrainingSet, fits: list[BinaryFit], seed: int) -> None:
        """Store the record that leave-one-out and calibration are computed from."""
        budget = self._budget()
        machines = [
            ProgramMachine(
                fit.problem,
                fit.result,
                tol=self.tol,
                max_iter=budget.max_iter,
                cache_bytes=budget.cache_bytes,
                seed=seed,
                held=fit.held,
            )
            for fit in fits
        ]
        self._record_ = Record(ProgramTraining(data, self._kernel_, self._centre_, machines, seed))

    # -- warnings --------------------------------------------------------------------------

    def _warn(self, data: TrainingSet, fits: list[BinaryFit], kernel: KernelData) -> None:
        """Warn about zero or limited coefficients, a missing margin, and a gap above tol."""
        messages = [fit.warning for fit in fits] + [self._nothing_learnt(fits)]
        limited = np.flatnonzero(np.any([fit.at_limit for fit in fits], axis=0))
        if len(limited):
            messages.append(self._why_limited(int(limited[0]), kernel))
        for message in filter(None, messages):
            warn(message, UserWarning)
        scale = next(fit.gap_scale for fit in fits if fit.certificate is self.certificate_)
        statuses = [fit.result.status for fit in fits]
        name = type(self).__name__
        warn_unconverged(name, self.certificate_, statuses, self.tol, data.X, "gap", scale)

    def _nothing_learnt(self, fits: list[BinaryFit]) -> str:
        """Return the warning for classes whose coefficients are all zero, or an empty string."""
        lam = self._lam()
        zero = [k for k, fit in enumerate(fits) if lam is not None and lam >= fit.lam_max]
        if not zero:
            return ""
        several = len(fits) > 1
        classes, largest = self.classes_.tolist(), max(fits[k].lam_max for k in zero)
        which = f" for the classes {[classes[k] for k in zero]}" if several else ""
        return (
            f"lam={lam:g} is not below lam_max_={largest:g}: all coefficients{which} are zero, "
            f"and so are the decision values{'' if several else f' (predict: {classes[0]!r})'}."
            " Lower lam"
        )

    def _why_limited(self, row: int, kernel: KernelData) -> str:
        """Return the warning for a coefficient at its limit: kernel too narrow or too wide."""
        rows = kernel.rows
        values = np.abs(rows.block(np.array([row]), rows, np.arange(rows.n))[0])
        values[row] = 0.0
        alone = values.max() < ALONE * kernel.diagonal[row]
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
    """Return an exactly symmetric kernel matrix; raise if the asymmetry exceeds rounding."""
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
    """Return an upper bound on abs(k(x_i, x_j)) for each row of the kernel matrix."""
    if rows.kernel.is_mercer_by_name:  # Cauchy-Schwarz
        return np.sqrt(np.maximum(diagonal, 0.0) * max(0.0, float(diagonal.max())))
    everything = np.arange(rows.n)
    parts = (everything[k : k + BLOCK] for k in range(0, rows.n, BLOCK))
    return np.concatenate([np.abs(rows.block(p, rows, everything)).max(axis=1) for p in parts])


def _equal_rows(data: TrainingSet) -> IntArray | None:
    """Return a group number per sample, shared by equal samples; None if all are distinct."""
    one_class = canonical(data.X, np.zeros(len(data.weight)), data.weight, always=True)
    return one_class.member if len(one_class.weight) < len(data.weight) else None


def _split(alpha: FloatArray, y: FloatArray, weight: FloatArray, equal: IntArray) -> FloatArray:
    """Split the coefficients of equal samples with equal labels in proportion to their weights.

    Only their sum enters the problem, so this chooses the symmetric one of equivalent optima. Equal
    samples of one class are merged before; here they belong to two classes of the same label.
    """
    group = 2 * equal + (y > 0)
    share = weight / np.bincount(group, weights=weight)[group]
    return np.where(share < 1, share * np.bincount(group, weights=alpha)[group], alpha)


def _weight_error(data: TrainingSet, factors: FloatArray) -> float:
    """Return the relative error of the weights, 0 if they are those of the user or whole sums."""
    given = data.given_weight
    merged = len(data.weight) < np.count_nonzero(given)
    whole = (given == np.floor(given)).all() and data.weight.max() < 2**53
    exact = (factors == 1.0).all() and (whole or not merged)
    return 0.0 if exact else data.cost_error


def check_lam(lam: Any) -> None:
    """Raise unless lam is a nonnegative number."""
    require_number("lam", lam, "a number, not negative", least=0.0)
