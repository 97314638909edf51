"""Tube regression: the problem, the smallest epsilon, the estimator and its edge cases."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from widemargin import SVR, NuSVR, TubeSVR, loo
from widemargin.kernels import Kernel, Rows
from widemargin.problems.tube import lifted_rows, lifted_targets, tube_hulls
from widemargin.solvers.base import Budget
from widemargin.solvers.reduced_hull import critical_k, smallest_epsilon
from widemargin.solvers.reduced_hull.critical_epsilon import tube_of_residuals

BUDGET = Budget(1_000_000, cache_bytes=1e8)


def curve(seed=0, m=60, d=2, outliers=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d))
    y = np.sin(2 * X[:, 0]) + 0.4 * X[:, -1] + 0.2 * rng.normal(size=m)
    y[:outliers] += 20.0
    return X, y


# ---------------------------------------------------------------- the problem


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_lifted_rows_have_the_lifted_kernel(kernel: str, store) -> None:
    X, y = curve(m=12)
    plain = Kernel("rbf", 0.5) if kernel == "rbf" else Kernel("linear")
    K = np.asarray(plain(X, X))
    if kernel == "precomputed":
        rows = Rows(Kernel("precomputed"), K)
    else:
        rows = Rows(plain, store(X))
    z = lifted_targets(y, 0.7)
    lifted = lifted_rows(rows, z)
    everything = np.arange(24)
    block = lifted.block(everything, lifted, everything)
    np.testing.assert_allclose(block, np.tile(K, (2, 2)) + np.outer(z, z), atol=1e-12)
    np.testing.assert_allclose(z[:12] - z[12:], 1.4)
    hulls = tube_hulls(np.full(12, 0.25))
    assert hulls.n_rows == 24
    np.testing.assert_array_equal(hulls.group, np.repeat([0, 1], 12))


# ---------------------------------------------------------------- the smallest epsilon


def printed_smallest_epsilon(X, y):
    """The narrowest tube around all examples: min e with |y - Xw - b| <= e."""
    m, n = X.shape
    ones = np.ones((m, 1))
    A = np.vstack([np.hstack([X, ones, -ones]), np.hstack([-X, -ones, -ones])])
    bounds = [(None, None)] * (n + 1) + [(0, None)]
    cost = np.eye(n + 2)[-1]
    return linprog(cost, A_ub=A, b_ub=np.concatenate([y, -y]), bounds=bounds).fun


@pytest.mark.parametrize("seed", range(5))
def test_the_smallest_hard_tube(seed: int) -> None:
    X, y = curve(seed, m=40)
    rows, D = Rows(Kernel("linear"), X), np.ones(40)
    smallest = smallest_epsilon(rows, y, D, budget=BUDGET)
    assert smallest == pytest.approx(printed_smallest_epsilon(X, y), rel=1e-7)
    with pytest.raises(ValueError, match=f"epsilon > {smallest:.6g}"):
        TubeSVR(kernel="linear", k=1, epsilon=0.999 * smallest).fit(X, y)
    model = TubeSVR(kernel="linear", k=1, epsilon=1.01 * smallest).fit(X, y)
    assert model.tube_width_ == pytest.approx(smallest, rel=1e-2)


@pytest.mark.parametrize("k", [1, 5, 7.5])
def test_newton_ends_where_the_program_does(k: float, monkeypatch) -> None:
    X, y = curve()
    rows, D = Rows(Kernel("linear"), X), np.full(60, 1 / k)
    program = smallest_epsilon(rows, y, D, budget=BUDGET)
    monkeypatch.setattr(critical_k, "LP_ENTRIES", 0)
    newton = smallest_epsilon(rows, y, D, budget=BUDGET)
    assert newton >= program * (1 - 1e-7)
    assert newton == pytest.approx(program, rel=1e-2)


def test_the_smallest_soft_tube_of_no_function_is_that_of_the_targets() -> None:
    y = np.array([0.0, 1.0, 2.0, 9.0])
    assert tube_of_residuals(y, np.ones(4)) == 4.5
    rows = Rows(Kernel("linear"), np.zeros((4, 1)))
    assert smallest_epsilon(rows, y, np.full(4, 0.5), budget=BUDGET) == pytest.approx(2.5)


# ---------------------------------------------------------------- the estimator


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("k", [1, 4, 0.2])
def test_about_k_examples_lie_on_either_side(kernel: str, k: float) -> None:
    X, y = curve()
    model = TubeSVR(kernel=kernel, k=k, epsilon=1.5, tol=1e-8).fit(X, y)
    residual = y - model.predict(X)
    count = 0 if k == 1 else (k if k > 1 else k * 60)
    for side in (1, -1):
        assert np.sum(side * residual > model.tube_width_ + 1e-6) <= count
        assert np.sum(side * residual >= model.tube_width_ - 1e-6) >= min(1, count)
    assert model.certificate_.converged
    assert model.certificate_.primal >= model.certificate_.dual - 1e-12
    assert model.epsilon_ == 1.5


def test_epsilon_is_the_regulariser() -> None:
    """The larger epsilon, the flatter the function; the tube has its own width."""
    X, y = curve()
    models = [TubeSVR(epsilon=e, k=6).fit(X, y) for e in (0.5, 1.0, 4.0, 50.0)]
    norms = [m.dual_coef_[0] @ m._kernel_(m.support_vectors_, m.support_vectors_) @ m.dual_coef_[0]
             for m in models]  # fmt: skip
    assert np.all(np.diff(norms) < 0)
    costs = [m.equivalent_C_ for m in models]
    assert np.all(np.diff(costs) < 0)


def test_auto_epsilon_is_half_the_deviation_doubled_until_there_is_a_tube() -> None:
    X, y = curve()
    assert TubeSVR().fit(X, y).epsilon_ == pytest.approx(0.5 * y.std())
    noise = np.where(np.arange(60) < 1, 30.0, 0.0) + y  # one far example, and a hard tube
    model = TubeSVR(kernel="linear", k=1).fit(X, noise)
    doublings = np.log2(model.epsilon_ / (0.5 * noise.std()))
    assert doublings == pytest.approx(round(doublings))
    assert doublings >= 1
    smallest = printed_smallest_epsilon(X, noise)
    assert 0.5 * model.epsilon_ <= smallest < model.epsilon_


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_constant_targets(kernel: str) -> None:
    X, _ = curve()
    model = TubeSVR(kernel=kernel).fit(X, np.full(60, 4.5))
    np.testing.assert_allclose(model.predict(X), 4.5, atol=1e-12)
    assert model.epsilon_ == 1.0
    assert model.tube_width_ == pytest.approx(0.0, abs=1e-12)
    assert model.certificate_.converged


def test_outliers_do_not_widen_the_tube() -> None:
    X, y = curve(outliers=3)
    model = TubeSVR(k=6, epsilon=3.0).fit(X, y)
    assert model.tube_width_ < 1.5
    assert TubeSVR(k=1, epsilon=30.0, kernel="linear").fit(X, y).tube_width_ > 5


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_leave_one_out_is_that_of_svr(kernel: str) -> None:
    X, y = curve()
    tube = TubeSVR(kernel=kernel, k=5.5, epsilon=1.5, tol=1e-9).fit(X + 4.0, y)
    svr = SVR(kernel=kernel, C=tube.equivalent_C_, epsilon=tube.tube_width_, tol=1e-9)
    svr.fit(X + 4.0, y)
    np.testing.assert_allclose(loo.decision_values(tube), loo.decision_values(svr), atol=1e-5)
    nu = NuSVR(kernel=kernel, C=tube.equivalent_C_, nu=tube.nu_, tol=1e-9).fit(X + 4.0, y)
    assert nu.epsilon_ == pytest.approx(tube.tube_width_, abs=1e-6)


def test_weights_are_repetitions() -> None:
    X, y = curve()
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    twice = np.repeat(np.arange(len(y)), weight.astype(int))
    weighted = TubeSVR().fit(X, y, sample_weight=weight)
    repeated = TubeSVR().fit(X[twice], y[twice])
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    assert weighted.tube_width_ == repeated.tube_width_


@pytest.mark.parametrize("offset", [1e4, 1e8])
def test_far_from_the_origin(offset: float) -> None:
    X, y = curve()
    near = TubeSVR(kernel="linear", k=5.5, epsilon=1.5).fit(X, y)
    far = TubeSVR(kernel="linear", k=5.5, epsilon=1.5).fit(X + offset, y + 1e3)
    np.testing.assert_allclose(far.predict(X + offset), near.predict(X) + 1e3, atol=1e-6)


def test_containers_and_precisions() -> None:
    X, y = curve()
    params = {"kernel": "linear", "k": 5.5, "epsilon": 1.5, "tol": 1e-8}
    reference = TubeSVR(**params).fit(X, y)
    sparse = TubeSVR(**params).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.predict(X), reference.predict(X), atol=1e-6)
    np.testing.assert_allclose(reference.predict(sp.csr_array(X)), reference.predict(X), atol=1e-9)
    single = TubeSVR(**params).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.predict(X), reference.predict(X), atol=1e-4)
    K = X @ X.T
    looked_up = TubeSVR(**{**params, "kernel": "precomputed"}).fit(K, y)
    np.testing.assert_allclose(looked_up.predict(K), reference.predict(X), atol=1e-6)


def test_many_rows() -> None:
    """Beyond the size of one quadratic program: implicit outliers on the lifted rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8_000, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.normal(size=8_000)
    model = TubeSVR(kernel="linear", k=0.1, epsilon=1.9).fit(X, y)
    assert model.certificate_.converged
    assert model.certificate_.gap - model.certificate_.rounding < 1e-12
    np.testing.assert_allclose(model.coef_[0], [1.0, -2.0, 0.5], atol=0.1)


