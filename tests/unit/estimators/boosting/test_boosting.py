"""AdaBoostClassifier: its interface, early ends, other base learners, several classes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from widemargin import AdaBoostClassifier
from widemargin.cli._model_file import trusted_types
from widemargin.problems.boosting import RegularisedLoss
from widemargin.solvers.boosting import Stump
from widemargin.solvers.boosting.rounds import best_step

TREE = DecisionTreeClassifier(max_depth=2)


def _data(n: int = 120, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=n) > 1).astype(int)
    return X, y


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"n_rounds": 0}, "n_rounds must be a positive integer; got n_rounds=0"),
        ({"n_rounds": 2.5}, "n_rounds"),
        ({"n_rounds": True}, "n_rounds"),
        ({"reg": -1.0}, "reg must be a number, not negative"),
        ({"reg": np.nan}, "reg"),
        ({"reg": 1.0, "reg_power": 0.5}, "reg_power must be a number, at least 1"),
        ({"binning": "coarse"}, 'binning must be "exact" or "histogram"'),
        ({"time_limit": 0.0}, "time_limit"),
        ({"cache_size": 0}, "cache_size"),
        ({"random_state": -3}, "random_state"),
        ({"base": TREE.__class__}, "base must be .* pass an instance"),
        ({"base": "stump"}, "base must be None or a classifier"),
        ({"base": LinearRegression()}, "base must be a classifier"),
        ({"base": KNeighborsClassifier()}, "base must have a fit that takes sample_weight"),
        ({"base": make_pipeline(StandardScaler(), TREE)}, "base must have a fit that takes"),
    ],
)
def test_parameters_are_refused(params, match) -> None:
    X, y = _data(30)
    with pytest.raises(ValueError, match=match):
        AdaBoostClassifier(**params).fit(X, y)


def test_data_are_refused() -> None:
    X, y = _data(30)
    with pytest.raises(ValueError, match="one class"):
        AdaBoostClassifier().fit(X, np.ones(30))
    with pytest.raises(ValueError, match="one class"):
        AdaBoostClassifier().fit(X, y, sample_weight=(y == 1).astype(float))
    with pytest.raises(ValueError, match="NaN"):
        AdaBoostClassifier().fit(np.where(X > 2, np.nan, X) + np.nan, y)
    with pytest.raises(ValueError, match="continuous"):
        AdaBoostClassifier().fit(X, X[:, 0])
    with pytest.raises(NotFittedError):
        AdaBoostClassifier().predict(X)
    assert not hasattr(AdaBoostClassifier(), "estimators_")


def test_parameters_without_effect_are_named() -> None:
    X, y = _data(30)
    with pytest.warns(UserWarning, match="reg_power=1 has no effect"):
        AdaBoostClassifier(3, reg_power=1).fit(X, y)
    with pytest.warns(UserWarning, match="binning='histogram' has no effect"):
        AdaBoostClassifier(3, base=TREE, binning="histogram").fit(X, y)


def test_memory_is_checked_before_it_is_taken() -> None:
    X = sp.random_array((2000, 3000), density=0.01, random_state=np.random.default_rng(0)).tocsr()
    with pytest.raises(ValueError, match=r"cache_size must be at least 6 megabytes.*cache_size=5"):
        AdaBoostClassifier(cache_size=5).fit(X, np.arange(2000) % 2)


# --------------------------------------------------------------------- early ends


def test_a_hypothesis_without_error_is_the_model() -> None:
    X, _ = _data()
    y = np.where(X[:, 2] > 0.3, "yes", "no")
    model = AdaBoostClassifier().fit(X, y)
    assert model.stopped_ == "perfect"
    assert model.n_rounds_ == 1
    assert model.alphas_.tolist() == [1.0]
    assert model.errors_.tolist() == [0.0]
    assert model.estimators_[0].feature == 2
    np.testing.assert_array_equal(model.margins_, 1.0)
    np.testing.assert_array_equal(np.abs(model.decision_function(X)), 1.0)
    assert model.margin_bound(0.5) == 0.0


class _Late(DecisionTreeClassifier):
    """A tree that is a stump while the weights are equal, and deep afterwards."""

    def fit(self, X, y, sample_weight=None):
        self.set_params(max_depth=1 if np.ptp(sample_weight) < 1e-9 else None)
        return super().fit(X, y, sample_weight=sample_weight)


def test_a_late_hypothesis_without_error_replaces_the_others() -> None:
    X, y = _data()
    model = AdaBoostClassifier(base=_Late()).fit(X, y)
    assert model.stopped_ == "perfect"
    assert model.n_rounds_ == 1
    np.testing.assert_array_equal(model.margins_, 1.0)


def test_no_edge_left_keeps_the_earlier_rounds() -> None:
    """One feature of two values: after one round no stump is better than a coin."""
    X = np.repeat([[0.0], [1.0]], 10, axis=0)
    y = np.array([0] * 8 + [1] * 2 + [1] * 8 + [0] * 2)
    model = AdaBoostClassifier().fit(X, y)
    assert model.stopped_ == "no_edge"
    assert model.n_rounds_ == 1
    assert model.errors_[0] == pytest.approx(0.2)
    assert model.margin_limit_ == 0.0
    assert model.score(X, y) == 0.8


@pytest.mark.parametrize("reg", [0.0, 5.0])
@pytest.mark.parametrize("base", [None, TREE])
def test_no_edge_at_all_is_a_constant_with_a_warning(base, reg: float) -> None:
    """Equal rows of two classes, the same number of each."""
    X, y = np.ones((8, 2)), np.arange(8) % 2
    with pytest.warns(UserWarning, match="constant of the heavier class"):
        model = AdaBoostClassifier(base=base, reg=reg).fit(X, y)
    assert model.stopped_ == "no_edge_at_all"
    assert model.n_rounds_ == 1
    assert model.predict(X).tolist() == [1] * 8
    np.testing.assert_array_equal(model.margins_, np.where(y == 1, 1.0, -1.0))


class _Wrong(DecisionTreeClassifier):
    """A classifier that says the opposite of what it has learnt."""

    def predict(self, X):
        return -super().predict(X)


def test_a_base_worse_than_a_coin_gives_the_constant() -> None:
    X, y = _data()
    with pytest.warns(UserWarning, match="base is too weak"):
        model = AdaBoostClassifier(base=_Wrong(max_depth=2)).fit(X, y)
    assert model.stopped_ == "no_edge_at_all"
    assert set(model.predict(X)) == {np.bincount(y).argmax()}
    assert model.errors_[0] == pytest.approx(min(y.mean(), 1 - y.mean()))


def test_the_time_limit_keeps_the_rounds_made() -> None:
    X, y = _data()
    with pytest.warns(ConvergenceWarning, match="time_limit=1e-09 was reached after 1 of 50"):
        model = AdaBoostClassifier(time_limit=1e-9).fit(X, y)
    assert model.stopped_ == "time_limit"
    assert model.n_rounds_ == 1
    assert model.score(X, y) > 0.6


def test_a_regularisation_beyond_all_margins_ends_the_run() -> None:
    """C mu^p above 1 for every row: the loss falls along any hypothesis for ever."""
    X, y = _data(20)
    model = AdaBoostClassifier(reg=1e9).fit(X, y)
    assert model.stopped_ == "reg"
    assert model.n_rounds_ == 1


def test_long_runs_do_not_overflow() -> None:
    X, y = make_moons(200, noise=0.1, random_state=0)
    model = AdaBoostClassifier(3000).fit(X, y)
    assert model.n_rounds_ == 3000
    assert np.isfinite(model.alphas_).all()
    assert (model.alphas_ > 0).all()
    assert (model.margins_ > 0).all()
    assert 0 < model.margin_bound(0.0) < 1e-6
    assert model.margin_bound(0.0) >= (model.margins_ < 0).mean()


# ----------------------------------------------------------------- other base learners


@pytest.mark.parametrize("base", [LogisticRegression(), TREE, DecisionTreeClassifier(max_depth=1)])
@pytest.mark.parametrize("reg", [0.0, 10.0])
def test_any_classifier_with_weights_is_a_base(base, reg: float) -> None:
    X, y = _data(200)
    model = AdaBoostClassifier(8, base=base, reg=reg).fit(X, y)
    assert all(type(g) is type(base) for g in model.estimators_)
    assert all(set(g.classes_) == {-1, 1} for g in model.estimators_)
    votes = np.array([g.predict(X) for g in model.estimators_])
    f = model.alphas_ @ votes / model.alphas_.sum()
    np.testing.assert_allclose(model.decision_function(X), f, atol=1e-14)
    np.testing.assert_allclose(model.margins_, np.where(y == 1, f, -f), atol=1e-14)
    assert model.score(X, y) >= base.fit(X, y).score(X, y) - 0.02
    with pytest.raises(AttributeError, match="stumps only"):
        _ = model.feature_importances_
    with pytest.raises(AttributeError, match="stumps only"):
        _ = model.margin_limit_


def test_the_first_clone_sees_the_sample_weights_themselves() -> None:
    """Otherwise the C of a base would mean something else than without boosting."""
    X, y = _data(100)
    weight = np.random.default_rng(0).integers(1, 4, 100).astype(float)
    model = AdaBoostClassifier(1, base=LogisticRegression()).fit(X, y, sample_weight=weight)
    alone = LogisticRegression().fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.estimators_[0].coef_, alone.coef_, rtol=1e-3, atol=1e-3)


def test_seeds_of_a_base_are_drawn_from_random_state() -> None:
    X, y = _data(200)
    base = DecisionTreeClassifier(max_depth=2, splitter="random")
    fit = [AdaBoostClassifier(5, base=base, random_state=s).fit(X, y) for s in (3, 3, 4)]
    values = [model.decision_function(X) for model in fit]
    np.testing.assert_array_equal(values[0], values[1])
    assert np.abs(values[0] - values[2]).max() > 0
    seeds = [g.random_state for g in fit[0].estimators_]
    assert len(set(seeds)) == len(seeds)
    assert base.random_state is None


class SparseTree(DecisionTreeClassifier):
    """A tree that says that it takes sparse rows; scikit-learn's own do so from 1.7 on."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def test_a_base_that_reads_sparse_rows_gets_them() -> None:
    X, y = _data()
    sparse = AdaBoostClassifier(4, base=SparseTree(max_depth=2)).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(
        sparse.decision_function(sp.csr_array(X)),
        AdaBoostClassifier(4, base=TREE).fit(X, y).decision_function(X),
    )


