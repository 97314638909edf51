"""Tables of numeric and text columns, read from CSV or Parquet files or from data frames."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeAlias

import numpy as np
import scipy.sparse as sp

from widemargin._base.messages import UserError, listing, nearest
from widemargin._base.typing import FloatArray, IntArray
from widemargin.sources.whole_file import check_is_file

Column: TypeAlias = FloatArray | list[str]
"""Numbers, NaN where a value is missing; or text, empty where a value is missing."""

MISSING = frozenset({"", "na", "n/a", "nan", "null", "?"})
MISSING_NUMBER = MISSING | {"none"}  # in a text column "none" may be a level
ROWS_AT_A_TIME = 20_000
MOST_DENSE = 50_000_000  # largest number of entries of a sparse matrix that is converted to dense


@dataclass(frozen=True)
class Table:
    """Named columns of equal length.

    Attributes
    ----------
    source : str
        Origin of the table, for messages.
    columns : dict of str to Column
        The columns in the order of the file.
    n_rows : int
        Number of rows, without the header.
    """

    source: str
    columns: dict[str, Column]
    n_rows: int

    def column(self, name: str, *, role: str = "column") -> Column:
        """Return a column, or raise a UserError that suggests similar names."""
        if name not in self.columns:
            raise UserError(
                f"{self.source} has no {role} {name!r}.{nearest(name, self.columns)} "
                f"Its columns are {listing(self.columns, most=20)}."
            )
        return self.columns[name]

    def rows(self, rows: IntArray) -> Table:
        """Return some of the rows."""
        columns: dict[str, Column] = {
            name: [column[i] for i in rows] if isinstance(column, list) else column[rows]
            for name, column in self.columns.items()
        }
        return Table(self.source, columns, len(rows))


def read_table(path: Path) -> Table:
    """Read a CSV or Parquet file; the format is recognised by the content."""
    check_is_file(path)
    with open(path, "rb") as handle:
        is_parquet = handle.read(4) == b"PAR1"
    table = _read_parquet(path) if is_parquet else _read_csv(path)
    if table.n_rows == 0:
        raise UserError(f"{path} has no rows of data.")
    return table


def table_of(data: Any, y: Any = None, *, target: str | None = None) -> tuple[Table, str]:
    """Convert a data frame, or X and y, to a table; also return the name of its target column.

    Parameters
    ----------
    data : data frame, or array of shape (n, n_inputs)
        Features; if `y` is None, a data frame that also has the target column.
    y : sequence of length n, optional
        The target.
    target : str, optional
        Name of the target column; required if `y` is None.
    """
    columns = _columns_of_frame(data) if hasattr(data, "columns") else _columns_of_matrix(data)
    if y is None:
        if target is None:
            raise UserError("Name the column to predict: target='...'.")
    else:
        target = str(target or getattr(y, "name", None) or "target")
        if target in columns:
            raise UserError(f"X has a column {target!r} already: name the target otherwise.")
        columns[target] = _column(y, target)
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise UserError(f"X and y must have as many rows; got columns of {sorted(lengths)}.")
    table = Table("the data given", columns, lengths.pop() if lengths else 0)
    if table.n_rows == 0:
        raise UserError("The data have no rows.")
    table.column(target, role="target column")
    return table, target


def _columns_of_frame(frame: Any) -> dict[str, Column]:
    names = [str(name) for name in frame.columns]
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise UserError(f"The data have more than one column {listing(repeated)}: rename them.")
    given = zip(names, frame.columns, strict=True)
    return {name: _column(frame[column], name) for name, column in given}


def _columns_of_matrix(X: Any) -> dict[str, Column]:
    if sp.issparse(X):
        if X.shape[0] * X.shape[1] > MOST_DENSE:
            raise UserError(
                f"X is sparse with {X.shape[0]:,} x {X.shape[1]:,} entries, too many for a table "
                f"(at most {MOST_DENSE:,}): fit a machine on it, and report on that."
            )
        X = X.toarray()
    X = np.asarray(X)
    if X.ndim != 2:
        raise UserError(f"X must be a table of rows and columns; its shape is {X.shape}.")
    names = [f"input {j + 1}" for j in range(X.shape[1])]
    return {name: _column(X[:, j], name) for j, name in enumerate(names)}


def _column(values: Any, name: str) -> Column:
    """Convert values to a numeric column if possible, else to a text column."""
    array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if array.ndim != 1:
        raise UserError(f"Column {name!r} must have one value a row; its shape is {array.shape}.")
    if array.dtype.kind == "M":
        return ["" if text == "NaT" else text for text in np.datetime_as_string(array, unit="s")]
    if array.dtype.kind == "m":
        return array / np.timedelta64(1, "D")
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    listed = array.tolist()
    # None, NaN, NaT and pandas' NA are missing.
    missing = [v is None or str(v) in ("<NA>", "NaT") or v != v for v in listed]
    text = ["" if no else str(v).strip() for v, no in zip(listed, missing, strict=True)]
    numbers = None if any(isinstance(value, str) for value in listed) else parse_numbers(text)
    return text if numbers is None else numbers


def _read_csv(path: Path) -> Table:
    # utf-8-sig also reads plain UTF-8, and drops the byte order mark that spreadsheets write.
    try:
        with open(path, encoding="utf-8-sig", newline="") as handle:
            return _CsvReader(path, handle).read()
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 text (byte 0x{error.object[error.start]:02x}): "
            "save it as CSV in UTF-8."
        ) from None


class _CsvReader:
    """Reader of one open CSV file, block by block."""

    def __init__(self, path: Path, handle: TextIO) -> None:
        self.path = path
        self.handle = handle
        first_line = handle.readline()
        # The delimiter that splits the header into the most fields.
        self.delimiter = max(
            ",;\t|", key=lambda d: len(next(csv.reader([first_line], delimiter=d)))
        )
        self.header = self._checked_header()

    def read(self) -> Table:
        """Read the table; a column is numeric if all its values are numbers, else text."""
        width = len(self.header)
        blocks: list[list[Column]] = [[] for _ in range(width)]
        is_text = [False] * width
        n_rows = 0
        for block in self._blocks():
            n_rows += len(block)
            for j, values in enumerate(zip(*block, strict=True)):
                numbers = None if is_text[j] else parse_numbers(values)
                is_text[j] = numbers is None
                blocks[j].append(list(values) if numbers is None else numbers)
        # Columns whose first text value was not in the first block: read them again, because the
        # parsed numbers before it have lost their spelling.
        late = [j for j in range(width) if is_text[j] and isinstance(blocks[j][0], np.ndarray)]
        if late:
            spelled: dict[int, list[str]] = {j: [] for j in late}
            for block in self._blocks():
                for j in late:
                    spelled[j].extend(row[j] for row in block)
            for j in late:
                blocks[j] = [spelled[j]]
        columns = {name: _joined(b) for name, b in zip(self.header, blocks, strict=True)}
        return Table(str(self.path), columns, n_rows)

    def _checked_header(self) -> list[str]:
        names = [name.strip() for name in next(self._lines(), [])]
        if not any(names):
            raise UserError(f"{self.path} is empty: a header and rows of data are needed.")
        if "" in names:
            raise UserError(
                f"{self.path}: column {names.index('') + 1} has no name in the header. Name it, or "
                "write the file without row numbers (index=False in pandas)."
            )
        repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if repeated:
            raise UserError(f"{self.path}: the header repeats {listing(repeated)}.")
        if parse_numbers(names) is not None:
            raise UserError(
                f"{self.path}: the first line holds only numbers. Put a line with the names of "
                "the columns above it."
            )
        return names

    def _lines(self) -> Iterator[list[str]]:
        """Yield the records from the start of the file, without blank lines."""
        self.handle.seek(0)
        reader = csv.reader(
            self.handle, delimiter=self.delimiter, skipinitialspace=True, strict=True
        )
        try:
            yield from filter(None, reader)
        except csv.Error as error:
            raise UserError(f"{self.path}, line {reader.line_num}: {error}.") from None

    def _blocks(self) -> Iterator[list[list[str]]]:
        lines = self._lines()
        next(lines)  # the header
        n_before = 0
        width = len(self.header)
        while block := list(itertools.islice(lines, ROWS_AT_A_TIME)):
            for number, row in enumerate(block, start=n_before + 1):
                if len(row) != width:
                    raise UserError(
                        f"{self.path}: row {number} and the header differ in length: "
                        f"{len(row)} against {width} fields."
                    )
            yield block
            n_before += len(block)


def parse_numbers(values: Sequence[str]) -> FloatArray | None:
    """Parse text as numbers, with NaN for missing values; return None if that fails."""
    if "_" in "".join(values):  # float() accepts 2024_07, which is not meant as a number
        return None
    try:
        return np.fromiter(map(float, values), dtype=np.float64, count=len(values))
    except ValueError:
        pass
    try:
        return np.array(
            [np.nan if v.strip().lower() in MISSING_NUMBER else float(v) for v in values],
            dtype=np.float64,
        )
    except ValueError:
        return None


def _joined(blocks: list[Column]) -> Column:
    arrays = [b for b in blocks if isinstance(b, np.ndarray)]
    if len(arrays) == len(blocks):
        return np.concatenate(arrays) if arrays else np.empty(0)
    stripped = (text.strip() for text in itertools.chain.from_iterable(blocks))
    return ["" if text.lower() in MISSING else text for text in stripped]


def _read_parquet(path: Path) -> Table:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise UserError(
            f"{path} is a Parquet file, which needs pyarrow: pip install 'widemargin[dask]' "
            "(or pip install pyarrow)."
        ) from None
    try:
        table = pq.ParquetFile(path).read()
    except pa.ArrowException as error:
        raise UserError(f"{path} is not a readable Parquet file: {error}") from None
    columns = {str(name): _from_arrow(table.column(name)) for name in table.column_names}
    return Table(str(path), columns, table.num_rows)


def _from_arrow(column: Any) -> Column:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    return ["" if value is None else str(value) for value in column.to_pylist()]
