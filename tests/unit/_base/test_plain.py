"""Arrays that skip scikit-learn's validation are those that it would return as they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.validation import validate_data

from widemargin import SVC, SVR
from widemargin._base.plain import is_plain, is_plain_target


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_plain_arrays_are_returned_as_they_are(dtype):
    X = np.arange(12.0, dtype=dtype).reshape(4, 3)
    assert is_plain(X)
    assert validate_data(SVC(), X, dtype=(np.float64, np.float32), order="C") is X


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((0, 3)), np.zeros((3, 0)), np.zeros(3), np.asfortranarray(np.eye(3)),
        np.eye(3, dtype=int), np.array([[np.nan]]), np.array([[np.inf]]), [[1.0]],
        np.ma.masked_array(np.eye(2)), np.array([[np.inf, -np.inf]]), pd.DataFrame(np.eye(2)),
        np.array([["a"]], dtype=object), np.eye(2, dtype=complex),
    ],
    ids=lambda X: f"{type(X).__name__} {getattr(X, 'dtype', '')} {getattr(X, 'shape', '')}",
)  # fmt: skip
def test_others_are_validated(X):
    assert not is_plain(X)


def test_targets():
    labels = np.array([0, 1, 0, 1])
    assert is_plain_target(labels, 4, real=False)
    assert not is_plain_target(np.arange(4), 4, real=False)  # scikit-learn warns
    assert is_plain_target(np.arange(4), 4, real=True)
    assert not is_plain_target(labels, 5, real=False)
    assert not is_plain_target(labels.astype(float), 4, real=False)
    assert is_plain_target(labels.astype(float), 4, real=True)
    assert not is_plain_target(np.array([0.0, np.nan]), 2, real=True)
    assert not is_plain_target(labels[:, None], 4, real=False)
    assert not is_plain_target(["a", "b"], 2, real=False)


def test_feature_names_are_forgotten_and_missed():
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    model = SVC().fit(pd.DataFrame(X, columns=["a", "b"]), y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")
    with pytest.raises(ValueError, match="3 features"):
        model.predict(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="NaN"):
        SVR().fit(np.array([[np.nan], [1.0]]), np.zeros(2))