# --------------------------------------------------------------------- several classes


def test_three_classes_are_three_machines() -> None:
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = AdaBoostClassifier(20).fit(X, names)
    values = model.decision_function(X)
    assert values.shape == (150, 3)
    assert model.stopped_ == ["perfect", "n_rounds", "n_rounds"]
    assert model.n_rounds_ == 20
    assert model.margin_limit_.shape == (3,)
    assert model.margin_limit_[0] == 1.0
    for k, name in enumerate(model.classes_):
        alone = AdaBoostClassifier(20).fit(X, names == name)
        np.testing.assert_allclose(values[:, k], alone.decision_function(X), atol=1e-14)
        np.testing.assert_allclose(model.errors_[k], alone.errors_, atol=1e-14)
        assert model.estimators_[k] == alone.estimators_
    own = values[np.arange(150), y]
    others = np.where(np.eye(3, dtype=bool)[y], -np.inf, values).max(axis=1)
    np.testing.assert_allclose(model.margins_, (own - others) / 2)
    np.testing.assert_array_equal(model.predict(X), model.classes_[values.argmax(axis=1)])


def test_the_bound_of_several_classes_is_the_sum() -> None:
    X, y = load_iris(return_X_y=True)
    X = X[:, :2]  # not separable
    model = AdaBoostClassifier(20).fit(X, y)
    parts = [AdaBoostClassifier(20).fit(X, y == k).margin_bound(0.05) for k in range(3)]
    assert model.margin_bound(0.05) == pytest.approx(sum(parts))
    for rho in (0.0, 0.05, 0.1):
        assert (model.margins_ < rho).mean() <= model.margin_bound(rho)


