"""GPRegressor: invariances, degenerate data, limits, storage, invalid input."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score

from widemargin import GPRegressor, LOOSearch, loo, suspects


def drawn(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, 5.0 + np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=n), rng.normal(size=(9, 2))


def test_predictions_follow_the_unit_and_the_origin_of_the_targets():
    X, y, Z = drawn()
    mean, std = GPRegressor().fit(X, y).predict(Z, return_std=True)
    moved = GPRegressor().fit(X, 1e4 * y - 3e6)
    new_mean, new_std = moved.predict(Z, return_std=True)
    np.testing.assert_allclose(new_mean, 1e4 * mean - 3e6, rtol=1e-7)
    np.testing.assert_allclose(new_std, 1e4 * std, rtol=1e-4)
    assert moved.certificate_.converged


def test_amplitude_and_noise_are_a_maximum_of_the_evidence():
    X, y, _ = drawn()
    for fixed in ({}, {"noise": 0.02}, {"amplitude": 2.0}):
        for mean_variance in (0.0, 3.0, np.inf):
            options = {"mean_variance": mean_variance, "gamma": 0.5}
            best = GPRegressor(**options, **fixed).fit(X, y)
            assert all(getattr(best, f"{name}_") == value for name, value in fixed.items())
            for name in {"amplitude", "noise"} - set(fixed):
                for factor in (0.9, 1.1):
                    near = {"amplitude": best.amplitude_, "noise": best.noise_}
                    near[name] *= factor
                    assert (
                        GPRegressor(**options, **near).fit(X, y).log_evidence_ < best.log_evidence_
                    )


def test_noise_is_found_on_a_subsample_of_many_samples():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(1500, 1))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=1500)
    assert GPRegressor(gamma=0.5).fit(X, y).noise_ == pytest.approx(0.09, rel=0.15)


def test_repetition_weight_and_order_are_equivalent():
    X, y, Z = drawn(15)
    weight = np.arange(15) % 4
    order = np.random.default_rng(0).permutation(int(weight.sum()))
    by_weight = GPRegressor().fit(X, y, weight)
    repeated = GPRegressor().fit(np.repeat(X, weight, axis=0)[order], np.repeat(y, weight)[order])
    np.testing.assert_array_equal(by_weight.predict(Z), repeated.predict(Z))
    assert by_weight.log_evidence_ == repeated.log_evidence_
    assert by_weight.loo_error_ == pytest.approx(repeated.loo_error_, rel=1e-9)


@pytest.mark.parametrize("rank", [None, 30])
def test_containers_agree(rank):
    X, y, Z = drawn()
    X[X < -0.5] = 0.0
    options = {"amplitude": 1.0, "noise": 0.1, "gamma": 0.4, "rank": rank}
    model = GPRegressor(**options).fit(X, y)
    mean, std = model.predict(Z, return_std=True)

    def kernel(A, B):
        return np.exp(-0.4 * ((A[:, None] - B[None]) ** 2).sum(axis=2))

    others = {
        "sparse": (GPRegressor(**options).fit(sp.csr_array(X), y), sp.csr_array(Z)),
        "sparse then dense": (GPRegressor(**options).fit(sp.csr_array(X), y), Z),
        "function": (GPRegressor(**(options | {"kernel": kernel, "gamma": "scale"})).fit(X, y), Z),
        "precomputed": (
            GPRegressor(**(options | {"kernel": "precomputed", "gamma": "scale"})).fit(
                kernel(X, X), y
            ),
            kernel(Z, X),
        ),
    }
    atol = 1e-8 if rank is None else 0.02  # pivots are drawn in the order of the samples
    for name, (other, new) in others.items():
        found = other.predict(new, return_std=True)
        np.testing.assert_allclose(found[0], mean, atol=atol, err_msg=name)
        np.testing.assert_allclose(found[1], std, atol=atol, err_msg=name)
        np.testing.assert_allclose(other.predict(new), found[0], rtol=1e-10)
        np.testing.assert_allclose(other.loo_mean_, model.loo_mean_, atol=atol, err_msg=name)
    single = GPRegressor(**options).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.predict(Z.astype(np.float32)), mean, atol=max(atol, 1e-5))


def test_a_precomputed_kernel_has_no_values_between_new_samples():
    X, y, Z = drawn()
    model = GPRegressor(kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(ValueError, match="between new samples"):
        model.predict(Z @ X.T, return_cov=True)
    with pytest.raises(ValueError, match="diagonal"):
        model.predict(Z @ X.T, return_std=True)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("y", [np.zeros(6), np.full(6, 7.0), np.full(6, -1e12)])
def test_constant_targets(kernel, y):
    X = np.random.default_rng(0).normal(size=(6, 2))
    model = GPRegressor(kernel=kernel).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, rtol=1e-6)
    assert np.isfinite(model.predict(X, return_std=True)[1]).all()


def test_one_sample_and_equal_samples():
    model = GPRegressor().fit([[1.0, 2.0]], [3.0])
    assert model.predict([[1.0, 2.0]])[0] == pytest.approx(3.0)
    assert model.loo_mean_[0] == 0.0
    assert np.isinf(model.loo_variance_[0])
    model = GPRegressor().fit(np.ones((5, 2)), np.arange(5.0))
    assert model.predict([[1.0, 1.0]])[0] == pytest.approx(2.0)
    assert np.isfinite(model.predict([[9.0, 9.0]], return_std=True)[1]).all()


def test_the_certificate_encloses_the_exact_optimum():
    rng = np.random.default_rng(0)
    for case in range(30):
        n = int(rng.integers(1, 6))
        X, y = rng.integers(-4, 5, size=(n, 2)).astype(float), rng.integers(-9, 10, size=n) / 4.0
        b = [0.0, 0.75, np.inf][case % 3]
        model = GPRegressor(kernel="linear", amplitude=0.5, noise=0.25, mean_variance=b).fit(X, y)
        optimum = exact_optimum(X, y, Fraction(1, 2), Fraction(1, 4), b)
        proof = model.certificate_
        assert Fraction(proof.dual) <= optimum <= Fraction(proof.primal)
        assert proof.relative_gap < 1e-9
        assert proof.converged


def exact_optimum(X, y, a, s, b):
    """Return y'Py / (2 a) in rational arithmetic, from the bordered system."""
    rows = [[Fraction(value) for value in row] for row in X]
    n = len(rows)
    system = [
        [a * sum(p * q for p, q in zip(r, t, strict=True)) + (s if i == j else 0)
         for j, t in enumerate(rows)]
        for i, r in enumerate(rows)
    ]  # fmt: skip
    targets = [Fraction(value) for value in y]
    right = list(targets)
    if b > 0:
        for row in system:
            row.append(Fraction(1))
        last = Fraction(0) if np.isinf(b) else -1 / Fraction(b)
        system.append([Fraction(1)] * n + [last])
        right.append(Fraction(0))
    solution = solved(system, right)
    return sum(c * t for c, t in zip(solution[:n], targets, strict=True)) / 2


