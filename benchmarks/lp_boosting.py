"""LPBoost beside scikit-learn's AdaBoostClassifier and beside HiGHS on the matrix of all stumps.

*Small problems.* HiGHS solves the linear program with a column for each stump. Objectives are to
agree within the stated gap; times include the matrix for HiGHS, which cannot do without it.

*Against AdaBoost.* Time and margins of scikit-learn's AdaBoostClassifier with 50 and with 100
trees of depth one. Its margins are computed from its votes, with coefficients that sum to 1.
LPBoost runs to a gap of `TOL`, or to the time limit; it solves a problem, where AdaBoost makes a
given number of rounds, so that its time depends on nu: the fewer errors are tolerated, the more
stumps the optimum needs. The data are breast cancer and two Gaussian clouds in 20 dimensions, which
stumps can tell apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import linprog
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import AdaBoostClassifier as TheirAdaBoost
from sklearn.tree import DecisionTreeClassifier

from benchmarks.data import DataSet, clusters
from benchmarks.measure import Timings, blas
from benchmarks.report import Report, Target

TOL = 1e-3
NUS = (0.1, 0.3)
AGREEMENT = 1e-7  # of HiGHS beyond the stated gap
SHOWN = np.linspace(0.0, 1.0, 21)
SMALL_ROWS, ROWS, QUICK_ROWS = 300, (500, 2_000, 20_000), (500,)
TIME_LIMIT = 60.0


def stump_matrix(X: Any) -> Any:
    """Return the values of all stumps on the samples, one column per stump."""
    found = [np.ones(len(X))]
    for column in X.T:
        found += [np.where(column > cut, 1.0, -1.0) for cut in np.unique(column)[:-1]]
    votes = np.column_stack(found)
    return np.hstack([votes, -votes])


def by_highs(X: Any, y: Any, nu: float) -> float:
    """Return the optimal objective over all stumps."""
    signed = y[:, None] * stump_matrix(X)
    n, T = signed.shape
    found = linprog(
        np.concatenate([np.zeros(T), [-1.0], np.full(n, 1.0 / (nu * n))]),
        A_ub=np.hstack([-signed, np.ones((n, 1)), -np.eye(n)]),
        b_ub=np.zeros(n),
        A_eq=np.concatenate([np.ones(T), np.zeros(1 + n)])[None],
        b_eq=[1.0],
        bounds=[(0, None)] * T + [(-1, 1)] + [(0, None)] * n,
    )
    return float(found.fun)


def timed(action: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return the seconds by the clock and by the processor, and the result."""
    clock, processor = time.perf_counter(), time.process_time()
    result = action()
    return time.perf_counter() - clock, time.process_time() - processor, result


def margins_of_votes(model: Any, X: Any, y: Any) -> Any:
    """Return the margins of scikit-learn's AdaBoostClassifier for labels -1 and +1."""
    weights = np.asarray(model.estimator_weights_[: len(model.estimators_)])
    votes = np.array([each.predict(X) for each in model.estimators_])
    return y * (weights @ votes) / weights.sum()


def soft_margin(margins: Any, nu: float) -> float:
    """Return the soft margin at the best rho, a quantile of the margins."""
    rho = np.sort(margins)[min(len(margins) - 1, int(np.ceil(nu * len(margins))) - 1)]
    return float(rho - np.maximum(0.0, rho - margins).mean() / nu)


def report_lp_boosting(report: Report, rounds: int, say: Callable[[str], None]) -> None:
    """Run both comparisons and add their tables and targets to the report."""
    against_highs(report, rounds, say)
    for data in data_sets(report.quick):
        against_adaboost(report, data, rounds if len(data.y) < 5_000 else 1, say)


def data_sets(quick: bool) -> list[DataSet]:
    """Return breast cancer and clusters of several sizes."""
    X, y = load_breast_cancer(return_X_y=True)
    sets = [DataSet("breast cancer", X, np.where(y == 1, 1.0, -1.0), 1.0, 1.0)]
    for rows in QUICK_ROWS if quick else ROWS:
        random = np.random.default_rng(rows)
        y = random.choice([-1.0, 1.0], rows)
        X = random.standard_normal((rows, 20)) + 0.3 * y[:, None]
        sets.append(DataSet(f"two clouds {rows:,} x 20", X, y, 1.0, 1.0))
    return sets


