"""Exact leave-one-out against a loop of n scikit-learn fits: time, decision values, errors.

Both are timed end to end with fresh models. scikit-learn fits n - 1 samples and evaluates the
sample left out, n times; ours fits all samples once and follows the solution path of each sample.
The loop runs on one core, so ours is also timed with one thread.

LIBSVM stores the kernel in float32, which causes errors of 1e-5 in its decision values at large C
for any tolerance. Our values are therefore compared with retraining twice: with the values that
LIBSVM returns, and after solving for its free coefficients and intercept in float64, where the
optimality conditions are verified.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from rich.console import Console
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks.data import SEED, DataSet, clusters, keel
from benchmarks.loo_tables import (
    ONE_THREAD,
    TIGHT_TOL,
    Comparison,
    FloatArray,
    IntArray,
    as_json,
    time_table,
    value_table,
)
from benchmarks.measure import geometric_mean, rounds_of, timed
from benchmarks.objectives import dual_objective, relative_difference
from benchmarks.peers import OURS, SKLEARN, ours_svc, sklearn_svc
from benchmarks.report import Report, Target

PROBLEMS: list[tuple[str, int | None, tuple[float, ...]]] = [
    ("wisconsin", None, (1.0, 10.0, 100.0)),
    ("pima", 600, (1.0, 10.0, 100.0)),
    ("banana", 600, (1.0, 10.0, 100.0)),
    ("ring", 2000, (1.0,)),
    ("magic", 2000, (10.0,)),
]
"""Data set, number of samples (None: all) and values of C; gamma is 1 / n_features."""

QUICK_ROWS = 300
FULL_LOOP = 700  # up to this many samples the loop leaves out every one
SAMPLE, QUICK_SAMPLE = 150, 40  # number of samples left out otherwise

OUR_RUNS = 5  # per round: ours takes milliseconds, the loop seconds, so ours needs more runs

RANDOM_CHECKS, WORST_CHECKS = 8, 4  # number of leave-one-out predictions compared with retraining
OPTIMAL = 1e-9  # KKT violation up to which a refined fit is accepted as optimal
SAME_VALUE = 1e-8
"""A larger difference between our leave-one-out prediction and retraining is a failure."""

SAME_OBJECTIVE = 1e-5  # relative difference of the dual objectives


def run(console: Console, *, quick: bool, rounds: int) -> Report:
    """Run the loo benchmark and return its report."""
    report = Report("loo", quick)
    comparisons = []
    with console.status("warming up") as status:
        _warm_up()
        for name, rows, penalties in PROBLEMS:
            for C in penalties:
                comparison = problem(name, rows, C, quick=quick)
                for part in rounds_of((SKLEARN, OURS, ONE_THREAD), rounds):
                    status.update(f"{comparison.name}: {part}")
                    _one_round(comparison, part)
                status.update(f"{comparison.name}: retraining at tol={TIGHT_TOL:g}")
                _check_values(comparison)
                comparisons.append(comparison)
    _collect(report, comparisons)
    return report


def problem(name: str, rows: int | None, C: float, *, quick: bool) -> Comparison:
    """Load a data set and choose the samples that the loop leaves out."""
    data = keel(name, C=C, gamma=1.0, rows=QUICK_ROWS if quick else rows)
    n, columns = data.shape
    data = replace(data, gamma=1.0 / columns)
    if quick or n > FULL_LOOP:
        size = min(n, QUICK_SAMPLE if quick else SAMPLE)
        chosen = np.random.default_rng(SEED).choice(n, size=size, replace=False)
        return Comparison(data, np.sort(chosen))
    return Comparison(data, np.arange(n))


def left_out_values(data: DataSet, rows: IntArray) -> FloatArray:
    """Return leave-one-out decision values of some samples by refitting scikit-learn's SVC."""
    values = np.empty(len(rows))
    kept = np.ones(data.shape[0], dtype=bool)
    for k, row in enumerate(rows):
        kept[row] = False
        model = sklearn_svc(data.C, data.gamma).fit(data.X[kept], data.y[kept])
        values[k] = model.decision_function(data.X[row : row + 1])[0]
        kept[row] = True
    return values


