"""Balcázar et al. (2008): rounds of OptMargin and OptSoftMargin and their proved bounds.

The paper has no table of experiments. It proves bounds on the expected number of rounds, and
remarks that smaller subsamples are enough and that fewer samples matter than Lemma 4.2 allows for.
The algorithms run as printed, with subsamples of size 6 delta^2. Here delta is n + 2k - 1, which is
at most the k (n + 1) of the lemma, so a mean below the sharper bound is also below the published
one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.data import SEED, DataSet
from benchmarks.literature_items import Findings
from benchmarks.sampling import RUNS, different, repeated
from benchmarks.sampling_peers import crossed

ROWS = 20_000
QUICK_RUNS = 5
COLUMNS, REDUCTIONS = (2, 5, 10), (1, 3, 10)
EPSILON = 0.5  # half width of the hard tube, in units of y


def add_samples(found: Findings, quick: bool, say: Callable[[str], None]) -> None:
    """Add the bounds for hard margins, soft margins and tubes, and the remarks of the text."""
    runs = QUICK_RUNS if quick else RUNS
    small_samples: list[bool] = []
    few_rows: list[bool] = []
    for n in COLUMNS:
        for k in REDUCTIONS:
            data = crossed(ROWS, n, k)
            say(f"rounds: {data.name}")
            planes = add_rounds(found, data, k, runs)
            small_samples += same_planes(data, k, runs, planes[0])
            few_rows += [len(plane.multipliers) < k * (n + 1) for plane in planes if k > 1]
    what = "samples of 10 δ rows are enough: they end at the same plane"
    found.claim("section 4, remark", what, small_samples, "runs")
    what = "fewer rows than k (n + 1) have a multiplier (k > 1)"
    found.claim("section 4, remark", what, few_rows, "runs")
    say("rounds: hard tube")
    add_tube(found, ROWS, runs)


def add_rounds(found: Findings, data: DataSet, k: int, runs: int) -> list[Any]:
    """Add the mean number of rounds and the bound of Theorem 2.2 or 4.3."""
    rows, n = data.shape
    planes = repeated(data, k, runs)
    found.failures += different(data.name, planes)
    theorem, lemma = ("2.2", n + 1) if k == 1 else ("4.3", k * (n + 1))
    name = "OptMargin" if k == 1 else f"OptSoftMargin, k = {k}"
    sharper = planes[0].round_bound
    what = f"{name}, n = {n}, m = {rows:,}: rounds"
    if k > 1:
        what += f" (with δ = n + 2k - 1: ≤ {sharper:.0f})"
    bound = 6 * lemma * math.log(rows)
    found.bound(f"Theorem {theorem}", what, bound, [each.n_iter for each in planes])
    return planes


def same_planes(data: DataSet, k: int, runs: int, proved: object) -> list[bool]:
    """Return, per run with small subsamples, whether its hyperplane is that of the proved plan."""
    from widemargin.solvers.literature.random_sampling import practical_plan

    found = repeated(data, k, runs, practical_plan(data.shape[1], k))
    return [not different(data.name, [proved, each]) for each in found]


def add_tube(found: Findings, rows: int, runs: int) -> None:
    """Add Theorem 5.1: a hard tube is a hard margin between samples with y shifted by +-epsilon."""
    for n in (2, 5):
        rng = np.random.default_rng(SEED)
        X = rng.uniform(-1.0, 1.0, (rows, n))
        y = X @ rng.standard_normal(n) + rng.uniform(-0.4, 0.4, rows)  # inside the tube
        moved = [np.column_stack([X, y + shift]) for shift in (EPSILON, -EPSILON)]
        label = np.repeat([1.0, -1.0], rows)
        name = f"tube {rows:,} x {n}"
        data = DataSet(name, np.vstack(moved), label, C=1.0, gamma=1.0)
        planes = repeated(data, 1, runs)
        found.failures += different(name, planes)
        what = f"OptMargin for a hard tube, n = {n}, m = {rows:,}: rounds"
        bound = 6 * (n + 2) * math.log(rows)
        found.bound("Theorem 5.1", what, bound, [each.n_iter for each in planes])
