"""A machine that learns a utility from pairs of rows: statement, solution, what is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from widemargin._base.progress import Watch
from widemargin._base.validation import check_fit
from widemargin.estimators._base.kernel import KernelMachine, check_square
from widemargin.estimators.ordinal.data import RankedRows
from widemargin.fitted.ordinal import OrdinalMachine, RankTraining, rank_thresholds
from widemargin.fitted.record import Record
from widemargin.kernels import Rows
from widemargin.problems.preference import PreferenceProblem, preference_problem
from widemargin.solvers.preference import PreferenceResult, solve_preference
from widemargin.solvers.preference.l1 import L1PreferenceResult, solve_l1_preference

DEFAULT_STEPS = 1000  # Newton steps; tens are the rule
NOT_ALWAYS = ("thresholds_", "coef_", "support_", "support_vectors_", "dual_coef_", "n_support_")
OF_QUERIES = (
    "the model was fitted with qid, and what it would say of a row says nothing without the rest "
    "of its query. Leave out whole queries (GroupKFold with groups=qid)"
)


class PreferenceMachine(KernelMachine):
    """Base of OrdinalSVC: everything between its arguments and its predictions."""

    C: float
    loss: Any
    norm: int
    thresholds: str
    C_scale: str
    pooled_ranks: bool
    classes_: Any

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        precomputed = self.kernel == "precomputed"
        X, labels, weight = check_fit(
            self, X, y, sample_weight, numeric=False, accept_sparse=not precomputed, any_labels=True
        )
        check_square(X, precomputed)
        return X, labels, weight

    def _problem(self, rows: RankedRows) -> PreferenceProblem:
        problem = preference_problem(
            rows.codes, C=self.C, loss=self.loss, group=rows.group, weight=rows.data.weight
        )
        if self.C_scale == "total":
            return replace(problem, C=problem.C / problem.n_pairs)
        return problem

    def _budget(self) -> dict[str, Any]:
        """Return what a fit may take."""
        steps = int(self.max_iter) if self.max_iter > 0 else DEFAULT_STEPS
        return {"tol": self.tol, "max_iter": steps, "cache_bytes": self.cache_size * 1e6}

    def _solved(
        self, problem: PreferenceProblem, rows: Rows, watch: Watch
    ) -> PreferenceResult | L1PreferenceResult:
        budget = self._budget()
        if self.norm == 1:
            steps = {name: budget[name] for name in ("tol", "max_iter")}
            return solve_l1_preference(problem, rows.X, monitor=watch, **steps)
        operand = rows.X if self.kernel == "linear" else rows
        return solve_preference(problem, operand, monitor=watch, **budget)

    def _keep_model(
        self,
        rows: RankedRows,
        problem: PreferenceProblem,
        result: PreferenceResult | L1PreferenceResult,
    ) -> None:
        """Store the utility, the thresholds and what proves them."""
        certificate = result.certificate(problem, self.tol)
        if self._indefinite:
            certificate = replace(certificate, converged=False)
        for name in NOT_ALWAYS:  # of an earlier fit
            self.__dict__.pop(name, None)
        self.certificate_ = certificate
        self.n_pairs_ = problem.n_pairs
        self.n_iter_ = certificate.n_iter
        if isinstance(result, L1PreferenceResult):
            self.coef_ = result.w
        elif self.kernel == "linear":
            self.coef_ = result.coef
        else:
            support = np.flatnonzero(result.coef)
            self._keep_support(rows.data, support)
            self.dual_coef_ = result.coef[support][None, :]
            counts = np.bincount(rows.codes[support], minlength=len(self.classes_))
            self.n_support_ = counts.astype(np.int32)
        self._by_query_ = rows.by_query
        if self.pooled_ranks or not rows.by_query:
            n_ranks = len(self.classes_)
            self.thresholds_ = rank_thresholds(self.thresholds, problem, result.f, n_ranks)

    def _keep_record(
        self,
        rows: RankedRows,
        problem: PreferenceProblem,
        result: PreferenceResult | L1PreferenceResult,
        seed: int,
    ) -> None:
        """Keep what leave-one-out and everything that rests on it need."""
        machines: list[OrdinalMachine] = []
        if rows.by_query:
            refusal = OF_QUERIES
        elif isinstance(result, L1PreferenceResult):
            refusal = "with norm=1 the utility is no expansion in rows: use cross-validation"
        elif self._indefinite:
            refusal = "the kernel matrix is not positive semi-definite, so that optima are not sure"
        else:
            refusal = ""
            linear, proved = self.kernel == "linear", self.certificate_.converged
            machines = [
                OrdinalMachine(problem, result, linear, proved, self.thresholds, **self._budget())
            ]
        kernel, centre = self._kernel_, self._centre_
        refusal = refusal and f" is refused: {refusal}"
        self._record_ = Record(
            RankTraining(rows.data, kernel, centre, machines, seed, self.classes_, refusal)
        )
