"""A checkpoint that is damaged or belongs to another fit is named, with the fix; never used."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from widemargin import LinearSVC, sources
from widemargin.cli import app
from widemargin.sources import Threads

FLIPS = CUTS = 60  # places, besides every byte of the first line

HINGE = {"loss": "hinge", "multi_class": "ovo", "tol": 1e-9}  # solved exactly


def write_rows(folder, n=6_000, seed=0):
    rng = np.random.default_rng(seed)
    for k in range(3):
        X = rng.uniform(-1, 1, (n, 4))
        y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, "yes", "no")
        table = pa.table({**{f"f{j}": X[:, j] for j in range(4)}, "y": y.tolist()})
        pq.write_table(table, folder / f"rows{k}.parquet")
    return folder


class Breaking(Threads):
    """Fails at a certain task, as a machine does that is switched off."""

    def __init__(self, last):
        self.left = last

    def run(self, task, parts, arguments):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return super().run(task, parts, arguments)


def dataset(folder, engine=None):
    return sources.from_files(str(folder), target="y", engine=engine)


def fit(data, checkpoint, **parameters):
    return LinearSVC(random_state=0, checkpoint=checkpoint, **{**HINGE, **parameters}).fit(data)


def bits(model):
    return model.coef_.tobytes(), model.intercept_.tobytes()


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory):
    """Data, the checkpoint of a fit on them that did not come to its end, and the undisturbed."""
    folder = write_rows(tmp_path_factory.mktemp("rows"))
    path = tmp_path_factory.mktemp("state") / "fit.checkpoint"
    undisturbed = bits(fit(dataset(folder), None))
    for last in range(2, 20):
        with pytest.raises(KeyboardInterrupt):
            fit(dataset(folder, Breaking(last)), path)
        if path.exists():
            break
    return folder, path.read_bytes(), undisturbed


def test_a_whole_checkpoint_leads_to_the_same_model(unfinished, tmp_path):
    """The control of the tests below, which damage it."""
    folder, whole, undisturbed = unfinished
    path = tmp_path / "fit.checkpoint"
    path.write_bytes(whole)
    assert bits(fit(dataset(folder), path)) == undisturbed
    assert not path.exists()


@pytest.mark.parametrize("how", ["flipped", "cut"])
def test_a_checkpoint_damaged_anywhere_is_named_with_the_fix(unfinished, how, tmp_path):
    folder, whole, _ = unfinished
    data = dataset(folder)
    path = tmp_path / "fit.checkpoint"
    title = whole.index(b"\n") + 1
    rng = np.random.default_rng(0)
    places = [*range(title + 4), *rng.integers(title, len(whole), FLIPS), len(whole) - 1]
    for place in places:
        bit = bytes([whole[place] ^ (1 << rng.integers(8))])
        damaged = whole[:place] + (bit + whole[place + 1 :] if how == "flipped" else b"")
        path.write_bytes(damaged)
        message = re.escape(str(path)) + " is damaged or not a checkpoint.*; delete it"
        with pytest.raises(ValueError, match=message):
            fit(data, path)
        assert path.read_bytes() == damaged  # it is the user's to delete


def test_a_checkpoint_that_goes_on_behind_its_end_is_damaged(unfinished, tmp_path):
    folder, whole, _ = unfinished
    path = tmp_path / "fit.checkpoint"
    path.write_bytes(whole + b"\0")
    with pytest.raises(ValueError, match="is damaged"):
        fit(dataset(folder), path)


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({"C": 2.0}, "C=1.0, this one has 2.0"),
        ({"loss": "squared_hinge"}, "loss='hinge', this one has 'squared_hinge'"),
        ({"fit_intercept": False}, "fit_intercept=True, this one has False"),
        ({"class_weight": "balanced"}, "class_weight=None, this one has 'balanced'"),
        ({"tol": 1e-2}, "tol="),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_checkpoint_of_other_parameters_is_refused(unfinished, parameters, word, tmp_path):
    folder, whole, _ = unfinished
    path = tmp_path / "fit.checkpoint"
    path.write_bytes(whole)
    with pytest.raises(ValueError, match=re.escape(str(path)) + ".*" + re.escape(word)):
        fit(dataset(folder), path, **parameters)
    assert path.read_bytes() == whole


def other_values(folder):
    write_rows(folder, seed=1)


def one_value(folder):
    table = pq.read_table(folder / "rows1.parquet")
    column = table["f2"].to_numpy().copy()
    column[17] = np.nextafter(column[17], 1)
    pq.write_table(table.set_column(2, "f2", pa.array(column)), folder / "rows1.parquet")


def two_rows_exchanged(folder):
    table = pq.read_table(folder / "rows1.parquet")
    order = np.arange(len(table))
    order[[3, 4]] = order[[4, 3]]
    pq.write_table(table.take(order), folder / "rows1.parquet")


def one_file_less(folder):
    (folder / "rows2.parquet").unlink()


@pytest.mark.parametrize("change", [other_values, one_value, two_rows_exchanged, one_file_less])
def test_a_checkpoint_of_other_data_is_refused(unfinished, change, tmp_path):
    """Mean and spread of two orders of the same rows are the same; the rows are not."""
    folder, whole, _ = unfinished
    changed = shutil.copytree(folder, tmp_path / "rows")
    change(changed)
    path = tmp_path / "fit.checkpoint"
    path.write_bytes(whole)
    with pytest.raises(ValueError, match=re.escape(str(path)) + " was written .* other data"):
        fit(dataset(changed), path)


@pytest.mark.parametrize("content", [b"", b"round,4\n1,2\n", "other fit"])
def test_the_command_line_says_so_in_a_line(unfinished, content, tmp_path):
    folder, whole, _ = unfinished
    path = tmp_path / "fit.checkpoint"
    path.write_bytes(whole if content == "other fit" else content)
    model = tmp_path / "model.skops"
    words = ["fit", str(folder), "-t", "y", "--checkpoint", str(path), "-o", str(model)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: the checkpoint {path} ")
    assert "delete it" in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fit.checkpoint"]
