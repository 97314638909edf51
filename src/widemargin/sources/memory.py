"""Serve rows in memory as a source, for solvers that read their data in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin.sources.engines import Threads

BLOCK_BYTES = 2 << 20  # of a block: stays in a core's cache
PARTS = 8  # enough to keep all cores busy until the end

_Found = TypeVar("_Found")


class Memory:
    """A source of rows in memory; tasks run on as many threads as there are cores.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        C-contiguous rows, float32 or float64; not copied.
    y, weight : ndarray of shape (n,)
        Labels -1 and +1, weights.
    """

    def __init__(self, X: RealArray, y: FloatArray, weight: FloatArray) -> None:
        step = max(_block_rows(X), -(-len(y) // PARTS))
        cuts = [slice(i, i + step) for i in range(0, max(1, len(y)), step)]
        self.parts = [MemoryPart(X[cut], y[cut], weight[cut]) for cut in cuts]
        self.sizes = [len(part.y) for part in self.parts]
        self.n_features = X.shape[1]

    def run(
        self, task: Callable[..., _Found], arguments: Sequence[tuple[Any, ...]]
    ) -> list[_Found]:
        """Return ``[task(part, *arguments[k]) for each part k]``, in the order of the parts."""
        return Threads().run(task, self.parts, arguments)


@dataclass(frozen=True)
class MemoryPart:
    """Some rows in memory."""

    X: RealArray
    y: FloatArray
    weight: FloatArray

    def blocks(self) -> Iterator[tuple[int, RealArray, FloatArray, FloatArray]]:
        """Yield (number of the first row, X, y, weight)."""
        step = _block_rows(self.X)
        for i in range(0, len(self.y), step):
            cut = slice(i, i + step)
            yield i, self.X[cut], self.y[cut], self.weight[cut]

    def take(self, rows: IntArray) -> tuple[RealArray, FloatArray, FloatArray]:
        """Return some rows."""
        return self.X[rows], self.y[rows], self.weight[rows]


def _block_rows(X: RealArray) -> int:
    return max(64, BLOCK_BYTES // max(1, X.shape[1] * X.itemsize))
