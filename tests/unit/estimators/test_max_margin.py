"""MaxMarginClassifier: invariances, proofs, edge cases, bad input."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from widemargin import LinearSVC, MaxMarginClassifier, loo
from widemargin.problems.norm_margin import NormMargin, conjugate, length
from widemargin.solvers.base import Budget
from widemargin.solvers.norm_margin import solve

NORMS = [1, 1.5, 2, 3, np.inf]
norms = st.sampled_from(NORMS)
seeds = st.integers(0, 10**6)
costs = st.sampled_from([0.05, 1.0, 30.0, np.inf])


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


# -- invariances ----------------------------------------------------------------------------


@given(seed=seeds, norm=norms, C=costs)
def test_flipped_labels(seed: int, norm: float, C: float) -> None:
    X, y = apart(seed)
    model = MaxMarginClassifier(norm, C=C).fit(X, y)
    flipped = MaxMarginClassifier(norm, C=C).fit(X, -y)
    primal = model.certificate_.primal
    assert flipped.certificate_.primal == pytest.approx(primal, rel=1e-8)
    assert flipped.margin_ == pytest.approx(model.margin_, rel=1e-6)
    if 1 < norm < np.inf and np.isinf(C):
        assert flipped.coef_ == pytest.approx(-model.coef_, rel=1e-4, abs=1e-5)


@given(seed=seeds, norm=norms, C=costs)
def test_row_order_and_repetition_leave_the_same_bits(seed: int, norm: float, C: float) -> None:
    X, y = mixed(seed) if np.isfinite(C) else apart(seed)
    rng = np.random.default_rng(seed)
    times = rng.integers(0, 3, len(y))
    times[y == 1] += 1
    assume((times[y == -1] > 0).any())
    weighted = MaxMarginClassifier(norm, C=C).fit(X, y, sample_weight=times)
    order = rng.permutation(int(times.sum()))
    repeated = MaxMarginClassifier(norm, C=C)
    repeated.fit(np.repeat(X, times, axis=0)[order], np.repeat(y, times)[order])
    assert np.array_equal(weighted.coef_, repeated.coef_)
    assert np.array_equal(weighted.intercept_, repeated.intercept_)
    assert weighted.margin_ == repeated.margin_


@given(seed=seeds, norm=norms, scale=st.floats(1e-3, 1e3))
def test_hard_margin_scales_with_the_rows(seed: int, norm: float, scale: float) -> None:
    X, y = apart(seed)
    margin = MaxMarginClassifier(norm, C=np.inf).fit(X, y).margin_
    scaled = MaxMarginClassifier(norm, C=np.inf).fit(scale * X, y).margin_
    assert scaled == pytest.approx(scale * margin, rel=1e-7)


@given(seed=seeds, norm=norms, C=costs)
def test_translation_moves_only_the_threshold(seed: int, norm: float, C: float) -> None:
    X, y = mixed(seed) if np.isfinite(C) else apart(seed)
    shift = np.random.default_rng(seed).normal(scale=10.0, size=X.shape[1])
    model = MaxMarginClassifier(norm, C=C).fit(X, y)
    moved = MaxMarginClassifier(norm, C=C).fit(X + shift, y)
    assert moved.certificate_.primal == pytest.approx(model.certificate_.primal, rel=1e-7)
    assert moved.margin_ == pytest.approx(model.margin_, rel=1e-6)
    if norm in (1.5, 2, 3) and np.isinf(C):  # unique weights
        assert moved.coef_ == pytest.approx(model.coef_, rel=1e-4, abs=1e-5)
        expected = model.intercept_ - moved.coef_ @ shift
        assert moved.intercept_ == pytest.approx(expected, rel=1e-4, abs=1e-3)


# -- proofs ---------------------------------------------------------------------------------


@given(seed=seeds, norm=st.sampled_from([*NORMS, 1.05, 20.0]), C=costs)
def test_the_dual_variables_prove_the_optimum(seed: int, norm: float, C: float) -> None:
    """Both objectives by hand, from coef_, intercept_ and dual_ alone."""
    X, y = mixed(seed) if np.isfinite(C) else apart(seed)
    model = MaxMarginClassifier(norm, C=C).fit(X, y)
    a, w, b = model.dual_, model.coef_[0], model.intercept_[0]
    assert (a >= 0).all()
    assert (a <= C * (1 + 1e-12)).all()
    assert abs(y @ a) <= 1e-9 * a.sum()
    v = (y * a) @ X
    q = conjugate(float(norm))
    margins = y * (X @ w + b)
    if norm == 2 and np.isfinite(C):
        dual = a.sum() - 0.5 * v @ v
        primal = 0.5 * w @ w + C * np.maximum(0.0, 1.0 - margins).sum()
    else:
        dual = a.sum() / max(1.0, np.linalg.norm(v, q))
        size = np.linalg.norm(w, float(norm))
        primal = size + C * np.maximum(0, 1 - margins).sum() if np.isfinite(C) else size
    certificate = model.certificate_
    assert certificate.converged
    assert certificate.primal == pytest.approx(primal, rel=1e-9)
    assert certificate.dual == pytest.approx(dual, rel=1e-7)
    assert certificate.dual <= certificate.primal + 1e-9
    if np.isinf(C):
        assert margins.min() == pytest.approx(1.0, rel=1e-9)
        assert model.margin_ == pytest.approx(1.0 / primal, rel=1e-9)
        assert (a[margins > 1 + 1e-5] == 0).all()


def test_a_bad_plane_has_an_honest_certificate() -> None:
    """The bounds hold for any plane and any variables, not only for a solver's."""
    X, y = apart(0)
    X, y = X.astype(float), y.astype(float)
    rng = np.random.default_rng(0)
    for norm in NORMS:
        for cost in (np.full(len(y), 0.7), np.full(len(y), np.inf)):
            problem = NormMargin(y, cost, float(norm))
            best = solve(problem, X, tol=1e-6, budget=Budget(-1))
            for _ in range(20):
                w, a = rng.normal(size=X.shape[1]), rng.exponential(size=len(y))
                f = X @ w
                b = problem.threshold(f)
                a = problem.feasible(a, f, b)
                found = problem.certificate(X, w, b, a, tol=1e-6, n_iter=1)
                assert found.primal >= best.dual - 1e-9
                assert found.dual <= best.primal + 1e-9


