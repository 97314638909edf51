"""The cache of compiled code: damaged, out of reach, beside an install that is read-only."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

import widemargin
from benchmarks.readonly import refuse_writes
from tests.helpers.children import environment, program

LOOP = """
from widemargin._base.jit import jit

@jit
def total(values):
    found = 0.0
    for value in values:
        found += value
    return found
"""


def load(folder: Path):
    """Import the loop afresh, as a new process would."""
    path = folder / "loop.py"
    if not path.exists():
        path.write_text(LOOP)
    spec = importlib.util.spec_from_file_location("loop", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer(folder: Path) -> tuple[float, int]:
    """Return the loop's answer, and how often it came from the cache."""
    module = load(folder)
    return module.total((1.0, 2.0, 4.0)), sum(module.total.stats.cache_hits.values())


DAMAGE = {
    "empty": lambda whole: b"",
    "one byte": lambda whole: whole[:1],
    "half": lambda whole: whole[: len(whole) // 2],
    "last byte lost": lambda whole: whole[:-1],
    "other content": lambda whole: b"not a pickle\n" + whole,
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"], ids=["index", "code"])
def test_a_damaged_cache_costs_time_only(damage, suffix, tmp_path):
    assert answer(tmp_path) == (7.0, 0)
    assert answer(tmp_path) == (7.0, 1)  # the control: there is a cache, and it is used
    (file,) = Path(load(tmp_path).total.compile().stats.cache_path).glob(f"loop.total*{suffix}")
    file.write_bytes(DAMAGE[damage](file.read_bytes()))
    assert answer(tmp_path) == (7.0, 0)
    assert answer(tmp_path) == (7.0, 1)  # and it is whole again


def test_a_cache_that_lost_its_code_costs_time_only(tmp_path):
    assert answer(tmp_path) == (7.0, 0)
    (file,) = Path(load(tmp_path).total.compile().stats.cache_path).glob("loop.total*.nbc")
    file.unlink()
    assert answer(tmp_path) == (7.0, 0)
    assert answer(tmp_path) == (7.0, 1)


FIT = """
import numpy as np
import widemargin
X = np.arange(8.0).reshape(-1, 1)
model = widemargin.PerceptronClassifier().fit(X, [0] * 4 + [1] * 4)
print(widemargin.__file__, model.predict([[0.0], [7.0]]))
"""


def test_a_read_only_install_without_home_and_cache_works(tmp_path):
    """Writes are refused by the system itself: by permissions that bind this process too."""
    package = tmp_path / "site" / "widemargin"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(widemargin.__file__).parent, package, ignore=ignore)
    (tmp_path / "site" / "cache").mkdir()
    before = sorted((tmp_path / "site").rglob("*"))
    with refuse_writes(tmp_path / "site") as lock:
        variables = environment(
            PYTHONPATH=str(tmp_path / "site"),
            NUMBA_CACHE_DIR=str(tmp_path / "site" / "cache"),
            HOME=None,
            XDG_CACHE_HOME=None,
        )
        done = program(FIT, env=variables, prefix=lock.prefix, cwd=os.sep)
    assert done.stdout == f"{package / '__init__.py'} [0 1]\n", done.stderr
    assert done.stderr == ""
    assert sorted((tmp_path / "site").rglob("*")) == before
