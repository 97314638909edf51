"""Gaussian-process regression against scikit-learn's, retraining, and explicit formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from widemargin import GPRegressor, loo


def drawn(n=60, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = 3.0 + np.sin(2.0 * X[:, 0]) + X[:, -1] + 0.2 * rng.normal(size=n)
    return X, y, rng.normal(size=(25, d))


def theirs(model, mean_variance):
    """Return scikit-learn's estimator of the same fixed prior."""
    kernel = ConstantKernel(model.amplitude) * RBF(np.sqrt(0.5 / np.asarray(model.gamma)))
    if mean_variance:
        kernel = kernel + ConstantKernel(mean_variance)
    return GaussianProcessRegressor(kernel, alpha=model.noise, optimizer=None)


# -- the posterior ---------------------------------------------------------------------------


@pytest.mark.parametrize("mean_variance", [0.0, 2.5])
@pytest.mark.parametrize("noise", [1e-4, 0.05, 3.0])
@pytest.mark.parametrize("gamma", [0.1, [0.5, 0.01, 2.0]])
@pytest.mark.parametrize("seed", range(3))
def test_the_posterior_is_that_of_scikit_learn(mean_variance, noise, gamma, seed):
    X, y, Z = drawn(seed=seed)
    model = GPRegressor(amplitude=2.0, noise=noise, gamma=gamma, mean_variance=mean_variance)
    peer = theirs(model, mean_variance).fit(X, y)
    model.fit(X, y)
    for option in ("return_std", "return_cov"):
        mean, spread = model.predict(Z, **{option: True})
        expected, their_spread = peer.predict(Z, **{option: True})
        np.testing.assert_allclose(mean, expected, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(spread, their_spread, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(model.predict(Z), expected, rtol=1e-8, atol=1e-8)
    assert model.log_evidence_ == pytest.approx(peer.log_marginal_likelihood_value_, rel=1e-8)


def test_the_linear_kernel_is_scikit_learns_dot_product():
    X, y, Z = drawn()
    kernel = ConstantKernel(0.5) * DotProduct(sigma_0=1.0)
    peer = GaussianProcessRegressor(kernel, alpha=0.3, optimizer=None).fit(X, y)
    model = GPRegressor(kernel="linear", amplitude=0.5, noise=0.3, mean_variance=0.5).fit(X, y)
    np.testing.assert_allclose(
        model.predict(Z, return_std=True), peer.predict(Z, return_std=True), rtol=1e-8, atol=1e-8
    )


def test_a_flat_prior_is_the_limit_of_a_wide_one():
    X, y, Z = drawn()
    flat = GPRegressor(amplitude=1.5, noise=0.1, gamma=0.3).fit(X, y)
    b = 1e9
    wide = GPRegressor(amplitude=1.5, noise=0.1, gamma=0.3, mean_variance=b).fit(X, y)
    np.testing.assert_allclose(
        flat.predict(Z, return_std=True), wide.predict(Z, return_std=True), rtol=1e-6
    )
    limit = wide.log_evidence_ + 0.5 * np.log(2.0 * np.pi * b)
    assert flat.log_evidence_ == pytest.approx(limit, rel=1e-6)
    assert np.isinf(flat.mean_variance_)


def test_amplitude_and_noise_are_those_that_scikit_learn_finds():
    X, y, _ = drawn(n=80)
    model = GPRegressor(gamma=0.5, mean_variance=0.0).fit(X, y)
    kernel = ConstantKernel(1.0, (1e-3, 1e5)) * RBF(1.0, "fixed") + WhiteKernel(0.1, (1e-6, 1e3))
    peer = GaussianProcessRegressor(kernel, alpha=0.0, n_restarts_optimizer=5, random_state=0)
    peer.fit(X, y)
    found = peer.kernel_
    assert model.log_evidence_ >= peer.log_marginal_likelihood_value_ - 1e-6
    assert model.amplitude_ == pytest.approx(found.k1.k1.constant_value, rel=1e-3)
    assert model.noise_ == pytest.approx(found.k2.noise_level, rel=1e-3)


# -- weights and leave-one-out ---------------------------------------------------------------


@pytest.mark.parametrize("mean_variance", [0.0, 2.0, np.inf])
def test_a_weight_is_a_number_of_copies_in_the_evidence(mean_variance):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(8, 2)), rng.normal(size=8)
    weight = rng.integers(1, 4, size=8)
    options = {"amplitude": 1.3, "noise": 0.2, "gamma": 0.7}
    model = GPRegressor(**options, mean_variance=mean_variance).fit(X, y, weight)
    X, y = np.repeat(X, weight, axis=0), np.repeat(y, weight)
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    b = mean_variance if np.isfinite(mean_variance) else 1e5
    C = 1.3 * np.exp(-0.7 * squares) + 0.2 * np.eye(len(y)) + b
    expected = multivariate_normal(np.zeros(len(y)), C).logpdf(y)
    if np.isinf(mean_variance):
        expected += 0.5 * np.log(2.0 * np.pi * b)
    assert model.log_evidence_ == pytest.approx(
        expected, rel=1e-3 if np.isinf(mean_variance) else 1e-9
    )


@pytest.mark.parametrize("mean_variance", [0.0, 2.0, np.inf])
@pytest.mark.parametrize("rank", [None, 12])
@pytest.mark.parametrize("seed", range(3))
def test_leave_one_out_is_retraining(mean_variance, rank, seed):
    rng = np.random.default_rng(seed)
    X, y, _ = drawn(n=14, d=2, seed=seed)
    X[3], y[3] = X[5], y[5]  # merged
    X[7] = X[8]  # the same place, another target
    weight = rng.choice([0.0, 0.5, 1.0, 2.0, 3.5], size=14)
    weight[[3, 5]] = 0.5, 2.0
    options = {"amplitude": 2.0, "noise": 0.1, "gamma": 0.5, "mean_variance": mean_variance}
    model = GPRegressor(**options, rank=rank).fit(X, y, weight)
    # With as many pivots as distinct samples the two posteriors are the same.
    for i in range(14):
        fewer = weight.copy()
        fewer[i] = max(0.0, weight[i] - 1.0)
        refit = GPRegressor(**options).fit(X, y, fewer)
        mean, std = refit.predict(X[[i]], return_std=True)
        assert model.loo_mean_[i] == pytest.approx(mean[0], abs=1e-7)
        assert model.loo_variance_[i] == pytest.approx(std[0] ** 2, abs=1e-7)
        density = norm(mean[0], np.sqrt(std[0] ** 2 + 0.1)).logpdf(y[i])
        assert model.loo_log_density_[i] == pytest.approx(density, abs=1e-6)
    result = loo.result(model)
    assert result.error == pytest.approx(weight @ abs(y - model.loo_mean_) / weight.sum())
    assert result.kind == ("exact" if rank is None else "exact at fixed pivots")


# -- inducing points -------------------------------------------------------------------------


@pytest.mark.parametrize("mean_variance", [0.0, 1.5, np.inf])
def test_inducing_points_are_the_explicit_formula(mean_variance):
    X, y, Z = drawn(n=50)
    options = {"amplitude": 2.0, "noise": 0.1, "gamma": 0.3, "mean_variance": mean_variance}
    model = GPRegressor(**options, rank=15).fit(X, y)
    pivots = X[model.support_]
    assert len(pivots) == 15

    def k(A, B):
        return 2.0 * np.exp(-0.3 * ((A[:, None] - B[None]) ** 2).sum(axis=2))

    inverse = np.linalg.inv(k(pivots, pivots))
    b = mean_variance if np.isfinite(mean_variance) else 1e5
    features = k(X, pivots)
    low_rank = features @ inverse @ features.T
    C = low_rank + 0.1 * np.eye(50) + b
    cross = k(Z, pivots) @ inverse @ features.T + b
    mean, cov = model.predict(Z, return_cov=True)
    solved = np.linalg.solve(C, cross.T)
    atol = 1e-3 if np.isinf(mean_variance) else 1e-7
    np.testing.assert_allclose(mean, solved.T @ y, atol=atol)
    np.testing.assert_allclose(cov, k(Z, Z) + b - cross @ solved, atol=atol)
    np.testing.assert_allclose(model.predict(Z), mean, rtol=1e-10)
    rest = 2.0 - np.diag(low_rank)
    bound = multivariate_normal(np.zeros(50), C).logpdf(y) - 0.5 * rest.sum() / 0.1
    if np.isinf(mean_variance):
        bound += 0.5 * np.log(2.0 * np.pi * b)
    assert model.log_evidence_ == pytest.approx(bound, abs=atol)
    assert model.rank_error_ == pytest.approx(rest.max() / 2.0, rel=1e-6)
    assert model.log_evidence_ < GPRegressor(**options).fit(X, y).log_evidence_
