"""LinearSVC on data in parts: the model of the array, whatever the parts."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import widemargin
from widemargin import LinearSVC, loo, sources

HINGE = {"loss": "hinge", "multi_class": "ovo", "tol": 1e-9}  # solved exactly
SOURCE = str(Path(widemargin.__file__).parents[1])


def _data(n: int = 20_000, n_classes: int = 2, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 4))
    y = np.argmax(X @ rng.normal(size=(4, n_classes)) + 0.2 * rng.normal(size=(n, n_classes)), 1)
    return X, y


def _cut(n_parts: int, *arrays):
    return [np.array_split(array, n_parts) for array in arrays]


def _assert_same(model, other, rtol: float = 1e-9) -> None:
    scale = np.abs(other.coef_).max()
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=0, atol=rtol * scale)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=0, atol=rtol * scale)


@pytest.fixture(scope="module")
def held():
    X, y = _data()
    return X, y, LinearSVC(solver="sampling", **HINGE).fit(X, y)


def test_the_exact_optimum_is_that_of_the_other_solver(held) -> None:
    X, y, model = held
    newton = LinearSVC(solver="newton", **HINGE).fit(X, y)
    proof = model.certificate_
    assert proof.gap - proof.rounding < 1e-11 * proof.primal
    assert model.certificate_.primal == pytest.approx(newton.certificate_.primal, rel=1e-9)
    assert model.certificate_.primal <= newton.certificate_.primal * (1 + 1e-12)
    assert model.passes_ <= 6
    assert [entry["round"] for entry in model.history_[0]] == [
        k + 1 for k in range(len(model.history_[0]))
    ]


@pytest.mark.parametrize("n_parts", [1, 7])
@pytest.mark.parametrize("seed", [0, 1])
def test_parts_and_seeds_change_nothing(held, n_parts: int, seed: int) -> None:
    X, y, model = held
    dataset = sources.from_arrays(*_cut(n_parts, X, y))
    read = LinearSVC(random_state=seed, **HINGE).fit(dataset)
    _assert_same(read, model)
    assert read.certificate_.converged
    proof = read.certificate_
    assert proof.gap - proof.rounding < 1e-11 * proof.primal
    np.testing.assert_array_equal(read.predict(X), model.predict(X))


def test_rows_sorted_by_class_and_empty_parts(held) -> None:
    X, y, model = held
    order = np.argsort(y, kind="stable")
    parts = [np.arange(0), *np.array_split(order, 5), np.arange(0)]
    dataset = sources.from_arrays([X[part] for part in parts], [y[part] for part in parts])
    _assert_same(LinearSVC(**HINGE).fit(dataset), model)


@pytest.mark.parametrize("kind", ["npy", "parquet", "memmap"])
def test_files_give_the_model_of_the_array(held, kind: str, tmp_path) -> None:
    X, y, model = held
    if kind == "npy":
        for k, (rows, labels) in enumerate(zip(*_cut(3, X, y), strict=True)):
            np.save(tmp_path / f"part{k}.npy", np.column_stack([rows, labels]))
        read = LinearSVC(**HINGE).fit(str(tmp_path / "*.npy"), 4)
    elif kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = ["a", "b", "c", "d"]
        for k, (rows, labels) in enumerate(zip(*_cut(3, X, y), strict=True)):
            table = pa.table({**dict(zip(names, rows.T, strict=True)), "label": labels})
            pq.write_table(table, tmp_path / f"part{k}.parquet", row_group_size=1000)
        read = LinearSVC(**HINGE).fit(str(tmp_path / "*.parquet"), "label")
        assert read.feature_names_in_.tolist() == names
    else:
        np.save(tmp_path / "X.npy", X)
        mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
        read = LinearSVC(**HINGE).fit(sources.from_arrays(mapped, y))
    _assert_same(read, model)
    assert read.n_features_in_ == 4


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("intercept", [True, False])
def test_losses_weights_and_labels(loss: str, intercept: bool) -> None:
    X, y = _data(8_000)
    names = np.array(["no", "yes"])[y]
    weight = np.random.default_rng(1).choice([0.0, 0.5, 2.0], len(y))
    options = {"loss": loss, "fit_intercept": intercept, "class_weight": {"yes": 3.0}, "C": 0.1}
    read = LinearSVC(**options, tol=1e-10).fit(sources.from_arrays(*_cut(3, X, names, weight)))
    model = LinearSVC(**options, tol=1e-9, solver="newton").fit(X, names, weight)
    assert read.classes_.tolist() == ["no", "yes"]
    assert read.certificate_.problem == model.certificate_.problem
    assert read.certificate_.primal == pytest.approx(model.certificate_.primal, rel=1e-8)
    assert read.certificate_.dual <= read.certificate_.primal * (1 + 1e-12)


def test_several_classes_and_balanced_weights() -> None:
    X, y = _data(9_000, n_classes=3)
    read = LinearSVC(class_weight="balanced", **HINGE).fit(sources.from_arrays(*_cut(4, X, y)))
    model = LinearSVC(class_weight="balanced", solver="sampling", **HINGE).fit(X, y)
    _assert_same(read, model)
    assert len(read.certificates_) == len(read.history_) == 3
    np.testing.assert_array_equal(read.predict(X), model.predict(X))


def test_single_precision_and_a_distant_origin() -> None:
    X, y = _data(20_000)
    model = LinearSVC(solver="sampling", **HINGE).fit(X, y)
    single = LinearSVC(**HINGE).fit(sources.from_arrays(*_cut(3, X.astype(np.float32), y)))
    exact = LinearSVC(solver="sampling", **HINGE).fit(X.astype(np.float32).astype(np.float64), y)
    _assert_same(single, exact, 1e-9)
    far = LinearSVC(**HINGE).fit(sources.from_arrays(*_cut(3, X + 1e6, y)))
    np.testing.assert_allclose(
        far.coef_, model.coef_, rtol=0, atol=1e-6 * np.abs(model.coef_).max()
    )
    assert far.certificate_.converged


def test_probabilities_are_found_by_a_sample_and_leave_one_out_is_refused(held) -> None:
    X, y, model = held
    read = LinearSVC(**HINGE).fit(sources.from_arrays(*_cut(3, X, y)))
    p = read.predict_proba(X)
    np.testing.assert_array_equal(p[:, 1] > 0.5, read.predict(X) == 1)
    np.testing.assert_allclose(p, model.predict_proba(X), atol=0.02)
    with pytest.raises(ValueError, match="fitted on a data set in parts"):
        loo.error(read)
    copy = pickle.loads(pickle.dumps(read))
    np.testing.assert_array_equal(copy.predict_proba(X), p)
    np.testing.assert_array_equal(copy.compact().predict(X), read.predict(X))
    fresh = pickle.loads(pickle.dumps(LinearSVC(**HINGE).fit(sources.from_arrays(*_cut(3, X, y)))))
    with pytest.raises(ValueError, match="predict_proba"):
        fresh.predict_proba(X)


def test_what_cannot_be_is_said() -> None:
    X, y = _data(200)
    dataset = sources.from_arrays(*_cut(2, X, y))
    with pytest.raises(
        ValueError, match=r"solver must be .* for data in parts; got solver='newton'"
    ):
        LinearSVC(solver="newton", **HINGE).fit(dataset)
    with pytest.raises(ValueError, match="checkpoint must be None for rows in memory"):
        LinearSVC(checkpoint="state").fit(X, y)
    with pytest.raises(ValueError, match="checkpoint must be the path of a file"):
        LinearSVC(checkpoint=3).fit(dataset)
    with pytest.raises(ValueError, match=r"solver must be .* sparse rows"):
        LinearSVC(solver="sampling", **HINGE).fit(sp.csr_array(X), y)
    with pytest.raises(ValueError, match=r"solver must be .* squared hinge"):
        LinearSVC(solver="sampling", loss="squared_hinge").fit(X, y)
    with pytest.raises(ValueError, match="at least two classes"):
        LinearSVC(**HINGE).fit(sources.from_arrays(*_cut(2, X, np.ones(200))))
    with pytest.raises(ValueError, match="without y"):
        LinearSVC(**HINGE).fit(dataset, y)


def test_a_budget_that_runs_out_leaves_a_model_and_a_warning() -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_t(2, (40_000, 4))  # heavy tails: a sample is often wrong
    y = np.where(X[:, 0] + rng.standard_t(2, 40_000) > 0, 1, 0)
    dataset = sources.from_arrays(*_cut(3, X, y))
    best = LinearSVC(**HINGE).fit(dataset)
    assert best.n_iter_ > 1
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        model = LinearSVC(loss="hinge", max_iter=1, tol=1e-12).fit(dataset)
    certificate = model.certificate_
    assert not certificate.converged
    optimum = best.certificate_.primal
    assert certificate.dual <= optimum * (1 + 1e-12) <= certificate.primal * (1 + 2e-12)


def test_a_bar_shows_reads_violators_and_bounds(held, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    X, y, _ = held
    LinearSVC(verbose=1, **HINGE).fit(sources.from_arrays(*_cut(3, X, y)))
    shown = " ".join(capsys.readouterr().out.split())
    assert "reads" in shown
    assert "violators" in shown
    assert "optimum in [" in shown


# ---------------------------------------------------------------- checkpoints


SCRIPT = """
import os, signal, sys
import numpy as np
from widemargin import LinearSVC, sources
from widemargin.sources import checkpoint

