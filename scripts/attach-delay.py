#!/usr/bin/env python3
"""Delay, throughput and losses through `linecard attach`, beside the kernel's own path, in turns.

    scripts/attach-delay.py [--rounds 3] [--only xdp] [--columns ping,one] [--quick] [--options "--profile latency"]...
                            [--testpmd] [--congestion cubic] [--peer-core 0] [--far tap:lc0,no-offloads]

Two hosts of scripts/lab.sh; the far port is a TAP device. Needs root, iproute2, ethtool and iperf3. Each way is
measured once a round, and medians over rounds are printed. Round trips in us, median and 99th percentile:

    ping        lone pings, every 2 ms
    udp         requests and answers from one socket, as fast as answers arrive
    connection  a new TCP connection, a request, and 3,000 bytes back
    fetch       100,000 bytes, each over a connection of its own, 200 at a time (ms), and how many in a second
    beside      pings beside a TCP connection limited to 2 Gbit/s; lost ones are those without an answer in a second
    crowd       pings beside 100 connections that nothing limits

    many        100 connections (iperf3 -P 100): Gbit/s, segments sent again, those of them that had arrived (loss
                probes of TCP, which the receiver reports as duplicates), and packets lost in the receive ring of
                AF_XDP and on the veth
    one, out    one connection to the host, and from it: Gbit/s, CPU seconds of linecard and of the whole machine
                for each GB

--columns chooses among them. TCP of both ends uses --congestion: BBR, the default of some machines, sends by timers,
and measures these. The peer's TCP runs in the thread that sends to it, which is that of linecard, or with --peer-core
on that core, as it would on a machine of its own. --options gives a further way for each kind of port, with
options of the port first, as ",generic --merge none"; `linecard` is taken from
$LINECARD or target/release. --testpmd adds the chains that DPDK has for it: its checksum engine with and without GRO
between its driver of a packet socket or of AF_XDP and its driver of TAP devices (Debian: dpdk-tests or dpdk, and the
drivers librte-net-af-packet, -af-xdp, -tap), whose forwarding thread never sleeps.
"""

import argparse
import asyncio
import json
import os
import shlex
import signal
import socket
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path

LAB = str(Path(__file__).with_name("lab.sh"))
LINECARD = os.environ.get("LINECARD", str(Path(__file__).parent.parent / "target/release/linecard"))
HOST, PEER, ADDRESS = "lab-host", "lab-peer", "10.77.0.2"
UDP_PORT, TCP_PORT, ANSWER = 7007, 7008, 3000
FETCH_PORT, FETCHED, FETCHERS = 7009, 100_000, 200
COLUMNS = ["ping", "udp", "connection", "beside", "crowd", "fetch", "many", "one", "out"]
TICKS = os.sysconf("SC_CLK_TCK")


