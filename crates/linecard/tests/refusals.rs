//! What keeps packets apart is named and counted exactly, in every kind of header, and what nothing keeps apart merges.

use core::time::Duration;
use linecard::offload::burst::Merger;
use linecard::offload::coalesce::{
    ChecksumPolicy, Config, Counters, Creation, Exit, Flush, Input, LargePackets, Refusal,
};
use linecard::offload::virtio::Device;
use linecard::packet::{BATCH, Batch, ChecksumState, Gso, LinkType, Meta, Packet};
use linecard::time::Instant;
use linecard_testkit::packets::frame::{
    ACK, Behind, CWR, FIN, Field, Frame, IpField, PSH, RST, SYN, TCP, UDP, URG,
};
use linecard_testkit::packets::ip::Ip;
use linecard_testkit::packets::runner::{
    Buffer, Real, arrival, arrivals, check_round_trip, packet, whole,
};
use linecard_testkit::packets::traffic::Arrival;
use linecard_testkit::packets::tunnel::{Wrap, each_kind};

/// Changes a frame.
type Change = fn(&mut Frame);

/// Data leaves at the end of its batch, or is held.
fn each_config() -> [Config; 2] {
    let config = Config { max_tunnels: 3, ..Config::default() };
    [Config { flush_at_batch_end: true, ..config.clone() }, config]
}

/// Gives packets to a coalescer as one batch, which is all.
fn batch(config: &Config, packets: impl IntoIterator<Item = Packet<Buffer>>) -> Real {
    let mut real = Real::new(config.clone());
    let mut batch = Batch::new();
    packets.into_iter().for_each(|packet| batch.push(packet).expect("at most 64"));
    real.push_batch(&mut batch, Instant::ZERO);
    real.stop();
    real
}

/// The same of frames, of which all are given back.
fn batch_of(config: &Config, frames: &[Frame]) -> Real {
    let arrivals = arrivals(frames);
    let packets = arrivals.iter().enumerate().map(|(number, arrival)| packet(number, arrival));
    let real = batch(config, packets);
    check_all(&real, &arrivals);
    real
}

/// The same of frames that share their metadata.
fn batch_of_frames(config: &Config, frames: &[Frame]) -> Real {
    let mut real = Real::new(config.clone());
    let (arrivals, meta) = (arrivals(frames), Meta::default());
    let packets = arrivals.iter().enumerate().map(|(number, arrival)| packet(number, arrival));
    let mut buffers: Vec<Buffer> = packets.map(|packet| packet.into_parts().0).collect();
    let input = Input::Frames(&mut buffers, frames[0].link, meta);
    let out = &mut real.out;
    real.coalescer.push_batch(input, Instant::ZERO, &mut |packet, exit| out.push((packet, exit)));
    real.stop();
    check_all(&real, &arrivals);
    real
}

fn check_all(real: &Real, arrivals: &[Arrival]) {
    check_round_trip(real, arrivals);
    let bytes: usize = real.out.iter().map(|(packet, _)| whole(packet).len()).sum();
    assert_eq!(real.coalescer.counters().bytes_out, bytes as u64);
}

fn groups(real: &Real) -> Vec<Vec<usize>> {
    real.outs().into_iter().map(|out| out.packets).collect()
}

/// Why packets were refused, each reason as often as it was counted.
fn refused(counters: &Counters) -> Vec<Refusal> {
    let times = |of: &Refusal| core::iter::repeat_n(*of, counters.refused.of(*of) as usize);
    Refusal::ALL.iter().flat_map(times).collect()
}

/// The second of two packets is changed, and refused for this reason.
fn check_reason(name: &str, frames: [Frame; 2], change: Change, reason: Refusal) {
    let mut frames = frames;
    for config in each_config() {
        assert_eq!(batch_of(&config, &frames).out.len(), 1, "{name}: {frames:?}");
    }
    change(&mut frames[1]);
    let reals = each_config()
        .into_iter()
        .flat_map(|config| [batch_of(&config, &frames), batch_of_frames(&config, &frames)]);
    for real in reals {
        let counters = real.coalescer.counters();
        assert_eq!(refused(counters), [reason], "{name}: {:?}", frames[1]);
        let displaced = (counters.flushed.of(Flush::Displaced), real.out.len());
        assert_eq!(displaced, (1, 2), "{name}");
    }
}

