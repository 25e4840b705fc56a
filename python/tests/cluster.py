"""A real cluster for tests and benchmarks: a scheduler and two workers, each a process, on loopback."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any


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
        import distributed

        self.client = distributed.Client(scheduler_file=self.file, timeout=30)  # type: ignore[no-untyped-call]
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

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
