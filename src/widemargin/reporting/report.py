"""Reports about data or fitted models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

from widemargin._base.progress import Bar
from widemargin._base.validation import require, require_bool, seed_of
from widemargin.reporting.collect import collect
from widemargin.reporting.preparation import Prepared, prepare
from widemargin.reporting.render import need_page_tools, render
from widemargin.reporting.study import Study, run_study
from widemargin.reporting.subject import subject_of_model, subject_of_study
from widemargin.sources.tables.table import read_table, table_of
from widemargin.sources.whole_file import check_writable, write_whole

TASKS = ("auto", "classification", "ordered", "regression")


def report(
    est_or_data: Any,
    path: Any = None,
    *,
    target: str | None = None,
    task: str = "auto",
    ard: bool = False,
    random_state: Any = None,
    verbose: int = 0,
) -> dict[str, Any]:
    """Write a report about a fitted model, or about the best of several models tuned on data.

    Parameters
    ----------
    est_or_data : estimator, (X, y), data frame, or path of a CSV or Parquet file
        A fitted estimator of widemargin (or a pipeline or search that ends in one) is reported as
        it is. Data are prepared, the estimators suitable for the task are tuned and compared by
        leave-one-out, and the best one is reported.
    path : str or path, default=None
        HTML file to write (atomically). It is self-contained and needs no network.
    target : str, default=None
        Name of the target column, for data with column names.
    task : {"auto", "classification", "ordered", "regression"}, default="auto"
        The task. "auto" selects classification for text and for whole numbers with few distinct
        values (ordered classes if there are three or more of these), else regression.
    ard : bool, default=False
        Whether to tune one kernel width per feature, as a measure of the features' relevance.
    random_state : int, RandomState or None, default=None
        Seed of the training subsample, which is drawn from more than 2,000 samples (1,000
        with three or more classes).
    verbose : int, default=0
        1 shows a progress bar.

    Returns
    -------
    dict
        Content of the report, in types that JSON supports.

    See Also
    --------
    plot.decision_boundary : Single plots of a fitted model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import SVC, report
    >>> model = SVC(C=10).fit(*load_iris(return_X_y=True))
    >>> found = report(model)
    >>> found["leave_one_out"]["wrong"]
    4
    """
    require(task in TASKS, "task", task, f"one of {', '.join(TASKS)}")
    require_bool("ard", ard)
    if path is not None:  # fail before the long study, not after it
        need_page_tools()
        check_writable(Path(path))
    if isinstance(est_or_data, BaseEstimator):
        fixed = {"target": target is None, "task": task == "auto", "ard": not ard}
        for name, good in fixed.items():
            require(good, name, "given", "left out for a fitted model, which has it already")
        found = collect(subject_of_model(est_or_data))
    else:
        study = study_of(_prepared(est_or_data, target, task), ard, random_state, verbose)
        found = collect(subject_of_study(study))
    if path is not None:
        write_report(found, Path(path))
    return found


def _prepared(data: Any, target: str | None, task: str) -> Prepared:
    if isinstance(data, str | os.PathLike):
        require(target is not None, "target", target, "the name of the column to predict")
        assert target is not None
        return prepare(read_table(Path(data)), target, task)
    if isinstance(data, tuple):
        require(len(data) == 2, "est_or_data", f"{len(data)} things", "(X, y)")
        return prepare(*table_of(data[0], data[1], target=target), task)
    require(hasattr(data, "columns"), "est_or_data", type(data).__name__,
            "a fitted machine, (X, y), a data frame or the path of a file")  # fmt: skip
    return prepare(*table_of(data, target=target), task)


def study_of(data: Prepared, ard: bool, random_state: Any, verbose: int) -> Study:
    """Run the study of prepared data, with a progress bar if `verbose`."""
    seed = seed_of(random_state)
    if not verbose:
        return run_study(data, seed=seed, ard=ard)
    with Bar("comparing machines", verbose, 1) as bar:

        def show(what: str, done: int, total: int) -> None:
            bar.bar.update(bar.task, completed=done, total=total, state=what)

        return run_study(data, seed=seed, ard=ard, progress=show)


def write_report(found: dict[str, Any], path: Path) -> None:
    """Write a collected report as an HTML file."""
    page = render(found).encode("utf-8")
    write_whole(path, lambda handle: handle.write(page))
