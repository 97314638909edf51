r"""AdaBoost and AdaBoost_Reg: minimise the exponential loss of a sum of weak hypotheses.

Boosting adds one hypothesis :math:`g_t` per round to :math:`F = \sum_t \alpha_t g_t` and minimises
the **exponential loss**

.. math::

    L(F) = \sum_i \tfrac{s_i}{\sum_j s_j} \, e^{-y_i F(x_i)},

where

- :math:`x_i, y_i`: sample i and its label, -1 or +1;
- :math:`s_i`: sample weight; weight 2 means the sample twice;
- :math:`g_t, \alpha_t`: hypothesis of round t, with values -1 and +1, and its coefficient;
- :math:`D_t(i) \propto s_i e^{-y_i F_{t-1}(x_i)}`: boosting weight of sample i in round t, its
  share of the loss so far;
- :math:`\varepsilon_t`: error of :math:`g_t` weighted by :math:`D_t`, (1.85).

The step :math:`\alpha_t = \frac12 \ln \frac{1-\varepsilon_t}{\varepsilon_t}` minimises L along
:math:`g_t` and multiplies it by :math:`Z_t = 2 \sqrt{\varepsilon_t (1 - \varepsilon_t)}` (Smola et
al. 2000, Table 1.2). Hence :math:`L(F_T) = \prod_t Z_t`, and the error of :math:`g_t` weighted by
:math:`D_{t+1}` is exactly 1/2.

The model is :math:`f = F / \sum_t \alpha_t`, in [-1, 1]; :math:`y_i f(x_i)` is the **margin** of a
sample. By theorem 1.12, (1.86), the fraction of samples with a margin below rho is at most
:math:`\prod_t 2 \sqrt{\varepsilon_t^{1-\rho} (1 - \varepsilon_t)^{1+\rho}}`, which at rho = 0 is L.

Table 1.2 does not cover two cases. A hypothesis without error (:math:`\varepsilon_t = 0`) would
have an infinite coefficient: boosting stops and f is that hypothesis. One that is no better than
chance (:math:`\varepsilon_t \ge 1/2`) would have a coefficient of zero or less: boosting stops
without it.

**AdaBoost_Reg** (Raetsch, Onoda and Mueller 2001) allows samples that are repeatedly hard to
classify a smaller margin. With :math:`b_t` in place of :math:`2 \alpha_t`,
:math:`|b| = \sum_t b_t`, :math:`c = b / |b|` and :math:`w_i^t` the weight of one copy of sample i
in round t,

.. math::

    \tilde\rho_i = y_i f(x_i) + C \mu_i^p, \quad \mu_i = \sum_t c_t w_i^t, \qquad
    b_t = \arg\min_{b \ge 0} \sum_i s_i \, e^{-|b| \tilde\rho_i / 2}, \qquad
    w_i^{t+1} \propto e^{-|b| \tilde\rho_i / 2} .

This is a reconstruction: the structure follows the paper as described in the literature; the power
p and the scale of C may differ from the authors'. C = 0 is AdaBoost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from widemargin._base.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class BoostingProblem:
    """Boosting problem: labels, sample weights and regularisation.

    Attributes
    ----------
    positive : ndarray of bool of shape (n_samples,)
        Whether the label is +1.
    weight : ndarray of shape (n_samples,)
        Positive weights s.
    C, power : float
        C and p of AdaBoost_Reg; C = 0 is AdaBoost.
    """

    positive: BoolArray
    weight: FloatArray
    C: float = 0.0
    power: float = 2.0

    @property
    def label(self) -> FloatArray:
        """Labels -1.0 and +1.0."""
        return np.where(self.positive, 1.0, -1.0)


def coefficient(error: float) -> float:
    """Return the coefficient alpha of a hypothesis with a weighted error in (0, 1)."""
    return 0.5 * float(np.log1p(-error) - np.log(error))


def margins_of(values: FloatArray, codes: IntArray) -> FloatArray:
    """Return the margins of samples from the normalised decision values.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_machines)
        Normalised decision values: one column for two classes, else one column per class.
    codes : ndarray of shape (n_rows,)
        Class codes of the samples.
    """
    if values.shape[1] == 1:
        return np.where(codes == 1, values[:, 0], -values[:, 0])
    own = (np.arange(len(codes)), codes)
    others = values.copy()
    others[own] = -np.inf
    return 0.5 * (values[own] - others.max(axis=1))


@dataclass(frozen=True)
class RegularisedLoss:
    r"""Loss of AdaBoost_Reg as a function of the coefficient b of a new hypothesis.

    Margins and influences are stored multiplied by :math:`|b|`, as the sums
    :math:`\sum_t b_t y_i g_t(x_i)` and :math:`\sum_t b_t w_i^t`, so that a step adds to them.

    Attributes
    ----------
    weight : ndarray of shape (n_rows,)
        Sample weights s.
    margin, influence : ndarray of shape (n_rows,)
        Margins and influences of the hypotheses so far, times |b|.
    size : float
        |b| so far.
    C, power : float
        C and p of AdaBoost_Reg.
    agrees : ndarray of shape (n_rows,)
        y_i g(x_i) of the new hypothesis.
    share : ndarray of shape (n_rows,)
        w_i, the weight of one copy of the sample in this round.
    """

    weight: FloatArray
    margin: FloatArray
    influence: FloatArray
    size: float
    C: float
    power: float
    agrees: FloatArray
    share: FloatArray

    @classmethod
    def empty(cls, weight: FloatArray, C: float, power: float) -> RegularisedLoss:
        """Return the loss of an empty sum of hypotheses."""
        zero = np.zeros(len(weight))
        return cls(weight, zero, zero, 0.0, C, power, zero, zero)

    def after(self, b: float) -> RegularisedLoss:
        """Return the loss after the new hypothesis was added with coefficient b."""
        return replace(
            self,
            margin=self.margin + b * self.agrees,
            influence=self.influence + b * self.share,
            size=self.size + b,
        )

    def mean_influence(self, b: float) -> FloatArray:
        """Return mu; for b = |b| = 0 its limit, the weights of the first round."""
        if self.size + b == 0.0:
            return self.share
        return (self.influence + b * self.share) / (self.size + b)

    def exponent(self, b: float) -> FloatArray:
        """Return |b| rho~ / 2 of each sample."""
        soft = (self.size + b) * self.C * self.mean_influence(b) ** self.power
        return 0.5 * (self.margin + b * self.agrees + soft)

    def distribution(self, b: float = 0.0) -> FloatArray:
        """Return the boosting weights of the samples (all copies together), which sum to 1."""
        exponent = self.exponent(b)
        # The smallest exponent is subtracted to avoid underflow of all terms.
        mass = self.weight * np.exp(exponent.min() - exponent)
        return mass / mass.sum()

    def slope(self, b: float) -> float:
        """Return the derivative of the loss with respect to b, divided by half the loss."""
        mu, p = self.mean_influence(b), self.power
        soft = p * self.share * mu ** (p - 1.0) + (1.0 - p) * mu**p
        return -float(self.distribution(b) @ (self.agrees + self.C * soft))

    @property
    def falls_for_ever(self) -> bool:
        """Whether no exponent decreases as b goes to infinity, so that no finite b is optimal."""
        return not bool((self.agrees + self.C * self.share**self.power < 0.0).any())
