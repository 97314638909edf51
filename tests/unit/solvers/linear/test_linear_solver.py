"""The linear machine's solver: certificates first, then independent solvers, then symmetries."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import SVC
from sklearn.svm import LinearSVC as Liblinear

from widemargin.problems.soft_margin import c_classification
from widemargin.problems.soft_margin.linear import linear_certificate
from widemargin.solvers.base import Budget
from widemargin.solvers.linear import LinearResult, smoothed_newton, solve
from widemargin.solvers.linear import levels as linear_levels
from widemargin.solvers.numerics import data_products as linear_rows
from widemargin.solvers.numerics.data_products import LinearRows


@dataclass
class Case:
    """Data and the problem to solve on them."""

    X: np.ndarray | sp.csr_matrix
    y: np.ndarray
    cost: np.ndarray
    squared: bool = False
    intercept: bool = True

    def problem(self):
        return c_classification(self.y, self.cost, squared=self.squared, intercept=self.intercept)

    def solve(self, tol=1e-6, max_iter=1000, seed=0, monitor=None, start=None) -> LinearResult:
        budget = Budget(max_iter, monitor)
        return solve(self.problem(), self.X, tol=tol, budget=budget, start=start, seed=seed)

    def dense(self):
        X = self.X.toarray() if sp.issparse(self.X) else self.X
        return np.asarray(X, dtype=np.float64)

    def primal(self, coef, intercept):
        """The primal objective, written down once more."""
        slack = np.maximum(0.0, 1.0 - self.y * (self.dense() @ coef + intercept))
        return 0.5 * coef @ coef + self.cost @ (slack**2 if self.squared else slack)

    def dual(self, b):
        """The dual objective, written down once more."""
        w = b @ self.dense()
        own = (b**2 / (4 * self.cost)).sum() if self.squared else 0.0
        return np.abs(b).sum() - 0.5 * w @ w - own


def check(case: Case, result: LinearResult, tol: float) -> None:
    """The pair is feasible, its objectives are as reported and their gap is as asked."""
    alpha = case.y * result.alpha
    assert alpha.min() >= 0.0
    if not case.squared:
        assert (alpha <= case.cost).all()
    if case.intercept:
        assert abs(result.alpha.sum()) <= 1e-12 * np.abs(result.alpha).sum()
    else:
        assert result.intercept == 0.0
    primal, dual = case.primal(result.coef, result.intercept), case.dual(result.alpha)
    scale = max(1.0, abs(primal))
    assert result.primal == pytest.approx(primal, rel=1e-9, abs=1e-9)
    assert result.dual == pytest.approx(dual, abs=1e-9 * scale)
    assert -1e-9 * scale <= primal - dual <= 1.001 * tol * scale
    assert result.status == "converged"
    assert result.n_iter >= 1


def rng_of(name):
    return np.random.default_rng(zlib.crc32(name.encode()))


def make(kind, C, *, squared=False, intercept=True, n=60, d=4):
    """Return one of the awkward data sets, drawn from the seed of its name."""
    rng = rng_of(f"{kind}{n}{d}")
    X = rng.normal(size=(n, d))
    direction = rng.normal(size=d)
    y = np.where(X @ direction + rng.normal(size=n) > 0, 1.0, -1.0)
    cost = np.full(n, float(C))
    if kind == "separable":
        y = np.where(X @ direction > 0, 1.0, -1.0)
        X += 0.2 * np.outer(y, direction)
    elif kind == "duplicates":
        copies = rng.integers(0, n // 4, n)
        X, y = X[copies], y[copies]
    elif kind == "conflicting":
        X = X[rng.integers(0, n // 4, n)]
    elif kind == "scaled_feature":
        X[:, 0] *= 1e3
    elif kind == "offset":
        X += 1e3
    elif kind == "tiny_class":
        y = np.where(np.arange(n) < 2, 1.0, -1.0)
    elif kind == "random_labels":
        y = rng.choice([-1.0, 1.0], n)
    elif kind == "heavy_tails":
        X = rng.standard_t(1.2, size=(n, d))
    elif kind == "integers":
        X = np.round(X)
    elif kind == "weights":
        cost *= 10.0 ** rng.uniform(-2, 2, n)
    elif kind == "constant":
        X[:] = 1.0
    y[:2] = 1.0, -1.0
    return Case(X, y, cost, squared, intercept)


KINDS = [
    "overlap", "separable", "duplicates", "conflicting", "scaled_feature", "offset", "tiny_class",
    "random_labels", "heavy_tails", "integers", "weights", "constant",
]  # fmt: skip


def clarabel_optimum(case: Case) -> float:
    """Minimise over (w, b, slack) with an interior-point method that shares nothing with ours."""
    X, y = case.dense(), case.y
    if case.intercept:
        X = X - X.mean(axis=0)  # moves the threshold only, and Clarabel fails on large offsets
    n, d = X.shape
    free = 1 if case.intercept else 0
    quadratic = np.concatenate(
        [np.ones(d), np.zeros(free), 2 * case.cost if case.squared else np.zeros(n)]
    )
    linear = np.concatenate([np.zeros(d + free), np.zeros(n) if case.squared else case.cost])
    margins = sp.hstack([-y[:, None] * X, -y[:, None] * np.ones((n, free)), -sp.eye(n)])
    A = sp.vstack([margins, sp.hstack([sp.csc_matrix((n, d + free)), -sp.eye(n)])])
    right = np.concatenate([-np.ones(n), np.zeros(n)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = 1e-10
    cones = [clarabel.NonnegativeConeT(2 * n)]
    P = sp.diags(quadratic).tocsc()
    solution = clarabel.DefaultSolver(P, linear, A.tocsc(), right, cones, settings).solve()
    assert str(solution.status) in {"Solved", "AlmostSolved"}
    return float(solution.obj_val)


@pytest.mark.parametrize("C", [1e-4, 1.0, 1e5])
@pytest.mark.parametrize("kind", KINDS)
def test_awkward_problems_reach_a_tight_gap(kind, C):
    for squared in (False, True):
        for intercept in (False, True):
            case = make(kind, C, squared=squared, intercept=intercept)
            check(case, case.solve(tol=1e-6), 1e-6)


@pytest.mark.parametrize("C", [1e-2, 1.0, 1e2])
@pytest.mark.parametrize("kind", KINDS)
def test_clarabel_agrees(kind, C):
    for squared in (False, True):
        case = make(kind, C, squared=squared, n=40, d=3)
        result = case.solve(tol=1e-8)
        optimum = clarabel_optimum(case)
        assert result.primal == pytest.approx(optimum, rel=1e-5, abs=1e-6)
        assert result.dual == pytest.approx(optimum, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("kind", ["overlap", "separable", "duplicates", "integers"])
def test_svc_with_a_linear_kernel_has_the_same_optimum(kind):
    case = make(kind, 10.0, n=300, d=5)
    result = case.solve(tol=1e-8)
    libsvm = SVC(kernel="linear", C=10.0, tol=1e-6).fit(case.X, case.y)
    theirs = case.primal(libsvm.coef_[0], libsvm.intercept_[0])
    # LIBSVM keeps its kernel in float32, so it comes this close and no closer.
    assert result.primal <= (1 + 1e-8) * theirs
    assert result.primal == pytest.approx(theirs, rel=2e-5)
    np.testing.assert_allclose(result.coef, libsvm.coef_[0], atol=1e-3 * np.abs(result.coef).max())


@pytest.mark.parametrize("squared", [False, True])
def test_liblinear_without_intercept_has_the_same_optimum(squared):
    case = make("overlap", 0.5, n=400, d=8, squared=squared, intercept=False)
    loss = "squared_hinge" if squared else "hinge"
    liblinear = Liblinear(
        C=0.5, loss=loss, dual=True, fit_intercept=False, tol=1e-8, max_iter=100_000
    ).fit(case.X, case.y)
    theirs = case.primal(liblinear.coef_[0], 0.0)
    assert case.solve(tol=1e-8).primal == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize(("n", "d"), [(2, 1), (3, 1), (5, 30), (40, 1), (30, 200)])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
def test_few_rows_and_single_features(n, d, C):
    for squared in (False, True):
        case = make("overlap", C, n=n, d=d, squared=squared)
        check(case, case.solve(tol=1e-7), 1e-7)


def test_a_translation_moves_the_threshold_only():
    """Fewer free rows than features, so that an offset could swallow their products' digits."""
    case = make("overlap", 200.0, n=290, d=215)
    check(case, case.solve(tol=1e-6), 1e-6)
    far = Case(case.X + 5e3, case.y, case.cost).solve(tol=1e-6)
    assert far.status == "converged"
    assert far.primal == pytest.approx(case.solve(tol=1e-6).primal, rel=2e-6)


