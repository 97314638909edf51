"""Raw rows: a part of a data set as stored, with the labels and numbers of the user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin.sources.reading.convert import Cast, joined, labels_of, runs
from widemargin.sources.reading.strips import AnyArray, Strip

BLOCK_BYTES = 2 << 20  # a block fits into the cache of a core
TAKE_BYTES = 64 << 10  # read per row when few scattered rows are requested
PART_BYTES = 32 << 20  # small enough for load balancing, large enough for negligible overhead

Piece: TypeAlias = tuple[RealArray, AnyArray, FloatArray | None]
"""X, target and weight of some rows; weight is None where all are 1."""


class Rows(Protocol):
    """Protocol of raw rows that a task can read in any thread or process.

    Implement it to support another storage; instances must be picklable and stateless. The next
    block may overwrite X and target of the previous one.

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
            Index of the first row, X, target and weight; weight is None if all weights are 1.
        """
        ...

    def targets(self) -> Iterator[AnyArray]:
        """Read only the targets, in order.

        Yields
        ------
        ndarray
            Targets of the next block of rows.
        """
        ...

    def take(self, rows: IntArray) -> Piece:
        """Read some rows.

        Parameters
        ----------
        rows : ndarray of int
            Sorted indices of the rows in this part.

        Returns
        -------
        tuple
            X, target and weight (None if all weights are 1).
        """
        ...

    def place(self, row: int) -> str:
        """Return the location of a row, for messages.

        Parameters
        ----------
        row : int
            Index of the row in this part.

        Returns
        -------
        str
            Location, such as "data/a.npy, row 17".
        """
        ...


@dataclass(frozen=True, eq=False)
class StripRows:
    """Raw rows whose targets and weights are separate strips or columns of the table of features.

    Attributes
    ----------
    table : Strip
        Features; also holds targets and weights if these are given as column indices.
    target : Strip or int
        Targets, or the index of their column in the table.
    weight : Strip, int or None
        Weights, or the index of their column in the table; None if all weights are 1.
    columns : list of int or None
        Columns of the table that are features; None selects all columns.
    dtype : dtype
        float32 or float64, the type of the data set.
    name : str
        Name of the file or chunk, for messages.
    first : int
        Index of the first row in this file or chunk, for messages.
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
        """Yield (index of the first row, X, target, weight)."""
        step = self._step(BLOCK_BYTES)
        with ExitStack() as files:
            read = self._reader(files)
            for first in range(0, self.size, step):
                yield (first, *read(first, min(first + step, self.size)))

    def targets(self) -> Iterator[AnyArray]:
        """Yield only the targets, in order."""
        if isinstance(self.target, int):
            yield from (target for _, _, target, _ in self.blocks())
            return
        step = self._step(BLOCK_BYTES)
        with self.target.opened() as read:
            for first in range(0, self.size, step):
                yield labels_of(read(first, min(first + step, self.size)), self.place, first)

    def take(self, rows: IntArray) -> Piece:
        """Return X, target and weight of some rows; read little else if they are scattered."""
        # Few rows: read short runs around them. Many rows: read whole blocks.
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
        """Return the rows from `first` to `end`."""
        sides = [
            side if side is None or isinstance(side, int) else side.part(first, end)
            for side in (self.target, self.weight)
        ]
        assert sides[0] is not None
        table = self.table.part(first, end)
        at = self.first + first
        return StripRows(table, sides[0], sides[1], self.columns, self.dtype, self.name, at)

    def parts(self) -> list[StripRows]:
        """Split the rows into parts of PART_BYTES, at positions that depend only on the data."""
        step = self._step(PART_BYTES)
        return [self.part(i, min(i + step, self.size)) for i in range(0, self.size, step)]

    def place(self, row: int) -> str:
        """Return the location of a row, for messages."""
        return f"{self.name}, row {self.first + row}"

    def _step(self, n_bytes: int) -> int:
        """Return the number of rows that fit into `n_bytes`, at least one."""
        return max(1, n_bytes // max(1, self.table.shape[1] * self.table.dtype.itemsize))

    def _reader(self, files: ExitStack) -> Callable[[int, int], Piece]:
        """Open the strips and return a function that reads the rows from `first` to `end`."""
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
    """Return a reader of targets or weights; it also receives the table, already read."""
    if isinstance(side, int):
        return lambda first, end, table: table[:, side]
    read = files.enter_context(side.opened())
    return lambda first, end, table: read(first, end)
