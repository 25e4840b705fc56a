"""The command's jobs as functions: the same parameters, the same answers, nothing printed.

Rates and sizes are numbers (bits per second, bytes) or texts with a unit, as ``"100G"`` and ``"64K"``; clocks are in
MHz; times are texts, as ``"50us"``. Ctrl-C ends any of them. Those that may take long have ``progress``: see
:data:`Progress`.

This file is made from the code by a test: ``LINECARD_WRITE=1 cargo test -p linecard-cli --lib reference`` writes it.
"""

from __future__ import annotations

from typing import Literal

from ._linecard import Report
from .progress import Progress
from .values import Amount, File, Values, call, file_of

__all__ = [
    "analyze",
    "bottlenecks",
    "coalesce_capture",
    "model",
    "plan",
    "reproduce",
    "run",
    "segment_capture",
    "solve",
    "transfer",
]


def solve(
    rate: Amount,
    *,
    mtu: Amount | None = None,
    frame: Amount | None = None,
    protocol: Literal["tcp", "udp"] | None = None,
    packets: int | None = None,
    mix: str | None = None,
    core: Amount | None = None,
    core_kind: Literal["three-stage", "picorv32", "ibex"] = "three-stage",
    dma: Amount | None = None,
    bus: int = 64,
    cores: int = 1,
    cycles_per_word: int = 1,
    policy: Literal["hold", "interleave", "dual-port"] = "hold",
    header: Literal["beside", "bus"] = "beside",
    overhead: Amount | None = None,
    firmware: str = "approach-2",
    phase: Literal["best", "typical", "worst"] = "typical",
    margin: int = 10,
    max_core: Amount = 3000,
    max_dma: Amount = 3000,
) -> Report:
    """Finds the smallest clocks, bus width and number of cores that carry a line rate (``linecard model solve``).

    Given values are fixed, omitted ones are computed, and confirmed by runs just below and just above. Raises
    :class:`InfeasibleError` where no clock is enough.

    Args:
        rate: the line rate, as 100G, with all overhead, 1K to 100T
        mtu: the longest packet, from the IP header on; packets of this size are sent, 46 to 65535
        frame: in place of the MTU: the longest Ethernet frame, check sequence included, which is 18 bytes
            more; as testers count it (RFC 2544), 64 to 65553, or "none"
        protocol: protocol of the messages: "tcp" (segments), "udp" (fragments)
        packets: packets of a message; without it a steady stream of full packets, 1 to 1000, or "none"
        mix: messages of several kinds, as tcp:44=3,udp:1=1: full packets in each message, and the number of
            such messages, or "none"
        core: the cores' clock in MHz; if omitted, the smallest that suffices is computed, 0.001 to 100000, or
            "none"
        core_kind: core whose cycles instructions take: "three-stage" (an instruction in each cycle, and
            bubbles behind jumps and branches that are taken), "picorv32" (the open core `PicoRV32`, with a barrel
            shifter: no pipeline, three to six cycles for an instruction), "ibex" (the open core `Ibex`: two
            stages, one to three cycles for an instruction)
        dma: the DMA's clock in MHz; if omitted, the smallest that suffices is computed, or, where the core's
            clock is computed, 2115 is used, as published, 0.001 to 100000, or "none"
        bus: width of the local bus in bits, a power of two, 32 to 1024
        cores: cores, each with bus and DMA, 1 to 256
        cycles_per_word: DMA cycles for a word, 1 to 8
        policy: access to the bus while the DMA moves words: "hold" (the DMA holds the bus until the end of the
            transfer, as published), "interleave" (the core gets the bus between two words and delays the remaining
            ones), "dual-port" (memories have two ports: neither waits)
        header: how headers are moved: "beside" (separately from the payload, by a port of their own, as the
            published tables assume), "bus" (by the DMA, over the bus, before the payload)
        overhead: bytes of a packet on the line besides the IP packet; if omitted, 20, as published, or with a
            frame 38, which is Ethernet with preamble and gap, 0 to 65535, or "none"
        firmware: firmware: approach-1, approach-2, best, or an ELF file
        phase: how the clocks' edges lie beside each other: "best" (the DMA has an edge when the core starts
            it, as the published tables assume), "typical" (random), "worst" (the core has just missed an edge)
        margin: margin of the link to the host above the required rate, in per cent, 0 to 1000
        max_core: the fastest clock of a core in MHz; beyond it more cores are used, 0.001 to 100000
        max_dma: the fastest clock of a DMA in MHz; beyond it a wider bus, then more cores are used, 0.001 to
            100000

    >>> answer = solve("100G", mtu=1500)
    >>> round(answer["demand"]["packets_per_second"])
    8223684
    """
    return call(
        "solve",
        {
            "rate": rate,
            "mtu": mtu,
            "frame": frame,
            "protocol": protocol,
            "packets": packets,
            "mix": mix,
            "core": core,
            "core_kind": core_kind,
            "dma": dma,
            "bus": bus,
            "cores": cores,
            "cycles_per_word": cycles_per_word,
            "policy": policy,
            "header": header,
            "overhead": overhead,
            "firmware": firmware,
            "phase": phase,
            "margin": margin,
            "max_core": max_core,
            "max_dma": max_dma,
        },
    )


