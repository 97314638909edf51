"""Table of the exact judge: ``python -m tests.helpers.exact_table [fits] [first seed]``.

Runs in two processes. Prints for each machine how many fits there were, how many were refused, how
many had a certificate with each of the faults, and how wide the stated gaps are: the share above
ten times the true one among fits with a known true gap, the share of these with a stated relative
gap above 1e-6, and the median of stated / true.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from tests.helpers.exact_machines import MACHINES, judge_seed
from tests.helpers.exact_verdict import FAULTS, VISIBLE, Verdict

PROCESSES = 2
Outcome = tuple[str, int, str, list[Verdict]]


def outcome(task: tuple[str, int]) -> Outcome:
    """Return machine, seed, refusal and verdicts of one fit."""
    name, seed = task
    found = judge_seed(name, seed)
    return name, seed, found.refusal, found.verdicts


def line(name: str, outcomes: list[Outcome]) -> str:
    """Return the line of one machine."""
    fits = [verdicts for *_, refusal, verdicts in outcomes if not refusal]
    counts = [sum(any(fault in v.faults for v in fit) for fit in fits) for fault in FAULTS]
    known = [v for fit in fits for v in fit if v.true == v.true]
    wide = [v for v in known if v.is_wide]
    visible = [v for v in wide if v.relative > VISIBLE]
    ratios = [v.stated / v.true for v in known if v.true > 0]
    share = (
        f"{100 * len(wide) / len(known):.0f}% {100 * len(visible) / len(known):.1f}%"
        if known
        else "-"
    )
    median = f"{np.median(ratios):.3g}" if ratios else "-"
    numbers = [len(outcomes), len(outcomes) - len(fits), *counts]
    return f"{name:20s}" + "".join(f"{k:9d}" for k in numbers) + f"{share:>14s}{median:>10s}"


def table(tasks: Iterable[tuple[str, int]]) -> dict[str, list[Outcome]]:
    """Judge all tasks in two processes and return the outcomes per machine."""
    found: dict[str, list[Outcome]] = {}
    with ProcessPoolExecutor(PROCESSES) as pool:
        for one in pool.map(outcome, tasks, chunksize=5):
            found.setdefault(one[0], []).append(one)
    return found


def main() -> int:
    """Print the table and the seeds of faults; return 1 if there are any."""
    fits = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    found = table((name, seed) for name in MACHINES for seed in range(first, first + fits))
    heads = ["fits", "refused", "primal<", "dual>", "gap<", "constant", ">10x (>1e-6)", "median"]
    print(
        f"{'machine':20s}"
        + "".join(f"{h:>9s}" for h in heads[:6])
        + f"{heads[6]:>14s}{heads[7]:>10s}"
    )
    wrong = False
    for name, outcomes in found.items():
        print(line(name, outcomes))
        wrong = wrong or any(v.faults for *_, verdicts in outcomes for v in verdicts)
    if wrong and "-v" in sys.argv:
        for outcomes in found.values():
            for name, seed, _, verdicts in outcomes:
                faults = sorted({fault for v in verdicts for fault in v.faults})
                if faults:
                    print(name, seed, ", ".join(faults))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
