"""List the estimators of the playground and the controls of each, for page and server.

A parameter that is not in this list cannot be set from the page, and a value outside its range is
refused: the page is not trusted with more than it shows.
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

MOST_SECONDS = 2.0  # of a fit: the picture is to follow the hand


@dataclass(frozen=True)
class Slider:
    """A number from a range.

    Attributes
    ----------
    name : str
        Parameter of the estimator.
    label, help : str
        What the page calls it, and what it does in plain words.
    low, high, start : float
        Range and first value.
    log : bool
        Whether equal steps of the hand multiply the value.
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
        """Return the value, or raise if it is not allowed."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        slip = 1e-9 * abs(self.high)  # a value that went through a logarithm and back
        inside = number and self.low - slip <= value <= self.high + slip
        fix = f"a number between {self.low:g} and {self.high:g}"
        require(bool(inside), f"params[{self.name!r}]", value, fix)
        if self.whole:
            require(value == round(value), f"params[{self.name!r}]", value, "a whole number")
            return round(value)
        return min(max(float(value), self.low), self.high)

    def alternatives(self) -> list[str]:
        """Return no words: a range of numbers has none to choose from."""
        return []


@dataclass(frozen=True)
class Choice:
    """A choice from a few words.

    Attributes
    ----------
    name, label, help : str
        As for a slider.
    options : dict of str to str
        The words, and how the page calls them.
    start : str
        The first choice.
    meaning : dict of str to float
        The number that a word stands for, where the estimator takes numbers.
    """

    name: str
    label: str
    help: str
    options: dict[str, str]
    start: str
    meaning: dict[str, float] = field(default_factory=dict)

    def checked(self, value: Any) -> str | float:
        """Return the value, or raise if it is not allowed."""
        known = isinstance(value, str) and value in self.options
        require(known, f"params[{self.name!r}]", value, f"one of {', '.join(self.options)}")
        return self.meaning.get(value, value)

    def alternatives(self) -> list[str]:
        """Return the words that are not the first choice."""
        return [word for word in self.options if word != self.start]


@dataclass(frozen=True)
class CatalogueEntry:
    """An estimator as the page offers it.

    Attributes
    ----------
    title, words : str
        What the page calls it, and what it does, in one sentence.
    estimator : type
        The class.
    controls : tuple of Slider or Choice
        What can be set.
    dashes : str
        What the lines are on which the decision function is -1 and 1; empty where nothing special.
    uncertified : str
        Why it has no certificate; empty where it has one.
    fixed : dict
        Parameters that are not for the hand to set.
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
        """The name of its class."""
        return self.estimator.__name__

    def parameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the estimator's parameters from those of a request; absent ones are the first."""
        known = {control.name: control for control in self.controls}
        for name in given:
            require(name in known, "params", name, f"among {', '.join(known)} for {self.name}")
        chosen = {n: c.checked(given.get(n, c.start)) for n, c in known.items()}
        if chosen.get("kernel", "rbf") == "linear":
            chosen.pop("gamma", None)  # the linear kernel has none, and the page hides it
        return {**chosen, **self.fixed, "time_limit": MOST_SECONDS}

    def described(self) -> dict[str, Any]:
        """Return what the page needs to show the machine."""
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
    "gamma", "Reach of a point, γ", "Large: each point sees only its neighbours.", 0.05, 50.0, 1.5
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
    "Price of an error",
    "Proportional to its size, or to the square of it.",
    {"hinge": "linear (hinge)", "squared_hinge": "quadratic"},
    "hinge",
)
_SHARE = Slider("nu", "Share, ν", "At most this share of margin errors.", 0.05, 0.8, 0.3, log=False)
_SHRINKAGE = Slider(
    "k", "Shrinkage", "Share of a class that speaks together.", 0.05, 0.9, 0.3, log=False
)
_ADAPTATION = Slider("lam", "Adaptation, λ", "1 is the leave-one-out machine.", 0.05, 10.0, 1.0)
_PRICE = Slider("lam", "Price of a weight, λ", "Large: fewer support vectors.", 1e-3, 10.0, 0.1)
_NOISE = Slider("input_noise", "Noise", "How much the classes overlap.", 0.01, 10.0, 0.3)
_FLIPS = Slider(
    "flip_noise", "Wrong labels", "Share of labels that are wrong.", 0, 0.3, 0, log=False
)
_NORM = Choice(
    "norm",
    "Length of the weights",
    "In what norm the margin is as wide as can be.",
    {"2": "l2: distances as usual", "1": "l1: few inputs", "inf": "l∞: all inputs alike"},
    "2",
    {"2": 2, "1": 1, "inf": np.inf},
)
_ROUNDS = Slider(
    "n_rounds", "Rounds", "One more rule of thumb in each.", 1, 200, 30, log=False, whole=True
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
        "As above; instead of a cost one sets the share of points inside the margin.",
        NuSVC,
        (_KERNEL, _GAMMA, _SHARE),
    ),
    CatalogueEntry(
        "Reduced hulls",
        "The nearest points of two shrunken convex hulls; a point alone has no say.",
        ReducedHullSVC,
        (_KERNEL, _GAMMA, _SHRINKAGE),
    ),
    CatalogueEntry(
        "Leave-one-out machine",
        "Each point is to be classified by the others. Nothing to set but the kernel.",
        LOOSVC,
        (_GAMMA,),
    ),
    CatalogueEntry(
        "Adaptive margin",
        "A point must earn the margin that its own weight would give it.",
        AdaptiveMarginSVC,
        (_GAMMA, _ADAPTATION),
    ),
    CatalogueEntry(
        "Linear program",
        "Few support vectors: weights are priced one by one.",
        LPSVC,
        (_GAMMA, _PRICE),
    ),
    CatalogueEntry(
        "Linear program, by share",
        "As above, with a share of margin errors instead of a price.",
        NuLPSVC,
        (_GAMMA, _SHARE),
    ),
    CatalogueEntry(
        "Gaussian process",
        "Probabilities everywhere: it also knows where it knows nothing.",
        MeanFieldGPClassifier,
        (_GAMMA, _NOISE, _FLIPS),
        dashes="one standard deviation",
    ),
    CatalogueEntry(
        "Ordered classes",
        "Classes in the order of their numbers: parallel boundaries of one score.",
        OrdinalSVC,
        (_KERNEL, _GAMMA, _COST),
        dashes="",  # the margin is one between rows, not one from the boundary
        fixed={"tol": 1e-2},  # a picture does not show more, and it is there ten times as soon
    ),
    CatalogueEntry(
        "Margin in another norm",
        "A straight boundary; distances from it need not be the usual ones.",
        MaxMarginClassifier,
        (_NORM, _COST),
    ),
    CatalogueEntry(
        "Boosting",
        "Many cuts along one input each, added up: points that are wrong count for more each time.",
        AdaBoostClassifier,
        (_ROUNDS,),
        dashes="",  # its values are a share of votes
        uncertified="boosting adds up rounds; it has no optimum to be near to",
    ),
    CatalogueEntry(
        "Perceptron",
        "A step for each point that is wrong, until none is: any boundary will do.",
        PerceptronClassifier,
        (_KERNEL, _GAMMA),
        dashes="",  # its boundary has no margin to keep
        uncertified="any boundary without errors will do; none is best",
        fixed={"max_iter": 300},  # for classes that cannot be parted it never ends
    ),
)
MACHINES: dict[str, CatalogueEntry] = {machine.name: machine for machine in _LIST}


def machine_named(name: Any) -> CatalogueEntry:
    """Return the entry of an estimator by its name."""
    known = isinstance(name, str) and name in MACHINES
    require(known, "machine", name, f"one of {', '.join(MACHINES)}")
    return MACHINES[name]
