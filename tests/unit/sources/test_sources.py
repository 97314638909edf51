"""Data sets in parts: every kind of source gives the same rows, whatever the parts."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import textwrap
from itertools import pairwise
from pathlib import Path

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from joblib import Parallel, delayed

from widemargin import sources
from widemargin.sources import recognise
from widemargin.sources.reading import parquet as _parquet
from widemargin.sources.reading import rows as _rows

LABELS = {
    "text": np.array(["ash", "birch", "cedar"]),
    "objects": np.array(["ash", "birch", "cedar"], dtype=object),
    "integers": np.array([-3, 0, 700]),
    "bytes": np.array([2, 5, 9], dtype=np.uint8),
    "floats": np.array([0.1, 0.5, 2.0]),
    "single": np.array([0.1, 0.5, 2.0], dtype=np.float32),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Make blocks of some 30 rows and parts of some 100, so that small data have several."""
    for module in (_rows, _parquet):
        monkeypatch.setattr(module, "BLOCK_BYTES", 600)
        monkeypatch.setattr(module, "PART_BYTES", 2000)
    monkeypatch.setattr(_rows, "TAKE_BYTES", 100)


def data(n=500, *, dtype=np.float32, labels="text", classes=3, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, 5)) * [1, 2, 3, 4, 5] + [0, 0, 10, 0, 1000]).astype(dtype)
    y = LABELS[labels][rng.integers(0, classes, n)]
    return X, y, rng.integers(0, 4, n).astype(np.float64)


def parquet(folder, X, y, weight, files=3):
    for k, rows in enumerate(np.array_split(np.arange(len(X)), files)):
        columns = {f"f{j}": X[rows, j] for j in range(X.shape[1])}
        table = pa.table({**columns, "label": y[rows], "weight": weight[rows]})
        pq.write_table(table, folder / f"rows{k}.parquet", row_group_size=70)
    return sources.from_files(folder / "*.parquet", target="label", weight="weight")


def npy(folder, X, y, weight, files=3):
    for k, rows in enumerate(np.array_split(np.arange(len(X)), files)):
        # The second file is in Fortran order.
        np.save(folder / f"X{k}.npy", X[rows] if k != 1 else np.asfortranarray(X[rows]))
        np.save(folder / f"y{k}.npy", y[rows] if y.dtype != object else y[rows].astype(str))
        np.save(folder / f"w{k}.npy", weight[rows])
    path = str(folder)
    return sources.from_files(f"{path}/X*.npy", target=f"{path}/y*.npy", weight=f"{path}/w*.npy")


def memory_map(folder, X, y, weight):
    np.save(folder / "whole.npy", X)
    return sources.from_arrays(np.load(folder / "whole.npy", mmap_mode="r"), y, weight)


def chunks(folder, X, y, weight):
    at = [0, 100, 380]  # the first chunk is empty
    return sources.from_arrays(np.split(X, at), np.split(y, at), np.split(weight, at))


def dask_array(folder, X, y, weight):
    """Chunks of unknown sizes, the first of them empty, and columns in several blocks."""
    keep = da.from_array(np.arange(90 + len(X)) >= 90, chunks=90)
    values = da.from_array(np.concatenate([X[:90], X]), chunks=(90, 2))[keep]
    labels = da.from_array(np.concatenate([y[:90], y]), chunks=90)[keep]
    assert np.isnan(values.chunks[0]).all()
    return sources.from_dask(values, labels, weight)


def dask_frame(folder, X, y, weight):
    frame = pd.DataFrame(X, columns=list("abcde")).assign(label=y, weight=weight)
    return sources.from_dask(dd.from_pandas(frame, npartitions=4), "label", "weight")


KINDS = [
    lambda folder, X, y, weight: sources.from_arrays(X, y, weight),
    chunks,
    memory_map,
    npy,
    parquet,
    dask_array,
    dask_frame,
]
NAMES = ["array", "chunks", "memmap", "npy", "parquet", "dask_array", "dask_frame"]
every_kind = pytest.mark.parametrize("make", KINDS, ids=NAMES)


