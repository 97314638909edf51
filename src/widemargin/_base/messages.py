"""Mistakes that a person can mend, and words that help to mend them."""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable

BETWEEN = {"widemargin", "sklearn"}  # packages whose frames lie between a user's line and a warning


class UserError(ValueError):
    """A mistake in data, files or a command; the command line shows it as one message."""


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a hint that names what the user may have meant, or "" where nothing is near."""
    by_folded = {candidate.casefold(): candidate for candidate in names}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=3, cutoff=0.5)
    if not close:
        return ""
    return f" Did you mean {' or '.join(repr(by_folded[folded]) for folded in close)}?"


def listing(names: Iterable[object], *, most: int = 8) -> str:
    """Return names in quotes, the first few of them, and how many more there are."""
    shown = [repr(name) for name in names]
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's that led here, however many calls lie between."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in BETWEEN:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
