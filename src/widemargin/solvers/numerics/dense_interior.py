r"""A primal-dual interior-point method for small dense problems that pair steps cannot finish.

Problem: minimise :math:`\frac12 b'Qb - t'b` subject to :math:`l \le b \le u` and given sums of b
over groups. Mehrotra's predictor and corrector; each iteration factors :math:`Q + D` with a
positive diagonal D, so neither a singular kernel matrix nor a huge C slows it down.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin._base.typing import FloatArray

MAX_ITERATIONS = 60
TO_THE_WALL = 0.995  # share of the way to the nearest bound that a step may take
SNAP = 1e-9  # a variable this close to its bound, relative to its box, is at the bound


def interior_point(
    Q: FloatArray, t: FloatArray, lower: FloatArray, upper: FloatArray, E: FloatArray, e: FloatArray
) -> FloatArray | None:
    """Return a nearly optimal b with its bounds snapped to, or None where the method broke down.

    Parameters
    ----------
    Q : ndarray of shape (n, n)
        Positive semi-definite matrix.
    t, lower, upper : ndarray of shape (n,)
        Linear term and bounds; one bound of a variable may be infinite.
    E : ndarray of shape (m, n)
        Rows of the equality constraints Eb = e (m may be 0).
    e : ndarray of shape (m,)
        Right sides.
    """
    state = _Iterate(Q, t, lower, upper, E, e)
    best = None
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for _ in range(MAX_ITERATIONS):
            if not state.step():
                break
            best = state.b.copy()
            if state.complementarity() <= 1e-12 * max(1.0, abs(float(t @ state.b))):
                break
    return None if best is None else _snapped(best, lower, upper)


def _snapped(b: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    width = np.where(np.isfinite(upper - lower), upper - lower, np.abs(b).max(initial=1.0))
    b = np.where(b - lower < SNAP * width, lower, b)
    return np.where(upper - b < SNAP * width, upper, b)


class _Iterate:
    """The point between the bounds, its multipliers, and one step of the method."""

    def __init__(
        self,
        Q: FloatArray,
        t: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        E: FloatArray,
        e: FloatArray,
    ) -> None:
        self.Q, self.t, self.E, self.e = Q, t, E, e
        self.lower, self.upper = lower, upper
        self.has_lower, self.has_upper = np.isfinite(lower), np.isfinite(upper)
        both = self.has_lower & self.has_upper
        # A variable with one bound starts where a typical diagonal would put it.
        reach = float(np.abs(t).max(initial=0.0) / max(float(np.diagonal(Q).mean()), 1e-12)) or 1.0
        one_sided = np.where(self.has_lower, lower + reach, upper - reach)
        self.b = np.where(both, 0.5 * (lower + upper), one_sided)
        slope = max(float(np.abs(Q @ self.b - t).max(initial=0.0)), 1e-8)
        self.z_lower = np.where(self.has_lower, slope, 0.0)
        self.z_upper = np.where(self.has_upper, slope, 0.0)
        self.multiplier = np.zeros(len(e))

    def _rooms(self) -> tuple[FloatArray, FloatArray]:
        to_lower = np.where(self.has_lower, self.b - self.lower, 1.0)
        return to_lower, np.where(self.has_upper, self.upper - self.b, 1.0)

    def complementarity(self) -> float:
        """Return the sum of rooms times multipliers: the gap that is left."""
        to_lower, to_upper = self._rooms()
        return float(to_lower @ self.z_lower + to_upper @ self.z_upper)

    def step(self) -> bool:
        """Take one predictor-corrector step; return whether it succeeded."""
        to_lower, to_upper = self._rooms()
        M = self.Q.copy()
        M[np.diag_indices(len(M))] += self.z_lower / to_lower + self.z_upper / to_upper
        try:
            factor = cho_factor(M, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            return False
        lifted = cho_solve(factor, self.E.T, check_finite=False)
        count = int(self.has_lower.sum() + self.has_upper.sum())
        mu = self.complementarity() / count
        target_lower, target_upper = np.zeros(len(self.t)), np.zeros(len(self.t))
        direction = self._direction(factor, lifted, to_lower, to_upper, target_lower, target_upper)
        length = self._length(direction, to_lower, to_upper)
        reached = self._complementarity_at(direction, length, to_lower, to_upper) / count
        centre = mu * min(1.0, max(reached / mu, 0.0)) ** 3
        d, dl, du = direction[0], direction[1], direction[2]
        target_lower = np.where(self.has_lower, centre - d * dl, 0.0)
        target_upper = np.where(self.has_upper, centre + d * du, 0.0)
        direction = self._direction(factor, lifted, to_lower, to_upper, target_lower, target_upper)
        if not np.isfinite(direction[0]).all():
            return False
        length = min(1.0, TO_THE_WALL * self._length(direction, to_lower, to_upper))
        self.b = self.b + length * direction[0]
        self.z_lower = self.z_lower + length * direction[1]
        self.z_upper = self.z_upper + length * direction[2]
        self.multiplier = self.multiplier + length * direction[3]
        return True

    def _direction(
        self,
        factor: tuple[FloatArray, bool],
        lifted: FloatArray,
        to_lower: FloatArray,
        to_upper: FloatArray,
        target_lower: FloatArray,
        target_upper: FloatArray,
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Solve the Newton system for (b, z_lower, z_upper, multiplier)."""
        gradient = self.Q @ self.b - self.t + self.E.T @ self.multiplier
        right = -gradient + target_lower / to_lower - target_upper / to_upper
        d = cho_solve(factor, right, check_finite=False)
        dm = np.zeros(len(self.e))
        if len(self.e):
            # Least squares, for near the end a group may have no variable left that can move.
            dm = np.linalg.lstsq(self.E @ lifted, self.E @ (self.b + d) - self.e, rcond=None)[0]
            d = d - lifted @ dm
        dl = np.where(self.has_lower, (target_lower - self.z_lower * d) / to_lower, 0.0)
        du = np.where(self.has_upper, (target_upper + self.z_upper * d) / to_upper, 0.0)
        return d, dl - self.z_lower, du - self.z_upper, dm

    def _length(
        self, direction: tuple[FloatArray, ...], to_lower: FloatArray, to_upper: FloatArray
    ) -> float:
        """Return the longest step that keeps rooms and multipliers positive."""
        d, dl, du, _ = direction
        ratios = (
            np.where(self.has_lower & (d < 0), -to_lower / d, np.inf).min(),
            np.where(self.has_upper & (d > 0), to_upper / d, np.inf).min(),
            np.where(dl < 0, -self.z_lower / dl, np.inf).min(),
            np.where(du < 0, -self.z_upper / du, np.inf).min(),
        )
        return float(min(*ratios, 1.0 / TO_THE_WALL))

    def _complementarity_at(
        self,
        direction: tuple[FloatArray, ...],
        length: float,
        to_lower: FloatArray,
        to_upper: FloatArray,
    ) -> float:
        d, dl, du, _ = direction
        below = np.where(self.has_lower, to_lower + length * d, 0.0) @ (self.z_lower + length * dl)
        above = np.where(self.has_upper, to_upper - length * d, 0.0) @ (self.z_upper + length * du)
        return float(below + above)
