"""One published number or claim, ours beside it, and the verdict by rules that are fixed here.

**Numbers.** d is ours minus the published value. Ours is a mean over splits with its standard
error; where the published number is itself that of one split, the standard deviation over our
splits takes the place of the standard error, since one split is all there is to compare with. Every
number has a tolerance of its own, named beforehand.

- *reproduced*: d is within two (standard) errors, or within the rounding of the published number,
  and never more than the tolerance: a noisy mean reproduces nothing;
- *close*: d is within the tolerance;
- *differs*: everything else.

**Claims.** What a figure shows or a text says in words is made a statement that is true or false,
and counted over seeded draws, rows, sizes or data sets. *Reproduced*: it holds in at least nine of
ten; *close*: in more than half; *differs*: otherwise.

**Bounds.** A proved upper bound is *reproduced* where our mean is at most the bound, else it
*differs*.

**Not to be had.** What cannot be measured here; the reason is given.

A reason may be given with any item. It is shown where the item differs, and never makes a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

REPRODUCED, CLOSE, DIFFERS = "reproduced", "close", "differs"
NOT_TO_BE_HAD = "not to be had"
VERDICTS = (REPRODUCED, CLOSE, DIFFERS, NOT_TO_BE_HAD)
ERRORS = 2.0  # standard errors within which a number is reproduced
CROSSED = 1e-9  # relative, by which rounding may lift a lower bound above the objective
ALMOST_ALWAYS, MORE_OFTEN_THAN_NOT = 0.9, 0.5  # shares of draws in which a claim holds


def verdict_of_number(difference: float, error: float, rounding: float, within: float) -> str:
    """Judge a difference; ``error`` is 0 for a single value. NaN is never near."""
    if not abs(difference) <= within:
        return DIFFERS
    return REPRODUCED if abs(difference) <= max(ERRORS * error, rounding) else CLOSE


def verdict_of_claim(held: int, count: int) -> str:
    """Judge how often a statement was true."""
    if held >= ALMOST_ALWAYS * count:
        return REPRODUCED
    return CLOSE if held > MORE_OFTEN_THAN_NOT * count else DIFFERS


def verdict_of_bound(value: float, bound: float) -> str:
    """Judge a mean against a proved upper bound."""
    return REPRODUCED if value <= bound else DIFFERS


def rounding_of(published: str) -> float:
    """Return half a unit of the last digit of a number as it is printed."""
    decimals = len(published.partition(".")[2])
    return 0.5 * 10.0**-decimals * (1 + 1e-9)  # the last digit itself is not exact in binary


@dataclass(frozen=True)
class Item:
    """A line of the table.

    Attributes
    ----------
    work, place, quantity : str
        Who published it, in which table or figure, and what it is.
    published, ours, difference : str
        As they are shown; empty where there is nothing to show.
    verdict : str
        One of `VERDICTS`.
    reason : str
        Why it differs, or why it cannot be had; empty otherwise.
    value, error, within : float or None
        The raw figures: ours (or the share of a claim), its error, the tolerance.
    """

    work: str
    place: str
    quantity: str
    published: str
    ours: str
    difference: str
    verdict: str
    reason: str = ""
    value: float | None = None
    error: float | None = None
    within: float | None = None


@dataclass
class Findings:
    """The items of one work.

    Attributes
    ----------
    work : str
        Who published it.
    items : list of Item
        In the order of the table.
    fits : int
        Fits that were asked for a proof of their optimum.
    unproved : list of str
        Those that say that they have none, as they should on problems that rounding decides.
    failures : list of str
        Where our own results contradict each other.
    """

    work: str
    items: list[Item] = field(default_factory=list)
    fits: int = 0
    unproved: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def number(
        self,
        place: str,
        quantity: str,
        published: str,
        found: float | Sequence[float],
        *,
        within: float,
        rounding: float | None = None,
        reason: str = "",
        of_one_split: bool = False,
    ) -> None:
        """Add a number; ``found`` is one value, or those of all splits.

        The rounding is that of the printed digits. Where the published "number" is a zero that is
        said in words, or that a formula stands for, the caller names it.
        """
        values = np.atleast_1d(np.asarray(found, dtype=np.float64))
        value, error = float(values.mean()), _error(values, of_one_split)
        difference = value - float(published)
        known = 0.0 if math.isnan(error) else error
        rounded = rounding_of(published) if rounding is None else rounding
        verdict = verdict_of_number(difference, known, rounded, within)
        digits = max(len(published.partition(".")[2]), 1 if len(values) > 1 else 0) + bool(known)
        shown, less = _shown(value, digits), _shown(difference, digits, sign="+")
        if known:
            shown += f" ± {error:.{digits}f}"
        self._add(place, quantity, published, shown, less, verdict, reason, value, error, within)

    def claim(
        self,
        place: str,
        quantity: str,
        holds: Sequence[bool],
        of: str,
        *,
        published: str = "yes",
        reason: str = "",
    ) -> None:
        """Add a statement and whether it was true each time; ``of`` says of what."""
        held, count = int(np.count_nonzero(holds)), len(holds)
        verdict = verdict_of_claim(held, count)
        ours = f"{held} of {count} {of}"
        self._add(place, quantity, published, ours, "", verdict, reason, held / count)

    def bound(
        self, place: str, quantity: str, bound: float, found: Sequence[float], reason: str = ""
    ) -> None:
        """Add a proved upper bound and our values, whose mean has to keep it."""
        values = np.asarray(found, dtype=np.float64)
        value, error = float(values.mean()), _error(values, False)
        self._add(
            place,
            quantity,
            f"≤ {bound:.0f}",
            f"{value:.1f} ± {error:.1f}" if not math.isnan(error) else f"{value:.1f}",
            f"{value / bound - 1:+.0%}",
            verdict_of_bound(value, bound),
            reason,
            value,
            error,
        )

    def missing(self, place: str, quantity: str, published: str, reason: str) -> None:
        """Add what cannot be had."""
        self._add(place, quantity, published, "", "", NOT_TO_BE_HAD, reason)

    def proved(self, what: str, model: Any) -> None:
        """Count a fit, and whether it proves its optimum; bounds that cross are a failure."""
        certificate = model.certificate_
        self.count_fit(what, None if certificate.converged else certificate.relative_gap)
        crossed = certificate.dual - certificate.primal
        if not crossed <= CROSSED * max(1.0, abs(certificate.primal)):
            self.failures.append(f"{what}: the lower bound is above the objective ({crossed:.1e})")

    def count_fit(self, what: str, gap: float | None) -> None:
        """Count a fit with the gap that it left open, if it did."""
        self.fits += 1
        if gap is not None:
            self.unproved.append(f"{what} (gap {gap:.0e})")

    def _add(
        self,
        place: str,
        quantity: str,
        published: str,
        ours: str,
        difference: str,
        verdict: str,
        reason: str,
        value: float | None = None,
        error: float | None = None,
        within: float | None = None,
    ) -> None:
        shown = reason if verdict in (DIFFERS, NOT_TO_BE_HAD) else ""
        known = None if error is None or math.isnan(error) else error
        cells = (place, quantity, published, ours, difference, verdict, shown)
        self.items.append(Item(self.work, *cells, value, known, within))


def _error(values: np.ndarray, of_one_split: bool) -> float:
    """Return the standard error of a mean, or the standard deviation; NaN for one value."""
    if len(values) < 2:
        return math.nan
    spread = float(np.std(values, ddof=1))
    return spread if of_one_split else spread / math.sqrt(len(values))


def _shown(value: float, digits: int, sign: str = "") -> str:
    """Return a number with so many digits behind the point, or what it is if that shows nothing."""
    tiny = value != 0 and abs(value) < 1e-6
    return f"{value:{sign}.0e}" if tiny else f"{value:{sign}.{digits}f}"


def counts(items: Sequence[Item]) -> dict[str, int]:
    """Return how many items have each verdict."""
    return {verdict: sum(item.verdict == verdict for item in items) for verdict in VERDICTS}
