r"""Boosting rounds of AdaBoost and AdaBoost_Reg.

The learner supplies the hypotheses; this module weights samples and hypotheses. Sample weights are
kept up to a factor: dividing all of them by :math:`e^{-\alpha_t} / Z_t` leaves those of correctly
classified samples unchanged and multiplies the others by
:math:`(1 - \varepsilon_t) / \varepsilon_t`. A learner that maintains sums of weights then has to
update the misclassified samples only. The total weight at most doubles per round; weights are
normalised and sums recomputed every few rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias, cast

import numpy as np
from scipy.optimize import brentq

from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin.problems.boosting import BoostingProblem, RegularisedLoss, coefficient
from widemargin.solvers.base import Budget, Result, Status

NO_EDGE = 1e-12  # an error this close to 1/2 is no better than chance: rounding decides its sign
REFRESH = 32  # rounds between recomputations of all sums, against rounding errors and overflow
LEAST = float(np.finfo(np.float64).tiny)  # error if the wrong samples' weights underflow to zero
ENDLESS = 1e8  # longer steps count as infinite
TIGHT = 4 * float(np.finfo(np.float64).eps)  # relative tolerance of the step length

StopReason: TypeAlias = Literal[
    "n_rounds", "perfect", "no_edge", "no_edge_at_all", "reg", "time_limit"
]


class Learner(Protocol):
    """Protocol of base learners."""

    def learn(self, mass: FloatArray, changed: IntArray | None) -> Any:
        """Return a hypothesis of small weighted error (1.85).

        mass holds the sample weights up to a factor. changed lists the samples whose mass has grown
        since the last call; None means all.
        """
        ...

    def predictions(self, hypothesis: Any) -> BoolArray:
        """Return for each training sample whether the hypothesis predicts +1."""
        ...

    def constant(self, positive: bool) -> Any:
        """Return the hypothesis that always predicts +1, or -1."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class BoostingResult(Result):
    """Linear combination of hypotheses.

    Attributes
    ----------
    hypotheses : list
        Hypotheses of the learner.
    alpha, error : ndarray of shape (n_hypotheses,)
        Their coefficients and weighted errors.
    F : ndarray of shape (n_samples,)
        Sum of alpha_t g_t at the training samples.
    reason : str
        "n_rounds": all rounds were run (status "max_iter"). "perfect": the last hypothesis has no
        error and is the model. "no_edge": the next hypothesis is no better than chance.
        "no_edge_at_all": nor is the first, and the model is the constant of the heavier class.
        "reg": along the next hypothesis the regularised loss does not decrease, or decreases
        without end (these four: status "converged"). "time_limit": the monitor ended the run
        (status "stopped").
    """

    hypotheses: list[Any]
    alpha: FloatArray
    error: FloatArray
    F: FloatArray
    reason: StopReason


