"""Leave-one-out without retraining against retraining: ours to 1e-8, others to their accuracy."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from itertools import combinations

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC as LibSVC
from sklearn.svm import SVR as LibSVR

from tests.helpers.byhand import gram
from widemargin import SVC, SVR, LinearSVC, NuSVC, NuSVR, loo
from widemargin.kernels import Kernel, Rows
from widemargin.problems.soft_margin import SoftMargin, c_classification, epsilon_tube
from widemargin.solvers.leave_one_out import LeaveOneOut, first_order, polish
from widemargin.solvers.soft_margin import padded

KERNELS = (
    {"kernel": "linear"},
    {"kernel": "rbf", "gamma": 0.1},
    {"kernel": "rbf", "gamma": 1.0},
    {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 0.0},
    {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0},
    {"kernel": "poly", "gamma": 0.5, "degree": 3, "coef0": 0.0},
    {"kernel": "poly", "gamma": 0.5, "degree": 3, "coef0": 1.0},
)
COSTS = (0.01, 0.3, 1.0, 30.0, 1e3)
TUBES = (0.0, 0.1, 0.5)
KINDS = ("hinge", "squared_hinge", "tube")
seeds = st.integers(0, 10_000)
both_intercepts = pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])


@dataclass
class Problem:
    """Rows, weights, a kernel and one of the machines."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    kernel: dict
    kind: str
    C: float
    epsilon: float = 0.0
    intercept: bool = True

    @property
    def is_regression(self) -> bool:
        return self.kind == "tube"

    @property
    def K(self) -> np.ndarray:
        return gram(self.X, self.X, **self.kernel)

    def fit(self, weight: np.ndarray | None = None, tol: float = 1e-10):
        """Fit our machine, as far as rounding lets it come."""
        common = {"C": self.C, "fit_intercept": self.intercept, "tol": tol, **self.kernel}
        if self.is_regression:
            model = SVR(epsilon=self.epsilon, **common)
        else:
            model = SVC(loss=self.kind, **common)
        return fitted(model, self.X, self.y, self.weight if weight is None else weight)

    def without(self, row: int) -> np.ndarray:
        """Return the weights when min(1, w) of a row has left."""
        weight = self.weight.copy()
        weight[row] -= min(1.0, weight[row])
        return weight


def fitted(model, X, y, weight=None):
    with warnings.catch_warnings():
        # 1e-10 may be out of reach of rounding; the values are judged all the same.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, sample_weight=weight)


def value_at(model, x: np.ndarray) -> float:
    values = getattr(model, "decision_function", model.predict)(x[None])
    return float(np.ravel(values)[0])


