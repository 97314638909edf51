"""GPyTorch as a peer, where it is installed: the variational Gaussian of the same model.

Every training row is an inducing point, so nothing is approximated but the shape of the posterior;
natural gradients climb the lower bound of the evidence until it stops rising. Prior and noise are
fixed, as for everybody.
"""

from __future__ import annotations

from typing import Any

import gpytorch
import numpy as np
import numpy.typing as npt
import torch

FloatArray = npt.NDArray[np.float64]

RATE = 0.9  # of a natural gradient; 1 is a whole step
STEPS = 200
SMALL_RISE = 1e-5  # of the evidence a row, at which the climb ends
JITTER = 1e-6  # added to the kernel's diagonal


class _Latent(gpytorch.models.ApproximateGP):  # type: ignore[misc]
    """The prior of the latent function, in units of the noise."""

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
    """Variational classification with the interface of scikit-learn."""

    def __init__(self, gamma: float, input_noise: float) -> None:
        self.gamma, self.input_noise = gamma, input_noise

    def fit(self, X: FloatArray, y: FloatArray) -> Variational:
        """Climb the lower bound of the evidence."""
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
        """Return probabilities of both classes."""
        self.model.eval()
        with torch.no_grad():
            second = self.likelihood(self.model(torch.as_tensor(X))).mean.numpy()
        return np.column_stack([1.0 - second, second])
