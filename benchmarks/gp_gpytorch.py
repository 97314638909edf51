"""Variational Gaussian process classifier by GPyTorch, an optional candidate of the gp benchmark.

Every training sample is an inducing point, so the Gaussian posterior is the only approximation.
Natural gradient steps maximise the evidence lower bound (ELBO) until it stops increasing. Prior and
noise are fixed, as for all candidates.
"""

from __future__ import annotations

from typing import Any

import gpytorch
import numpy as np
import numpy.typing as npt
import torch

FloatArray = npt.NDArray[np.float64]

RATE = 0.9  # step size; 1 is a full natural gradient step
STEPS = 200  # most steps
SMALL_RISE = 1e-5  # stop when the ELBO per sample changes by no more than this
JITTER = 1e-6  # added to the diagonal of the kernel matrix


class _Latent(gpytorch.models.ApproximateGP):  # type: ignore[misc]
    """Gaussian process prior of the latent function, in units of the noise."""

    def __init__(self, X: Any, gamma: float, input_noise: float) -> None:
        distribution = gpytorch.variational.NaturalVariationalDistribution(len(X))
        super().__init__(
            gpytorch.variational.UnwhitenedVariationalStrategy(
                self, X, distribution, learn_inducing_locations=False, jitter_val=JITTER
            )
        )
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
        self.covar_module.outputscale = 1.0 / input_noise
        self.covar_module.base_kernel.lengthscale = 1.0 / np.sqrt(2.0 * gamma)
        self.covar_module.requires_grad_(False)

    def forward(self, X: Any) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


class Variational:
    """Variational Gaussian process classifier with the interface of scikit-learn."""

    def __init__(self, gamma: float, input_noise: float) -> None:
        self.gamma, self.input_noise = gamma, input_noise

    def fit(self, X: FloatArray, y: FloatArray) -> Variational:
        """Maximise the evidence lower bound."""
        rows, label = torch.as_tensor(X), torch.as_tensor(np.where(y > 0, 1.0, 0.0))
        self.model = _Latent(rows, self.gamma, self.input_noise).double()
        self.likelihood = gpytorch.likelihoods.BernoulliLikelihood()
        bound = gpytorch.mlls.VariationalELBO(self.likelihood, self.model, num_data=len(rows))
        natural = gpytorch.optim.NGD(
            self.model.variational_parameters(), num_data=len(rows), lr=RATE
        )
        self.model.train()
        before = -np.inf
        for _ in range(STEPS):
            natural.zero_grad()
            value = bound(self.model(rows), label)
            (-value).backward()
            natural.step()
            now = value.item()
            if abs(now - before) <= SMALL_RISE:
                break
            before = now
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return the probabilities of both classes."""
        self.model.eval()
        with torch.no_grad():
            second = self.likelihood(self.model(torch.as_tensor(X))).mean.numpy()
        return np.column_stack([1.0 - second, second])