# ---------------------------------------------------------------- edge cases


@pytest.mark.parametrize("k", [31, 0.51, 60])
def test_more_than_half_outside_is_refused(k: float) -> None:
    with pytest.raises(ValueError, match=r"k must be <= 30.*nu = 2 k / m = .* exceed 1"):
        TubeSVR(k=k).fit(*curve())


def test_exactly_half_is_the_limit() -> None:
    model = TubeSVR(k=30, epsilon=2.0).fit(*curve())
    assert model.nu_ == pytest.approx(1.0)
    assert model.tube_width_ == pytest.approx(0.0, abs=0.1)


@pytest.mark.parametrize(
    "bad",
    [
        *[{"k": k} for k in (0, -1, 0.0, np.nan, "auto", None)],
        *[{"epsilon": e} for e in (0, -1.0, np.inf, "some", None)],
        {"tol": 0},
        {"kernel": "none"},
    ],
)
def test_bad_parameters_are_named(bad) -> None:
    with pytest.raises(ValueError, match=rf"{next(iter(bad))}\b.* must be"):
        TubeSVR(**bad).fit(*curve())


def test_bad_data() -> None:
    X, y = curve()
    for value in (np.nan, np.inf):
        broken = y.copy()
        broken[3] = value
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            TubeSVR().fit(X, broken)


def test_a_budget_that_runs_out_warns_with_numbers() -> None:
    X, y = curve(m=200)
    with pytest.warns(ConvergenceWarning, match=r"KKT violation.*max_iter"):
        model = TubeSVR(max_iter=20, tol=1e-9, epsilon=2.0).fit(X, y)
    assert not model.certificate_.converged
    assert np.isfinite(model.predict(X)).all()


def test_a_table_of_sparse_columns_is_predicted() -> None:
    """scikit-learn makes such a table sparse, where the dense samples were centred in the fit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2)).round(1)
    names = ["a", "b"]
    model = TubeSVR(kernel="linear").fit(pd.DataFrame(X, columns=names), X[:, 0] + 1.0)
    sparse = pd.DataFrame.sparse.from_spmatrix(sp.csr_array(X), columns=names)
    dense = model.predict(pd.DataFrame(X, columns=names))
    np.testing.assert_allclose(model.predict(sparse), dense, rtol=1e-9, atol=1e-9)