#[test]
fn a_changed_field_is_the_reason_in_every_tunnel() {
    let network: [(Change, Refusal); 2] = [
        (|frame| frame.ttl -= 1, Refusal::TimeToLive),
        (|frame| frame.tos ^= 8, Refusal::TrafficClass),
    ];
    let transport: [(Change, Refusal); 12] = [
        (|frame| frame.acknowledgment += 1, Refusal::Acknowledgment),
        (|frame| frame.window -= 1, Refusal::Window),
        (|frame| frame.urgent = 3, Refusal::Urgent),
        (|frame| frame.flags |= CWR, Refusal::Flags),
        (|frame| frame.options[11] += 1, Refusal::Options),
        (|frame| frame.options.extend([1; 4]), Refusal::Options),
        (|frame| frame.sequence -= 50, Refusal::SequenceOld),
        (|frame| frame.sequence += 50, Refusal::SequenceGap),
        // What may differ is no reason.
        (|frame| (frame.flags, frame.window) = (ACK | PSH, 3), Refusal::Window),
        (|frame| (frame.flags, frame.urgent) = (ACK | FIN, 3), Refusal::Urgent),
        (|frame| (frame.payload.truncate(50), frame.window = 3).1, Refusal::Window),
        (|frame| (frame.payload.truncate(50), frame.options[11] = 9).1, Refusal::Options),
    ];
    let plain = [("plain", Vec::new())];
    for (at, (name, _)) in plain.into_iter().chain(each_kind(0)).enumerate() {
        for (v6, protocol) in [(false, TCP), (true, TCP), (false, UDP), (true, UDP)] {
            let frame = |index| Frame {
                tunnel: at.checked_sub(1).map_or(Vec::new(), |at| each_kind(index).remove(at).1),
                options: vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
                v6,
                protocol,
                ..Frame::bulk(index, 100)
            };
            let check = |(change, reason)| check_reason(name, [frame(0), frame(1)], change, reason);
            network.into_iter().for_each(check);
            if protocol == TCP {
                transport.into_iter().for_each(check);
            }
            if !v6 {
                check((|frame| frame.flags_fragment ^= 0x4000, Refusal::DontFragment));
                check((|frame| frame.id += 1, Refusal::IpId));
            }
        }
    }
}

#[test]
fn a_changed_outer_field_is_the_reason() {
    fn outer(frame: &mut Frame, change: fn(&mut Ip)) {
        let ip = frame.tunnel.iter_mut().find_map(|wrap| match wrap {
            Wrap::Ip(ip) => Some(ip),
            _ => None,
        });
        change(ip.expect("an outer header"));
    }
    for (at, (name, wraps)) in each_kind(0).into_iter().enumerate() {
        let Some(v6) = wraps.iter().find_map(|wrap| match wrap {
            Wrap::Ip(ip) => Some(ip.v6),
            _ => None,
        }) else {
            continue;
        };
        let frame =
            |index| Frame { tunnel: each_kind(index).remove(at).1, ..Frame::bulk(index, 99) };
        let check = |(change, reason)| check_reason(name, [frame(0), frame(1)], change, reason);
        check((|frame| outer(frame, |ip| ip.ttl -= 1), Refusal::TimeToLive));
        check((|frame| outer(frame, |ip| ip.tos ^= 8), Refusal::TrafficClass));
        if !v6 {
            check((|frame| outer(frame, |ip| ip.flags_fragment ^= 0x4000), Refusal::DontFragment));
            check((|frame| outer(frame, |ip| ip.id += 9), Refusal::IpId));
        }
    }
}

#[test]
fn nothing_joins_a_packet_with_a_flag_that_ends_data() {
    for flag in [PSH, FIN, URG, RST, SYN] {
        let frames = [0, 1, 2].map(|index| Frame { flags: ACK | flag, ..Frame::bulk(index, 100) });
        for config in each_config() {
            for real in [batch_of(&config, &frames), batch_of_frames(&config, &frames)] {
                assert_eq!(groups(&real), [[0], [1], [2]], "{flag}");
                assert_eq!(real.coalescer.counters().flushed.of(Flush::EndFlag), 3, "{flag}");
            }
        }
    }
}

/// Of the deepest tunnels: no identification is left out, and no checksum.
#[test]
fn each_of_four_headers_around_data_counts() {
    for checksum in [None, Some(Field::Good)] {
        let wrap = |id| {
            let ip = Wrap::Ip(Ip { id, ..Ip::default() });
            let gre = Wrap::Gre { key: None, checksum, sequence: None };
            if checksum.is_some() { vec![ip, gre] } else { vec![ip] }
        };
        let frame = |index: usize, other: usize| {
            let id = |at: usize| (at * 50 + index + usize::from(at == other) * 9) as u16;
            let tunnel = [1, 2, 3].into_iter().flat_map(|at| wrap(id(at))).collect();
            Frame { tunnel, id: id(0), ..Frame::bulk(index, 101) }
        };
        for config in each_config() {
            assert_eq!(
                groups(&batch_of(&config, &[0, 1, 2].map(|index| frame(index, 9)))),
                [[0, 1, 2]]
            );
            for other in 0..4 {
                let real = batch_of(&config, &[frame(0, 9), frame(1, other)]);
                assert_eq!(refused(real.coalescer.counters()), [Refusal::IpId], "{other}");
            }
        }
    }
}

