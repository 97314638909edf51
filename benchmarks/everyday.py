"""Everyday fits: 50 to 5,000 samples, 2 and 10 classes, beside scikit-learn.

Both libraries fit ``SVC`` with the rbf kernel, C = 1 and the same gamma on the same generated data.
Fits of small data take milliseconds, so a round repeats them until `LEAST_SECONDS` have passed.
Objectives are compared pair of classes by pair of classes, recomputed from ``dual_coef_``. A second
table compares ``OneClassSVM`` on the samples of the two classes, with small and large nu.
"""

from __future__ import annotations

from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler

from benchmarks.data import FloatArray
from benchmarks.measure import Timings, rounds_of, timed
from benchmarks.objectives import quadratic_form, relative_difference
from benchmarks.peers import OURS, SKLEARN
from benchmarks.report import Report, Target

SIZES = (50, 200, 600, 1_500, 5_000)
CLASSES = (2, 10)
NUS = (0.02, 0.1, 0.5)
FEATURES = 10
GAMMA = 1.0 / FEATURES
LEAST_SECONDS = 0.2  # of one round: single fits of 50 samples are too short for the clock
SAME_OBJECTIVE = 1e-3
"""Largest relative difference of the dual objectives of a pair: the KKT tolerance of both."""


def blobs(n: int, n_classes: int) -> tuple[FloatArray, FloatArray]:
    """Generate standardised samples of overlapping classes, 5 % of the labels redrawn."""
    X, y = make_classification(
        n_samples=n, n_features=FEATURES, n_informative=6, n_redundant=2, n_classes=n_classes,
        n_clusters_per_class=1, flip_y=0.05, random_state=0,
    )  # fmt: skip
    return StandardScaler().fit_transform(X), y


def candidates() -> dict[str, Any]:
    """Return the estimator classes by the name of their library."""
    import sklearn.svm

    import widemargin

    return {OURS: widemargin.SVC, SKLEARN: sklearn.svm.SVC}


def run(console: Console, *, quick: bool, rounds: int) -> Report:
    """Run the whole benchmark."""
    report = Report("everyday", quick)
    table = report.table(
        "Fit and prediction of one sample: our time divided by scikit-learn's (best rounds)",
        ["samples", "classes", f"{OURS} fit", f"{SKLEARN} fit", "fit ratio", "one-sample ratio"],
    )
    fit_ratios = []
    with console.status("warming up") as status:
        for n_classes in CLASSES:
            for n in SIZES[:3] if quick else SIZES:
                status.update(f"{n} samples, {n_classes} classes")
                fits, answers = _compare(report, n, n_classes, rounds)
                ratio = fits.ratio(OURS, SKLEARN)
                fit_ratios.append(ratio)
                table.add_row(
                    f"{n:,}", str(n_classes),
                    f"{1e3 * fits.best(OURS):.2f} ms", f"{1e3 * fits.best(SKLEARN):.2f} ms",
                    f"{ratio:.2f}", f"{answers.ratio(OURS, SKLEARN):.2f}",
                )  # fmt: skip
    one_class_ratios = _one_class(report, console, quick=quick, rounds=rounds)
    report.targets = [Target("fit, ours / scikit-learn, worst cell", max(fit_ratios), 1, False)]
    worst = max(one_class_ratios)
    report.targets.append(Target("fit of OneClassSVM, the same, worst cell", worst, 1, False))
    return report


