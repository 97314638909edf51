"""Print the lowest versions that pyproject.toml allows, as exact pins for ``pip install -c``.

``python .ci/lowest.py [EXTRA ...]`` reads the dependencies of the package and of the named extras
and turns every ``name>=version`` into ``name==version``. Extras may also pin a tool exactly
(``ruff==0.17.5``) or include other extras of this package. There is no second list to keep.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"

# One lower bound and nothing else, e.g. dask[dataframe]>=2025.1: what this file can pin.
NAME = r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?"
BOUND = re.compile(NAME + r"\s*>=\s*([0-9][0-9A-Za-z.]*)")
BOUND_OR_PIN = re.compile(NAME + r"\s*[>=]=\s*([0-9][0-9A-Za-z.]*)")  # in extras


def expanded(name: str, extras: list[str], optional: dict[str, list[str]]) -> list[str]:
    """Return the entries of the extras; ``name[other]`` stands for the entries of ``other``."""
    entries = []
    for entry in (entry for extra in extras for entry in optional[extra]):
        own = re.fullmatch(rf"{re.escape(name)}\[([^\]]*)\]", entry) if name else None
        entries += expanded(name, own[1].split(","), optional) if own else [entry]
    return entries


def lowest(project: dict[str, object], extras: list[str]) -> list[str]:
    """Return pins, sorted by name, for the run-time dependencies and those of the extras.

    Parameters
    ----------
    project : dict
        The table ``[project]`` of a pyproject.toml.
    extras : list of str
        Names of its optional dependencies.
    """
    optional = project.get("optional-dependencies", {})
    assert isinstance(optional, dict)
    unknown = sorted(set(extras) - set(optional))
    if unknown:
        raise ValueError(f"there is no extra {', '.join(unknown)}: choose from {sorted(optional)}")
    base = project.get("dependencies", [])
    assert isinstance(base, list)
    pins: dict[str, str] = {}
    named = expanded(str(project.get("name", "")), extras, optional)
    for entry, allowed in [*((e, BOUND) for e in base), *((e, BOUND_OR_PIN) for e in named)]:
        bound = allowed.fullmatch(entry.strip())
        if bound is None:
            raise ValueError(f"{entry!r} has no single lower bound: write name>=version")
        name = re.sub(r"[-_.]+", "-", bound[1]).lower()
        if pins.setdefault(name, bound[2]) != bound[2]:
            raise ValueError(f"{name} has two lower bounds: {pins[name]} and {bound[2]}")
    return [f"{name}=={version}" for name, version in sorted(pins.items())]


def main() -> None:
    """Print the pins of the package and of the extras on the command line."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    print("\n".join(lowest(project, sys.argv[1:])))


if __name__ == "__main__":
    main()
