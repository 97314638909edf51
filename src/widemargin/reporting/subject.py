"""What a report is about: a fitted machine, the rows it was trained on, and its leave-one-out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_regressor

from widemargin._typing import FloatArray, IntArray
from widemargin.assess import loo
from widemargin.assess.record import record_of
from widemargin.reporting.preparation import Task
from widemargin.reporting.study import Candidate, Landscape, Study
from widemargin.sources.encoding import Target

MOST_DENSE = 50_000_000  # entries of a sparse matrix that may be shown as a dense one


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted machine with all that a report says of it.

    Attributes
    ----------
    machine : estimator
        Fitted, with its training record.
    X : ndarray of shape (n, n_inputs)
        Rows as the machine sees them.
    y : ndarray of shape (n,)
        Labels, or numbers in the machine's units.
    names : list of str
        Of the columns of X.
    task : {"classification", "ordered", "regression"}
        What was learnt.
    result : LOOResult
        Leave-one-out.
    source, target : str
        Where the data came from; what is predicted.
    row_numbers : ndarray of shape (n,)
        What the source calls the rows, counted from 0.
    table : mapping of str to sequence
        The rows as a person would read them, by column.
    scale : (float, float)
        Regression: centre and spread of the target, to turn the machine's units into the user's.
    notes : list of str
        What a reader must know.
    candidates : list of Candidate
        Machines that were compared; none for a model that came fitted.
    landscape : Landscape or None
        Leave-one-out error over the parameters.
    tested : dict
        Error on rows that were not trained on; empty where there are none.
    seed : int or None
        Of the study.
    """

    machine: Any
    X: FloatArray
    y: Target
    names: list[str]
    task: Task
    result: loo.LOOResult
    source: str
    target: str
    row_numbers: IntArray
    table: Mapping[str, Any]
    scale: tuple[float, float] = (0.0, 1.0)
    notes: list[str] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    landscape: Landscape | None = None
    tested: dict[str, float] = field(default_factory=dict)
    seed: int | None = None


def subject_of_study(study: Study) -> Subject:
    """Return the best machine of a study."""
    data, best = study.data, study.best
    assert best.result is not None
    rows = data.rows[study.trained]
    table = {
        name: [column[i] for i in rows]
        for name, column in data.table.columns.items()
        if name in data.encoding.columns
    }
    return Subject(
        best.model,
        study.standardised(study.trained),
        study.y,
        data.encoding.input_names,
        data.task,
        best.result,
        data.table.source,
        data.target,
        rows,
        table,
        (study.target_centre, study.target_spread),
        [*data.notes, *study.notes],
        study.candidates,
        study.landscape,
        _tested(study),
        study.seed,
    )


def _tested(study: Study) -> dict[str, float]:
    """Return the error of the best machine on the rows that no machine was trained on."""
    if len(study.tested) == 0:
        return {}
    y = study.data.y[study.tested]
    predicted = study.best.model.predict(study.standardised(study.tested))
    if study.data.task == "regression":
        off = np.abs(predicted * study.target_spread + study.target_centre - y)
        return {"rows": float(len(y)), "error": float(off.mean())}
    return {"rows": float(len(y)), "error": float(np.mean(predicted != y))}


def subject_of_model(est: Any) -> Subject:
    """Return a fitted estimator, or a pipeline that ends in one, with the rows it has kept."""
    machine = est[-1] if hasattr(est, "steps") else est
    training = record_of(machine).require_kept("report")
    data = training.data
    X = data.X[np.maximum(data.member, 0)]
    if sp.issparse(X):
        small = X.shape[0] * X.shape[1] <= MOST_DENSE
        X = X.toarray() if small else X[:, : MOST_DENSE // X.shape[0]].toarray()
    seen = data.given_weight > 0
    names = getattr(machine, "feature_names_in_", None)
    if hasattr(est, "steps") and len(est.steps) > 1:
        names = _names_after(est[:-1])
    names = [f"input {j + 1}" for j in range(X.shape[1])] if names is None else list(names)
    X, y = np.asarray(X[seen], dtype=np.float64), data.given_y[seen]
    task: Task = "regression" if is_regressor(machine) else "classification"
    if getattr(training, "ranks", None) is not None:
        task = "ordered"
    result = loo.result(machine)
    return Subject(
        machine,
        X,
        y,
        [str(name) for name in names],
        task,
        result if seen.all() else _without(result, seen),
        "the data that the model was fitted on",
        "the target",
        np.flatnonzero(seen),
        {str(name): X[:, j] for j, name in enumerate(names)},
    )


def _names_after(head: Any) -> Any:
    try:
        return head.get_feature_names_out()
    except (AttributeError, ValueError):  # a step that does not name its columns
        return None


def _without(result: loo.LOOResult, seen: Any) -> loo.LOOResult:
    """Return leave-one-out of the rows that have weight."""
    values = None if result.values is None else result.values[seen]
    return loo.LOOResult(
        result.method, result.kind, result.error, result.errors[seen], values, result.cost
    )
