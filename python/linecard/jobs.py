"""The command's jobs as functions: the same options, the same answers, nothing printed.

Rates and sizes are numbers (bits per second, bytes) or texts with a unit, as ``"100G"`` and ``"64K"``; times are
texts, as ``"50us"``. Ctrl-C ends any of them. Those that may take long have ``progress``: see :data:`Progress`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, TypeAlias

from . import progress as bars
from ._linecard import Report, job
from .errors import UsageError
from .progress import Progress

__all__ = [
    "analyze",
    "coalesce_capture",
    "ladder",
    "model",
    "plan",
    "run",
    "segment_capture",
    "solve",
    "transfer",
]

Amount: TypeAlias = int | float | str
"""A number, or a number with a unit."""

File: TypeAlias = str | os.PathLike[str]

Values: TypeAlias = Mapping[str, object]
"""Keys of a scenario, as ``core.mhz``, and their values."""


def text_of(value: object, name: str) -> str:
    """A value as scenarios and options have it: whole numbers without a point, floats with all digits."""
    if hasattr(value, "tolist"):
        # NumPy's numbers and arrays as Python's.
        value = value.tolist()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, (int, str)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return ",".join(text_of(part, name) for part in value)
    raise TypeError(f"{name}: {value!r} ({type(value).__name__}) is no value: give a number or a text")


def options_of(**values: object) -> list[str]:
    """Options of the command: ``mtu=1500`` is ``--mtu=1500``; None is left out."""
    options = []
    for name, value in values.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            options.append(option)
        elif value is not None:
            options.append(f"{option}={text_of(value, name)}")
    return options


def path_of(path: File) -> str:
    """A file's name, which is no option and not stdin."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"{text!r}: give the file's name as text")
    return f"./{text}" if text.startswith("-") else text


def sets_of(values: Values | None) -> list[str]:
    """``KEY=VALUE`` for each."""
    if values is not None and not isinstance(values, Mapping):
        raise TypeError(f"set: {values!r} ({type(values).__name__}): give keys with their values")
    return [f"{key_of(key, 'set')}={text_of(value, f'set: {key}')}" for key, value in (values or {}).items()]


def key_of(key: object, name: str) -> str:
    """The name of a key, as ``core.mhz``."""
    if not isinstance(key, str):
        raise TypeError(f"{name}: {key!r} ({type(key).__name__}) is no key: give a text, as 'core.mhz'")
    if "=" in key:
        raise UsageError(f"{name}: {key!r} is no key: give its value behind a colon, as {{'core.mhz': 400}}", 2)
    return key


def _set(values: Values | None) -> list[str]:
    return [f"--set={one}" for one in sets_of(values)]


def _shown(arguments: list[str], progress: Progress) -> Report:
    """A job that shows how far it is."""
    return job(arguments, progress=bars.shown(progress))


def solve(
    rate: Amount,
    *,
    mtu: int = 1500,
    protocol: Literal["tcp", "udp"] | None = None,
    packets: int | None = None,
    mix: str | None = None,
    core: float | None = None,
    dma: float | None = None,
    bus: int = 64,
    cores: int = 1,
    cycles_per_word: int = 1,
    policy: Literal["hold", "interleave", "dual-port"] = "hold",
    header: Literal["beside", "bus"] = "beside",
    overhead: int = 20,
    firmware: str = "approach-2",
    phase: Literal["best", "typical", "worst"] = "typical",
) -> Report:
    """The smallest clocks, bus width and number of cores that carry a line rate (``linecard model solve``).

    ``rate`` in bits per second; ``core`` and ``dma`` in MHz: what is given is fixed, what is left out is looked
    for, and confirmed by runs just below and just above. Raises :class:`InfeasibleError` where no clock is enough.

    >>> answer = solve("100G", mtu=1500)
    >>> round(answer["demand"]["packets_per_second"])
    8223684
    """
    options = options_of(
        rate=rate, mtu=mtu, protocol=protocol, packets=packets, mix=mix, core=core, dma=dma, bus=bus,
        cores=cores, cycles_per_word=cycles_per_word, policy=policy, header=header, overhead=overhead,
        firmware=firmware, phase=phase,
    )  # fmt: skip
    return job(["model", "solve", *options])


def model(scenario: File, *, set: Values | None = None, phases: int | None = None, progress: Progress = None) -> Report:
    """Runs a network interface in virtual time (``linecard model run``): real firmware, real bytes.

    ``set`` has values that take precedence over the scenario's; ``phases`` of the DMA's clock are tried for
    scenarios of ``"transmit"``.
    """
    return _shown(["model", "run", *_set(set), *options_of(phases=phases), path_of(scenario)], progress)