def all_rows(part):
    blocks = [(first, X.copy(), y, weight) for first, X, y, weight in part.blocks()]
    assert [b[0] for b in blocks] == np.cumsum([0] + [len(b[1]) for b in blocks])[:-1].tolist()
    for _, X, y, weight in blocks:
        assert X.flags.c_contiguous
        assert y.dtype == weight.dtype == np.float64
        assert len(X) == len(y) == len(weight) > 0
    return blocks


def taken(part, rows):
    return part.take(rows)


def read(source):
    """All rows of a source, one below the other; also that sizes are what is read."""
    parts = source.run(all_rows, [()] * len(source.sizes))
    assert [sum(len(b[1]) for b in blocks) for blocks in parts] == source.sizes
    flat = [block for blocks in parts for block in blocks]
    return tuple(np.concatenate([block[k] for block in flat]) for k in (1, 2, 3))


@every_kind
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_scan_finds_what_numpy_finds(make, dtype, tmp_path):
    X, y, weight = data(dtype=dtype)
    dataset = make(tmp_path, X, y, weight)
    found = dataset.describe()
    assert found.n_rows == len(X)
    assert (dataset.dtype, dataset.n_features) == (dtype, 5)
    assert found.classes.tolist() == ["ash", "birch", "cedar"]
    assert found.class_weights.tolist() == [weight[y == label].sum() for label in found.classes]
    assert found.class_sizes.sum(axis=0).tolist() == [(y == c).sum() for c in found.classes]
    repeated = np.repeat(X.astype(np.float64), weight.astype(int), axis=0)
    np.testing.assert_allclose(found.mean, repeated.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(found.std, repeated.std(axis=0), rtol=1e-12)
    assert found.total_weight == weight.sum()
    assert dataset.describe() is found


@every_kind
@pytest.mark.parametrize("labels", LABELS)
def test_two_of_three_classes(make, labels, tmp_path):
    """Rows of the third class are left out; the others keep their order and type."""
    X, y, weight = data(labels=labels)
    y = np.sort(y)[::-1]  # parts sorted by class: some hold one class only
    plus, minus = LABELS[labels][[2, 0]]
    source = make(tmp_path, X, y, weight).binary(plus, minus, cost_factors=(2.0, 0.5))
    keep = y != LABELS[labels][1]
    got_X, got_y, got_weight = read(source)
    assert got_X.dtype == np.float32
    np.testing.assert_array_equal(got_X, X[keep])
    np.testing.assert_array_equal(got_y, np.where(y[keep] == plus, 1.0, -1.0))
    expected = weight[keep] * np.where(y[keep] == plus, 2.0, 0.5)
    np.testing.assert_array_equal(got_weight, expected)


@every_kind
@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
@pytest.mark.parametrize("classes", [2, 3])
def test_take_gives_the_rows_of_the_scan(make, share, classes, tmp_path):
    X, y, weight = data(classes=classes)
    source = make(tmp_path, X, y, weight).binary("ash", "birch", centre=[0, 0, 10, 0, 1000])
    rng = np.random.default_rng(1)
    rows = [np.flatnonzero(rng.random(n) < share) for n in source.sizes]
    rows[1] = rows[1][:0]
    pieces = source.run(taken, [(some,) for some in rows])
    starts = np.cumsum([0, *source.sizes[:-1]])
    whole = np.concatenate([some + start for some, start in zip(rows, starts, strict=True)])
    for k, expected in enumerate(read(source)):
        got = np.concatenate([piece[k] for piece in pieces])
        np.testing.assert_array_equal(got, expected[whole])
        assert got.dtype == expected.dtype


@every_kind
def test_standardised_rows(make, tmp_path):
    X, y, weight = data(dtype=np.float64)
    dataset = make(tmp_path, X, y, weight)
    found = dataset.describe()
    Z, _, got_weight = read(dataset.binary("ash", "birch", centre=found.mean, scale=found.scale))
    keep = y != "cedar"
    np.testing.assert_allclose(Z, (X[keep] - found.mean) / found.scale, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(got_weight, weight[keep])


def test_the_units_of_a_source_are_those_it_computes_with():
    """In float32 the centre is rounded; the source says to what."""
    X, y, _ = data(classes=2)
    centre, scale = np.full(5, 0.1), np.full(5, 3.3)
    source = sources.from_arrays(X, y).binary("ash", "birch", centre=centre, scale=scale)
    assert source.centre.dtype == np.float64
    assert source.centre[0] == float(np.float32(0.1)) != 0.1
    Z = read(source)[0]
    assert Z.dtype == np.float32
    np.testing.assert_array_equal(Z, (X - np.float32(0.1)) / np.float32(3.3))
    np.testing.assert_array_equal(source.scale, np.float32(3.3))


@every_kind
def test_regression(make, tmp_path):
    X, y, weight = data(labels="floats")
    dataset = make(tmp_path, X, y, weight)
    got_X, got_y, got_weight = read(dataset.regression())
    np.testing.assert_array_equal(got_X, X)
    np.testing.assert_array_equal(got_y, y)
    np.testing.assert_array_equal(got_weight, weight)
    found = dataset.describe()
    repeated = np.repeat(y, weight.astype(int))
    assert found.target_mean == pytest.approx(repeated.mean(), rel=1e-13)
    assert found.target_std == pytest.approx(repeated.std(), rel=1e-12)


def test_a_continuous_target_has_no_classes():
    rng = np.random.default_rng(0)
    dataset = sources.from_arrays(rng.normal(size=(3000, 2)), rng.normal(size=3000))
    assert dataset.describe().classes is None
    assert len(read(dataset.regression())[1]) == 3000
    with pytest.raises(ValueError, match="more than 1,000 distinct values"):
        dataset.binary(0, 1)


def test_text_is_no_target_of_a_regression():
    X, y, _ = data()
    with pytest.raises(ValueError, match="text needs a classifier"):
        sources.from_arrays(X, y).regression()


def test_labels_that_are_true_and_false():
    X, y, _ = data(classes=2)
    dataset = sources.from_arrays(X, y == "ash")
    assert dataset.describe().classes.tolist() == [False, True]
    np.testing.assert_array_equal(read(dataset.binary(True, False))[1] > 0, y == "ash")


def test_classes_that_only_some_parts_have():
    """Longer texts and other classes turn up in later chunks."""
    chunked = sources.from_arrays(
        [np.eye(2), np.eye(2), np.eye(2)], [["a", "b"], ["bb", "a"], ["c", "c"]]
    )
    found = chunked.describe()
    assert found.classes.tolist() == ["a", "b", "bb", "c"]
    assert found.class_sizes.tolist() == [[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 2]]
    assert read(chunked.binary("bb", "c"))[1].tolist() == [1, -1, -1]


def test_many_classes_are_counted_too():
    """More than the few that are counted by comparison."""
    y = np.arange(3000) % 60
    found = sources.from_arrays(np.zeros((3000, 1)), y).describe()
    assert found.classes.tolist() == list(range(60))
    assert found.class_weights.tolist() == [50.0] * 60


def test_moments_without_cancellation():
    """A mean of 1e8 and a spread of 1: the textbook formula would lose all digits."""
    rng = np.random.default_rng(0)
    X = 1e8 + rng.normal(size=(4000, 3))
    found = sources.from_arrays(X, np.arange(4000) % 2).describe()
    np.testing.assert_allclose(found.std, X.std(axis=0), rtol=1e-9)


def test_constant_features_are_divided_by_one():
    X = np.column_stack([np.full(1000, 0.1), np.arange(1000.0), np.zeros(1000)])
    found = sources.from_arrays(X, np.arange(1000) % 2).describe()
    assert found.scale[[0, 2]].tolist() == [1.0, 1.0]
    assert found.scale[1] == pytest.approx(X[:, 1].std())


@pytest.mark.parametrize("stored", [np.int8, np.int64, np.uint16, np.bool_, ">f8", ">f4", "f2"])
def test_numbers_of_other_types(stored, tmp_path):
    X = np.array([[0, 1], [1, 1], [1, 0]]).astype(stored)
    np.save(tmp_path / "X.npy", X)
    y = np.array([0, 1, 1])
    np.save(tmp_path / "y.npy", y)
    expected = np.float32 if np.dtype(stored).kind == "f" and stored != ">f8" else np.float64
    from_file = sources.from_files(tmp_path / "X.npy", target=[tmp_path / "y.npy"])
    for dataset in (from_file, sources.from_arrays(X, y)):
        got = read(dataset.binary(1, 0))[0]
        assert got.dtype == dataset.dtype == expected
        np.testing.assert_array_equal(got, X.astype(np.float64))


def test_parquet_columns_of_several_types(tmp_path):
    """Integers, booleans and float32 together are float64; categories can be labels."""
    frame = pd.DataFrame(
        {
            "count": np.array([1, 2, 3]),
            "flag": [True, False, True],
            "size": np.array([0.5, 1.5, 2.5], dtype=np.float32),
            "label": pd.Categorical(["yes", "no", "yes"]),
        },
        index=[7, 8, 9],
    )
    frame.to_parquet(tmp_path / "rows.parquet")  # writes the index as a column
    dataset = sources.from_files(tmp_path, target="label")
    assert dataset.feature_names == ["count", "flag", "size"]
    got, y, _ = read(dataset.binary("yes", "no"))
    np.testing.assert_array_equal(got, frame[["count", "flag", "size"]].to_numpy(dtype=np.float64))
    assert y.tolist() == [1, -1, 1]
    some = sources.from_files(tmp_path, target="label", features=["size", "count"])
    assert some.dtype == np.float64
    np.testing.assert_array_equal(read(some.binary("yes", "no"))[0], frame[["size", "count"]])


@pytest.mark.parametrize("target", [0, 2, -1])
def test_target_and_weight_as_columns_of_one_array(target, tmp_path):
    rows = np.random.default_rng(0).normal(size=(300, 5)).astype(np.float32)
    rows[:, target] = np.arange(300) % 2
    rows[:, 1] = 2.0
    np.save(tmp_path / "rows.npy", rows)
    dataset = sources.from_files(tmp_path / "rows.npy", target=target, weight=1)
    others = [j for j in range(5) if j not in (target % 5, 1)]
    X, y, weight = read(dataset.binary(1, 0))
    np.testing.assert_array_equal(X, rows[:, others])
    np.testing.assert_array_equal(y > 0, rows[:, target] == 1)
    assert set(weight) == {2.0}
    some = sources.from_files(
        tmp_path / "rows.npy", target=target, features=[4, 3] if target != -1 else [3, 0]
    )
    expected = rows[:, [4, 3] if target != -1 else [3, 0]]
    np.testing.assert_array_equal(read(some.binary(1, 0))[0], expected)


def test_pieces_of_memory_maps(tmp_path):
    """A slice of a map begins elsewhere in the file; strides and private copies stay maps."""
    X, y, _ = data(classes=2)
    np.save(tmp_path / "X.npy", X)
    for mode in ("r", "r+", "c"):
        whole = np.load(tmp_path / "X.npy", mmap_mode=mode)
        if mode == "c":
            whole[50] = 7.0  # not in the file
        for piece in (slice(33, 400), slice(0, 500, 3), slice(None, None, -1)):
            dataset = sources.from_arrays(whole[piece], y[piece])
            got = read(dataset.binary("ash", "birch"))[0]
            np.testing.assert_array_equal(got, np.array(whole[piece]))
    columns = sources.from_arrays(whole[:, 1:3], y)
    np.testing.assert_array_equal(read(columns.binary("ash", "birch"))[0], np.array(whole[:, 1:3]))


def test_chunks_change_the_parts_only(tmp_path):
    """Other chunks: same description up to rounding, same rows."""
    X, y, weight = data(dtype=np.float64)
    whole, split = sources.from_arrays(X, y, weight), chunks(tmp_path, X, y, weight)
    assert whole.describe().sizes != split.describe().sizes
    np.testing.assert_allclose(whole.describe().std, split.describe().std, rtol=1e-13)
    for one, other in zip(
        read(whole.binary("ash", "cedar")), read(split.binary("ash", "cedar")), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_parts_hold_places_not_rows(tmp_path):
    """What is sent to a worker for a file is small."""
    rng = np.random.default_rng(0)
    dataset = npy(
        tmp_path, rng.normal(size=(60_000, 5)), rng.integers(0, 2, 60_000), np.ones(60_000)
    )
    assert len(pickle.dumps(dataset.rows[0])) < 2000


def test_an_adapter_is_one_function(tmp_path):
    """The seam of the documentation: joblib's processes as an engine."""

    class Joblib:
        def run(self, task, parts, arguments):
            calls = zip(parts, arguments, strict=True)
            return Parallel(n_jobs=2)(delayed(task)(part, *some) for part, some in calls)

    X, y, weight = data()
    npy(tmp_path, X, y, weight)
    files = sorted(map(str, tmp_path.glob("y*.npy")))
    dataset = sources.from_files(str(tmp_path / "X*.npy"), target=files, engine=Joblib())
    assert dataset.describe().n_rows == len(X)
    np.testing.assert_allclose(
        dataset.describe().mean, X.mean(axis=0, dtype=np.float64), rtol=1e-12
    )


def test_fingerprints_tell_data_apart(tmp_path):
    X, y, weight = data()
    prints = [
        sources.from_arrays(X, y).describe().fingerprint(),
        sources.from_arrays(X, y, weight).describe().fingerprint(),
        sources.from_arrays(X + np.float32(1), y).describe().fingerprint(),
        sources.from_arrays(X, y[::-1]).describe().fingerprint(),
        chunks(tmp_path, X, y, weight).describe().fingerprint(),
    ]
    assert len(set(prints)) == 5
    assert sources.from_arrays(X.copy(), y).describe().fingerprint() == prints[0]
    # All standardised features have the same mean and spread.
    same, other = sources.from_arrays(X, y), sources.from_arrays(2 * X + np.float32(1), y)
    standardised = {d.standardised().describe().fingerprint() for d in (same, other)}
    assert len(standardised | {prints[0]}) == 3


def test_the_page_on_large_data_prints_what_it_shows(capsys):
    """Blocks of code that are followed by their output; the others need estimators or a cluster."""
    page = Path(__file__).parents[3] / "docs" / "large_data.rst"
    text = page.read_text(encoding="utf-8")
    pieces = re.findall(r"\.\. code-block:: (\w+)\n\n((?:   .*\n|\n)+)", text)
    names: dict = {"__name__": "page"}
    n_run = 0
    for (kind, code), (after, output) in pairwise(pieces):
        if (kind, after) == ("python", "text"):
            exec(textwrap.dedent(code), names)
            assert capsys.readouterr().out.split() == textwrap.dedent(output).split()
            n_run += 1
    assert n_run == 3
    shutil.rmtree(names["folder"])


class TestRecognition:
    """What `fit` was given."""

    def test_ordinary_input_is_left_alone(self):
        X, y, _ = data()
        for ordinary in (X, X.tolist(), pd.DataFrame(X), [X[0], X[1]], [], None, "abc"[:0] or ()):
            assert sources.as_dataset(ordinary, y) is None

    def test_a_dataset_is_itself_and_brings_its_targets(self):
        X, y, _ = data()
        dataset = sources.from_arrays(X, y)
        assert sources.as_dataset(dataset) is dataset
        with pytest.raises(ValueError, match="carries its targets"):
            sources.as_dataset(dataset, y)

    def test_paths_and_patterns(self, tmp_path):
        X, y, weight = data()
        parquet(tmp_path, X, y, weight)
        for given in (str(tmp_path / "*.parquet"), tmp_path, sorted(tmp_path.glob("*.parquet"))):
            dataset = sources.as_dataset(given, "label", "weight")
            assert dataset.describe().n_rows == 500
        with pytest.raises(ValueError, match="y must be given"):
            sources.as_dataset(str(tmp_path / "*.parquet"))

    def test_dask(self):
        X, y, _ = data()
        dataset = sources.as_dataset(
            da.from_array(X, chunks=(100, 5)), da.from_array(y, chunks=100)
        )
        assert dataset.describe().sizes == [100] * 5

    def test_large_memory_maps(self, tmp_path, monkeypatch):
        X, y, _ = data()
        np.save(tmp_path / "X.npy", X)
        mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
        assert sources.as_dataset(mapped, y) is None
        monkeypatch.setattr(recognise, "SMALL_MAP", 1000)
        assert sources.as_dataset(mapped, y).describe().n_rows == 500


class TestBadInput:
    """Errors name the argument, the value and the fix."""

    def test_shapes(self):
        X, y, weight = data()
        with pytest.raises(ValueError, match=r"X\[0\] must have 2 axes"):
            sources.from_arrays(X[0], y)
        with pytest.raises(ValueError, match=r"X\[0\] has 500 rows and y\[0\] has 499"):
            sources.from_arrays(X, y[1:])
        with pytest.raises(ValueError, match=r"y must be a list of as many"):
            sources.from_arrays([X, X], [y])
        with pytest.raises(ValueError, match="different numbers of columns"):
            sources.from_arrays([X, X[:, 1:]], [y, y])
        with pytest.raises(ValueError, match="empty list"):
            sources.from_arrays([], [])
        with pytest.raises(ValueError, match="no rows"):
            sources.from_arrays(X[:0], y[:0]).describe()
        with pytest.raises(ValueError, match="all weights are zero"):
            sources.from_arrays(X, y, 0 * weight).describe()

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @every_kind
    def test_values_that_are_not_finite(self, make, bad, tmp_path):
        X, y, weight = data()
        X[437, 3] = bad
        with pytest.raises(ValueError, match=r"column (3|'f3'|'d') is (NaN|infinite)") as caught:
            make(tmp_path, X, y, weight).describe()
        assert "SimpleImputer" in str(caught.value)
        row = {"npy": 437 - 334, "parquet": 437 - 334, "chunks": 57, "dask_array": 437 - 360}
        row |= {"dask_frame": 437 - 375}
        assert f"row {row.get(make.__name__, 437)}, column" in str(caught.value)

    @every_kind
    def test_negative_weights(self, make, tmp_path):
        X, y, weight = data()
        weight[3] = -1
        with pytest.raises(ValueError, match=r"row 3: the sample weight is -1\.0"):
            make(tmp_path, X, y, weight).describe()

    def test_missing_targets(self, tmp_path):
        X, y, _ = data()
        holes = y.astype(object)
        holes[5] = None
        with pytest.raises(ValueError, match=r"X, row 5: the target is missing"):
            sources.from_arrays(X, holes).describe()
        table = pa.table({"f": X[:, 0], "label": pa.array(holes.tolist())})
        pq.write_table(table, tmp_path / "rows.parquet")
        with pytest.raises(ValueError, match=r"rows.parquet, row 5: the target is missing"):
            sources.from_files(tmp_path / "rows.parquet", target="label").describe()
        frame = dd.from_pandas(pd.DataFrame({"f": X[:, 0], "label": holes}), npartitions=2)
        with pytest.raises(ValueError, match=r"chunk 0, row 5: the target is missing"):
            sources.from_dask(frame, "label").describe()
        numbers = np.where(np.arange(500) == 499, np.nan, 1.0)
        with pytest.raises(ValueError, match=r"X, row 499: the target is NaN"):
            sources.from_arrays(X, numbers).describe()

    def test_labels_of_different_kinds(self):
        X, y, _ = data()
        with pytest.raises(ValueError, match=r"text at X\[0\], row 0 and numbers at X\[1\], row 0"):
            sources.from_arrays([X, X], [y, np.ones(500)]).describe()
        mixed = y.astype(object)
        mixed[7] = 3
        with pytest.raises(ValueError, match="targets of type int, str"):
            sources.from_arrays(X, mixed).describe()

    def test_columns_that_are_not_numbers(self, tmp_path):
        X, y, _ = data()
        table = pa.table({"f": X[:, 0], "town": y, "label": y})
        pq.write_table(table, tmp_path / "rows.parquet")
        with pytest.raises(ValueError, match=r"column 'town' of .*rows.parquet has type string"):
            sources.from_files(tmp_path / "rows.parquet", target="label")
        frame = dd.from_pandas(pd.DataFrame({"f": X[:, 0], "town": y, "label": y}), npartitions=2)
        with pytest.raises(ValueError, match=r"column 'town' has type object"):
            sources.from_dask(frame, "label")
        np.save(tmp_path / "X.npy", X + 1j)
        np.save(tmp_path / "y.npy", y)
        with pytest.raises(ValueError, match=r"X.npy has type complex"):
            sources.from_files(tmp_path / "X.npy", target=[tmp_path / "y.npy"])

    def test_names_of_columns(self, tmp_path):
        X, y, weight = data()
        parquet(tmp_path, X, y, weight)
        with pytest.raises(
            ValueError, match=r"rows0.parquet has no column 'lable'; its columns are"
        ):
            sources.from_files(tmp_path, target="lable")
        with pytest.raises(ValueError, match="target must be the name of a column"):
            sources.from_files(tmp_path, target=5)
        with pytest.raises(ValueError, match="is not a column of X"):
            sources.from_dask(da.from_array(X), "label")

    def test_files_that_do_not_go_together(self, tmp_path):
        X, y, weight = data()
        npy(tmp_path, X, y, weight)
        parquet(tmp_path, X, y, weight)
        inside = str(tmp_path)
        with pytest.raises(
            ValueError, match=r"X0.npy is a .npy file and .*rows0.parquet a Parquet"
        ):
            sources.from_files([f"{inside}/X0.npy", f"{inside}/rows0.parquet"], target=0)
        with pytest.raises(ValueError, match=r"target gives 1 files for 3 files of rows"):
            sources.from_files(f"{inside}/X*.npy", target=f"{inside}/y0.npy")
        with pytest.raises(
            ValueError, match=r"X0.npy has 167 rows, but .*y2.npy has shape \(166,\)"
        ):
            sources.from_files(f"{inside}/X0.npy", target=f"{inside}/y2.npy")
        with pytest.raises(ValueError, match=r"y0.npy has one axis"):
            sources.from_files(f"{inside}/y0.npy", target=0)
        with pytest.raises(ValueError, match=r"target must be a column from 0 to 4"):
            sources.from_files(f"{inside}/X0.npy", target=5)
        with pytest.raises(ValueError, match=r"features must be other columns"):
            sources.from_files(f"{inside}/X0.npy", target=1, features=[0, 1])

    def test_views(self):
        X, y, _ = data()
        dataset = sources.from_arrays(X, y)
        with pytest.raises(ValueError, match=r"negative must be one of the classes .*'oak'"):
            dataset.binary("ash", "oak")
        with pytest.raises(ValueError, match="another class than positive"):
            dataset.binary("ash", "ash")
        with pytest.raises(ValueError, match="cost_factors must be two numbers"):
            dataset.binary("ash", "birch", cost_factors=(1.0, -1.0))
        with pytest.raises(ValueError, match="scale must be positive"):
            dataset.binary("ash", "birch", scale=np.zeros(5))
        with pytest.raises(ValueError, match="centre must be 5 finite numbers"):
            dataset.binary("ash", "birch", centre=np.zeros(4))
        with pytest.raises(ValueError, match="1 arguments were given for"):
            dataset.binary("ash", "birch").run(all_rows, [()])

    def test_dask_chunks_that_do_not_fit(self):
        X, y, _ = data()
        values, labels = da.from_array(X, chunks=(100, 5)), da.from_array(y, chunks=70)
        assert sources.from_dask(values, labels).describe().sizes == [100] * 5
        with pytest.raises(ValueError, match="X has 500 rows and y has 499"):
            sources.from_dask(values, labels[1:])
        unknown = values[da.from_array(np.arange(500) % 2 == 0, chunks=100)]
        with pytest.raises(ValueError, match=r"chunk \d of X has 50 rows and that of y has 100"):
            sources.from_dask(unknown, labels.rechunk(100)).describe()
        with pytest.raises(ValueError, match="Dask array with two axes"):
            sources.from_dask(labels, labels)


STATE = {
    "round": 3,
    "bounds": [0.1, float("inf"), None],
    "w": np.array([0.1, -2.0]),
    "rows": [np.arange(3), np.empty(0, dtype=np.intp)],
    "inner": {"done": False, "name": "scan", "X": np.eye(2, dtype=np.float32)},
    "total": np.float64(1 / 3),
}


class TestCheckpoint:
    """State in, the same state out, or an error that says why not."""

    def test_round_trip(self, tmp_path):
        checkpoint = sources.Checkpoint(tmp_path / "state", data="abc", parameters={"C": (1.0, 2)})
        assert checkpoint.load() is None
        checkpoint.save({})
        checkpoint.save(STATE)
        again = sources.Checkpoint(
            tmp_path / "state", data="abc", parameters={"C": [1.0, 2]}
        ).load()
        assert sorted(again) == sorted(STATE)
        np.testing.assert_equal(again, {**STATE, "total": 1 / 3})
        assert again["inner"]["X"].dtype == np.float32
        assert os.listdir(tmp_path) == ["state"]

    def test_strangers_are_refused(self, tmp_path):
        sources.Checkpoint(tmp_path / "state", data="abc", parameters={"C": 1.0}).save(STATE)
        with pytest.raises(ValueError, match="other data; delete it, or name another file"):
            sources.Checkpoint(tmp_path / "state", data="abd", parameters={"C": 1.0}).load()
        with pytest.raises(ValueError, match=r"C=1.0, this one has 2.0"):
            sources.Checkpoint(tmp_path / "state", data="abc", parameters={"C": 2.0}).load()
        with pytest.raises(ValueError, match=r"C=1.0, this one has None"):
            sources.Checkpoint(tmp_path / "state", data="abc").load()

    def test_places_that_cannot_be(self, tmp_path):
        with pytest.raises(ValueError, match="the folder does not exist"):
            sources.Checkpoint(tmp_path / "nowhere" / "state")
        with pytest.raises(ValueError, match="is a folder"):
            sources.Checkpoint(tmp_path)

    def test_nothing_that_would_need_pickle(self, tmp_path):
        checkpoint = sources.Checkpoint(tmp_path / "state")
        for strange in (object(), np.array([object()]), {1: 2}):
            with pytest.raises((TypeError, ValueError)):
                checkpoint.save({"strange": strange})
        assert os.listdir(tmp_path) == []