# ----------------------------------------------------------------------- prediction


@pytest.mark.parametrize("n_classes", [2, 3])
def test_staged_results_end_at_the_model(n_classes: int) -> None:
    X, _ = _data()
    y = np.digitize(X[:, 0] + X[:, 1] ** 2, [0.5, 2.0][: n_classes - 1])
    model = AdaBoostClassifier(12).fit(X, y)
    values = list(model.staged_decision_function(X))
    margins = list(model.staged_margins(X, y))
    labels = list(model.staged_predict(X))
    assert len(values) == len(margins) == len(labels) == model.n_rounds_
    np.testing.assert_array_equal(values[-1], model.decision_function(X))
    np.testing.assert_array_equal(margins[-1], model.margins_)
    np.testing.assert_array_equal(labels[-1], model.predict(X))
    early = AdaBoostClassifier(3).fit(X, y)
    np.testing.assert_array_equal(margins[2], early.margins_)


def test_staged_margins_want_known_labels() -> None:
    X, y = _data()
    model = AdaBoostClassifier(3).fit(X, y)
    with pytest.raises(ValueError, match=r"y must hold labels among the classes \[0, 1\]; got 7"):
        next(model.staged_margins(X, np.full(len(y), 7)))
    with pytest.raises(ValueError, match="a label for each of the 120 rows"):
        next(model.staged_margins(X, y[:5]))


