"""Gradient tuning of Gaussian processes: what it finds, what it records, what it refuses."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.helpers.byhand import gram
from tests.helpers.mean_field import solved
from widemargin import MeanFieldGPClassifier
from widemargin.problems.mean_field import naive
from widemargin.solvers.mean_field import factorise, fit_scale, leave_out, scale_cost
from widemargin.tuning import gradient, latent_landscape
from widemargin.tuning.gradient import tune
from widemargin.tuning.landscape import SMALLEST_NATS
from widemargin.tuning.latent_landscape import LatentTask

ALL = ("gamma", "input_noise", "flip_noise")


def moons(n=100, seed=0):
    return make_moons(n, noise=0.25, random_state=seed)


def quadrants(n=150, extra=4, seed=0):
    """Return rows labelled by the signs of their first two inputs; the others are noise."""
    X = np.random.default_rng(seed).standard_normal((n, 2 + extra))
    return X, X[:, 0] * X[:, 1] > 0


# -- what is found ----------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["loo", "evidence"])
@pytest.mark.parametrize("inference", ["naive", "tap"])
def test_tuning_beats_bad_parameters_and_leaves_its_argument_alone(inference, criterion):
    X, y = moons(300)
    before = MeanFieldGPClassifier(inference=inference, gamma=1e-3, input_noise=30.0)
    untouched = clone(before)
    model = tune(before, X[:100], y[:100], criterion=criterion)
    assert before.get_params() == untouched.get_params()
    assert not hasattr(before, "classes_")
    assert model.input_noise == model.tuning_.params["input_noise"]
    assert model.gamma == model.gamma_ == model.tuning_.params["gamma"]
    bad = before.fit(X[:100], y[:100])
    held_out = [log_loss(y[100:], m.predict_proba(X[100:])) for m in (model, bad)]
    assert held_out[0] < held_out[1] - 0.05
    assert model.score(X[100:], y[100:]) > 0.9


@pytest.mark.parametrize(
    ("inference", "calibrate"), [("naive", False), ("tap", False), ("tap", True)]
)
def test_the_loss_is_that_of_the_left_out_probabilities(inference, calibrate):
    X, y = moons()
    weight = 1.0 + np.arange(100) % 3
    model = MeanFieldGPClassifier(inference=inference, calibrate=calibrate)
    model = tune(model, X, y, ALL, sample_weight=weight)
    expected = log_loss(y, model.loo_proba_, sample_weight=weight)
    expected += scale_cost(model.readings_[0].scale) / weight.sum()
    assert model.tuning_.loss == pytest.approx(expected, rel=1e-5)


def test_the_naive_theory_is_scaled_with_its_posterior_variance():
    """The machine itself may choose the prior's afterwards."""
    X, y = moons()
    model = tune(MeanFieldGPClassifier(mean_variance=0.0), X, y)
    K, label = gram(X, X, gamma=model.gamma), 2.0 * y - 1
    problem = naive(label, np.ones(100), np.ones(100), model.input_noise)
    result = solved(problem, K)
    left = leave_out(result, factorise(K, result.precision()), K)
    t = label * left.mean / np.sqrt(left.variance + model.input_noise)
    s = fit_scale(t, np.ones(100), problem.likelihood)
    assert model.tuning_.loss == pytest.approx(
        -norm.logcdf(s * t).mean() + scale_cost(s) / 100, rel=1e-5
    )


