"""The gp benchmark measures what it says: peers, scales, the grid and the Wisconsin study."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm
from sklearn.metrics import log_loss

from benchmarks import gp, gp_defaults, gp_peers, gp_sizes, gp_wisconsin
from benchmarks.data import DataSet
from benchmarks.proba import split
from benchmarks.report import Report

pytestmark = pytest.mark.slow


def rings(n=240, seed=0):
    """Return two overlapping rings, neither class easy."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    radius = np.where(y > 0, 0.8, 1.6) + 0.35 * rng.standard_normal(n)
    angle = rng.uniform(0, 2 * np.pi, n)
    X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return DataSet("rings", X, y, C=1.0, gamma=1.0)


class Small(gp_peers.Setting):
    """A setting whose data need no package."""

    def data(self):
        return rings()


SETTING = Small("rings", gamma=1.0, input_noise=0.3)


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 1.0), (1.3, 4.0), (-2.0, 29.0), (0.7, 0.0)])
def test_the_logistic_is_averaged_over_a_gaussian(mean, variance):
    found = gp_peers._log_average(np.array([mean]), np.array([variance]))[0]
    spread = np.sqrt(variance)
    expected, _ = quad(lambda x: expit(mean + spread * x) * norm.pdf(x), -10, 10, epsabs=1e-12)
    assert found == pytest.approx(np.log(expected), abs=1e-8)


def test_scikit_learns_prior_is_ours_in_units_of_the_noise():
    X = rings().X[:5]
    kernel = gp_peers.laplace(SETTING).kernel
    distances = ((X[:, None] - X[None, :]) ** 2).sum(axis=2)
    np.testing.assert_allclose(kernel(X), 1.7**2 / 0.3 * np.exp(-distances), rtol=1e-12)


def test_left_out_laplace_is_the_posterior_without_the_factor_of_the_row():
    part = split(rings(), 120, 0)
    X, y = part.train.X, part.train.y
    model = gp_peers.ScaledLaplace(SETTING).fit(X, y)
    mean, variance = model._left_out(X)
    inside = model.model.base_estimator_
    K, noise = inside.kernel_(X), 1.0 / inside.W_sr_**2
    slope = inside.y_train_ - inside.pi_
    target = K @ slope + noise * slope  # what the Gaussian factors of the rows have observed
    for row in (0, 40, 80):
        others = np.arange(len(y)) != row
        weights = np.linalg.solve(
            K[np.ix_(others, others)] + np.diag(noise[others]), K[others, row]
        )
        assert mean[row] == pytest.approx(weights @ target[others], abs=1e-5)
        assert variance[row] == pytest.approx(K[row, row] - weights @ K[others, row], rel=1e-5)
        again = gp_peers.laplace(SETTING).fit(X[others], y[others]).base_estimator_
        assert mean[row] == pytest.approx(again.latent_mean_and_variance(X[[row]])[0][0], abs=0.05)
    assert 0.5 < model.scale < 3.0


def test_a_scale_of_one_is_scikit_learns_own_probability():
    part = split(rings(), 120, 0)
    model = gp_peers.ScaledLaplace(SETTING).fit(part.train.X, part.train.y)
    model.scale = 1.0
    own = model.model.predict_proba(part.X_test)
    np.testing.assert_allclose(model.predict_proba(part.X_test), own, atol=2e-3)


@pytest.fixture(scope="module")
def comparison():
    found = gp.Comparison(SETTING, rows=100, test_rows=80)
    gp._judge(found, 2, lambda text: None)
    gp._compare_ep(found, lambda text: None)
    gp._time(found, 1, lambda text: None)
    return found


def test_losses_are_those_of_the_splits(comparison):
    part = gp._drawn(comparison, 1)
    assert part.train.shape == (100, 2)
    assert len(part.y_test) == 80
    model = gp_peers.ours(SETTING).fit(part.train.X, part.train.y)
    expected = log_loss(part.y_test, model.predict_proba(part.X_test))
    assert comparison.losses[gp.NAIVE][1] == pytest.approx(expected, rel=1e-9)
    assert comparison.readings[1] == model.readings_[0].variance
    assert comparison.excess(gp.RAW, gp.NAIVE) == pytest.approx(
        comparison.loss(gp.RAW) - comparison.loss(gp.NAIVE)
    )


def test_tap_and_ep_agree_in_the_benchmark(comparison):
    assert comparison.expectation["apart"] <= gp.SAME


