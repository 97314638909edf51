"""Programs without a price of the coefficients are solved from programs with one."""

from __future__ import annotations

import warnings

import pytest
from sklearn.datasets import make_blobs, make_moons

from widemargin import LPSVC, AdaptiveMarginSVC

DATA = {
    "blobs 0": make_blobs(150, centers=[[0, 0], [1.5, 1]], random_state=0),
    "blobs 5": make_blobs(150, centers=[[0, 0], [1.5, 1]], random_state=5),
    "moons": make_moons(150, noise=0.3, random_state=0),
    "moons 7": make_moons(150, noise=0.3, random_state=7),
}


def fitted(machine, lam, X, y, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return machine(lam=lam, gamma=0.5, **given).fit(X, y)


@pytest.mark.parametrize("machine", [LPSVC, AdaptiveMarginSVC])
@pytest.mark.parametrize("name", DATA)
def test_no_price_is_not_worse_than_a_small_one(machine, name):
    X, y = DATA[name]
    free = fitted(machine, 0.0, X, y)
    for lam in (1e-6, 1e-4):
        near = fitted(machine, lam, X, y)
        # At lam = 0 the objective is the sum of the slacks, of which the other model has its own.
        assert free.slack_.sum() <= near.slack_.sum() + 1e-6
    assert free.alpha_.any()
    assert free.score(X, y) > 0.75


@pytest.mark.parametrize("lam", [1e-8, 1e-7])
def test_tiny_prices_do_not_end_at_the_zero_function(lam):
    X, y = DATA["blobs 0"]
    model = fitted(LPSVC, lam, X, y)
    assert model.slack_.sum() < 40.0  # 150 at the zero function
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("name", [*DATA, "moons 6"])
def test_squared_slack_starts_from_what_larger_prices_led_to(name):
    X, y = DATA[name] if name in DATA else make_moons(150, noise=0.3, random_state=6)
    linear = fitted(AdaptiveMarginSVC, 0.0, X, y)
    squared = fitted(AdaptiveMarginSVC, 0.0, X, y, loss="squared_hinge")
    assert squared.slack_ @ squared.slack_ <= linear.slack_ @ linear.slack_ + 1e-6
    assert squared.alpha_.any()
