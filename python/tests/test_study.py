"""Studies of many captures."""

from __future__ import annotations

from pathlib import Path

import pytest

import linecard
from support import TESTDATA

CAPTURES = sorted((TESTDATA / "captures").iterdir())


def test_flows_are_counted_over_captures() -> None:
    study = linecard.study(CAPTURES, "flows")
    by_hand: dict[str, list[int]] = {}
    for path in CAPTURES:
        for packet in linecard.Capture(path):
            if packet.flow:
                sums = by_hand.setdefault(str(packet.flow), [0, 0])
                sums[0] += 1
                sums[1] += packet.wire_length
    total = study.total
    found = {}
    for number in range(total.rows):
        row = total.row(number)
        source, destination = (
            f"[{row[name]}]" if ":" in str(row[name]) else str(row[name]) for name in ("source", "destination")
        )
        name = f"{row['protocol']} {source}:{row['source_port']} > {destination}:{row['destination_port']}"
        found[name] = [row["packets"], row["bytes"]]
    assert found == by_hand
    assert total["bytes"].tolist() == sorted(total["bytes"].tolist(), reverse=True)
    assert study.captures["file"].tolist() == [str(path) for path in CAPTURES]
    assert study.failed == []


# Promise (Python): A study gives the same answer on one thread and on several.
@pytest.mark.parametrize("what", ["flows", "merging"])
def test_the_answer_is_the_same_whoever_reads(what: str) -> None:
    answers = [linecard.study(CAPTURES, what, threads=threads) for threads in (1, 2, 4)]  # type: ignore[arg-type]
    for answer in answers[1:]:
        assert answer.total.digest() == answers[0].total.digest()
        assert answer.captures.digest() == answers[0].captures.digest()


def test_the_order_of_captures_does_not_change_the_total() -> None:
    forward, back = (linecard.study(files, "flows").total for files in (CAPTURES, CAPTURES[::-1]))
    assert forward.digest() == back.digest()


def test_merging_is_what_the_command_counts(tmp_path: Path) -> None:
    study = linecard.study(CAPTURES, "merging")
    sums = {"packets_in": 0, "packets_out": 0, "merged": 0}
    for number, path in enumerate(CAPTURES):
        merging = linecard.coalesce_capture(path, tmp_path / "out.pcapng")["merging"]
        for name in sums:
            assert study.captures[name][number] == merging[name], (path, name)
            sums[name] += merging[name]
    assert {name: study.total[name][0] for name in sums} == sums


def test_a_bad_capture_fails_by_itself(tmp_path: Path) -> None:
    bad, cut = tmp_path / "bad.pcap", tmp_path / "cut.pcap"
    bad.write_text("nothing")
    cut.write_bytes((TESTDATA / "captures" / "udp4.pcap").read_bytes()[:-1])
    files = [CAPTURES[0], bad, tmp_path / "none.pcap", cut]
    for what in ("flows", "merging"):
        study = linecard.study(files, what)
        assert study.failed == [str(file) for file in files[1:]], what
        assert study.total.rows > 0
        assert "none.pcap" in str(study.captures["error"][2])
        assert study.captures["packets" if what == "flows" else "packets_in"][3] > 0, "what is whole counts"


def test_captures_without_a_stream_say_so() -> None:
    study = linecard.study(CAPTURES[:2], "media")
    assert all("no UDP flow" in error for error in study.captures["error"])


def test_options_of_another_question_are_refused() -> None:
    with pytest.raises(linecard.UsageError, match="hold_ns=-5: choose 1 to"):
        linecard.study(CAPTURES[:1], "merging", hold_ns=-5)
    with pytest.raises(linecard.UsageError, match="are for .merging."):
        linecard.study(CAPTURES[:1], "flows", verify=False)


@pytest.mark.parametrize(
    ("files", "what", "error", "text"),
    [
        ("one.pcap", "flows", TypeError, "is one file: give a list"),
        ([], "flows", ValueError, "there are none"),
        (["a"], "colours", ValueError, "what='colours': choose flows, merging or media"),
        ([7], "flows", TypeError, "os.PathLike"),
    ],
)
def test_wrong_questions_are_named(files: object, what: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        linecard.study(files, what)  # type: ignore[arg-type]
