"""The same question to many captures, on this machine or on a cluster."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from . import progress as bars
from . import tasks
from ._linecard import Capture, Flow, Stop, job, merging
from .errors import LinecardError, UsageError
from .progress import Progress
from .table import Table
from .values import File, path_of

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Study", "study"]

What: TypeAlias = Literal["flows", "merging", "media"]

_CHUNK = 1 << 20
"""Packets in memory at once, of each capture that is being read: 24 MB."""

_BYTES_OF_GROUP = 16 << 20
"""Captures that a worker reads in one task have so many bytes together, unless it is one capture."""

_MOST_OF_GROUP = 64
"""Captures in one task."""

_GROUPS_OF_THREAD = 4
"""Tasks for each thread of the cluster, at least, where there are so many captures: so all end at about one time."""

_FULL = -2
"""The number of packets of flows for which there is no room."""

_FlowKey: TypeAlias = tuple[str, str, int, str, int]
_FlowRow: TypeAlias = tuple[int, int, int, int]
"""Packets, bytes on the wire, time of the first and of the last packet."""


@dataclass(frozen=True)
class Study:
    """Results of many captures."""

    total: Table
    """All captures together: a row for each flow, or one row of counts; for media, that of each capture."""

    captures: Table
    """A row for each capture, in the order of the files: ``file``, its figures, and ``error`` (None: all was read)."""

    @property
    def failed(self) -> list[str]:
        """Captures that could not be read, or not to their end."""
        errors = self.captures["error"]
        return [str(file) for file, error in zip(self.captures["file"], errors, strict=True) if error is not None]

    def _repr_html_(self) -> str:
        return self.total._repr_html_()


@dataclass(frozen=True)
class _Task:
    path: str
    what: What
    hold_ns: int | None
    verify: bool


@dataclass(frozen=True)
class _Found:
    """Of one capture."""

    row: dict[str, object]
    flows: dict[_FlowKey, _FlowRow]


def study(
    files: Iterable[File],
    what: What,
    *,
    client: Client | None = None,
    threads: int | None = None,
    retries: int = 3,
    hold_ns: int | None = None,
    verify: bool = True,
    progress: Progress = None,
) -> Study:
    """Asks many captures the same, each by itself, and puts the answers together.

    ``"flows"``: packets, bytes and times of each flow, over all captures. ``"merging"``: what LRO would do, with
    ``hold_ns`` and ``verify`` as of :class:`Coalescer`. ``"media"``: figures of the stream in each capture, as of
    :func:`analyze`.

    Captures are read on ``threads`` threads here, or on the cluster of ``client``, a ``dask.distributed.Client``
    whose workers have this package and see the same files. A capture that cannot be read fails by itself: see
    :attr:`Study.failed`. The result is the same whichever worker has read them.
    """
    threads = tasks.check(client, threads, retries)
    if what not in ("flows", "merging", "media"):
        raise UsageError(f"what={what!r}: choose flows, merging or media", 2)
    if isinstance(files, (str, bytes, os.PathLike)):
        raise TypeError(f"files: {files!r} is one file: give a list of them")
    all_tasks = [_Task(path_of(file), what, hold_ns, verify) for file in files]
    if client is not None:
        # Workers have folders of their own.
        all_tasks = [replace(task, path=os.path.abspath(task.path)) for task in all_tasks]  # noqa: PTH100 - a text
    if what != "merging" and (hold_ns is not None or not verify):
        raise UsageError(f'hold_ns and verify are for "merging": leave them out for {what!r}', 2)
    if hold_ns is not None:
        tasks.whole(hold_ns, "hold_ns", 1, 10_000_000_000)
    if not all_tasks:
        raise UsageError("files: there are none", 2)
    show, count = bars.shown(progress, "captures"), Counter[str]()

    def done(_number: int) -> None:
        count["done"] += 1
        show(count["done"], len(all_tasks))

    if client is None:
        found = tasks.run(_read, all_tasks, client=None, threads=threads, retries=retries, done=done)
    else:
        groups = _groups(all_tasks, tasks.threads_of(client))

        def group_done(number: int) -> None:
            count["done"] += len(groups[number])
            show(count["done"], len(all_tasks))

        parts = tasks.run(_read_group, groups, client=client, threads=threads, retries=retries, done=group_done)
        found = [one for part in parts for one in part]
    captures = Table.of_rows([{"file": task.path, **one.row} for task, one in zip(all_tasks, found, strict=True)])
    return Study(_total(what, captures, found), captures)


def _groups(all_tasks: Sequence[_Task], threads: int) -> list[list[_Task]]:
    """Runs of captures that a worker reads in one task: small ones together, as a task costs milliseconds itself."""
    most = max(1, min(_MOST_OF_GROUP, len(all_tasks) // (_GROUPS_OF_THREAD * max(threads, 1))))
    groups: list[list[_Task]] = [[]]
    size = 0
    for task in all_tasks:
        try:
            bytes_of = os.path.getsize(task.path)  # noqa: PTH202 - a text
        except OSError:
            bytes_of = 0
        if groups[-1] and (len(groups[-1]) >= most or size + bytes_of > _BYTES_OF_GROUP):
            groups.append([])
            size = 0
        groups[-1].append(task)
        size += bytes_of
    return groups


def _read_group(group: Sequence[_Task], stop: Stop | None = None, /) -> list[_Found]:
    return [_read(task, stop) for task in group]


def _read(task: _Task, stop: Stop | None = None, /) -> _Found:
    """One capture, on whichever machine this is."""
    try:
        if task.what == "flows":
            return _flows(task.path, stop)
        if task.what == "merging":
            return _merging(task, stop)
        report = job("analyze", [("capture", task.path)], stop=stop)
        return _Found({**_flat(report.to_dict()), "error": None}, {})
    except (LinecardError, OSError) as error:
        found = getattr(error, "report", None)
        row = {} if found is None else _flat(found.to_dict())
        return _Found({**row, "error": str(error)}, {})


def _flows(path: str, stop: Stop | None) -> _Found:
    sums: dict[Flow, list[int]] = {}
    packets = wire = full = 0
    error = None
    with Capture(path) as capture:
        while stop is None or not stop.is_set():
            try:
                part = capture.read(_CHUNK)
            except LinecardError as damage:
                error = str(damage)
                break
            if len(part) == 0:
                break
            packets += len(part)
            wire += int(part.wire_length.sum(dtype=np.uint64))
            full += int((part.flow == _FULL).sum())
            _add(sums, part.flow, part.flows, part.wire_length, part.time_ns)
    if full:
        error = f"{path}: more than {len(sums)} flows: {full} packets of further ones are in no flow"
    flows: dict[_FlowKey, _FlowRow] = {
        (flow.protocol, flow.source, flow.source_port, flow.destination, flow.destination_port): _row(values)
        for flow, values in sums.items()
    }
    return _Found({"packets": packets, "bytes": wire, "flows": len(flows), "error": error}, flows)


def _row(values: list[int]) -> _FlowRow:
    packets, wire, first, last = values
    return packets, wire, first, last


def _add(
    sums: dict[Flow, list[int]],
    number: np.ndarray[tuple[int], np.dtype[np.int32]],
    flows: list[Flow],
    length: np.ndarray[tuple[int], np.dtype[np.uint32]],
    time: np.ndarray[tuple[int], np.dtype[np.uint64]],
) -> None:
    """Adds packets to their flows."""
    known = number >= 0
    number, length, time = number[known], length[known], time[known]
    count = np.bincount(number, minlength=len(flows))
    # Sums of whole numbers below 2^53 are exact.
    wire = np.bincount(number, weights=length, minlength=len(flows))
    first = np.full(len(flows), np.iinfo(np.uint64).max, dtype=np.uint64)
    last = np.zeros(len(flows), dtype=np.uint64)
    np.minimum.at(first, number, time)
    np.maximum.at(last, number, time)
    for at in np.flatnonzero(count):
        new = [int(count[at]), int(wire[at]), int(first[at]), int(last[at])]
        old = sums.get(flows[at])
        sums[flows[at]] = new if old is None else _sum(old, new)


def _sum(a: Iterable[int], b: Iterable[int]) -> list[int]:
    (packets, wire, first, last), (more_packets, more_wire, other_first, other_last) = a, b
    return [packets + more_packets, wire + more_wire, min(first, other_first), max(last, other_last)]


def _merging(task: _Task, stop: Stop | None) -> _Found:
    counters = merging(task.path, hold_ns=task.hold_ns, verify=task.verify, stop=stop)
    return _Found({**_flat(counters), "error": counters["damage"]}, {})


def _flat(values: Mapping[str, object], before: str = "") -> dict[str, object]:
    """``section.name`` for each value; lists, notes and damage are left out."""
    row: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            row.update(_flat(value, f"{before}{name}."))
        elif not isinstance(value, list) and name not in ("damage", "job"):
            row[before + name] = value
    return row


def _total(what: What, captures: Table, found: list[_Found]) -> Table:
    if what == "flows":
        return _all_flows(found)
    if what == "media":
        return captures
    names = [name for name in captures if name not in ("file", "error")]
    sums = {name: [sum(int(value) for value in captures[name] if value == value)] for name in names}
    if sums:
        let_go = sums["packets_out"][0] - sums["passed"][0]
        sums["mean_aggregate"] = [(sums["merged"][0] + let_go) / let_go if let_go else None]  # type: ignore[list-item]
    return Table(sums)


def _all_flows(found: list[_Found]) -> Table:
    sums: dict[_FlowKey, list[int]] = {}
    files: Counter[_FlowKey] = Counter()
    for one in found:
        for key, row in one.flows.items():
            sums[key] = _sum(sums[key], row) if key in sums else list(row)
            files[key] += 1
    # The largest first; equal ones by their names, so that the order of files does not count.
    keys = sorted(sums, key=lambda key: (-sums[key][1], key))
    columns: dict[str, list[object]] = {
        name: [key[at] for key in keys]
        for at, name in enumerate(["protocol", "source", "source_port", "destination", "destination_port"])
    }
    for at, name in enumerate(["packets", "bytes", "first_ns", "last_ns"]):
        columns[name] = [sums[key][at] for key in keys]
    columns["captures"] = [files[key] for key in keys]
    return Table(columns)
