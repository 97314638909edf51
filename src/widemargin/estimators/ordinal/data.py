"""Check the ranks and queries that an ordinal machine is fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from widemargin._base.messages import warn
from widemargin._base.typing import BoolArray, IntArray
from widemargin._base.validation import TrainingSet

SHOWN = 5


@dataclass(frozen=True, eq=False)
class RankedRows:
    """Training rows of an ordinal machine.

    Attributes
    ----------
    data : TrainingSet
        The rows.
    classes : ndarray
        The ranks, lowest first.
    codes : ndarray
        Rank of each row, 0 .. n_ranks - 1.
    group : ndarray
        Query of each row, all zero without queries.
    by_query : bool
        Whether there are queries.
    """

    data: TrainingSet
    classes: Any
    codes: IntArray
    group: IntArray
    by_query: bool


def check_ranks(y: Any) -> None:
    """Refuse labels that have no place among ranks when there are no queries."""
    if type_of_target(y, input_name="y").startswith("continuous"):
        raise ValueError(
            "Unknown label type: continuous. Without qid, y must hold ranks: bin the values (for "
            "instance with np.digitize), or give qid to learn their order within queries"
        )
    check_classification_targets(y)


def query_codes(qid: Any, n_rows: int) -> IntArray:
    """Return the number of each row's query; one query where none were given."""
    if qid is None:
        return np.zeros(n_rows, dtype=np.intp)
    queries = np.asarray(qid)
    if queries.shape not in ((n_rows,), (n_rows, 1)):
        raise ValueError(
            f"qid must have one entry for each of the {n_rows} rows of X; got shape {queries.shape}"
        )
    queries = queries.ravel()
    try:
        found, codes = np.unique(queries, return_inverse=True)
        # NaN and a missing date differ from themselves.
        complete = bool(np.all(found == found))
        if found.dtype.kind == "f":
            complete = bool(np.isfinite(found).all())
    except TypeError:  # None among words, or words among numbers
        complete = False
    if not complete:
        raise ValueError(
            "qid must hold numbers or words of one kind, none missing or infinite; got "
            f"{_some(queries.tolist())}. Drop the rows without a query or give each its own"
        )
    return codes.astype(np.intp)


def check_queries(rows: RankedRows, qid: Any) -> None:
    """Warn of queries without two ranks; refuse the data if there are no others."""
    alone = _of_one_rank(rows.codes, rows.group)
    if not alone.any():
        return
    if alone.all():
        raise ValueError(
            f"qid leaves nothing to compare: none of the {len(alone)} queries has rows of two "
            "ranks with positive weight. Give queries whose rows differ in y, or no qid"
        )
    queries = np.asarray(qid).ravel()[rows.data.index]
    first = np.unique(rows.group, return_index=True)[1]
    warn(
        f"{int(alone.sum())} of {len(alone)} queries have rows of one rank only (qid "
        f"{_some(queries[first[alone]].tolist())}): they hold no pair to compare, and were ignored",
        UserWarning,
    )


def _of_one_rank(codes: IntArray, group: IntArray) -> BoolArray:
    """Return for each query that occurs, in order, whether all its rows have the same rank."""
    order = np.lexsort((codes, group))
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    ends = np.append(starts[1:], len(order)) - 1
    return np.asarray(codes[order[starts]] == codes[order[ends]])


def _some(values: list[Any]) -> str:
    texts = [repr(value) for value in dict.fromkeys(values)]
    return ", ".join([*texts[:SHOWN], "..."] if len(texts) > SHOWN else texts)
