"""Cumulative models against statsmodels, and the penalised ones against a literal formula.

statsmodels maximises the likelihood by BFGS in other variables (logarithms of the gaps between
thresholds); the literal formula is minimised by scipy in the same way, with probabilities simply
subtracted. Neither shares a line with ours.
"""

from __future__ import annotations

import warnings
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import optimize, stats
from sklearn.exceptions import ConvergenceWarning
from statsmodels.miscmodels.ordinal_model import OrderedModel

from widemargin import CumulativeLinkClassifier

DISTRIBUTION = {"logit": stats.logistic, "probit": stats.norm, "cloglog": stats.gumbel_l}
each_link = pytest.mark.parametrize("link", DISTRIBUTION)


def _draw(n: int, cuts: list[float], seed: int = 0, noise: str = "logit"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    error = DISTRIBUTION[noise].rvs(size=n, random_state=rng)
    return X, np.digitize(X @ [1.0, -0.5, 0.0, 2.0] + error, cuts)


CASES = {
    "four ranks": _draw(400, [-2.0, 0.0, 1.0]),
    "two ranks": _draw(300, [0.5], seed=1, noise="probit"),
    "eight ranks": _draw(800, [-2, -1.5, -1, 0, 1, 1.5, 2], seed=2),
    "cloglog noise": _draw(500, [-3.0, -1.0, 0.0], seed=3, noise="cloglog"),
}
RARE = _draw(800, [-6, -4, -2, -1.9, 0, 3, 5, 6], seed=2)
SCALED = _draw(300, [-1.0, 1.0], seed=4)
CASES["scales and offsets"] = (
    SCALED[0] * [1.0, 0.01, 30.0, 1.0] + [0.0, 1.0, 50.0, -3.0],
    SCALED[1],
)


def _maximised(model: OrderedModel):
    """Let BFGS go on until rounding stops it, of which it would warn."""
    options = {"gtol": 1e-9, "maxiter": 2000, "disp": False, "warn_convergence": False}
    return model.fit(method="bfgs", **options)


@each_link
@pytest.mark.parametrize("case", CASES)
def test_likelihood_and_model_equal_those_of_statsmodels(case: str, link: str) -> None:
    X, y = CASES[case]
    model = CumulativeLinkClassifier(link=link, alpha=0.0).fit(X, y)
    # BFGS wants features on one scale; ours are fitted as they come.
    mean, sd = X.mean(axis=0), X.std(axis=0)
    theirs = OrderedModel(y, (X - mean) / sd, distr=DISTRIBUTION[link])
    found = _maximised(theirs)
    assert model.log_likelihood_ == pytest.approx(found.llf, rel=1e-8)
    coef = found.params[:4] / sd
    thresholds = theirs.transform_threshold_params(found.params)[1:-1] + mean @ coef
    # A likelihood known to 1e-10 determines the place of its maximum to 1e-5.
    np.testing.assert_allclose(model.coef_ * sd, coef * sd, atol=1e-5)
    np.testing.assert_allclose(model.thresholds_, thresholds, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict(found.params), atol=1e-5)


def _exact_probability(link: str, low: Decimal, high: Decimal) -> Decimal:
    if link == "logit":
        return 1 / (1 + (-high).exp()) - 1 / (1 + (-low).exp())
    return (-low.exp()).exp() - (-high.exp()).exp()


@pytest.mark.parametrize("link", ["logit", "cloglog"])
def test_likelihood_of_rare_ranks_in_fifty_digits(link: str) -> None:
    """statsmodels adds 1e-20 to probabilities, which some here are as small as: 1e-15."""
    X, y = RARE
    model = CumulativeLinkClassifier(link=link, alpha=0.0).fit(X, y)
    far = Decimal(10**4)  # stands for the infinite ends: exp(exp(-10^4)) is 1 in fifty digits
    ends = [-far, *(Decimal(float(t)) for t in model.thresholds_), far / 100]
    total = Decimal(0)
    with localcontext(prec=50):
        for row, rank in zip(X, y, strict=True):
            utility = sum(
                Decimal(float(a)) * Decimal(float(b)) for a, b in zip(row, model.coef_, strict=True)
            )
            total += _exact_probability(link, ends[rank] - utility, ends[rank + 1] - utility).ln()
    assert model.log_likelihood_ == pytest.approx(float(total), rel=1e-12)


@each_link
def test_weights_are_repetitions_to_statsmodels(link: str) -> None:
    X, y = CASES["four ranks"]
    weight = np.random.default_rng(5).integers(0, 4, len(y))
    model = CumulativeLinkClassifier(link=link, alpha=0.0).fit(X, y, sample_weight=weight)
    rows = np.repeat(np.arange(len(y)), weight)
    theirs = OrderedModel(y[rows], X[rows], distr=DISTRIBUTION[link])
    found = _maximised(theirs)
    assert model.log_likelihood_ == pytest.approx(found.llf, rel=1e-8)


def _literal_objective(point, X, y, link, alpha) -> float:
    w, first, gaps = point[:4], point[4], point[5:]
    cuts = first + np.concatenate([[0.0], np.cumsum(np.exp(gaps))])
    ends = np.concatenate([[-np.inf], cuts, [np.inf]])
    cdf = DISTRIBUTION[link].cdf
    probability = cdf(ends[y + 1] - X @ w) - cdf(ends[y] - X @ w)
    return float(0.5 * alpha * w @ w - np.log(np.maximum(probability, 1e-300)).sum())


def _literal_optimum(X, y, link, alpha) -> float:
    start = np.concatenate([np.zeros(4), [-1.0], np.zeros(y.max() - 1)])
    best = optimize.minimize(
        _literal_objective, start, (X, y, link, alpha), method="BFGS", options={"gtol": 1e-6}
    )
    # A second start from the first result: differences of the function are all BFGS has here.
    best = optimize.minimize(
        _literal_objective, best.x, (X, y, link, alpha), method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000},
    )  # fmt: skip
    return float(best.fun)