/// A packet that a port says to be large, or never to be merged, keeps what was said of it.
#[test]
fn what_a_port_says_of_a_packet_keeps_it_apart() {
    let gso = Gso { size: 50, segments: 2, ..Gso::default() };
    for said in
        [Meta { gso: Some(gso), ..Meta::default() }, Meta { mark: Meta::NEVER, ..Meta::default() }]
    {
        let [burst, holding] = each_config();
        for (config, len) in [(burst, 100), (holding.clone(), 100), (holding, 0)] {
            for at in 0..4 {
                let all: Vec<_> = (0..4)
                    .map(|index| {
                        let len = if index == at { len } else { 100 };
                        let frame = Frame { payload: vec![7; len], ..Frame::bulk(index, 100) };
                        let mut arrival = arrival(&frame, 0);
                        if index == at {
                            arrival.meta = said;
                        }
                        arrival
                    })
                    .collect();
                let packets = all.iter().enumerate().map(|(at, arrival)| packet(at, arrival));
                let real = batch(&config, packets);
                let own: Vec<_> =
                    real.out.iter().filter(|(packet, _)| packet.buffer().number == at).collect();
                assert_eq!(own.len(), 1);
                let (packet, exit) = own[0];
                assert_eq!(*exit, Exit::Passed(Refusal::Unmergeable), "{at} {said:?}");
                assert!(!packet.is_merged() && packet.meta == said);
            }
        }
    }
}

#[test]
fn what_a_port_takes_merges() {
    let kinds = [
        (LargePackets::TCP4, TCP, false),
        (LargePackets::TCP6, TCP, true),
        (LargePackets::UDP, UDP, false),
        (LargePackets::UDP, UDP, true),
    ];
    for (bits, (kind, protocol, v6)) in (0..16).flat_map(|bits| kinds.map(|kind| (bits, kind))) {
        for tunnelled in [false, true] {
            let frame = |index| {
                let tunnel = if tunnelled { each_kind(index).remove(2).1 } else { Vec::new() };
                Frame { tunnel, v6, protocol, ..Frame::bulk(index, 100) }
            };
            let large = LargePackets::from_bits(bits);
            let taken = large.with(kind, true).with(LargePackets::IN_TUNNELS, tunnelled) == large;
            for config in each_config() {
                let mut real = Real::new(config);
                real.coalescer.set_large(large, &mut |_, _| unreachable!("nothing is held"));
                let mut batch = Batch::new();
                for (number, arrival) in arrivals(&[frame(0), frame(1)]).iter().enumerate() {
                    batch.push(packet(number, arrival)).expect("room");
                }
                real.push_batch(&mut batch, Instant::ZERO);
                real.stop();
                let times = real.coalescer.counters().refused.of(Refusal::NotTaken);
                let expected = if taken { (1, 0) } else { (2, 2) };
                assert_eq!((real.out.len(), times), expected, "{large:?} {kind:?} {tunnelled}");
            }
        }
    }
}

/// A packet whose checksum is found wrong when another one is to join it takes no room after it has left.
#[test]
fn a_corrupt_packet_gives_its_room_back() {
    let bytes = Frame::bulk(0, 100).bytes().len();
    let limits = [(usize::MAX, 3 * bytes), (3, Config::default().max_held_bytes)];
    for (max_held_packets, max_held_bytes) in limits {
        let max_held_packets = max_held_packets.min(Config::default().max_held_packets);
        let config = Config { max_held_packets, max_held_bytes, ..Config::default() };
        let frames: Vec<Frame> = (0..12)
            .map(|index| {
                let field = if index % 3 == 0 { Field::Bad } else { Field::Good };
                let ports = (index as u16 / 3, 9);
                let flags = ACK | if index % 3 == 2 { FIN } else { 0 };
                Frame { field, ports, flags, ..Frame::bulk(index, 100) }
            })
            .collect();
        let mut real = Real::new(config);
        for (number, arrival) in arrivals(&frames).iter().enumerate() {
            real.push(number, arrival);
        }
        assert_eq!(real.coalescer.held(), 0);
        let counters = real.coalescer.counters();
        assert_eq!(refused(counters), [Refusal::Checksum; 4]);
        assert_eq!((counters.flushed.of(Flush::EndFlag), counters.flushed.total()), (4, 4));
        assert_eq!(counters.merged, 4);
    }
}

#[test]
fn flows_are_counted_by_what_made_them() {
    let frame = |port, flags, len| Frame { ports: (port, 9), flags, ..Frame::bulk(0, len) };
    let counts = |config: Config, frames: &[Frame]| {
        let mut real = Real::new(config);
        for (number, arrival) in arrivals(frames).iter().enumerate() {
            real.push(number, arrival);
        }
        let flows = real.coalescer.flows();
        let Counters { flows_on_data, flows_on_syn, flows_released, flows_evicted, .. } =
            *real.coalescer.counters();
        (flows, [flows_on_data, flows_on_syn, flows_released, flows_evicted])
    };
    let on_syn = Config { creation: Creation::OnSyn, ..Config::default() };
    let data: Vec<Frame> = (0..90).map(|port| frame(port, ACK, 10)).collect();
    assert_eq!(counts(Config::default(), &data), (90, [90, 0, 0, 0]));
    assert_eq!(counts(on_syn.clone(), &data), (0, [0; 4]));
    let small = Config { max_flows: 8, ..Config::default() };
    assert_eq!(counts(small, &data), (8, [90, 0, 0, 82]));
    // Each place that is released is the flow's own.
    let ports = 0..90;
    let opened: Vec<Frame> = ports.clone().map(|port| frame(port, SYN, 0)).collect();
    assert_eq!(counts(on_syn.clone(), &opened), (90, [0, 90, 0, 0]));
    let closed: Vec<Frame> = ports.map(|port| frame(port, FIN | ACK, 0)).collect();
    assert_eq!(counts(on_syn.clone(), &[&opened[..], &closed].concat()), (0, [0, 90, 90, 0]));
    let some = [&opened[..], &closed[..70], &data].concat();
    assert_eq!(counts(on_syn, &some), (20, [0, 90, 70, 0]));
}

