"""Conversion of fitted models to the estimators of scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.datasets import load_iris

import widemargin
from widemargin import LPSVC, SVC, LinearSVC, to_sklearn

X, y = load_iris(return_X_y=True)
KERNELS = [
    {"kernel": "rbf", "gamma": 0.3}, {"kernel": "linear"}, {"kernel": "poly", "coef0": 1.0},
]  # fmt: skip


def values(model, data):
    """Return decision values by pair of classes, or predictions of a regressor."""
    if "decision_function_shape" in model.get_params():
        model.set_params(decision_function_shape="ovo")
    score = getattr(model, "decision_function", model.predict)
    return score(data)


@pytest.mark.parametrize("settings", KERNELS, ids=lambda s: s["kernel"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", ["SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM"])
def test_the_same_values(name, n_classes, container, settings):
    data, target = container(X), np.minimum(y, n_classes - 1)
    nu = {"nu": 0.3} if name.startswith("Nu") else {}
    model = getattr(widemargin, name)(**settings, **nu).fit(data, target)
    plain = pickle.loads(pickle.dumps(to_sklearn(model)))
    assert type(plain) is getattr(sklearn.svm, name)
    np.testing.assert_allclose(plain.predict(data), model.predict(data), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(values(plain, data), values(model, data), rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(plain.n_support_, model.n_support_)
    if settings["kernel"] == "linear":
        ours, theirs = model.coef_, plain.coef_
        if sp.issparse(ours):
            ours, theirs = ours.toarray(), theirs.toarray()
        np.testing.assert_allclose(theirs, ours, atol=1e-9)


def test_the_parameters_are_those_of_the_fit():
    model = SVC(kernel="poly", degree=2, coef0=1.0).fit(X, y)
    expected = model.predict(X)
    plain = to_sklearn(model.set_params(degree=3, coef0=0.0, kernel="rbf"))
    np.testing.assert_array_equal(plain.predict(X), expected)
    linear = LinearSVC().fit(X, y).set_params(multi_class="ovo")
    np.testing.assert_array_equal(to_sklearn(linear).predict(X), linear.predict(X))


def test_sparse_float32_no_support_and_sparsified_weights():
    single = sp.csr_matrix(X.astype(np.float32))
    model = SVC().fit(single, y)
    np.testing.assert_array_equal(to_sklearn(model).predict(single), model.predict(single))
    constant = widemargin.SVR(epsilon=100.0).fit(sp.csr_matrix(X), y)
    assert (to_sklearn(constant).predict(sp.csr_matrix(X)) == constant.predict(X)).all()
    weights = LinearSVC(C=0.1).fit(X, y).sparsify()
    np.testing.assert_array_equal(to_sklearn(weights).predict(X), weights.predict(X))


def test_precomputed():
    K = X @ X.T
    model = SVC(kernel="precomputed").fit(K, y)
    np.testing.assert_array_equal(to_sklearn(model).predict(K), model.predict(K))


@pytest.mark.parametrize("name", ["LinearSVC", "LinearSVR"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
def test_linear(name, container):
    model = getattr(widemargin, name)().fit(container(X), y)
    plain = to_sklearn(model)
    assert type(plain) is getattr(sklearn.svm, name)
    np.testing.assert_allclose(values(plain, container(X)), values(model, container(X)), atol=1e-9)


@pytest.mark.filterwarnings("ignore:kernel='poly' with these parameters")
def test_what_cannot_be_converted():
    with pytest.raises(TypeError, match="got LPSVC"):
        to_sklearn(LPSVC().fit(X, y))
    with pytest.raises(TypeError, match="models of widemargin"):
        to_sklearn(sklearn.svm.SVC().fit(X, y))
    with pytest.raises(ValueError, match="degree must be an integer"):
        to_sklearn(SVC(kernel="poly", degree=2.5, coef0=1.0).fit(np.abs(X), y))
    with pytest.raises(ValueError, match="one value per feature"):
        to_sklearn(SVC(gamma=[1.0, 2.0, 3.0, 4.0]).fit(X, y))
    with pytest.raises(ValueError, match="kernel must be a name"):
        to_sklearn(SVC(kernel=lambda A, B: A @ B.T).fit(X, y))
    with pytest.raises(ValueError, match="per pair of classes"):
        to_sklearn(LinearSVC(multi_class="ovo").fit(X, y))
    with pytest.raises(sklearn.exceptions.NotFittedError):
        to_sklearn(SVC())
