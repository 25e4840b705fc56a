//! Active acknowledgment, rule by rule, and with a whole connection around it.

use linecard::offload::active_ack::{ActiveAck, Answer, Config, Mode, Reply, Silence};
use linecard::packet::{Batch, Layout, LinkType, Meta, Packet, Pool, PoolBuffer};
use linecard::rng::Rng;
use linecard::stage::Stage;
use linecard::stages;
use linecard::time::Instant;
use linecard_testkit::packets::connection::{Run, SCALE, Setting, run};
use linecard_testkit::packets::frame::{ACK, ECE, FIN, Field, Frame, RST, SYN, URG, be16, be32};
use linecard_testkit::packets::{between, for_seeds, is_whole};

/// The `index`th packet of data: 1,000 bytes each.
fn data(index: usize) -> Frame {
    Frame { acknowledgment: 501, options: timestamps(70, 7), ..Frame::bulk(index, 1_000) }
}

/// The receiver's acknowledgment of this many of them.
fn ack(count: u32, window: u16) -> Frame {
    Frame {
        source: 2,
        destination: 1,
        mac: 9,
        ports: (2_000, 1_000),
        sequence: 501,
        acknowledgment: 1 + 1_000 * count,
        window,
        options: timestamps(9, 70),
        payload: Vec::new(),
        ..Frame::default()
    }
}

fn timestamps(value: u32, echo: u32) -> Vec<u8> {
    [&[1, 1, 8, 10][..], &value.to_be_bytes(), &echo.to_be_bytes()].concat()
}

fn scaled(scale: u8) -> Vec<u8> {
    vec![1, 3, 3, scale]
}

fn packet(frame: &Frame) -> Packet<Vec<u8>> {
    Packet::new(frame.bytes(), frame.link, Meta::default())
}

fn each() -> Config {
    Config { every: 1, ..Config::default() }
}

fn give(active: &mut ActiveAck, frame: &Frame) -> Result<Reply, Silence> {
    active.data(&mut packet(frame), true)
}

fn back(active: &mut ActiveAck, frame: &Frame) -> Answer {
    active.answer(&mut packet(frame))
}

/// A connection whose SYNs said these scales, and whose receiver has this window.
fn connected(config: Config, scales: [Vec<u8>; 2], window: u16) -> ActiveAck {
    let mut active = ActiveAck::new(LinkType::Ethernet, config);
    let [sender, receiver] = scales;
    let payload = Vec::new;
    let syn = Frame { sequence: 0, flags: SYN, options: sender, payload: payload(), ..data(0) };
    assert_eq!(give(&mut active, &syn).err(), Some(Silence::Control));
    let answer = Frame { sequence: 500, flags: SYN | ACK, options: receiver, ..ack(0, window) };
    assert_eq!(back(&mut active, &answer), Answer::Passed);
    assert_eq!(back(&mut active, &ack(0, window)), Answer::Passed);
    active
}

fn usual(config: Config) -> ActiveAck {
    connected(config, [scaled(2), scaled(SCALE)], 500)
}

/// Number and window of a reply.
fn said(reply: &Reply) -> (u32, u16) {
    let at = Layout::parse(LinkType::Ethernet, reply.as_ref()).transport().expect("TCP").offset;
    (be32(reply.as_ref(), usize::from(at) + 8), be16(reply.as_ref(), usize::from(at) + 14))
}

