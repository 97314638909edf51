"""Command ``widemargin fit`` on Parquet files that may be larger than memory."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any

from widemargin._base.messages import UserError, listing, nearest
from widemargin.cli._model_file import SavedModel
from widemargin.cli._summary import describe_certificate, describe_parameters, print_lines
from widemargin.cli._training import Settings
from widemargin.sources.tables.encoding import Encoding
from widemargin.sources.whole_file import check_writable


def is_in_parts(data: Path | None) -> bool:
    """Return whether DATA is a pattern or a folder: several files, read in parts."""
    return data is not None and (data.is_dir() or (glob.has_magic(str(data)) and not data.exists()))


def refuse_unused(options: dict[str, bool]) -> None:
    """Raise a UserError if options were given that do not apply to data in parts."""
    given = [name for name, is_given in options.items() if is_given]
    if given:
        raise UserError(
            f"{listing(given)}: not for data in many files, on which a linear classifier is "
            "trained; its columns must be numbers without gaps."
        )


def fit_in_parts(
    data: Path,
    target: str,
    output: Path,
    settings: Settings,
    *,
    drop: list[str],
    checkpoint: Path | None,
) -> None:
    """Fit LinearSVC on Parquet files, standardised while they are read."""
    from sklearn.pipeline import make_pipeline

    import widemargin as wm

    check_writable(output)
    machine = wm.LinearSVC(
        loss="hinge",  # and "ovo": the problem of SVC(kernel="linear"), as for data in memory
        multi_class="ovo",
        class_weight=settings.class_weight,
        checkpoint=None if checkpoint is None else str(checkpoint),
        **settings.common(),
    )
    dataset = _dataset(data, target, drop)
    try:
        machine.fit(dataset.standardised())
    except ValueError as error:  # an invalid parameter or invalid data
        raise UserError(str(error)) from error
    pipeline = make_pipeline(dataset.scaler(), machine.compact())
    model = SavedModel(
        pipeline, "classification", target, Encoding(list(dataset.feature_names), {})
    )
    model.save(output)
    print_lines(_lines(machine, dataset, target, data), output)


def _dataset(data: Path, target: str, drop: list[str]) -> Any:
    """Return the data set of the files without dropped columns, or raise a UserError."""
    from widemargin import sources

    try:
        whole = sources.from_files(str(data), target=target)
        names = whole.feature_names
        if names is None:
            raise UserError(f"{data} must be Parquet files, whose columns have names.")
        for name in drop:
            if name not in names:
                raise UserError(
                    f"--drop: {data} has no column {name!r}.{nearest(name, names)} "
                    f"Its columns are {listing(names, most=20)}."
                )
        if not drop:
            return whole
        kept = [name for name in names if name not in drop]
        return sources.from_files(str(data), target=target, features=kept)
    except ValueError as error:
        raise UserError(str(error)) from error


def _lines(machine: Any, dataset: Any, target: str, data: Path) -> list[tuple[str, str]]:
    found = dataset.describe()
    counts = zip(found.classes[:6], found.class_sizes.sum(axis=0)[:6], strict=True)
    sizes = ", ".join(f"{label} {count:,}" for label, count in counts)
    return [
        ("machine", "LinearSVC: soft-margin classifier, linear kernel, on standardised columns"),
        (
            "data",
            f"{data}: {found.n_rows:,} rows in {len(found.sizes)} parts, {found.n_features} "
            f"inputs, target {target} ({sizes})",
        ),
        ("parameters", describe_parameters(machine)),
        ("reads", f"{1 + machine.passes_:.1f} of the data, one of them to describe it"),
        ("certificate", describe_certificate(machine.certificate_, len(machine.certificates_))),
    ]
