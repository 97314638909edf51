"""Execution of a grid search: group the settings, score them, build the table of results."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import config_context
from sklearn.base import is_regressor
from sklearn.exceptions import FitFailedWarning

from widemargin._base.messages import warn
from widemargin._base.progress import Bar
from widemargin._base.threads import for_each, worker_threads
from widemargin._base.typing import FloatArray, IntArray
from widemargin.estimators._base.inspection import check_parameters
from widemargin.tuning.candidates import (
    Branch,
    Score,
    SharedKernel,
    branches,
    can_share,
    changed_by,
    is_pipeline,
    last_step,
    score_alone,
)

if TYPE_CHECKING:
    from widemargin.tuning.search import LOOSearch

# Scorings, and the name of the loss that each of them minimises, for the progress bar.
SCORINGS = {"error": "error", "log_loss": "log-loss", "evidence": "minus log evidence"}


class Run:
    """State of a running search: the settings and their scores so far."""

    def __init__(
        self, search: LOOSearch, settings: list[dict[str, Any]], X: Any, y: Any, sample_weight: Any
    ) -> None:
        self.search = search
        self.settings = settings
        self.X, self.y, self.sample_weight = X, y, sample_weight
        shape = getattr(X, "shape", None) or np.asarray(X).shape
        self.n_rows = shape[0] if shape else 0
        accuracy = search.scoring == "error" and not is_regressor(search.estimator)
        self.best_possible = 1.0 if accuracy else 0.0  # score = best_possible - loss
        self.scores: dict[int, Score] = {}
        self.failures: dict[int, Exception] = {}
        self.threads = 1
        self.lock = threading.Lock()

    def work(self) -> None:
        """Score all settings, group by group."""
        with (
            Bar("leave-one-out search", self.search.verbose, len(self.settings)) as self.bar,
            worker_threads() as cores,
        ):
            split = branches(self.search.estimator, self.settings, self.X, self.y)
            groups = [(b, group) for b in split for group in b.kernel_groups(self.n_rows)]
            jobs = self.search.n_jobs or 1
            jobs = min(cores if jobs < 0 else int(jobs), len(groups))
            self.threads = max(1, cores // jobs)
            for_each(self._score_group, groups, jobs)
        if len(self.failures) == len(self.settings):
            raise next(iter(self.failures.values()))  # the cause is not the setting
        for k, failure in sorted(self.failures.items()):
            warn(
                f"the setting {self.settings[k]} could not be scored and gets "
                f"{self.search.error_score}: {failure}", FitFailedWarning,
            )  # fmt: skip

    def _score_group(self, group: tuple[Branch, list[int]]) -> None:
        """Score the settings of a group in order, each warm-started from the one before."""
        branch, members = group
        kernel: SharedKernel | None = None
        for k in members:
            try:
                kernel, score = self._score(branch, k, kernel)
            except Exception as failure:  # user-defined transformers and kernels raise anything
                score = self._failed(failure, k)
            branch.forget(k)
            with self.lock:
                self.scores[k] = score
                losses = [s.loss for s in self.scores.values() if np.isfinite(s.loss)]
                what = SCORINGS[self.search.scoring]
                self.bar.advance(f"least {what} {min(losses):.4g}" if losses else "")

    def _score(
        self, branch: Branch, k: int, kernel: SharedKernel | None
    ) -> tuple[SharedKernel | None, Score]:
        """Return the shared kernel of the group, for warm starts, and the score of a setting."""
        X, machine, method = branch.rows(), branch.machine_of(k), self.search.method
        if not can_share(machine, self.n_rows):
            scoring = self.search.scoring
            return None, score_alone(machine, X, self.y, self.sample_weight, method, scoring)
        check_parameters(machine)
        if kernel is None:
            kernel = SharedKernel(machine, X, self.y, self.sample_weight, method, self.threads)
        return kernel, kernel.score(machine)

    def _failed(self, failure: Exception, k: int) -> Score:
        if self.search.error_score == "raise":
            raise failure
        if self.failures:
            failure = failure.with_traceback(None)  # its frames keep kernel matrices alive
        self.failures[k] = failure
        loss = self.best_possible - float(self.search.error_score)
        return Score(loss, float("nan"), 0, "failed", 0.0, 0.0)

    def done(self) -> tuple[list[dict[str, Any]], list[Score]]:
        """Return the settings that have a score, in the order of the grid, and their scores."""
        with self.lock:  # after an interrupt another thread may still finish its setting
            scores = sorted(self.scores.items())
        return [self.settings[k] for k, _ in scores], [score for _, score in scores]

    def fitted(self, params: dict[str, Any]) -> Any:
        """Fit the estimator with a parameter setting on all samples."""
        estimator = changed_by(self.search.estimator, params)
        if self.sample_weight is None:
            return estimator.fit(self.X, self.y)
        if not is_pipeline(estimator):
            return estimator.fit(self.X, self.y, sample_weight=self.sample_weight)
        weights = {f"{last_step(estimator)}__sample_weight": self.sample_weight}
        # With metadata routing, fit does not accept the names step__parameter.
        with config_context(enable_metadata_routing=False):
            return estimator.fit(self.X, self.y, **weights)


def table(
    settings: list[dict[str, Any]], scores: list[Score], best_possible: float
) -> dict[str, Any]:
    """Build `cv_results_` from the scores."""
    mean = best_possible - np.array([score.loss for score in scores])
    found: dict[str, Any] = {
        "mean_fit_time": np.array([s.fit_time for s in scores]),
        "mean_score_time": np.array([s.score_time for s in scores]),
    }
    for name in dict.fromkeys(itertools.chain.from_iterable(settings)):
        column: Any = np.ma.array(np.empty(len(settings), dtype=object), mask=True)
        for k, setting in enumerate(settings):
            if name in setting:
                column[k] = setting[name]
        found[f"param_{name}"] = column
    found["params"] = settings
    found["mean_test_score"] = mean
    found["std_test_score"] = np.array([s.spread for s in scores])
    found["rank_test_score"] = _ranks(mean)
    found["loo_kind"] = np.array([s.kind for s in scores])
    return found


def _ranks(mean: FloatArray) -> IntArray:
    """Return the rank of each score; scores that differ by rounding only have equal rank."""
    rounding = 1e-12 * np.abs(mean[np.isfinite(mean)]).max(initial=0.0)
    worst_last = np.where(np.isnan(mean), -np.inf, mean)
    better = [np.count_nonzero(worst_last > m + rounding) for m in worst_last]
    return np.array(better, dtype=np.int32) + np.int32(1)
