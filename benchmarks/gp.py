"""Mean-field Gaussian process classifiers against scikit-learn's Laplace approximation.

First all candidates have the same prior. Times are measured on one split with 2,000 training
samples, losses are means over several splits. Candidates run with one BLAS thread and with one per
core; the faster of the two counts. Then follow default and tuned models (`gp_defaults`) and time
and memory by size (`gp_sizes`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from benchmarks.gp_defaults import compare as compare_defaults
from benchmarks.gp_defaults import report_defaults
from benchmarks.gp_peers import (
    EP,
    GPYTORCH,
    LAPLACE,
    NAIVE,
    RAW,
    SCALED,
    SETTINGS,
    TAP,
    Setting,
    factories,
    has_gpytorch,
    ours,
)
from benchmarks.gp_sizes import compare as compare_sizes
from benchmarks.gp_sizes import report_sizes
from benchmarks.gp_wisconsin import report_study, study
from benchmarks.measure import Timings, blas, geometric_mean, rounds_of, timed, usable_cores
from benchmarks.proba import Split
from benchmarks.report import Report, Target

# Sizes by `quick`: training and test samples, splits, and the grid of hyperparameters.
ROWS = {False: 2_000, True: 500}
TEST_ROWS = {False: 3_000, True: 1_000}
SPLITS = {False: 5, True: 2}
GRID_ROWS = {False: 1_000, True: 200}
GRID_POINTS = {False: 9, True: 5}  # values of gamma and of input_noise, from 1e-3 to 10
FEW_ROWS = 500  # samples for EP and GPyTorch, which take minutes for 2,000
TIMED = (NAIVE, TAP, LAPLACE)
JUDGED = (NAIVE, RAW, TAP, LAPLACE, SCALED)
SAME = 1e-6  # a larger difference between the probabilities of TAP and EP is a failure

FloatArray = npt.NDArray[np.float64]


@dataclass
class Comparison:
    """Measurements on one data set.

    `fit` has the seconds of fits, `whole` those of fits with `predict_proba`. `readings` has, per
    split, the variance that the naive theory chose. `expectation` compares EP with TAP: the seconds
    of both, and the largest difference of their probabilities ("apart").
    """

    setting: Setting
    rows: int
    test_rows: int
    fit: Timings = field(default_factory=Timings)
    whole: Timings = field(default_factory=Timings)
    losses: dict[str, list[float]] = field(default_factory=dict)
    errors: dict[str, list[float]] = field(default_factory=dict)
    readings: list[str] = field(default_factory=list)
    expectation: dict[str, float] = field(default_factory=dict)

    def faster(self, peer: str = LAPLACE) -> tuple[float, float]:
        """Return a peer's time divided by that of naive: for fit, and for fit + predict_proba."""
        return self.fit.ratio(peer, NAIVE), self.whole.ratio(peer, NAIVE)

    def loss(self, name: str) -> float:
        """Return the mean log-loss of a candidate over the splits."""
        return float(np.mean(self.losses[name]))

    def excess(self, name: str = NAIVE, peer: str = LAPLACE) -> float:
        """Return the mean log-loss of a candidate minus that of a peer."""
        return self.loss(name) - self.loss(peer)


def run(console: Console, *, quick: bool, rounds: int) -> Report:
    """Run the gp benchmark and return its report."""
    report = Report("gp", quick)
    with console.status("warming up") as status:
        comparisons = []
        for setting in SETTINGS:
            comparison = Comparison(setting, ROWS[quick], TEST_ROWS[quick])
            _judge(comparison, SPLITS[quick], status.update)
            _compare_ep(comparison, status.update)
            _time(comparison, rounds, status.update)
            comparisons.append(comparison)
        grids = {s.name: _grid(s, quick, status.update) for s in SETTINGS}
        few = _gpytorch(status.update)
        found = study(quick, status.update)
        defaults = compare_defaults(quick, status.update)
        sizes = compare_sizes(quick, status.update)
    _collect(report, comparisons)
    _report_grids(report, grids)
    _report_gpytorch(report, few)
    report_study(report, found)
    report_defaults(report, defaults)
    report_sizes(report, sizes)
    return report


def _drawn(comparison: Comparison, seed: int) -> Split:
    """Return a split with at most `test_rows` test samples."""
    part = comparison.setting.split(comparison.rows, seed)
    chosen = np.random.default_rng(seed).permutation(len(part.y_test))[: comparison.test_rows]
    return Split(part.train, part.X_test[chosen], part.y_test[chosen])


