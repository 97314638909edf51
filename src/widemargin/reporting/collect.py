"""From a subject to a plain dictionary: everything that a report shows, and nothing else.

The dictionary is JSON-able; ``widemargin report --json`` prints it. Its numbers are unrounded, its
texts are those of the page.
"""

from __future__ import annotations

import math
import platform
from importlib.metadata import version
from typing import Any

import numpy as np

from widemargin._typing import BoolArray, FloatArray
from widemargin.assess.doubt import evidence
from widemargin.assess.record import record_of
from widemargin.reporting import words
from widemargin.reporting.statistics import plane, reliability, wilson
from widemargin.reporting.subject import Subject

FORMAT = "widemargin-report-1"
MOST_SUSPECTS = 12
MOST_SHOWN_COLUMNS = 8
MOST_POINTS = 2_000  # of a picture
BINS = 10  # of a calibration curve
LONGEST_VALUE = 80  # characters of a value in a table
PACKAGES = ("widemargin", "numpy", "scipy", "scikit-learn", "numba")


def collect(subject: Subject) -> dict[str, Any]:
    """Return what a report says about a fitted machine."""
    margins, predicted = _margins(subject)
    found: dict[str, Any] = {
        "format": FORMAT,
        "task": subject.task,
        "data": _data(subject),
        "model": _model(subject),
        "leave_one_out": _leave_one_out(subject),
        "tested": _tested(subject),
        "certificate": _certificate(subject),
        "machines": [_machine(c, subject) for c in subject.candidates],
        "margins": _margin_distribution(subject, margins),
        "calibration": _calibration(subject),
        "strengths": _strengths(subject),
        "suspects": _suspects(subject, margins, predicted),
        "projection": _projection(subject, predicted),
        "landscape": _landscape(subject),
        "relevance": _relevance(subject),
        "notes": list(subject.notes),
        "reproduction": _reproduction(subject),
    }
    found["code"] = words.code(found)
    found["verdict"] = words.verdict(found)
    return found


def _errors(subject: Subject) -> BoolArray:
    return np.asarray(subject.result.errors, dtype=bool)


def _margins(subject: Subject) -> tuple[FloatArray, Any]:
    """Return the left-out margin of each row's label and what is predicted of it instead.

    For regression minus the absolute error, and the left-out value.
    """
    values = subject.result.values
    assert values is not None
    training = record_of(subject.machine).require_kept("report")
    if len(values) != len(training.data.given_y):  # rows without weight are not shown
        seen = training.data.given_weight > 0
        whole = np.zeros((len(seen), *values.shape[1:]))
        whole[seen] = values
        margin, predicted = evidence(training, whole)
        return margin[seen], predicted[seen]
    return evidence(training, values)


def _data(subject: Subject) -> dict[str, Any]:
    found: dict[str, Any] = {
        "source": subject.source,
        "target": subject.target,
        "rows": len(subject.y),
        "inputs": len(subject.names),
        "columns": list(subject.table),
    }
    if subject.task == "regression":
        centre, spread = subject.scale
        y = subject.y * spread + centre
        quartiles = np.quantile(y, [0, 0.25, 0.5, 0.75, 1])
        found["target_summary"] = {"mean": float(y.mean()), "deviation": float(y.std())}
        found["target_summary"] |= {"quartiles": [float(q) for q in quartiles]}
    else:
        labels, counts = np.unique(subject.y, return_counts=True)
        sizes = [{"label": str(k), "rows": int(n)} for k, n in zip(labels, counts, strict=True)]
        found["classes"] = sizes
        found["largest_share"] = float(counts.max() / counts.sum())
    return found


def _model(subject: Subject) -> dict[str, Any]:
    machine = subject.machine
    usual = type(machine)().get_params()
    changed = {k: v for k, v in machine.get_params().items() if not _same(v, usual[k])}
    parameters = {name: _plain(value) for name, value in changed.items()}
    gamma = getattr(machine, "gamma_", None)
    return {
        "name": type(machine).__name__,
        "words": words.machine(type(machine).__name__),
        "parameters": parameters,
        "gamma": None if gamma is None else _plain(gamma),
        "support": _support(machine, len(subject.y)),
        "standardised": bool(subject.candidates),
    }


def _support(machine: Any, n: int) -> dict[str, Any] | None:
    if hasattr(machine, "support_"):
        return {"rows": len(machine.support_), "share": len(machine.support_) / n}
    return None


