"""Compare two source trees of widemargin: ``python -m benchmarks.versions OLD/src [NEW/src]``.

Each tree runs in a separate process, which stays alive so that compilation is not timed. Old and
new run every workload in alternating order. Two ratios are printed, of the best rounds and of the
medians; a difference between the two ratios indicates noise.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

DATA = """
import json, sys, time, warnings
import numpy as np
import widemargin as wm
from widemargin import loo
warnings.simplefilter("ignore")

def blobs(n, d, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, d))
    y = rng.integers(0, classes, n)
    return centres[y] + 1.3 * rng.normal(size=(n, d)), y

def ranks(n, d):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d))
    return X, np.digitize(X @ rng.normal(size=d) + rng.normal(size=n), [-2.0, 0.0, 2.0])

def fit(estimator, made):
    return lambda: estimator.fit(*made)

def left_out(made):
    return lambda: loo.error(wm.SVC(C=10.0).fit(*made), "exact")
"""
# Name: (expression that returns the function to be timed, calls per round).
WORKLOADS = {
    "SVC 50 x 5": ("fit(wm.SVC(), blobs(50, 5))", 50),
    "SVC 600 x 10": ("fit(wm.SVC(), blobs(600, 10))", 10),
    "SVC 600 x 10, 10 classes": ("fit(wm.SVC(), blobs(600, 10, classes=10))", 2),
    "SVC 5,000 x 10": ("fit(wm.SVC(), blobs(5_000, 10))", 1),
    "SVC 40,000 x 10": ("fit(wm.SVC(), blobs(40_000, 10))", 1),
    "LinearSVC 1e6 x 20": ("fit(wm.LinearSVC(loss='hinge'), blobs(1_000_000, 20))", 1),
    "exact leave-one-out, n = 600": ("left_out(blobs(600, 10))", 3),
    "LPSVC n = 1,000": ("fit(wm.LPSVC(), blobs(1_000, 10))", 1),
    "OrdinalSVC 1e5 x 20": ("fit(wm.OrdinalSVC(kernel='linear'), ranks(100_000, 20))", 1),
    "OrdinalSVC 500 x 5": ("fit(wm.OrdinalSVC(), ranks(500, 5))", 1),
    "GP n = 2,000": ("fit(wm.MeanFieldGPClassifier(), blobs(2_000, 10))", 1),
    "ReducedHullSVC 1,000 x 5": ("fit(wm.ReducedHullSVC(k=0.9), blobs(1_000, 5))", 1),
    "AdaBoost 5,000 x 10": ("fit(wm.AdaBoostClassifier(50), blobs(5_000, 10))", 1),
}
SERVER = """
for line in sys.stdin:
    expression, runs = json.loads(line)
    work = eval(expression)
    work()
    print(json.dumps("ready"), flush=True)
    for _ in range(int(sys.stdin.readline())):
        sys.stdin.readline()
        start = time.perf_counter()
        for _ in range(runs):
            work()
        print(json.dumps((time.perf_counter() - start) / runs), flush=True)
"""


class Tree:
    """A process that runs workloads with one source tree."""

    def __init__(self, source: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", DATA + SERVER],
            env={**os.environ, "PYTHONPATH": str(source.resolve())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, message: object) -> None:
        """Send one message to the process, as a line of JSON."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def receive(self) -> float:
        """Read one message from the process: the seconds of a round, or "ready"."""
        assert self.process.stdout is not None
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit("a source tree failed: see above")
        return json.loads(answer)


def compare(old: Tree, new: Tree, workload: str, rounds: int) -> tuple[list[float], list[float]]:
    """Return the seconds of each round of a workload, for the old and the new tree."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for tree in (old, new):
        tree.send(WORKLOADS[workload])
        tree.receive()
        tree.send(rounds)
    for k in range(rounds):
        for which in (0, 1) if k % 2 == 0 else (1, 0):
            tree = (old, new)[which]
            tree.send("go")
            seconds[which].append(tree.receive())
    return seconds


def main() -> None:
    """Time every workload with both trees and print the ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions", description=__doc__)
    parser.add_argument("old", type=Path, help="folder that holds the other widemargin")
    parser.add_argument("new", type=Path, nargs="?", default=Path("src"), help="default: src")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="workloads whose name has this in it")
    options = parser.parse_args()
    old, new = Tree(options.old), Tree(options.new)
    table = Table("workload", "old", "new", "new/old best", "new/old median")
    for name in WORKLOADS:
        if options.only not in name:
            continue
        before, after = compare(old, new, name, options.rounds)
        table.add_row(
            name, f"{min(before):.4g} s", f"{min(after):.4g} s",
            f"{min(after) / min(before):.2f}", f"{median(after) / median(before):.2f}",
        )  # fmt: skip
    console = Console()
    console.width = max(console.width, 110)
    console.print(table)


if __name__ == "__main__":
    main()
