"""SVC with RBF kernel against scikit-learn and scikit-learn-intelex: time, objective, memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.data import DENSE, LOADERS, DataSet, clusters, text_like
from benchmarks.measure import Timings, geometric_mean, one_pass, rounds_of, timed
from benchmarks.memory import peak_of_fit
from benchmarks.objectives import DualPoint, dual_objective, relative_difference
from benchmarks.peers import INTELEX, OURS, SKLEARN, SVC_PEERS
from benchmarks.report import Report, Target

SAME_OBJECTIVE = 1e-5
"""Candidates whose dual objectives differ by more (relative) did not solve the same problem."""

MEMORY_DATA = "syn12"
MEMORY_SLACK_MB = 300  # allowed above cache_size


@dataclass
class Comparison:
    """Measurements on one data set; `floor` has the times of one pass."""

    data: DataSet
    candidates: tuple[str, ...]
    fits: Timings = field(default_factory=Timings)
    predictions: Timings = field(default_factory=Timings)
    floor: Timings = field(default_factory=Timings)
    duals: dict[str, DualPoint] = field(default_factory=dict)
    memory_mb: dict[str, float] = field(default_factory=dict)

    @property
    def passes(self) -> float:
        """Time of our fit divided by that of one evaluation of the model on its training set."""
        return self.fits.best(OURS) / self.floor.best("pass") if self.floor.seconds else np.nan

    def difference(self, candidate: str) -> float:
        """Return the relative difference of a dual objective from scikit-learn's."""
        reference = self.duals[SKLEARN].objective
        return relative_difference(self.duals[candidate].objective, reference)


def run(console: Console, *, quick: bool, rounds: int) -> Report:
    """Run the svc benchmark and return its report."""
    report = Report("svc", quick)
    with console.status("warming up") as status:
        for name in SVC_PEERS:
            _warm_up(name)
        comparisons = []
        for name in LOADERS:
            # On sparse data ours is compared with scikit-learn only.
            candidates = tuple(SVC_PEERS) if name in DENSE else (OURS, SKLEARN)
            comparison = Comparison(LOADERS[name](quick), candidates)
            for candidate in rounds_of(candidates, rounds):
                status.update(f"{name}: {candidate}")
                _one_run(comparison, candidate)
            status.update(f"{name}: memory")
            _measure_memory(comparison, quick=quick)
            comparisons.append(comparison)
    _collect(report, comparisons)
    return report


def _warm_up(name: str) -> None:
    """Fit small data so that loading and compiling are not timed; ours has two paths by size."""
    for rows in (600, 6_000) if name == OURS else (600,):
        dense = clusters("warm-up", rows=rows, columns=20, informative=8, redundant=2)
        for data in (dense, text_like(rows=rows, columns=500)):
            model = SVC_PEERS[name](data.C, data.gamma).fit(data.X, data.y)
            model.predict(data.X[:200])


def _one_run(comparison: Comparison, candidate: str) -> None:
    """Time fit and predict of a new model; the first run also records the objective."""
    data = comparison.data
    model = SVC_PEERS[candidate](data.C, data.gamma)
    seconds, _ = timed(lambda: model.fit(data.X, data.y))
    comparison.fits.add(candidate, seconds)
    seconds, _ = timed(lambda: model.predict(data.X))
    comparison.predictions.add(candidate, seconds)
    if candidate == OURS and not data.sparse:
        for _ in range(2):
            seconds, _ = timed(lambda: one_pass(data, model.support_, model.dual_coef_))
            comparison.floor.add("pass", seconds)
    if candidate not in comparison.duals:
        comparison.duals[candidate] = dual_objective(model, data)


def _measure_memory(comparison: Comparison, *, quick: bool) -> None:
    name = comparison.data.name
    # Peers only on the data set with a memory target, since their fits are slow.
    for candidate in comparison.candidates if name == MEMORY_DATA else (OURS,):
        figures = peak_of_fit(name, candidate, quick=quick)
        comparison.memory_mb[candidate] = figures["fit_mb"]


