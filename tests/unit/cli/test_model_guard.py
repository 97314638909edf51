"""Model files of somebody who means harm: each is refused in one line, and nothing of it runs.

A canary is a file that the attack would make. That the attacks are real is tested as well: with
everything trusted, or by pickle, they do make it. Files damaged by chance are in tests/faults.
"""

from __future__ import annotations

import functools
import io
import json
import operator
import os
import pickle
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import skops.io
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import widemargin as wm
from widemargin.cli import app
from widemargin.cli._model_file import FORMAT, SavedModel, load_model
from widemargin.cli._model_guard import ALWAYS_ALLOWED, MOST_TIMES
from widemargin.sources.tables.encoding import Encoding

X = np.array([[0.0, 1.0], [1.0, 0.0], [3.0, 4.0], [4.0, 3.0]])
Y = np.array(["a", "a", "b", "b"])
CANARY = "canary"


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("data.csv").write_text("u,v\n0,1\n4,3\n", encoding="utf-8")


def fitted(*before, labels=Y):
    """Return a pipeline as model files hold it: without the training data."""
    pipeline = make_pipeline(*before, StandardScaler(), wm.SVC()).fit(X, labels)
    pipeline.steps[-1] = ("svc", pipeline[-1].compact())
    return pipeline


def content(**changed):
    """Return what a model file holds, with some of it changed."""
    return {
        "format": FORMAT, "task": "classification", "target": "y", "columns": ["u", "v"],
        "levels": {}, "fill": None, "dates": [],
        "pipeline": fitted(),
        **changed,
    }  # fmt: skip


def hiding(step):
    """Return a file whose pipeline has a step that should not be there."""
    return skops.io.dumps(content(pipeline=fitted(step)))


def schema_with(**node):
    """Return a file in which the pipeline is a node of the attacker's own making."""
    made = skops.io.dumps(content(pipeline=None))
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        schema = json.loads(archive.read("schema.json"))
    schema["content"]["pipeline"] = {"__id__": 7, **node}
    return zipped({"schema.json": json.dumps(schema)})


def zipped(members, **options):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", **options) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return stream.getvalue()


