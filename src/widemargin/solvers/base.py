"""Interface of all solvers: results, status codes, iteration budget and monitor.

Each package of :mod:`widemargin.solvers` solves one problem of :mod:`widemargin.problems` by one
public function,

    solve(problem, data, *, tol, budget, start=None, method="auto") -> Result

where `data` is what the problem is defined on (kernel rows, a matrix, a source), `tol` is in the
units of the problem's certificate, `start` is a result of the same package for a warm start, and
`method` names an algorithm of the package; "auto" is resolved in this function and nowhere else.
Functions that draw subsamples also take `seed`. Solvers do not compute certificates: the caller
gets the certificate from the problem, ``problem.certificate(...)``.
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
    """Storage for the state of a run between rounds (a checkpoint)."""

    def load(self) -> dict[str, Any] | None:
        """Return the most recently saved state, or None."""
        ...

    def save(self, state: Mapping[str, Any]) -> None:
        """Save a state made of numbers, strings, lists, dictionaries and arrays."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Result:
    """Iteration count and status of a solver; subclasses add the variables of their problem.

    Attributes
    ----------
    n_iter : int
        Number of steps taken.
    status : {"converged", "max_iter", "stopped", "stalled"}
        Reason for termination, see `Status`.
    """

    n_iter: int
    status: Status


@dataclass(frozen=True, eq=False, kw_only=True)
class DualResult(Result):
    """Dual variables and decision values of a kernel problem.

    Attributes
    ----------
    alpha : ndarray of shape (n_variables,)
        Feasible dual variables.
    f : ndarray of shape (n_rows,)
        Decision values without threshold, K beta, recomputed in float64.
    """

    alpha: FloatArray
    f: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearResult(Result):
    """Linear model with decision function coef.x plus or minus a threshold.

    Attributes
    ----------
    coef : ndarray of shape (n_features,)
        Weights.
    thresholds : ndarray of shape (n_thresholds,)
        Empty without an intercept; the intercept; or theta+ and theta- of reduced hulls.
    alpha : ndarray of shape (n_rows,) or None
        Dual variables of the samples, if these are in memory.
    primal, dual : float
        Last primal objective and lower bound of the solver; a certificate recomputes them.
    passes : float
        Passes over the data; samples that are read by index count as a fraction of a pass.
    history : list of dict
        One entry per round of passes.
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
        """Intercept: 0 if there is none, minus the midpoint of the thresholds of reduced hulls."""
        if len(self.thresholds) == 2:
            return -0.5 * float(self.thresholds[0] + self.thresholds[1])
        return float(self.thresholds[0]) if len(self.thresholds) else 0.0


class Budget:
    """Limits on steps and memory, number of steps taken, and the monitor of a solver run.

    Parameters
    ----------
    max_iter : int
        Largest number of steps; the meaning of a step depends on the method.
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
        """Number of steps that remain."""
        return max(0, self.max_iter - self.used)

    def spend(self, steps: int, violation: float) -> bool:
        """Record steps, call the monitor and return whether the run may continue."""
        self.used += steps
        if self.monitor is not None and not self.monitor(self.used, violation):
            self.status = "stopped"
        elif self.used >= self.max_iter:
            self.status = "max_iter"
        return self.status == "converged"
