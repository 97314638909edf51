"""Subject of a report: a fitted estimator, its training samples and leave-one-out results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_outlier_detector, is_regressor

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
    """Fitted estimator with all data that its report needs.

    Attributes
    ----------
    machine : estimator
        Fitted estimator with its training record.
    seen : ndarray of bool, of shape (n_given,)
        Which samples of the training data have positive weight: the n samples of the report.
    X : ndarray of shape (n, n_inputs) or None
        Samples as passed to the estimator; None if the kernel is precomputed.
    y : ndarray of shape (n,)
        Labels, or targets in the units of the estimator.
    weight : ndarray of shape (n,)
        Sample weights.
    names : list of str
        Names of the features.
    task : {"classification", "ordered", "regression"}
        Task of the estimator.
    result : LOOResult
        Leave-one-out result of all training samples, those without weight included.
    source, target : str
        Origin of the data; name of the target.
    row_numbers : ndarray of shape (n,)
        Row of each sample in the source, counted from 0.
    table : mapping of str to sequence
        The samples as shown to the reader, by column.
    scale : (float, float)
        Centre and scale of the target in regression, which convert the estimator's units into
        those of the user.
    notes : list of str
        Notes shown in the report.
    candidates : list of Candidate
        Estimators that were compared; empty for the report of a fitted model.
    landscape : Landscape or None
        Leave-one-out error over C and gamma.
    tested : dict or None
        Test error with its interval; None if all samples were used for training.
    seed : int or None
        Random seed of the study.
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
        """Leave-one-out decision value (or prediction, in regression) of each sample."""
        assert self.result.values is not None
        return self.result.values[self.seen]

    @property
    def wrong(self) -> BoolArray:
        """Which leave-one-out predictions are wrong; none in regression."""
        if self.task == "regression":
            return np.zeros(len(self.y), dtype=bool)
        return np.asarray(self.result.errors[self.seen], dtype=bool)

    def evidence(self) -> tuple[FloatArray, Target]:
        """Return the leave-one-out margin and the leave-one-out prediction of each sample.

        The margin in regression is minus the absolute error.
        """
        assert self.result.values is not None
        model = record_of(self.machine).require("report")
        margins, predicted = model.label_margin(self.result.values)
        return margins[self.seen], predicted[self.seen]

    def strengths(self) -> FloatArray | None:
        """Return the embedding strengths; None if samples have no coefficients."""
        found = strengths(self.machine, len(self.seen))
        return None if found is None else found[self.seen]

    def in_units(self, values: Any) -> Any:
        """Convert values of a regression to the user's units."""
        centre, spread = self.scale
        return values * spread + centre


# -- the best model of a study -------------------------------------------------------------------


def subject_of_study(study: Study) -> Subject:
    """Return the best model of a study as a subject."""
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
    """Return the error of the best model on the samples not used for training."""
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


# -- a fitted model ------------------------------------------------------------------------------


def subject_of_model(est: Any) -> Subject:
    """Return the subject of a fitted estimator, of a pipeline or of the best one of a search."""
    est = getattr(est, "best_estimator_", est)
    machine = machine_of(est)
    if is_outlier_detector(machine):
        raise ValueError(
            f"report needs a classifier or a regressor; {type(machine).__name__} has no target to "
            "predict: use loo.result and suspects"
        )
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
    """Return the training samples as an array, the feature names, and notes."""
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
    """Return the names of the features that the preceding steps of a pipeline produce."""
    try:
        return head.get_feature_names_out()
    except (AttributeError, ValueError):  # a step without feature names
        return None


def _different(names: Any) -> list[str]:
    """Return names as strings; append the column number to repeated ones."""
    found: dict[str, None] = {}
    for j, name in enumerate(map(str, names)):
        found[f"{name} (column {j + 1})" if name in found else name] = None
    return list(found)
