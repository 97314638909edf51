"""Run a task on every part: threads here; to add an engine (Ray, Spark) is to write `run`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from widemargin._base.threads import for_each, worker_threads

_Found = TypeVar("_Found")


class Engine(Protocol):
    """Runs tasks on parts, wherever they live: the protocol for other clusters.

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
        """Return ``[task(part, *arguments[k]) for each part k]``; all of it can be pickled.

        Parameters
        ----------
        task : callable
            A function at the level of its module that may be run again.
        parts : sequence
            What it is run on.
        arguments : sequence of tuple
            What it gets besides the part, one tuple for each part.

        Returns
        -------
        list
            What the tasks return, in the order of the parts.
        """
        ...


class Threads:
    """The engine of one machine: as many threads as cores, BLAS at one thread in each.

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
            What the tasks return, in the order of the parts.
        """
        found: list[Any] = [None] * len(parts)

        def work(k: int) -> None:
            found[k] = task(parts[k], *arguments[k])

        with worker_threads() as threads:
            for_each(work, range(len(parts)), min(threads, max(1, len(parts))))
        return found
