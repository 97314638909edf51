r"""Solve a soft-margin problem by pair steps on a kernel block that is in memory (SMO).

Problem (see :mod:`widemargin.problems.soft_margin`): maximise
:math:`t'\alpha - \frac12 \beta'K\beta - \frac12 \sum_v \rho_v \alpha_v^2` over
:math:`l \le \alpha \le u`, moving pairs of variables of the same group so that the sum of each
group stays what it was. The pair is the one of Fan, Chen and Lin (2005): i has the highest score
that may rise, j promises the largest decrease by the second-order model.

Steps cost time in proportion to the rows of the kernel block that they touch, and a block that
fits the cache is several times faster. So the pairs are sought in working sets of limited size
(:mod:`widemargin.solvers.soft_margin.smo_sweep`). Where pair steps converge slowly, Newton steps
on the free variables and, once, an interior-point method take their turn.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.typing import FloatArray, RealArray
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Budget
from widemargin.solvers.numerics.box_qp_interior import solve_dense_box_qp
from widemargin.solvers.soft_margin.newton_step import newton_move
from widemargin.solvers.soft_margin.smo_loops import LANES
from widemargin.solvers.soft_margin.smo_sweep import DenseState

JITTER = {"float32": 1e-7, "float64": 1e-11}  # ridge of the Newton system, relative
INTERIOR_VARIABLES = 2048
STEPS_PER_SWEEP = 20_000  # some hundredths of a second: interrupts and monitors act in between
IDLE_SWEEPS = 50  # sweeps in a row that changed nothing that float64 can show
NEWTON_VARIABLES = 2500  # a factorisation cannot be interrupted, and must not take a second
STEPS_PER_NEWTON = 500  # pair steps between two Newton steps, at least
FLOPS_PER_PAIR_STEP = 1.3e5  # free^3 divided by this: pair steps in the time of a factorisation


def padded(n: int) -> int:
    """Return the side of a kernel block of n rows: whole chunks, with room for one more."""
    return (n // LANES + 1) * LANES


def solve_dense(
    K: RealArray,
    problem: SoftMargin,
    alpha: FloatArray,
    f: FloatArray,
    *,
    tol: float,
    budget: Budget,
    threads: int = 1,
) -> float:
    """Optimise all variables of a problem whose kernel matrix is in memory, in place.

    Parameters
    ----------
    K : ndarray of shape (n_padded, n_padded)
        Kernel of the problem's rows, zero in the padding; ``n_padded = padded(n_rows)``.
    problem : SoftMargin
        The problem.
    alpha : ndarray of shape (n_variables,)
        Start, feasible; changed in place.
    f : ndarray of shape (n_rows,)
        Decision values at alpha. They may hold a part that does not come from these rows; changed
        in place.
    tol : float
        KKT violation to reach.
    budget : Budget
        Steps left.
    threads : int
        Threads for bringing the scores up to date.

    Returns
    -------
    float
        The violation left, by the scores kept here.
    """
    schedule, n = _NewtonSchedule(), len(alpha)
    # Pair steps that cost as much as solving by interior points.
    interior_after = 2000 + n**3 / 5000 if n <= INTERIOR_VARIABLES else np.inf
    taken, left = 0, budget.left
    lowest, idle = np.inf, 0
    state = DenseState(K, problem, alpha, f, threads)
    while True:
        violation = state.violation()
        if violation <= tol or left == 0 or state.stalled() or idle > IDLE_SWEEPS:
            break
        # Only as far as the other variables, which stand still meanwhile, make it worth while.
        inner_tol = max(0.1 * violation, 0.5 * tol)
        steps, gained = state.sweep(inner_tol, min(STEPS_PER_SWEEP, left))
        left -= steps
        if not budget.spend(steps, violation) or steps == 0:
            break
        lower = violation < 0.999 * lowest
        lowest = violation if lower else lowest
        idle = 0 if lower or gained > state.rounding() else idle + 1
        schedule.steps += steps
        schedule.gained += gained
        taken += steps
        if taken >= interior_after:
            interior_after = np.inf
            _solve_by_interior_point(state)
        elif schedule.steps >= STEPS_PER_NEWTON and schedule.is_due(len(state.free())):
            schedule.judge(_take_newton_step(state))
            state.anchor()
    state.write_back(alpha, f)
    return violation


class _NewtonSchedule:
    """When to take a Newton step: after pair steps of its price, later if it disappoints."""

    def __init__(self) -> None:
        self.patience = 1
        self.steps = 0  # pair steps since the last Newton step, and what they gained
        self.gained = 0.0

    def is_due(self, n_free: int) -> bool:
        """Whether the pair steps since the last one cost as much as a Newton step."""
        if n_free > NEWTON_VARIABLES:
            return False
        price = STEPS_PER_NEWTON + n_free + int(n_free**3 / FLOPS_PER_PAIR_STEP)
        return self.steps >= self.patience * price

    def judge(self, gained: float) -> None:
        """Compare the gain of a Newton step with that of the pair steps before it."""
        better = gained * self.patience > self.gained
        self.patience = 1 if better else min(64, 2 * self.patience)
        self.steps, self.gained = 0, 0.0


def _take_newton_step(state: DenseState) -> float:
    """Move the free variables by one Newton step; return what the objective gained."""
    s, free = state, state.free()
    if len(free) < 2:
        return 0.0
    rows, alpha = s.row[free], s.alpha[free]
    A = s.K[np.ix_(rows, rows)].astype(np.float64)
    jitter = JITTER[s.K.dtype.name] * float(A.diagonal().max())
    A[np.diag_indices(len(free))] += s.ridge[free] + jitter
    lowest, highest = s.lower[free] - alpha, s.upper[free] - alpha
    score = s.scores()[free]
    move = newton_move(A, score, lowest, highest, s.group[free] if s.n_groups else None)
    if move is None:
        return 0.0
    # A variable that reaches its bound is set to it exactly.
    moved = np.where(move <= lowest, s.lower[free], alpha + move)
    s.alpha[free] = np.where(move >= highest, s.upper[free], moved)
    s.shift(free, s.alpha[free] - alpha)
    return float(score @ move - 0.5 * move @ (A @ move))


def _solve_by_interior_point(state: DenseState) -> None:
    """Solve by interior points instead; keep the result if it is better."""
    inside = np.flatnonzero(state.index >= 0)
    rows, alpha = state.row[inside], state.alpha[inside]
    Q = state.K[np.ix_(rows, rows)].astype(np.float64)
    Q[np.diag_indices(len(alpha))] += state.ridge[inside]
    linear = state.scores()[inside] + Q @ alpha
    members = [state.group[inside] == g for g in range(state.n_groups)]
    E = np.array(members, dtype=np.float64).reshape(-1, len(alpha))
    lower, upper = state.lower[inside], state.upper[inside]
    found = solve_dense_box_qp(Q, linear, lower, upper, E, E @ alpha)
    if found is None:
        return
    for member in members:  # what snapping to bounds has shifted goes to the freest variable
        room = np.where(member, np.minimum(found - lower, upper - found), -np.inf)
        found[room.argmax()] += alpha[member].sum() - found[member].sum()
    found = np.clip(found, lower, upper)
    with np.errstate(over="ignore", invalid="ignore"):  # it may have gone astray
        reached = linear @ found - 0.5 * found @ (Q @ found)
    if reached > linear @ alpha - 0.5 * alpha @ (Q @ alpha):
        state.alpha[inside] = found
        state.anchor()
