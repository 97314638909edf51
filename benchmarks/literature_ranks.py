"""Figs. 2.2 to 2.5 of Herbrich et al. (2000): claims about the learning curves.

Fig. 2.2 has no printed numbers; its text compares the curves. Ours come from
:mod:`benchmarks.ordinal_curves`, with 60 draws instead of 100. The noise of the text, N(0, 0.125),
is read in both ways: 0.125 as the standard deviation and as the variance.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from benchmarks import ordinal_curves
from benchmarks.literature_items import ERRORS, Findings
from benchmarks.ordinal_curves import (
    AT,
    DRAWS,
    ONE_VS_ONE,
    ORDINAL,
    RANKS,
    READINGS,
    SVR_NAME,
    THRESHOLDS,
    Curves,
)

FloatArray = npt.NDArray[np.float64]

VERY_CLOSE = 0.02  # difference of scaled preference risks
DRAMATIC = 1.5  # ratio of scaled preference risks, or of areas
COLLECTION = "the OHSUMED collection (348,566 documents) is not at hand"
EXPERIMENT = "python -m benchmarks.literature_checks ranks"
CANDIDATES = (ORDINAL, ONE_VS_ONE, SVR_NAME)


def add_ranks(found: Findings, quick: bool, say: Callable[[str], None]) -> None:
    """Add the learning curves, and the figures that cannot be reproduced here."""
    for reading, noise in READINGS.items():
        add_curves(found, ordinal_curves.learned(quick, say, noise, CANDIDATES), reading)
        say(f"Herbrich et al., Fig. 2.3, {reading}")
        add_representation(found, DRAWS, reading)
    for place, other in (("Fig. 2.4", "multi-class SVM"), ("Fig. 2.5", "regression")):
        found.missing(place, f"learning curves against {other} on documents", "", COLLECTION)


def add_curves(found: Findings, curves: Curves, reading: str) -> None:
    """Add Fig. 2.2: a smaller risk than one-vs-one SVM, and close to regression."""
    place, sizes = f"Fig. 2.2, 0.125 the {reading}", list(curves.risks[ORDINAL])
    ours, pairs, svr = (curves.risks[name] for name in CANDIDATES)
    below = {n: _clearly_below(ours[n], pairs[n]) for n in sizes}
    what = "one utility has a smaller risk than one-vs-one SVM, by two standard errors"
    reason = f"not with {', '.join(str(n) for n in sizes if not below[n])} rows"
    holds = list(below.values())
    found.claim(place, what, holds, "numbers of rows", reason=reason, experiment=EXPERIMENT)
    off = {n: float(np.mean(np.subtract(svr[n], ours[n]))) for n in sizes}
    what = f"regression is very close to it (within {VERY_CLOSE:g} of the risk)"
    apart = ", ".join(f"{value:+.3f} at {n}" for n, value in off.items())
    reason = (
        f"at this noise the risk of regression minus that of one utility is {apart} rows; the "
        "other reading of the noise gives other differences"
    )
    near = [abs(value) <= VERY_CLOSE for value in off.values()]
    found.claim(place, what, near, "numbers of rows", reason=reason, experiment=EXPERIMENT)
    rows = [
        [name, *(f"{curves.mean(name, n):.3f} ± {curves.half_width(name, n):.3f}" for n in sizes)]
        for name in CANDIDATES
    ]
    rows.append([f"{SVR_NAME} minus {ORDINAL}", *(f"{value:+.3f}" for value in off.values())])
    title = f"{place}: scaled preference risk ± half the 95 % interval, {curves.draws} draws"
    found.over_range(title, ["training rows", *map(str, sizes)], rows)


def _clearly_below(first: list[float], second: list[float]) -> bool:
    """Return whether `first` is lower on average by two standard errors of the difference."""
    difference = np.subtract(second, first)
    error = np.std(difference, ddof=1) / np.sqrt(len(difference))
    return bool(difference.mean() > ERRORS * error)


def add_representation(found: Findings, draws: int, reading: str) -> None:
    """Add Fig. 2.3: regression on exp(i) instead of i generalises differently.

    The figure shows maps of the unit square, so the area with a wrong rank is measured as well as
    the preference risk on the other samples.
    """
    from widemargin.assess.metrics import preference_risk

    grid = np.stack(np.meshgrid(*2 * [np.linspace(0, 1, 41)]), axis=-1).reshape(-1, 2)
    product = 10.0 * (grid[:, 0] - 0.5) * (grid[:, 1] - 0.5)
    true = 1 + np.searchsorted(THRESHOLDS, product, side="left")
    risks: dict[str, list[float]] = {"i": [], "exp(i)": []}
    areas: dict[str, list[float]] = {"i": [], "exp(i)": []}
    for seed in range(draws):
        X, y = ordinal_curves.square(READINGS[reading], seed)
        chosen = ordinal_curves.training_rows(y, AT, seed)
        for name, numbers in (("i", np.arange(1.0, RANKS + 1)), ("exp(i)", _exponential())):
            model = ordinal_curves.fitted(
                ordinal_curves.machines()[SVR_NAME](), X[chosen], numbers[y[chosen] - 1]
            )
            between = (numbers[1:] + numbers[:-1]) / 2
            ranks, of_square = (
                1 + np.searchsorted(between, model.predict(rows), side="left")
                for rows in (X[~chosen], grid)
            )
            risks[name].append(preference_risk(y[~chosen], ranks, scaled=True))
            areas[name].append(float(np.mean(of_square != true)))
    place = f"Fig. 2.3, 0.125 the {reading}"
    where = "the text has none, and its figure shows maps, not this risk"
    _add_larger(found, place, "a larger risk", risks, where)
    where = "the text has none"
    _add_larger(found, place, "more of the square in wrong ranks", areas, where)


def _add_larger(
    found: Findings, place: str, what: str, measured: dict[str, list[float]], where: str
) -> None:
    """Add the claims that exp(i) has a larger value than i, and a much larger one."""
    ratios = np.divide(measured["exp(i)"], measured["i"])
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
    reason = (
        f"the factor is ours: {where}. Over the draws the ratio has the median {middle:.2f} and "
        f"the deciles {low:.2f} and {high:.2f}"
    )
    for least, claim in (
        (1.0, f"{AT} rows: regression on exp(i) has {what} than that on i"),
        (DRAMATIC, f"... {what} by a factor of {DRAMATIC:g}: a dramatic change"),
    ):
        holds = list(ratios > least)
        found.claim(place, claim, holds, "draws", reason=reason, experiment=EXPERIMENT)


def _exponential() -> FloatArray:
    return np.asarray(np.exp(np.arange(1.0, RANKS + 1)))
