"""Hypothesis strategies that draw whole data sets, the awkward ones above all.

A drawn `Problem` is a recipe: a handful of small numbers and names. The arrays follow from them, so
that a thousand problems are drawn quickly, and what hypothesis prints of a failure can be pasted
into a test. Values are made by numpy from the recipe's seed; hypothesis shrinks the sizes and the
names.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from tests.helpers.byhand import gram, scale_gamma
from tests.helpers.fuzzing_containers import CONTAINERS

# ---------------------------------------------------------------- values


def _normal(rng, n, d):
    return rng.normal(size=(n, d))


def _grid(rng, n, d):
    """Many ties, equal rows and hence contradictory labels."""
    return rng.integers(-2, 3, (n, d)).astype(float)


def _binary(rng, n, d):
    return rng.integers(0, 2, (n, d)).astype(float)


def _repeated(rng, n, d):
    """A third as many different rows."""
    return rng.normal(size=(max(1, n // 3), d))[rng.integers(0, max(1, n // 3), n)]


def _equal(rng, n, d):
    return np.tile(rng.normal(size=(1, d)), (n, 1))


def _constant_columns(rng, n, d):
    values = rng.normal(size=(n, d))
    values[:, rng.random(d) < 0.5] = rng.choice([0.0, 1.0, -7.5, 1e6])
    return values


def _line(rng, n, d):
    """Rank one: every feature a multiple of one number."""
    return np.outer(rng.normal(size=n), rng.normal(size=d))


def _offset(rng, n, d):
    """Small differences far from the origin, where float64 has eight digits left for them."""
    return 1e8 + rng.normal(size=(n, d))


def _outlier(rng, n, d):
    values = rng.normal(size=(n, d))
    values[rng.integers(n)] *= 1e8
    return values


def _mixed_scales(rng, n, d):
    return rng.normal(size=(n, d)) * 10.0 ** rng.integers(-12, 9, d)


def _tiny(rng, n, d):
    """Squares are denormal or nothing."""
    return rng.normal(size=(n, d)) * 1e-160


def _huge(rng, n, d):
    """Squares overflow."""
    return rng.normal(size=(n, d)) * 1e160


def _denormal(rng, n, d):
    return rng.integers(-9, 10, (n, d)) * 5e-324


def _extreme(rng, n, d):
    """Scales that no two of which float64 can hold in one sum."""
    return rng.normal(size=(n, d)) * 10.0 ** rng.integers(-300, 301, d)


def _special(rng, n, d):
    """Numbers where rounding, signs and underflow show."""
    numbers = [0.0, -0.0, 1.0, -1.0, 1 + 2**-52, 1e-8, -1e8, 5e-324, 1e-160, 2.0**53, 1 / 3]
    return rng.choice(numbers, (n, d))


VALUES = {
    "normal": _normal,
    "grid": _grid,
    "binary": _binary,
    "repeated": _repeated,
    "equal": _equal,
    "constant_columns": _constant_columns,
    "line": _line,
    "offset": _offset,
    "outlier": _outlier,
    "mixed_scales": _mixed_scales,
    "special": _special,
    "tiny": _tiny,
    "huge": _huge,
    "denormal": _denormal,
    "extreme": _extreme,
}
# Most of what these draw cannot be told apart, or overflows, in float64: rare, or refusals would
# be the majority.
RARE = ("equal", "tiny", "huge", "denormal", "extreme")
COMMON = tuple(name for name in VALUES if name not in RARE)

# ---------------------------------------------------------------- labels

LABELS = {
    "ints": [3, -1, 7, 12],
    "signs": [-1, 1, 2, 3],
    "strings": ["b", "a", "d", "c c"],
    "bools": [True, False],
    "floats": [-1.0, 2.0, 0.0, 5.0],
    "objects": np.array(["no", "yes", "maybe", "never"], dtype=object),
}

# ---------------------------------------------------------------- one problem


@dataclass(frozen=True)
class Problem:
    """The recipe of a data set; paste it into a test to have the arrays again.

    Attributes
    ----------
    task : {"classes", "target"}
        Labels of classes, or real targets.
    n, d, seed : int
        Rows, features, seed of the values.
    regime, container : str
        A key of VALUES and one of CONTAINERS.
    manner : str
        How labels or targets follow from the rows.
    labels : str
        A key of LABELS; of targets, their dtype.
    n_classes : int
        Number of classes.
    weights : str
        Kind of sample_weight.
    """

    task: str
    n: int
    d: int
    seed: int
    regime: str = "normal"
    container: str = "float64"
    manner: str = "random"
    labels: str = "ints"
    n_classes: int = 2
    weights: str = "none"

    def rng(self, purpose: int) -> np.random.Generator:
        """Return the generator of one part of the problem."""
        return np.random.default_rng([self.seed, purpose])

    @cached_property
    def X(self) -> Any:
        """The rows as they are given to fit."""
        with np.errstate(all="ignore"):
            return CONTAINERS[self.container](VALUES[self.regime](self.rng(0), self.n, self.d))

    @cached_property
    def values(self) -> np.ndarray:
        """The rows as a float64 array: what the container holds."""
        X = self.X.toarray() if sp.issparse(self.X) else np.asarray(self.X)
        return X.astype(np.float64) + 0.0

    @cached_property
    def fresh(self) -> Any:
        """Other rows for prediction: mixtures of the given ones, a copy, and the origin."""
        share = self.rng(1).dirichlet(np.ones(self.n), 4)
        with np.errstate(all="ignore"):
            rows = np.vstack([share @ self.values, self.values[:1], np.zeros((1, self.d))])
        # A model that was fitted to named columns warns of others.
        return CONTAINERS["frame"](rows) if self.container == "frame" else rows

    @cached_property
    def codes(self) -> np.ndarray:
        """The class of each row as a number; every class has a row."""
        rng, n, k = self.rng(2), self.n, self.n_classes
        if self.manner == "one_row_class":
            codes = rng.integers(1, k, n)  # the one row of class 0 is chosen below
        elif self.manner == "by_first_feature":
            ranks = np.argsort(np.argsort(self.values[:, 0], kind="stable"))
            codes = ranks * k // n
        elif self.manner == "alternate":
            codes = np.arange(n) % k
        else:
            codes = rng.integers(0, k, n)
        codes[rng.permutation(n)[:k]] = np.arange(k)
        return codes

    @cached_property
    def y(self) -> np.ndarray:
        """Labels of the kind asked for, or targets."""
        if self.task == "classes":
            return np.asarray(LABELS[self.labels])[self.codes]
        return self._target().astype(self.labels)

    def _target(self) -> np.ndarray:
        rng, n = self.rng(2), self.n
        noise = rng.normal(size=n)
        return {
            "random": noise,
            "linear": np.argsort(np.argsort(self.values[:, 0])) / n + 0.1 * noise,
            "constant": np.full(n, 2.5),
            "whole": np.rint(3 * noise),
            "large": 1e6 * noise,
            "small": 1e-6 * noise,
            "offset": 1e5 + noise,
            "outlier": noise + 1e4 * (np.arange(n) == n - 1),
        }[self.manner]

    @cached_property
    def sample_weight(self) -> np.ndarray | None:
        """Weights, or None; every class keeps a row."""
        rng, n = self.rng(3), self.n
        found = {
            "none": None,
            "whole": rng.integers(1, 4, n).astype(float),
            "zeros": rng.integers(0, 3, n).astype(float),
            "uniform": rng.uniform(0.1, 3.0, n),
            "wide": 10.0 ** rng.integers(-5, 6, n),
        }[self.weights]
        if found is not None:
            kept = np.unique(self.codes, return_index=True)[1] if self.task == "classes" else [0]
            found[kept] = np.maximum(found[kept], 1.0)
        return found

    @property
    def weight(self) -> np.ndarray:
        """The weights as numbers, ones where there are none."""
        return np.ones(self.n) if self.sample_weight is None else self.sample_weight

    @property
    def now_and_then(self) -> bool:
        """True for one problem in four: for what is too slow for each of them."""
        return self.seed % 4 == 0

    def kernel_matrix(self, other: np.ndarray, kernel: str = "rbf") -> np.ndarray:
        """Return a kernel matrix for kernel="precomputed", between other rows and the given.

        It is made by `byhand`, of rows brought to one scale: what a user would do.
        """
        with np.errstate(all="ignore"):
            size = np.abs(self.values).max(axis=0)
            size[~(size > 0)] = 1.0
            A, B = other / size, self.values / size
            return gram(A, B, kernel=kernel, gamma=scale_gamma(B), coef0=1.0)


# ---------------------------------------------------------------- strategies

seeds = st.integers(0, 2**32 - 1)
regimes = st.one_of(
    st.sampled_from(COMMON), st.sampled_from(COMMON), st.sampled_from(tuple(VALUES))
)


@st.composite
def sizes(draw: Any, least: int = 2, most: int = 40) -> tuple[int, int]:
    """Rows and features; now and then few rows of many features."""
    n = draw(st.one_of(st.integers(least, min(12, most)), st.integers(least, most)))
    d = draw(st.one_of(st.integers(1, 6), st.integers(1, 6), st.just(60)))
    return (min(n, 10), d) if d == 60 else (n, d)


@st.composite
def classifications(
    draw: Any,
    *,
    containers: Any = tuple(CONTAINERS),
    most_classes: int = 4,
    most_rows: int = 40,
    weighted: bool = True,
) -> Problem:
    """Problems with classes."""
    n_classes = draw(st.sampled_from([2, 2, 2, *range(3, most_classes + 1)]))
    n, d = draw(sizes(least=n_classes, most=most_rows))
    kinds = [kind for kind in LABELS if len(LABELS[kind]) >= n_classes]
    return Problem(
        task="classes",
        n=n,
        d=d,
        seed=draw(seeds),
        regime=draw(regimes),
        container=draw(st.sampled_from(containers)),
        manner=draw(st.sampled_from(["random", "by_first_feature", "alternate", "one_row_class"])),
        labels=draw(st.sampled_from(kinds)),
        n_classes=n_classes,
        weights=draw(weights) if weighted else "none",
    )


@st.composite
def regressions(draw: Any, *, containers: Any = tuple(CONTAINERS), most_rows: int = 40) -> Problem:
    """Problems with real targets."""
    n, d = draw(sizes(most=most_rows))
    manners = ["random", "linear", "constant", "whole", "large", "small", "offset", "outlier"]
    return Problem(
        task="target",
        n=n,
        d=d,
        seed=draw(seeds),
        regime=draw(regimes),
        container=draw(st.sampled_from(containers)),
        manner=draw(st.sampled_from(manners)),
        labels=draw(st.sampled_from(["float64", "float64", "float32", "int64"])),
        weights=draw(weights),
    )


weights = st.sampled_from(["none", "none", "whole", "zeros", "uniform", "wide"])


def powers(low: int, high: int) -> Any:
    """Numbers 10**e with e between low and high: costs, widths, tolerances."""
    return st.floats(low, high).map(lambda e: float(10.0 ** round(e, 2)))


gammas = st.one_of(st.sampled_from(["scale", "scale", "auto"]), powers(-8, 8))
# Kernels that are positive semi-definite for all data, hence with certificates that are bounds.
mercer_kernels = st.one_of(
    st.just({"kernel": "linear"}),
    st.fixed_dictionaries({"kernel": st.just("rbf"), "gamma": gammas}),
    st.fixed_dictionaries(
        {
            "kernel": st.just("poly"),
            "gamma": st.one_of(st.just("scale"), powers(-2, 1)),
            "degree": st.integers(1, 4),
            "coef0": st.sampled_from([0.0, 1.0, 10.0]),
        }
    ),
)
# Kernels that are indefinite for some data: fitted with a warning, the certificate no bound.
other_kernels = st.one_of(
    st.fixed_dictionaries(
        {
            "kernel": st.just("sigmoid"),
            "gamma": gammas,
            "coef0": st.sampled_from([-1.0, 0.0, 1.0]),
        }
    ),
    st.just({"kernel": "poly", "degree": 2, "coef0": -1.0}),
)
