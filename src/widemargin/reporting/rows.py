"""Per-sample results of a report: margins, probabilities, strengths, positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray, IntArray
from widemargin.fitted.record import record_of
from widemargin.reporting.plain import listed, shown
from widemargin.reporting.statistics import plane, reliability
from widemargin.reporting.strengths import are_shares
from widemargin.reporting.subject import Subject

MOST_SUSPECTS = 12
MOST_SHOWN_COLUMNS = 8
MOST_POINTS = 2_000  # per figure
BINS = 10  # of a calibration curve


def margin_distribution(subject: Subject) -> dict[str, Any]:
    """Return the sorted leave-one-out margins; in regression, targets and predictions."""
    if subject.task == "regression":
        keep = _sample(len(subject.y))
        truth, left_out = subject.in_units(subject.y), subject.in_units(subject.values)
        return {"truth": listed(truth[keep]), "left_out": listed(left_out[keep])}
    return {"values": listed(np.sort(subject.evidence()[0]))}


def calibration(subject: Subject) -> dict[str, Any] | None:
    """Return the calibration of leave-one-out probabilities; None unless there are two classes."""
    machine = subject.machine
    if subject.task == "regression" or len(machine.classes_) != 2:
        return None
    found = _left_out_probability(subject)
    if found is None:
        return None
    probability, fitted = found
    happened = subject.y == machine.classes_[1]
    given = np.clip(np.where(happened, probability, 1 - probability), 1e-300, 1.0)
    return {
        "class": str(machine.classes_[1]),
        "fitted": fitted,
        "bins": reliability(probability, happened, BINS),
        "log_loss": float(np.average(-np.log(given), weights=subject.weight)),
        "brier": float(np.average((probability - happened) ** 2, weights=subject.weight)),
    }


def _left_out_probability(subject: Subject) -> tuple[FloatArray, str] | None:
    """Return leave-one-out probabilities of the second class, and what the data calibrated."""
    machine = subject.machine
    if hasattr(machine, "loo_proba_"):
        return machine.loo_proba_[subject.seen, 1], "their one scale"
    if not hasattr(machine, "calibration"):
        return None
    try:
        curve = record_of(machine).calibrations(machine.calibration)[0]
    except ValueError:  # too few samples for a calibration
        return None
    return curve.probability(subject.values), "the curve that turns values into probabilities"


def embedding(subject: Subject) -> dict[str, Any] | None:
    """Return the embedding strengths, largest first, and which samples are leave-one-out errors."""
    size = subject.strengths()
    if size is None:
        return None
    order = np.argsort(-size, kind="stable")
    return {
        "values": listed(size[order]),
        "wrong": [bool(w) for w in subject.wrong[order]],
        "shares": are_shares(subject.machine),
    }


def suspects(subject: Subject) -> list[dict[str, Any]]:
    """Return the suspects; in regression, the samples with the largest leave-one-out errors."""
    margins, predicted = subject.evidence()
    regression = subject.task == "regression"
    unit = subject.scale[1] if regression else 1.0
    size = subject.strengths()
    largest = 1.0 if size is None else max(float(size.max()), np.finfo(float).tiny)
    names = list(subject.table)[:MOST_SHOWN_COLUMNS]
    candidates = np.arange(len(margins)) if regression else np.flatnonzero(subject.wrong)
    order = candidates[np.argsort(margins[candidates], kind="stable")]
    found = []
    for i in order[:MOST_SUSPECTS]:
        label, instead = subject.y[i], predicted[i]
        if regression:
            label, instead = subject.in_units(label), subject.in_units(instead)
        entry = {
            "row": int(subject.row_numbers[i]) + 1,
            "label": shown(label),
            "left_out": shown(instead),
            "margin": float(margins[i] * unit),
            "strength": None if size is None else float(size[i] / largest),
            "values": {name: shown(subject.table[name][i]) for name in names},
        }
        found.append(entry)
    return found


def projection(subject: Subject) -> dict[str, Any] | None:
    """Return the samples projected to a plane; None if there are no features."""
    if subject.X is None:
        return None
    points, axes, share = plane(subject.X, subject.names)
    regression = subject.task == "regression"
    if regression and len(subject.names) == 1:  # the prediction is the second axis
        points[:, 1] = subject.in_units(subject.values)
        axes = [axes[0], "leave-one-out prediction"]
    keep = _sample(len(points))
    size = subject.strengths()
    if size is not None and np.all(size > 0):  # no use in ringing every sample
        size = None
    labels = subject.y[keep]
    return {
        "axes": axes,
        "share": share,
        "x": listed(points[keep, 0]),
        "y": listed(points[keep, 1]),
        "label": listed(subject.in_units(labels)) if regression else [str(y) for y in labels],
        "row": [int(r) + 1 for r in subject.row_numbers[keep]],
        "support": None if size is None else [bool(s > 0) for s in size[keep]],
        "wrong": None if regression else [bool(w) for w in subject.wrong[keep]],
    }


def _sample(n: int) -> IntArray:
    """Return the indices of the samples in a figure: all, or MOST_POINTS evenly spaced ones."""
    return np.unique(np.linspace(0, n - 1, min(n, MOST_POINTS)).astype(np.intp))