def test_little_noise_is_not_chosen_for_left_out_errors_that_look_small():
    """With the prior's variance, the loss of this noisy problem falls all the way to no noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (150, 2))
    y = (X[:, 0] > 0) ^ (rng.random(150) < 0.15)
    model = tune(MeanFieldGPClassifier(), X, y)
    assert model.input_noise > 0.1
    X_test = rng.uniform(-2, 2, (500, 2))
    assert np.mean(model.predict(X_test) == (X_test[:, 0] > 0)) > 0.9


@pytest.mark.parametrize("inference", ["naive", "tap", "ep"])
def test_the_evidence_is_that_of_the_machine_and_its_greatest(inference):
    X, y = moons(60)
    model = tune(MeanFieldGPClassifier(inference=inference), X, y, prior=0, criterion="evidence")
    assert model.tuning_.loss == pytest.approx(-model.log_evidence_ / 60, rel=1e-7)
    for name in ("gamma", "input_noise"):
        for factor in (0.5, 2.0):
            other = clone(model).set_params(**{name: factor * getattr(model, name)})
            assert other.fit(X, y).log_evidence_ < model.log_evidence_ + SMALLEST_NATS


def test_expectation_propagation_is_tuned_as_tap():
    X, y = moons(60)
    tap, ep = (tune(MeanFieldGPClassifier(inference=i), X, y).tuning_ for i in ("tap", "ep"))
    assert tap.params == ep.params


@pytest.mark.parametrize(("criterion", "inference"), [("loo", "naive"), ("evidence", "tap")])
def test_one_gamma_a_feature_finds_the_real_inputs(criterion, inference):
    X, y = quadrants()
    gp = MeanFieldGPClassifier(inference=inference)
    model = tune(gp, X, y, ("ard", "input_noise"), criterion=criterion)
    assert model.gamma.shape == (6,)
    assert model.gamma[:2].min() > 5 * model.gamma[2:].max()
    X_test, y_test = quadrants(500, seed=1)
    one = tune(gp, X, y, criterion=criterion)
    assert model.score(X_test, y_test) > one.score(X_test, y_test) + 0.03


def test_the_prior_holds_scales_together_that_the_data_do_not_tell_apart():
    X = np.random.default_rng(0).standard_normal((150, 6))
    y = np.sum(X**2, axis=1) > 5.3
    gp, options = MeanFieldGPClassifier(mean_variance=0.0), {"criterion": "evidence"}
    spread = [np.ptp(np.log(tune(gp, X, y, ("ard",), p, **options).gamma)) for p in (0, None, 10)]
    assert spread[2] < 0.3 < spread[1] < 0.75 * spread[0]


def test_the_prior_does_not_outweigh_the_evidence_of_two_features():
    """The natural scales of moons are 1 to 3 in gamma, the evidence is for 3 to 1."""
    X, y = make_moons(200, noise=0.3, random_state=0)
    gp, options = MeanFieldGPClassifier(inference="tap"), {"criterion": "evidence"}
    free, held = (tune(gp, X, y, ("ard", "input_noise"), p, **options) for p in (0, None))
    assert free.log_evidence_ - 0.5 < held.log_evidence_ <= free.log_evidence_ + SMALLEST_NATS
    assert held.gamma[0] > 1.5 * held.gamma[1]


# -- what is not made worse -------------------------------------------------------------------


def spheres(n, seed, d=20):
    """Return samples of two spheres around almost the same centre."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, d)) * np.where(y == 0, 2.0, 1.0)[:, None] + d**-0.5 * y[:, None]
    return X / X.std(axis=0), y


@pytest.mark.parametrize("mean", [0.0, "auto"])
@pytest.mark.parametrize("criterion", ["loo", "evidence"])
@pytest.mark.parametrize("inference", ["naive", "tap"])
def test_tuning_is_never_worse_than_the_start(inference, criterion, mean):
    """With mean 0 the log-loss of spheres prefers kernels that predict one class only."""
    X, y = spheres(150, 10)
    start = MeanFieldGPClassifier(inference=inference, mean_variance=mean)
    tuned = tune(start, X, y, criterion=criterion)
    start.fit(X, y)
    if criterion == "loo":
        assert tuned.loo_error_ <= start.loo_error_
    else:
        assert tuned.log_evidence_ >= start.log_evidence_


