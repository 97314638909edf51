r"""AdaBoost, round by round as in Table 1.2 of Smola et al. (2000), and AdaBoost_Reg.

Problem: :mod:`widemargin.problems.boosting`. A learner finds hypotheses; this module weighs rows
and hypotheses. Weights are kept up to a factor: dividing all of them by
:math:`e^{-\alpha_t} / Z_t` leaves the rows that were right as they are and multiplies the others
by :math:`(1 - \varepsilon_t) / \varepsilon_t`. A learner that keeps sums of weights then has to
look at these rows only. Their sum at most doubles in a round, and all sums are made afresh after
every few rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from scipy.optimize import brentq

from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin.problems.boosting import BoostingProblem, RegularisedLoss, coefficient

NO_EDGE = 1e-12  # an error this close to 1/2 is no better: rounding would decide on its sign
AFRESH = 32  # rounds after which all sums are made again from the weights
LEAST = float(np.finfo(np.float64).tiny)  # error of rows whose weights have all become zero
ENDLESS = 1e8  # a step this long is no step any more
TIGHT = 4 * float(np.finfo(np.float64).eps)  # of the root of the slope, relative

Stopped: TypeAlias = Literal[
    "n_rounds", "perfect", "no_edge", "no_edge_at_all", "reg", "time_limit"
]

RoundMonitor: TypeAlias = Callable[[float], bool]
"""Called after a round with the weighted error of its hypothesis; returns whether to go on."""


class Learner(Protocol):
    """What boosting asks of a base learner."""

    def learn(self, mass: FloatArray, changed: IntArray | None) -> Any:
        """Return a hypothesis of small weighted error (1.85).

        mass holds the weights up to a factor. changed lists the rows whose mass has grown since
        the last call; None means all.
        """
        ...

    def answers(self, hypothesis: Any) -> BoolArray:
        """Tell for each training row whether the hypothesis says +1."""
        ...

    def constant(self, positive: bool) -> Any:
        """Return the hypothesis that always says +1, or -1."""
        ...


@dataclass(frozen=True)
class BoostingResult:
    """A combination of hypotheses.

    Attributes
    ----------
    hypotheses : list
        As the learner gave them.
    alpha, error : ndarray of shape (n_rounds,)
        Their coefficients and weighted errors.
    F : ndarray of shape (n_rows,)
        Sum of alpha_t g_t at the training rows.
    stopped : str
        "n_rounds": all were made. "perfect": the last hypothesis has no error, and is the model.
        "no_edge": the next one would not have been better than a coin; "no_edge_at_all": nor was
        the first, and the model is the constant of the heavier class. "reg": along the next one
        the regularised loss does not fall, or falls for ever. "time_limit": the monitor said stop.
    """

    hypotheses: list[Any]
    alpha: FloatArray
    error: FloatArray
    F: FloatArray
    stopped: Stopped


class _Run:
    """The hypotheses so far."""

    def __init__(self, problem: BoostingProblem, learner: Learner) -> None:
        self.problem, self.learner = problem, learner
        self.hypotheses: list[Any] = []
        self.alpha: list[float] = []
        self.error: list[float] = []
        self.F = np.zeros(len(problem.weight))

    def add(self, hypothesis: Any, answers: BoolArray, alpha: float, error: float) -> None:
        self.hypotheses.append(hypothesis)
        self.alpha.append(alpha)
        self.error.append(error)
        self.F += np.where(answers, alpha, -alpha)

    def end(self, stopped: Stopped) -> BoostingResult:
        """Return the model; without any hypothesis the constant of the heavier class."""
        if not self.hypotheses:
            weight, positive = self.problem.weight, self.problem.positive
            below, above = float(weight[~positive].sum()), float(weight[positive].sum())
            says = above >= below
            everywhere = np.full(len(weight), says)
            error = min(below, above) / (below + above)
            self.add(self.learner.constant(says), everywhere, 1.0, error)
            stopped = "no_edge_at_all" if stopped == "no_edge" else stopped
        alpha, error_ = np.array(self.alpha), np.array(self.error)
        return BoostingResult(self.hypotheses, alpha, error_, self.F, stopped)

    def only(self, hypothesis: Any, answers: BoolArray, error: float) -> BoostingResult:
        """Return the model that is one hypothesis."""
        alone = _Run(self.problem, self.learner)
        alone.add(hypothesis, answers, 1.0, error)
        return alone.end("perfect" if error == 0.0 else "reg")


def boost(
    problem: BoostingProblem, learner: Learner, *, n_rounds: int, monitor: RoundMonitor
) -> BoostingResult:
    """Run AdaBoost.

    Parameters
    ----------
    problem : BoostingProblem
        Labels and weights.
    learner : Learner
        Finds the hypotheses.
    n_rounds : int
        Largest number of rounds, T.
    monitor : callable
        Called after each round with the error of its hypothesis; returns whether to go on.
    """
    run = _Run(problem, learner)
    mass = problem.weight / problem.weight.sum()
    changed: IntArray | None = None
    for t in range(n_rounds):
        hypothesis = learner.learn(mass, changed)
        answers = learner.answers(hypothesis)
        wrong = np.flatnonzero(answers != problem.positive)
        if not len(wrong):
            return run.only(hypothesis, answers, 0.0)
        heavy = mass[wrong]
        error = max(float(heavy.sum() / mass.sum()), LEAST)
        if error >= 0.5 - NO_EDGE:
            return run.end("no_edge")
        run.add(hypothesis, answers, coefficient(error), error)
        if not monitor(error) and t + 1 < n_rounds:
            return run.end("time_limit")
        mass[wrong] = heavy * ((1.0 - error) / error)
        changed = wrong
        if (t + 1) % AFRESH == 0:
            mass /= mass.sum()
            changed = None
    return run.end("n_rounds")


def boost_regularised(
    problem: BoostingProblem,
    learner: Learner,
    *,
    C: float,
    power: float,
    n_rounds: int,
    monitor: RoundMonitor,
) -> BoostingResult:
    """Run AdaBoost_Reg; arguments as for :func:`boost`, the coefficients are b / 2."""
    run = _Run(problem, learner)
    label = problem.label
    loss = RegularisedLoss.empty(problem.weight, C, power)
    for t in range(n_rounds):
        mass = loss.distribution()
        hypothesis = learner.learn(mass, None)
        answers = learner.answers(hypothesis)
        wrong = np.flatnonzero(answers != problem.positive)
        if not len(wrong):
            return run.only(hypothesis, answers, 0.0)
        error = max(float(mass[wrong].sum()), LEAST)
        if error >= 0.5 - NO_EDGE:
            return run.end("no_edge")
        loss = loss.along(np.where(answers, label, -label), mass / problem.weight)
        b = _best_step(loss, error)
        if b == np.inf and not run.hypotheses:
            return run.only(hypothesis, answers, error)
        if b in (0.0, np.inf):
            return run.end("reg")
        run.add(hypothesis, answers, 0.5 * b, error)
        loss = loss.after(b)
        if not monitor(error) and t + 1 < n_rounds:
            return run.end("time_limit")
    return run.end("n_rounds")


def _best_step(loss: RegularisedLoss, error: float) -> float:
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
