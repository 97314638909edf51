r"""
Uncertainty of a Gaussian process classifier
============================================

The decision function of a support vector machine gives the side of the boundary on which a point
lies, and how far from it, but not whether there were any samples nearby. A Gaussian process
provides this information: its latent function has a mean :math:`\mu` *and* a variance
:math:`\sigma^2` at every point. Both enter the probability of a class, which tends to one half far
from all samples.

This example uses TAP, whose variances are more accurate than those of the naive mean field; both
have the same interface.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from widemargin import MeanFieldGPClassifier

X, y = make_moons(160, noise=0.15, random_state=0)
seen = (X[:, 0] < 1.0) | (y == 0)  # half of the second moon is not observed
X, y = X[seen], y[seen]
model = MeanFieldGPClassifier(inference="tap", gamma=2.0, input_noise=0.05).fit(X, y)
print(f"leave-one-out error {model.loo_error_:.3f}, log evidence {model.log_evidence_:.1f}")

# %%
# Mean, standard deviation and probability
# ----------------------------------------
# Left: the mean of the latent function. It is near zero on the boundary, where samples of both
# classes meet, and also far from all samples. Middle: its standard deviation, which distinguishes
# the two cases. Right: the probability of the triangles, with contours at 10, 50 and 90 %.

low, high = X.min(axis=0) - 1.0, X.max(axis=0) + 1.0
across, up = np.meshgrid(*(np.linspace(low[j], high[j], 160) for j in (0, 1)))
points = np.column_stack([across.ravel(), up.ravel()])
mean, variance = (values.reshape(across.shape) for values in model.predict_latent(points))
probability = model.predict_proba(points)[:, 1].reshape(across.shape)

figure, panels = plt.subplots(1, 3, figsize=(12.5, 4.6), layout="constrained", sharey=True)
surfaces = [
    ("mean of the latent function", mean, "PuOr", np.linspace(-1.6, 1.6, 17)),
    ("standard deviation", np.sqrt(variance), "cividis", np.linspace(0, 1, 17)),
    ("probability of the triangles", probability, "PuOr", np.linspace(0, 1, 17)),
]
for axes, (title, values, colours, levels) in zip(panels, surfaces, strict=True):
    shades = axes.contourf(across, up, values, levels, cmap=colours, alpha=0.85, extend="both")
    figure.colorbar(shades, ax=axes, orientation="horizontal", shrink=0.9, ticks=levels[::4])
    for label, marker, colour, edge in ((0, "o", "white", "black"), (1, "^", "black", "white")):
        mine = X[y == label]
        axes.scatter(*mine.T, c=colour, marker=marker, s=24, edgecolors=edge, linewidths=0.6)
    axes.set(title=title, xticks=[], yticks=[], aspect="equal")
panels[0].contour(across, up, mean, [0], colors="black", linewidths=2)
styles = {"colors": "black", "linestyles": ["--", "-", "--"], "linewidths": [1, 2, 1]}
panels[2].contour(across, up, probability, [0.1, 0.5, 0.9], **styles)
plt.show()

# %%
# Three points in numbers
# -----------------------
# The three points lie among the dots, on the boundary, and far from all samples, where only the
# prior remains: mean 0, variance 1. The last two have about the same probability for different
# reasons, and only the standard deviation distinguishes them. More samples would help only at the
# last point.

places = {
    "among the dots": [-0.5, 0.8],
    "on the boundary": points[np.argmin(np.abs(probability.ravel() - 0.5) + variance.ravel())],
    "far away": [10.0, 10.0],
}
print(model.readings_[0])
for name, place in places.items():
    (mu,), (s2,) = model.predict_latent([place])
    chance = model.predict_proba([place])[0, 1]
    mu, spread = round(mu, 2) + 0.0, np.sqrt(s2)  # avoid -0.00
    print(f"{name:16} mean {mu:+.2f}, deviation {spread:.2f}, probability {chance:.2f}")
