"""The literature benchmark: verdicts by fixed rules, ours never from the published numbers."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import date
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from sklearn.exceptions import ConvergenceWarning

from benchmarks import (
    gp_wisconsin,
    literature,
    literature_checks,
    literature_fields,
    literature_influence,
    literature_margins,
    literature_ranks,
    literature_samples,
    literature_toys,
    ordinal_curves,
    table21,
)
from benchmarks.__main__ import BENCHMARKS, parse
from benchmarks.gp_wisconsin import RATES, Study, covariance_of, parallel, parallel_adatron
from benchmarks.literature_items import (
    CLOSE,
    DIFFERS,
    NOT_AVAILABLE,
    REPRODUCED,
    VERDICTS,
    Findings,
    counts,
    rounding_of,
    verdict_of_bound,
    verdict_of_claim,
    verdict_of_number,
)
from benchmarks.literature_rst import _grouped, page, write_page
from benchmarks.ordinal_curves import ONE_VS_ONE, ORDINAL, SVR_NAME, Curves
from benchmarks.report import Report
from benchmarks.sampling_peers import crossed
from widemargin import SVC


@pytest.mark.parametrize(
    ("difference", "error", "rounding", "within", "expected"),
    [
        (0.4, 0.2, 0.05, 1.5, REPRODUCED),  # two standard errors
        (-0.4, 0.2, 0.05, 1.5, REPRODUCED),
        (0.41, 0.2, 0.05, 1.5, CLOSE),
        (0.05, 0.0, 0.05, 1.5, REPRODUCED),  # rounding of the published number
        (0.06, 0.0, 0.05, 1.5, CLOSE),
        (1.5, 0.2, 0.05, 1.5, CLOSE),
        (-1.51, 0.2, 0.05, 1.5, DIFFERS),
        (1.51, 10.0, 0.05, 1.5, DIFFERS),  # noise reproduces nothing
        (float("nan"), 0.2, 0.05, 1.5, DIFFERS),
    ],
)
def test_verdicts_of_numbers(difference, error, rounding, within, expected):
    assert verdict_of_number(difference, error, rounding, within) == expected


@pytest.mark.parametrize(
    ("held", "count", "expected"),
    [
        (10, 10, REPRODUCED),
        (9, 10, REPRODUCED),
        (89, 100, CLOSE),
        (51, 100, CLOSE),
        (50, 100, DIFFERS),
        (0, 1, DIFFERS),
    ],
)
def test_verdicts_of_claims(held, count, expected):
    assert verdict_of_claim(held, count) == expected
    found = Findings("w")
    found.claim("p", "q", [True] * held + [False] * (count - held), "draws")
    assert found.items[0].verdict == expected
    assert found.items[0].ours == f"{held} of {count} draws"


def test_verdicts_of_bounds():
    assert verdict_of_bound(5.0, 5.0) == REPRODUCED
    assert verdict_of_bound(5.1, 5.0) == DIFFERS
    assert verdict_of_bound(float("nan"), 5.0) == DIFFERS
    found = Findings("w")
    found.bound("p", "q", 10.0, [4.0, 6.0])
    item = found.items[0]
    assert (item.published, item.ours, item.difference) == ("≤ 10", "5.0 ± 1.0", "-50%")


@pytest.mark.parametrize(("text", "half"), [("12.3", 0.05), ("272", 0.5), ("0.0293", 0.00005)])
def test_rounding_is_half_a_unit_of_the_last_printed_digit(text, half):
    assert rounding_of(text) == pytest.approx(half)


def test_numbers_are_means_with_their_standard_error_or_the_deviation_over_splits():
    found = Findings("w")
    values = [10.0, 12.0, 14.0, 16.0]
    found.number("p", "q", "15.0", values, within=3.0)
    found.number("p", "q", "15.0", values, within=3.0, of_one_split=True)
    found.number("p", "q", "13.0", 13.04, within=3.0)
    mean, split, single = found.items
    assert mean.value == split.value == 13.0
    assert mean.error == pytest.approx(np.std(values, ddof=1) / 2)
    assert split.error == pytest.approx(np.std(values, ddof=1))
    assert [item.verdict for item in found.items] == [REPRODUCED] * 3
    assert mean.difference == "-2.00"
    assert (single.error, single.ours) == (None, "13.0")
    found.number("p", "q", "16.5", values, within=4.0)
    found.number("p", "q", "16.5", values, within=4.0, of_one_split=True)
    assert [item.verdict for item in found.items[3:]] == [CLOSE, REPRODUCED]


def test_a_zero_in_words_has_no_printed_digits_to_round():
    found = Findings("w")
    found.number("p", "q", "0", 0.4, within=0.5, rounding=0.0)
    found.number("p", "q", "0", 1e-13, within=1e-12, rounding=1e-12)
    assert [item.verdict for item in found.items] == [CLOSE, REPRODUCED]
    assert found.items[1].ours == "1e-13"


def test_a_reason_is_shown_where_an_item_differs_and_changes_no_verdict():
    found = Findings("w")
    for value in (10.0, 20.0):
        found.number("p", "q", "10", value, within=1.0, reason="because")
        found.number("p", "q", "10", value, within=1.0)
    near, near_plain, far, far_plain = found.items
    assert near.verdict == near_plain.verdict == REPRODUCED
    assert near.reason == ""
    assert far.verdict == far_plain.verdict == DIFFERS
    assert far.reason == "because"
    found.missing("p", "q", "4", "no data")
    assert found.items[-1].verdict == NOT_AVAILABLE
    assert found.items[-1].reason == "no data"
    assert counts(found.items) == dict(zip(VERDICTS, (2, 0, 2, 1), strict=True))


def test_fits_without_proof_are_listed_and_bounds_that_cross_are_a_failure():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 2)), np.repeat([-1, 1], 30)
    found = Findings("w")
    proved = SVC().fit(X, y)
    found.proved("good", proved)
    assert (found.fits, found.unproved) == (1, [])
    with pytest.warns(ConvergenceWarning):
        unfinished = SVC(max_iter=1).fit(X, y)
    found.proved("short", unfinished)
    assert found.fits == 2
    assert found.unproved == [f"short (gap {unfinished.certificate_.relative_gap:.0e})"]
    assert found.failures == []
    false = replace(proved.certificate_, dual=proved.certificate_.primal + 1e-3)
    found.proved("false", SimpleNamespace(certificate_=false))
    assert found.failures == ["false: the lower bound is above the objective (1.0e-03)"]


# -- ours is measured, never copied ------------------------------------------------------------


def row_with(errors, **published):
    """Return a measured row of Table 2.1."""
    source = table21.SOURCES[0]
    row = table21.Row(replace(source, published=source.published | published))
    for name, values in errors.items():
        row.columns[name].errors = values
    return row


def test_other_published_values_change_verdicts_but_not_ours(monkeypatch):
    monkeypatch.setattr(literature_margins, "networks", lambda found, row, name: "because")
    errors = {name: [10.0, 11.0, 12.0] for name in literature_margins.MACHINES}
    as_printed, changed = Findings("w"), Findings("w")
    literature_margins.add_row(as_printed, row_with(errors))
    literature_margins.add_row(changed, row_with(errors, **dict.fromkeys(errors, 50.0)))
    assert [item.value for item in as_printed.items] == [11.0] * 4
    assert [item.ours for item in as_printed.items] == [item.ours for item in changed.items]
    assert {item.verdict for item in changed.items} == {DIFFERS}
    assert {item.published for item in changed.items} == {"50.0"}
    assert DIFFERS not in {item.verdict for item in as_printed.items}


def test_the_wisconsin_items_are_those_of_the_study():
    study = Study(
        n_rows=683,
        errors={"SVM": [30, 32], "NMF": [20, 20]},
        left_out={"SVM": [0.1] * 20, "NMF": [0.027] * 20},
        support_vectors=[(614, 300), (615, 1), (614, 310)],
        one_set={
            "SVM, linear response": 16,
            "SVM, exact": 18,
            "NMF, linear response": 18,
            "NMF, linear response, retrained rows": 1,
            "NMF, exact, retrained rows": 1,
            "retrained rows": 31,
        },
        iterations={"table": 31} | {parallel(rate): 8 / rate for rate in RATES},
    )
    found = Findings("w")
    literature_fields.add_cross_validation(found, study)
    assert [item.value for item in found.items] == pytest.approx([31, 20, 0.1, 0.027, 305])
    expected = [DIFFERS, REPRODUCED, DIFFERS, REPRODUCED, DIFFERS]
    assert [item.verdict for item in found.items] == expected
    one = Findings("w")
    literature_fields.add_one_set(one, study)
    verdicts = {item.quantity: item.verdict for item in one.items}
    assert verdicts["SVM: leave-one-out error, linear response"] == REPRODUCED
    assert verdicts["SVM: leave-one-out error, exact"] == CLOSE
    assert "mean field: leave-one-out error, exact" not in verdicts  # not all rows retrained
    away = "linear response is at most one error away from the exact count"
    assert verdicts[away] == DIFFERS  # one machine of two is no majority
    steps = Findings("w")
    literature_fields.add_iterations(steps, study)
    assert [item.verdict for item in steps.items] == [REPRODUCED, DIFFERS]
    assert steps.items[1].value == 160
    assert "400 at 0.02" in steps.items[1].reason
    assert "literature_checks adatron" in steps.items[1].experiment
    assert len(steps.ranges) == 1


def test_the_parallel_adatron_reaches_the_machine_of_the_same_covariance():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((40, 2)), np.repeat([-1.0, 1.0], 20)
    alpha, steps = parallel_adatron(covariance_of(X), y, 0.1)
    assert 0 < steps < 1_000
    assert alpha.min() >= 0
    exact = gp_wisconsin.machine(tol=1e-9).fit(X, y).decision_function(X)
    K = covariance_of(X) - gp_wisconsin.INPUT_NOISE * np.eye(40)
    assert K @ (y * alpha) == pytest.approx(exact, abs=0.03)
    assert parallel_adatron(covariance_of(X), y, 0.1, most=3)[1] == 3


def test_curves_are_compared_on_the_same_draws():
    curves = Curves(4)
    for noise, luck in ((0.0, -0.02), (0.1, 0.02), (0.2, -0.01), (0.3, 0.03)):
        for size, gain in ((5, luck), (25, 0.05 + 0.1 * luck)):  # 5: better, but by chance
            curves.add(ORDINAL, size, 0.2 + noise)
            curves.add(ONE_VS_ONE, size, 0.2 + noise + gain)
            curves.add(SVR_NAME, size, 0.2 + noise + (0.03 if size == 25 else 0.0))
    found = Findings("w")
    literature_ranks.add_curves(found, curves, "variance")
    faster, near = found.items
    assert faster.place == "Fig. 2.2, 0.125 the variance"
    assert (faster.ours, faster.reason) == ("1 of 2 numbers of rows", "not with 5 rows")
    assert near.ours == "1 of 2 numbers of rows"
    assert "+0.000 at 5, +0.030 at 25" in near.reason
    assert found.ranges[0].headings == ["training rows", "5", "25"]
    assert found.ranges[0].rows[-1][1:] == ["+0.000", "+0.030"]


def test_both_readings_of_the_noise_are_measured():
    assert ordinal_curves.READINGS["standard deviation"] ** 2 == 0.125**2
    assert ordinal_curves.READINGS["variance"] ** 2 == pytest.approx(0.125)
    found = Findings("w")
    for reading in ordinal_curves.READINGS:
        literature_ranks.add_representation(found, 2, reading)
    assert len(found.items) == 8
    assert all(item.ours.endswith("of 2 draws") for item in found.items)


@pytest.fixture
def small_heart(monkeypatch):
    """Stand in for heart with rows that need no package, and for the grid of widths."""
    rng = np.random.default_rng(1)
    y = np.where(np.arange(160) % 2 == 0, 1.0, -1.0)
    X = rng.standard_normal((160, 3)) + 0.8 * y[:, None]
    monkeypatch.setattr(table21, "load", lambda name: (X, y))
    published = dict(table21.SOURCES[0].published)
    sizes = {"train": 60, "test": 100, "published": published}
    source = replace(table21.SOURCES[0], name="heart", keel="heart", **sizes)
    monkeypatch.setattr(literature_margins, "SOURCES", [source])
    monkeypatch.setattr(literature_margins, "WIDTHS", {"heart": np.array([1.0, 3.0, 10.0])})
    monkeypatch.setattr(literature_margins, "LAMBDAS", (0.1, 1.0, 5.0))
    return source


def test_lambda_one_has_to_be_the_leave_one_out_machine(small_heart):
    of_loo = []
    for number in range(2):
        X, y, X_test, y_test = table21.split(small_heart, number)
        model = table21.machine(table21.LOO, {"sigma": 2.0}).fit(X, y)
        of_loo.append(100 * float(np.mean(model.predict(X_test) != y_test)))
    found = Findings("w")
    literature_margins.add_lambdas(found, small_heart, 2.0, of_loo)
    assert found.failures == []
    above, bowl = found.items
    assert above.value >= 0
    assert bowl.ours.endswith("of 2 ends")
    literature_margins.add_lambdas(found, small_heart, 2.0, [of_loo[0], of_loo[1] + 1.0])
    assert found.failures == ["Fig. 2.8, heart: lambda = 1 is not LOO-SVM"]


def test_other_widths_are_measured_around_the_one_that_is_chosen(small_heart):
    found = Findings("w")
    literature_margins.add_other_widths(found, small_heart, 2.0, 1)
    table = found.ranges[0]
    assert table.headings == ["width", "λ = 0.1", "λ = 1", "λ = 5"]
    assert [row[0] for row in table.rows if row[0].endswith("chosen")] == ["σ = 2, chosen"]
    assert len(table.rows) == len(literature_margins.AROUND)
    assert found.fits == 3 * len(table.rows)


def test_widths_are_judged_by_the_test_error_they_lead_to(small_heart):
    found = Findings("w")
    literature_margins.add_widths(found, small_heart, 2, lambda text: None)
    *chosen, flat = found.items
    assert len(chosen) == 3
    assert all(item.value >= 0 and item.published == "0" for item in chosen)
    assert flat.ours.endswith("of 1 data set")
    assert [len(row) for row in found.ranges[0].rows] == [4] * 7
    assert literature_margins._widest_least(np.array([2.0, 1.0, 1.0, 3.0])) == 2


def test_parameters_of_boosting_are_chosen_on_training_sets(small_heart, monkeypatch):
    monkeypatch.setattr(table21, "CENTRES", (1, 2))
    monkeypatch.setattr(table21, "CENTRES_REG", (2,))
    monkeypatch.setattr(table21, "REGS", np.array([1e4, 1e2]))
    monkeypatch.setattr(table21, "CHOOSING", 1)
    monkeypatch.setattr(table21, "CHOOSING_ROUNDS", 3)
    names = (table21.AB, table21.AB_REG)
    row = table21.Row(small_heart, {name: table21.Column() for name in names})
    assert len(list(table21.measure(row, 0))) == 2
    plain, regularised = row.columns.values()
    assert set(plain.left_out) == {(1.0,), (2.0,)}
    assert set(regularised.left_out) == {(2.0, 1e4), (2.0, 1e2)}
    assert (plain.parameters["centres"],) == min(plain.left_out, key=lambda k: plain.left_out[k])
    assert plain.errors == []  # nothing was tested
    found = Findings("w")
    literature_margins.add_candidates(found, table21.AB_REG, [row])
    assert [each[0] for each in found.ranges[0].rows] == [
        "2 centres, reg = 100",
        "2 centres, reg = 1e+04",
    ]


def test_test_errors_over_the_grid_explain_a_difference(small_heart, monkeypatch):
    monkeypatch.setattr(table21, "CENTRES_REG", (2, 3))
    monkeypatch.setattr(table21, "REGS", np.array([1e4, 1e2]))
    monkeypatch.setattr(table21, "BOOSTING_ROUNDS", 3)
    parameters = {"centres": 2.0, "reg": 1e4}
    errors = [
        table21.tested(table21.AB_REG, parameters, small_heart, number, 3)[0] for number in (0, 1)
    ]
    column = table21.Column(parameters=parameters, errors=errors)
    row = table21.Row(small_heart, {table21.AB_REG: column})
    row.source.published[table21.AB_REG] = float(np.mean(errors))
    found = Findings("w")
    assert literature_margins.networks(found, row, table21.AB_REG) == ""
    assert found.ranges == []
    row.source.published[table21.AB_REG] = 99.0
    reason = literature_margins.networks(found, row, table21.AB_REG)
    assert "chooses 2 centres, reg = 1e+04" in reason
    assert "none of the others" in reason
    labels = [each[0] for each in found.ranges[0].rows]
    assert labels == ["2 centres, reg = 1e+04", "2 centres, reg = 100", "3 centres, reg = 1e+04"]
    assert found.ranges[0].rows[0][1].startswith(f"{np.mean(errors):.2f} ± ")


def test_unproved_fits_are_grouped_by_kind():
    listed = [
        "Fig. 1, heart, split 0, σ = 1 (gap 1e-06)",
        "Fig. 1, heart, split 3, σ = 1 (gap 2e-03)",
    ]
    assert _grouped([*listed, "Fig. 2 (gap 3e-04)"]) == [
        "Fig. 1, heart, σ = 1 (2 fits, largest gap 2e-03)",
        "Fig. 2 (gap 3e-04)",
    ]


def test_toys_count_their_draws_over_widths_and_places(monkeypatch):
    monkeypatch.setattr(literature_toys, "WIDTHS", (0.2, 0.5))
    monkeypatch.setattr(literature_toys, "OUTLIERS", {"amid": (1.0, 0.1)})
    found, weston = Findings("w"), Findings("v")
    literature_toys.add_outlier(found, 2)
    literature_toys.add_lonely_cross(weston, 1)
    assert [item.ours for item in found.items[:3]] == [
        "4 of 4 draws",  # given up by LOO-SVM
        "2 of 4 draws",  # followed at C = 1, with the narrow kernel only
        "4 of 4 draws",  # followed at C = 100
    ]
    assert found.items[1].verdict == DIFFERS
    assert "100% (0.2), 0% (0.5)" in found.items[1].reason
    assert "50% (amid)" in found.items[1].reason
    assert "literature_checks toys" in found.items[1].experiment
    assert "of 2 settings" in found.items[-1].ours
    table = found.ranges[0]
    assert table.headings == ["claim", "σ = 0.2", "σ = 0.5"]
    assert table.rows[1] == ["SVM, C = 1 follows the outlier; amid", "100%", "0%"]
    assert len(weston.items) == 3
    assert found.fits + weston.fits == 12 + 2
    assert found.failures + weston.failures == []


def test_influence_is_measured_on_the_picture_and_on_new_samples(monkeypatch):
    monkeypatch.setattr(literature_influence, "WIDTHS", (0.5,))
    monkeypatch.setattr(literature_influence, "OUTLIERS", {"far left": (-2.1, -0.2)})
    monkeypatch.setattr(literature_influence, "QUICK_DRAWS", 1)
    found = Findings("w")
    literature_influence.add_influence(found, quick=True)
    assert found.fits == 12
    picture, new = (
        [row for row in found.ranges[1].rows if row[0].endswith(end)]
        for end in ("; picture", "; new samples")
    )
    assert len(picture) == len(new) == 12
    assert len(found.ranges[1].rows) == 36
    assert picture[4][0] == "ν-LP machine, 0; picture"
    assert float(picture[4][1]) > float(new[4][1])  # an island away from the samples


def test_every_item_that_differs_has_a_reason_and_an_experiment_that_exists():
    results = Path(__file__).parents[2] / "docs" / "literature_results.txt"
    lines = [line.strip() for line in results.read_text().splitlines()]
    differs = [line for line in lines if line.startswith("- differs: ")]
    assert differs
    assert lines.count("- differs") == 1  # the heading of the summary
    for line in differs:
        command = (
            line.partition("(checked by: python -m benchmarks")[2].rstrip(")").replace("\\", "")
        )
        assert command, line
        if command.startswith(".literature_checks "):
            assert command.split()[1] in literature_checks.EXPERIMENTS
        else:
            assert command.split()[0] in BENCHMARKS


def test_an_experiment_prints_its_items_and_ranges(monkeypatch, capsys):
    def small(found, quick, splits, say):
        found.claim("Fig. 1", "it holds", [False], "draws", reason="because", experiment="python")
        found.over_range("by width", ["claim", "σ = 1"], [["it holds", "0%"]])

    monkeypatch.setitem(literature_checks.EXPERIMENTS, "toys", small)
    literature_checks.main(["toys", "--quick", "--splits", "1"])
    printed = capsys.readouterr().out
    for expected in ("it holds", "because", "by width", "σ = 1"):
        assert expected in printed
    with pytest.raises(SystemExit):
        literature_checks.main(["nothing"])


def test_the_formula_of_the_strengths_is_checked_against_the_printed_one(monkeypatch):
    found = Findings("w")
    literature_fields.add_formula(found)
    assert [item.verdict for item in found.items] == [REPRODUCED] * 3
    printed = literature_fields.formula
    monkeypatch.setattr(literature_fields, "formula", lambda z, flips: printed(z, flips) + 1e-9)
    literature_fields.add_formula(found)
    assert found.items[3].verdict == DIFFERS


def test_rounds_stand_beside_the_bound_of_their_theorem():
    found = Findings("w")
    planes = literature_samples.add_rounds(found, crossed(400, 2, 3), 3, 3)
    item = found.items[0]
    assert item.place == "Theorem 4.3"
    assert item.published == f"≤ {6 * 3 * 3 * np.log(400):.0f}"
    assert item.value == np.mean([plane.n_iter for plane in planes])
    assert found.failures == []


# -- printed, and written for the documentation ------------------------------------------------


def small_findings():
    found = Findings("Somebody (2000)")
    found.number("Table 1, a_b", "error | x", "10.0", [10.0, 10.2], within=1.0)
    experiment = "python -m benchmarks table21"
    reason = "not `always`"
    found.claim("Fig. 1", "it *holds*", [False], "draws", reason=reason, experiment=experiment)
    found.missing("Fig. 2", "curves", "", "no data")
    other = Findings("Somebody else (2001)", failures=["two results differ"])
    other.count_fit("Fig. 3, a_b", None)
    other.count_fit("Fig. 4, a_b", 1e-3)
    other.bound("Theorem 1", "rounds", 10.0, [1.0, 2.0])
    other.over_range("by width", ["claim", "σ = 1", "σ = 2"], [["it holds", "50%", "60%"]])
    return [found, other]


def test_the_report_has_all_items_reasons_and_failures(monkeypatch, tmp_path):
    monkeypatch.setattr(literature, "measured", lambda quick, splits, say: small_findings())
    text = Console(file=StringIO(), width=160, record=True)
    report = literature.run(text, quick=True, splits=3)
    report.print(text)
    printed = text.export_text()
    for expected in (
        "Table 1, a_b",
        "Fig. 4, a_b (gap 1e-03)",
        "of 1",
        "σ = 2",
        "not `always`",
        "no data",
        "-85%",
        "two results differ",
    ):
        assert expected in printed
    assert "Targets" not in printed
    assert report.failures == ["two results differ"]
    report.write_json(tmp_path / "run.json")
    written = json.loads((tmp_path / "run.json").read_text())
    assert written["results"]["splits"] == 3
    items = [item for work in small_findings() for item in work.items]
    assert written["results"]["items"] == [asdict(item) for item in items]
    write_page(written, tmp_path / "page.txt")
    assert (tmp_path / "page.txt").read_text() == page(report.content())


def test_the_page_is_tables_of_six_cells_without_a_date(monkeypatch):
    monkeypatch.setattr(literature, "measured", lambda quick, splits, say: small_findings())
    report = literature.run(Console(file=StringIO()), quick=False, splits=7)
    lines = page(report.content()).splitlines()
    assert lines[0].startswith("Made by ``python -m benchmarks literature``: 7 splits, ")
    assert "**Our own results contradict each other**: two results differ" in lines
    assert (
        "Of 2 fits that were asked for it, 1 prove their optimum; the others say that they do "
        "not: Fig. 4, a\\_b (gap 1e-03)." in lines
    )
    tables = "\n".join(lines).split(".. list-table::")[1:]
    assert [table.splitlines()[0].strip() for table in tables] == [
        "",
        "Somebody (2000)",
        "Somebody else (2001)",
        "by width",
    ]
    for table, columns in zip(tables, (5, 6, 6, 3), strict=True):
        rows = table.split("   * -")[1:]
        assert all(row.count("\n     -") == columns - 1 for row in rows)
    assert "   * - Table 1, a\\_b" in lines
    assert "     - error \\| x" in lines
    checked = "(checked by: python -m benchmarks table21)"
    assert f"     - differs: not \\`always\\` {checked}" in lines
    assert "     - not available: no data" in lines
    assert "     - reproduced" in lines
    assert date.today().isoformat() not in "\n".join(lines)


def test_a_quick_page_says_that_it_is_one():
    nothing = {"splits": 3, "items": [], "ranges": [], "fits": 5, "unproved": []}
    report = Report("literature", quick=True, results=nothing)
    assert "A quick run is only an indication." in page(report.content())


def test_only_the_literature_writes_a_page():
    assert parse(["literature"]).splits == 20
    assert parse(["literature", "--quick", "--rst", "out.txt"]).rst.name == "out.txt"
    with pytest.raises(SystemExit):
        parse(["table21", "--rst", "out.txt"])
