"""Sweeps and studies on a real cluster: a scheduler and two workers, each a process, on loopback."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import linecard
from cluster import Cluster
from linecard import tasks
from support import TESTDATA

pytest.importorskip("distributed", reason="pip install 'linecard[cluster]' to test clusters")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        yield cluster


# Promise (Python): A cluster gives the same table and the same study, bit for bit.
def test_the_cluster_gives_the_same_table_and_study(cluster: Cluster, transmit: str) -> None:
    vary = {"core.mhz": range(100, 200), "bus.policy": ["hold", "interleave"], "load.mtu": [576, 1500]}
    seen: list[int] = []
    there = linecard.sweep(transmit, vary, client=cluster.client, progress=lambda done, _of: seen.append(done))
    assert there.digest() == linecard.sweep(transmit, vary, threads=1).digest()
    assert seen[-1] == there.rows == 400
    captures = sorted((TESTDATA / "captures").iterdir())
    for what in ("flows", "merging"):
        study = linecard.study(captures, what, client=cluster.client)
        assert study.total.digest() == linecard.study(captures, what).total.digest()


def test_errors_come_from_workers_as_they_are(cluster: Cluster, transmit: str, tmp_path: Path) -> None:
    table = linecard.sweep(transmit, {"core.mhz": ["fast", 100]}, client=cluster.client)
    assert 'core.mhz=fast: "fast" is not a clock' in table["error"][0]
    with pytest.raises(linecard.UsageError, match="the cluster's workers have their own"):
        linecard.sweep(transmit, {"core.mhz": [1]}, client=cluster.client, threads=2)
    # Found out by the worker only: firmware that is not there.
    table = linecard.sweep(transmit, {"firmware.image": ["none.elf"]}, client=cluster.client, retries=0)
    assert "none.elf" in table["error"][0]


# Promise (Python): A worker that is killed during a sweep of 800 points loses nothing.
def test_a_worker_killed_in_mid_sweep_loses_nothing(cluster: Cluster, transmit: str) -> None:
    vary = {"core.mhz": range(100, 500), "bus.policy": ["hold", "interleave"]}
    killed = False

    def kill(done: int, _of: int) -> None:
        nonlocal killed
        if done >= 100 and not killed:
            killed = True
            os.kill(cluster.workers[0].pid, signal.SIGKILL)

    there = linecard.sweep(transmit, vary, client=cluster.client, chunk=10, progress=kill)
    assert killed and there["error"].tolist() == [None] * 800
    assert there.digest() == linecard.sweep(transmit, vary).digest()


def test_a_cluster_that_goes_away_is_an_error(cluster: Cluster, transmit: str) -> None:
    def kill(_done: int, _of: int) -> None:
        for process in cluster.processes:
            process.kill()

    begun = time.monotonic()
    with pytest.raises(
        linecard.ClusterError,
        match="the cluster at tcp://127.0.0.1:.* has gone away: .* of .* tasks were done",
    ):
        linecard.sweep(transmit, {"core.mhz": range(100, 1100)}, client=cluster.client, chunk=1, progress=kill)
    assert time.monotonic() - begun < 90


def test_a_scheduler_that_refuses_connections_is_an_error() -> None:
    with (
        pytest.raises(linecard.ClusterError, match="has gone away: 3 of 4 tasks were done; Timed out"),
        tasks._gone("tcp://127.0.0.1:1", lambda: "3 of 4 tasks were done"),
    ):
        raise OSError("Timed out trying to connect to tcp://127.0.0.1:1 after 30 s")


def test_the_error_of_a_task_is_not_the_clusters(cluster: Cluster, tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="none"):
        tasks.run(open, [missing], client=cluster.client, threads=1, retries=0, done=lambda _: None)  # type: ignore[arg-type]


def test_a_cluster_without_workers_is_an_error(cluster: Cluster, transmit: str) -> None:
    for worker in cluster.workers:
        worker.kill()
        worker.wait()
    deadline = time.monotonic() + 20
    while cluster.client.nthreads() and time.monotonic() < deadline:
        time.sleep(0.1)
    with pytest.raises(linecard.ClusterError, match="has no workers"):
        linecard.sweep(transmit, {"core.mhz": [100]}, client=cluster.client)
