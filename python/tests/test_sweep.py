"""Sweeps on this machine."""

from __future__ import annotations

import html
import itertools
import math
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import linecard
from support import SCENARIOS


def test_a_sweep_is_the_runs_one_by_one() -> None:
    path = SCENARIOS / "model-lso.toml"
    table = linecard.sweep(path, {"load.mtu": [576, 1500], "core.mhz": range(100, 301, 100)})
    assert len(table) == table.rows == 6
    assert table["load.mtu"].tolist() == [576, 576, 576, 1500, 1500, 1500]
    assert table["core.mhz"].tolist() == [100, 200, 300] * 2
    assert table["error"].tolist() == [None] * 6
    for number in range(table.rows):
        row = table.row(number)
        values = {name: row[name] for name in ("load.mtu", "core.mhz")}
        rates = linecard.model(path, set=values, phases=1)["rates"]
        assert row["cycles_per_packet"] == rates["cycles_per_packet"]
        assert row["wire_bits_per_second"] == rates["wire_bits_per_second"]


def test_a_sweep_is_what_the_command_sweeps(transmit: str, tmp_path: Path) -> None:
    """The command is built by the other tests; without it there is nothing to compare with."""
    command = Path(__file__).resolve().parents[2] / "target" / "debug" / "linecard"
    if not command.exists():
        pytest.skip("target/debug/linecard is not there: run cargo build")
    (tmp_path / "s.toml").write_text(transmit)
    axes = ["--vary", "core.mhz=100..200:25", "--vary", "bus.bits=32,64"]
    done = subprocess.run(
        [command, "model", "sweep", *axes, tmp_path / "s.toml"], capture_output=True, text=True, check=True
    )
    header, *lines = done.stdout.splitlines()
    table = linecard.sweep(tmp_path / "s.toml", {"core.mhz": range(100, 201, 25), "bus.bits": [32, 64]})
    assert header.split(",") == list(table)
    for number, line in enumerate(lines):
        for name, text in zip(table, line.split(","), strict=True):
            value = table[name][number]
            told = "" if value is None else text if isinstance(value, str) else None
            assert text == told or float(text) == value, name


def test_a_sweep_is_drawn() -> None:
    table = linecard.sweep(SCENARIOS / "model-lso.toml", {"load.mtu": [576, 1500], "core.mhz": [100, 200]})
    figure = table.figure("core.mhz", "wire_bits_per_second", by="load.mtu")
    drawn = figure.to_table()
    assert drawn["name"].tolist() == ["load.mtu 576"] * 2 + ["load.mtu 1500"] * 2
    assert drawn["y"].tolist() == table["wire_bits_per_second"].tolist()
    assert "core.mhz" in str(figure.svg) and figure.title == "wire_bits_per_second over core.mhz"


def test_what_a_figure_leaves_out_is_said() -> None:
    table = linecard.Table(
        {
            "lanes": [1, 2, 3, 4, "five", 6],
            "rate": [1.0, None, 3.0, math.inf, 5.0, None],
            "error": [None, None, None, None, None, "no route"],
        }
    )
    said = "4 of 6 rows are left out (row 1: rate is nan; row 3: rate is inf; row 4: lanes is 'five'; row 5: no route)"
    with pytest.warns(UserWarning, match=re.escape(said)):
        figure = table.figure("lanes", "rate")
    assert figure.to_table()["x"].tolist() == [1.0, 3.0] and figure.data["caption"] == said
    assert said in html.unescape(figure._repr_html_())
    with pytest.raises(linecard.UsageError, match="nothing to draw: 6 of 6 rows .*rows 0, 1, 2, 3: error is None"):
        table.figure("lanes", "error")
    with pytest.raises(linecard.UsageError, match="the table has no rows"):
        linecard.Table({"a": [], "b": []}).figure("a", "b")


