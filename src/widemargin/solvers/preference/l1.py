r"""The preference machine with an l_1 norm: few features, to a true duality gap, without pairs.

Herbrich et al. (2000), end of section 2.4, allow any l_q margin on differences. The linear machine
whose margin is measured in l_inf has the l_1 norm of its weights,

.. math::

    \min_w \; \|w\|_1 + C \sum_{(i,j)} s_i s_j \, \max(0, 1 - (w'x_i - w'x_j)) ,

and is a linear program with one row for each pair. With :math:`\beta = \sum \alpha_{ij}(e_i - e_j)`
its **dual** is

.. math::

    \max_\alpha \; \sum \alpha_{ij} \quad\text{s.t.}\quad \|X'\beta\|_\infty \le 1 , \quad
    0 \le \alpha_{ij} \le C s_i s_j .

Any variables within their caps are feasible once divided by :math:`\max(1, \|X'\beta\|_\infty)`:
every dual point of :mod:`widemargin.problems.preference` gives a rigorous lower bound.

1. *Descent.* The hinge is smoothed over a band of slacks. A step minimises |w|_1 and the quadratic
   model of the loss, one weight after the other, so weights become exactly zero. Features enter
   the model when their :math:`|X'\beta|` is near 1; the others are not looked at. The gap is that
   of the step plus that of the smoothing: when the second dominates, the band is narrowed.
2. *Rows of the program.* Once few pairs are near the kink, they alone become rows of a linear
   program. All other pairs are cut into one plane, their loss as it is at present. The program is
   a lower model of the problem, exact as long as no other pair crosses the kink, and ends the run
   at a vertex.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin.certificate import Certificate, sure_bound
from widemargin.problems.preference import PreferenceProblem
from widemargin.problems.preference.dual_pairs import DualPoint, Listed, Response
from widemargin.problems.preference.sweep import SortedRows
from widemargin.solvers.base import Budget, Monitor, Status
from widemargin.solvers.numerics.data_products import LinearRows
from widemargin.solvers.preference.l1_models import minimise_quadratic, solve_program
from widemargin.solvers.preference.space import Curvature

FEW_FEATURES = 300  # up to which the quadratic model has all of them
NEAR_BOUND, MOST_NEW = 0.9, 150  # |X'beta| from which others enter it, and how many at a time
SETTLED = 0.1  # share of the gap that steps may leave before the band is narrowed
FASTEST = 0.2  # factor by which the band shrinks at a time, at most
NARROWEST = 1e-9  # band below which rounding decides which pairs are in it
WIDEST = 2.0  # band from which no wider one is asked for its curvature
MOST_LENGTHS = 30  # points looked at along one direction
IDLE = 0.9  # share of what is left that a step may leave, unless the objective falls
REACH = 3.0  # band widths around the kink from which pairs become rows of the program
FEW_PAIRS, PER_FEATURE = 1000, 10  # rows that a program may have, and more for each weight


@dataclass(frozen=True, eq=False)
class L1PreferenceResult:
    """Weights of the utility with the dual point that proves how good they are.

    Attributes
    ----------
    w : ndarray of shape (n_features,)
        Weights; most may be exactly zero.
    f : ndarray of shape (n_rows,)
        Utilities X w.
    point : DualPoint
        Dual variables of all pairs, before they are divided by max(1, abs(pull).max()).
    pull : ndarray of shape (n_features,)
        X'beta of these variables.
    lower_bound : float
        Dual objective: no weights are better than this.
    n_iter : int
        Steps, each with one quadratic model or one program.
    status : {"converged", "max_iter", "stopped", "stalled"}
        Whether the gap met the tolerance, the budget ran out, the monitor said stop, or rounding
        errors left nothing to gain.
    """

    w: FloatArray
    f: FloatArray
    point: DualPoint
    pull: FloatArray
    lower_bound: float
    n_iter: int
    status: Status

    def certificate(self, problem: PreferenceProblem, tol: float) -> Certificate:
        """Certify: both objectives recomputed from the utilities in float64.

        The violation is that of the weights' conditions, ``|pull| <= 1``, and ``pull = sign(w)``
        where w is not zero: the largest ``|w - soft(w + pull)|``, soft(v) being v moved towards
        zero by 1 or to it. Those of the pairs hold at the utilities of the dual point.
        """
        primal = float(np.abs(self.w).sum()) + problem.respond(self.f, 0.0).loss
        dual = problem.response(self.point).total / max(1.0, float(np.abs(self.pull).max()))
        dual = sure_bound(primal, dual)
        moved = self.w + self.pull
        soft = np.sign(moved) * np.maximum(np.abs(moved) - 1.0, 0.0)
        return Certificate.from_objectives(
            "preference hinge, l_1 norm",
            primal=primal,
            dual=dual,
            kkt_violation=float(np.abs(self.w - soft).max()),
            converged=(primal - dual) / max(1.0, abs(primal)) <= tol,
            n_iter=self.n_iter,
        )


def solve_l1_preference(
    problem: PreferenceProblem,
    X: Matrix,
    *,
    tol: float,
    max_iter: int,
    monitor: Monitor | None = None,
) -> L1PreferenceResult:
    """Solve the pairwise problem with an l_1 norm to a relative duality gap of tol.

    Parameters
    ----------
    problem : PreferenceProblem
        Ranks, groups, weights and C, with the hinge.
    X : ndarray or CSR matrix of shape (n_rows, n_features)
        The data.
    tol : float
        Bound on primal - dual, relative to max(1, abs(primal)).
    max_iter : int
        Largest number of steps.
    monitor : callable, optional
        Called before every step with (steps, relative gap); returns whether to go on.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.problems.preference import preference_problem
    >>> from widemargin.solvers.preference.l1 import solve_l1_preference
    >>> X = np.array([[0.0, 0.3], [1.0, 0.1], [2.0, 0.2]])
    >>> problem = preference_problem(np.array([0, 1, 2]), C=10.0)
    >>> result = solve_l1_preference(problem, X, tol=1e-9, max_iter=100)
    >>> result.w.round(6) + 0.0, round(result.lower_bound, 6), result.status
    (array([1., 0.]), 1.0, 'converged')
    """
    if problem.squared:
        raise ValueError(f"loss must be 'hinge' with an l_1 norm, got {problem.loss!r}")
    if X.shape[0] != problem.n_rows:
        raise ValueError(f"X has {X.shape[0]} rows, the problem {problem.n_rows}")
    with worker_threads() as threads:
        run = _Descent(problem, LinearRows(X, threads=threads), tol, Budget(max_iter, monitor))
        status = run.solve()
    w, n_iter = run.best, max(1, run.budget.used)
    return L1PreferenceResult(w, run.rows.dot(w), run.point, run.pull, run.dual, n_iter, status)


@dataclass(eq=False)
class _Here:
    """Weights, their utilities, and both problems there."""

    w: FloatArray
    f: FloatArray
    rows: SortedRows
    response: Response
    pull: FloatArray
    left: float  # what steps can still gain of the gap; the smoothing has the rest
    gap: float
    value: float  # the smoothed objective


class _Descent:
    """The state of a run: where it is, and the best primal and dual points met on the way."""

    def __init__(
        self, problem: PreferenceProblem, rows: LinearRows, tol: float, budget: Budget
    ) -> None:
        self.problem, self.rows, self.tol, self.budget = problem, rows, tol, budget
        self.width = 1.0
        self.primal, self.dual = np.inf, -np.inf
        self.best = self.pull = np.zeros(rows.n_features)
        self.point = DualPoint(np.zeros(rows.n_rows), self.width)
        self.here = self._look(self.best, self.point.f)

    @property
    def gap(self) -> float:
        """Relative gap between the best primal and the best dual point."""
        return (self.primal - self.dual) / max(1.0, abs(self.primal))

    def solve(self) -> Status:
        """Step and narrow the band until the gap is closed."""
        while self.gap > self.tol:
            if not self.budget.spend(1, self.gap):
                return self.budget.status
            if self.here.left > SETTLED * self.here.gap and self._step():
                continue
            if self._program():
                continue
            if not self._narrow():
                return "stalled"
        return "converged"

    def _narrow(self) -> bool:
        """Shrink the band towards the one whose smoothing costs half of what is allowed."""
        allowed = 0.5 * self.tol * max(1.0, abs(self.primal))
        shrink = np.sqrt(allowed / max(self.here.gap, allowed))  # the cost falls with its square
        before, old = self.here, self.width
        self.width *= float(np.clip(shrink, FASTEST, 0.5))
        self.here = self._look(before.w, before.f, before.rows)
        self._predict(before, old)
        return self.width >= NARROWEST

    def _predict(self, before: _Here, old: float) -> None:
        """Move the pairs of the old band into the new one, if that is better.

        Pairs at the kink keep their variables as the band narrows, so their slacks shrink with
        it: a step for the loss that has them, and no others, on its ramp.
        """
        (_, excess), (_, deficit) = before.rows.slacks(0.0, old)
        band = before.rows.scattered(before.rows.weight * (excess - deficit))
        steeper = self.problem.C * (1.0 / self.width - 1.0 / old)
        pull = before.pull + self.rows.combine(steeper * band)
        curvature = Curvature(self.problem, before.rows, old, self.width)
        direction = self._direction(pull, curvature)
        there = self._look(before.w + direction, before.f + self.rows.dot(direction))
        if there.value < self.here.value:
            self.here = there

    @np.errstate(over="ignore", invalid="ignore")  # points beyond all numbers are no better
    def _look(self, w: FloatArray, f: FloatArray, rows: SortedRows | None = None) -> _Here:
        """Evaluate both problems, and the smoothed one, at some weights."""
        rows = self.problem.sort(f) if rows is None else rows
        response = self.problem.respond(f, self.width, rows)
        pull = self.rows.combine(response.beta)
        norm = float(np.abs(w).sum())
        primal = norm + response.loss
        dual = self._keep(w, primal, DualPoint(f, self.width), response.total, pull)
        left = norm - float(pull @ w) + response.total - dual
        return _Here(w, f, rows, response, pull, left, primal - dual, norm + response.smoothed)

    def _keep(
        self, w: FloatArray, primal: float, point: DualPoint, total: float, pull: FloatArray
    ) -> float:
        """Remember the best of both problems; return the dual objective."""
        dual = total / max(1.0, float(np.abs(pull).max()))
        if primal < self.primal:
            self.primal, self.best = primal, w
        if dual > self.dual:
            self.dual, self.point, self.pull = dual, point, pull
        return dual

    def _columns(self) -> tuple[IntArray, FloatArray]:
        """Return the features that may have a weight, and their values."""
        strength = np.abs(self.here.pull)
        chosen = np.arange(len(strength))
        if len(chosen) > FEW_FEATURES:
            used = np.flatnonzero(self.here.w)
            strength[used] = 0.0
            chosen = np.argpartition(-strength, MOST_NEW)[:MOST_NEW]
            chosen = np.union1d(used, chosen[strength[chosen] >= NEAR_BOUND])
        X = self.rows.X[:, chosen]
        return chosen, np.asarray(X.toarray() if self.rows.sparse else X, dtype=np.float64)

    @property
    def _small(self) -> float:
        """A change of the objective that does not matter."""
        return 1e-3 * self.tol * max(1.0, abs(self.primal))

    def _direction(self, pull: FloatArray, curvature: Curvature) -> FloatArray:
        """Return the way to the minimum of the norm and a quadratic model of the loss."""
        chosen, features = self._columns()
        features = features - features.mean(axis=0)  # differences do not see a constant
        gram = curvature.gram(features)
        gram[np.diag_indices_from(gram)] += 1e-12 * float(np.trace(gram)) + np.finfo(float).tiny
        direction = np.zeros_like(pull)
        before = self.here.w[chosen]
        direction[chosen] = minimise_quadratic(gram, pull[chosen], before) - before
        return direction

    def _step(self) -> bool:
        """Go to the minimum of the model, or not so far; tell whether that was worth while."""
        here = self.here
        direction = self._direction(here.pull, self._curvature())
        slope = float(np.abs(here.w + direction).sum() - np.abs(here.w).sum())
        slope -= float(here.pull @ direction)
        if not slope < 0:
            return False
        most = here.value + 1e-14 * abs(here.value)
        image, length = self.rows.dot(direction), 1.0
        for _ in range(MOST_LENGTHS):
            there = self._look(here.w + length * direction, here.f + length * image)
            if there.value <= most + 0.1 * length * slope:
                self.here = there
                return there.left <= IDLE * here.left or there.value < here.value - self._small
            excess = there.value - here.value - length * slope
            excess = excess if np.isfinite(excess) else np.inf  # a step beyond all numbers
            length *= float(np.clip(-0.5 * length * slope / excess, 0.1, 0.7))
        return False

    def _curvature(self) -> Curvature:
        """Return the curvature of the band, or of a wider one if it has fewer pairs than weights.

        No pair in the band would say that the loss is a plane; the next ones tell how far.
        """
        width, wanted = self.width, max(1, int(np.count_nonzero(self.here.w)))
        while True:
            curvature = Curvature(self.problem, self.here.rows, width)
            if width >= WIDEST or curvature.n_pairs() >= wanted:
                return curvature
            width *= 2.0

    def _program(self) -> bool:
        """Solve the program of the pairs near the kink, if they are few; tell if that helped."""
        here, problem, before = self.here, self.problem, self.gap
        reach = REACH * self.width
        chosen, features = self._columns()
        most = FEW_PAIRS + PER_FEATURE * len(chosen)
        near = problem.pairs_near_kink(here.f, reach, most)
        if near is None or len(near[0]) == 0:
            return False
        upper, lower = near
        cap = problem.C * problem.weight[upper] * problem.weight[lower]
        settled = DualPoint(here.f, reach, Listed(upper, lower, np.zeros(len(upper))))
        pull = self.rows.combine(problem.response(settled).beta)[chosen]
        found = solve_program(features[upper] - features[lower], cap, pull)
        if found is None:
            return False
        w = np.zeros_like(here.w)
        w[chosen], values = found
        point = DualPoint(here.f, reach, Listed(upper, lower, values))
        response = problem.response(point)
        f = self.rows.dot(w)
        primal = float(np.abs(w).sum()) + problem.respond(f, 0.0).loss
        self._keep(w, primal, point, response.total, self.rows.combine(response.beta))
        return self.gap < 0.5 * before
