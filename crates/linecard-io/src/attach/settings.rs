//! Configuration of an attachment.

use crate::engine;
use crate::port::vhost::MAX_PAIRS;
use crate::rights::Account;
use linecard::offload::{active_ack, coalesce, resequence};
use linecard::packet::LinkType;
use linecard_tun::PortError;
use linecard_tun::interface::{self, check_name};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The assignment of work to threads; see [`crate::engine`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deployment {
    /// Each worker has its own queues of both ports.
    #[default]
    Inline,
    /// One thread serves both ports, workers merge.
    Shared,
    /// One thread per port, workers merge.
    Dedicated,
}

/// The directions in which packets are merged (LRO).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Merge {
    /// From the near port to the far one.
    pub ingress: bool,
    /// From the far port to the near one.
    pub egress: bool,
}

impl Merge {
    /// Only from the near port to the far one, as a network adapter does.
    pub const INGRESS: Self = Self { ingress: true, egress: false };
}

/// A port by kind and name.
///
/// ```
/// use linecard_io::attach::{PortKind, PortSpec};
/// let spec: PortSpec = "tap:lc0,no-offloads".parse()?;
/// assert_eq!((&spec.kind, spec.offloads), (&PortKind::Tap("lc0".into()), Some(false)));
/// assert_eq!(spec.to_string(), "tap:lc0");
/// # Ok::<(), linecard_io::attach::SpecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSpec {
    /// Its kind and name.
    pub kind: PortKind,
    /// Whether the kernel, or the guest, exchanges large packets with the port: by default at the
    /// far port, not at the near one, which stands for the wire, and always with a guest.
    pub offloads: Option<bool>,
    /// AF_XDP: use copy mode even where zero-copy is possible.
    pub copy: bool,
    /// AF_XDP: receive in the kernel's general path even where the driver has one of its own.
    pub generic: bool,
    /// Packet socket: receives frames for other MAC addresses too.
    pub promiscuous: bool,
    /// Packet socket: the kernel's own stack receives the packets too.
    pub mirror: bool,
    /// Capture: packets are replayed at their recorded intervals instead of at full speed.
    pub recorded: bool,
    /// Virtual machine: its front end listens at the socket, and this process connects.
    pub client: bool,
    /// Virtual machine: the port ends when the front end leaves.
    pub once: bool,
    /// Virtual machine: queue pairs that are offered; by default one per worker.
    pub queues: Option<usize>,
}

/// Kinds of port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortKind {
    /// An interface by AF_XDP.
    Xdp(String),
    /// An interface by a packet socket.
    Packet(String),
    /// A TAP device (Ethernet), created if it does not exist.
    Tap(String),
    /// A TUN device (IP packets), created if it does not exist.
    Tun(String),
    /// A virtual machine, whose front end is at this socket (vhost-user).
    Vhost(PathBuf),
    /// A capture: read as near port, written as far port.
    File(PathBuf),
}

/// Why a port cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No such kind.
    #[error(
        "port `{0}`: write KIND:NAME, where KIND is xdp, packet, tap, tun, vhost or file, for \
         example xdp:eth0 or tap:lc0; `linecard ports` lists what there is"
    )]
    Kind(String),
    /// No such option.
    #[error(
        "port option `{0}`: choose one of offloads (not with xdp) and no-offloads, copy or generic (xdp), \
         promiscuous or mirror (packet), client, once or queues=N with 1 to 64 (vhost), recorded (file)"
    )]
    Option(String),
    /// No interface can have this name.
    #[error("{}", PortError::BadName { name: name.clone() })]
    Name {
        /// The name.
        name: String,
    },
}

impl PortSpec {
    /// A port with default options.
    #[must_use]
    pub fn new(kind: PortKind) -> Self {
        Self {
            kind,
            offloads: None,
            copy: false,
            generic: false,
            promiscuous: false,
            mirror: false,
            recorded: false,
            client: false,
            once: false,
            queues: None,
        }
    }

    /// The interface, if the kind requires an existing one.
    #[must_use]
    pub fn interface(&self) -> Option<&str> {
        match &self.kind {
            PortKind::Xdp(name) | PortKind::Packet(name) => Some(name),
            _ => None,
        }
    }

