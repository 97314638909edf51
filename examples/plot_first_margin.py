"""
Support vector machine on two half moons
========================================

A support vector machine separates two classes by a wide margin and penalises the samples that
violate it. In this example the classes are two interleaved half moons. The solid line is the
decision boundary, the dashed lines are the edges of the margin, and the ringed samples are the
support vectors, the only ones that the boundary depends on.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from widemargin import SVC

X, y = make_moons(200, noise=0.2, random_state=0)
model = SVC(C=10.0, gamma=1.0).fit(X, y)
print(model.certificate_)

# %%
# The certificate is an interval that contains the optimal objective, so the figure below shows
# *the* optimum for these parameters, not the point at which a solver happened to stop.
#
# The decision function is +1 and -1 on the edges of the margin and 0 on the boundary.


def decision_on_grid(model, X, n=300):
    """Return a grid around the samples and the decision function on it."""
    low, high = X.min(axis=0) - 0.5, X.max(axis=0) + 0.5
    across, up = np.meshgrid(np.linspace(low[0], high[0], n), np.linspace(low[1], high[1], n))
    values = model.decision_function(np.column_stack([across.ravel(), up.ravel()]))
    return across, up, values.reshape(across.shape)


def draw_margin(axes, model, X, y):
    """Draw samples, decision boundary, margin and support vectors."""
    across, up, values = decision_on_grid(model, X)
    limit = np.abs(values).max()
    axes.pcolormesh(across, up, values, cmap="RdBu", vmin=-limit, vmax=limit, alpha=0.35)
    axes.contour(
        across,
        up,
        values,
        levels=[-1.0, 0.0, 1.0],
        colors="black",
        linestyles=["dashed", "solid", "dashed"],
    )
    for label, colour in zip(model.classes_, ("tab:red", "tab:blue"), strict=True):
        axes.scatter(*X[y == label].T, s=18, color=colour, label=f"class {label}")
    axes.scatter(
        *X[model.support_].T,
        s=70,
        facecolors="none",
        edgecolors="black",
        label=f"{len(model.support_)} support vectors",
    )
    axes.set(xticks=[], yticks=[], aspect="equal")


figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
draw_margin(axes, model, X, y)
axes.legend(loc="lower left")
axes.set_title(f"SVC(C=10, gamma=1): training error {1 - model.score(X, y):.1%}")
plt.show()

# %%
# A smaller ``C`` penalises errors less. The margin widens, more samples lie inside it, and more of
# them are support vectors.

figure, panels = plt.subplots(1, 3, figsize=(11, 3.0), layout="constrained")
for axes, C in zip(panels, (0.1, 1.0, 100.0), strict=True):
    softer = SVC(C=C, gamma=1.0).fit(X, y)
    draw_margin(axes, softer, X, y)
    axes.set_title(f"C = {C:g}: {len(softer.support_)} support vectors")
plt.show()
