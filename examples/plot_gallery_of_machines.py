"""
Nine classifiers on the same data
=================================

Nine classifiers are fitted to sixty samples of two half moons, three of which have a wrong label.
Each panel is one call of :func:`widemargin.plot.decision_boundary`, which works for every
classifier of the library. The solid line is the decision boundary; on the dashed lines the decision
function is -1 and 1. Rings mark samples with a nonzero coefficient (the larger, the wider), and
crosses mark samples that are misclassified when they are left out.
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
# All kernels are Gaussian with gamma = 1. The parameters are round numbers and not tuned: the
# figure compares how the classifiers treat wrong labels, not how accurate they can be.

MACHINES = {
    "linear": LinearSVC(loss="hinge", C=1.0),
    "soft margin": SVC(C=10.0, gamma=1.0),
    "at most 20 % margin errors": NuSVC(nu=0.2, gamma=1.0),
    "reduced convex hulls": ReducedHullSVC(kernel="rbf", gamma=1.0, k=5),
    "leave-one-out machine": LOOSVC(gamma=1.0),
    "adaptive margins": AdaptiveMarginSVC(lam=2.0, gamma=1.0),
    "linear program": LPSVC(lam=0.5, gamma=1.0),
    "linear program, nu = 20 %": NuLPSVC(nu=0.2, gamma=1.0),
    "mean-field Gaussian process": MeanFieldGPClassifier(gamma=1.0),
}


def draw(axes, words, model):
    """Fit a model and draw it; return the entries of its legend."""
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
# The table counts how many of the wrong labels are memorised, that is, predicted by the model.

for model in MACHINES.values():
    learnt = np.count_nonzero(model.predict(X[WRONG]) == y[WRONG])
    others = np.delete(np.arange(len(X)), WRONG)
    errors = np.count_nonzero(model.predict(X[others]) != y[others])
    name = type(model).__name__
    print(f"{name:>22}: {learnt} of 3 wrong labels learnt, {errors} of 57 correct ones missed")

# %%
# The models also differ in sparsity. The quadratic programs have a nonzero coefficient for every
# sample inside or on the margin. LPSVC and NuLPSVC penalise the sum of all coefficients and need
# only a few: kernels centred at samples well inside the classes.

for model in MACHINES.values():
    if hasattr(model, "support_"):
        print(f"{type(model).__name__:>22}: {len(model.support_):2d} of 60 nonzero coefficients")
