"""Figs. 2.4 to 2.6 of Smola et al. (2000): the effect of an outlier on three classifiers.

The text states the width of the kernel, 0.5, but neither the points nor their scale. Data of the
same shape are drawn at three widths, relative to the same data, and three places of the outlier.

The text judges by the pictures that the outlier influences the adaptive margin less than the other
classifiers. Two measures stand for that: the area of the picture whose class changes, and the share
of new samples whose class changes. Far from the samples an island changes the picture, but not the
class of new samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.literature_items import Findings
from benchmarks.literature_toys import FRESH, Claim, Rng, Rows, Setting, add_claims, gamma_of
from benchmarks.table21 import fitted

FloatArray = npt.NDArray[np.float64]

DRAWS, QUICK_DRAWS = 20, 2  # in every setting
WIDTHS = (0.3, 0.5, 0.8)
OUTLIERS = {"near": (-1.4, -0.2), "middle": (-1.75, -0.2), "far left": (-2.1, -0.2)}
LAMBDAS, NUS = (1.0, 2.0, 5.0, 10.0), (0.0, 0.1, 0.2, 0.5)
HARD_NU = 0.01  # used for nu = 0: any nu <= 1 / n_samples gives the hard margin
AROUND = 0.3  # margin of the picture around the samples, as in the gallery
ADAPTIVE, LP, NU = "AM-SVM", "ν-LP machine", "ν-SVM"
PLACES = {ADAPTIVE: "Fig. 2.4", LP: "Fig. 2.5", NU: "Fig. 2.6"}
FIELDS = {"area": "picture", "moved": "new samples", "size": "sum"}
EXPERIMENT = "python -m benchmarks.literature_checks influence"


def two_classes(rng: Rng, n: int = 30) -> Rows:
    """Draw n samples along an arc and n in a Gaussian cluster."""
    angle = rng.uniform(-0.9, 0.9, n)
    arc = np.column_stack([-1.1 * np.cos(angle), 1.5 * np.sin(angle)])
    arc += 0.22 * rng.standard_normal((n, 2))
    cloud = [0.75, 0.0] + [0.45, 0.55] * rng.standard_normal((n, 2))
    return np.vstack([arc, cloud]), np.repeat([-1.0, 1.0], n)


def ladder(width: float) -> dict[str, list[Any]]:
    """Return the classifiers of the three figures, each at four parameters."""
    from widemargin import AdaptiveMarginSVC, NuLPSVC, NuSVC

    gamma = gamma_of(width)
    return {
        ADAPTIVE: [AdaptiveMarginSVC(lam=lam, gamma=gamma) for lam in LAMBDAS],
        LP: [NuLPSVC(nu=nu, gamma=gamma) for nu in NUS],
        NU: [NuSVC(nu=max(nu, HARD_NU), gamma=gamma) for nu in NUS],
    }


@dataclass(frozen=True)
class Influence:
    """Effect of one outlier on one classifier at its four parameters, on one draw."""

    followed: list[bool]
    moved: list[float]  # per cent of test samples whose predicted class changes
    area: list[float]  # per cent of the picture whose predicted class changes
    size: list[float]  # sum of the absolute coefficients
    missed: list[float]  # fraction of samples below the margin


def picture(X: FloatArray) -> FloatArray:
    """Return the points of a grid over a picture of the samples."""
    low, high = X.min(axis=0) - AROUND, X.max(axis=0) + AROUND
    across, up = np.meshgrid(*(np.linspace(low[j], high[j], 70) for j in (0, 1)))
    return np.column_stack([across.ravel(), up.ravel()])


def influence(
    found: Findings, name: str, width: float, place: tuple[float, float], seed: int
) -> Influence:
    """Fit without and with the outlier; return the effect at each parameter."""
    rng, outlier = np.random.default_rng(seed), np.array([place])
    X, y = two_classes(rng)
    fresh, _ = two_classes(rng, FRESH // 2)
    with_outlier = np.vstack([X, outlier]), np.append(y, 1.0)
    grid = picture(with_outlier[0])
    one = Influence([], [], [], [], [])
    for machine in ladder(width)[name]:
        fitted(machine, X, y)
        before, picture_before = machine.predict(fresh), machine.predict(grid)
        fitted(machine, *with_outlier)
        found.proved(f"{PLACES[name]}, {name}, σ = {width:g}", machine)
        one.followed.append(bool(machine.predict(outlier)[0] > 0))
        one.moved.append(100 * float(np.mean(machine.predict(fresh) != before)))
        one.area.append(100 * float(np.mean(machine.predict(grid) != picture_before)))
        one.size.append(float(np.abs(machine.dual_coef_).sum()))
        margins = with_outlier[1] * machine.decision_function(with_outlier[0])
        one.missed.append(float(np.mean(margins < 1 - 1e-6)))
    return one


def add_influence(found: Findings, quick: bool) -> None:
    """Add Figs. 2.4 to 2.6: predictions for the outlier, and its effect on the boundary."""
    draws: dict[Setting, list[dict[str, Influence]]] = {
        (name, width): [
            {machine: influence(found, machine, width, place, seed) for machine in PLACES}
            for seed in range(QUICK_DRAWS if quick else DRAWS)
        ]
        for name, place in OUTLIERS.items()
        for width in WIDTHS
    }
    place = "Figs. 2.4-2.6"
    add_claims(found, place, "place of the outlier", claims(), draws, EXPERIMENT)
    rows = [
        [f"{machine}, {parameter:g}; {measure}"]
        + [
            f"{np.mean([getattr(one[machine], field)[k] for one in all_places(draws, width)]):.2f}"
            for width in WIDTHS
        ]
        for machine, parameters in ((ADAPTIVE, LAMBDAS), (LP, NUS), (NU, NUS))
        for k, parameter in enumerate(parameters)
        for field, measure in FIELDS.items()
    ]
    title = (
        f"{place}: per cent of the picture and of new samples that the outlier changes, and sum of "
        "the coefficients, by λ or ν; means over places and draws"
    )
    found.over_range(title, ["classifier", *(f"σ = {width:g}" for width in WIDTHS)], rows)


def all_places(
    draws: dict[Setting, list[dict[str, Influence]]], width: float
) -> list[dict[str, Influence]]:
    """Return the draws at one width, whatever the place of the outlier."""
    return [one for (_, each), ones in draws.items() if each == width for one in ones]


def claims() -> list[Claim]:
    """Return the claims of the text as functions of one draw."""
    found = [
        Claim(
            PLACES[ADAPTIVE],
            "AM-SVM gives the outlier up at every λ",
            lambda one: [not any(one[ADAPTIVE].followed)],
        ),
        Claim(
            PLACES[ADAPTIVE],
            "AM-SVM is flatter at λ = 10 than at λ = 1 (sum of α)",
            lambda one: [one[ADAPTIVE].size[-1] < one[ADAPTIVE].size[0]],
        ),
        Claim(
            PLACES[ADAPTIVE],
            "... and at no step of λ less flat than before",
            lambda one: [one[ADAPTIVE].size == sorted(one[ADAPTIVE].size, reverse=True)],
            printed=False,
            why=". The mean sum falls from λ = 1 to 10, that of a single draw not at every step",
        ),
        Claim(
            PLACES[LP],
            "ν bounds the share of rows that miss the margin",
            lambda one: [m <= nu for m, nu in zip(one[LP].missed[1:], NUS[1:], strict=True)],
            "fits (ν = 0.1, 0.2, 0.5)",
        ),
    ]
    for name in (LP, NU):
        what = f"{name} at ν = 0 follows the outlier"
        found.append(Claim(PLACES[name], what, lambda one, name=name: [one[name].followed[0]]))
    island = (
        ". An island around an outlier that is far from the samples changes the picture, but no "
        "new samples: see the table of changes"
    )
    for name in (LP, NU):
        what = f"the outlier changes less of the picture for AM-SVM than for the {name}"
        found.append(Claim("Figs. 2.4-2.6", what, less("area", name)))
        what = f"... and the class of fewer new samples than for the {name}"
        found.append(Claim("Figs. 2.4-2.6", what, less("moved", name), printed=False, why=island))
    return found


def less(field: str, name: str) -> Any:
    """Return whether AM-SVM is changed less than another classifier, as a function of one draw."""

    def holds(one: dict[str, Influence]) -> list[bool]:
        changes = [np.mean(getattr(one[machine], field)) for machine in (ADAPTIVE, name)]
        return [bool(changes[0] < changes[1])]

    return holds
