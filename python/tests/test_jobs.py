"""Jobs: what the command says, as values and exceptions."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

import linecard
from support import SCENARIOS, TESTDATA


def test_a_report_is_a_dictionary_a_text_and_a_page(tmp_path: Path) -> None:
    report = linecard.solve("100G", mtu=1500)
    assert report.job == "model solve"
    assert report["demand"]["rate"] == 100e9
    assert report.to_dict() == json.loads(report.to_json())
    assert "Required rate" in str(report)
    assert report.to_html().startswith("<!DOCTYPE html>")
    assert report._repr_html_().startswith("<iframe srcdoc=")
    report.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == report.to_html()
    with pytest.raises(linecard.UsageError, match="page.txt"):
        report.save(tmp_path / "page.txt")
    with pytest.raises(KeyError):
        report["nothing"]


def test_a_report_is_a_mapping() -> None:
    report = linecard.solve("100G", mtu=1500)
    plain = report.to_dict()
    assert isinstance(report, Mapping)
    assert "demand" in report and "nothing" not in report and 7 not in report  # type: ignore[comparison-overlap]
    assert list(report) == list(plain) and len(report) == len(plain) > 3
    assert dict(report) == plain and report == plain and plain == report and report != {}
    assert list(report.keys()) == list(plain) and dict(report.items()) == plain
    assert list(report.values()) == list(plain.values())
    assert report.get("demand") == plain["demand"]
    assert (report.get("nothing"), report.get("nothing", 3)) == (None, 3)
    assert {**report} == plain and report == linecard.solve("100G", mtu=1500) != linecard.solve("50G", mtu=1500)
    match report:
        case {"demand": {"rate": rate}}:
            assert rate == 100e9
        case _:
            pytest.fail("a report does not match as a mapping")


def heights_in_a_notebook(report: linecard.Report, folder: Path) -> tuple[int, int, int]:
    """Pixels of a report's frame where a browser shows it in another page, as notebooks do; pixels that can be
    scrolled in that frame; pixels down to the last of its content.
    """
    page = folder / "notebook.html"
    markup = json.dumps(report._repr_html_()).replace("</", "<\\/")
    script = f"""document.getElementById('cell').innerHTML = {markup};
        setTimeout(() => {{
            const shown = document.querySelector('iframe').contentDocument;
            const low = Math.max(...[...shown.body.children].map(part => part.getBoundingClientRect().bottom));
            document.body.dataset.heights = [shown.documentElement.scrollHeight, Math.ceil(low)].join();
        }}, 3000);"""
    page.write_text(f"<!DOCTYPE html><body><div id=cell></div><script>{script}</script></body>")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1000,800"]
    done = subprocess.run(
        ["chromium", *options, f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=5000", "--dump-dom",
         page.as_uri()], capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    frame = re.search(r'style="[^"]*height: ?(\d+)px', done.stdout)
    content = re.search(r'data-heights="(\d+),(\d+)"', done.stdout)
    assert frame and content, done.stdout[-500:]
    return int(frame[1]), int(content[1]), int(content[2])


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is missing: run .ci/setup")
def test_a_report_in_a_notebook_is_as_high_as_its_page(tmp_path: Path) -> None:
    """Short and long reports are seen without scrolling in their frames, and without a gap below."""
    long = linecard.solve("400G", mtu=1500, bus=256)
    short = linecard.transfer(lanes=1, chunks=1, chunk="64K")
    frames = []
    for report in (long, short):
        frame, scrolled, low = heights_in_a_notebook(report, tmp_path)
        assert scrolled <= frame and low <= frame < low + 64, (frame, scrolled, low)
        frames.append(frame)
    assert frames[0] > frames[1] > 100


def test_figures_are_shown_saved_and_read(tmp_path: Path) -> None:
    report = linecard.reproduce("gigabit-overhead")
    figure = report.figures["figure_7"]
    assert isinstance(figure, linecard.Figure) and figure.title.startswith("Figure 7")
    assert figure._repr_svg_() == figure.svg and "<svg" in str(figure.svg) and figure.html is None
    assert figure._repr_html_().startswith("<img src=")
    points = figure.to_table().where(figure.to_table()["is_published"])
    assert points.row(0) == {"name": "text: 1,460 of 1,538 bytes", "is_published": True,
                             "answered_by": "from the sizes of headers",
                             "x": 1518.0, "y": 94.9, "low": 94.9, "high": 94.9}  # fmt: skip
    for ending in ("svg", "png", "html"):
        figure.save(tmp_path / f"figure.{ending}")
    assert (tmp_path / "figure.svg").read_text() == figure.svg
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(linecard.UsageError, match="ends in .svg, .png or .html"):
        figure.save(tmp_path / "figure.pdf")
    assert pickle.loads(pickle.dumps(report)).figures == report.figures


def test_models_have_figures(tmp_path: Path) -> None:
    solved = linecard.solve("100G").figures
    assert solved and all(figure.svg and len(figure.to_table()) for figure in solved.values())
    merged = linecard.coalesce_capture(TESTDATA / "captures" / "tcp4-bulk.pcap", tmp_path / "merged.pcapng").figures
    drawn = next(figure for figure in merged.values() if figure.svg is None)
    assert drawn._repr_html_().startswith("<iframe srcdoc=") and len(drawn.to_table())
    with pytest.raises(linecard.UsageError, match="save it as .html"):
        drawn.save(tmp_path / "figure.svg")
    drawn.save(tmp_path / "figure.html")
    assert (tmp_path / "figure.html").read_text() == drawn.html


def test_own_published_values_are_reproduced() -> None:
    report = linecard.reproduce("my-server", scenario=SCENARIOS / "paper.toml")
    assert report.figures and report["verdicts"]["unexplained"] == 0
    with pytest.raises(linecard.UsageError, match="no reproduction with the name"):
        linecard.reproduce("none", scenario=SCENARIOS / "paper.toml")
    with pytest.raises(linecard.UsageError, match="none: no such reproduction"):
        linecard.reproduce("none")


def test_reports_go_to_other_processes(tmp_path: Path) -> None:
    report = linecard.solve("100G", mtu=1500)
    copy = pickle.loads(pickle.dumps(report))
    copy = pickle.loads(pickle.dumps(copy))
    assert (copy.job, copy.notes, repr(copy), str(copy)) == (report.job, report.notes, repr(report), str(report))
    assert copy.to_dict() == report.to_dict() and copy.to_html() == report.to_html()
    report.save(tmp_path / "here.html")
    copy.save(tmp_path / "there.html")
    for name in ("html", "json"):
        assert (tmp_path / f"here.{name}").read_bytes() == (tmp_path / f"there.{name}").read_bytes()


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("model-*.toml")), ids=lambda path: path.stem)
def test_every_model_runs(path: Path) -> None:
    assert linecard.model(path).job == "model run"


def test_values_are_set() -> None:
    path = SCENARIOS / "model-lso.toml"
    slow, fast = (linecard.model(path, set={"core.mhz": mhz}, phases=1) for mhz in (100, 200.0))
    assert slow["rates"]["packets_per_second"] < fast["rates"]["packets_per_second"]
    with pytest.raises(linecard.UsageError, match="core.mhz=-5"):
        linecard.model(path, set={"core.mhz": -5})
    with pytest.raises(TypeError, match="is not a value: give a number or a text"):
        linecard.model(path, set={"core.mhz": object()})


def test_bottlenecks_are_relieved() -> None:
    assert len(linecard.bottlenecks(SCENARIOS / "model-lso.toml", steps=3)["steps"]) <= 3


def test_the_former_name_of_bottlenecks_warns() -> None:
    with pytest.warns(FutureWarning, match="is now called linecard.bottlenecks"):
        assert linecard.ladder is linecard.bottlenecks


def test_transfers_are_the_same_for_the_same_seed() -> None:
    small = {"lanes": 2, "chunks": 4, "chunk": "64K", "loss": 0.01}
    first = linecard.transfer(**small, seed=3)  # type: ignore[arg-type]
    assert first.to_dict() == linecard.transfer(**small, seed=3).to_dict()  # type: ignore[arg-type]
    other = linecard.transfer(**small, seed=4)  # type: ignore[arg-type]
    assert first.to_dict()["config"]["run"] == {"seed": 3} and other.to_dict()["config"]["run"] == {"seed": 4}
    assert {**first, "config": None} != {**other, "config": None}
    with pytest.raises(linecard.UsageError, match="loss=2"):
        linecard.transfer(loss=2)


def test_a_plan_that_fits_is_a_report() -> None:
    scenario = SCENARIOS / "plan-transfer.toml"
    plan = linecard.plan(scenario)
    assert plan.job == "plan"
    assert plan.to_dict()["config"]["measure"] is False and "demand" in plan.to_dict()["config"]


def test_an_infeasible_plan_raises_with_its_report(tmp_path: Path) -> None:
    text = (SCENARIOS / "plan-transfer.toml").read_text()
    path = tmp_path / "plan.toml"
    lines = ['goodput = "100000G"' if line.startswith("goodput") else line for line in text.splitlines()]
    path.write_text("\n".join(lines))
    with pytest.raises(linecard.InfeasibleError) as error:
        linecard.plan(path)
    assert error.value.code == 13 and error.value.report is not None
    assert error.value.report.job == "plan"
    copy = pickle.loads(pickle.dumps(error.value))
    assert (str(copy), str(copy.report)) == (str(error.value), str(error.value.report))


def test_no_clock_is_enough() -> None:
    with pytest.raises(linecard.InfeasibleError, match="no core clock carries this") as error:
        linecard.solve("400G", mtu=1500, dma=100)
    assert error.value.code == 13


def test_captures_are_merged_and_cut(tmp_path: Path) -> None:
    source, merged, back = (
        TESTDATA / "captures" / "tcp4-bulk.pcap",
        tmp_path / "m.pcapng",
        tmp_path / "b.pcap",
    )
    report = linecard.coalesce_capture(source, merged, hold="100us")
    assert report["merging"]["packets_out"] < report["merging"]["packets_in"]
    linecard.segment_capture(merged, back)
    packets = [(packet.time_ns, packet.data) for packet in linecard.Capture(source)]
    assert [(packet.time_ns, packet.data) for packet in linecard.Capture(back)] == packets
    with pytest.raises(linecard.UsageError, match="hold=11s"):
        linecard.coalesce_capture(source, merged, hold="11s")
    with pytest.raises(linecard.LinecardError, match="cannot open .*none.pcap"):
        linecard.coalesce_capture(tmp_path / "none.pcap", merged)


def test_a_name_that_looks_like_an_option_is_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-x.pcap").write_bytes((TESTDATA / "captures" / "udp4.pcap").read_bytes())
    assert linecard.coalesce_capture("-x.pcap", "out.pcapng").job == "coalesce"


def test_no_stream_is_no_verdict() -> None:
    with pytest.raises(linecard.WithheldError, match="no UDP flow"):
        linecard.analyze(TESTDATA / "captures" / "tcp4-bulk.pcap")


def test_exceptions_travel() -> None:
    error = linecard.UsageError("mtu 3: choose 68 to 65535", 2)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.code) == (linecard.UsageError, str(error), 2)


LONG = """
import linecard, sys
print("begun", flush=True)
linecard.coalesce_capture(sys.argv[1], sys.argv[2])
"""


# Promise (Python): Ctrl-C ends a long call, nothing of it continues, and no output is left.
def test_ctrl_c_ends_a_long_call_and_leaves_nothing(tmp_path: Path) -> None:
    """The capture is a pipe to which nobody writes any more: the job waits without limit, and can be ended."""
    import os

    pipe, out = tmp_path / "pipe", tmp_path / "out.pcapng"
    os.mkfifo(pipe)
    child = subprocess.Popen(
        [sys.executable, "-c", LONG, str(pipe), str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with pipe.open("wb") as writer:
        assert child.stdout is not None and child.stdout.readline() == "begun\n"
        writer.write((TESTDATA / "captures" / "udp4.pcap").read_bytes()[:5000])
        writer.flush()
        time.sleep(0.3)
        begun = time.monotonic()
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=10)
    assert "KeyboardInterrupt" in errors and time.monotonic() - begun < 5
    assert not out.exists()


SEVERAL = """
import linecard, sys
print("begun", flush=True)
try:
    while True:
        {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise SystemExit(7)
print("went on", flush=True)
"""

CALLS = {
    "array": "with linecard.Capture(sys.argv[1]) as capture: capture.read()",
    "study, one thread": "linecard.study([sys.argv[1]] * 3, 'flows', threads=1)",
    "study, two threads": "linecard.study([sys.argv[1]] * 3, 'merging', threads=2)",
    "sweep, one thread": "linecard.sweep(sys.argv[2], {'run.seed': range(1000)}, threads=1, chunk=500)",
    "sweep, two threads": "linecard.sweep(sys.argv[2], {'run.seed': range(1000)}, threads=2, chunk=500)",
}


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture that takes seconds: many copies of one of the project's."""
    raw = (TESTDATA / "captures" / "tcp4-8flows.pcap").read_bytes()
    path = tmp_path_factory.mktemp("large") / "large.pcap"
    with path.open("wb") as file:
        file.write(raw[:24])
        for _ in range(5000):
            file.write(raw[24:])
    return path


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_ctrl_c_ends_calls_soon(large: Path, call: str) -> None:
    arguments = [sys.executable, "-c", SEVERAL.format(call=call), str(large), str(SCENARIOS / "model-transfer.toml")]
    child = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "begun\n"
    time.sleep(0.15)
    begun = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, errors = child.communicate(timeout=30)
    assert (out, child.returncode) == ("interrupted\n", 7), errors
    assert time.monotonic() - begun < 5


NOTHING_LEFT = """
import linecard, pathlib, sys, time
print("begun", flush=True)
try:
    {call}
except KeyboardInterrupt:
    for _ in range(100):
        names = []
        for path in pathlib.Path("/proc/self/task").glob("*/comm"):
            try:
                names.append(path.read_text().strip())
            except OSError:
                pass  # It has just ended.
        if "linecard" not in names:
            break
        time.sleep(0.01)
    print("ended, " + ("linecard runs on" if "linecard" in names else "nothing left"))
"""

ENDLESS = {
    "transmit": "linecard.model(sys.argv[1] + '/model-lso.toml', set={'load.messages': 1_000_000})",
    "receive": "linecard.model(sys.argv[1] + '/model-receive.toml', set={'load.messages': 1_000_000})",
    "npu": "linecard.model(sys.argv[1] + '/model-npu.toml', set={'run.duration': '3600s'})",
    "pci": "linecard.model(sys.argv[1] + '/model-pci.toml', set={'run.duration': '100s'})",
    "transfer": "linecard.transfer(chunks=100_000, chunk='256K')",
    "run": "linecard.run(seconds=60)",
}


@pytest.mark.parametrize("call", ENDLESS.values(), ids=ENDLESS)
def test_what_is_interrupted_does_not_run_on(call: str) -> None:
    arguments = [sys.executable, "-c", NOTHING_LEFT.format(call=call), str(SCENARIOS)]
    child = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "begun\n"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    out, errors = child.communicate(timeout=30)
    assert out == "ended, nothing left\n", errors


def test_progress_of_jobs(large: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[int, int]] = []
    linecard.coalesce_capture(large, tmp_path / "merged.pcap", progress=lambda *far: seen.append(far))
    size = large.stat().st_size
    assert seen[-1] == (size, size) and len(seen) > 1 and seen == sorted(seen)
    linecard.run(seconds=0.3, progress=True)
    assert "% in 0." in capsys.readouterr().err.split("\r")[-1]
    linecard.run(seconds=0.1)
    assert capsys.readouterr().err == ""
    with pytest.raises(ZeroDivisionError):
        linecard.run(seconds=60, progress=lambda _done, _all: 1 / 0)
    with pytest.raises(TypeError, match="progress: 'often' \\(str\\): give a function, True or False"):
        linecard.run(seconds=60, progress="often")  # type: ignore[arg-type]


def test_a_pipe_does_not_stop_other_threads(tmp_path: Path) -> None:
    """Opening waits until somebody writes: meanwhile Python goes on, and Ctrl-C is seen."""
    import os

    os.mkfifo(tmp_path / "pipe")
    code = "import linecard, sys\nprint('begun', flush=True)\nlinecard.Capture(sys.argv[1])"
    arguments = [sys.executable, "-c", code, str(tmp_path / "pipe")]
    child = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "begun\n"
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=10)
    assert "KeyboardInterrupt" in errors


def test_other_threads_run_meanwhile() -> None:
    import threading

    laps, stop = 0, threading.Event()

    def count() -> None:
        nonlocal laps
        while not stop.is_set():
            laps += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    begun = time.monotonic()
    linecard.run(seconds=0.3)
    took = time.monotonic() - begun
    stop.set()
    thread.join()
    assert laps > took / 0.001 / 20
