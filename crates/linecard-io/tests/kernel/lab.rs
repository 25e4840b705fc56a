//! Two network namespaces with a cable between them, gone when dropped.
//!
//! Frames are sent raw at one end and received raw at the other, each by a socket that was opened
//! inside its namespace by one thread. Nothing outside the two namespaces is touched.

use crate::sys::{self, PacketSocket, Tap};
use linecard_testkit::lab::{End, Namespace, cable, is_root};
use linecard_testkit::say;
use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

/// The largest frames sent are jumbo frames; the merged ones need no MTU.
const MTU: &str = "9500";
/// Devices in the sending namespace.
const TAP: &str = "lctap";
const BRIDGE: &str = "lcbridge";
/// How long the kernel may take to start a thread of its own.
const PATIENCE: Duration = Duration::from_secs(5);

/// The kind of the receiving end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiver {
    /// Merges (GRO), in a kernel thread of its own.
    Merging,
    /// Receives as sent.
    Plain,
}

/// The two ends of the cable.
#[derive(Debug)]
pub(crate) struct Lab {
    pub(crate) tx: PacketSocket,
    pub(crate) rx: PacketSocket,
    sending: Namespace,
    receiving: Namespace,
}

/// Builds a lab and works in it, in a thread of its own: it moves between namespaces. The error
/// names the facility that a lab lacks.
pub(crate) fn inside<R: Send>(
    receiver: Receiver,
    vnet_len: usize,
    work: impl FnOnce(&mut Lab) -> R + Send,
) -> Result<R, String> {
    if !is_root() {
        return Err("not root: namespaces and packet sockets need it".to_owned());
    }
    thread::scope(|scope| {
        let worker = scope.spawn(|| Lab::new(receiver, vnet_len).map(|mut lab| work(&mut lab)));
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Two TAP devices of one namespace with a bridge between them: frames written to one come out of
/// the other.
#[derive(Debug)]
pub(crate) struct Bridge {
    pub(crate) into: Tap,
    pub(crate) out_of: Tap,
    _namespace: Namespace,
}

/// A form of header, and what the reader of a TAP device says it can do.
pub(crate) type Side = (usize, u32);

/// Builds a bridge and works in its namespace; the error names the missing facility.
pub(crate) fn bridged<R: Send>(
    (into, out_of): (Side, Side),
    work: impl FnOnce(&mut Bridge) -> R + Send,
) -> Result<R, String> {
    if !is_root() {
        return Err("not root: namespaces and TAP devices need it".to_owned());
    }
    thread::scope(|scope| {
        let worker = scope.spawn(|| Bridge::new(into, out_of).map(|mut bridge| work(&mut bridge)));
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl Bridge {
    fn new(into: Side, out_of: Side) -> Result<Self, String> {
        let namespace = Namespace::quiet()?;
        namespace.enter().map_err(|error| format!("no namespace: {error}"))?;
        let bridge = ["link", "add", "br0", "type", "bridge", "forward_delay", "0"];
        namespace.ip(&[&bridge[..], &["mcast_snooping", "0"]].concat())?;
        let open = |end: &str, (vnet_len, offloads): Side| {
            let name = format!("{}{end}", namespace.device());
            let tap = Tap::new(&name, vnet_len, offloads)
                .map_err(|error| format!("no TAP device with {offloads:#x}: {error}"))?;
            namespace.ip(&["link", "set", &name, "mtu", MTU, "master", "br0", "up"])?;
            Ok::<_, String>(tap)
        };
        let (into, out_of) = (open("a", into)?, open("b", out_of)?);
        namespace.ip(&["link", "set", "br0", "mtu", MTU, "up"])?;
        Ok(Self { into, out_of, _namespace: namespace })
    }
}

/// A cable between the devices of two namespaces.
pub(crate) fn lay(near: &Namespace, far: &Namespace, [a, b]: [&[&str]; 2]) -> Result<(), String> {
    let near = End { namespace: near, device: &near.device(), options: a };
    cable(near, End { namespace: far, device: &far.device(), options: b })
}

impl Lab {
    fn new(receiver: Receiver, vnet_len: usize) -> Result<Self, String> {
        let (sending, receiving) = quiet_cable(MTU, receiver == Receiver::Merging)?;
        let far = receiving.device();
        if receiver == Receiver::Merging {
            // UDP merges in Linux when a socket asks for it, or when it is to be forwarded.
            receiving.ethtool(&far, &["rx-udp-gro-forwarding", "on"])?;
            receiving.write(&format!("/sys/class/net/{far}/threaded"), "1")?;
            order_threads(&far)?;
        }
        let open = |namespace: &Namespace, open: &dyn Fn(u32) -> io::Result<PacketSocket>| {
            namespace
                .enter()
                .and_then(|()| sys::interface(&namespace.device()))
                .and_then(open)
                .map_err(|error| format!("no packet socket: {error}"))
        };
        let tx = open(&sending, &|interface| PacketSocket::sender(interface, vnet_len))?;
        let rx = open(&receiving, &PacketSocket::receiver)?;
        let mut lab = Self { tx, rx, sending, receiving };
        wait_for_cable(&mut lab.rx, vnet_len, |frame| lab.tx.send(frame))?;
        Ok(lab)
    }

    /// Adds a TAP device to the sending end, and a bridge that hands on what it receives, unchanged
    /// but for what the cable needs done before. The error says what the kernel lacks.
    pub(crate) fn add_tap(&mut self, header_len: usize, offloads: u32) -> Result<Tap, String> {
        let tap = self
            .sending
            .enter()
            .and_then(|()| Tap::new(TAP, header_len, offloads))
            .map_err(|error| format!("no TAP device with these offloads: {error}"))?;
        let near = self.sending.device();
        // One that listens for groups asks for them itself, seconds later and into a test's frames.
        self.sending.ip(&["link", "add", BRIDGE, "type", "bridge", "mcast_snooping", "0"])?;
        for device in [TAP, &near] {
            self.sending.ip(&["link", "set", device, "master", BRIDGE])?;
        }
        for device in [TAP, BRIDGE] {
            self.sending.ip(&["link", "set", device, "mtu", MTU, "up"])?;
        }
        wait_for_cable(&mut self.rx, header_len, |frame| tap.write(frame))?;
        Ok(tap)
    }

    /// Adds a UDP tunnel to the receiving end, so that the kernel knows what its port carries; the
    /// error says why not.
    pub(crate) fn add_tunnel(&self, kind: &str, port: &str) -> Result<(), String> {
        let name = format!("lc{kind}");
        let device = ["link", "add", &name, "type", kind, "external", "dstport", port];
        self.receiving.ip(&device)?;
        self.receiving.ip(&["link", "set", &name, "up"])
    }
}

/// Two namespaces with a cable between their devices, on which nothing is sent but what a test
/// sends: sending and receiving end, the latter merging (GRO) or not.
pub(crate) fn quiet_cable(mtu: &str, merging: bool) -> Result<(Namespace, Namespace), String> {
    let (sending, receiving) = (Namespace::quiet()?, Namespace::quiet()?);
    let (near, far) = (sending.device(), receiving.device());
    lay(&sending, &receiving, [&["mtu", mtu], &["mtu", mtu]])?;
    sending.ethtool(&near, &["tso", "off", "gso", "off", "tx", "off", "sg", "off"])?;
    // Packets arrive as the test sends them: no merging on the way back either.
    sending.ethtool(&near, &["gro", "off"])?;
    receiving.ethtool(&far, &["gro", if merging { "on" } else { "off" }])?;
    sending.ip(&["link", "set", &near, "up"])?;
    receiving.ip(&["link", "set", &far, "up"])?;
    Ok((sending, receiving))
}

/// Sends frames of an experimental type, behind a virtio header of `vnet_len` bytes, until one comes:
/// a device that has just been brought up may drop what it is given at first.
pub(crate) fn wait_for_cable(
    rx: &mut PacketSocket,
    vnet_len: usize,
    send: impl Fn(&[u8]) -> io::Result<()>,
) -> Result<(), String> {
    let mut frame = vec![0; vnet_len];
    frame.extend([2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xB5]);
    frame.resize(vnet_len + 60, 0);
    let step = Duration::from_millis(10);
    let tries = PATIENCE.as_millis() / step.as_millis();
    let found = (0..tries).any(|_| send(&frame).and_then(|()| rx.wait(step)).unwrap_or(false));
    // A later one may still be on its way.
    while rx.wait(step * 2).is_ok_and(|more| more) {
        rx.receive().map_err(|error| format!("the packet socket fails: {error}"))?;
    }
    if found { Ok(()) } else { Err("no frame comes through a veth device".to_owned()) }
}

/// Puts this thread and the kernel's merging thread on one processor, this one first: so nothing
/// is merged before everything is sent.
fn order_threads(device: &str) -> Result<(), String> {
    let mut waited = Duration::ZERO;
    let step = Duration::from_millis(2);
    let merging = loop {
        if let Some(thread) = thread_named(&format!("napi/{device}-")) {
            break thread;
        }
        if waited > PATIENCE {
            return Err("the kernel's NAPI thread is not to be seen in /proc".to_owned());
        }
        thread::sleep(step);
        waited += step;
    };
    let pinned = sys::first_processor()
        .and_then(|processor| sys::pin(0, processor).and_then(|()| sys::pin(merging, processor)));
    pinned.map_err(|error| format!("threads cannot be bound to a processor: {error}"))?;
    if let Err(error) = sys::real_time(merging, 1).and_then(|()| sys::real_time(0, 2)) {
        say(&format!("no real-time priority ({error}): lists may have to be sent several times"));
    }
    Ok(())
}

/// Number of the kernel thread whose name begins so.
fn thread_named(prefix: &str) -> Option<i32> {
    let numbers = fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.find(|number: &i32| {
        let name = fs::read_to_string(format!("/proc/{number}/comm"));
        name.is_ok_and(|name| name.starts_with(prefix))
    })
}
