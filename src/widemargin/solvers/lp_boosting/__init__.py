"""Solve LPBoost, :mod:`widemargin.problems.boosting.soft_margin`, by column generation.

===================  =============================================================================
method               algorithm
===================  =============================================================================
"column_generation"  always: interior-point steps on the hypotheses found so far, to which the
                     learner adds those of large edge after every step
===================  =============================================================================

This is the stabilisation that column generation needs. Interior points are distributions that are
spread over many samples and change little from step to step; the vertices that a simplex method
returns jump, and the best hypotheses of one are of no use to the next. Steps stay in the centre of
the feasible set, as far from its boundary as the gap allows, so that new hypotheses do not block
them. Every step starts from the last one. A learner that does not know the largest edge of all
hypotheses is called at the optimum on the known ones.

>>> import numpy as np
>>> from widemargin.problems.boosting.soft_margin import SoftMarginVote
>>> from widemargin.solvers.base import Budget
>>> from widemargin.solvers.boosting import stump_learners
>>> from widemargin.solvers.lp_boosting import solve
>>> X, positive = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([True, False, True, True])
>>> learner, = stump_learners(X, [positive], exact=True, seed=0, threads=1)
>>> problem = SoftMarginVote(positive, np.ones(4), nu=0.1)
>>> found = solve(problem, learner, tol=1e-6, budget=Budget(100))
>>> round(problem.demand(found.margins), 5), round(found.edge, 5), found.status
(0.33333, 0.33333, 'converged')
"""

from __future__ import annotations

from widemargin._base.validation import require_choice
from widemargin.problems.boosting.soft_margin import SoftMarginVote
from widemargin.solvers.base import Budget
from widemargin.solvers.lp_boosting.columns import ColumnLearner, VoteResult, generate_columns

__all__ = ["ColumnLearner", "VoteResult", "solve"]


def solve(
    problem: SoftMarginVote,
    data: ColumnLearner,
    *,
    tol: float,
    budget: Budget,
    start: None = None,
    method: str = "auto",
) -> VoteResult:
    """Solve the linear program of LPBoost.

    Parameters
    ----------
    problem : SoftMarginVote
        Labels, weights and nu.
    data : ColumnLearner
        Returns hypotheses of large edge.
    tol : float
        Gap to reach; the objective is a margin, between -1 and 1.
    budget : Budget
        Steps of the interior-point method. Its memory is for the values of the hypotheses.
    start : None
        Warm starts are not supported.
    method : {"auto", "column_generation"}
        See the table in the docstring of the package.

    Returns
    -------
    VoteResult
        Coefficients and distribution, rounded so that their sums are exact.
    """
    require_choice("method", method, ("auto", "column_generation"))
    return generate_columns(problem, data, tol=tol, budget=budget)
