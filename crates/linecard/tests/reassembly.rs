//! The rules of reassembly, each with its source, and its bounds.

use core::time::Duration;
use linecard::offload::coalesce::{self, Coalescer, Flush};
use linecard::offload::reassemble::{Config, Exit, GiveUp, Pass, Reassembler, Verdict, reassemble};
use linecard::packet::{Batch, ChecksumState, Form, Gso, Layout, LinkType, Meta, Packet};
use linecard::rng::Rng;
use linecard::stage::Stage;
use linecard::stages::Reassemble;
use linecard::time::Instant;
use linecard_testkit::packets::fragments::{Part, Whole, seal};
use linecard_testkit::packets::frame::{Frame, TCP, UDP, put16};
use linecard_testkit::packets::reassembler::Real;
use linecard_testkit::packets::runner::whole;
use linecard_testkit::packets::traffic::Arrival;

const LINK: LinkType = LinkType::Ethernet;
const SECOND: u64 = 1_000_000_000;

/// UDP with `len` bytes behind the IP header.
fn udp(v6: bool, len: usize) -> Frame {
    let payload = (0..len - 8).map(|at| at as u8).collect();
    Frame { v6, protocol: UDP, flags_fragment: 0, payload, ..Frame::default() }
}

fn open(frame: &Frame, id: u32) -> Whole {
    let extensions = frame.extensions.iter().map(|(_, body)| body.len() + 1).sum();
    Whole::new(frame.link, &frame.bytes(), extensions, id)
}

/// Pushes frames at times in nanoseconds.
fn push_at(real: &mut Real, frames: &[(u64, Vec<u8>)]) {
    let first = real.reassembler.counters().packets_in as usize;
    for (number, (now, bytes)) in frames.iter().enumerate() {
        let now = Instant::from_ns(*now);
        let meta = Meta { timestamp: now, ..Meta::default() };
        real.push(first + number, &Arrival { link: LINK, bytes: bytes.clone(), meta, now });
    }
}

/// Result of frames that arrive one after the other, without a stop.
fn run(frames: &[Vec<u8>]) -> Real {
    run_with(Config::default(), frames)
}

fn run_with(config: Config, frames: &[Vec<u8>]) -> Real {
    let mut real = Real::new(LINK, config);
    let timed: Vec<(u64, Vec<u8>)> = (0..).zip(frames.iter().cloned()).collect();
    push_at(&mut real, &timed);
    real
}

fn reassembled(numbers: &[usize]) -> (Vec<usize>, Exit) {
    (numbers.to_vec(), Exit::Reassembled)
}

fn gave_up(why: GiveUp, numbers: &[usize]) -> Vec<(Vec<usize>, Exit)> {
    numbers.iter().map(|number| (vec![*number], Exit::GivenUp(why))).collect()
}

/// All that is given up left byte for byte, in the order of arrival.
fn check_untouched(real: &Real, frames: &[Vec<u8>]) {
    let left = real.left();
    for left in left.iter().filter(|left| left.exit != Exit::Reassembled) {
        assert_eq!(left.frame, frames[left.packets[0]]);
    }
}

/// RFC 791, section 3.2; RFC 8200, section 4.5: any order.
#[test]
fn fragments_in_any_order_become_the_datagram() {
    for v6 in [false, true] {
        let frame = udp(v6, 100);
        let cut = open(&frame, 7).cut(&[24, 64, 100]);
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let frames = order.map(|index: usize| cut[index].clone());
            let real = run(&frames);
            let by_data = [0, 1, 2].map(|data| order.iter().position(|o| *o == data).expect("one"));
            assert_eq!(real.exits(), [reassembled(&by_data)]);
            let (packet, _) = &real.out[0];
            let original = Frame { id: 7, ..frame.clone() }.bytes();
            assert_eq!(whole(packet), original);
            assert_eq!(packet.layout().form(), Form::Datagram);
            assert_eq!(packet.payload_len(), 92);
        }
    }
}

/// No payload byte moves: what comes out are slices of the buffers that came in.
#[test]
fn payload_stays_where_it_arrived() {
    for v6 in [false, true] {
        let mut frames = open(&udp(v6, 3_000), 7).cut(&[1_000, 2_000, 3_000]);
        let places: Vec<_> = frames.iter().map(|frame| frame.as_ptr_range()).collect();
        let buffers = frames.iter_mut().map(|frame| &mut frame[..]);
        let out = reassemble(LINK, buffers, Config::default());
        assert_eq!(out.len(), 1);
        for (slice, place) in out[0].0.payload().zip(&places) {
            assert!(place.contains(&slice.as_ptr()));
            assert_eq!(slice.as_ptr_range().end, place.end);
        }
        assert_eq!(out[0].0.payload().count(), 3);
    }
}

