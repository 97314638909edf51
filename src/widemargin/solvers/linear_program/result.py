"""Result of the solvers of linear programs: coefficients, multipliers, how they were found."""

from __future__ import annotations

from dataclasses import dataclass

from widemargin._base.typing import FloatArray
from widemargin.solvers.base import Result


@dataclass(frozen=True, eq=False, kw_only=True)
class ProgramResult(Result):
    """Coefficients and the multipliers that prove how good they are.

    Attributes
    ----------
    alpha : ndarray of shape (n_rows,)
        Coefficients within their limits; exactly 0 off the support.
    z : ndarray of shape (n_rows,)
        Multipliers in the box (of sum nu for the nu machine) that give the best bound found.
    f, g : ndarray of shape (n_rows,)
        K (y alpha) and K (y z), evaluated afresh in float64 with the true kernel.
    method : {"none", "simplex", "interior"}
        Which algorithm found them; "none" where alpha = 0 is optimal.
    """

    alpha: FloatArray
    z: FloatArray
    f: FloatArray
    g: FloatArray
    method: str
