r"""
Largest margins in three norms
==============================

The hyperplane of largest margin is as far as possible from the nearest samples, in some norm. With
weights measured in :math:`\ell_p`, distances are measured in the dual norm :math:`\ell_q`,
:math:`1/p + 1/q = 1` (Smola et al. 2000, (1.15)-(1.22); Mangasarian 1997). The margin is the radius
of the largest :math:`\ell_q` balls around the samples that the hyperplane does not cut: squares,
discs or diamonds.
"""

import matplotlib.pyplot as plt
import numpy as np

from widemargin import MaxMarginClassifier

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "0.35"
NAMES = {1: "1", 2: "2", np.inf: r"\infty"}


def draw_rows(rng, n=16):
    """Return two linearly separable clouds."""
    X = rng.normal(scale=[0.75, 0.5], size=(2 * n, 2))
    y = np.repeat([-1, 1], n)
    return X + y[:, None] * [0.75, 1.05], y


X, y = draw_rows(np.random.default_rng(130))

# %%
# Squares, discs and diamonds
# ---------------------------
# ``C=np.inf`` is the hard margin. The filled balls have the radius ``margin_``. Those around the
# nearest samples touch the line: at a corner, at a point of the circle, or along a whole side.


def ball(centre, radius, q, n=400):
    """Return the outline of a ball in l_q."""
    angle = np.linspace(0.0, 2.0 * np.pi, n, endpoint=False) + np.pi / 4
    towards = np.column_stack([np.cos(angle), np.sin(angle)])
    return centre + radius * towards / np.linalg.norm(towards, q, axis=1)[:, None]


def draw(axes, model, q):
    """Draw samples, line and margin, and the balls around the samples nearest to the line."""
    w, b = model.coef_[0], model.intercept_[0]
    low, high = X.min(axis=0) - 0.5, X.max(axis=0) + 0.5
    across, up = np.meshgrid(*(np.linspace(low[j], high[j], 300) for j in (0, 1)))
    values = w[0] * across + w[1] * up + b
    axes.contourf(across, up, values, [-1, 1], colors=["0.93"])
    axes.contour(across, up, values, [0], colors="black", linewidths=1.8)
    axes.contour(across, up, values, [-1, 1], colors=GREY, linestyles="--", linewidths=0.8)
    nearest = np.flatnonzero(y * model.decision_function(X) < 1 + 1e-6)
    for label, colour, marker in ((-1, ORANGE, "s"), (1, BLUE, "o")):
        axes.scatter(*X[y == label].T, s=18, color=colour, marker=marker, zorder=3)
        for row in nearest[y[nearest] == label]:
            outline = ball(X[row], model.margin_, q)
            axes.fill(*outline.T, facecolor=colour, alpha=0.25, edgecolor=colour, linewidth=1.2)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal", xticks=[], yticks=[])


figure, panels = plt.subplots(1, 3, figsize=(11, 4.2), layout="constrained")
for axes, norm, q in zip(panels, (1, 2, np.inf), (np.inf, 2, 1), strict=True):
    model = MaxMarginClassifier(norm, C=np.inf).fit(X, y)
    draw(axes, model, q)
    axes.set_title(rf"weights in $\ell_{NAMES[norm]}$, distances in $\ell_{NAMES[q]}$")
    first, second = model.coef_[0] * model.margin_
    axes.set_xlabel(f"margin {model.margin_:.3f},  $w \\propto$ ({first:.2f}, {second:.2f})")
    print(model.certificate_)
plt.show()

# %%
# Minimising the :math:`\ell_1` norm tends to set weights to zero; minimising the
# :math:`\ell_\infty` norm tends to make all weights equal in size. The certificate does not rely on
# the results of HiGHS and Clarabel being correct: it is computed from the weights and from dual
# variables, which give a valid bound whatever their origin.
#
# Margin and weights as functions of p
# ------------------------------------
# Any :math:`p \ge 1` is allowed. The :math:`\ell_p` norm of a vector decreases as p grows, so the
# margin can only grow (left). On the right, the first weight leaves zero as p grows, until both
# weights are equal.

place = np.linspace(0, 1, 33)  # 1 - 1/p, which is 1/q
powers = [1 / (1 - share) if share < 1 else np.inf for share in place]
models = [MaxMarginClassifier(p, C=np.inf).fit(X, y) for p in powers]
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
left.plot(place, [model.margin_ for model in models], color=GREEN, linewidth=2)
left.set_ylabel(r"margin, in $\ell_q$")
directions = np.array([model.coef_[0] * model.margin_ for model in models])
for j, (colour, style) in enumerate(((BLUE, "-"), (ORANGE, "--"))):
    right.plot(place, directions[:, j], style, color=colour, linewidth=2)
    right.annotate(f"$w_{j + 1}$", (place[24], directions[24, j]), xytext=(4, -14),
                   textcoords="offset points", color=colour)  # fmt: skip
right.set_ylabel(r"weights with $|w|_p = 1$")
for axes in (left, right):
    axes.set_xticks([0, 1 / 3, 0.5, 2 / 3, 1], ["1", "1.5", "2", "3", r"$\infty$"])
    axes.set_xlabel("p (on the scale of 1 - 1/p)")
    axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Few or many relevant features
# -----------------------------
# Which norm is best depends on the data. In the figure below the classes overlap, so the margin is
# soft. In the first row five of 60 features differ between the classes; in the second row all of
# them do, each slightly. C is chosen on a validation set, and the error is measured on a test set.
# The smallest test error is that of the :math:`\ell_1` norm in the first row, and that of the
# :math:`\ell_\infty` norm in the second.


def sample(relevant, n, rng):
    """Return n samples of 60 features, some of which are shifted between the classes."""
    y = np.where(rng.random(n) < 0.5, -1, 1)
    shift = np.where(np.arange(60) < relevant, 2.0 / np.sqrt(relevant), 0.0)
    return rng.normal(size=(n, 60)) + 0.7 * y[:, None] * shift, y


def best_of(norm, train, check):
    """Return the model whose C gives the fewest errors on the validation set."""
    fits = [MaxMarginClassifier(norm, C=C).fit(*train) for C in np.geomspace(0.001, 1.0, 10)]
    return max(fits, key=lambda model: model.score(*check))


figure, panels = plt.subplots(2, 3, figsize=(11, 4.4), layout="constrained", sharex=True)
for row, relevant in zip(panels, (5, 60), strict=True):
    rng = np.random.default_rng(relevant)
    train, check, test = (sample(relevant, n, rng) for n in (120, 2_000, 20_000))
    for axes, norm in zip(row, (1, 2, np.inf), strict=True):
        model = best_of(norm, train, check)
        weights = model.coef_[0] / np.abs(model.coef_[0]).max()
        axes.vlines(np.arange(60), 0, weights, color=BLUE, linewidth=1.6)
        axes.axhline(0, color="black", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set(ylim=(-1.1, 1.1), yticks=[-1, 0, 1])
        used = np.count_nonzero(np.abs(weights) > 1e-9)
        error = 1 - model.score(*test)
        axes.set_title(rf"$p = {NAMES[norm]}$: {used} nonzero, test error {error:.1%}", fontsize=10)
    row[0].set_ylabel(f"{relevant} of 60 relevant")
for axes in panels[1]:
    axes.set_xlabel("feature")
plt.show()