def test_weights_mean_repetition():
    case = make("overlap", 1.0, n=80, d=3)
    times = rng_of("times").integers(1, 4, 80)
    weighted = Case(case.X, case.y, case.cost * times).solve(tol=1e-10)
    repeated = Case(
        np.repeat(case.X, times, axis=0), np.repeat(case.y, times), np.ones(times.sum())
    ).solve(tol=1e-10)
    assert weighted.primal == pytest.approx(repeated.primal, rel=1e-9)
    np.testing.assert_allclose(weighted.coef, repeated.coef, atol=1e-6)
    assert weighted.intercept == pytest.approx(repeated.intercept, abs=1e-6)


def test_flipping_the_labels_flips_the_model():
    case = make("overlap", 1.0, n=80, d=3)
    plus, minus = case.solve(tol=1e-10), Case(case.X, -case.y, case.cost).solve(tol=1e-10)
    np.testing.assert_allclose(plus.coef, -minus.coef, atol=1e-7)
    np.testing.assert_allclose(plus.alpha, -minus.alpha, atol=1e-6)
    assert plus.intercept == pytest.approx(-minus.intercept, abs=1e-7)


def test_a_flat_threshold_is_the_midpoint_of_its_interval():
    """Both rows at their bound: w = 0.3, and every b in [-1, 0.1] is optimal."""
    case = Case(np.array([[0.0], [3.0]]), np.array([-1.0, 1.0]), np.full(2, 0.1))
    result = case.solve(tol=1e-9)
    assert result.coef[0] == pytest.approx(0.3)
    assert result.intercept == pytest.approx(-0.45)


