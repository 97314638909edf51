"""Rank boundaries against every possible choice of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.problems.ranks.thresholds import (
    between,
    margin_thresholds,
    optimal_thresholds,
    rank_of,
)


def cost(f, codes, weight, theta):
    """The weighted sum of rank errors, counted threshold by threshold from the definition."""
    predicted = np.array([sum(value > t for t in theta) for value in f])
    return float(weight @ np.abs(predicted - codes))


def brute_force(f, codes, weight, n_ranks):
    """The least cost over all monotone choices of cuts."""
    values = np.unique(f)
    everywhere = [values[0] - 1, *(0.5 * (values[:-1] + values[1:])), values[-1] + 1]
    choices = itertools.combinations_with_replacement(everywhere, n_ranks - 1)
    return min(cost(f, codes, weight, theta) for theta in choices)


@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(2, 7), st.booleans())
@settings(max_examples=80, deadline=None)
def test_the_optimal_thresholds_cost_no_more_than_any_others(seed, n_ranks, n, whole):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_ranks, n)
    f = np.round(codes + rng.standard_normal(n), 0 if rng.random() < 0.5 else 3)  # ties or none
    weight = rng.integers(0, 3, n).astype(float) if whole else rng.random(n)
    theta = optimal_thresholds(f, codes, weight, n_ranks)
    assert theta.shape == (n_ranks - 1,)
    assert np.all(np.diff(theta) >= 0)
    assert cost(f, codes, weight, theta) == pytest.approx(brute_force(f, codes, weight, n_ranks))
    assert np.array_equal(rank_of(f, theta), [(value > theta).sum() for value in f])


def test_many_ranks_cost_what_the_sums_say():
    """All ranks distinct: a quadratic method would hold 1.6e9 numbers here."""
    rng = np.random.default_rng(0)
    n = 40_000
    codes = rng.permutation(n)
    theta = optimal_thresholds(codes.astype(float), codes)
    assert np.array_equal(rank_of(codes.astype(float), theta), codes)
    assert np.array_equal(theta, np.arange(n - 1) + 0.5)


def test_a_rank_that_does_not_occur_is_never_predicted_where_data_are_separable():
    f, codes = np.array([0.0, 1.0, 5.0, 6.0]), np.array([0, 0, 2, 2])
    theta = optimal_thresholds(f, codes, n_ranks=4)
    assert cost(f, codes, np.ones(4), theta) == 0
    assert np.isfinite(theta).all()
    assert set(rank_of(f, theta)) == {0, 2}


def test_a_threshold_between_neighbouring_numbers_still_parts_them():
    low = 1.0
    high = np.nextafter(low, 2.0)
    theta = between(np.array([low, high]), np.array([1]))
    assert low <= theta[0] < high


def test_equal_utilities_share_a_rank():
    f, codes = np.zeros(5), np.array([0, 1, 1, 1, 2])
    assert set(rank_of(f, optimal_thresholds(f, codes))) == {1}


def test_margin_thresholds_lie_midway_where_ranks_are_separated():
    f = np.array([-1.0, 0.0, 1.0, 2.5, 3.5, 3.6])
    codes = np.array([0, 0, 1, 1, 2, 2])
    assert margin_thresholds(f, codes) == pytest.approx([0.5, 3.0])
    assert margin_thresholds(f, codes) == pytest.approx(optimal_thresholds(f, codes))


def test_margin_thresholds_are_the_mean_midpoint_of_pairs_at_the_margin():
    f, codes = np.array([0.0, 0.6, 1.0, 1.6, 1.2]), np.array([0, 0, 1, 1, 0])
    weight = np.array([1.0, 3.0, 1.0, 1.0, 1.0])  # pairs (0, 1) and, three times, (0.6, 1.6)
    assert margin_thresholds(f, codes, weight) == pytest.approx([(0.5 + 3 * 1.1) / 4])


def test_margin_thresholds_fall_back_on_the_closest_pair_then_on_the_optimal_cut():
    f, codes = np.array([0.0, 1.0, 0.7, 3.0]), np.array([0, 0, 1, 1])
    assert margin_thresholds(f, codes, slack=0.0) == pytest.approx([0.35])
    reversed_order = np.array([3.0, 2.0, 1.0, 0.0])
    found = margin_thresholds(reversed_order, codes)
    assert found == pytest.approx(optimal_thresholds(reversed_order, codes))


def test_margin_thresholds_are_monotone_and_ignore_rows_without_weight():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 6, 200)
    f = 0.2 * codes + rng.standard_normal(200)
    theta = margin_thresholds(f, codes)
    assert np.all(np.diff(theta) >= 0)
    more, more_codes = np.append(f, 0.5), np.append(codes, 0)
    weight = np.append(np.ones(200), 0.0)
    assert margin_thresholds(more, more_codes, weight) == pytest.approx(theta)
