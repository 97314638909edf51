"""What the solvers of the linear programs of `problems.linear_program` return."""

from __future__ import annotations

from dataclasses import dataclass

from widemargin._base.typing import FloatArray
from widemargin.solvers.base import Status


@dataclass(frozen=True, eq=False)
class ProgramResult:
    """Coefficients and the multipliers that prove how good they are.

    Attributes
    ----------
    alpha : ndarray of shape (n_rows,)
        Coefficients within their limits; exactly 0 off the support.
    z : ndarray of shape (n_rows,)
        Multipliers in the box (of sum nu for the nu machine) that give the best bound found.
    f, g : ndarray of shape (n_rows,)
        K (y alpha) and K (y z), evaluated afresh in float64 with the true kernel.
    n_iter : int
        Steps, at least 1.
    status : {"converged", "max_iter", "stopped", "stalled"}
        As in `Result`.
    method : str
        Which solver it was.
    """

    alpha: FloatArray
    z: FloatArray
    f: FloatArray
    g: FloatArray
    n_iter: int
    status: Status
    method: str
