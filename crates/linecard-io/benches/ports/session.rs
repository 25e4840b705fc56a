//! One way from the peer to a receiver, and its measurement.

use super::Result;
use super::iperf::{self, Direction, Running};
use super::machine::{self, Cpu, Device};
use linecard_io::attach::{Attached, Merge, PortSpec, Prepared, Settings};
use linecard_io::lab::{BACK, CABLE, Cable, DEVICE, Host, Lab};
use std::fmt;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// The TAP device that stands for the wire.
const NEAR_TAP: &str = "near0";

/// A packet socket whose kernel cuts, and merges where the interface does.
const LARGE: &str = "packet (large)";

/// How long passt may take to make its device, which has the address that the host has.
const START: Duration = Duration::from_secs(5);

/// The connection of the peer and the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The kernel forwards.
    Kernel { gro: bool },
    /// An attachment of this kind of port and a TAP device. Offloads: merged on the way in, and cut
    /// from large packets on the way out.
    Ports { near: &'static str, offloads: bool },
    /// Sockets of the host and a TAP device in the receiver, joined by passt: what carries the packets of a virtual
    /// machine without privileges. Here it serves a namespace ("pasta"), since KVM does not work everywhere.
    Passt,
}

impl Way {
    pub(crate) const KERNEL_GRO: Self = Self::Kernel { gro: true };
    pub(crate) const XDP: Self = Self::Ports { near: "xdp", offloads: true };

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let kernel = [true, false].map(|gro| Self::Kernel { gro });
        let ports = |offloads| ["xdp", "packet", "tap"].map(|near| Self::Ports { near, offloads });
        let large = Self::Ports { near: LARGE, offloads: true };
        let passt = machine::has("pasta").then_some(Self::Passt);
        kernel.into_iter().chain(passt).chain(ports(true)).chain([large]).chain(ports(false))
    }

    fn receiver(self) -> Host {
        if matches!(self, Self::Ports { .. }) { Host::Own } else { Host::Beyond }
    }

    /// The receiver's address, as the peer sees it.
    fn address(self) -> Ipv4Addr {
        if self == Self::Passt { Host::Own.address() } else { self.receiver().address() }
    }

    /// The peer's interface.
    fn wire(self) -> &'static str {
        if matches!(self, Self::Ports { near: "tap", .. }) { NEAR_TAP } else { CABLE }
    }

    /// The receiver's interface.
    fn device(self) -> &'static str {
        if matches!(self, Self::Kernel { .. }) { BACK } else { DEVICE }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel { gro: true } => f.pad("kernel, GRO"),
            Self::Kernel { gro: false } => f.pad("kernel, GRO off"),
            Self::Ports { near, offloads: true } => f.pad(&format!("{near}-tap")),
            Self::Ports { near, offloads: false } => f.pad(&format!("{near}-tap, offloads off")),
            Self::Passt => f.pad("passt (pasta)"),
        }
    }
}

/// A lab with such a way.
pub(crate) struct Session {
    // Ends before its devices go.
    attached: Option<Attached>,
    _passt: Option<Running>,
    lab: Lab,
    way: Way,
}

/// The figures of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Gbit of TCP payload a second.
    pub(crate) gbps: f64,
    /// Packets of the data's direction on the wire, a second.
    pub(crate) packets_per_second: f64,
    /// Those of the other direction for each of them: acknowledgments.
    pub(crate) acks: f64,
    /// Packets on the wire for each one that the receiver's side gets or gives.
    pub(crate) aggregate: f64,
    /// CPU seconds of linecard's threads for each GB of payload, and those outside the kernel.
    pub(crate) own_cpu: f64,
    pub(crate) own_user_cpu: f64,
    /// CPU seconds of the whole machine for each GB of payload.
    pub(crate) all_cpu: f64,
    /// Packets of the data's direction for each CPU second of linecard's threads; 0 without such.
    pub(crate) packets_per_cpu_second: f64,
    /// Segments that the sender has sent again.
    pub(crate) retransmits: f64,
}

impl Session {
    pub(crate) fn start(way: Way) -> Result<Self> {
        let lab = Lab::new(Cable::default())?;
        let (mut attached, mut passt) = (None, None);
        match way {
            Way::Kernel { gro } => lab.forward(gro)?,
            Way::Ports { near, offloads } => attached = Some(attach(&lab, way, near, offloads)?),
            Way::Passt => passt = Some(start_passt(&lab)?),
        }
        Ok(Self { lab, way, attached, _passt: passt })
    }

