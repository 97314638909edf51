"""Every calculator of `bounds`: a value worked out by hand, how it moves, what it refuses."""

from __future__ import annotations

import copy
import doctest
import inspect
import math
import pickle

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from widemargin import AdaBoostClassifier, bounds

GOOD = {
    "perceptron": {"R": 2.0, "rho": 0.5, "b": 1.0},
    "vc": {"n": 1000, "h": 11, "delta": 0.05, "empirical_risk": 0.1, "c": 2.0},
    "vc_lower": {"n": 1000, "h": 11, "delta": 0.05, "best_risk": 0.1, "c": 0.1},
    "vc_margin_dimension": {"R": 2.0, "rho": 0.5, "N": 40},
    "fat_linear": {"R": 2.0, "rho": 0.5},
    "fat_l1": {"R": 2.0, "eps": 0.5, "N": 40, "c": 2.0},
    "covering_number": {"eps": 0.5, "B": 2.0, "m": 1000, "fat": 16},
    "margin_cover": {"m": 1000, "rho": 0.5, "R": 2.0, "delta": 0.05, "margin_error": 0.1},
    "regression_cover": {"m": 10**7, "delta": 0.05, "empirical_risk": 0.1, "fat": 3},
    "linear_margin": {
        "m": 1000, "R": 2.0, "rho": 0.5, "delta": 0.05, "margin_error": 0.1, "c": 2.0
    },
    "convex_combination": {
        "m": 1000, "h": 3, "rho": 0.5, "delta": 0.05, "margin_error": 0.1, "c": 2.0
    },
    "adaboost": {"eps": [0.2, 0.3], "rho": 0.1},
    "adaboost_rounds": {"rho": 0.1, "margin_error": 0.05},
    "margin_distribution": {"m": 1000, "R": 2.0, "D": 0.5, "rho": 0.5, "delta": 0.05},
    "adaptive_margin": {"m": 1000, "R": 2.0, "W": 1.0, "D": 0.5, "delta": 0.05},
    "ordinal_margin": {"m": 1000, "R": 2.0, "rho": 0.5, "delta": 0.05},
    "shawe_taylor": {"m": 1000, "k": 16, "delta": 0.05},
}  # fmt: skip
LENGTHS = st.floats(1e-3, 1e3)
SHARES = st.floats(0.0, 1.0)
PROBABILITIES = st.floats(1e-9, 0.999)
ROWS = st.integers(100, 10**9)


def value(name, **changed):
    return getattr(bounds, name)(**{**GOOD[name], **changed})


# ---------------------------------------------------------------- by hand


def test_perceptron_by_hand():
    assert value("perceptron") == 40.0  # (1 + 1) (4 + 1) / 0.25
    # The row x = 0.64 with the plane of best angle, b / w = 1 / 0.64: the bound is tight at 1.
    b = 1 / 0.64
    assert bounds.perceptron(R=0.64, rho=0.64 + b, b=b) == pytest.approx(1.0)
    # As printed, with the square of the length for R, one update would be more than allowed.
    assert bounds.perceptron(R=0.64**2, rho=0.64 + b, b=b) == pytest.approx(0.828, abs=5e-4)
    assert bounds.perceptron(R=1.0, rho=0.0, b=0.0) == math.inf
    assert bounds.perceptron(R=1.0, rho=-2.0, b=0.0) == math.inf


def test_vc_by_hand():
    # h - ln(e^-5) = 20, c / n = 1 / 2000: the root of 1/100
    found = bounds.vc(n=4000, h=15, delta=math.exp(-5), empirical_risk=0.25, c=2.0)
    assert found == pytest.approx(0.35, rel=1e-12)
    assert found.dimension == 15
    assert not found.vacuous


def test_vc_lower_by_hand():
    found = bounds.vc_lower(n=4000, h=15, delta=math.exp(-5), best_risk=0.25, c=2.0)
    assert found == pytest.approx(0.35, rel=1e-12)
    assert found.lower
    assert not found.vacuous
    beyond = bounds.vc_lower(n=10, h=15, delta=math.exp(-5), best_risk=0.25, c=2.0)
    assert beyond == pytest.approx(2.25, rel=1e-12)
    assert beyond.vacuous
    assert "no error is above 1" in repr(beyond)