def random_problem(seed: int, low: int = 10, high: int = 22, weighted: bool = True) -> Problem:
    """Return a small problem in which anything may be awkward.

    Data are rounded or not, rows repeat with the same and with contradictory labels, weights are
    ones, whole numbers or fractions below and above 1; kinds, kernels and costs go round.
    """
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(low, high)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d))
    if seed % 3 == 1:
        X = np.round(X, int(rng.integers(0, 2)))
    kind = KINDS[seed % 3 if rng.random() < 0.5 else int(rng.integers(0, 3))]
    if kind == "tube":
        y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)
        y = np.round(y, 1) if rng.random() < 0.4 else y
    else:
        y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    if rng.random() < 0.5:
        copies = rng.integers(0, n, n // 3)
        place = rng.permutation(n)[: n // 3]
        X[place] = X[copies]
        if rng.random() < 0.6:
            y[place] = y[copies]
    if kind != "tube":
        y[:4] = [1.0, 1.0, -1.0, -1.0]
    weight = np.ones(n)
    if weighted and rng.random() < 0.5:
        whole = rng.random() < 0.5
        weight = rng.integers(1, 4, n).astype(float) if whole else rng.uniform(0.2, 2.5, n)
    kernel = KERNELS[int(rng.integers(0, len(KERNELS)))]
    C, epsilon = float(rng.choice(COSTS)), float(rng.choice(TUBES))
    return Problem(X, y, weight, kernel, kind, C, epsilon, bool(rng.random() < 0.5))


# ---------------------------------------------------------------- retraining by our own solver


@pytest.mark.parametrize("seed", range(60))
def test_exact_values_are_those_of_retraining(seed: int) -> None:
    problem = random_problem(seed)
    result = loo.result(problem.fit(), "exact")
    assert result.kind == "exact"
    rows = range(len(problem.y))
    expected = np.array([value_at(problem.fit(problem.without(k)), problem.X[k]) for k in rows])
    atol = 1e-8 * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(result.values, expected, rtol=0, atol=atol)


def test_the_random_problems_have_everything() -> None:
    """All that the brief of these problems names occurs among the sixty."""
    problems = [random_problem(seed) for seed in range(60)]
    for kind in KINDS:
        for intercept in (True, False):
            assert sum(p.kind == kind and p.intercept == intercept for p in problems) >= 5
    assert {str(p.kernel) for p in problems} == {str(k) for k in KERNELS}
    assert {p.C for p in problems} == set(COSTS)
    assert {p.epsilon for p in problems if p.is_regression} == set(TUBES)
    repeated = [p for p in problems if len(np.unique(p.X, axis=0)) < len(p.X)]
    both = [p for p in repeated if len(np.unique(np.c_[p.X, p.y], axis=0)) == len(p.X)]
    assert len(repeated) >= 15
    assert len(both) >= 3
    weights = [p.weight for p in problems]
    assert sum((w == 1).all() for w in weights) >= 15
    assert sum((w % 1 == 0).all() and (w > 1).any() for w in weights) >= 10
    assert sum((w % 1 != 0).any() for w in weights) >= 10


# ---------------------------------------------------------------- retraining by other solvers


@dataclass
class Quadratic:
    """max t'b - 1/2 b'Pb on a box, with sum b = 0 where there is a threshold."""

    P: np.ndarray
    t: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    intercept: bool

    def interval(self, b: np.ndarray) -> tuple[float, float]:
        """Return the optimal thresholds at b: an interval, empty by the KKT violation."""
        scores = self.t - self.P @ b
        reach = 1e-9 * np.where(np.isfinite(self.upper - self.lower), self.upper - self.lower, 1.0)
        low = scores[b < self.upper - reach].max(initial=-np.inf)
        high = scores[b > self.lower + reach].min(initial=np.inf)
        return float(low), float(high)

    def violation(self, b: np.ndarray) -> float:
        low, high = self.interval(b)
        return max(0.0, low - high) if self.intercept else max(0.0, low, -high)

    def threshold(self, b: np.ndarray) -> float:
        """Return the middle of the interval; the finite end where there is only one."""
        if not self.intercept:
            return 0.0
        low, high = self.interval(b)
        ends = [end for end in (low, high) if np.isfinite(end)]
        return float(np.mean(ends))

    def solve(self) -> np.ndarray:
        """Solve by Clarabel, then on the faces that its solution names."""
        n = len(self.t)
        if self.intercept and not ((self.upper > 0).any() and (self.lower < 0).any()):
            return np.zeros(n)
        eye, blocks, sides, cones = np.eye(n), [], [], []
        if self.intercept:
            blocks, sides, cones = [np.ones((1, n))], [np.zeros(1)], [clarabel.ZeroConeT(1)]
        for sign, bound in ((1.0, self.upper), (-1.0, -self.lower)):
            finite = np.isfinite(bound)
            blocks.append(sign * eye[finite])
            sides.append(bound[finite])
            cones.append(clarabel.NonnegativeConeT(int(finite.sum())))
        options = clarabel.DefaultSettings()
        options.verbose = False
        options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-12
        P, A = sp.csc_matrix(np.triu(self.P)), sp.csc_matrix(np.vstack(blocks))
        solver = clarabel.DefaultSolver(P, -self.t, A, np.concatenate(sides), cones, options)
        b = np.clip(np.array(solver.solve().x), self.lower, self.upper)
        candidates = [b, *(self._on_faces(b, near) for near in (1e-7, 1e-6, 1e-5, 1e-4, 1e-3))]
        return min(candidates, key=self.violation)

    def _on_faces(self, b: np.ndarray, near: float) -> np.ndarray:
        """Put what is near a bound at it and solve the linear equations of the others."""
        scale = near * np.where(np.isfinite(self.upper - self.lower), self.upper - self.lower, 1.0)
        low, up = b - self.lower < scale, self.upper - b < scale
        x = np.where(low, self.lower, np.where(up, self.upper, 0.0))
        free = np.flatnonzero(~low & ~up)
        S, right = self.P[np.ix_(free, free)], (self.t - self.P @ x)[free]
        if self.intercept and len(free):
            ones = np.ones((len(free), 1))
            S = np.block([[S, ones], [ones.T, np.zeros((1, 1))]])
            right = np.append(right, -x.sum())
        x[free] = np.linalg.lstsq(S, right, rcond=1e-13)[0][: len(free)]
        outside = (x < self.lower).any() or (x > self.upper).any()
        unbalanced = self.intercept and abs(x.sum()) > 1e-9 * max(1.0, np.abs(x).max())
        return b if outside or unbalanced else x


def independent_value(problem: Problem, weight: np.ndarray, row: int) -> float:
    """Return the value at a row of the machine with some weights, without using our solver."""
    used = np.flatnonzero(weight > 0)
    K, y, cost = problem.K, problem.y[used], problem.C * weight[used]
    inner, zero = K[np.ix_(used, used)], np.zeros(len(used))
    if problem.is_regression:
        quadratic = Quadratic(
            np.tile(inner, (2, 2)),
            np.concatenate([y - problem.epsilon, y + problem.epsilon]),
            np.concatenate([zero, -cost]),
            np.concatenate([cost, zero]),
            problem.intercept,
        )
    else:
        squared = problem.kind == "squared_hinge"
        cap = np.full(len(used), np.inf) if squared else cost
        P = inner + np.diag(0.5 / cost) if squared else inner
        lower, upper = np.where(y > 0, 0.0, -cap), np.where(y > 0, cap, 0.0)
        quadratic = Quadratic(P, y, lower, upper, problem.intercept)
    b = quadratic.solve()
    assert quadratic.violation(b) <= 1e-7 * max(1.0, np.abs(quadratic.t).max())
    beta = b.reshape(-1, len(used)).sum(axis=0)
    threshold = quadratic.threshold(b)
    # With squared slack the threshold of the ridge problem is that of the machine.
    return float(K[row, used] @ beta) + threshold


@pytest.mark.parametrize("seed", range(100, 118))
def test_exact_values_are_those_of_an_interior_point_method(seed: int) -> None:
    problem = random_problem(seed, 8, 15)
    if seed % 4 == 0 and not problem.is_regression:
        problem.y[1:] = -1.0  # without its only row a class is not there
    values = loo.decision_values(problem.fit(), "exact")
    rows = range(len(problem.y))
    expected = np.array([independent_value(problem, problem.without(row), row) for row in rows])
    atol = 1e-6 * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(values, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("seed", range(200, 212))
def test_exact_values_are_those_of_libsvm(seed: int) -> None:
    """Where the threshold is unique, and to the accuracy of LIBSVM's kernel values in float32."""
    problem = random_problem(seed, 12, 18, weighted=False)
    X = problem.X + 0.1 * np.random.default_rng(seed).normal(size=problem.X.shape)
    kind = "hinge" if problem.kind == "squared_hinge" else problem.kind
    kernel = {"kernel": "rbf", "gamma": 0.3}
    C = float(np.clip(problem.C, 0.3, 1.0))
    problem = replace(problem, X=X, kind=kind, C=C, kernel=kernel, intercept=True)
    values = loo.decision_values(problem.fit(), "exact")
    compared = 0
    for row in range(len(problem.y)):
        kept = np.delete(np.arange(len(problem.y)), row)
        options = {"C": problem.C, "tol": 1e-8, "max_iter": 100_000, **problem.kernel}
        if problem.is_regression:
            peer = LibSVR(epsilon=problem.epsilon, **options)
        else:
            peer = LibSVC(**options)
        fitted(peer, problem.X[kept], problem.y[kept])
        size = np.abs(peer.dual_coef_)
        if not ((size > 1e-7 * problem.C) & (size < problem.C * (1 - 1e-7))).any():
            continue
        compared += 1
        expected = value_at(peer, problem.X[row])
        assert values[row] == pytest.approx(expected, rel=1e-4, abs=1e-4)
    assert compared >= 3


# ---------------------------------------------------------------- the solver, many times


def stated(problem: Problem, K: np.ndarray) -> tuple[SoftMargin, LeaveOneOut]:
    """Return the solver's problem and its polished optimum."""
    cost = problem.C * problem.weight
    if problem.is_regression:
        form = epsilon_tube(problem.y, cost, problem.epsilon, intercept=problem.intercept)
    else:
        squared = problem.kind == "squared_hinge"
        form = c_classification(problem.y, cost, squared=squared, intercept=problem.intercept)
    n = len(problem.y)
    square = np.zeros((padded(n), padded(n)))
    square[:n, :n] = K
    start = np.zeros(form.n_variables)
    alpha, _, _ = polish(square, form, start, tol=1e-11, max_iter=1_000_000, threads=1)
    return form, LeaveOneOut(square, form, alpha)


def fractions(problem: Problem) -> np.ndarray:
    return np.minimum(1.0, problem.weight) / problem.weight


def test_a_thousand_small_problems() -> None:
    """No path fails, hardly one is given up, and what they find is what retraining finds."""
    retrained = paths = events = 0
    for seed in range(1000, 2000):
        problem = random_problem(seed, 5, 26)
        rng = np.random.default_rng(seed)
        if rng.random() < 0.3:
            problem.C = float(10 ** rng.uniform(-2, 3))
        _, model = stated(problem, problem.K)
        rows, fraction = np.arange(model.n), fractions(problem)
        out = model.exact(rows, fraction)
        assert np.isfinite(out.values).all()
        retrained += out.retrained
        paths += int(np.count_nonzero(model.x))
        events += int(out.events.sum())
        for row in rng.choice(rows, 2, replace=False):
            expected, _ = model.retrain(int(row), float(1.0 - fraction[row]))
            assert out.values[row] == pytest.approx(expected, rel=1e-6, abs=1e-6), (seed, row)
    assert paths > 8_000
    assert events > 4_000
    assert retrained <= 0.01 * paths


@pytest.mark.parametrize("kind", KINDS)
@both_intercepts
def test_without_an_event_the_first_step_is_exact(kind: str, intercept: bool) -> None:
    compared = 0
    for seed in range(3000, 3030):
        problem = replace(random_problem(seed), intercept=intercept)
        if (problem.kind == "tube") != (kind == "tube"):
            continue
        problem = replace(problem, kind=kind)
        _, model = stated(problem, problem.K)
        rows, fraction = np.arange(model.n), fractions(problem)
        exact, first = model.exact(rows, fraction), model.linear_response(rows, fraction)
        straight = exact.events == 0
        moved = straight & (model.x != 0)
        compared += int(moved.sum())
        atol = 1e-10 * max(1.0, np.abs(exact.values).max())
        difference = exact.values[straight] - first.values[straight]
        np.testing.assert_allclose(difference, 0.0, atol=atol, err_msg=str(seed))
    assert compared >= 30


def test_a_path_that_ends_at_an_event_says_so() -> None:
    """No event means that the first step is exact: here the other free row meets zero at the end.

    Then no row is free, and the threshold is the middle of an interval.
    """
    X, y = np.array([[0.0], [2.0], [3.0], [-3.0]]), np.array([-1.0, 1.0, 1.0, -1.0])
    problem = Problem(X, y, np.ones(4), {"kernel": "linear"}, "hinge", C=0.1)
    _, model = stated(problem, problem.K)
    rows, all_of_it = np.arange(4), np.ones(4)
    exact, first = model.exact(rows, all_of_it), model.linear_response(rows, all_of_it)
    straight = exact.events == 0
    np.testing.assert_allclose(exact.values[straight], first.values[straight], atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@both_intercepts
def test_the_large_first_order_is_the_dense_one(kind: str, intercept: bool) -> None:
    """What serves beyond 5,000 rows, on problems that are small enough for the other."""
    compared = 0
    for seed in range(4000, 4040):
        problem = replace(random_problem(seed, 20, 40), intercept=intercept)
        if (problem.kind == "tube") != (kind == "tube"):
            continue
        problem = replace(problem, kind=kind)
        options = {k: v for k, v in problem.kernel.items() if k != "kernel"}
        rows = Rows(Kernel(problem.kernel["kernel"], **options), problem.X)
        form, model = stated(problem, problem.K)
        moved = np.abs(model.x - form.coefficients(model.fitted)).max()
        if len(model.free) < 2 or moved > 1e-10 * np.abs(model.x).max():
            continue  # free rows that depend on each other: the first step is not unique
        leaving, fraction = np.arange(model.n), fractions(problem)
        dense = model.linear_response(leaving, fraction).values
        found = first_order(rows, form, model.fitted, model.threshold, leaving, fraction)
        atol = 1e-8 * max(1.0, np.abs(dense).max())
        np.testing.assert_allclose(found, dense, rtol=0, atol=atol, err_msg=str(seed))
        compared += 1
    assert compared >= 5


def test_beyond_five_thousand_rows_the_answer_is_an_estimate() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5200, 2))
    y = (X[:, 0] + 0.5 * rng.normal(size=5200) > 0).astype(int)
    model = SVC(gamma=0.5).fit(X, y)
    result = loo.result(model)
    assert (result.kind, result.method) == ("estimate", "linear_response")
    assert result.values.shape == (5200,)
    label = np.where(y == 1, 1.0, -1.0)
    fitted_error = np.mean(label * model.decision_function(X) <= 0)
    assert fitted_error <= result.error <= fitted_error + 0.01
    # A support vector's margin falls, and one at its cap by no more than C k(x, x).
    falls = label * (model.decision_function(X) - result.values)
    assert falls.min() > -1e-6
    assert falls.max() < 1.0 + 1e-6


# ---------------------------------------------------------------- what must hold


@given(seed=seeds, loss=st.sampled_from(["hinge", "squared_hinge"]), intercept=st.booleans())
@settings(max_examples=40)
def test_a_left_out_value_does_not_depend_on_its_own_kernel_value(
    seed: int, loss: str, intercept: bool
) -> None:
    rng = np.random.default_rng(seed)
    n = 16
    X = np.round(rng.normal(size=(n, 2)), 1)
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1, -1)
    y[:4] = [1, 1, -1, -1]
    K = gram(X, X, gamma=0.5)
    row = int(rng.integers(0, n))
    lifted = K.copy()
    lifted[row, row] += 5.0
    options = {"C": 2.0, "loss": loss, "fit_intercept": intercept, "tol": 1e-10}
    values = [
        loo.decision_values(fitted(SVC(kernel="precomputed", **options), k, y), "exact")[row]
        for k in (K, lifted)
    ]
    assert values[1] == pytest.approx(values[0], abs=1e-9)


@given(seed=seeds, intercept=st.booleans())
def test_a_left_out_prediction_does_not_depend_on_its_own_kernel_value(
    seed: int, intercept: bool
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(16, 2))
    y = np.sin(X[:, 0]) + 0.2 * rng.normal(size=16)
    K = gram(X, X, gamma=0.5)
    row = int(rng.integers(0, 16))
    lifted = K.copy()
    lifted[row, row] += 5.0
    machine = SVR(kernel="precomputed", C=2.0, fit_intercept=intercept, tol=1e-10)
    values = [loo.decision_values(fitted(machine, k, y), "exact")[row] for k in (K, lifted)]
    assert values[1] == pytest.approx(values[0], abs=1e-9)


def classification(seed: int, **options) -> Problem:
    """Return one of the random problems as a classification problem."""
    problem = random_problem(seed)
    if problem.is_regression:
        rng = np.random.default_rng(seed)
        y = np.where(problem.y + 0.3 * rng.normal(size=len(problem.y)) > 0, 1.0, -1.0)
        y[:4] = [1.0, 1.0, -1.0, -1.0]
        problem = replace(problem, y=y, kind=("hinge", "squared_hinge")[seed % 2])
    return replace(problem, **options)


@pytest.mark.parametrize("method", ["jaakkola_haussler", "xi_alpha", "support_vectors"])
@given(seed=seeds)
@settings(max_examples=50)
def test_without_intercept_a_bound_is_never_below_the_exact_error(method: str, seed: int) -> None:
    model = classification(seed, intercept=False).fit()
    exact, bound = loo.result(model, "exact"), loo.result(model, method)
    assert bound.kind == "bound"
    missed = np.flatnonzero((exact.errors > 0) & (bound.errors == 0))
    assert not len(missed), exact.values[missed]
    assert bound.error >= exact.error


@given(seed=seeds)
@settings(max_examples=80)
def test_leaving_a_row_out_never_raises_its_margin(seed: int) -> None:
    """So the training error is at most the leave-one-out error, where the threshold is unique."""
    problem = classification(seed)
    if problem.intercept:
        problem.kind = "squared_hinge"  # its threshold is unique
    model = problem.fit()
    result = loo.result(model, "exact")
    margins = problem.y * model.decision_function(problem.X)
    size = 1e-8 * max(1.0, np.abs(margins).max())
    assert (problem.y * result.values <= margins + size).all()
    strict = margins < -size
    assert problem.weight @ strict <= problem.weight @ result.errors + 1e-12


# ---------------------------------------------------------------- the other machines


@given(seed=seeds, share=st.floats(0.1, 0.8))
def test_nu_classification_is_at_its_cost(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 2))
    y = np.where(X[:, 0] + rng.normal(size=30) > 0, 1, -1)
    y[:8] = [1, -1] * 4
    nu = share * 2 * min(np.mean(y > 0), np.mean(y < 0))
    by_nu = fitted(NuSVC(nu=nu, gamma=0.5, tol=1e-10), X, y)
    by_cost = fitted(SVC(C=1.0 / by_nu.rho_[0], gamma=0.5, tol=1e-10), X, y)
    expected = loo.decision_values(by_cost, "exact")
    atol = 1e-7 * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(loo.decision_values(by_nu, "exact"), expected, rtol=0, atol=atol)
    assert loo.error(by_nu) == loo.error(by_cost)