#[test]
fn an_answer_is_what_the_receiver_would_send() {
    for v6 in [false, true] {
        let [two, three] = [[0x81, 0, 0, 5], [0x88, 0xA8, 0, 6]];
        for tags in [vec![], vec![two], vec![two, three]] {
            let dress = |frame: Frame| Frame { v6, tags: tags.clone(), tos: 0xB9, ..frame };
            let mut active = ActiveAck::new(LinkType::Ethernet, each());
            let syn =
                Frame { sequence: 0, flags: SYN, options: scaled(2), payload: vec![], ..data(0) };
            let _control = give(&mut active, &dress(syn));
            let answer =
                Frame { flags: SYN | ACK, sequence: 500, options: scaled(SCALE), ..ack(0, 500) };
            back(&mut active, &dress(answer));
            back(&mut active, &dress(ack(0, 500)));
            let reply = give(&mut active, &dress(data(0))).expect("an answer");
            // 500 << 7 is 64,000; 63,000 are left, and 492 << 7 is 62,976.
            let expected = Frame { tos: 0xB8, label: 0, ttl: 64, window: 492, ..dress(ack(1, 0)) };
            let mut expected = expected.bytes();
            // The MAC addresses of the data, exchanged.
            expected[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9]);
            assert_eq!(reply.as_ref(), expected, "{v6} {tags:?}");
        }
    }
}

#[test]
fn without_timestamps_there_are_none_in_the_answer() {
    let mut active = usual(each());
    let reply = give(&mut active, &Frame { options: vec![], ..data(0) }).expect("an answer");
    assert_eq!(reply.as_ref().len(), 14 + 20 + 20);
}

#[test]
fn one_in_so_many_is_answered() {
    let mut active = usual(Config { every: 3, ..Config::default() });
    let answers: Vec<bool> = (0..7).map(|index| give(&mut active, &data(index)).is_ok()).collect();
    assert_eq!(answers, [false, false, true, false, false, true, false]);
    assert_eq!(active.counters().silent.of(Silence::NotYet), 5);
}

#[test]
fn a_gap_is_never_acknowledged() {
    let mut active = usual(each());
    assert!(give(&mut active, &data(0)).is_ok());
    for index in [2, 3, 0] {
        assert_eq!(give(&mut active, &data(index)).err(), Some(Silence::NothingNew));
    }
    // The data that fills it releases the data behind it.
    assert_eq!(said(&give(&mut active, &data(1)).expect("an answer")).0, 4_001);
    // A connection that began unseen: complete is what the receiver says.
    let mut active = ActiveAck::new(LinkType::Ethernet, Config { mode: Mode::Paper, ..each() });
    assert_eq!(give(&mut active, &data(5)).err(), Some(Silence::Unknown));
    back(&mut active, &ack(4, 500));
    assert_eq!(give(&mut active, &data(5)).err(), Some(Silence::NothingNew));
    back(&mut active, &ack(5, 500));
    let reply = give(&mut active, &data(6)).expect("an answer");
    assert_eq!(said(&reply), (7_001, 0xFFFF));
}

#[test]
fn what_cannot_be_vouched_for_or_answered_is_not() {
    let cases = [
        (Frame { field: Field::Bad, ..data(0) }, Silence::Checksum),
        (Frame { flags: ACK | FIN, ..data(0) }, Silence::Control),
        (Frame { flags: ACK | URG, ..data(0) }, Silence::Control),
        (Frame { payload: vec![], ..data(0) }, Silence::NoData),
        (Frame { tos: 3, ..data(0) }, Silence::Congestion),
        (Frame { ip_options: vec![1; 4], ..data(0) }, Silence::NotPlain),
        (Frame { flags_fragment: 0x2000, ..data(0) }, Silence::NotPlain),
        (Frame { ports: (1, 2), ..data(0) }, Silence::Unknown),
        (Frame { tags: vec![[0x81, 0, 0, 9]], ..data(0) }, Silence::Unknown),
        (Frame::udp(0, 9), Silence::NotPlain),
    ];
    for (frame, why) in cases {
        let mut active = usual(each());
        let before = active.counters().silent.of(why);
        assert_eq!(give(&mut active, &frame).err(), Some(why), "{frame:?}");
        assert_eq!((active.counters().sent, active.counters().silent.of(why)), (0, before + 1));
    }
    let mut active = usual(each());
    assert_eq!(active.data(&mut packet(&data(0)), false).err(), Some(Silence::NoBuffer));
    assert!(give(&mut active, &data(1)).is_ok(), "nothing was said, so the next says it");
    give(&mut active, &Frame { flags: RST, payload: vec![], ..data(2) }).expect_err("control");
    assert_eq!(active.connections(), 0);
}

