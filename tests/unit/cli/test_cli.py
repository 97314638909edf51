"""The commands, run as a user runs them: files in, files and messages out."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import skops.io
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import widemargin as wm
from tests.helpers.commands import run, write_csv
from widemargin.cli._model_file import load_model


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def read_csv(name):
    with open(name, newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


def load_model_here(name):
    return load_model(Path(name))


@pytest.fixture
def iris():
    bunch = load_iris()
    columns = {f"x{j}": bunch.data[:, j].tolist() for j in range(4)}
    columns["species"] = [str(bunch.target_names[k]) for k in bunch.target]
    write_csv("iris.csv", columns)
    return bunch


# ---------------------------------------------------------------- fit


def test_demo_prints_the_summary_and_saves_the_model(in_empty_folder):
    out, err = run("fit", "--demo")
    bunch = load_breast_cancer()
    X, y = bunch.data, bunch.target_names[bunch.target]
    reference = make_pipeline(StandardScaler(), wm.SVC(random_state=0)).fit(X, y)
    machine = reference[-1]
    wrong = int((reference.predict(X) != y).sum())
    n_support = len(machine.support_)
    assert "SVC: soft-margin classifier, Gaussian (rbf) kernel" in out
    assert f"support vectors {n_support} of 569 rows" in out
    assert f"training error {wrong} of 569 rows" in out
    left_out = round(569 * machine.loo_error())
    assert f"{left_out} of 569 rows wrong ({left_out / 569:.2%}, exact;" in out
    assert f"between {machine.certificate_.dual:.7g} and {machine.certificate_.primal:.7g}" in out
    assert "converged after" in out
    assert "saved widemargin-demo.skops" in out
    assert err == ""
    assert os.listdir(in_empty_folder) == ["widemargin-demo.skops"]


def test_options_reach_the_machine(iris):
    run(
        *("fit", "iris.csv", "-t", "species", "--C", 5, "--kernel", "poly", "--degree", 2),
        *("--gamma", 0.5, "--coef0", 1, "--tol", 1e-4, "--class-weight", "balanced"),
        *("--time-limit", 60, "-o", "m.skops"),
    )
    given = load_model_here("m.skops").pipeline[-1].get_params()
    wanted = {"C": 5.0, "kernel": "poly", "degree": 2, "gamma": 0.5, "coef0": 1.0, "tol": 1e-4}
    assert wanted.items() <= given.items()
    assert given["class_weight"] == "balanced"
    assert given["time_limit"] == 60


def test_equal_support_vectors_count_as_often_as_they_occur():
    # Of three equal rows the machine names one; the bound must count all of them.
    write_csv("equal.csv", {"x": [0, 0, 0, 1, 1, 1], "y": ["a", "a", "a", "b", "b", "b"]})
    out, _ = run("fit", "equal.csv", "-t", "y")
    assert "support vectors 6 of 6 rows" in out
    assert "0 of 6 rows wrong (0.00%, exact;" in out
    # Where there is no leave-one-out, a bound takes its place.
    out, _ = run("fit", "equal.csv", "-t", "y", "--kernel", "sigmoid", "--coef0", -1)
    assert "at most 6 / 6" in out


def test_multiclass_certificate_speaks_of_the_worst_pair(iris):
    out, _ = run("fit", "iris.csv", "--target", "species")
    assert "worst of 3 two-class problems" in out
    assert "setosa 50, versicolor 50, virginica 50" in out
    assert "saved iris.skops" in out


def test_unconverged_fit_says_so(iris):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    columns = {f"x{j}": X[:, j].tolist() for j in range(5)}
    columns["y"] = rng.integers(2, size=3000).tolist()
    write_csv("noise.csv", columns)
    out, err = run("fit", "noise.csv", "-t", "y", "--C", 1e6, "--time-limit", 0.01)
    assert "NOT converged" in out
    assert "warning:" in err


def test_regression_is_in_units_of_the_target():
    bunch = load_diabetes()
    columns = {name: bunch.data[:, j].tolist() for j, name in enumerate(bunch.feature_names)}
    columns["progression"] = bunch.target.tolist()
    write_csv("diabetes.csv", columns)
    out, _ = run("fit", "diabetes.csv", "-t", "progression", "--epsilon", 0.2)
    assert "SVR: support vector regression" in out
    assert "epsilon = 0.2 standard deviations of the target" in out
    assert "standard deviations (exact; without retraining" in out
    run("predict", "diabetes.skops", "diabetes.csv", "-o", "out.csv")
    predicted = np.array([float(row["prediction"]) for row in read_csv("out.csv")])
    assert abs(predicted.mean() - bunch.target.mean()) < 0.2 * bunch.target.std()
    assert np.corrcoef(predicted, bunch.target)[0, 1] > 0.7


def test_large_linear_problem_is_trained_on_its_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_001, 2))
    write_csv("big.csv", {"a": X[:, 0], "b": X[:, 1], "y": (X[:, 0] > 0.1).astype(int)})
    out, _ = run("fit", "big.csv", "-t", "y", "--kernel", "linear")
    assert "LinearSVC: soft-margin classifier, linear kernel" in out
    assert isinstance(load_model_here("big.skops").pipeline[-1], wm.LinearSVC)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--target", "specie"], "no target column 'specie'. Did you mean 'species'?"),
        (["--target", "x0", "--task", "regression"], "--one-hot"),
        (["--target", "species", "--drop", "x9"], "no column 'x9'"),
        (["--target", "species", "--gamma", "wide"], "'scale', 'auto' or a number, not 'wide'"),
        (["--target", "species", "--C", "-1"], "C"),
        (["--target", "species", "--epsilon", "1"], "--epsilon is for regression"),
        (["--target", "species", "-o", "no/where.skops"], "does not exist"),
        (["--target", "x0", "--drop", "species", "--class-weight", "balanced"], "--class-weight"),
    ],
)
def test_mistakes_in_the_data_leave_with_one(iris, args, message):
    out, err = run("fit", "iris.csv", *args, code=1)
    assert out == ""
    assert err.startswith("error: ")
    assert message in err
    assert os.listdir() == ["iris.csv"]


@pytest.mark.parametrize(
    "args",
    [
        ["fit"],
        ["fit", "iris.csv"],
        ["fit", "--demo", "iris.csv"],
        ["fit", "iris.csv", "--target", "species", "--kernel", "magic"],
        ["fit", "iris.csv", "--target", "species", "--C", "much"],
        ["predict", "model.skops"],
        ["frobnicate"],
    ],
)
def test_mistakes_in_the_command_leave_with_two(iris, args):
    run(*args, code=2)
    assert os.listdir() == ["iris.csv"]


def test_one_class_is_nothing_to_learn():
    write_csv("one.csv", {"x": [1, 2, 3], "y": ["a", "a", "a"]})
    assert "only one value" in run("fit", "one.csv", "-t", "y", code=1)[1]


# ---------------------------------------------------------------- predict


def test_predictions_are_the_pipelines_own(iris):
    run("fit", "iris.csv", "-t", "species")
    out, err = run("predict", "iris.skops", "iris.csv", "-o", "out.csv")
    assert out == ""
    labels = np.array(iris.target_names)[iris.target]
    reference = make_pipeline(StandardScaler(), wm.SVC(random_state=0)).fit(iris.data, labels)
    rows = read_csv("out.csv")
    assert [row["prediction"] for row in rows] == reference.predict(iris.data).tolist()
    scores = np.array([[float(row[f"decision_{c}"]) for c in iris.target_names] for row in rows])
    np.testing.assert_array_equal(scores, reference.decision_function(iris.data))
    wrong = int((reference.predict(iris.data) != labels).sum())
    assert f"error on this data: {wrong} of 150 rows" in err


def test_two_classes_have_one_decision_value_and_stdout_is_the_table():
    write_csv("two.csv", {"x": [0, 1, 2, 3], "y": [0, 0, 1, 1]})
    run("fit", "two.csv", "-t", "y", "--kernel", "linear")
    write_csv("new.csv", {"x": [-5, 9]})
    out, err = run("predict", "two.skops", "new.csv")
    header, low, high = out.split()
    assert header == "prediction,decision_1"
    assert low.startswith("0,-")
    assert high.startswith("1,")
    assert err == ""


def test_one_hot_model_reads_text_again():
    write_csv("t.csv", {"city": ["a", "b", "a", "b"] * 5, "y": ["u", "v", "u", "v"] * 5})
    run("fit", "t.csv", "-t", "y", "--one-hot")
    write_csv("new.csv", {"city": ["b", "a", "elsewhere"]})
    out, err = run("predict", "t.skops", "new.csv")
    assert [line.split(",")[0] for line in out.split()][1:3] == ["v", "u"]
    assert "'elsewhere'" in err


def test_predictions_as_parquet(iris):
    run("fit", "iris.csv", "-t", "species")
    run("predict", "iris.skops", "iris.csv", "-o", "out.parquet")
    table = pq.read_table("out.parquet")
    assert table.num_rows == 150
    assert table.column("prediction")[0].as_py() == "setosa"


def test_missing_columns_are_named(iris):
    run("fit", "iris.csv", "-t", "species")
    write_csv("new.csv", {"x0": [1], "X1": [2], "x3": [3]})
    _, err = run("predict", "iris.skops", "new.csv", "-o", "out.csv", code=1)
    assert "lacks 2 of the 4 columns that the model was fitted on: 'x1', 'x2'" in err
    assert "'X1'" in err
    assert not os.path.exists("out.csv")


# ---------------------------------------------------------------- model files


def test_foreign_types_are_refused_by_name(iris):
    content = {"format": "widemargin-model-1", "pipeline": FunctionTransformer(os.system)}
    skops.io.dump(content, "evil.skops")
    _, err = run("predict", "evil.skops", "iris.csv", code=1)
    assert "was not loaded" in err
    assert "posix.system" in err or "nt.system" in err


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 cut short"])
def test_damaged_model_file(iris, content):
    with open("bad.skops", "wb") as handle:
        handle.write(content)
    assert "no model file" in run("predict", "bad.skops", "iris.csv", code=1)[1]


def test_other_skops_file(iris):
    skops.io.dump({"some": "thing"}, "other.skops")
    assert "not written by" in run("predict", "other.skops", "iris.csv", code=1)[1]


def test_model_file_holds_everything_predict_needs(iris):
    run("fit", "iris.csv", "-t", "species")
    model = load_model_here("iris.skops")
    assert model.target == "species"
    assert model.task == "classification"
    assert model.encoding.columns == ["x0", "x1", "x2", "x3"]
    assert model.pipeline[-1].certificate_.converged


# ---------------------------------------------------------------- as a program


def program(*args):
    return subprocess.run(
        [sys.executable, "-m", "widemargin", *args], capture_output=True, text=True, check=False
    )


def test_program_reports_user_errors_without_a_traceback():
    done = program("fit", "absent.csv", "--target", "y")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == "error: There is no file absent.csv.\n"


def test_program_knows_its_version():
    done = program("--version")
    assert (done.returncode, done.stdout) == (0, f"widemargin {version('widemargin')}\n")


def test_importing_the_command_line_is_light():
    code = (
        "import sys, widemargin; before = set(sys.modules); import widemargin.cli; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new & {'numba', 'sklearn', 'scipy', 'numpy', 'pyarrow', 'pandas', 'skops'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


LATER_FITS = """
import numpy as np, scipy.sparse as sp, widemargin as wm
rng = np.random.default_rng(1)
X = rng.normal(size=(3500, 3))
y = X[:, 0] + 0.1 * rng.normal(size=3500)
for data in (X, X.astype("float32"), sp.csr_array(X), sp.csr_array(X.astype("float32"))):
    for n in (50, 3500):
        for machine in (wm.SVC(), wm.NuSVC(nu=0.1), wm.LinearSVC()):
            machine.fit(data[:n], y[:n] > 0).predict(data[:n])
        wm.SVR().fit(data[:n], y[:n]).predict(data[:n])
