"""The offloads on bytes."""

from __future__ import annotations

import numpy as np
import pytest

import linecard
from support import TESTDATA, datagram


def merged(frames: list[bytes]) -> list[linecard.Merged]:
    coalescer = linecard.Coalescer()
    left = [out for at, frame in enumerate(frames) for out in coalescer.push(frame, at * 1000, link="raw")]
    return left + coalescer.flush()


def test_datagrams_merge_and_come_back(frames: list[bytes]) -> None:
    (one,) = merged(frames)
    assert (one.segments, one.segment_size, one.was_held, one.time_ns) == (3, 4, True, 0)
    assert one.data.endswith(b"linecardok") and len(one) == 28 + 10
    assert one.originals() == frames
    assert one.reason and one.explanation and "3 packets" in repr(one)


# Promise (Python): Packets merged by a `Coalescer` are restored byte for byte.
def test_every_capture_comes_back_byte_for_byte() -> None:
    for path in sorted((TESTDATA / "captures").iterdir()):
        links = {1: "ethernet", 101: "raw", 113: "linux-sll", 276: "linux-sll2"}
        coalescer = linecard.Coalescer()
        came: dict[int, list[bytes]] = {}
        left: list[linecard.Merged] = []
        for packet in linecard.Capture(path):
            came.setdefault(packet.interface, []).append(packet.data)
            left += coalescer.push(
                packet.data,
                packet.time_ns,
                link=links[packet.link_type],  # type: ignore[arg-type]
                lane=packet.interface,
            )
        left += coalescer.flush()
        for lane, frames in came.items():
            back = [frame for out in left if out.lane == lane for frame in out.originals()]
            assert sorted(back) == sorted(frames), path.name
        counters = coalescer.counters()
        assert counters["packets_in"] == sum(map(len, came.values()))
        assert counters["packets_in"] == counters["packets_out"] + counters["merged"]
        assert sum(counters["flushed"].values()) + counters["passed"] == counters["packets_out"]


def test_time_lets_go(frames: list[bytes]) -> None:
    coalescer = linecard.Coalescer(hold_ns=50_000)
    assert coalescer.push(frames[0], 1_000, link="raw") == []
    assert coalescer.held == 1
    due = coalescer.next_wakeup_ns
    assert due is not None and 1_000 < due <= 51_000 + 100_000
    (out,) = coalescer.advance(10_000_000)
    assert out.data == frames[0] and coalescer.held == 0 and coalescer.next_wakeup_ns is None


def test_segments_are_what_was_merged(frames: list[bytes]) -> None:
    whole = datagram(1, b"linecardok")
    cut = linecard.segment(whole, 4, link="raw")
    assert [frame[28:] for frame in cut] == [b"line", b"card", b"ok"]
    assert cut == frames
    assert linecard.segment(whole, 100, link="raw") == [whole]


def test_fragments_fit() -> None:
    whole = datagram(1, bytes(1000))
    pieces = linecard.fragment(whole, 300, link="raw")
    assert max(map(len, pieces)) <= 300 and len(pieces) == 4
    assert b"".join(piece[20:] for piece in pieces) == whole[20:]


@pytest.mark.parametrize("kind", [bytearray, memoryview, lambda data: np.frombuffer(data, dtype=np.uint8)])
def test_any_buffer_of_bytes_will_do(kind: type, frames: list[bytes]) -> None:
    assert linecard.segment(kind(frames[0]), 2, link="raw") == linecard.segment(frames[0], 2, link="raw")
    assert linecard.Coalescer().push(kind(frames[0]), 0, link="raw") == []


def test_wrong_bytes_are_named(frames: list[bytes]) -> None:
    coalescer = linecard.Coalescer()
    gaps = memoryview(frames[0])[::2]
    with pytest.raises(BufferError, match="data: this buffer has gaps"):
        coalescer.push(gaps, 0)
    with pytest.raises(BufferError, match="gaps"):
        linecard.segment(np.zeros((8, 8), dtype=np.uint8)[:, 1], 4)
    for wrong in ("text", 7, None, np.zeros(9, dtype=np.uint32)):
        with pytest.raises(TypeError, match=r"data: .* has no bytes: give bytes"):
            coalescer.push(wrong, 0)  # type: ignore[arg-type]
    with pytest.raises(linecard.UsageError, match="data: a frame of 0 bytes"):
        coalescer.push(b"", 0)
    with pytest.raises(linecard.UsageError, match="data: not a whole TCP or UDP|data: .*"):
        linecard.segment(b"no packet", 100)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_size": 100}, "max_size 100: choose 576 to 524288"),
        ({"hold_ns": 0}, "hold_ns 0: choose 1 to 10000000000"),
        ({"hold_ns": -5}, "hold_ns -5: choose 1 to"),
        ({"max_flows": 2**40}, "max_flows 1099511627776: choose 8 to 4194304"),
    ],
)
def test_wrong_settings_are_named(options: dict[str, int], text: str) -> None:
    with pytest.raises(linecard.UsageError, match=text):
        linecard.Coalescer(**options)  # type: ignore[arg-type]


def test_wrong_times_and_links_are_named(frames: list[bytes]) -> None:
    coalescer = linecard.Coalescer()
    with pytest.raises(ValueError, match="time_ns -1: choose 0 to"):
        coalescer.push(frames[0], -1)
    with pytest.raises(ValueError, match='link "token-ring": choose ethernet'):
        coalescer.push(frames[0], 0, link="token-ring")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="lane -1: choose"):
        coalescer.push(frames[0], 0, lane=-1)
    with pytest.raises(ValueError, match="mss 0: choose 1 to 65535"):
        linecard.segment(frames[0], 0)
    with pytest.raises(ValueError, match="mtu 20: choose 68 to 65535"):
        linecard.fragment(frames[0], 20)


# Promise (Python): 2,000 random frames pass a `Coalescer` unchanged.
def test_hostile_bytes_are_passed() -> None:
    random = np.random.default_rng(7)
    coalescer = linecard.Coalescer()
    count = 0
    for number in range(2_000):
        frame = random.integers(0, 256, size=int(random.integers(1, 200)), dtype=np.uint8)
        frame[: min(1, len(frame))] = 0x45
        count += len(coalescer.push(frame, number, link="raw"))
    assert count + len(coalescer.flush()) == 2_000
