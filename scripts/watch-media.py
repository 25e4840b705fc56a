#!/usr/bin/env python3
"""Streams of ffmpeg and GStreamer to multicast groups, between two namespaces, watched by `linecard jitter watch`.

    scripts/watch-media.py [--minutes 1] [--trace]

ffmpeg sends an MPEG transport stream (RTP, payload type 33) and G.711; GStreamer sends sound in packets of 1 ms (L24) and
uncompressed video (RFC 4175), all at the same time. One watcher per program follows its two groups. For each stream are
printed: packets, the share of the sender's that was followed (by RTP's sequence numbers), late packets; for each watcher
CPU time per packet and its resident memory 20 seconds after the start and at the end. Needs root, ffmpeg and GStreamer with
its good plugins (Debian: ffmpeg, gstreamer1.0-tools, gstreamer1.0-plugins-base, gstreamer1.0-plugins-good). `linecard` is
taken from $LINECARD or target/release.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LINECARD = os.environ.get("LINECARD", str(Path(__file__).parent.parent / "target/release/linecard"))
TICKS = os.sysconf("SC_CLK_TCK")
SETTLED = 20.0
PREFIX = f"watch-media-{os.getpid()}"
FFMPEG = "ffmpeg -hide_banner -loglevel error -nostdin"
GST = "gst-launch-1.0 -q"
SINK = "udpsink auto-multicast=true multicast-iface=wire"

# The program, its command in a folder with clip.ts, and its groups.
SENDERS = [
    (
        "ffmpeg",
        f"{FFMPEG} -re -stream_loop -1 -i clip.ts -c copy -f rtp_mpegts rtp://239.7.0.1:5004?pkt_size=1328 "
        "-re -f lavfi -i sine -map 1:a -c:a pcm_mulaw -ar 8000 -ac 1 -f rtp rtp://239.7.0.2:5004",
        ["239.7.0.1:5004", "239.7.0.2:5004"],
    ),
    (
        "GStreamer",
        f"{GST} audiotestsrc is-live=true samplesperbuffer=48 ! audio/x-raw,rate=48000,channels=2 ! audioconvert ! "
        f"rtpL24pay min-ptime=1000000 max-ptime=1000000 ! {SINK} host=239.7.0.3 port=5004 "
        "videotestsrc is-live=true ! video/x-raw,format=UYVY,width=320,height=240,framerate=25/1 ! rtpvrawpay ! "
        f"{SINK} host=239.7.0.4 port=5004",
        ["239.7.0.3:5004", "239.7.0.4:5004"],
    ),
]


def run(command: str) -> None:
    subprocess.run(shlex.split(command), check=True)


def inside(host: str, command: str, **options) -> subprocess.Popen:
    return subprocess.Popen(shlex.split(f"ip netns exec {PREFIX}-{host} {command}"), **options)


def lay_cable() -> None:
    for host in "ab":
        run(f"ip netns add {PREFIX}-{host}")
    run(f"ip link add wire netns {PREFIX}-a type veth peer name wire netns {PREFIX}-b")
    for host, address in [("a", "10.7.0.1/24"), ("b", "10.7.0.2/24")]:
        run(f"ip -n {PREFIX}-{host} address add {address} dev wire")
        run(f"ip -n {PREFIX}-{host} link set wire up")
        run(f"ip -n {PREFIX}-{host} link set lo up")
        run(f"ip -n {PREFIX}-{host} route add 239.0.0.0/8 dev wire")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mb(pid: int) -> float:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024 / 1e6


def report(name: str, figures: dict, cpu: float, memory: list[float]) -> bool:
    all_packets, is_good = 0, True
    for stream, answer in zip(figures["packets"], figures["streams"], strict=True):
        came, late = stream["value"], answer["value"]
        followed = came["packets"] - came.get("duplicates", 0)
        sent = followed + came.get("lost", 0)
        share = 100 * followed / sent if sent else 0.0
        is_good &= share >= 99.9
        all_packets += came["packets"]
        print(
            f"{name:10} {stream['label']}  {late['kind']}, {late['schedule']}: {came['packets']} packets in "
            f"{came['seconds']:.0f} s, {share:.3f} % followed, dropped {came['dropped']}, later than "
            f"{late['limit_ns'] / 1e6:g} ms {late['late']} of {late['judged']}"
        )
    for cause in figures.get("causes", [])[:6]:
        print(f"{name:10} {cause['label']}  {cause['value']['cause']}: {cause['value']['packets']} packets")
    print(
        f"{name:10} watcher: {cpu / max(all_packets, 1) * 1e6:.1f} µs of CPU per packet, "
        f"memory {memory[0]:.1f} MB after {SETTLED:.0f} s, {memory[1]:.1f} MB at the end"
    )
    return is_good


def watch(minutes: float, trace: bool, folder: Path) -> bool:
    watchers, senders = [], []
    try:
        for name, _, groups in SENDERS:
            options = "--trace" if trace else ""
            command = f"{LINECARD} jitter watch {' '.join(groups)} --interface wire --json {options}"
            watchers.append(inside("b", command, stdout=open(folder / name, "w"), stderr=subprocess.DEVNULL))
        for _, command, _ in SENDERS:
            senders.append(inside("a", command, cwd=folder, stdout=subprocess.DEVNULL))
        begun = time.monotonic()
        time.sleep(SETTLED)
        before = [resident_mb(watcher.pid) for watcher in watchers]
        while time.monotonic() - begun < max(60 * minutes, SETTLED):
            time.sleep(1)
            dead = [sender.args for sender in senders if sender.poll() is not None]
            assert not dead, f"ended early: {dead}"
        used = [(cpu_seconds(watcher.pid), resident_mb(watcher.pid)) for watcher in watchers]
        for watcher in watchers:
            watcher.send_signal(signal.SIGINT)
            watcher.wait()
    finally:
        for process in senders + watchers:
            process.kill()
            process.wait()
    results = []
    for (name, _, _), first, (cpu, last) in zip(SENDERS, before, used, strict=True):
        results.append(report(name, json.loads((folder / name).read_text()), cpu, [first, last]))
    return all(results)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1, help="how long (default: %(default)s)")
    parser.add_argument("--trace", action="store_true", help="name causes of late packets")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        clip = "-f lavfi -i testsrc2=size=640x360:rate=25 -t 10 -c:v mpeg2video -b:v 6M -f mpegts clip.ts"
        subprocess.run(shlex.split(f"{FFMPEG} {clip}"), check=True, cwd=folder)
        try:
            lay_cable()
            return 0 if watch(arguments.minutes, arguments.trace, Path(folder)) else 1
        finally:
            for host in "ab":
                subprocess.run(["ip", "netns", "delete", f"{PREFIX}-{host}"], check=False)


if __name__ == "__main__":
    sys.exit(main())
