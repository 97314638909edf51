"""PerceptronClassifier: Table 1.1 step by step, the bound on its updates, kernels, bad input."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from widemargin import MaxMarginClassifier, PerceptronClassifier, bounds
from widemargin.kernels import Kernel, Rows
from widemargin.problems.perceptron import SeparatingPlane
from widemargin.solvers.base import Budget
from widemargin.solvers.literature.perceptron import solve

seeds = st.integers(0, 10**6)


def apart(seed: int, n: int = 30, least: float = 0.02):
    """Rows on both sides of a plane that need not pass through their middle, in random order."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 6))
    X = rng.normal(size=(n, d)) * rng.uniform(0.2, 3.0) + rng.normal(size=d)
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    f = X @ w - np.quantile(X @ w, rng.uniform(0.2, 0.8))
    y = np.where(f > 0, 1, -1)
    return X + (y * least)[:, None] * w, y


def table_1_1(X, y, eta, passes):
    """The table as it is printed, with an update where the value is 0."""
    w, b, updates = np.zeros(X.shape[1]), 0.0, 0
    for number in range(1, passes + 1):
        clean = True
        for x, label in zip(X, y, strict=True):
            g = np.sign(w @ x + b)
            if g != label:
                # (eta / 2) (y - g): g is -y; where it is 0 the step is as long as the others.
                change = eta / 2 * (label - (g or -label))
                w, b, updates, clean = w + change * x, b + change, updates + 1, False
        if clean:
            return w, b, updates, number
    return w, b, updates, passes


@given(seed=seeds, eta=st.sampled_from([1.0, 0.5, 4.0]))
def test_the_steps_are_those_of_the_table(seed: int, eta: float) -> None:
    X, y = apart(seed, least=0.2)
    w, b, updates, passes = table_1_1(X, y, eta, 1000)
    model = PerceptronClassifier(eta).fit(X, y)
    assert model.n_updates_ == updates
    assert model.n_iter_ == passes
    assert model.coef_[0] == pytest.approx(w, rel=1e-9, abs=1e-9)
    assert model.intercept_[0] == pytest.approx(b)


@given(seed=seeds, eta=st.floats(1e-6, 1e6))
def test_eta_only_scales(seed: int, eta: float) -> None:
    X, y = apart(seed, least=0.2)
    for kernel in (None, "rbf"):
        one = PerceptronClassifier(kernel=kernel).fit(X, y)
        other = PerceptronClassifier(eta, kernel=kernel).fit(X, y)
        assert other.n_updates_ == one.n_updates_
        values = other.decision_function(X)
        assert values == pytest.approx(eta * one.decision_function(X), rel=1e-9)


@given(seed=seeds)
def test_kernel_and_features_take_the_same_steps(seed: int) -> None:
    X, y = apart(seed, least=0.2)
    plain = PerceptronClassifier().fit(X, y)
    fresh = np.random.default_rng(seed).normal(size=(5, X.shape[1]))
    gram, asked = PerceptronClassifier(kernel="precomputed"), fresh @ X.T
    by_function = PerceptronClassifier(kernel=lambda A, B: A @ B.T)
    for model, where, rows in (
        (PerceptronClassifier(kernel="linear"), X, fresh),
        (by_function, X, fresh),
        (gram, X @ X.T, asked),
    ):
        model.fit(where, y)
        assert model.n_updates_ == plain.n_updates_
        assert np.abs(model.dual_coef_).sum() == plain.n_updates_
        assert model.decision_function(rows) == pytest.approx(
            plain.decision_function(fresh), rel=1e-8, abs=1e-8
        )


@given(seed=seeds)
def test_sparse_rows_take_the_same_steps(seed: int) -> None:
    X, y = apart(seed, least=0.2)
    X = np.hstack([X, np.zeros_like(X)])
    dense = PerceptronClassifier().fit(X, y)
    for matrix in (sp.csr_array(X), sp.csc_matrix(X.astype(np.float64))):
        model = PerceptronClassifier().fit(matrix, y)
        assert model.n_updates_ == dense.n_updates_
        assert model.coef_ == pytest.approx(dense.coef_, rel=1e-9, abs=1e-9)