def test_vc_margin_dimension_by_hand():
    assert bounds.vc_margin_dimension(R=1.0, rho=0.25, N=100) == 17  # 16 + 1
    assert bounds.vc_margin_dimension(R=1.0, rho=0.3, N=100) == 12  # 11.1 + 1, an integer
    assert bounds.vc_margin_dimension(R=1.0, rho=0.25, N=5) == 6
    assert bounds.vc_margin_dimension(R=1.0, rho=0.25, N=math.inf) == 17
    assert bounds.vc_margin_dimension(R=1.0, rho=1e-200, N=math.inf) == math.inf
    assert bounds.vc_margin_dimension(R=1.0, rho=1e-200, N=7) == 8


def test_fat_linear_by_hand():
    assert bounds.fat_linear(R=2.0, rho=0.5) == 16
    assert bounds.fat_linear(R=0.1, rho=0.02) == 25  # 24.999999999999996 in floating point
    assert bounds.fat_linear(R=1.0, rho=1.5) == 0
    assert bounds.fat_linear(R=1e300, rho=1e-300) == math.inf


def test_fat_l1_by_hand():
    # 3 (2 / 0.5)^2 ln(2 * 49 + 2) = 48 ln 100
    assert bounds.fat_l1(R=2.0, eps=0.5, N=49, c=3.0) == pytest.approx(48 * 4.605170185988091)


def test_covering_number_by_hand():
    # 4 e B m / eps = 4 e * 2 * 128 / (1/4) = e 2^12; 3 * 10 * (12 + log2 e)^2
    found = bounds.covering_number(eps=0.25, B=2.0, m=128, fat=10)
    assert found.log2_upper == pytest.approx(30 * (12 + 1.4426950408889634) ** 2, rel=1e-13)
    assert (found.log2_lower, found.unmet) == (0.0, ())
    both = bounds.covering_number(eps=0.25, B=2.0, m=128, fat=lambda s: {1 / 16: 10, 4.0: 2}[s])
    assert both.log2_upper == found.log2_upper
    assert both.log2_lower == pytest.approx(1.4426950408889634 / 4, rel=1e-13)
    rich = bounds.covering_number(eps=0.25, B=2.0, m=9, fat=10)
    assert rich.log2_upper == math.inf
    assert "m >= fat" in rich.unmet[0]


def test_margin_cover_by_hand():
    # R = 1, rho = 1: k = 64; 4 e B 2m / (rho / 2) = 32 e m = e 2^17 for m = 2^12.
    bits = 192 * (17 + 1.4426950408889634) ** 2
    none_below = bounds.margin_cover(m=4096, rho=1.0, R=1.0, delta=2.0**-5, margin_error=0.0)
    assert none_below == pytest.approx(2 / 4096 * (bits + 1 + 5), rel=1e-13)
    assert none_below.dimension == 64
    some = bounds.margin_cover(m=4096, rho=1.0, R=1.0, delta=2.0**-5, margin_error=0.25)
    nats = 0.6931471805599453 * (bits + 6)
    assert some == pytest.approx(0.25 + math.sqrt(8 / 4096 * nats), rel=1e-13)


def test_margin_cover_known_values():
    found = bounds.margin_cover(m=10**6, rho=0.5, R=1.0, delta=0.05, margin_error=0.0)
    assert found == pytest.approx(1.15101, abs=5e-6)
    assert found.vacuous
    rich = bounds.margin_cover(m=127, rho=0.5, R=1.0, delta=0.05, margin_error=0.0)
    assert rich == math.inf  # k = 256 > 2m
    assert "2m >= k" in repr(rich)


@pytest.mark.parametrize(
    ("margin_error", "ratio", "smallest"),
    [(0.0, 2, 1.17e6), (0.0, 10, 4.78e7), (1e-12, 2, 3.64e6), (1e-12, 10, 1.448e8)],
)
def test_rows_that_a_cover_needs(margin_error, ratio, smallest):
    def at(m):
        return bounds.margin_cover(int(m), 1.0, float(ratio), 0.05, margin_error)

    assert at(0.995 * smallest) > 1 > at(1.005 * smallest)


