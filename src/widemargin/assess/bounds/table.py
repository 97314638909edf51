"""Result of `bounds.summary`: the bounds that apply to a model, and those that do not."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from widemargin._base.bound import Bound

WIDTH = 96
THEOREMS = {
    "vc": "Smola et al. (2000), theorem 1.2",
    "vc_lower": "Smola et al. (2000), theorem 1.3",
    "vc_margin_dimension": "Smola et al. (2000), (1.35)",
    "margin_cover": "Smola et al. (2000), theorem 1.5",
    "regression_cover": "Smola et al. (2000), theorem 1.6",
    "linear_margin": "Smola et al. (2000), theorem 1.8",
    "fat_l1": "Smola et al. (2000), theorems 1.9 and 1.5",
    "convex_combination": "Smola et al. (2000), theorem 1.10",
    "margin_distribution": "Smola et al. (2000), theorem 2.1",
    "adaptive_margin": "Smola et al. (2000), theorem 2.2",
    "ordinal_margin": "Herbrich et al. (2000), theorem 2.2",
    "shawe_taylor": "Herbrich et al. (2000), theorem 2.3",
    "adaboost": "Smola et al. (2000), theorem 1.12",
    "perceptron": "Smola et al. (2000), theorem 1.1",
}
"""All that a summary may list, by the names of the functions."""


@dataclass(frozen=True)
class AppliedBound:
    """Bound that applies to a model.

    Attributes
    ----------
    function : str
        The function of :mod:`widemargin.bounds` that computed it.
    value : Bound or float
        Its value; a plain number if it does not bound an error rate.
    inputs : dict
        The arguments of the function, or the quantities that they were computed from.
    words : str
        Description of the guarantee and its assumptions.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import LinearSVC, bounds
    >>> X, y = load_iris(return_X_y=True)
    >>> found = bounds.summary(LinearSVC().fit(X[:100], y[:100]), X[:100], y[:100])
    >>> row = found["shawe_taylor"]
    >>> row.theorem, row.value.vacuous, row.inputs["m"]
    ('Herbrich et al. (2000), theorem 2.3', True, 100)
    """

    function: str
    value: Bound | float
    inputs: dict[str, float]
    words: str

    @property
    def theorem(self) -> str:
        """Reference of the theorem."""
        return THEOREMS[self.function]

    @property
    def on_new_rows(self) -> bool:
        """Whether the bound concerns new samples instead of training."""
        return "new rows" in getattr(self.value, "of", "")

    @property
    def vacuous(self) -> bool:
        """Whether the bound is vacuous; always False for numbers that do not bound an error."""
        return bool(getattr(self.value, "vacuous", False))

    def __str__(self) -> str:
        note = "vacuous" if self.vacuous else ""
        head = f"{float(self.value):<10.4g} {note:<8} {self.function:<20}"
        given = ", ".join(f"{name} = {value:.4g}" for name, value in self.inputs.items())
        return "\n".join([f"{head} {self.theorem}", *_indented(given), *_indented(self.words)])


@dataclass(frozen=True)
class NotApplied:
    """Bound that does not apply to a model, or requires an unknown quantity.

    Attributes
    ----------
    function : str
        The function of :mod:`widemargin.bounds`.
    why : str
        The reason.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import LinearSVC, bounds
    >>> X, y = load_iris(return_X_y=True)
    >>> found = bounds.summary(LinearSVC().fit(X[:100], y[:100]), X[:100], y[:100])
    >>> print(found.others[0])
    vc                   Smola et al. (2000), theorem 1.2
        needs c, a constant that the theorem does not name: summary(..., c=...)
    """

    function: str
    why: str

    @property
    def theorem(self) -> str:
        """Reference of the theorem."""
        return THEOREMS[self.function]

    def __str__(self) -> str:
        return f"{self.function:<20} {self.theorem}\n" + "\n".join(_indented(self.why))


class BoundSummary:
    """Bounds that apply to a model, smallest first, and the reasons why others do not.

    Bounds with unmet conditions come after those that hold, and bounds that do not concern new
    samples come last. Iteration is over :attr:`rows`.

    Parameters
    ----------
    model : str
        Name of the model.
    m : int
        Number of samples.
    delta : float
        Confidence parameter: each bound fails with probability at most delta.
    rows : list of AppliedBound
        The bounds that apply, in any order.
    others : list of NotApplied
        The bounds that do not apply.

    Attributes
    ----------
    rows : tuple of AppliedBound
        The bounds that apply, sorted.
    others : tuple of NotApplied
        The bounds that do not apply.
    best : AppliedBound or None
        The smallest bound on new samples that is not vacuous.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import LinearSVC, bounds
    >>> X, y = load_iris(return_X_y=True)
    >>> found = bounds.summary(LinearSVC().fit(X[:100], y[:100]), X[:100], y[:100], c=1.0)
    >>> found.best.function, round(found.best.value, 2)
    ('vc', 0.28)
    """

    def __init__(
        self,
        model: str,
        m: int,
        delta: float,
        rows: list[AppliedBound],
        others: list[NotApplied],
    ) -> None:
        self.model, self.m, self.delta = model, m, delta

        def rank(row: AppliedBound) -> tuple[bool, bool, float]:
            unmet, value = bool(getattr(row.value, "unmet", ())), float(row.value)
            return not row.on_new_rows, unmet, math.inf if math.isnan(value) else value

        self.rows = tuple(sorted(rows, key=rank))
        self.others = tuple(others)

    @property
    def best(self) -> AppliedBound | None:
        """Smallest non-vacuous bound of the error on new samples, or None."""
        for row in self.rows:
            if row.on_new_rows and not row.vacuous:
                return row
        return None

    def __iter__(self) -> Iterator[AppliedBound]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, function: str) -> AppliedBound:
        """Return the bound of the given function name."""
        for row in self.rows:
            if row.function == function:
                return row
        why = [other.why for other in self.others if other.function == function]
        raise KeyError(f"{function} does not apply: {why[0]}" if why else f"no bound {function!r}")

    def __str__(self) -> str:
        lines = [f"Bounds for {self.model} on {self.m} rows, delta = {self.delta:g}", ""]
        for row in self.rows:
            lines += [str(row), ""]
        if not self.rows:
            lines += ["none applies", ""]
        lines += textwrap.wrap(
            "Each holds with probability 1 - delta by itself. Who takes the smallest of several "
            "has to share delta among them. Rows are taken to be drawn independently.",
            WIDTH,
        )
        if self.others:
            lines += ["", "Not among them:", ""]
            lines += [str(other) for other in self.others]
        return "\n".join(lines)

    __repr__ = __str__


def _indented(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="    ")
