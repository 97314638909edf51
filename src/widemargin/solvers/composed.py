r"""OptMargin_Composed (Balcázar et al. 2008, Fig. 2): margins of composed examples, for study.

Problem (P5): a *composed example* is the mean of k rows of one class; separate them by the
widest margin,

.. math::

    \min_{w, \eta} \; \tfrac12 |w|^2 - (\eta_+ - \eta_-) \quad\text{s.t.}\quad
    w \cdot z_I \ge \eta_+ \; (y_I = 1), \quad w \cdot z_I \le \eta_- \; (y_I = -1) .

Its w is that of P2 with D = 1/k. The number of composed examples grows like m^k, which is why the
paper goes on to OptSoftMargin (:func:`widemargin.solvers.sampling.opt_soft_margin`), where they are
never formed. This module forms those of the sample, so that the two can be compared; use it on
small data only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from widemargin._typing import FloatArray, IntArray
from widemargin.solvers._sampling_state import NO_MARGIN, TOL, NotSeparable, basis_size
from widemargin.solvers._sampling_tasks import shares
from widemargin.solvers.band_qp import solve_band

MOST_COMPOSED = 20_000  # composed examples of a sample


@dataclass(frozen=True)
class ComposedResult:
    """A plane between composed examples.

    Attributes
    ----------
    coef : ndarray of shape (n_features,)
        w.
    cuts : ndarray of shape (2,)
        eta_plus and eta_minus: where the nearest points of the reduced hulls are.
    thresholds : ndarray of shape (2,)
        theta_plus and theta_minus, the k-th row of each class.
    rounds : int
        Rounds of the algorithm.
    composed : int
        Composed examples of the last sample.
    """

    coef: FloatArray
    cuts: FloatArray
    thresholds: FloatArray
    rounds: int
    composed: int


def opt_margin_composed(
    X: FloatArray,
    y: FloatArray,
    k: int,
    *,
    sample_size: int | None = None,
    seed: int = 0,
    max_rounds: int = 1000,
) -> ComposedResult:
    """Separate composed examples by the widest margin, as Fig. 2 has it.

    One thing differs: weights are doubled in every round, also where the violators weigh too
    much for the proof, for with samples that can be afforded they always would.

    Parameters
    ----------
    X : ndarray of shape (m, n_features)
        Rows.
    y : ndarray of shape (m,)
        Labels -1 and +1.
    k : int
        Rows of a composed example.
    sample_size : int, optional
        Draws of a round. The paper's 6 delta^2 rows have far too many composed examples; by
        default as many draws as can be afforded.
    seed, max_rounds : int
        Seed of the draws; largest number of rounds.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.solvers.composed import opt_margin_composed
    >>> X = np.array([[0.0], [1.0], [2.0], [4.0], [6.0], [8.0]])
    >>> y = np.array([-1.0, -1.0, -1.0, 1.0, 1.0, 1.0])
    >>> found = opt_margin_composed(X, y, k=2)
    >>> found.coef.round(9), found.cuts.round(9)  # between the means 1.5 and 5
    (array([3.5]), array([17.5 ,  5.25]))
    """
    classes = [np.flatnonzero(y > 0), np.flatnonzero(y < 0)]
    smaller = min(len(rows) for rows in classes)
    if not 1 <= k <= smaller:
        raise ValueError(f"k={k} must be between 1 and {smaller}, the rows of the smaller class")
    delta = basis_size(X.shape[1], k)
    size = sample_size or min(6 * delta * delta, _affordable(k))
    rng = np.random.default_rng(seed)
    exponents = np.zeros(len(y), dtype=np.intp)
    for number in range(1, max_rounds + 1):
        rows = _draw(rng, exponents, size, classes, k)
        points, labels = _composed(X, y, rows, k)
        w, eta = _widest_margin(points, labels, k)
        margin = TOL * float(np.linalg.norm(w)) * _spread(X)
        if not _misclassifies(X @ w, classes, k, eta, margin):
            return ComposedResult(w, eta, _thresholds(X @ w, classes, k), number, len(labels))
        violators = _violators(X @ w, y, rows, k, eta, margin)
        exponents[violators] += 1
    raise RuntimeError(
        f"no optimum after max_rounds={max_rounds} rounds: allow more, or more draws"
    )


def _affordable(k: int) -> int:
    """Return the largest sample whose composed examples can be formed, whatever its classes."""
    size = k
    while math.comb(size + 1, k) <= MOST_COMPOSED and size < MOST_COMPOSED:
        size += 1
    return size


def _draw(
    rng: np.random.Generator, exponents: IntArray, size: int, classes: list[IntArray], k: int
) -> IntArray:
    """Draw rows by weight 2^e; copies are merged, and each class has k rows at least."""
    if size >= len(exponents):
        return np.arange(len(exponents))
    levels = shares(np.bincount(exponents))
    of_level = np.bincount(exponents)
    p = levels[exponents] / of_level[exponents]
    rows = rng.choice(len(exponents), size=size, p=p / p.sum())
    for members in classes:
        if len(np.intersect1d(rows, members)) < k:
            rows = np.concatenate([rows, rng.choice(members, size=k, replace=False)])
    return np.unique(rows)


def _composed(
    X: FloatArray, y: FloatArray, rows: IntArray, k: int
) -> tuple[FloatArray, FloatArray]:
    """Return P_k of the sample: the means of all k of its rows of one class, and their labels."""
    points, labels = [], []
    for label in (1.0, -1.0):
        members = rows[y[rows] == label]
        number = math.comb(len(members), k)
        if number > MOST_COMPOSED:
            raise ValueError(
                f"{len(members)} sampled rows of a class have {number} composed examples of k={k}, "
                f"more than {MOST_COMPOSED}: use a smaller sample_size or opt_soft_margin"
            )
        groups = np.array(list(combinations(members, k)), dtype=np.intp)
        points.append(X[groups].mean(axis=1))
        labels.append(np.full(number, label))
    return np.concatenate(points), np.concatenate(labels)


def _widest_margin(points: FloatArray, labels: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
    """Solve P5: P1 for composed examples."""
    centre = points.mean(axis=0)
    Z = (points - centre) * labels[:, None]
    E = np.stack([-(labels > 0).astype(np.float64), (labels < 0).astype(np.float64)], axis=1)
    number, n = points.shape
    ends = np.array([-1.0, 1.0])
    found = solve_band(Z, E, ends, np.zeros(number), np.ones(number), np.zeros(n))
    if float(np.linalg.norm(found.w)) <= NO_MARGIN * _spread(points):
        raise NotSeparable(f"k={k} is too small: composed examples of a sample cannot be separated")
    g = points @ found.w
    return found.w, np.array([g[labels > 0].min(), g[labels < 0].max()])


def _misclassifies(
    g: FloatArray, classes: list[IntArray], k: int, eta: FloatArray, tol: float
) -> bool:
    """Tell whether any composed example is on the wrong side: the mean of the k worst rows is."""
    positives, negatives = (np.sort(g[rows]) for rows in classes)
    return bool(positives[:k].mean() < eta[0] - tol or negatives[-k:].mean() > eta[1] + tol)


def _violators(
    g: FloatArray, y: FloatArray, rows: IntArray, k: int, eta: FloatArray, tol: float
) -> IntArray:
    """Rows that make a misclassified composed example with k - 1 rows of the sample."""
    sampled = np.zeros(len(y), dtype=bool)
    sampled[rows] = True
    found = []
    for label, cut in ((1.0, eta[0]), (-1.0, -eta[1])):
        signed = label * g
        companions = np.sort(signed[sampled & (y == label)])[: k - 1].sum()
        wrong = (signed + companions) / k < cut - tol
        found.append(np.flatnonzero(wrong & (y == label) & ~sampled))
    return np.concatenate(found)


def _thresholds(g: FloatArray, classes: list[IntArray], k: int) -> FloatArray:
    """Return theta from w: the k-th smallest w.x of the positives, largest of the negatives."""
    positives, negatives = (np.sort(g[rows]) for rows in classes)
    return np.array([positives[k - 1], negatives[-k]])


def _spread(X: FloatArray) -> float:
    """Return the root mean square distance of the rows from their mean."""
    return math.sqrt(float(X.var(axis=0).sum()))
