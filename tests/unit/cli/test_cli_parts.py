"""``widemargin fit`` on many Parquet files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from widemargin import LinearSVC
from widemargin.cli import app
from widemargin.cli._model_file import load_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("parts")
    rng = np.random.default_rng(0)
    for k in range(3):
        X = rng.normal(size=(4_000, 3)) * [1.0, 100.0, 0.01] + [0.0, 1e3, 5.0]
        label = np.where(X[:, 0] + X[:, 1] / 100 + rng.normal(size=4_000) > 10, "yes", "no")
        columns = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "churned": label}
        pq.write_table(pa.table(columns), path / f"part{k}.parquet")
    return path


def _run(*arguments, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.parametrize("pattern", ["*.parquet", ""])
def test_many_files_are_fitted_standardised_and_saved(folder, tmp_path, pattern: str) -> None:
    model = tmp_path / "model.skops"
    shown = _run("fit", folder / pattern, "--target", "churned", "-o", model, "--drop", "c",
                 "--checkpoint", tmp_path / "state")  # fmt: skip
    assert "12,000 rows in 3 parts, 2 inputs" in shown
    assert "converged" in shown
    assert not (tmp_path / "state").exists()
    tables = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    whole = pa.concat_tables(tables).to_pandas()
    X, y = whole[["a", "b"]], whole["churned"].to_numpy()
    loaded = load_model(model)
    machine = LinearSVC(loss="hinge", multi_class="ovo", solver="sampling").fit(
        loaded.pipeline[0].transform(X), y
    )
    np.testing.assert_allclose(loaded.pipeline[-1].coef_, machine.coef_, rtol=1e-6)
    np.testing.assert_allclose(loaded.pipeline[0].mean_, X.mean().to_numpy(), rtol=1e-12)
    written = tmp_path / "out.csv"
    _run("predict", model, folder / "part1.parquet", "-o", written)
    predicted = np.genfromtxt(written, delimiter=",", names=True, dtype=None, encoding="utf-8")
    expected = loaded.pipeline.predict(X.iloc[4_000:8_000])
    np.testing.assert_array_equal(predicted["prediction"], expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "churnd"], "churnd"),
        (["--target", "churned", "--drop", "d"], "no column 'd'"),
        (["--target", "churned", "--kernel", "rbf"], "--kernel"),
        (["--target", "churned", "--one-hot"], "--one-hot"),
        (["--target", "churned", "--impute", "mean"], "--impute"),
        (["--target", "churned", "--C", "-1"], "C must be a positive number"),
    ],
)
def test_mistakes_are_named(folder, tmp_path, options, message: str) -> None:
    out = tmp_path / "model.skops"
    assert message in _run("fit", folder / "*.parquet", *options, "-o", out, code=1)
    assert not out.exists()


def test_a_checkpoint_is_for_many_files(folder, tmp_path) -> None:
    one = folder / "part0.parquet"
    shown = _run("fit", one, "-t", "churned", "--checkpoint", tmp_path / "s", code=2)
    assert "--checkpoint" in shown
