"""LinearSVR: attributes, weights, input formats, leave-one-out, bad input."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVR as Liblinear

from widemargin import SVR, LinearSVR, LOOSearch, loo

LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive")
both_losses = pytest.mark.parametrize("loss", LOSSES)


def data(n=120, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ [1.0, -2.0, 0.5][:d] + 1.0 + 0.3 * rng.normal(size=n)


def test_parameters_and_defaults_are_those_of_scikit_learn_but_for_the_intercept():
    ours, theirs = LinearSVR().get_params(), Liblinear().get_params()
    assert {name: ours[name] for name in theirs} == {**theirs, "intercept_scaling": None}
    assert set(ours) - set(theirs) == {"time_limit"}


@both_losses
def test_attributes_have_the_shapes_of_scikit_learn(loss):
    X, y = data()
    theirs = Liblinear(loss=loss, tol=0.1, max_iter=100_000).fit(X, y)
    ours = LinearSVR(loss=loss).fit(X, y)
    for name in ("coef_", "intercept_"):
        assert getattr(ours, name).shape == getattr(theirs, name).shape
    assert isinstance(ours.n_iter_, int)
    assert ours.certificates_ == [ours.certificate_]
    assert LinearSVR(fit_intercept=False).fit(X, y).intercept_ == 0.0
    assert ours.predict(X) == pytest.approx(X @ ours.coef_ + ours.intercept_)
    assert ours.score(X, y) > 0.9


@both_losses
def test_dual_has_no_effect(loss):
    X, y = data()
    models = [LinearSVR(loss=loss, dual=dual).fit(X, y) for dual in (True, False, "auto")]
    assert (models[0].coef_ == models[1].coef_).all()
    assert (models[0].coef_ == models[2].coef_).all()


@both_losses
@pytest.mark.parametrize("scaling", [None, 2.0])
def test_weight_repetition_and_order_give_the_same_bits(loss, scaling):
    X, y = data()
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 4, len(y))
    model = LinearSVR(loss=loss, epsilon=0.1, intercept_scaling=scaling)
    one = model.fit(X, y, sample_weight=weight)
    rows = rng.permutation(np.repeat(np.arange(len(y)), weight))
    other = LinearSVR(**model.get_params()).fit(X[rows], y[rows])
    assert (one.coef_ == other.coef_).all()
    assert (one.intercept_ == other.intercept_).all()


@both_losses
@pytest.mark.parametrize("scaling", [None, 2.0])
def test_sparse_and_float32_samples(loss, scaling):
    X, y = data()
    X = np.where(np.abs(X) > 0.4, X, 0.0).astype(np.float32)
    model = LinearSVR(loss=loss, epsilon=0.1, intercept_scaling=scaling, tol=1e-7)
    dense = model.fit(X, y)
    primal, predicted = dense.certificate_.primal, dense.predict(X)
    model.fit(sp.csr_matrix(X), y)
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-6)
    assert model.predict(sp.csr_matrix(X)) == pytest.approx(predicted, abs=1e-2)


def test_a_strongly_scaled_intercept_is_nearly_free():
    X, y = data()
    free = LinearSVR(tol=1e-8).fit(X, y)
    scaled = LinearSVR(intercept_scaling=1e4, tol=1e-8).fit(X, y)
    assert "penalised intercept" in scaled.certificate_.problem
    assert scaled.certificate_.primal == pytest.approx(free.certificate_.primal, rel=1e-6)
    assert LinearSVR(intercept_scaling=0.1).fit(X, y).certificate_.primal > 1.01 * (
        free.certificate_.primal
    )


@both_losses
def test_leave_one_out(loss):
    X, y = data(60)
    model = LinearSVR(loss=loss, epsilon=0.1).fit(X, y)
    found = loo.result(model)
    assert found.kind == "exact"
    assert model.loo_error() == pytest.approx(np.abs(y - found.values).mean())
    without = LinearSVR(loss=loss, epsilon=0.1, tol=1e-10).fit(X[1:], y[1:])
    assert found.values[0] == pytest.approx(without.predict(X[:1])[0], abs=1e-4)
    if loss == LOSSES[0]:
        kernel = SVR(kernel="linear", tol=1e-6).fit(X, y)
        for method in ("exact", "linear_response"):
            values = loo.decision_values(kernel, method=method)
            assert model.loo_decision_values(method) == pytest.approx(values, abs=1e-5)
    small = model.compact()
    assert small.loo_error() == model.loo_error()
    assert (pickle.loads(pickle.dumps(small)).predict(X) == model.predict(X)).all()


def test_the_cost_is_tuned_by_leave_one_out():
    X, y = data(60)
    search = LOOSearch(LinearSVR(), {"C": [1e-4, 1.0]}).fit(X, y)
    assert search.best_params_ == {"C": 1.0}


def test_a_budget_that_is_too_small_warns_with_valid_bounds():
    X, y = data(2_000)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = LinearSVR(C=1e4, tol=1e-12, max_iter=1).fit(X, y)
    best = LinearSVR(C=1e4, tol=1e-8).fit(X, y).certificate_
    assert not model.certificate_.converged
    assert model.certificate_.dual <= best.primal
    assert model.certificate_.primal >= best.dual


WRONG = {
    "epsilon": (-0.1, np.nan, "0"), "C": (0.0, -1.0, np.inf), "tol": (0.0, "tight"),
    "loss": ("hinge", None), "fit_intercept": ("yes",), "intercept_scaling": (0.0, -1.0, "1"),
    "dual": ("yes", 2), "max_iter": (0, 1.5), "time_limit": (0.0,), "random_state": ("seed",),
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in WRONG.items() for v in values])
def test_wrong_parameters_are_named(name, value):
    X, y = data(20)
    with pytest.raises(ValueError, match=name):
        LinearSVR(**{name: value}).fit(X, y)


def test_wrong_data_are_named():
    X, y = data(20)
    with pytest.raises(ValueError, match="NaN"):
        LinearSVR().fit(np.where(X > 1, np.nan, X), y)
    with pytest.raises(ValueError, match="weight"):
        LinearSVR().fit(X, y, sample_weight=np.zeros(20))
    with pytest.raises(ValueError, match="too large"):
        LinearSVR().fit(1e80 * X, y)
    with pytest.raises(ValueError, match="features"):
        LinearSVR().fit(X, y).predict(X[:, :2])
