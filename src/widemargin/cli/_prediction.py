"""Output of ``widemargin predict``: one line per sample, in order."""

from __future__ import annotations

import csv
import io
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from widemargin._base.messages import UserError
from widemargin.cli._messages import note, print_whole
from widemargin.cli._model_file import SavedModel
from widemargin.cli._summary import describe_error
from widemargin.sources.tables.encoding import Target, read_target
from widemargin.sources.tables.table import Table
from widemargin.sources.whole_file import write_whole


def predicted_columns(model: SavedModel, table: Table) -> dict[str, Target]:
    """Return the columns of the output: predictions and, for classifiers, decision values.

    With two classes there is one decision value, positive for the class in its name. With more
    there is one per class, and the largest one belongs to the predicted class.
    """
    X = model.encoding.matrix(table)
    columns: dict[str, Target] = {"prediction": model.pipeline.predict(X)}
    if model.task == "classification":
        scores = model.pipeline.decision_function(X)
        classes = model.pipeline.classes_
        if scores.ndim == 1:
            scores, classes = scores[:, np.newaxis], classes[1:]
        columns |= {f"decision_{label}": scores[:, j] for j, label in enumerate(classes)}
    return columns


def report_error(model: SavedModel, table: Table, predicted: Target) -> None:
    """Print the error of the predictions on stderr if the data include the target."""
    if model.target not in table.columns:
        return
    try:
        y, _ = read_target(table, model.target, model.task)
    except UserError:  # missing targets are allowed here: they may be the ones to predict
        return
    if model.task == "classification":
        y, predicted = y.astype(str), predicted.astype(str)
    note(f"{describe_error(predicted, y, model.task)}", label="error on this data", style="cyan")


def write_columns(columns: dict[str, Target], path: Path | None) -> None:
    """Write columns as Parquet (by the file name) or CSV; without a path, as CSV to stdout."""
    if path is None:
        print_whole(_as_csv(columns))
    elif path.suffix in (".parquet", ".pq"):
        write_whole(path, partial(_write_parquet, columns))
    else:
        write_whole(path, lambda handle: handle.write(_as_csv(columns).encode()))


def _as_csv(columns: dict[str, Target]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return text.getvalue()


def _write_parquet(columns: dict[str, Target], handle: BinaryIO) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise UserError(
            "Writing Parquet needs pyarrow: pip install 'widemargin[dask]', or name a .csv file."
        ) from None
    table: Any = pa.table({name: pa.array(c.tolist()) for name, c in columns.items()})
    pq.write_table(table, handle)
