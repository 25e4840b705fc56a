//! `segment(coalesce(x)) == x` on real captures: every entry of the file comes back, byte for
//! byte, with its timestamp, and in the order of the whole file.
//!
//! The small captures of `testdata/` always run. The folder of real captures is found at
//! `LINECARD_CAPTURES`, or beside the project, and its absence is said.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test stops at the first surprise")]

use linecard::offload::coalesce::{ChecksumPolicy, Config, Refusal};
use linecard_host::capture::{Format, Reader, Record};
use linecard_host::convert::{CoalesceAccount, Cut, NoObserver, coalesce, segment};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What must be equal of an entry.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    data: Vec<u8>,
    options: Vec<u8>,
    ticks: u64,
    interface: u32,
    original_len: u32,
    is_packet: bool,
}

fn entries(bytes: &[u8]) -> Vec<Entry> {
    let (mut reader, mut record, mut entries) =
        (Reader::new(bytes).unwrap(), Record::default(), Vec::new());
    while let Ok(true) = reader.read(&mut record) {
        entries.push(Entry {
            data: record.data().to_vec(),
            options: record.options().to_vec(),
            ticks: record.ticks(),
            interface: record.interface(),
            original_len: record.original_len(),
            is_packet: record.is_packet(),
        });
    }
    entries
}

fn there(bytes: &[u8], config: &Config) -> (Vec<u8>, CoalesceAccount) {
    coalesce(bytes, Vec::new(), Format::PcapNg, config.clone(), &mut NoObserver).unwrap()
}

fn back(bytes: &[u8], format: Format) -> Vec<u8> {
    segment(bytes, Vec::new(), format, Cut::AsMerged, &mut NoObserver).unwrap().0
}

/// Checks one capture; gives packets and merged packets, none when it is no capture.
fn check(path: &Path, config: &Config) -> Option<(u64, u64)> {
    let bytes = fs::read(path).unwrap();
    let format = Reader::new(&bytes[..]).ok()?.format();
    let (merged, account) = there(&bytes, config);
    let name = path.display();
    assert!(account.damage.is_none() || Reader::new(&bytes[..]).is_ok(), "{name}");
    let counters = &account.counters;
    assert_eq!(counters.packets_in, counters.passed + segments(&account), "{name}");
    let (expected, got) = (entries(&bytes), entries(&back(&merged, format)));
    let packets = |entries: &[Entry]| entries.iter().filter(|entry| entry.is_packet).count() as u64;
    assert_eq!(packets(&expected), counters.packets_in, "{name}");
    assert_eq!(expected.len(), got.len(), "{name}: number of entries");
    for (number, (expected, got)) in expected.iter().zip(&got).enumerate() {
        // Sections and interfaces may say other lengths; packets are what they were.
        if expected.is_packet {
            assert_eq!(expected, got, "{name}: entry {}", number + 1);
        }
    }
    Some((counters.packets_in, counters.merged))
}

fn segments(account: &CoalesceAccount) -> u64 {
    let segments = &account.counters.segments;
    (segments.mean() * segments.count() as f64).round() as u64
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return files };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn check_all(what: &str, files: &[PathBuf], config: &Config) -> u64 {
    let (mut captures, mut packets, mut merged) = (0, 0, 0);
    for path in files {
        if let Some((some, joined)) = check(path, config) {
            captures += 1;
            packets += some;
            merged += joined;
        }
    }
    eprintln!("{what}: {captures} captures, {packets} packets, {merged} merged into another");
    merged
}

fn configs() -> [(&'static str, Config); 4] {
    let slow = Config { hold_budget: Duration::from_secs(10), ..Config::default() };
    let tiny = Config { max_flows: 8, max_held_packets: 16, ..slow.clone() };
    let trust = Config { checksum: ChecksumPolicy::Trust, ..slow.clone() };
    [
        ("default", Config::default()),
        ("hold 10 s", slow),
        ("tiny tables", tiny),
        ("trusted checksums", trust),
    ]
}

#[test]
fn own_captures_come_back() {
    let files = files(&root().join("testdata/captures"));
    assert!(files.len() >= 15, "testdata/captures is incomplete");
    for (what, config) in configs() {
        assert!(check_all(what, &files, &config) > 300, "{what}: little was merged");
    }
}

/// Partial checksums of a sender's capture come back too.
#[test]
fn a_capture_taken_before_checksum_offload_comes_back() {
    let path = root().join("testdata/captures/tcp4-offload.pcap");
    let bytes = fs::read(&path).unwrap();
    let (_, account) = there(&bytes, &Config::default());
    assert!(account.counters.refused.of(Refusal::PartialChecksum) > 10);
    let config = Config { checksum: ChecksumPolicy::Trust, ..Config::default() };
    let (merged, account) = there(&bytes, &config);
    assert_eq!(account.counters.refused.of(Refusal::PartialChecksum), 0);
    assert_eq!(entries(&back(&merged, Format::Pcap)), entries(&bytes));
}

#[test]
fn real_captures_come_back() {
    let folder = std::env::var_os("LINECARD_CAPTURES")
        .map_or_else(|| root().join("../shared/captures"), PathBuf::from);
    let files = files(&folder);
    if files.is_empty() {
        // Past the harness, which would show it for failing tests only.
        let line = "SKIPPED: no real captures: set LINECARD_CAPTURES to a folder of them";
        writeln!(std::io::stderr(), "{line}").unwrap();
        return;
    }
    for (what, config) in configs() {
        assert!(check_all(what, &files, &config) > 1_000, "{what}: little was merged");
    }
}

/// Without the bytes of a capture that is cut short, everything before the cut comes back.
#[test]
fn what_is_left_of_a_damaged_capture_comes_back() {
    let bytes = fs::read(root().join("testdata/captures/tcp4-bulk.pcap")).unwrap();
    let whole = entries(&bytes);
    for cut in [24, 39, 41, 1_000, bytes.len() / 2, bytes.len() - 1] {
        let (merged, account) = there(&bytes[..cut], &Config::default());
        let got = entries(&back(&merged, Format::Pcap));
        assert_eq!(got[..], whole[..got.len()]);
        let damage = account.damage.map(|damage| damage.to_string());
        assert!(cut == 24 || damage.unwrap().starts_with("damaged at byte "), "{cut}");
    }
}

/// Found by fuzzing: a pcapng file damaged in its first block gave an empty file, which is no
/// capture.
#[test]
fn damage_before_anything_is_read_gives_no_output() {
    let path = root().join("testdata/captures/tcp4-two-interfaces.pcapng");
    let mut bytes = fs::read(path).unwrap();
    bytes[12] = 0x67;
    let config = Config::default();
    let result = coalesce(&bytes[..], Vec::new(), Format::PcapNg, config, &mut NoObserver);
    assert!(result.unwrap_err().is_damage());
}