def _leave_one_out(subject: Subject) -> dict[str, Any]:
    result = subject.result
    found: dict[str, Any] = {"method": result.method, "kind": result.kind, "rows": len(subject.y)}
    if subject.task == "regression":
        _, spread = subject.scale
        y, values = subject.y, result.values
        assert values is not None
        squared = float(np.mean((y - values) ** 2))
        found["error"] = result.error * spread
        found["explained"] = 1 - squared / max(float(np.var(y)), np.finfo(float).tiny)
        found["usual"] = float(np.mean(np.abs(y - np.median(y)))) * spread
        return found
    wrong = int(np.count_nonzero(_errors(subject)))
    low, high = wilson(wrong, len(subject.y))
    return {**found, "error": result.error, "wrong": wrong, "low": low, "high": high}


def _tested(subject: Subject) -> dict[str, Any] | None:
    if not subject.tested:
        return None
    found: dict[str, Any] = dict(subject.tested)
    if subject.task != "regression":
        low, high = wilson(found["error"] * found["rows"], found["rows"])
        found |= {"low": low, "high": high}
    return found


def _certificate(subject: Subject) -> dict[str, Any] | None:
    proof = getattr(subject.machine, "certificate_", None)
    if proof is None:
        return None
    found = {
        "problem": proof.problem,
        "primal": proof.primal,
        "dual": proof.dual,
        "relative_gap": proof.relative_gap,
        "kkt_violation": proof.kkt_violation,
        "converged": bool(proof.converged),
        "n_iter": int(proof.n_iter),
        "problems": len(getattr(subject.machine, "certificates_", [proof])),
    }
    return {**found, "words": words.certificate(found)}


def _machine(candidate: Any, subject: Subject) -> dict[str, Any]:
    """Return a line of the comparison."""
    result = candidate.result
    found = {
        "name": candidate.name,
        "parameters": {name: _plain(value) for name, value in candidate.params.items()},
        "seconds": candidate.seconds,
        "reason": candidate.reason,
        "chosen": candidate.model is subject.machine,
    }
    if result is None:
        return {**found, "error": None}
    unit = subject.scale[1] if subject.task == "regression" else 1.0
    support = _support(candidate.model, len(subject.y))
    return {
        **found,
        "error": result.error * unit,
        "method": result.method,
        "kind": result.kind,
        "support": None if support is None else support["rows"],
    }


def _margin_distribution(subject: Subject, margins: FloatArray) -> dict[str, Any]:
    """Return the left-out margins (for regression: errors), smallest first."""
    if subject.task == "regression":
        assert subject.result.values is not None
        centre, spread = subject.scale
        y, left_out = subject.y * spread + centre, subject.result.values * spread + centre
        keep = _sample(len(y))
        return {"truth": _listed(y[keep]), "left_out": _listed(left_out[keep])}
    return {"values": _listed(np.sort(margins))}


def _calibration(subject: Subject) -> dict[str, Any] | None:
    """Return how honest the probabilities of two classes are, row by row left out."""
    machine = subject.machine
    if subject.task == "regression" or len(machine.classes_) != 2:
        return None
    if hasattr(machine, "loo_proba_"):
        probability = machine.loo_proba_[:, 1]
    elif hasattr(machine, "_calibrations"):
        try:
            probability = machine._calibrations()[0].probability(subject.result.values)
        except ValueError:
            return None
    else:
        return None
    if len(probability) != len(subject.y):
        return None
    happened = subject.y == machine.classes_[1]
    p = np.clip(np.where(happened, probability, 1 - probability), 1e-300, 1.0)
    return {
        "class": str(machine.classes_[1]),
        "bins": reliability(probability, happened, BINS),
        "log_loss": float(-np.mean(np.log(p))),
        "brier": float(np.mean((probability - happened) ** 2)),
    }


def _strengths(subject: Subject) -> dict[str, Any] | None:
    """Return the size of each row's coefficient, largest first, and which are left out wrong."""
    size = strengths(subject.machine, len(subject.y))
    if size is None:
        return None
    order = np.argsort(-size, kind="stable")
    wrong = np.zeros(len(size), dtype=bool)
    if subject.task != "regression":
        wrong = _errors(subject)
    return {"values": _listed(size[order]), "wrong": [bool(w) for w in wrong[order]]}


def strengths(machine: Any, n: int) -> FloatArray | None:
    """Return the largest coefficient, in size, that each training row has in any machine."""
    if hasattr(machine, "alpha_"):
        size = np.abs(np.atleast_2d(machine.alpha_)).max(axis=0)
    elif hasattr(machine, "dual_coef_") and hasattr(machine, "support_"):
        coefficients = machine.dual_coef_
        dense = coefficients.toarray() if hasattr(coefficients, "toarray") else coefficients
        data = record_of(machine).require_kept("report").data
        size = np.zeros(len(data.given_y))
        size[machine.support_] = np.abs(np.atleast_2d(dense)).max(axis=0)
    else:
        return None
    return size if len(size) == n else None


