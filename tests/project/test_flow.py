"""The picture of one fit in the documentation is what one fit does."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path

import pytest
from sklearn.datasets import make_moons

import widemargin
from widemargin import SVC, loo, suspects
from widemargin.solvers.soft_margin import smo_loops

ROOT = Path(__file__).parents[2]
PACKAGE = Path(widemargin.__file__).parent
PAGE = (ROOT / "docs" / "how_it_is_built.rst").read_text(encoding="utf-8")


def _make_flow():
    spec = importlib.util.spec_from_file_location("make_flow", ROOT / "docs" / "make_flow.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FLOW = _make_flow()
STATIONS = [name for name, _ in FLOW.STATIONS]
LATER = [name for name, _ in FLOW.LATER]


def resolve(name):
    """Return the module that holds a name, and the name in it."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        path = PACKAGE.joinpath(*parts[:cut])
        if path.with_suffix(".py").exists() or (path / "__init__.py").exists():
            module = importlib.import_module(".".join(["widemargin", *parts[:cut]]))
            return module, parts[cut:]
    raise AssertionError(f"{name}: no such module")


def calls_during(action, monkeypatch):
    """Return the functions of widemargin that are called, in order; compiled sweeps too."""
    called = []
    compiled = smo_loops.take_steps

    def take_steps(*arguments):
        called.append(FLOW.COMPILED)
        return compiled(*arguments)

    def note(frame, event, _):
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("widemargin."):
            called.append(f"{module.removeprefix('widemargin.')}.{frame.f_code.co_qualname}")

    with monkeypatch.context() as patch:
        patch.setattr(
            smo_loops, "take_steps", take_steps
        )  # a compiled function has no frame to be seen
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            action()
        finally:
            sys.setprofile(before)
    return called


@pytest.fixture(scope="module")
def data():
    X, y = make_moons(200, noise=0.2, random_state=0)
    SVC(C=10.0).fit(X, y)  # compiled from here on: compiling calls other things
    return X, y


@pytest.mark.parametrize("name", STATIONS + LATER)
def test_the_stations_exist(name):
    module, rest = resolve(name)
    found = module
    for part in rest:
        found = getattr(found, part)
    assert callable(found)


def test_a_fit_calls_the_stations_in_their_order(data, monkeypatch):
    called = iter(calls_during(lambda: SVC(C=10.0).fit(*data), monkeypatch))
    for name in STATIONS:
        assert name in called, f"{name} is not called after the stations before it"


def test_the_part_that_repeats_does(data, monkeypatch):
    slow = SVC(C=1e6, tol=1e-6)  # a usual fit of so few samples is a single compiled call
    called = calls_during(lambda: slow.fit(*data), monkeypatch)
    assert called.count(FLOW.REPEATED[1]) > 1


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("assess.leave_one_out.result", loo.result),
        ("fitted.calibration.fit_calibration", lambda model: model.predict_proba([[0.0, 0.0]])),
        ("assess.suspects.suspects", suspects),
    ],
)
def test_later_questions_are_answered_from_the_record(name, ask, data, monkeypatch):
    model = SVC(C=10.0).fit(*data)
    called = calls_during(lambda: ask(model), monkeypatch)
    assert name in LATER
    assert name in called
    assert "fitted.record.Record.cached" in called
    again = calls_during(lambda: ask(model), monkeypatch)
    assert not any(call.startswith("solvers.") for call in again)  # remembered


def test_the_pictures_are_those_of_the_script():
    for name, colours in (("flow.svg", FLOW.LIGHT), ("flow_dark.svg", FLOW.DARK)):
        committed = (ROOT / "docs" / "images" / name).read_text(encoding="utf-8")
        assert committed == FLOW.picture(colours), f"{name}: run python docs/make_flow.py"
        assert f"images/{name}" in PAGE
    for name, words in FLOW.STATIONS + FLOW.LATER:  # what the width of the picture has room for
        assert len(name.removeprefix(f"{FLOW.room_of(name)}.")) <= 44, name
        assert len(words) <= 50, words


def test_the_files_and_rooms_that_the_page_names_exist():
    for name in re.findall(r"``((?:\w+/)+\w*(?:\.py)?)``", PAGE):
        assert (PACKAGE / name).exists() or (ROOT / name).exists(), name
    table = PAGE[PAGE.index("   * - estimator\n") : PAGE.index("The solver contract\n")]
    rows = re.findall(r"\* - (.*)\n     - (.*)\n     - (.*)\n", table)[1:]
    estimators = {name for row in rows for name in re.findall(r"\w+", row[0].replace("`", " "))}
    machines = {
        name for name in widemargin.__all__ if hasattr(getattr(widemargin, name), "predict")
    }
    assert estimators == machines - {"LOOSearch"}
    named = {name for row in rows for name in re.findall(r"``(\w+)``", row[2])}
    packages = {path.stem for path in (PACKAGE / "solvers").iterdir() if path.stem[0] != "_"}
    assert packages - named == {"base", "numerics", "leave_one_out"}
    for _, problems, solvers in rows:
        for room, names in (("problems", problems), ("solvers", solvers)):
            for name in re.findall(r"``(\w+)``", names):
                path = PACKAGE / room / name
                assert path.with_suffix(".py").exists() or path.is_dir(), f"{room}/{name}"
