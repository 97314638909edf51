"""Schedule fits for the playground: drawing requests first, then leave-one-out, then warm-up."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from widemargin.play.catalogue import MACHINES
from widemargin.play.picture import Fitted, NoMachineError, draw, fit, leave_one_out, read_question


class FitScheduler:
    """Fit one machine at a time, and cache the last one."""

    def __init__(self) -> None:
        self._fitting = threading.Lock()
        self._leaving_out = threading.Lock()  # may take seconds, and pictures must not wait for it
        self._asked = threading.Condition()
        self._n_asked = 0
        self._last: tuple[str, Fitted] | None = None

    def picture(self, given: Any) -> dict[str, Any]:
        """Return the picture of a machine, or why there is none."""
        started = time.perf_counter()
        try:
            with self._request_pending(), self._fitting:
                answer = draw(self._fitted(given))
        except NoMachineError as error:
            return {"problem": str(error)}
        return {**answer, "milliseconds": round(1000 * (time.perf_counter() - started), 1)}

    def left_out(self, given: Any) -> dict[str, Any]:
        """Return the leave-one-out of a machine, which may take longer."""
        try:
            with self._request_pending(), self._fitting:
                fitted = self._fitted(given)
            with self._leaving_out:
                return leave_one_out(fitted)
        except NoMachineError as error:
            return {"problem": str(error)}

    def _fitted(self, given: Any) -> Fitted:
        question = read_question(given)
        key = json.dumps(given, sort_keys=True)
        if self._last is None or self._last[0] != key:
            self._last = key, fit(question)
        return self._last[1]

    @contextmanager
    def _request_pending(self) -> Iterator[None]:
        """Count the pending requests: warm-up waits until there are none."""
        with self._asked:
            self._n_asked += 1
        try:
            yield
        finally:
            with self._asked:
                self._n_asked -= 1
                self._asked.notify_all()

    def warm_up(self, first: str | None = None) -> None:
        """Compile what the machines need, before a picture asks for it.

        Parameters
        ----------
        first : str or None
            The machine of the first picture, where that is known.
        """
        for name in sorted(MACHINES, key=lambda name: name != first):
            for given in _small_questions(name):
                with self._asked:
                    self._asked.wait_for(lambda: self._n_asked == 0)
                with self._fitting:
                    _fit_and_draw(given)


def _small_questions(name: str) -> Iterator[dict[str, Any]]:
    """Return a few points of two and of three classes, for each choice that a machine has."""
    points = [[0.1 * i * (-1) ** i, 0.05 * i, i % 3] for i in range(12)]
    controls = MACHINES[name].controls
    others = [{c.name: word} for c in controls for word in c.alternatives()]
    for n_classes in (2, 3):
        shown = [p for p in points if p[2] < n_classes]
        for params in ({}, *others):
            yield {"machine": name, "points": shown, "params": params}


def _fit_and_draw(given: dict[str, Any]) -> None:
    """Compute all that a picture needs and drop it; so few points may not allow a fit."""
    with suppress(NoMachineError):
        fitted = fit(read_question(given))
        draw(fitted)
        leave_one_out(fitted)
