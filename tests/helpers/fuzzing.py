"""What must hold for every drawn problem, and the count of what became of them.

For each problem, `judge` demands:

1. it ends: a problem that takes longer than `PATIENCE` seconds ends the process with a traceback,
   and the problem is left in widemargin-fuzz-<process>.txt of the folder for temporary files (a
   bound on hangs, far above what any fit takes);
2. `fit` either refuses with a ValueError or TypeError that our code raised on purpose, or returns a
   model; a warning of numpy or scipy is an error;
3. a model that did not converge said so in a ConvergenceWarning with numbers, and no other did;
4. what the model claims is true: `truth`, which each machine brings, recomputes it by hand;
5. predictions are finite, of the right shape and agree with each other;
6. now and then: the same fit again has the same bits; leave-one-out ends, finite or refused.

How to fuzz a machine: see tests/fuzz. The counts are printed at the end of the session by
tests/conftest.py.
"""

from __future__ import annotations

import dis
import faulthandler
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import settings
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from tests.helpers import fuzzing_counts
from tests.helpers.fuzzing_counts import (
    FITTED,
    REFUSED,
    UNCONVERGED,
    count,
    refusals,
)
from tests.helpers.fuzzing_data import Problem
from widemargin import loo

PATIENCE = 120.0
SHORT_EXAMPLES = 8  # of each fuzz test in the default profile
Truth = Callable[[Any, Problem], None]


def short_or_profile() -> settings:
    """Return few examples in the default profile, and what any other profile asks for."""
    if settings.get_current_profile_name() == "widemargin":
        return settings(max_examples=SHORT_EXAMPLES)
    return settings()


# ---------------------------------------------------------------- it ends

# Left behind only by a process that ended on its problem.
_journal = Path(tempfile.gettempdir()) / f"widemargin-fuzz-{os.getpid()}.txt"


@contextmanager
def bounded(problem: Any, model: Any) -> Iterator[None]:
    """End the process with a traceback if what is inside does not end; the journal tells on what.

    faulthandler's watch needs no GIL, so that compiled code that does not end is seen too.
    """
    _journal.write_text(f"{model!r}\n{problem!r}\n")
    faulthandler.dump_traceback_later(PATIENCE, exit=True, file=fuzzing_counts.stderr)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        _journal.unlink(missing_ok=True)


# ---------------------------------------------------------------- refused on purpose, or warned


