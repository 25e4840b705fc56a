"""Linecard: a line card in software, from Python.

Captures (:class:`Capture`), the two offloads on bytes (:class:`Coalescer`, :func:`segment`) and on captures
(:func:`coalesce_capture`), network interfaces in virtual time (:func:`model`, :func:`solve`), plans (:func:`plan`),
bulk transfer over many lanes in virtual time (:func:`transfer`), jitter of streams (:func:`analyze`), published
values beside ours (:func:`reproduce`); sweeps of scenarios (:func:`sweep`) and studies of many captures
(:func:`study`), on one machine or a cluster.

Everything runs in the same core as the command ``linecard``. Long calls let other threads run and end at Ctrl-C.
What is refused is a :class:`LinecardError` that says what the command says.

>>> import linecard
>>> answer = linecard.solve("400G", mtu=1500, bus=256)
>>> answer.job
'model solve'
"""

try:
    import numpy as _numpy  # noqa: F401 - checked first: the compiled module cannot be loaded without it
except ImportError as error:
    raise ImportError(
        f"linecard needs NumPy 1.25 or newer, which cannot be imported here ({error}): pip install 'numpy>=1.25'",
        name="numpy",
    ) from error

from collections.abc import Mapping as _Mapping
from warnings import warn as _warn

from ._linecard import (
    Capture,
    Coalescer,
    Flow,
    Merged,
    Packet,
    Packets,
    Report,
    __version__,
    fragment,
    segment,
)
from .errors import (
    CaptureError,
    ClusterError,
    FirmwareError,
    InfeasibleError,
    LinecardError,
    UsageError,
    WithheldError,
    WrongError,
)
from .figure import Figure
from .jobs import (
    analyze,
    bottlenecks,
    coalesce_capture,
    model,
    plan,
    reproduce,
    run,
    segment_capture,
    solve,
    transfer,
)
from .study import Study, study
from .sweep import sweep
from .table import Table

_Mapping.register(Report)


def __getattr__(name: str) -> object:
    """The function that had another name before."""
    if name == "ladder":
        _warn("linecard.ladder is now called linecard.bottlenecks", FutureWarning, stacklevel=2)
        return bottlenecks
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Capture",
    "CaptureError",
    "ClusterError",
    "Coalescer",
    "Figure",
    "FirmwareError",
    "Flow",
    "InfeasibleError",
    "LinecardError",
    "Merged",
    "Packet",
    "Packets",
    "Report",
    "Study",
    "Table",
    "UsageError",
    "WithheldError",
    "WrongError",
    "__version__",
    "analyze",
    "bottlenecks",
    "coalesce_capture",
    "fragment",
    "model",
    "plan",
    "reproduce",
    "run",
    "segment",
    "segment_capture",
    "solve",
    "study",
    "sweep",
    "transfer",
]
