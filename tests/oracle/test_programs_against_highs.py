"""The linear programs against HiGHS, and only as far as a rigorous bound certifies HiGHS itself.

The reference sees copies where the model sees weights: a row of weight 3 stands three times in its
matrix. It shares no code with the library. Its lower bound is a point of the dual that is made
feasible, so that it is a bound whatever HiGHS's tolerances were.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from tests.helpers.byhand import gram
from widemargin import LOOSVC, LPSVC, SVC, AdaptiveMarginSVC, NuLPSVC

RELATIVE = 1e-6
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.7},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0},
}
LAMS = (0.05, 0.4, 1.0, 3.0, "beyond")
MACHINES = ("LOOSVC", "AdaptiveMarginSVC", "LPSVC", "NuLPSVC")
BEYOND = 1.1  # times lam_max


@dataclass
class Problem:
    """Rows with whole weights, a kernel and the parameters to try on them."""

    name: str
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    kernel: dict
    lam: float | str
    nu: float

    @property
    def copies(self):
        """Numbers of the rows, each as often as its weight says."""
        return np.repeat(np.arange(len(self.y)), self.weight)

    @property
    def Q(self):
        """The matrix y_i y_j k(x_i, x_j) of the copies."""
        X, y = self.X[self.copies], self.y[self.copies]
        return y[:, None] * gram(X, X, **self.kernel) * y


def problems():
    """Return 45 problems: three kernels, three kinds of rows, five lam."""
    found = []
    for k, (kind, kernel) in enumerate(KERNELS.items()):
        for style in ("plain", "copies", "conflicts"):
            for j, lam in enumerate(LAMS):
                rng = np.random.default_rng([k, len(style), j])
                n = int(rng.integers(20, 45))
                y = np.where(np.arange(n) % 3 > 0, 1, -1)
                X = rng.normal(size=(n, 3)) + 0.7 * y[:, None]
                weight = np.ones(n, dtype=int)
                if style == "copies":
                    weight = rng.integers(0, 4, n)
                    X[5:9], y[5:9] = X[0], y[0]
                if style == "conflicts":
                    X = np.round(X)
                    X[:6] = X[6:12]
                    y[:6] = -y[6:12]
                weight[:2], y[:2] = 1, (-1, 1)
                nu = (0.15, 0.3, 0.5, 0.7, 0.9)[j]
                found.append(Problem(f"{kind}-{style}-{lam}", X, y, weight, kernel, lam, nu))
    return found


PROBLEMS = problems()


# ---------------------------------------------------------------- the reference


def lam_of(problem, machine):
    """Return the lam of a problem; beyond is relative to the machine's largest."""
    if machine == "LOOSVC":
        return 1.0
    if problem.lam != "beyond":
        return problem.lam
    pull = problem.Q.sum(axis=1)
    return BEYOND * max((pull / np.diag(problem.Q)).max() if "Adapt" in machine else pull.max(), 0)


def matrix_and_price(problem, machine):
    """Return G and c of the program over all copies."""
    lam = lam_of(problem, machine)
    if machine == "LPSVC":
        return problem.Q, lam
    return problem.Q - lam * np.diag(np.diag(problem.Q)), 0.0


def objective(G, price, alpha):
    """Return the sum of the slacks and the price of the coefficients."""
    return np.maximum(0.0, 1.0 - G @ alpha).sum() + price * alpha.sum()


def nu_objective(Q, nu, alpha):
    """Return -nu rho + mean slack at the best rho, one of the margins; alpha has the sum 1."""
    margins = Q @ alpha
    return min(np.maximum(0.0, rho - margins).mean() - nu * rho for rho in margins)


def brackets(problem, machine):
    """Return a lower bound on the optimum and the objective of a feasible point."""
    if machine == "NuLPSVC":
        return _nu_brackets(problem.Q, problem.nu)
    G, price = matrix_and_price(problem, machine)
    n = len(G)
    found = linprog(-np.ones(n), A_ub=G, b_ub=np.full(n, price), bounds=(0, 1), options=TIGHT)
    if found.x is None:
        return 0.0, float(n)
    alpha = np.maximum(0.0, -found.ineqlin.marginals)
    z = _feasible(G, price, np.clip(found.x, 0.0, 1.0))
    return z.sum(), min(float(n), objective(G, price, alpha))


def _feasible(G, price, z):
    """Return the best blend of z with a point strictly inside G z <= price that is feasible."""
    n = len(G)
    room = linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=np.c_[G, np.ones(n)],
        b_ub=np.full(n, price),
        bounds=[(0, 1)] * n + [(None, 1)],
        options=TIGHT,
    )
    inside = np.zeros(n) if room.x is None else np.clip(room.x[:n], 0.0, 1.0)
    over, under = G @ z - price, price - G @ inside
    if over.max() <= 0:
        return z
    if under.min() <= 0:
        return np.zeros(n)
    share = (np.maximum(over, 0.0) / (np.maximum(over, 0.0) + under)).max() * (1 + 1e-9)
    return (1 - share) * z + share * inside


