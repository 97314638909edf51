"""Certificates against exact arithmetic, the longer run; the table: tests/helpers/exact_table.py."""

from __future__ import annotations

import pytest

from tests.helpers.exact_machines import MACHINES, judge_seed

pytestmark = pytest.mark.fuzz
SEEDS = range(1000, 1040)  # other problems than those of tests/oracle/test_exact_certificates.py


@pytest.mark.parametrize("name", MACHINES)
def test_certificates_hold_in_exact_arithmetic(name):
    wrong = {}
    for seed in SEEDS:
        found = judge_seed(name, seed)
        faults = [verdict.faults for verdict in found.verdicts if verdict.faults]
        if faults:
            wrong[seed] = (found.model, faults)
    assert not wrong
