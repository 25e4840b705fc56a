//! Streams whose lateness, losses and pauses are known.

use super::*;
use crate::stream::probe::{MIN_LEN, Probe};
use alloc::vec::Vec;
use linecard::rng::Rng;

const MS: u64 = 1_000_000;
const START: u64 = 1_000_000_000_000;

fn rtp(ssrc: u8, sequence: u64, stamp: u64) -> [u8; 60] {
    let mut bytes = [0x55; 60];
    bytes[8..12].copy_from_slice(&[0, 0, 0, ssrc]);
    bytes[..2].copy_from_slice(&[0x80, 97]);
    bytes[2..4].copy_from_slice(&(sequence as u16).to_be_bytes());
    bytes[4..8].copy_from_slice(&(stamp as u32).to_be_bytes());
    bytes
}

/// A watched stream and what it told.
struct Observed {
    stream: Watched,
    events: Vec<Event>,
}

impl Observed {
    fn new() -> Self {
        Self { stream: Watched::new(MS, 5), events: Vec::new() }
    }

    fn push(&mut self, at_ns: u64, payload: &[u8]) {
        let arrival =
            Arrival { at_ns, read_ns: at_ns + 5_000, wire: None, payload, len: payload.len() };
        let _is_ours = self.stream.push(&arrival, |event| self.events.push(event));
    }

    fn look(&mut self, now_ns: u64) {
        self.stream.look(now_ns, |event| self.events.push(event));
    }

    fn late(&self) -> Vec<Episode> {
        let late = |event: &Event| match event {
            Event::Late(episode) => Some(*episode),
            _ => None,
        };
        self.events.iter().filter_map(late).collect()
    }
}

#[test]
fn known_lateness_is_found_in_spite_of_clocks_that_differ() {
    for (seed, ppm) in [(1, 0), (2, 100), (3, -100)] {
        let (mut watch, mut rng) = (Observed::new(), Rng::new(seed));
        // Sound at 48 kHz in packets of 1 ms for 100 s: past the range of its numbers. From the tenth second on, each
        // 1,000th packet is 3 ms late, and the two behind it, which wait for it, are late too.
        let mut late = 0;
        for n in 0..100_000_u64 {
            let due = n * MS;
            let due = START + due.wrapping_add_signed(due as i64 / 1_000_000 * ppm);
            let is_late = n >= 10_000 && n % 1_000 < 3;
            late += u64::from(is_late && n % 1_000 < 2);
            let delay = if is_late { 3 * MS - n % 1_000 * MS } else { rng.below(20_000) };
            watch.push(due + delay, &rtp(1, 65_000 + n, n * 48));
        }
        let content = watch.stream.content().unwrap();
        assert_eq!((content.kind, content.basis), (Kind::Audio, Some(Basis::Even)));
        let period_ns = content.period_ns.unwrap();
        assert!((period_ns - 1e6 * (1.0 + ppm as f64 / 1e6)).abs() < 2.0, "{period_ns}");
        let counts = &watch.stream.counts;
        // The third one is 1 ms late, and waits for 5 µs on top of that.
        assert!((late..=late + 90).contains(&counts.late), "{} of {late}", counts.late);
        assert_eq!((counts.packets, counts.order.lost(), counts.order.reordered), (100_000, 0, 0));
        assert!(counts.before_socket.max().abs_diff(3 * MS) < 30_000, "{:?}", counts.before_socket);
        assert!(counts.before_socket.quantile(0.99) < 40_000, "{:?}", counts.before_socket);
        assert_eq!(counts.in_socket.max(), 5_000);
        assert_eq!(watch.late().len(), 90);
        let worst = watch.stream.worst();
        assert_eq!((worst.len(), worst[0].worst.delay.waited_ns), (5, 5_000));
        let jitter = watch.stream.jitter().unwrap();
        assert_eq!(jitter.clock, 48_000);
        assert!(jitter.max_ns < 1e6, "{jitter:?}");
    }
}

