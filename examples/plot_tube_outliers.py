"""
Tube regression with outliers
=============================

Shift every sample (x, y) up by epsilon and down by epsilon: a function that separates the upper
from the lower copies is a regression function, and the distance that remains between them is the
tube around it. With reduced hulls, about k samples may lie above the tube and k below, so outliers
have little influence.
"""

import matplotlib.pyplot as plt
import numpy as np

from widemargin import NuSVR, TubeSVR

rng = np.random.default_rng(3)
X = np.sort(rng.uniform(-3.0, 3.0, 90))[:, None]
clean = np.sin(1.5 * X[:, 0]) + 0.3 * X[:, 0]
y = clean + 0.12 * rng.normal(size=90)
far = rng.choice(90, 9, replace=False)
y[far] += rng.choice([-1.0, 1.0], 9) * rng.uniform(1.5, 3.0, 9)
grid = np.linspace(-3.0, 3.0, 400)[:, None]


def draw_tube(axes, model):
    """Draw samples, function and tube."""
    middle, half = model.predict(grid), model.tube_width_
    axes.fill_between(grid[:, 0], middle - half, middle + half, color="tab:blue", alpha=0.2)
    axes.plot(grid[:, 0], middle, color="tab:blue")
    axes.plot(grid[:, 0], np.sin(1.5 * grid[:, 0]) + 0.3 * grid[:, 0], "k:", linewidth=1)
    outside = np.abs(y - model.predict(X)) > half + 1e-6
    axes.scatter(X[~outside, 0], y[~outside], s=12, color="black")
    axes.scatter(X[outside, 0], y[outside], s=30, facecolors="none", edgecolors="tab:red")
    error = np.sqrt(np.mean((model.predict(X) - clean) ** 2))
    axes.set_title(
        f"k = {model.k_:g}: {outside.sum()} outside, half width {half:.2f}\n"
        f"RMS error to the dotted curve {error:.2f}"
    )


# %%
# With k = 1 the tube is hard: it contains all samples, and the outliers determine it. With a larger
# k they are left outside (red rings), and the function comes closer to the true one, the dotted
# curve without noise.

figure, panels = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained", sharey=True)
for axes, k in zip(panels, (1, 5, 12), strict=True):
    draw_tube(axes, TubeSVR(k=k, epsilon=2.0, gamma=0.5).fit(X, y))
plt.show()

# %%
# epsilon is the regularisation parameter
# ---------------------------------------
# epsilon is the distance by which the samples are shifted. The larger it is, the more room there is
# for a flat function between the two hulls: the function becomes flatter from left to right. The
# width of the tube is a result of the fit.

figure, panels = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained", sharey=True)
for axes, epsilon in zip(panels, (1.3, 5.0, 30.0), strict=True):
    model = TubeSVR(k=9, epsilon=epsilon, gamma=0.5).fit(X, y)
    draw_tube(axes, model)
    axes.set_title(f"epsilon = {epsilon:g}: half width {model.tube_width_:.2f}")
plt.show()

# %%
# If epsilon is too small there may be no tube at all, in particular with a small class of functions
# such as the linear ones. The error message states how large it must be:

try:
    TubeSVR(kernel="linear", k=1, epsilon=0.5).fit(X, y)
except ValueError as error:
    print(error)

# %%
# Equivalent NuSVR
# ----------------
# A :class:`~widemargin.NuSVR` with the equivalent ``C`` and ``nu`` has the same function and the
# same tube.

model = TubeSVR(k=9.5, epsilon=2.0, gamma=0.5, tol=1e-8).fit(X, y)
other = NuSVR(C=model.equivalent_C_, nu=model.nu_, gamma=0.5, tol=1e-8).fit(X, y)
print(f"functions differ by {np.abs(model.predict(grid) - other.predict(grid)).max():.1e}")
print(f"half widths differ by {abs(model.tube_width_ - other.epsilon_):.1e}")
