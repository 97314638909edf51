"""Class probabilities against scikit-learn: log-loss, Brier score, time, agreement with predict.

All candidates have their defaults (C = 1, gamma="scale") and the same splits. scikit-learn
calibrates by five-fold cross-validation, ours by exact leave-one-out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.data import SEED, DataSet, keel
from benchmarks.measure import Timings, geometric_mean, rounds_of, timed
from benchmarks.objectives import dual_objective, relative_difference
from benchmarks.peers import OURS
from benchmarks.report import Report, Target

CALIBRATED = "CalibratedClassifierCV(SVC)"
PLATT = "SVC(probability=True)"

TRAIN_ROWS = {
    "heart": 170,
    "wisconsin": 400,
    "banana": 400,
    "pima": 400,
    "sonar": 150,
    "ring": 400,
}
SPLITS, QUICK_SPLITS = 5, 2
SAME_OBJECTIVE = 1e-5  # a larger relative difference of dual objectives is a failure
LOSSES = ("log-loss", "Brier")

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Split:
    """Training set and test set, standardised by the training set."""

    train: DataSet
    X_test: FloatArray
    y_test: FloatArray


@dataclass
class Comparison:
    """Measurements on one data set; the methods return means over its splits."""

    name: str
    splits: list[Split]
    candidates: tuple[str, ...]
    times: list[Timings] = field(default_factory=list)
    losses: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    disagreeing: dict[str, int] = field(default_factory=dict)
    objectives: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.times = [Timings() for _ in self.splits]

    def best(self, candidate: str) -> float:
        """Return the best seconds of a candidate, averaged over the splits."""
        return float(np.mean([times.best(candidate) for times in self.times]))

    def median(self, candidate: str) -> float:
        """Return the median seconds of a candidate, averaged over the splits."""
        return float(np.mean([times.median(candidate) for times in self.times]))

    def ratio(self, peer: str) -> float:
        """Return our time divided by a peer's."""
        return self.best(OURS) / self.best(peer)

    def mean(self, candidate: str, loss: str) -> float:
        """Return a candidate's mean loss over the splits."""
        return float(np.mean([found[loss] for found in self.losses[candidate]]))

    def difference(self, loss: str, peer: str = CALIBRATED) -> float:
        """Return our mean loss minus a peer's."""
        return self.mean(OURS, loss) - self.mean(peer, loss)


def ours() -> Any:
    """Return widemargin's SVC with its defaults."""
    from widemargin import SVC as WidemarginSVC

    return WidemarginSVC()


def calibrated() -> Any:
    """Return scikit-learn's SVC calibrated by five-fold cross-validation, refitted to all data."""
    return CalibratedClassifierCV(SVC(), ensemble=False, cv=5)


def platt() -> Any:
    """Return scikit-learn's SVC with LIBSVM's own calibration, which scikit-learn deprecates."""
    return SVC(probability=True, random_state=SEED)


def factories() -> dict[str, Callable[[], Any]]:
    """Return functions that create the candidates available in the installed scikit-learn."""
    found = {OURS: ours, CALIBRATED: calibrated}
    if "probability" in SVC().get_params():
        found[PLATT] = platt
    return found


def machine_of(model: Any) -> Any:
    """Return the SVC inside a fitted candidate."""
    if isinstance(model, CalibratedClassifierCV):
        return model.calibrated_classifiers_[0].estimator
    return model


def losses_of(P: FloatArray, y: FloatArray) -> dict[str, float]:
    """Return log-loss and Brier score of predicted probabilities, for labels -1 and +1."""
    brier = float(np.mean((P[:, 1] - (y > 0)) ** 2))
    return {"log-loss": float(log_loss(y, P, labels=[-1.0, 1.0])), "Brier": brier}


def split(data: DataSet, rows: int, seed: int) -> Split:
    """Draw a stratified split, standardised by its training set."""
    X, X_test, y, y_test = train_test_split(
        data.X, data.y, train_size=rows, stratify=data.y, random_state=seed
    )
    scaler = StandardScaler().fit(X)
    X = scaler.transform(X)
    gamma = 1.0 / (X.shape[1] * X.var())  # equals gamma="scale"
    train = DataSet(data.name, X, y, C=1.0, gamma=gamma)
    return Split(train, scaler.transform(X_test), y_test)


def run(console: Console, *, quick: bool, rounds: int) -> Report:
    """Run the proba benchmark and return its report."""
    report = Report("proba", quick)
    comparisons = []
    with console.status("warming up") as status, warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning)  # probability=True
        candidates = tuple(factories())
        for name, rows in TRAIN_ROWS.items():
            data = keel(name, C=1.0, gamma=1.0)
            seeds = range(QUICK_SPLITS if quick else SPLITS)
            splits = [split(data, rows, seed) for seed in seeds]
            comparison = Comparison(name, splits, candidates)
            for candidate in candidates:  # not timed; also the warm-up
                status.update(f"{name}: losses of {candidate}")
                _judge(comparison, candidate)
            for candidate in rounds_of(candidates, rounds):
                status.update(f"{name}: {candidate}")
                _one_round(comparison, candidate)
            comparisons.append(comparison)
    _collect(report, comparisons)
    return report


