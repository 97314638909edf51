"""Linear-programming machines (LOOSVC, AdaptiveMarginSVC, LPSVC, NuLPSVC) against LP solvers.

All candidates are compared at equal objectives. The unit of cost U is one Cholesky factorisation of
an n x n matrix by scipy. HiGHS solves the dual form by its simplex method and by its interior-point
method without crossover; the faster one counts.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from rich.console import Console
from scipy.linalg import cholesky

from benchmarks.lp_peers import (
    CLARABEL,
    IPM,
    OURS,
    SIMPLEX,
    Case,
    crescents,
    estimator,
    gauss10,
    objective,
    solve,
)
from benchmarks.measure import Timings, blas, rounds_of
from benchmarks.memory import MB, peak_in_child, peak_of
from benchmarks.report import Report, Target

SAME = 1e-6  # relative: objectives this close count as equal; also the gap required of our fits
ROUNDING = 1e-9  # relative: by how much rounding errors may put an objective below our lower bound
U = "U"
UNIT_SECONDS = 1.0  # U is the best of the factorisations done in about this time
FOUR_MACHINES = [("LOO", 1.0), ("AM", 0.5), ("AM", 2.0), ("LP", 1.0), ("nu-LP", 0.3)]


@dataclass
class Comparison:
    """Times and objectives of all candidates on one linear program."""

    case: Case
    candidates: tuple[str, ...]
    times: Timings = field(default_factory=Timings)
    objectives: dict[str, float] = field(default_factory=dict)
    model: Any = None
    memory: dict[str, float] | None = None

    @property
    def scale(self) -> float:
        """Scale of objectives: max(1, |ours|) as in certificates; for nu |ours|, far below 1."""
        size = abs(self.objectives[OURS])
        return size if self.case.nu is not None else max(1.0, size)

    def missed(self, name: str) -> bool:
        """Return whether a candidate's objective is above the optimum by more than SAME."""
        return self.objectives[name] > self.objectives[OURS] + SAME * self.scale

    @property
    def peers(self) -> list[str]:
        """Methods of HiGHS that ran and reached the optimum."""
        ran = [name for name in (SIMPLEX, IPM) if name in self.objectives]
        return [name for name in ran if not self.missed(name)]

    @property
    def ratio(self) -> float:
        """Our time divided by that of the faster of `peers`; NaN if there is none."""
        return max((self.times.ratio(OURS, peer) for peer in self.peers), default=np.nan)

    @property
    def in_units(self) -> float:
        """Our time in units of U."""
        return self.times.ratio(OURS, U) if U in self.times.seconds else np.nan


def run(console: Console, *, quick: bool, rounds: int) -> Report:
    """Run the lp benchmark and return its report."""
    report = Report("lp", quick)
    with console.status("warming up") as status:
        for make in (crescents, gauss10):
            for machine, value in FOUR_MACHINES:
                solve(replace(make(300), machine=machine, value=value), OURS)
        comparisons = [_compared(c, rounds, status.update) for c in _sizes(quick)]
        largest = comparisons[-1]
        status.update(f"{largest.case.label}: memory")
        rows = len(largest.case.y)
        largest.memory = peak_in_child("benchmarks.lp", str(rows)) | {"square": 8 * rows**2 / MB}
        four = [_compared(c, rounds, status.update) for c in _four_machines(quick)]
        narrow = _narrow(quick, status.update)
    _collect(report, comparisons, four, narrow)
    return report


def _sizes(quick: bool) -> list[Comparison]:
    """Return comparisons of LOOSVC by size; Clarabel and HiGHS run on the smaller ones only.

    Clarabel runs as long as it takes seconds, HiGHS as long as it takes minutes.
    """
    small, medium, large = (200, 500, 2_000) if quick else (500, 2_000, 10_000)
    all_of_them, highs = (SIMPLEX, IPM, CLARABEL, OURS), (SIMPLEX, IPM, OURS)
    return [
        Comparison(crescents(small), all_of_them),
        Comparison(gauss10(small), all_of_them),
        Comparison(crescents(medium), highs),
        Comparison(gauss10(medium), highs),
        Comparison(crescents(large), (OURS,)),
    ]