#[test]
fn pictures_are_held_against_their_time_stamps() {
    let mut watch = Observed::new();
    for n in 0..40 * 60_u64 {
        let (picture, part) = (n / 4, n % 4);
        let late = if picture == 400 { 30 * MS } else { 0 };
        let at = START + picture * 40 * MS + part * 15_000 + late;
        watch.push(at, &rtp(1, n, picture * 3_600));
    }
    let content = watch.stream.content().unwrap();
    assert_eq!((content.kind, content.basis), (Kind::Rtp, Some(Basis::Rtp(90_000))));
    let late = watch.late();
    assert_eq!((late.len(), late[0].packets), (1, 1));
    assert!(late[0].worst.delay.before_ns.abs_diff(30 * MS) < 10_000, "{late:?}");
}

#[test]
fn losses_duplicates_and_order_are_those_of_the_numbers() {
    let mut watch = Observed::new();
    for n in 0..20_000_u64 {
        let at = START + n * MS;
        match n % 1_000 {
            7 => {}
            8 => {
                watch.push(at, &rtp(1, n, n * 48));
                watch.push(at + 1, &rtp(1, n, n * 48));
            }
            9 => watch.push(at, &rtp(1, n + 1, n * 48 + 48)),
            10 => watch.push(at, &rtp(1, n - 1, n * 48 - 48)),
            _ => watch.push(at, &rtp(1, n, n * 48)),
        }
    }
    let order = &watch.stream.counts.order;
    assert_eq!([order.lost(), order.duplicates, order.reordered, order.stale], [20, 20, 20, 0]);
}

#[test]
fn a_pause_is_told_and_makes_nothing_late() {
    let mut watch = Observed::new();
    for n in 0..20_000_u64 {
        let pause = if n >= 10_000 { 5_000 * MS } else { 0 };
        watch.push(START + n * MS + pause, &rtp(1, n, n * 48));
    }
    let [Event::Pause { ns, .. }] = watch.events[..] else { panic!("{:?}", watch.events) };
    assert_eq!((ns, watch.stream.counts.pauses, watch.stream.counts.late), (5_001 * MS, 1, 0));
    // Rates of other time stamps are not jitter, either.
    assert!(watch.stream.jitter().unwrap().max_ns < 1.0);
}

#[test]
fn a_sender_may_begin_again() {
    // With other numbers, at once; then as another source, after a pause.
    let mut watch = Observed::new();
    for n in 0..30_000_u64 {
        let at = START + n * MS + if n >= 20_000 { 2_000 * MS } else { 0 };
        let (ssrc, base) = [(1, 30_000), (1, 10_000), (2, 0)][n as usize / 10_000];
        watch.push(at, &rtp(ssrc, base + n % 10_000, base * 77 + n % 10_000 * 48));
        if n % 1_000 == 0 {
            watch.push(at, &rtp(9, n, n));
        }
    }
    let Watched { counts, .. } = &watch.stream;
    assert_eq!((counts.restarts, counts.others, counts.late), (2, 30, 0), "{:?}", watch.events);
    assert_eq!((counts.packets, counts.order.lost()), (30_000, 0));
    assert_eq!(watch.stream.content().unwrap().kind, Kind::Audio);
}

#[test]
fn other_udp_is_late_where_its_gaps_are_long() {
    let mut watch = Observed::new();
    for n in 0..5_000_u64 {
        let late = if n == 4_000 { 7 * MS } else { 0 };
        watch.push(START + n * 2 * MS + late, b"not RTP");
    }
    let late = watch.late();
    assert_eq!((late.len(), watch.stream.counts.packets), (1, 5_000));
    assert!(late[0].worst.delay.before_ns.abs_diff(7 * MS) < 1_000, "{late:?}");
    assert_eq!(watch.stream.content().unwrap().kind, Kind::Udp);
}

