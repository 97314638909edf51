"""Random sampling: exact whatever the draws, within the proved rounds, weights drawn exactly."""

from __future__ import annotations

from itertools import pairwise

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chisquare

from widemargin.problems.linear_scan import LinearProblem
from widemargin.solvers.base import Budget
from widemargin.solvers.literature.random_sampling import (
    Plan,
    basis_size,
    practical_plan,
    proved_plan,
    solve,
)
from widemargin.solvers.literature.random_sampling import tasks as tasks
from widemargin.solvers.literature.random_sampling.run import Run
from widemargin.solvers.literature.random_sampling.state import Sample, solve_sample


class Stretch:
    """Rows in memory as a part, in blocks of a few rows."""

    def __init__(self, X, y, weight, block):
        self.X, self.y, self.weight, self.block = X, y, weight, block

    def blocks(self):
        for first in range(0, len(self.y), self.block):
            here = slice(first, first + self.block)
            yield first, self.X[here], self.y[here], self.weight[here]

    def take(self, rows):
        return self.X[rows], self.y[rows], self.weight[rows]


class InParts:
    """The plainest source: tasks run here, one part after the other."""

    def __init__(self, X, y, weight=None, cuts=(), block=1000):
        weight = np.ones(len(y)) if weight is None else weight
        edges = [0, *cuts, len(y)]
        self.parts = [Stretch(X[a:b], y[a:b], weight[a:b], block) for a, b in pairwise(edges)]

    @property
    def sizes(self):
        return [len(part.y) for part in self.parts]

    @property
    def n_features(self):
        return self.parts[0].X.shape[1]

    def run(self, task, arguments):
        return [task(part, *each) for part, each in zip(self.parts, arguments, strict=True)]


def by_weights(source, k=1, *, plan=proved_plan, rounds=10_000, monitor=None, seed=0):
    """OptMargin and OptSoftMargin, as printed unless there is another plan."""
    plan = plan(source.n_features, k) if callable(plan) else plan
    budget = Budget(rounds, monitor)
    return solve(
        LinearProblem("hull", 1.0 / k),
        source,
        budget=budget,
        method="weights",
        seed=seed,
        plan=plan,
    )


def growing(source, k=1, *, first=2000, seed=0):
    budget = Budget(500)
    form = LinearProblem("hull", 1.0 / k)
    return solve(form, source, budget=budget, method="growing", seed=seed, first=first)


def separable(m, n, gap=0.1, seed=0):
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal(n)
    normal /= np.linalg.norm(normal)
    X = rng.uniform(-1, 1, (m, n))
    y = np.sign(X @ normal)
    return X + np.outer(gap * y, normal) + 3.0, y