def test_given_parameters_that_are_better_are_kept_with_a_message(monkeypatch):
    X, y = moons()
    good = tune(MeanFieldGPClassifier(), X, y)
    start = MeanFieldGPClassifier(gamma=good.gamma, input_noise=good.input_noise)
    monkeypatch.setattr(gradient, "descend", lambda landscape, x, **_: (x, *landscape(x)[:1], ""))
    model = tune(start, X, y, starts=[{"gamma": 1e-3, "input_noise": 100.0}])
    assert "the parameters are as given: leave-one-out error" in model.tuning_.message
    expected = {"gamma": good.gamma, "input_noise": good.input_noise}
    assert model.tuning_.params == pytest.approx(expected)
    assert model.gamma == pytest.approx(good.gamma)
    assert model.tuning_.loss == pytest.approx(good.tuning_.loss, rel=1e-6)
    assert model.loo_error_ == good.loo_error_


@pytest.mark.parametrize("criterion", ["loo", "evidence"])
def test_the_variance_of_the_mean_is_tuned(criterion):
    X, y = spheres(150, 10)
    names = ("gamma", "input_noise", "mean_variance")
    model = tune(MeanFieldGPClassifier(), X, y, names, criterion=criterion)
    assert set(model.tuning_.params) == set(names)
    assert model.mean_variance == model.mean_variance_ == model.tuning_.params["mean_variance"]
    assert model.mean_variance_ > 0.1