#[test]
fn one_strange_packet_does_not_make_the_others_late() {
    let mut watch = Observed::new();
    for n in 0..20_000_u64 {
        let at = START + n * MS;
        watch.push(at, &rtp(1, n, n * 48));
        if n == 12_000 {
            watch.push(at, &rtp(1, n + 30_000, n * 48));
        }
    }
    let Watched { counts, .. } = &watch.stream;
    assert_eq!((counts.late, counts.order.lost(), counts.others, counts.restarts), (0, 0, 1, 0));
}

#[test]
fn a_stream_that_begins_disturbed_has_a_schedule_later() {
    let mut watch = Observed::new();
    for n in 0..80_000_u64 {
        // In the first three seconds, packets come in bursts of 700.
        let at = if n < 3_000 { n - n % 700 } else { n } * MS;
        let late = if n == 79_000 { 4 * MS } else { 0 };
        watch.push(START + at + late, &rtp(1, n, n * 7));
    }
    let content = watch.stream.content().unwrap();
    assert_eq!((content.kind, content.basis), (Kind::Rtp, Some(Basis::Even)));
    let late: u64 = watch.late().iter().map(|one| one.packets).sum();
    assert_eq!((late, watch.stream.counts.order.lost()), (1, 0), "{:?}", watch.late());
}

#[test]
fn a_loss_of_thousands_of_packets_is_a_loss_if_as_many_were_due() {
    // At 10,000 per second, 5,000 are not there; later 700,000, whose numbers have passed their range ten times.
    let mut watch = Observed::new();
    for n in 0..1_000_000_u64 {
        if !(40_000..45_000).contains(&n) && !(100_000..800_000).contains(&n) {
            watch.push(START + n * MS / 10, &rtp(1, n, n * 7));
        }
    }
    let Watched { counts, .. } = &watch.stream;
    assert_eq!((counts.order.lost(), counts.others, counts.restarts), (705_000, 0, 0));
    assert_eq!((counts.late, counts.pauses), (0, 1), "{:?}", watch.events);
}

#[test]
fn a_stream_that_ends_early_has_its_counts() {
    let mut watch = Observed::new();
    for n in 0..100_u64 {
        watch.push(START + n * MS, &rtp(1, n, n * 48));
    }
    assert_eq!((watch.stream.content(), watch.stream.counts.packets), (None, 100));
    watch.stream.finish(|_| ());
    assert_eq!(watch.stream.content().unwrap().kind, Kind::Audio);
    let mut nothing = Watched::new(MS, 5);
    nothing.finish(|_| ());
    assert_eq!((nothing.content(), nothing.span_ns()), (None, 0));
}

/// Sends `packets` of 1 ms, which begin at `at` ms with the number `first`.
fn send(watch: &mut Observed, ssrc: u8, at: u64, first: u64, packets: u64) {
    for n in 0..packets {
        watch.push(START + (at + n) * MS, &rtp(ssrc, first + n, (first + n) * 48));
    }
}

fn send_probes(watch: &mut Observed, at: u64, packets: u64) {
    for sequence in 0..packets {
        let at_ns = START + (at + sequence) * MS;
        let mut payload = [0; MIN_LEN];
        Probe { sequence, due_ns: at_ns, sent_ns: at_ns }.write(&mut payload);
        watch.push(at_ns, &payload);
    }
}

#[test]
fn packets_of_others_before_a_stream_do_not_decide_what_it_is() {
    let stray = |watch: &mut Observed, at| watch.push(START + at * MS, b"not RTP");
    let begins: [&dyn Fn(&mut Observed); 5] = [
        &|watch| stray(watch, 0),
        &|watch| stray(watch, 99_999),
        &|watch| send_probes(watch, 99_990, 1),
        // A trial.
        &|watch| send_probes(watch, 0, 5_000),
        // Another protocol, which ends.
        &|watch| (0..5_000).for_each(|n| stray(watch, n)),
    ];
    for (n, begin) in begins.into_iter().enumerate() {
        let mut watch = Observed::new();
        begin(&mut watch);
        let before = watch.stream.counts.packets;
        send(&mut watch, 1, 100_000, 65_000, 10_000);
        let Watched { counts, .. } = &watch.stream;
        let content = watch.stream.content().unwrap();
        assert_eq!((content.kind, content.basis), (Kind::Audio, Some(Basis::Even)), "{n}");
        assert_eq!((counts.packets, counts.others), (before + 10_000, 0), "{n}");
        assert_eq!((counts.order.lost(), counts.late, counts.restarts), (0, 0, 1), "{n}");
    }
}

