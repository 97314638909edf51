"""No room for what is to be saved: an error that names the file, and the old one untouched.

RLIMIT_FSIZE makes every write beyond a size fail, as a full disk does, and needs no rights. The
report and its model are in test_report_killed.py.
"""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from tests.helpers.children import command, environment, limited, program, refused


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a table, a model and a folder of Parquet files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("disk")
    X = np.random.default_rng(0).normal(size=(400, 2)).round(4)
    labels = np.where(X.sum(axis=1) > 0, "yes", "no")
    rows = [f"{u},{v},{label}" for (u, v), label in zip(X, labels, strict=True)]
    (folder / "data.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")
    (folder / "parts").mkdir()
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "y": labels.tolist()})
    pq.write_table(table, folder / "parts" / "rows.parquet")
    done = command("fit", "data.csv", "-t", "y", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


# What is written, and bytes that are too few for it. Some have an old file in their place.
OUTPUTS = {
    "model": (["fit", "data.csv", "-t", "y", "-o", "model"], 2_000),
    "new model": (["fit", "parts", "-t", "y", "-o", "new model"], 500),
    "checkpoint": (["fit", "parts", "-t", "y", "--checkpoint", "checkpoint"], 500),
    "predictions": (["predict", "data.skops", "data.csv", "-o", "predictions"], 2_000),
    "new predictions": (["predict", "data.skops", "data.csv", "-o", "new predictions"], 2_000),
    "predictions.parquet": (
        ["predict", "data.skops", "data.csv", "-o", "predictions.parquet"],
        500,
    ),
}


# All commands in one process, which takes a second to start; each under its own limit.
COMMANDS = """
import contextlib, io, json, resource, sys
from widemargin.cli import app
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for words, limit in json.loads(sys.argv[1]):
    said, code = io.StringIO(), None
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            app(words)
        except SystemExit as end:
            code = end.code
    print(json.dumps([code, said.getvalue()]))
"""


@pytest.fixture(scope="module")
def answers(place):
    """What each command said, with the files before and after."""
    for name in ("model", "predictions", "predictions.parquet"):
        (place / name).write_text("old")
    before = {p: p.read_bytes() for p in place.iterdir() if p.is_file()}
    done = program(COMMANDS, json.dumps(list(OUTPUTS.values())), cwd=place)
    assert done.returncode == 0, done.stderr
    after = {p: p.read_bytes() for p in place.iterdir() if p.is_file()}
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(OUTPUTS, found, strict=True)), before, after


@pytest.mark.parametrize("file", OUTPUTS)
def test_no_room_for_an_output(answers, file):
    said, before, after = answers
    code, text = said[file]
    assert code == 1
    assert text == f"error: {file}: File too large\n"
    assert after == before


def test_no_room_for_the_figures_of_a_benchmark(tmp_path):
    """The report of a benchmark is written as `python -m benchmarks ... --json` does it."""
    text = (
        "import sys; from pathlib import Path; from benchmarks.report import Report\n"
        "report = Report('svc', quick=True)\n"
        "report.results = [{'seconds': 1.0}] * 1000\n"
        "report.write_json(Path('figures.json'))\n"
    )
    (tmp_path / "figures.json").write_text("old")
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    variables = environment()
    variables["PYTHONPATH"] += os.pathsep + root
    done = program(text, cwd=tmp_path, env=variables, preexec_fn=limited(FSIZE=2_000))
    assert done.returncode == 1
    assert "OSError: [Errno 27] File too large: 'figures.json'" in done.stderr
    assert (tmp_path / "figures.json").read_text() == "old"
    assert os.listdir(tmp_path) == ["figures.json"]


PREDICT = ("predict", "data.skops", "data.csv")
FIT = ("fit", "data.csv", "-t", "y", "-o", "other.skops")


@pytest.mark.parametrize("words", [PREDICT, FIT], ids=["predict", "fit"])
def test_no_room_behind_standard_output(place, words):
    """/dev/full is a disk without room."""
    with open("/dev/full", "w") as full:
        done = command(*words, cwd=place, stdout=full)
    refused(done, "No space left on device")


# Compiled code that finds no room for its cache is compiled in memory, and the fit goes on.
COLD = """
import numpy as np
from widemargin import PerceptronClassifier
X = np.arange(8.0).reshape(-1, 1)
print(PerceptronClassifier().fit(X, [0] * 4 + [1] * 4).predict([[0.0], [7.0]]))
"""


def test_no_room_for_the_cache_of_compiled_code(tmp_path):
    variables = environment(NUMBA_CACHE_DIR=str(tmp_path))
    done = program(COLD, env=variables, preexec_fn=limited(FSIZE=1_000))
    assert done.stdout == "[0 1]\n", done.stderr
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and p.stat().st_size > 1_000]
    done = program(COLD, env=variables)  # the control: with room there is a cache
    assert done.stdout == "[0 1]\n", done.stderr
    assert [p for p in tmp_path.rglob("*.nbc") if p.stat().st_size > 1_000]
