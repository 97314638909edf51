r"""Large-margin rank boundaries: a utility that puts rows of higher rank above rows of lower rank.

A pair (i, j) is *comparable* if row i has the higher rank and both belong to the same group (the
same query, when ranking; one group holds all rows otherwise). With weights s, which mean
repetition, a pair counts :math:`s_i s_j` times, and the **primal** is

.. math::

    \min_f \; \tfrac12 \|f\|^2 + C \sum_{(i,j)} s_i s_j \, \ell(z_{ij}), \qquad
    z_{ij} = 1 - (f(x_i) - f(x_j)), \quad \ell(z) = z_+ \text{ or } z_+^2 ,

over functions f of the kernel's space, or f = w.x with the norm of w. No threshold appears: only
differences of utilities count, so f is the same with a constant added to the kernel. The **dual**
has one variable for each pair, and one expansion coefficient for each row is all that is left of
them, :math:`\beta = \sum_{(i,j)} \alpha_{ij} (e_i - e_j)`:

.. math::

    \max_\alpha \; \sum \alpha_{ij} - \tfrac12 \beta'K\beta
    \;\;\text{s.t.}\;\; 0 \le \alpha_{ij} \le C s_i s_j , \qquad\text{or}\qquad
    \max_{\alpha \ge 0} \; \sum \alpha_{ij} - \frac{\alpha_{ij}^2}{4 C s_i s_j}
    - \tfrac12 \beta'K\beta .

The constraint :math:`(\alpha \cdot t) = 0` printed with these equations belongs to a machine with
a threshold on differences; with every pair written in the order above it would force
:math:`\alpha = 0`, so it is left out.

*No pair is ever formed.* Smooth the hinge over a band of width mu,
:math:`\ell_\mu(z) = (z_+^2 - (z - \mu)_+^2) / (2 \mu)`. Its derivative, and likewise that of the
squared hinge, gives a dual point

.. math::

    \alpha_{ij} = C s_i s_j \min(z_+ / \mu, 1), \qquad \alpha_{ij} = 2 C s_i s_j z_+ ,

that is feasible at any f and mu. Its sums over the partners of a row need only counts and sums of
f over the rows of lower rank within a window of utilities, which one sweep over the sorted rows
provides (:mod:`widemargin.problems.preference.sweep`). So the objectives of both problems, the
gradient and products with the Hessian cost O(n log n), and the true duality gap one product with
the kernel more. Counts are float64 sums: exact for whole weights up to 2^53 pairs.

References: Herbrich et al. (2000), (2.21)-(2.25). The documentation's page of references has
them in full.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from widemargin._base.typing import FloatArray, IntArray
from widemargin.certificate import Certificate, sure_bound
from widemargin.problems.preference.conditions import largest_slack, largest_surplus
from widemargin.problems.preference.dual_pairs import DualPoint, Response
from widemargin.problems.preference.sweep import SortedRows, by_group, local_ranks, pairs_near

AT_BOUND = 1e-12  # share of its cap by which a dual variable may miss a bound and be at it


@dataclass(frozen=True, eq=False)
class PreferenceProblem:
    """The pairwise problem above, as data. Make one with :func:`preference_problem`.

    Attributes
    ----------
    codes : int array of shape (n_rows,)
        Rank of each row; only its order counts.
    group : int array of shape (n_rows,)
        Group (query) of each row, 0 .. n_groups - 1.
    weight : ndarray of shape (n_rows,)
        s, not negative.
    C : float
        Cost of a unit of loss of one pair.
    loss : {"hinge", "squared_hinge"}
        The loss of a pair.
    """

    codes: IntArray
    group: IntArray
    weight: FloatArray
    C: float
    loss: str = "hinge"

    @property
    def name(self) -> str:
        """Name of the formulation, for the certificate."""
        return f"preference {self.loss.replace('_', ' ')}"

    @property
    def squared(self) -> bool:
        """Whether the slack is squared."""
        return self.loss == "squared_hinge"

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return len(self.codes)

    @cached_property
    def starts(self) -> IntArray:
        """First place of each group among rows sorted by group, and n_rows."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.group))]).astype(np.intp)

    @cached_property
    def _local(self) -> tuple[IntArray, IntArray]:
        code, ranks = np.empty(self.n_rows, np.intp), np.zeros(len(self.starts) - 1, np.intp)
        local_ranks(self.group, self.codes, self.order(self.codes), code, ranks)
        return code, ranks

    @property
    def code(self) -> IntArray:
        """Rank of each row among those that occur in its group, from 0."""
        return self._local[0]

    @property
    def ranks(self) -> IntArray:
        """Number of different ranks in each group."""
        return self._local[1]

    @cached_property
    def n_pairs(self) -> float:
        """Sum of s_i s_j over the comparable pairs."""
        rows = self.sort(np.zeros(self.n_rows))
        return float(rows.weight @ rows.over_lower(rows.weight[:, None], -np.inf, np.inf)[:, 0])

    def order(self, key: FloatArray | IntArray) -> IntArray:
        """Return the rows sorted by (group, key)."""
        order = np.argsort(key)
        if len(self.starts) > 2:
            grouped = np.empty_like(order)
            by_group(order, self.group, self.starts, grouped)
            return grouped
        return order

    def sort(self, f: FloatArray) -> SortedRows:
        """Return the rows sorted by (group, utility), ready to be swept.

        The problem does not see a constant in a group, to which sums of products would lose
        digits: it is taken off.
        """
        centred = f - self.group_means(f)[self.group]
        return SortedRows(centred, self.order(f), self.code, self.weight, self.starts, self.ranks)

    def group_means(self, f: FloatArray) -> FloatArray:
        """Return the mean of f over each group."""
        return np.bincount(self.group, f) / np.diff(self.starts)

    def restrict(self, rows: IntArray) -> PreferenceProblem:
        """Return the problem of some rows, with C raised so that the loss keeps its size."""
        group = np.unique(self.group[rows], return_inverse=True)[1]
        part = replace(self, codes=self.codes[rows], group=group, weight=self.weight[rows])
        return replace(part, C=self.C * self.n_pairs / part.n_pairs) if part.n_pairs else part

    @np.errstate(over="ignore", invalid="ignore")
    def respond(self, f: FloatArray, width: float, rows: SortedRows | None = None) -> Response:
        """Return the sums of the dual point that utilities f and a band of some width define.

        Of utilities so far apart that sums overflow they are infinite or nan: no better point.
        """
        rows = self.sort(f) if rows is None else rows
        (above, excess), (below, deficit) = rows.slacks(0.0, np.inf)
        loss = float(rows.weight @ excess)
        if self.squared:
            push, total = 2.0 * (excess - deficit), 2.0 * loss
            # Of utilities far apart, rounding may leave less than nothing.
            loss = max(0.0, rows.sum_of_squares(excess, deficit))
            total -= loss
            smoothed = loss
        else:
            push, total, less = self._ramp(rows, width, above, below)
            smoothed = loss - less
        beta = rows.scattered(self.C * rows.weight * push)
        return Response(beta, self.C * total, self.C * loss, self.C * smoothed)

    def _ramp(
        self, rows: SortedRows, width: float, above: FloatArray, below: FloatArray
    ) -> tuple[FloatArray, float, float]:
        """Return sums of min(z_+ / width, 1): lower less higher partners, and over all pairs.

        Also by how much the smoothed loss is less than the hinge: z - z^2 / (2 width) in the
        band, width / 2 beyond.
        """
        if width <= 0:
            return above - below, float(rows.weight @ above), 0.0
        (near, excess), (near_higher, deficit) = rows.slacks(0.0, width)
        beyond = 0.5 * width * float(rows.weight @ (above - near))
        within = float(rows.weight @ excess)
        less = beyond + within - 0.5 * rows.sum_of_squares(excess, deficit) / width
        above = above - near + excess / width
        below = below - near_higher + deficit / width
        return above - below, float(rows.weight @ above), less

    def response(self, point: DualPoint) -> Response:
        """Return the sums of any dual point; its loss is that at the point's utilities."""
        if self.squared or point.listed is None:
            return self.respond(point.f, point.width)
        rows = self.sort(point.f)
        ((_, excess), _) = rows.slacks(0.0, np.inf)
        (above, _), (below, _) = rows.slacks(point.width, np.inf)
        beta = self.C * rows.scattered(rows.weight * (above - below))
        beta += np.bincount(point.listed.upper, point.listed.values, self.n_rows)
        beta -= np.bincount(point.listed.lower, point.listed.values, self.n_rows)
        total = self.C * float(rows.weight @ above) + float(point.listed.values.sum())
        return Response(beta, total, self.C * float(rows.weight @ excess))

    def pairs_near_kink(
        self, f: FloatArray, width: float, most: int
    ) -> tuple[IntArray, IntArray] | None:
        """Return the rows (upper, lower) of the pairs with -width < z <= width, None if > most."""
        rows = self.sort(f)
        upper, lower = np.empty(most, np.intp), np.empty(most, np.intp)
        found = pairs_near(rows.f, rows.code, rows.starts, -width, width, upper, lower)
        if found > most:
            return None
        return rows.order[upper[:found]], rows.order[lower[:found]]

    def primal(self, f: FloatArray, norm2: float) -> float:
        """Return the primal objective of a model with utilities f and squared norm norm2."""
        return 0.5 * norm2 + self.respond(f, 0.0).loss

    def dual(self, point: DualPoint, norm2: float) -> float:
        """Return the dual objective; norm2 is beta'K beta of the point's coefficients."""
        return self.response(point).total - 0.5 * norm2

    @np.errstate(over="ignore", invalid="ignore")  # then nothing is proved: see sure_bound
    def certificate(
        self,
        f: FloatArray,
        norm2: float,
        point: DualPoint,
        image: FloatArray,
        *,
        tol: float,
        n_iter: int,
        kernel_evaluations: int = 0,
    ) -> Certificate:
        """Certify a model by a dual point, everything recomputed from utilities in float64.

        Parameters
        ----------
        f, norm2 : ndarray of shape (n_rows,), float
            Utilities of the model and its squared norm.
        point : DualPoint
            Dual variables.
        image : ndarray of shape (n_rows,)
            K beta of the coefficients beta of the dual point.
        tol : float
            Relative gap up to which the fit has converged.
        n_iter, kernel_evaluations : int
            For the record.
        """
        response = self.response(point)
        primal = self.primal(f, norm2)
        dual = response.total - 0.5 * float(response.beta @ image) - self.rounding(point, image)
        dual = sure_bound(primal, dual)
        return Certificate.from_objectives(
            self.name,
            primal=primal,
            dual=dual,
            kkt_violation=self._kkt_violation(point, image),
            converged=(primal - dual) / max(1.0, abs(primal)) <= tol,
            n_iter=n_iter,
            kernel_evaluations=kernel_evaluations,
        )

    def rounding(self, point: DualPoint, image: FloatArray) -> float:
        """Return what rounding may add to the dual objective of a point.

        A sum over a window is a difference of two sums over a group, known to the rounding of the
        larger one. In the dual variables it is multiplied by C / width (hinge) or 2 C, which for
        large C is all there is. Listed pairs are not summed that way.
        """
        if point.listed is not None:
            return 0.0
        centred = point.f - self.group_means(point.f)[self.group]
        sums = np.bincount(self.group, self.weight * (1.0 + np.abs(centred)))[self.group]
        slope = 2.0 * self.C if self.squared else self.C / max(point.width, 1e-300)
        apart = np.abs(image - self.group_means(image)[self.group])
        each = np.finfo(float).eps * slope * self.weight * sums
        return float(each @ (1.0 + apart)) if self.squared or point.width > 0 else 0.0

    def _kkt_violation(self, point: DualPoint, image: FloatArray) -> float:
        """Return LIBSVM's violation: slack of pairs below their cap, surplus of those above zero.

        What the pairs are is told by the point's f, what they should be by the image of its
        coefficients. For the squared hinge, which has no caps, this is a bound: the spread of the
        two.
        """
        if self.squared:
            apart = point.f - image
            return 2.0 * float(np.abs(apart - self.group_means(apart)[self.group]).max())
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


