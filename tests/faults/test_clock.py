"""The wall clock jumps: budgets and results do not notice, since nothing asks it for a duration.

A real jump needs the rights to set the clock of the machine. So a ``sitecustomize`` of the child
lets ``time.time`` jump by hours at every call, which is what a library would see; and a rule
says that no module of ours asks it at all.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path

import pytest

import widemargin
from tests.helpers.children import environment, program

ROOT = Path(widemargin.__file__).parent
WALL = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow"),
        ("date", "today"), ("datetime", "today")}  # fmt: skip


def wall_clock_uses(text: str) -> list[str]:
    """Return where a module asks for the time of day."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            found += [alias.name for alias in node.names if alias.name in ("time", "time_ns")]
        if isinstance(node, ast.Attribute):
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else None
            owner = node.value.id if isinstance(node.value, ast.Name) else owner
            if (owner, node.attr) in WALL:
                found.append(f"{owner}.{node.attr}")
    return found


def test_the_rule_sees_the_wall_clock():
    assert wall_clock_uses("import time\nt = time.time()") == ["time.time"]
    assert wall_clock_uses("from time import time") == ["time"]
    assert wall_clock_uses("import datetime\ndatetime.datetime.now()") == ["datetime.now"]
    assert wall_clock_uses("import time\nt = time.monotonic() - time.perf_counter()") == []


def test_no_module_asks_the_wall_clock():
    uses = {str(p): wall_clock_uses(p.read_text("utf-8")) for p in ROOT.rglob("*.py")}
    assert len(uses) > 100
    assert {path: found for path, found in uses.items() if found} == {}


JUMPS = """
import itertools, time
_days = itertools.cycle([-90_000.0, 90_000.0, 0.0])
_true = time.time
time.time = lambda: _true() + next(_days)
time.time_ns = lambda: int(1e9 * time.time())
"""

FITS = """
import json, sys, time, warnings
import numpy as np
import widemargin as wm
from sklearn.exceptions import ConvergenceWarning
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 3))
y = (X[:, 0] + rng.normal(size=400) > 0).astype(int)
jumps = max(abs(time.time() - time.time()) for _ in range(9)) > 3600
answer = {"jumps": jumps}
for name in ("SVC", "LinearSVC", "LOOSVC", "MaxMarginClassifier"):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = getattr(wm, name)(time_limit=3600.0).fit(X, y)
    answer[name] = model.decision_function(X).tolist()
# And a budget that is over ends the fit: the other half of the promise.
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    hard = wm.SVC(C=1e8, tol=1e-13, max_iter=10**12, time_limit=0.5).fit(X, rng.integers(0, 2, 400))
answer["ended"] = [w.category.__name__ for w in caught], bool(hard.certificate_.converged)
print(json.dumps(answer))
"""


@pytest.fixture(scope="module")
def steady():
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(FITS, {})  # the same program, here, where the clock is what it is
    return json.loads(said.getvalue())


def test_a_clock_that_jumps_changes_no_fit_and_no_budget(steady, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(JUMPS)
    variables = environment()
    variables["PYTHONPATH"] = f"{tmp_path}:{variables['PYTHONPATH']}"
    done = program(FITS, env=variables)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer.pop("jumps")
    assert not steady["jumps"]
    assert answer == {key: value for key, value in steady.items() if key != "jumps"}
    assert answer["ended"] == [["ConvergenceWarning"], False]