def _suspects(subject: Subject, margins: FloatArray, predicted: Any) -> list[dict[str, Any]]:
    """Return the rows whose label the other rows contradict most."""
    centre, spread = subject.scale
    number = subject.task == "regression"
    found = []
    for i in np.argsort(margins, kind="stable")[:MOST_SUSPECTS]:
        if not number and not _errors(subject)[i]:
            break
        label, instead = subject.y[i], predicted[i]
        if number:
            label, instead = label * spread + centre, instead * spread + centre
        columns = list(subject.table)[:MOST_SHOWN_COLUMNS]
        found.append(
            {
                "row": int(subject.row_numbers[i]) + 1,
                "label": _shown(label),
                "left_out": _shown(instead),
                "margin": float(margins[i] * spread) if number else float(margins[i]),
                "values": {name: _shown(subject.table[name][i]) for name in columns},
            }
        )
    return found


def _projection(subject: Subject, predicted: Any) -> dict[str, Any]:
    """Return the rows as points of a plane."""
    points, axes, share = plane(subject.X, subject.names)
    keep = _sample(len(points))
    size = strengths(subject.machine, len(subject.y))
    if len(subject.names) == 1:  # one input: what is predicted makes the second axis
        spread_out = predicted if subject.task == "regression" else np.zeros(len(points))
        points = np.column_stack([points[:, 0], np.asarray(spread_out, dtype=float)])
        axes = [axes[0], "left-out prediction" if subject.task == "regression" else ""]
    number = subject.task == "regression"
    centre, spread = subject.scale
    return {
        "axes": axes,
        "share": share,
        "x": _listed(points[keep, 0]),
        "y": _listed(points[keep, 1]),
        "label": _listed(subject.y[keep] * spread + centre)
        if number
        else [str(label) for label in subject.y[keep]],
        "row": [int(r) + 1 for r in subject.row_numbers[keep]],
        "support": None if size is None else [bool(s > 0) for s in size[keep]],
        "wrong": None if number else [bool(w) for w in _errors(subject)[keep]],
    }


def _landscape(subject: Subject) -> dict[str, Any] | None:
    land = subject.landscape
    if land is None:
        return None
    unit = subject.scale[1] if subject.task == "regression" else 1.0
    soft = next(c for c in subject.candidates if c.name in ("SVC", "SVR"))
    return {
        "machine": soft.name,
        "C": land.costs,
        "gamma": land.gammas,
        "error": [_listed(row * unit) for row in land.error],
        "rows": land.n_rows,
        "chosen": {"C": float(soft.params["C"]), "gamma": float(soft.params["gamma"])},
    }


def _relevance(subject: Subject) -> list[dict[str, Any]] | None:
    """Return how much each input counts, where each has a gamma of its own."""
    gamma = np.atleast_1d(getattr(subject.machine, "gamma_", np.nan))
    if len(gamma) != len(subject.names) or len(gamma) < 2:
        return None
    share = gamma * subject.X.var(axis=0)
    share = share / max(float(share.sum()), np.finfo(float).tiny)
    order = np.argsort(-share, kind="stable")
    return [{"input": subject.names[j], "share": float(share[j])} for j in order]


def _reproduction(subject: Subject) -> dict[str, Any]:
    packages = {name: version(name) for name in PACKAGES}
    return {"python": platform.python_version(), "packages": packages, "seed": subject.seed}


def _sample(n: int) -> Any:
    """Return the rows that a picture shows: all, or evenly spread ones."""
    return np.unique(np.linspace(0, n - 1, min(n, MOST_POINTS)).astype(np.intp))


def _listed(values: Any) -> list[float | None]:
    """Return numbers as JSON has them: what is not finite is null."""
    return [float(v) if math.isfinite(v) else None for v in values]


def _plain(value: Any) -> Any:
    """Return a parameter as JSON has it."""
    if isinstance(value, np.ndarray):
        return _listed(value.ravel())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value)


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and bool(np.all(value == other))


def _shown(value: Any) -> str:
    """Return a value as a person reads it, cut where it is very long."""
    if isinstance(value, float | np.floating):
        return "–" if math.isnan(value) else f"{float(value):.4g}"
    text = str(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
