"""The rules of the house: imports go one way, importing is light, public names are explained."""

from __future__ import annotations

import ast
import doctest
import inspect
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import widemargin

ROOT = Path(widemargin.__file__).parent

# The reading order of the rooms. A module imports only from what stands above it.
ROOMS = [
    "_base",
    "kernels",
    "certificate",
    "sources",
    "problems",
    "solvers",
    "fitted",
    "estimators",
    "assess",
    "tuning",
    "reporting",
    "loo",
    "bounds",
    "margins",
    "metrics",
    "plot",
    "play",
    "__init__",
    "cli",
    "__main__",
]
HEAVY = {"numba", "dask", "matplotlib", "jinja2", "pandas", "rich", "typer"}
MODULES = sorted(ROOT.rglob("*.py"))
MOST_LINES = 400
MOST_CODE_LINES = 60
# One loop each that numba compiles whole, and a command whose options are its signature.
LONG_FUNCTIONS = {
    "solvers.leave_one_out.loops": {"follow_path"},
    "solvers.soft_margin.smo_loops": {"take_steps"},
    "solvers.linear.coordinate_loops": {"descend"},
    "cli": {"fit"},
}


def _dotted(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def _room(dotted: str) -> str:
    return dotted.split(".")[0]


class _Imports(ast.NodeVisitor):
    """Collect what a module imports from widemargin, function bodies included."""

    def __init__(self, package: list[str]) -> None:
        self.package, self.found = package, set()

    def visit_If(self, node: ast.If) -> None:
        # Imports for type checkers only do not run.
        if "TYPE_CHECKING" not in ast.dump(node.test):
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name.split("."))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module.split(".") if node.module else []
        if node.level:
            above = ["widemargin", *self.package]
            base = above[: len(above) - node.level + 1] + base
        for alias in node.names:
            self._add([*base, alias.name])

    def _add(self, parts: list[str]) -> None:
        if parts[0] != "widemargin":
            return
        parts = parts[1:]
        while parts and not _is_module(parts):
            parts = parts[:-1]
        self.found.add(".".join(parts) or "__init__")


def _is_module(parts: list[str]) -> bool:
    path = ROOT.joinpath(*parts)
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def _imports(path: Path) -> set[str]:
    package = list(path.relative_to(ROOT).parts[:-1])
    collector = _Imports(package)
    collector.visit(ast.parse(path.read_text(encoding="utf-8")))
    return collector.found


def test_the_rules_see_a_wrong_import() -> None:
    """The collector finds absolute, relative and local imports."""
    collector = _Imports(["solvers"])
    collector.visit(
        ast.parse(
            "import widemargin.kernels\n"
            "def f():\n    from ..problems import soft_margin\n"
            "from widemargin import certificate\n"
        )
    )
    assert collector.found == {"kernels", "problems.soft_margin", "certificate"}


def test_imports_come_from_the_rooms_above() -> None:
    found = []
    for path in MODULES:
        here = _room(_dotted(path))
        assert here in ROOMS, f"{here} has no place in the order of the rooms"
        for target in _imports(path) - {_dotted(path)}:
            there = _room(target)
            same_folder = here == there and (ROOT / here).is_dir()
            if not same_folder and ROOMS.index(there) >= ROOMS.index(here):
                found.append(f"{_dotted(path)} imports {target}")
    assert found == []


