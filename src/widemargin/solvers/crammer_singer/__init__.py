r"""Multiclass linear classification of Crammer and Singer: Newton's method on a smoothed loss.

Problem: :class:`~widemargin.problems.crammer_singer.CrammerSinger`, without intercepts or with free
ones. There is one method, "newton":

1. The largest rival in the loss of each sample is smoothed over a width h, and Newton's method
   minimises the smooth problem (`crammer_singer.smoothed_newton`). It factorises a matrix of order
   n_classes (n_features + 1), up to 1,500, and uses conjugate gradients beyond.
2. The shares of the classes in the loss of each sample, which are the dual variables, become the
   centre of the smoothing at the next, smaller width.

Each iterate gives a model and, after a correction for the intercepts, a feasible dual point, hence
a duality gap. Block coordinate descent on the dual (LIBLINEAR) has cheaper steps, but needs
thousands of passes if features are correlated or C is large, and has no intercepts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, Matrix
from widemargin._base.validation import require_choice
from widemargin.certificate import gap_scale, relative_gap
from widemargin.problems.crammer_singer import CrammerSinger
from widemargin.solvers.base import Budget, Result, Status
from widemargin.solvers.crammer_singer.smoothed_newton import Level

__all__ = ["CrammerSingerResult", "solve"]

SOFT = 100.0  # largest curvature of a loss at the first level, for samples of norm one
NARROWEST = 1e-12  # smallest width: rounding errors of decision values divided by it stay small
# Newton residual at which a level ends, relative to the smoothing gap and to the proximal term.
# Samples whose cost is no active bound have a proximal term that does not depend on it.
SETTLED = 0.2
NEGLIGIBLE = 0.01  # the same, relative to the gap to reach
LONGEST = 50  # Newton steps per level
STALLED = 200  # steps without a better gap after which rounding errors dominate
BETTER = 1e-3  # part of the gap by which the model or the dual point must improve


@dataclass(frozen=True, eq=False, kw_only=True)
class CrammerSingerResult(Result):
    """Linear model with one hyperplane per class, and its dual variables.

    Attributes
    ----------
    coef : ndarray of shape (n_classes, n_features)
        Weights.
    intercepts : ndarray of shape (n_classes,)
        Intercepts with sum zero; zeros if the problem has none.
    alpha : ndarray of shape (n_rows, n_classes)
        Feasible dual variables.
    primal, dual : float
        Last primal objective and lower bound of the solver; a certificate recomputes them.
    """

    coef: FloatArray
    intercepts: FloatArray
    alpha: FloatArray
    primal: float
    dual: float


def solve(
    problem: CrammerSinger,
    data: Matrix,
    *,
    tol: float,
    budget: Budget,
    start: CrammerSingerResult | None = None,
    method: str = "auto",
) -> CrammerSingerResult:
    """Solve the multiclass problem of Crammer and Singer.

    Parameters
    ----------
    problem : CrammerSinger
        Classes and costs. Penalised intercepts are weights of a constant feature of `data`.
    data : ndarray or CSR matrix of shape (n, d)
        Samples; float32 is converted to float64.
    tol : float
        Largest duality gap, primal - dual, relative to max(1, abs(primal)).
    budget : Budget
        Largest number of Newton steps, and the monitor, which is called between steps with
        (steps, relative gap).
    start : CrammerSingerResult, optional
        Model for a warm start, with dual variables for the same samples.
    method : {"auto", "newton"}
        There is one method.

    Returns
    -------
    result : CrammerSingerResult
        Model and feasible dual variables.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.problems.crammer_singer import CrammerSinger
    >>> from widemargin.solvers.base import Budget
    >>> from widemargin.solvers.crammer_singer import solve
    >>> X = np.array([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])
    >>> problem = CrammerSinger(np.arange(3), np.ones(3), 3)
    >>> found = solve(problem, X, tol=1e-9, budget=Budget(100))
    >>> (X @ found.coef.T + found.intercepts).argmax(axis=1), found.status
    (array([0, 1, 2]), 'converged')
    """
    require_choice("method", method, ("auto", "newton"))
    X = data.astype(np.float64, copy=False)
    with worker_threads():
        search = _Search(problem, X)
        if start is not None:
            search.level.centre = problem.shares(start.alpha)
            search.level.move_to(start.coef.copy(), start.intercepts.copy())
        status = search.run(tol, budget)
    b = search.b - search.b.mean() if problem.intercept else np.zeros(problem.n_classes)
    return CrammerSingerResult(
        coef=search.W,
        intercepts=b,
        alpha=search.alpha,
        n_iter=max(1, budget.used),
        status=status,
        primal=search.primal_value,
        dual=search.bound,
    )


class _Search:
    """Smoothing levels, with the best model and the best dual point so far.

    Attributes
    ----------
    primal_value, W, b : the best model and its objective
    bound, alpha : the best feasible dual point and its objective
    residual : part of the last gap that Newton steps at the current level can remove
    smoothing : part of the last gap that is due to the smoothing
    """

    def __init__(self, problem: CrammerSinger, X: Matrix) -> None:
        self.problem = problem
        self.level = Level(problem, X)
        self.primal_value, self.W, self.b = np.inf, self.level.W, self.level.b
        self.bound, self.alpha = 0.0, np.zeros_like(self.level.alpha)
        squares = X.multiply(X) if sp.issparse(X) else X * X
        stiff = float(squares.sum()) / X.shape[0] * float(problem.cost.mean()) / SOFT
        self._narrow(max(1.0, stiff))

    @property
    def gap(self) -> float:
        """Relative duality gap of the best points."""
        return relative_gap(self.primal_value, self.bound)

    def run(self, tol: float, budget: Budget) -> Status:
        """Solve levels of decreasing width until the relative gap is at most tol."""
        self.level.respond()
        self._evaluate()
        improved = budget.used
        ahead, since = False, budget.used
        while self.gap > 0.999 * tol:  # a certificate that is recomputed differs by rounding
            if not budget.spend(1, self.gap):
                return "converged" if self.gap <= tol else budget.status
            moved = self.level.step(ahead=ahead)
            if ahead and not moved:
                moved = self.level.step(ahead=False)
            ahead = False
            if self._evaluate():
                improved = budget.used
            elif budget.used - improved > STALLED:
                return "stalled"
            steps = budget.used - since
            enough = SETTLED * min(self.smoothing, self.level.proximal_term())
            negligible = NEGLIGIBLE * tol * gap_scale(self.primal_value)
            settled = self.residual <= max(enough, negligible)
            if not moved or settled or steps >= LONGEST:
                # Reduce the width faster, the fewer steps the last level took.
                self._narrow(max(self.width * min(max(1, steps), 5) / 10.0, NARROWEST))
                self.level.centre = self.level.p
                self.level.respond()
                ahead, since = True, budget.used
        return "converged"

    def _narrow(self, width: float) -> None:
        """Set the smoothing of all samples, given its typical width.

        Up to 1 all samples have the same width. Beyond it they have the same curvature cost / h:
        for separable data the costs do not determine the size of the dual variables.
        """
        self.width = width
        cost = self.problem.cost
        curving = max(width - 1.0, 0.0) * cost / float(cost.mean())
        self.level.h = np.maximum(curving, min(width, 1.0))

    def _evaluate(self) -> bool:
        """Update the best points and split the gap; return whether a best point improved."""
        level, problem = self.level, self.problem
        value = problem.primal(level.W, level.F)
        alpha, U = level.alpha, level.U
        if problem.intercept:
            alpha = problem.variables(problem.shares(alpha))
            U = level.expand(alpha)
        self.smoothing = level.smoothing_gap()
        self.residual = value - problem.dual(alpha, U) - self.smoothing
        factor = problem.scale(alpha, U)
        bound = problem.dual(factor * alpha, factor * U)
        enough = BETTER * (self.primal_value - self.bound)
        improved = max(self.primal_value - value, bound - self.bound) > enough
        if value < self.primal_value:
            self.primal_value, self.W, self.b = value, level.W, level.b
        if bound > self.bound:
            self.bound, self.alpha = bound, factor * alpha
        return improved
