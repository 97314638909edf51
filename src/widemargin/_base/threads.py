"""The one place that touches threads: work split over tiles, with BLAS at one thread each.

BLAS keeps its number of threads in a global of the process. Several fits may run at once, so the
first one to enter lowers it and the last one to leave restores it.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

_Item = TypeVar("_Item")


class _BlasLimit:
    """How many fits hold BLAS at one thread, and what to restore when the last one leaves."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0
        self.threads = 1
        self.restore = ExitStack()


_limit = _BlasLimit()


@functools.cache
def _blas_libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def _cpu_count() -> int:
    """Cores that this process may use now."""
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), _granted_cores())
    return _granted_cores()


@functools.cache
def _granted_cores() -> int:
    """Cores of the machine or the cgroup; asking takes as long as a small fit, so ask once."""
    from joblib import cpu_count

    return int(cpu_count())


@contextmanager
def worker_threads() -> Iterator[int]:
    """Hold BLAS at one thread and yield how many Python threads may take its place.

    That number respects cgroups and CPU affinity, and a limit that the user or an outer tool
    (joblib, Dask) has set on BLAS: inside such a worker it is what the worker may use.
    """
    with _limit.lock:
        if _limit.holders == 0:
            libraries = _blas_libraries()
            allowed = [library["num_threads"] for library in libraries.info()]
            _limit.threads = max(1, min([_cpu_count(), *allowed]))
            _limit.restore.enter_context(libraries.limit(limits=1))
        _limit.holders += 1
        threads = _limit.threads
    try:
        yield threads
    finally:
        with _limit.lock:
            _limit.holders -= 1
            if _limit.holders == 0:
                _limit.restore.close()


def for_each(function: Callable[[_Item], None], items: Iterable[_Item], threads: int) -> None:
    """Call function on every item, on this thread and ``threads - 1`` helpers.

    The first exception stops the others after the item at hand and is raised here; so is an
    interrupt of the main thread, which therefore waits for one item at most.
    """
    queue = deque(items)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while not failures:
                try:
                    item = queue.popleft()  # atomic: no lock that an interrupt could leave held
                except IndexError:
                    return
                function(item)
        except BaseException as failure:  # handed to the calling thread below
            failures.append(failure)

    helpers: list[threading.Thread] = []
    try:
        for _ in range(threads - 1):
            helper = threading.Thread(target=work, daemon=True)
            try:
                helper.start()
            except RuntimeError:  # the system grants no more threads: those that run will do
                break
            helpers.append(helper)
        work()
        for helper in helpers:
            helper.join()
    except BaseException as failure:  # an interrupt in between: the helpers must not work on
        failures.append(failure)
        raise
    if failures:
        raise failures[0]
