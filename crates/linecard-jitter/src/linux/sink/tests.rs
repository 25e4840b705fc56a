use super::*;
use crate::linux::generator::{Generator, GeneratorConfig};
use crate::stream::probe::{MIN_LEN, Probe};
use std::thread;
use std::time::Instant;

/// The modes that there are here.
fn modes() -> impl Iterator<Item = SinkMode> {
    SinkMode::ALL.into_iter().filter(|&mode| {
        let config = SinkConfig::new("127.0.0.1:0".parse().unwrap());
        match Sink::open(SinkConfig { mode, capacity: 1, ..config }) {
            Err(error @ (SinkError::BusyPoll(_) | SinkError::IoUring(_))) => {
                linecard_testkit::skip(mode.name(), error);
                false
            }
            // Takes an interface of its own: see the tests of the crate.
            Err(SinkError::NoInterface) => false,
            opened => opened.map(|_| true).unwrap(),
        }
    })
}

fn open(mode: SinkMode) -> Sink {
    let config = SinkConfig::new("127.0.0.1:0".parse().unwrap());
    Sink::open(SinkConfig { mode, capacity: 10_000, ..config }).unwrap()
}

/// A probe, or what only looks like one.
fn payload(sequence: u64) -> [u8; MIN_LEN] {
    let mut payload = [0; MIN_LEN];
    Probe { sequence, due_ns: 1, sent_ns: 2 }.write(&mut payload);
    payload
}

#[test]
fn every_packet_comes_once_in_every_mode() {
    for mode in modes() {
        let sink = open(mode);
        let never = AtomicBool::new(false);
        let mut config = GeneratorConfig::new(sink.address().unwrap());
        (config.count, config.period_ps) = (500, 20_000_000);
        let (received, departures) = thread::scope(|scope| {
            let receiving = scope.spawn(|| sink.run(&never, Some(500)).unwrap());
            let departures = Generator::open(config).unwrap().run(&never).unwrap();
            (receiving.join().unwrap(), departures)
        });
        let name = mode.name();
        let sequences: Vec<u64> =
            received.arrivals.iter().map(|arrival| arrival.sequence).collect();
        assert_eq!(sequences, (0..500).collect::<Vec<_>>(), "{name}");
        assert!(received.arrivals.is_sorted_by_key(|arrival| arrival.at_ns), "{name}");
        let times = received.arrivals.iter().zip(&departures.sent_ns);
        assert!(times.into_iter().all(|(arrival, sent_ns)| arrival.at_ns > *sent_ns), "{name}");
        let schedule = received.schedule().unwrap();
        assert!(schedule.period_ps.abs_diff(20_000_000) <= 2, "{name}: {schedule:?}");
        assert!(schedule.start_ns.abs_diff(departures.schedule.start_ns) <= 2, "{name}");
        let others = [received.overflowed, received.foreign, received.unrecorded, received.cut];
        assert_eq!(others, [0; 4], "{name}");
        assert!(received.calls > 0, "{name}");
    }
}

#[test]
fn a_stop_is_seen_while_nothing_comes() {
    for mode in modes() {
        let sink = open(mode);
        let stop = AtomicBool::new(false);
        let began = Instant::now();
        thread::scope(|scope| {
            let receiving = scope.spawn(|| sink.run(&stop, None).unwrap());
            thread::sleep(Duration::from_millis(10));
            stop.store(true, Ordering::Relaxed);
            assert_eq!(receiving.join().unwrap().arrivals, []);
        });
        // 100 ms, and a lot for a busy machine.
        assert!(began.elapsed() < Duration::from_secs(5), "{}", mode.name());
    }
}

#[test]
fn what_there_was_no_room_for_is_counted() {
    for mode in modes() {
        let config = SinkConfig::new("127.0.0.1:0".parse().unwrap());
        let config = SinkConfig { mode, room_bytes: 1, capacity: 2, ..config };
        let sink = Sink::open(config).unwrap();
        assert!(sink.room_bytes().unwrap() < 10_000);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for sequence in 0..50 {
            sender.send_to(&payload(sequence), sink.address().unwrap()).unwrap();
        }
        let received = sink.run(&AtomicBool::new(false), None).unwrap();
        assert!(received.overflowed > 0, "{}", mode.name());
        assert_eq!(received.arrivals.len(), 2, "{}", mode.name());
        assert_eq!(received.unrecorded + received.overflowed, 48, "{}", mode.name());
    }
}

#[test]
fn what_is_no_probe_is_counted_as_foreign() {
    for mode in modes() {
        let sink = open(mode);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = sink.address().unwrap();
        let mut wrong = payload(3);
        wrong[20] ^= 1;
        for bytes in [&[][..], &[7], &payload(1)[..MIN_LEN - 1], &wrong, &[0xFF; 2_000]] {
            sender.send_to(bytes, address).unwrap();
        }
        for sequence in [u64::MAX, 0, 0] {
            sender.send_to(&payload(sequence), address).unwrap();
        }
        let received = sink.run(&AtomicBool::new(false), Some(3)).unwrap();
        let sequences: Vec<u64> =
            received.arrivals.iter().map(|arrival| arrival.sequence).collect();
        assert_eq!(sequences, [u64::MAX, 0, 0], "{}", mode.name());
        assert_eq!(received.foreign, 5, "{}", mode.name());
        assert_eq!(received.schedule(), None);
    }
}

#[test]
fn ranges_are_kept() {
    let config = SinkConfig::new("127.0.0.1:0".parse().unwrap());
    let with = |capacity, room_bytes| {
        Sink::open(SinkConfig { capacity, room_bytes, ..config.clone() }).map(drop)
    };
    assert!(matches!(with(0, 1), Err(SinkError::Capacity(0))));
    assert!(matches!(with(usize::MAX, 1), Err(SinkError::Capacity(_))));
    assert!(matches!(with(1, 0), Err(SinkError::Room(0))));
    assert!(matches!(with(1, usize::MAX), Err(SinkError::Room(_))));
    let config = SinkConfig::new("192.0.2.1:9".parse().unwrap());
    assert!(matches!(Sink::open(config), Err(SinkError::Bind { .. })));
}

/// Longer than the room for one where there is room for many.
#[test]
fn what_is_cut_is_counted_and_still_has_its_number() {
    for mode in modes() {
        let sink = open(mode);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut long = vec![7; 20_000];
        long[..MIN_LEN].copy_from_slice(&payload(5));
        sender.send_to(&long, sink.address().unwrap()).unwrap();
        let received = sink.run(&AtomicBool::new(false), Some(1)).unwrap();
        assert_eq!(received.arrivals[0].sequence, 5, "{}", mode.name());
        let cuts = matches!(mode, SinkMode::Recvmmsg | SinkMode::IoUring);
        assert_eq!(received.cut, u64::from(cuts), "{}", mode.name());
    }
}

/// More than there are buffers in any mode, all there before the first is taken.
#[test]
fn a_backlog_is_taken_whole() {
    for mode in modes() {
        let sink = open(mode);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for sequence in 0..1_000 {
            sender.send_to(&payload(sequence), sink.address().unwrap()).unwrap();
        }
        let received = sink.run(&AtomicBool::new(false), Some(1_000)).unwrap();
        let sequences = received.arrivals.iter().map(|arrival| arrival.sequence);
        assert!(sequences.eq(0..1_000), "{}", mode.name());
        assert_eq!(received.overflowed, 0);
    }
}