def test_one_kind_of_storage_is_as_good_as_another():
    case = make("overlap", 3.0, n=500, d=6)
    X = np.where(np.abs(case.X) > 0.7, case.X, 0.0).astype(np.float32).astype(np.float64)
    wide = sp.csr_matrix(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    stores = [X, X.astype(np.float32), sp.csr_matrix(X), sp.csr_array(X.astype(np.float32)), wide]
    results = []
    for store in stores:
        one = Case(store, case.y, case.cost)
        results.append(one.solve(tol=1e-9))
        check(one, results[-1], 1e-9)
    for result in results[1:]:
        np.testing.assert_allclose(result.coef, results[0].coef, atol=1e-5)


def test_the_data_may_be_read_only_and_are_left_alone():
    case = make("overlap", 1.0, n=3000, d=3)
    case.X.setflags(write=False)
    before = case.X.copy()
    check(case, case.solve(tol=1e-4), 1e-4)
    np.testing.assert_array_equal(case.X, before)


def large(kind, n=60_000, d=6, C=1.0, squared=False):
    case = make(kind, C, n=n, d=d, squared=squared)
    order = np.argsort(case.y, kind="stable")  # sorted by class: a sample must not mind
    return Case(case.X[order], case.y[order], case.cost[order], squared)


@pytest.mark.parametrize("kind", ["overlap", "separable", "heavy_tails", "integers", "weights"])
def test_many_rows_go_through_samples_and_parts(kind):
    for C, tol in ((1e-3, 1e-3), (1.0, 1e-6), (1e4, 1e-3)):
        case = large(kind, C=C)
        check(case, case.solve(tol=tol), tol)


def test_many_rows_squared():
    case = large("overlap", squared=True)
    check(case, case.solve(tol=1e-6), 1e-6)


def test_a_tiny_class_among_many_rows():
    case = large("tiny_class")
    case.X[case.y > 0] += 2.0
    check(case, case.solve(tol=1e-5), 1e-5)


def test_the_seed_decides_the_bits_and_little_else():
    case = large("overlap", n=40_000, d=4)
    first, again, other = case.solve(tol=1e-5), case.solve(tol=1e-5), case.solve(tol=1e-5, seed=1)
    np.testing.assert_array_equal(first.coef, again.coef)
    np.testing.assert_array_equal(first.alpha, again.alpha)
    assert other.primal == pytest.approx(first.primal, rel=1e-5)


def text_like(n, d, seed, noise=0.05):
    """Sparse rows of unit length whose columns follow Zipf's law."""
    rng = np.random.default_rng(seed)
    frequency = 1.0 / np.arange(1, d + 1)
    columns = rng.choice(d, (n, 25), p=frequency / frequency.sum())
    X = sp.csr_matrix(
        (rng.exponential(size=25 * n), columns.ravel(), 25 * np.arange(n + 1)), (n, d)
    )
    X.sum_duplicates()
    X = sp.csr_matrix(sp.diags(1.0 / sp.linalg.norm(X, axis=1)) @ X)
    y = np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)
    y[rng.random(n) < noise] *= -1.0
    return X, y


