//! The burst API against the coalescer and the segmenter that work on packets, on random traffic.
//!
//! `LINECARD_SEED` replays one seed, `LINECARD_LONG` looks longer; see `linecard_testkit::packets::seeds`.

use linecard::offload::burst::{BurstCounters, Merged, Merger, Room, cut, stride};
use linecard::offload::coalesce::{ChecksumPolicy, Coalescer, Config, Flush, Input, Refusal};
use linecard::offload::segment::SegmentError;
use linecard::offload::virtio::{Device, Format, Header, Identifications, flag, gso_type};
use linecard::packet::checksum::Sum;
use linecard::packet::{ChecksumState, LinkType, Meta};
use linecard::rng::Rng;
use linecard::time::Instant;
use linecard_testkit::packets::frame::{ACK, Field, Frame, PSH};
use linecard_testkit::packets::traffic::{Arrival, Scenario, scenario, tunnelled};
use linecard_testkit::packets::{between, burst, for_seeds, is_whole, pick};
use std::panic::{AssertUnwindSafe, catch_unwind};

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
        let mut segments = cut(LinkType::Raw, &header, &frame).expect("described");
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

/// A packet that leaves because its checksum is wrong is not there any more for the one that made it be looked at.
#[test]
fn a_packet_that_was_refused_meets_no_other() {
    let frame = |index, field| Frame { field, ..Frame::bulk(index, 100) }.bytes();
    let frames = [frame(0, Field::Bad), frame(2, Field::Good), frame(1, Field::Good)];
    let (buffer, counters) = merge_all(&frames);
    assert_eq!(buffer, frames.map(|frame| vec![frame]));
    let refused = |reason| counters.refused.of(reason);
    assert_eq!((refused(Refusal::Checksum), refused(Refusal::SequenceOld)), (1, 1));
    assert_eq!(counters.refused.total(), 2);
}

/// Headers are compared before anything is verified.
#[test]
fn packets_with_other_headers_are_not_examined() {
    let bad = Frame { field: Field::Bad, ..Frame::bulk(0, 100) };
    let frames = [bad.bytes(), Frame { window: 400, ..Frame::bulk(1, 100) }.bytes()];
    let (left, counters) = merge_all(&frames);
    assert_eq!(left, frames.map(|frame| vec![frame]));
    let refused = |reason| counters.refused.of(reason);
    assert_eq!((refused(Refusal::Window), refused(Refusal::Checksum)), (1, 0));
}

/// A late packet that could not join stays where it is; a good one behind it is found.
#[test]
fn only_what_joins_is_put_in_its_place() {
    let frame = |index, field| Frame { field, ..Frame::bulk(index, 100) }.bytes();
    let (good, bad) = (|index| frame(index, Field::Good), frame(1, Field::Bad));
    let frames = [good(0), good(2), bad.clone()];
    assert_eq!(merge_all(&frames).0, frames.map(|frame| vec![frame]));
    let (left, _) = merge_all(&[good(0), good(2), bad.clone(), good(1)]);
    assert_eq!(left, [vec![good(0), good(1), good(2)], vec![bad]]);
}

/// A fragment may be of any flow between its addresses: none of their packets passes it, though flows are known before.
#[test]
fn no_packet_is_pulled_in_front_of_a_fragment() {
    let of = |port, index| Frame { ports: (port, 9), ..Frame::bulk(index, 100) }.bytes();
    let fragment = fragment_between();
    let frames = [of(1, 0), of(2, 0), of(1, 1), fragment.clone(), of(2, 1), of(1, 2), of(1, 3)];
    let (left, _) = merge_all(&frames);
    let merged = [
        vec![of(1, 0), of(1, 1)],
        vec![of(2, 0)],
        vec![fragment],
        vec![of(2, 1)],
        vec![of(1, 2), of(1, 3)],
    ];
    assert_eq!(left, merged);

    // Nor is a late one put in its place across it.
    let frames = [of(1, 0), of(1, 2), fragment_between(), of(1, 1)];
    assert_eq!(merge_all(&frames).0, frames.map(|frame| vec![frame]));
}

