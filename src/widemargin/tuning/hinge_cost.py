r"""Choose the cost C of the hinge loss by a smooth leave-one-out loss.

The kernel is tuned with the squared hinge, whose leave-one-out loss is differentiable; the best
cost of the hinge is different. With the kernel fixed, the hinge problem is solved on a geometric
grid about C, which is extended while the minimum is at its end. The solution at C times C'/C is
feasible at C' and a good warm start. The loss is

.. math:: J = \min_s \sum_l p_l \log(1 + \exp(-s t_l)) , \qquad p_l = w_l / \sum w ,

with t_l the margin of sample l in the model fitted without it (without min(1, w_l) of its weight),
to first order as in :mod:`widemargin.solvers.leave_one_out`. The exact path was about as good (0.1
to 0.2 points of test error better on six data sets, within their noise), but its cost is not
bounded: at large C it may require refits.
If a problem is not solved within the budget, its loss is infinite.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.problems.soft_margin import c_classification
from widemargin.solvers.base import Budget
from widemargin.solvers.leave_one_out import LeaveOneOut
from widemargin.solvers.soft_margin import padded, solve_dense
from widemargin.tuning.smooth_loss import Pair, log_loss

RATIO = 2.0
REACH = 2  # steps to either side that are always evaluated
FARTHEST = 5  # steps to either side at most; a minimum there is accepted
TOL = 1e-3  # KKT violation; linear response puts free support vectors exactly on the margin
PAIR_STEPS = 100_000


def choose_hinge_cost(
    kernels: list[FloatArray], pairs: list[Pair], C: float
) -> tuple[float, list[tuple[float, float]]]:
    """Select the C of smallest loss near a given one; return it and all (C, loss) evaluated.

    Parameters
    ----------
    kernels : list of ndarray
        Kernel matrix of each binary problem.
    pairs : list of Pair
        The binary problems, which share C; their losses are averaged by weight.
    C : float
        Centre of the grid.
    """
    machines = [HingeMachine(K, pair) for K, pair in zip(kernels, pairs, strict=True)]
    weights = np.array([pair.weight.sum() for pair in pairs])
    tried: dict[int, float] = {}

    def visit(step: int) -> None:
        losses = np.array([machine.loss(C * RATIO**step) for machine in machines])
        tried[step] = float(weights @ losses / weights.sum())

    for step in range(-REACH, REACH + 1):
        visit(step)
    while True:
        best = min(tried, key=lambda step: (tried[step], abs(step)))
        beyond = {min(tried): best - 1, max(tried): best + 1}.get(best)
        if beyond is None or abs(beyond) > FARTHEST:
            break
        visit(beyond)
    return C * RATIO**best, [(C * RATIO**step, tried[step]) for step in sorted(tried)]


class HingeMachine:
    """Soft-margin problem of one kernel matrix, solved for a sequence of costs."""

    def __init__(self, K: FloatArray, pair: Pair) -> None:
        n = len(K)
        self.K = np.zeros((padded(n), padded(n)))
        self.K[:n, :n] = K
        self.pair = pair
        self.C = 1.0
        self.alpha, self.f = np.zeros(n), np.zeros(n)

    def loss(self, C: float) -> float:
        """Return the smooth leave-one-out loss at a cost; inf if the problem is not solved."""
        t = self.margins(C)
        weight = self.pair.weight
        return float("inf") if t is None else log_loss(t, weight / weight.sum())[0]

    def margins(self, C: float) -> FloatArray | None:
        """Solve at a cost, warm-started, and return the leave-one-out margins; None on failure."""
        y, weight = self.pair.y, self.pair.weight
        problem = c_classification(y, C * self.pair.cost, intercept=self.pair.intercept)
        self.f *= C / self.C
        self.alpha = problem.repair(self.alpha * (C / self.C))
        self.C = C
        budget = Budget(PAIR_STEPS)
        if solve_dense(self.K, problem, self.alpha, self.f, tol=TOL, budget=budget) > TOL:
            return None
        everything = np.arange(len(y))
        left_out = LeaveOneOut(self.K, problem, self.alpha).linear_response(
            everything, np.minimum(1.0, weight) / weight
        )
        return np.asarray(y * left_out.values)