    /// The interface, whether or not it exists already.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.interface().or_else(|| self.device())
    }

    /// Replaces an alternative name of an interface by its own, which settings of the system use.
    pub(super) fn resolve(&mut self) {
        if let PortKind::Xdp(name)
        | PortKind::Packet(name)
        | PortKind::Tap(name)
        | PortKind::Tun(name) = &mut self.kind
            && let Ok(own) = interface::resolve(name)
        {
            *name = own;
        }
    }

    /// The capture, if the port is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match &self.kind {
            PortKind::File(path) => Some(path),
            _ => None,
        }
    }

    /// The link type, if the kind determines it.
    pub(super) fn link(&self) -> Option<LinkType> {
        match &self.kind {
            PortKind::Xdp(_) | PortKind::Tap(_) | PortKind::Vhost(_) => Some(LinkType::Ethernet),
            PortKind::Tun(_) => Some(LinkType::Raw),
            PortKind::Packet(_) | PortKind::File(_) => None,
        }
    }

    /// The TUN or TAP device, if the port is one.
    #[must_use]
    pub fn device(&self) -> Option<&str> {
        match &self.kind {
            PortKind::Tap(name) | PortKind::Tun(name) => Some(name),
            _ => None,
        }
    }
}

impl FromStr for PortSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let unknown = || SpecError::Kind(text.to_owned());
        let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
        if kind == "file" {
            // Other commas are part of the name.
            let name = rest.strip_suffix(",recorded");
            let path = name.unwrap_or(rest);
            if path.is_empty() {
                return Err(unknown());
            }
            let recorded = name.is_some();
            return Ok(Self { recorded, ..Self::new(PortKind::File(path.into())) });
        }
        let mut parts = rest.split(',');
        let name = parts.next().filter(|name| !name.is_empty()).ok_or_else(unknown)?.to_owned();
        let mut spec = Self::new(match kind {
            "xdp" => PortKind::Xdp(name),
            "packet" => PortKind::Packet(name),
            "tap" => PortKind::Tap(name),
            "tun" => PortKind::Tun(name),
            "vhost" => PortKind::Vhost(name.into()),
            _ => return Err(unknown()),
        });
        if let Some(name) = spec.name() {
            check_name(name).map_err(|_| SpecError::Name { name: name.to_owned() })?;
        }
        for option in parts {
            match (option, &spec.kind) {
                ("offloads", kind)
                    if spec.offloads.is_none() && !matches!(kind, PortKind::Xdp(_)) =>
                {
                    spec.offloads = Some(true);
                }
                ("no-offloads", _) if spec.offloads.is_none() => spec.offloads = Some(false),
                ("copy", PortKind::Xdp(_)) => spec.copy = true,
                ("generic", PortKind::Xdp(_)) => spec.generic = true,
                ("promiscuous", PortKind::Packet(_)) => spec.promiscuous = true,
                ("mirror", PortKind::Packet(_)) => spec.mirror = true,
                ("client", PortKind::Vhost(_)) => spec.client = true,
                ("once", PortKind::Vhost(_)) => spec.once = true,
                (_, PortKind::Vhost(_)) => spec.queues = Some(queues(option)?),
                _ => return Err(SpecError::Option(option.to_owned())),
            }
        }
        Ok(spec)
    }
}

/// The number in `queues=N`.
fn queues(option: &str) -> Result<usize, SpecError> {
    let number = option.strip_prefix("queues=").and_then(|number| number.parse().ok());
    let number = number.filter(|number| (1..=MAX_PAIRS).contains(number));
    number.ok_or_else(|| SpecError::Option(option.to_owned()))
}

