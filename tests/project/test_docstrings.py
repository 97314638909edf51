"""Docstrings of everything public: complete, in numpydoc's form, and true of fitted models.

numpydoc's own validation has more rules and brings Sphinx along; these are the ones that we keep.
"""

from __future__ import annotations

import inspect
import re
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

import widemargin
from widemargin import (
    SVC,
    SVR,
    LOOSearch,
    NuSVC,
    NuSVR,
    OneClassSVM,
    OrdinalSVC,
    PerceptronClassifier,
    sources,
)
from widemargin.assess.suspects import Suspect, Suspects
from widemargin.tuning.gradient import Tuning
from widemargin.tuning.paths import RegularisationPath

ORDER = [
    "Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns", "See Also", "Notes",
    "References", "Examples",
]  # fmt: skip


def sections(text):
    """Return the parts of a docstring by their titles; what stands first is the summary."""
    pieces = re.split(r"^(\w[\w ]*)\n-{3,}\n", text, flags=re.MULTILINE)
    return {"Summary": pieces[0], **dict(zip(pieces[1::2], pieces[2::2], strict=True))}


def entries(section):
    """Return (name, type, description) of a list of parameters; names may share a description."""
    found = []
    for block in re.split(r"^(?=\S)", section, flags=re.MULTILINE):
        if block.strip():
            head, _, rest = block.partition("\n")
            names, _, kind = head.partition(" : ")
            found += [(n.strip().lstrip("*"), kind, rest.strip()) for n in names.split(",")]
    return found


def _members(name, owner):
    """Yield the public methods and properties that a class has from this library."""
    for member in dir(owner):
        value = inspect.getattr_static(owner, member)
        inner = getattr(value, "__func__", getattr(value, "fget", value))
        if member.startswith("_") or not inspect.isfunction(inner):
            continue
        if inspect.unwrap(inner).__module__.startswith("widemargin"):
            yield f"{name}.{member}", inner


def _names():
    """Yield every public class and function with its public name."""
    for name in widemargin.__all__:
        value = getattr(widemargin, name)
        if not isinstance(value, ModuleType):
            yield name, value
            continue
        for member in getattr(value, "__all__", vars(value)):
            item = getattr(value, member)
            ours = getattr(item, "__module__", "").startswith("widemargin")
            if callable(item) and ours and not member.startswith("_"):
                yield f"{name}.{member}", item
    for name in sources.__all__:
        yield f"sources.{name}", getattr(sources, name)
    for found in (Tuning, RegularisationPath, Suspect, Suspects):
        yield found.__name__, found


NAMES = dict(_names())
METHODS = {
    method: inner
    for name, value in NAMES.items()
    if inspect.isclass(value)
    for method, inner in _members(name, value)
}
EVERYTHING = {**NAMES, **METHODS}
MACHINES = {
    name: value
    for name, value in NAMES.items()
    if inspect.isclass(value) and hasattr(value, "fit") and hasattr(value, "predict")
}


def text_of(name):
    return inspect.getdoc(EVERYTHING[name]) or ""


def test_the_parser_sees_what_is_wrong():
    text = "Do it.\n\nParameters\n----------\na, b : int\n    Both.\n*args\n    Rest.\n"
    found = sections(text)
    assert list(found) == ["Summary", "Parameters"]
    assert entries(found["Parameters"]) == [
        ("a", "int", "Both."),
        ("b", "int", "Both."),
        ("args", "", "Rest."),
    ]
    assert len(NAMES) > 75
    assert len(METHODS) > 150
    assert len(MACHINES) == 23


@pytest.mark.parametrize("name", EVERYTHING)
def test_one_sentence_then_known_sections_in_order(name):
    found = sections(text_of(name))
    first = found["Summary"].split("\n\n")[0].strip()
    assert first, f"{name} has no docstring"
    assert "\n" not in first, f"{name}: the summary takes more than a line"
    assert first.endswith((".", ":")), f"{name}: the summary is no sentence"
    titles = [title for title in found if title != "Summary"]
    assert titles == [title for title in ORDER if title in titles], f"{name}: {titles}"


