"""What the documents show is what the code does."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest
from sklearn.base import is_classifier

ROOT = Path(__file__).parents[2]


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def without_numbers(text):
    return re.sub(r"\d[\d.e+-]*", "#", text)


def test_readme_example_prints_what_it_shows(capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    exec(blocks(text, "python")[0], {})
    printed = capsys.readouterr().out
    # The last digits depend on the machine; the words, and that it converged, do not.
    assert without_numbers(printed) == without_numbers(blocks(text, "text")[0])


def test_readme_has_the_two_commands_that_ci_runs():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    marked = re.findall(r"<!-- ci: (\w+) -->\n```bash\n(.*)\n```", text)
    assert marked == [
        ("demo", "pip install '.[report]' && widemargin report --demo"),
        ("tests", "pip install '.[test]' && pytest -n auto"),
    ]


def test_certificate_page_recomputes_the_certificate():
    text = (ROOT / "docs" / "certificate.rst").read_text(encoding="utf-8")
    pieces = re.findall(r"\.\. code-block:: python\n\n((?:   .*\n|\n)+)", text)
    code = "\n".join(re.sub(r"^   ", "", piece, flags=re.MULTILINE) for piece in pieces)
    names: dict = {}
    exec(code, names)
    certificate = names["model"].certificate_
    assert names["primal"] == pytest.approx(certificate.primal, rel=1e-10)
    assert names["dual"] == pytest.approx(certificate.dual, rel=1e-10)


@pytest.mark.parametrize(
    ("page", "least"),
    [
        ("index", 2),
        ("leave_one_out", 18),
        ("adaptive_margins", 16),
        ("ordinal", 24),
        ("gaussian_processes", 16),
        ("gp_regression", 10),
        ("margins_and_bounds", 20),
        ("which_machine", 8),
        ("coming_from_sklearn", 20),
        ("report", 2),
    ],
)
def test_page_prints_what_it_shows(page, least, capsys):
    text = (ROOT / "docs" / f"{page}.rst").read_text(encoding="utf-8")
    pieces = re.findall(r"\.\. code-block:: (\w+)\n\n((?:   .*\n|\n)+)", text)
    shown = [
        (kind, re.sub(r"^   ", "", piece, flags=re.MULTILINE))
        for kind, piece in pieces
        if kind != "bash"
    ]
    assert [kind for kind, _ in shown] == ["python", "text"] * (len(shown) // 2)
    assert len(shown) >= least
    names: dict = {}
    for (_, code), (_, output) in zip(shown[::2], shown[1::2], strict=True):
        exec(code, names)
        printed = capsys.readouterr().out
        # Digits depend on the machine, times even on the moment; the words do not.
        assert without_numbers(printed).split() == without_numbers(output).split()


def test_every_picture_and_page_that_is_named_is_there():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in re.findall(r"\]\((?!http|#)([^)#]+)\)", readme):
        assert (ROOT / name).exists(), name
    for page in sorted((ROOT / "docs").glob("*.rst")):
        for name in re.findall(r"\.\. image:: (\S+)", page.read_text(encoding="utf-8")):
            assert (ROOT / "docs" / name).exists(), f"{name} of {page.name}"


def test_every_path_of_the_tree_that_is_named_is_there():
    places = (ROOT, ROOT / "src", ROOT / "src" / "widemargin")
    named = {}
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.rst")]:
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"`((?:\w+/)+(?:\w+(?:\.py)?)?)`", text):
            named.setdefault(name, page.name)
    assert len(named) > 30
    for name, page in named.items():
        assert any((place / name).exists() for place in places), f"{name} of {page}"


def _resolve(dotted):
    """Return what a dotted name, relative to the package, stands for."""
    found = importlib.import_module("widemargin")
    for part in dotted.split("."):
        if inspect.ismodule(found) and not hasattr(found, part):
            importlib.import_module(f"{found.__name__}.{part}")
        found = getattr(found, part)
    return found


def test_the_glossary_names_what_there_is():
    text = (ROOT / "GLOSSARY.md").read_text(encoding="utf-8")
    package = ROOT / "src" / "widemargin"
    rooms = {path.stem for path in package.iterdir() if not path.name.startswith("__")}
    start, end = text.index("## Rooms"), text.index("## Data")
    first = re.findall(r"^\| (`.*?) \|", text[start:end], flags=re.MULTILINE)
    assert {name for cell in first for name in re.findall(r"`(\w+)`", cell)} == rooms - {"py"}
    names = {name for name in re.findall(r"`(\w+\.[\w.]+)`", text) if name.split(".")[0] in rooms}
    assert len(names) > 40
    for name in names:
        assert _resolve(name) is not None


def test_every_example_is_in_the_list_of_the_literature():
    listed = (ROOT / "docs" / "literature.rst").read_text(encoding="utf-8")
    named = set(re.findall(r"auto_examples_(plot_\w+)\.py", listed))
    assert named == {path.stem for path in (ROOT / "examples").glob("plot_*.py")}


def test_the_reference_has_every_public_name():
    import widemargin
    from widemargin import sources

    text = (ROOT / "docs" / "api.rst").read_text(encoding="utf-8")
    listed, module = set(), ""
    for line in text.splitlines():
        if match := re.match(r"\.\. (?:current)?module:: widemargin\.?(\w*)", line):
            module = match[1]
        elif match := re.match(r"   ([\w.]+)$", line):
            listed.add(f"{module}.{match[1]}".strip("."))
    public = {f"sources.{name}" for name in sources.__all__}
    for name in widemargin.__all__:
        value = getattr(widemargin, name)
        members = getattr(value, "__all__", None) if inspect.ismodule(value) else [""]
        assert members is not None, f"{name} has no __all__"
        public |= {f"{name}.{member}".strip(".") for member in members}
    assert len(public) > 75
    assert public <= listed, sorted(public - listed)
    results = listed - public
    assert results == {
        "tuning.gradient.Tuning",
        "tuning.paths.RegularisationPath",
        "assess.suspects.Suspects",
        "assess.suspects.Suspect",
    }


def test_every_page_is_in_the_table_of_contents():
    folder = ROOT / "docs"
    index = (folder / "index.rst").read_text(encoding="utf-8")
    listed = re.findall(r"^   (\w+)$", index, flags=re.MULTILINE)
    made_by_the_gallery = "sg_execution_times"
    pages = {path.stem for path in folder.glob("*.rst")} - {"index", made_by_the_gallery}
    assert sorted(listed) == sorted(pages)
    known = re.search(r"PAGES = \((.*?)\)", (folder / "conf.py").read_text("utf-8"), re.DOTALL)[1]
    assert set(re.findall(r'"(\w+)"', known)) == {"index", *pages} - {"api"}


def test_the_machines_without_probabilities_are_those_that_the_page_names():
    import widemargin

    text = (ROOT / "docs" / "which_machine.rst").read_text(encoding="utf-8")
    named = re.search(r"All classifiers but ([^`]*) have ``predict_proba``", text)[1]
    classes = {name: getattr(widemargin, name) for name in widemargin.__all__}
    classifiers = {
        name
        for name, value in classes.items()
        if hasattr(value, "fit") and name != "LOOSearch" and is_classifier(value())
    }
    without = {name for name in classifiers if not hasattr(classes[name], "predict_proba")}
    assert set(re.findall(r"[A-Z]\w+", named)) == without


def test_readme_names_every_estimator():
    import widemargin

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme[readme.index("## Estimators") : readme.index("## Data of any size")]
    machines = [name for name in widemargin.__all__ if hasattr(getattr(widemargin, name), "fit")]
    assert len(machines) >= 18
    for name in machines:
        assert f"`{name}" in table, name