/// RFC 8200, section 4.5 (RFC 5722): a datagram with overlapping fragments is given up, and so is
/// what comes of it later. Equal bytes do not excuse an overlap.
#[test]
fn overlaps_give_the_datagram_up() {
    for v6 in [false, true] {
        let data = open(&udp(v6, 96), 7);
        let good = data.cut(&[24, 48, 96]);
        for (start, end) in [(16, 32), (0, 16), (8, 24), (8, 16), (0, 32)] {
            let frames = [
                good[1].clone(),
                good[0].clone(),
                data.fragment(&data.part(start, end)),
                good[2].clone(),
                good[0].clone(),
            ];
            let real = run(&frames);
            let mut expected = gave_up(GiveUp::Overlap, &[0, 1, 2]);
            expected.extend([3, 4].map(|number| (vec![number], Exit::Passed(Pass::Refused))));
            assert_eq!(real.exits(), expected, "{start}..{end}");
            check_untouched(&real, &frames);
            assert_eq!(real.reassembler.held(), 0);
        }
    }
}

/// The first of the "teardrop" shapes: the second fragment ends within the first.
#[test]
fn teardrop_is_refused() {
    let data = open(&udp(false, 64), 242);
    let first = data.fragment(&data.part(0, 40));
    let mut second = data.fragment(&Part { offset: 24, data: vec![0; 4], more: false });
    assert_eq!(
        run(&[first.clone(), second.clone()]).exits(),
        gave_up(GiveUp::End, &[0, 1]),
        "it contradicts the end, too"
    );
    put16(&mut second, 14 + 6, 0x2003);
    seal(&mut second, 14);
    assert_eq!(run(&[first, second]).exits(), gave_up(GiveUp::Uneven, &[0, 1]));
}

/// "Ping of death": a fragment that ends beyond 65,535 (RFC 791, section 3.1: the total length has
/// 16 bits; RFC 8200, section 4.5: so has the payload length).
#[test]
fn datagrams_beyond_the_length_field_are_refused() {
    // The IPv4 header counts, the IPv6 header does not; offsets are multiples of 8.
    for (v6, offset, most) in [(false, 65_512, 3), (true, 65_528, 7)] {
        let data = open(&udp(v6, 64), 7);
        let last = |len| data.fragment(&Part { offset, data: vec![7; len], more: false });
        assert_eq!(run(&[last(most)]).exits(), []);
        let real = run(&[last(most + 1)]);
        assert_eq!(real.exits(), gave_up(GiveUp::TooLong, &[0]));
    }
}

/// The first fragment's header may be longer than the others': only together do they exceed.
#[test]
fn the_longest_header_counts() {
    let options = vec![7, 7, 4, 1, 2, 3, 4, 1];
    let long = Frame { ip_options: options, protocol: 1, ..udp(false, 64) };
    let short = Frame { protocol: 1, ..udp(false, 64) };
    let (long, short) = (open(&long, 7), open(&short, 7));
    let split = 40_000;
    let first = long.fragment(&Part { offset: 0, data: vec![1; split], more: true });
    let last = |end: usize| {
        short.fragment(&Part { offset: split, data: vec![2; end - split], more: false })
    };
    let real = run(&[first.clone(), last(65_535 - 28)]);
    assert_eq!(real.exits(), [reassembled(&[0, 1])]);
    assert_eq!(real.out[0].0.datagram_len(), 14 + 65_535);
    let frames = [first, last(65_535 - 27)];
    let real = run(&frames);
    assert_eq!(real.exits(), gave_up(GiveUp::TooLong, &[0, 1]));
    check_untouched(&real, &frames);
}

/// RFC 815, section 3, step 6: the last fragment fixes the length; nothing may contradict it.
#[test]
fn fragments_must_agree_on_the_end() {
    let data = open(&udp(true, 96), 7);
    let part = |start, end, more| {
        let part = Part { more, ..data.part(start, end) };
        data.fragment(&part)
    };
    let last = part(48, 64, false);
    for second in [
        part(64, 72, true),
        part(64, 72, false),
        part(24, 32, false),
        part(48, 64, true),
        part(56, 64, true),
    ] {
        let real = run(&[last.clone(), second]);
        assert_eq!(real.exits(), gave_up(GiveUp::End, &[0, 1]));
    }
    let real = run(&[part(48, 64, true), part(24, 32, false)]);
    assert_eq!(real.exits(), gave_up(GiveUp::End, &[0, 1]));
}

