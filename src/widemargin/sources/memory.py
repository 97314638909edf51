"""Source of samples in memory, for solvers that read their data in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin.sources.engines import Threads

BLOCK_BYTES = 2 << 20  # a block fits into the cache of a core
PARTS = 8  # enough parts to balance the load of the cores

_Found = TypeVar("_Found")


class Memory:
    """Source of samples in memory; tasks run on one thread per core.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Samples, C-contiguous, float32 or float64; not copied.
    y, weight : ndarray of shape (n,)
        Labels -1 and +1, and sample weights.
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
        if len(self.parts) == 1:
            with worker_threads():  # one thread of BLAS, as in an engine
                return [task(self.parts[0], *arguments[0])]
        return Threads().run(task, self.parts, arguments)


@dataclass(frozen=True)
class MemoryPart:
    """Part of a `Memory` source."""

    X: RealArray
    y: FloatArray
    weight: FloatArray

    def blocks(self) -> Iterator[tuple[int, RealArray, FloatArray, FloatArray]]:
        """Yield (index of the first sample, X, y, weight)."""
        step = _block_rows(self.X)
        for i in range(0, len(self.y), step):
            cut = slice(i, i + step)
            yield i, self.X[cut], self.y[cut], self.weight[cut]

    def take(self, rows: IntArray) -> tuple[RealArray, FloatArray, FloatArray]:
        """Return X, y and weight of some samples."""
        return self.X[rows], self.y[rows], self.weight[rows]


def _block_rows(X: RealArray) -> int:
    return max(64, BLOCK_BYTES // max(1, X.shape[1] * X.itemsize))
