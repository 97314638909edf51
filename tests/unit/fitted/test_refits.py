"""Leave-one-out of machines that are trained again: the four linear programs, and any other."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import LOOSVC, LPSVC, SVC, AdaptiveMarginSVC, LOOSearch, NuLPSVC, loo, suspects
from widemargin._base.validation import canonical
from widemargin.fitted import by_refit as _refits
from widemargin.fitted.by_refit import Refit, RefitTraining
from widemargin.fitted.record import Record, record_of
from widemargin.kernels import Kernel

X, Y = make_moons(70, noise=0.35, random_state=3)
MACHINES = [
    LOOSVC(gamma=1.0),
    AdaptiveMarginSVC(lam=2.0, gamma=0.7),
    LPSVC(lam=0.5, gamma=1.0),
    NuLPSVC(nu=0.4, gamma=1.0),
    AdaptiveMarginSVC(lam=2.0, gamma=0.7, loss="squared_hinge"),
]
NAMES = [*(type(machine).__name__ for machine in MACHINES[:-1]), "squared slack"]
each = pytest.mark.parametrize("machine", MACHINES, ids=NAMES)


def without(model, X, y, row, weight=None):
    """Train again without (one of) a row, at the lam of a nu machine, and ask for its value."""
    again = LPSVC(lam=model.lam_, gamma=model.gamma) if isinstance(model, NuLPSVC) else clone(model)
    weight = np.ones(len(y)) if weight is None else weight.copy()
    weight[row] -= min(1.0, weight[row])
    return again.fit(X, y, sample_weight=weight).decision_function(X[[row]])[0]


# -- values -----------------------------------------------------------------------------------


@each
def test_exact_is_what_training_without_the_row_gives(machine):
    model = clone(machine).fit(X, Y)
    result = loo.result(model)
    held = " at fixed lam" if isinstance(machine, NuLPSVC) else ""
    assert (result.method, result.kind) == ("exact", f"exact{held}")
    expected = [without(model, X, Y, row) for row in range(len(Y))]
    np.testing.assert_allclose(result.values, expected, rtol=1e-5, atol=1e-6)
    wrong = np.where(Y == 1, result.values <= 0, result.values >= 0)
    np.testing.assert_array_equal(result.errors, wrong)
    assert result.error == pytest.approx(wrong.mean())
    assert 0 < result.cost["retrained"] < len(Y)
    assert result.cost["unfinished"] == 0


@each
def test_weights(machine):
    rng = np.random.default_rng(0)
    weight = rng.choice([0.0, 0.4, 1.0, 2.5], len(Y))
    model = clone(machine).fit(X, Y, sample_weight=weight)
    values = loo.decision_values(model)
    for row in range(0, len(Y), 3):
        assert values[row] == pytest.approx(without(model, X, Y, row, weight), rel=1e-5, abs=1e-6)


@each
def test_a_weight_means_copies(machine):
    count = np.random.default_rng(1).integers(1, 4, len(Y))
    weighted = clone(machine).fit(X, Y, sample_weight=count)
    copied = clone(machine).fit(np.repeat(X, count, axis=0), np.repeat(Y, count))
    by_weight = np.repeat(loo.decision_values(weighted), count)
    np.testing.assert_allclose(loo.decision_values(copied), by_weight, rtol=1e-7, atol=1e-9)
    assert loo.error(copied) == pytest.approx(loo.error(weighted), abs=1e-12)
    for method in ("folds", "support_vectors"):
        assert loo.error(copied, method) == pytest.approx(loo.error(weighted, method), abs=1e-12)


@each
def test_rows_that_do_not_matter_change_nothing(machine):
    model = clone(machine).fit(X, Y)
    training = record_of(model).model
    others = np.flatnonzero(~training.machines[0].matters())
    assert len(others) > 10
    for row in others[:8]:
        given = int(training.data.index[row])
        fitted = model.decision_function(X[[given]])[0]
        assert without(model, X, Y, given) == pytest.approx(fitted, rel=1e-6, abs=1e-7)


def test_among_many_optima_the_one_that_training_finds():
    """Without slack any large enough coefficients are optimal, those of the fit among them."""
    X, y = make_moons(60, noise=0.1, random_state=0)
    y[38] = 1 - y[38]
    model = LOOSVC(gamma=1.0).fit(X, y)
    assert model.certificate_.primal <= 1e-9
    values = loo.decision_values(model)
    for row in (2, 17, 38):
        assert values[row] == pytest.approx(without(model, X, y, row), rel=1e-5)
    assert (values[38] > 0) != (y[38] == 1)


@pytest.mark.parametrize("machine", [AdaptiveMarginSVC(), LPSVC(lam=0.3), NuLPSVC(nu=0.1)])
def test_several_classes(machine):
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], np.array(["setosa", "versicolor", "virginica"])[y[::3]]
    gamma = 0.5
    model = clone(machine).set_params(gamma=gamma).fit(X, y)
    values = loo.decision_values(model)
    assert values.shape == (len(y), 3)
    for row in range(0, len(y), 7):
        others = np.arange(len(y)) != row
        for k, name in enumerate(model.classes_):
            one = clone(machine).set_params(gamma=gamma)
            if isinstance(machine, NuLPSVC):
                one = LPSVC(lam=model.lam_[k], gamma=gamma)
            one.fit(X[others], y[others] == name)
            expected = one.decision_function(X[[row]])[0]
            assert values[row, k] == pytest.approx(expected, rel=1e-4, abs=1e-5)
    wrong = model.classes_[values.argmax(axis=1)] != y
    assert loo.error(model) == pytest.approx(wrong.mean())


def test_representations_agree():
    machine = LPSVC(lam=0.5, gamma=1.0)
    values = loo.decision_values(clone(machine).fit(X, Y))
    K = Kernel("rbf", gamma=1.0)(X, X)
    looked_up = clone(machine).set_params(kernel="precomputed", gamma="scale").fit(K, Y)
    sparse = clone(machine).fit(sp.csr_array(X), Y)
    np.testing.assert_allclose(loo.decision_values(looked_up), values, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(loo.decision_values(sparse), values, rtol=1e-6, atol=1e-8)
    fold = _refits.folds(Y, 0)  # a kernel matrix keeps its order
    some, gone = np.flatnonzero(fold != 4), np.flatnonzero(fold == 4)
    again = clone(looked_up).fit(K[np.ix_(some, some)], Y[some])
    expected = again.decision_function(K[np.ix_(gone, some)])
    np.testing.assert_allclose(loo.decision_values(looked_up, "folds")[gone], expected, atol=1e-8)


def test_without_the_kernel_matrix(monkeypatch):
    model = AdaptiveMarginSVC(gamma=1.0).fit(X, Y)
    values = loo.decision_values(model)
    monkeypatch.setattr(_refits, "DENSE_ROWS", 10)
    again = AdaptiveMarginSVC(gamma=1.0).fit(X, Y)
    np.testing.assert_allclose(loo.decision_values(again), values, rtol=1e-6, atol=1e-8)


def test_class_weights_stay():
    model = LPSVC(lam=0.5, gamma=1.0, class_weight="balanced").fit(X, Y)
    share = len(Y) / (2 * np.bincount(Y))
    fixed = LPSVC(lam=0.5, gamma=1.0, class_weight=dict(enumerate(share)))
    values = loo.decision_values(model)
    for row in range(0, len(Y), 9):
        assert values[row] == pytest.approx(without(fixed, X, Y, row), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("machine", [AdaptiveMarginSVC(lam=0.2), LPSVC(lam=0.2), NuLPSVC()])
def test_two_rows(machine):
    model = clone(machine).set_params(gamma=1.0).fit([[0.0], [1.0]], [0, 1])
    values = loo.decision_values(model)
    assert np.isfinite(values).all()
    assert loo.error(model) == 1.0  # the other row knows its own class at best
    assert loo.error(model, "folds") == 1.0


def test_rows_of_no_weight_are_predicted():
    weight = np.ones(len(Y))
    weight[[3, 11]] = 0.0
    model = AdaptiveMarginSVC(gamma=1.0).fit(X, Y, sample_weight=weight)
    for method in ("exact", "folds"):
        values = loo.decision_values(model, method)
        np.testing.assert_allclose(values[[3, 11]], model.decision_function(X[[3, 11]]))


def test_no_coefficients_make_ties_and_ties_are_errors():
    with pytest.warns(UserWarning, match="lam"):
        model = LPSVC(lam=1e4, gamma=1.0).fit(X, Y)
    assert loo.error(model) == 1.0
    assert not loo.decision_values(model).any()


def test_the_last_row_of_a_class():
    X = np.array([[0.0], [0.3], [0.6], [5.0]])
    model = LPSVC(lam=0.1, gamma=1.0).fit(X, [0, 0, 0, 1])
    assert loo.decision_values(model)[3] <= 0  # nothing but the other class is left
    assert loo.result(model).errors[3]


# -- folds and bounds -------------------------------------------------------------------------


def test_folds_are_stratified_complete_and_seeded():
    y = np.repeat([0, 1, 2], [53, 20, 4])
    fold = _refits.folds(y, seed=1)
    assert set(np.bincount(fold)) <= {7, 8}
    for label, size in ((0, 53), (1, 20), (2, 4)):
        assert np.bincount(fold[y == label], minlength=10).max() <= size // 10 + 1
    np.testing.assert_array_equal(fold, _refits.folds(y, seed=1))
    assert (fold != _refits.folds(y, seed=2)).any()


@each
def test_folds_are_refits_without_a_tenth(machine):
    model = clone(machine).set_params(random_state=5).fit(X, Y)
    result = loo.result(model, "folds")
    assert (result.method, result.kind) == ("10-fold", "estimate")
    assert str(result) == f"leave-one-out error {result.error:.4f} (estimate by 10-fold)"
    data = record_of(model).model.data
    fold = _refits.folds(data.y, 5)[data.member]
    again = LPSVC(lam=model.lam_, gamma=1.0) if isinstance(model, NuLPSVC) else clone(model)
    for k in (0, 7):
        again.fit(X[fold != k], Y[fold != k])
        expected = again.decision_function(X[fold == k])
        np.testing.assert_allclose(result.values[fold == k], expected, rtol=1e-5, atol=1e-6)
    assert result.cost["retrained"] == 10


def test_many_rows_are_left_out_by_folds(monkeypatch):
    monkeypatch.setattr(_refits, "REFIT_ROWS", 50)
    model = AdaptiveMarginSVC(gamma=1.0).fit(X, Y)
    assert loo.result(model).method == "10-fold"
    assert loo.result(model, "exact").kind == "exact"  # when asked by name


@each
def test_the_rows_that_matter_bound_the_error(machine):
    for seed in range(3):
        X, y = make_moons(40, noise=0.5, random_state=seed)
        model = clone(machine).fit(X, y)
        bound = loo.result(model, "support_vectors")
        assert bound.kind == "bound"
        assert bound.values is None
        assert (bound.errors >= loo.result(model).errors).all()
        assert bound.errors[model.support_].all()


@pytest.mark.parametrize("method", ["jaakkola_haussler", "xi_alpha", "linear_response", "span"])
def test_what_does_not_hold_is_refused(method):
    model = LOOSVC(gamma=1.0).fit(X, Y)
    with pytest.raises(ValueError, match=r"theorem 1 is not valid .* below \(2\.9\)"):
        loo.result(model, method)


def test_folds_are_refused_where_there_is_a_path():
    with pytest.raises(ValueError, match="need not be trained again"):
        loo.result(SVC().fit(X, Y), "folds")


def test_jaakkola_and_haussler_do_fail_here():
    """(2.2) counted on a leave-one-out machine: a bound for none of a few small problems."""
    exceeded = 0
    for seed in range(12):
        X, y = make_moons(40, noise=0.4, random_state=seed)
        model = LOOSVC(gamma=1.0).fit(X, y)
        own = record_of(model).model.own_parts()[:, 0]
        rest = np.where(y == 1, 1, -1) * (model.decision_function(X) - own)
        exceeded += loo.error(model) > np.mean(rest <= 0)
    assert exceeded > 0


# -- what rests on it -------------------------------------------------------------------------


def test_compact_models_remember():
    model = AdaptiveMarginSVC(gamma=1.0).fit(X, Y)
    error = loo.error(model)
    small = model.compact()
    assert loo.error(small) == error
    with pytest.raises(ValueError, match="needs the training data"):
        loo.error(small, "folds")


@each
def test_suspects_find_a_wrong_label(machine):
    X, y = make_moons(60, noise=0.1, random_state=0)
    y = np.array(["no", "yes"])[y]
    row = int(np.argmax(X[:, 1]))
    y[row] = "yes" if y[row] == "no" else "no"
    model = clone(machine).fit(X, y)
    found = suspects(model, 3)
    assert row in found.rows
    held = " at fixed lam" if isinstance(machine, NuLPSVC) else ""
    assert found.kind == f"exact{held}"
    suspect = next(suspect for suspect in found if suspect.row == row)
    assert suspect.predicted != suspect.label == y[row]
    screened = suspects(model, 3, screen=0.1)
    again = next(suspect for suspect in screened if suspect.row == row)
    assert again.margin == pytest.approx(suspect.margin)
    assert (screened.evaluated, screened.kind) == (6, f"lower bound{held}")
    assert screened.error <= found.error


def test_search():
    pipeline = make_pipeline(StandardScaler(), AdaptiveMarginSVC(gamma=1.0))
    grid = {"adaptivemarginsvc__lam": [0.5, 2.0], "adaptivemarginsvc__gamma": [0.3, 3.0]}
    search = LOOSearch(pipeline, grid).fit(X, Y)
    Z = StandardScaler().fit_transform(X)
    for params, score in zip(
        search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
    ):
        alone = AdaptiveMarginSVC(
            lam=params["adaptivemarginsvc__lam"], gamma=params["adaptivemarginsvc__gamma"]
        )
        assert score == pytest.approx(1 - loo.error(alone.fit(Z, Y)))
    assert set(search.cv_results_["loo_kind"]) == {"exact"}
    with pytest.raises(ValueError, match="theorem 1 is not valid"):
        LOOSearch(LPSVC(), {"lam": [0.5]}, method="linear_response").fit(X, Y)


# -- any other machine ------------------------------------------------------------------------


class Means:
    """Two values a row, f - 1 and f + 1, f the mean kernel value with the rows by their weights."""

    def __init__(self, weight, converged=True):
        self.weight, self.converged = weight, converged

    @property
    def fitted(self):
        return Refit(self.weight / self.weight.sum(), np.array([-1.0, 1.0]), self.converged)

    def matters(self):
        return np.arange(len(self.weight)) % 3 > 0

    def retrained(self, rows, kept):
        weight = (self.weight * kept)[kept > 0]
        assert rows.n == len(weight)
        return Refit(weight / weight.sum(), np.array([-1.0, 1.0]), self.converged)


def training_of(machine_type, **options):
    data = canonical(X, Y, np.ones(len(Y)))
    kernel = Kernel("rbf", gamma=1.0)
    return RefitTraining(
        data, kernel, X.mean(axis=0), [machine_type(data.weight, **options)], seed=0
    )


def test_machines_with_several_columns():
    training = training_of(Means)
    values = training.left_out("exact", Record(training)).values
    assert values.shape == (len(Y), 2)
    K = Kernel("rbf", gamma=1.0)(X, X)
    place = training.data.member
    for row in range(len(Y)):
        others = np.arange(len(Y)) != row
        out = place[row] % 3 > 0
        f = K[row, others].mean() if out else K[row].mean()
        np.testing.assert_allclose(values[row], [f - 1, f + 1])


@pytest.mark.parametrize("method", ["exact", "folds"])
def test_refits_that_do_not_converge_are_told(method):
    record = Record(training_of(Means, converged=False))
    with pytest.warns(ConvergenceWarning, match="estimates: .* did not reach tol"):
        found = record.left_out(method)
    assert found.unfinished == found.retrained + 1


def test_unfinished_values_are_no_exact_ones():
    class Plain(Means):
        fitted = property(lambda self: Refit(np.ones(len(self.weight)), np.zeros(1), False))

        def retrained(self, rows, kept):
            return Refit(np.ones(rows.n), np.zeros(1), True)

    with pytest.warns(ConvergenceWarning):
        result = Record(training_of(Plain)).result()
    assert (result.method, result.kind, result.cost["unfinished"]) == ("exact", "estimate", 1.0)
