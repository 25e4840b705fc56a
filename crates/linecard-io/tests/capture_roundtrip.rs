//! Every real capture comes out as it went in.
//!
//! The folder is named by `LINECARD_CAPTURES`, or is `../shared/captures` beside the workspace.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use linecard_testkit::{captures, say};
use std::fs;

use linecard_io::capture::{CaptureError, Format, Lost, Reader, Record, Writer};
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::PcapNgReader;

/// The result for a file.
struct Conversion {
    written: Vec<u8>,
    offset: usize,
    lost: Lost,
    error: Option<CaptureError>,
}

/// Reads to the end or the damage; none if this is not a capture.
fn convert(bytes: &[u8], to: impl FnOnce(Format) -> Format) -> Option<Conversion> {
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(CaptureError::NotACapture { .. }) => return None,
        Err(error) => unreachable!("{error}"),
    };
    let format = to(reader.format());
    let mut writer = Writer::new(Vec::new(), format, reader.source()).unwrap();
    let mut record = Record::default();
    let mut error = None;
    while error.is_none() {
        match reader.read(&mut record) {
            Ok(true) => error = writer.write(&record).err(),
            Ok(false) => break,
            Err(damage) => error = Some(damage),
        }
    }
    let (offset, lost) = (reader.offset() as usize, writer.lost());
    Some(Conversion { written: writer.finish().unwrap(), offset, lost, error })
}

fn packets(bytes: &[u8]) -> Vec<Record> {
    let mut reader = Reader::new(bytes).unwrap();
    let mut record = Record::default();
    let mut packets = Vec::new();
    while reader.read(&mut record).unwrap_or(false) {
        if record.is_packet() {
            packets.push(record.clone());
        }
    }
    packets
}

/// Promise (Captures): Captures that are read and written in the same format are the same bytes up
/// to their end or damage: 730 files, where `LINECARD_CAPTURES` names them.
#[test]
fn the_same_format_gives_the_same_bytes() {
    let (mut read, mut damaged) = (0, Vec::new());
    for path in captures::real().unwrap_or_default() {
        let bytes = fs::read(&path).unwrap();
        let Some(outcome) = convert(&bytes, |format| format) else { continue };
        read += 1;
        assert!(outcome.written == bytes[..outcome.offset], "{}", path.display());
        match outcome.error {
            None => assert_eq!(outcome.offset, bytes.len(), "{}", path.display()),
            Some(error) => {
                assert!(error.is_damage(), "{}: {error}", path.display());
                let name = path.file_name().unwrap().display();
                damaged.push(format!("{name}: {error}"));
            }
        }
    }
    say(&format!("{read} captures, of them damaged {}:\n{}", damaged.len(), damaged.join("\n")));
}

#[test]
fn pcap_through_pcapng_gives_the_same_packets() {
    for path in captures::real().unwrap_or_default() {
        let bytes = fs::read(&path).unwrap();
        let Some(ng) = convert(&bytes, |_| Format::PcapNg) else { continue };
        if !matches!(Reader::new(&bytes[..]).unwrap().format(), Format::Pcap) {
            continue;
        }
        let back = convert(&ng.written, |_| Format::Pcap).unwrap();
        assert!(back.error.is_none(), "{}", path.display());
        assert_eq!((ng.lost, back.lost), (Lost::default(), Lost::default()), "{}", path.display());
        let (before, after) = (packets(&bytes), packets(&back.written));
        assert_eq!(before.len(), after.len(), "{}", path.display());
        for (here, there) in before.iter().zip(&after) {
            assert!(here.data() == there.data(), "{}", path.display());
            assert_eq!(here.ticks(), there.ticks(), "{}", path.display());
            assert_eq!(here.timestamp_ns(), there.timestamp_ns(), "{}", path.display());
            assert_eq!(here.original_len(), there.original_len(), "{}", path.display());
        }
    }
}

#[test]
fn pcapng_to_pcap_keeps_the_packets_or_says_why_not() {
    for path in captures::real().unwrap_or_default() {
        let bytes = fs::read(&path).unwrap();
        let Some(pcap) = convert(&bytes, |_| Format::Pcap) else { continue };
        match pcap.error {
            Some(CaptureError::LinkTypes { first, other }) => assert_ne!(first, other),
            Some(error) => assert!(error.is_damage(), "{}: {error}", path.display()),
            None => {
                let (before, after) = (packets(&bytes), packets(&pcap.written));
                assert_eq!(before.len(), after.len(), "{}", path.display());
                let same = |(a, b): (&Record, &Record)| {
                    a.data() == b.data() && a.original_len() == b.original_len()
                };
                assert!(before.iter().zip(&after).all(same), "{}", path.display());
                let late = before
                    .iter()
                    .zip(&after)
                    .filter(|(a, b)| a.timestamp_ns() != b.timestamp_ns())
                    .count() as u64;
                assert!(late <= pcap.lost.timestamps, "{}", path.display());
            }
        }
    }
}

/// pcap-file is an independent reader: where it reads on, both see the same.
#[test]
fn another_reader_sees_the_same() {
    let mut compared = 0;
    for path in captures::real().unwrap_or_default() {
        let bytes = fs::read(&path).unwrap();
        let Ok(mut reader) = Reader::new(&bytes[..]) else { continue };
        let mut record = Record::default();
        if reader.format() == Format::PcapNg {
            let mut other = PcapNgReader::new(&bytes[..]).unwrap();
            assert!(reader.read(&mut record).unwrap(), "the section that its constructor reads");
            while let Some(Ok(_)) = other.next_raw_block() {
                assert!(reader.read(&mut record).unwrap(), "{}", path.display());
                assert_eq!(reader.offset(), other.bytes_parsed(), "{}", path.display());
                compared += 1;
            }
            continue;
        }
        let mut other = PcapReader::new(&bytes[..]).unwrap();
        if other.header().version_minor < 4 {
            continue;
        }
        while let Some(Ok(raw)) = other.next_raw_packet() {
            assert!(reader.read(&mut record).unwrap(), "{}", path.display());
            assert!(record.data() == &raw.data[..], "{}", path.display());
            assert_eq!(record.original_len(), raw.orig_len, "{}", path.display());
            compared += 1;
        }
    }
    say(&format!("{compared} entries compared"));
}
