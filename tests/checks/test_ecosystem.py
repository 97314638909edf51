"""Inside scikit-learn's tools: routing, searches, clones, pickles, data frames."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import SVC, SVR, LinearSVC, NuSVC, NuSVR

ALL = [SVC(), NuSVC(nu=0.1), SVR(), NuSVR(), LinearSVC(), SVC(loss="squared_hinge")]
each = pytest.mark.parametrize("estimator", ALL, ids=str)
NAMES = ["height", "width", "depth", "weight"]


def _data(n: int = 90):
    X, y = make_classification(n, 4, n_informative=3, n_redundant=0, flip_y=0.1, random_state=0)
    return X, y


def _values(model, X) -> np.ndarray:
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


# ---------------------------------------------------------------- metadata routing


@each
def test_sample_weight_is_routed_through_pipeline_and_search(estimator) -> None:
    """The winner of a search with routed weights is, bit by bit, a direct weighted fit."""
    X, y = _data()
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    name = "nu" if "nu" in estimator.get_params() else "C"
    with sklearn.config_context(enable_metadata_routing=True):
        machine = clone(estimator).set_fit_request(sample_weight=True)
        machine.set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        pipe = Pipeline([("scale", scaler), ("fit", machine)])
        pipe.set_score_request(sample_weight=True)  # scikit-learn 1.6 asks for it
        search = GridSearchCV(pipe, {f"fit__{name}": [0.05, 0.2]}, cv=3)
        search.fit(X, y, sample_weight=weight)
        plain = GridSearchCV(pipe, {f"fit__{name}": [0.05, 0.2]}, cv=3).fit(X, y)
    scaled = StandardScaler().fit(X, sample_weight=weight).transform(X)
    direct = clone(estimator).set_params(**{name: search.best_params_[f"fit__{name}"]})
    direct.fit(scaled, y, sample_weight=weight)
    np.testing.assert_array_equal(_values(search.best_estimator_, X), _values(direct, scaled))
    assert np.abs(_values(search.best_estimator_, X) - _values(plain.best_estimator_, X)).max() > 0


@each
def test_weights_that_nobody_asked_for_are_not_passed_on(estimator) -> None:
    X, y = _data()
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler(), clone(estimator))
        with pytest.raises(ValueError, match="sample_weight"):
            pipe.fit(X, y, sample_weight=np.ones(len(y)))


def test_search_over_kernels_and_parameters() -> None:
    X, y = load_iris(return_X_y=True)
    grid = [{"kernel": ["linear"], "C": [0.1, 1]}, {"kernel": ["rbf"], "gamma": [0.1, "scale"]}]
    search = GridSearchCV(SVC(), grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.95


def test_cross_validation_with_a_precomputed_kernel() -> None:
    """The pairwise tag lets scikit-learn cut rows and columns."""
    X, y = _data()
    from_matrix = cross_val_score(SVC(kernel="precomputed"), X @ X.T, y, cv=3)
    np.testing.assert_allclose(from_matrix, cross_val_score(SVC(kernel="linear"), X, y, cv=3))


# ---------------------------------------------------------------- copies


@each
def test_clone_keeps_parameters_and_no_model(estimator) -> None:
    X, y = _data()
    fitted = clone(estimator).set_params(tol=1e-4).fit(X, y)
    twin = clone(fitted)
    assert twin.get_params() == fitted.get_params()
    assert not [name for name in vars(twin) if name.endswith("_")]
    np.testing.assert_array_equal(_values(twin.fit(X, y), X), _values(fitted, X))


@each
@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_pickles_predict_the_same_bits(estimator, protocol: int) -> None:
    X, y = _data()
    fitted = clone(estimator).fit(X, y)
    back = pickle.loads(pickle.dumps(fitted, protocol=protocol))
    np.testing.assert_array_equal(_values(back, X), _values(fitted, X))
    assert back.certificate_ == fitted.certificate_
    np.testing.assert_array_equal(_values(copy.deepcopy(fitted), X), _values(fitted, X))


@each
def test_fitting_changes_neither_data_nor_parameters(estimator) -> None:
    X, y = _data()
    weight = np.ones(len(y))
    before, parameters = (X.copy(), y.copy(), weight.copy()), estimator.get_params()
    clone(estimator).fit(X, y, sample_weight=weight)
    for array, kept in zip((X, y, weight), before, strict=True):
        np.testing.assert_array_equal(array, kept)
    assert estimator.get_params() == parameters


@each
def test_a_second_fit_forgets_the_first(estimator) -> None:
    X, y = _data()
    twice = clone(estimator).fit(X[:50, :2], y[:50]).fit(X, y)
    once = clone(estimator).fit(X, y)
    assert set(vars(twice)) == set(vars(once))
    np.testing.assert_array_equal(_values(twice, X), _values(once, X))


def test_parameters_are_checked_at_fit_and_not_before() -> None:
    model = SVC(C=-1.0)
    assert model.get_params()["C"] == -1.0
    with pytest.raises(TypeError, match="costs"):
        SVC(costs=1.0)
    with pytest.raises(TypeError, match="positional"):
        SVC(1.0)


# ---------------------------------------------------------------- data frames


def _pandas(X):
    return pd.DataFrame(X, columns=NAMES)


def _polars(X):
    return pl.DataFrame(X, schema=NAMES)


@each
@pytest.mark.parametrize("frame", [_pandas, _polars], ids=["pandas", "polars"])
def test_data_frames_keep_their_names(estimator, frame) -> None:
    X, y = _data()
    model = clone(estimator).fit(frame(X), y)
    np.testing.assert_array_equal(model.feature_names_in_, NAMES)
    assert model.n_features_in_ == 4
    np.testing.assert_array_equal(_values(model, frame(X)), _values(clone(estimator).fit(X, y), X))
    reordered = frame(X)[NAMES[::-1]]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(reordered)
    with pytest.warns(UserWarning, match="feature names"):
        model.predict(X)


@pytest.mark.parametrize("series", ["pandas", "polars", "categorical", "list"])
def test_labels_from_series(series: str) -> None:
    X, y = _data()
    words = np.array(["no", "yes"])[y]
    labels = {
        "pandas": pd.Series(words, index=np.arange(len(y))[::-1]),
        "polars": pl.Series(words),
        "categorical": pd.Series(words, dtype="category"),
        "list": words.tolist(),
    }[series]
    model = SVC().fit(X, labels)
    np.testing.assert_array_equal(model.classes_, ["no", "yes"])
    np.testing.assert_array_equal(model.predict(X), SVC().fit(X, words).predict(X))


def test_integer_and_boolean_frames() -> None:
    X, y = _data()
    frame = pd.DataFrame({"flag": X[:, 0] > 0, "count": np.round(10 * X[:, 1]).astype(int)})
    model = SVC().fit(frame, y)
    np.testing.assert_array_equal(
        model.decision_function(frame),
        SVC().fit(frame.to_numpy(dtype=float), y).decision_function(frame.to_numpy(dtype=float)),
    )


def test_weights_from_a_series() -> None:
    X, y = _data()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    one = SVC().fit(X, y, sample_weight=pd.Series(weight, index=np.arange(len(y))[::-1]))
    other = SVC().fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_)


def test_the_html_representation_names_the_estimator() -> None:
    X, y = _data()
    assert "SVC" in SVC().fit(X, y)._repr_html_()
