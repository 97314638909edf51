"""Leave-one-out and probabilities as people ask for them: edge cases, symmetries, refusals."""

from __future__ import annotations

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as LibSVC

from tests.helpers.byhand import gram
from widemargin import SVC, SVR, LinearSVC, NuSVC, NuSVR, loo

MACHINES = {
    "SVC": lambda **k: SVC(gamma=0.5, **k),
    "squared": lambda **k: SVC(gamma=0.5, loss="squared_hinge", **k),
    "origin": lambda **k: SVC(gamma=0.5, fit_intercept=False, **k),
    "NuSVC": lambda **k: NuSVC(gamma=0.5, nu=0.45, **k),
    "LinearSVC": lambda **k: LinearSVC(**k),
    "SVR": lambda **k: SVR(gamma=0.5, **k),
    "NuSVR": lambda **k: NuSVR(gamma=0.5, **k),
}
CLASSIFIERS = ["SVC", "squared", "origin", "NuSVC", "LinearSVC"]
BOUNDS = ["jaakkola_haussler", "support_vectors", "xi_alpha"]
each_machine = pytest.mark.parametrize("name", list(MACHINES))
each_classifier = pytest.mark.parametrize("name", CLASSIFIERS)
seeds = st.integers(0, 10_000)


def _data(seed: int, n: int = 30, n_classes: int = 2):
    """Rounded numbers, so that equal rows and conflicting labels occur."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 2)), int(rng.integers(0, 3)))
    y = rng.integers(0, n_classes, n)
    y[: 4 * n_classes] = np.arange(4 * n_classes) % n_classes
    X[:, 0] += y
    return X, y


def _fit(model, X, y, weight=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, sample_weight=weight)


def _result(model):
    """Return the leave-one-out of a model on random data, if it has one."""
    assume(getattr(model, "rho_", np.ones(1)).min() > 1e-6)  # else nu leaves no margin
    return loo.result(model)


def _assert_close(actual, expected, tol: float = 1e-8) -> None:
    assert np.isfinite(actual).all()  # assert_allclose lets one NaN equal another
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tol * max(1, np.abs(expected).max()))


# ---------------------------------------------------------------- the interface


@each_machine
def test_the_functions_and_the_methods_agree(name: str) -> None:
    X, y = _data(0)
    model = MACHINES[name]().fit(X, y)
    result = loo.result(model)
    held = {"NuSVC": " at fixed C", "NuSVR": " at fixed epsilon"}.get(name, "")
    assert (result.method, result.kind) == ("exact", f"exact{held}")
    assert result.is_exact
    np.testing.assert_array_equal(model.loo_decision_values(), result.values)
    np.testing.assert_array_equal(loo.decision_values(model, "exact"), result.values)
    assert model.loo_error() == loo.error(model, "exact") == result.error
    assert result.values.shape == result.errors.shape == y.shape
    assert result.cost["seconds"] >= 0
    assert result.cost["events"] >= 0
    assert result.cost["retrained"] >= 0
    assert f"{result.error:.4f} (exact{held})" in str(result)


@each_machine
def test_estimates_are_labelled_and_span_is_the_linear_response(name: str) -> None:
    X, y = _data(1)
    model = MACHINES[name]().fit(X, y)
    span, response = loo.result(model, "span"), loo.result(model, "linear_response")
    assert span.kind == response.kind == "estimate"
    assert (span.method, response.method) == ("span", "linear_response")
    np.testing.assert_array_equal(span.values, response.values)
    assert "estimate by span" in str(span)


@pytest.mark.parametrize("name", ["SVC", "squared", "LinearSVC"])
def test_what_counts_as_a_bound(name: str) -> None:
    X, y = _data(2)
    for intercept in (True, False):
        model = MACHINES[name](fit_intercept=intercept).fit(X, y)
        assert loo.result(model, "xi_alpha").kind == ("estimate" if intercept else "bound")
        assert loo.result(model, "support_vectors").kind == "bound"
        assert loo.result(model, "support_vectors").values is None
    assert loo.result(model, "jaakkola_haussler").kind == "bound"


def test_an_unknown_method_names_the_argument() -> None:
    model = SVC().fit(*_data(0))
    for ask in (loo.result, loo.error, loo.decision_values):
        with pytest.raises(ValueError, match=r"method.*'jackknife'"):
            ask(model, "jackknife")
    with pytest.raises(ValueError, match="method"):
        model.loo_error("jackknife")


@pytest.mark.parametrize("method", BOUNDS)
def test_bounds_have_no_decision_values(method: str) -> None:
    model = SVC(fit_intercept=False).fit(*_data(0))
    with pytest.raises(ValueError, match=f"method.*{method}"):
        loo.decision_values(model, method)
    assert 0 <= loo.error(model, method) <= 1


@pytest.mark.parametrize("method", BOUNDS)
@pytest.mark.parametrize("machine", [SVR, NuSVR])
def test_regressors_have_no_bounds(machine, method: str) -> None:
    model = machine().fit(*_data(0))
    with pytest.raises(ValueError, match=f"{method}.*regressor"):
        loo.error(model, method)


@pytest.mark.parametrize("machine", [SVC, NuSVC, LinearSVC])
def test_jaakkola_haussler_needs_a_machine_through_the_origin(machine) -> None:
    with pytest.raises(ValueError, match="fit_intercept=False"):
        loo.error(machine().fit(*_data(0)), "jaakkola_haussler")


@each_machine
def test_a_model_that_is_not_fitted(name: str) -> None:
    model = MACHINES[name]()
    for ask in (loo.result, loo.error, loo.decision_values, lambda m: m.loo_error()):
        with pytest.raises(NotFittedError):
            ask(model)
    with pytest.raises(NotFittedError):
        model.compact()


def test_a_foreign_estimator_is_refused() -> None:
    with pytest.raises(TypeError, match="SVC keeps no training record"):
        loo.error(LibSVC().fit(*_data(0)))


def test_a_pipeline_is_asked_through_its_last_step() -> None:
    X, y = _data(3)
    pipeline = make_pipeline(StandardScaler(), SVC(gamma=0.5)).fit(X, y)
    inner = SVC(gamma=0.5).fit(StandardScaler().fit_transform(X), y)
    np.testing.assert_array_equal(loo.decision_values(pipeline), loo.decision_values(inner))
    assert loo.error(pipeline, "xi_alpha") == loo.error(inner, "xi_alpha")


def test_the_error_counts_rows_by_weight() -> None:
    X, y = _data(4)
    weight = np.random.default_rng(4).uniform(0.2, 3.0, len(y))
    result = loo.result(SVC(gamma=0.5).fit(X, y, weight))
    wrong = np.where(y == 1, result.values <= 0, result.values >= 0)
    np.testing.assert_array_equal(result.errors, wrong)
    assert result.error == pytest.approx(np.average(wrong, weights=weight))
    curve = loo.result(SVR(gamma=0.5).fit(X, y, weight))
    np.testing.assert_allclose(curve.errors, np.abs(y - curve.values))
    assert curve.error == pytest.approx(np.average(np.abs(y - curve.values), weights=weight))


def test_asking_does_not_change_the_model_and_answers_are_the_callers() -> None:
    X, y = _data(5)
    model = SVC(gamma=0.5).fit(X, y)
    before = model.decision_function(X)
    response = loo.decision_values(model, "linear_response").copy()
    loo.result(model, "exact")
    loo.result(model, "support_vectors")
    np.testing.assert_array_equal(loo.decision_values(model, "linear_response"), response)
    np.testing.assert_array_equal(model.decision_function(X), before)


# ---------------------------------------------------------------- edge cases


def test_a_threshold_that_is_not_unique_is_in_the_middle_after_removal_too() -> None:
    """All rows at their cap, with a small C: w = C sum y x, and b has an interval."""
    x, y, C = np.array([-3.0, -2.0, 2.0, 4.0]), np.array([-1.0, -1.0, 1.0, 1.0]), 0.01
    model = SVC(kernel="linear", C=C, tol=1e-10).fit(x[:, None], y)
    expected = []
    for row in range(4):
        kept = np.delete(np.arange(4), row)
        # Two against one: the farther of the two gives way, one pair at the cap remains, and any
        # threshold between the two margins of what can move is optimal.
        again = SVC(kernel="linear", C=C, tol=1e-10).fit(x[kept, None], y[kept])
        w = float(again.decision_function([[1.0]])[0] - again.decision_function([[0.0]])[0])
        alpha = np.zeros(3)
        alpha[again.support_] = again.dual_coef_[0]
        score = y[kept] - w * x[kept]
        up = np.where(y[kept] > 0, alpha < C - 1e-12, alpha < -1e-12)
        down = np.where(y[kept] > 0, alpha > 1e-12, alpha > -C + 1e-12)
        b = 0.5 * (score[up].max() + score[down].min())
        expected.append(w * x[row] + b)
        assert again.intercept_[0] == pytest.approx(b, abs=1e-10)
    _assert_close(loo.decision_values(model), np.array(expected), 1e-10)


def test_the_middle_by_hand() -> None:
    """Two equal pairs: without row 0 one pair at its cap is left and b is in [-0.98, 0.98]."""
    x, y = np.array([-1.0, -1.0, 1.0, 1.0]), np.array([-1.0, -1.0, 1.0, 1.0])
    model = SVC(kernel="linear", C=0.01).fit(x[:, None], y)
    # w = 4 C before. Without a row of the left class: w = 0.02, the right class has 0.01 in all,
    # free to move, so b = 1 - w; without one of the right class b = -(1 - w).
    _assert_close(loo.decision_values(model), np.array([0.96, 0.96, -0.96, -0.96]), 1e-10)
    balanced = SVC(kernel="linear", C=0.01).fit(x[:, None], y, sample_weight=[1.0, 1.0, 1.0, 1.0])
    np.testing.assert_array_equal(loo.decision_values(balanced), loo.decision_values(model))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_only_row_of_a_class_is_lost_by_a_margin_of_one(loss: str, kernel: str) -> None:
    X, _ = _data(6, 12)
    y = np.zeros(12, dtype=int)
    y[5] = 1
    result = loo.result(SVC(kernel=kernel, loss=loss).fit(X, y))
    assert result.values[5] == pytest.approx(-1.0, abs=1e-12)
    assert result.errors[5]
    flipped = loo.result(SVC(kernel=kernel, loss=loss).fit(X, 1 - y))
    assert flipped.values[5] == pytest.approx(1.0, abs=1e-12)
    assert flipped.errors[5]


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_two_rows(loss: str, C: float) -> None:
    X, y = np.array([[0.0], [1.0]]), np.array([-1, 1])
    result = loo.result(SVC(kernel="linear", loss=loss, C=C).fit(X, y))
    np.testing.assert_allclose(result.values, [1.0, -1.0], atol=1e-12)
    assert result.error == 1.0
    origin = loo.result(SVC(kernel="linear", loss=loss, C=C, fit_intercept=False).fit(X, y))
    np.testing.assert_allclose(origin.values, [0.0, 0.0], atol=1e-12)
    assert origin.error == 1.0


def test_one_and_two_rows_of_a_curve() -> None:
    one = loo.result(SVR(fit_intercept=False).fit([[1.0]], [2.0]))
    np.testing.assert_allclose(one.values, [0.0], atol=1e-12)
    assert one.error == pytest.approx(2.0)
    # Without its fellow a row is met by a constant anywhere in its tube: the middle is the row.
    two = loo.result(SVR(gamma=1.0).fit([[0.0], [1.0]], [2.0, 3.0]))
    np.testing.assert_allclose(two.values, [3.0, 2.0], atol=1e-12)


def test_shares_of_equal_rows_do_not_matter() -> None:
    """A precomputed kernel is not merged: equal rows share their coefficient in any way."""
    X, y = _data(7, 14)
    X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    merged = loo.decision_values(SVC(gamma=0.5).fit(X, y))
    for order in (np.arange(28), np.random.default_rng(0).permutation(28)):
        K = gram(X[order], X[order], gamma=0.5)
        values = loo.decision_values(SVC(kernel="precomputed").fit(K, y[order]))
        _assert_close(values, merged[order])
    np.testing.assert_array_equal(merged[::2], merged[1::2])


# Of the nu machines C or epsilon is what the fit has found.
@pytest.mark.parametrize("name", [name for name in MACHINES if not name.startswith("Nu")])
def test_a_fit_that_was_stopped_is_brought_to_its_optimum(name: str) -> None:
    X, y = load_iris(return_X_y=True)
    X, y = X[50:110:2], y[50:110:2]
    with pytest.warns(ConvergenceWarning):
        stopped = MACHINES[name](max_iter=1, tol=1e-8).fit(X, y)
    converged = MACHINES[name](tol=1e-8).fit(X, y)
    _assert_close(loo.decision_values(stopped), loo.decision_values(converged))
    assert loo.error(stopped) == pytest.approx(loo.error(converged), rel=1e-8)


@pytest.mark.parametrize("method", ["exact", "linear_response"])
def test_indefinite_kernels_are_refused(method: str) -> None:
    X, y = _data(8)
    with pytest.warns(UserWarning, match="semi-definite"):
        model = SVC(kernel="sigmoid", gamma=1.0, coef0=-1.0).fit(X, y)
    with pytest.raises(ValueError, match=r"positive semi-definite.*sigmoid"):
        loo.result(model, method)
    K = gram(X, X, gamma=0.5) - 0.5 * np.eye(len(y))
    with pytest.warns(UserWarning, match="semi-definite"):
        model = _fit(SVC(kernel="precomputed"), K, y)
    with pytest.raises(ValueError, match=r"positive semi-definite.*precomputed"):
        loo.result(model, method)
    with pytest.warns(UserWarning, match="semi-definite"):
        curve = _fit(SVR(kernel="precomputed"), K, y.astype(float))
    with pytest.raises(ValueError, match=r"positive semi-definite.*precomputed"):
        loo.result(curve, method)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("gamma", [1e2, 1e3, 1e6])
def test_a_tie_is_an_error(loss: str, gamma: float) -> None:
    """A kernel that sees nothing but the row itself says 0 of a row that it has not seen."""
    X = np.random.default_rng(9).permutation(40).reshape(20, 2).astype(float)
    y = np.arange(20) % 2
    model = SVC(gamma=gamma, loss=loss, fit_intercept=False).fit(X, y)
    result = loo.result(model)
    np.testing.assert_allclose(result.values, 0.0, atol=1e-9)
    assert result.error == 1.0
    for method in BOUNDS:
        assert loo.error(model, method) == 1.0


def test_bounds_count_what_is_a_tie_but_for_rounding() -> None:
    """The value left out is 1e-22, and a bound must not be below the error that this is."""
    rng = np.random.default_rng(0)
    X = 10.0 * rng.permutation(60).reshape(30, 2) + rng.normal(size=(30, 2))
    y = rng.integers(0, 2, 30)
    for C in (0.1, 0.3, 0.7, 3.0):
        for loss in ("hinge", "squared_hinge"):
            model = SVC(C=C, gamma=0.3, loss=loss, fit_intercept=False, tol=1e-10).fit(X, y)
            exact = loo.error(model)
            for method in BOUNDS:
                assert loo.error(model, method) >= exact, (C, loss, method)


def test_ties_of_several_classes_are_errors() -> None:
    X = np.random.default_rng(9).permutation(36).reshape(18, 2).astype(float)
    result = loo.result(SVC(gamma=1e6, fit_intercept=False).fit(X, np.arange(18) % 3))
    assert result.error == 1.0
    assert result.values.shape == (18, 3)


@each_machine
def test_rows_of_zero_weight_are_judged_by_the_fitted_model(name: str) -> None:
    X, y = _data(10, 40)
    weight = np.ones(40)
    weight[10::3] = 0.0
    model = MACHINES[name](tol=1e-9).fit(X, y, weight)
    result = loo.result(model)
    zero = weight == 0
    fitted = getattr(model, "decision_function", model.predict)(X)
    _assert_close(result.values[zero], fitted[zero])
    present = loo.result(MACHINES[name](tol=1e-9).fit(X[~zero], y[~zero]))
    _assert_close(result.values[~zero], present.values)
    assert result.error == pytest.approx(present.error, abs=1e-9)


def test_a_zero_weight_class_is_an_error_without_weight() -> None:
    X, y = _data(11, 30)
    y[-3:] = 7
    weight = np.where(y == 7, 0.0, 1.0)
    result = loo.result(SVC(gamma=0.5).fit(X, y, weight))
    assert result.values.shape == (30,)
    assert result.errors[-3:].all()
    assert result.error == pytest.approx(result.errors[:-3].mean())


def test_zero_weights_with_a_precomputed_kernel() -> None:
    X, y = _data(12, 30)
    weight = np.ones(30)
    weight[[9, 17, 29]] = 0.0
    K = gram(X, X, gamma=0.5)
    values = loo.decision_values(SVC(kernel="precomputed", tol=1e-10).fit(K, y, weight))
    _assert_close(values, loo.decision_values(SVC(gamma=0.5, tol=1e-10).fit(X, y, weight)))


# ---------------------------------------------------------------- symmetries


@each_machine
@given(seed=seeds)
@settings(max_examples=10)
def test_the_order_of_rows_changes_no_bit(name: str, seed: int) -> None:
    X, y = _data(seed)
    rng = np.random.default_rng(seed)
    order, weight = rng.permutation(len(y)), rng.choice([0.5, 1.0, 2.0], len(y))
    if name.startswith("Nu"):
        weight[:] = 1.0
    one = _result(_fit(MACHINES[name](), X, y, weight))
    other = _result(_fit(MACHINES[name](), X[order], y[order], weight[order]))
    _assert_close(other.values, one.values[order], 1e-12)
    _assert_close(other.errors, one.errors[order], 1e-12)


@each_machine
@given(seed=seeds)
@settings(max_examples=10)
def test_weight_two_is_the_row_twice(name: str, seed: int) -> None:
    X, y = _data(seed)
    times = np.random.default_rng(seed).integers(1, 4, len(y))
    weighted = _result(_fit(MACHINES[name](), X, y, times.astype(float)))
    copies = np.repeat(np.arange(len(y)), times)
    repeated = _result(_fit(MACHINES[name](), X[copies], y[copies]))
    _assert_close(repeated.values, weighted.values[copies], 1e-12)
    assert repeated.error == pytest.approx(weighted.error, abs=1e-12)


@each_classifier
@given(seed=seeds)
@settings(max_examples=10)
def test_exchanging_the_labels_negates_the_values(name: str, seed: int) -> None:
    X, y = _data(seed)
    one = _result(_fit(MACHINES[name](tol=1e-9), X, y))
    other = _result(_fit(MACHINES[name](tol=1e-9), X, 1 - y))
    _assert_close(other.values, -one.values, 1e-6 if name == "NuSVC" else 1e-8)
    assert other.error == pytest.approx(one.error)


@pytest.mark.parametrize("name", ["SVR", "NuSVR"])
@given(seed=seeds, shift=st.sampled_from([-20.0, 0.5, 3.0]))
@settings(max_examples=10)
def test_a_curve_follows_its_target(name: str, seed: int, shift: float) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(25, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=25)
    plain, moved, negated = (
        loo.decision_values(_fit(MACHINES[name](tol=1e-9), X, t)) for t in (y, y + shift, -y)
    )
    tol = 1e-6 if name == "NuSVR" else 1e-8
    _assert_close(moved, plain + shift, tol)
    _assert_close(negated, -plain, tol)


@each_machine
def test_sparse_rows_and_single_precision_agree_with_dense_double(name: str) -> None:
    X, y = _data(13, 40)
    X = np.round(X, 2) * (np.abs(X) > 0.3)
    expected = loo.decision_values(_fit(MACHINES[name](tol=1e-9), X, y))
    sparse = loo.decision_values(_fit(MACHINES[name](tol=1e-9), sp.csr_array(X), y))
    _assert_close(sparse, expected, 1e-6 if name.startswith("Nu") else 1e-9)
    single = loo.decision_values(_fit(MACHINES[name](), X.astype(np.float32), y))
    _assert_close(single, expected, 2e-2 if name.startswith("Nu") else 1e-4)
    # Numbers that single precision holds exactly are the same problem.
    coarse = np.round(8 * X) / 8
    one = loo.decision_values(_fit(MACHINES[name](tol=1e-9), coarse, y))
    other = loo.decision_values(_fit(MACHINES[name](tol=1e-9), coarse.astype(np.float32), y))
    _assert_close(other, one, 1e-5)


@pytest.mark.parametrize("name", ["SVC", "NuSVC", "LinearSVC"])
def test_several_classes_sparse_and_permuted(name: str) -> None:
    X, y = _data(14, 45, n_classes=3)
    X[:, 0] += y
    order = np.random.default_rng(0).permutation(45)
    # Pairs without the row's class answer as they were fitted, hence the tolerance.
    one = loo.result(_fit(MACHINES[name](tol=1e-9), X, y))
    other = loo.result(_fit(MACHINES[name](tol=1e-9), sp.csr_array(X[order]), y[order]))
    assert one.values.shape == (45, 3)
    assert np.isfinite(one.values).all()
    _assert_close(other.values, one.values[order], 1e-6)
    np.testing.assert_array_equal(other.errors, one.errors[order])


def test_labels_of_any_kind() -> None:
    X, y = _data(15)
    names = np.array(["no", "yes"])[y]
    np.testing.assert_array_equal(
        loo.decision_values(SVC().fit(X, names)), loo.decision_values(SVC().fit(X, y))
    )
    assert loo.error(SVC().fit(X, names)) == loo.error(SVC().fit(X, y))


# ---------------------------------------------------------------- memory


@each_machine
def test_an_answer_is_found_once(name: str) -> None:
    model = MACHINES[name]().fit(*_data(16))
    before = set(vars(model))
    assert loo.result(model) is loo.result(model, "exact")
    assert loo.result(model, "span") is loo.result(model, "span")
    assert set(vars(model)) == before


def test_two_threads_get_one_answer() -> None:
    X, y = _data(17, 120)
    model = SVC(gamma=0.5).fit(X, y)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: loo.result(model), range(8)))
        chances = list(pool.map(lambda _: model.predict_proba(X), range(4)))
    assert all(result is found[0] for result in found)
    assert all((p == chances[0]).all() for p in chances)


def test_fitting_again_forgets() -> None:
    X, y = _data(18)
    model = SVC(gamma=0.5, C=0.1).fit(X, y)
    first = loo.result(model)
    model.set_params(C=10.0).fit(X, y)
    assert loo.result(model) is not first
    np.testing.assert_array_equal(
        loo.decision_values(model), loo.decision_values(SVC(gamma=0.5, C=10.0).fit(X, y))
    )


@each_machine
@pytest.mark.parametrize("asked", [True, False])
def test_a_pickled_model_answers_alike(name: str, asked: bool) -> None:
    model = MACHINES[name]().fit(*_data(19))
    if asked:
        loo.result(model)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loo.decision_values(copy), loo.decision_values(model))
    assert loo.error(copy, "span") == loo.error(model, "span")


def test_a_compact_model_drops_the_data_and_keeps_the_answers() -> None:
    rng = np.random.default_rng(20)
    X = rng.normal(size=(400, 50))
    y = (X[:, 0] > 0).astype(int)
    X[:, 0] += 3 * np.where(y == 1, 1, -1)
    model = LinearSVC().fit(X, y)
    size = len(pickle.dumps(model.compact()))
    assert size < 20_000 < X.nbytes < len(pickle.dumps(model))
    error, chances = model.loo_error(), model.predict_proba(X)
    compact = model.compact()
    assert len(pickle.dumps(compact)) < 40_000
    for copy in (compact, pickle.loads(pickle.dumps(compact))):
        np.testing.assert_array_equal(copy.predict(X), model.predict(X))
        np.testing.assert_array_equal(copy.predict_proba(X), chances)
        assert copy.loo_error() == copy.loo_error("exact") == error
        with pytest.raises(ValueError, match="compact"):
            copy.loo_error("span")
    assert model.loo_error("span") >= 0  # the model itself still has its data


@each_machine
def test_a_compact_model_that_was_never_asked_refuses(name: str) -> None:
    X, y = _data(21)
    model = MACHINES[name]().fit(X, y)
    compact = model.compact()
    assert type(compact) is type(model)
    assert compact.get_params() == model.get_params()
    np.testing.assert_array_equal(compact.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="compact"):
        loo.error(compact)
    if hasattr(compact, "predict_proba"):
        with pytest.raises(ValueError, match=r"predict_proba.*compact"):
            compact.predict_proba(X)


# ---------------------------------------------------------------- probabilities


@each_classifier
@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_likeliest_class_is_the_predicted_one(
    name: str, calibration: str, n_classes: int
) -> None:
    X, y = load_iris(return_X_y=True)
    X, y = X[y >= 3 - n_classes], y[y >= 3 - n_classes]
    model = MACHINES[name](calibration=calibration).fit(X, y)
    between = np.random.default_rng(0).uniform(X.min(axis=0), X.max(axis=0), (300, 4))
    for rows in (X, between):
        p = model.predict_proba(rows)
        assert p.shape == (len(rows), n_classes)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
        assert (p > 0).all()
        np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(rows))
        np.testing.assert_array_equal(model.predict_log_proba(rows), np.log(p))
    again = MACHINES[name](calibration=calibration).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
def test_at_the_boundary_both_classes_are_equally_likely(calibration: str) -> None:
    x = np.array([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0])
    options = {"kernel": "linear", "fit_intercept": False, "calibration": calibration}
    model = SVC(**options).fit(x[:, None], [0, 0, 1, 0, 1, 1])
    assert model.decision_function([[0.0]])[0] == 0.0
    np.testing.assert_array_equal(model.predict_proba([[0.0]]), [[0.5, 0.5]])
    p = model.predict_proba(np.linspace(-5, 5, 101)[:, None])[:, 1]
    assert (np.diff(p) >= 0).all()


def test_probabilities_are_calibrated_on_left_out_values() -> None:
    """A machine that knows its rows by heart is sure of them; its left-out values are not."""
    rng = np.random.default_rng(22)
    X, y = rng.normal(size=(200, 2)), rng.integers(0, 2, 200)
    model = SVC(gamma=50.0, C=1e3).fit(X, y)
    assert model.score(X, y) == 1.0
    p = model.predict_proba(X)
    assert p.max() < 0.9
    assert 0.3 < model.loo_error() < 0.7


def test_a_weight_is_a_repetition_for_probabilities() -> None:
    X, y = _data(23)
    times = np.random.default_rng(23).integers(0, 4, len(y))
    times[:8] = 1
    copies = np.repeat(np.arange(len(y)), times)
    weighted = SVC(gamma=0.5).fit(X, y, times.astype(float)).predict_proba(X)
    repeated = SVC(gamma=0.5).fit(X[copies], y[copies]).predict_proba(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-10)


def test_isotonic_and_sigmoid_differ_and_are_remembered_apart() -> None:
    X, y = _data(24, 60)
    model = SVC(gamma=0.5).fit(X, y)
    sigmoid = model.predict_proba(X)
    isotonic = model.set_params(calibration="isotonic").predict_proba(X)
    assert (sigmoid != isotonic).any()
    np.testing.assert_array_equal(
        isotonic, SVC(gamma=0.5, calibration="isotonic").fit(X, y).predict_proba(X)
    )
    np.testing.assert_array_equal(model.set_params(calibration="sigmoid").predict_proba(X), sigmoid)


@pytest.mark.parametrize("machine", [SVC, NuSVC, LinearSVC])
@pytest.mark.parametrize("value", ["platt", None, True])
def test_a_calibration_that_does_not_exist(machine, value) -> None:
    with pytest.raises(ValueError, match="calibration"):
        machine(calibration=value).fit(*_data(0))
    model = machine().fit(*_data(0)).set_params(calibration=value)
    with pytest.raises(ValueError, match="calibration"):
        model.predict_proba(_data(0)[0])


def test_probabilities_before_fitting_and_of_indefinite_kernels() -> None:
    X, y = _data(25)
    with pytest.raises(NotFittedError):
        SVC().predict_proba(X)
    with pytest.warns(UserWarning, match="semi-definite"):
        model = SVC(kernel="sigmoid", gamma=1.0, coef0=-1.0).fit(X, y)
    with pytest.warns(UserWarning, match="too certain.*positive semi-definite"):
        p = model.predict_proba(X)
    np.testing.assert_array_equal(p[:, 1] > 0.5, model.predict(X) == 1)


@pytest.mark.parametrize("machine", [SVC(), NuSVC(nu=0.3), LinearSVC()])
def test_probabilities_of_more_than_five_thousand_rows(machine) -> None:
    rng = np.random.default_rng(26)
    X = rng.normal(size=(5200, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=5200) > 0).astype(int)
    model = machine.fit(X, y)
    assert loo.result(model).kind == "estimate"
    p = model.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(p > 0.5, model.predict(X) == 1)
    assert np.abs(p.mean() - y.mean()) < 0.02
    brier = np.mean((p - y) ** 2)
    assert brier < 0.1


def test_no_small_fit_is_refused() -> None:
    """Sums that miss their total by rounding must not look like a fit that failed."""
    X, y = make_moons(800, noise=0.3, random_state=0)
    for C in (0.1, 0.3, 1.0, 3.0, 10.0, 30.0):
        for gamma in (0.1, 0.3, 1.0, 3.0):
            assert loo.result(SVC(C=C, gamma=gamma).fit(X[:100], y[:100])).kind == "exact"


def test_a_nu_that_leaves_no_margin_has_no_leave_one_out() -> None:
    rng = np.random.default_rng(27)
    X = np.repeat(rng.normal(size=(20, 2)), 2, axis=0)
    model = NuSVC(nu=0.2).fit(X, np.tile([0, 1], 20))  # every point has both labels
    with pytest.raises(ValueError, match=r"nu=0.2 .* no margin \(rho_ = .*\). Raise nu"):
        loo.error(model)
    p = model.predict_proba(X)  # the fit has warned
    np.testing.assert_allclose(p, 0.5, atol=1e-6)
    np.testing.assert_array_equal(p[:, 1] > 0.5, model.predict(X) == 1)
