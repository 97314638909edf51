"""Files that change, shrink or go while a fit reads them again and again; single wrong bits.

What the sources do between two scans is in test_sources_faults.py; here it is a fit.
"""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
from test_sources_faults import KINDS, named, open_parquet, write_parquet

from widemargin import LinearSVC, sources
from widemargin.sources import Threads

FLIPS = 120


class Meddling(Threads):
    """Does something to a file between two reads of a fit, once."""

    def __init__(self, before_task, deed):
        self.left, self.deed = before_task, deed

    def run(self, task, parts, arguments):
        self.left -= 1
        if self.left == 0:
            self.deed()
        return super().run(task, parts, arguments)


def cut(path):
    os.truncate(path, 1000)


def rewrite(path):
    shutil.copyfile(path, f"{path}.new")
    os.replace(f"{path}.new", path)


DEEDS = {"cut": cut, "removed": os.remove, "rewritten": rewrite}


@pytest.mark.parametrize("task", [1, 2, 3])
@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_changes_in_mid_fit_is_named(kind, deed, task, tmp_path):
    """A fit has four reads: to describe the rows, to draw some, to solve and to prove."""
    write, open_files = KINDS[kind]
    path = write(tmp_path, 20_000)
    quiet = open_files(tmp_path)
    expected = LinearSVC(loss="hinge", tol=1e-9, random_state=0).fit(quiet)
    meddling = sources.Dataset(
        quiet.rows,
        Meddling(task, lambda: DEEDS[deed](path)),
        quiet.n_features,
        quiet.dtype,
        quiet.feature_names,
    )
    model = LinearSVC(
        loss="hinge", tol=1e-9, C=2.0, random_state=0, checkpoint=tmp_path / "fit.checkpoint"
    )
    with pytest.raises((ValueError, FileNotFoundError), match=named(path)) as caught:
        model.fit(meddling)
    assert "again" in str(caught.value)  # the fix: make, copy or write it again
    assert not [name for name in vars(model) if name.endswith("_")]
    assert not list(tmp_path.glob(".*"))
    assert expected.certificate_.converged


def test_a_wrong_bit_in_a_page_of_parquet_is_named_or_changes_nothing(tmp_path):
    """Pages have checksums here; the table of contents behind them cannot have any."""
    path = write_parquet(tmp_path, 300)
    whole = path.read_bytes()
    contents = int.from_bytes(whole[-8:-4], "little") + 8
    expected = (
        LinearSVC(loss="hinge", tol=1e-9, random_state=0)
        .fit(open_parquet(tmp_path))
        .coef_.tobytes()
    )
    rng = np.random.default_rng(0)
    named_ones = 0
    for place in rng.integers(0, len(whole) - contents, FLIPS):
        bit = whole[place] ^ (1 << int(rng.integers(8)))
        path.write_bytes(whole[:place] + bytes([bit]) + whole[place + 1 :])
        try:
            model = LinearSVC(loss="hinge", tol=1e-9, random_state=0).fit(open_parquet(tmp_path))
        except ValueError as error:
            named_ones += str(path) in str(error)
        else:
            named_ones += model.coef_.tobytes() == expected
    assert named_ones == FLIPS


def test_a_wrong_bit_in_the_contents_of_parquet_never_breaks_out(tmp_path):
    """It may pass for another file, but if it does not it is an error that names the file."""
    path = write_parquet(tmp_path, 300)
    whole = path.read_bytes()
    contents = int.from_bytes(whole[-8:-4], "little") + 8
    rng = np.random.default_rng(1)
    refusals = []
    for place in rng.integers(len(whole) - contents, len(whole), FLIPS // 3):
        bit = whole[place] ^ (1 << int(rng.integers(8)))
        path.write_bytes(whole[:place] + bytes([bit]) + whole[place + 1 :])
        try:
            LinearSVC(loss="hinge", tol=1e-9, random_state=0).fit(open_parquet(tmp_path))
        except (ValueError, TypeError) as error:
            refusals.append(str(error))
    assert refusals
    assert all(str(tmp_path) in refusal for refusal in refusals)
