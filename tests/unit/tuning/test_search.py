"""LOOSearch: its scores against machines fitted alone, scikit-learn's search API, interrupts."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.model_selection import cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
from sklearn.svm import SVC as LibSVC

import widemargin
from tests.helpers.byhand import gram
from widemargin import SVC, SVR, LinearSVC, LOOSearch, NuSVC, NuSVR, loo
from widemargin.fitted import by_path
from widemargin.tuning import candidates, search_run
from widemargin.tuning.candidates import SharedKernel

COSTS = {"C": [8.0, 0.125, 1.0]}
GRID = {**COSTS, "gamma": [0.3, 3.0]}
SCORES = ["mean_test_score", "std_test_score", "rank_test_score", "loo_kind"]
WEIGHT = np.tile([1.0, 0.5, 2.0, 0.0, 1.5], 8)
HALVES = [(np.arange(0, 40, 2), np.arange(1, 40, 2))]


def data(seed=0, n_classes=2):
    """Rounded numbers, so that equal rows and conflicting labels occur."""
    X = np.round(np.random.default_rng(seed).standard_normal((40, 2)), 1)
    y = np.arange(40) // 2 % n_classes
    X[:, 0] += y
    return X, y


def fitted_alone(estimator, params, X, y, weight=None):
    """Return the estimator with a setting, fitted as a user would who knows of no search."""
    model = clone(estimator).set_params(**clone(params, safe=False))
    if weight is None:
        return model.fit(X, y)
    name = f"{model.steps[-1][0]}__sample_weight" if hasattr(model, "steps") else "sample_weight"
    return model.fit(X, y, **{name: weight})


def assert_scores(found, X, y, weight=None, method="auto"):
    """Check every score of a search against the leave-one-out of a machine fitted alone."""
    table = found.cv_results_
    share = np.ones(len(y)) if weight is None else weight
    for k, params in enumerate(table["params"]):
        result = loo.result(fitted_alone(found.estimator, params, X, y, weight), method)
        expected = -result.error if is_regressor(found) else 1.0 - result.error
        assert table["mean_test_score"][k] == pytest.approx(expected, abs=1e-8), params
        spread = share @ (result.errors - result.error) ** 2 / share.sum() ** 2
        assert table["std_test_score"][k] == pytest.approx(np.sqrt(spread), abs=1e-8)
        assert table["loo_kind"][k] == result.kind


def assert_same(one, other, tol=0.0):
    for column in SCORES[:2]:
        np.testing.assert_allclose(one.cv_results_[column], other.cv_results_[column], rtol=tol)
    for column in SCORES[2:]:
        np.testing.assert_array_equal(one.cv_results_[column], other.cv_results_[column])


def product(A, B):
    return (A @ B.T + 1.0) ** 2


# -- scores -----------------------------------------------------------------------------------

MACHINES = [
    (SVC(), GRID),
    (SVC(loss="squared_hinge"), GRID),
    (SVC(), {"loss": ["hinge", "squared_hinge"], "fit_intercept": [True, False], **COSTS}),
    (SVC(), {"class_weight": [None, "balanced", {0: 3.0}], **COSTS}),
    (SVC(), {"gamma": ["scale", "auto", np.array([0.1, 2.0]), [2.0, 0.1]], "C": [4.0, 0.5]}),
    (SVC(C=-1.0, degree=2), {"kernel": ["poly"], "coef0": [0.0, 1.0], **COSTS}),
    (SVR(), {"epsilon": [0.0, 0.2], **GRID}),
    (SVR(kernel="linear"), {"fit_intercept": [True, False], **COSTS}),
    # Nothing is shared between the settings of these.
    (NuSVC(), {"nu": [0.5, 0.7], "gamma": [0.3, 3.0]}),
    (NuSVR(), {"nu": [0.2, 0.7], "C": [0.125, 8.0]}),
    (LinearSVC(), {"loss": ["hinge", "squared_hinge"], **COSTS}),
    (SVC(kernel=product), {"kernel": [product, "linear"], **COSTS}),
]


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
@pytest.mark.parametrize(("estimator", "grid"), MACHINES, ids=lambda v: type(v).__name__)
def test_scores_are_those_of_machines_fitted_alone(estimator, grid, weight):
    X, y = data()
    found = LOOSearch(estimator, grid, refit=False).fit(X, y, sample_weight=weight)
    assert_scores(found, X, y, weight)
    assert found.n_splits_ == (40 if weight is None else 32)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "estimator",
    [SVC(), SVC(loss="squared_hinge"), SVC(fit_intercept=False), LinearSVC()],
    ids=str,
)
def test_scores_of_several_classes(estimator, seed):
    """Machines that did not see a row's class vote on it too."""
    X, y = data(seed, n_classes=4)
    for weight in (None, WEIGHT):
        found = LOOSearch(estimator, COSTS, refit=False).fit(X, y, sample_weight=weight)
        assert_scores(found, X, y, weight)


