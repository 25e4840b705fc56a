"""Many independent tasks, here or on a cluster: results in the order of the tasks, whichever worker has done them."""

from __future__ import annotations

import operator
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ._linecard import Stop, __version__
from .errors import ClusterError, UsageError

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["check", "cores", "run", "threads_of", "whole"]

Task = TypeVar("Task")
Result = TypeVar("Result")
Given = TypeVar("Given", contravariant=True)
Found = TypeVar("Found", covariant=True)

_AHEAD = 4
"""Tasks for each worker's thread that a cluster has at once: so much is lost when it goes away."""
_LOOK = 2.0
"""Seconds between looks at a cluster that finishes nothing."""
_LONELY = 60.0
"""Seconds after which a cluster without workers is given up: they may be started again meanwhile."""
_VERSION = "__import__('importlib.metadata').metadata.version('linecard')"
"""Task of the workers: it can be sent to those that have no such package."""


class Work(Protocol[Given, Found]):
    """Work for each task: ends early when it is told to stop. Can be sent to a worker."""

    def __call__(self, task: Given, stop: Stop | None = None, /) -> Found: ...


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def whole(value: object, name: str, low: int, high: int) -> int:
    """A whole number in a range, or an exception that names it."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name}: {value!r} ({type(value).__name__}) is not a whole number") from None
    if isinstance(value, bool) or not low <= number <= high:
        raise UsageError(f"{name}={value}: choose {low} to {high}", 2)
    return number


def check(client: object, threads: object, retries: object) -> int:
    """Refuses what cannot be; how many threads there are to be here."""
    whole(retries, "retries", 0, 100)
    if client is None:
        return cores() if threads is None else whole(threads, "threads", 1, 256)
    _check_client(client)
    if threads is not None:
        raise UsageError(f"threads={threads}: the cluster's workers have their own; leave it out", 2)
    return 1


def _check_client(client: object) -> None:
    kind = type(client).__name__
    if not all(hasattr(client, name) for name in ("nthreads", "submit", "scheduler_info")):
        raise TypeError(f"client: {client!r} ({kind}) is not a dask.distributed.Client")
    known: Any = client
    if getattr(known, "asynchronous", False):
        raise UsageError("client: this one is asynchronous: make it with asynchronous=False", 2)
    address = _address(known)
    if known.status != "running":
        raise ClusterError(f"the cluster at {address} is not there: the client is {known.status}")
    with _gone(address, lambda: "nothing was done"):
        if threads_of(known) == 0:
            raise ClusterError(f"the cluster at {address} has no workers: start some")
        try:
            versions = known.run(eval, _VERSION)
        except ImportError as error:
            text = f"a worker of the cluster at {address} has no package linecard: pip install it there ({error})"
            raise ClusterError(text) from error
    for worker, version in versions.items():
        if version != __version__:
            text = f"worker {worker} has linecard {version}, and this is {__version__}: install the same on all"
            raise ClusterError(text)


def threads_of(client: Any) -> int:
    """Threads of all workers of a cluster."""
    return int(sum(client.nthreads().values()))


def _address(client: Any) -> str:
    return str(getattr(getattr(client, "scheduler", None), "address", "?"))


def run(
    work: Work[Task, Result],
    tasks: Sequence[Task],
    *,
    client: Client | None,
    threads: int,
    retries: int,
    done: Callable[[int], object],
) -> list[Result]:
    """``work`` of each task; ``done`` is called with the numbers of tasks as they are done.

    Here on this many threads, for which ``work`` should release the interpreter's lock; on a cluster as many as it
    has. The first exception ends it: what has begun here is told to stop, what has not is not begun.
    """
    results: dict[int, Result] = {}
    of = _here(work, tasks, threads) if client is None else _there(work, tasks, client, retries)
    for number, result in of:
        results[number] = result
        done(number)
    return [results[number] for number in range(len(tasks))]


def _here(work: Work[Task, Result], tasks: Sequence[Task], threads: int) -> Iterator[tuple[int, Result]]:
    """Results as they come."""
    if threads == 1 or len(tasks) == 1:
        # The caller's own thread sees signals.
        yield from ((number, work(task)) for number, task in enumerate(tasks))
        return
    stop, pool = Stop(), ThreadPoolExecutor(threads, thread_name_prefix="linecard")
    numbers: dict[Future[Result], int] = {}
    left = deque(enumerate(tasks))
    try:
        while left or numbers:
            while left and len(numbers) < 2 * threads:
                number, task = left.popleft()
                numbers[pool.submit(work, task, stop)] = number
            for future in wait(numbers, return_when=FIRST_COMPLETED).done:
                yield numbers.pop(future), future.result()
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _there(work: Work[Task, Result], tasks: Sequence[Task], client: Any, retries: int) -> Iterator[tuple[int, Result]]:
    """The same on a cluster. It may lose workers, and get others."""
    import distributed

    numbers: dict[Any, int] = {}
    left = deque(enumerate(tasks))
    count, lonely = 0, time.monotonic()
    address = _address(client)

    def so_far() -> str:
        return f"{count} of {len(tasks)} tasks were done"

    try:
        while left or numbers:
            with _gone(address, so_far):
                threads = threads_of(client)
                lonely = time.monotonic() if threads else lonely
                if time.monotonic() - lonely > _LONELY:
                    text = f"the cluster at {address} has had no workers for {_LONELY:.0f} s: {so_far()}"
                    raise ClusterError(text)
                while left and len(numbers) < _AHEAD * max(threads, 1):
                    number, task = left.popleft()
                    # Equal tasks are run again: a result is as good as what has run it.
                    numbers[client.submit(work, task, pure=False, retries=retries)] = number
                try:
                    ready = distributed.wait(list(numbers), timeout=_LOOK, return_when="FIRST_COMPLETED").done  # type: ignore[no-untyped-call]
                except (TimeoutError, distributed.TimeoutError):
                    ready = ()
            for future in ready:
                # Exceptions of a task are raised unchanged, also where a lost cluster would raise the same.
                if future.status == "error" and not isinstance(future.exception(), distributed.KilledWorker):
                    future.result()
            with _gone(address, so_far):
                found = [(numbers.pop(future), future.result()) for future in ready]
            for number, result in found:
                count += 1
                yield number, result
    finally:
        if numbers and client.status == "running":
            client.cancel(list(numbers))


@contextmanager
def _gone(address: str, so_far: Callable[[], str]) -> Iterator[None]:
    """Converts the exceptions of a lost cluster into an error that says so."""
    from concurrent.futures import CancelledError as Cancelled

    from distributed import CancelledError, KilledWorker

    try:
        yield
    # A connection that closes, or that is refused until the client gives up: each is an OSError.
    except (Cancelled, CancelledError, KilledWorker, OSError) as error:
        why = str(error) or type(error).__name__
        raise ClusterError(f"the cluster at {address} has gone away: {so_far()}; {why}") from error
