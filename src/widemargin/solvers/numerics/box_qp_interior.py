r"""Mehrotra's predictor-corrector interior-point method for box QPs.

Both box QPs of this package have the optimality conditions

.. math::

    g(x, v) = z_l - z_u, \qquad z_l (x - l) = 0, \qquad z_u (u - x) = 0,

with a gradient g that is linear in x and in further variables v (weights, multipliers of equality
constraints). They differ in the linear system of a Newton step, a `System`.

**Low rank**, as in `numerics.box_qp`: minimise :math:`\frac12 |c + Z's|^2 - q's` subject to
:math:`E's = a`, :math:`0 \le s \le D`. With :math:`A = [Z, E]` and :math:`v = (w, t)` the
optimality conditions are

.. math::

    w = c + Z's, \quad E's = a, \quad Av - q = z_l - z_u, \quad z_l s = 0, \quad z_u (D - s) = 0 .

A step factorises one matrix of order n + p, independently of the number of samples.

**Dense**: minimise :math:`\frac12 b'Qb - t'b` subject to :math:`l \le b \le u` and given sums of b
over groups. A step factorises Q plus a positive diagonal, so neither a singular kernel matrix nor a
huge C slows the method down: it is used where pair steps of SMO converge too slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin._base.typing import FloatArray

MAX_ITERATIONS = 80  # low rank
MAX_DENSE_ITERATIONS = 60
MILESTONES = (1e-6, 1e-9, 1e-12, 1e-15)  # relative gaps at which an iterate is yielded
TO_THE_WALL = 0.995  # fraction of the distance to the nearest bound: iterates stay strictly inside
SNAP = 1e-9  # distance from a bound, relative to the width of the box, that counts as at the bound
NO_ROOM = 1e-12  # step length below which rounding errors dominate


@dataclass
class Point:
    """Iterate strictly between its bounds, with the multipliers of both bounds.

    `below` and `above` are the distances to the bounds. For an infinite bound the distance is 1,
    the multiplier is 0, and `has_low` or `has_high` is 0 instead of 1 (one number for all variables
    if every bound is finite).
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
        """Return the complementarity gap: the duality gap of a feasible point."""
        return float(self.below @ self.z_low + self.above @ self.z_high)