@given(seed=seeds, nu=st.floats(0.1, 0.9), C=st.sampled_from([0.1, 1.0, 30.0]))
def test_nu_regression_is_at_its_epsilon(seed: int, nu: float, C: float) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(25, 2))
    y = np.sin(X[:, 0]) + 0.5 * rng.normal(size=25)
    by_nu = fitted(NuSVR(nu=nu, C=C, gamma=0.5, tol=1e-10), X, y)
    by_tube = fitted(SVR(epsilon=by_nu.epsilon_, C=C, gamma=0.5, tol=1e-10), X, y)
    expected = loo.decision_values(by_tube, "exact")
    atol = 1e-7 * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(loo.decision_values(by_nu, "exact"), expected, rtol=0, atol=atol)


@given(seed=seeds, loss=st.sampled_from(["hinge", "squared_hinge"]), intercept=st.booleans())
def test_the_linear_machine_is_the_one_with_a_linear_kernel(
    seed: int, loss: str, intercept: bool
) -> None:
    X, y = np.random.default_rng(seed).normal(size=(30, 3)), np.arange(30) % 2
    X[:, 0] += y
    options = {"C": 0.7, "loss": loss, "fit_intercept": intercept}
    plane = fitted(LinearSVC(**options), X, y)
    kernel = fitted(SVC(kernel="linear", **options), X, y)
    for method in ("exact", "linear_response"):
        expected = loo.decision_values(kernel, method)
        atol = 1e-8 * max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(loo.decision_values(plane, method), expected, rtol=0, atol=atol)


