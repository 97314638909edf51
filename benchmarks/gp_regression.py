"""Gaussian-process regression against scikit-learn's: the same posterior, time, tuning.

The first table has fixed hyperparameters: both solve the same problem, so posterior means, standard
deviations and log marginal likelihoods must agree. The second tunes length scale, amplitude and
noise by the evidence, and compares new targets. The third fits inducing points to many samples.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.console import Console
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from benchmarks.measure import Timings, rounds_of, timed
from benchmarks.report import Report, Target
from widemargin import GPRegressor, tune

SIZES = {False: (500, 2_000, 5_000), True: (300, 800)}
TUNED = {False: (300, 1_000), True: (200,)}
MANY = {False: 100_000, True: 5_000}
RANKS = {False: (200, 1_000), True: (100,)}
NEW = 1_000
FEATURES = 6
GAMMA, AMPLITUDE, NOISE = 0.1, 2.0, 0.05
AGREEMENT = 1e-8
OURS, PEER = "widemargin", "scikit-learn"


@dataclass
class Sample:
    """Generated data: training samples and new ones."""

    X: Any
    y: Any
    X_new: Any
    y_new: Any


@dataclass
class Comparison:
    """Times and largest differences at one size."""

    n: int
    times: Timings = field(default_factory=Timings)
    apart: dict[str, float] = field(default_factory=dict)


def sample(n: int, features: int = FEATURES, seed: int = 0) -> Sample:
    """Draw a smooth function of a few features with noise of standard deviation 0.2."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + NEW, features))
    y = 3.0 + np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=n + NEW)
    return Sample(X[:n], y[:n], X[n:], y[n:])


def ours() -> GPRegressor:
    """Return our estimator with fixed hyperparameters."""
    return GPRegressor(amplitude=AMPLITUDE, noise=NOISE, gamma=GAMMA, mean_variance=0.0, rank=None)


def peer() -> GaussianProcessRegressor:
    """Return scikit-learn's estimator of the same prior."""
    kernel = ConstantKernel(AMPLITUDE) * RBF(np.sqrt(0.5 / GAMMA))
    return GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None)


def run(console: Console, *, quick: bool, rounds: int) -> Report:
    """Run the comparison."""
    report = Report("gp_regression", quick)
    compared = []
    few = sample(100)
    ours().fit(few.X, few.y)  # compiles
    for n in SIZES[quick]:
        console.print(f"{n:,} samples, fixed hyperparameters")
        compared.append(compare(n, rounds))
    _fixed_table(report, compared)
    _tuned_table(report, [tuned(n) for n in TUNED[quick]])
    console.print(f"{MANY[quick]:,} samples, inducing points")
    _many_table(report, MANY[quick], RANKS[quick])
    return report


def compare(n: int, rounds: int) -> Comparison:
    """Time both estimators on the same data and compare their posteriors."""
    data, found = sample(n), Comparison(n)
    models: dict[str, Any] = {}
    for name in rounds_of((OURS, PEER), rounds):
        model = ours() if name == OURS else peer()
        fit, _ = timed(lambda m=model: m.fit(data.X, data.y))
        predict, posterior = timed(lambda m=model: m.predict(data.X_new, return_std=True))
        found.times.add(name, fit)
        found.times.add(f"{name}, std", predict)
        models[name] = model, posterior
        if name == OURS:
            found.times.add("leave-one-out", timed(model.loo_error)[0])
            auto = GPRegressor(gamma=GAMMA)
            found.times.add("auto", timed(lambda m=auto: m.fit(data.X, data.y))[0])
    (mine, (mean, std)), (theirs, (their_mean, their_std)) = models[OURS], models[PEER]
    evidence = theirs.log_marginal_likelihood_value_
    found.apart = {
        "mean": float(abs(mean - their_mean).max()),
        "std": float(abs(std - their_std).max()),
        "evidence": abs(mine.log_evidence_ - evidence) / abs(evidence),
    }
    return found


