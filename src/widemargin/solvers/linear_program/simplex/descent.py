"""Run the compiled pivots and supply what they ask for: rows, a new inverse, ties broken.

Rows of the kernel when a pivot needs them, a new inverse when rounding has grown, random numbers
where a vertex is so degenerate that pivots gain nothing, and a look at the clock in between.
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

RENEW = 100  # pivots after which the inverse is computed afresh
WORK = 1e9  # kernel values read between two looks at the clock
LARGE = 1e-4  # of their limit
TRUST, DISTRUST = 1e-6, 0.1  # relative errors of pivots: all is well, all is lost
SAME = 1e-12  # margins this close to what is asked may be on either side
SINGULAR = 1e-14  # of the largest: pivots below make no basis
STUCK = 10  # pivots in a row without gain, after which ties are broken by random numbers
TIE = 1e-9  # relative size of these numbers
IDLE = 50  # new inverses in a row, each before it is due and without gain: rounding goes in circles


class SimplexDescent:
    """The state and what the pivots ask for from outside: rows, a new inverse, the clock."""

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
        self.renewed = 0  # number of pivots at the last new inverse

    @property
    def size(self) -> int:
        """Number of basic coefficients, and of tight rows."""
        return int(self.state.tally[SIZE])

    @property
    def n_pivots(self) -> int:
        """Pivots so far."""
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
        """Set out from alpha = 0 or from given coefficients, which become a vertex on the way."""
        t, n = self.state, self.problem.n_rows
        t.edge[:] = t.size2
        if start is not None:
            t.alpha[:n] = np.clip(start, 0.0, t.upper[:n])
        if self.problem.nu is not None:
            self._border_basis(t.alpha[:n])
        self.renew()
        if start is not None:
            free = np.flatnonzero((t.alpha > 0) & (t.place < 0))
            for j in free[np.argsort(-t.alpha[free], kind="stable")]:
                self._push(int(j))

    def _border_basis(self, alpha: FloatArray) -> None:
        """Put rho and the sum of the coefficients into the basis, with one coefficient and row."""
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
        """Move a coefficient between its bounds into the basis or to a bound."""
        self._make_room(1)
        sign = 1.0 if self.state.pull[j] > 0 else -1.0
        code = pivots.ROWS_WANTED
        while code == pivots.ROWS_WANTED:
            code = pivots.pivot(self.state, 1, j, sign, TRUST, self.least)
            self._fetch(code)
        if self.n_pivots - self.renewed >= RENEW:
            self.renew()

    def _make_room(self, more: int) -> None:
        self.state = with_capacity(self.state, self.size + more + 2)
        spare = len(self.rows.holds) - 2 * (self.size + more) - 2
        self.state.tally[ROOM] = max(spare, 1)

    def _fetch(self, code: int) -> None:
        """Bring the rows that the pivots ask for; those of the basis stay."""
        if code == pivots.ROWS_WANTED:
            t = self.state
            wanted = t.which[: t.tally[WANTED]].copy()
            self.rows.load(wanted, np.concatenate([self.tight, self.columns]))

    def descend(self, tol: float, tol_z: float) -> bool:
        """Pivot until no edge descends by more than tol; tell whether that was reached."""
        trust = TRUST
        fresh = False  # whether inverse, margins and multipliers are those of this very basis
        lowest, idle = np.inf, 0
        while self.budget.status == "converged":
            self._make_room(RENEW)
            before = self.n_pivots
            most = int(min(RENEW, 1 + WORK // (self.rows.N * (self.size + 20) * 4)))
            most = max(1, min(most, self.most_sweeps * self.sweep - before))
            code = pivots.run(self.state, most, tol, tol_z, trust, self.least)
            fresh = fresh and self.n_pivots == before
            if code == pivots.DONE and fresh:
                return True
            trust = TRUST if not fresh else trust * 100 if code == pivots.INACCURATE else trust
            if code == pivots.UNBOUNDED or trust > DISTRUST or idle > IDLE:
                self.stalled = True
                return False
            self._fetch(code)
            due = self.n_pivots - self.renewed >= RENEW
            if due or code not in (pivots.GO_ON, pivots.ROWS_WANTED):
                self.renew()
                fresh = True
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
        """Return the objective at the costs and prices of now; ties broken make no gain of it."""
        t = self.state
        priced = np.isfinite(t.cost)
        slack = np.maximum(0.0, (1.0 if self.problem.nu is None else 0.0) - t.margin[priced])
        return float(t.cost[priced] @ slack + t.price @ t.alpha)

    def renew(self) -> None:
        """Compute the inverse, and from it coefficients, margins and multipliers."""
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
        found += inverse @ (asked - square @ found)
        t.alpha[basis] = found
        t.margin[:] = base + found @ t.store[t.slot[basis]]
        t.margin[tight] = t.aim[tight]
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
        """Take rows and columns out of a basis that rounding made singular.

        Their coefficients stay where they are, between their bounds; the pivots take them from
        there. Rows go to the side that their multipliers are nearer to.
        """
        t, p = self.state, self.size
        square = t.store[t.slot[self.tight]][:, self.columns]
        # Bring the border of the nu machine, which is 1, to the size of the kernel values.
        of_rows, of_columns = self.tight >= self.problem.n_rows, self.columns >= self.problem.n_rows
        size = float(np.abs(square[np.ix_(~of_rows, ~of_columns)]).max(initial=0.0))
        either = of_rows[:, None] | of_columns
        if either.any() and size > 0:
            square = np.where(either, size * square, square)
        order, rank = _independent(square)
        if rank == p:
            return
        order = np.concatenate([order[of_columns[order]], order[~of_columns[order]]])
        columns, lost = self.columns[order[:rank]], self.columns[order[rank:]]
        order, _ = _independent(square[:, order[:rank]].T)
        order = np.concatenate([order[of_rows[order]], order[~of_rows[order]]])
        tight, free = self.tight[order[:rank]], self.tight[order[rank:]]
        t.place[lost], t.place[columns] = -1, np.arange(rank)
        t.side[free] = np.where(2 * t.z[free] > t.cost[free], BELOW, ABOVE)
        t.columns[:rank], t.tight[:rank], t.tally[SIZE] = columns, tight, rank

    def _break_ties(self) -> None:
        """Move what is asked of the rows away from their margins, by random numbers.

        Rows in the basis stay, so the vertex stays; steps along edges have a length again.
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
        """Return the objective at this vertex, ties broken or not (not for the nu machine)."""
        t = self.state
        return self.problem.objective(t.alpha, np.maximum(0.0, t.aim - t.margin))

    def has_no_margin(self, tol: float) -> bool:
        """Tell whether the margin rho of the nu machine is zero, to tol of the kernel."""
        t, n = self.state, self.problem.n_rows
        return bool(t.alpha[n] <= tol * np.sqrt(t.size2[:n].max()))

    def large(self) -> bool:
        """Tell whether coefficients are so large that the least pull is worth something."""
        t = self.state
        return bool((t.alpha > LARGE * t.upper).any())

    def lower_prices(self, tol: float) -> float:
        """Lower the prices by a hair that the gap does not feel; return it, for scale 1."""
        t = self.state
        sizes = np.where(t.alpha < t.upper, np.sqrt(t.size2), 0.0)  # at the limit z is free
        total = float(self.problem.cost.sum())
        weight = float(sizes @ t.alpha)
        hair = 0.1 * tol * gap_scale(self.objective()) / max(weight, 1e-300)
        hair = float(np.clip(hair, PRODUCT_ROUNDING * total, 1e-8 * total))
        t.price[:] = self.problem.price - hair * sizes
        self.renew()
        return hair

    def forbid_slack(self, prices: FloatArray) -> None:
        """Ask for the least prices' alpha among all coefficients without slack."""
        t = self.state
        t.cost[:] = np.inf
        t.price[:] = prices
        self.renew()

    def point(self) -> tuple[FloatArray, FloatArray]:
        """Return coefficients and multipliers, put exactly into their boxes."""
        t, n = self.state, self.problem.n_rows
        alpha = np.clip(t.alpha[:n], 0.0, t.upper[:n])
        z = np.clip(t.z[:n], 0.0, self.problem.cost)
        if self.problem.nu is not None:
            alpha /= alpha.sum()
            z = _with_sum(z, self.problem.cost, self.problem.nu)
        return alpha, z


def _with_sum(z: FloatArray, cost: FloatArray, total: float) -> FloatArray:
    """Return multipliers of the given sum; those inside the box give or take first."""
    for room in (np.minimum(z, cost - z), cost - z if total > z.sum() else z):
        missing = total - float(z.sum())
        if room.sum() > 0:
            share = np.clip(missing / room.sum(), -1.0, 1.0)
            z = np.clip(z + share * room, 0.0, cost)
    return np.asarray(z)


def _independent(square: FloatArray) -> tuple[IntArray, int]:
    """Return the columns, independent ones first, and how many are."""
    if not len(square):
        return np.zeros(0, dtype=np.intp), 0
    _, triangle, order = qr(square, mode="economic", pivoting=True, check_finite=False)
    size = np.abs(np.diagonal(triangle))
    return order.astype(np.intp), int((size > SINGULAR * size[0]).sum())