/// RFC 8200, section 4.5: an exact duplicate may be ignored.
#[test]
fn exact_duplicates_pass_or_are_dropped_when_asked() {
    for v6 in [false, true] {
        let cut = open(&udp(v6, 64), 7).cut(&[24, 64]);
        let mut other_ttl = cut[0].clone();
        other_ttl[14 + if v6 { 7 } else { 8 }] -= 1;
        if !v6 {
            seal(&mut other_ttl, 14);
        }
        let frames = [cut[0].clone(), cut[0].clone(), other_ttl, cut[1].clone()];
        let duplicate = |number| (vec![number], Exit::Passed(Pass::Duplicate));
        let real = run(&frames);
        assert_eq!(real.exits(), [duplicate(1), duplicate(2), reassembled(&[0, 3])]);
        check_untouched(&real, &frames);
        let real = run_with(Config { drop_duplicates: true, ..Config::default() }, &frames);
        assert_eq!(real.exits(), [reassembled(&[0, 3])]);
        assert_eq!(real.reassembler.counters().dropped, 2);
        // One byte of data differs: an overlap.
        let mut forged = cut[0].clone();
        *forged.last_mut().expect("data") ^= 1;
        let real = run(&[cut[0].clone(), forged]);
        assert_eq!(real.exits(), gave_up(GiveUp::Overlap, &[0, 1]));
    }
}

/// RFC 8200, section 4.5: only the last fragment may have a length that is not a multiple of 8, and
/// RFC 791, section 3.2 counts in such units.
#[test]
fn uneven_and_empty_fragments_give_the_datagram_up() {
    for v6 in [false, true] {
        let data = open(&udp(v6, 64), 7);
        let good = data.fragment(&data.part(0, 24));
        for (len, why) in [(5, GiveUp::Uneven), (0, GiveUp::Empty)] {
            let bad = data.fragment(&Part { offset: 24, data: vec![0; len], more: true });
            assert_eq!(run(&[good.clone(), bad]).exits(), gave_up(why, &[0, 1]));
        }
        let empty = data.fragment(&Part { offset: 64, data: Vec::new(), more: false });
        assert_eq!(run(&[good, empty]).exits(), gave_up(GiveUp::Empty, &[0, 1]));
    }
}

/// RFC 6946, section 4: an atomic fragment is whole, whatever else has its identification.
#[test]
fn atomic_fragments_are_whole_at_once() {
    let frame = udp(true, 64);
    let data = open(&frame, 7);
    let held = data.fragment(&data.part(0, 24));
    let atomic = data.fragment(&data.part(0, 64));
    let rest = data.fragment(&data.part(24, 64));
    let real = run(&[held, atomic, rest]);
    assert_eq!(real.exits(), [reassembled(&[1]), reassembled(&[0, 2])]);
    let (packet, _) = &real.out[0];
    assert_eq!(packet.bytes(), frame.bytes());
    assert_eq!(packet.layout(), &Layout::parse(LINK, &frame.bytes()));
    assert_eq!(real.reassembler.counters().atomic, 1);
    // IPv6 packets without anything behind the headers may be atomic fragments too.
    let nothing = Frame { protocol: 59, payload: Vec::new(), ..udp(true, 8) };
    let data = open(&nothing, 7);
    let real = run(&[data.fragment(&data.part(0, 0))]);
    assert_eq!(real.out[0].0.bytes(), nothing.bytes());
}

/// RFC 8200, section 4.5 and RFC 7112, section 5: the first fragment holds all headers. For TCP
/// over IPv4, RFC 1858, section 3.
#[test]
fn the_first_fragment_holds_all_headers() {
    let header_chain = |frame: &Frame, extensions: usize, first: usize| {
        let data = Whole::new(LINK, &frame.bytes(), extensions, 7);
        let frames = data.cut(&[first, data.data.len()]);
        let exits = run(&frames).exits();
        if exits == [reassembled(&[0, 1])] {
            return true;
        }
        assert_eq!(exits[0], (vec![0], Exit::GivenUp(GiveUp::HeaderChain)));
        assert_eq!(exits[1], (vec![1], Exit::Passed(Pass::Refused)));
        false
    };
    let options = vec![1; 20];
    for v6 in [false, true] {
        let tcp = Frame { protocol: TCP, options: options.clone(), ..udp(v6, 64) };
        assert!(!header_chain(&tcp, 0, 8));
        assert!(!header_chain(&tcp, 0, 32));
        assert!(header_chain(&tcp, 0, 40));
        assert!(header_chain(&udp(v6, 64), 0, 8));
    }
    // Destination options of 24 bytes in the fragmentable part.
    let mut body = vec![0; 23];
    body[0] = 2;
    let with = Frame { extensions: vec![(60, body)], ..udp(true, 64) };
    for (first, whole) in [(8, false), (16, false), (24, false), (32, true)] {
        assert_eq!(header_chain(&with, 0, first), whole, "{first}");
    }
    // An unknown header has an unknown length.
    let unknown = Frame { protocol: 99, ..udp(true, 64) };
    assert!(header_chain(&unknown, 0, 8));
    // Headers are looked for in the first 512 bytes: 14 of Ethernet, 40, options, 8 of UDP.
    for (options, whole) in [(448, true), (456, false)] {
        let mut body = vec![0; options - 1];
        body[0] = (options / 8 - 1) as u8;
        let long = Frame { extensions: vec![(60, body)], ..udp(true, 64) };
        assert_eq!(header_chain(&long, 0, options + 8), whole, "{options}");
    }
}

