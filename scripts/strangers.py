#!/usr/bin/env python3
"""Cost of strangers to `linecard recv`: processor time of each, and memory of many at once, over loopback.

    scripts/strangers.py [--rounds 3] [--connections 2000] [--datagrams 200000]

Medians of the rounds, of processor time of the receiver in all threads, in us for each:

    closed          a TCP connection that is closed at once
    garbage         one that brings 1,024 bytes that are no handshake
    noise           a datagram of random bytes at a lane's port, while a transfer runs
    replayed        a copy of a packet of that transfer
    forged          the same with its last byte changed

Then the memory of the receiver (resident, kB) and its threads: alone, and with 1,000 connections that say nothing from
50 addresses, of which it keeps its limit, and what the silence takes of the processor. At last, that a sender with the
key still gets through, and in which time.

The transfer has --rate 20M: what it takes alone is measured before each kind, and subtracted. Datagrams are copied from
the loopback device, which needs root; without, `replayed` and `forged` are left out. `linecard` is taken from $LINECARD
or target/release.
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LINECARD = os.environ.get("LINECARD", str(Path(__file__).parent.parent / "target/release/linecard"))
TICKS = os.sysconf("SC_CLK_TCK")
ETH_P_IP, SOL_IPV4_UDP = 0x0800, 17
SILENT, ADDRESSES = 1000, 50


class Receiver:
    """`linecard recv` on loopback, until the block ends."""

    def __init__(self, folder: str):
        self.key = f"{folder}/key"
        self.port = free_port()
        subprocess.run([LINECARD, "keys", "psk", self.key], check=True, stdout=subprocess.DEVNULL)
        command = [LINECARD, "recv", f"{folder}/in", "--keep", "--listen", f"127.0.0.1:{self.port}", "--psk", self.key]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: connects(self.port), "the receiver listens")

    def __enter__(self) -> "Receiver":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()

    def processor(self) -> float:
        """Seconds of the processor so far, of all threads and of the system for them."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def status(self, name: str) -> int:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        raise KeyError(name)

    def lane_port(self) -> int | None:
        """Of the first UDP socket that it has."""
        own = set()
        for entry in Path(f"/proc/{self.process.pid}/fd").iterdir():
            try:
                own.add(os.readlink(entry))
            except FileNotFoundError:
                continue
        for line in Path("/proc/net/udp").read_text().splitlines()[1:]:
            fields = line.split()
            if f"socket:[{fields[9]}]" in own:
                return int(fields[1].partition(":")[2], 16)
        return None

    def send(self, *arguments: str) -> subprocess.Popen:
        command = [LINECARD, "send", *arguments, f"127.0.0.1:{self.port}", "--psk", self.key]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def until(is_so, name: str) -> None:
    """Waits until it is so, 20 seconds at most."""
    limit = time.monotonic() + 20
    while not is_so():
        if time.monotonic() > limit:
            sys.exit(f"strangers: not within 20 s: {name}")
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return some.getsockname()[1]


def connects(port: int) -> bool:
    with socket.socket() as some:
        return some.connect_ex(("127.0.0.1", port)) == 0


def settled(receiver: Receiver) -> float:
    """The processor time when nothing is left to do."""
    threads = receiver.status("Threads")
    used = receiver.processor()
    while True:
        time.sleep(0.3)
        now = receiver.processor()
        if now == used and receiver.status("Threads") <= threads:
            return now
        used, threads = now, receiver.status("Threads")


def connections(receiver: Receiver, count: int, content: bytes) -> float:
    before = settled(receiver)
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", receiver.port)) as stream:
            try:
                stream.sendall(content)
            except OSError:
                pass  # It has been refused already.
    return (settled(receiver) - before) / count * 1e6


def packet_of(port: int) -> bytes | None:
    """A datagram that goes to that port."""
    try:
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
    except PermissionError:
        return None
    with tap:
        tap.bind(("lo", ETH_P_IP))
        tap.settimeout(10)
        while True:
            packet = tap.recv(1 << 16)
            header = (packet[0] & 15) * 4
            is_udp = packet[9] == SOL_IPV4_UDP
            if is_udp and int.from_bytes(packet[header + 2 : header + 4], "big") == port and len(packet) > 600:
                # Segments that loopback carries as one are cut where the receiver would.
                return packet[header + 8 :][:1452]


def datagrams(receiver: Receiver, count: int) -> dict[str, float]:
    found: dict[str, float] = {}
    sender = receiver.send("test:2G", "--rate", "20M", "--payload", "1408")
    try:
        until(lambda: receiver.lane_port() is not None, "a lane is open")
        port = receiver.lane_port()
        assert port is not None
        time.sleep(1)
        copied = packet_of(port)
        kinds = {"noise": os.urandom(1452)}
        if copied is not None:
            kinds["replayed"] = copied
            kinds["forged"] = copied[:-1] + bytes([copied[-1] ^ 1])
        for name, content in kinds.items():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                stranger.connect(("127.0.0.1", port))
                begun, used = time.monotonic(), receiver.processor()
                time.sleep(2)
                alone = (receiver.processor() - used) / (time.monotonic() - begun)
                begun, used = time.monotonic(), receiver.processor()
                for number in range(count):
                    try:
                        stranger.send(content)
                    except ConnectionRefusedError:
                        sys.exit("strangers: the lane has been closed")
                    # Not more than its socket holds.
                    if number % 32 == 31:
                        time.sleep(0.0002)
                time.sleep(0.2)
                taken = receiver.processor() - used - alone * (time.monotonic() - begun)
                found[name] = taken / count * 1e6
        if sender.poll() is not None:
            sys.exit(f"strangers: the transfer has ended: {sender.communicate()[1]}")
    finally:
        sender.terminate()
        sender.communicate()
    return found


def silence(receiver: Receiver) -> None:
    settled(receiver)
    alone, threads = receiver.status("VmRSS"), receiver.status("Threads")
    used = receiver.processor()
    streams = []
    for number in range(SILENT):
        stream = socket.socket()
        stream.bind((f"127.0.1.{1 + number % ADDRESSES}", 0))
        stream.connect(("127.0.0.1", receiver.port))
        streams.append(stream)
    time.sleep(1)
    print(f"memory alone: {alone} kB, {threads} threads")
    print(f"memory with {SILENT} silent connections: {receiver.status('VmRSS')} kB, {receiver.status('Threads')} threads")
    begun = time.monotonic()
    sender = receiver.send("test:1K")
    _, said = sender.communicate(timeout=60)
    if sender.returncode != 0:
        sys.exit(f"strangers: the sender did not get through: {said}")
    print(f"a sender with the key, beside them: done after {(time.monotonic() - begun) * 1e3:.0f} ms")
    for stream in streams:
        stream.close()
    print(f"each silent connection: {(settled(receiver) - used) / SILENT * 1e6:.0f} us of the processor")


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--datagrams", type=int, default=200_000)
    options = parser.parse_args()
    figures: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, Receiver(folder) as receiver:
        for _ in range(options.rounds):
            found = {
                "closed": connections(receiver, options.connections, b""),
                "garbage": connections(receiver, options.connections, b"x" * 1024),
                **datagrams(receiver, options.datagrams),
            }
            for name, figure in found.items():
                figures.setdefault(name, []).append(figure)
        print(f"us of the processor for each, medians of {options.rounds} rounds (least to greatest)")
        for name, values in figures.items():
            print(f"{name:10} {statistics.median(values):8.2f}   ({min(values):.2f} to {max(values):.2f})")
        silence(receiver)


if __name__ == "__main__":
    main()
