//! Sums, bounds and memory, as far as no caller sees them.

use super::*;
use alloc::vec;
use core::time::Duration;

type Frame = Vec<u8>;

/// Raw IPv4 from this source with 16 bytes of UDP at `offset` of the datagram with this identification.
fn part(source: u8, id: u8, offset: u16, more: bool) -> Frame {
    let mut bytes = vec![0x45, 0, 0, 36, 0, id, 0, 0, 64, 17, 0, 0, 10, 0, 0, source, 10, 0, 0, 9];
    let more = if more { 0x2000 } else { 0 };
    bytes[6..8].copy_from_slice(&(more + offset / 8).to_be_bytes());
    let checksum = crate::packet::checksum::Sum::of(&bytes).checksum();
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.resize(36, 7);
    bytes
}

fn packet(bytes: Frame) -> Packet<Frame> {
    Packet::new(bytes, LinkType::Raw, Meta::default())
}

fn with(config: Config) -> Reassembler<Frame> {
    Reassembler::new(LinkType::Raw, config)
}

/// Pushes at a time in nanoseconds; what leaves.
fn push(
    reassembler: &mut Reassembler<Frame>,
    now: u64,
    bytes: Frame,
) -> Vec<(Packet<Frame>, Exit)> {
    let mut out = Vec::new();
    let now = Instant::from_ns(now);
    reassembler.push(packet(bytes), now, &mut |packet, exit| out.push((packet, exit)));
    out
}

/// One that holds two fragments of one datagram and one of another, has completed a third, passed what is none, and
/// dropped a duplicate.
fn busy() -> Reassembler<Frame> {
    let config = Config { drop_duplicates: true, ..Config::default() };
    let mut reassembler = with(config);
    let first = [part(1, 1, 16, true), part(1, 1, 32, true), part(2, 1, 0, true)];
    let rest = [part(1, 2, 0, true), part(1, 2, 16, false), part(2, 1, 0, true), vec![0x45; 9]];
    for bytes in first.into_iter().chain(rest) {
        push(&mut reassembler, 0, bytes);
    }
    let counters = reassembler.counters();
    assert_eq!((counters.joined, counters.dropped, counters.passed.total()), (2, 1, 1));
    assert_eq!((reassembler.held(), reassembler.held_bytes()), (3, 3 * 36));
    reassembler
}

#[test]
fn whatever_is_wrong_in_a_sum_or_beyond_a_bound_is_inconsistent() {
    let changes: &[fn(&mut Reassembler<Frame>)] = &[
        |all| all.counters.packets_in += 1,
        |all| all.counters.packets_in -= 1,
        |all| all.counters.dropped += 1,
        |all| all.counters.joined += 1,
        |all| all.counters.released += 1,
        |all| all.counters.passed.count(Pass::Refused),
        |all| all.config.max_held_fragments = 2,
        |all| all.config.max_held_bytes = 3 * 36 - 1,
        |all| all.config.max_datagrams = 1,
        |all| all.table.uses_mut(0).datagrams += 1,
        |all| all.table.uses_mut(0).fragments += 1,
        |all| all.table.uses_mut(0).bytes += 1,
        |all| {
            let id = all.table.oldest().expect("two datagrams");
            all.table.get_mut(id).count += 1;
        },
        |all| {
            let id = all.table.oldest().expect("two datagrams");
            all.table.get_mut(id).bytes += 1;
        },
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut reassembler = busy();
        assert!(reassembler.is_consistent());
        change(&mut reassembler);
        assert!(!reassembler.is_consistent(), "change {number}");
    }
    // The bounds themselves are kept.
    let mut reassembler = busy();
    reassembler.config.max_held_fragments = 3;
    reassembler.config.max_held_bytes = 3 * 36;
    reassembler.config.max_datagrams = 2;
    assert!(reassembler.is_consistent());
}