@pytest.mark.parametrize("estimator", [SVC(), SVR(), LinearSVC()], ids=str)
def test_scores_of_sparse_rows(estimator):
    X, y = data()
    X = sp.csr_array(X * (np.abs(X) > 0.5))
    assert_scores(LOOSearch(estimator, COSTS).fit(X, y), X, y)


@pytest.mark.parametrize("machine", [SVC, SVR, NuSVC])
def test_scores_of_kernel_matrices_wherever_they_are_asked_for(machine):
    X, y = data()
    grid = {"nu": [0.5, 0.7]} if machine is NuSVC else COSTS
    expected = LOOSearch(machine(gamma=0.5), grid).fit(X, y).cv_results_["mean_test_score"]
    K = gram(X, X, gamma=0.5)
    by_estimator = LOOSearch(machine(kernel="precomputed"), grid).fit(K, y)
    by_grid = LOOSearch(machine(), {"kernel": ["precomputed"], **grid}).fit(K, y)
    for found in (by_estimator, by_grid):
        np.testing.assert_allclose(found.cv_results_["mean_test_score"], expected, atol=1e-6)
    assert by_estimator.__sklearn_tags__().input_tags.pairwise
    with pytest.raises(ValueError, match="square kernel matrix"):
        clone(by_grid).fit(K[:, :7], y)


@pytest.mark.parametrize("estimator", [SVC(), SVR(), NuSVR(), LinearSVC()], ids=str)
def test_the_linear_response_and_where_the_exact_method_gives_way_to_it(estimator, monkeypatch):
    X, y = data()
    found = LOOSearch(estimator, COSTS, method="linear_response").fit(X, y)
    assert_scores(found, X, y, method="linear_response")
    assert set(found.cv_results_["loo_kind"]) == {"estimate"}
    monkeypatch.setattr(candidates, "SHARED_ROWS", 10)
    monkeypatch.setattr(by_path, "EXACT_ROWS", 20)
    assert_same(LOOSearch(estimator, COSTS).fit(X, y), found, tol=1e-10)


def test_settings_of_one_kernel_share_its_matrix(monkeypatch):
    made, alone = [], []
    matrix, score_alone = candidates.SharedMatrix, candidates.score_alone
    monkeypatch.setattr(candidates, "SharedMatrix", lambda *a: made.append(a) or matrix(*a))
    monkeypatch.setattr(search_run, "score_alone", lambda *a: alone.append(a) or score_alone(*a))
    shared = LOOSearch(SVC(), GRID).fit(*data())
    assert (len(made), len(alone)) == (2, 0)
    monkeypatch.setattr(candidates, "SHARED_ROWS", 39)
    assert_same(LOOSearch(SVC(), GRID).fit(*data()), shared)
    assert (len(made), len(alone)) == (2, 6)


@pytest.mark.parametrize("machine", [SVC, SVR, LinearSVC])
def test_weight_two_is_the_row_twice_and_weight_zero_its_absence(machine):
    X, y = data()
    times = np.arange(40) % 3
    copies = np.repeat(np.arange(40), times)
    weighted = LOOSearch(machine(), COSTS).fit(X, y, sample_weight=times)
    repeated = LOOSearch(machine(), COSTS).fit(X[copies], y[copies])
    assert_same(weighted, repeated, tol=1e-10)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X))
    assert (weighted.n_splits_, repeated.n_splits_) == (26, 39)


