"""Engines, which run a task on every part of a data set: protocol and thread pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from widemargin._base.threads import for_each, worker_threads

_Found = TypeVar("_Found")


class Engine(Protocol):
    """Protocol of engines, which run tasks on parts; implement `run` to support a cluster.

    Examples
    --------
    >>> from widemargin.sources import Engine
    >>> class InTurn(Engine):
    ...     def run(self, task, parts, arguments):
    ...         return [task(part, *some) for part, some in zip(parts, arguments, strict=True)]
    >>> InTurn().run(pow, [2, 3], [(2,), (3,)])
    [4, 27]
    """

    def run(
        self,
        task: Callable[..., _Found],
        parts: Sequence[Any],
        arguments: Sequence[tuple[Any, ...]],
    ) -> list[_Found]:
        """Return ``[task(part, *arguments[k]) for each part k]``; all arguments can be pickled.

        Parameters
        ----------
        task : callable
            Module-level function that is safe to rerun.
        parts : sequence
            First argument of the task.
        arguments : sequence of tuple
            Further arguments of the task, one tuple per part.

        Returns
        -------
        list
            The return values of the tasks, in the order of the parts.
        """
        ...


class Threads:
    """Engine that runs tasks on a thread per core, each with single-threaded BLAS.

    Examples
    --------
    >>> from widemargin.sources import Threads
    >>> Threads().run(pow, [2, 3], [(2,), (3,)])
    [4, 27]
    """

    def run(
        self,
        task: Callable[..., _Found],
        parts: Sequence[Any],
        arguments: Sequence[tuple[Any, ...]],
    ) -> list[_Found]:
        """Return ``[task(part, *arguments[k]) for each part k]``.

        Parameters
        ----------
        task, parts, arguments
            As for :meth:`Engine.run`.

        Returns
        -------
        list
            The return values of the tasks, in the order of the parts.
        """
        found: list[Any] = [None] * len(parts)

        def work(k: int) -> None:
            found[k] = task(parts[k], *arguments[k])

        with worker_threads() as threads:
            for_each(work, range(len(parts)), min(threads, max(1, len(parts))))
        return found
