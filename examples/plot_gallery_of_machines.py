"""
The machines side by side
=========================

Nine classifiers learn the same sixty points of two half moons, three of which have got the wrong
label. Each picture is one call of :func:`widemargin.plot.decision_boundary`, which works for every
classifier of the library: the solid line is the boundary, the dashed lines are where the decision
function is -1 and 1, rings are rows with a coefficient (the larger, the wider), and crosses are
rows that the machine without them would get wrong.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from widemargin import (
    LOOSVC,
    LPSVC,
    SVC,
    AdaptiveMarginSVC,
    LinearSVC,
    MeanFieldGPClassifier,
    NuLPSVC,
    NuSVC,
    ReducedHullSVC,
    plot,
)

X, y = make_moons(60, noise=0.15, random_state=4)
WRONG = [3, 11, 42]
y[WRONG] ^= 1

# %%
# All kernels are Gaussian with gamma = 1. Parameters are round numbers, not tuned ones: the point
# is to see what each machine makes of wrong labels, not which of them wins.

MACHINES = {
    "linear": LinearSVC(C=1.0),
    "soft margin": SVC(C=10.0, gamma=1.0),
    "at most 20 % in the margin": NuSVC(nu=0.2, gamma=1.0),
    "reduced convex hulls": ReducedHullSVC(kernel="rbf", gamma=1.0, k=5),
    "leave-one-out machine": LOOSVC(gamma=1.0),
    "adaptive margins": AdaptiveMarginSVC(lam=2.0, gamma=1.0),
    "linear program": LPSVC(lam=0.5, gamma=1.0),
    "linear program, 20 %": NuLPSVC(nu=0.2, gamma=1.0),
    "mean-field Gaussian process": MeanFieldGPClassifier(gamma=1.0),
}


def draw(axes, words, model):
    """Fit a machine and draw it; return what a legend needs."""
    plot.decision_boundary(model.fit(X, y), X, y, ax=axes)
    legend = axes.get_legend_handles_labels()
    axes.get_legend().remove()
    axes.set(xticks=[], yticks=[], xlabel="", ylabel="", aspect="equal")
    axes.set_title(f"{type(model).__name__}\n{words}", fontsize=10)
    return legend


figure, panels = plt.subplots(3, 3, figsize=(10, 7.2), layout="constrained")
for axes, (words, model) in zip(panels.flat, MACHINES.items(), strict=True):
    handles, labels = draw(axes, words, model)
    if words == "soft margin":
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
plt.show()

# %%
# What became of the wrong labels? A machine has learnt one by heart if it predicts it.

for model in MACHINES.values():
    learnt = np.count_nonzero(model.predict(X[WRONG]) == y[WRONG])
    others = np.delete(np.arange(len(X)), WRONG)
    errors = np.count_nonzero(model.predict(X[others]) != y[others])
    name = type(model).__name__
    print(f"{name:>22}: {learnt} of 3 wrong labels learnt, {errors} of 57 right ones missed")

# %%
# Sparsity differs as well. The quadratic programs have a coefficient for every row in or on the
# margin. LPSVC and NuLPSVC keep the sum of all coefficients small, and need a handful: few kernels,
# placed well inside the classes.

for model in MACHINES.values():
    if hasattr(model, "support_"):
        print(f"{type(model).__name__:>22}: {len(model.support_):2d} of 60 rows have a coefficient")
