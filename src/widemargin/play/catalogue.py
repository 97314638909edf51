"""Catalogue of the estimators of the playground and their controls, for page and server.

Only the parameters in the catalogue can be set by a request, and values outside their range are
rejected, since requests are not trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from widemargin._base.validation import require
from widemargin.estimators.boosting import AdaBoostClassifier
from widemargin.estimators.gp import MeanFieldGPClassifier
from widemargin.estimators.hull import ReducedHullSVC
from widemargin.estimators.lp import LPSVC, NuLPSVC
from widemargin.estimators.lp.adaptive import LOOSVC, AdaptiveMarginSVC
from widemargin.estimators.max_margin import MaxMarginClassifier
from widemargin.estimators.ordinal import OrdinalSVC
from widemargin.estimators.perceptron import PerceptronClassifier
from widemargin.estimators.svm import SVC, NuSVC

MOST_SECONDS = 2.0  # time limit of a fit, for an interactive picture


@dataclass(frozen=True)
class Slider:
    """Control of a numeric parameter.

    Attributes
    ----------
    name : str
        Parameter of the estimator.
    label, help : str
        Label on the page, and a short explanation.
    low, high, start : float
        Range and initial value.
    log : bool
        Whether the slider is logarithmic.
    whole : bool
        Whether the value is a whole number.
    """

    name: str
    label: str
    help: str
    low: float
    high: float
    start: float
    log: bool = True
    whole: bool = False

    def checked(self, value: Any) -> float:
        """Return the value, or raise an error if it is not allowed."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        slip = 1e-9 * abs(self.high)  # rounding of a value converted to a logarithm and back
        inside = number and self.low - slip <= value <= self.high + slip
        fix = f"a number between {self.low:g} and {self.high:g}"
        require(bool(inside), f"params[{self.name!r}]", value, fix)
        if self.whole:
            require(value == round(value), f"params[{self.name!r}]", value, "a whole number")
            return round(value)
        return min(max(float(value), self.low), self.high)

    def alternatives(self) -> list[str]:
        """Return an empty list: a slider has no discrete options."""
        return []


@dataclass(frozen=True)
class Choice:
    """Control of a parameter with a few options.

    Attributes
    ----------
    name, label, help : str
        As for a slider.
    options : dict of str to str
        The options and their labels on the page.
    start : str
        The initial option.
    meaning : dict of str to float
        Numeric value of each option, for parameters that are numbers.
    """

    name: str
    label: str
    help: str
    options: dict[str, str]
    start: str
    meaning: dict[str, float] = field(default_factory=dict)

    def checked(self, value: Any) -> str | float:
        """Return the value, or raise an error if it is not allowed."""
        known = isinstance(value, str) and value in self.options
        require(known, f"params[{self.name!r}]", value, f"one of {', '.join(self.options)}")
        return self.meaning.get(value, value)

    def alternatives(self) -> list[str]:
        """Return the options other than the initial one."""
        return [word for word in self.options if word != self.start]


@dataclass(frozen=True)
class CatalogueEntry:
    """Entry of the catalogue: an estimator and its controls.

    Attributes
    ----------
    title, words : str
        Title on the page, and a description in one sentence.
    estimator : type
        Class of the estimator.
    controls : tuple of Slider or Choice
        Controls of its parameters.
    dashes : str
        Meaning of the contours of the decision function at -1 and 1; "" if they have none.
    uncertified : str
        Reason why it has no certificate; "" if it has one.
    fixed : dict
        Parameters with fixed values, not shown on the page.
    """

    title: str
    words: str
    estimator: type
    controls: tuple[Slider | Choice, ...]
    dashes: str = "margin"
    uncertified: str = ""
    fixed: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the estimator's class."""
        return self.estimator.__name__

    def parameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the estimator's parameters; those absent from a request have initial values."""
        known = {control.name: control for control in self.controls}
        for name in given:
            require(name in known, "params", name, f"among {', '.join(known)} for {self.name}")
        chosen = {n: c.checked(given.get(n, c.start)) for n, c in known.items()}
        if chosen.get("kernel", "rbf") == "linear":
            chosen.pop("gamma", None)  # not a parameter of the linear kernel; hidden on the page
        return {**chosen, **self.fixed, "time_limit": MOST_SECONDS}

    def described(self) -> dict[str, Any]:
        """Return the entry as JSON for the page."""
        shown = [asdict(control) for control in self.controls]
        for told, control in zip(shown, self.controls, strict=True):
            told["kind"] = type(control).__name__.lower()
            told.pop("meaning", None)  # JSON has no infinity
        return {
            "name": self.name,
            "title": self.title,
            "words": self.words,
            "controls": shown,
            "dashes": self.dashes,
        }