/// RFC 3168, section 5.3: a mark on one fragment is a mark on all, and CE beside Not-ECT must not
/// become CE.
#[test]
fn congestion_marks_survive_and_contradictions_do_not() {
    const NOT_ECT: u8 = 0;
    const ECT_1: u8 = 1;
    const ECT_0: u8 = 2;
    const CE: u8 = 3;
    for v6 in [false, true] {
        let frame = |tos: u8| Frame { tos: 0xB8 | tos, ..udp(v6, 64) };
        let cut = |marks: [u8; 2]| -> Vec<Vec<u8>> {
            let cut = |mark: u8, index: usize| open(&frame(mark), 7).cut(&[24, 64])[index].clone();
            vec![cut(marks[0], 0), cut(marks[1], 1)]
        };
        for (marks, result) in [
            ([NOT_ECT, NOT_ECT], NOT_ECT),
            ([ECT_0, ECT_0], ECT_0),
            ([CE, CE], CE),
            ([CE, ECT_0], CE),
            ([ECT_0, CE], CE),
            ([ECT_1, CE], CE),
            // RFC 3168 leaves this open; the first fragment's stays.
            ([ECT_0, ECT_1], ECT_0),
            ([ECT_1, ECT_0], ECT_1),
        ] {
            let real = run(&cut(marks));
            assert_eq!(real.exits(), [reassembled(&[0, 1])], "{marks:?}");
            let expected = Frame { id: 7, ..frame(result) }.bytes();
            assert_eq!(whole(&real.out[0].0), expected, "{marks:?}");
        }
        for marks in [[CE, NOT_ECT], [NOT_ECT, CE], [NOT_ECT, ECT_0], [ECT_1, NOT_ECT]] {
            assert_eq!(run(&cut(marks)).exits(), gave_up(GiveUp::Ecn, &[0, 1]), "{marks:?}");
        }
    }
}

/// The first fragment's TTL, DSCP and options are those of the datagram (RFC 791, section 3.2;
/// RFC 8200, section 4.5).
#[test]
fn the_first_fragment_gives_the_header() {
    let first =
        Frame { ttl: 9, tos: 0x20, ip_options: vec![7, 7, 4, 1, 2, 3, 4, 1], ..udp(false, 64) };
    let other = Frame { ttl: 200, tos: 0x40, ..udp(false, 64) };
    let frames =
        [open(&other, 7).cut(&[24, 64])[1].clone(), open(&first, 7).cut(&[24, 64])[0].clone()];
    let real = run(&frames);
    assert_eq!(real.exits(), [reassembled(&[1, 0])]);
    assert_eq!(whole(&real.out[0].0), Frame { id: 7, ..first }.bytes());
}

/// RFC 791, section 3.2 (source, destination, protocol, identification) and RFC 8200, section 4.5
/// (without the protocol); lanes, marks and VLANs stay apart too, station addresses do not.
#[test]
fn fragments_of_different_datagrams_stay_apart() {
    for v6 in [false, true] {
        let frame = udp(v6, 64);
        let first = open(&frame, 7).cut(&[24, 64])[0].clone();
        let rest = |frame: &Frame, id: u32| open(frame, id).cut(&[24, 64])[1].clone();
        for other in [
            Frame { source: 9, ..frame.clone() },
            Frame { destination: 9, ..frame.clone() },
            Frame { tags: vec![[0x81, 0, 0, 5]], ..frame.clone() },
            Frame { v6: !v6, ..frame.clone() },
        ] {
            assert_eq!(run(&[first.clone(), rest(&other, 7)]).exits(), []);
        }
        assert_eq!(run(&[first.clone(), rest(&frame, 8)]).exits(), []);
        let together = [reassembled(&[0, 1])];
        let router = Frame { mac: 77, ..frame.clone() };
        assert_eq!(run(&[first.clone(), rest(&router, 7)]).exits(), together);
        let protocol = Frame { protocol: 99, payload: vec![0; 64], ..frame.clone() };
        assert_eq!(run(&[first.clone(), rest(&protocol, 7)]).exits() == together, v6);
        for meta in [Meta { lane: 3, ..Meta::default() }, Meta { mark: 3, ..Meta::default() }] {
            let mut real = run(core::slice::from_ref(&first));
            let bytes = rest(&frame, 7);
            real.push(1, &Arrival { link: LINK, bytes, meta, now: Instant::ZERO });
            assert_eq!(real.reassembler.datagrams(), 2);
        }
    }
}

