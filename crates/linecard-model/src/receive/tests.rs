use super::{
    Arrival, Design, Receive, ReceiveResults, Received, Remedy, firmware, smallest_core_hz,
};
use crate::cell::Cell;
use crate::rv32::{Image, Timing};
use crate::transmit::{BusPolicy, Message};
use crate::{Clock, Ps};
use alloc::vec::Vec;
use linecard::offload::segment::Class;
use linecard::rng::Rng;

fn clock(hz: u64) -> Clock {
    Clock::new(hz, Ps::ZERO).expect("a clock")
}

fn design(ratio: u64) -> Design {
    Design::published(clock(100_000_000), clock(100_000_000 * ratio))
}

fn run(design: &Design, image: &Image, packets: Vec<Arrival>) -> (ReceiveResults, Vec<Received>) {
    let mut all = Vec::new();
    let receive = Receive::new(design, image).expect("a design");
    let outcome = receive.run(packets, |received| all.push(received.clone())).expect("a run");
    assert!(outcome.is_balanced(), "{outcome:?}");
    assert_eq!(outcome.wrong, 0, "{outcome:?}");
    (outcome, all)
}

fn example(udp: bool, size: u16, packets: usize) -> Vec<Arrival> {
    firmware::example_packets(udp, size, packets).expect("packets")
}

/// P and O of each class: single, first, between, last.
type Costs = [(u64, u64); 4];

const TCP: Costs = [(26, 5), (29, 12), (30, 6), (32, 14)];
const UDP: Costs = [(9, 5), (24, 12), (26, 6), (23, 15)];

/// P + max(T, O), at each size and each ratio of clocks.
#[test]
fn every_cell_is_p_and_the_longer_of_transfer_and_o() {
    let classes = [Class::Ssm, Class::Bom, Class::Com, Class::Eom];
    for (udp, costs) in [(false, TCP), (true, UDP)] {
        for (size, ratio) in [64_u16, 128, 256, 512, 1024, 1500]
            .into_iter()
            .flat_map(|size| [1, 2, 3, 5, 10].map(|ratio| (size, ratio)))
        {
            let mut packets = example(udp, size, 1);
            packets.extend(example(udp, size, 4));
            packets.extend(example(udp, size, 1));
            let (outcome, received) = run(&design(ratio), &firmware::published(), packets.clone());
            assert_eq!(outcome.messages, 3);
            let header = if udp { 20 } else { 40 };
            let cells = received.iter().flat_map(|message| &message.cells);
            for (cell, Arrival { bytes, .. }) in cells.zip(&packets) {
                let whole = matches!(cell.class, Class::Ssm | Class::Bom);
                let moved = bytes.len() - if whole { 0 } else { header };
                let transfer = (2 * moved.div_ceil(8) as u64).div_ceil(ratio);
                let (p, o) = costs[classes.iter().position(|c| *c == cell.class).unwrap()];
                let wanted = (p + transfer.max(o), p, o, transfer.saturating_sub(o));
                let Cell { total, before, beside, idle, .. } = *cell;
                assert_eq!((total, before, beside, idle), wanted, "{udp} {size} {ratio} {cell:?}");
            }
        }
    }
}

/// 366 cycles of the DMA, 6 of the core beside them; with all beside that can be, P is 25.
#[test]
fn the_published_transfer() {
    for (image, p, o) in [(firmware::published(), 30, 6), (firmware::best(), 25, 11)] {
        let (_, received) = run(&design(1), &image, example(false, 1500, 4));
        let Cell { total, before, beside, idle, .. } = received[0].cells[2];
        assert_eq!((total, before, beside, idle), (p + 366, p, o, 366 - o));
    }
}

/// A lookup that takes longer than the work beside it makes P longer, nothing else.
#[test]
fn a_slow_cam_is_waited_for() {
    for (latency, waited) in [(1, 0), (4, 0), (5, 1), (12, 8)] {
        let design = Design { cam_latency: latency, ..design(1) };
        let (_, received) = run(&design, &firmware::published(), example(false, 1500, 4));
        assert_eq!(received[0].cells[1].before, 30 + waited, "{latency}");
    }
}

/// Messages of several flows, in one order that keeps each flow's.
fn interleaved(rng: &mut Rng) -> (Vec<Vec<u8>>, Vec<Arrival>) {
    let mut sent = Vec::new();
    let mut flows: Vec<Vec<Arrival>> = Vec::new();
    for flow in 0..=rng.below(20) as u8 {
        let udp = rng.chance(0.4);
        let mut queue = Vec::new();
        for id in 0..=rng.below(3) as u8 {
            let mut bytes = firmware_message(rng, udp);
            bytes[15] = flow;
            bytes[4] = id;
            let message = Message::new(bytes, Ps::ZERO).unwrap();
            let packets = firmware::packets_of(&message, 68 + rng.below(1432) as u16).unwrap();
            sent.push(message.bytes().to_vec());
            queue.extend(packets.into_iter().rev());
        }
        // Last first, to be popped; a flow's messages in either order.
        flows.push(queue);
    }
    let mut arrivals = Vec::new();
    while !flows.is_empty() {
        let at = rng.below(flows.len() as u64) as usize;
        match flows[at].pop() {
            Some(packet) => arrivals.push(packet),
            None => drop(flows.swap_remove(at)),
        }
    }
    (sent, arrivals)
}

