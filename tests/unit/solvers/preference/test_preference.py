"""Preference machines: sums over pairs, both problems, invariances, hard cases."""

from __future__ import annotations

import itertools
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.kernels import Kernel, Rows
from widemargin.problems.preference import preference_problem
from widemargin.problems.preference.bounds import dual_terms
from widemargin.problems.preference.pair_sums import DualPoint, Listed
from widemargin.solvers.base import Budget
from widemargin.solvers.preference import solve
from widemargin.solvers.preference.kernel import KernelProducts, pivoted_basis

LOSSES = ["hinge", "squared_hinge"]


def pairs_of(problem):
    """All comparable pairs of a problem, upper row first, and their weights."""
    every = itertools.product(range(problem.n_rows), repeat=2)
    codes, group, weight = problem.codes, problem.group, problem.weight
    found = [(i, j) for i, j in every if codes[i] > codes[j] and group[i] == group[j]]
    upper, lower = np.array(found, dtype=int).reshape(-1, 2).T
    return upper, lower, weight[upper] * weight[lower]


def by_hand(problem, f, a):
    """Coefficients, dual value without norm and loss, summed over the pairs one by one."""
    upper, lower, weight = pairs_of(problem)
    slack = np.maximum(1.0 - (f[upper] - f[lower]), 0.0)
    beta = np.bincount(upper, a, len(f)) - np.bincount(lower, a, len(f))
    if problem.squared:
        own = 0.25 * float((a**2 / (problem.C * np.maximum(weight, 1e-300))).sum())
        return beta, float(a.sum()) - own, problem.C * float(weight @ slack**2)
    return beta, float(a.sum()), problem.C * float(weight @ slack)