class _Run:
    """State of a run: the hypotheses so far."""

    def __init__(self, problem: BoostingProblem, learner: Learner, budget: Budget) -> None:
        self.problem, self.learner, self.budget = problem, learner, budget
        self.hypotheses: list[Any] = []
        self.alpha: list[float] = []
        self.error: list[float] = []
        self.F = np.zeros(len(problem.weight))
        self.rounds = 0

    def learn(self, mass: FloatArray, changed: IntArray | None) -> tuple[Any, BoolArray, IntArray]:
        """Start a round: return a hypothesis, its predictions and the samples it misclassifies."""
        self.rounds += 1
        hypothesis = self.learner.learn(mass, changed)
        predictions = self.learner.predictions(hypothesis)
        return hypothesis, predictions, np.flatnonzero(predictions != self.problem.positive)

    def add(self, hypothesis: Any, predictions: BoolArray, alpha: float, error: float) -> None:
        self.hypotheses.append(hypothesis)
        self.alpha.append(alpha)
        self.error.append(error)
        self.F += np.where(predictions, alpha, -alpha)

    def end(self, reason: StopReason) -> BoostingResult:
        """Return the model, or the constant of the heavier class if there is no hypothesis."""
        if not self.hypotheses:
            weight, positive = self.problem.weight, self.problem.positive
            below, above = float(weight[~positive].sum()), float(weight[positive].sum())
            says = above >= below
            everywhere = np.full(len(weight), says)
            error = min(below, above) / (below + above)
            self.add(self.learner.constant(says), everywhere, 1.0, error)
            reason = "no_edge_at_all" if reason == "no_edge" else reason
        ended = {"n_rounds": "max_iter", "time_limit": "stopped"}
        return BoostingResult(
            hypotheses=self.hypotheses,
            alpha=np.array(self.alpha),
            error=np.array(self.error),
            F=self.F,
            reason=reason,
            n_iter=self.rounds,
            status=cast(Status, ended.get(reason, "converged")),
        )

    def end_of_budget(self) -> BoostingResult:
        """Return the model; report a time limit only if rounds were left to run."""
        early = self.budget.status == "stopped" and self.budget.left
        return self.end("time_limit" if early else "n_rounds")

    def only(self, hypothesis: Any, predictions: BoolArray, error: float) -> BoostingResult:
        """Return the model that consists of a single hypothesis."""
        self.hypotheses, self.alpha, self.error, self.F = [], [], [], np.zeros_like(self.F)
        self.add(hypothesis, predictions, 1.0, error)
        return self.end("perfect" if error == 0.0 else "reg")


def adaboost(
    problem: BoostingProblem, learner: Learner, *, tol: float, budget: Budget
) -> BoostingResult:
    """Run AdaBoost; each round spends one step of the budget."""
    run = _Run(problem, learner, budget)
    mass = problem.weight / problem.weight.sum()
    changed: IntArray | None = None
    while budget.left:
        hypothesis, predictions, wrong = run.learn(mass, changed)
        if not len(wrong):
            return run.only(hypothesis, predictions, 0.0)
        heavy = mass[wrong]
        error = max(float(heavy.sum() / mass.sum()), LEAST)
        if error >= 0.5 - tol:
            return run.end("no_edge")
        run.add(hypothesis, predictions, coefficient(error), error)
        if not budget.spend(1, error):
            break
        mass[wrong] = heavy * ((1.0 - error) / error)
        changed = wrong
        if run.rounds % REFRESH == 0:
            mass /= mass.sum()
            changed = None
    return run.end_of_budget()


def adaboost_reg(
    problem: BoostingProblem, learner: Learner, *, tol: float, budget: Budget
) -> BoostingResult:
    """Run AdaBoost_Reg, with coefficients b / 2."""
    run = _Run(problem, learner, budget)
    label = problem.label
    loss = RegularisedLoss.empty(problem.weight, problem.C, problem.power)
    while budget.left:
        mass = loss.distribution()
        hypothesis, predictions, wrong = run.learn(mass, None)
        if not len(wrong):
            return run.only(hypothesis, predictions, 0.0)
        error = max(float(mass[wrong].sum()), LEAST)
        if error >= 0.5 - tol:
            return run.end("no_edge")
        agrees = np.where(predictions, label, -label)
        loss = replace(loss, agrees=agrees, share=mass / problem.weight)
        b = best_step(loss, error)
        if b == np.inf and not run.hypotheses:
            return run.only(hypothesis, predictions, error)
        if b in (0.0, np.inf):
            return run.end("reg")
        run.add(hypothesis, predictions, 0.5 * b, error)
        loss = loss.after(b)
        if not budget.spend(1, error):
            break
    return run.end_of_budget()


def best_step(loss: RegularisedLoss, error: float) -> float:
    """Return the smallest minimiser b of the loss found: 0 or infinity if there is none between."""
    if loss.slope(0.0) >= 0.0:
        return 0.0
    if loss.falls_for_ever:
        return np.inf
    below, above = 0.0, 2.0 * coefficient(error)  # bracket the root, starting at AdaBoost's step
    while loss.slope(above) < 0.0:
        below, above = above, 2.0 * above
        if above > ENDLESS:
            return np.inf
    return float(brentq(loss.slope, below, above, xtol=NO_EDGE * TIGHT, rtol=TIGHT))
