"""Certificates of hostile fits, judged in exact arithmetic: no bound misses the truth.

The judge (`tests.helpers.exact_machines`) reads the published model only and recomputes all
objectives with rational numbers, or with 80 digits where the kernel is not rational. No fit is
excused. tests/fuzz/test_fuzz_exact_certificates.py judges more of them, and
``python -m tests.helpers.exact_table`` prints the table.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tests.helpers.exact_machines import MACHINES, judge_seed
from tests.helpers.exact_quadratic import kernel_pairs
from tests.helpers.exact_verdict import FAULTS, judged
from widemargin import SVC

JUDGED = sorted(MACHINES)
NEVER_WORSE = (
    "SVC hinge",
    "SVC squared hinge",
    "NuSVC",
    "SVR",
    "NuSVR",
    "OneClassSVM",
    "LinearSVC",
    "LinearSVC penalised",
    "LinearSVR",
    "LinearSVC l1",
    "LinearSVC joint",
    "LinearSVC in parts",
    "MaxMargin soft",
    "MaxMargin soft l2",
    "OrdinalSVC",
    "OrdinalSVC ranking",
    "OrdinalSVC l1",
    "LPSVC",
    "NuLPSVC",
    "LOOSVC",
    "AdaptiveMarginSVC",
    "LOOSVC squared",
    "AdaptiveMarginSVC squared",
    "CumulativeLink",
    "MeanFieldGP",
    "LPBoost",
)
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
    ("change", "fault"),
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
    unconverged = replace(certificate, converged=False)
    assert FAULTS[3] in judged(unconverged, replace(truth, constant=truth.primal / 2)).faults
