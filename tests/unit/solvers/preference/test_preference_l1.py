"""The l_1 preference machine: against the program over all pairs, its bound, hard cases."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from widemargin.kernels import Kernel, Rows
from widemargin.problems.preference import preference_problem
from widemargin.solvers.base import Budget
from widemargin.solvers.preference import l1 as preference_l1
from widemargin.solvers.preference import solve
from widemargin.solvers.preference.l1_models import minimise_quadratic, solve_program


def make(kind="", n=30, d=5, seed=0):
    """Noisy ranks of a utility of two features; with queries and weights on request."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    utility = X[:, 0] + 0.5 * X[:, 1] + 0.5 * rng.standard_normal(n)
    codes = np.searchsorted(np.quantile(utility, [0.3, 0.5, 0.8]), utility)
    if "distinct" in kind:
        codes = np.argsort(np.argsort(utility))
    group = rng.integers(0, 3, n) if "queries" in kind else np.zeros(n, int)
    weight = rng.choice([0.0, 0.5, 1.0, 3.0], n) if "weights" in kind else np.ones(n)
    return X, codes, group, weight


def all_pairs(problem):
    """Every comparable pair, upper row first, and the caps of their variables."""
    codes, group, weight = problem.codes, problem.group, problem.weight
    every = itertools.product(range(problem.n_rows), repeat=2)
    found = [(i, j) for i, j in every if codes[i] > codes[j] and group[i] == group[j]]
    upper, lower = np.array(found).T
    return upper, lower, problem.C * weight[upper] * weight[lower]


def reference(problem, X):
    """The optimum of the program with a row for each pair: w = p - m, slacks."""
    upper, lower, cap = all_pairs(problem)
    Z = X[upper] - X[lower]
    found = linprog(
        np.concatenate([np.ones(2 * X.shape[1]), cap]),
        A_ub=-np.hstack([Z, -Z, np.eye(len(cap))]),
        b_ub=-np.ones(len(cap)),
        method="highs",
    )
    assert found.status == 0
    return found.fun


def lower_bound(problem, X, result):
    return problem.certificate(result, X, tol=1.0).dual


def primal_by_hand(problem, X, w):
    upper, lower, cap = all_pairs(problem)
    slack = 1.0 - (X[upper] - X[lower]) @ w
    return np.abs(w).sum() + cap @ np.maximum(slack, 0.0)


@pytest.fixture
def without_programs(monkeypatch):
    """Leave everything to the descent: small problems would be one program from the start."""
    monkeypatch.setattr(preference_l1, "FEW_PAIRS", 0)
    monkeypatch.setattr(preference_l1, "PER_FEATURE", 1)