def touching(m, n, k, seed=0):
    """Rows with a gap, of which (k - 1) // 2 of each class have crossed over to its far side.

    The mean of any k rows of a class is on its own side: separable at k, but not at k / 2.
    """
    X, y = separable(m, n, 0.3, seed)
    normal = np.linalg.lstsq(X - X.mean(axis=0), y, rcond=None)[0]
    crossed = y.copy()
    for label in (1.0, -1.0):
        rows = np.flatnonzero(y == label)
        nearest = rows[np.argsort(label * (X[rows] @ normal))[: (k - 1) // 2]]
        crossed[nearest] = -label
    return X, crossed


def assert_optimal(X, y, k, found, tol=1e-9):
    """Two bounds that need no solver: a point of each hull, and a direction between them."""
    assert not found.support_part.any()  # one part: its rows are all rows
    s, rows = found.multipliers, found.support_row
    w = (s * y[rows]) @ X[rows]
    np.testing.assert_allclose([s[y[rows] > 0].sum(), s[y[rows] < 0].sum()], 1.0, rtol=1e-12)
    assert s.max() <= 1.0 / k + 1e-15
    assert s.min() > 0
    np.testing.assert_allclose(w, found.coef, atol=tol * np.abs(w).max())
    g = X @ found.coef
    near, far = np.sort(g[y > 0])[:k].mean(), np.sort(g[y < 0])[-k:].mean()
    assert (near - far) / np.linalg.norm(w) == pytest.approx(np.linalg.norm(w), rel=tol)


@pytest.mark.parametrize("n", [2, 5, 10])
@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize("plan", [proved_plan, practical_plan])
def test_the_last_sample_has_the_optimum_of_all_rows(n, k, plan) -> None:
    X, y = touching(20_000, n, k)
    found = by_weights(InParts(X, y), k, plan=plan, seed=n)
    assert found.status == "converged"
    assert found.n_iter > 1
    assert_optimal(X, y, k, found)


@pytest.mark.parametrize("k", [1, 4])
def test_an_independent_solver_agrees(k) -> None:
    X, y = touching(300, 3, k)
    m, n = X.shape
    # P2 over (w, theta_plus, theta_minus, xi): w.x >= theta_plus - xi, w.x <= theta_minus + xi
    P = sp.diags([1.0] * n + [0.0] * (m + 2)).tocsc()
    q = np.concatenate([np.zeros(n), [-1.0, 1.0], np.full(m, 1.0 / k)])
    thresholds = np.stack([y > 0, -1.0 * (y < 0)], axis=1).astype(float)
    margins = sp.hstack([-X * y[:, None], thresholds, -sp.eye(m)])
    signs = sp.hstack([sp.csc_matrix((m, n + 2)), -sp.eye(m)])
    A = sp.vstack([margins, signs]).tocsc()
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    cones = [clarabel.NonnegativeConeT(2 * m)]
    theirs = np.array(clarabel.DefaultSolver(P, q, A, np.zeros(2 * m), cones, settings).solve().x)
    plan = Plan(basis_size(n, k), 60, success_test=False)
    ours = by_weights(InParts(X, y, cuts=(100,)), k, plan=plan)
    np.testing.assert_allclose(ours.coef, theirs[:n], atol=1e-6)
    for theta, (low, high) in zip(theirs[n : n + 2], ours.intervals, strict=True):
        assert low - 1e-6 <= theta <= high + 1e-6


@pytest.mark.parametrize(("n", "k"), [(2, 1), (5, 1), (10, 1), (2, 3), (5, 3), (2, 10)])
def test_the_mean_number_of_rounds_keeps_the_proved_bound(n, k) -> None:
    X, y = touching(50_000, n, k)
    source = InParts(X, y, block=50_000)
    runs = [by_weights(source, k, seed=seed) for seed in range(6)]
    assert {run.status for run in runs} == {"converged"}
    delta = basis_size(n, k)
    assert runs[0].history[0]["draws"] == 6 * delta * delta < len(y)
    assert runs[0].round_bound == pytest.approx(6 * delta * np.log(len(y)))
    assert 1 < np.mean([run.n_iter for run in runs]) <= runs[0].round_bound


def test_seeds_parts_and_orders_do_not_matter() -> None:
    X, y = touching(8_000, 4, 3)
    shuffled = np.random.default_rng(1).permutation(len(y))
    by_class = np.argsort(y, kind="stable")
    sources = [
        InParts(X, y),
        InParts(X, y, cuts=(10, 10, 5_000), block=77),  # one part is empty
        InParts(X[shuffled], y[shuffled], cuts=(4_000,)),
        InParts(X[by_class], y[by_class], cuts=(2_000, 7_900)),
    ]
    fits = [by_weights(s, 3, seed=i, plan=practical_plan) for i, s in enumerate(sources)]
    fits += [growing(s, 3, first=200, seed=i) for i, s in enumerate(sources)]
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.coef, fits[0].coef, rtol=0, atol=1e-10)
        np.testing.assert_allclose(fit.thresholds, fits[0].thresholds, rtol=0, atol=1e-10)


def test_every_row_three_times_is_three_times_k() -> None:
    X, y = touching(4_000, 3, 2)
    once = by_weights(InParts(X, y), 2, plan=practical_plan)
    plan = practical_plan(3, 6)
    copies = by_weights(InParts(np.tile(X, (3, 1)), np.tile(y, 3), cuts=(5_000,)), 6, plan=plan)
    weights = by_weights(InParts(X, y, np.full(len(y), 3.0)), 6, plan=plan)
    for other in (copies, weights):
        np.testing.assert_allclose(other.coef, once.coef, atol=1e-10)
        np.testing.assert_allclose(other.thresholds, once.thresholds, atol=1e-10)


def test_rows_of_weight_zero_are_not_there() -> None:
    X, y = separable(3_000, 3)
    junk = np.random.default_rng(5).normal(size=(500, 3)) + 3.0
    both_X, both_y = np.vstack([junk, X]), np.concatenate([np.tile([1.0, -1.0], 250), y])
    weight = np.repeat([0.0, 1.0], [500, len(y)])
    source = InParts(both_X, both_y, weight, cuts=(400, 1_000))
    expected = by_weights(InParts(X, y)).coef
    np.testing.assert_allclose(by_weights(source).coef, expected, atol=1e-10)
    np.testing.assert_allclose(growing(source, first=100).coef, expected, atol=1e-10)


def test_a_sample_merges_copies() -> None:
    X, y = separable(10, 2)
    fetched = [(np.arange(5), X[:5], y[:5], np.ones(5)), (np.arange(5), X[5:], y[5:], np.ones(5))]
    sample = Sample.of(fetched, 10)
    assert len(sample.and_also(fetched).y) == 10
    again = sample.and_also([tuple(column[:0] for column in fetched[0]), fetched[1]])
    np.testing.assert_array_equal(again.X, sample.X)


def test_a_row_between_the_ends_of_the_threshold_is_no_violator() -> None:
    # The nearest point of the positives is the mean of 1 and 2: theta may be anything in [2, 3].
    X = np.array([[1.0], [2.0], [3.0], [-1.0], [-2.0], [-4.0]])
    y = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    sample = Sample.of([(np.arange(6), X, y, np.ones(6))], 6)
    optimum = solve_sample(sample, 0.5, 1e-10)
    assert optimum.plane.coef[0] == pytest.approx(3.0)
    np.testing.assert_allclose(optimum.thresholds, [6.0, -6.0])

    def violators(x):
        part = Stretch(np.array([[x]]), np.ones(1), np.ones(1), 1)
        return tasks.scan(part, optimum.plane, 0.5, np.empty(0, np.intp)).violators

    assert [violators(x) for x in (2.5, 2.0, 1.9)] == [0, 0, 1]
    found = by_weights(InParts(X, y), 2)
    np.testing.assert_allclose(found.intervals, [[6.0, 9.0], [-12.0, -6.0]])
    np.testing.assert_allclose(found.thresholds, [7.5, -9.0])


def _drawn(exponents, weights):
    """Draw one row at a time; return how often each came and the p-value for the weights."""
    m = len(exponents)
    part = Stretch(np.arange(m, dtype=float)[:, None], np.ones(m), np.ones(m), 100)
    draws = [tasks.draw(part, 1, [7, i], exponents)[0][0] for i in range(4_000)]
    counts = np.bincount(draws, minlength=m)
    return chisquare(counts, counts.sum() * weights / weights.sum()).pvalue


def test_rows_of_a_part_are_drawn_by_weight() -> None:
    exponents = np.array([0, 3, 1, 0, 5, 2, 3, 3, 0, 4], dtype=np.uint16)
    assert _drawn(exponents, np.exp2(exponents)) > 1e-3
    assert _drawn(exponents, np.exp2(0.9 * exponents)) < 1e-3  # the test would notice


def test_parts_share_the_draws_by_weight() -> None:
    X, y = separable(900, 2)
    run = Run(InParts(X, y, cuts=(100, 600)), 1.0, Plan(3, 50), 0, 1e-10)
    run.exponents[0][:50] = 4
    run.exponents[2][:10] = 6
    run.histograms = [np.bincount(e) for e in run.exponents]
    counts = np.zeros((900,))
    for _ in range(400):
        run.plan = Plan(3, 1)
        sample = run.draw()
        first = np.array([0, 100, 600])[sample.part] + sample.row
        counts[first] += 1
    # A sample of one row is topped up by a row of the other class, drawn uniformly: count apart.
    heavy = counts[:50].sum() + counts[600:610].sum()
    share = (50 * 16 + 10 * 64) / (50 * 16 + 10 * 64 + 840)
    uniform = 60 / 900
    expected = 400 * (share + uniform)
    assert abs(heavy - expected) < 60


def test_exponents_and_their_histograms_agree() -> None:
    X, y = touching(3_000, 3, 3)
    source = InParts(X, y, cuts=(1_000,), block=300)
    run = Run(source, 3.0, Plan(8, 40, success_test=False), 0, 1e-10)
    for _ in range(6):
        sample = run.draw()
        found = run.scan(run.solve(sample), sample)
        run.double_weights()
        assert found.violators > 0
    for histogram, exponents in zip(run.histograms, run.exponents, strict=True):
        np.testing.assert_array_equal(
            tasks.added([histogram]), np.bincount(exponents, minlength=7)[:7]
        )


def test_weights_do_not_overflow() -> None:
    histogram = np.zeros(3_001, dtype=np.intp)
    histogram[[0, 2_999, 3_000]] = 10**6, 2, 1
    assert tasks.total_weight(histogram) == 10**6 + 2 * 2**2_999 + 2**3_000
    np.testing.assert_array_equal(tasks.shares(histogram)[-2:], [0.5, 0.5])


def test_bounds_enclose_the_distance_and_tighten() -> None:
    X, y = touching(20_000, 5, 3)
    found = by_weights(InParts(X, y), 3, plan=practical_plan)
    distance = np.linalg.norm(found.coef)
    lower = np.array([each["lower"] for each in found.history])
    upper = np.array([each["upper"] for each in found.history])
    assert (lower <= distance * (1 + 1e-12)).all()
    assert (upper >= distance * (1 - 1e-12)).all()
    assert (np.diff(lower) >= 0).all()
    assert (np.diff(upper) <= 0).all()
    assert upper[-1] - lower[-1] <= 1e-9 * distance


def test_a_budget_that_ends_leaves_a_plane_with_bounds() -> None:
    X, y = separable(20_000, 5)
    best = np.linalg.norm(by_weights(InParts(X, y)).coef)
    short = by_weights(InParts(X, y), rounds=3)
    stopped = by_weights(InParts(X, y), monitor=lambda rounds, gap: rounds < 4 and gap > 0)
    assert (short.status, short.n_iter) == ("max_iter", 3)
    assert (stopped.status, stopped.n_iter) == ("stopped", 4)
    assert short.history[-1]["lower"] <= best <= short.history[-1]["upper"]


def test_small_samples_double_when_rounds_run_out() -> None:
    X, y = separable(5_000, 5)
    plan = Plan(delta=2, sample_size=8, success_test=False, patience=5)
    found = by_weights(InParts(X, y), plan=plan)
    draws = [each["draws"] for each in found.history]
    assert draws[:11] == [8] * 5 + [16] * 5 + [32]
    assert_optimal(X, y, 1, found)


def test_no_fewer_rows_than_the_sample_are_solved_at_once() -> None:
    X, y = touching(150, 4, 3)
    found = by_weights(InParts(X, y, cuts=(60,)), 3)
    assert (found.n_iter, found.history[0]["rows"]) == (1, 150)


def test_a_rare_class_is_topped_up() -> None:
    X, y = separable(4_000, 3, gap=0.2)
    rare = np.concatenate([np.flatnonzero(y < 0), np.flatnonzero(y > 0)[:6]])
    X, y = X[rare], y[rare]
    for fit in (
        by_weights(InParts(X, y, cuts=(500,)), 5, plan=practical_plan),
        growing(InParts(X, y, cuts=(500,)), 5, first=50),
    ):
        g = X @ fit.coef
        distance = np.linalg.norm(fit.coef)
        assert np.sort(g[y > 0])[:5].mean() - np.sort(g[y < 0])[-5:].mean() == pytest.approx(
            distance**2, rel=1e-9
        )
    with pytest.raises(ValueError, match="k=7 must be at most 6"):
        by_weights(InParts(X, y, cuts=(500,)), 7, plan=practical_plan)
    with pytest.raises(ValueError, match="one class"):
        by_weights(InParts(X[y < 0], y[y < 0]))


def test_hulls_that_meet_are_not_separable() -> None:
    X, y = touching(3_000, 2, 6)
    source = InParts(X, y)
    for found in (by_weights(source), growing(source), by_weights(source, 2)):
        assert not found.separable
        assert not found.coef.any()


def test_float32_rows_have_their_own_exact_optimum() -> None:
    X, y = touching(20_000, 5, 3)
    single = X.astype(np.float32)
    fits = [
        by_weights(InParts(rows, y), 3, plan=practical_plan, seed=seed)
        for seed, rows in enumerate((single, single.astype(np.float64)))
    ]
    np.testing.assert_allclose(fits[0].coef, fits[1].coef, rtol=0, atol=1e-10)


def test_growing_samples_never_shrink_and_need_few_passes() -> None:
    X, y = separable(100_000, 10)
    found = growing(InParts(X, y, cuts=(30_000,), block=20_000), seed=2)
    g = X @ found.coef
    width = g[y > 0].min() - g[y < 0].max()
    assert width == pytest.approx(found.coef @ found.coef, rel=1e-9)
    assert found.passes <= 8
    assert (np.diff([each["rows"] for each in found.history]) > 0).all()
    assert found.history[0]["rows"] == 2_000


@pytest.mark.parametrize(("n", "k", "delta"), [(2, 1, 3), (10, 30, 69), (3, 3, 8), (3, 2.5, 8)])
def test_size_of_a_basis(n, k, delta) -> None:
    assert basis_size(n, k) == delta
