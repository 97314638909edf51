"""Validation of parameters and of (X, y, sample_weight), and the canonical order of samples.

Error messages name the argument, its value and a fix; they are raised before any kernel value is
computed.
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import OutlierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from widemargin._base.double_double import U
from widemargin._base.multiclass import class_codes
from widemargin._base.plain import is_plain, is_plain_target, remember_features
from widemargin._base.typing import FloatArray, IntArray, Matrix

CANONICAL_ROWS = 5_000
SMALLEST_ENTRY, LARGEST_ENTRY = 1e-100, 1e50  # products of a few squares stay within float64
FAR_FROM_ALL_LIMITS = 1e-20, 1e20  # a sum of squares in this range rules out entries beyond them


def require(condition: bool, name: str, value: object, fix: str) -> None:
    """Raise a ValueError with the parameter, its value and the fix unless the condition holds."""
    if not condition:
        raise ValueError(f"{name} must be {fix}; got {name}={value!r}")


def require_number(
    name: str,
    value: Any,
    fix: str,
    *,
    above: float = 0.0,
    least: float | None = None,
    most: float = np.inf,
) -> None:
    """Require a finite real number > `above` (or >= `least` if given) and <= `most`."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    good = real and bool(np.isfinite(float(value)))
    good = good and bool(value > above if least is None else value >= least)
    require(good and bool(value <= most), name, value, fix)


def require_cost(C: Any) -> None:
    """Require a cost of slack: a positive number, or infinity for none."""
    real = isinstance(C, numbers.Real) and not isinstance(C, bool)
    if not (real and C > 0 and np.isinf(float(C))):
        require_number("C", C, "a positive number, or np.inf to allow no slack")


def require_integer(name: str, value: Any, fix: str, *, least: int = 1) -> None:
    """Require an integer of at least `least`."""
    good = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    require(good and value >= least, name, value, fix)


def require_budget(max_iter: Any, time_limit: Any, *, default: bool = False) -> None:
    """Validate max_iter and time_limit; with `default`, max_iter=-1 is accepted."""
    if default and isinstance(max_iter, numbers.Integral) and max_iter == -1:
        max_iter = 1
    fix = "a positive integer" + (", or -1 for the default budget" if default else "")
    require_integer("max_iter", max_iter, fix)
    require_time_limit(time_limit)


def require_time_limit(time_limit: Any) -> None:
    """Require a positive number of seconds, or None."""
    if time_limit is not None:
        require_number("time_limit", time_limit, "a positive number of seconds or None")


def require_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Require one of the given strings."""
    words = [f'"{choice}"' for choice in choices]
    fix = " or ".join([", ".join(words[:-1]), words[-1]])
    require(isinstance(value, str) and value in choices, name, value, fix)


def check_calibration(method: Any) -> None:
    """Require the name of a calibration method."""
    require_choice("calibration", method, ("sigmoid", "isotonic"))


def require_bool(name: str, value: Any) -> None:
    """Require True or False."""
    require(isinstance(value, bool | np.bool_), name, value, "True or False")


def seed_of(random_state: Any) -> int:
    """Return a seed for numpy's Generator; None gives a fixed seed, so that fits are repeatable."""
    if random_state is None:
        return 0
    if isinstance(random_state, numbers.Integral):
        require(int(random_state) >= 0, "random_state", random_state, "a seed, not negative")
        return int(random_state)
    try:
        generator = check_random_state(random_state)
    except ValueError:
        fix = "None, a seed or a numpy RandomState"
        require(False, "random_state", random_state, fix)
    return int(generator.randint(2**31 - 1))


def check_X(estimator: Any, X: Any, *, accept_sparse: bool = True) -> Matrix:
    """Validate X for prediction; float32 is not converted to float64."""
    known = vars(estimator)
    # If the estimator has feature names, scikit-learn warns that X has none.
    unnamed = "feature_names_in_" not in known
    if unnamed and is_plain(X) and known.get("n_features_in_") == X.shape[1]:
        return X
    with np.errstate(invalid="ignore"):  # scikit-learn sums X first; inf - inf is rejected later
        X = validate_data(
            estimator,
            X,
            reset=False,
            accept_sparse="csr" if accept_sparse else False,
            dtype=(np.float64, np.float32),
            order="C",
        )
    return _canonical_csr(X) if sp.issparse(X) else X


def check_fit(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    numeric: bool,
    accept_sparse: bool = True,
    any_labels: bool = False,
) -> tuple[Matrix, Any, FloatArray]:
    """Validate the arguments of fit; return X, y and the weights (ones by default).

    With any_labels, real-valued labels are accepted, too. If y is None, which scikit-learn accepts
    for estimators without a target only, ones are returned.
    """
    checked: Any
    unneeded = y is None and isinstance(estimator, OutlierMixin)
    if is_plain(X) and (unneeded or is_plain_target(y, len(X), numeric or any_labels)):
        remember_features(estimator, X)
        if sample_weight is None:
            return X, np.ones(len(X)) if y is None else y, np.ones(len(X))
        checked = X if y is None else (X, y)
    else:
        checked = _validated(estimator, X, y, numeric=numeric, accept_sparse=accept_sparse)
        if y is not None and not (numeric or any_labels):
            check_classification_targets(checked[1])
    X, y = (checked, np.ones(checked.shape[0])) if y is None else checked
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weight.any():
        raise ValueError("sample_weight must have a positive entry; all weights are zero")
    return (_canonical_csr(X) if sp.issparse(X) else X), y, weight


