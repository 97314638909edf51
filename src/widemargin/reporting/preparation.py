"""Preparation of a table for a report; each decision is recorded in a note.

A report should not fail on imperfect data: unusable columns are dropped instead of raising an
error, missing values are filled in, and the notes are shown in the report.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from widemargin._base.messages import UserError, listing
from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin.sources.tables.encoding import Encoding, Target, days, read_target
from widemargin.sources.tables.table import Column, Table

Task: TypeAlias = Literal["classification", "ordered", "regression"]

MOST_LEVELS = 20  # of a text column that is one-hot encoded
MOST_RANKS = 20  # distinct numbers that are treated as ordered classes
MOST_CLASSES = 100  # one-vs-one trains one binary submodel per pair
COUNTS = "it counts the rows"
FEWEST_COUNTED = 10  # from this many rows on, a column 1, 2, 3, ... is treated as an index


@dataclass(frozen=True, eq=False)
class Prepared:
    """Table as features and target.

    Attributes
    ----------
    table : Table
        The original table.
    target : str
        The column to predict.
    encoding : Encoding
        Encoding of the table as `X`.
    X : ndarray of shape (n, n_inputs)
        Features.
    y : ndarray of shape (n,)
        The target.
    task : {"classification", "ordered", "regression"}
        "ordered" is classification with ordered numeric classes.
    rows : ndarray of shape (n,)
        Row of each sample in the table, counted from 0.
    notes : list of str
        Sentences that describe the preparation.
    """

    table: Table
    target: str
    encoding: Encoding
    X: FloatArray
    y: Target
    task: Task
    rows: IntArray
    notes: list[str]


def prepare(table: Table, target: str, task: str = "auto") -> Prepared:
    """Encode a table as features and target, and drop the columns that cannot be used.

    Parameters
    ----------
    table : Table
        The data.
    target : str
        The column to predict.
    task : {"auto", "classification", "ordered", "regression"}
        The task; "auto" chooses it by the target.
    """
    notes: list[str] = []
    rows = _rows_with_target(table, target, notes)
    known = table if len(rows) == table.n_rows else table.rows(rows)
    wanted = "classification" if task == "ordered" else task
    y, found = read_target(known, target, wanted)
    values = np.unique(y)
    if len(values) < 2:
        raise UserError(
            f"The target {target!r} has only one value, {str(values[0])[:40]!r}: there is nothing "
            "to learn."
        )
    if len(values) > MOST_CLASSES and found == "classification":
        raise UserError(
            f"The target {target!r} has {len(values):,} different values, too many for classes "
            f"(at most {MOST_CLASSES}). Is it the column to predict?"
            + (" Numbers can be predicted with task regression." if _numeric(values) else "")
        )
    if task == "ordered" and not _numeric(values):
        raise UserError(
            f"Ordered classes must be whole numbers, which {str(values[0])[:40]!r} of {target!r} "
            "is not: write 1, 2, 3, ... for the classes from the lowest to the highest."
        )
    encoding = _encoding(known, target, notes)
    X = encoding.matrix(known)
    return Prepared(table, target, encoding, X, y, _task(values, found, task), rows, notes)


def _task(values: Target, found: str, asked: str) -> Task:
    if found == "regression":
        return "regression"
    if asked == "auto":
        ranks = _numeric(values) and 3 <= len(values) <= MOST_RANKS
        return "ordered" if ranks else "classification"
    return "ordered" if asked == "ordered" else "classification"


def _numeric(values: Target) -> bool:
    return bool(np.issubdtype(values.dtype, np.number))


def _rows_with_target(table: Table, target: str, notes: list[str]) -> IntArray:
    """Return the rows with a valid target."""
    column = table.column(target, role="target column")
    known = ~_gaps(column) if isinstance(column, list) else np.isfinite(column)
    missing = int(np.count_nonzero(~known))
    if missing == len(known):
        raise UserError(f"The target {target!r} has no value at all.")
    if missing:
        what = "a value" if isinstance(column, list) else "a finite value"
        rows = "row was" if missing == 1 else "rows were"
        notes.append(f"{missing:,} {rows} left out, without {what} of {target!r}.")
    return np.flatnonzero(known)


def _encoding(table: Table, target: str, notes: list[str]) -> Encoding:
    """Choose the feature columns, and add notes about those left out."""
    levels: dict[str, list[str]] = {}
    dates: list[str] = []
    fill: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for name, column in table.columns.items():
        if name == target:
            continue
        as_days = days(column) if isinstance(column, list) else None
        numbers = column if as_days is None else as_days
        reason = _useless_text(numbers) if isinstance(numbers, list) else _useless(numbers)
        # An index is of no use unless it is the only feature.
        reason = "" if reason == COUNTS and len(table.columns) == 2 else reason
        if reason:
            reasons[name] = reason
        elif isinstance(numbers, list):
            levels[name] = sorted(set(numbers) - {""})
        else:
            fill[name] = float(np.nanmedian(numbers))
            if as_days is not None:
                dates.append(name)
    kept = [name for name in table.columns if name in levels or name in fill]
    left_out = [f"Column {name!r} was left out: {reason}." for name, reason in reasons.items()]
    if not kept:
        raise UserError(" ".join([f"{table.source} has no column left to learn from.", *left_out]))
    notes.extend(left_out)
    _note_changes(table, kept, levels, dates, notes)
    return Encoding(kept, levels, fill, dates)


def _useless_text(column: list[str]) -> str:
    """Return the reason why a text column is dropped; "" if it is used."""
    found = set(column) - {""}
    if not found:
        return "it has no value at all"
    if len(found) > MOST_LEVELS:
        return f"it is text with {len(found):,} different values"
    return "it has only one value" if len(set(column)) == 1 else ""


def _useless(column: FloatArray) -> str:
    """Return the reason why a numeric column is dropped; "" if it is used."""
    finite = column[np.isfinite(column)]
    if np.isinf(column).any():
        return "it has infinite values"
    if len(finite) == 0:
        return "it has no value at all"
    if finite.min() == finite.max():
        return "it has only one value"
    if len(column) >= FEWEST_COUNTED and (np.diff(column) == 1).all():
        return COUNTS
    return ""


def _note_changes(
    table: Table, kept: list[str], levels: dict[str, list[str]], dates: list[str], notes: list[str]
) -> None:
    """Add notes about filled values and encoded columns."""
    gaps = {name: int(np.count_nonzero(_gaps(table.columns[name]))) for name in kept}
    gaps = {name: count for name, count in gaps.items() if count}
    if gaps:
        total = sum(gaps.values())
        values = "value was" if total == 1 else "values were"
        notes.append(
            f"{total:,} missing {values} filled (in {listing(gaps)}): numbers and dates by the "
            "column's median, text by none of its values."
        )
    if levels:
        notes.append(f"Text became 0/1 columns, one for each value: {listing(levels)}.")
    if dates:
        notes.append(f"Dates became days: {listing(dates)}.")


def _gaps(column: Column) -> BoolArray:
    """Return the mask of the missing values of a column."""
    if isinstance(column, list):
        return np.array([not text for text in column], dtype=bool)
    return np.isnan(column)
