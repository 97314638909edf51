"""Bounds on the error: their numbers, and that they say when they say nothing."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

from widemargin import bounds

# Worked out apart from the library, for kappa = 65 and delta = 0.05.
KNOWN = [(10_000, 2.78827), (40_000, 0.905143), (100_000, 0.422778), (1_000_000, 0.0595421)]


@pytest.mark.parametrize(("m", "expected"), KNOWN)
def test_known_values(m, expected):
    adaptive = bounds.adaptive_margin(m=m, R=1.0, W=1.0, D=0.0, delta=0.05)
    fixed = bounds.margin_distribution(m=m, R=1.0, D=0.0, rho=1.0, delta=0.05)
    assert adaptive == pytest.approx(expected, rel=2e-6)
    assert fixed == adaptive
    assert adaptive.dimension == fixed.dimension == 65
    assert adaptive.vacuous == (expected >= 1)
    assert not adaptive.unmet


def test_formula_by_hand():
    m, R, D, rho, delta = 200_000, 2.0, 0.3, 0.7, 0.01
    kappa = math.floor(65 * ((R + D) ** 2 + 2.25 * R * D) / rho**2)
    first = kappa * math.log2(8 * math.e * m / kappa) * math.log2(32 * m)
    expected = 2 / m * (first + math.log2(2 * m * (28 + math.log2(m)) / delta))
    found = bounds.margin_distribution(m, R, D, rho, delta)
    assert found.dimension == kappa
    assert found == pytest.approx(expected, rel=1e-14)


def test_dimension_is_rounded_down_but_never_by_a_rounding_error():
    # 65 * (0.1 * 10)^2 and the like must not become 64.
    for R in np.linspace(0.01, 20, 500):
        assert bounds.adaptive_margin(10**5, R=R, W=1 / R, D=0.0, delta=0.1).dimension == 65
    assert bounds.adaptive_margin(10**5, R=1.0, W=1.007, D=0.0, delta=0.1).dimension == 65
    assert bounds.adaptive_margin(10**5, R=1.0, W=1.008, D=0.0, delta=0.1).dimension == 66


def test_adaptive_bound_is_not_below_the_one_it_rests_on():
    """(2.25): [(R + D/W)^2 + 2.25 R D/W] W^2 <= (W R + 3 D)^2."""
    rng = np.random.default_rng(0)
    for R, W, D in rng.uniform(1.0, 4.0, (200, 3)):
        adaptive = bounds.adaptive_margin(10**6, R, W, D, 0.05)
        rested_on = bounds.margin_distribution(10**6, R, D / W, 1 / W, 0.05)
        assert adaptive >= rested_on


def test_monotone_in_what_makes_learning_hard():
    def at(**changed):
        given = {"m": 10**5, "R": 1.0, "W": 2.0, "D": 0.5, "delta": 0.05} | changed
        return bounds.adaptive_margin(**given)

    assert at(m=2 * 10**5) < at() < at(W=2.5)
    assert at() < at(D=0.6)
    assert at() < at(delta=0.001)


def test_conditions_that_are_not_met_are_named():
    large = bounds.margin_distribution(m=100, R=10.0, D=50.0, rho=0.1, delta=0.05)
    assert large.vacuous
    assert any("kappa <= e m" in condition for condition in large.unmet)
    assert large == math.inf  # though the formula would fall below zero here
    no_margin = bounds.adaptive_margin(m=10**7, R=0.5, W=0.5, D=0.0, delta=0.05)
    assert no_margin < 1
    assert no_margin.vacuous
    assert "W R >= 1" in repr(no_margin)


def test_never_falls_where_the_dimension_grows():
    sizes = np.geomspace(1.0, 1e4, 60)
    found = [bounds.adaptive_margin(1_000, 1.0, W, 0.0, 0.05) for W in sizes]
    assert found == sorted(found)
    assert 1 < found[0] < math.inf == found[-1]


def test_a_bound_is_a_number_that_survives_copies():
    bound = bounds.adaptive_margin(m=10**5, R=1.0, W=1.0, D=0.0, delta=0.05)
    for twin in (copy.copy(bound), copy.deepcopy(bound), pickle.loads(pickle.dumps(bound))):
        assert twin == bound
        assert (twin.name, twin.unmet, twin.dimension) == (bound.name, (), 65)
    assert float(bound) + 1 == bound + 1
    assert repr(bound) == "Bound(0.4228)"
    assert "2.2" in bound.name


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"m": 0}, "m must be a positive integer"),
        ({"m": 2.5}, "m must be a positive integer"),
        ({"m": True}, "m must be a positive integer"),
        ({"R": -1.0}, "R must be a finite number, not negative"),
        ({"D": np.nan}, "D must be a finite number, not negative"),
        ({"rho": 0.0}, "rho must be a positive number"),
        ({"delta": 0.0}, "delta must be a probability"),
        ({"delta": 1.0}, "delta must be a probability"),
    ],
)
def test_bad_arguments(changed, message):
    given = {"m": 100, "R": 1.0, "D": 0.0, "rho": 1.0, "delta": 0.05} | changed
    with pytest.raises(ValueError, match=message):
        bounds.margin_distribution(**given)


def test_bad_norm():
    with pytest.raises(ValueError, match="W must be a finite number, not negative"):
        bounds.adaptive_margin(m=100, R=1.0, W=-1.0, D=0.0, delta=0.05)


# ---------------------------------------------------------------- ordinal margins


def test_ordinal_margin_by_hand() -> None:
    # k = 64, n = 2^9: 2/512 (64 log2(8 e 512 / 64) log2(2^14) + log2(2^12 / 2^-3))
    value = 2 / 512 * (64 * (math.log2(math.e) + 6) * 14 + 15)
    bound = bounds.ordinal_margin(m=1025, R=1.0, rho=1.0, delta=0.125)
    assert bound == pytest.approx(value, rel=1e-14)
    assert bound.dimension == 64
    assert bound == bounds.ordinal_margin(m=1024, R=1.0, rho=1.0, delta=0.125)
    # as printed, m - 1 takes the place of floor(m / 2)
    printed = bounds.ordinal_margin(m=513, R=1.0, rho=1.0, delta=0.125, pairs="printed")
    assert printed == bound


def test_ordinal_margin_known_values() -> None:
    arguments = {"m": 1_000_000, "R": 1.0, "rho": 0.5, "delta": 0.05}
    assert bounds.ordinal_margin(**arguments, pairs="printed") == pytest.approx(0.20907, abs=5e-6)
    assert bounds.ordinal_margin(**arguments) == pytest.approx(0.37687, abs=5e-6)
    assert not bounds.ordinal_margin(**arguments).vacuous


@pytest.mark.parametrize(
    ("pairs", "ratio", "smallest"),
    [
        ("printed", 2, 1.6e5),
        ("printed", 10, 4.9e6),
        ("disjoint", 2, 3.1e5),
        ("disjoint", 10, 9.8e6),
    ],
)
def test_rows_that_an_ordinal_bound_needs(pairs: str, ratio: float, smallest: float) -> None:
    def value(m: float) -> float:
        return bounds.ordinal_margin(int(m), R=ratio, rho=1.0, delta=0.05, pairs=pairs)

    assert value(0.97 * smallest) > 1 > value(1.04 * smallest)


def test_ordinal_margin_as_printed_is_no_theorem() -> None:
    bound = bounds.ordinal_margin(10**7, R=1.0, rho=1.0, delta=0.05, pairs="printed")
    assert bound < 1
    assert bound.vacuous
    assert "share rows" in repr(bound)


def test_ordinal_margin_beyond_its_reach_is_infinite() -> None:
    n = 100
    inside = 8.0 / math.sqrt(math.floor(math.e * n))  # k = floor(e n) exactly
    assert math.isfinite(bounds.ordinal_margin(2 * n, R=1.0, rho=inside, delta=0.05))
    outside = bounds.ordinal_margin(
        2 * n, R=1.0, rho=8.0 / math.sqrt(math.ceil(math.e * n)), delta=0.05
    )
    assert outside == math.inf
    assert outside.vacuous
    assert "k <= e n" in repr(outside)


def test_samples_at_one_place_leave_only_the_confidence() -> None:
    with pytest.raises(ValueError, match="rho must be at most 0"):
        bounds.ordinal_margin(200, R=0.0, rho=1e-9, delta=0.05)
    bound = bounds.shawe_taylor(100, k=0, delta=0.05)
    assert bound.dimension == 0
    assert bound == pytest.approx(2 / 100 * math.log2(800 / 0.05))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("m", v) for v in (0, 1, -5, 2.5, True)],
        *[("R", v) for v in (-1.0, math.nan, math.inf)],
        *[("rho", v) for v in (0.0, -1.0, math.nan)],
        *[("delta", v) for v in (0.0, 1.0, 2)],
        *[("pairs", v) for v in ("all", None)],
    ],
)
def test_bad_arguments_of_ordinal_margin(name: str, value: object) -> None:
    arguments = {"m": 100, "R": 1.0, "rho": 1.0, "delta": 0.05, "pairs": "disjoint"}
    with pytest.raises(ValueError, match=f"^{name} must be"):
        bounds.ordinal_margin(**{**arguments, name: value})
