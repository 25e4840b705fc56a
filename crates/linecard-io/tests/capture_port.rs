//! Capture files as the two ends of pipelines.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use linecard::offload::coalesce::Config;
use linecard::offload::complete_checksum;
use linecard::packet::{Batch, Form, Gso, LinkType, Meta, Packet, Pool, PoolBuffer};
use linecard::pipeline::{NoMeter, Pipeline};
use linecard::port::{Port, PortState};
use linecard::stage::Stage;
use linecard::stages::{Coalesce, Forward};
use linecard::time::Instant;
use linecard_io::attach::{Prepared, Settings};
use linecard_io::capture::{Format, OutputFile, Reader, Record};
use linecard_io::port::{CaptureSink, CaptureSource, Pace};
use linecard_testkit::captures;
use linecard_tun::BUFFER_LEN;
use std::fs;
use std::path::Path;

fn bulk() -> Vec<u8> {
    let path = captures::own().into_iter().find(|path| path.ends_with("tcp4-bulk.pcap"));
    fs::read(path.unwrap()).unwrap()
}

/// The frames of a capture, with their times.
fn frames(bytes: &[u8]) -> Vec<(Vec<u8>, u64)> {
    let (mut reader, mut record) = (Reader::new(bytes).unwrap(), Record::default());
    let mut frames = Vec::new();
    while reader.read(&mut record).unwrap() {
        if record.is_packet() {
            assert!(!record.is_truncated());
            frames.push((record.data().to_vec(), record.timestamp_ns()));
        }
    }
    frames
}

fn link(bytes: &[u8]) -> LinkType {
    let (mut reader, mut record) = (Reader::new(bytes).unwrap(), Record::default());
    while !record.is_packet() || record.data().is_empty() {
        assert!(reader.read(&mut record).unwrap());
    }
    LinkType::from_capture(reader.link_type(record.interface()).unwrap())
}

fn source(bytes: &[u8], pace: Pace) -> CaptureSource<&[u8]> {
    CaptureSource::new(bytes, Pool::new(4_096, BUFFER_LEN), pace).unwrap()
}

/// Runs all of a capture through a stage into a file; gives the file.
fn through(bytes: &[u8], stage: impl Stage<PoolBuffer>, format: Format) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let file = OutputFile::create(&path, &[]).unwrap();
    let sink = CaptureSink::new(file, format, link(bytes), 5_000_000_000).unwrap();
    let mut pipeline = Pipeline::new(source(bytes, Pace::Fast), stage, sink);
    let mut now = Instant::ZERO;
    while !pipeline.run_once(now, &mut NoMeter).ended {
        now = now.plus_ns(1_000);
    }
    assert!(pipeline.source.error().is_none());
    let (came, all) = (pipeline.source.counters(), frames(bytes));
    assert_eq!(came.received, all.len() as u64);
    assert_eq!(came.received_bytes, all.iter().map(|frame| frame.0.len() as u64).sum::<u64>());
    assert!(!path.exists(), "not complete yet");
    let gone = pipeline.sink.finish().unwrap();
    assert_eq!((gone.dropped.total(), came.dropped.total()), (0, 0));
    let written = fs::read(&path).unwrap();
    assert_eq!(frames(&written).len() as u64, gone.transmitted);
    written
}

/// Promise (Captures): Capture files work as ports of a pipeline: every frame of 18 captures
/// passes, merged ones as one valid frame, as fast as possible or with the recorded intervals to
/// the nanosecond.
#[test]
fn every_frame_comes_through() {
    for path in captures::own() {
        let bytes = fs::read(&path).unwrap();
        for format in [Format::Pcap, Format::PcapNg] {
            let written = through(&bytes, Forward::default(), format);
            assert_eq!(link(&written), link(&bytes), "{}", path.display());
            let (before, after) = (frames(&bytes), frames(&written));
            let same = before.iter().map(|it| &it.0).eq(after.iter().map(|it| &it.0));
            assert!(same, "{}", path.display());
            // Times are those of transmission, counted from the zero that was given.
            let times = after.iter().map(|frame| frame.1);
            assert!(times.clone().is_sorted() && times.min() >= Some(5_000_000_000));
        }
    }
}