def _one_class(report: Report, console: Console, *, quick: bool, rounds: int) -> list[float]:
    """Compare OneClassSVM; return our times divided by those of scikit-learn."""
    import sklearn.svm

    import widemargin

    kinds = {OURS: widemargin.OneClassSVM, SKLEARN: sklearn.svm.OneClassSVM}
    table = report.table(
        "Fit of OneClassSVM: our time divided by scikit-learn's (best rounds)",
        ["samples", "nu", f"{OURS} fit", f"{SKLEARN} fit", "fit ratio"],
    )
    ratios = []
    with console.status("OneClassSVM") as status:
        for n, nu in product(SIZES[:3] if quick else SIZES, NUS):
            status.update(f"OneClassSVM, {n} samples, nu = {nu}")
            X = blobs(n, 2)[0]
            fits = Timings()
            models = {name: kind(nu=nu, gamma=GAMMA).fit(X) for name, kind in kinds.items()}
            for name in rounds_of(models, rounds):
                model = models[name]
                fits.add(name, _seconds_per_call(lambda model=model, X=X: model.fit(X)))
            ours, theirs = (
                -0.5 * quadratic_form(X[model.support_], model.dual_coef_[0], GAMMA)
                for model in (models[OURS], models[SKLEARN])
            )
            label, difference = (
                f"OneClassSVM, {n} samples, nu = {nu}",
                abs(relative_difference(ours, theirs)),
            )
            report.results[label] = {"fit": fits.summary(), "objectives": [ours, theirs]}
            if difference > SAME_OBJECTIVE:
                report.failures.append(f"{label}: objectives differ by {difference:.1e}")
            ratios.append(fits.ratio(OURS, SKLEARN))
            table.add_row(
                f"{n:,}", str(nu), f"{1e3 * fits.best(OURS):.2f} ms",
                f"{1e3 * fits.best(SKLEARN):.2f} ms", f"{ratios[-1]:.2f}",
            )  # fmt: skip
    return ratios


def _compare(report: Report, n: int, n_classes: int, rounds: int) -> tuple[Timings, Timings]:
    """Time both libraries on one data set and compare their objectives."""
    X, y = blobs(n, n_classes)
    fits, answers, models = Timings(), Timings(), {}
    for name, SVC in candidates().items():
        models[name] = SVC(gamma=GAMMA).fit(X, y)  # compiles, loads
        models[name].predict(X[:1])
    for name in rounds_of(models, rounds):
        SVC, model = candidates()[name], models[name]
        fits.add(name, _seconds_per_call(lambda SVC=SVC: SVC(gamma=GAMMA).fit(X, y)))
        answers.add(name, _seconds_per_call(lambda model=model: model.predict(X[:1])))
    label = f"{n} samples, {n_classes} classes"
    report.results[label] = {"fit": fits.summary(), "predict one": answers.summary()}
    difference = max(
        abs(relative_difference(ours, theirs))
        for ours, theirs in zip(
            pair_objectives(models[OURS], X), pair_objectives(models[SKLEARN], X), strict=True
        )
    )
    report.results[label]["largest relative difference of objectives"] = difference
    if difference > SAME_OBJECTIVE:
        report.failures.append(f"{label}: objectives differ by {difference:.1e}")
    return fits, answers


def _seconds_per_call(action: Any) -> float:
    """Repeat an action for at least `LEAST_SECONDS`; return the mean time of a call."""
    calls = 1
    while True:
        seconds, _ = timed(lambda calls=calls: [action() for _ in range(calls)])
        if seconds >= LEAST_SECONDS:
            return seconds / calls
        calls = max(2 * calls, int(calls * LEAST_SECONDS / seconds))


def pair_objectives(model: Any, X: FloatArray) -> list[float]:
    """Return sum(alpha) - 1/2 beta' K beta of each pair of classes.

    Row i - 1 of ``dual_coef_`` holds the coefficients of class k < i against class i, row i those
    of class k > i: the layout of LIBSVM, which both libraries use.
    """
    first_of = np.concatenate([[0], np.cumsum(model.n_support_)])
    of_class = [slice(a, b) for a, b in pairwise(first_of)]
    objectives = []
    for i, j in combinations(range(len(model.n_support_)), 2):
        dual = model.dual_coef_
        beta = np.concatenate([dual[j - 1, of_class[i]], dual[i, of_class[j]]])
        members = np.concatenate([model.support_[of_class[i]], model.support_[of_class[j]]])
        quadratic = quadratic_form(X[members], beta, GAMMA)
        objectives.append(float(np.abs(beta).sum() - 0.5 * quadratic))
    return objectives
