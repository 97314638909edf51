"""Print a table of line and branch coverage per room, from the JSON of ``coverage json``.

Functions compiled by numba are left out (see pyproject.toml): the tracer cannot see them run.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

COUNTS = ("covered_lines", "num_statements", "covered_branches", "num_branches")


def room_of(path: str) -> str:
    """Return the room of a source file: the first name below the package ``widemargin``."""
    parts = Path(path).parts
    inside = parts[len(parts) - parts[::-1].index("widemargin") :]
    return inside[0] if len(inside) > 1 else "(modules)"


def by_room(report: dict) -> dict[str, dict[str, int]]:
    """Sum the counts of all files of each room."""
    rooms: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(COUNTS, 0))
    for path, entry in report["files"].items():
        for count in COUNTS:
            rooms[room_of(path)][count] += entry["summary"][count]
            rooms["all"][count] += entry["summary"][count]
    return rooms


def share(covered: int, total: int) -> str:
    """Return a percentage; a room without branches has covered all of them."""
    return f"{100 * covered / total if total else 100:.1f} %"


def main() -> None:
    """Print the table."""
    report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print("| room | statements | lines covered | branches covered |\n|---|---:|---:|---:|")
    rooms = by_room(report)
    for room in sorted(rooms, key=lambda name: (name == "all", name)):
        counts = rooms[room]
        lines = share(counts["covered_lines"], counts["num_statements"])
        branches = share(counts["covered_branches"], counts["num_branches"])
        print(f"| {room} | {counts['num_statements']:,} | {lines} | {branches} |")


if __name__ == "__main__":
    main()
