"""Rank training samples by the leave-one-out margins of their labels, to find label errors.

Opper and Winther (2000), section 8.7, evaluate only the samples with the largest coefficients,
since fitting a wrong label requires a large one. This finds nearly the same samples at lower cost;
`suspects` does so on request and reports the number of samples evaluated. Linear programs, and
Gaussian processes with flip noise, do not fit a wrong label; for these the samples with the
smallest margins are evaluated instead.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np

from widemargin._base.typing import IntArray
from widemargin._base.validation import require, require_integer
from widemargin.fitted.record import record_of

__all__ = ["Suspect", "Suspects", "suspects"]


@dataclass(frozen=True)
class Suspect:
    """Training sample whose label the leave-one-out prediction contradicts.

    Attributes
    ----------
    row : int
        Index of the sample in the training data.
    label : object
        Its label.
    predicted : object
        Its leave-one-out prediction.
    margin : float
        Leave-one-out margin of the label: negative if the model without the sample predicts
        another label. For a regressor, minus the absolute error.
    weight : float
        Its weight.

    Examples
    --------
    >>> from widemargin.assess.suspects import Suspect
    >>> Suspect(row=20, label=2, predicted=0, margin=-1.5, weight=1.0).row
    20
    """

    row: int
    label: Any
    predicted: Any
    margin: float
    weight: float


@dataclass(frozen=True, eq=False)
class Suspects(Sequence[Suspect]):
    """Suspicious training samples, smallest leave-one-out margin first.

    Attributes
    ----------
    found : list of Suspect
        The samples.
    evaluated : int
        Number of samples that were left out to find them.
    n_rows : int
        Number of training samples.
    error : float
        Leave-one-out error; a lower bound if not all samples were evaluated.
    kind : str
        Whether `error` is "exact", an "estimate" or a "lower bound"; a nu machine appends the
        parameter that is held ("exact at fixed C"), see :class:`widemargin.loo.LOOResult`.
    seconds : float
        Computing time.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import SVC, suspects
    >>> found = suspects(SVC(C=10).fit(*load_iris(return_X_y=True)), 3)
    >>> len(found), found.evaluated, found.kind
    (3, 150, 'exact')
    """

    found: list[Suspect] = field(repr=False)
    evaluated: int
    n_rows: int
    error: float
    kind: str
    seconds: float

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[Suspect]:
        return iter(self.found)

    @overload
    def __getitem__(self, index: int) -> Suspect: ...
    @overload
    def __getitem__(self, index: slice) -> list[Suspect]: ...
    def __getitem__(self, index: int | slice) -> Suspect | list[Suspect]:
        return self.found[index]

    @property
    def rows(self) -> IntArray:
        """Indices of the samples in the training data."""
        return np.array([suspect.row for suspect in self.found], dtype=np.intp)

    def __str__(self) -> str:
        lines = [f"{'row':>8} {'label':>12} {'left-out says':>14} {'margin':>9}"]
        for s in self.found:
            predicted = f"{s.predicted:.4g}" if isinstance(s.predicted, float) else s.predicted
            lines.append(f"{s.row:>8} {s.label!s:>12} {predicted!s:>14} {s.margin:>9.3f}")
        lines.append(
            f"{self.evaluated} of {self.n_rows} rows left out in {self.seconds:.2f} s; "
            f"leave-one-out error {self.error:.4f} ({self.kind})"
        )
        return "\n".join(lines)


def suspects(est: Any, n: int = 10, *, screen: float | None = None) -> Suspects:
    """Return the training samples whose labels are most likely wrong.

    Samples are ranked by the leave-one-out margin of their label: with several classes, the score
    of the label minus the largest other score.

    Parameters
    ----------
    est : estimator
        A fitted estimator that :func:`widemargin.loo.result` supports, or a pipeline that ends in
        one.
    n : int, default=10
        Number of samples to return.
    screen : float, default=None
        Fraction of the samples to evaluate: those with the largest coefficients (Opper and Winther
        2000, section 8.7, use 0.1), or with the smallest margins for LOOSVC, AdaptiveMarginSVC,
        LPSVC, NuLPSVC and MeanFieldGPClassifier with flip noise. The others are assumed to be
        correctly predicted, so the reported error is a lower bound. None evaluates all samples.

    Returns
    -------
    Suspects
        A sequence of :class:`~widemargin.assess.suspects.Suspect`, with the leave-one-out error
        and the computational cost; printing it shows a table.

    See Also
    --------
    loo.result : Leave-one-out decision values, from which the margins are computed.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import SVC, suspects
    >>> X, y = load_iris(return_X_y=True)
    >>> y[20] = 2  # a wrong label
    >>> found = suspects(SVC(C=10).fit(X, y), 3)
    >>> found[0].row, int(found[0].label), int(found[0].predicted)
    (20, 2, 0)
    """
    require_integer("n", n, "a positive integer")
    started = time.perf_counter()
    record = record_of(est)
    if screen is None:
        result = record.result()
        values, errors, kind = result.values, result.errors, result.kind
        model = record.require("suspects")
        chosen = np.ones(len(errors), dtype=bool)
    else:
        good = isinstance(screen, float | int) and not isinstance(screen, bool)
        require(good and 0 < screen <= 1, "screen", screen, "None or a fraction in (0, 1]")
        model = record.require("suspects")
        count = math.ceil(float(screen) * np.count_nonzero(model.data.given_weight))
        chosen, method = model.most_suspicious(max(1, count)), model.auto_method()
        left_out = model.left_out(method, record, chosen)
        values, errors = model.judge(left_out.values)
        errors = np.where(chosen, errors, 0)
        kind = model.kind_of(method, left_out).replace("exact", "lower bound")
    assert values is not None
    weight = model.data.given_weight
    margin, predicted = model.label_margin(values)
    candidates = np.flatnonzero(chosen & (weight > 0))
    ranked = candidates[np.argsort(margin[candidates], kind="stable")][:n]
    found = [
        Suspect(int(row), model.data.given_y[row], predicted[row], float(margin[row]),
                float(weight[row]))
        for row in ranked
    ]  # fmt: skip
    mean = float(weight @ errors) / float(weight.sum())
    seconds = time.perf_counter() - started
    return Suspects(found, int(np.count_nonzero(chosen)), len(weight), mean, kind, seconds)
