r"""Exchange tableau of a fitted soft-margin model, from which leave-one-out paths start.

In signed coefficients x (one per sample) and values :math:`h = Kx + \rho x + b`, a sample is in
one of five states: at its lower cap, free below zero (h = target below), zero, free above zero
(h = target above), at its upper cap. Classification uses three of them, regression all five; a tube
of width zero joins the two free ones.

The derivative of a path (`leave_one_out`) is a column of this tableau; one matrix product forms all
columns that are needed. With an intercept the kernel is shifted by a constant. This does not change
the model, as the coefficients sum to zero, and makes the block of the free samples positive
definite if it is so on vectors that sum to zero.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from widemargin._base.threads import for_each
from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.leave_one_out import loops

AT_BOUND = 1e-12  # distance from a bound, relative to the cap, up to which a coefficient is at it
WORTH_A_THREAD = 1e7  # operations, about a millisecond; below that, starting a thread costs more
RANK_TOLERANCE = 1e-12  # relative Schur complement below which a sample depends on the others


class Tableau:
    """Exchange tableau of a fitted model.

    K is the kernel matrix in float64, padded with zeros as for `solve_dense`; the problem has at
    most one threshold, and alpha is its optimum, see `polish`. With `refine`, the free coefficients
    are solved for again, so that the values of free samples equal their targets; the problem must
    then contain all samples.
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
        if self.intercept:  # adds at most the mean diagonal entry to an eigenvalue
            self.shift = float(np.diagonal(self.K).mean()) / n or 1.0
        self.diagonal = np.diagonal(self.K) + self.ridge + self.shift
        self._free_independently()
        self.threshold = 0.0
        self.h = np.empty(0)
        if refine:
            self._refine()

    @cached_property
    def eps(self) -> FloatArray:
        """Distance up to which a coefficient is at a bound, for the choice of the threshold."""
        caps = np.maximum(self.limits[0], self.limits[1])
        largest = max(float(np.abs(self.x).max(initial=0.0)), 1e-300)
        return np.asarray(1e-9 * np.where(np.isfinite(caps), caps, largest))

    # -- the fitted model ------------------------------------------------------------------

    def _free_independently(self) -> None:
        """Find linearly independent free samples and set the states of all samples.

        Dependent ones are moved to a bound along null vectors, which changes no decision value.
        """
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
        """Move along a null vector to the first bound; return the position in `free` at it."""
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
        """Return the kernel matrix of some samples with ridge and shift."""
        S = self.K[np.ix_(rows, rows)] + self.shift
        S[np.diag_indices(len(rows))] += self.ridge[rows]
        return S

    def _values(self) -> FloatArray:
        """Return the values h of all samples."""
        return self.K @ self.x + self.ridge * self.x + self.threshold

    @cached_property
    def inverse(self) -> FloatArray:
        """Inverse of the matrix of the free samples, bordered if there is an intercept."""
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
        # The shift is part of the block; without it the entry would be -1/total + shift.
        out[m, m] = -1.0 / total
        return out

    def _refine(self) -> None:
        """Solve for free coefficients and threshold, so that free samples meet their targets."""
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
        """Indices of the coefficients that respond; index n is the threshold."""
        extra = [self.n] if self.intercept and len(self.free) else []
        return np.append(self.free, extra).astype(np.intp)

    def _matrix_rows(self, rows: IntArray) -> FloatArray:
        """Return rows of A = [[K + ridge + shift, 1], [1', 0]]; row n is the last one."""
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
        """Rows of A with the indices `basic`."""
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
        """Return the initial state of a path: basic, z, held, low and high, see `loops`.

        Per index, basic is 1 if the coefficient responds, else 0; z is the responding and held the
        held quantity. The interval from low to high is that of z for each sample.
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
    """Return, per sample, the caps above and below zero and the targets there, as four rows."""
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
    """Set coefficients that are at a bound up to rounding to the bound, in place."""
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
    """Return the ends of the paths: new caps, stiffness, and a mask of coefficients that move.

    A fraction of the weight of each sample is removed. With squared slack there is no cap, and the
    path ends where the coefficient is the stiffness times the slack. A hard constraint holds
    unchanged for what is left of the sample.
    """
    kept = 1.0 - fraction
    x, ridge = x[rows], ridge[rows]
    caps = np.where(x > 0, limits[0][rows], limits[1][rows])
    hard = np.isinf(caps) & (ridge == 0) & (kept > 0)
    caps = np.where(hard, np.inf, np.where(np.isfinite(caps), caps, 0.0) * kept)
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
    """Return the values of samples at the ends of their paths, as if there were no event.

    rate is the derivative of a value with respect to its coefficient, without ridge; caps and
    stiffness come from `ends_of`.
    """
    x = x[rows]
    target = np.where(x > 0, limits[2][rows], limits[3][rows])
    ahead = x - np.sign(x) * caps - stiffness * (target - values)
    return np.asarray(values - rate * ahead / (1.0 + stiffness * rate))


def _split_by_rank(S: FloatArray) -> tuple[IntArray, IntArray]:
    """Return a maximal set of independent rows of a semi-definite matrix, and the other rows."""
    if not len(S):
        return np.arange(0), np.arange(0)
    _, order, rank, _ = lapack.dpstrf(S, tol=RANK_TOLERANCE * float(S.diagonal().max()), lower=1)
    order = order - 1
    return np.sort(order[:rank]), order[rank:]