def refined_value(model: SVC, data: DataSet, x: FloatArray) -> tuple[float, float]:
    """Solve for the free coefficients and the intercept of a fitted SVC in float64.

    Returns
    -------
    value : float
        Decision value of the sample x.
    violation : float
        Largest violation of the optimality conditions. At the level of rounding errors the value
        is that of the optimum; otherwise the fit has the wrong set of free support vectors.
    """
    y, support = data.y, model.support_
    beta = np.array(model.dual_coef_[0])
    K = rbf_kernel(data.X, data.X[support], gamma=data.gamma)
    bounded = np.abs(beta) >= data.C * (1 - 1e-9)
    free = ~bounded
    count = np.count_nonzero(free)
    system = np.ones((count + 1, count + 1))
    system[:count, :count] = K[support[free]][:, free]
    system[count, count] = 0.0
    fixed = K[support[free]][:, bounded] @ beta[bounded]
    right = np.append(y[support[free]] - fixed, -beta[bounded].sum())
    solution = np.linalg.lstsq(system, right, rcond=1e-14)[0]
    beta[free] = solution[:count]
    alpha = np.zeros(len(y))
    alpha[support] = beta * y[support]
    excess = y * (K @ beta + solution[count]) - 1.0
    at_bound = np.isin(np.arange(len(y)), support[bounded])
    is_free = np.isin(np.arange(len(y)), support[free])
    violations = np.where(at_bound, excess, np.where(is_free, np.abs(excess), -excess))
    outside = max(-alpha.min(), alpha.max() - data.C, 0.0) / data.C
    value = rbf_kernel(x, data.X[support], gamma=data.gamma)[0] @ beta + solution[count]
    return float(value), float(max(violations.max(), outside))


def free_and_bounded(model: SVC) -> tuple[int, int]:
    """Count the support vectors of scikit-learn's SVC with coefficients below C and at C."""
    bounded = int(np.count_nonzero(np.abs(model.dual_coef_) >= model.C * (1 - 1e-9)))
    return len(model.support_) - bounded, bounded


def _warm_up() -> None:
    """Run small fits so that compilation and the start of threads are not timed."""
    from widemargin import loo

    data = clusters("warm-up", rows=300, columns=12, informative=8, redundant=2)
    left_out_values(data, np.arange(3))
    for threads in (None, 1):
        with threadpool_limits(limits=threads, user_api="blas"):
            loo.decision_values(ours_svc(data.C, data.gamma).fit(data.X, data.y), "exact")


def _one_round(comparison: Comparison, part: str) -> None:
    if part == SKLEARN:
        _run_loop(comparison)
    elif part == OURS:
        for _ in range(OUR_RUNS):
            _run_ours(comparison)
    else:
        with threadpool_limits(limits=1, user_api="blas"):
            for _ in range(OUR_RUNS):
                _run_ours(comparison, f", {ONE_THREAD}")


def _run_loop(comparison: Comparison) -> None:
    """Time the loop, scaled up if it leaves out some samples only, and fits on all samples."""
    data = comparison.data
    seconds, comparison.loop = timed(lambda: left_out_values(data, comparison.left_out))
    comparison.times.add("loop", seconds * data.shape[0] / len(comparison.left_out))
    for _ in range(OUR_RUNS):
        model = sklearn_svc(data.C, data.gamma)
        seconds, _ = timed(lambda model=model: model.fit(data.X, data.y))
        comparison.times.add("their fit", seconds)
    comparison.free, comparison.bounded = free_and_bounded(model)
    comparison.objective = dual_objective(model, data).objective


