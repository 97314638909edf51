"""Kernel blocks, diagonals and sums against the formulas of byhand.py."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.byhand import gram
from widemargin import SVC
from widemargin.kernels import Kernel, Rows, is_mercer

PARAMETERS = {
    "linear": {},
    "poly": {"gamma": 0.3, "degree": 3, "coef0": 1.0},
    "homogeneous": {"gamma": 0.3, "degree": 2},
    "high_degree": {"gamma": 0.1, "degree": 9, "coef0": 0.5},
    "rbf": {"gamma": 0.3},
    "ard": {"gamma": np.array([0.1, 2.0, 0.5, 0.01, 0.3])},
    "sigmoid": {"gamma": 0.1, "coef0": -0.5},
}
NAMES = {"homogeneous": "poly", "high_degree": "poly", "ard": "rbf"}
STORES = {"dense": np.asarray, "csr_array": sp.csr_array, "csr_matrix": sp.csr_matrix}


def _data(n: int, seed: int, d: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[rng.random(X.shape) < 0.5] = 0.0
    return X


def _kernel(name: str) -> Kernel:
    return Kernel(NAMES.get(name, name), **PARAMETERS[name])


def _by_hand(name: str, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return gram(X, Z, NAMES.get(name, name), **PARAMETERS[name])


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", PARAMETERS)
def test_values_are_the_formula(name: str, store: str) -> None:
    X, Z = _data(70, 0), _data(40, 1)
    values = _kernel(name)(STORES[store](X), STORES[store](Z))
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, _by_hand(name, X, Z), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", PARAMETERS)
def test_blocks_of_chosen_rows_over_several_tiles(name: str, store: str, threads: int) -> None:
    """600 x 2,500 of repeated, unordered rows: more than a tile in both directions."""
    X, Z = _data(300, 0), _data(500, 1)
    rng = np.random.default_rng(2)
    rows, columns = rng.integers(0, 300, 600), rng.integers(0, 500, 2500)
    kernel = _kernel(name)
    right = Rows(kernel, STORES[store](Z))
    left = Rows(kernel, STORES[store](X), right.centre, threads)
    expected = _by_hand(name, X, Z)[np.ix_(rows, columns)]
    np.testing.assert_allclose(left.block(rows, right, columns), expected, rtol=1e-11, atol=1e-12)
    assert left.evaluations == 600 * 2500
    single = left.block(rows, right, columns, dtype=np.float32)
    assert single.dtype == np.float32
    scale = np.abs(expected).max()
    np.testing.assert_allclose(single, expected, atol=2e-5 * scale)


@pytest.mark.parametrize("outputs", [(), (3,)], ids=["one", "three"])
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", PARAMETERS)
def test_weighted_sums_equal_block_times_vector(name: str, store: str, outputs) -> None:
    X, Z = _data(300, 0), _data(2300, 1)
    weights = np.random.default_rng(3).normal(size=(2300, *outputs))
    right = Rows(_kernel(name), STORES[store](Z))
    left = Rows(_kernel(name), STORES[store](X), right.centre, threads=2)
    everything = np.arange(300)
    values = left.weighted_sum(everything, right, np.arange(2300), weights)
    expected = _by_hand(name, X, Z) @ weights
    scale = np.abs(expected).max()
    np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-11 * scale)
    none = left.weighted_sum(everything, right, np.array([], dtype=int), weights[:0])
    assert not none.any()


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", PARAMETERS)
def test_diagonals(name: str, store: str) -> None:
    X = _data(50, 0)
    expected = np.diagonal(_by_hand(name, X, X))
    values = Rows(_kernel(name), STORES[store](X)).diagonal()
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-13)


def test_diagonals_of_own_kernels() -> None:
    K = _by_hand("rbf", _data(9, 0), _data(9, 0)) * np.arange(1.0, 10.0)
    np.testing.assert_array_equal(Rows(Kernel("precomputed"), K).diagonal(), np.arange(1.0, 10.0))
    own = Kernel("callable", function=lambda A, B: 3.0 * A @ B.T)
    X = _data(9, 0)
    np.testing.assert_allclose(Rows(own, X).diagonal(), 3.0 * (X**2).sum(axis=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_from_the_origin_distances_keep_their_digits(dtype) -> None:
    """Squared norms of 1e8 would drown distances of 1 without the shift to the mean."""
    X = (_data(60, 0) + 1e4).astype(np.float32)  # representable in both precisions
    rows = Rows(Kernel("rbf", gamma=0.3), X)
    values = rows.block(np.arange(60), rows, np.arange(60), dtype=dtype)
    atol = 2e-6 if dtype == np.float32 else 1e-11
    np.testing.assert_allclose(values, _by_hand("rbf", X, X), rtol=0, atol=atol)


def test_float32_rows_are_kept_and_give_float64_values() -> None:
    X = _data(60, 0).astype(np.float32)
    rows = Rows(Kernel("poly", gamma=0.3, degree=2, coef0=1.0), X)
    assert rows.X is X
    values = rows.block(np.arange(60), rows, np.arange(60))
    expected = gram(X, X, "poly", 0.3, 2, 1.0)
    np.testing.assert_allclose(values, expected, rtol=1e-13)


@pytest.mark.parametrize("integers", [np.int32, np.int64])
def test_sparse_index_types(integers) -> None:
    X = sp.csr_array(_data(40, 0))
    X.indices, X.indptr = X.indices.astype(integers), X.indptr.astype(integers)
    values = Kernel("rbf", gamma=0.3)(X, X)
    np.testing.assert_allclose(values, _by_hand("rbf", X.toarray(), X.toarray()), rtol=1e-12)


def test_empty_sparse_rows_and_unused_columns() -> None:
    X = sp.csr_array(([1.0], ([1], [3])), shape=(3, 8))
    expected = gram(X, X, "rbf", 0.3)
    np.testing.assert_allclose(Kernel("rbf", gamma=0.3)(X, X), expected, rtol=1e-14)


def test_precomputed_blocks_are_looked_up() -> None:
    K = np.random.default_rng(0).normal(size=(20, 20))
    rows = Rows(Kernel("precomputed"), K)
    part = rows.block(np.array([3, 1]), rows, np.array([0, 19, 4]))
    np.testing.assert_array_equal(part, K[np.ix_([3, 1], [0, 19, 4])])


def test_a_function_is_called_from_one_thread_with_the_rows_it_needs() -> None:
    X = _data(600, 0)
    callers, shapes = set(), []

    def own(A, B):
        callers.add(threading.get_ident())
        shapes.append((A.shape, B.shape))
        return gram(A, B, "rbf", 0.3)

    rows = Rows(Kernel("callable", function=own), X, threads=4)
    chosen = np.arange(5, 600, 3)
    values = rows.block(np.arange(600), rows, chosen)
    np.testing.assert_allclose(values, _by_hand("rbf", X, X[chosen]), rtol=1e-12)
    assert callers == {threading.get_ident()}
    assert {b for _, b in shapes} == {(len(chosen), 5)}


def test_a_function_that_returns_the_wrong_shape_is_refused() -> None:
    own = Kernel("callable", function=lambda A, B: np.ones((len(A), len(B) + 1)))
    rows = Rows(own, _data(9, 0))
    with pytest.raises(ValueError, match=r"kernel must return .*9 and 4 rows.*\(9, 5\)"):
        rows.block(np.arange(9), rows, np.arange(4))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", PARAMETERS)
def test_symmetric_blocks_are_the_whole_block(name: str, store: str, dtype) -> None:
    X = _data(700, 0)
    chosen = np.random.default_rng(1).permutation(700)[:650]
    rows = Rows(_kernel(name), STORES[store](X), threads=2)
    out = np.full((650, 650), np.nan, dtype=dtype)
    rows.fill_symmetric(chosen, out)
    expected = _by_hand(name, X, X)[np.ix_(chosen, chosen)]
    tolerance = (2e-5 if dtype == np.float32 else 1e-12) * np.abs(expected).max()
    np.testing.assert_allclose(out, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", ["poly", "rbf"])
def test_the_matrix_is_that_of_all_rows_in_float64(name: str) -> None:
    X = _data(30, 0).astype(np.float32)
    K = Rows(_kernel(name), X).matrix()
    assert K.dtype == np.float64
    np.testing.assert_allclose(K, _by_hand(name, X.astype(np.float64), X.astype(np.float64)))


@pytest.mark.parametrize("name", ["linear", "poly", "homogeneous", "rbf", "ard"])
def test_mercer_kernels_are_recognised(name: str) -> None:
    X = _data(40, 0)
    assert _kernel(name).is_mercer_by_name
    assert is_mercer(_by_hand(name, X, X))


def test_other_kernels_are_recognised() -> None:
    X = _data(40, 0)
    assert not _kernel("sigmoid").is_mercer_by_name
    assert not Kernel("poly", coef0=-1.0).is_mercer_by_name
    assert not Kernel("poly", degree=2.5, coef0=1.0).is_mercer_by_name
    assert not is_mercer(gram(X, X, "sigmoid", gamma=1.0, coef0=-1.0))


def test_is_mercer_on_matrices() -> None:
    assert is_mercer(np.ones((4, 4)))
    assert is_mercer(np.zeros((3, 3)))
    assert not is_mercer(-np.eye(3))
    assert not is_mercer([[1.0, 0.5], [0.4, 1.0]])
    assert not is_mercer([[0.0, 1.0], [1.0, 0.0]])
    large = _by_hand("rbf", _data(200, 0), _data(200, 0))
    assert is_mercer(1e12 * large)
    assert is_mercer(1e-12 * large)
    with pytest.raises(ValueError, match="square"):
        is_mercer(np.ones((2, 3)))


@pytest.mark.parametrize("K", [[[np.nan, 0.0], [0.0, 1.0]], [[np.inf, 0.0], [0.0, 1.0]]])
def test_mercers_condition_needs_finite_numbers(K):
    with pytest.raises(ValueError, match="finite numbers"):
        is_mercer(K)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore:kernel='poly' with these parameters")
def test_roots_of_negative_bases_are_refused(dtype):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)).astype(dtype), np.arange(30) % 2
    with pytest.raises(ValueError, match=r"degree must be a whole number.*degree=2\.5"):
        SVC(kernel="poly", degree=2.5, gamma=1.0).fit(X, y)
    model = SVC(kernel="poly", degree=2.5, gamma=1.0).fit(np.abs(X), y)
    with pytest.raises(ValueError, match="degree must be a whole number"):
        model.predict(-np.abs(X))


def test_bases_that_are_negative_by_rounding_are_zero():
    X = np.array([[1.0, 0.0], [0.0, 1.0]])
    tiny = X * np.array([[1.0, -1e-17], [1.0, 1.0]]) + np.array([[0.0, -1e-17], [0.0, 0.0]])
    K = Kernel("poly", gamma=1.0, degree=1.5)(X, tiny)
    np.testing.assert_array_equal(K, np.eye(2))