@pytest.mark.parametrize(("ratio", "smallest"), [(2, 1.6e5), (10, 5.0e6)])
def test_rows_that_a_distribution_of_margins_needs(ratio, smallest):
    def at(m):
        return bounds.margin_distribution(int(m), R=float(ratio), D=0.0, rho=1.0, delta=0.05)

    assert at(0.97 * smallest) > 1 > at(1.03 * smallest)


def test_regression_cover_solves_its_equation():
    m, delta, fat = 10**7, 0.05, 3
    found = bounds.regression_cover(m=m, delta=delta, empirical_risk=0.0, fat=fat)
    eps = float(found)
    # 4 N exp(-eps^2 m / 32) = delta, N by (1.39) at eps / 16 on 2m points
    bits = 3 * fat * math.log2(4 * math.e * 2 * m * 16 / eps) ** 2
    left = math.log(4) + bits * math.log(2) - eps**2 * m / 32
    assert left == pytest.approx(math.log(delta), abs=1e-6)
    shifted = bounds.regression_cover(m=m, delta=delta, empirical_risk=0.125, fat=fat)
    assert shifted == pytest.approx(0.125 + eps, rel=1e-12)
    assert shifted.of == "mean squared error on new rows"


def test_regression_cover_with_a_dimension_that_depends_on_the_scale():
    def fat(scale):
        return bounds.fat_linear(1.0, scale)

    m = 10**12
    found = bounds.regression_cover(m=m, delta=0.05, empirical_risk=0.0, fat=fat)
    assert found.dimension == fat(float(found) / 64)
    by_number = bounds.regression_cover(m=m, delta=0.05, empirical_risk=0.0, fat=found.dimension)
    assert found == pytest.approx(by_number, rel=1e-4)
    assert bounds.regression_cover(m=10**4, delta=0.05, empirical_risk=0.0, fat=fat) == math.inf


def test_linear_margin_by_hand():
    # m R / rho = e^4 * 2 / 2 is not whole; take m = 1000, R = 2, rho = 1: ln 2000, ratio 4.
    term = 3 / 1000 * (4 * 7.600902459542082**2 + 5)
    arguments = {"m": 1000, "R": 2.0, "rho": 1.0, "delta": math.exp(-5), "c": 3.0}
    assert bounds.linear_margin(**arguments, margin_error=0.0) == pytest.approx(term, rel=1e-12)
    some = bounds.linear_margin(**arguments, margin_error=0.1)
    assert some == pytest.approx(0.1 + math.sqrt(term), rel=1e-12)


def test_linear_margin_does_not_depend_on_the_unit_of_length():
    for unit in (1e-3, 7.0, 1e5):
        scaled = value("linear_margin", R=2.0 * unit, rho=0.5 * unit)
        assert scaled == pytest.approx(value("linear_margin"), rel=1e-12)


def test_convex_combination_by_hand():
    # m / h = 100: 2 * ln(100)^2 / 0.25 + 5 over 200 rows, times c = 0.5
    term = 0.5 / 200 * (2 * 4.605170185988091**2 / 0.25 + 5)
    found = bounds.convex_combination(
        m=200, h=2, rho=0.5, delta=math.exp(-5), margin_error=0.1, c=0.5
    )
    assert found == pytest.approx(0.1 + math.sqrt(term), rel=1e-12)
    few = bounds.convex_combination(m=2, h=3, rho=0.5, delta=0.1, margin_error=0.1, c=0.5)
    assert few == math.inf
    assert "m >= h" in repr(few)


def test_adaboost_by_hand():
    # rho = 0: the product of 2 sqrt(eps (1 - eps)) = 0.8 * 0.6
    assert bounds.adaboost([0.2, 0.1], rho=0.0) == pytest.approx(0.8 * 0.6, rel=1e-14)
    # rho = 1: the product of 2 (1 - eps)
    assert bounds.adaboost([0.2, 0.1], rho=1.0) == pytest.approx(1.6 * 1.8, rel=1e-14)
    # rho = 1/2, eps = 1/5: 2 (1/5)^(1/4) (4/5)^(3/4)
    assert bounds.adaboost([0.2], rho=0.5) == pytest.approx(2 * 0.2**0.25 * 0.8**0.75, rel=1e-14)


