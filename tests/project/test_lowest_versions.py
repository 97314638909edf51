"""The lowest versions are read from pyproject.toml, each of them, and nowhere else."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "lowest.py"


def reader():
    spec = importlib.util.spec_from_file_location("lowest", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.lowest


lowest = reader()


def test_every_bound_becomes_a_pin():
    project = {
        "dependencies": ["numpy>=2.0", "scikit-learn >= 1.6"],
        "optional-dependencies": {
            "test": ["dask[dataframe]>=2025.1", "numpy>=2.0", "PyArrow>=17"],
            "docs": ["sphinx>=8"],
        },
    }
    assert lowest(project, []) == ["numpy==2.0", "scikit-learn==1.6"]
    assert lowest(project, ["test"]) == [
        "dask==2025.1", "numpy==2.0", "pyarrow==17", "scikit-learn==1.6",
    ]  # fmt: skip


@pytest.mark.parametrize("entry", ["numpy", "numpy==2.0", "numpy>=2,<3", "numpy>2", ""])
def test_what_has_no_single_lower_bound_is_an_error(entry):
    with pytest.raises(ValueError, match="no single lower bound"):
        lowest({"dependencies": [entry]}, [])


def test_bounds_that_differ_are_an_error():
    project = {"dependencies": ["a-b>=1"], "optional-dependencies": {"x": ["A_b>=2"]}}
    with pytest.raises(ValueError, match="a-b has two lower bounds: 1 and 2"):
        lowest(project, ["x"])


def test_extras_may_pin_tools_and_include_extras():
    project = {
        "name": "ours",
        "dependencies": ["numpy>=2.0"],
        "optional-dependencies": {"lint": ["ruff==0.1"], "dev": ["ours[lint]", "nox==3"]},
    }
    assert lowest(project, ["dev"]) == ["nox==3", "numpy==2.0", "ruff==0.1"]


def test_an_extra_that_is_none_is_an_error():
    with pytest.raises(ValueError, match="there is no extra tets"):
        lowest({"optional-dependencies": {"test": []}}, ["tets"])


def test_ours_can_be_pinned_whole():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = list(project["optional-dependencies"])
    asked = subprocess.run(
        [sys.executable, SCRIPT, *extras], capture_output=True, text=True, check=True
    )
    pins = dict(line.split("==") for line in asked.stdout.split())
    entries = [
        entry
        for group in [project["dependencies"], *project["optional-dependencies"].values()]
        for entry in group
        if not entry.startswith("widemargin[")  # other extras of the package
    ]
    names = {re.split(r"[\[>=]", entry)[0].strip().lower() for entry in entries}
    assert set(pins) == names
    assert pins["numpy"] in next(e for e in entries if e.startswith("numpy"))


def test_what_users_install_is_tested_at_its_lowest():
    """All that the package and its extras for users need is among what the tests need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(lowest(project, ["dask", "report", "play"])) <= set(lowest(project, ["test"]))


def test_the_page_lists_the_bounds_as_they_are():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "install.rst").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^``([\w-]+)``\s+(\d[\d.]*)\s", page, flags=re.MULTILINE))
    pins = dict(pin.split("==") for pin in lowest(project, ["dask", "report", "play"]))
    assert listed == {"python": project["requires-python"].removeprefix(">="), **pins}
