//! A live attachment at the receiving end of a cable: frames are sent raw at the other end, and seen
//! as the kernel receives them from the TAP device.

use crate::lab::{quiet_cable, wait_for_cable};
use crate::sys::{self, PacketSocket};
use linecard_io::attach::{Attached, Prepared, Settings};
use linecard_io::port::{probe, xdp};
use linecard_testkit::lab::{Namespace, is_root};
use linecard_testkit::say;
use std::io;
use std::thread;
use std::time::Duration;

/// The near port's frames have no more than this, and AF_XDP takes them so at a veth device.
const MTU: &str = "9100";
/// The far port.
const TAP: &str = "lctap";
/// A list is flushed this long after its first frame: all flows at one time, as at the end of a
/// poll of the kernel. All of it arrives in microseconds; the rest is for what else the processor
/// may have to do.
const HOLD: Duration = Duration::from_millis(10);

/// The receiver at the near end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Near {
    Xdp,
    Packet,
}

/// A cable whose receiving end is attached to a TAP device.
#[derive(Debug)]
pub(crate) struct Live {
    /// Sends into the cable.
    pub(crate) tx: PacketSocket,
    /// Receives what the kernel gets from the TAP device.
    pub(crate) rx: PacketSocket,
    /// Whether the TAP's virtio header can tell of a UDP tunnel.
    pub(crate) tunnels: bool,
    attached: Option<Attached>,
    _ends: (Namespace, Namespace),
}

/// Attaches, and works in a thread of its own; the error names the missing facility.
pub(crate) fn attached<R: Send>(
    near: Near,
    work: impl FnOnce(&mut Live) -> R + Send,
) -> Result<R, String> {
    lacking(near)?;
    thread::scope(|scope| {
        let worker = scope.spawn(|| Live::new(near).map(|mut live| work(&mut live)));
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Features that the kernel must have; any other failure is a fault.
fn lacking(near: Near) -> Result<(), String> {
    if !is_root() {
        return Err("not root: namespaces, ports and TAP devices need it".to_owned());
    }
    let tap = probe::tap();
    tap.devices.map_err(|error| error.to_string())?;
    if !tap.udp {
        return Err("TAP devices take no large UDP packets (Linux 6.2)".to_owned());
    }
    let features = xdp::probe();
    if near == Near::Xdp && !features.is_usable() {
        return Err(features.lacking().join("; "));
    }
    Ok(())
}

impl Live {
    fn new(near: Near) -> Result<Self, String> {
        let (sending, receiving) = quiet_cable(MTU, false)?;
        let no_socket = |error: io::Error| format!("no packet socket: {error}");
        let tx = sending
            .enter()
            .and_then(|()| sys::interface(&sending.device()))
            .and_then(|interface| PacketSocket::sender(interface, 0))
            .map_err(no_socket)?;
        receiving.enter().map_err(|error| format!("no namespace: {error}"))?;
        let prepared = behind_this_thread(|| {
            Prepared::new(settings(near, &receiving.device())).expect("ports can be opened")
        });
        let rx = sys::interface(TAP).and_then(PacketSocket::receiver).map_err(no_socket)?;
        let attached = Some(prepared.start());
        let tunnels = probe::tap().tunnels;
        let mut live = Self { tx, rx, tunnels, attached, _ends: (sending, receiving) };
        wait_for_cable(&mut live.rx, 0, |frame| live.tx.send(frame))?;
        Ok(live)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let Some(attached) = self.attached.take() else { return };
        attached.stop();
        let (account, failures) = attached.finish();
        if !thread::panicking() {
            assert!(failures.is_empty(), "{failures:?}");
            let dropped = [account.near, account.far].concat();
            assert!(dropped.iter().all(|port| port.dropped.total() == 0), "{dropped:?}");
        }
    }
}

fn settings(near: Near, device: &str) -> Settings {
    let near = match near {
        Near::Xdp => format!("xdp:{device}"),
        // The frames are for another station.
        Near::Packet => format!("packet:{device},promiscuous"),
    };
    let far = format!("tap:{TAP}");
    let parse = |port: &str| port.parse().expect("a port");
    let mut settings = Settings::new(parse(&near), parse(&far));
    settings.keep_rights = true;
    (settings.coalesce.hold_budget, settings.coalesce.idle_floor) = (HOLD, HOLD);
    // All that came in one poll leaves at one time, as at the end of a poll of the kernel.
    settings.coalesce.flush_quiet_at_batch_end = false;
    settings
}

/// Threads that are started by `make` share one processor with this one, which goes first: so they
/// receive nothing before everything is sent.
fn behind_this_thread<R>(make: impl FnOnce() -> R) -> R {
    let ordered = sys::first_processor()
        .and_then(|processor| sys::pin(0, processor))
        .and_then(|()| sys::real_time(0, 1));
    let made = make();
    if let Err(error) = ordered.and_then(|()| sys::real_time(0, 2)) {
        say(&format!("no real-time priority ({error}): lists may have to be sent several times"));
    }
    made
}
