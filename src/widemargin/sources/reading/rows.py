"""Raw rows: a stretch of a data set with the labels and numbers that the user gave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin.sources.reading.convert import Cast, joined, labels_of, runs
from widemargin.sources.reading.strips import AnyArray, Strip

BLOCK_BYTES = 2 << 20  # stays in a core's cache while a task works on it
TAKE_BYTES = 64 << 10  # what a scattered row may cost
PART_BYTES = 32 << 20  # small enough to share among workers, large enough to forget the overhead

Piece: TypeAlias = tuple[RealArray, AnyArray, FloatArray | None]
"""X, target and weight of some rows; weight is None where all are 1."""


class Rows(Protocol):
    """A stretch of raw rows that a task can read by itself, wherever it runs; picklable, no state.

    A class with these methods makes any storage readable. X and target of a block may be
    overwritten by the next one.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import sources
    >>> rows = sources.from_arrays(np.eye(3), np.array([0, 1, 0])).rows[0]
    >>> [(first, X.shape) for first, X, target, weight in rows.blocks()]
    [(0, (3, 3))]
    """

    def blocks(self) -> Iterator[tuple[int, RealArray, AnyArray, FloatArray | None]]:
        """Read all rows in order.

        Yields
        ------
        tuple
            Number of the first row, X, target and weight; weight is None where all are 1.
        """
        ...

    def targets(self) -> Iterator[AnyArray]:
        """Read the targets alone, in order.

        Yields
        ------
        ndarray
            Targets of the next rows.
        """
        ...

    def take(self, rows: IntArray) -> Piece:
        """Read some rows.

        Parameters
        ----------
        rows : ndarray of int
            Their sorted numbers in this stretch.

        Returns
        -------
        tuple
            X, target and weight (None where all are 1).
        """
        ...

    def place(self, row: int) -> str:
        """Return where a row is, for messages.

        Parameters
        ----------
        row : int
            Its number in this stretch.

        Returns
        -------
        str
            Such as "data/a.npy, row 17".
        """
        ...


@dataclass(frozen=True, eq=False)
class StripRows:
    """Rows whose features, targets and weights are strips or columns of one table.

    Attributes
    ----------
    table : Strip
        Features, with targets and weights among the columns where these are given by number.
    target : Strip or int
        Targets, or their column in the table.
    weight : Strip, int or None
        Weights, or their column in the table; None: all are 1.
    columns : list of int or None
        Columns of the table that are features; None: all.
    dtype : dtype
        float32 or float64, the type of the data set.
    name : str
        File or chunk, for messages.
    first : int
        Number of the first row there, for messages.
    """

    table: Strip
    target: Strip | int
    weight: Strip | int | None
    columns: list[int] | None
    dtype: np.dtype[Any]
    name: str
    first: int = 0

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.table.shape[0]

    def blocks(self) -> Iterator[tuple[int, RealArray, AnyArray, FloatArray | None]]:
        """Yield (number of the first row, X, target, weight)."""
        step = self._step(BLOCK_BYTES)
        with ExitStack() as files:
            read = self._reader(files)
            for first in range(0, self.size, step):
                yield (first, *read(first, min(first + step, self.size)))

    def targets(self) -> Iterator[AnyArray]:
        """Yield the targets alone, in order."""
        if isinstance(self.target, int):
            yield from (target for _, _, target, _ in self.blocks())
            return
        step = self._step(BLOCK_BYTES)
        with self.target.opened() as read:
            for first in range(0, self.size, step):
                yield labels_of(read(first, min(first + step, self.size)), self.place, first)

    def take(self, rows: IntArray) -> Piece:
        """Return X, target and weight of some rows; little more than they are is read."""
        scattered = len(rows) * self._step(2 * TAKE_BYTES) < self.size
        step = self._step(TAKE_BYTES if scattered else BLOCK_BYTES)
        found: list[Piece] = []
        with ExitStack() as files:
            read = self._reader(files)
            for some in runs(rows, step):
                X, target, weight = read(int(some[0]), int(some[-1]) + 1)
                here = some - some[0]
                found.append((X[here], target[here], None if weight is None else weight[here]))
        n_features = self.table.shape[1] if self.columns is None else len(self.columns)
        return joined(found, n_features, self.dtype)

    def part(self, first: int, end: int) -> StripRows:
        """Return some of these rows."""
        sides = [
            side if side is None or isinstance(side, int) else side.part(first, end)
            for side in (self.target, self.weight)
        ]
        assert sides[0] is not None
        table = self.table.part(first, end)
        at = self.first + first
        return StripRows(table, sides[0], sides[1], self.columns, self.dtype, self.name, at)

    def parts(self) -> list[StripRows]:
        """Return these rows in parts of PART_BYTES; their borders depend on the data alone."""
        step = self._step(PART_BYTES)
        return [self.part(i, min(i + step, self.size)) for i in range(0, self.size, step)]

    def place(self, row: int) -> str:
        """Return where a row is, for messages."""
        return f"{self.name}, row {self.first + row}"

    def _step(self, n_bytes: int) -> int:
        """Return how many rows fit into some bytes, at least one."""
        return max(1, n_bytes // max(1, self.table.shape[1] * self.table.dtype.itemsize))

    def _reader(self, files: ExitStack) -> Callable[[int, int], Piece]:
        """Open what is read; the function that is returned gives some rows."""
        read_table = files.enter_context(self.table.opened())
        read_target = _side_reader(self.target, files)
        read_weight = None if self.weight is None else _side_reader(self.weight, files)
        cast = Cast(self.columns, self.dtype)

        def read(first: int, end: int) -> Piece:
            table = read_table(first, end)
            target = labels_of(read_target(first, end, table), self.place, first)
            weight = None
            if read_weight is not None:
                weight = np.array(read_weight(first, end, table), dtype=np.float64)
            return cast(table), target, weight

        return read


def _side_reader(side: Strip | int, files: ExitStack) -> Callable[[int, int, AnyArray], AnyArray]:
    """Return a function that gives targets or weights of rows, of which the table is at hand."""
    if isinstance(side, int):
        return lambda first, end, table: table[:, side]
    read = files.enter_context(side.opened())
    return lambda first, end, table: read(first, end)
