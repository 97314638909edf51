"""The subject of a report: a fitted estimator, its training samples and its leave-one-out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_regressor

from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin.fitted.base import LOOResult
from widemargin.fitted.record import machine_of, record_of
from widemargin.reporting.preparation import Task
from widemargin.reporting.rivals import Candidate, Landscape
from widemargin.reporting.statistics import NORMAL, wilson
from widemargin.reporting.strengths import strengths
from widemargin.reporting.study import Study
from widemargin.sources.tables.encoding import Target
from widemargin.sources.tables.table import MOST_DENSE


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted machine with all that a report says of it.

    Attributes
    ----------
    machine : estimator
        Fitted, with its training record.
    seen : ndarray of bool, of shape (n_given,)
        Rows of the training data that have weight: the n rows of the report.
    X : ndarray of shape (n, n_inputs) or None
        Rows as the machine sees them; None where it sees only their kernel.
    y : ndarray of shape (n,)
        Labels, or numbers in the machine's units.
    weight : ndarray of shape (n,)
        Weights.
    names : list of str
        Of the columns of X.
    task : {"classification", "ordered", "regression"}
        What was learnt.
    result : LOOResult
        Leave-one-out of all rows that were given.
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
    tested : dict or None
        Error with its interval on rows that were not trained on; None where there are none.
    seed : int or None
        Of the study.
    """

    machine: Any
    seen: BoolArray
    X: FloatArray | None
    y: Target
    weight: FloatArray
    names: list[str]
    task: Task
    result: LOOResult
    source: str
    target: str
    row_numbers: IntArray
    table: Mapping[str, Any]
    scale: tuple[float, float] = (0.0, 1.0)
    notes: list[str] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    landscape: Landscape | None = None
    tested: dict[str, float] | None = None
    seed: int | None = None

    @property
    def values(self) -> FloatArray:
        """What the machine without the row says of each row, as its decision function does."""
        assert self.result.values is not None
        return self.result.values[self.seen]

    @property
    def wrong(self) -> BoolArray:
        """Which rows are wrong when left out; for regression none."""
        if self.task == "regression":
            return np.zeros(len(self.y), dtype=bool)
        return np.asarray(self.result.errors[self.seen], dtype=bool)

    def evidence(self) -> tuple[FloatArray, Target]:
        """Return the left-out margin of each row's label and what is predicted of it instead.

        For regression these are minus the absolute error and the left-out value.
        """
        assert self.result.values is not None
        model = record_of(self.machine).require("report")
        margins, predicted = model.label_margin(self.result.values)
        return margins[self.seen], predicted[self.seen]

    def strengths(self) -> FloatArray | None:
        """Return how strongly each row is embedded; None where rows have no coefficients."""
        found = strengths(self.machine, len(self.seen))
        return None if found is None else found[self.seen]

    def in_units(self, values: Any) -> Any:
        """Return values of a regression in the user's units."""
        centre, spread = self.scale
        return values * spread + centre


# -- the best machine of a study -----------------------------------------------------------------


def subject_of_study(study: Study) -> Subject:
    """Return the best machine of a study."""
    data, best = study.data, study.best
    assert best.result is not None
    rows = data.rows[study.trained]
    shown = data.table.rows(rows).columns
    return Subject(
        machine=best.model,
        seen=np.ones(len(rows), dtype=bool),
        X=study.standardised(study.trained),
        y=study.y,
        weight=np.ones(len(rows)),
        names=data.encoding.input_names,
        task=data.task,
        result=best.result,
        source=data.table.source,
        target=data.target,
        row_numbers=rows,
        table={name: shown[name] for name in data.encoding.columns},
        scale=(study.target_centre, study.target_spread),
        notes=[*data.notes, *study.notes],
        candidates=study.candidates,
        landscape=study.landscape,
        tested=_tested(study),
        seed=study.seed,
    )


def _tested(study: Study) -> dict[str, float] | None:
    """Return the error of the best machine on the rows that no machine was trained on."""
    n = len(study.tested)
    if n == 0:
        return None
    y = study.data.y[study.tested]
    predicted = study.best.model.predict(study.standardised(study.tested))
    if study.data.task == "regression":
        off = np.abs(predicted * study.target_spread + study.target_centre - y)
        error = float(off.mean())
        half = NORMAL * (float(off.std()) / n**0.5)
        low, high = max(0.0, error - half), error + half
    else:
        error = float(np.mean(predicted != y))
        low, high = wilson(error * n, n)
    return {"rows": n, "error": error, "low": low, "high": high}


# -- a model that comes fitted -------------------------------------------------------------------


def subject_of_model(est: Any) -> Subject:
    """Return a fitted estimator, a pipeline that ends in one, or the best one of a search."""
    est = getattr(est, "best_estimator_", est)
    machine = machine_of(est)
    record = record_of(machine)
    model = record.require("report")
    data = model.data
    seen = data.given_weight > 0
    task: Task = "regression" if is_regressor(machine) else "classification"
    if model.ordered:
        task = "ordered"
    X, names, notes = _inputs_of(est, machine, data.X[data.member[seen]])
    if not seen.all():
        notes.append(f"{np.count_nonzero(~seen):,} rows have no weight, and are not shown.")
    return Subject(
        machine=machine,
        seen=seen,
        X=X,
        y=data.given_y[seen],
        weight=data.given_weight[seen],
        names=names,
        task=task,
        result=record.result(),
        source="the data that the model was fitted on",
        target="the target",
        row_numbers=np.flatnonzero(seen),
        table={} if X is None else {name: X[:, j] for j, name in enumerate(names)},
        notes=notes,
    )


def _inputs_of(est: Any, machine: Any, X: Any) -> tuple[FloatArray | None, list[str], list[str]]:
    """Return training rows as an array, what its columns are called, and notes."""
    if getattr(machine, "kernel", "") == "precomputed":
        return None, [], ["The machine has seen a kernel matrix: there are no inputs to show."]
    n, n_inputs = X.shape
    names = getattr(machine, "feature_names_in_", None)
    if len(getattr(est, "steps", ())) > 1:
        names = _names_after(est[:-1])
    if names is None or len(names) != n_inputs:
        names = [f"input {j + 1}" for j in range(n_inputs)]
    shown, notes = n_inputs, []
    if sp.issparse(X) and n * n_inputs > MOST_DENSE:
        shown = max(1, MOST_DENSE // n)
        notes.append(f"Only {shown:,} of the {n_inputs:,} inputs are shown on the plane.")
    if sp.issparse(X):
        X = X[:, :shown].toarray()
    return np.asarray(X, dtype=np.float64), _different(names[:shown]), notes


def _names_after(head: Any) -> Any:
    """Return the names of the columns that the steps before the machine make."""
    try:
        return head.get_feature_names_out()
    except (AttributeError, ValueError):  # a step that does not name its columns
        return None


def _different(names: Any) -> list[str]:
    """Return names as text; one that is there already is numbered by its column."""
    found: dict[str, None] = {}
    for j, name in enumerate(map(str, names)):
        found[f"{name} (column {j + 1})" if name in found else name] = None
    return list(found)
