r"""Compute the free rows and the exchange tableau of a fitted machine, to remove rows from it.

In signed coefficients x (one a row) and values :math:`h = Kx + \rho x + b`, a row is in one of
five states: at its lower cap, free below zero (h = target below), zero, free above zero (h = target
above), at its upper cap. Classification uses three of them, regression all five; a tube of no width
joins the two free ones.

The derivative of a path (`leave_one_out`) is a column of this tableau. All that
are wanted are formed by one matrix product. With an intercept the kernel is shifted by a constant,
which changes nothing (the coefficients sum to zero) and keeps every block of free rows positive
definite.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from widemargin._base.threads import for_each
from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.leave_one_out import loops

AT_BOUND = 1e-12  # coefficients this near to a bound, relative to the box, are at it
WORTH_A_THREAD = 1e7  # operations, about a millisecond; below that, starting a thread costs more
RANK_TOLERANCE = 1e-12  # Schur complement, relative, below which a row depends on the others


class Tableau:
    """A fitted model from which rows are removed.

    K is the kernel matrix in float64, padded with zeros as for `solve_dense`; the problem has at
    most one threshold, and alpha is its optimum, polished. `refine` tells whether to put the free
    rows on their targets; the rows given here must then be all.
    """

    def __init__(
        self,
        K: FloatArray,
        problem: SoftMargin,
        alpha: FloatArray,
        threads: int = 1,
        *,
        refine: bool = True,
    ) -> None:
        self.n = n = problem.n_rows
        self.K = K[:n, :n]
        self.problem = problem
        self.fitted = alpha
        self.threads = threads
        self.intercept = problem.n_groups == 1
        self.limits = limits_of(problem)
        self.joined = self.limits[2] == self.limits[3]
        self.ridge = problem.ridge[:n]
        self.x = snapped(problem.coefficients(alpha).copy(), self.limits)
        self.shift = 0.0
        if self.intercept:  # it moves the largest eigenvalue by no more than the mean diagonal
            self.shift = float(np.diagonal(self.K).mean()) / n or 1.0
        self.diagonal = np.diagonal(self.K) + self.ridge + self.shift
        self._free_independently()
        self.threshold = 0.0
        self.h = np.empty(0)
        if refine:
            self._refine()

    @cached_property
    def eps(self) -> FloatArray:
        """How near to a bound a coefficient counts as there when the threshold is sought."""
        caps = np.maximum(self.limits[0], self.limits[1])
        largest = max(float(np.abs(self.x).max(initial=0.0)), 1e-300)
        return np.asarray(1e-9 * np.where(np.isfinite(caps), caps, largest))

    # -- the fitted model ------------------------------------------------------------------

    def _free_independently(self) -> None:
        """Find the free rows; move dependent ones to a bound, which leaves all values alone."""
        x, (above, below, *_) = self.x, self.limits
        free = np.flatnonzero((x != 0) & (x < above) & (x > -below))
        S = self._block(free)
        independent, dependent = _split_by_rank(S)
        while len(dependent):
            d, dependent = dependent[-1], dependent[:-1]
            null = np.zeros(len(free))
            null[d] = 1.0
            null[independent] = -np.linalg.solve(
                S[np.ix_(independent, independent)], S[independent, d]
            )
            out = self._move_to_bound(free, null)
            if out != d:
                independent = np.append(independent[independent != out], d)
        self.free = np.sort(free[independent])
        self.state = np.zeros(self.n, dtype=np.int8)
        self.state[(x > 0) & (x >= above)] = loops.UPPER
        self.state[(x < 0) & (x <= -below)] = loops.LOWER
        self.state[self.free] = np.where(x[self.free] > 0, loops.FREE_ABOVE, loops.FREE_BELOW)

    def _move_to_bound(self, free: IntArray, null: FloatArray) -> int:
        """Move the coefficients along a null vector to the first bound; return who met it."""
        x = self.x[free]
        above = np.where((x > 0) | self.joined[free], self.limits[0][free], 0.0) - x
        below = np.where((x < 0) | self.joined[free], -self.limits[1][free], 0.0) - x
        null = np.where(np.abs(null) > 1e-9 * np.abs(null).max(), null, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            forward = np.where(null > 0, above / null, np.where(null < 0, below / null, np.inf))
            backward = np.where(null > 0, -below / null, np.where(null < 0, -above / null, np.inf))
        if backward.min() < forward.min():
            null, forward, above, below = -null, backward, above, below
        who = int(forward.argmin())
        self.x[free] += forward[who] * null
        bound = (above if null[who] > 0 else below)[who] + x[who]
        self.x[free[who]] = bound
        return who

    def _block(self, rows: IntArray) -> FloatArray:
        """Kernel of some rows with ridge and shift."""
        S = self.K[np.ix_(rows, rows)] + self.shift
        S[np.diag_indices(len(rows))] += self.ridge[rows]
        return S

    def _values(self) -> FloatArray:
        return self.K @ self.x + self.ridge * self.x + self.threshold

    @cached_property
    def inverse(self) -> FloatArray:
        """Inverse of the block of the free rows, bordered where there is an intercept."""
        m = len(self.free)
        S = np.linalg.inv(self._block(self.free))
        S = 0.5 * (S + S.T)
        if not self.intercept or m == 0:
            return S
        sums = S.sum(axis=1)
        total = float(sums.sum())
        out = np.empty((m + 1, m + 1))
        out[:m, :m] = S - np.outer(sums, sums) / total
        out[:m, m] = out[m, :m] = sums / total
        # The shift is part of the block: that of the plain kernel would be -1/total + shift.
        out[m, m] = -1.0 / total
        return out

    def _refine(self) -> None:
        """Put the free rows on their targets and find the threshold."""
        free = self.free
        if not len(free):
            if self.intercept:
                self.threshold = float(self.problem.thresholds(self.K @ self.x)[0])
            self.h = self._values()
            return
        target = np.where(self.state[free] > 0, self.limits[2][free], self.limits[3][free])
        above, below = self.limits[0][free], -self.limits[1][free]
        rows = self.K[free]
        for _ in range(3):
            values = rows @ self.x + self.ridge[free] * self.x[free] + self.threshold
            lack = target - values
            if self.intercept:
                lack = np.append(lack, -self.x.sum())
            move = self.inverse @ lack
            moved = self.x[free] + move[: len(free)]
            slack = 1e-6 * self.eps[free]
            low = np.where(self.joined[free] | (self.state[free] < 0), below, 0.0)
            high = np.where(self.joined[free] | (self.state[free] > 0), above, 0.0)
            if ((moved < low - slack) | (moved > high + slack)).any():
                moved = np.clip(moved, low, high)
            self.x[free] = moved
            if self.intercept:
                self.threshold += float(move[-1])
        self.h = self._values()

    # -- columns of the tableau ------------------------------------------------------------

    @cached_property
    def basic(self) -> IntArray:
        """Indices that respond by their coefficients; n is the threshold."""
        extra = [self.n] if self.intercept and len(self.free) else []
        return np.append(self.free, extra).astype(np.intp)

    def _matrix_rows(self, rows: IntArray) -> FloatArray:
        """Rows of A = [[K + ridge + shift, 1], [1', 0]]; row n is the last one."""
        size = self.n + self.intercept
        out = np.empty((len(rows), size))
        inner = rows < self.n
        out[inner, : self.n] = self.K[rows[inner]] + self.shift
        own = np.flatnonzero(inner)
        out[own, rows[own]] += self.ridge[rows[own]]
        if self.intercept:
            out[inner, self.n] = 1.0
            out[~inner, : self.n] = 1.0
            out[~inner, self.n] = 0.0
        return out

    @cached_property
    def basic_rows(self) -> FloatArray:
        """Rows of A of what responds."""
        return self._matrix_rows(self.basic)

    def columns(self, wanted: IntArray) -> FloatArray:
        """Return columns of the fitted model's tableau, each as a row of the result."""
        if not len(self.basic):
            return self._matrix_rows(wanted)
        place = np.full(self.n + self.intercept, -1, dtype=np.intp)
        place[self.basic] = np.arange(len(self.basic))
        out = np.empty((len(wanted), self.n + self.intercept))

        def form(part: slice) -> None:
            chosen = wanted[part]
            is_basic = place[chosen] >= 0
            W = np.empty((len(chosen), len(self.basic)))
            W[is_basic] = self.inverse[place[chosen[is_basic]]]
            W[~is_basic] = self.basic_rows[:, chosen[~is_basic]].T @ -self.inverse
            np.matmul(W, self.basic_rows, out=out[part])
            out[part][~is_basic] += self._matrix_rows(chosen[~is_basic])
            out[part][:, self.basic] = W

        many = out.size * len(self.basic) > WORTH_A_THREAD
        width = max(32, -(-len(wanted) // (2 * (self.threads if many else 1))))
        parts = [slice(k, k + width) for k in range(0, len(wanted), width)]
        if many:
            for_each(form, parts, self.threads)
        else:
            for part in parts:
                form(part)
        return out

    def responding(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """What responds and what is held in the fitted model, and how far it may move.

        Returns which indices respond by their coefficients (1 or 0), their responding and held
        quantities, and the interval of each row.
        """
        size = self.n + self.intercept
        basic = np.zeros(size)
        basic[self.basic] = 1.0
        x, h = np.zeros(size), np.zeros(size)
        x[: self.n], h[: self.n] = self.x, self.h
        if self.intercept:
            x[self.n] = self.threshold
        low, high = np.empty(self.n), np.empty(self.n)
        loops.set_intervals(self.state, self.limits, self.joined, low, high)
        z, held = np.where(basic > 0, x, h), np.where(basic > 0, h, x)
        return basic, z, held, low, high


def limits_of(problem: SoftMargin) -> FloatArray:
    """Caps above and below zero of each row, and its targets there."""
    n = problem.n_rows
    limits = np.zeros((4, n))
    limits[2], limits[3] = -np.inf, np.inf
    above, below = np.flatnonzero(problem.upper > 0), np.flatnonzero(problem.lower < 0)
    limits[0, problem.row[above]] = problem.upper[above]
    limits[1, problem.row[below]] = -problem.lower[below]
    limits[2, problem.row[above]] = problem.target[above]
    limits[3, problem.row[below]] = problem.target[below]
    return limits


def snapped(x: FloatArray, limits: FloatArray) -> FloatArray:
    """Set coefficients that are at a bound up to rounding to the bound."""
    above, below = limits[0], limits[1]
    caps = np.where(x > 0, above, below)
    scale = np.where(np.isfinite(caps), caps, max(float(np.abs(x).max(initial=0.0)), 1e-300))
    x[np.abs(x) <= AT_BOUND * scale] = 0.0
    full = np.isfinite(caps) & (np.abs(x) >= caps * (1 - AT_BOUND)) & (caps > 0)
    x[full] = np.sign(x[full]) * caps[full]
    return x


def ends_of(
    x: FloatArray, limits: FloatArray, ridge: FloatArray, rows: IntArray, fraction: FloatArray
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return where rows end that a fraction of leaves: new caps, coefficient per slack, who moves.

    With squared slack there is no cap, and a coefficient stops at that number times the slack.
    """
    kept = 1.0 - fraction
    x, ridge = x[rows], ridge[rows]
    caps = np.where(x > 0, limits[0][rows], limits[1][rows])
    caps = np.where(np.isfinite(caps), caps, 0.0) * kept
    stiffness = np.where(ridge > 0, kept / np.where(ridge > 0, ridge, 1.0), 0.0)
    return caps, stiffness, (x != 0) & (np.abs(x) > caps)


def first_step(
    x: FloatArray,
    limits: FloatArray,
    rows: IntArray,
    values: FloatArray,
    caps: FloatArray,
    stiffness: FloatArray,
    rate: FloatArray,
) -> FloatArray:
    """Return the values of rows after the first step of their paths, as if there were no event.

    rate is how fast a value falls with its coefficient; caps and stiffness come from `ends_of`.
    """
    x = x[rows]
    target = np.where(x > 0, limits[2][rows], limits[3][rows])
    ahead = x - np.sign(x) * caps - stiffness * (target - values)
    return np.asarray(values - rate * ahead / (1.0 + stiffness * rate))


def _split_by_rank(S: FloatArray) -> tuple[IntArray, IntArray]:
    """Positions of a largest set of independent rows of a semi-definite matrix, and the rest."""
    if not len(S):
        return np.arange(0), np.arange(0)
    _, order, rank, _ = lapack.dpstrf(S, tol=RANK_TOLERANCE * float(S.diagonal().max()), lower=1)
    order = order - 1
    return np.sort(order[:rank]), order[rank:]
