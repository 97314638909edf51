"""Peak memory of one fit, measured in a separate process: ``python -m benchmarks.memory``."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.data import LOADERS
from benchmarks.peers import SVC_PEERS

ROOT = Path(__file__).resolve().parent.parent
MB = 2**20


def peak_of_fit(data_name: str, candidate: str, *, quick: bool) -> dict[str, float]:
    """Fit once in a child process; return its peak above the memory in use before the fit.

    The baseline is taken with the data loaded and the estimator's module imported. Modules that the
    fit imports and code that it compiles are included in the peak.
    """
    arguments = [data_name, candidate, "--quick"] if quick else [data_name, candidate]
    return peak_in_child("benchmarks.memory", *arguments)


def peak_in_child(module: str, *arguments: str) -> dict[str, float]:
    """Run ``python -m module arguments``; return the result of `peak_of` from its last line."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def peak_of(action: Callable[[], Any]) -> dict[str, float]:
    """Call a function; return memory before it, peak memory and their difference, in MB."""
    before = _reset_peak()
    action()
    peak = _peak()
    return {"before_mb": before, "peak_mb": peak, "fit_mb": peak - before}


def _linux_status(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return float(line.split()[1]) * 1024 / MB
    raise KeyError(field)


def _reset_peak() -> float:
    """Reset the peak memory if the system supports it; return the current memory in MB.

    ``ru_maxrss`` of a child process starts at the size of its parent and never decreases, so on
    Linux the high-water mark of the resident set (VmHWM) is reset and read instead.
    """
    if sys.platform.startswith("linux"):
        Path("/proc/self/clear_refs").write_text("5")
        return _linux_status("VmRSS")
    return _peak()


def _peak() -> float:
    if sys.platform.startswith("linux"):
        return _linux_status("VmHWM")
    import resource  # not available on Windows, where this benchmark cannot run

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MB


def _fit_once(data_name: str, candidate: str, *, quick: bool) -> dict[str, Any]:
    data = LOADERS[data_name](quick)
    model = SVC_PEERS[candidate](data.C, data.gamma)
    return peak_of(lambda: model.fit(data.X, data.y))


def main() -> None:
    """Fit one candidate on one data set and print its memory as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=list(LOADERS))
    parser.add_argument("candidate", choices=list(SVC_PEERS))
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    figures = _fit_once(arguments.data, arguments.candidate, quick=arguments.quick)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
