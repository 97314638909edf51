"""Fit one soft-margin problem: solve the dual, certify the solution, store the record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from widemargin._base.progress import Watch
from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin._base.validation import TrainingSet, seed_of
from widemargin.certificate import Certificate, warn_unconverged
from widemargin.fitted.by_path import Machine, Training
from widemargin.fitted.record import Record
from widemargin.kernels import Kernel, Rows
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers import soft_margin
from widemargin.solvers.base import Budget, DualResult


@dataclass(frozen=True)
class Expansion:
    """Solution of one binary or regression problem: sum_j beta_j k(x_j, x) + intercept."""

    rows: IntArray  # indices of the support vectors in the training set
    beta: FloatArray
    intercept: float
    thresholds: FloatArray
    certificate: Certificate
    status: str
    machine: Machine  # problem and optimum that leave-one-out starts from


class SoftMarginFit:
    """Mixin for estimators that solve a `SoftMargin`; precedes `KernelEstimator` in the bases."""

    solver: str = "auto"  # overridden by estimators with a `solver` parameter
    tol: float
    random_state: Any
    certificate_: Certificate
    _kernel_: Kernel
    _centre_: FloatArray | None
    _indefinite: bool
    _budget: Callable[..., Budget]

    def _unit(self, problem: SoftMargin, rows: Rows) -> float:
        """Return the unit of `tol`: 1, unless the problem has no scale of its own."""
        return 1.0

    def _expansion(self, problem: SoftMargin, rows: Rows, watch: Watch) -> Expansion:
        """Solve one problem and return its certified kernel expansion."""
        unit = self._unit(problem, rows)
        n, evaluations = problem.n_rows, rows.evaluations
        watch.next_part()
        with worker_threads() as rows.threads:
            result = soft_margin.solve(
                problem,
                rows,
                tol=self.tol * unit,
                budget=self._budget(watch, default=max(500_000, 100 * n)),
                method=self.solver,
                seed=seed_of(self.random_state),
            )
        beta, thresholds = problem.coefficients(result.alpha), problem.thresholds(result.f)
        certificate = self._certificate(problem, result, rows.evaluations - evaluations, unit)
        used = np.flatnonzero(beta)
        intercept = float(thresholds.mean()) if len(thresholds) else 0.0
        machine = Machine(np.arange(n), problem, result.alpha, intercept)
        return Expansion(
            used, beta[used], intercept, thresholds, certificate, result.status, machine
        )

    def _certificate(
        self, problem: SoftMargin, result: DualResult, evaluations: int, unit: float = 1.0
    ) -> Certificate:
        """Return the certificate of a solution; never converged if the kernel is indefinite."""
        certificate = problem.certificate(
            result.alpha,
            result.f,
            tol=self.tol,
            n_iter=result.n_iter,
            kernel_evaluations=evaluations,
            unit=unit,
        )
        return replace(certificate, converged=False) if self._indefinite else certificate

    def _keep_record(
        self,
        data: TrainingSet,
        machines: list[Machine],
        pairs: list[tuple[int, int]],
        refusal: str = "",
    ) -> None:
        """Store the record that leave-one-out and calibration are computed from."""
        intercept = any(len(machine.problem.totals) > 0 for machine in machines)
        self._record_ = Record(
            Training(data, self._kernel_, self._centre_, pairs, machines, intercept, refusal)
        )

    def _warn_unconverged(self, statuses: list[str], X: Matrix) -> None:
        """Warn if the worst certificate exceeds tol."""
        warn_unconverged(
            type(self).__name__, self.certificate_, statuses, self.tol, X,
            indefinite=self._indefinite or not self._kernel_.is_mercer_by_name,
        )  # fmt: skip
