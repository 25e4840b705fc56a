"""Many independent tasks, here or on a cluster: results in the order of the tasks, whoever has done them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .errors import ClusterError, UsageError

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["cores", "run"]

Task = TypeVar("Task")
Result = TypeVar("Result")

_AHEAD = 4
"""Tasks for each worker's thread that a cluster has at once: so much is lost when it goes away."""


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def run(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    client: Client | None,
    threads: int,
    retries: int,
    done: Callable[[int], object],
) -> list[Result]:
    """``work`` of each task; ``done`` is called with the numbers of tasks as they are done.

    Here on so many threads, for which ``work`` should release the interpreter's lock; on a cluster as many as it
    has. The first exception ends it, and what has not begun is not begun.
    """
    if client is None:
        return _Local(work, tasks, done).run(threads)
    return _Cluster(work, tasks, done).run(client, retries)


class _Local(Generic[Task, Result]):
    def __init__(
        self,
        work: Callable[[Task], Result],
        tasks: Sequence[Task],
        done: Callable[[int], object],
    ) -> None:
        self.work, self.tasks, self.done = work, tasks, done

    def run(self, threads: int) -> list[Result]:
        results: dict[int, Result] = {}
        if threads == 1 or len(self.tasks) == 1:
            for number, task in enumerate(self.tasks):
                results[number] = self.work(task)
                self.done(number)
            return _in_order(results)
        pool = ThreadPoolExecutor(threads, thread_name_prefix="linecard")
        numbers: dict[Future[Result], int] = {}
        left = deque(enumerate(self.tasks))
        try:
            while left or numbers:
                while left and len(numbers) < 2 * threads:
                    number, task = left.popleft()
                    numbers[pool.submit(self.work, task)] = number
                for future in wait(numbers, return_when=FIRST_COMPLETED).done:
                    number = numbers.pop(future)
                    results[number] = future.result()
                    self.done(number)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return _in_order(results)


class _Cluster(_Local[Task, Result]):
    def run(self, client: Any, retries: int) -> list[Result]:  # type: ignore[override]
        address = _address(client)
        results: dict[int, Result] = {}
        numbers: dict[Any, int] = {}
        try:
            for future in self._futures(client, retries, numbers):
                number = numbers.pop(future)
                results[number] = future.result()
                self.done(number)
        except _gone() as error:
            done, of = len(results), len(self.tasks)
            why = str(error) or type(error).__name__
            text = f"the cluster at {address} has gone away: {done} of {of} tasks were done; {why}"
            raise ClusterError(text) from error
        finally:
            if numbers and client.status == "running":
                client.cancel(list(numbers))
        return _in_order(results)

    def _futures(self, client: Any, retries: int, numbers: dict[Any, int]) -> Iterator[Any]:
        """Futures as they are done, not too many at once."""
        import distributed

        left = deque(enumerate(self.tasks))
        threads = threads_of(client)
        if threads == 0:
            raise ClusterError(f"the cluster at {_address(client)} has no workers: start some")
        waiting: Any = distributed.as_completed()  # type: ignore[no-untyped-call]

        def submit() -> None:
            if left:
                number, task = left.popleft()
                # Equal tasks are run anew: a result is as good as what has run it.
                future = client.submit(self.work, task, pure=False, retries=retries)
                numbers[future] = number
                waiting.add(future)

        for _ in range(_AHEAD * threads):
            submit()
        for future in waiting:
            yield future
            submit()


def _gone() -> tuple[type[BaseException], ...]:
    """What a cluster that goes away raises."""
    from concurrent.futures import CancelledError as Cancelled

    from distributed import CancelledError
    from distributed.comm.core import CommClosedError

    return (Cancelled, CancelledError, CommClosedError, TimeoutError, ConnectionError)


def threads_of(client: Any) -> int:
    """Threads of all workers of a cluster."""
    return int(sum(client.nthreads().values()))


def _address(client: object) -> str:
    scheduler = getattr(client, "scheduler", None)
    return str(getattr(scheduler, "address", "?"))


def _in_order(results: dict[int, Result]) -> list[Result]:
    return [results[number] for number in range(len(results))]


def check(client: object, threads: int | None, retries: int) -> int:
    """Refuses what cannot be; how many threads there are to be here."""
    if client is not None and not hasattr(client, "submit"):
        kind = type(client).__name__
        raise TypeError(f"client: {client!r} ({kind}) is no dask.distributed.Client")
    if client is not None and threads is not None:
        raise UsageError(f"threads={threads}: the cluster's workers have their own; leave it out", 2)
    if threads is not None and not 1 <= threads <= 256:
        raise UsageError(f"threads={threads}: choose 1 to 256", 2)
    if not 0 <= retries <= 100:
        raise UsageError(f"retries={retries}: choose 0 to 100", 2)
    return cores() if threads is None else threads
