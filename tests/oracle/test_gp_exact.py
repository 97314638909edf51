"""Probabilities and evidence of Gaussian processes against exact computation and sampling."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from tests.helpers.byhand import gram
from widemargin import MeanFieldGPClassifier

NOISE = 0.5


def _rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1, 0), rng


def _covariance(X):
    """Covariance of the latent function with its constant mean."""
    return gram(X, X, gamma=0.4) + 1.0


def _orthant(covariance, label):
    """Probability that a Gaussian has these signs."""
    signs = np.outer(label, label) * covariance
    law = multivariate_normal(np.zeros(len(label)), signs, seed=0, abseps=1e-7, maxpts=400_000)
    return float(law.cdf(np.zeros(len(label))))


@pytest.mark.parametrize("inference", ["tap", "ep"])
@pytest.mark.parametrize(("n", "seed"), [(4, 0), (6, 1), (8, 2), (8, 3)])
def test_evidence_and_probabilities_are_near_orthant_probabilities(n, seed, inference) -> None:
    X, y, rng = _rows(n, seed)
    y[:2] = 0, 1
    new = rng.normal(size=(3, 2))
    label = 2.0 * y - 1
    model = MeanFieldGPClassifier(gamma=0.4, input_noise=NOISE, inference=inference).fit(X, y)
    evidence = _orthant(_covariance(X) + NOISE * np.eye(n), label)
    assert model.log_evidence_ == pytest.approx(np.log(evidence), abs=0.01)
    for row, P in zip(new, model.predict_proba(new)[:, 1], strict=True):
        K = _covariance(np.vstack([X, row])) + NOISE * np.eye(n + 1)
        assert pytest.approx(_orthant(K, np.append(label, 1.0)) / evidence, abs=0.005) == P


def test_the_orthant_probabilities_are_those_of_an_enumeration() -> None:
    """Of all labels of five samples: they sum to 1, and so nearly do the evidences of TAP."""
    X, _, _ = _rows(5, 4)
    K = _covariance(X) + NOISE * np.eye(5)
    exact, ours = [], []
    for y in itertools.product([0, 1], repeat=5):
        exact.append(_orthant(K, 2.0 * np.array(y) - 1))
        if len(set(y)) == 2:
            model = MeanFieldGPClassifier(gamma=0.4, input_noise=NOISE, inference="tap").fit(X, y)
            ours.append(np.exp(model.log_evidence_))
    assert sum(exact) == pytest.approx(1.0, abs=1e-5)
    assert sum(ours) == pytest.approx(1.0 - exact[0] - exact[-1], abs=0.01)


def _slice_sample(root, label, draws, rng):
    """Draw latent values by elliptical slice sampling (Murray, Adams and MacKay, 2010)."""

    def log_likelihood(f):
        return norm.logcdf(label * f / np.sqrt(NOISE)).sum()

    f, kept = np.zeros(len(label)), []
    for _ in range(draws):
        other = root @ rng.standard_normal(len(label))
        level = log_likelihood(f) + np.log(rng.random())
        angle = rng.uniform(0, 2 * np.pi)
        low, high = angle - 2 * np.pi, angle
        while log_likelihood(moved := f * np.cos(angle) + other * np.sin(angle)) < level:
            low, high = (angle, high) if angle < 0 else (low, angle)
            angle = rng.uniform(low, high)
        f = moved
        kept.append(f)
    return np.array(kept)


@pytest.mark.slow
def test_sixty_samples_have_the_posterior_that_slice_sampling_finds() -> None:
    X, y, rng = _rows(60, 5)
    K = _covariance(X)
    root = np.linalg.cholesky(K + 1e-9 * np.eye(60))
    drawn = _slice_sample(root, 2.0 * y - 1, 80_000, rng)[4_000:]
    model = MeanFieldGPClassifier(gamma=0.4, input_noise=NOISE, inference="tap").fit(X, y)
    mean, variance = model.predict_latent(X)
    np.testing.assert_allclose(mean, drawn.mean(axis=0), atol=0.06)
    np.testing.assert_allclose(np.sqrt(variance), drawn.std(axis=0), atol=0.04)
    P = norm.cdf(drawn / np.sqrt(NOISE)).mean(axis=0)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], P, atol=0.012)
    naive = MeanFieldGPClassifier(gamma=0.4, input_noise=NOISE).fit(X, y)
    assert np.abs(naive.predict_proba(X)[:, 1] - P).max() < 0.15
