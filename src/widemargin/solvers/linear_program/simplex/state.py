r"""State of the simplex method: the arrays shared by the compiled loops of `simplex.pivots`.

The simplex method solves the linear program in the form

.. math::

    \min_\alpha\; p'\alpha + \sum_i w_i \max(0, b_i - (A \alpha)_i)
    \quad\text{s.t.}\quad l \le \alpha \le u .

with a symmetric matrix A of order N. The nu machine is the same with a border: one more
coefficient, rho, without bounds, with column -1 and price -nu; and one more row, -sum alpha = -1,
whose multiplier is free. The bordered matrix is symmetric, too.

A vertex has as many basic coefficients J (between their bounds) as tight rows I (margin b_i). The
optimal basis of a kernel machine is small, so the inverse of A[I, J] is stored explicitly. Rows of
A are computed when they are first needed and evicted when memory is short.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from widemargin._base.typing import FloatArray, IntArray
from widemargin.kernels import Rows
from widemargin.problems.linear_program import MarginProgram

ABOVE, BELOW, TIGHT = 0, 1, 2  # position of a row's margin relative to its right-hand side b
SIZE, PIVOTS, WANTED, FLAT, ROOM = 0, 1, 2, 3, 4  # indices into State.tally
FIRST_BASIS = 64  # initial capacity of the basis arrays, which grow by half when they are full
# Arrays of State that are initialised to zero, of length N and of the capacity of the basis.
OF_ROWS = ("alpha", "margin", "z", "pull", "edge", "move", "row", "tilt", "times")
OF_BASIS = ("step", "across", "turn", "undo")


class State(NamedTuple):
    """Arrays of the simplex method: N rows, at most `capacity` basic coefficients.

    Attributes
    ----------
    store, slot : ndarrays of shape (n_slots, N), (N,)
        Cached rows of A, and the slot of each row (-1 if it is not cached).
    aim, cost, price, lower, upper : ndarrays of shape (N,)
        b, w, p, l, u.
    size2 : ndarray of shape (N,)
        Squared scale of each column: lengths of edges are in units of coefficient times scale.
    alpha, margin, z, pull, edge : ndarrays of shape (N,)
        Coefficients; A alpha; multipliers; A z - p, the negative reduced costs; steepest-edge
        weights, the squared length of the edge along which a coefficient enters the basis.
    side : ndarray of shape (N,)
        ABOVE, BELOW or TIGHT.
    place : ndarray of shape (N,)
        Position of a coefficient in `columns`, -1 if it is nonbasic.
    columns, tight : ndarrays of shape (capacity,)
        J and I.
    inverse : ndarray of shape (capacity, capacity)
        Inverse of A[I, J]: its rows belong to J, its columns to I.
    move, row, tilt : ndarrays of shape (N,)
        Work arrays: change of the margins; the leaving variable's row of the tableau; inner
        products of edges.
    step, across, turn, undo : ndarrays of shape (capacity,)
        Work arrays of the basis.
    times, which : ndarrays of shape (N,), (N + 2,)
        Work arrays: breakpoints of the ratio test and their rows; rows to load.
    tally : ndarray of shape (5,)
        Size of the basis, number of pivots, number of rows to load, consecutive degenerate pivots,
        largest number of breakpoints that a step may pass.
    """

    store: FloatArray
    slot: IntArray
    aim: FloatArray
    cost: FloatArray
    price: FloatArray
    lower: FloatArray
    upper: FloatArray
    size2: FloatArray
    alpha: FloatArray
    margin: FloatArray
    z: FloatArray
    pull: FloatArray
    edge: FloatArray
    side: npt.NDArray[np.int8]
    place: IntArray
    columns: IntArray
    tight: IntArray
    inverse: FloatArray
    move: FloatArray
    row: FloatArray
    tilt: FloatArray
    step: FloatArray
    across: FloatArray
    turn: FloatArray
    undo: FloatArray
    times: FloatArray
    which: IntArray
    tally: IntArray


class ProgramRows:
    """Cache of rows of A, computed from kernel rows; holds as many as fit into cache_bytes."""

    def __init__(self, problem: MarginProgram, rows: Rows, cache_bytes: float) -> None:
        self.problem, self.rows = problem, rows
        self.n = problem.n_rows
        self.N = self.n + (problem.nu is not None)
        n_slots = int(min(self.N, cache_bytes // (8 * self.N)))
        self.store = np.empty((n_slots, self.N))
        self.slot = np.full(self.N, -1, dtype=np.intp)
        self.holds = np.full(n_slots, -1, dtype=np.intp)
        self.next = 0
        self.complete = n_slots == self.N
        # If all rows fit, fill the cache at once: the symmetric fill needs half the kernel values.
        if self.complete:
            self.rows.fill_symmetric(np.arange(self.n), self.store[: self.n, : self.n])
            self._dress(np.arange(self.n), self.store[: self.n])
            if self.problem.nu is not None:
                self._border(self.store[self.n])
            self.slot[:] = self.holds[:] = np.arange(self.N)

    def _dress(self, which: IntArray, block: FloatArray) -> None:
        """Turn kernel rows into rows of A (signs, shift, border), in place."""
        y = self.problem.y
        block[:, : self.n] *= y[which, None]
        block[:, : self.n] *= y
        block[np.arange(len(which)), which] -= self.problem.shift[which]
        block[:, self.n :] = -1.0

    def _border(self, row: FloatArray) -> None:
        row[: self.n], row[self.n :] = -1.0, 0.0

    def make(self, which: IntArray) -> FloatArray:
        """Return rows of A, from the cache if it holds all of them."""
        if (self.slot[which] >= 0).all():
            return self.store[self.slot[which]]
        out = np.empty((len(which), self.N))
        inner = which < self.n
        some = which[inner]
        block = np.empty((len(some), self.N))
        block[:, : self.n] = self.rows.block(some, self.rows, np.arange(self.n))
        self._dress(some, block)
        out[inner] = block
        for place in np.flatnonzero(~inner):
            self._border(out[place])
        return out

    def load(self, which: IntArray, pinned: IntArray) -> None:
        """Load rows into the cache, evicting the oldest ones that are not pinned."""
        missing = which[self.slot[which] < 0]
        keep = np.zeros(self.N, dtype=bool)
        keep[pinned] = keep[which] = True
        if keep.sum() > len(self.holds):
            raise MemoryError(
                f"{int(keep.sum())} kernel rows of {8 * self.N} bytes are needed at once and "
                f"cache_size has room for {len(self.holds)}: raise cache_size to at least "
                f"{math.ceil(keep.sum() * self.N * 8 / 1e6)} MB"
            )
        for i, row in zip(missing, self.make(missing), strict=True):
            while self.holds[self.next] >= 0 and keep[self.holds[self.next]]:
                self.next = (self.next + 1) % len(self.holds)
            if self.holds[self.next] >= 0:
                self.slot[self.holds[self.next]] = -1
            self.store[self.next], self.holds[self.next] = row, i
            self.slot[i] = self.next
            self.next = (self.next + 1) % len(self.holds)

    def times(self, v: FloatArray) -> FloatArray:
        """Return A v, from cached rows if all that are needed are cached, else from the kernel."""
        used = np.flatnonzero(v)
        if (self.slot[used] >= 0).all():
            return np.asarray(v[used] @ self.store[self.slot[used]])
        n, y = self.n, self.problem.y
        values = self.rows.weighted_sum(
            np.arange(n), self.rows, used[used < n], (y * v[:n])[used[used < n]]
        )
        out = np.empty(self.N)
        out[:n] = self.problem.product(v[:n], values)
        if self.problem.nu is not None:
            out[:n] -= v[n]
            out[n] = -v[:n].sum()
        return out

    def sizes(self) -> FloatArray:
        """Return the largest |A_ij| of each column (1 where the column is zero)."""
        if self.complete:
            size = np.maximum(self.store.max(axis=1), -self.store.min(axis=1))
        else:
            size = np.empty(self.N)
            for start in range(0, self.N, 256):
                which = np.arange(start, min(start + 256, self.N))
                size[which] = np.abs(self.make(which)).max(axis=1)
        return np.where(size > 0, size, 1.0)


def new_state(problem: MarginProgram, store: ProgramRows) -> State:
    """Return the state at alpha = 0, with an empty basis."""
    N, n = store.N, store.n

    def whole(inner: Any, last: float) -> FloatArray:
        out = np.full(N, last)
        out[:n] = inner
        return out

    cap = FIRST_BASIS
    nu = problem.nu
    upper = np.inf if nu is not None else problem.limit
    return State(
        store=store.store,
        slot=store.slot,
        aim=whole(1.0 if nu is None else 0.0, -1.0),
        cost=whole(problem.cost, np.inf),
        price=whole(problem.price, -(nu or 0.0)),
        lower=whole(0.0, -np.inf),
        upper=whole(upper, np.inf),
        size2=store.sizes() ** 2,
        side=np.zeros(N, dtype=np.int8),
        place=np.full(N, -1, dtype=np.intp),
        columns=np.zeros(cap, dtype=np.intp),
        tight=np.zeros(cap, dtype=np.intp),
        inverse=np.zeros((cap, cap)),
        which=np.zeros(N + 2, dtype=np.intp),
        tally=np.zeros(5, dtype=np.intp),
        **{name: np.zeros(N) for name in OF_ROWS},
        **{name: np.zeros(cap) for name in OF_BASIS},
    )


def with_capacity(state: State, capacity: int) -> State:
    """Return the state with arrays for at least `capacity` basic coefficients."""
    old = len(state.columns)
    if capacity <= old:
        return state
    capacity = max(capacity, old + old // 2)  # geometric growth: few copies of the inverse

    def longer(array: Any) -> Any:
        out = np.zeros(capacity, dtype=array.dtype)
        out[:old] = array
        return out

    inverse = np.zeros((capacity, capacity))
    inverse[:old, :old] = state.inverse
    names = ("columns", "tight", *OF_BASIS)
    return state._replace(inverse=inverse, **{name: longer(getattr(state, name)) for name in names})
