"""Parameters and attributes that SVC, NuSVC, SVR and NuSVR share with scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.datasets import load_iris

from widemargin import SVC, SVR, NuSVC, NuSVR, loo, margins

X, y = load_iris(return_X_y=True)


@pytest.mark.parametrize("machine", [SVC, NuSVC])
def test_pairs_in_the_decision_function_do_not_change_predictions(machine):
    by_class = machine().fit(X, y)
    by_pair = machine(decision_function_shape="ovo").fit(X, y)
    theirs = getattr(sklearn.svm, machine.__name__)(decision_function_shape="ovo", tol=1e-8)
    assert by_class.decision_function(X).shape == (150, 3)
    np.testing.assert_allclose(
        by_pair.decision_function(X), theirs.fit(X, y).decision_function(X), atol=5e-3
    )
    np.testing.assert_array_equal(by_class.predict(X), by_pair.predict(X))
    np.testing.assert_array_equal(by_class.predict_proba(X), by_pair.predict_proba(X))
    np.testing.assert_array_equal(margins.margins(by_class, X, y), margins.margins(by_pair, X, y))
    assert loo.error(by_class) == loo.error(by_pair)


def test_four_classes_have_six_pairs():
    codes = np.arange(150) % 4
    model = SVC(decision_function_shape="ovo").fit(X, codes)
    assert model.decision_function(X).shape == (150, 6)
    binary = SVC(decision_function_shape="ovo").fit(X, codes > 1)
    assert binary.decision_function(X).shape == (150,)


def test_breaking_ties_of_pairs_is_an_error_in_predict_as_in_scikit_learn():
    for library in (SVC, sklearn.svm.SVC):
        model = library(break_ties=True, decision_function_shape="ovo").fit(X, y)
        with pytest.raises(ValueError, match="break_ties must be False"):
            model.predict(X)


@pytest.mark.parametrize("value", [True, False, "deprecated"])
@pytest.mark.filterwarnings("error")
def test_probability_is_accepted_without_warning_or_effect(value):
    model = SVC(probability=value).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), SVC().fit(X, y).predict_proba(X))


@pytest.mark.parametrize("machine", [SVC, NuSVC, SVR, NuSVR])
def test_shrinking_has_no_effect(machine):
    one, other = machine(shrinking=True).fit(X, y), machine(shrinking=False).fit(X, y)
    np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_)


@pytest.mark.parametrize(
    ("machine", "name", "value"),
    [
        (SVC, "decision_function_shape", "pairs"),
        (SVC, "break_ties", "yes"),
        (NuSVC, "probability", "maybe"),
        (SVR, "shrinking", 2),
    ],
)
def test_bad_values_name_the_argument(machine, name, value):
    with pytest.raises(ValueError, match=name):
        machine(**{name: value}).fit(X, y)


# ---------------------------------------------------------------- attributes


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("machine", [SVC, NuSVC, SVR, NuSVR])
def test_coef_reproduces_the_decision_values(machine, container):
    data = container(X)
    model = machine(kernel="linear").fit(data, y)
    coef = model.coef_.toarray() if sp.issparse(model.coef_) else model.coef_
    assert sp.issparse(model.coef_) == sp.issparse(model.dual_coef_) == sp.issparse(data)
    model.set_params(**({"decision_function_shape": "ovo"} if machine in (SVC, NuSVC) else {}))
    values = model.decision_function(data) if hasattr(model, "classes_") else model.predict(data)
    values = values.reshape(150, -1)
    np.testing.assert_allclose(X @ coef.T + model.intercept_, values, atol=1e-9)


def test_coef_is_that_of_the_fit():
    model = SVC().fit(X, y).set_params(kernel="linear")
    with pytest.raises(AttributeError, match="linear kernel"):
        _ = model.coef_


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
def test_sparse_attributes_have_one_container(container):
    model = SVC(kernel="linear").fit(container(X), y)
    kinds = {type(a) for a in (model.support_vectors_, model.dual_coef_, model.coef_)}
    assert kinds == {container}


def test_coef_is_read_only_and_for_linear_kernels():
    model = SVC(kernel="linear").fit(X, y)
    with pytest.raises(ValueError, match="read-only"):
        model.coef_[0, 0] = 0.0
    with pytest.raises(AttributeError):
        model.coef_ = np.zeros((3, 4))
    with pytest.raises(AttributeError, match="linear kernel"):
        _ = SVC().fit(X, y).coef_


def test_sparse_coefficients_are_those_of_dense_data():
    dense, sparse = (SVC(tol=1e-9).fit(data, y) for data in (X, sp.csr_array(X)))
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-6)
    assert sparse.dual_coef_.shape == dense.dual_coef_.shape


def test_facts_about_the_fit():
    weight = np.ones(150)
    weight[:5] = 0.0
    model = SVC(class_weight={1: 4.0}).fit(X, y, weight)
    assert model.shape_fit_ == (150, 4)
    assert model.fit_status_ == 0
    np.testing.assert_array_equal(model.class_weight_, [1.0, 4.0, 1.0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_without_budget_has_status_one():
    assert SVC(C=1e4, max_iter=1).fit(X, y).fit_status_ == 1


# ---------------------------------------------------------------- nu and class weights


def test_class_weight_multiplies_sample_weights_of_nu():
    factor = np.array([1.0, 2.0, 1.0])
    by_class = NuSVC(nu=0.2, gamma=0.5, class_weight={1: 2.0}).fit(X, y)
    by_sample = NuSVC(nu=0.2, gamma=0.5).fit(X, y, sample_weight=factor[y])
    np.testing.assert_array_equal(by_class.decision_function(X), by_sample.decision_function(X))


def test_class_weight_lowers_nu_with_a_warning():
    with pytest.warns(UserWarning, match="nu=0.5 is infeasible with this class_weight"):
        model = NuSVC(class_weight={0: 20.0}).fit(X, y)
    assert model.certificate_.converged
    assert model.score(X, y) > 0.9


def test_an_infeasible_nu_is_an_error_even_with_class_weights():
    some = np.r_[0:50, 50:60]
    with pytest.raises(ValueError, match=r"nu=0.5 is infeasible: .* at most 0.333333"):
        NuSVC(class_weight={0: 2.0}).fit(X[some], y[some])


def test_class_weight_can_make_nu_feasible():
    some = np.r_[0:50, 50:60]
    model = NuSVC(class_weight="balanced").fit(X[some], y[some])
    assert model.score(X[some], y[some]) == 1.0


def test_a_kernel_may_return_a_sparse_matrix():
    def sparse_linear(A, B):
        return sp.csr_array(A @ B.T)

    one, other = SVC(kernel=sparse_linear).fit(X, y), SVC(kernel="linear").fit(X, y)
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
