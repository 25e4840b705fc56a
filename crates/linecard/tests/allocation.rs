//! After the start, the offloads take no memory: not per packet, and not per merged packet or
//! datagram when its list is given back.

mod counting;

use counting::allocations;
use linecard::offload::ack_filter::{self, AckFilter};
use linecard::offload::active_ack::{self, ActiveAck};
use linecard::offload::coalesce::{ChecksumPolicy, Coalescer, Config};
use linecard::offload::reassemble::{self, Reassembler};
use linecard::offload::resequence::{self, Resequencer};
use linecard::packet::checksum::Sum;
use linecard::packet::{LinkType, Meta, Packet};
use linecard::time::Instant;

/// UDP over IPv4, without a UDP checksum.
fn datagram(id: u16) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 128, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    bytes[4..6].copy_from_slice(&id.to_be_bytes());
    let checksum = Sum::of(&bytes).checksum();
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend([0, 7, 0, 9, 0, 108, 0, 0]);
    bytes.resize(128, 7);
    bytes
}

/// Promise (Offloads): Merging allocates no memory after the start if lists of merged packets are
/// recycled: 0 allocations in 3,800 packets of one flow; reassembly, resequencing and active ACK
/// allocate none either.
#[test]
fn merging_takes_no_memory_after_the_start() {
    let mut frames: Vec<Vec<_>> =
        (0..200).map(|round| (0..20).map(|index| datagram(round * 20 + index)).collect()).collect();
    let mut coalescer = Coalescer::new(Config::default());
    let mut merged = 0;
    let mut started = 0;
    for (round, burst) in frames.iter_mut().enumerate() {
        let now = Instant::from_ns(round as u64 * 10_000_000);
        let mut gone = None;
        for frame in burst.iter_mut() {
            let packet = Packet::new(&mut frame[..], LinkType::Raw, Meta::default());
            coalescer.push(packet, now, &mut |packet, _| gone = Some(packet));
        }
        coalescer.advance(now.plus_ns(5_000_000), &mut |packet, _| gone = Some(packet));
        if let Some(packet) = gone {
            merged += packet.chain().len();
            let (_, chain) = packet.into_parts();
            coalescer.recycle(chain);
        }
        if round == 10 {
            started = allocations();
        }
    }
    assert_eq!(merged, 200 * 19, "not everything merged");
    assert_eq!(allocations() - started, 0, "memory was taken on the way");
}

#[test]
fn reassembly_takes_no_memory_after_the_start() {
    let fragment = |id: u16, index: u16| {
        let mut bytes = datagram(id);
        bytes[6] = if index < 3 { 0x20 } else { 0 };
        bytes[7] = (index * 13) as u8;
        // 104 bytes of data; the last may have any length.
        bytes.truncate(124);
        bytes[3] = 124;
        bytes[10..12].fill(0);
        let checksum = Sum::of(&bytes[..20]).checksum();
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        bytes
    };
    let mut frames: Vec<Vec<Vec<u8>>> =
        (0..200).map(|id| (0..4).rev().map(|index| fragment(id, index)).collect()).collect();
    let mut reassembler = Reassembler::new(LinkType::Raw, reassemble::Config::default());
    let (mut pieces, mut started) = (0, 0);
    for (round, parts) in frames.iter_mut().enumerate() {
        let mut gone = None;
        for frame in parts.iter_mut() {
            let packet = Packet::new(&mut frame[..], LinkType::Raw, Meta::default());
            reassembler.push(packet, Instant::ZERO, &mut |packet, _| gone = Some(packet));
        }
        if let Some(packet) = gone {
            pieces += packet.chain().len();
            let (_, chain) = packet.into_parts();
            reassembler.recycle(chain);
        }
        if round == 10 {
            started = allocations();
        }
    }
    assert_eq!(pieces, 200 * 3, "not everything became whole");
    assert_eq!(allocations() - started, 0, "memory was taken on the way");
}

/// TCP over IPv4 without a right TCP checksum: ports, sequence and acknowledgment number, payload.
fn segment(ports: [u8; 4], numbers: [u32; 2], len: usize) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    bytes[2..4].copy_from_slice(&(40 + len as u16).to_be_bytes());
    let checksum = Sum::of(&bytes).checksum();
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend(ports);
    numbers.iter().for_each(|number| bytes.extend(number.to_be_bytes()));
    bytes.extend([0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    bytes.resize(40 + len, 7);
    bytes
}

/// Everything out of order, for many flows, with time-outs and full windows on the way.
#[test]
fn resequencing_takes_no_memory_after_the_start() {
    let config = resequence::Config {
        checksum: ChecksumPolicy::Trust,
        max_flow_packets: 8,
        max_held_packets: 50,
        max_flows: 64,
        ..resequence::Config::default()
    };
    let mut frames: Vec<Vec<u8>> = (0..20_000_u32)
        .map(|index| {
            let place = (index / 20) ^ 3;
            let gap = place / 50 * 100;
            segment([0, 7, 0, (index % 20) as u8], [100 * place + gap, 1], 100)
        })
        .collect();
    let mut resequencer = Resequencer::new(config);
    let (mut left, mut started) = (0, 0);
    for (index, frame) in frames.iter_mut().enumerate() {
        let packet = Packet::new(&mut frame[..], LinkType::Raw, Meta::default());
        let now = Instant::from_ns(index as u64 * 700);
        resequencer.push(packet, now, &mut |_, _| left += 1);
        if index == 1_000 {
            started = allocations();
        }
    }
    assert_eq!(allocations() - started, 0, "memory was taken on the way");
    let counters = resequencer.counters();
    assert_eq!(left + resequencer.held(), 20_000);
    assert!(counters.released.total() > 5_000, "{:?}", counters.passed);
}

#[test]
fn acknowledgments_take_no_memory_after_the_start() {
    let trust = ChecksumPolicy::Trust;
    let mut filter =
        AckFilter::new(ack_filter::Config { checksum: trust, ..ack_filter::Config::default() });
    let mode = active_ack::Mode::Paper;
    let config = active_ack::Config { checksum: trust, mode, ..active_ack::Config::default() };
    let mut active = ActiveAck::new(LinkType::Raw, config);
    let mut frames: Vec<[Vec<u8>; 2]> = (1..5_000_u32)
        .map(|index| {
            let mut back = segment([0, 9, 0, 7], [1, 100 * (index & !7)], 0);
            back[12..20].rotate_left(4);
            [segment([0, 7, 0, 9], [100 * index, 1], 100), back]
        })
        .collect();
    let (mut kept, mut sent, mut started) = (0, 0, 0);
    for (index, [data, back]) in frames.iter_mut().enumerate() {
        let mut packet = Packet::new(&mut data[..], LinkType::Raw, Meta::default());
        sent += usize::from(active.data(&mut packet, true).is_ok());
        let mut packet = Packet::new(&mut back[..], LinkType::Raw, Meta::default());
        active.answer(&mut packet);
        let now = Instant::from_ns(index as u64 * 1_000);
        filter.push(packet, now, &mut |_, _| kept += 1);
        if index == 100 {
            started = allocations();
        }
    }
    assert_eq!(allocations() - started, 0, "memory was taken on the way");
    assert!(sent > 1_000 && kept > 4_000, "{sent} {kept}");
}
