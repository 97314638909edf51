r"""Sequential minimal optimisation (SMO) for the soft-margin dual, kernel matrix in memory.

Problem (see :mod:`widemargin.problems.soft_margin`): maximise
:math:`t'\alpha - \frac12 \beta'K\beta - \frac12 \sum_v \rho_v \alpha_v^2` over
:math:`l \le \alpha \le u`. Each step changes a pair of variables of the same group, so that the sum
of each group is preserved. The pair is selected by second-order information (Fan, Chen and Lin
2005): i has the highest score among the variables that can increase, and j maximises the gain of
the quadratic model among those that can decrease.

The cost of a step is proportional to the rows of the kernel block that it reads, and a block that
fits into the cache is several times faster. Therefore pairs are selected from working sets of
limited size (:mod:`widemargin.solvers.soft_margin.smo_sweep`). If pair steps converge slowly,
Newton steps on the free variables are interleaved and, once, an interior-point method is run.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.typing import FloatArray, RealArray
from widemargin.kernels.row_loops import LANES
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Budget
from widemargin.solvers.numerics.box_qp_interior import solve_dense_box_qp
from widemargin.solvers.soft_margin.newton_step import newton_move
from widemargin.solvers.soft_margin.smo_sweep import DenseState

# Ridge of the Newton system relative to its diagonal, above the rounding errors of kernel values:
# without it the factorisation of a singular kernel matrix fails.
JITTER = {"float32": 1e-7, "float64": 1e-11}
INTERIOR_VARIABLES = 2048  # largest problem of the interior-point method, which is cubic
STEPS_PER_SWEEP = 20_000  # some hundredths of a second: interrupts and monitors act in between
IDLE_SWEEPS = 50  # consecutive sweeps without progress above rounding error
NEWTON_VARIABLES = 2500  # a factorisation cannot be interrupted, and must not take a second
STEPS_PER_NEWTON = 500  # least number of pair steps between two Newton steps
FLOPS_PER_PAIR_STEP = 1.3e5  # free^3 divided by this: pair steps in the time of a factorisation


def padded(n: int) -> int:
    """Return the order of a kernel block of n rows, padded to whole chunks by at least one row."""
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
    """Solve a soft-margin problem whose kernel matrix is in memory, in place.

    Parameters
    ----------
    K : ndarray of shape (n_padded, n_padded)
        Kernel matrix of the problem, zero in the padding; ``n_padded = padded(n_rows)``.
    problem : SoftMargin
        Problem to solve.
    alpha : ndarray of shape (n_variables,)
        Feasible starting point; overwritten by the solution.
    f : ndarray of shape (n_rows,)
        Decision values at alpha, which may include a contribution of samples outside the problem;
        updated in place.
    tol : float
        Largest KKT violation of the solution.
    budget : Budget
        Steps that remain.
    threads : int
        Number of threads for updating the decision values.

    Returns
    -------
    float
        Remaining KKT violation, computed from the updated decision values.
    """
    schedule, n = NewtonSchedule(), len(alpha)
    # The interior-point method is run once the pair steps have cost as much as it would.
    interior_after = 2000 + n**3 / 5000 if n <= INTERIOR_VARIABLES else np.inf
    taken, left = 0, budget.left
    lowest, idle = np.inf, 0
    state = DenseState(K, problem, alpha, f, threads)
    while True:
        violation = state.violation()
        if violation <= tol or left == 0 or state.stalled() or idle > IDLE_SWEEPS:
            break
        # The variables outside the working set are fixed meanwhile, so solving a working set to
        # a much smaller violation than theirs would be wasted.
        inner_tol = max(0.1 * violation, 0.5 * tol)
        steps, gained = state.sweep(inner_tol, min(STEPS_PER_SWEEP, left))
        left -= steps
        if not budget.spend(steps, violation) or steps == 0:
            break
        # SMO does not reduce the violation in every sweep; it has stalled only if neither the
        # violation nor the objective improves for many of them.
        lower = violation < 0.999 * lowest
        lowest = violation if lower else lowest
        idle = 0 if lower or gained > state.rounding() else idle + 1
        schedule.steps += steps
        schedule.gained += gained
        taken += steps
        if taken >= interior_after:
            interior_after = np.inf
            _solve_by_interior_point(state)
        elif schedule.steps >= STEPS_PER_NEWTON and schedule.is_due(_price(len(state.free()))):
            schedule.judge(_take_newton_step(state))
            state.anchor()  # removes the rounding errors of the incremental updates so far
    state.write_back(alpha, f)
    return violation


def _price(n_free: int) -> float:
    """Return the number of pair steps that cost as much as one Newton step."""
    if n_free > NEWTON_VARIABLES:
        return np.inf
    return STEPS_PER_NEWTON + n_free + n_free**3 / FLOPS_PER_PAIR_STEP


class NewtonSchedule:
    """Schedule of Newton steps: one after pair steps of equal cost, later if it gains less."""

    def __init__(self) -> None:
        self.patience = 1
        self.steps = 0  # pair steps since the last Newton step, and their gain
        self.gained = 0.0

    def is_due(self, price: float) -> bool:
        """Return whether the pair steps since the last Newton step have cost as much as one.

        `price` is the cost of a Newton step, in pair steps.
        """
        return self.steps >= self.patience * price

    def judge(self, gained: float) -> None:
        """Adapt the schedule: compare the gain of a Newton step with that of the pair steps."""
        better = gained * self.patience > self.gained
        self.patience = 1 if better else min(64, 2 * self.patience)
        self.steps, self.gained = 0, 0.0


def _take_newton_step(state: DenseState) -> float:
    """Take one Newton step on the free variables; return the gain of the dual objective."""
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
    # Set variables exactly to their bound: a rounding error inside it would count as free.
    moved = np.where(move <= lowest, s.lower[free], alpha + move)
    s.alpha[free] = np.where(move >= highest, s.upper[free], moved)
    s.shift(free, s.alpha[free] - alpha)
    return float(score @ move - 0.5 * move @ (A @ move))


def _solve_by_interior_point(state: DenseState) -> None:
    """Solve all variables by the interior-point method; keep the result if it is better."""
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
    # Snapping to bounds has changed the sums: correct the variable farthest from its bounds.
    for member in members:
        room = np.where(member, np.minimum(found - lower, upper - found), -np.inf)
        found[room.argmax()] += alpha[member].sum() - found[member].sum()
    found = np.clip(found, lower, upper)
    with np.errstate(over="ignore", invalid="ignore"):  # the method may have diverged
        reached = linear @ found - 0.5 * found @ (Q @ found)
    if reached > linear @ alpha - 0.5 * alpha @ (Q @ alpha):
        state.alpha[inside] = found
        state.anchor()