def some_problem(seed, loss="hinge", n=30, n_ranks=4, n_groups=1, C=0.7):
    """Random ranks, queries and whole or broken weights; utilities with ties."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_ranks, n)
    codes[:2] = 0, 1
    group = rng.integers(0, n_groups, n)
    group[:2] = 0
    weight = rng.choice([0.0, 1.0, 2.0], n) if seed % 2 else rng.random(n) + 0.1
    weight[:2] = 1.0
    problem = preference_problem(codes, C=C, loss=loss, group=group, weight=weight)
    return problem, np.round(2.0 * rng.standard_normal(n), 1 if seed % 3 else 8)


def ranks_of(X, noise=0.5, n_ranks=5, seed=0):
    """Ranks of a noisy linear utility, all of them equally frequent."""
    rng = np.random.default_rng(seed)
    utility = X @ np.linspace(1.0, -1.0, X.shape[1]) + noise * rng.standard_normal(X.shape[0])
    return np.searchsorted(np.quantile(utility, np.arange(1, n_ranks) / n_ranks), utility)


def data(n=60, d=4, seed=0, **options):
    X = np.random.default_rng(seed).standard_normal((n, d))
    return X, ranks_of(X, seed=seed, **options)


def solved(problem, operand, tol=1e-9, budget=None, **options):
    """A solution that must be proven."""
    result = solve(problem, operand, tol=tol, budget=budget or Budget(1000), **options)
    assert result.status == "converged"
    assert problem.certificate(result, operand, tol=tol).converged
    return result


def differences(f):
    """Utilities up to the constant that the problem does not see."""
    return f - f.mean()


# --- the sums ---------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.sampled_from([2, 5, 8, 9, 30]), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_an_evaluation_sums_over_the_pairs(seed, n_ranks, n_groups):
    for loss in LOSSES:
        problem, f = some_problem(seed, loss, n_ranks=n_ranks, n_groups=n_groups)
        upper, lower, weight = pairs_of(problem)
        assert problem.n_pairs == pytest.approx(float(weight.sum()))
        z = 1.0 - (f[upper] - f[lower])
        for width in (1.0, 0.3, 0.0):
            share = np.clip(z / width, 0, 1) if width else (z > 1e-12).astype(float)
            a = problem.C * weight * (2.0 * np.maximum(z, 0.0) if problem.squared else share)
            if not width and np.any(np.abs(z) < 1e-9):
                continue  # a step has no value at the step
            found = problem.evaluate(f, width)
            beta, total, lost = by_hand(problem, f, a)
            np.testing.assert_allclose(found.beta, beta, atol=1e-10)
            assert found.total == pytest.approx(total, abs=1e-9)
            assert found.loss == pytest.approx(lost, abs=1e-9)
            smooth = np.where(z > width, z - 0.5 * width, 0.5 * z**2 / (width or 1.0))
            smooth = z**2 if problem.squared else smooth
            expected = problem.C * float(weight @ np.where(z > 0, smooth, 0.0))
            assert found.smoothed == pytest.approx(expected, abs=1e-9)


@given(st.integers(0, 10_000), st.sampled_from([3, 20]), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_a_listed_dual_point_sums_over_the_pairs(seed, n_ranks, n_groups):
    problem, f = some_problem(seed, n_ranks=n_ranks, n_groups=n_groups)
    upper, lower, weight = pairs_of(problem)
    width = 0.437
    z = 1.0 - (f[upper] - f[lower])
    near = (z > -width) & (z <= width)
    rows = problem.sort(f).pairs_near_kink(width, len(z) + 1)
    assert set(zip(*rows, strict=True)) == set(zip(upper[near], lower[near], strict=True))
    values = np.random.default_rng(seed).random(len(rows[0]))
    values *= problem.C * problem.weight[rows[0]] * problem.weight[rows[1]]
    a = np.where(z > width, problem.C * weight, 0.0)
    place = {pair: k for k, pair in enumerate(zip(upper, lower, strict=True))}
    for i, j, value in zip(*rows, values, strict=True):
        a[place[i, j]] = value
    found = dual_terms(problem, DualPoint(f, width, Listed(*rows, values)))
    beta, total, _ = by_hand(problem, f, a)
    np.testing.assert_allclose(found.beta.hi, beta, atol=1e-10)
    assert float(found.gain.hi) == pytest.approx(total)
    if near.sum() > 1:
        assert problem.sort(f).pairs_near_kink(width, int(near.sum()) - 1) is None


@pytest.mark.parametrize("n_ranks", [4, 25])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(4))
def test_the_curvature_is_the_laplacian_of_the_curved_pairs(seed, loss, n_ranks):
    problem, f = some_problem(seed, loss, n_ranks=n_ranks, n_groups=2)
    f = f + 1e-3 * np.random.default_rng(seed).random(len(f))  # no pair just at an edge
    upper, lower, weight = pairs_of(problem)
    z, width = 1.0 - (f[upper] - f[lower]), 0.6
    curved = (z > 0) & ((z <= width) | problem.squared)
    scale = problem.C * weight * curved * (2.0 if problem.squared else 1.0 / width)
    ends = np.eye(len(f))[upper] - np.eye(len(f))[lower]
    expected = ends.T @ (scale[:, None] * ends)
    features = np.random.default_rng(seed).standard_normal((len(f), 3))
    curvature = problem.evaluate(f, width).curvature(width)
    found, along = curvature.gram(features), curvature.times(features[:, 0])
    np.testing.assert_allclose(found, features.T @ expected @ features, atol=1e-11)
    np.testing.assert_allclose(along, expected @ features[:, 0], atol=1e-11)
    assert np.abs(along).max() > 0


def test_counts_of_many_pairs_are_exact():
    """4e9 pairs: beyond 32 bits, and a float32 sum would be off."""
    n = 90_001
    problem = preference_problem(np.arange(n), C=1.0)
    assert problem.n_pairs == n * (n - 1) // 2
    assert np.array_equal(problem.evaluate(np.zeros(n), 1.0).beta, 2.0 * np.arange(n) - (n - 1))


def test_every_dual_point_is_below_every_primal_point():
    X, codes = data()
    K = X @ X.T
    rng = np.random.default_rng(1)
    for loss in LOSSES:
        problem = preference_problem(codes, C=0.05, loss=loss)
        for _ in range(10):
            w, point = rng.standard_normal(4), DualPoint(rng.standard_normal(60), rng.random())
            terms = dual_terms(problem, point)
            primal = problem.primal(X @ w, 0.5 * float(w @ w))
            assert problem.dual(terms, K @ terms.beta.hi) <= primal


# --- the machines -----------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e6])
def test_linear_and_kernel_machines_have_the_same_optimum(loss, C):
    X, codes = data()
    problem = preference_problem(codes, C=C, loss=loss)
    rows = Rows(Kernel("linear"), X)
    linear, kernel = (solved(problem, x) for x in (X, rows))
    assert problem.certificate(kernel, rows, tol=1e-9).primal == pytest.approx(
        problem.certificate(linear, X, tol=1e-9).primal, rel=1e-8
    )
    np.testing.assert_allclose(differences(kernel.f), differences(linear.f), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_both_methods_have_the_same_optimum(loss):
    X, codes = data()
    problem = preference_problem(codes, C=0.1, loss=loss)
    features, rows = (solved(problem, X, method=method) for method in ("features", "rows"))
    np.testing.assert_allclose(rows.coef, features.coef, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["csr", "float32", "csr float32"])
def test_sparse_and_narrow_data_give_the_model_of_dense_ones(loss, kind):
    X, codes = data()
    X = np.where(X > 0.3, np.round(X, 2), 0.0).astype(np.float32).astype(np.float64)
    other = X.astype(np.float32) if "float32" in kind else X
    other = sp.csr_matrix(other) if "csr" in kind else other
    problem = preference_problem(codes, C=0.1, loss=loss)
    found, expected = solved(problem, other), solved(problem, X)
    np.testing.assert_allclose(found.coef, expected.coef, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n", [300, 2100])
def test_more_features_than_a_matrix_would_bear(loss, n):
    """Few rows: coordinates in their span. Many: conjugate gradients on sparse rows."""
    X = sp.random_array((n, 700), density=0.02, random_state=np.random.default_rng(0), format="csr")
    X.data[:] = np.round(X.data, 2)
    codes = ranks_of(X, noise=0.2)
    problem = preference_problem(codes, C=10.0 / n, loss=loss)
    result = solved(problem, X, tol=1e-5)
    assert result.coef.shape == (700,)
    np.testing.assert_allclose(result.f, X @ result.coef, atol=1e-9)
    rows = Rows(Kernel("linear"), X)
    expected = problem.certificate(solved(problem, rows, tol=1e-5), rows, tol=1e-5)
    certificate = problem.certificate(result, X, tol=1e-5)
    assert certificate.primal == pytest.approx(expected.primal, rel=2e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("queries", ["none", "few", "many"])
def test_a_sample_of_the_rows_steers_and_does_not_decide(loss, queries):
    """Enough rows for the curvature to come from a sample: the gap is that of all rows."""
    n = 20_000
    X, codes = data(n, 3)
    group = np.arange(n) % {"none": 1, "few": 5, "many": 4000}[queries]
    problem = preference_problem(codes, C=1.0 / n, loss=loss, group=group)
    result = solved(problem, X, tol=1e-7)
    start = solved(problem, X, tol=1e-7, start=replace(result, coef=result.coef + 0.1))
    np.testing.assert_allclose(start.coef, result.coef, rtol=1e-2, atol=1e-3)
    assert problem.certificate(start, X, tol=1).primal == pytest.approx(
        problem.certificate(result, X, tol=1).primal, rel=2e-7
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_a_kernel_matrix_beyond_the_memory_is_never_held(loss, monkeypatch):
    X, codes = data(700, 3)
    problem, kernel = preference_problem(codes, C=0.01, loss=loss), Kernel("rbf", gamma=1.0)
    held = solved(problem, Rows(kernel, X), tol=1e-5)

    def refuse(*_):
        raise AssertionError("the matrix does not fit")

    monkeypatch.setattr(Rows, "fill_symmetric", refuse)
    result = solved(problem, Rows(kernel, X), tol=1e-5, budget=Budget(1000, cache_bytes=1e6))
    bounds = [problem.certificate(r, Rows(kernel, X), tol=1e-5) for r in (result, held)]
    assert bounds[0].primal == pytest.approx(bounds[1].primal, rel=2e-5)
    assert bounds[0].kernel_evaluations > bounds[1].kernel_evaluations


@pytest.mark.parametrize("loss", LOSSES)
def test_a_matrix_in_float32_steers_and_float64_certifies(loss, monkeypatch):
    X, codes = data(400, 3)
    problem, kernel = preference_problem(codes, C=1.0, loss=loss), Kernel("rbf", gamma=2.0)
    rows = Rows(kernel, X)
    expected = problem.certificate(solved(problem, rows, tol=1e-6), rows, tol=1e-6)
    monkeypatch.setattr("widemargin.solvers.preference.kernel.SMALL_BYTES", 0.0)
    assert KernelProducts(Rows(kernel, X), 1e9).dtype == np.float32
    result = solved(problem, Rows(kernel, X), tol=1e-6)
    K = kernel(X, X)
    np.testing.assert_allclose(result.f, K @ result.coef, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(result.image, K @ result.beta, atol=1e-6)
    certificate = problem.certificate(result, rows, tol=1e-6)
    assert certificate.primal == pytest.approx(expected.primal, rel=2e-6)


def test_a_start_at_the_optimum_takes_no_step():
    X, codes = data()
    problem = preference_problem(codes, C=0.1, loss="squared_hinge")
    first = solved(problem, X, tol=1e-6)
    again = solved(problem, X, tol=1e-6, start=first)
    assert again.n_iter == 1
    kernel = Kernel("rbf", gamma=0.5)
    first = solved(problem, Rows(kernel, X), tol=1e-6)
    again = solved(problem, Rows(kernel, X), tol=1e-6, start=first)
    assert again.n_iter == 1


def test_the_basis_spans_what_it_says():
    X = np.random.default_rng(0).standard_normal((200, 3))
    rows = Rows(Kernel("poly", degree=2, coef0=1.0), X)
    basis = pivoted_basis(KernelProducts(rows, 1e9), 200)
    assert basis.spans
    assert basis.G.shape[1] == 10  # monomials of degree up to two in three variables
    K = rows.block(np.arange(200), rows, np.arange(200))
    np.testing.assert_allclose(basis.G @ basis.G.T, K, atol=1e-9)
    v = np.arange(10.0)
    np.testing.assert_allclose(K @ basis.coefficients(v), basis.G @ v, atol=1e-8)
    few = pivoted_basis(KernelProducts(rows, 1e9), 4)
    assert few.G.shape[1] == 4
    assert not few.spans


def test_no_memory_grows_like_the_pairs():
    n = 20_000
    X, codes = data(n, 5)
    problem = preference_problem(codes, C=1.0 / n, group=np.zeros(n))
    solve(problem, X, tol=1e-3, budget=Budget(100))
    tracemalloc.start()
    try:
        solve(problem, X, tol=1e-3, budget=Budget(100))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * 8 * n  # a hundred numbers a row; the pairs would be 8,000 a row


# --- invariances ------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
class TestInvariances:
    kernel = Kernel("rbf", gamma=0.5)

    def f(self, X, codes, loss, kernel=None, C=0.3, **options):
        problem = preference_problem(codes, C=C, loss=loss, **options)
        operand = X if kernel is None else Rows(kernel, X)
        return differences(solved(problem, operand, tol=1e-11).f)

    def test_an_increasing_map_of_the_ranks_changes_nothing(self, loss):
        X, codes = data()
        mapped = np.array([-7, 1, 3, 700, 701])[codes]
        np.testing.assert_array_equal(self.f(X, mapped, loss), self.f(X, codes, loss))

    def test_reversed_ranks_reverse_the_utility(self, loss):
        X, codes = data()
        for kernel in (None, self.kernel):
            expected = -self.f(X, codes, loss, kernel)
            np.testing.assert_allclose(self.f(X, -codes, loss, kernel), expected, atol=1e-4)

    def test_the_order_of_rows_does_not_matter(self, loss):
        X, codes = data()
        group = np.arange(60) % 3
        mixed = np.random.default_rng(0).permutation(60)
        expected = self.f(X, codes, loss, group=group)[mixed]
        found = self.f(X[mixed], codes[mixed], loss, group=group[mixed])
        np.testing.assert_allclose(found, expected, atol=1e-4)

    def test_a_constant_in_the_kernel_changes_nothing(self, loss):
        X, codes = data()
        K = self.kernel(X, X)
        plain, lifted = (self.f(M, codes, loss, Kernel("precomputed")) for M in (K, K + 5.0))
        np.testing.assert_allclose(lifted, plain, atol=1e-4)

    def test_doubled_rows_at_a_quarter_of_the_cost(self, loss):
        X, codes = data()
        twice = self.f(np.vstack([X, X]), np.tile(codes, 2), loss, C=0.3 / 4)[:60]
        np.testing.assert_allclose(twice, self.f(X, codes, loss), atol=1e-4)

    def test_weights_mean_repetition(self, loss):
        X, codes = data()
        weight = np.random.default_rng(0).integers(0, 4, 60)
        rows = np.repeat(np.arange(60), weight)
        kept = np.flatnonzero(weight)
        problem = preference_problem(codes, C=0.1, loss=loss, weight=weight.astype(float))
        repeated = preference_problem(codes[rows], C=0.1, loss=loss)
        assert problem.n_pairs == repeated.n_pairs
        one, other = solved(problem, X, tol=1e-11), solved(repeated, X[rows], tol=1e-11)
        np.testing.assert_allclose(X[kept] @ one.coef, X[kept] @ other.coef, atol=1e-4)

    def test_a_constant_utility_in_a_query_is_not_seen(self, loss):
        X, codes = data()
        group = np.arange(60) % 3
        offset = np.hstack([X, np.eye(3)[group]])
        found = solved(preference_problem(codes, C=0.3, loss=loss, group=group), offset, tol=1e-11)
        np.testing.assert_allclose(found.coef[4:], 0.0, atol=1e-5)


# --- hard cases -------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_all_ranks_distinct(loss):
    X = np.random.default_rng(0).standard_normal((3000, 3))
    problem = preference_problem(np.argsort(np.argsort(X @ [1, 2, 3])), C=1e-6, loss=loss)
    result = solved(problem, X, tol=1e-6)
    assert result.coef @ [1, 2, 3] > 0.99 * np.linalg.norm(result.coef) * np.sqrt(14)


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_that_cannot_be_told_apart_lose_one_each(loss):
    X, codes = np.ones((6, 2)), np.array([0, 1, 2, 0, 1, 2])
    result = solved(preference_problem(codes, C=3.0, loss=loss), X)
    np.testing.assert_allclose(result.coef, 0.0, atol=1e-12)
    certificate = preference_problem(codes, C=3.0, loss=loss).certificate(result, X, tol=1)
    assert 36.0 <= certificate.primal <= 36.0 * (1 + 1e-14)


@pytest.mark.parametrize("kernel", [None, Kernel("rbf", gamma=0.5), Kernel("linear")])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_a_huge_cost_ends_with_an_honest_certificate(kernel, loss, noise):
    X, codes = data(100, 3, noise=noise)
    problem = preference_problem(codes, C=1e6, loss=loss)
    operand = X if kernel is None else Rows(kernel, X)
    result = solve(problem, operand, tol=1e-4, budget=Budget(300))
    certificate = problem.certificate(result, operand, tol=1e-4)
    assert certificate.primal == pytest.approx(problem.primal(result.f, result.penalty))
    assert certificate.dual <= certificate.primal * (1 + 1e-9)
    assert certificate.converged == (result.status == "converged")
    assert certificate.converged


@pytest.mark.parametrize("loss", LOSSES)
def test_where_conjugate_gradients_do_not_get_through_all_rows_span(loss):
    """More rows than are taken for a basis at first, and a cost that makes the system stiff."""
    X, codes = data(400, 3)
    problem = preference_problem(codes, C=1e6, loss=loss)
    result = solved(problem, Rows(Kernel("rbf", gamma=0.5), X), tol=1e-3)
    assert problem.primal(result.f, result.penalty) < problem.C * problem.n_pairs


@pytest.mark.parametrize("loss", LOSSES)
def test_an_indefinite_kernel_proves_nothing(loss):
    X, codes = data(80, 3)
    K = X @ X.T - 2.0 * np.eye(80)
    problem = preference_problem(codes, C=1.0, loss=loss)
    rows = Rows(Kernel("precomputed"), K)
    result = solve(problem, rows, tol=1e-3, budget=Budget(50))
    certificate = problem.certificate(result, rows, tol=1e-3)
    assert np.isfinite(result.f).all()
    assert certificate.dual == -np.inf  # what would be a bound is above the objective
    assert not certificate.converged


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kernel", [None, Kernel("rbf", gamma=0.5)])
def test_a_budget_that_runs_out_leaves_a_model_and_its_gap(loss, kernel):
    X, codes = data(400, 3)
    problem = preference_problem(codes, C=1.0, loss=loss)
    operand = X if kernel is None else Rows(kernel, X)
    result = solve(problem, operand, tol=1e-10, budget=Budget(2))
    certificate = problem.certificate(result, operand, tol=1e-10)
    assert result.status == "max_iter"
    assert result.n_iter == 2
    assert not certificate.converged
    assert certificate.primal == pytest.approx(problem.primal(result.f, result.penalty))
    assert certificate.dual <= certificate.primal

    calls = []

    def stop(steps, gap):
        calls.append((steps, gap))
        return len(calls) < 3

    stopped = solve(problem, operand, tol=1e-10, budget=Budget(99, stop))
    assert stopped.status == "stopped"
    assert [steps for steps, _ in calls] == [1, 2, 3]
    assert calls[-1][1] < calls[0][1]


def test_a_tolerance_beyond_the_arithmetic_is_not_claimed():
    X, codes = data(200, 3)
    problem = preference_problem(codes, C=100.0)
    result = solve(problem, X, tol=1e-18, budget=Budget(2000))
    certificate = problem.certificate(result, X, tol=1e-18)
    assert not certificate.converged
    assert 0 < certificate.rounding <= certificate.gap < 1e-9 * certificate.primal


def test_what_cannot_be_compared_is_said():
    with pytest.raises(ValueError, match="at least two ranks"):
        preference_problem(np.ones(4), C=1.0)
    with pytest.raises(ValueError, match=r"different ranks within one of 2 group"):
        preference_problem(np.array([0, 1]), C=1.0, group=np.array([0, 1]))
    with pytest.raises(ValueError, match="positive weight"):
        preference_problem(np.array([0, 1]), C=1.0, weight=np.array([1.0, 0.0]))
    with pytest.raises(ValueError, match="C must be positive, got -1"):
        preference_problem(np.array([0, 1]), C=-1.0)
    with pytest.raises(ValueError, match="loss must be"):
        preference_problem(np.array([0, 1]), C=1.0, loss="logistic")
    with pytest.raises(ValueError, match="weight has 3 entries for 2 rows"):
        preference_problem(np.array([0, 1]), C=1.0, weight=np.ones(3))
    problem = preference_problem(np.array([0, 1]), C=1.0)
    with pytest.raises(ValueError, match="data has 3 rows, the problem 2"):
        solve(problem, np.ones((3, 1)), tol=1e-3, budget=Budget(10))
