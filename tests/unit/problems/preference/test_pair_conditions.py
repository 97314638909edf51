"""Optimality conditions of all pairs: the sweep against the pairs themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin import OrdinalSVC
from widemargin.problems.preference import preference_problem
from widemargin.problems.preference.conditions import largest_slack, largest_surplus


def all_pairs(codes, group, weight):
    upper, lower = np.nonzero(
        (codes[:, None] > codes[None, :])
        & (group[:, None] == group[None, :])
        & (np.multiply.outer(weight, weight) > 0)
    )
    return upper, lower


@given(seed=st.integers(0, 10**6), ranks=st.integers(2, 12), groups=st.integers(1, 3))
def test_extremes_over_pairs(seed, ranks, groups):
    rng = np.random.default_rng(seed)
    n = 30
    codes, group = rng.integers(0, ranks, n), rng.integers(0, groups, n)
    group[:2], codes[:2] = 0, (0, 1)  # at least one pair
    weight = rng.integers(0, 3, n).astype(float)
    weight[:2] = 1.0
    problem = preference_problem(codes, C=1.0, group=group, weight=weight)
    f = np.round(rng.normal(size=n), 1)  # ties
    g = f + 0.3 * rng.normal(size=n)
    upper, lower = all_pairs(codes, group, weight)
    rows = problem.sort(f)
    # Slacks of the pairs as the sweep sees them: utilities are centred in their group first.
    centred = np.empty(n)
    centred[rows.order] = rows.f
    z_f = 1.0 - (centred[upper] - centred[lower])
    z_g = 1.0 - (g[upper] - g[lower])
    for bound in (-0.5, 0.0, 0.31, 1.0):
        expected = z_g[z_f < bound].max(initial=-np.inf)
        assert largest_slack(rows, g, bound) == pytest.approx(expected, abs=1e-12)
        expected = (-z_g[z_f > bound]).max(initial=-np.inf)
        assert largest_surplus(rows, g, bound) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_sharp_fit_meets_the_conditions(kernel):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=80), [-0.7, 0.7])
    certificate = OrdinalSVC(kernel=kernel, tol=1e-10).fit(X, y).certificate_
    assert certificate.converged
    assert certificate.kkt_violation < 1e-6
