r"""Kernel Adatron for soft-margin classification: coordinate ascent on the dual.

Problem: ``c_classification`` of :mod:`widemargin.problems.soft_margin`, either loss,

.. math::

    \max_\alpha \; t'\alpha - \tfrac12 \alpha'K\alpha - \tfrac12 \sum_i \rho_i \alpha_i^2
    \quad\text{s.t.}\quad l_i \le \alpha_i \le u_i
    \quad\text{and, with a threshold, } \sum_i \alpha_i = d .

The variables of Opper and Winther (2000) are these multiplied by the labels; K is the covariance of
(8.20), the ridge :math:`\rho` is the input noise v that (8.16) adds to its diagonal, and the
solution is the saddle point of (8.22).

The Adatron is the solver of their simulations (section 8.7, table 8.2). There all variables are
updated simultaneously in each pass; here each update uses the updates before it (Frieß, Cristianini
and Campbell 1998):

.. math::

    \alpha_i \leftarrow \operatorname{clip}\Bigl(\alpha_i
    + \eta \, \frac{t_i - f_i - \rho_i \alpha_i - \lambda}{k_{ii} + \rho_i}, \; l_i, \; u_i\Bigr),
    \qquad f = K\alpha ,

which for :math:`\eta = 1` maximises the dual over :math:`\alpha_i`, and does not decrease it for
any :math:`0 < \eta < 2`.

*Order.* If all kernel values contain a common constant (c below adds to it), a fixed order can
require hundreds of times as many passes as a random order (Sun and Ye 2021 study such problems). So
the samples are shuffled before each pass, unless the order of the literature is requested
(``seed=None``).

*Threshold.* :math:`\lambda` is the multiplier of the equality constraint, or 0 without a threshold.
The constraint is handled by the method of multipliers. Passes maximise the augmented Lagrangian
(K becomes K + c, lambda becomes lambda + c (sum alpha - d)) until the remaining slopes are small
compared with the error of the sum; then
:math:`\lambda \leftarrow \lambda + c(\sum \alpha - d)`. This converges to the same optimum as
updates of pairs of variables.

The method is kept as a historical baseline. It is simple, and fast if the ridge is large, but the
number of passes grows with the condition number of K + diag(ridge), hence with C.
`soft_margin.active_set` does not have this weakness.
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

CHUNK_BYTES = 32e6  # kernel rows computed at once if K is not kept (a fraction of a second)
VALUES_PER_SWEEP = 2e7  # kernel values read between budget checks (hundredths of a second)
LEFT_OVER = 0.3  # largest slope, as a fraction of c |sum alpha - d|, at which lambda is updated
# Initial and largest c, in units of the median |k_ii|. It starts small because a large c slows the
# passes down, and is multiplied by STIFFER whenever an update of lambda finds the error of the sum
# above SLOW times the previous one.
STIFFNESS, STIFFEST, STIFFER, SLOW = 0.1, 1e3, 4.0, 0.5
UNBOUNDED = 1e12  # growth of the largest slope from which on the kernel counts as indefinite


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
        Problem with one variable per sample and at most one threshold.
    data : Rows
        Training samples with their kernel.
    tol : float
        KKT violation to reach.
    budget : Budget
        Limits on steps and memory. A step changes one variable and reads one row of the kernel
        matrix; a pass takes one step per variable that it changes. If the kernel matrix does not
        fit into memory, every pass recomputes it in blocks of rows.
    start : DualResult, optional
        Result for a warm start.
    method : {"auto"}
        The only method.
    seed : int or None
        Seed of the random order of each pass. None keeps the order of the samples, as in the
        literature.
    eta : float
        Step length in (0, 2): 1 is the exact maximum, larger values are over-relaxation.

    Returns
    -------
    DualResult
        Feasible dual variables and their decision values, whatever the status.
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
    """State of a run: dual variables, decision values, threshold, penalty and budget."""

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
        # With a threshold the KKT violation can be twice the largest slope (one variable too large,
        # another too small), and `balance` may increase it.
        self.aim = 0.25 * tol if problem.n_groups else 0.9 * tol
        self.threshold = float(problem.thresholds(self.f)[0]) if problem.n_groups else 0.0
        typical = float(np.median(np.abs(diagonal)) or np.abs(diagonal).mean() or 1.0)
        self.stiffness = STIFFNESS * typical if problem.n_groups else 0.0
        self.stiffest = STIFFEST * typical
        self.last_excess = np.inf
        self.violation = self.left_over()

    def decision_values(self, alpha: FloatArray) -> FloatArray:
        """Return K alpha, recomputed in float64."""
        used = np.flatnonzero(alpha)
        return self.rows.weighted_sum(np.arange(len(alpha)), self.rows, used, alpha[used])

    @property
    def excess(self) -> float:
        """Error of the equality constraint, sum alpha - d; 0 without a threshold."""
        return float(self.alpha.sum() - self.problem.totals[0]) if self.problem.n_groups else 0.0

    def left_over(self) -> float:
        """Return the largest slope along which a variable can move, at the current lambda and c."""
        slope = self.problem.scores(self.alpha, self.f)
        slope -= self.threshold + self.stiffness * self.excess
        up, down = self.alpha < self.problem.upper, self.alpha > self.problem.lower
        return float(max(slope[up].max(initial=0.0), -slope[down].min(initial=0.0)))

    def passes(self) -> Status:
        """Make passes over the variables until the tolerance is met; return the status."""
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
        """Make one pass over all variables, within the budget; return the number of steps."""
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
        if moved == 0:  # count idle passes, so that the budget limits them too
            self.budget.spend(1, self.violation)
        return moved

    def blocks(self, order: IntArray) -> Iterator[tuple[RealArray, IntArray, IntArray]]:
        """Yield (block of kernel rows, places in the block, variables) in the given order."""
        if self.K is not None:
            yield self.K, order, order
            return
        everything = np.arange(len(order))
        for first in range(0, len(order), self.chunk):
            part = order[first : first + self.chunk]
            yield self.rows.block(part, self.rows, everything), everything[: len(part)], part

    def shift_threshold(self, left: float) -> bool:
        """Update lambda if the remaining slope is small enough; return whether it changed."""
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
        """Make alpha feasible, recompute the decision values and return the KKT violation."""
        problem, excess = self.problem, self.excess
        self.threshold += self.stiffness * excess
        if abs(excess) > SUM_ROUNDING * float(np.abs(self.alpha).sum()):
            # Change free variables first, those farthest from their bounds; then those at a bound
            # that are nearest to the margin.
            room = np.minimum(self.alpha - problem.lower, problem.upper - self.alpha)
            distance = np.abs(problem.scores(self.alpha, self.f) - self.threshold)
            self.alpha = problem.repair(self.alpha, np.where(room > 0, -room, distance))
        self.f = self.decision_values(self.alpha)
        return problem.kkt_violation(self.alpha, self.f)

    def result(self, status: Status) -> DualResult:
        """Return the result of the run, made feasible if it ended early."""
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
    """Update the variables one after the other from a position on, in at most max_steps steps.

    The kernel row of variables[p] is block[places[p]]; curvature is |k_ii| + ridge_i; setting is
    (eta, lambda, c, sum alpha - d). alpha and f are changed in place.
    Returns the position to continue from and the number of steps taken.
    """
    # Invariant: f = K alpha and excess = sum(alpha) - d after every step.
    eta, threshold, stiffness, excess = setting
    steps = 0
    for p in range(position, len(variables)):
        i = variables[p]
        slope = target[i] - f[i] - ridge[i] * alpha[i] - threshold - stiffness * excess
        # Without curvature (k_ii = 0, no ridge, c = 0) the step ends at a bound; 1e-300 avoids a
        # division by zero.
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
