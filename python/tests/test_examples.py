"""The examples run, each in a process and a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support import ROOT

EXAMPLES = sorted((ROOT / "python" / "examples").glob("*.py"))

SAYS = {
    "clock_for_400g": "256 bits: from 559 MHz on; DMA limits",
    "why_flows_do_not_merge": "partial-checksum",
    "st2110_study": "hour-4.pcap: late by",
    "lanes_and_fec": "rs:28,4    1.0%",
}
"""A line of what each prints."""


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_what_it_should(path: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, path], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert SAYS[path.stem] in done.stdout, done.stdout
    assert list(tmp_path.iterdir()) == [], "examples leave nothing behind"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_cells(path: Path) -> None:
    """The percent format, as notebooks take it: each begins with its title."""
    text = path.read_text()
    assert text.startswith("# %% [markdown]\n# # ") and text.count("\n# %%\n") >= 3
