//! Packets that are predicted merge just as they do the long way: with any bit of any header
//! changed, whether they come one by one, in a batch or as frames.

use linecard::offload::coalesce::{Config, Counters, Exit, Flush, Input, Refusal};
use linecard::packet::{Batch, ChecksumState, LayerKind, LinkType, Meta, Packet};
use linecard::time::Instant;
use linecard_testkit::packets::fragments::seal;
use linecard_testkit::packets::frame::{Field, Frame, PSH, UDP, add16, put16, sum16};
use linecard_testkit::packets::plain;
use linecard_testkit::packets::runner::{Buffer, Real, packet};
use linecard_testkit::packets::traffic::Arrival;
use linecard_testkit::packets::tunnel::each_kind;
use linecard_testkit::part;

const FRAMES: usize = 6;

/// How packets come.
#[derive(Debug, Clone, Copy)]
enum Way {
    OneByOne,
    InABatch,
    InAList,
    AsFrames,
}

fn coalesce(frames: &[Vec<u8>], (link, meta): (LinkType, Meta), way: Way) -> Real {
    let mut real = Real::new(Config { max_tunnels: 3, ..Config::default() });
    let now = Instant::ZERO;
    let arrival = |bytes: &Vec<u8>| Arrival { link, bytes: bytes.clone(), meta, now };
    let packets = frames.iter().enumerate().map(|(number, frame)| packet(number, &arrival(frame)));
    let Real { coalescer, out, .. } = &mut real;
    let mut out = |packet, exit| out.push((packet, exit));
    match way {
        Way::OneByOne => packets.for_each(|packet| {
            coalescer.push(packet, now, &mut out);
        }),
        Way::InABatch => {
            let mut batch = Batch::new();
            packets.for_each(|packet| batch.push(packet).expect("fewer than 64"));
            coalescer.push_batch(&mut batch, now, &mut out);
        }
        Way::InAList => {
            let mut list: Vec<Packet<Buffer>> = packets.collect();
            coalescer.push_batch(&mut list, now, &mut out);
        }
        Way::AsFrames => {
            let mut frames: Vec<Buffer> = packets.map(|packet| packet.into_parts().0).collect();
            coalescer.push_batch(Input::Frames(&mut frames, link, meta), now, &mut out);
        }
    }
    real.stop();
    real
}

/// All ways come to the same; gives the packets that left.
fn same_all_ways(frames: &[Vec<u8>], link: LinkType, checksum: ChecksumState) -> usize {
    let meta = Meta { checksum, ..Meta::default() };
    let result = |way| {
        let real = coalesce(frames, (link, meta), way);
        (real.outs(), real.coalescer.counters().clone())
    };
    let (outs, counters) = result(Way::OneByOne);
    for way in [Way::InABatch, Way::InAList, Way::AsFrames] {
        let (others, other) = result(way);
        assert_eq!(others, outs, "{way:?}");
        let numbers = |counters: &Counters| {
            let Counters { packets_in, bytes_in, packets_out, bytes_out, passed, merged, .. } =
                *counters;
            let sums = [packets_in, bytes_in, packets_out, bytes_out, passed, merged];
            (sums, format!("{:?} {:?}", counters.refused, counters.flushed))
        };
        assert_eq!(numbers(&other), numbers(&counters), "{way:?}");
    }
    outs.len()
}

/// Changes each bit of the headers of one packet, and makes the IPv4 checksums right again or not.
fn change_every_bit(name: &str, frames: &[Frame], changed: &[usize]) {
    let link = frames[0].link;
    let whole: Vec<Vec<u8>> = frames.iter().map(Frame::bytes).collect();
    assert_eq!(same_all_ways(&whole, link, ChecksumState::Unknown), 1, "{name}");
    let view = plain::view(link, &whole[0]);
    let headers = (whole[0].len() - view.payload_len() + 1).min(whole[0].len());
    let (mut apart, mut together) = (0, 0);
    for &changed in changed {
        for bit in (0..headers * 8).step_by(part()) {
            for sealed in [false, true] {
                let mut frames = whole.clone();
                frames[changed][bit / 8] ^= 1 << (bit % 8);
                if sealed {
                    view.all(LayerKind::Ipv4).for_each(|ip| seal_whole(&mut frames[changed], ip));
                }
                for checksum in [ChecksumState::Valid, ChecksumState::Unknown] {
                    match same_all_ways(&frames, link, checksum) {
                        1 => together += 1,
                        _ => apart += 1,
                    }
                }
            }
        }
    }
    assert!(apart > together && together > 0, "{name}: {apart} apart, {together} together");
}