def _collect(report: Report, comparisons: list[Comparison]) -> None:
    _fit_table(report, comparisons)
    _prediction_table(report, comparisons)
    for comparison in comparisons:
        report.results[comparison.data.name] = _as_json(comparison)
        report.failures += _disagreements(comparison)
    dense = [c for c in comparisons if not c.data.sparse]
    sparse = [c for c in comparisons if c.data.sparse]
    means = {
        "fit_vs_intelex": geometric_mean([c.fits.ratio(INTELEX, OURS) for c in dense]),
        "fit_vs_sklearn": geometric_mean([c.fits.ratio(SKLEARN, OURS) for c in dense]),
        "passes": geometric_mean([c.passes for c in dense]),
        "predict_vs_intelex": geometric_mean([c.predictions.ratio(INTELEX, OURS) for c in dense]),
        "predict_vs_sklearn": geometric_mean([c.predictions.ratio(SKLEARN, OURS) for c in dense]),
    }
    report.results["geometric_means"] = means
    report.targets = [
        Target(f"fit, {INTELEX} / ours (geometric mean)", means["fit_vs_intelex"], 2, True, "x"),
        Target(f"fit, {SKLEARN} / ours (geometric mean)", means["fit_vs_sklearn"], 5, True, "x"),
        Target("fit in passes (geometric mean)", means["passes"], 6, False),
        Target(f"prediction, {INTELEX} / ours", means["predict_vs_intelex"], 1, True, "x"),
        *(
            Target(f"sparse fit, {SKLEARN} / ours", c.fits.ratio(SKLEARN, OURS), 2, True, "x")
            for c in sparse
        ),
        *(_memory_target(c) for c in dense if c.data.name == MEMORY_DATA),
    ]


def _memory_target(comparison: Comparison) -> Target:
    data = comparison.data
    cache_size = float(SVC_PEERS[OURS](data.C, data.gamma).cache_size)
    rows, columns = data.shape
    name = f"peak memory of a {rows:,} x {columns} fit (cache_size {cache_size:g} + 300 MB)"
    bound = cache_size + MEMORY_SLACK_MB
    return Target(name, comparison.memory_mb[OURS], bound, False, " MB")


def _disagreements(comparison: Comparison) -> list[str]:
    found = []
    for candidate, dual in comparison.duals.items():
        difference = comparison.difference(candidate)
        if not abs(difference) <= SAME_OBJECTIVE:
            found.append(
                f"{comparison.data.name}: dual objective of {candidate} differs from "
                f"{SKLEARN}'s by {difference:+.1e} relative"
            )
        if not dual.infeasibility <= SAME_OBJECTIVE:
            found.append(
                f"{comparison.data.name}: dual point of {candidate} is infeasible "
                f"by {dual.infeasibility:.1e} C"
            )
    return found


def _fit_table(report: Report, comparisons: list[Comparison]) -> None:
    table = report.table(
        "Fit: best seconds (median), dual objective against scikit-learn's, memory above the data",
        ["data", "candidate", "seconds", "peer/ours", "objective", "n_SV", "passes", "memory MB"],
    )
    for comparison in comparisons:
        rows, columns = comparison.data.shape
        label = f"{comparison.data.name} {rows:,} x {columns:,}"
        for candidate in comparison.candidates:
            ours = candidate == OURS
            memory = comparison.memory_mb.get(candidate)
            table.add_row(
                label if ours else "",
                candidate,
                _seconds(comparison.fits, candidate),
                "" if ours else f"{comparison.fits.ratio(candidate, OURS):.2f}x",
                f"{comparison.difference(candidate):+.1e}",
                f"{comparison.duals[candidate].n_support:,}",
                f"{comparison.passes:.2f}" if ours and comparison.floor.seconds else "",
                "" if memory is None else f"{memory:,.0f}",
            )
        table.add_section()


def _prediction_table(report: Report, comparisons: list[Comparison]) -> None:
    table = report.table(
        "Prediction of the training set: best seconds (median); one pass is the floor",
        ["data", "one pass", *(name for name in SVC_PEERS), "intelex/ours", "sklearn/ours"],
    )
    for comparison in comparisons:
        times = comparison.predictions
        cells = [_seconds(times, n) if n in times.seconds else "" for n in SVC_PEERS]
        ratios = [
            f"{times.ratio(n, OURS):.2f}x" if n in times.seconds else "" for n in (INTELEX, SKLEARN)
        ]
        floor = comparison.floor
        one = _seconds(floor, "pass") if floor.seconds else ""
        table.add_row(comparison.data.name, one, *cells, *ratios)


def _seconds(timings: Timings, label: str) -> str:
    return f"{timings.best(label):.3f} ({timings.median(label):.3f})"


def _as_json(comparison: Comparison) -> dict[str, Any]:
    rows, columns = comparison.data.shape
    return {
        "rows": rows,
        "columns": columns,
        "C": comparison.data.C,
        "gamma": comparison.data.gamma,
        "fit_seconds": comparison.fits.summary(),
        "predict_seconds": comparison.predictions.summary(),
        "pass_seconds": comparison.floor.summary().get("pass"),
        "passes": comparison.passes if comparison.floor.seconds else None,
        "dual": {
            candidate: {
                "objective": dual.objective,
                "relative_difference": comparison.difference(candidate),
                "infeasibility": dual.infeasibility,
                "n_support": dual.n_support,
            }
            for candidate, dual in comparison.duals.items()
        },
        "fit_memory_mb": comparison.memory_mb,
    }
