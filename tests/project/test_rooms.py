"""The rules that the tree obeys: doors, problems stated once, no private attribute of another room.

Each test has a twin that shows the rule a wrong piece of code, so that none of them can only pass.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import widemargin
from widemargin.solvers.base import Result

ROOT = Path(widemargin.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
FOLDERS = sorted({path.parent for path in MODULES})
MOST_FILES = 15
MOST_LEVELS = 3

# Shared by all solver packages; every other folder of solvers/ is a package with a door.
SHARED_BY_SOLVERS = {"base", "numerics"}
DOORS = sorted(
    path.stem
    for path in (ROOT / "solvers").iterdir()
    if path.stem not in {"__init__", "__pycache__", "literature", *SHARED_BY_SOLVERS}
)
CONTRACT = ("tol", "budget", "start", "method")
# Not an optimiser: it answers a question about an optimum that another package found.
NOT_SOLVED = {"leave_one_out"}
# Names of problems, not of ways to solve them.
STATED_IN_PROBLEMS = {"primal", "dual", "certificate", "primal_objective", "dual_objective"}
# What a user may hand in, where its type is the question.
TYPES_OF_ARGUMENTS = {
    "solvers.preference": {"Rows"},  # a matrix, or samples seen through a kernel
    "problems.preference.bounds": {"Rows"},  # the same argument, for the certificate
    "sources.recognise": {"Dataset"},  # what was passed to fit
}


def dotted(path: Path) -> str:
    """Return the name of a module without that of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def tree_of(path: Path) -> ast.Module:
    """Return the parsed module."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_modules(tree: ast.Module) -> set[str]:
    """Return the modules of ours that a module imports from, as dotted names."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("widemargin"):
            base = node.module.removeprefix("widemargin").lstrip(".")
            for alias in node.names:
                full = f"{base}.{alias.name}".lstrip(".")
                is_module = (ROOT / Path(*full.split("."))).with_suffix(".py").exists()
                is_package = (ROOT / Path(*full.split(".")) / "__init__.py").exists()
                found.add(full if is_module or is_package else base)
        elif isinstance(node, ast.Import):
            found |= {a.name[11:] for a in node.names if a.name.startswith("widemargin.")}
    return found


# ------------------------------------------------------------------------------- the folders


def offenders(found: Callable[[Path], Any], paths: list[Path]) -> dict[str, Any]:
    """Return what a rule finds, by module; modules without findings are left out."""
    return {dotted(path): value for path in paths if (value := found(path))}


def test_a_folder_is_seen_at_one_glance() -> None:
    sizes = {str(folder.relative_to(ROOT)): len(list(folder.glob("*.py"))) for folder in FOLDERS}
    assert {folder: size for folder, size in sizes.items() if size > MOST_FILES} == {}


# --------------------------------------------------------------------------------- the doors


def intruders(name: str, tree: ast.Module) -> list[str]:
    """Return the inner modules of solver packages that a module elsewhere imports."""
    mine = name.split(".")[1:2] if name.startswith("solvers.") else []
    found = []
    for target in imported_modules(tree):
        parts = target.split(".")
        if parts[0] != "solvers" or parts[1:2] == mine:
            continue
        shared = len(parts) > 1 and parts[1] in SHARED_BY_SOLVERS
        literature = len(parts) > 1 and parts[1] == "literature"
        if len(parts) > (3 if shared or literature else 2):
            found.append(target)
    return found


def test_the_rule_of_doors_sees_an_intruder() -> None:
    code = ast.parse("from widemargin.solvers.soft_margin.smo import solve_dense")
    assert intruders("estimators.svm", code) == ["solvers.soft_margin.smo"]
    assert intruders("solvers.soft_margin.active_set", code) == []
    module = ast.parse("from widemargin.solvers.soft_margin import smo_loops")
    assert intruders("solvers.linear", module) == ["solvers.soft_margin.smo_loops"]


def test_solver_packages_are_entered_by_their_doors() -> None:
    assert offenders(lambda path: intruders(dotted(path), tree_of(path)), MODULES) == {}