def test_no_circles_inside_a_room() -> None:
    graph = {_dotted(p): _imports(p) for p in MODULES if p.name != "__init__.py"}
    done: set[str] = set()

    def walk(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join((*trail, module))
        if module in done:
            return
        for target in graph.get(module, ()):
            if _room(target) == _room(module) and target in graph:
                walk(target, (*trail, module))
        done.add(module)

    for module in graph:
        walk(module, ())


def _borrowed_private_names(path: Path) -> list[str]:
    """Return the names with an underscore that a module takes from another one of ours."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules, found = {}, []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("widemargin")):
            continue
        above = node.module.split(".")[1:]
        for alias in node.names:
            if _is_module([*above, alias.name]):
                modules[alias.asname or alias.name] = alias.name
            elif alias.name.startswith("_") and not alias.name.startswith("__"):
                found.append(alias.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            private = node.attr.startswith("_") and not node.attr.startswith("__")
            if private and node.value.id in modules:
                found.append(f"{node.value.id}.{node.attr}")
    return found


def test_the_rules_see_a_borrowed_private_name(tmp_path: Path) -> None:
    """Both ways to borrow one are found; modules with an underscore may be used."""
    path = tmp_path / "module.py"
    path.write_text(
        "from widemargin.kernels import _spans, Kernel\n"
        "from widemargin.solvers.soft_margin import smo_loops as loops\n"
        "loops._gather, loops.sweep, Kernel\n"
    )
    assert _borrowed_private_names(path) == ["_spans", "loops._gather"]


def test_private_names_stay_in_their_module() -> None:
    found = {_dotted(path): _borrowed_private_names(path) for path in MODULES}
    assert {module: names for module, names in found.items() if names} == {}


def test_a_file_is_read_in_one_sitting() -> None:
    lines = {_dotted(path): len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert {module: count for module, count in lines.items() if count > MOST_LINES} == {}


def _code_lines(function: ast.FunctionDef) -> int:
    """Return the lines of a function, from `def` to its end, without its docstring."""
    lines = function.end_lineno - function.lineno + 1
    first = function.body[0]
    documented = ast.get_docstring(function, clean=False) is not None
    return lines - (first.end_lineno - first.lineno + 1 if documented else 0)


def test_a_function_is_seen_at_one_glance() -> None:
    long: dict[str, set[str]] = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and _code_lines(node) > MOST_CODE_LINES:
                long.setdefault(_dotted(path), set()).add(node.name)
    assert long == LONG_FUNCTIONS


def _modules_after(program: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT.parent)},
    )
    return {name.split(".")[0] for name in done.stdout.split()}


def test_importing_widemargin_is_light() -> None:
    """Nothing heavy beyond what scikit-learn itself brings (it may bring pandas)."""
    loaded = _modules_after("import widemargin") - _modules_after("import sklearn.base")
    assert "widemargin" in loaded
    assert not loaded & HEAVY


def test_naming_every_estimator_is_light() -> None:
    """Looking names up may import the estimators, but compiles and draws nothing."""
    program = "from widemargin import *; from widemargin import SVC; SVC()"
    loaded = _modules_after(program) - _modules_after("import sklearn.base")
    assert not loaded & HEAVY


def _public() -> dict[str, object]:
    found: dict[str, object] = {}
    for name in widemargin.__all__:
        value = getattr(widemargin, name)
        if not isinstance(value, ModuleType):
            found[name] = value
            continue
        members = getattr(value, "__all__", [m for m in vars(value) if not m.startswith("_")])
        for member in members:
            item = getattr(value, member)
            if callable(item):
                found[f"{name}.{member}"] = item
    return found


PUBLIC = _public()


def test_the_public_names_of_the_foundation() -> None:
    promised = {"SVC", "NuSVC", "SVR", "NuSVR", "LinearSVC", "Certificate", "kernels"}
    assert promised <= set(widemargin.__all__)
    assert promised <= set(dir(widemargin))
    with pytest.raises(AttributeError):
        _ = widemargin.no_such_name


@pytest.mark.parametrize("name", [n for n, v in PUBLIC.items() if callable(v)])
def test_public_names_are_documented_with_an_example(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert len(text.splitlines()) > 3
    examples = doctest.DocTestParser().get_examples(text)
    assert examples, f"{name} shows no example"


@pytest.mark.parametrize("name", [n for n, v in PUBLIC.items() if inspect.isclass(v)])
def test_constructor_parameters_are_documented(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name]) or ""
    for parameter in inspect.signature(PUBLIC[name]).parameters:
        assert parameter in text, f"{name} does not mention {parameter}"


def test_warnings_name_the_line_of_the_user() -> None:
    """Only `messages.warn` knows how many calls lie between; also through a pipeline."""
    for path in MODULES:
        if path.name != "messages.py":
            assert "warnings.warn(" not in path.read_text(encoding="utf-8"), path
    model = make_pipeline(StandardScaler(), widemargin.SVC(kernel="rbf", degree=7))
    with pytest.warns(UserWarning, match="degree=7 has no effect") as caught:
        model.fit(np.arange(8.0)[:, None], np.arange(8) % 2)
    assert caught[0].filename == __file__
