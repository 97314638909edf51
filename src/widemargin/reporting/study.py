"""Study a data set: tune each suitable estimator by leave-one-out and choose the best.

Estimators are compared by their leave-one-out errors, without a validation set. Large data sets are
subsampled for training, and the remaining samples test the chosen model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from widemargin._base.messages import UserError
from widemargin._base.typing import FloatArray, IntArray
from widemargin.reporting.preparation import Prepared
from widemargin.reporting.rivals import (
    MOST_RIVALS,
    Candidate,
    Landscape,
    Progress,
    compared,
    every_class_first,
)
from widemargin.sources.tables.encoding import Target

MOST_ROWS = 2_000  # used for training with two classes and in regression
MOST_ROWS_OF_SEVERAL = 1_000  # with more classes, which need several binary submodels


@dataclass(frozen=True, eq=False)
class Study:
    """Result of a study.

    Attributes
    ----------
    data : Prepared
        The data.
    trained, tested : ndarray
        Indices into `data.X` of the training and of the test samples.
    scaler : StandardScaler
        Standardisation of the features.
    y : ndarray
        Target of the training samples; standardised in regression.
    target_centre, target_spread : float
        Mean and standard deviation of the target in regression, else 0 and 1.
    candidates : list of Candidate
        Candidates, best first; those without a model last.
    landscape : Landscape or None
        Error landscape of SVC or SVR.
    seed : int
        Random seed of the subsample.
    notes : list of str
        Notes about the study, shown in the report.
    """

    data: Prepared
    trained: IntArray
    tested: IntArray
    scaler: Any
    y: Target
    target_centre: float
    target_spread: float
    candidates: list[Candidate]
    landscape: Landscape | None
    seed: int
    notes: list[str] = field(default_factory=list)

    @property
    def best(self) -> Candidate:
        """Candidate with the least leave-one-out error."""
        return self.candidates[0]

    def pipeline(self) -> Any:
        """Return a fitted pipeline of the scaler and the best model."""
        from sklearn.compose import TransformedTargetRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        if self.data.task != "regression":
            return make_pipeline(self.scaler, self.best.model)
        machine = clone(self.best.model)
        scaled = TransformedTargetRegressor(machine, transformer=StandardScaler())
        scaled.fit(self.standardised(self.trained), self.data.y[self.trained])
        return make_pipeline(self.scaler, scaled)

    def standardised(self, rows: IntArray) -> FloatArray:
        """Return standardised features of some samples."""
        return np.asarray(self.scaler.transform(self.data.X[rows]))


def run_study(
    data: Prepared, *, seed: int = 0, ard: bool = False, progress: Progress | None = None
) -> Study:
    """Tune and compare the estimators that are suitable for the task.

    Parameters
    ----------
    data : Prepared
        The data.
    seed : int
        Random seed of the training subsample of a large data set.
    ard : bool
        Whether SVC has one gamma per feature (with up to ten classes).
    progress : callable, optional
        Called before each step.
    """
    from sklearn.preprocessing import StandardScaler

    trained, tested, notes = _split(data, seed)
    scaler = StandardScaler().fit(data.X[trained])
    X, y = scaler.transform(data.X[trained]), data.y[trained]
    target_centre, target_spread = 0.0, 1.0
    if data.task == "regression":
        units = StandardScaler().fit(y[:, None])
        target_centre, target_spread = float(units.mean_[0]), float(units.scale_[0])
        y = (y - target_centre) / target_spread
    tunes_each = data.task != "regression" and len(np.unique(y)) <= MOST_RIVALS
    if ard and not tunes_each:
        notes.append(
            "A width for each input was asked for, but is tuned only for classification with at "
            f"most {MOST_RIVALS} classes."
        )
    found, landscape = compared(data.task, X, y, seed, ard, progress)
    ranked = sorted(found, key=lambda c: np.inf if c.result is None else c.result.error)
    if ranked[0].result is None:
        raise UserError(f"No machine could be fitted. {ranked[0].name}: {ranked[0].reason}.")
    return Study(
        data, trained, tested, scaler, y, target_centre, target_spread, ranked, landscape, seed,
        notes,
    )  # fmt: skip


def _split(data: Prepared, seed: int) -> tuple[IntArray, IntArray, list[str]]:
    """Split samples for training and testing, with notes; test samples only if there are many."""
    n = len(data.y)
    several = data.task != "regression" and len(np.unique(data.y)) > 2
    most = MOST_ROWS_OF_SEVERAL if several else MOST_ROWS
    if n <= most:
        return np.arange(n), np.arange(0), []
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    if data.task != "regression":
        order = every_class_first(data.y, order)
    note = (
        f"{most:,} of the {n:,} rows, drawn at random, were trained on; the other {n - most:,} "
        "test the machine that was chosen."
    )
    return np.sort(order[:most]), np.sort(order[most:]), [note]