def test_probabilities_follow_the_logistic_link() -> None:
    X, y = _data()
    model = AdaBoostClassifier(10).fit(X, y)
    F = model.decision_function(X) * model.alphas_.sum()
    p = model.predict_proba(X)
    np.testing.assert_allclose(p[:, 1], 1.0 / (1.0 + np.exp(-2.0 * F)), rtol=1e-12)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(p))


def test_sparse_rows_are_read_as_dense_ones() -> None:
    X, y = _data()
    X[np.abs(X) < 0.7] = 0.0
    dense, sparse = (AdaBoostClassifier(10).fit(store(X), y) for store in (np.array, sp.csr_array))
    assert dense.estimators_ == sparse.estimators_
    np.testing.assert_array_equal(
        dense.decision_function(X), sparse.decision_function(sp.csr_array(X))
    )


def test_arrays_that_must_not_be_written_to() -> None:
    X, y = _data(6000)
    expected = AdaBoostClassifier(5).fit(X, y).decision_function(X)
    for order in "CF":
        frozen = np.array(X, order=order)
        frozen.setflags(write=False)
        model = AdaBoostClassifier(5).fit(frozen, y)
        np.testing.assert_array_equal(model.decision_function(frozen), expected)


@pytest.mark.parametrize("n", [200, 7000])
def test_float32_rows_are_cut_between_their_values(n: int) -> None:
    X, y = _data(n)
    single = X.astype(np.float32)
    one, other = (AdaBoostClassifier(10).fit(x, y) for x in (single, single.astype(np.float64)))
    assert one.estimators_ == other.estimators_
    np.testing.assert_array_equal(one.decision_function(single), other.decision_function(single))


def test_margins_of_rows_without_weight() -> None:
    X, y = _data()
    weight = np.ones(len(y))
    weight[:10] = 0.0
    labels = y.copy()
    labels[0] = 5  # a class that no row of positive weight has
    model = AdaBoostClassifier(10).fit(X, labels, sample_weight=weight)
    assert model.classes_.tolist() == [0, 1]
    f = model.decision_function(X)
    assert np.isnan(model.margins_[0])
    np.testing.assert_allclose(model.margins_[1:], np.where(y == 1, f, -f)[1:], atol=1e-14)


def test_importances_are_shares_of_the_coefficients() -> None:
    X, y = _data()
    model = AdaBoostClassifier(15).fit(X, y)
    by_hand = np.zeros(4)
    for stump, alpha in zip(model.estimators_, model.alphas_, strict=True):
        by_hand[stump.feature] += alpha * np.isfinite(stump.threshold)
    np.testing.assert_allclose(model.feature_importances_, by_hand / by_hand.sum())
    assert model.feature_importances_[:2].sum() > 0.5


def test_the_bound_is_not_given_for_regularised_runs() -> None:
    X, y = _data()
    with pytest.raises(ValueError, match="reg=0"):
        AdaBoostClassifier(5, reg=10.0).fit(X, y).margin_bound(0.1)


