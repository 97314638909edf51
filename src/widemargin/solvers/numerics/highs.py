"""Solve linear programs by HiGHS, through scipy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from widemargin._base.typing import FloatArray

TOLERANCE = 1e-10  # HiGHS accepts none smaller
_ENDS: dict[int, Literal["optimal", "limit"]] = {0: "optimal", 1: "limit"}


@dataclass(frozen=True, eq=False)
class ProgramSolution:
    """What HiGHS returned.

    Attributes
    ----------
    x : ndarray or None
        The last point; None if there is none.
    equalities, inequalities : ndarray
        Multipliers of A_eq x = b_eq and of A_ub x <= b_ub: derivatives of the optimum.
    n_iter : int
        Steps.
    ended : {"optimal", "limit", "failed"}
        Solved; stopped at max_iter or after the given seconds; neither.
    """

    x: FloatArray | None
    equalities: FloatArray
    inequalities: FloatArray
    n_iter: int
    ended: Literal["optimal", "limit", "failed"]


def solve_linear_program(
    c: FloatArray,
    *,
    bounds: FloatArray,
    A_ub: Any = None,
    b_ub: FloatArray | None = None,
    A_eq: Any = None,
    b_eq: FloatArray | None = None,
    method: str = "highs",
    sharp: bool = False,
    max_iter: int | None = None,
    seconds: float | None = None,
) -> ProgramSolution:
    """Minimise c.x subject to A_ub x <= b_ub, A_eq x = b_eq and bounds.

    Parameters
    ----------
    c, bounds, A_ub, b_ub, A_eq, b_eq
        As for `scipy.optimize.linprog`; bounds of shape (n, 2).
    method : {"highs", "highs-ds", "highs-ipm"}
        HiGHS's own choice, dual simplex, or interior points.
    sharp : bool
        Whether to ask for the smallest tolerances that HiGHS accepts.
    max_iter : int, optional
        Largest number of steps.
    seconds : float, optional
        Time limit.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.solvers.numerics.highs import solve_linear_program
    >>> found = solve_linear_program(np.array([-1.0]), bounds=np.array([[0.0, 2.0]]))
    >>> found.ended, found.x
    ('optimal', array([2.]))
    """
    from scipy.optimize import linprog

    limits = {"maxiter": max_iter, "time_limit": seconds}
    options = {name: limit for name, limit in limits.items() if limit is not None}
    if sharp:
        options |= dict.fromkeys(
            ("primal_feasibility_tolerance", "dual_feasibility_tolerance"), TOLERANCE
        )
    found = linprog(
        c, A_ub=A_ub, b_ub=b_ub, A_eq=A_eq, b_eq=b_eq, bounds=bounds, method=method, options=options
    )
    known = found.x is not None and hasattr(found, "eqlin")
    nothing = np.empty(0)
    return ProgramSolution(
        x=np.asarray(found.x, dtype=np.float64) if known else None,
        equalities=np.asarray(found.eqlin.marginals, dtype=np.float64) if known else nothing,
        inequalities=np.asarray(found.ineqlin.marginals, dtype=np.float64) if known else nothing,
        n_iter=int(found.nit),
        ended=_ENDS.get(found.status, "failed"),
    )
