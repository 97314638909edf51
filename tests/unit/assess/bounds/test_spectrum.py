"""Spectra of kernel matrices: eigenvalues by hand, covers that the bounds must allow for."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.linalg import hilbert
from sklearn.metrics.pairwise import rbf_kernel

from widemargin import bounds


def circle(m: int, order: int = 1) -> np.ndarray:
    """Return cos(order (s - t)) on m equidistant angles: the eigenvalue m / 2 twice."""
    angle = 2 * np.pi * np.arange(m) / m
    return np.cos(order * (angle[:, None] - angle))


def test_eigenvalues_of_a_circle() -> None:
    K = 3.0 * circle(9) + circle(9, 2) + 2.0
    found = bounds.kernel_spectrum(K)
    np.testing.assert_allclose(found.eigenvalues, [13.5, 13.5, 4.5, 4.5, *[0.0] * 5], atol=1e-12)
    assert found.centred
    raw = bounds.kernel_spectrum(K, centred=False)  # the constant is an eigenvector of 2 m
    np.testing.assert_allclose(raw.eigenvalues[:3], [18.0, 13.5, 13.5], atol=1e-12)
    assert not raw.centred


@pytest.mark.parametrize("m", [2, 5, 30])
def test_centring_is_projecting_onto_what_is_no_constant(m: int) -> None:
    X = np.random.default_rng(m).normal(size=(m, 3)) + 5.0
    H = np.eye(m) - 1.0 / m
    expected = np.linalg.eigvalsh(H @ rbf_kernel(X) @ H)[::-1]
    found = bounds.kernel_spectrum(rbf_kernel(X))
    np.testing.assert_allclose(found.eigenvalues, np.maximum(expected, 0), atol=1e-12)
    assert np.abs(found.eigenvalues - expected).max() <= found.error


def test_a_segment_is_covered_as_segments_are() -> None:
    """One semi-axis of length s: n balls have the radius s / n."""
    found = bounds.kernel_spectrum(np.array([[1.0, -1.0], [-1.0, 1.0]]))  # eigenvalue 2, s = 1
    for n in (1, 2, 5, 1000):
        number = found.entropy_number(n)
        assert number.lower <= 1.0 / n * (1 + 1e-6) <= number.upper * (1 + 2e-6)
        assert number.lower == pytest.approx(1.0 / n, rel=1e-6)
        assert number.vacuous == (n < 6)
    cover = found.covering_number(0.01)
    assert cover.log2_lower <= math.log2(100) <= cover.log2_upper
    assert found.entropy_number(7, B=3.0).lower == pytest.approx(3.0 / 7.0, rel=1e-6)


def greedy_radius(points: np.ndarray, n: int) -> float:
    """Return the radius of n balls around points that are chosen farthest first."""
    away = np.linalg.norm(points, axis=1)
    for _ in range(n - 1):
        centre = points[int(away.argmax())]
        away = np.minimum(away, np.linalg.norm(points - centre, axis=1))
    return float(away.max())


@pytest.mark.parametrize("ratio", [1.0, 0.5, 0.05])
def test_covers_of_ellipses_are_within_the_bounds(ratio: float) -> None:
    """A cover that is found is no better than the lower bound; the upper bound is not below it."""
    rng = np.random.default_rng(0)
    ball = rng.normal(size=(20_000, 2))
    ball *= (rng.random(20_000) ** 0.5 / np.linalg.norm(ball, axis=1))[:, None]
    found = bounds.kernel_spectrum(np.diag([2.0, 2.0 * ratio**2]), centred=False)
    for n in (2, 8, 64, 400):
        number, radius = found.entropy_number(n), greedy_radius(ball * [1.0, ratio], n)
        assert number.lower <= radius <= number.upper * (1 + 1e-9)
        assert found.covering_number(1.001 * radius).log2_lower <= math.log2(n)


@pytest.mark.parametrize("B", [0.1, 1.0, 20.0])
def test_entropy_and_covering_numbers_are_inverse(B: float) -> None:
    found = bounds.kernel_spectrum(hilbert(12))
    for n in (10, 10**4, 10**9):
        number = found.entropy_number(n, B)
        assert found.covering_number(number.lower, B).log2_lower == pytest.approx(math.log2(n))
        if not number.vacuous:
            above = found.covering_number(number.upper, B).log2_upper
            assert above == pytest.approx(1.0 + math.log2(n))


def test_more_balls_have_smaller_radii() -> None:
    found = bounds.kernel_spectrum(rbf_kernel(np.random.default_rng(0).normal(size=(40, 2))))
    numbers = [found.entropy_number(10**k) for k in range(12)]
    assert all(a.upper >= b.upper for a, b in pairwise(numbers))
    assert numbers[0].vacuous
    assert not numbers[-1].vacuous
    assert found.covering_number(100.0) == (0.0, 0.0, ())


def test_equal_samples_have_no_functions_but_constants() -> None:
    found = bounds.kernel_spectrum(np.ones((5, 5)))
    assert found.eigenvalues.max() <= found.error
    assert found.entropy_number(1).upper <= 1e-6
    assert found.covering_number(1e-3).log2_upper == 0.0


@pytest.mark.parametrize(
    ("K", "word"),
    [
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "semi-definite"),
        (np.array([[1.0, 0.0], [0.5, 1.0]]), "symmetric"),
        (np.ones(3), "semi-definite"),
        (np.zeros((0, 0)), "semi-definite"),
        (np.full((2, 2), np.nan), "finite"),
    ],
)
def test_what_is_no_kernel_matrix_is_refused(K: np.ndarray, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        bounds.kernel_spectrum(K)


def test_arguments_are_checked() -> None:
    found = bounds.kernel_spectrum(np.eye(3))
    for call in (
        lambda: found.entropy_number(0),
        lambda: found.entropy_number(5, B=-1.0),
        lambda: found.covering_number(0.0),
        lambda: bounds.kernel_spectrum(np.eye(3), centred="yes"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=r"n=|B=|eps=|centred="):
            call()