_GAMMA = Slider(
    "gamma", "Kernel coefficient, γ", "Large: only close neighbours interact.", 0.05, 50.0, 1.5
)
_COST = Slider("C", "Cost of an error, C", "Large: errors are avoided at any price.", 0.01, 1e4, 1)
_KERNEL = Choice(
    "kernel",
    "Kernel",
    "Curved boundaries, or straight ones.",
    {"rbf": "Gaussian", "linear": "linear"},
    "rbf",
)
_LOSS = Choice(
    "loss",
    "Loss",
    "Proportional to the slack, or to its square.",
    {"hinge": "linear (hinge)", "squared_hinge": "quadratic"},
    "hinge",
)
_SHARE = Slider(
    "nu", "Share, ν", "Upper bound on the share of margin errors.", 0.05, 0.8, 0.3, log=False
)
_SHRINKAGE = Slider(
    "k", "Shrinkage", "Large: smaller hulls, less influence of outliers.", 0.05, 0.9, 0.3, log=False
)
_ADAPTATION = Slider("lam", "Adaptation, λ", "1 is the leave-one-out machine.", 0.05, 10.0, 1.0)
_PRICE = Slider(
    "lam", "Penalty of a coefficient, λ", "Large: fewer support vectors.", 1e-3, 10.0, 0.1
)
_NOISE = Slider("input_noise", "Noise", "How much the classes overlap.", 0.01, 10.0, 0.3)
_FLIPS = Slider(
    "flip_noise", "Wrong labels", "Share of labels that are wrong.", 0, 0.3, 0, log=False
)
_NORM = Choice(
    "norm",
    "Norm of the weights",
    "The margin is maximal in the dual norm.",
    {"2": "l2: distances as usual", "1": "l1: few inputs", "inf": "l∞: all inputs alike"},
    "2",
    {"2": 2, "1": 1, "inf": np.inf},
)
_ROUNDS = Slider(
    "n_rounds", "Rounds", "Each round adds one stump.", 1, 200, 30, log=False, whole=True
)

_LIST = (
    CatalogueEntry(
        "Soft margin",
        "The widest margin, with errors at a cost.",
        SVC,
        (_KERNEL, _GAMMA, _COST, _LOSS),
    ),
    CatalogueEntry(
        "Soft margin, by share",
        "As above, with an upper bound on the share of margin errors instead of a cost.",
        NuSVC,
        (_KERNEL, _GAMMA, _SHARE),
    ),
    CatalogueEntry(
        "Reduced hulls",
        "The nearest points of two reduced convex hulls, which limits the influence of a point.",
        ReducedHullSVC,
        (_KERNEL, _GAMMA, _SHRINKAGE),
    ),
    CatalogueEntry(
        "Leave-one-out machine",
        "Each point is to be classified by the others; only the kernel is chosen.",
        LOOSVC,
        (_GAMMA,),
    ),
    CatalogueEntry(
        "Adaptive margin",
        "The margin required of a point grows with its own coefficient.",
        AdaptiveMarginSVC,
        (_GAMMA, _ADAPTATION),
    ),
    CatalogueEntry(
        "Linear program",
        "Few support vectors, by an l1 penalty on the coefficients.",
        LPSVC,
        (_GAMMA, _PRICE),
    ),
    CatalogueEntry(
        "Linear program, by share",
        "As above, with a share of margin errors instead of a penalty.",
        NuLPSVC,
        (_GAMMA, _SHARE),
    ),
    CatalogueEntry(
        "Gaussian process",
        "Probabilities at every point, uncertain far from the data.",
        MeanFieldGPClassifier,
        (_GAMMA, _NOISE, _FLIPS),
        dashes="one standard deviation",
    ),
    CatalogueEntry(
        "Ordered classes",
        "Classes in the order of their numbers: parallel boundaries of one score.",
        OrdinalSVC,
        (_KERNEL, _GAMMA, _COST),
        dashes="",  # the margin is between pairs of samples, not from a boundary
        fixed={"tol": 1e-2},  # enough for a picture, and about ten times as fast
    ),
    CatalogueEntry(
        "Margin in another norm",
        "A linear boundary; distances are measured in another norm.",
        MaxMarginClassifier,
        (_NORM, _COST),
    ),
    CatalogueEntry(
        "Boosting",
        "A weighted vote of decision stumps; misclassified points gain weight in each round.",
        AdaBoostClassifier,
        (_ROUNDS,),
        dashes="",  # decision values are shares of votes
        uncertified="boosting has no optimum whose distance could be bounded",
    ),
    CatalogueEntry(
        "Perceptron",
        "One update per misclassified point; stops at any boundary that separates.",
        PerceptronClassifier,
        (_KERNEL, _GAMMA),
        dashes="",  # the boundary has no margin
        uncertified="any separating boundary is a solution; none is optimal",
        fixed={"max_iter": 300},  # does not terminate on classes that are not separable
    ),
)
MACHINES: dict[str, CatalogueEntry] = {machine.name: machine for machine in _LIST}


def machine_named(name: Any) -> CatalogueEntry:
    """Return the entry of an estimator by its name."""
    known = isinstance(name, str) and name in MACHINES
    require(known, "machine", name, f"one of {', '.join(MACHINES)}")
    return MACHINES[name]
