r"""Pairwise ranking (ordinal SVM, RankSVM): a large-margin problem on pairs of samples.

A pair (i, j) is *comparable* if sample i has the higher rank and both samples belong to the same
group (the same query when ranking; otherwise there is one group). The **primal** is

.. math::

    \min_f \; \tfrac12 \|f\|^2 + C \sum_{(i,j)} s_i s_j \, \ell(z_{ij}), \qquad
    z_{ij} = 1 - (f(x_i) - f(x_j)), \quad \ell(z) = z_+ \text{ or } z_+^2 ,

where

- f: utility function in the space of the kernel, or f = w.x with the norm of w;
- :math:`s_i`: sample weight; a pair counts :math:`s_i s_j` times;
- C: cost of a unit of loss of one pair;
- :math:`z_{ij}, \ell`: slack of a pair (positive part), and its loss, hinge or squared hinge;
- :math:`\alpha_{ij}, \beta_i`: dual variable of a pair, and expansion coefficient of a sample.

There is no threshold: the problem depends on differences of utilities only, so that adding a
constant to the kernel does not change f. The **dual** has one variable per pair, but the kernel
term depends only on one coefficient per sample,
:math:`\beta = \sum_{(i,j)} \alpha_{ij} (e_i - e_j)`:

.. math::

    \max_\alpha \; \sum \alpha_{ij} - \tfrac12 \beta'K\beta
    \;\;\text{s.t.}\;\; 0 \le \alpha_{ij} \le C s_i s_j , \qquad\text{or}\qquad
    \max_{\alpha \ge 0} \; \sum \alpha_{ij} - \frac{\alpha_{ij}^2}{4 C s_i s_j}
    - \tfrac12 \beta'K\beta .

The constraint :math:`(\alpha \cdot t) = 0` printed with these equations in the reference belongs to
a problem with a threshold on differences; with every pair in the order above it would force
:math:`\alpha = 0`, so it is omitted.

*The l_1 norm.* Section 2.4 of the reference allows any l_q margin on differences. A linear model
whose margin is measured in l_inf has the l_1 norm of its weights in place of
:math:`\tfrac12 \|f\|^2`. With the hinge it is a linear program with one constraint per pair, and
its dual is

.. math::

    \max_\alpha \; \sum \alpha_{ij} \quad\text{s.t.}\quad \|X'\beta\|_\infty \le 1 , \quad
    0 \le \alpha_{ij} \le C s_i s_j .

Any variables within their caps become feasible by division by
:math:`\max(1, \|X'\beta\|_\infty)`, so that the dual points below give lower bounds here, too.

*Evaluation without forming pairs.* The hinge is smoothed over an interval of width mu,
:math:`\ell_\mu(z) = (z_+^2 - (z - \mu)_+^2) / (2 \mu)`. Its derivative, and likewise that of the
squared hinge, gives a dual point

.. math::

    \alpha_{ij} = C s_i s_j \min(z_+ / \mu, 1), \qquad \alpha_{ij} = 2 C s_i s_j z_+ ,

that is feasible for all f and mu. Its sums over the partners of a sample depend only on counts and
sums of f over the samples of lower rank within a window of utilities, which one sweep over the
sorted samples computes (:mod:`widemargin.problems.preference.pair_sums`). Thus both objectives,
the gradient and products with the Hessian cost O(n log n), and the exact duality gap one more
product with the kernel matrix. Counts are float64 sums, exact for integer weights up to 2^53 pairs.

References: Herbrich et al. (2000), (2.21)-(2.25), in full on the references page of the
documentation.

Certificates hold in exact arithmetic, see :mod:`widemargin.problems.preference.bounds`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin.certificate import Certificate, relative_gap
from widemargin.kernels import Rows
from widemargin.problems.preference.bounds import DualTerms, bracket
from widemargin.problems.preference.conditions import largest_slack, largest_surplus
from widemargin.problems.preference.enclosed_pairs import EnclosedPairs
from widemargin.problems.preference.pair_sums import (
    DualPoint,
    PairSums,
    SortedRows,
    by_group,
    renumber,
)

AT_BOUND = 1e-12  # fraction of the cap within which a dual variable counts as at its bound


@dataclass(frozen=True, eq=False, kw_only=True)
class PreferenceModel:
    """Utility function with the dual point that certifies it.

    Attributes
    ----------
    coef : ndarray of shape (n_features,) or (n_rows,)
        Weights w of the features, or expansion coefficients of the samples (kernel).
    f : ndarray of shape (n_rows,)
        Utilities of the training samples in float64.
    penalty : float
        Half the squared norm of the utility function, or the l_1 norm of its weights.
    point : DualPoint
        Dual variables of all pairs (l_1 norm: before division by max(1, abs(image).max())).
    beta : ndarray of shape (n_rows,)
        Coefficients of the dual point, rounded.
    image : ndarray of shape (n_rows,) or (n_features,)
        K beta in float64; X'beta for the l_1 norm.
    n_iter, kernel_evaluations : int
        Number of iterations and of kernel values computed.
    """

    coef: FloatArray
    f: FloatArray
    penalty: float
    point: DualPoint
    beta: FloatArray
    image: FloatArray
    n_iter: int
    kernel_evaluations: int = 0


@dataclass(frozen=True, eq=False)
class PreferenceProblem:
    """Pairwise ranking problem; create one with :func:`preference_problem`.

    Attributes
    ----------
    codes : int array of shape (n_rows,)
        Rank of each sample; only the order matters.
    group : int array of shape (n_rows,)
        Group (query) of each sample, 0 .. n_groups - 1.
    weight : ndarray of shape (n_rows,)
        Non-negative sample weights s.
    C : float
        Cost of a unit of loss of one pair.
    loss : {"hinge", "squared_hinge"}
        Loss of a pair.
    norm : {2, 1}
        Penalty: half the squared norm of f, or |w|_1 (linear f with the hinge only).
    cost_error : float
        Bound on the relative error of the cost C s_i s_j of a pair.
    """

    codes: IntArray
    group: IntArray
    weight: FloatArray
    C: float
    loss: str = "hinge"
    norm: int = 2
    cost_error: float = 0.0

    @cached_property
    def squared(self) -> bool:
        """Whether the slack is squared."""
        return self.loss == "squared_hinge"

    @cached_property
    def n_rows(self) -> int:
        """Number of training samples."""
        return len(self.codes)

    @cached_property
    def starts(self) -> IntArray:
        """Return the first position of each group among samples sorted by group, and n_rows."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.group))]).astype(np.intp)

    @cached_property
    def local_ranks(self) -> tuple[IntArray, IntArray]:
        """Return each sample's rank among those of its group, from 0, and the ranks per group."""
        code, ranks = np.empty(self.n_rows, np.intp), np.zeros(len(self.starts) - 1, np.intp)
        renumber(self.group, self.codes, self.order(self.codes), code, ranks)
        return code, ranks

    @cached_property
    def n_pairs(self) -> float:
        """Sum of s_i s_j over all comparable pairs, with a relative error of U."""
        pairs = EnclosedPairs.of(self, np.zeros(self.n_rows))
        return float(pairs.moments(0.0).above.dot(pairs.weight).hi)

    def order(self, key: FloatArray | IntArray, low: FloatArray | None = None) -> IntArray:
        """Return the indices that sort the samples by (group, key), or by (group, key + low)."""
        order = np.argsort(key) if low is None else np.lexsort((low, key))
        if len(self.starts) > 2:
            grouped = np.empty_like(order)
            by_group(order, self.group, self.starts[:-1].copy(), grouped)
            return grouped
        return order

    def sort(self, f: FloatArray) -> SortedRows:
        """Return the samples sorted by (group, utility), for sweeps over them.

        The mean utility of each group is subtracted: the problem does not depend on it, and it
        would increase the rounding errors of the sums.
        """
        code, ranks = self.local_ranks
        return SortedRows(self.centred(f), self.order(f), code, self.weight, self.starts, ranks)

    def group_means(self, f: FloatArray) -> FloatArray:
        """Return the mean of f over each group."""
        return np.bincount(self.group, f) / np.diff(self.starts)

    def centred(self, f: FloatArray) -> FloatArray:
        """Return f minus its mean over each group."""
        return f - self.group_means(f)[self.group]

    def restrict(self, rows: IntArray) -> PreferenceProblem:
        """Return the problem on a subsample, with C scaled by the ratio of the pair counts."""
        group = np.unique(self.group[rows], return_inverse=True)[1]
        part = replace(self, codes=self.codes[rows], group=group, weight=self.weight[rows])
        return replace(part, C=self.C * self.n_pairs / part.n_pairs) if part.n_pairs else part

    @np.errstate(over="ignore", invalid="ignore")
    def evaluate(self, f: FloatArray, width: float, rows: SortedRows | None = None) -> PairSums:
        """Return the loss and the sums of the dual point given by utilities f and a width.

        `rows` is `sort(f)`, if the caller has computed it. If the utilities are so large that sums
        overflow, the results are infinite or NaN and a line search rejects the point.
        """
        rows = self.sort(f) if rows is None else rows
        return rows.sums(DualPoint(f, width), self.C, squared=self.squared)

    def primal(self, f: FloatArray, penalty: float) -> float:
        """Return the primal objective at utilities f with the given penalty term."""
        return penalty + self.evaluate(f, 0.0).loss

    def dual(self, terms: DualTerms, image: FloatArray) -> float:
        """Return the dual objective of a point's sums, given K beta, or X'beta (l_1 norm)."""
        if self.norm == 1:
            return scaled_dual(float(terms.gain.hi), image)
        return terms.linear - 0.5 * float(terms.beta.hi @ image)

    def certificate(
        self,
        model: PreferenceModel,
        data: Matrix | Rows,
        *,
        tol: float,
        mercer: bool = True,
    ) -> Certificate:
        """Return the certificate of a model, with objectives recomputed from the data.

        The fit has converged if the relative gap is at most tol. `mercer` is whether the kernel is
        not known to be indefinite.
        """
        found = bracket(self, model, data, tol=tol, mercer=mercer)
        return Certificate.from_objectives(
            f"preference {self.loss.replace('_', ' ')}" + ", l_1 norm" * (self.norm == 1),
            primal=found.primal,
            dual=found.dual,
            kkt_violation=self._violation(model),
            converged=relative_gap(found.primal, found.dual) <= tol,
            n_iter=model.n_iter,
            kernel_evaluations=model.kernel_evaluations,
            rounding=found.rounding,
        )

    @np.errstate(over="ignore", invalid="ignore")
    def _violation(self, model: PreferenceModel) -> float:
        """Return the violation of the optimality conditions, in float64."""
        if self.norm == 2:
            return self._kkt_violation(model.point, model.image)
        # Conditions of the weights: |X'beta| <= 1, with X'beta = sign(w) where w is not zero.
        # Their violation is the largest |w - soft(w + X'beta)| with soft thresholding by 1.
        # The conditions of the pairs hold at the utilities of the dual point.
        moved = model.coef + model.image
        soft = np.sign(moved) * np.maximum(np.abs(moved) - 1.0, 0.0)
        return float(np.abs(model.coef - soft).max())

    def _kkt_violation(self, point: DualPoint, image: FloatArray) -> float:
        """Return LIBSVM's KKT violation over all pairs.

        It is the largest slack of a pair below its cap, or surplus of a pair above zero. The dual
        variables follow from the point's f, the slacks from the image of its coefficients. For the
        squared hinge, which has no caps, the result is a bound from the spread of f - image.
        """
        if self.squared:
            return 2.0 * float(np.abs(self.centred(point.f - image)).max())
        rows = self.sort(point.f)
        if point.listed is None:
            slack = largest_slack(rows, image, point.width)
            return max(0.0, slack, largest_surplus(rows, image, 0.0))
        upper, lower, values = point.listed.upper, point.listed.lower, point.listed.values
        z = 1.0 - (image[upper] - image[lower])
        cap = self.C * self.weight[upper] * self.weight[lower]
        slack = z[values < cap * (1.0 - AT_BOUND)].max(initial=0.0)
        surplus = (-z[values > cap * AT_BOUND]).max(initial=0.0)
        at_zero = largest_slack(rows, image, np.nextafter(-point.width, np.inf))
        at_cap = largest_surplus(rows, image, point.width)
        return float(max(slack, surplus, at_zero, at_cap))


