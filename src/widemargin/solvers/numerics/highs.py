"""Linear programs by HiGHS, through scipy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from widemargin._base.typing import FloatArray

TOLERANCE = 1e-10  # smallest value that HiGHS accepts
_ENDS: dict[int, Literal["optimal", "limit", "failed"]] = {0: "optimal", 1: "limit"}


@dataclass(frozen=True, eq=False)
class ProgramSolution:
    """Last point, if there is one, and the multipliers of its constraints.

    `ended` is "limit" if `max_iter` or `seconds` was reached. Multipliers are derivatives of the
    optimum with respect to the right-hand sides.
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
    method: str = "highs",
    sharp: bool = False,
    max_iter: int | None = None,
    seconds: float | None = None,
    **constraints: Any,
) -> ProgramSolution:
    """Minimise c.x subject to bounds of shape (n, 2) and constraints, by `linprog` of scipy.

    Parameters
    ----------
    c, bounds, method, **constraints
        As for `scipy.optimize.linprog`; constraints are A_ub, b_ub, A_eq and b_eq.
    sharp : bool
        Whether to use the smallest tolerances that HiGHS accepts.
    max_iter, seconds : number, optional
        Limits on iterations and time.

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
    options: dict[str, Any] = {name: limit for name, limit in limits.items() if limit is not None}
    if sharp:
        options["primal_feasibility_tolerance"] = TOLERANCE
        options["dual_feasibility_tolerance"] = TOLERANCE
    found = linprog(c, bounds=bounds, method=method, options=options, **constraints)
    ended = _ENDS.get(found.status, "failed")
    if found.x is None or not hasattr(found, "eqlin"):
        return ProgramSolution(None, np.empty(0), np.empty(0), int(found.nit), ended)
    arrays = (found.x, found.eqlin.marginals, found.ineqlin.marginals)
    x, equalities, inequalities = (np.asarray(array, dtype=np.float64) for array in arrays)
    return ProgramSolution(x, equalities, inequalities, int(found.nit), ended)
