r"""Calibrate binary decision values to probabilities that agree with the predicted class.

Let f be the leave-one-out decision value of a sample of weight w, and p(f) the probability of the
positive class. The sigmoid method has one slope per sign of f,

    p(f) = 1 / (1 + exp(-a f)),   a = a_minus for f < 0,  a = a_plus for f > 0,

so that p(0) = 1/2, and p > 1/2 if and only if the positive class is predicted. A slope is fitted
to the event that the prediction is wrong, which has the probability 1 / (1 + exp(a u)) at
u = abs(f). It minimises the weighted cross-entropy

    sum_i w_i [ log(1 + exp(a u_i)) - (1 - e_i) a u_i ]   over   a >= FLOOR / max(u)

where e_i is the target of that event. The targets are Platt's with a smaller correction: a sample
of a class of total weight N has e = c / (N + 2 c) if its prediction is right, and 1 minus that if
it is wrong. Platt has c = 1; c = PSEUDO_ROWS = 1/4 gave a lower log-loss on held-out samples, and
any c > 0 keeps the slope finite if no sample is misclassified. The samples of the other sign enter
with a total weight of at most LENT_ROWS. This shrinks the two slopes towards each other on small
data, and a sign without samples gets the slope of the other one. If most predictions are wrong,
the slope is at its lower bound FLOOR / max(u), and p is within 0.0025 of 1/2 on these samples.

The isotonic method assumes monotonicity only. Interpolating log-odds between the block centres
(Oron and Flournoy) gave a lower log-loss than interpolating probabilities between the samples.

For more than two classes see :mod:`widemargin.fitted.coupling`.

References
----------
J. Platt, Probabilities for SV machines, in Advances in Large Margin Classifiers, 2000.
H.-T. Lin, C.-J. Lin, R. Weng, A note on Platt's probabilistic outputs, Machine Learning 68, 2007.
A. Oron, N. Flournoy, Centered isotonic regression, Stat. in Biopharm. Research 9, 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.isotonic import isotonic_regression

from widemargin._base.typing import BoolArray, FloatArray
from widemargin._base.validation import check_calibration, require

PSEUDO_ROWS = 0.25
LENT_ROWS = 20.0
FLOOR = 0.01
SLOPE_TOL = 1e-12
MAX_STEPS = 1_000

SAME_LEVEL = 1e-12  # levels that differ by rounding errors belong to the same block

LIMIT = 1e-15  # distance of probabilities from 0 and 1, so that the log-loss is finite
HALF_STEP = 2.0**-53  # 1/2 + HALF_STEP is the next number above 1/2


@dataclass(frozen=True, eq=False)
class Calibration:
    """Probability of the positive class as a function of the decision value.

    Attributes
    ----------
    method : str
        ``"sigmoid"`` or ``"isotonic"``.
    slope_minus, slope_plus : float
        Slopes of the sigmoid for negative and positive values (0 for the isotonic method).
    knots, log_odds : ndarray
        Decision values and the log-odds of the positive class at them, between which the isotonic
        method interpolates linearly (empty for the sigmoid method).

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.fitted.calibration import Calibration
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
            Nondecreasing in the decision value, strictly between 0 and 1, equal to 1/2 at 0, above
            1/2 for positive values and below for negative ones.
        """
        f = np.asarray(values, dtype=np.float64)
        if self.method == "isotonic":
            log_odds = np.interp(f, self.knots, self.log_odds)
        else:
            with np.errstate(over="ignore"):  # an infinite argument has the right limit
                log_odds = f * np.where(f > 0, self.slope_plus, self.slope_minus)
        return without_contradiction(expit(log_odds), f)


def uninformed() -> Calibration:
    """Return the calibration of decision values without information: 1/2 but for their sign."""
    return Calibration("sigmoid", 0.0, 0.0, np.zeros(0), np.zeros(0))


def without_contradiction(p: FloatArray, values: FloatArray) -> FloatArray:
    """Clip probabilities to (0, 1), and to the side of 1/2 that the decision value is on."""
    lowest = np.where(values > 0, 0.5 + HALF_STEP, np.where(values < 0, LIMIT, 0.5))
    highest = np.where(values < 0, 0.5 - HALF_STEP, np.where(values > 0, 1 - LIMIT, 0.5))
    return np.asarray(np.clip(p, lowest, highest))


def fit_calibration(
    values: Any, positive: Any, weight: Any, method: str = "sigmoid"
) -> Calibration:
    """Calibrate the decision values of a binary classifier.

    Parameters
    ----------
    values : array-like of shape (n_samples,)
        Decision values of samples that the classifier was not fitted to, e.g. leave-one-out
        decision values.
    positive : array-like of bool, shape (n_samples,)
        Whether a sample belongs to the positive class.
    weight : array-like of shape (n_samples,)
        Sample weights.
    method : {"sigmoid", "isotonic"}
        A sigmoid with one slope per sign of the decision value, or isotonic regression of each
        sign, with log-odds that are 0 at 0 and linear between the block centres (for some hundred
        samples and more).

    Returns
    -------
    Calibration
        The fitted function.

    Examples
    --------
    >>> from widemargin.fitted.calibration import fit_calibration
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
    shapes = (f.shape, is_positive.shape, w.shape)
    good = f.ndim == 1 and shapes[0] == shapes[1] == shapes[2]
    require(good, "the shape of values, positive and weight", shapes, "(n_samples,) for all three")
    require(bool(np.isfinite(f).all()), "values", f, "finite numbers")
    require(bool((np.isfinite(w) & (w >= 0)).all()), "weight", w, "finite and not negative")
    # A decision value of 0 has probability 1/2 for every calibration.
    used = (w > 0) & (f != 0)
    # Target of the event that the prediction is wrong. The class totals include both signs of f;
    # totals per sign gave the same log-loss.
    total = np.where(is_positive, w[is_positive].sum(), w[~is_positive].sum())
    rest = PSEUDO_ROWS / (total + 2 * PSEUDO_ROWS)
    target = np.where(is_positive == (f > 0), rest, 1 - rest)[used]
    f, is_positive, w = f[used], is_positive[used], w[used]
    if method == "isotonic":
        knots, log_odds = _fit_isotonic(f, is_positive, w)
        return Calibration("isotonic", 0.0, 0.0, knots, log_odds)
    minus = _side_slope(f, target, w, f < 0)
    plus = _side_slope(f, target, w, f > 0)
    return Calibration("sigmoid", minus, plus, np.zeros(0), np.zeros(0))


