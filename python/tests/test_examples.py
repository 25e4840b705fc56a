"""The examples run: as scripts, and as notebooks in a kernel of Jupyter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jupytext
import nbclient
import pytest

from support import ROOT

FOLDER = ROOT / "python" / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))

SAYS = {
    "clock_for_400g": "256 bits: from 559 MHz on; DMA limits",
    "why_flows_do_not_merge": "partial-checksum",
    "st2110_study": "hour-4.pcap: late by",
    "lanes_and_fec": "rs:28,4    1.0%",
}
"""A line of what each prints."""


@pytest.fixture(autouse=True)
def nothing_is_left() -> object:
    before = sorted(FOLDER.iterdir())
    yield
    assert sorted(FOLDER.iterdir()) == before


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_a_script(path: Path) -> None:
    done = subprocess.run([sys.executable, path], cwd="/", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert SAYS[path.stem] in done.stdout, done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_outside_of_a_clone_runs_or_says_what_it_needs(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    copy.write_text(path.read_text())
    done = subprocess.run([sys.executable, copy], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    if path.stem == "why_flows_do_not_merge":
        last = done.stderr.rstrip().splitlines()[-1]
        assert last.startswith(f"FileNotFoundError: no testdata/captures/tcp4-*.pcap in {tmp_path}"), done.stderr
        assert "run this in a clone of linecard, or name captures of your own" in last
    else:
        assert done.returncode == 0 and SAYS[path.stem] in done.stdout, done.stderr


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_a_notebook(path: Path) -> None:
    """As Jupyter opens it: a title, cells with text, and a page where a cell ends with a report."""
    notebook = jupytext.read(path)
    assert notebook.cells[0].source.startswith("# ") and len(notebook.cells) >= 6
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(FOLDER)}})
    outputs = [output for cell in client.execute().cells for output in cell.get("outputs", [])]
    assert SAYS[path.stem] in "".join(output.get("text", "") for output in outputs)
    assert [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"] == []
    pages = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert any(page.startswith("<iframe srcdoc=") for page in pages), outputs
