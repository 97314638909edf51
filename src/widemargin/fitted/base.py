"""Define `FittedModel`, the protocol of what a fit keeps and can be asked afterwards.

Each kind of training implements it in a module named after how it leaves samples out: `by_path`
(solution paths), `by_refit` (training again), `by_response` (linear response of the mean-field
equations) and `by_reading` (data in parts, which leave nothing out).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from widemargin._base.messages import warn
from widemargin._base.multiclass import combine, positive_classes
from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin._base.validation import TrainingSet, require
from widemargin.fitted.calibration import Calibration, fit_calibration

if TYPE_CHECKING:
    from widemargin.fitted.record import Record

TIE = 1e-9  # left-out values this small are ties: local kernels give zeros but for rounding
FOLDS = 10
WITH_VALUES = ("exact", "linear_response", "span", "folds")
METHODS = (*WITH_VALUES, "jaakkola_haussler", "support_vectors", "xi_alpha")


class Refused(ValueError):
    """The model is not at the optimum of a convex problem, so no path starts from it."""


@dataclass(frozen=True, eq=False)
class LeftOutValues:
    """Left-out values of the machines of a model.

    Attributes
    ----------
    values : ndarray of shape (n_given, n_machines)
        Machines that did not see a sample's class contribute their fitted value.
    events : int
        Samples that changed their state, on all paths.
    retrained : int
        Paths replaced by retraining, or machines trained again.
    unfinished : int or None
        Machines trained again, and fitted ones, that did not reach their tolerance; None where
        nothing is trained again.
    """

    values: FloatArray
    events: int = 0
    retrained: int = 0
    unfinished: int | None = None


@dataclass(frozen=True, eq=False)
class LOOResult:
    """Leave-one-out of a fitted model.

    Attributes
    ----------
    method : str
        How it was computed.
    kind : {"exact", "estimate", "bound"}
        Whether `error` is what retraining would give, near it, or not below it.
    error : float
        Error rate of a classifier or mean absolute error of a regressor, rows counted by weight.
    errors : ndarray of shape (n_samples,)
        For each training row, whether it is misclassified (or its absolute error).
    values : ndarray or None
        Left-out decision values as `decision_function` (or `predict` of a regressor) returns
        them, in the order of the training rows; None for methods that only bound the error.
    cost : dict
        ``seconds``; for the exact method also ``events``, the rows that changed their state on
        all paths, and ``retrained``, the paths that were replaced by retraining. For machines
        without a path ``retrained`` is how often one was trained again, and ``unfinished`` how
        many of these fits did not reach ``tol``: if there is any, `kind` is "estimate".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import SVC, loo
    >>> model = SVC(C=10).fit(*load_iris(return_X_y=True))
    >>> print(loo.result(model))
    leave-one-out error 0.0267 (exact)
    """

    method: str
    kind: str
    error: float
    errors: BoolArray | FloatArray = field(repr=False)
    values: FloatArray | None = field(repr=False)
    cost: dict[str, float]

    def __str__(self) -> str:
        how = self.kind if self.method == "exact" else f"{self.kind} by {self.method}"
        return f"leave-one-out error {self.error:.4f} ({how})"


class FittedModel:
    """What a fit keeps, as leave-one-out and everything that rests on it need it.

    A record calls nothing but `calibrations` of a model with a `refusal`.

    Attributes
    ----------
    data : TrainingSet
        The training samples, equal ones merged.
    refusal : str
        Why nothing that rests on leave-one-out can be computed, as the end of a sentence that
        starts with what was asked for; empty where it can.
    methods : tuple of str
        Leave-one-out methods that hold for the model.
    method_advice : str
        What to choose instead of another method, and why.
    retrains : bool
        Whether leaving a sample out means training again.
    ordered : bool
        Whether the classes are ranks.
    portable : bool
        Whether the training is stored with the model.
    """

    data: TrainingSet
    refusal: str = ""
    methods: ClassVar[tuple[str, ...]] = ()
    method_advice: ClassVar[str] = ""
    retrains: ClassVar[bool] = False
    ordered: ClassVar[bool] = False
    portable: ClassVar[bool] = True

    def kept_data(self) -> TrainingSet | None:
        """Return the training samples if they are in memory."""
        return self.data

    # -- leave-one-out -----------------------------------------------------------------------

    def auto_method(self) -> str:
        """Return the method that "auto" stands for: the best one that is affordable."""
        raise NotImplementedError

    def values(self) -> FloatArray:
        """Return the values of the fitted machines on the user's samples, a column each."""
        raise NotImplementedError

    def left_out(
        self, method: str, record: Record, chosen: BoolArray | None = None
    ) -> LeftOutValues:
        """Return the values of the machines fitted without each of the user's samples.

        With `chosen`, a mask over the user's samples, only those are left out: the others keep the
        values of the fitted model. `record` caches intermediate results.
        """
        raise NotImplementedError

    def bounded_errors(self, method: str) -> tuple[BoolArray, str]:
        """Return which samples a method that bounds the error counts, and the kind of result."""
        raise NotImplementedError

    def result(self, method: str, record: Record) -> LOOResult:
        """Return the leave-one-out result of a method."""
        started = time.perf_counter()
        require(method in self.methods, "method", method, self.method_advice)
        weight = self.data.given_weight
        cost: dict[str, float] = {}
        values: FloatArray | None = None
        errors: BoolArray | FloatArray
        if method in WITH_VALUES:
            found = record.left_out(method)
            values, errors = self.judge(found.values.copy())
            cost = {"events": float(found.events), "retrained": float(found.retrained)}
            if found.unfinished is not None:
                cost["unfinished"] = float(found.unfinished)
            kind = "exact" if method == "exact" and not found.unfinished else "estimate"
        else:
            errors, kind = self.bounded_errors(method)
        cost["seconds"] = time.perf_counter() - started
        mean = float(weight @ errors) / float(weight.sum())
        name = f"{FOLDS}-fold" if method == "folds" else method
        return LOOResult(name, kind, mean, errors, values, cost)

    # -- classes and margins -------------------------------------------------------------------

    def classes(self) -> Any:
        """Return the classes in the order of their codes."""
        return np.unique(self.data.y)

    def class_codes(self) -> IntArray:
        """Return the class of each of the user's samples, -1 if seen with zero weight only."""
        classes, given = self.classes(), self.data.given_y
        by_label = np.argsort(classes, kind="stable")
        place = np.searchsorted(classes[by_label], given)
        known = np.isin(given, classes)
        return np.where(known, by_label[np.minimum(place, len(classes) - 1)], -1)

    def class_scores(self, values: FloatArray, codes: IntArray) -> tuple[FloatArray, float]:
        """Return the scores of three classes or more, and the difference that counts as a tie."""
        return values, TIE

    def judge(self, values: FloatArray) -> tuple[FloatArray, BoolArray | FloatArray]:
        """Turn the values of the machines into decision values and errors of the samples."""
        codes = self.class_codes()
        if len(self.classes()) == 2:
            values = values[:, 0]
            return values, np.where(codes == 1, values <= TIE, values >= -TIE) | (codes < 0)
        scores, slip = self.class_scores(values, codes)
        own = np.take_along_axis(scores, np.maximum(codes, 0)[:, None], axis=1)
        rivals = np.count_nonzero(scores >= own - slip, axis=1)  # the class itself is among them
        return scores, (rivals > 1) | (codes < 0)

    def label_margin(self, decision: FloatArray) -> tuple[FloatArray, Any]:
        """Return the margin of each sample's label, and the prediction, by decision values."""
        classes, codes = self.classes(), np.maximum(self.class_codes(), 0)
        if decision.ndim == 1:
            predicted = classes[(decision > 0).astype(np.intp)]
            return np.where(codes == 1, decision, -decision), predicted
        own = np.take_along_axis(decision, codes[:, None], axis=1)[:, 0]
        others = decision.copy()
        np.put_along_axis(others, codes[:, None], -np.inf, axis=1)
        return own - others.max(axis=1), classes[decision.argmax(axis=1)]

    def most_suspicious(self, count: int) -> BoolArray:
        """Mark the samples that are most likely to have a wrong label, before any is left out."""
        raise NotImplementedError

    def coefficient_sizes(self) -> FloatArray | None:
        """Return the absolute coefficients of the user's samples, a row per machine, if kept."""
        return None

    def margin_deficits(self) -> FloatArray | None:
        """Return the slack of each sample beyond an adaptive margin; None if it is not adaptive."""
        return None

    # -- probabilities -------------------------------------------------------------------------

    def sides(self, n_machines: int) -> list[tuple[int, int | None]]:
        """Return the positive and the negative class of each machine; None is all others."""
        return [(positive, None) for positive in positive_classes(max(2, n_machines))]

    def calibrations(self, method: str, purpose: str, record: Record) -> list[Calibration]:
        """Fit the probabilities of each machine on left-out values of its samples."""
        record.require(purpose)
        try:
            values = record.left_out().values
        except Refused as refusal:
            warn(
                f"probabilities are calibrated on values of the rows that the model was fitted to, "
                f"and hence too certain: {refusal}", UserWarning,
            )  # fmt: skip
            values = self.values()
        codes, weight = self.data.given_codes(), self.data.given_weight
        found = []
        for k, (positive, negative) in enumerate(self.sides(values.shape[1])):
            own = (codes == positive) | (negative is None) | (codes == negative)
            is_positive = codes[own] == positive
            found.append(fit_calibration(values[own, k], is_positive, weight[own], method))
        return found


