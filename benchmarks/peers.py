"""Candidates: widemargin, scikit-learn (LIBSVM, LIBLINEAR) and scikit-learn-intelex (oneDAL).

Each function returns an unfitted estimator. The data are float64. The kernel SVMs have their
default tolerance, which is a KKT violation of 1e-3 for all of them, and the peers have a kernel
cache of 1,000 MB.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.data import MissingExtra

PEER_CACHE_MB = 1000

OURS = "widemargin"
SKLEARN = "scikit-learn"
INTELEX = "scikit-learn-intelex"


def ours_svc(C: float, gamma: float) -> Any:
    """Return widemargin's SVC with its defaults."""
    from widemargin import SVC

    return SVC(C=C, gamma=gamma)


def sklearn_svc(C: float, gamma: float) -> Any:
    """Return scikit-learn's SVC (LIBSVM)."""
    from sklearn.svm import SVC

    return SVC(C=C, gamma=gamma, cache_size=PEER_CACHE_MB)


def intelex_svc(C: float, gamma: float) -> Any:
    """Return scikit-learn-intelex's SVC (oneDAL), imported without patching scikit-learn."""
    try:
        from sklearnex.svm import SVC
    except ModuleNotFoundError as error:
        raise MissingExtra("scikit-learn-intelex") from error
    return SVC(C=C, gamma=gamma, cache_size=PEER_CACHE_MB)


def ours_linear(C: float, *, tol: float = 1e-3) -> Any:
    """Return widemargin's LinearSVC; its tol is the relative duality gap."""
    from widemargin import LinearSVC

    return LinearSVC(C=C, loss="hinge", tol=tol)


def liblinear(C: float, *, tol: float = 1e-4, max_iter: int = 1000) -> Any:
    """Return LIBLINEAR's dual coordinate descent, which regularises the intercept."""
    from sklearn.svm import LinearSVC

    return LinearSVC(C=C, loss="hinge", dual=True, tol=tol, max_iter=max_iter, random_state=0)


SVC_PEERS: dict[str, Callable[[float, float], Any]] = {
    OURS: ours_svc,
    INTELEX: intelex_svc,
    SKLEARN: sklearn_svc,
}
"""Kernel SVMs by name: (C, gamma) -> an unfitted estimator."""
