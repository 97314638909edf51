"""Enclosures contain the exact results of their formulas, for numbers of all sizes."""

from __future__ import annotations

import operator
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from widemargin._base.double_double import EXP_CHARGE, EXP_ULP, U, exp_minus
from widemargin._base.enclosure import Enclosure
from widemargin._base.products import combine, times

seeds = st.integers(0, 2**32 - 1)


def _numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape) * 10.0 ** rng.integers(-8, 9, size=shape)


def _exact(values: np.ndarray) -> list[Fraction]:
    return [Fraction(float(v)) for v in np.ravel(values)]


def _contains(found: Enclosure, exact: list[Fraction]) -> bool:
    low, high = np.atleast_1d(found.lower()), np.atleast_1d(found.upper())
    return all(Fraction(a) <= x <= Fraction(b) for a, x, b in zip(low, exact, high, strict=True))


@given(seed=seeds)
def test_arithmetic_encloses_the_exact_results(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, c = _numbers(rng, 3, 12)
    x, y, z = _exact(a), _exact(b), _exact(c)
    one = Enclosure.exact(a) * b + c - 1.0
    exact = [p * q + r - 1 for p, q, r in zip(x, y, z, strict=True)]
    assert _contains(one, exact)
    assert _contains(one * one, [v * v for v in exact])
    assert _contains(abs(one), [abs(v) for v in exact])
    assert _contains(one.positive_part(), [max(v, Fraction(0)) for v in exact])
    assert _contains(one.sum(), [sum(exact, Fraction(0))])
    assert _contains(one.dot(b), [sum((v * q for v, q in zip(exact, y, strict=True)), Fraction(0))])
    assert _contains(one / b, [v / q for v, q in zip(exact, y, strict=True)])


def _drawn(rng: np.random.Generator, *shape: int) -> Enclosure:
    """Draw enclosed numbers; some of them are exact."""
    hi = _numbers(rng, *shape)
    lo = 0.5 * U * hi * rng.uniform(-1, 1, shape)
    error = np.abs(hi) * 10.0 ** rng.uniform(-40, 0, shape) * (rng.random(shape) < 0.6)
    return Enclosure(hi, lo, error)


def _ends(found: Enclosure) -> list[list[Fraction]]:
    """Return the exact ends of the enclosing intervals."""
    middle = [a + b for a, b in zip(_exact(found.hi), _exact(found.lo), strict=True)]
    return [[m - e, m + e] for m, e in zip(middle, _exact(found.error), strict=True)]


@pytest.mark.parametrize("name", ["add", "sub", "mul"])
@given(seed=seeds)
def test_every_pair_of_enclosed_numbers_stays_enclosed(name: str, seed: int) -> None:
    """Arrays of one shape, an array and a number, and two numbers give the same."""
    rng, work = np.random.default_rng(seed), getattr(operator, name)
    a, b = _drawn(rng, 5), _drawn(rng, 5)
    found = work(a, b)
    for x, y, (low, high) in zip(_ends(a), _ends(b), _ends(found), strict=True):
        assert all(low <= work(p, q) <= high for p in x for q in y)
    for k in range(5):
        alone = work(a[k], b[k])
        assert (alone.hi, alone.lo, alone.error) == (found.hi[k], found.lo[k], found.error[k])
        assert work(a, b[k]).hi[k] == found.hi[k]
        assert work(a[k], b).error[k] == found.error[k]


def test_shapes_are_broadcast() -> None:
    column, row = Enclosure.exact(np.ones((2, 1))), np.arange(3.0)
    assert (column * row).hi.tolist() == [[0.0, 1.0, 2.0]] * 2
    assert (column + row).hi.shape == (2, 3)
    assert (Enclosure.exact(np.zeros(0)) * 2.0).hi.shape == (0,)
    assert (Enclosure.exact(np.broadcast_to(3.0, 4)) - 1.0).hi.tolist() == [2.0] * 4


@given(seed=seeds, precise=st.booleans(), sparse=st.booleans())
def test_products_enclose_the_exact_products(seed: int, precise: bool, sparse: bool) -> None:
    rng = np.random.default_rng(seed)
    X, w, a = _numbers(rng, 9, 4), _numbers(rng, 4), _numbers(rng, 9)
    rows = [_exact(row) for row in X]
    right, left = _exact(w), _exact(a)
    data = sp.csr_array(X) if sparse else X
    of_rows = [sum(x * v for x, v in zip(row, right, strict=True)) for row in rows]
    of_columns = [sum(row[t] * v for row, v in zip(rows, left, strict=True)) for t in range(4)]
    assert _contains(times(data, w, precise=precise), of_rows)
    assert _contains(combine(data, a, precise=precise), of_columns)


def test_an_unknown_number_has_infinite_bounds() -> None:
    unknown = Enclosure.exact(np.array([np.inf])) * 0.0
    assert (unknown.lower(), unknown.upper()) == (-np.inf, np.inf)


@pytest.mark.parametrize("largest", [1e-12, 1.0, 40.0, 699.0])
def test_exp_in_double_double_is_as_accurate_as_stated(largest: float) -> None:
    with mpmath.workdps(60):
        for t in np.random.default_rng(0).uniform(0.0, largest, 300):
            high, low = exp_minus(float(t), 0.0)
            exact = mpmath.exp(-mpmath.mpf(float(t)))
            error = abs(mpmath.mpf(high) + mpmath.mpf(low) - exact)
            assert error <= EXP_CHARGE * U * U * exact + mpmath.mpf("1e-320")  # underflow


@pytest.mark.parametrize("largest", [1e-12, 1.0, 40.0, 699.0])
def test_exp_of_numpy_is_as_accurate_as_assumed(largest: float) -> None:
    t = np.random.default_rng(1).uniform(0.0, largest, 1000)
    with mpmath.workdps(40):
        for x, value in zip(t, np.exp(-t), strict=True):
            exact = mpmath.exp(-mpmath.mpf(float(x)))
            assert abs(mpmath.mpf(float(value)) - exact) <= EXP_ULP * 2 * U * exact
