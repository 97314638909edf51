"""Low-rank Gaussian processes: the exact model in the limit, the stated prior at any rank."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

from tests.helpers.byhand import gram
from tests.helpers.mean_field import solved
from widemargin import MeanFieldGPClassifier, tune
from widemargin.estimators.gp import low_rank
from widemargin.problems.mean_field import naive

GP = MeanFieldGPClassifier


def _rows(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n) > 0).astype(int)


def _agree(ours, theirs, new, tol):
    np.testing.assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=tol)
    np.testing.assert_allclose(ours.loo_proba_, theirs.loo_proba_, atol=tol)
    np.testing.assert_allclose(ours.log_evidence_, theirs.log_evidence_, atol=tol)
    for found, expected in zip(ours.predict_latent(new), theirs.predict_latent(new), strict=True):
        np.testing.assert_allclose(found, expected, atol=tol)


@pytest.mark.parametrize("flip_noise", [0.0, 0.1])
@pytest.mark.parametrize("inference", ["naive", "tap", "ep"])
def test_with_all_samples_induced_the_model_is_the_exact_one(inference, flip_noise) -> None:
    X, y = _rows()
    weight = 1.0 + np.arange(150) % 3
    options = {"inference": inference, "gamma": 2.0, "flip_noise": flip_noise}
    exact = GP(**options).fit(X, y, sample_weight=weight)
    ours = GP(**options, rank=150).fit(X, y, sample_weight=weight)
    assert ours.rank_ == 150
    assert 0 <= ours.approximation_error_ < 1e-9
    assert ours.residual_ <= 1e-10
    assert exact.rank_ is None
    assert exact.approximation_error_ == 0.0
    _agree(ours, exact, _rows(50, 1)[0], 1e-5)
    assert ours.certificate_ is None
    assert exact.certificate_ is not None or inference != "naive" or flip_noise > 0


def test_the_prior_is_the_stated_one() -> None:
    """Covariance of the inducing samples, and the missing variances as noise."""
    X, y = _rows()
    model = GP(gamma=0.5, input_noise=0.3, mean_variance=0.7, rank=20).fit(X, y)
    assert model.rank_ == 20
    inducing = model._latent_.X
    K = gram(X, inducing, gamma=0.5)
    K = K @ np.linalg.solve(gram(inducing, inducing, gamma=0.5), K.T) + 0.7
    missing = 1.7 - np.diagonal(K)
    assert model.approximation_error_ == pytest.approx(missing.mean() / 1.7, rel=1e-6)
    problem = naive(2.0 * y - 1, np.ones(150), np.diagonal(K).copy(), 0.3 + missing)
    result = solved(problem, K, method="newton")
    np.testing.assert_allclose(model.alpha_, np.abs(result.coefficients), atol=1e-7)
    assert model.log_evidence_ == pytest.approx(result.log_evidence, abs=1e-7)
    mean, variance = model.predict_latent(X)
    np.testing.assert_allclose(mean, result.field, atol=1e-7)
    whole = np.linalg.inv(np.linalg.inv(K + 1e-10 * np.eye(150)) + np.diag(result.precision()))
    np.testing.assert_allclose(variance - missing, np.diagonal(whole), atol=1e-5)


def test_the_error_falls_with_the_rank() -> None:
    X, y = _rows()
    errors = [GP(gamma=0.5, rank=rank).fit(X, y).approximation_error_ for rank in (5, 20, 80)]
    assert errors[0] > 2 * errors[1] > 8 * errors[2]


def test_auto_is_exact_for_few_samples_and_stops_at_a_small_error(monkeypatch) -> None:
    X, y = _rows(300)
    assert GP(rank="auto").fit(X, y).rank_ is None
    monkeypatch.setattr(low_rank, "EXACT_ROWS", 100)
    model = GP(gamma=0.05, rank="auto").fit(X, y)
    assert model.rank_ < 150
    assert model.approximation_error_ < low_rank.GOOD
    exact = GP(gamma=0.05).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), exact.predict_proba(X), atol=2e-3)
    monkeypatch.setattr(low_rank, "MOST_RANK", 10)
    assert GP(gamma=0.05, rank="auto").fit(X, y).rank_ == 10


def test_kernels_containers_classes_and_copies() -> None:
    X, y = load_iris(return_X_y=True)
    model = GP(rank=30).fit(X, y)
    assert model.alpha_.shape == (3, 150)
    assert model.score(X, y) > 0.94
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    for copy in (pickle.loads(pickle.dumps(model)), model.compact()):
        np.testing.assert_array_equal(copy.predict_proba(X), P)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(again.loo_proba_, model.loo_proba_, atol=1e-12)
    sparse = GP(rank=30).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.predict_proba(X), P, atol=1e-6)
    linear = GP(kernel="linear", rank=30).fit(X, y)
    assert linear.rank_ <= 5
    expected = GP(kernel="linear").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(linear.predict_proba(X), expected, atol=1e-6)
    by_function = GP(kernel=lambda A, B: gram(A, B, gamma=model.gamma_), rank=30).fit(X, y)
    np.testing.assert_allclose(by_function.predict_proba(X), P, atol=1e-6)


def test_order_and_repetition_do_not_matter() -> None:
    X, y = _rows()
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(150), 2))
    model = GP(rank=20).fit(X, y, sample_weight=np.full(150, 2.0))
    repeated = GP(rank=20).fit(X[rows], y[rows])
    np.testing.assert_array_equal(model.predict_proba(X), repeated.predict_proba(X))


def test_samples_of_zeros_have_the_constant_mean_only() -> None:
    model = GP(kernel="linear", mean_variance=1.0, rank=2).fit(np.zeros((4, 2)), [0, 1, 1, 1])
    assert model.rank_ == 0
    assert model.predict_proba([[0.0, 0.0]])[0, 1] > 0.5


def test_low_rank_models_are_tuned_on_the_exact_ones() -> None:
    X, y = _rows()
    model = tune(GP(rank=40), X, y)
    assert model.rank_ == 40
    assert model.tuning_.params == pytest.approx(tune(GP(), X, y).tuning_.params)


def test_the_representation_states_rank_and_error() -> None:
    X, y = _rows()
    assert "rank 20: " in GP(gamma=0.5, rank=20).fit(X, y)._repr_html_()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank must be"),
        ({"rank": 2.5}, "rank must be"),
        ({"rank": "scale"}, "rank must be"),
        ({"rank": 5, "solver": "newton_cg"}, "need the whole matrix"),
        ({"rank": 5, "kernel": "precomputed"}, "no values for inducing samples"),
        ({"rank": 100, "cache_size": 0.1}, "rank must be at most 55 for 150 samples"),
        ({"rank": 5, "kernel": lambda A, B: -gram(A, B)}, "positive semi-definite"),
    ],
)
def test_bad_ranks_are_named(options, message) -> None:
    X, y = _rows()
    if options.get("kernel") == "precomputed":
        X = gram(X, X)
    with pytest.raises(ValueError, match=message):
        GP(**options).fit(X, y)
