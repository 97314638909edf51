"""Command line of the benchmarks: ``python -m benchmarks svc|linear|loo|proba|...``."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from benchmarks.data import MissingExtra
from benchmarks.report import Report, machine_line
from widemargin._base.messages import UserError
from widemargin.sources.whole_file import check_writable

BENCHMARKS = {
    "svc": "RBF machines against scikit-learn (LIBSVM) and scikit-learn-intelex (oneDAL)",
    "everyday": "everyday data against scikit-learn and scikit-learn-intelex: fits, predictions",
    "certificates": "seconds of the bounds of a certificate, beside those of the fit",
    "linear": "linear machines against scikit-learn (LIBLINEAR)",
    "coldstart": "imports, compilation, warm cache, read-only install",
    "loo": "exact leave-one-out against scikit-learn's loop of n fits",
    "proba": "probabilities against scikit-learn's CalibratedClassifierCV: losses and time",
    "tuning": "gradient tuning against a cross-validated grid: time and test error",
    "sampling": "exact margins from samples: rounds, passes, LIBLINEAR, L-BFGS, SGD, NuSVC, LIBSVM",
    "lp": "leave-one-out, adaptive-margin and LP machines against HiGHS and Clarabel",
    "ordinal": "rank machines against mord, skordinal, statsmodels and explicit pairs; Fig. 2.2",
    "gp": "mean-field Gaussian processes against scikit-learn's Laplace; the Wisconsin study",
    "gp_joint": "a joint Gaussian process of several classes beside one-vs-rest: log-loss",
    "gp_regression": "Gaussian-process regression against scikit-learn's",
    "boosting": "boosted stumps against scikit-learn; boosted RBF networks on banana",
    "table21": "test errors of LOO-SVM, SVM and AdaBoost beside the published ones",
    "literature": "tables and figures of the literature: published, ours, difference, verdict",
    "outofcore": "files four times as large as the memory that the process may have",
    "cluster": "LinearSVC on a Dask cluster of two processes against rows in memory",
}

ROUNDS = (3, 1)
SPLITS = {"table21": (20, 3), "literature": (20, 3), "gp_joint": (3, 1)}
"""Default repetitions, in full and with --quick: rounds of timing, or splits (errors, no times)."""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line and fill in the default number of rounds or splits."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Compare widemargin with its peers on the same data, in one run.",
        epilog="Targets are printed as met or not met. The exit code is 1 if results disagree.",
    )
    commands = parser.add_subparsers(dest="benchmark", required=True, metavar="benchmark")
    for name, text in BENCHMARKS.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--quick", action="store_true", help="small problems, one round")
        if name in SPLITS:
            command.add_argument("--splits", type=int, help=_default("splits", *SPLITS[name]))
        else:
            command.add_argument("--rounds", type=int, help=_default("rounds", *ROUNDS))
        command.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")
        if name == "literature":
            text = "write the tables for the documentation here"
            command.add_argument("--rst", type=Path, metavar="FILE", help=text)
    options = parser.parse_args(arguments)
    what = repetitions(options.benchmark)
    if getattr(options, what) is None:
        full, quick = SPLITS.get(options.benchmark, ROUNDS)
        setattr(options, what, quick if options.quick else full)
    if getattr(options, what) < 1:
        parser.error(f"--{what} must be at least 1")
    return options


def repetitions(benchmark: str) -> str:
    """Return "splits" if a benchmark repeats splits of the data, else "rounds" (of timing)."""
    return "splits" if benchmark in SPLITS else "rounds"


def _default(what: str, full: int, quick: int) -> str:
    return f"{what} (default: {full}, or {quick} with --quick)"


def main(arguments: list[str] | None = None) -> int:
    """Run one benchmark and return the exit code.

    It is 1 if results disagree or the JSON file cannot be written, and 2 if a package is missing
    or an argument is invalid.
    """
    options = parse(arguments)
    console = Console()
    if not console.is_terminal:
        console.width = 140  # characters: a file or a pipe has no width, and tables must not wrap
    console.print(machine_line(), style="dim")
    try:
        if options.json is not None:
            check_writable(options.json)
        module = importlib.import_module(f"benchmarks.{options.benchmark}")
        what = repetitions(options.benchmark)
        repeated = {what: getattr(options, what)}
        report: Report = module.run(console, quick=options.quick, **repeated)
    except (MissingExtra, UserError) as error:
        console.print(f"[bold red]error[/] {escape(str(error))}")
        return 2
    report.print(console)
    if options.json is not None:
        try:
            report.write_json(options.json)
        except OSError as error:  # for example a full disk; the message names the file
            console.print(f"[bold red]error[/] {escape(str(error))}")
            return 1
        console.print(f"written: {options.json}")
    if getattr(options, "rst", None) is not None:
        from benchmarks.literature_rst import write_page

        write_page(report.content(), options.rst)
        console.print(f"written: {options.rst}")
    return 1 if report.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
