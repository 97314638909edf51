r"""Mehrotra's predictor and corrector for a box, few sums and a low-rank quadratic term.

Problem, as in `numerics.box_qp`: minimise :math:`\frac12 |c + Z's|^2 - q's` subject
to :math:`E's = a`, :math:`0 \le s \le D`. With :math:`A = [Z, E]` and :math:`v = (w, t)` the
optimality conditions are

.. math::

    w = c + Z's, \quad E's = a, \quad Av - q = z_l - z_u, \quad z_l s = 0, \quad z_u (D - s) = 0 .

However many rows there are, a step factorises one matrix of order n + p.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin._base.typing import FloatArray

MAX_ITERATIONS = 80
TO_THE_WALL = 0.995  # share of the way to the nearest bound that a step may take
MILESTONES = (1e-6, 1e-9, 1e-12, 1e-15)  # relative gaps at which the point is handed out
NO_ROOM = 1e-12  # a step this short means that rounding has taken over


@dataclass(frozen=True)
class Band:
    """The data of the problem, every D positive, in units where they are of order one."""

    A: FloatArray  # [Z, E]
    n: int  # columns of Z
    a: FloatArray
    q: FloatArray
    D: FloatArray
    c: FloatArray

    @cached_property
    def unit(self) -> FloatArray:
        """One over the root mean square of each column of A."""
        size = np.sqrt(np.einsum("ij,ij->j", self.A, self.A) / len(self.A))
        return np.asarray(1.0 / np.where(size > 0, size, 1.0))

    def residual(self, v: FloatArray) -> FloatArray:
        """Return Av - q, whose sign tells the bound that a row wants to be at."""
        r = self.A @ v
        r -= self.q
        return r


@dataclass
class Point:
    """A point between the bounds: s, its distance to D, and the multipliers of both bounds."""

    s: FloatArray
    above: FloatArray  # D - s
    v: FloatArray  # w and t
    z_low: FloatArray
    z_high: FloatArray
    scale: float  # of Av - q
    n_iter: int = 0

    def complementarity(self) -> float:
        """The gap between the two objectives, apart from infeasibility."""
        return float(self.s @ self.z_low + self.above @ self.z_high)


def interior_points(band: Band, tick: Callable[[], None] | None) -> Iterator[Point]:
    """Yield the iterate at each milestone that it passes, and at last the best there is."""
    point = _start(band)
    milestones = list(MILESTONES)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for _ in range(MAX_ITERATIONS):
            if tick is not None:
                tick()
            if not _step(band, point):
                break
            reached = _relative_gap(band, point)
            if reached <= milestones[0]:
                yield point
                milestones = [level for level in milestones if level < reached]
                if not milestones:
                    return
    yield point


def _start(band: Band) -> Point:
    """Return the solution of a smooth problem of the same size, moved off the bounds.

    With the loss D x / 2 + D x^2 / (4 h) in place of D max(0, x) it is one linear system; h is
    the typical slack of its own solution. From w = c + Z'D/2 instead, a problem with large caps
    would start many orders of magnitude away from its optimum.
    """
    A, n, D = band.A, band.n, band.D
    gram = (A * D[:, None]).T @ A
    of_q, half = (band.q * D) @ A, 0.5 * (D @ A)
    half += np.concatenate([band.c, -band.a])
    h = float(np.abs(band.q).max()) or float(np.sqrt(np.mean((A[:, :n] @ half[:n]) ** 2))) or 1.0
    flat = np.arange(n)
    for _ in range(4):
        M = gram / (2.0 * h)
        M[flat, flat] += 1.0
        v = np.asarray(np.linalg.lstsq(M, half + of_q / (2.0 * h), rcond=None)[0], np.float64)
        r = band.residual(v)
        h = max(float(np.sqrt(np.mean(r * r))), 1e-3 * h)
    s = D * np.clip(0.5 - r / (2.0 * h), 0.1, 0.9)
    z_low, z_high = np.maximum(r, 0.0), np.maximum(-r, 0.0)
    z_low += 0.1 * h
    z_high += 0.1 * h
    return Point(s, D - s, v, z_low, z_high, h)


def _relative_gap(band: Band, point: Point) -> float:
    """Return the largest of the gap and the infeasibilities, each relative to its own scale.

    Rounding errors of a sum are relative to its terms, which may be far larger than the sum.
    """
    w, n, total = point.v[: band.n], band.n, float(point.s.sum())
    size = 0.5 * float(w @ w) + abs(float(band.q @ point.s)) + 1e-22 * total * total
    pull = point.s @ band.A
    of_w = float(np.abs(w - band.c - pull[:n]).max(initial=0.0))
    of_sums = float(np.abs(pull[n:] - band.a).max(initial=0.0))
    r = band.residual(point.v)
    r -= point.z_low
    r += point.z_high
    infeasible = max(
        of_w / (float(np.abs(band.c).max(initial=0.0)) + total),
        of_sums / (float(np.abs(band.a).max(initial=0.0)) + total),
        float(np.abs(r).max()) / point.scale,
    )
    # Infeasibility of the order of rounding says nothing about how far the gap can still fall.
    return max(point.complementarity() / size, infeasible if infeasible > 1e-10 else 0.0)


def _step(band: Band, point: Point) -> bool:
    """Move the point once; say whether that was possible."""
    A, n = band.A, band.n
    s, above, z_low, z_high = point.s, point.above, point.z_low, point.z_high
    pull = s @ A
    lack = np.concatenate([point.v[:n] - band.c - pull[:n], pull[n:] - band.a])
    off = band.residual(point.v)
    off -= z_low
    off += z_high
    mu = point.complementarity() / (2 * len(s))
    freedom = 1.0 / (z_low / s + z_high / above)
    factor = _factor(band, freedom)
    if factor is None or not np.isfinite(mu):
        return False

    def direction(to_low: Any, to_high: Any) -> tuple[FloatArray, ...]:
        wish = (to_low / s - z_low) - (to_high / above - z_high) - off
        right = (freedom * wish) @ A
        right[:n] -= lack[:n]
        right[n:] += lack[n:]
        dv = cho_solve(factor, right, check_finite=False)
        ds = freedom * (wish - A @ dv)
        return dv, ds, (to_low - z_low * ds) / s - z_low, (to_high + z_high * ds) / above - z_high

    dv, ds, dl, dh = direction(0.0, 0.0)
    reach = min(1.0, _room(s, ds), _room(above, -ds), _room(z_low, dl), _room(z_high, dh))
    ahead = (s + reach * ds) @ (z_low + reach * dl) + (above - reach * ds) @ (z_high + reach * dh)
    target = mu * min(1.0, (float(ahead) / (2 * len(s) * mu)) ** 3)
    dv, ds, dl, dh = direction(target - ds * dl, target + ds * dh)
    reach = min(_room(s, ds), _room(above, -ds), _room(z_low, dl), _room(z_high, dh))
    reach = min(1.0, TO_THE_WALL * reach)
    if not reach > NO_ROOM or not np.isfinite(dv).all():
        return False
    point.v += reach * dv
    s += reach * ds
    np.maximum(s, 1e-40 * band.D, out=s)
    np.subtract(band.D, s, out=above)
    np.maximum(above, 1e-40 * band.D, out=above)
    z_low += reach * dl
    z_high += reach * dh
    np.maximum(z_low, 1e-60 * point.scale, out=z_low)
    np.maximum(z_high, 1e-60 * point.scale, out=z_high)
    point.n_iter += 1
    return True


def _factor(band: Band, freedom: FloatArray) -> Any:
    """Factorise A'TA plus the identity on w; a little is added where rounding has eaten it up."""
    weighted = band.A * np.sqrt(freedom)[:, None]
    M = weighted.T @ weighted
    diagonal = np.arange(len(M))
    M[diagonal[: band.n], diagonal[: band.n]] += 1.0
    for lift in (1e-15, 1e-12):
        M[diagonal, diagonal] *= 1.0 + lift
        try:
            return cho_factor(M, check_finite=False)
        except (LinAlgError, ValueError):
            continue
    return None


def _room(x: FloatArray, dx: FloatArray) -> float:
    """How many steps dx fit before the first entry of x > 0 reaches zero."""
    steepest = float(np.min(dx / x))
    return np.inf if steepest >= 0 else -1.0 / steepest