def solved(system, right):
    """Solve a linear system of fractions by elimination."""
    n = len(system)
    table = [[*row, value] for row, value in zip(system, right, strict=True)]
    for k in range(n):
        pivot = next(i for i in range(k, n) if table[i][k] != 0)
        table[k], table[pivot] = table[pivot], table[k]
        for i in range(n):
            if i != k and table[i][k] != 0:
                factor = table[i][k] / table[k][k]
                table[i] = [p - factor * q for p, q in zip(table[i], table[k], strict=True)]
    return [table[k][n] / table[k][k] for k in range(n)]


# -- inducing points and memory --------------------------------------------------------------


def test_auto_is_exact_if_the_matrices_fit_into_memory():
    X, y, Z = drawn(400)
    options = {"amplitude": 1.0, "noise": 0.1, "gamma": 0.1}
    exact = GPRegressor(**options).fit(X, y)
    assert exact.rank_error_ == 0.0
    assert len(exact.support_) == 400
    with pytest.raises(ValueError, match="cache_size must be at least 3 megabytes"):
        GPRegressor(**options, rank=None, cache_size=1.0).fit(X, y)
    low = GPRegressor(**options, cache_size=1.0).fit(X, y)
    assert len(low.support_) < 150
    assert 0.0 < low.rank_error_ < 1e-3
    assert low.certificate_ is None
    assert low.certificates_ == []
    np.testing.assert_allclose(low.predict(Z), exact.predict(Z), atol=0.02)
    assert low.log_evidence_ <= exact.log_evidence_ + 1e-6