def _four_machines(quick: bool) -> list[Comparison]:
    rows = 300 if quick else 1_000
    return [
        Comparison(replace(make(rows), machine=machine, value=value), (SIMPLEX, IPM, OURS))
        for make in (crescents, gauss10)
        for machine, value in FOUR_MACHINES
    ]


def _compared(comparison: Comparison, rounds: int, say: Callable[[str], None]) -> Comparison:
    """Time all candidates in alternating order and recompute their objectives."""
    case = comparison.case
    for name in rounds_of((*comparison.candidates, U), rounds):
        say(f"{case.label}: {name}")
        if name == U:
            comparison.times.add(U, cholesky_seconds(len(case.y)))
            continue
        solved = solve(case, name)
        comparison.times.add(name, solved.seconds)
        comparison.objectives[name] = objective(case, solved.alpha)
        comparison.model = solved.model or comparison.model
    return comparison


def cholesky_seconds(n: int) -> float:
    """Time a Cholesky factorisation of an n x n matrix: the best of several, with 1 or all threads.

    On a busy computer, threads that wait for each other can take a hundred times as long, and too
    large a unit would favour ours.
    """
    found: list[float] = []
    while len(found) < 2 or (sum(found) < UNIT_SECONDS and len(found) < 20):
        matrix = np.full((n, n), 0.5, order="F")
        matrix.flat[:: n + 1] = n
        with blas().limit(limits=1 if len(found) % 2 else None):
            start = time.perf_counter()
            cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
            found.append(time.perf_counter() - start)
    return min(found)


