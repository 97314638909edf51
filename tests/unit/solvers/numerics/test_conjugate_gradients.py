"""Conjugate gradients: solutions, stopping rules, precision, and systems that are not definite."""

from __future__ import annotations

import numpy as np
import pytest

from widemargin.solvers.numerics.conjugate_gradients import conjugate_gradients


def system(n: int = 50, dtype: type = np.float64):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((n, n))
    return (A @ A.T / n + np.eye(n)).astype(dtype), rng.standard_normal(n).astype(dtype)


@pytest.mark.parametrize("plain_residual", [False, True])
def test_the_residual_is_as_small_as_asked(plain_residual: bool) -> None:
    A, right = system()
    diagonal = A.diagonal()
    found = conjugate_gradients(
        A.dot,
        right,
        lambda r: r / diagonal,
        goal=lambda size: 1e-16 * size,
        most=200,
        plain_residual=plain_residual,
    )
    assert found.reached
    np.testing.assert_allclose(A @ found.x, right, atol=1e-6)
    np.testing.assert_array_equal(right, system()[1])  # not touched


def test_the_arithmetic_is_that_of_the_arrays() -> None:
    A, right = system(dtype=np.float32)
    found = conjugate_gradients(A.dot, right, np.copy, goal=lambda size: 1e-8 * size, most=100)
    assert found.x.dtype == np.float32
    np.testing.assert_allclose(A @ found.x, right, atol=1e-3)


def test_products_are_counted_and_limited() -> None:
    A, right = system()
    short = conjugate_gradients(A.dot, right, np.copy, goal=lambda size: 0.0, most=3)
    assert (short.n_products, short.reached) == (3, False)
    none = conjugate_gradients(A.dot, 0.0 * right, np.copy, goal=lambda size: size, most=3)
    assert (none.n_products, none.reached, none.x.any()) == (0, True, False)


def test_negative_curvature_ends_the_steps() -> None:
    right = np.ones(3)
    found = conjugate_gradients(np.negative, right, np.copy, goal=lambda size: 0.0, most=9)
    assert (found.n_products, found.reached, found.x.any()) == (1, True, False)
