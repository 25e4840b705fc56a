//! Reader and writer on files built by hand.

use std::io::{self, Read};

use super::build::Build;
use super::*;

fn read_all(bytes: &[u8]) -> (Vec<Record>, Option<CaptureError>) {
    let mut records = Vec::new();
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (records, Some(error)),
    };
    let mut record = Record::default();
    loop {
        match reader.read(&mut record) {
            Ok(true) => records.push(record.clone()),
            Ok(false) => return (records, None),
            Err(error) => return (records, Some(error)),
        }
    }
}

fn packets(bytes: &[u8]) -> Vec<Record> {
    let (mut records, error) = read_all(bytes);
    assert!(error.is_none(), "{error:?}");
    records.retain(Record::is_packet);
    records
}

fn convert(bytes: &[u8], format: Format) -> Result<(Vec<u8>, Lost), CaptureError> {
    let mut reader = Reader::new(bytes)?;
    let mut writer = Writer::new(Vec::new(), format, reader.source())?;
    let mut record = Record::default();
    while reader.read(&mut record)? {
        writer.write(&record)?;
    }
    let lost = writer.lost();
    Ok((writer.finish()?, lost))
}

/// Number of delivered records, and what the error says.
fn damage(bytes: &[u8]) -> (usize, String) {
    let (records, error) = read_all(bytes);
    let error = error.unwrap();
    assert!(error.is_damage(), "{error}");
    (records.len(), error.to_string())
}

#[test]
fn pcap_fields_in_every_variant() {
    for (big, nanoseconds) in [(false, false), (false, true), (true, false), (true, true)] {
        let file = Build::pcap(big, nanoseconds, 4).packet(7, 1_500_000_000, 9, b"abcde");
        let all = packets(&file.bytes);
        let record = &all[0];
        assert_eq!((record.data(), record.original_len()), (&b"abcde"[..], 9));
        assert!(record.is_truncated());
        let ticks = if nanoseconds { 8_500_000_000 } else { 1_507_000_000 };
        assert_eq!(record.ticks(), ticks);
        assert_eq!(record.timestamp_ns(), if nanoseconds { ticks } else { ticks * 1000 });
        assert_eq!(convert(&file.bytes, Format::Pcap).unwrap().0, file.bytes);
        let reader = Reader::new(&file.bytes[..]).unwrap();
        assert_eq!((reader.link_type(0), reader.link_type(1)), (Some(1), None));
        assert_eq!((reader.format(), reader.offset()), (Format::Pcap, 24));
    }
}

#[test]
fn old_pcap_has_its_lengths_swapped() {
    let file = Build::pcap(true, false, 2).u32(1).u32(2).u32(9).u32(5).raw(b"abcde");
    let record = &packets(&file.bytes)[0];
    assert_eq!((record.data(), record.original_len()), (&b"abcde"[..], 9));
    assert_eq!(convert(&file.bytes, Format::Pcap).unwrap().0, file.bytes);
    let both = Build::pcap(false, false, 3).u32(1).u32(2).u32(9).u32(5).raw(b"abcde");
    let both = both.packet(1, 2, 9, b"abcde");
    assert!(packets(&both.bytes).iter().all(|record| record.original_len() == 9));
    assert_eq!(convert(&both.bytes, Format::Pcap).unwrap().0, both.bytes);
}

#[test]
fn sections_have_their_own_byte_order_and_interfaces() {
    let file = Build::pcapng(false)
        .interface(101, 0, &[(9, &[9])])
        .enhanced(1, 5, b"one", &[(1, b"note")])
        .order(true)
        .section(-1)
        .interface(113, 0, &[(9, &[3]), (14, &[0, 0, 0, 0, 0, 0, 0, 2])])
        .enhanced(0, 5, b"second", &[(2, &[0, 0, 0, 1])])
        .order(false)
        .section(1234)
        .interface(0, 0, &[])
        .obsolete(0, 6, b"third");
    let mut reader = Reader::new(&file.bytes[..]).unwrap();
    let mut record = Record::default();
    let mut seen = Vec::new();
    while reader.read(&mut record).unwrap() {
        if record.is_packet() {
            let link = reader.link_type(record.interface()).unwrap();
            seen.push((link, record.timestamp_ns(), reader.endianness()));
        }
    }
    let (little, big) = (Endianness::Little, Endianness::Big);
    assert_eq!(seen, [(101, 5, little), (113, 2_005_000_000, big), (0, 6_000, little)]);
    assert_eq!(convert(&file.bytes, Format::PcapNg).unwrap().0, file.bytes);
    let all = packets(&file.bytes);
    assert_eq!(all[0].option(options::COMMENT), Some(&b"note"[..]));
    assert_eq!(all[0].options().len(), 8, "no end-of-options");
    assert_eq!(all[1].options(), [0, 2, 0, 4, 0, 0, 0, 1], "in the section's byte order");
    assert_eq!((all[2].shape(), all[2].original_len()), (Shape::Obsolete, 10));
    assert_eq!(reader.offset(), file.bytes.len() as u64);
}