def test_regularisation_lets_hard_rows_go() -> None:
    """With label noise, the heaviest rows keep smaller margins, others gain."""
    rng = np.random.default_rng(0)
    X, y = _data(300)
    flipped = rng.random(300) < 0.1
    y = np.where(flipped, 1 - y, y)
    plain = AdaBoostClassifier(60).fit(X, y)
    soft = AdaBoostClassifier(60, reg=1e4).fit(X, y)
    assert soft.margins_.min() < plain.margins_.min()
    assert np.median(soft.margins_) > np.median(plain.margins_)
    assert soft.margins_[flipped].mean() < plain.margins_[flipped].mean()


# ------------------------------------------------------------------------ the loss


@pytest.mark.parametrize("power", [1.0, 2.0, 2.5])
def test_the_slope_is_the_derivative_of_the_loss(power: float) -> None:
    rng = np.random.default_rng(0)
    n = 30
    weight = rng.integers(1, 4, n).astype(float)
    loss = RegularisedLoss.empty(weight, 3.0, power)
    for _ in range(3):
        share = loss.distribution() / weight
        loss = replace(loss, agrees=rng.choice([-1.0, 1.0], n), share=share)
        for b in (0.3, 1.0):
            sums = [float(weight @ np.exp(-loss.exponent(b + h))) for h in (-1e-5, 0.0, 1e-5)]
            derivative = (sums[2] - sums[0]) / 2e-5
            assert loss.slope(b) == pytest.approx(derivative / (0.5 * sums[1]), abs=1e-7)
        loss = loss.after(0.4)


def test_a_step_along_which_the_loss_rises_is_not_taken() -> None:
    """The rows of the new hypothesis weigh little now, and used to weigh much: mu would fall."""
    n, ones = 4, np.ones(4)
    loss = RegularisedLoss(ones, 0.0 * ones, ones, 1.0, 10.0, 2.0, ones, ones / n)
    agrees = np.array([1.0, 1.0, 1.0, -1.0])
    along = replace(loss, agrees=agrees, share=ones / n)
    assert along.slope(0.0) > 0.0
    assert best_step(along, 0.25) == 0.0
    plain = replace(along, C=0.0)
    assert best_step(plain, 0.25) == pytest.approx(np.log(3.0), rel=1e-12)


# ------------------------------------------------------------------------ a citizen


@pytest.mark.parametrize("base", [None, LogisticRegression()])
def test_model_files_hold_plain_types(base) -> None:
    X, y = _data()
    model = AdaBoostClassifier(4, base=base).fit(X, y)
    stored = skops.io.dumps(model)
    assert set(skops.io.get_untrusted_types(data=stored)) <= set(trusted_types())
    again = skops.io.loads(stored, trusted=trusted_types())
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_verbose_shows_the_rounds(capsys) -> None:
    X, y = _data()
    AdaBoostClassifier(4, verbose=1).fit(X, y)
    shown = capsys.readouterr().out
    assert "AdaBoostClassifier" in shown
    assert "weighted error" in shown


def test_stumps_are_named_tuples_and_clones_are_fresh() -> None:
    X, y = _data()
    model = AdaBoostClassifier(4).fit(X, y)
    assert all(isinstance(stump, Stump) for stump in model.estimators_)
    assert not hasattr(clone(model), "margins_")
    assert "AdaBoostClassifier" in repr(model)


@pytest.mark.parametrize("binning", ["exact", "histogram"])
def test_threads_do_not_change_a_bit(binning: str) -> None:
    """One thread, all of them, and four fits at once."""
    X, y = _data(20_000)
    X = np.column_stack([X] * 12) + 0.1 * np.random.default_rng(1).normal(size=(20_000, 48))

    def bits(_: object = None):
        model = AdaBoostClassifier(6, binning=binning).fit(X, y)
        return [model.estimators_, model.alphas_.tolist(), model.margins_.tolist()]

    with threadpool_limits(1):
        alone = bits()
    assert bits() == alone
    with ThreadPoolExecutor(4) as pool:
        assert all(found == alone for found in pool.map(bits, range(4)))
