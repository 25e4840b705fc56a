//! Two simulated hosts on this machine, for experiments: network namespaces connected by a cable.
//!
//! The *peer* has one end of the cable, with an address and without offloads, so that packets on
//! the cable look as on a wire. The other end, in the *host*, has no address: it is for an
//! attachment, whose TAP device gets the host's address. On request there is a third host, *beyond*
//! the host, to which the host's kernel forwards, as a reference for an attachment. No packet
//! leaves this machine. Namespaces are removed at the end; those of a process that was killed are
//! removed when the next lab is made.
//!
//! Needs root, `ip` (iproute2) and `ethtool`.

mod namespace;

pub use namespace::{Namespace, remove_leftovers};

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Name of the interface at both ends of the cable.
pub const CABLE: &str = "wire";
/// Name of the device that stands for the host's adapter.
pub const DEVICE: &str = "lc0";
/// Name of the interface at both ends of the cable to the third host.
pub const BACK: &str = "back";
/// The host's address on that cable.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 2);

/// One of the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// At the far end of the cable.
    Peer,
    /// Where linecard runs.
    Own,
    /// Behind that host, once [`Lab::forward`] or [`Lab::make`] has made it.
    Beyond,
}

impl Host {
    /// Its address.
    #[must_use]
    pub fn address(self) -> Ipv4Addr {
        match self {
            Self::Peer => Ipv4Addr::new(10, 77, 0, 1),
            Self::Own => Ipv4Addr::new(10, 77, 0, 2),
            Self::Beyond => Ipv4Addr::new(10, 77, 1, 1),
        }
    }

    /// Its address on a lane; see [`Lab::add_lanes`].
    #[must_use]
    pub fn lane_address(self, lane: u8) -> Ipv4Addr {
        let [a, b, _, host] = self.address().octets();
        Ipv4Addr::new(a, b, 10_u8.saturating_add(lane), host)
    }

    /// The unique part of its namespace's name.
    fn part(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Own => "host",
            Self::Beyond => "beyond",
        }
    }
}

/// Properties of the cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cable {
    /// Bytes of the largest IP packet, 68 to 65,535. Default: 1,500.
    pub mtu: u32,
    /// Queues of each end, 1 to 64. Default: 1.
    pub queues: u32,
    /// Whether the peer's TCP segments in software and sets PSH only in the last packet of its
    /// data, as Linux did before 5.4. Default: no.
    pub old_sender: bool,
}

impl Default for Cable {
    fn default() -> Self {
        Self { mtu: 1_500, queues: 1, old_sender: false }
    }
}

