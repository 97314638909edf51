"""Measurements and tables of the loo benchmark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.data import DataSet
from benchmarks.measure import Timings
from benchmarks.peers import SKLEARN
from benchmarks.report import Report

ONE_THREAD = "one thread"
TIGHT_TOL = 1e-8  # tol of scikit-learn's SVC in the comparison with retraining

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]


@dataclass
class Comparison:
    """Measurements on one problem.

    Attributes
    ----------
    left_out : ndarray
        Indices of the samples that scikit-learn's loop leaves out: all of them or a subsample.
    loop, ours : ndarray
        Leave-one-out predictions (decision values) of these samples and of all samples.
    tight_difference, refined_difference : float
        Largest difference of ours from scikit-learn at TIGHT_TOL on the samples checked, as
        returned and refined in float64.
    checked, refined : int
        Number of samples checked, and of those for which the refined fit is optimal.
    """

    data: DataSet
    left_out: IntArray
    times: Timings = field(default_factory=Timings)
    loop: FloatArray = field(default_factory=lambda: np.zeros(0))
    ours: FloatArray = field(default_factory=lambda: np.zeros(0))
    free: int = 0
    bounded: int = 0
    support: int = 0
    objective: float = float("nan")
    events: float = 0.0
    retrained: float = 0.0
    checked: int = 0
    refined: int = 0
    tight_difference: float = float("nan")
    refined_difference: float = float("nan")

    @property
    def name(self) -> str:
        """Name of the problem in the tables."""
        return f"{self.data.name} {self.data.shape[0]:,} C={self.data.C:g}"

    @property
    def sampled(self) -> bool:
        """Whether the loop left out a subsample only, so that its time is scaled up."""
        return len(self.left_out) < self.data.shape[0]

    def errors(self) -> tuple[float, float]:
        """Return the leave-one-out errors of ours and of the loop on the samples of the loop."""
        y = self.data.y[self.left_out]
        return error_rate(self.ours[self.left_out], y), error_rate(self.loop, y)

    @property
    def difference(self) -> float:
        """Largest difference of a leave-one-out prediction from that of the loop."""
        return float(np.abs(self.ours[self.left_out] - self.loop).max())

    @property
    def speed_up(self) -> float:
        """Time of the loop divided by our total time, best rounds."""
        return self.times.ratio("loop", "total")

    @property
    def speed_up_of_medians(self) -> float:
        """The same ratio of medians, which does not favour short runs on a busy computer."""
        return self.times.median("loop") / self.times.median("total")


def error_rate(values: FloatArray, y: FloatArray) -> float:
    """Return the fraction of samples with y f <= 0."""
    return float(np.mean(values * y <= 0))


def time_table(report: Report, comparisons: list[Comparison]) -> None:
    """Add the table of times to the report."""
    table = report.table(
        "Leave-one-out of all rows, best (median); ~ a loop over some random rows, scaled to all",
        [
            "data",
            "free/bound",
            "loop s",
            "ours ms",
            "= fit",
            "+ paths",
            "loop/ours",
            "1 thread",
            "paths/sklearn fit",
            "/our fit",
        ],
    )
    for comparison in comparisons:
        times = comparison.times
        table.add_row(
            comparison.name,
            f"{comparison.free}/{comparison.bounded}",
            ("~ " if comparison.sampled else "") + _both(times, "loop"),
            _both(times, "total", 1e3),
            f"{1e3 * times.best('fit'):.1f}",
            f"{1e3 * times.best('path'):.1f}",
            f"{comparison.speed_up:.0f}x ({comparison.speed_up_of_medians:.0f}x)",
            f"{times.ratio('loop', f'total, {ONE_THREAD}'):.0f}x",
            f"{times.ratio('path', 'their fit'):.1f}",
            f"{times.ratio('path', 'fit'):.1f}",
        )


def value_table(report: Report, comparisons: list[Comparison]) -> None:
    """Add the table of errors and of differences between decision values to the report."""
    table = report.table(
        "Errors and largest differences of values on the rows that the loop left out; on some "
        f"also to {SKLEARN} at tol={TIGHT_TOL:g}",
        [
            "data",
            "rows",
            "error ours",
            "loop",
            "difference",
            "tight tol",
            "+ float64",
            "checked",
            "events/SV",
            "retrained",
        ],
    )
    for comparison in comparisons:
        ours, loop = comparison.errors()
        table.add_row(
            comparison.name,
            f"{len(comparison.left_out):,}",
            f"{ours:.4f}",
            f"{loop:.4f}",
            f"{comparison.difference:.1e}",
            f"{comparison.tight_difference:.1e}",
            f"{comparison.refined_difference:.1e}",
            f"{comparison.refined} of {comparison.checked}",
            f"{comparison.events / comparison.support:.1f}",
            f"{comparison.retrained:.0f}",
        )


def _both(timings: Timings, label: str, unit: float = 1.0) -> str:
    return f"{unit * timings.best(label):.1f} ({unit * timings.median(label):.1f})"


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Return all measurements for the JSON file."""
    data, times = comparison.data, comparison.times
    ours, loop = comparison.errors()
    return {
        "rows": data.shape[0],
        "columns": data.shape[1],
        "C": data.C,
        "gamma": data.gamma,
        "free": comparison.free,
        "bounded": comparison.bounded,
        "rows_of_the_loop": len(comparison.left_out),
        "loop_is_scaled": comparison.sampled,
        "seconds": times.summary(),
        "loop_over_ours": comparison.speed_up,
        "loop_over_ours_medians": comparison.speed_up_of_medians,
        "loop_over_ours_one_thread": times.ratio("loop", f"total, {ONE_THREAD}"),
        "paths_in_their_fits": times.ratio("path", "their fit"),
        "paths_in_our_fits": times.ratio("path", "fit"),
        "events_per_support_vector": comparison.events / comparison.support,
        "retrained": comparison.retrained,
        "error_ours": ours,
        "error_loop": loop,
        "error_ours_all_rows": error_rate(comparison.ours, data.y),
        "rows_checked": comparison.checked,
        "rows_refined": comparison.refined,
        "largest_difference": comparison.difference,
        "largest_difference_at_tight_tol": comparison.tight_difference,
        "largest_difference_refined": comparison.refined_difference,
    }
