"""Plots of the error over two parameters, for grid search and for gradient tuning."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from widemargin._base.validation import require
from widemargin.reporting import figures
from widemargin.reporting.plots import pictures as _pictures
from widemargin.tuning.gradient import Tuning


def landscape_of(search: Any, params: Any) -> figures.Figure:
    """Return the plot of a grid search or of a tuned model."""
    tuning = getattr(search, "tuning_", search)
    if hasattr(tuning, "trace"):
        require(params is None, "params", params, "None for a model of tune(): C and gamma")
        return _of_trace(tuning)
    fix = "a fitted LOOSearch, a model that tune() has returned, or its tuning_"
    require(hasattr(search, "cv_results_"), "search", search, fix)
    return _of_grid(search, params, is_regressor(search))


# -- grid search ---------------------------------------------------------------------------------


def _of_grid(search: Any, params: Any, regression: bool) -> figures.Figure:
    settings, best = search.cv_results_["params"], search.best_params_
    first, second = _two_parameters(settings, params)
    score = np.asarray(search.cv_results_["mean_test_score"], dtype=float)
    error = -score if regression else 1.0 - score
    x = sorted({setting[first] for setting in settings if first in setting})
    y = sorted({setting[second] for setting in settings if second in setting})
    z: list[list[float | None]] = [[None] * len(x) for _ in y]
    for setting, value in zip(settings, error, strict=True):
        others = {name: v for name, v in setting.items() if name not in (first, second)}
        held = all(
            name in best and (best[name] is v or bool(np.all(best[name] == v)))
            for name, v in others.items()
        )
        if held and first in setting and second in setting and np.isfinite(value):
            z[y.index(setting[second])][x.index(setting[first])] = float(value)
    land = {"C": x, "gamma": y, "error": z, "chosen": {"C": best[first], "gamma": best[second]}}
    task = "regression" if regression else "classification"
    figure = figures.landscape_figure({"task": task, "landscape": land})
    assert figure is not None
    heat, chosen = figure["data"]
    what = "mean absolute error" if regression else "leave-one-out error"
    heat["colorbar"]["title"] = {"text": what}
    heat["hovertemplate"] = heat["hovertemplate"].replace("C %", f"{first} %")
    heat["hovertemplate"] = heat["hovertemplate"].replace("γ %", f"{second} %")
    chosen["hovertemplate"] = "chosen by leave-one-out<extra></extra>"
    return _named(figure, first, second)


def _two_parameters(settings: list[dict[str, Any]], params: Any) -> tuple[str, str]:
    """Return the two parameters of the axes."""
    varied = [
        name
        for name in sorted({name for setting in settings for name in setting})
        if len({repr(setting.get(name)) for setting in settings}) > 1
    ]
    if params is None:
        fix = f"two of the parameters that vary ({', '.join(varied) or 'none'})"
        require(len(varied) == 2, "params", None, fix)
        params = varied
    fix = f"two different parameters of the grid ({', '.join(varied)})"
    listed = isinstance(params, tuple | list) and len(params) == 2 and params[0] != params[1]
    require(listed and all(name in varied for name in params), "params", params, fix)
    for name in params:
        values = [setting[name] for setting in settings if name in setting]
        good = all(_positive(value) for value in values)
        require(good, name, values, "positive numbers only, for a logarithmic axis")
    return params[0], params[1]


def _positive(value: Any) -> bool:
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return number and float(value) > 0


# -- gradient tuning -----------------------------------------------------------------------------


def _of_trace(tuning: Tuning) -> figures.Figure:
    tried = [(entry["C"], entry["gamma"]) for entry in tuning.trace]
    two = all(_positive(C) and _positive(gamma) for C, gamma in tried)
    fix = "a model whose C and one gamma for all features were tuned: a picture has two axes"
    require(two, "search", f"a model tuned in {', '.join(tuning.params)}", fix)
    paths: dict[Any, list[int]] = {}
    for i, entry in enumerate(tuning.trace):
        if entry["stage"] != "scan":  # the scan evaluates single points, the starts of the descents
            paths.setdefault((entry["stage"], entry["start"]), []).append(i)
    loss = np.array([entry["loss"] for entry in tuning.trace], dtype=float)
    figure = _pictures.trace(tried, loss, list(paths.values()))
    figure["data"].append(figures.chosen_star(tuning.params["C"], tuning.params["gamma"]))
    return _named(figure, "C", "gamma")


def _named(figure: figures.Figure, first: str, second: str) -> figures.Figure:
    for axis, name in (("xaxis", first), ("yaxis", second)):
        places = np.concatenate([np.asarray(trace[axis[0]]) for trace in figure["data"]])
        ticks: dict[str, Any] = {"dtick": 1.0 if np.ptp(places) >= 2 else 0.5}
        ticks |= {"tickprefix": "10<sup>", "ticksuffix": "</sup>"}
        figure["layout"][axis]["title"]["text"] = name.rpartition("__")[2]
        figure["layout"][axis] |= ticks
    return figure
