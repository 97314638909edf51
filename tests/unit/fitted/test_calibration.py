"""Probabilities: the optimum that is fitted, its symmetries, and agreement with predictions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from widemargin.fitted.calibration import FLOOR, LENT_ROWS, LIMIT, PSEUDO_ROWS, fit_calibration

GRID = np.concatenate([np.linspace(-6, 6, 241), [-1e300, -1e-300, 0.0, 1e-300, 1e300]])
METHODS = ["sigmoid", "isotonic"]
each_method = pytest.mark.parametrize("method", METHODS)
seeds = st.integers(0, 100_000)
quick = settings(max_examples=60, deadline=None)


def _rows(seed: int, n: int | None = None):
    """Values on a grid with ties and zeros, labels that follow them more or less, weights."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60)) if n is None else n
    values = np.round(rng.normal(rng.normal(), 2, n), int(rng.integers(0, 3)))
    positive = rng.random(n) < 1 / (1 + np.exp(-rng.normal(1, 1.5) * values))
    return values, positive, rng.integers(0, 4, n).astype(float)


def _cross_entropy(slope, values, positive, weight, side) -> float:
    """The objective of one side, written out from its definition."""
    total = np.where(positive, weight[positive].sum(), weight[~positive].sum())
    target = np.where(positive, total + PSEUDO_ROWS, PSEUDO_ROWS) / (total + 2 * PSEUDO_ROWS)
    away = weight[(values != 0) & ~side].sum()
    weight = np.where(side, 1.0, min(1.0, LENT_ROWS / max(away, 1e-9))) * weight
    z = slope * values
    return float(weight @ (np.logaddexp(0, z) - target * z))


@given(seeds)
@quick
def test_slopes_minimise_the_cross_entropy(seed: int) -> None:
    values, positive, weight = _rows(seed)
    if not (weight * np.abs(values)).any():
        return
    calibration = fit_calibration(values, positive, weight)
    floor = FLOOR / np.abs(values[weight > 0]).max()
    for slope, side in (
        (calibration.slope_minus, values < 0),
        (calibration.slope_plus, values > 0),
    ):
        arguments = (values, positive, weight, side)
        best = minimize_scalar(
            _cross_entropy, bounds=(floor, 200.0), args=arguments, method="bounded"
        )
        assert slope >= floor * (1 - 1e-12)
        here = _cross_entropy(slope, *arguments)
        assert here <= best.fun + 1e-12 * abs(best.fun)
        # The slope is a stationary point to 1e-10, or the floor with a rise above it.
        rise = [_cross_entropy(slope * (1 + h), *arguments) - here for h in (1e-4, -1e-4)]
        assert rise[0] >= 0
        assert rise[1] >= 0 or slope <= floor * (1 + 1e-12)


def _derivative(slope, values, target) -> float:
    return float(values @ (1 / (1 + np.exp(-slope * values)) - target))


def test_a_slope_is_accurate_to_ten_digits() -> None:
    values = np.array([0.3, 0.9, 1.7, 2.0, 2.2, 4.0])
    positive = np.array([True, False, True, True, True, True])
    slope = fit_calibration(values, positive, np.ones(6)).slope_plus
    target = np.where(positive, 5 + PSEUDO_ROWS, PSEUDO_ROWS)
    target = target / (np.where(positive, 5, 1) + 2 * PSEUDO_ROWS)
    assert _derivative(slope * (1 - 1e-10), values, target) < 0
    assert _derivative(slope * (1 + 1e-10), values, target) > 0


@each_method
@given(seed=seeds)
@quick
def test_the_sign_decides_on_which_side_of_one_half_it_is(method: str, seed: int) -> None:
    p = fit_calibration(*_rows(seed), method).probability(GRID)
    assert ((p > 0.5) == (GRID > 0)).all()
    assert ((p < 0.5) == (GRID < 0)).all()
    assert (p[GRID == 0] == 0.5).all()
    assert (np.diff(p[np.argsort(GRID)]) >= 0).all()
    assert p.min() >= LIMIT
    assert p.max() <= 1 - LIMIT
    assert ((1 - p > p) == (GRID < 0)).all()  # also in the complement, as predict_proba has it


@each_method
@given(seed=seeds)
@quick
def test_a_weight_is_a_repetition(method: str, seed: int) -> None:
    values, positive, weight = _rows(seed)
    repeat = np.repeat(np.arange(len(values)), weight.astype(int))
    repeat = np.random.default_rng(seed).permutation(repeat)
    one = fit_calibration(values, positive, weight, method)
    other = fit_calibration(values[repeat], positive[repeat], np.ones(len(repeat)), method)
    np.testing.assert_allclose(one.probability(GRID), other.probability(GRID), rtol=0, atol=1e-9)


@each_method
@given(seed=seeds)
@quick
def test_exchanging_the_classes_gives_the_complement(method: str, seed: int) -> None:
    values, positive, weight = _rows(seed)
    p = fit_calibration(values, positive, weight, method).probability(GRID)
    q = fit_calibration(-values, ~positive, weight, method).probability(-GRID)
    np.testing.assert_allclose(p, 1 - q, rtol=0, atol=1e-12)


