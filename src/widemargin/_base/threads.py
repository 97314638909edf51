"""Python threads for independent tasks, with BLAS limited to one thread.

The number of BLAS threads is global to the process. Several fits may run concurrently, so the first
one to enter sets the limit and the last one to leave restores it.
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
    """Reference count of the fits that limit BLAS, and the settings to restore afterwards."""

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
    """Return the number of cores that this process may use now."""
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), _granted_cores())
    return _granted_cores()


@functools.cache
def _granted_cores() -> int:
    """Return the number of cores of the computer or cgroup.

    Cached, because the call takes as long as a small fit.
    """
    from joblib import cpu_count

    return int(cpu_count())


@contextmanager
def worker_threads() -> Iterator[int]:
    """Limit BLAS to one thread and yield the number of Python threads to use instead.

    The number respects cgroups, CPU affinity and a BLAS limit set by the user or by an outer tool
    (joblib, Dask), so that a worker does not exceed its share of the cores.
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
    """Call function on every item, in this thread and up to ``threads - 1`` helper threads.

    After an exception or a keyboard interrupt, every thread finishes its current item and stops;
    the exception is raised in the calling thread.
    """
    queue = deque(items)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while not failures:
                try:
                    item = queue.popleft()  # atomic, so an interrupt cannot leave a lock held
                except IndexError:
                    return
                function(item)
        except BaseException as failure:  # raised in the calling thread below
            failures.append(failure)

    helpers: list[threading.Thread] = []
    try:
        for _ in range(min(threads, len(queue)) - 1):  # a single item needs no other thread
            helper = threading.Thread(target=work, daemon=True)
            try:
                helper.start()
            except RuntimeError:  # thread limit of the system: continue with those that started
                break
            helpers.append(helper)
        work()
        for helper in helpers:
            helper.join()
    except BaseException as failure:  # an interrupt outside `work`: stop the helpers as well
        failures.append(failure)
        raise
    if failures:
        raise failures[0]
