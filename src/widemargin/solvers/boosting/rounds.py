r"""Run the rounds of AdaBoost and AdaBoost_Reg.

A learner finds hypotheses; this module weighs samples and hypotheses. Weights are kept up to a
factor: dividing all of them by :math:`e^{-\alpha_t} / Z_t` leaves the samples that were right as
they are and multiplies the others by :math:`(1 - \varepsilon_t) / \varepsilon_t`. A learner that
keeps sums of weights then has to look at these samples only. Their sum at most doubles in a round,
and all sums are made afresh after every few rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias, cast

import numpy as np
from scipy.optimize import brentq

from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin.problems.boosting import BoostingProblem, RegularisedLoss, coefficient
from widemargin.solvers.base import Budget, Result, Status

NO_EDGE = 1e-12  # an error this close to 1/2 is no better: rounding would decide on its sign
REFRESH = 32  # rounds after which all sums are made again from the weights
LEAST = float(np.finfo(np.float64).tiny)  # error of rows whose weights have all become zero
ENDLESS = 1e8  # a step this long is no step any more
TIGHT = 4 * float(np.finfo(np.float64).eps)  # of the root of the slope, relative

StopReason: TypeAlias = Literal[
    "n_rounds", "perfect", "no_edge", "no_edge_at_all", "reg", "time_limit"
]


class Learner(Protocol):
    """What boosting asks of a base learner."""

    def learn(self, mass: FloatArray, changed: IntArray | None) -> Any:
        """Return a hypothesis of small weighted error (1.85).

        mass holds the weights up to a factor. changed lists the rows whose mass has grown since
        the last call; None means all.
        """
        ...

    def predictions(self, hypothesis: Any) -> BoolArray:
        """Tell for each training row whether the hypothesis says +1."""
        ...

    def constant(self, positive: bool) -> Any:
        """Return the hypothesis that always says +1, or -1."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class BoostingResult(Result):
    """A combination of hypotheses.

    Attributes
    ----------
    hypotheses : list
        As the learner gave them.
    alpha, error : ndarray of shape (n_hypotheses,)
        Their coefficients and weighted errors.
    F : ndarray of shape (n_samples,)
        Sum of alpha_t g_t at the training samples.
    reason : str
        "n_rounds": all were made (status "max_iter"). "perfect": the last hypothesis has no error,
        and is the model. "no_edge": the next one would not have been better than a coin;
        "no_edge_at_all": nor was the first, and the model is the constant of the heavier class.
        "reg": along the next one the regularised loss does not fall, or falls for ever (all four:
        status "converged"). "time_limit": the monitor ended the run (status "stopped").
    """

    hypotheses: list[Any]
    alpha: FloatArray
    error: FloatArray
    F: FloatArray
    reason: StopReason


class _Run:
    """The hypotheses so far."""

    def __init__(self, problem: BoostingProblem, learner: Learner, budget: Budget) -> None:
        self.problem, self.learner, self.budget = problem, learner, budget
        self.hypotheses: list[Any] = []
        self.alpha: list[float] = []
        self.error: list[float] = []
        self.F = np.zeros(len(problem.weight))
        self.rounds = 0

    def learn(self, mass: FloatArray, changed: IntArray | None) -> tuple[Any, BoolArray, IntArray]:
        """Begin a round: return a hypothesis, where it says +1, and which samples it gets wrong."""
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
        """Return the model; without any hypothesis the constant of the heavier class."""
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
        """Return the model after the last round; a monitor that ends that one ends nothing."""
        early = self.budget.status == "stopped" and self.budget.left
        return self.end("time_limit" if early else "n_rounds")

    def only(self, hypothesis: Any, predictions: BoolArray, error: float) -> BoostingResult:
        """Return the model that is one hypothesis."""
        self.hypotheses, self.alpha, self.error, self.F = [], [], [], np.zeros_like(self.F)
        self.add(hypothesis, predictions, 1.0, error)
        return self.end("perfect" if error == 0.0 else "reg")


def adaboost(
    problem: BoostingProblem, learner: Learner, *, tol: float, budget: Budget
) -> BoostingResult:
    """Run AdaBoost; a round is a step of the budget."""
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
    """Run AdaBoost_Reg, whose coefficients are b / 2."""
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
    """Return the b at which the loss first stops falling: 0 if at once, infinity if never."""
    if loss.slope(0.0) >= 0.0:
        return 0.0
    if loss.falls_for_ever:
        return np.inf
    below, above = 0.0, 2.0 * coefficient(error)  # AdaBoost's step
    while loss.slope(above) < 0.0:
        below, above = above, 2.0 * above
        if above > ENDLESS:
            return np.inf
    return float(brentq(loss.slope, below, above, xtol=NO_EDGE * TIGHT, rtol=TIGHT))