/// The receiver has to acknowledge by itself, and as long as it does, nothing is sent on its behalf.
#[test]
fn congestion_is_not_spoken_over() {
    let mut active = usual(each());
    assert_eq!(give(&mut active, &Frame { tos: 3, ..data(0) }).err(), Some(Silence::Congestion));
    assert_eq!(give(&mut active, &data(1)).err(), Some(Silence::Congestion));
    assert_eq!(back(&mut active, &Frame { flags: ACK | ECE, ..ack(2, 500) }), Answer::Passed);
    assert_eq!(give(&mut active, &data(2)).err(), Some(Silence::Congestion));
    assert_eq!(back(&mut active, &ack(3, 500)), Answer::Passed);
    assert!(give(&mut active, &data(3)).is_ok());
}

#[test]
fn the_window_is_never_more_than_the_receivers() {
    // Edges as the receiver sets them, with and without scale.
    for (scales, shift) in [
        ([scaled(2), scaled(3)], 3),
        ([scaled(2), scaled(0)], 0),
        ([vec![], scaled(3)], 0),
        ([scaled(2), vec![]], 0),
        ([scaled(9), scaled(200)], 14),
    ] {
        let window = 40_000 >> shift;
        let mut active = connected(each(), scales, window);
        let mut edge = 1 + (u32::from(window) << shift);
        for index in 0..60 {
            if let Ok(reply) = give(&mut active, &data(index)) {
                let (number, window) = said(&reply);
                let end = number + (u32::from(window) << shift);
                assert!(end <= edge, "{end} promised, {edge} allowed");
                assert!(u32::from(window) << shift >= 1_000, "a silly window");
            }
            if index == 49 {
                back(&mut active, &ack(45, window));
                edge = edge.max(45_001 + (u32::from(window) << shift));
            }
        }
        let silent = active.counters().silent.of(Silence::Window);
        assert!(silent >= 10 && active.counters().sent >= 15, "{shift}: {silent}");
    }
}

#[test]
fn without_the_syns_only_the_paper_speaks() {
    for (mode, expected) in [(Mode::WindowHonest, Some(Silence::NoScale)), (Mode::Paper, None)] {
        let mut active = ActiveAck::new(LinkType::Ethernet, Config { mode, ..each() });
        assert_eq!(back(&mut active, &ack(0, 500)), Answer::Passed);
        assert_eq!(give(&mut active, &data(0)).err(), expected);
        assert_eq!(back(&mut active, &ack(1, 500)), Answer::Passed);
    }
}

#[test]
fn how_far_ahead_is_bounded() {
    let mut active = usual(Config { max_ahead: 3_000, ..each() });
    let answers: Vec<_> = (0..5).map(|index| give(&mut active, &data(index)).err()).collect();
    let ahead = Some(Silence::Ahead);
    assert_eq!(answers, [None, None, None, ahead, ahead]);
    assert_eq!(active.counters().ahead.max(), 3_000);
    back(&mut active, &ack(4, 500));
    assert!(give(&mut active, &data(5)).is_ok());
}

#[test]
fn what_has_been_said_is_not_said_again() {
    let mut active = usual(each());
    (0..8).for_each(|index| assert!(give(&mut active, &data(index)).is_ok()));
    // 500 << 7 from byte 1 on ends at 64,001; at 2,001 that are 484 (61,952 bytes).
    let (suppressed, raised, passed) = (Answer::Suppressed, Answer::Raised, Answer::Passed);
    assert_eq!(back(&mut active, &ack(2, 484)), suppressed, "the same edge");
    assert_eq!(back(&mut active, &ack(2, 484)), passed, "a real duplicate");
    // The edge moves: the sender has to know, and it ignores older numbers.
    let mut moved = packet(&ack(3, 600));
    assert_eq!(active.answer(&mut moved), raised);
    let window = (((600_u32 << 7) - 5_000) >> 7) as u16;
    let expected = Frame { acknowledgment: 8_001, window, ..ack(3, 0) };
    assert_eq!(moved.bytes(), expected.bytes());
    // The same edge at the number that the sender knows, and beyond it.
    assert_eq!(back(&mut active, &ack(8, window)), suppressed);
    assert_eq!(back(&mut active, &ack(8, window + 9)), passed, "a window update");
    assert_eq!(back(&mut active, &ack(9, window)), passed, "news");
    let counters = active.counters();
    assert_eq!((counters.answers.of(suppressed), counters.answers.of(raised)), (2, 1));
    assert_eq!(counters.answers_in, counters.answers.total());
}