def test_different_values_have_curves_of_their_own() -> None:
    for by in ([1.0000001, 1.0000002], [1, "1"], [None, "None"], [float("nan"), 1.0], [True, "True"]):
        table = linecard.Table({"x": [1, 1], "y": [1, 2], "by": by})
        drawn = table.figure("x", "y", by="by").to_table()
        assert drawn["y"].tolist() == [1.0, 2.0] and len(set(drawn["name"])) == 2, by
    table = linecard.Table({"x": [1, 2], "y": [1, 2], "by": [float("nan"), float("nan")]})
    assert set(table.figure("x", "y", by="by").to_table()["name"]) == {"by nan"}


def test_names_with_control_characters_are_drawn(tmp_path: Path) -> None:
    name = "a\x00b\x1b<\udc80>\ufffe&"
    table = linecard.Table({name: [1, 2], "y": [1, 2], "by": [name, "c"]})
    figure = table.figure(name, "y", by="by", title=name)
    ElementTree.fromstring(str(figure.svg))
    figure.save(tmp_path / "figure.html")
    page = (tmp_path / "figure.html").read_text(encoding="utf-8")
    shown = "a\ufffdb\ufffd&lt;\ufffd&gt;\ufffd&amp;"
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">') and '<meta charset="utf-8">' in page
    assert f"<title>{shown}</title>" in page and f'alt="{shown}"' in page and page.endswith("</html>\n")
    for text in (page, table._repr_html_()):
        assert shown in text and not set(text) & set("\x00\x1b\udc80\ufffe")


# Promise (Python): A sweep gives the same table, bit for bit, on one thread and on several.
@pytest.mark.parametrize("chunk", [1, 7, 1000])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_table_is_the_same_whoever_runs_it(transmit: str, chunk: int, threads: int) -> None:
    vary = {"core.mhz": range(100, 120), "bus.policy": ["hold", "interleave"]}
    once = linecard.sweep(transmit, vary, threads=1)
    again = linecard.sweep(transmit, vary, threads=threads, chunk=chunk)
    assert once.digest() == again.digest()


def test_points_that_cannot_be_are_rows_with_an_error(transmit: str) -> None:
    table = linecard.sweep(transmit, {"core.mhz": [100, "fast", -1, 200]})
    assert [error is None for error in table["error"]] == [True, False, False, True]
    assert 'core.mhz=fast: "fast" is not a clock' in table["error"][1]
    assert np.isnan(table["cycles_per_packet"][1]) and table["packets_right"][0] > 0
    good = table.where(table["error"] == None)  # noqa: E711 - each value is compared
    assert good.rows == 2


@pytest.mark.parametrize("kind", ["transfer", "pci", "receive"])
def test_models_of_every_kind_are_swept(kind: str) -> None:
    path = SCENARIOS / f"model-{kind}.toml"
    vary: dict[str, dict[str, list[object]]] = {
        "transfer": {"chunk.count": [2, 4], "chunk.bytes": ["64K"]},
        "pci": {"load.clients": [1, 2]},
        "receive": {"core.mhz": [200, 400]},
    }
    try:
        table = linecard.sweep(path, vary[kind])
    except linecard.UsageError as error:
        pytest.fail(str(error))
    assert table.rows == 2 and table["error"].tolist() == [None, None], table["error"]
    assert len(table) == 2 and len(list(table)) > 4


def test_former_names_are_warned_of() -> None:
    text = 'model = "npu"\n[run]\nduration = "2ms"\nwarm_up = "1ms"\n[dma]\nbits_per_second = 16_000_000_000\n'
    with pytest.warns(UserWarning, match=r"`dma.bits_per_second` is now called `dma.rate`") as found:
        table = linecard.sweep(text, {"npu.cores": [2]})
    assert table.rows == 1 and found[0].filename == __file__


def test_prediction_is_another_table(transmit: str) -> None:
    table = linecard.sweep(transmit, {"core.mhz": [100, 200]}, predict=True)
    assert table["error"].tolist() == [None, None] and "hash" not in table
    with pytest.raises(linecard.UsageError, match="computed"):
        linecard.sweep(SCENARIOS / "model-transfer.toml", {"lanes.count": [1]}, predict=True)


