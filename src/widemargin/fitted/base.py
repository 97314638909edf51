"""Base class of fitted models, which provide leave-one-out, margins and calibrations.

The subclasses are in modules named after their leave-one-out method: `by_path` (solution paths),
`by_refit` (refitting), `by_response` (linear response of the mean-field equations), `by_formula`
(closed form of Gaussian-process regression) and `by_reading` (data in parts, without
leave-one-out).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from widemargin._base.messages import warn
from widemargin._base.multiclass import Sides, combine, positive_classes
from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin._base.validation import TrainingSet, require
from widemargin.fitted.calibration import Calibration, fit_calibration

if TYPE_CHECKING:
    from widemargin.fitted.record import Record

TIE = 1e-9  # a decision value this small is a tie: with local kernels it is a rounded zero
FOLDS = 10
WITH_VALUES = ("exact", "linear_response", "span", "folds")
METHODS = (*WITH_VALUES, "jaakkola_haussler", "support_vectors", "xi_alpha")


class Refused(ValueError):
    """Raised if a model is not at the optimum of a convex problem, so that it has no path."""


@dataclass(frozen=True, eq=False)
class LeftOutValues:
    """Leave-one-out predictions of the binary submodels of a fitted model.

    Attributes
    ----------
    values : ndarray of shape (n_given, n_machines)
        One column per submodel. A submodel that was not fitted to a sample's class contributes
        its fitted value.
    events : int
        Total number of state changes of samples along the paths.
    retrained : int
        Number of paths replaced by a refit, or of refitted submodels.
    unfinished : int or None
        Number of submodels, refitted or original, that did not reach their tolerance; None for
        methods without refits.
    violation : float or None
        Largest KKT violation of the submodels, refitted or original; None if the tolerance is not
        one of the KKT violation.
    """

    values: FloatArray
    events: int = 0
    retrained: int = 0
    unfinished: int | None = None
    violation: float | None = None


@dataclass(frozen=True, eq=False)
class LOOResult:
    """Leave-one-out error and predictions of a fitted model.

    Attributes
    ----------
    method : str
        The leave-one-out method.
    kind : str
        "exact": `error` is equal to the error of n refits. "exact at fixed C" (or epsilon, or lam):
        the same, with that parameter of an equivalent problem held at its value on all samples;
        n refits of a nu machine would change it. "estimate" or "bound" (an upper one) of "exact".
    error : float
        Weighted error rate of a classifier, or weighted mean absolute error of a regressor.
    errors : ndarray of shape (n_samples,)
        For each training sample, whether it is misclassified (or its absolute error).
    values : ndarray or None
        Leave-one-out decision values in the form that `decision_function` returns (for a
        regressor, `predict`), in the order of the training samples; None for methods that only
        bound the error.
    cost : dict
        ``seconds``; for the exact method also ``events``, the number of state changes of samples
        along the paths, ``retrained``, the number of paths replaced by a refit, and
        ``violation``, the largest KKT violation of the fit or of a refit. For models without a
        path, ``retrained`` is the number of refits. ``unfinished`` is the number of fits that did
        not reach their tolerance: if it is positive, `kind` is "estimate".

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

    @property
    def is_exact(self) -> bool:
        """Whether the error is that of n refits, with or without a parameter held."""
        return is_exact(self.kind)

    @property
    def note(self) -> str:
        """Number of refits that did not converge and their violation; empty if all converged."""
        if not self.cost.get("unfinished"):
            return ""
        count, worst = int(self.cost["unfinished"]), self.cost.get("violation")
        fits = f"{count} fit{'s' if count > 1 else ''} did not converge"
        return fits if worst is None else f"{fits}, KKT violation up to {worst:.1e}"

    def __str__(self) -> str:
        how = self.kind if self.method == "exact" else f"{self.kind} by {self.method}"
        how = f"{how}: {self.note}" if self.note else how
        return f"leave-one-out error {self.error:.4f} ({how})"


def is_exact(kind: str) -> bool:
    """Return whether a kind of leave-one-out result is exact, also if a parameter is held."""
    return kind.startswith("exact")


