//! `segment(coalesce(x)) == x` on real captures: every entry of the file comes back, byte for
//! byte, with its timestamp, and in the order of the whole file.
//!
//! The small captures of `testdata/` always run. The folder of real captures is found at
//! `LINECARD_CAPTURES`, or beside the project, and its absence is reported.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test stops at the first surprise")]

use linecard::offload::coalesce::{ChecksumPolicy, Config, Flush, Refusal};
use linecard::packet::Gso;
use linecard::packet::checksum::Sum;
use linecard_io::capture::{Format, PacketChange, Reader, Record, Source, Writer};
use linecard_io::convert::{
    CoalesceStats, METADATA_OPTION, NoObserver, SegmentMetadata, SegmentMode, Step, coalesce,
    segment,
};
use linecard_testkit::{captures, root};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The parts of an entry that must be equal.
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

fn there(bytes: &[u8], config: &Config) -> (Vec<u8>, CoalesceStats) {
    coalesce(bytes, Vec::new(), Format::PcapNg, config.clone(), &mut NoObserver).unwrap()
}

fn back(bytes: &[u8], format: Format) -> Vec<u8> {
    segment(bytes, Vec::new(), format, SegmentMode::AsMerged, &mut NoObserver).unwrap().0
}

/// Checks one capture; gives packets and merged packets, none when it is not a capture.
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

fn segments(account: &CoalesceStats) -> u64 {
    let segments = &account.counters.segments;
    (segments.mean() * segments.count() as f64).round() as u64
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

/// Promise (Captures): What is merged from the 18 captures of the repository is restored byte for
/// byte, with time stamps and order, with hold budgets of 1 ms and 10 s and with tables of 8 flows
/// and 16 packets.
#[test]
fn own_captures_come_back() {
    let files = captures::own();
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

/// Promise (Captures): What is merged from a capture is restored byte for byte, with the time
/// stamps and the order of the whole file: 180,443 packets of 730 real captures in 4
/// configurations, where `LINECARD_CAPTURES` names them.
#[test]
fn real_captures_come_back() {
    let Some(files) = captures::real() else { return };
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

/// Found by review: segment metadata whose steps lead to the end of all numbers, and entries behind it.
#[test]
fn a_trail_to_the_end_of_all_numbers_loses_nothing() {
    let gso = Gso { size: 100, segments: 3, ..Gso::default() };
    let step = Step { entries: u64::MAX, ticks: i64::MIN };
    let metadata =
        SegmentMetadata { gso, steps: vec![step; 2], ..SegmentMetadata::default() }.encode();
    let frame = datagram(7, 0, 328);
    let mut writer =
        Writer::new(Vec::new(), Format::PcapNg, Source::pcap(101, false, 65_535)).unwrap();
    let append = Some((METADATA_OPTION, &metadata[..]));
    let change = PacketChange { append, ..PacketChange::default() };
    writer.write_packet(&Record::default(), &[&frame], change).unwrap();
    let one = writer.finish().unwrap();
    // A second section, with the same again.
    let hostile = [&one[..], &one].concat();
    let (back, account) =
        segment(&hostile[..], Vec::new(), Format::PcapNg, SegmentMode::AsMerged, &mut NoObserver)
            .unwrap();
    let out = entries(&back).iter().filter(|entry| entry.is_packet).count();
    assert_eq!((out, account.packets_out, account.restored), (6, 6, 2));
}

/// Found by review: bytes that waited were never counted down, and let everything go now and then.
#[test]
fn a_long_busy_capture_is_not_let_go_for_its_length() {
    let bytes = interleaved(30_000);
    assert!(bytes.len() > 40 << 20, "{}", bytes.len());
    let (_, account) = there(&bytes, &Config::default());
    assert_eq!(account.counters.flushed.of(Flush::HeldLimit), 0);
    assert!(account.counters.mean_aggregate() > 20.0);
}

/// A pcap of two UDP flows that take turns, a microsecond apart.
fn interleaved(packets: u32) -> Vec<u8> {
    let mut pcap = vec![0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    pcap.extend([0, 0, 4, 0, 101, 0, 0, 0]);
    for number in 0..packets {
        let ip = datagram(number / 2, number % 2, 1500);
        for word in [number / 1_000_000, number % 1_000_000, 1500, 1500] {
            pcap.extend(word.to_le_bytes());
        }
        pcap.extend(ip);
    }
    pcap
}

/// UDP over IPv4 of `len` bytes in all, without a UDP checksum.
fn datagram(id: u32, port: u32, len: u16) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    ip[2..4].copy_from_slice(&len.to_be_bytes());
    ip[4..6].copy_from_slice(&(id as u16).to_be_bytes());
    let checksum = Sum::of(&ip).checksum();
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    let udp = (len - 20).to_be_bytes();
    ip.extend([0, 7, 0, port as u8, udp[0], udp[1], 0, 0]);
    ip.resize(len.into(), 0);
    ip
}