class PairedModel(FittedModel):
    """A classifier with one machine per pair of classes.

    Attributes
    ----------
    pairs : list of (int, int)
        Positive and negative class of each machine; empty for regression.
    """

    pairs: list[tuple[int, int]]

    def class_scores(self, values: FloatArray, codes: IntArray) -> tuple[FloatArray, float]:
        """Count the votes of the pairs; a sample loses the ties of its own class."""
        for k, (positive, negative) in enumerate(self.pairs):
            tied = np.abs(values[:, k]) <= TIE
            lost = np.where(codes == positive, -0.0, np.where(codes == negative, TIE, 0.0))
            values[tied, k] = lost[tied]
        return combine(values, len(self.classes())), 0.0

    def sides(self, n_machines: int) -> list[tuple[int, int | None]]:
        """Return the positive and the negative class of each machine."""
        return list(self.pairs)


class LeavingRows:
    """Which rows of a machine are left out, and for which of the user's samples.

    Equal samples were merged. The user's samples that a merged row stands for lose the same
    fraction of it unless their weights differ, so they share one computation.

    Attributes
    ----------
    rows : ndarray
        Rows of the machine, each to be left out.
    fraction : ndarray
        The part of each row's weight that leaves.
    given : ndarray
        The user's samples that are left out.
    back : ndarray
        For each of these, its entry of `rows`.
    """

    def __init__(self, data: TrainingSet, rows: IntArray, chosen: BoolArray | None) -> None:
        local = np.full(len(data.weight) + 1, -1, dtype=np.intp)
        local[rows] = np.arange(len(rows))
        row = local[data.member]  # samples of zero weight have member -1: the last entry
        present = row >= 0
        if chosen is not None:
            present &= chosen
        self.given = np.flatnonzero(present)
        merged = data.weight[data.member[self.given]]
        fraction = np.minimum(1.0, data.given_weight[self.given]) / merged
        key = row[self.given] + 0.5 * fraction
        _, first, self.back = np.unique(key, return_index=True, return_inverse=True)
        self.rows: IntArray = row[self.given][first]
        self.fraction: FloatArray = fraction[first]


def first_in(order: IntArray, count: int) -> BoolArray:
    """Mark the first `count` entries of an order."""
    chosen = np.zeros(len(order), dtype=bool)
    chosen[order[:count]] = True
    return chosen
