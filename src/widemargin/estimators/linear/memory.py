"""Fit LinearSVC to samples in memory.

`fit_in_memory` selects the function for the penalty and the decomposition. Each of them returns one
result and one proof per hyperplane, and the fitted model for leave-one-out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from widemargin._base.features import with_constant
from widemargin._base.multiclass import Sides, pair_factors, pair_rows
from widemargin._base.progress import Watch
from widemargin._base.threads import for_each
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin._base.validation import TrainingSet, require
from widemargin.certificate import Certificate
from widemargin.estimators._base.proof import Proof
from widemargin.fitted.base import FittedModel
from widemargin.fitted.by_path import Machine, Training
from widemargin.fitted.crammer_singer import CrammerSingerMachine, CrammerSingerTraining
from widemargin.fitted.plane import L1Machine, PlaneTraining
from widemargin.kernels import Kernel
from widemargin.problems.crammer_singer import CrammerSinger
from widemargin.problems.l1_margin import L1Margin
from widemargin.problems.soft_margin import SoftMargin, c_classification
from widemargin.problems.soft_margin.linear import linear_certificate, surely_within
from widemargin.solvers import crammer_singer, l1_margin
from widemargin.solvers.base import Budget
from widemargin.solvers.linear import LinearResult, LinearRows, can_read, solve

WORTH_A_THREAD = 300_000  # stored values; below that a thread costs more than it saves

METHODS = {"auto": "auto", "newton": "smoothed_newton", "sampling": "out_of_core"}

Fitted: TypeAlias = tuple[list[LinearResult], list[Proof], FittedModel]
"""Results and proofs of the hyperplanes, and the fitted model for leave-one-out."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Validated parameters of a LinearSVC, for data in memory and in parts.

    Attributes
    ----------
    penalty, loss, multi_class, C, tol, max_iter, solver
        As in LinearSVC.
    sides : list of (int, int or None)
        Positive and negative class of each hyperplane; None: all other classes.
    factors : ndarray of shape (n_classes,)
        Cost factor of each class.
    intercept : bool
        Whether there is an intercept that is not penalised.
    constant : float or None
        Value of the constant feature whose weight is a penalised intercept.
    seed : int
        Seed of the solver.
    """

    penalty: str
    loss: str
    multi_class: str
    sides: list[Sides]
    C: float
    factors: FloatArray
    intercept: bool
    constant: float | None
    tol: float
    max_iter: int
    solver: str
    seed: int

    def tolerance(self, positive: float, negative: float) -> float:
        """Return the relative gap to reach, given the total costs of both classes.

        A relative gap is measured against max(1, objective). With small costs the objective is
        below 1 even for w = 0, and any model would be within `tol`; the gap is then measured
        against the objective of w = 0, which is at most twice the cost of the rarer class (with an
        intercept), or the total cost.
        """
        empty = 2.0 * min(positive, negative) if self.intercept else positive + negative
        return self.tol * min(1.0, empty)

    def tolerances(self, weights: FloatArray) -> list[float]:
        """Return the gap to reach per hyperplane, given the sum of sample weights per class."""
        found = []
        for positive, negative in self.sides:
            own = self.factors[positive] * weights[positive]
            if negative is None:
                rest = weights.sum() - weights[positive]
            else:
                rest = self.factors[negative] * weights[negative]
            found.append(self.tolerance(self.C * float(own), self.C * float(rest)))
        return found

    def named(self, certificate: Certificate) -> Certificate:
        """Return the certificate under the name of its problem: a penalised intercept is one."""
        if self.constant is None:
            return certificate
        name = certificate.problem.replace("no intercept", "penalised intercept")
        return replace(certificate, problem=name)

    def split(self, result: LinearResult) -> LinearResult:
        """Return a result whose last weight, that of the constant feature, is the intercept."""
        return penalised_split(result, self.constant)


def penalised_split(result: LinearResult, constant: float | None) -> LinearResult:
    """Return a result whose last weight, that of a constant feature if any, is the intercept."""
    if constant is None:
        return result
    return replace(result, coef=result.coef[:-1].copy(), thresholds=constant * result.coef[-1:])


def not_worse_than_constant(
    certify: Callable[[FloatArray, Any], Certificate],
    coef: FloatArray,
    intercept: Any,
    constant: Any,
) -> tuple[FloatArray, Any, Certificate]:
    """Return weights, intercept and certificate of a model, or of the better constant one.

    A fit that ran out of steps can be worse than w = 0 with the intercept `constant`. `certify`
    returns the certificate of weights and an intercept. A fit that has converged is within its gap
    of the optimum, and is returned as it is.
    """
    found = certify(coef, intercept)
    if found.converged:
        return coef, intercept, found
    nothing = np.zeros_like(coef)
    still = certify(nothing, constant)
    better = still.primal < found.primal
    return (nothing, constant, still) if better else (coef, intercept, found)


def with_plane(result: LinearResult, coef: FloatArray, intercept: float) -> LinearResult:
    """Return a result with these weights and intercept."""
    if coef is result.coef:
        return result
    return replace(result, coef=coef, thresholds=np.full(len(result.thresholds), intercept))


def constant_of(problem: SoftMargin) -> float:
    """Return the best intercept for w = 0; 0 without one that is not penalised."""
    nothing = np.zeros(problem.n_rows)
    return float(problem.thresholds(nothing)[0]) if problem.n_groups else 0.0


def fit_in_memory(
    plan: Plan, data: TrainingSet, codes: IntArray, watch: Watch, threads: int
) -> Fitted:
    """Fit and certify all hyperplanes; return also the fitted model for leave-one-out."""
    joint, sparse = plan.multi_class == "crammer_singer", plan.penalty == "l1"
    require(
        plan.solver != "sampling" or not (joint or sparse), "solver", plan.solver,
        '"auto" or "newton" for penalty="l1" and multi_class="crammer_singer"',
    )  # fmt: skip
    if joint:
        return _fit_crammer_singer(plan, data, codes, watch)
    if sparse:
        return _fit_l1(plan, data, codes, watch, threads)
    return _fit_l2(plan, data, codes, watch, threads)


def linear_kernel(constant: float | None) -> Kernel:
    """Return x'z, plus the square of the constant feature if there is one."""
    if constant is None:
        return Kernel("linear")
    return Kernel("poly", gamma=1.0, degree=1, coef0=constant * constant)


