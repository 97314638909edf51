"""What a fitted machine keeps so that questions about it can be answered later.

A record belongs to one fit. It holds the training rows, the problems that were solved and their
optima; answers that take work (leave-one-out values, calibrations) are remembered in it, each
computed once however many threads ask.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from widemargin._base.typing import BoolArray, FloatArray, IntArray, Matrix
from widemargin._base.validation import TrainingSet
from widemargin.fitted.latent import LatentTraining
from widemargin.kernels import Kernel, Rows
from widemargin.problems.soft_margin import SoftMargin
from widemargin.sources import Dataset, TrainingSource

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, eq=False)
class Machine:
    """One binary or regression machine as it was trained.

    Attributes
    ----------
    rows : ndarray
        Rows of the training set that it saw.
    problem : SoftMargin
        A problem with at most one threshold whose optimum the machine is.
    alpha : ndarray of shape (n_variables,)
        Its dual variables.
    threshold : float
        Its threshold.
    refusal : str
        Why there is no such problem, and hence no leave-one-out; empty where there is one.
    """

    rows: IntArray
    problem: SoftMargin
    alpha: FloatArray
    threshold: float
    refusal: str = ""


@dataclass(frozen=True, eq=False)
class Training:
    """The data and the machines of a fit.

    Attributes
    ----------
    data : TrainingSet
        The rows.
    kernel : Kernel
        The kernel with its parameters.
    centre : ndarray or None
        Origin of the rbf kernel, see `Rows`.
    pairs : list of (int, int)
        Positive and negative class of each machine; empty for regression.
    machines : list of Machine
        In the order of the pairs.
    intercept : bool
        Whether there is a threshold.
    """

    data: TrainingSet
    kernel: Kernel
    centre: FloatArray | None
    pairs: list[tuple[int, int]]
    machines: list[Machine]
    intercept: bool

    def rows_of(self, machine: Machine) -> Rows:
        """Return the rows of a machine seen through the kernel."""
        X: Matrix = self.data.X
        if len(machine.rows) < X.shape[0]:
            square = np.ix_(machine.rows, machine.rows)
            X = X[square] if self.kernel.name == "precomputed" else X[machine.rows]
        return Rows(self.kernel, X, self.centre)


@dataclass(frozen=True, eq=False)
class Refit:
    """A machine as an expansion: values are sum_j beta_j k(x_j, x) + offset.

    Attributes
    ----------
    beta : ndarray of shape (n_rows,)
        Coefficients of the rows that it was trained on.
    offset : ndarray of shape (n_columns,)
        A zero for machines without threshold, one entry a threshold otherwise.
    converged : bool
        Whether it is the optimum to within the tolerance asked for.
    """

    beta: FloatArray
    offset: FloatArray
    converged: bool


class RefitMachine(Protocol):
    """A trained machine that can be trained again without some of its rows.

    It has seen all rows of the training set, in their order.
    """

    @property
    def fitted(self) -> Refit:
        """The machine as it was trained."""
        ...

    def matters(self) -> BoolArray:
        """Return which rows the machine may depend on: without any other one it is the same."""
        ...

    def retrained(self, rows: Rows, kept: FloatArray) -> Refit:
        """Train with the fraction `kept` of each row's weight, from the fitted machine.

        `rows` are those with kept > 0, and so are the coefficients that are returned.
        """
        ...


@dataclass(frozen=True, eq=False)
class RefitTraining:
    """A fit of machines without a solution path: to leave rows out is to train again.

    Attributes
    ----------
    data : TrainingSet
        The rows.
    kernel : Kernel
        The kernel with its parameters.
    centre : ndarray or None
        Origin of the rbf kernel, see `Rows`.
    machines : list of RefitMachine
        One for two classes, the second of which is positive; else one a class, against the rest.
    seed : int
        Of the folds, where there are too many rows to leave them out one at a time.
    ranks : ndarray or None
        Ordinal machines: the labels, lowest rank first. The values of the one machine are then
        the utility less each threshold between neighbouring ranks.
    refusal : str
        Why rows cannot be left out; empty where they can.
    """

    data: TrainingSet
    kernel: Kernel
    centre: FloatArray | None
    machines: list[RefitMachine]
    seed: int
    ranks: Any = None
    refusal: str = ""


@dataclass(frozen=True, eq=False)
class Plane:
    """A linear machine: values are coef.x + intercept.

    Attributes
    ----------
    coef : ndarray of shape (n_features,)
        Weights.
    intercept : float
        Threshold.
    converged : bool
        Whether it is the optimum to within the tolerance asked for.
    """

    coef: FloatArray
    intercept: float
    converged: bool


class PlaneMachine(Protocol):
    """A hyperplane between two classes that can be found again without some of its rows."""

    @property
    def rows(self) -> IntArray:
        """Rows of the training set that it saw."""
        ...

    @property
    def fitted(self) -> Plane:
        """The machine as it was trained."""
        ...

    def matters(self, X: Matrix) -> BoolArray:
        """Return which of its rows, given as X, the machine may depend on."""
        ...

    def retrained(self, X: Matrix, kept: FloatArray) -> Plane:
        """Train with the fraction `kept` of each row's weight; X are its rows with kept > 0."""
        ...