@pytest.mark.parametrize("inference", ["naive", "tap"])
def test_flipped_labels_are_found_by_the_evidence(inference):
    """A wide margin, every eighth label wrong: noise near the boundary cannot explain that."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (160, 2))
    X[:, 0] += np.sign(X[:, 0])
    clean = X[:, 0] > 0
    flipped = clean ^ (np.arange(160) % 8 == 0)
    gp = MeanFieldGPClassifier(inference=inference, mean_variance=0.0)
    found = [tune(gp, X, y, ALL, criterion="evidence").flip_noise for y in (clean, flipped)]
    assert found[0] == 0.0
    assert 0.08 < found[1] < 0.2


# -- invariances ------------------------------------------------------------------------------


def test_same_seed_same_bits():
    X, y = moons()
    gp = MeanFieldGPClassifier()
    first, second = (tune(gp, X, y, ("ard", "input_noise"), random_state=3) for _ in range(2))
    assert first.input_noise == second.input_noise
    np.testing.assert_array_equal(first.gamma, second.gamma)


@pytest.mark.parametrize("criterion", ["loo", "evidence"])
@pytest.mark.parametrize("inference", ["naive", "tap"])
def test_weights_mean_repetition_and_order_does_not_matter(inference, criterion):
    X, y = moons(50)
    times = 1 + np.arange(50) % 2
    gp = MeanFieldGPClassifier(inference=inference)
    weighted = tune(gp, X, y, criterion=criterion, sample_weight=times)
    order = np.random.default_rng(0).permutation(times.sum())
    X, y = np.repeat(X, times, axis=0)[order], np.repeat(y, times)[order]
    assert weighted.tuning_.params == tune(gp, X, y, criterion=criterion).tuning_.params


def test_parts_of_rows_are_weights_too():
    X, y = moons(50)
    weight = np.random.default_rng(0).uniform(0.3, 1.5, 50)
    for inference in ("naive", "tap"):
        gp = MeanFieldGPClassifier(inference=inference)
        tuning = tune(gp, X, y, sample_weight=weight, criterion="evidence").tuning_
        assert np.isfinite([entry["loss"] for entry in tuning.trace]).all()


def test_scale_of_the_features_does_not_matter():
    X, y = moons()
    small, large = (tune(MeanFieldGPClassifier(), Z, y) for Z in (X, 1024 * X))
    assert small.gamma == pytest.approx(large.gamma * 1024**2, rel=1e-2)


# -- kernels, classes, pipelines, many rows ---------------------------------------------------


@pytest.mark.parametrize(
    ("options", "params"),
    [
        ({}, ("gamma", "input_noise")),
        ({"inference": "tap"}, ("ard",)),
        ({"kernel": "poly", "degree": 2, "coef0": 1.0, "inference": "tap"}, ALL),
        ({"kernel": "linear", "mean_variance": 1.0}, ("input_noise",)),
        ({"kernel": gram}, ("input_noise", "flip_noise")),
    ],
    ids=["rbf", "tap-ard", "tap-poly", "linear-mean", "callable"],
)
@pytest.mark.parametrize("criterion", ["loo", "evidence"])
def test_several_classes_and_kernels(options, params, criterion):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    rows = np.random.default_rng(0).permutation(150)[:70]
    model = MeanFieldGPClassifier(**options)
    tuned = tune(model, X[rows], names[rows], params, criterion=criterion)
    # Without curves the middle class is not to be told from the rest.
    assert tuned.score(X, names) > (0.6 if "mean_variance" in options else 0.93)
    assert set(tuned.tuning_.params) == {"gamma" if p == "ard" else p for p in params}
    kept = {"input_noise", "flip_noise", "inference"} - set(params)
    assert all(getattr(tuned, name) == getattr(model, name) for name in kept)


def test_sparse_rows_and_kernel_matrices_give_the_same_parameters():
    X, y = moons(80)
    dense = tune(MeanFieldGPClassifier(), X, y).tuning_.params
    sparse = tune(MeanFieldGPClassifier(), sp.csr_matrix(X), y).tuning_.params
    assert sparse == pytest.approx(dense, rel=1e-3)
    names = ("input_noise", "flip_noise")
    fixed = tune(MeanFieldGPClassifier(gamma=0.5), X, y, names).tuning_.params
    K = gram(X, X, gamma=0.5)
    given = tune(MeanFieldGPClassifier(kernel="precomputed"), K, y, names).tuning_.params
    assert given == pytest.approx(fixed, rel=1e-3)


def test_pipelines_are_tuned_at_their_last_step():
    X, y = moons()
    X = X * [1000.0, 1.0]
    pipeline = make_pipeline(StandardScaler(), MeanFieldGPClassifier())
    tuned = tune(pipeline, X, y, criterion="evidence")
    assert tuned.tuning_ is tuned[-1].tuning_
    direct = tune(pipeline[-1], StandardScaler().fit_transform(X), y, criterion="evidence")
    assert tuned[-1].tuning_.params == direct.tuning_.params


def test_many_rows_are_tuned_on_a_sample(monkeypatch):
    monkeypatch.setattr(LatentTask, "most_rows", 100)
    monkeypatch.setattr(LatentTask, "coarse_rows", 40)
    X, y = moons(300)
    model = tune(MeanFieldGPClassifier(), X, y)
    assert model.tuning_.n_rows == 100
    assert len(model.tuning_.starts) == 2
    assert len(model.alpha_) == 300


# -- the record -------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["loo", "evidence"])
def test_the_record_of_the_search(criterion):
    X, y = moons()
    tuning = tune(MeanFieldGPClassifier(), X, y, ALL, criterion=criterion).tuning_
    assert tuning.n_evaluations == len(tuning.trace) < 60
    assert {entry["stage"] for entry in tuning.trace} == {"scan", "kernel"}
    keys = {"stage", "start", "input_noise", "flip_noise", "gamma", "loss", "objective"}
    assert all(set(entry) == keys for entry in tuning.trace)
    assert tuning.trace[0]["flip_noise"] == pytest.approx(0.02)
    found = min((e for e in tuning.trace if e["stage"] == "kernel"), key=lambda e: e["objective"])
    assert tuning.loss == found["loss"]
    assert tuning.params == {name: found[name] for name in ALL}
    assert tuning.n_rows == 100


def test_given_starts_are_used():
    X, y = moons()
    starts = [{"input_noise": 0.2, "gamma": 0.5, "flip_noise": 0.0}, {"flip_noise": 0.1}]
    tuning = tune(MeanFieldGPClassifier(), X, y, ALL, starts=starts).tuning_
    first = tuning.trace[0]
    found = [first[name] for name in ("input_noise", "gamma", "flip_noise")]
    assert found == pytest.approx([0.2, 0.5, 0.0])
    assert len(tuning.starts) == 2
    second = next(entry for entry in tuning.trace if entry["start"] == 1)
    assert second["flip_noise"] == pytest.approx(0.1)
    assert second["input_noise"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("criterion", "text"), [("loo", "leave-one-out loss"), ("evidence", "minus log evidence")]
)
def test_a_bar_is_shown_when_asked_for(capsys, criterion, text):
    X, y = moons(40)
    tune(MeanFieldGPClassifier(), X, y, criterion=criterion, verbose=1)
    assert text in capsys.readouterr().out


# -- where equations are not solved -----------------------------------------------------------


def _unsolved_where(monkeypatch, bad):
    """Let the equations count as unsolved at some input noises."""
    solve = latent_landscape.mean_field.solve

    def pretending(problem, K, **options):
        result = solve(problem, K, **options)
        return dataclasses.replace(result, residual=1.0) if bad(problem.input_noise) else result

    monkeypatch.setattr(latent_landscape.mean_field, "solve", pretending)


def test_a_descent_turns_back_where_equations_are_not_solved(monkeypatch):
    X, y = moons()
    free = tune(MeanFieldGPClassifier(), X, y)
    assert free.input_noise < 0.4
    _unsolved_where(monkeypatch, lambda noise: noise < 0.4)
    tuning = tune(MeanFieldGPClassifier(), X, y).tuning_
    assert np.isinf([entry["loss"] for entry in tuning.trace]).any()
    assert tuning.params["input_noise"] >= 0.4
    assert tuning.loss < tuning.trace[0]["loss"]


def test_no_solution_anywhere_is_an_error(monkeypatch):
    X, y = moons(40)
    _unsolved_where(monkeypatch, lambda noise: True)
    with pytest.raises(ValueError, match=r"could not be solved at any point.*larger input_noise"):
        tune(MeanFieldGPClassifier(inference="tap"), X, y)


@given(
    place=st.tuples(*[st.floats(0.0, 1.0)] * 3),
    inference=st.sampled_from(["naive", "tap"]),
    criterion=st.sampled_from(["loo", "evidence"]),
    weight=st.sampled_from([None, "whole", "parts"]),
)
def test_anywhere_in_the_box_there_are_numbers_or_no_solution(
    place, inference, criterion, weight
) -> None:
    """Warnings are errors here."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 2
    weights = {None: None, "whole": 1.0 + y, "parts": rng.uniform(0.2, 2.0, 30)}[weight]
    model = MeanFieldGPClassifier(inference=inference)
    task = LatentTask(model, frozenset(ALL), X, y, weights, 1.0, criterion)
    landscape = task.landscape(np.arange(30), lambda point: None)
    low, high = np.array(landscape.bounds).T
    value, gradient = landscape(low + np.array(place) * (high - low))
    assert np.isfinite(gradient).all()
    assert np.isfinite(value) or value == np.inf


def test_a_negative_left_out_variance_counts_as_no_solution(monkeypatch):
    X, y = moons(40)

    def negative(*arguments, **options):
        raise FloatingPointError("the variance of a left-out row is negative")

    monkeypatch.setattr(latent_landscape, "left_out_loss", negative)
    with pytest.raises(ValueError, match="could not be solved at any point"):
        tune(MeanFieldGPClassifier(), X, y)


@pytest.mark.parametrize("y", [[0, 1, 0, 1], [0, 1, 1, 1]], ids=["two of each", "one alone"])
@pytest.mark.parametrize("criterion", ["loo", "evidence"])
def test_very_few_rows(y, criterion):
    X = np.random.default_rng(0).standard_normal((4, 2))
    assert np.isfinite(tune(MeanFieldGPClassifier(), X, y, ALL, criterion=criterion).tuning_.loss)


def test_constant_features_and_contradictory_rows():
    X = np.column_stack([np.repeat([0.0, 1.0], 10), np.ones(20)])
    y = np.r_[np.zeros(9), np.ones(11)]
    model = tune(MeanFieldGPClassifier(inference="tap"), X, y, ("ard", "input_noise"))
    assert np.isfinite(model.gamma).all()
    assert model.score(X, y) == 0.95
