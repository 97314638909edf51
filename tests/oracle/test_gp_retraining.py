"""Mean-field leave-one-out against retraining, evidence against counting, and the peers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import root
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from tests.helpers.byhand import gram
from widemargin import MeanFieldGPClassifier


def _data(seed, n=70, wrong=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = (np.sin(2 * X[:, 0]) + X[:, 1] + 0.4 * rng.normal(size=n) > 0).astype(int)
    flipped = rng.random(n) < wrong
    return X, np.where(flipped, 1 - y, y)


def _retrained(model, X, y):
    """Latent mean and variance of each row by a fit without it."""
    found = []
    options = model.get_params() | {"gamma": model.gamma_, "calibrate": False}
    for row in range(len(y)):
        others = np.arange(len(y)) != row
        left = MeanFieldGPClassifier(**options).fit(X[others], y[others])
        found.append([value[0] for value in left.predict_latent(X[[row]])])
    return np.array(found).T


@pytest.mark.parametrize("inference", ["naive", "tap"])
@pytest.mark.parametrize("noise", [0.1, 1.3])
def test_left_out_fields_are_near_those_of_retraining(inference, noise) -> None:
    X, y = _data(0)
    model = MeanFieldGPClassifier(
        inference=inference, input_noise=noise, gamma=0.3, calibrate=False
    ).fit(X, y)
    mean, variance = _retrained(model, X, y)
    ours = model.loo_decision_values()
    theirs = mean / np.sqrt(variance + noise)
    fitted = model.decision_function(X)
    assert np.abs(ours - theirs).max() <= 0.25 * np.abs(fitted - theirs).max()
    assert np.count_nonzero((ours > 0) != (theirs > 0)) <= 1
    assert model.loo_error_ == pytest.approx(np.mean((theirs > 0) != y), abs=1.01 / len(y))


@pytest.mark.parametrize("flip_noise", [0.0, 0.1])
@pytest.mark.parametrize("noise", [0.03, 0.3, 1.3])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_naive_error_count_is_that_of_retraining(seed, noise, flip_noise) -> None:
    """With 8 % of the labels wrong; Opper and Winther (2000), section 8.7, saw at most one off."""
    X, y = _data(seed, wrong=0.08)
    model = MeanFieldGPClassifier(input_noise=noise, flip_noise=flip_noise, gamma=0.3).fit(X, y)
    mean, _ = _retrained(model, X, y)
    count = np.count_nonzero((mean > 0) != y)
    assert abs(round(model.loo_error_ * len(y)) - count) <= 1


@pytest.mark.parametrize("flip_noise", [0.0, 0.1])
@pytest.mark.parametrize("noise", [0.1, 1.3])
def test_on_iris_the_error_count_equals_that_of_retraining(noise, flip_noise) -> None:
    """Versicolor and virginica, 8 % of the labels wrong: not one row more or less."""
    X, y = load_iris(return_X_y=True)
    X, y = StandardScaler().fit_transform(X[50:]), y[50:] - 1
    wrong = np.random.default_rng(0).random(100) < 0.08
    y = np.where(wrong, 1 - y, y)
    model = MeanFieldGPClassifier(input_noise=noise, flip_noise=flip_noise, gamma=0.25).fit(X, y)
    mean, _ = _retrained(model, X, y)
    assert round(100 * model.loo_error_) == np.count_nonzero((mean > 0) != y)


def test_leaving_one_copy_out_is_retraining_with_a_smaller_weight() -> None:
    X, y = _data(3, n=40)
    weight = np.full(40, 1.0)
    weight[:10] = 3.0
    weight[10:20] = 0.4
    options = {"gamma": 0.3, "calibrate": False, "inference": "tap"}
    model = MeanFieldGPClassifier(**options).fit(X, y, sample_weight=weight)
    ours, fitted = model.loo_decision_values(), model.decision_function(X)
    theirs = np.empty(40)
    for row in range(40):
        less = weight.copy()
        less[row] -= min(1.0, less[row])
        left = MeanFieldGPClassifier(**options).fit(X, y, sample_weight=less)
        theirs[row] = left.decision_function(X[[row]])[0]
    for part in (slice(0, 10), slice(10, 20), slice(20, 40)):
        missed = np.abs(ours[part] - theirs[part]).max()
        assert missed <= 0.25 * np.abs(fitted[part] - theirs[part]).max()


@pytest.mark.parametrize("flip_noise", [0.0, 0.1])
def test_the_solution_is_that_of_a_general_root_finder(flip_noise) -> None:
    X, y = _data(4, n=25)
    sign = np.where(y == 1, 1.0, -1.0)
    K = gram(X, X, gamma=0.3) + 0.2 * np.eye(25)
    k = np.diagonal(K)

    def missing(alpha):
        z = sign * (K @ (sign * alpha) - k * sign * alpha) / np.sqrt(k)
        likely = flip_noise + (1 - 2 * flip_noise) * norm.cdf(z)
        return (1 - 2 * flip_noise) * norm.pdf(z) / likely / np.sqrt(k) - alpha

    reference = root(missing, np.full(25, 0.5), method="hybr", tol=1e-13)
    assert reference.success
    model = MeanFieldGPClassifier(
        gamma=0.3, input_noise=0.2, flip_noise=flip_noise, mean_variance=0.0
    ).fit(X, y)
    np.testing.assert_allclose(model.alpha_, reference.x, atol=1e-9)


@pytest.mark.parametrize("inference", ["naive", "tap"])
def test_evidence_of_few_rows_is_near_the_count_of_prior_samples(inference) -> None:
    X, y = _data(5, n=4)
    K = gram(X, X, gamma=0.3) + 1.0
    rng = np.random.default_rng(0)
    latent = rng.multivariate_normal(np.zeros(4), K + 0.5 * np.eye(4), size=1_000_000)
    exact = np.log(np.mean(((latent > 0) == (y == 1)).all(axis=1)))
    model = MeanFieldGPClassifier(gamma=0.3, input_noise=0.5, inference=inference).fit(X, y)
    assert model.log_evidence_ == pytest.approx(exact, abs=0.01 if inference == "tap" else 0.3)


def test_probabilities_are_as_good_as_those_of_laplace() -> None:
    """The same prior in scikit-learn's Laplace approximation, with its logistic likelihood."""
    X, y = make_moons(300, noise=0.3, random_state=0)
    new, truth = make_moons(2_000, noise=0.3, random_state=1)
    prior = ConstantKernel(1.7**2 / 0.1) * RBF(np.sqrt(0.5))
    laplace = GaussianProcessClassifier(prior, optimizer=None).fit(X, y)
    limit = log_loss(truth, laplace.predict_proba(new)) + 0.003
    for inference in ("naive", "tap", "ep"):
        model = MeanFieldGPClassifier(gamma=1.0, input_noise=0.1, inference=inference).fit(X, y)
        assert log_loss(truth, model.predict_proba(new)) <= limit


@pytest.mark.slow
def test_breast_cancer_left_out_errors_equal_those_of_retraining_the_doubtful_rows() -> None:
    """Rows whose left-out field is far from 0 are not retrained: 569 fits would take long."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = MeanFieldGPClassifier(gamma=1 / 60, input_noise=0.3, calibrate=False).fit(X, y)
    values = model.loo_decision_values()
    doubtful = np.argsort(np.abs(values))[:40]
    theirs = np.empty(len(doubtful))
    for place, row in enumerate(doubtful):
        others = np.arange(len(y)) != row
        left = MeanFieldGPClassifier(gamma=1 / 60, input_noise=0.3, calibrate=False)
        theirs[place] = left.fit(X[others], y[others]).decision_function(X[[row]])[0]
    assert np.abs(theirs - values[doubtful]).max() < 0.1
    assert np.count_nonzero((theirs > 0) != (values[doubtful] > 0)) <= 1