/// A batch is merged without a table of flows if no limit could be reached within it.
#[test]
fn only_what_could_exceed_a_limit_is_held() {
    let config = |packets, bytes| Config {
        flush_at_batch_end: true,
        max_held_packets: packets,
        max_held_bytes: bytes,
        ..Config::default()
    };
    let flows = |config: &Config, packets: usize| {
        let frames: Vec<Frame> = (0..packets).map(|index| Frame::bulk(index, 100)).collect();
        batch_of(config, &frames).coalescer.counters().flows_on_data
    };
    for packets in [2, 7, BATCH - 1, BATCH] {
        assert_eq!(flows(&config(packets, usize::MAX), packets), 0, "{packets}");
        assert_eq!(flows(&config(100, packets << 16), packets), 0, "{packets}");
        if packets < BATCH {
            assert_eq!(flows(&config(packets, usize::MAX), packets + 1), 1, "{packets}");
            assert_eq!(flows(&config(100, ((packets + 1) << 16) - 1), packets + 1), 1, "{packets}");
        }
    }
}

#[test]
fn what_a_burst_merges_can_be_described() {
    assert_eq!(Config::burst().device, Some(Device::default()));
    assert_eq!(Config::holding().device, None);
    // In as many pieces as one call writes, with a header in front.
    assert_eq!(Config::burst().max_segments, 1_023);
}

#[test]
fn kinds_of_large_packets_are_bits() {
    let kinds = [LargePackets::TCP4, LargePackets::TCP6, LargePackets::UDP];
    for (kind, bits) in kinds.into_iter().chain([LargePackets::IN_TUNNELS]).zip([1, 2, 4, 8]) {
        assert_eq!((kind.bits(), LargePackets::from_bits(bits)), (bits, kind));
        assert_eq!(LargePackets::NONE.with(kind, true), kind);
        assert_eq!(LargePackets::UDP.with(kind, false), LargePackets::UDP);
        assert_eq!(LargePackets::UDP.with(kind, true).bits(), 4 | bits);
    }
    // Those that are not known yet are ignored.
    for bits in 0..=u8::MAX {
        assert_eq!(LargePackets::from_bits(bits).bits(), bits & 15);
    }
}

/// Also where flows take turns, and all packets of one are said to be so.
#[test]
fn what_is_never_to_be_merged_is_not_whatever_comes_behind_it() {
    let gso = Gso { size: 50, segments: 2, ..Gso::default() };
    for said in
        [Meta { gso: Some(gso), ..Meta::default() }, Meta { mark: Meta::NEVER, ..Meta::default() }]
    {
        for config in each_config() {
            for marked in [&[0, 2, 4][..], &[0], &[2]] {
                let of = |index: usize| {
                    let frame =
                        Frame { ports: (index as u16 % 2, 9), ..Frame::bulk(index / 2, 100) };
                    let meta = if marked.contains(&index) { said } else { Meta::default() };
                    packet(index, &Arrival { meta, ..arrival(&frame, 0) })
                };
                let real = batch(&config, (0..6).map(of));
                for (packet, exit) in &real.out {
                    let is_marked = marked.contains(&packet.buffer().number);
                    let passed = *exit == Exit::Passed(Refusal::Unmergeable);
                    assert!(is_marked || !passed, "{exit:?}");
                    assert!(!is_marked || !packet.is_merged() && packet.meta == said);
                    let others = packet.chain().iter().map(|piece| piece.buffer().number);
                    assert!(!others.into_iter().any(|number| marked.contains(&number)));
                }
                assert!(groups(&real).contains(&vec![1, 3, 5]));
            }
        }
    }
}

/// Where an examined packet alone leaves.
fn examined(bytes: Vec<u8>, meta: Meta, config: &Config) -> Exit {
    let arrival = Arrival { bytes, meta, ..arrival(&Frame::bulk(0, 1), 0) };
    let mut real = Real::new(Config { verify_alone: true, max_tunnels: 3, ..config.clone() });
    real.push(0, &arrival);
    real.stop();
    real.out[0].1
}