#[test]
fn answers_that_say_more_pass() {
    let sack = [&[1, 1, 5, 10][..], &[0; 8]].concat();
    for frame in [
        Frame { flags: ACK | ECE, ..ack(1, 492) },
        Frame { flags: ACK | FIN, ..ack(1, 492) },
        Frame { payload: vec![1; 9], ..ack(1, 492) },
        Frame { options: sack, ..ack(1, 492) },
        Frame { field: Field::Bad, ..ack(1, 492) },
    ] {
        let mut active = usual(each());
        assert!(give(&mut active, &data(0)).is_ok());
        let mut given = packet(&frame);
        assert_eq!(active.answer(&mut given), Answer::Passed, "{frame:?}");
        assert_eq!(given.bytes(), frame.bytes());
    }
}

#[test]
fn connections_are_bounded_and_the_longest_unused_goes() {
    let mut active = ActiveAck::new(LinkType::Ethernet, Config { max_connections: 8, ..each() });
    for port in 0..100 {
        back(&mut active, &Frame { ports: (2_000, port), ..ack(0, 500) });
        assert!(active.connections() <= 8);
    }
    assert_eq!(active.counters().connections_evicted, 92);
}

#[test]
fn the_stage_takes_both_directions() {
    const HOST: u32 = 3;
    let pool = Pool::new(100, 1_200);
    let mut stage = stages::ActiveAck::new(LinkType::Ethernet, HOST, pool.clone(), each());
    let (mut input, mut output) = (Batch::<PoolBuffer>::new(), Batch::new());
    let syn = Frame { sequence: 0, flags: SYN, options: scaled(2), payload: vec![], ..data(0) };
    let answer = Frame { sequence: 500, flags: SYN | ACK, options: scaled(SCALE), ..ack(0, 500) };
    let frames = [(0, syn), (HOST, answer), (HOST, ack(0, 500)), (0, data(0)), (HOST, ack(1, 492))];
    for (lane, frame) in frames {
        let (bytes, mut buffer) = (frame.bytes(), pool.take().expect("a buffer"));
        buffer.as_mut()[..bytes.len()].copy_from_slice(&bytes);
        buffer.truncate(bytes.len());
        let meta = Meta { lane, ..Meta::default() };
        assert!(input.push(Packet::new(buffer, LinkType::Ethernet, meta)).is_ok());
    }
    stage.process(&mut input, Instant::ZERO, &mut output);
    let lanes: Vec<u32> = output.iter().map(|packet| packet.meta.lane).collect();
    // The data comes before its answer; the receiver's own, which says the same, is gone.
    assert_eq!(lanes, [0, HOST, HOST, 0, HOST]);
    let mut shown = Vec::new();
    Stage::counters(&stage, &mut |name, value| shown.push((name, value)));
    assert!(shown.contains(&("sent", 1)) && shown.contains(&("suppressed", 1)), "{shown:?}");
}

fn with(active: Option<Config>) -> Setting {
    Setting { active, ..Setting::default() }
}

fn paper() -> Option<Config> {
    Some(Config { mode: Mode::Paper, every: 1, ..Config::default() })
}

