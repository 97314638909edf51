"""The page docs/contribute_a_machine.rst is a program: its files work and its tests pass."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "contribute_a_machine.rst").read_text(encoding="utf-8")
BLOCK = re.compile(r"\.\. code-block:: (\w+)\n(?:   :caption: (\S+)\n)?\n((?:   .*\n|\n)+)")


def without_numbers(text):
    return re.sub(r"\d[\d.e+-]*", "#", text)


def blocks():
    """Language, file and content of each block."""
    return [
        (kind, name, re.sub(r"^   ", "", piece, flags=re.MULTILINE))
        for kind, name, piece in BLOCK.findall(PAGE)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the files of the page, as its reader would have it."""
    place = tmp_path_factory.mktemp("tutorial")
    for kind, name, piece in blocks():
        if name:
            assert kind == "python"
            with (place / name).open("a", encoding="utf-8") as file:
                file.write(piece + "\n\n")
    return place


def run(folder, *command):
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )


def test_the_files_of_the_page(folder):
    names = {path.name for path in folder.glob("*.py")}
    assert names == {"quantile_machine.py", "logistic_machine.py", "test_machines.py"}


def test_the_page_prints_what_it_shows(folder):
    rest = [(kind, piece) for kind, name, piece in blocks() if not name and kind != "bash"]
    assert [kind for kind, _ in rest] == ["python", "text"] * 2
    done = run(folder, "-c", "\n".join(piece for kind, piece in rest if kind == "python"))
    assert done.returncode == 0, done.stderr
    shown = " ".join(piece for kind, piece in rest if kind == "text")
    assert without_numbers(done.stdout).split() == without_numbers(shown).split()
    assert "suspects: [0, 1]" in done.stdout  # the two labels that the page changes


@pytest.mark.slow
def test_the_tests_of_the_page_pass(folder):
    # Warnings are errors, as in the library's own tests.
    done = run(folder, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout
    passed = int(re.search(r"(\d+) passed", done.stdout)[1])
    assert passed > 120, done.stdout