/// Also those of headers around, and of segments that begin at odd places.
#[test]
fn checksums_of_merged_packets_are_right_in_every_tunnel() {
    for (at, (name, _)) in [("plain", Vec::new())].into_iter().chain(each_kind(0)).enumerate() {
        for (v6, protocol) in [(false, TCP), (true, TCP), (false, UDP), (true, UDP)] {
            for (len, count) in [(100, 2), (101, 2), (101, 5), (201, 6)] {
                let frame = |index| Frame {
                    tunnel: at
                        .checked_sub(1)
                        .map_or(Vec::new(), |at| each_kind(index).remove(at).1),
                    v6,
                    protocol,
                    ..Frame::bulk(index, len)
                };
                let frames: Vec<Frame> = (0..count).map(frame).collect();
                for config in each_config() {
                    let real = batch_of(&config, &frames);
                    assert_eq!(real.out.len(), 1, "{name}");
                    let exit = examined(whole(&real.out[0].0), Meta::default(), &config);
                    let right = matches!(exit, Exit::Flushed(_));
                    assert!(right, "{name} v6 {v6} {protocol} {len} {count}: {exit:?}");
                }
            }
        }
    }
}

#[test]
fn an_unusual_checksum_is_found_in_every_tunnel() {
    for (at, (name, _)) in each_kind(0).into_iter().enumerate() {
        let frame = |ip_field| {
            let frame =
                Frame { tunnel: each_kind(0).remove(at).1, ip_field, ..Frame::bulk(0, 100) };
            examined(frame.bytes(), Meta::default(), &Config::default())
        };
        assert_eq!(frame(IpField::Good), Exit::Flushed(Flush::Stop), "{name}");
        assert_eq!(frame(IpField::Ones), Exit::Passed(Refusal::UnusualChecksum), "{name}");
    }
}

#[test]
fn a_checksum_that_is_to_be_completed_is_that_of_the_pseudo_header() {
    let exit = |field, checksum| {
        let frame = Frame { field, ..Frame::bulk(0, 100) };
        examined(frame.bytes(), Meta { checksum, ..Meta::default() }, &Config::default())
    };
    let held = Exit::Flushed(Flush::Stop);
    assert_eq!(exit(Field::Partial, ChecksumState::Partial), held);
    assert_eq!(exit(Field::Good, ChecksumState::Partial), Exit::Passed(Refusal::Checksum));
    assert_eq!(exit(Field::Good, ChecksumState::Unknown), held);
    let partial = Exit::Passed(Refusal::PartialChecksum);
    assert_eq!(exit(Field::Partial, ChecksumState::Unknown), partial);
}

#[test]
fn a_packet_of_exactly_the_bytes_that_may_be_held_is_held() {
    let bytes = Frame::bulk(0, 100).bytes();
    for (less, exit) in [(0, Exit::Flushed(Flush::Stop)), (1, Exit::Passed(Refusal::TooLarge))] {
        let config = Config { max_held_bytes: bytes.len() - less, ..Config::default() };
        assert_eq!(examined(bytes.clone(), Meta::default(), &config), exit);
    }
}

/// A packet that takes the place of others, for a reason that shows only when it is examined.
#[test]
fn nothing_joins_a_packet_that_ends_its_flow_and_did_not_join() {
    for flags in [ACK | PSH, ACK] {
        let frame = |index: usize| {
            let id = if index == 0 { 0 } else { 76 + index as u16 };
            let flags = if index == 1 { flags } else { ACK };
            Frame { id, flags, ..Frame::bulk(index, 100) }
        };
        let frames = [0, 1, 2].map(frame);
        for config in each_config() {
            let groups = groups(&batch_of(&config, &frames));
            let expected = if flags == ACK {
                vec![vec![0], vec![1, 2]]
            } else {
                vec![vec![0], vec![1], vec![2]]
            };
            assert_eq!(groups, expected);
        }
    }
}

/// Whether identifications stand still is decided by the second packet, also for a run that comes later.
#[test]
fn identifications_go_on_in_the_next_batch_as_they_began() {
    for (ids, expected) in [
        ([9, 10, 9, 9, 9], vec![vec![0, 1], vec![2, 3, 4]]),
        ([9, 10, 10, 10, 10], vec![vec![0, 1], vec![2, 3, 4]]),
        ([9, 9, 11, 12, 13], vec![vec![0, 1], vec![2, 3, 4]]),
        ([9, 9, 10, 11, 12], vec![vec![0, 1], vec![2, 3, 4]]),
        ([9, 9, 9, 9, 9], vec![vec![0, 1, 2, 3, 4]]),
        ([9, 10, 11, 12, 13], vec![vec![0, 1, 2, 3, 4]]),
    ] {
        for (protocol, outer) in [(TCP, false), (UDP, false), (TCP, true)] {
            let frame = |index: usize| {
                let (id, frame) = (ids[index], Frame { protocol, ..Frame::bulk(index, 100) });
                let tunnel = vec![Wrap::Ip(Ip { id, ..Ip::default() })];
                if outer { Frame { tunnel, ..frame } } else { Frame { id, ..frame } }
            };
            let all = arrivals(&[0, 1, 2, 3, 4].map(frame));
            let mut real = Real::new(Config::default());
            let (alone, together) = all.split_at(2);
            alone.iter().enumerate().for_each(|(number, arrival)| real.push(number, arrival));
            let mut batch = Batch::new();
            for (arrival, number) in together.iter().zip(2..) {
                batch.push(packet(number, arrival)).expect("room");
            }
            real.push_batch(&mut batch, Instant::ZERO);
            real.stop();
            check_all(&real, &all);
            assert_eq!(groups(&real), expected, "{ids:?}");
        }
    }
}

