"""Rank training samples by how much leave-one-out contradicts their label.

Opper and Winther (2000), section 8.7, look only at the rows with the largest coefficients, since a
wrong label needs a large one to be learnt. That evaluates fewer rows and finds nearly the same
ones; `suspects` does so on request and says how many it has evaluated. The machines that are linear
programs give up on a wrong label instead of learning it, and so does flip noise in a Gaussian
process: there the rows with the least margin are looked at.
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
    """A training row and the evidence against its label.

    Attributes
    ----------
    row : int
        Number of the row in the training data.
    label : object
        The label it has.
    predicted : object
        What the model without the row predicts (for a regressor, the value).
    margin : float
        Left-out margin of the label: negative where the model without the row contradicts it, and
        the more so the further below zero. For a regressor, minus the absolute error.
    weight : float
        Weight of the row.

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
    """Doubtful training rows, the most doubtful one first.

    Attributes
    ----------
    found : list of Suspect
        The rows.
    evaluated : int
        How many rows were left out to find them.
    n_rows : int
        How many there are.
    error : float
        Leave-one-out error; a lower bound where not all rows were evaluated.
    kind : {"exact", "estimate", "lower bound"}
        What `error` is.
    seconds : float
        Time taken.

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
        """Numbers of the rows."""
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
    """Return the training rows whose label is most doubtful.

    Rows are ranked by the margin that their label has in the model without them. With several
    classes that is the label's score less the best other one.

    Parameters
    ----------
    est : estimator
        A fitted machine that :func:`widemargin.loo.result` takes, or a pipeline that ends in one.
    n : int, default=10
        How many rows to return.
    screen : float, default=None
        Fraction of the rows to evaluate, those with the largest coefficients (Opper and Winther
        2000, section 8.7, take 0.1); of LOOSVC, AdaptiveMarginSVC, LPSVC, NuLPSVC and
        MeanFieldGPClassifier with flip noise those with the least margin. The others are taken to
        be unsuspicious, so the error that is reported is a lower bound. None evaluates all rows.

    Returns
    -------
    Suspects
        A sequence of :class:`~widemargin.assess.suspects.Suspect` with the cost and the error
        found; printing it shows a table.

    See Also
    --------
    loo.result : The values that the margins come from.

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
        exact = not left_out.unfinished if model.retrains else method == "exact"
        kind = "lower bound" if exact else "estimate"
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
