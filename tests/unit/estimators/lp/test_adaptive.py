"""LOOSVC, AdaptiveMarginSVC, LPSVC, NuLPSVC: what they promise beyond the optimum itself."""

from __future__ import annotations

import pickle
import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

from tests.helpers.byhand import gram, scale_gamma
from widemargin import LOOSVC, LPSVC, AdaptiveMarginSVC, NuLPSVC, loo
from widemargin._base.validation import CANONICAL_ROWS
from widemargin.cli._model_file import SavedModel, load_model
from widemargin.sources.tables.encoding import Encoding

MACHINES = [LOOSVC, AdaptiveMarginSVC, LPSVC, NuLPSVC]
by_name = pytest.mark.parametrize
each_machine = by_name("machine", MACHINES, ids=lambda m: m.__name__)
seeds = st.integers(0, 10_000)


def overlap(n: int = 60, seed: int = 0, shift: float = 0.6, n_classes: int = 2):
    """Return classes that overlap, so that the optimum has slack and is unique."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return rng.normal(size=(n, 2)) + shift * np.c_[y, -y], y


def quietly(model, *data, **fit):
    """Fit without the warnings that other tests are about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(*data, **fit)


# ---------------------------------------------------------------- which machine is which


def test_lam_one_is_the_leave_one_out_machine() -> None:
    X, y = overlap()
    one, other = LOOSVC().fit(X, y), AdaptiveMarginSVC(lam=1.0).fit(X, y)
    np.testing.assert_array_equal(one.alpha_, other.alpha_)
    assert one.certificate_.primal == other.certificate_.primal > 1
    assert one.certificate_.problem == "leave-one-out"


@by_name("lam", [0.5, 1.0, 4.0])
def test_squared_slack_minimises_the_sum_of_squares(lam: float) -> None:
    """Less of it than the linear program leaves, and more of the sum of slacks."""
    X, y = overlap()
    linear = AdaptiveMarginSVC(lam=lam).fit(X, y)
    squared = AdaptiveMarginSVC(lam=lam, loss="squared_hinge").fit(X, y)
    assert squared.certificate_.converged
    assert squared.certificate_.problem == "adaptive margin, squared slack"
    assert squared.certificate_.primal == pytest.approx(squared.slack_ @ squared.slack_, rel=1e-9)
    assert squared.slack_ @ squared.slack_ < linear.slack_ @ linear.slack_
    assert squared.slack_.sum() > linear.slack_.sum()
    assert squared.lam_max_ == linear.lam_max_
    if lam == 1.0:
        same = LOOSVC(loss="squared_hinge").fit(X, y)
        np.testing.assert_array_equal(same.alpha_, squared.alpha_)
        assert same.certificate_.problem == "leave-one-out, squared slack"


def test_without_slack_both_losses_have_the_same_model() -> None:
    X, y = overlap(shift=4.0)
    linear, squared = LOOSVC().fit(X, y), LOOSVC(loss="squared_hinge").fit(X, y)
    np.testing.assert_array_equal(linear.alpha_, squared.alpha_)
    assert squared.certificate_.primal == 0.0


def test_squared_slack_counts_weights_as_copies_in_several_classes() -> None:
    X, y = overlap(45, n_classes=3)
    weight = 1 + np.arange(len(y)) % 3
    heavy = LOOSVC(loss="squared_hinge", gamma=1.0).fit(X, y, sample_weight=weight)
    copies = LOOSVC(loss="squared_hinge", gamma=1.0).fit(X.repeat(weight, 0), y.repeat(weight))
    assert all(c.converged for c in heavy.certificates_)
    values = heavy.decision_function(X), copies.decision_function(X)
    np.testing.assert_allclose(*values, atol=1e-8)


@by_name("machine", [LOOSVC, AdaptiveMarginSVC])
def test_the_loss_is_one_of_two(machine) -> None:
    with pytest.raises(ValueError, match="loss"):
        machine(loss="cubed").fit(*overlap())


