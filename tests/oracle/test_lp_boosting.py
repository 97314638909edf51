"""LPBoost against HiGHS on the matrix of all stumps, and what its certificates promise."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from tests.helpers.exact_votes import dichotomies
from widemargin import LPBoostClassifier


def optimum(X, y, weight, nu):
    """Return the optimal objective over all stumps, by HiGHS."""
    signs = dichotomies(X) * np.where(y, 1.0, -1.0)
    T, n = signs.shape
    cost = np.minimum(weight / weight.sum() / nu, 2.0)
    found = linprog(
        np.concatenate([np.zeros(T), [-1.0], cost]),
        A_ub=np.hstack([-signs.T, np.ones((n, 1)), -np.eye(n)]),
        b_ub=np.zeros(n),
        A_eq=np.concatenate([np.ones(T), np.zeros(1 + n)])[None],
        b_eq=[1.0],
        bounds=[(0, None)] * T + [(-1, 1)] + [(0, None)] * n,
    )
    return found.fun


def problem(seed):
    """Draw samples, labels, weights and nu: numbers, grids, noise, float32."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(5, 80)), int(rng.integers(1, 7))
    X = rng.normal(size=(n, d)) if seed % 2 else rng.integers(-2, 3, (n, d)).astype(float)
    y = X.sum(axis=1) + rng.choice([0.1, 1.0, 5.0]) * rng.normal(size=n) > 0
    y[:2] = False, True
    weight = rng.integers(1, 4, n).astype(float) if seed % 3 else rng.uniform(0.1, 3.0, n)
    X = X.astype(np.float32) if seed % 5 == 0 else X
    return X, y, weight, float(rng.choice([0.001, 0.05, 0.2, 0.5, 0.9, 1.0]))


@pytest.mark.parametrize("seed", range(40))
def test_the_certificate_encloses_the_optimum_over_all_stumps(seed) -> None:
    X, y, weight, nu = problem(seed)
    model = LPBoostClassifier(nu=nu).fit(X, y, weight)
    proof, best = model.certificate_, optimum(X, y, weight, nu)
    assert proof.converged
    assert proof.gap <= 1e-6
    assert proof.dual - 1e-8 <= best <= proof.primal + 1e-8
    # The published model has the stated objective, by other sums.
    alphas, margins = np.asarray(model.alphas_), model.margins_
    assert alphas.sum() == 1.0
    assert (alphas > 0).all()
    share = weight / weight.sum() / nu
    objective = share @ np.maximum(model.rho_ - margins, 0.0) - model.rho_
    assert objective == pytest.approx(proof.primal, abs=1e-12)
    # ... and the distribution proves the bound.
    u = np.asarray(model.distribution_)
    assert u.sum() == pytest.approx(1.0, abs=1e-12)
    assert (u <= share * (1 + 1e-12)).all()
    edges = dichotomies(X) @ (np.where(y, 1.0, -1.0) * u)
    assert -edges.max() == pytest.approx(proof.dual, abs=1e-12)


@pytest.mark.parametrize("seed", range(1, 7))
def test_dense_sparse_and_repeated_samples_give_the_same_model(seed) -> None:
    X, y, _, nu = problem(seed)
    rng = np.random.default_rng(seed)
    copies = rng.integers(0, 4, len(y))
    copies[:2] = 1
    weighted = LPBoostClassifier(nu=nu).fit(X, y, copies)
    rows = rng.permutation(np.repeat(np.arange(len(y)), copies))
    repeated = LPBoostClassifier(nu=nu).fit(X[rows], y[rows])
    sparse = LPBoostClassifier(nu=nu).fit(sp.csr_array(X), y, copies)
    for other in (repeated, sparse):
        assert other.estimators_ == weighted.estimators_
        np.testing.assert_array_equal(other.alphas_, weighted.alphas_)
        assert other.certificate_ == weighted.certificate_
    np.testing.assert_array_equal(repeated.margins_, weighted.margins_[rows])


@pytest.mark.parametrize("nu", [0.05, 0.2, 0.5])
def test_nu_bounds_the_margin_errors(nu) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 5))
    y = X[:, 0] + X[:, 1] + rng.normal(size=150) > 0
    model = LPBoostClassifier(nu=nu).fit(X, y)
    below, at_most = model.margins_ < model.rho_ - 1e-5, model.margins_ <= model.rho_ + 1e-5
    assert below.mean() <= nu <= at_most.mean()
    assert model.margins_.min() <= model.margin_limit_
    for rho in (-1.0, 0.0, 0.5 * model.rho_, model.rho_, 1.0):
        assert (model.margins_ < rho).mean() <= model.margin_bound(rho)


def test_every_feature_map_that_keeps_the_order_gives_the_same_votes() -> None:
    X, y, weight, _ = problem(7)
    one = LPBoostClassifier(nu=0.2).fit(X, y, weight)
    other = LPBoostClassifier(nu=0.2).fit(np.exp(3.0 * X), y, weight)
    np.testing.assert_allclose(one.margins_, other.margins_, atol=1e-4)
    assert one.certificate_.primal == pytest.approx(other.certificate_.primal, abs=1e-6)


def test_many_values_per_feature_are_searched_exactly() -> None:
    """With more than 255 values the bound needs cuts inside bins."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(700, 2))
    y = X[:, 0] + 0.5 * rng.normal(size=700) > 0.3
    model = LPBoostClassifier(nu=0.4).fit(X, y)
    assert model.certificate_.converged
    edges = dichotomies(X) @ (np.where(y, 1.0, -1.0) * model.distribution_)
    assert -edges.max() == pytest.approx(model.certificate_.dual, abs=1e-12)
