"""Fit the utility of OrdinalSVC: state the pairwise problem, solve it, store the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from widemargin._base.progress import Watch
from widemargin._base.threads import worker_threads
from widemargin._base.validation import canonical
from widemargin.certificate import Certificate
from widemargin.estimators._base.diagnostics import Diagnosed, Displayed
from widemargin.estimators._base.kernel import KernelEstimator
from widemargin.estimators.ordinal.data import RankedRows, check_queries, check_ranks, query_codes
from widemargin.fitted.ordinal import OrdinalMachine, RankTraining, rank_thresholds
from widemargin.fitted.record import Record
from widemargin.kernels import Rows
from widemargin.kernels.objects.questions import has_own_noise
from widemargin.problems.preference import PreferenceProblem, preference_problem
from widemargin.problems.ranks import ordered_classes, used_ranks
from widemargin.solvers.preference import PreferenceResult, solve

HALVINGS = 64  # smallest multiple that is tried of a model that is worse than w = 0: 2^-63
DEFAULT_STEPS = 1000  # Newton steps; a fit usually takes tens
NOT_ALWAYS = ("thresholds_", "coef_", "support_", "support_vectors_", "dual_coef_", "n_support_")
OF_QUERIES = (
    "the model was fitted with qid, and what it would say of a row says nothing without the rest "
    "of its query. Leave out whole queries (GroupKFold with groups=qid)"
)


class PreferenceMachine(Diagnosed, Displayed, KernelEstimator):
    """Base of OrdinalSVC: the steps of `fit`."""

    C: float
    loss: Any
    norm: int
    thresholds: str
    C_scale: str
    pooled_ranks: bool
    classes: Any
    classes_: Any

    def _ranked_rows(self, X: Any, y: Any, sample_weight: Any, qid: Any) -> RankedRows:
        """Validate the arguments of `fit`; return the training data in canonical order."""
        X, labels, weight = self._checked_arguments(
            X, y, sample_weight, numeric=False, any_labels=True
        )
        classes, codes = ordered_classes(y, self.classes)
        if qid is None:
            check_ranks(labels)
        group = query_codes(qid, len(labels))
        precomputed = self.kernel == "precomputed"
        merge = not has_own_noise(self.kernel)
        data = canonical(X, codes, weight, group=group, precomputed=precomputed, merge=merge)
        classes, codes = used_ranks(classes, data.y)
        data = replace(data, y=labels[data.index], given_y=labels)
        rows = RankedRows(data, classes, codes, group[data.index], qid is not None)
        if rows.by_query:
            check_queries(rows, qid)
        return rows

    def _problem(self, rows: RankedRows) -> PreferenceProblem:
        problem = preference_problem(
            rows.codes,
            C=self.C,
            loss=self.loss,
            norm=int(self.norm),
            group=rows.group,
            weight=rows.data.weight,
        )
        # The number of pairs is a sum over the same weights.
        problem = replace(problem, cost_error=2.0 * rows.data.cost_error)
        if self.C_scale == "total":
            return replace(problem, C=problem.C / problem.n_pairs)
        return problem

    def _result(
        self, problem: PreferenceProblem, rows: Rows
    ) -> tuple[PreferenceResult, Certificate]:
        """Solve the problem; return the model, never worse than w = 0, with its certificate."""
        data = rows.X if self.kernel == "linear" else rows
        with (
            Watch("OrdinalSVC", self.tol, self.verbose, self.time_limit) as watch,
            worker_threads() as rows.threads,
        ):
            budget = self._budget(watch, default=DEFAULT_STEPS)
            result = solve(problem, data, tol=self.tol, budget=budget)
            certify = partial(
                problem.certificate, data=data, tol=self.tol, mercer=not self._indefinite
            )
            result, certificate = not_worse_than_zero(problem, result, certify)
        if self._indefinite:
            certificate = replace(certificate, converged=False)
        return result, certificate

    def _keep_model(
        self,
        rows: RankedRows,
        problem: PreferenceProblem,
        result: PreferenceResult,
        certificate: Certificate,
    ) -> None:
        """Store utility, thresholds and certificate."""
        for name in NOT_ALWAYS:  # left from an earlier fit with other parameters
            self.__dict__.pop(name, None)
        self.classes_ = rows.classes
        self.certificate_ = certificate
        self.n_pairs_ = problem.n_pairs
        self.n_iter_ = certificate.n_iter
        if self.kernel == "linear":
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
        result: PreferenceResult,
        seed: int,
    ) -> None:
        """Store the record that leave-one-out is computed from, or the reason why it is refused."""
        machines: list[OrdinalMachine] = []
        if rows.by_query:
            refusal = OF_QUERIES
        elif self.norm == 1:
            refusal = "with norm=1 the utility is no expansion in rows: use cross-validation"
        elif self._indefinite:
            refusal = "the kernel matrix is not positive semi-definite, so that optima are not sure"
        else:
            refusal = ""
            linear, proved = self.kernel == "linear", self.certificate_.converged
            budget = self._budget(default=DEFAULT_STEPS)
            machines = [
                OrdinalMachine(
                    problem, result, linear, proved, self.thresholds,
                    tol=self.tol, max_iter=budget.max_iter, cache_bytes=budget.cache_bytes,
                )
            ]  # fmt: skip
        kernel, centre = self._kernel_, self._centre_
        refusal = refusal and f" is refused: {refusal}"
        self._record_ = Record(
            RankTraining(rows.data, kernel, centre, machines, seed, self.classes_, refusal)
        )


def not_worse_than_zero(
    problem: PreferenceProblem,
    result: PreferenceResult,
    certify: Callable[[PreferenceResult], Certificate],
) -> tuple[PreferenceResult, Certificate]:
    """Return the model with its certificate, or a multiple of it whose proved objective is lower.

    A fit that ran out of steps, or whose sums suffer from rounding, can be worse than w = 0. A fit
    that has converged is within its gap of the optimum, and is returned as it is.
    """
    certificate = certify(result)
    nothing = problem.C * problem.n_pairs
    if certificate.converged or certificate.dual == -np.inf or certificate.primal <= nothing:
        return result, certificate
    found = [(result, certificate)]
    for factor in (_best_factor(problem, result), 0.0):
        model = _scaled(problem, result, factor)
        found.append((model, certify(model)))
    return min(found, key=lambda pair: pair[1].primal)


def _scaled(
    problem: PreferenceProblem, result: PreferenceResult, factor: float
) -> PreferenceResult:
    """Return a multiple of the model; products with a power of two are exact."""
    if factor == 0.0:  # whatever overflowed
        coef, f = np.zeros_like(result.coef), np.zeros_like(result.f)
        return replace(result, coef=coef, f=f, penalty=0.0)
    penalty = (factor if problem.norm == 1 else factor * factor) * result.penalty
    return replace(result, coef=factor * result.coef, f=factor * result.f, penalty=penalty)


@np.errstate(all="ignore")
def _best_factor(problem: PreferenceProblem, result: PreferenceResult) -> float:
    """Return the power of two, at most 1, that minimises the objective of the multiple."""

    def primal(factor: float) -> float:
        model = _scaled(problem, result, factor)
        value = problem.primal(model.f, model.penalty)
        return value if np.isfinite(value) else np.inf

    return float(min(2.0 ** -np.arange(HALVINGS), key=primal))