def model(
    scenario: File,
    *,
    set: Values | None = None,
    phases: int | None = None,
    capture: File | None = None,
    annotate: bool | None = None,
    progress: Progress = None,
) -> Report:
    """Runs a network interface in virtual time (``linecard model run``): real firmware, real bytes.

    ``scenario`` is a file, or its text. ``set`` has values that take precedence over those of the scenario.
    Arguments are for scenarios of ``"transmit"`` only.

    Args:
        phases: of "transmit" only: phases of the DMA's clock to try, evenly over its period; the first is the
            scenario's own, to which all other figures refer, 1 to 1000 [8]
        capture: of "transmit" only: write the packets that left, with their virtual times, to a capture of raw
            IP packets; names ending in .pcap give pcap, all others pcapng
        annotate: of "transmit" only: show the cycles of each function of the firmware and of each line of its
            source: busy, waiting, lost to branches, and the share of all
    """
    return call(
        "model",
        {
            "phases": phases,
            "capture": file_of(capture),
            "annotate": annotate,
        },
        scenario=scenario,
        set=set,
        progress=progress,
    )


def bottlenecks(
    scenario: File,
    *,
    set: Values | None = None,
    steps: int | None = None,
    rate: Amount | None = None,
    max_core: Amount | None = None,
    max_dma: Amount | None = None,
) -> Report:
    """Finds the bottleneck of a scenario of ``"transmit"``, and the next ones (``linecard model bottlenecks``).

    Args:
        steps: steps at most; it ends earlier where the rate is carried, 1 to 100 [100]
        rate: the rate to reach, in place of the line's, or of 1.6T where it is unlimited; the line becomes a
            resource like others, 1K to 100T, or "unlimited" [unlimited]
        max_core: the fastest clock of a core in MHz; beyond it more cores are used, 0.001 to 100000 [3000]
        max_dma: the fastest clock of a DMA in MHz; beyond it a wider bus, then more cores are used, 0.001 to
            100000 [3000]
    """
    return call(
        "bottlenecks",
        {
            "steps": steps,
            "rate": rate,
            "max_core": max_core,
            "max_dma": max_dma,
        },
        scenario=scenario,
        set=set,
    )


def reproduce(
    name: str,
    *,
    scenario: File | None = None,
    progress: Progress = None,
) -> Report:
    """Compares published values with those of models (``linecard reproduce``): ``report.figures`` has the paper's
    figures, its points over our curves.

    ``scenario`` is a file as ``--scenario`` takes it, or one of your own that has a reproduction of this name.
    Nothing is measured on this host.

    Args:
        name: the reproduction, as `linecard reproduce` names it, or as the file does
    """
    return call(
        "reproduce",
        {
            "name": name,
        },
        scenario=scenario,
        progress=progress,
    )


def plan(
    scenario: File,
    *,
    set: Values | None = None,
    calibration: File | None = None,
    measure: bool | None = None,
) -> Report:
    """Computes whether stages fit on cores at a rate (``linecard plan``): replicas, mapping, rings, expected
    rates.

    Raises :class:`InfeasibleError` where nothing fits: its text says why and what would help, its ``report`` has
    the demand.

    Args:
        calibration: costs measured by `linecard calibrate`, for stages that have none in the scenario [where
            that command keeps them]
        measure: also run the stages on the engine, on as many cores as planned, and print the measured rates
            beside the predicted ones; stages of the offloads only
    """
    return call(
        "plan",
        {
            "calibration": file_of(calibration),
            "measure": measure,
        },
        scenario=scenario,
        set=set,
    )


