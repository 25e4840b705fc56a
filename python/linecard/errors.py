"""Errors as exceptions: the text is the command's, ``code`` its exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._linecard import Report

__all__ = [
    "CaptureError",
    "ClusterError",
    "FirmwareError",
    "InfeasibleError",
    "LinecardError",
    "UsageError",
    "WithheldError",
    "WrongError",
]


class LinecardError(Exception):
    """Anything that linecard refuses or that fails in it, in one line: what, which value, what to do."""

    code: int
    """The exit code that the command has for it."""

    report: Report | None
    """Results until then, if there are any."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code
        self.report = None

    def __reduce__(self) -> tuple[type[LinecardError], tuple[str, int], dict[str, object]]:
        # Exceptions come from the workers of a cluster.
        return type(self), (str(self), self.code), {"report": self.report}


class UsageError(LinecardError, ValueError):
    """A wrong value, or a wrong scenario."""


class CaptureError(LinecardError, ValueError):
    """A file that is not a capture, or a damaged one: its text says where."""


class WrongError(LinecardError):
    """A byte was lost, wrong or out of place in what was run."""


class FirmwareError(LinecardError):
    """Modelled firmware did what no core can do, loops, or refuses a message."""


class WithheldError(LinecardError):
    """The measurement does not permit a verdict."""


class InfeasibleError(LinecardError):
    """Nothing fits; the text says why and what would help."""


class ClusterError(LinecardError):
    """A cluster that is not there, or not any more."""


_BY_CODE: dict[int, type[LinecardError]] = {
    2: UsageError,
    3: CaptureError,
    4: CaptureError,
    5: WrongError,
    9: FirmwareError,
    11: WithheldError,
    13: InfeasibleError,
}


def of(text: str, code: int) -> LinecardError:
    """The exception for an exit code of the command."""
    return _BY_CODE.get(code, LinecardError)(text, code)
