r"""Solve soft-margin classification by the kernel Adatron: one dual variable at a time.

Problem: ``c_classification`` of :mod:`widemargin.problems.soft_margin`, either loss,

.. math::

    \max_\alpha \; t'\alpha - \tfrac12 \alpha'K\alpha - \tfrac12 \sum_i \rho_i \alpha_i^2
    \quad\text{s.t.}\quad l_i \le \alpha_i \le u_i
    \quad\text{and, with a threshold, } \sum_i \alpha_i = d .

The variables of Opper and Winther (2000) are these times the labels; K is the covariance of
(8.20), the ridge is the input noise v that (8.16) adds to its diagonal, and the machine is the
saddle point of (8.22).
It is the solver of the simulations there (section 8.7, table 8.2), where the variables of a pass
move together; here each sees the moves before it (Frieß, Cristianini and Campbell 1998):

.. math::

    \alpha_i \leftarrow \operatorname{clip}\Bigl(\alpha_i
    + \eta \, \frac{t_i - f_i - \rho_i \alpha_i - \lambda}{k_{ii} + \rho_i}, \; l_i, \; u_i\Bigr),
    \qquad f = K\alpha ,

which for :math:`\eta = 1` maximises over :math:`\alpha_i` and never loses for any
:math:`0 < \eta < 2`.

*Order.* Where the kernel values of all rows have a part in common (and c below adds to it), passes
in one fixed order can need hundreds of times as many as passes in random order (on such problems
see Sun and Ye 2021). So each pass shuffles the rows, unless it is the literature's that is wanted.

*Threshold.* Without one, lambda is 0. Else it is the multiplier of the constraint. Passes maximise
the augmented Lagrangian (K becomes K + c, lambda becomes lambda + c (sum alpha - d)) until what
they leave is small beside the error of the sum; then
:math:`\lambda \leftarrow \lambda + c(\sum \alpha - d)`. That is the method of multipliers, and
it ends at the optimum that pairs of variables would find.

A historical baseline: simple, and fast where the ridge is large, but the number of passes grows
with the condition of K + diag(ridge), hence with C. `soft_margin.active_set` has no
such weakness.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from widemargin._base.jit import jit
from widemargin._base.tolerances import SUM_ROUNDING
from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin._base.validation import require
from widemargin.kernels import Rows
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Budget, DualResult, Status

CHUNK_BYTES = 32e6  # kernel rows computed at once where not all are kept: a fraction of a second
VALUES_PER_SWEEP = 2e7  # kernel values read between two looks at the budget: some hundredths
LEFT_OVER = 0.3  # passes go on until they leave this fraction of the error of the sum
# c, in units of k_ii, starts small, for it slows the passes down, and grows by a factor whenever
# the error of the sum stays above SLOW times the one before.
STIFFNESS, STIFFEST, STIFFER, SLOW = 0.1, 1e3, 4.0, 0.5
UNBOUNDED = 1e12  # a violation this many times the first one: the kernel is indefinite


def solve(
    problem: SoftMargin,
    data: Rows,
    *,
    tol: float,
    budget: Budget,
    start: DualResult | None = None,
    method: str = "auto",
    seed: int | None = 0,
    eta: float = 1.0,
) -> DualResult:
    """Solve soft-margin classification to a KKT violation of tol, checked in float64.

    Parameters
    ----------
    problem : SoftMargin
        What to solve: one variable a row, at most one threshold.
    data : Rows
        The training rows seen through the kernel.
    tol : float
        KKT violation to reach.
    budget : Budget
        Steps: one moves one variable and reads one row of the kernel; a pass takes as many as it
        finds variables to move. And memory for kernel values: where the kernel matrix does not
        fit, every pass computes it again, some rows at a time.
    start : DualResult, optional
        Variables to start from.
    method : {"auto"}
        There is one.
    seed : int or None
        Seed of the order of each pass. None is the order of the rows, as in the literature.
    eta : float
        Length of a step in (0, 2); 1 is exact, more is over-relaxation.
    """
    require(method == "auto", "method", method, '"auto"')
    if problem.n_variables != problem.n_rows or problem.n_groups > 1:
        raise ValueError(
            f"the Adatron solves classification with one variable a row and at most one "
            f"threshold; {problem.name!r} has {problem.n_variables} variables on "
            f"{problem.n_rows} rows and {problem.n_groups} thresholds: use solver='smo'"
        )
    if not 0 < eta < 2:
        raise ValueError(f"eta must lie between 0 and 2 (1 is an exact step), got {eta}")
    alpha = problem.repair(np.zeros(problem.n_rows) if start is None else start.alpha)
    run = _Run(problem, data, tol, budget, alpha, seed, eta)
    return run.result(run.passes())


class _Run:
    """Variables, decision values and threshold of one run, and what is left of its budget."""

    def __init__(
        self,
        problem: SoftMargin,
        rows: Rows,
        tol: float,
        budget: Budget,
        alpha: FloatArray,
        seed: int | None,
        eta: float,
    ) -> None:
        self.problem = problem
        self.rows = rows
        self.tol = tol
        self.budget = budget
        self.rng = None if seed is None else np.random.default_rng(seed)
        self.eta = eta
        n = problem.n_rows
        self.K: FloatArray | None = None
        if 8 * n * n <= budget.cache_bytes:
            self.K = rows.matrix()
        self.chunk = max(1, int(min(budget.cache_bytes, CHUNK_BYTES) / (8 * n)))
        diagonal = rows.diagonal() if self.K is None else np.diagonal(self.K)
        self.curvature = np.abs(diagonal) + problem.ridge
        self.alpha = alpha
        self.f = self.decision_values(alpha)
        # A violation counts twice where one variable is too high and another too low.
        self.aim = 0.25 * tol if problem.n_groups else 0.9 * tol
        self.threshold = float(problem.thresholds(self.f)[0]) if problem.n_groups else 0.0
        typical = float(np.median(np.abs(diagonal)) or np.abs(diagonal).mean() or 1.0)
        self.stiffness = STIFFNESS * typical if problem.n_groups else 0.0
        self.stiffest = STIFFEST * typical
        self.last_excess = np.inf
        self.violation = self.left_over()

    def decision_values(self, alpha: FloatArray) -> FloatArray:
        """Return K alpha, evaluated afresh in float64."""
        used = np.flatnonzero(alpha)
        return self.rows.weighted_sum(np.arange(len(alpha)), self.rows, used, alpha[used])

    @property
    def excess(self) -> float:
        """What the variables sum to beyond their total."""
        return float(self.alpha.sum() - self.problem.totals[0]) if self.problem.n_groups else 0.0

    def left_over(self) -> float:
        """Return the largest slope by which a variable may still move, lambda and c as they are."""
        slope = self.problem.scores(self.alpha, self.f)
        slope -= self.threshold + self.stiffness * self.excess
        up, down = self.alpha < self.problem.upper, self.alpha > self.problem.lower
        return float(max(slope[up].max(initial=0.0), -slope[down].min(initial=0.0)))

    def passes(self) -> Status:
        """Pass over the variables until the tolerance is met; return why it ended."""
        failed, unbounded = np.inf, UNBOUNDED * max(1.0, self.violation)
        while self.budget.status == "converged":
            moved = self.sweep()
            left = self.left_over()
            error = abs(self.excess)
            self.violation = max(left, self.stiffness * error)
            if left <= self.aim and error * float(self.curvature.max()) <= self.aim:
                reached = self.balance()
                if reached <= self.tol:
                    return "converged"
                if reached > 0.5 * failed:
                    return "stalled"
                failed = reached
                self.aim *= 0.5
            elif left > unbounded or not (self.shift_threshold(left) or moved):
                return "stalled"
        return self.budget.status

    def sweep(self) -> int:
        """Make one pass over all variables, or what the budget leaves of it; return its steps."""
        problem, moved = self.problem, 0
        at_once = max(1, int(VALUES_PER_SWEEP / problem.n_rows))
        n = problem.n_rows
        order = np.arange(n) if self.rng is None else self.rng.permutation(n)
        for block, places, variables in self.blocks(order):
            position = 0
            while position < len(variables):
                position, steps = visit(
                    block,
                    places,
                    variables,
                    position,
                    problem.target,
                    problem.lower,
                    problem.upper,
                    problem.ridge,
                    self.curvature,
                    (self.eta, self.threshold, self.stiffness, self.excess),
                    min(at_once, self.budget.left),
                    self.alpha,
                    self.f,
                )
                moved += steps
                if not self.budget.spend(steps, self.violation):
                    return moved
        if moved == 0:  # an idle pass counts too, so that the budget ends them
            self.budget.spend(1, self.violation)
        return moved

    def blocks(self, order: IntArray) -> Iterator[tuple[RealArray, IntArray, IntArray]]:
        """Yield kernel rows in the given order, some at a time: block, place in it, variable."""
        if self.K is not None:
            yield self.K, order, order
            return
        everything = np.arange(len(order))
        for first in range(0, len(order), self.chunk):
            part = order[first : first + self.chunk]
            yield self.rows.block(part, self.rows, everything), everything[: len(part)], part

    def shift_threshold(self, left: float) -> bool:
        """Update the multiplier if the passes have done their part; return whether it changed."""
        excess = self.excess
        shift = self.stiffness * excess
        if shift == 0 or left > max(LEFT_OVER * abs(shift), self.aim):
            return False
        before = self.threshold
        self.threshold += shift
        if abs(excess) > SLOW * self.last_excess:
            self.stiffness = min(STIFFER * self.stiffness, self.stiffest)
        self.last_excess = abs(excess)
        return self.threshold != before

    def balance(self) -> float:
        """Make the variables feasible and the decision values exact; return the KKT violation."""
        problem, excess = self.problem, self.excess
        self.threshold += self.stiffness * excess
        if abs(excess) > SUM_ROUNDING * float(np.abs(self.alpha).sum()):
            # Those farthest from their bounds give way, else those nearest to the margin.
            room = np.minimum(self.alpha - problem.lower, problem.upper - self.alpha)
            distance = np.abs(problem.scores(self.alpha, self.f) - self.threshold)
            self.alpha = problem.repair(self.alpha, np.where(room > 0, -room, distance))
        self.f = self.decision_values(self.alpha)
        return problem.kkt_violation(self.alpha, self.f)

    def result(self, status: Status) -> DualResult:
        """Return what was reached, feasible whatever ended the run."""
        if status != "converged" and self.balance() <= self.tol:
            status = "converged"
        n_iter = max(1, self.budget.used)
        return DualResult(alpha=self.alpha, f=self.f, n_iter=n_iter, status=status)


@jit
def visit(
    block: FloatArray,
    places: IntArray,
    variables: IntArray,
    position: int,
    target: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    ridge: FloatArray,
    curvature: FloatArray,
    setting: tuple[float, float, float, float],
    max_steps: int,
    alpha: FloatArray,
    f: FloatArray,
) -> tuple[int, int]:
    """Move the variables from a position on, one after the other, at most max_steps of them.

    The kernel row of variables[p] is block[places[p]]; curvature is |k_ii| + ridge_i; setting is
    (eta, lambda, c, sum alpha - d). alpha and f are changed in place.
    Returns the position to go on from, and the steps taken.
    """
    # Invariant: f = K alpha and excess = sum(alpha) - d after every step.
    eta, threshold, stiffness, excess = setting
    steps = 0
    for p in range(position, len(variables)):
        i = variables[p]
        slope = target[i] - f[i] - ridge[i] * alpha[i] - threshold - stiffness * excess
        # A row of norm zero has no curvature: it goes straight to its bound.
        step = eta * slope / max(curvature[i] + stiffness, 1e-300)
        moved = min(max(alpha[i] + step, lower[i]), upper[i])
        change = moved - alpha[i]
        if change == 0 or not np.isfinite(change):
            continue
        if steps == max_steps:
            return p, steps
        alpha[i] = moved
        excess += change
        row = block[places[p]]
        for j in range(len(f)):
            f[j] += change * row[j]
        steps += 1
    return len(variables), steps
