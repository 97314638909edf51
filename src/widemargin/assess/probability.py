r"""From decision values to probabilities that agree with the predictions.

One binary machine: f is a left-out decision value of weight w, and p(f) the probability of the
positive class. In the sigmoid method

    p(f) = 1 / (1 + exp(-a f)),   a = a_minus for f < 0,  a = a_plus for f > 0,

so p = 1/2 exactly where the machine changes its mind, and p > 1/2 if and only if it predicts the
positive class. A slope is fitted to the event "the machine is wrong", of probability
1 / (1 + exp(a u)) at u = abs(f). It minimises the weighted cross-entropy

    sum_i w_i [ log(1 + exp(a u_i)) - (1 - e_i) a u_i ]   over   a >= FLOOR / max(u)

where e_i is the target of that event. The targets are Platt's with a smaller correction: a row of
a class of weight N has e = c / (N + 2 c) where the machine is right and 1 minus that where it is
wrong. Platt has c = 1; PSEUDO_ROWS = 1/4 gave a lower log-loss on held-out rows, and any c > 0
keeps slopes finite where no row is wrong. The rows of the other side take part with a weight of
LENT_ROWS in all (or their own, if less): that draws the slopes together on small data, and a side
without rows has the slope of the other. Where the rows still speak against the machine, the slope
is the bound FLOOR / max(u), and p stays within 0.0025 of 1/2 on these rows.

The isotonic method is free of that shape. Interpolating log-odds between the centres of the blocks
(Oron and Flournoy) gave a lower log-loss than interpolating probabilities between the rows.

Several classes: pairwise probabilities are coupled by the second method of Wu, Lin and Weng, and
the result is moved by the least amount that makes the predicted class the likeliest one.

References
----------
J. Platt, Probabilities for SV machines, in Advances in Large Margin Classifiers, 2000.
H.-T. Lin, C.-J. Lin, R. Weng, A note on Platt's probabilistic outputs, Machine Learning 68, 2007.
T.-F. Wu, C.-J. Lin, R. Weng, Probability estimates for multi-class classification by pairwise
coupling, JMLR 5, 2004.
A. Oron, N. Flournoy, Centered isotonic regression, Stat. in Biopharm. Research 9, 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.isotonic import isotonic_regression

from widemargin._typing import BoolArray, FloatArray, IntArray
from widemargin._validation import require
from widemargin.problems.one_vs_one import predicted_class

PSEUDO_ROWS = 0.25
LENT_ROWS = 20.0
FLOOR = 0.01
SLOPE_TOL = 1e-12
MAX_STEPS = 1_000

SAME_LEVEL = 1e-12  # levels that differ by rounding errors are one block

LIMIT = 1e-15  # no probability is closer to 0 or 1, so that a log-loss is finite
HALF_STEP = 2.0**-53  # 1/2 + HALF_STEP is the next number above 1/2
STRICT = 1e-9  # relative distance of the predicted class from the next one after a projection
BLOCK_NUMBERS = 2**21  # entries of the matrices that coupling holds at a time


@dataclass(frozen=True, eq=False)
class Calibration:
    """The probability of the positive class as a function of the decision value.

    Attributes
    ----------
    method : str
        ``"sigmoid"`` or ``"isotonic"``.
    slope_minus, slope_plus : float
        Slopes of the sigmoid for negative and positive values (0 for the isotonic method).
    knots, log_odds : ndarray
        Decision values and the log-odds of the positive class there, between which the isotonic
        method interpolates (empty for the sigmoid method).

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.assess.probability import Calibration
    >>> nothing = np.zeros(0)
    >>> calibration = Calibration("sigmoid", 1.0, 2.0, nothing, nothing)
    >>> calibration.probability([-1.0, 0.0, 1.0]).round(3)
    array([0.269, 0.5  , 0.881])
    """

    method: str
    slope_minus: float
    slope_plus: float
    knots: FloatArray
    log_odds: FloatArray

    def probability(self, values: Any) -> FloatArray:
        """Return the probability of the positive class.

        Parameters
        ----------
        values : array-like
            Decision values, of any shape.

        Returns
        -------
        ndarray of the same shape
            Never decreasing in the value, strictly between 0 and 1, 1/2 at 0, above 1/2 for
            positive values and below for negative ones.
        """
        f = np.asarray(values, dtype=np.float64)
        if self.method == "isotonic":
            log_odds = np.interp(f, self.knots, self.log_odds)
        else:
            with np.errstate(over="ignore"):  # an infinite argument has the right limit
                log_odds = f * np.where(f > 0, self.slope_plus, self.slope_minus)
        return without_contradiction(expit(log_odds), f)


def without_contradiction(p: FloatArray, values: FloatArray) -> FloatArray:
    """Keep probabilities on the side of 1/2 that their decision values are on, and off 0 and 1."""
    lowest = np.where(values > 0, 0.5 + HALF_STEP, np.where(values < 0, LIMIT, 0.5))
    highest = np.where(values < 0, 0.5 - HALF_STEP, np.where(values > 0, 1 - LIMIT, 0.5))
    return np.asarray(np.clip(p, lowest, highest))


def against_rest(each: FloatArray, values: FloatArray) -> FloatArray:
    """Return the probabilities of the classes from those of machines of one class against the rest.

    Parameters
    ----------
    each : ndarray of shape (n_samples, n_machines)
        Probability that each machine gives to its class (one machine: the second of two).
    values : ndarray of the same shape
        The decision values that predict.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Rows that sum to 1; the largest entry is that of the predicted class.
    """
    if each.shape[1] == 1:
        second = without_contradiction(each[:, 0], values[:, 0])
        return np.column_stack([1.0 - second, second])
    shares = each / each.sum(axis=1, keepdims=True)
    return project_on_prediction(shares, predicted_class(values))


def check_calibration(method: str) -> None:
    """Refuse a calibration that does not exist."""
    require(method in ("sigmoid", "isotonic"), "calibration", method, '"sigmoid" or "isotonic"')


def fit_calibration(
    values: Any, positive: Any, weight: Any, method: str = "sigmoid"
) -> Calibration:
    """Calibrate the decision values of one binary machine.

    Parameters
    ----------
    values : array-like of shape (n_samples,)
        Decision values of rows that the machine has not seen, e.g. left-out ones.
    positive : array-like of bool, shape (n_samples,)
        Whether a row is of the positive class.
    weight : array-like of shape (n_samples,)
        How often a row counts.
    method : {"sigmoid", "isotonic"}
        A sigmoid with one slope for each sign of the value, or a free increasing function:
        log-odds that are 0 at 0 and follow the isotonic regression of each side, linear between
        the centres of its blocks (for some hundred rows and more).

    Returns
    -------
    Calibration
        The fitted function.

    Examples
    --------
    >>> from widemargin.assess.probability import fit_calibration
    >>> values = [-2.0, -1.0, -0.5, 0.5, 1.0, 2.0]
    >>> positive = [False, False, True, False, True, True]
    >>> calibration = fit_calibration(values, positive, [1.0] * 6)
    >>> calibration.probability([-1.0, 0.0, 3.0]).round(3)
    array([0.264, 0.5  , 0.956])
    """
    check_calibration(method)
    f = np.asarray(values, dtype=np.float64)
    w = np.asarray(weight, dtype=np.float64)
    is_positive = np.asarray(positive, dtype=bool)
    _check_rows(f, is_positive, w)
    # A value of 0 has probability 1/2 whatever the function.
    used = (w > 0) & (f != 0)
    target = _error_targets(f, is_positive, w)[used]
    f, is_positive, w = f[used], is_positive[used], w[used]
    if method == "isotonic":
        knots, log_odds = _fit_isotonic(f, is_positive, w)
        return Calibration("isotonic", 0.0, 0.0, knots, log_odds)
    minus = _side_slope(f, target, w, f < 0)
    plus = _side_slope(f, target, w, f > 0)
    return Calibration("sigmoid", minus, plus, np.zeros(0), np.zeros(0))


def _check_rows(f: FloatArray, positive: BoolArray, w: FloatArray) -> None:
    """Require three vectors of one length, finite values and weights that are not negative."""
    shapes = (f.shape, positive.shape, w.shape)
    good = f.ndim == 1 and shapes[0] == shapes[1] == shapes[2]
    require(good, "the shape of values, positive and weight", shapes, "(n_samples,) for all three")
    require(bool(np.isfinite(f).all()), "values", f, "finite numbers")
    require(bool((np.isfinite(w) & (w >= 0)).all()), "weight", w, "finite and not negative")


def _error_targets(f: FloatArray, positive: BoolArray, w: FloatArray) -> FloatArray:
    """Return each row's target of the event that the machine is wrong.

    The classes are counted over both sides: counting them on each side gave the same log-loss.
    """
    total = np.where(positive, w[positive].sum(), w[~positive].sum())
    rest = PSEUDO_ROWS / (total + 2 * PSEUDO_ROWS)
    return np.asarray(np.where(positive == (f > 0), rest, 1 - rest))


def _side_slope(f: FloatArray, target: FloatArray, w: FloatArray, side: BoolArray) -> float:
    """Return the slope of the rows of one side, helped by LENT_ROWS of the other."""
    if len(f) == 0:
        return FLOOR  # nothing is known, not even a scale
    other = w[~side].sum()
    lent = min(1.0, LENT_ROWS / other) if other > 0 else 0.0
    u = np.abs(f)
    scale = u.max()
    slope = _slope(u / scale, target, w * np.where(side, 1.0, lent))
    with np.errstate(over="ignore"):  # values below 1e-300
        return float(min(slope / scale, np.finfo(np.float64).max))


def _slope(u: FloatArray, e: FloatArray, w: FloatArray) -> float:
    """Minimise sum w [log(1 + exp(a u)) - (1 - e) a u] over a >= FLOOR, for u in [0, 1].

    The derivative, sum w u (e - 1 / (1 + exp(a u))), is concave and increasing in a. Newton's
    steps from below its root therefore stay below it and rise to it: no safeguard is needed.
    """
    slope = FLOOR
    for _ in range(MAX_STEPS):
        wrong = expit(-slope * u)
        derivative = w @ (u * (e - wrong))
        curvature = w @ (u * u * wrong * (1 - wrong))
        step = -derivative / curvature
        slope = max(slope + step, FLOOR)
        if step <= SLOPE_TOL * slope:  # at the root, or at the floor with a root below it
            break
    return float(slope)


def _fit_isotonic(
    f: FloatArray, positive: BoolArray, w: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return knots and the log-odds of the positive class there, through (0, 0)."""
    right = np.where(positive == (f > 0), 1.0, 0.0)
    sides = []
    for side in (f < 0, f > 0):
        rows = side if side.any() else ~side
        sides.append(_isotonic_side(np.abs(f[rows]), right[rows], w[rows]))
    (u_minus, odds_minus), (u_plus, odds_plus) = sides
    knots = np.concatenate([-u_minus[::-1], [0.0], u_plus])
    log_odds = np.concatenate([-odds_minus[::-1], [0.0], odds_plus])
    return knots, log_odds


