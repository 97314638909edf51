"""Sums over pairs with proved errors, against rational sums over the pairs one by one."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from widemargin._base.enclosure import Enclosure
from widemargin.problems.preference import preference_problem
from widemargin.problems.preference.enclosed_pairs import EnclosedPairs


def some_problem(seed: int, n: int = 40, n_groups: int = 3):
    rng = np.random.default_rng(seed)
    codes, group = rng.integers(0, 5, n), rng.integers(0, n_groups, n)
    codes[:2], group[:2] = (0, 1), 0
    weight = 10.0 ** rng.uniform(-2, 2, n)
    weight[2:6] = 0.0
    return preference_problem(codes, C=1.0, group=group, weight=weight), rng


def utilities(kind: str, rng, n: int = 40):
    hi = {
        "spread": 1e6 * rng.normal(size=n),
        "near": np.round(rng.normal(size=n)),
        "ties": np.round(2.0 * rng.normal(size=n), 1),
    }[kind]
    return hi, (0.4 * np.spacing(hi) * rng.uniform(-1, 1, n) if kind != "ties" else 0.0 * hi)


def exact_moments(problem, hi, lo, level):
    """Return above, excess, below and deficit of every sample, in rational arithmetic."""
    v = [Fraction(h) + Fraction(low) for h, low in zip(hi, lo, strict=True)]
    s = [Fraction(w) for w in problem.weight]
    found = [[Fraction(0)] * len(v) for _ in range(4)]
    for i, j in itertools.product(range(len(v)), repeat=2):
        if problem.codes[i] <= problem.codes[j] or problem.group[i] != problem.group[j]:
            continue
        z = 1 - v[i] + v[j]
        if z > Fraction(level):
            for k, (at, value) in enumerate([(i, s[j]), (i, s[j] * z), (j, s[i]), (j, s[i] * z)]):
                found[k][at] += value
    return found


@pytest.mark.parametrize("level", [0.0, 0.3, -1e-9])
@pytest.mark.parametrize("kind", ["spread", "near", "ties"])
@pytest.mark.parametrize("seed", range(3))
def test_moments_enclose_the_sums_over_pairs(seed, kind, level):
    problem, rng = some_problem(seed)
    hi, lo = utilities(kind, rng)
    pairs = EnclosedPairs.of(problem, hi, lo)
    expected = exact_moments(problem, hi, lo, level)
    for found, exact in zip(pairs.moments(level), expected, strict=True):
        sums = pairs.scattered(found)
        size = 1e3 * problem.weight.sum() * (1.0 + np.abs(hi).max())
        for k, value in enumerate(exact):
            away = abs(Fraction(sums.hi[k]) + Fraction(sums.lo[k]) - value)
            assert away <= Fraction(sums.error[k])
            assert sums.error[k] <= 1e-28 * size


def test_squares_enclose_the_squared_slacks():
    problem, rng = some_problem(5)
    hi, lo = utilities("spread", rng)
    hi /= 1e6
    lo /= 1e6
    pairs = EnclosedPairs.of(problem, hi, lo)
    found = pairs.squares(pairs.moments(0.0))
    exact = Fraction(0)
    for i, j in itertools.product(range(40), repeat=2):
        if problem.codes[i] > problem.codes[j] and problem.group[i] == problem.group[j]:
            z = 1 - Fraction(hi[i]) - Fraction(lo[i]) + Fraction(hi[j]) + Fraction(lo[j])
            exact += Fraction(problem.weight[i]) * Fraction(problem.weight[j]) * max(z, 0) ** 2
    assert abs(Fraction(float(found.hi)) + Fraction(float(found.lo)) - exact) <= Fraction(
        float(found.error)
    )
    assert float(found.error) <= 1e-24 * float(exact)


def test_low_parts_decide_which_pairs_are_in_a_window():
    """The slack of the pair is the low part of its difference, which float64 sums do not see."""
    problem = preference_problem(np.array([0, 1]), C=1.0)
    hi = np.array([0.0, 1.0])
    for low, inside in ((1e-20, 0.0), (-1e-20, 1.0)):
        pairs = EnclosedPairs.of(problem, hi, np.array([0.0, low]))
        assert pairs.scattered(pairs.moments(0.0).above).hi[1] == inside


def test_the_number_of_pairs_is_rounded_once():
    problem, _ = some_problem(7)
    w = [Fraction(v) for v in problem.weight]
    exact = sum(
        w[i] * w[j]
        for i, j in itertools.product(range(40), repeat=2)
        if problem.codes[i] > problem.codes[j] and problem.group[i] == problem.group[j]
    )
    assert problem.n_pairs == float(exact)


def test_no_group_sees_another():
    problem, rng = some_problem(1)
    hi, lo = utilities("ties", rng)
    pairs = EnclosedPairs.of(problem, hi, lo)
    alone = replace(problem, group=np.zeros(40, np.int64))
    together = EnclosedPairs.of(alone, hi, lo)
    sums = [p.moments(0.0).above.dot(p.weight).hi for p in (pairs, together)]
    assert sums[0] < sums[1]
    assert isinstance(pairs.moments(0.0).above, Enclosure)