@pytest.mark.parametrize("n_jobs", [2, -1, 50])
@pytest.mark.parametrize(
    ("estimator", "grid"), [(SVC(), GRID), (SVR(), GRID), (LinearSVC(), COSTS)], ids=str
)
def test_threads_change_nothing(estimator, grid, n_jobs):
    one = LOOSearch(estimator, grid).fit(*data(1))
    many = LOOSearch(estimator, grid, n_jobs=n_jobs).fit(*data(1))
    assert_same(one, many)
    assert one.best_params_ == many.best_params_


# -- scikit-learn's search interface ----------------------------------------------------------


def test_the_table():
    grid = [{"kernel": ["linear"], "C": [2.0**-20]}, {"gamma": [0.5], "C": [0.125, 1.0, 1.0]}]
    found = LOOSearch(SVC(), grid).fit(*data())
    table = found.cv_results_
    names = {"mean_fit_time", "mean_score_time", "params", "param_C", "param_gamma", *SCORES}
    assert set(table) == {*names, "param_kernel"}
    assert table["params"][0] == {"kernel": "linear", "C": 2.0**-20}
    assert table["param_C"].tolist() == [2.0**-20, 0.125, 1.0, 1.0]
    assert table["param_gamma"].mask.tolist() == [True, False, False, False]
    assert table["param_kernel"][1] is np.ma.masked
    assert min(table["mean_fit_time"].min(), table["mean_score_time"].min()) >= 0
    scores = table["mean_test_score"]
    assert table["rank_test_score"].tolist() == [1 + np.sum(scores > s) for s in scores]
    assert table["rank_test_score"].dtype == np.int32
    assert found.best_index_ == scores.argmax() == 2  # the first of equals
    assert scores[2] == scores[3]
    assert found.best_score_ == scores.max()
    assert found.best_params_ == table["params"][found.best_index_]
    assert len(pd.DataFrame(table)) == 4
    ranks = search_run._ranks(np.array([-3e-15, np.nan, -1e-15, -1e-15 * (1 + 1e-14), -np.inf]))
    assert ranks.tolist() == [3, 4, 1, 1, 4]  # rounding does not count


def test_the_best_estimator_is_fitted_and_speaks():
    X, y = data(n_classes=3)
    names = np.array(["a", "b", "c"])[y]
    found = LOOSearch(SVC(), GRID).fit(X, names, sample_weight=WEIGHT)
    alone = fitted_alone(SVC(), found.best_params_, X, names, WEIGHT)
    for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        np.testing.assert_array_equal(getattr(found, method)(X), getattr(alone, method)(X))
    assert found.score(X, names) == alone.score(X, names) != alone.score(X, names, WEIGHT)
    assert found.score(X, names, sample_weight=WEIGHT) == alone.score(X, names, WEIGHT)
    assert found.classes_.tolist() == ["a", "b", "c"]
    assert found.n_features_in_ == 2
    assert found.refit_time_ >= 0
    assert found.best_estimator_.get_params() == alone.get_params()
    assert is_classifier(found)


def test_methods_that_would_not_work_are_hidden():
    X, y = data()
    with pytest.raises(NotFittedError):
        LOOSearch(SVR(), COSTS).predict(X)
    found = LOOSearch(SVR(), COSTS).fit(X, y)
    assert is_regressor(found)
    for name in ("predict_proba", "predict_log_proba", "decision_function", "classes_"):
        assert not hasattr(found, name)
    found = LOOSearch(SVC(), COSTS, refit=False).fit(X, y)
    for name in ("predict", "score", "predict_proba", "classes_", "best_estimator_"):
        assert not hasattr(found, name)
    with pytest.raises(AttributeError, match="no attribute 'predict'") as caught:
        found.predict(X)
    assert "refit=True" in str(caught.value.__cause__)


def test_a_search_leaves_its_arguments_alone():
    steps = [SVC(C=3.0), NuSVC()]
    estimator = make_pipeline(StandardScaler(), SVC(C=7.0))
    grid = [{"svc": [steps[0]], "svc__gamma": [0.1, 1.0]}, {"svc": [steps[1]], "svc__nu": [0.5]}]
    found = LOOSearch(estimator, grid).fit(*data())
    assert_scores(found, *data())
    assert found.estimator is estimator
    assert estimator[-1].C == 7.0
    assert steps[0].get_params() == SVC(C=3.0).get_params()
    assert not any(hasattr(part, "n_features_in_") for part in (*steps, *estimator))


