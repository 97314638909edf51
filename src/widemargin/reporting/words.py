"""The sentences of a report: what its numbers mean, for somebody who has not met them before."""

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


def machine(name: str) -> str:
    """Return what a machine is called in a sentence."""
    return MACHINES.get(name, name)


def verdict(found: dict[str, Any]) -> list[str]:
    """Return the first sentences of the page."""
    sentences = [_quality(found)]
    if found["tested"]:
        sentences.append(_test(found))
    proof = found["certificate"]
    if proof is not None:
        sentences.append(proof["words"])
    sentences.append(_doubt(found))
    return [s for s in sentences if s]


def _quality(found: dict[str, Any]) -> str:
    left, data = found["leave_one_out"], found["data"]
    name = f"the {found['model']['words']} ({found['model']['name']})"
    if found["task"] == "regression":
        return (
            f"Left out and predicted by the others, rows are off by {left['error']:.4g} on "
            f"average with {name}; always saying the median would be off by {left['usual']:.4g}. "
            f"It explains {left['explained']:.0%} of the variance."
        )
    return (
        f"Left out and predicted by the others, {left['wrong']:,} of {left['rows']:,} rows are "
        f"wrong with {name}: {percent(left['error'])}, give or take ({percent(left['low'])} to "
        f"{percent(left['high'])}). Always saying the largest class would be wrong on "
        f"{percent(1 - data['largest_share'])}."
    )


def _test(found: dict[str, Any]) -> str:
    tested = found["tested"]
    rows = f"{int(tested['rows']):,} rows that were not trained on"
    if found["task"] == "regression":
        return f"On {rows} it is off by {tested['error']:.4g} on average."
    return f"On {rows} it is wrong on {percent(tested['error'])}."


def certificate(proof: dict[str, Any]) -> str:
    """Return what a certificate proves."""
    gap = proof["relative_gap"]
    size = "no measurable distance" if gap <= 0 else f"{gap:.0e}"
    if proof["converged"]:
        return (
            f"The fit is proved to be optimal: no other parameters of this machine reach an "
            f"objective that is better by more than {size} of its value."
        )
    return f"The fit stopped early: its objective is proved to lie within {size} of the best one."


def _doubt(found: dict[str, Any]) -> str:
    n = len(found["suspects"])
    if found["task"] == "regression" or n == 0:
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
    model = found["model"]
    arguments = ", ".join(f"{name}={_literal(v)}" for name, v in model["parameters"].items())
    name = model["name"]
    arrays = "import numpy as np\n" if "np.array" in arguments else ""
    if not model["standardised"]:
        return f"{arrays}from widemargin import {name}\n\nmodel = {name}({arguments}).fit(X, y)"
    return (
        f"{arrays}"
        "from sklearn.pipeline import make_pipeline\n"
        "from sklearn.preprocessing import StandardScaler\n"
        f"from widemargin import {name}, loo\n\n"
        f"model = make_pipeline(StandardScaler(), {name}({arguments}))\n"
        "model.fit(X, y)\n"
        "print(loo.result(model))"
    )


def _literal(value: Any) -> str:
    """Return a parameter as Python code; a long list of gammas on lines of its own would be one."""
    if isinstance(value, list):
        return "np.array([" + ", ".join(f"{v:.6g}" for v in value) + "])"
    return repr(value)
