"""Single kernel rows and sums over few points against blocks of kernel values."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.kernels import Kernel, Rows, single_rows
from widemargin.kernels.row_loops import LANES, kernel_row, own_row
from widemargin.kernels.single_rows import FewPoints

KERNELS = [
    Kernel("linear"),
    Kernel("rbf", 0.7),
    Kernel("rbf", np.array([0.1, 2.0, 0.5, 1.0, 0.0])),
    Kernel("poly", 0.3, 1, 0.0),
    Kernel("poly", 0.3, 4, 1.5),
]


def all_rows(rows):
    """Return the kernel matrix, row by row."""
    single = rows.single_rows
    n_columns = rows.n + -rows.n % LANES
    columns, samples, norms = single.in_columns(None, n_columns)
    K = np.empty((rows.n, n_columns // LANES, LANES))
    power = np.empty(LANES)
    form = np.array([*single.form, -1.0])
    for r in range(rows.n):
        own_row(K, r, columns, samples, norms, r, form, np.empty((2, LANES)), power,
                power.view(np.int64))  # fmt: skip
    return K.reshape(rows.n, -1)[:, : rows.n], single.diagonal(norms)[: rows.n]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("n", [1, 64, 150])
def test_rows_and_diagonal_are_those_of_blocks(kernel, n):
    rows = Rows(kernel, np.random.default_rng(n).normal(size=(n, 5)) + 3.0)
    K, diagonal = all_rows(rows)
    np.testing.assert_allclose(K, rows.matrix(), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(diagonal, rows.diagonal(), rtol=1e-13)


def test_the_exponential_is_accurate_to_a_few_units():
    t = np.concatenate([np.linspace(0, 40, 300), np.linspace(600, 700, 50)])
    x = np.sqrt(t)[:, None]
    X = np.vstack([np.zeros((1, 1)), x])
    rows = Rows(Kernel("rbf", 1.0), X, centre=np.zeros(1))
    K = all_rows(rows)[0][0, 1:]
    for value, point in zip(K, x[:, 0], strict=True):
        exact = mpmath.exp(-(mpmath.mpf(point) ** 2))
        relative = abs((mpmath.mpf(value) - exact) / exact)
        # Errors of the exponent t, in units of the last place, and of the exponential itself.
        assert relative <= (4 * point**2 + 4) * np.finfo(float).eps


@pytest.mark.parametrize("kernel", [Kernel("linear"), Kernel("rbf", 0.3), Kernel("poly", 0.1, 2)])
def test_sparse_samples_are_those_of_an_array(kernel):
    X = np.random.default_rng(0).normal(size=(20, 4)).round()
    dense, sparse = Rows(kernel, X).single_rows, Rows(kernel, sp.csr_array(X)).single_rows
    np.testing.assert_array_equal(dense.samples, sparse.samples)
    assert dense.form == sparse.form


def test_many_sparse_samples_stay_sparse(monkeypatch):
    monkeypatch.setattr(single_rows, "MOST_SPARSE", 19)
    assert Rows(Kernel("linear"), sp.csr_array(np.ones((20, 4)))).single_rows is None


def test_what_single_rows_are_not_for():
    X = np.random.default_rng(0).normal(size=(20, 4))
    assert Rows(Kernel("sigmoid", 0.1), X).single_rows is None
    assert Rows(Kernel("poly", 0.1, 2.5, 30.0), X).single_rows is None
    assert Rows(Kernel("rbf", 1e9), X).single_rows is None
    assert Rows(Kernel("linear"), np.ones((3, 200))).single_rows is None
    assert Rows(Kernel("precomputed"), X @ X.T).single_rows is None


def test_a_blank_column_has_kernel_values_of_zero():
    rows = Rows(Kernel("rbf", 1.0), np.zeros((3, 2)))
    single = rows.single_rows
    columns, samples, norms = single.in_columns(None, LANES)
    K, power = np.empty((1, 1, LANES)), np.empty(LANES)
    kernel_row(K, 0, columns, samples, norms, 0, 0.0, np.array([*single.form, 3.0]),
               np.empty((2, LANES)), power, power.view(np.int64))  # fmt: skip
    assert (K[0, 0, :3] == 1.0).all()
    assert K[0, 0, 3] == 0.0


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_sums_by_class_are_those_of_blocks(kernel):
    rng = np.random.default_rng(0)
    support, X = rng.normal(size=(100, 5)), rng.normal(size=(7, 5))
    counts, coefficients = np.array([40, 0, 60]), rng.normal(size=(2, 100))
    rows = Rows(kernel, support)
    sums = FewPoints(rows, coefficients, counts).sums(X)
    K = Rows(kernel, X, rows.centre).block(np.arange(7), rows, np.arange(100))
    ends = np.cumsum(counts)
    for c, (n, end) in enumerate(zip(counts, ends, strict=True)):
        part = slice(end - n, end)
        expected = K[:, part] @ coefficients[:, part].T
        np.testing.assert_allclose(sums[:, c], expected, rtol=1e-11, atol=1e-11)
