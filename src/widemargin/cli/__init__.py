"""Command line interface: ``widemargin report | fit | predict | play | warmup``.

Exit codes: 0 success, 1 error in the data or the files, 2 error in the arguments.
To start fast, this module imports only the argument parser; each command imports its own modules.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from widemargin.cli._messages import friendly, note

if TYPE_CHECKING:
    from widemargin.cli._training import Settings
    from widemargin.sources.tables.table import Table

app = typer.Typer(
    help="Large-margin machines with a certificate on every fit.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


TARGET = typer.Option("--target", "-t", help="Column to predict.", show_default=False)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"widemargin {version('widemargin')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Large-margin machines with a certificate on every fit."""


@app.command()
def fit(
    data: Annotated[
        Path | None,
        typer.Argument(
            help="CSV (with a header) or Parquet file; a folder or a quoted pattern of Parquet "
            "files, which may be larger than memory.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[str | None, TARGET] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Model file.", show_default="DATA.skops, here"),
    ] = None,
    task: Annotated[
        Literal["auto", "classification", "regression"], typer.Option(help="What to learn.")
    ] = "auto",
    C: Annotated[float, typer.Option("--C", help="Cost of an error.")] = 1.0,
    kernel: Annotated[
        Literal["linear", "poly", "rbf", "sigmoid"] | None,
        typer.Option(help="Kernel.", show_default="rbf; linear for many files"),
    ] = None,
    gamma: Annotated[str, typer.Option(help="Kernel width: scale, auto or a number.")] = "scale",
    degree: Annotated[int, typer.Option(help="Degree of the polynomial kernel.")] = 3,
    coef0: Annotated[float, typer.Option(help="Constant of the poly and sigmoid kernels.")] = 0.0,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Regression: half width of the tube, in standard deviations of the target.",
            show_default="0.1",
        ),
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option(
            help="Tolerance: KKT violation, or relative duality gap of a LinearSVC.",
            show_default="0.001; 0.0001 for LinearSVC",
        ),
    ] = None,
    class_weight: Annotated[
        Literal["balanced"] | None, typer.Option(help="Give all classes equal weight.")
    ] = None,
    one_hot: Annotated[
        bool, typer.Option("--one-hot", help="Turn text columns into 0/1 columns.")
    ] = False,
    drop: Annotated[
        list[str] | None, typer.Option(help="Column to leave out (may be repeated).")
    ] = None,
    impute: Annotated[
        Literal["median", "mean"] | None,
        typer.Option(help="Fill missing numbers, column by column."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Many files: checkpoint file, from which a killed run resumes."),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(help="Seconds after which the fit stops with the best model so far."),
    ] = None,
    compact: Annotated[
        bool, typer.Option("--compact", help="Store no training data (always so in model files).")
    ] = True,
    demo: Annotated[
        bool, typer.Option("--demo", help="Train on scikit-learn's breast-cancer data.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show progress.")] = False,
) -> None:
    """Fit a support vector machine to a table, certify it, and save it.

    Columns are standardised first; in regression also the target.
    """
    if demo and (data or target):
        raise typer.BadParameter("--demo brings its own data: give no DATA and no --target.")
    if not demo and data is None:
        raise typer.BadParameter("give a DATA file, or --demo.")
    if not demo and target is None:
        raise typer.BadParameter("name the column to predict with --target.")
    with friendly():
        from widemargin.cli._parts import fit_in_parts, is_in_parts, refuse_unused
        from widemargin.cli._training import Settings

        settings = Settings(
            C=C,
            kernel=kernel or "rbf",
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            epsilon=epsilon,
            tol=tol,
            class_weight=class_weight,
            time_limit=time_limit,
            verbose=int(verbose),
        )
        if is_in_parts(data):
            unused = {
                "--kernel": kernel not in (None, "linear"),
                "--one-hot": one_hot,
                "--impute": impute is not None,
                "--epsilon": epsilon is not None,
                "--task regression": task == "regression",
            }
            refuse_unused(unused)
            assert data is not None
            assert target is not None
            place = output or Path(f"{data.stem.strip('*') or data.parent.name}.skops")
            fit_in_parts(data, target, place, settings, drop=drop or [], checkpoint=checkpoint)
            return
        if checkpoint is not None:
            raise typer.BadParameter("--checkpoint is for many files: a folder or a pattern.")
        table, target = _training_data(data, target)
        name = Path(f"{data.stem}.skops" if data else "widemargin-demo.skops")
        inputs = {"drop": drop or [], "one_hot": one_hot, "impute": impute}
        _fit(table, target, output or name, task, settings, inputs)