# -- theorem 1.1 ----------------------------------------------------------------------------


def test_updates_never_exceed_the_bound() -> None:
    """200 separable samples; the bound by the plane of largest margin and by the one they have."""
    tightest = np.inf
    for seed in range(200):
        X, y = apart(seed, n=20, least=0.05)
        model = PerceptronClassifier(max_iter=100_000).fit(X, y)
        assert model.converged_
        assert model.score(X, y) == 1.0
        plane = MaxMarginClassifier(C=np.inf).fit(X, y)
        best = model.mistake_bound(plane.coef_[0], plane.intercept_[0])
        own = model.mistake_bound()
        assert model.n_updates_ <= best
        assert model.n_updates_ <= own
        tightest = min(tightest, best / model.n_updates_)
    assert tightest < 5  # the bound is not so loose that nothing could exceed it


def test_the_row_that_refutes_the_printed_bound() -> None:
    """One row, x = 0.64 with the label -1: one update, and the printed bound is below one."""
    x = 0.64
    rows = Rows(Kernel("linear"), np.array([[x]]))
    found = solve(SeparatingPlane(np.array([-1.0])), rows, budget=Budget(10))
    assert found.n_updates == 1
    w, b = -1.0, -1.0 / x
    rho = -(w * x + b)
    printed = (1 + b**2) * (1 + (x**2) ** 2) / rho**2  # R = |x|^2
    corrected = bounds.perceptron(abs(x), rho, b)
    assert printed < found.n_updates <= corrected
    assert corrected == pytest.approx((1 + b**2) * (1 + x**2) / rho**2)


def test_bound_of_a_kernel_machine() -> None:
    """Rows on a circle around others: separable in the feature space of a polynomial only."""
    angle = np.random.default_rng(1).uniform(0, 2 * np.pi, 12)  # no ties, as a regular ring has
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    X, y = np.vstack([0.4 * ring, ring]), np.repeat([-1, 1], 12)
    model = PerceptronClassifier(kernel="poly", degree=2, gamma=1.0).fit(X, y)
    assert model.converged_
    assert model.n_updates_ <= model.mistake_bound()
    # By hand: k(x, z) = (x.z)^2 is the product of (x_1^2, x_2^2, sqrt2 x_1 x_2).
    features = np.column_stack([X[:, 0] ** 2, X[:, 1] ** 2, np.sqrt(2) * X[:, 0] * X[:, 1]])
    plain = PerceptronClassifier().fit(features, y)
    assert plain.n_updates_ == model.n_updates_
    assert model.mistake_bound() == pytest.approx(plain.mistake_bound())
    coefficients = np.zeros(24)
    coefficients[model.support_] = model.dual_coef_[0]
    again = model.mistake_bound(3 * coefficients, 3 * model.intercept_[0])
    assert again == pytest.approx(model.mistake_bound())


def test_bound_without_a_separator_is_infinite() -> None:
    X, y = np.array([[0.0], [1.0], [2.0]]), [0, 1, 0]
    with pytest.warns(ConvergenceWarning):
        model = PerceptronClassifier(max_iter=20).fit(X, y)
    assert model.mistake_bound() == np.inf
    assert model.mistake_bound([1.0], -0.5) == np.inf
    assert model.mistake_bound([0.0], 0.0) == np.inf


def test_bound_of_three_classes() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(scale=0.2, size=(30, 3)) + np.repeat(2 * np.eye(3), 10, axis=0)
    y = np.repeat(["a", "b", "c"], 10)
    model = PerceptronClassifier().fit(X, y)
    assert (model.predict(X) == y).all()
    assert model.decision_function(X).shape == (30, 3)
    found = model.mistake_bound(np.eye(3), [-1.0, -1.0, -1.0])
    assert found.shape == (3,)
    assert (model.n_updates_ <= found).all()


