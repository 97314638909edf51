"""Models that were saved by every version so far: they load, and they say what they said.

A file names its classes by module and name. Those paths are promises, whatever the underscores in
them say; PROMISED lists them.
"""

from __future__ import annotations

import csv
import importlib
import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.base import clone
from typer.testing import CliRunner

import widemargin as wm
from tests.golden import make
from tests.golden.machines import MACHINES
from tests.helpers import byhand
from widemargin.cli import app
from widemargin.cli._model_file import load_model, trusted_types

# Our files outlive a version of scikit-learn, whose own classes warn of that when they are loaded.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")

HERE = Path(__file__).parent
PROMISED = {
    "widemargin.fitted.base.LOOResult",
    "widemargin.fitted.base.LeftOutValues",
    "widemargin.fitted.by_formula.process.RegressionProcess",
    "widemargin.fitted.by_response.Reading",
    "widemargin.fitted.calibration.Calibration",
    "widemargin.fitted.induced.InducedFunctions",
    "widemargin.fitted.latent.LatentFunctions",
    "widemargin.fitted.latent.Prior",
    "widemargin.fitted.record.Record",
    "widemargin.certificate.Certificate",
    "widemargin.estimators.boosting.ensemble.ClassifierEnsemble",
    "widemargin.estimators.boosting.ensemble.StumpEnsemble",
    "widemargin.estimators.lp.adaptive.AdaptiveMarginSVC",
    "widemargin.estimators.lp.adaptive.LOOSVC",
    "widemargin.estimators.boosting.AdaBoostClassifier",
    "widemargin.estimators.boosting.lp_boost.LPBoostClassifier",
    "widemargin.estimators.cumulative.CumulativeLinkClassifier",
    "widemargin.estimators.gp.MeanFieldGPClassifier",
    "widemargin.estimators.gp.regression.GPRegressor",
    "widemargin.estimators.hull.ReducedHullSVC",
    "widemargin.estimators.linear.LinearSVC",
    "widemargin.estimators.linear.regression.LinearSVR",
    "widemargin.estimators.lp.LPSVC",
    "widemargin.estimators.lp.NuLPSVC",
    "widemargin.estimators.max_margin.MaxMarginClassifier",
    "widemargin.estimators.ordinal.OrdinalSVC",
    "widemargin.estimators.perceptron.PerceptronClassifier",
    "widemargin.estimators.rbf_net.RBFNetClassifier",
    "widemargin.estimators.svm.classification.NuSVC",
    "widemargin.estimators.svm.regression.NuSVR",
    "widemargin.estimators.svm.classification.SVC",
    "widemargin.estimators.svm.regression.SVR",
    "widemargin.estimators.svm.one_class.OneClassSVM",
    "widemargin.estimators.tube.TubeSVR",
    "widemargin.kernels.Kernel",
    "widemargin.solvers.gp_regression.posterior.LowRankPosterior",
    "widemargin.tuning.gradient.Tuning",
}
WHAT_TO_DO = (
    "Files of earlier versions name this class by this path. Where a class has moved, leave an "
    "import of it at the old place, name the old path in FORMER_PATHS (cli/_model_file.py), keep "
    "it in PROMISED. Where files name a new class, add it to trusted_types and to PROMISED."
)

VERSIONS = {path.parent: json.loads(path.read_text()) for path in HERE.glob("*/expected.json")}
FILES = [(folder, name) for folder in VERSIONS for name in VERSIONS[folder]["machines"]]


def each(files):
    ids = [f"{folder.name}-{name}" for folder, name in files]
    return pytest.mark.parametrize(("folder", "name"), files, ids=ids)


def loaded(folder, name):
    # Support vectors of sparse data are scipy's, which skops trusts on request only.
    scipys = ["scipy.sparse._csr.csr_array"] if name == "svc_sparse" else []
    return skops.io.load(folder / f"{name}.skops", trusted=trusted_types() + scipys)


def named_in(path):
    """Return the types that a model file names, ours only."""
    with zipfile.ZipFile(path) as archive:
        waiting, found = [json.loads(archive.read("schema.json"))], set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            found.add(f"{part.get('__module__')}.{part.get('__class__')}")
        waiting.extend(part.values() if isinstance(part, dict) else part)
        waiting = [each for each in waiting if isinstance(each, dict | list)]
    return {name for name in found if name.startswith("widemargin.")}


# ---------------------------------------------------------------- the promise


def test_this_version_has_its_files_and_every_machine_is_in_them():
    here = HERE / wm.__version__
    assert here in VERSIONS, "no golden files of this version: python -m tests.golden.make"
    assert set(VERSIONS[here]["machines"]) == set(MACHINES)
    kept = {type(loaded(here, name)).__name__ for name in MACHINES}
    public = {name for name in wm.__all__ if hasattr(getattr(wm, name), "predict")}
    assert kept == public - {"LOOSearch"}  # whose best_estimator_ is what one keeps


def test_the_files_are_small():
    assert (
        sum(path.stat().st_size for path in (HERE / wm.__version__).iterdir()) < 330_000
    )  # two dozen machines


def test_no_path_is_named_that_is_not_promised():
    found = set().union(*(named_in(path) for path in HERE.glob("*/*.skops")))
    assert found == PROMISED, WHAT_TO_DO
    assert set(trusted_types()) == PROMISED, WHAT_TO_DO