def scores_of(values: np.ndarray) -> np.ndarray:
    """Turn the values of the pairs (0, 1), (0, 2), (1, 2) into votes with margins."""
    votes, margins = np.zeros(3), np.zeros(3)
    for value, (i, j) in zip(values, combinations(range(3), 2), strict=True):
        votes[i if value > 0 else j] += 1
        margins[i] += value
        margins[j] -= value
    return votes + margins / (3 * (np.abs(margins) + 1))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@both_intercepts
def test_several_classes_leave_the_row_out_of_its_own_pairs(loss: str, intercept: bool) -> None:
    X, y = load_iris(return_X_y=True)
    # Rows where the second and the third class meet, and some of the first.
    some = np.r_[0:10, [50, 52, 56, 66, 70, 72, 77, 83], [106, 119, 123, 126, 127, 133, 138, 149]]
    X, y = X[some], y[some]
    options = {"C": 5.0, "gamma": 0.3, "loss": loss, "fit_intercept": intercept, "tol": 1e-10}
    result = loo.result(fitted(SVC(**options), X, y), "exact")

    def pair_value(pair: tuple[int, int], row: int) -> float:
        member = np.isin(y, pair)
        member[row] = False  # a pair of other classes does not hold the row anyway
        model = fitted(SVC(**options), X[member], np.where(y[member] == pair[0], 1, -1))
        return value_at(model, X[row])

    pairs = list(combinations(range(3), 2))
    expected = np.array(
        [scores_of(np.array([pair_value(p, row) for p in pairs])) for row in range(len(y))]
    )
    np.testing.assert_allclose(result.values, expected, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(result.errors, expected.argmax(axis=1) != y)
    assert result.error == pytest.approx(np.mean(expected.argmax(axis=1) != y))
    assert 0 < result.error < 1