def test_adaboost_is_the_printed_product():
    rng = np.random.default_rng(0)
    eps = rng.uniform(0.0, 0.5, 30)
    for rho in (-0.3, 0.0, 0.17, 0.9):
        printed = 2.0**30 * np.prod(np.sqrt(eps ** (1 - rho) * (1 - eps) ** (1 + rho)))
        assert bounds.adaboost(eps, rho) == pytest.approx(printed, rel=1e-12)


def test_adaboost_of_ten_thousand_rounds():
    found = bounds.adaboost(np.full(10_000, 0.1), rho=0.1)
    exact = 10_000 * (math.log(2) + 0.45 * math.log(0.1) + 0.55 * math.log(0.9))
    assert found == 0.0  # too small for a number
    assert found.log == pytest.approx(exact, rel=1e-12)
    many = bounds.adaboost(np.full(10_000, 0.4999), rho=0.0)
    assert many == pytest.approx(math.exp(5_000 * math.log1p(-4e-8)), rel=1e-10)
    large = bounds.adaboost(np.full(10_000, 0.4), rho=1.0)
    assert large == math.inf  # 1.2^10000
    assert large.vacuous


def test_a_round_without_error():
    assert bounds.adaboost([0.3, 0.0], rho=0.5) == 0.0
    assert bounds.adaboost([0.0], rho=1.0) == 2.0  # 0^0 = 1: no margin is below 1, but that is it


def test_adaboost_needs_an_edge():
    found = bounds.adaboost([0.2, 0.5], rho=0.0)
    assert found.vacuous
    assert found.unmet == ("every weighted error below 1/2 (round 2 has 0.5)",)


def test_adaboost_uniform_form():
    """(1.87): below (1 - rho^2)^(T/2) if all errors are at most 1/2 - 2 rho."""
    found = bounds.adaboost([0.3, 0.1, 0.25], rho=0.1)
    assert found.uniform == pytest.approx(0.99**1.5, rel=1e-14)
    assert bounds.adaboost([0.31, 0.1], rho=0.1).uniform is None
    assert bounds.adaboost([0.1], rho=0.0).uniform is None


@settings(max_examples=200, deadline=None)
@given(rho=st.floats(1e-3, 0.2499), shares=st.lists(SHARES, min_size=1, max_size=30))
def test_uniform_form_is_the_larger_one(rho, shares):
    found = bounds.adaboost([share * (0.5 - 2 * rho) for share in shares], rho)
    assert found.uniform is not None
    assert found < found.uniform


@settings(max_examples=100, deadline=None)
@given(rho=st.floats(0.01, 0.24), margin_error=st.floats(1e-6, 0.99))
def test_rounds_bring_the_uniform_form_below_what_is_asked_for(rho, margin_error):
    rounds = bounds.adaboost_rounds(rho, margin_error)
    found = bounds.adaboost(np.full(rounds, 0.5 - 2 * rho), rho)
    assert found.uniform is not None
    assert found.uniform <= margin_error


def test_adaboost_rounds_by_hand():
    assert bounds.adaboost_rounds(rho=0.1, margin_error=math.exp(-2.9999)) == 600


def test_shawe_taylor_by_hand():
    # k = 4, m = 2^9: 2/512 (4 (10 + log2 e) 14 + log2(2^12 / 2^-3))
    expected = 2 / 512 * (4 * (1.4426950408889634 + 10) * 14 + 15)
    assert bounds.shawe_taylor(m=512, k=4, delta=0.125) == pytest.approx(expected, rel=1e-13)
    assert bounds.shawe_taylor(m=512, k=0, delta=0.125) == pytest.approx(2 / 512 * 15)
    found = bounds.shawe_taylor(m=10**6, k=256, delta=0.05)
    assert found == pytest.approx(0.20907, abs=5e-6)
    ordinal = bounds.ordinal_margin(m=2 * 10**6, R=1.0, rho=0.5, delta=0.05)
    assert found == ordinal
    beyond = bounds.shawe_taylor(m=10, k=28, delta=0.05)
    assert beyond == math.inf
    assert "k <= e n" in repr(beyond)
    assert math.isfinite(bounds.shawe_taylor(m=10, k=27, delta=0.05))


# ---------------------------------------------------------------- monotone

