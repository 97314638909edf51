"""Study a data set: tune each suitable estimator by leave-one-out and choose the best.

Nothing is held out and nothing is trained twice for the sake of testing: machines are compared by
their leave-one-out errors. Of very many rows a sample is trained on; the others test the winner.
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

MOST_ROWS = 2_000  # that are trained on with two classes, and for regression
MOST_ROWS_OF_SEVERAL = 1_000  # with more classes, each of which has a machine or more


@dataclass(frozen=True, eq=False)
class Study:
    """Result of a study.

    Attributes
    ----------
    data : Prepared
        The data.
    trained, tested : ndarray
        Rows of `data.X` that were trained on, and those that were not.
    scaler : StandardScaler
        How columns were standardised.
    y : ndarray
        Target of the trained rows; in standard deviations for regression.
    target_centre, target_spread : float
        How the target of a regression was standardised.
    candidates : list of Candidate
        Best first; those without a model last.
    landscape : Landscape or None
        Of the soft-margin machine.
    seed : int
        Of the sample.
    notes : list of str
        What a reader must know about all this.
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
        """The machine with the least leave-one-out error."""
        return self.candidates[0]

    def pipeline(self) -> Any:
        """Return the best machine with its scaling, for rows of the data as they are."""
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
        """Return rows of the data as the machines see them."""
        return np.asarray(self.scaler.transform(self.data.X[rows]))


def run_study(
    data: Prepared, *, seed: int = 0, ard: bool = False, progress: Progress | None = None
) -> Study:
    """Tune and compare the machines that fit the data's task.

    Parameters
    ----------
    data : Prepared
        The data.
    seed : int
        Of the sample that is trained on, where there are too many rows.
    ard : bool
        Whether the soft-margin machine of up to ten classes has one gamma for each input.
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
    """Return the rows to train on and those to test on: none, unless there are very many."""
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