def _one_round(comparison: Comparison, candidate: str) -> None:
    """Time fit and the first predict_proba of the test samples, on every split."""
    for part, times in zip(comparison.splits, comparison.times, strict=True):
        model, train = factories()[candidate](), part.train
        seconds, _ = timed(lambda m=model, t=train, X=part.X_test: m.fit(t.X, t.y).predict_proba(X))
        times.add(candidate, seconds)


def _judge(comparison: Comparison, candidate: str) -> None:
    """Record losses, the SVC's objective, and samples whose most probable class is not predicted.

    CalibratedClassifierCV predicts the most probable class by definition. The predictions are
    therefore those of the SVC inside it, which its probabilities are meant to describe.
    """
    comparison.disagreeing[candidate] = 0
    for part in comparison.splits:
        model = factories()[candidate]().fit(part.train.X, part.train.y)
        machine = machine_of(model)
        P = model.predict_proba(part.X_test)
        likeliest = model.classes_[P.argmax(axis=1)]
        apart = np.count_nonzero(likeliest != machine.predict(part.X_test))
        comparison.disagreeing[candidate] += int(apart)
        comparison.losses.setdefault(candidate, []).append(losses_of(P, part.y_test))
        objective = dual_objective(machine, part.train).objective
        comparison.objectives.setdefault(candidate, []).append(objective)


def _collect(report: Report, comparisons: list[Comparison]) -> None:
    _table(report, comparisons)
    for comparison in comparisons:
        report.results[comparison.name] = _as_json(comparison)
        report.failures += _disagreements(comparison)
    means: dict[str, dict[str, float]] = {}
    for peer in comparisons[0].candidates[1:]:
        means[peer] = {
            f"{loss} difference": float(np.mean([c.difference(loss, peer) for c in comparisons]))
            for loss in LOSSES
        }
        ratios = [c.ratio(peer) for c in comparisons]
        means[peer]["time ratio"] = geometric_mean(ratios)
        means[peer]["worst time ratio"] = max(ratios)
    report.results["means"] = means
    _means_table(report, means)
    against = means[CALIBRATED]
    report.targets = [
        Target("log-loss, ours - calibrated (mean)", against["log-loss difference"], 0.005, False),
        Target("time, ours / calibrated (geometric mean)", against["time ratio"], 0.1, False),
        Target("time, ours / calibrated (worst)", against["worst time ratio"], 0.1, False),
    ]


def _disagreements(comparison: Comparison) -> list[str]:
    found = []
    if comparison.disagreeing[OURS]:
        found.append(
            f"{comparison.name}: our likeliest class is not the predicted one in "
            f"{comparison.disagreeing[OURS]} rows"
        )
    for candidate, objectives in comparison.objectives.items():
        for objective, reference in zip(objectives, comparison.objectives[CALIBRATED], strict=True):
            difference = relative_difference(objective, reference)
            if not abs(difference) <= SAME_OBJECTIVE:
                found.append(
                    f"{comparison.name}: dual objective of {candidate} differs from "
                    f"{CALIBRATED}'s by {difference:+.1e} relative"
                )
    return found


def _table(report: Report, comparisons: list[Comparison]) -> None:
    table = report.table(
        "Probabilities of the test rows, means over the splits; "
        "fit + predict_proba: best milliseconds (median)",
        ["data", "candidate", *LOSSES, "milliseconds", "ours/peer", "argmax is not predict"],
    )
    for comparison in comparisons:
        first = comparison.splits[0]
        label = f"{comparison.name} {len(first.train.y)} + {len(first.y_test):,}"
        tested = len(comparison.splits) * len(first.y_test)
        for candidate in comparison.candidates:
            is_ours = candidate == OURS
            best, middle = comparison.best(candidate), comparison.median(candidate)
            table.add_row(
                label if is_ours else "",
                candidate,
                *(f"{comparison.mean(candidate, loss):.4f}" for loss in LOSSES),
                f"{1e3 * best:.1f} ({1e3 * middle:.1f})",
                "" if is_ours else f"{comparison.ratio(candidate):.3f}",
                f"{comparison.disagreeing[candidate]:,} of {tested:,}",
            )
        table.add_section()


def _means_table(report: Report, means: dict[str, dict[str, float]]) -> None:
    table = report.table(
        "Ours against each peer, over all data sets (negative: ours is better)",
        ["peer", *(f"{loss}, mean" for loss in LOSSES), "time, geometric mean", "time, worst"],
    )
    for peer, found in means.items():
        table.add_row(
            peer,
            *(f"{found[f'{loss} difference']:+.4f}" for loss in LOSSES),
            f"{found['time ratio']:.3f}",
            f"{found['worst time ratio']:.3f}",
        )


def _as_json(comparison: Comparison) -> dict[str, Any]:
    first = comparison.splits[0]
    return {
        "train_rows": len(first.train.y),
        "test_rows": len(first.y_test),
        "columns": first.train.shape[1],
        "splits": len(comparison.splits),
        "seconds": [times.summary() for times in comparison.times],
        "losses": comparison.losses,
        "argmax_is_not_predict": comparison.disagreeing,
        "differences": {
            peer: {loss: comparison.difference(loss, peer) for loss in LOSSES}
            for peer in comparison.candidates[1:]
        },
    }
