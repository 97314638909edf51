"""Data set in parts, and its training samples as solvers read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from widemargin._base.typing import RealArray
from widemargin._base.validation import require
from widemargin.sources.describe import Description, merged, summarise
from widemargin.sources.engines import Engine
from widemargin.sources.training_part import View, on_training_part

_Found = TypeVar("_Found")


class TrainingSource:
    """Training samples in parts, as solvers read them (implements the protocol `Source`).

    Created by :meth:`Dataset.binary` and :meth:`Dataset.regression`.

    Parameters
    ----------
    dataset : Dataset
        The data set that holds the raw rows.
    view : View
        Conversion of raw rows into training samples.
    sizes : list of int
        Number of training samples of each part.

    Attributes
    ----------
    sizes : list of int
        Number of training samples of each part.
    n_features : int
        Number of features, including the constant one.
    dtype : dtype
        Type of the features: float32 or float64.
    centre, scale : ndarray of shape (n_features,)
        Samples are read as (x - centre) / scale; both as rounded to the type of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import sources
    >>> source = sources.from_arrays(np.eye(3), np.array([0, 1, 0])).binary(1, 0)
    >>> source.n_rows, source.n_features
    (3, 3)
    """

    def __init__(self, dataset: Dataset, view: View, sizes: list[int]) -> None:
        self.sizes = sizes
        more = 0 if view.constant is None else 1
        self.n_features, self.dtype = dataset.n_features + more, dataset.dtype
        nothing, unit = np.zeros(dataset.n_features), np.ones(dataset.n_features)
        centre = nothing if view.centre is None else view.centre.astype(np.float64)
        scale = unit if view.scale is None else view.scale.astype(np.float64)
        self.centre, self.scale = np.pad(centre, (0, more)), np.append(scale, unit[:more])
        self._dataset, self._view = dataset, view

    @property
    def n_rows(self) -> int:
        """Number of training samples."""
        return sum(self.sizes)

    def run(
        self, task: Callable[..., _Found], arguments: Sequence[tuple[Any, ...]]
    ) -> list[_Found]:
        """Run a task on the training samples of each part, where they are stored.

        Parameters
        ----------
        task, arguments
            As for :meth:`Dataset.run`.

        Returns
        -------
        list
            The return values of the tasks, in the order of the parts.
        """
        calls = [(self._view, task, *some) for some in arguments]
        return self._dataset.run(on_training_part, calls)


class Dataset:
    """Samples with their targets, in parts that are read a few MB at a time.

    Created by :func:`from_arrays`, :func:`from_files` and :func:`from_dask`. Estimators accept it
    in place of X and y.

    Parameters
    ----------
    rows : sequence of Rows
        The parts, or the engine's handles to them (blocks of a Dask collection).
    engine : Engine
        Engine that runs tasks on the parts.
    n_features : int
        Number of features.
    dtype : dtype
        Type of all blocks: float32 or float64.
    feature_names : list of str, default=None
        Names of the features, or None if they have no names.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import sources
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    >>> dataset = sources.from_arrays(X, np.array(["no", "yes", "no"]))
    >>> dataset.describe().mean.tolist()
    [2.0, 3.0]
    >>> source = dataset.binary("yes", "no", centre=[2.0, 3.0])
    >>> source.run(lambda part: [block[2].tolist() for block in part.blocks()], [()])
    [[[-1.0, 1.0, -1.0]]]
    """

    def __init__(
        self,
        rows: Sequence[Any],
        engine: Engine,
        n_features: int,
        dtype: np.dtype[Any],
        feature_names: list[str] | None = None,
    ) -> None:
        self.rows, self.engine = list(rows), engine
        self.n_features, self.dtype, self.feature_names = n_features, dtype, feature_names
        self._description: Description | None = None
        self._units: tuple[RealArray | None, RealArray | None] = (None, None)

    def run(
        self, task: Callable[..., _Found], arguments: Sequence[tuple[Any, ...]]
    ) -> list[_Found]:
        """Run a task on the raw rows of each part, where they are stored.

        Parameters
        ----------
        task : callable
            Module-level function with a small return value. It must be safe to rerun.
        arguments : sequence of tuple
            Further arguments of the task, one tuple per part.

        Returns
        -------
        list
            The return values of the tasks, in the order of the parts.
        """
        if len(arguments) != len(self.rows):
            raise ValueError(f"{len(arguments)} arguments were given for {len(self.rows)} parts")
        return self.engine.run(task, self.rows, arguments)

    def describe(self) -> Description:
        """Scan all samples once and cache the result.

        Returns
        -------
        description : Description
            Sizes, classes, mean and standard deviation.

        Raises
        ------
        ValueError
            If a feature, target or weight is missing or not finite. The message names file and
            row.
        """
        if self._description is None:
            call = (self.n_features, self.feature_names)
            summaries = self.run(summarise, [call] * len(self.rows))
            self._description = merged(summaries, self.n_features, self.dtype)
        return self._description

    def standardised(self) -> Dataset:
        """Return the same samples with features of mean 0 and standard deviation 1.

        Features are standardised while they are read. Prediction needs the same transformation:
        put :meth:`scaler` before the fitted model.

        Returns
        -------
        dataset : Dataset
            The standardised samples; constant features become 0.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.pipeline import make_pipeline
        >>> from widemargin import LinearSVC, sources
        >>> X = np.array([[0.0, 100.0], [1.0, 300.0], [2.0, 200.0], [3.0, 400.0]])
        >>> dataset = sources.from_arrays(X, np.array([0, 0, 1, 1]))
        >>> machine = LinearSVC().fit(dataset.standardised())
        >>> make_pipeline(dataset.scaler(), machine).predict(X)
        array([0, 0, 1, 1])
        """
        found = self.describe()
        # Without names, because StandardScaler.transform returns an array without them.
        other = Dataset(self.rows, self.engine, self.n_features, self.dtype)
        other._units = self._unit("centre", found.mean), self._unit("scale", found.scale)
        spread = np.where(found.std > 0, found.std / found.scale, 0.0)
        zero, origin = np.zeros(self.n_features), found.fingerprint()
        other._description = replace(found, mean=zero, std=spread, origin=origin)
        return other

    def scaler(self) -> Any:
        """Return a StandardScaler of scikit-learn as if fitted on this data set.

        Returns
        -------
        scaler : StandardScaler
            Applies the transformation of :meth:`standardised` to samples in memory.
        """
        from sklearn.preprocessing import StandardScaler

        found, scaler = self.describe(), StandardScaler()
        centre, scale = self._unit("centre", found.mean), self._unit("scale", found.scale)
        assert centre is not None
        assert scale is not None
        scaler.mean_, scaler.scale_ = centre.astype(np.float64), scale.astype(np.float64)
        scaler.var_ = np.square(found.std)
        scaler.n_samples_seen_, scaler.n_features_in_ = found.n_rows, self.n_features
        if self.feature_names is not None:
            scaler.feature_names_in_ = np.asarray(self.feature_names, dtype=object)
        return scaler

    def binary(
        self,
        positive: Any,
        negative: Any,
        *,
        cost_factors: tuple[float, float] | None = None,
        centre: Any = None,
        scale: Any = None,
        constant: float | None = None,
    ) -> TrainingSource:
        """Return the samples of two classes, labelled +1 and -1, or of a class and all others.

        Samples of other classes are skipped while reading, and sample indices count only the
        samples of the two classes.

        Parameters
        ----------
        positive, negative : label
            The two classes. If `negative` is None, all classes but the positive one.
        cost_factors : (float, float), default=None
            Factors of the weights of the positive and of the negative samples.
        centre, scale : array-like of shape (n_features,), default=None
            Features are read as (x - centre) / scale. Both are rounded to the type of the data;
            the source has the rounded values as attributes.
        constant : float, default=None
            Value of a feature that is appended to those of the data: a penalised intercept.

        Returns
        -------
        source : TrainingSource
            Input of the solvers.
        """
        found = self.describe()
        factors = (1.0, 1.0) if cost_factors is None else cost_factors
        good = len(factors) == 2 and all(np.isfinite(f) and f >= 0 for f in factors)
        fix = "labels of classes; for numbers use a regressor"
        require(found.classes is not None, "target", "more than 1,000 distinct values", fix)
        assert found.classes is not None
        assert found.class_sizes is not None
        labels = found.classes.tolist()
        given = {"positive": positive} if negative is None else {
            "positive": positive, "negative": negative,
        }  # fmt: skip
        for name, label in given.items():
            require(label in labels, name, label, f"one of the classes {labels[:20]}")
        require(positive != negative, "negative", negative, "another class than positive")
        require(good, "cost_factors", cost_factors, "two numbers that are not negative")
        # Labels of the description: Python scalars take the type of the targets.
        pair = [labels.index(label) for label in given.values()]
        plus, minus = labels[pair[0]], None if negative is None else labels[pair[1]]
        everything = negative is None or len(labels) == 2
        sizes = found.class_sizes if everything else found.class_sizes[:, pair]
        units = self._unit("centre", centre), self._unit("scale", scale)
        costs = float(factors[0]), float(factors[1])
        view = View(plus, minus, everything, costs, *units, constant)
        return TrainingSource(self, view, sizes.sum(axis=1).tolist())

    def regression(self, *, centre: Any = None, scale: Any = None) -> TrainingSource:
        """Return all samples with their numerical targets.

        Parameters
        ----------
        centre, scale : array-like of shape (n_features,), default=None
            As for :meth:`binary`.

        Returns
        -------
        source : TrainingSource
            Input of the solvers.
        """
        found = self.describe()
        is_number = np.isfinite(found.target_mean)
        require(bool(is_number), "target", "text", "a number in every row; text needs a classifier")
        units = self._unit("centre", centre), self._unit("scale", scale)
        return TrainingSource(self, View(None, None, True, (1.0, 1.0), *units), found.sizes)

    def _unit(self, name: str, values: Any) -> RealArray | None:
        """Validate a centre or scale and return it in the type of the data."""
        if values is None:
            return self._units[name == "scale"]
        unit: RealArray = np.asarray(values, dtype=self.dtype)
        fix = f"{self.n_features} finite numbers, one for each feature"
        good = unit.shape == (self.n_features,) and bool(np.isfinite(unit).all())
        require(good, name, values, fix)
        require(name != "scale" or bool((unit > 0).all()), name, values, "positive")
        return unit