def test_more_inducing_points_do_not_lower_the_bound():
    X, y, _ = drawn(200)
    options = {"amplitude": 1.0, "noise": 0.1, "gamma": 0.3}
    bounds = [GPRegressor(**options, rank=k).fit(X, y).log_evidence_ for k in (5, 20, 80, 200)]
    assert np.all(np.diff(bounds) >= -1e-6)
    assert bounds[-1] == pytest.approx(GPRegressor(**options).fit(X, y).log_evidence_, abs=0.01)


# -- other functions of the library ----------------------------------------------------------


@pytest.mark.parametrize("rank", [None, 10])
def test_a_loaded_and_a_compact_model_say_the_same(rank):
    X, y, Z = drawn()
    model = GPRegressor(rank=rank).fit(X, y)
    expected = model.predict(Z, return_std=True)
    for other in (pickle.loads(pickle.dumps(model)), model.compact()):
        np.testing.assert_allclose(other.predict(Z, return_std=True), expected, rtol=1e-10)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(loaded.loo_mean_, model.loo_mean_, rtol=1e-10)
    with pytest.raises(ValueError, match="compact"):
        _ = model.compact().loo_variance_


def test_suspects_and_leave_one_out():
    X, y, _ = drawn()
    y[7] += 4.0
    model = GPRegressor(gamma=0.3).fit(X, y)
    assert suspects(model, 1)[0].row == 7
    assert suspects(model, 1, screen=0.2)[0].row == 7
    assert loo.result(model).kind == "exact at fixed amplitude and noise"
    np.testing.assert_array_equal(loo.decision_values(model), model.loo_mean_)
    with pytest.raises(ValueError, match="closed form"):
        loo.error(model, "span")


def test_search_by_all_scorings():
    X, y, _ = drawn()
    grid = {"gamma": [1e-3, 0.5, 100.0]}
    for scoring in ("error", "log_loss", "evidence"):
        search = LOOSearch(GPRegressor(), grid, scoring=scoring).fit(X, y)
        assert search.best_params_ == {"gamma": 0.5}
        assert np.isfinite(search.best_score_)
    best = search.best_estimator_
    search = LOOSearch(GPRegressor(), grid, scoring="log_loss").fit(X, y)
    assert search.best_score_ == pytest.approx(best.loo_log_density_.mean())
    assert cross_val_score(best, X, y).mean() > 0.8


# -- invalid input ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": 0.0}, "noise must be .* positive"),
        ({"noise": "much"}, "noise must be"),
        ({"amplitude": -1.0}, "amplitude must be"),
        ({"amplitude": np.inf}, "amplitude must be"),
        ({"mean_variance": -1.0}, "mean_variance must be"),
        ({"mean_variance": "flat"}, "mean_variance must be"),
        ({"rank": 0}, "rank must be"),
        ({"rank": 2.5}, "rank must be"),
        ({"rank": "low"}, "rank must be"),
        ({"kernel": "sigmoid"}, "positive semi-definite"),
        ({"kernel": lambda A, B: -(A @ B.T)}, "positive semi-definite"),
        ({"tol": 0.0}, "tol must be"),
    ],
)
def test_invalid_parameters_are_named(options, message):
    X, y, _ = drawn(20)
    with pytest.raises(ValueError, match=message):
        GPRegressor(**options).fit(X, y)


def test_noise_that_is_too_small():
    X = np.repeat(np.random.default_rng(0).normal(size=(20, 2)), 2, axis=0)
    y = np.arange(40.0)
    with pytest.raises(ValueError, match="noise must be larger"):
        GPRegressor(amplitude=1.0, noise=1e-18).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="Raise noise"):
        model = GPRegressor(amplitude=1.0, noise=1e-14, tol=1e-15).fit(X, y)
    assert not model.certificate_.converged


def test_not_both_uncertainties():
    X, y, Z = drawn(10)
    with pytest.raises(ValueError, match="choose one"):
        GPRegressor().fit(X, y).predict(Z, return_std=True, return_cov=True)