fn payload(bytes: &[u8]) -> (usize, usize) {
    let link = link(bytes);
    let packets = frames(bytes);
    let lens = packets.iter().map(|(bytes, _)| {
        let mut packet = Packet::new(bytes.clone(), link, Meta::default());
        // In one of them is ICMP too.
        assert!(matches!(packet.layout().form(), Form::Datagram | Form::OtherTransport));
        complete_checksum(&mut packet);
        assert_eq!(packet.bytes(), bytes, "the checksum was right");
        packet.payload_len()
    });
    (packets.len(), lens.sum())
}

#[test]
fn merged_packets_are_written_as_one_valid_frame() {
    for name in ["tcp4-bulk.pcap", "tcp4-8flows.pcap", "tcp6-bulk.pcap", "tcp4-sll2.pcap"] {
        let path = captures::own().into_iter().find(|path| path.ends_with(name)).unwrap();
        let bytes = fs::read(path).unwrap();
        for format in [Format::Pcap, Format::PcapNg] {
            let written = through(&bytes, Coalesce::new(Config::default()), format);
            let (before, after) = (payload(&bytes), payload(&written));
            assert!(after.0 * 4 < before.0 * 3, "{name}: {} became {}", before.0, after.0);
            assert_eq!(after.1, before.1, "{name}: all payload, once");
        }
    }
}

