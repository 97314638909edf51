"""Fits from several threads at once give the bits of fits one after the other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_limits

from widemargin import SVC, SVR, LinearSVC, NuSVC, NuSVR


def _data(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    y = (X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=n) > 1).astype(int)
    return X, y


def _bits(model, X) -> list[np.ndarray]:
    model_arrays = [model.intercept_, model.n_iter_]
    if hasattr(model, "dual_coef_"):
        dual = model.dual_coef_
        model_arrays += [model.support_, dual.toarray() if sp.issparse(dual) else dual]
    else:
        model_arrays += [model.coef_]
    scores = model.decision_function if hasattr(model, "decision_function") else model.predict
    return [*model_arrays, scores(X[:300])]


def _equal(one: list[np.ndarray], other: list[np.ndarray]) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("n", [3000, 9000])
def test_eight_concurrent_fits_equal_serial_ones(n: int) -> None:
    """Eight different models on eight different samples, all started together."""
    jobs = [(SVC(C=10.0 ** (k % 3 - 1), gamma=0.1 + 0.05 * k), *_data(n, k)) for k in range(8)]

    def fit(job):
        model, X, y = job
        return _bits(clone(model).fit(X, y), X)

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(fit, jobs))
    for job, bits in zip(jobs, together, strict=True):
        _equal(bits, fit(job))


def test_eight_threads_share_one_data_set() -> None:
    X, y = _data(2500, 0)
    X.setflags(write=False)
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda _: _bits(SVC().fit(X, y), X), range(8)))
    for bits in together:
        _equal(bits, together[0])


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_all_machines_under_joblib_threading(sparse: bool) -> None:
    X, y = _data(1200, 3)
    if sparse:
        X = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
    machines = [SVC(), NuSVC(), SVR(), NuSVR(), LinearSVC(), SVC(loss="squared_hinge"), SVC(C=9.0)]
    fit = delayed(lambda m: _bits(clone(m).fit(X, y), X))
    together = Parallel(n_jobs=7, backend="threading")(fit(m) for m in machines)
    for machine, bits in zip(machines, together, strict=True):
        _equal(bits, _bits(clone(machine).fit(X, y), X))


def test_processes_give_the_same_bits_as_threads() -> None:
    X, y = _data(600, 4)
    grid = {"C": [0.1, 1.0, 10.0]}
    in_processes = GridSearchCV(SVC(), grid, cv=3, n_jobs=2).fit(X, y)
    in_line = GridSearchCV(SVC(), grid, cv=3).fit(X, y)
    np.testing.assert_array_equal(
        in_processes.cv_results_["mean_test_score"], in_line.cv_results_["mean_test_score"]
    )
    _equal(_bits(in_processes.best_estimator_, X), _bits(in_line.best_estimator_, X))


@pytest.mark.parametrize("n", [1500, 9000])
def test_the_number_of_blas_threads_changes_no_bit(n: int) -> None:
    X, y = _data(n, 5)
    free = _bits(SVC().fit(X, y), X)
    with threadpool_limits(1):
        _equal(_bits(SVC().fit(X, y), X), free)


def test_prediction_from_several_threads() -> None:
    X, y = _data(2000, 6)
    model = SVC().fit(X, y)
    expected = model.decision_function(X)
    with ThreadPoolExecutor(8) as pool:
        for values in pool.map(lambda _: model.decision_function(X), range(16)):
            np.testing.assert_array_equal(values, expected)


def test_the_number_of_blas_threads_is_restored() -> None:
    from threadpoolctl import threadpool_info

    def threads() -> list[int]:
        return [p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]

    X, y = _data(1000, 7)
    SVC().fit(X, y)  # whatever gets loaded is loaded now
    before = threads()
    assert before
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda c: SVC(C=c).fit(X, y), [0.1, 1.0, 10.0, 50.0]))
    assert threads() == before
    with pytest.raises(RuntimeError, match="stop"):
        SVC(kernel=_raise).fit(X, y)
    assert threads() == before


def _raise(A, B):
    raise RuntimeError("stop")