@contextmanager
def listening() -> Iterator[list[warnings.WarningMessage]]:
    """Record our warnings; those of numpy, scipy and Python are errors."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("error")
        warnings.simplefilter("always", UserWarning)  # ConvergenceWarning is one
        yield heard


def refused_on_purpose(error: BaseException) -> bool:
    """Tell whether an error comes from a raise statement of widemargin or scikit-learn's checks.

    What numpy or scipy raise about their own arguments is no answer to the user.
    """
    if isinstance(error, np.linalg.LinAlgError):  # a ValueError, but no answer to the user
        return False
    if not isinstance(error, ValueError | TypeError) or len(str(error)) < 20:
        return False
    last = error.__traceback__
    assert last is not None
    while last.tb_next is not None:
        last = last.tb_next
    code = last.tb_frame.f_code
    place = code.co_filename.replace("\\", "/")
    ours = "/widemargin/" in place or "/sklearn/utils/" in place
    return ours and code.co_code[last.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def kind_of(error: BaseException) -> str:
    """Return the message without its numbers and names, to count refusals by."""
    text = re.sub(r"'[^']*'", "'..'", str(error).split("\n")[0])
    text = re.sub(r"[-+]?\d[\d.,]*(e[-+]?\d+)?", "#", text)
    return f"{type(error).__name__}: {text[:90]}"


def says_converged(model: Any, told: list[str]) -> bool:
    """Return the model's claim: by its certificate, or by the residual of its equations.

    Machines that always end (boosting) make none; nor does a likelihood without a penalty, but for
    its warnings.
    """
    if getattr(model, "certificate_", None) is not None:
        return bool(model.certificate_.converged)
    if hasattr(model, "residual_"):
        return bool(model.residual_ <= model.tol)
    return bool(getattr(model, "converged_", not told))


def fitted(name: str, model: Any, problem: Problem, X: Any, arguments: dict[str, Any]) -> bool:
    """Fit the model; tell whether there is one, having counted the problem."""
    outcome = attempt(name, model, problem, X, arguments)
    count(name, outcome)
    return outcome != REFUSED


def attempt(name: str, model: Any, problem: Problem, X: Any, arguments: dict[str, Any]) -> str:
    """Fit the model; return what became of the problem."""
    count(name, "problems")
    with listening() as heard:
        try:
            model.fit(X, problem.y, **arguments)
        except (ValueError, TypeError) as error:
            if not refused_on_purpose(error):
                raise
            refusals[name][kind_of(error)] += 1
            return REFUSED
    told = [str(w.message) for w in heard if issubclass(w.category, ConvergenceWarning)]
    converged = says_converged(model, told)
    if converged:
        assert not told, f"converged, and yet warned: {told}"
    else:
        assert any(re.search(r"\d", text) for text in told), f"no warning with numbers: {told}"
    return FITTED if converged else UNCONVERGED


# ---------------------------------------------------------------- predictions


def check_predictions(model: Any, X: Any) -> None:
    """Demand finite values of the right shape that agree with each other."""
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    predicted = model.predict(X)
    assert predicted.shape == (n,)
    if not hasattr(model, "classes_"):
        assert np.isfinite(predicted).all(), "predict is not finite"
        return
    assert np.isin(predicted, model.classes_).all()
    scores = np.asarray(model.decision_function(X))
    assert np.isfinite(scores).all(), "decision_function is not finite"
    if len(model.classes_) == 2:
        assert scores.shape == (n,)
        best = (scores > 0).astype(int)
    else:
        assert scores.shape == (n, len(model.classes_))
        best = scores.argmax(axis=1)
    np.testing.assert_array_equal(predicted, model.classes_[best])


def check_probabilities(model: Any, X: Any) -> None:
    """Demand probabilities that sum to one; the likeliest class is the predicted one."""
    with listening():
        share = model.predict_proba(X)
    assert np.isfinite(share).all(), "predict_proba is not finite"
    assert share.shape == (X.shape[0] if hasattr(X, "shape") else len(X), len(model.classes_))
    assert (share >= 0).all()
    np.testing.assert_allclose(share.sum(axis=1), 1.0, atol=1e-9)
    likely = np.take_along_axis(
        share, np.searchsorted(model.classes_, model.predict(X))[:, None], 1
    )
    assert (likely[:, 0] >= share.max(axis=1) - 1e-12).all(), "the likeliest is not the predicted"


# ---------------------------------------------------------------- the same bits, leave-one-out


def arrays_of(model: Any) -> dict[str, np.ndarray]:
    """Return the fitted numbers of a model."""
    found = {}
    for name, value in vars(model).items():
        if name.endswith("_") and not name.startswith("_"):
            value = value.toarray() if sp.issparse(value) else value
            if isinstance(value, np.ndarray | float | int):
                found[name] = np.asarray(value)
    return found


def check_determinism(model: Any, X: Any, problem: Problem, arguments: dict[str, Any]) -> None:
    """Demand that the same fit again has the same bits."""
    with listening():
        again = clone(model).fit(X, problem.y, **arguments)
    one, other = arrays_of(model), arrays_of(again)
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def check_leave_one_out(name: str, model: Any, problem: Problem) -> loo.LOOResult | None:
    """Demand that leave-one-out ends, finite, or is refused on purpose."""
    with listening():
        try:
            result = loo.result(model)
        except (ValueError, TypeError) as error:
            if not refused_on_purpose(error):
                raise
            count(name, "loo refused")
            refusals[name][f"leave-one-out: {kind_of(error)}"] += 1
            return None
    assert result.is_exact or result.kind == "estimate"
    assert np.isfinite(result.error)
    assert result.values is not None
    assert len(result.values) == problem.n
    assert np.isfinite(result.values).all(), "left-out values are not finite"
    count(name, f"loo {result.kind}")
    return result


# ---------------------------------------------------------------- all of it


def judge(
    name: str,
    model: Any,
    problem: Problem,
    truth: Truth,
    *,
    X: Any = None,
    fresh: Any = None,
    weighted: bool = True,
    probabilities: bool = False,
    leave_one_out: bool = False,
    arguments: dict[str, Any] | None = None,
) -> bool:
    """Fit a model to a drawn problem and demand what the head of this file says.

    Parameters
    ----------
    name : str
        Name of the machine and its configuration in the table of counts.
    model : estimator
        Not fitted.
    problem : Problem
        What was drawn.
    truth : callable
        Called as truth(model, problem); asserts that what the model claims is so.
    X, fresh : array-like, optional
        Given to fit and predict in place of problem.X and problem.fresh (kernel matrices).
    weighted : bool
        Whether fit takes the problem's sample_weight.
    probabilities, leave_one_out : bool
        Whether these are asked for, for one problem in four.
    arguments : dict, optional
        More arguments of fit.

    Returns
    -------
    bool
        Whether there is a fitted model; else it was refused.
    """
    X = problem.X if X is None else X
    fresh = problem.fresh if fresh is None else fresh
    arguments = dict(arguments or {})
    if weighted and problem.sample_weight is not None:
        arguments["sample_weight"] = problem.sample_weight
    with bounded(problem, model):
        outcome = attempt(name, model, problem, X, arguments)
        if outcome == REFUSED:
            count(name, REFUSED)
            return False
        truth(model, problem)
        count(name, outcome)
        with listening():
            for rows in (X, fresh):
                check_predictions(model, rows)
        if problem.now_and_then:
            check_determinism(model, X, problem, arguments)
            if leave_one_out:
                check_leave_one_out(name, model, problem)
            if probabilities:
                check_probabilities(model, X)
                check_probabilities(model, fresh)
    return True
