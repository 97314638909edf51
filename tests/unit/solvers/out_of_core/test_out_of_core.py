"""Implicit outliers: exact whatever the draws, parts and order; bounds, budgets, resuming."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from widemargin import sources
from widemargin.problems.linear_scan import InfeasibleSums, LinearProblem
from widemargin.solvers.base import Budget, LinearResult
from widemargin.solvers.numerics.box_qp import BoxQP, solve_box_qp
from widemargin.solvers.out_of_core import OutOfCoreResult, draw_sample, dual_variables, solve
from widemargin.sources.memory import Memory

ROWS = 20_000
KINDS = ["gauss", "integer", "heavy tails", "tiny minority", "scales", "offset", "no signal"]


def solved(source, problem, *, max_rounds=100, monitor=None, **options) -> OutOfCoreResult:
    """Solve with a budget of rounds."""
    return solve(problem, source, tol=1e-10, budget=Budget(max_rounds, monitor), **options)


def model(coef, thresholds) -> LinearResult:
    """A plane to start from."""
    return LinearResult(coef=coef, thresholds=thresholds, n_iter=0, status="max_iter")


def make(kind: str, m: int = ROWS, n: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two noisy classes of some kind."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, n))
    if kind == "heavy tails":
        X = rng.standard_t(1.5, (m, n))
    g = X @ rng.standard_normal(n) + 0.5 * rng.standard_normal(m)
    y = np.where(g > 0.2, 1.0, -1.0)
    if kind == "integer":
        X = np.round(2.0 * X)
    elif kind == "tiny minority":
        y = np.where(g > np.quantile(g, 0.999), 1.0, -1.0)
    elif kind == "scales":
        X = X * np.array([1e4, 1.0, 1e-4, 1.0, 1.0])
    elif kind == "offset":
        X = X + 1e8
    elif kind == "no signal":
        y = np.where(rng.random(m) < 0.3, 1.0, -1.0)
    return X, y


def forms(y: np.ndarray) -> list[LinearProblem]:
    smaller = min((y > 0).sum(), (y < 0).sum())
    return [
        LinearProblem("hinge", 1.0),
        LinearProblem("hinge", 1e-3),
        LinearProblem("hinge", 0.1, intercept=False),
        LinearProblem("hull", 1.0 / (0.8 * smaller)),
    ]


def source_of(X, y, weight=None, cuts=()):
    """The rows as a source, cut into chunks."""
    split = [np.split(a, cuts) if a is not None else None for a in (X, y, weight)]
    return sources.from_arrays(*split).binary(1.0, -1.0)


def all_at_once(X, y, form: LinearProblem, weight=None):
    """The same problem with every row explicit."""
    weight = np.ones(len(y)) if weight is None else weight
    return solve_box_qp(
        BoxQP(
            y[:, None] * X,
            form.columns(y),
            form.sums(np.zeros(2)),
            np.full(len(y), form.target),
            form.cap * weight,
            np.zeros(X.shape[1]),
        )
    )


def objectives(X, y, form: LinearProblem, found: OutOfCoreResult, s) -> tuple[float, float]:
    """Primal and dual of a result, by the formulas."""
    w, t = found.coef, found.thresholds
    slack = form.target - y * (X @ w) - form.columns(y) @ t
    expansion = (s * y) @ X
    return (
        form.primal(w, t, float(np.maximum(slack, 0).sum())),
        form.target * s.sum() - 0.5 * expansion @ expansion,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_exact_on_data_of_every_kind(kind: str) -> None:
    X, y = make(kind)
    centred = X - X.mean(axis=0) if kind == "offset" else X
    for form in forms(y):
        if kind == "offset" and not form.n_thresholds:
            continue  # translation changes that problem
        found = solved(source_of(X, y), form, seed=1)
        assert found.status == "converged", form
        expected = all_at_once(centred, y, form)
        assert expected.exact
        size = max(np.abs(expected.w).max(), 1e-6)  # w = 0 is the solution of some
        allowed = 1e-7 if kind == "offset" else 1e-9  # 1e8 leaves eight digits of X itself
        np.testing.assert_allclose(found.coef, expected.w, atol=allowed * size)
        assert found.evaluation.gap <= 1e-9


@pytest.mark.parametrize("kind", ["gauss", "integer", "heavy tails"])
def test_draws_parts_and_order_do_not_matter(kind: str) -> None:
    X, y = make(kind)
    order = np.random.default_rng(1).permutation(len(y))
    by_class = np.argsort(y, kind="stable")
    for form in forms(y):
        first = solved(source_of(X, y), form, seed=0)
        others = [
            solved(source_of(X, y), form, seed=5),
            solved(source_of(X, y, cuts=(10, 3000, 3000, 12_000)), form, seed=0),
            solved(source_of(X[order], y[order]), form, seed=0),
            solved(source_of(X[by_class], y[by_class], cuts=(7000,)), form, seed=3),
        ]
        size = np.abs(first.coef).max()
        for other in others:
            assert other.status == "converged"
            np.testing.assert_allclose(other.coef, first.coef, atol=1e-9 * size)
            np.testing.assert_allclose(other.thresholds, first.thresholds, rtol=1e-9, atol=1e-9)


def test_the_bounds_and_the_multipliers_are_those_of_the_model() -> None:
    X, y = make("gauss")
    for form in forms(y):
        source = source_of(X, y, cuts=(5000,))
        found = solved(source, form)
        s = np.concatenate(dual_variables(form, source, found))
        assert np.all((s >= 0) & (s <= form.cap))
        primal, dual = objectives(X, y, form, found, s)
        assert found.primal == pytest.approx(primal, rel=1e-12)
        assert found.dual == pytest.approx(dual, rel=1e-12)
        np.testing.assert_allclose((s * y) @ X, found.coef, atol=1e-9 * np.abs(found.coef).max())
        np.testing.assert_allclose(s @ form.columns(y), form.sums(np.zeros(2)), atol=1e-9)


def test_every_round_has_bounds_that_close() -> None:
    X, y = make("gauss", 60_000, 10)
    found = solved(source_of(X, y), LinearProblem("hinge", 1.0), seed=2)
    assert [entry["round"] for entry in found.history] == list(range(1, found.n_iter + 1))
    assert found.history[-1]["violators"] == 0
    for entry in found.history:
        slack = 1e-12 * abs(found.primal)
        assert entry["lower"] <= found.primal + slack
        assert entry["upper"] >= found.dual - slack
    assert found.passes == found.history[-1]["passes"]


@pytest.mark.parametrize("flat", [False, True])
def test_passes_count_every_read(flat: bool) -> None:
    """A source that counts what it hands out agrees with the result.

    A threshold that is not unique takes a read to find its middle, and one to evaluate it.
    """
    X, y = make("gauss", 60_000, 10)
    if flat:
        y = np.repeat([1.0, -1.0], 30_000)
        X = X + y[:, None]

    class Counting(Memory):
        read = 0.0

        def run(self, task, arguments):
            if task.__name__ == "draw":
                self.read += sum(argument[1] for argument in arguments) / sum(self.sizes)
            else:
                self.read += 1.0
            return super().run(task, arguments)

    source = Counting(X, y, np.ones(len(y)))
    found = solved(source, LinearProblem("hinge", 1e-8 if flat else 1.0))
    assert source.read == pytest.approx(found.passes)
    assert found.passes <= 6
    assert found.passes == found.history[-1]["passes"] + (2.0 if flat else 0.0)


def test_weights_mean_repetition() -> None:
    X, y = make("gauss", 12_000)
    weight = np.random.default_rng(3).integers(0, 4, len(y))
    repeated = np.repeat(np.arange(len(y)), weight)
    form = LinearProblem("hinge", 0.5)
    here = solved(source_of(X, y, weight.astype(float)), form)
    there = solved(source_of(X[repeated], y[repeated]), form)
    np.testing.assert_allclose(here.coef, there.coef, rtol=1e-9)
    np.testing.assert_allclose(here.thresholds, there.thresholds, rtol=1e-9)
    assert here.primal == pytest.approx(there.primal, rel=1e-11)


def test_float32_rows_are_solved_as_exactly_as_float64_rows() -> None:
    X, y = make("gauss")
    X = X.astype(np.float32)
    for form in forms(y):
        narrow = solved(source_of(X, y), form)
        wide = solved(source_of(X.astype(np.float64), y), form)
        np.testing.assert_allclose(narrow.coef, wide.coef, atol=1e-10 * np.abs(wide.coef).max())
        assert narrow.evaluation.gap <= 1e-12


def test_a_given_centre_changes_nothing() -> None:
    X, y = make("gauss")
    for form in (LinearProblem("hinge", 1.0), LinearProblem("hull", 1e-3)):
        plain = solved(source_of(X, y), form)
        about = solved(source_of(X, y), form, centre=np.full(X.shape[1], 2.0))
        np.testing.assert_allclose(about.coef, plain.coef, atol=1e-9 * np.abs(plain.coef).max())
        np.testing.assert_allclose(about.thresholds, plain.thresholds, atol=1e-9)


def test_few_rows_take_one_read() -> None:
    X, y = make("gauss", 500)
    for form in forms(y):
        found = solved(source_of(X, y, cuts=(0, 20)), form)
        assert found.status == "converged"
        assert found.passes == 1.0
        np.testing.assert_allclose(found.coef, all_at_once(X, y, form).w, rtol=1e-11)


def test_few_rows_far_from_the_origin_are_centred() -> None:
    X, y = make("gauss", 500)
    far = X + 2.0**27  # exact in binary, so that the problem is the same but for the threshold
    X = far - 2.0**27
    for form in (LinearProblem("hinge", 1.0), LinearProblem("hull", 0.01)):
        source = source_of(far, y)
        here, there = solved(source_of(X, y), form), solved(source, form)
        np.testing.assert_allclose(there.coef, here.coef, atol=1e-9 * np.abs(here.coef).max())
        # The intercept of the far samples, of order 1e9, is published to 16 digits.
        assert there.evaluation.gap <= 1e-9
        s = np.concatenate(dual_variables(form, source, there))
        np.testing.assert_allclose((s * y) @ X, there.coef, atol=1e-9)


def test_hulls_that_meet_are_not_separable() -> None:
    X, y = make("no signal")
    found = solved(source_of(X, y), LinearProblem("hull", 0.01))
    assert found.status == "converged"
    assert not found.separable
    assert not found.coef.any()


def test_caps_too_small_for_a_class_are_an_error() -> None:
    X, y = make("tiny minority")
    smaller = int((y > 0).sum())
    with pytest.raises(InfeasibleSums, match=r"cap = .* is too small: class \+1"):
        solved(source_of(X, y), LinearProblem("hull", 0.5 / smaller))


def test_all_caps_of_a_class_needed() -> None:
    """k = m+: theta+ has no upper end, so it is the largest w.x of the class."""
    X, y = make("tiny minority")
    form = LinearProblem("hull", 1.0 / int((y > 0).sum()))
    found = solved(source_of(X, y), form)
    assert found.status == "converged"
    assert np.isfinite(found.thresholds).all()
    assert found.thresholds[0] == pytest.approx((X[y > 0] @ found.coef).max())
    np.testing.assert_allclose(found.coef, all_at_once(X, y, form).w, atol=1e-9)


def test_a_threshold_that_may_vary_is_the_middle_over_all_rows() -> None:
    """Caps so small that every row is bounded: rows outside of the band have their say."""
    rng = np.random.default_rng(0)
    y = np.repeat([1.0, -1.0], 10_000)
    X = rng.standard_normal((20_000, 3)) + y[:, None]
    form = LinearProblem("hinge", 1e-8)
    found = solved(source_of(X, y), form)
    w = (y[:, None] * X).sum(axis=0) * 1e-8
    np.testing.assert_allclose(found.coef, w, rtol=1e-9)
    slopes = 1.0 - X @ w
    low, high = (-1.0 - X @ w)[y < 0].max(), slopes[y > 0].min()
    assert low < high
    np.testing.assert_allclose(found.thresholds, [0.5 * (low + high)], atol=1e-12)


def test_the_sample_is_uniform_over_parts() -> None:
    """Chunks sorted by class do no harm: every row is as likely as every other."""
    X = np.arange(1000.0)[:, None]
    y = np.repeat([1.0, -1.0], 500)
    source = source_of(X, y, cuts=(0, 100, 700))
    counts = np.zeros(1000)
    for seed in range(400):
        sample = draw_sample(source, 100, seed)
        assert len(np.unique(sample.X)) == 100
        counts[sample.X[:, 0].astype(int)] += 1
    parts = [part.sum() for part in np.split(counts, (100, 700))]
    np.testing.assert_allclose(parts, [4000, 24_000, 12_000], rtol=0.05)
    assert counts.min() > 10  # 40 expected, standard deviation 6


def test_a_start_near_the_solution_saves_the_sample() -> None:
    X, y = make("gauss", 60_000, 10)
    source, form = source_of(X, y), LinearProblem("hinge", 1.0)
    cold = solved(source, form)
    warm = solved(source, form, start=cold)
    assert warm.passes < cold.passes
    np.testing.assert_allclose(warm.coef, cold.coef, rtol=1e-11)


def test_the_budget_ends_a_run_with_certified_bounds() -> None:
    X, y = make("integer", 40_000)
    source, form = source_of(X, y), LinearProblem("hinge", 1.0)
    far = model(np.ones(X.shape[1]), np.zeros(1))
    best = solved(source, form)
    found = solved(source, form, max_rounds=1, start=far)
    assert found.status == "max_iter"
    assert found.n_iter == 1
    assert found.dual <= best.dual + 1e-9 * best.primal
    assert found.primal >= best.primal
    slack = 1.0 - y * (X @ found.coef + found.thresholds[0])
    primal = 0.5 * found.coef @ found.coef + np.maximum(slack, 0).sum()
    assert found.primal == pytest.approx(primal, rel=1e-12)


def test_the_monitor_sees_rounds_and_can_stop() -> None:
    X, y = make("integer", 40_000)
    source, form = source_of(X, y), LinearProblem("hinge", 1.0)
    far = model(np.ones(X.shape[1]), np.zeros(1))
    seen: list[tuple[int, float]] = []

    def watch(rounds: int, gap: float) -> bool:
        seen.append((rounds, gap))
        return len(seen) < 3

    found = solved(source, form, start=far, monitor=watch)
    assert found.status == "stopped"
    assert len(seen) == 3
    assert seen[0][0] == 1
    assert np.isfinite(found.evaluation.gap)
    assert found.evaluation.gap == seen[-1][1]


class Saved:
    """A checkpoint in memory, through JSON as a file would be."""

    def __init__(self) -> None:
        self.states: list[str] = []

    def load(self):
        if not self.states:
            return None
        return json.loads(self.states[-1], object_hook=self._arrays)

    def save(self, state) -> None:
        self.states.append(json.dumps(state, default=lambda a: {"array": a.tolist()}))

    @staticmethod
    def _arrays(item):
        return np.array(item["array"]) if set(item) == {"array"} else item


@pytest.mark.parametrize("kind", ["hinge", "hull"])
def test_a_resumed_run_ends_at_the_same_bits(kind: str) -> None:
    X, y = make("integer", 40_000)
    source = source_of(X, y, cuts=(9000, 9000))
    form = LinearProblem(kind, 1.0 if kind == "hinge" else 1e-4)  # type: ignore[arg-type]
    far = model(np.ones(X.shape[1]), np.zeros(form.n_thresholds))
    store = Saved()
    whole = solved(source, form, start=far, checkpoint=store)
    assert len(store.states) >= max(2, whole.n_iter)  # after every read
    for number in range(1, len(store.states) + 1):
        part = Saved()
        part.states = store.states[:number]
        again = solved(source, form, checkpoint=part)
        assert again.coef.tobytes() == whole.coef.tobytes()
        assert again.thresholds.tobytes() == whole.thresholds.tobytes()
        assert (again.primal, again.dual) == (whole.primal, whole.dual)
        assert again.n_iter == whole.n_iter


def test_a_checkpoint_of_another_problem_is_refused() -> None:
    X, y = make("integer", 40_000)
    source, form = source_of(X, y), LinearProblem("hinge", 1.0)
    store = Saved()
    far = model(np.ones(X.shape[1]), np.zeros(1))
    solved(source, form, start=far, checkpoint=store, max_rounds=2)
    with pytest.raises(ValueError, match="checkpoint belongs to another problem"):
        solved(source, replace(form, cap=2.0), checkpoint=store)


@pytest.mark.parametrize("cap", [0.0, -1.0, np.inf, np.nan])
def test_bad_caps(cap: float) -> None:
    with pytest.raises(ValueError, match="cap must be a positive finite number"):
        LinearProblem("hinge", cap)


def test_bad_kind() -> None:
    with pytest.raises(ValueError, match='kind must be "hinge"'):
        LinearProblem("squared", 1.0)  # type: ignore[arg-type]


def test_one_class_in_a_far_corner_of_the_sample() -> None:
    """Ten positives among 20,000 rows: the sample may miss the class altogether."""
    X, y = make("gauss")
    y = -np.ones(len(y))
    y[:10] = 1.0
    for form in (LinearProblem("hinge", 1.0), LinearProblem("hull", 0.2)):
        found = solved(source_of(X, y), form, seed=4)
        assert found.status == "converged"
        expected = all_at_once(X, y, form)
        np.testing.assert_allclose(found.coef, expected.w, atol=1e-9)
