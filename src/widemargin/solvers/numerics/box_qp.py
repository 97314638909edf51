r"""Box-constrained quadratic programs with few equality constraints and a low-rank Hessian.

Minimise over s, one multiplier per sample,

.. math::

    \tfrac12 |c + Z's|^2 - q's \quad\text{subject to}\quad E's = a, \quad 0 \le s \le D .

Z has the rows :math:`y_i x_i`; c is the contribution to w of samples whose multipliers are fixed.
The Lagrange dual is the primal problem of a linear classifier: with :math:`w = c + Z's` and the
multipliers t of the equality constraints, the thresholds,

.. math:: \min_{w, t} \; \tfrac12 |w - c|^2 + a't + \sum_i D_i \max(0, q_i - (Zw + Et)_i),

up to a constant and a sign.

At the optimum samples with :math:`(Zw + Et)_i > q_i` have s = 0, those below have s = D.

An interior-point method (`numerics.box_qp_interior`) identifies the variables at a bound, then the
optimality conditions are solved as linear equations
(:mod:`widemargin.solvers.numerics.box_qp_finish`), so that the result does not depend on the
iterates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from widemargin._base.tolerances import OBJECTIVE_ROUNDING
from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin.problems.linear_scan import InfeasibleSums as InfeasibleSums
from widemargin.solvers.numerics.box_qp_finish import GOOD, TOLERABLE, Finish, finish, violation
from widemargin.solvers.numerics.box_qp_interior import ScaledBoxQP, interior_points

ZERO = 1e-10  # w counts as zero if its norm, relative to the sum of its terms, is below this


@dataclass(frozen=True)
class BoxQP:
    """Data of a box QP.

    Attributes
    ----------
    Z : ndarray of shape (m, n)
        Rows y_i x_i.
    E : ndarray of shape (m, p), p in {0, 1, 2}
        Coefficients of the equality constraints; at most one entry per row is not zero.
    a : ndarray of shape (p,)
        Right-hand side of the equality constraints.
    q, D : ndarray of shape (m,)
        Linear term; upper bounds (caps), nonnegative.
    c : ndarray of shape (n,)
        Constant part of w.
    """

    Z: FloatArray
    E: FloatArray
    a: FloatArray
    q: FloatArray
    D: FloatArray
    c: FloatArray

    def vanishes(self, w: FloatArray) -> bool:
        """Return whether w is zero up to rounding, relative to the margin q."""
        length = float(np.sqrt(np.einsum("ij,ij->", self.Z, self.Z) / max(1, len(self.Z))))
        margin = float(np.abs(self.q).max(initial=0.0))
        return not w.any() or float(np.linalg.norm(w)) * length <= 1e-9 * margin

    def slack(self, w: FloatArray, t: FloatArray) -> FloatArray:
        """Return q - Zw - Et: positive for multipliers at the cap, negative for those at zero."""
        slack = self.q - self.Z @ w
        if len(t):
            slack -= self.E @ t
        return slack

    def sample(self, rows: IntArray) -> BoxQP:
        """Return the problem on a subsample, with caps scaled up to the same total."""
        D = self.D[rows] * (float(self.D.sum()) / max(float(self.D[rows].sum()), 1e-300))
        return replace(self, Z=self.Z[rows], E=self.E[rows], q=self.q[rows], D=D)

    def some(self, rows: BoolArray, at_cap: BoolArray) -> BoxQP:
        """Return the problem of some variables, those `at_cap` fixed there, the rest at zero."""
        D = np.where(at_cap, self.D, 0.0)
        a, c = self.a - D @ self.E, self.c + D @ self.Z
        return BoxQP(self.Z[rows], self.E[rows], a, self.q[rows], self.D[rows], c)


@dataclass(frozen=True)
class BoxSolution:
    """Solution of the box QP.

    Attributes
    ----------
    s : ndarray of shape (m,)
        Multipliers in [0, D].
    w : ndarray of shape (n,)
        c + Z's.
    t : ndarray of shape (p,)
        Multipliers of E's = a: the thresholds. Without a free variable they need not be unique;
        then the midpoint of `interval`, or its finite end (0 if both ends are infinite).
    interval : ndarray of shape (p, 2)
        Ends of the optimal interval of each threshold; both are t if it is unique.
    n_iter : int
        Iterations of the interior-point method.
    exact : bool
        Whether the optimality conditions are solved up to rounding.
    """

    s: FloatArray
    w: FloatArray
    t: FloatArray
    interval: FloatArray
    n_iter: int
    exact: bool


def solve_box_qp(
    problem: BoxQP, *, rough: bool = False, tick: Callable[[], None] | None = None
) -> BoxSolution:
    """Solve min_s 1/2 |c + Z's|^2 - q's subject to E's = a, 0 <= s <= D.

    Parameters
    ----------
    problem : BoxQP
        Data of the problem.
    rough : bool, default=False
        Stop at a relative gap of 1e-6 without the finish; for subsamples, whose solution is an
        approximation anyway.
    tick : callable, optional
        Called before every iteration; it may raise an exception to end the run.

    Examples
    --------
    The nearest points of {2, 3} and {0, -1} are 2 and 0:

    >>> import numpy as np
    >>> from widemargin.solvers.numerics.box_qp import BoxQP, solve_box_qp
    >>> Z = np.array([[2.0], [3.0], [0.0], [1.0]])  # y x
    >>> E = np.array([[-1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> D = np.full(4, 2.0)
    >>> found = solve_box_qp(BoxQP(Z, E, np.array([-1.0, 1.0]), np.zeros(4), D, np.zeros(1)))
    >>> found.w.round(12), found.t.round(12), found.exact
    (array([2.]), array([4., 0.]), True)
    """
    Z, E, a, c = problem.Z, problem.E, problem.a, problem.c
    s, open_rows = _settle(E, a, problem.D)
    if not open_rows.any():
        w = c + s @ Z
        t, interval = _thresholds(problem, s, w, np.zeros(len(a)), np.zeros(len(s), dtype=bool))
        return BoxSolution(s, w, t, interval, 0, True)
    everywhere = bool(open_rows.all())
    pick = slice(None) if everywhere else open_rows
    base, sums = (c, a) if everywhere else (c + s @ Z, a - s @ E)
    columns = np.flatnonzero(np.any(E[pick] != 0, axis=0))
    rows, q, D = Z[pick], problem.q[pick], problem.D[pick]
    # Tolerances assume data of order one: measure s in units of the largest cap, x in units of the
    # root mean square norm of the rows.
    unit_s = float(D.max())
    unit_w = float(np.sqrt(np.einsum("ij,ij->", rows, rows) / len(rows))) or 1.0
    n = Z.shape[1]
    A = np.empty((len(rows), n + len(columns)))
    np.divide(rows, unit_w, out=A[:, :n])
    A[:, n:] = E[pick][:, columns]
    scaled = ScaledBoxQP(
        A, n, sums[columns] / unit_s, q / unit_s / unit_w / unit_w, D / unit_s,
        base / unit_s / unit_w,
    )  # fmt: skip
    found, n_iter = _optimum(scaled, rough, tick)
    s[pick] = np.clip(found.s * unit_s, 0.0, D)
    free = np.zeros(len(s), dtype=bool)
    free[pick] = found.free
    w = found.v[:n] * (unit_s * unit_w)
    t = np.zeros(len(a))
    t[columns] = found.v[n:] * (unit_s * unit_w * unit_w)
    t, interval = _thresholds(problem, s, w, t, free)
    return BoxSolution(s, w, t, interval, n_iter, found.violation <= TOLERABLE)


def _settle(E: FloatArray, a: FloatArray, D: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Fix variables with one feasible value: cap zero, or a constraint at the end of its range."""
    s = np.zeros(len(D))
    open_rows = D > 0
    for j in range(len(a)):
        column = E[:, j]
        most, least = float(np.maximum(column, 0.0) @ D), float(np.minimum(column, 0.0) @ D)
        # A constraint at the end of its range has no strictly feasible point, which an
        # interior-point method requires.
        rounding = OBJECTIVE_ROUNDING * (most - least + abs(float(a[j])))
        if not least - 1e3 * rounding <= a[j] <= most + 1e3 * rounding:
            raise InfeasibleSums(
                f"a[{j}] = {a[j]:.6g} cannot be reached: with 0 <= s <= D the sum lies between "
                f"{least:.6g} and {most:.6g}. Raise D or change a."
            )
        for end, sign in ((most, 1.0), (least, -1.0)):
            if abs(float(a[j]) - end) <= rounding:
                full = sign * column > 0
                s[full] = D[full]
                open_rows &= column == 0
    return s, open_rows


def _optimum(qp: ScaledBoxQP, rough: bool, tick: Callable[[], None] | None) -> tuple[Finish, int]:
    """Run the interior-point method until the exact finish from an iterate succeeds."""
    best: Finish | None = None
    n_iter = 0
    for point in interior_points(qp, tick):
        n_iter = point.n_iter
        found = None if rough else finish(qp, point)
        # Test for w = 0 (hulls that intersect) separately: the violation is relative to v.
        for s in (point.x, found.s if found is not None else point.x):
            if _is_zero(qp, s):
                return Finish(s, np.zeros_like(point.v), np.zeros(len(s), bool), 0.0), n_iter
        if found is not None and (best is None or found.violation < best.violation):
            best = found
        if rough or (best is not None and best.violation <= GOOD):
            break
    if best is None or best.violation > TOLERABLE:
        free = np.ones(len(point.x), dtype=bool)
        best = Finish(point.x, point.v, free, violation(qp, point.x, point.v))
    return best, n_iter


def _is_zero(qp: ScaledBoxQP, s: FloatArray) -> bool:
    """Return whether w = 0 is optimal: reduced hulls that intersect (q = 0)."""
    if qp.q.any():
        return False
    w = qp.c + s @ qp.A[:, : qp.n]
    size = float(np.linalg.norm(qp.c)) + float(s.sum())
    return float(np.linalg.norm(w)) <= ZERO * size


def _thresholds(
    problem: BoxQP, s: FloatArray, w: FloatArray, t: FloatArray, free: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return the thresholds and their optimal intervals.

    A threshold is unique if one of its variables is free. Otherwise a variable at zero requires
    E t >= q - Zw, a variable at its cap E t <= q - Zw.
    """
    t, E, D = t.copy(), problem.E, problem.D
    interval = np.stack([t, t], axis=1)
    margin = None
    for j in range(len(t)):
        member = (E[:, j] != 0) & (D > 0)
        if (member & free).any():
            continue
        if margin is None:
            margin = problem.q - problem.Z @ w
        at_cap = s[member] > 0.5 * D[member]
        kink = margin[member] / E[member, j]
        from_below = at_cap == (E[member, j] < 0)
        low = float(kink[from_below].max(initial=-np.inf))
        high = float(kink[~from_below].min(initial=np.inf))
        interval[j] = low, high
        ends = [end for end in (low, high) if np.isfinite(end)]
        t[j] = sum(ends) / len(ends) if ends else 0.0
    return t, interval