def _nu_brackets(Q, nu):
    n = len(Q)
    found = linprog(
        np.append(np.zeros(n), 1.0),
        A_ub=np.c_[Q, -np.ones(n)],
        b_ub=np.zeros(n),
        A_eq=np.append(np.ones(n), 0.0)[None],
        b_eq=[nu],
        bounds=[(0, 1 / n)] * n + [(None, None)],
        options=TIGHT,
    )
    z = np.clip(found.x[:n], 0.0, 1 / n)
    short = nu - z.sum()  # of the sum; what is missing is taken from the room to the bounds
    z = z + short * (1 / n - z) / (1 - z.sum()) if short > 0 else z * nu / z.sum()
    alpha = np.maximum(0.0, -found.ineqlin.marginals)
    return -(Q @ z).max(), nu_objective(Q, nu, alpha / alpha.sum())


# ---------------------------------------------------------------- the models


def fitted(problem, machine):
    """Fit a machine; warnings have tests of their own."""
    options = dict(problem.kernel)
    if machine == "NuLPSVC":
        model = NuLPSVC(nu=problem.nu, **options)
    elif machine == "LOOSVC":
        model = LOOSVC(**options)
    else:
        cls = {"AdaptiveMarginSVC": AdaptiveMarginSVC, "LPSVC": LPSVC}[machine]
        model = cls(lam=lam_of(problem, machine), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(problem.X, problem.y, sample_weight=problem.weight)


def by_hand(problem, machine, model):
    """Return the objective of a model's coefficients, from nothing but these."""
    alpha = (model.alpha_ / np.maximum(problem.weight, 1))[problem.copies]
    if machine == "NuLPSVC":
        return nu_objective(problem.Q, problem.nu, alpha / alpha.sum())
    return objective(*matrix_and_price(problem, machine), alpha)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_the_objective_is_that_of_highs(problem, machine) -> None:
    """Between HiGHS's bound and HiGHS's objective, which are the same number as a rule."""
    low, high = brackets(problem, machine)
    model = fitted(problem, machine)
    reached = by_hand(problem, machine, model)
    size = max(1.0, abs(high)) if machine != "NuLPSVC" else max(1e-3, abs(high))
    assert low - 1e-9 * size <= reached <= high + RELATIVE * size
    certificate = model.certificate_
    assert certificate.converged
    assert abs(certificate.primal - reached) <= 1e-9 * size
    assert certificate.dual <= high + 1e-9 * size
    assert certificate.primal <= problem.weight.sum()


@pytest.mark.parametrize("machine", MACHINES)
def test_highs_is_certified_as_a_rule(machine) -> None:
    """What the test above compares with is a reference to 1e-6 for nearly all problems."""
    gaps = []
    for problem in PROBLEMS:
        low, high = brackets(problem, machine)
        size = max(1.0, abs(high)) if machine != "NuLPSVC" else max(1e-3, abs(high))
        gaps.append((high - low) / size)
    assert np.mean(np.array(gaps) <= RELATIVE) >= 0.9


@pytest.mark.parametrize("machine", ["AdaptiveMarginSVC", "LPSVC"])
@pytest.mark.parametrize(
    "problem", [p for p in PROBLEMS if p.lam == "beyond"], ids=lambda p: p.name
)
def test_beyond_the_largest_lam_nothing_is_learnt(problem, machine) -> None:
    model = fitted(problem, machine)
    assert not model.alpha_.any()
    assert model.lam_max_ * BEYOND == pytest.approx(lam_of(problem, machine), rel=1e-9)
    assert model.certificate_.primal == problem.weight.sum()


# ---------------------------------------------------------------- the quadratic member


@pytest.mark.parametrize("lam", [0.02, 0.5, 4.0])
@pytest.mark.parametrize("kernel", list(KERNELS))
def test_the_quadratic_member_is_the_soft_margin_machine_without_intercept(kernel, lam) -> None:
    """(2.15), min sum xi + lam alpha'Q alpha with alpha >= 0: SVC with C = 1 / (2 lam)."""
    problem = next(p for p in PROBLEMS if p.name.startswith(f"{kernel}-plain"))
    Q, n = problem.Q, len(problem.y)
    # Variables alpha, xi; Q alpha + xi >= 1, alpha >= 0, xi >= 0.
    P = sp.csc_matrix(np.block([[2 * lam * Q, np.zeros((n, n))], [np.zeros((n, 2 * n))]]))
    A = -np.block([[Q, np.eye(n)], [np.eye(2 * n)]])
    side = np.append(-np.ones(n), np.zeros(2 * n))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    cost = np.append(np.zeros(n), np.ones(n))
    cones = [clarabel.NonnegativeConeT(3 * n)]
    solution = clarabel.DefaultSolver(
        sp.triu(P, format="csc"), cost, sp.csc_matrix(A), side, cones, settings
    ).solve()
    low, high = sorted((solution.obj_val, solution.obj_val_dual))
    assert high - low <= RELATIVE * high
    model = SVC(fit_intercept=False, C=1 / (2 * lam), tol=1e-8, **problem.kernel)
    model.fit(problem.X, problem.y)
    alpha = np.zeros(n)
    alpha[model.support_] = model.dual_coef_[0] * problem.y[model.support_]
    assert alpha.min() >= 0
    reached = lam * alpha @ Q @ alpha + np.maximum(0.0, 1.0 - Q @ alpha).sum()
    assert reached == pytest.approx(high, rel=1e-6)
