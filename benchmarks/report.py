"""Report of a benchmark: tables, targets, failures, and a description of the computer."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measure import usable_cores
from widemargin.sources.whole_file import write_whole

TEXT_COLUMNS = ("candidate", "quantity", "verdict", "reason")
PACKAGES = (
    "widemargin", "numpy", "scipy", "scikit-learn", "scikit-learn-intelex", "numba", "highspy",
    "mord", "skordinal", "statsmodels", "gpytorch",
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A measured value and the bound that it should satisfy.

    Attributes
    ----------
    name : str
        The measured quantity.
    value, bound : float
        The measured value and its bound.
    at_least : bool
        Whether the value should be at least the bound; otherwise at most.
    unit : str
        Unit, printed after both.
    """

    name: str
    value: float
    bound: float
    at_least: bool
    unit: str = ""

    @property
    def met(self) -> bool:
        """Whether the value satisfies its bound; NaN does not."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound


@dataclass
class Report:
    """Results of one benchmark.

    Attributes
    ----------
    benchmark : str
        Name on the command line.
    quick : bool
        Whether small problems were used; the figures are then only an indication.
    results : dict
        Raw figures, as written to JSON.
    targets : list of Target
        Printed as met or not met; they do not affect the exit code.
    failures : list of str
        Contradictory results, for example objectives that disagree; the exit code is then 1.
    """

    benchmark: str
    quick: bool
    results: dict[str, Any] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    def table(self, title: str, columns: Sequence[str]) -> Table:
        """Add a table; columns of text are left-aligned, columns of figures right-aligned."""
        table = Table(title=title, title_justify="left", header_style="bold")
        for number, column in enumerate(columns):
            is_text = number == 0 or column in TEXT_COLUMNS
            table.add_column(column, justify="left" if is_text else "right")
        self.tables.append(table)
        return table

    def print(self, console: Console) -> None:
        """Print tables, targets and failures."""
        for table in self.tables:
            console.print(table)
        if self.targets:
            console.print(self._target_table())
        for failure in self.failures:
            console.print(f"[bold red]FAILED[/] {failure}")

    def _target_table(self) -> Table:
        note = " (quick run: only an indication)" if self.quick else ""
        table = Table(title=f"Targets{note}", title_justify="left", header_style="bold")
        for name, justify in (("target", "left"), ("bound", "right"), ("measured", "right")):
            table.add_column(name, justify=justify)  # type: ignore[arg-type]
        table.add_column("")
        for target in self.targets:
            sign = ">=" if target.at_least else "<="
            verdict = "[green]met[/]" if target.met else "[yellow]not met[/]"
            bound = f"{sign} {target.bound:g}{target.unit}"
            table.add_row(target.name, bound, f"{target.value:.3g}{target.unit}", verdict)
        return table

    def content(self) -> dict[str, Any]:
        """Return the content of the JSON file."""
        return {
            "benchmark": self.benchmark,
            "quick": self.quick,
            "machine": machine_facts(),
            "results": self.results,
            "targets": [asdict(target) | {"met": target.met} for target in self.targets],
            "failures": self.failures,
        }

    def write_json(self, path: Path) -> None:
        """Write the report to a JSON file atomically."""
        text = json.dumps(self.content(), indent=2) + "\n"
        write_whole(path, lambda handle: handle.write(text.encode()))


def machine_facts() -> dict[str, Any]:
    """Return processor, memory, system, versions and thread pools, without a host name."""
    from threadpoolctl import threadpool_info

    pools = [
        {key: pool.get(key) for key in ("internal_api", "version", "num_threads", "architecture")}
        for pool in threadpool_info()
    ]
    return {
        "processor": _processor(),
        "cores": usable_cores(),
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "thread_pools": pools,
    }


def machine_line() -> str:
    """Return processor, cores and versions as one line, printed above the tables."""
    versions = ", ".join(f"{name} {version}" for name in PACKAGES if (version := _version(name)))
    return f"{_processor()}, {usable_cores()} cores; {versions}"


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None
