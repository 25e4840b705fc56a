"""Sweeps and studies on a real cluster: a scheduler and two workers, each a process, on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import linecard
from support import TESTDATA

distributed = pytest.importorskip("distributed", reason="pip install 'linecard[cluster]' to test clusters")


class Cluster:
    """A scheduler and workers of our own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.client: Any = None
        try:
            self.begin()
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        folder = self.folder
        address = folder / "scheduler.json"
        local = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(address)]
        self.scheduler = self.start("scheduler", "--port", "0", *local)
        deadline = time.monotonic() + 30
        while not address.exists():
            assert time.monotonic() < deadline, "the scheduler does not come up"
            time.sleep(0.05)
        self.file = str(address)
        self.workers = [self.worker(number) for number in range(2)]
        self.client = distributed.Client(scheduler_file=self.file, timeout=30)
        self.client.wait_for_workers(2, timeout=60)

    def worker(self, number: int) -> subprocess.Popen[bytes]:
        local = ["--host", "127.0.0.1", "--no-dashboard", "--no-nanny", "--nthreads", "1"]
        files = ["--scheduler-file", self.file, "--local-directory", str(self.folder / f"worker-{number}")]
        return self.start("worker", *local, *files)

    def start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "distributed.cli.dask_" + what, *options]
        log = (self.folder / f"{what}.log").open("ab")
        # Only signals that are sent to them end them.
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self.processes.append(process)
        return process

    def close(self) -> None:
        try:
            if self.client is not None:
                self.client.close(timeout=2)
        finally:
            for process in self.processes:
                process.kill()
                process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


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
    assert 'core.mhz=fast: "fast" is no clock' in table["error"][0]
    with pytest.raises(linecard.UsageError, match="the cluster's workers have their own"):
        linecard.sweep(transmit, {"core.mhz": [1]}, client=cluster.client, threads=2)
    # Found out by the worker only: firmware that is not there.
    with pytest.raises(linecard.UsageError, match="none.elf"):
        linecard.sweep(transmit, {"firmware.image": ["none.elf"]}, client=cluster.client, retries=0)


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


def test_a_cluster_without_workers_is_an_error(cluster: Cluster, transmit: str) -> None:
    for worker in cluster.workers:
        worker.kill()
        worker.wait()
    deadline = time.monotonic() + 20
    while cluster.client.nthreads() and time.monotonic() < deadline:
        time.sleep(0.1)
    with pytest.raises(linecard.ClusterError, match="has no workers"):
        linecard.sweep(transmit, {"core.mhz": [100]}, client=cluster.client)