wm.SVC(kernel="poly", coef0=1.0).fit(X, np.digitize(y, [-0.5, 0.5])).predict(X)
X, y = X[:90], y[:90]
for name in wm.__all__:
    machine = getattr(wm, name)
    if not isinstance(machine, type) or name in ("Certificate", "LOOSearch"):
        continue
    ranks = np.digitize(y, [-0.5, 0.5])
    target = y if name.endswith("SVR") else X[:, 0] > 0 if name.startswith("Max") else ranks
    model = machine().fit(X, target)
    model.predict(X)
    if hasattr(model, "predict_proba"):
        model.predict_proba(X)
    if hasattr(model, "loo_error"):
        model.loo_error()
"""


@pytest.mark.slow
def test_nothing_is_compiled_after_warmup(in_empty_folder):
    cache = in_empty_folder / "numba"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}

    def compiled_after(*args):
        done = subprocess.run(
            [sys.executable, *args], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, {path.name for path in cache.rglob("*.nbc")}

    out, before = compiled_after("-m", "widemargin", "warmup")
    for name in ("SVC", "NuSVC", "SVR", "NuSVR", "LinearSVC"):
        assert f" {name} " in f" {' '.join(out.split())} "
    assert before
    assert compiled_after("-c", LATER_FITS)[1] == before
    assert compiled_after("-m", "widemargin", "report", "--demo")[1] == before
