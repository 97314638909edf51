"""Newton's method for the mean-field equations: directions by conjugate gradients, and starts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.mean_field import solved
from widemargin.problems.mean_field import naive
from widemargin.solvers.mean_field import cg as cg
from widemargin.solvers.mean_field import newton as newton
from widemargin.solvers.mean_field.newton import dense_direction


def smooth_problem(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(-2, 2, (n, 1)), axis=0)
    K = np.exp(-((X - X.T) ** 2))
    return K, rng.uniform(0, 3, n), rng.normal(size=n)


@pytest.mark.parametrize("n", [1, 5, 40, 300])
def test_direction_is_that_of_the_factorisation(n):
    K, precision, right = smooth_problem(n)
    exact = dense_direction(K)(precision, right)
    found = cg.conjugate_direction(K)(precision, right)
    np.testing.assert_allclose(found, exact, atol=1e-3 * np.abs(exact).max())


def test_precisions_of_either_sign_are_left_to_the_factorisation():
    K, precision, right = smooth_problem(40)
    precision[::7] *= -0.01
    exact = dense_direction(K)(precision, right)
    found = cg.conjugate_direction(K)(precision, right)
    np.testing.assert_allclose(found, exact, rtol=1e-12)


def test_the_preconditioner_inverts_its_approximation():
    K, precision, right = smooth_problem()
    features, root = cg._landmark_features(K), np.sqrt(precision).astype(np.float32)
    assert features.shape == (300 // cg.ROWS_PER_LANDMARK, 300)
    wide = features.astype(np.float64)
    assert np.abs(wide.T @ wide - K).max() < 1e-4  # so smooth that 18 rows stand for 300
    matrix = np.eye(300) + root[:, None] * (wide.T @ wide) * root
    solved = cg._preconditioner(features, root)(right.astype(np.float32))
    np.testing.assert_allclose(matrix @ solved, right, atol=1e-4)


def test_the_preconditioner_saves_products():
    class Counting:
        products = 0

        def __init__(self, K):
            self.K = K

        def __matmul__(self, vector):
            Counting.products += 1
            return self.K @ vector

    K, precision, right = smooth_problem()
    root = np.sqrt(100 * precision).astype(np.float32)
    single, scaled = Counting(K.astype(np.float32)), root * right.astype(np.float32)
    counts = []
    for features in (cg._landmark_features(K), np.empty((0, 300), dtype=np.float32)):
        Counting.products = 0
        cg._conjugate_gradients(single, root, scaled, cg._preconditioner(features, root))
        counts.append(Counting.products)
    assert counts[0] <= 5 < counts[1]


def test_an_indefinite_kernel_has_no_landmarks():
    K = -np.eye(100)
    K[0, 0] = 1.0
    assert cg._landmark_features(K).shape == (0, 100)


def test_equal_rows_can_be_landmarks():
    features = cg._landmark_features(np.ones((200, 200)))
    assert np.isfinite(features).all()
    np.testing.assert_allclose(features.T @ features, 1.0, atol=1e-4)


@pytest.mark.parametrize(
    ("noise", "starts_on_the_left"), [(1e-3, True), (0.0099, True), (0.1, False)]
)
def test_with_little_noise_fields_start_on_the_left(noise, starts_on_the_left, monkeypatch):
    K, *_ = smooth_problem(100)
    label = np.where(np.arange(100) // 7 % 2 == 0, 1.0, -1.0)
    problem = naive(label, np.ones(100), np.ones(100), noise)
    assert newton.has_little_noise(problem) == starts_on_the_left
    found = solved(problem, K, method="newton")
    monkeypatch.setattr(newton, "LEFT", 0.0)
    again = solved(problem, K, method="newton")
    np.testing.assert_allclose(found.z, again.z, rtol=1e-6, atol=1e-6)
    assert found.n_iter <= 10
