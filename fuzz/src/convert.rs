//! Captures through both conversions: every packet comes back with its time, in its place.

use crate::capture::entries;
use crate::draw::Draw;
use crate::traffic::arrivals;
use linecard::offload::coalesce::{ChecksumPolicy, Config};
use linecard::packet::LinkType;
use linecard_io::capture::Format;
use linecard_io::convert::{NoObserver, SegmentMetadata, SegmentMode, coalesce, segment};

/// Input: policies, then a capture, or traffic that becomes one.
pub fn convert(data: &[u8]) {
    let draw = &mut Draw::new(data);
    let mode = draw.byte();
    let size = 1 + u16::from(draw.byte());
    let bytes = if mode & 1 != 0 { capture_of(draw) } else { draw.rest().to_vec() };
    metadata(&bytes);
    let trust = mode & 2 != 0;
    let config = Config {
        checksum: if trust { ChecksumPolicy::Trust } else { ChecksumPolicy::Verify },
        max_flows: 8,
        max_held_packets: 64,
        ..Config::default()
    };
    let there = coalesce(&bytes[..], Vec::new(), Format::PcapNg, config, &mut NoObserver);
    let Ok((merged, account)) = there else { return };
    let (read, counters) = (entries(&bytes), &account.counters);
    let packets = read.iter().filter(|entry| entry.is_packet).count() as u64;
    assert_eq!((counters.packets_in, counters.packets_out + counters.merged), (packets, packets));
    let cut = match mode >> 2 & 3 {
        0 => Some(SegmentMode::Mtu(68)),
        1 => Some(SegmentMode::Mtu(1280)),
        2 => Some(SegmentMode::Payload(size)),
        _ => None,
    };
    if let Some(cut) = cut {
        segment(&merged[..], Vec::new(), Format::Pcap, cut, &mut NoObserver).ok();
    }
    // The input may itself claim to be merged; then it is taken apart, which must not panic.
    let has_metadata = bytes.windows(4).any(|window| window == b"LCT1");
    let (back, _) =
        segment(&merged[..], Vec::new(), Format::PcapNg, SegmentMode::AsMerged, &mut NoObserver)
            .expect("what we wrote can be read");
    if !has_metadata {
        let packets = |bytes: &[u8]| -> Vec<_> {
            entries(bytes).into_iter().filter(|entry| entry.is_packet).collect()
        };
        assert_eq!(packets(&bytes), packets(&back));
    }
}

/// Traffic as a capture of nanoseconds, with the link type of its first packet.
fn capture_of(draw: &mut Draw<'_>) -> Vec<u8> {
    let arrivals = arrivals(draw);
    let link: u32 = match arrivals.first().map_or(LinkType::Other, |arrival| arrival.link) {
        LinkType::Ethernet => 1,
        LinkType::Raw => 101,
        LinkType::Loopback => 108,
        LinkType::LinuxSll => 113,
        LinkType::LinuxSll2 => 276,
        LinkType::Other => 147,
    };
    let header = [0xA1B2_3C4D, 0x0002_0004, 0, 0, 65_535, link];
    let mut bytes: Vec<u8> = header.into_iter().flat_map(u32::to_be_bytes).collect();
    for arrival in arrivals {
        let (ns, len) = (arrival.now.as_ns(), arrival.bytes.len() as u32);
        let fields = [(ns / 1_000_000_000) as u32, (ns % 1_000_000_000) as u32, len, len];
        bytes.extend(fields.into_iter().flat_map(u32::to_be_bytes));
        bytes.extend(arrival.bytes);
    }
    bytes
}

/// Decoded segment metadata is equal after encoding and decoding it again.
fn metadata(bytes: &[u8]) {
    let value = [&b"LCT1"[..], bytes].concat();
    for value in [&value[..], bytes] {
        if let Some(metadata) = SegmentMetadata::decode(value) {
            assert_eq!(SegmentMetadata::decode(&metadata.encode()), Some(metadata));
        }
    }
}