/// A packet with another one's bytes changed.
fn with(frame: Frame, change: impl FnOnce(&mut Frame)) -> Vec<u8> {
    let mut frame = frame;
    change(&mut frame);
    frame.bytes()
}

/// Of flows that each come in runs, too: nothing is lost, and nothing passes a fragment.
#[test]
fn a_late_packet_of_a_run_is_put_in_its_place_as_far_as_that_goes() {
    let of = |index| Frame::bulk(index, 100).bytes();
    let fragment = with(Frame::bulk(7, 100), |frame| frame.flags_fragment = 0x2000);
    // Across a fragment it stays where it is.
    let frames = [of(0), of(1), of(3), fragment.clone(), of(2)];
    let left = [vec![of(0), of(1)], vec![of(3)], vec![fragment.clone()], vec![of(2)]];
    assert_eq!(merge_all(&frames).0, left);
    // One that nothing may be merged after.
    let last = with(Frame::bulk(2, 100), |frame| frame.flags |= PSH);
    let left = [vec![of(0), of(1), last.clone()], vec![of(3)]];
    assert_eq!(merge_all(&[of(0), of(1), of(3), last]).0, left);
    // Another one in front of it does not join.
    let bad = with(Frame::bulk(4, 100), |frame| frame.field = Field::Bad);
    let before = [of(0), of(1), of(3), bad.clone(), of(2)];
    let frames = [&before[..], &[of(5), fragment.clone(), of(6)]].concat();
    let merged = [0, 1, 2, 3].map(of).to_vec();
    assert_eq!(merge_all(&frames).0, [merged, vec![bad], vec![of(5)], vec![fragment], vec![of(6)]]);
    // It is looked for among the next 32.
    for (ahead, is_found) in [(1, true), (31, true), (32, true), (33, false)] {
        let behind: Vec<_> = (3..3 + ahead).map(of).collect();
        let frames = [&[of(0), of(1)][..], &behind, &[of(2)]].concat();
        let all: Vec<_> = (0..3 + ahead).map(of).collect();
        let left = if is_found { vec![all] } else { vec![all[..2].to_vec(), behind, vec![of(2)]] };
        assert_eq!(merge_all(&frames).0, left, "{ahead}");
    }
}

/// Refusals and flushes, each as often as it was counted.
fn counted(counters: &BurstCounters) -> (Vec<Refusal>, Vec<Flush>) {
    let BurstCounters { refused, flushed, .. } = counters;
    let times = |of: &Refusal| core::iter::repeat_n(*of, refused.of(*of) as usize);
    let refused = Refusal::ALL.iter().flat_map(times).collect();
    let times = |of: &Flush| core::iter::repeat_n(*of, flushed.of(*of) as usize);
    (refused, Flush::ALL.iter().flat_map(times).collect())
}