@by_name("loss", ["hinge", "squared_hinge"])
def test_from_the_largest_lam_on_either_loss_has_no_coefficient(loss: str) -> None:
    X, y = overlap()
    largest = AdaptiveMarginSVC(loss=loss).fit(X, y).lam_max_
    with pytest.warns(UserWarning, match="lam_max_"):
        beyond = AdaptiveMarginSVC(lam=1.01 * largest, loss=loss).fit(X, y)
    assert not beyond.alpha_.any()
    assert beyond.certificate_.primal == len(y)
    assert beyond.certificate_.dual == pytest.approx(len(y), rel=1e-14)
    assert AdaptiveMarginSVC(lam=0.99 * largest, loss=loss).fit(X, y).alpha_.any()


def test_every_row_is_classified_by_the_others() -> None:
    """The slack is what is missing to a margin of 1 without the row's own coefficient."""
    X, y = overlap()
    model = LOOSVC(gamma=1.0).fit(X, y)
    K, label = gram(X, X), np.where(y == 1, 1.0, -1.0)
    np.fill_diagonal(K, 0.0)
    missing = 1.0 - label * (K @ (label * model.alpha_))
    np.testing.assert_allclose(model.slack_, np.maximum(0.0, missing), atol=1e-10)


@by_name("diagonal", [0.0, 0.5, 7.0])
def test_the_leave_one_out_machine_ignores_the_diagonal(diagonal) -> None:
    X, y = overlap()
    K = gram(X, X, gamma=0.5)
    changed = K.copy()
    np.fill_diagonal(changed, diagonal * np.random.default_rng(1).uniform(0.5, 1.0, len(y)))
    plain = LOOSVC(kernel="precomputed").fit(K, y)
    other = LOOSVC(kernel="precomputed").fit(changed, y)
    assert plain.certificate_.primal > 1
    assert other.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-6)
    np.testing.assert_allclose(other.alpha_, plain.alpha_, atol=1e-4 * plain.alpha_.max())
    lam = AdaptiveMarginSVC(kernel="precomputed", lam=0.5)
    assert lam.fit(changed, y).certificate_.primal != pytest.approx(
        lam.fit(K, y).certificate_.primal, rel=1e-3
    )


def test_the_objective_does_not_fall_with_lam() -> None:
    X, y = overlap()
    found = [
        quietly(AdaptiveMarginSVC(lam=lam), X, y).certificate_.primal
        for lam in (0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0)
    ]
    assert (np.diff(found) >= -1e-6 * len(y)).all()
    assert found[-1] == len(y)


# ---------------------------------------------------------------- nu


@by_name("nu", [0.1, 0.25, 0.5, 0.8, 1.0])
@by_name("weighted", [False, True])
def test_nu_counts_the_margin_errors(nu, weighted) -> None:
    """At most nu of the weight is inside the margin, at least nu is inside or on it."""
    X, y = overlap(80)
    weight = np.random.default_rng(3).integers(1, 4, len(y)) if weighted else np.ones(len(y))
    model = NuLPSVC(nu=nu).fit(X, y, sample_weight=weight)
    assert model.rho_ > 0
    margins = np.where(y == 1, 1.0, -1.0) * model.decision_function(X)
    share = weight / weight.sum()
    assert share[margins < 1 - 1e-6].sum() <= nu + 1e-12
    assert share[margins <= 1 + 1e-6].sum() >= nu - 1e-12
    np.testing.assert_allclose(model.slack_, np.maximum(0.0, 1.0 - margins), atol=1e-8)
    assert model.alpha_.sum() * model.rho_ == pytest.approx(1.0)


