"""OneClassSVM: parameters, attributes, invariances, degenerate data and leave-one-out."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import LOOSearch, OneClassSVM, loo, report, suspects
from widemargin.problems.soft_margin import one_class


def cloud(n=60, d=2, far=5, seed=0):
    """Return a normal cloud and a few samples around it."""
    rng = np.random.default_rng(seed)
    return np.r_[rng.normal(size=(n - far, d)), rng.uniform(-6, 6, size=(far, d))]


# ---------------------------------------------------------------- the problem


def test_problem_is_a_soft_margin_with_one_total():
    weight = np.array([1.0, 0.5, 2.0])
    problem = one_class(weight, 0.4)
    np.testing.assert_array_equal(problem.target, 0.0)
    np.testing.assert_array_equal(problem.lower, 0.0)
    np.testing.assert_array_equal(problem.upper, weight)
    np.testing.assert_allclose(problem.totals, [1.4])
    alpha = problem.repair(np.zeros(3))
    assert alpha.sum() == pytest.approx(1.4)
    assert (alpha >= 0).all()
    assert (alpha <= weight).all()


def test_primal_is_the_printed_one():
    rng = np.random.default_rng(1)
    f, weight = rng.normal(size=7), rng.uniform(0.5, 2.0, 7)
    problem = one_class(weight, 0.3)
    for rho in (-1.0, 0.2, 3.0):
        printed = 0.5 * 1.7 - 0.3 * rho * weight.sum() + weight @ np.maximum(0.0, rho - f)
        assert problem.primal(f, 1.7, np.array([-rho])) == pytest.approx(printed)


# ---------------------------------------------------------------- signature and attributes


def test_signature_is_that_of_sklearn_and_two_more():
    ours = inspect.signature(OneClassSVM).parameters
    theirs = inspect.signature(sklearn.svm.OneClassSVM).parameters
    assert set(theirs) <= set(ours)
    assert set(ours) - set(theirs) == {"time_limit", "random_state"}
    for name in set(theirs) - {"cache_size"}:
        assert ours[name].default == theirs[name].default


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_attributes_are_shaped_as_those_of_sklearn(kernel):
    X = cloud() + 5.0  # around the origin, many multipliers give the linear optimum w = 0
    ours = OneClassSVM(kernel=kernel, nu=0.23, tol=1e-6).fit(X)
    theirs = sklearn.svm.OneClassSVM(kernel=kernel, nu=0.23, tol=1e-6).fit(X)
    names = ["support_", "support_vectors_", "dual_coef_", "intercept_", "offset_", "n_support_"]
    for name in names + (["coef_"] if kernel == "linear" else []):
        found, expected = getattr(ours, name), getattr(theirs, name)
        assert found.shape == expected.shape, name
        assert found.dtype.kind == expected.dtype.kind, name
    assert ours.shape_fit_ == theirs.shape_fit_ == X.shape
    assert ours.fit_status_ == theirs.fit_status_ == 0
    assert isinstance(ours.n_iter_, int)
    assert ours.n_features_in_ == 2
    np.testing.assert_array_equal(np.sort(ours.support_), np.sort(theirs.support_))
    assert ours.dual_coef_.sum() == pytest.approx(0.23 * len(X))
    if kernel == "linear":
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


def test_scores_decision_and_predictions_belong_together():
    X = cloud()
    model = OneClassSVM(nu=0.2).fit(X)
    new = cloud(seed=3)
    score, decision = model.score_samples(new), model.decision_function(new)
    np.testing.assert_allclose(decision, score - model.offset_)
    np.testing.assert_allclose(model.intercept_, -model.offset_)
    np.testing.assert_array_equal(model.predict(new), np.where(decision < 0, -1, 1))
    assert model.predict(new).dtype == np.intp
    np.testing.assert_array_equal(model.fit_predict(X), model.predict(X))


def test_coef_is_for_the_linear_kernel():
    X = cloud()
    model = OneClassSVM(kernel="linear", nu=0.2).fit(X)
    np.testing.assert_allclose(model.score_samples(X), X @ model.coef_[0], atol=1e-9)
    other = OneClassSVM().fit(X)
    assert not hasattr(other, "coef_")
    with pytest.raises(AttributeError, match="linear kernel; got kernel='rbf'"):
        other.coef_  # noqa: B018


@pytest.mark.parametrize("nu", [0.05, 0.1, 0.25, 0.6])
@pytest.mark.parametrize("gamma", [0.1, 1.0, 20.0])
def test_nu_bounds_outliers_and_support_vectors(nu, gamma):
    """Also where rounding would flag some of the many support vectors on the boundary."""
    X = cloud(200, far=20)
    model = OneClassSVM(nu=nu, gamma=gamma, tol=1e-6).fit(X)
    assert np.mean(model.predict(X) < 0) <= nu
    assert len(model.support_) / len(X) >= nu


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nu", 0.0), ("nu", 1.5), ("nu", np.nan), ("nu", "half"), ("shrinking", 2), ("tol", 0.0),
        ("kernel", "gauss"), ("gamma", -1.0), ("max_iter", 0), ("cache_size", -1),
        ("time_limit", 0), ("random_state", -1),
    ],
)  # fmt: skip
def test_bad_parameters_are_named(name, value):
    with pytest.raises(ValueError, match=rf"^{name} must be .*got {name}="):
        OneClassSVM(**{name: value}).fit(cloud())


def test_bad_data_are_named():
    X = cloud()
    with pytest.raises(ValueError, match="NaN"):
        OneClassSVM().fit(np.where(X > 2, np.nan, X))
    with pytest.raises(ValueError, match=r"(?i)sample.weights? must"):
        OneClassSVM().fit(X, sample_weight=np.zeros(len(X)))
    with pytest.raises(ValueError, match="Negative values"):
        OneClassSVM().fit(X, sample_weight=-np.ones(len(X)))
    with pytest.raises(ValueError, match="square kernel matrix"):
        OneClassSVM(kernel="precomputed").fit(X)
    with pytest.raises(ValueError, match="3 features"):
        OneClassSVM().fit(X).predict(np.ones((2, 3)))
    with pytest.raises(NotFittedError):
        OneClassSVM().predict(X)


def test_other_estimators_still_require_a_target():
    from widemargin import SVC

    with pytest.raises(ValueError, match="requires y to be passed"):
        SVC().fit(cloud(), None)


def test_the_target_is_ignored():
    X = cloud()
    plain, labelled = OneClassSVM().fit(X), OneClassSVM().fit(X, ["a", None, 3.0])
    np.testing.assert_array_equal(plain.dual_coef_, labelled.dual_coef_)


def test_budget_that_runs_out_is_reported():
    with pytest.warns(ConvergenceWarning, match="OneClassSVM did not converge"):
        model = OneClassSVM(nu=0.3, max_iter=1, tol=1e-9).fit(cloud(200))
    assert model.fit_status_ == 1
    assert not model.certificate_.converged
    assert model.certificate_.dual <= model.certificate_.primal
    assert model.dual_coef_.sum() == pytest.approx(0.3 * 200)


# ---------------------------------------------------------------- invariances


def _bits(model, new):
    return model.decision_function(new).tobytes(), model.offset_.tobytes()


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_weights_are_repetitions_and_order_does_not_matter(kernel):
    X, new = cloud(), cloud(seed=5)
    rng = np.random.default_rng(2)
    weight = rng.integers(0, 4, len(X)).astype(float)
    order = rng.permutation(len(X))
    repeated = np.repeat(X, weight.astype(int), axis=0)
    weighted = OneClassSVM(kernel=kernel, nu=0.31).fit(X, sample_weight=weight)
    several = OneClassSVM(kernel=kernel, nu=0.31).fit(repeated)
    permuted = OneClassSVM(kernel=kernel, nu=0.31).fit(X[order], sample_weight=weight[order])
    assert _bits(weighted, new) == _bits(several, new) == _bits(permuted, new)
    if kernel == "linear":  # centred samples have no region on one side of a plane
        with pytest.raises(ValueError, match="needs a region"):
            weighted.loo_decision_values()
        return
    values = weighted.loo_decision_values()
    np.testing.assert_array_equal(permuted.loo_decision_values(), values[order])
    assert weighted.loo_error() == pytest.approx(several.loo_error())


def test_common_factor_of_the_weights_scales_the_scores():
    X = cloud()
    one = OneClassSVM(nu=0.3, tol=1e-9).fit(X)
    ten = OneClassSVM(nu=0.3, tol=1e-9).fit(X, sample_weight=np.full(len(X), 10.0))
    np.testing.assert_allclose(ten.decision_function(X), 10 * one.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_sparse_is_dense(kernel):
    X = np.where(np.abs(cloud(80, 5)) < 0.7, 0.0, cloud(80, 5))
    dense = OneClassSVM(kernel=kernel, nu=0.3, tol=1e-8).fit(X)
    sparse = OneClassSVM(kernel=kernel, nu=0.3, tol=1e-8).fit(sp.csr_array(X))
    assert sp.issparse(sparse.support_vectors_)
    np.testing.assert_allclose(
        sparse.decision_function(sp.csr_array(X)), dense.decision_function(X), atol=1e-5
    )
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-5)
    assert sp.issparse(sparse.dual_coef_)
    if kernel == "linear":
        np.testing.assert_allclose(sparse.coef_.toarray(), dense.coef_, atol=1e-6)
        assert sparse.coef_.shape == (1, 5)
    clone = pickle.loads(pickle.dumps(sparse))
    np.testing.assert_array_equal(clone.decision_function(X), sparse.decision_function(X))


def test_precomputed_and_callable_kernels_are_the_same_model():
    X, new = cloud(), cloud(seed=4)
    plain = OneClassSVM(gamma=0.3, nu=0.2, tol=1e-8).fit(X)
    by_matrix = OneClassSVM(kernel="precomputed", nu=0.2, tol=1e-8).fit(rbf_kernel(X, gamma=0.3))
    by_function = OneClassSVM(
        kernel=lambda a, b: rbf_kernel(a, b, gamma=0.3), nu=0.2, tol=1e-8
    ).fit(X)
    expected = plain.decision_function(new)
    np.testing.assert_allclose(
        by_matrix.decision_function(rbf_kernel(new, X, gamma=0.3)), expected, atol=1e-6
    )
    np.testing.assert_allclose(by_function.decision_function(new), expected, atol=1e-6)
    values = plain.loo_decision_values()
    np.testing.assert_allclose(by_matrix.loo_decision_values(), values, atol=1e-6)
    np.testing.assert_allclose(by_function.loo_decision_values(), values, atol=1e-6)


def test_float32_stays_float32():
    X = cloud().astype(np.float32)
    model = OneClassSVM(nu=0.3).fit(X)
    assert model.support_vectors_.dtype == np.float32
    exact = OneClassSVM(nu=0.3).fit(X.astype(np.float64))
    np.testing.assert_allclose(
        model.decision_function(X), exact.decision_function(X.astype(np.float64)), atol=2e-3
    )


# ---------------------------------------------------------------- degenerate data


@pytest.mark.parametrize("nu", [1e-6, 0.5, 1.0])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize(
    "X",
    [[[1.0, 2.0]], np.zeros((5, 2)), np.ones((4, 1)), np.eye(3), [[1.0], [-1.0]]],
    ids=["one sample", "zeros", "equal", "corners", "opposite"],
)
def test_degenerate_samples(X, kernel, nu):
    model = OneClassSVM(kernel=kernel, nu=nu).fit(X)
    certificate = model.certificate_
    assert certificate.converged
    assert certificate.gap <= 1e-3 * nu * len(X)
    assert np.isfinite(model.decision_function(X)).all()
    assert model.dual_coef_.sum() == pytest.approx(nu * len(X))


def test_one_sample_is_on_the_boundary():
    model = OneClassSVM(gamma=1.0).fit([[1.0, 2.0]])
    np.testing.assert_array_equal(model.predict([[1.0, 2.0], [1.5, 2.0]]), [1, -1])
    with pytest.raises(ValueError, match="leave-one-out needs at least two samples"):
        loo.result(model)


@pytest.mark.parametrize("nu", [1e-9, 1e-5, 1e-3])
def test_tiny_nu_is_a_hard_margin(nu):
    """Scores below any absolute tolerance must not pass as converged where they start."""
    X = cloud()
    model = OneClassSVM(nu=nu, gamma=0.2).fit(X)
    scaled = model.decision_function(X) / model.offset_
    assert scaled.min() == pytest.approx(0.0, abs=2e-3)
    hard = OneClassSVM(nu=1.0 / len(X), gamma=0.2, tol=1e-9).fit(X)
    np.testing.assert_allclose(scaled, hard.decision_function(X) / hard.offset_, atol=1e-2)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_indefinite_kernel_is_fitted_with_a_warning_and_not_certified():
    K = np.array([[1.0, 3.0, 0.0], [3.0, 1.0, 0.5], [0.0, 0.5, 1.0]])
    with pytest.warns(UserWarning, match="not symmetric positive semi-definite"):
        model = OneClassSVM(kernel="precomputed").fit(K)
    assert not model.certificate_.converged
    assert np.isfinite(model.decision_function(K)).all()
    with pytest.raises(ValueError, match="needs a positive semi-definite kernel"):
        loo.result(model)


# ---------------------------------------------------------------- what is computed from a fit


def test_leave_one_out_methods():
    model = OneClassSVM(nu=0.2).fit(cloud())
    exact, folds = loo.result(model), loo.result(model, "folds")
    assert (exact.method, exact.kind) == ("exact", "exact")
    assert (folds.method, folds.kind) == ("10-fold", "estimate")
    assert exact.error == np.mean(exact.values < 0)
    for method in ("linear_response", "support_vectors"):
        with pytest.raises(ValueError, match=r"method must be auto, exact or folds"):
            loo.error(model, method)


def test_suspects_are_the_least_typical_samples():
    X = cloud()
    X[17] = 40.0
    found = suspects(make_pipeline(StandardScaler(), OneClassSVM(nu=0.1)).fit(X), 2)
    assert found[0].row == 17
    assert found[0].predicted == -1


def test_tools_for_targets_raise():
    model = OneClassSVM().fit(cloud())
    with pytest.raises(ValueError, match="report needs a classifier or a regressor"):
        report(model)
    with pytest.raises(ValueError, match="estimator must be SVC"):
        LOOSearch(OneClassSVM(), {"nu": [0.1, 0.2]}).fit(cloud(), np.ones(60))


def test_compact_copy_and_pickle_predict_the_same():
    X = cloud()
    model = OneClassSVM(nu=0.2).fit(X)
    error = model.loo_error()
    small = pickle.loads(pickle.dumps(model.compact()))
    np.testing.assert_array_equal(small.decision_function(X), model.decision_function(X))
    assert small.loo_error() == error
    with pytest.raises(ValueError, match="compact"):
        loo.result(small, "folds")
    again = pickle.loads(pickle.dumps(model))
    assert again.loo_error("folds") == model.loo_error("folds")
