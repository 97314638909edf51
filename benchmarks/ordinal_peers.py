"""Data and candidates of the ordinal benchmark, and an independent pairwise objective.

mord, skordinal and statsmodels fit other models of the same ranks, so they are compared on the same
data by time and by preference risk on test samples. LinearSVC on explicit pairs solves the same
problem as OrdinalSVC, so its objective must agree with ours.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel

from benchmarks.data import SEED, MissingExtra
from benchmarks.measure import blas, timed
from benchmarks.peers import PEER_CACHE_MB

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

HINGE, SQUARED = "OrdinalSVC, hinge", "OrdinalSVC, squared hinge"
LOGIT = "CumulativeLinkClassifier"
MORD_AT, MORD_IT = "mord LogisticAT", "mord LogisticIT"
STATSMODELS = "statsmodels OrderedModel"
PAIRS_HINGE, PAIRS_SQUARED = "LinearSVC on pairs, hinge", "LinearSVC on pairs, squared hinge"
PAIRS_MATCHED = "LinearSVC on pairs, hinge, 2 epochs"
IMPLICIT, EXPLICIT = "skordinal SVOR implicit", "skordinal SVOR explicit"
REDSVM = "skordinal REDSVM"

LOSSES = {
    HINGE: "hinge",
    SQUARED: "squared_hinge",
    PAIRS_HINGE: "hinge",
    PAIRS_MATCHED: "hinge",
    PAIRS_SQUARED: "squared_hinge",
}
"""Loss of the candidates that solve the pairwise problem."""

TOLS = {HINGE: 1e-3, SQUARED: 1e-6}
"""Relative gaps required of ours: Newton's method attains more digits with the smooth loss."""

FRESH = 5_000  # test samples
PEER_C = 1.0  # of skordinal, per sample; ours is 10 / n per pair, with 0.4 n pairs per sample


@dataclass(frozen=True)
class Case:
    """An ordinal data set and the hyperparameters of its models.

    Attributes
    ----------
    name : str
        Name for the tables.
    X, y : array or CSR matrix, array
        Training samples and their ranks 0, 1, 2, ...
    fresh_X, fresh_y : array or CSR matrix, array
        Test samples and their ranks.
    C : float
        Cost of a pair.
    gamma : float or None
        Parameter of the Gaussian kernel; None is a linear model.
    link : str
        Link function of the cumulative models.
    """

    name: str
    X: Any
    y: IntArray
    fresh_X: Any
    fresh_y: IntArray
    C: float
    gamma: float | None = None
    link: str = "logit"

    @property
    def label(self) -> str:
        """Name of the case in tables and JSON."""
        rows, columns = self.X.shape
        return f"{self.name} {rows:,} x {columns:,}"


# -- data --------------------------------------------------------------------------------------


def ranks_of(utility: FloatArray, ranks: int = 5) -> IntArray:
    """Return ranks 0, 1, ... of equal frequency, by thresholds on the utility."""
    return np.searchsorted(np.quantile(utility, np.arange(1, ranks) / ranks), utility)


def graded(rows: int, columns: int = 20) -> Case:
    """Generate Gaussian samples ranked by a linear utility, with noise of half its deviation."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((rows + FRESH, columns))
    weights = rng.standard_normal(columns) / np.sqrt(columns)
    y = ranks_of(X @ weights + 0.5 * rng.standard_normal(len(X)))
    return Case("linear", X[:rows], y[:rows], X[rows:], y[rows:], 1.0 / rows)


def bent(rows: int) -> Case:
    """Generate Gaussian samples in five dimensions ranked by a nonlinear utility with noise."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((rows + FRESH, 5))
    utility = X[:, 0] * X[:, 1] + np.sin(2.0 * X[:, 2]) + X[:, 3]
    y = ranks_of(utility + 0.4 * rng.standard_normal(len(X)))
    return Case("curved", X[:rows], y[:rows], X[rows:], y[rows:], 10.0 / rows, gamma=0.2)