def _validated(estimator: Any, X: Any, y: Any, *, numeric: bool, accept_sparse: bool) -> Any:
    """Validate X, or X and y, by scikit-learn."""
    with np.errstate(invalid="ignore"):  # as in check_X
        return validate_data(
            estimator,
            X,
            y,
            accept_sparse="csr" if accept_sparse else False,
            dtype=(np.float64, np.float32),
            order="C",
            **({} if y is None else {"y_numeric": numeric}),
        )


def check_scale(
    X: Matrix, smallest: float = SMALLEST_ENTRY, largest_entry: float = LARGEST_ENTRY
) -> None:
    """Raise if squares of the entries of X would overflow or underflow."""
    values = X.data if sp.issparse(X) else X
    flat = values.ravel()
    with np.errstate(over="ignore", under="ignore"):
        squares = float(np.einsum("i,i->", flat, flat))  # BLAS would start threads
    if FAR_FROM_ALL_LIMITS[0] < squares < FAR_FROM_ALL_LIMITS[1]:
        return  # one dot product settles nearly all data sets
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if largest > 0 and not smallest <= largest <= largest_entry:
        raise ValueError(
            f"X has entries of at most {largest:.1e}, too {'small' if largest < 1 else 'large'} to "
            "compute with: scale the features (e.g. with StandardScaler)"
        )


def _canonical_csr(X: Any) -> Any:
    """Return X with sorted indices, without duplicates and explicit zeros; copy only if needed."""
    if not X.has_canonical_format or (X.data == 0).any():
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
    return X


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Samples in canonical order, with the mapping to the samples that the user passed.

    Attributes
    ----------
    X : ndarray or CSR
        Samples with positive weight; of a precomputed kernel, their block of the kernel matrix.
    y : ndarray
        Targets of these samples.
    weight : ndarray
        Weights of these samples; merged samples have the sum of their weights.
    index : ndarray
        Index of each sample in the user's data; of merged samples, that of the first.
    member : ndarray of shape (n_given,)
        For each sample of the user's data, its index in X; -1 for zero weight.
    given_y, given_weight : ndarray of shape (n_given,)
        Targets and weights of the user's data.
    outside : ndarray or CSR
        The user's samples of zero weight.
    """

    X: Matrix
    y: Any
    weight: FloatArray
    index: IntArray
    member: IntArray
    given_y: Any
    given_weight: FloatArray
    outside: Matrix

    @property
    def cost_error(self) -> float:
        """Bound on the relative error of a cost: products of floats and sums of merged weights."""
        given = self.given_weight
        largest = 1
        if len(given) > len(self.weight) and (given != np.floor(given)).any():
            largest = np.bincount(self.member[self.member >= 0]).max()
        return float(16 + 2 * largest) * U

    def given_codes(self) -> IntArray:
        """Return the class code of each sample of the user's data, -1 for zero weight."""
        codes = np.unique(self.y, return_inverse=True)[1]
        return np.append(codes, -1)[self.member]


def canonical(
    X: Matrix,
    y: Any,
    weight: FloatArray,
    *,
    group: IntArray | None = None,
    precomputed: bool = False,
    always: bool = False,
    merge: bool = True,
) -> TrainingSet:
    """Drop samples of zero weight, merge equal samples and sort them by a hash of their values.

    Integer weights, repeated samples and permuted samples then give the same arrays, hence the same
    model to the last bit. Merging and sorting is skipped beyond CANONICAL_ROWS samples unless
    `always` is set, with merge=False, and for precomputed kernels, whose samples cannot be
    compared. Samples of different groups are never merged.
    """
    used = np.flatnonzero(weight > 0)
    unused = np.flatnonzero(weight <= 0)
    member = np.full(len(weight), -1, dtype=np.intp)
    if precomputed:
        member[used] = np.arange(len(used))
        inside, outside = X, X[:0]
        if len(unused):
            inside, outside = X[np.ix_(used, used)], X[np.ix_(unused, used)]
        return TrainingSet(inside, y[used], weight[used], used, member, y, weight, outside)
    outside = X[unused]
    given_y, given_weight = y, weight
    if len(unused):
        X, y, weight = X[used], y[used], weight[used]
    if not merge or (len(used) > CANONICAL_ROWS and not always):
        member[used] = np.arange(len(used))
        return TrainingSet(X, y, weight, used, member, given_y, given_weight, outside)
    codes = class_codes(y)[1]
    if group is not None:
        codes = codes + group[used] * (int(codes.max()) + 1)
    hashes = row_hash(X)
    order = np.lexsort((hashes, codes))
    first = ~_equal_to_previous(X, hashes[order], codes[order], order)
    member[used[order]] = np.cumsum(first) - 1
    starts = np.flatnonzero(first)
    rows = order[starts]
    merged = np.add.reduceat(weight[order], starts)
    return TrainingSet(X[rows], y[rows], merged, used[rows], member, given_y, given_weight, outside)