RISES, FALLS = 1, -1
MOVES = [
    ("perceptron", {"R": RISES, "rho": FALLS}, {"R": LENGTHS, "rho": LENGTHS, "b": LENGTHS}),
    ("perceptron", {"b": RISES}, {"R": LENGTHS, "rho": LENGTHS, "b": LENGTHS}),
    (
        "vc",
        {"n": FALLS, "h": RISES, "delta": FALLS, "empirical_risk": RISES, "c": RISES},
        {"n": ROWS, "h": LENGTHS, "delta": PROBABILITIES, "empirical_risk": SHARES, "c": LENGTHS},
    ),
    (
        "vc_lower",
        {"n": FALLS, "h": RISES, "delta": FALLS, "best_risk": RISES, "c": RISES},
        {
            "n": ROWS, "h": st.floats(1, 1e3), "delta": PROBABILITIES, "best_risk": SHARES,
            "c": LENGTHS,
        },
    ),
    (
        "vc_margin_dimension",
        {"R": RISES, "rho": FALLS, "N": RISES},
        {"R": LENGTHS, "rho": LENGTHS, "N": st.integers(1, 10**6)},
    ),
    ("fat_linear", {"R": RISES, "rho": FALLS}, {"R": LENGTHS, "rho": LENGTHS}),
    (
        "fat_l1",
        {"R": RISES, "eps": FALLS, "N": RISES, "c": RISES},
        {"R": LENGTHS, "eps": LENGTHS, "N": st.integers(1, 10**6), "c": LENGTHS},
    ),
    (
        "margin_cover",
        {"m": FALLS, "rho": FALLS, "R": RISES, "delta": FALLS},
        {
            "m": ROWS, "rho": LENGTHS, "R": LENGTHS, "delta": PROBABILITIES,
            "margin_error": st.just(0.0) | SHARES,
        },
    ),
    (
        "margin_cover",
        {"margin_error": RISES},
        {
            "m": ROWS, "rho": LENGTHS, "R": LENGTHS, "delta": PROBABILITIES,
            "margin_error": st.floats(1e-6, 1.0),
        },
    ),
    (
        "regression_cover",
        {"m": FALLS, "delta": FALLS, "empirical_risk": RISES, "fat": RISES},
        {
            "m": ROWS, "delta": PROBABILITIES, "empirical_risk": SHARES,
            "fat": st.integers(0, 50),
        },
    ),
    (
        "linear_margin",
        {"m": FALLS, "rho": FALLS, "R": RISES, "delta": FALLS, "c": RISES},
        {
            "m": ROWS, "rho": st.floats(1e-3, 0.5), "R": st.floats(1.0, 1e3),
            "delta": PROBABILITIES, "margin_error": st.just(0.0) | SHARES, "c": LENGTHS,
        },
    ),
    (
        "linear_margin",
        {"margin_error": RISES},
        {
            "m": ROWS, "rho": LENGTHS, "R": LENGTHS, "delta": PROBABILITIES,
            "margin_error": st.floats(1e-6, 1.0), "c": LENGTHS,
        },
    ),
    (
        "convex_combination",
        {
            "m": FALLS, "h": RISES, "rho": FALLS, "delta": FALLS, "margin_error": RISES,
            "c": RISES,
        },
        {
            "m": ROWS, "h": st.floats(1, 10), "rho": st.floats(1e-3, 1), "delta": PROBABILITIES,
            "margin_error": SHARES, "c": LENGTHS,
        },
    ),
    (
        "margin_distribution",
        {"m": FALLS, "R": RISES, "D": RISES, "rho": FALLS, "delta": FALLS},
        {"m": ROWS, "R": LENGTHS, "D": LENGTHS, "rho": LENGTHS, "delta": PROBABILITIES},
    ),
    (
        "adaptive_margin",
        {"m": FALLS, "R": RISES, "W": RISES, "D": RISES, "delta": FALLS},
        {"m": ROWS, "R": LENGTHS, "W": LENGTHS, "D": LENGTHS, "delta": PROBABILITIES},
    ),
    (
        "ordinal_margin",
        {"m": FALLS, "R": RISES, "rho": FALLS, "delta": FALLS},
        {"m": ROWS, "R": LENGTHS, "rho": LENGTHS, "delta": PROBABILITIES},
    ),
    (
        "shawe_taylor",
        {"m": FALLS, "k": RISES, "delta": FALLS},
        {"m": ROWS, "k": st.integers(0, 10**6), "delta": PROBABILITIES},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "moves", "arguments"), MOVES, ids=lambda v: str(v)[:60])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_monotone_as_the_theorem_says(name, moves, arguments, data):
    here = {key: data.draw(strategy, label=key) for key, strategy in arguments.items()}
    moved = data.draw(st.sampled_from(sorted(moves)), label="what changes")
    there = {**here, moved: data.draw(arguments[moved], label=f"{moved} there")}
    assume(here[moved] != there[moved])
    assume(all(given.get("rho", 0.0) <= given.get("R", math.inf) for given in (here, there)))
    low, high = sorted((here, there), key=lambda given: given[moved])
    first, second = getattr(bounds, name)(**low), getattr(bounds, name)(**high)
    less, more = (first, second) if moves[moved] == RISES else (second, first)
    assert less <= more * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(
    eps=st.floats(1e-3, 10), finer=st.floats(0.1, 1), m=st.integers(100, 10**6),
    fat=st.integers(0, 100), B=LENGTHS, more=st.integers(0, 100),
)  # fmt: skip
def test_covering_numbers_are_monotone(eps, finer, m, fat, B, more):
    here = bounds.covering_number(eps, B, m, fat).log2_upper
    assert bounds.covering_number(eps * finer, B, m, fat).log2_upper >= here
    assert bounds.covering_number(eps, B, m + more, fat).log2_upper >= here
    assert bounds.covering_number(eps, B * 2, m, fat).log2_upper >= here
    assert bounds.covering_number(eps, B, m, fat + more).log2_upper >= here