@dataclass(frozen=True, eq=False)
class PlaneTraining:
    """A fit of hyperplanes without a solution path, one for each pair of classes.

    Attributes
    ----------
    data : TrainingSet
        The rows.
    pairs : list of (int, int)
        Positive and negative class of each machine.
    machines : list of PlaneMachine
        In the order of the pairs.
    seed : int
        Of the folds, where there are too many rows to leave them out one at a time.
    """

    data: TrainingSet
    pairs: list[tuple[int, int]]
    machines: Sequence[PlaneMachine]
    seed: int


@dataclass(frozen=True, eq=False)
class ReadTraining:
    """A fit on data that are read where they lie and are not kept.

    Attributes
    ----------
    dataset : Dataset
        Where the data are.
    sources : list of TrainingSource
        The rows of each machine.
    """

    dataset: Dataset
    sources: list[TrainingSource]


RefittedTraining: TypeAlias = RefitTraining | PlaneTraining
"""A fit in which to leave rows out is to train again."""

KeptTraining: TypeAlias = Training | RefittedTraining | LatentTraining
"""A fit whose rows are in memory."""


def class_codes(training: KeptTraining) -> tuple[Any, IntArray]:
    """Return the classes and that of each of the user's rows, -1 if seen with zero weight only."""
    data = training.data
    ranks = training.ranks if isinstance(training, RefitTraining) else None
    classes = np.unique(data.y) if ranks is None else ranks
    by_label = np.argsort(classes, kind="stable")
    place = np.searchsorted(classes[by_label], data.given_y)
    known = np.isin(data.given_y, classes)
    return classes, np.where(known, by_label[np.minimum(place, len(classes) - 1)], -1)


class Record:
    """The training of a fitted model, if it is still there, and the answers found so far.

    Parameters
    ----------
    training : Training, RefitTraining, PlaneTraining, LatentTraining, ReadTraining or None
        None in a compact model.
    answers : dict, optional
        Answers that are known already.
    """

    def __init__(
        self, training: KeptTraining | ReadTraining | None, answers: dict[str, Any] | None = None
    ) -> None:
        self.training = training
        self.answers = dict(answers or {})
        self._held: dict[str, Any] = {}
        self._lock = threading.RLock()

    def remember_kept(self, question: str, find: Callable[[KeptTraining], _Answer]) -> _Answer:
        """Return the answer to a question about any machine whose rows are in memory."""
        return self.remember_any(question, lambda: find(self.require_kept(question)))

    def remember_any(self, question: str, find: Callable[[], _Answer]) -> _Answer:
        """Return the answer to a question that needs no training rows in memory, found once."""
        return self._known(self.answers, question, find)

    def hold(self, question: str, find: Callable[[], _Answer]) -> _Answer:
        """Return an answer that is kept in memory, but too large to be stored with the model."""
        return self._known(self._held, question, find)

    def _known(
        self, answers: dict[str, Any], question: str, find: Callable[[], _Answer]
    ) -> _Answer:
        with self._lock:
            if question not in answers:
                answers[question] = find()
            answer: _Answer = answers[question]
            return answer

    def require_kept(self, question: str) -> KeptTraining:
        """Return the training of any machine, which a compact model does not have."""
        if isinstance(self.training, RefitTraining):
            if self.training.refusal:
                raise ValueError(f"{question} is refused: {self.training.refusal}")
            return self.training
        if isinstance(self.training, PlaneTraining | LatentTraining):
            return self.training
        return self.require_training(question)

    def require_training(self, question: str) -> Training:
        """Return the training of machines with a solution path."""
        if isinstance(self.training, RefittedTraining | LatentTraining):
            raise ValueError(f"{question} is for machines with a solution path, as SVC and SVR")
        if isinstance(self.training, ReadTraining):
            raise ValueError(
                f"{question} needs the training rows in memory, and this model was fitted on a "
                "data set in parts: fit on an array (a sample of the rows will do)"
            )
        if self.training is None:
            raise ValueError(
                f"{question} needs the training data, which compact() has dropped: ask the "
                "fitted model itself, or ask it once before calling compact()"
            )
        return self.training

    def compact(self) -> Record:
        """Return the answers without the training."""
        with self._lock:
            return Record(None, self.answers)

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            # Data that lie elsewhere are not reached from everywhere a model is sent to.
            training = None if isinstance(self.training, ReadTraining) else self.training
            return {"training": training, "answers": dict(self.answers)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.training = state["training"]
        self.answers = state["answers"]
        self._held = {}
        self._lock = threading.RLock()


def record_of(est: Any) -> Record:
    """Return the record of a fitted estimator, or of the last step of a pipeline."""
    if hasattr(est, "steps"):  # a pipeline; importing its class would import much else
        est = est[-1]
    check_is_fitted(est)
    record = getattr(est, "_record_", None)
    if not isinstance(record, Record):
        raise TypeError(
            f"{type(est).__name__} keeps no training record: leave-one-out knows the machines "
            "of widemargin (SVC, NuSVC, SVR, NuSVR, LinearSVC, ReducedHullSVC, TubeSVR, LOOSVC, "
            "AdaptiveMarginSVC, LPSVC, NuLPSVC, OrdinalSVC, MeanFieldGPClassifier, "
            "MaxMarginClassifier)"
        )
    return record