def row_hash(X: Matrix) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return a 64-bit hash per sample that depends on its values only."""
    # Modular integer sums are exact in any order, so dense and sparse samples hash alike.
    factor = _hash_factors(X.shape[1])
    with np.errstate(over="ignore"):
        if sp.issparse(X):
            running = np.zeros(len(X.data) + 1, dtype=np.uint64)
            np.cumsum(_bits(X.data) * factor[X.indices], out=running[1:])
            sums = running[X.indptr[1:]] - running[X.indptr[:-1]]
        else:
            sums = (_bits(X) * factor).sum(axis=1, dtype=np.uint64)
    return np.asarray(sums)


@functools.lru_cache(maxsize=8)
def _hash_factors(n_features: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return an odd random factor per feature."""
    rng = np.random.default_rng(20250701)
    return rng.integers(0, 2**63, n_features, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def _bits(values: Any) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return the bits of float64 values, mixed so that trailing zero bits do not matter."""
    bits = (values.astype(np.float64) + 0.0).view(np.uint64)  # + 0.0 makes -0.0 equal to 0.0
    return np.asarray(bits ^ (bits >> np.uint64(29)))


def _equal_to_previous(X: Matrix, hashes: Any, codes: IntArray, order: IntArray) -> Any:
    """Return, for each sample in sorted order, whether it equals the previous one.

    Hashes and codes are sorted already.
    """
    equal = np.zeros(len(order), dtype=bool)
    equal[1:] = (hashes[1:] == hashes[:-1]) & (codes[1:] == codes[:-1])
    suspects = np.flatnonzero(equal)  # equal hashes may be a collision
    if len(suspects):
        here, before = X[order[suspects]], X[order[suspects - 1]]
        if sp.issparse(X):
            different = np.asarray(abs(here - before).sum(axis=1)).ravel() > 0
        else:
            different = (here != before).any(axis=1)
        equal[suspects] = ~different
    return equal


def class_costs(class_weight: Any, classes: Any, codes: IntArray, weight: FloatArray) -> FloatArray:
    """Return the cost factor of each class; "balanced" uses sums of sample weights."""
    factors = np.ones(len(classes))
    if class_weight is None:
        return factors
    if isinstance(class_weight, str):
        require(
            class_weight == "balanced", "class_weight", class_weight, 'a dict, "balanced" or None'
        )
        counts = np.bincount(codes, weights=weight, minlength=len(classes))
        return np.asarray(weight.sum() / (len(classes) * counts))
    require(
        isinstance(class_weight, dict), "class_weight", class_weight, 'a dict, "balanced" or None'
    )
    known = {label: k for k, label in enumerate(classes.tolist())}
    for label, factor in class_weight.items():
        key = label.item() if isinstance(label, np.generic) else label
        if key not in known:
            raise ValueError(
                f"class_weight has the label {label!r}, which is not among the classes "
                f"{classes.tolist()}; remove it or correct it"
            )
        require_number(f"class_weight[{label!r}]", factor, "a positive number")
        factors[known[key]] = factor
    return factors


def scale_gamma(X: Matrix, weight: FloatArray) -> float:
    """Return gamma="scale", 1 / (n_features * weighted variance of the entries of X)."""
    with np.errstate(over="ignore", invalid="ignore"):  # non-finite values are rejected below
        variance = _entry_variance(X, weight)
    if variance <= 0:
        return 1.0
    gamma = 1.0 / (X.shape[1] * variance)
    if not (np.isfinite(gamma) and gamma > 0):
        raise ValueError(
            f'gamma="scale" cannot be computed: the variance of X is {variance:g}. '
            "Scale the features (e.g. with StandardScaler) or give gamma as a number."
        )
    return gamma


def _entry_variance(X: Matrix, weight: FloatArray) -> float:
    """Return the weighted variance of all entries of X."""
    total = float(weight.sum()) * X.shape[1]
    if sp.issparse(X):
        per_entry = np.repeat(weight, np.diff(X.indptr))
        values = X.data.astype(np.float64)
        mean = float(per_entry @ values) / total
        second = float(per_entry @ (values - mean) ** 2)  # without the implicit zeros, added below
        return (second + (total - float(per_entry.sum())) * mean * mean) / total
    mean = float(weight @ X.sum(axis=1, dtype=np.float64)) / total
    squares = np.square(X - np.asarray(mean, dtype=X.dtype), dtype=np.float64)
    return float(weight @ squares.sum(axis=1)) / total
