"""Reduced hulls: the problem, the smallest k, the estimator and its edge cases."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from tests.helpers.bounds import bounds_of
from widemargin import SVC, ReducedHullSVC, loo
from widemargin.kernels import Kernel, Rows
from widemargin.problems.reduced_hull import (
    NearestPoints,
    class_masses,
    equivalent_nu,
    reduced_hulls,
    shrink,
    threshold_interval,
)
from widemargin.solvers.base import Budget
from widemargin.solvers.reduced_hull import critical_k as module
from widemargin.solvers.reduced_hull import smallest_k, smallest_pair, solve
from widemargin.solvers.reduced_hull.critical_k import critical_mass, integer_above

BUDGET = Budget(1_000_000, cache_bytes=1e8)
BY_SMO = (BUDGET, "smo", 0)
SOLVERS = ["auto", "qp", "smo", "implicit", "sampling"]


def blobs(seed=0, m_minus=40, m_plus=30, d=3, shift=2.2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m_minus + m_plus, d))
    y = np.repeat([-1.0, 1.0], [m_minus, m_plus])
    X[y > 0, 0] += shift
    order = rng.permutation(len(y))
    return X[order], y[order]


def nearest(hulls, X, method="qp"):
    """Nearest points of hulls of rows, or of rows seen through a kernel."""
    rows = X if isinstance(X, Rows) else Rows(Kernel("linear"), X)
    return solve(hulls, rows, tol=1e-3, budget=BUDGET, method=method)


def inside_out(seed=0):
    """A small class in the middle of a large one: no common k separates them."""
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(size=(60, 2)), 0.1 * rng.normal(size=(8, 2)) + [0.3, 0.1]])
    return X, np.repeat([-1.0, 1.0], [60, 8])


# ---------------------------------------------------------------- the problem


@given(
    st.lists(st.integers(-5, 5), min_size=1, max_size=12),
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, 2.0]), min_size=12, max_size=12),
)
def test_threshold_intervals_are_where_the_loss_is_least(values, caps) -> None:
    g, D = np.array(values, dtype=float), np.array(caps[: len(values)])
    if D.sum() < 1:
        with pytest.raises(ValueError, match="at least 1"):
            threshold_interval(g, D) if D.any() else threshold_interval(g, D + 1e-3)
        return

    def loss(theta):
        return D @ np.maximum(0, theta - g) - theta

    low, high = threshold_interval(g, D)
    end = high if np.isfinite(high) else low + 3
    least = loss(low)
    assert loss(end) == pytest.approx(least, abs=1e-12)
    assert loss(0.5 * (low + end)) == pytest.approx(least, abs=1e-12)
    assert loss(low - 0.1) > least
    if np.isfinite(high):
        assert loss(high + 0.1) > least


def test_the_problem_agrees_with_its_formulas() -> None:
    """Margin, nearest points and certificate at the optimum, from w alone."""
    X, y = blobs()
    X = X - X.mean(axis=0)
    hulls = shrink(reduced_hulls(y, np.ones(len(y))), 14, 17)
    found = nearest(hulls, X)
    b, f, points = found.alpha, found.f, found.points
    D = hulls.upper - hulls.lower
    xi = np.maximum(0, points.slack(hulls, f))
    assert points.norm2 == pytest.approx(float((b @ X) @ (b @ X)))
    assert points.margin == pytest.approx(points.norm2 + D @ xi, rel=1e-9)
    assert points.eta_plus == pytest.approx(b[y > 0] @ f[y > 0], rel=1e-9)
    assert points.eta_minus == pytest.approx(-b[y < 0] @ f[y < 0], rel=1e-9)
    np.testing.assert_allclose(
        hulls.thresholds(f), [-points.theta_plus, -points.theta_minus], rtol=1e-12
    )
    certificate = hulls.certificate(b, f, bounds_of(hulls, b, X @ X.T), tol=1e-9, n_iter=1)
    assert certificate.primal == pytest.approx(-0.5 * points.norm2, rel=1e-9)
    assert certificate.primal >= certificate.dual - 1e-15
    assert equivalent_nu(hulls) == pytest.approx(2 / D.sum())


def test_thresholds_need_w_only() -> None:
    """Any w has best thresholds and a bound: the objective there is not below the optimum."""
    X, y = blobs()
    hulls = shrink(reduced_hulls(y, np.ones(len(y))), 15, 15)
    best = nearest(hulls, X - X.mean(axis=0)).points.norm2
    rng = np.random.default_rng(1)
    for _ in range(20):
        w = rng.normal(size=3)
        f = X @ w
        points = NearestPoints.of(hulls, f, float(w @ w))
        gain = points.eta_plus - points.eta_minus
        assert gain <= np.sqrt(best * (w @ w)) + 1e-9
        primal = hulls.primal(f, float(w @ w), hulls.thresholds(f))
        assert primal == pytest.approx(0.5 * (w @ w) - gain)


def test_a_c_machine_read_as_hulls() -> None:
    X, y = blobs()
    svc = SVC(kernel="linear", C=0.3, tol=1e-8).fit(X, y)
    c = 2.0 / np.abs(svc.dual_coef_).sum()  # by which its coefficients solve P3, its C is D
    hull = ReducedHullSVC(D=0.3 * c, tol=1e-8).fit(X, y)
    assert hull.equivalent_C_ == pytest.approx(0.3, rel=1e-6)
    assert hull.theta_plus_ == pytest.approx(c * (1 - svc.intercept_[0]), abs=1e-6)
    assert hull.theta_minus_ == pytest.approx(c * (-1 - svc.intercept_[0]), abs=1e-6)


# ---------------------------------------------------------------- the smallest k


def printed_critical_k(points, y):
    """1 / D for the smallest D at which the hulls meet: the program as the literature has it."""
    m, n = points.shape
    equal = np.zeros((n + 2, m + 1))
    equal[:n, :m] = (points * y[:, None]).T
    equal[n, :m], equal[n + 1, :m] = y > 0, y < 0
    below = np.hstack([np.eye(m), -np.ones((m, 1))])
    cost = np.zeros(m + 1)
    cost[m] = 1.0
    side = np.concatenate([np.zeros(n), [1.0, 1.0]])
    found = linprog(cost, A_ub=below, b_ub=np.zeros(m), A_eq=equal, b_eq=side, method="highs")
    return 1.0 / found.fun if found.status == 0 else 0.0


def by_bisection(X, y):
    """The smallest k by full solves."""
    base = reduced_hulls(y, np.ones(len(y)))
    low, high = 0, int(min(class_masses(base)))
    rows = Rows(Kernel("linear"), X - X.mean(axis=0))
    if not nearest(shrink(base, high, high), rows, "smo").separable:
        return None
    while high - low > 1:
        k = (low + high) // 2
        apart = nearest(shrink(base, k, k), rows, "smo").separable
        low, high = (low, k) if apart else (k, high)
    return high


@pytest.mark.parametrize("seed", range(20))
def test_auto_is_the_first_integer_above_the_critical_value(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m_minus, m_plus = rng.integers(15, 60, 2)
    X, y = blobs(seed, m_minus, m_plus, int(rng.integers(1, 5)), rng.uniform(0.8, 4.0))
    if seed % 4 == 0:
        X = np.round(X)  # ties put the critical value on integers
    critical = printed_critical_k(X, y)
    expected = int(np.floor(critical + 1e-6 * max(1.0, critical))) + 1
    if expected > min(m_minus, m_plus):
        expected = None
    assert by_bisection(X, y) == expected
    with warnings.catch_warnings():
        if expected is None:
            warnings.filterwarnings("ignore", message=".*no common k")
        model = ReducedHullSVC().fit(X, y)
    if expected is not None:
        assert model.k_ == expected
    else:
        assert model.k_[0] != model.k_[1]


@pytest.mark.parametrize("seed", range(5))
def test_newton_ends_where_the_program_does(seed: int, monkeypatch) -> None:
    X, y = blobs(seed, 60, 45)
    hulls = reduced_hulls(y, np.ones(len(y)))
    rows = Rows(Kernel("linear"), X - X.mean(axis=0))
    program = critical_mass(hulls, rows, *BY_SMO)
    monkeypatch.setattr(module, "LP_ENTRIES", 0)
    newton = critical_mass(hulls, rows, *BY_SMO)
    assert integer_above(newton, 45) == integer_above(program, 45)
    assert newton >= program - 1e-9


def test_the_critical_k_of_a_kernel() -> None:
    """Points with both labels are what no kernel separates: at most so many as they are."""
    X, y = blobs(3, 50, 40)
    X = np.round(X)
    hulls, rows = reduced_hulls(y, np.ones(len(y))), Rows(Kernel("rbf", 2.0), X)
    critical = critical_mass(hulls, rows, *BY_SMO)
    k = smallest_k(hulls, rows, budget=BUDGET)
    _, counts = np.unique(X, axis=0, return_inverse=True)
    both = sum(
        min(np.sum((counts == c) & (y > 0)), np.sum((counts == c) & (y < 0))) for c in set(counts)
    )
    assert critical == pytest.approx(both, rel=1e-2)
    for tried, expected in ((k, True), (k - 1, False)):
        part = shrink(hulls, tried, tried)
        assert nearest(part, rows, "smo").separable is expected


def test_auto_with_a_smooth_kernel_has_nearest_points_in_float64() -> None:
    """Its hulls are apart, by a hair, at smaller k too; there the answer would be rounding."""
    X, y = blobs(1, 170, 130, 2, 1.0)
    model = ReducedHullSVC(kernel="rbf", gamma=0.3).fit(X, y)
    assert model.certificate_.converged
    assert 1 < model.k_ < 130
    distance = np.sqrt(-2 * model.certificate_.dual)
    assert 1e-5 < distance < 1e-2


def test_the_smallest_pair_is_in_proportion_and_least() -> None:
    X, y = inside_out()
    hulls, rows = reduced_hulls(y, np.ones(len(y))), Rows(Kernel("linear"), X)
    pair = smallest_pair(hulls, rows, budget=BUDGET)
    assert pair is not None
    assert nearest(shrink(hulls, *pair), X).separable
    fraction = min((pair[0] - 1) / 8, (pair[1] - 1) / 60)
    smaller = shrink(hulls, fraction * 8, fraction * 60)
    assert not nearest(smaller, X).separable


def test_integers_near_the_critical_value_are_not_above_it() -> None:
    assert [integer_above(near, 10) for near in (3.0, 3.0 - 1e-8, 3.0 + 1e-8)] == [4, 4, 4]
    assert integer_above(2.999, 10) == 3
    assert integer_above(2.2, 2.5) == 2.5  # weights: the next integer is beyond the class
    assert integer_above(10.0, 10) is None


# ---------------------------------------------------------------- the estimator


@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers_end_at_the_same_machine(solver: str) -> None:
    X, y = blobs(shift=3.0)
    reference = ReducedHullSVC(k=(12, 15), solver="qp").fit(X, y)
    model = ReducedHullSVC(k=(12, 15), solver=solver, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-7)
    assert model.theta_plus_ == pytest.approx(reference.theta_plus_, abs=1e-8)
    assert model.certificate_.converged
    np.testing.assert_array_equal(model.outliers_, reference.outliers_)
    if solver in ("implicit", "sampling"):
        assert model.history_
    else:
        assert model.history_ == []


def test_many_rows_by_implicit_outliers() -> None:
    """Beyond the size of one quadratic program, whatever the seed and the order of rows."""
    X, y = blobs(0, 9_000, 7_000, 4, 2.0)
    models = [ReducedHullSVC(k=0.4, random_state=seed).fit(X, y) for seed in (0, 1)]
    models.append(ReducedHullSVC(k=0.4).fit(X[::-1], y[::-1]))
    for model in models:
        assert model.certificate_.converged
        assert model.certificate_.gap - model.certificate_.rounding < 1e-12
        np.testing.assert_allclose(model.coef_, models[0].coef_, rtol=1e-9, atol=1e-9)
    assert len(models[0].history_) >= 1


def test_outliers_and_scores() -> None:
    """Rows beyond their threshold, at most k of each class; scores are 1 and -1 at thresholds."""
    X, y = blobs()
    model = ReducedHullSVC(k=14).fit(X, y)
    values = model.decision_function(X)
    assert set(model.outliers_) == set(np.flatnonzero(y * values < 1 - 1e-9))
    for sign in (1, -1):
        assert np.sum(y[model.outliers_] == sign) <= 14
    np.testing.assert_array_equal(model.predict(X), np.where(values > 0, 1, -1))
    scale = 2 / (model.theta_plus_ - model.theta_minus_)
    middle = 0.5 * (model.theta_plus_ + model.theta_minus_)
    w = model.coef_[0] / scale
    np.testing.assert_allclose(values, scale * (X @ w - middle), atol=1e-12)
    assert model.nu_ == pytest.approx(28 / 70)


def test_two_cuts_one_direction() -> None:
    X, y = blobs()
    theta, hull = (ReducedHullSVC(k=14, cut=cut).fit(X, y) for cut in ("theta", "hull"))
    np.testing.assert_allclose(theta.coef_, hull.coef_, rtol=1e-12)
    beta = hull.dual_coef_[0]
    means = [beta[beta > 0] @ hull.support_vectors_[beta > 0] / beta[beta > 0].sum(),
             beta[beta < 0] @ hull.support_vectors_[beta < 0] / beta[beta < 0].sum()]  # fmt: skip
    values = hull.decision_function(means)  # the nearest points themselves
    assert values[0] == pytest.approx(-values[1], rel=1e-6)
    assert not np.allclose(theta.intercept_, hull.intercept_)
    with pytest.raises(ValueError, match="cut='theta'"):
        loo.error(hull)
    assert hasattr(theta, "predict_proba")
    assert not hasattr(hull, "predict_proba")


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_leave_one_out_is_that_of_the_equivalent_c(kernel: str) -> None:
    X, y = blobs()
    hull = ReducedHullSVC(k=14, kernel=kernel, tol=1e-8).fit(X + 5.0, y)
    svc = SVC(C=hull.equivalent_C_, kernel=kernel, tol=1e-8).fit(X + 5.0, y)
    np.testing.assert_allclose(loo.decision_values(hull), loo.decision_values(svc), atol=1e-5)
    np.testing.assert_allclose(hull.predict_proba(X), svc.predict_proba(X), atol=1e-4)


def test_more_than_two_classes() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2)) + np.repeat([[0, 0], [3, 0], [0, 3]], 30, axis=0)
    y = np.repeat(["a", "b", "c"], 30)
    model = ReducedHullSVC(k=0.4).fit(X, y)
    assert model.theta_plus_.shape == model.theta_minus_.shape == model.nu_.shape == (3,)
    assert model.k_ == [12, 12, 12]
    assert len(model.certificates_) == len(model.equivalent_C_) == 3
    assert model.decision_function(X).shape == (90, 3)
    assert model.score(X, y) > 0.85
    pair = ReducedHullSVC(k=12).fit(X[:60], y[:60])
    assert -pair.theta_minus_ == pytest.approx(model.theta_plus_[0], abs=1e-9)  # signs change


def test_weights_are_repetitions() -> None:
    X, y = blobs()
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    twice = np.repeat(np.arange(len(y)), weight.astype(int))
    weighted = ReducedHullSVC(k=25).fit(X, y, sample_weight=weight)
    repeated = ReducedHullSVC(k=25).fit(X[twice], y[twice])
    np.testing.assert_array_equal(weighted.coef_, repeated.coef_)
    np.testing.assert_array_equal(np.unique(twice[repeated.outliers_]), weighted.outliers_)


def test_parameters_that_mean_the_same() -> None:
    X, y = blobs(shift=3.0)
    same = [{"k": (12, 16)}, {"k": (0.4, 0.4)}, {"k": 0.4}, {"D": (1 / 12, 1 / 16)}]
    models = [ReducedHullSVC(**params).fit(X, y) for params in same]
    for model in models[1:]:
        np.testing.assert_allclose(model.coef_, models[0].coef_, rtol=1e-9)
    hard = [ReducedHullSVC(**p).fit(*blobs(shift=8.0)) for p in ({"k": 1}, {"D": 1}, {"D": 7.0})]
    for model in hard:
        np.testing.assert_array_equal(model.coef_, hard[0].coef_)
        assert len(model.outliers_) == 0
    assert clone(models[0]).get_params()["k"] == (12, 16)


# ---------------------------------------------------------------- edge cases


@pytest.mark.parametrize("solver", SOLVERS)
def test_not_separable_names_the_smallest_k(solver: str) -> None:
    X, y = blobs(shift=2.2)
    smallest = ReducedHullSVC().fit(X, y).k_
    assert smallest > 3
    with pytest.raises(ValueError, match=f"k >= {smallest}$"):
        ReducedHullSVC(k=smallest - 1, solver=solver).fit(X, y)
    assert ReducedHullSVC(k=smallest, solver=solver).fit(X, y).certificate_.converged
    with pytest.raises(ValueError, match=f"not separable.* k >= {smallest}$"):
        ReducedHullSVC(k=1, solver=solver).fit(X, y)


def test_no_common_k_proposes_two() -> None:
    X, y = inside_out()
    with pytest.raises(ValueError, match=r"no common k works.*k_plus != k_minus"):
        ReducedHullSVC(k=8).fit(X, y)
    with pytest.warns(UserWarning, match=r"no common k separates.*k_plus != k_minus"):
        model = ReducedHullSVC().fit(X, y)
    again = ReducedHullSVC(k=model.k_).fit(X, y)
    np.testing.assert_array_equal(model.coef_, again.coef_)
    assert isinstance(model.equivalent_C_, tuple)


def test_the_same_point_with_both_labels() -> None:
    X = np.array([[0.0], [1.0], [1.0], [2.0]])
    with pytest.raises(ValueError, match=r"not separable.*k >= 2"):
        ReducedHullSVC(k=1).fit(X, [0, 0, 1, 1])
    assert ReducedHullSVC().fit(X, [0, 0, 1, 1]).k_ == 2


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_all_points_equal(kernel: str) -> None:
    for k in (1, 2, "auto"):
        with pytest.raises(ValueError, match="means of the classes coincide"):
            ReducedHullSVC(k=k, kernel=kernel).fit(np.ones((6, 2)), [0, 1] * 3)


def test_k_beyond_the_class() -> None:
    X, y = blobs()
    for bad in ({"k": 31}, {"D": 1 / 31}):
        with pytest.raises(ValueError, match="must be <= 30, the size of the smaller class"):
            ReducedHullSVC(**bad).fit(X, y)
    with pytest.raises(ValueError, match="must be <= 40, the size of its class"):
        ReducedHullSVC(k=(20, 41)).fit(X, y)


@pytest.mark.parametrize(
    "bad",
    [
        *[{"k": k} for k in (0, -1, np.nan, np.inf, "some", None, True, (1, 2, 3), (0, 3), 0.0)],
        *[{"D": D} for D in (0, -0.5, np.nan, "auto", (1, 0))],
        {"k": 3, "D": 0.5},
        {"cut": "middle"},
        {"solver": "magic"},
        {"solver": "qp", "kernel": "rbf"},
        {"calibration": "none"},
        {"tol": 0},
    ],
)
def test_bad_parameters_are_named(bad) -> None:
    X, y = blobs()
    with pytest.raises(ValueError, match=rf"({'|'.join(bad)})\b.* must be"):
        ReducedHullSVC(**bad).fit(X, y)


def test_bad_data() -> None:
    X, y = blobs()
    with pytest.raises(ValueError, match="one class"):
        ReducedHullSVC().fit(X, np.ones(len(y)))
    for value in (np.nan, np.inf):
        broken = X.copy()
        broken[3, 1] = value
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            ReducedHullSVC().fit(broken, y)
    with pytest.raises(ValueError, match="dense"):
        ReducedHullSVC(solver="qp").fit(sp.csr_array(X), y)


@pytest.mark.parametrize("k", [(30, 40), (30, 20), (20, 40)])
def test_a_whole_class_has_a_finite_threshold(k) -> None:
    """k = m: all masses are at their bound, the interval of theta has no end on one side."""
    X, y = blobs()
    model = ReducedHullSVC(k=k).fit(X, y)
    f = X @ model.coef_[0] * 0.5 * (model.theta_plus_ - model.theta_minus_)
    if k[0] == 30:
        assert model.theta_plus_ == pytest.approx(f[y > 0].max())
    if k[1] == 40:
        assert model.theta_minus_ == pytest.approx(f[y < 0].min())
    assert np.isfinite(model.decision_function(X)).all()


def test_rows_without_weight_are_ignored() -> None:
    X, y = blobs()
    weight = np.ones(len(y))
    weight[:5] = 0.0
    with_them = ReducedHullSVC(k=14).fit(X, y, sample_weight=weight)
    without = ReducedHullSVC(k=14).fit(X[5:], y[5:])
    np.testing.assert_array_equal(with_them.coef_, without.coef_)
    assert not set(with_them.outliers_) & set(range(5))


def test_ties_and_duplicates() -> None:
    X, y = blobs(4)
    X = np.round(X)
    models = [ReducedHullSVC(k=20, solver=s, tol=1e-9).fit(X, y) for s in ("qp", "smo", "implicit")]
    for model in models:
        np.testing.assert_allclose(model.coef_, models[0].coef_, atol=1e-7)


@pytest.mark.parametrize("offset", [1e4, 1e8])
def test_far_from_the_origin(offset: float) -> None:
    X, y = blobs()
    near, far = (ReducedHullSVC(k=14).fit(X + shift, y) for shift in (0.0, offset))
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-7 * max(1.0, offset / 1e8))
    np.testing.assert_array_equal(far.predict(X + offset), near.predict(X))


def test_features_of_all_scales() -> None:
    X, y = blobs()
    model = ReducedHullSVC(k=14).fit(X * [1e4, 1.0, 1e-4], y)
    assert model.certificate_.converged
    assert model.score(X * [1e4, 1.0, 1e-4], y) > 0.8


def test_other_labels_containers_and_precisions() -> None:
    X, y = blobs()
    reference = ReducedHullSVC(k=14).fit(X, y)
    names = np.where(y > 0, "yes", "no")
    assert set(ReducedHullSVC(k=14).fit(X, names).predict(X)) == {"yes", "no"}
    sparse = ReducedHullSVC(k=14, tol=1e-8).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.coef_, reference.coef_, atol=1e-6)
    single = ReducedHullSVC(k=14).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.coef_, reference.coef_, atol=1e-4)
    K = X @ X.T
    looked_up = ReducedHullSVC(k=14, kernel="precomputed", tol=1e-8).fit(K, y)
    np.testing.assert_allclose(
        looked_up.decision_function(K), reference.decision_function(X), atol=1e-6
    )


def test_a_budget_that_runs_out_warns_with_numbers() -> None:
    X, y = blobs(m_minus=400, m_plus=300)
    with pytest.warns(ConvergenceWarning, match="KKT violation.*max_iter"):
        model = ReducedHullSVC(k=200, solver="smo", max_iter=3, tol=1e-9).fit(X, y)
    assert not model.certificate_.converged
    assert model.certificate_.primal >= model.certificate_.dual
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize(("solver", "k", "shift"), [("implicit", 0.4, 2.0), ("sampling", 3, 9.0)])
def test_rounds_that_run_out_warn_with_numbers(solver: str, k: float, shift: float) -> None:
    X, y = blobs(0, 9_000, 7_000, 4, shift)
    with pytest.warns(ConvergenceWarning, match=r"after 1 steps.*KKT violation"):
        model = ReducedHullSVC(k=k, solver=solver, max_iter=1).fit(X, y)
    assert not model.certificate_.converged
    assert model.certificate_.primal >= model.certificate_.dual
    assert np.isfinite(model.decision_function(X)).all()


def test_a_time_limit_ends_the_fit() -> None:
    X, y = blobs(0, 900, 700)
    with pytest.warns(ConvergenceWarning, match=r"time_limit"):
        model = ReducedHullSVC(k=0.6, solver="smo", time_limit=1e-9, tol=1e-9).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()


def test_heavy_tails_and_a_tiny_class() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_cauchy(size=(12_000, 4))
    y = np.where(X[:, 0] + 0.3 * rng.standard_cauchy(12_000) > 0, 1.0, -1.0)
    tails = ReducedHullSVC(k=0.5).fit(X, y)
    X, y = blobs(0, 12_000, 12, 4, 3.0)
    tiny = ReducedHullSVC(k=(4, 0.2)).fit(X, y)
    for model in (tails, tiny):
        assert model.certificate_.converged
        # Rows 1e4 away round w.x to 1e-12, and thresholds with it.
        proof = model.certificate_
        assert proof.gap - proof.rounding <= 1e-9 * abs(proof.dual)