#[test]
fn lists_with_room_are_kept_up_to_a_bound_and_used_again() {
    let mut reassembler = with(Config::default());
    reassembler.recycle(Vec::new());
    assert_eq!(reassembler.chains.len(), 0, "nothing is saved by it");
    for _ in 0..SPARE_CHAINS + 2 {
        reassembler.recycle(Vec::with_capacity(100));
    }
    assert_eq!(reassembler.chains.len(), SPARE_CHAINS);
    assert!(push(&mut reassembler, 0, part(1, 1, 0, true)).is_empty());
    let (whole, _) = push(&mut reassembler, 0, part(1, 1, 16, false)).remove(0);
    let (_, chain) = whole.into_parts();
    assert_eq!(
        (chain.len(), chain.capacity(), reassembler.chains.len()),
        (1, 100, SPARE_CHAINS - 1)
    );
    reassembler.recycle(chain);
    assert!(reassembler.chains.iter().all(|chain| chain.is_empty() && chain.capacity() == 100));
}

/// Nobody stores a fragment without having made room. If that went wrong, nothing would be lost all the same.
#[test]
fn a_fragment_without_a_place_gets_a_new_one() {
    let mut fragments = Fragments::new(1);
    let mut datagram = Datagram::default();
    let mut ahead = fragments.fits(&datagram, &packet(part(1, 1, 0, true)), &examine(0), 9);
    for offset in [0, 16, 32, 48] {
        let (packet, fragment) = (packet(part(1, 1, offset, true)), examine(offset));
        let place = ahead.expect("it fits");
        fragments.insert(&mut datagram, place, packet, fragment);
        ahead = Ok(datagram.last);
    }
    assert_eq!((fragments.held(), fragments.is_full(), datagram.count), (4, true, 4));
    let mut next = datagram.first;
    for offset in [0, 16, 32, 48] {
        let (held, behind) = fragments.take(next).expect("it is held");
        assert_eq!((held.fragment.offset, held.packet.bytes()[7]), (offset, (offset / 8) as u8));
        next = behind;
    }
    assert_eq!((fragments.held(), fragments.is_full()), (0, false));
}

fn examine(offset: u16) -> Fragment {
    Fragment::examine(&packet(part(1, 1, offset, true))).expect("a fragment")
}

#[test]
fn a_configuration_is_shown_as_it_was_given() {
    let config = Config { timeout_v4: Duration::from_secs(7), shares: 3, ..Config::default() };
    assert_eq!(with(config.clone()).config(), &config);
}

/// All packets of a batch are taken, in their order; and frames are counted as long as all their pieces are.
#[test]
fn a_batch_is_taken_packet_by_packet() {
    let mut batch = Batch::new();
    for offset in [0, 16, 32] {
        assert!(batch.push(packet(part(1, 1, offset, offset < 32))).is_ok());
    }
    let (mut reassembler, mut left) = (with(Config::default()), Vec::new());
    reassembler
        .push_batch(&mut batch, Instant::ZERO, &mut |packet, exit| left.push((packet, exit)));
    assert!(batch.is_empty());
    let [(whole, Exit::Reassembled)] = &left[..] else { panic!("{left:?}") };
    assert_eq!((whole.chain().len(), whole.datagram_len()), (2, 20 + 3 * 16));
    let counters = reassembler.counters();
    assert_eq!((counters.packets_in, counters.bytes_in), (3, 3 * 36));
    assert_eq!((counters.packets_out, counters.bytes_out), (1, 20 + 3 * 16));
}

/// All that is held leaves, and times count from the new start.
#[test]
fn a_clock_that_is_set_back_starts_again() {
    let mut reassembler = with(Config::default());
    push(&mut reassembler, 1_000_000, part(1, 1, 0, true));
    let mut exits = Vec::new();
    reassembler.restart_clock(Instant::from_ns(5), &mut |_, exit| exits.push(exit));
    assert_eq!((exits, reassembler.held()), (vec![Exit::GivenUp(GiveUp::Stop)], 0));
    push(&mut reassembler, 0, part(1, 1, 0, true));
    let due = Instant::from_ns(5).plus(reassembler.config().timeout_v4);
    assert_eq!(reassembler.next_wakeup(), Some(due));
}
