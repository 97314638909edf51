"""Nothing in the package runs what it reads: not from checkpoints, not into reports, nowhere.

Model files have tests of their own (test_model_guard), and so has the playground (test_play).
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import pickle
import re
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import widemargin
from widemargin import sources
from widemargin.cli import app
from widemargin.sources.checkpoint import TITLE

SOURCE = Path(widemargin.__file__).parent
CANARY = "canary"

# ---------------------------------------------------------------- the source

MODULES_THAT_RUN = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "subprocess"}
# The cache of compiled code is machine code in pickles, as numba's own: SECURITY.md names it.
READS_MACHINE_CODE = SOURCE / "_base" / "jit" / "__init__.py"
CALLS_THAT_RUN = {"eval", "exec", "compile", "__import__"}
METHODS_THAT_RUN = {"os": {"system", "popen"}, "yaml": {"load"}, "joblib": {"load"}}


def dangers(text):
    """Return what in a module could run what it reads: (line, what)."""
    found = []
    for node in ast.walk(ast.parse(text)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import):
            found += [(line, a.name) for a in node.names if a.name in MODULES_THAT_RUN]
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES_THAT_RUN:
            found.append((line, node.module))
        elif isinstance(node, ast.Call):
            found += [(line, what) for what in dangers_of_call(node)]
    return found


def dangers_of_call(call):
    if isinstance(call.func, ast.Name) and call.func.id in CALLS_THAT_RUN:
        yield call.func.id
    named = isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)
    if named and call.func.attr in METHODS_THAT_RUN.get(call.func.value.id, ()):
        yield f"{call.func.value.id}.{call.func.attr}"
    for keyword in call.keywords:
        told_no = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
        if keyword.arg in ("allow_pickle", "shell") and not told_no:
            yield keyword.arg


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads",
        "def f(x):\n    import subprocess",
        "eval(x)",
        "exec(x)",
        "np.load(x, allow_pickle=True)",
        "np.load(x, allow_pickle=asked)",
        "run(x, shell=True)",
        "yaml.load(x)",
        "os.system(x)",
        "joblib.load(x)",
    ],
)
def test_the_search_finds_what_it_looks_for(text):
    assert dangers(text)


@pytest.mark.parametrize(
    "text", ["np.load(x, allow_pickle=False)", "os.replace(a, b)", "evaluate()"]
)
def test_the_search_finds_nothing_else(text):
    assert not dangers(text)


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.stem)
def test_no_module_runs_what_it_reads(path):
    found = [what for _, what in dangers(path.read_text(encoding="utf-8"))]
    assert found == (["pickle"] if path == READS_MACHINE_CODE else [])


def test_numpy_loads_no_pickles_by_default():
    """The files of arrays are opened without the word, so its meaning when it is absent counts."""
    stream = io.BytesIO()
    np.save(stream, np.array([Armed()], dtype=object), allow_pickle=True)
    stream.seek(0)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        np.load(stream)


# ---------------------------------------------------------------- checkpoints and arrays


class Armed:
    """What makes the canary when it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path(CANARY),)


@pytest.fixture
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write_checkpoint(content):
    """Write a checkpoint as an attacker can: the checksum is right, it is no secret."""
    title = TITLE + hashlib.sha256(content).hexdigest().encode() + b"\n"
    Path("state").write_bytes(title + content)


