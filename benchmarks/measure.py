"""Timing tools: interleaved rounds, best and median times, and the cost of one pass."""

from __future__ import annotations

import functools
import gc
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from statistics import geometric_mean, median
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from benchmarks.data import DataSet

__all__ = ["Timings", "blas", "geometric_mean", "one_pass", "rounds_of", "timed", "usable_cores"]

TILE_ROWS, TILE_COLUMNS = 256, 2048
"""Size of a tile: the product and its exp stay in the second-level cache of a core."""

Result = TypeVar("Result")


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def timed(action: Callable[[], Result]) -> tuple[float, Result]:
    """Call a function once, after garbage collection; return the seconds and its result."""
    gc.collect()
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


class Timings:
    """Seconds by label, with one entry per round."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def add(self, label: str, seconds: float) -> None:
        """Record the seconds of one run."""
        self.seconds.setdefault(label, []).append(seconds)

    def best(self, label: str) -> float:
        """Return the seconds of the fastest round."""
        return min(self.seconds[label])

    def median(self, label: str) -> float:
        """Return the median seconds of the rounds."""
        return median(self.seconds[label])

    def ratio(self, label: str, base: str) -> float:
        """Return the best time of `label` divided by the best time of `base`."""
        return self.best(label) / self.best(base)

    def summary(self) -> dict[str, dict[str, Any]]:
        """Return the best, the median and all times of every label."""
        return {
            label: {"best": min(values), "median": median(values), "rounds": values}
            for label, values in self.seconds.items()
        }


def rounds_of(names: Iterable[str], rounds: int) -> Iterable[str]:
    """Yield every name once per round, in alternating order.

    Slow phases of the computer then affect all candidates equally, and no candidate always runs
    first.
    """
    forward = list(names)
    for number in range(rounds):
        yield from forward if number % 2 == 0 else reversed(forward)


def one_pass(data: DataSet, support: npt.NDArray[np.intp], beta: npt.NDArray[Any]) -> Any:
    """Evaluate sum_j beta_j k(x_j, x_i) for every training sample: the unit of cost.

    A simple and fast implementation in NumPy: float32 BLAS with the squared norms included in the
    product as two more columns, exp in place, one thread per usable core, each with serial BLAS.
    """
    left, right = _folded(data.X, data.gamma)
    right = np.ascontiguousarray(right[support])
    weights = np.asarray(beta, dtype=np.float32).ravel()
    values = np.empty(len(left), dtype=np.float32)

    def evaluate(start: int) -> None:
        rows = left[start : start + TILE_ROWS]
        total = np.zeros(len(rows), dtype=np.float32)
        for first in range(0, len(right), TILE_COLUMNS):
            tile = rows @ right[first : first + TILE_COLUMNS].T
            np.exp(tile, out=tile)
            total += tile @ weights[first : first + TILE_COLUMNS]
        values[start : start + TILE_ROWS] = total

    with blas().limit(limits=1), ThreadPoolExecutor(usable_cores()) as pool:
        list(pool.map(evaluate, range(0, len(left), TILE_ROWS)))
    return values


@functools.cache
def blas() -> Any:
    """Return a controller of the BLAS libraries, cached since the search is slow."""
    return ThreadpoolController().select(user_api="blas")


def _folded(X: npt.NDArray[Any], gamma: float) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return L and R in float32 with (L R')_ij = -gamma |x_i - x_j|^2."""
    scaled = (np.sqrt(2.0 * gamma) * X).astype(np.float32)
    half_norms = np.float32(-0.5) * np.einsum("ij,ij->i", scaled, scaled)[:, None]
    ones = np.ones_like(half_norms)
    left = np.hstack([scaled, half_norms, ones])
    right = np.hstack([scaled, ones, half_norms])
    return left, right
