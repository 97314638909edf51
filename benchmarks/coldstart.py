"""Start-up costs: import time, compilation in the first fit, and a read-only installation.

Every measurement runs in a fresh process, since a process imports a module only once.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from benchmarks.coldstart_estimators import ESTIMATORS, time_first_report, time_first_uses
from benchmarks.measure import rounds_of
from benchmarks.readonly import refuse_writes
from benchmarks.report import Report, Target

ROOT = Path(__file__).resolve().parent.parent

IMPORTS = {
    "import sklearn.svm": "pass",
    "import sklearn.svm, widemargin": "import widemargin",
    "import sklearn.svm; from widemargin import SVC": "from widemargin import SVC",
}
"""Label in the table, and the statement that is timed after ``import sklearn.svm``."""

TIMED_IMPORT = """
import json, time
start = time.perf_counter()
import sklearn.svm
between = time.perf_counter()
{statement}
end = time.perf_counter()
print(json.dumps({{"total": end - start, "added": end - between}}))
"""

TIMED_FITS = """
import json, time
import numpy as np
import sklearn.svm
from widemargin import {estimator}
import widemargin
rng = np.random.default_rng(0)
X = rng.standard_normal(({rows}, 20))
y = np.where(X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.standard_normal({rows}) > 0, 1, -1)
seconds, busy = [], []
for _ in range(3):
    model = {estimator}()
    start, cpu_start = time.perf_counter(), time.process_time()
    model.fit(X, y)
    seconds.append(time.perf_counter() - start)
    busy.append(time.process_time() - cpu_start)
