r"""Bounds on the optimum of the pairwise ranking problem that hold in exact arithmetic.

**Primal.** The utilities are known as :math:`f_i = v_i \pm e_i`. The loss at v, which are exact
numbers, is a sum over pairs with a proved error (:mod:`.enclosed_pairs`). A slack changes by at
most :math:`e_i + e_j` from v to f, hence

.. math:: \ell(z + d) \le z_+ + |d| , \qquad \ell(z + d) \le z_+^2 + 2 z_+ |d| + d^2 ,

for the hinge and the squared hinge, and only pairs with :math:`z_{ij} > -2 \max_i e_i` matter. Sums
of the right-hand sides over pairs are sums over samples.

**Dual.** The variables of all pairs are implicit: real numbers, feasible by definition. They are
:math:`\alpha_{ij} = C s_i s_j \min(z_+ / \mu, 1)` (squared hinge: :math:`2 C s_i s_j z_+`) with the
slacks z of the float64 utilities of the dual point; pairs that are listed have float64 variables,
clipped to their boxes. Only the sums of these numbers are rounded: enclosures of the coefficients
:math:`\beta`, of :math:`\sum \alpha` and of :math:`\sum \alpha^2 / (4 C s_i s_j)`. If
:math:`\hat\beta` is :math:`\beta` in float64 and :math:`\delta = \beta - \hat\beta`,

.. math::

    \beta'K\beta = (\hat\beta + 2 \delta)'K\hat\beta + \delta'K\delta , \qquad
    0 \le \delta'K\delta \le \Bigl(\sum_i |\delta_i| q_i\Bigr)^2

with the majorants q of :mod:`widemargin.kernels.sums`, so that f is needed for float64 coefficients
only. All variables are multiplied by the factor that maximises the dual. C and the weights have a
relative error (`PreferenceProblem.cost_error`), and so have the boxes: the factor stays below 1 by
as much, see :mod:`widemargin.problems.linear_bounds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from widemargin._base.double_double import CHARGE, U
from widemargin._base.enclosure import Enclosure
from widemargin._base.products import combine, gamma, row_norms, times
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin.certificate import Bracket, tightest
from widemargin.kernels import Rows
from widemargin.kernels.sums import enclosed_sum, majorants
from widemargin.problems.linear_bounds import NOTHING, best_on_ray, squared_norm
from widemargin.problems.preference.enclosed_pairs import EnclosedPairs, decision_error, scatter
from widemargin.problems.preference.pair_sums import DualPoint, Listed

if TYPE_CHECKING:
    from widemargin.problems.preference import PreferenceModel, PreferenceProblem

UP = 1.0 + 1e-6  # covers the rounding of sums of nonnegative error terms
UNKNOWN = Enclosure.within(0.0, np.inf)


@dataclass(frozen=True, eq=False)
class DualTerms:
    """Sums of the implicit dual variables of a point.

    Attributes
    ----------
    beta : Enclosure of shape (n_rows,)
        Expansion coefficients.
    gain : Enclosure
        Sum of the variables.
    square : Enclosure
        Sum of alpha^2 / (4 C s_i s_j) for the squared hinge, else 0.
    """

    beta: Enclosure
    gain: Enclosure
    square: Enclosure

    @property
    def linear(self) -> float:
        """Dual objective without the norm term, in float64."""
        return float(self.gain.hi) - float(self.square.hi)


class _Parts(NamedTuple):
    """Utilities and penalty of the model; norm term of the dual, and its largest factor.

    `shorter` is by how much rounding errors reduce the factor.
    """

    f: Enclosure
    penalty: Enclosure
    curve: Enclosure
    longest: float
    shorter: float = 0.0


def bracket(
    problem: PreferenceProblem,
    model: PreferenceModel,
    data: Matrix | Rows,
    *,
    tol: float = np.inf,
    mercer: bool = True,
) -> Bracket:
    """Return bounds on the optimum, with more precise sums if rounding blurs them.

    Parameters
    ----------
    problem : PreferenceProblem
        The problem.
    model : PreferenceModel
        Model with its dual point.
    data : ndarray or CSR, or Rows
        Samples of a linear model, or kernel rows.
    tol : float, default=inf
        Relative gap above which more precise sums are used if they may attain it.
    mercer : bool, default=True
        Whether the kernel is not known to be indefinite.
    """
    terms = dual_terms(problem, model.point)

    def evaluate(precise: bool) -> Bracket:
        if isinstance(data, Rows):
            parts = _kernel_parts(problem, model, data, terms, precise)
        else:
            parts = _linear_parts(problem, model, data, terms, precise)
        blur = problem.cost_error
        primal = parts.penalty + loss(problem, parts.f).blurred(blur)
        curve = parts.curve + terms.square.blurred(blur)
        dual = best_on_ray(terms.gain, curve, parts.longest)
        # A negative norm, or bounds that cross, prove that the matrix of the user is indefinite.
        negative = parts.penalty.upper() < 0.0 or parts.curve.upper() < 0.0
        found = Bracket.of(primal, dual, trivial=0.0)
        valid = mercer and _may_be_mercer(data) and not negative and found.dual <= found.primal
        rounding = found.rounding + parts.shorter * abs(float(terms.gain.hi))
        return Bracket(found.primal, found.dual if valid else -np.inf, rounding)

    with np.errstate(all="ignore"):
        return tightest(evaluate, tol)


def _may_be_mercer(data: Matrix | Rows) -> bool:
    if not isinstance(data, Rows) or data.kernel.name not in ("poly", "sigmoid"):
        return True
    return data.kernel.is_mercer_by_name


def loss(problem: PreferenceProblem, f: Enclosure) -> Enclosure:
    """Return C times the loss of all pairs; its upper bound is valid for all enclosed f."""
    v = f - problem.group_means(f.hi)[problem.group]
    if not (np.isfinite(v.hi).all() and np.isfinite(v.error).all()):
        return UNKNOWN
    pairs = EnclosedPairs.of(problem, v.hi, v.lo)
    e, weight = v.error[pairs.order], pairs.weight
    sums = pairs.moments(0.0)
    undecided = decision_error(0.0)
    widest = 2.0 * float(e.max()) * UP + 4.0 * undecided
    near = pairs.partners(-widest)
    if problem.squared:
        at_v = pairs.squares(sums)
        slack = sums.excess.size() + sums.deficit.size() + undecided * pairs.mass
        spread = 2.0 * float((weight * e) @ slack) + 2.0 * float((weight * e * e) @ near)
    else:
        at_v = sums.excess.dot(weight)
        spread = float((weight * e) @ near)
    return problem.C * at_v.widened(spread * UP + undecided * pairs.pair_mass)


def dual_terms(problem: PreferenceProblem, point: DualPoint) -> DualTerms:
    """Return enclosures of the sums of the dual variables of a point."""
    with np.errstate(all="ignore"):
        pairs = EnclosedPairs.of(problem, problem.centred(point.f))
        if problem.squared:
            return _squared_terms(problem, pairs)
        if point.listed is None and point.width > 0.0:
            return _smoothed_terms(problem, pairs, point.width)
        return _stepped_terms(problem, pairs, point.width, point.listed)


def _squared_terms(problem: PreferenceProblem, pairs: EnclosedPairs) -> DualTerms:
    """Return the sums of the variables 2 C s_i s_j z_+."""
    sums, undecided = pairs.moments(0.0), decision_error(0.0)
    wrong, everything = 2.0 * undecided * pairs.mass, undecided * pairs.pair_mass
    slope = (sums.excess - sums.deficit).widened(wrong) * pairs.weight
    gain = sums.excess.dot(pairs.weight).widened(everything)
    square = pairs.squares(sums).widened(everything)
    C = Enclosure.exact(problem.C)
    return DualTerms(pairs.scattered(slope * 2.0 * C), gain * 2.0 * C, square * C)


def _smoothed_terms(problem: PreferenceProblem, pairs: EnclosedPairs, width: float) -> DualTerms:
    """Return the sums of the variables C s_i s_j min(z_+ / width, 1)."""
    some, beyond = pairs.moments(0.0), pairs.moments(width)
    undecided = (decision_error(0.0) + decision_error(width)) / width * UP
    above = beyond.above + (some.excess - beyond.excess) / width
    below = beyond.below + (some.deficit - beyond.deficit) / width
    slope = (above - below).widened(2.0 * undecided * pairs.mass) * pairs.weight
    gain = above.dot(pairs.weight).widened(undecided * pairs.pair_mass)
    C = Enclosure.exact(problem.C)
    return DualTerms(pairs.scattered(slope * C), gain * C, NOTHING)


def _stepped_terms(
    problem: PreferenceProblem, pairs: EnclosedPairs, width: float, listed: Listed | None
) -> DualTerms:
    """Return the sums of variables that are at their caps for slacks above width, or listed.

    Any decision about a slack gives feasible variables, so that it may be wrong; a listed pair has
    its listed value on either side.
    """
    sums, C = pairs.moments(width), Enclosure.exact(problem.C)
    beta = pairs.scattered((sums.above - sums.below) * pairs.weight * C)
    gain = sums.above.dot(pairs.weight) * C
    if listed is not None:
        place = np.empty_like(pairs.order)
        place[pairs.order] = np.arange(len(place))
        cap = C * problem.weight[listed.upper] * problem.weight[listed.lower]
        counted = pairs.first(width)[place[listed.upper]] <= place[listed.lower]
        extra = Enclosure.exact(np.clip(listed.values, 0.0, cap.hi)) - cap * counted.astype(float)
        beta = (
            beta + _at(listed.upper, extra, len(beta.hi)) - _at(listed.lower, extra, len(beta.hi))
        )
        gain = gain + extra.sum()
    return DualTerms(beta, gain, NOTHING)


def _at(place: IntArray, values: Enclosure, n: int) -> Enclosure:
    """Return sums of the values at the given places."""
    hi, lo = np.zeros(n), np.zeros(n)
    scatter(place, values.hi, values.lo, hi, lo)
    size = np.bincount(place, np.abs(values.hi), n)
    most = float(np.bincount(place, minlength=n).max())
    error = np.bincount(place, values.error, n) + CHARGE * U * U * most * size
    return Enclosure(hi, lo, error * UP)


def _capped(problem: PreferenceProblem) -> float:
    """Return the largest factor of the dual variables; boxes are known up to a relative error."""
    return np.inf if problem.squared else 1.0 - 2.0 * problem.cost_error - 4.0 * U


def _linear_parts(
    problem: PreferenceProblem, model: PreferenceModel, X: Matrix, terms: DualTerms, precise: bool
) -> _Parts:
    beta = terms.beta
    pull, apart = combine(X, beta.hi, precise=precise), beta.error
    if precise:
        pull = pull + combine(X, beta.lo)
    else:
        apart = apart + np.abs(beta.lo)
    pull = pull.widened(float(apart @ row_norms(X)) * UP)
    f, longest = times(X, model.coef, precise=precise), _capped(problem)
    if problem.norm == 1:
        ideal = 1.0 / max(1.0, float(np.max(np.abs(pull.hi), initial=0.0)))
        largest = float(np.max(pull.size(), initial=0.0)) * (1.0 + 4.0 * U)
        if not largest * longest <= 1.0:  # also if nothing is known of it
            longest = (1.0 - 4.0 * U) / largest if np.isfinite(largest) else 0.0
        size = abs(Enclosure.exact(model.coef)).sum()
        return _Parts(f, size, NOTHING, longest, max(0.0, ideal - longest))
    return _Parts(f, squared_norm(model.coef, 0.0, None) * 0.5, pull.dot(pull) * 0.5, longest)


def _kernel_parts(
    problem: PreferenceProblem, model: PreferenceModel, rows: Rows, terms: DualTerms, precise: bool
) -> _Parts:
    size, every = majorants(rows), np.arange(rows.n)

    def sums(beta: FloatArray, values: FloatArray) -> Enclosure:
        used = np.flatnonzero(beta)
        if precise:
            return enclosed_sum(rows, every, used, beta[used], size=size, precise=True)
        found = enclosed_sum(rows, every, used, beta[used], values, size=size)
        # The solver may have summed a stored matrix, in any order.
        return found.widened(gamma(len(used)) * float(np.abs(beta) @ size) * UP * size)

    f = sums(model.coef, model.f)
    image = f if model.coef is model.beta else sums(model.beta, model.image)
    rest = terms.beta - model.beta
    norm2 = image.dot(rest * 2.0 + model.beta)
    curve = norm2.widened((float(rest.size() @ size) * UP) ** 2) * 0.5
    return _Parts(f, f.dot(model.coef) * 0.5, curve, _capped(problem))
