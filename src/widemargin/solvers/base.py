"""What all solvers share: the result they return, the budget they spend, how they are watched.

Each package of this room solves one problem of :mod:`widemargin.problems` through one door,

    solve(problem, data, *, tol, budget, start=None, method="auto") -> Result

where `data` is what the problem is stated on (kernel rows, a matrix, a source), `tol` is in the
units that the problem's certificate uses, `start` is a result of the same package to start from,
and `method` names an algorithm of the package; "auto" is resolved in the door and nowhere else.
Doors that draw samples also take `seed`. A solver never computes a certificate of its own: the
caller gets it from the problem, ``problem.certificate(...)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from widemargin._base.typing import FloatArray

Status: TypeAlias = Literal["converged", "max_iter", "stopped", "stalled"]
"""Why a solver ended.

"converged": it met the tolerance; "max_iter": the budget of steps ran out; "stopped": the monitor
ended the run (time limit); "stalled": rounding errors leave nothing to gain. That a kernel is
indefinite is not among them: the estimator, which checks the kernel, knows it.
"""

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


@dataclass(frozen=True, eq=False, kw_only=True)
class Result:
    """How a solver ended; subclasses add the variables of their problem.

    Attributes
    ----------
    n_iter : int
        Steps taken.
    status : {"converged", "max_iter", "stopped", "stalled"}
        Why it ended, see `Status`.
    """

    n_iter: int
    status: Status


@dataclass(frozen=True, eq=False, kw_only=True)
class DualResult(Result):
    """Dual variables of a kernel problem.

    Attributes
    ----------
    alpha : ndarray of shape (n_variables,)
        Feasible dual variables.
    f : ndarray of shape (n_rows,)
        Decision values without threshold, K beta, evaluated afresh in float64.
    """

    alpha: FloatArray
    f: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearResult(Result):
    """A linear model: values are coef.x plus or minus a threshold.

    Attributes
    ----------
    coef : ndarray of shape (n_features,)
        Weights.
    thresholds : ndarray of shape (n_thresholds,)
        Nothing without an intercept; the intercept; or theta+ and theta- of reduced hulls.
    alpha : ndarray of shape (n_rows,) or None
        Dual variables of the rows, where they are in memory.
    primal, dual : float
        The last objective and lower bound that the solver saw; a certificate recomputes them.
    passes : float
        Reads of the data; rows that are read by number count by their share.
    history : list of dict
        One entry per round of reads.
    """

    coef: FloatArray
    thresholds: FloatArray
    alpha: FloatArray | None = None
    primal: float = float("nan")
    dual: float = float("nan")
    passes: float = 0.0
    history: tuple[dict[str, Any], ...] | list[dict[str, Any]] = ()

    @property
    def intercept(self) -> float:
        """The intercept; 0 without one, and minus the midpoint of the thresholds of hulls."""
        if len(self.thresholds) == 2:
            return -0.5 * float(self.thresholds[0] + self.thresholds[1])
        return float(self.thresholds[0]) if len(self.thresholds) else 0.0


class Budget:
    """What a solver may spend, what it has spent, and the monitor that may end it earlier.

    Parameters
    ----------
    max_iter : int
        Steps that may be taken; what a step is depends on the method.
    monitor : callable, optional
        See `Monitor`.
    cache_bytes : float, default=500e6
        Memory for kernel values and factorisations.
    """

    def __init__(
        self, max_iter: int, monitor: Monitor | None = None, cache_bytes: float = 500e6
    ) -> None:
        self.max_iter = max_iter
        self.monitor = monitor
        self.cache_bytes = cache_bytes
        self.used = 0
        self.status: Status = "converged"

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
        return self.status == "converged"
