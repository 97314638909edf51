r"""
Perceptron and largest margin
=============================

The perceptron (Smola et al. 2000, Table 1.1) visits the samples in turn and makes an update for
each one that is misclassified. If the classes are linearly separable, it ends at a separating
hyperplane, which depends on the order of the samples. The number of updates is bounded by a
quantity that depends on the distance between the classes (theorem 1.1). The hyperplane with the
largest margin, by contrast, is unique.
"""

import matplotlib.pyplot as plt
import numpy as np

from widemargin import MaxMarginClassifier, PerceptronClassifier, ReducedHullSVC

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"


def two_clouds(rng, n=25, gap=0.35, turn=0.9):
    """Return samples on both sides of a line, at least half the gap away from it."""
    normal = np.array([np.cos(turn), np.sin(turn)])
    X = rng.normal(size=(2 * n, 2))
    f = X @ normal - 0.3
    y = np.where(f > 0, 1, -1)
    return X + 0.5 * gap * y[:, None] * normal, y


rng = np.random.default_rng(4)
X, y = two_clouds(rng)
widest = MaxMarginClassifier(C=np.inf).fit(X, y)
orders = [rng.permutation(len(y)) for _ in range(60)]
perceptrons = [PerceptronClassifier().fit(X[order], y[order]) for order in orders]

# %%
# Sixty orders of the same samples
# --------------------------------
# Left: each thin line is the result of the perceptron for another order of the same samples. The
# thick line has the largest margin; its support vectors are ringed. Right: the margins of the
# perceptrons, which are mostly much smaller than the largest one.

low, high = X.min(axis=0) - 0.4, X.max(axis=0) + 0.4
across, up = np.meshgrid(*(np.linspace(low[j], high[j], 300) for j in (0, 1)))
grid = np.column_stack([across.ravel(), up.ravel()])


def contour(axes, model, level, **style):
    """Draw the level lines of a decision function."""
    axes.contour(across, up, model.decision_function(grid).reshape(across.shape), level, **style)


figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
for model in perceptrons:
    contour(left, model, [0], colors="0.6", linewidths=0.6)
contour(left, widest, [0], colors=GREEN, linewidths=3)
contour(left, widest, [-1, 1], colors=GREEN, linestyles="--", linewidths=1)
for label, colour, marker in ((-1, ORANGE, "s"), (1, BLUE, "o")):
    left.scatter(*X[y == label].T, s=22, color=colour, marker=marker, zorder=3)
ringed = widest.dual_ > 0
left.scatter(*X[ringed].T, s=110, facecolors="none", edgecolors="black", zorder=4)
left.set(xticks=[], yticks=[], aspect="equal", title="perceptrons (grey) and the largest margin")


def smallest_distance(model):
    """Return the distance from the line to the nearest sample."""
    return (y * model.decision_function(X)).min() / np.linalg.norm(model.coef_[0])


distances = np.array([smallest_distance(model) for model in perceptrons])
right.hist(distances / widest.margin_, bins=20, range=(0, 1), color="0.6")
right.axvline(1.0, color=GREEN, linewidth=3)
right.annotate("largest margin", (1.0, 0.97), xycoords=("data", "axes fraction"), xytext=(-6, 0),
               textcoords="offset points", ha="right", va="top", color=GREEN)  # fmt: skip
right.set(xlabel="distance of the nearest sample / largest margin")
right.set(ylabel="perceptrons", xlim=(0, 1.05))
right.spines[["top", "right"]].set_visible(False)
plt.show()

print(f"margins of perceptrons: median {np.median(distances):.4f}, largest {distances.max():.4f}")
print(f"largest possible:       {widest.margin_:.4f}")

# %%
# The margin matters for new samples: many lines separate the training samples, but only one is the
# true boundary.

fresh, truth = two_clouds(np.random.default_rng(5), n=20_000, gap=0.0)
errors = [100 * (1 - model.score(fresh, truth)) for model in perceptrons]
print(f"test error of perceptrons:    {np.mean(errors):.2f} % +- {np.std(errors):.2f}")
print(f"test error of largest margin: {100 * (1 - widest.score(fresh, truth)):.2f} %")

