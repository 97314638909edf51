"""Protocols of data that are read in parts, as solvers use them: `Source` and `Part`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from widemargin._base.typing import FloatArray, IntArray, RealArray

_Found = TypeVar("_Found")


class Part(Protocol):
    """Contiguous block of training samples that a task can read in any thread or process.

    Parts are pickled and sent to workers. They are stateless and hold the location of the
    samples, not the samples themselves (unless these are in memory).
    """

    def blocks(self) -> Iterator[tuple[int, RealArray, FloatArray, FloatArray]]:
        """Yield (index of the first sample, X, y, weight) in order, a few MB at a time.

        X is a C-contiguous float32 or float64 array, valid until the next block; y holds labels
        -1 and +1 (or real targets), weight is nonnegative.
        """
        ...

    def take(self, rows: IntArray) -> tuple[RealArray, FloatArray, FloatArray]:
        """Return X, y and weight of the samples with the given sorted indices in this part."""
        ...


class Source(Protocol):
    """Training samples in parts; solvers access the data through this protocol only.

    An engine (threads, Dask, Ray, Spark) is one implementation of `run`.
    """

    @property
    def sizes(self) -> list[int]:
        """Number of samples of each part."""
        ...

    @property
    def n_features(self) -> int:
        """Number of features."""
        ...

    def run(
        self, task: Callable[..., _Found], arguments: Sequence[tuple[Any, ...]]
    ) -> list[_Found]:
        """Return ``[task(part, *arguments[k]) for each part k]``, in the order of the parts.

        A task is a module-level function with a small return value. It must be safe to rerun.
        """
        ...
