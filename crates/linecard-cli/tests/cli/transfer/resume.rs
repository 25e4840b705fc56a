//! Either end is killed at any time: the next attempt resumes, and sends little again.

use super::ends::{
    Ends, HEADER_BYTES, JOURNAL, Receiver, Sender, Survivor, account, kill_one, number, signal,
};
use crate::folder::CommandOutput;
use linecard::rng::Rng;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::FileExt;
use std::time::Duration;

const CHUNK_BYTES: u64 = 256 << 10;
const LANES: u64 = 2;
const FILE_BYTES: usize = 6 << 20;
/// Memory of the receiver: it may have received data of this size that is not written yet.
const MEMORY: &str = "1M";
const WINDOW_BYTES: u64 = 1 << 20;
/// The counter of bytes does not distinguish probes from data.
const SLACK_BYTES: u64 = 64 << 10;
const HEADERS_BYTES: u64 = 42 + 40;
const PAYLOAD_BYTES: u64 = 1_408;

/// Rounds; many if requested.
fn rounds() -> u64 {
    let usual = if std::env::var_os("LINECARD_LONG").is_some() { 50 } else { 4 };
    number("LINECARD_ROUNDS").unwrap_or(usual)
}

fn start(ends: &Ends) -> (Receiver, Sender) {
    let receiver = ends.receiver(&["--json", "--memory", MEMORY]);
    let lanes = ["--lane", "127.0.0.1"].repeat(LANES as usize);
    let more = ["--chunk", "256K", "--payload", "1408", "--rate", "100M", "--mode", "stable"];
    let more = [&more[..], &lanes, &["--json"]].concat();
    let sender = Sender::start(ends.sender("from.bin", &receiver, &more));
    (receiver, sender)
}

/// Data that left, or came, as the end says that was left: each byte once.
fn moved_bytes(account: &Value) -> u64 {
    let transfer = &account["transfer"];
    if let Some(taken) = transfer["packets"].as_u64() {
        return taken * PAYLOAD_BYTES;
    }
    let lanes = account["lanes"].as_array().unwrap().iter();
    let left: u64 = lanes
        .map(|lane| {
            let of = |key: &str| lane["value"][key].as_u64().unwrap();
            of("line_bytes") - of("packets") * HEADERS_BYTES
        })
        .sum();
    left.saturating_sub(transfer["resent"].as_u64().unwrap() * PAYLOAD_BYTES)
}

/// Kills one end at a random moment. Returns how much it has moved, by the statistics of the other; none if it was over
/// by then.
fn killed(ends: &Ends, rng: &mut Rng) -> Option<u64> {
    let (receiver, sender) = start(ends);
    let is_receiver = rng.below(2) == 0;
    std::thread::sleep(Duration::from_millis(30 + rng.below(250)));
    match kill_one(receiver, sender, is_receiver) {
        Survivor::Complete => None,
        Survivor::Nothing => Some(0),
        Survivor::Account(account) => Some(moved_bytes(&account)),
    }
}

/// A file with its final name is complete, whichever process was killed. Only its journal may still
/// exist.
fn begin_anew(ends: &Ends) {
    let (from, to) = (ends.folder.read("from.bin"), ends.folder.read("to/from.bin"));
    assert!(from == to, "{} bytes are not those {}", to.len(), from.len());
    fs::remove_dir_all(ends.folder.path("to")).unwrap();
}

/// Kills the receiver when it has some chunks, and says which of them was recorded first.
fn killed_receiver(ends: &Ends) -> u32 {
    let (receiver, sender) = start(ends);
    ends.wait_for_records(6);
    signal("KILL", receiver.id());
    let (sent, got) = (sender.end(), receiver.end());
    assert_eq!((sent.code, got.code), (Some(14), None), "{sent:?} {got:?}");
    let journal = ends.folder.read(JOURNAL);
    let record = &journal[HEADER_BYTES as usize..];
    u32::from_be_bytes(record[..4].try_into().unwrap())
}

fn had_bytes(outcome: &CommandOutput) -> u64 {
    account(outcome)["transfer"]["had_bytes"].as_u64().unwrap_or(0)
}

/// The entries of a journal are not trusted: the disk is read.
#[test]
fn a_chunk_that_is_not_what_was_received_is_sent_again() {
    let ends = Ends::with_file(FILE_BYTES);
    let chunk = killed_receiver(&ends);
    let before = ends.records();
    let part = ends.folder.path("to/.from.bin.linecard-part");
    let part = fs::OpenOptions::new().write(true).open(part).unwrap();
    part.write_all_at(&[0; 4_096], u64::from(chunk) * CHUNK_BYTES + 8_192).unwrap();
    let (receiver, sender) = start(&ends);
    let (sent, got) = (sender.end(), receiver.end());
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    ends.assert_equal();
    assert_eq!(had_bytes(&sent), (before - 1) * CHUNK_BYTES);
}

#[test]
fn chunks_of_another_length_are_not_sent_again() {
    let ends = Ends::with_file(FILE_BYTES);
    killed_receiver(&ends);
    let before = ends.records() * CHUNK_BYTES;
    let (sent, got) = ends.both("from.bin", &["--chunk", "64K", "--json"], &[]);
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    ends.assert_equal();
    assert_eq!(had_bytes(&sent), before);
}

/// Promise (Transfer): A receiver that is killed at random moments resumes, and data that is sent again
/// is at most its window and what its disk does not have with the right hash.
#[test]
fn killed_at_any_moment() {
    let seed = number("LINECARD_SEED").unwrap_or(1);
    let mut rng = Rng::new(seed);
    let ends = Ends::with_file(FILE_BYTES);
    for round in 0..rounds() {
        let before = ends.records();
        let moved = killed(&ends, &mut rng);
        if ends.folder.path("to/from.bin").exists() {
            begin_anew(&ends);
            continue;
        }
        let moved = moved.expect("both ends said that it was over");
        let whole = ends.records().saturating_sub(before) * CHUNK_BYTES;
        let again = moved.saturating_sub(whole);
        let most = WINDOW_BYTES + SLACK_BYTES;
        assert!(again <= most, "round {round} of seed {seed}: {again} of {moved} bytes again");
    }
    let before = ends.records();
    let (receiver, sender) = start(&ends);
    let (sent, got) = (sender.end(), receiver.end());
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    ends.assert_equal();
    let had = account(&sent)["transfer"]["had_bytes"].as_u64().unwrap_or(0);
    // Equal but for the last chunk, which may be shorter.
    assert!(had <= before * CHUNK_BYTES && had + CHUNK_BYTES >= before * CHUNK_BYTES, "{had}");
}
