"""Figs. 2.2 to 2.6 of Smola et al. (2000) and the last figure of Weston (1999), over many draws.

Each figure shows one two-dimensional data set whose points are not printed. Data of the same shape
are drawn repeatedly, and the draws in which the claims of the text hold are counted. The kernel is
exp(-2 |x - x'|^2), that is a width of 0.5, which the text states for Figs. 2.4 to 2.6 only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.literature_items import Findings
from benchmarks.table21 import fitted

FloatArray = npt.NDArray[np.float64]
Rng = np.random.Generator
Rows = tuple[FloatArray, FloatArray]

DRAWS, QUICK_DRAWS = 100, 20
GAMMA = 2.0  # sigma = 0.5
FRESH = 2_000  # test samples
LAMBDAS, NUS = (1.0, 2.0, 5.0, 10.0), (0.0, 0.1, 0.2, 0.5)
HARD_NU = 0.01  # used for nu = 0: any nu <= 1 / n_samples gives the hard margin

OUTLIER = np.array([[1.0, 0.1]])
FAR_OUTLIER = np.array([[-1.75, -0.2]])
CLUSTER, ALONE = np.array([-0.5, 0.5]), np.array([0.5, -0.5])
WESTON_GAMMA = 4.0

OWN_POINTS = "the points of the figure are not printed; ours are of the same shape, "


def add_toys(found: Findings, weston: Findings, quick: bool, say: Callable[[str], None]) -> None:
    """Add the items of all figures with two-dimensional data."""
    draws = QUICK_DRAWS if quick else DRAWS
    say("Figs. 2.2, 2.3")
    add_outlier(found, draws)
    add_overlap(found, draws)
    say("Figs. 2.4 to 2.6")
    add_influence(found, draws)
    say("Weston (1999): when is a point an outlier")
    add_lonely_cross(weston, draws)


# -- Figs. 2.2 and 2.3: one outlier, and two classes that overlap ------------------------------


def outlier_problem(rng: Rng) -> Rows:
    """Draw two classes side by side; the last sample is an outlier inside the other class."""
    dots = rng.uniform((-1.5, -1), (-0.2, 1), (16, 2))
    crosses = rng.uniform((0.2, -1), (1.7, 1), (20, 2))
    crosses = crosses[np.linalg.norm(crosses - OUTLIER, axis=1) > 0.3]
    X = np.vstack([dots, crosses, OUTLIER])
    return X, np.repeat([1.0, -1.0, 1.0], [len(dots), len(crosses), 1])


def outlier_truth(rng: Rng) -> Rows:
    """Draw test samples of the two classes without an outlier."""
    X = rng.uniform((-1.5, -1), (1.7, 1), (FRESH, 2))
    X = X[np.abs(X[:, 0]) > 0.2]
    return X, np.where(X[:, 0] < 0, 1.0, -1.0)


def overlap_problem(rng: Rng, n: int = 50) -> Rows:
    """Draw two classes on opposite sides that overlap in a strip."""
    X = rng.uniform((-1.5, -1), (1.5, 1), (n, 2))
    return X, np.where(X[:, 0] + 0.35 * rng.standard_normal(n) < 0, 1.0, -1.0)


@dataclass(frozen=True)
class Judged:
    """Errors (per cent) and predictions for the outlier, by classifier, on one draw."""

    train: dict[str, float]
    test: dict[str, float]
    last_row: dict[str, float]  # predicted class of the outlier, whose label is 1


LOO, SOFT, HARD = "LOO-SVM", "SVM, C = 1", "SVM, C = 100"


def judged(found: Findings, place: str, rows: Rows, fresh: Rows) -> Judged:
    """Fit the three classifiers of a figure on one draw and evaluate them on test samples."""
    from widemargin import LOOSVC, SVC

    machines = {
        LOO: LOOSVC(gamma=GAMMA),
        SOFT: SVC(C=1.0, gamma=GAMMA),
        HARD: SVC(C=100.0, gamma=GAMMA),
    }
    one = Judged({}, {}, {})
    for name, machine in machines.items():
        fitted(machine, *rows)
        found.proved(f"{place}, {name}", machine)
        one.train[name] = 100 * (1 - machine.score(*rows))
        one.test[name] = 100 * (1 - machine.score(*fresh))
        one.last_row[name] = float(machine.predict(rows[0][-1:])[0])
    return one


def add_outlier(found: Findings, draws: int) -> None:
    """Add Fig. 2.2: predictions for the outlier, and test errors."""
    place, all_draws = "Fig. 2.2", []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        all_draws.append(judged(found, place, outlier_problem(rng), outlier_truth(rng)))
    given_up = [each.last_row[LOO] < 0 for each in all_draws]
    found.claim(place, "LOO-SVM gives the outlier up", given_up, "draws")
    for name in (SOFT, HARD):
        followed = [each.last_row[name] > 0 for each in all_draws]
        reason = OWN_POINTS + "with the outlier in the midst of the other class"
        found.claim(place, f"{name} follows the outlier", followed, "draws", reason=reason)
    for name in (SOFT, HARD):
        add_better(found, place, name, all_draws)


def add_overlap(found: Findings, draws: int) -> None:
    """Add Fig. 2.3: overfitting of the hard margin, and test errors."""
    place, all_draws = "Fig. 2.3", []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        all_draws.append(judged(found, place, overlap_problem(rng), overlap_problem(rng, FRESH)))
    overfits = [
        each.train[HARD] < each.train[LOO] and each.test[HARD] > each.test[LOO]
        for each in all_draws
    ]
    what = f"{HARD}: fewer training errors than LOO-SVM, more test errors"
    found.claim(place, what, overfits, "draws")
    for name in (SOFT, HARD):
        add_better(found, place, name, all_draws)


def add_better(found: Findings, place: str, name: str, all_draws: list[Judged]) -> None:
    """Count the draws in which LOO-SVM has no more test errors than another classifier."""
    better = [each.test[LOO] <= each.test[name] for each in all_draws]
    means = {key: np.mean([each.test[key] for each in all_draws]) for key in (LOO, name)}
    reason = (
        f"{OWN_POINTS}and the captions judge by eye: mean test errors are {means[LOO]:.1f} % "
        f"({LOO}) and {means[name]:.1f} % ({name})"
    )
    what = f"LOO-SVM makes no more test errors than {name}"
    found.claim(place, what, better, "draws", reason=reason)


# -- Figs. 2.4 to 2.6: three classifiers at increasing parameters ------------------------------


def two_classes(rng: Rng, n: int = 30) -> Rows:
    """Draw n samples along an arc and n in a Gaussian cluster."""
    angle = rng.uniform(-0.9, 0.9, n)
    arc = np.column_stack([-1.1 * np.cos(angle), 1.5 * np.sin(angle)])
    arc += 0.22 * rng.standard_normal((n, 2))
    cloud = [0.75, 0.0] + [0.45, 0.55] * rng.standard_normal((n, 2))
    return np.vstack([arc, cloud]), np.repeat([-1.0, 1.0], n)


def ladder() -> dict[str, list[Any]]:
    """Return the classifiers of the three figures, each at four parameters."""
    from widemargin import AdaptiveMarginSVC, NuLPSVC, NuSVC

    return {
        "AM-SVM": [AdaptiveMarginSVC(lam=lam, gamma=GAMMA) for lam in LAMBDAS],
        "ν-LP machine": [NuLPSVC(nu=nu, gamma=GAMMA) for nu in NUS],
        "ν-SVM": [NuSVC(nu=max(nu, HARD_NU), gamma=GAMMA) for nu in NUS],
    }


@dataclass(frozen=True)
class Influence:
    """Effect of one outlier on one classifier at its four parameters, on one draw."""

    followed: list[bool]
    moved: list[float]  # per cent of test samples whose predicted class changes
    size: list[float]  # sum of the absolute coefficients
    missed: list[float]  # fraction of samples below the margin


def influence(found: Findings, place: str, machines: list[Any], seed: int) -> Influence:
    """Fit without and with the outlier; return the effect at each parameter."""
    rng = np.random.default_rng(seed)
    X, y = two_classes(rng)
    fresh, _ = two_classes(rng, FRESH // 2)
    with_outlier = np.vstack([X, FAR_OUTLIER]), np.append(y, 1.0)
    one = Influence([], [], [], [])
    for machine in machines:
        before = fitted(machine, X, y)[0].predict(fresh)
        fitted(machine, *with_outlier)
        found.proved(place, machine)
        one.followed.append(bool(machine.predict(FAR_OUTLIER)[0] > 0))
        one.moved.append(100 * float(np.mean(machine.predict(fresh) != before)))
        one.size.append(float(np.abs(machine.dual_coef_).sum()))
        margins = with_outlier[1] * machine.decision_function(with_outlier[0])
        one.missed.append(float(np.mean(margins < 1 - 1e-6)))
    return one


def add_influence(found: Findings, draws: int) -> None:
    """Add Figs. 2.4 to 2.6: predictions for the outlier, and its effect on the boundary."""
    places = dict(zip(ladder(), ("Fig. 2.4", "Fig. 2.5", "Fig. 2.6"), strict=True))
    measured = {
        name: [influence(found, f"{places[name]}, {name}", each, seed) for seed in range(draws)]
        for name, each in ladder().items()
    }
    adaptive, lp, svm = measured.values()
    given_up = [not any(one.followed) for one in adaptive]
    found.claim("Fig. 2.4", "AM-SVM gives the outlier up at every λ", given_up, "draws")
    flatter = [one.size[-1] < one.size[0] for one in adaptive]
    what = "AM-SVM is flatter at λ = 10 than at λ = 1 (sum of α)"
    found.claim("Fig. 2.4", what, flatter, "draws")
    steadily = [one.size == sorted(one.size, reverse=True) for one in adaptive]
    sums = np.mean([one.size for one in adaptive], axis=0)
    reason = "mean sums at λ = 1, 2, 5, 10: " + ", ".join(f"{value:.2f}" for value in sums)
    what = "... and at no step of λ less flat than before"
    found.claim("Fig. 2.4", what, steadily, "draws", reason=reason)
    kept = [share <= nu for one in lp for share, nu in zip(one.missed[1:], NUS[1:], strict=True)]
    what = "ν bounds the share of rows that miss the margin"
    found.claim("Fig. 2.5", what, kept, "fits (ν = 0.1, 0.2, 0.5)")
    for name, place, ones in (("ν-LP machine", "Fig. 2.5", lp), ("ν-SVM", "Fig. 2.6", svm)):
        followed = [one.followed[0] for one in ones]
        found.claim(place, f"{name} at ν = 0 follows the outlier", followed, "draws")
    for name, ones in (("ν-LP machine", lp), ("ν-SVM", svm)):
        add_less_moved(found, name, adaptive, ones)


def add_less_moved(
    found: Findings, name: str, adaptive: list[Influence], others: list[Influence]
) -> None:
    """Count the draws in which the outlier changes AM-SVM less than another classifier."""
    means = [np.mean([one.moved for one in ones]) for ones in (adaptive, others)]
    less = [
        np.mean(one.moved) < np.mean(other.moved)
        for one, other in zip(adaptive, others, strict=True)
    ]
    reason = (
        f"the outlier changes the class of {means[0]:.2f} % of fresh rows for AM-SVM and of "
        f"{means[1]:.2f} % for the {name}. It is given up, but its slack takes the freedom that "
        "an objective of zero leaves, so that the boundary moves elsewhere"
    )
    what = f"AM-SVM is moved less by the outlier than the {name} (mean over parameters)"
    found.claim("Figs. 2.4-2.6", what, less, "draws", reason=reason)


# -- Weston (1999) ------------------------------------------------------------------------------


def with_crosses_beside(count: int, rng: Rng) -> Rows:
    """Draw dots over a square, a cluster of five crosses, and an isolated cross with neighbours.

    `count` is the number of its neighbours.
    """
    places = np.stack(np.meshgrid(np.linspace(-1, 1, 10), np.linspace(-1, 1, 10)), axis=-1)
    dots = places.reshape(-1, 2) + 0.06 * rng.standard_normal((100, 2))
    for centre in (CLUSTER, ALONE):
        dots = dots[np.linalg.norm(dots - centre, axis=1) > 0.25]
    cluster = CLUSTER + 0.1 * rng.standard_normal((5, 2))
    beside = ALONE + 0.1 * rng.standard_normal((3, 2))
    crosses = np.vstack([cluster, ALONE, beside[:count]])
    return np.vstack([dots, crosses]), np.repeat([-1.0, 1.0], [len(dots), len(crosses)])


def add_lonely_cross(found: Findings, draws: int) -> None:
    """Add the claim that an isolated cross is treated as an outlier, unless it has neighbours."""
    from widemargin import LOOSVC

    place = "section 5, soft margin selection"
    for count in (0, 3):
        followed, cluster = [], []
        for seed in range(draws):
            X, y = with_crosses_beside(count, np.random.default_rng(seed))
            model, _ = fitted(LOOSVC(gamma=WESTON_GAMMA), X, y)
            found.proved(f"Weston (1999), {count} beside", model)
            followed.append(bool(model.predict(ALONE[None, :])[0] > 0))
            cluster.append(bool((model.predict(X[y > 0][:5]) > 0).all()))
        if count == 0:
            found.claim(place, "a lonely cross is an outlier", [not f for f in followed], "draws")
            found.claim(place, "the cluster of five is followed", cluster, "draws")
        else:
            found.claim(place, "with three beside it, it is followed", followed, "draws")