impl fmt::Display for PortSpec {
    /// Kind and name, without options.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            PortKind::Xdp(name) => write!(f, "xdp:{name}"),
            PortKind::Packet(name) => write!(f, "packet:{name}"),
            PortKind::Tap(name) => write!(f, "tap:{name}"),
            PortKind::Tun(name) => write!(f, "tun:{name}"),
            PortKind::Vhost(path) => write!(f, "vhost:{}", path.display()),
            PortKind::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

/// The configuration of an attachment.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The port that stands for the wire.
    pub near: PortSpec,
    /// The port that stands for the host.
    pub far: PortSpec,
    /// The assignment of work to threads.
    pub deployment: Deployment,
    /// Number of threads, cores, scheduling class and idle policy. The steering key is replaced by a
    /// random one.
    pub engine: engine::Config,
    /// The directions in which packets are merged.
    pub merge: Merge,
    /// Parameters of merging. By default, packets of quiet flows are not held beyond a batch. Its
    /// secret, like those of the other two, is replaced by a random one, and limits are reduced so
    /// that each port keeps buffers to receive into.
    pub coalesce: coalesce::Config,
    /// Resequencing of data before merging, if any.
    pub resequence: Option<resequence::Config>,
    /// Acknowledgment of data from the near port on behalf of its receiver, if any.
    pub active_ack: Option<active_ack::Config>,
    /// Whether the packets that are to be merged are counted by flow, which takes time per packet. Default: no.
    pub flows: bool,
    /// Buffers per port, or per worker's port: 128 to 1,048,576. Default: 8,192, of which three
    /// quarters may be held.
    pub buffers: usize,
    /// Whether the addresses of the near interface, and the routes through it, are moved to the far
    /// device until the end. Default: no.
    pub take_addresses: bool,
    /// Whether threads keep their privileges when they start. Default: no, as
    /// [`rights::drop_all`](crate::rights::drop_all) requires.
    pub keep_rights: bool,
    /// The owner of a capture that is written: only a user who may create it can complete it.
    /// Default: the user of this process, which changes nothing.
    pub owner: Option<Account>,
}

impl Settings {
    /// The range of [`Settings::buffers`].
    pub const BUFFERS: std::ops::RangeInclusive<usize> = 128..=1 << 20;

    /// Two ports with default settings: one worker that merges packets from the near port.
    #[must_use]
    pub fn new(near: PortSpec, far: PortSpec) -> Self {
        Self {
            near,
            far,
            deployment: Deployment::default(),
            engine: engine::Config {
                scheduling: engine::Scheduling::Automatic,
                idle: engine::Idle::Interrupt,
                ..engine::Config::default()
            },
            merge: Merge::INGRESS,
            coalesce: coalesce::Config {
                flush_quiet_at_batch_end: true,
                ..coalesce::Config::default()
            },
            resequence: None,
            active_ack: None,
            flows: false,
            buffers: 8_192,
            take_addresses: false,
            keep_rights: false,
            owner: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_that_a_batch_releases_fit_into_the_receive_ring() {
        use super::super::open::RECEIVE_SLOTS;
        // An acknowledgment of 64 KiB releases 45 packets, in slow start twice as many.
        let settings = Settings::new(
            PortSpec::new(PortKind::Xdp("a".into())),
            PortSpec::new(PortKind::Tap("b".into())),
        );
        assert!(settings.engine.batch * 2 * 45 <= RECEIVE_SLOTS as usize);
    }

    #[test]
    fn ports_are_understood_or_refused_with_what_to_write() {
        let spec: PortSpec = "xdp:eth0,copy".parse().expect("good");
        assert!(spec.copy && spec.interface() == Some("eth0") && spec.offloads.is_none());
        let file: PortSpec = "file:a,b.pcapng".parse().expect("good");
        assert_eq!((file.to_string().as_str(), file.recorded), ("file:a,b.pcapng", false));
        let file: PortSpec = "file:a,b,recorded".parse().expect("good");
        assert_eq!((file.to_string().as_str(), file.recorded), ("file:a,b", true));
        let spec: PortSpec = "vhost:/run/vm1,client,once,queues=4".parse().expect("good");
        assert!(spec.client && spec.once && spec.queues == Some(4) && spec.offloads.is_none());
        assert_eq!(spec.to_string(), "vhost:/run/vm1");
        for bad in ["eth0", "tap:", "foo:bar", "file:", "file:,recorded", ""] {
            let text = bad.parse::<PortSpec>().expect_err("bad").to_string();
            assert!(text.contains(&format!("`{bad}`")) && text.contains("KIND:NAME"), "{text}");
        }
        assert!("tap:a,offloads,no-offloads".parse::<PortSpec>().is_err());
        let name = "xdp:/etc/passwd".parse::<PortSpec>().expect_err("bad");
        assert!(matches!(&name, SpecError::Name { name } if name == "/etc/passwd"), "{name}");
        for bad in [
            "tap:a,copy",
            "tap:a,once",
            "xdp:a,offloads",
            "vhost:a,mirror",
            "vhost:a,queues=0",
            "vhost:a,queues=65",
        ] {
            let (_, option) = bad.split_once(',').expect("one");
            let text = bad.parse::<PortSpec>().expect_err("bad").to_string();
            assert!(text.starts_with(&format!("port option `{option}`")), "{text}");
        }
    }
}