#[test]
fn simple_packets_are_cut_at_the_snapshot_length() {
    let file = Build::new(false).section(-1).interface(1, 6, &[]);
    let file = file.simple(9, b"abcdefgh").simple(3, b"xyz");
    let all = packets(&file.bytes);
    assert_eq!((all[0].data(), all[0].original_len()), (&b"abcdef"[..], 9));
    assert_eq!((all[1].data(), all[1].is_truncated()), (&b"xyz"[..], false));
    assert_eq!(all[0].ticks(), 0);
    let widened = widen(&file.bytes);
    let again = packets(&widened);
    assert_eq!(again[0].data(), b"abcdef", "a wider snapshot length must not lengthen it");
    assert_eq!((again[0].shape(), again[1].shape()), (Shape::Enhanced, Shape::Simple));
}

fn widen(bytes: &[u8]) -> Vec<u8> {
    let mut reader = Reader::new(bytes).unwrap();
    let source = reader.source().sizes_will_change();
    let mut writer = Writer::new(Vec::new(), reader.format(), source).unwrap();
    let mut record = Record::default();
    while reader.read(&mut record).unwrap() {
        writer.write(&record).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn changed_sizes_change_what_would_be_wrong() {
    let file = Build::new(true).section(40).interface(1, 1500, &[]).enhanced(0, 1, b"x", &[]);
    let wanted = Build::new(true).section(-1).interface(1, 262_144, &[]);
    assert_eq!(widen(&file.bytes), wanted.enhanced(0, 1, b"x", &[]).bytes);
    let pcap = Build::pcap(false, false, 4).bytes;
    assert_eq!(widen(&pcap)[16..20], 262_144_u32.to_le_bytes());
}

#[test]
fn unknown_blocks_and_padding_pass_through() {
    let file = Build::pcapng(true)
        .block(0x0bad, &[1, 2, 3, 4])
        .block(0x7fff_ffff, &[])
        .enhanced(0, 1, b"abc", &[(1, b"x")])
        .raw(&[]);
    let (records, error) = read_all(&file.bytes);
    assert!(error.is_none());
    let shapes: Vec<_> = records.iter().map(Record::shape).collect();
    let other = [Shape::Other(0x0bad), Shape::Other(0x7fff_ffff)];
    assert_eq!(shapes[2..4], other);
    assert!(records[2].data().is_empty() && !records[2].is_truncated());
    assert_eq!(convert(&file.bytes, Format::PcapNg).unwrap().0, file.bytes);
}

#[test]
fn a_block_without_end_of_options_keeps_its_options() {
    let body = [[0; 20].as_slice(), &[1, 0, 2, 0, b'h', b'i', 0, 0]].concat();
    let file = Build::pcapng(false).block(6, &body);
    assert_eq!(packets(&file.bytes)[0].option(1), Some(&b"hi"[..]));
}

#[test]
fn damage_says_where_and_what() {
    let pcap = Build::pcap(false, false, 4).packet(1, 2, 3, b"abc");
    let at = pcap.bytes.len();
    let hostile = pcap.clone().u32(0).u32(0).u32(u32::MAX).u32(0).raw(&[0; 80]);
    let text = format!("damaged at byte {at}: record claims 4294967295 bytes, 80 are left");
    assert_eq!(damage(&hostile.bytes), (1, text));
    let text = format!("damaged at byte {at}: the next header needs 16 bytes, only 3 left");
    assert_eq!(damage(&pcap.clone().raw(&[1, 2, 3]).bytes), (1, text));
    let long = pcap.u32(0).u32(0).u32(u32::MAX).u32(0).raw(&vec![0; MAX_ENTRY + 9]);
    let limit = format!("record claims 4294967295 bytes, the limit is {MAX_ENTRY}");
    assert_eq!(damage(&long.bytes), (1, format!("damaged at byte {at}: {limit}")));
}

#[test]
fn damaged_blocks_say_what_is_wrong() {
    let cases: [(Build, &str); 11] = [
        (ng().u32(6).u32(0xffff_fffc).raw(&[0; 72]), "record claims 4294967292 bytes, 80 are left"),
        (ng().u32(6).u32(0).u32(0), "block of type 0x00000006 has length 0, it needs 12"),
        (ng().u32(9).u32(13).raw(&[0; 9]), "block length 13 is not a multiple of 4"),
        (ng().u32(9).u32(12).u32(16), "block length is 12 before the block and 16 after it"),
        (ng().block(6, &[0; 16]), "block of type 0x00000006 has length 28, it needs 32"),
        (ng().block(1, &[0; 4]), "block of type 0x00000001 has length 16, it needs 20"),
        (ng().block(3, &[]), "block of type 0x00000003 has length 12, it needs 16"),
        (ng().enhanced(1, 0, b"", &[]), "packet is from interface 1, the section has 1"),
        (ng().simple(5, b"abcd"), "packet claims 5 captured bytes, its block holds 4"),
        (
            ng().block(0x0a0d_0d0a, &[1; 16]),
            "section header has byte-order magic 0x01010101, known is 0x1a2b3c4d",
        ),
        (ng().raw(&[6, 0]), "the next header needs 12 bytes, only 2 left"),
    ];
    for (file, text) in cases {
        let at = ng().bytes.len();
        assert_eq!(damage(&file.bytes), (2, format!("damaged at byte {at}: {text}")));
    }
}

fn ng() -> Build {
    Build::pcapng(false)
}

#[test]
fn reading_again_gives_the_same_error() {
    let file = ng().u32(9).u32(13).raw(&[0; 9]);
    let mut reader = Reader::new(&file.bytes[..]).unwrap();
    let mut record = Record::default();
    assert!(reader.read(&mut record).unwrap() && reader.read(&mut record).unwrap());
    let first = reader.read(&mut record).unwrap_err().to_string();
    assert_eq!(reader.read(&mut record).unwrap_err().to_string(), first);
    assert_eq!(record.shape(), Shape::Interface, "the record is as before");
}

#[test]
fn too_many_interfaces_are_refused() {
    let mut file = Build::new(false).section(-1);
    let one = Build::new(false).interface(1, 0, &[]).bytes;
    for _ in 0..=MAX_INTERFACES {
        file = file.raw(&one);
    }
    let (delivered, text) = damage(&file.bytes);
    assert_eq!(delivered, 1 + MAX_INTERFACES);
    assert!(text.ends_with("more than 65536 interfaces in one section"), "{text}");
}

#[test]
fn what_is_no_capture_is_told() {
    let refused = |bytes: &[u8]| Reader::new(bytes).unwrap_err().to_string();
    let wanted = "wanted is a pcap or pcapng file";
    assert_eq!(refused(b""), format!("not a capture: the input is empty; {wanted}"));
    assert_eq!(refused(b"# x"), format!("not a capture: it starts with 23 20 78; {wanted}"));
    assert_eq!(
        refused(b"PK\x03\x04.."),
        format!("not a capture: it starts with 50 4b 03 04; {wanted}")
    );
    for (start, with) in [
        (&b"\x1f\x8b\x08\x00"[..], "gzip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"\xfd7zXZ\x00", "xz"),
        (b"BZh91AY", "bzip2"),
    ] {
        let text =
            format!("compressed with {with}: decompress it first, for instance `{with} -dc FILE`");
        assert_eq!(refused(start), text);
    }
    let cut = &Build::pcap(true, false, 4).bytes[..10];
    assert_eq!(refused(cut), "damaged at byte 0: the next header needs 24 bytes, only 10 left");
    assert_eq!(
        refused(b"\n\r\r\n\x1c"),
        "damaged at byte 0: the next header needs 12 bytes, only 5 left"
    );
}

/// Gives bytes in odd pieces, with interruptions, and fails at the end if asked.
struct Trickle<'a>(&'a [u8], usize, bool);

impl Read for Trickle<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1 += 1;
        if self.1.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if self.0.is_empty() && self.2 {
            return Err(io::Error::other("the disk is gone"));
        }
        let room = into.len().min(self.1 % 7 + 1);
        self.0.read(&mut into[..room])
    }
}