def transfer(
    *,
    lanes: int = 8,
    loss: Amount = 0,
    reorder: Amount = 0,
    seed: int = 1,
    rate: Amount = "10G",
    delay: str = "5us",
    congestion: Literal["known", "bbr", "cubic"] = "known",
    queue: str = "50ms",
    framing: Amount = 38,
    chunks: int = 32,
    max_inflight: int = 256,
    chunk: Amount = "16M",
    chunk_overhead: str = "26us",
    payload: Amount = "4K",
    mode: Literal["stable", "low-latency", "auto"] = "stable",
    fec: str = "none",
    progress: Progress = None,
) -> Report:
    """Runs a bulk transfer over many lanes in virtual time (``linecard run --lanes sim``): both ends are the real
    ones.

    Equal seeds give equal results, bit for bit.

    Args:
        lanes: lanes, 1 to 64
        loss: share of packets that a lane loses, as 0.01 or "1%", 0 to 1
        reorder: share of packets that others overtake, 0 to 1
        seed: seed of everything that is random, 0 to 18446744073709551615
        rate: bits per second of each lane, framing included, 1M to 1T
        delay: delay of a lane, one way, 0ns to 1s
        congestion: how a lane comes to its rate: it is known and reserved (known), or found by delivery rate
            and round-trip time (bbr) or by losses (cubic): "known" (it is known and reserved, and the lane says
            when it has room), "bbr" (by delivery rate and round-trip time, as a transfer without `rate=` does),
            "cubic" (by losses, as most TCP connections do)
        queue: queue of a lane of unknown rate, as the time that it takes to empty; packets beyond it are
            dropped, 0ns to 10s
        framing: bytes on the line beside data, header and seal: 38 for bare Ethernet, 66 for UDP over IPv4, 0
            to 1000
        chunks: chunks to send, 1 to 100000
        max_inflight: chunks in flight, if the receiver has room; with 1, each chunk waits for the confirmation
            of the previous one, as in the published low-latency mode, 1 to 256
        chunk: bytes of a chunk, 1 to 1G
        chunk_overhead: time that a host spends on starting a chunk on a lane, 0ns to 1s
        payload: bytes of data in a packet; header and seal are 40 more, 64 to 65000
        mode: how chunks are spread over lanes: "stable" (each chunk whole on one lane: the most throughput),
            "low-latency" (each chunk over all lanes: the least latency), "auto" (stable while there are chunks for
            all lanes, low latency when not)
        fec: repair of lost packets: "none", "xor:K", "rs:K,M", "duplicate", or "auto" for as much as brings
            chunks earlier

    >>> report = transfer(lanes=2, chunks=4, chunk="64K")
    >>> report["summary"]["bytes"]
    262144
    """
    return call(
        "transfer",
        {
            "lanes": lanes,
            "loss": loss,
            "reorder": reorder,
            "seed": seed,
            "rate": rate,
            "delay": delay,
            "congestion": congestion,
            "queue": queue,
            "framing": framing,
            "chunks": chunks,
            "max_inflight": max_inflight,
            "chunk": chunk,
            "chunk_overhead": chunk_overhead,
            "payload": payload,
            "mode": mode,
            "fec": fec,
        },
        progress=progress,
    )


def run(
    scenario: File | None = None,
    *,
    lanes: int | None = None,
    flows: int | None = None,
    size: Amount | None = None,
    mtu: Amount | None = None,
    loss: Amount | None = None,
    reorder: Amount | None = None,
    seconds: float | None = None,
    seed: int | None = None,
    progress: Progress = None,
) -> Report:
    """Runs the offloads on one core of this machine (``linecard run``): large sends, segmented, over lanes in
    memory, merged, every byte verified.

    Args:
        lanes: parallel lanes that flows are spread over, at most as many as flows, 1 to 64 [1]
        flows: flows that send in turn, 1 to 1000000 [16]
        size: bytes of one send of an application, 1 to 16M [64K]
        mtu: bytes of the largest IP packet on a lane, with IPv6 at least 1280, 576 to 65535 [1500]
        loss: share of packets that lanes lose, as 0.01 or "1%", 0 to 1 [0]
        reorder: share of packets that one to three others overtake, 0 to 1 [0]
        seconds: seconds for which applications send, 0.01 to 3600 [2]
        seed: seed of the data and of the faults, 0 to 18446744073709551615 [1]
    """
    return call(
        "run",
        {
            "lanes": lanes,
            "flows": flows,
            "size": size,
            "mtu": mtu,
            "loss": loss,
            "reorder": reorder,
            "seconds": seconds,
            "seed": seed,
        },
        scenario=scenario,
        progress=progress,
    )


