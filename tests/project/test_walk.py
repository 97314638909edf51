"""How many doors data pass through: fits that a reader can follow from module to module.

A crossing is a call into another module of the package than the call before it; a return is a
crossing into a module that was seen before the last new one. Compiled loops run as Python here;
the wrapper that compiles them is passed over, and so is the arithmetic of numbers and products with
error bounds, as that of NumPy is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import widemargin

pytestmark = pytest.mark.slow

SETUP = """
import numpy as np, tempfile, pyarrow, pyarrow.parquet
import widemargin as wm
from widemargin import loo, sources
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
noisy = X[:, 0] + 0.3 * rng.normal(size=60)
y, ranks = (noisy > 0).astype(int), np.digitize(noisy, [-0.5, 0.5])
table = pyarrow.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})
folder = tempfile.mkdtemp()
pyarrow.parquet.write_table(table, folder + "/rows.parquet")
"""
WALKER = """
import json, sys
steps = []
PASSED = ["widemargin._base." + n for n in (
    "jit", "jit.extremes", "double_double", "enclosure", "products")]
def trace(frame, event, arg):
    if event == "call":
        name = frame.f_globals.get("__name__") or ""
        ours = name.startswith("widemargin") and name not in PASSED
        if ours and (not steps or steps[-1] != name):
            steps.append(name)
space = {}
exec(sys.argv[1], space)
statement = compile(sys.argv[2], "walk", "exec")
sys.setprofile(trace)
exec(statement, space)
sys.setprofile(None)
seen, returns = [], 0
for name in steps:
    returns += name in seen and seen.index(name) < len(seen) - 1
    if name not in seen:
        seen.append(name)
print(json.dumps([len(steps), returns, seen]))
"""
# Statement, most crossings, most returns. About 20 crossings of LinearSVC on Parquet prove its
# bounds; those of SVC are proved when its certificate is first read.
WALKS = {
    "SVC": ("wm.SVC().fit(X, y)", 110, 80),
    "loo": ("loo.error(model)", 130, 100),
    "OrdinalSVC": ("wm.OrdinalSVC().fit(X, ranks)", 400, 400),
    "LinearSVC on Parquet": (
        "wm.LinearSVC(loss='hinge').fit(sources.from_files(folder + '/rows.parquet', target='y'))",
        155, 100,
    ),
    "LinearSVC on Parquet, squared hinge": (
        "wm.LinearSVC().fit(sources.from_files(folder + '/rows.parquet', target='y'))", 225, 180,
    ),
}  # fmt: skip


def walk(statement: str, setup: str = "") -> tuple[int, int, list[str]]:
    """Return the crossings, the returns and the modules of a statement, in a fresh process."""
    source = str(Path(widemargin.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WALKER, SETUP + setup, statement],
        env={**os.environ, "PYTHONPATH": source, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    crossings, returns, modules = json.loads(done.stdout)
    return crossings, returns, modules


@pytest.mark.parametrize("name", WALKS)
def test_the_way_is_short(name: str) -> None:
    statement, most_crossings, most_returns = WALKS[name]
    crossings, returns, _ = walk(statement, "model = wm.SVC().fit(X, y)")
    assert crossings <= most_crossings
    assert returns <= most_returns


AUTO = {
    "SVC": "wm.SVC().fit(X, y)",
    "SVC linear": "wm.SVC(kernel='linear').fit(X, y)",
    "SVR": "wm.SVR().fit(X, noisy)",
    "LinearSVC": "wm.LinearSVC().fit(X, y)",
    "LinearSVR": "wm.LinearSVR().fit(X, noisy)",
    "ReducedHullSVC": "wm.ReducedHullSVC().fit(X, y)",
    "TubeSVR": "wm.TubeSVR().fit(X, noisy)",
    "MaxMarginClassifier": "wm.MaxMarginClassifier().fit(X, y)",
    "MeanFieldGPClassifier": "wm.MeanFieldGPClassifier().fit(X, y)",
    "GPRegressor": "wm.GPRegressor().fit(X, noisy)",
}


@pytest.mark.parametrize("name", AUTO)
def test_auto_never_takes_a_historical_algorithm(name: str) -> None:
    _, _, modules = walk(AUTO[name])
    assert not [module for module in modules if ".literature" in module]


def test_a_historical_algorithm_would_be_seen() -> None:
    _, _, modules = walk("wm.SVC(solver='adatron').fit(X, y)")
    assert "widemargin.solvers.literature.adatron" in modules