def refused(data, *words):
    """Run ``widemargin predict`` on a file; it must say why not in one line and do nothing."""
    Path("model.skops").write_bytes(data)
    result = CliRunner().invoke(app, ["predict", "model.skops", "data.csv"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: model.skops ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr
    assert not Path(CANARY).exists()


class Foreign(StandardScaler):
    """Somebody else's transformer, which does something when it is loaded."""

    def __setstate__(self, state):
        Path(CANARY).touch()
        super().__setstate__(state)


class Bomb:
    """What runs code when it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path(CANARY),)


def opening():
    """Return a file that opens another one for writing when its objects are made."""
    words = [
        {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode",
         "content": json.dumps(word), "is_json": True}
        for word in (CANARY, "w")
    ]  # fmt: skip
    arguments = {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode"}
    return schema_with(
        __class__="open", __module__="builtins", __loader__="ConstructorFromReduceNode",
        content={**arguments, "content": words},
    )  # fmt: skip


ATTACKS = {
    "a class of its own": (lambda: hiding(Foreign()), "test_model_guard.Foreign"),
    "a method to be called": (
        lambda: hiding(FunctionTransformer(operator.methodcaller("copy"))),
        "operator.methodcaller",
    ),
    "a function to be called": (lambda: hiding(FunctionTransformer(np.copy)), "copy"),
    "a partial function": (
        lambda: hiding(FunctionTransformer(functools.partial(np.clip, a_min=0, a_max=1))),
        "functools.partial",
    ),
    "a constructor": (opening, "builtins.open"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_what_could_run_is_refused_by_name(name):
    make, word = ATTACKS[name]
    data = make()
    Path(CANARY).unlink(missing_ok=True)
    refused(data, "was not loaded", word)


@pytest.mark.parametrize("make", [opening, lambda: hiding(Foreign())], ids=["open", "setstate"])
def test_the_attacks_are_real(make):
    data = make()
    assert not Path(CANARY).exists()
    made = skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))
    assert Path(CANARY).exists()
    if hasattr(made["pipeline"], "close"):
        made["pipeline"].close()


def test_a_method_that_writes_a_file_is_real_and_refused():
    writing = FunctionTransformer(operator.methodcaller("tofile", CANARY))
    pipeline = fitted()
    pipeline.steps.insert(0, ("evil", writing))
    data = skops.io.dumps(content(pipeline=pipeline))
    refused(data, "operator.methodcaller")
    made = skops.io.loads(data, trusted=[*skops.io.get_untrusted_types(data=data)])
    with pytest.raises(ValueError, match="2D array"):  # when it is done
        made["pipeline"].predict(X)
    assert Path(CANARY).exists()


def test_a_pickle_by_another_name_is_refused():
    data = pickle.dumps(Bomb())
    refused(data, "damaged, or no model file")
    pickle.loads(data)
    assert Path(CANARY).exists()


@pytest.mark.parametrize(
    ("loader", "module", "name"),
    [
        ("JsonNode", "os", "system"),  # a plain node with a name that is not its own
        ("TypeNode", "subprocess", "Popen"),
        ("DictNode", "widemargin.estimators.svm.classification", "SVC"),
        ("FunctionNode", "scipy.special._ufuncs", "expit"),  # skops would trust it
        ("ObjectNode", "numpy", "ndarray"),
        ("NoSuchNode", "builtins", "dict"),
        (["ObjectNode"], "builtins", "dict"),
        ("ObjectNode", None, None),
    ],
)
def test_a_type_may_be_read_in_its_own_way_only(loader, module, name):
    data = schema_with(__loader__=loader, __module__=module, __class__=name, content="1")
    refused(data, f"{module}.{name}")


def test_a_method_of_ours_is_refused_too():
    node = {"__module__": "widemargin.estimators.svm.classification", "__class__": "SVC"}
    made = schema_with(**node, __loader__="MethodNode", content={"func": "fit", "obj": {}})
    refused(made, "widemargin.estimators.svm.classification.SVC (MethodNode)")
    pipeline = fitted()
    refused(skops.io.dumps(content(target=pipeline[-1].fit)), "was not loaded", "SVC'")


def test_nodes_are_found_wherever_they_hide():
    evil = {"__loader__": "FunctionNode", "__module__": "os", "__class__": "system"}
    data = schema_with(
        __class__="dict", __module__="builtins", __loader__="DictNode", content={},
        key_types={"__class__": "list", "__module__": "builtins", "__loader__": "ListNode",
                   "content": [evil]},
    )  # fmt: skip
    refused(data, "os.system")


def test_of_scikit_learn_only_what_a_pipeline_needs_is_read():
    """A decision tree of a file is a list of addresses that scikit-learn does not check."""
    tree = make_pipeline(StandardScaler(), DecisionTreeClassifier()).fit(X, Y)
    refused(skops.io.dumps(content(pipeline=tree)), "sklearn.tree")


# ---------------------------------------------------------------- sizes and damage


def bomb(size):
    return zipped(
        {"schema.json": json.dumps({"content": "x"}), "a.npy": b"\0" * size},
        compression=zipfile.ZIP_DEFLATED,
    )


def test_a_zip_bomb_is_refused():
    refused(bomb(2 * ALWAYS_ALLOWED), f"more than {MOST_TIMES} times as many")


def test_a_size_that_lies_does_not_fill_the_memory():
    data = bytearray(bomb(2 * ALWAYS_ALLOWED))
    entry = data.rindex(b"PK\x01\x02")  # the last entry of the directory: its size is at 24
    assert struct.unpack_from("<I", data, entry + 24) == (2 * ALWAYS_ALLOWED,)
    struct.pack_into("<I", data, entry + 24, 100)
    tracemalloc.start()
    try:
        refused(bytes(data), "a.npy")
        assert tracemalloc.get_traced_memory()[1] < ALWAYS_ALLOWED / 2
    finally:
        tracemalloc.stop()


def test_an_array_that_is_named_a_thousand_times_is_refused():
    stream = io.BytesIO()
    np.save(stream, np.zeros(2**17))
    named = {
        "__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode",
        "type": "numpy", "file": "a.npy",
    }  # fmt: skip
    schema = {
        "__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "protocol": 2,
        "content": [named] * 1000,
    }  # fmt: skip
    parts = {"schema.json": json.dumps(schema), "a.npy": stream.getvalue()}
    refused(zipped(parts, compression=zipfile.ZIP_DEFLATED), "times as many")


def test_an_array_of_a_shape_that_it_does_not_have_is_refused():
    stream = io.BytesIO()
    huge = {"descr": "<f8", "fortran_order": False, "shape": (2**42,)}
    np.lib.format.write_array_header_1_0(stream, huge)
    made = skops.io.dumps(content())
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    first = next(name for name in members if name.endswith(".npy"))
    refused(zipped({**members, first: stream.getvalue()}), "damaged")


def test_an_array_of_objects_is_refused():
    stream = io.BytesIO()
    np.save(stream, np.array([Bomb()], dtype=object), allow_pickle=True)
    made = skops.io.dumps(content())
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    first = next(name for name in members if name.endswith(".npy"))
    refused(zipped({**members, first: stream.getvalue()}), "damaged", "allow_pickle=False")
    np.load(io.BytesIO(stream.getvalue()), allow_pickle=True)
    assert Path(CANARY).exists()


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 50_000, "{}", "[]", "1", "", "nul"])
def test_a_schema_that_is_none_is_refused(text):
    refused(zipped({"schema.json": text}), "damaged")


@pytest.mark.parametrize("member", ["../canary", "/canary", "C:\\canary", "a/../../canary"])
def test_no_member_is_written_anywhere(member):
    refused(zipped({"schema.json": "{}", member: "x"}), "damaged")
    assert sorted(os.listdir()) == ["data.csv", "model.skops"]


@pytest.mark.parametrize("place", ["../data.csv", "data.csv", "/etc/hostname"])
def test_an_array_cannot_be_a_file_of_the_reader_s(place):
    node = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode"}
    refused(schema_with(**node, type="numpy", file=place), "damaged")


# ---------------------------------------------------------------- values of the right types


@pytest.mark.parametrize(
    "changed",
    [
        {"pipeline": "text"},
        {"columns": 3},
        {"columns": ["u", "v", "w"]},
        {"levels": None},
        {"task": "regression", "pipeline": None},
        {"pipeline": make_pipeline(StandardScaler(), wm.SVC())},  # not fitted
    ],
)
def test_a_model_that_cannot_predict_is_refused(changed):
    refused(skops.io.dumps(content(**changed)), "damaged")


def test_a_model_without_a_part_is_refused():
    short = content()
    del short["columns"]
    refused(skops.io.dumps(short), "damaged", "columns")


@pytest.mark.parametrize("feature", [2, 10**12, -1])
def test_stumps_look_at_no_memory_but_the_row_s(feature):
    machine = wm.AdaBoostClassifier(n_rounds=3).fit(X, Y)
    machine._ensembles_[0].feature[:] = feature
    pipeline = make_pipeline(StandardScaler().fit(X), machine)
    refused(skops.io.dumps(content(pipeline=pipeline)), "stumps", "2 features")


def test_support_vectors_of_another_width_are_refused():
    pipeline = fitted()
    pipeline[-1].support_vectors_ = np.zeros((4, 3))
    refused(skops.io.dumps(content(pipeline=pipeline)), "damaged")


# ---------------------------------------------------------------- what is ours


def saved_model(**changed):
    kept = content(**changed)
    encoding = Encoding(kept["columns"], kept["levels"], kept["fill"], kept["dates"])
    return SavedModel(kept["pipeline"], kept["task"], kept["target"], encoding)


def test_a_model_that_deflates_like_a_bomb_is_saved_without_deflation():
    pipeline = fitted()
    pipeline[-1]._much = np.zeros(2 * ALWAYS_ALLOWED // 8)
    model = saved_model(pipeline=pipeline)
    model.save(Path("large.skops"))
    assert Path("large.skops").stat().st_size > ALWAYS_ALLOWED
    found = load_model(Path("large.skops"))
    np.testing.assert_array_equal(found.pipeline.predict(X), model.pipeline.predict(X))


def test_labels_are_written_as_they_are():
    """A label that a spreadsheet takes for a formula is a label all the same."""
    labels = np.where(Y == "a", "=1+1", "@x")
    model = saved_model(pipeline=fitted(labels=labels))
    model.save(Path("model.skops"))
    result = CliRunner().invoke(app, ["predict", "model.skops", "data.csv"])
    assert [line.split(",")[0] for line in result.stdout.splitlines()] == [
        "prediction", "=1+1", "@x",
    ]  # fmt: skip