def test_wrong_planes() -> None:
    X, y = apart(0)
    model = PerceptronClassifier().fit(X, y)
    with pytest.raises(ValueError, match="w and b must be given together"):
        model.mistake_bound(np.ones(X.shape[1]))
    with pytest.raises(ValueError, match="w must have shape"):
        model.mistake_bound(np.ones(X.shape[1] + 1), 0.0)
    with pytest.raises(ValueError, match="finite"):
        model.mistake_bound(np.full(X.shape[1], np.nan), 0.0)
    smaller = model.compact()
    assert (smaller.predict(X) == y).all()
    with pytest.raises(ValueError, match="compact"):
        smaller.mistake_bound()
    assert pickle.loads(pickle.dumps(model)).mistake_bound() == model.mistake_bound()


# -- ends -----------------------------------------------------------------------------------


def test_classes_that_overlap_end_with_a_warning() -> None:
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], y[50:]
    with pytest.warns(ConvergenceWarning, match="max_iter=7 passes.*raise max_iter.*kernel"):
        model = PerceptronClassifier(max_iter=7).fit(X, y)
    assert not model.converged_
    assert model.n_iter_ == 7
    assert model.n_updates_ > 0
    with pytest.warns(ConvergenceWarning, match=r"time_limit=1e-09 s.*raise time_limit"):
        PerceptronClassifier(time_limit=1e-9).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="another kernel"):
        PerceptronClassifier(kernel="rbf", time_limit=1e-9).fit(X, y)


def test_zero_rows_are_decided_by_the_threshold_alone() -> None:
    """Nothing tells such rows apart; a value of 0 is an error for both labels."""
    with pytest.warns(ConvergenceWarning, match="of 3 rows are wrong"):
        model = PerceptronClassifier(max_iter=5).fit(np.zeros((3, 2)), [0, 1, 1])
    assert (model.coef_ == 0).all()
    assert model.n_updates_ >= 5


def test_little_memory_takes_the_same_steps() -> None:
    X, y = apart(5, n=60)
    rows = Rows(Kernel("rbf", 0.5), X)
    problem = SeparatingPlane(y.astype(float))
    plenty = solve(problem, rows, budget=Budget(1000, cache_bytes=1e9))
    scarce = solve(problem, rows, budget=Budget(1000, cache_bytes=3 * 8 * 60))
    assert plenty.status == scarce.status == "converged"
    assert plenty.n_updates == scarce.n_updates
    assert (plenty.coef == scarce.coef).all()


def test_there_are_no_sample_weights() -> None:
    X, y = apart(0)
    with pytest.raises(TypeError, match="sample_weight"):
        PerceptronClassifier().fit(X, y, sample_weight=np.ones(len(y)))


def test_the_order_of_rows_matters() -> None:
    X, y = apart(7, n=50, least=0.3)
    updates = set()
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(50)
        updates.add(PerceptronClassifier().fit(X[order], y[order]).n_updates_)
    assert len(updates) > 1


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"eta": 0.0}, "eta"),
        ({"eta": np.inf}, "eta"),
        ({"kernel": "cubic"}, "kernel"),
        ({"kernel": "rbf", "gamma": -1.0}, "gamma"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_iter": 1.5}, "max_iter"),
        ({"time_limit": 0}, "time_limit"),
        ({"cache_size": 0}, "cache_size"),
    ],
)
def test_wrong_parameters(wrong: dict, named: str) -> None:
    X, y = apart(0)
    with pytest.raises(ValueError, match=named):
        PerceptronClassifier(**wrong).fit(X, y)


def test_parameters_without_effect_are_warned_of() -> None:
    X, y = apart(0)
    with pytest.warns(UserWarning, match="gamma=2.0 has no effect"):
        PerceptronClassifier(gamma=2.0).fit(X, y)


def test_one_class_is_refused() -> None:
    with pytest.raises(ValueError, match="at least two classes"):
        PerceptronClassifier().fit(np.ones((3, 1)), [1, 1, 1])
