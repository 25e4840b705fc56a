"""Overhead of Python over the command: sweeps of 10,000 points and captures of real size, in turns.

    python python/benchmarks/overhead.py --command target/release/linecard [--points 10000] [--rounds 5]

Prints medians with their spread, and ratios round by round. The tables of one thread, of several, and of a cluster
of two worker processes, one of which is killed in the midst of another run, have to be the same bit for bit.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import linecard
from linecard.tasks import cores

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python" / "tests"))

from cluster import Cluster  # noqa: E402 - it is beside the tests, which have no package

SCENARIO = 'model = "transmit"\n[load]\nmessages = 4\n'


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def say(what: str, times: list[float], per: str = "") -> None:
    middle = statistics.median(times)
    print(f"  {what:44} {middle:8.3f} s  ({min(times):.3f} to {max(times):.3f}){per}")


def ratio(what: str, ours: list[float], theirs: list[float]) -> None:
    all_of = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    print(f"  {what:44} {statistics.median(all_of):8.3f}    ({all_of[0]:.3f} to {all_of[-1]:.3f})")


def in_turns(
    ways: dict[str, Callable[[], object]], rounds: int, of: str, count: int, unit: str, scale: float
) -> list[list[float]]:
    """Times of each way, said with what that is for each of ``count``."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, work in ways.items():
            times[name].append(timed(work))
    print(f"{of}, {rounds} rounds in turns: median (least to most)")
    for name, all_of in times.items():
        say(name, all_of, f"  {scale * statistics.median(all_of) / count:6.1f} {unit}")
    return list(times.values())


def axes(points: int) -> dict[str, range]:
    """A grid of this many points: clocks of the core and of the DMA."""
    side = int(points**0.5)
    return {"core.mhz": range(100, 100 + points // side), "dma.mhz": range(1000, 1000 + side)}


def sweeps(command: str, points: int, rounds: int, folder: Path) -> None:
    grid = axes(points)
    count = len(grid["core.mhz"]) * len(grid["dma.mhz"])
    path = folder / "scenario.toml"
    path.write_text(SCENARIO)
    vary = [f"--vary={key}={values.start}..{values.stop - 1}:1" for key, values in grid.items()]

    def by_command(threads: int) -> Callable[[], object]:
        words = [
            command,
            "model",
            "sweep",
            *vary,
            f"--threads={threads}",
            "--csv",
            "-o",
            str(folder / "t.csv"),
            str(path),
        ]
        return lambda: subprocess.run(words, check=True)

    tables: list[linecard.Table] = []

    def by_python(**options: Any) -> Callable[[], object]:
        return lambda: tables.append(linecard.sweep(path, grid, **options))

    several = cores()
    with Cluster(folder) as cluster:
        ways = {
            "the command, one thread": by_command(1),
            "Python, one thread": by_python(threads=1),
            f"the command, {several} threads": by_command(several),
            f"Python, {several} threads": by_python(threads=several),
            "Python, a cluster of two workers": by_python(client=cluster.client),
        }
        of = f"A sweep of {count} points"
        one, python_one, many, python_many, there = in_turns(ways, rounds, of, count, "us a point", 1e6)
        ratio("Python / the command, one thread", python_one, one)
        ratio(f"Python / the command, {several} threads", python_many, many)
        ratio(f"cluster / {several} threads of Python", there, python_many)
        killed = False

        def kill(done: int, of: int) -> None:
            nonlocal killed
            if not killed and done > of // 3:
                killed = True
                os.kill(cluster.workers[0].pid, signal.SIGKILL)

        took = timed(by_python(client=cluster.client, progress=kill))
        say("a cluster, a worker of two killed at a third", [took])
    digests = {table.digest() for table in tables}
    print(f"  {len(tables)} tables, {'all the same' if len(digests) == 1 else 'NOT THE SAME'}: {digests.pop()[:16]}")
    assert not digests
    lines = (folder / "t.csv").read_text().splitlines()
    assert len(lines) == count + 1 and lines[0].split(",") == list(tables[0])


def large(path: Path, copies: int) -> int:
    """A capture made of many copies of one of the project's, one behind the other in time; its packets."""
    raw = (ROOT / "testdata" / "captures" / "tcp4-bulk.pcap").read_bytes()
    packets, at = [], 24
    while at < len(raw):
        seconds, micros, there, wire = struct.unpack_from("<IIII", raw, at)
        packets.append((seconds * 10**6 + micros, there, wire, raw[at + 16 : at + 16 + there]))
        at += 16 + there
    span = packets[-1][0] - packets[0][0] + 1000
    with path.open("wb") as file:
        file.write(raw[:24])
        for copy in range(copies):
            for time_us, there, wire, data in packets:
                now = time_us + copy * span
                file.write(struct.pack("<IIII", now // 10**6, now % 10**6, there, wire) + data)
    return copies * len(packets)


def captures(command: str, copies: int, rounds: int, folder: Path) -> None:
    path, out = folder / "large.pcap", folder / "out.pcapng"
    packets = large(path, copies)
    gigabytes = path.stat().st_size / 1e9

    def arrays() -> None:
        with linecard.Capture(path) as capture:
            while len(capture.read(1 << 20)):
                pass

    def one_by_one() -> None:
        with linecard.Capture(path) as capture:
            assert sum(1 for _ in capture) == packets

    ways: dict[str, Callable[[], object]] = {
        "the command, coalesce": lambda: subprocess.run(
            [command, "coalesce", path, out], check=True, stdout=subprocess.DEVNULL
        ),
        "Python, coalesce_capture": lambda: linecard.coalesce_capture(path, out),
        "Python, study of merging": lambda: linecard.study([path], "merging"),
        "Python, arrays of times, sizes and flows": arrays,
        "Python, study of flows": lambda: linecard.study([path], "flows"),
        "Python, packet by packet": one_by_one,
    }
    of = f"A capture of {packets} packets, {gigabytes:.2f} GB"
    command_took, python_took, *_ = in_turns(ways, rounds, of, packets, "ns a packet", 1e9)
    ratio("Python / the command, coalesce", python_took, command_took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--command", required=True, help="the command, compiled for release")
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--copies", type=int, default=10_000, help="of a capture of 80 packets and 69 kB")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=base) as folder:
        print(json.dumps({"linecard": linecard.__version__, "python": sys.version.split()[0], "cores": cores()}))
        sweeps(arguments.command, arguments.points, arguments.rounds, Path(folder))
        captures(arguments.command, arguments.copies, arguments.rounds, Path(folder))


if __name__ == "__main__":
    main()