#[test]
fn a_sender_that_begins_again_after_a_pause_loses_and_repeats_nothing() {
    // From 0 again; behind; ahead; and by chance with the next number.
    for (first, restarts) in [(0, 1), (2_000, 1), (25_000, 1), (60_000, 1), (5_000, 0)] {
        let mut watch = Observed::new();
        send(&mut watch, 1, 0, 0, 5_000);
        send(&mut watch, 1, 10_000, first, 5_000);
        let Watched { counts, .. } = &watch.stream;
        let order = &counts.order;
        assert_eq!((counts.packets, counts.restarts, counts.pauses), (10_000, restarts, 1));
        assert_eq!([order.lost(), order.duplicates, order.stale, counts.late], [0; 4], "{first}");
        assert!(watch.stream.jitter().unwrap().max_ns < 1.0, "{first}");
    }
    let mut watch = Observed::new();
    send_probes(&mut watch, 0, 3_000);
    send_probes(&mut watch, 6_000, 8_000);
    let Watched { counts, .. } = &watch.stream;
    assert_eq!((counts.packets, counts.order.duplicates, counts.restarts), (11_000, 0, 1));
    assert!(counts.before_socket.count() > 4_000);
}

#[test]
fn a_sender_that_begins_again_at_once_with_numbers_ahead_loses_nothing() {
    let mut watch = Observed::new();
    send(&mut watch, 1, 0, 0, 5_000);
    send(&mut watch, 1, 5_020, 20_000, 5_000);
    let Watched { counts, .. } = &watch.stream;
    assert_eq!((counts.packets, counts.restarts, counts.pauses), (10_000, 1, 0));
    assert_eq!((counts.order.lost(), counts.others), (0, 0));
    assert!(watch.stream.jitter().unwrap().max_ns < 1.0);
}

#[test]
fn a_standby_takes_over_without_a_pause() {
    let mut watch = Observed::new();
    send(&mut watch, 1, 0, 0, 5_000);
    send(&mut watch, 2, 5_020, 30_000, 5_000);
    let Watched { counts, .. } = &watch.stream;
    assert_eq!((counts.packets, counts.others), (10_000, 0), "{:?}", watch.events);
    let [Event::Restart { at_ns }] = watch.events[..] else { panic!("{:?}", watch.events) };
    assert_eq!((at_ns, counts.pauses), (START + 5_020 * MS, 0));
}

#[test]
fn forged_packets_change_nothing() {
    let mut watch = Observed::new();
    for n in 0..20_000_u64 {
        watch.push(START + n * MS, &rtp(1, n, n * 48));
        if n > 5_000 && n % 100 < 4 {
            // Two ahead and two behind, and two of another source.
            let number = [30_000, 30_001, 40_000, 40_001][n as usize % 100];
            watch.push(START + n * MS, &rtp(1, n + number, 7));
            watch.push(START + n * MS, &rtp(1, n + number + 1, 7));
            watch.push(START + n * MS, &rtp(2, number, 7));
        }
    }
    let Watched { counts, .. } = &watch.stream;
    assert_eq!((counts.packets, counts.others), (20_000, 150 * 12 - 3), "{:?}", watch.events);
    assert_eq!((counts.order.lost(), counts.restarts, counts.late), (0, 0, 0));
}