@settings(max_examples=60, deadline=None)
@given(
    eps=st.lists(st.floats(0.001, 0.499), min_size=1, max_size=40),
    rho=SHARES,
    more=SHARES,
    worse=st.floats(0.0, 0.4999),
)
def test_adaboost_is_monotone(eps, rho, more, worse):
    here = bounds.adaboost(eps, rho).log
    assert bounds.adaboost(eps, rho + (1 - rho) * more).log >= here - 1e-9
    # One round of a given rho only helps while its error is below (1 - rho) / 2.
    if max(worse, eps[0]) <= (1 - rho) / 2:
        rises = bounds.adaboost([max(worse, eps[0]), *eps[1:]], rho).log
        assert rises >= here - 1e-9


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), rho=SHARES)
def test_adaboost_bounds_what_it_is_about(seed, rho):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 2))
    y = X[:, 0] + 0.5 * rng.normal(size=40) > 0
    assume(0 < y.sum() < 40)
    model = AdaBoostClassifier(15).fit(X, y)
    assert (model.margins_ < rho).mean() <= bounds.adaboost(model.errors_, rho) + 1e-12


# ---------------------------------------------------------------- bad arguments

NOT_POSITIVE = [0.0, -1.0, math.nan, math.inf, "1", None, True]
NEGATIVE = [-1.0, math.nan, math.inf, "1", None, True]
NO_PROBABILITY = [0.0, 1.0, -0.5, 2, math.nan, "0.5", None, True]
NO_SHARE = [-0.1, 1.1, math.nan, "0.5", None, True]
NO_COUNT = [0, -3, 2.5, math.nan, "3", None, True]
BAD = {
    "m": NO_COUNT, "n": NO_COUNT, "delta": NO_PROBABILITY, "c": NOT_POSITIVE, "rho": NOT_POSITIVE,
    "R": NEGATIVE, "D": NEGATIVE, "W": NEGATIVE, "h": NEGATIVE, "margin_error": NO_SHARE,
    "empirical_risk": NO_SHARE, "best_risk": NO_SHARE, "eps": NOT_POSITIVE, "B": NOT_POSITIVE,
    "N": [0, -1, 2.5, math.nan, "3", None, True], "k": [-1, math.nan, "3", None, True],
    "fat": [-1, math.nan, "3", None, True, lambda scale: -1.0],
    "b": [math.nan, math.inf, "1", None],
}  # fmt: skip
SPECIAL = {
    ("perceptron", "rho"): [math.nan, math.inf, "1", None, True],
    ("adaboost", "rho"): [-1.1, 1.1, math.nan, "1", None, True],
    ("adaboost", "eps"): [[], [-0.1], [1.1], [math.nan], [[0.1]], "0.1", None, ["a"]],
    ("adaboost_rounds", "rho"): [0.0, -1.0, 0.25, 1.0, math.nan, "1", None, True],
    ("adaboost_rounds", "margin_error"): NO_PROBABILITY,
    ("vc_lower", "h"): [*NEGATIVE, 0.5],
    ("convex_combination", "h"): [*NEGATIVE, 0.5],
}
REFUSED = [
    (name, argument, bad)
    for name, good in GOOD.items()
    for argument in good
    for bad in SPECIAL.get((name, argument), BAD[argument])
]


