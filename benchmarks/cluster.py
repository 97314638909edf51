"""LinearSVC on a local Dask cluster of two processes against the same data in memory."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.data import MissingExtra
from benchmarks.memory import MB
from benchmarks.outofcore import COLUMNS, FILE_ROWS, _raw_read, _write_files
from benchmarks.report import Report, Target

ROWS = {True: 1_000_000, False: 10_000_000}  # number of samples, by `quick`
COSTS = (1.0, 1e-3)  # values of C


def run(console: Console, *, quick: bool, rounds: int) -> Report:
    """Run the cluster benchmark and return its report."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise MissingExtra("the cluster needs: pip install 'widemargin[dask]'") from None
    report = Report("cluster", quick)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with console.status(f"writing {ROWS[quick]:,} rows"):
            # Whole files are written until the size is reached. Half a file less than the intended
            # size ensures that rounding does not add a file.
            _write_files(folder, (ROWS[quick] - FILE_ROWS / 2) * (4 * COLUMNS + 1) / MB)
        held = [_held(folder, C) for C in COSTS]
        with (
            LocalCluster(
                n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
            ) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            client.wait_for_workers(2, timeout=60)
            read = [_read(folder, C, client, rounds, console) for C in COSTS]
    _collect(report, held, read)
    return report


def _files(folder: Path) -> dict[str, Any]:
    return {"paths": str(folder / "X*.npy"), "target": str(folder / "y*.npy")}


def _held(folder: Path, C: float) -> dict[str, Any]:
    """Fit the data in memory."""
    from widemargin import LinearSVC

    X = np.concatenate([np.load(path) for path in sorted(folder.glob("X*.npy"))])
    y = np.concatenate([np.load(path) for path in sorted(folder.glob("y*.npy"))])
    start = time.perf_counter()
    model = LinearSVC(C=C, loss="hinge", tol=1e-9, solver="sampling").fit(X, y)
    seconds = time.perf_counter() - start
    return {"C": C, "rows": len(y), "seconds": seconds, "primal": model.certificate_.primal}


def _read(folder: Path, C: float, client: Any, rounds: int, console: Console) -> dict[str, Any]:
    """Fit the files on the cluster; return the best time, passes and the certificate's values."""
    from widemargin import LinearSVC, sources

    raw = min(_raw_read(sorted(map(str, folder.glob("*.npy")))) for _ in range(2))
    times = []
    for number in range(rounds):
        with console.status(f"C = {C:g}, round {number + 1} on the cluster"):
            start = time.perf_counter()
            dataset = sources.from_files(**_files(folder), engine=sources.DaskEngine(client))
            model = LinearSVC(C=C, loss="hinge", tol=1e-9).fit(dataset)
            times.append(time.perf_counter() - start)
    return {
        "C": C,
        "seconds": min(times),
        "primal": model.certificate_.primal,
        "gap": model.certificate_.relative_gap,
        "passes": 1 + model.passes_,
        "raw": raw,
    }


def _collect(report: Report, held: list[dict[str, Any]], read: list[dict[str, Any]]) -> None:
    table = report.table(
        f"{held[0]['rows']:,} x {COLUMNS} float32 in .npy files, two worker processes",
        ["C", "cluster s", "passes", "s/pass", "raw read s", "in memory s", "objectives differ by"],
    )
    worst = 0.0
    for here, there in zip(held, read, strict=True):
        difference = abs(there["primal"] - here["primal"]) / max(1.0, abs(here["primal"]))
        worst = max(worst, difference)
        table.add_row(
            f"{here['C']:g}",
            f"{there['seconds']:.2f}",
            f"{there['passes']:.2f}",
            f"{there['seconds'] / there['passes']:.2f}",
            f"{there['raw']:.2f}",
            f"{here['seconds']:.2f}",
            f"{difference:.1e}",
        )
        if difference > 1e-9:
            report.failures.append(f"C = {here['C']:g}: the objectives differ by {difference:.1e}")
    report.results["in memory"], report.results["cluster"] = held, read
    report.targets = [
        Target("relative difference of the objectives", worst, 1e-9, False),
        Target("passes, with the one that describes the data", max(r["passes"] for r in read), 6,
               False),
    ]  # fmt: skip
