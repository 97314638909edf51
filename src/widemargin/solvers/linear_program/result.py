"""Result of the linear program solvers."""

from __future__ import annotations

from dataclasses import dataclass

from widemargin._base.typing import FloatArray
from widemargin.solvers.base import Result


@dataclass(frozen=True, eq=False, kw_only=True)
class ProgramResult(Result):
    """Primal and dual solution of a linear program.

    Attributes
    ----------
    alpha : ndarray of shape (n_rows,)
        Coefficients within their bounds; exactly 0 outside the support.
    z : ndarray of shape (n_rows,)
        Multipliers within their bounds (of sum nu for the nu machine) with the best lower bound.
    f, g : ndarray of shape (n_rows,)
        K (y alpha) and K (y z), recomputed in float64 with the exact kernel.
    method : {"none", "simplex", "interior"}
        Algorithm that computed the solution; "none" if alpha = 0 is optimal.
    """

    alpha: FloatArray
    z: FloatArray
    f: FloatArray
    g: FloatArray
    method: str