fn firmware_message(rng: &mut Rng, udp: bool) -> Vec<u8> {
    let payload = 1 + rng.below(9_000) as usize;
    let mut bytes = crate::transmit::firmware::example_message(udp, payload);
    let headers = if udp { 28 } else { 40 };
    rng.fill(&mut bytes[headers..]);
    bytes
}

/// The payload: TCP's payload, the datagram's.
fn payload(bytes: &[u8]) -> Vec<u8> {
    let headers = if bytes[9] == 6 { 40 } else { 20 };
    // UDP's checksum is the sender's to fill in when it fragments the datagram.
    let mut payload = bytes[headers..].to_vec();
    if bytes[9] != 6 {
        payload[6..8].fill(0);
    }
    payload
}

fn random_design(rng: &mut Rng) -> Design {
    let policies = [BusPolicy::Hold, BusPolicy::Interleave, BusPolicy::DualPort];
    let mhz = |rng: &mut Rng| clock((50 + rng.below(2_000)) * 1_000_000);
    Design {
        policy: policies[rng.below(3) as usize],
        bus_bits: 32 << rng.below(5),
        cycles_per_word: 1 + rng.below(3),
        cam_latency: 1 + rng.below(9),
        timing: Timing::pipelined(rng.below(3)),
        line_bits_per_second: rng.chance(0.5).then(|| 1_000_000 + rng.below(200_000_000)),
        interrupt: Ps(rng.below(1_000_000)),
        ..Design::published(mhz(rng), mhz(rng))
    }
}

/// Promise (Hardware model): The receiving core delivers what was sent and counts the rest: 300
/// seeds of interleaved flows, half of them damaged.
#[test]
fn what_is_delivered_is_what_was_sent() {
    for seed in 0..150 {
        let rng = &mut Rng::new(seed);
        let (sent, arrivals) = interleaved(rng);
        let design = random_design(rng);
        let image = if rng.chance(0.5) { firmware::published() } else { firmware::best() };
        let (outcome, received) = run(&design, &image, arrivals.clone());
        assert_eq!(outcome.right, arrivals.len() as u64, "seed {seed}: {outcome:?}");
        assert_eq!((outcome.held, outcome.unit.cam_overflows), (0, 0), "seed {seed}");
        let sorted = |mut all: Vec<Vec<u8>>| {
            all.sort();
            all
        };
        let delivered = received.iter().map(|message| payload(&message.bytes)).collect();
        let wanted = sent.iter().map(|message| payload(message)).collect();
        assert!(sorted(delivered) == sorted(wanted), "seed {seed}");
    }
}

/// Any order, losses, duplicates, tiny tables: lists are right, and everything is accounted for.
#[test]
fn nothing_is_lost_uncounted() {
    let (mut held, mut given_up, mut overflowed, mut full, mut refused) = (0, 0, 0, 0, 0);
    for seed in 0..150 {
        let rng = &mut Rng::new(seed);
        let (_, mut arrivals) = interleaved(rng);
        for _ in 0..rng.below(40) {
            let [a, b] = [0; 2].map(|_| rng.below(arrivals.len() as u64) as usize);
            match rng.below(5) {
                0 => arrivals.swap(a, b),
                1 => arrivals[a] = arrivals[b].clone(),
                2 => arrivals[a].bytes[33] ^= 1 << rng.below(6),
                3 => arrivals[a].bytes[rng.below(20) as usize] ^= 1 << rng.below(8),
                _ => drop(arrivals.remove(a.min(arrivals.len() - 2))),
            }
        }
        let tiny = Design {
            cam_entries: 1 + rng.below(6) as usize,
            nodes: 2 + rng.below(30) as usize,
            rbi_bytes: 4_096 + rng.below(8_000) as usize,
            line_bits_per_second: rng.chance(0.7).then(|| 1_000_000 + rng.below(9_000_000_000)),
            ..random_design(rng)
        };
        let (outcome, _) = run(&tiny, &firmware::published(), arrivals);
        held += outcome.held;
        given_up += outcome.unit.given_up;
        overflowed += outcome.line.overflowed;
        full += outcome.unit.cam_overflows;
        refused += outcome.line.refused;
    }
    let all = [held, given_up, overflowed, full, refused];
    assert!(all.iter().all(|count| *count > 20), "{all:?}");
}

/// Of three connections at a time a CAM of two knows two; the third passes packet by packet.
#[test]
fn a_full_cam_is_counted() {
    let flow = |n: u8| {
        let mut packets = example(false, 1500, 4);
        packets.iter_mut().for_each(|packet| packet.bytes[15] = n);
        packets
    };
    let flows = [flow(1), flow(2), flow(3)];
    let packets = (0..4).flat_map(|n| flows.iter().map(move |flow| flow[n].clone())).collect();
    let (outcome, _) =
        run(&Design { cam_entries: 2, ..design(1) }, &firmware::published(), packets);
    // Its last packet has PSH and is alone anyway.
    assert_eq!((outcome.unit.cam_overflows, outcome.messages), (3, 6));
    assert_eq!((outcome.ssm.packets, outcome.com.packets, outcome.right), (4, 4, 12));
}

