r"""Interior points of a box QP with few sums and a low-rank quadratic term.

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

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin._base.typing import FloatArray
from widemargin.solvers.numerics.mehrotra import Point, iterates

MAX_ITERATIONS = 80
MILESTONES = (1e-6, 1e-9, 1e-12, 1e-15)  # relative gaps at which the point is handed out


@dataclass(frozen=True)
class ScaledBoxQP:
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


def interior_points(qp: ScaledBoxQP, tick: Callable[[], None] | None) -> Iterator[Point]:
    """Yield the iterate at each milestone that it passes, and at last the best there is."""
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
    """Return the solution of a smooth problem of the same size, moved off the bounds.

    With the loss D x / 2 + D x^2 / (4 h) in place of D max(0, x) it is one linear system; h is
    the typical slack of its own solution. From w = c + Z'D/2 instead, a problem with large caps
    would start many orders of magnitude away from its optimum.
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

    Rounding errors of a sum are relative to its terms, which may be far larger than the sum.
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
    # Infeasibility of the order of rounding says nothing about how far the gap can still fall.
    return max(point.complementarity() / size, infeasible if infeasible > 1e-10 else 0.0)


class _LowRank:
    """The system of a Newton step, reduced to the n + p variables v = (w, t)."""

    def __init__(self, qp: ScaledBoxQP) -> None:
        self.qp = qp

    def factorise(self, point: Point) -> FloatArray | None:
        """Factorise A'TA plus the identity on w; lift it where rounding has eaten it up."""
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
        """Eliminate s, solve for v."""
        A, n = self.qp.A, self.qp.n
        reduced = (self.freedom * right) @ A
        reduced[:n] -= self.lack[:n]
        reduced[n:] += self.lack[n:]
        dv = cho_solve(self.factor, reduced, check_finite=False)
        return self.freedom * (right - A @ dv), dv

    def move(self, point: Point, length: float, dx: FloatArray, dv: FloatArray) -> None:
        """Move in place, and stay off the bounds."""
        s, D = point.x, self.qp.D  # s is `below` as well
        point.v += length * dv
        s += length * dx
        np.maximum(s, 1e-40 * D, out=s)
        np.subtract(D, s, out=point.above)
        np.maximum(point.above, 1e-40 * D, out=point.above)
