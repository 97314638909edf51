"""Summary of a data set in one pass: sizes, classes, mean, standard deviation, finiteness."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray, RealArray
from widemargin.sources.reading.rows import Rows
from widemargin.sources.reading.strips import AnyArray

MOST_CLASSES = 1_000  # a target with more distinct values is treated as numeric
FEW_CLASSES = 16  # up to here labels are counted by comparison, beyond by sorting


@dataclass(frozen=True, eq=False)
class Description:
    """Summary of a data set.

    `class_weights`, `mean`, `std` and the moments of the target are weighted: a sample of weight 2
    counts twice.

    Attributes
    ----------
    sizes : list of int
        Number of samples of each part.
    n_features : int
        Number of features.
    dtype : dtype
        float32 or float64.
    total_weight : float
        Sum of the weights; the number of samples if no weights were given.
    classes : ndarray of shape (n_classes,) or None
        The distinct targets, sorted; None if there are more than 1,000.
    class_sizes : ndarray of shape (n_parts, n_classes) or None
        Number of samples of each class in each part.
    class_weights : ndarray of shape (n_classes,) or None
        Sum of the weights of each class.
    mean, std : ndarray of shape (n_features,)
        Mean and standard deviation of the features (divided by the total weight).
    target_mean, target_std : float
        The same of the target; NaN if it is text.
    checksums : list of int
        Checksum of all values of each part, in order.
    origin : str
        Fingerprint of the original data if these were computed from other data, else "".

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import sources
    >>> found = sources.from_arrays(np.eye(3), np.array(["a", "b", "b"])).describe()
    >>> found.n_rows, found.classes.tolist(), found.class_weights.tolist()
    (3, ['a', 'b'], [1.0, 2.0])
    """

    sizes: list[int]
    n_features: int
    dtype: np.dtype[Any]
    total_weight: float
    classes: AnyArray | None
    class_sizes: AnyArray | None
    class_weights: FloatArray | None
    mean: FloatArray
    std: FloatArray
    target_mean: float
    target_std: float
    checksums: list[int]
    origin: str = ""

    @property
    def n_rows(self) -> int:
        """Number of samples."""
        return sum(self.sizes)

    @property
    def scale(self) -> FloatArray:
        """Standard deviation, with 1 for constant features, as a divisor of the features."""
        # Rounding gives a constant feature a standard deviation of a few eps times its mean.
        constant = self.std <= 8 * np.finfo(np.float64).eps * np.abs(self.mean)
        return np.where(constant, 1.0, self.std)

    def fingerprint(self) -> str:
        """Return a hash of the data and of their division into parts.

        Returns
        -------
        str
            SHA-256 in hexadecimal digits.
        """
        digest = hashlib.sha256()
        labels = None if self.classes is None else self.classes.tolist()
        weights = None if self.class_weights is None else self.class_weights.tolist()
        moments = [self.mean.tolist(), self.std.tolist(), self.target_mean, self.target_std]
        kind = [self.n_features, str(self.dtype), self.origin]
        whole = [self.sizes, kind, labels, weights, moments, self.checksums]
        digest.update(repr(whole).encode())
        return digest.hexdigest()


@dataclass
class Moments:
    """Weight, mean and sum of squared deviations, merged over blocks without cancellation.

    The formulas are those of Chan, Golub and LeVeque (1983).
    """

    weight: float
    mean: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, values: RealArray, weight: FloatArray | None) -> Moments:
        """Return the moments of a block of samples, in float64."""
        with np.errstate(over="ignore", invalid="ignore"):  # the caller checks for this
            deviations = values.astype(np.float64)
            if weight is None:
                weight = np.ones(len(values))
            total = float(weight.sum())
            if total == 0:
                # A value that is not finite gives NaN (0 * inf), which the caller detects.
                return cls(0.0, 0.0 * (weight @ deviations), np.zeros(values.shape[1]))
            mean = (weight @ deviations) / total
            deviations -= mean
            np.square(deviations, out=deviations)
            return cls(total, mean, weight @ deviations)

    def merge(self, other: Moments) -> None:
        """Add the moments of another block."""
        if other.weight == 0:
            return
        total = self.weight + other.weight
        step = other.mean - self.mean
        with np.errstate(over="ignore", invalid="ignore"):
            self.mean = self.mean + step * (other.weight / total)
            between = step * step * (self.weight * other.weight / total)
            self.squares = self.squares + other.squares + between
        self.weight = total

    @property
    def std(self) -> FloatArray:
        """Standard deviation; infinite where the squares overflow."""
        squares = np.where(np.isnan(self.squares), np.inf, self.squares)
        return np.asarray(np.sqrt(squares / max(self.weight, np.finfo(float).tiny)))


@dataclass
class ClassCounts:
    """Number and total weight of the samples per distinct target, up to MOST_CLASSES."""

    labels: list[Any] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    too_many: bool = False

    def add(self, target: AnyArray, weight: FloatArray | None) -> None:
        """Count the targets of a block."""
        if self.too_many or self._add_known(target, weight):
            return
        labels, code = np.unique(target, return_inverse=True)
        rows = np.bincount(code, minlength=len(labels))
        sums = rows if weight is None else np.bincount(code, weight, len(labels))
        place = {label: k for k, label in enumerate(self.labels)}
        for label, n_rows, total in zip(labels.tolist(), rows, sums, strict=True):
            if label not in place:
                place[label] = len(self.labels)
                self.labels.append(label)
                self.rows.append(0)
                self.weights.append(0.0)
            self.rows[place[label]] += int(n_rows)
            self.weights[place[label]] += float(total)
        self.too_many = len(self.labels) > MOST_CLASSES

    def _add_known(self, target: AnyArray, weight: FloatArray | None) -> bool:
        """Count by comparison with the labels seen so far; return False if a label is new."""
        if not 0 < len(self.labels) <= FEW_CLASSES:
            return False
        members = [target == label for label in self.labels]
        rows = [int(np.count_nonzero(member)) for member in members]
        if sum(rows) < len(target):
            return False
        for k, member in enumerate(members):
            self.rows[k] += rows[k]
            self.weights[k] += rows[k] if weight is None else float(weight[member].sum())
        return True


@dataclass
class Summary:
    """Summary of one part of a data set."""

    size: int
    moments: Moments
    target: Moments | None
    counts: ClassCounts
    kind: str
    where: str
    checksum: int


def summarise(rows: Rows, n_features: int, feature_names: list[str] | None) -> Summary:
    """Summarise one part, and raise an error that locates the first value that is not finite."""
    size, kind, checksum = 0, "", 0
    moments = Moments(0.0, np.zeros(n_features), np.zeros(n_features))
    numbers: Moments | None = Moments(0.0, np.zeros(1), np.zeros(1))
    counts = ClassCounts()
    for first, X, target, weight in rows.blocks():
        block = Moments.of(X, weight)
        # The mean reveals any value that is not finite; only then is the block searched for it.
        if not np.isfinite(block.mean).all():
            _check_features(rows, first, X, feature_names)
        _check_sides(rows, first, target, weight)
        moments.merge(block)
        counts.add(target, weight)
        kind = target.dtype.kind
        if kind in "US":
            numbers = None
        elif numbers is not None:
            numbers.merge(Moments.of(target[:, None], weight))
        # The checksum covers every byte, in order: a checkpoint must not be resumed on data that
        # have changed in any value.
        for values in (X, target, weight):
            if values is not None:
                checksum = zlib.crc32(values.tobytes(), checksum)
        size += len(X)
    return Summary(size, moments, numbers, counts, kind, rows.place(0), checksum)


def _check_features(rows: Rows, first: int, X: RealArray, feature_names: list[str] | None) -> None:
    bad = np.argwhere(~np.isfinite(X))
    if len(bad):
        i, j = (int(k) for k in bad[0])
        column = f"column {j}" if feature_names is None else f"column {feature_names[j]!r}"
        raise ValueError(
            f"{rows.place(first + i)}, {column} is {_spelled(X[i, j])}; features must be finite: "
            "drop such rows or fill them in (for example with sklearn.impute.SimpleImputer)"
        )


def _check_sides(rows: Rows, first: int, target: AnyArray, weight: FloatArray | None) -> None:
    if target.dtype.kind == "f" and not np.isfinite(target).all():
        i = int(np.flatnonzero(~np.isfinite(target))[0])
        raise ValueError(
            f"{rows.place(first + i)}: the target is {_spelled(target[i])}; leave such rows out of "
            "the data"
        )
    if weight is not None and not (np.isfinite(weight) & (weight >= 0)).all():
        i = int(np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))[0])
        raise ValueError(
            f"{rows.place(first + i)}: the sample weight is {weight[i]}; weights must be finite "
            "and not negative"
        )


def _spelled(value: Any) -> str:
    return "NaN (or missing)" if np.isnan(value) else "infinite"


def merged(summaries: Sequence[Summary], n_features: int, dtype: np.dtype[Any]) -> Description:
    """Merge the summaries of all parts, in order, into the description of the data set."""
    filled = [summary for summary in summaries if summary.size]
    if not filled:
        raise ValueError("the data set has no rows; at least one is needed")
    texts = {summary.kind in "US": summary.where for summary in reversed(filled)}
    if len(texts) > 1:
        raise ValueError(
            f"targets are text at {texts[True]} and numbers at {texts[False]}; labels must be of "
            "one kind"
        )
    moments = Moments(0.0, np.zeros(n_features), np.zeros(n_features))
    target = Moments(0.0, np.zeros(1), np.zeros(1))
    for summary in filled:
        moments.merge(summary.moments)
        if summary.target is not None:
            target.merge(summary.target)
    if moments.weight == 0:
        raise ValueError("sample_weight must have a positive entry; all weights are zero")
    is_text = True in texts
    return Description(
        [summary.size for summary in summaries],
        n_features,
        dtype,
        moments.weight,
        *_classes(summaries),
        moments.mean,
        moments.std,
        float("nan") if is_text else float(target.mean[0]),
        float("nan") if is_text else float(target.std[0]),
        [summary.checksum for summary in summaries],
    )


def _classes(
    summaries: Sequence[Summary],
) -> tuple[AnyArray | None, AnyArray | None, FloatArray | None]:
    """Return classes, their sizes in each part and their weights; None if there are too many."""
    counts = [summary.counts for summary in summaries]
    found = [np.array(count.labels) for count in counts if count.labels]
    classes = np.unique(np.concatenate(found))
    if len(classes) > MOST_CLASSES or any(count.too_many for count in counts):
        return None, None, None
    place = {label: k for k, label in enumerate(classes.tolist())}
    sizes = np.zeros((len(summaries), len(classes)), dtype=np.intp)
    weights = np.zeros(len(classes))
    for part, count in enumerate(counts):
        for label, n_rows, weight in zip(count.labels, count.rows, count.weights, strict=True):
            sizes[part, place[label]] += n_rows
            weights[place[label]] += weight
    return classes, sizes, weights