def test_norms_and_their_conjugates() -> None:
    assert conjugate(1.0) == np.inf
    assert conjugate(np.inf) == 1.0
    assert conjugate(3.0) == pytest.approx(1.5)
    huge = np.array([3e200, -4e200, 0.0])
    assert length(huge, 2.0) == pytest.approx(5e200)
    assert length(huge * 1e-500, 3.0) == 0.0
    assert length(np.array([1e-200, 1e-200]), 4.0) == pytest.approx(1e-200 * 2**0.25)


# -- the model ------------------------------------------------------------------------------


def test_two_points() -> None:
    """The distance of (0, 0) and (2, 1) in l_inf, l_2, l_1.5 and l_1, halved."""
    X, y = np.array([[0.0, 0.0], [2.0, 1.0]]), [0, 1]
    for norm, distance in (
        (1, 2.0),
        (2, np.sqrt(5.0)),
        (np.inf, 3.0),
        (3, (8**0.5 + 1) ** (2 / 3)),
    ):
        model = MaxMarginClassifier(norm, C=np.inf).fit(X, y)
        assert model.margin_ == pytest.approx(distance / 2, rel=1e-8)
        assert model.decision_function(X) == pytest.approx([-1.0, 1.0])


def test_weights_in_l1_leave_features_out() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 30))
    y = np.where(X[:, 3] - X[:, 7] + 0.3 * rng.normal(size=120) > 0, 1, -1)
    sparse = MaxMarginClassifier(1, C=0.05).fit(X, y)
    used = np.flatnonzero(sparse.coef_[0])
    assert {3, 7} <= set(used.tolist())
    assert len(used) < 10
    assert np.count_nonzero(MaxMarginClassifier(np.inf, C=0.05).fit(X, y).coef_) == 30


