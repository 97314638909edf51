"""Leave-one-out, probabilities and searches of MaxMarginClassifier."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris

from widemargin import LOOSearch, MaxMarginClassifier, loo, suspects


def apart(seed: int, gap: float = 0.3, n: int = 24):
    """Rows of two classes with a gap between them."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 5))
    X = rng.normal(size=(n, d))
    w = rng.normal(size=d)
    y = np.where(X @ w > np.median(X @ w), 1, -1)
    return X + gap * y[:, None] * w / np.linalg.norm(w), y


def mixed(seed: int, n: int = 30, d: int = 3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1, -1)
    y[:2] = 1, -1
    return X, y


@pytest.mark.parametrize("norm", [1.5, 2, 3])
@pytest.mark.parametrize("C", [0.5, np.inf])
def test_left_out_values_are_those_of_retraining(norm: float, C: float) -> None:
    X, y = mixed(3) if np.isfinite(C) else apart(3)
    weight = np.ones(len(y))
    weight[4] = 2.0
    model = MaxMarginClassifier(norm, C=C).fit(X, y, sample_weight=weight)
    found = loo.result(model)
    assert found.kind == "exact"
    for row in range(len(y)):
        left = weight.copy()
        left[row] -= 1.0
        again = MaxMarginClassifier(norm, C=C).fit(X, y, sample_weight=left)
        value = again.decision_function(X[row : row + 1])[0]
        assert found.values[row] == pytest.approx(value, rel=1e-3, abs=1e-4)
    if not (norm == 2 and np.isfinite(C)):
        assert found.cost["retrained"] < len(y)  # rows beyond the margin keep their values


@pytest.mark.parametrize("norm", [1, np.inf])
def test_left_out_errors_of_linear_programs(norm: float) -> None:
    X, y = load_iris(return_X_y=True)
    model = MaxMarginClassifier(norm, C=1.0).fit(X, y)
    wrong = 0
    for row in range(0, 150, 7):
        rest = np.arange(150) != row
        again = MaxMarginClassifier(norm, C=1.0).fit(X[rest], y[rest])
        wrong += again.predict(X[row : row + 1])[0] != y[row]
    assert np.count_nonzero(loo.result(model).errors[::7]) == wrong
    assert loo.error(model, "support_vectors") >= loo.error(model)
    with pytest.raises(ValueError, match="inner product"):
        loo.error(model, "linear_response")


def test_the_only_row_of_a_class_is_left_out() -> None:
    X, y = np.array([[0.0], [1.0], [5.0]]), [0, 0, 1]
    for C in (1.0, np.inf):
        values = loo.decision_values(MaxMarginClassifier(1, C=C).fit(X, y))
        assert values[2] == -1.0


def test_folds_probabilities_search_and_suspects() -> None:
    X, y = load_iris(return_X_y=True)
    model = MaxMarginClassifier(1).fit(X, y)
    assert loo.result(model, "folds").kind == "estimate"
    assert abs(loo.error(model, "folds") - loo.error(model)) < 0.05
    probability = model.predict_proba(X)
    assert probability.sum(axis=1) == pytest.approx(np.ones(150))
    assert (model.classes_[probability.argmax(axis=1)] == model.predict(X)).all()
    search = LOOSearch(MaxMarginClassifier(1), {"C": [0.01, 1.0]}).fit(X, y)
    assert search.best_score_ >= 0.9
    y[20] = 2
    assert suspects(MaxMarginClassifier(3).fit(X, y), 1)[0].row == 20
    assert suspects(MaxMarginClassifier(1).fit(X, y), 1, screen=0.3)[0].row == 20
    smaller = model.compact()
    assert (smaller.predict_proba(X) == probability).all()
    with pytest.raises(ValueError, match="compact"):
        MaxMarginClassifier(1).fit(X, y).compact().predict_proba(X)