/// A wrong header checksum must not become a right one.
#[test]
fn damaged_and_odd_packets_pass() {
    let cut = open(&udp(false, 64), 7).cut(&[24, 64]);
    let mut damaged = cut[0].clone();
    damaged[14 + 8] ^= 1;
    let passed = |why| [(vec![0], Exit::Passed(why))];
    assert_eq!(run(&[damaged]).exits(), passed(Pass::IpChecksum));
    let short = cut[0][..40].to_vec();
    assert_eq!(run(&[short]).exits(), passed(Pass::NotAFragment));
    assert_eq!(run(&[udp(true, 64).bytes()]).exits(), passed(Pass::NotAFragment));
    let mut no_room = open(&udp(true, 64), 7).cut(&[24, 64])[0].clone();
    put16(&mut no_room, 14 + 4, 7);
    assert_eq!(run(&[no_room]).exits(), passed(Pass::Malformed));
    // 14 of Ethernet, 40, and options before the fragment header: at most 320.
    for (options, expected) in [(264, &[][..]), (272, &passed(Pass::HeaderTooLong))] {
        let mut body = vec![0; options - 1];
        body[0] = (options / 8 - 1) as u8;
        let long = Frame { extensions: vec![(0, body)], ..udp(true, 64) };
        assert_eq!(run(&open(&long, 7).cut(&[24])).exits(), expected);
    }
    let metas = [
        (Meta { mark: Meta::NEVER, ..Meta::default() }, Pass::Unmergeable),
        (Meta { checksum: ChecksumState::Partial, ..Meta::default() }, Pass::PartialChecksum),
    ];
    for (meta, why) in metas {
        let mut real = Real::new(LINK, Config::default());
        real.push(0, &Arrival { link: LINK, bytes: cut[0].clone(), meta, now: Instant::ZERO });
        assert_eq!(real.exits(), passed(why));
    }
    // Bytes behind the first fragment's datagram are none of the whole; padding is common.
    let mut padded = cut[0].clone();
    padded.resize(60, 0);
    let real = run(&[padded, cut[1].clone()]);
    assert_eq!(whole(&real.out[0].0), Frame { id: 7, ..udp(false, 64) }.bytes());
}

/// The checksum is verified only if that of each part was; the time is that of the last part.
#[test]
fn metadata_of_the_whole() {
    use ChecksumState::{Unknown, Valid};
    let cut = open(&udp(false, 64), 7).cut(&[24, 64]);
    for (states, result) in [([Valid, Valid], Valid), ([Valid, Unknown], Unknown)] {
        let mut real = Real::new(LINK, Config::default());
        for (number, checksum) in states.into_iter().enumerate() {
            let timestamp = Instant::from_ns(100 + number as u64);
            let meta = Meta { checksum, timestamp, lane: 5, ..Meta::default() };
            let now = timestamp;
            real.push(number, &Arrival { link: LINK, bytes: cut[number].clone(), meta, now });
        }
        let meta = real.out[0].0.meta;
        assert_eq!((meta.checksum, meta.timestamp.as_ns(), meta.lane), (result, 101, 5));
        assert_eq!(real.out[0].0.chain()[0].timestamp().as_ns(), 101);
        let counters = real.reassembler.counters();
        assert_eq!((counters.hold_ns.max(), counters.fragments.max()), (1, 2));
    }
}

/// RFC 8200, section 4.5: 60 s from the first fragment to arrive; IPv4 as Linux, 30 s.
#[test]
fn what_stays_incomplete_leaves_when_its_time_is_up() {
    for (v6, timeout) in [(false, 30 * SECOND), (true, 60 * SECOND)] {
        let cut = open(&udp(v6, 96), 7).cut(&[24, 64, 96]);
        let mut real = Real::new(LINK, Config::default());
        // In the order of arrival, and later fragments do not prolong it.
        push_at(&mut real, &[(5, cut[2].clone()), (20 * SECOND, cut[0].clone())]);
        assert_eq!(real.reassembler.next_wakeup(), Some(Instant::from_ns(timeout + 5)));
        real.advance(Instant::from_ns(timeout + 4));
        assert_eq!(real.exits(), []);
        real.advance(Instant::from_ns(timeout + 5));
        assert_eq!(real.exits(), gave_up(GiveUp::Timeout, &[0, 1]));
        check_untouched(&real, &[cut[2].clone(), cut[0].clone()]);
        assert_eq!(real.reassembler.next_wakeup(), None);
        // Afterwards the identification may come again.
        let later = timeout + 6;
        push_at(&mut real, &[(later, cut[0].clone()), (later, cut[1].clone())]);
        push_at(&mut real, &[(later, cut[2].clone())]);
        assert_eq!(real.exits()[2], reassembled(&[2, 3, 4]));
    }
}

/// A datagram given up is remembered for one more timeout, without a wake-up.
#[test]
fn what_was_given_up_is_forgotten_when_its_time_is_up() {
    let data = open(&udp(false, 96), 7);
    let cut = data.cut(&[24, 96]);
    let overlap = data.fragment(&data.part(16, 32));
    let mut real = Real::new(LINK, Config::default());
    push_at(&mut real, &[(0, cut[0].clone()), (SECOND, overlap)]);
    assert_eq!((real.reassembler.datagrams(), real.reassembler.next_wakeup()), (1, None));
    push_at(&mut real, &[(31 * SECOND - 1, cut[0].clone())]);
    assert_eq!(real.exits()[2], (vec![2], Exit::Passed(Pass::Refused)));
    push_at(&mut real, &[(31 * SECOND, cut[0].clone()), (31 * SECOND, cut[1].clone())]);
    assert_eq!(real.exits()[3], reassembled(&[3, 4]));
    assert_eq!(real.reassembler.datagrams(), 0);
}

