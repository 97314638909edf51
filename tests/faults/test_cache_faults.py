"""The cache of compiled code: damaged, out of reach, beside an install that is read-only."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
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
    return module.total((1.0, 2.0, 4.0)), sum(module.total.compile().stats.cache_hits.values())


def cached(folder: Path) -> list[Path]:
    """Return the files that hold the loop's compiled code, one per type of argument."""
    return sorted(Path(load(folder).total.compile().stats.cache_path).glob("loop.total*"))


DAMAGE = {
    "empty": lambda whole: b"",
    "one byte": lambda whole: whole[:1],
    "half": lambda whole: whole[: len(whole) // 2],
    "last byte lost": lambda whole: whole[:-1],
    "other content": lambda whole: b"not a pickle\n" + whole,
    "a flipped bit": lambda whole: whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_cache_costs_time_only(damage, tmp_path):
    assert answer(tmp_path) == (7.0, 0)
    assert answer(tmp_path) == (7.0, 1)  # the control: there is a cache, and it is used
    (file,) = cached(tmp_path)
    file.write_bytes(DAMAGE[damage](file.read_bytes()))
    assert answer(tmp_path) == (7.0, 0)
    assert answer(tmp_path) == (7.0, 1)  # and it is whole again


def test_a_cache_that_lost_its_code_costs_time_only(tmp_path):
    assert answer(tmp_path) == (7.0, 0)
    (file,) = cached(tmp_path)
    file.unlink()
    assert answer(tmp_path) == (7.0, 0)
    assert answer(tmp_path) == (7.0, 1)


def test_code_for_other_types_is_not_run(tmp_path):
    """As if two processes had chosen the same file at the same time."""
    assert answer(tmp_path) == (7.0, 0)
    (floats,) = cached(tmp_path)
    assert load(tmp_path).total((1, 2, 4)) == 7.0
    (integers,) = set(cached(tmp_path)) - {floats}
    floats.write_bytes(integers.read_bytes())
    assert answer(tmp_path) == (7.0, 0)
    assert answer(tmp_path) == (7.0, 1)


def test_a_reinstallation_keeps_the_cache(tmp_path):
    """The same source with other times, and another one."""
    assert answer(tmp_path) == (7.0, 0)
    source = tmp_path / "loop.py"
    source.unlink()
    source.write_text(LOOP)
    os.utime(source, (1e9, 1e9))
    assert answer(tmp_path) == (7.0, 1)
    source.write_text(LOOP.replace("found = 0.0", "found = 1.0"))
    assert answer(tmp_path) == (8.0, 0)


def test_processes_that_compile_at_once_share_a_cache(tmp_path):
    (tmp_path / "loop.py").write_text(LOOP)
    shared = environment(
        PYTHONPATH=os.pathsep.join([str(Path(widemargin.__file__).parents[1]), str(tmp_path)]),
        NUMBA_CACHE_DIR=str(tmp_path / "cache"),
    )
    codes = [f"import loop; print(loop.total({values}))" for values in ("(1., 2.)", "(1, 2)") * 2]
    running = [
        subprocess.Popen([sys.executable, "-c", code], env=shared, stdout=subprocess.PIPE)
        for code in codes
    ]
    assert [float(one.communicate()[0]) for one in running] == [3.0] * 4
    assert len(list((tmp_path / "cache").rglob("*"))) == 3  # a folder, two files
    for code in codes:
        assert program(code, env=shared).stdout == "3.0\n"
    assert len(list((tmp_path / "cache").rglob("*"))) == 3


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
