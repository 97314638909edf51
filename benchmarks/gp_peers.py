"""Data and candidates of the gp benchmark: one prior, several ways to its posterior.

Everybody has the covariance exp(-gamma |x - x'|^2) and noise of variance v, set by hand and not
tuned. scikit-learn's likelihood is logistic: a latent function that is 1.7 times as large makes it
the probit one but for some hundredths. Its Laplace approximation has no scale of its own;
`ScaledLaplace` gives it one, found like ours, so that the two can be compared as equals.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import expit
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from benchmarks.data import DataSet, keel
from benchmarks.proba import Split, split

FloatArray = npt.NDArray[np.float64]

NAIVE, RAW, TAP, EP = "naive", "naive, not calibrated", "TAP", "EP"
LAPLACE, SCALED, GPYTORCH = "Laplace", "Laplace, scaled", "variational (GPyTorch)"

LOGISTIC_TO_PROBIT = 1.7
NODES = np.linspace(-8.0, 8.0, 161)  # of the standard normal density, for the logistic's integral


@dataclass(frozen=True)
class Setting:
    """A data set and the prior it is modelled with."""

    name: str
    gamma: float
    input_noise: float

    def split(self, rows: int, seed: int) -> Split:
        """Draw training and test rows, standardised by the former."""
        return split(self.data(), rows, seed)

    def data(self) -> DataSet:
        """Load all rows."""
        return keel(self.name, C=1.0, gamma=self.gamma)


SETTINGS = (
    Setting("banana", gamma=1.0, input_noise=0.1),
    Setting("ring", gamma=0.05, input_noise=0.1),
    Setting("magic", gamma=0.1, input_noise=0.3),
    Setting("phoneme", gamma=0.5, input_noise=0.3),
)


def ours(setting: Setting, **options: Any) -> Any:
    """Return our classifier."""
    from widemargin import MeanFieldGPClassifier

    return MeanFieldGPClassifier(gamma=setting.gamma, input_noise=setting.input_noise, **options)


def laplace(setting: Setting) -> GaussianProcessClassifier:
    """Return scikit-learn's classifier with the same prior, in units of the noise."""
    size = LOGISTIC_TO_PROBIT**2 / setting.input_noise
    kernel = ConstantKernel(size) * RBF(1.0 / np.sqrt(2.0 * setting.gamma))
    return GaussianProcessClassifier(kernel, optimizer=None)


class ScaledLaplace:
    """scikit-learn's classifier with its latent mean scaled by leave-one-out.

    The same linear response as ours: the Gaussian that stands for the posterior, divided by the
    factor of the row, has mean f - g Sigma / (1 - W Sigma) and variance Sigma / (1 - W Sigma), g
    being the slope of the row's log-likelihood and W its curvature.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def fit(self, X: FloatArray, y: FloatArray) -> ScaledLaplace:
        """Fit scikit-learn's classifier; find the scale that the left-out labels ask for."""
        self.model = laplace(self.setting).fit(X, y)
        mean, variance = self._left_out(X)
        sign = np.where(y == self.model.classes_[1], 1.0, -1.0)

        def cost(log_scale: float) -> float:
            return -float(_log_average(sign * np.exp(log_scale) * mean, variance).sum())

        self.scale = float(np.exp(minimize_scalar(cost, bounds=(-3.0, 3.0), method="bounded").x))
        return self

    def _left_out(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        inside = self.model.base_estimator_
        curvature = inside.W_sr_**2
        slope = inside.y_train_ - inside.pi_
        kept = np.sum(np.linalg.inv(inside.L_) ** 2, axis=0)  # 1 - W Sigma
        cavity = (1.0 - kept) / (curvature * kept)
        return inside.kernel_(X) @ slope - slope * cavity, cavity

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Average the logistic over the Gaussian of the scaled mean."""
        mean, variance = self.model.base_estimator_.latent_mean_and_variance(X)
        second = np.exp(_log_average(self.scale * mean, variance))
        return np.column_stack([1.0 - second, second])


def _log_average(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return the logarithm of the logistic's mean under Gaussians, by the trapezoidal rule."""
    weight = np.exp(-0.5 * NODES**2)
    weight /= weight.sum()
    spread = np.sqrt(np.maximum(variance, 0.0))
    return np.asarray(np.log(expit(mean[:, None] + spread[:, None] * NODES) @ weight))


def factories(setting: Setting) -> dict[str, Callable[[], Any]]:
    """Return all candidates that can run here."""
    found: dict[str, Callable[[], Any]] = {
        NAIVE: lambda: ours(setting),
        RAW: lambda: ours(setting, calibrate=False),
        TAP: lambda: ours(setting, inference="tap"),
        EP: lambda: ours(setting, inference="ep"),
        LAPLACE: lambda: laplace(setting),
        SCALED: lambda: ScaledLaplace(setting),
    }
    if has_gpytorch():
        from benchmarks.gp_gpytorch import Variational

        found[GPYTORCH] = lambda: Variational(setting.gamma, setting.input_noise)
    return found


def has_gpytorch() -> bool:
    """Whether GPyTorch is installed; it is not part of the bench extra."""
    return importlib.util.find_spec("gpytorch") is not None