def test_report_compares_and_fails_where_tap_and_ep_differ(comparison, tmp_path):
    comparison.fit.seconds = {gp.NAIVE: [1.0], gp.LAPLACE: [20.0], gp.TAP: [5.0]}
    comparison.whole.seconds = {gp.NAIVE: [2.0], gp.LAPLACE: [10.0], gp.TAP: [6.0]}
    report = Report("gp", quick=True)
    gp._collect(report, [comparison])
    assert report.failures == []
    assert [target.value for target in report.targets[:4]] == pytest.approx([20, 20, 20, 5])
    assert report.targets[4].value == pytest.approx(comparison.excess())
    gp._report_gpytorch(report, [])
    report.write_json(tmp_path / "out.json")
    text = Console(file=StringIO(), width=200, record=True)
    report.print(text)
    assert "GPyTorch: not installed, skipped" in text.export_text()
    gp._collect(report, [replace(comparison, expectation=comparison.expectation | {"apart": 1e-3})])
    assert "TAP and EP differ" in report.failures[0]


def test_grid_reports_the_worst_of_all_settings(monkeypatch):
    monkeypatch.setattr(gp, "GRID_ROWS", {True: 60})
    monkeypatch.setattr(gp, "GRID_POINTS", {True: 3})
    found = gp._grid(SETTING, True, lambda text: None)
    assert found["settings"] == 9
    assert found["rows"] == 60
    report = Report("gp", quick=True)
    gp._report_grids(report, {"rings": found})
    assert report.targets[0].value == max(found[s]["steps"] for s in ("newton", "auto")) <= 10
    assert report.targets[1].value <= 1e-10


def test_wisconsin_study_is_read_beside_the_published_numbers(monkeypatch):
    data = rings(120)
    monkeypatch.setattr(gp_wisconsin, "keel", lambda name, **options: data)
    monkeypatch.setattr(gp_wisconsin, "QUICK_SPLITS", 1)
    found = gp_wisconsin.study(True, lambda text: None)
    assert found.n_rows == 120
    assert len(found.left_out["NMF"]) == len(found.support_vectors) == gp_wisconsin.FOLDS
    assert found.one_set["retrained rows"] == 6
    assert found.iterations["newton, 1e-10"] <= 10 < found.iterations["table, 1e-6"]
    report = Report("gp", quick=True)
    gp_wisconsin.report_study(report, found)
    assert [target.bound for target in report.targets] == [22, 17, 290, 265, 1, 1]
    text = Console(file=StringIO(), width=200, record=True)
    report.print(text)
    assert "published mean field" in text.export_text()


def test_default_and_tuned_models_are_compared(monkeypatch):
    monkeypatch.setattr(gp_defaults, "RING_ROWS", (60,))
    monkeypatch.setattr(gp_defaults, "KEEL", ("rings",))
    monkeypatch.setattr(gp_defaults, "ROWS", 60)
    monkeypatch.setattr(gp_defaults, "keel", lambda name, **options: rings())
    found = gp_defaults.compare(True, lambda text: None)
    assert set(found) == {"ring, drawn, 60", "rings"}
    scores = found["rings"][0]
    part = split(rings(), 60, 0)
    model = gp_peers.ours(SETTING, rank=None).set_params(
        gamma="scale", input_noise=1.0, mean_variance="auto"
    )
    P = model.fit(part.train.X, part.train.y).predict_proba(part.X_test)
    assert scores[gp_defaults.DEFAULT].loss == pytest.approx(log_loss(part.y_test, P))
    assert not any(score.worse for score in scores.values())
    report = Report("gp", quick=True)
    gp_defaults.report_defaults(report, found)
    assert report.targets[0].value == 0
    text = Console(file=StringIO(), width=200, record=True)
    report.print(text)
    assert "ring, drawn, 60" in text.export_text()


def test_time_and_memory_by_size():
    names = (*gp_sizes.EXACT, gp_sizes.LOW)
    found = {f"{name} 80": gp_sizes.measure(name, 80) for name in names}
    losses = [figures["loss"] for figures in found.values()]
    assert max(losses) - min(losses) < 0.1
    assert all(figures["fit"] > 0 <= figures["fit_mb"] for figures in found.values())
    report = Report("gp", quick=True)
    gp_sizes.report_sizes(report, found)
    assert report.results["sizes"] == found
    assert len(report.targets) == 7