class System(Protocol):
    """Linear system of a Newton step."""

    def factorise(self, point: Point) -> FloatArray | None:
        """Factorise the system at a point; return g - z_l + z_u, or None if it is singular."""
        ...

    def solve(self, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (dx, dv) with dg + (z_l / below + z_u / above) dx = right."""
        ...

    def move(self, point: Point, length: float, dx: FloatArray, dv: FloatArray) -> None:
        """Update x, v and the distances to the bounds."""
        ...


def iterates(
    system: System, point: Point, most: int, tick: Callable[[], None] | None = None
) -> Iterator[Point]:
    """Yield the iterate after each step (always the same object) until no step is possible."""
    for _ in range(most):
        if tick is not None:
            tick()
        if not _step(system, point):
            return
        point.n_iter += 1
        yield point


def _step(system: System, point: Point) -> bool:
    """Take one predictor-corrector step in place; return whether that was possible."""
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

    # Predictor: the affine-scaling step shows how much the gap can fall and sets the centring.
    _, dx, dl, dh = direction(0.0, 0.0)
    reach = min(1.0, room(dx, dl, dh))
    lower, upper = below + reach * dx, above - reach * dx
    ahead = lower @ (z_low + reach * dl) + upper @ (z_high + reach * dh)
    target = mu * min(1.0, (float(ahead) / (point.n_bounds * mu)) ** 3)
    # Corrector: the same factorisation with Mehrotra's second-order term dx * dl.
    dv, dx, dl, dh = direction(target * point.has_low - dx * dl, target * point.has_high + dx * dh)
    reach = min(1.0, TO_THE_WALL * room(dx, dl, dh))
    if not reach > NO_ROOM or not np.isfinite(dv).all() or not np.isfinite(dx).all():
        return False
    system.move(point, reach, dx, dv)
    z_low += reach * dl
    z_high += reach * dh
    # Multipliers that underflow to zero would be divided by in the next step.
    np.maximum(z_low, 1e-60 * point.scale * point.has_low, out=z_low)
    np.maximum(z_high, 1e-60 * point.scale * point.has_high, out=z_high)
    return True


def _room(x: FloatArray, dx: FloatArray, counts: FloatArray | float) -> float:
    """Return the step length at which the first entry of x > 0 reaches zero (ratio test)."""
    ratio = dx / x
    if not isinstance(counts, float):
        ratio = np.where(counts > 0, ratio, 0.0)
    steepest = float(np.min(ratio))
    return np.inf if steepest >= 0 else -1.0 / steepest


# -- low rank -----------------------------------------------------------------------------


@dataclass(frozen=True)
class ScaledBoxQP:
    """Box QP in units in which its data are of order one, with every D positive."""

    A: FloatArray  # [Z, E]
    n: int  # columns of Z
    a: FloatArray
    q: FloatArray
    D: FloatArray
    c: FloatArray

    @cached_property
    def unit(self) -> FloatArray:
        """Reciprocal of the root mean square of each column of A."""
        size = np.sqrt(np.einsum("ij,ij->j", self.A, self.A) / len(self.A))
        return np.asarray(1.0 / np.where(size > 0, size, 1.0))

    def residual(self, v: FloatArray) -> FloatArray:
        """Return Av - q: at the optimum positive at s = 0 and negative at s = D."""
        r = self.A @ v
        r -= self.q
        return r


def interior_points(qp: ScaledBoxQP, tick: Callable[[], None] | None) -> Iterator[Point]:
    """Yield the iterate at each milestone of the relative gap, and the last one."""
    point = _start(qp)
    milestones = list(MILESTONES)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for _ in iterates(_LowRank(qp), point, MAX_ITERATIONS, tick):
            reached = _relative_gap(qp, point)
            if reached <= milestones[0]:
                yield point
                milestones = [level for level in milestones if level < reached]
                if not milestones:
                    return
    yield point


def _start(qp: ScaledBoxQP) -> Point:
    """Return a starting point: the solution of a smoothed problem, moved off the bounds.

    With the loss D x / 2 + D x^2 / (4 h) in place of D max(0, x) the problem is one linear system;
    h is the typical slack of its own solution, found by fixed-point iteration. The usual midpoint,
    w = c + Z'D/2, would be many orders of magnitude from the optimum of a problem with large caps.
    """
    A, n, D = qp.A, qp.n, qp.D
    gram = (A * D[:, None]).T @ A
    of_q, half = (qp.q * D) @ A, 0.5 * (D @ A)
    half += np.concatenate([qp.c, -qp.a])
    h = float(np.abs(qp.q).max()) or float(np.sqrt(np.mean((A[:, :n] @ half[:n]) ** 2))) or 1.0
    flat = np.arange(n)
    for _ in range(4):
        M = gram / (2.0 * h)
        M[flat, flat] += 1.0
        v = np.asarray(np.linalg.lstsq(M, half + of_q / (2.0 * h), rcond=None)[0], np.float64)
        r = qp.residual(v)
        h = max(float(np.sqrt(np.mean(r * r))), 1e-3 * h)
    s = D * np.clip(0.5 - r / (2.0 * h), 0.1, 0.9)
    z_low, z_high = np.maximum(r, 0.0), np.maximum(-r, 0.0)
    z_low += 0.1 * h
    z_high += 0.1 * h
    return Point(s, s, D - s, v, z_low, z_high, h)


def _relative_gap(qp: ScaledBoxQP, point: Point) -> float:
    """Return the largest of the gap and the infeasibilities, each relative to its own scale.

    Scales are sums of absolute terms, which may be far larger than the sum itself: rounding errors
    are relative to them.
    """
    w, n, total = point.v[: qp.n], qp.n, float(point.x.sum())
    size = 0.5 * float(w @ w) + abs(float(qp.q @ point.x)) + 1e-22 * total * total
    pull = point.x @ qp.A
    of_w = float(np.abs(w - qp.c - pull[:n]).max(initial=0.0))
    of_sums = float(np.abs(pull[n:] - qp.a).max(initial=0.0))
    r = qp.residual(point.v)
    r -= point.z_low
    r += point.z_high
    infeasible = max(
        of_w / (float(np.abs(qp.c).max(initial=0.0)) + total),
        of_sums / (float(np.abs(qp.a).max(initial=0.0)) + total),
        float(np.abs(r).max()) / point.scale,
    )
    # Infeasibility at the level of rounding errors does not limit the gap: ignore it.
    return max(point.complementarity() / size, infeasible if infeasible > 1e-10 else 0.0)


class _LowRank:
    """Linear system of a Newton step, reduced to the n + p variables v = (w, t)."""

    def __init__(self, qp: ScaledBoxQP) -> None:
        self.qp = qp

    def factorise(self, point: Point) -> FloatArray | None:
        """Factorise A'TA plus the identity on w, with a relative ridge against rounding errors."""
        qp, n = self.qp, self.qp.n
        pull = point.x @ qp.A
        self.lack = np.concatenate([point.v[:n] - qp.c - pull[:n], pull[n:] - qp.a])
        off = qp.residual(point.v)
        off -= point.z_low
        off += point.z_high
        self.freedom = 1.0 / (point.z_low / point.below + point.z_high / point.above)
        weighted = qp.A * np.sqrt(self.freedom)[:, None]
        M = weighted.T @ weighted
        diagonal = np.arange(len(M))
        M[diagonal[:n], diagonal[:n]] += 1.0
        for lift in (1e-15, 1e-12):
            M[diagonal, diagonal] *= 1.0 + lift
            try:
                self.factor = cho_factor(M, check_finite=False)
            except (LinAlgError, ValueError):
                continue
            return off
        return None

    def solve(self, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Eliminate s and solve for v."""
        A, n = self.qp.A, self.qp.n
        reduced = (self.freedom * right) @ A
        reduced[:n] -= self.lack[:n]
        reduced[n:] += self.lack[n:]
        dv = cho_solve(self.factor, reduced, check_finite=False)
        return self.freedom * (right - A @ dv), dv

    def move(self, point: Point, length: float, dx: FloatArray, dv: FloatArray) -> None:
        """Update in place, keeping s strictly inside its bounds."""
        s, D = point.x, self.qp.D  # point.below is the same array as s
        point.v += length * dv
        s += length * dx
        np.maximum(s, 1e-40 * D, out=s)
        np.subtract(D, s, out=point.above)
        np.maximum(point.above, 1e-40 * D, out=point.above)


# -- dense --------------------------------------------------------------------------------


def solve_dense_box_qp(
    Q: FloatArray, t: FloatArray, lower: FloatArray, upper: FloatArray, E: FloatArray, e: FloatArray
) -> FloatArray | None:
    """Return a nearly optimal b, snapped to bounds it is close to; None if the method fails.

    Q of shape (n, n) is positive semi-definite; one bound of a variable may be infinite; Eb = e are
    the equality constraints, E of shape (m, n), where m may be 0.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.solvers.numerics.box_qp_interior import solve_dense_box_qp
    >>> Q, t, E = np.eye(2), np.array([3.0, 1.0]), np.ones((1, 2))
    >>> solve_dense_box_qp(Q, t, np.zeros(2), np.ones(2), E, np.ones(1)).round(6)
    array([1., 0.])
    """
    system = _Dense(Q, t, lower, upper, E, e)
    best = None
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for point in iterates(system, system.start(), MAX_DENSE_ITERATIONS):
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
    """Linear system of a Newton step: Q plus a diagonal, bordered by the equality constraints."""

    Q: FloatArray
    t: FloatArray
    lower: FloatArray
    upper: FloatArray
    E: FloatArray
    e: FloatArray

    def start(self) -> Point:
        """Return the midpoint of the boxes as starting point.

        A variable with one bound starts at a distance of max |t| over the mean diagonal of Q.
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
        """Factorise Q plus the diagonal of the bounds, and eliminate the equality constraints."""
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
        """Solve for b, then correct it by the multipliers of the equality constraints."""
        d = cho_solve(self.factor, right, check_finite=False)
        dm = np.zeros(len(self.e))
        if len(self.e):
            # Least squares: near the optimum all variables of a group may be at a bound, and the
            # Schur complement is singular.
            lack = self.E @ (self.b + d) - self.e
            dm = np.linalg.lstsq(self.E @ self.lifted, lack, rcond=None)[0]
            d = d - self.lifted @ dm
        return d, dm

    def move(self, point: Point, length: float, dx: FloatArray, dv: FloatArray) -> None:
        """Update into new arrays, because the caller keeps the last b."""
        point.x = point.x + length * dx
        point.v = point.v + length * dv
        point.below, point.above = self._distances(point.x)