@by_name("nu", [0.15, 0.4, 0.7])
def test_the_nu_machine_is_the_lp_machine_at_its_lam(nu) -> None:
    X, y = overlap(80)
    model = NuLPSVC(nu=nu).fit(X, y)
    same = LPSVC(lam=model.lam_).fit(X, y)
    assert 0 < model.lam_ < model.lam_max_ == same.lam_max_
    ours = model.slack_.sum() + model.lam_ * model.alpha_.sum()
    assert ours == pytest.approx(same.certificate_.primal, rel=1e-6)
    np.testing.assert_allclose(model.decision_function(X), same.decision_function(X), atol=1e-3)


def test_nu_zero_is_the_hard_margin() -> None:
    """Every nu up to the share of one row is the same machine, and no row is inside its margin."""
    X, y = overlap(30, shift=3.0)
    zero, some = NuLPSVC(nu=0.0).fit(X, y), NuLPSVC(nu=0.9 / 30).fit(X, y)
    assert zero.rho_ > 0
    assert zero.rho_ == pytest.approx(some.rho_, rel=1e-6)
    np.testing.assert_allclose(zero.slack_, 0.0, atol=1e-9)
    np.testing.assert_allclose(zero.decision_function(X), some.decision_function(X), rtol=1e-4)


def test_below_the_least_nu_there_is_no_margin_and_a_warning_names_it() -> None:
    X = np.repeat(np.arange(5.0), 4)[:, None]
    y = np.tile([0, 0, 0, 1], 5)  # each place has one row in four that nothing can separate
    y[-4:] = [1, 1, 1, 0]
    with pytest.warns(UserWarning, match=r"nu=0\.1 .*nu_min") as caught:
        model = NuLPSVC(nu=0.1).fit(X, y)
    named = float(re.search(r"nu_min = (\S+)\.", str(caught[0].message))[1])
    assert named == pytest.approx(0.5, rel=1e-6)  # by each conflict of 3 : 1, twice the one
    assert model.rho_ <= 1e-9
    assert model.lam_ == 0
    assert np.isfinite(model.decision_function(X)).all()
    above = NuLPSVC(nu=named + 0.02).fit(X, y)
    assert above.rho_ > 0
    with pytest.warns(UserWarning, match="nu_min"):
        NuLPSVC(nu=named - 0.02).fit(X, y)


@pytest.mark.parametrize("nu", [0.3, 0.5, 1.0])
def test_if_no_nu_leaves_a_margin_the_warning_does_not_ask_to_raise_it(nu: float) -> None:
    X, y = np.repeat(np.arange(5.0), 2)[:, None], np.tile([0, 1], 5)
    with pytest.warns(UserWarning, match="no nu leaves one") as caught:
        model = NuLPSVC(nu=nu, gamma=1.0).fit(X, y)
    assert not any("Raise nu" in str(each.message) for each in caught)
    assert model.lam_ == 0
    assert model.alpha_.sum() == pytest.approx(1.0)  # not rescaled, whatever the sign of rho_


