"""Leave-one-out paths that are replaced by retraining: what retraining leaves is reported."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from widemargin import SVC, loo
from widemargin.solvers import leave_one_out
from widemargin.solvers.leave_one_out import loops


def _fitted() -> SVC:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 2))
    return SVC(C=10.0, tol=1e-9).fit(X, X[:, 0] + rng.normal(size=24) > 0)


@pytest.fixture
def abandoned(monkeypatch):
    """Let every path end as if it cycled."""
    follow = leave_one_out._Paths._follow

    def cycling(self, pending, *rest):
        outcome, needed = follow(self, pending, *rest)
        return np.full_like(outcome, loops.CYCLING), needed

    monkeypatch.setattr(leave_one_out._Paths, "_follow", cycling)


def test_retraining_gives_the_values_of_the_paths(abandoned, monkeypatch):
    model = _fitted()
    found = loo.result(model)
    assert found.cost["retrained"] > 0
    assert (found.kind, found.cost["unfinished"]) == ("exact", 0.0)
    monkeypatch.undo()
    np.testing.assert_allclose(found.values, loo.decision_values(_fitted()), atol=1e-8)


def test_retraining_that_ends_above_its_tolerance_is_no_exact_value(abandoned, monkeypatch):
    polish = leave_one_out.polish
    monkeypatch.setattr(
        leave_one_out, "polish", lambda *args, **known: (*polish(*args, **known)[:2], 0.25)
    )
    with pytest.warns(ConvergenceWarning, match=r"estimates: .*KKT violation up to 2\.5e-01"):
        found = loo.result(_fitted())
    assert found.kind == "estimate"
    assert found.cost["unfinished"] == found.cost["retrained"] > 0
    assert found.cost["violation"] == 0.25