/// Of flows that take turns.
#[test]
fn what_a_burst_keeps_apart_is_counted_once() {
    let frame = |port, index| Frame { ports: (port, 9), ..Frame::bulk(index, 100) };
    let of = |port, index| frame(port, index).bytes();
    let between = of(2, 0);
    let fragment = fragment_between();
    let longer = with(frame(1, 2), |frame| frame.payload.push(1));
    let other = with(frame(1, 1), |frame| frame.window += 1);
    let first_bad = with(frame(1, 0), |frame| frame.field = Field::Bad);
    let last = |index| with(frame(1, index), |frame| frame.flags |= PSH);
    for (frames, groups, refused, flushed) in [
        // The next packet shows that nothing more joins, unless a fragment is before it.
        (
            vec![of(1, 0), between.clone(), of(1, 1), longer.clone()],
            vec![vec![0, 2], vec![1], vec![3]],
            vec![Refusal::Longer],
            vec![Flush::Displaced, Flush::BatchEnd, Flush::BatchEnd],
        ),
        (
            vec![of(1, 0), between.clone(), of(1, 1), fragment.clone(), longer],
            vec![vec![1], vec![0, 2], vec![3], vec![4]],
            vec![Refusal::Fragment],
            vec![Flush::Bypass, Flush::BatchEnd, Flush::BatchEnd],
        ),
        (
            vec![of(1, 0), between.clone(), fragment, other.clone()],
            vec![vec![1], vec![0], vec![2], vec![3]],
            vec![Refusal::Fragment],
            vec![Flush::Bypass, Flush::BatchEnd, Flush::BatchEnd],
        ),
        (
            vec![of(1, 0), between.clone(), other],
            vec![vec![0], vec![1], vec![2]],
            vec![Refusal::Window],
            vec![Flush::Displaced, Flush::BatchEnd, Flush::BatchEnd],
        ),
        // Nothing joins a packet that ends its flow, and that is its reason.
        (
            vec![of(1, 0), between.clone(), last(1), of(1, 2)],
            vec![vec![0, 2], vec![1], vec![3]],
            vec![],
            vec![Flush::EndFlag, Flush::BatchEnd, Flush::BatchEnd],
        ),
        (
            vec![between.clone(), last(0), of(3, 0), of(1, 1)],
            vec![vec![0], vec![1], vec![2], vec![3]],
            vec![],
            vec![Flush::EndFlag, Flush::BatchEnd, Flush::BatchEnd, Flush::BatchEnd],
        ),
        (
            vec![between.clone(), last(0), of(3, 0)],
            vec![vec![0], vec![1], vec![2]],
            vec![],
            vec![Flush::EndFlag, Flush::BatchEnd, Flush::BatchEnd],
        ),
        // A longer one that comes too early lets the one between wait.
        (
            vec![
                of(1, 0),
                between.clone(),
                with(frame(1, 2), |frame| frame.payload.push(1)),
                of(1, 1),
            ],
            vec![vec![1], vec![0, 3], vec![2]],
            vec![Refusal::Longer],
            vec![Flush::Displaced, Flush::BatchEnd, Flush::BatchEnd],
        ),
        // A packet that none joins is not examined.
        (
            vec![first_bad, between, of(1, 2), of(1, 3)],
            vec![vec![1], vec![0], vec![2, 3]],
            vec![Refusal::SequenceGap],
            vec![Flush::Displaced, Flush::BatchEnd, Flush::BatchEnd],
        ),
    ] {
        let (left, counters) = merge_all(&frames);
        let expected: Vec<Vec<Vec<u8>>> = groups
            .iter()
            .map(|group| group.iter().map(|at| frames[*at].clone()).collect())
            .collect();
        assert!(left == expected, "{groups:?}");
        assert_eq!(counted(&counters), (refused, flushed), "{groups:?}");
    }
}

/// Of which nothing is merged: the reason is that alone.
#[test]
fn a_packet_without_data_is_compared_with_nothing() {
    let of = |index| Frame::bulk(index, 100).bytes();
    for ahead in [0, 100] {
        let empty = with(Frame::bulk(2, 0), |frame| {
            (frame.sequence, frame.window) = (201 + ahead, 3);
        });
        let (left, counters) = merge_all(&[of(0), of(1), empty.clone()]);
        assert_eq!(left, [vec![of(0), of(1)], vec![empty]]);
        assert_eq!(counted(&counters), (vec![Refusal::NoPayload], vec![Flush::Bypass]));
    }
}

/// A packet without visible ports is compared with 64 packets that wait; with more of them, all leave.
#[test]
fn a_fragment_lets_few_of_other_addresses_wait() {
    let of = |port, index| Frame { ports: (port, 9), ..Frame::bulk(index, 60) }.bytes();
    let others =
        with(Frame::bulk(7, 60), |frame| (frame.source, frame.flags_fragment) = (9, 0x2000));
    for (flows, merged) in [(64, 64), (65, 0)] {
        let all = |index| (0..flows).map(move |port| of(port, index));
        let frames: Vec<_> = all(0).chain([others.clone()]).chain(all(1)).collect();
        assert_eq!(merge_all(&frames).1.merged, merged);
        // After all have left, few others wait again.
        let behind = [of(900, 0), of(901, 0), others.clone(), of(900, 1)];
        let (left, _) = merge_all(&[&frames[..], &behind].concat());
        assert_eq!(left.contains(&vec![of(900, 0), of(900, 1)]), merged == 0);
    }
}

