"""The normal distribution's functions within the bounds that they state, against mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.special import erf, erfcx

from widemargin._base.double_double import U
from widemargin._base.normal import NORMAL_ULP, central_mass, density, hazard, mills, upper_tail

RIGHT, LEFT = 37.0, -1e8


def relative_error(value, exact):
    return float(abs(mpmath.mpf(float(value)) / exact - 1)) / U


@pytest.fixture(autouse=True)
def many_digits():
    with mpmath.workdps(60):
        yield


def points(n=600):
    rng = np.random.default_rng(0)
    return np.concatenate([rng.uniform(0, 27, n), 10.0 ** rng.uniform(-12, 1.4, n)])


def test_the_functions_of_scipy_are_as_accurate_as_assumed():
    for x, scaled, plain in zip(points(), erfcx(points()), erf(points()), strict=True):
        exact = mpmath.mpf(x)
        with mpmath.workdps(60):
            assert relative_error(scaled, mpmath.exp(exact**2) * mpmath.erfc(exact)) <= NORMAL_ULP
            assert relative_error(plain, mpmath.erf(exact)) <= NORMAL_ULP


def test_density_and_tails():
    t = points(200)
    dense, units = density(t)
    tail, tail_units = upper_tail(t)
    ratio, mass = mills(t), central_mass(t, 0.5 * t)
    for i, x in enumerate(t):
        exact = mpmath.mpf(x)
        upper = mpmath.erfc(exact / mpmath.sqrt(2)) / 2
        between = mpmath.erf(exact / mpmath.sqrt(2)) + mpmath.erf(exact / mpmath.sqrt(8))
        assert relative_error(dense[i], mpmath.npdf(exact)) <= units[i]
        assert relative_error(tail[i], upper) <= tail_units[i]
        assert relative_error(ratio[i], upper / mpmath.npdf(exact)) <= NORMAL_ULP + 8
        assert relative_error(mass[i], between / 2) <= NORMAL_ULP + 8


def test_hazards_are_enclosed_and_not_by_much():
    """Digits: the logarithm of a probability near 1 needs as many as the tail has zeros."""
    rng = np.random.default_rng(1)
    t = np.concatenate([
        rng.uniform(-45, RIGHT, 300), -(10.0 ** rng.uniform(-10, 8, 200)),
        np.linspace(-4.001, -3.999, 50), np.linspace(-1.01, 0.01, 50), [0.0, -1.0, -4.0, LEFT],
    ])  # fmt: skip
    found = hazard(t)
    for i, x in enumerate(t):
        with mpmath.workdps(700):
            exact = mpmath.mpf(x)
            if exact < -1000:  # F = x + 1/x - 2/x^3 ...: erfc would need more digits still
                far = -exact
                F = 1 / mpmath.nsum(
                    lambda k, far=far: (-1) ** k * mpmath.fac2(2 * k - 1) / far ** (2 * k + 1),
                    [0, 8],
                )
                log = -(exact**2) / 2 - mpmath.log(2 * mpmath.pi) / 2 - mpmath.log(F)
            else:
                P = mpmath.erfc(-exact / mpmath.sqrt(2)) / 2
                F, log = mpmath.npdf(exact) / P, mpmath.log(P)
            values = F, exact + F, log - exact * F - F * F / 2
            for value, enclosure in zip(values, found, strict=True):
                assert enclosure.lower()[i] <= value <= enclosure.upper()[i]
    relative = found.excess.error / np.abs(found.excess.hi)
    assert relative[t < 0].max() < 1e-13
    assert found.legendre.error[t > -100].max() < 4e-14
