"""Certificates against exact arithmetic: no interval misses the truth, no gap is understated."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tests.helpers.exact_machines import MACHINES, judge_seed
from tests.helpers.exact_quadratic import kernel_pairs
from tests.helpers.exact_verdict import FAULTS, judged
from widemargin import SVC

SEEDS = range(8)  # per machine; the long run is tests/fuzz/test_fuzz_certificates.py


@pytest.mark.parametrize("name", MACHINES)
def test_certificates_hold_in_exact_arithmetic(name):
    outcomes = {seed: judge_seed(name, seed) for seed in SEEDS}
    assert any(found.verdicts for found in outcomes.values()), "all fits were refused"
    wrong = {
        seed: (found.model, [verdict.faults for verdict in found.verdicts])
        for seed, found in outcomes.items()
        if any(verdict.faults for verdict in found.verdicts)
    }
    assert not wrong


def fitted_svc():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=20) > 0).astype(int)
    model = SVC(kernel="rbf", tol=1e-3).fit(X, y)
    reference = SVC(kernel="rbf", tol=1e-10).fit(X, y)
    return model.certificate_, kernel_pairs(model, [reference], X, y, None)[0]


def test_the_judge_encloses_the_optimum_of_an_easy_fit():
    certificate, truth = fitted_svc()
    assert truth.lower <= truth.upper <= truth.primal < truth.constant
    assert truth.upper - truth.lower <= Fraction(1e-8)
    assert float(truth.primal) == pytest.approx(certificate.primal, rel=1e-12)


@pytest.mark.parametrize(
    "change, fault",
    [
        (lambda c, t: {"primal": float(t.primal) * (1 - 1e-12)}, FAULTS[0]),
        (lambda c, t: {"dual": float(t.upper) * (1 + 1e-12)}, FAULTS[1]),
        (lambda c, t: {"gap": float(t.primal - t.upper) * (1 - 1e-6)}, FAULTS[2]),
        (lambda c, t: {"relative_gap": 0.0}, FAULTS[2]),
        (lambda c, t: {"dual": float("nan")}, FAULTS[1]),
    ],
)
def test_the_judge_sees_a_certificate_that_is_wrong(change, fault):
    certificate, truth = fitted_svc()
    honest = replace(
        certificate,
        primal=np.nextafter(float(truth.primal), np.inf),
        dual=np.nextafter(float(truth.lower), -np.inf),
        gap=np.nextafter(float(truth.primal - truth.lower), np.inf),
        relative_gap=certificate.gap,
    )
    assert judged(honest, truth).faults == []
    assert fault in judged(replace(honest, **change(certificate, truth)), truth).faults


def test_the_judge_sees_a_model_worse_than_a_constant():
    certificate, truth = fitted_svc()
    assert FAULTS[3] in judged(certificate, replace(truth, constant=truth.primal / 2)).faults
