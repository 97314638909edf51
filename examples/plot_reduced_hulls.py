"""
Reduced convex hulls
====================

Two classes that overlap have convex hulls that meet, and no line separates them. Let every class
put at most the mass 1/k on any one of its points: the points that it can still reach, its *reduced
hull*, lie around the means of k points, and a few points in the wrong place no longer count. As k
grows the hulls shrink, until they come apart. The machine of Balcázar, Dai, Tanaka and Watanabe
(2008) is the line between the nearest points of the two.
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
# The corners of the reduced hull are means of k points of the class: the *composed examples*. There
# are very many of them (all small dots below), but in any direction the farthest one is simply the
# mean of the k farthest points. So the outline is drawn without listing them.


def outline(points, k, n_directions=720):
    """Return the corners of the reduced hull: the mean of the k farthest points, all around."""
    angles = np.linspace(0.0, 2.0 * np.pi, n_directions)
    towards = np.column_stack([np.cos(angles), np.sin(angles)])
    farthest = np.argsort(-points @ towards.T, axis=0)[:k]
    return points[farthest].mean(axis=0)


def draw_classes(axes, X, y, size=22):
    """Draw the points of both classes."""
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
    axes.set_title(f"k = {k}: {len(composed)} composed examples a class")
plt.show()

# %%
# The smallest k
# --------------
# ``k="auto"`` asks for the smallest k at which the hulls are apart. It is the first integer above a
# critical value that one linear program finds: the largest mass that the classes can share.

smallest = ReducedHullSVC().fit(X, y)
print(f"smallest k: {smallest.k_}, outliers: {smallest.outliers_.tolist()}")
print(smallest.certificate_)

try:
    ReducedHullSVC(k=1).fit(X, y)
except ValueError as error:
    print(error)

# %%
# From there on every k has its machine; at the smallest one the hulls all but touch. The dashed
# lines are the thresholds: rows beyond the one of their class are its outliers (crossed), at most
# k for each class. The stars are the nearest points of the hulls; the solid line is halfway between
# the thresholds, the dotted one halfway between the stars (``cut="hull"``).


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
# The same machines by other names
# --------------------------------
# k counts examples; nu and C do not, but they draw the same line.

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
# How far apart the hulls are grows with k, almost linearly at first; that is why a secant finds the
# critical k in few steps where the linear program is too large.

sizes = np.arange(smallest.k_, 14)
distances = [np.sqrt(-2 * ReducedHullSVC(k=int(k)).fit(X, y).certificate_.dual) for k in sizes]
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.plot(sizes, distances, "o-")
axes.set(xlabel="k", ylabel="distance of the reduced hulls", xlim=(0, 13.5), ylim=(0, None))
plt.show()