def archive(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def tree(state):
    return np.array(json.dumps({"belongs_to": {"data": ""}, "state": state}))


@pytest.mark.usefixtures("in_empty_folder")
class TestCheckpoints:
    def test_the_forgery_is_one(self):
        write_checkpoint(archive(text=tree({"w": {"__array__": 0}}), array0=np.ones(2)))
        np.testing.assert_array_equal(sources.Checkpoint("state").load()["w"], [1.0, 1.0])

    @pytest.mark.parametrize("where", ["array0", "text"])
    def test_a_pickled_object_is_refused(self, where):
        armed = np.array([Armed()], dtype=object)
        parts = {"text": tree({"w": {"__array__": 0}}), "array0": np.ones(2), where: armed}
        write_checkpoint(archive(**parts))
        with pytest.raises(ValueError, match=r"state is damaged .*allow_pickle=False"):
            sources.Checkpoint("state").load()
        assert not Path(CANARY).exists()
        np.load(io.BytesIO(archive(**parts)), allow_pickle=True)[where]
        assert Path(CANARY).exists()

    @pytest.mark.parametrize(
        "content",
        [
            pickle.dumps(Armed()),
            b"",
            b"PK\x03\x04",
            archive(array0=np.ones(2)),
            archive(text=np.array("[" * 100_000)),
            archive(text=np.array("[]")),
            archive(text=tree({"w": {"__array__": 7}})),
            archive(text=tree({"w": {"__array__": "../../x"}})),
        ],
    )
    def test_whatever_it_holds_it_is_one_error(self, content):
        write_checkpoint(content)
        with pytest.raises(ValueError, match=r"checkpoint state is damaged or not a checkpoint"):
            sources.Checkpoint("state").load()
        assert not Path(CANARY).exists()

    def test_no_member_is_written_anywhere(self):
        stream = io.BytesIO(archive(text=tree({"round": 3})))
        with zipfile.ZipFile(stream, "a") as members:
            members.writestr("../canary", "x")
        write_checkpoint(stream.getvalue())
        assert sources.Checkpoint("state").load() == {"round": 3}
        assert [path.name for path in Path().iterdir()] == ["state"]
        assert not Path("../canary").exists()

    def test_a_file_of_objects_is_refused_as_data(self):
        np.save("X.npy", np.array([[Armed()], [Armed()]], dtype=object), allow_pickle=True)
        np.save("y.npy", np.array([0, 1]))
        with pytest.raises(ValueError, match=r"X\.npy"):
            sources.from_files("X.npy", target="y.npy").describe()
        assert not Path(CANARY).exists()


# ---------------------------------------------------------------- reports

EVIL = "</script><script>document.title='owned'</script>"
IMAGE = "<img src=x onerror=alert(1)>"


class Tags(HTMLParser):
    """The tags of a page and the names of their attributes."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory):
    """A report on a file whose name, columns, levels, labels and target attack the page."""
    folder = tmp_path_factory.mktemp("hostile")
    rng = np.random.default_rng(0)
    target = "y\n__import__('os')#<b>"
    lines = [f'"{EVIL}","{IMAGE}","{target}"']
    for i in range(30):
        x = rng.normal() + i % 2
        level, label = (EVIL, IMAGE)[rng.integers(2)], ("=1+1<i>", EVIL)[i % 2]
        lines.append(f'{x:.3f},"{level}","{label}"')
    data = folder / "<b onclick=alert(1)>&quot;.csv"
    data.write_text("\n".join(lines), encoding="utf-8")
    page = folder / "page.html"
    command = ["report", str(data), "-t", target, "-o", str(page)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    told = CliRunner().invoke(app, [*command, "--json"])
    return page.read_text(encoding="utf-8"), json.loads(told.stdout)


def test_nothing_of_the_data_is_markup(hostile_report):
    page, _ = hostile_report
    parsed = Tags(page)
    assert not parsed.tags & {"img", "b", "i", "iframe", "object", "embed", "form", "base"}
    assert not {name for name in parsed.attributes if name.startswith("on")}
    assert "onclick=alert(1)&gt;&amp;quot;" in page  # the file's name is there, as text
    for text in (EVIL, IMAGE, "<script>document.title"):
        assert text not in page
    assert len(re.findall(r"<script", page.split("</main>")[0])) == 0


def test_the_code_of_the_page_is_the_machine_s_only(hostile_report):
    """A target with a line break in its name cannot add a line to the code."""
    _, found = hostile_report
    lines = found["code"].splitlines()
    assert any(line.startswith("# X:") and "__import__" in line for line in lines)
    assert not any("__import__" in line for line in lines if not line.startswith("#"))
    ast.parse(found["code"])
