"""Blocked Cholesky factorisation against LAPACK's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import cholesky, solve_triangular

from widemargin.solvers.numerics import cholesky as blocked


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 23, 40])
@pytest.mark.parametrize("seed", range(3))
def test_the_factor_is_that_of_lapack(n, seed, monkeypatch):
    monkeypatch.setattr(blocked, "BLOCK", 8)
    monkeypatch.setattr(blocked, "COLUMNS", 5)
    A = np.random.default_rng(seed).normal(size=(n, n))
    C = np.asfortranarray(A @ A.T + 0.1 * np.eye(n))
    factor = C.copy(order="F")
    assert blocked.factorise(factor)
    expected = cholesky(C, lower=True)
    np.testing.assert_allclose(np.tril(factor), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(np.triu(factor, 1), np.triu(C, 1))
    inverse = solve_triangular(expected, np.eye(n), lower=True)
    np.testing.assert_allclose(blocked.inverse_norms(factor), (inverse**2).sum(axis=0), rtol=1e-8)


@pytest.mark.parametrize("place", [0, 7, 8, 19])
def test_an_indefinite_matrix_is_seen(place, monkeypatch):
    monkeypatch.setattr(blocked, "BLOCK", 8)
    C = np.eye(20, order="F")
    C[place, place] = -1.0
    assert not blocked.factorise(C)
