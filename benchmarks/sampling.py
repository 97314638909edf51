"""Random sampling and implicit outliers: rounds and their bounds, passes, and times of peers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import mean
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.data import DataSet
from benchmarks.measure import Timings, rounds_of, timed
from benchmarks.objectives import dual_objective, linear_primal, relative_difference
from benchmarks.peers import ours_svc, sklearn_svc
from benchmarks.report import Report, Target
from benchmarks.sampling_peers import (
    Plane,
    coordinate_descent,
    correlated,
    crossed,
    cube,
    curved,
    exact,
    fastest_blas_threads,
    matched,
    our_estimator,
    primal_lbfgs,
    source_of,
    stochastic,
)

EXACT, ESTIMATOR = "widemargin, exact", "widemargin LinearSVC"
LIBLINEAR, SGD = "LIBLINEAR, matched", "SGD, 20 epochs"
LBFGS, TIGHT = "L-BFGS on the hinge, to 1e-8", "L-BFGS on the hinge, to 1e-10"
GROWING, OURS, SKLEARN = "SVC(solver='sampling')", "SVC()", "scikit-learn"
LIBLINEAR_GAP, LBFGS_GAP, TIGHT_GAP = 1e-4, 1e-8, 1e-10
RUNS = 20  # seeds of OptMargin and OptSoftMargin
DEAR = 5.0  # seconds: LIBLINEAR is timed only once if its fit takes longer
AGREE = 1e-5  # relative: a larger difference between dual objectives is a failure
ROUNDING = 1e-9  # relative: by how much rounding errors may put a peer below our optimum


def run(console: Console, *, quick: bool, rounds: int) -> Report:
    """Run the sampling benchmark and return its report."""
    report = Report("sampling", quick)
    with console.status("random sampling") as status:
        _rounds_and_bounds(report, quick, status.update)
        _hard_margins(report, quick, status.update)
        rows = 100_000 if quick else 1_000_000
        for make in (cube, correlated):
            for C in (1.0, 1e-3):
                _soft_margins(report, make(rows, 20, noise=0.01, C=C), rounds, status.update)
        _reduced_hulls(report, quick, rounds, status.update)
        _few_support_vectors(report, quick, rounds, status.update)
    return report


# -- rounds of Figs. 1 and 3 of Balcázar et al. (2008) -----------------------------------------


def _rounds_and_bounds(report: Report, quick: bool, say: Callable[[str], None]) -> None:
    """Compare the rounds of OptMargin (k = 1) and OptSoftMargin, as printed, with their bounds."""
    table = report.table(
        f"OptMargin (k = 1) and OptSoftMargin as in the paper, {RUNS} runs each",
        ["data", "delta", "sample", "rounds, mean", "most", "bound 6 delta ln m", "log2 u(X)"],
    )
    rows = 20_000 if quick else 100_000
    worst = 0.0
    for n in (2, 5, 10):
        for k in (1, 3, 10):
            data = crossed(rows, n, k)
            say(f"{data.name}: {RUNS} runs")
            found = repeated(data, k, RUNS)
            report.failures += different(data.name, found)
            counts = [each.n_iter for each in found]
            bound, draws = found[0].round_bound, found[0].history[0]["draws"]
            weight = max(each.history[-1]["log2_weight"] for each in found)
            worst = max(worst, mean(counts) / bound)
            cells = (n + 2 * k - 1, draws, f"{mean(counts):.1f}", max(counts), f"{bound:.0f}")
            table.add_row(data.name, *map(str, cells), f"{weight:.1f}")
            report.results[f"rounds {data.name}"] = {"rounds": counts, "bound": bound}
    report.targets.append(Target("mean rounds / proved bound, worst case", worst, 1, False))


def repeated(data: DataSet, k: int, runs: int, plan: Any = None) -> list[Any]:
    """Run OptMargin (k = 1) or OptSoftMargin with seeds 0, 1, ..., by default as in the paper."""
    from widemargin.problems.linear_scan import LinearProblem
    from widemargin.solvers.base import Budget
    from widemargin.solvers.literature.random_sampling import proved_plan, solve

    plan = plan or proved_plan(data.shape[1], k)
    form, how = LinearProblem("hull", 1.0 / k), {"method": "weights", "plan": plan}
    return [
        solve(form, source_of(data), budget=Budget(10_000), seed=seed, **how)
        for seed in range(runs)
    ]


def different(name: str, found: list[Any]) -> list[str]:
    """Return failures if runs with different seeds differ or have not converged."""
    first = found[0].coef
    off = max(float(np.abs(each.coef - first).max()) for each in found) / np.abs(first).max()
    wrong = [] if off <= 1e-9 else [f"{name}: w differs by {off:.1e} between seeds"]
    if any(each.status != "converged" for each in found):
        wrong.append(f"{name}: a run did not reach the optimum")
    return wrong


def _hard_margins(report: Report, quick: bool, say: Callable[[str], None]) -> None:
    """Count the passes of the growing sample on separable data."""
    from widemargin.problems.linear_scan import LinearProblem
    from widemargin.solvers.base import Budget
    from widemargin.solvers.literature.random_sampling import solve

    table = report.table(
        "Hard margin by a growing sample: 5 seeds",
        ["data", "passes, mean", "most", "rows of the sample", "best seconds"],
    )
    most = 0
    for n in (10, 20, 50):
        data = cube(100_000 if quick else 1_000_000, n, gap=0.1)
        say(f"hard margin, {data.name}")
        source = source_of(data)
        grow = partial(solve, LinearProblem("hull", 1.0), source, method="growing")
        runs = [timed(partial(grow, budget=Budget(500), seed=seed)) for seed in range(5)]
        found = [result for _, result in runs]
        report.failures += different(data.name, found)
        passes = [each.passes for each in found]
        most = max(most, *passes)
        rows = max(each.history[-1]["rows"] for each in found)
        seconds = min(seconds for seconds, _ in runs)
        cells = (f"{mean(passes):.1f}", max(passes), rows, f"{seconds:.3f}")
        table.add_row(data.name, *map(str, cells))
        report.results[f"hard {data.name}"] = {"passes": passes, "seconds": seconds}
    report.targets.append(Target("hard margin: most passes", most, 8, False))


# -- soft margins against the peers ------------------------------------------------------------


def _soft_margins(report: Report, data: DataSet, rounds: int, say: Callable[[str], None]) -> None:
    """Time all candidates on the same data; gaps are relative to our exact optimum."""
    say(f"{data.name}: exact value")
    source = source_of(data)
    plane = exact(source, data)
    optimum = linear_primal(plane.coef, plane.intercept, data)
    threads = fastest_blas_threads(data)
    candidates: dict[str, Callable[[], Plane]] = {
        EXACT: lambda: exact(source, data),
        ESTIMATOR: lambda: our_estimator(data),
        LBFGS: lambda: primal_lbfgs(data, optimum, LBFGS_GAP, threads),
        SGD: lambda: stochastic(data),
    }
    times, found = Timings(), {}
    say(f"{data.name}: {LIBLINEAR}")
    seconds, found[LIBLINEAR] = matched(data, optimum, LIBLINEAR_GAP)
    times.add(LIBLINEAR, seconds)
    if seconds < DEAR:
        candidates[LIBLINEAR] = lambda: coordinate_descent(data, int(found[LIBLINEAR].passes))
    say(f"{data.name}: {TIGHT}")
    seconds, found[TIGHT] = timed(lambda: primal_lbfgs(data, optimum, TIGHT_GAP, threads))
    times.add(TIGHT, seconds)
    for name in rounds_of(candidates, rounds):
        say(f"{data.name}: {name}")
        seconds, found[name] = timed(candidates[name])
        times.add(name, seconds)
    gaps = {
        name: relative_difference(linear_primal(p.coef, p.intercept, data), optimum)
        for name, p in found.items()
    }
    _soft_table(report, data, times, found, gaps)
    report.failures += [
        f"{data.name}: {name} is better than the exact optimum by {-gap:.1e}"
        for name, gap in gaps.items()
        if not gap >= -ROUNDING
    ]
    report.targets += _soft_targets(data, times, found, gaps[LIBLINEAR] <= LIBLINEAR_GAP)
    report.results[data.name] = {
        "seconds": times.summary(),
        "gaps": gaps,
        "passes": {name: plane.passes for name, plane in found.items()},
    }


def _soft_table(
    report: Report,
    data: DataSet,
    times: Timings,
    found: dict[str, Plane],
    gaps: dict[str, float],
) -> None:
    table = report.table(
        f"{data.name}, 1 % noise: best seconds (median)",
        ["candidate", "seconds", "peer/exact", "gap to the exact value", "passes"],
    )
    for name, plane in sorted(found.items(), key=lambda item: times.best(item[0])):
        table.add_row(
            name,
            f"{times.best(name):.3f} ({times.median(name):.3f})",
            "" if name == EXACT else f"{times.ratio(name, EXACT):.1f}x",
            f"{gaps[name]:.1e}",
            "" if np.isnan(plane.passes) else f"{plane.passes:.1f}",
        )


def _soft_targets(
    data: DataSet, times: Timings, found: dict[str, Plane], good: bool
) -> list[Target]:
    least = 10 if data.C == 1.0 else 3
    reached = f"at {LIBLINEAR_GAP:g}" if good else "short of its gap"
    return [
        Target(f"{data.name}: passes", found[EXACT].passes, 6, False),
        Target(
            f"{data.name}: LIBLINEAR ({reached})", times.ratio(LIBLINEAR, EXACT), least, True, "x"
        ),
        Target(f"{data.name}: L-BFGS at {LBFGS_GAP:g}", times.ratio(LBFGS, EXACT), 6, True, "x"),
    ]


# -- reduced hulls and kernels -----------------------------------------------------------------


def _reduced_hulls(report: Report, quick: bool, rounds: int, say: Callable[[str], None]) -> None:
    """Compare ReducedHullSVC with NuSVC at the equivalent nu."""
    from sklearn.svm import NuSVC

    from widemargin import ReducedHullSVC

    data = cube(4_000 if quick else 30_000, 20, noise=0.01)
    k = int(0.35 * min((data.y > 0).sum(), (data.y < 0).sum()))
    candidates: dict[str, Callable[[], Any]] = {
        "ReducedHullSVC": lambda: ReducedHullSVC(k=k, kernel="linear").fit(data.X, data.y),
        "NuSVC": lambda: NuSVC(nu=2 * k / len(data.y), kernel="linear", cache_size=1000).fit(
            data.X, data.y
        ),
    }
    candidates["ReducedHullSVC"]()
    times, models = Timings(), {}
    for name in rounds_of(candidates, rounds):
        say(f"{data.name}: {name}")
        seconds, models[name] = timed(candidates[name])
        times.add(name, seconds)
    planes = {name: np.append(m.coef_[0], m.intercept_[0]) for name, m in models.items()}
    unit = {name: plane / np.linalg.norm(plane) for name, plane in planes.items()}
    apart = float(np.abs(unit["ReducedHullSVC"] - unit["NuSVC"]).max())
    table = report.table(f"Reduced hulls, {data.name}, k = {k}", ["candidate", "seconds", "ratio"])
    for name in candidates:
        table.add_row(
            name, f"{times.best(name):.3f}", f"{times.ratio(name, 'ReducedHullSVC'):.0f}x"
        )
    ratio = times.ratio("NuSVC", "ReducedHullSVC")
    report.targets.append(Target(f"{data.name}: NuSVC / ReducedHullSVC", ratio, 100, True, "x"))
    report.results["reduced hulls"] = {"seconds": times.summary(), "planes_apart": apart}
    if apart > 1e-2:
        report.failures.append(f"reduced hulls: the plane of NuSVC differs by {apart:.1e}")


def _few_support_vectors(
    report: Report, quick: bool, rounds: int, say: Callable[[str], None]
) -> None:
    """Compare RBF kernel SVCs on many samples with few support vectors."""
    from widemargin import SVC

    data = curved(20_000 if quick else 100_000)
    factories: dict[str, Callable[[], Any]] = {
        GROWING: lambda: SVC(C=data.C, gamma=data.gamma, solver="sampling"),
        OURS: lambda: ours_svc(data.C, data.gamma),
        SKLEARN: lambda: sklearn_svc(data.C, data.gamma),
    }
    for make in factories.values():
        make().fit(data.X[:6_000], data.y[:6_000])
    times, models = Timings(), {}
    for name in rounds_of(factories, rounds):
        say(f"{data.name}: {name}")
        seconds, models[name] = timed(partial(factories[name]().fit, data.X, data.y))
        times.add(name, seconds)
    points = {name: dual_objective(model, data) for name, model in models.items()}
    table = report.table(
        f"RBF, {data.name}, C = {data.C:g}: best seconds (median)",
        ["candidate", "seconds", "ratio", "support vectors", "objective"],
    )
    for name, point in points.items():
        off = relative_difference(point.objective, points[SKLEARN].objective)
        table.add_row(
            name,
            f"{times.best(name):.3f} ({times.median(name):.3f})",
            f"{times.ratio(name, GROWING):.2f}x",
            str(point.n_support),
            f"{off:+.1e}",
        )
        if abs(off) > AGREE:
            report.failures.append(f"{data.name}: the objective of {name} is off by {off:+.1e}")
    report.results["rbf"] = {
        "seconds": times.summary(),
        "support_vectors": {name: point.n_support for name, point in points.items()},
    }
    report.targets += [
        Target(f"{data.name}: LIBSVM / ours", times.ratio(SKLEARN, GROWING), 2, True, "x"),
        Target(f"{data.name}: SVC() / ours", times.ratio(OURS, GROWING), 1, True, "x"),
        Target(f"{data.name}: support vectors", points[GROWING].n_support, 300, False),
    ]
