"""Nothing is lost: reports and models are whole or not there, however a run ends."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import widemargin
from widemargin.cli._model_file import load_model

SOURCE = str(Path(widemargin.__file__).parents[1])
COMMAND = [sys.executable, "-m", "widemargin", "report", "data.csv", "-t", "y"]
KILLS = 4
PATIENCE = 120.0  # seconds; a bound, not a measurement


def with_data(folder, n=40):
    a = np.random.default_rng(0).normal(size=(n, 2))
    rows = [f"{u:.4f},{v:.4f},{'yes' if u + v > 0 else 'no'}" for u, v in a]
    (folder / "data.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")
    return folder


@pytest.fixture
def folder(tmp_path):
    return with_data(tmp_path)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Let one run finish: after it, all that a report calls is compiled and cached."""
    folder = with_data(tmp_path_factory.mktemp("whole"))
    code, _, err = ended(started(folder))
    assert code == 0, err
    assert_whole_or_absent(folder)
    assert {p.name for p in folder.iterdir()} == {"data.csv", "data.html", "data.skops"}


def started(folder, *, limit=None):
    """Start a report in a process of its own, in which files may be limited in size."""

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        COMMAND,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limited if limit is not None else None,
    )


def ended(process):
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def assert_whole_or_absent(folder):
    page, model = folder / "data.html", folder / "data.skops"
    if page.exists():
        text = page.read_text("utf-8")
        assert text.startswith("<!doctype html>")
        assert text.rstrip().endswith("</html>")
    if model.exists():
        assert zipfile.ZipFile(model).testzip() is None
        assert load_model(model).target == "y"


def test_killed_at_any_moment(folder, compiled):
    begun = time.monotonic()
    assert ended(started(folder))[0] == 0
    length = time.monotonic() - begun  # that of the first one may be long: it has compiled
    old = {name: (folder / name).read_bytes() for name in ("data.html", "data.skops")}
    data = (folder / "data.csv").read_bytes()
    rng = np.random.default_rng(1)
    for k in range(KILLS):
        if k == KILLS // 2:  # from here on there are no old files
            for name in old:
                (folder / name).unlink()
        process = started(folder)
        # Most of the danger is at the end, where files are written.
        time.sleep(length * rng.uniform(0.6, 1.05))
        process.kill()
        process.communicate(timeout=PATIENCE)
        assert_whole_or_absent(folder)
        if k < KILLS // 2:
            assert (folder / "data.html").exists()
            assert (folder / "data.skops").exists()
        assert (folder / "data.csv").read_bytes() == data
    assert ended(started(folder))[0] == 0  # what a killed run left behind is in nobody's way


@pytest.mark.parametrize(
    ("limit", "file", "old"),
    [(2_000, "data.skops", True), (200_000, "data.html", True), (200_000, "data.html", False)],
    ids=["no room for the model", "no room for the page", "no room for the page, nothing there"],
)
def test_a_full_disk(folder, compiled, limit, file, old):
    """The limit lets the model through, or not even that."""
    names = ("data.html", "data.skops")
    if old:
        for name in names:
            (folder / name).write_text("old")
    code, _, err = ended(started(folder, limit=limit))
    assert code == 1
    assert f"error: {file}: File too large" in err
    assert "Traceback" not in err
    assert (folder / file).exists() == old
    if old:
        assert (folder / file).read_text() == "old"
    assert {p.name for p in folder.iterdir()} <= {"data.csv", *names}


def test_an_interrupt_leaves_nothing_behind(tmp_path, compiled):
    folder = with_data(tmp_path, n=400)  # enough to be at work for a while
    process = started(folder)
    while process.poll() is None and not _working(process.pid):
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    code, out, err = ended(process)
    assert code != 0
    assert "Traceback" not in err
    assert out == ""
    assert {p.name for p in folder.iterdir()} == {"data.csv"}


def _working(pid):
    """Tell whether the process is past the start: numba is loaded where compiled code is called."""
    try:
        return "_dispatcher" in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False
