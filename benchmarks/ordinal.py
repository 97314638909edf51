"""OrdinalSVC and CumulativeLinkClassifier against mord, skordinal, statsmodels and LinearSVC.

The models differ, so all candidates are fitted to the same data, and the preference risk on test
samples is reported with the time. The objectives of candidates that solve the pairwise problem
(LinearSVC on explicit pairs does) are recomputed by one function.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.measure import Timings, rounds_of
from benchmarks.memory import MB, peak_in_child, peak_of
from benchmarks.ordinal_curves import learned, report_curves
from benchmarks.ordinal_peers import (
    EXPLICIT,
    HINGE,
    IMPLICIT,
    LOGIT,
    LOSSES,
    MORD_AT,
    MORD_IT,
    PAIRS_HINGE,
    PAIRS_MATCHED,
    PAIRS_SQUARED,
    REDSVM,
    SQUARED,
    STATSMODELS,
    TOLS,
    Case,
    Fitted,
    bent,
    estimator,
    fitted,
    graded,
    graded_text,
    objective,
    risk,
    with_penalty,
)
from benchmarks.report import Report, Target

OURS = (HINGE, SQUARED)
LINKS = ("logit", "probit", "cloglog")
SAME = 1e-6  # relative: largest difference of a certificate's objective from the recomputed one
ROUNDING = 1e-9  # relative: by how much rounding errors may put an objective below our lower bound
LARGE_C = 1e6
DENSE_SHARE = 0.05  # target for sparse data: peak memory / size of the dense matrix
DATA_SHARE = 10.0  # target for dense data: peak memory / size of X; all pairs would take far more


@dataclass
class Comparison:
    """Measurements of all candidates on one data set; ratios of times are relative to `base`."""

    case: Case
    candidates: tuple[str, ...]
    base: str
    times: Timings = field(default_factory=Timings)
    found: dict[str, Fitted] = field(default_factory=dict)
    objectives: dict[str, float] = field(default_factory=dict)
    risks: dict[str, float] = field(default_factory=dict)

    def gap(self, name: str) -> float:
        """Return the relative gap to our lower bound; NaN for other objectives than ours."""
        certificate = self._proof(name)
        if certificate is None:
            return np.nan
        return (self.objectives[name] - certificate.dual) / max(1.0, abs(certificate.primal))

    def _proof(self, name: str) -> Any:
        """Return the certificate of our estimator with the same loss, or None."""
        ours = {LOSSES[each]: each for each in OURS if each in self.found}
        proved_by = ours.get(LOSSES.get(name, ""))
        return None if proved_by is None else self.found[proved_by].model.certificate_


def run(console: Console, *, quick: bool, rounds: int) -> Report:
    """Run the ordinal benchmark and return its report."""
    report = Report("ordinal", quick)
    with console.status("warming up") as status:
        for case in (graded(300), bent(300), graded_text(300, 1000)):
            for name in OURS:
                fitted(case, name)
        linear = [_compared(each, rounds, status.update) for each in _linear(quick)]
        _report_linear(report, linear, status.update)
        _report_kernel(report, _compared(_kernel(quick), rounds, status.update))
        _report_sparse(report, _compared(_sparse(quick), rounds, status.update), status.update)
        _report_large_C(report, [_compared(c, 1, status.update) for c in _large_C(quick)])
        cumulative = [_compared(c, rounds, status.update) for c in _cumulative(quick)]
        _report_cumulative(report, cumulative)
        report_curves(report, learned(quick, status.update))
    return report


# -- comparisons -------------------------------------------------------------------------------


def _linear(quick: bool) -> list[Comparison]:
    """Return the linear comparisons: with explicit pairs if they fit in memory, then two sizes.

    The two larger sizes show how the time grows.
    """
    small, medium, large = (1_000, 2_000, 20_000) if quick else (1_000, 10_000, 100_000)
    pairs = (*OURS, PAIRS_HINGE, PAIRS_MATCHED, PAIRS_SQUARED, LOGIT, MORD_AT, MORD_IT)
    rest = (*OURS, LOGIT, MORD_AT, MORD_IT)
    return [
        Comparison(graded(small), pairs, MORD_AT),
        Comparison(graded(medium), rest, MORD_AT),
        Comparison(graded(large), rest, MORD_AT),
    ]


def _kernel(quick: bool) -> Comparison:
    everybody = (*OURS, IMPLICIT, EXPLICIT, REDSVM)
    return Comparison(bent(1_000 if quick else 5_000), everybody, IMPLICIT)


def _sparse(quick: bool) -> Comparison:
    return Comparison(_text(quick), OURS, HINGE)


def _text(quick: bool) -> Case:
    return graded_text(5_000, 4_000) if quick else graded_text(50_000, 20_000)


def _large_C(quick: bool) -> list[Comparison]:
    """Return comparisons at a nearly hard margin on data that are not separable."""
    linear, kernel, text = (300, 200, 500) if quick else (10_000, 1_000, 1_000)
    cases = (graded(linear), bent(kernel), graded_text(text, 2 * text))
    return [Comparison(with_penalty(case, LARGE_C), OURS, HINGE) for case in cases]


def _cumulative(quick: bool) -> list[Comparison]:
    case = graded(1_000 if quick else 10_000)
    cases = [replace(case, name=link, link=link) for link in LINKS]
    return [Comparison(each, (LOGIT, STATSMODELS), STATSMODELS) for each in cases]


def _compared(comparison: Comparison, rounds: int, say: Callable[[str], None]) -> Comparison:
    """Time all candidates in alternating order; evaluate the last model of each."""
    case = comparison.case
    for name in rounds_of(comparison.candidates, rounds):
        say(f"{case.label}: {name}")
        comparison.found[name] = fitted(case, name)
        comparison.times.add(name, comparison.found[name].seconds)
    for name, found in comparison.found.items():
        comparison.risks[name] = risk(case, found)
        if name in LOSSES:
            comparison.objectives[name] = objective(case, name, found)
    return comparison


# -- report ------------------------------------------------------------------------------------


def _table(report: Report, title: str, comparisons: list[Comparison]) -> None:
    """Add a table with one line per candidate, and the results and failures to the report."""
    table = report.table(
        f"{title}: best seconds (median)",
        ["data", "candidate", "seconds", "ratio", "gap", "risk of fresh pairs"],
    )
    for each in comparisons:
        for name in each.candidates:
            gap = each.gap(name)
            table.add_row(
                each.case.label if name == each.candidates[0] else "",
                name,
                f"{each.times.best(name):.4f} ({each.times.median(name):.4f})",
                "" if name == each.base else f"{each.times.ratio(name, each.base):.2f}x",
                "" if np.isnan(gap) else f"{gap:.0e}",
                f"{each.risks[name]:.4f}",
            )
        table.add_section()
    for each in comparisons:
        report.results[each.case.label] = _as_json(each)
        report.failures += disagreements(each)


def disagreements(comparison: Comparison) -> list[str]:
    """Return failures: certificates that the recomputed objectives of ours or a peer contradict."""
    found, label = [], comparison.case.label
    for name, value in comparison.objectives.items():
        proof = comparison._proof(name)
        if proof is None:
            continue
        scale = max(1.0, abs(proof.primal))
        if name in OURS and not abs(proof.primal - value) <= SAME * scale:
            found.append(f"{label}: {name} says {proof.primal:.9g}, recomputed {value:.9g}")
        if name in OURS and proof.converged and not proof.relative_gap <= TOLS[name]:
            found.append(f"{label}: {name} says converged at a gap of {proof.relative_gap:.1e}")
        if not value >= proof.dual - ROUNDING * scale:
            below = proof.dual - value
            found.append(f"{label}: {name} is below our lower bound by {below:.1e}")
    return found


def _as_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "seconds": comparison.times.summary(),
        "objectives": comparison.objectives,
        "gaps": {name: comparison.gap(name) for name in comparison.objectives},
        "risks": comparison.risks,
    }


def _report_linear(
    report: Report, comparisons: list[Comparison], say: Callable[[str], None]
) -> None:
    small, medium, large = comparisons
    _table(report, "Linear machines, 5 ranks", comparisons)
    for name, peer in ((SQUARED, PAIRS_SQUARED), (HINGE, PAIRS_HINGE), (HINGE, PAIRS_MATCHED)):
        what = f"{small.case.label}: {peer} / ours"
        report.targets.append(Target(what, small.times.ratio(peer, name), 100, True, "x"))
    for name, bound, ambition in ((SQUARED, 1.0, 0.4), (HINGE, 3.0, 1.0)):
        ratio, what = large.times.ratio(name, MORD_AT), f"{large.case.label}: {name} / {MORD_AT}"
        report.targets.append(Target(what, ratio, bound, False, "x"))
        report.targets.append(Target(f"{what} (ambition)", ratio, ambition, False, "x"))
    for name in OURS:
        growth = large.times.best(name) / medium.times.best(name)
        what = f"{name}: time of {large.case.label} / {medium.case.label}"
        report.targets.append(Target(what, growth, 20, False, "x"))
    rows, columns = large.case.X.shape
    say(f"{large.case.label}: memory")
    for name in OURS:
        peak = peak_in_child("benchmarks.ordinal", name, "linear", str(rows))
        share = peak["fit_mb"] * MB / (8 * rows * columns)
        what = f"{large.case.label}: {peak['fit_mb']:.0f} MB of {name} / data"
        report.targets.append(Target(what, share, DATA_SHARE, False))
        report.results[f"memory {large.case.label} {name}"] = peak


def _report_kernel(report: Report, comparison: Comparison) -> None:
    _table(report, "Gaussian kernel, 5 ranks", [comparison])
    for name in OURS:
        for peer, note in ((IMPLICIT, ""), (REDSVM, " (ambition)")):
            what = f"{comparison.case.label}: {name} / {peer}{note}"
            report.targets.append(Target(what, comparison.times.ratio(name, peer), 1, False, "x"))


def _report_sparse(report: Report, comparison: Comparison, say: Callable[[str], None]) -> None:
    _table(report, "Sparse text, 5 ranks", [comparison])
    rows, columns = comparison.case.X.shape
    for name in OURS:
        say(f"{comparison.case.label}: memory, {name}")
        peak = peak_in_child("benchmarks.ordinal", name, "text", str(rows), str(columns))
        share = peak["fit_mb"] * MB / (8 * rows * columns)
        what = f"{comparison.case.label}: {peak['fit_mb']:.0f} MB of {name} / dense matrix"
        report.targets.append(Target(what, share, DENSE_SHARE, False))
        report.results[f"memory {comparison.case.label} {name}"] = peak


def _report_large_C(report: Report, comparisons: list[Comparison]) -> None:
    table = report.table(
        f"C = {LARGE_C:g}: the certificate, and the objective recomputed over the pairs",
        ["data", "candidate", "seconds", "objective", "off by", "proved gap", "converged"],
    )
    for each in comparisons:
        for name in OURS:
            certificate = each.found[name].model.certificate_
            off = each.objectives[name] / certificate.primal - 1.0
            table.add_row(
                each.case.label if name == OURS[0] else "",
                name,
                f"{each.times.best(name):.2f}",
                f"{certificate.primal:.7g}",
                f"{off:+.0e}",
                f"{certificate.relative_gap:.0e}",
                "yes" if certificate.converged else "no",
            )
        report.results[each.case.label] = _as_json(each)
        report.failures += disagreements(each)


def _report_cumulative(report: Report, comparisons: list[Comparison]) -> None:
    """Compare likelihoods with statsmodels: the problem is the same, so they must be equal."""
    table = report.table(
        "Cumulative models without a penalty: best seconds",
        ["link", LOGIT, STATSMODELS, "ours/theirs", "log-likelihood", "relative difference"],
    )
    worst = 0.0
    for each in comparisons:
        ours = each.found[LOGIT].model.log_likelihood_
        theirs = float(each.found[STATSMODELS].model.llf)
        off = (ours - theirs) / abs(theirs)
        worst = max(worst, abs(off))
        table.add_row(
            each.case.label,
            f"{each.times.best(LOGIT):.4f}",
            f"{each.times.best(STATSMODELS):.4f}",
            f"{each.times.ratio(LOGIT, STATSMODELS):.3f}x",
            f"{ours:.8g}",
            f"{off:+.0e}",
        )
        report.results[each.case.label] = _as_json(each) | {"likelihoods": [ours, theirs]}
        if off < -1e-8:
            below = f"likelihood below that of statsmodels by {-off:.0e}"
            report.failures.append(f"{each.case.label}: {below}")
    what = "log-likelihood, three links: largest relative difference from statsmodels"
    report.targets.append(Target(what, worst, 1e-8, False))


def _give_back() -> None:
    """Return freed memory to the system; a fit that reused it would seem to take none."""
    gc.collect()
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
        if trim is not None:
            trim(0)


def main() -> None:
    """Print the peak memory of one fit as JSON, after a small fit that loads compiled code."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("candidate", choices=OURS)
    parser.add_argument("data", choices=("linear", "text"))
    parser.add_argument("size", type=int, nargs="+")
    options = parser.parse_args()
    make = graded if options.data == "linear" else graded_text
    small = graded(300) if options.data == "linear" else graded_text(300, 1000)
    fitted(small, options.candidate)
    case = make(*options.size)
    model = estimator(case, options.candidate)
    _give_back()
    print(json.dumps(peak_of(lambda: model.fit(case.X, case.y))))


if __name__ == "__main__":
    main()
