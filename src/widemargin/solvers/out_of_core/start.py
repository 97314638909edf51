"""Start of the implicit-outlier method: the solution of a subsample and a zone around it.

The optimum of a subsample of r of the m samples with n features, with caps m / r times as large,
has a distance of order sqrt(n / r) from the optimum of all samples. It therefore determines the
side of all but about m sqrt(n / r) samples. The subsample is solved in the same way, starting from
a smaller one, but not exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np

from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin.problems.linear_scan import InfeasibleSums, LinearProblem
from widemargin.solvers.numerics.box_qp import BoxQP
from widemargin.solvers.numerics.box_qp_nested import few_rows, solve_nested
from widemargin.solvers.out_of_core.rounds import Base
from widemargin.solvers.out_of_core.scan import Limits, Sampled, draw
from widemargin.sources.protocol import Source

SHARE = 8  # a subsample is at most one sample in this many, but at least `few_rows`
ZONE = 1.6  # expected number of samples in the zone, in units of m sqrt(n / r)
SOFTER = 6  # number of caps, in ratios of 4, that are tried before w = 0 is accepted
SAMPLE_BYTES = 64 << 20  # largest subsample, in float64; solving it takes about twice that memory
ENOUGH = 10_000  # samples from which mean and standard deviation are estimated
FAR = 100.0  # distance of the mean from the origin, in standard deviations, above which to centre

Weights: TypeAlias = tuple[FloatArray, FloatArray]
"""Weights w and thresholds."""


def sample_rows(total: int, n_features: int) -> int:
    """Return the size of the subsample for `total` samples."""
    largest = SAMPLE_BYTES // (8 * max(1, n_features))
    return max(few_rows(n_features), min(total // SHARE, largest))


def draw_sample(source: Source, number: int, seed: int) -> Sampled:
    """Draw `number` samples uniformly without replacement from all parts together."""
    sizes = np.asarray(source.sizes, dtype=np.intp)
    rng = np.random.default_rng(seed)
    quota = _hypergeometric(rng, sizes, number)
    pieces = source.run(
        draw,
        [(int(m), int(q), (seed, k)) for k, (m, q) in enumerate(zip(sizes, quota, strict=True))],
    )
    columns = [
        np.concatenate([getattr(piece, name) for piece in pieces])
        for name in ("rows", "X", "y", "weight")
    ]
    return Sampled(*columns)


def _hypergeometric(rng: np.random.Generator, sizes: IntArray, number: int) -> IntArray:
    """Draw the number of samples per part from the multivariate hypergeometric distribution.

    NumPy's own function is limited to 1e9 samples.
    """
    left, after = number, int(sizes.sum())
    quota = np.zeros(len(sizes), dtype=np.intp)
    for k, size in enumerate(sizes):
        after -= int(size)
        if left and size:
            quota[k] = rng.hypergeometric(int(size), after, left) if after else left
        left -= int(quota[k])
    return quota


def centre_of(X: FloatArray, problem: LinearProblem) -> FloatArray | None:
    """Return the mean of data far from the origin, to subtract; None if centring is not needed.

    The rounding errors of products with w grow with the distance of the mean from the origin. A
    translation changes only the thresholds; a problem without thresholds cannot be centred.
    """
    if not problem.n_thresholds or not len(X):
        return None
    some = X[:: 1 + len(X) // ENOUGH]
    mean = some.mean(axis=0)
    deviation = float(np.sqrt(np.sum(np.var(some, axis=0))))
    return mean if float(np.linalg.norm(mean)) > FAR * deviation else None


def start_from(
    sample: Sampled, problem: LinearProblem, total: int, given: Weights | None, seed: int
) -> Base:
    """Return the solution of a subsample, or a given model, with a zone around it.

    A given model is assumed to be as close to the optimum as the solution of one sample in SHARE.
    """
    r, n = sample.X.shape
    scaled = replace(problem, cap=problem.cap * total / r)
    w, t = given if given is not None else _estimate(sample, scaled, seed)
    drawn = r if given is None else max(r, total // SHARE)
    size = ZONE * total * float(np.sqrt((n + problem.n_thresholds) / drawn))
    limits = _limits(_with_both_classes(scaled, sample), scaled, w, t, size / total)
    return Base(w, t, limits, size)


def _estimate(sample: Sampled, problem: LinearProblem, seed: int) -> Weights:
    """Solve a subsample approximately.

    If the solution is w = 0, which gives all samples of a class the same slack, the solution of a
    problem with larger C or smaller D is a better start.
    """
    m, n = sample.X.shape
    Z, E, q = sample.y[:, None] * sample.X, problem.columns(sample.y), np.full(m, problem.target)
    w, t = np.zeros(n), np.zeros(problem.n_thresholds)
    softer = 0.25 if problem.kind == "hull" else 4.0
    for power in range(SOFTER):
        weight = sample.weight * softer**power
        lifted = _with_both_classes(problem, replace(sample, weight=weight))
        D = problem.cap * lifted.weight
        estimate = BoxQP(Z, E, problem.sums(np.zeros(2)), q, D, np.zeros(n))
        found = solve_nested(estimate, few=few_rows(n), loose=True, seed=seed)
        w, t = found.w, found.t
        if not estimate.vanishes(w):
            break
    return w, t


def _with_both_classes(problem: LinearProblem, sample: Sampled) -> Sampled:
    """Increase the caps of each class, if needed, so that its subsample can reach a sum of one."""
    if problem.kind != "hull":
        return sample
    weight = sample.weight.copy()
    for label in (1.0, -1.0):
        mine = sample.y == label
        mass = problem.cap * float(weight[mine].sum())
        if mass <= 0:
            raise InfeasibleSums(f"the sample has no row of class {label:+g}")
        if mass < 1.05:
            weight[mine] *= 1.05 / mass
    return replace(sample, weight=weight)


def _limits(
    sample: Sampled, problem: LinearProblem, w: FloatArray, t: FloatArray, share: float
) -> Limits:
    """Return the zone around the thresholds that contains the given share of the subsample.

    For reduced hulls the limits are found by rank in each class, so that the multipliers in the
    zone can have the required sums.
    """
    slack = problem.plane(w, t).slack(sample.X @ w, sample.y)
    if problem.kind != "hull":
        last = min(len(slack) - 1, int(share * len(slack)))
        half = float(np.partition(np.abs(slack), last)[last]) if share < 1 else np.inf
        return Limits((-half, -half), (half, half))
    pairs = [
        _rank_limits(slack, problem.cap * sample.weight, sample.y == c, share) for c in (1, -1)
    ]
    return Limits((pairs[0][0], pairs[1][0]), (pairs[0][1], pairs[1][1]))


def _rank_limits(
    slack: FloatArray, cap: FloatArray, mine: BoolArray, share: float
) -> tuple[float, float]:
    """Return the slacks (low, high) of a class between which its summed caps pass one.

    The caps are summed from the largest slack on: up to `high` they sum to 1 - half and up to `low`
    to 1 + half, where `half` is half the given share of the sum of all caps.
    """
    order = np.argsort(-slack[mine], kind="stable")
    sorted_slack, summed = slack[mine][order], np.cumsum(cap[mine][order])
    half = 0.5 * share * float(summed[-1])
    first, middle, last = np.searchsorted(summed, (1.0 - half, 1.0, 1.0 + half))
    spread = 2 + 2 * int(np.sqrt(middle))  # sampling error of a rank, for small classes
    first, last = min(first, middle - spread), max(last, middle + spread)
    high = float(sorted_slack[first]) if first > 0 else np.inf
    low = float(sorted_slack[last]) if last < len(summed) else -np.inf
    return low, high
