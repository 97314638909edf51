"""Define what a solver needs to know of data that are read in parts: `Source` and `Part`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from widemargin._base.typing import FloatArray, IntArray, RealArray

_Found = TypeVar("_Found")


class Part(Protocol):
    """A stretch of training rows that a task can read by itself, wherever it runs.

    Parts are pickled and sent; they hold where the rows are, not the rows (unless those are in
    memory), and no state.
    """

    def blocks(self) -> Iterator[tuple[int, RealArray, FloatArray, FloatArray]]:
        """Yield (number of the first row, X, y, weight), rows in order, a few MB at a time.

        X is a C-contiguous float32 or float64 array, valid until the next block; y holds labels
        -1 and +1 (or real targets), weight is not negative.
        """
        ...

    def take(self, rows: IntArray) -> tuple[RealArray, FloatArray, FloatArray]:
        """Return X, y and weight of some rows, given by their sorted numbers in this part."""
        ...


class Source(Protocol):
    """Rows of any number, in parts. This is all that a solver knows of where data live.

    An engine (threads, Dask, Ray, Spark) is one implementation of `run`.
    """

    @property
    def sizes(self) -> list[int]:
        """Number of rows of each part."""
        ...

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        ...

    def run(
        self, task: Callable[..., _Found], arguments: Sequence[tuple[Any, ...]]
    ) -> list[_Found]:
        """Return ``[task(part, *arguments[k]) for each part k]``, in the order of the parts.

        A task is a module-level function that returns little and may be run again.
        """
        ...
