//! Packets a second over a cable, printed. Two ports, one at each end, take turns in one thread:
//! what a second of the sum costs, without the noise of a scheduler. Figures of one direction are
//! what is left when the other's share is not counted.

use crate::around::say;
use crate::cable::{frame, packet, with_cable};
use crate::sys;
use linecard::packet::{Batch, Packet};
use linecard::port::Port;
use linecard_host::port::xdp::{Attachment, Config, Mode, XdpBuffer, XdpPort};
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_secs(2);

#[test]
#[ignore = "measures, for some seconds"]
fn rate() {
    for mode in [Mode::Native, Mode::Generic] {
        for len in [60, 1514] {
            with_cable("rates", "1500", |cable| {
                let config = Config::default();
                sys::enter(&cable.far.path()).expect("it is there");
                let far = Attachment::in_mode(&cable.far.device(), mode).expect("it is free");
                let mut far = XdpPort::open(&far, 0, &config).expect("it is free");
                sys::enter(&cable.near.path()).expect("it is there");
                let mut near = cable.port(mode, &config);
                measure(&mut far, &mut near, len, mode);
            });
        }
    }
}

fn measure(from: &mut XdpPort, to: &mut XdpPort, len: usize, mode: Mode) {
    let bytes = frame(1, len);
    let (mut out, mut into) = (Batch::<&[u8]>::new(), Batch::<XdpBuffer>::new());
    let now = linecard::time::Instant::ZERO;
    let (mut sending, mut receiving) = (Duration::ZERO, Duration::ZERO);
    let start = Instant::now();
    let mut last = start;
    while last - start < TIME {
        for _ in 0..4 {
            while out.push(packet(&bytes[..])).is_ok() {}
            from.send(&mut out, now);
        }
        let sent = Instant::now();
        // In native mode, the kernel's own thread may hand packets over later.
        loop {
            to.receive(&mut into, now);
            if into.drain().map(|packet: Packet<XdpBuffer>| drop(packet)).count() == 0 {
                break;
            }
        }
        (sending, receiving) = (sending + (sent - last), receiving + sent.elapsed());
        last = Instant::now();
    }
    let (sent, got) = (from.counters(), to.counters());
    let per_second = |count: u64, time: Duration| count as f64 / time.as_secs_f64() / 1e6;
    say(&format!(
        "{mode:?}, {len} B: {:.3} Mpps through both ends in one thread; {:.3} Mpps sent in the \
         time of sending (the kernel's way to the other end included), {:.3} Mpps in that of \
         receiving; {} wakes, {} of {} packets lost",
        per_second(got.received, last - start),
        per_second(sent.sent, sending),
        per_second(got.received, receiving),
        sent.wakes,
        sent.sent - got.received,
        sent.sent,
    ));
}