def test_fitting_again_forgets_the_first_time():
    X, y = data()
    found = LOOSearch(SVC(), COSTS).fit(pd.DataFrame(X, columns=["u", "v"]), pd.Series(y))
    assert found.feature_names_in_.tolist() == ["u", "v"]
    found.fit(X[:, :1], y)
    assert not hasattr(found, "feature_names_in_")
    assert found.n_features_in_ == 1
    found.set_params(refit=False).fit(X, y)
    for name in ("best_estimator_", "refit_time_", "n_features_in_"):
        assert not hasattr(found, name)


def test_copies_parameters_and_pickles():
    X, y = data()
    found = LOOSearch(SVC(C=2.0), GRID, n_jobs=2).fit(X, y)
    copy = clone(found).set_params(estimator__tol=1e-5, method="linear_response")
    assert not hasattr(copy, "cv_results_")
    assert (copy.estimator.tol, copy.estimator.C, found.estimator.tol) == (1e-5, 2.0, 1e-3)
    assert copy.get_params()["n_jobs"] == 2
    loaded = pickle.loads(pickle.dumps(found))
    assert_same(loaded, found)
    np.testing.assert_array_equal(loaded.predict_proba(X), found.predict_proba(X))


def test_a_search_inside_cross_validation_and_pipelines():
    X, y = data()
    rest, part = HALVES[0]
    inner = LOOSearch(SVC(), GRID).fit(X[rest], y[rest])
    assert cross_val_score(inner, X, y, cv=HALVES).tolist() == [inner.score(X[part], y[part])]
    pipeline = make_pipeline(StandardScaler(), inner).fit(X, y, loosearch__sample_weight=WEIGHT)
    direct = clone(inner).fit(StandardScaler().fit_transform(X), y, sample_weight=WEIGHT)
    assert_same(pipeline[-1], direct)
    np.testing.assert_array_equal(pipeline.predict(X), direct.predict(pipeline[0].transform(X)))


def test_weights_are_routed():
    X, y = data()
    rows = HALVES[0][0]
    with config_context(enable_metadata_routing=True):
        inner = LOOSearch(make_pipeline(StandardScaler(), SVC()), {"svc__C": [0.125, 1.0]})
        inner.set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        options = {"params": {"sample_weight": WEIGHT}, "return_estimator": True}
        [found] = cross_validate(inner, X, y, cv=HALVES, **options)["estimator"]
    assert_scores(found, X[rows], y[rows], WEIGHT[rows])
    alone = fitted_alone(found.estimator, found.best_params_, X[rows], y[rows], WEIGHT[rows])
    np.testing.assert_array_equal(found.decision_function(X), alone.decision_function(X))


# -- pipelines --------------------------------------------------------------------------------


def stretched(machine, function, values):
    """Return a search of a pipeline that hands its rows and one of the values to a function."""
    step = FunctionTransformer(function, kw_args={"by": values[0]})
    grid = {"functiontransformer__kw_args": [{"by": value} for value in values]}
    name = f"{type(machine).__name__.lower()}__C"
    return LOOSearch(make_pipeline(StandardScaler(), step, machine), {**grid, name: [0.125, 8.0]})


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("machine", [SVC(), SVR(), LinearSVC()], ids=str)
def test_transformers_are_fitted_on_all_rows_once_for_each_of_their_settings(machine, n_jobs):
    seen = []

    def stretch(X, by):
        seen.append((by, len(X)))
        return X * [1.0, by]

    X, y = data()
    found = stretched(machine, stretch, [0.1, 5.0]).set_params(refit=False, n_jobs=n_jobs)
    found.fit(X, y, sample_weight=WEIGHT)
    assert sorted(seen) == [(0.1, 40), (5.0, 40)]
    assert_scores(found, X, y, WEIGHT)
    best = clone(found).set_params(refit=True).fit(X, y, sample_weight=WEIGHT)
    alone = fitted_alone(found.estimator, found.best_params_, X, y, WEIGHT)
    np.testing.assert_array_equal(best.predict(X), alone.predict(X))