fn line(what: &str, run: &Run) -> String {
    let counters = run.active.as_ref().map(ActiveAck::counters);
    format!(
        "{what:<34} {:>8} µs, {:>5.2} merged, {:>4} acks seen, {} sent, {} raised, {} suppressed",
        run.done_ns.map_or(0, |ns| ns / 1_000),
        run.coalescer.counters().mean_aggregate(),
        run.sender.acks,
        counters.map_or(0, |c| c.sent),
        counters.map_or(0, |c| c.answers.of(Answer::Raised)),
        counters.map_or(0, |c| c.answers.of(Answer::Suppressed)),
    )
}

/// The paper's point: a sender with 16 KiB outstanding, before a coalescer that holds 64 KiB, waits
/// for the timer with every window; answered on the receiver's behalf it does not.
#[test]
fn a_sender_does_not_wait_for_what_is_held() {
    let plain = run(with(None));
    let honest = run(with(Some(Config::default())));
    let paper = run(with(paper()));
    [("alone", &plain), ("window-honest", &honest), ("paper", &paper)]
        .iter()
        .for_each(|(what, run)| println!("{}", line(what, run)));
    let windows = (1 << 20) / (16 << 10);
    assert!(plain.done_ns.expect("done") > windows * 10_000_000, "each window waits for the timer");
    // The window of a SYN is not scaled: less than 64 KiB, for which the timer is waited for once.
    for run in [&honest, &paper] {
        assert!(run.done_ns.expect("done") < 20_000_000);
        assert_eq!((run.sender.fast_retransmits, run.sender.timeouts), (0, 0));
        assert!(run.coalescer.counters().mean_aggregate() > 30.0);
        assert_eq!(run.receiver.received, 1 << 20);
    }
}

/// No spurious fast retransmit, whatever comes back later: three duplicates never come together
/// when nothing is lost.
#[test]
fn the_receivers_own_acknowledgments_are_no_duplicates() {
    for mode in [Mode::WindowHonest, Mode::Paper] {
        for every in [1, 2, 4] {
            // (Four packets are never outstanding in 4,000 bytes, and so not answered.)
            for outstanding in [4_000, 16 << 10, 60_000, 120_000] {
                let active = Some(Config { mode, every, ..Config::default() });
                let run = run(Setting { outstanding, swap: Some(7), ..with(active) });
                let what = format!("{mode:?}, every {every}, {outstanding} B");
                println!("{}", line(&what, &run));
                assert!(run.done_ns.is_some(), "{what}");
                assert_eq!((run.sender.fast_retransmits, run.sender.timeouts), (0, 0), "{what}");
                let most = if mode == Mode::Paper { 1 } else { 0 };
                assert!(run.sender.most_duplicates <= most, "{what}");
                assert!(
                    run.sender.edge <= 1 + run.receiver.received + (1 << 20) || mode == Mode::Paper
                );
            }
        }
    }
}

/// Packets that the network loses are retransmitted, as the receiver requests.
#[test]
fn losses_are_repaired_by_the_receiver() {
    for mode in [None, Some(Mode::WindowHonest), Some(Mode::Paper)] {
        let active = mode.map(|mode| Config { mode, ..Config::default() });
        let lost = vec![100, 400, 401];
        let run = run(Setting { lost, outstanding: 120_000, ..with(active) });
        println!("{}", line(&format!("{mode:?}, three lost"), &run));
        assert!(run.done_ns.is_some());
        assert_eq!(run.receiver.received, 1 << 20);
        assert!(run.sender.fast_retransmits + run.sender.timeouts <= 3);
    }
}

