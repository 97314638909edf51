"""
Novelty detection in a contaminated cloud
=========================================

:class:`~widemargin.OneClassSVM` finds a region that contains all but a fraction nu of the samples.
Here 8 % of the samples are uniform noise around two clusters. The boundary of the region is drawn
for three values of nu; red crosses are the samples that it rejects.
"""

import matplotlib.pyplot as plt
import numpy as np

from widemargin import OneClassSVM, loo

rng = np.random.default_rng(4)
clusters = [
    rng.normal(size=(130, 2)) * [1.0, 0.5] + [-2.0, 1.0],
    rng.normal(size=(100, 2)) * [0.5, 0.9] + [2.0, -0.5],
]
noise = rng.uniform(-5.0, 5.0, size=(20, 2))
X = np.concatenate([*clusters, noise])
is_noise = np.arange(len(X)) >= len(X) - len(noise)
across, up = np.meshgrid(np.linspace(-5.5, 5.5, 120), np.linspace(-5.5, 5.5, 120))
grid = np.c_[across.ravel(), up.ravel()]


def draw_region(axes, model):
    """Draw the decision function, its boundary and the samples."""
    values = (model.decision_function(grid) / model.offset_).reshape(across.shape)
    axes.contourf(across, up, values, levels=np.linspace(-1.0, 3.0, 17), cmap="Blues", extend="max")
    axes.contour(across, up, values, levels=[0.0], colors="tab:orange")
    inside = model.predict(X) > 0
    axes.scatter(*X[inside].T, s=8, color="black")
    axes.scatter(*X[~inside].T, s=22, marker="x", color="tab:red")
    axes.set_aspect("equal")


# %%
# The parameter nu bounds the fraction of rejected training samples. The fraction of samples that
# the model fitted without them rejects, the leave-one-out error, is a little larger: it estimates
# the rate of false alarms on new samples of the same distribution.

figure, panels = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained", sharey=True)
for axes, nu in zip(panels, (0.02, 0.1, 0.4), strict=True):
    model = OneClassSVM(nu=nu, gamma=0.3).fit(X)
    draw_region(axes, model)
    rejected, left_out = np.mean(model.predict(X) < 0), loo.error(model)
    axes.set_title(f"nu = {nu}: {rejected:.1%} rejected,\nleave-one-out {left_out:.1%}")
plt.show()

# %%
# Choice of the kernel width
# --------------------------
# A narrow kernel encloses each sample on its own: few training samples are rejected, but nearly all
# new ones would be. Leave-one-out shows this without new samples.

figure, panels = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained", sharey=True)
for axes, gamma in zip(panels, (0.05, 0.5, 20.0), strict=True):
    model = OneClassSVM(nu=0.1, gamma=gamma).fit(X)
    draw_region(axes, model)
    rejected, left_out = np.mean(model.predict(X) < 0), loo.error(model)
    axes.set_title(f"gamma = {gamma}: {rejected:.1%} rejected,\nleave-one-out {left_out:.1%}")
plt.show()

# %%
# The samples with the smallest leave-one-out decision values are the least typical ones. Most of
# the first fifteen are noise.

values = loo.decision_values(OneClassSVM(nu=0.1, gamma=0.3).fit(X))
first = np.argsort(values)[:15]
print(f"{is_noise[first].sum()} of 15 are noise")
