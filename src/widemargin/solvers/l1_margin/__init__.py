r"""Linear classification with an l1 penalty: proximal Newton steps on working sets of features.

Problem: :class:`~widemargin.problems.l1_margin.L1Margin`. There is one method, "newton". Each step

1. re-optimises the intercept and computes the correlations of all features in one pass, hence a
   feasible dual point and the duality gap;
2. chooses a working set: all features if they are few, otherwise those with nonzero weights and
   those with the largest correlations;
3. minimises the quadratic model of the loss, plus the penalty, on the working set
   (`l1_margin.local_model`);
4. moves to the model's minimiser, or halves the step until the objective decreases.

With many features the costs grow to their values in a sequence of warm starts.

The objective is piecewise quadratic, and the model is exact as long as the samples with a slack
stay the same, so that the number of steps hardly depends on tol.

References: Yuan, Ho and Lin (2012), "An improved GLMNET for l1-regularized logistic regression";
Massias, Gramfort and Salmon (2018), "Celer: a fast solver for the lasso with dual extrapolation".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from widemargin._base.threads import worker_threads
from widemargin._base.tolerances import SHORT_SUM_ROUNDING
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin._base.validation import require_choice
from widemargin.certificate import relative_gap
from widemargin.problems.l1_margin import L1Margin
from widemargin.solvers.base import Budget, LinearResult, Status
from widemargin.solvers.l1_margin.local_model import build_model, minimise, model_value
from widemargin.solvers.numerics.data_products import LinearRows

__all__ = ["LinearResult", "LinearRows", "solve"]

ALL_FEATURES = 300  # up to this many features the working set has all of them
FEWEST = 100  # features of zero weight in a smaller working set, at least
FIRST = 10.0  # first cost of the sequence, relative to that of the empty model
GROWTH = 3.0  # ratio of its costs
ROUGH = 1e-2  # relative gap at which the next cost follows
SHORTEST = 2.0**-40  # step lengths below this change nothing
SUFFICIENT = 1e-3  # decrease relative to that of the model
BETTER = 0.999  # a gap below this fraction of the best one is better
STALLED = 50  # steps without a better gap after which rounding errors dominate
INEXACT = 1e-2  # violation of the model's minimiser relative to that of the problem
FLOOR = 1e-14  # smallest violation that the model is solved to


def solve(
    problem: L1Margin,
    data: Matrix,
    *,
    tol: float,
    budget: Budget,
    start: LinearResult | None = None,
    method: str = "auto",
) -> LinearResult:
    """Solve l1-penalised linear classification with the squared hinge.

    Parameters
    ----------
    problem : L1Margin
        Labels and costs. A penalised intercept is a constant feature of `data`.
    data : ndarray or CSR matrix of shape (n, d)
        Samples, float32 or float64. A sparse matrix is also converted to CSC.
    tol : float
        Largest duality gap, primal - dual, relative to max(1, abs(primal)).
    budget : Budget
        Largest number of Newton steps, and the monitor, which is called between steps with
        (steps, relative gap).
    start : LinearResult, optional
        Model for a warm start.
    method : {"auto", "newton"}
        There is one method.

    Returns
    -------
    result : LinearResult
        Model with exact zeros in `coef`, one threshold (the intercept) or none, and feasible
        unsigned multipliers `alpha`.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.problems.l1_margin import L1Margin
    >>> from widemargin.solvers.base import Budget
    >>> from widemargin.solvers.l1_margin import solve
    >>> X = np.array([[-1.0, 1.0], [-1.0, -1.0], [1.0, 1.0], [1.0, -1.0]])
    >>> y = np.array([-1.0, -1.0, 1.0, 1.0])
    >>> found = solve(L1Margin(y, np.full(4, 10.0)), X, tol=1e-9, budget=Budget(100))
    >>> found.coef.round(6), round(found.intercept, 6), found.status
    (array([0.9875, 0.    ]), 0.0, 'converged')
    """
    require_choice("method", method, ("auto", "newton"))
    with worker_threads() as threads:
        search = _Search(problem, data, threads)
        if start is None:
            search.approach(budget)
        else:
            search.w, search.b = start.coef.copy(), start.intercept
        status = search.run(tol, budget)
    return LinearResult(
        coef=search.w,
        thresholds=np.full(int(problem.intercept), search.b),
        alpha=search.alpha,
        n_iter=max(1, budget.used),
        status=status,
        primal=search.value,
        dual=search.bound,
    )


class _Search:
    """Current model, its correlations and objective, and the best dual point so far.

    Attributes
    ----------
    w, b : weights and intercept; the intercept is optimal for the weights after `evaluate`
    f : X w
    xi : slacks
    correlation : X'(y a) with a = 2 c xi
    value : primal objective
    alpha, bound : best feasible multipliers and their dual objective
    """

    def __init__(self, problem: L1Margin, X: Matrix, threads: int) -> None:
        self.problem, self.threads = problem, threads
        self.rows = LinearRows(X, threads=threads)
        self.columns = X.tocsc() if sp.issparse(X) else X
        self.w, self.b = np.zeros(self.rows.n_features), 0.0
        self.alpha, self.bound = np.zeros(self.rows.n_rows), 0.0
        self.value = np.inf

    def approach(self, budget: Budget) -> None:
        """Move to the optima of a sequence of growing costs, if there are many features.

        With large costs and more features than samples the first models would have far more
        nonzero weights than the optimum.
        """
        problem = self.problem
        if self.rows.n_features <= min(ALL_FEATURES, self.rows.n_rows):
            return
        signed = problem.y * problem.balanced(problem.empty_model()[1])
        largest = float(np.abs(self.rows.combine(signed)).max(initial=0.0))
        factor = FIRST / largest if largest > 0.0 else 1.0
        while factor < 1.0 / GROWTH and budget.status == "converged":
            self.problem = replace(problem, cost=factor * problem.cost)
            self.bound = 0.0
            self.run(ROUGH, budget)
            factor *= GROWTH
        self.problem = problem
        self.alpha, self.bound = np.zeros(self.rows.n_rows), 0.0

    def evaluate(self) -> None:
        """Re-optimise b and update everything that depends on the model."""
        problem = self.problem
        self.f = self.rows.dot(self.w)
        self.b = problem.best_intercept(self.f, self.b)
        self.xi = problem.slack(self.f, self.b)
        self.value = problem.primal(self.w, self.f, self.b)
        alpha = problem.balanced(problem.multipliers(self.f, self.b))
        self.correlation = self.rows.combine(problem.y * alpha)
        alpha *= problem.scale(alpha, self.correlation)
        bound = problem.dual(alpha)
        if bound > self.bound:
            self.alpha, self.bound = alpha, bound

    def run(self, tol: float, budget: Budget) -> Status:
        """Take Newton steps until the relative gap is at most tol; return the status."""
        self.evaluate()
        best, since = np.inf, 0
        while True:
            gap = relative_gap(self.value, self.bound)
            best, since = (gap, 0) if gap < BETTER * best else (best, since + 1)
            if gap <= 0.999 * tol:  # a certificate that is recomputed differs by rounding
                return "converged"
            if not budget.spend(1, gap):
                return "converged" if gap <= tol else budget.status
            if since > STALLED or not self.step():
                return "converged" if gap <= tol else "stalled"
            self.evaluate()

    def working_set(self) -> IntArray:
        """Return the features that the next step may change."""
        d = self.rows.n_features
        used = self.w != 0.0
        count = max(FEWEST, int(used.sum()))
        if d <= max(ALL_FEATURES, 2 * count):
            return np.arange(d)
        size = np.where(used, np.inf, np.abs(self.correlation))
        chosen = np.argpartition(-size, int(used.sum()) + count)[: int(used.sum()) + count]
        return np.sort(chosen)

    def step(self) -> bool:
        """Take one proximal Newton step; return whether the model changed."""
        some = self.working_set()
        used = np.flatnonzero(self.xi > 0.0)
        if len(used) == 0:  # only the penalty is left: shrink all weights
            return self._shrink()
        everything = len(some) == self.rows.n_features
        X, rows = self.columns, self.rows
        if not everything:
            X = X[:, some]
            rows = LinearRows(
                X.tocsr() if rows.sparse else np.ascontiguousarray(X), threads=self.threads
            )
        w, correlation = self.w[some], self.correlation[some]
        model = build_model(
            X, rows, used, 2.0 * self.problem.cost[used], -correlation, w,
            intercept=self.problem.intercept,
        )  # fmt: skip
        minimise(model, max(FLOOR, INEXACT * self.problem.violation(w, correlation)))
        decrease = float(np.abs(w).sum()) - model_value(model)
        return self._search(some, model.v, rows.dot(model.v - w), decrease)

    def _search(self, some: IntArray, v: FloatArray, change: FloatArray, decrease: float) -> bool:
        """Halve the step until the objective decreases enough; return whether it did."""
        length, w = 1.0, self.w
        while length >= SHORTEST:
            new = w.copy()
            new[some] = v if length == 1.0 else w[some] + length * (v - w[some])
            f = self.f + length * change
            b = self.problem.best_intercept(f, self.b)
            value = self.problem.primal(new, f, b)
            enough = value < self.value - SUFFICIENT * length * max(decrease, 0.0)
            # A full step may improve the dual point though the objective has all its digits.
            if enough or (length == 1.0 and value <= self.value * (1.0 + SHORT_SUM_ROUNDING)):
                self.w, self.b = new, b
                return True
            length *= 0.5
        return False

    def _shrink(self) -> bool:
        """Scale a model without any loss down until a sample has a slack."""
        least = float((self.problem.y * (self.f + self.b)).min())
        if not self.w.any():
            return False
        self.w, self.b = self.w * (0.9 / least), self.b * (0.9 / least)
        return True
