"""Small random and awkward data sets, each made from its own fixed seed."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

import numpy as np

from tests.helpers.byhand import gram, scale_gamma

COSTS = (1e-3, 1.0, 1e2, 1e5)


@dataclass
class Case:
    """A data set with the kernel and the weights it is meant for."""

    name: str
    X: np.ndarray
    y: np.ndarray
    kernel: dict = field(default_factory=lambda: {"kernel": "rbf"})
    sample_weight: np.ndarray | None = None
    class_weight: dict | str | None = None

    def __post_init__(self):
        if self.kernel["kernel"] == "rbf" and "gamma" not in self.kernel:
            self.kernel = {"kernel": "rbf", "gamma": scale_gamma(self.X, self.sample_weight)}

    def __str__(self):
        return self.name

    @property
    def weight(self):
        """The sample weights, ones where there are none."""
        return np.ones(len(self.y)) if self.sample_weight is None else self.sample_weight

    @property
    def cost(self):
        """The weights times the class weights: C = 1."""
        if self.class_weight is None:
            return self.weight
        factor = self.class_weight
        if factor == "balanced":
            per_class = {k: self.weight[self.y == k].sum() for k in (-1, 1)}
            factor = {k: self.weight.sum() / (2 * w) for k, w in per_class.items()}
        return self.weight * np.where(self.y > 0, factor[1], factor[-1])

    @property
    def K(self):
        """The kernel matrix of the data."""
        return gram(self.X, self.X, **self.kernel)

    def merged(self):
        """Return the same problem without repetitions, and what maps coefficients to it.

        Rows of zero weight are dropped and equal (x, y) add up their weights: the box of a row
        that stands three times is three boxes, however a model shares it among the three.
        """
        present = np.flatnonzero(self.weight > 0)
        _, first, group = np.unique(
            np.c_[self.X, self.y][present], axis=0, return_index=True, return_inverse=True
        )
        rows = present[first]
        weight = np.bincount(group, weights=self.weight[present])
        case = Case(self.name, self.X[rows], self.y[rows], self.kernel, weight, self.class_weight)

        def fold(beta):
            assert not np.delete(beta, present).any(), "a row of weight zero got a coefficient"
            return np.bincount(group, weights=beta[present])

        return case, fold


def _rng(name):
    return np.random.default_rng(zlib.crc32(name.encode()))


def _blobs(rng, n_minus, n_plus, d, shift):
    X = rng.normal(size=(n_minus + n_plus, d))
    y = np.repeat([-1.0, 1.0], [n_minus, n_plus])
    X[y > 0, 0] += shift
    order = rng.permutation(len(y))
    return X[order], y[order]


def classification_cases():
    """Return every awkward two-class problem, labels -1 and +1."""
    cases = []

    def add(name, X, y, **options):
        cases.append(Case(name, X, y, **options))

    def blobs(name, n_minus=40, n_plus=30, d=3, shift=1.0):
        return _blobs(_rng(name), n_minus, n_plus, d, shift)

    add("overlap", *blobs("overlap"))
    add("separable", *blobs("separable", shift=7.0))
    add("tiny_class", *blobs("tiny_class", 76, 4))
    add("one_feature", *blobs("one_feature", d=1))
    add("wide", *blobs("wide", 15, 15, 100))
    add("linear", *blobs("linear"), kernel={"kernel": "linear"})
    add("linear_separable", *blobs("ls", shift=7.0), kernel={"kernel": "linear"})
    add("linear_far", *blobs("separable", shift=7.0), kernel={"kernel": "linear"})
    quadratic = {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0}
    add("polynomial", *blobs("polynomial"), kernel=quadratic)

    X, y = blobs("scaled_feature")
    add("scaled_feature", X * [1e3, 1, 1], y)
    X, y = blobs("offset")
    add("offset", X + 50.0, y)
    X, y = blobs("constant_feature")
    add("constant_feature", np.c_[X, np.full(len(y), 3.0)], y)

    rng = _rng("duplicates")
    X, y = _blobs(rng, 14, 11, 3, 1.0)
    copies = rng.integers(0, 25, 75)
    add("duplicates", X[copies], y[copies])
    add("conflicting", X[copies], rng.choice([-1.0, 1.0], 75))
    grid = rng.integers(0, 4, (70, 2)).astype(float)
    add("integers", grid, np.where(grid.sum(axis=1) + rng.normal(size=70) > 3, 1.0, -1.0))

    X, y = blobs("weights")
    weight = _rng("weights").uniform(0.1, 3.0, len(y))
    add("weights", X, y, sample_weight=weight)
    some = np.where(_rng("zero").random(len(y)) < 0.3, 0.0, np.round(weight) + 1)
    add("zero_weights", X, y, sample_weight=some)
    add("class_weights", X, y, class_weight={-1.0: 0.3, 1.0: 4.0})
    add("balanced", *blobs("balanced", 60, 8), class_weight="balanced")
    return cases


def regression_cases():
    """Return every awkward regression problem."""
    cases = []

    def add(name, X, y, **options):
        cases.append(Case(name, X, y, **options))

    def smooth(name, n=60, d=3, noise=0.3):
        rng = _rng(name)
        X = rng.normal(size=(n, d))
        return X, np.sin(2 * X[:, 0]) + 0.3 * X.sum(axis=1) + noise * rng.normal(size=n)

    add("smooth", *smooth("smooth", noise=0.05))
    add("noisy", *smooth("noisy", noise=1.0))
    add("one_feature", *smooth("one_feature", d=1))
    add("wide", *smooth("wide", n=30, d=100))
    add("linear", *smooth("linear"), kernel={"kernel": "linear"})
    quadratic = {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0}
    add("polynomial", *smooth("polynomial"), kernel=quadratic)
    X, y = smooth("scaled_feature")
    add("scaled_feature", X * [1e3, 1, 1], y)
    X, y = smooth("offset")
    add("offset", X + 50.0, y)
    add("target_offset", X, y + 1000.0)
    add("target_scaled", X, 1e3 * y)
    add("outliers", X, y + np.where(_rng("outliers").random(len(y)) < 0.1, 50.0, 0.0))
    add("few_values", X, np.round(y))
    rng = _rng("duplicates")
    copies = rng.integers(0, 20, 60)
    add("duplicates", X[copies], y[copies])
    add("conflicting", X[copies], y[copies] + rng.normal(size=60))
    weight = rng.uniform(0.1, 3.0, len(y))
    add("weights", X, y, sample_weight=weight)
    some = np.where(rng.random(len(y)) < 0.3, 0.0, np.round(weight) + 1)
    add("zero_weights", X, y, sample_weight=some)
    return cases


def largest_nu(case):
    """Return the largest feasible nu: twice the lighter class's share of the weight."""
    light = min(case.weight[case.y == s].sum() for s in (-1, 1))
    return 2.0 * light / case.weight.sum()