#[test]
fn a_stream_that_dies_is_told_once() {
    let mut watch = Observed::new();
    watch.look(START);
    send(&mut watch, 1, 0, 0, 5_000);
    (0..36_000).for_each(|second| watch.look(START + 5_000 * MS + second * 1_000 * MS));
    let since_ns = START + 4_999 * MS;
    let at_ns = since_ns + 1_001 * MS;
    assert_eq!(watch.events, [Event::Silence { since_ns, at_ns }]);
    let counts = &watch.stream.counts;
    assert_eq!((counts.pauses, counts.longest_pause_ns), (1, 35_999_001 * MS));
    // One packet of another sender is not the stream.
    watch.push(START + 40_000_000 * MS, &rtp(2, 1, 1));
    send(&mut watch, 1, 50_000_000, 5_000, 10);
    assert_eq!((watch.stream.counts.pauses, watch.events.len()), (1, 2), "{:?}", watch.events);
    watch.look(START + 60_000_000 * MS);
    assert_eq!((watch.stream.counts.pauses, watch.events.len()), (2, 3), "{:?}", watch.events);
}

#[test]
fn a_schedule_that_was_learnt_from_disturbed_packets_is_learnt_again() {
    // In the first two seconds, the delay falls from 2 ms to 0.
    let mut watch = Observed::new();
    for n in 0..80_000_u64 {
        let delay = 2 * MS - (n * 1_000).min(2 * MS);
        watch.push(START + n * MS + delay, &rtp(1, n, n * 48));
    }
    let late = watch.stream.counts.late;
    for n in 80_000..100_000_u64 {
        watch.push(START + n * MS, &rtp(1, n, n * 48));
    }
    assert_eq!(watch.stream.counts.late, late);
    assert!(watch.stream.counts.before_socket.count() > 60_000);
}

#[test]
fn speech_that_is_not_sent_in_silence_is_not_late_after_it() {
    // G.711 in packets of 20 ms; after ten seconds, the speaker is silent for 0.4 s of each second.
    let mut watch = Observed::new();
    let mut sequence = 0;
    for n in 0..10_000_u64 {
        if n < 500 || n % 50 < 30 {
            let mut packet = rtp(1, sequence, n * 160);
            packet[1] = 0;
            watch.push(START + n * 20 * MS, &packet);
            sequence += 1;
        }
    }
    let content = watch.stream.content().unwrap();
    assert_eq!((content.kind, content.basis), (Kind::Rtp, Some(Basis::Rtp(8_000))));
    assert_eq!((watch.stream.counts.late, watch.stream.counts.order.lost()), (0, 0));
    assert!(watch.stream.counts.before_socket.count() > 5_000);
}

/// Whatever arrives, at whatever times.
#[test]
fn no_packets_do_harm() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let (mut watch, mut at) = (Observed::new(), START);
        for n in 0..2_000 {
            at = match rng.below(50) {
                0 => rng.below(u64::MAX),
                1 => at + 3_000 * MS,
                _ => at.saturating_add(rng.below(3 * MS)),
            };
            let mut bytes = rtp(rng.below(2) as u8, n + rng.below(3), n * 48);
            if rng.below(20) == 0 {
                bytes[rng.below(12) as usize] = rng.below(256) as u8;
            }
            watch.push(at.min(u64::MAX - 5_000), &bytes[..rng.below(61) as usize]);
            watch.look(at);
        }
        watch.stream.finish(|_| ());
        assert_eq!(watch.stream.counts.packets + watch.stream.counts.others, 2_000, "{seed}");
    }
}

#[test]
fn forged_packets_shift_no_number_while_a_stream_is_learnt() {
    let mut watch = Observed::new();
    for n in 0..5_000_u64 {
        let at_ns = START + n * MS;
        watch.push(at_ns, &rtp(1, 100 + n, n * 48));
        // Each of them is nearer to the one before than to the stream.
        if n == 50 {
            for ahead in [20_000, 40_000, 60_000] {
                watch.push(at_ns, &rtp(1, 150 + ahead, n * 48));
            }
        }
    }
    let counts = &watch.stream.counts;
    assert_eq!((counts.packets, counts.others, counts.restarts), (5_000, 3, 0));
    assert_eq!((counts.order.lost(), counts.order.duplicates), (0, 0));
}