@pytest.mark.parametrize("name", [name for name in DOORS if name not in NOT_SOLVED])
def test_every_solver_package_has_the_same_door(name: str) -> None:
    door = importlib.import_module(f"widemargin.solvers.{name}").solve
    parameters = inspect.signature(door).parameters
    kinds = [parameter.kind for parameter in parameters.values()]
    assert kinds[:2] == [inspect.Parameter.POSITIONAL_OR_KEYWORD] * 2
    assert list(parameters)[:2] == ["problem", "data"]
    keywords = [n for n, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    assert tuple(keywords[:4]) == CONTRACT
    assert all(parameters[n].default is not inspect.Parameter.empty for n in keywords[2:])


def result_classes() -> list[type]:
    """Return the classes of solvers/ that are called results."""
    found = []
    for path in (ROOT / "solvers").rglob("*.py"):
        module = importlib.import_module(f"widemargin.{dotted(path)}")
        for name, value in vars(module).items():
            own = inspect.isclass(value) and value.__module__ == module.__name__
            if own and name.endswith("Result"):
                found.append(value)
    return found


@pytest.mark.parametrize("kind", result_classes(), ids=lambda kind: kind.__name__)
def test_there_is_one_result(kind: type) -> None:
    assert issubclass(kind, Result)


# ------------------------------------------------------------------- what is stated only once


def restated(tree: ast.Module) -> list[str]:
    """Return the functions of a module whose names belong to problems."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [function.name for function in functions if function.name in STATED_IN_PROBLEMS]


def test_the_rule_of_statements_sees_a_second_one() -> None:
    assert restated(ast.parse("class A:\n    def primal(self): ...")) == ["primal"]


def test_solvers_state_no_problem() -> None:
    solvers = sorted((ROOT / "solvers").rglob("*.py"))
    assert solvers
    assert offenders(lambda path: restated(tree_of(path)), solvers) == {}


def rounding_levels(tree: ast.Module) -> list[str]:
    """Return the constants of a module that are called a rounding error."""
    targets = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
    return [t.id for t in targets if isinstance(t, ast.Name) and "ROUNDING" in t.id]


def test_the_rule_of_rounding_levels_sees_one() -> None:
    assert rounding_levels(ast.parse("KERNEL_ROUNDING = 1e-6")) == ["KERNEL_ROUNDING"]


def test_rounding_levels_stand_in_one_place() -> None:
    found = offenders(lambda path: rounding_levels(tree_of(path)), MODULES)
    assert set(found) == {"_base.tolerances"}, found


# --------------------------------------------------------------- what one room knows of another


def own_names(tree: ast.Module) -> set[str]:
    """Return the names that a module defines, also as attributes of its own classes."""
    found = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if stored and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            found.add(node.attr)
    return found


def is_private(name: object) -> bool:
    """Tell names with one underscore in front."""
    return isinstance(name, str) and name.startswith("_") and not name.startswith("__")


# Of other libraries, where there is no public way.
FOREIGN = {"_cache", "_source_stamp", "_getframe", "_replace"}


def borrowed_attributes(tree: ast.Module, of_room: set[str] = frozenset()) -> list[str]:
    """Return the private attributes of other rooms' objects that a module reads."""
    own, found = own_names(tree) | of_room | FOREIGN, []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            of_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            of_base = isinstance(node.value, ast.Call) and "super" in ast.unparse(node.value.func)
            if not (of_self or of_base):
                found.append(ast.unparse(node))
        asks = isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr")
        name = getattr(node.args[1], "value", None) if asks else None
        if is_private(name) and name not in own:
            found.append(ast.unparse(node))
    return found


def test_the_rule_of_privacy_sees_both_ways() -> None:
    code = ast.parse("est._kernel_\nhasattr(est, '_pair_values')\nself._x\nsuper()._y()")
    assert borrowed_attributes(code) == ["est._kernel_", "hasattr(est, '_pair_values')"]


@functools.cache
def names_of_room(room: str) -> set[str]:
    """Return the names that the modules of a room define."""
    modules = [path for path in MODULES if path.relative_to(ROOT).parts[0] == room]
    return set().union(*(own_names(tree_of(path)) for path in modules))


# A record belongs to fitted/, which hands it out; estimators store it under this name.
RECORD = {"fitted.record": {"_record_"}}


def test_no_private_attribute_of_another_room() -> None:
    def borrowed(path: Path) -> list[str]:
        allowed = names_of_room(path.relative_to(ROOT).parts[0]) | RECORD.get(dotted(path), set())
        return borrowed_attributes(tree_of(path), allowed)

    assert offenders(borrowed, MODULES) == {}


def type_tests(tree: ast.Module) -> set[str]:
    """Return the classes of ours, defined elsewhere, that a module tests for by isinstance."""
    ours = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("widemargin")
        for alias in node.names
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    asked = [n.args[1] for n in calls if isinstance(n.func, ast.Name) and n.func.id == "isinstance"]
    return {n.id for kinds in asked for n in ast.walk(kinds) if isinstance(n, ast.Name)} & ours


def test_the_rule_of_types_sees_a_ladder() -> None:
    code = ast.parse("from widemargin.fitted.record import Training\nisinstance(x, Training | int)")
    assert type_tests(code) == {"Training"}


def test_types_of_ours_are_not_asked_for() -> None:
    assert offenders(lambda path: type_tests(tree_of(path)), MODULES) == TYPES_OF_ARGUMENTS


# ----------------------------------------------------------------------------- the estimators


def own_levels(kind: type) -> int:
    """Return the length of the longest chain of classes of ours, from a class up."""
    bases = [own_levels(base) for base in kind.__bases__]
    return max(bases, default=0) + kind.__module__.startswith("widemargin")


def estimator_classes() -> list[type]:
    """Return the public estimators."""
    public = [getattr(widemargin, name) for name in widemargin.__all__]
    return [value for value in public if inspect.isclass(value) and hasattr(value, "fit")]


@pytest.mark.parametrize("kind", estimator_classes(), ids=lambda kind: kind.__name__)
def test_inheritance_is_shallow(kind: type) -> None:
    assert own_levels(kind) <= MOST_LEVELS


# -------------------------------------------------------------------------- public module names


@pytest.mark.parametrize("name", ["loo", "bounds", "margins", "metrics", "plot"])
def test_public_modules_are_imported_by_their_names(name: str) -> None:
    module = importlib.import_module(f"widemargin.{name}")
    assert module is getattr(widemargin, name)
    assert module.__all__
    for public in module.__all__:
        assert getattr(module, public).__doc__


# ------------------------------------------------------------------------------------ the tests

UNIT = Path(__file__).parents[1] / "unit"


@pytest.mark.parametrize(
    "path", sorted(UNIT.rglob("test_*.py")), ids=lambda p: p.relative_to(UNIT).as_posix()
)
def test_unit_tests_mirror_the_rooms(path: Path) -> None:
    assert (ROOT / path.parent.relative_to(UNIT)).is_dir()
