r"""Mehrotra's predictor-corrector method for quadratic programs with box constraints.

Both programs of this package have the optimality conditions

.. math::

    g(x, v) = z_l - z_u, \qquad z_l (x - l) = 0, \qquad z_u (u - x) = 0,

with a gradient g that is linear in x and in the further variables v (weights, multipliers of
equations). They differ in the linear system of a Newton step, which is a `System`: dense in
:mod:`widemargin.solvers.numerics.box_qp_dense`, of low rank in
:mod:`widemargin.solvers.numerics.box_qp_interior`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from widemargin._base.typing import FloatArray

TO_THE_WALL = 0.995  # share of the way to the nearest bound that a step may take
NO_ROOM = 1e-12  # a step this short means that rounding has taken over


@dataclass
class Point:
    """A point strictly between its bounds, and the multipliers of both bounds.

    `below` and `above` are the distances to the bounds. Where a bound is infinite they are 1, the
    multiplier is 0, and `has_low` or `has_high` is 0 instead of 1 (one number for all rows if
    every bound is finite).
    """

    x: FloatArray
    below: FloatArray
    above: FloatArray
    v: FloatArray
    z_low: FloatArray
    z_high: FloatArray
    scale: float = 1.0  # of the gradient
    has_low: FloatArray | float = 1.0
    has_high: FloatArray | float = 1.0
    n_iter: int = 0
    n_bounds: int = field(init=False)

    def __post_init__(self) -> None:
        flags = (np.broadcast_to(flag, len(self.x)) for flag in (self.has_low, self.has_high))
        self.n_bounds = sum(int(flag.sum()) for flag in flags)

    def complementarity(self) -> float:
        """Return the gap between the two objectives, apart from infeasibility."""
        return float(self.below @ self.z_low + self.above @ self.z_high)


class System(Protocol):
    """The linear system of a Newton step."""

    def factorise(self, point: Point) -> FloatArray | None:
        """Prepare the system at a point; return g - z_l + z_u, or None if it is singular."""
        ...

    def solve(self, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (dx, dv) with dg + (z_l / below + z_u / above) dx = right."""
        ...

    def move(self, point: Point, length: float, dx: FloatArray, dv: FloatArray) -> None:
        """Move x, v and the distances to the bounds."""
        ...


def iterates(
    system: System, point: Point, most: int, tick: Callable[[], None] | None = None
) -> Iterator[Point]:
    """Yield the point after each step, always the same object, until no step is possible."""
    for _ in range(most):
        if tick is not None:
            tick()
        if not _step(system, point):
            return
        point.n_iter += 1
        yield point


def _step(system: System, point: Point) -> bool:
    """Move the point once; return whether that was possible."""
    below, above, z_low, z_high = point.below, point.above, point.z_low, point.z_high
    mu = point.complementarity() / point.n_bounds
    off = system.factorise(point)
    if off is None or not np.isfinite(mu):
        return False

    def direction(to_low: Any, to_high: Any) -> tuple[FloatArray, ...]:
        dx, dv = system.solve((to_low / below - z_low) - (to_high / above - z_high) - off)
        dl = (to_low - z_low * dx) / below - z_low
        return dv, dx, dl, (to_high + z_high * dx) / above - z_high

    def room(dx: FloatArray, dl: FloatArray, dh: FloatArray) -> float:
        low, high = point.has_low, point.has_high
        of_x = min(_room(below, dx, low), _room(above, -dx, high))
        return min(of_x, _room(z_low, dl, low), _room(z_high, dh, high))

    _, dx, dl, dh = direction(0.0, 0.0)
    reach = min(1.0, room(dx, dl, dh))
    lower, upper = below + reach * dx, above - reach * dx
    ahead = lower @ (z_low + reach * dl) + upper @ (z_high + reach * dh)
    target = mu * min(1.0, (float(ahead) / (point.n_bounds * mu)) ** 3)
    dv, dx, dl, dh = direction(target * point.has_low - dx * dl, target * point.has_high + dx * dh)
    reach = min(1.0, TO_THE_WALL * room(dx, dl, dh))
    if not reach > NO_ROOM or not np.isfinite(dv).all() or not np.isfinite(dx).all():
        return False
    system.move(point, reach, dx, dv)
    z_low += reach * dl
    z_high += reach * dh
    np.maximum(z_low, 1e-60 * point.scale * point.has_low, out=z_low)
    np.maximum(z_high, 1e-60 * point.scale * point.has_high, out=z_high)
    return True


def _room(x: FloatArray, dx: FloatArray, counts: FloatArray | float) -> float:
    """Return how many steps dx fit before the first entry of x > 0 that counts reaches zero."""
    ratio = dx / x
    if not isinstance(counts, float):
        ratio = np.where(counts > 0, ratio, 0.0)
    steepest = float(np.min(ratio))
    return np.inf if steepest >= 0 else -1.0 / steepest
