"""bounds.summary: which theorems apply to a model, with which numbers, in which words."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris, make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from widemargin import (
    LOOSVC,
    LPSVC,
    SVC,
    SVR,
    AdaBoostClassifier,
    AdaptiveMarginSVC,
    LinearSVC,
    MaxMarginClassifier,
    MeanFieldGPClassifier,
    NuSVC,
    OrdinalSVC,
    PerceptronClassifier,
    ReducedHullSVC,
    bounds,
    margins,
)
from widemargin.assess.bounds.applicable import rows_needed
from widemargin.assess.bounds.summary import DEFAULT_WHY, stump_dimension
from widemargin.assess.bounds.table import THEOREMS


def blobs(n=200, distance=3.0, seed=0):
    centres = np.array([[-distance, -distance], [distance, distance]])
    return make_blobs(n, centers=centres, random_state=seed)


def moons(n=120):
    return make_moons(n, noise=0.2, random_state=0)


MACHINES = [
    SVC(gamma=0.5),
    SVC(gamma=0.5, fit_intercept=False),
    SVC(kernel="poly", degree=2, coef0=1.0, gamma=0.5),
    NuSVC(gamma=0.5),
    LinearSVC(),
    LinearSVC(fit_intercept=False),
    ReducedHullSVC(kernel="rbf", gamma=0.5),
    LOOSVC(gamma=0.5),
    AdaptiveMarginSVC(gamma=0.5, lam=2.0),
    LPSVC(gamma=0.5),
    MaxMarginClassifier(norm=1),
    MaxMarginClassifier(norm=np.inf),
    AdaBoostClassifier(20),
    PerceptronClassifier(),
]


@pytest.mark.parametrize("c", [None, 1.0])
@pytest.mark.parametrize("model", MACHINES, ids=lambda model: repr(model)[:40])
def test_every_theorem_is_listed_once(model, c):
    X, y = blobs()
    found = bounds.summary(model.fit(X, y), X, y, delta=0.1, c=c)
    listed = [row.function for row in found] + [other.function for other in found.others]
    assert sorted(listed) == sorted(THEOREMS)
    assert all(len(row.words) > 40 and row.inputs for row in found)
    assert all(other.why for other in found.others)
    on_new = [row for row in found if row.on_new_rows]
    assert list(found)[: len(on_new)] == on_new
    met = [float(row.value) for row in on_new if not row.value.unmet]
    assert met == sorted(met)
    assert [bool(row.value.unmet) for row in on_new] == [False] * len(met) + [True] * (
        len(on_new) - len(met)
    )
    needs = [other.function for other in found.others if other.why.startswith("needs c")]
    assert bool(needs) == (c is None)


def test_theorems_are_functions_of_the_module():
    assert set(THEOREMS) <= set(bounds.__all__)
    assert set(DEFAULT_WHY) == set(THEOREMS)


# ---------------------------------------------------------------- the numbers


def test_distribution_of_margins_by_hand():
    X, y = moons()
    model = SVC(gamma=0.5, C=2.0, fit_intercept=False).fit(X, y)
    row = bounds.summary(model, X, y, delta=0.1)["margin_distribution"]
    distance = margins.geometric(model, X, y)
    candidates = [
        float(bounds.margin_distribution(120, 1.0, np.linalg.norm(np.maximum(0, rho - distance)),
                                         rho, 0.1))
        for rho in distance[distance > 0]
    ]  # fmt: skip
    assert row.inputs["R"] == 1.0
    kappas = [
        65 * ((1 + D) ** 2 + 2.25 * D) / rho**2
        for rho in distance[distance > 0]
        for D in [np.linalg.norm(np.maximum(0, rho - distance))]
    ]
    assert row.value.dimension == math.floor(min(kappas))
    assert row.value == min(candidates)


def test_a_threshold_is_the_weight_of_a_constant_feature():
    """The same numbers as those of a machine without threshold on rows with one more feature."""
    X, y = blobs()
    X += 1.0
    model = LinearSVC(tol=1e-10).fit(X, y)
    R = np.linalg.norm(X, axis=1).max()
    wider = np.column_stack([X, np.full(len(X), R)])
    plane = LinearSVC(fit_intercept=False).fit(wider, y)
    plane.coef_ = np.array([[*model.coef_[0], model.intercept_[0] / R]])
    one, other = bounds.summary(model, X, y, c=1.0), bounds.summary(plane, wider, y, c=1.0)
    for function in ("margin_distribution", "shawe_taylor", "margin_cover", "linear_margin"):
        assert float(one[function].value) == pytest.approx(float(other[function].value), rel=1e-9)
        assert one[function].inputs["R"] == pytest.approx(math.sqrt(2) * R)
        assert "constant" in one[function].words
        assert "constant" not in other[function].words


def test_smallest_margin():
    X, y = blobs()
    model = SVC(gamma=0.05, fit_intercept=False).fit(X, y)
    found = bounds.summary(model, X, y, delta=0.1)
    rho = margins.geometric(model, X, y).min()
    expected = bounds.shawe_taylor(200, bounds.fat_linear(1.0, rho / 8), 0.1)
    assert found["shawe_taylor"].value == expected
    y[0] = 1 - y[0]
    why = {other.function: other.why for other in bounds.summary(model, X, y).others}
    assert "1 of 200 are not" in why["shawe_taylor"]


def test_margins_fixed_in_advance_share_delta():
    X, y = blobs(5000)
    model = SVC(gamma=0.05, fit_intercept=False).fit(X, y)
    row = bounds.summary(model, X, y, delta=0.1)["margin_cover"]
    rho, share = row.inputs["rho"], row.inputs["share of delta"]
    j = round(-math.log2(rho))
    assert rho == 2.0**-j
    assert share == pytest.approx(0.1 / ((j + 1) * (j + 2) * 2))
    distance = margins.geometric(model, X, y)
    error = float((distance < rho).mean())
    assert row.inputs["margin_error"] == error
    assert row.value == bounds.margin_cover(5000, rho, 1.0, share, error)
    # The shares of all margins, for both statements, add up to delta.
    assert 2 * sum(0.1 / ((j + 1) * (j + 2) * 2) for j in range(10**5)) == pytest.approx(
        0.1, rel=1e-4
    )


def test_adaptive_margins():
    X, y = moons()
    model = AdaptiveMarginSVC(gamma=0.5, lam=0.7).fit(X, y)
    row = bounds.summary(model, X, y, delta=0.1)["adaptive_margin"]
    sign = np.where(y == 1, 1.0, -1.0)
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    W = math.sqrt((model.alpha_ * sign) @ K @ (model.alpha_ * sign))
    D = np.linalg.norm(np.maximum(0, model.slack_ - 0.7 * model.alpha_))
    assert row.inputs["W"] == pytest.approx(W, rel=1e-9)
    assert row.inputs["D"] == pytest.approx(D, rel=1e-9, abs=1e-9)
    assert float(row.value) == pytest.approx(float(bounds.adaptive_margin(120, 1.0, W, D, 0.1)))
    # It rests on theorem 2.1 at one margin, and so is never below it at the best.
    assert row.value >= bounds.summary(model, X, y, delta=0.1)["margin_distribution"].value


@pytest.mark.parametrize("model", [LPSVC(gamma=0.5), AdaptiveMarginSVC(gamma=0.5, lam=0.0)])
def test_other_programs_have_no_adaptive_margins(model):
    X, y = moons()
    found = bounds.summary(model.fit(X, y), X, y)
    assert "adaptive_margin" in {other.function for other in found.others}


def test_adaptive_margins_need_a_margin_of_one():
    X, y = moons()
    model = AdaptiveMarginSVC(gamma=0.5, lam=1.0).fit(X, y)
    assert margins.margins(model, X, y).max() >= 1
    assert "there is none" not in repr(bounds.summary(model, X, y)["adaptive_margin"].value)
    with pytest.warns(UserWarning, match="all coefficients are zero"):
        zero = AdaptiveMarginSVC(gamma=0.5, lam=2.0 * model.lam_max_).fit(X, y)
    found = bounds.summary(zero, X, y)
    unmet = found["adaptive_margin"].value.unmet
    assert any("margin of 1 (there is none)" in condition for condition in unmet)
    why = {other.function: other.why for other in found.others}
    assert why["margin_distribution"] == "no row is on the right side of the boundary"


def test_adaptive_margins_need_the_rows_of_the_fit():
    X, y = moons()
    model = LOOSVC(gamma=0.5).fit(X, y)
    why = {o.function: o.why for o in bounds.summary(model, X[:100], y[:100]).others}
    assert "rows of the fit" in why["adaptive_margin"]
    model.fit(X, y, sample_weight=np.full(120, 2.0))
    why = {o.function: o.why for o in bounds.summary(model, X, y).others}
    assert "sample_weight" in why["adaptive_margin"]


def test_dimension_of_feature_spaces():
    X, y = blobs()
    for model, h in (
        (LinearSVC(), 3),
        (LinearSVC(fit_intercept=False), 2),
        (SVC(kernel="linear", fit_intercept=False), 2),
        (SVC(kernel="poly", degree=2, gamma=1.0, coef0=1.0, fit_intercept=False), 6),
        (SVC(kernel="poly", degree=2, gamma=1.0, fit_intercept=False), 3),
    ):
        row = bounds.summary(model.fit(X, y), X, y, delta=0.1, c=2.0)["vc"]
        assert row.inputs["h"] == h
        assert row.value == bounds.vc(200, h, 0.1, row.inputs["empirical_risk"], 2.0)
    with pytest.raises(KeyError, match="not finite"):
        bounds.summary(SVC(gamma=0.5).fit(X, y), X, y, c=1.0)["vc"]


def test_weights_by_their_sum():
    X, y = blobs()
    model = MaxMarginClassifier(norm=1).fit(X, y)
    row = bounds.summary(model, X, y, c=0.001)["fat_l1"]
    largest = np.abs(X).max()
    assert row.inputs["largest entry"] == largest
    size = np.abs(model.coef_).sum() * largest + abs(model.intercept_[0])
    share = margins.margins(model, X, y) / size
    assert row.inputs["margin_error"] == (share < row.inputs["rho"]).mean()
    assert np.abs(share).max() <= 1


def test_boosting():
    X, y = moons(400)
    model = AdaBoostClassifier(30).fit(X, y)
    found = bounds.summary(model, X, y, delta=0.1, c=0.01)
    row = found["convex_combination"]
    assert row.inputs["h"] == 3
    candidates = [
        float(
            bounds.convex_combination(400, 3, rho, 0.1, float((model.margins_ < rho).mean()), 0.01)
        )
        for rho in model.margins_[model.margins_ > 0]
    ]
    assert float(row.value) == pytest.approx(min(candidates), rel=1e-12)
    assert found.best is row
    training = found["adaboost"]
    assert training.value == model.margin_bound(0.0)
    assert not training.on_new_rows
    assert found.rows[-1] is training
    assert "training rows" in training.words


def test_boosting_of_unknown_hypotheses_and_with_regularisation():
    X, y = moons()
    model = AdaBoostClassifier(5, base=DecisionTreeClassifier(max_depth=2)).fit(X, y)
    why = {o.function: o.why for o in bounds.summary(model, X, y, c=1.0).others}
    assert "VC dimension" in why["convex_combination"]
    model = AdaBoostClassifier(5, reg=10.0).fit(X, y)
    why = {o.function: o.why for o in bounds.summary(model, X, y, c=1.0).others}
    assert "reg=0" in why["adaboost"]


def test_dimension_of_stumps():
    assert [stump_dimension(n) for n in (1, 2, 3)] == [2, 3, 4]
    # Brute force in two features: some three points take all eight labellings, no four points do.
    rng = np.random.default_rng(0)

    def labellings(points):
        found = {(1,) * len(points), (-1,) * len(points)}
        for column in points.T:
            for cut in column:
                side = np.where(column > cut, 1, -1)
                found |= {tuple(side.tolist()), tuple((-side).tolist())}
        return len(found)

    assert max(labellings(rng.normal(size=(3, 2))) for _ in range(300)) == 8
    assert max(labellings(rng.normal(size=(4, 2))) for _ in range(300)) < 16


def test_perceptron_updates():
    X, y = blobs()
    model = PerceptronClassifier().fit(X, y)
    row = bounds.summary(model, X, y)["perceptron"]
    w, b = model.coef_[0], float(np.ravel(model.intercept_)[0])
    length = np.linalg.norm(w)
    rho = margins.margins(model, X, y).min() / length
    R = np.linalg.norm(X, axis=1).max()
    assert row.value == pytest.approx(bounds.perceptron(R, rho, b / length), rel=1e-9)
    assert int(np.max(model.n_updates_)) <= row.value
    assert row.value == pytest.approx(model.mistake_bound(), rel=1e-9)
    assert not row.on_new_rows
    curved = PerceptronClassifier(kernel="rbf", gamma=0.1).fit(X, y)
    row = bounds.summary(curved, X, y)["perceptron"]
    assert row.value == pytest.approx(curved.mistake_bound(), rel=1e-9)
    bent = PerceptronClassifier(kernel="sigmoid", gamma=0.1, coef0=-1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        bent.fit(X, y)
    with pytest.raises(KeyError, match="no inner product"):
        bounds.summary(bent, X, y)["perceptron"]


def test_ranks_in_order():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 2))
    y = np.digitize(X[:, 0], [-0.3, 0.4])
    X[:, 0] += 2.0 * y  # room between the ranks
    model = OrdinalSVC(kernel="linear", C=1.0).fit(X, y)
    row = bounds.summary(model, X, y, delta=0.1)["ordinal_margin"]
    f = model.utility(X)
    gap = min(f[y == 1].min() - f[y == 0].max(), f[y == 2].min() - f[y == 1].max())
    pairs = int((y[0::2] != y[1::2]).sum())
    R = 2 * np.linalg.norm(X, axis=1).max()
    rho = gap / np.linalg.norm(model.coef_)
    assert row.inputs == pytest.approx({"pairs": pairs, "largest distance": R, "rho": rho})
    assert float(row.value) == pytest.approx(float(bounds.ordinal_margin(2 * pairs, R, rho, 0.1)))
    assert row.value.of == "preference risk on new rows"


def test_ranks_with_errors_and_queries():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.tile([0, 1, 2], 20)
    model = OrdinalSVC(kernel="linear").fit(X, y)
    with pytest.raises(KeyError, match="wrong order"):
        bounds.summary(model, X, y)["ordinal_margin"]
    model.fit(X, y, qid=np.repeat(np.arange(10), 6))
    with pytest.raises(KeyError, match="queries"):
        bounds.summary(model, X, y)["ordinal_margin"]


# ---------------------------------------------------------------- honesty


def test_what_was_not_fixed_in_advance_makes_bounds_vacuous():
    X, y = blobs()
    found = bounds.summary(SVC(fit_intercept=False).fit(X, y), X, y, c=1e-6)
    assert all("gamma" in "".join(row.value.unmet) and row.value.vacuous for row in found)
    assert found.best is None
    fixed = bounds.summary(SVC(gamma=0.05, fit_intercept=False).fit(X, y), X, y, c=1e-6)
    assert not any("advance" in "".join(row.value.unmet) for row in fixed)
    assert fixed.best is not None


def test_pipelines():
    X, y = blobs()
    scaled = make_pipeline(StandardScaler(), LinearSVC()).fit(X, y)
    found = bounds.summary(scaled, X, y, c=1e-6)
    assert found.model == "LinearSVC"
    assert all("pipeline" in "".join(row.value.unmet) for row in found)
    fixed = make_pipeline(FunctionTransformer(lambda X: 2.0 * X), "passthrough", LinearSVC())
    found = bounds.summary(fixed.fit(X, y), X, y, c=1e-6)
    alone = bounds.summary(fixed[-1], 2.0 * X, y, c=1e-6)
    assert [row.value for row in found] == [row.value for row in alone]
    assert found.best is not None


def test_kernels_that_are_no_inner_products():
    X, y = moons()
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        model = SVC(kernel="sigmoid", gamma=0.5, coef0=-1.0).fit(X, y)
    for row in bounds.summary(model, X, y):
        assert any("inner product" in condition for condition in row.value.unmet)
    K = X @ X.T - 0.5 * np.eye(len(X))
    looked_up = LPSVC(kernel="precomputed").fit(K, y)
    called = LPSVC(kernel=lambda A, B: 2.0 - A @ B.T).fit(X, y)
    for model, seen in ((looked_up, K), (called, X)):
        for row in bounds.summary(model, seen, y):
            assert any("inner product" in condition for condition in row.value.unmet)
    proper = SVC(kernel=lambda A, B: A @ B.T).fit(X, y)
    for row in bounds.summary(proper, X, y, c=1.0):
        assert not any("inner product" in condition for condition in row.value.unmet)


def test_radius():
    X, y = blobs(5000, distance=6.0)
    model = LinearSVC(fit_intercept=False).fit(X, y)
    longest = np.linalg.norm(X, axis=1).max()
    seen = bounds.summary(model, X, y)["margin_distribution"]
    assert seen.inputs["R"] == pytest.approx(longest)
    assert "no new row may be longer" in seen.words
    given = bounds.summary(model, X, y, R=2 * longest)["margin_distribution"]
    assert given.inputs["R"] == pytest.approx(2 * longest)
    assert given.value > seen.value
    with pytest.raises(ValueError, match="R must be at least the length of the longest row"):
        bounds.summary(model, X, y, R=0.5 * longest)


def test_sparse_rows_and_looked_up_kernels():
    X, y = blobs()
    model = LinearSVC(tol=1e-10).fit(X, y)
    dense, sparse = (
        bounds.summary(model, X, y, c=1.0),
        bounds.summary(model, sp.csr_array(X), y, c=1.0),
    )
    assert [row.function for row in dense] == [row.function for row in sparse]
    assert [float(row.value) for row in dense] == pytest.approx([float(r.value) for r in sparse])
    K = X @ X.T
    looked_up = bounds.summary(SVC(kernel="precomputed", tol=1e-9).fit(K, y), K, y)
    for function in ("margin_distribution", "shawe_taylor"):
        assert float(looked_up[function].value) == pytest.approx(
            float(dense[function].value), rel=1e-2
        )
    with pytest.raises(ValueError, match="square kernel matrix"):
        bounds.summary(SVC(kernel="precomputed").fit(K, y), K[:5], y[:5])


@pytest.mark.parametrize(
    "model",
    [LinearSVC(), SVC(gamma=0.1), LOOSVC(gamma=0.1), AdaBoostClassifier(5), PerceptronClassifier(),
     OrdinalSVC(kernel="linear"), SVC(kernel=lambda A, B: A @ B.T)],
    ids=lambda model: type(model).__name__,
)  # fmt: skip
def test_tables_with_names_and_lists(model):
    X, y = blobs()
    table = pd.DataFrame(X, columns=["left", "right"])
    expected = bounds.summary(model.fit(X, y), X, y, c=1.0)
    listed = bounds.summary(model, X.tolist(), y.tolist(), c=1.0)
    named = bounds.summary(model.fit(table, y), table, pd.Series(y), c=1.0)
    for found in (listed, named):
        assert [row.value for row in found] == [row.value for row in expected]
    in_a_row = make_pipeline(StandardScaler().set_output(transform="pandas"), model).fit(table, y)
    assert len(bounds.summary(in_a_row, table, y, c=1.0)) == len(expected)
    assert np.array_equal(margins.margins(in_a_row, table, y) > 0, in_a_row.predict(table) == y)


def test_models_that_no_theorem_is_about():
    X, y = load_iris(return_X_y=True)
    found = bounds.summary(SVC(gamma=0.5).fit(X, y), X, y)
    assert len(found) == 0
    assert "two classes" in found.others[0].why
    boosted = bounds.summary(AdaBoostClassifier(5).fit(X, y), X, y)
    assert [row.function for row in boosted] == ["adaboost"]
    assert len(bounds.summary(SVR().fit(X, y), X, y)) == 0
    process = MeanFieldGPClassifier().fit(X[:100], y[:100])
    assert len(bounds.summary(process, X[:100], y[:100])) == 0
    assert "none applies" in str(found)


def test_a_bound_that_says_something():
    """One feature at -1 and +1, 100,000 rows: (2.20) is below 1 with all its constants."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 100_000)
    X = (np.where(y == 1, 1.0, -1.0) * rng.uniform(0.95, 1.0, len(y)))[:, None]
    model = LinearSVC(fit_intercept=False).fit(X, y)
    found = bounds.summary(model, X, y, R=1.0)
    assert found.best is not None
    assert found.best.function in ("shawe_taylor", "margin_distribution")
    assert found.best.value < 0.6
    assert "At most" in found.best.words
    assert "R was given" in found.best.words


