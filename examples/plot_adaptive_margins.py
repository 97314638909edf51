r"""
Adaptive margins and an outlier
===============================

This example follows Figs. 2.4 to 2.6 of Smola et al. (2000). Three classifiers are fitted to the
same samples, which include one outlier: a dot on the far side of the crosses. The parameter of each
classifier increases from left to right.

* The **adaptive-margin machine** (:class:`~widemargin.AdaptiveMarginSVC`) requires of sample i the
  margin :math:`1 + \lambda \alpha_i k(x_i, x_i)`: a sample with a large coefficient has to be
  classified with a larger margin. At :math:`\lambda = 1` it is the leave-one-out machine.
* The **LP machine** (:class:`~widemargin.NuLPSVC`) requires the same margin of all samples and
  penalises :math:`\sum_i \alpha_i`. Its parameter :math:`\nu` bounds the fraction of samples that
  miss the margin.
* The **support vector machine** (:class:`~widemargin.NuSVC`) does the same with :math:`|w|^2`.
"""

import matplotlib.pyplot as plt
import numpy as np

from widemargin import AdaptiveMarginSVC, NuLPSVC, NuSVC

OUTLIER = np.array([[-1.75, -0.2]])
GAMMA = 2.0  # 1 / (2 sigma^2) with the width sigma = 0.5


def draw_rows(rng, n=30):
    """Return n crosses on an arc and n dots in a cloud, with their labels."""
    angle = rng.uniform(-0.9, 0.9, n)
    crosses = np.column_stack([-1.1 * np.cos(angle), 1.5 * np.sin(angle)])
    crosses += 0.22 * rng.standard_normal((n, 2))
    dots = [0.75, 0.0] + [0.45, 0.55] * rng.standard_normal((n, 2))
    return np.vstack([crosses, dots]), np.repeat(["cross", "dot"], n)


def with_outlier(X, y):
    """Add a dot on the far side of the crosses."""
    return np.vstack([X, OUTLIER]), np.append(y, "dot")


def machines(step):
    """Return the three classifiers at one of four values of their parameters.

    nu = 0 stands for the hard margin. Every nu up to 1 / n_samples gives the same model, and
    0.01 is below that.
    """
    lam, nu = (1, 2, 5, 10)[step], (0, 0.1, 0.2, 0.5)[step]
    return {
        rf"AM-SVM, $\lambda$ = {lam}": AdaptiveMarginSVC(lam=lam, gamma=GAMMA),
        rf"$\nu$-LP machine, $\nu$ = {nu}": NuLPSVC(nu=nu, gamma=GAMMA),
        rf"$\nu$-SVM, $\nu$ = {nu}": NuSVC(nu=max(nu, 0.01), gamma=GAMMA),
    }


# %%
# Decision boundaries
# -------------------
# The outlier is ringed. The solid line is the decision boundary; on the dashed lines the decision
# function is +1 and -1. The label below each panel states whether the classifier predicts the label
# of the outlier.

X, y = with_outlier(*draw_rows(np.random.default_rng(5)))
low, high = X.min(axis=0) - 0.3, X.max(axis=0) + 0.3
across, up = np.meshgrid(*(np.linspace(low[j], high[j], 200) for j in (0, 1)))
grid = np.column_stack([across.ravel(), up.ravel()])


def draw(axes, model):
    """Draw samples, boundary and margins, and state how the outlier is classified."""
    values = model.decision_function(grid).reshape(across.shape)
    axes.contourf(across, up, values, [-np.inf, 0, np.inf], colors=["#f4cbb8", "#c3d9ec"])
    lines = {"colors": "0.25", "linestyles": ["--", "-", "--"], "linewidths": [0.8, 2, 0.8]}
    axes.contour(across, up, values, [-1, 0, 1], **lines)
    for label, colour, marker in (("dot", "#0072B2", "o"), ("cross", "#D55E00", "x")):
        axes.scatter(*X[y == label].T, s=16, color=colour, marker=marker, zorder=3)
    axes.scatter(*OUTLIER.T, s=75, facecolors="none", edgecolors="black", zorder=3)
    followed = model.predict(OUTLIER)[0] == "dot"
    axes.set_xlabel("fits the outlier" if followed else "ignores the outlier", fontweight="bold")
    axes.set(xticks=[], yticks=[], aspect="equal")


figure, panels = plt.subplots(3, 4, figsize=(11, 8.4), layout="constrained")
for step in range(4):
    for axes, (name, machine) in zip(panels[:, step], machines(step).items(), strict=True):
        draw(axes, machine.fit(X, y))
        axes.set_title(name)
plt.show()

# %%
# With adaptive margins the outlier is ignored at every :math:`\lambda`. It has no neighbour of its
# own class, so only a large coefficient of its own could make it correct, and a large coefficient
# would increase the required margin. The two other classifiers fit the outlier, until :math:`\nu`
# is so large that many samples miss the margin anyway.
#
# Influence of the outlier on new samples
# ---------------------------------------
# An outlier may be misclassified and still move the boundary. For 20 draws of the samples, the
# table lists how often the outlier is fitted, the percentage of the picture and of 2,000 new
# samples whose prediction changes because of that one sample, and the test error.


def influence(machine, seed):
    """Return whether the outlier is fitted, and per cent changed (picture, samples) and wrong."""
    rng = np.random.default_rng(seed)
    X, y = draw_rows(rng)
    fresh, truth = draw_rows(rng, 1000)
    machine.fit(X, y)
    picture, before = machine.predict(grid[::7]), machine.predict(fresh)
    machine.fit(*with_outlier(X, y))
    after = machine.predict(fresh)
    followed = machine.predict(OUTLIER)[0] == "dot"
    of_picture = np.mean(picture != machine.predict(grid[::7]))
    return followed, 100 * of_picture, 100 * np.mean(before != after), 100 * np.mean(after != truth)


print(f"{'':28}    fitted  picture  samples    wrong")
for row in range(3):
    for step in range(4):
        name, machine = list(machines(step).items())[row]
        found = np.mean([influence(machine, seed) for seed in range(20)], axis=0)
        plain = name.replace("$", "").replace("\\", "")
        print(f"{plain:28}  {found[0]:8.0%}  " + "  ".join(f"{each:6.2f}%" for each in found[1:]))

# %%
# The adaptive margin never fits the outlier. The two others build an island or a bay around it, if
# :math:`\nu` is small, which changes more of the picture than :math:`\lambda = 1` does. The island
# lies where there are no other samples, so it hardly matters for new samples; there the adaptive
# margin changes more. Without the outlier its objective is zero in almost all draws: every sample
# can be classified by the others in many ways, and the solution with the smallest coefficients is
# taken. With the outlier the objective is the slack of that one sample, which leaves no choice. At
# a good :math:`\nu` the two others make fewer errors here. The advantage of the adaptive margin is
# that the outlier is ignored without tuning a parameter.
# ``python -m benchmarks.literature_checks influence`` has other widths and places of the outlier.
#
# The useful range of the parameter is limited: from ``lam_max_`` on, all coefficients are zero.

machine = AdaptiveMarginSVC(lam=10, gamma=GAMMA).fit(X, y)
print(f"lam_max = {machine.lam_max_:.2f}")
print(machine.certificate_)
