"""Blend multipliers of a linear program into the best rigorous lower bound.

A solver ends with multipliers z that are optimal but for rounding: (G z)_i exceeds the price c by
a hair wherever alpha_i > 0, and the dual of `problems.linear_program` charges u_i for each unit of
that hair, u_i around 1e8. A blend with multipliers strictly inside G z < c, kept from early in the
solver's way, costs next to nothing and lifts every row off its limit. The dual is concave and
piecewise linear along the blend, so its maximum is found exactly.
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

ROUNDS = 3  # blends of the best with each of the others
CUTS = 60  # pairs of tangents that are intersected at most


def best_bound(problem: MarginProgram, candidates: Sequence[Multipliers]) -> Multipliers:
    """Return the blend of some multipliers with the largest dual that rounding cannot spoil.

    Candidates (z, g) are multipliers with 0 <= z <= cost (and sum nu for the nu machine) and
    g = K (y z) in float64 by the true kernel. One of them should be strictly inside G z < c; z = 0
    is tried unasked. The bound of the blend is ``problem.dual(z, g)``.
    """
    points = list(candidates)
    if problem.nu is None:
        points.append((np.zeros(problem.n_rows), np.zeros(problem.n_rows)))
    blends = [_Blend(problem, *point) for point in points]
    best = max(blends, key=lambda blend: blend.value())
    for _ in range(ROUNDS):
        before = best.value()
        for blend in blends:
            best = best.blended(blend)
        if best.value() <= before:
            break
    return best.z, best.g


class _Blend:
    """Multipliers and what the dual needs of them; all of it is linear in z, so it can be blended.

    The excess over c, `over`, carries the rounding error of G z as if it always went the wrong
    way. u_i magnifies it like any excess, so the best blend is one whose computed G z stays below
    c by that much: the exact G z stays below c, too.
    """

    def __init__(self, problem: MarginProgram, z: FloatArray, g: FloatArray) -> None:
        self.problem, self.z, self.g = problem, z, g
        self.total = float(z.sum())
        self.over = problem.product(z, g)
        if problem.nu is None:
            self.over = self.over - problem.price + problem.rounding(self.total)

    def value(self) -> float:
        """Return the bound, rounding allowed for."""
        return self._along(self, 0.0)[0]

    def _along(self, other: _Blend, share: float) -> tuple[float, float]:
        """Return the bound and its slope where the other has this share."""
        over = self.over + share * (other.over - self.over)
        gain = other.total - self.total
        value = self.problem.lower_bound(self.total + share * gain, over)
        if self.problem.nu is not None:
            top = int(np.argmax(over))
            return value, float(self.over[top] - other.over[top])
        paid = np.where(over > 0, self.problem.limit, 0.0)
        return value, gain - float(paid @ (other.over - self.over))

    def blended(self, other: _Blend) -> _Blend:
        """Return the point between this one and another where the bound is largest."""
        if other is self:
            return self
        share = self._best_share(other)
        if share <= 0.0:
            return self
        z = np.clip(self.z + share * (other.z - self.z), 0.0, self.problem.cost)
        blend = _Blend(self.problem, z, self.g + share * (other.g - self.g))
        return blend if blend.value() > self.value() else self

    def _best_share(self, other: _Blend) -> float:
        """Maximise the concave, piecewise linear bound over shares in [0, 1].

        Two tangents, one rising and one falling, meet above the maximum. If the bound itself is
        there, that is the maximum; else the tangent there takes the place of one of the two.
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
            if cut % 3 == 2 or not low < place < high:
                place = 0.5 * (low + high)  # keeps one side from creeping
            value, slope = self._along(other, place)
            if value > best:
                best, share = value, place
            ceiling = value_low + slope_low * (place - low)
            if slope == 0 or (cut % 3 != 2 and value >= ceiling - 1e-13 * gap_scale(ceiling)):
                break
            if slope > 0:
                low, value_low, slope_low = place, value, slope
            else:
                high, value_high, slope_high = place, value, slope
        return share
