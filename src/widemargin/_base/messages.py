"""User-facing errors, warnings and suggestions."""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable

BETWEEN = {"widemargin", "sklearn"}  # packages whose frames are skipped to find the user's line


class UserError(ValueError):
    """Error in the user's data, files or command; the command line prints it without traceback."""


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a "Did you mean" hint with the closest names, or "" if none is close."""
    by_folded = {candidate.casefold(): candidate for candidate in names}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=3, cutoff=0.5)
    if not close:
        return ""
    return f" Did you mean {' or '.join(repr(by_folded[folded]) for folded in close)}?"


def listing(names: Iterable[object], *, most: int = 8) -> str:
    """Return the first `most` names in quotes and the number of the remaining ones."""
    shown = [repr(name) for name in names]
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points at the line of user code, whatever the depth of the call."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in BETWEEN:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