def test_values_of_numpy_are_values(transmit: str) -> None:
    a = linecard.sweep(transmit, {"core.mhz": np.arange(100.0, 103.0)})
    b = linecard.sweep(transmit, {"core.mhz": [100.0, 101.0, 102.0]})
    assert a.digest() == b.digest()


@pytest.mark.parametrize(
    ("vary", "error", "text"),
    [
        ({}, ValueError, "there are no keys"),
        ({"core.mhz": []}, ValueError, "core.mhz: there are no values"),
        ({"core.mhz": "100"}, ValueError, "core.mhz: '100': give a list"),
        ({"core.mhz": 100}, ValueError, "core.mhz: 100: give a list"),
        ({"core.ghz": [1]}, ValueError, "unknown key `core.ghz`: known are core"),
        ([("core.mhz", [1])], TypeError, "give keys with their values"),
        ({"core.mhz": range(10**4), "dma.mhz": range(10**4)}, ValueError, "100000000 points or more: choose up to"),
        ({"core.mhz": [object()]}, TypeError, "vary: core.mhz: .* is not a value"),
        ({"core.mhz": [None]}, TypeError, "vary: core.mhz: None"),
        ({"core.mhz=3": [4]}, ValueError, "vary: 'core.mhz=3' is not a key"),
        ({3: [4]}, TypeError, r"vary: 3 \(int\) is not a key"),
        ({"core.mhz": {100, 200}}, ValueError, "core.mhz: .* has no order"),
        # Without an end: refused before it fills the memory.
        ({"core.mhz": itertools.count()}, ValueError, "10000001 points or more"),
    ],
)
def test_wrong_grids_are_named(transmit: str, vary: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        linecard.sweep(transmit, vary)  # type: ignore[arg-type]


def test_wrong_scenarios_are_named(tmp_path: Path, transmit: str) -> None:
    with pytest.raises(FileNotFoundError):
        linecard.sweep(tmp_path / "none.toml", {"core.mhz": [1]})
    (tmp_path / "s.toml").write_text('model = "transmit"\n[core]\nmhz = "x"\n')
    with pytest.raises(linecard.UsageError, match='s.toml:3: `mhz = "x"`'):
        linecard.sweep(tmp_path / "s.toml", {"dma.mhz": [1]})
    (tmp_path / "s.toml").write_bytes(b'model = "\xff"\n')
    with pytest.raises(linecard.UsageError, match="not UTF-8"):
        linecard.sweep(tmp_path / "s.toml", {"dma.mhz": [1]})
    for options, text in [
        ({"threads": 0}, "threads=0"),
        ({"chunk": 0}, "chunk=0"),
        ({"retries": -1}, "retries=-1"),
    ]:
        with pytest.raises(linecard.UsageError, match=text):
            linecard.sweep(transmit, {"core.mhz": [1]}, **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is not a dask.distributed.Client"):
        linecard.sweep(transmit, {"core.mhz": [1]}, client=7)  # type: ignore[arg-type]


def test_whole_numbers_of_any_size_are_values() -> None:
    scenario = 'model = "transfer"\n[chunk]\ncount = 2\nbytes = "64K"\n'
    table = linecard.sweep(scenario, {"run.seed": [1, 2**64 - 1, 2**64, 10**30]})
    assert table["run.seed"].tolist() == [1, 2**64 - 1, 2**64, 10**30]
    assert [error is None for error in table["error"]] == [True, True, False, False]


def test_tables_are_compared_and_sorted() -> None:
    table = linecard.Table({"a": [1, 1, 2], "b": ["x", "y", None]})
    assert table == linecard.Table({"a": [1, 1, 2], "b": ["x", "y", None]}) != linecard.Table({"a": [1, 1, 2]})
    assert table.sort("a", descending=True)["b"].tolist() == [None, "x", "y"]
    assert table.sort("b")["b"].tolist() == ["x", "y", None]


def test_a_table_has_a_length_and_columns() -> None:
    table = linecard.Table({"a": [1, 2, 3], "b": ["x", "y", None]})
    assert (len(table), table.rows, bool(table)) == (3, 3, True)
    assert "a" in table and "c" not in table and list(table) == list(table.keys()) == ["a", "b"]
    assert [name for name, _ in table.items()] == ["a", "b"] and len(table.values()) == 2
    assert dict(table)["a"].tolist() == [1, 2, 3] and table.get("c") is None
    empty = linecard.Table({"a": []})
    assert (len(empty), bool(empty), str(empty)) == (0, False, "a\n0 rows")


def test_a_table_prints_its_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    table = linecard.Table({"lanes": [1, 20], "mode": ["stable", "auto"], "loss": [0.25, None]})
    assert str(table).splitlines() == [
        "lanes  mode    loss",
        "    1  stable  0.25",
        "   20  auto     nan",
    ]
    wide = {f"column_{number}": list(range(25)) for number in range(9)}
    lines = str(linecard.Table({**wide, "error": [None] * 24 + ["x" * 90]})).splitlines()
    assert lines[0].split() == [f"column_{number}" for number in range(6)] and max(map(len, lines[:11])) <= 60
    assert lines[10].split() == ["9"] * 6
    assert lines[11] == "… 25 rows in all"
    assert lines[12] == "columns not shown: column_6, column_7, column_8, error"
    assert lines[13] == "rows with an error: 1"
    (cell,) = str(linecard.Table({"error": ["x" * 90]})).splitlines()[1:]
    assert cell == "x" * 39 + "…"


def test_progress_is_told(transmit: str) -> None:
    seen: list[tuple[int, int]] = []
    linecard.sweep(transmit, {"core.mhz": range(100, 110)}, chunk=4, progress=lambda done, of: seen.append((done, of)))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (10, 10) and len(seen) == 3


def test_what_progress_raises_ends_it(transmit: str) -> None:
    def stop(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        linecard.sweep(transmit, {"core.mhz": range(100, 200)}, chunk=1, progress=stop)


def test_tables_are_written(transmit: str, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = linecard.sweep(transmit, {"core.mhz": [100, "fast", 200]})
    table.to_parquet(tmp_path / "t.parquet")
    back = parquet.read_table(tmp_path / "t.parquet")
    assert back.column_names == list(table) and back.num_rows == 3
    frame = pytest.importorskip("pandas") and table.to_pandas()
    assert list(frame.columns) == list(table) and len(frame) == 3
    assert "<table>" in table._repr_html_() and "3 rows" in table._repr_html_()
    with pytest.raises(FileNotFoundError):
        table.to_parquet(tmp_path / "no" / "t.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.parquet"]


def test_tables_are_given_to_others(tmp_path: Path) -> None:
    table = linecard.Table({"n": [1, 2], "loss": [0.5, None], "why": ["a, b", None], "ok": [True, False]})
    text = 'n,loss,why,ok\r\n1,0.5,"a, b",True\r\n2,,,False\r\n'
    assert table.to_csv() == text and table.to_csv(tmp_path / "t.csv") is None
    assert (tmp_path / "t.csv").read_bytes() == text.encode()
    with pytest.raises(FileNotFoundError):
        table.to_csv(tmp_path / "no" / "t.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]
    assert linecard.Table({}).to_csv() == "\r\n"
    pytest.importorskip("pyarrow")
    arrow = table.to_arrow()
    assert arrow.column_names == list(table) and arrow["why"].to_pylist() == ["a, b", None]
    pytest.importorskip("polars")
    frame = table.to_polars()
    assert frame.columns == list(table) and frame["why"].to_list() == ["a, b", None]
    assert frame["n"].to_list() == [1, 2] and frame["ok"].to_list() == [True, False]


def test_the_module_runs_without_extras(transmit: str) -> None:
    """Neither pandas nor a cluster is imported before it is asked for."""
    code = (
        "import sys, linecard\n"
        f"linecard.sweep({transmit!r}, {{'core.mhz': [100, 101]}})\n"
        "print(sorted(name for name in ('pandas', 'distributed', 'pyarrow') if name in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
