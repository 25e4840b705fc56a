//! The burst API against the coalescer and the segmenter that work on packets, on random traffic.
//!
//! `LINECARD_SEED` replays one seed, `LINECARD_LONG` looks longer; see `linecard_testkit::packets::seeds`.

use linecard::offload::burst::{Merged, Merger, Room, cut, stride};
use linecard::offload::coalesce::{ChecksumPolicy, Config};
use linecard::offload::segment::SegmentError;
use linecard::offload::virtio::{Device, Format, Header, Identifications, flag, gso_type};
use linecard::packet::{ChecksumState, LinkType, Meta};
use linecard::rng::Rng;
use linecard_testkit::packets::traffic::{Arrival, Scenario, scenario, tunnelled};
use linecard_testkit::packets::{between, burst, for_seeds, is_whole, pick};

const PACKETS: usize = 500;

/// Promise (Offloads): The burst API merges exactly what the coalescer merges in one batch, describes
/// it by the same virtio headers, and `cut` gives every packet back: random traffic of all links, half
/// of it in tunnels.
#[test]
fn a_burst_merges_as_a_batch_does_and_cutting_restores_it() {
    println!("{}", compare(scenario));
}

#[test]
fn a_burst_in_tunnels_merges_as_a_batch_does_and_cutting_restores_it() {
    println!("{}", compare(tunnelled));
}

fn compare(draw: fn(&mut Rng, usize) -> Scenario) -> String {
    let (mut packets, mut merged) = (0, 0);
    for_seeds(&[], 1, 300, |seed| {
        let rng = &mut Rng::new(seed);
        let Scenario { config, arrivals, .. } = draw(rng, PACKETS);
        let format = pick(rng, &[Format::V1, Format::Tunnel, Format::Tunnel]);
        let identifications = pick(rng, &[Identifications::Rfc6864, Identifications::Exact]);
        let device = Some(Device { format, identifications });
        let Config { checksum, max_bytes, max_segments, max_datagrams, max_tunnels, .. } = config;
        let config = Config { checksum, max_bytes, max_segments, max_datagrams, ..Config::burst() };
        let restore_order = rng.chance(0.5);
        let config =
            Config { device, max_tunnels, restore_order, secret: rng.next_u64(), ..config };
        let trusted = checksum == ChecksumPolicy::Trust;
        let checksum = if trusted { ChecksumState::Valid } else { ChecksumState::Unknown };
        let meta = Meta { checksum, ..Meta::default() };
        for link in [LinkType::Ethernet, LinkType::Raw, LinkType::Loopback, LinkType::LinuxSll] {
            let own = arrivals.iter().filter(|arrival| arrival.link == link);
            let own = own.map(|arrival| Arrival { meta, ..arrival.clone() });
            let own: Vec<Arrival> = own.collect();
            let mut merger = Merger::new(link, config.clone());
            let mut rest = &own[..];
            while !rest.is_empty() {
                let count = between(rng, 1, 64).min(rest.len() as u64) as usize;
                let (now, behind) = rest.split_at(count);
                rest = behind;
                merged += count - burst::compare(rng, (&mut merger, &config), now).len();
                packets += count;
            }
            let counters = merger.counters();
            assert_eq!(counters.packets_in, own.len() as u64);
            assert_eq!(counters.packets_in, counters.packets_out + counters.merged);
        }
    });
    assert!(merged > packets / 20 || !is_whole(), "{merged} of {packets} packets merged");
    format!("{packets} packets, {merged} merged into others")
}

#[test]
fn a_buffer_is_lent_again_and_again_also_to_a_function_without_a_type() {
    let mut merger = Merger::new(LinkType::Raw, Config::burst());
    let mut buffer = [0; 100];
    let mut lens = Vec::new();
    for total in [100, 30] {
        let out: &mut dyn FnMut(Merged<'_>) = &mut |merged| lens.push(merged.frame_len());
        merger.merge_burst(&mut buffer, stride(total, 40), out).expect("inside");
        buffer.fill(1);
    }
    assert_eq!(lens, [40, 40, 20, 30]);
}

#[test]
fn too_little_room_says_how_much_is_needed() {
    let mut frame = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    frame.extend([0, 7, 0, 9, 0, 12, 1, 2, 1, 2, 3, 4]);
    let (flags, gso_type) = (flag::NEEDS_CSUM, gso_type::UDP_L4);
    let (gso_size, csum_start, csum_offset) = (3, 20, 6);
    let header = Header { flags, gso_type, gso_size, csum_start, csum_offset, ..Header::default() };
    for (front, back) in [(0, 0), (8, 16), (usize::MAX, 1)] {
        let room = Room { front, back };
        let mut segments = cut(LinkType::Raw, &header, &mut frame).expect("described");
        for len in [0, 10, 30, 31, 54, 55] {
            let mut out = vec![0; len];
            match segments.write(room, &mut out) {
                Err(SegmentError::OutputTooSmall { room, needed }) => {
                    assert_eq!(room, len);
                    assert!(needed > len && (needed >= 31 + 24 || front == 0), "{needed}");
                }
                written => {
                    assert!(written.expect("no other error").is_some());
                    assert!(len >= 31 + front + back);
                    break;
                }
            }
        }
    }
}
