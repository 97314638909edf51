"""Experiments behind the reasons of the literature benchmark, one at a time.

``python -m benchmarks.literature_checks NAME`` measures one part of the benchmark and prints its
items and the tables over the range of what the original leaves open. Every item that differs in
``docs/literature_results.txt`` names the part that checks its reason.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from rich.console import Console

from benchmarks import gp_wisconsin, table21
from benchmarks.literature import collected
from benchmarks.literature_fields import add_iterations
from benchmarks.literature_influence import add_influence
from benchmarks.literature_items import Findings
from benchmarks.literature_margins import (
    BOWLS,
    RUNS,
    add_candidates,
    add_lambdas,
    add_other_widths,
    add_row,
    add_widths,
    lambda_errors,
)
from benchmarks.literature_ranks import add_ranks
from benchmarks.literature_toys import add_toys
from benchmarks.report import Report

Say = Callable[[str], None]


def toys(found: Findings, quick: bool, splits: int, say: Say) -> None:
    """Figs. 2.2 and 2.3, by width and place of the outlier or overlap; Weston (1999)."""
    add_toys(found, found, quick, say)


def influence(found: Findings, quick: bool, splits: int, say: Say) -> None:
    """Figs. 2.4 to 2.6, by width and place of the outlier."""
    add_influence(found, quick)


def widths(found: Findings, quick: bool, splits: int, say: Say) -> None:
    """Fig. 2.7: all curves by width, with exact leave-one-out errors."""
    for source in (_source("heart"), table21.ONE_OF_THREE):
        add_widths(found, source, splits, say)


def lambdas(found: Findings, quick: bool, splits: int, say: Say) -> None:
    """Fig. 2.8: test error by lambda and width around the one that is chosen."""
    for name in BOWLS:
        row = table21.Row(_source(name), {table21.LOO: table21.Column()})
        for step in table21.measure(row, 0, quick):
            say(f"{name}: {step}")
        sigma = row.columns[table21.LOO].parameters["sigma"]
        of_loo = list(lambda_errors(found, row.source, sigma, 1.0, splits))
        add_lambdas(found, row.source, sigma, of_loo)
        add_other_widths(found, row.source, sigma, splits)


def networks(found: Findings, quick: bool, splits: int, say: Say) -> None:
    """Table 2.1, AB and AB_R: cross-validation and test errors over the grids."""
    rows = [table21.Row(source) for source in table21.SOURCES if source.keel is not None]
    for row in rows:
        row.columns = {name: row.columns[name] for name in (table21.AB, table21.AB_REG)}
        for step in table21.measure(row, splits, quick):
            say(f"{row.source.name}: {step}")
        add_row(found, row)
    for name in (table21.AB, table21.AB_REG):
        add_candidates(found, name, rows)


def ranks(found: Findings, quick: bool, splits: int, say: Say) -> None:
    """Figs. 2.2 and 2.3 of Herbrich et al., by reading of the noise."""
    add_ranks(found, quick, say)


def adatron(found: Findings, quick: bool, splits: int, say: Say) -> None:
    """Table 8.2: iterations of the parallel Adatron by learning rate."""
    add_iterations(found, gp_wisconsin.counted_iterations())


EXPERIMENTS = {
    each.__name__: each for each in (toys, influence, networks, widths, lambdas, ranks, adatron)
}


def _source(name: str) -> table21.Source:
    return next(each for each in table21.SOURCES if each.name == name)


def main(arguments: list[str] | None = None) -> None:
    """Run one experiment and print its items and tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.literature_checks")
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--quick", action="store_true", help="few draws")
    parser.add_argument("--splits", type=int, default=RUNS, help="splits of data sets")
    options = parser.parse_args(arguments)
    console = Console()
    if not console.is_terminal:
        console.width = 160
    found, report = Findings(options.experiment), Report(options.experiment, options.quick)
    with console.status("") as status:
        experiment = EXPERIMENTS[options.experiment]
        experiment(found, options.quick, options.splits, status.update)
    collected(report, [found])
    report.print(console)


if __name__ == "__main__":
    main()
