"""Fitted ordinal models: thresholds on the utility, and leave-one-out by refitting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin.fitted.base import TIE
from widemargin.fitted.by_refit import BY_REFITS, Refit, RefitTraining
from widemargin.kernels import Rows
from widemargin.problems.preference import PreferenceProblem
from widemargin.problems.ranks.thresholds import margin_thresholds, optimal_thresholds, rank_scores
from widemargin.solvers.base import Budget
from widemargin.solvers.preference import PreferenceResult, solve

TIGHT = 1e-6  # a pair within this tolerance of the margin counts as on it
COARSE = 1e-5  # relative gap down to which a warm start helps
TIED = 1e-6  # utilities this close, in units of the margin, are equal


@dataclass(frozen=True, eq=False)
class OrdinalMachine:
    """Utility function fitted to all samples, without queries, and its thresholds.

    Its values are the utility minus each threshold, one column per threshold.

    Attributes
    ----------
    problem : PreferenceProblem
        The optimisation problem.
    result : PreferenceResult
        The optimum.
    linear : bool
        Whether the result holds feature weights instead of sample coefficients.
    converged : bool
        Whether the relative gap is within tol.
    rule : {"optimal", "margin"}
        Rule that chooses the thresholds.
    tol : float
        Tolerance of the relative gap.
    max_iter : int
        Maximum number of iterations of one fit.
    cache_bytes : float
        Memory that one fit may use.
    """

    problem: PreferenceProblem
    result: PreferenceResult
    linear: bool
    converged: bool
    rule: str
    tol: float
    max_iter: int
    cache_bytes: float

    @property
    def fitted(self) -> Refit:
        """Expansion and thresholds fitted to all samples."""
        return self._refit(self.problem, *self._expansion, self.converged)

    def matters(self) -> BoolArray:
        """Return a mask of all samples, since the thresholds depend on each of them."""
        return np.ones(self.problem.n_rows, dtype=bool)

    def retrained(self, rows: Rows, kept: FloatArray) -> Refit:
        """Refit with the fraction `kept` of each sample's weight."""
        some = np.flatnonzero(kept)
        whole = self.problem
        left = replace(
            whole,
            codes=whole.codes[some],
            group=whole.group[some],
            weight=whole.weight[some] * kept[some],
        )
        if not left.n_pairs:
            nothing = np.zeros(len(some))
            return self._refit(left, nothing, nothing, True)
        if not self._needed[kept < 1].any():
            beta, f = self._expansion
            return self._refit(left, beta[some], f[some], self.converged)
        beta, f, converged = self._solved(left, rows, some)
        return self._refit(left, beta, f, converged)

    def _solved(
        self, problem: PreferenceProblem, rows: Rows, some: IntArray
    ) -> tuple[FloatArray, FloatArray, bool]:
        """Solve the problem of some samples; return coefficients, utilities and convergence.

        The fitted optimum is a good warm start unless tol is small. A cold start is then better,
        since the solver ends with an exact step if there are few samples.
        """
        linear = rows.kernel.name == "linear"
        starts: list[PreferenceResult | None] = [None]
        if not linear and self.tol >= COARSE:
            starts.insert(0, replace(self.result, coef=self._expansion[0][some]))
        for start in starts:
            budget = Budget(self.max_iter, cache_bytes=self.cache_bytes)
            data = rows.X if linear else rows
            result = solve(problem, data, tol=self.tol, budget=budget, start=start)
            converged = problem.certificate(result, data, tol=self.tol).converged
            if converged:
                break
        return *_expansion(result, linear=linear), converged

    @cached_property
    def _expansion(self) -> tuple[FloatArray, FloatArray]:
        return _expansion(self.result, linear=self.linear)

    @cached_property
    def _needed(self) -> BoolArray:
        """Mask of the samples that the utility depends on: those in a pair within the margin.

        Removing a sample whose pairs all exceed the margin does not change the objective near its
        optimum, which is unique.
        """
        codes, f = self.problem.codes, self._expansion[1]
        top, bottom = np.full(self._n_ranks, -np.inf), np.full(self._n_ranks, np.inf)
        np.maximum.at(top, codes, f)
        np.minimum.at(bottom, codes, f)
        below = np.concatenate([[-np.inf], np.maximum.accumulate(top)[:-1]])[codes]
        above = np.append(np.minimum.accumulate(bottom[::-1])[::-1][1:], np.inf)[codes]
        return np.asarray(np.minimum(f - below, above - f) <= 1.0 + TIGHT)

    @property
    def _n_ranks(self) -> int:
        """Number of ranks in the training set; a rank may be empty when samples are left out."""
        return int(self.problem.codes.max()) + 1

    def _refit(
        self, problem: PreferenceProblem, beta: FloatArray, f: FloatArray, converged: bool
    ) -> Refit:
        return Refit(beta, -rank_thresholds(self.rule, problem, f, self._n_ranks), converged)


@dataclass(frozen=True, eq=False)
class RankTraining(RefitTraining):
    """Fitted ordinal model; its values are the utility minus each threshold.

    Attributes
    ----------
    ranks : ndarray
        The labels, lowest rank first.
    """

    ranks: Any = None
    refusal: str = ""

    ordered: ClassVar[bool] = True
    method_advice: ClassVar[str] = (
        f"auto, {', '.join(BY_REFITS)}: the others need one dual variable a row, and here each "
        "pair of rows has its own"
    )

    def classes(self) -> Any:
        """Return the ranks, lowest first."""
        return self.ranks

    def class_scores(self, values: FloatArray, codes: IntArray) -> tuple[FloatArray, float]:
        """Return one score per rank, and the tolerance of ties."""
        return rank_scores(values), TIE


def rank_thresholds(
    rule: str, problem: PreferenceProblem, f: FloatArray, n_ranks: int
) -> FloatArray:
    """Return the thresholds between ranks, given the utilities f of the samples."""
    order = np.argsort(f)  # later sorts of sorted values are faster
    codes, weight = problem.codes[order].astype(np.intp), problem.weight[order]
    f = _with_ties(f[order])
    if rule == "optimal":
        return optimal_thresholds(f, codes, weight, n_ranks)
    if problem.squared:  # the squared hinge leaves no pair exactly on the margin
        return margin_thresholds(f, codes, weight, n_ranks, slack=0.0)
    return margin_thresholds(f, codes, weight, n_ranks)


def _with_ties(f: FloatArray) -> FloatArray:
    """Return sorted utilities in which those that differ by rounding are made equal.

    The hinge puts many samples at a distance of 1 from the same other sample, hence at the same
    utility. Rounding errors must not decide on which side of a threshold they are.
    """
    first = np.diff(f, prepend=-np.inf) > TIED
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], len(f)) - 1
    level = 0.5 * (f[starts] + f[ends])
    return np.asarray(level[np.cumsum(first) - 1])


def _expansion(result: PreferenceResult, *, linear: bool) -> tuple[FloatArray, FloatArray]:
    """Return sample coefficients and utilities; a linear model has those of its dual."""
    if linear:
        return result.beta, result.image
    return result.coef, result.f
