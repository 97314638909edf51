"""Items of the literature benchmark: published value, our value, and the rules of the verdict.

**Numbers.** d is our value minus the published value. Ours is a mean over splits with its standard
error. If the published number is the result of a single split, the standard deviation over our
splits replaces the standard error. Every number has its own tolerance, fixed beforehand.

- *reproduced*: |d| is at most two (standard) errors, or at most the rounding of the published
  number, and in either case at most the tolerance, so that a noisy mean does not count;
- *close*: |d| is at most the tolerance;
- *differs*: otherwise.

**Claims.** A claim of a figure or text is turned into a statement that is true or false, and
counted over seeded draws, samples, sizes or data sets. *Reproduced*: it holds in at least nine of
ten; *close*: in more than half; *differs*: otherwise.

**Bounds.** A proved upper bound is *reproduced* if our mean is at most the bound, otherwise it
*differs*.

**Not available** (`NOT_AVAILABLE`). The item cannot be measured here; the reason is given.

Any item may have a reason, and the command of an experiment that checks it. Both are shown if the
item differs and do not affect the verdict.

**Free choices.** If a figure leaves something open (the points, the width of the kernel, the place
of an outlier), its claims are counted over the whole range of the choice, and `Range` tables show
the share of draws by setting.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

REPRODUCED, CLOSE, DIFFERS = "reproduced", "close", "differs"
NOT_AVAILABLE = "not available"
VERDICTS = (REPRODUCED, CLOSE, DIFFERS, NOT_AVAILABLE)
ERRORS = 2.0  # standard errors within which a number is reproduced
CROSSED = 1e-9  # relative: by how much rounding errors may put a lower bound above its objective
ALMOST_ALWAYS, MORE_OFTEN_THAN_NOT = 0.9, 0.5  # fractions of draws in which a claim holds


def verdict_of_number(difference: float, error: float, rounding: float, within: float) -> str:
    """Return the verdict on a number; ``error`` is 0 for a single value, NaN always differs."""
    if not abs(difference) <= within:
        return DIFFERS
    return REPRODUCED if abs(difference) <= max(ERRORS * error, rounding) else CLOSE


def verdict_of_claim(held: int, count: int) -> str:
    """Return the verdict on a claim that held in `held` of `count` cases."""
    if held >= ALMOST_ALWAYS * count:
        return REPRODUCED
    return CLOSE if held > MORE_OFTEN_THAN_NOT * count else DIFFERS


def verdict_of_bound(value: float, bound: float) -> str:
    """Return the verdict on a mean with a proved upper bound."""
    return REPRODUCED if value <= bound else DIFFERS


def rounding_of(published: str) -> float:
    """Return half a unit in the last printed digit of a number."""
    decimals = len(published.partition(".")[2])
    return 0.5 * 10.0**-decimals * (1 + 1e-9)  # decimal fractions are not exact in binary


@dataclass(frozen=True)
class Item:
    """A line of the table.

    Attributes
    ----------
    work, place, quantity : str
        Publication, table or figure, and the quantity.
    published, ours, difference : str
        Formatted values; empty if there is none.
    verdict : str
        One of `VERDICTS`.
    reason : str
        Why it differs or is not available; empty otherwise.
    value, error, within : float or None
        Unformatted values: ours (or the fraction in which a claim held), its error, the tolerance.
    experiment : str
        Command whose output shows the reason; empty if the item does not differ.
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
    experiment: str = ""


@dataclass(frozen=True)
class Range:
    """A table of results over the whole range of a free choice; the first column names the rows."""

    work: str
    title: str
    headings: list[str]
    rows: list[list[str]]


@dataclass
class Findings:
    """Items of one publication.

    Attributes
    ----------
    work : str
        The publication.
    items : list of Item
        Items in the order of the table.
    fits : int
        Number of fits whose certificate was checked.
    unproved : list of str
        Those whose certificate has not converged, for example because rounding errors dominate.
    failures : list of str
        Contradictions between our own results.
    ranges : list of Range
        Results over the range of free choices.
    """

    work: str
    items: list[Item] = field(default_factory=list)
    fits: int = 0
    unproved: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)

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
        experiment: str = "",
        of_one_split: bool = False,
    ) -> None:
        """Add a number; ``found`` is one value, or one value per split.

        ``rounding`` defaults to half a unit in the last printed digit. It must be given if the
        published "number" is a zero stated in words or implied by a formula.
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
        cells = (place, quantity, published, shown, less, verdict)
        self._add(*cells, reason, experiment, value, error, within)

    def claim(
        self,
        place: str,
        quantity: str,
        holds: Sequence[bool],
        of: str,
        *,
        published: str = "yes",
        reason: str = "",
        experiment: str = "",
    ) -> None:
        """Add a claim and whether it held in each case; ``of`` names the cases ("draws")."""
        held, count = int(np.count_nonzero(holds)), len(holds)
        verdict = verdict_of_claim(held, count)
        ours = f"{held} of {count} {of}"
        cells = (place, quantity, published, ours, "", verdict)
        self._add(*cells, reason, experiment, held / count)

    def bound(
        self, place: str, quantity: str, bound: float, found: Sequence[float], reason: str = ""
    ) -> None:
        """Add a proved upper bound and our values, whose mean should not exceed it."""
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
            "",
            value,
            error,
        )

    def over_range(self, title: str, headings: list[str], rows: list[list[str]]) -> None:
        """Add a table over the range of a free choice."""
        self.ranges.append(Range(self.work, title, headings, rows))

    def missing(self, place: str, quantity: str, published: str, reason: str) -> None:
        """Add an item that cannot be measured here."""
        self._add(place, quantity, published, "", "", NOT_AVAILABLE, reason)

    def proved(self, what: str, model: Any) -> None:
        """Count a fit and check its certificate; a lower bound above the objective is a failure."""
        certificate = model.certificate_
        self.count_fit(what, None if certificate.converged else certificate.relative_gap)
        crossed = certificate.dual - certificate.primal
        if not crossed <= CROSSED * max(1.0, abs(certificate.primal)):
            self.failures.append(f"{what}: the lower bound is above the objective ({crossed:.1e})")

    def count_fit(self, what: str, gap: float | None) -> None:
        """Count a fit; ``gap`` is its relative gap if the certificate has not converged."""
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
        experiment: str = "",
        value: float | None = None,
        error: float | None = None,
        within: float | None = None,
    ) -> None:
        shown = reason if verdict in (DIFFERS, NOT_AVAILABLE) else ""
        checked = experiment if verdict == DIFFERS else ""
        known = None if error is None or math.isnan(error) else error
        cells = (place, quantity, published, ours, difference, verdict, shown)
        self.items.append(Item(self.work, *cells, value, known, within, checked))


def _error(values: np.ndarray, of_one_split: bool) -> float:
    """Return the standard error of the mean, or the standard deviation; NaN for one value."""
    if len(values) < 2:
        return math.nan
    spread = float(np.std(values, ddof=1))
    return spread if of_one_split else spread / math.sqrt(len(values))


def _shown(value: float, digits: int, sign: str = "") -> str:
    """Format a number with `digits` decimals, or in scientific notation below 1e-6."""
    tiny = value != 0 and abs(value) < 1e-6
    return f"{value:{sign}.0e}" if tiny else f"{value:{sign}.{digits}f}"


def counts(items: Sequence[Item]) -> dict[str, int]:
    """Count the items with each verdict."""
    return {verdict: sum(item.verdict == verdict for item in items) for verdict in VERDICTS}