#[test]
fn a_trickling_stream_reads_the_same() {
    let file = ng().enhanced(0, 1, b"abc", &[(1, b"x")]).obsolete(0, 6, b"third");
    let mut reader = Reader::new(Trickle(&file.bytes, 0, true)).unwrap();
    let mut record = Record::default();
    for wanted in read_all(&file.bytes).0 {
        assert!(reader.read(&mut record).unwrap());
        assert_eq!((record.shape(), record.data()), (wanted.shape(), wanted.data()));
    }
    let error = reader.read(&mut record).unwrap_err();
    assert!(!error.is_damage());
    let text = format!("cannot read at byte {}: the disk is gone", file.bytes.len());
    assert_eq!(error.to_string(), text);
}

#[test]
fn pcap_to_pcapng_and_back() {
    for (big, nanoseconds) in [(false, false), (false, true), (true, false), (true, true)] {
        let file = Build::pcap(big, nanoseconds, 4).packet(7, 8, 9, b"abcde");
        let file = file.packet(u32::MAX, 999_999, 3, b"abc");
        let (ng, lost) = convert(&file.bytes, Format::PcapNg).unwrap();
        assert_eq!(lost, Lost::default());
        let all = packets(&ng);
        for (here, there) in packets(&file.bytes).iter().zip(&all) {
            assert_eq!(here.data(), there.data());
            assert_eq!(here.timestamp_ns(), there.timestamp_ns());
            assert_eq!(here.original_len(), there.original_len());
        }
        let (back, lost) = convert(&ng, Format::Pcap).unwrap();
        assert_eq!(lost, Lost::default());
        // Only the length of the frame check sequence, bits 28 to 31 here, has no place in ours.
        let same = |at: usize| !(20..24).contains(&at);
        assert!((0..back.len()).filter(|&at| same(at)).all(|at| back[at] == file.bytes[at]));
        assert_eq!(back.len(), file.bytes.len());
    }
}

