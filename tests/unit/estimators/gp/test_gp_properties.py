"""What must not change the predictions of a mean-field Gaussian process, by hypothesis."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.byhand import gram
from widemargin import MeanFieldGPClassifier

GP = MeanFieldGPClassifier
SEEDS = st.integers(0, 10_000)
THEORIES = st.sampled_from(["naive", "tap", "ep"])
FLIPS = st.sampled_from([0.0, 0.05, 0.2])
NOISES = st.sampled_from([0.03, 0.3, 3.0])


def _data(seed, n_classes=2, n=24):
    """Rounded numbers, so that equal rows with equal and with different labels occur."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 2)), 1)
    y = rng.integers(0, n_classes, n)
    y[:n_classes] = np.arange(n_classes)
    X[:, 0] += y
    X[-3:] = X[:3]
    return X, y, rng


def _agree(ours, theirs, atol):
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=atol)


@given(
    seed=SEEDS,
    inference=THEORIES,
    flips=FLIPS,
    noise=NOISES,
    unit=st.sampled_from([1e-4, 0.07, 30.0, 1e5]),
)
def test_the_unit_of_kernel_and_noise(seed, inference, flips, noise, unit) -> None:
    """(c K, c v) is the same model as (K, v); the latent function is measured in its unit."""
    X, y, _ = _data(seed)
    K = gram(X, X, gamma=0.7)
    options = {"kernel": "precomputed", "inference": inference, "flip_noise": flips}
    ours = GP(**options, input_noise=noise, mean_variance=0.5).fit(K, y)
    theirs = GP(**options, input_noise=unit * noise, mean_variance=0.5 * unit).fit(unit * K, y)
    np.testing.assert_array_equal(theirs.predict(unit * K), ours.predict(K))
    _agree(ours.predict_proba(K), theirs.predict_proba(unit * K), 1e-7)
    _agree(ours.loo_proba_, theirs.loo_proba_, 1e-7)
    assert theirs.log_evidence_ == pytest.approx(ours.log_evidence_, abs=1e-7)
    mean, variance = ours.predict_latent(K)
    other_mean, other_variance = theirs.predict_latent(unit * K)
    _agree(mean, other_mean / np.sqrt(unit), 1e-7)
    _agree(variance, other_variance / unit, 1e-7)


@given(seed=SEEDS, inference=THEORIES, flips=FLIPS, noise=NOISES)
def test_opposite_labels(seed, inference, flips, noise) -> None:
    X, y, _ = _data(seed)
    options = {"gamma": 0.7, "inference": inference, "flip_noise": flips, "input_noise": noise}
    ours, theirs = GP(**options).fit(X, y), GP(**options).fit(X, 1 - y)
    _agree(ours.alpha_, theirs.alpha_, 1e-7)
    _agree(ours.predict_latent(X)[0], -theirs.predict_latent(X)[0], 1e-7)
    _agree(ours.predict_proba(X), theirs.predict_proba(X)[:, ::-1], 1e-7)
    _agree(ours.loo_proba_, theirs.loo_proba_[:, ::-1], 1e-7)
    assert theirs.log_evidence_ == pytest.approx(ours.log_evidence_, abs=1e-7)


@given(seed=SEEDS, inference=THEORIES, flips=FLIPS, n_classes=st.sampled_from([2, 3]))
def test_the_order_of_rows(seed, inference, flips, n_classes) -> None:
    """To the last bit: rows are sorted first."""
    X, y, rng = _data(seed, n_classes)
    order = rng.permutation(len(y))
    options = {"gamma": 0.7, "inference": inference, "flip_noise": flips}
    ours, theirs = GP(**options).fit(X, y), GP(**options).fit(X[order], y[order])
    np.testing.assert_array_equal(theirs.predict_proba(X), ours.predict_proba(X))
    np.testing.assert_array_equal(theirs.loo_proba_, ours.loo_proba_[order])
    np.testing.assert_array_equal(theirs.alpha_, ours.alpha_[..., order])
    np.testing.assert_array_equal(theirs.log_evidence_, ours.log_evidence_)


@given(seed=SEEDS, inference=THEORIES, flips=FLIPS, n_classes=st.sampled_from([2, 3]))
def test_the_order_of_rows_of_a_kernel_matrix(seed, inference, flips, n_classes) -> None:
    """Those are not sorted, so the sums differ by rounding."""
    X, y, rng = _data(seed, n_classes)
    order = rng.permutation(len(y))
    K = gram(X, X, gamma=0.7)
    options = {"kernel": "precomputed", "inference": inference, "flip_noise": flips}
    ours = GP(**options).fit(K, y)
    theirs = GP(**options).fit(K[np.ix_(order, order)], y[order])
    _agree(ours.predict_proba(K), theirs.predict_proba(K[:, order]), 1e-7)
    _agree(ours.loo_proba_[order], theirs.loo_proba_, 1e-7)


@given(seed=SEEDS, inference=THEORIES, flips=FLIPS, n_classes=st.sampled_from([2, 3]))
def test_repetition_is_weight(seed, inference, flips, n_classes) -> None:
    """Of a kernel matrix too, whose equal rows nobody merges."""
    X, y, rng = _data(seed, n_classes)
    weight = rng.integers(0, 4, len(y))
    weight[:n_classes] = 1  # of each class there is one at least
    rows = np.repeat(np.arange(len(y)), weight)
    options = {"inference": inference, "flip_noise": flips}
    weighted = GP(gamma=0.7, **options).fit(X, y, sample_weight=weight)
    repeated = GP(gamma=0.7, **options).fit(X[rows], y[rows])
    np.testing.assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))
    np.testing.assert_array_equal(weighted.loo_proba_[rows], repeated.loo_proba_)
    K = gram(X, X, gamma=0.7)
    spread = GP(kernel="precomputed", **options).fit(K[np.ix_(rows, rows)], y[rows])
    _agree(weighted.predict_proba(X), spread.predict_proba(K[:, rows]), 1e-7)
    _agree(weighted.loo_proba_[rows], spread.loo_proba_, 1e-7)
    _agree(weighted.log_evidence_, spread.log_evidence_, 1e-7)