#[test]
fn what_shows_no_flow_says_why() {
    let options = Frame { ip_options: vec![1; 4], ..Frame::bulk(0, 100) };
    let long = vec![(60, [vec![29], vec![1, 4, 0, 0, 0, 0], vec![0; 232]].concat()); 2];
    let long = Frame { v6: true, extensions: long, ..Frame::bulk(0, 100) };
    for (frame, reason) in [(options, Refusal::IpOptions), (long, Refusal::HeaderTooLong)] {
        for config in each_config() {
            let frames = core::array::from_ref(&frame);
            for real in [batch_of(&config, frames), batch_of_frames(&config, frames)] {
                assert_eq!(real.out[0].1, Exit::Passed(reason));
            }
        }
    }
}

#[test]
fn headers_of_320_bytes_merge_and_longer_ones_do_not() {
    for (len, count) in [(264, 1), (272, 1), (280, 2)] {
        // Options for the destination that are padding, in front of UDP over IPv6.
        let behind = [vec![(len / 8 - 1) as u8, 1, 4], vec![0; len - 4]].concat();
        let frame = |index| Frame {
            link: LinkType::Raw,
            v6: true,
            extensions: vec![(60, behind.clone())],
            ..Frame::udp(index, 100)
        };
        let frames = [0, 1].map(frame);
        assert_eq!(frames[0].bytes().len(), 40 + len + 8 + 100);
        for config in each_config() {
            for real in [batch_of(&config, &frames), batch_of_frames(&config, &frames)] {
                assert_eq!(real.out.len(), count, "{len}");
            }
        }
    }
}

#[test]
fn what_does_not_join_in_a_batch_is_not_verified() {
    let frame = |index, field| Frame { field, ..Frame::bulk(index, 100) };
    let (good, bad) = (|index| frame(index, Field::Good), |index| frame(index, Field::Bad));
    for (frames, reason) in [
        ([good(0), bad(2)], Refusal::SequenceGap),
        ([bad(0), good(2)], Refusal::SequenceGap),
        ([good(2), bad(1)], Refusal::SequenceOld),
        ([bad(2), good(1)], Refusal::SequenceOld),
    ] {
        for config in each_config() {
            for real in [batch_of(&config, &frames), batch_of_frames(&config, &frames)] {
                assert_eq!(refused(real.coalescer.counters()), [reason]);
            }
        }
    }
}

#[test]
fn what_is_trusted_joins_whatever_its_checksum() {
    let config = Config { checksum: ChecksumPolicy::Trust, ..Config::burst() };
    let fields = [Field::Good, Field::Bad, Field::Partial];
    for (other, field) in (0..3).flat_map(|at| fields.map(|field| (at, field))) {
        let mut merger = Merger::new(LinkType::Ethernet, config.clone());
        let field = |index| if index == other { field } else { Field::Good };
        let frame = |index| Frame { field: field(index), ..Frame::bulk(index, 100) }.bytes();
        let mut buffer = [0, 1, 2].map(frame).concat();
        let size = buffer.len() / 3;
        let ranges = [0, 1, 2].map(|index| index * size..(index + 1) * size);
        let mut packets = Vec::new();
        merger
            .merge_burst(&mut buffer, ranges, &mut |merged| packets.push(merged.packets))
            .expect("inside");
        assert_eq!(packets, [3]);
    }
}

/// Of data that is due, that whose deadline was first leaves first: the end of its budget, or its idle time.
#[test]
fn what_was_due_first_leaves_first() {
    let us = |us: u64| Duration::from_micros(us);
    let config = Config { hold_budget: us(1_000), idle_floor: us(20), ..Config::default() };
    for (idle_from, expected) in [(900, [vec![1, 2], vec![0]]), (960, [vec![0], vec![1, 2]])] {
        let of = |port, index| Frame { ports: (port, 9), ..Frame::bulk(index, 100) };
        let at = |frame: &Frame, us: u64| arrival(frame, us * 1_000);
        let all = [at(&of(1, 0), 0), at(&of(2, 0), idle_from), at(&of(2, 1), idle_from + 5)];
        let mut real = Real::new(config.clone());
        all.iter().enumerate().for_each(|(number, arrival)| real.push(number, arrival));
        real.advance(Instant::from_ns(2_000_000));
        assert_eq!(groups(&real), expected);
    }
}

/// A packet that does not move the deadline of what it joins does not put that behind others either.
#[test]
fn of_what_is_due_at_once_the_first_leaves_first() {
    let of = |port, index| arrival(&Frame { ports: (port, 9), ..Frame::bulk(index, 100) }, 0);
    let mut real = Real::new(Config::default());
    let all = [of(1, 0), of(1, 1), of(2, 0), of(2, 1), of(1, 2)];
    all.iter().enumerate().for_each(|(number, arrival)| real.push(number, arrival));
    real.advance(Instant::from_ns(20_000));
    assert_eq!(groups(&real), [vec![0, 1, 4], vec![2, 3]]);
}

