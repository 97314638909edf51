"""The l_1 preference machine: against the program over all pairs, its bound, hard cases."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from widemargin.problems.preference import preference_problem
from widemargin.solvers.preference import l1 as preference_l1
from widemargin.solvers.preference.l1 import solve_l1_preference
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
    problem = preference_problem(codes, C=C, group=group, weight=weight)
    result = solve_l1_preference(problem, X, tol=1e-8, max_iter=200)
    optimum = reference(problem, X)
    assert result.status == "converged"
    assert primal_by_hand(problem, X, result.w) == pytest.approx(optimum, rel=1e-6)
    assert result.lower_bound == pytest.approx(optimum, rel=1e-6)


@pytest.mark.usefixtures("without_programs")
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("kind", ["", "queries, weights", "distinct"])
def test_the_descent_alone_equals_it(kind, C):
    X, codes, group, weight = make(kind, n=40)
    problem = preference_problem(codes, C=C, group=group, weight=weight)
    result = solve_l1_preference(problem, X, tol=1e-6, max_iter=300)
    assert result.status == "converged"
    assert primal_by_hand(problem, X, result.w) == pytest.approx(reference(problem, X), rel=2e-6)


@pytest.mark.parametrize("steps", [1, 2, 100])
def test_certificate_is_what_the_pairs_say(steps):
    X, codes, group, weight = make("queries, weights")
    problem = preference_problem(codes, C=0.1, group=group, weight=weight)
    result = solve_l1_preference(problem, X, tol=1e-2, max_iter=steps)
    certificate = result.certificate(problem, 1e-2)
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
    pull = values @ (X[upper] - X[lower])
    dual = np.sum(values) / max(1.0, np.abs(pull).max())
    assert certificate.dual == pytest.approx(dual, rel=1e-12)
    assert result.lower_bound == pytest.approx(dual, rel=1e-12)
    assert certificate.primal == pytest.approx(primal_by_hand(problem, X, result.w), rel=1e-12)
    np.testing.assert_allclose(result.pull, pull, atol=1e-12)
    np.testing.assert_allclose(result.f, X @ result.w, atol=1e-12)
    assert (
        certificate.dual <= reference(problem, X) * (1 + 1e-12) <= certificate.primal * (1 + 1e-9)
    )


def test_violation_vanishes_at_the_optimum_only():
    X, codes, *_ = make()
    problem = preference_problem(codes, C=0.1)
    end = solve_l1_preference(problem, X, tol=1e-10, max_iter=200)
    assert end.certificate(problem, 1e-10).kkt_violation < 1e-8
    early = solve_l1_preference(problem, X, tol=1e-10, max_iter=2).certificate(problem, 1e-10)
    assert early.kkt_violation > 1e-3
    assert not early.converged


def test_nothing_is_learned_below_a_critical_C():
    X, codes, *_ = make()
    upper, lower, _ = all_pairs(preference_problem(codes, C=1.0))
    critical = 1.0 / np.abs((X[upper] - X[lower]).sum(axis=0)).max()
    below = preference_problem(codes, C=0.999 * critical)
    result = solve_l1_preference(below, X, tol=1e-9, max_iter=100)
    assert not result.w.any()
    assert result.lower_bound == pytest.approx(below.C * below.n_pairs, rel=1e-12)
    above = preference_problem(codes, C=1.01 * critical)
    assert np.count_nonzero(solve_l1_preference(above, X, tol=1e-9, max_iter=100).w) == 1


def test_irrelevant_features_have_no_weight():
    X, codes, *_ = make(n=400, d=40)
    problem = preference_problem(codes, C=1.0)
    problem = preference_problem(codes, C=20.0 / problem.n_pairs)
    w = solve_l1_preference(problem, X, tol=1e-6, max_iter=300).w
    assert (w[:2] > 0).all()
    assert np.count_nonzero(w) <= 10


def test_many_features_enter_when_they_are_needed(monkeypatch):
    X, codes, *_ = make(n=60, d=30)
    problem = preference_problem(codes, C=0.02)
    whole = solve_l1_preference(problem, X, tol=1e-8, max_iter=300)
    monkeypatch.setattr(preference_l1, "FEW_FEATURES", 5)
    monkeypatch.setattr(preference_l1, "MOST_NEW", 2)
    part = solve_l1_preference(problem, X, tol=1e-8, max_iter=300)
    assert np.count_nonzero(whole.w) > 5
    assert part.status == "converged"
    assert part.lower_bound == pytest.approx(whole.lower_bound, rel=1e-7)


@pytest.mark.parametrize("convert", [sp.csr_matrix, sp.csr_array, np.asfortranarray])
def test_the_form_of_the_data_does_not_matter(convert):
    X, codes, *_ = make(n=60)
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    problem = preference_problem(codes, C=0.1)
    dense = solve_l1_preference(problem, X, tol=1e-9, max_iter=200)
    other = solve_l1_preference(problem, convert(X), tol=1e-9, max_iter=200)
    np.testing.assert_allclose(other.w, dense.w, atol=1e-7)


def test_float32_data_are_summed_in_float64():
    X, codes, *_ = make(n=60)
    problem = preference_problem(codes, C=0.1)
    single = X.astype(np.float32)
    result = solve_l1_preference(problem, single, tol=1e-9, max_iter=200)
    assert result.lower_bound == pytest.approx(reference(problem, single.astype(float)), rel=1e-8)


@pytest.mark.usefixtures("without_programs")
def test_many_pairs_at_one_kink():
    X, codes, *_ = make(n=80)
    X = np.round(X)
    problem = preference_problem(codes, C=1.0)
    result = solve_l1_preference(problem, X, tol=1e-6, max_iter=300)
    assert result.status == "converged"
    assert result.lower_bound == pytest.approx(reference(problem, X), rel=2e-6)


def test_a_large_offset_and_a_constant_feature_change_nothing():
    X, codes, *_ = make(n=60)
    problem = preference_problem(codes, C=0.1)
    plain = solve_l1_preference(problem, X, tol=1e-8, max_iter=200)
    moved = np.column_stack([X + 1e4, np.full(60, 7.0)])
    result = solve_l1_preference(problem, moved, tol=1e-8, max_iter=200)
    np.testing.assert_allclose(result.w, np.append(plain.w, 0.0), atol=1e-6)


def test_identical_rows_of_different_rank_lose_one_each():
    problem = preference_problem(np.array([0, 1, 2]), C=2.0)
    result = solve_l1_preference(problem, np.ones((3, 2)), tol=1e-9, max_iter=50)
    assert result.status == "converged"
    assert not result.w.any()
    assert result.certificate(problem, 1e-9).primal == 6.0


def test_budget_and_monitor_end_the_run():
    X, codes, *_ = make()
    problem = preference_problem(codes, C=1.0)
    short = solve_l1_preference(problem, X, tol=1e-12, max_iter=1)
    assert (short.status, short.n_iter) == ("max_iter", 1)
    assert not short.certificate(problem, 1e-12).converged
    gaps = []
    stopped = solve_l1_preference(
        problem, X, tol=0.0, max_iter=99, monitor=lambda k, gap: gaps.append(gap) or k < 3
    )
    assert (stopped.status, stopped.n_iter) == ("stopped", 3)
    assert gaps == sorted(gaps, reverse=True)


def test_a_tolerance_out_of_reach_ends_with_an_honest_gap():
    X, codes, *_ = make(n=60)
    problem = preference_problem(codes, C=1e6)
    result = solve_l1_preference(problem, X, tol=0.0, max_iter=1000)
    certificate = result.certificate(problem, 0.0)
    assert result.status in ("converged", "stalled")
    assert abs(certificate.relative_gap) < 1e-6
    assert certificate.primal == pytest.approx(reference(problem, X), rel=1e-6)


def test_what_cannot_be_solved_is_refused():
    X, codes, *_ = make()
    squared = preference_problem(codes, C=1.0, loss="squared_hinge")
    with pytest.raises(ValueError, match="loss must be 'hinge' with an l_1 norm, got 'squared_h"):
        solve_l1_preference(squared, X, tol=1e-3, max_iter=10)
    with pytest.raises(ValueError, match="X has 29 rows, the problem 30"):
        solve_l1_preference(preference_problem(codes, C=1.0), X[1:], tol=1e-3, max_iter=10)


def test_quadratic_model_is_minimised():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((12, 8))
    gram, pull, w = A.T @ A, 3.0 * rng.standard_normal(8), rng.standard_normal(8)
    v = minimise_quadratic(gram, pull, w)
    rest = pull - gram @ (v - w)
    assert 0 < np.count_nonzero(v) < 8
    np.testing.assert_allclose(rest[v != 0], np.sign(v[v != 0]), atol=2e-2)
    assert np.abs(rest[v == 0]).max() <= 1.0 + 2e-2


def test_program_without_feasible_point_is_told():
    assert solve_program(np.array([[1.0]]), np.array([0.5]), np.array([3.0])) is None
