#!/usr/bin/env python3
"""Writes testdata/streams: a made-up stream of sound as it left a wire, and as a host had it.

    python3 scripts/make-streams.py

RTP of ST 2110-30, one channel of 16 bits, a packet each millisecond. The wire has them in time; the host has each
20 to 26 µs later, and three times stops for 2.3 ms, so that what came meanwhile is late too.
"""

import struct
from pathlib import Path

PACKETS = 600
PERIOD_NS = 1_000_000
STOP_NS = 2_300_000
STOPS = (150, 300, 450)
# Nanoseconds, raw IP.
HEAD = struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 101)


def packet(number: int) -> bytes:
    """An IPv4 packet with RTP, no checksum of UDP."""
    rtp = struct.pack(">BBHII", 0x80, 97, number, 48 * number, 1) + bytes(48 * 2)
    udp = struct.pack(">HHHH", 5004, 5004, 8 + len(rtp), 0) + rtp
    addresses = bytes([192, 0, 2, 1, 239, 0, 0, 1])
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), number, 0x4000, 64, 17, 0) + addresses
    words = sum(struct.unpack(">10H", head))
    words = (words & 0xFFFF) + (words >> 16)
    return head[:10] + struct.pack(">H", ~words & 0xFFFF) + head[12:] + udp


def host_ns(number: int) -> int:
    """How late the host has a packet; what has waited comes 10 µs apart."""
    late = number * number % 7 * 1_000
    for stop in STOPS:
        if number >= stop:
            late = max(late, STOP_NS - (number - stop) * (PERIOD_NS - 10_000))
    return 20_000 + late


def write(name: str, late_ns) -> None:
    with (Path(__file__).parent.parent / "testdata/streams" / name).open("wb") as file:
        file.write(HEAD)
        for number in range(PACKETS):
            bytes_ = packet(number)
            seconds, rest = divmod(number * PERIOD_NS + 137 + late_ns(number), 10**9)
            file.write(struct.pack("<IIII", seconds, rest, len(bytes_), len(bytes_)) + bytes_)


write("wire.pcap", lambda _: 0)
write("host.pcap", host_ns)
