"""Learning curves of Fig. 2.2 of Herbrich et al. (2000): preference risk of predicted ranks.

The ranks are noisy thresholds of a product in the unit square. Candidates are OrdinalSVC,
one-vs-one SVC and regression on the rank numbers, all with the kernel (x.x' + 1)^2 and C = 10^6,
and a cumulative link model on the same quadratic features. Every draw has its own 1,000 samples, so
that the means do not depend on one set of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from benchmarks.data import SEED
from benchmarks.report import Report, Target

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

THRESHOLDS = (-1.0, -0.1, 0.25, 1.0)
NOISE = 0.125  # standard deviation, one of the two readings of N(0, 0.125)
READINGS = {"standard deviation": NOISE, "variance": NOISE**0.5}
ROWS, RANKS = 1_000, 5
AT = 25  # training samples to which the targets refer
SIZES, QUICK_SIZES = (5, 10, 15, 20, AT, 35, 45), (AT,)
DRAWS = 60
KERNEL: dict[str, Any] = {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1.0, "C": 1e6}

ORDINAL, MARGIN = "OrdinalSVC", "OrdinalSVC, thresholds of the margin"
ONE_VS_ONE, SVR_NAME = "one-vs-one SVC", "SVR, epsilon 0.5"
PROBIT = "cumulative probit, alpha 1e-3"
UTILITY = "OrdinalSVC, by utility"


@dataclass
class Curves:
    """Scaled preference risk of every draw, by candidate and number of training samples."""

    draws: int
    risks: dict[str, dict[int, list[float]]] = field(default_factory=dict)

    def add(self, name: str, size: int, risk: float) -> None:
        """Record the risk of one draw."""
        self.risks.setdefault(name, {}).setdefault(size, []).append(risk)

    def mean(self, name: str, size: int) -> float:
        """Return the mean risk over the draws."""
        return float(np.mean(self.risks[name][size]))

    def half_width(self, name: str, size: int) -> float:
        """Return half the width of the 95 % confidence interval of the mean."""
        values = self.risks[name][size]
        return float(1.96 * np.std(values, ddof=1) / np.sqrt(len(values)))


def square(noise: float = NOISE, seed: int = SEED) -> tuple[FloatArray, IntArray]:
    """Generate uniform samples in the unit square and their ranks 1, ..., 5, as in (2.29)."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(ROWS, 2))
    utility = 10.0 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5)
    # A value equal to a threshold belongs to the lower rank, (2.19).
    noisy = utility + noise * rng.standard_normal(ROWS)
    return X, 1 + np.searchsorted(THRESHOLDS, noisy, side="left")


def training_rows(y: IntArray, size: int, seed: int) -> npt.NDArray[np.bool_]:
    """Return the mask of a random training set; draws that lack a rank are rejected."""
    rng = np.random.default_rng((seed, size))
    while True:
        drawn = rng.permutation(len(y))[:size]
        if len(np.unique(y[drawn])) == RANKS:
            return np.isin(np.arange(len(y)), drawn)


def machines() -> dict[str, Callable[[], Any]]:
    """Return functions that create the candidates.

    One-vs-one SVC is scikit-learn's. SVR is ours, since scikit-learn's does not end at this C.
    """
    from sklearn.svm import SVC

    from widemargin import SVR, CumulativeLinkClassifier, OrdinalSVC

    probit = CumulativeLinkClassifier(link="probit", alpha=1e-3)
    quadratic = PolynomialFeatures(2, include_bias=False)
    return {
        ORDINAL: lambda: OrdinalSVC(**KERNEL),
        MARGIN: lambda: OrdinalSVC(thresholds="margin", **KERNEL),
        ONE_VS_ONE: lambda: SVC(**KERNEL),
        SVR_NAME: lambda: SVR(epsilon=0.5, **KERNEL),
        PROBIT: lambda: make_pipeline(quadratic, probit),
    }


def predicted_ranks(model: Any, X: FloatArray) -> FloatArray:
    """Return predicted ranks; predictions of a regression are rounded, halves downwards."""
    return np.clip(np.ceil(model.predict(X) - 0.5), 1, RANKS)


def learned(
    quick: bool,
    say: Callable[[str], None],
    noise: float = NOISE,
    names: tuple[str, ...] | None = None,
) -> Curves:
    """Fit the named candidates (default: all) to the same draws; record their preference risk."""
    from widemargin.assess.metrics import preference_risk

    curves = Curves(DRAWS)
    for size in QUICK_SIZES if quick else SIZES:
        for seed in range(curves.draws):
            say(f"Fig. 2.2: {size} rows, draw {seed + 1}")
            X, y = square(noise, seed)
            chosen = training_rows(y, size, seed)
            rest, truth = X[~chosen], y[~chosen]
            for name in names or machines():
                model = fitted(machines()[name](), X[chosen], y[chosen])
                ranks = predicted_ranks(model, rest)
                curves.add(name, size, preference_risk(truth, ranks, scaled=True))
                if name == ORDINAL:
                    by_utility = preference_risk(truth, model.utility(rest), scaled=True)
                    curves.add(UTILITY, size, by_utility)
    return curves


def fitted(model: Any, X: FloatArray, y: npt.NDArray[Any]) -> Any:
    with warnings.catch_warnings():  # expected at C = 1e6 on noisy ranks
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def report_curves(report: Report, curves: Curves) -> None:
    """Add the table, the raw figures and the targets to the report."""
    sizes = list(curves.risks[ORDINAL])
    table = report.table(
        f"Fig. 2.2: share of fresh pairs in the wrong order by predicted rank, {curves.draws} "
        f"draws, +- 95 % (noise of deviation {NOISE:g})",
        ["candidate", *(f"n = {size}" for size in sizes)],
    )
    for name in curves.risks:
        cells = [f"{curves.mean(name, n):.3f} +- {curves.half_width(name, n):.3f}" for n in sizes]
        table.add_row(name, *cells)
    ours = curves.mean(ORDINAL, AT)
    ratio = ours / curves.mean(ONE_VS_ONE, AT)
    report.targets += [
        Target(f"Fig. 2.2, n = {AT}: risk of predicted ranks", ours, 0.17, False),
        Target(f"Fig. 2.2, n = {AT}: ours / one-vs-one SVC", ratio, 0.85, False, "x"),
    ]
    report.results["figure 2.2"] = curves.risks