@pytest.mark.parametrize("name", EVERYTHING)
def test_parameters_are_those_of_the_signature_in_its_order(name):
    value = EVERYTHING[name]
    if getattr(value, "_is_protocol", False):
        return  # a protocol is not called
    found = sections(text_of(name))
    described = entries(found.get("Parameters", ""))
    names = [n for n, _, _ in described]
    taken = [p for p in inspect.signature(value).parameters if p not in ("self", "cls")]
    if inspect.isclass(value) and not names:  # results are described by what they have
        assert set(taken) <= {n for n, _, _ in entries(found.get("Attributes", ""))}, name
        return
    assert names == taken, name
    for parameter, _, words in described:
        assert words, f"{name}: {parameter} has no description"
        assert words.endswith((".", ":")), f"{name}: the description of {parameter} is no sentence"


@pytest.mark.parametrize("name", [n for n, v in EVERYTHING.items() if inspect.isfunction(v)])
def test_what_is_returned_is_described(name):
    value = EVERYTHING[name]
    is_property = isinstance(_static(name), property)
    result = str(inspect.signature(value).return_annotation)
    found = sections(text_of(name))
    if is_property or result in ("None", str(inspect.Signature.empty)):
        return  # the summary of a property says what it is
    title = "Yields" if "Iterator" in result else "Returns"
    assert title in found, f"{name} -> {result} has no section {title}"
    assert re.search(r"^    \S", found[title], flags=re.MULTILINE), f"{name}: {title} says nothing"


def _static(name):
    owner, _, member = name.rpartition(".")
    return inspect.getattr_static(NAMES[owner], member) if owner in NAMES else None


@pytest.mark.parametrize("name", NAMES)
def test_public_names_have_an_example(name):
    assert ">>> " in sections(text_of(name)).get("Examples", ""), name


@pytest.mark.parametrize("name", MACHINES)
def test_machines_say_where_they_come_from_and_what_is_like_them(name):
    text = text_of(name)
    related = entries(sections(text)["See Also"])
    assert related
    for other, words, _ in related:
        found = widemargin
        for part in other.split("."):
            found = getattr(found, part)
        assert words.endswith("."), f"{name}: {other} is not described"
    if name not in ("LOOSearch", "LinearSVC"):  # ours
        assert re.search(r"\b(19|20)\d\d\b", text), f"{name} cites nothing"


def test_parameters_that_machines_share_have_one_order():
    order = [
        "kernel", "degree", "gamma", "coef0", "loss", "fit_intercept", "solver", "calibration",
        "tol", "class_weight", "cache_size", "max_iter", "time_limit", "random_state", "verbose",
    ]  # fmt: skip
    for name, machine in MACHINES.items():
        if name == "LinearSVC":  # scikit-learn's order, also of positional parameters
            continue
        shared = [p for p in inspect.signature(machine).parameters if p in order]
        assert shared == sorted(shared, key=order.index), name


def _fitted(machine):
    """Return the machine fitted on two and on three classes (or on numbers), by name."""
    X, y = load_iris(return_X_y=True, as_frame=True)
    X, y = X.iloc[::3], y.iloc[::3]
    if type(machine).__name__.endswith("SVR"):
        targets = [X.iloc[:, 3]]
    else:
        targets = [y, pd.Series(np.minimum(y, 1), index=y.index)]
    return [clone(machine).fit(X, target) for target in targets]


# Attributes that only some settings have.
SETTINGS = {
    "SVC": [SVC(), SVC(kernel="linear")],
    "NuSVC": [NuSVC(), NuSVC(kernel="linear")],
    "SVR": [SVR(), SVR(kernel="linear")],
    "NuSVR": [NuSVR(), NuSVR(kernel="linear")],
    "LOOSearch": [LOOSearch(SVC(), {"C": [1.0, 10.0]})],
    "OneClassSVM": [OneClassSVM(), OneClassSVM(kernel="linear")],
    "OrdinalSVC": [OrdinalSVC(kernel="linear"), OrdinalSVC()],
    "PerceptronClassifier": [
        PerceptronClassifier(max_iter=20),
        PerceptronClassifier(kernel="rbf", max_iter=20),
    ],
}


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:k=.auto.. no common k separates")
def test_fitted_attributes_are_documented_and_there(name):
    documented = {n for n, _, _ in entries(sections(text_of(name))["Attributes"])}
    present = set()
    for settings in SETTINGS.get(name, [MACHINES[name]()] if name != "LOOSearch" else []):
        for model in _fitted(settings):
            # dir() leaves out properties, whose values take time to compute.
            names = {*dir(model), *documented}
            public = [a for a in names if a.endswith("_") and not a.startswith("_")]
            present |= {a for a in public if hasattr(model, a)}
    assert present == documented, f"{name}: {sorted(present ^ documented)}"