def _training_data(data: Path | None, target: str | None) -> tuple[Table, str]:
    if data is None or target is None:
        from widemargin.cli._demo import breast_cancer

        return breast_cancer()
    from widemargin.sources.tables.table import read_table

    return read_table(data), target


def _fit(
    table: Table, target: str, output: Path, task: str, settings: Settings, inputs: dict[str, Any]
) -> None:
    from widemargin.cli._model_file import SavedModel
    from widemargin.cli._summary import print_lines, summary_lines
    from widemargin.cli._training import fit_pipeline
    from widemargin.sources.tables.encoding import learn_encoding, read_target
    from widemargin.sources.whole_file import check_writable

    check_writable(output)
    encoding = learn_encoding(table, target=target, **inputs)
    y, found_task = read_target(table, target, task)
    X = encoding.matrix(table)
    model = SavedModel(fit_pipeline(X, y, found_task, settings), found_task, target, encoding)
    model.save(output)
    print_lines(summary_lines(model, X, y, table.source), output)


@app.command()
def report(
    data: Annotated[
        Path | None,
        typer.Argument(help="CSV (with a header) or Parquet file.", show_default=False),
    ] = None,
    target: Annotated[str | None, TARGET] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="HTML file.", show_default="DATA.html, here"),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", help="Model file.", show_default="beside the report"),
    ] = None,
    task: Annotated[
        Literal["auto", "classification", "ordered", "regression"],
        typer.Option(help="What to learn."),
    ] = "auto",
    ard: Annotated[bool, typer.Option("--ard", help="Tune one kernel width per input.")] = False,
    seed: Annotated[
        int, typer.Option(help="Random seed of the training subsample of a large table.", min=0)
    ] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report's content as JSON; write no page.")
    ] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="Report on scikit-learn's breast-cancer data.")
    ] = False,
) -> None:
    """Tune and compare models on a table, and write an HTML report about the best one.

    The model is saved beside the report, for 'widemargin predict'.
    """
    if demo == bool(data):
        raise typer.BadParameter("give a DATA file, or --demo (not both).")
    if demo == bool(target):
        raise typer.BadParameter(
            "--demo has its own target." if demo else "name the column to predict with --target."
        )
    with friendly():
        from widemargin.cli._report import run_report

        table, name = _training_data(data, target)
        stem = data.stem if data else "widemargin-demo"
        page = output or Path(f"{stem}.html")
        run_report(table, name, task, page, model, ard=ard, seed=seed, as_json=as_json)


@app.command()
def predict(
    model: Annotated[
        Path, typer.Argument(help="Model file written by 'widemargin fit' or 'report'.")
    ],
    data: Annotated[Path, typer.Argument(help="CSV or Parquet file with the model's columns.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="CSV or .parquet file.", show_default="stdout"),
    ] = None,
) -> None:
    """Predict the target for each row of a table.

    Writes the prediction and, for classifiers, the decision values. If the data include the
    target, the error is shown.
    """
    with friendly():
        from widemargin.cli._model_file import load_model
        from widemargin.cli._prediction import predicted_columns, report_error, write_columns
        from widemargin.sources.tables.table import read_table
        from widemargin.sources.whole_file import check_writable

        if output is not None:
            check_writable(output)
        loaded = load_model(model)
        table = read_table(data)
        columns = predicted_columns(loaded, table)
        write_columns(columns, output)
        if output is not None:
            note(f"{table.n_rows:,} predictions in {output}", label="written", style="green")
        report_error(loaded, table, columns["prediction"])


@app.command()
def play(
    link: Annotated[
        str,
        typer.Argument(help="A link copied from a playground, in quotes.", show_default=False),
    ] = "",
    browser: Annotated[
        bool, typer.Option(help="Open the page in the browser.", show_default=True)
    ] = True,
) -> None:
    """Open a page to draw points and see the decision boundary of each model.

    The page is served on this computer only, until Ctrl-C.
    """
    if link and "#" not in link:
        raise typer.BadParameter("a copied link has a # in it; put the link in quotes.")
    with friendly():
        from widemargin.cli._messages import needs_extra

        with needs_extra("play"):
            from widemargin.play.server import serve
        serve(
            link,
            open_browser=browser,
            announce=lambda address: typer.echo(f"The playground is at {address} (Ctrl-C ends it)"),
        )


@app.command()
def warmup() -> None:
    """Compile and cache the numba kernels ahead of the first fit."""
    with friendly():
        from widemargin.cli._warmup import warm_up

        for name, seconds in warm_up():
            typer.echo(f"{name:<48}{seconds:6.1f} s")
        typer.echo("Compiled kernels are cached: later fits on this machine start at once.")
