r"""State the problem of boosting: a convex combination of hypotheses with large margins.

Rows :math:`x_i` with labels :math:`y_i = \pm 1` and weights :math:`s_i` (a row of weight 2 is the
row twice), hypotheses g with values :math:`\pm 1`. Boosting adds one hypothesis a round to
:math:`F = \sum_t \alpha_t g_t`. What falls is the **exponential loss**

.. math::

    L(F) = \sum_i \tfrac{s_i}{\sum_j s_j} \, e^{-y_i F(x_i)},

and the weights that a row has in round t are its share of the loss so far,
:math:`D_t(i) \propto s_i e^{-y_i F_{t-1}(x_i)}`. With :math:`\varepsilon_t` the weighted error
(1.85) of :math:`g_t`, the step :math:`\alpha_t = \frac12 \ln \frac{1-\varepsilon_t}{\varepsilon_t}`
minimises L along :math:`g_t` and multiplies it by
:math:`Z_t = 2 \sqrt{\varepsilon_t (1 - \varepsilon_t)}` (Smola et al. 2000, Table 1.2). Hence
:math:`L(F_T) = \prod_t Z_t`, and :math:`g_t` errs on exactly half of :math:`D_{t+1}`.

The model is :math:`f = F / \sum_t \alpha_t`, in [-1, 1]; :math:`y_i f(x_i)` is the **margin** of a
row. Theorem 1.12, (1.86): the share of rows with a margin below rho is at most
:math:`\prod_t 2 \sqrt{\varepsilon_t^{1-\rho} (1 - \varepsilon_t)^{1+\rho}}`, which at rho = 0 is L.

Table 1.2 leaves open two cases. A hypothesis without error (:math:`\varepsilon_t = 0`) would have
an infinite coefficient: f is that hypothesis, and the run ends. One that is no better than a coin
(:math:`\varepsilon_t \ge 1/2`) would have none or a negative one: the run ends without it.

**AdaBoost_Reg** (Raetsch, Onoda and Mueller 2001) lets rows that are hard time and again keep a
smaller margin. With :math:`b_t` in place of :math:`2 \alpha_t`, :math:`|b| = \sum_t b_t`,
:math:`c = b / |b|` and :math:`w_i^t` the weight of one copy of row i in round t,

.. math::

    \tilde\rho_i = y_i f(x_i) + C \mu_i^p, \quad \mu_i = \sum_t c_t w_i^t, \qquad
    b_t = \arg\min_{b \ge 0} \sum_i s_i \, e^{-|b| \tilde\rho_i / 2}, \qquad
    w_i^{t+1} \propto e^{-|b| \tilde\rho_i / 2} .

This is a reconstruction: the structure follows the paper as it is known in the literature, the
power p and the scale of C may differ from the authors'. C = 0 is AdaBoost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from widemargin._base.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class BoostingProblem:
    """Labels and weights of the samples, and the regularisation.

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
        """The labels, -1.0 and +1.0."""
        return np.where(self.positive, 1.0, -1.0)


def coefficient(error: float) -> float:
    """Return alpha of a hypothesis whose weighted error is in (0, 1)."""
    return 0.5 * float(np.log1p(-error) - np.log(error))


def margins_of(values: FloatArray, codes: IntArray) -> FloatArray:
    """Return the margins of rows from the values of the machines.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_machines)
        Normalised: one column for two classes, else one for each class.
    codes : ndarray of shape (n_rows,)
        Classes of the rows.
    """
    if values.shape[1] == 1:
        return np.where(codes == 1, values[:, 0], -values[:, 0])
    own = (np.arange(len(codes)), codes)
    others = values.copy()
    others[own] = -np.inf
    return 0.5 * (values[own] - others.max(axis=1))


@dataclass(frozen=True)
class RegularisedLoss:
    r"""The loss of AdaBoost_Reg along the coefficient b of one more hypothesis.

    Kept multiplied by :math:`|b|`, so that a step adds to them: the margins,
    :math:`\sum_t b_t y_i g_t(x_i)`, and the influences, :math:`\sum_t b_t w_i^t`.

    Attributes
    ----------
    weight : ndarray of shape (n_rows,)
        Weights s.
    margin, influence : ndarray of shape (n_rows,)
        Of the hypotheses so far, times their |b|.
    size : float
        |b| so far.
    C, power : float
        The regularisation.
    agrees : ndarray of shape (n_rows,)
        y_i g(x_i) of the new hypothesis.
    share : ndarray of shape (n_rows,)
        w_i, the weight of one copy of the row in this round.
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
        """Return the loss of no hypothesis at all."""
        zero = np.zeros(len(weight))
        return cls(weight, zero, zero, 0.0, C, power, zero, zero)

    def after(self, b: float) -> RegularisedLoss:
        """Return the loss with the hypothesis taken in."""
        return replace(
            self,
            margin=self.margin + b * self.agrees,
            influence=self.influence + b * self.share,
            size=self.size + b,
        )

    def mean_influence(self, b: float) -> FloatArray:
        """Return mu; at b = |b| = 0 its limit, the weights of the first round."""
        if self.size + b == 0.0:
            return self.share
        return (self.influence + b * self.share) / (self.size + b)

    def exponent(self, b: float) -> FloatArray:
        """Return |b| rho~ / 2 of each row."""
        soft = (self.size + b) * self.C * self.mean_influence(b) ** self.power
        return 0.5 * (self.margin + b * self.agrees + soft)

    def distribution(self, b: float = 0.0) -> FloatArray:
        """Return the weights of the rows, all copies together, with the sum 1."""
        exponent = self.exponent(b)
        mass = self.weight * np.exp(exponent.min() - exponent)
        return mass / mass.sum()

    def slope(self, b: float) -> float:
        """Return the derivative of the loss by b, divided by half the loss."""
        mu, p = self.mean_influence(b), self.power
        soft = p * self.share * mu ** (p - 1.0) + (1.0 - p) * mu**p
        return -float(self.distribution(b) @ (self.agrees + self.C * soft))

    @property
    def falls_for_ever(self) -> bool:
        """Whether no row's exponent falls in the end, so that no finite b is the best."""
        return not bool((self.agrees + self.C * self.share**self.power < 0.0).any())
