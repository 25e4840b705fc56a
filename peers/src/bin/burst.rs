//! The burst API beside tun-rs on the IP packets of one burst, in the second-level cache:
//! nanoseconds per packet, checksums verified, everything flushed at the end. Rounds are
//! interleaved; printed are the quiet estimate (the minimum) and the median.
//!
//!     cargo run --release --bin burst

use linecard::offload::burst::{Merger, stride};
use linecard::offload::coalesce::Config;
use linecard::packet::LinkType;
use linecard::packet::checksum::Sum;
use std::hint::black_box;
use std::time::Instant;
use tun_rs::{GROTable, VIRTIO_NET_HDR_LEN};

const ROUNDS: usize = 2_001;
const HEADERS: usize = 40;
/// Room for a merged packet, which tun-rs needs in every buffer.
const ROOM: usize = 65_536 + 64;

/// A TCP segment over IPv4 as a bulk sender's: the nth of its flow.
fn segment(flow: u16, nth: usize, payload: usize) -> Vec<u8> {
    let len = (HEADERS + payload) as u16;
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet[4..6].copy_from_slice(&(nth as u16).to_be_bytes());
    let checksum = Sum::of(&packet).checksum();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend((1_000 + flow).to_be_bytes());
    packet.extend([0, 80]);
    packet.extend((1 + nth as u32 * payload as u32).to_be_bytes());
    packet.extend([0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    packet.extend((0..payload).map(|at| (at * 7 + nth) as u8));
    let mut pseudo = packet[12..20].to_vec();
    pseudo.extend([0, 6]);
    pseudo.extend((len - 20).to_be_bytes());
    let checksum = Sum::of(&pseudo).plus(Sum::of(&packet[20..])).checksum();
    packet[36..38].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// Nanoseconds per packet.
struct Times(Vec<f64>);

impl Times {
    fn row(&mut self) -> String {
        self.0.sort_by(f64::total_cmp);
        format!("{:.0} / {:.0}", self.0[0], self.0[self.0.len() / 2])
    }
}

fn timed(packets: usize, work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_nanos() as f64 / packets as f64
}

fn measure(name: &str, packets: &[Vec<u8>]) {
    let (whole, size, count) = (packets.concat(), packets[0].len(), packets.len());
    let mut buffer = whole.clone();
    let mut merger = Merger::new(LinkType::Raw, Config::burst());
    let mut table = GROTable::new();
    let mut buffers: Vec<Vec<u8>> = packets.iter().map(|_| Vec::with_capacity(ROOM)).collect();
    let [mut ours, mut fresh, mut theirs] = [const { Times(Vec::new()) }; 3];
    let mut left = 0;
    for _ in 0..ROUNDS {
        buffer.copy_from_slice(&whole);
        left = 0;
        ours.0.push(timed(count, || {
            let places = stride(whole.len(), size);
            let merged = merger.merge_burst(&mut buffer, places, &mut |packet| {
                black_box(packet.slices);
                left += 1;
            });
            merged.expect("inside");
        }));
        buffer.copy_from_slice(&whole);
        fresh.0.push(timed(count, || {
            let mut merger = Merger::new(LinkType::Raw, Config::burst());
            let places = stride(whole.len(), size);
            let merged = merger.merge_burst(&mut buffer, places, &mut |packet| {
                black_box(packet.slices);
            });
            merged.expect("inside");
        }));
        for (buffer, packet) in buffers.iter_mut().zip(packets) {
            buffer.clear();
            buffer.resize(VIRTIO_NET_HDR_LEN, 0);
            buffer.extend(packet);
        }
        theirs.0.push(timed(count, || {
            table.apply_gro(&mut buffers, VIRTIO_NET_HDR_LEN, true).expect("packets");
        }));
    }
    let rows = [&mut ours, &mut fresh, &mut theirs].map(Times::row);
    println!("| {name} | {left} | {} |", rows.join(" | "));
}

fn main() {
    println!("| packets of a burst | leave as | reused | new for each burst | tun-rs |");
    println!("|---|---|---|---|---|");
    let bulk = |flows: usize| -> Vec<Vec<u8>> {
        (0..45).map(|at| segment((at % flows) as u16, at / flows, 1_400)).collect()
    };
    measure("45 of 1,400 bytes, one flow", &bulk(1));
    measure("the same of 4 flows in turns", &bulk(4));
    let pairs: Vec<_> = (0..64).map(|at| segment(at as u16 / 2, at % 2, 1_400)).collect();
    measure("64 of 32 flows, two each", &pairs);
    let alone: Vec<_> = (0..64).map(|at| segment(at, 0, 1_400)).collect();
    measure("64 of 64 flows", &alone);
    let acks: Vec<_> = (0..64).map(|at| segment(at / 8, usize::from(at % 8), 0)).collect();
    measure("64 acknowledgments of 8 flows", &acks);
    measure("one packet", &alone[..1]);
}
