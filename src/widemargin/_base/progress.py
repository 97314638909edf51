"""Progress bars and time limits for long fits."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from widemargin._base import jit


class Watch:
    """Monitor of a fit: an optional progress bar and a time limit.

    Parameters
    ----------
    title : str
        Description shown beside the bar.
    tol : float
        Violation or gap at which the fit stops.
    verbose : int
        Show a bar if positive.
    time_limit : float, optional
        Seconds after which the fit should stop.
    parts : int
        Number of problems that are solved one after the other.
    shown : str
        Format of the violation and of tol on the bar.
    """

    def __init__(
        self,
        title: str,
        tol: float,
        verbose: int,
        time_limit: float | None,
        parts: int = 1,
        shown: str = "violation {:.1e} (tol {:.0e})",
    ) -> None:
        self.title = title
        self.tol = tol
        self.verbose = verbose
        self.parts = parts
        self.shown = shown
        self.part = 0
        self.first = math.nan
        self.deadline = math.inf if time_limit is None else time.monotonic() + time_limit
        self.started = time.monotonic()
        self.detail = ""
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> Watch:
        if self.verbose:
            self.bar = _columns()
            self.bar.start()
            self.task = self.bar.add_task(self.title, total=self.parts, state="")
            jit.observers.append(self._show)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            jit.observers.remove(self._show)
            if kind is None:
                self.bar.update(self.task, completed=self.parts)
            self.bar.stop()

    def _show(self, state: str) -> None:
        self.bar.update(self.task, state=state)

    def next_part(self) -> None:
        """Start the next problem of the fit."""
        self.part += 1
        self.first = math.nan

    def observe(self, detail: str, steps: int, violation: float) -> None:
        """Update the bar; from now on show the solver's `detail` instead of its speed."""
        self.detail = detail
        self(steps, violation)

    def __call__(self, steps: int, violation: float) -> bool:
        """Update the bar; return False once the time limit is reached."""
        if self.bar is not None and math.isfinite(violation):
            # Progress on a log scale, since the violation falls by orders of magnitude.
            if math.isnan(self.first):
                self.first = max(violation, self.tol)
            done = math.log(self.first / max(violation, self.tol))
            whole = math.log(self.first / self.tol) or 1.0
            rate = steps / max(1e-9, time.monotonic() - self.started)
            state = self.shown.format(violation, self.tol) + ", "
            state += self.detail or f"{rate:,.0f} steps/s"
            place = max(0, self.part - 1) + min(max(done / whole, 0.0), 1.0)
            self.bar.update(self.task, completed=place, state=state)
        return time.monotonic() < self.deadline


class Bar:
    """Optional progress bar over a known number of items.

    Parameters
    ----------
    title : str
        Description shown beside the bar.
    verbose : int
        Show the bar if positive.
    total : int
        Number of items.
    """

    def __init__(self, title: str, verbose: int, total: int) -> None:
        self.title = title
        self.verbose = verbose
        self.total = total
        self.done = 0
        self.lock = threading.Lock()
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> Bar:
        if self.verbose:
            self.bar = _columns()
            self.bar.start()
            self.task = self.bar.add_task(self.title, total=self.total, state="")
            jit.observers.append(self._show)
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            jit.observers.remove(self._show)
            self.bar.stop()

    def _show(self, state: str) -> None:
        self.bar.update(self.task, state=state)

    def expect(self, items: int) -> None:
        """Add items to the total."""
        self.total += items
        if self.bar is not None:
            self.bar.update(self.task, total=self.total)

    def advance(self, state: str = "", items: int = 1) -> None:
        """Count one more item as done, or several, and update the bar; threads may call this."""
        with self.lock:
            self.done += items
            if self.bar is not None:
                text = f"{self.done:,}/{self.total:,}" + (f", {state}" if state else "")
                self.bar.update(self.task, completed=self.done, state=text)


_SHOWN: ContextVar[Bar | None] = ContextVar(
    "bar of the computation that is under way", default=None
)


@contextmanager
def counted(title: str, verbose: int) -> Iterator[None]:
    """Show a bar, if verbose is positive, on which the loops inside count their items."""
    with Bar(title, verbose, 0) as bar:
        before = _SHOWN.set(bar)
        try:
            yield
        finally:
            _SHOWN.reset(before)


def bar_over(total: int) -> Bar:
    """Return the bar of `counted` for a loop over so many items, or one that is not displayed."""
    bar = _SHOWN.get() or Bar("", 0, 0)
    bar.expect(total)
    return bar


def _columns() -> Any:
    """Return a rich progress bar with title, state, elapsed time and remaining time."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
        console=Console(),  # rich's shared console keeps the width at its creation
    )  # fmt: skip
