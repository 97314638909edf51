"""A fit whose driver or whose workers die: the same model after a restart, or a clear error."""

from __future__ import annotations

import os
import signal
import threading
import warnings

import dask
import numpy as np
import psutil
import pytest

from tests.helpers.children import started
from tests.helpers.clusters import LOST, two_workers
from widemargin import LinearSVC, sources
from widemargin.sources import DaskEngine, Threads

SIZES = {"hinge": 6_000, "squared_hinge": 20_000}  # rows of a file: enough for several rounds


def write_rows(folder, n):
    rng = np.random.default_rng(0)
    for k in range(4):
        X = rng.uniform(-1, 1, (n, 6)).astype(np.float32)
        y = X @ [1.0, -1.0, 0.5, 0.0, 2.0, 0.1] + 0.5 * rng.normal(size=n) > 0
        np.save(folder / f"rows{k}.npy", np.column_stack([X, y.astype(np.float32)]))
    return str(folder / "rows*.npy")


@pytest.fixture(scope="module", params=SIZES)
def loss_and_files(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, write_rows(folder, SIZES[request.param])


class Counting(Threads):
    """Counts the tasks that a fit asks for."""

    def __init__(self):
        self.n_tasks = 0

    def run(self, task, parts, arguments):
        self.n_tasks += 1
        return super().run(task, parts, arguments)


def bits(model):
    return model.coef_.tobytes(), model.intercept_.tobytes(), model.certificate_.primal


# The driver is killed at a place of our choice: in the middle of a task, beside a real file.
DRIVER = """
import sys, time
from widemargin import LinearSVC, sources
from widemargin.sources import Threads

files, loss, checkpoint, last = *sys.argv[1:4], int(sys.argv[4])

class Stopping(Threads):
    n_tasks = 0

    def run(self, task, parts, arguments):
        Stopping.n_tasks += 1
        if Stopping.n_tasks == last:
            task(parts[0], *arguments[0])
            print("IN THE MIDDLE", flush=True)
            time.sleep(600)
        return super().run(task, parts, arguments)

dataset = sources.from_files(files, target=6, engine=Stopping())
LinearSVC(loss=loss, tol=1e-10, random_state=0, checkpoint=checkpoint).fit(dataset)
"""


def kill_in_the_middle(how, *arguments):
    child = started(["-c", DRIVER, *map(str, arguments)])
    guard = threading.Timer(LOST, child.kill)
    guard.start()
    try:
        assert child.stdout.readline() == "IN THE MIDDLE\n", child.stderr.read()
    finally:
        child.send_signal(how)
        child.wait()
        guard.cancel()
        child.stdout.close()
        child.stderr.close()
    assert child.returncode == -how


def fitted(files, loss, engine, checkpoint=None):
    model = LinearSVC(loss=loss, tol=1e-10, random_state=0, checkpoint=checkpoint)
    return model.fit(sources.from_files(files, target=6, engine=engine))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_a_driver_killed_in_mid_fit_goes_on_to_the_same_model(loss_and_files, how, tmp_path):
    loss, files = loss_and_files
    whole, rest = Counting(), Counting()
    undisturbed = fitted(files, loss, whole)
    place = tmp_path / "fit.checkpoint"
    kill_in_the_middle(how, files, loss, place, whole.n_tasks)
    assert place.exists()
    resumed = fitted(files, loss, rest, place)
    assert bits(resumed) == bits(undisturbed)
    assert rest.n_tasks < whole.n_tasks  # it went on, and did not begin anew
    assert os.listdir(tmp_path) == []  # a fit that is done needs no checkpoint


def test_a_driver_killed_again_and_again_still_ends_there(tmp_path):
    files = write_rows(tmp_path, SIZES["hinge"])
    whole = Counting()
    undisturbed = fitted(files, "hinge", whole)
    place = tmp_path / "fit.checkpoint"
    for last in (1, 3):  # while the data are described, and before there is a state to save
        kill_in_the_middle(signal.SIGKILL, files, "hinge", place, last)
    assert bits(fitted(files, "hinge", Counting(), place)) == bits(undisturbed)
    assert not list(tmp_path.glob("*checkpoint*"))


@pytest.fixture(scope="module")
def client():
    with two_workers() as it, dask.config.set({"distributed.comm.timeouts.connect": "2s"}):
        yield it


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("cluster"), SIZES["hinge"])


class KillsAll(DaskEngine):
    """Kills every worker, once, while a scan is under way."""

    killed = 0

    def run(self, task, parts, arguments):
        if not KillsAll.killed:
            pending = self.client.map(_wait, range(4), pure=False)
            for pid in self.client.run(os.getpid).values():
                worker = psutil.Process(pid)
                assert os.getpid() in [parent.pid for parent in worker.parents()]
                worker.kill()  # SIGKILL
                KillsAll.killed += 1
            del pending
        return super().run(task, parts, arguments)


def _wait(number):
    import time

    time.sleep(0.2)
    return number


def test_all_workers_killed_in_mid_fit_change_nothing(client, files):
    """The cluster starts others in their place, which know nothing and need to know nothing."""
    undisturbed = LinearSVC(loss="hinge", tol=1e-9, random_state=0).fit(
        sources.from_files(files, target=6)
    )
    dataset = sources.from_files(files, target=6, engine=KillsAll(client))
    model = LinearSVC(loss="hinge", tol=1e-9, random_state=0).fit(dataset)
    assert KillsAll.killed == 2
    assert bits(model) == bits(undisturbed)
    client.wait_for_workers(2, timeout=LOST)


def test_a_client_that_was_closed_is_an_error_at_once(client, files, tmp_path):
    from distributed import Client

    other = Client(client.scheduler.address, set_as_default=False)
    dataset = sources.from_files(files, target=6, engine=DaskEngine(other))
    other.close()
    model = LinearSVC(loss="hinge", tol=1e-9, checkpoint=tmp_path / "fit.checkpoint")
    with pytest.raises(Exception, match="Client is closed"):
        model.fit(dataset)
    assert not hasattr(model, "classes_")
    assert os.listdir(tmp_path) == []


def test_a_cluster_without_workers_is_an_error_in_time(files):
    from distributed import Client, LocalCluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the cluster says about ports is not ours to judge
        with (
            dask.config.set({"distributed.scheduler.no-workers-timeout": "1s"}),
            LocalCluster(
                n_workers=0, host="127.0.0.1", dashboard_address=None, processes=True
            ) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            dataset = sources.from_files(files, target=6, engine=DaskEngine(client))
            with pytest.raises(Exception, match="without any running workers"):
                LinearSVC().fit(dataset)