def test_settings_keep_what_other_grids_change():
    X, y = data(1)
    grid = [{"svc__C": [64.0]}, {"svc__gamma": [0.1, 5.0]}, {"standardscaler": [MinMaxScaler()]}]
    assert_scores(LOOSearch(make_pipeline(StandardScaler(), SVC()), grid).fit(X, y), X, y)
    assert_scores(LOOSearch(SVC(), [{"C": [64.0]}, {"gamma": [0.1, 5.0]}]).fit(X, y), X, y)
    assert_scores(LOOSearch(make_pipeline(SVC()), [{}, {"svc__C": [9.0]}]).fit(X, y), X, y)


def test_values_that_look_alike_in_print_are_told_apart():
    one, other = np.ones(2000), np.ones(2000)
    other[1000:1002] = 0.0
    assert repr(one) == repr(other)
    found = stretched(SVC(gamma=1.0), lambda X, by: X * by[1000:1002], [one, other])
    assert_scores(found.fit(*data(1)), *data(1))


# -- what goes wrong --------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_settings_that_cannot_be_fitted_are_last(n_jobs):
    X, y = (part[2:] for part in data())
    found = LOOSearch(NuSVC(), {"nu": [1.0, 0.7, 0.5]}, n_jobs=n_jobs)
    with pytest.warns(FitFailedWarning, match=r"'nu': 1.0\}.*gets nan: nu=1.0 is infeasible"):
        table = found.fit(X, y).cv_results_
    assert np.isnan([table["mean_test_score"][0], table["std_test_score"][0]]).all()
    assert table["rank_test_score"][0] == 3
    assert table["loo_kind"].tolist() == ["failed"] + ["exact at fixed C"] * 2
    with pytest.warns(FitFailedWarning, match="gets 0.25: C must be a positive number"):
        found = LOOSearch(SVC(), {"C": [-1.0, 1.0]}, error_score=0.25, n_jobs=n_jobs).fit(X, y)
    assert found.cv_results_["mean_test_score"][0] == 0.25
    for options in ({"error_score": "raise"}, {"param_grid": {"nu": [1.0, 0.99]}}):
        found = LOOSearch(NuSVC(), {"nu": [0.5, 1.0]}, n_jobs=n_jobs).set_params(**options)
        with pytest.raises(ValueError, match="is infeasible"):
            found.fit(X, y)
    assert not hasattr(found, "cv_results_")  # where all settings failed


def test_a_transformer_that_fails_takes_its_own_settings_along():
    def refuse(X, by):
        if by:
            raise RuntimeError("refused")
        return X

    found = stretched(SVR(), refuse, [True, False])
    with pytest.warns(FitFailedWarning, match=r"'by': True\}.*gets nan: refused") as caught:
        found.fit(*data())
    assert len(caught) == 2
    assert found.cv_results_["loo_kind"].tolist() == ["failed"] * 2 + ["exact"] * 2
    with pytest.raises(RuntimeError, match="refused"):
        found.set_params(error_score="raise").fit(*data())


BAD = [
    ({"param_grid": {"c": [1.0]}}, r"param_grid must .* got \{'c': 1.0\}.*'c' for estimator SVC"),
    ({"param_grid": []}, r"param_grid must be .* got param_grid=\[\]"),
    ({"param_grid": {"C": []}}, "parameter 'C' need.* non-empty sequence"),
    ({"method": "loo"}, 'method must be "exact" or "linear_response"; got method=\'loo\''),
    ({"refit": "accuracy"}, "refit must be True or False; got refit='accuracy'"),
    ({"n_jobs": 0}, "n_jobs must be None, a positive integer or -1; got n_jobs=0"),
    ({"n_jobs": -3}, "n_jobs must be .* got n_jobs=-3"),
    ({"error_score": "nan"}, "error_score must be \"raise\" or a number; got error_score='nan'"),
    ({"estimator": LibSVC()}, "estimator must be SVC, NuSVC, .* got estimator=SVC"),
    ({"estimator": make_pipeline(SVC(), "passthrough"), "param_grid": {}}, "estimator must be"),
]


