"""Fit one soft-margin problem: solve the dual, certify the solution, store the record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from widemargin._base.progress import Watch
from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin._base.validation import TrainingSet, seed_of
from widemargin.certificate import USEFUL_GAP, Bracket, Certificate, warn_unconverged
from widemargin.estimators._base.proof import Proof
from widemargin.estimators.svm import hard
from widemargin.estimators.svm.certified import CertifiedModel, not_worse_than_constant
from widemargin.estimators.svm.proof import Solution, without_doubt
from widemargin.fitted.by_path import Machine, Training
from widemargin.fitted.record import Record
from widemargin.kernels import Kernel, Rows
from widemargin.kernels.sums import majorants
from widemargin.problems.soft_margin import SoftMargin
from widemargin.problems.soft_margin.bounds import Point, bracket, kernel_values
from widemargin.solvers import soft_margin
from widemargin.solvers.base import Budget, DualResult

# A fit whose relative gap is too large goes on with smaller tolerances, down to the rounding level.
NEXT_TOL, SMALLEST_TOL = 0.1, 1e-13


@dataclass(frozen=True)
class Expansion:
    """Solution of one binary or regression problem: sum_j beta_j k(x_j, x) + intercept."""

    rows: IntArray  # indices of the support vectors in the training set
    beta: FloatArray
    intercept: float
    thresholds: FloatArray
    proof: Proof
    status: str
    machine: Machine  # problem and optimum that leave-one-out starts from
    norm2: float = field(default=np.nan, kw_only=True)  # squared norm of the weights


class SoftMarginFit:
    """Mixin for estimators that solve a `SoftMargin`; precedes `KernelEstimator` in the bases."""

    solver: str = "auto"  # overridden by estimators with a `solver` parameter
    tol: float
    random_state: Any
    _kernel_: Kernel
    _centre_: FloatArray | None
    _indefinite: bool
    _cost_error: float
    _proofs_: list[Proof]
    certificate_: Certificate
    _budget: Callable[..., Budget]

    def _unit(self, problem: SoftMargin, rows: Rows) -> float:
        """Return the unit of `tol`: 1, unless the problem has no scale of its own."""
        return 1.0

    def _expansion(
        self, problem: SoftMargin, whole: Rows, watch: Watch, chosen: IntArray | None = None
    ) -> Expansion:
        """Solve one problem, on all samples or on those chosen; return its kernel expansion."""
        rows = whole if chosen is None else whole.part(chosen)
        unit = self._unit(problem, rows)
        evaluations = rows.evaluations
        watch.next_part()
        how: dict[str, Any] = {
            "budget": self._budget(watch, default=max(500_000, 100 * problem.n_rows)),
            "method": self.solver,
            "seed": seed_of(self.random_state),
        }
        tol = self.tol * unit
        with worker_threads() as rows.threads:
            if problem.is_hard:
                certify = partial(self._certified, problem, rows)
                result, model = hard.solve(problem, rows, certify, tol, how)
            else:
                result = soft_margin.solve(problem, rows, tol=tol, **how)
                solution = self._solution(problem, whole, chosen, result, unit)
                solution = replace(solution, evaluations=rows.evaluations - evaluations)
                proof = self._deferred(solution, result, rows)
                if proof is not None:
                    return _expansion(solution, result.f, result.status, proof)
                result, model = self._improved(problem, rows, result, tol, how)
        result = replace(result, alpha=model.alpha, f=model.f)
        spent = rows.evaluations - evaluations
        certificate = self._certificate(problem, result, model.bounds, spent, unit)
        solution = self._solution(problem, whole, chosen, result, unit)
        solution = replace(solution, thresholds=model.thresholds)
        proof = Proof.of(certificate)
        return _expansion(solution, result.f, result.status, proof, model.scale)

    def _solution(
        self,
        problem: SoftMargin,
        whole: Rows,
        chosen: IntArray | None,
        result: DualResult,
        unit: float,
    ) -> Solution:
        """Return a result with all that its certificate depends on."""
        thresholds = self._thresholds(problem, result.f)
        return Solution(
            problem, whole.without_cache(), chosen, result.alpha, thresholds,
            self._accuracy(thresholds), self.tol, unit, result.n_iter,
        )  # fmt: skip

    def _deferred(self, solution: Solution, result: DualResult, rows: Rows) -> Proof | None:
        """Return a proof to be computed later if the fit has surely converged, else None."""
        if result.status != "converged" or self._may_be_indefinite():
            return None
        found = solution.problem, result.alpha, result.f, solution.thresholds
        primal = without_doubt(*found, rows)
        if primal is None or not self._is_clear(primal):
            return None
        return Proof(result.n_iter, primal, True, solution.certificate)

    def _is_clear(self, primal: float) -> bool:
        """Return whether a small gap at this objective settles the fit; NuSVC overrides this."""
        return True

    def _improved(
        self,
        problem: SoftMargin,
        rows: Rows,
        result: DualResult,
        tol: float,
        how: dict[str, Any],
    ) -> tuple[DualResult, CertifiedModel]:
        """Certify a solution, and go on until the relative gap is small as well."""
        certify = partial(self._certified, problem, rows)
        model = certify(result.alpha, result.f)
        rounds = 0
        while result.status == "converged" and self._is_open(model, rounds) and tol > SMALLEST_TOL:
            tol, rounds = tol * NEXT_TOL, rounds + 1
            further = soft_margin.solve(problem, rows, tol=tol, start=result, **how)
            better = certify(further.alpha, further.f)
            # That rounding errors exceed the smaller tolerance does not matter.
            ended = further.status if further.status != "stalled" else "converged"
            if better.relative_gap < model.relative_gap:
                result, model = replace(further, status=ended), better
            if further.status != "converged":
                result = replace(result, status=ended, n_iter=further.n_iter)
                break

        def values(alpha: FloatArray) -> FloatArray:
            beta = problem.coefficients(alpha)
            used = np.flatnonzero(beta)
            everything = np.arange(rows.n)
            return rows.weighted_sum(everything, rows, used, beta[used])

        done = result.status == "converged" and model.relative_gap <= USEFUL_GAP
        return result, not_worse_than_constant(problem, model, certify, values, converged=done)

    def _is_open(self, model: CertifiedModel, rounds: int) -> bool:
        """Return whether the fit goes on with a smaller tolerance, after some rounds of it."""
        return model.can_be_improved

    def _certified(
        self,
        problem: SoftMargin,
        rows: Rows,
        alpha: FloatArray,
        f: FloatArray,
        scale: float = 1.0,
    ) -> CertifiedModel:
        """Return the model of dual variables alpha with bounds on the optimum."""
        thresholds = self._thresholds(problem, f if scale == 1.0 else scale * f)
        beta = problem.coefficients(alpha)
        known: dict[str, Any] = {"thresholds": thresholds, "scale": scale}
        known |= self._accuracy(thresholds)
        point = Point(alpha, beta, size=majorants(rows), **known)
        found = bracket(problem, point, kernel_values(rows, point.beta, f, point.size))
        return CertifiedModel(alpha, f, scale, thresholds, found)

    def _thresholds(self, problem: SoftMargin, f: FloatArray) -> FloatArray:
        """Return the thresholds of the published model; NuSVR and OneClassSVM override this."""
        return problem.thresholds(f)

    def _accuracy(self, thresholds: FloatArray) -> dict[str, Any]:
        """Return what certified bounds assume, see `Point`; nu estimators add to it."""
        return {"cost_error": self._cost_error, "mercer": not self._may_be_indefinite()}

    def _may_be_indefinite(self) -> bool:
        """Return whether the kernel is known to be indefinite, or may be for some parameters."""
        named = self._kernel_.name in ("poly", "sigmoid")
        return self._indefinite or (named and not self._kernel_.is_mercer_by_name)

    def _certificate(
        self,
        problem: SoftMargin,
        result: DualResult,
        found: Bracket,
        evaluations: int,
        unit: float = 1.0,
    ) -> Certificate:
        """Return the certificate of a solution; never converged if the kernel is indefinite."""
        certificate = problem.certificate(
            result.alpha,
            result.f,
            found,
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
        if all(proof.converged for proof in self._proofs_):
            return
        warn_unconverged(
            type(self).__name__, self.certificate_, statuses, self.tol, X,
            indefinite=self._indefinite or not self._kernel_.is_mercer_by_name,
        )  # fmt: skip


def _expansion(
    solution: Solution, f: FloatArray, status: str, proof: Proof, scale: float = 1.0
) -> Expansion:
    """Return the kernel expansion of a solution whose coefficients are multiplied by scale."""
    problem, thresholds = solution.problem, solution.thresholds
    beta = scale * problem.coefficients(solution.alpha)
    used = np.flatnonzero(beta)
    intercept = float(thresholds.mean()) if len(thresholds) else 0.0
    rows = np.arange(problem.n_rows) if solution.chosen is None else solution.chosen
    machine = Machine(rows, problem, scale * solution.alpha, intercept)
    norm2 = max(0.0, scale * float(beta @ f))
    return Expansion(
        rows[used], beta[used], intercept, thresholds, proof, status, machine, norm2=norm2
    )
