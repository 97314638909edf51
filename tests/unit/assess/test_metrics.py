"""The preference risk against its definition, and the scorer inside scikit-learn's tools."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import CumulativeLinkClassifier, OrdinalSVC
from widemargin.assess.metrics import PreferenceScorer, preference_risk, preference_scorer


def _by_pairs(y, score, qid, weight, scaled: bool, ties: float) -> float:
    """(2.11)-(2.13) written out: every unordered pair once."""
    wrong = comparable = 0.0
    for i in range(len(y)):
        for j in range(len(y)):
            if y[i] > y[j] and qid[i] == qid[j]:
                pair = weight[i] * weight[j]
                comparable += pair
                wrong += pair * (score[i] < score[j]) + ties * pair * (score[i] == score[j])
    if comparable == 0:
        return np.nan
    return wrong / comparable if scaled else 2 * wrong / sum(weight) ** 2


rows = st.lists(
    st.tuples(
        st.integers(-2, 3),
        st.sampled_from([-1.5, 0.0, 0.25, 1.0, 2.0, np.inf]),
        st.integers(0, 2),
        st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    ),
    min_size=2,
    max_size=25,
)


@given(rows, st.booleans(), st.sampled_from([0.5, 1.0]), st.booleans(), st.booleans())
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_equals_the_sum_over_all_pairs(data, scaled, ties, grouped, weighted) -> None:
    y, score, qid, weight = (np.array(column) for column in zip(*data, strict=True))
    qid = qid if grouped else np.zeros(len(y))
    weight = weight if weighted and weight.any() else np.ones(len(y))
    found = preference_risk(
        y, score, qid if grouped else None, scaled=scaled, ties=ties,
        sample_weight=weight if weighted else None,
    )  # fmt: skip
    np.testing.assert_allclose(found, _by_pairs(y, score, qid, weight, scaled, ties), rtol=1e-13)


def test_one_value_by_hand() -> None:
    """m = 4, ranks 1 2 2 3: five comparable pairs, one reversed and one tied."""
    y, score = [1, 2, 2, 3], [0.5, 0.1, 0.7, 0.7]
    assert preference_risk(y, score) == 2 * 2 / 16
    assert preference_risk(y, score, scaled=True) == 2 / 5
    assert preference_risk(y, score, scaled=True, ties=0.5) == 1.5 / 5


def test_half_ties_of_two_ranks_are_the_area_under_the_curve() -> None:
    rng = np.random.default_rng(0)
    y, score = rng.integers(0, 2, 400), rng.integers(0, 9, 400)
    weight = rng.uniform(0, 2, 400)
    risk = preference_risk(y, score, scaled=True, ties=0.5, sample_weight=weight)
    assert 1 - risk == pytest.approx(roc_auc_score(y, score, sample_weight=weight), rel=1e-12)


def test_many_rows_of_all_different_ranks() -> None:
    """Far beyond what pairs allow: 2 x 10^10 of them, counted exactly."""
    rng = np.random.default_rng(0)
    y = rng.permutation(200_000)
    score = y + rng.normal(scale=2e4, size=len(y))
    risk = preference_risk(y, score, scaled=True)
    assert risk == pytest.approx((1 - kendalltau(y, score).statistic) / 2, rel=1e-10)
    qid = rng.integers(0, 50_000, len(y))
    half = preference_risk(y, np.zeros(len(y)), qid, scaled=True, ties=0.5)
    assert half == 0.5
    counts = np.bincount(qid).astype(float)
    every = preference_risk(y, -y, qid)
    assert every == pytest.approx((counts * (counts - 1)).sum() / len(y) ** 2, rel=1e-14)


def test_only_orders_matter() -> None:
    rng = np.random.default_rng(1)
    y, score = rng.integers(0, 5, 60), rng.normal(size=60)
    qid = rng.integers(0, 4, 60)
    risk = preference_risk(y, score, qid)
    names = np.array(["q9", "q1", "q5", "q0"])[qid]
    assert preference_risk(np.exp(y), score**3, names) == risk
    assert preference_risk(-y, -score, qid) == risk
    order = rng.permutation(60)
    assert preference_risk(y[order], score[order], qid[order]) == risk
    twice = np.concatenate([np.arange(60)] * 2)
    assert preference_risk(y[twice], score[twice], qid[twice]) == pytest.approx(risk, rel=1e-14)


def test_constant_scores_are_all_wrong() -> None:
    assert preference_risk([1, 2, 3], [0, 0, 0], scaled=True) == 1.0
    assert preference_risk([1, 2, 3], [0, 0, 0], scaled=True, ties=0.5) == 0.5
    assert preference_risk([1, 2, 3], [1, 2, 3], scaled=True) == 0.0


@pytest.mark.parametrize("scaled", [True, False])
def test_nothing_to_compare_is_nan_and_not_zero(scaled: bool) -> None:
    with pytest.warns(UndefinedMetricWarning, match="no two rows have different ranks"):
        assert np.isnan(preference_risk([2, 2], [0, 1], scaled=scaled))
    with pytest.warns(UndefinedMetricWarning, match="no two rows of the same query") as caught:
        assert np.isnan(preference_risk([1, 2], [0, 1], qid=[0, 1], scaled=scaled))
    assert caught[0].filename == __file__
    with pytest.warns(UndefinedMetricWarning):
        assert np.isnan(preference_risk([1, 2], [0, 1], sample_weight=[1, 0], scaled=scaled))


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_categoricals_bring_their_order(kind: str) -> None:
    names = ["low", "medium", "high"]
    words, guess = ["high", "low", "medium"], ["high", "medium", "medium"]
    if kind == "pandas":
        y, other = (pd.Categorical(w, names, ordered=True) for w in (words, guess))
    else:
        y, other = (pl.Series(w, dtype=pl.Enum(names)) for w in (words, guess))
    for score in (other, guess, np.array(guess), [2, 1, 1]):
        assert preference_risk(y, score, scaled=True) == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="score holds 'none', not among the categories of y"):
        preference_risk(y, ["high", "none", "low"])


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ((["b", "a"], [1, 2]), {}, "y must hold numbers.*Plain strings have no order"),
        (([1, 2], ["b", "a"]), {}, "score must hold numbers"),
        (([1, np.nan], [1, 2]), {}, "y must not contain NaN"),
        (([1, 2], [np.nan, 2]), {}, "score must not contain NaN"),
        (([1, None], [1, 2]), {}, "y must not contain NaN"),
        (([1, 2, 3], [1, 2]), {}, "inconsistent numbers of samples"),
        (([1, 2], [1, 2], [1]), {}, "inconsistent numbers of samples"),
        (([1, 2], [[1, 2], [3, 4]]), {}, "score must be an array with one axis"),
        (([], []), {}, "y must be an array with at least one entry"),
        (([1, 2], [1, 2]), {"ties": 0.3}, "ties must be 1.0 or 0.5; got ties=0.3"),
        (([1, 2], [1, 2]), {"scaled": "no"}, "scaled must be True or False"),
        (([1, 2], [1, 2]), {"sample_weight": [1, -1]}, "sample_weight must be finite"),
        (([1, 2], [1, 2]), {"sample_weight": [1, np.inf]}, "sample_weight must be finite"),
    ],
)
def test_bad_input_is_named(arrays: tuple, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        preference_risk(*arrays, **options)


# ---------------------------------------------------------------- the scorer


def _grades(n: int = 120, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.digitize(X @ [2.0, -1.0, 0.5] + rng.logistic(size=n), [-2.0, 0.0, 2.0])
    return X, y, rng.integers(0, 12, n)


def test_utilities_are_judged_where_there_are_any() -> None:
    X, y, qid = _grades()
    scorer = preference_scorer()
    model = CumulativeLinkClassifier().fit(X, y)
    expected = 1 - preference_risk(y, X @ model.coef_, qid, scaled=True)
    assert scorer(model, X, y, qid=qid) == pytest.approx(expected, rel=1e-14)
    pipe = make_pipeline(StandardScaler(), CumulativeLinkClassifier()).fit(X, y)
    inner = pipe[-1].utility(pipe[0].transform(X))
    expected = 1 - preference_risk(y, inner, scaled=True, ties=0.5)
    assert preference_scorer(ties=0.5)(pipe, X, y) == expected
    search = GridSearchCV(pipe, {"cumulativelinkclassifier__alpha": [0.1]}, cv=2).fit(X, y)
    inner = search.best_estimator_[-1].utility(search.best_estimator_[0].transform(X))
    assert scorer(search, X, y) == 1 - preference_risk(y, inner, scaled=True)


def test_other_models_are_judged_by_what_they_have() -> None:
    X, y, _ = _grades()
    scorer = preference_scorer(scaled=False)
    regression = LinearRegression().fit(X, y)
    assert scorer(regression, X, y) == 1 - preference_risk(y, regression.predict(X))
    two = LogisticRegression().fit(X, y > 1)
    assert scorer(two, X, y > 1) == 1 - preference_risk(y > 1, two.decision_function(X))
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    assert scorer(forest, X, y) == 1 - preference_risk(y, forest.predict(X))


def test_words_have_the_order_of_the_model() -> None:
    X, y, _ = _grades()
    names = np.array(["bad", "poor", "good", "fine"])
    model = CumulativeLinkClassifier(classes=names.tolist()).fit(X, names[y])
    scorer = preference_scorer()
    expected = 1 - preference_risk(y, model.utility(X), scaled=True)
    assert scorer(model, X, names[y]) == expected
    forest = RandomForestClassifier(5, random_state=0).fit(X, names[y])
    codes = {name: k for k, name in enumerate(sorted(names))}
    truth, guess = ([codes[w] for w in words] for words in (names[y], forest.predict(X)))
    assert scorer(forest, X, names[y]) == 1 - preference_risk(truth, guess, scaled=True)
    with pytest.raises(ValueError, match="y holds 'awful', not among classes: 'bad'"):
        scorer(model, X[:2], ["awful", "bad"])


def test_queries_are_routed_through_a_search() -> None:
    """Every fold is scored within its queries, which GroupKFold keeps whole."""
    X, y, qid = _grades(200)
    with sklearn.config_context(enable_metadata_routing=True):
        machine = CumulativeLinkClassifier().set_fit_request(sample_weight=False)
        search = GridSearchCV(
            make_pipeline(StandardScaler().set_fit_request(sample_weight=False), machine),
            {"cumulativelinkclassifier__alpha": [0.1, 1e4]},
            scoring=preference_scorer(),
            cv=GroupKFold(3).set_split_request(groups=True),
        )
        search.fit(X, y, qid=qid, groups=qid)
        for k, (train, test) in enumerate(GroupKFold(3).split(X, y, qid)):
            model = make_pipeline(StandardScaler(), CumulativeLinkClassifier(alpha=0.1))
            value = preference_scorer()(
                model.fit(X[train], y[train]), X[test], y[test], qid=qid[test]
            )
            assert search.cv_results_[f"split{k}_test_score"][0] == value


def test_weights_are_routed_on_request_only() -> None:
    X, y, _ = _grades()
    weight = np.random.default_rng(0).uniform(size=len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        plain = CumulativeLinkClassifier().set_fit_request(sample_weight=False)
        with pytest.raises(ValueError, match="sample_weight"):
            cross_validate(
                plain, X, y, scoring=preference_scorer(), params={"sample_weight": weight}, cv=2
            )
        scorer = preference_scorer().set_score_request(sample_weight="w")
        one = cross_validate(plain, X, y, scoring=scorer, params={"w": weight}, cv=2)
        two = cross_validate(plain, X, y, scoring=scorer, params={}, cv=2)
    assert (one["test_score"] != two["test_score"]).all()
    with pytest.raises(ValueError, match='request must be "qid" or "sample_weight"'):
        scorer.set_score_request(groups=True)


def test_a_search_without_routing_takes_the_scorer() -> None:
    X, y = load_iris(return_X_y=True)
    search = GridSearchCV(
        CumulativeLinkClassifier(), {"alpha": [1e-3, 1e5]}, scoring=preference_scorer(), cv=3
    ).fit(X, y)
    assert search.best_params_ == {"alpha": 1e-3}
    assert search.best_score_ > 0.98
    copy = pickle.loads(pickle.dumps(preference_scorer(ties=0.5)))
    assert repr(copy) == "preference_scorer(scaled=True, ties=0.5)"
    assert isinstance(clone(copy, safe=False), PreferenceScorer)


def test_the_scorer_takes_the_order_of_numbers_that_the_machine_was_told():
    X = np.linspace(-1.0, 1.0, 30)[:, None]
    y = np.repeat([2, 1, 0], 10)
    model = OrdinalSVC(kernel="linear", classes=[2, 1, 0]).fit(X, y)
    assert preference_scorer(scaled=True)(model, X, y) == 1.0
    assert preference_scorer(scaled=True)(model, X, y[::-1]) == 0.0
