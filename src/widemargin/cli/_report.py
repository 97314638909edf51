"""Command ``widemargin report``: write the report and the model file of a table."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from widemargin._base.messages import UserError
from widemargin.cli._messages import needs_extra, print_whole
from widemargin.cli._model_file import SavedModel
from widemargin.cli._training import compacted
from widemargin.reporting.collect import collect
from widemargin.reporting.preparation import prepare
from widemargin.reporting.render import need_page_tools
from widemargin.reporting.report import study_of, write_report
from widemargin.reporting.study import Study
from widemargin.reporting.subject import subject_of_study
from widemargin.sources.tables.encoding import Task
from widemargin.sources.tables.table import Table
from widemargin.sources.whole_file import check_writable


def run_report(
    table: Table,
    target: str,
    task: str,
    page: Path,
    model: Path | None,
    *,
    ard: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Run the study; print the report as JSON, or write it as a page together with the model."""
    if not as_json:
        with needs_extra("report"):
            need_page_tools()
        model = _checked_places(table.source, page, model)
    data = prepare(table, target, task)
    # The progress bar is written to stdout, where JSON or redirected output must not contain it.
    shows_bar = sys.stdout is not None and sys.stdout.isatty() and not as_json
    study = study_of(data, ard, seed, verbose=int(shows_bar))
    found = collect(subject_of_study(study))
    if model is None or as_json:
        print_whole(json.dumps(found, allow_nan=False) + "\n")
        return
    saved_model(study).save(model)
    write_report(found, page)
    _print_verdict(found, page, model)


def _checked_places(source: str, page: Path, model: Path | None) -> Path:
    """Return the path of the model file.

    Raises an error before the long study if a file cannot be written, or if an output would
    overwrite the data or the other output.
    """
    check_writable(page)
    model = model or page.with_suffix(".skops")
    check_writable(model)
    for path in (page, model):
        if path.resolve() == Path(source).resolve():
            raise UserError(f"{path} is the data: name another file to write to.")
    if page.resolve() == model.resolve():
        raise UserError(f"{page} cannot be the report and the model: name one with --model.")
    return model


def saved_model(study: Study) -> SavedModel:
    """Return the best model of a study in the form of a model file."""
    data = study.data
    pipeline = compacted(study.pipeline(), len(study.trained))
    task: Task = "regression" if data.task == "regression" else "classification"
    return SavedModel(pipeline, task, data.target, data.encoding)


def _print_verdict(found: dict[str, Any], page: Path, model: Path) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for sentence in found["verdict"]:
        console.print(Text(sentence))
    console.print(Text(f"\nreport  {page}\nmodel   {model}", style="bold"))
