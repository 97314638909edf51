"""Linear machines on data that are read where they lie: files, Dask, arrays larger than memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from widemargin._base.multiclass import class_pairs
from widemargin._base.progress import Watch
from widemargin._base.typing import FloatArray
from widemargin._base.validation import class_costs
from widemargin.certificate import Certificate
from widemargin.fitted.calibration import Calibration, fit_calibration
from widemargin.problems.soft_margin import c_classification
from widemargin.solvers.linear import solve_linear
from widemargin.solvers.out_of_core import Form, solve_implicit
from widemargin.solvers.out_of_core.squared import solve_squared
from widemargin.solvers.out_of_core.start import draw_sample
from widemargin.sources import Checkpoint, Dataset, TrainingSource

CALIBRATION_ROWS = 20_000
START_ROWS = 50_000  # rows of the sample from which the squared hinge starts


@dataclass(frozen=True)
class ScannedPlane:
    """A hyperplane found by reads of the data.

    Attributes
    ----------
    coef, intercept : the model
    certificate : Certificate
    status : str
        Why the solver ended.
    passes : float
        Reads of the data, without the one that described it.
    history : list of dict
        One entry a round.
    source : TrainingSource
        The rows.
    """

    coef: FloatArray
    intercept: float
    certificate: Certificate
    status: str
    passes: float
    history: list[dict[str, Any]]
    source: TrainingSource


@dataclass(frozen=True)
class LinearTask:
    """What a linear machine asks for: the parameters of LinearSVC that reach its solver."""

    C: float
    squared: bool
    intercept: bool
    tol: float
    max_iter: int
    class_weight: Any
    seed: int
    checkpoint: Any

    def parameters(self, pair: tuple[Any, Any]) -> dict[str, Any]:
        """What a checkpoint belongs to."""
        weights = self.class_weight
        if isinstance(weights, Mapping):
            weights = sorted((repr(label), float(w)) for label, w in weights.items())
        return {
            "C": self.C,
            "loss": "squared_hinge" if self.squared else "hinge",
            "fit_intercept": self.intercept,
            "tol": self.tol,
            "class_weight": weights,
            "seed": self.seed,
            "classes": [repr(label) for label in pair],
        }


def check_labels(dataset: Dataset) -> Any:
    """Return the classes of a data set, two at least."""
    found = dataset.describe()
    if found.classes is None:
        raise ValueError("y must hold class labels; it has more than 1,000 distinct values")
    if len(found.classes) < 2:
        raise ValueError(
            f"y must hold at least two classes; got one class, {found.classes.tolist()[0]!r}"
        )
    return found.classes


def fit_planes(dataset: Dataset, task: LinearTask, watch: Watch) -> list[ScannedPlane]:
    """Fit one hyperplane for each pair of classes, one pair after the other."""
    classes, found = check_labels(dataset), dataset.describe()
    assert found.class_weights is not None
    codes = np.arange(len(classes))
    factors = class_costs(task.class_weight, classes, codes, found.class_weights)
    pairs = class_pairs(len(classes))
    planes = []
    for i, j in pairs:
        watch.next_part()
        labels = classes[i], classes[j]
        source = dataset.binary(*labels, cost_factors=(float(factors[i]), float(factors[j])))
        suffix = "" if len(pairs) == 1 else f".{i}-{j}"
        planes.append(_fit_plane(dataset, source, task, labels, suffix, watch))
    return planes


def _fit_plane(
    dataset: Dataset,
    source: TrainingSource,
    task: LinearTask,
    labels: tuple[Any, Any],
    suffix: str,
    watch: Watch,
) -> ScannedPlane:
    """Fit one hyperplane; its checkpoint is removed when it is done."""
    store = None
    if task.checkpoint is not None:
        path = Path(os.fspath(task.checkpoint) + suffix)
        data = dataset.describe().fingerprint()
        store = Checkpoint(path, data=data, parameters=task.parameters(labels))
    if task.squared:
        coef, intercept, primal, dual, status, passes, history = _solve_squared(
            source, task, store, watch
        )
    else:
        centre = dataset.describe().mean if task.intercept else None
        coef, intercept, primal, dual, status, passes, history = _solve_hinge(
            source, task, centre, store, watch
        )
    gap = primal - dual
    name = "C-squared-hinge" if task.squared else "C-hinge"
    certificate = Certificate.from_objectives(
        name if task.intercept else name + ", no intercept",
        primal=primal,
        dual=dual,
        # No row is on the wrong side of an exact solution; of others only the gap is known.
        kkt_violation=0.0 if status == "converged" and not task.squared else float("nan"),
        converged=gap <= task.tol * max(1.0, abs(primal)),
        n_iter=len(history) or 1,
    )
    if store is not None and certificate.converged:
        store.path.unlink(missing_ok=True)
    return ScannedPlane(coef, intercept, certificate, status, passes, history, source)


def calibrations_of(
    sources: list[TrainingSource], coef: FloatArray, intercept: FloatArray, method: str
) -> list[Calibration]:
    """Calibrate probabilities on a sample of the rows.

    With far more rows than features a row has no influence on its own decision value that could
    be seen (leave-one-out values differ from fitted ones on the free rows only, as many as there
    are features), so fitted values will do.
    """
    found = []
    for source, w, b in zip(sources, coef, intercept, strict=True):
        sample = draw_sample(source, min(CALIBRATION_ROWS, source.n_rows), 0)
        found.append(fit_calibration(sample.X @ w + b, sample.y > 0, sample.weight, method))
    return found


def _solve_hinge(
    source: TrainingSource,
    task: LinearTask,
    centre: FloatArray | None,
    store: Checkpoint | None,
    watch: Watch,
) -> tuple[FloatArray, float, float, float, str, float, list[dict[str, Any]]]:
    form = Form("hinge" if task.intercept else "hinge_no_intercept", task.C)
    found = solve_implicit(
        source,
        form,
        seed=task.seed,
        max_rounds=task.max_iter,
        centre=centre,
        monitor=watch,
        checkpoint=store,
        observe=watch.observe,
    )
    intercept = float(found.thresholds[0]) if task.intercept else 0.0
    return (
        found.coef, intercept, found.primal, found.dual, found.status, found.passes, found.history,
    )  # fmt: skip


def _solve_squared(
    source: TrainingSource, task: LinearTask, store: Checkpoint | None, watch: Watch
) -> tuple[FloatArray, float, float, float, str, float, list[dict[str, Any]]]:
    """Start from the optimum of a sample whose costs are scaled up."""
    number = min(START_ROWS, source.n_rows)
    sample = draw_sample(source, number, task.seed)
    used = sample.weight > 0
    cost = task.C * source.n_rows / number * sample.weight[used]
    y = sample.y[used]
    start = None
    if (y > 0).any() and (y < 0).any():
        ahead = c_classification(y, cost, squared=True, intercept=task.intercept)
        found_ahead = solve_linear(sample.X[used], ahead, tol=1e-4, max_iter=100, seed=task.seed)
        start = found_ahead.coef, found_ahead.intercept
    found = solve_squared(
        source,
        task.C,
        intercept=task.intercept,
        tol=task.tol,
        max_iter=task.max_iter,
        start=start,
        monitor=watch,
        checkpoint=store,
    )
    return (
        found.coef, found.intercept, found.primal, found.dual, found.status,
        found.passes + number / source.n_rows, found.history,
    )  # fmt: skip
