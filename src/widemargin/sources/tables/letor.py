"""Reader of ranking data in the LETOR format (SVMlight with a query id in every row).

::

    2 qid:10032 1:0.056537 2:0.000000 46:0.076923 #docid = GX029-35-5894638

is a row of grade 2 of query 10032. Features that are not listed are zero, and text after ``#`` is a
comment. Files may be compressed by gzip.
"""

from __future__ import annotations

import gzip
import os
import re
import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from widemargin._base.typing import IntArray, Matrix
from widemargin._base.validation import require, require_bool

CHUNK = 1 << 22  # bytes of feature text that are parsed at a time
BEYOND = 2.0**31  # feature numbers must be smaller
ROW = re.compile(rb"\s*(\S+)(?:\s+qid:(-?\d+))((?:\s+\d+:[^\s:]+)*)\s*")
TEXT_OF_ROW = "a row is '<grade> qid:<number> <feature>:<value> <feature>:<value> ...'"


class RankingData(NamedTuple):
    """Ranking data, to be unpacked as ``X, y, qid = read_letor(path)``.

    Attributes
    ----------
    X : CSR matrix of shape (n_rows, n_features)
        Features.
    y : ndarray of shape (n_rows,)
        Grades; integers if all of them are whole numbers.
    qid : ndarray of shape (n_rows,)
        Query id of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.sources import RankingData
    >>> data = RankingData(np.eye(2), np.array([0, 2]), np.array([7, 7]))
    >>> data.qid
    array([7, 7])
    """

    X: Matrix
    y: Any
    qid: IntArray


