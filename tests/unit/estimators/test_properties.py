"""Symmetries of the machines, found on generated data: what must not change, and what must."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from tests.helpers.byhand import gram
from widemargin import SVC, SVR, LinearSVC, NuSVC, NuSVR

FRESH = np.random.default_rng(99).normal(size=(25, 3))

MACHINES = {
    "SVC": lambda **k: SVC(**k),
    "balanced": lambda **k: SVC(class_weight="balanced", **k),
    "squared": lambda **k: SVC(loss="squared_hinge", **k),
    "origin": lambda **k: SVC(fit_intercept=False, **k),
    "linear_kernel": lambda **k: SVC(kernel="linear", **k),
    "NuSVC": lambda **k: NuSVC(nu=0.1, **k),
    "SVR": lambda **k: SVR(**k),
    "NuSVR": lambda **k: NuSVR(**k),
    "LinearSVC": lambda **k: LinearSVC(**k),
}
NAMES = list(MACHINES)
CLASSIFIERS = ["SVC", "balanced", "squared", "origin", "linear_kernel", "NuSVC", "LinearSVC"]
TIGHT = ["SVC", "balanced", "squared", "origin", "NuSVC"]  # machines with an rbf kernel
each_machine = pytest.mark.parametrize("name", NAMES)
seeds = st.integers(0, 10_000)


def _data(seed: int, n: int, n_classes: int = 2):
    """Rounded numbers, so that equal rows, equal features and conflicting labels occur."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 3)), rng.integers(0, 3))
    y = rng.integers(0, n_classes, n)
    y[: 2 * n_classes] = np.arange(2 * n_classes) % n_classes
    X[:, 0] += y
    return X, y


def _values(model, X=FRESH) -> np.ndarray:
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def _fit(model, X, y, weight=None):
    with warnings.catch_warnings():
        # The linear machine may stop at its budget; its bits are compared all the same.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, sample_weight=weight)


def _same_model(one, other) -> None:
    """Demand the same coefficients on the same rows, whatever order the rows stand in."""
    np.testing.assert_array_equal(one.intercept_, other.intercept_)
    assert one.certificate_ == other.certificate_
    np.testing.assert_array_equal(_coefficients(one), _coefficients(other))


def _coefficients(model) -> np.ndarray:
    if not hasattr(model, "dual_coef_"):
        return model.coef_
    rows = model.support_vectors_
    rows = rows.toarray() if sp.issparse(rows) else rows
    dual = model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else model.dual_coef_
    table = np.c_[rows, dual.T]
    return table[np.lexsort(table.T)]


def _same_bits(one, other) -> None:
    _same_model(one, other)
    np.testing.assert_array_equal(_values(one), _values(other))


# ---------------------------------------------------------------- same bits


@each_machine
@given(seed=seeds, n=st.integers(8, 60))
def test_the_order_of_rows_changes_no_bit(name: str, seed: int, n: int) -> None:
    X, y = _data(seed, n)
    order = np.random.default_rng(seed).permutation(n)
    one = _fit(MACHINES[name](), X, y)
    other = _fit(MACHINES[name](), X[order], y[order])
    _same_bits(one, other)


@each_machine
@given(seed=seeds, n=st.integers(8, 40))
def test_a_weight_is_a_repetition_to_the_bit(name: str, seed: int, n: int) -> None:
    X, y = _data(seed, n)
    weight = np.random.default_rng(seed).integers(1, 4, n)
    weighted = _fit(MACHINES[name](), X, y, weight.astype(float))
    repeated = _fit(MACHINES[name](), np.repeat(X, weight, axis=0), np.repeat(y, weight))
    _same_bits(weighted, repeated)


@each_machine
@given(seed=seeds, n=st.integers(12, 40))
def test_a_zero_weight_is_an_absent_row_to_the_bit(name: str, seed: int, n: int) -> None:
    X, y = _data(seed, n)
    keep = np.random.default_rng(seed).random(n) < 0.7
    keep[:4] = True
    weighted = _fit(MACHINES[name](), X, y, keep.astype(float))
    without = _fit(MACHINES[name](), X[keep], y[keep])
    _same_bits(weighted, without)


@pytest.mark.parametrize("name", ["SVC", "NuSVC", "LinearSVC"])
@given(seed=seeds)
@settings(max_examples=8)
def test_the_same_bits_with_three_classes_and_sparse_rows(name: str, seed: int) -> None:
    X, y = _data(seed, 45, n_classes=3)
    rng = np.random.default_rng(seed)
    weight, order = rng.integers(0, 3, 45), rng.permutation(45)
    weight[:6] = 1
    plain = _fit(MACHINES[name](), sp.csr_array(X), y, weight.astype(float))
    copies = np.repeat(order, weight[order])
    other = _fit(MACHINES[name](), sp.csr_array(X[copies]), y[copies])
    _same_bits(plain, other)


@pytest.mark.parametrize("name", ["SVC", "SVR", "LinearSVC"])
def test_the_order_of_five_thousand_rows_changes_no_bit(name: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=5000) > 0).astype(int)
    order = rng.permutation(5000)
    one, other = _fit(MACHINES[name](), X, y), _fit(MACHINES[name](), X[order], y[order])
    _same_bits(one, other)


