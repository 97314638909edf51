"""LinearSVC on files at least four times as large as the memory limit of the process.

A child process fits the files under a limit of the operating system (RLIMIT_DATA: heap and private
mappings). The files are dropped from the page cache before every read, as if they did not fit into
memory; dropping them is not part of the reading time. Linux only: other systems do not enforce the
limit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.data import SEED
from benchmarks.measure import usable_cores
from benchmarks.memory import MB, ROOT, _peak, _reset_peak
from benchmarks.report import Report, Target

COLUMNS = 20  # features
FILE_ROWS = 500_000  # samples per file
FACTOR = 4  # size of the files / memory limit
LIMIT_MB = {True: 900, False: 1000}  # by `quick`; the libraries alone map about 300 MB
READ_BYTES = 4 * MB  # block size of the raw read


def run(console: Console, *, quick: bool, rounds: int) -> Report:
    """Run the outofcore benchmark and return its report."""
    report = Report("outofcore", quick)
    limit = LIMIT_MB[quick]
    with tempfile.TemporaryDirectory() as folder:
        with console.status(f"writing {FACTOR * limit / 1000:.1f} GB of files"):
            files_mb = _write_files(Path(folder), FACTOR * limit)
        runs = []
        for number in range(rounds):
            with console.status(f"round {number + 1}: fit under a limit of {limit} MB"):
                runs.append(_limited_fit(folder, limit))
    _collect(report, runs, limit, files_mb)
    return report


def _write_files(folder: Path, least_mb: float) -> float:
    """Write files of two linearly separated classes, 1 % of labels flipped; return their MB."""
    rng = np.random.default_rng(SEED)
    normal = rng.standard_normal(COLUMNS)
    normal /= np.linalg.norm(normal)
    written, number = 0.0, 0
    while written < least_mb:
        X = rng.uniform(-1.0, 1.0, (FILE_ROWS, COLUMNS)).astype(np.float32)
        flipped = rng.random(FILE_ROWS) < 0.01
        y = ((X @ normal.astype(np.float32) > 0) ^ flipped).astype(np.int8)
        for name, array in (("X", X), ("y", y)):
            with open(folder / f"{name}{number:04d}.npy", "wb") as file:
                np.save(file, array)
                file.flush()
                os.fsync(file.fileno())  # only pages on the disk can be dropped
        written += (X.nbytes + y.nbytes) / MB
        number += 1
    return written


def _limited_fit(folder: str, limit_mb: int) -> dict[str, Any]:
    """Fit in a child process that limits its own memory; return its figures."""
    command = [sys.executable, "-m", "benchmarks.outofcore", folder, str(limit_mb)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _fit_files(folder: Path, limit_mb: int) -> dict[str, Any]:
    """Fit the files of a folder under the memory limit; return times, passes and memory."""
    import resource

    from widemargin import LinearSVC, sources

    resource.setrlimit(resource.RLIMIT_DATA, (limit_mb * MB, limit_mb * MB))
    features = sorted(str(path) for path in folder.glob("X*.npy"))
    labels = sorted(str(path) for path in folder.glob("y*.npy"))
    paths = features + labels
    cached = min(_raw_read(paths) for _ in range(2))
    raw = min(_raw_read(_forgotten(paths)) for _ in range(2))
    before = _reset_peak()
    engine = _Timed(paths, sources.Threads())
    start = time.perf_counter()
    dataset = sources.from_files(features, target=labels, engine=engine)
    model = LinearSVC(loss="hinge", tol=1e-9).fit(dataset)
    seconds = time.perf_counter() - start
    return {
        "rows": dataset.describe().n_rows,
        "limit_enforced": _limit_is_enforced(limit_mb),
        "raw_read_seconds": raw,
        "cached_read_seconds": cached,
        "seconds": seconds,
        "reading_seconds": engine.seconds,
        "passes": model.passes_ + 1,  # one more to describe the data
        "converged": model.certificate_.converged,
        "relative_gap": model.certificate_.relative_gap,
        "explicit_rows": model.history_[0][-1]["explicit_rows"],
        "before_mb": before,
        "peak_mb": _peak(),
    }


class _Timed:
    """Engine that adds up the seconds of its tasks; the remaining time of a fit is solving."""

    def __init__(self, paths: list[str], engine: Any) -> None:
        self.paths, self.engine, self.seconds = paths, engine, 0.0

    def run(self, task: Any, parts: Any, arguments: Any) -> Any:
        _forgotten(self.paths)
        start = time.perf_counter()
        found = self.engine.run(task, parts, arguments)
        self.seconds += time.perf_counter() - start
        return found


def _forgotten(paths: list[str]) -> list[str]:
    """Drop the files from the page cache; return their names."""
    for path in paths:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return paths


def _raw_read(paths: list[str]) -> float:
    """Return the seconds to read all files once, in blocks, with one thread per core."""

    def read(path: str) -> None:
        buffer = bytearray(READ_BYTES)
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass

    start = time.perf_counter()
    with ThreadPoolExecutor(usable_cores()) as pool:
        list(pool.map(read, paths))
    return time.perf_counter() - start


def _limit_is_enforced(limit_mb: int) -> bool:
    """Return whether allocating more memory than the limit fails."""
    try:
        np.ones(limit_mb * MB // 8)
    except MemoryError:
        return True
    return False


def _collect(report: Report, runs: list[dict[str, Any]], limit: int, files_mb: float) -> None:
    table = report.table(
        f"{files_mb / 1000:.2f} GB of float32 files, limit {limit} MB, C = 1, to the exact optimum",
        [
            "rows",
            "seconds",
            "reading",
            "passes",
            "s/pass",
            "raw read",
            "ratio",
            "peak MB",
            "before",
        ],
    )
    for each in runs:
        per_pass = each["reading_seconds"] / each["passes"]
        table.add_row(
            f"{each['rows']:,}",
            f"{each['seconds']:.2f}",
            f"{each['reading_seconds']:.2f}",
            f"{each['passes']:.2f}",
            f"{per_pass:.2f}",
            f"{each['raw_read_seconds']:.2f}",
            f"{per_pass / each['raw_read_seconds']:.1f}x",
            f"{each['peak_mb']:.0f}",
            f"{each['before_mb']:.0f}",
        )
        if not each["converged"]:
            report.failures.append(f"the fit ended with a gap of {each['relative_gap']:.1e}")
        if not each["limit_enforced"]:
            report.failures.append("the system did not enforce the memory limit")
    ratio = min(r["reading_seconds"] / r["passes"] / r["raw_read_seconds"] for r in runs)
    report.results["runs"] = runs
    report.results["files_mb"] = files_mb
    report.targets = [
        Target("size of the files / memory limit", files_mb / limit, FACTOR, True, "x"),
        Target("peak memory, MB", max(r["peak_mb"] for r in runs), limit, False),
        Target("passes", max(r["passes"] for r in runs), 6, False),
        Target("time per pass / raw read", ratio, 4, False, "x"),
    ]


def main() -> None:
    """Fit the files of a folder under a memory limit and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("limit_mb", type=int)
    arguments = parser.parse_args()
    print(json.dumps(_fit_files(arguments.folder, arguments.limit_mb)))


if __name__ == "__main__":
    main()