fn fragment_between() -> Vec<u8> {
    Frame { flags_fragment: 0x2000, ..Frame::bulk(7, 100) }.bytes()
}

/// Frames without their padding, as a TUN device and a capture at the sender have them.
#[test]
fn short_frames_without_padding_merge() {
    let frames: Vec<_> = (0..4).map(|index| Frame::bulk(index, 3).bytes()).collect();
    let between = Frame { ports: (1, 9), ..Frame::bulk(0, 3) }.bytes();
    let mut mixed = frames.clone();
    mixed.insert(2, between.clone());
    assert!(mixed.iter().all(|frame| frame.len() < 60));
    assert_eq!(merge_all(&mixed).0, [vec![between], frames]);
}

/// More packets than a batch has, and more of them noted than a packet without ports is compared with.
#[test]
fn bursts_of_thousands_lose_nothing() {
    let rng = &mut Rng::new(5);
    for count in [65, 300, 3_000] {
        let mut next = vec![0; 400];
        let frames: Vec<Vec<u8>> = (0..count)
            .map(|_| {
                let flow = rng.below(400) as usize;
                let ports = (flow as u16, 9);
                let fragment = rng.chance(0.01);
                next[flow] += 1;
                let flags_fragment = if fragment { 0x2000 } else { 0x4000 };
                Frame { ports, flags_fragment, ..Frame::bulk(next[flow], 60) }.bytes()
            })
            .collect();
        let (left, counters) = merge_all(&frames);
        let mut all: Vec<_> = left.concat();
        assert_eq!(all.len(), count);
        assert!(counters.merged > 0 || count == 65);
        let ports = |frame: &Vec<u8>| frame[34..36].to_vec();
        let sequence = |frames: &[Vec<u8>]| -> Vec<_> {
            let mut by_port = std::collections::BTreeMap::<_, Vec<_>>::new();
            frames.iter().for_each(|f| by_port.entry(ports(f)).or_default().push(f.clone()));
            by_port.into_iter().collect()
        };
        assert_eq!(sequence(&all), sequence(&frames), "each flow is as it was");
        all.sort();
        let mut sent = frames.clone();
        sent.sort();
        assert_eq!(all, sent);
    }
}

/// Segments of each packet that leaves, and the counters.
fn merge_all(frames: &[Vec<u8>]) -> (Vec<Vec<Vec<u8>>>, BurstCounters) {
    let mut merger = Merger::new(LinkType::Ethernet, Config::burst());
    let mut buffer = frames.concat();
    let mut end = 0;
    let ranges = frames.iter().map(|frame| {
        end += frame.len();
        end - frame.len()..end
    });
    let mut left = Vec::new();
    let out = &mut |merged: Merged<'_>| {
        let frame = merged.slices.concat();
        let mut whole = cut(LinkType::Ethernet, &merged.header, &frame).expect("described");
        let mut out = vec![0; whole.count() * whole.max_len()];
        let mut run = whole.write(Room::default(), &mut out).expect("room").expect("at least one");
        left.push(run.segments().map(|segment| segment.to_vec()).collect());
    };
    merger.merge_burst(&mut buffer, ranges, out).expect("inside");
    (left, *merger.counters())
}

/// 12 packets of two flows, which leave as two merged ones and some alone.
fn mixed() -> Vec<Vec<u8>> {
    let data = |port: u16, index: u32| Frame {
        ports: (port, 80),
        sequence: 1_000 + 10 * index,
        payload: vec![7; 10],
        ..Frame::default()
    };
    let runs = [1, 2].into_iter().flat_map(|port| (0..4).map(move |index| data(port, index)));
    runs.chain((3..7).map(|port| data(port, 0))).map(|frame| frame.bytes()).collect()
}

