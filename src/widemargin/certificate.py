"""Certificates: how far from the optimum a fitted model can be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from widemargin._base.messages import warn
from widemargin._base.tolerances import OBJECTIVE_ROUNDING
from widemargin._base.typing import Matrix

CROSSED = 1e-9  # of the objective: a bound that much above it is none


@dataclass(frozen=True)
class Certificate:
    """A proof of how close a fitted model is to the optimum of its problem.

    The numbers are recomputed in float64 from the coefficients of the model and the
    data; nothing is copied from the state of the solver. By weak duality the optimum
    lies between `dual` and `primal`, so `gap` bounds the error of the objective.

    Attributes
    ----------
    problem : str
        The formulation that was solved, e.g. ``"C-hinge"``.
    primal, dual : float
        Objective of the primal at the model and of the dual at its coefficients.
    gap : float
        ``primal - dual``.
    relative_gap : float
        ``gap / max(1, abs(primal))``.
    kkt_violation : float
        Largest violation of the optimality conditions, in LIBSVM's definition:
        the amount by which two thresholds that must agree differ. NaN where data that were read
        in parts left it open; the gap is known always.
    converged : bool
        Whether the fit met its tolerance within its budget.
    n_iter : int
        Steps of the solver.
    kernel_evaluations : int
        Kernel values computed during the fit (0 where no kernel is used).

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
    ) -> Certificate:
        """Build a certificate, deriving both gaps from the two objectives.

        Parameters
        ----------
        problem : str
            The formulation that was solved.
        primal, dual : float
            The objectives, recomputed from the model.
        kkt_violation : float
            Largest violation of the optimality conditions.
        converged : bool
            Whether the fit met its tolerance.
        n_iter : int
            Steps of the solver.
        kernel_evaluations : int, default=0
            Kernel values computed during the fit.

        Returns
        -------
        Certificate
            With `gap` and `relative_gap`.
        """
        return cls(
            problem=problem,
            primal=float(primal),
            dual=float(dual),
            gap=float(primal - dual),
            relative_gap=float(relative_gap(primal, dual)),
            kkt_violation=float(kkt_violation),
            converged=bool(converged),
            n_iter=int(n_iter),
            kernel_evaluations=int(kernel_evaluations),
        )

    def __str__(self) -> str:
        state = "converged" if self.converged else "NOT converged"
        return (
            f"{self.problem}: optimum between {self.dual:.10g} and {self.primal:.10g} "
            f"(relative gap {in_print(self.relative_gap):.1e}), "
            f"KKT violation {self.kkt_violation:.1e}, {state}"
        )


def gap_scale(primal: float) -> float:
    """Return what a gap is measured in: the objective, or 1 if that is more."""
    return max(1.0, abs(primal))


def relative_gap(primal: float, dual: float) -> float:
    """Return (primal - dual) / max(1, abs(primal)); infinite where a bound is missing."""
    gap = primal - dual
    return gap if np.isinf(gap) else gap / gap_scale(primal)


def in_print(relative_gap: float) -> float:
    """Return a relative gap to be shown: one that only rounding makes negative is none."""
    return 0.0 if -OBJECTIVE_ROUNDING <= relative_gap < 0.0 else relative_gap


def sure_bound(primal: float, dual: float) -> float:
    """Return a lower bound, or minus infinity: one above the objective proves nothing.

    Rounding beside a kernel of very large values can put it there, or an indefinite kernel.
    """
    return dual if dual <= primal + CROSSED * gap_scale(primal) else -np.inf


def worst(certificates: list[Certificate]) -> Certificate:
    """Return the certificate with the largest relative gap; unconverged ones come first."""
    return max(certificates, key=lambda c: (not c.converged, c.relative_gap))


REASONS = {
    "max_iter": ("max_iter was reached", "raise max_iter"),
    "stopped": ("time_limit was reached", "raise time_limit"),
    "stalled": ("rounding errors exceed tol", "raise tol"),
    "indefinite": ("the kernel is indefinite", "use a positive semi-definite kernel"),
}


def reason_of(statuses: Iterable[str], *, indefinite: bool = False) -> tuple[str, str]:
    """Return why fits with these statuses are not certified, and what would help.

    A solver that ended as "converged" without a certificate that is has met rounding errors, or
    an indefinite kernel.
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
    """Warn, with the numbers that tell how bad it is and what would help.

    measure is what tol bounds: "kkt", the violation, or "gap", the duality gap relative to scale
    (None: the objective, or 1 if that is more).
    """
    if certificate.converged:
        return
    gap = certificate.relative_gap
    if scale is not None:  # none at all where a machine of no margin sees only zeros
        gap = certificate.gap / scale if scale > 0 else np.inf
    how, advice = reason_of(statuses, indefinite=indefinite)
    asked = {"kkt": "", "gap": ""} | {measure: f" (asked: {tol:g})"}
    warn(
        f"{name} did not converge ({how}): after {certificate.n_iter} steps the "
        f"KKT violation is {certificate.kkt_violation:.2e}{asked['kkt']} and the relative "
        f"duality gap {in_print(gap):.2e}{asked['gap']} (objective "
        f"{certificate.primal:.6g}, lower bound {certificate.dual:.6g}). The model is usable "
        f"within that gap. To go on, {advice}; features on one scale help (here their standard "
        f"deviations span a factor of {_scale_range(X):.1e}).",
        ConvergenceWarning,
    )


def _scale_range(X: Matrix) -> float:
    """Largest over smallest non-zero standard deviation of the features."""
    n = X.shape[0]
    with np.errstate(over="ignore", invalid="ignore"):
        if sp.issparse(X):
            variance = np.asarray(X.multiply(X).mean(axis=0), dtype=np.float64).ravel()
        else:  # without a copy of X
            mean = X.mean(axis=0, dtype=np.float64)
            variance = np.einsum("ij,ij->j", X, X, dtype=np.float64) / n - mean**2
        deviation = np.sqrt(np.maximum(variance, 0.0))
    deviation = deviation[np.isfinite(deviation) & (deviation > 0)]
    return float(deviation.max() / deviation.min()) if len(deviation) else 1.0
