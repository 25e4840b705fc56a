"""How far a long call has come."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeAlias

__all__ = ["Progress"]

Progress: TypeAlias = bool | Callable[[int, int], object] | None
"""Display of progress: a function of the work done and of all work; True for a line on stderr, False for none, None for
a line if stderr is a terminal and it takes more than a second."""

_PATIENCE = 1.0
_INTERVAL = 0.2


def shown(progress: Progress, what: str | None = None) -> Callable[[int, int], object]:
    """A function to call whenever more is done: of ``what``, or as a percentage."""
    if callable(progress):
        return progress
    if progress not in (True, False, None):
        raise TypeError(f"progress: {progress!r} ({type(progress).__name__}): give a function, True or False")
    if progress is False or (progress is None and not sys.stderr.isatty()):
        return lambda _done, _all: None
    begun = time.monotonic()
    last = begun if progress is None else begun - _INTERVAL
    seen = progress is True

    def line(done: int, of: int) -> None:
        nonlocal last, seen
        now = time.monotonic()
        far = f"{done:,} of {of:,} {what}" if what else f"{done / of:.0%}"
        if done == of:
            if seen:
                print(f"\r{far} in {now - begun:.1f} s{' ' * 12}", file=sys.stderr)
        elif now - last >= (_INTERVAL if seen or progress else _PATIENCE):
            last, seen = now, True
            left = (now - begun) / max(done, 1) * (of - done)
            print(f"\r{far}, {left:.0f} s left ", end="", file=sys.stderr, flush=True)

    return line
