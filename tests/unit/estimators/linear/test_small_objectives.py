"""Costs and targets so small that the objective is below 1: the gap is relative all the same."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from widemargin import LinearSVC, LinearSVR, sources

X, y = load_iris(return_X_y=True)
X = StandardScaler().fit_transform(X)


@pytest.mark.parametrize(
    "settings",
    [{}, {"loss": "hinge"}, {"penalty": "l1"}, {"multi_class": "crammer_singer"},
     {"intercept_scaling": 1}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("C", [1e-6, 1e-3])
def test_small_costs_are_solved(settings, C):
    model = LinearSVC(C=C, **settings).fit(X, y)
    for found in model.certificates_:
        assert found.primal < 1.0
        assert found.gap <= 1.01e-4 * found.primal


def test_small_costs_in_parts():
    dataset = sources.from_arrays(X, (y > 0).astype(int))
    found = LinearSVC(C=1e-6).fit(dataset)
    exact = LinearSVC(C=1e-6, tol=1e-9).fit(X, y > 0)
    np.testing.assert_allclose(found.coef_, exact.coef_, rtol=0.05, atol=1e-9)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_small_targets_are_fitted(loss):
    target = 1e-5 * (X @ np.array([1.0, 2.0, 3.0, 0.0]))
    assert LinearSVR(loss=loss, C=100.0).fit(X, target).score(X, target) > 0.99
