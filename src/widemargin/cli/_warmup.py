"""Compilation of all numba kernels ahead of the first fit (``widemargin warmup``)."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

# Small problems are solved in float64 throughout, large ones use float32 to choose steps: both
# variants must be compiled.
SIZES = (60, 2000)


def warm_up() -> Iterator[tuple[str, float]]:
    """Fit each estimator on easy problems of each kind of input; yield its name and seconds.

    The compiled code depends on the estimator, the precision, the sparsity of the data and the size
    of the problem.
    """
    for machine in _machines():
        started = time.perf_counter()
        kinds = itertools.product(SIZES, ("float32", "float64"), (False, True))
        for n_rows, dtype, sparse in kinds:
            _fit_and_predict(machine, n_rows, dtype, sparse=sparse)
        yield _name(machine), time.perf_counter() - started


def _machines() -> list[Any]:
    import widemargin as wm

    return [
        wm.SVC(),
        wm.SVC(loss="squared_hinge"),
        wm.NuSVC(),
        wm.SVR(),
        wm.NuSVR(),
        wm.LinearSVC(loss="hinge"),
        wm.LinearSVC(),
        wm.LinearSVR(),
        wm.LOOSVC(),
        wm.NuLPSVC(),
        wm.PerceptronClassifier(max_iter=2),
        wm.PerceptronClassifier(kernel="rbf", max_iter=2),
        wm.AdaBoostClassifier(5),
        wm.LPBoostClassifier(nu=0.5),
    ]


def _fit_and_predict(machine: Any, n_rows: int, dtype: str, *, sparse: bool) -> None:
    from scipy.sparse import csr_array
    from sklearn.base import clone, is_classifier

    rng = np.random.default_rng(0)
    X: Any = rng.normal(size=(n_rows, 2)).astype(dtype)
    y = X[:, 0] + 0.1 * rng.normal(size=n_rows)
    if is_classifier(machine):
        y = y > 0
    X = csr_array(X) if sparse else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the quality of the fit does not matter
        clone(machine).fit(X, y).predict(X)


def _name(machine: Any) -> str:
    loss = getattr(machine, "loss", "hinge")
    details = [] if loss == "hinge" else [loss.replace("_", " ")]
    if type(machine).__name__ == "PerceptronClassifier" and machine.kernel is not None:
        details.append("kernel")
    return type(machine).__name__ + (f" ({', '.join(details)})" if details else "")
