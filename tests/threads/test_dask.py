"""A real cluster on this machine: two worker processes, one dies, the answer stays the same."""

from __future__ import annotations

import os
import threading
import time

import dask
import dask.array as da
import numpy as np
import psutil
import pytest

from tests.helpers.clusters import LOST, two_workers
from widemargin import sources
from widemargin.sources import DaskEngine, Threads

ROUNDS = 6


@pytest.fixture(scope="module")
def client():
    with two_workers() as client:
        yield client


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 8)).astype(np.float32)
    y = np.where(X @ rng.normal(size=8) + rng.normal(size=20_000) > 0, "yes", "no")
    return X, y


@pytest.fixture
def files(rows, tmp_path):
    X, y = rows
    for k, some in enumerate(np.array_split(np.arange(len(X)), 10)):
        np.save(tmp_path / f"X{k}.npy", X[some])
        np.save(tmp_path / f"y{k}.npy", y[some])
    return {"paths": str(tmp_path / "X*.npy"), "target": str(tmp_path / "y*.npy")}


def gradient(part, w, marker=None):
    """The hinge's gradient on a part; with a marker, the first call waits there to be killed."""
    if marker is not None and not os.path.exists(marker):
        with open(f"{marker}.new", "w") as handle:
            handle.write(str(os.getpid()))
        os.replace(f"{marker}.new", marker)
        time.sleep(LOST)
    total = np.zeros(len(w))
    for _, X, y, weight in part.blocks():
        active = y * (X @ w) < 1
        total -= X[active].T.astype(np.float64) @ (y * weight)[active]
    return total


def descend(dataset, markers=None):
    """Some rounds of subgradient descent: a stand-in for a solver that scans the data."""
    found = dataset.describe()
    source = dataset.binary("yes", "no", centre=found.mean, scale=found.scale)
    w = np.zeros(source.n_features)
    for k in range(ROUNDS):
        marker = (markers or {}).get(k, {})
        calls = [(w, marker.get(part)) for part in range(len(source.sizes))]
        w = w - sum(source.run(gradient, calls)) / source.n_rows
    return w


def worker_of(marker):
    """Wait until a task has written its process id to the marker."""
    until = time.monotonic() + LOST
    while not os.path.exists(marker):
        assert time.monotonic() < until, "the task never started"
        time.sleep(0.01)
    with open(marker) as handle:
        return int(handle.read())


def kill_at(marker, killed):
    """Kill the worker that waits at the marker: a process that this one has started, no other."""
    worker = psutil.Process(worker_of(marker))
    assert os.getpid() in [parent.pid for parent in worker.parents()]
    worker.kill()  # SIGKILL
    killed.append(worker.pid)


def test_threads_and_cluster_agree_to_the_last_bit(client, files):
    here = descend(sources.from_files(**files, engine=Threads()))
    there = descend(sources.from_files(**files, engine=DaskEngine(client)))
    assert np.abs(here).max() > 0.1
    np.testing.assert_array_equal(here, there)


def test_the_number_of_workers_does_not_matter(client, files):
    two = descend(sources.from_files(**files, engine=DaskEngine(client)))
    address = next(iter(client.scheduler_info()["workers"]))

    class OneWorker(DaskEngine):
        def run(self, task, parts, arguments):
            with dask.annotate(workers=[address]):
                return super().run(task, parts, arguments)

    np.testing.assert_array_equal(
        two, descend(sources.from_files(**files, engine=OneWorker(client)))
    )


def test_tasks_run_on_the_workers(client, files):
    dataset = sources.from_files(**files, engine=DaskEngine(client))
    pids = set(dataset.run(where_it_runs, [()] * len(dataset.rows)))
    assert pids <= set(client.run(os.getpid).values())
    assert len(pids) == 2


def where_it_runs(rows):
    time.sleep(0.05)
    return os.getpid()


@pytest.mark.parametrize("persisted", [False, True])
def test_collections_stay_on_the_workers(client, rows, persisted):
    X, y = rows
    values = da.from_array(X, chunks=(2000, 8))
    labels = da.from_array(y, chunks=2000)
    if persisted:
        values, labels = client.persist([values, labels])
    there = descend(sources.from_dask(values, labels, client=client))
    here = descend(sources.from_arrays(np.array_split(X, 10), np.array_split(y, 10)))
    np.testing.assert_array_equal(here, there)


@pytest.mark.parametrize("kind", ["files", "persisted collections"])
@pytest.mark.slow
def test_a_worker_killed_in_the_middle_changes_nothing(client, files, rows, kind, tmp_path):
    """SIGKILL in the middle of a round; what it had is run again, and the result has its bits."""
    X, y = rows

    def dataset():
        if kind == "files":
            return sources.from_files(**files, engine=DaskEngine(client))
        chunks = [da.from_array(X, chunks=(2000, 8)), da.from_array(y, chunks=2000)]
        return sources.from_dask(*client.persist(chunks), client=client)

    expected = descend(dataset())
    killed: list[int] = []
    marker = str(tmp_path / "marker")
    killer = threading.Thread(target=kill_at, args=(marker, killed), daemon=True)
    killer.start()
    got = descend(dataset(), {ROUNDS // 2: {3: marker}})
    killer.join(LOST)
    assert len(killed) == 1
    np.testing.assert_array_equal(got, expected)
    client.wait_for_workers(2, timeout=LOST)


def test_errors_come_back_with_the_name_of_the_file(client, files, tmp_path):
    path = tmp_path / "X4.npy"
    X = np.load(path)
    X[17, 2] = np.nan
    np.save(path, X)
    dataset = sources.from_files(**files, engine=DaskEngine(client))
    with pytest.raises(ValueError, match=r"X4.npy, row 17, column 2 is NaN"):
        dataset.describe()
    X[17, 2] = 0.0
    np.save(path, X)
    dataset = sources.from_files(**files, engine=DaskEngine(client))
    dataset.describe()
    os.truncate(path, 1000)
    with pytest.raises(ValueError, match=r"X4.npy has changed"):
        descend(dataset)