class FittedModel:
    """Base class of the data and solutions that a fit keeps for leave-one-out.

    If a model has a `refusal`, `Record` calls only its method `calibrations`.

    Attributes
    ----------
    data : TrainingSet
        The training samples, equal ones merged.
    refusal : str
        Reason why the model has no leave-one-out, as the second part of an error message that
        starts with the purpose of the call; empty if it has.
    methods : tuple of str
        Leave-one-out methods that are valid for the model.
    method_advice : str
        Error message for other methods: the valid ones, and why the others are not.
    retrains : bool
        Whether leave-one-out refits the model.
    ordered : bool
        Whether the classes are ordinal (ranks).
    portable : bool
        Whether the fitted model is pickled with the estimator.
    """

    data: TrainingSet
    refusal: str = ""
    methods: ClassVar[tuple[str, ...]] = ()
    method_advice: ClassVar[str] = ""
    retrains: ClassVar[bool] = False
    ordered: ClassVar[bool] = False
    portable: ClassVar[bool] = True

    @property
    def held(self) -> str:
        """Parameters that leave-one-out holds at their value on all samples; empty if none.

        They are those of an equivalent problem, not parameters of the estimator.
        """
        return ""

    def kept_data(self) -> TrainingSet | None:
        """Return the training samples, or None if they are not kept in memory."""
        return self.data

    # -- leave-one-out -----------------------------------------------------------------------

    def auto_method(self) -> str:
        """Return the method that "auto" selects: the most accurate affordable one."""
        raise NotImplementedError

    def values(self) -> FloatArray:
        """Return the fitted values of the user's samples, one column per binary submodel."""
        raise NotImplementedError

    def left_out(
        self, method: str, record: Record, chosen: BoolArray | None = None
    ) -> LeftOutValues:
        """Return the leave-one-out predictions of the user's samples, per binary submodel.

        With `chosen`, a mask over the user's samples, only those are left out and the others get
        their fitted values. `record` caches intermediate results.
        """
        raise NotImplementedError

    def bounded_errors(self, method: str) -> tuple[BoolArray, str]:
        """Return a mask of the samples that an error bound counts, and the kind of result."""
        raise NotImplementedError

    def result(self, method: str, record: Record) -> LOOResult:
        """Compute the leave-one-out result by the given method."""
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
            if found.violation is not None:
                cost["violation"] = found.violation
            kind = self.kind_of(method, found)
        else:
            errors, kind = self.bounded_errors(method)
        cost["seconds"] = time.perf_counter() - started
        mean = float(weight @ errors) / float(weight.sum())
        name = f"{FOLDS}-fold" if method == "folds" else method
        return LOOResult(name, kind, mean, errors, values, cost)

    def kind_of(self, method: str, found: LeftOutValues) -> str:
        """Return the kind of leave-one-out predictions: exact only if every fit converged."""
        if method != "exact" or found.unfinished:
            return "estimate"
        return f"exact at fixed {self.held}" if self.held else "exact"

    # -- classes and margins -------------------------------------------------------------------

    def classes(self) -> Any:
        """Return the classes in the order of their codes."""
        return np.unique(self.data.y)

    def class_codes(self) -> IntArray:
        """Return the class code of each of the user's samples, -1 for an unknown class.

        A class is unknown if all its samples have zero weight.
        """
        classes, given = self.classes(), self.data.given_y
        by_label = np.argsort(classes, kind="stable")
        place = np.searchsorted(classes[by_label], given)
        known = np.isin(given, classes)
        return np.where(known, by_label[np.minimum(place, len(classes) - 1)], -1)

    def class_scores(self, values: FloatArray, codes: IntArray) -> tuple[FloatArray, float]:
        """Return one score per class, for three or more classes, and the tolerance of ties."""
        return values, TIE

    def judge(self, values: FloatArray) -> tuple[FloatArray, BoolArray | FloatArray]:
        """Return decision values and errors of the samples, given the values of the submodels.

        Ties count as errors.
        """
        codes = self.class_codes()
        if len(self.classes()) == 2:
            values = values[:, 0]
            return values, np.where(codes == 1, values <= TIE, values >= -TIE) | (codes < 0)
        scores, slip = self.class_scores(values, codes)
        own = np.take_along_axis(scores, np.maximum(codes, 0)[:, None], axis=1)
        rivals = np.count_nonzero(scores >= own - slip, axis=1)  # includes the class itself
        return scores, (rivals > 1) | (codes < 0)

    def label_margin(self, decision: FloatArray) -> tuple[FloatArray, Any]:
        """Return the margin of each sample's label and its prediction, from decision values."""
        classes, codes = self.classes(), np.maximum(self.class_codes(), 0)
        if decision.ndim == 1:
            predicted = classes[(decision > 0).astype(np.intp)]
            return np.where(codes == 1, decision, -decision), predicted
        own = np.take_along_axis(decision, codes[:, None], axis=1)[:, 0]
        others = decision.copy()
        np.put_along_axis(others, codes[:, None], -np.inf, axis=1)
        return own - others.max(axis=1), classes[decision.argmax(axis=1)]

    def most_suspicious(self, count: int) -> BoolArray:
        """Return a mask of the `count` most suspicious labels, judged without leave-one-out."""
        raise NotImplementedError

    def coefficient_sizes(self) -> FloatArray | None:
        """Return the absolute coefficients of the user's samples, one row per submodel, or None."""
        return None

    def margin_deficits(self) -> FloatArray | None:
        """Return the slack of each sample beyond its adaptive margin; None for fixed margins."""
        return None

    # -- probabilities -------------------------------------------------------------------------

    def sides(self, n_machines: int) -> list[Sides]:
        """Return the positive and negative class of each binary problem; None for the rest."""
        return [(positive, None) for positive in positive_classes(max(2, n_machines))]

    def calibrations(self, method: str, purpose: str, record: Record) -> list[Calibration]:
        """Calibrate each binary submodel on the leave-one-out decision values of its samples."""
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
    """Fitted classifier with one binary submodel per pair of classes, or per class.

    Attributes
    ----------
    pairs : sequence of (int, int or None)
        Positive and negative class of each submodel, with None for all other classes
        (one-vs-rest); empty for regression.
    """

    pairs: Sequence[Sides]

    def class_scores(self, values: FloatArray, codes: IntArray) -> tuple[FloatArray, float]:
        """Return one-vs-rest values, or aggregate pairwise votes into class scores.

        Ties of votes count against a sample's own class.
        """
        if self.pairs[0][1] is None:
            return super().class_scores(values, codes)
        for k, (positive, negative) in enumerate(self.pairs):
            tied = np.abs(values[:, k]) <= TIE
            lost = np.where(codes == positive, -0.0, np.where(codes == negative, TIE, 0.0))
            values[tied, k] = lost[tied]
        return combine(values, len(self.classes())), 0.0

    def sides(self, n_machines: int) -> list[Sides]:
        """Return the positive and negative class of each binary problem."""
        return list(self.pairs)


