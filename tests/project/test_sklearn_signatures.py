"""Parameters and attributes of scikit-learn's SVMs exist here, or the page of differences says why.

The table of docs/coming_from_sklearn.rst names classes and, after a colon, parameters or attributes
in its first column.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.datasets import load_iris

import widemargin

PAGE = Path(__file__).parents[2] / "docs" / "coming_from_sklearn.rst"
NAMES = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "LinearSVC", "LinearSVR")
# scikit-learn's defaults that mean the same as ours.
SAME = {("verbose", False, 0), ("intercept_scaling", 1, 1.0)}


def differences():
    """Return the pairs (class, parameter or attribute) of the table."""
    cells = re.findall(r"^   \* - (``.*?)\n     - ", PAGE.read_text("utf-8"), flags=re.M | re.S)
    found = set()
    for cell in cells:
        classes, _, members = cell.partition(":")
        for one in re.findall(r"``(\w+)``", classes):
            found |= {(one, member) for member in re.findall(r"``(\w+)``", members)}
    return found


def parameters(kind):
    return {p.name: p for p in list(inspect.signature(kind.__init__).parameters.values())[1:]}


def documented_attributes(kind):
    text = kind.__doc__[kind.__doc__.index("Attributes\n") : kind.__doc__.index("See Also")]
    return set(re.findall(r"^    (\w+_) :", text, flags=re.MULTILINE))


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_accepted(name):
    theirs, ours = parameters(getattr(sklearn.svm, name)), parameters(getattr(widemargin, name))
    assert set(theirs) <= set(ours)
    for parameter in theirs:
        assert (theirs[parameter].kind == ours[parameter].kind) or (
            ours[parameter].kind == inspect.Parameter.POSITIONAL_OR_KEYWORD
        )


@pytest.mark.parametrize("name", NAMES)
def test_other_defaults_are_in_the_table(name):
    theirs, ours = parameters(getattr(sklearn.svm, name)), parameters(getattr(widemargin, name))
    other = {
        (name, p)
        for p in theirs
        if theirs[p].default != ours[p].default
        and (p, theirs[p].default, ours[p].default) not in SAME
    }
    assert other <= differences()


@pytest.mark.parametrize("name", NAMES)
def test_every_attribute_exists_or_is_in_the_table(name):
    X, y = load_iris(return_X_y=True, as_frame=True)
    kind = getattr(widemargin, name)
    model = kind(kernel="linear") if "kernel" in parameters(kind) else kind()
    model.fit(X, y)
    missing = {
        (name, attribute)
        for attribute in documented_attributes(getattr(sklearn.svm, name))
        if not hasattr(model, attribute)
    }
    assert missing <= differences()


def test_the_table_names_what_scikit_learn_has():
    for name, member in differences():
        kind = getattr(sklearn.svm, name)
        assert member in parameters(kind) or member in documented_attributes(kind), (name, member)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", ["SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM"])
def test_attributes_have_the_shapes_of_scikit_learn(name, sparse):
    X, y = load_iris(return_X_y=True)
    X = sp.csr_matrix(X) if sparse else X
    theirs = getattr(sklearn.svm, name)(kernel="linear").fit(X, y)
    ours = getattr(widemargin, name)(kernel="linear").fit(X, y)
    for attribute in documented_attributes(type(theirs)):
        if (name, attribute) not in differences() and hasattr(theirs, attribute):
            a, b = getattr(theirs, attribute), getattr(ours, attribute)
            assert sp.issparse(a) == sp.issparse(b), attribute
            assert np.ndim(a) == np.ndim(b), attribute
            if attribute not in ("support_vectors_", "dual_coef_"):  # the number of them may differ
                assert np.shape(a) == np.shape(b), attribute
