"""Tuning of the estimators that a study compares, by leave-one-out error."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray, IntArray
from widemargin.assess import leave_one_out as loo
from widemargin.estimators.gp import MeanFieldGPClassifier
from widemargin.estimators.lp import LPSVC
from widemargin.estimators.lp.adaptive import LOOSVC, AdaptiveMarginSVC
from widemargin.estimators.ordinal import OrdinalSVC
from widemargin.estimators.svm import SVC, SVR
from widemargin.sources.tables.encoding import Target
from widemargin.tuning.gradient import tune
from widemargin.tuning.search import LOOSearch

LANDSCAPE_ROWS = 800  # size of the subsample for the map of the error over C and gamma
EXACT_GRID_ROWS = 300  # beyond, grid points are compared by linear response
LANDSCAPE_STEPS = 7
REFIT_ROWS = 150  # beyond, ten-fold cross-validation replaces leave-one-out by refits
MOST_RIVALS = 10  # classes; with more, gamma is not tuned and fewer models are compared
MOST_PROGRAM_ROWS = 3_000  # summed over the linear programs: one, or one per class if several
PRICES = (0.03, 0.1, 0.3, 1.0)
ADAPTATIONS = (0.3, 1.0, 3.0)
COSTS = (0.1, 1.0, 10.0, 100.0)
WIDTHS = (0.2, 1.0, 5.0)  # gamma times n_features, on standardised features
TUBE = 0.1  # half width, in standard deviations of the target

Progress = Callable[[str, int, int], None]
"""Told what comes next, how many steps are done, and how many there are."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """Estimator of the comparison, tuned and fitted.

    Attributes
    ----------
    name : str
        Name of its class.
    model : estimator or None
        The model, fitted on standardised features; None if it was not fitted.
    params : dict
        The tuned parameters and their values.
    result : LOOResult or None
        Leave-one-out result of the model.
    seconds : float
        Time of the fit, including tuning.
    reason : str
        Reason why there is no model, else "".
    """

    name: str
    model: Any
    params: dict[str, Any]
    result: loo.LOOResult | None
    seconds: float
    reason: str = ""


Found = tuple[Any, dict[str, Any], loo.LOOResult]
"""A fitted machine, what was tuned to what, and its leave-one-out."""

Attempt = Callable[[FloatArray, Target, list[Candidate]], Found]
"""Tunes a machine on X and y, knowing those that were tried before."""


@dataclass(frozen=True, eq=False)
class Landscape:
    """Leave-one-out errors over a grid of C and gamma.

    Attributes
    ----------
    costs, gammas : list of float
        Values of C and gamma.
    error : ndarray of shape (n_gammas, n_costs)
        Leave-one-out error.
    method : str
        Leave-one-out method.
    n_rows : int
        Number of samples used.
    """

    costs: list[float]
    gammas: list[float]
    error: FloatArray
    method: str
    n_rows: int


def compared(
    task: str, X: FloatArray, y: Target, seed: int, ard: bool, progress: Progress | None
) -> tuple[list[Candidate], Landscape | None]:
    """Tune all candidates of a task; return them and the error landscape of the first."""
    told = progress or (lambda what, done, total: None)
    steps = list(_steps(task, len(np.unique(y)), len(y), ard))
    found: list[Candidate] = []
    for done, (name, attempt) in enumerate(steps):
        told(name, done, len(steps) + 1)
        found.append(_tried(name, attempt, X, y, found))
    told("landscape", len(steps), len(steps) + 1)
    landscape = _landscape(found[0], X, y, seed)
    told("", len(steps) + 1, len(steps) + 1)
    return found, landscape


def _steps(task: str, n_classes: int, n_rows: int, ard: bool) -> Iterator[tuple[str, Attempt]]:
    """Yield the candidates of a task; the first is SVC (SVR), whose gamma the others reuse."""
    if task == "regression":
        yield "SVR", _regression
        return
    many = f"not compared with more than {MOST_RIVALS} classes, to save time"
    few = n_classes <= MOST_RIVALS
    yield "SVC", _tuned(SVC(), "C", "ard" if ard else "gamma") if few else _soft_margin_of_many
    gaussian = _tuned(MeanFieldGPClassifier(), "gamma", "input_noise")
    yield "MeanFieldGPClassifier", gaussian if few else _refusing(many)
    if task == "ordered":
        yield "OrdinalSVC", _best_of(OrdinalSVC, [{"C": c} for c in COSTS[1:3]])
    large = f"not compared with {n_classes} classes of so many rows, to save time"
    small = n_rows * (n_classes if n_classes > 2 else 1) <= MOST_PROGRAM_ROWS
    programs: dict[type, list[dict[str, float]]] = {
        LOOSVC: [{"gamma": factor} for factor in WIDTHS],
        AdaptiveMarginSVC: [{"lam": lam} for lam in ADAPTATIONS],
        LPSVC: [{"lam": lam} for lam in PRICES],
    }
    for machine, settings in programs.items():
        refusal = _refusing(large if few else many)
        yield machine.__name__, _best_of(machine, settings) if few and small else refusal


def _tried(
    name: str, attempt: Attempt, X: FloatArray, y: Target, found: list[Candidate]
) -> Candidate:
    started = time.perf_counter()
    with warnings.catch_warnings():
        # Fits of a search that stop early are not the reported model.
        warnings.simplefilter("ignore", UserWarning)
        try:
            model, params, result = attempt(X, y, found)
        except ValueError as error:
            return Candidate(name, None, {}, None, time.perf_counter() - started, str(error))
    return Candidate(name, model, params, result, time.perf_counter() - started)


def _refusing(reason: str) -> Attempt:
    """Return an attempt that only raises the reason why it is skipped."""

    def refuse(X: FloatArray, y: Target, found: list[Candidate]) -> Found:
        raise ValueError(reason)

    return refuse


def _tuned(machine: Any, *params: str) -> Attempt:
    """Return an attempt that tunes parameters by gradient descent."""

    def attempt(X: FloatArray, y: Target, found: list[Candidate]) -> Found:
        model = tune(machine, X, y, params)
        return model, dict(model.tuning_.params), loo.result(model)

    return attempt


def _soft_margin_of_many(X: FloatArray, y: Target, found: list[Candidate]) -> Found:
    """Choose only C, since with many classes (and very many pairs) tuning gamma takes too long."""
    gamma = 1.0 / X.shape[1]
    tried = []
    for C in COSTS[1:]:
        model = SVC(C=C, gamma=gamma).fit(X, y)
        tried.append((model, {"C": C, "gamma": gamma}, loo.result(model)))
    return min(tried, key=lambda entry: entry[2].error)


def _regression(X: FloatArray, y: Target, found: list[Candidate]) -> Found:
    gammas = [float(w / X.shape[1]) for w in WIDTHS]
    grid = {"C": list(COSTS), "gamma": gammas}
    search = LOOSearch(SVR(epsilon=TUBE), grid, method=_method_of_grid(len(y))).fit(X, y)
    model = search.best_estimator_
    return model, dict(search.best_params_), loo.result(model)


def _method_of_grid(n_rows: int) -> str:
    return "exact" if n_rows <= EXACT_GRID_ROWS else "linear_response"


def _best_of(machine: type, settings: list[dict[str, float]]) -> Attempt:
    """Return an attempt that fits every setting and keeps the one of least leave-one-out error.

    The gamma of a setting is a factor of the gamma to which the soft-margin estimator was tuned.
    """

    def attempt(X: FloatArray, y: Target, found: list[Candidate]) -> Found:
        width = found[0].params.get("gamma")
        width = 1.0 / X.shape[1] if width is None else width
        method = "exact" if len(y) <= REFIT_ROWS else "folds"
        tried = []
        for setting in settings:
            factor = setting.get("gamma")
            params = {**setting, "gamma": width if factor is None else factor * width}
            model = machine(**params).fit(X, y)
            tried.append((model, params, loo.result(model, method)))
        return min(tried, key=lambda entry: entry[2].error)

    return attempt


def _landscape(soft: Candidate, X: FloatArray, y: Target, seed: int) -> Landscape | None:
    """Compute the leave-one-out error of SVC (SVR) on a grid around the tuned parameters."""
    gamma = soft.params.get("gamma")
    many = soft.name == "SVC" and len(np.unique(y)) > MOST_RIVALS
    if soft.model is None or many or not np.isscalar(gamma):
        return None
    rows = np.arange(len(y))
    if len(rows) > LANDSCAPE_ROWS:
        order = np.random.default_rng(seed).permutation(len(y))
        order = order if soft.name == "SVR" else every_class_first(y, order)
        rows = np.sort(order[:LANDSCAPE_ROWS])
    factors = np.geomspace(1e-3, 1e3, LANDSCAPE_STEPS)
    costs = [float(c) for c in soft.params["C"] * factors]
    gammas = [float(g) for g in gamma * np.sqrt(factors)]
    machine = type(soft.model)(**({"epsilon": TUBE} if soft.name == "SVR" else {}))
    method = _method_of_grid(len(rows))
    search = LOOSearch(machine, {"gamma": gammas, "C": costs}, method=method, refit=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from extreme settings at the edge of the grid
        search.fit(X[rows], y[rows])
    score = search.cv_results_["mean_test_score"]
    by_setting = {
        (p["gamma"], p["C"]): s for p, s in zip(search.cv_results_["params"], score, strict=True)
    }
    offset = 0.0 if soft.name == "SVR" else 1.0
    error = np.array([[offset - by_setting[g, c] for c in costs] for g in gammas])
    return Landscape(costs, gammas, error, method, len(rows))


def every_class_first(y: Target, order: IntArray) -> IntArray:
    """Move two samples of each class to the front, so that a subsample has all classes."""
    codes = np.unique(y, return_inverse=True)[1][order]
    by_class = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    place = np.empty(len(order), dtype=np.intp)
    place[by_class] = np.arange(len(order)) - starts  # 0, 1, ... within each class
    return order[np.argsort(place >= 2, kind="stable")]