/// A receiver that reads slowly is never sent more than it has room for, and its window updates
/// reach the sender although their numbers are old.
#[test]
fn a_slow_receiver_is_not_overrun_unless_the_paper_is_followed() {
    let slow = |active| Setting {
        buffer: 100 << 10,
        reads: 20 << 10,
        outstanding: 1 << 20,
        ..with(active)
    };
    let honest = run(slow(Some(Config::default())));
    println!("{}", line("window-honest, slow receiver", &honest));
    assert!(honest.done_ns.is_some(), "the window opened and nobody said so");
    assert_eq!((honest.receiver.overrun, honest.sender.fast_retransmits), (0, 0));
    assert_eq!(honest.sender.timeouts, 0);
    assert!(honest.active.expect("asked for").counters().answers.of(Answer::Raised) > 0);
    // The paper's window makes the sender send what nobody has room for, and what was acknowledged
    // is not sent again.
    let paper = run(slow(paper()));
    println!("{}", line("paper, slow receiver", &paper));
    assert!(paper.receiver.overrun > 0 && paper.receiver.received < 1 << 20);
    assert!(paper.done_ns.is_none() || paper.receiver.received < 1 << 20, "bytes are lost");
}

/// A box that was not there when the connection began stays silent, and does no harm.
#[test]
fn an_unseen_beginning_keeps_it_silent() {
    let run = run(Setting { late: true, bytes: 200_000, ..with(Some(Config::default())) });
    assert!(run.done_ns.is_some());
    let counters = run.active.as_ref().expect("asked for").counters();
    assert_eq!(counters.sent, 0);
    assert!(counters.silent.of(Silence::NoScale) > 0);
    assert_eq!(counters.answers.of(Answer::Passed), counters.answers_in);
}

/// Promise (Offloads): Active ACK acknowledges no gap, advertises no window beyond the receiver's
/// and sends no duplicate: 15,794 acknowledgments in the mode `WindowHonest`.
///
/// Any data in any order and any answers: nothing is acknowledged that has not gone by, no number
/// is said twice, no window reaches beyond the receiver's, and nobody is farther ahead than allowed.
#[test]
fn nothing_is_said_that_is_not_so() {
    let mut sent = 0;
    for_seeds(&[], 1, 300, |seed| {
        let rng = &mut Rng::new(seed);
        let max_ahead = between(rng, 2_000, 60_000) as u32;
        let every = between(rng, 1, 3) as u32;
        let mut active = usual(Config { max_ahead, every, ..Config::default() });
        // Bytes that have gone by, from the number 1 on, in steps of 100; the receiver has read all
        // up to `real`, and its window ends at `edge`.
        let (mut gone, mut told, mut next) = (vec![false; 3_000], 1, 0);
        let (mut real, mut edge) = (0, 1 + (500 << SCALE));
        for _ in 0..400 {
            let complete = gone.iter().position(|gone| !gone).unwrap_or(gone.len());
            if rng.chance(0.2) {
                real = between(rng, real as u64, complete as u64) as usize;
                let window = between(rng, 0, 600) as u16;
                let number = 1 + 100 * real as u32;
                let _any = back(&mut active, &Frame { acknowledgment: number, ..ack(0, window) });
                (edge, told) = (number + (u32::from(window) << SCALE), told.max(number));
                continue;
            }
            let at = match rng.below(10) {
                0 => between(rng, next as u64, next as u64 + 30) as usize,
                1 => between(rng, real as u64, next as u64) as usize,
                2..5 => complete,
                _ => next,
            };
            let steps = between(rng, 1, 14) as usize;
            if at + steps > gone.len() {
                break;
            }
            let payload = vec![0; 100 * steps];
            let frame = Frame { sequence: 1 + 100 * at as u32, payload, ..data(0) };
            let reply = give(&mut active, &frame);
            gone[at..at + steps].fill(true);
            next = next.max(at + steps);
            let Ok((number, window)) = reply.map(|reply| said(&reply)) else { continue };
            let complete = gone.iter().position(|gone| !gone).unwrap_or(gone.len());
            assert!(number > told && number <= 1 + 100 * complete as u32, "{number}, {told}");
            assert!(number + (u32::from(window) << SCALE) <= edge, "beyond {edge}");
            assert!(number - (1 + 100 * real as u32) <= max_ahead);
            told = number;
            sent += 1;
        }
        let counters = active.counters();
        assert_eq!(counters.data_in, counters.sent + counters.silent.total());
    });
    println!("{sent} acknowledgments sent, all of them true");
    assert!(sent > 5_000 || !is_whole());
}
