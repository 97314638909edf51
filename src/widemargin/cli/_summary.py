"""Summary of ``widemargin fit``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray, IntArray
from widemargin.assess import leave_one_out as loo
from widemargin.certificate import Certificate, in_print, is_trivial, shown_violation
from widemargin.cli._model_file import SavedModel
from widemargin.cli._training import machine_of
from widemargin.sources.tables.encoding import Target


def print_lines(lines: Iterable[tuple[str, str]], path: Path) -> None:
    """Print names and texts as a table, with the model file as last row."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD, show_header=False, title="widemargin fit", title_justify="left"
    )
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(name, Text(text))
    table.add_row("saved", Text(f"{path} ({path.stat().st_size / 1000:,.0f} kB)"))
    Console().print(table)


def summary_lines(
    model: SavedModel, X: FloatArray, y: Target, source: str
) -> Iterator[tuple[str, str]]:
    """Yield the lines of the summary: model, data, certificate and errors."""
    machine = machine_of(model.pipeline)
    yield "machine", f"{type(machine).__name__}: {describe_machine(machine)}"
    yield "data", f"{source}: {_describe_data(model, X, y)}"
    yield "parameters", describe_parameters(machine)
    n_support = count_support(X, y, machine.support_) if hasattr(machine, "support_") else None
    if n_support is not None:
        yield "support vectors", f"{n_support:,} of {len(y):,} rows ({n_support / len(y):.1%})"
    n_problems = len(getattr(machine, "certificates_", [None]))
    yield "certificate", describe_certificate(machine.certificate_, n_problems)
    yield "training error", describe_error(model.pipeline.predict(X), y, model.task)
    try:
        found = loo.result(machine)  # cached, if it was computed before compact()
    except ValueError:
        if n_support is not None:
            yield "leave-one-out", describe_bound(n_support, len(y), model.task)
    else:
        yield "leave-one-out", describe_leave_one_out(found, len(y), model.task)


def describe_machine(machine: Any) -> str:
    """Describe the type and the kernel of an estimator."""
    from sklearn.base import is_regressor

    kind = "support vector regression" if is_regressor(machine) else "soft-margin classifier"
    kernel = getattr(machine, "kernel", "linear")
    names = {"rbf": "Gaussian (rbf)", "poly": "polynomial"}
    return f"{kind}, {names.get(kernel, kernel)} kernel, on standardised columns"


def describe_parameters(machine: Any) -> str:
    """List the parameters of an estimator, with the numeric value of gamma."""
    from sklearn.base import is_regressor

    kernel = getattr(machine, "kernel", "linear")
    parts = [f"C = {machine.C:g}"]
    if is_regressor(machine):
        parts.append(f"epsilon = {machine.epsilon:g} standard deviations of the target")
    if kernel != "linear":
        chosen = f" ({machine.gamma!r})" if isinstance(machine.gamma, str) else ""
        parts.append(f"gamma = {float(machine.gamma_):.4g}{chosen}")
    if kernel == "poly":
        parts.append(f"degree = {machine.degree}")
    if kernel in ("poly", "sigmoid"):
        parts.append(f"coef0 = {machine.coef0:g}")
    if getattr(machine, "class_weight", None):
        parts.append("classes weighted equally")
    criterion = "" if hasattr(machine, "kernel") else " (relative gap)"  # else KKT violation
    return ", ".join([*parts, f"tol = {machine.tol:g}{criterion}"])


def describe_certificate(certificate: Certificate, n_problems: int = 1) -> str:
    """Describe in words what a certificate proves."""
    c = certificate
    which = f"worst of {n_problems} two-class problems: " if n_problems > 1 else ""
    verdict = "converged" if c.converged else "NOT converged"
    violation = shown_violation(c, "KKT violation {:.1e}; ")
    state = f"{violation}{verdict} after {c.n_iter:,} steps."
    if is_trivial(c):
        return (
            f"{which}the objective of this model is {c.primal:.7g}, and nothing is proved beyond "
            f"the trivial lower bound {c.dual:.7g}. {state}"
        )
    return (
        f"{which}the best possible objective lies between {c.dual:.7g} and {c.primal:.7g}, so this "
        f"model is at most {in_print(c.relative_gap):.1e} (relative) from it. {state}"
    )


def describe_leave_one_out(found: loo.LOOResult, n_rows: int, task: str) -> str:
    """Describe the leave-one-out error."""
    held = "without retraining, scaling and gamma held fixed"
    if task == "regression":
        return f"mean absolute error {found.error:.4g} standard deviations ({found.kind}; {held})"
    wrong = round(found.error * n_rows)
    return f"{wrong:,} of {n_rows:,} rows wrong ({found.error:.2%}, {found.kind}; {held})"


def describe_bound(n_support: int, n_rows: int, task: str) -> str:
    """Describe the bound on the leave-one-out error by the number of support vectors.

    Leaving out a sample that is not a support vector does not change the model, which classifies
    it correctly (or has it inside its tube). So only support vectors can be leave-one-out errors.
    """
    error = "error" if task == "classification" else "share of rows off by more than epsilon"
    return (
        f"{error} at most {n_support:,} / {n_rows:,} = {n_support / n_rows:.1%} (a bound, usually "
        "far above the truth: leaving out a row that is not a support vector changes nothing, so "
        "only support vectors can be errors; scaling and gamma held fixed)"
    )


def count_support(X: FloatArray, y: Target, support: IntArray) -> int:
    """Count the samples that are equal to a support vector.

    Solvers merge equal samples, and `support_` has one of them, but leaving out any of them changes
    the fit.
    """
    labels = np.unique(y, return_inverse=True)[1]
    rows = np.column_stack([X + 0.0, labels])  # + 0.0 makes -0.0 equal to 0.0
    keys = [row.tobytes() for row in rows]
    supporting = {keys[i] for i in support}
    return sum(key in supporting for key in keys)


def _describe_data(model: SavedModel, X: FloatArray, y: Target) -> str:
    if model.task == "regression":
        what = f"mean {np.mean(y):.4g}, standard deviation {np.std(y):.4g}"
    else:
        labels, counts = np.unique(y, return_counts=True)
        sizes = [f"{label} {n:,}" for label, n in zip(labels[:6], counts[:6], strict=True)]
        what = ", ".join(sizes) + (f" and {len(labels) - 6} more" if len(labels) > 6 else "")
    return f"{len(y):,} rows, {X.shape[1]:,} inputs, target {model.target} ({what})"


def describe_error(predicted: Target, y: Target, task: str) -> str:
    """Describe the error of predictions: wrong labels, or mean absolute error."""
    if task == "regression":
        spread = float(np.std(y))
        explained = f", R² = {1 - np.mean((predicted - y) ** 2) / spread**2:.3f}" if spread else ""
        return f"mean absolute error {np.mean(np.abs(predicted - y)):.4g}{explained}"
    wrong = int(np.sum(predicted != y))
    return f"{wrong:,} of {len(y):,} rows ({wrong / len(y):.2%})"
