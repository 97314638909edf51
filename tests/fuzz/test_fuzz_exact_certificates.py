"""More hostile fits than in tests/oracle/test_exact_certificates.py, judged in exact arithmetic."""

from __future__ import annotations

import pytest

from tests.oracle.test_exact_certificates import FALSE, JUDGED, faults

FIRST, MANY = 500, 60


@pytest.mark.parametrize("name", JUDGED)
def test_no_bound_of_many_misses_the_truth(name: str) -> None:
    found = {seed: faults(name, seed) for seed in range(FIRST, FIRST + MANY)}
    assert {seed: wrong for seed, wrong in found.items() if FALSE & set(wrong)} == {}
