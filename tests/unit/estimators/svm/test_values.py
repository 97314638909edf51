"""Decision values of few samples and of many are the same up to rounding."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from widemargin import SVC, SVR, NuSVC, OneClassSVM
from widemargin.estimators.svm import values

KERNELS = [
    {"kernel": "rbf"},
    {"kernel": "linear"},
    {"kernel": "poly", "coef0": 1.0},
    {"kernel": "sigmoid", "gamma": 0.01},
    {"kernel": "rbf", "gamma": np.array([0.1, 0.2, 0.3, 0.4])},
    {"kernel": lambda X, Z: X @ Z.T},
]


@pytest.mark.filterwarnings("ignore:kernel=.sigmoid")
@pytest.mark.parametrize("options", KERNELS, ids=lambda o: str(o["kernel"])[:8])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_sample_and_many(options, n_classes, monkeypatch):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < n_classes], y[y < n_classes]
    model = SVC(decision_function_shape="ovo", **options).fit(X, y)
    single = np.concatenate([np.atleast_1d(model.decision_function(x[None])) for x in X])
    monkeypatch.setattr(values, "FEW_SAMPLES", 0)
    monkeypatch.setattr(values, "FEW_VALUES", 0)
    together = model.decision_function(X)
    np.testing.assert_allclose(single.reshape(together.shape), together, rtol=1e-9, atol=1e-9)
    every = model._pair_coefficients()
    expected = model._expansion_values(X, every) + model.intercept_
    np.testing.assert_allclose(together.reshape(expected.shape), expected, atol=1e-10)


def test_regression_and_novelty():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model, region = SVR().fit(X, y), OneClassSVM(nu=0.2).fit(X)
    together = model.predict(np.vstack([X] * 20))[: len(X)]
    np.testing.assert_allclose([model.predict(x[None])[0] for x in X], together, atol=1e-12)
    scores = region.score_samples(np.vstack([X] * 20))[: len(X)]
    np.testing.assert_allclose([region.score_samples(x[None])[0] for x in X], scores, atol=1e-12)


def test_what_is_prepared_follows_the_model():
    X, y = load_iris(return_X_y=True)
    model = NuSVC(nu=0.3).fit(X, y)
    before = model.decision_function(X[:1])
    model.dual_coef_ = 2.0 * model.dual_coef_
    model.intercept_ = 2.0 * model.intercept_
    assert np.abs(model.decision_function(X[:1]) - before).max() > 1e-3
    model.fit(X[:100], y[:100])
    assert model.decision_function(X[:1]).shape == (1,)


def test_sparse_samples_and_loaded_models():
    X, y = load_iris(return_X_y=True)
    model = SVC().fit(X, y)
    expected = model.decision_function(X[:3])
    sparse = model.decision_function(sp.csr_array(X[:3]))
    np.testing.assert_allclose(sparse, expected, atol=1e-12)
    loaded = pickle.loads(pickle.dumps(model))
    assert "_few_" not in vars(loaded)
    np.testing.assert_array_equal(loaded.decision_function(X[:3]), expected)
    fitted_sparse = SVC().fit(sp.csr_array(X), y)
    np.testing.assert_allclose(fitted_sparse.decision_function(X[:3]), expected, atol=1e-4)