@pytest.mark.parametrize("lam", [1.0, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_limit_of_a_coefficient_holds_for_the_sum_over_equal_samples(lam, seed) -> None:
    rng = np.random.default_rng(seed)
    X, weight = rng.uniform(0, 3, size=(20, 2)), np.repeat([1.0, 2.0], 10)
    y = rng.integers(0, 2, 20)
    twice = np.append(np.arange(20), np.arange(10, 20))
    model = quietly(AdaptiveMarginSVC(lam=lam, gamma=30.0), X[twice], y[twice])
    K, label = gram(X, X, gamma=30.0), np.where(y == 1, 1.0, -1.0)
    G = label[:, None] * K * label - np.diag(lam / weight)
    scaled = linprog(  # the coefficients in units of 1e8
        np.append(np.zeros(20), weight), A_ub=-np.column_stack([1e8 * G, np.eye(20)]),
        b_ub=-np.ones(20), bounds=[(0, 1)] * 20 + [(0, None)] * 20,
    )  # fmt: skip
    alpha = 1e8 * np.clip(scaled.x[:20], 0.0, 1.0)
    feasible = weight @ np.maximum(0.0, 1.0 - G @ alpha)
    assert model.certificate_.problem.endswith("limited coefficients")
    assert model.certificate_.dual <= feasible * (1 + 1e-6)
    sums = model.alpha_[:20] * weight
    assert (sums <= 1e8 * (1 + 1e-9)).all()


# ---------------------------------------------------------------- the largest lam


@by_name("machine", [AdaptiveMarginSVC, LPSVC])
def test_from_the_largest_lam_on_nothing_is_learnt(machine) -> None:
    X, y = overlap()
    below = machine(lam=1.0).fit(X, y)
    lam = 1.5 * below.lam_max_
    with pytest.warns(UserWarning, match="lam_max_") as caught:
        model = machine(lam=lam).fit(X, y)
    message = str(caught[0].message)
    assert f"lam={lam:g}" in message
    assert f"lam_max_={model.lam_max_:g}" in message
    assert model.lam_max_ == below.lam_max_
    assert not model.alpha_.any()
    assert model.support_vectors_.shape == (0, 2)
    np.testing.assert_array_equal(model.decision_function(X), np.zeros(len(y)))
    np.testing.assert_array_equal(model.predict(X), np.zeros(len(y), dtype=int))
    np.testing.assert_array_equal(model.predict_proba(X), np.full((len(y), 2), 0.5))
    assert model.certificate_.converged
    assert model.certificate_.primal == len(y)
    just_below = machine(lam=0.999 * below.lam_max_).fit(X, y)
    assert just_below.alpha_.any()
    assert just_below.certificate_.primal < len(y)


def test_the_largest_lam_of_several_classes() -> None:
    X, y = overlap(60, n_classes=3)
    lams = LPSVC().fit(X, y).lam_max_
    assert lams.shape == (3,)
    middle = np.sort(lams)[1] * 0.999
    with pytest.warns(UserWarning, match="for the classes"):
        model = LPSVC(lam=middle).fit(X, y)
    dead = lams <= middle
    assert dead.sum() == 1
    assert not model.alpha_[dead].any()
    assert model.alpha_[~dead].any(axis=1).all()


def test_a_row_of_zeros_has_no_coefficient_and_slack_one() -> None:
    X, y = overlap(20, shift=2.0)
    X[3] = 0.0
    for machine in (LOOSVC, LPSVC):
        model = machine(kernel="linear").fit(X, y)
        assert model.alpha_[3] == 0
        assert model.slack_[3] == pytest.approx(1.0)
        assert model.certificate_.converged


@by_name("machine", [LOOSVC, AdaptiveMarginSVC, LPSVC])
def test_rows_that_all_conflict_teach_nothing(machine) -> None:
    X = np.repeat(np.random.default_rng(0).normal(size=(15, 2)), 2, axis=0)
    y = np.tile([0, 1], 15)
    model = quietly(machine(), X, y)
    assert not model.alpha_.any()
    assert model.certificate_.primal == len(y)
    assert model.certificate_.dual == pytest.approx(len(y), rel=1e-12)


def test_no_conflict_is_solved_without_regularisation() -> None:
    X = np.repeat(np.random.default_rng(0).normal(size=(15, 2)), 2, axis=0)
    y = np.tile([0, 1], 15)
    for model in (AdaptiveMarginSVC(lam=0.0), LPSVC(lam=0.0)):
        quietly(model, X, y)
        assert not model.alpha_.any()
        assert model.certificate_.primal == len(y)


# ---------------------------------------------------------------- several optima


def least_sum(G, size):
    """Return the least size'alpha of coefficients with G alpha >= 1."""
    found = linprog(size, A_ub=-G, b_ub=-np.ones(len(G)), bounds=(0, None))
    return found.fun if found.status == 0 else np.inf


@by_name("lam", [0.0, 0.5, 1.0])
def test_of_many_optima_without_slack_the_smallest_is_returned(lam) -> None:
    X, y = overlap(30, shift=3.0)
    K, label = gram(X, X, gamma=0.3), np.where(y == 1, 1.0, -1.0)
    G = label[:, None] * K * label - lam * np.eye(len(y))
    least = least_sum(G, np.ones(len(y)))
    model = AdaptiveMarginSVC(lam=lam, gamma=0.3).fit(X, y)
    assert model.certificate_.primal <= 1e-6
    assert model.alpha_.sum() == pytest.approx(least, rel=1e-4)


# ---------------------------------------------------------------- narrow kernels


@by_name("machine", [LOOSVC, LPSVC])
def test_a_kernel_so_narrow_that_rows_are_alone(machine) -> None:
    """Bounded, finite, honest; the warning names the width where coefficients hit their limit."""
    X, y = overlap(40)
    gamma = 300.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = machine(gamma=gamma).fit(X, y)
    assert np.isfinite(model.alpha_).all()
    assert model.alpha_.max() <= 1e8 * (1 + 1e-9)
    assert model.certificate_.dual <= model.certificate_.primal <= len(y)
    if model.alpha_.max() >= 0.999e8:
        assert any("gamma=300" in str(w.message) for w in caught)
    if not model.certificate_.converged:
        assert any(issubclass(w.category, ConvergenceWarning) for w in caught)


def test_coefficients_at_their_limit_are_warned_about() -> None:
    """Rows 9 apart have k = exp(-20.25) = 1.6e-9: to support each other they need 6e8."""
    X = np.array([[0.0], [9.0], [200.0], [209.0]])
    with pytest.warns(UserWarning, match=r"limit.*gamma=0\.25"):
        model = LOOSVC(gamma=0.25).fit(X, [0, 0, 1, 1])
    assert model.alpha_.max() == pytest.approx(1e8)
    k = np.exp(-0.25 * 81)
    assert model.certificate_.primal == pytest.approx(4 * (1 - 1e8 * k), rel=1e-6)
    assert model.certificate_.converged


# ---------------------------------------------------------------- budgets


@by_name("machine", [LOOSVC, LPSVC])
def test_an_exhausted_budget_gives_a_model_and_its_numbers(machine) -> None:
    X, y = overlap(600, shift=0.2)
    with pytest.warns(ConvergenceWarning, match="max_iter was reached") as caught:
        model = machine(max_iter=1, gamma=5.0).fit(X, y)
    certificate = model.certificate_
    assert f"{certificate.relative_gap:.2e} (asked: 1e-06)" in str(caught[0].message)
    assert certificate.converged is False
    assert certificate.dual <= certificate.primal <= len(y)
    assert certificate.n_iter == 1
    assert np.isfinite(model.decision_function(X)).all()


def test_a_time_limit_ends_a_fit() -> None:
    X, y = overlap(2000, shift=0.2)
    with pytest.warns(ConvergenceWarning, match="time_limit was reached"):
        model = LOOSVC(time_limit=1e-3, gamma=5.0).fit(X, y)
    assert model.certificate_.dual <= model.certificate_.primal <= len(y)


# ---------------------------------------------------------------- what is stored


@each_machine
def test_the_attributes_of_a_binary_model(machine) -> None:
    X, y = overlap()
    weight = np.random.default_rng(2).integers(0, 4, len(y)).astype(float)
    X[10:13], y[10:13], weight[10:13] = X[10], y[10], (1.0, 2.0, 0.5)
    model = machine(gamma=0.5).fit(X, y, sample_weight=weight)
    label = np.where(y == 1, 1.0, -1.0)
    assert model.alpha_.shape == model.slack_.shape == y.shape
    assert (model.alpha_ >= 0).all()
    assert not model.alpha_[weight == 0].any()
    assert not model.slack_[weight == 0].any()
    np.testing.assert_allclose(model.alpha_[10:13] / weight[10:13], model.alpha_[10] / weight[10])
    f = gram(X, X, gamma=0.5) @ (label * model.alpha_)
    np.testing.assert_allclose(model.decision_function(X), f, atol=1e-10 * np.abs(f).max())
    np.testing.assert_array_equal(model.predict(X), np.where(f > 0, 1, 0))
    assert set(model.support_) <= set(np.flatnonzero(model.alpha_))
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    assert model.dual_coef_.shape == (1, len(model.support_))
    assert model.n_support_.sum() == len(model.support_)
    assert model.n_iter_.shape == (1,)
    assert isinstance(model.lam_max_, float)
    if machine is not NuLPSVC:
        price = 1.0 if machine is LPSVC else 0.0
        objective = weight @ model.slack_ + price * model.alpha_.sum()
        assert objective == pytest.approx(model.certificate_.primal, rel=1e-9)


@each_machine
def test_several_classes_are_one_machine_each_against_the_rest(machine) -> None:
    X, y = overlap(75, n_classes=3)
    names = np.array(["ant", "bee", "cat"])[y]
    model = machine(gamma=0.5).fit(X, names)
    scores = model.decision_function(X)
    assert scores.shape == (75, 3)
    assert model.alpha_.shape == model.slack_.shape == (3, 75)
    assert len(model.certificates_) == len(model.n_iter_) == 3
    assert model.certificate_ in model.certificates_
    np.testing.assert_array_equal(model.predict(X), model.classes_[scores.argmax(axis=1)])
    for k, name in enumerate(model.classes_):
        alone = machine(gamma=0.5).fit(X, names == name)
        primal = alone.certificate_.primal
        assert model.certificates_[k].primal == pytest.approx(primal, rel=1e-6)
        np.testing.assert_allclose(alone.decision_function(X), scores[:, k], atol=1e-3)


def test_equal_rows_of_two_other_classes_share_their_coefficient() -> None:
    """For the machine of class 2 the rows 0 and 1 are copies: weights 1 and 3."""
    X, y = overlap(60, n_classes=3)
    X[1] = X[0]
    weight = np.ones(60)
    weight[1] = 3.0
    model = LOOSVC().fit(X, y, sample_weight=weight)
    assert model.certificates_[2].converged
    np.testing.assert_allclose(model.alpha_[2, 1], 3 * model.alpha_[2, 0])
    gamma = scale_gamma(X, weight)
    label = np.where(y == 2, 1.0, -1.0)
    f = gram(X, X, gamma=gamma) @ (label * model.alpha_[2])
    slack = np.maximum(0.0, 1 - label * f + model.alpha_[2] / weight)
    np.testing.assert_allclose(slack, model.slack_[2], atol=1e-9)


def test_class_weights_are_weights() -> None:
    X, y = overlap(40)
    for machine in (LOOSVC, AdaptiveMarginSVC, LPSVC):
        one = machine(class_weight={1: 3.0}, gamma=0.5).fit(X, y)
        other = machine(gamma=0.5).fit(X, y, sample_weight=np.where(y == 1, 3.0, 1.0))
        np.testing.assert_allclose(one.alpha_, other.alpha_, atol=1e-6 * one.alpha_.max())
        assert one.certificate_.primal != machine(gamma=0.5).fit(X, y).certificate_.primal


@each_machine
def test_sparse_and_precomputed_rows_give_the_same_optimum(machine) -> None:
    X, y = overlap(40)
    X = np.round(X, 1)
    dense = machine(gamma=0.5).fit(X, y)
    sparse = machine(gamma=0.5).fit(sp.csr_array(X), y)
    known = machine(kernel="precomputed").fit(gram(X, X, gamma=0.5), y)
    for other in (sparse, known):
        primal = other.certificate_.primal
        assert primal == pytest.approx(dense.certificate_.primal, rel=1e-6, abs=1e-8)
    np.testing.assert_allclose(
        sparse.decision_function(sp.csr_array(X)), dense.decision_function(X), atol=1e-4
    )


def test_copies_are_merged_however_many_rows_there_are() -> None:
    X, y = overlap(40)
    times = CANONICAL_ROWS // 40 + 1
    many = LOOSVC(gamma=0.5).fit(np.tile(X, (times, 1)), np.tile(y, times))
    few = LOOSVC(gamma=0.5).fit(X, y, sample_weight=np.full(40, float(times)))
    assert len(many.support_) == len(few.support_)
    np.testing.assert_array_equal(many.dual_coef_, few.dual_coef_)
    np.testing.assert_allclose(many.alpha_.sum(), few.alpha_.sum())


@each_machine
def test_probabilities_agree_with_predictions(machine) -> None:
    X, y = overlap(45, n_classes=3)
    model = machine(gamma=0.5).fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    np.testing.assert_array_equal(model.predict_log_proba(X), np.log(p))


def test_probabilities_rest_on_left_out_values() -> None:
    X, y = overlap(40, shift=0.3)
    model = LOOSVC(gamma=5.0).fit(X, y)
    left_out = loo.decision_values(model)
    wrong_fitted = (model.predict(X) != y).mean()
    wrong_left_out = ((left_out > 0) != y).mean()
    assert wrong_left_out > wrong_fitted + 0.1
    certainty = model.predict_proba(X).max(axis=1).mean()
    assert abs(certainty - (1 - wrong_left_out)) < abs(certainty - (1 - wrong_fitted))


@each_machine
def test_models_travel(machine) -> None:
    X, y = overlap(40)
    model = machine().fit(X, y)
    expected = model.predict_proba(X)
    for other in (pickle.loads(pickle.dumps(model)), model.compact()):
        np.testing.assert_array_equal(other.predict_proba(X), expected)
    with pytest.raises(ValueError, match="compact"):
        loo.result(machine().fit(X, y).compact())


@each_machine
def test_a_model_file_may_hold_them(machine, tmp_path) -> None:
    """Compact models with their probabilities are among the types that are loaded."""
    X, y = overlap(40)
    model = machine().fit(X, y)
    expected = model.predict_proba(X)
    encoding = Encoding(["a", "b"], {}, {"a": 0.0, "b": 0.0})
    SavedModel(make_pipeline(model.compact()), "classification", "y", encoding).save(
        tmp_path / "model.skops"
    )
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.pipeline.predict_proba(X), expected)


# ---------------------------------------------------------------- kernels


@each_machine
def test_a_kernel_matrix_must_be_symmetric(machine) -> None:
    X, y = overlap(20)
    K = gram(X, X)
    K[3, 7] += 1e-3
    with pytest.raises(ValueError, match=r"symmetric.*X\[\d, \d\]"):
        machine(kernel="precomputed").fit(K, y)


def test_rounding_in_a_kernel_matrix_is_forgiven() -> None:
    X, y = overlap(20)
    K = gram(X, X)
    rounded = K.copy()
    rounded[3, 7] *= 1 + 1e-12
    plain, other = (LOOSVC(kernel="precomputed").fit(M, y) for M in (K, rounded))
    assert other.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-6)
    single = LOOSVC(kernel="precomputed").fit(K.astype(np.float32), y)
    assert single.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-4)