def test_soft_euclidean_margin_is_that_of_linear_svc() -> None:
    X, y = load_iris(return_X_y=True)
    model = MaxMarginClassifier(2, C=0.7).fit(X, y)
    other = LinearSVC(loss="hinge", multi_class="ovo", C=0.7, tol=1e-12).fit(X, y)
    assert model.coef_ == pytest.approx(other.coef_, abs=1e-5)
    assert model.decision_function(X) == pytest.approx(other.decision_function(X), abs=1e-4)
    assert loo.decision_values(model) == pytest.approx(loo.decision_values(other), abs=1e-6)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("C", [0.5, np.inf])
def test_three_classes_vote(norm: float, C: float) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(scale=0.4, size=(45, 3)) + np.repeat(3 * np.eye(3), 15, axis=0)
    y = np.repeat(["a", "b", "c"], 15)
    model = MaxMarginClassifier(norm, C=C).fit(X, y)
    assert model.coef_.shape == (3, 3)
    assert model.margin_.shape == (3,)
    assert model.dual_.shape == (3, 45)
    assert (model.predict(X) == y).all()
    scores = model.decision_function(X)
    assert (model.classes_[scores.argmax(axis=1)] == model.predict(X)).all()
    for k, (first, second) in enumerate((("a", "b"), ("a", "c"), ("b", "c"))):
        pair = (y == first) | (y == second)
        alone = MaxMarginClassifier(norm, C=C).fit(X[pair], y[pair])
        assert alone.margin_ == pytest.approx(model.margin_[k], rel=1e-6)
        assert (model.dual_[k][~pair] == 0).all()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("C", [0.5, np.inf])
def test_sparse_rows(norm: float, C: float) -> None:
    X, y = apart(4, gap=1.0)
    X = X * (np.random.default_rng(0).random(X.shape) < 0.7)
    X[:, 0] += 2.0 * y
    dense = MaxMarginClassifier(norm, C=C).fit(X, y)
    for matrix in (sp.csr_array(X), sp.csc_matrix(X)):
        model = MaxMarginClassifier(norm, C=C).fit(matrix, y)
        assert model.certificate_.primal == pytest.approx(dense.certificate_.primal, rel=1e-6)
        assert model.margin_ == pytest.approx(dense.margin_, rel=1e-5)
        assert (model.predict(matrix) == model.predict(X)).all()


def test_far_from_the_origin_and_in_single_precision() -> None:
    X, y = apart(6)
    for norm in NORMS:
        near = MaxMarginClassifier(norm, C=np.inf).fit(X, y)
        far = MaxMarginClassifier(norm, C=np.inf).fit(X + 1e6, y)
        assert far.margin_ == pytest.approx(near.margin_, rel=1e-6)
        single = MaxMarginClassifier(norm, C=np.inf).fit(X.astype(np.float32), y)
        assert single.margin_ == pytest.approx(near.margin_, rel=1e-4)


def test_no_weights_at_all() -> None:
    """Slack so cheap that w = 0 is best: the heavier class wins, and the margin is infinite."""
    X, y = mixed(0)
    y = np.where(np.arange(len(y)) % 3 == 0, -1, 1)
    for norm in (1, 3, np.inf):
        model = MaxMarginClassifier(norm, C=1e-4).fit(X, y)
        assert model.certificate_.converged
        assert model.margin_ > 1e6
        assert (model.predict(X) == 1).all()
    constant = MaxMarginClassifier(1).fit(np.ones((4, 2)), [0, 1, 1, 1])
    assert (constant.coef_ == 0).all()
    assert constant.margin_ == np.inf
    assert (constant.predict(np.ones((2, 2))) == 1).all()


def test_threshold_is_the_midpoint() -> None:
    """With equal numbers of slack rows on both sides, any threshold between two rows is best."""
    X, y = np.array([[-1.0], [1.0], [-2.0], [2.0]]), [0, 1, 1, 0]
    for norm in (1, 2, np.inf):
        model = MaxMarginClassifier(norm, C=0.1).fit(X, y)
        assert model.intercept_[0] == pytest.approx(0.0, abs=1e-9)


