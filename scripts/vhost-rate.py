#!/usr/bin/env python3
"""Packets a second between two vhost-user sockets, through `linecard attach` beside DPDK's own vhost, in turns.

    scripts/vhost-rate.py [--rounds 5] [--seconds 4] [--size 64] [--options "--idle spin"]...

A testpmd with two virtio-user ports sends bursts around a circle: out of one port, through what is measured, back in at
the other. Beside `linecard attach vhost:… vhost:…`, what is measured is a second testpmd with two ports of DPDK's vhost
library, which only forwards. Both ends have one thread that forwards, pinned to a core of its own. Printed are medians
(lowest to highest) of packets a second at one port of the first testpmd, of their ratio to those of DPDK's vhost in the same
round, and CPU seconds of what is measured for each million packets. Needs root and dpdk-testpmd with its drivers for virtio and vhost (Debian: dpdk, librte-net-virtio23,
librte-net-vhost23); takes 512 large pages while it runs. `linecard` is taken from $LINECARD or target/release.
"""

import argparse
import os
import re
import shlex
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

LINECARD = os.environ.get("LINECARD", str(Path(__file__).parent.parent / "target/release/linecard"))
PAGES = Path("/proc/sys/vm/nr_hugepages")
TICKS = os.sysconf("SC_CLK_TCK")
BURST, BURSTS = 32, 8
PRIORITY: list[str] = []


class Testpmd:
    """A testpmd that forwards between its two ports."""

    def __init__(self, name: str, core: int, devices: list[str], options: list[str]):
        # Its main thread, which only takes commands, is on the other of the two cores.
        command = [*PRIORITY, "stdbuf", "-oL", "dpdk-testpmd", "-l", "0,1", f"--main-lcore={1 - core}", "--in-memory"]
        command += ["--single-file-segments", "-m", "400", "--no-pci"]
        command += ["--no-telemetry", f"--file-prefix={name}", *(f"--vdev={device}" for device in devices)]
        command += ["--", "-i", "--nb-cores=1", "--total-num-mbufs=16384", *options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.pid = self.process.pid

    def say(self, line: str, until: str) -> str:
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.read(until)

    def read(self, until: str) -> str:
        said = ""
        while until not in said:
            line = self.process.stdout.readline()
            assert line, f"testpmd ended: {said}"
            said += line
        return said

    def received(self) -> int:
        """Packets that port 0 has received."""
        said = self.say("show port stats 0", "Throughput")
        return int(re.search(r"RX-packets: (\d+)", said).group(1))

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


def seconds_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measure(options: str | None, size: int, seconds: float) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        sockets = [f"{folder}/{name}" for name in "ab"]
        if options is None:
            devices = [f"eth_vhost{at},iface={socket}" for at, socket in enumerate(sockets)]
            back = Testpmd("vhost-back", 0, devices, ["--auto-start", "--forward-mode=io"])
        else:
            command = [*PRIORITY, LINECARD, "attach", *(f"vhost:{socket}" for socket in sockets), *shlex.split(options)]
            command += ["--interval=3600s", "--keep-rights", "--cores=0"]
            back = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not all(os.path.exists(socket) for socket in sockets):
            assert options is None or back.poll() is None, "attach ended"
            time.sleep(0.1)
        devices = [f"virtio_user{at},path={socket},queue_size=1024" for at, socket in enumerate(sockets)]
        front = Testpmd("vhost-front", 1, devices, [f"--txpkts={size}", "--forward-mode=io"])
        front.say(f"start tx_first {BURSTS}", "packet forwarding")
        time.sleep(1)
        packets, begun, spent = front.received(), time.monotonic(), seconds_of(back.pid)
        time.sleep(seconds)
        packets = front.received() - packets
        took, spent = time.monotonic() - begun, seconds_of(back.pid) - spent
        front.end()
        if options is None:
            back.end()
        else:
            back.terminate()
            back.wait()
        return packets / took / 1e6, spent / max(packets / 1e6, 1e-9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--size", type=int, default=64, help="bytes of a packet")
    parser.add_argument("--options", action="append", default=[], help="a further way of linecard")
    parser.add_argument("--realtime", action="store_true", help="both ends have it, beside other programs")
    arguments = parser.parse_args()
    if arguments.realtime:
        PRIORITY.extend(["chrt", "-r", "1"])
    ways = {"DPDK's vhost": None, "linecard": "", "linecard --merge none": "--merge none"}
    ways |= {f"linecard {options}": options for options in arguments.options}
    results = {name: [] for name in ways}
    before = PAGES.read_text()
    PAGES.write_text("512")
    try:
        for _ in range(arguments.rounds):
            for name, options in ways.items():
                results[name].append(measure(options, arguments.size, arguments.seconds))
    finally:
        PAGES.write_text(before)
    print("| | million packets/s | of DPDK's | CPU s per million |")
    print("|---|---|---|---|")
    for name, rounds in results.items():
        rates, spent = zip(*rounds)
        shares = [rate / peer for rate, (peer, _) in zip(rates, results["DPDK's vhost"])]
        texts = [f"{statistics.median(of):.2f} ({min(of):.2f} to {max(of):.2f})" for of in (rates, shares)]
        print(f"| {name} | {texts[0]} | {texts[1]} | {statistics.median(spent):.2f} |")
    print("load", *os.getloadavg())


if __name__ == "__main__":
    main()
