"""Commands of widemargin, run in the process of the test, and the tables they are given."""

from __future__ import annotations

import csv

from typer.testing import CliRunner

from widemargin.cli import app


def run(*args, code=0):
    """Run a command; return its stdout and stderr with all white space made single."""
    result = CliRunner().invoke(app, [str(a) for a in args])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return " ".join(result.stdout.split()), " ".join(result.stderr.split())


def write_csv(name, columns):
    """Write columns to a file, with their names above."""
    with open(name, "w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
