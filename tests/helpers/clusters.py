"""A real Dask cluster of two worker processes on this machine."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask

LOST = 60.0  # seconds after which something that should happen counts as not happening
SETTINGS = {
    # How long the living try to reach the dead.
    "distributed.comm.timeouts.connect": "10s",
    # A local cluster looks some seconds after a death whether the worker is back, and gives it up
    # for good if it is not: with several deaths in a row no worker would be left.
    "distributed.deploy.lost-worker-timeout": "1h",
}


@contextmanager
def two_workers() -> Iterator[Any]:
    """Yield a client of two workers on loopback, which end with the block."""
    from distributed import Client, LocalCluster

    with warnings.catch_warnings():
        # What the cluster's own threads say about ports and restarts is not ours to judge.
        warnings.simplefilter("ignore")
        with (
            dask.config.set(SETTINGS),
            LocalCluster(
                n_workers=2,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
            ) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            client.wait_for_workers(2, timeout=LOST)
            yield client
