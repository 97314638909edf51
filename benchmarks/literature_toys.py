"""Figs. 2.2 and 2.3 of Smola et al. (2000) and the last figure of Weston (1999), over many draws.

Each figure shows one two-dimensional data set whose points are not printed, and neither are the
width of the kernel and its scale. Data of the same shape are drawn repeatedly at every width in
`WIDTHS` and every place of the outlier (or degree of overlap), and the draws in which the claims of
the text hold are counted over all of them. Tables show the share of draws by setting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.literature_items import ALMOST_ALWAYS, Findings
from benchmarks.table21 import fitted

FloatArray = npt.NDArray[np.float64]
Rng = np.random.Generator
Rows = tuple[FloatArray, FloatArray]

DRAWS, QUICK_DRAWS = 25, 3  # in every setting
WESTON_DRAWS, QUICK_WESTON_DRAWS = 100, 20
WIDTHS = (0.15, 0.2, 0.3, 0.5, 0.7, 1.0)
FRESH = 2_000  # test samples

OUTLIERS = {"near the boundary": (0.5, 0.1), "amid": (1.0, 0.1), "far right": (1.6, 0.1)}
OVERLAPS = {"± 0.15": 0.15, "± 0.25": 0.25, "± 0.35": 0.35}
CLUSTER, ALONE = np.array([-0.5, 0.5]), np.array([0.5, -0.5])
WESTON_GAMMA = 4.0

EXPERIMENT = "python -m benchmarks.literature_checks toys"


def add_toys(found: Findings, weston: Findings, quick: bool, say: Callable[[str], None]) -> None:
    """Add the items of Figs. 2.2 and 2.3 and of Weston."""
    draws = QUICK_DRAWS if quick else DRAWS
    say("Fig. 2.2")
    add_outlier(found, draws)
    say("Fig. 2.3")
    add_overlap(found, draws)
    say("Weston (1999): when is a point an outlier")
    add_lonely_cross(weston, QUICK_WESTON_DRAWS if quick else WESTON_DRAWS)


# -- claims over the range of a free choice ----------------------------------------------------

Setting = tuple[str, float]  # name of the place, and width of the kernel


@dataclass(frozen=True)
class Claim:
    """A claim: figure, statement, what it counts, and a function of one draw that counts it.

    Claims that are not `printed` add a measure of our own to those of the text; `why` is added to
    the reason if the claim differs.
    """

    place: str
    what: str
    holds: Callable[[Any], Sequence[bool]]
    of: str = "draws"
    printed: bool = True
    why: str = ""


def add_claims(
    found: Findings,
    place: str,
    choice: str,
    claims: list[Claim],
    draws: dict[Setting, list[Any]],
    experiment: str,
) -> None:
    """Add claims counted over all settings, one on all of them at once, and a table by setting."""
    held = {
        claim.what: {s: [b for one in each for b in claim.holds(one)] for s, each in draws.items()}
        for claim in claims
    }
    widths = sorted({width for _, width in draws})
    for claim in claims:
        by_setting = held[claim.what]
        everything = [each for values in by_setting.values() for each in values]
        reason = (
            f"it depends on what is open: by width σ it holds in {_shares(by_setting, 1)}, by "
            f"{choice} in {_shares(by_setting, 0)}{claim.why}"
        )
        found.claim(
            claim.place, claim.what, everything, claim.of, reason=reason, experiment=experiment
        )
    together = [
        min(np.mean(held[claim.what][s]) for claim in claims if claim.printed) >= ALMOST_ALWAYS
        for s in draws
    ]
    what = "at some setting, each claim of the text holds in nine of ten draws"
    of = f"figure ({sum(together)} of {len(draws)} settings)"
    reason = f"no width and {choice} of those tried has them all"
    found.claim(place, what, [any(together)], of, reason=reason, experiment=experiment)
    names = list(dict.fromkeys(name for name, _ in draws))
    rows = [
        [f"{claim.what}; {name}"]
        + [f"{np.mean(held[claim.what][name, width]):.0%}" for width in widths]
        for claim in claims
        for name in names
    ]
    title = f"{place}: share of draws in which a claim holds, by {choice} and width σ"
    found.over_range(title, ["claim", *(f"σ = {width:g}" for width in widths)], rows)


def _shares(by_setting: dict[Setting, list[bool]], which: int) -> str:
    """Return the share of draws by place (``which`` 0) or by width (1)."""
    values: dict[str, list[bool]] = {}
    for setting, held in by_setting.items():
        name = f"{setting[1]:g}" if which else setting[0]
        values.setdefault(name, []).extend(held)
    return ", ".join(f"{np.mean(held):.0%} ({name})" for name, held in values.items())


def gamma_of(width: float) -> float:
    """Return gamma of the kernel exp(-|x - x'|^2 / (2 width^2))."""
    return 1.0 / (2.0 * width**2)


# -- Figs. 2.2 and 2.3: one outlier, and two classes that overlap ------------------------------


def outlier_problem(rng: Rng, place: tuple[float, float] = OUTLIERS["amid"]) -> Rows:
    """Draw two classes side by side; the last sample is an outlier inside the other class."""
    outlier = np.array([place])
    dots = rng.uniform((-1.5, -1), (-0.2, 1), (16, 2))
    crosses = rng.uniform((0.2, -1), (1.7, 1), (20, 2))
    crosses = crosses[np.linalg.norm(crosses - outlier, axis=1) > 0.3]
    X = np.vstack([dots, crosses, outlier])
    return X, np.repeat([1.0, -1.0, 1.0], [len(dots), len(crosses), 1])


def outlier_truth(rng: Rng) -> Rows:
    """Draw test samples of the two classes without an outlier."""
    X = rng.uniform((-1.5, -1), (1.7, 1), (FRESH, 2))
    X = X[np.abs(X[:, 0]) > 0.2]
    return X, np.where(X[:, 0] < 0, 1.0, -1.0)


def overlap_problem(rng: Rng, strip: float = 0.35, n: int = 50) -> Rows:
    """Draw two classes on opposite sides that overlap in a strip."""
    X = rng.uniform((-1.5, -1), (1.5, 1), (n, 2))
    return X, np.where(X[:, 0] + strip * rng.standard_normal(n) < 0, 1.0, -1.0)


@dataclass(frozen=True)
class Judged:
    """Errors (per cent) and predictions for the outlier, by classifier, on one draw."""

    train: dict[str, float]
    test: dict[str, float]
    last_row: dict[str, float]  # predicted class of the outlier, whose label is 1


LOO, SOFT, HARD = "LOO-SVM", "SVM, C = 1", "SVM, C = 100"


def judged(found: Findings, place: str, rows: Rows, fresh: Rows, width: float) -> Judged:
    """Fit the three classifiers of a figure on one draw and evaluate them on test samples."""
    from widemargin import LOOSVC, SVC

    gamma = gamma_of(width)
    machines = {
        LOO: LOOSVC(gamma=gamma),
        SOFT: SVC(C=1.0, gamma=gamma),
        HARD: SVC(C=100.0, gamma=gamma),
    }
    one = Judged({}, {}, {})
    for name, machine in machines.items():
        fitted(machine, *rows)
        found.proved(f"{place}, {name}, σ = {width:g}", machine)
        one.train[name] = 100 * (1 - machine.score(*rows))
        one.test[name] = 100 * (1 - machine.score(*fresh))
        one.last_row[name] = float(machine.predict(rows[0][-1:])[0])
    return one


def add_outlier(found: Findings, draws: int) -> None:
    """Add Fig. 2.2: predictions for the outlier, and test errors."""
    place, all_draws = "Fig. 2.2", {}
    for name, outlier in OUTLIERS.items():
        for width in WIDTHS:
            ones = all_draws[name, width] = []
            for rng in map(np.random.default_rng, range(draws)):
                rows, fresh = outlier_problem(rng, outlier), outlier_truth(rng)
                ones.append(judged(found, place, rows, fresh, width))
    claims = [
        Claim(place, f"{LOO} gives the outlier up", lambda one: [one.last_row[LOO] < 0]),
        Claim(place, f"{SOFT} follows the outlier", lambda one: [one.last_row[SOFT] > 0]),
        Claim(place, f"{HARD} follows the outlier", lambda one: [one.last_row[HARD] > 0]),
        *better(place),
    ]
    add_claims(found, place, "place of the outlier", claims, all_draws, EXPERIMENT)


def add_overlap(found: Findings, draws: int) -> None:
    """Add Fig. 2.3: overfitting of the hard margin, and test errors."""
    place, all_draws = "Fig. 2.3", {}
    for name, strip in OVERLAPS.items():
        for width in WIDTHS:
            ones = all_draws[name, width] = []
            for rng in map(np.random.default_rng, range(draws)):
                rows, fresh = overlap_problem(rng, strip), overlap_problem(rng, strip, FRESH)
                ones.append(judged(found, place, rows, fresh, width))
    what = f"{HARD}: fewer training errors than {LOO}, more test errors"
    claims = [Claim(place, what, lambda one: [overfits(one)]), *better(place)]
    add_claims(found, place, "overlap", claims, all_draws, EXPERIMENT)


def overfits(one: Judged) -> bool:
    """Return whether the hard margin has fewer training errors and more test errors."""
    return one.train[HARD] < one.train[LOO] and one.test[HARD] > one.test[LOO]


def better(place: str) -> list[Claim]:
    """Return the claims that LOO-SVM has no more test errors than the other classifiers."""
    what = f"{LOO} makes no more test errors than"
    return [
        Claim(place, f"{what} {SOFT}", lambda one: [one.test[LOO] <= one.test[SOFT]]),
        Claim(place, f"{what} {HARD}", lambda one: [one.test[LOO] <= one.test[HARD]]),
    ]


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
