"""Time and memory of Gaussian processes by number of samples: ``python -m benchmarks.gp_sizes``.

Each fit runs in a process of its own with one BLAS thread, on generated samples of ten features.
Exact models predict 1,000 new samples twice: the first call includes what is computed on demand.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss

from benchmarks.gp_peers import LOGISTIC_TO_PROBIT
from benchmarks.measure import blas, timed
from benchmarks.memory import peak_in_child, peak_of
from benchmarks.report import Report, Target

SIZES = {False: (500, 2_000, 5_000), True: (200, 500)}
LARGE = {False: 100_000, True: 6_000}
TEST_ROWS = 1_000
LOSS_ROWS = 10_000  # new samples for the log-loss
COLUMNS = 10
GAMMA, INPUT_NOISE = 0.1, 0.3
NAIVE, TAP, EP, LOW, LAPLACE = "naive", "tap", "ep", "low-rank", "scikit-learn"
EXACT = (NAIVE, TAP, EP, LAPLACE)
FIGURES = ("fit", "first", "later", "fit_mb", "predict_mb", "loss")

FloatArray = npt.NDArray[np.float64]


def drawn(rows: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Draw samples: four of ten features matter, one pair by its product."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, COLUMNS))
    field = 2 * np.sin(1.5 * X[:, 0]) + 1.5 * X[:, 1] * X[:, 2] + X[:, 3]
    return X, np.where(field + 0.5 * rng.normal(size=rows) > 0, 1.0, -1.0)


def candidate(name: str) -> Any:
    """Return an unfitted model; all have the same kernel, constant mean and noise."""
    if name == LAPLACE:
        unit = LOGISTIC_TO_PROBIT**2 / INPUT_NOISE
        kernel = ConstantKernel(unit) * RBF(1 / np.sqrt(2 * GAMMA)) + ConstantKernel(unit)
        return GaussianProcessClassifier(kernel, optimizer=None)
    from widemargin import MeanFieldGPClassifier

    options = {"rank": "auto"} if name == LOW else {"inference": name}
    return MeanFieldGPClassifier(gamma=GAMMA, input_noise=INPUT_NOISE, **options)


def measure(name: str, rows: int) -> dict[str, float]:
    """Fit and predict once; return seconds, megabytes and the log-loss of new samples."""
    (X, y), (X_test, y_test) = drawn(rows, 0), drawn(LOSS_ROWS, 1)
    found: dict[str, float] = {}
    with blas().limit(limits=1):
        candidate(name).fit(X[:60], y[:60]).predict_proba(X_test[:5])  # compiles and imports
        model = candidate(name)

        def fit() -> None:
            found["fit"], _ = timed(lambda: model.fit(X, y))

        def predict() -> None:
            found["first"], _ = timed(lambda: model.predict_proba(X_test[:TEST_ROWS]))

        found["fit_mb"] = peak_of(fit)["fit_mb"]
        found["predict_mb"] = peak_of(predict)["fit_mb"]
        found["later"], _ = timed(lambda: model.predict_proba(X_test[:TEST_ROWS]))
        found["loss"] = float(log_loss(y_test, model.predict_proba(X_test), labels=[-1.0, 1.0]))
    found["error"] = float(getattr(model, "approximation_error_", 0.0))
    found["rank"] = float(getattr(model, "rank_", None) or 0)
    return found


def compare(quick: bool, say: Callable[[str], None]) -> dict[str, dict[str, float]]:
    """Measure all candidates at all sizes, each in a child process."""
    asked = [(name, rows) for rows in SIZES[quick] for name in EXACT] + [(LOW, LARGE[quick])]
    found = {}
    for name, rows in asked:
        say(f"{name}, {rows:,} samples")
        found[f"{name} {rows}"] = peak_in_child("benchmarks.gp_sizes", name, str(rows))
    return found


def report_sizes(report: Report, found: dict[str, dict[str, float]]) -> None:
    """Add the table and the targets to the report of the gp benchmark."""
    titles = ["fit, s", "first proba, s", "later, s", "fit, MB", "proba, MB", "log-loss"]
    table = report.table(
        f"One BLAS thread, {COLUMNS} features, predictions of {TEST_ROWS:,} samples, log-loss of "
        f"{LOSS_ROWS:,}",
        ["candidate, samples", *titles],
    )
    for name, figures in found.items():
        cells = [f"{figures[key]:.2f}" for key in FIGURES[:3]]
        cells += [f"{figures[key]:.0f}" for key in FIGURES[3:5]] + [f"{figures['loss']:.3f}"]
        table.add_row(name, *cells)
    report.results["sizes"] = found
    most = max(int(name.split()[1]) for name in found if name.startswith(LAPLACE))
    peer, low = found[f"{LAPLACE} {most}"], next(v for k, v in found.items() if LOW in k)
    for name in (NAIVE, TAP):
        ours = found[f"{name} {most}"]
        largest, other = (max(each["fit_mb"], each["predict_mb"], 1.0) for each in (ours, peer))
        report.targets += [
            Target(f"{name}, {most:,} samples: later predictions / scikit-learn's",
                   ours["later"] / peer["later"], 1.0, False, "x"),
            Target(f"{name}, {most:,} samples: memory of fit and predictions / scikit-learn's",
                   largest / other, 1.0, False, "x"),
        ]  # fmt: skip
    ep, tap = found[f"{EP} {most}"]["fit"], found[f"{TAP} {most}"]["fit"]
    report.targets += [
        Target("fit: EP / TAP", ep / tap, 1.1, False, "x"),
        Target("low-rank fit: seconds", low["fit"], 180, False),
        Target("low-rank fit: MB", low["fit_mb"], 2_500, False),
    ]


def main() -> None:
    """Print the figures of one candidate as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=(*EXACT, LOW))
    parser.add_argument("rows", type=int)
    asked = parser.parse_args()
    print(json.dumps(measure(asked.name, asked.rows)))


if __name__ == "__main__":
    main()