#[test]
fn times_that_run_back_or_end_do_no_harm() {
    let cut = open(&udp(false, 64), 7).cut(&[24, 64]);
    let mut real = Real::new(LINK, Config::default());
    push_at(&mut real, &[(50 * SECOND, cut[0].clone()), (0, cut[1].clone())]);
    assert_eq!(real.exits(), [reassembled(&[0, 1])]);
    push_at(&mut real, &[(u64::MAX, cut[0].clone())]);
    real.advance(Instant::NEVER);
    assert_eq!(real.exits()[1..], gave_up(GiveUp::Timeout, &[2]));
    let mut out = Vec::new();
    real.reassembler.restart_clock(Instant::ZERO, &mut |packet, exit| out.push((packet, exit)));
    push_at(&mut real, &[(1, cut[0].clone()), (2, cut[1].clone())]);
    assert_eq!(real.exits().len(), 3);
}

/// The first part of the datagram with this identification, from this source.
fn part_of(source: u8, id: u32) -> Vec<u8> {
    let frame = Frame { source, ..udp(false, 96) };
    open(&frame, id).cut(&[24, 96])[0].clone()
}

#[test]
fn a_full_table_gives_up_its_oldest() {
    let config = Config { max_datagrams: 3, shares: 1, ..Config::default() };
    let sources: Vec<Vec<u8>> = (1..=5).map(|source| part_of(source, 1)).collect();
    let real = run_with(config.clone(), &sources);
    assert_eq!(real.exits(), gave_up(GiveUp::TableFull, &[0, 1]));
    assert_eq!(real.reassembler.datagrams(), 3);
    // Datagrams given up before leave first: it holds nothing.
    let data = open(&Frame { source: 2, ..udp(false, 96) }, 1);
    let overlap = data.fragment(&data.part(16, 32));
    let frames = [&sources[..2], &[overlap, sources[2].clone(), sources[3].clone()]].concat();
    let real = run_with(config, &frames);
    assert_eq!(real.exits(), gave_up(GiveUp::Overlap, &[1, 2]));
    assert_eq!(real.reassembler.held(), 3);
}

#[test]
fn held_fragments_and_bytes_are_bounded() {
    let sources: Vec<Vec<u8>> = (1..=4).map(|source| part_of(source, 1)).collect();
    let config = Config { max_held_fragments: 3, shares: 1, ..Config::default() };
    let real = run_with(config, &sources);
    assert_eq!(real.exits(), gave_up(GiveUp::HeldLimit, &[0]));
    assert_eq!(real.reassembler.datagrams(), 4, "it is remembered");
    // Frames of 58 bytes.
    assert_eq!(sources[0].len(), 58);
    for (bytes, left) in [(58 * 4, 0), (58 * 4 - 1, 1), (58, 3), (57, 4)] {
        let config = Config { max_held_bytes: bytes, shares: 1, ..Config::default() };
        let real = run_with(config, &sources);
        assert_eq!(real.exits().len(), left, "{bytes} bytes");
        let too_large = real.reassembler.counters().passed.of(Pass::TooLarge);
        assert_eq!(too_large, if bytes == 57 { 4 } else { 0 });
    }
}

#[test]
fn fragments_of_one_datagram_are_bounded() {
    let data = open(&udp(true, 96), 7);
    let frames = data.cut(&[24, 32, 40, 96]);
    let config = |max_fragments| Config { max_fragments, ..Config::default() };
    assert_eq!(run_with(config(4), &frames).exits(), [reassembled(&[0, 1, 2, 3])]);
    assert_eq!(run_with(config(3), &frames).exits(), gave_up(GiveUp::TooMany, &[0, 1, 2, 3]));
}

/// Promise (Offloads): A source of fragments uses only its own share of the reassembly memory, one
/// eighth of each bound by default: 30 datagrams of others are completed beside 1,000 incomplete
/// ones of one source.
///
/// A source that never completes anything takes room from itself only.
#[test]
fn a_hostile_source_costs_its_share_only() {
    for flood in 0..3 {
        let mut config = Config { shares: 4, ..Config::default() };
        match flood {
            0 => config.max_datagrams = 64,
            1 => config.max_held_fragments = 64,
            _ => config.max_held_bytes = 64 * 58,
        }
        let mut real = Real::new(LINK, config);
        let honest: Vec<Vec<Vec<u8>>> = (10..40)
            .map(|source| open(&Frame { source, ..udp(false, 40) }, 1).cut(&[24, 40]))
            .collect();
        let first = honest.iter().map(|cut| cut[0].clone());
        let attack = (0..1_000).map(|id| part_of(1, id));
        let second = honest.iter().map(|cut| cut[1].clone());
        let frames: Vec<(u64, Vec<u8>)> = (0..).zip(first.chain(attack).chain(second)).collect();
        push_at(&mut real, &frames);
        let counters = real.reassembler.counters();
        assert_eq!(counters.reassembled, 30, "flood {flood}");
        assert_eq!(counters.given_up.total(), 1_000 - 16);
        assert_eq!(counters.given_up.of(GiveUp::Share), 1_000 - 16);
    }
}