#[test]
fn pcapng_to_pcap_counts_what_is_lost() {
    let file = ng()
        .interface(1, 0, &[(2, b"eth1"), (9, &[9])])
        .block(5, &[0; 12])
        .enhanced(0, 1, b"a", &[(1, b"x"), (2, &[0; 4])])
        .enhanced(1, 1_000_000_001, b"b", &[]);
    let (pcap, lost) = convert(&file.bytes, Format::Pcap).unwrap();
    assert_eq!(lost, Lost { blocks: 2, options: 3, timestamps: 0 });
    let times: Vec<_> = packets(&pcap).iter().map(Record::timestamp_ns).collect();
    assert_eq!(times, [1_000, 1_000_000_001]);
    let late = ng().enhanced(0, 1, b"a", &[]).interface(1, 0, &[(9, &[9])]);
    let late = late.enhanced(1, 1_500, b"b", &[]);
    let (pcap, lost) = convert(&late.bytes, Format::Pcap).unwrap();
    assert_eq!((lost.timestamps, packets(&pcap)[1].timestamp_ns()), (1, 1_000));
    let none = Build::new(true).section(-1);
    assert_eq!(convert(&none.bytes, Format::Pcap).unwrap().0.len(), 24);
}

#[test]
fn pcap_has_one_link_type() {
    let file = ng().interface(113, 0, &[]);
    let error = convert(&file.bytes, Format::Pcap).unwrap_err();
    assert!(error.to_string().starts_with("pcap holds one link type, this capture has 1 and 113"));
}

fn write_like(bytes: &[u8], format: Format, change: PacketChange<'_>) -> (Vec<u8>, Lost) {
    let mut reader = Reader::new(bytes).unwrap();
    let mut writer = Writer::new(Vec::new(), format, reader.source()).unwrap();
    let mut record = Record::default();
    while reader.read(&mut record).unwrap() {
        if record.is_packet() {
            writer.write_packet(&record, &[b"head", b"er", b""], change).unwrap();
        } else {
            writer.write(&record).unwrap();
        }
    }
    let lost = writer.lost();
    (writer.finish().unwrap(), lost)
}

