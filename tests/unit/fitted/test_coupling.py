"""Probabilities of several classes: the optimum of the coupling, and agreement with predictions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from widemargin.fitted.coupling import couple, project_on_prediction

seeds = st.integers(0, 100_000)
quick = settings(max_examples=60, deadline=None)


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match=r"pairs must be every pair of the 3 classes"):
        couple([[0.5, 0.5]], [(0, 1), (0, 2)], 3)
    with pytest.raises(ValueError, match=r"shape of pairwise must be \(n_samples, 1\)"):
        couple([[0.5, 0.5]], [(1, 0)], 2)
    with pytest.raises(ValueError, match=r"shape of predicted"):
        project_on_prediction([[0.5, 0.5]], np.array([0, 1]))


def _coupled_by_slsqp(r: np.ndarray, pairs, k: int) -> np.ndarray:
    def objective(p):
        terms = (((1 - r[m]) * p[i] - r[m] * p[j]) ** 2 for m, (i, j) in enumerate(pairs))
        return 1e3 * sum(terms)

    return minimize(
        objective,
        np.full(k, 1 / k),
        bounds=[(0, 1)] * k,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    ).x


@given(seeds)
@settings(max_examples=25, deadline=None)
def test_coupling_minimises_its_objective(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 6))
    pairs = [pair if rng.random() < 0.5 else pair[::-1] for pair in combinations(range(k), 2)]
    r = rng.beta(0.7, 0.7, size=(2, len(pairs)))
    p = couple(r, pairs, k)
    for row in range(2):
        np.testing.assert_allclose(p[row], _coupled_by_slsqp(r[row], pairs, k), atol=2e-5)


@given(seeds, st.integers(2, 12))
@quick
def test_coupled_rows_are_probabilities(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = list(combinations(range(k), 2))
    r = rng.beta(0.3, 0.3, size=(20, len(pairs)))
    r[:5] = rng.integers(0, 2, size=(5, len(pairs)))  # certain votes, circles among them
    p = couple(r, pairs, k)
    assert (p > 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=0, atol=1e-14)
    truth = rng.dirichlet(np.ones(k), 10)
    consistent = np.column_stack([truth[:, i] / (truth[:, i] + truth[:, j]) for i, j in pairs])
    np.testing.assert_allclose(couple(consistent, pairs, k), truth, rtol=0, atol=1e-9)


def test_two_classes_and_blocks_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    r = np.random.default_rng(0).random((50, 6))
    np.testing.assert_array_equal(couple(r[:, :1], [(1, 0)], 2)[:, 1], r[:, 0])
    pairs = list(combinations(range(4), 2))
    whole = couple(r, pairs, 4)
    monkeypatch.setattr("widemargin.fitted.coupling.BLOCK_NUMBERS", 16 * 7)
    np.testing.assert_array_equal(couple(r, pairs, 4), whole)


def _projected_by_slsqp(p: np.ndarray, c: int) -> np.ndarray:
    return minimize(
        lambda x: 10 * ((x - p) ** 2).sum(),
        np.full(len(p), 1 / len(p)),
        bounds=[(0, 1)] * len(p),
        constraints=[
            {"type": "eq", "fun": lambda x: x.sum() - 1},
            {"type": "ineq", "fun": lambda x: x[c] - np.delete(x, c)},
        ],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    ).x


@given(seeds, st.integers(2, 7))
@settings(max_examples=25, deadline=None)
def test_projection_is_the_nearest_point(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(k, 0.7), 3)
    predicted = rng.integers(0, k, 3)
    result = project_on_prediction(P, predicted)
    for row in range(3):
        nearest = _projected_by_slsqp(P[row], predicted[row])
        np.testing.assert_allclose(result[row], nearest, atol=2e-6)


@given(seeds, st.integers(2, 15), st.sampled_from([0.02, 1.0, 50.0, np.inf]))
@quick
def test_the_predicted_class_is_the_only_largest(seed: int, k: int, even: float) -> None:
    rng = np.random.default_rng(seed)
    P = np.full((40, k), 1 / k) if np.isinf(even) else rng.dirichlet(np.full(k, even), 40)
    P[:5] = np.eye(k)[rng.integers(0, k, 5)]
    predicted = rng.integers(0, k, 40)
    before = P.copy()
    result = project_on_prediction(P, predicted)
    np.testing.assert_array_equal(P, before)  # the argument is left alone
    np.testing.assert_array_equal(result.argmax(axis=1), predicted)
    assert ((result == result.max(axis=1, keepdims=True)).sum(axis=1) == 1).all()
    np.testing.assert_allclose(result.sum(axis=1), 1, rtol=0, atol=1e-14)
    assert (result >= 0).all()
    largest = P.max(axis=1, keepdims=True) == P
    agree = largest[np.arange(40), predicted] & (largest.sum(axis=1) == 1)
    np.testing.assert_array_equal(result[agree], P[agree])
    np.testing.assert_array_equal(project_on_prediction(result, predicted), result)
