"""SIGINT at any moment: whole or not at all, and the next call gives what it would have given.

One child does it all, since a process takes seconds to start. A thread of it sends a real SIGINT
to its own process after a random part of the time that the call takes; the main thread is
somewhere in the call by then. Everything is compiled first: numba swallows an interrupt that falls
into its own callbacks while it compiles.
"""

from __future__ import annotations

import json

import pytest

import widemargin
from tests.helpers.children import program

MACHINES = sorted(
    name
    for name in widemargin.__all__
    if isinstance(getattr(widemargin, name), type) and hasattr(getattr(widemargin, name), "fit")
)
FELT = 5
QUESTIONS = ("loo", "predict_proba", "tune", "report")

BEGINNING = """
import json, os, signal, sys, threading, time, warnings
import numpy as np
import widemargin as wm
from sklearn.base import is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
warnings.simplefilter("ignore")
FELT, TRIES = 5, 300  # interrupts to be felt in a call; small fits often end before
rng = np.random.default_rng(0)
X = rng.normal(size=(120, 3))
y = (X[:, 0] + 0.5 * rng.normal(size=120) > 0).astype(int) + (X[:, 1] > 0.8)
other = X[:60], y[:60] % 2

def interrupted(call, seconds):
    '''Call while a SIGINT is on its way; return whether it was felt, and what was returned.'''
    sender = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    felt, found = False, None
    try:
        try:
            sender.start()
            found = call()
        finally:
            sender.cancel()
            sender.join()
    except KeyboardInterrupt:
        felt = True
    return felt, found

def duration(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start

def bits(model):
    scores = getattr(model, "decision_function", model.predict)
    return scores(X).tobytes(), [str(c) for c in getattr(model, "classes_", [])]
"""

FITS = """
answer = {}
for name in sys.argv[1:]:
    kind = getattr(wm, name)
    make = (lambda: kind(wm.SVC(), {"C": [0.5, 2.0]})) if name == "LOOSearch" else kind
    make = (lambda: kind(nu=0.2)) if name == "NuSVC" else make  # 0.5 is infeasible here
    whole = make().fit(X, y)
    expected, before = bits(whole), bits(make().fit(*other))
    length = duration(lambda: make().fit(X, y))
    felt = 0
    for k in range(TRIES):
        if felt == FELT:
            break
        model = make()
        if k % 2:
            model.fit(*other)
        attributes = sorted(vars(model))
        hit, _ = interrupted(lambda: model.fit(X, y), rng.uniform(0, length))
        felt += hit
        if hit and sorted(vars(model)) == attributes:
            if k % 2:
                assert bits(model) == before, "neither the old fit nor the new one"
            else:
                try:
                    check_is_fitted(model)
                except NotFittedError:
                    pass
                else:
                    raise AssertionError("half fitted")
        elif hit and name == "LOOSearch" and not hasattr(model, "best_estimator_"):
            assert 1 <= len(model.cv_results_["params"]) <= 2, "no setting was done"
        else:
            assert bits(model) == expected, "not the whole fit"
        assert bits(model.fit(X, y)) == expected, "the next fit differs"
    answer[name] = felt
print(json.dumps(answer))
"""

QUESTION = """
os.chdir(sys.argv[1])
def ask_loo(model):
    return wm.loo.decision_values(model).tobytes()
def ask_proba(model):
    return model.predict_proba(X).tobytes()
def ask_tune(model):
    tuned = wm.tune(model, X, y, params=["C"])
    return tuned.C, bits(tuned)
def ask_report(model):
    wm.report(model, "page.html")
    return open("page.html").read().rstrip().endswith("</html>")
asks = {"loo": ask_loo, "predict_proba": ask_proba, "tune": ask_tune, "report": ask_report}
answer = {}
for name, ask in asks.items():
    make = lambda: wm.SVC(C=2.0).fit(X, y)
    expected = ask(make())
    model = make()
    length = duration(lambda: ask(model))
    felt = 0
    for _ in range(TRIES):
        if felt == FELT:
            break
        model = make()
        known = bits(model)
        if os.path.exists("page.html"):
            os.remove("page.html")
        hit, found = interrupted(lambda: ask(model), rng.uniform(0, length))
        felt += hit
        assert hit or found == expected
        assert os.listdir() in ([], ["page.html"]), os.listdir()
        if os.path.exists("page.html"):
            assert open("page.html").read().rstrip().endswith("</html>")
        assert bits(model) == known and model.C == 2.0
        assert ask(model) == expected, "the next answer differs"
    answer[name] = felt
print(json.dumps(answer))
"""


@pytest.fixture(scope="module")
def fits():
    done = program(BEGINNING + FITS, *MACHINES)
    return done, json.loads(done.stdout) if done.returncode == 0 else {}


@pytest.mark.parametrize("name", MACHINES)
def test_an_interrupted_fit_is_whole_or_undone(fits, name):
    done, felt = fits
    assert done.returncode == 0, done.stderr
    assert felt[name] == FELT, "too few interrupts came in time"


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    done = program(BEGINNING + QUESTION, tmp_path_factory.mktemp("questions"))
    return done, json.loads(done.stdout) if done.returncode == 0 else {}


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_interrupted_question_can_be_asked_again(questions, name):
    done, felt = questions
    assert done.returncode == 0, done.stderr
    assert felt[name] == FELT, "too few interrupts came in time"