def _narrow(quick: bool, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Fit kernels a tenth as wide, for which the peers fail; return our certificates only."""
    rows, found = 500 if quick else 2_000, []
    for case in (crescents(rows, sigma=0.05), gauss10(rows, sigma=0.2)):
        say(f"{case.label}, sigma {case.sigma:g}")
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            solved = solve(case, OURS)
        certificate = solved.model.certificate_
        found.append(
            {
                "case": f"{case.label}, sigma {case.sigma:g}",
                "seconds": solved.seconds,
                "primal": certificate.primal,
                "recomputed": objective(case, solved.alpha),
                "gap": certificate.relative_gap,
                "converged": certificate.converged,
                "finite": bool(np.isfinite(solved.model.decision_function(case.X)).all()),
                "warnings": sorted({warning.category.__name__ for warning in heard}),
            }
        )
    return found


# -- report ------------------------------------------------------------------------------------


def _collect(
    report: Report,
    comparisons: list[Comparison],
    four: list[Comparison],
    narrow: list[dict[str, Any]],
) -> None:
    title = "seconds, best of the rounds, at a proved relative gap of 1e-6"
    _table(report, f"Leave-one-out machine: {title}", comparisons)
    _table(report, f"All machines: {title}", four)
    _narrow_table(report, narrow)
    for comparison in (*comparisons, *four):
        report.results[comparison.case.label + " rows"] = _as_json(comparison)
        report.failures += disagreements(comparison)
    report.results["narrow kernels"] = narrow
    report.failures += [
        f"{each['case']}: the model is not finite, or its objective is not what it says"
        for each in narrow
        if not (each["finite"] and np.isclose(each["primal"], each["recomputed"], rtol=1e-6))
    ]
    report.targets = _targets(comparisons)


def _table(report: Report, title: str, comparisons: list[Comparison]) -> None:
    names = (SIMPLEX, IPM, CLARABEL, OURS)
    table = report.table(
        title,
        ["machine and data", *names, "ours/HiGHS", "U", "ours in U", "our gap", "support vectors"],
    )
    for each in comparisons:
        best = f"{each.ratio:.3f}x" if each.peers else ""
        table.add_row(
            each.case.label,
            *(_seconds(each, name) for name in names),
            best,
            f"{each.times.best(U):.4f}",
            f"{each.in_units:.1f}",
            f"{each.model.certificate_.relative_gap:.0e}",
            str(len(each.model.support_)),
        )


def _seconds(comparison: Comparison, name: str) -> str:
    """Format the best seconds; a star marks objectives that miss the optimum by more than SAME."""
    if name not in comparison.times.seconds:
        return ""
    return f"{comparison.times.best(name):.3f}" + ("*" if comparison.missed(name) else "")


def _narrow_table(report: Report, narrow: list[dict[str, Any]]) -> None:
    table = report.table(
        "Narrow kernels, a tenth of the width (ours alone)",
        ["data", "seconds", "objective", "proved gap", "converged", "warnings"],
    )
    for each in narrow:
        table.add_row(
            each["case"],
            f"{each['seconds']:.2f}",
            f"{each['primal']:.4f}",
            f"{each['gap']:.0e}",
            "yes" if each["converged"] else "no",
            ", ".join(each["warnings"]) or "none",
        )


def _targets(comparisons: list[Comparison]) -> list[Target]:
    smooth, full, large = comparisons[2:5]
    name = "ours / best of HiGHS"
    found = [
        Target(f"{smooth.case.label}: {name}", smooth.ratio, 0.2, False, "x"),
        Target(f"{smooth.case.label}: {name} (ambition)", smooth.ratio, 0.07, False, "x"),
        Target(f"{full.case.label}: {name}", full.ratio, 0.4, False, "x"),
        Target(f"{full.case.label}: {name} (ambition)", full.ratio, 0.15, False, "x"),
        Target(f"{large.case.label}: Cholesky units", large.in_units, 3, False, " U"),
    ]
    if large.memory is not None:
        share = large.memory["fit_mb"] / large.memory["square"]
        what = f"{large.case.label}: {large.memory['fit_mb']:.0f} MB of a fit / n x n matrix"
        found.append(Target(what, share, 0.5, False))  # half of it is the matrix in float32
    return found


def disagreements(comparison: Comparison) -> list[str]:
    """Return failures: an incorrect objective or lower bound of ours, or too large a gap."""
    found, label = [], comparison.case.label
    certificate, ours = comparison.model.certificate_, comparison.objectives[OURS]
    scale = comparison.scale
    if not abs(certificate.primal - ours) <= SAME * scale:
        found.append(f"{label}: certificate says {certificate.primal:.9g}, recomputed {ours:.9g}")
    if not certificate.relative_gap <= SAME:
        found.append(f"{label}: relative gap {certificate.relative_gap:.1e} is not proved")
    for name, value in comparison.objectives.items():
        below = certificate.dual - value
        if below > ROUNDING * scale:
            found.append(f"{label}: {name} is below our lower bound by {below:.1e}")
        if ours - value > SAME * scale:
            found.append(f"{label}: {name} is better than ours by {ours - value:.1e}")
    return found


def _as_json(comparison: Comparison) -> dict[str, Any]:
    certificate = comparison.model.certificate_
    return {
        "seconds": comparison.times.summary(),
        "objectives": comparison.objectives,
        "dual": certificate.dual,
        "relative_gap": certificate.relative_gap,
        "support_vectors": len(comparison.model.support_),
        "ours_over_highs": comparison.ratio,
        "cholesky_units": comparison.in_units,
        "memory_mb": comparison.memory,
    }


def main() -> None:
    """Print the peak memory of one fit as JSON, after a small fit that loads compiled code."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("rows", type=int)
    case = crescents(parser.parse_args().rows)
    solve(crescents(300), OURS)
    model = estimator(case)
    print(json.dumps(peak_of(lambda: model.fit(case.X, case.y))))


if __name__ == "__main__":
    main()
