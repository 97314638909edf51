"""Verdict on a certificate: what it states beside the exact objectives.

`Truth` holds exact objectives of one problem; `judged` compares a certificate with them. A share of
fits states a gap above ten times the true one: this is no fault but is counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tests.helpers.exact_numbers import rational

FAULTS = ("primal below truth", "dual above truth", "gap understated", "worse than constant")
WIDE = 10
VISIBLE = 1e-6
"""Relative gap above which a gap that is stated too large is counted apart."""


@dataclass(frozen=True)
class Truth:
    """Exact objectives of one problem.

    Attributes
    ----------
    primal : Fraction or None
        Objective of the published model; None is infinite.
    upper : Fraction or None
        Smallest exact objective of any feasible point that was tried.
    lower : Fraction or None
        Largest exact dual objective that was found; None if none was computed.
    constant : Fraction or None
        Objective of the best constant model; None if there is none.
    noise : Fraction
        Error of the exact objectives, zero for rational kernels.
    """

    primal: Fraction | None
    upper: Fraction | None
    lower: Fraction | None
    constant: Fraction | None
    noise: Fraction = Fraction(0)


@dataclass(frozen=True)
class Verdict:
    """Faults of one certificate, and how wide its gap is.

    Attributes
    ----------
    faults : list of str
        Members of `FAULTS`.
    stated, true : float
        Stated gap, and the best known true one (NaN if no lower bound was computed).
    relative : float
        Stated relative gap.
    """

    faults: list[str]
    stated: float
    true: float
    relative: float

    @property
    def is_wide(self) -> bool:
        """Whether the stated gap is more than `WIDE` times the true one."""
        return self.stated > WIDE * self.true


def judged(certificate: Any, truth: Truth) -> Verdict:
    """Compare a certificate with exact objectives."""
    P, U, L, noise = truth.primal, truth.upper, truth.lower, truth.noise
    faults = []
    stated = [certificate.primal, certificate.dual, certificate.gap, certificate.relative_gap]
    if any(math.isnan(number) for number in stated):
        return Verdict(list(FAULTS[:3]), math.nan, math.nan, math.nan)
    if _below(certificate.primal, P, noise):
        faults.append(FAULTS[0])
    if U is not None and not _at_most(certificate.dual, U, noise):
        faults.append(FAULTS[1])
    if P is None:
        if math.isfinite(certificate.gap) or math.isfinite(certificate.relative_gap):
            faults.append(FAULTS[2])
    elif U is not None:
        true = P - U
        scale = math.inf if math.isinf(certificate.primal) else abs(rational(certificate.primal))
        relative = true / max(Fraction(1), scale) if scale != math.inf else Fraction(0)
        low = _below(certificate.gap, true, noise)
        if low or _below(certificate.relative_gap, relative, noise):
            faults.append(FAULTS[2])
    constant = None if certificate.converged else truth.constant
    if constant is not None and (P is None or constant + noise + slack_of(constant) < P):
        faults.append(FAULTS[3])
    true_gap = float(max(P - L, 0)) if P is not None and L is not None else math.nan
    return Verdict(faults, certificate.gap, true_gap, certificate.relative_gap)


def slack_of(constant: Fraction) -> Fraction:
    """Return by how much the rounding of its thresholds can make a constant model worse."""
    return Fraction(1, 10**9) * max(Fraction(1), abs(constant))


def _below(stated: float, exact: Fraction | None, noise: Fraction) -> bool:
    """Check that a stated number is below an exact one; None is infinite."""
    if math.isinf(stated):
        return stated < 0
    return exact is None or rational(stated) < exact - noise


def _at_most(stated: float, exact: Fraction, noise: Fraction) -> bool:
    """Check that a stated number does not exceed an exact one."""
    return stated < 0 if math.isinf(stated) else rational(stated) <= exact + noise


def least(values: list[Any]) -> Any:
    """Return the smallest of some numbers that are not None, or None."""
    known = [value for value in values if value is not None]
    return min(known) if known else None


def largest(values: list[Any]) -> Any:
    """Return the largest of some numbers that are not None, or None."""
    known = [value for value in values if value is not None]
    return max(known) if known else None
