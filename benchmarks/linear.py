"""LinearSVC against LIBLINEAR at the same relative gap, and LinearSVR against its defaults."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from sklearn.exceptions import ConvergenceWarning

from benchmarks import linear_tubes
from benchmarks.data import DataSet, hyperplane
from benchmarks.measure import Timings, rounds_of, timed
from benchmarks.objectives import linear_primal, relative_difference
from benchmarks.peers import liblinear, ours_linear
from benchmarks.report import Report, Target

OURS = "widemargin"
DEFAULT = "LIBLINEAR, defaults"
MATCHED = "LIBLINEAR, matched"

GAP = 1e-3  # relative gap that both have to reach
CONSISTENT = 1e-5  # relative: a larger contradiction between objectives and bounds is a failure
TIGHT_GAP = 1e-6  # relative gap of the fit that provides the dual bound
SETTINGS = [(1e-4, epochs) for epochs in (10, 20, 50, 75, 100, 150, 200, 300, 500, 1000, 2000)]
"""(tol, max_iter) of LIBLINEAR by increasing cost; the first that reaches GAP is "matched"."""


@dataclass
class Comparison:
    """Measurements on one data set."""

    data: DataSet
    fits: Timings = field(default_factory=Timings)
    primals: dict[str, float] = field(default_factory=dict)
    setting: tuple[float, int] | None = None
    dual: float = float("-inf")
    certified: dict[str, float] = field(default_factory=dict)

    def gap(self, candidate: str) -> float:
        """Return (primal - dual bound of the tight fit) / primal, a bound on suboptimality."""
        return -relative_difference(self.dual, self.primals[candidate])


def run(console: Console, *, quick: bool, rounds: int) -> Report:
    """Run the linear benchmark and return its report."""
    report = Report("linear", quick)
    sizes = (10_000, 100_000) if quick else (100_000, 1_000_000)
    with console.status("warming up") as status:
        warm = hyperplane(20_000)
        _fit(ours_linear(warm.C), warm)
        _fit(liblinear(warm.C), warm)
        comparisons = []
        for rows in sizes:
            comparison = Comparison(hyperplane(rows))
            status.update(f"{comparison.data.name}: looking for LIBLINEAR's matched setting")
            _bound(comparison)
            comparison.setting = _matched_setting(comparison)
            candidates = _factories(comparison)
            candidates.pop(DEFAULT)  # minutes for a million samples: run once only
            _one_run(comparison, DEFAULT)
            for candidate in rounds_of(candidates, rounds):
                status.update(f"{comparison.data.name}: {candidate}")
                _one_run(comparison, candidate)
            comparisons.append(comparison)
    _collect(report, comparisons)
    linear_tubes.run(console, report, quick=quick, rounds=rounds)
    return report


def _fit(model: Any, data: DataSet) -> Any:
    """Fit without convergence warnings: LIBLINEAR is stopped early on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(data.X, data.y)


def _primal(model: Any, data: DataSet) -> float:
    return linear_primal(model.coef_, float(model.intercept_[0]), data)


def _bound(comparison: Comparison) -> None:
    """Store the dual bound of a tight fit of ours, which is not timed.

    By weak duality the primal objective of every candidate is at least this bound. The bound of the
    timed fit would be unfair to LIBLINEAR: most of our own gap lies on the dual side.
    """
    model = _fit(ours_linear(comparison.data.C, tol=TIGHT_GAP), comparison.data)
    comparison.dual = model.certificate_.dual


def _matched_setting(comparison: Comparison) -> tuple[float, int] | None:
    """Return LIBLINEAR's cheapest setting that comes within GAP of the dual bound, or None."""
    data = comparison.data
    for tol, max_iter in SETTINGS:
        primal = _primal(_fit(liblinear(data.C, tol=tol, max_iter=max_iter), data), data)
        if primal - comparison.dual <= GAP * primal:
            return tol, max_iter
    return None


def _factories(comparison: Comparison) -> dict[str, Callable[[float], Any]]:
    found: dict[str, Callable[[float], Any]] = {OURS: ours_linear, DEFAULT: liblinear}
    if comparison.setting is not None:
        tol, max_iter = comparison.setting
        found[MATCHED] = lambda C: liblinear(C, tol=tol, max_iter=max_iter)
    return found


def _one_run(comparison: Comparison, candidate: str) -> None:
    data = comparison.data
    model = _factories(comparison)[candidate](data.C)
    seconds, _ = timed(lambda: _fit(model, data))
    comparison.fits.add(candidate, seconds)
    comparison.primals[candidate] = _primal(model, data)
    if candidate == OURS:
        certificate = model.certificate_
        comparison.certified = {"primal": certificate.primal, "gap": certificate.relative_gap}


def _collect(report: Report, comparisons: list[Comparison]) -> None:
    table = report.table(
        f"Linear hinge machine, C = 1, to a relative gap of {GAP:g}: best seconds (median)",
        [
            "data",
            "candidate",
            "seconds",
            "peer/ours",
            "primal",
            "to optimum",
            "certified",
            "epochs",
        ],
    )
    for comparison in comparisons:
        for candidate in _factories(comparison):
            ours = candidate == OURS
            fits = comparison.fits
            epochs = comparison.setting[1] if comparison.setting else None
            table.add_row(
                comparison.data.name if ours else "",
                candidate,
                f"{fits.best(candidate):.3f} ({fits.median(candidate):.3f})",
                "" if ours else f"{fits.ratio(candidate, OURS):.2f}x",
                f"{comparison.primals[candidate]:.8g}",
                f"{comparison.gap(candidate):.1e}",
                f"{comparison.certified['gap']:.1e}" if ours else "none",
                {MATCHED: str(epochs), DEFAULT: "1000"}.get(candidate, ""),
            )
        table.add_section()
        report.results[comparison.data.name] = _as_json(comparison)
        report.failures += _inconsistencies(comparison)
    small, large = comparisons
    growth = large.fits.best(OURS) / small.fits.best(OURS)
    report.results["growth"] = growth
    report.targets = _targets(large, growth)


def _targets(large: Comparison, growth: float) -> list[Target]:
    peer = MATCHED if large.setting is not None else DEFAULT
    ratio = large.fits.ratio(peer, OURS)
    return [
        Target(f"{large.data.name}: {peer} / ours", ratio, 1, True, "x"),
        Target(f"{large.data.name}: our certified gap", large.certified["gap"], GAP, False),
        Target("growth of our time for ten times the rows", growth, 12, False, "x"),
    ]


def _inconsistencies(comparison: Comparison) -> list[str]:
    """Return failures: violations of weak duality, and an incorrect primal in our certificate."""
    name = comparison.data.name
    found = [
        f"{name}: the primal of {candidate} is below the dual bound"
        for candidate in comparison.primals
        if not comparison.gap(candidate) >= -CONSISTENT
    ]
    difference = relative_difference(comparison.certified["primal"], comparison.primals[OURS])
    if not abs(difference) <= CONSISTENT:
        found.append(f"{name}: our certificate's primal is off by {difference:+.1e} relative")
    return found


def _as_json(comparison: Comparison) -> dict[str, Any]:
    rows, columns = comparison.data.shape
    return {
        "rows": rows,
        "columns": columns,
        "C": comparison.data.C,
        "fit_seconds": comparison.fits.summary(),
        "primal": comparison.primals,
        "dual_bound": comparison.dual,
        "certified": comparison.certified,
        "distance_to_optimum": {name: comparison.gap(name) for name in comparison.primals},
        "matched_setting": comparison.setting,
    }
