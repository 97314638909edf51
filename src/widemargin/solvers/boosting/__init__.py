r"""AdaBoost (Table 1.2 of Smola et al. 2000) and AdaBoost_Reg.

Problem: :class:`widemargin.problems.boosting.BoostingProblem`; data: a :class:`Learner`, which
holds the training samples and returns a hypothesis for given sample weights.

============  ======================================  ============================
method        algorithm                               "auto"
============  ======================================  ============================
adaboost      closed-form coefficients                if C of the problem is 0
adaboost_reg  a line search for each coefficient      otherwise
============  ======================================  ============================

The decision stumps of :func:`stump_learners` minimise the weighted error over all thresholds or
over the edges of 255 bins.

>>> import numpy as np
>>> from widemargin.problems.boosting import BoostingProblem
>>> from widemargin.solvers.base import Budget
>>> from widemargin.solvers.boosting import solve, stump_learners
>>> X, positive = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([True, False, True, True])
>>> learner, = stump_learners(X, [positive], exact=True, seed=0, threads=1)
>>> result = solve(BoostingProblem(positive, np.ones(4)), learner, budget=Budget(3))
>>> result.hypotheses[1], result.error.round(3), result.reason
(Stump(feature=0, threshold=1.5, sign=1), array([0.25 , 0.167, 0.2  ]), 'n_rounds')
"""

from __future__ import annotations

from widemargin._base.validation import require_choice
from widemargin.problems.boosting import BoostingProblem
from widemargin.solvers.base import Budget
from widemargin.solvers.boosting.loops import add_stumps
from widemargin.solvers.boosting.rounds import (
    NO_EDGE,
    BoostingResult,
    Learner,
    adaboost,
    adaboost_reg,
)
from widemargin.solvers.boosting.stumps import Stump, stump_learners

__all__ = ["BoostingResult", "Learner", "Stump", "add_stumps", "solve", "stump_learners"]


def solve(
    problem: BoostingProblem,
    data: Learner,
    *,
    tol: float = NO_EDGE,
    budget: Budget,
    start: None = None,
    method: str = "auto",
) -> BoostingResult:
    """Run AdaBoost or AdaBoost_Reg.

    Parameters
    ----------
    problem : BoostingProblem
        Labels, weights and regularisation.
    data : Learner
        Base learner, which returns the hypotheses.
    tol : float, default=1e-12
        The run ends if a weighted error is at least 1/2 - tol, no better than chance.
    budget : Budget
        Rounds. Its monitor is called after each one with (rounds, weighted error).
    start : None
        Warm starts are not supported: a run cannot be resumed from its coefficients.
    method : {"auto", "adaboost", "adaboost_reg"}
        See the table in the docstring of the package.

    Returns
    -------
    BoostingResult
        The hypotheses, their coefficients and the reason for stopping.
    """
    require_choice("method", method, ("auto", "adaboost", "adaboost_reg"))
    if method == "auto":
        method = "adaboost" if problem.C == 0 else "adaboost_reg"
    run = adaboost if method == "adaboost" else adaboost_reg
    return run(problem, data, tol=tol, budget=budget)
