"""Processes of our own: programs that are limited, signalled and killed while others watch."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import widemargin

SOURCE = str(Path(widemargin.__file__).parents[1])
PATIENCE = 120.0  # seconds; a bound, not a measurement
# What a shell or a container may have set, and what would change how output or names behave.
UNWANTED = ("PYTHONUNBUFFERED", "PYTHONUTF8", "PYTHONIOENCODING", "LC_ALL", "LANG", "LC_CTYPE")


def environment(**changes: str | None) -> dict[str, str]:
    """Return the variables of a child: ours with changes; None takes one away."""
    found = {key: value for key, value in os.environ.items() if key not in UNWANTED}
    found |= {"PYTHONPATH": SOURCE, "PYTHONWARNINGS": "ignore"}
    for key, value in changes.items():
        found.pop(key, None)
        if value is not None:
            found[key] = value
    return found


def limited(**limits: int) -> Callable[[], None]:
    """Return what sets limits in a child, such as FSIZE or AS in bytes, before it starts."""

    def set_limits() -> None:
        for name, value in limits.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))

    return set_limits


def started(words: list[str], **options: Any) -> subprocess.Popen[str]:
    """Start Python with these words, behind those of `prefix`; its output is text."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment()}
    line = [*options.pop("prefix", ()), sys.executable, *words]
    return subprocess.Popen(line, text=True, **(streams | options))


def ended(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python with these words to its end; return code, output and errors."""
    process = started(words, **options)
    out, err = process.communicate(timeout=PATIENCE)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def program(text: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program given as text to its end."""
    return ended(["-c", text, *map(str, arguments)], **options)


def command(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``widemargin`` to its end."""
    return ended(["-m", "widemargin", *map(str, arguments)], **options)


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Check that a command ended with one line on stderr that has these words in it."""
    assert done.returncode == 1, done
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in lines[0]
