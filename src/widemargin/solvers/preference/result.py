"""Result of the preference solvers."""

from __future__ import annotations

from dataclasses import dataclass

from widemargin.problems.preference import PreferenceModel
from widemargin.solvers.base import Result


@dataclass(frozen=True, eq=False, kw_only=True)
class PreferenceResult(Result, PreferenceModel):
    """A model that the problem certifies, and how the solver ended."""
