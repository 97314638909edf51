r"""Nearest points of reduced hulls by random sampling (Balcázar et al. 2008).

Problem (Balcázar et al. 2008, P2): the nearest points of reduced convex hulls,

.. math::

    \min_{w, \theta, \xi} \; \tfrac12 |w|^2 - (\theta_+ - \theta_-) + \sum_i D_i \xi_i
    \quad\text{s.t.}\quad w \cdot x_i \ge \theta_+ - \xi_i \; (y_i = 1), \quad
    w \cdot x_i \le \theta_- + \xi_i \; (y_i = -1), \quad \xi \ge 0,

with :math:`D_i = \min(1, s_i / k)` for a sample of sample weight :math:`s_i`. With k = 1 (D = 1)
this is the hard margin, P1. The optimum is determined by a few samples, a *basis*, and the optimum
of a subsample that contains a basis is the optimum of all samples. Each round draws a random
subsample, solves the problem on it, and makes one pass over the data to find the *violators*:
samples on the wrong side of their threshold at this optimum. Violators get a higher probability in
the next draw. If there is none, the optimum of the subsample is that of all samples, for any draws.

A *subsample* (class `Sample`) is the set of samples drawn in a round. The *drawing weights*
:math:`2^e` of the method "weights" are not the sample weights :math:`s_i`.

========  ===================================================================================
method    algorithm
========  ===================================================================================
weights   OptMargin (Fig. 1, k = 1) and OptSoftMargin (Fig. 3): double the drawing weights of
          violators
growing   add violators to the subsample and drop nothing: two to six passes over the data for
          hard margins
auto      "growing" for k = 1, else "weights" with the paper's practical plan
========  ===================================================================================

**Size of a basis.** For n features, :math:`\delta = n + 2k - 1` for integer k (n + 1 for k = 1),
and this bound is attained. Proof: the multipliers s that give the optimal w form a polytope
{sum y s x = w, class sums 1, 0 <= s <= D}. At a vertex of it, at most n + 1 entries are strictly
between the bounds: there are n + 2 equations, of which one follows from the others, since w.x is
constant on the free samples of a class. A class with a free sample has at most k - 1 samples at
their bound D = 1/k, since the multipliers sum to 1; a class without one has k, but then its sum is
not an equation for the free samples. The samples with s > 0 at this vertex have the same optimum.
(Lemma 4.2 of the paper has the looser bound k (n + 1).)

**Number of rounds.** With m samples, subsamples of :math:`r = 6 \delta^2` draws, and weights that
are doubled only if the violators have at most :math:`1/(3\delta)` of the total weight, the expected
number of rounds is at most :math:`6 \delta \ln m` (Theorems 2.2 and 4.3). In practice subsamples
can be much smaller (:func:`practical_plan`).

**Violators.** If the optimal threshold of a class is an interval, a positive sample is a violator
only below its lower end, the k-th smallest w.x of the positives: only then does w.x affect the
nearest point. The negatives are treated symmetrically.
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

# Sizes of a growing subsample: initial samples, and worst and random violators added per round.
FIRST, WORST, RANDOM = 2000, 500, 500
METHODS = ("auto", "weights", "growing")
WHOLE = 1e-12  # relative distance within which k = 1 / cap is rounded to an integer


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
    """Find the nearest points of reduced hulls by random sampling; suitable for small k only.

    Parameters
    ----------
    problem : LinearProblem
        Problem of the kind "hull". The multiplier of a sample is at most the cap 1/k times its
        weight. Caps of 1 or more are the hard margin, for which samples of weight zero are ignored
        and all other weights are equivalent.
    data : Source
        Samples with labels -1 and +1.
    tol : float
        Smallest slack of a violator, in units of |w| times the spread of the samples.
    budget : Budget
        Limit on rounds, and the monitor, which is called after each round with the relative gap
        between the bounds on the distance of the hulls.
    start : SamplingResult, optional
        Not used: every run starts from a random subsample.
    method : {"auto", "weights", "growing"}
        See the module docstring.
    seed : int
        Seed of the draws; a converged result depends on it only through rounding.
    plan : Plan, optional
        Sampling plan of "weights"; by default :func:`practical_plan`.
    first : int
        Size of the first subsample of "growing".

    Returns
    -------
    SamplingResult
        Hyperplane, thresholds, multipliers and the history of the rounds.

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
    """Return the plan of Figs. 1 and 3, which has a proved bound on the expected rounds."""
    delta = basis_size(n_features, k)
    return Plan(delta, 6 * delta * delta)


def practical_plan(n_features: int, k: float = 1) -> Plan:
    """Return the paper's practical plan: small subsamples, doubled every 40 rounds.

    With r = 10 delta the violators have about a tenth of the total weight, so the success test
    would always fail; it is omitted. Most runs need 30 to 50 rounds, each of them much cheaper.
    """
    delta = basis_size(n_features, k)
    return Plan(delta, 10 * delta, success_test=False, patience=40)


def _weights(run: Run, budget: Budget) -> SamplingResult:
    """Run the algorithm of Figs. 1 and 3, line by line."""
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
    """Grow a subsample by the worst violators of each round and as many random ones.

    The worst violators alone would be mostly outliers.
    """
    sample = run.draw_uniformly(first)
    status: Status | None = None
    while status is None:
        optimum = run.solve(sample)
        if optimum.is_zero:
            return run.result(optimum, sample, None, "converged")
        # Every part returns its worst violators and some random ones.
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
    """Return the status if the run ends after this round, else None."""
    if found.violators == 0:
        return "converged"
    return None if budget.spend(1, run.spread()) else budget.status


def _chosen(run: Run, offenders: list[Offenders]) -> list[Sampled]:
    """Select the worst violators of all parts, and a uniform random subset of all violators."""
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
