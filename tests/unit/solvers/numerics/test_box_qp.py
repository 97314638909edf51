"""Box QPs: optimality conditions, ties, ends of ranges, errors."""

from __future__ import annotations

import numpy as np
import pytest

from widemargin.problems.linear_scan import LinearProblem
from widemargin.solvers.numerics.box_qp import BoxQP, BoxSolution, InfeasibleSums, solve_box_qp
from widemargin.solvers.numerics.box_qp_nested import solve_nested

KINDS = ["gauss", "integer", "duplicates", "heavy tails", "constant column", "scales", "no signal"]


def make(kind: str, form: str, seed: int, m: int = 200) -> BoxQP:
    """A box QP of one of the forms on data of some kind."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    X = rng.standard_normal((m, n))
    if kind == "integer":
        X = np.round(X)
    elif kind == "duplicates":
        X = X[rng.integers(0, m, m) // 3]
    elif kind == "heavy tails":
        X = rng.standard_cauchy((m, n))
    elif kind == "constant column":
        X[:, 0] = 1.0
    elif kind == "scales":
        X *= 10.0 ** rng.uniform(-3, 3, n)
    signal = 0.0 if kind == "no signal" else 1.0
    y = np.where(
        signal * (X @ rng.standard_normal(n)) + 0.3 * rng.standard_normal(m) > 0, 1.0, -1.0
    )
    y[:2] = 1.0, -1.0
    weight = rng.integers(0, 3, m).astype(float)
    weight[:2] = 1.0
    cap = 10.0 ** rng.uniform(-3, 2)
    if form == "hull":
        smaller = min(weight[y > 0].sum(), weight[y < 0].sum())
        cap = rng.choice([1.0, 1.3, 3.0]) / smaller
    intercept = form != "hinge_no_intercept"
    problem = LinearProblem("hull" if form == "hull" else "hinge", cap, intercept)
    return BoxQP(
        y[:, None] * X,
        problem.columns(y),
        problem.sums(np.zeros(2)),
        np.full(m, problem.target),
        cap * weight,
        np.zeros(n),
    )


def kkt_violation(problem: BoxQP, found: BoxSolution) -> float:
    """The worst failure of the optimality conditions, relative to the terms in them."""
    Z, E, a, q, D, c = (getattr(problem, name) for name in ("Z", "E", "a", "q", "D", "c"))
    s, w, t = found.s, found.w, found.t
    assert np.all(s >= 0)
    assert np.all(s <= D)
    slack = np.where(D > 0, q - Z @ w - E @ t, 0.0)
    length = np.sqrt((Z * Z).sum(axis=1).mean())
    size = np.abs(q).max() + length * np.linalg.norm(w) + np.abs(t).max(initial=0.0)
    size = max(size, 1e-100)
    edge = 1e-9 * D
    wrong = [
        np.max(slack[s <= edge], initial=0.0) / size,
        np.max(-slack[s >= D - edge], initial=0.0) / size,
        np.abs(slack[(s > edge) & (s < D - edge)]).max(initial=0.0) / size,
        np.abs(w - c - s @ Z).max() / (np.abs(c).max() + s.sum() * length + 1e-100),
        np.abs(s @ E - a).max(initial=0.0) / (D.sum() + 1e-100),
    ]
    return float(max(wrong))


@pytest.mark.parametrize("form", ["hinge", "hinge_no_intercept", "hull"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_optimality_conditions_hold_to_rounding(kind: str, form: str) -> None:
    for seed in range(8):
        problem = make(kind, form, seed)
        found = solve_box_qp(problem)
        assert found.exact, (kind, form, seed)
        assert kkt_violation(problem, found) <= 1e-9, (kind, form, seed)


@pytest.mark.parametrize("form", ["hinge", "hull"])
def test_few_rows(form: str) -> None:
    for m in range(2, 12):
        problem = make("gauss", form, m, m)
        found = solve_box_qp(problem)
        assert found.exact
        assert kkt_violation(problem, found) <= 1e-9


@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1e2, 1e6])
def test_the_solution_scales_with_the_data(scale: float) -> None:
    """Z -> kZ and D -> D/k^2 is the same problem: w -> w/k, t unchanged."""
    problem = make("gauss", "hinge", 3)
    here = solve_box_qp(problem)
    there = solve_box_qp(
        BoxQP(problem.Z * scale, problem.E, problem.a, problem.q, problem.D / scale**2, problem.c)
    )
    assert there.exact
    np.testing.assert_allclose(there.w * scale, here.w, rtol=1e-9)
    np.testing.assert_allclose(there.t, here.t, rtol=1e-9)


def test_the_order_of_the_rows_does_not_matter() -> None:
    problem = make("gauss", "hinge", 5)
    here = solve_box_qp(problem)
    order = np.random.default_rng(0).permutation(len(problem.D))
    there = solve_box_qp(
        BoxQP(
            problem.Z[order],
            problem.E[order],
            problem.a,
            problem.q[order],
            problem.D[order],
            problem.c,
        )
    )
    np.testing.assert_allclose(there.w, here.w, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(there.s, here.s[order], rtol=1e-8, atol=1e-11)


def test_a_constant_part_stands_for_rows_at_their_cap() -> None:
    """Rows that end at their cap can be replaced by c and a."""
    problem = make("gauss", "hinge", 7)
    whole = solve_box_qp(problem)
    capped = whole.s == problem.D
    assert capped.any()
    part = solve_box_qp(problem.some(~capped, capped))
    np.testing.assert_allclose(part.w, whole.w, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(part.t, whole.t, rtol=1e-10)


def test_nearest_points_by_hand() -> None:
    """Hulls of {(2, 0), (4, 1)} and {(0, 0), (-3, 1)}: nearest points (2, 0) and (0, 0)."""
    y = np.array([1.0, 1.0, -1.0, -1.0])
    X = np.array([[2.0, 0.0], [4.0, 1.0], [0.0, 0.0], [-3.0, 1.0]])
    form = LinearProblem("hull", 2.0)
    found = solve_box_qp(
        BoxQP(
            y[:, None] * X,
            form.columns(y),
            form.sums(np.zeros(2)),
            np.zeros(4),
            np.full(4, 2.0),
            np.zeros(2),
        )
    )
    np.testing.assert_allclose(found.w, [2.0, 0.0], atol=1e-14)
    np.testing.assert_allclose(found.t, [4.0, 0.0], atol=1e-14)
    np.testing.assert_allclose(found.s, [1.0, 0.0, 1.0, 0.0], atol=1e-14)


def test_a_threshold_without_a_free_row_is_the_middle_of_its_interval() -> None:
    """One row each at cap 0.1: w = 0.2, and b is anything that leaves both inside the margin."""
    Z = np.array([[1.0], [1.0]])  # x = 1, y = 1 and x = -1, y = -1
    y = np.array([1.0, -1.0])
    found = solve_box_qp(
        BoxQP(Z, y[:, None], np.zeros(1), np.ones(2), np.full(2, 0.1), np.zeros(1))
    )
    np.testing.assert_allclose(found.w, [0.2])
    np.testing.assert_allclose(found.interval, [[-0.8, 0.8]])
    np.testing.assert_allclose(found.t, [0.0], atol=1e-15)


def test_a_half_open_interval_gives_its_finite_end() -> None:
    """All caps of a class are needed: theta+ may be anything from the largest w.x on."""
    y = np.array([1.0, 1.0, -1.0, -1.0])
    X = np.array([[2.0], [3.0], [0.0], [-1.0]])
    form = LinearProblem("hull", 0.5)
    found = solve_box_qp(
        BoxQP(
            y[:, None] * X,
            form.columns(y),
            form.sums(np.zeros(2)),
            np.zeros(4),
            np.full(4, 0.5),
            np.zeros(1),
        )
    )
    np.testing.assert_allclose(found.w, [3.0])
    np.testing.assert_allclose(found.t, [9.0, -3.0])
    assert found.interval[0, 1] == np.inf
    assert found.interval[1, 0] == -np.inf


def test_hulls_that_meet_have_no_direction() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    form = LinearProblem("hull", 1.0)
    found = solve_box_qp(
        BoxQP(
            y[:, None] * X,
            form.columns(y),
            form.sums(np.zeros(2)),
            np.zeros(60),
            np.ones(60),
            np.zeros(3),
        )
    )
    assert found.exact
    assert not found.w.any()
    assert np.abs(found.s @ (y[:, None] * X)).max() < 1e-9


def test_sums_out_of_reach_are_named() -> None:
    with pytest.raises(InfeasibleSums, match=r"a\[0\] = 3 cannot be reached.*between -1 and 1"):
        solve_box_qp(
            BoxQP(
                np.ones((2, 1)),
                np.array([[1.0], [-1.0]]),
                np.array([3.0]),
                np.ones(2),
                np.ones(2),
                np.zeros(1),
            )
        )


def test_rows_without_a_cap_do_not_count() -> None:
    problem = make("gauss", "hinge", 11)
    keep = problem.D > 0
    assert not keep.all()
    here = solve_box_qp(problem)
    there = solve_box_qp(
        BoxQP(
            problem.Z[keep], problem.E[keep], problem.a, problem.q[keep], problem.D[keep], problem.c
        )
    )
    np.testing.assert_allclose(there.w, here.w, rtol=1e-12)
    assert not here.s[~keep].any()


def test_an_exception_of_tick_ends_the_work() -> None:
    def tick() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve_box_qp(make("gauss", "hinge", 0), tick=tick)


@pytest.mark.parametrize("form", ["hinge", "hinge_no_intercept", "hull"])
@pytest.mark.parametrize("kind", ["gauss", "integer", "heavy tails", "no signal"])
def test_the_nested_method_finds_the_same_solution(kind: str, form: str) -> None:
    problem = make(kind, form, 4, 3000)
    whole = solve_box_qp(problem)
    nested = solve_nested(problem, few=300)
    assert nested.exact
    size = np.abs(whole.w).max()
    np.testing.assert_allclose(nested.w, whole.w, atol=1e-9 * size + 1e-14)
    np.testing.assert_allclose(nested.t, whole.t, rtol=1e-9, atol=1e-12)
    assert kkt_violation(problem, nested) <= 1e-9
    warm = solve_nested(problem, few=300, start=(whole.w, whole.t, 10))
    np.testing.assert_allclose(warm.w, whole.w, atol=1e-9 * size + 1e-14)
