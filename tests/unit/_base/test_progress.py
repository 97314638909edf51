"""Progress bars show that loops are compiled."""

from __future__ import annotations

import pytest

from widemargin._base import jit
from widemargin._base.progress import Bar, Watch


@pytest.mark.parametrize("kind", [Watch, Bar])
def test_a_bar_shows_that_loops_are_compiled(kind, monkeypatch) -> None:
    monkeypatch.setattr(jit, "observers", [])
    arguments = ("fit", 1e-3, 1, None) if kind is Watch else ("fit", 1, 3)
    with kind(*arguments) as shown:
        (tell,) = jit.observers
        tell("compiling (once)")
        (task,) = shown.bar.tasks
        assert task.fields["state"] == "compiling (once)"
        tell("")
        assert task.fields["state"] == ""
    assert jit.observers == []


@pytest.mark.parametrize("kind", [Watch, Bar])
def test_without_a_bar_nothing_is_shown(kind, monkeypatch) -> None:
    monkeypatch.setattr(jit, "observers", [])
    with kind("fit", 1e-3, 0, None) if kind is Watch else kind("fit", 0, 3):
        assert jit.observers == []
