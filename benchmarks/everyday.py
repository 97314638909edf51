"""Everyday use beside scikit-learn and scikit-learn-intelex: fit, one row, all rows.

Nine machines by size, nine data sets of several classes and sparse text. Fits of small data take
milliseconds, so a round repeats them until `LEAST_SECONDS` have passed. Objectives are recomputed
from the coefficients, problem by problem; ours must not be larger. Tables list the worst cell
first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.everyday_cells import Cell, cells
from benchmarks.measure import Timings, geometric_mean, rounds_of, timed
from benchmarks.peers import INTELEX, OURS, SKLEARN
from benchmarks.report import Report, Target

LEAST_SECONDS = 0.1  # of one round: single fits of 50 samples are too short for the clock
SAME_OBJECTIVE = 1e-3
"""Largest relative excess of our objective of a problem: the KKT tolerance of all libraries."""

ACTIONS: dict[str, Callable[[Any, Cell], Any]] = {
    "fit": lambda model, cell: model.fit(cell.X, cell.y),
    "one row": lambda model, cell: model.predict(cell.X[:1]),
    "all rows": lambda model, cell: model.predict(cell.X),
}
INTELEX_MACHINES = ("SVC", "NuSVC", "SVR", "NuSVR")
LEAST_MEAN = {"small": 3.0, "medium": 1.0, "classes": 3.0, "text": 1.2}
"""Demanded geometric means of scikit-learn's fit time divided by ours."""


@dataclass(frozen=True)
class Outcome:
    """Times of the actions on one cell, and the excess of our objective."""

    cell: Cell
    times: dict[str, Timings]
    excess: float

    def lead(self, action: str, peer: str = SKLEARN) -> float:
        """Return the time of a peer divided by ours; NaN where the peer was not run."""
        times = self.times[action]
        return times.ratio(peer, OURS) if peer in times.seconds else np.nan


def run(console: Console, *, quick: bool, rounds: int) -> Report:
    """Run the whole panel."""
    report = Report("everyday", quick)
    outcomes = []
    with console.status("warming up") as status:
        for cell in cells(quick=quick):
            status.update(cell.label)
            outcome = _measure(cell, _libraries(cell), rounds)
            outcomes.append(outcome)
            report.results[cell.label] = _figures(outcome)
            if outcome.excess > SAME_OBJECTIVE:
                report.failures.append(
                    f"{cell.label}: our objective is {outcome.excess:.1e} larger"
                )
    for group in dict.fromkeys(outcome.cell.group for outcome in outcomes):
        _table(report, group, [each for each in outcomes if each.cell.group == group])
    _targets(report, outcomes)
    return report


def _libraries(cell: Cell) -> dict[str, ModuleType]:
    """Return the modules of the libraries that offer this cell's estimator, by name."""
    import sklearn.svm

    import widemargin

    libraries: dict[str, ModuleType] = {OURS: widemargin, SKLEARN: sklearn.svm}
    if cell.estimator in INTELEX_MACHINES:
        try:
            import sklearnex.svm
        except ModuleNotFoundError:  # an optional peer
            return libraries
        libraries[INTELEX] = sklearnex.svm
    return libraries


def _measure(cell: Cell, libraries: dict[str, ModuleType], rounds: int) -> Outcome:
    """Time all actions of all libraries on one cell, in alternating order."""
    times = {action: Timings() for action in ACTIONS}
    with warnings.catch_warnings():
        # LIBLINEAR stops at 1,000 passes where C is large, and says so; so do ours at a tol.
        warnings.simplefilter("ignore")
        models = {name: cell.build(library) for name, library in libraries.items()}
        calls: dict[tuple[str, str], int] = {}
        for name, model in models.items():
            for action, act in ACTIONS.items():  # compiles, loads, and counts repetitions
                act(model, cell)
                seconds, _ = timed(lambda act=act, model=model: act(model, cell))
                calls[name, action] = max(1, int(LEAST_SECONDS / max(seconds, 1e-6)))
        for name in rounds_of(models, rounds):
            for action, act in ACTIONS.items():
                times[action].add(
                    name, _seconds_per_call(act, models[name], cell, calls[name, action])
                )
    return Outcome(cell, times, _excess(cell, models[OURS], models[SKLEARN]))


def _seconds_per_call(act: Any, model: Any, cell: Cell, calls: int) -> float:
    """Return the mean time of repeated calls."""
    seconds, _ = timed(lambda: [act(model, cell) for _ in range(calls)])
    return seconds / calls


def _excess(cell: Cell, ours: Any, theirs: Any) -> float:
    """Return the largest excess of an objective of ours, relative to its size."""
    mine, reference = cell.objective(ours), cell.objective(theirs)
    return float(np.max((mine - reference) / np.maximum(np.abs(reference), 1e-300)))


def _figures(outcome: Outcome) -> dict[str, Any]:
    """Return what is written to JSON of one cell."""
    times = {action: timings.summary() for action, timings in outcome.times.items()}
    return times | {"largest excess of our objective": outcome.excess}


def _table(report: Report, group: str, outcomes: list[Outcome]) -> None:
    """Add the table of a group, slowest fit beside scikit-learn first."""
    table = report.table(
        f"{group}: times of scikit-learn divided by ours (best rounds)",
        ["cell", f"{OURS} fit", "fit", "one row", "all rows", f"fit, {INTELEX}", "excess"],
    )
    for outcome in sorted(outcomes, key=lambda each: each.lead("fit")):
        leads = [f"{outcome.lead(action):.2f}" for action in ACTIONS]
        table.add_row(
            outcome.cell.label, f"{1e3 * outcome.times['fit'].best(OURS):.2f} ms", *leads,
            f"{outcome.lead('fit', INTELEX):.2f}", f"{outcome.excess:.0e}",
        )  # fmt: skip


def _targets(report: Report, outcomes: list[Outcome]) -> None:
    """State worst cells and geometric means."""

    def at_least(name: str, leads: Iterable[float], bound: float, summary: Any) -> None:
        known = [lead for lead in leads if not np.isnan(lead)]
        if known:
            report.targets.append(Target(name, float(summary(known)), bound, True))

    at_least("fit, worst cell", (each.lead("fit") for each in outcomes), 1, min)
    for group, bound in LEAST_MEAN.items():
        members = [each for each in outcomes if each.cell.group == group]
        at_least(f"fit, {group}, mean", (m.lead("fit") for m in members), bound, geometric_mean)
    tubes = [each for each in outcomes if each.cell.estimator in ("SVR", "NuSVR")]
    at_least("fit, SVR and NuSVR, mean", (m.lead("fit") for m in tubes), 2, geometric_mean)
    dense = [each for each in outcomes if each.cell.group != "text"]
    at_least("one row, mean", (m.lead("one row") for m in dense), 2, geometric_mean)
    at_least("one row, worst cell", (m.lead("one row") for m in dense), 1, min)
    at_least("all rows, worst cell", (m.lead("all rows") for m in outcomes), 1, min)
    beside = (each.lead("fit", INTELEX) for each in outcomes)
    at_least(f"fit, {INTELEX}, mean", beside, 2, geometric_mean)
