"""Processes that are made by fork after a fit, or while one is under way, and by loky."""

from __future__ import annotations

import json

from tests.helpers.children import program

FORKS = """
import json, os, sys, threading, time, warnings
import multiprocessing
import numpy as np
import widemargin as wm
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 3))
y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
more = rng.normal(size=(6000, 3))
label = (more[:, 0] + more[:, 1] ** 2 + rng.normal(size=6000) > 1).astype(int)

def work(_=None):
    fresh = wm.SVC().fit(X, y)
    tree = wm.LOOSVC().fit(X[:60], y[:60])
    values = [model.decision_function(X), fresh.decision_function(X), tree.decision_function(X)]
    return [value.tobytes().hex() for value in (*values, wm.loo.decision_values(model))]

model = wm.SVC(C=3.0).fit(X, y)
expected = work()
answer = {}
with multiprocessing.get_context("fork").Pool(2) as pool:
    answer["fork after a fit"] = all(
        found == expected for found in pool.map_async(work, range(4)).get(60)
    )
# A fork in the middle of a fit of another thread: its locks are copied as they are.
stop = threading.Event()
def keep_fitting():
    while not stop.is_set():
        wm.SVC().fit(more, label)
busy = threading.Thread(target=keep_fitting)
busy.start()
found = []
for _ in range(6):
    time.sleep(0.05)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b"same" if work() == expected else b"other")
        os._exit(0)
    os.close(writing)
    import select
    ready, _, _ = select.select([reading], [], [], 60)
    found.append(os.read(reading, 10).decode() if ready else "HANGS")
    if not ready:
        os.kill(child, 9)
    os.waitpid(child, 0)
stop.set()
busy.join()
answer["fork in mid-fit"] = found
print(json.dumps(answer))
"""


def test_a_fork_after_a_fit_and_in_mid_fit_gives_the_same_bits():
    done = program(FORKS)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["fork after a fit"]
    assert answer["fork in mid-fit"] == ["same"] * 6
