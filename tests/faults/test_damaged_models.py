"""Model files with a wrong bit or without their end: an error that names them, or no change."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from widemargin._base.messages import UserError
from widemargin.cli import app
from widemargin.cli._model_file import load_model

PLACES = 150


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    X = np.random.default_rng(0).normal(size=(40, 2)).round(4)
    rows = [f"{u},{v},{'yes' if u + v > 0 else 'no'}" for u, v in X]
    (folder / "data.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")
    words = ["fit", str(folder / "data.csv"), "-t", "y", "-o", str(folder / "model.skops")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return folder, X


def answer(path, X):
    return load_model(path).pipeline.decision_function(X).tobytes()


def damaged(whole, how):
    rng = np.random.default_rng(0)
    # The end of the file is its table of contents.
    places = [*rng.integers(0, len(whole), PLACES), *range(len(whole) - 60, len(whole))]
    for place in places:
        if how == "cut":
            yield whole[:place]
        else:
            bit = whole[place] ^ (1 << int(rng.integers(8)))
            yield whole[:place] + bytes([bit]) + whole[place + 1 :]


@pytest.mark.parametrize("how", ["flipped", "cut"])
def test_a_model_damaged_anywhere_is_named_or_the_same(trained, how, tmp_path):
    folder, X = trained
    whole = (folder / "model.skops").read_bytes()
    expected = answer(folder / "model.skops", X)
    path = tmp_path / "model.skops"
    refusals = []
    for content in damaged(whole, how):
        path.write_bytes(content)
        try:
            # Names and times in the zip have no checksum; a wrong bit in them changes nothing.
            assert answer(path, X) == expected
        except UserError as error:
            refusals.append(str(error))
    assert len(refusals) > PLACES / 2
    assert all(str(path) in refusal for refusal in refusals)


def test_the_command_line_says_so_in_a_line_for_models(trained, tmp_path):
    folder, _ = trained
    path = tmp_path / "model.skops"
    path.write_bytes((folder / "model.skops").read_bytes()[:-100])
    out = tmp_path / "out.csv"
    words = ["predict", str(path), str(folder / "data.csv"), "-o", str(out)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: {path} is damaged")
    assert done.stderr.count("\n") == 1
    assert not out.exists()
