"""A process that may have no more memory: an error that says how much was wanted; no half fit.

RLIMIT_AS is set once everything is loaded, a little above what the process has: below that
Python itself cannot start.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.helpers.children import program

MACHINES = ("SVC", "SVR", "MeanFieldGPClassifier", "OrdinalSVC")

TOO_MUCH = """
import contextlib, io, json, os, resource, sys, warnings
import numpy as np
import widemargin as wm
from widemargin.cli import app
warnings.simplefilter("ignore")
os.chdir(sys.argv[1])
rng = np.random.default_rng(0)
X = rng.normal(size=(8000, 3))
y = (X[:, 0] + rng.normal(size=8000) > 0).astype(int)
few = X[:60], y[:60]

def limit(room):
    pages = int(open("/proc/self/statm").read().split()[0])
    most = pages * resource.getpagesize() + room if room else resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))

def command(words):
    said, code = io.StringIO(), None
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            app(words)
        except SystemExit as end:
            code = end.code
    return code, said.getvalue()

words = ["fit", "data.csv", "-t", "y", "-o", "model.skops"]
code, said = command([*words[:-1], "few.skops", "--time-limit", "1"])  # all is loaded now
answer = {}
for name in sys.argv[2:]:
    model = getattr(wm, name)()
    expected = model.fit(*few).predict(X).tolist()
    limit(30_000_000)
    try:
        model.fit(X, y)
        error = "none"
    except MemoryError as failure:
        error = str(failure)
    limit(None)
    # It is what it was, and works on.
    same = model.predict(X).tolist() == expected
    again = model.fit(*few).predict(X).tolist() == expected
    answer[name] = [error, same, again]
limit(30_000_000)
answer["command"] = command(words)
limit(None)
print(json.dumps(answer))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory")
    X = np.random.default_rng(0).normal(size=(8000, 2)).round(3)
    rows = [f"{u},{v},{'yes' if u + v > 0.1 else 'no'}" for u, v in X]
    rows[::3] = [row.replace("yes", "no") for row in rows[::3]]
    (folder / "data.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")
    return folder


@pytest.fixture(scope="module")
def answers(place):
    done = program(TOO_MUCH, place, *MACHINES)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", MACHINES)
def test_a_fit_that_needs_too_much_memory_says_how_much(answers, name):
    error, same, again = answers[name]
    assert error.startswith("Unable to allocate ")
    assert same
    assert again


def test_a_command_that_needs_too_much_memory_says_what_to_do(answers, place):
    code, said = answers["command"]
    assert code == 1
    assert said.startswith("error: There is not enough memory. Unable to allocate ")
    assert "train on fewer rows" in said
    assert said.count("\n") == 1
    assert sorted(p.name for p in place.iterdir()) == ["data.csv", "few.skops"]