#[test]
fn a_merged_packet_says_which_packets_are_in_it() {
    let frames = mixed();
    let mut merger = Merger::new(LinkType::Ethernet, Config::burst());
    let (len, mut buffer) = (frames[0].len(), frames.concat());
    let mut groups = Vec::new();
    let out = &mut |merged: Merged<'_>| {
        let numbers: Vec<usize> = merged.numbers().collect();
        assert_eq!((numbers[0], numbers.len()), (merged.first, merged.packets));
        groups.push(numbers);
    };
    let total = buffer.len();
    merger.merge_burst(&mut buffer, stride(total, len), out).expect("inside");
    groups.sort();
    let expected: [&[usize]; 6] = [&[0, 1, 2, 3], &[4, 5, 6, 7], &[8], &[9], &[10], &[11]];
    assert_eq!(groups, expected);
    let counters = merger.counters();
    assert_eq!((counters.packets_out, counters.alone, counters.merged), (6, 4, 6));
}

#[test]
fn counters_add_up_after_the_callers_function_has_panicked() {
    let frames = mixed();
    let (len, whole) = (frames[0].len(), frames.concat());
    for last in 1..=6 {
        let mut merger = Merger::new(LinkType::Ethernet, Config::burst());
        let (mut buffer, mut calls) = (whole.clone(), 0);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _merged = merger.merge_burst(&mut buffer, stride(whole.len(), len), &mut |_| {
                calls += 1;
                assert!(calls < last, "meant");
            });
        }));
        assert!(panicked.is_err());
        let counters = *merger.counters();
        assert_eq!(counters.packets_out, last);
        assert_eq!(counters.packets_in, counters.packets_out + counters.merged);
        assert_eq!(counters.flushed.total() + counters.refused.total(), last);
        // And the next burst is whole.
        let mut buffer = whole.clone();
        merger.merge_burst(&mut buffer, stride(whole.len(), len), &mut |_| ()).expect("inside");
        assert_eq!(merger.counters().packets_in, counters.packets_in + 12);
    }
}

#[test]
fn counters_of_a_coalescer_add_up_after_a_panic() {
    for (config, last) in [(Config::burst(), 1), (Config::burst(), 4), (Config::holding(), 1)] {
        let mut coalescer = Coalescer::new(config);
        let mut frames = mixed();
        // A packet that does not merge leaves at once where packets are held, too.
        frames.push(Frame { flags: ACK, payload: vec![], ..Frame::default() }.bytes());
        let (mut calls, now) = (0, Instant::ZERO);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let input = Input::Frames(&mut frames, LinkType::Ethernet, Meta::default());
            coalescer.push_batch(input, now, &mut |_, _| {
                calls += 1;
                assert!(calls < last, "meant");
            });
        }));
        assert!(panicked.is_err());
        let counters = coalescer.counters();
        let left = counters.packets_out + counters.merged + coalescer.held() as u64;
        assert_eq!(counters.packets_in, left);
    }
}

#[test]
fn a_frame_is_cut_again_from_the_same_bytes() {
    let frame = Frame { payload: vec![7; 10], ..Frame::default() }.bytes();
    let (csum_start, csum_offset) = (34, 16);
    let header = Header { flags: flag::NEEDS_CSUM, csum_start, csum_offset, ..Header::default() };
    let mut deferred = frame.clone();
    // The sum of the pseudo header: addresses, protocol and length.
    let pseudo = Sum::of(&frame[26..34]).plus(Sum::of(&[0, 6, 0, 30]));
    deferred[50..52].copy_from_slice(&(!pseudo.checksum()).to_be_bytes());
    for _ in 0..2 {
        let mut out = [0; 100];
        let mut segments = cut(LinkType::Ethernet, &header, &deferred).expect("it is described");
        let run = segments.write(Room::default(), &mut out).expect("room").expect("a frame");
        assert!(run.bytes() == frame, "{:02x?}", run.bytes());
    }
}