#[test]
fn kinds_of_checksums_do_not_mix() {
    use ChecksumState::{Partial, Unknown};
    let plain = |field, checksum| (Frame { field, ..Frame::bulk(0, 100) }, checksum);
    let vxlan = |name| {
        let wraps = each_kind(0).into_iter().find(|(other, _)| *other == name);
        (Frame { tunnel: wraps.expect("a kind").1, ..Frame::bulk(0, 100) }, Unknown)
    };
    for [first, mut next] in [
        [plain(Field::Good, Unknown), plain(Field::Partial, Partial)],
        [plain(Field::Partial, Partial), plain(Field::Good, Unknown)],
        [vxlan("VXLAN"), vxlan("VXLAN with checksum")],
        [vxlan("VXLAN with checksum"), vxlan("VXLAN")],
    ] {
        next.0.sequence += 100;
        next.0.id += 1;
        for wrap in &mut next.0.tunnel {
            if let Wrap::Ip(ip) = wrap {
                ip.id += 1;
            }
        }
        for config in each_config() {
            let packets =
                [&first, &next].into_iter().enumerate().map(|(number, (frame, checksum))| {
                    let mut arrival = arrival(frame, 0);
                    arrival.meta.checksum = *checksum;
                    packet(number, &arrival)
                });
            let real = batch(&config, packets);
            assert_eq!(refused(real.coalescer.counters()), [Refusal::ChecksumKind]);
        }
    }
}

#[test]
fn what_a_device_could_not_restore_stays_apart() {
    let config = Config { max_tunnels: 3, ..Config::burst() };
    let padded = |index| Frame { behind: Behind::Padding, ..Frame::bulk(index, 4) };
    let reduced = |index| Frame { flags: ACK | CWR, ..Frame::bulk(index, 100) };
    for make in [padded, reduced] as [fn(usize) -> Frame; 2] {
        let frames = [0, 1, 2].map(make);
        for real in [batch_of(&config, &frames), batch_of_frames(&config, &frames)] {
            assert_eq!(groups(&real), [[0], [1], [2]]);
        }
    }
}

/// A packet without data, too.
#[test]
fn what_is_longer_than_may_be_held_says_so() {
    let frames = [0, 1].map(|index| Frame { ports: (index, 9), ..Frame::bulk(0, 0) });
    let len = frames[0].bytes().len();
    for (max_held_bytes, reason) in
        [(len - 1, Refusal::TooLarge), (len, Refusal::NoPayload), (len + 1, Refusal::NoPayload)]
    {
        let config = Config { max_held_bytes, ..Config::default() };
        for real in [batch_of(&config, &frames), batch_of_frames(&config, &frames)] {
            assert_eq!(refused(real.coalescer.counters()), [reason; 2], "{max_held_bytes}");
        }
    }
}

/// Also in the middle of a batch that simply continues.
#[test]
fn no_more_is_held_than_may_be() {
    let frames: Vec<Frame> = (0..10).map(|index| Frame::bulk(index, 100)).collect();
    let bytes = frames[0].bytes().len();
    let expected: [&[usize]; 3] = [&[0, 1, 2, 3], &[4, 5, 6, 7], &[8, 9]];
    for config in [
        Config { max_held_packets: 4, ..Config::default() },
        Config { max_held_bytes: 4 * bytes, ..Config::default() },
        Config { max_held_bytes: 5 * bytes - 1, ..Config::default() },
    ] {
        assert_eq!(groups(&batch_of(&config, &frames)), expected);
        assert_eq!(groups(&batch_of_frames(&config, &frames)), expected);
    }
}

/// Short frames with padding, without it, and long enough to need none: what has been merged is given back.
#[test]
fn padded_and_unpadded_frames_do_not_mix() {
    let frame = |kind: usize, port: u16, index: usize| {
        let (len, behind) = [
            (18, Behind::Nothing),
            (12, Behind::Nothing),
            (12, Behind::Padding),
            (12, Behind::Bytes(vec![0, 0, 0, 0, 0, 1])),
        ][kind]
            .clone();
        let frame = Frame::udp(index, len);
        Frame { ports: (port, 9), behind, ..frame }
    };
    for kinds in (0..64).map(|kinds: usize| [kinds & 3, kinds >> 2 & 3, kinds >> 4]) {
        for turns in [false, true] {
            let data = kinds.iter().enumerate().map(|(index, kind)| frame(*kind, 1, index));
            let others = (0..if turns { 3 } else { 0 }).map(|index| frame(0, 2, index));
            let mut frames: Vec<Frame> = data.chain(others).collect();
            if turns {
                frames = [0, 3, 1, 4, 2, 5].map(|at: usize| frames[at].clone()).into();
            }
            let [first, second, third] = kinds;
            // A shorter one ends the first, and one with a trailer stays alone.
            let joins = match (first, second) {
                (0 | 1, 0 | 1) => first <= second,
                (0, 2) | (2, 2) => true,
                _ => false,
            };
            let third_joins =
                joins && first == second && matches!((second, third), (0, 0..3) | (1, 1) | (2, 2));
            for config in each_config() {
                let config = Config { max_flows: 8, max_held_packets: 64, ..config };
                let reals = [batch_of(&config, &frames), batch_of_frames(&config, &frames)];
                for real in reals {
                    let place = |at: usize| if turns { 2 * at } else { at };
                    let of = groups(&real).into_iter().find(|group| group[0] == place(0));
                    let count = of.map_or(0, |group| group.len());
                    let expected = 1 + usize::from(joins) + usize::from(third_joins);
                    assert_eq!(count, expected, "{kinds:?} {turns}");
                }
            }
        }
    }
}

