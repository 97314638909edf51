"""Figs. 2.2 to 2.5 of Herbrich et al. (2000): claims about the learning curves.

Fig. 2.2 has no printed numbers; its text compares the curves. Ours come from
:mod:`benchmarks.ordinal_curves`, with 60 draws instead of 100.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from benchmarks import ordinal_curves
from benchmarks.literature_items import ERRORS, Findings
from benchmarks.ordinal_curves import AT, DRAWS, ONE_VS_ONE, ORDINAL, RANKS, SVR_NAME, Curves

FloatArray = npt.NDArray[np.float64]

VERY_CLOSE = 0.02  # difference of scaled preference risks
DRAMATIC = 1.5  # ratio of scaled preference risks
COLLECTION = "the OHSUMED collection (348,566 documents) is not at hand"


def add_ranks(found: Findings, quick: bool, say: Callable[[str], None]) -> None:
    """Add the learning curves, and the figures that cannot be reproduced here."""
    curves = ordinal_curves.learned(quick, say)
    add_curves(found, curves)
    say("Herbrich et al., Fig. 2.3")
    add_representation(found, DRAWS)
    for place, other in (("Fig. 2.4", "multi-class SVM"), ("Fig. 2.5", "regression")):
        found.missing(place, f"learning curves against {other} on documents", "", COLLECTION)


def add_curves(found: Findings, curves: Curves) -> None:
    """Add Fig. 2.2: a smaller risk than one-vs-one SVM, and close to regression."""
    place, sizes = "Fig. 2.2", list(curves.risks[ORDINAL])
    ours, pairs, svr = (curves.risks[name] for name in (ORDINAL, ONE_VS_ONE, SVR_NAME))
    below = {n: _clearly_below(ours[n], pairs[n]) for n in sizes}
    what = "one utility has a smaller risk than one-vs-one SVM, by two standard errors"
    reason = f"not with {', '.join(str(n) for n in sizes if not below[n])} rows"
    found.claim(place, what, list(below.values()), "numbers of rows", reason=reason)
    off = {n: float(np.mean(np.subtract(svr[n], ours[n]))) for n in sizes}
    what = f"regression is very close to it (within {VERY_CLOSE:g} of the risk)"
    apart = ", ".join(f"{value:+.3f} at {n}" for n, value in off.items())
    reason = (
        f"the risk of regression minus that of one utility is {apart} rows. The thresholds are "
        "0.9, 0.35 and 0.75 apart, not about 0.5 as the text says"
    )
    near = [abs(value) <= VERY_CLOSE for value in off.values()]
    found.claim(place, what, near, "numbers of rows", reason=reason)


def _clearly_below(first: list[float], second: list[float]) -> bool:
    """Return whether `first` is lower on average by two standard errors of the difference."""
    difference = np.subtract(second, first)
    error = np.std(difference, ddof=1) / np.sqrt(len(difference))
    return bool(difference.mean() > ERRORS * error)


def add_representation(found: Findings, draws: int) -> None:
    """Add Fig. 2.3: regression on exp(i) instead of i generalises differently."""
    from widemargin.assess.metrics import preference_risk

    X, y = ordinal_curves.square()
    risks: dict[str, list[float]] = {"i": [], "exp(i)": []}
    for seed in range(draws):
        chosen = ordinal_curves.training_rows(y, AT, seed)
        for name, numbers in (("i", np.arange(1.0, RANKS + 1)), ("exp(i)", _exponential())):
            model = ordinal_curves.fitted(
                ordinal_curves.machines()[SVR_NAME](), X[chosen], numbers[y[chosen] - 1]
            )
            between = (numbers[1:] + numbers[:-1]) / 2
            ranks = 1 + np.searchsorted(between, model.predict(X[~chosen]), side="left")
            risks[name].append(preference_risk(y[~chosen], ranks, scaled=True))
    both = list(zip(risks["i"], risks["exp(i)"], strict=True))
    what = f"{AT} rows: regression on exp(i) has a larger risk than that on i"
    found.claim("Fig. 2.3", what, [b > a for a, b in both], "draws")
    worse = [b > DRAMATIC * a for a, b in both]
    means = {name: np.mean(values) for name, values in risks.items()}
    what = f"... by a factor of {DRAMATIC:g}: a dramatic change"
    reason = (
        f"the figure shows single draws; mean risks are {means['i']:.3f} and {means['exp(i)']:.3f}"
    )
    found.claim("Fig. 2.3", what, worse, "draws", reason=reason)


def _exponential() -> FloatArray:
    return np.asarray(np.exp(np.arange(1.0, RANKS + 1)))