@pytest.mark.parametrize("path", sorted(PROMISED))
def test_what_is_promised_is_there(path):
    module, _, name = path.rpartition(".")
    try:
        assert isinstance(getattr(importlib.import_module(module), name), type)
    except (ImportError, AttributeError) as error:
        pytest.fail(f"{error}. {WHAT_TO_DO}")


@pytest.mark.parametrize("name", ["svc_rbf", "gp_three", "adaboost", "tube_svr"])
def test_a_model_that_is_saved_now_names_nothing_new(name, tmp_path):
    skops.io.dump(make.kept(name), tmp_path / "model.skops")
    assert named_in(tmp_path / "model.skops") <= PROMISED, WHAT_TO_DO


# ---------------------------------------------------------------- the answers


@each(FILES)
def test_a_model_says_what_it_said(folder, name):
    expected = VERSIONS[folder]["machines"][name]
    found = make.answers(loaded(folder, name), np.array(VERSIONS[folder]["data"]["new"]))
    assert set(found) - {"certificates"} == set(expected) - {"certificates", "y"}
    if "certificates" not in expected:  # a file of a version that did not list them
        found.pop("certificates", None)
    if expected["y"] != "number":
        assert found.pop("predict") == expected["predict"]
    for proof in {"certificate", "certificates"} & set(found):
        assert found.pop(proof) == expected[proof]
    for what, values in found.items():
        np.testing.assert_allclose(values, expected[what], rtol=1e-9, atol=1e-9, err_msg=what)


CERTIFIED = [
    (folder, name)
    for folder, name in FILES
    if VERSIONS[folder]["machines"][name].get("certificate", {}).get("converged")
]


def _certificates(model):
    """Return all certificates of a model, in the order of its pairs of classes or ranks."""
    return getattr(model, "certificates_", [model.certificate_])


@each(CERTIFIED)
def test_a_fit_of_today_finds_the_same_optimum(folder, name):
    """The parameters of an old model are still taken, and both proofs speak of one optimum."""
    rows, kept = VERSIONS[folder]["data"], VERSIONS[folder]["machines"][name]
    old = loaded(folder, name)
    X, y = np.array(rows["X"]), np.array(rows[kept["y"]])
    weight = {"sample_weight": 1.0 + np.arange(len(y)) % 3} if name == "svc_weighted" else {}
    new = clone(old).fit(sp.csr_array(X) if name == "svc_sparse" else X, y, **weight)
    # One by one: which of them is the worst, certificate_, may be a matter of rounding.
    pairs = zip(_certificates(old), _certificates(new), strict=True)
    for before, now in pairs:
        assert now.problem == before.problem
        assert now.converged
        slack = 1e-9 * (1.0 + abs(before.primal))
        assert before.dual <= now.primal + slack
        assert now.dual <= before.primal + slack
    if "loo_error" in kept:
        assert new.loo_error() == pytest.approx(kept["loo_error"], abs=1e-3)


@each([file for file in FILES if file[1] in ("svc_rbf", "svc_poly", "svc_linear")])
def test_a_certificate_is_true_of_the_model_it_came_with(folder, name):
    """Primal and dual by the textbook, from the coefficients in the file and the rows."""
    rows, model = VERSIONS[folder]["data"], loaded(folder, name)
    X, sign = np.array(rows["X"]), np.where(np.array(rows["two"]) == "yes", 1.0, -1.0)
    kernel = {"kernel": model.kernel, "degree": model.degree, "coef0": model.coef0}
    K = byhand.gram(X, X, gamma=model.gamma_, **kernel)
    problem = byhand.Hinge(K, sign, np.full(len(sign), model.C))
    beta = byhand.row_coefficients(model, len(sign))
    assert problem.dual(beta) == pytest.approx(model.certificate_.dual, rel=1e-9)
    primal = problem.primal_at(beta, float(model.intercept_[0]))
    assert primal == pytest.approx(model.certificate_.primal, rel=1e-9)


@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)
def test_a_file_of_the_command_predicts_what_it_predicted(folder, tmp_path):
    kept = VERSIONS[folder]["command"]
    table = tmp_path / "table.csv"
    table.write_text(kept["table"], encoding="utf-8")
    model = folder / f"{make.COMMAND}.skops"
    done = CliRunner().invoke(app, ["predict", str(model), str(table)])
    assert done.exit_code == 0, done.output
    found, expected = (
        list(csv.reader(text.splitlines())) for text in (done.stdout, kept["predictions"])
    )
    assert [row[0] for row in found] == [row[0] for row in expected]
    assert found[0] == expected[0]
    values = [[float(value) for row in rows[1:] for value in row[1:]] for rows in (found, expected)]
    np.testing.assert_allclose(*values, rtol=1e-9, atol=1e-9)
    assert load_model(model).encoding.levels == {
        "town": ["Bonn", "Kiel", "Ulm"], "member": ["no", "yes"],
    }  # fmt: skip


def test_old_files_are_not_written_again(monkeypatch):
    folder = next(iter(VERSIONS))
    monkeypatch.setattr(sys, "argv", ["make.py", "--into", str(folder)])
    with pytest.raises(SystemExit, match="old files must stay as they are"):
        make.main()