/// A core that is too slow loses packets at the line, and what comes is still right.
#[test]
fn an_overflowing_buffer_is_counted() {
    let packets: Vec<_> = (0..20).flat_map(|_| example(false, 1500, 44)).collect();
    let line = |rate| Design { line_bits_per_second: Some(rate), ..design(1) };
    // 1520 bytes in 396 cycles and a little for first and last are 3.07 Gbit/s at 100 MHz.
    let (outcome, _) = run(&line(3_000_000_000), &firmware::published(), packets.clone());
    assert_eq!(outcome.line.overflowed, 0);
    let (outcome, _) = run(&line(3_400_000_000), &firmware::published(), packets);
    assert!((30..90).contains(&outcome.line.overflowed), "{outcome:?}");
}

#[test]
fn what_cannot_be_received_is_refused() {
    let mut packets = example(false, 1500, 3);
    packets[1].bytes[0] = 0x46;
    packets[2].bytes.push(0);
    packets.push(Arrival { bytes: alloc::vec![0x45; 3_000], ready: Ps::ZERO });
    packets.push(Arrival { bytes: Vec::new(), ready: Ps::ZERO });
    let (outcome, _) = run(&design(1), &firmware::published(), packets);
    assert_eq!((outcome.line.refused, outcome.held, outcome.messages), (4, 1, 0));
}

/// Same packets, same bytes and times, on every machine.
#[test]
fn a_run_is_the_same_everywhere() {
    let (_, arrivals) = interleaved(&mut Rng::new(7));
    let (outcome, _) = run(&design(5), &firmware::published(), arrivals.clone());
    assert_eq!(run(&design(5), &firmware::published(), arrivals).0, outcome);
    assert_eq!(outcome.hash, 0x9199_528f_1545_4361, "{:#x}", outcome.hash);
}

/// The smallest clock: a line at this rate loses nothing, and with a slower core it does.
#[test]
fn the_smallest_clock_is_an_edge() {
    let image = firmware::published();
    let policy = |policy| Remedy { policy, ..Remedy::NONE };
    let faster = Remedy { dma_ratio: 5, ..Remedy::NONE };
    let shared = [BusPolicy::Interleave, BusPolicy::DualPort].map(policy);
    for remedy in [Remedy::NONE, faster, shared[0], shared[1]] {
        let hz = smallest_core_hz(&image, (remedy, 1500), 100_000_000_000).unwrap().unwrap();
        let packets: Vec<_> = (0..70).flat_map(|_| example(false, 1500, 44)).collect();
        for (percent, loses) in [(101, false), (97, true)] {
            let line = Some(100_000_000_000);
            let design = remedy.design(hz / 100 * percent).unwrap();
            let design = Design { line_bits_per_second: line, ..design };
            let (outcome, _) = run(&design, &image, packets.clone());
            assert_eq!(outcome.line.overflowed > 0, loses, "{remedy:?} {percent} {outcome:?}");
        }
    }
}

/// Firmware that does one thing wrong: its lists are reported as wrong.
#[test]
fn wrong_lists_are_found_out() {
    // In COM: SPP, length, next pointer and START_COM, as EOM's or as a load that does nothing.
    for (word, instead) in [
        (0x0079_2023_u32, 0x0009_2023_u32), // sw t2, SPP: 0
        (0x00e7_a223, 0x00c7_a223),         // sw a4, NODE_LENGTH: the packet's
        (0x00fe_2423, 0x000e_2423),         // sw a5, NODE_NEXT: none
        (0x00c9_2c23, 0x00c9_2e23),         // sw a2, START_COM: START_EOM
        (0x001e_8e93, 0x002e_8e93),         // addi t4, t4, 1: 2
    ] {
        let mut image = firmware::published();
        let words = image.segments[0].bytes.as_chunks_mut::<4>().0;
        let at = words.iter().position(|bytes| *bytes == word.to_le_bytes()).unwrap();
        words[at] = instead.to_le_bytes();
        let receive = Receive::new(&design(1), &image).unwrap();
        let outcome = receive.run(example(false, 1500, 5), |_| ()).unwrap();
        assert!(outcome.wrong > 0, "{instead:#x}: {outcome:?}");
    }
}

/// Wakes, and sleeps again with the packet still there, endlessly.
#[test]
fn firmware_that_never_takes_its_packet_is_told() {
    // wfi; j -4.
    let image = Image::of_code(&[0x1050_0073, 0xFFDF_F06F]);
    let receive = Receive::new(&design(5), &image).expect("a design");
    let error = receive.run(example(false, 1500, 3), |_| ()).expect_err("an error");
    assert!(matches!(error, super::ReceiveError::Stuck { .. }), "{error}");
}
