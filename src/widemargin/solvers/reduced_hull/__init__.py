"""Which solver finds the nearest points of a pair of hulls: one choice for all that need them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin._base.typing import Matrix
from widemargin.kernels import Rows
from widemargin.problems.reduced_hull import NearestPoints
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import DualResult
from widemargin.solvers.reduced_hull.linear import METHODS, LinearHulls, solve_linear_hulls
from widemargin.solvers.reduced_hull.nearest import Unit, half_margin, solve_nearest
from widemargin.solvers.reduced_hull.smallest_k import rough_nearest

QP_ROWS = 5_000  # up to this size all rows go into the quadratic program
QP_FEATURES = 100  # beyond, its normal matrix costs more than kernel values


def fastest_method(X: Matrix) -> str:
    """Return the method that is fastest for the linear kernel on these rows."""
    if sp.issparse(X) or X.shape[1] > QP_FEATURES:
        return "smo"
    return "qp" if X.shape[0] <= QP_ROWS else "implicit"


class HullWork:
    """The solver for some rows, and what it says on its way.

    Parameters
    ----------
    rows : Rows
        The rows seen through the kernel.
    solver : str
        What the user asked for.
    tol : float
        Violation to reach, in units.
    max_iter : int
        The user's; -1 is each solver's own.
    options : dict
        What :func:`widemargin.solvers.reduced_hull.nearest.solve_nearest` takes besides.
    unit : callable
        What violations are measured by.
    """

    def __init__(
        self,
        rows: Rows,
        solver: str,
        tol: float,
        max_iter: int,
        options: dict[str, Any],
        unit: Unit = half_margin,
    ) -> None:
        self.rows, self.tol, self.max_iter = rows, tol, max_iter
        self.options, self.unit = options, unit
        self.history: list[dict[str, Any]] = []
        dense = rows.kernel.name == "linear" and isinstance(rows.X, np.ndarray)
        self.method = solver
        if solver == "auto":
            self.method = fastest_method(rows.X) if dense else "smo"
        if self.method in METHODS and not dense:
            raise ValueError(f"solver={solver!r} needs dense X: use solver='smo', or X.toarray()")

    def solve(self, hulls: SoftMargin) -> tuple[DualResult, NearestPoints, bool]:
        """Find the nearest points; also tell whether the hulls are known to be apart."""
        if self.method in METHODS:
            found = self._linear(hulls)
            self.history = found.history
            allowed = self.tol * self.unit(found.result.alpha, found.points)
            met = hulls.kkt_violation(found.result.alpha, found.result.f) <= allowed
            if met or not found.apart or found.result.status in ("max_iter", "stopped"):
                return found.result, found.points, found.apart
        return solve_nearest(hulls, self.rows, self.unit, tol=self.tol, **self.options)

    def nearest(self, hulls: SoftMargin) -> tuple[NearestPoints, bool]:
        """Find the nearest points for Newton's method on k."""
        if self.method in METHODS:
            found = self._linear(hulls)
            return found.points, found.apart
        return rough_nearest(self.rows, **self.options)(hulls)

    def _linear(self, hulls: SoftMargin) -> LinearHulls:
        return solve_linear_hulls(
            hulls,
            self.rows.X,
            self.method,
            seed=self.options["seed"],
            max_iter=self.max_iter,
            monitor=self.options["monitor"],
        )
