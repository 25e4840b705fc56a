"""Captures: packet by packet and as arrays, against the plain reading of the format."""

from __future__ import annotations

import pickle
import struct
import threading
from pathlib import Path

import numpy as np
import pytest

import linecard
from support import TESTDATA

CAPTURES = sorted((TESTDATA / "captures").iterdir())


def plainly(path: Path) -> list[tuple[int, bytes, int]]:
    """A pcap file by hand: time, bytes, length on the wire."""
    raw = path.read_bytes()
    order = "<" if raw[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    unit = 1 if raw[:4] in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d") else 1000
    at, packets = 24, []
    while at < len(raw):
        seconds, fraction, there, wire = struct.unpack_from(order + "IIII", raw, at)
        at += 16 + there
        packets.append((seconds * 10**9 + fraction * unit, raw[at - there : at], wire))
    return packets


# Promise (Python): Packets of a capture are those of the file: 17 pcap files beside a plain reading
# of the format.
@pytest.mark.parametrize("path", [path for path in CAPTURES if path.suffix == ".pcap"], ids=lambda path: path.name)
def test_packets_are_those_of_the_file(path: Path) -> None:
    expected = plainly(path)
    with linecard.Capture(path) as capture:
        assert [(packet.time_ns, packet.data, packet.wire_length) for packet in capture] == expected
    with linecard.Capture(path) as capture:
        packets = capture.read()
    assert packets.time_ns.tolist() == [time for time, _, _ in expected]
    assert packets.wire_length.tolist() == [wire for _, _, wire in expected]
    assert packets.captured_length.tolist() == [len(data) for _, data, _ in expected]
    assert packets.time_ns.dtype == np.uint64 and packets.flow.dtype == np.int32


# Promise (Python): Arrays that are read in parts are the whole capture.
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_arrays_in_parts_are_the_whole(path: Path) -> None:
    whole = linecard.Capture(path).read()
    flows: list[linecard.Flow] = []
    with linecard.Capture(path) as capture:
        parts = []
        while len(part := capture.read(7)):
            parts.append(part)
            assert part.flows[: len(flows)] == flows, "flows keep their numbers"
            flows = part.flows
    assert all(len(part) == 7 for part in parts[:-1])
    for name in ("time_ns", "wire_length", "captured_length", "interface", "flow"):
        together = np.concatenate([getattr(part, name) for part in parts])
        assert np.array_equal(together, getattr(whole, name)), name
    assert flows == whole.flows


def test_flows_have_names() -> None:
    with linecard.Capture(TESTDATA / "captures" / "tcp4-8flows.pcap") as capture:
        packets = capture.read()
    assert len(packets.flows) == len(set(packets.flows)) >= 8
    flow = packets.flows[packets.flow[0]]
    assert flow.protocol == "tcp" and flow.source.count(".") == 3 and flow.source_port > 0
    assert str(flow) == f"tcp {flow.source}:{flow.source_port} > {flow.destination}:{flow.destination_port}"
    assert repr(packets) == f"<linecard.Packets: {len(packets)} packets>"


def test_flows_travel_and_are_made() -> None:
    flow = linecard.Flow("fd00::1", 5000, "fd00::2", 53, "udp")
    assert str(flow) == "udp [fd00::1]:5000 > [fd00::2]:53"
    copy = pickle.loads(pickle.dumps(flow))
    assert copy == flow and hash(copy) == hash(flow)
    with pytest.raises(linecard.UsageError, match='destination "here": this is not an IP address'):
        linecard.Flow("10.0.0.1", 1, "here", 2, "tcp")
    with pytest.raises(linecard.UsageError, match='protocol "icmp": choose tcp or udp'):
        linecard.Flow("10.0.0.1", 1, "10.0.0.2", 2, "icmp")  # type: ignore[arg-type]


def test_arrays_can_go_to_other_processes() -> None:
    with linecard.Capture(TESTDATA / "captures" / "tcp4-8flows.pcap") as capture:
        packets, rest = capture.read(20), capture.read()
    for part in (packets, rest):
        copy = pickle.loads(pickle.dumps(part))
        assert len(copy) == len(part) and copy.flows == part.flows
        for name in ("time_ns", "wire_length", "captured_length", "interface", "flow"):
            assert getattr(copy, name).dtype == getattr(part, name).dtype
            assert (getattr(copy, name) == getattr(part, name)).all()


def test_fragments_have_no_flow() -> None:
    packets = linecard.Capture(TESTDATA / "captures" / "udp4-fragments.pcap").read()
    assert (packets.flow == -1).any()


def test_a_closed_capture_says_so() -> None:
    capture = linecard.Capture(CAPTURES[0])
    assert not capture.closed
    capture.close()
    capture.close()
    assert capture.closed
    for use in (capture.read, lambda: next(capture)):
        with pytest.raises(ValueError, match=f"{CAPTURES[0].name}: this capture is closed"):
            use()


def test_a_damaged_capture_gives_what_is_whole(tmp_path: Path) -> None:
    whole = (TESTDATA / "captures" / "udp4.pcap").read_bytes()
    path = tmp_path / "cut.pcap"
    path.write_bytes(whole[:-3])
    count = len(plainly(TESTDATA / "captures" / "udp4.pcap"))
    capture = linecard.Capture(path)
    assert len(capture.read()) == count - 1
    with pytest.raises(linecard.CaptureError, match="cut.pcap: .*") as error:
        capture.read()
    assert error.value.code == 4
    seen = 0
    with pytest.raises(linecard.CaptureError):
        for _ in linecard.Capture(path):
            seen += 1
    assert seen == count - 1


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        linecard.Capture(tmp_path / "none.pcap")
    assert missing.value.filename is not None and "none.pcap" in str(missing.value.filename)
    with pytest.raises(IsADirectoryError):
        linecard.Capture(tmp_path)
    text = tmp_path / "text"
    text.write_text("no capture")
    with pytest.raises(linecard.CaptureError, match="text: "):
        linecard.Capture(text)
    with pytest.raises(TypeError):
        linecard.Capture(7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("count", "error", "text"),
    [
        (-1, ValueError, "count -1: choose 0 to"),
        (2**70, ValueError, f"count {2**70}"),
        (1.5, TypeError, r"count: 1.5 \(float\) is not a whole number"),
        ("many", TypeError, r"count: 'many' \(str\)"),
    ],
)
def test_wrong_counts_are_named(count: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        linecard.Capture(CAPTURES[0]).read(count)  # type: ignore[arg-type]


def test_counts_may_be_of_numpy() -> None:
    assert len(linecard.Capture(CAPTURES[0]).read(np.int64(3))) == 3


def test_threads_that_share_a_capture_get_each_packet_once_or_an_error() -> None:
    expected = len(linecard.Capture(CAPTURES[0]).read())
    capture = linecard.Capture(CAPTURES[0])
    counts: list[int] = []

    def read() -> None:
        while True:
            try:
                part = capture.read(5)
            except linecard.UsageError as error:
                assert "another thread" in str(error)
                continue
            counts.append(len(part))
            if not len(part):
                return

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == expected
