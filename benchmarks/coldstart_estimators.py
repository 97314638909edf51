"""Processor seconds that the first fit, leave-one-out error and report spend on compilation.

Each is run in a fresh process with an empty cache of compiled code, then in another one with the
cache that the first has left. The difference is the cost of compilation.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ESTIMATORS = [
    "SVC", "SVR", "LinearSVC", "LinearSVR", "NuSVC", "NuSVR", "OneClassSVM", "LOOSVC", "LPSVC",
    "NuLPSVC", "AdaptiveMarginSVC", "TubeSVR", "ReducedHullSVC", "MaxMarginClassifier",
    "OrdinalSVC", "CumulativeLinkClassifier", "MeanFieldGPClassifier", "GPRegressor",
    "PerceptronClassifier", "AdaBoostClassifier", "LPBoostClassifier", "RBFNetClassifier",
]  # fmt: skip

FIRST_USE = """
import json, sys, time, warnings
import numpy as np
import scipy.linalg, scipy.optimize, scipy.sparse.linalg, sklearn.svm
import widemargin
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.standard_normal((200, 5))
y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.standard_normal(200)
name = sys.argv[1]
if name in ("OrdinalSVC", "CumulativeLinkClassifier"):
    y = np.digitize(y, [-1, 0, 1])
elif name == "MaxMarginClassifier":
    y = X[:, 0] > 0
elif not name.endswith(("SVR", "GPRegressor")):
    y = y > 0
model = getattr(widemargin, name)()
start = time.process_time()
model.fit(X, y)
fitted = time.process_time()
if hasattr(model, "loo_error"):
    model.loo_error()
print(json.dumps({"fit": fitted - start, "loo": time.process_time() - fitted}))
"""


def time_first_uses(names: Iterable[str], told: Any = lambda name: None) -> dict[str, Any]:
    """Return per estimator the processor seconds of compilation, and the files that it leaves."""
    found = {}
    for name in names:
        told(name)
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = (_first_use(name, cache) for _ in range(2))
            files = len(list(Path(cache).rglob("*.nbc")))
        found[name] = {"files": files, "cold": cold, "warm": warm}
        found[name] |= {what: cold[what] - warm[what] for what in ("fit", "loo")}
    return found


def _first_use(name: str, cache: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_USE, name],
        cwd=tempfile.gettempdir(),  # not the repository, whose folders would shadow the install
        env=os.environ | {"NUMBA_CACHE_DIR": cache},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def time_first_report() -> dict[str, float]:
    """Return the processor seconds of `widemargin report --demo`, first and second time."""
    with tempfile.TemporaryDirectory() as folder:
        cold, warm = (_report(folder) for _ in range(2))
    return {"cold": cold, "warm": warm, "compile": cold - warm}


def _report(folder: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "widemargin", "report", "--demo", "--output", "demo.html"],
        cwd=folder,
        env=os.environ | {"NUMBA_CACHE_DIR": str(Path(folder, "cache"))},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