def inside(namespace: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", namespace, *command]


def put(namespace: str, file: str, text: str) -> None:
    subprocess.run(inside(namespace, "sh", "-c", f"echo {text} > {file}"), check=True)


def own(namespace: str, *arguments: str) -> list[str]:
    return inside(namespace, sys.executable, __file__, *arguments)


# Servers and clients, which run in the namespaces.


def serve(congestion: str) -> None:
    """Answers datagrams, requests of connections, and fetches; the kernel answers pings."""
    if os.fork() == 0:
        asyncio.run(serve_fetches(congestion))
    if os.fork() == 0:
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind((ADDRESS, UDP_PORT))
        print("ready", flush=True)
        while True:
            data, peer = udp.recvfrom(2048)
            udp.sendto(data, peer)
    tcp = socket.create_server((ADDRESS, TCP_PORT), backlog=256)
    print("ready", flush=True)
    while True:
        connection, _ = tcp.accept()
        connection.recv(100)
        connection.sendall(bytes(ANSWER))
        connection.close()


async def serve_fetches(congestion: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(bytes(FETCHED))
        await writer.drain()
        writer.close()

    listener = socket.create_server((ADDRESS, FETCH_PORT), backlog=2 * FETCHERS)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
    server = await asyncio.start_server(answer, sock=listener)
    print("ready", flush=True)
    await server.serve_forever()


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def ping(count: int, interval: float) -> list[float]:
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    raw.settimeout(1)
    # Answers only, and the namespace has no other pings.
    raw.setsockopt(255, 1, struct.pack("I", ~(1 << 0) & 0xFFFFFFFF))
    times = []
    for number in range(count):
        data = struct.pack(">BBHHH", 8, 0, 0, 77, number) + bytes(56)
        data = data[:2] + struct.pack(">H", checksum(data)) + data[4:]
        begun = time.perf_counter()
        raw.sendto(data, (ADDRESS, 0))
        try:
            while struct.unpack(">H", raw.recv(2048)[26:28])[0] != number:
                pass
        except TimeoutError:
            continue
        times.append(time.perf_counter() - begun)
        time.sleep(interval)
    return times


def requests(count: int) -> list[float]:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.connect((ADDRESS, UDP_PORT))
    udp.settimeout(1)
    times = []
    for number in range(count):
        data = struct.pack(">I", number) + bytes(60)
        begun = time.perf_counter()
        udp.send(data)
        try:
            while udp.recv(2048)[:4] != data[:4]:
                pass
        except TimeoutError:
            continue
        times.append(time.perf_counter() - begun)
    return times


def connections(count: int) -> list[float]:
    times = []
    for _ in range(count):
        begun = time.perf_counter()
        with socket.create_connection((ADDRESS, TCP_PORT)) as tcp:
            tcp.sendall(bytes(100))
            got = 0
            while got < ANSWER:
                got += len(tcp.recv(65536))
        times.append(time.perf_counter() - begun)
    return times


async def fetch_all(count: int) -> list[float]:
    left, times = iter(range(count)), []

    async def fetcher() -> None:
        for _ in left:
            begun = time.perf_counter()
            reader, writer = await asyncio.open_connection(ADDRESS, FETCH_PORT)
            writer.write(bytes(100))
            await reader.readexactly(FETCHED)
            times.append(time.perf_counter() - begun)
            writer.close()

    begun = time.perf_counter()
    await asyncio.gather(*(fetcher() for _ in range(FETCHERS)))
    # The time of all stands in front, negative: they overlap.
    return [begun - time.perf_counter(), *times]


def fetches(count: int) -> list[float]:
    return asyncio.run(fetch_all(count))


# The machine, and one way through it.


def machine_seconds() -> float:
    """CPU seconds of the whole machine that were not idle."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    busy = [int(field) for at, field in enumerate(fields) if at not in (3, 4) and at < 8]
    return sum(busy) / TICKS


def process_seconds(process: subprocess.Popen | None) -> float:
    if process is None:
        return 0.0
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Way:
    """A host behind the kernel's own path, or behind an attachment."""

    congestion = "cubic"
    far = "tap:lc0"
    peer_core: int | None = None

    def __init__(self, near: str | None, options: str):
        self.near, self.options = near, options
        self.name = "kernel" if near is None else f"{near} {options}".strip()

    def start_linecard(self) -> subprocess.Popen:
        ready, told = os.pipe()
        # Options of the port stand first, behind a comma.
        port, _, options = self.options.partition(" ") if self.options.startswith(",") else ("", "", self.options)
        command = [LINECARD, "attach", f"{self.near}:wire{port}", self.far, f"--ready-fd={told}", "--interval=3600s"]
        process = subprocess.Popen(
            inside(HOST, *command, *shlex.split(options)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[told],
        )
        os.close(told)
        assert os.read(ready, 7) == b"READY=1", f"{self.name}: attach did not start"
        os.close(ready)
        return process

    def start_testpmd(self) -> subprocess.Popen:
        driver = self.near.removeprefix("testpmd:")
        ring = ",blocksz=1048576,framesz=2048,framecnt=8192" if driver == "af_packet" else ""
        command = ["stdbuf", "-oL", "dpdk-testpmd", "-l", "0-1", "--no-huge", "-m", "512", "--no-pci", "--no-telemetry"]
        command += [f"--file-prefix={HOST}", f"--vdev=net_{driver}0,iface=wire{ring}", "--vdev=net_tap0,iface=lc0"]
        command += ["--", "-i", "--forward-mode=csum", "--nb-cores=1", "--total-num-mbufs=65536"]
        process = subprocess.Popen(
            inside(HOST, *command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        # It waits for the link of the device, which it makes itself.
        while subprocess.run(["ip", "-n", HOST, "link", "set", "lc0", "up"], stderr=subprocess.DEVNULL).returncode:
            assert process.poll() is None, f"{self.name}: testpmd ended"
            time.sleep(0.1)
        merge = "off" if "none" in self.options else "on"
        lines = ["port stop all", f"set port 0 gro {merge}", f"set port 1 gro {merge}", "set gro flush 1"]
        lines += ["csum mac-swap off 0", "csum mac-swap off 1", "port start all", "set promisc all on", "start"]
        process.stdin.write("".join(f"{line}\n" for line in lines))
        process.stdin.flush()
        while "packet forwarding" not in process.stdout.readline():
            assert process.poll() is None, f"{self.name}: testpmd ended"
        return process

    def __enter__(self) -> "Way":
        subprocess.run([LAB, "up"], check=True)
        for namespace in (HOST, PEER):
            # iperf3 says later which one to use, and connections that began with BBR would stay paced.
            put(namespace, "/proc/sys/net/ipv4/tcp_congestion_control", "reno")
        if self.peer_core is not None:
            put(PEER, "/sys/class/net/wire/queues/rx-0/rps_cpus", f"{1 << self.peer_core:x}")
        self.process, device = None, "wire"
        if self.near:
            self.process = self.start_testpmd() if "testpmd" in self.near else self.start_linecard()
            device = "lc0"
        subprocess.run(["ip", "-n", HOST, "address", "add", f"{ADDRESS}/24", "dev", device], check=True)
        self.server = subprocess.Popen(own(HOST, "serve", self.congestion), stdout=subprocess.PIPE, start_new_session=True)
        assert all(self.server.stdout.readline() for _ in range(3))
        self.iperf = subprocess.Popen(
            inside(HOST, "iperf3", "-s", "--forceflush"), stdout=subprocess.PIPE, text=True
        )
        while "listening" not in self.iperf.stdout.readline():
            pass
        self.iperf.stdout.close()
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self.server.pid, signal.SIGKILL)
        self.server.wait()
        self.iperf.terminate()
        self.iperf.wait()
        if self.process:
            self.process.terminate()
            self.process.wait()
        subprocess.run([LAB, "down"], check=True)

    def client(self, *arguments: str, real_time: bool = False) -> list[float]:
        priority = ["chrt", "-r", "2"] if real_time else []
        output = subprocess.run([*priority, *own(PEER, *arguments)], check=True, capture_output=True).stdout
        return sorted(json.loads(output))

    def send(self, *options: str) -> dict:
        """An iperf3 client's sums: bits per second and segments sent again."""
        command = inside(PEER, "iperf3", "-c", ADDRESS, "-J", "-C", self.congestion, *options)
        output = subprocess.run(command, check=True, capture_output=True).stdout
        return json.loads(output)["end"]

    def arrived(self) -> int:
        """Segments that the peer has sent again and the host had received before."""
        told = subprocess.run(inside(PEER, "nstat", "-asz", "TcpExtTCPDSACKRecvSegs"), check=True, capture_output=True)
        return int(float(told.stdout.split()[-2]))

    def lost(self) -> int:
        """Packets lost on the veth, and in rings behind it as far as the veth knows of them (AF_XDP)."""

        def of(namespace: str, direction: str) -> int:
            show = ["ip", "-s", "-j", "-n", namespace, "link", "show", "wire"]
            link = json.loads(subprocess.run(show, check=True, capture_output=True).stdout)[0]
            return link["stats64"][direction]["dropped"]

        return of(PEER, "tx") + of(HOST, "rx")

    def measure(self, columns: list[str], scale: float) -> dict[str, float]:
        got = {}
        for column in columns:
            got |= getattr(self, column)(scale)
        return got

    def ping(self, scale: float) -> dict[str, float]:
        return percentiles("ping", self.client("ping", str(int(500 * scale))))

    def udp(self, scale: float) -> dict[str, float]:
        return percentiles("udp", self.client("udp", str(int(5000 * scale))))

    def connection(self, scale: float) -> dict[str, float]:
        return percentiles("connection", self.client("connection", str(int(1500 * scale))))

    def beside(self, scale: float) -> dict[str, float]:
        return self.pings_beside("beside", scale, "-b", "2G")

    def crowd(self, scale: float) -> dict[str, float]:
        return self.pings_beside("crowd", scale, "-P", "100")

    def pings_beside(self, name: str, scale: float, *options: str) -> dict[str, float]:
        # It outlasts the pings, however long they take, and is ended then.
        command = ["iperf3", "-c", ADDRESS, "-C", self.congestion, "-t", "60", *options]
        load = subprocess.Popen(inside(PEER, *command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)
        count = int(500 * scale)
        # They are to show how long packets wait, not their client. Without load, waking it up would take longer.
        times = self.client("ping", str(count), real_time=True)
        load.terminate()
        load.wait()
        return percentiles(name, times) | {f"{name} lost": count - len(times)}

    def fetch(self, scale: float) -> dict[str, float]:
        count = int(4000 * scale)
        overlapped, *times = self.client("fetch", str(count))
        got = {name: value / 1e3 for name, value in percentiles("fetch", times).items()}
        return got | {"fetches/s": count / -overlapped}

    def many(self, scale: float) -> dict[str, float]:
        arrived, lost = self.arrived(), self.lost()
        end = self.send("-P", "100", "-t", seconds(scale))
        return {
            "many gbps": end["sum_received"]["bits_per_second"] / 1e9,
            "many resent": end["sum_sent"]["retransmits"],
            "many arrived": self.arrived() - arrived,
            "many lost": self.lost() - lost,
        }

    def one(self, scale: float) -> dict[str, float]:
        return self.stream("one", scale)

    def out(self, scale: float) -> dict[str, float]:
        return self.stream("out", scale, "-R")

    def stream(self, name: str, scale: float, *options: str) -> dict[str, float]:
        before = process_seconds(self.process), machine_seconds()
        end = self.send("-t", seconds(scale), *options)
        gigabytes = end["sum_received"]["bytes"] / 1e9
        return {
            f"{name} gbps": end["sum_received"]["bits_per_second"] / 1e9,
            f"{name} own s/GB": (process_seconds(self.process) - before[0]) / gigabytes,
            f"{name} all s/GB": (machine_seconds() - before[1]) / gigabytes,
        }


def seconds(scale: float) -> str:
    return str(max(1, int(2 * scale)))


def percentiles(name: str, times: list[float]) -> dict[str, float]:
    at = lambda share: 1e6 * times[min(len(times) - 1, int(len(times) * share))]
    return {f"{name} 50": at(0.5), f"{name} 99": at(0.99)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="ways whose name contains it")
    parser.add_argument("--columns", default=",".join(COLUMNS), help="what is measured")
    parser.add_argument("--quick", action="store_true", help="a quarter of the packets")
    parser.add_argument("--options", action="append", default=[], help="a further way for each port")
    parser.add_argument("--testpmd", action="store_true", help="DPDK's chains, too")
    parser.add_argument("--congestion", default=Way.congestion, help="congestion control of both ends")
    parser.add_argument("--peer-core", type=int, help="the core of the peer's TCP")
    parser.add_argument("--far", default=Way.far, help="the far port")
    arguments = parser.parse_args()
    Way.congestion, Way.peer_core, Way.far = arguments.congestion, arguments.peer_core, arguments.far
    options = ["", "--merge none", *arguments.options]
    ways = [Way(None, "")] + [Way(near, more) for near in ("xdp", "packet") for more in options]
    if arguments.testpmd:
        drivers = [f"testpmd:{driver}" for driver in ("af_packet", "af_xdp")]
        ways += [Way(near, more) for near in drivers for more in ("", "--merge none")]
    ways = [way for way in ways if arguments.only in way.name or way.near is None]
    results: dict[str, list[dict[str, float]]] = {way.name: [] for way in ways}
    for _ in range(arguments.rounds):
        for way in ways:
            with way:
                results[way.name].append(way.measure(arguments.columns.split(","), 0.25 if arguments.quick else 1))
    columns = list(results["kernel"][0])
    print("| |", " | ".join(columns), "|")
    print("|---" * (len(columns) + 1) + "|")
    for name, rounds in results.items():
        middle = [statistics.median(round_[column] for round_ in rounds) for column in columns]
        print(f"| {name} |", " | ".join(f"{value:.2f}" if value < 10 else f"{value:,.0f}" for value in middle), "|")
    print("load", *os.getloadavg())


CLIENTS = {
    "ping": lambda count: ping(count, 0.002),
    "udp": requests,
    "connection": connections,
    "fetch": fetches,
}

if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", congestion]:
            serve(congestion)
        case [client, count] if client in CLIENTS:
            print(json.dumps(CLIENTS[client](int(count))))
        case _:
            main()
