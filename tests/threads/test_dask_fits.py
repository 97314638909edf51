"""LinearSVC on a real cluster: the bits of threads, also when a worker is killed in mid-fit."""

from __future__ import annotations

import os

import dask
import dask.array as da
import numpy as np
import psutil
import pytest

from tests.helpers.clusters import LOST, two_workers
from widemargin import LinearSVC, sources
from widemargin.sources import DaskEngine


@pytest.fixture(scope="module")
def client():
    with two_workers() as client:
        yield client


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    rng = np.random.default_rng(0)
    for k in range(6):
        X = rng.uniform(-1, 1, (10_000, 6)).astype(np.float32)
        y = X @ [1.0, -1.0, 0.5, 0.0, 2.0, 0.1] + 0.3 * rng.normal(size=10_000) > 0
        np.save(folder / f"rows{k}.npy", np.column_stack([X, y.astype(np.float32)]))
    return str(folder / "rows*.npy")


class Killer(DaskEngine):
    """Kills a worker, once, while the tasks of a certain scan are under way."""

    def __init__(self, client, scan: int) -> None:
        super().__init__(client)
        self.scan, self.killed = scan, []

    def run(self, task, parts, arguments):
        self.scan -= 1
        if self.scan == 0:
            futures = self.client.map(_slowly, range(4), pure=False)  # a worker is at work
            pid = next(iter(self.client.run(os.getpid).values()))
            worker = psutil.Process(pid)
            assert os.getpid() in [parent.pid for parent in worker.parents()]
            worker.kill()  # SIGKILL
            self.killed.append(pid)
            del futures
        return super().run(task, parts, arguments)


def _slowly(number: int) -> int:
    import time

    time.sleep(0.2)
    return number


def _bits(model) -> tuple[bytes, bytes]:
    return model.coef_.tobytes(), model.intercept_.tobytes()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_cluster_gives_the_bits_of_threads(client, files, loss: str) -> None:
    here = LinearSVC(loss=loss, tol=1e-9).fit(sources.from_files(files, target=6))
    dataset = sources.from_files(files, target=6, engine=DaskEngine(client))
    there = LinearSVC(loss=loss, tol=1e-9).fit(dataset)
    assert there.certificate_.converged
    assert _bits(there) == _bits(here)
    if loss == "hinge":
        X = np.concatenate([np.load(files.replace("*", str(k))) for k in range(6)])
        held = LinearSVC(loss="hinge", tol=1e-9, solver="sampling").fit(X[:, :6], X[:, 6])
        assert there.certificate_.primal == pytest.approx(held.certificate_.primal, rel=1e-10)


@pytest.mark.parametrize("scan", [2, 3, 4])
@pytest.mark.slow
def test_a_worker_killed_in_mid_fit_changes_nothing(client, files, scan: int) -> None:
    undisturbed = LinearSVC(loss="hinge", tol=1e-9).fit(sources.from_files(files, target=6))
    killer = Killer(client, scan)
    model = LinearSVC(loss="hinge", tol=1e-9).fit(
        sources.from_files(files, target=6, engine=killer)
    )
    assert len(killer.killed) == 1
    assert _bits(model) == _bits(undisturbed)
    client.wait_for_workers(2, timeout=LOST)


def test_collections_of_unknown_sizes_go_straight_in(client) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(9_000, 3))
    y = np.where(X[:, 0] + rng.normal(size=9_000) > 0, "yes", "no")
    held = LinearSVC(loss="hinge", tol=1e-9, solver="sampling").fit(X[X[:, 1] < 1], y[X[:, 1] < 1])
    rows = da.from_array(X, chunks=(2_000, 3))
    keep = rows[:, 1] < 1
    with dask.config.set(scheduler=client):
        model = LinearSVC(loss="hinge", tol=1e-9).fit(
            rows[keep], da.from_array(y, chunks=2_000)[keep]
        )
    np.testing.assert_allclose(model.coef_, held.coef_, rtol=1e-8)
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(X[:50])) <= {"no", "yes"}
