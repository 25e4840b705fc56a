"""A scenario over a grid of values, on this machine or on a cluster."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from . import progress as bars
from . import tasks
from ._linecard import Points, Stop
from .errors import UsageError
from .progress import Progress
from .table import Table
from .values import File, Values, key_of, scenario_of, sets_of, text_of

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["sweep"]

_MOST_POINTS = 10_000_000
"""A larger table is not readable."""
_MOST_IN_CHUNK = 512
_CHUNKS_PER_THREAD = 8
"""Enough that all are busy until the end, few enough that their cost does not count."""


@dataclass(frozen=True)
class _Scenario:
    """All that a worker needs: the file need not be where it is."""

    path: str
    text: str
    sets: tuple[str, ...]
    keys: tuple[str, ...]
    predict: bool


@dataclass(frozen=True)
class _Chunk:
    scenario: _Scenario
    points: list[list[object]]


@functools.lru_cache(maxsize=8)
def _points(scenario: _Scenario) -> Points:
    """The scenario, read once in each process."""
    sets, keys = list(scenario.sets), list(scenario.keys)
    return Points(scenario.path, scenario.text, sets, keys, scenario.predict)


_Found: TypeAlias = tuple[dict[str, list[object]], list[str | None]]
"""Of a chunk: values by name, and why a point could not be run."""


def _run(chunk: _Chunk, stop: Stop | None = None, /) -> _Found:
    return _points(chunk.scenario).run(chunk.points, 1, stop)


def sweep(
    scenario: File,
    vary: Mapping[str, Iterable[object]],
    *,
    set: Values | None = None,
    predict: bool = False,
    client: Client | None = None,
    threads: int | None = None,
    chunk: int | None = None,
    retries: int = 3,
    progress: Progress = None,
) -> Table:
    """Runs a model's scenario with all combinations of values; the last key changes fastest.

    ``scenario`` is a file of any kind that :func:`linecard.model` takes (``model = "…"``), or its text. ``vary``
    has values for keys of it, as ``{"core.mhz": range(100, 501, 10), "load.mtu": [512, 1500]}``; ``set`` has values
    that count for all. ``predict`` computes scenarios of ``"transmit"`` in closed form in place of running them.

    Runs on ``threads`` threads of this machine (default: its cores), or on the cluster of ``client``, a
    ``dask.distributed.Client`` whose workers have this package; tasks of lost workers are run again elsewhere.
    Points go there in chunks of ``chunk``. The table is the same bit for bit, whichever worker has run it: the varied
    keys, what each point came to, and ``error`` for points that could not be run (else None). What is random
    comes from the scenario's seed, which can be varied like all else.

    Raises :class:`UsageError` for unknown keys and values that no point can have; :class:`ClusterError` when the
    cluster goes away.
    """
    threads = tasks.check(client, threads, retries)
    axes = _axes(vary)
    count = _count(axes)
    known = _scenario(scenario, set, tuple(axes), predict)
    # Errors in the scenario are reported here, and not by a worker.
    _points(known)
    workers = threads if client is None else max(1, tasks.threads_of(client))
    size = _chunk(chunk, count, workers)
    chunks = _Chunks(known, axes, count, size)
    show, seen = bars.shown(progress, "points"), 0

    def done(number: int) -> None:
        nonlocal seen
        seen += len(chunks.range(number))
        show(seen, count)

    results = tasks.run(_run, chunks, client=client, threads=threads, retries=retries, done=done)
    return _table(axes, chunks, results)


def _axes(vary: Mapping[str, Iterable[object]]) -> dict[str, list[object]]:
    if not isinstance(vary, Mapping):
        raise TypeError(
            f"vary: {vary!r} ({type(vary).__name__}): give keys with their values, as {{'core.mhz': [400, 500]}}"
        )
    axes = {}
    for key, values in vary.items():
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise UsageError(f"vary: {key}: {values!r}: give a list of values, or a range", 2)
        if isinstance(values, (Set, Mapping)):
            raise UsageError(f"vary: {key}: {values!r} has no order: give a list of values", 2)
        axes[key_of(key, "vary")] = [_value(key, value) for value in islice(values, _MOST_POINTS + 1)]
        if not axes[key]:
            raise UsageError(f"vary: {key}: there are no values", 2)
    if not axes:
        raise UsageError("vary: there are no keys: run it by linecard.model", 2)
    return axes


def _value(key: str, value: object) -> object:
    """A value as Python's own, which scenarios can have."""
    text_of(value, f"vary: {key}")
    return value.tolist() if hasattr(value, "tolist") else value


def _count(axes: Mapping[str, Sequence[object]]) -> int:
    count = 1
    for values in axes.values():
        count *= len(values)
    if count > _MOST_POINTS:
        raise UsageError(f"vary: {count} points or more: choose up to {_MOST_POINTS}", 2)
    return count


def _chunk(chunk: int | None, count: int, workers: int) -> int:
    if chunk is None:
        return max(1, min(_MOST_IN_CHUNK, -(-count // (workers * _CHUNKS_PER_THREAD))))
    return tasks.whole(chunk, "chunk", 1, _MOST_POINTS)


def _scenario(scenario: File, sets: Values | None, keys: tuple[str, ...], predict: bool) -> _Scenario:
    name, text = scenario_of(scenario)
    path = Path(str(name))
    if text is None:
        path = path.absolute()
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: this is not UTF-8 text: a scenario is TOML ({error.reason})", 2) from error
    return _Scenario(str(path), text, tuple(sets_of(sets)), keys, predict)


class _Chunks(Sequence[_Chunk]):
    """Runs of points, made when they are asked for."""

    def __init__(self, scenario: _Scenario, axes: Mapping[str, Sequence[object]], count: int, size: int) -> None:
        self.scenario, self.points, self.size = scenario, count, size
        self.values = list(axes.values())

    def __len__(self) -> int:
        return -(-self.points // self.size)

    def range(self, number: int) -> range:
        """The numbers of a chunk's points."""
        return range(number * self.size, min(self.points, (number + 1) * self.size))

    def point(self, number: int) -> list[int]:
        """Which value of each key a point has."""
        at = []
        for values in reversed(self.values):
            at.append(number % len(values))
            number //= len(values)
        return at[::-1]

    def __getitem__(self, number: int) -> _Chunk:  # type: ignore[override]
        if not 0 <= number < len(self):
            raise IndexError(number)
        points = [
            [values[at] for values, at in zip(self.values, self.point(point), strict=True)]
            for point in self.range(number)
        ]
        return _Chunk(self.scenario, points)


def _table(axes: Mapping[str, Sequence[object]], chunks: _Chunks, results: Sequence[_Found]) -> Table:
    columns: dict[str, list[object]] = {}
    stays = chunks.points
    for key, values in axes.items():
        stays //= len(values)
        once = [value for value in values for _ in range(stays)]
        columns[key] = once * (chunks.points // len(once))
    for name in dict.fromkeys(name for found, _ in results for name in found):
        columns[name] = []
        for found, errors in results:
            columns[name] += found.get(name) or [None] * len(errors)
    columns["error"] = [error for _, errors in results for error in errors]
    return Table(columns)
