"""Fixtures."""

from __future__ import annotations

import pytest

from support import datagram


@pytest.fixture
def transmit() -> str:
    """A scenario of a sending interface that is run in a few milliseconds."""
    return 'model = "transmit"\n[load]\nmessages = 4\n'


@pytest.fixture
def frames() -> list[bytes]:
    """Three datagrams of one flow, of which the last is shorter: raw IPv4, without UDP checksums."""
    return [datagram(number, payload) for number, payload in enumerate([b"line", b"card", b"ok"], 1)]