/// A flow that slows down so much that its idle time ends behind the budget leaves at the end of that.
#[test]
fn the_budget_ends_what_slows_down() {
    let us = |us: u64| Duration::from_micros(us);
    let config = Config { hold_budget: us(1_000), idle_floor: us(20), ..Config::default() };
    let mut real = Real::new(config);
    for (index, at) in [0, 30, 250].into_iter().enumerate() {
        real.push(index, &arrival(&Frame::bulk(index, 100), at * 1_000));
    }
    real.advance(Instant::from_ns(999_999));
    assert_eq!((real.coalescer.held(), real.out.len()), (3, 0));
    real.advance(Instant::from_ns(1_000_000));
    assert_eq!(real.out[0].1, Exit::Flushed(Flush::Budget));
    assert_eq!(groups(&real), [[0, 1, 2]]);
}

/// Less than half of the floor between packets is soon.
#[test]
fn only_flows_that_go_on_soon_are_held_beyond_a_batch() {
    let floor = 20_000;
    for (interval, held) in [(9_999, 4), (10_000, 4), (10_001, 0), (15_000, 0), (30_000, 0)] {
        let config = Config {
            flush_quiet_at_batch_end: true,
            idle_floor: Duration::from_nanos(floor),
            ..Config::default()
        };
        let mut real = Real::new(config);
        // The flow is known then, and holds nothing.
        let last = Frame { flags: ACK | PSH, ..Frame::bulk(0, 100) };
        real.push(0, &arrival(&last, 0));
        let now = Instant::from_ns(interval);
        let mut batch = Batch::new();
        let frame = arrival(&Frame::bulk(1, 100), interval);
        batch.push(packet(1, &frame)).expect("room");
        real.push_batch(&mut batch, now);
        assert_eq!(real.coalescer.held(), held / 4, "{interval}");
    }
}

/// Bytes behind the datagram of a tunnel are the reason, whether there are data or not.
#[test]
fn a_trailer_in_a_tunnel_is_the_reason_without_data_too() {
    for len in [0, 10] {
        let frame = |index| {
            let (_, mut tunnel) = each_kind(index).remove(10);
            for wrap in &mut tunnel {
                if let Wrap::Ethernet { behind, .. } = wrap {
                    behind.extend([1, 2, 3]);
                }
            }
            Frame { tunnel, ..Frame::bulk(index, len) }
        };
        for config in each_config() {
            let frames = [0, 1].map(frame);
            for real in [batch_of(&config, &frames), batch_of_frames(&config, &frames)] {
                assert_eq!(refused(real.coalescer.counters()), [Refusal::Trailer; 2]);
            }
        }
    }
}

/// Nor is it compared with what comes before, where many flows are looked up ahead.
#[test]
fn what_cannot_merge_has_one_reason() {
    // An odd secret: few flows count as many.
    let config = Config { secret: 1, ..Config::default() };
    let of = |port, index| Frame { ports: (port, 9), ..Frame::bulk(index, 100) };
    let next = of(7, 2);
    let said = Meta { mark: Meta::NEVER, ..Meta::default() };
    let held: Vec<Frame> = (0..5).map(|port| of(port, 0)).collect();
    let mut real = Real::new(config);
    for (number, arrival) in arrivals(&held).iter().enumerate() {
        real.push(number, arrival);
    }
    let mut batch = Batch::new();
    for (number, frame) in [of(7, 0), of(8, 0), next].iter().enumerate() {
        let meta = if number == 2 { said } else { Meta::default() };
        let arrival = Arrival { meta, ..arrival(frame, 0) };
        batch.push(packet(5 + number, &arrival)).expect("room");
    }
    real.push_batch(&mut batch, Instant::ZERO);
    let counters = real.coalescer.counters();
    assert_eq!(refused(counters), [Refusal::Unmergeable]);
    assert_eq!((counters.flushed.of(Flush::Bypass), counters.flushed.total()), (1, 1));
    assert_eq!(groups(&real), [[5], [7]]);
}

/// Longer than any table of what has been parsed of it.
#[test]
fn a_list_of_thousands_of_frames_is_merged() {
    let frame = |index: usize| {
        let (_, tunnel) = each_kind(index).remove(2);
        Frame { tunnel, ..Frame::bulk(index, 10) }
    };
    let frames: Vec<Frame> = (0..4_500).map(frame).collect();
    let config = Config { flush_at_batch_end: false, ..Config::default() };
    let real = batch_of_frames(&config, &frames);
    let counters = real.coalescer.counters();
    assert_eq!((counters.packets_out, counters.refused.total()), (5, 4));
}