@pytest.mark.parametrize("C", [1e-2, 1.0, 100.0])
@pytest.mark.parametrize(("n", "d"), [(4000, 3000), (1000, 8000)])
def test_wide_sparse_rows(n, d, C):
    X, y = text_like(n, d, seed=n)
    case = Case(X, y, np.full(n, C))
    check(case, case.solve(tol=1e-4), 1e-4)


def test_conjugate_gradients_and_factorisations_agree(monkeypatch):
    X, y = text_like(800, 500, seed=3)
    for store in (X, X.toarray()):
        case = Case(store, y, np.ones(len(y)))
        monkeypatch.setattr(smoothed_newton, "LARGEST_FACTOR", 0)
        iterated = case.solve(tol=1e-8)
        monkeypatch.setattr(smoothed_newton, "LARGEST_FACTOR", 2000)
        monkeypatch.setattr(smoothed_newton, "SMALL_FACTOR", 2000)
        factorised = case.solve(tol=1e-8)
        check(case, iterated, 1e-8)
        check(case, factorised, 1e-8)
        np.testing.assert_allclose(iterated.coef, factorised.coef, atol=1e-3)


def test_leaving_rows_out_changes_nothing_but_the_work(monkeypatch):
    case = make("heavy_tails", 10.0, n=3000, d=5)
    parts = case.solve(tol=1e-7)
    monkeypatch.setattr(linear_levels, "WHOLE", 10_000)
    whole = case.solve(tol=1e-7)
    check(case, parts, 1e-7)
    check(case, whole, 1e-7)
    assert parts.primal == pytest.approx(whole.primal, rel=2e-7)


def test_a_spent_budget_leaves_an_honest_pair():
    for case in (make("scaled_feature", 10.0, n=200), large("overlap", n=40_000, d=3)):
        result = case.solve(tol=1e-9, max_iter=2)
        assert result.status == "max_iter"
        assert result.n_iter <= 2
        assert result.primal == pytest.approx(case.primal(result.coef, result.intercept))
        assert result.dual == pytest.approx(case.dual(result.alpha))
        assert result.primal > result.dual >= 0.0
        assert result.primal <= case.cost.sum() * 1.001  # no worse than the zero model
        assert abs(result.alpha.sum()) <= 1e-9 * case.cost.sum()


def test_the_monitor_sees_the_gap_fall_and_may_stop():
    case = make("heavy_tails", 100.0, n=2000, d=5)
    seen = []

    def stop_after_six(n_iter, gap):
        seen.append((n_iter, gap))
        return n_iter < 6

    result = case.solve(tol=1e-9, monitor=stop_after_six)
    assert result.status == "stopped"
    assert result.n_iter == 6
    assert [n for n, _ in seen] == sorted(n for n, _ in seen)
    assert seen[-1][1] < seen[0][1]
    assert result.primal == pytest.approx(case.primal(result.coef, result.intercept))


def test_a_monitor_that_stops_at_once_stops_a_sample_too():
    result = large("overlap", n=40_000, d=3).solve(tol=1e-9, monitor=lambda n_iter, gap: False)
    assert result.status == "stopped"
    assert np.isfinite(result.primal)


def test_an_interrupt_passes_through():
    def interrupted(n_iter, gap):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make("overlap", 1.0).solve(monitor=interrupted)


