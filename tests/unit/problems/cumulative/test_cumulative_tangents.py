"""Losses and slopes of the links within the bounds that they state, against mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from tests.helpers.exact_likelihoods import DENSITIES, log_probability
from widemargin.problems.cumulative.links import LINKS
from widemargin.problems.cumulative.tangents import losses, tangents

DIGITS = 400


def ends(link, n=300):
    """Return intervals of all sizes, around zero and far in both tails, some without an end."""
    rng = np.random.default_rng(0)
    a = rng.uniform(-6, 6, n)
    some = n // 4
    a[:some] = rng.uniform(-60, 5 if link == "cloglog" else 30, some)
    a[some : some + 20] = rng.uniform(-760, -30, 20)
    b = a + 10.0 ** rng.uniform(-9, 1.3, n)
    b[some : some + 10] = a[some : some + 10] + rng.uniform(0, 700, 10)
    kind = rng.integers(0, 6, n)
    return np.where(kind == 0, -np.inf, a), np.where(kind == 1, np.inf, b)


def exact(link, a, b):
    """Return loss, p, q and score in many digits."""
    low, high = (mpmath.mpf(float(t)) if np.isfinite(t) else None for t in (a, b))
    log, density = log_probability(link, low, high), DENSITIES[link][0]
    p = 0 if low is None else density(low) * mpmath.exp(-log)
    q = 0 if high is None else density(high) * mpmath.exp(-log)
    return -log, p, q, q - p


@pytest.mark.parametrize("link", LINKS)
def test_losses_and_slopes_are_enclosed(link):
    a, b = ends(link)
    found = tangents(link, a, b)
    for i in range(len(a)):
        with mpmath.workdps(DIGITS):
            for k, value in enumerate(exact(link, a[i], b[i])):
                away = abs(value - mpmath.mpf(float(found[2 * k][i])))
                assert away <= found[2 * k + 1][i], (a[i], b[i], k)


@pytest.mark.parametrize("link", LINKS)
def test_the_bounds_are_close(link):
    """A few dozen units in the last place for ordinary intervals, wide or short."""
    rng = np.random.default_rng(1)
    a = rng.uniform(-4, 3 if link != "cloglog" else 1, 500)
    b = a + 10.0 ** rng.uniform(-6, 0.3, 500)
    found = tangents(link, a, b)
    for value, error in zip(found[::2], found[1::2], strict=True):
        assert (error <= 2e-14 * np.maximum(1.0, np.abs(value))).all() or link == "probit"
        assert (error <= 2e-12 * np.maximum(1.0, np.abs(value))).all()


@pytest.mark.parametrize("link", LINKS)
def test_losses_agree_with_those_of_the_link(link):
    a, b = ends(link)
    found, kept = losses(link, a, b), (a > -30) | np.isinf(a)
    with np.errstate(divide="ignore"):
        plain = LINKS[link].loss(a, b)
    kept &= np.isfinite(plain) & (b - a > 1e-4)
    np.testing.assert_allclose(found.hi[kept], plain[kept], rtol=1e-9)


@pytest.mark.parametrize("link", LINKS)
def test_nothing_is_known_of_an_empty_interval(link):
    a, b = np.array([1.0, 1.0]), np.array([1.0, 0.0])
    assert (losses(link, a, b).upper() == np.inf).all()
    assert np.isinf(tangents(link, a, b).loss_error).all()
