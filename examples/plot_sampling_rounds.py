r"""
Number of rounds of random sampling
===================================

The largest margin between a million samples depends on a few of them. OptMargin and OptSoftMargin
(Balcázar et al. 2008, Figs. 1 and 3) find these by drawing small subsamples: solve the subsample,
find the samples that its optimum misclassifies, double their weights, and draw again. If there are
no such samples, the optimum of the subsample is that of all samples. The expected number of rounds
is at most :math:`6 \delta \ln m`, where :math:`\delta = n + 2k - 1` bounds the number of samples
that determine the optimum.

This example counts rounds for growing numbers of samples m, and shows how the two bounds on the
distance between the classes converge.
"""

import matplotlib.pyplot as plt
import numpy as np

from widemargin import sources
from widemargin.problems.linear_scan import LinearProblem
from widemargin.solvers.base import Budget
from widemargin.solvers.literature.random_sampling import practical_plan, proved_plan, solve


def with_a_gap(m, n, crossed=0, seed=0):
    """Return samples on both sides of a gap; some of each class lie on the wrong side."""
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
    """Return the samples as a source, the interface through which solvers read data."""
    return sources.from_arrays(X, y).binary(1.0, -1.0)


def sampled(source, k, plan, seed):
    """Run OptMargin (k = 1) or OptSoftMargin with the given plan."""
    hulls, rounds = LinearProblem("hull", 1 / k), Budget(10_000)
    return solve(hulls, source, budget=rounds, method="weights", plan=plan, seed=seed)


# %%
# The number of rounds grows with the logarithm of m, as the theorem states, but stays far below its
# bound (dotted). The proof relies on the weight of one basis sample being doubled in each round; in
# practice most of them are doubled.

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
# Every round gives two bounds on the distance. The classes of the subsample are at least as far
# apart as those of all samples, and the current hyperplane, including its violators, is at most as
# good as the best one. The figure shows the gap between the two bounds. Subsamples smaller than the
# proof requires need more, but cheaper, rounds; a subsample that keeps the violators needs the
# fewest.

X, y = with_a_gap(100_000, 5)
source = rows_in_memory(X, y)
ways = {
    "OptMargin, r = 6 $\\delta^2$": sampled(source, 1, proved_plan(5), 1),
    "small subsamples, r = 10 $\\delta$": sampled(source, 1, practical_plan(5), 1),
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
axes.set(xlabel="round", ylabel="relative gap between the bounds")
axes.legend()
plt.show()