def _side_costs(label: FloatArray, cost: FloatArray) -> tuple[float, float]:
    """Return the sums of the costs of the samples labelled +1 and -1."""
    total, difference, least = float(cost.sum()), float(label @ cost), float(cost.min())
    # Each side has a sample; rounding must not make the cost of a rare class vanish.
    return max(0.5 * (total + difference), least), max(0.5 * (total - difference), least)


def _fit_l2(plan: Plan, data: TrainingSet, codes: IntArray, watch: Watch, threads: int) -> Fitted:
    """Fit one hyperplane per pair of classes or per class, with the l2 penalty."""
    X, blur = with_constant(data.X, plan.constant), data.cost_error
    found: list[Any] = [None] * len(plan.sides)

    def fit(k: int) -> None:
        watch.next_part()
        rows, label = pair_rows(codes, plan.sides[k])
        cost = (plan.C * data.weight * pair_factors(plan.factors, codes, plan.sides[k]))[rows]
        part = X if len(rows) == len(codes) else X[rows]
        found[k] = rows, *_hyperplane(plan, part, label, cost, blur, watch, threads)

    values = X.nnz if sp.issparse(X) else X.size
    at_once = threads if sp.issparse(X) and values > WORTH_A_THREAD else 1
    for_each(fit, range(len(found)), at_once)
    results = [model for *_, model, _ in found]
    proofs = [proof for *_, proof in found]
    machines = [
        Machine(rows, problem, result.alpha, result.intercept)
        for rows, problem, result, *_ in found
    ]
    kernel = linear_kernel(plan.constant)
    return results, proofs, Training(data, kernel, None, plan.sides, machines, plan.intercept)


def _hyperplane(
    plan: Plan, X: Matrix, label: FloatArray, cost: FloatArray, blur: float, watch: Watch,
    threads: int,
) -> tuple[SoftMargin, LinearResult, LinearResult, Proof]:  # fmt: skip
    """Fit one hyperplane; return its problem, the solver's result, the model and its proof."""
    problem = c_classification(
        label, cost, squared=plan.loss == "squared_hinge", intercept=plan.intercept
    )
    tol = plan.tolerance(*_side_costs(label, cost))
    require(
        plan.solver != "sampling" or can_read(problem, X), "solver", plan.solver,
        '"auto" or "newton" for the squared hinge and for sparse rows in memory',
    )  # fmt: skip
    result = solve(
        problem, X, tol=tol, budget=Budget(plan.max_iter, watch),
        method=METHODS[plan.solver], seed=plan.seed, constant=plan.constant is not None,
    )  # fmt: skip
    assert result.alpha is not None
    model, rows = plan.split(result), LinearRows(X, threads=threads)
    certify = partial(
        linear_certificate, problem, rows, alpha=result.alpha,
        tol=tol, n_iter=result.n_iter, constant=plan.constant, blur=blur,
    )  # fmt: skip
    objectives = result.primal, result.dual
    if result.status == "converged" and surely_within(
        problem, rows, result.coef, result.intercept, result.alpha, objectives, tol
    ):
        compute = partial(_named, plan, certify, model)
        return problem, result, model, Proof(result.n_iter, result.primal, True, compute)
    *plane, certificate = not_worse_than_constant(
        certify, model.coef, model.intercept, constant_of(problem)
    )
    proof = Proof.of(plan.named(certificate))
    return problem, result, with_plane(model, *plane), proof