# -- what cannot be fitted ------------------------------------------------------------------


@pytest.mark.parametrize("norm", NORMS)
def test_classes_that_no_plane_separates(norm: float) -> None:
    X = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match=r"'even' and 'odd', and there is none.*finite C"):
        MaxMarginClassifier(norm, C=np.inf).fit(X, ["even", "even", "odd", "odd"])
    equal = np.vstack([X, X])  # every row has both labels
    with pytest.raises(ValueError, match="Give a finite C"):
        MaxMarginClassifier(norm, C=np.inf).fit(equal, np.repeat([0, 1], 4))
    assert MaxMarginClassifier(norm, C=1.0).fit(equal, np.repeat([0, 1], 4)).certificate_.converged


@pytest.mark.parametrize("norm", NORMS)
def test_hulls_that_almost_meet(norm: float) -> None:
    for gap in (1e-2, 1e-4, 1e-6, 1e-7):
        X = np.array([[0.0, 0.0], [1.0, 0.3], [0.0, gap], [1.0, 0.3 + gap]])
        model = MaxMarginClassifier(norm, C=np.inf).fit(X, [0, 0, 1, 1])
        assert (model.predict(X) == [0, 0, 1, 1]).all()
        expected = 0.5 * gap / np.linalg.norm([-0.3, 1.0], float(norm))
        assert model.margin_ == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"norm": 0.5}, "norm"),
        ({"norm": np.nan}, "norm"),
        ({"norm": "1"}, "norm"),
        ({"norm": True}, "norm"),
        ({"C": 0.0}, "C"),
        ({"C": -1.0}, "C"),
        ({"C": np.nan}, "C"),
        ({"C": None}, "C"),
        ({"tol": 0.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_iter": 2.5}, "max_iter"),
        ({"time_limit": -1}, "time_limit"),
        ({"calibration": "none"}, "calibration"),
        ({"class_weight": {7: 1.0}}, "class_weight"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_wrong_parameters(wrong: dict, named: str) -> None:
    X, y = mixed(0)
    with pytest.raises(ValueError, match=named):
        MaxMarginClassifier(**wrong).fit(X, y)


def test_class_weight_of_a_hard_margin_is_not_ignored_silently() -> None:
    X, y = apart(0)
    with pytest.warns(UserWarning, match="class_weight=.* has no effect"):
        MaxMarginClassifier(C=np.inf, class_weight="balanced").fit(X, y)


@pytest.mark.parametrize("norm", [1, 1.5, 2, np.inf])
def test_a_budget_that_runs_out(norm: float) -> None:
    X, y = mixed(1, n=200, d=10)
    with pytest.warns(ConvergenceWarning, match="max_iter was reached.*raise max_iter"):
        model = MaxMarginClassifier(norm, max_iter=1).fit(X, y)
    assert not model.certificate_.converged
    assert model.certificate_.dual <= model.certificate_.primal
    assert model.predict(X).shape == (200,)


@pytest.mark.parametrize("norm", [1, 1.5, np.inf])
def test_a_hard_margin_that_was_not_found_in_time(norm: float) -> None:
    """That no separating plane was found is no proof that there is none."""
    X, y = apart(0, n=200)
    with pytest.warns(ConvergenceWarning, match="was reached"):
        model = MaxMarginClassifier(norm, C=np.inf, max_iter=1, time_limit=1e-9).fit(X, y)
    assert not model.certificate_.converged
    assert model.certificate_.dual <= 1.0 / MaxMarginClassifier(norm, C=np.inf).fit(X, y).margin_
    assert model.margin_ >= 0.0
    assert model.predict(X).shape == (200,)


@pytest.mark.parametrize("norm", [1, 1.5])
def test_time_that_runs_out(norm: float) -> None:
    X, y = mixed(1, n=200, d=10)
    with pytest.warns(ConvergenceWarning, match="time_limit was reached"):
        MaxMarginClassifier(norm, time_limit=1e-9).fit(X, y)
