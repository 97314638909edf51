"""Dense box QPs: optimality conditions with two-sided, one-sided and mixed bounds."""

from __future__ import annotations

import numpy as np
import pytest

from widemargin.solvers.numerics.box_qp_interior import solve_dense_box_qp


@pytest.mark.parametrize("bounds", ["box", "lower", "upper", "mixed"])
@pytest.mark.parametrize("n_groups", [0, 1, 2])
@pytest.mark.parametrize("rank", [3, 40])
def test_optimality_conditions(bounds: str, n_groups: int, rank: int) -> None:
    rng = np.random.default_rng(rank + n_groups)
    n = 40
    A = rng.standard_normal((n, rank))
    Q = A @ A.T + (1e-3 if bounds != "box" else 0.0) * np.eye(n)  # bounded below in any case
    t = rng.standard_normal(n)
    has_low = {"box": 1, "lower": 1, "upper": 0, "mixed": np.arange(n) % 3 != 0}[bounds]
    has_high = {"box": 1, "lower": 0, "upper": 1, "mixed": np.arange(n) % 3 != 1}[bounds]
    lower = np.where(np.broadcast_to(has_low, n), -rng.uniform(0.1, 2.0, n), -np.inf)
    upper = np.where(np.broadcast_to(has_high, n), rng.uniform(0.1, 2.0, n), np.inf)
    E = np.array([np.arange(n) % max(1, n_groups) == g for g in range(n_groups)], dtype=float)
    E = E.reshape(n_groups, n)
    e = np.full(n_groups, 0.05)
    b = solve_dense_box_qp(Q, t, lower, upper, E, e)
    assert b is not None
    assert (lower <= b).all()
    assert (b <= upper).all()
    np.testing.assert_allclose(E @ b, e, atol=1e-6)
    gradient = Q @ b - t
    free = (b > lower) & (b < upper)
    for members in E > 0 if n_groups else [np.ones(n, dtype=bool)]:
        level = gradient[members & free].mean() if n_groups else 0.0
        off = gradient[members] - level
        np.testing.assert_allclose(off[free[members]], 0.0, atol=1e-6)
        assert (off[(b == lower)[members]] >= -1e-6).all()
        assert (off[(b == upper)[members]] <= 1e-6).all()


def test_a_matrix_that_is_not_positive_definite_ends_the_method() -> None:
    Q, bound = -1e9 * np.eye(3), np.ones(3)
    assert solve_dense_box_qp(Q, bound, -bound, bound, np.zeros((0, 3)), np.zeros(0)) is None
