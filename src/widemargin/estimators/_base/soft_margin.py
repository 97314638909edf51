"""Machines whose dual is a quadratic program: the call of its solvers, and what the fit keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from widemargin._base.progress import Watch
from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray
from widemargin._base.validation import TrainingSet
from widemargin.certificate import Certificate
from widemargin.estimators._base.kernel import KernelMachine
from widemargin.fitted.by_path import Training
from widemargin.fitted.record import Machine, Record
from widemargin.kernels import Rows
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.linear.by_reads import can_sample, solve_expansion
from widemargin.solvers.literature import adatron
from widemargin.solvers.soft_margin import active_set
from widemargin.solvers.soft_margin.growing import solve_growing

# Rows of a linear kernel from which on sampling wins, also in units of features, and their number.
MANY_LINEAR_ROWS, ROWS_PER_FEATURE, FEW_FEATURES = 500, 5, 100


@dataclass(frozen=True)
class Expansion:
    """One fitted binary or regression machine: sum_j beta_j k(x_j, x) + intercept."""

    rows: IntArray  # rows of the training set with beta != 0
    beta: FloatArray
    intercept: float
    thresholds: FloatArray
    certificate: Certificate
    status: str
    machine: Machine  # the problem that was solved and its optimum


class SoftMarginMachine(KernelMachine):
    """Base of the machines that solve a `SoftMargin`."""

    def _solve(self, problem: SoftMargin, rows: Rows, watch: Watch) -> Expansion:
        """Solve one problem and certify the result."""
        n = problem.n_rows
        watch.next_part()
        evaluations = rows.evaluations
        solver = getattr(self, "solver", "auto")
        options = {"tol": self.tol, **self._solver_options(n, watch)}
        with worker_threads() as rows.threads:
            if solver == "adatron":
                result = adatron.solve(problem, rows, **options)
            elif solver in ("auto", "sampling") and self._is_linear_and_large(problem, rows):
                few = {name: options[name] for name in options if name != "cache_bytes"}
                result = solve_expansion(problem, rows, **few)
                if result.status in (
                    "stalled",
                    "max_iter",
                ):  # rounding: features far apart in scale
                    result = active_set.solve(problem, rows, start=result.b, **options)
            elif solver == "sampling":
                result = solve_growing(problem, rows, **options)
            else:
                result = active_set.solve(problem, rows, sample=solver == "auto", **options)
        certificate = problem.certificate(
            result.b,
            result.f,
            tol=self.tol,
            n_iter=result.n_iter,
            kernel_evaluations=rows.evaluations - evaluations,
        )
        if self._indefinite:
            certificate = replace(certificate, converged=False)
        beta = problem.coefficients(result.b)
        used = np.flatnonzero(beta)
        thresholds = problem.thresholds(result.f)
        intercept = float(thresholds.mean()) if len(thresholds) else 0.0
        machine = Machine(np.arange(n), problem, result.b, intercept)
        return Expansion(
            used, beta[used], intercept, thresholds, certificate, result.status, machine
        )

    @staticmethod
    def _is_linear_and_large(problem: SoftMargin, rows: Rows) -> bool:
        """Whether few reads of the rows give the exact optimum: no kernel value is needed."""
        n_features = rows.X.shape[1]
        large = rows.n >= max(MANY_LINEAR_ROWS, ROWS_PER_FEATURE * n_features)
        return large and n_features <= FEW_FEATURES and can_sample(problem, rows)

    def _keep_record(
        self,
        data: TrainingSet,
        machines: list[Machine],
        pairs: list[tuple[int, int]],
        refusal: str = "",
    ) -> None:
        """Keep what leave-one-out and everything that rests on it need."""
        intercept = any(machine.problem.n_groups for machine in machines)
        self._record_ = Record(
            Training(data, self._kernel_, self._centre_, pairs, machines, intercept, refusal)
        )
