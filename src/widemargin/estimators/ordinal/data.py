"""Validate the ranks and queries of ordinal training data."""

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
    """Training data of OrdinalSVC.

    Attributes
    ----------
    data : TrainingSet
        Samples in canonical order.
    classes : ndarray
        Ranks in increasing order.
    codes : ndarray
        Rank of each sample, 0 .. n_ranks - 1.
    group : ndarray
        Query of each sample; all zero without queries.
    by_query : bool
        Whether queries were given.
    """

    data: TrainingSet
    classes: Any
    codes: IntArray
    group: IntArray
    by_query: bool


def check_ranks(y: Any) -> None:
    """Raise if labels cannot be ranks, for data without queries."""
    if type_of_target(y, input_name="y").startswith("continuous"):
        raise ValueError(
            "Unknown label type: continuous. Without qid, y must hold ranks: bin the values (for "
            "instance with np.digitize), or give qid to learn their order within queries"
        )
    check_classification_targets(y)


def query_codes(qid: Any, n_rows: int) -> IntArray:
    """Return the query number of each sample; all zero if qid is None."""
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
        # NaN and NaT are not equal to themselves.
        complete = bool(np.all(found == found))
        if found.dtype.kind == "f":
            complete = bool(np.isfinite(found).all())
    except TypeError:  # mixed types cannot be sorted
        complete = False
    if not complete:
        raise ValueError(
            "qid must hold numbers or words of one kind, none missing or infinite; got "
            f"{_some(queries.tolist())}. Drop the rows without a query or give each its own"
        )
    return codes.astype(np.intp)


def check_queries(rows: RankedRows, qid: Any) -> None:
    """Warn about queries with a single rank; raise if there are no others."""
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
    """Return for each query, in sorted order, whether all its samples have the same rank."""
    order = np.lexsort((codes, group))
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    ends = np.append(starts[1:], len(order)) - 1
    return np.asarray(codes[order[starts]] == codes[order[ends]])


def _some(values: list[Any]) -> str:
    texts = [repr(value) for value in dict.fromkeys(values)]
    return ", ".join([*texts[:SHOWN], "..."] if len(texts) > SHOWN else texts)
