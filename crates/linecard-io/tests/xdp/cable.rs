//! A cable with a packet socket at its far end and room for AF_XDP ports at the near one.

use crate::around::skipped;
use crate::lab::lay;
use crate::sys::{self, PacketSocket};
use linecard::packet::{Batch, LinkType, Meta, Packet};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use linecard_io::port::xdp::{Attachment, Config, Mode, XdpBuffer, XdpPort, probe};
use linecard_testkit::lab::Namespace;
use std::thread;
use std::time::Duration;

/// No test waits longer than that for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Cable {
    pub(crate) near: Namespace,
    pub(crate) far: Namespace,
    /// Sends and receives at the far end.
    pub(crate) socket: PacketSocket,
}

/// Builds a cable and works in the near namespace, in a thread of its own, or says loudly why not. All
/// frames arrive at the first of two queues.
pub(crate) fn with_cable(what: &str, mtu: &str, work: impl FnOnce(&mut Cable) + Send) {
    with_queues(what, (mtu, "1"), work);
}

/// The same, with a far end that sends by this many queues: the kernel chooses one by a hash whose key
/// changes from boot to boot, and the frame arrives at the queue of that number.
pub(crate) fn with_queues(what: &str, far: (&str, &str), work: impl FnOnce(&mut Cable) + Send) {
    let features = probe();
    if !features.is_usable() {
        return skipped(what, &features.lacking().join("; "));
    }
    let done = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut cable = Cable::new(far)?;
            work(&mut cable);
            Ok::<(), String>(())
        });
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    if let Err(why) = done {
        skipped(what, &why);
    }
}

impl Cable {
    fn new((mtu, sends_by): (&str, &str)) -> Result<Self, String> {
        let (near, far) = (Namespace::quiet()?, Namespace::quiet()?);
        let queues = |sends_by| ["numtxqueues", sends_by, "numrxqueues", "2"];
        lay(&near, &far, [&queues("2"), &queues(sends_by)])?;
        for namespace in [&near, &far] {
            namespace.ip(&["link", "set", &namespace.device(), "mtu", mtu, "up"])?;
        }
        let socket = far
            .enter()
            .and_then(|()| sys::interface(&far.device()))
            .and_then(PacketSocket::receiver)
            .map_err(|error| format!("no packet socket: {error}"))?;
        near.enter().map_err(|error| format!("no namespace: {error}"))?;
        Ok(Self { near, far, socket })
    }

    pub(crate) fn attach(&self, mode: Mode) -> Attachment {
        Attachment::in_mode(&self.near.device(), mode).expect("nothing else is attached")
    }

    pub(crate) fn port(&self, mode: Mode, config: &Config) -> XdpPort {
        XdpPort::open(&self.attach(mode), 0, config).expect("the queue is free")
    }

    /// Puts a frame on the cable at the far end. The socket has to have been opened with a virtio
    /// header, which is all zeros: nothing is left to hardware.
    pub(crate) fn send(&self, frame: &[u8]) {
        let bytes = [&[0; sys::VNET_LEN][..], frame].concat();
        until("the far end takes the frame", || self.socket.send(&bytes).is_ok());
    }

    /// The next frame at the far end that came over the cable.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        loop {
            assert!(self.socket.wait(PATIENCE).expect("it can be polled"), "no frame comes");
            match self.socket.receive().expect("it can be read") {
                Some(received) if !received.outgoing => return received.frame,
                _ => {}
            }
        }
    }
}

/// A frame of an experimental Ethernet type, known by its number.
pub(crate) fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xB5];
    frame.extend(number.to_be_bytes());
    frame.extend((frame.len()..len).map(|at| (at as u32).wrapping_mul(number | 1) as u8));
    frame
}

pub(crate) fn packet<B: AsRef<[u8]>>(bytes: B) -> Packet<B> {
    Packet::new(bytes, LinkType::Ethernet, Meta::default())
}

pub(crate) fn now() -> Instant {
    static START: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    Instant::from_ns(START.elapsed().as_nanos() as u64)
}

/// Tries until it is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !is_so() {
        assert!(std::time::Instant::now() < end, "not in {PATIENCE:?}: {what}");
        thread::yield_now();
    }
}

/// Receives this many packets.
pub(crate) fn receive(port: &mut XdpPort, wanted: usize) -> Vec<Packet<XdpBuffer>> {
    let mut packets = Vec::new();
    let mut batch = Batch::new();
    until("packets are received", || {
        assert_eq!(port.receive(&mut batch, now()), PortState::Open);
        packets.extend(batch.drain());
        packets.len() >= wanted
    });
    packets
}

/// Sends everything in the batch.
pub(crate) fn transmit<B: AsRef<[u8]> + AsMut<[u8]>>(port: &mut XdpPort, batch: &mut Batch<B>) {
    until("packets are sent", || {
        port.send(batch, now());
        batch.is_empty()
    });
}

/// All frames are with the port again, but those that the kernel has to receive into.
pub(crate) fn nothing_leaks(port: &mut XdpPort, config: &Config) {
    let mut batch = Batch::<XdpBuffer>::new();
    until("sent frames come back", || {
        port.receive(&mut batch, now());
        port.frames().sending == 0
    });
    let frames = port.frames();
    assert_eq!(frames.in_buffers, batch.len());
    assert_eq!(frames.free + frames.receiving + batch.len(), config.frames() as usize);
    let (counters, kernel) =
        (port.detailed_counters(), port.kernel_counters().expect("it answers"));
    assert_eq!((counters.receive_dropped, counters.completion_errors), (0, 0));
    assert_eq!((kernel.rx_invalid_descs, kernel.tx_invalid_descs), (0, 0));
}
