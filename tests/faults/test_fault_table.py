"""The fault table of docs/reliability.rst and the tests name each other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reliability.rst"


def rows() -> list[list[str]]:
    """Return the cells of the table, without its head."""
    table = PAGE.read_text("utf-8").split(".. list-table::")[1]
    found = re.split(r"^   \* - ", table, flags=re.MULTILINE)[2:]
    return [re.split(r"^     - ", row, flags=re.MULTILINE) for row in found]


def named(text: str) -> set[str]:
    return set(re.findall(r"``(test_\w+)``", text))


def names_in(*paths: Path) -> set[str]:
    """Return the names of all test functions in these files."""
    trees = [ast.parse(path.read_text("utf-8")) for path in paths]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = [node.name for node in nodes if isinstance(node, ast.FunctionDef)]
    return {name for name in functions if name.startswith("test_")}


def test_every_line_has_its_fault_injection_behaviour_and_test():
    table = rows()
    assert len(table) > 20
    for row in table:
        assert len(row) == 4, row
        assert all(cell.strip() for cell in row), row
        assert named(row[3]), f"no test for {row[0].strip()!r}"


def test_every_named_test_exists():
    there = names_in(*TESTS.rglob("test_*.py"))
    assert named(PAGE.read_text("utf-8")) - there == set()


def test_tests_elsewhere_are_named_with_their_folder():
    where = {}
    for path in TESTS.rglob("test_*.py"):
        for name in names_in(path):
            where.setdefault(name, set()).add(path.parent)
    for row in rows():
        folders = {TESTS.parent / name for name in re.findall(r"``(tests/\w+(?:/\w+)*)``", row[3])}
        folders.add(Path(__file__).parent)
        for name in named(row[3]):
            assert where[name] & folders, f"{name} is in {where[name]}"


def test_every_test_of_faults_is_in_the_table():
    here = Path(__file__)
    paths = [path for path in here.parent.glob("test_*.py") if path != here]
    in_table = set().union(*(named(row[3]) for row in rows()))
    assert names_in(*paths) - in_table == set()
