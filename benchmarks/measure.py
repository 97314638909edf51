"""How things are timed: interleaved rounds, fresh models, and the floor of one pass."""

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
"""A tile of the product and its exp stay in the second-level cache of a core."""

Result = TypeVar("Result")


def usable_cores() -> int:
    """Return the number of cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def timed(action: Callable[[], Result]) -> tuple[float, Result]:
    """Run an action once; return its seconds and its result."""
    gc.collect()
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


class Timings:
    """Seconds by label, one entry a round."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def add(self, label: str, seconds: float) -> None:
        """Record the seconds of one run."""
        self.seconds.setdefault(label, []).append(seconds)

    def best(self, label: str) -> float:
        """Return the fastest round."""
        return min(self.seconds[label])

    def median(self, label: str) -> float:
        """Return the median round."""
        return median(self.seconds[label])

    def ratio(self, label: str, base: str) -> float:
        """Return how many times longer the best round of `label` took than that of `base`."""
        return self.best(label) / self.best(base)

    def summary(self) -> dict[str, dict[str, Any]]:
        """Return best, median and all rounds of every label."""
        return {
            label: {"best": min(values), "median": median(values), "rounds": values}
            for label, values in self.seconds.items()
        }


def rounds_of(names: Iterable[str], rounds: int) -> Iterable[str]:
    """Yield every name once a round, in alternating order.

    A slow phase of the machine then hits all candidates alike, and none always runs first.
    """
    forward = list(names)
    for number in range(rounds):
        yield from forward if number % 2 == 0 else reversed(forward)


def one_pass(data: DataSet, support: npt.NDArray[np.intp], beta: npt.NDArray[Any]) -> Any:
    """Evaluate sum_j beta_j k(x_j, x_i) for every training row: the unit of cost.

    The plainest fast way NumPy has: float32 BLAS with the squared norms folded into the product
    as two more columns, exp in place, one thread for each usable core with BLAS at one thread.
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
    """Find the BLAS libraries once: the search takes longer than a small pass."""
    return ThreadpoolController().select(user_api="blas")


def _folded(X: npt.NDArray[Any], gamma: float) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return L and R in float32 with (L R')_ij = -gamma |x_i - x_j|^2."""
    scaled = (np.sqrt(2.0 * gamma) * X).astype(np.float32)
    half_norms = np.float32(-0.5) * np.einsum("ij,ij->i", scaled, scaled)[:, None]
    ones = np.ones_like(half_norms)
    left = np.hstack([scaled, half_norms, ones])
    right = np.hstack([scaled, ones, half_norms])
    return left, right
