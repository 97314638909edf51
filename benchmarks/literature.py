"""Reproduction of published tables, figures and claims, with a verdict for each.

:mod:`benchmarks.literature_items` defines the verdicts. Rules and tolerances are fixed there and in
one module per source:

- Table 2.1, Figs. 2.7 and 2.8 of Smola et al. (2000): :mod:`benchmarks.literature_margins`;
- Figs. 2.2, 2.3 and Weston (1999): :mod:`benchmarks.literature_toys`;
- Figs. 2.4 to 2.6: :mod:`benchmarks.literature_influence`;
- Herbrich et al. (2000): :mod:`benchmarks.literature_ranks`;
- Opper and Winther (2000): :mod:`benchmarks.literature_fields`;
- Balcázar et al. (2008): :mod:`benchmarks.literature_samples`.

Splits and draws are seeded, and test samples are not used for any choice. An item that differs is a
result, not a failure: the exit code is 1 only if our own results contradict each other (a lower
bound above its objective, hyperplanes that depend on the seed, two estimators of the same problem
that disagree). Fits whose certificate has not converged are listed.

An item that differs has a reason and, beside it, the command of an experiment that checks it
(:mod:`benchmarks.literature_checks`).

`literature_rst` writes the tables of the documentation from the JSON output of a run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from benchmarks.literature_fields import add_fields
from benchmarks.literature_influence import add_influence
from benchmarks.literature_items import DIFFERS, NOT_AVAILABLE, Findings, Item, counts
from benchmarks.literature_margins import add_data_sets
from benchmarks.literature_ranks import add_ranks
from benchmarks.literature_samples import add_samples
from benchmarks.literature_toys import add_toys
from benchmarks.report import Report

COLOURS = {"reproduced": "green", "close": "green", "differs": "yellow", "not available": "dim"}


def run(console: Console, *, quick: bool, splits: int) -> Report:
    """Run the literature benchmark and return its report."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=None)
        works = measured(quick, splits, lambda text: progress.update(task, description=text))
    report = Report("literature", quick)
    collected(report, works)
    items = [item for work in works for item in work.items]
    unproved = [fit for work in works for fit in work.unproved]
    fits = sum(work.fits for work in works)
    table = report.table(f"Fits without a proved optimum, of {fits:,}", ["fit"])
    for fit in unproved or ["none"]:
        table.add_row(fit)
    report.results = {
        "splits": splits,
        "items": [asdict(item) for item in items],
        "ranges": [asdict(each) for work in works for each in work.ranges],
        "fits": fits,
        "unproved": unproved,
    }
    return report


def measured(quick: bool, splits: int, say: Callable[[str], None]) -> list[Findings]:
    """Measure all items; return the findings of each source."""
    margins = Findings("Smola et al. (2000), chapter 2")
    weston = Findings("Weston (1999)")
    ranks = Findings("Herbrich et al. (2000)")
    fields = Findings("Opper and Winther (2000)")
    samples = Findings("Balcázar et al. (2008)")
    add_toys(margins, weston, quick, say)
    say("Figs. 2.4 to 2.6")
    add_influence(margins, quick)
    add_data_sets(margins, quick, splits, say)
    add_ranks(ranks, quick, say)
    add_fields(fields, quick, say)
    add_samples(samples, quick, say)
    return [margins, weston, ranks, fields, samples]


def collected(report: Report, works: list[Findings]) -> None:
    """Add the tables of items, of ranges, of reasons and of verdicts to a report."""
    for work in works:
        _table(report, work)
        _ranges(report, work)
        report.failures += work.failures
    _reasons(report, [item for work in works for item in work.items])
    _counts(report, works)


# -- report ------------------------------------------------------------------------------------


def _table(report: Report, work: Findings) -> None:
    columns = ["item", "quantity", "published", "ours", "difference", "verdict"]
    table = report.table(work.work, columns)
    for item in work.items:
        shown = [item.place, item.quantity, item.published, item.ours, item.difference]
        colour = COLOURS[item.verdict]
        table.add_row(*(escape(cell) for cell in shown), f"[{colour}]{item.verdict}[/]")


def _ranges(report: Report, work: Findings) -> None:
    for each in work.ranges:
        table = report.table(each.title, each.headings)
        for row in each.rows:
            table.add_row(*(escape(cell) for cell in row))


def _reasons(report: Report, items: list[Item]) -> None:
    titles = {DIFFERS: "Why items differ", NOT_AVAILABLE: "Why items are not available"}
    for verdict, title in titles.items():
        table = report.table(title, ["item", "quantity", "reason", "checked by"])
        for item in items:
            if item.verdict == verdict:
                cells = (item.place, item.quantity, item.reason, item.experiment)
                table.add_row(*(escape(cell) for cell in cells))


def _counts(report: Report, works: list[Findings]) -> None:
    table = report.table("Verdicts", ["source", *COLOURS])
    for work in works:
        table.add_row(work.work, *(str(count) for count in counts(work.items).values()))