@each_method
@given(seed=seeds, power=st.floats(-12, 12))
@quick
def test_the_unit_of_the_values_does_not_matter(method: str, seed: int, power: float) -> None:
    values, positive, weight = _rows(seed)
    if not (weight * np.abs(values)).any():
        return
    factor = 10.0**power
    p = fit_calibration(values, positive, weight, method).probability(GRID[:241])
    q = fit_calibration(values * factor, positive, weight, method).probability(GRID[:241] * factor)
    np.testing.assert_allclose(p, q, rtol=0, atol=1e-9)


@each_method
@pytest.mark.parametrize("unit", [5e-324, 1e-310, 1e-200, 1e150, 1e300])
def test_extreme_values_give_no_warning_and_no_nan(method: str, unit: float) -> None:
    values = np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 0.0]) * unit
    positive = np.array([False, False, True, False, True, True, True])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calibration = fit_calibration(values, positive, np.ones(7), method)
        p = calibration.probability(np.concatenate([GRID, values, [-np.inf, np.inf]]))
    assert np.isfinite(p).all()
    assert calibration.probability(values[4]) > 0.5


@each_method
def test_outliers_do_not_slow_or_break_the_fit(method: str) -> None:
    rng = np.random.default_rng(0)
    values = np.append(rng.normal(0, 1e-9, 200), 1e6)
    positive = np.append(rng.random(200) < 1 / (1 + np.exp(-2e9 * values[:200])), True)
    p = fit_calibration(values, positive, np.ones(201), method).probability(values)
    assert np.where(positive, np.log(p), np.log1p(-p)).mean() > np.log(0.5)


@each_method
def test_separated_rows_are_not_certain(method: str) -> None:
    """No error in n rows: a probability of an error below 1/n, and not far below it."""
    values = np.repeat([-1.0, 1.0], 50)
    p = fit_calibration(values, values > 0, np.ones(100), method).probability(1.0)
    assert 1 / 1000 < 1 - p < 1 / 50


def test_a_side_without_rows_takes_the_slope_of_the_other() -> None:
    values = np.array([0.5, 1.0, 2.0, 3.0])
    positive = np.array([False, True, True, True])
    calibration = fit_calibration(values, positive, np.ones(4))
    assert calibration.slope_minus == pytest.approx(calibration.slope_plus, rel=1e-9)
    p = fit_calibration(values, positive, np.ones(4), "isotonic").probability([-2.0, 2.0])
    assert p[0] == pytest.approx(1 - p[1], abs=1e-12)


@each_method
def test_values_that_mislead_are_hardly_believed(method: str) -> None:
    values = np.linspace(-2, 2, 40)
    p = fit_calibration(values, values < 0, np.ones(40), method).probability(values)
    assert np.abs(p - 0.5).max() < 0.0026
    assert ((p > 0.5) == (values > 0)).all()


@each_method
@pytest.mark.parametrize("n", [0, 3])
def test_nothing_to_learn_from(method: str, n: int) -> None:
    """No rows, or rows with a value of zero: near one half everywhere near zero."""
    calibration = fit_calibration(np.zeros(n), np.arange(n) % 2 == 0, np.ones(n), method)
    p = calibration.probability([-1.0, 0.0, 1.0])
    assert p[0] < p[1] == 0.5 < p[2] < 0.51


def test_large_data_recover_the_two_slopes() -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(0, 1.5, 40_000)
    truth = 1 / (1 + np.exp(-values * np.where(values > 0, 3.0, 1.0)))
    positive = rng.random(len(values)) < truth
    sigmoid = fit_calibration(values, positive, np.ones(len(values)))
    assert sigmoid.slope_minus == pytest.approx(1.0, rel=0.05)
    assert sigmoid.slope_plus == pytest.approx(3.0, rel=0.05)
    isotonic = fit_calibration(values, positive, np.ones(len(values)), "isotonic")
    assert np.abs(isotonic.probability(values) - truth).mean() < 0.01


def test_bad_input_is_named() -> None:
    ok = np.array([1.0, -1.0])
    with pytest.raises(ValueError, match=r'^calibration must be "sigmoid" or "isotonic"; got .*p'):
        fit_calibration(ok, ok > 0, np.ones(2), "platt")
    with pytest.raises(ValueError, match=r"values must be finite"):
        fit_calibration([np.nan, 1.0], ok > 0, np.ones(2))
    with pytest.raises(ValueError, match=r"weight must be finite and not negative"):
        fit_calibration(ok, ok > 0, -np.ones(2))
    with pytest.raises(ValueError, match=r"shape of values, positive and weight"):
        fit_calibration(ok, ok > 0, np.ones(3))


@each_method
def test_a_calibration_is_saved_by_skops(method: str) -> None:
    sio = pytest.importorskip("skops.io")
    calibration = fit_calibration(*_rows(3, 40), method)
    data = sio.dumps(calibration)
    again = sio.loads(data, trusted=["widemargin.fitted.calibration.Calibration"])
    np.testing.assert_array_equal(again.probability(GRID), calibration.probability(GRID))
