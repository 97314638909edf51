"""Cost of proofs: seconds of the bounds of a certificate beside those of the fit, and their width.

The bounds need f = K beta in float64; everything beyond this pass is timed: majorants of the
kernel, enclosures of the sums, and sums with more digits where rounding asks for them. A fit that
has clearly converged leaves them to the first read of its certificate, which is timed as well.
LinearSVC has no pass apart from its certificate, so that its share is an upper bound.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from rich.console import Console
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler

from benchmarks.report import Report, Target
from widemargin import SVC, SVR, LinearSVC, NuSVC

SIZES = (600, 5_000, 40_000)
FEATURES = 20
MACHINES: dict[str, Any] = {
    "SVC rbf, C = 1": SVC(C=1.0),
    "SVC rbf, C = 100": SVC(C=100.0),
    "SVC poly, C = 1": SVC(C=1.0, kernel="poly", coef0=1.0),
    "SVC linear, C = 1": SVC(C=1.0, kernel="linear"),
    "SVC squared hinge": SVC(C=1.0, loss="squared_hinge"),
    "NuSVC": NuSVC(nu=0.3),
    "SVR rbf": SVR(C=1.0, epsilon=0.2),
    "LinearSVC": LinearSVC(),
}
# Functions that compute bounds, by the module whose name is looked up at each call.
PROOFS = {
    "widemargin.estimators.svm.expansion": ("bracket", "majorants"),
    "widemargin.estimators.svm.proof": ("bracket", "majorants"),
    "widemargin.estimators.linear.memory": ("linear_certificate",),
}
OVERHEAD = 0.05


def run(console: Console, *, quick: bool, rounds: int) -> Report:
    """Run the whole benchmark."""
    report = Report("certificates", quick)
    table = report.table(
        "Bounds of certificates, beside the seconds of the fit (median of the rounds)",
        ["machine", "samples", "fit", "bounds", "share", "relative gap", "due to rounding"],
    )
    shares = []
    for n in SIZES[:2] if quick else SIZES:
        X, labels = make_classification(
            n, FEATURES, n_informative=8, n_redundant=4, flip_y=0.05, random_state=0
        )
        X = StandardScaler().fit_transform(X)
        for name, machine in MACHINES.items():
            y = X[:, 0] + 0.3 * labels if name.startswith("SVR") else labels
            with console.status(f"{name}, {n} samples"):
                machine.fit(X[:300], y[:300])  # compiles
                times = [_timed_fit(machine, X, y) for _ in range(max(rounds, 3))]
            fit, bounds = (median(column) for column in zip(*times, strict=True))
            share = median(spent / whole for whole, spent in times)
            shares.append(share)
            c = machine.certificate_
            table.add_row(
                name, f"{n:,}", f"{1e3 * fit:.1f} ms", f"{1e3 * bounds:.2f} ms", f"{share:.1%}",
                f"{c.relative_gap:.1e}", f"{c.rounding / max(1.0, abs(c.primal)):.1e}",
            )  # fmt: skip
            report.results[f"{name}, {n}"] = {
                "fit": fit, "bounds": bounds, "share": share, "relative_gap": c.relative_gap,
            }  # fmt: skip
            if not c.dual <= c.primal:
                report.failures.append(f"{name}, {n} samples: a lower bound above the objective")
    report.targets = [Target("bounds / fit, worst cell", max(shares), OVERHEAD, False)]
    return report


def _timed_fit(machine: Any, X: Any, y: Any) -> tuple[float, float]:
    """Return the seconds of a fit, and of the functions of `PROOFS` in it and in the first read."""
    with _stopwatch() as spent:
        start = time.perf_counter()
        machine.fit(X, y)
        seconds = time.perf_counter() - start
        _ = machine.certificate_
    return seconds, sum(spent)


@contextmanager
def _stopwatch() -> Iterator[list[float]]:
    """Collect the seconds of each call of the functions of `PROOFS`."""
    spent: list[float] = []

    def watched(function: Any) -> Any:
        def call(*args: Any, **known: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **known)
            finally:
                spent.append(time.perf_counter() - start)

        return call

    kept = []
    for module_name, names in PROOFS.items():
        module = importlib.import_module(module_name)
        for name in names:
            kept.append((module, name, getattr(module, name)))
            setattr(module, name, watched(getattr(module, name)))
    try:
        yield spent
    finally:
        for module, name, function in kept:
            setattr(module, name, function)
