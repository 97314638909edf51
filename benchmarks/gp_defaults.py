"""Errors of Gaussian processes with default parameters and after `tune`, against scikit-learn.

Ten keel sets, 150 training samples each, and ring data that are drawn: two spheres around almost
the same centre, of which one has twice the radius. scikit-learn's classifier has the same kernel
with an amplitude and a constant, and maximises its own approximate evidence.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss

from benchmarks.data import DataSet, keel
from benchmarks.proba import Split, split
from benchmarks.report import Report, Target

KEEL = (
    "banana", "heart", "ionosphere", "mammographic", "phoneme", "pima", "ring", "sonar", "titanic",
    "twonorm",
)  # fmt: skip
ROWS = 150
TEST_ROWS = 2_000
RING_ROWS = (150, 400)
SPLITS = {False: 5, True: 1}
DRAWS = {False: 6, True: 1}
DEFAULT, TUNED, TUNED_TAP = "default", "tuned", "TAP, tuned by evidence"
LAPLACE_DEFAULT, LAPLACE = "scikit-learn, default", "scikit-learn, tuned"
CANDIDATES = (DEFAULT, TUNED, TUNED_TAP, LAPLACE_DEFAULT, LAPLACE)
ROUNDING = 1e-9  # relative

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Score:
    """Test error, log-loss and seconds of one fit.

    `worse`: whether a tuned model is worse than before by its own criterion.
    """

    error: float
    loss: float
    seconds: float
    worse: bool = False


def drawn_ring(rows: int, seed: int, columns: int = 20) -> Split:
    """Draw two spheres with almost the same centre, standardised by the training samples."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows + 1_000)
    X = rng.normal(size=(len(y), columns))
    X[y == 0] *= 2
    X[y == 1] += columns**-0.5
    X = (X - X[:rows].mean(axis=0)) / X[:rows].std(axis=0)
    sign = 2.0 * y - 1
    train = DataSet("ring, drawn", X[:rows], sign[:rows], C=1.0, gamma=1.0 / columns)
    return Split(train, X[rows:], sign[rows:])


def candidates() -> dict[str, Callable[[FloatArray, FloatArray], tuple[Any, bool]]]:
    """Return functions that fit a candidate; with whether tuning made it worse."""
    from widemargin import MeanFieldGPClassifier as GP

    def peer(X: FloatArray, y: FloatArray) -> tuple[Any, bool]:
        kernel = ConstantKernel(1.0) * RBF(np.sqrt(X.shape[1] / 2.0)) + ConstantKernel(1.0)
        return GaussianProcessClassifier(kernel).fit(X, y), False

    return {
        DEFAULT: lambda X, y: (GP().fit(X, y), False),
        TUNED: lambda X, y: _tuned(GP(), X, y, "loo"),
        TUNED_TAP: lambda X, y: _tuned(GP(inference="tap"), X, y, "evidence"),
        LAPLACE_DEFAULT: lambda X, y: (GaussianProcessClassifier().fit(X, y), False),
        LAPLACE: peer,
    }


def _tuned(model: Any, X: FloatArray, y: FloatArray, criterion: str) -> tuple[Any, bool]:
    from sklearn.base import clone

    from widemargin import tune

    tuned, before = tune(model, X, y, criterion=criterion), clone(model).fit(X, y)
    if criterion == "loo":
        return tuned, tuned.loo_error_ > before.loo_error_
    margin = ROUNDING * abs(before.log_evidence_)
    return tuned, tuned.log_evidence_ < before.log_evidence_ - margin


def scores(part: Split) -> dict[str, Score]:
    """Fit all candidates on a split and return their scores."""
    found = {}
    for name, fit in candidates().items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # of scikit-learn's optimiser
            started = time.perf_counter()
            model, worse = fit(part.train.X, part.train.y)
            seconds = time.perf_counter() - started
        P = model.predict_proba(part.X_test)
        loss = float(log_loss(part.y_test, P, labels=[-1.0, 1.0]))
        error = float(np.mean((P[:, 1] > 0.5) != (part.y_test > 0)))
        found[name] = Score(error, loss, seconds, worse)
    return found


def compare(quick: bool, say: Callable[[str], None]) -> dict[str, list[dict[str, Score]]]:
    """Return the scores per data set, one entry per split or draw."""
    found = {}
    for rows in RING_ROWS:
        name = f"ring, drawn, {rows}"
        say(name)
        found[name] = [scores(drawn_ring(rows, 10 + seed)) for seed in range(DRAWS[quick])]
    for name in KEEL:
        say(name)
        parts = [split(keel(name, C=1.0, gamma=1.0), ROWS, seed) for seed in range(SPLITS[quick])]
        few = [Split(p.train, p.X_test[:TEST_ROWS], p.y_test[:TEST_ROWS]) for p in parts]
        found[name] = [scores(part) for part in few]
    return found


def report_defaults(report: Report, found: dict[str, list[dict[str, Score]]]) -> None:
    """Add the tables and targets to the report of the gp benchmark."""
    for what in ("error", "loss", "seconds"):
        title = {"error": "Test error", "loss": "Log-loss", "seconds": "Seconds of tuning and fit"}
        table = report.table(f"{title[what]}, means over the splits", ["data", *CANDIDATES])
        for data, runs in found.items():
            table.add_row(data, *(f"{_mean(runs, name, what):.3f}" for name in CANDIDATES))
        sets = [found[name] for name in KEEL]
        means = [np.mean([_mean(runs, name, what) for runs in sets]) for name in CANDIDATES]
        table.add_row("ten keel sets", *(f"{mean:.3f}" for mean in means))
        report.results[f"defaults, {what}"] = {
            data: {name: _mean(runs, name, what) for name in CANDIDATES}
            for data, runs in found.items()
        }
    runs = [run[name] for each in found.values() for run in each for name in (TUNED, TUNED_TAP)]
    ours, theirs = (
        float(np.mean([_mean(found[data], name, "loss") for data in KEEL]))
        for name in (TUNED, LAPLACE)
    )
    report.targets += [
        Target(f"tuned is worse by its own criterion ({len(runs)} runs)",
               float(sum(run.worse for run in runs)), 0, False),
        Target("ten keel sets, tuned: log-loss, ours - scikit-learn", ours - theirs, 0.0, False),
    ]  # fmt: skip


def _mean(runs: list[dict[str, Score]], name: str, what: str) -> float:
    return float(np.mean([getattr(run[name], what) for run in runs]))
