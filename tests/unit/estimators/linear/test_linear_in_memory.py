"""LinearSVC in memory: parameters, one-vs-rest, penalised intercept, and what builds on them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from widemargin import SVC, LinearSVC, LOOSearch, loo, margins, plot, sources, suspects, tune

LOSSES = ["hinge", "squared_hinge"]


def _data(n: int = 40, n_classes: int = 3, seed: int = 0, d: int = 3):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)])
    X = 1.5 * rng.normal(size=(n_classes, d))[codes] + rng.normal(size=(n, d))
    return X, np.array(["x", "y", "z", "u"])[codes]


# ---------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": "l3"}, "penalty must be"),
        (
            {"penalty": "l1", "loss": "hinge"},
            "penalty='l1', loss='hinge'.*penalty must be",
        ),
        ({"loss": "epsilon"}, "loss must be"),
        ({"multi_class": "all"}, "multi_class must be"),
        ({"dual": "yes"}, 'dual must be True, False or "auto"'),
        ({"intercept_scaling": 0.0}, "intercept_scaling must be a positive number or None"),
        ({"intercept_scaling": "1"}, "intercept_scaling must be"),
        ({"solver": "sampling"}, r"solver must be .* squared hinge"),
    ],
)
def test_bad_parameters_are_named(parameters, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinearSVC(**parameters).fit(*_data())


@pytest.mark.parametrize("dual", [True, False, "auto"])
def test_dual_has_no_effect(dual) -> None:
    X, y = _data()
    assert LinearSVC(dual=dual).fit(X, y).coef_.tobytes() == LinearSVC().fit(X, y).coef_.tobytes()


def test_penalty_and_loss_are_positional() -> None:
    assert LinearSVC("l2", "hinge").loss == "hinge"


# ---------------------------------------------------------------- one-vs-rest


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scaling", [None, 2.0])
def test_each_row_is_the_binary_model_of_its_class(loss: str, scaling) -> None:
    X, y = _data()
    parameters = {"loss": loss, "intercept_scaling": scaling, "C": 0.5, "tol": 1e-10}
    model = LinearSVC(**parameters).fit(X, y)
    for k, label in enumerate(model.classes_):
        alone = LinearSVC(**parameters).fit(X, y == label)
        np.testing.assert_allclose(model.coef_[k], alone.coef_[0], atol=1e-6)
        np.testing.assert_allclose(model.intercept_[k], alone.intercept_[0], atol=1e-6)
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_.T + model.intercept_)
    probability = model.predict_proba(X)
    np.testing.assert_array_equal(model.classes_[probability.argmax(axis=1)], model.predict(X))


def test_the_decomposition_is_that_of_the_fit() -> None:
    X, y = _data()
    model = LinearSVC(multi_class="ovo").fit(X, y)
    before = model.decision_function(X)
    other = pickle.loads(pickle.dumps(model)).set_params(multi_class="ovr")
    np.testing.assert_array_equal(other.decision_function(X), before)


def test_weights_are_repetitions_and_order_does_not_matter() -> None:
    X, y = _data(30)
    weight = np.random.default_rng(1).integers(0, 3, len(y))
    weight[:3] = 1
    order = np.random.default_rng(2).permutation(len(y))
    model = LinearSVC(intercept_scaling=1).fit(X, y, weight)
    repeated = LinearSVC(intercept_scaling=1).fit(
        np.repeat(X, weight, axis=0), np.repeat(y, weight)
    )
    shuffled = LinearSVC(intercept_scaling=1).fit(X[order], y[order], weight[order])
    assert model.coef_.tobytes() == repeated.coef_.tobytes() == shuffled.coef_.tobytes()
    assert model.intercept_.tobytes() == repeated.intercept_.tobytes()


@pytest.mark.parametrize("scaling", [None, 3.0])
def test_sparse_samples_have_the_same_optimum(scaling) -> None:
    X, y = _data()
    X[np.abs(X) < 0.5] = 0.0
    X[5] = 0.0  # a row without entries
    dense = LinearSVC(intercept_scaling=scaling, tol=1e-9).fit(X, y)
    sparse = LinearSVC(intercept_scaling=scaling, tol=1e-9).fit(sp.csr_array(X), y)
    for one, other in zip(dense.certificates_, sparse.certificates_, strict=True):
        assert one.primal == pytest.approx(other.primal, rel=1e-8)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_array(X)),
                               dense.decision_function(X), atol=1e-3)  # fmt: skip


# ---------------------------------------------------------------- leave-one-out


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("scaling", [None, 2.0])
def test_leave_one_out_is_exact_against_retraining(loss: str, n_classes: int, scaling) -> None:
    X, y = _data(25, n_classes)
    weight = np.where(np.arange(len(y)) % 4 == 3, 2.0, 1.0)
    model = LinearSVC(loss=loss, intercept_scaling=scaling, tol=1e-9).fit(X, y, weight)
    found = loo.result(model, method="exact")
    assert found.kind == "exact"
    for i in range(len(y)):
        kept = weight.copy()
        kept[i] -= 1.0  # one of the repetitions
        left = clone(model).set_params(tol=1e-12).fit(X, y, kept)
        np.testing.assert_allclose(found.values[i], left.decision_function(X[i : i + 1])[0],
                                   atol=3e-5)  # fmt: skip
    assert loo.error(model) == found.error


def test_one_vs_rest_answers_like_binary_models_of_svc() -> None:
    X, y = _data(40, 4)
    model = LinearSVC(loss="hinge").fit(X, y)
    for method in ("exact", "linear_response"):
        values = loo.decision_values(model, method)
        assert values.shape == (40, 4)
        for k, label in enumerate(model.classes_):
            alone = SVC(kernel="linear").fit(X, y == label)
            np.testing.assert_allclose(values[:, k], loo.decision_values(alone, method), atol=1e-6)
    exact = loo.result(model, "exact")
    for method in ("support_vectors", "xi_alpha"):
        assert loo.result(model, method).error >= exact.error - 1e-12
    assert [s.row for s in suspects(model, n=3)]


def test_bounds_of_leave_one_out_need_no_intercept_or_a_penalised_one() -> None:
    X, y = _data()
    model = LinearSVC(loss="hinge", intercept_scaling=1).fit(X, y)
    exact = loo.error(model, "exact")
    assert loo.error(model, "jaakkola_haussler") >= exact - 1e-12
    assert loo.result(model, "xi_alpha").kind == "bound"


# ---------------------------------------------------------------- search, tuning, margins, plots


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("scaling", [None, 1.0])
def test_searches_and_pictures_take_several_classes(multi_class: str, scaling) -> None:
    X, y = _data(60, 3, d=2)
    estimator = LinearSVC(multi_class=multi_class, intercept_scaling=scaling)
    search = LOOSearch(estimator, {"C": [0.1, 1.0]}).fit(X, y)
    single = clone(estimator).set_params(C=1.0).fit(X, y)
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(
        1.0 - loo.error(single, "exact")
    )
    tuned = tune(estimator, X, y, params=("C",), max_iter=5)
    assert tuned.certificate_.converged
    signed = margins.geometric(single, X, y)
    wrong = single.predict(X) != y
    assert (signed[wrong] <= 0).all()
    if multi_class == "ovr":
        assert (signed[~wrong] >= 0).all()
        w, b = single.coef_, single.intercept_
        codes = np.searchsorted(single.classes_, y)
        distances = [
            min(
                ((w[c] - w[k]) @ x + b[c] - b[k]) / np.linalg.norm(w[c] - w[k])
                for k in range(3) if k != c
            )
            for x, c in zip(X, codes, strict=True)
        ]  # fmt: skip
        np.testing.assert_allclose(signed, distances)
    assert plot.decision_boundary(single, X, y, backend="plotly").data


# ---------------------------------------------------------------- data in parts


def _cut(n_parts: int, *arrays):
    return [np.array_split(array, n_parts) for array in arrays]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scaling", [None, 2.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_vs_rest_and_penalised_intercept_in_parts(loss: str, scaling, dtype) -> None:
    X, y = _data(900, 3, seed=4)
    X = X.astype(dtype)
    weight = np.random.default_rng(1).choice([0.0, 0.5, 2.0], len(y))
    parameters = {"loss": loss, "intercept_scaling": scaling, "class_weight": {"x": 3.0}, "C": 0.1}
    read = LinearSVC(**parameters, tol=1e-9).fit(sources.from_arrays(*_cut(3, X, y, weight)))
    held = LinearSVC(**parameters, tol=1e-9, solver="newton").fit(X, y, weight)
    assert read.coef_.shape == held.coef_.shape == (3, 3)
    for one, other in zip(read.certificates_, held.certificates_, strict=True):
        assert one.converged
        assert one.problem == other.problem
        assert one.primal == pytest.approx(other.primal, rel=1e-7)
        assert one.dual <= other.primal * (1 + 1e-9)
        assert other.dual <= one.primal * (1 + 1e-9)
    atol = 1e-3 * np.abs(held.decision_function(X)).max()
    np.testing.assert_allclose(read.decision_function(X), held.decision_function(X), atol=atol)
    assert read.predict_proba(X).shape == (len(y), 3)


@pytest.mark.parametrize("scaling", [None, 1.0])
def test_a_checkpoint_of_one_class_resumes(tmp_path, scaling) -> None:
    X, y = _data(3_000, 3, seed=5)
    parameters = {"loss": "squared_hinge", "tol": 1e-9, "intercept_scaling": scaling}
    whole = LinearSVC(**parameters).fit(sources.from_arrays(*_cut(3, X, y)))

    class Ends(Exception):
        pass

    calls = []

    class Ending(sources.Dataset):
        def binary(self, positive, negative, **options):
            calls.append((positive, negative))
            if len(calls) == 3:
                raise Ends
            return super().binary(positive, negative, **options)

    plain = sources.from_arrays(*_cut(3, X, y))
    ending = Ending(plain.rows, plain.engine, plain.n_features, plain.dtype)
    model = LinearSVC(**parameters, checkpoint=tmp_path / "state")
    with pytest.raises(Ends):
        model.fit(ending)
    assert calls == [("x", None), ("y", None), ("z", None)]
    model.fit(sources.from_arrays(*_cut(3, X, y)))
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-9)
    assert list(tmp_path.iterdir()) == []  # removed on convergence


def test_tol_is_honoured_by_the_hinge_in_parts() -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_t(2, (40_000, 4))  # heavy tails: a subsample is often wrong
    y = np.where(X[:, 0] + rng.standard_t(2, 40_000) > 0, 1, 0)
    dataset = sources.from_arrays(*_cut(3, X, y))
    loose, tight = (LinearSVC(loss="hinge", tol=tol).fit(dataset) for tol in (0.1, 1e-9))
    for model, tol in ((loose, 0.1), (tight, 1e-9)):
        assert model.certificate_.converged
        assert model.certificate_.relative_gap <= tol
    assert loose.passes_ < tight.passes_
    assert loose.certificate_.dual <= tight.certificate_.primal * (1 + 1e-12)
    held = LinearSVC(loss="hinge", tol=0.1, solver="sampling").fit(X, y)
    assert held.certificate_.converged
    assert (
        held.certificate_.dual
        <= tight.certificate_.primal
        <= held.certificate_.primal * (1 + 1e-12)
    )


def test_binary_takes_all_others_and_a_constant_feature() -> None:
    X, y = _data(12, 3)
    source = sources.from_arrays(*_cut(2, X, y)).binary("y", None, constant=2.0)
    assert (source.n_rows, source.n_features) == (12, 4)
    blocks = source.run(lambda part: [block[1:3] for block in part.blocks()], [(), ()])
    read = np.concatenate([rows for part in blocks for rows, _ in part])
    labels = np.concatenate([label for part in blocks for _, label in part])
    np.testing.assert_array_equal(read, np.column_stack([X, np.full(12, 2.0)]))
    np.testing.assert_array_equal(labels, np.where(y == "y", 1.0, -1.0))
    taken = source.run(lambda part: part.take(np.array([1, 2]))[0], [(), ()])
    np.testing.assert_array_equal(taken[0], read[1:3])
    with pytest.raises(ValueError, match="positive must be one of the classes"):
        sources.from_arrays(*_cut(2, X, y)).binary("q", None)


def test_sparse_weights_predict_the_same() -> None:
    X, y = _data()
    model = LinearSVC().fit(X, y)
    values, distances = model.decision_function(X), margins.geometric(model, X, y)
    assert sp.issparse(model.sparsify().coef_)
    np.testing.assert_allclose(model.decision_function(X), values)
    np.testing.assert_allclose(model.decision_function(sp.csr_array(X)), values)
    np.testing.assert_allclose(margins.geometric(model, X, y), distances)
    assert isinstance(model.densify().coef_, np.ndarray)


# ---------------------------------------------------------------- saved models


def test_a_model_saved_before_these_parameters_is_one_vs_one() -> None:
    X, y = _data()
    model = LinearSVC(multi_class="ovo").fit(X, y)
    new = {"penalty", "dual", "multi_class", "intercept_scaling", "_one_vs_one_"}
    old = LinearSVC.__new__(LinearSVC)
    old.__setstate__({k: v for k, v in model.__getstate__().items() if k not in new})
    assert old.get_params() == model.get_params()
    np.testing.assert_array_equal(old.decision_function(X), model.decision_function(X))
