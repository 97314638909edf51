"""Radial-basis networks: the error and its gradient, the start, the steps, the estimator."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.preprocessing import StandardScaler

from widemargin import AdaBoostClassifier, RBFNetClassifier
from widemargin.cli._model_file import trusted_types
from widemargin.problems.rbf_net import (
    RBFNetProblem,
    network_values,
    squared_distances,
    squared_lengths,
)
from widemargin.solvers.base import Budget
from widemargin.solvers.rbf_net import k_means, solve

CORNERS = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])


def moons(n=200, seed=0):
    X, y = make_moons(n, noise=0.25, random_state=seed)
    return StandardScaler().fit_transform(X), y


def three_clouds(n=150):
    rng = np.random.default_rng(1)
    middles = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
    labels = rng.integers(0, 3, n)
    return middles[labels] + 0.6 * rng.normal(size=(n, 2)), np.array(["a", "b", "c"])[labels]


def four_corners():
    """Corners of a square, opposite ones of the same class."""
    X = np.repeat(CORNERS, 25, axis=0) + 0.1 * np.random.default_rng(0).normal(size=(100, 2))
    return X, np.repeat([0, 1, 1, 0], 25)


def problem_of(y, weight=None, ridge=1e-6, n_centres=4):
    weight = np.ones(len(y)) if weight is None else weight
    label = np.where(y == y.max(), 1.0, -1.0)
    return RBFNetProblem(label, weight / weight.sum(), ridge, n_centres)


def start(X, weight, n_centres, seed):
    """Return the centres and widths of k-means, whatever the labels."""
    found = k_means(RBFNetProblem(weight, weight, 1e-6, n_centres), X, seed=seed)
    return found.centres, found.widths


def reduced(problem, X, centres, widths):
    return problem.reduced(X, squared_lengths(X), centres, widths)


# -- the problem ---------------------------------------------------------------------------------


def error_by_hand(problem, X, centres, widths, coef):
    """The regularised error, row by row and bump by bump."""
    total = 0.5 * problem.ridge * sum(a * a for a in coef)
    for x, label, s in zip(X, problem.label, problem.weight, strict=True):
        bumps = [
            np.exp(-np.sum((x - c) ** 2) / (2 * width**2))
            for c, width in zip(centres, widths, strict=True)
        ]
        total += 0.5 * s * (np.dot(coef, bumps) - label) ** 2
    return total


def test_the_error_is_that_of_the_formula():
    rng = np.random.default_rng(0)
    X, y = moons(30)
    problem = problem_of(y, weight=rng.uniform(0, 2, 30), ridge=1e-3)
    centres, widths = rng.normal(size=(4, 2)), rng.uniform(0.5, 2, 4)
    found = reduced(problem, X, centres, widths)
    by_hand = error_by_hand(problem, X, centres, widths, found.coef)
    assert found.value == pytest.approx(by_hand, rel=1e-12)


def test_output_weights_are_optimal():
    rng = np.random.default_rng(0)
    X, y = moons(30)
    problem = problem_of(y, weight=rng.uniform(0, 2, 30), ridge=1e-3)
    centres, widths = rng.normal(size=(4, 2)), rng.uniform(0.5, 2, 4)
    found = reduced(problem, X, centres, widths)
    for _ in range(20):
        other = found.coef + 1e-3 * rng.normal(size=4)
        assert error_by_hand(problem, X, centres, widths, other) > found.value


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    n_features=st.integers(1, 6),
    n_centres=st.integers(1, 7),
    ridge=st.sampled_from([1e-6, 1e-3, 1.0]),
    sparse=st.booleans(),
)
def test_gradient_agrees_with_finite_differences(seed, n_features, n_centres, ridge, sparse):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, n_features))
    y = rng.choice([-1.0, 1.0], 40)
    weight = rng.uniform(0, 1, 40)
    rows = sp.csr_array(X) if sparse else X
    problem = RBFNetProblem(y, weight / weight.sum(), ridge, n_centres)
    centres, widths = rng.normal(size=(n_centres, n_features)), rng.uniform(0.5, 2, n_centres)
    found = reduced(problem, rows, centres, widths)
    moves, growth = rng.normal(size=centres.shape), rng.normal(size=n_centres)

    def along(step):
        return reduced(problem, rows, centres + step * moves, widths * np.exp(step * growth)).value

    h = 1e-3  # five points: the error of the rule is of order h^4
    slope = (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h)
    expected = np.sum(found.by_centre * moves) + found.by_log_width @ growth
    assert expected == pytest.approx(slope, rel=1e-4, abs=1e-6)


# -- the start -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_centres_are_the_weighted_means_of_their_rows(form):
    rng = np.random.default_rng(3)
    X, weight = rng.normal(size=(120, 3)), rng.uniform(0, 1, 120)
    centres, widths = start(form(X), weight, 6, seed=0)
    nearest = squared_distances(X, squared_lengths(X), centres).argmin(axis=1)
    for k in range(6):
        mine = nearest == k
        np.testing.assert_allclose(centres[k], np.average(X[mine], axis=0, weights=weight[mine]))
    apart = np.linalg.norm(centres[:, None] - centres[None], axis=2)
    np.testing.assert_allclose(widths, np.sort(apart, axis=1)[:, 1])


def test_clusters_are_found():
    X, _ = four_corners()
    centres, widths = start(X, np.full(100, 0.01), 4, seed=0)
    np.testing.assert_allclose(centres[np.lexsort(centres.T.round())], CORNERS, atol=0.2)
    np.testing.assert_allclose(widths, 10.0, atol=0.3)


def test_centres_go_where_the_weight_is():
    X = np.linspace(0.0, 1.0, 201)[:, None]
    weight = np.where(X[:, 0] > 0.9, 1.0, 1e-9)
    centres, _ = start(X, weight, 4, seed=0)
    assert (centres > 0.85).sum() >= 3


def test_no_more_centres_than_different_rows():
    X = np.repeat([[0.0], [1.0], [3.0]], 5, axis=0)
    centres, widths = start(X, np.ones(15), 10, seed=0)
    np.testing.assert_array_equal(np.sort(centres[:, 0]), [0.0, 1.0, 3.0])
    np.testing.assert_array_equal(np.sort(widths), [1.0, 1.0, 2.0])


def test_a_single_centre_has_the_spread_of_the_rows():
    X = np.array([[-1.0], [1.0], [1.0], [-1.0]])
    centres, widths = start(X, np.ones(4), 1, seed=0)
    np.testing.assert_allclose([centres[0, 0], widths[0]], [0.0, 1.0], atol=1e-15)
    _, widths = start(np.zeros((3, 2)), np.ones(3), 5, seed=0)
    np.testing.assert_array_equal(widths, [1.0])


# -- the steps -----------------------------------------------------------------------------------


def test_every_step_lowers_the_error():
    X, y = moons()
    problem = problem_of(y, n_centres=8)
    centres, widths = start(X, problem.weight, 8, seed=0)
    errors = [solve(problem, X, budget=Budget(n)).error for n in range(12)]
    assert errors[0] == reduced(problem, X, centres, widths).value
    assert np.all(np.diff(errors) < 0)
    assert errors[-1] < 0.8 * errors[0]


def test_many_steps_end_where_the_gradient_vanishes():
    X, y = moons()
    problem = problem_of(y, ridge=1e-3, n_centres=2)
    net = solve(problem, X, budget=Budget(2_000))
    assert net.n_iter < 2_000
    assert net.status != "max_iter"
    end = reduced(problem, X, net.centres, net.widths)
    assert end.value == net.error
    np.testing.assert_allclose(end.by_centre, 0, atol=1e-6)
    np.testing.assert_allclose(end.by_log_width, 0, atol=1e-6)


def test_the_network_follows_the_scale_of_the_rows():
    X, y = moons()
    problem = problem_of(y, n_centres=6)
    small = solve(problem, X, budget=Budget(10))
    large = solve(problem, 1024.0 * X, budget=Budget(10))
    np.testing.assert_array_equal(1024.0 * small.centres, large.centres)
    np.testing.assert_array_equal(1024.0 * small.widths, large.widths)
    np.testing.assert_array_equal(small.coef, large.coef)


def test_swapped_labels_swap_the_sign():
    X, y = moons()
    problem, mirror = problem_of(y, n_centres=6), problem_of(-y, n_centres=6)
    net, image = (solve(each, X, budget=Budget(10)) for each in (problem, mirror))
    np.testing.assert_array_equal(net.centres, image.centres)
    np.testing.assert_array_equal(net.coef, -image.coef)


# -- the estimator -------------------------------------------------------------------------------


def test_it_learns_a_curved_boundary():
    X, y = moons(800)
    model = RBFNetClassifier().fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.92
    assert model.centres_.shape == (1, 10, 2)
    assert model.n_steps_ == 10


def test_steps_improve_on_the_start():
    X, y = moons(400)
    fixed, adapted = (RBFNetClassifier(6, n_steps=n).fit(X, y) for n in (0, 10))
    assert fixed.n_steps_ == 0
    assert adapted.errors_[0] < fixed.errors_[0]
    assert adapted.score(X, y) > fixed.score(X, y)


def test_decision_values_are_those_of_the_kept_network():
    X, y = moons()
    model = RBFNetClassifier(5).fit(X, y)
    values = network_values(X, model.centres_[0], model.widths_[0], model.coef_[0])
    np.testing.assert_allclose(model.decision_function(X), values, rtol=1e-9, atol=1e-12)
    decay = 0.5 * model.ridge * model.coef_[0] @ model.coef_[0]
    error = 0.5 * np.mean((values - (2.0 * y - 1.0)) ** 2) + decay
    assert model.errors_[0] == pytest.approx(error, rel=1e-9)


@given(seed=st.integers(0, 10_000), n_centres=st.integers(1, 12), sparse=st.booleans())
def test_weight_repetition_and_order_give_the_same_bits(seed, n_centres, sparse):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(40, 2)).round(1), rng.choice(["no", "yes"], 40)
    y[:2] = "no", "yes"
    weight = rng.integers(0, 4, 40)
    weight[:2] = 1
    form = sp.csr_array if sparse else np.asarray
    repeated = rng.permutation(np.repeat(np.arange(40), weight))
    model = RBFNetClassifier(n_centres, random_state=seed)
    weighted = clone(model).fit(form(X), y, sample_weight=weight)
    plain = clone(model).fit(form(X[repeated]), y[repeated])
    for name in ("centres_", "widths_", "coef_", "errors_"):
        np.testing.assert_array_equal(getattr(weighted, name), getattr(plain, name))


def test_a_common_factor_of_the_weights_means_nothing():
    X, y = moons()
    weight = np.random.default_rng(0).uniform(0, 1, len(y))
    model = RBFNetClassifier().fit(X, y, sample_weight=weight)
    scaled = RBFNetClassifier().fit(X, y, sample_weight=weight / 1024.0)
    np.testing.assert_array_equal(model.coef_, scaled.coef_)


def test_weights_decide_whose_errors_count():
    X, y = moons(400)
    left = X[:, 0] < 0
    model = RBFNetClassifier(2, n_steps=3)
    careful = clone(model).fit(X, y, sample_weight=np.where(left, 1.0, 1e-3))
    careless = clone(model).fit(X, y, sample_weight=np.where(left, 1e-3, 1.0))
    assert careful.score(X[left], y[left]) > careless.score(X[left], y[left])


def test_the_same_seed_gives_the_same_bits_and_another_seed_another_network():
    X, y = moons()
    first, again, other = (RBFNetClassifier(random_state=s).fit(X, y) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.centres_, again.centres_)
    assert not np.array_equal(first.centres_, other.centres_)
    np.testing.assert_array_equal(
        RBFNetClassifier().fit(X, y).centres_, RBFNetClassifier().fit(X, y).centres_
    )


def test_rows_far_from_the_origin_keep_their_digits():
    X, y = four_corners()
    X = (X * 2**20).round() / 2**20  # so that the shift loses nothing
    shift = np.array([2.0**20, -(2.0**20)])
    near = RBFNetClassifier(4, n_steps=2).fit(X, y)
    far = RBFNetClassifier(4, n_steps=2).fit(X + shift, y)
    values = near.decision_function(X)
    assert np.abs(values).max() > 0.5
    np.testing.assert_allclose(far.decision_function(X + shift), values, atol=1e-6)


def test_three_classes_have_a_network_each():
    X, y = three_clouds()
    model = RBFNetClassifier(6).fit(X, y)
    scores = model.decision_function(X)
    assert scores.shape == (len(y), 3)
    assert model.coef_.shape == (3, 6)
    np.testing.assert_array_equal(model.classes_[scores.argmax(axis=1)], model.predict(X))
    assert model.score(X, y) > 0.95
    single = RBFNetClassifier(6, n_steps=0).fit(X, y)
    for k, label in enumerate(model.classes_):
        labels, weight = np.where(y == label, 1.0, -1.0), np.full(len(y), 1 / len(y))
        problem = RBFNetProblem(labels, weight, 1e-6, 6)
        alone = reduced(problem, X, single.centres_[k], single.widths_[k])
        np.testing.assert_allclose(single.coef_[k], alone.coef, rtol=1e-6)


def test_sparse_rows_give_the_network_of_dense_ones():
    X, y = moons()
    dense = RBFNetClassifier(5, n_steps=0).fit(X, y)
    sparse = RBFNetClassifier(5, n_steps=0).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(dense.centres_, sparse.centres_, atol=1e-10)
    values = dense.decision_function(X)
    np.testing.assert_allclose(dense.decision_function(sp.csr_array(X)), values, atol=1e-9)
    np.testing.assert_allclose(sparse.decision_function(X), values, atol=1e-6)


def test_float32_rows_are_taken_as_they_are():
    X, y = moons()
    X = X.astype(np.float32)
    single, double = (RBFNetClassifier().fit(rows, y) for rows in (X, X.astype(np.float64)))
    np.testing.assert_array_equal(single.centres_, double.centres_)
    assert single.decision_function(X).dtype == np.float64


def test_equal_rows_with_different_labels_and_constant_rows():
    X = np.ones((6, 2))
    model = RBFNetClassifier().fit(X, [0, 0, 0, 0, 1, 1])
    assert model.centres_.shape == (1, 1, 2)
    np.testing.assert_array_equal(model.predict(X), np.zeros(6))
    assert model.decision_function(X)[0] == pytest.approx(-1 / 3, rel=1e-5)


def test_far_from_all_centres_the_score_is_zero():
    X, y = moons()
    model = RBFNetClassifier().fit(X, y)
    assert model.decision_function([[1e6, 1e6]])[0] == 0.0
    assert model.predict([[1e6, 1e6]])[0] == model.classes_[0]


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 30),
    n_features=st.integers(1, 5),
    n_centres=st.integers(1, 40),
    digits=st.integers(0, 3),
    scale=st.sampled_from([1e-100, 1e-6, 1.0, 1e6, 1e100]),
)
def test_any_rows_give_finite_scores(seed, n, n_features, n_centres, digits, scale):
    rng = np.random.default_rng(seed)
    X = scale * rng.normal(size=(n, n_features)).round(digits)
    y = rng.permutation(np.arange(n) % 2)
    model = RBFNetClassifier(n_centres, n_steps=30).fit(X, y, sample_weight=10.0 ** -(5.0 * y))
    assert np.isfinite(model.decision_function(X)).all()
    assert (model.widths_ > 0).all()
    assert model.centres_.shape[1] == min(n_centres, len(np.unique(X + 0.0, axis=0)))


def test_a_model_file_holds_the_network():
    X, y = moons()
    model = RBFNetClassifier().fit(X, y)
    content = skops.io.dumps(model)
    assert set(skops.io.get_untrusted_types(data=content)) <= set(trusted_types())
    loaded = skops.io.loads(content, trusted=trusted_types())
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


def test_networks_can_be_boosted():
    X, y = moons(600)
    base = RBFNetClassifier(3, n_steps=2)
    model = AdaBoostClassifier(n_rounds=20, base=base).fit(X[:300], y[:300])
    alone = clone(base).fit(X[:300], y[:300])
    assert model.score(X[:300], y[:300]) > alone.score(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > alone.score(X[300:], y[300:])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_centres": 0}, "n_centres must be a positive integer; got n_centres=0"),
        ({"n_centres": 2.5}, "n_centres must be a positive integer"),
        ({"n_centres": True}, "n_centres must be a positive integer"),
        ({"n_steps": -1}, "n_steps must be an integer, not negative; got n_steps=-1"),
        ({"ridge": 0.0}, "ridge must be a number, at least 1e-12; got ridge=0.0"),
        ({"ridge": np.inf}, "ridge must be a number"),
        ({"ridge": "small"}, "ridge must be a number"),
        ({"random_state": -1}, "random_state must be a seed"),
        ({"random_state": "x"}, "random_state must be None, a seed"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        RBFNetClassifier(**parameters).fit(*moons(20))


def test_bad_data_are_refused():
    X, y = moons(20)
    with pytest.raises(ValueError, match="at least two classes"):
        RBFNetClassifier().fit(X, np.zeros(20))
    with pytest.raises(ValueError, match="at least two classes"):
        RBFNetClassifier().fit(X, y, sample_weight=y)
    with pytest.raises(ValueError, match="Sample weights"):
        RBFNetClassifier().fit(X, y, sample_weight=np.zeros(20))
    with pytest.raises(ValueError, match="NaN"):
        RBFNetClassifier().fit(np.where(X > 0, X, np.nan), y)
    for factor in (1e200, 1e-200):
        with pytest.raises(ValueError, match="X has entries of at most"):
            RBFNetClassifier().fit(factor * X, y)
    with pytest.raises(ValueError, match="3 features"):
        RBFNetClassifier().fit(X, y).predict(np.zeros((2, 3)))