def tuned(n: int) -> dict[str, Any]:
    """Tune length scale, amplitude and noise by the evidence, with both."""
    data, found = sample(n), {"n": n}
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(2.0) + WhiteKernel(0.1, (1e-6, 1e2))
    candidates = {
        OURS: lambda: tune(GPRegressor(), data.X, data.y, criterion="evidence"),
        PEER: lambda: GaussianProcessRegressor(kernel, alpha=0.0, normalize_y=True).fit(
            data.X, data.y
        ),
    }
    for name, fit in candidates.items():
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=ConvergenceWarning)
            seconds, model = timed(fit)
        mean, std = model.predict(data.X_new, return_std=True)
        if name == OURS:  # scikit-learn's WhiteKernel is in its standard deviation
            std = np.sqrt(std**2 + model.noise_)
        density = float(norm(mean, std).logpdf(data.y_new).mean())
        error = float(np.sqrt(np.mean((mean - data.y_new) ** 2)))
        found[name] = {"seconds": seconds, "log_density": density, "rmse": error}
    return found


def _fixed_table(report: Report, compared: list[Comparison]) -> None:
    table = report.table(
        "Fixed hyperparameters, best seconds; leave-one-out is that of all samples",
        ["samples", "fit", "/ sklearn", "std of new", "/ sklearn", "leave-one-out", "auto",
         "apart"],
    )  # fmt: skip
    for each in compared:
        times, worst = each.times, max(each.apart.values())
        std = times.ratio(f"{PEER}, std", f"{OURS}, std")
        table.add_row(
            f"{each.n:,}",
            f"{times.best(OURS):.3f}",
            f"{times.ratio(PEER, OURS):.1f}x",
            f"{times.best(f'{OURS}, std'):.3f}",
            f"{std:.1f}x",
            f"{times.best('leave-one-out'):.3f}",
            f"{times.best('auto'):.3f}",
            f"{worst:.0e}",
        )
        report.results[f"fixed {each.n}"] = {"times": times.summary(), "apart": each.apart}
        report.targets.append(
            Target(f"{each.n:,}: fit, sklearn / ours", times.ratio(PEER, OURS), 1.0, True, "x")
        )
        if not worst <= AGREEMENT:
            report.failures.append(f"{each.n} samples: posteriors differ by {worst:.1e}")


def _tuned_table(report: Report, found: list[dict[str, Any]]) -> None:
    table = report.table(
        f"Tuned by the evidence; {NEW:,} new targets",
        ["samples", "candidate", "seconds", "log density", "rmse"],
    )
    for each in found:
        for name in (OURS, PEER):
            one = each[name]
            table.add_row(
                f"{each['n']:,}" if name == OURS else "",
                name,
                f"{one['seconds']:.2f}",
                f"{one['log_density']:.4f}",
                f"{one['rmse']:.4f}",
            )
        report.results[f"tuned {each['n']}"] = each
        gain = each[OURS]["log_density"] - each[PEER]["log_density"]
        report.targets.append(Target(f"{each['n']:,}: log density gained", gain, -0.01, True))


def _many_table(report: Report, n: int, ranks: tuple[int, ...]) -> None:
    data = sample(n, features=10)
    table = report.table(
        f"{n:,} x 10, inducing points", ["rank", "fit", "rank error", "rmse", "log density"]
    )
    few = slice(0, min(n, 5_000))
    candidates: dict[str, Any] = {f"exact, {few.stop:,} samples": (None, few)}
    candidates |= {str(rank): (rank, slice(0, n)) for rank in ranks}
    for name, (rank, part) in candidates.items():
        model = GPRegressor(rank=rank)
        seconds, _ = timed(lambda m=model, p=part: m.fit(data.X[p], data.y[p]))
        mean, std = model.predict(data.X_new, return_std=True)
        density = norm(mean, np.sqrt(std**2 + model.noise_)).logpdf(data.y_new).mean()
        error = float(np.sqrt(np.mean((mean - data.y_new) ** 2)))
        table.add_row(
            name, f"{seconds:.2f}", f"{model.rank_error_:.1e}", f"{error:.4f}", f"{density:.4f}"
        )
        report.results[f"many {name}"] = {
            "seconds": seconds, "rank_error": model.rank_error_, "rmse": error,
            "log_density": float(density),
        }  # fmt: skip
