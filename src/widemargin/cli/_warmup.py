"""Compilation of all numba kernels ahead of the first fit (``widemargin warmup``)."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

# Small problems are solved in float64 throughout, large ones use float32 to choose steps: both
# variants must be compiled.
SMALL, LARGE = 60, 2000


def warm_up() -> Iterator[tuple[str, float]]:
    """Fit each estimator on easy problems of each kind of input; yield its name and seconds.

    The compiled code depends on the estimator, the precision, the sparsity of the data and the size
    of the problem.
    """
    from sklearn.utils import get_tags

    import widemargin as wm

    # Slow on many samples, where they run no other loops.
    slow = (wm.TubeSVR, wm.ReducedHullSVC, wm.MaxMarginClassifier, wm.RBFNetClassifier)
    for machine in _machines():
        started = time.perf_counter()
        formats = (False, True) if get_tags(machine).input_tags.sparse else (False,)
        sizes = (SMALL,) if isinstance(machine, slow) else (SMALL, LARGE)
        kinds = itertools.product(sizes, ("float32", "float64"), formats)
        for n_rows, dtype, sparse in kinds:
            _fit_and_evaluate(machine, n_rows, dtype, sparse=sparse)
        yield repr(machine).removesuffix("()"), time.perf_counter() - started
    started = time.perf_counter()
    _prove()
    yield "certificates", time.perf_counter() - started


def _machines() -> list[Any]:
    import widemargin as wm

    return [
        wm.SVC(),
        wm.SVC(loss="squared_hinge"),
        wm.SVC(kernel="poly"),
        wm.SVC(solver="adatron", max_iter=2),
        wm.SVC(solver="sampling"),
        wm.NuSVC(),
        wm.SVR(),
        wm.NuSVR(),
        wm.OneClassSVM(),
        wm.LinearSVC(loss="hinge"),
        wm.LinearSVC(),
        wm.LinearSVC(loss="hinge", solver="sampling"),
        wm.LinearSVR(),
        wm.TubeSVR(),
        wm.ReducedHullSVC(),
        wm.ReducedHullSVC(kernel="rbf"),
        wm.OrdinalSVC(),
        wm.OrdinalSVC(loss="squared_hinge"),
        wm.OrdinalSVC(kernel="linear"),
        wm.OrdinalSVC(kernel="linear", norm=1),
        wm.CumulativeLinkClassifier(),
        wm.LOOSVC(),
        wm.LPSVC(kernel="poly"),
        wm.NuLPSVC(),
        wm.MaxMarginClassifier(norm=1),
        wm.MaxMarginClassifier(norm=1.5),
        wm.PerceptronClassifier(max_iter=2),
        wm.PerceptronClassifier(kernel="rbf", max_iter=2),
        wm.MeanFieldGPClassifier(),
        wm.GPRegressor(),
        wm.AdaBoostClassifier(5),
        wm.AdaBoostClassifier(5, binning="histogram"),
        wm.LPBoostClassifier(nu=0.5),
        wm.RBFNetClassifier(n_steps=1),
    ]


def _prove() -> None:
    """Compute sums of kernel values in more digits, which only ill-conditioned fits need."""
    from scipy.sparse import csr_array

    from widemargin.kernels import Kernel, Rows
    from widemargin.kernels.sums import enclosed_diagonal, enclosed_sum

    X, at = np.random.default_rng(0).normal(size=(SMALL, 2)), np.arange(SMALL)
    for kernel in (Kernel("linear"), Kernel("rbf", gamma=1.0), Kernel("poly", gamma=1.0, degree=2)):
        for samples in (X, X.astype("float32"), csr_array(X)):
            rows = Rows(kernel, samples)
            enclosed_sum(rows, at, at, np.ones(SMALL), precise=True)
            enclosed_diagonal(rows, at, precise=True)


def _fit_and_evaluate(machine: Any, n_rows: int, dtype: str, *, sparse: bool) -> None:
    from scipy.sparse import csr_array
    from sklearn.base import clone, is_classifier

    import widemargin as wm

    rng = np.random.default_rng(0)
    X: Any = rng.normal(size=(n_rows, 2)).astype(dtype)
    y = X[:, 0] + 0.1 * rng.normal(size=n_rows)
    if isinstance(machine, wm.OrdinalSVC | wm.CumulativeLinkClassifier):
        y = np.digitize(y, [-0.5, 0.5])
    elif isinstance(machine, wm.MaxMarginClassifier):
        y = X[:, 0] > 0  # separable
    elif is_classifier(machine):
        y = y > 0
    X = csr_array(X) if sparse else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the quality of the fit does not matter
        fitted = clone(machine).fit(X, y)
        fitted.predict(X)
        _ = getattr(fitted, "certificate_", None)  # computed when it is first read
        for evaluate in ("predict_proba", "loo_error") if n_rows == SMALL else ():
            if hasattr(fitted, evaluate):
                with suppress(ValueError):  # some options have none
                    getattr(fitted, evaluate)(*(() if evaluate == "loo_error" else (X,)))
