//! Cost of an `advance` of the coalescer when many flows hold data for a long time, so that many
//! deadlines share a slot of the timer wheel.
//!
//!     cargo bench -p linecard --bench timers
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use core::hint::black_box;
use core::time::Duration;
use linecard::offload::coalesce::{Coalescer, Config};
use linecard::packet::{ChecksumState, LinkType, Meta, Packet};
use linecard::rng::Rng;
use linecard::time::Instant;

const HOLD: Duration = Duration::from_secs(1);
const ROUNDS: usize = 5;
/// All flows begin within this time, about a slot of the wheel.
const SPREAD_NS: u64 = 1_000_000;
const START_NS: u64 = 1 << 40;

/// A packet with 4 bytes of data of the flow with this number.
fn packet(flow: u32) -> Packet<Vec<u8>> {
    let mut frame = vec![0x45, 0, 0, 44, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0];
    frame.extend((flow as u16).to_be_bytes());
    frame.extend([10, 1, 0, 1, 0x10, 0, 0x20, 0, 0, 0, 0, 1, 0, 0, 0, 7, 0x50, 0x10, 1, 0]);
    frame.extend([0, 0, 0, 0, 1, 2, 3, 4]);
    let words = frame[..20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum = words.sum::<u32>();
    let checksum = !((sum & 0xFFFF) + (sum >> 16)) as u16;
    frame[10..12].copy_from_slice(&checksum.to_be_bytes());
    let meta = Meta { checksum: ChecksumState::Valid, ..Meta::default() };
    Packet::new(frame, LinkType::Raw, meta)
}

/// Nanoseconds for each packet that opens a flow, and for each advance to the next deadline.
fn measure(flows: u32) -> (f64, f64) {
    let config = Config {
        hold_budget: HOLD,
        idle_floor: HOLD,
        // Sets of the table fill unevenly: with room for four times as many nearly all are held.
        max_flows: flows as usize * 4,
        max_held_packets: flows as usize,
        ..Config::default()
    };
    let mut coalescer = Coalescer::new(config);
    let mut rng = Rng::new(u64::from(flows));
    let mut times: Vec<u64> = (0..flows).map(|_| START_NS + rng.below(SPREAD_NS)).collect();
    times.sort_unstable();
    let packets: Vec<_> = (0..flows).map(packet).collect();
    let begun = std::time::Instant::now();
    for (packet, at) in packets.into_iter().zip(times) {
        coalescer.push(packet, Instant::from_ns(at), &mut |packet, _| drop(black_box(packet)));
    }
    let opened = begun.elapsed();
    let held = coalescer.held();
    assert!(held > flows as usize * 9 / 10, "{held} of {flows} flows are held");
    let (mut advances, mut left) = (0_u32, 0);
    let begun = std::time::Instant::now();
    while let Some(next) = coalescer.next_wakeup() {
        coalescer.advance(next, &mut |_, _| left += 1);
        advances += 1;
    }
    let advanced = begun.elapsed();
    assert_eq!(left, held);
    let each = |time: Duration, count: u32| time.as_nanos() as f64 / f64::from(count);
    (each(opened, flows), each(advanced, advances))
}

fn main() {
    println!("{:>8} {:>16} {:>16}", "flows", "ns to open", "ns an advance");
    for flows in [64, 1_024, 4_096, 16_384] {
        let mut rounds: Vec<_> = (0..ROUNDS).map(|_| measure(flows)).collect();
        rounds.sort_by(|one, other| one.1.total_cmp(&other.1));
        let (open, advance) = rounds[ROUNDS / 2];
        println!("{flows:>8} {open:>16.0} {advance:>16.0}");
    }
}
