"""Where numba is asked to check bounds, compiled code is compiled with the check.

`.ci/run` runs tests/fuzz once more with NUMBA_BOUNDSCHECK=1: an index beyond an array, which would
read what is not there, is then an IndexError, and a failure of the fuzz test. That is worth
something only if the variable acts on functions compiled through `widemargin._base.jit`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.fuzz

READS_BEYOND = """
import numpy as np
from widemargin._base.jit import jit

@jit
def beyond(x):
    return x[len(x) + 5]

@jit(fast=True)
def beyond_in_haste(x):
    return x[len(x) + 5]

for function in (beyond, beyond_in_haste):
    try:
        function(np.zeros(3))
        print("read")
    except IndexError:
        print("refused")
"""


@pytest.mark.parametrize(("asked", "says"), [("1", "refused"), ("0", "read")])
def test_the_variable_acts_on_our_compiled_functions(asked: str, says: str, tmp_path: Path) -> None:
    script = tmp_path / "reads_beyond.py"
    script.write_text(READS_BEYOND)
    variables = {"NUMBA_BOUNDSCHECK": asked, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    source = str(Path(__file__).parents[2] / "src")
    found = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, **variables, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == [says, says]