/// A host with one IPv6 address can use its whole network.
#[test]
fn an_ipv6_source_is_a_network() {
    let config = Config { max_datagrams: 16, shares: 4, ..Config::default() };
    let frame = |source| Frame { source, ..udp(true, 96) };
    let frames: Vec<Vec<u8>> =
        (0..100).map(|source| open(&frame(source), 1).cut(&[24, 96])[0].clone()).collect();
    let real = run_with(config, &frames);
    assert_eq!(real.reassembler.datagrams(), 4);
    assert_eq!(real.reassembler.counters().given_up.of(GiveUp::Share), 96);
}

/// Many sources spoofed at once: bounds hold, nothing is lost, and each packet's cost is bounded.
#[test]
fn a_flood_of_sources_stays_within_the_bounds() {
    let rng = &mut Rng::new(1);
    let config = Config { max_datagrams: 100, max_held_fragments: 300, ..Config::default() };
    let mut reassembler = Reassembler::new(LinkType::Raw, config);
    let mut left = 0;
    for index in 0..100_000_u64 {
        let mut bytes = vec![0x45, 0, 0, 44, 0, 0, 0x20, 0, 64, 17, 0, 0, 10, 0, 0, 0, 10, 0, 0, 1];
        bytes.resize(44, 0);
        put16(&mut bytes, 4, rng.below(4) as u16);
        put16(&mut bytes, 14, rng.below(1 << 16) as u16);
        put16(&mut bytes, 6, 0x2000 | rng.below(20) as u16);
        seal(&mut bytes, 0);
        let packet = Packet::new(bytes, LinkType::Raw, Meta::default());
        reassembler.push(packet, Instant::from_ns(index), &mut |_, _| left += 1);
        if index % 1_000 == 0 {
            assert!(reassembler.is_consistent());
        }
    }
    assert!(reassembler.held() <= 300 && reassembler.datagrams() <= 100);
    reassembler.flush_all(&mut |_, _| left += 1);
    assert_eq!(left, 100_000);
    assert_eq!((reassembler.held(), reassembler.held_bytes()), (0, 0));
}

#[test]
fn the_smallest_configuration_works() {
    let config = Config {
        max_datagrams: 0,
        max_fragments: 0,
        max_held_fragments: 0,
        max_held_bytes: 0,
        shares: 0,
        timeout_v4: Duration::ZERO,
        timeout_v6: Duration::ZERO,
        ..Config::default()
    };
    let cut = open(&udp(false, 64), 7).cut(&[24, 64]);
    let real = run_with(config, &cut);
    assert_eq!(real.exits().len(), 2);
}

/// Verdicts say of the packet what exits say of what leaves.
#[test]
fn verdicts_name_what_became_of_the_packet() {
    let data = open(&udp(true, 64), 7);
    let cut = data.cut(&[24, 64]);
    let mut reassembler = Reassembler::new(LINK, Config::default());
    let mut push = |bytes: &Vec<u8>| {
        let packet = Packet::new(bytes.clone(), LINK, Meta::default());
        reassembler.push(packet, Instant::ZERO, &mut |_, _| {})
    };
    assert_eq!(push(&cut[0]), Verdict::Held);
    assert_eq!(push(&cut[0]), Verdict::Passed(Pass::Duplicate));
    assert_eq!(push(&cut[1]), Verdict::Completed);
    assert_eq!(push(&cut[1]), Verdict::Held);
    assert_eq!(push(&data.fragment(&data.part(0, 32))), Verdict::GivenUp(GiveUp::Overlap));
    assert_eq!(push(&cut[0]), Verdict::Passed(Pass::Refused));
}

