"""Pair steps on all variables, with kernel rows computed on demand."""

from __future__ import annotations

from itertools import product

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.kernels import Kernel, Rows
from widemargin.problems import soft_margin as problems
from widemargin.solvers.base import Budget
from widemargin.solvers.soft_margin import on_demand

KERNELS = {
    "linear": Kernel("linear"),
    "rbf": Kernel("rbf", 0.3),
    "poly": Kernel("poly", 0.2, 3, 1.0),
    "sparse": Kernel("rbf", 0.3),  # of sparse samples there are no single rows, but one block
}


def share(y):
    """Return the largest feasible nu."""
    return 2.0 * min(np.mean(y > 0), np.mean(y < 0))


def problem_of(kind, rng, n):
    """Return a problem of a kind with random targets and costs."""
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    cost = 10.0 ** rng.uniform(-1, 1) * rng.uniform(0.5, 1.5, n)
    t = rng.normal(size=n)
    return {
        "hinge": lambda: problems.c_classification(y, cost),
        "hinge, no intercept": lambda: problems.c_classification(y, cost, intercept=False),
        "squared": lambda: problems.c_classification(y, cost, squared=True),
        "nu": lambda: problems.nu_classification(y, np.ones(n), 0.5 * share(y)),
        "one class": lambda: problems.one_class(cost, 0.3),
        "tube": lambda: problems.epsilon_tube(t, cost, 0.2),
        "tube, no intercept": lambda: problems.epsilon_tube(t, cost, 0.2, intercept=False),
        "squared tube": lambda: problems.epsilon_tube(t, cost, 0.2, squared=True),
        "nu tube": lambda: problems.nu_tube(t, cost, 0.4),
    }[kind]()


def optimum(problem, K):
    """Return the optimal dual objective, by Clarabel."""
    n = problem.n_variables
    Q = K[np.ix_(problem.row, problem.row)] + np.diag(problem.ridge)
    sums = [problem.group == g for g in range(problem.n_groups)]
    rows, right, cones = [], [], []
    if sums:
        rows.append(np.array(sums, dtype=float))
        right.append(problem.totals)
        cones.append(clarabel.ZeroConeT(len(sums)))
    for sign, bound in ((1.0, problem.upper), (-1.0, -problem.lower)):
        finite = np.isfinite(bound)
        rows.append(sign * np.eye(n)[finite])
        right.append(bound[finite])
    cones.append(clarabel.NonnegativeConeT(sum(len(r) for r in right[len(sums) > 0 :])))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    solution = clarabel.DefaultSolver(
        sp.csc_matrix(np.triu(Q)), -problem.target, sp.csc_matrix(np.vstack(rows)),
        np.concatenate(right), cones, settings,
    ).solve()  # fmt: skip
    return -solution.obj_val