def against_highs(report: Report, rounds: int, say: Callable[[str], None]) -> None:
    """Compare objectives and times with HiGHS on small problems."""
    from widemargin import LPBoostClassifier

    data = clusters("small", rows=SMALL_ROWS, columns=10, informative=5, redundant=2)
    table = report.table(
        f"LPBoost, {SMALL_ROWS} x 10: all stumps at once, and as needed",
        ["nu", "HiGHS s", "ours s", "HiGHS / ours", "objectives differ by", "stated gap"],
    )
    for nu in NUS:
        say(f"LPBoost and HiGHS, nu = {nu}")
        seconds, best = Timings(), np.nan
        for _ in range(rounds):
            clock, _, best = timed(lambda nu=nu: by_highs(data.X, data.y, nu))
            seconds.add("HiGHS", clock)
            clock, _, model = timed(lambda nu=nu: LPBoostClassifier(nu=nu).fit(data.X, data.y))
            seconds.add("ours", clock)
        proof, ratio = model.certificate_, seconds.ratio("HiGHS", "ours")
        if not proof.dual - AGREEMENT <= best <= proof.primal + AGREEMENT:
            report.failures.append(f"LPBoost nu={nu}: HiGHS finds {best:.9g}, we {proof}")
        table.add_row(
            f"{nu}", f"{seconds.best('HiGHS'):.3f}", f"{seconds.best('ours'):.3f}",
            f"{ratio:.1f}x", f"{abs(best - proof.primal):.1e}", f"{proof.gap:.1e}",
        )  # fmt: skip
        report.results[f"LPBoost against HiGHS, nu={nu}"] = seconds.summary()
        report.targets.append(Target(f"LPBoost nu={nu}: HiGHS / ours", ratio, 10, True, "x"))


def against_adaboost(
    report: Report, data: DataSet, rounds: int, say: Callable[[str], None]
) -> None:
    """Compare time and margins with scikit-learn's AdaBoostClassifier on one data set."""
    from widemargin import LPBoostClassifier

    stump = DecisionTreeClassifier(max_depth=1)
    fits: dict[str, Any] = {
        f"scikit-learn, {T} rounds": TheirAdaBoost(stump, n_estimators=T, random_state=0)
        for T in (50, 100)
    }
    fits |= {
        f"LPBoost, nu = {nu}": LPBoostClassifier(nu=nu, tol=TOL, time_limit=TIME_LIMIT)
        for nu in NUS
    }
    processor, clocks, margins = Timings(), Timings(), {}
    for name, model in [*fits.items()] * rounds:
        say(f"{data.name}: {name}")
        with blas().limit(limits=1):
            clock, used, _ = timed(lambda model=model: model.fit(data.X, data.y))
        processor.add(name, used)
        clocks.add(name, clock)
    table = report.table(
        f"{data.name}: margins of LPBoost (gap {TOL:g}) and AdaBoost, times on one thread",
        ["candidate", "seconds", "processor", *(f"soft margin {nu}" for nu in NUS),
         "5 %", "median", "stumps", "gap"],
    )  # fmt: skip
    for name, model in fits.items():
        ours = hasattr(model, "margins_")
        margins[name] = model.margins_ if ours else margins_of_votes(model, data.X, data.y)
        table.add_row(
            name, f"{clocks.best(name):.3f}", f"{processor.best(name):.3f}",
            *(f"{soft_margin(margins[name], nu):.4f}" for nu in NUS),
            *(f"{np.quantile(margins[name], q):.3f}" for q in (0.05, 0.5)),
            str(len(model.alphas_ if ours else model.estimators_)),
            f"{model.certificate_.gap:.0e}" if ours else "",
        )  # fmt: skip
    report.results[f"LPBoost, {data.name}"] = {
        "seconds": clocks.summary(),
        "processor_seconds": processor.summary(),
        "quantiles": {k: np.quantile(m, SHOWN).tolist() for k, m in margins.items()},
    }
    name = f"LPBoost, nu = {NUS[-1]}"
    ratio = processor.ratio("scikit-learn, 100 rounds", name)
    report.targets.append(Target(f"{data.name}: scikit-learn / {name}", ratio, 1, True, "x"))
