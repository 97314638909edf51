"""Write the tables of the documentation from the JSON of ``python -m benchmarks literature``.

``python -m benchmarks literature --json run.json --rst docs/literature_results.txt`` writes both
files; ``python -m benchmarks.literature_rst run.json docs/literature_results.txt`` writes the
tables from an existing JSON file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.literature_items import VERDICTS, Item, Range, counts
from widemargin.sources.whole_file import write_whole

HEADINGS = ("item", "quantity", "published", "ours", "difference", "verdict")
WIDTHS = "14 32 10 13 9 22"
SPECIAL = str.maketrans({character: "\\" + character for character in "\\*`|_"})


def write_page(content: dict[str, Any], path: Path) -> None:
    """Write the tables to a file atomically."""
    text = page(content)
    write_whole(path, lambda handle: handle.write(text.encode()))


def page(content: dict[str, Any]) -> str:
    """Return the tables of a run as reStructuredText, without a date or a host name."""
    items = [Item(**item) for item in content["results"]["items"]]
    works = list(dict.fromkeys(item.work for item in items))
    parts = [_made_by(content), _proofs(content["results"]), _summary(items, works)]
    ranges = [Range(**each) for each in content["results"]["ranges"]]
    for work in works:
        parts.append(_table([item for item in items if item.work == work]))
        parts += [_range(each) for each in ranges if each.work == work]
    return "\n".join(parts)


def _made_by(content: dict[str, Any]) -> str:
    quick = " --quick" if content["quick"] else ""
    splits = content["results"]["splits"]
    machine = content["machine"]
    versions = ", ".join(f"{name} {v}" for name, v in machine["packages"].items() if v)
    lines = [
        f"Made by ``python -m benchmarks literature{quick}``: {splits} splits, "
        f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}; "
        f"{_escaped(versions)}.",
    ]
    if content["quick"]:
        lines.append("A quick run is only an indication.")
    lines += [
        f"\n**Our own results contradict each other**: {_escaped(failure)}"
        for failure in content["failures"]
    ]
    return "\n".join(lines) + "\n"


def _proofs(results: dict[str, Any]) -> str:
    """Return a sentence on how many certificates converged, with a list of the others."""
    fits, unproved = results["fits"], results["unproved"]
    text = f"Of {fits:,} fits that were asked for it, {fits - len(unproved):,} prove their optimum"
    if unproved:
        text += "; the others say that they do not: " + _escaped(", ".join(_grouped(unproved)))
    return text + ".\n"


def _grouped(unproved: list[str]) -> list[str]:
    """Return one entry per kind of fit (without the number of the split), with its largest gap."""
    gaps: dict[str, list[str]] = {}
    for fit in unproved:
        name, _, gap = fit.rpartition(" (gap ")
        kind = ", ".join(part for part in name.split(", ") if not part.startswith("split "))
        gaps.setdefault(kind, []).append(gap.rstrip(")"))
    return [
        f"{kind} ({len(found)} fits, largest gap {max(found, key=float)})"
        if len(found) > 1
        else f"{kind} (gap {found[0]})"
        for kind, found in gaps.items()
    ]


def _summary(items: list[Item], works: list[str]) -> str:
    rows = [["source", *VERDICTS]]
    for work in works:
        of_work = counts([item for item in items if item.work == work])
        rows.append([work, *(str(of_work[verdict]) for verdict in VERDICTS)])
    rows.append(["together", *(str(count) for count in counts(items).values())])
    return _list_table("", "36 16 16 16 16", rows)


def _table(items: list[Item]) -> str:
    rows = [list(HEADINGS)]
    for item in items:
        known = [item.place, item.quantity, item.published, item.ours, item.difference]
        rows.append([*known, _verdict(item)])
    return _list_table(items[0].work, WIDTHS, rows)


def _range(each: Range) -> str:
    first = 40
    others = (100 - first) // max(1, len(each.headings) - 1)
    widths = " ".join([str(first), *[str(others)] * (len(each.headings) - 1)])
    return _list_table(each.title, widths, [each.headings, *each.rows])


def _verdict(item: Item) -> str:
    """Return the verdict, followed by its reason and the experiment that checks it, if any."""
    if not item.reason:
        return item.verdict
    checked = f" (checked by: {item.experiment})" if item.experiment else ""
    return f"{item.verdict}: {item.reason}{checked}"


def _list_table(title: str, widths: str, rows: list[list[str]]) -> str:
    lines = [f".. list-table:: {_escaped(title)}".rstrip(), "   :header-rows: 1"]
    lines += [f"   :widths: {widths}", ""]
    for row in rows:
        for number, cell in enumerate(row):
            bullet = "* -" if number == 0 else "  -"
            lines.append(f"   {bullet} {_escaped(cell)}".rstrip())
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.translate(SPECIAL)


if __name__ == "__main__":
    source, target = (Path(argument) for argument in sys.argv[1:])
    write_page(json.loads(source.read_text()), target)
