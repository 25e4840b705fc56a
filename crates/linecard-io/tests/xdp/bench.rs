//! Prints packets per second over a cable. Two ports, one at each end, take turns in one thread,
//! so that no scheduler stands between them, and the thread's time on its processor is what counts:
//! other load on the machine hardly shows.

use crate::cable::{frame, packet, with_cable};
use linecard::packet::{BATCH, Batch, Pool, PoolBuffer};
use linecard::port::Port;
use linecard_io::port::xdp::{Attachment, Config, Mode, XdpBuffer, XdpPort};
use linecard_testkit::say;
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_secs(2);

#[test]
#[ignore = "measures, for some seconds"]
fn rate() {
    for mode in [Mode::Native, Mode::Generic] {
        for len in [60, 1514] {
            with_cable("rates", "1500", |cable| {
                let config = Config::default();
                cable.far.enter().expect("it is there");
                let far = Attachment::in_mode(&cable.far.device(), mode).expect("it is free");
                let mut far = XdpPort::open(&far, 0, &config).expect("it is free");
                cable.near.enter().expect("it is there");
                let mut near = cable.port(mode, &config);
                measure(&mut far, &mut near, len, mode);
            });
        }
    }
}

fn measure(from: &mut XdpPort, to: &mut XdpPort, len: usize, mode: Mode) {
    let bytes = frame(1, len);
    let (mut out, mut into) = (Batch::new(), Batch::<XdpBuffer>::new());
    // Buffers keep what was written into them.
    let pool = Pool::new(BATCH, len);
    let mut all: Vec<PoolBuffer> = std::iter::from_fn(|| pool.take()).collect();
    all.iter_mut().for_each(|buffer| buffer.as_mut().copy_from_slice(&bytes));
    drop(all);
    let now = linecard::time::Instant::ZERO;
    let mut receiving = Duration::ZERO;
    let (start, busy) = (Instant::now(), processor_time());
    while start.elapsed() < TIME {
        for _ in 0..4 {
            while let Some(buffer) = pool.take() {
                out.push(packet(buffer)).expect("there is room");
            }
            from.send(&mut out, now);
        }
        // The kernel's work for both ends was done in `send`.
        let sent = Instant::now();
        loop {
            to.receive(&mut into, now);
            if into.drain().count() == 0 {
                break;
            }
        }
        receiving += sent.elapsed();
    }
    let busy = processor_time().saturating_sub(busy);
    let (sent, got) = (from.detailed_counters(), to.detailed_counters());
    let per_second = |count: u64, time: Duration| count as f64 / time.as_secs_f64() / 1e6;
    say(&format!(
        "{mode:?}, {len} B: {:.3} Mpps sent and received per second of processor, {:.3} by the \
         clock; {:.1} Mpps in the time of receiving alone; {} wakes, {} of {} packets lost",
        per_second(got.received, busy),
        per_second(got.received, start.elapsed()),
        per_second(got.received, receiving),
        sent.wakes,
        sent.sent - got.received,
        sent.sent,
    ));
}

/// How long this thread has been on a processor.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(first.unwrap_or_default())
}