def scaled_dual(total: float, correlation: FloatArray) -> float:
    """Return the dual objective for the l_1 norm, with variables scaled to |X'beta| <= 1."""
    return total / max(1.0, float(np.abs(correlation).max()))


def preference_problem(
    codes: IntArray,
    *,
    C: float,
    loss: str = "hinge",
    norm: int = 2,
    group: IntArray | None = None,
    weight: FloatArray | None = None,
) -> PreferenceProblem:
    """Return the pairwise ranking problem (Herbrich et al. 2000, (2.21)-(2.25)).

    The parameters are the attributes of :class:`PreferenceProblem`; codes and groups may be any
    numbers. By default there is one group, and all weights are 1.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.problems.preference import preference_problem
    >>> problem = preference_problem(np.array([1, 3, 3, 7]), C=1.0)
    >>> problem.n_pairs
    5.0
    >>> f = np.array([0.0, 0.5, 2.0, 2.0])  # slack .5 of one pair, 1 of another
    >>> problem.primal(f, penalty=0.0)
    1.5
    """
    codes = np.unique(np.asarray(codes), return_inverse=True)[1].astype(np.int64)
    n = len(codes)
    if not C > 0:
        raise ValueError(f"C must be positive, got {C}")
    if loss not in ("hinge", "squared_hinge"):
        raise ValueError(f"loss must be 'hinge' or 'squared_hinge', got {loss!r}")
    if norm not in (1, 2):
        raise ValueError(f"norm must be 2 or 1, got {norm!r}")
    if norm == 1 and loss != "hinge":
        raise ValueError(f"loss must be 'hinge' with an l_1 norm, got {loss!r}")
    group = np.zeros(n, np.int64) if group is None else np.unique(group, return_inverse=True)[1]
    weight = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    for name, values in (("group", group), ("weight", weight)):
        if len(values) != n:
            raise ValueError(f"{name} has {len(values)} entries for {n} rows; give one for each")
    problem = PreferenceProblem(codes, group.astype(np.int64), weight, float(C), loss, norm)
    if not problem.n_pairs > 0:
        raise ValueError(
            f"codes (the ranks y) leave nothing to compare: no two of the {n} rows with positive "
            f"weight have different ranks within one of {len(problem.starts) - 1} group(s). "
            "Give rows of at least two ranks in some group"
        )
    return problem
