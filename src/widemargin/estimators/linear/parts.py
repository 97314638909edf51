"""Fit LinearSVC out of core: files, Dask collections, arrays larger than memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from widemargin._base.progress import Watch
from widemargin._base.typing import FloatArray
from widemargin.certificate import Certificate
from widemargin.fitted.calibration import Calibration, fit_calibration
from widemargin.problems.linear_scan import LinearProblem
from widemargin.solvers.base import Budget
from widemargin.solvers.out_of_core import OutOfCoreResult, draw_sample, solve
from widemargin.sources import Checkpoint, Dataset, Description, TrainingSource

CALIBRATION_ROWS = 20_000  # samples on which probabilities are calibrated


def fit_pairs(
    dataset: Dataset,
    problem: LinearProblem,
    pairs: list[tuple[int, int]],
    *,
    found: Description,
    class_weight: Any,
    factors: FloatArray,
    tol: float,
    max_iter: int,
    seed: int,
    checkpoint: Any,
    watch: Watch,
) -> list[tuple[OutOfCoreResult, Certificate, TrainingSource]]:
    """Fit one hyperplane per pair of classes; remove its checkpoint once it has converged."""
    classes = found.classes
    assert classes is not None
    centre = found.mean if problem.intercept else None
    if isinstance(class_weight, Mapping):
        class_weight = sorted((repr(label), float(w)) for label, w in class_weight.items())
    fits = []
    for i, j in pairs:
        watch.next_part()
        labels = classes[i], classes[j]
        source = dataset.binary(*labels, cost_factors=(float(factors[i]), float(factors[j])))
        store = None
        if checkpoint is not None:
            path = Path(os.fspath(checkpoint) + ("" if len(pairs) == 1 else f".{i}-{j}"))
            belongs_to = {
                "C": problem.cap,
                "loss": problem.kind,
                "fit_intercept": problem.intercept,
                "tol": tol,
                "class_weight": class_weight,
                "seed": seed,
                "classes": [repr(label) for label in labels],
            }
            store = Checkpoint(path, data=found.fingerprint(), parameters=belongs_to)
        result = solve(
            problem, source, tol=tol, budget=Budget(max_iter, watch), seed=seed, centre=centre,
            checkpoint=store, observe=watch.observe,
        )  # fmt: skip
        certificate = problem.certificate(result.evaluation, tol=tol, n_iter=result.n_iter)
        if store is not None and certificate.converged:
            store.path.unlink(missing_ok=True)
        fits.append((result, certificate, source))
    return fits


def check_labels(found: Description) -> Any:
    """Return the classes of a data set; raise unless there are at least two."""
    if found.classes is None:
        raise ValueError("y must hold class labels; it has more than 1,000 distinct values")
    if len(found.classes) < 2:
        raise ValueError(
            f"y must hold at least two classes; got one class, {found.classes.tolist()[0]!r}"
        )
    return found.classes


def calibrations_of(
    sources: list[TrainingSource], coef: FloatArray, intercept: FloatArray, method: str
) -> list[Calibration]:
    """Calibrate probabilities on a subsample, using in-sample decision values.

    With far more samples than features, a sample has no noticeable influence on its own decision
    value: leave-one-out and in-sample values differ only on the free support vectors, which are
    about as many as there are features.
    """
    found = []
    for source, w, b in zip(sources, coef, intercept, strict=True):
        sample = draw_sample(source, min(CALIBRATION_ROWS, source.n_rows), 0)
        found.append(fit_calibration(sample.X @ w + b, sample.y > 0, sample.weight, method))
    return found