class LeavingRows:
    """Rows of a binary problem to leave out, and the user's samples that they represent.

    Equal samples were merged into one row. Those of equal weight remove the same fraction of that
    row, so one computation serves all of them.

    Attributes
    ----------
    rows : ndarray
        Indices of the rows to leave out, in the order of the binary problem.
    fraction : ndarray
        Fraction of each row's weight that is removed.
    given : ndarray
        Indices of the user's samples that are left out.
    back : ndarray
        For each of these samples, its index in `rows`.
    """

    def __init__(self, data: TrainingSet, rows: IntArray, chosen: BoolArray | None) -> None:
        local = np.full(len(data.weight) + 1, -1, dtype=np.intp)
        local[rows] = np.arange(len(rows))
        row = local[data.member]  # member is -1 for zero weight and selects the last entry
        present = row >= 0
        if chosen is not None:
            present &= chosen
        self.given = np.flatnonzero(present)
        merged = data.weight[data.member[self.given]]
        fraction = np.minimum(1.0, data.given_weight[self.given]) / merged
        # 0 < fraction <= 1, so the sum identifies the pair (row, fraction).
        key = row[self.given] + 0.5 * fraction
        _, first, self.back = np.unique(key, return_index=True, return_inverse=True)
        self.rows: IntArray = row[self.given][first]
        self.fraction: FloatArray = fraction[first]


def first_in(order: IntArray, count: int) -> BoolArray:
    """Return a mask of the first `count` indices of a permutation."""
    chosen = np.zeros(len(order), dtype=bool)
    chosen[order[:count]] = True
    return chosen