# %%
# Number of updates and its bound
# -------------------------------
# Theorem 1.1: the perceptron makes at most :math:`(1 + b^2)(1 + R^2)/\rho^2` updates, where
# :math:`\rho` is the margin of any separating hyperplane with :math:`|w| = 1` and :math:`R` the
# largest norm of a sample. (It is printed with the square of that norm, which is wrong: the single
# sample x = 0.64 is a counterexample.) The learning rate has no effect. In the figure, every dot is
# a data set with its own gap, in random order; all of them lie below the bound.

steps, limits, gaps = [], [], []
for seed in range(150):
    rng = np.random.default_rng(seed)
    gap = 10 ** rng.uniform(-2, 0.7)
    rows, labels = two_clouds(rng, gap=gap, turn=rng.uniform(0, 2 * np.pi))
    plane = MaxMarginClassifier(C=np.inf).fit(rows, labels)
    model = PerceptronClassifier(max_iter=100_000).fit(rows, labels)
    steps.append(model.n_updates_)
    limits.append(model.mistake_bound(plane.coef_[0], plane.intercept_[0]))
    gaps.append(plane.margin_)

figure, axes = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
dots = axes.scatter(limits, steps, c=gaps, norm="log", cmap="cividis", s=26, edgecolors="0.3",
                    linewidths=0.4)  # fmt: skip
ends = np.array([1.0, max(limits)])
axes.fill_between(ends, ends, max(limits), color="0.92", linewidth=0)
axes.plot(ends, ends, color="black", linewidth=1)
axes.annotate("more updates than the bound: none", (0.04, 0.93), xycoords="axes fraction")
axes.set(xscale="log", yscale="log", xlabel="bound on the updates, by the largest margin")
axes.set(ylabel="updates", xlim=(min(limits) / 2, None), ylim=(0.8, max(limits)))
figure.colorbar(dots, label="largest margin")
plt.show()

print(f"updates exceed the bound on {np.sum(np.array(steps) > limits)} of {len(steps)} data sets")
print(f"updates over bound: median {np.median(np.array(steps) / limits):.3f}, "
      f"largest {np.max(np.array(steps) / limits):.3f}")  # fmt: skip

# %%
# Kernel perceptron
# -----------------
# In feature space the coefficient of a sample is the number of its updates; samples that were never
# misclassified have none. Samples with a coefficient are ringed. The perceptron stops as soon as
# all samples are correct, however close to the boundary some of them are.

angle = rng.uniform(0, 2 * np.pi, 120)
radius = np.where(np.arange(120) < 60, rng.uniform(0, 0.8, 120), rng.uniform(1.1, 1.9, 120))
X, y = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), np.arange(120) >= 60
order = rng.permutation(120)
X, y = X[order], y[order]
low, high = X.min(axis=0) - 0.3, X.max(axis=0) + 0.3
across, up = np.meshgrid(*(np.linspace(low[j], high[j], 200) for j in (0, 1)))
grid = np.column_stack([across.ravel(), up.ravel()])

figure, panels = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
machines = {
    "kernel perceptron": PerceptronClassifier(kernel="rbf", gamma=1.0),
    "largest margin": ReducedHullSVC(k=1, kernel="rbf", gamma=1.0),
}
for axes, (name, model) in zip(panels, machines.items(), strict=True):
    model.fit(X, y)
    values = model.decision_function(grid).reshape(across.shape)
    axes.contourf(across, up, values, [-np.inf, 0, np.inf], colors=["#f4cbb8", "#c3d9ec"])
    axes.contour(across, up, values, [0], colors="black", linewidths=2)
    for label, colour, marker in ((False, ORANGE, "s"), (True, BLUE, "o")):
        axes.scatter(*X[y == label].T, s=16, color=colour, marker=marker, zorder=3)
    axes.scatter(*X[model.support_].T, s=80, facecolors="none", edgecolors="black", zorder=4)
    axes.set(
        xticks=[], yticks=[], aspect="equal", title=f"{name}: {len(model.support_)} support vectors"
    )
plt.show()