def test_rows_needed():
    def at(m):
        return bounds.shawe_taylor(m, 100, 0.05)

    needed = rows_needed(at)
    assert needed is not None
    assert at(needed) < 1 <= at(round(0.99 * needed))
    assert rows_needed(lambda m: bounds.vc(m, 3, 0.05, 1.0, 1.0)) is None


def test_printed():
    X, y = blobs()
    found = bounds.summary(SVC(gamma=0.05).fit(X, y), X, y)
    text = str(found)
    assert text == repr(found)
    assert text.startswith("Bounds for SVC on 200 rows, delta = 0.05\n")
    for row in found:
        assert row.theorem in text
    assert "rows like these would be needed" in text
    assert "probability 1 - delta by itself" in text
    assert max(map(len, text.splitlines())) <= 100
    with pytest.raises(KeyError, match="no bound 'hoeffding'"):
        found["hoeffding"]


@pytest.mark.parametrize(
    ("argument", "bad"),
    [("delta", 0.0), ("delta", 1.5), ("c", 0.0), ("c", math.nan), ("R", -1.0), ("R", "1")],
)
def test_bad_arguments(argument, bad):
    X, y = blobs()
    with pytest.raises(ValueError, match=f"^{argument} must be"):
        bounds.summary(LinearSVC().fit(X, y), X, y, **{argument: bad})


def test_labels_that_are_not_known():
    X, y = blobs()
    for model in (LinearSVC(), AdaBoostClassifier(3), SVC()):
        with pytest.raises(ValueError, match="labels that the model was not fitted with"):
            bounds.summary(model.fit(X, y), X, y + 1)
