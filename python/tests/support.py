"""Common code of the tests."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTDATA = ROOT / "testdata"
SCENARIOS = ROOT / "scenarios"


def datagram(number: int, payload: bytes) -> bytes:
    """A UDP datagram from 10.0.0.1:7 to 10.0.0.2:9."""
    length = 28 + len(payload)
    head = bytearray([0x45, 0, length >> 8, length & 255, 0, number, 0, 0, 64, 17, 0, 0])
    head += bytes([10, 0, 0, 1, 10, 0, 0, 2])
    total = sum(int.from_bytes(head[at : at + 2], "big") for at in range(0, 20, 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    head[10:12] = (total ^ 0xFFFF).to_bytes(2, "big")
    udp = len(payload) + 8
    return bytes(head) + bytes([0, 7, 0, 9, udp >> 8, udp & 255, 0, 0]) + payload