@pytest.mark.parametrize(("changes", "message"), BAD, ids=lambda value: str(value)[:30])
def test_bad_arguments_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        LOOSearch(SVC(), COSTS).set_params(**changes).fit(*data())


@pytest.mark.parametrize("estimator", [SVC(), LinearSVC(), make_pipeline(SVC())], ids=str)
def test_bad_data_is_not_blamed_on_the_settings(estimator):
    X, y = data()
    found = LOOSearch(estimator, {"svc__C" if hasattr(estimator, "steps") else "C": [1.0, 2.0]})
    for arguments, message in [
        ((np.where(X > 1.5, np.nan, X), y), "NaN"),
        ((X, np.ones(40)), "at least two classes; got one class"),
        ((X, y[:-1]), "inconsistent numbers of samples"),
        ((3.0, y), "Expected 2D array"),
        ((X, y, -np.ones(40)), "(?i)negative"),
    ]:
        with pytest.raises(ValueError, match=message):
            found.fit(*arguments)


# -- interrupts and progress ------------------------------------------------------------------


@pytest.mark.parametrize(("estimator", "done"), [(SVC(), [0, 2]), (LinearSVC(), [0, 1])], ids=str)
def test_an_interrupt_keeps_the_settings_that_are_done(estimator, done, monkeypatch):
    """A shared kernel works in the order of C, the table has the order of the grid."""
    costs = np.array([0.125, 64.0, 1.0, 8.0])
    found = LOOSearch(estimator, {"C": costs}).fit(*data())
    whole = found.cv_results_["mean_test_score"]
    turns = iter([False, False, True])

    def interrupted(original):
        def score(*arguments):
            if next(turns):
                raise KeyboardInterrupt
            return original(*arguments)

        return score

    monkeypatch.setattr(SharedKernel, "score", interrupted(SharedKernel.score))
    monkeypatch.setattr(search_run, "score_alone", interrupted(search_run.score_alone))
    with pytest.raises(KeyboardInterrupt):
        found.fit(*data())
    assert found.cv_results_["params"] == [{"C": C} for C in costs[done]]
    assert found.cv_results_["mean_test_score"].tolist() == whole[done].tolist()
    assert found.best_index_ == whole[done].argmax()
    assert found.best_params_ == {"C": costs[done][found.best_index_]}
    assert found.best_score_ == whole[done].max()
    with pytest.raises(NotFittedError):  # no answer from the fit before
        found.predict(data()[0])


PROGRAM = """
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from widemargin import SVC, LOOSearch

def scaled(X, by):
    print(by, flush=True)
    return by * X

rng = np.random.default_rng(0)
X, y = rng.normal(size=(500, 3)), rng.integers(0, 2, 500)
pipeline = make_pipeline(FunctionTransformer(scaled), SVC())
grid = {"functiontransformer__kw_args": [{"by": by} for by in range(1, 501)]}
search = LOOSearch(pipeline, grid)
try:
    search.fit(X, y)
    print("FINISHED")
except KeyboardInterrupt:
    print("KEPT", len(search.cv_results_["params"]), search.best_params_ is not None)
"""


def test_a_real_interrupt():
    environment = {**os.environ, "PYTHONPATH": str(Path(widemargin.__file__).parents[1])}
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        guard = threading.Timer(120.0, child.kill)  # a signal that is lost must not hang the suite
        guard.start()
        while child.stdout.readline() not in ("3\n", ""):
            pass  # when the third setting begins, two are done
        child.send_signal(signal.SIGINT)
        *_, last = child.stdout.read().splitlines()
        guard.cancel()
    word, rows, best = last.split()
    assert (word, best) == ("KEPT", "True")
    assert 2 <= int(rows) < 500


def test_a_bar_is_shown_when_asked_for(capsys):
    found = LOOSearch(SVC(), GRID, verbose=1).fit(*data())
    out = capsys.readouterr().out
    assert "leave-one-out search" in out
    assert f"6/6, least error {1 - found.best_score_:.4g}" in out
    LOOSearch(SVC(), GRID).fit(*data())
    assert capsys.readouterr().out == ""
