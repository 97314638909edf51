"""Scheduler of the playground's fits: pictures first, then leave-one-out, then warm-up."""

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
    """Scheduler that fits one model at a time and caches the last one."""

    def __init__(self) -> None:
        self._fitting = threading.Lock()
        self._leaving_out = threading.Lock()  # takes seconds; pictures must not wait for it
        self._asked = threading.Condition()
        self._n_asked = 0
        self._last: tuple[str, Fitted] | None = None

    def picture(self, given: Any) -> dict[str, Any]:
        """Return the picture for a request, or the reason why there is none."""
        started = time.perf_counter()
        try:
            with self._request_pending(), self._fitting:
                answer = draw(self._fitted(given))
        except NoMachineError as error:
            return {"problem": str(error)}
        return {**answer, "milliseconds": round(1000 * (time.perf_counter() - started), 1)}

    def left_out(self, given: Any) -> dict[str, Any]:
        """Return the leave-one-out result for a request, which may take seconds."""
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
        """Register a pending request; warm-up waits until there are none."""
        with self._asked:
            self._n_asked += 1
        try:
            yield
        finally:
            with self._asked:
                self._n_asked -= 1
                self._asked.notify_all()

    def warm_up(self, first: str | None = None) -> None:
        """Compile the numba kernels of all estimators in idle time, ahead of the first picture.

        Parameters
        ----------
        first : str or None
            The estimator of the first picture, if it is known.
        """
        for name in sorted(MACHINES, key=lambda name: name != first):
            for given in _small_questions(name):
                with self._asked:
                    self._asked.wait_for(lambda: self._n_asked == 0)
                with self._fitting:
                    _fit_and_draw(given)


def _small_questions(name: str) -> Iterator[dict[str, Any]]:
    """Yield small requests with two and three classes, for each option of an estimator."""
    points = [[0.1 * i * (-1) ** i, 0.05 * i, i % 3] for i in range(12)]
    controls = MACHINES[name].controls
    others = [{c.name: word} for c in controls for word in c.alternatives()]
    for n_classes in (2, 3):
        shown = [p for p in points if p[2] < n_classes]
        for params in ({}, *others):
            yield {"machine": name, "points": shown, "params": params}


def _fit_and_draw(given: dict[str, Any]) -> None:
    """Compute a picture and discard it; the few points may not allow a fit."""
    with suppress(NoMachineError):
        fitted = fit(read_question(given))
        draw(fitted)
        leave_one_out(fitted)