@pytest.mark.parametrize("size", [1e200, 1e20, 1e-200])
def test_values_beyond_the_arithmetic_end_with_an_honest_gap(size):
    for squared in (False, True):
        case = make("overlap", 1.0, squared=squared)
        case.X = case.X * size
        result = case.solve(tol=1e-3)
        gap = (result.primal - result.dual) / max(1.0, result.primal)
        assert np.isfinite(result.coef).all()
        assert (result.status == "converged") == (gap <= 1e-3)


@pytest.mark.parametrize("squared", [False, True])
def test_certificates_are_recomputed(squared):
    case = make("weights", 1.0, squared=squared)
    problem, result = case.problem(), case.solve(tol=1e-5)
    rows = LinearRows(case.X)
    certificate = linear_certificate(
        problem, rows, result.coef, result.intercept, result.alpha, tol=1e-5, n_iter=result.n_iter
    )
    f = case.X @ (case.X.T @ result.alpha)
    assert certificate.primal == pytest.approx(case.primal(result.coef, result.intercept))
    assert certificate.dual == pytest.approx(case.dual(result.alpha))
    assert certificate.gap == pytest.approx(certificate.primal - certificate.dual)
    assert certificate.kkt_violation == pytest.approx(problem.kkt_violation(result.alpha, f))
    assert certificate.converged
    worse = linear_certificate(
        problem, rows, 0.5 * result.coef, 0.0, result.alpha, tol=1e-5, n_iter=1
    )
    assert not worse.converged
    assert worse.primal > certificate.primal


@pytest.mark.parametrize("squared", [False, True])
def test_a_start_at_the_solution_ends_there(squared):
    case = make("heavy_tails", 10.0, n=300, d=5, squared=squared)
    cold = case.solve(tol=1e-9)
    warm = case.solve(tol=1e-6, start=cold)
    check(case, warm, 1e-6)
    assert warm.n_iter < cold.n_iter


def test_both_methods_have_the_same_optimum_and_others_are_refused():
    case = make("weights", 1.0, n=500, d=4)
    problem, options = case.problem(), {"tol": 1e-9}
    read = solve(problem, case.X, budget=Budget(100), method="out_of_core", **options)
    check(case, read, 1e-9)
    assert read.passes == 1.0
    newton = solve(problem, case.X, budget=Budget(1000), method="smoothed_newton", **options)
    assert read.primal == pytest.approx(newton.primal, rel=1e-8)
    with pytest.raises(ValueError, match="method must be"):
        solve(problem, case.X, budget=Budget(10), method="newton", **options)
    X = sp.csr_matrix(case.X)
    with pytest.raises(ValueError, match=r"out_of_core.*dense"):
        solve(problem, X, budget=Budget(10), method="out_of_core", **options)


@pytest.mark.parametrize("sparse", [False, True])
def test_products_do_not_depend_on_slabs_and_threads(monkeypatch, sparse):
    rng = rng_of("products")
    X = np.where(rng.random((301, 17)) < 0.4, rng.normal(size=(301, 17)), 0.0)
    w, coef, weight = rng.normal(size=17), rng.normal(size=301), rng.random(301)
    some = np.flatnonzero(rng.random(301) < 0.5)
    centre = rng.normal(size=17)
    store = sp.csr_matrix(X) if sparse else X
    monkeypatch.setattr(linear_rows, "SLAB", 256)
    monkeypatch.setattr(linear_rows, "BLOCK", 256)

    def products(threads):
        rows = LinearRows(store, threads=threads)
        return [
            rows.dot(w),
            rows.combine(coef),
            rows.curvature(some, weight[some], centre, w),
            rows.spread(some, weight[some], np.zeros(17)),
            rows.feature_gram(some, weight[some], centre),
            rows.row_gram(some, centre),
        ]

    shifted = X[some] - centre
    expected = [
        X @ w,
        X.T @ coef,
        shifted.T @ (weight[some] * (shifted @ w)),
        weight[some] @ X[some] ** 2,
        shifted.T @ (weight[some][:, None] * shifted),
        shifted @ shifted.T,
    ]
    for alone, together, right in zip(products(1), products(3), expected, strict=True):
        np.testing.assert_array_equal(alone, together)
        np.testing.assert_allclose(alone, right, atol=1e-11)
