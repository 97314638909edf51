"""Progress of long computations: leave-one-out, regularisation paths, and compiled loops."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning

from widemargin import (
    SVC,
    AdaptiveMarginSVC,
    NuLPSVC,
    PerceptronClassifier,
    loo,
    regularisation_path,
)
from widemargin._base import jit
from widemargin._base.progress import Bar, Watch


def counts(text, unit=""):
    """Return (done, total) of the last state that a bar displayed."""
    found = re.findall(rf"([\d,]+)/([\d,]+){unit}", text)
    return tuple(int(number.replace(",", "")) for number in found[-1])


@pytest.mark.parametrize(
    ("model", "method"),
    [
        (SVC(gamma=1.0), "exact"),
        (SVC(gamma=1.0, loss="squared_hinge"), "exact"),
        (AdaptiveMarginSVC(gamma=1.0), "exact"),
        (AdaptiveMarginSVC(gamma=1.0), "folds"),
    ],
)
def test_leave_one_out_counts_its_paths_and_refits(model, method, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    X, y = make_moons(60, noise=0.3, random_state=0)
    quiet = loo.result(model.fit(X, y), method)
    assert capsys.readouterr().out == ""
    shown = loo.result(model.fit(X, y), method, verbose=1)
    done, total = counts(capsys.readouterr().out)
    assert done == total > 0
    np.testing.assert_array_equal(shown.values, quiet.values)
    assert loo.result(model, method, verbose=1) is shown  # cached, without a count
    assert "leave-one-out" in capsys.readouterr().out


def test_methods_of_models_show_it_as_well(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    X, y = make_moons(40, noise=0.3, random_state=0)
    model = SVC(gamma=1.0).fit(X, y)
    error = model.loo_error(verbose=1)
    assert "leave-one-out" in capsys.readouterr().out
    assert loo.error(model) == error
    model.fit(X, y).loo_decision_values(verbose=1)
    assert "leave-one-out" in capsys.readouterr().out


def test_the_bar_of_the_perceptron_shows_a_share_of_the_samples(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    X, y = make_moons(50, noise=0.3, random_state=0)
    with pytest.warns(ConvergenceWarning):
        PerceptronClassifier(max_iter=20, verbose=1).fit(X, y)
    shown = capsys.readouterr().out
    assert re.search(r"\d% of the samples on the wrong side", shown)
    assert "tol" not in shown


@pytest.mark.parametrize(("model", "unit"), [(AdaptiveMarginSVC(), "lam"), (NuLPSVC(), "nu")])
def test_a_regularisation_path_counts_its_values(model, unit, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    X, y = make_moons(40, noise=0.3, random_state=0)
    values = [0.9, 0.5, 0.7]
    quiet = regularisation_path(model.set_params(gamma=1.0), X, y, values)
    assert capsys.readouterr().out == ""
    shown = regularisation_path(model, X, y, values, leave_one_out=True, verbose=1)
    assert counts(capsys.readouterr().out, f", {unit}=0.9") == (3, 3)
    np.testing.assert_array_equal(shown.objective, quiet.objective)


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