#[test]
fn a_packet_that_is_to_be_cut_stays_whole() {
    let (large, _) = frames(&bulk()).into_iter().max_by_key(|frame| frame.0.len()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pcap");
    let file = OutputFile::create(&path, &[]).unwrap();
    let mut sink = CaptureSink::new(file, Format::Pcap, LinkType::Ethernet, 0).unwrap();
    let gso = Some(Gso { size: 100, segments: 15, ..Gso::default() });
    let mut batch = Batch::new();
    let mut push = |link, gso| {
        let packet = Packet::new(large.clone(), link, Meta { gso, ..Meta::default() });
        assert!(batch.push(packet).is_ok());
    };
    push(LinkType::Ethernet, gso);
    push(LinkType::Raw, None);
    sink.transmit(&mut batch, Instant::from_ns(1_500));
    assert!(batch.is_empty() && sink.error().is_none());
    let counters = sink.finish().unwrap();
    assert_eq!((counters.transmitted, counters.dropped.other_link), (1, 1));
    assert_eq!(frames(&fs::read(path).unwrap()), [(large, 1_500)]);
}

#[test]
fn recorded_frames_come_as_far_apart_as_they_were() {
    let bytes = bulk();
    let (all, mut source) = (frames(&bytes), source(&bytes, Pace::Recorded));
    let begin = Instant::from_ns(77_000);
    let (mut now, mut batch, mut came) = (begin, Batch::new(), Vec::new());
    while source.receive(&mut batch, now) == PortState::Open {
        came.extend(batch.drain().map(|packet| packet.meta.timestamp));
        if let Some(due) = source.next_due().filter(|due| *due > now) {
            // Not a nanosecond before.
            let early = Instant::from_ns(due.as_ns() - 1);
            assert_eq!(source.receive(&mut batch, early), PortState::Open);
            assert!(batch.is_empty());
            now = due;
        }
    }
    came.extend(batch.drain().map(|packet| packet.meta.timestamp));
    assert_eq!(came.len(), all.len());
    let mut latest = 0;
    for (at, (_, ns)) in came.iter().zip(&all) {
        latest = latest.max(ns - all[0].1);
        assert_eq!(at.ns_since(begin), latest);
    }
    assert!(latest > 0);
}

#[test]
fn everything_before_the_damage_comes_and_the_damage_is_kept() {
    let whole = bulk();
    let bytes = &whole[..whole.len() - 10];
    let mut source = source(bytes, Pace::Fast);
    let (mut batch, mut came) = (Batch::new(), Vec::new());
    while source.receive(&mut batch, Instant::ZERO) == PortState::Open {
        came.extend(batch.drain().map(|packet| packet.bytes().to_vec()));
    }
    came.extend(batch.drain().map(|packet| packet.bytes().to_vec()));
    let all = frames(&whole);
    assert!(came.iter().eq(all[..all.len() - 1].iter().map(|frame| &frame.0)));
    let error = source.error().unwrap();
    assert!(error.is_damage(), "{error}");
    assert_eq!(source.receive(&mut batch, Instant::ZERO), PortState::Ended);
    assert!(batch.is_empty());
}

#[test]
fn frames_wait_for_buffers_and_those_too_long_are_counted() {
    let bytes = bulk();
    let pool = Pool::new(2, 200);
    let mut source = CaptureSource::new(&bytes[..], pool, Pace::Fast).unwrap();
    let mut batch = Batch::new();
    assert_eq!(source.receive(&mut batch, Instant::ZERO), PortState::Open);
    assert_eq!((batch.len(), source.counters().no_buffer), (2, 1));
    while source.receive(&mut batch, Instant::ZERO) == PortState::Open {
        batch.drain().for_each(drop);
    }
    let (counters, all) = (source.counters(), frames(&bytes));
    let short = all.iter().filter(|frame| frame.0.len() <= 200).count() as u64;
    assert_eq!(counters.received, short);
    assert_eq!(counters.dropped.too_long, all.len() as u64 - short);
    source.transmit(&mut batch, Instant::ZERO);
    assert!(batch.is_empty());
}

#[test]
fn a_file_that_cannot_be_written_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pcap");
    let file = OutputFile::create(&path, &[]).unwrap();
    drop(CaptureSink::new(file, Format::Pcap, LinkType::Ethernet, 0).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    let full = OutputFile::create(Path::new("/dev/full"), &[]).unwrap();
    let mut sink = CaptureSink::new(full, Format::Pcap, LinkType::Ethernet, 0).unwrap();
    let mut batch = Batch::new();
    // More than is gathered before a call of the system.
    for _ in 0..40 {
        let packet = Packet::new(vec![0; 60_000], LinkType::Ethernet, Meta::default());
        assert!(batch.push(packet).is_ok());
    }
    sink.transmit(&mut batch, Instant::ZERO);
    let (counters, error) = (sink.counters(), sink.error().unwrap().to_string());
    assert!(error.contains("/dev/full"), "{error}");
    assert_eq!(counters.transmitted + counters.dropped.refused, 40);
    assert_eq!(sink.finish().unwrap_err().to_string(), error);
}

#[test]
fn what_is_no_capture_is_refused_at_once() {
    let pool = Pool::new(1, 64);
    let refused = CaptureSource::new(&b"no capture"[..], pool, Pace::Fast);
    assert!(refused.unwrap_err().to_string().contains("6e 6f 20 63"));
}

/// Whether nothing but the input is in the folder, at last.
fn is_alone(folder: &Path) -> bool {
    (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        fs::read_dir(folder).unwrap().count() == 1
    })
}

#[test]
fn an_attachment_that_is_dropped_leaves_no_threads_behind() {
    let folder = tempfile::tempdir().unwrap();
    let port = |name: &str| format!("file:{}", folder.path().join(name).display()).parse().unwrap();
    fs::write(folder.path().join("in"), bulk()).unwrap();
    let settings = Settings { keep_rights: true, ..Settings::new(port("in"), port("out")) };
    drop(Prepared::new(settings.clone()).unwrap());
    assert!(is_alone(folder.path()), "what was begun to be written is still there");
    drop(Prepared::new(settings).unwrap().start());
    let is_complete = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        folder.path().join("out").exists()
    });
    assert!(is_complete);
}