def _named(
    plan: Plan, certify: Callable[[FloatArray, Any], Certificate], model: LinearResult
) -> Certificate:
    """Return the certificate of a model under the name of its problem."""
    return plan.named(certify(model.coef, model.intercept))


def _fit_l1(plan: Plan, data: TrainingSet, codes: IntArray, watch: Watch, threads: int) -> Fitted:
    """Fit one hyperplane per pair of classes or per class, with the l1 penalty."""
    X, blur = with_constant(data.X, plan.constant), data.cost_error
    results, proofs, machines = [], [], []
    for pair in plan.sides:
        watch.next_part()
        rows, label = pair_rows(codes, pair)
        part = X if len(rows) == len(codes) else X[rows]
        cost = (plan.C * data.weight * pair_factors(plan.factors, codes, pair))[rows]
        problem = L1Margin(label, cost, plan.intercept)
        budget = Budget(plan.max_iter, watch)
        tol = plan.tolerance(*_side_costs(label, cost))
        result = l1_margin.solve(problem, part, tol=tol, budget=budget)
        assert result.alpha is not None
        model = plan.split(result)
        certify = partial(
            problem.certificate, LinearRows(part, threads=threads), alpha=result.alpha,
            tol=tol, n_iter=result.n_iter, constant=plan.constant, blur=blur,
        )  # fmt: skip
        constant = problem.empty_model()[0] if plan.intercept else 0.0
        *chosen, certificate = not_worse_than_constant(
            certify, model.coef, model.intercept, constant
        )
        model = with_plane(model, *chosen)
        results.append(model)
        proofs.append(Proof.of(plan.named(certificate)))
        machines.append(L1Machine(rows, problem, result, tol, plan.max_iter))
    return (
        results,
        proofs,
        PlaneTraining(data, plan.sides, machines, plan.seed, plan.constant),
    )


def _fit_crammer_singer(plan: Plan, data: TrainingSet, codes: IntArray, watch: Watch) -> Fitted:
    """Fit the hyperplanes of all classes together."""
    X = with_constant(data.X, plan.constant)
    watch.next_part()
    cost = plan.C * data.weight * plan.factors[codes]
    problem = CrammerSinger(codes, cost, len(plan.factors), plan.intercept)
    budget = Budget(plan.max_iter, watch)
    totals = np.bincount(codes, weights=cost)
    tol = plan.tolerance(float(totals.max()), float(totals.sum() - totals.max()))
    found = crammer_singer.solve(problem, X, tol=tol, budget=budget)
    machine = CrammerSingerMachine(problem, found, tol, plan.max_iter)
    plane = machine.fitted
    planes = [
        plan.split(
            LinearResult(coef=w, thresholds=np.array([b]), n_iter=found.n_iter, status=found.status)
        )
        for w, b in zip(plane.coef, plane.intercepts, strict=True)
    ]
    two = len(plan.factors) == 2  # one hyperplane stands for two with half its weights and opposite

    def certify(coef: FloatArray, intercepts: FloatArray) -> Certificate:
        if two:
            coef, intercepts = np.outer([-0.5, 0.5], coef), np.array([-0.5, 0.5]) * intercepts
        return problem.certificate(
            X, coef, intercepts, found.alpha, tol=tol, n_iter=found.n_iter, constant=plan.constant,
            blur=data.cost_error,
        )  # fmt: skip

    heaviest = np.arange(len(totals)) == totals.argmax()  # all samples in the most costly class
    constant = np.where(heaviest, 1.0, 0.0) if plan.intercept else np.zeros(len(totals))
    coef, intercepts, certificate = not_worse_than_constant(
        certify, np.array([r.coef for r in planes]), np.array([r.intercept for r in planes]),
        np.diff(constant) if two else constant,
    )  # fmt: skip
    results = [
        replace(r, coef=w, thresholds=np.array([b]))
        for r, w, b in zip(planes, coef, intercepts, strict=True)
    ]
    model = CrammerSingerTraining(data, [machine], plan.seed, plan.constant)
    return results, [Proof.of(plan.named(certificate))], model
