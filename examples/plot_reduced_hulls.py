"""
Reduced convex hulls
====================

If two classes overlap, their convex hulls intersect, and no line separates them. Now let the weight
of each sample in a convex combination be at most 1/k. The points that can still be represented form
the *reduced hull* of the class: it lies around the means of k samples, and a few samples in the
wrong place no longer matter. As k grows the hulls shrink until they are disjoint. The classifier of
Balcázar, Dai, Tanaka and Watanabe (2008), :class:`~widemargin.ReducedHullSVC`, is the line between
the nearest points of the two hulls.
"""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np

from widemargin import SVC, NuSVC, ReducedHullSVC

rng = np.random.default_rng(8)
X = rng.normal(size=(26, 2))
y = np.repeat([0, 1], 13)
X[y == 1] += [2.4, 0.8]
COLOURS = ("tab:red", "tab:blue")

# %%
# Composed examples
# -----------------
# The corners of the reduced hull are means of k samples of the class, the *composed examples*.
# There are very many of them (small dots in the figure), but in any direction the farthest one is
# simply the mean of the k farthest samples. So the outline can be drawn without listing them. The
# hulls shrink from left to right.


def outline(points, k, n_directions=720):
    """Return corners of the reduced hull: means of the k farthest points per direction."""
    angles = np.linspace(0.0, 2.0 * np.pi, n_directions)
    towards = np.column_stack([np.cos(angles), np.sin(angles)])
    farthest = np.argsort(-points @ towards.T, axis=0)[:k]
    return points[farthest].mean(axis=0)


def draw_classes(axes, X, y, size=22):
    """Draw the samples of both classes."""
    for label, colour in enumerate(COLOURS):
        axes.scatter(*X[y == label].T, s=size, color=colour, zorder=3)
    axes.set(xticks=[], yticks=[], aspect="equal")


figure, panels = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
for axes, k in zip(panels, (1, 2, 4), strict=True):
    for label, colour in enumerate(COLOURS):
        points = X[y == label]
        composed = np.array([points[list(few)].mean(axis=0) for few in combinations(range(13), k)])
        axes.scatter(*composed.T, s=3, color=colour, alpha=0.25, linewidths=0)
        axes.fill(*outline(points, k).T, facecolor=colour, alpha=0.2, edgecolor=colour)
    draw_classes(axes, X, y)
    axes.set_title(f"k = {k}: {len(composed)} composed examples per class")
plt.show()

# %%
# The smallest k
# --------------
# ``k="auto"`` selects the smallest k for which the hulls are disjoint. It is the first integer
# above a critical value, which is computed by a linear program: the largest mass that the classes
# can share.

smallest = ReducedHullSVC().fit(X, y)
print(f"smallest k: {smallest.k_}, outliers: {smallest.outliers_.tolist()}")
print(smallest.certificate_)

try:
    ReducedHullSVC(k=1).fit(X, y)
except ValueError as error:
    print(error)

# %%
# From there on there is a solution for every k; at the smallest one the hulls almost touch. In the
# figure, the dashed lines are the thresholds: samples beyond the threshold of their class are its
# outliers (crosses), at most k per class. The stars are the nearest points of the hulls. The solid
# line is halfway between the thresholds, the dotted one halfway between the stars (``cut="hull"``).


def draw_machine(axes, model):
    """Draw hulls, nearest points, thresholds, both cuts and outliers."""
    draw_classes(axes, X, y)
    for label, colour in enumerate(COLOURS):
        corners = outline(X[y == label], model.k_)
        axes.fill(*corners.T, facecolor=colour, alpha=0.2, edgecolor=colour)
    signed = model.dual_coef_[0]
    for side, colour in zip((signed < 0, signed > 0), COLOURS, strict=True):
        mass = np.abs(signed[side])
        nearest = mass @ model.support_vectors_[side] / mass.sum()
        axes.plot(*nearest, "*", color=colour, markersize=15, markeredgecolor="black", zorder=5)
    low, high = X.min(axis=0) - 0.2, X.max(axis=0) + 0.2
    across, up = np.meshgrid(*(np.linspace(low[j], high[j], 200) for j in (0, 1)))
    grid = np.column_stack([across.ravel(), up.ravel()])
    values = model.decision_function(grid).reshape(across.shape)
    axes.contour(across, up, values, [-1, 0, 1], colors="black", linestyles=["--", "-", "--"])
    hull = ReducedHullSVC(k=model.k_, cut="hull").fit(X, y)
    values = hull.decision_function(grid).reshape(across.shape)
    axes.contour(across, up, values, [0], colors="black", linestyles=":")
    axes.scatter(*X[model.outliers_].T, s=90, marker="x", color="black", linewidths=1.0, zorder=4)
    axes.set_title(f"k = {model.k_}: distance {np.sqrt(-2 * model.certificate_.dual):.2f}")


figure, panels = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
for axes, k in zip(panels, (smallest.k_ + 1, smallest.k_ + 3, 10), strict=True):
    draw_machine(axes, ReducedHullSVC(k=k).fit(X, y))
plt.show()

# %%
# Equivalent SVC and NuSVC
# ------------------------
# k is a number of samples, unlike nu and C, but for matching values all three give the same
# decision function.

model = ReducedHullSVC(k=5.5).fit(X, y)
others = (
    SVC(kernel="linear", C=model.equivalent_C_, tol=1e-8),
    NuSVC(kernel="linear", nu=model.nu_, tol=1e-8),
)
for other in others:
    other.fit(X, y)
    difference = np.abs(model.decision_function(X) - other.decision_function(X)).max()
    print(f"{type(other).__name__}: decision values differ by {difference:.1e}")

# %%
# The distance between the hulls grows with k, almost linearly at first. This is why the secant
# method finds the critical k in few steps where the linear program is too large.

sizes = np.arange(smallest.k_, 14)
distances = [np.sqrt(-2 * ReducedHullSVC(k=int(k)).fit(X, y).certificate_.dual) for k in sizes]
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.plot(sizes, distances, "o-")
axes.set(xlabel="k", ylabel="distance between the reduced hulls", xlim=(0, 13.5), ylim=(0, None))
plt.show()
