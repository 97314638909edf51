"""Bounds of the naive mean-field problem, against mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from tests.helpers.exact_likelihoods import maximiser, psi
from widemargin._base.enclosure import Enclosure
from widemargin.kernels import Kernel, Rows
from widemargin.problems.mean_field import naive
from widemargin.problems.mean_field.bounds import Covariance, Terms

DIGITS = 140


def terms(c, v, n):
    problem = naive(np.ones(n), np.ones(n), np.full(n, c), v)
    return problem, Terms(Enclosure.exact(problem.cavity), problem)


@pytest.mark.parametrize("c", [1e-6, 1.0, 1e12])
@pytest.mark.parametrize("v", [1e-2, 1.0, 10.0])
def test_terms_are_enclosed(c, v):
    strengths = 10.0 ** np.linspace(-12, 6, 40) / np.sqrt(c + v)
    problem, of = terms(c, v, 40)
    found = of.of_strengths(Enclosure.exact(strengths), problem.fields_of(strengths))
    with mpmath.workdps(DIGITS):
        for i, strength in enumerate(strengths):
            exact = psi(*(mpmath.mpf(float(x)) for x in (strength, c, v)))
            assert found.lower()[i] <= exact <= found.upper()[i]
    relevant = np.maximum(1.0, v * strengths**2)
    assert (found.error <= 1e-13 * relevant).all()


@pytest.mark.parametrize("c", [1e-6, 1.0, 1e12])
@pytest.mark.parametrize("v", [1e-2, 10.0])
@pytest.mark.parametrize("start", ["near", "far"])
def test_conjugates_are_bounded_from_above(c, v, start):
    """From any starting point; closely from a good one."""
    s = np.concatenate([-(10.0 ** np.linspace(-3, 4, 15)), [0.0], 10.0 ** np.linspace(-3, 1, 15)])
    s = s * np.sqrt(c + v)
    problem, of = terms(c, v, len(s))
    t = problem.supporting(s, np.zeros(len(s)))
    with np.errstate(all="ignore"):
        found = of.conjugate(s, t if start == "near" else t + 0.1)
    with mpmath.workdps(DIGITS):
        for i in range(len(s)):
            C, V, z = (mpmath.mpf(float(x)) for x in (c, v, s[i]))
            at = maximiser(C, V, mpmath.sqrt(C + V), z)
            P = mpmath.erfc(-at / mpmath.sqrt(2)) / 2
            sigma = mpmath.npdf(at) / P / mpmath.sqrt(C + V)
            exact = -z * sigma - psi(sigma, C, V)
            assert found.upper()[i] >= exact
            if start == "near":
                assert found.upper()[i] <= exact + 1e-11 * max(1.0, abs(float(exact)))


def test_a_conjugate_without_noise_is_infinite_at_zero():
    """Fields at the root, or left of it where the slope is not positive, give finite bounds."""
    _, of = terms(1.0, 0.0, 3)
    with np.errstate(all="ignore"):
        found = of.conjugate(np.array([0.0, 1.0, -1.0]), np.array([-5.0, 0.3, -5.0])).upper()
    assert np.isinf(found[[0, 2]]).all()
    assert found[1] < np.inf


@pytest.mark.parametrize("name", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("offset", [0.0, 2.0])
def test_fields_of_float64_and_of_more_digits_agree(name, offset):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    rows = Rows(Kernel(name, gamma=0.5, coef0=1.0, degree=3), X)
    K = rows.matrix()
    K[np.diag_indices(30)] = rows.diagonal()
    known, A = Covariance(K + offset, rows, offset), rng.normal(size=30)
    plain, precise = known.fields(A, precise=False), known.fields(A, precise=True)
    assert (np.abs(plain.hi - precise.hi) <= plain.error + precise.error).all()
    assert (precise.error < 1e-4 * plain.error).all()
    assert (np.abs(K + offset) <= np.outer(known.size, known.size) * (1 + 1e-12)).all()