@pytest.mark.parametrize("C", [0.01, 0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize(
    "kind", ["", "queries", "weights", "queries, weights", "distinct", "distinct, queries"]
)
def test_equals_the_program_over_all_pairs(kind, C):
    X, codes, group, weight = make(kind)
    problem = preference_problem(codes, C=C, group=group, weight=weight, norm=1)
    result = solve(problem, X, tol=1e-8, budget=Budget(200))
    optimum = reference(problem, X)
    assert result.status == "converged"
    assert primal_by_hand(problem, X, result.coef) == pytest.approx(optimum, rel=1e-6)
    assert lower_bound(problem, X, result) == pytest.approx(optimum, rel=1e-6)


@pytest.mark.usefixtures("without_programs")
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("kind", ["", "queries, weights", "distinct"])
def test_the_descent_alone_equals_it(kind, C):
    X, codes, group, weight = make(kind, n=40)
    problem = preference_problem(codes, C=C, group=group, weight=weight, norm=1)
    result = solve(problem, X, tol=1e-6, budget=Budget(300))
    assert result.status == "converged"
    assert primal_by_hand(problem, X, result.coef) == pytest.approx(reference(problem, X), rel=2e-6)


@pytest.mark.parametrize("steps", [1, 2, 100])
def test_certificate_is_what_the_pairs_say(steps):
    X, codes, group, weight = make("queries, weights")
    problem = preference_problem(codes, C=0.1, group=group, weight=weight, norm=1)
    result = solve(problem, X, tol=1e-2, budget=Budget(steps))
    certificate = problem.certificate(result, X, tol=1e-2)
    upper, lower, cap = all_pairs(problem)
    point = result.point
    slack = 1.0 - (point.f[upper] - point.f[lower])
    values = cap * np.clip(slack / point.width, 0.0, 1.0)
    if point.listed is not None:
        values = np.where(slack > point.width, cap, 0.0)
        table = np.zeros((len(X), len(X)))
        table[upper, lower] = values
        table[point.listed.upper, point.listed.lower] = point.listed.values
        values = table[upper, lower]
    correlation = values @ (X[upper] - X[lower])
    dual = np.sum(values) / max(1.0, np.abs(correlation).max())
    assert certificate.dual == pytest.approx(dual, rel=1e-12)
    assert certificate.primal == pytest.approx(primal_by_hand(problem, X, result.coef), rel=1e-12)
    np.testing.assert_allclose(result.image, correlation, atol=1e-12)
    np.testing.assert_allclose(result.f, X @ result.coef, atol=1e-12)
    assert (
        certificate.dual <= reference(problem, X) * (1 + 1e-12) <= certificate.primal * (1 + 1e-9)
    )


def test_violation_vanishes_at_the_optimum_only():
    X, codes, *_ = make()
    problem = preference_problem(codes, C=0.1, norm=1)
    end = solve(problem, X, tol=1e-10, budget=Budget(200))
    assert problem.certificate(end, X, tol=1e-10).kkt_violation < 1e-8
    early = problem.certificate(solve(problem, X, tol=1e-10, budget=Budget(2)), X, tol=1e-10)
    assert early.kkt_violation > 1e-3
    assert not early.converged


def test_nothing_is_learned_below_a_critical_C():
    X, codes, *_ = make()
    upper, lower, _ = all_pairs(preference_problem(codes, C=1.0, norm=1))
    critical = 1.0 / np.abs((X[upper] - X[lower]).sum(axis=0)).max()
    below = preference_problem(codes, C=0.999 * critical, norm=1)
    result = solve(below, X, tol=1e-9, budget=Budget(100))
    assert not result.coef.any()
    assert lower_bound(below, X, result) == pytest.approx(below.C * below.n_pairs, rel=1e-12)
    above = preference_problem(codes, C=1.01 * critical, norm=1)
    assert np.count_nonzero(solve(above, X, tol=1e-9, budget=Budget(100)).coef) == 1


def test_irrelevant_features_have_no_weight():
    X, codes, *_ = make(n=400, d=40)
    problem = preference_problem(codes, C=1.0, norm=1)
    problem = preference_problem(codes, C=20.0 / problem.n_pairs, norm=1)
    w = solve(problem, X, tol=1e-6, budget=Budget(300)).coef
    assert (w[:2] > 0).all()
    assert np.count_nonzero(w) <= 10


def test_many_features_enter_when_they_are_needed(monkeypatch):
    X, codes, *_ = make(n=60, d=30)
    problem = preference_problem(codes, C=0.02, norm=1)
    whole = solve(problem, X, tol=1e-8, budget=Budget(300))
    monkeypatch.setattr(preference_l1, "FEW_FEATURES", 5)
    monkeypatch.setattr(preference_l1, "MOST_NEW", 2)
    part = solve(problem, X, tol=1e-8, budget=Budget(300))
    assert np.count_nonzero(whole.coef) > 5
    assert part.status == "converged"
    assert lower_bound(problem, X, part) == pytest.approx(lower_bound(problem, X, whole), rel=1e-7)


@pytest.mark.parametrize("convert", [sp.csr_matrix, sp.csr_array, np.asfortranarray])
def test_the_form_of_the_data_does_not_matter(convert):
    X, codes, *_ = make(n=60)
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    problem = preference_problem(codes, C=0.1, norm=1)
    dense = solve(problem, X, tol=1e-9, budget=Budget(200))
    other = solve(problem, convert(X), tol=1e-9, budget=Budget(200))
    np.testing.assert_allclose(other.coef, dense.coef, atol=1e-7)


def test_float32_data_are_summed_in_float64():
    X, codes, *_ = make(n=60)
    problem = preference_problem(codes, C=0.1, norm=1)
    single = X.astype(np.float32)
    result = solve(problem, single, tol=1e-9, budget=Budget(200))
    assert lower_bound(problem, single, result) == pytest.approx(
        reference(problem, single.astype(float)), rel=1e-8
    )


@pytest.mark.usefixtures("without_programs")
def test_many_pairs_at_one_kink():
    X, codes, *_ = make(n=80)
    X = np.round(X)
    problem = preference_problem(codes, C=1.0, norm=1)
    result = solve(problem, X, tol=1e-6, budget=Budget(300))
    assert result.status == "converged"
    assert lower_bound(problem, X, result) == pytest.approx(reference(problem, X), rel=2e-6)


def test_a_large_offset_and_a_constant_feature_change_nothing():
    X, codes, *_ = make(n=60)
    problem = preference_problem(codes, C=0.1, norm=1)
    plain = solve(problem, X, tol=1e-8, budget=Budget(200))
    moved = np.column_stack([X + 1e4, np.full(60, 7.0)])
    result = solve(problem, moved, tol=1e-8, budget=Budget(200))
    np.testing.assert_allclose(result.coef, np.append(plain.coef, 0.0), atol=1e-6)


def test_identical_rows_of_different_rank_lose_one_each():
    problem = preference_problem(np.array([0, 1, 2]), C=2.0, norm=1)
    result = solve(problem, np.ones((3, 2)), tol=1e-9, budget=Budget(50))
    assert result.status == "converged"
    assert not result.coef.any()
    certificate = problem.certificate(result, np.ones((3, 2)), tol=1e-9)
    assert 6.0 <= certificate.primal <= 6.0 * (1 + 1e-14)


def test_budget_and_monitor_end_the_run():
    X, codes, *_ = make()
    problem = preference_problem(codes, C=1.0, norm=1)
    short = solve(problem, X, tol=1e-12, budget=Budget(1))
    assert (short.status, short.n_iter) == ("max_iter", 1)
    assert not problem.certificate(short, X, tol=1e-12).converged
    gaps = []
    budget = Budget(99, lambda k, gap: gaps.append(gap) or k < 3)
    stopped = solve(problem, X, tol=0.0, budget=budget)
    assert (stopped.status, stopped.n_iter) == ("stopped", 3)
    assert gaps == sorted(gaps, reverse=True)


def test_a_tolerance_out_of_reach_ends_with_an_honest_gap():
    X, codes, *_ = make(n=60)
    problem = preference_problem(codes, C=1e6, norm=1)
    result = solve(problem, X, tol=0.0, budget=Budget(1000))
    certificate = problem.certificate(result, X, tol=0.0)
    assert result.status in ("converged", "stalled")
    assert abs(certificate.relative_gap) < 1e-6
    assert certificate.primal == pytest.approx(reference(problem, X), rel=1e-6)


def test_what_cannot_be_solved_is_refused():
    X, codes, *_ = make()
    with pytest.raises(ValueError, match="loss must be 'hinge' with an l_1 norm, got 'squared_h"):
        preference_problem(codes, C=1.0, loss="squared_hinge", norm=1)
    with pytest.raises(ValueError, match="norm must be 2 or 1, got 3"):
        preference_problem(codes, C=1.0, norm=3)
    problem = preference_problem(codes, C=1.0, norm=1)
    with pytest.raises(ValueError, match="data has 29 rows, the problem 30"):
        solve(problem, X[1:], tol=1e-3, budget=Budget(10))
    with pytest.raises(ValueError, match="data must be a matrix with an l_1 norm"):
        solve(problem, Rows(Kernel("rbf"), X), tol=1e-3, budget=Budget(10))


def test_quadratic_model_is_minimised():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((12, 8))
    gram, correlation, w = A.T @ A, 3.0 * rng.standard_normal(8), rng.standard_normal(8)
    v = minimise_quadratic(gram, correlation, w)
    rest = correlation - gram @ (v - w)
    assert 0 < np.count_nonzero(v) < 8
    np.testing.assert_allclose(rest[v != 0], np.sign(v[v != 0]), atol=2e-2)
    assert np.abs(rest[v == 0]).max() <= 1.0 + 2e-2


def test_program_without_feasible_point_is_told():
    assert solve_program(np.array([[1.0]]), np.array([0.5]), np.array([3.0])) is None
