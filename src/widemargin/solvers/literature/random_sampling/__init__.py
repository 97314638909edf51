r"""Exact margins from random samples: OptMargin, OptSoftMargin and a growing sample.

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

from widemargin.solvers.base import Monitor, Status
from widemargin.solvers.literature.random_sampling import tasks as tasks
from widemargin.solvers.literature.random_sampling.run import MOST_ROUNDS, Run
from widemargin.solvers.literature.random_sampling.state import (
    NotSeparable,
    Optimum,
    Plan,
    Round,
    Sample,
    SamplingResult,
    basis_size,
)
from widemargin.solvers.literature.random_sampling.tasks import Offenders, Sampled, Scan
from widemargin.sources.protocol import Source

__all__ = [
    "NotSeparable",
    "Plan",
    "Round",
    "SamplingResult",
    "basis_size",
    "grow_margin",
    "opt_margin",
    "opt_soft_margin",
    "practical_plan",
    "proved_plan",
]

START, WORST, RANDOM = 2000, 500, 500  # rows of a growing sample: at first, and added a round


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


def opt_margin(
    source: Source,
    *,
    plan: Plan | None = None,
    seed: int = 0,
    max_rounds: int = 10_000,
    keep_exponents: bool = True,
    monitor: Monitor | None = None,
) -> SamplingResult:
    """Find the widest margin of separable data: OptMargin, Balcázar et al. (2008), Fig. 1.

    Parameters
    ----------
    source : Source
        Rows with labels -1 and +1. Weights count only as zero or not.
    plan : Plan, optional
        By default that of the figure, r = 6 delta^2 with the success test.
    seed : int
        Seed of the draws; the result does not depend on it beyond rounding.
    max_rounds : int
        Rounds after which the last plane is returned, with bounds.
    keep_exponents : bool
        Keep two bytes a row between rounds. Otherwise every task rebuilds the exponents from the
        past planes: no state, and more arithmetic.
    monitor : callable, optional
        Called after each round with (rounds, relative distance of the bounds); returns whether
        to go on.

    Raises
    ------
    NotSeparable
        A sample's classes cannot be separated, so neither can all rows.
    """
    plan = plan or proved_plan(source.n_features)
    run = Run(source, 1.0, np.inf, plan, seed, keep_exponents)
    return _opt_soft_margin(run, False, max_rounds, monitor)


def opt_soft_margin(
    source: Source,
    k: float,
    *,
    plan: Plan | None = None,
    double_k: bool = False,
    seed: int = 0,
    max_rounds: int = 10_000,
    keep_exponents: bool = True,
    monitor: Monitor | None = None,
) -> SamplingResult:
    """Find the nearest points of reduced hulls: OptSoftMargin, Balcázar et al. (2008), Fig. 3.

    For small k only: samples must hold the 2 k outliers that the optimum may have.

    Parameters
    ----------
    source : Source
        Rows with labels -1 and +1.
    k : float
        1 / D, at least 1: each row may have at most 1/k times its weight of its hull's point.
    plan : Plan, optional
        By default that of the figure for this k.
    double_k : bool
        Where a sample shows that k is too small for a margin, double k and go on with the weights
        there are (section 6 of the paper) instead of raising an error.
    seed, max_rounds, keep_exponents, monitor
        As in :func:`opt_margin`.

    Raises
    ------
    NotSeparable
        A sample's reduced hulls meet, so those of all rows do: k is too small.
    """
    if not (np.isfinite(k) and k >= 1):
        raise ValueError(f"k={k!r} must be a finite number of at least 1 (1 is the hard margin)")
    plan = plan or proved_plan(source.n_features, k)
    run = Run(source, float(k), 1.0 / k, plan, seed, keep_exponents)
    return _opt_soft_margin(run, double_k, max_rounds, monitor)


def _opt_soft_margin(
    run: Run, double_k: bool, max_rounds: int, monitor: Monitor | None
) -> SamplingResult:
    """Figs. 1 and 3, line by line."""
    _check_rounds(max_rounds)
    status: Status = "max_iter"
    while len(run.history) < max_rounds:
        sample = run.draw()
        optimum = run.solve(sample)
        if optimum.is_zero:
            run.raise_k(double_k)
            continue
        found = run.scan(optimum, sample)
        success = run.succeeds(found)
        run.record(optimum, sample, found, success)
        if found.violators == 0:
            status = "converged"
            break
        if success:
            run.double_weights(optimum, sample)
        if monitor is not None and not monitor(len(run.history), run.relative_gap()):
            status = "stopped"
            break
        run.widen_if_patience_ends()
    return run.result(optimum, sample, found, status)


def grow_margin(
    source: Source,
    *,
    k: float = 1,
    start: int = START,
    worst: int = WORST,
    some: int = RANDOM,
    seed: int = 0,
    max_rounds: int = 500,
    monitor: Monitor | None = None,
) -> SamplingResult:
    """Find the margin by a sample that grows: violators are added to it, nothing is dropped.

    The practical way for hard margins, two to six reads of the data: the worst violators of each
    round are added, and as many random ones, so that the sample does not follow outliers only.

    Parameters
    ----------
    source : Source
        Rows with labels -1 and +1.
    k : float
        1 is the hard margin, for which weights count only as zero or not.
    start : int
        Rows of the first sample.
    worst, some : int
        Violators added in a round: the worst ones, and random ones.
    seed, max_rounds, monitor
        As in :func:`opt_margin`.

    Raises
    ------
    NotSeparable
        The (reduced) hulls of the sample meet.
    """
    _check_rounds(max_rounds)
    cap = np.inf if k == 1 else 1.0 / k
    run = Run(source, float(k), cap, proved_plan(source.n_features, k), seed, False)
    sample = run.draw_uniformly(start)
    offenders: list[Offenders] = []
    status: Status = "max_iter"
    while len(run.history) < max_rounds:
        if offenders:
            sample = sample.and_also(_chosen(run, offenders, worst, some))
        optimum = run.solve(sample)
        if optimum.is_zero:
            run.raise_k(False)
        found, offenders = _offenders(run, optimum, sample, worst, some)
        run.record(optimum, sample, found, found.violators > 0)
        if found.violators == 0:
            status = "converged"
            break
        if monitor is not None and not monitor(len(run.history), run.relative_gap()):
            status = "stopped"
            break
    return run.result(optimum, sample, found, status)


def _offenders(
    run: Run, optimum: Optimum, sample: Sample, worst: int, some: int
) -> tuple[Scan, list[Offenders]]:
    """Read all rows once; every part proposes its worst violators and some random ones."""
    offenders = run.source.run(
        tasks.offenders,
        [
            (optimum.plane, run.cap, sample.rows_of(i), worst, some, run.next_seed(i))
            for i in range(len(run.sizes))
        ],
    )
    run.passes += 1
    return tasks.merged([of_part.scan for of_part in offenders]), offenders


def _chosen(run: Run, offenders: list[Offenders], worst: int, some: int) -> list[Sampled]:
    """Of what the parts propose, keep the worst of all and a uniform sample of all violators."""
    slack = np.concatenate([of_part.slack for of_part in offenders])
    bar = np.sort(slack)[-worst] if len(slack) > worst else -np.inf
    counts = [of_part.scan.violators for of_part in offenders]
    number = min(some, sum(counts))
    quota = run.rng.multivariate_hypergeometric(counts, number, method="marginals")
    kept = []
    for of_part, random in zip(offenders, quota, strict=True):
        bad = of_part.slack >= bar
        pairs = zip(of_part.worst, of_part.some, strict=True)
        rows, X, y, weight = (np.concatenate([w[bad], s[:random]]) for w, s in pairs)
        kept.append((rows, X, y, weight))
    return kept


def _check_rounds(max_rounds: int) -> None:
    if not 1 <= max_rounds <= MOST_ROUNDS:
        raise ValueError(f"max_rounds={max_rounds!r} must be between 1 and {MOST_ROUNDS}")