def graded_text(rows: int, columns: int, words: int = 60) -> Case:
    """Generate sparse l2-normalised documents by Zipf's law; a fifth of the words affect ranks."""
    rng = np.random.default_rng(SEED)
    total = rows + FRESH
    law = np.cumsum(1.0 / (np.arange(columns) + 50.0))
    word = np.searchsorted(law, law[-1] * rng.random(total * words))
    document = np.repeat(np.arange(total), words)
    X = sp.csr_matrix((np.ones(len(word)), (document, word)), shape=(total, columns))
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X = sp.csr_matrix(sp.diags(1.0 / lengths) @ X)
    X.sort_indices()
    weights = rng.standard_normal(columns) * (rng.random(columns) < 0.2)
    utility = X @ weights
    y = ranks_of(utility + 0.5 * utility.std() * rng.standard_normal(total))
    return Case("text", X[:rows], y[:rows], X[rows:], y[rows:], 100.0 / rows)


# -- candidates --------------------------------------------------------------------------------

Result = TypeVar("Result")


@dataclass(frozen=True)
class Fitted:
    """Result of a candidate: seconds, fitted model, and its utility function of samples."""

    seconds: float
    model: Any
    utility: Callable[[Any], FloatArray]


def fitted(case: Case, candidate: str) -> Fitted:
    """Fit one candidate once, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CANDIDATES[candidate](case)


def estimator(case: Case, candidate: str) -> Any:
    """Return an unfitted OrdinalSVC for a case."""
    from widemargin import OrdinalSVC

    kernel = {"kernel": "linear"} if case.gamma is None else {"gamma": case.gamma}
    return OrdinalSVC(C=case.C, loss=LOSSES[candidate], tol=TOLS[candidate], **kernel)


def _ours(case: Case, candidate: str) -> Fitted:
    model = estimator(case, candidate)
    seconds, _ = timed(lambda: model.fit(case.X, case.y))
    return Fitted(seconds, model, model.utility)


def _timed_peer(fit: Callable[[], Result]) -> tuple[float, Result]:
    """Time a peer that uses BLAS, with one thread and with all; the better time counts.

    For small products the synchronisation of threads can cost far more than it saves.
    """
    with blas().limit(limits=1):
        alone, _ = timed(fit)
    together, result = timed(fit)
    return min(alone, together), result


def _cumulative(case: Case) -> Fitted:
    """Fit CumulativeLinkClassifier without a penalty: statsmodels maximises the same likelihood."""
    from widemargin import CumulativeLinkClassifier

    model = CumulativeLinkClassifier(link=case.link, alpha=0.0)
    seconds, _ = timed(lambda: model.fit(case.X, case.y))
    return Fitted(seconds, model, model.utility)


def _statsmodels(case: Case) -> Fitted:
    """Fit statsmodels by BFGS, as in its documentation, without computing standard errors."""
    try:
        from scipy.stats import gumbel_l
        from statsmodels.miscmodels.ordinal_model import OrderedModel
    except ModuleNotFoundError as error:
        raise MissingExtra("statsmodels") from error
    distribution = gumbel_l if case.link == "cloglog" else case.link
    model = OrderedModel(case.y, case.X, distr=distribution)
    how = {"method": "bfgs", "maxiter": 1000, "gtol": 1e-8, "disp": False, "skip_hessian": True}
    seconds, result = _timed_peer(lambda: model.fit(**how))
    weights = np.asarray(result.params)[: case.X.shape[1]]
    return Fitted(seconds, result, lambda X: X @ weights)


def _mord(case: Case, name: str) -> Fitted:
    try:
        import mord
    except ModuleNotFoundError as error:
        raise MissingExtra("mord") from error
    model = getattr(mord, name)()
    seconds, _ = _timed_peer(lambda: model.fit(case.X, case.y))
    return Fitted(seconds, model, lambda X: X @ model.coef_)


def _skordinal(case: Case, name: str, **parameters: Any) -> Fitted:
    try:
        from skordinal import classifiers
    except ModuleNotFoundError as error:
        raise MissingExtra("skordinal") from error
    model = getattr(classifiers, name)(C=PEER_C, gamma=case.gamma, **parameters)
    seconds, _ = timed(lambda: model.fit(case.X, case.y))
    return Fitted(seconds, model, lambda X: np.asarray(model.predict_projection(X)).ravel())


def _linear_svc(case: Case, candidate: str) -> Fitted:
    """Fit LIBLINEAR to the differences of all pairs; the time excludes forming them.

    On 1,000 samples two epochs of its coordinate descent are the fewest that come within 1e-3 of
    the optimum, the gap required of ours. A user could not know this number. For a gap of 1e-6 its
    Newton method (squared hinge) needs the default tolerance.
    """
    from sklearn.svm import LinearSVC

    upper, lower = np.nonzero(case.y[:, None] > case.y[None, :])
    sign = np.where(np.arange(len(upper)) % 2, -1.0, 1.0)  # LinearSVC requires two classes
    differences = (case.X[upper] - case.X[lower]) * sign[:, None]
    epochs = 2 if candidate == PAIRS_MATCHED else 10_000
    how = {"fit_intercept": False, "max_iter": epochs, "random_state": SEED}
    model = LinearSVC(C=case.C, loss=LOSSES[candidate], **how)
    seconds, _ = timed(lambda: model.fit(differences, sign))
    return Fitted(seconds, model, lambda X: X @ model.coef_[0])


CANDIDATES: dict[str, Callable[[Case], Fitted]] = {
    HINGE: partial(_ours, candidate=HINGE),
    SQUARED: partial(_ours, candidate=SQUARED),
    LOGIT: _cumulative,
    STATSMODELS: _statsmodels,
    MORD_AT: partial(_mord, name="LogisticAT"),
    MORD_IT: partial(_mord, name="LogisticIT"),
    PAIRS_HINGE: partial(_linear_svc, candidate=PAIRS_HINGE),
    PAIRS_MATCHED: partial(_linear_svc, candidate=PAIRS_MATCHED),
    PAIRS_SQUARED: partial(_linear_svc, candidate=PAIRS_SQUARED),
    IMPLICIT: partial(_skordinal, name="SVOR", constraints="implicit"),
    EXPLICIT: partial(_skordinal, name="SVOR", constraints="explicit"),
    REDSVM: partial(_skordinal, name="REDSVM", cache_size=PEER_CACHE_MB),
}


# -- evaluation --------------------------------------------------------------------------------


def objective(case: Case, candidate: str, found: Fitted) -> float:
    """Recompute the pairwise objective of a model in float64: half its squared norm + C x loss.

    The implementation is independent of the library: for every two ranks, the utilities of one are
    sorted and those of the other are located among them.
    """
    squared = LOSSES[candidate] == "squared_hinge"
    total = pair_loss(found.utility(case.X), case.y, squared=squared)
    return 0.5 * _norm2(case, found.model) + case.C * total


def pair_loss(f: FloatArray, y: IntArray, *, squared: bool) -> float:
    """Sum max(0, 1 - (f_i - f_j)), or its square, over all pairs with y_i > y_j."""
    by_rank = [np.sort(f[y == rank]) for rank in np.unique(y)]
    return sum(
        _loss_between(high, low, squared=squared)
        for k, low in enumerate(by_rank)
        for high in by_rank[k + 1 :]
    )


def _loss_between(high: FloatArray, low: FloatArray, *, squared: bool) -> float:
    """Return the total loss over all pairs of a value of `high` and one of `low`, sorted."""
    wanted = 1.0 - high  # slack of a pair: wanted + low, where that is positive
    first = np.searchsorted(low, -wanted, side="right")
    count = len(low) - first
    sums = _tail_sums(low)[first]
    if not squared:
        return float(np.sum(count * wanted + sums))
    squares = _tail_sums(low**2)[first]
    return float(np.sum(count * wanted**2 + 2.0 * wanted * sums + squares))


def _tail_sums(values: FloatArray) -> FloatArray:
    """Return the sums of values[k:] for every k, followed by 0."""
    return np.append(np.cumsum(values[::-1])[::-1], 0.0)


def _norm2(case: Case, model: Any) -> float:
    if case.gamma is None:
        weights = np.ravel(model.coef_)
        return float(weights @ weights)
    beta = np.ravel(model.dual_coef_)
    return float(beta @ rbf_kernel(model.support_vectors_, gamma=case.gamma) @ beta)


def risk(case: Case, found: Fitted) -> float:
    """Return the fraction of test pairs that the utility puts in the wrong order."""
    from widemargin import metrics

    return metrics.preference_risk(case.fresh_y, found.utility(case.fresh_X), scaled=True)


def with_penalty(case: Case, C: float) -> Case:
    """Return the same data with another C."""
    return replace(case, name=f"{case.name}, C = {C:g},", C=C)
