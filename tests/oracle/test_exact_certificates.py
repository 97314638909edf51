"""Certificates of hostile fits, judged in exact arithmetic: no bound misses the truth.

The judge (`tests.helpers.exact_machines`) reads the published model only and recomputes all
objectives with rational numbers, or with 80 digits where the kernel is not rational. No fit is
excused. tests/fuzz/test_fuzz_exact_certificates.py judges more of them.
"""

from __future__ import annotations

import pytest

from tests.helpers.exact_machines import MACHINES, judge_seed

# Their certificates do not count rounding errors yet.
NOT_YET = {
    "LPSVC",
    "NuLPSVC",
    "LOOSVC",
    "AdaptiveMarginSVC",
    "OrdinalSVC",
    "CumulativeLink",
    "MeanFieldGP",
    "LinearSVC in parts",
}
JUDGED = sorted(set(MACHINES) - NOT_YET)
NEVER_WORSE = ("SVC hinge", "SVC squared hinge", "NuSVC", "SVR", "NuSVR", "OneClassSVM")
FEW = 10
FALSE = {"primal below truth", "dual above truth", "gap understated"}


def faults(name: str, seed: int) -> list[str]:
    """Return the faults of all certificates of one fit."""
    return [fault for verdict in judge_seed(name, seed).verdicts for fault in verdict.faults]


@pytest.mark.parametrize("name", JUDGED)
def test_no_bound_misses_the_truth(name: str) -> None:
    found = {seed: faults(name, seed) for seed in range(FEW)}
    assert {seed: wrong for seed, wrong in found.items() if FALSE & set(wrong)} == {}


@pytest.mark.parametrize("name", NEVER_WORSE)
def test_no_unconverged_fit_is_worse_than_a_constant(name: str) -> None:
    found = {seed: faults(name, seed) for seed in range(100, 100 + 2 * FEW)}
    assert {seed: wrong for seed, wrong in found.items() if wrong} == {}
