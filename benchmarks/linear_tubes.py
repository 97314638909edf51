"""LinearSVR against LIBLINEAR: both losses, default settings, the same penalised intercept."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVR as Liblinear

from benchmarks.measure import Timings, rounds_of, timed
from benchmarks.report import Report
from widemargin import LinearSVR

LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive")
SIZES = ((600, 10), (5_000, 20), (100_000, 20))
EPSILON = 0.5  # half a standard deviation of the noise
CONSISTENT = 1e-9  # relative: an objective below our lower bound by more is a failure


def run(console: Console, report: Report, *, quick: bool, rounds: int) -> None:
    """Add the table of LinearSVR to the report of the linear benchmark."""
    table = report.table(
        f"Linear tube, C = 1, epsilon = {EPSILON}, defaults: best seconds (median)",
        ["data", "loss", "ours", "LIBLINEAR", "peer/ours", "our gap", "peer above our bound"],
    )
    for n, d in SIZES[:2] if quick else SIZES:
        X, y = _data(n, d)
        for loss in LOSSES:
            with console.status(f"LinearSVR {n} x {d}, {loss}"):
                fits, models = _fits(X, y, loss, rounds)
            certificate = models["ours"].certificate_
            above = _primal(models["LIBLINEAR"], X, y, loss) / certificate.dual - 1.0
            table.add_row(
                f"{n:,} x {d}", loss.split("_")[0],
                *(f"{fits.best(name):.4f} ({fits.median(name):.4f})" for name in models),
                f"{fits.ratio('LIBLINEAR', 'ours'):.2f}x", f"{certificate.relative_gap:.1e}",
                f"{above:.1e}",
            )  # fmt: skip
            report.results[f"tube {n} x {d}, {loss}"] = {
                "fit_seconds": fits.summary(), "gap": certificate.relative_gap, "peer": above,
            }  # fmt: skip
            if above < -CONSISTENT:
                report.failures.append(f"LinearSVR {n} x {d}, {loss}: a primal below our dual")


def _data(n: int, d: int) -> tuple[Any, Any]:
    """Return samples of a linear model with noise of standard deviation one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) + 1.0 + rng.normal(size=n)


def _fits(X: Any, y: Any, loss: str, rounds: int) -> tuple[Timings, dict[str, Any]]:
    """Fit both estimators in alternating rounds."""
    options = {"loss": loss, "epsilon": EPSILON, "intercept_scaling": 1.0, "random_state": 0}
    models = {"ours": LinearSVR(**options), "LIBLINEAR": Liblinear(**options)}
    LinearSVR(**options).fit(X[:500], y[:500])  # compiles
    fits = Timings()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # LIBLINEAR's 1,000 epochs may end
        for name in rounds_of(models, rounds):
            seconds, _ = timed(partial(models[name].fit, X, y))
            fits.add(name, seconds)
    return fits, models


def _primal(model: Any, X: Any, y: Any, loss: str) -> float:
    """Return the primal objective with a penalised intercept."""
    excess = np.maximum(0.0, np.abs(y - model.predict(X)) - EPSILON)
    lost = float((excess if loss == LOSSES[0] else excess**2).sum())
    b = float(model.intercept_[0])
    return 0.5 * float(model.coef_ @ model.coef_) + 0.5 * b * b + lost
