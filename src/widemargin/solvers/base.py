"""What a solver returns and how it is watched while it works."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from widemargin._base.typing import FloatArray

Status: TypeAlias = Literal["optimal", "max_iter", "stopped", "stalled"]

Monitor: TypeAlias = Callable[[int, float], bool]
"""Called between bounded sweeps with (steps so far, violation); returns whether to go on."""


class Store(Protocol):
    """Where the state of a run is kept between rounds."""

    def load(self) -> dict[str, Any] | None:
        """Return the state saved last, or None."""
        ...

    def save(self, state: Mapping[str, Any]) -> None:
        """Keep a state: numbers, texts, lists, dictionaries and arrays."""
        ...


@dataclass(frozen=True)
class SolverResult:
    """Dual variables of a problem and how they were reached.

    Attributes
    ----------
    b : ndarray of shape (n_variables,)
        Feasible dual variables.
    f : ndarray of shape (n_rows,)
        Decision values without threshold, K beta, evaluated afresh in float64.
    n_iter : int
        Steps taken.
    status : {"optimal", "max_iter", "stopped", "stalled"}
        Whether the tolerance was met, the budget ran out, the monitor said stop, or rounding
        errors left nothing to gain.
    """

    b: FloatArray
    f: FloatArray
    n_iter: int
    status: Status


class Budget:
    """Steps left, and the monitor that may end the run earlier."""

    def __init__(self, max_iter: int, monitor: Monitor | None = None) -> None:
        self.max_iter = max_iter
        self.monitor = monitor
        self.used = 0
        self.status: Status = "optimal"

    @property
    def left(self) -> int:
        """Steps that may still be taken."""
        return max(0, self.max_iter - self.used)

    def spend(self, steps: int, violation: float) -> bool:
        """Record steps and tell whether the run may go on."""
        self.used += steps
        if self.monitor is not None and not self.monitor(self.used, violation):
            self.status = "stopped"
        elif self.used >= self.max_iter:
            self.status = "max_iter"
        return self.status == "optimal"
