"""MeanFieldGPClassifier: leave-one-out, records, files, suspects and searches."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.helpers.byhand import gram
from widemargin import SVC, SVR, LOOSearch, MeanFieldGPClassifier, loo, suspects
from widemargin.fitted import latent

GP = MeanFieldGPClassifier
MOST = ["exact", "span", "folds", "jaakkola_haussler", "support_vectors", "xi_alpha"]


def _moons(n=60, seed=0, noise=0.3):
    X, y = make_moons(n, noise=noise, random_state=seed)
    return X, np.array(["no", "yes"])[y]


def _iris():
    X, y = load_iris(return_X_y=True)
    return X[::2], np.array(["a", "b", "c"])[y[::2]]


# -- leave-one-out -----------------------------------------------------------------------------


def test_leave_one_out_through_the_common_door() -> None:
    X, y = _moons()
    model = GP(gamma=1.0).fit(X, y)
    result = loo.result(model)
    assert (result.method, result.kind) == ("linear_response", "estimate")
    assert result.error == model.loo_error_ == loo.error(model) == model.loo_error()
    np.testing.assert_array_equal(loo.decision_values(model), result.values)
    predicted = np.where(result.values > 0, "yes", "no")
    np.testing.assert_array_equal(predicted != y, result.errors)
    np.testing.assert_allclose(model.loo_proba_[:, 1], norm.cdf(result.values))
    assert loo.result(model, "linear_response").values is not None


@pytest.mark.parametrize("method", MOST)
def test_other_methods_are_refused_with_the_reason(method) -> None:
    model = GP(gamma=1.0).fit(*_moons())
    with pytest.raises(ValueError, match=r"method must be auto or linear_response: .* \(8.41\)"):
        loo.result(model, method)


def test_leave_one_out_of_pipelines_is_that_of_the_last_step() -> None:
    X, y = _moons()
    piped = make_pipeline(StandardScaler(), GP()).fit(X, y)
    alone = GP().fit(StandardScaler().fit_transform(X), y)
    np.testing.assert_array_equal(loo.decision_values(piped), loo.decision_values(alone))
    assert loo.error(piped) == alone.loo_error_


def test_leave_one_out_of_three_classes() -> None:
    X, y = _iris()
    model = GP(input_noise=0.1).fit(X, y)
    values = loo.decision_values(model)
    assert values.shape == (75, 3)
    wrong = model.classes_[values.argmax(axis=1)] != y
    np.testing.assert_array_equal(loo.result(model).errors, wrong)
    np.testing.assert_array_equal(model.loo_proba_.argmax(axis=1), values.argmax(axis=1))
    # each column is that of the class against the rest
    single = GP(input_noise=0.1, gamma=model.gamma_).fit(X, y == "b")
    np.testing.assert_allclose(values[:, 1], loo.decision_values(single), atol=1e-7)


@pytest.mark.parametrize("kernel", ["rbf", "precomputed", "callable"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_of_weight_zero_have_fitted_values_and_do_not_count(n_classes, kernel) -> None:
    X, y = _moons() if n_classes == 2 else _iris()
    weight = np.arange(len(y)) % 3
    model = GP(gamma=1.0)
    seen = X
    if kernel == "precomputed":
        model, seen = GP(kernel="precomputed"), gram(X, X, gamma=1.0)
    if kernel == "callable":
        model = GP(kernel=lambda A, B: gram(A, B, gamma=1.0))
    model.fit(seen, y, sample_weight=weight)
    values, absent = loo.decision_values(model), weight == 0
    np.testing.assert_allclose(values[absent], model.decision_function(seen)[absent], rtol=1e-10)
    result = loo.result(model)
    assert result.error == pytest.approx(float(weight @ result.errors) / weight.sum())
    rows = np.repeat(np.arange(len(y)), weight)
    repeated = GP(gamma=1.0).fit(X[rows], y[rows])
    np.testing.assert_allclose(values[rows], loo.decision_values(repeated), rtol=1e-6, atol=1e-8)
    assert result.error == pytest.approx(repeated.loo_error_)


def test_a_class_of_weight_zero_is_always_wrong() -> None:
    X, y = _iris()
    weight = np.where(y == "c", 0.0, 1.0)
    model = GP().fit(X, y, sample_weight=weight)
    assert loo.result(model).errors[y == "c"].all()
    assert model.loo_error_ == GP().fit(X[y != "c"], y[y != "c"]).loo_error_


def test_ties_are_errors() -> None:
    """Rows that see nothing of each other are told nothing."""
    X = np.arange(6.0)[:, None] * 1e3
    assert GP(gamma=1.0).fit(X, [0, 1, 0, 1, 0, 1]).loo_error_ == 1.0
    assert GP(gamma=1.0).fit(X, [0, 1, 2, 0, 1, 2]).loo_error_ == 1.0


# -- records and files -------------------------------------------------------------------------


@pytest.mark.parametrize("data", [_moons, _iris])
@pytest.mark.parametrize("inference", ["naive", "tap"])
def test_compact_models_predict_as_before(data, inference) -> None:
    X, y = data()
    model = GP(gamma=1.0, inference=inference, flip_noise=0.05).fit(X, y)
    unasked = clone(model).fit(X, y).compact()
    expected, latent = model.predict_proba(X), model.predict_latent(X)
    for smaller in (unasked, model.compact(), pickle.loads(pickle.dumps(unasked))):
        assert smaller._record_.model is None
        np.testing.assert_array_equal(smaller.predict(X), model.predict(X))
        np.testing.assert_array_equal(smaller.predict_proba(X), expected)
        np.testing.assert_array_equal(smaller.predict_latent(X), latent)
        assert smaller.readings_ == model.readings_
    with pytest.raises(ValueError, match="ask it once before calling compact"):
        loo.error(unasked)
    known = model.loo_error_
    assert model.compact().loo_error_ == known


def test_compact_models_are_smaller_by_what_leave_one_out_needs() -> None:
    model = GP(gamma=1.0).fit(*_moons(400))
    assert len(pickle.dumps(model.compact())) < 0.5 * len(pickle.dumps(model))


def test_models_travel_without_their_factors() -> None:
    X, y = _moons(200)
    model = GP(gamma=1.0).fit(X, y)
    before = len(pickle.dumps(model))
    expected, error = model.predict_proba(X), model.loo_error_
    moved = pickle.loads(pickle.dumps(model))
    assert len(pickle.dumps(model)) < before + 20_000  # a factor takes 320,000 bytes
    np.testing.assert_array_equal(moved.predict_proba(X), expected)
    assert moved.loo_error_ == error
    np.testing.assert_array_equal(moved.loo_proba_, model.loo_proba_)


@pytest.mark.parametrize("data", [_moons, _iris])
def test_model_files(data) -> None:
    import skops.io

    from widemargin.cli._model_file import trusted_types

    X, y = data()
    model = GP(gamma=1.0).fit(X, y)
    loo.result(model)
    content = skops.io.dumps(model.compact())
    loaded = skops.io.loads(content, trusted=trusted_types())
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loo.decision_values(loaded), loo.decision_values(model))
    assert loaded.loo_error_ == model.loo_error_


def test_threads_share_one_factorisation(monkeypatch) -> None:
    X, y = _moons(100)
    model, alone = GP(gamma=1.0).fit(X, y), GP(gamma=1.0).fit(X, y)
    made, factorise = [], latent.factorise
    monkeypatch.setattr(latent, "factorise", lambda *a: made.append(1) or factorise(*a))
    ready, found = threading.Barrier(4), []

    def ask() -> None:
        ready.wait()
        found.append((model.predict_proba(X), model.loo_error_))

    workers = [threading.Thread(target=ask) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 4
    assert len(made) == 1
    for proba, error in found:
        np.testing.assert_array_equal(proba, alone.predict_proba(X))
        assert error == alone.loo_error_


def test_questions_change_no_attribute() -> None:
    X, y = _moons()
    model = GP(gamma=1.0).fit(X, y)
    before = dict(vars(model))
    model.predict_proba(X), model.predict_latent(X), model.loo_error_, suspects(model, 3)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())


# -- suspects ----------------------------------------------------------------------------------


@pytest.mark.parametrize("screen", [None, 0.2])
@pytest.mark.parametrize("flip_noise", [0.0, 0.1])
def test_wrong_labels_are_suspects(flip_noise, screen) -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-2, 0.6, (40, 2)), rng.normal(2, 0.6, (40, 2))])
    y = np.repeat([0, 1], 40)
    y[[3, 50]] = [1, 0]
    piped = make_pipeline(StandardScaler(), GP(flip_noise=flip_noise)).fit(X, y)
    found = suspects(piped, 2, screen=screen)
    assert set(found.rows) == {3, 50}
    assert all(s.margin < 0 and s.predicted != s.label for s in found)
    assert found.kind == "estimate"
    assert found.evaluated == (80 if screen is None else 16)
    values = loo.decision_values(piped)
    for s in found:
        assert s.margin == pytest.approx(values[s.row] * (1 if s.label == 1 else -1))


@pytest.mark.parametrize("screen", [None, 0.1])
def test_suspects_of_three_classes_and_weights(screen) -> None:
    X, y = _iris()
    y[10] = "c"
    weight = np.ones(len(y))
    weight[11:14] = 0.0
    model = GP(input_noise=0.1).fit(X, y, sample_weight=weight)
    found = suspects(model, 5, screen=screen)
    assert found[0].row == 10
    assert (found[0].label, found[0].predicted) == ("c", "a")
    assert not {11, 12, 13} & set(found.rows)
    if screen is None:
        assert found.error == model.loo_error_
    else:
        assert found.error <= model.loo_error_


# -- searches ----------------------------------------------------------------------------------

GRID = {"gamma": [0.1, 1.0], "input_noise": [0.1, 1.0], "flip_noise": [0.0, 0.1]}


def _score(model, y, scoring, weight):
    if scoring == "error":
        return 1 - model.loo_error_
    if scoring == "log_loss":
        return -log_loss(y, model.loo_proba_, sample_weight=weight)
    return float(np.sum(model.log_evidence_))


@pytest.mark.parametrize("method", ["exact", "linear_response"])
@pytest.mark.parametrize("scoring", ["error", "log_loss", "evidence"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_searches_score_as_models_fitted_alone(n_classes, scoring, method) -> None:
    X, y = _moons(40) if n_classes == 2 else _iris()
    weight = np.where(np.arange(len(y)) % 4 == 0, 2.0, 1.0)
    found = LOOSearch(GP(), GRID, scoring=scoring, method=method).fit(X, y, sample_weight=weight)
    table = found.cv_results_
    assert len(table["params"]) == 8
    for k, params in enumerate(table["params"]):
        model = GP(**params).fit(X, y, sample_weight=weight)
        expected = _score(model, y, scoring, weight)
        assert table["mean_test_score"][k] == pytest.approx(expected, rel=1e-9)
    best = table["mean_test_score"].argmax()
    assert found.best_params_ == table["params"][best]
    assert found.best_score_ == table["mean_test_score"][best]
    assert table["rank_test_score"][best] == 1
    assert set(table["loo_kind"]) == {"evidence" if scoring == "evidence" else "estimate"}
    assert found.n_splits_ == (0 if scoring == "evidence" else len(y))
    assert np.isnan(table["std_test_score"]).all() == (scoring == "evidence")
    np.testing.assert_allclose(
        found.predict_proba(X),
        GP(**found.best_params_).fit(X, y, sample_weight=weight).predict_proba(X),
    )


def test_the_spread_of_a_log_loss_is_that_of_its_rows() -> None:
    X, y = _moons(40)
    weight = np.tile([1.0, 2.0, 0.0, 1.0], 10)
    found = LOOSearch(GP(), {"gamma": [1.0]}, scoring="log_loss").fit(X, y, sample_weight=weight)
    proba = GP(gamma=1.0).fit(X, y, sample_weight=weight).loo_proba_
    rows = np.repeat(np.arange(40), weight.astype(int))
    losses = -np.log(np.where(y == "yes", proba[:, 1], proba[:, 0]))[rows]
    [score], [spread] = found.cv_results_["mean_test_score"], found.cv_results_["std_test_score"]
    assert score == pytest.approx(-losses.mean())
    assert spread == pytest.approx(losses.std() / np.sqrt(len(rows)))
    assert found.n_splits_ == 30


@pytest.mark.parametrize("scoring", ["log_loss", "evidence"])
def test_searches_of_pipelines(scoring) -> None:
    X, y = _moons(40)
    grid = {
        "meanfieldgpclassifier__input_noise": [0.1, 1.0],
        "standardscaler__with_std": [True, False],
    }
    piped = make_pipeline(StandardScaler(), GP())
    found = LOOSearch(piped, grid, scoring=scoring).fit(X, y)
    for params, score in zip(
        found.cv_results_["params"], found.cv_results_["mean_test_score"], strict=True
    ):
        model = clone(piped).set_params(**params).fit(X, y)
        assert score == pytest.approx(_score(model[-1], y, scoring, None), rel=1e-9)
    assert found.best_estimator_.predict(X).shape == (40,)


def test_other_machines_have_the_error_only() -> None:
    X, y = _moons(40)
    for scoring in ("log_loss", "evidence"):
        with pytest.raises(ValueError, match='scoring must be "error" for SVC'):
            LOOSearch(SVC(), {"C": [1.0]}, scoring=scoring).fit(X, y)
        with pytest.raises(ValueError, match='scoring must be "error" for SVR'):
            LOOSearch(make_pipeline(SVR()), {"svr__C": [1.0]}, scoring=scoring).fit(X, y)
    with pytest.raises(ValueError, match="scoring must be one of error, log_loss, evidence"):
        LOOSearch(GP(), {"gamma": [1.0]}, scoring="accuracy").fit(X, y)


@pytest.mark.parametrize("scoring", ["error", "log_loss", "evidence"])
def test_settings_that_fail_have_the_score_asked_for(scoring) -> None:
    X = np.array([[0.0], [0.0], [1.0], [2.0]])
    search = LOOSearch(GP(), {"input_noise": [0.0, 1.0]}, scoring=scoring, error_score=-7.0)
    with pytest.warns(FitFailedWarning, match="give a positive input_noise"):
        search.fit(X, [0, 1, 1, 0])
    assert search.cv_results_["mean_test_score"][0] == -7.0
    assert search.cv_results_["loo_kind"][0] == "failed"
    assert search.best_params_ == {"input_noise": 1.0}


def test_a_search_shows_what_is_least(capsys) -> None:
    grid = {"input_noise": [0.1, 1.0]}
    found = LOOSearch(GP(), grid, scoring="log_loss", verbose=1).fit(*_moons(40))
    assert f"least log-loss {-found.best_score_:.4g}" in capsys.readouterr().out