/// Why a lab cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A program is missing.
    #[error("`{program}` cannot be run ({source}): install the package {package}")]
    Program {
        /// Its name.
        program: &'static str,
        /// The package that contains it.
        package: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A step is refused.
    #[error("`{command}` failed: {message}; a lab needs root")]
    Refused {
        /// The command.
        command: String,
        /// The last line of its output.
        message: String,
    },
    /// A thread cannot enter a namespace.
    #[error("cannot enter a network namespace: {0}; a lab needs root")]
    Enter(#[from] io::Error),
}

/// Two or three simulated hosts. One lab at a time per process.
///
/// ```no_run
/// use linecard_io::lab::{Cable, Host, Lab};
/// let lab = Lab::new(Cable::default())?;
/// let bound = lab.enter(Host::Peer, || std::net::TcpListener::bind((Host::Peer.address(), 0)))?;
/// # Ok::<(), linecard_io::lab::LabError>(())
/// ```
#[derive(Debug)]
pub struct Lab {
    /// The namespaces of all hosts; the third is made on request.
    namespaces: [Namespace; 3],
}

impl Lab {
    /// Makes both hosts and their cable.
    ///
    /// # Errors
    ///
    /// See [`LabError`]; nothing is left behind.
    pub fn new(cable: Cable) -> Result<Self, LabError> {
        remove_leftovers();
        let namespace = |host: Host| Namespace::named(host.part());
        let lab = Self { namespaces: [Host::Peer, Host::Own, Host::Beyond].map(namespace) };
        for host in [Host::Peer, Host::Own] {
            lab.make(host)?;
        }
        lab.lay(cable)?;
        Ok(lab)
    }

    fn at(&self, host: Host) -> &Namespace {
        &self.namespaces[host as usize]
    }

    /// Makes a host without a cable: the one behind the others.
    ///
    /// # Errors
    ///
    /// See [`LabError`].
    pub fn make(&self, host: Host) -> Result<(), LabError> {
        self.at(host).make()?;
        self.ip(host, &["link", "set", "lo", "up"])
    }

    fn lay(&self, cable: Cable) -> Result<(), LabError> {
        let (peer, own) = (self.at(Host::Peer).name(), self.at(Host::Own).name());
        let (mtu, queues) = (cable.mtu.to_string(), cable.queues.to_string());
        let shape = ["mtu", &mtu, "numrxqueues", &queues, "numtxqueues", &queues];
        let ends = [["netns", peer], ["netns", own]];
        let head = ["link", "add", CABLE];
        let middle = ["type", "veth", "peer", "name", CABLE];
        ip(&[&head, &ends[0][..], &shape, &middle, &ends[1], &shape].concat())?;
        for host in [Host::Peer, Host::Own] {
            self.features(host, CABLE, &["tso", "off", "gso", "off", "gro", "off", "tx", "off"])?;
            self.ip(host, &["link", "set", CABLE, "up"])?;
        }
        if cable.old_sender {
            self.ip(Host::Peer, &["link", "set", CABLE, "gso_max_segs", "1"])?;
        }
        self.add_address(Host::Peer, CABLE)
    }

    /// Adds lanes parallel to the cable: lane `n` of `rates_bits_per_second` is the interface `lane<n>` on both
    /// hosts, with their lane addresses ([`Host::lane_address`]), and sends at its rate by a token
    /// bucket of 16 KB.
    ///
    /// # Errors
    ///
    /// See [`LabError`]; needs `tc`, too.
    pub fn add_lanes(&self, rates_bits_per_second: &[u64]) -> Result<(), LabError> {
        let (peer, own) = (self.at(Host::Peer).name(), self.at(Host::Own).name());
        self.add_address(Host::Own, CABLE)?;
        for (lane, rate_bits_per_second) in (0..=u8::MAX).zip(rates_bits_per_second) {
            let name = lane_name(lane);
            let ends = ["type", "veth", "peer", "name", &name, "netns", own];
            ip(&[&["link", "add", &name, "netns", peer][..], &ends].concat())?;
            for host in [Host::Peer, Host::Own] {
                let address = format!("{}/24", host.lane_address(lane));
                self.ip(host, &["address", "add", &address, "dev", &name])?;
                self.ip(host, &["link", "set", &name, "up"])?;
                self.shape_lane(host, &name, *rate_bits_per_second)?;
            }
        }
        Ok(())
    }

    fn shape_lane(
        &self,
        host: Host,
        name: &str,
        rate_bits_per_second: u64,
    ) -> Result<(), LabError> {
        let rate = format!("{rate_bits_per_second}bit");
        let bucket = ["tbf", "rate", &rate, "burst", "16k", "limit", "200k"];
        let mut tc = self.command(host, "tc");
        let tc = tc.args(["qdisc", "add", "dev", name, "root"]).args(bucket);
        run(tc, "tc", "iproute2")
    }

    /// Disconnects a lane, or connects it again.
    ///
    /// # Errors
    ///
    /// If the lane does not exist.
    pub fn set_lane_up(&self, lane: u8, joined: bool) -> Result<(), LabError> {
        let state = if joined { "up" } else { "down" };
        self.ip(Host::Peer, &["link", "set", &lane_name(lane), state])
    }

    /// Assigns the host's address to an interface.
    ///
    /// # Errors
    ///
    /// If the interface does not exist.
    pub fn add_address(&self, host: Host, interface: &str) -> Result<(), LabError> {
        let address = format!("{}/24", host.address());
        self.ip(host, &["address", "add", &address, "dev", interface])
    }

    /// Switches features of an interface, with the names of `ethtool -K`.
    ///
    /// # Errors
    ///
    /// If the interface or the feature does not exist.
    pub fn features(&self, host: Host, interface: &str, wanted: &[&str]) -> Result<(), LabError> {
        self.at(host).features(interface, wanted)
    }

    /// Makes the host's kernel forward to a third host instead of an attachment. With `gro` it
    /// merges packets received over the cable. The second cable has all offloads.
    ///
    /// # Errors
    ///
    /// See [`LabError`].
    pub fn forward(&self, gro: bool) -> Result<(), LabError> {
        self.make(Host::Beyond)?;
        let (own, beyond) = (self.at(Host::Own).name(), self.at(Host::Beyond).name());
        let ends = ["type", "veth", "peer", "name", BACK, "netns", beyond];
        ip(&[&["link", "add", BACK, "netns", own][..], &ends].concat())?;
        for host in [Host::Own, Host::Beyond] {
            self.ip(host, &["link", "set", BACK, "up"])?;
        }
        self.add_address(Host::Own, CABLE)?;
        self.ip(Host::Own, &["address", "add", &format!("{GATEWAY}/24"), "dev", BACK])?;
        self.add_address(Host::Beyond, BACK)?;
        let own_address = Host::Own.address().to_string();
        self.ip(Host::Peer, &["route", "add", "default", "via", &own_address])?;
        self.ip(Host::Beyond, &["route", "add", "default", "via", &GATEWAY.to_string()])?;
        self.features(Host::Own, CABLE, &["gro", if gro { "on" } else { "off" }])?;
        self.enter(Host::Own, || fs::write("/proc/sys/net/ipv4/ip_forward", "1"))??;
        Ok(())
    }

    /// Gives the peer a device of the host in place of the cable, without offloads: the program
    /// that has the device open receives what the peer sends.
    ///
    /// # Errors
    ///
    /// If the device does not exist.
    pub fn replace_cable(&self, device: &str) -> Result<(), LabError> {
        self.ip(Host::Own, &["link", "set", device, "netns", self.at(Host::Peer).name()])?;
        self.ip(Host::Peer, &["address", "flush", "dev", CABLE])?;
        self.ip(Host::Peer, &["link", "set", device, "up"])?;
        self.features(
            Host::Peer,
            device,
            &["tso", "off", "gso", "off", "gro", "off", "tx", "off"],
        )?;
        self.add_address(Host::Peer, device)
    }

    /// A command to be run on a host.
    #[must_use]
    pub fn command(&self, host: Host, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.at(host).command(program)
    }

    /// The file of a host's namespace.
    #[must_use]
    pub fn namespace_file(&self, host: Host) -> PathBuf {
        self.at(host).file()
    }

    /// Runs `work` on a host, on a thread of its own. Sockets stay in the namespace in which they
    /// were opened.
    ///
    /// # Errors
    ///
    /// If the namespace cannot be entered.
    pub fn enter<T: Send>(
        &self,
        host: Host,
        work: impl FnOnce() -> T + Send,
    ) -> Result<T, LabError> {
        self.at(host).enter(work)
    }

    /// Writes a network setting of a host: a file of /sys or /proc.
    ///
    /// # Errors
    ///
    /// If the setting or the value does not exist.
    pub fn set(&self, host: Host, path: &str, value: &str) -> Result<(), LabError> {
        self.at(host).set(path, value)
    }

    fn ip(&self, host: Host, arguments: &[&str]) -> Result<(), LabError> {
        self.at(host).ip(arguments)
    }
}

fn lane_name(lane: u8) -> String {
    format!("lane{lane}")
}

fn ip(arguments: &[&str]) -> Result<(), LabError> {
    run(Command::new("ip").args(arguments), "ip", "iproute2")
}

fn run(
    command: &mut Command,
    program: &'static str,
    package: &'static str,
) -> Result<(), LabError> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|source| LabError::Program { program, package, source })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let message = said.lines().last().unwrap_or("no message").trim().to_owned();
    let words = command.get_args().map(|word| word.to_string_lossy());
    let words: Vec<_> = std::iter::once(program.into()).chain(words).collect();
    Err(LabError::Refused { command: words.join(" "), message })
}
