r"""
Gaussian process regression with leave-one-out intervals
========================================================

A Gaussian process predicts a mean and a standard deviation. Whether the standard deviations are
right can be read from the training data: the leave-one-out predictions and their variances have a
closed form, and 95 % of the targets should lie in their leave-one-out intervals.
"""

import matplotlib.pyplot as plt
import numpy as np

from widemargin import GPRegressor, loo, tune

rng = np.random.default_rng(0)
X = np.sort(np.concatenate([rng.uniform(0, 4, 45), rng.uniform(6, 10, 25)]))[:, None]
y = 3 + np.sin(1.5 * X[:, 0]) + 0.3 * X[:, 0] + 0.25 * rng.normal(size=70)
model = tune(GPRegressor(), X, y, criterion="evidence")
print({name: round(value, 3) for name, value in model.tuning_.params.items()})
print(loo.result(model))

# %%
# Predictions and intervals
# -------------------------
# Left: the posterior mean with its 95 % intervals, for the function (dark) and for new targets
# (light). The intervals widen in the gap between the samples and outside of them. Right: the
# standardised leave-one-out residuals; their quantiles should be those of the normal distribution.

grid = np.linspace(-1, 12, 400)[:, None]
mean, std = model.predict(grid, return_std=True)
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
for spread, shade in ((np.sqrt(std**2 + model.noise_), 0.15), (std, 0.3)):
    band = mean - 1.96 * spread, mean + 1.96 * spread
    left.fill_between(grid[:, 0], *band, color="tab:blue", alpha=shade, linewidth=0)
left.plot(grid[:, 0], mean, color="tab:blue")
left.plot(X[:, 0], y, "k.", markersize=5)
left.set(xlabel="feature", ylabel="target", title="posterior")

spread = np.sqrt(model.loo_variance_ + model.noise_)
residuals = np.sort((y - model.loo_mean_) / spread)
levels = (np.arange(70) + 0.5) / 70
expected = np.quantile(rng.normal(size=200_000), levels)
right.plot(expected, residuals, "k.", markersize=5)
right.plot([-3, 3], [-3, 3], color="tab:blue", linewidth=1)
right.set(xlabel="normal quantile", ylabel="standardised residual", title="leave-one-out")
plt.show()

inside = np.mean(np.abs(residuals) < 1.96)
print(f"{inside:.0%} of the targets are in their leave-one-out intervals")

# %%
# Inducing points
# ---------------
# With fewer inducing points than the function needs, the evidence is far below that of the exact
# posterior, and the standard deviations grow.

for rank in (4, 8, 16, 32):
    parameters = model.tuning_.params
    low = GPRegressor(rank=rank, **parameters).fit(X, y)
    spread = low.predict(grid, return_std=True)[1].mean()
    print(
        f"{rank:2} points: log evidence at least {low.log_evidence_:9.1f} "
        f"(exact {model.log_evidence_:.1f}), mean deviation {spread:.2f}"
    )
