"""One optimum however the data are stored and however the kernel is written down."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from tests.helpers.awkward import _blobs
from tests.helpers.byhand import gram
from widemargin import SVC, SVR, LinearSVC, NuSVC, NuSVR

TIGHT = 1e-8
KERNELS = {
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "gamma": 0.4, "degree": 2, "coef0": 1.0},
    "homogeneous": {"kernel": "poly", "gamma": 0.4, "degree": 3},
    "rbf": {"kernel": "rbf", "gamma": 0.4},
}


def _data(n=120, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X, y = _blobs(rng, n // 2, n - n // 2, d, 1.5)
    X[rng.random(X.shape) < 0.4] = 0.0
    return X, y


MACHINES = {
    "SVC": lambda **k: SVC(tol=TIGHT, **k),
    "squared": lambda **k: SVC(loss="squared_hinge", tol=TIGHT, **k),
    "origin": lambda **k: SVC(fit_intercept=False, tol=TIGHT, **k),
    "NuSVC": lambda **k: NuSVC(nu=0.2, tol=TIGHT, **k),
    "SVR": lambda **k: SVR(tol=TIGHT, **k),
    "NuSVR": lambda **k: NuSVR(tol=TIGHT, **k),
}


def _values(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def _fit(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 1e-8 may be beyond rounding
        return model.fit(X, y)


CONTAINERS = {
    "csr_array": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
    "int64_indices": lambda X: _wide(sp.csr_array(X)),
    "int64_matrix": lambda X: _wide(sp.csr_matrix(X)),
    "csc_array": sp.csc_array,
    "coo_matrix": sp.coo_matrix,
    "unsorted": lambda X: _unsorted(sp.csr_array(X)),
    "explicit_zeros": lambda X: _with_zeros(X),
    "fortran": np.asfortranarray,
    "read_only": lambda X: _read_only(X),
    "strided": lambda X: np.repeat(X, 2, axis=0)[::2],
    "list": lambda X: X.tolist(),
}


def _wide(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def _unsorted(X):
    for i in range(X.shape[0]):
        row = slice(X.indptr[i], X.indptr[i + 1])
        X.indices[row], X.data[row] = X.indices[row][::-1].copy(), X.data[row][::-1].copy()
    X.has_sorted_indices = False
    return X


def _with_zeros(X):
    rows, columns = np.indices(X.shape).reshape(2, -1)
    stored = sp.coo_array((X.ravel(), (rows, columns)), shape=X.shape)
    return sp.csr_array(
        (stored.data, stored.col, np.arange(0, X.size + 1, X.shape[1])), shape=X.shape
    )


def _read_only(X):
    X = X.copy()
    X.setflags(write=False)
    return X


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("machine", ["SVC", "NuSVC", "SVR"])
def test_containers(machine: str, kernel: str, container: str) -> None:
    X, y = _data()
    fresh = np.random.default_rng(5).normal(size=(40, 4))
    convert = CONTAINERS[container]
    dense = _fit(MACHINES[machine](**KERNELS[kernel]), X, y)
    other = _fit(MACHINES[machine](**KERNELS[kernel]), convert(X), y)
    assert other.certificate_.dual == pytest.approx(dense.certificate_.dual, rel=1e-7)
    np.testing.assert_allclose(_values(other, convert(fresh)), _values(dense, fresh), atol=1e-4)
    np.testing.assert_allclose(_values(other, fresh), _values(dense, fresh), atol=1e-4)


@pytest.mark.parametrize("container", ["csr_array", "csr_matrix", "int64_indices", "csc_array"])
def test_containers_of_the_linear_machine(container: str) -> None:
    X, y = _data()
    convert = CONTAINERS[container]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        dense = LinearSVC(tol=1e-6, max_iter=100_000).fit(X, y)
        other = LinearSVC(tol=1e-6, max_iter=100_000).fit(convert(X), y)
    np.testing.assert_allclose(other.coef_, dense.coef_, atol=1e-3)
    np.testing.assert_allclose(
        other.decision_function(convert(X)), other.decision_function(X), atol=1e-10
    )
    assert other.certificate_.primal == pytest.approx(dense.certificate_.primal, rel=1e-5)


def test_sparse_support_vectors_stay_sparse() -> None:
    X, y = _data()
    model = SVC().fit(sp.csr_array(X), y)
    assert sp.issparse(model.support_vectors_)
    np.testing.assert_array_equal(model.support_vectors_.toarray(), X[model.support_])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_float32_data_have_the_optimum_of_the_same_numbers(machine, kernel, sparse) -> None:
    X, y = _data()
    X32 = X.astype(np.float32)
    store = sp.csr_array if sparse else np.asarray
    single = _fit(MACHINES[machine](**KERNELS[kernel]), store(X32), y)
    double = _fit(MACHINES[machine](**KERNELS[kernel]), store(X32.astype(np.float64)), y)
    assert single.certificate_.dual == pytest.approx(double.certificate_.dual, rel=1e-6)
    assert single.support_vectors_.dtype == np.float32
    assert double.support_vectors_.dtype == np.float64
    np.testing.assert_allclose(_values(single, X32), _values(double, X32), atol=1e-3)


@pytest.mark.parametrize("form", ["precomputed", "callable"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("machine", MACHINES)
def test_a_kernel_given_by_matrix_or_function(machine: str, kernel: str, form: str) -> None:
    X, y = _data()
    fresh = np.random.default_rng(5).normal(size=(40, 4))
    named = _fit(MACHINES[machine](**KERNELS[kernel]), X, y)
    if form == "precomputed":
        own = _fit(MACHINES[machine](kernel="precomputed"), gram(X, X, **KERNELS[kernel]), y)
        values = _values(own, gram(fresh, X, **KERNELS[kernel]))
    else:
        own = _fit(MACHINES[machine](kernel=lambda A, B: gram(A, B, **KERNELS[kernel])), X, y)
        values = _values(own, fresh)
    rounding = own.certificate_.rounding + named.certificate_.rounding
    expected = pytest.approx(named.certificate_.dual, rel=1e-6, abs=1e-12 + rounding)
    assert own.certificate_.dual == expected
    np.testing.assert_allclose(values, _values(named, fresh), atol=1e-4)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_gamma_for_each_feature_scales_the_features(machine: str) -> None:
    X, y = _data()
    gamma = np.array([0.1, 2.0, 0.01, 0.5])
    ard = _fit(MACHINES[machine](gamma=gamma), X, y)
    scaled = _fit(MACHINES[machine](gamma=1.0), X * np.sqrt(gamma), y)
    assert ard.certificate_.dual == pytest.approx(scaled.certificate_.dual, rel=1e-6)
    np.testing.assert_allclose(_values(ard, X), _values(scaled, X * np.sqrt(gamma)), atol=1e-4)
    np.testing.assert_array_equal(ard.gamma_, gamma)


def test_gamma_scale_and_auto_are_recorded() -> None:
    X, y = _data()
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    repeated = np.repeat(X, weight.astype(int), axis=0)
    assert SVC().fit(X, y).gamma_ == pytest.approx(1 / (4 * X.var()), rel=1e-12)
    assert SVC(gamma="auto").fit(X, y).gamma_ == pytest.approx(0.25)
    weighted = SVC().fit(X, y, sample_weight=weight).gamma_
    assert weighted == pytest.approx(1 / (4 * repeated.var()), rel=1e-12)
    sparse = SVC().fit(sp.csr_array(X), y, sample_weight=weight).gamma_
    assert sparse == pytest.approx(weighted, rel=1e-12)
