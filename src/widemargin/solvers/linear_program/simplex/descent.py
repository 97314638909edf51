"""Outer loop of the simplex method: load rows, recompute the inverse, perturb degenerate vertices.

The compiled pivots of `simplex.pivots` return to this loop when a kernel row is missing, when the
inverse of the basis has become inaccurate, and regularly for the budget and its monitor. If pivots
at a degenerate vertex make no progress, the right-hand side is perturbed.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr

from widemargin._base.tolerances import PRODUCT_ROUNDING
from widemargin._base.typing import FloatArray, IntArray
from widemargin.certificate import gap_scale
from widemargin.kernels import Rows
from widemargin.problems.linear_program import MarginProgram
from widemargin.solvers.base import Budget
from widemargin.solvers.linear_program.simplex import pivots
from widemargin.solvers.linear_program.simplex.state import (
    ABOVE,
    BELOW,
    FLAT,
    PIVOTS,
    ROOM,
    SIZE,
    TIGHT,
    WANTED,
    ProgramRows,
    new_state,
    with_capacity,
)

RENEW = 100  # number of pivots between recomputations of the inverse
WORK = 1e9  # kernel values read between two calls of the monitor
LARGE = 1e-4  # fraction of its upper bound from which on a coefficient is large
TRUST, DISTRUST = 1e-6, 0.1  # relative errors of the pivot element: accepted at first, and at most
SAME = 1e-12  # rounding error of a margin: within it of b a row keeps its side
SINGULAR = 1e-14  # relative size of diagonal entries of R (in QR) that count as zero
STUCK = 10  # consecutive degenerate pivots after which the right-hand side is perturbed
TIE = 1e-9  # relative size of the perturbation
IDLE = 50  # consecutive early recomputations of the inverse without progress: stalled by rounding


class SimplexDescent:
    """Simplex method on one program: its state, its row cache and its budget."""

    def __init__(self, problem: MarginProgram, rows: Rows, seed: int, budget: Budget) -> None:
        self.problem = problem
        self.rows = ProgramRows(problem, rows, budget.cache_bytes)
        self.state = new_state(problem, self.rows)
        self.budget = budget
        self.random = np.random.default_rng(seed)
        self.stalled = False
        self.least = PRODUCT_ROUNDING * float(problem.cost.sum())
        self.sweep = max(50, problem.n_rows // 10)
        self.sweeps, self.most_sweeps = 0, budget.left
        self.renewed = 0  # number of pivots at the last recomputation of the inverse

    @property
    def size(self) -> int:
        """Size of the basis: number of basic coefficients and of tight rows."""
        return int(self.state.tally[SIZE])

    @property
    def n_pivots(self) -> int:
        """Number of pivots so far."""
        return int(self.state.tally[PIVOTS])

    @property
    def tight(self) -> IntArray:
        """The tight rows I."""
        return self.state.tight[: self.size]

    @property
    def columns(self) -> IntArray:
        """The basic coefficients J."""
        return self.state.columns[: self.size]

    def begin(self, start: FloatArray | None) -> None:
        """Start from alpha = 0, or turn given coefficients into a vertex and start from that."""
        t, n = self.state, self.problem.n_rows
        t.edge[:] = t.size2
        if start is not None:
            t.alpha[:n] = np.clip(start, 0.0, t.upper[:n])
        if self.problem.nu is not None:
            self._border_basis(t.alpha[:n])
        self.renew()
        if start is not None:
            # Superbasic coefficients (nonbasic, but between their bounds) are pushed into the basis
            # or to a bound, as in a crossover, the largest first.
            free = np.flatnonzero((t.alpha > 0) & (t.place < 0))
            for j in free[np.argsort(-t.alpha[free], kind="stable")]:
                self._push(int(j))

    def _border_basis(self, alpha: FloatArray) -> None:
        """Set the first basis of the nu machine: the border, one coefficient and one row.

        The sum of the coefficients is fixed, so that an empty basis would be infeasible.
        """
        t, n = self.state, self.problem.n_rows
        total = alpha.sum()
        if total > 0:
            alpha /= total
            first = int(alpha.argmax())
            margins = self.rows.times(t.alpha)[:n]
        else:
            whole = np.append(self.problem.cost, 0.0)
            first = int(self.rows.times(whole)[:n].argmax())
            margins = self.rows.make(np.array([first]))[0, :n]
        row = int(np.abs(margins - self.problem.demand(margins)).argmin())
        self.rows.load(np.array([first, row, n]), np.zeros(0, dtype=np.intp))
        t.columns[:2], t.tight[:2], t.tally[SIZE] = (first, n), (row, n), 2
        t.place[[first, n]] = 0, 1
        t.side[[row, n]] = TIGHT
        block = self.rows.make(self.tight)
        solved = np.linalg.solve(block[:, self.columns], block)
        t.edge[:] = t.size2 + t.size2[self.columns] @ solved**2

    def _push(self, j: int) -> None:
        """Move a superbasic coefficient into the basis or to a bound."""
        self._make_room(1)
        code = pivots.ROWS_WANTED
        while code == pivots.ROWS_WANTED:
            code = pivots.run(self.state, 1, 0.0, 0.0, TRUST, self.least, j)
            self._fetch(code)
        if self.n_pivots - self.renewed >= RENEW:
            self.renew()

    def _make_room(self, more: int) -> None:
        # Rows of I and columns of J stay cached; breakpoints have the remaining slots.
        self.state = with_capacity(self.state, self.size + more + 2)
        spare = len(self.rows.holds) - 2 * (self.size + more) - 2
        self.state.tally[ROOM] = max(spare, 1)

    def _fetch(self, code: int) -> None:
        """Load the rows that a pivot lacks, without evicting those of the basis."""
        if code == pivots.ROWS_WANTED:
            t = self.state
            wanted = t.which[: t.tally[WANTED]].copy()
            self.rows.load(wanted, np.concatenate([self.tight, self.columns]))

    def descend(self, tol: float, tol_z: float) -> bool:
        """Pivot until the reduced costs are within tol and z within tol_z; return whether they are.

        Optimality is accepted only with a recomputed inverse: updated reduced costs carry the
        rounding errors of all pivots since.
        """
        trust = TRUST
        fresh = False  # whether the inverse was recomputed and no pivot made since
        lowest, idle = np.inf, 0
        while self.budget.status == "converged":
            self._make_room(RENEW)
            before = self.n_pivots
            most = int(min(RENEW, 1 + WORK // (self.rows.N * (self.size + 20) * 4)))
            most = max(1, min(most, self.most_sweeps * self.sweep - before))
            code = pivots.run(self.state, most, tol, tol_z, trust, self.least, -1)
            fresh = fresh and self.n_pivots == before
            if code == pivots.DONE and fresh:
                return True
            # With a fresh inverse the disagreement is due to the conditioning of the basis, and
            # recomputing would not help: accept a less accurate pivot.
            trust = TRUST if not fresh else trust * 100 if code == pivots.INACCURATE else trust
            if code == pivots.UNBOUNDED or trust > DISTRUST or idle > IDLE:
                self.stalled = True
                return False
            self._fetch(code)
            due = self.n_pivots - self.renewed >= RENEW
            if due or code not in (pivots.GO_ON, pivots.ROWS_WANTED):
                self.renew()
                fresh = True
                # Recomputations before they are due, again and again without progress, mean that
                # rounding errors undo what the pivots gain.
                value = self._stage_objective()
                idle = 0 if due or value < lowest - self.least else idle + 1
                lowest = min(lowest, value)
            if self.state.tally[FLAT] > STUCK:
                self._break_ties()
            sweeps, self.sweeps = self.sweeps, self.n_pivots // self.sweep
            t = self.state
            outside = (t.place < 0) & (t.alpha < t.upper)
            violation = float(np.max(t.pull[outside], initial=0.0)) / self.problem.n_rows
            self.budget.spend(self.sweeps - sweeps, violation)
        return False

    def _stage_objective(self) -> float:
        """Return the objective at the current costs and prices, without the perturbation of b.

        Otherwise a perturbation would count as progress.
        """
        t = self.state
        priced = np.isfinite(t.cost)
        slack = np.maximum(0.0, (1.0 if self.problem.nu is None else 0.0) - t.margin[priced])
        return float(t.cost[priced] @ slack + t.price @ t.alpha)

    def renew(self) -> None:
        """Recompute the inverse, and from it coefficients, margins, multipliers, reduced costs."""
        t = self.state
        self.renewed = self.n_pivots
        self._drop_dependent()
        basis, tight = self.columns, self.tight
        p = self.size
        rest = t.alpha.copy()
        rest[basis] = 0.0
        base = self.rows.times(rest) if rest.any() else np.zeros(self.rows.N)
        across = t.store[t.slot[tight]]
        square = across[:, basis]
        inverse = np.linalg.inv(square)
        t.inverse[:p, :p] = inverse
        asked = t.aim[tight] - base[tight]
        found = inverse @ asked
        found += inverse @ (asked - square @ found)  # one step of iterative refinement
        t.alpha[basis] = found
        t.margin[:] = base + found @ t.store[t.slot[basis]]
        t.margin[tight] = t.aim[tight]
        # Rounding must not move rows at b from one side to the other: z would jump between 0 and w.
        # Rows of infinite cost have no slack, so they are never below.
        near = np.abs(t.margin - t.aim) <= SAME * np.maximum(1.0, np.abs(t.aim))
        side = np.where((t.margin < t.aim) & np.isfinite(t.cost), BELOW, ABOVE)
        t.side[:] = np.where(near & (t.side != TIGHT), t.side, side)
        t.side[tight] = TIGHT
        t.z[:] = 0.0
        below = t.side == BELOW
        t.z[below] = t.cost[below]
        t.pull[:] = self.rows.times(t.z) - t.price
        found = -(t.pull[basis] @ inverse)
        found -= (t.pull[basis] + found @ square) @ inverse
        t.z[tight] = found
        t.pull[:] += found @ across

    def _drop_dependent(self) -> None:
        """Remove linearly dependent rows and columns from a numerically singular basis.

        The coefficients removed keep their values and become superbasic; rows removed are assigned
        to the side that their multipliers are nearer to.
        """
        t, p = self.state, self.size
        square = t.store[t.slot[self.tight]][:, self.columns]
        # The border of the nu machine has entries of size 1: scale it to the size of the kernel
        # values, so that the rank decision does not depend on the scale of the kernel.
        of_rows, of_columns = self.tight >= self.problem.n_rows, self.columns >= self.problem.n_rows
        size = float(np.abs(square[np.ix_(~of_rows, ~of_columns)]).max(initial=0.0))
        either = of_rows[:, None] | of_columns
        if either.any() and size > 0:
            square = np.where(either, size * square, square)
        order, rank = _independent(square)
        if rank == p:
            return
        # The border goes first, as it must stay in the basis.
        order = np.concatenate([order[of_columns[order]], order[~of_columns[order]]])
        columns, lost = self.columns[order[:rank]], self.columns[order[rank:]]
        order, _ = _independent(square[:, order[:rank]].T)
        order = np.concatenate([order[of_rows[order]], order[~of_rows[order]]])
        tight, free = self.tight[order[:rank]], self.tight[order[rank:]]
        t.place[lost], t.place[columns] = -1, np.arange(rank)
        t.side[free] = np.where(2 * t.z[free] > t.cost[free], BELOW, ABOVE)
        t.columns[:rank], t.tight[:rank], t.tally[SIZE] = columns, tight, rank

    def _break_ties(self) -> None:
        """Perturb the right-hand side b of the rows that are not tight, away from their margins.

        The tight rows keep their b, so the vertex does not change, but rows at the same breakpoint
        are separated and steps along edges have positive length. The lower bounds of the basic
        coefficients are perturbed likewise.
        """
        t, n = self.state, self.problem.n_rows
        scale = TIE * (1.0 if self.problem.nu is None else float(np.sqrt(t.size2[:n].max())))
        away = scale * self.random.uniform(0.5, 1.0, size=n)
        sides = t.side[:n]
        t.aim[:n] += np.where(sides == BELOW, away, np.where(sides == ABOVE, -away, 0.0))
        basic = self.columns[self.columns < n]
        t.lower[basic] = -away[basic] / np.sqrt(t.size2[basic])
        t.tally[FLAT] = 0

    def objective(self) -> float:
        """Return the objective at this vertex, for the perturbed b (not for the nu machine)."""
        t = self.state
        return self.problem.objective(t.alpha, np.maximum(0.0, t.aim - t.margin))

    def has_no_margin(self, tol: float) -> bool:
        """Return whether rho of the nu machine is 0, up to tol times the largest kernel value."""
        t, n = self.state, self.problem.n_rows
        return bool(t.alpha[n] <= tol * np.sqrt(t.size2[:n].max()))

    def large(self) -> bool:
        """Return whether some coefficients are so large that tiny reduced costs matter."""
        t = self.state
        return bool((t.alpha > LARGE * t.upper).any())

    def lower_prices(self, tol: float) -> float:
        """Lower the prices slightly, at a cost of a tenth of tol; return the amount per unit scale.

        Multipliers that are optimal for lower prices are strictly feasible for the true ones.
        """
        t = self.state
        # A coefficient at its upper bound needs no strict feasibility: there (G z)_j may exceed c.
        sizes = np.where(t.alpha < t.upper, np.sqrt(t.size2), 0.0)
        total = float(self.problem.cost.sum())
        weight = float(sizes @ t.alpha)
        hair = 0.1 * tol * gap_scale(self.objective()) / max(weight, 1e-300)
        hair = float(np.clip(hair, PRODUCT_ROUNDING * total, 1e-8 * total))
        t.price[:] = self.problem.price - hair * sizes
        self.renew()
        return hair

    def forbid_slack(self, prices: FloatArray) -> None:
        """Change the objective to prices' alpha, to be minimised without any slack."""
        t = self.state
        t.cost[:] = np.inf
        t.price[:] = prices
        self.renew()

    def point(self) -> tuple[FloatArray, FloatArray]:
        """Return coefficients and multipliers, made exactly feasible (bounds, and sums for nu)."""
        t, n = self.state, self.problem.n_rows
        alpha = np.clip(t.alpha[:n], 0.0, t.upper[:n])
        z = np.clip(t.z[:n], 0.0, self.problem.cost)
        if self.problem.nu is not None:
            alpha /= alpha.sum()
            z = _with_sum(z, self.problem.cost, self.problem.nu)
        return alpha, z


def _with_sum(z: FloatArray, cost: FloatArray, total: float) -> FloatArray:
    """Shift multipliers to the given sum, first those strictly inside the box, then all."""
    for room in (np.minimum(z, cost - z), cost - z if total > z.sum() else z):
        missing = total - float(z.sum())
        if room.sum() > 0:
            share = np.clip(missing / room.sum(), -1.0, 1.0)
            z = np.clip(z + share * room, 0.0, cost)
    return np.asarray(z)


def _independent(square: FloatArray) -> tuple[IntArray, int]:
    """Order columns by pivoted QR; return the order and the numerical rank."""
    if not len(square):
        return np.zeros(0, dtype=np.intp), 0
    _, triangle, order = qr(square, mode="economic", pivoting=True, check_finite=False)
    size = np.abs(np.diagonal(triangle))
    return order.astype(np.intp), int((size > SINGULAR * size[0]).sum())