#[test]
fn a_rate_learnt_from_a_burst_is_learnt_again_within_seconds() {
    let mut watch = Observed::new();
    // A sender that catches up for two seconds.
    let due = |n: u64| if n < 4_000 { n * MS / 2 } else { 2_000 * MS + (n - 4_000) * MS };
    let mut late = 0;
    for n in 0..24_000 {
        watch.push(START + due(n), &rtp(1, n, n * 48));
        if n == 14_000 {
            late = watch.stream.counts.late;
        }
    }
    assert!(late > 0, "the first rate makes packets late");
    assert_eq!(watch.stream.counts.late, late);
    assert!(watch.stream.counts.at_application.count() > 10_000);
}

#[test]
fn every_packet_counts_however_unevenly_packets_arrive() {
    for seed in 0..200 {
        let (mut watch, mut rng) = (Observed::new(), Rng::new(seed));
        let (mut at, mut sent) = (START, 0);
        // Bursts, and gaps below a second, of a sender and a receiver that wait for a core.
        let longest = [1_000, 100_000, 10 * MS, 900 * MS][seed as usize % 4];
        for n in 0..1_000_u64 {
            at += if rng.below(10) == 0 { rng.below(longest) } else { rng.below(5_000) };
            if rng.below(7) == 0 {
                continue;
            }
            watch.push(at, &rtp(7, 65_000 + n, n * 160));
            sent += 1;
        }
        let counts = &watch.stream.counts;
        assert_eq!((counts.packets, counts.others, counts.restarts), (sent, 0, 0), "seed {seed}");
    }
}

/// Protocols that are not known have numbers at a place that is given: losses are counted, and lateness is that of each
/// packet, where without numbers only long gaps show.
#[test]
fn numbers_at_a_given_place_are_followed() {
    for (field, bits, delay) in [("5:2", 16, 5 * MS), ("4:4:le", 32, 5 * MS), ("5:1", 8, 5 * MS)] {
        let numbered = |n: u64| {
            let mut bytes = [0xAA; 40];
            match bits {
                8 => bytes[5] = n as u8,
                16 => bytes[5..7].copy_from_slice(&(n as u16).to_be_bytes()),
                _ => bytes[4..8].copy_from_slice(&(n as u32).to_le_bytes()),
            }
            bytes
        };
        let field = field.parse().unwrap();
        let stream = Watched::with_numbers(MS, 5, Some(field));
        let mut watch = Observed { stream, events: Vec::new() };
        for n in 0..30_000_u64 {
            let at = START + n * MS;
            match n {
                // Past the range of 16 bits.
                12_000 => {}
                13_000 => {
                    watch.push(at, &numbered(65_000 + n));
                    watch.push(at + 1, &numbered(65_000 + n));
                }
                // Others wait behind it, less each.
                20_000..20_005 => {
                    let late = delay - (n - 20_000) * MS;
                    watch.push(at + late, &numbered(65_000 + n));
                }
                _ => watch.push(at, &numbered(65_000 + n)),
            }
        }
        // Too short for the number.
        watch.push(START + 30_000 * MS, &[1, 2, 3]);
        let content = watch.stream.content().unwrap();
        assert_eq!((content.kind, content.basis), (Kind::Numbered, Some(Basis::Even)), "{field}");
        let order = &watch.stream.counts.order;
        assert_eq!([order.lost(), order.duplicates, order.reordered], [1, 1, 0], "{field}");
        let late = watch.late();
        // The fifth is 1 ms late, and waits for 5 µs on top of that.
        assert_eq!((late.len(), late[0].packets), (1, 5), "{field}: {late:?}");
        assert!(late[0].worst.delay.before_ns.abs_diff(delay) < 20_000, "{field}: {late:?}");
    }
}
