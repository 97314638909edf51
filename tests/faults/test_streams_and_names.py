"""Readers that leave, streams that are closed, locales without letters, names without meaning."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from tests.helpers.children import PATIENCE, command, environment, refused, started


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    X = np.random.default_rng(0).normal(size=(20_000, 2)).round(3)
    rows = [f"{u},{v},{'größer' if u + v > 0 else 'kleiner'}" for u, v in X]
    for name, some in (("data.csv", rows[:60]), ("many.csv", rows)):
        (folder / name).write_text("\n".join(["a,b,y", *some]) + "\n", encoding="utf-8")
    done = command("fit", "data.csv", "-t", "y", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("unbuffered", [None, "1"], ids=["buffered", "unbuffered"])
def test_a_reader_that_has_seen_enough_ends_the_command_quietly(place, unbuffered):
    """As `widemargin predict ... | head -1` does."""
    words = ["-m", "widemargin", "predict", "data.skops", "many.csv"]
    variables = environment(PYTHONUNBUFFERED=unbuffered)
    with started(words, cwd=place, env=variables) as child:
        assert child.stdout.readline().startswith("prediction,")
        child.stdout.close()
        err = child.stderr.read()
        assert child.wait(PATIENCE) == 1
    assert err == ""


def test_a_closed_standard_output_is_an_error_that_says_so(place):
    # The shell closes it: subprocess cannot.
    shell = ("sh", "-c", '"$@" >&-', "sh")
    done = command("predict", "data.skops", "data.csv", cwd=place, prefix=shell)
    refused(done, "Standard output is closed", "--output")
    done = command("predict", "data.skops", "data.csv", "-o", "o.csv", cwd=place, prefix=shell)
    assert done.returncode == 0, done.stderr
    assert len((place / "o.csv").read_text("utf-8").splitlines()) == 61


@pytest.mark.skipif(sys.platform != "linux", reason="names of other systems are text")
def test_names_that_are_no_text_and_a_locale_without_letters(place):
    """Under LC_ALL=C, without UTF-8 mode; the name has a byte that is no UTF-8."""
    name = b"d\xffta \xc3\xb6.csv"
    os.link(place / "data.csv", os.path.join(os.fsencode(place), name))
    model = b"m\xff.skops"
    variables = environment(LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    words = [b"fit", name, b"-t", b"y", b"-o", model]
    done = command(*map(os.fsdecode, words), cwd=place, env=variables)
    assert done.returncode == 0, done.stderr
    words = [b"predict", model, name]
    done = command(*map(os.fsdecode, words), cwd=place, env=variables)
    assert done.returncode == 0, done.stderr
    assert "größer" in done.stdout  # results are UTF-8 wherever they go
    done = command(*map(os.fsdecode, [words[0], words[1], b"no\xff.csv"]), cwd=place, env=variables)
    refused(done, "There is no file no")