def preference_problem(
    codes: IntArray,
    *,
    C: float,
    loss: str = "hinge",
    group: IntArray | None = None,
    weight: FloatArray | None = None,
) -> PreferenceProblem:
    """State the pairwise problem (Herbrich et al. 2000, (2.21)-(2.25)).

    Parameters
    ----------
    codes : array of shape (n_rows,)
        Rank of each row: numbers whose order is the order of the ranks.
    C : float
        Cost of a unit of loss of one pair.
    loss : {"hinge", "squared_hinge"}
        The loss of a pair.
    group : array of shape (n_rows,), optional
        Only rows with equal numbers are compared.
    weight : ndarray of shape (n_rows,), optional
        Repetitions of each row; a pair weighs the product of two of them.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.problems.preference import preference_problem
    >>> problem = preference_problem(np.array([1, 3, 3, 7]), C=1.0)
    >>> problem.n_pairs
    5.0
    >>> f = np.array([0.0, 0.5, 2.0, 2.0])  # slack .5 of one pair, 1 of another
    >>> problem.primal(f, norm2=0.0)
    1.5
    """
    codes = np.unique(np.asarray(codes), return_inverse=True)[1].astype(np.int64)
    n = len(codes)
    if not C > 0:
        raise ValueError(f"C must be positive, got {C}")
    if loss not in ("hinge", "squared_hinge"):
        raise ValueError(f"loss must be 'hinge' or 'squared_hinge', got {loss!r}")
    group = np.zeros(n, np.int64) if group is None else np.unique(group, return_inverse=True)[1]
    weight = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    for name, values in (("group", group), ("weight", weight)):
        if len(values) != n:
            raise ValueError(f"{name} has {len(values)} entries for {n} rows; give one for each")
    problem = PreferenceProblem(codes, group.astype(np.int64), weight, float(C), loss)
    if not problem.n_pairs > 0:
        raise ValueError(
            f"codes (the ranks y) leave nothing to compare: no two of the {n} rows with positive "
            f"weight have different ranks within one of {len(problem.starts) - 1} group(s). "
            "Give rows of at least two ranks in some group"
        )
    return problem
