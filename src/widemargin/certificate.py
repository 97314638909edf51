"""Optimality certificates: objectives, duality gap and KKT violation of a fitted model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from widemargin._base.enclosure import Enclosure
from widemargin._base.messages import warn
from widemargin._base.tolerances import OBJECTIVE_ROUNDING
from widemargin._base.typing import Matrix

# Rounding errors are reduced by more precise sums if they exceed both this fraction of the gap and
# this fraction of the objective.
BLUR, NEGLIGIBLE = 0.1, 1e-7
SMALL_VIOLATION = 1e-3  # default tol: a larger KKT violation is not shown beside "converged"
USEFUL_GAP = 1e-2  # relative gap above which a small KKT violation does not count as convergence


@dataclass(frozen=True)
class Certificate:
    """Certificate of a convex fit: bounds on the optimum of its problem.

    All values are recomputed from the coefficients of the model and the data, not copied from the
    state of the solver, and their rounding errors are counted: `primal` is not below the objective
    of the model in exact arithmetic, and `dual` is not above the optimum. The optimum is between
    the two, and `gap` bounds the error of the objective.

    Attributes
    ----------
    problem : str
        Name of the formulation, e.g. ``"C-hinge"``.
    primal : float
        Primal objective at the model, rounded up.
    dual : float
        Dual objective at feasible dual variables, rounded down: a lower bound on the optimum. If
        rounding errors are so large that nothing can be proved, it is the trivial bound, which
        holds for any model.
    gap : float
        ``primal - dual``, rounded up.
    relative_gap : float
        ``gap / max(1, abs(primal))``, rounded up.
    kkt_violation : float
        Largest violation of the optimality conditions as defined by LIBSVM: the difference between
        two thresholds that are equal at the optimum. NaN if it was not computed for data in parts;
        the gap is always available.
    converged : bool
        Whether the fit met its tolerance within its budget.
    n_iter : int
        Number of iterations of the solver.
    kernel_evaluations : int
        Number of kernel values computed during the fit (0 without a kernel).
    rounding : float
        Part of `gap` that bounds the rounding errors of the certificate itself.

    Examples
    --------
    >>> from widemargin import Certificate
    >>> c = Certificate.from_objectives("C-hinge", primal=2.0, dual=1.99, kkt_violation=1e-4,
    ...                                 converged=True, n_iter=7)
    >>> print(c)
    C-hinge: optimum between 1.99 and 2 (relative gap 5.0e-03), KKT violation 1.0e-04, converged
    """

    problem: str
    primal: float
    dual: float
    gap: float
    relative_gap: float
    kkt_violation: float
    converged: bool
    n_iter: int
    kernel_evaluations: int = 0
    rounding: float = 0.0

    @classmethod
    def from_objectives(
        cls,
        problem: str,
        *,
        primal: float,
        dual: float,
        kkt_violation: float,
        converged: bool,
        n_iter: int,
        kernel_evaluations: int = 0,
        rounding: float = 0.0,
    ) -> Certificate:
        """Build a certificate and compute both gaps from the two objectives.

        Parameters
        ----------
        problem : str
            Name of the formulation.
        primal, dual : float
            Objectives, recomputed from the model.
        kkt_violation : float
            Largest violation of the optimality conditions.
        converged : bool
            Whether the fit met its tolerance.
        n_iter : int
            Number of iterations of the solver.
        kernel_evaluations : int, default=0
            Number of kernel values computed during the fit.
        rounding : float, default=0.0
            Part of the gap that bounds rounding errors.

        Returns
        -------
        Certificate
            The certificate, with `gap` and `relative_gap`.
        """
        return cls(
            problem=problem,
            primal=float(primal),
            dual=float(dual),
            gap=rounded_up_gap(float(primal), float(dual)),
            relative_gap=float(relative_gap(primal, dual)),
            kkt_violation=float(kkt_violation),
            converged=bool(converged),
            n_iter=int(n_iter),
            kernel_evaluations=int(kernel_evaluations),
            rounding=float(rounding),
        )

    def __str__(self) -> str:
        """Return a one-line summary.

        A KKT violation above `SMALL_VIOLATION` is omitted for a fit that has converged, since its
        tolerance bounds the gap.
        """
        state = "converged" if self.converged else "NOT converged"
        violation = shown_violation(self, "KKT violation {:.1e}, ")
        nothing = ": nothing is proved beyond the trivial bound" if is_trivial(self) else ""
        return (
            f"{self.problem}: optimum between {self.dual:.10g} and {self.primal:.10g} "
            f"(relative gap {in_print(self.relative_gap):.1e}{nothing}), {violation}{state}"
        )


def shown_violation(certificate: Certificate, template: str) -> str:
    """Return the KKT violation in a text, or "" if it would contradict the word converged."""
    violation = certificate.kkt_violation
    misleading = certificate.converged and not violation <= SMALL_VIOLATION
    return "" if misleading else template.format(violation)


def is_trivial(certificate: Certificate) -> bool:
    """Return whether the lower bound proves no more than that the optimum is not negative."""
    return not certificate.relative_gap < 1.0 - OBJECTIVE_ROUNDING


def gap_scale(primal: float) -> float:
    """Return max(1, abs(primal)), the denominator of the relative gap."""
    return max(1.0, abs(primal))


def rounded_up_gap(primal: float, dual: float) -> float:
    """Return primal - dual, rounded up if the difference is not exact."""
    gap = primal - dual
    if not math.isfinite(gap):
        return math.inf
    exact = primal - gap == dual and gap + dual == primal
    return gap if exact else math.nextafter(gap, math.inf)


def relative_gap(primal: float, dual: float) -> float:
    """Return (primal - dual) / max(1, abs(primal)) rounded up; infinity if either is infinite."""
    gap, scale = rounded_up_gap(primal, dual), gap_scale(primal)
    exact = gap == 0.0 or scale == 1.0 or math.isinf(gap)
    return gap if exact else math.nextafter(gap / scale, math.inf)


@dataclass(frozen=True)
class Bracket:
    """Bounds on the optimum that hold in exact arithmetic.

    Attributes
    ----------
    primal, dual : float
        Upper bound of the objective of a model, and lower bound of the optimum.
    rounding : float
        Part of primal - dual that bounds rounding errors.
    """

    primal: float
    dual: float
    rounding: float

    @classmethod
    def of(cls, primal: Enclosure, dual: Enclosure, trivial: float = -np.inf) -> Bracket:
        """Round the enclosed objectives outwards; `trivial` is a lower bound that always holds."""
        above, below = primal.upper(), dual.lower()
        rounding = (above - float(primal.hi)) + (float(dual.hi) - below)
        return cls(above, max(below, trivial), rounding if rounding >= 0.0 else np.inf)

    @property
    def is_blurred(self) -> bool:
        """Whether rounding is a notable part of the gap, so that more digits would help."""
        gap = self.primal - self.dual
        return not math.isfinite(self.rounding) or not self.rounding <= max(
            BLUR * gap, NEGLIGIBLE * gap_scale(self.primal)
        )


def tightest(evaluate: Callable[[bool], Bracket], tol: float = np.inf) -> Bracket:
    """Return the bracket of float64 arithmetic or, if rounding blurs it, of more precise sums.

    `evaluate` is called with False, and again with True if the first bracket is blurred, or if its
    relative gap exceeds `tol` and rounding is a notable part of it. Both are valid, so the smaller
    primal and the larger dual are returned.
    """
    first = evaluate(False)
    met = relative_gap(first.primal, first.dual) <= tol
    if not first.is_blurred and (met or first.rounding <= BLUR * (first.primal - first.dual)):
        return first
    second = evaluate(True)
    return Bracket(
        min(first.primal, second.primal),
        max(first.dual, second.dual),
        min(first.rounding, second.rounding),
    )


def in_print(relative_gap: float) -> float:
    """Clip a relative gap that is negative only through rounding to zero, for display."""
    return 0.0 if -OBJECTIVE_ROUNDING <= relative_gap < 0.0 else relative_gap


def worst(certificates: list[Certificate]) -> Certificate:
    """Return the certificate with the largest relative gap, preferring unconverged ones."""
    return max(certificates, key=lambda c: (not c.converged, c.relative_gap))


REASONS = {
    "max_iter": ("max_iter was reached", "raise max_iter"),
    "stopped": ("time_limit was reached", "raise time_limit"),
    "stalled": ("rounding errors exceed tol", "raise tol"),
    "indefinite": ("the kernel is indefinite", "use a positive semi-definite kernel"),
    "rounding": ("rounding errors dominate the gap", "scale the features or lower C"),
}


def reason_of(statuses: Iterable[str], *, indefinite: bool = False) -> tuple[str, str]:
    """Return the reason why fits with these statuses did not converge, and a remedy.

    If the solver reported "converged" but the certificate does not confirm it, the reason is an
    indefinite kernel or rounding errors.
    """
    ended = next((s for s in statuses if s != "converged"), None)
    return REASONS[ended or ("indefinite" if indefinite else "stalled")]


def warn_unconverged(
    name: str,
    certificate: Certificate,
    statuses: Iterable[str],
    tol: float,
    X: Matrix,
    measure: str = "kkt",
    scale: float | None = None,
    indefinite: bool = False,
) -> None:
    """Issue a ConvergenceWarning with the reason, the gap and a remedy, unless converged.

    `measure` is the quantity that tol bounds: "kkt", the KKT violation, or "gap", the duality gap
    relative to `scale` (None: max(1, abs(primal))).
    """
    if certificate.converged:
        return
    gap = certificate.relative_gap
    if scale is not None:  # zero for a nu machine without a margin whose kernel values are all zero
        gap = certificate.gap / scale if scale > 0 else np.inf
    how, advice = reason_of(statuses, indefinite=indefinite)
    if not indefinite and measure == "kkt" and certificate.kkt_violation <= tol:
        how, advice = _reason_of_gap(certificate, tol)
    asked = {"kkt": "", "gap": ""} | {measure: f" (asked: {tol:g})"}
    warn(
        f"{name} did not converge ({how}): after {certificate.n_iter} steps the "
        f"KKT violation is {certificate.kkt_violation:.2e}{asked['kkt']} and the relative "
        f"duality gap {in_print(gap):.2e}{asked['gap']} (objective "
        f"{certificate.primal:.6g}, lower bound {certificate.dual:.6g}). "
        f"{_worth(certificate, gap)} To go on, {advice}; features on one scale "
        f"help (here their standard deviations span a factor of {_scale_range(X):.1e}).",
        ConvergenceWarning,
    )


def _reason_of_gap(certificate: Certificate, tol: float) -> tuple[str, str]:
    """Return why the gap is large although the KKT violation is below tol, and a remedy."""
    gap = certificate.relative_gap
    if not certificate.rounding < 0.5 * certificate.gap or not np.isfinite(gap):
        return REASONS["rounding"]
    needed = min(tol, certificate.kkt_violation or tol) * USEFUL_GAP / gap
    return (
        f"the KKT violation is below tol, but the relative gap exceeds {USEFUL_GAP:g}",
        f"lower tol to {needed:.0e} and raise max_iter",
    )


def _worth(certificate: Certificate, gap: float) -> str:
    """Return what is known of the objective of a model that has not converged."""
    if gap <= USEFUL_GAP:
        return "The model is usable within that gap."
    if is_trivial(certificate):
        return (
            "Its objective may be far from optimal: nothing is proved beyond the trivial lower "
            "bound."
        )
    return f"Its objective may be far from optimal, by up to {gap:.2g} of its value."


def _scale_range(X: Matrix) -> float:
    """Return the ratio of the largest to the smallest non-zero standard deviation of features."""
    n = X.shape[0]
    with np.errstate(over="ignore", invalid="ignore"):
        if sp.issparse(X):
            variance = np.asarray(X.multiply(X).mean(axis=0), dtype=np.float64).ravel()
        else:  # X.var would copy X
            mean = X.mean(axis=0, dtype=np.float64)
            variance = np.einsum("ij,ij->j", X, X, dtype=np.float64) / n - mean**2
        deviation = np.sqrt(np.maximum(variance, 0.0))
    deviation = deviation[np.isfinite(deviation) & (deviation > 0)]
    return float(deviation.max() / deviation.min()) if len(deviation) else 1.0
