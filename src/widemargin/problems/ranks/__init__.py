"""Order of ordinal labels, and encoding of labels as ranks.

The order is the first of: `classes` as passed by the user; that of an ordered pandas Categorical or
a polars Enum; that of the numbers. Plain strings have no order. They are sorted alphabetically,
which puts "high" before "low", so a warning shows the order used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from widemargin._base.messages import warn
from widemargin._base.typing import IntArray
from widemargin._base.validation import require

SHOWN = 8


def ordered_classes(y: Any, classes: Any = None) -> tuple[Any, IntArray]:
    """Return the labels that occur in y, lowest rank first, and the rank of each sample.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels as passed by the user: a conversion to an array would lose the order of a
        categorical.
    classes : sequence of labels, default=None
        All labels that y may contain, lowest rank first. None: the order of y itself.

    Returns
    -------
    classes_ : ndarray of shape (n_ranks,)
        The labels that occur, lowest rank first. Labels that do not occur are not ranks of the
        model, since nothing can be learned about them.
    codes : ndarray of shape (n_samples,)
        Index of each sample's label in `classes_`.

    Examples
    --------
    >>> ranks, codes = ordered_classes(["high", "low", "high"], ["low", "medium", "high"])
    >>> ranks.tolist(), codes.tolist()
    (['low', 'high'], [1, 0, 1])
    """
    order = declared_order(y) if classes is None else _checked(classes)
    labels, codes = _distinct(np.asarray(y).ravel())
    if order is None:
        _warn_of_strings(labels)
    else:
        where = "the categories of y" if classes is None else "classes"
        place = places(labels, order, "y", where)
        by_rank = np.argsort(place, kind="stable")
        labels, codes = labels[by_rank], np.argsort(by_rank, kind="stable")[codes]
    return used_ranks(labels, codes.astype(np.intp))


def used_ranks(classes: Any, codes: IntArray) -> tuple[Any, IntArray]:
    """Return the ranks that occur, and the codes renumbered among them.

    Used after samples have been dropped, such as those of zero weight.
    """
    present, renumbered = np.unique(codes, return_inverse=True)
    if len(present) < 2:
        raise ValueError(
            f"y must hold at least two ranks; got one class, {classes[present].tolist()[0]!r} "
            "(rows of zero sample_weight do not count)"
        )
    return classes[present], renumbered.astype(np.intp)


def declared_order(y: Any) -> list[Any] | None:
    """Return the categories of an ordered pandas Categorical or a polars Enum, else None.

    The types are recognised by their attributes, so that neither library is imported.
    """
    kind: Any = getattr(y, "dtype", None)
    if getattr(kind, "ordered", False) and hasattr(kind, "categories"):
        return list(kind.categories)
    if type(kind).__name__ == "Enum" and type(kind).__module__.startswith("polars"):
        return list(kind.categories)
    return None


def _checked(classes: Any) -> list[Any]:
    fix = "a sequence of two or more different labels, lowest rank first"
    good = isinstance(classes, Iterable) and not isinstance(classes, str | bytes | dict | set)
    require(good, "classes", classes, fix)
    order = [_plain(label) for label in classes]
    hashable = all(label.__hash__ is not None for label in order)
    require(hashable and len(order) == len(set(order)) >= 2, "classes", classes, fix)
    return order


def _plain(label: Any) -> Any:
    """Convert a numpy scalar to the equal Python value."""
    return label.item() if isinstance(label, np.generic) else label


def _distinct(labels: Any) -> tuple[Any, IntArray]:
    """Return the sorted distinct labels and the code of each sample; raise if not comparable."""
    try:
        found, codes = np.unique(labels, return_inverse=True)
        comparable = bool(np.all(found == found))  # false for NaN
    except TypeError:  # strings mixed with numbers or missing labels
        comparable = False
    if not comparable:
        kinds = sorted({type(label).__name__ for label in labels.tolist()})
        raise ValueError(
            f"y must hold labels of one kind, none missing; got {', '.join(kinds)} with missing "
            "or mixed ones. Remove rows without a label, and make all labels numbers or all "
            "strings."
        )
    return found, codes


def places(labels: Any, order: list[Any], name: str, where: str) -> IntArray:
    """Return the position of each label in `order`; raise for labels that are not in it.

    `name` and `where` describe the labels and the order in the error message.
    """
    place = {_plain(label): k for k, label in enumerate(order)}
    unknown = [label for label in dict.fromkeys(labels.tolist()) if label not in place]
    if unknown:
        raise ValueError(
            f"{name} holds {_some(unknown)}, not among {where}: {_some(order)}; add to {where}, "
            f"lowest rank first, or correct {name}"
        )
    return np.array([place[label] for label in labels.tolist()], dtype=np.intp)


def comparable_numbers(y: Any, classes: Any, fitted: Any) -> Any:
    """Return y as numbers in the order of the ranks, for training or new samples.

    `classes` is the order passed by the user, or None; `fitted` are the ranks of the training set.
    """
    labels = np.asarray(y).ravel()
    if classes is not None:
        return places(labels, list(classes), "y", "classes")
    order = declared_order(y)
    if order is not None:
        return places(labels, order, "y", "the categories of y")
    if labels.dtype.kind in "OUS":
        return places(labels, fitted.tolist(), "y", "classes_")
    return labels


def _warn_of_strings(labels: Any) -> None:
    if not any(isinstance(label, str) for label in labels.tolist()):
        return
    warn(
        f"the ranks are strings and were put in alphabetical order: {_some(labels.tolist(), ' < ')}"
        ". If that is not their order, give classes=[lowest, ..., highest] or an ordered "
        "categorical as y.",
        UserWarning,
    )


def _some(labels: list[Any], between: str = ", ") -> str:
    """Return the labels as text, abbreviated if there are more than SHOWN."""
    texts = [repr(label) for label in labels]
    if len(texts) > SHOWN:
        texts = [*texts[: SHOWN - 1], "...", texts[-1]]
    return between.join(texts)