def _isotonic_side(
    u: FloatArray, right: FloatArray, w: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the centres of the blocks of u and the log-odds of being right in each.

    The blocks are those of the isotonic regression under the bound 1/2. A level held over a whole
    block jumps between two neighbouring rows; the line through the centres of the blocks does
    not. A right and a wrong row of weight PSEUDO_ROWS are added at the largest value, so that no
    level is 1.
    """
    if len(u) == 0:
        return np.zeros(0), np.zeros(0)
    distinct, which = np.unique(u, return_inverse=True)
    total = np.bincount(which, weights=w)
    rights = np.bincount(which, weights=w * right)
    total[-1] += 2 * PSEUDO_ROWS
    rights[-1] += PSEUDO_ROWS
    # Clipping the free solution gives the solution under the bound.
    level = np.maximum(isotonic_regression(rights / total, sample_weight=total), 0.5)
    starts = np.flatnonzero(np.diff(level, prepend=-1.0) > SAME_LEVEL)
    centres = np.add.reduceat(total * distinct, starts) / np.add.reduceat(total, starts)
    return centres, logit(np.minimum(level[starts], 1 - LIMIT))


def couple(pairwise: Any, pairs: list[tuple[int, int]], n_classes: int) -> FloatArray:
    """Turn the probabilities of pairs of classes into probabilities of the classes.

    With r_ij the probability of class i among i and j, p minimises
    ``sum_{i,j} (r_ji p_i - r_ij p_j)^2`` over the p that sum to 1 (Wu, Lin and Weng, 2004,
    second method). The minimum is not negative, and is p = r for two classes.

    Parameters
    ----------
    pairwise : array-like of shape (n_samples, n_pairs)
        Probability of the first class of each pair.
    pairs : list of (int, int)
        The two classes of each column; every pair of classes once, in either order.
    n_classes : int
        Number of classes.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Positive rows that sum to 1.

    Examples
    --------
    >>> from widemargin.assess.probability import couple
    >>> couple([[0.9, 0.8, 0.5]], [(0, 1), (0, 2), (1, 2)], 3).round(3)
    array([[0.735, 0.102, 0.163]])
    """
    r = np.clip(np.asarray(pairwise, dtype=np.float64), LIMIT, 1 - LIMIT)
    known = {frozenset(pair) for pair in pairs}
    complete = len(pairs) == len(known) == n_classes * (n_classes - 1) // 2
    complete = complete and all(len(k) == 2 and max(k) < n_classes for k in known)
    require(complete, "pairs", pairs, f"every pair of the {n_classes} classes, once")
    fits = r.ndim == 2 and r.shape[1] == len(pairs)
    require(fits, "the shape of pairwise", r.shape, f"(n_samples, {len(pairs)})")
    p = np.empty((len(r), n_classes))
    if n_classes == 2:
        p[:, pairs[0][0]], p[:, pairs[0][1]] = r[:, 0], 1 - r[:, 0]
        return p
    size = max(1, BLOCK_NUMBERS // n_classes**2)
    for start in range(0, len(r), size):
        p[start : start + size] = _couple_block(r[start : start + size], pairs, n_classes)
    return p


def _couple_block(r: FloatArray, pairs: list[tuple[int, int]], n_classes: int) -> FloatArray:
    """Solve Q p = constant, Q_ii = sum_j r_ji^2, Q_ij = -r_ij r_ji, for some rows.

    Q p is a multiple of the vector of ones e, and so is (Q + e e') p. The second matrix is
    positive definite, so p is its solution for e, scaled to sum to 1.
    """
    matrix = np.ones((len(r), n_classes, n_classes))
    for k, (i, j) in enumerate(pairs):
        r_ij = r[:, k]
        r_ji = 1 - r_ij
        matrix[:, i, i] += r_ji**2
        matrix[:, j, j] += r_ij**2
        matrix[:, i, j] -= r_ij * r_ji
        matrix[:, j, i] -= r_ij * r_ji
    p = np.linalg.solve(matrix, np.ones((len(r), n_classes, 1)))[:, :, 0]
    p = np.maximum(p / p.sum(axis=1, keepdims=True), LIMIT)  # rounding may leave it below 0
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def project_on_prediction(P: Any, predicted: IntArray) -> FloatArray:
    """Return the nearest probabilities whose largest entry is the predicted class.

    The projection levels the predicted class with those above it, at the mean of as many of the
    largest as makes that mean largest; the levelled ones then give a relative 1e-9 to the
    predicted class, which makes it the only largest one.

    Parameters
    ----------
    P : array-like of shape (n_samples, n_classes)
        Probabilities, rows summing to 1.
    predicted : ndarray of int, shape (n_samples,)
        The predicted class of each row.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Rows that sum to 1 and have their only largest entry at the predicted class. Rows of P
        that have it there already are returned as they are.

    Examples
    --------
    >>> from widemargin.assess.probability import project_on_prediction
    >>> project_on_prediction([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]], [0, 1]).round(3)
    array([[0.5, 0.3, 0.2],
           [0.4, 0.4, 0.2]])
    """
    result = np.array(P, dtype=np.float64)
    chosen = np.asarray(predicted, dtype=np.intp)
    fits = result.ndim == 2 and chosen.shape == result.shape[:1]
    require(fits, "the shape of predicted", chosen.shape, f"(n_samples,) with P {result.shape}")
    own = np.take_along_axis(result, chosen[:, None], axis=1)
    rivals = result.copy()
    np.put_along_axis(rivals, chosen[:, None], -1.0, axis=1)
    wrong = np.flatnonzero(rivals.max(axis=1) >= own[:, 0])
    if len(wrong) == 0:
        return result
    # The mean of the predicted class and its m largest rivals rises as long as the next rival is
    # above it: its largest value over m is the level of the projection.
    rivals = np.sort(rivals[wrong], axis=1)[:, :0:-1]
    sums = np.cumsum(np.hstack([own[wrong], rivals]), axis=1)
    level = (sums / np.arange(1, sums.shape[1] + 1)).max(axis=1, keepdims=True)
    lowered = np.minimum(result[wrong], level * (1 - STRICT))
    np.put_along_axis(lowered, chosen[wrong, None], 0.0, axis=1)
    # What the others no longer have is the predicted class's: at least the level.
    rest = result[wrong].sum(axis=1, keepdims=True) - lowered.sum(axis=1, keepdims=True)
    np.put_along_axis(lowered, chosen[wrong, None], rest, axis=1)
    result[wrong] = lowered
    return result