def _run_ours(comparison: Comparison, label: str = "") -> None:
    """Time a fit and its leave-one-out predictions, with a new model since models cache them."""
    from widemargin import loo

    data = comparison.data
    model = ours_svc(data.C, data.gamma)
    fit, _ = timed(lambda: model.fit(data.X, data.y))
    path, values = timed(lambda: loo.decision_values(model, "exact"))
    comparison.times.add(f"fit{label}", fit)
    comparison.times.add(f"path{label}", path)
    comparison.times.add(f"total{label}", fit + path)
    comparison.ours = values
    if not comparison.support:
        cost = loo.result(model, "exact").cost
        comparison.events, comparison.retrained = cost["events"], cost["retrained"]
        comparison.support = len(model.support_)


def _check_values(comparison: Comparison) -> None:
    """Compare predictions with retraining at a tight tolerance for a few samples.

    These are random support vectors and the samples with the largest differences. Leaving out a
    sample that is not a support vector does not change the model, so it would not be a test.
    """
    data = comparison.data
    model = sklearn_svc(data.C, data.gamma).fit(data.X, data.y)
    rng = np.random.default_rng(SEED)
    size = min(RANDOM_CHECKS, len(model.support_))
    random = rng.choice(model.support_, size=size, replace=False)
    apart = np.abs(comparison.ours[comparison.left_out] - comparison.loop)
    worst = comparison.left_out[np.argsort(-apart)[:WORST_CHECKS]]
    rows = np.union1d(random, worst).astype(np.intp)
    tight, refined = [], []
    for row in rows:
        kept = np.arange(data.shape[0]) != row
        rest = replace(data, X=data.X[kept], y=data.y[kept])
        model = sklearn_svc(data.C, data.gamma).set_params(tol=TIGHT_TOL).fit(rest.X, rest.y)
        x = data.X[row : row + 1]
        tight.append(abs(comparison.ours[row] - model.decision_function(x)[0]))
        value, violation = refined_value(model, rest, x)
        if violation <= OPTIMAL:
            refined.append(abs(comparison.ours[row] - value))
    comparison.checked, comparison.refined = len(rows), len(refined)
    comparison.tight_difference = float(max(tight))
    comparison.refined_difference = float(max(refined, default=np.nan))


def _collect(report: Report, comparisons: list[Comparison]) -> None:
    time_table(report, comparisons)
    value_table(report, comparisons)
    for comparison in comparisons:
        report.results[comparison.name] = as_json(comparison)
        report.failures += _disagreements(comparison)
    mean = geometric_mean([c.speed_up for c in comparisons])
    report.results["geometric_mean"] = mean
    report.targets = _targets(comparisons, mean)


def _targets(comparisons: list[Comparison], mean: float) -> list[Target]:
    slowest = min(comparisons, key=lambda c: c.speed_up)
    loop = f"{SKLEARN}'s loop / ours with the fit"
    found = [
        Target(f"{loop}, worst ({slowest.name})", slowest.speed_up, 100, True, "x"),
        Target(f"{loop}, geometric mean (ambition)", mean, 300, True, "x"),
    ]
    for label, whose in (("their fit", f"{SKLEARN}'s fits"), ("fit", "our fits")):
        ratios = {c.name: c.times.ratio("path", label) for c in comparisons}
        dearest = max(ratios, key=ratios.__getitem__)
        found.append(Target(f"paths in {whose}, worst ({dearest})", ratios[dearest], 6, False))
    return found


def _disagreements(comparison: Comparison) -> list[str]:
    found = []
    if not comparison.refined_difference <= SAME_VALUE:
        found.append(
            f"{comparison.name}: a left-out value differs from retraining "
            f"by {comparison.refined_difference:.1e}"
        )
    model = ours_svc(comparison.data.C, comparison.data.gamma)
    model.fit(comparison.data.X, comparison.data.y)
    ours = dual_objective(model, comparison.data).objective
    difference = relative_difference(ours, comparison.objective)
    if not abs(difference) <= SAME_OBJECTIVE:
        found.append(f"{comparison.name}: dual objectives differ by {difference:+.1e} relative")
    return found
