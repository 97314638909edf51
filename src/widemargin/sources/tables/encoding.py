"""Encoding of a table as a feature matrix and a target vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from widemargin._base.messages import UserError, listing, warn
from widemargin._base.typing import FloatArray
from widemargin.sources.tables.table import Table

Task: TypeAlias = Literal["classification", "regression"]
Target: TypeAlias = npt.NDArray[Any]

MOST_LEVELS = 200
MOST_NUMERIC_CLASSES = 20


@dataclass(frozen=True)
class Encoding:
    """Encoding of the columns of a table as features.

    Attributes
    ----------
    columns : list of str
        The columns of the table that are used, in order.
    levels : dict of str to list of str
        Levels of each text column; each level becomes one 0/1 feature.
    fill : dict of str to float, or None
        Replacement of missing values in each numeric column; missing text is encoded as zeros.
        If None, missing values raise an error.
    dates : list of str
        Date columns, which become days since the start of 1970.
    """

    columns: list[str]
    levels: dict[str, list[str]]
    fill: dict[str, float] | None = None
    dates: list[str] = field(default_factory=list)

    @property
    def n_inputs(self) -> int:
        """Number of features."""
        return sum(len(self.levels.get(name, [""])) for name in self.columns)

    @property
    def input_names(self) -> list[str]:
        """Names of the features; those of a text column are "column = level"."""
        return [
            each
            for name in self.columns
            for each in [f"{name} = {level}" for level in self.levels.get(name, [])] or [name]
        ]

    def matrix(self, table: Table) -> FloatArray:
        """Return the feature matrix of a table, or raise a UserError if it does not fit."""
        self._check_present(table)
        if self.fill is None:
            _check_nothing_missing(table, self.columns)
        X = np.empty((table.n_rows, self.n_inputs))
        start = 0
        for name in self.columns:
            width = len(self.levels.get(name, [""]))
            self._fill(table, name, X[:, start : start + width])
            start += width
        if np.isinf(X).any():
            row = int(np.flatnonzero(np.isinf(X).any(axis=1))[0])
            raise UserError(f"{table.source} has an infinite value in row {row + 1}.")
        return X

    def _check_present(self, table: Table) -> None:
        absent = [name for name in self.columns if name not in table.columns]
        if not absent:
            return
        unused = [name for name in table.columns if name not in self.columns]
        raise UserError(
            f"{table.source} lacks {len(absent)} of the {len(self.columns)} columns that the "
            f"model was fitted on: {listing(absent)}."
            + (f" It has these that the model does not know: {listing(unused)}." if unused else "")
        )

    def _fill(self, table: Table, name: str, out: FloatArray) -> None:
        """Write the features of one column of the table to `out`."""
        column = table.columns[name]
        if name in self.dates:
            column = _days_of(table, name)
        if name not in self.levels:
            if isinstance(column, list):
                raise UserError(
                    f"Column {name!r} of {table.source} must be numbers, as when the model was "
                    f"fitted; {_first_word(column)} is not one."
                )
            fill = np.nan if self.fill is None else self.fill[name]
            out[:, 0] = np.where(np.isnan(column), fill, column)
            return
        if not isinstance(column, list):
            # A text column whose values in this table all are numbers was read as numeric.
            column = ["" if np.isnan(value) else f"{value:.15g}" for value in column]
        position = {level: j for j, level in enumerate(self.levels[name])}
        found = np.array([position.get(value, -1) for value in column], dtype=np.intp)
        out[:] = 0.0
        known = np.flatnonzero(found >= 0)
        out[known, found[known]] = 1.0
        unknown = {v for v in column if v and v not in position}
        if unknown:
            warn(
                f"column {name!r} has values that were not there when the model was fitted, "
                f"treated as none of its levels: {listing(sorted(unknown))}.",
                UserWarning,
            )


def learn_encoding(
    table: Table,
    *,
    target: str,
    drop: Sequence[str] = (),
    one_hot: bool = False,
    impute: str | None = None,
) -> Encoding:
    """Choose the feature columns, the levels of text columns and the values for missing numbers.

    Parameters
    ----------
    table : Table
        The training data.
    target : str
        The column to predict.
    drop : sequence of str
        Columns to leave out.
    one_hot : bool
        Whether text columns become one 0/1 feature per level.
    impute : {"median", "mean"} or None
        Replacement of missing numbers; None raises an error for them.
    """
    table.column(target, role="target column")
    for name in drop:
        table.column(name)
    columns = [name for name in table.columns if name != target and name not in drop]
    if not columns:
        raise UserError(f"{table.source} has no column left to learn from.")
    text = {name: c for name in columns if isinstance(c := table.columns[name], list)}
    if text and not one_hot:
        examples = "; ".join(f"{name!r}, e.g. {_first_word(c)}" for name, c in text.items())
        drops = " ".join(f"--drop {name!r}" for name in text)
        raise UserError(
            f"{len(text)} of the columns are not numbers: {examples}. Turn them into 0/1 columns "
            f"with --one-hot, or leave them out with {drops}."
        )
    numbers = {name: c for name in columns if not isinstance(c := table.columns[name], list)}
    return Encoding(
        columns,
        levels={name: _levels(name, c) for name, c in text.items()},
        fill={name: _typical(name, c, impute) for name, c in numbers.items()} if impute else None,
    )


def days(column: list[str]) -> FloatArray | None:
    """Convert dates (ISO 8601, with or without a time) to days since 1970; None if one is not.

    Missing values become NaN. A time without a time zone is interpreted as UTC.
    """
    found = np.full(len(column), np.nan)
    for i, text in enumerate(column):
        if not text:
            continue
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            return None
        found[i] = when.replace(tzinfo=when.tzinfo or UTC).timestamp() / 86_400
    return found


def _days_of(table: Table, name: str) -> FloatArray:
    column = table.columns[name]
    if isinstance(column, list):
        found = days(column)
    else:  # a column without any value is read as numeric
        found = column if np.isnan(column).all() else None
    if found is None:
        raise UserError(
            f"Column {name!r} of {table.source} must be dates such as 2024-05-31, as when the "
            "model was fitted."
        )
    return found


def _levels(name: str, column: list[str]) -> list[str]:
    levels = sorted(set(column) - {""})
    if len(levels) > MOST_LEVELS:
        raise UserError(
            f"Column {name!r} has {len(levels)} different values, too many for --one-hot "
            f"(at most {MOST_LEVELS}): leave it out with --drop {name!r}."
        )
    return levels


def _typical(name: str, column: FloatArray, impute: str) -> float:
    if np.isnan(column).all():
        raise UserError(f"Column {name!r} has no value at all: leave it out with --drop {name!r}.")
    return float(np.nanmean(column) if impute == "mean" else np.nanmedian(column))


def read_target(table: Table, name: str, task: str = "auto") -> tuple[Target, Task]:
    """Return the target and the task, classification or regression.

    ``task="auto"`` selects classification for text and for whole numbers with at most 20 distinct
    values, and regression for other numbers. Whole numbers as labels become integers, so that
    predictions are written as in the data.
    """
    column = table.column(name, role="target column")
    _check_nothing_missing(table, [name])
    if isinstance(column, list):
        if task == "regression":
            raise UserError(
                f"The target {name!r} must be numbers for regression; {_first_word(column)} is not."
            )
        return np.array(column), "classification"
    values = np.unique(column)
    # Larger numbers do not fit into int64.
    whole = bool((np.abs(values) < 2.0**63).all() and (values == np.round(values)).all())
    if task == "auto":
        few = len(values) <= MOST_NUMERIC_CLASSES
        task = "classification" if whole and few else "regression"
    if task == "regression":
        return column, "regression"
    return (column.astype(np.int64) if whole else column.astype(str)), "classification"


def _check_nothing_missing(table: Table, names: Sequence[str]) -> None:
    """Raise a UserError if values are missing; name their rows and columns."""
    missing: list[str] = []
    total = 0
    for name in names:
        column = table.columns[name]
        if isinstance(column, list):
            rows = np.array([i for i, value in enumerate(column) if not value], dtype=np.intp)
        else:
            rows = np.flatnonzero(np.isnan(column))
        total += len(rows)
        missing.extend(f"row {row + 1}, column {name!r}" for row in rows[:3])
    if total:
        shown = missing[:5]
        more = f" and {total - len(shown)} more" if total > len(shown) else ""
        raise UserError(
            f"{table.source} has {total} missing value{'s' * (total > 1)}: "
            f"{'; '.join(shown)}{more} (rows are counted from 1, without the header). "
            "Fill them in or remove them; for inputs, fit --impute median fills them for you."
        )


def _first_word(column: list[str]) -> str:
    """Return the first non-numeric value of a text column, in quotes."""
    for value in column:
        try:
            float(value or "0")
        except ValueError:
            return repr(value[:40])
    return repr(column[0][:40])
