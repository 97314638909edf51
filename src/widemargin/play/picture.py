"""Fits of the playground, and the data of the picture that the page shows."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin._base.multiclass import class_pairs, combine
from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray
from widemargin._base.validation import require
from widemargin.estimators._base.inspection import pair_values, votes_by_pairs
from widemargin.fitted.record import find_model, find_record
from widemargin.play.catalogue import CatalogueEntry, machine_named
from widemargin.reporting.strengths import strengths

MOST_POINTS = 400
MOST_CLASSES = 5
EXTENT = 2.0  # the picture covers [-EXTENT, EXTENT] in both directions
GRID = 81  # grid points along one side of the picture; the page interpolates between them
PIXELS = 201  # the same for more than two classes, interpolated here: the page gets class codes
MOST_NOTES, LONGEST_NOTE = 3, 300
DECIMALS = 4  # of coordinates; finer than a pixel
QUICK_CLASSES = 3  # beyond, leave-one-out is slow because of the number of pairs of classes
MOST_REFITS = 120  # beyond, models without a solution path use cross-validation


@dataclass(frozen=True)
class Question:
    """Validated request of the page: points, labels, estimator and its parameters."""

    points: FloatArray
    labels: IntArray
    machine: CatalogueEntry
    parameters: dict[str, Any]

    def estimator(self) -> Any:
        """Return the unfitted estimator."""
        return self.machine.estimator(**self.parameters)


def read_question(given: Any) -> Question:
    """Validate a request; raise a ValueError that names the invalid value."""
    require(isinstance(given, Mapping), "the request", type(given).__name__, "a JSON object")
    machine = machine_named(given.get("machine"))
    params = given.get("params", {})
    require(isinstance(params, Mapping), "params", params, "a JSON object")
    rows = given.get("points")
    listed = isinstance(rows, list) and 1 < len(rows) <= MOST_POINTS
    told = f"{len(rows)} points" if isinstance(rows, list) else rows
    require(listed, "points", told, f"a list of 2 to {MOST_POINTS} triples [x, y, class]")
    assert isinstance(rows, list)
    points = np.empty((len(rows), 2))
    labels = np.empty(len(rows), dtype=np.intp)
    for i, row in enumerate(rows):
        _check_point(i, row)
        points[i], labels[i] = np.round(row[:2], DECIMALS), row[2]
    several = len(np.unique(labels)) > 1
    require(several, "points", "points of one class", "points of two classes or more")
    return Question(points, labels, machine, machine.parameters(params))


def _check_point(i: int, row: Any) -> None:
    triple = isinstance(row, list) and len(row) == 3
    numbers = triple and all(
        isinstance(v, int | float) and not isinstance(v, bool) and abs(v) <= EXTENT for v in row[:2]
    )
    coded = numbers and type(row[2]) is int and 0 <= row[2] < MOST_CLASSES
    fix = f"[x, y, class] with x and y within {EXTENT:g} of 0, class 0 to {MOST_CLASSES - 1}"
    require(bool(coded), f"points[{i}]", row, fix)


class NoMachineError(Exception):
    """Raised if a request is valid, but its points do not allow a fit."""


@dataclass(frozen=True)
class Fitted:
    """Fitted model with its request and the warnings of the fit."""

    model: Any
    question: Question
    notes: list[str]


def fit(question: Question) -> Fitted:
    """Fit the requested estimator; raise NoMachineError if the points do not allow it."""
    # One thread: with so few points, synchronisation would take longer than the fit.
    with warnings.catch_warnings(record=True) as caught, worker_threads():
        warnings.simplefilter("always")
        try:
            model = question.estimator().fit(question.points, question.labels)
        except ValueError as error:
            raise NoMachineError(_short(str(error))) from error
    return Fitted(model, question, [_short(str(w.message)) for w in caught][:MOST_NOTES])


def draw(fitted: Fitted) -> dict[str, Any]:
    """Return the picture of a model: decision surface, strengths, certificate, leave-one-out.

    Leave-one-out is None unless it is fast; the page then requests it separately once the points
    stop changing. Strengths are None for a model without coefficients of samples.
    """
    model = fitted.model
    slow = _trains_again(model) or len(model.classes_) > QUICK_CLASSES
    with worker_threads():
        return {
            "classes": [int(c) for c in model.classes_],
            "landscape": _landscape(model),
            "strength": _strength(model, len(fitted.question.labels)),
            "certificate": _certificate(fitted),
            "leave_one_out": None if slow else leave_one_out(fitted),
            "notes": fitted.notes,
        }


def _trains_again(model: Any) -> bool:
    kept = find_model(model)
    return kept is not None and kept.retrains


def leave_one_out(fitted: Fitted) -> dict[str, Any]:
    """Return the leave-one-out errors, or the reason why they are not available."""
    record = find_record(fitted.model)
    if record is None:
        return {"problem": "not known: this model would have to be refitted for each point"}
    many = _trains_again(fitted.model) and len(fitted.question.labels) > MOST_REFITS
    try:
        found = record.result("folds" if many else "auto")
    except ValueError as error:
        return {"problem": _short(str(error))}
    wrong = np.flatnonzero(np.asarray(found.errors, dtype=bool))
    return {
        "kind": found.kind,
        "exact": found.is_exact,
        "method": found.method,
        "error": found.error,
        "rows": [int(i) for i in wrong],
    }


def _landscape(model: Any) -> dict[str, Any]:
    """Return the decision surface: values for two classes, else predicted class and its lead.

    Votes of one-vs-one are discontinuous. Therefore the pairwise decision values are interpolated
    first, and votes are counted afterwards.
    """
    axis = np.linspace(-EXTENT, EXTENT, GRID)
    across, down = np.meshgrid(axis, -axis)  # the rows of the image run downwards
    places = np.column_stack([across.ravel(), down.ravel()])
    if len(model.classes_) == 2:
        return {"values": _packed(model.decision_function(places), "<f4")}
    if votes_by_pairs(model):
        values = _refined(pair_values(model, places))
        winner = combine(values, len(model.classes_)).argmax(axis=1)
        lead = _smallest_win(values, winner, len(model.classes_))
    else:
        scores = _refined(model.decision_function(places))
        winner = scores.argmax(axis=1)
        ordered = np.partition(scores, -2, axis=1)
        lead = ordered[:, -1] - ordered[:, -2]
    unit = max(float(np.quantile(lead, 0.75)), float(np.finfo(np.float64).tiny))
    shade = np.round(255 * np.minimum(lead / unit, 1.0))
    return {"winner": _packed(winner, "u1"), "lead": _packed(shade, "u1")}


def _smallest_win(values: FloatArray, winner: IntArray, n_classes: int) -> FloatArray:
    """Return the smallest pairwise decision value of the winner, at least 0."""
    lead = np.full(len(values), np.inf)
    for k, (positive, negative) in enumerate(class_pairs(n_classes)):
        for own, sign in ((positive, 1.0), (negative, -1.0)):
            rows = winner == own
            lead[rows] = np.minimum(lead[rows], sign * values[rows, k])
    return np.maximum(lead, 0.0)


def _refined(values: FloatArray) -> FloatArray:
    """Interpolate values bilinearly from the grid to all pixels of the picture."""
    place = np.linspace(0, GRID - 1, PIXELS)
    whole = np.minimum(place.astype(np.intp), GRID - 2)
    weights = np.zeros((PIXELS, GRID), dtype=np.float32)
    rows = np.arange(PIXELS)
    weights[rows, whole] = 1 - (place - whole)
    weights[rows, whole + 1] = place - whole
    layers = values.T.astype(np.float32).reshape(-1, GRID, GRID)
    return (weights @ layers @ weights.T).reshape(len(layers), -1).T


def _packed(values: Any, kind: str) -> str:
    """Encode numbers in base64, about a third of the size of JSON."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


def _strength(model: Any, n: int) -> list[float] | None:
    """Return the embedding strength of each point, relative to the largest one."""
    size = strengths(model, n)
    if size is None:
        return None
    largest = float(size.max(initial=0.0))
    share = size / largest if largest > 0 else size
    return [round(float(s), DECIMALS) for s in share]


def _certificate(fitted: Fitted) -> dict[str, Any]:
    """Return the certificate, or the reason why there is none."""
    found = getattr(fitted.model, "certificate_", None)
    if found is None:
        usual = "it is not the solution of a convex problem"
        return {"problem": fitted.question.machine.uncertified or usual}
    return {
        "primal": found.primal,
        "dual": found.dual,
        "relative_gap": found.relative_gap,
        "converged": bool(found.converged),
    }


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_NOTE else text[: LONGEST_NOTE - 1] + "…"
