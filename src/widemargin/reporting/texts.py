"""Texts of a report: explain its numbers to readers who have not met them before."""

from __future__ import annotations

from typing import Any

MACHINES = {
    "SVC": "soft-margin support vector machine",
    "NuSVC": "soft-margin machine with a share of margin errors",
    "LinearSVC": "linear support vector machine",
    "ReducedHullSVC": "machine of reduced convex hulls",
    "LOOSVC": "leave-one-out machine",
    "AdaptiveMarginSVC": "adaptive-margin machine",
    "LPSVC": "linear-programming machine",
    "NuLPSVC": "linear-programming machine with a share of margin errors",
    "MeanFieldGPClassifier": "Gaussian process by mean field",
    "OrdinalSVC": "machine of ordered classes",
    "SVR": "support vector regression",
    "NuSVR": "support vector regression with a share of errors",
    "TubeSVR": "tube regression",
}


def how(method: str, kind: str) -> str:
    """Return how a leave-one-out error was found, in a few words."""
    if method == "exact":
        return "each row left out" + (", exactly" if kind == "exact" else "; some not to the end")
    if method.endswith("-fold"):
        return f"{method} cross-validation"
    return f"{'estimated' if kind == 'estimate' else kind} by {method.replace('_', ' ')}"


def comparison(found: dict[str, Any]) -> str:
    """Return what the comparison of machines means; "" where there was none."""
    compared = [each for each in found["machines"] if each["error"] is not None]
    if not compared:
        return ""
    what = "Each machine was tuned and judged" if len(compared) > 1 else "The machine was tuned"
    return (
        f"{what} by leaving rows out; the least error wins. The best of several settings is "
        "reported, so its error is a little optimistic."
        + (" The error on rows that were not trained on is not." if found["tested"] else "")
    )


def verdict(found: dict[str, Any]) -> list[str]:
    """Return the first sentences of the page."""
    left, proof = found["leave_one_out"], found["certificate"]
    useless = "So nothing useful was learnt: a constant answer is as good."
    unproved = "It has no certificate: its equations are not those of an optimum."
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
            f"({method}). Always saying the median would be off by {left['usual']:.4g}."
            + ("" if explained is None else f" It explains {explained:.0%} of the variance.")
        )
    return (
        f"Left out and predicted by the others, {left['wrong']:,} of {left['rows']:,} rows are "
        f"wrong with {name}. That is {percent(left['error'])}{by_weight} with a 95% interval of "
        f"{percent(left['low'])} to {percent(left['high'])} ({method}). Always saying the largest "
        f"class would be wrong on {percent(left['usual'])}."
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
    """Return what a certificate proves."""
    gap = proof["relative_gap"]
    if gap is None:
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
        f"The label most in doubt is that of row {first['row']:,}: it says {first['label']}, the "
        f"other rows say {first['left_out']}."
    )


def percent(rate: float) -> str:
    """Return a rate as a percentage, with a digit more where it is small."""
    return f"{rate:.1%}" if rate >= 0.0005 or rate == 0 else f"{rate:.2%}"


def code(found: dict[str, Any]) -> str:
    """Return how to train the same model in Python."""
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
