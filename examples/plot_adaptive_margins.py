r"""
Adaptive margins and an outlier
===============================

Figs. 2.4 to 2.6 of Smola et al. (2000): the same rows, with one dot on the far side of the crosses,
and three machines, each with its parameter turned up from left to right.

* The **adaptive-margin machine** asks row i for the margin
  :math:`1 + \lambda \alpha_i k(x_i, x_i)`: who wants more say has to be classified better. At
  :math:`\lambda = 1` it is the leave-one-out machine.
* The **LP machine** asks all rows for the same margin and keeps :math:`\sum_i \alpha_i` small. Its
  parameter :math:`\nu` bounds the share of rows that miss the margin.
* The **support vector machine** does the same with :math:`|w|^2`.
"""

import matplotlib.pyplot as plt
import numpy as np

from widemargin import AdaptiveMarginSVC, NuLPSVC, NuSVC

OUTLIER = np.array([[-1.75, -0.2]])
GAMMA = 2.0  # a width of sigma = 0.5


def draw_rows(rng, n=30):
    """Return n crosses on an arc and n dots in a cloud."""
    angle = rng.uniform(-0.9, 0.9, n)
    crosses = np.column_stack([-1.1 * np.cos(angle), 1.5 * np.sin(angle)])
    crosses += 0.22 * rng.standard_normal((n, 2))
    dots = [0.75, 0.0] + [0.45, 0.55] * rng.standard_normal((n, 2))
    return np.vstack([crosses, dots]), np.repeat(["cross", "dot"], n)


def with_outlier(X, y):
    """Add a dot on the far side of the crosses."""
    return np.vstack([X, OUTLIER]), np.append(y, "dot")


def machines(step):
    """Return the three machines at one of four steps of their parameters.

    For nu = 0 the hard margin is meant, which is that of every nu up to one over the rows.
    """
    lam, nu = (1, 2, 5, 10)[step], (0, 0.1, 0.2, 0.5)[step]
    return {
        rf"AM-SVM, $\lambda$ = {lam}": AdaptiveMarginSVC(lam=lam, gamma=GAMMA),
        rf"$\nu$-LP machine, $\nu$ = {nu}": NuLPSVC(nu=nu, gamma=GAMMA),
        rf"$\nu$-SVM, $\nu$ = {nu}": NuSVC(nu=max(nu, 0.01), gamma=GAMMA),
    }


# %%
# Who follows the outlier?
# ------------------------
# It is ringed. The dashed lines are where the decision function is +1 and -1.

X, y = with_outlier(*draw_rows(np.random.default_rng(5)))
low, high = X.min(axis=0) - 0.3, X.max(axis=0) + 0.3
across, up = np.meshgrid(*(np.linspace(low[j], high[j], 200) for j in (0, 1)))
grid = np.column_stack([across.ravel(), up.ravel()])


def draw(axes, model):
    """Draw rows, boundary and margins, and say how the outlier is classified."""
    values = model.decision_function(grid).reshape(across.shape)
    axes.contourf(across, up, values, [-np.inf, 0, np.inf], colors=["#f4cbb8", "#c3d9ec"])
    lines = {"colors": "0.25", "linestyles": ["--", "-", "--"], "linewidths": [0.8, 2, 0.8]}
    axes.contour(across, up, values, [-1, 0, 1], **lines)
    for label, colour, marker in (("dot", "#0072B2", "o"), ("cross", "#D55E00", "x")):
        axes.scatter(*X[y == label].T, s=16, color=colour, marker=marker, zorder=3)
    axes.scatter(*OUTLIER.T, s=75, facecolors="none", edgecolors="black", zorder=3)
    followed = model.predict(OUTLIER)[0] == "dot"
    axes.set_xlabel("follows the outlier" if followed else "gives it up", fontweight="bold")
    axes.set(xticks=[], yticks=[], aspect="equal")


figure, panels = plt.subplots(3, 4, figsize=(11, 8.4), layout="constrained")
for step in range(4):
    for axes, (name, machine) in zip(panels[:, step], machines(step).items(), strict=True):
        draw(axes, machine.fit(X, y))
        axes.set_title(name)
plt.show()

# %%
# The adaptive margin gives up the outlier at every :math:`\lambda`: it has no neighbour of its own
# class, so only a large coefficient of its own could put it right, and that would ask for a larger
# margin still. The two others follow it, until :math:`\nu` is so large that many rows miss the
# margin anyway.
#
# In numbers
# ----------
# To give an outlier up is not the same as not to be moved by it. Over 20 draws of the rows, how
# often is the outlier followed, how many of 2,000 fresh rows change their class because of that one
# row, and how many are wrong?


def influence(machine, seed):
    """Return whether the outlier is followed, and per cent of fresh rows moved and wrong."""
    rng = np.random.default_rng(seed)
    X, y = draw_rows(rng)
    fresh, truth = draw_rows(rng, 1000)
    before = machine.fit(X, y).predict(fresh)
    after = machine.fit(*with_outlier(X, y)).predict(fresh)
    followed = machine.predict(OUTLIER)[0] == "dot"
    return followed, 100 * np.mean(before != after), 100 * np.mean(after != truth)


print(f"{'':28}  followed    moved    wrong")
for row in range(3):
    for step in range(4):
        name, machine = list(machines(step).items())[row]
        found = np.mean([influence(machine, seed) for seed in range(20)], axis=0)
        plain = name.replace("$", "").replace("\\", "")
        print(f"{plain:28}  {found[0]:8.0%}  {found[1]:6.2f}%  {found[2]:6.2f}%")

# %%
# The adaptive margin never follows the outlier. But it is moved by it, near the boundary and more
# than the others are. Without the outlier almost all of these samples have the objective zero:
# every row can be classified by the others in many ways, and the one with the least coefficients
# is taken. With it the objective is the slack of that one row, which leaves no choice. At a good
# :math:`\nu` the two others make fewer errors here; what the adaptive margin offers is that no good
# value has to be found for the outlier to be given up.
#
# The parameter has an end, though. From ``lam_max_`` on all coefficients are zero:

machine = AdaptiveMarginSVC(lam=10, gamma=GAMMA).fit(X, y)
print(f"lam_max = {machine.lam_max_:.2f}")
print(machine.certificate_)
