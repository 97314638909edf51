r"""Nearest points of reduced hulls by random sampling (Balcázar et al. 2008): a historical method.

Problem (Balcázar et al. 2008, P2): the nearest points of reduced convex hulls,

.. math::

    \min_{w, \theta, \xi} \; \tfrac12 |w|^2 - (\theta_+ - \theta_-) + \sum_i D_i \xi_i
    \quad\text{s.t.}\quad w \cdot x_i \ge \theta_+ - \xi_i \; (y_i = 1), \quad
    w \cdot x_i \le \theta_- + \xi_i \; (y_i = -1), \quad \xi \ge 0,

with :math:`D_i = \min(1, s_i / k)` for a row of weight :math:`s_i`. With k = 1 (D = 1) it is the
hard margin, P1. The optimum is determined by few rows, a *basis*, and the optimum of a sample that
holds a basis is the optimum of all. So: solve a random sample, read the data once for rows that
the sample's optimum misclassifies (*violators*), make them likelier to be drawn, and draw again.
Without a violator the sample's optimum is that of all rows, whatever the draws were.

========  ===================================================================================
method    algorithm
========  ===================================================================================
weights   OptMargin (Fig. 1, k = 1) and OptSoftMargin (Fig. 3): violators are made likelier
growing   violators are added to the sample, nothing is dropped: two to six reads of the data
          for hard margins
auto      "growing" for k = 1, else "weights" with the paper's practical plan
========  ===================================================================================

**Size of a basis.** :math:`\delta = n + 2k - 1` for whole k (n + 1 for k = 1), and it is attained.
The multipliers s that give the optimal w form a polytope {sum y s x = w, class sums 1,
0 <= s <= D}. At one of its vertices at most n + 1 entries are strictly between the bounds: there
are n + 2 equations, of which one follows from the others, as w.x is constant on the free rows of
a class. Of the rows at their bound D = 1/k a class with a free row has at most k - 1, since the
sum is 1; a class without one has k, but then its sum is no equation for the free rows any more.
The rows with s > 0 of that vertex have the same optimum. (Lemma 4.2 of the paper has the looser
k (n + 1).)

**Rounds.** With samples of :math:`r = 6 \delta^2`, and doubling only where the violators weigh
at most :math:`1/(3\delta)` of the total, the expected number of rounds is at most
:math:`6 \delta \ln m` (Theorems 2.2 and 4.3). Samples may be far smaller in practice
(:func:`practical_plan`).

**Violators.** Where the optimal threshold of a class is an interval, a row violates only below
the lower end, the k-th smallest w.x of the positives: there w.x enters the nearest point.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.validation import require_choice
from widemargin.problems.linear_scan import LinearProblem
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.literature.random_sampling import tasks as tasks
from widemargin.solvers.literature.random_sampling.run import MOST_ROUNDS, Run
from widemargin.solvers.literature.random_sampling.state import Plan, SamplingResult, basis_size
from widemargin.solvers.literature.random_sampling.tasks import Offenders, Sampled, Scan
from widemargin.sources.protocol import Source

__all__ = ["Plan", "SamplingResult", "basis_size", "practical_plan", "proved_plan", "solve"]

FIRST, WORST, RANDOM = 2000, 500, 500  # rows of a growing sample: at first, and added per round
METHODS = ("auto", "weights", "growing")
WHOLE = 1e-12  # relative: 1 / cap this near an integer is that integer


def solve(
    problem: LinearProblem,
    data: Source,
    *,
    tol: float = 1e-10,
    budget: Budget,
    start: SamplingResult | None = None,
    method: str = "auto",
    seed: int = 0,
    plan: Plan | None = None,
    first: int = FIRST,
) -> SamplingResult:
    """Find the nearest points of reduced hulls; for small k only.

    Parameters
    ----------
    problem : LinearProblem
        Of the kind "hull". Each row may have at most the cap 1/k times its weight of its hull's
        point; caps from 1 on are the hard margin, for which weights count only as zero or not.
    data : Source
        Rows with labels -1 and +1.
    tol : float
        Slack of a violator, in units of the length of w times the spread of the rows.
    budget : Budget
        Rounds, and the monitor that is called after each with the relative distance of the bounds.
    start : SamplingResult, optional
        Not used: every run starts from a random sample.
    method : {"auto", "weights", "growing"}
        See the module.
    seed : int
        Seed of the draws; the result does not depend on it beyond rounding.
    plan : Plan, optional
        How "weights" samples; by default :func:`practical_plan`.
    first : int
        Rows of the first sample of "growing".

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import sources
    >>> from widemargin.problems.linear_scan import LinearProblem
    >>> from widemargin.solvers.base import Budget
    >>> from widemargin.solvers.literature.random_sampling import solve
    >>> X, y = np.array([[0.0], [-1.0], [2.0], [3.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    >>> source = sources.from_arrays(X, y).binary(1.0, -1.0)
    >>> found = solve(LinearProblem("hull", 1.0), source, budget=Budget(100))
    >>> found.status, found.coef.round(9)
    ('converged', array([2.]))
    """
    require_choice("method", method, METHODS)
    k = max(1.0, 1.0 / problem.cap)
    if abs(k - round(k)) <= WHOLE * k:
        k = float(round(k))
    n = data.n_features
    budget = Budget(min(budget.max_iter, MOST_ROUNDS), budget.monitor)
    if method == "growing" or (method == "auto" and k == 1.0):
        return _growing(Run(data, k, proved_plan(n, k), seed, tol), budget, first)
    return _weights(Run(data, k, plan or practical_plan(n, k), seed, tol), budget)


def proved_plan(n_features: int, k: float = 1) -> Plan:
    """Return the plan of Figs. 1 and 3, whose expected number of rounds is proved."""
    delta = basis_size(n_features, k)
    return Plan(delta, 6 * delta * delta)


def practical_plan(n_features: int, k: float = 1) -> Plan:
    """Return the paper's practical plan: small samples, doubled when rounds run out.

    With r = 10 delta the violators weigh about a tenth of the total, so the success test would
    fail forever; it is left out. Most runs need 30 to 50 rounds, each much cheaper.
    """
    delta = basis_size(n_features, k)
    return Plan(delta, 10 * delta, success_test=False, patience=40)


def _weights(run: Run, budget: Budget) -> SamplingResult:
    """Figs. 1 and 3, line by line."""
    status: Status | None = None
    while status is None:
        sample = run.draw()
        optimum = run.solve(sample)
        if optimum.is_zero:
            return run.result(optimum, sample, None, "converged")
        found = run.scan(optimum, sample)
        success = run.succeeds(found)
        run.record(optimum, sample, found, success)
        if success:
            run.double_weights()
        status = _ended(run, found, budget)
        run.waited += 1
        if run.plan.patience is not None and run.waited >= run.plan.patience:
            run.plan, run.waited = run.plan.doubled(), 0
    return run.result(optimum, sample, found, status)


def _growing(run: Run, budget: Budget, first: int) -> SamplingResult:
    """Add the worst violators of each round, and as many random ones.

    Without the random ones the sample would follow outliers only.
    """
    sample = run.draw_uniformly(first)
    status: Status | None = None
    while status is None:
        optimum = run.solve(sample)
        if optimum.is_zero:
            return run.result(optimum, sample, None, "converged")
        # Every part proposes its worst violators and some random ones.
        offenders = run.source.run(
            tasks.offenders,
            [
                (optimum.plane, run.cap, sample.rows_of(i), WORST, RANDOM, run.next_seed(i))
                for i in range(len(run.sizes))
            ],
        )
        run.passes += 1
        found = tasks.merged([of_part.scan for of_part in offenders])
        run.record(optimum, sample, found, found.violators > 0)
        status = _ended(run, found, budget)
        if status is None:
            sample = sample.and_also(_chosen(run, offenders))
    return run.result(optimum, sample, found, status)


def _ended(run: Run, found: Scan, budget: Budget) -> Status | None:
    """Return how the run ends after this round; None if it goes on."""
    if found.violators == 0:
        return "converged"
    return None if budget.spend(1, run.spread()) else budget.status


def _chosen(run: Run, offenders: list[Offenders]) -> list[Sampled]:
    """Of what the parts propose, keep the worst of all and a uniform sample of all violators."""
    slack = np.concatenate([of_part.slack for of_part in offenders])
    bar = np.sort(slack)[-WORST] if len(slack) > WORST else -np.inf
    counts = [of_part.scan.violators for of_part in offenders]
    number = min(RANDOM, sum(counts))
    quota = run.rng.multivariate_hypergeometric(counts, number, method="marginals")
    kept = []
    for of_part, random in zip(offenders, quota, strict=True):
        bad = of_part.slack >= bar
        pairs = zip(of_part.worst, of_part.some, strict=True)
        rows, X, y, weight = (np.concatenate([w[bad], s[:random]]) for w, s in pairs)
        kept.append((rows, X, y, weight))
    return kept