#[test]
fn a_new_packet_is_like_another() {
    let strip = [OptionMatch { code: 2989, prefix: b"ours" }];
    let change = PacketChange {
        ticks: Some(77),
        strip: &strip,
        append: Some((2988, b"new")),
        ..PacketChange::default()
    };
    for big in [false, true] {
        let options: [(u16, &[u8]); 3] = [(1, b"note"), (2989, b"oursold"), (2989, b"theirs")];
        let file = Build::pcapng(big).enhanced(0, 5, b"x", &options);
        let (out, lost) = write_like(&file.bytes, Format::PcapNg, change);
        assert_eq!(lost, Lost::default());
        let record = &packets(&out)[0];
        assert_eq!((record.data(), record.ticks()), (&b"header"[..], 77));
        assert!(!record.is_truncated());
        let all: Vec<_> = options::Options::new(record.options(), record.endianness()).collect();
        let wanted: [(u16, &[u8]); 3] = [(1, b"note"), (2989, b"theirs"), (2988, b"new")];
        assert_eq!(all, wanted);
        let (out, lost) = write_like(&file.bytes, Format::Pcap, change);
        assert_eq!((lost.options, packets(&out)[0].timestamp_ns()), (3, 77_000));
    }
}

#[test]
fn a_new_packet_from_pcap() {
    let file = Build::pcap(true, true, 4).packet(3, 2_000_000_000, 9, b"abc");
    let (out, _) = write_like(&file.bytes, Format::Pcap, PacketChange::default());
    let wanted = Build::pcap(true, true, 4).packet(3, 2_000_000_000, 6, b"header");
    assert_eq!(out, wanted.bytes);
    let change = PacketChange { append: Some((1, b"hi")), ..PacketChange::default() };
    let (out, _) = write_like(&file.bytes, Format::PcapNg, change);
    let record = &packets(&out)[0];
    assert_eq!((record.timestamp_ns(), record.option(1)), (5_000_000_000, Some(&b"hi"[..])));
    let change = PacketChange {
        ticks: Some(4_000_000_005),
        append: Some((1, b"hi")),
        ..PacketChange::default()
    };
    let (out, lost) = write_like(&file.bytes, Format::Pcap, change);
    assert_eq!((packets(&out)[0].timestamp_ns(), lost.options), (4_000_000_005, 1));
}

#[test]
fn a_capture_from_nothing() {
    let source = Source::pcap(1, true, 0);
    let mut writer = Writer::new(Vec::new(), Format::PcapNg, source).unwrap();
    let change = PacketChange { ticks: Some(5), ..PacketChange::default() };
    writer.write_packet(&Record::default(), &[b"abc"], change).unwrap();
    let out = writer.finish().unwrap();
    assert_eq!((packets(&out)[0].timestamp_ns(), packets(&out)[0].data()), (5, &b"abc"[..]));
}

#[test]
fn what_cannot_be_read_back_is_not_written() {
    let source = Source::pcap(1, true, 0);
    let long = vec![0; MAX_ENTRY];
    let write = |format, data: &[&[u8]]| {
        let mut writer = Writer::new(Vec::new(), format, source).unwrap();
        writer.write_packet(&Record::default(), data, PacketChange::default())
    };
    assert!(write(Format::Pcap, &[&long]).is_ok());
    assert!(matches!(write(Format::Pcap, &[&long, b"x"]), Err(CaptureError::TooLong { .. })));
    assert!(matches!(write(Format::PcapNg, &[&long]), Err(CaptureError::TooLong { .. })));
    let block = &read_all(&ng().bytes).0[0];
    let mut writer = Writer::new(Vec::new(), Format::Pcap, source).unwrap();
    assert!(matches!(writer.write(block), Err(CaptureError::ForeignRecord)));
}

#[test]
fn packet_bytes_can_be_changed_in_place() {
    let file = ng().enhanced(0, 5, b"abcde", &[(1, b"note")]);
    let mut record = packets(&file.bytes).remove(0);
    record.as_mut()[0] = b'X';
    assert_eq!((record.as_ref(), record.option(1)), (&b"Xbcde"[..], Some(&b"note"[..])));
}