/// As a stage: other packets pass at once, a full output delays packets only, and incomplete
/// datagrams leave at the stop.
#[test]
fn the_stage_passes_reassembles_and_lets_go() {
    let mut stage = Reassemble::new(LINK, Config::default());
    let (mut input, mut output) = (Batch::new(), Batch::new());
    let push = |input: &mut Batch<Vec<u8>>, bytes: Vec<u8>| {
        assert!(input.push(Packet::new(bytes, LINK, Meta::default())).is_ok());
    };
    let cut = open(&udp(false, 64), 7).cut(&[24, 64]);
    push(&mut input, cut[0].clone());
    push(&mut input, udp(true, 64).bytes());
    push(&mut input, cut[1].clone());
    push(&mut input, part_of(1, 9));
    stage.process(&mut input, Instant::ZERO, &mut output);
    let merged: Vec<bool> = output.drain().map(|packet| packet.is_merged()).collect();
    assert_eq!((merged, stage.held()), (vec![false, true], 1));
    assert_eq!(stage.next_wakeup(), Some(Instant::from_ns(30 * SECOND)));
    // 63 fragments of one datagram, given up at once into an output that is full.
    let data = open(&udp(true, 1_000), 7);
    for index in 0..63 {
        push(&mut input, data.fragment(&data.part(index * 8 + 8, index * 8 + 16)));
    }
    stage.process(&mut input, Instant::from_ns(1), &mut output);
    assert_eq!((output.len(), stage.held()), (0, 64));
    push(&mut output, udp(true, 64).bytes());
    stage.stop();
    stage.process(&mut input, Instant::from_ns(2), &mut output);
    assert_eq!((output.len(), stage.held()), (64, 1));
    assert_eq!(stage.next_wakeup(), Some(Instant::ZERO));
    output.drain().for_each(drop);
    stage.process(&mut input, Instant::from_ns(3), &mut output);
    assert_eq!((output.len(), stage.held()), (1, 0));
    let mut counted = Vec::new();
    stage.counters(&mut |name, value| counted.push((name, value)));
    assert_eq!(
        counted[..4],
        [("packets_in", 67), ("packets_out", 66), ("reassembled", 1), ("given_up", 2)]
    );
}

/// The coalescer takes a datagram of several pieces as merged already, and passes all of it.
#[test]
fn the_coalescer_passes_whole_datagrams() {
    let frame = Frame { protocol: TCP, flags_fragment: 0, ..Frame::bulk(0, 1_000) };
    let out = reassemble(LINK, open(&frame, 0).cut(&[200, 1_020]), Config::default());
    let (packet, _) = out.into_iter().next().expect("one datagram");
    let mut coalescer = Coalescer::new(coalesce::Config::default());
    let mut left = Vec::new();
    coalescer.push(packet, Instant::ZERO, &mut |packet, _| left.push(packet));
    coalescer.flush_all(Flush::Stop, &mut |packet, _| left.push(packet));
    assert_eq!((left.len(), left[0].payload_len()), (1, 1_000));
}

/// Two fragments that end where the datagram does agree on the end. They overlap, which is another reason.
#[test]
fn overlaps_at_the_end_contradict_no_end() {
    let data = open(&udp(true, 64), 7);
    let part = |start, more| data.fragment(&Part { more, ..data.part(start, 64) });
    for (first, second) in [((48, false), (56, false)), ((48, true), (56, false))] {
        let real = run(&[part(first.0, first.1), part(second.0, second.1)]);
        assert_eq!(real.exits(), gave_up(GiveUp::Overlap, &[0, 1]), "{first:?} {second:?}");
    }
}

/// A packet that was merged, or is to be segmented, did not arrive as a fragment, whatever its headers say.
#[test]
fn merged_packets_and_those_to_be_segmented_pass() {
    let cut = open(&udp(false, 64), 7).cut(&[24, 64]);
    let plain = Packet::new(cut[0].clone(), LINK, Meta::default());
    let gso = Some(Gso { size: 8, segments: 3, ..Gso::default() });
    let divided = Packet::new(cut[0].clone(), LINK, Meta { gso, ..Meta::default() });
    let never = Packet::new(cut[0].clone(), LINK, Meta { mark: Meta::NEVER, ..Meta::default() });
    let (whole, exit) = reassemble(LINK, cut.iter().cloned(), Config::default()).remove(0);
    assert_eq!((exit, whole.is_merged()), (Exit::Reassembled, true));
    for (packet, expected) in [
        (plain, Verdict::Held),
        (divided, Verdict::Passed(Pass::Unmergeable)),
        (never, Verdict::Passed(Pass::Unmergeable)),
        (whole, Verdict::Passed(Pass::NotAFragment)),
    ] {
        let mut reassembler = Reassembler::new(LINK, Config::default());
        assert_eq!(reassembler.push(packet, Instant::ZERO, &mut |_, _| {}), expected);
    }
}

/// Up to 320 bytes of headers are kept: all of a raw packet's options, 280 bytes, fit.
#[test]
fn headers_may_be_as_long_as_those_that_are_kept() {
    for (options, expected) in [(280, Verdict::Held), (288, Verdict::Passed(Pass::HeaderTooLong))] {
        let mut body = vec![0; options - 1];
        body[0] = (options / 8 - 1) as u8;
        let frame = Frame { link: LinkType::Raw, extensions: vec![(0, body)], ..udp(true, 64) };
        let bytes = open(&frame, 7).cut(&[24, 64])[0].clone();
        let packet = Packet::new(bytes, LinkType::Raw, Meta::default());
        let mut reassembler = Reassembler::new(LinkType::Raw, Config::default());
        assert_eq!(reassembler.push(packet, Instant::ZERO, &mut |_, _| {}), expected);
    }
}
