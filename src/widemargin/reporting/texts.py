"""Sentences of a report, which explain its numbers to readers new to them."""

from __future__ import annotations

from typing import Any

from widemargin.fitted.base import is_exact

MACHINES = {
    "SVC": "soft-margin support vector machine",
    "NuSVC": "nu support vector machine",
    "LinearSVC": "linear support vector machine",
    "ReducedHullSVC": "reduced-convex-hull classifier",
    "LOOSVC": "leave-one-out machine",
    "AdaptiveMarginSVC": "adaptive-margin machine",
    "LPSVC": "linear-programming machine",
    "NuLPSVC": "nu linear-programming machine",
    "MeanFieldGPClassifier": "mean-field Gaussian process",
    "GPRegressor": "Gaussian process regression",
    "OrdinalSVC": "ordinal support vector machine",
    "SVR": "support vector regression",
    "LinearSVR": "linear support vector regression",
    "NuSVR": "nu support vector regression",
    "TubeSVR": "tube regression",
}


def how(method: str, kind: str) -> str:
    """Describe the computation of a leave-one-out error in a few words."""
    if method == "exact":
        return (
            kind.replace("exact", "exact leave-one-out")
            if is_exact(kind)
            else "leave-one-out; some fits did not converge"
        )
    if method.endswith("-fold"):
        return f"{method} cross-validation"
    return f"{'estimated' if kind == 'estimate' else kind} by {method.replace('_', ' ')}"


def comparison(found: dict[str, Any]) -> str:
    """Explain the comparison of estimators; return "" if there was none."""
    compared = [each for each in found["machines"] if each["error"] is not None]
    if not compared:
        return ""
    what = "Each model was tuned and compared" if len(compared) > 1 else "The model was tuned"
    return (
        f"{what} by leave-one-out; the one with the least error is chosen. The error of the best "
        "of several settings is a little optimistic."
        + (" The error on rows that were not trained on is not." if found["tested"] else "")
    )


def verdict(found: dict[str, Any]) -> list[str]:
    """Return the sentences of the verdict."""
    left, proof = found["leave_one_out"], found["certificate"]
    useless = "So nothing useful was learnt: a constant prediction is as good."
    unproved = "It has no certificate: it is not the solution of a convex problem."
    sentences = [
        _quality(found),
        "" if left["error"] < left["usual"] else useless,
        _test(found),
        unproved if proof is None else str(proof["words"]),
        _doubt(found),
    ]
    return [sentence for sentence in sentences if sentence]


def _quality(found: dict[str, Any]) -> str:
    left = found["leave_one_out"]
    name = f"the {found['model']['words']} ({found['model']['name']})"
    method = how(left["method"], left["kind"])
    by_weight = ", counted by weight," if found["data"]["weighted"] else ""
    if found["task"] == "regression":
        explained = left["explained"]
        return (
            f"Left out and predicted by the others, rows{by_weight} are off by {left['error']:.4g} "
            f"on average with {name}: {left['low']:.4g} to {left['high']:.4g} is the 95% interval "
            f"({method}). Always predicting the median would be off by {left['usual']:.4g}."
            + ("" if explained is None else f" It explains {explained:.0%} of the variance.")
        )
    return (
        f"Left out and predicted by the others, {left['wrong']:,} of {left['rows']:,} rows are "
        f"wrong with {name}. That is {percent(left['error'])}{by_weight} with a 95% interval of "
        f"{percent(left['low'])} to {percent(left['high'])} ({method}). Always predicting the "
        f"largest class would be wrong on {percent(left['usual'])}."
    )


def _test(found: dict[str, Any]) -> str:
    tested = found["tested"]
    if not tested:
        return ""
    rows = f"{tested['rows']:,} rows that were not trained on"
    if found["task"] == "regression":
        interval = f"{tested['low']:.4g} to {tested['high']:.4g}"
        return f"On {rows} it is off by {tested['error']:.4g} on average ({interval})."
    interval = f"{percent(tested['low'])} to {percent(tested['high'])}"
    return f"On {rows} it is wrong on {percent(tested['error'])} ({interval})."


def certificate(proof: dict[str, Any]) -> str:
    """Explain what a certificate proves."""
    gap = proof["relative_gap"]
    if gap is None or (gap >= 1.0 and not proof["converged"]):
        return "The fit stopped early: nothing is proved about how far it is from the best one."
    size = "rounding error" if gap <= 0 else f"{gap:.0e} of its value"
    if proof["converged"]:
        return (
            "The fit is proved to be optimal: no other parameters of this machine reach an "
            f"objective that is better by more than {size}."
        )
    return f"The fit stopped early: its objective is proved to be within {size} of the best one."


def _doubt(found: dict[str, Any]) -> str:
    if found["task"] == "regression" or not found["suspects"]:
        return ""
    first = found["suspects"][0]
    return (
        f"The most suspicious label is that of row {first['row']:,}: it is {first['label']}, but "
        f"the model fitted without this row predicts {first['left_out']}."
    )


def percent(rate: float) -> str:
    """Format a rate as a percentage, with one more digit if it is small."""
    return f"{rate:.1%}" if rate >= 0.0005 or rate == 0 else f"{rate:.2%}"


def code(found: dict[str, Any]) -> str:
    """Return Python code that fits the same model."""
    model, data = found["model"], found["data"]
    name, arguments = model["name"], model["arguments"]
    lines = ["import numpy as np"] if "np." in arguments else []
    if not model["standardised"]:
        lines += [f"from widemargin import {name}", "", f"model = {name}({arguments}).fit(X, y)"]
        return "\n".join(lines)
    regression = found["task"] == "regression"
    inputs = "one input" if data["inputs"] == 1 else f"{data['inputs']:,} inputs"
    if regression:
        lines.append("from sklearn.compose import TransformedTargetRegressor")
    lines += [
        "from sklearn.pipeline import make_pipeline",
        "from sklearn.preprocessing import StandardScaler",
        f"from widemargin import {name}{'' if regression else ', loo'}",
        "",
        f"# X: the {inputs} of the report; y: {data['target']!r}",
        f"machine = {name}({arguments})",
    ]
    if regression:
        lines.append("machine = TransformedTargetRegressor(machine, transformer=StandardScaler())")
    lines += ["model = make_pipeline(StandardScaler(), machine).fit(X, y)"]
    return "\n".join(lines if regression else [*lines, "print(loo.result(model))"])
