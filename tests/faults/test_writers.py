"""Writers of the same file: one that was killed, one that lives, and several at once."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile

import pytest

from tests.helpers.children import PATIENCE, started
from widemargin import SVC, report, sources
from widemargin.sources.whole_file import write_whole

# Writes half of the file, waits for a word, writes the rest.
HALF = """
import sys
from pathlib import Path
from widemargin.sources.whole_file import write_whole

def write(handle):
    handle.write(b"of the ")
    handle.flush()
    print("HALF", flush=True)
    sys.stdin.readline()
    handle.write(b"child")

write_whole(Path(sys.argv[1]), write)
print("WHOLE", flush=True)
"""


def half_way(path):
    child = started(["-c", HALF, str(path)], stdin=subprocess.PIPE)
    assert child.stdout.readline() == "HALF\n", child.stderr.read()
    return child


def ours(path):
    write_whole(path, lambda handle: handle.write(b"ours"))


def test_the_draft_of_a_killed_writer_goes_with_the_next_write(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")
    with half_way(path) as child:
        child.send_signal(signal.SIGKILL)
        child.wait(PATIENCE)
    assert path.read_text() == "old"
    (draft,) = tmp_path.glob(".out.csv.*.tmp")
    strangers = [tmp_path / ".out.csv.tmp", tmp_path / ".out.csv.notes.tmp"]
    for stranger in strangers:
        stranger.write_text("not a draft of ours")
    ours(path)
    assert path.read_text() == "ours"
    assert not draft.exists()
    assert all(stranger.exists() for stranger in strangers)


def test_the_draft_of_a_living_writer_stays(tmp_path):
    path = tmp_path / "out.csv"
    with half_way(path) as child:
        ours(path)
        assert path.read_text() == "ours"
        out, err = child.communicate("go on\n", timeout=PATIENCE)
    assert out == "WHOLE\n", err
    assert path.read_text() == "of the child"
    assert os.listdir(tmp_path) == ["out.csv"]


MANY = """
import sys
from widemargin.sources import Checkpoint
import numpy as np

mine = float(sys.argv[2])
checkpoint = Checkpoint(sys.argv[1])
print("READY", flush=True)
sys.stdin.readline()
for k in range(20):
    checkpoint.save({"mine": mine, "w": np.full(20_000, mine)})
"""


def test_several_processes_may_write_the_same_checkpoint(tmp_path):
    """Each reads whole states only, and the last one to write wins."""
    path = tmp_path / "fit.checkpoint"
    children = [started(["-c", MANY, str(path), str(k)], stdin=subprocess.PIPE) for k in range(2)]
    for child in children:
        assert child.stdout.readline() == "READY\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    read = 0
    while any(child.poll() is None for child in children):
        state = sources.Checkpoint(path).load()
        assert state is None or (state["w"] == state["mine"]).all()
        read += state is not None
    for child in children:
        _, err = child.communicate(timeout=PATIENCE)
        assert child.returncode == 0, err
    assert read > 0
    assert os.listdir(tmp_path) == ["fit.checkpoint"]


@pytest.mark.parametrize("temporary", ["missing", "a file"])
def test_no_file_of_ours_goes_through_the_temporary_folder(temporary, tmp_path, monkeypatch):
    """A temporary folder that is missing or full is in nobody's way: drafts stand beside files."""
    if temporary == "a file":
        (tmp_path / "tmp").write_text("no folder")
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    with pytest.raises(OSError, match="tmp"):  # the control: who asks for it is refused
        tempfile.mkstemp()
    X = [[0.0], [1.0], [2.0], [3.0]]
    model = SVC().fit(X, [0, 0, 1, 1])
    report(model, tmp_path / "page.html")
    sources.Checkpoint(tmp_path / "state").save({"round": 1})
    ours(tmp_path / "out.csv")
    names = {p.name for p in tmp_path.iterdir()} - {"tmp"}
    assert names == {"page.html", "state", "out.csv"}
