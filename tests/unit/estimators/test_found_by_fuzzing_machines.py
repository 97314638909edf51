"""Small examples of what drawn problems (tests/fuzz) have brought to light; warnings are errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from tests.helpers.byhand_fields import Fields
from tests.helpers.byhand_ranks import Cumulative
from tests.helpers.fuzzing_data import Problem
from widemargin import (
    LOOSVC,
    LPSVC,
    SVC,
    CumulativeLinkClassifier,
    LinearSVC,
    MeanFieldGPClassifier,
    NuLPSVC,
    OrdinalSVC,
    bounds,
    loo,
    sources,
    tune,
)
from widemargin.kernels import Kernel, Rows
from widemargin.problems.linear_program import LIMIT, adaptive_margin, limits
from widemargin.problems.ranks.thresholds import optimal_thresholds, rank_of
from widemargin.reporting.preparation import prepare
from widemargin.solvers.base import Budget
from widemargin.solvers.linear_program.simplex import solve_simplex
from widemargin.sources.tables.table import read_table

LINE = np.array([[-2.0], [-1.0], [1.0], [2.0]])
SIDES = np.array([0, 0, 1, 1])


def test_the_diagonal_of_sparse_single_precision_rows_is_float64() -> None:
    X = sp.csr_array(np.float32([[0.1, 0.7], [0.3, 0.0], [0.0, 0.0]]))
    kernel = Kernel("poly", 1.0, 2, 1.0)
    exact = np.diagonal(kernel(X.toarray().astype(float), X.toarray().astype(float)))
    np.testing.assert_allclose(Rows(kernel, X).diagonal(), exact, rtol=1e-15)


def test_sparse_single_precision_rows_far_apart_have_the_kernel_values_of_dense_ones() -> None:
    """Their squares overflow in single precision, which is no more than very far."""
    X = np.float32([[1e30, -2e30], [3e30, 0.0], [1.0, 2.0]])
    y, models = [0, 1, 0], [SVC(gamma=0.5), SVC(gamma=0.5)]
    dense, sparse = (
        model.fit(rows, y).decision_function(rows)
        for model, rows in zip(models, (X, sp.csr_array(X)), strict=True)
    )
    np.testing.assert_allclose(sparse, dense, rtol=1e-6)


def test_kernel_values_that_underflow_are_rows_of_zeros() -> None:
    size = np.array([1e-310, 1.0, 0.0])
    np.testing.assert_array_equal(limits(size, size), [0.0, LIMIT, 0.0])


def test_a_sparse_model_without_support_vectors_answers_dense_rows() -> None:
    with pytest.warns(UserWarning, match="all coefficients are zero"):
        model = LPSVC(lam=100.0).fit(sp.csr_array(LINE), SIDES)
    np.testing.assert_array_equal(model.decision_function(LINE), np.zeros(4))


@pytest.mark.parametrize("size", [1e-20, 1e20])
def test_the_nu_machine_takes_kernels_of_any_size(size: float) -> None:
    model = NuLPSVC(kernel="linear", nu=0.5).fit(size * LINE, SIDES)
    assert model.certificate_.converged
    assert model.rho_ == pytest.approx(
        NuLPSVC(kernel="linear", nu=0.5).fit(LINE, SIDES).rho_ * size**2
    )


def test_the_nu_machine_warns_where_it_sees_only_zeros() -> None:
    """All its weight is on a row of zeros, beside kernel values of 1e97: no scale, no proof."""
    X = np.array([[1e-160, 0.0], [1.0, 0.0], [9e15, -1e8]])
    model = NuLPSVC(nu=0.5, kernel="poly", gamma=3.16)
    with (
        pytest.warns(UserWarning, match="no margin"),
        pytest.warns(ConvergenceWarning, match="duality gap inf"),
    ):
        model.fit(X, [0, 0, 1])
    assert not model.certificate_.converged


def test_coefficients_beyond_single_precision_predict() -> None:
    drawn = Problem("classes", 8, 1, 1, regime="special", manner="by_first_feature")
    model = LOOSVC(kernel="sigmoid", gamma=1.2e-4, class_weight="balanced")
    with (
        pytest.warns(UserWarning, match="reached their limit"),
        pytest.warns(ConvergenceWarning, match="trivial lower bound"),  # arguments up to 1e28
    ):
        model.fit(drawn.X, drawn.codes)
    assert np.abs(model.dual_coef_).max() > np.finfo(np.float32).max
    assert np.isfinite(model.decision_function(drawn.X)).all()


def test_pivots_that_rounding_leads_in_circles_end_before_their_budget() -> None:
    """Each of them found the vertex optimal, until the next new inverse: all 5000 were spent."""
    K = np.array([[5.82e17, 9.43e7, 1.73e9], [9.43e7, 57.4, -7.2], [1.73e9, -7.2, 65.0]])
    y, weight = np.array([-1.0, -1.0, 1.0]), np.array([100.0, 1000.0, 1.0])
    size = K.diagonal()
    limit = limits(size, np.sqrt(size * size.max()))
    problem = adaptive_margin(y, weight, size, limit, lam=1.0)
    rows = Rows(Kernel("precomputed"), K)
    found = solve_simplex(problem, rows, tol=1e-6, budget=Budget(100))
    assert found.status == "stalled"
    assert found.n_pivots < 500


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_the_likelihood_is_that_of_the_thresholds_as_the_user_has_them(link: str) -> None:
    """A mean so far away that thresholds about it have few digits left."""
    X = np.array([[1e16], [1e16], [0.0], [1.0], [-1.0], [0.5]])
    y = np.array([0, 1, 0, 1, 2, 2])
    model = CumulativeLinkClassifier(link=link, alpha=1e-3)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    by_hand = Cumulative(X, y, np.ones(6), model.alpha, link)
    wanted = by_hand.likelihood(model.coef_, model.thresholds_)
    assert model.log_likelihood_ == pytest.approx(wanted, rel=1e-9)
    primal = by_hand.primal(model.coef_, model.thresholds_)
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-9)


def test_log_probabilities_beyond_float64_are_finite_scores() -> None:
    X = np.array([[1e6], [1e6 + 1], [1e6 + 2], [1e6 + 3]])
    model = CumulativeLinkClassifier(link="cloglog").fit(X, [0, 1, 0, 1])
    assert np.isfinite(model.decision_function([[0.0], [2e6]])).all()


def test_utilities_far_apart_leave_no_claim_of_a_bound() -> None:
    rng = np.random.default_rng(0)
    X = sp.csr_array(1e8 + rng.normal(size=(6, 1)))
    model = OrdinalSVC(kernel="poly", degree=1, coef0=10.0, C=700.0)
    with pytest.warns(ConvergenceWarning, match="rounding"):
        model.fit(X, [0, 1, 0, 1, 0, 1])
    assert model.certificate_.dual <= model.certificate_.primal


def test_steps_that_gain_nothing_end_where_the_bound_is_very_low() -> None:
    """A bound of -1e49 and a hair is the same number: it was taken for a better one."""
    drawn = Problem("classes", 6, 1, 4, regime="offset", manner="alternate")
    model = OrdinalSVC(kernel="poly", degree=4, gamma=1.0, coef0=1.0, max_iter=300)
    with pytest.warns(ConvergenceWarning, match="rounding errors exceed tol"):
        model.fit(drawn.X, drawn.codes)
    assert model.n_iter_ < 300


def test_steps_of_the_1_norm_that_overflow_end_in_a_warning_with_numbers() -> None:
    drawn = Problem(
        "classes", 10, 60, 400000, "grid", "csr_array", "by_first_feature", "ints", 4, "wide"
    )
    qid = drawn.rng(9).integers(0, 5, drawn.n)
    qid[np.unique(drawn.codes, return_index=True)[1]] = 0
    model = OrdinalSVC(kernel="linear", norm=1, C=0.245, tol=1e-6)
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        model.fit(drawn.X, drawn.codes, sample_weight=drawn.sample_weight, qid=qid)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.certificate_.gap)


def test_a_refit_whose_sums_overflow_is_not_called_exact() -> None:
    drawn = Problem(
        "classes", 6, 4, 12304, "special", "float64", "one_row_class", "ints", 4, "zeros"
    )
    model = OrdinalSVC(kernel="linear", tol=1e-6, C_scale="total")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = loo.result(model.fit(drawn.X, drawn.codes, sample_weight=drawn.sample_weight))
    assert found.kind == "estimate"


@pytest.mark.parametrize("level", [-(2.0**55), 2.0**55])
def test_a_threshold_beside_a_large_utility_is_on_the_side_it_was_chosen_for(level: float) -> None:
    """The next number is farther from 2**55 than the 1 that parts thresholds from utilities."""
    f = np.full(5, level)
    for codes in ([1, 1, 1, 0, 0], [1, 1, 0, 0, 0]):
        theta = optimal_thresholds(f, np.array(codes))
        wrong = np.count_nonzero(rank_of(f, theta) != codes)
        assert wrong == 2


def test_rows_in_parts_far_from_zero_have_the_optimum_of_the_array() -> None:
    """Small differences beside 1e8: the matrix of a Newton step is singular but for rounding."""
    drawn = Problem("classes", 4, 60, 0, regime="offset")
    machine = LinearSVC(loss="squared_hinge", tol=1e-8)
    whole = clone(machine).fit(drawn.X, drawn.codes)
    read = machine.fit(sources.from_arrays([drawn.X[:2], drawn.X[2:]], np.split(drawn.codes, 2)))
    assert read.certificate_.converged
    assert read.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=1e-6)


@pytest.mark.parametrize("size", [1e-160, 1e160])
def test_rows_in_parts_beyond_float64_are_refused_as_the_array_is(size: float) -> None:
    for data in ((size * LINE, SIDES), (sources.from_arrays([size * LINE + size], [SIDES]),)):
        with pytest.raises(ValueError, match=r"X has entries .* scale the features"):
            LinearSVC().fit(*data)


# ---------------------------------------------------------------- Gaussian processes


def test_without_noise_a_row_without_variance_has_a_finite_score() -> None:
    model = MeanFieldGPClassifier(kernel="linear", input_noise=0.0, mean_variance=0.0)
    model.fit(LINE, SIDES)
    assert model.decision_function([[0.0]]) == [0.0]
    assert np.isfinite(model.predict_proba([[0.0], [1.0]])).all()


def test_the_iteration_of_the_table_says_when_it_diverges() -> None:
    drawn = Problem("classes", 5, 5, 5, manner="by_first_feature", weights="wide")
    model = MeanFieldGPClassifier(
        kernel="linear", solver="table", input_noise=1e-3, mean_variance=100.0
    )
    with pytest.warns(ConvergenceWarning, match="Table 8.1 diverges"):
        model.fit(drawn.X, drawn.y, sample_weight=drawn.sample_weight)
    assert np.isfinite(model.alpha_).all()


def test_conjugate_gradients_take_kernels_beyond_single_precision() -> None:
    model = MeanFieldGPClassifier(kernel="linear", solver="newton_cg").fit(1e25 * LINE, SIDES)
    assert (model.predict(1e25 * LINE) == SIDES).all()


@pytest.mark.parametrize("inference", ["tap", "ep"])
def test_a_row_of_zeros_is_no_obstacle(inference: str) -> None:
    X = np.array([[-1.0], [0.0], [1.0], [2.0]])
    model = MeanFieldGPClassifier(kernel="linear", inference=inference).fit(X, SIDES)
    assert model.residual_ <= model.tol


def test_strengths_of_expectation_propagation_meet_the_equations() -> None:
    """Also where the kernel is nothing beside the noise, so that no mean would show it."""
    model = MeanFieldGPClassifier(kernel="linear", inference="ep", mean_variance=0).fit(
        1e-40 * LINE, SIDES
    )
    K = 1e-80 * LINE @ LINE.T
    residual, _ = Fields(K, 2.0 * SIDES - 1.0, np.ones(4), 1.0).residual(model.alpha_)
    assert residual <= 1e-9


def test_the_certificate_of_a_fit_that_was_solved_at_once_counts_a_step() -> None:
    X = 100.0 * np.arange(4.0)[:, None]
    model = MeanFieldGPClassifier(gamma=1.0).fit(X, SIDES)
    assert model.certificate_.n_iter >= 1


def test_factors_that_leave_a_singular_system_are_refused_on_purpose() -> None:
    drawn = Problem("classes", 5, 1, 2996, "offset", "float64", "one_row_class", "ints", 2, "zeros")
    model = MeanFieldGPClassifier(
        kernel="linear",
        inference="ep",
        solver="sweeps",
        input_noise=0.01548816618912481,
        flip_noise=1e-4,
        mean_variance=0.0,
    )
    with pytest.raises(ValueError, match="input_noise not too small"):
        model.fit(drawn.X, drawn.codes, sample_weight=drawn.sample_weight)


# ---------------------------------------------------------------- what is asked of models


@pytest.mark.parametrize("machine", [LinearSVC(), SVC(kernel="linear")])
def test_rows_without_length_have_no_bounds(machine) -> None:
    model = machine.fit(np.zeros((4, 2)), SIDES)
    found = bounds.summary(model, np.zeros((4, 2)), SIDES)
    assert list(found) == []
    assert any("length is a positive number" in other.why for other in found.others)


@pytest.mark.parametrize("machine", [LOOSVC(), CumulativeLinkClassifier()])
def test_infinities_of_both_signs_are_refused_without_a_numpy_warning(machine) -> None:
    with pytest.raises(ValueError, match="infinity"):
        machine.fit([[np.inf], [-np.inf], [1.0], [2.0]], SIDES)


def test_rows_of_zeros_are_tuned_in_units_of_one() -> None:
    model = tune(LinearSVC(), np.zeros((4, 2)), SIDES, prior=0.0, max_iter=2, params=("C",))
    assert 1e-4 < model.C < 1e5


def test_a_feature_beyond_the_integers_is_refused_with_its_line(tmp_path) -> None:
    path = tmp_path / "rows.txt"
    path.write_text("1 qid:1 1:2\n0 qid:1 99999999999999999999:1\n")
    with pytest.raises(ValueError, match="line 2: a feature from number 2147483648 on"):
        sources.read_letor(path)


def test_numbers_beyond_the_integers_are_a_target_of_regression(tmp_path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("c0,c1\n5e71,0.5\n0.0,1.5\n1e30,2.5\n")
    assert prepare(read_table(path), "c0").y.tolist() == [5e71, 0.0, 1e30]