@pytest.mark.parametrize(("name", "argument", "bad"), REFUSED)
def test_bad_arguments_are_named(name, argument, bad):
    with pytest.raises(ValueError, match=f"^{argument} must be"):
        value(name, **{argument: bad})


@pytest.mark.parametrize(
    "name", ["vc", "vc_lower", "linear_margin", "fat_l1", "convex_combination"]
)
def test_an_unknown_constant_has_no_default(name):
    arguments = {key: given for key, given in GOOD[name].items() if key != "c"}
    with pytest.raises(TypeError, match="'c'"):
        getattr(bounds, name)(**arguments)


# ---------------------------------------------------------------- types and documents


def test_numbers_that_are_no_error_rates_are_plain():
    for name in ("perceptron", "vc_margin_dimension", "fat_linear", "fat_l1", "adaboost_rounds"):
        assert type(value(name)) in (int, float)
    assert not isinstance(value("covering_number"), bounds.Bound)


@pytest.mark.parametrize("name", ["vc_lower", "adaboost", "regression_cover", "margin_cover"])
def test_bounds_survive_copies(name):
    bound = value(name)
    for twin in (copy.copy(bound), copy.deepcopy(bound), pickle.loads(pickle.dumps(bound))):
        assert twin == bound
        assert type(twin) is type(bound)
        assert vars(twin) == vars(bound)


def test_numpy_numbers_are_numbers():
    for name, good in GOOD.items():
        wrapped = {k: np.float64(v) if isinstance(v, float) else v for k, v in good.items()}
        assert getattr(bounds, name)(**wrapped) == getattr(bounds, name)(**good)


@pytest.mark.parametrize("name", bounds.__all__)
def test_examples_print_what_they_say(name):
    item = getattr(bounds, name)
    assert len((inspect.getdoc(item) or "").splitlines()) > 3
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder(recurse=False).find(item, name, globs={}):
        runner.run(test)
    assert runner.tries > 0
    assert runner.failures == 0


@pytest.mark.parametrize(
    ("bound", "fixed", "limit"),
    [
        (bounds.margin_distribution, {"m": 10**6, "R": 1.0, "D": 0.0, "delta": 0.05}, 1.0),
        (bounds.margin_cover, {"m": 100, "R": 2.0, "delta": 0.05, "margin_error": 0.0}, 2.0),
        (bounds.linear_margin, {"m": 100, "R": 1.0, "delta": 0.05, "margin_error": 0.5, "c": 1.0},
         1.0),
        (bounds.convex_combination,
         {"m": 10**4, "h": 3, "delta": 0.05, "margin_error": 0.0, "c": 1.0}, 1.0),
        (bounds.ordinal_margin, {"m": 10**5, "R": 2.0, "delta": 0.05}, 2.0),
    ],
)  # fmt: skip
def test_margins_that_no_sample_attains_are_refused(bound, fixed, limit):
    assert bound(rho=limit, **fixed) >= 0
    with pytest.raises(ValueError, match=f"rho must be at most {limit:g}.*got rho="):
        bound(rho=1.001 * limit, **fixed)


def test_all_samples_may_be_below_a_margin_that_none_attains():
    fixed = {"m": 100, "R": 1.0, "delta": 0.05, "margin_error": 1.0}
    assert bounds.margin_cover(rho=5.0, **fixed).vacuous
    assert bounds.linear_margin(rho=5.0, c=1.0, **fixed).vacuous
