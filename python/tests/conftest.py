"""Fixtures, and the list of skipped tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support import datagram


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _list_skip(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _list_skip(report)


def _list_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Appends a skipped test to the file that LINECARD_SKIPS names: `./test` prints it at its end."""
    if report.skipped and (listed := os.environ.get("LINECARD_SKIPS")):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        with Path(listed).open("a") as file:
            file.write(" ".join(f"{report.nodeid}: {why}".split()) + "\n")


@pytest.fixture
def transmit() -> str:
    """A scenario of a sending interface that is run in a few milliseconds."""
    return 'model = "transmit"\n[load]\nmessages = 4\n'


@pytest.fixture
def frames() -> list[bytes]:
    """Three datagrams of one flow, of which the last is shorter: raw IPv4, without UDP checksums."""
    return [datagram(number, payload) for number, payload in enumerate([b"line", b"card", b"ok"], 1)]