def _side_slope(f: FloatArray, target: FloatArray, w: FloatArray, side: BoolArray) -> float:
    """Return the slope for one sign, with up to LENT_ROWS of weight from the other."""
    if len(f) == 0:
        return FLOOR  # there are no data, not even a scale of the values
    other = w[~side].sum()
    lent = min(1.0, LENT_ROWS / other) if other > 0 else 0.0
    u = np.abs(f)
    scale = u.max()
    slope = _slope(u / scale, target, w * np.where(side, 1.0, lent))
    with np.errstate(over="ignore"):  # the quotient overflows for values below 1e-300
        return float(min(slope / scale, np.finfo(np.float64).max))


def _slope(u: FloatArray, e: FloatArray, w: FloatArray) -> float:
    """Minimise sum w [log(1 + exp(a u)) - (1 - e) a u] over a >= FLOOR, for u in [0, 1].

    The derivative, sum w u (e - 1 / (1 + exp(a u))), is concave and increasing in a. Newton
    iterates that start below its root therefore increase monotonically to it, without a line
    search.
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
    """Return the knots and the log-odds of the positive class at them, including (0, 0)."""
    right = np.where(positive == (f > 0), 1.0, 0.0)
    sides = []
    for side in (f < 0, f > 0):
        rows = side if side.any() else ~side  # without samples, mirror the other sign
        sides.append(_isotonic_side(np.abs(f[rows]), right[rows], w[rows]))
    (u_minus, odds_minus), (u_plus, odds_plus) = sides
    knots = np.concatenate([-u_minus[::-1], [0.0], u_plus])
    log_odds = np.concatenate([-odds_minus[::-1], [0.0], odds_plus])
    return knots, log_odds


def _isotonic_side(
    u: FloatArray, right: FloatArray, w: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the block centres of u and the log-odds of a right prediction in each block.

    The blocks are those of the isotonic regression with levels of at least 1/2. A piecewise
    constant function would jump between blocks; the line through the block centres is continuous.
    A right and a wrong prediction of weight PSEUDO_ROWS are added at the largest value, so that
    every level is below 1.
    """
    if len(u) == 0:
        return np.zeros(0), np.zeros(0)
    distinct, which = np.unique(u, return_inverse=True)
    total = np.bincount(which, weights=w)
    rights = np.bincount(which, weights=w * right)
    total[-1] += 2 * PSEUDO_ROWS
    rights[-1] += PSEUDO_ROWS
    # Clipping the unconstrained isotonic regression solves the one with the lower bound.
    level = np.maximum(isotonic_regression(rights / total, sample_weight=total), 0.5)
    starts = np.flatnonzero(np.diff(level, prepend=-1.0) > SAME_LEVEL)
    centres = np.add.reduceat(total * distinct, starts) / np.add.reduceat(total, starts)
    return centres, logit(np.minimum(level[starts], 1 - LIMIT))