def ladder(scenario: File, *, set: Values | None = None, steps: int = 8, rate: Amount | None = None) -> Report:
    """What limits a scenario of ``"transmit"``, and what limits next (``linecard model ladder``)."""
    return job(["model", "ladder", *_set(set), *options_of(steps=steps, rate=rate), path_of(scenario)])


def plan(scenario: File, *, calibration: File | None = None) -> Report:
    """Whether stages fit on cores at a rate (``linecard plan``): replicas, mapping, rings, what to expect.

    ``calibration`` has costs measured by ``linecard calibrate``, for stages that have none in the scenario.
    Raises :class:`InfeasibleError` where nothing fits: its text says why and what would help, its ``report`` has
    all that was asked.
    """
    options = options_of(calibration=None if calibration is None else path_of(calibration))
    return job(["plan", *options, path_of(scenario)])


def transfer(
    *,
    lanes: int = 8,
    rate: Amount = "10G",
    mode: Literal["stable", "low-latency", "auto"] = "stable",
    fec: str = "none",
    chunks: int = 32,
    under_way: int | None = None,
    chunk: Amount = "16M",
    payload: int = 4096,
    framing: int = 38,
    delay: str = "5us",
    begin: str = "26us",
    loss: float = 0.0,
    reorder: float = 0.0,
    seed: int = 1,
    progress: Progress = None,
) -> Report:
    """A bulk transfer over many lanes in virtual time (``linecard run --lanes sim``): both ends are the real ones.

    ``rate`` in bits per second of each lane; ``fec`` is none, xor:K, rs:K,M or duplicate; ``under_way`` are chunks
    at once (None: as many as the receiver has room for); ``chunk`` and ``payload`` in bytes. Equal seeds give equal
    results, bit for bit.

    >>> report = transfer(lanes=2, chunks=4, chunk="64K")
    >>> report["summary"]["bytes"]
    262144
    """
    options = options_of(
        rate=rate, mode=mode, fec=fec, chunks=chunks, max_inflight=under_way, chunk=chunk, payload=payload,
        framing=framing, delay=delay, chunk_overhead=begin, loss=loss, reorder=reorder, seed=seed,
    )  # fmt: skip
    return _shown(["run", f"--lanes=sim:{text_of(lanes, 'lanes')}", *options], progress)


def run(
    scenario: File | None = None,
    *,
    flows: int | None = None,
    lanes: int | None = None,
    mtu: int | None = None,
    size: Amount | None = None,
    seconds: float | None = None,
    loss: float | None = None,
    reorder: float | None = None,
    seed: int | None = None,
    progress: Progress = None,
) -> Report:
    """The main job, on one core of this machine: large sends, segmented, over lanes in memory, merged, every byte
    verified (``linecard run``).
    """
    options = options_of(
        flows=flows, lanes=lanes, mtu=mtu, size=size, seconds=seconds, loss=loss, reorder=reorder, seed=seed
    )
    return _shown(["run", *options, *([] if scenario is None else [path_of(scenario)])], progress)


def analyze(
    capture: File,
    second: File | None = None,
    *,
    flow: int | str | None = None,
    format: str = "auto",
    sender: Literal["narrow", "wide"] | None = None,
    progress: Progress = None,
) -> Report:
    """How evenly a stream in a capture comes, and what it asks of buffers (``linecard jitter analyze``).

    RTP (ST 2022-6, ST 2110-20, -30, -31, -40) and other UDP of constant rate. ``second`` is a capture of the same
    stream from nearer to the application. Raises :class:`WithheldError` where no stream is found.
    """
    files = [path_of(file) for file in (capture, second) if file is not None]
    return _shown(["jitter", "analyze", *options_of(flow=flow, format=format, sender=sender), *files], progress)


def coalesce_capture(
    source: File,
    target: File,
    *,
    checksum: Literal["verify", "trust"] = "verify",
    hold: str = "1ms",
    max_size: Amount = 65535,
    max_flows: int = 4096,
    explain_flow: str | None = None,
    progress: Progress = None,
) -> Report:
    """Merges the packets of a capture as a receiver with LRO would (``linecard coalesce``).

    ``target`` gets segment sizes and counts, so that :func:`segment_capture` gives back the originals.
    ``explain_flow``, as ``"10.0.0.1:5000-10.0.0.2:80"``, says of each of its packets why it did or did not merge.
    """
    options = options_of(
        checksum=checksum, hold=hold, max_size=max_size, max_flows=max_flows, explain_flow=explain_flow
    )
    return _shown(["coalesce", *options, path_of(source), path_of(target)], progress)


def segment_capture(
    source: File, target: File, *, mss: int | None = None, mtu: int | None = None, progress: Progress = None
) -> Report:
    """Cuts the large packets of a capture, or gives back what was merged (``linecard segment``)."""
    return _shown(["segment", *options_of(mss=mss, mtu=mtu), path_of(source), path_of(target)], progress)
