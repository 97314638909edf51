r"""Solve small box QPs with a dense matrix by interior points.

Problem: minimise :math:`\frac12 b'Qb - t'b` subject to :math:`l \le b \le u` and given sums of b
over groups. Each step factorises :math:`Q + D` with a positive diagonal D, so neither a singular
kernel matrix nor a huge C slows the method down: it takes over where pair steps make no progress.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin._base.typing import FloatArray
from widemargin.solvers.numerics.mehrotra import Point, iterates

MAX_ITERATIONS = 60
SNAP = 1e-9  # a variable this close to its bound, relative to its box, is at the bound


def solve_dense_box_qp(
    Q: FloatArray, t: FloatArray, lower: FloatArray, upper: FloatArray, E: FloatArray, e: FloatArray
) -> FloatArray | None:
    """Return a nearly optimal b with its bounds snapped to, or None where the method broke down.

    Q of shape (n, n) is positive semi-definite; one bound of a variable may be infinite; Eb = e are
    the equations, E of shape (m, n), where m may be 0.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.solvers.numerics.box_qp_dense import solve_dense_box_qp
    >>> Q, t, E = np.eye(2), np.array([3.0, 1.0]), np.ones((1, 2))
    >>> solve_dense_box_qp(Q, t, np.zeros(2), np.ones(2), E, np.ones(1)).round(6)
    array([1., 0.])
    """
    system = _Dense(Q, t, lower, upper, E, e)
    best = None
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for point in iterates(system, system.start(), MAX_ITERATIONS):
            best = point.x
            if point.complementarity() <= 1e-12 * max(1.0, abs(float(t @ point.x))):
                break
    if best is None:
        return None
    width = np.where(np.isfinite(upper - lower), upper - lower, np.abs(best).max(initial=1.0))
    best = np.where(best - lower < SNAP * width, lower, best)
    return np.where(upper - best < SNAP * width, upper, best)


@dataclass
class _Dense:
    """The system of a Newton step: Q plus a diagonal, bordered by the equations."""

    Q: FloatArray
    t: FloatArray
    lower: FloatArray
    upper: FloatArray
    E: FloatArray
    e: FloatArray

    def start(self) -> Point:
        """Return the middle of the boxes.

        A variable with one bound starts where a typical diagonal would put it.
        """
        Q, t, lower, upper = self.Q, self.t, self.lower, self.upper
        low, high = np.isfinite(lower), np.isfinite(upper)
        reach = float(np.abs(t).max(initial=0.0) / max(float(np.diagonal(Q).mean()), 1e-12)) or 1.0
        one_sided = np.where(low, lower + reach, upper - reach)
        with np.errstate(invalid="ignore"):
            b = np.where(low & high, 0.5 * (lower + upper), one_sided)
        slope = max(float(np.abs(Q @ b - t).max(initial=0.0)), 1e-8)
        has_low, has_high = low.astype(np.float64), high.astype(np.float64)
        v = np.zeros(len(self.e))
        return Point(
            b, *self._distances(b), v, slope * has_low, slope * has_high,
            has_low=has_low, has_high=has_high,
        )  # fmt: skip

    def _distances(self, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        below = np.where(np.isfinite(self.lower), b - self.lower, 1.0)
        return below, np.where(np.isfinite(self.upper), self.upper - b, 1.0)

    def factorise(self, point: Point) -> FloatArray | None:
        """Factorise Q + D; the equations follow by its Schur complement."""
        self.b = point.x
        M = self.Q.copy()
        M[np.diag_indices(len(M))] += point.z_low / point.below + point.z_high / point.above
        try:
            self.factor = cho_factor(M, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            return None
        self.lifted = cho_solve(self.factor, self.E.T, check_finite=False)
        gradient = self.Q @ point.x - self.t + self.E.T @ point.v
        return np.asarray(gradient - point.z_low + point.z_high)

    def solve(self, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Solve for b, then correct it by the multipliers of the equations."""
        d = cho_solve(self.factor, right, check_finite=False)
        dm = np.zeros(len(self.e))
        if len(self.e):
            # Least squares, for near the end a group may have no variable left that can move.
            lack = self.E @ (self.b + d) - self.e
            dm = np.linalg.lstsq(self.E @ self.lifted, lack, rcond=None)[0]
            d = d - self.lifted @ dm
        return d, dm

    def move(self, point: Point, length: float, dx: FloatArray, dv: FloatArray) -> None:
        """Move to new arrays: the caller keeps the best b."""
        point.x = point.x + length * dx
        point.v = point.v + length * dv
        point.below, point.above = self._distances(point.x)
