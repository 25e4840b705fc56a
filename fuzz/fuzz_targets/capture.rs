//! Any bytes as a capture: no panic, and what can be read comes back through both conversions.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linecard::offload::coalesce::Config;
use linecard_host::capture::{Format, Reader, Record};
use linecard_host::convert::{Cut, NoObserver, coalesce, segment};

fn packets(bytes: &[u8]) -> Vec<(Vec<u8>, u64, u32)> {
    let mut packets = Vec::new();
    let Ok(mut reader) = Reader::new(bytes) else { return packets };
    let mut record = Record::default();
    while let Ok(true) = reader.read(&mut record) {
        if record.is_packet() {
            packets.push((record.data().to_vec(), record.ticks(), record.original_len()));
        }
    }
    packets
}

fuzz_target!(|data: &[u8]| {
    let config = Config { max_flows: 8, max_held_packets: 64, ..Config::default() };
    let there = coalesce(data, Vec::new(), Format::PcapNg, config, &mut NoObserver);
    let Ok((merged, _)) = there else { return };
    for cut in [Cut::Mtu(68), Cut::Mtu(1280), Cut::Payload(1 + u16::from(data[0]))] {
        segment(&merged[..], Vec::new(), Format::Pcap, cut, &mut NoObserver).ok();
    }
    // The input may itself claim to be merged; then it is taken apart, which must not panic.
    let trails = data.windows(4).any(|window| window == b"LCT1");
    let (back, _) = segment(&merged[..], Vec::new(), Format::PcapNg, Cut::AsMerged, &mut NoObserver)
        .expect("what we wrote can be read");
    if !trails {
        assert_eq!(packets(data), packets(&back));
    }
});