def read_letor(
    path: Any,
    *,
    n_features: int | None = None,
    zero_based: bool = False,
    dtype: Any = np.float64,
) -> RankingData:
    r"""Read a ranking file in the LETOR format (SVMlight with ``qid:``).

    Parameters
    ----------
    path : str or path
        A text file, gzipped or not (recognised by its content, not by its name).
    n_features : int, default=None
        Number of features; None selects the largest feature number of the file. Pass it if the
        test file lacks the last features of the training file.
    zero_based : bool, default=False
        Whether features are numbered from 0 instead of from 1.
    dtype : {np.float64, np.float32}, default=np.float64
        Type of X.

    Returns
    -------
    RankingData
        X (sparse, without explicit zeros), y and qid.

    Raises
    ------
    ValueError
        If a line does not follow the format; the message gives its number.

    Examples
    --------
    >>> import os, tempfile
    >>> from widemargin import sources
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "train.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("2 qid:1 1:0.5 3:1.0 # a comment\n0 qid:1 2:0.25\n1 qid:2 3:2.0\n")
    >>> X, y, qid = sources.read_letor(path)
    >>> X.toarray()
    array([[0.5 , 0.  , 1.  ],
           [0.  , 0.25, 0.  ],
           [0.  , 0.  , 2.  ]])
    >>> y, qid
    (array([2, 0, 1]), array([1, 1, 2]))
    >>> folder.cleanup()
    """
    require_bool("zero_based", zero_based)
    good = n_features is None or (isinstance(n_features, int | np.integer) and n_features > 0)
    require(good, "n_features", n_features, "a positive integer or None")
    require(np.dtype(dtype).kind == "f", "dtype", dtype, "np.float64 or np.float32")
    rows = _Rows(os.fspath(path), 0 if zero_based else 1, n_features)
    with open(rows.path, "rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    with gzip.open(rows.path, "rb") if compressed else open(rows.path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            content = line.split(b"#", 1)[0]
            if content.strip():
                rows.add(number, content)
    return rows.finish(np.dtype(dtype))


class _Rows:
    """Accumulator of the rows of a file; feature texts are parsed in chunks."""

    def __init__(self, path: str, first: int, n_features: int | None) -> None:
        self.path = path
        self.first = first
        self.n_features = n_features
        self.grades: list[float] = []
        self.queries: list[int] = []
        self.lengths: list[int] = []
        self.numbers: list[int] = []  # line number of each row
        self.texts: list[bytes] = []
        self.waiting = 0
        self.done = 0  # number of rows whose features are parsed
        self.indices: list[IntArray] = []
        self.values: list[Any] = []

    def refuse(self, number: int, why: str) -> ValueError:
        """Return the error for a line."""
        return ValueError(f"{self.path}, line {number}: {why}")

    def add(self, number: int, line: bytes) -> None:
        """Add a line, without its comment."""
        match = ROW.fullmatch(line)
        if match is None:
            raise self.refuse(number, _what_is_wrong(line))
        grade, query, features = match.groups()
        try:
            self.grades.append(float(grade))
        except ValueError:
            raise self.refuse(number, f"the grade {_shown(grade)} is not a number") from None
        if not np.isfinite(self.grades[-1]):
            raise self.refuse(number, f"the grade {_shown(grade)} is not finite")
        self.queries.append(int(query))
        self.lengths.append(features.count(b":"))
        self.numbers.append(number)
        self.texts.append(features)
        self.waiting += len(features)
        if self.waiting > CHUNK:
            self.convert()

    def convert(self) -> None:
        """Parse and check the features that are still text."""
        count = 2 * sum(self.lengths[self.done :])
        flat = _parsed(b" ".join(self.texts).replace(b":", b" "))
        if flat is None or len(flat) != count or not np.isfinite(flat).all():
            raise self._bad_value()
        # Clipped so that the cast cannot overflow; `_check` rejects such numbers.
        indices = np.minimum(flat[::2], BEYOND).astype(np.int64) - self.first
        lengths = self.lengths[self.done :]
        self._check(indices, np.repeat(np.arange(self.done, len(self.lengths)), lengths))
        self.indices.append(indices)
        self.values.append(flat[1::2])
        self.texts, self.waiting, self.done = [], 0, len(self.lengths)

    def _check(self, indices: IntArray, row: IntArray) -> None:
        """Check that feature numbers are in range and increase within a row."""
        for at in np.flatnonzero(indices >= BEYOND - self.first)[:1]:
            raise self.refuse(
                self.numbers[row[at]], f"a feature from number {BEYOND:.0f} on; renumber them"
            )
        for at in np.flatnonzero(indices < 0)[:1]:
            raise self.refuse(
                self.numbers[row[at]],
                "feature 0, but features are numbered from 1; give zero_based=True if they are "
                "numbered from 0 here",
            )
        falls = (indices[1:] <= indices[:-1]) & (row[1:] == row[:-1])
        for at in np.flatnonzero(falls)[:1]:
            one, other = indices[at] + self.first, indices[at + 1] + self.first
            why = f"feature {other} after feature {one}; their numbers must increase in a row"
            raise self.refuse(self.numbers[row[at]], why)
        if self.n_features is not None:
            for at in np.flatnonzero(indices >= self.n_features)[:1]:
                why = f"feature {indices[at] + self.first}, but n_features={self.n_features}"
                raise self.refuse(self.numbers[row[at]], why)

    def _bad_value(self) -> ValueError:
        """Return the error for the first value that is not a finite number."""
        for k, text in enumerate(self.texts, self.done):
            for feature in text.split():
                name, value = feature.split(b":")
                number = _parsed(value)
                if number is None or len(number) != 1 or not np.isfinite(number[0]):
                    why = f"feature {name.decode()} has the value {_shown(value)}; it must be a "
                    return self.refuse(self.numbers[k], f"{why}finite number")
        return ValueError(f"{self.path}: features could not be read as numbers")

    def finish(self, dtype: Any) -> RankingData:
        """Return the data of all rows."""
        if not self.grades:
            raise ValueError(f"{self.path} holds no rows; {TEXT_OF_ROW}")
        self.convert()
        indices, values = np.concatenate(self.indices), np.concatenate(self.values)
        width = self.n_features or max(1, int(indices.max(initial=0)) + 1)
        ends = np.concatenate([[0], np.cumsum(self.lengths)])
        X = sp.csr_matrix(
            (values.astype(dtype), indices, ends), shape=(len(self.grades), int(width))
        )
        X.eliminate_zeros()
        y = np.array(self.grades)
        whole = bool((y == np.round(y)).all() and np.abs(y).max() < 2**53)
        return RankingData(X, y.astype(np.int64) if whole else y, np.array(self.queries))


def _parsed(text: bytes) -> Any:
    """Parse numbers separated by white space; return None if anything else occurs."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # NumPy warns if it stops before the end
        try:
            return np.fromstring(text, dtype=np.float64, sep=" ") if text.strip() else np.zeros(0)
        except (DeprecationWarning, ValueError):
            return None


def _what_is_wrong(line: bytes) -> str:
    """Describe why a line does not follow the format."""
    words = line.split()
    if len(words) < 2 or not words[1].startswith(b"qid:"):
        return (
            f"no query after the grade {_shown(words[0])}; {TEXT_OF_ROW} (files without queries "
            "are read by sklearn.datasets.load_svmlight_file)"
        )
    if not re.fullmatch(rb"qid:-?\d+", words[1]):
        return f"the query {_shown(words[1])} is not a whole number"
    odd = next((word for word in words[2:] if not re.fullmatch(rb"\d+:[^\s:]+", word)), words[-1])
    return f"{_shown(odd)} is not <feature>:<value>; {TEXT_OF_ROW}"


def _shown(word: bytes) -> str:
    text = word.decode("utf-8", "replace")
    return repr(text if len(text) <= 40 else text[:40] + "...")