@pytest.mark.parametrize(
    ("name", "n"),
    [*[(name, 300) for name in NAMES], *[(m, 6000) for m in ("SVC", "NuSVC", "SVR", "LinearSVC")]],
)
def test_the_same_fit_twice_gives_the_same_bits(name: str, n: int) -> None:
    X, y = _data(1, n)
    X = X + np.random.default_rng(0).normal(size=X.shape)
    _same_bits(_fit(MACHINES[name](), X, y), _fit(MACHINES[name](), X, y))


def test_weights_all_equal_scale_the_cost() -> None:
    """Weight 2 everywhere is C doubled: gamma="scale" does not see it."""
    X, y = _data(3, 50)
    doubled = SVC(C=1.0).fit(X, y, sample_weight=np.full(50, 2.0))
    _same_bits(doubled, SVC(C=2.0).fit(X, y))


# ---------------------------------------------------------------- same model


@pytest.mark.parametrize("name", CLASSIFIERS)
@given(seed=seeds)
def test_exchanging_the_labels_negates_the_decisions(name: str, seed: int) -> None:
    X, y = _data(seed, 40)
    budget = {"max_iter": 100_000} if name == "LinearSVC" else {}
    one = _fit(MACHINES[name](tol=1e-9, **budget), X, y)
    other = _fit(MACHINES[name](tol=1e-9, **budget), X, 1 - y)
    atol = 1e-5 * max(1.0, np.abs(_values(one)).max())
    np.testing.assert_allclose(_values(other), -_values(one), atol=atol)


@pytest.mark.parametrize("name", ["SVR", "NuSVR"])
@given(seed=seeds, shift=st.floats(-50, 50))
def test_regression_follows_its_target(name: str, seed: int, shift: float) -> None:
    """y + shift moves the prediction by shift, -y negates it."""
    X, _ = _data(seed, 40)
    y = np.sin(X[:, 0]) + np.random.default_rng(seed).normal(size=40)
    plain = _values(_fit(MACHINES[name](tol=1e-9), X, y))
    moved = _values(_fit(MACHINES[name](tol=1e-9), X, y + shift))
    negated = _values(_fit(MACHINES[name](tol=1e-9), X, -y))
    np.testing.assert_allclose(moved, plain + shift, atol=1e-4)
    np.testing.assert_allclose(negated, -plain, atol=1e-4)


@pytest.mark.parametrize("name", TIGHT)
@given(seed=seeds, shift=st.sampled_from([-1e4, -3.7, 0.125, 1e3]))
def test_the_rbf_kernel_does_not_see_a_translation(name: str, seed: int, shift: float) -> None:
    X, y = _data(seed, 40)
    one = _fit(MACHINES[name](gamma=0.4, tol=1e-9), X, y)
    other = _fit(MACHINES[name](gamma=0.4, tol=1e-9), X + shift, y)
    atol = 1e-5 * max(1.0, np.abs(_values(one)).max())
    np.testing.assert_allclose(_values(other, FRESH + shift), _values(one), atol=atol)


@given(seed=seeds, factor=st.sampled_from([1e-4, 0.5, 3.0, 1e4]))
def test_a_scaled_kernel_with_the_inverse_cost_decides_alike(seed: int, factor: float) -> None:
    X, y = _data(seed, 40)
    K, fresh = gram(X, X, gamma=0.4), gram(FRESH, X, gamma=0.4)
    one = _fit(SVC(kernel="precomputed", C=2.0, tol=1e-9), K, y)
    other = _fit(SVC(kernel="precomputed", C=2.0 / factor, tol=1e-9), factor * K, y)
    np.testing.assert_allclose(_values(other, factor * fresh), _values(one, fresh), atol=1e-5)
    assert other.certificate_.dual * factor == pytest.approx(one.certificate_.dual, rel=1e-7)


@given(seed=seeds, nu=st.floats(0.05, 0.9))
def test_nu_bounds_the_fractions_of_errors_and_support_vectors(seed: int, nu: float) -> None:
    """Margin errors <= nu <= support vectors (up to the tolerance), when nu is feasible."""
    X, y = _data(seed, 60)
    X = X + 1e-3 * np.random.default_rng(seed).normal(size=X.shape)
    nu = min(nu, 0.99 * 2 * np.bincount(y).min() / 60)
    model = _fit(NuSVC(nu=nu, gamma=0.4, tol=1e-9), X, y)
    sign = np.where(y == 1, 1.0, -1.0)
    errors = np.mean(sign * model.decision_function(X) < 1 - 1e-5)
    assert errors <= nu + 1e-9
    assert len(model.support_) / 60 >= nu - 1e-9


@given(seed=seeds)
def test_a_larger_cost_never_lowers_the_optimum(seed: int) -> None:
    X, y = _data(seed, 40)
    duals = [_fit(SVC(C=C, gamma=0.4), X, y).certificate_.dual for C in (0.1, 1.0, 10.0, 100.0)]
    assert np.all(np.diff(duals) >= -1e-9 * np.abs(duals[1:]))
