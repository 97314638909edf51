"""Fit LinearSVC out of core: files, Dask collections, arrays larger than memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from widemargin._base.multiclass import Sides
from widemargin._base.progress import Watch
from widemargin._base.typing import FloatArray
from widemargin.certificate import Certificate
from widemargin.estimators.linear.memory import Plan
from widemargin.fitted.calibration import Calibration, fit_calibration
from widemargin.problems.linear_scan import LinearProblem
from widemargin.solvers.base import Budget, LinearResult
from widemargin.solvers.out_of_core import draw_sample, solve
from widemargin.sources import Checkpoint, Dataset, Description, TrainingSource

CALIBRATION_ROWS = 20_000  # samples on which probabilities are calibrated


def fit_in_parts(
    plan: Plan,
    tolerances: list[float],
    dataset: Dataset,
    found: Description,
    class_weight: Any,
    checkpoint: Any,
    watch: Watch,
) -> tuple[list[LinearResult], list[Certificate], list[TrainingSource]]:
    """Fit one hyperplane per pair of classes or per class; remove its checkpoint once converged."""
    kind: Any = plan.loss
    problem = LinearProblem(kind, plan.C, plan.intercept, plan.constant)
    assert found.classes is not None
    centre = found.mean if plan.intercept else None
    results, certificates, sources = [], [], []
    for pair, tol in zip(plan.sides, tolerances, strict=True):
        watch.next_part()
        positive, negative = pair
        other = 1.0 if negative is None else float(plan.factors[negative])
        source = dataset.binary(
            found.classes[positive],
            None if negative is None else found.classes[negative],
            cost_factors=(float(plan.factors[positive]), other),
            constant=plan.constant,
        )
        store = None
        if checkpoint is not None:
            path = os.fspath(checkpoint) + ("" if len(plan.sides) == 1 else _suffix(pair))
            depends_on = _dependencies(plan, found, pair, class_weight)
            store = Checkpoint(Path(path), data=found.fingerprint(), parameters=depends_on)
        result = solve(
            problem, source, tol=tol, budget=Budget(plan.max_iter, watch), seed=plan.seed,
            centre=centre, checkpoint=store, observe=watch.observe,
        )  # fmt: skip
        certificate = problem.certificate(result.evaluation, tol=tol, n_iter=result.n_iter)
        if store is not None and certificate.converged:
            store.path.unlink(missing_ok=True)
        model: LinearResult = result
        if plan.constant is not None:
            model, certificate = plan.split(result), plan.named(certificate)
        results.append(model)
        certificates.append(certificate)
        sources.append(source)
    return results, certificates, sources


def _suffix(pair: Sides) -> str:
    positive, negative = pair
    return f".{positive}-{'rest' if negative is None else negative}"


def _dependencies(plan: Plan, found: Description, pair: Sides, class_weight: Any) -> dict[str, Any]:
    """Return the parameters that the state of a fit depends on, for its checkpoint."""
    if isinstance(class_weight, Mapping):
        class_weight = sorted((repr(label), float(w)) for label, w in class_weight.items())
    assert found.classes is not None
    labels = ["rest" if k is None else repr(found.classes[k]) for k in pair]
    return {
        "C": plan.C,
        "loss": plan.loss,
        "fit_intercept": plan.intercept or plan.constant is not None,
        "intercept_scaling": plan.constant,
        "tol": plan.tol,
        "class_weight": class_weight,
        "seed": plan.seed,
        "classes": labels,
    }


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
        values = sample.X[:, : len(w)] @ w + b  # without the constant feature
        found.append(fit_calibration(values, sample.y > 0, sample.weight, method))
    return found