@each_machine
def test_an_indefinite_kernel_is_as_good_as_any(machine) -> None:
    X, y = overlap(30)
    K = np.tanh(X @ X.T - 0.1)
    np.fill_diagonal(K, np.abs(np.diag(K)))
    assert np.linalg.eigvalsh(K).min() < -0.1
    model = machine(kernel="precomputed").fit(K, y)
    assert model.certificate_.converged
    assert model.certificate_.dual <= model.certificate_.primal
    assert LPSVC(kernel="sigmoid", gamma=1.0, coef0=-0.1).fit(X, y).certificate_.converged


def test_a_negative_diagonal_needs_a_machine_that_does_not_use_it() -> None:
    X, y = overlap(20)
    K = gram(X, X)
    K[4, 4] = -0.5
    for model in (LOOSVC(kernel="precomputed"), AdaptiveMarginSVC(kernel="precomputed", lam=0.1)):
        with pytest.raises(ValueError, match=r"k\(x, x\)=-0\.5"):
            model.fit(K, y)
    assert AdaptiveMarginSVC(kernel="precomputed", lam=0.0).fit(K, y).certificate_.converged
    assert LPSVC(kernel="precomputed").fit(K, y).certificate_.converged


# ---------------------------------------------------------------- symmetries


def generic(seed: int):
    """Return rows without order or copies, with slack at the optimum as a rule."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(16, 36))
    y = np.arange(n) % 2
    return rng.normal(size=(n, 2)) + 0.4 * y[:, None], y


@given(seed=seeds, factor=st.sampled_from([1e-3, 0.5, 4.0, 1e3]))
def test_a_kernel_times_a_number(seed, factor) -> None:
    """Adaptive margins do not notice; the LP machine does not at lam times the number."""
    X, y = generic(seed)
    K = gram(X, X, gamma=0.5)
    for one, other in [
        (LOOSVC(kernel="precomputed"), LOOSVC(kernel="precomputed")),
        (
            LPSVC(kernel="precomputed", lam=0.7),
            LPSVC(kernel="precomputed", lam=0.7 * factor),
        ),
    ]:
        quietly(one, K, y)
        quietly(other, factor * K, y)
        primal = one.certificate_.primal
        assume(primal > 0.1)
        assert other.certificate_.primal == pytest.approx(primal, rel=3e-6)
        np.testing.assert_allclose(other.slack_, one.slack_, atol=2e-3)
    nu, scaled = (quietly(NuLPSVC(kernel="precomputed"), c * K, y) for c in (1.0, factor))
    assert scaled.rho_ == pytest.approx(factor * nu.rho_, rel=1e-3)


@given(seed=seeds)
def test_the_other_label(seed) -> None:
    """Swapping the classes changes the sign of the values and nothing else."""
    X, y = generic(seed)
    for model in (LOOSVC(), LPSVC(), NuLPSVC(nu=0.4)):
        values = quietly(model, X, y).decision_function(X)
        primal = model.certificate_.primal
        assume(abs(primal) > 1e-3)
        swapped = quietly(model, X, 1 - y).decision_function(X)
        assert model.certificate_.primal == pytest.approx(primal, rel=3e-6)
        np.testing.assert_allclose(swapped, -values, atol=3e-3 * np.abs(values).max())


@given(seed=seeds)
def test_the_order_of_the_rows(seed) -> None:
    """Not a bit depends on it."""
    X, y = generic(seed)
    order = np.random.default_rng(seed).permutation(len(y))
    for model in (LOOSVC(), AdaptiveMarginSVC(lam=0.3), LPSVC(), NuLPSVC(nu=0.4)):
        alpha = quietly(model, X, y).alpha_
        values = model.decision_function(X)
        quietly(model, X[order], y[order])
        np.testing.assert_array_equal(model.alpha_, alpha[order])
        np.testing.assert_array_equal(model.decision_function(X), values)


@given(seed=seeds)
def test_copies_and_weights(seed) -> None:
    """A weight of 3 is the row three times, to the last bit of the model."""
    X, y = generic(seed)
    weight = np.random.default_rng(seed).integers(0, 4, len(y))
    weight[:4] = 1
    copies = np.repeat(np.arange(len(y)), weight)
    for model in (LOOSVC(), AdaptiveMarginSVC(lam=0.3), LPSVC(), NuLPSVC(nu=0.4)):
        quietly(model, X, y, sample_weight=weight)
        values, alpha, slack = model.decision_function(X), model.alpha_, model.slack_
        quietly(model, X[copies], y[copies])
        np.testing.assert_array_equal(model.decision_function(X), values)
        np.testing.assert_allclose(model.alpha_, (alpha / np.maximum(weight, 1))[copies])
        np.testing.assert_array_equal(model.slack_, slack[copies])
