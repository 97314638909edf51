"""What a person sees of a long fit, and what ends it early: a bar, a time limit, a warning."""

from __future__ import annotations

import math
import time
import warnings
from types import TracebackType
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from widemargin._typing import Matrix
from widemargin.certificate import Certificate


class Watch:
    """Monitor of one fit: shows a progress bar if asked to and enforces the time limit.

    Parameters
    ----------
    title : str
        What is being fitted.
    tol : float
        Violation or gap at which the fit ends.
    verbose : int
        Show a bar if positive.
    time_limit : float, optional
        Seconds after which the fit is to stop.
    parts : int
        Number of problems that will be solved one after the other.
    """

    def __init__(
        self, title: str, tol: float, verbose: int, time_limit: float | None, parts: int = 1
    ) -> None:
        self.title = title
        self.tol = tol
        self.verbose = verbose
        self.parts = parts
        self.part = 0
        self.first = math.nan
        self.deadline = math.inf if time_limit is None else time.monotonic() + time_limit
        self.started = time.monotonic()
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> Watch:
        if self.verbose:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self.bar = Progress(
                TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"),
                TimeElapsedColumn(),
            )  # fmt: skip
            self.bar.start()
            self.task = self.bar.add_task(self.title, total=self.parts, state="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            if kind is None:
                self.bar.update(self.task, completed=self.parts)
            self.bar.stop()

    def next_part(self) -> None:
        """Begin the next problem of the fit."""
        self.part += 1
        self.first = math.nan

    def __call__(self, steps: int, violation: float) -> bool:
        """Show where the fit stands; return whether it may go on."""
        if self.bar is not None and math.isfinite(violation):
            if math.isnan(self.first):
                self.first = max(violation, self.tol)
            done = math.log(self.first / max(violation, self.tol))
            whole = math.log(self.first / self.tol) or 1.0
            rate = steps / max(1e-9, time.monotonic() - self.started)
            state = f"violation {violation:.1e} (tol {self.tol:.0e}), {rate:,.0f} steps/s"
            place = max(0, self.part - 1) + min(max(done / whole, 0.0), 1.0)
            self.bar.update(self.task, completed=place, state=state)
        return time.monotonic() < self.deadline


REASONS = {
    "max_iter": ("max_iter was reached", "raise max_iter"),
    "stopped": ("time_limit was reached", "raise time_limit"),
    "stalled": ("rounding errors exceed tol", "raise tol"),
    "optimal": ("the kernel is indefinite", "use a positive semi-definite kernel"),
}


def warn_unconverged(
    name: str, certificate: Certificate, statuses: list[str], tol: float, X: Matrix
) -> None:
    """Warn, with the numbers that tell how bad it is and what would help."""
    if certificate.converged:
        return
    how, advice = REASONS[next((s for s in statuses if s != "optimal"), "optimal")]
    spread = _scale_range(X)
    if spread > 100:
        advice += (
            f", or scale the features: their standard deviations span a factor of {spread:.1e}"
        )
    warnings.warn(
        f"{name} did not converge ({how}): after {certificate.n_iter} steps the "
        f"KKT violation is {certificate.kkt_violation:.2e} (asked: {tol:g}) and the relative "
        f"duality gap {certificate.relative_gap:.2e} (objective {certificate.primal:.6g}, "
        f"lower bound {certificate.dual:.6g}). The model is usable within that gap; "
        f"{advice}.",
        ConvergenceWarning,
        stacklevel=3,
    )


def _scale_range(X: Matrix) -> float:
    """Largest over smallest non-zero standard deviation of the features."""
    with np.errstate(over="ignore", invalid="ignore"):
        if sp.issparse(X):
            squares = np.asarray(X.multiply(X).mean(axis=0), dtype=np.float64).ravel()
            deviation = np.sqrt(squares)
        else:
            deviation = np.asarray(X, dtype=np.float64).std(axis=0)
    deviation = deviation[np.isfinite(deviation) & (deviation > 0)]
    return float(deviation.max() / deviation.min()) if len(deviation) else 1.0