def _judge(comparison: Comparison, splits: int, say: Callable[[str], None]) -> None:
    """Record test losses and errors of all candidates on every split."""
    makers = factories(comparison.setting)
    for seed in range(splits):
        part = _drawn(comparison, seed)
        for name in JUDGED:
            say(f"{comparison.setting.name}, split {seed}: losses of {name}")
            model = makers[name]().fit(part.train.X, part.train.y)
            P = model.predict_proba(part.X_test)
            loss = float(log_loss(part.y_test, P, labels=[-1.0, 1.0]))
            comparison.losses.setdefault(name, []).append(loss)
            wrong = float(np.mean((P[:, 1] > 0.5) != (part.y_test > 0)))
            comparison.errors.setdefault(name, []).append(wrong)
            if name == NAIVE:
                comparison.readings.append(model.readings_[0].variance)


def _compare_ep(comparison: Comparison, say: Callable[[str], None]) -> None:
    """Record the largest difference of EP and TAP probabilities on few samples, and both times."""
    say(f"{comparison.setting.name}: TAP and EP")
    part = comparison.setting.split(min(FEW_ROWS, comparison.rows), 0)
    found = {}
    for name in (TAP, EP):
        model = factories(comparison.setting)[name]()
        comparison.expectation[name], _ = timed(lambda m=model, t=part.train: m.fit(t.X, t.y))
        found[name] = model.predict_proba(part.X_test)
    comparison.expectation["apart"] = float(np.abs(found[TAP] - found[EP]).max())


def _time(comparison: Comparison, rounds: int, say: Callable[[str], None]) -> None:
    """Time fit, and fit + predict_proba of as many new samples."""
    part = _drawn(comparison, 0)
    makers = factories(comparison.setting)
    X_test = part.X_test[: comparison.rows]
    for name in rounds_of(TIMED, rounds):
        say(f"{comparison.setting.name}: {name}")
        for threads in sorted({1, usable_cores()}):
            model = makers[name]()
            with blas().limit(limits=threads):
                fitting, _ = timed(lambda m=model, t=part.train: m.fit(t.X, t.y))
                predicting, _ = timed(lambda m=model: m.predict_proba(X_test))
            comparison.fit.add(name, fitting)
            comparison.whole.add(name, fitting + predicting)