folder, kill, loss = sys.argv[1], sys.argv[2] == "kill", sys.argv[3]
if kill:  # right after the first state is on disk
    save = checkpoint.Checkpoint.save
    def save_and_die(self, state):
        save(self, state)
        os.kill(os.getpid(), signal.SIGKILL)
    checkpoint.Checkpoint.save = save_and_die
dataset = sources.from_files(folder + "/*.npy", target=4)
model = LinearSVC(checkpoint=folder + "/state", loss=loss, tol=1e-9).fit(dataset)
print(model.coef_.tobytes().hex(), model.intercept_.tobytes().hex())
"""


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_killed_fit_goes_on_and_ends_at_the_same_bits(loss: str, tmp_path) -> None:
    # Whole numbers: ties on the margin make the first band too narrow, so that there are rounds.
    rng = np.random.default_rng(3)
    X = rng.integers(-4, 5, (40_000, 4)).astype(float)
    y = np.where(X @ [1.0, 2.0, -1.0, 0.5] + rng.normal(size=40_000) > 0, 1, 0)
    for k, (rows, labels) in enumerate(zip(*_cut(4, X, y), strict=True)):
        np.save(tmp_path / f"part{k}.npy", np.column_stack([rows, labels]))
    script = tmp_path / "fit.py"
    script.write_text(textwrap.dedent(SCRIPT))

    def run(mode: str):
        command = [sys.executable, str(script), str(tmp_path), mode, loss]
        environment = {"PYTHONPATH": SOURCE, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        return subprocess.run(
            command, capture_output=True, text=True, timeout=240, env=environment, check=False
        )

    undisturbed = run("live")
    assert undisturbed.returncode == 0, undisturbed.stderr
    assert not (tmp_path / "state").exists()
    killed = run("kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (tmp_path / "state").exists()
    with pytest.raises(ValueError, match=r"state.*(other|another|different)"):
        LinearSVC(C=7.0, loss=loss, checkpoint=tmp_path / "state").fit(str(tmp_path / "*.npy"), 4)
    resumed = run("live")
    assert resumed.stdout == undisturbed.stdout
    assert not (tmp_path / "state").exists()