def dual(problem, K, alpha):
    beta = problem.coefficients(alpha)
    return problem.dual(alpha, float(beta @ K @ beta))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("kind", "kernel"),
    [*product(
        ("hinge", "hinge, no intercept", "squared", "nu", "one class", "tube",
         "tube, no intercept", "squared tube", "nu tube"),
        ("linear", "rbf", "poly"),
    ), ("hinge", "sparse"), ("nu", "sparse"), ("tube, no intercept", "sparse")],
)  # fmt: skip
def test_the_optimum_is_that_of_an_interior_point_method(kind, kernel, seed):
    rng = np.random.default_rng([seed, len(kind)])
    n = int(rng.choice([2, 5, 40, 64, 65, 130]))
    X = rng.normal(size=(n, 3))
    rows = Rows(KERNELS[kernel], sp.csr_array(X) if kernel == "sparse" else X)
    problem = problem_of(kind, rng, n)
    found = on_demand.solve(problem, rows, tol=1e-7, budget=Budget(10**6))
    K = rows.matrix()
    assert found.status == "converged"
    assert (found.alpha >= problem.lower).all()
    assert (found.alpha <= problem.upper).all()
    assert problem.kkt_violation(found.alpha, K @ problem.coefficients(found.alpha)) <= 1.01e-7
    np.testing.assert_allclose(found.f, K @ problem.coefficients(found.alpha), atol=1e-9)
    best = optimum(problem, K)
    assert dual(problem, K, found.alpha) == pytest.approx(best, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("kind", ["hinge", "one class", "nu tube", "tube, no intercept"])
def test_gathered_variables_and_newton_steps_lead_to_the_same_optimum(kind, monkeypatch):
    rng = np.random.default_rng(3)
    rows = Rows(KERNELS["rbf"], rng.normal(size=(300, 2)))
    problem = problem_of(kind, rng, 300)
    plain = on_demand.solve(problem, rows, tol=1e-9, budget=Budget(10**6))
    monkeypatch.setattr(on_demand, "LONG_PATIENCE", 10)
    monkeypatch.setattr(on_demand, "PATIENCE", 10)
    monkeypatch.setattr(on_demand, "NEWTON_SECONDS", (0.0, 0.0, 0.0))
    monkeypatch.setattr(on_demand, "FLOAT64_VARIABLES", 64)
    taken = []
    for name in ("solve_movable", "take_newton_step"):
        step = getattr(on_demand._Run, name)

        def noted(*arguments, step=step, name=name):
            taken.append(name)
            return step(*arguments)

        monkeypatch.setattr(on_demand._Run, name, noted)
    other = on_demand.solve(problem, rows, tol=1e-9, budget=Budget(10**6))
    K = rows.matrix()
    assert set(taken) == {"solve_movable", "take_newton_step"}
    assert plain.status == other.status == "converged"
    assert dual(problem, K, other.alpha) == pytest.approx(dual(problem, K, plain.alpha), rel=1e-9)


def test_each_kernel_row_is_computed_once_and_few_are_needed():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2))
    problem = problems.c_classification(np.sign(X[:, 0] + 2.0), np.full(1000, 10.0))
    rows = Rows(KERNELS["rbf"], X)
    found = on_demand.solve(problem, rows, tol=1e-3, budget=Budget(10**6))
    support = np.count_nonzero(found.alpha)
    assert support * 1000 <= rows.evaluations <= 3 * support * 1000


def test_a_start_is_used_and_a_budget_obeyed():
    rng = np.random.default_rng(0)
    rows = Rows(KERNELS["rbf"], rng.normal(size=(200, 2)))
    problem = problem_of("hinge", rng, 200)
    whole = on_demand.solve(problem, rows, tol=1e-6, budget=Budget(10**6))
    assert whole.n_iter > 50
    again = on_demand.solve(problem, rows, tol=1e-5, budget=Budget(10**6), start=whole)
    assert again.n_iter <= 1
    short = on_demand.solve(problem, rows, tol=1e-6, budget=Budget(20))
    assert short.status == "max_iter"
    assert short.n_iter == 20
    stopped = Budget(10**6, monitor=lambda steps, violation: False)
    assert on_demand.solve(problem, rows, tol=1e-6, budget=stopped).status == "stopped"
    limited = on_demand.solve(problem, rows, tol=1e-6, budget=Budget(10**6), most_steps=20)
    assert limited.status == "stalled"


def test_garbage_in_fresh_memory_does_no_harm(monkeypatch):
    rng = np.random.default_rng(0)
    rows = Rows(KERNELS["rbf"], rng.normal(size=(100, 2)))
    problem = problem_of("hinge", rng, 100)
    expected = on_demand.solve(problem, rows, tol=1e-6, budget=Budget(10**6))
    empty = np.empty

    def filled(*arguments, **options):
        out = empty(*arguments, **options)
        if out.dtype.kind == "f":
            out.fill(np.nan)
        return out

    monkeypatch.setattr(on_demand.np, "empty", filled)
    found = on_demand.solve(problem, rows, tol=1e-6, budget=Budget(10**6))
    np.testing.assert_array_equal(found.alpha, expected.alpha)