/// [`seal`], where the header is all there.
fn seal_whole(bytes: &mut [u8], ip: usize) {
    if ip + usize::from(bytes[ip] & 15) * 4 <= bytes.len() {
        seal(bytes, ip);
    }
}

fn row(make: impl Fn(usize) -> Frame) -> Vec<Frame> {
    (0..FRAMES).map(make).collect()
}

/// Promise (Offloads): Predicted packets merge exactly as on the long path: with each bit of the
/// headers of six consecutive packets changed, in 38 arrangements with tunnels, the packets,
/// reasons and counters are the same, one by one, in a batch, and as frames.
#[test]
fn every_bit_of_plain_headers_counts() {
    let v6 = |frame: Frame| Frame { v6: true, ..frame };
    let tagged = |frame: Frame| Frame { tags: vec![[0x81, 0, 0, 5]; 2], ..frame };
    let options = vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let stamped = |frame: Frame| Frame { options: options.clone(), ..frame };
    for len in [100, 101, 42, 20] {
        let places = if len == 100 { &[1, FRAMES / 2, FRAMES - 1][..] } else { &[FRAMES / 2] };
        change_every_bit("TCP", &row(|index| Frame::bulk(index, len)), places);
        change_every_bit("UDP", &row(|index| Frame::udp(index, len)), places);
        change_every_bit("TCP6", &row(|index| v6(Frame::bulk(index, len))), places);
        change_every_bit("UDP6", &row(|index| v6(Frame::udp(index, len))), places);
    }
    change_every_bit("stamps", &row(|index| stamped(Frame::bulk(index, 100))), &[1, FRAMES / 2]);
    change_every_bit(
        "tags",
        &row(|index| tagged(v6(stamped(Frame::bulk(index, 100))))),
        &[1, FRAMES / 2],
    );
    change_every_bit(
        "raw",
        &row(|index| Frame { link: LinkType::Raw, ..Frame::bulk(index, 100) }),
        &[1, FRAMES / 2],
    );
    change_every_bit(
        "fixed",
        &row(|index| Frame { id: 7, ..Frame::bulk(index, 100) }),
        &[1, FRAMES / 2],
    );
}

#[test]
fn every_bit_of_tunnel_headers_counts() {
    for (kind, (name, _)) in each_kind(0).into_iter().enumerate() {
        let tunnel = |index| each_kind(index)[kind].1.clone();
        let frame = |index| Frame { tunnel: tunnel(index), ..Frame::bulk(index, 100) };
        change_every_bit(name, &row(frame), &[1]);
    }
}

/// Fields that advance by steps wrap at their width.
#[test]
fn numbers_wrap() {
    for id in 0xFFF8..=u16::MAX {
        for sequence in (0..8).map(|back| (back * 100_u32).wrapping_neg()) {
            let frames = row(|index| {
                let frame = Frame::bulk(index, 100);
                Frame {
                    id: frame.id.wrapping_add(id),
                    sequence: sequence.wrapping_add(frame.sequence),
                    ..frame
                }
            });
            let frames: Vec<_> = frames.iter().map(Frame::bytes).collect();
            for checksum in [ChecksumState::Valid, ChecksumState::Unknown] {
                assert_eq!(same_all_ways(&frames, LinkType::Ethernet, checksum), 1);
            }
        }
    }
}

/// IPv4 checksums count down with identifications and pass through zero.
#[test]
fn checksums_wrap() {
    let first = Frame::bulk(0, 100).bytes();
    let checksum = u16::from_be_bytes([first[24], first[25]]);
    for back in 0..FRAMES as u16 + 2 {
        // The identification that brings the first checksum this near to 0.
        let id = checksum.wrapping_sub(back);
        let frames =
            row(|index| Frame { id: id.wrapping_add(index as u16), ..Frame::bulk(index, 100) });
        let frames: Vec<_> = frames.iter().map(Frame::bytes).collect();
        assert_eq!(same_all_ways(&frames, LinkType::Ethernet, ChecksumState::Valid), 1, "{back}");
    }
}

