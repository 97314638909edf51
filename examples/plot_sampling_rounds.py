r"""
Rounds of random sampling
=========================

The widest margin between a million rows depends on a handful of them. OptMargin and OptSoftMargin
(Balcázar et al. 2008, Figs. 1 and 3) find them by drawing small samples: solve the sample, look for
rows that its optimum misclassifies, double their weights, draw again. Without such a row, the
optimum of the sample is that of all rows. The expected number of rounds is at most
:math:`6 \delta \ln m`; no more than :math:`\delta = n + 2k - 1` rows determine the optimum.

This example counts rounds for growing numbers of rows m, and shows how the two bounds on the
distance of the classes close in.
"""

import matplotlib.pyplot as plt
import numpy as np

from widemargin import sources
from widemargin.problems.linear_scan import LinearProblem
from widemargin.solvers.base import Budget
from widemargin.solvers.literature.random_sampling import practical_plan, proved_plan, solve


def with_a_gap(m, n, crossed=0, seed=0):
    """Return rows on both sides of a gap; some of each class have crossed to its far side."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal(n)
    normal /= np.linalg.norm(normal)
    X = rng.uniform(-1, 1, (m, n))
    side = np.sign(X @ normal)
    X += np.outer(0.3 * side, normal)
    y = side.copy()
    for label in (-1.0, 1.0):
        members = np.flatnonzero(side == label)
        nearest = np.argsort(label * (X[members] @ normal))[:crossed]
        y[members[nearest]] = -label
    return X, y


def rows_in_memory(X, y):
    """Return the rows as a source, which is all that a solver sees of any data."""
    return sources.from_arrays(X, y).binary(1.0, -1.0)


def sampled(source, k, plan, seed):
    """Run OptMargin (k = 1) or OptSoftMargin with some plan."""
    hulls, rounds = LinearProblem("hull", 1 / k), Budget(10_000)
    return solve(hulls, source, budget=rounds, method="weights", plan=plan, seed=seed)


# %%
# Rounds grow with the logarithm of m, as the theorem says, but stay far below its bound (dotted):
# the proof counts on one row of the basis being doubled in a round, in practice most of them are.

sizes = np.array([1_000, 3_000, 10_000, 30_000, 100_000])
cases = [(2, 1), (5, 1), (5, 3)]
runs = 5
figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
for (n, k), colour in zip(cases, ("tab:blue", "tab:orange", "tab:green"), strict=True):
    means, bounds = [], []
    for m in sizes:
        source = rows_in_memory(*with_a_gap(m, n, crossed=(k - 1) // 2))
        found = [sampled(source, k, proved_plan(n, k), seed) for seed in range(runs)]
        means.append(np.mean([each.n_iter for each in found]))
        bounds.append(found[0].round_bound)
    label = f"n = {n}, k = {k}: $\\delta$ = {n + 2 * k - 1}"
    axes.plot(np.log(sizes), means, "o-", color=colour, label=label)
    axes.plot(np.log(sizes), bounds, ":", color=colour)
    print(f"n = {n}, k = {k}: rounds {np.round(means, 1)}, bounds {np.round(bounds)}")
axes.set(xlabel="ln m", ylabel="rounds (dotted: proved bound)", yscale="log")
axes.legend()
plt.show()

# %%
# Every round gives two bounds. The sample's classes are no nearer than all rows, and the plane
# with its violators is at least as bad as the best one. Smaller samples than the proof asks for
# need more, cheaper rounds; a sample that keeps the violators needs the fewest.

X, y = with_a_gap(100_000, 5)
source = rows_in_memory(X, y)
ways = {
    "OptMargin, r = 6 $\\delta^2$": sampled(source, 1, proved_plan(5), 1),
    "small samples, r = 10 $\\delta$": sampled(source, 1, practical_plan(5), 1),
    "growing sample": solve(
        LinearProblem("hull", 1.0), source, budget=Budget(500), first=200, seed=1
    ),
}
figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
for (name, found), colour in zip(ways.items(), ("tab:blue", "tab:red", "black"), strict=True):
    distance = np.linalg.norm(found.coef)
    gaps = [max((each["upper"] - each["lower"]) / distance, 1e-16) for each in found.history]
    axes.semilogy(range(1, found.n_iter + 1), gaps, ".-", color=colour, label=name)
    print(f"{name}: {found.n_iter} rounds, distance {distance:.12f}")
axes.set(xlabel="round", ylabel="relative distance of the bounds")
axes.legend()
plt.show()
