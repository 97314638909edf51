"""The count of what became of drawn problems, and the table that is printed of it.

Imported by tests/conftest.py in every session, hence without anything heavy.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator

FITTED, UNCONVERGED, REFUSED = "certified", "not converged, warned", "refused"
# A duplicate of the real standard error, which pytest captures: set when a session begins.
stderr = sys.__stderr__.fileno() if sys.__stderr__ else 2

tally: dict[str, Counter[str]] = defaultdict(Counter)
refusals: dict[str, Counter[str]] = defaultdict(Counter)


def count(name: str, outcome: str) -> None:
    """Count one problem of a machine."""
    tally[name][outcome] += 1


def counts() -> dict[str, dict[str, dict[str, int]]]:
    """Return the counts as plain dicts, to be sent from one process to another."""
    return {
        "tally": {name: dict(found) for name, found in tally.items()},
        "refusals": {name: dict(found) for name, found in refusals.items()},
    }


def add_counts(more: dict[str, dict[str, dict[str, int]]]) -> None:
    """Add the counts of another process."""
    for mine, theirs in ((tally, more.get("tally")), (refusals, more.get("refusals"))):
        for name, found in (theirs or {}).items():
            mine[name].update(found)


def summary() -> Iterator[str]:
    """Yield the lines of the table: what became of the problems of each machine, and why not."""
    columns = ["problems", FITTED, UNCONVERGED, REFUSED]
    rest = sorted({outcome for found in tally.values() for outcome in found} - set(columns))
    columns += rest
    width = max(len(name) for name in tally)
    yield " " * width + "  " + "  ".join(columns)
    for name in sorted(tally):
        shown = "  ".join(f"{tally[name][c]:>{len(c)}}" for c in columns)
        yield f"{name:<{width}}  {shown}"
        for kind, times in refusals[name].most_common(4):
            yield f"{'':<{width}}    {times} x {kind}"
