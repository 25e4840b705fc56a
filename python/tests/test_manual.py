"""The Python examples of the manual give the printed results."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from support import ROOT

PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if ">>> " in path.read_text()]


def test_pages_are_found() -> None:
    assert {"getting-started", "hardware", "library"} <= {path.stem for path in PAGES}


# Promise (Command): Python sessions in docs/ give what they show.
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_python_of_the_manual(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = doctest.testfile(str(path), module_relative=False)
    assert found.failed == 0 and found.attempted > 0
