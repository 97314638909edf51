"""Gradient tuning: the loss against retraining, its gradient against differences, the choices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import SVC, SVR, LinearSVC, NuSVC
from widemargin.problems.soft_margin import c_classification
from widemargin.solvers.soft_margin import solve_squared_hinge
from widemargin.solvers.soft_margin import squared_newton as _squared_hinge
from widemargin.tuning import hinge_cost
from widemargin.tuning.gradient import tune
from widemargin.tuning.hinge_cost import HingeMachine, choose_hinge_cost
from widemargin.tuning.kernel_paths import (
    FixedPath,
    PolyPath,
    ScalesPath,
    WidthPath,
    squared_distances,
)
from widemargin.tuning.landscape import COST_RANGE, Landscape, Scale, descend
from widemargin.tuning.setup import Task
from widemargin.tuning.smooth_loss import SLOPES, Pair, best_slope, log_loss, smooth_loss


def noisy_plane(n=60, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.where(X[:, 0] + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)


def unweighted(y, intercept=True):
    return Pair(y, np.ones(len(y)), np.ones(len(y)), intercept)


def tuned_cost(path, rows, pairs, C, base, observe=lambda point: None):
    scales = [Scale("C", C, COST_RANGE)]
    return Landscape(path, base, scales, {"C": C}, 1.0, observe, rows, pairs)


def rbf(X, gamma):
    return np.exp(-gamma * squared_distances(X))


def quadrants(n=200, extra=6, seed=0):
    """Return rows labelled by the signs of their first two inputs; the others are noise."""
    X = np.random.default_rng(seed).standard_normal((n, 2 + extra))
    return X, X[:, 0] * X[:, 1] > 0


# -- the inner solver -------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("C", [0.01, 1.0, 1e4])
def test_newton_steps_end_at_the_optimum(C, intercept):
    X, y = noisy_plane()
    K, cost = rbf(X, 0.5), np.full(len(y), C)
    machine = solve_squared_hinge(K, y, 0.5 / cost, intercept=intercept)
    problem = c_classification(y, cost, squared=True, intercept=intercept)
    b = np.zeros(len(y))
    b[machine.support] = machine.beta
    b = np.clip(b, problem.lower, problem.upper)
    assert problem.kkt_violation(b, machine.f - machine.intercept) < 1e-8


def test_a_wrong_start_changes_nothing():
    X, y = noisy_plane()
    K, v = rbf(X, 0.5), np.full(len(y), 0.1)
    expected = solve_squared_hinge(K, y, v, intercept=True)
    for start in (y > 0, np.arange(len(y)) < 2, np.zeros(len(y), dtype=bool)):
        machine = solve_squared_hinge(K, y, v, intercept=True, start=start)
        np.testing.assert_allclose(machine.f, expected.f, atol=1e-9)


def test_pair_steps_take_over_where_newton_steps_do_not_settle(monkeypatch):
    X, y = noisy_plane()
    K, v = rbf(X, 0.5), np.full(len(y), 0.1)
    expected = solve_squared_hinge(K, y, v, intercept=True)
    monkeypatch.setattr(_squared_hinge, "NEWTON_ITERATIONS", 1)
    machine = solve_squared_hinge(K, y, v, intercept=True)
    np.testing.assert_allclose(machine.f, expected.f, atol=1e-7)


def test_the_best_point_of_a_segment_is_a_minimum():
    X, y = noisy_plane()
    K, v = rbf(X, 2.0), np.full(len(y), 0.01)
    few, many = (_squared_hinge._solve_on(K, y, v, np.arange(m), True) for m in (4, 60))
    middle = _squared_hinge._best_between(few, many, y, v)
    ends, least = (
        [_squared_hinge._objective(m, 1.0 - y * m.f, v) for m in machines]
        for machines in ((few, many), (middle,))
    )
    assert least[0] <= min(ends) * (1 + 1e-12)
    np.testing.assert_allclose(middle.f, K @ middle.beta + middle.intercept, atol=1e-9)


# -- left-out margins -------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
def test_margins_equal_retraining_where_the_support_set_stays(intercept):
    X, y = noisy_plane(50)
    K, C = rbf(X, 0.7), 0.5
    found = smooth_loss(K, unweighted(y, intercept), C)
    compared = 0
    for row in range(len(y)):
        rest = np.delete(np.arange(len(y)), row)
        v = np.full(len(rest), 0.5 / C)
        machine = solve_squared_hinge(K[np.ix_(rest, rest)], y[rest], v, intercept=intercept)
        support = np.zeros(len(y), dtype=bool)
        support[rest[machine.support]] = True
        if np.array_equal(support[rest], found.support[rest]):
            value = K[row, rest[machine.support]] @ machine.beta + machine.intercept
            assert y[row] * value == pytest.approx(found.margins[row], abs=1e-9)
            compared += found.support[row]
    assert compared > 10


def test_repeating_a_row_and_weighting_it_give_the_same_loss():
    X, y = noisy_plane(40)
    times = 1 + np.arange(40) % 3
    once = smooth_loss(rbf(X, 0.5), Pair(y, times * 1.0, times * 1.0, True), 2.0)
    X, y = np.repeat(X, times, axis=0), np.repeat(y, times)
    repeated = smooth_loss(rbf(X, 0.5), unweighted(y), 2.0)
    assert once.loss == pytest.approx(repeated.loss, rel=1e-9)
    np.testing.assert_allclose(np.repeat(once.margins, times), repeated.margins, atol=1e-8)


@pytest.mark.parametrize("intercept", [True, False])
def test_hinge_margins_equal_retraining_where_no_row_changes_its_group(intercept):
    X, y = noisy_plane(40)
    K, weight, C = rbf(X, 1.0), 0.5 + np.arange(40) % 3, 1.0
    machine = HingeMachine(K, Pair(y, weight, weight, intercept))
    margins = machine.margins(C)

    def group(b, caps):
        return (np.abs(b) > 1e-6).astype(int) + (np.abs(b) > caps - 1e-6)

    compared = 0
    for row in np.flatnonzero(machine.alpha):
        rest = weight.copy()
        rest[row] -= min(1.0, weight[row])
        model = SVC(C=C, kernel="precomputed", fit_intercept=intercept, tol=1e-8)
        model.fit(K, y, sample_weight=rest)
        b = np.zeros(len(y))
        b[model.support_] = model.dual_coef_[0]
        others = np.arange(len(y)) != row
        if np.array_equal(group(b, rest)[others], group(machine.alpha, weight)[others]):
            value = y[row] * model.decision_function(K[[row]])[0]
            assert value == pytest.approx(margins[row], abs=1e-5)
            compared += 1
    assert compared > 5


def test_a_cost_at_which_the_hinge_is_not_solved_is_not_chosen(monkeypatch):
    X, y = noisy_plane()
    machine = HingeMachine(rbf(X, 0.3), unweighted(y))
    assert np.isfinite(machine.loss(1.0))
    monkeypatch.setattr(hinge_cost, "PAIR_STEPS", 1)
    assert machine.loss(1000.0) == np.inf
    best, _ = choose_hinge_cost([rbf(X, 0.3)], [unweighted(y)], 3.0)
    assert best == 3.0


def test_the_slope_is_the_best_one():
    rng = np.random.default_rng(0)
    t, share = rng.standard_normal(50) + 1.0, np.full(50, 0.02)
    loss, slope = log_loss(t, share)
    for other in (0.5 * slope, 0.99 * slope, 1.01 * slope, 2 * slope):
        assert loss < share @ np.logaddexp(0.0, -other * t)
    assert best_slope(np.abs(t) + 0.1, share) == pytest.approx(SLOPES[1])
    assert best_slope(-np.abs(t), share) == pytest.approx(SLOPES[0])


# -- the gradient -----------------------------------------------------------------------------


def paths(X):
    return {
        "fixed": FixedPath(rbf(X, 0.5)),
        "gamma": WidthPath(squared_distances(X)),
        "poly": PolyPath(X @ X.T, 2.0, 1.0),
        "ard": ScalesPath(X),
    }


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", ["fixed", "gamma", "poly", "ard"])
def test_gradient_equals_central_differences(kind, intercept, weighted):
    X, y = noisy_plane()
    rng = np.random.default_rng(1)
    weight = rng.choice([0.5, 1.0, 2.0, 3.0], len(y)) if weighted else np.ones(len(y))
    pair = Pair(y, weight, weight * np.where(y > 0, 1.3, 1.0), intercept)
    path = paths(X)[kind]
    base = np.log(rng.uniform(0.2, 0.8, path.size))
    landscape = tuned_cost(path, [None], [pair], 2.0, base)
    x = 0.1 * rng.standard_normal(len(landscape.bounds))
    _, analytic = landscape(x)
    step = 1e-5 * np.eye(len(x))
    numeric = [(landscape(x + h)[0] - landscape(x - h)[0]) / 2e-5 for h in step]
    np.testing.assert_allclose(analytic, numeric, rtol=1e-6, atol=1e-6 * np.abs(numeric).max())


def test_gradient_over_pairs_of_classes():
    X, codes = load_iris(return_X_y=True)
    X, codes = X[::3], codes[::3]
    rows, pairs = [], []
    for i, j in ((0, 1), (0, 2), (1, 2)):
        rows.append(np.flatnonzero((codes == i) | (codes == j)))
        pairs.append(unweighted(np.where(codes[rows[-1]] == i, 1.0, -1.0)))
    base = np.log(np.full(4, 0.1))
    landscape = tuned_cost(ScalesPath(X), rows, pairs, 1.0, base)
    x = np.linspace(-0.2, 0.3, 6)
    _, analytic = landscape(x)
    numeric = [(landscape(x + h)[0] - landscape(x - h)[0]) / 2e-5 for h in 1e-5 * np.eye(6)]
    np.testing.assert_allclose(analytic, numeric, rtol=1e-6, atol=1e-6 * np.abs(numeric).max())


def test_a_descent_keeps_its_best_point():
    X, y = noisy_plane()
    seen = []
    path = WidthPath(squared_distances(X))
    landscape = tuned_cost(path, [None], [unweighted(y)], 1.0, np.zeros(1), seen.append)
    _, objective, _ = descend(landscape, np.zeros(2), max_iter=20)
    assert objective == min(point.objective for point in seen)
    assert objective < seen[0].objective


# -- the cost of the hinge --------------------------------------------------------------------


def test_the_grid_of_costs_reaches_beyond_its_ends():
    X, y = noisy_plane()
    K, pair = rbf(X, 0.3), unweighted(y)
    best, tried = choose_hinge_cost([K], [pair], 1.0)
    assert dict(tried)[best] == min(loss for _, loss in tried)
    from_afar, tried = choose_hinge_cost([K], [pair], best / 16)
    assert len(tried) > 5
    assert from_afar == pytest.approx(best)
    assert dict(tried)[from_afar] == min(loss for _, loss in tried)


# -- tune -------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_tuning_beats_bad_parameters_and_leaves_its_argument_alone(loss):
    X, y = make_moons(300, noise=0.2, random_state=0)
    before = SVC(C=1e-3, gamma=1e-3, loss=loss)
    untouched = clone(before)
    model = tune(before, X[:150], y[:150])
    assert before.get_params() == untouched.get_params()
    assert not hasattr(before, "classes_")
    assert model.tuning_.params["C"] == model.C
    assert model.gamma == model.gamma_ == model.tuning_.params["gamma"]
    assert model.score(X[150:], y[150:]) > 0.92 > before.fit(X[:150], y[:150]).score(X, y)


def test_the_record_of_the_search():
    X, y = make_moons(100, noise=0.2, random_state=0)
    tuning = tune(SVC(), X, y).tuning_
    assert tuning.n_evaluations == len(tuning.trace)
    assert {entry["stage"] for entry in tuning.trace} == {"scan", "kernel", "cost"}
    assert all(np.isfinite(entry["loss"]) and entry["C"] > 0 for entry in tuning.trace)
    costs = [entry for entry in tuning.trace if entry["stage"] == "cost"]
    assert tuning.loss == min(entry["loss"] for entry in costs)
    assert tuning.n_rows == 100
    assert tuning.message


def test_same_seed_same_bits():
    X, y = make_moons(300, noise=0.2, random_state=0)
    first, second = (tune(SVC(), X, y, ("C", "ard"), random_state=3) for _ in range(2))
    assert first.C == second.C
    np.testing.assert_array_equal(first.gamma, second.gamma)


def test_weights_mean_repetition_and_order_does_not_matter():
    X, y = noisy_plane(60)
    times = 1 + np.arange(60) % 2
    weighted = tune(SVC(), X, y, sample_weight=times)
    order = np.random.default_rng(0).permutation(times.sum())
    repeated = tune(SVC(), np.repeat(X, times, axis=0)[order], np.repeat(y, times)[order])
    assert weighted.tuning_.params == repeated.tuning_.params


def test_one_gamma_a_feature_finds_the_real_inputs():
    X, y = quadrants()
    model = tune(SVC(), X, y, ("C", "ard"))
    assert model.gamma.shape == (8,)
    assert model.gamma[:2].min() > 5 * model.gamma[2:].max()
    X_test, y_test = quadrants(1000, seed=1)
    assert model.score(X_test, y_test) > tune(SVC(), X, y).score(X_test, y_test) + 0.05


def test_the_prior_holds_scales_together_that_the_data_do_not_tell_apart():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 6))
    y = np.sum(X**2, axis=1) > 5.3
    spread = [np.ptp(np.log(tune(SVC(), X, y, ("C", "ard"), prior=p).gamma)) for p in (0, None)]
    assert spread[1] < 0.5 < spread[0]


def test_scale_of_the_features_does_not_matter():
    X, y = make_moons(150, noise=0.2, random_state=0)
    small, large = tune(SVC(), X, y), tune(SVC(), 1024 * X, y)
    assert small.gamma == pytest.approx(large.gamma * 1024**2, rel=1e-2)
    per_feature = tune(SVC(), X * [1024.0, 1.0], y, ("C", "ard"))
    assert 1e-8 < per_feature.gamma[0] / per_feature.gamma[1] < 1e-4


@pytest.mark.parametrize(
    ("model", "params"),
    [
        (SVC(), ("C", "gamma")),
        (SVC(kernel="poly", degree=2, coef0=1.0), ("C", "gamma")),
        (SVC(kernel="linear"), ("C",)),
        (SVC(loss="squared_hinge", fit_intercept=False), ("gamma",)),
        (SVC(class_weight="balanced"), ("ard",)),
        (LinearSVC(), ("C",)),
    ],
    ids=str,
)
def test_several_classes_and_kernels(model, params):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    rows = np.random.default_rng(0).permutation(150)[:90]
    tuned = tune(model, X[rows], names[rows], params)
    assert tuned.score(X, names) > 0.93
    if "C" not in params:
        assert tuned.C == model.C


def test_sparse_rows_and_kernel_matrices_give_the_same_parameters():
    X, y = noisy_plane(80)
    dense = tune(SVC(), X, y).tuning_.params
    assert tune(SVC(), sp.csr_matrix(X), y).tuning_.params == pytest.approx(dense, rel=1e-3)
    fixed = tune(SVC(gamma=0.5), X, y, ("C",))
    given = tune(SVC(kernel="precomputed"), rbf(X, 0.5), y, ("C",))
    assert pytest.approx(fixed.C, rel=1e-3) == given.C


def test_pipelines_are_tuned_at_their_last_step():
    X, y = make_moons(120, noise=0.2, random_state=0)
    X = X * [1000.0, 1.0]
    pipeline = make_pipeline(StandardScaler(), SVC(C=1e-3))
    tuned = tune(pipeline, X, y)
    assert tuned.score(X, y) > 0.9 > pipeline.fit(X, y).score(X, y)
    assert tuned.tuning_ is tuned[-1].tuning_
    assert pipeline[-1].C == 1e-3
    direct = tune(SVC(), StandardScaler().fit_transform(X), y)
    assert tuned[-1].C == direct.C


def test_many_rows_are_tuned_on_a_sample(monkeypatch):
    monkeypatch.setattr(Task, "most_rows", 150)
    monkeypatch.setattr(Task, "coarse_rows", 60)
    X, y = make_moons(600, noise=0.2, random_state=0)
    model = tune(SVC(), X, y)
    assert model.tuning_.n_rows == 150
    assert len(model.tuning_.starts) == 2
    assert model.score(X, y) > 0.95


def test_given_starts_are_used():
    X, y = make_moons(100, noise=0.2, random_state=0)
    model = tune(SVC(), X, y, starts=[{"C": 2.0, "gamma": 0.5}, {"gamma": 3.0}])
    assert model.tuning_.trace[0]["C"] == pytest.approx(2.0)
    assert model.tuning_.trace[0]["gamma"] == pytest.approx(0.5)
    assert len(model.tuning_.starts) == 2
    model = tune(SVC(), X, y, ("C", "ard"), starts=[{"gamma": [0.5, 2.0]}])
    np.testing.assert_allclose(model.tuning_.trace[0]["gamma"], [0.5, 2.0])


def test_a_bar_is_shown_when_asked_for(capsys):
    X, y = make_moons(60, noise=0.2, random_state=0)
    tune(SVC(), X, y, verbose=1)
    assert "leave-one-out loss" in capsys.readouterr().out


@pytest.mark.parametrize("y", [[0, 1, 0, 1], [0, 1, 1, 1]], ids=["two of each", "one alone"])
def test_very_few_rows(y):
    X = np.random.default_rng(0).standard_normal((4, 2))
    assert np.isfinite(tune(SVC(), X, y).tuning_.loss)


def test_constant_features_and_contradictory_rows():
    X = np.column_stack([np.repeat([0.0, 1.0], 10), np.ones(20)])
    y = np.r_[np.zeros(9), np.ones(11)]
    model = tune(SVC(), X, y, ("C", "ard"))
    assert np.isfinite(model.gamma).all()
    assert model.score(X, y) == 0.95


BAD = [
    (SVC(), {"params": ()}, "params must be"),
    (SVC(), {"params": "C"}, "params must be"),
    (SVC(), {"params": ("C", "nu")}, "params must be"),
    (SVC(), {"params": ("gamma", "ard")}, "params must be without either"),
    (SVC(), {"prior": -1.0}, "prior must be"),
    (SVC(), {"max_iter": 0}, "max_iter must be"),
    (SVC(), {"starts": [{"nu": 1.0}]}, "starts must be"),
    (SVC(), {"starts": []}, "starts must be"),
    (SVC(), {"starts": [{"gamma": -1.0}]}, "positive gamma"),
    (SVC(), {"params": ("C",), "starts": [{"gamma": 1.0}]}, "not tuned"),
    (SVC(kernel="linear"), {}, r"params=\(\"C\",\)"),
    (SVC(kernel="precomputed"), {}, r"params=\(\"C\",\)"),
    (SVC(kernel="sigmoid"), {}, r"params=\(\"C\",\)"),
    (SVC(kernel="poly", degree=2.5), {}, "degree must be a whole number"),
    (SVC(kernel="poly"), {"params": ("ard",)}, "kernel must be"),
    (SVC(C=-1), {}, "C must be"),
    (LinearSVC(), {}, r"params must be \(\"C\",\) for LinearSVC"),
    (NuSVC(), {}, "got NuSVC"),
    (SVR(), {}, "got SVR"),
    (make_pipeline(StandardScaler(), SVR()), {}, "got SVR"),
]


@pytest.mark.parametrize(("model", "arguments", "message"), BAD, ids=lambda value: str(value)[:40])
def test_what_cannot_be_tuned_says_what_can(model, arguments, message):
    X, y = noisy_plane(20)
    with pytest.raises(ValueError, match=message):
        tune(model, X, y, **arguments)


def test_indefinite_kernel_matrices_are_refused():
    X, y = noisy_plane(20)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        tune(SVC(kernel="precomputed"), -rbf(X, 0.5), y, ("C",))


def test_wide_sparse_rows_refuse_one_gamma_a_feature():
    X = sp.random(30, 700_000, density=1e-5, format="csr", random_state=0)
    with pytest.raises(ValueError, match="fewer features"):
        tune(SVC(), X, np.arange(30) % 2, ("C", "ard"))
