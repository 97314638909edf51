"""Hot loops compile lazily, from any thread, also where no cache can be written."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import widemargin
from widemargin._base import jit
from widemargin._base.jit import _LazyFunction

LOOPS = '''
import numpy as np
from widemargin._base.jit import jit

@jit
def square(x):
    """Square a number."""
    return x * x

@jit
def sum_of_squares(values):
    total = 0.0
    for v in values:
        total += square(v)
    return total

@jit
def square_of_a_count(n):
    return n * n

@jit
def squares_of_counts(n):
    count, total = 0, square_of_a_count(0)
    while count < n:
        count += 1
        total += square_of_a_count(count)
    return total

@jit
def not_a_number(x):
    return x.no_such_attribute

@jit(fast=True)
def fast_sum(values):
    total = 0.0
    for v in values:
        total += v
    return total

if __name__ == "__main__":
    print(sum_of_squares(np.arange(4.0)))
'''


@pytest.fixture
def loops(tmp_path: Path):
    path = tmp_path / "loops.py"
    path.write_text(LOOPS)
    spec = importlib.util.spec_from_file_location("loops", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_decorated_function_is_itself_until_it_is_called(loops) -> None:
    assert loops.square.__name__ == "square"
    assert loops.square.__doc__ == "Square a number."
    assert loops.square.outer is None


def test_functions_call_each_other(loops) -> None:
    assert loops.sum_of_squares(np.arange(4.0)) == 14.0
    assert loops.sum_of_squares(np.arange(4)) == 14.0
    assert loops.fast_sum(np.arange(5.0)) == 10.0


def test_code_that_only_compiled_code_calls_is_not_compiled_on_its_own(loops) -> None:
    loops.sum_of_squares(np.arange(4.0))
    assert loops.square.outer is None
    (code,) = loops.square.inner.overloads.values()
    assert code.library.get_pointer_to_function(code.fndesc.llvm_func_name) == 0
    folder = Path(loops.sum_of_squares.compile().stats.cache_path)
    assert [path.name.split("-")[0] for path in folder.iterdir()] == ["loops.sum_of_squares"]
    assert loops.square(3.0) == 9.0  # Python may call it as well


def test_a_count_that_begins_at_zero_has_no_type_of_its_own(loops) -> None:
    assert loops.squares_of_counts(3) == 14
    assert len(loops.square_of_a_count.inner.signatures) == 1


@pytest.fixture
def unlinked(monkeypatch):
    """Let numba's internals be others than those that linking needs."""

    def missing() -> None:
        raise AttributeError("JITCodeLibrary")

    monkeypatch.setattr(_LazyFunction, "linking", True)  # restores it
    monkeypatch.setattr(jit, "_libraries", missing)


def test_other_internals_of_numba_cost_time_only(loops, unlinked) -> None:
    assert loops.sum_of_squares(np.arange(4.0)) == 14.0
    assert not _LazyFunction.linking
    assert loops.squares_of_counts(3) == 14


def test_an_error_in_a_function_does_not_end_linking(loops) -> None:
    with pytest.raises(Exception, match="no_such_attribute"):
        loops.not_a_number(3.0)
    assert _LazyFunction.linking
    assert loops.sum_of_squares(np.arange(4.0)) == 14.0


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_before_after_compilation(loops, enabled) -> None:
    was_enabled = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        loops.sum_of_squares(np.arange(4.0))
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_observers_hear_of_compilation_once(loops, monkeypatch) -> None:
    heard: list[str] = []
    monkeypatch.setattr(jit, "observers", [heard.append])
    loops.sum_of_squares(np.arange(4.0))
    assert heard == ["compiling (once)", ""]
    loops.sum_of_squares(np.arange(5.0))
    assert heard == ["compiling (once)", ""]


def test_a_name_imported_before_compilation_stays_valid(loops) -> None:
    before = loops.square
    assert loops.square(3.0) == 9.0
    assert before(4.0) == 16.0


CALLEE = """
from constants import FIRST
from widemargin._base.jit import jit

@jit
def step(x):
    return x + {0} + FIRST
"""
CALLER = """
from callee import step
from widemargin._base.jit import jit

@jit
def two_steps(x):
    return step(step(x))

print(two_steps(0.0))
"""


def test_a_function_of_another_module_may_be_called_and_changed(tmp_path: Path) -> None:
    """Compiled code holds that of its callees, and constants: no change of them may be missed."""
    (tmp_path / "caller.py").write_text(CALLER)
    for size, first in ((1.0, 0.0), (2.5, 0.0), (2.5, 0.5), (10.0, 0.5)):
        (tmp_path / "callee.py").write_text(CALLEE.format(size))
        (tmp_path / "constants.py").write_text(f"FIRST = {first}")
        printed = _run([str(tmp_path / "caller.py")], _environment(tmp_path))
        assert float(printed) == 2.0 * (size + first)


def test_eight_threads_may_make_the_first_call(loops) -> None:
    barrier, results = threading.Barrier(8), []

    def call() -> None:
        barrier.wait()
        results.append(loops.sum_of_squares(np.arange(4.0)))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [14.0] * 8


def _environment(home: Path) -> dict[str, str]:
    source = str(Path(widemargin.__file__).parents[1])
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "XDG_"))}
    return {
        **inherited,
        "PYTHONPATH": source,
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(home),
        "LOCALAPPDATA": str(home),
    }


def _run(arguments: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _forbid_cache(folder: Path) -> None:
    """Make a cache folder impossible, also for root: a file stands where it would be."""
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    (folder / "__pycache__").write_text("not a folder")


def test_the_cache_is_written_where_it_can_be(tmp_path: Path) -> None:
    """The control of the next test: the same script does leave a cache behind."""
    (tmp_path / "loops.py").write_text(LOOPS)
    assert _run([str(tmp_path / "loops.py")], _environment(tmp_path)) == "14.0\n"
    assert list(tmp_path.rglob("*.nbc"))


def test_compiles_in_memory_where_no_cache_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "loops.py").write_text(LOOPS)
    _forbid_cache(tmp_path)
    nowhere = tmp_path / "a_file"
    nowhere.write_text("no home here")
    environment = _environment(nowhere / "home")
    assert _run([str(tmp_path / "loops.py")], environment) == "14.0\n"
    assert not list(tmp_path.rglob("*.nbc"))


def test_the_library_works_from_a_read_only_install(tmp_path: Path) -> None:
    package = tmp_path / "site" / "widemargin"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(widemargin.__file__).parent, package, ignore=ignore)
    for folder in [package, *(p for p in package.rglob("*") if p.is_dir())]:
        _forbid_cache(folder)
    nowhere = tmp_path / "a_file"
    nowhere.write_text("no home here")
    environment = {**_environment(nowhere / "home"), "PYTHONPATH": str(tmp_path / "site")}
    program = (
        "import widemargin, numpy as np;"
        "model = widemargin.SVC().fit(np.arange(8.0).reshape(-1, 1), [0] * 4 + [1] * 4);"
        "print(widemargin.__file__, model.predict([[0.0], [7.0]]))"
    )
    assert _run(["-c", program], environment) == f"{package / '__init__.py'} [0 1]\n"