    pub(crate) fn measure(&self, load: (Direction, u32), seconds: u64) -> Result<Sample> {
        let (direction, connections) = load;
        let server = iperf::Server::start(&self.lab, self.way.receiver(), self.way.address())?;
        let before = self.look()?;
        let run = server.run(&self.lab, direction, connections, seconds)?;
        let after = self.look()?;
        let (own, all) = (after.own.since(&before.own), after.all - before.all);
        let (wire, device) = (after.wire.since(before.wire), after.device.since(before.device));
        // Traffic on ingress is sent by the peer, and received by the receiver.
        let (data, acks, large) = match direction {
            Direction::In => (wire.sent, wire.received, device.received),
            Direction::Out => (wire.received, wire.sent, device.sent),
        };
        let gigabytes = run.bytes / 1e9;
        Ok(Sample {
            gbps: run.bits_per_second / 1e9,
            packets_per_second: data / run.seconds,
            acks: acks / data,
            aggregate: data / large,
            own_cpu: own.total() / gigabytes,
            own_user_cpu: own.user / gigabytes,
            all_cpu: all / gigabytes,
            packets_per_cpu_second: if own.total() > 0.0 { data / own.total() } else { 0.0 },
            retransmits: run.retransmits,
        })
    }

    fn look(&self) -> Result<Look> {
        let device = |host, name| -> Result<Device> {
            self.lab
                .enter(host, || Device::read(name).map_err(|error| error.to_string()))?
                .map_err(Into::into)
        };
        Ok(Look {
            wire: device(Host::Peer, self.way.wire())?,
            device: device(self.way.receiver(), self.way.device())?,
            own: machine::workers()?,
            all: machine::busy_seconds()?,
        })
    }

    pub(crate) fn finish(self) -> Result<()> {
        let Some(attached) = self.attached else { return Ok(()) };
        attached.stop();
        let (_, failures) = attached.finish();
        failures.into_iter().next().map_or(Ok(()), |failure| Err(failure.into()))
    }
}

/// Values that are read before and after.
struct Look {
    wire: Device,
    device: Device,
    own: Cpu,
    all: f64,
}

/// Joins the host's sockets to a device in the receiver, and waits for that.
fn start_passt(lab: &Lab) -> Result<Running> {
    lab.make(Host::Beyond)?;
    lab.add_address(Host::Own, CABLE)?;
    let (own, peer) = (Host::Own.address().to_string(), Host::Peer.address().to_string());
    // It takes the interface of the default route.
    let route = ["route", "add", "default", "via", &peer];
    if !lab.command(Host::Own, "ip").args(route).status()?.success() {
        return Err("`ip route` has failed".into());
    }
    let (namespace, port) = (lab.namespace_file(Host::Beyond), iperf::PORT.to_string());
    let mut command = lab.command(Host::Own, "pasta");
    command.args(["--foreground", "--runas", "0", "--netns-only", "--config-net"]);
    command.args(["-I", DEVICE, "-a", &own, "-n", "24", "-g", &peer, "-t", &port]);
    command.args(["-u", "none", "-T", "none", "-U", "none", "--netns"]).arg(namespace);
    let passt = Running::start(&mut command)?;
    let begun = Instant::now();
    while lab.enter(Host::Beyond, || UdpSocket::bind((Host::Own.address(), 0)).is_err())? {
        if begun.elapsed() > START {
            return Err("`pasta` has made no device with an address after five seconds".into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(passt)
}

fn attach(lab: &Lab, way: Way, near: &str, offloads: bool) -> Result<Attached> {
    let (is_tap, is_large) = (near == "tap", near == LARGE);
    let name = if is_tap { NEAR_TAP } else { CABLE };
    let far: PortSpec = format!("tap:{DEVICE}").parse()?;
    let kind = if is_large { "packet" } else { near };
    let mut settings = Settings::new(format!("{kind}:{name}").parse()?, far);
    settings.near.offloads = Some(is_large);
    // This process goes on to make and remove hosts.
    settings.keep_rights = true;
    if !offloads {
        settings.merge = Merge::default();
        settings.far.offloads = Some(false);
    }
    let attached = lab.enter(Host::Own, || Prepared::new(settings))??.start();
    if is_tap {
        lab.replace_cable(way.wire())?;
    }
    lab.add_address(Host::Own, DEVICE)?;
    Ok(attached)
}