/// Packets whose checksums somebody has verified come in one batch with others. One of those has a
/// checksum that would be right without its pseudo header.
#[test]
fn nobody_vouches_for_others() {
    use ChecksumState::{Unknown, Valid};
    for len in [100, 20] {
        let mut frames: Vec<_> = (0..4).map(|index| Frame::bulk(index, len).bytes()).collect();
        let tcp = &mut frames[2][34..];
        put16(tcp, 16, 0);
        let sum = add16(sum16(tcp), tcp.len() as u16);
        put16(tcp, 16, !sum);
        let mut batch = Batch::new();
        let states = [Unknown, Valid, Unknown, Unknown].into_iter().enumerate();
        for ((number, checksum), bytes) in states.zip(frames) {
            let (link, now) = (LinkType::Ethernet, Instant::ZERO);
            let meta = Meta { checksum, ..Meta::default() };
            let arrival = Arrival { link, bytes, meta, now };
            batch.push(packet(number, &arrival)).expect("fewer than 64");
        }
        let mut real = Real::new(Config::default());
        real.push_batch(&mut batch, Instant::ZERO);
        real.stop();
        let outs: Vec<_> = real.outs().into_iter().map(|out| out.packets).collect();
        assert_eq!(outs, [vec![0, 1], vec![2], vec![3]], "{len}");
    }
}

/// Promise (Offloads): Nothing is verified that does not merge: with data held as in bursts, a packet that stays
/// alone leaves as it came, and a wrong checksum is found when another packet is to join (`verify_alone` looks at once).
#[test]
fn what_does_not_merge_is_not_verified() {
    use Refusal::{Checksum, SequenceGap};
    let good = |index| Frame::bulk(index, 100);
    let bad = |index| Frame { field: Field::Bad, ..good(index) };
    let (left, passed) = (Exit::Flushed(Flush::Stop), Exit::Passed(Checksum));
    let (displaced, bypass) = (Exit::Flushed(Flush::Displaced), Exit::Flushed(Flush::Bypass));
    for (frames, exits, refused) in [
        (vec![bad(0)], vec![left], [0, 0]),
        (vec![bad(0), good(2)], vec![displaced, left], [0, 1]),
        (vec![good(0), bad(2)], vec![displaced, left], [0, 1]),
        (vec![bad(0), good(1), good(2)], vec![passed, left], [1, 0]),
        (vec![bad(0), bad(1), bad(2)], vec![passed, passed, left], [2, 0]),
        (vec![good(0), bad(1), good(2)], vec![bypass, passed, left], [1, 0]),
    ] {
        let frames: Vec<_> = frames.iter().map(Frame::bytes).collect();
        for way in [Way::OneByOne, Way::InABatch, Way::InAList, Way::AsFrames] {
            let real = coalesce(&frames, (LinkType::Ethernet, Meta::default()), way);
            assert_eq!(
                real.out.iter().map(|(_, exit)| *exit).collect::<Vec<_>>(),
                exits,
                "{way:?}"
            );
            let counted =
                [Checksum, SequenceGap].map(|of| real.coalescer.counters().refused.of(of));
            assert_eq!(counted, refused, "{way:?}");
        }
    }
}

#[test]
fn ends_are_seen() {
    for at in 0..FRAMES {
        for change in [
            |frame: &mut Frame| frame.flags |= PSH,
            |frame| frame.payload.truncate(30),
            |frame| frame.payload.extend([1, 2]),
            |frame| frame.payload.clear(),
            |frame| frame.field = Field::Bad,
            |frame| frame.field = Field::ComputesToZero,
            |frame| frame.field = Field::Ones,
            |frame| frame.field = Field::Partial,
            |frame| frame.ports.1 = 4789,
            |frame| frame.source = 9,
        ] as [fn(&mut Frame); 10]
        {
            for protocol in [linecard_testkit::packets::frame::TCP, UDP] {
                let mut frames = row(|index| Frame { protocol, ..Frame::bulk(index, 100) });
                change(&mut frames[at]);
                let frames: Vec<_> = frames.iter().map(Frame::bytes).collect();
                for checksum in [ChecksumState::Valid, ChecksumState::Unknown] {
                    same_all_ways(&frames, LinkType::Ethernet, checksum);
                }
            }
        }
    }
}

/// More than the layouts that are kept, with flows that take turns and packets that are out of place.
#[test]
fn a_list_of_thousands_merges_as_one_by_one() {
    let frame = |number: usize| {
        let index = number / 8;
        let late = if index % 7 == 3 { index ^ 1 } else { index };
        Frame { ports: (number as u16 % 8, 9), ..Frame::bulk(late, 50) }.bytes()
    };
    let frames: Vec<_> = (0..5_000).map(frame).collect();
    let outs = |way| coalesce(&frames, (LinkType::Ethernet, Meta::default()), way).outs();
    let expected = outs(Way::OneByOne);
    assert!((500..4_000).contains(&expected.len()), "{}", expected.len());
    assert_eq!(outs(Way::InAList), expected);
    assert_eq!(outs(Way::AsFrames), expected);
}