def _grid(setting: Setting, quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Fit on a grid of gamma and input_noise; return most Newton steps and largest residual."""
    part = setting.split(GRID_ROWS[quick], 0)
    values = np.logspace(-3, 1, GRID_POINTS[quick])
    found: dict[str, Any] = {"rows": len(part.train.y), "settings": len(values) ** 2}
    for solver in ("newton", "auto"):
        steps, residuals = [], []
        for gamma in values:
            for noise in values:
                say(f"{setting.name}: {solver} at gamma {gamma:.2g}, input_noise {noise:.2g}")
                model = ours(Setting(setting.name, float(gamma), float(noise)), solver=solver)
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", category=ConvergenceWarning)
                    model.fit(part.train.X, part.train.y)
                steps.append(model.n_iter_)
                residuals.append(model.residual_)
        found[solver] = {"steps": max(steps), "residual": max(residuals)}
    return found


def _gpytorch(say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Compare once with GPyTorch on few samples; return an empty list if it is not installed."""
    found = []
    for setting in SETTINGS if has_gpytorch() else ():
        part = setting.split(FEW_ROWS, 0)
        X_test, y_test = part.X_test[:FEW_ROWS], part.y_test[:FEW_ROWS]
        for name in (NAIVE, TAP, GPYTORCH):
            say(f"{setting.name} {FEW_ROWS}: {name}")
            model = factories(setting)[name]()
            seconds, _ = timed(lambda m=model, t=part.train: m.fit(t.X, t.y))
            loss = float(log_loss(y_test, model.predict_proba(X_test), labels=[-1.0, 1.0]))
            found.append({"data": setting.name, "candidate": name, "fit": seconds, "loss": loss})
    return found


# -- report ------------------------------------------------------------------------------------


def _collect(report: Report, comparisons: list[Comparison]) -> None:
    _time_table(report, comparisons)
    _loss_table(report, comparisons)
    for comparison in comparisons:
        report.results[comparison.setting.name] = _as_json(comparison)
        if not comparison.expectation["apart"] <= SAME:
            report.failures.append(
                f"{comparison.setting.name}: probabilities of TAP and EP differ by "
                f"{comparison.expectation['apart']:.1e}"
            )
    ratios = [comparison.faster() for comparison in comparisons]
    fits, wholes = [fit for fit, _ in ratios], [whole for _, whole in ratios]
    report.targets = [
        Target("fit: Laplace / naive (least)", min(fits), 8, True, "x"),
        Target("fit: Laplace / naive (least, ambition)", min(fits), 15, True, "x"),
        Target("fit: Laplace / naive (geometric mean)", geometric_mean(fits), 15, True, "x"),
        Target("fit + predict_proba: Laplace / naive (least)", min(wholes), 4, True, "x"),
        *(
            Target(f"{c.setting.name}: log-loss, naive - Laplace", c.excess(), 0.003, False)
            for c in comparisons
        ),
    ]


def _time_table(report: Report, comparisons: list[Comparison]) -> None:
    first = comparisons[0]
    table = report.table(
        f"{first.rows:,} rows: best seconds of fit, and of fit + predict_proba of as many new rows "
        "(Laplace: scikit-learn's GaussianProcessClassifier)",
        ["data", "candidate", "fit", "/ naive", "fit + proba", "/ naive"],
    )
    for comparison in comparisons:
        for name in TIMED:
            fit, whole = comparison.faster(name)
            table.add_row(
                comparison.setting.name if name == NAIVE else "",
                name,
                f"{comparison.fit.best(name):.3f}",
                "" if name == NAIVE else f"{fit:.1f}x",
                f"{comparison.whole.best(name):.3f}",
                "" if name == NAIVE else f"{whole:.1f}x",
            )
        table.add_section()


def _loss_table(report: Report, comparisons: list[Comparison]) -> None:
    splits = len(comparisons[0].losses[NAIVE])
    table = report.table(
        f"Log-loss (error) of new rows, means over {splits} splits; "
        "naive and scaled Laplace have one scalar from leave-one-out, the others none; "
        f"prior: splits where naive reads that variance; EP: on {FEW_ROWS} rows",
        ["data", *JUDGED, "naive - Laplace", "naive - scaled", "prior", "TAP - EP", "EP / TAP"],
    )
    for each in comparisons:
        table.add_row(
            each.setting.name,
            *(f"{each.loss(name):.4f} ({np.mean(each.errors[name]):.3f})" for name in JUDGED),
            f"{each.excess():+.4f}",
            f"{each.excess(peer=SCALED):+.4f}",
            f"{each.readings.count('prior')}/{splits}",
            f"{each.expectation['apart']:.0e}",
            f"{each.expectation[EP] / each.expectation[TAP]:.1f}x",
        )


def _report_grids(report: Report, grids: dict[str, dict[str, Any]]) -> None:
    first = next(iter(grids.values()))
    table = report.table(
        f"{first['settings']} settings of gamma and input_noise from 1e-3 to 10: "
        "most Newton steps, largest residual",
        ["data", "rows", "newton", "residual", "auto", "residual"],
    )
    for name, found in grids.items():
        cells = [
            (str(found[s]["steps"]), f"{found[s]['residual']:.0e}") for s in ("newton", "auto")
        ]
        table.add_row(name, str(found["rows"]), *cells[0], *cells[1])
    report.results["grids"] = grids
    both = [found[solver] for found in grids.values() for solver in ("newton", "auto")]
    report.targets += [
        Target("Newton steps (most)", max(found["steps"] for found in both), 10, False),
        Target("residual (largest)", max(found["residual"] for found in both), 1e-10, False),
    ]


def _report_gpytorch(report: Report, found: list[dict[str, Any]]) -> None:
    report.results["gpytorch"] = found or "not installed: skipped"
    title = f"GPyTorch on {FEW_ROWS} rows, one run" if found else "GPyTorch: not installed, skipped"
    table = report.table(title, ["data", "candidate", "fit, seconds", "log-loss"])
    for each in found:
        is_first = each["candidate"] == NAIVE
        name = each["data"] if is_first else ""
        table.add_row(name, each["candidate"], f"{each['fit']:.3f}", f"{each['loss']:.4f}")


def _as_json(comparison: Comparison) -> dict[str, Any]:
    fit, whole = comparison.faster()
    return {
        "rows": comparison.rows,
        "gamma": comparison.setting.gamma,
        "input_noise": comparison.setting.input_noise,
        "fit_seconds": comparison.fit.summary(),
        "fit_and_proba_seconds": comparison.whole.summary(),
        "laplace_over_naive": {"fit": fit, "fit_and_proba": whole},
        "losses": comparison.losses,
        "errors": comparison.errors,
        "readings": comparison.readings,
        "ep": comparison.expectation,
    }
