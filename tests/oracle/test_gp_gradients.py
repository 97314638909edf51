"""Gradients of the Gaussian process's losses against differences of losses found by full solves."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.byhand import gram
from tests.helpers.mean_field import solved
from widemargin import MeanFieldGPClassifier
from widemargin.problems.mean_field import Likelihood, naive
from widemargin.tuning.latent_landscape import LatentTask
from widemargin.tuning.latent_loss import evidence_loss, left_out_loss
from widemargin.tuning.latent_response import flip_slopes

STEP = 1e-3
NAMES = ("gamma", "input_noise", "flip_noise")


def rows(n=30, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    field = X[:, 0] + 0.6 * rng.normal(size=n)
    return X, np.digitize(field, [0.0] if classes == 2 else [-0.5, 0.5])


def weights(kind, n=30):
    rng = np.random.default_rng(5)
    whole = rng.integers(1, 4, n).astype(float)
    return {"none": None, "whole": whole, "parts": rng.uniform(0.5, 2.0, n)}[kind]


def landscape_of(model, names, X, y, weight=None, criterion="loo", prior=1.0):
    """Return the landscape of a request with its equations solved as far as they can be."""
    task = LatentTask(model, frozenset(names), X, y, weight, prior, criterion)
    landscape = task.landscape(np.arange(len(task.codes)), lambda point: None)
    landscape.tol = 1e-12
    return landscape


def differences(function, x):
    """Return central differences of two steps, extrapolated: the error is of fourth order."""
    found = []
    for unit in np.eye(len(x)):
        wide, narrow = (
            (function(x + h * unit) - function(x - h * unit)) / (2 * h) for h in (STEP, STEP / 2)
        )
        found.append((4 * narrow - wide) / 3)
    return np.array(found)


def assert_gradient(landscape, x):
    _, analytic = landscape(x)
    numeric = differences(lambda at: landscape(at)[0], x)
    assert np.abs(numeric).max() > 1e-4
    np.testing.assert_allclose(analytic, numeric, rtol=1e-6, atol=1e-6 * np.abs(numeric).max())


# -- every combination of theory, loss, parameters, weights and classes -----------------------


@pytest.mark.parametrize("weighted", ["none", "whole", "parts"])
@pytest.mark.parametrize("criterion", ["loo", "evidence"])
@pytest.mark.parametrize("inference", ["naive", "tap", "ep"])
@pytest.mark.parametrize("flips", [False, True])
def test_one_gamma_and_noise(inference, criterion, weighted, flips):
    names = NAMES if flips else NAMES[:2]
    model = MeanFieldGPClassifier(inference=inference)
    landscape = landscape_of(model, names, *rows(), weights(weighted), criterion)
    assert_gradient(landscape, np.array([-0.7, 1.3, 0.4] if flips else [-0.7, 0.4]))


@pytest.mark.parametrize("weighted", ["none", "whole"])
@pytest.mark.parametrize("criterion", ["loo", "evidence"])
@pytest.mark.parametrize("inference", ["naive", "tap"])
def test_one_gamma_a_feature_and_three_classes(inference, criterion, weighted):
    model = MeanFieldGPClassifier(inference=inference)
    data = (*rows(classes=3), weights(weighted))
    landscape = landscape_of(model, ("ard", "input_noise", "flip_noise"), *data, criterion)
    assert_gradient(landscape, np.array([-0.5, 1.0, 0.3, 0.5, -0.2, -0.6]))


@pytest.mark.parametrize("criterion", ["loo", "evidence"])
@pytest.mark.parametrize("inference", ["naive", "tap"])
@pytest.mark.parametrize("change", [{"calibrate": False}, {"mean_variance": 0.7}], ids=str)
def test_other_settings_of_the_machine(inference, criterion, change):
    model = MeanFieldGPClassifier(inference=inference, **change)
    landscape = landscape_of(model, NAMES, *rows(), weights("whole"), criterion)
    assert_gradient(landscape, np.array([-1.0, 1.1, 0.2]))


@pytest.mark.parametrize("criterion", ["loo", "evidence"])
@pytest.mark.parametrize("inference", ["naive", "tap"])
def test_the_variance_of_the_mean(inference, criterion):
    model = MeanFieldGPClassifier(kernel="poly", degree=2, coef0=1.0, inference=inference)
    names = ("gamma", "input_noise", "mean_variance")
    landscape = landscape_of(model, names, *rows(), weights("whole"), criterion)
    assert_gradient(landscape, np.array([-0.5, 0.6, -0.3]))


@pytest.mark.parametrize("criterion", ["loo", "evidence"])
@pytest.mark.parametrize("inference", ["naive", "tap"])
def test_a_kernel_whose_diagonal_changes(inference, criterion):
    """It is the cavity variances of the naive theory and determines the variance of the mean."""
    model = MeanFieldGPClassifier(kernel="poly", degree=2, coef0=1.0, inference=inference)
    landscape = landscape_of(model, NAMES, *rows(), weights("whole"), criterion)
    assert_gradient(landscape, np.array([-0.5, 0.8, -0.3]))


@pytest.mark.parametrize("criterion", ["loo", "evidence"])
@pytest.mark.parametrize("inference", ["naive", "tap"])
def test_little_noise(inference, criterion):
    model = MeanFieldGPClassifier(inference=inference)
    landscape = landscape_of(model, NAMES[:2], *rows(), None, criterion)
    assert_gradient(landscape, np.array([-7.0, 0.4]))


@pytest.mark.parametrize("criterion", ["loo", "evidence"])
@pytest.mark.parametrize("inference", ["naive", "tap"])
def test_the_end_at_no_flips_has_the_slope_from_the_right(inference, criterion):
    model = MeanFieldGPClassifier(inference=inference)
    landscape = landscape_of(model, ("flip_noise",), *rows(), None, criterion)
    values = [landscape(np.array([k * 1e-4]))[0] for k in range(4)]
    numeric = (-11 * values[0] + 18 * values[1] - 9 * values[2] + 2 * values[3]) / 6e-4
    assert landscape(np.zeros(1))[1][0] == pytest.approx(numeric, rel=1e-6)


# -- the derivative with respect to a whole kernel matrix --------------------------------------


@pytest.mark.parametrize("loss", [evidence_loss, left_out_loss])
@pytest.mark.parametrize("inference", ["naive", "tap"])
@pytest.mark.parametrize("flips", [0.0, 0.1])
def test_any_change_of_the_kernel_matrix(loss, inference, flips):
    """Directions that no kernel path takes, the diagonal among them."""
    X, y = rows()
    rng = np.random.default_rng(2)
    root = 1 + 0.3 * rng.random(30)
    K = gram(X, X, gamma=0.5) * np.outer(root, root)
    direction = K * rng.normal(size=K.shape)
    direction = 0.1 * (direction + direction.T)
    options = {"self_consistent": inference == "tap"}
    if loss is left_out_loss:
        options["calibrate"] = True

    def at(t):
        moved = K + t[0] * direction
        problem = naive(2.0 * y - 1, weights("whole"), np.diagonal(moved).copy(), 0.3, flips)
        result = solved(problem, moved, inference=inference, method="newton", tol=1e-12)
        return loss(moved, result, **options)

    found = at(np.zeros(1))
    whole = found.factor + np.tril(found.factor, -1).T
    analytic = found.left @ direction @ found.right + np.sum(whole * direction)
    numeric = differences(lambda t: at(t).loss, np.zeros(1))[0]
    assert analytic == pytest.approx(numeric, rel=1e-6)


@pytest.mark.parametrize("flips", [0.02, 0.3])
def test_slopes_of_the_likelihood_in_the_flip_noise(flips):
    z, step = np.linspace(-6, 6, 25), 1e-5
    left, right = Likelihood(flips - step), Likelihood(flips + step)
    by_log, by_strength = flip_slopes(Likelihood(flips), z)
    numeric = (right.log_probability(z) - left.log_probability(z)) / (2 * step)
    np.testing.assert_allclose(by_log, numeric, rtol=1e-6)
    numeric = (right.strength(z) - left.strength(z)) / (2 * step)
    np.testing.assert_allclose(by_strength, numeric, rtol=1e-6, atol=1e-12)
