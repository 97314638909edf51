"""Tuning of Gaussian-process regression: gradients against differences, choices, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from widemargin import GPRegressor, tune
from widemargin.problems.gp_regression import GPRegression
from widemargin.tuning.regression import RegressionTask
from widemargin.tuning.regression.loss import evidence_loss, left_out_loss

LOSSES = {"evidence": evidence_loss, "loo": left_out_loss}


def drawn(n=60, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, 3.0 + np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=n)


@pytest.mark.parametrize("mean_variance", [0.0, 2.0, np.inf])
@pytest.mark.parametrize("criterion", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_gradients_are_differences(mean_variance, criterion, seed):
    rng = np.random.default_rng(seed)
    X, y = drawn(14, 2, seed)
    weight = rng.choice([0.5, 1.0, 2.0, 3.5], size=14)
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)

    def at(x):
        a, s, gamma = np.exp(x)
        problem = GPRegression(y, weight, a, s, mean_variance)
        return LOSSES[criterion](problem, np.exp(-gamma * squares))

    x, step = np.log([1.3, 0.2, 0.7]), 1e-5
    found = at(x)
    change = -0.7 * squares * np.exp(-0.7 * squares)
    W = np.tril(found.factor) + np.tril(found.factor, -1).T
    by_gamma = found.left @ change @ found.right + (W * change).sum()
    gradient = [found.by_amplitude, found.by_noise, by_gamma]
    for place, slope in enumerate(gradient):
        moved = step * np.eye(3)[place]
        difference = (at(x + moved).loss - at(x - moved).loss) / (2.0 * step)
        assert slope == pytest.approx(difference, abs=1e-8)
    model = GPRegressor(amplitude=1.3, noise=0.2, gamma=0.7, mean_variance=mean_variance)
    model.fit(X, y, weight)
    own = -model.log_evidence_ if criterion == "evidence" else -weight @ model.loo_log_density_
    assert found.loss == pytest.approx(own / weight.sum(), rel=1e-10)


@pytest.mark.parametrize("criterion", LOSSES)
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_the_objective_and_its_gradient(criterion, kernel):
    X, y = drawn(20)
    names = {"gamma", "amplitude", "noise"}
    model = GPRegressor(kernel=kernel, degree=2, coef0=1.0 if kernel == "poly" else 0.0)
    task = RegressionTask(model, frozenset(names), X, y, None, 1.0, criterion)
    landscape = task.landscape(np.arange(20), lambda point: None)
    x = np.array([0.2, -0.4, 0.3])
    _, gradient = landscape(x)
    for place in range(3):
        moved = 1e-5 * np.eye(3)[place]
        difference = (landscape(x + moved)[0] - landscape(x - moved)[0]) / 2e-5
        assert gradient[place] == pytest.approx(difference, abs=1e-7)


@pytest.mark.parametrize("criterion", LOSSES)
@pytest.mark.parametrize("params", [None, ("ard", "amplitude", "noise"), ("noise",)])
def test_the_tuned_model_is_better_by_its_criterion(criterion, params):
    X, y = drawn(150)
    start = GPRegressor(amplitude=1.0).fit(X, y)
    model = tune(GPRegressor(amplitude=1.0), X, y, params, criterion=criterion, prior=0.0)
    if criterion == "evidence":
        assert model.log_evidence_ >= start.log_evidence_ - 0.1
    else:
        assert model.loo_log_density_.mean() >= start.loo_log_density_.mean() - 1e-3
    assert set(model.tuning_.params) == {
        "gamma" if name == "ard" else name for name in params or ("gamma", "amplitude", "noise")
    }
    if params is not None and "ard" in params:
        assert model.gamma.argmax() == 0  # the only feature that matters
        assert model.gamma[0] > 20 * model.gamma[1:].max()


def test_the_loss_of_the_trace_is_that_of_the_model():
    X, y = drawn(50)
    weight = np.arange(50) % 3
    for criterion in LOSSES:
        model = tune(GPRegressor(), X, y, criterion=criterion, sample_weight=weight)
        total = weight.sum()
        own = model.log_evidence_ if criterion == "evidence" else weight @ model.loo_log_density_
        assert model.tuning_.loss == pytest.approx(-own / total, rel=1e-6)


def test_many_samples_are_tuned_on_a_subsample(monkeypatch):
    monkeypatch.setattr(RegressionTask, "most_rows", 60)
    monkeypatch.setattr(RegressionTask, "coarse_rows", 20)
    X, y = drawn(150)
    model = tune(GPRegressor(), X, y)
    assert model.tuning_.n_rows == 60
    assert model.score(X, y) > 0.8


def test_constant_targets_do_not_fail():
    X, _ = drawn(20)
    assert np.isfinite(tune(GPRegressor(), X, np.full(20, 4.0)).predict(X)).all()


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (GPRegressor(), {"params": ("C",)}, "params must be"),
        (GPRegressor(), {"params": ("gamma", "ard")}, "params must be"),
        (GPRegressor(), {"params": ("gamma",)}, "must be a number, or among params"),
        (GPRegressor(kernel="linear"), {}, "kernel must be"),
        (GPRegressor(), {"starts": [{"input_noise": 1.0}]}, "starts must be"),
        (GPRegressor(), {"criterion": "error"}, "criterion must be"),
    ],
)
def test_invalid_requests_are_named(model, options, message):
    X, y = drawn(20)
    with pytest.raises(ValueError, match=message):
        tune(model, X, y, **options)


def test_starts_are_coordinates_of_the_user():
    X, y = drawn(40)
    starts = [{"gamma": 0.3, "amplitude": 2.0, "noise": 0.05}]
    model = tune(GPRegressor(), X, y, starts=starts, max_iter=1)
    first = model.tuning_.trace[0]
    assert first["gamma"] == pytest.approx(0.3)
    assert first["amplitude"] == pytest.approx(2.0)
    assert first["noise"] == pytest.approx(0.05)


@pytest.mark.parametrize("criterion", LOSSES)
def test_the_result_is_never_worse_than_the_start(criterion):
    """A single step from a bad start ends at parameters worse than those given."""
    X, y = drawn(80)
    given = tune(GPRegressor(), X, y, criterion=criterion)
    tuned = tune(given, X, y, criterion=criterion, starts=[{"gamma": 1e3}], max_iter=1)
    assert tuned.get_params() == given.get_params()
    assert "the parameters are as given" in tuned.tuning_.message
    assert tuned.tuning_.loss == pytest.approx(given.tuning_.loss, rel=1e-6)