def analyze(
    capture: File,
    second: File | None = None,
    *,
    flow: int | str | None = None,
    number: str | None = None,
    format: str = "auto",
    sender: Literal["unknown", "narrow", "wide"] = "unknown",
    progress: Progress = None,
) -> Report:
    """Analyzes how evenly a stream in a capture arrives, and which buffers it needs (``linecard jitter analyze``).

    RTP (ST 2022-6, ST 2110-20, -30, -31, -40) and other UDP of constant rate. Raises :class:`WithheldError` where
    no stream is found.

    Args:
        capture: capture to read, pcap or pcapng
        second: a second capture of the same stream, from nearer to the application
        flow: the flow to take: its number in the list of flows, or its destination, as 239.0.1.2:50000;
            without it, the one with the most packets, streams first
        number: where the packets of other protocols have a number that increases by one: offset and octets (1,
            2 or 4) in the UDP payload, as 4:2, with :le behind if the least octet comes first; packets of all
            flows are read so
        format: the SDI format of an ST 2022-6 stream, as 1080i59.94; auto derives it from the payload header,
            or else from the period
        sender: sender type of ST 2110-21: "unknown" (not known: figures are compared with both limits),
            "narrow" (type N or NL: as a device in hardware does), "wide" (type W: as software does)
    """
    return call(
        "analyze",
        {
            "capture": file_of(capture),
            "second": file_of(second),
            "flow": flow,
            "number": number,
            "format": format,
            "sender": sender,
        },
        progress=progress,
    )


def coalesce_capture(
    source: File,
    target: File,
    *,
    checksum: Literal["verify", "trust"] = "verify",
    hold: str = "1ms",
    max_size: Amount = 65535,
    max_flows: int = 4096,
    explain_flow: str | None = None,
    flows: int = 0,
    keep_partial: bool = False,
    progress: Progress = None,
) -> Report:
    """Merges the packets of a capture as a receiver with LRO would (``linecard coalesce``).

    ``target`` gets segment sizes and counts, so that :func:`segment_capture` restores the originals.

    Args:
        source: capture to read, pcap or pcapng, also compressed by gzip, zstd or lz4
        target: capture to write. Names ending in .pcap give pcap, which cannot hold segment sizes; all others
            give pcapng. With .gz, .zst or .lz4 behind that it is compressed
        checksum: how to treat TCP and UDP checksums: compute them, or trust them, as for captures taken on the
            sender with checksum offload: "verify" (compute every checksum; packets that fail pass unmerged),
            "trust" (read no payload)
        hold: longest time a packet is held, in the capture's time, 1ns to 10s
        max_size: bytes of the largest merged packet, counted from the IP header. Beyond 65535 the IP length
            field is 0 (BIG TCP), and only TCP outside of tunnels merges to that size; Wireshark reads packets of
            up to 262144 bytes, 576 to 512K
        max_flows: flows remembered at a time, 8 to 4194304
        explain_flow: flow, as `10.0.0.1:5000-10.0.0.2:80` or `[fd00::1]:5000-[fd00::2]:80`, of which each
            packet is listed with the reason why it did or did not merge, or "none"
        flows: list this many flows, those with the most packets, each with the most frequent reason why
            packets did not merge, 0 to 1000
        keep_partial: if stopped, as by Ctrl-C, complete the output with the packets read so far instead of
            removing it
    """
    return call(
        "coalesce_capture",
        {
            "source": file_of(source),
            "target": file_of(target),
            "checksum": checksum,
            "hold": hold,
            "max_size": max_size,
            "max_flows": max_flows,
            "explain_flow": explain_flow,
            "flows": flows,
            "keep_partial": keep_partial,
        },
        progress=progress,
    )


def segment_capture(
    source: File,
    target: File,
    *,
    mss: Amount | None = None,
    mtu: Amount | None = None,
    keep_partial: bool = False,
    progress: Progress = None,
) -> Report:
    """Segments the large packets of a capture, or restores the merged ones (``linecard segment``).

    Args:
        source: capture to read, pcap or pcapng, also compressed by gzip, zstd or lz4
        target: capture to write. Names ending in .pcap give pcap, all others pcapng
        mss: bytes of payload beyond which TCP and UDP packets are divided into segments of this size, 1 to
            65535, or "none"
        mtu: bytes of the longest IP packet: longer TCP packets are segmented, all others become IP fragments,
            68 to 65535, or "none"
        keep_partial: if stopped, as by Ctrl-C, complete the output with the packets read so far instead of
            removing it
    """
    return call(
        "segment_capture",
        {
            "source": file_of(source),
            "target": file_of(target),
            "mss": mss,
            "mtu": mtu,
            "keep_partial": keep_partial,
        },
        progress=progress,
    )