@each_link
@pytest.mark.parametrize("alpha", [0.1, 10.0])
def test_penalised_optimum_equals_the_literal_formula(link: str, alpha: float) -> None:
    X, y = CASES["four ranks"]
    model = CumulativeLinkClassifier(link=link, alpha=alpha).fit(X, y)
    reference = _literal_optimum(X, y, link, alpha)
    certificate = model.certificate_
    gaps = np.log(np.diff(model.thresholds_))
    point = np.concatenate([model.coef_, model.thresholds_[:1], gaps])
    assert certificate.primal == pytest.approx(
        _literal_objective(point, X, y, link, alpha), rel=1e-12
    )
    assert certificate.primal <= reference * (1 + 1e-10)
    # The reference is a sum of floating-point logarithms: a few units in its last place.
    assert certificate.dual <= reference + 4 * np.spacing(reference)
    assert certificate.primal == pytest.approx(reference, rel=1e-8)


@each_link
@pytest.mark.parametrize("alpha", [1e-2, 1.0, 100.0])
def test_the_lower_bound_is_one_however_early_the_fit_stops(link: str, alpha: float) -> None:
    """Strong convexity of the profile, not closeness to the optimum, makes it a bound."""
    X, y = RARE
    best = CumulativeLinkClassifier(link=link, alpha=alpha, tol=1e-11).fit(X, y).certificate_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        early = [
            CumulativeLinkClassifier(link=link, alpha=alpha, max_iter=k, tol=1e-13)
            .fit(X, y)
            .certificate_
            for k in (1, 2, 3)
        ]
    assert early[0].primal > best.primal + 1e-6
    for certificate in early:
        assert certificate.dual <= best.primal
        assert certificate.primal >= best.dual
    assert early[2].gap < early[0].gap
