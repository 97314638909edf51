"""What a report does with a table before anything is learnt, each decision with a note.

A person who asks for a report wants one. So columns that cannot be used are left out instead of
being errors, gaps are filled, and the page says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from widemargin._messages import UserError, listing
from widemargin._typing import FloatArray, IntArray
from widemargin.sources.encoding import Encoding, Target, days, read_target
from widemargin.sources.table import Column, Table

Task: TypeAlias = Literal["classification", "ordered", "regression"]

MOST_LEVELS = 20  # of a text column that becomes 0/1 columns
MOST_ORDERED = 20  # of numbers that are taken as ranks


@dataclass(frozen=True, eq=False)
class Prepared:
    """A table as numbers.

    Attributes
    ----------
    table : Table
        What was given.
    target : str
        The column to predict.
    encoding : Encoding
        From a table to `X`.
    X : ndarray of shape (n, n_inputs)
        Inputs.
    y : ndarray of shape (n,)
        The target.
    task : {"classification", "ordered", "regression"}
        "ordered" is classification whose classes are numbers, three or more.
    rows : ndarray of shape (n,)
        Row of the table that each row is, counted from 0.
    notes : list of str
        What was done, in plain words.
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
    """Turn a table into numbers, whatever its columns are.

    Parameters
    ----------
    table : Table
        The data.
    target : str
        The column to predict.
    task : {"auto", "classification", "ordered", "regression"}
        What to learn; "auto" looks at the target.
    """
    notes: list[str] = []
    rows = _rows_with_target(table, target, notes)
    known = _taken(table, rows)
    wanted = "classification" if task == "ordered" else task
    y, found = read_target(known, target, wanted)
    if found == "classification" and len(np.unique(y)) < 2:
        raise UserError(f"The target {target!r} has only one value: there is nothing to learn.")
    encoding = _encoding(known, target, notes)
    return Prepared(
        table,
        target,
        encoding,
        encoding.matrix(known),
        y,
        _task(y, found, task),
        rows,
        notes,
    )


def _task(y: Target, found: str, asked: str) -> Task:
    if found == "regression":
        return "regression"
    if asked in ("ordered", "classification"):
        return "ordered" if asked == "ordered" else "classification"
    ranks = len(np.unique(y))
    numbers = np.issubdtype(y.dtype, np.number)
    return "ordered" if numbers and 3 <= ranks <= MOST_ORDERED else "classification"


def _rows_with_target(table: Table, target: str, notes: list[str]) -> IntArray:
    """Return the rows whose target is known."""
    column = table.column(target, role="target column")
    if isinstance(column, list):
        known = np.array([bool(text) for text in column])
    else:
        known = ~np.isnan(column)
    missing = int(np.count_nonzero(~known))
    if missing == len(known):
        raise UserError(f"The target {target!r} has no value at all.")
    if missing:
        notes.append(f"{missing:,} rows without a value of {target!r} were left out.")
    return np.flatnonzero(known)


def _taken(table: Table, rows: IntArray) -> Table:
    if len(rows) == table.n_rows:
        return table
    columns: dict[str, Column] = {
        name: [column[i] for i in rows] if isinstance(column, list) else column[rows]
        for name, column in table.columns.items()
    }
    return Table(table.source, columns, len(rows))


def _encoding(table: Table, target: str, notes: list[str]) -> Encoding:
    """Choose the columns to learn from."""
    kept: list[str] = []
    dates: list[str] = []
    levels: dict[str, list[str]] = {}
    fill: dict[str, float] = {}
    for name, column in table.columns.items():
        if name == target:
            continue
        reason = _look_at(name, column, levels, dates, fill)
        if reason:
            notes.append(f"Column {name!r} was left out: {reason}.")
        else:
            kept.append(name)
    if not kept:
        raise UserError(
            f"{table.source} has no column left to learn from. " + " ".join(notes or [""])
        )
    _note_gaps(table, kept, notes)
    if levels:
        notes.append(f"Text became 0/1 columns, one for each value: {listing(levels)}.")
    if dates:
        notes.append(f"Dates became days: {listing(dates)}.")
    return Encoding(kept, levels, fill, dates)


def _look_at(
    name: str,
    column: Column,
    levels: dict[str, list[str]],
    dates: list[str],
    fill: dict[str, float],
) -> str:
    """Enter a column where it belongs, or return why it is left out."""
    if isinstance(column, list):
        found = sorted(set(column) - {""})
        if not found:
            return "it has no value at all"
        as_days = days(column)
        if as_days is not None:
            column = as_days
            dates.append(name)
        elif len(found) > MOST_LEVELS:
            return f"it is text with {len(found):,} different values"
        elif len(found) == 1 and "" not in column:
            return "it has only one value"
        else:
            levels[name] = found
            return ""
    reason = _useless_numbers(column)
    if reason:
        dates[:] = [each for each in dates if each != name]
        return reason
    fill[name] = float(np.nanmedian(column))
    return ""


def _useless_numbers(column: FloatArray) -> str:
    finite = column[np.isfinite(column)]
    if len(finite) == 0:
        return "it has no value at all"
    if np.isinf(column).any():
        return "it has infinite values"
    if finite.min() == finite.max() and len(finite) == len(column):
        return "it has only one value"
    steps = np.diff(column)
    if len(column) > 2 and (steps == 1).all():
        return "it counts the rows"
    return ""


def _note_gaps(table: Table, kept: list[str], notes: list[str]) -> None:
    gaps = 0
    where = []
    for name in kept:
        column = table.columns[name]
        empty = (
            sum(not text for text in column)
            if isinstance(column, list)
            else int(np.count_nonzero(np.isnan(column)))
        )
        gaps += empty
        if empty:
            where.append(name)
    if gaps:
        notes.append(
            f"{gaps:,} missing values in {listing(where)} were filled: numbers and dates by the "
            "column's median, text by none of its values."
        )
