"""Combine dual solutions of a linear program into the best lower bound that survives rounding.

The multipliers z of an optimal vertex satisfy (G z)_i = c wherever alpha_i > 0, so rounding leaves
some (G z)_i slightly above c, and the dual of `problems.linear_program` subtracts u_i, around 1e8,
per unit of that excess. A convex combination with strictly feasible multipliers, G z < c, kept from
an early iterate, costs almost nothing and restores G z <= c. The dual is concave and piecewise
linear along the segment, so its maximum is found exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.certificate import gap_scale
from widemargin.problems.linear_program import MarginProgram

Multipliers: TypeAlias = tuple[FloatArray, FloatArray]
"""z in the box and g = K (y z), with the true kernel."""

ROUNDS = 3  # rounds of combining the best point with each of the candidates
CUTS = 60  # largest number of tangent intersections in one line search


def best_bound(
    problem: MarginProgram, candidates: Sequence[Multipliers], roundings: float
) -> Multipliers:
    """Return the convex combination of candidates with the largest rounding-safe dual objective.

    Candidates (z, g) are multipliers with 0 <= z <= cost (and sum nu for the nu machine) and
    g = K (y z), computed in float64 with the exact kernel. One of them should be strictly feasible,
    G z < c; z = 0 is added here. The lower bound is ``problem.dual(z, g)``. `roundings` is the
    number of rounding errors in g, see :func:`widemargin.kernels.sums.roundings`.
    """
    points = list(candidates)
    if problem.nu is None:
        points.append((np.zeros(problem.n_rows), np.zeros(problem.n_rows)))
    if not np.isfinite(
        problem.rounding(float(problem.weight.sum()), problem.weight, roundings)
    ).all():
        roundings = 0.0  # no multipliers survive unknown rounding errors: take the computed values
    blends = [_Blend(problem, *point, roundings) for point in points]
    best = max(blends, key=lambda blend: blend.value())
    for _ in range(ROUNDS):
        before = best.value()
        for blend in blends:
            best = best.blended(blend)
        if best.value() <= before:
            break
    return best.z, best.g


class _Blend:
    """Multipliers with the linear functions of z that determine their dual objective.

    `over`, the excess of G z over c, includes a bound on the rounding error of G z. The limit u_i
    multiplies that error like any other excess, so the maximum is at multipliers whose computed G z
    is below c by the rounding error; then the exact G z is below c as well.
    """

    def __init__(
        self, problem: MarginProgram, z: FloatArray, g: FloatArray, roundings: float
    ) -> None:
        self.problem, self.z, self.g, self.roundings = problem, z, g, roundings
        self.gain = problem.gain(z)
        self.over = problem.product(z, g)
        if problem.nu is None:
            error = problem.rounding(float(z.sum()), z, roundings)
            self.over = self.over - problem.price + error

    def value(self) -> float:
        """Return the lower bound with the allowance for rounding."""
        return self._along(self, 0.0)[0]

    def _along(self, other: _Blend, share: float) -> tuple[float, float]:
        """Return the bound and its slope at this point of the segment from self to other."""
        over = self.over + share * (other.over - self.over)
        slope, bend = other.gain - self.gain, 0.0
        if self.problem.squared:  # the gain is quadratic along the segment
            away = other.z - self.z
            bend = 0.25 * float(away @ (away / self.problem.weight))
        gain = self.gain + share * (slope + (1.0 - share) * bend)
        value = self.problem.lower_bound(gain, over)
        if self.problem.nu is not None:
            top = int(np.argmax(over))
            return value, float(self.over[top] - other.over[top])
        paid = np.where(over > 0, self.problem.limit, 0.0)
        rise = slope + (1.0 - 2.0 * share) * bend
        return value, rise - float(paid @ (other.over - self.over))

    def blended(self, other: _Blend) -> _Blend:
        """Return the point of the segment from self to other where the bound is largest."""
        if other is self:
            return self
        share = self._best_share(other)
        if share <= 0.0:
            return self
        z = np.clip(self.z + share * (other.z - self.z), 0.0, self.problem.cap)
        blend = _Blend(self.problem, z, self.g + share * (other.g - self.g), self.roundings)
        # The clipping and the rounding of the combination may cost more than it gains.
        return blend if blend.value() > self.value() else self

    def _best_share(self, other: _Blend) -> float:
        """Maximise the concave bound over [0, 1] by cutting planes; linear slack is exact.

        A rising and a falling tangent intersect on or above the maximum. If the bound attains the
        intersection, it is the maximum; otherwise the tangent there replaces one of the two.
        """
        low, high = 0.0, 1.0
        (value_low, slope_low), (value_high, slope_high) = (
            self._along(other, low),
            self._along(other, high),
        )
        if slope_high >= 0:
            return high
        if slope_low <= 0:
            return low
        best, share = max((value_low, low), (value_high, high))
        for cut in range(CUTS):
            place = low + (value_high - value_low - slope_high * (high - low)) / (
                slope_low - slope_high
            )
            # Every third cut bisects: intersections alone may move one end by tiny steps only.
            if cut % 3 == 2 or not low < place < high:
                place = 0.5 * (low + high)
            value, slope = self._along(other, place)
            if value > best:
                best, share = value, place
            # At an intersection the rising tangent is an upper bound of the maximum.
            ceiling = value_low + slope_low * (place - low)
            if slope == 0 or (cut % 3 != 2 and value >= ceiling - 1e-13 * gap_scale(ceiling)):
                break
            if slope > 0:
                low, value_low, slope_low = place, value, slope
            else:
                high, value_high, slope_high = place, value, slope
        return share
