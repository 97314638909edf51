"""Data sets of .npy and Parquet files, which may be larger than memory."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from widemargin._base.validation import require
from widemargin.sources.dataset import Dataset
from widemargin.sources.engines import Engine, Threads
from widemargin.sources.reading.convert import feature_type
from widemargin.sources.reading.parquet import ParquetRows, parquet_rows
from widemargin.sources.reading.rows import StripRows
from widemargin.sources.reading.strips import FileStrip, strip_of_npy


def from_files(
    paths: Any,
    *,
    target: Any,
    features: Sequence[Any] | None = None,
    weight: Any = None,
    engine: Engine | None = None,
) -> Dataset:
    """Create a data set from .npy or Parquet files, which are read in blocks of a few MB.

    Parameters
    ----------
    paths : str, path or list of them
        Files, patterns such as ``"data/*.parquet"`` (files in the order of their names), or
        folders (all Parquet files in them).
    target : str, int, or files
        Parquet: name of the target column. Features and targets in the same .npy files: index of
        the target column. Targets in separate .npy files: their paths or a pattern, one file per
        file of features, in the same order.
    features : list of str or int, default=None
        Columns to use as features. None selects all columns except target, weight and an index
        written by pandas.
    weight : str, int, or files, default=None
        Sample weights, given in the same way as the target.
    engine : Engine, default=None
        Engine that runs tasks on the parts; None selects threads of this process. With
        ``DaskEngine(client)`` the workers of a cluster open the files by these paths.

    Returns
    -------
    dataset : Dataset
        Data set with the rows in the order of the files.

    Notes
    -----
    An error is raised if a file changes between two passes (its size or modification time).

    Examples
    --------
    >>> import tempfile, os
    >>> import numpy as np
    >>> from widemargin import sources
    >>> folder = tempfile.TemporaryDirectory()
    >>> for k in range(3):
    ...     rows = np.column_stack([np.full((10, 2), k), np.arange(10) % 2])
    ...     np.save(os.path.join(folder.name, f"rows{k}.npy"), rows)
    >>> dataset = sources.from_files(os.path.join(folder.name, "*.npy"), target=2)
    >>> dataset.describe().n_rows, dataset.n_features
    (30, 2)
    >>> folder.cleanup()
    """
    found = _paths(paths, "paths")
    kinds = {path: _kind(path) for path in found}
    if len(set(kinds.values())) > 1:
        one = next(path for path in found if kinds[path] != kinds[found[0]])
        raise ValueError(
            f"{found[0]} is a {kinds[found[0]]} file and {one} a {kinds[one]} file; a data set has "
            "files of one kind"
        )
    if kinds[found[0]] == "Parquet":
        return _from_parquet(found, target, features, weight, engine or Threads())
    return _from_npy(found, target, features, weight, engine or Threads())


def _from_parquet(
    paths: list[str], target: Any, features: Any, weight: Any, engine: Engine
) -> Dataset:
    fix = "the name of a column of the Parquet files"
    require(isinstance(target, str), "target", target, fix)
    require(weight is None or isinstance(weight, str), "weight", weight, fix)
    names = None if features is None else [str(name) for name in features]
    whole: list[ParquetRows] = []
    types = set()
    for path in paths:
        # The first file determines the feature columns and their order.
        rows, dtype = parquet_rows(path, target, names, weight)
        names = rows.features
        whole.append(rows)
        types.add(dtype)
    assert names is not None
    require(len(names) > 0, "features", features, "at least one column")
    common = np.result_type(*types)
    parts = [part for rows in whole for part in replace(rows, dtype=common).parts()]
    return Dataset(parts, engine, len(names), common, names)


def _from_npy(paths: list[str], target: Any, features: Any, weight: Any, engine: Engine) -> Dataset:
    tables = [strip_of_npy(path) for path in paths]
    width = _common_width(tables)
    targets = _sides("target", target, tables, width)
    weights = None if weight is None else _sides("weight", weight, tables, width)
    sides = {side for side in (targets[0], weights and weights[0]) if isinstance(side, int)}
    columns = _feature_columns(features, width, sides)
    dtype = np.result_type(*[feature_type(table.dtype, table.path) for table in tables])
    parts: list[StripRows] = []
    for k, table in enumerate(tables):
        side = None if weights is None else weights[k]
        parts += StripRows(table, targets[k], side, columns, dtype, table.path).parts()
    n_features = width if columns is None else len(columns)
    return Dataset(parts, engine, n_features, dtype)


def _common_width(tables: list[FileStrip]) -> int:
    for table in tables:
        if len(table.shape) != 2:
            raise ValueError(f"{table.path} has one axis; files of rows have two")
        if table.shape[1] != tables[0].shape[1]:
            raise ValueError(
                f"{tables[0].path} has {tables[0].shape[1]} columns and {table.path} has "
                f"{table.shape[1]}; all files must have the same columns"
            )
    return tables[0].shape[1]


def _sides(name: str, given: Any, tables: list[FileStrip], width: int) -> list[FileStrip | int]:
    """Return the targets or weights of each file: a column index, or a separate file."""
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        require(bool(-width <= given < width), name, given, f"a column from 0 to {width - 1}")
        return [int(given) % width] * len(tables)
    strips = [strip_of_npy(path) for path in _paths(given, name)]
    if len(strips) != len(tables):
        raise ValueError(
            f"{name} gives {len(strips)} files for {len(tables)} files of rows; one for each is "
            "needed, in the same order"
        )
    for strip, table in zip(strips, tables, strict=True):
        if strip.shape != table.shape[:1]:
            raise ValueError(
                f"{table.path} has {table.shape[0]} rows, but {strip.path} has shape "
                f"{strip.shape}; one entry for each row is needed"
            )
        if name == "weight":
            feature_type(strip.dtype, strip.path)
    return list(strips)


def _feature_columns(features: Any, width: int, sides: set[int]) -> list[int] | None:
    """Return the indices of the feature columns, or None for all columns."""
    if features is None:
        rest = [j for j in range(width) if j not in sides]
        require(len(rest) > 0, "features", features, "at least one column beside the target")
        return rest if sides else None
    good = len(features) > 0 and all(isinstance(j, int | np.integer) for j in features)
    require(good, "features", features, "a list of column numbers for .npy files")
    inside = all(-width <= j < width for j in features)
    require(inside, "features", features, f"columns from 0 to {width - 1}")
    columns = [int(j) % width for j in features]
    require(not sides & set(columns), "features", features, "other columns than target and weight")
    return columns


def _paths(given: Any, name: str) -> list[str]:
    """Expand paths, patterns and folders to a list of files."""
    several = given if isinstance(given, list | tuple) else [given]
    found: list[str] = []
    for one in several:
        fix = "a path, a pattern such as 'data/*.parquet', or a list of them"
        require(isinstance(one, str | os.PathLike), name, one, fix)
        path = os.path.expanduser(os.fspath(one))
        if os.path.isdir(path):
            matches = sorted(glob.glob(os.path.join(glob.escape(path), "*.parquet")))
        elif glob.has_magic(path) and not os.path.exists(path):
            matches = sorted(glob.glob(path, recursive=True))
        else:
            matches = [path]
        if not matches:
            raise FileNotFoundError(f"{name}: no file matches {os.fspath(one)!r}")
        found += [os.path.abspath(match) for match in matches]
    if not found:
        raise ValueError(f"{name} must name at least one file; got {given!r}")
    return found


def _kind(path: str) -> str:
    """Return the file format, recognised by its first bytes: ".npy" or "Parquet"."""
    with open(path, "rb") as handle:
        begin = handle.read(6)
    if begin == b"\x93NUMPY":
        return ".npy"
    if begin.startswith(b"PAR1"):
        return "Parquet"
    what = "is empty (0 bytes)" if not begin else "is neither a .npy nor a Parquet file"
    raise ValueError(f"{path} {what}; copy or write it again, or leave it out")