print(json.dumps({{
    "first": seconds[0], "again": min(seconds[1:]),
    "cpu_extra": busy[0] - min(busy[1:]), "score": float(model.score(X, y)),
    "folder": str(next(iter(widemargin.__path__))),
}}))
"""

PROBLEMS = {
    "SVC 600 x 20": ("SVC", 600),
    "SVC 6,000 x 20": ("SVC", 6_000),
    "SVR 600 x 20": ("SVR", 600),
    "LinearSVC 6,000 x 20": ("LinearSVC", 6_000),
}
"""Estimator and number of samples. Small and large problems compile different solvers."""


def run(console: Console, *, quick: bool, rounds: int) -> Report:
    """Run the coldstart benchmark and return its report."""
    report = Report("coldstart", quick)
    with console.status("imports") as status:
        imports = _time_imports(repeats=3 if quick else max(9, rounds))
        fits: dict[str, dict[str, float]] = {}
        problems = list(PROBLEMS)[:2] if quick else list(PROBLEMS)
        for name in problems:
            status.update(f"first fits: {name}")
            fits[name] = _time_first_fits(*PROBLEMS[name], repeats=1 if quick else 3)
        uses = time_first_uses(
            ESTIMATORS[:1] if quick else ESTIMATORS,
            lambda name: status.update(f"first fit and leave-one-out: {name}"),
        )
        status.update("read-only install")
        locked = _read_only_install()
        report.results = {
            "imports": imports, "first_fits": fits, "first_uses": uses, "read_only_install": locked
        }  # fmt: skip
        if not quick:
            status.update("first report")
            report.results["first_report"] = time_first_report()
    _collect(report)
    _collect_first_uses(report)
    return report


def _child(
    script: str, environment: dict[str, str] | None = None, prefix: Sequence[str] = ()
) -> dict[str, Any]:
    """Run a script in a new interpreter and return the JSON of its last line."""
    done = subprocess.run(
        [*prefix, sys.executable, "-c", script],
        cwd=tempfile.gettempdir(),  # not the repository, whose folders would shadow the install
        env=os.environ | (environment or {}),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _time_imports(repeats: int) -> dict[str, dict[str, Any]]:
    """Return median import times: the total, and what widemargin adds to scikit-learn.

    Both are timed within one process: on a busy computer the difference between two processes is
    mostly noise.
    """
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in IMPORTS}
    for script in IMPORTS.values():
        _child(TIMED_IMPORT.format(statement=script))  # warm-up: byte code and disk cache
    for name in rounds_of(IMPORTS, repeats):
        runs[name].append(_child(TIMED_IMPORT.format(statement=IMPORTS[name])))
    return {
        name: {key: median(run[key] for run in found) for key in ("total", "added")}
        | {"rounds": found}
        for name, found in runs.items()
    }


def _time_first_fits(estimator: str, rows: int, repeats: int) -> dict[str, float]:
    """Return how many seconds longer the first fit takes, with an empty and with a warm cache."""
    script = TIMED_FITS.format(estimator=estimator, rows=rows)
    cold: list[float] = []
    warm: list[float] = []
    again: list[float] = []
    cpu: dict[str, list[float]] = {"compile": [], "warm": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            environment = {"NUMBA_CACHE_DIR": cache}
            for state, extra in (("compile", cold), ("warm", warm)):
                figures = _child(script, environment)
                extra.append(figures["first"] - figures["again"])
                again.append(figures["again"])
                cpu[state].append(figures["cpu_extra"])
    return {
        "compile": median(cold),
        "compile_cpu": median(cpu["compile"]),
        "warm_cache": median(warm),
        "warm_cache_cpu": median(cpu["warm"]),
        "fit": min(again),
    }


def _read_only_install() -> dict[str, Any]:
    """Fit with a read-only copy of the package and no writable cache folder."""
    package = Path(_child(TIMED_FITS.format(estimator="SVC", rows=100))["folder"])
    with tempfile.TemporaryDirectory() as scratch:
        site, home = Path(scratch, "site"), Path(scratch, "home")
        home.mkdir()
        shutil.copytree(package, site / "widemargin", ignore=shutil.ignore_patterns("__pycache__"))
        environment = {
            "PYTHONPATH": str(site),
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / "cache"),
        }
        with refuse_writes(Path(scratch)) as lock:
            return _fit_locked(environment, lock.prefix, site) | {"locked_by": lock.how}


def _fit_locked(environment: dict[str, str], prefix: Sequence[str], site: Path) -> dict[str, Any]:
    without_cache = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    script = TIMED_FITS.format(estimator="SVC", rows=600)
    done = subprocess.run(
        [*prefix, sys.executable, "-c", script],
        cwd=site,
        env=without_cache | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {"works": False, "error": done.stderr.strip().splitlines()[-1:]}
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    from_copy = Path(figures["folder"]).is_relative_to(site)
    untouched = not list(site.rglob("__pycache__"))
    return figures | {"works": from_copy and untouched}


def _collect(report: Report) -> None:
    imports = report.results["imports"]
    table = report.table("Imports in a fresh process: median seconds", ["statement", "s", "added"])
    for name, figures in imports.items():
        table.add_row(name, f"{figures['total']:.3f}", f"{figures['added']:+.3f}")
    fits = report.results["first_fits"]
    table = report.table(
        "First fit in a process, less a later one: median seconds (processor seconds)",
        ["problem", "empty cache", "warm cache", "a later fit"],
    )
    for name, figures in fits.items():
        cells = [f"{figures[k]:.3f} ({figures[k + '_cpu']:.3f})" for k in ("compile", "warm_cache")]
        table.add_row(name, *cells, f"{figures['fit']:.3f}")
    locked = report.results["read_only_install"]
    table = report.table("Read-only install, no folder for a cache", ["locked by", "first fit s"])
    table.add_row(locked["locked_by"], f"{locked['first']:.3f}" if locked["works"] else "failed")
    dearest = max(figures["added"] for figures in imports.values())
    report.targets = [
        Target("import adds to scikit-learn's", dearest, 0.3, False, " s"),
        *(Target(f"compilation, {n}", f["compile"], 5, False, " s") for n, f in fits.items()),
        *(Target(f"warm cache, {n}", f["warm_cache"], 0.5, False, " s") for n, f in fits.items()),
        Target("works from a read-only install", float(locked["works"]), 1, True),
    ]
    if not locked["works"]:
        report.failures.append(f"read-only install: {locked.get('error', 'wrote to its folder')}")


MOST_SECONDS = {
    "SVC": 1.5,
    "SVR": 1.5,
    "LinearSVC": 1.5,
    "LPSVC": 5.0,
    "NuLPSVC": 5.0,
    "LOOSVC": 5.0,
}


def _collect_first_uses(report: Report) -> None:
    columns = ["estimator", "first fit", "first leave-one-out", "files"]
    table = report.table("Compilation: processor seconds, empty less warm cache", columns)
    for name, figures in report.results["first_uses"].items():
        table.add_row(name, f"{figures['fit']:.2f}", f"{figures['loo']:.2f}", str(figures["files"]))
        if name in MOST_SECONDS:
            target = f"processor seconds to compile {name}"
            report.targets.append(Target(target, figures["fit"], MOST_SECONDS[name], False, " s"))
        if name == "SVC":
            target = "processor seconds to compile its leave-one-out"
            report.targets.append(Target(target, figures["loo"], 3.0, False, " s"))
    if "first_report" in report.results:
        figures = report.results["first_report"]
        table.add_row("report --demo", f"{figures['compile']:.2f}", "", "")
        report.targets.append(
            Target("processor seconds to compile a report", figures["compile"], 11.0, False, " s")
        )
