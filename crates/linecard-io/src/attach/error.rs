//! Why ports cannot be connected; each error is one line that says what to do.

use super::heir::MoveError;
use super::links::advice;
use super::settings::PortSpec;
use crate::capture::CaptureError;
use crate::convert::Unknown;
use crate::engine::Failure;
use crate::port::vhost::VhostError;
use crate::port::xdp::XdpError;
use crate::rights::RightsError;
use linecard::packet::LinkType;
use linecard_tun::PortError;
use std::io;
use std::path::PathBuf;

/// Why ports cannot be connected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// A packet socket or TAP device.
    #[error("{0}")]
    Port(#[from] PortError),
    /// An AF_XDP port.
    #[error("{0}")]
    Xdp(#[from] XdpError),
    /// A virtual machine's port.
    #[error("{0}")]
    Vhost(#[from] VhostError),
    /// A thread.
    #[error("{0}")]
    Engine(#[from] Failure),
    /// A capture cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// Its name.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A capture cannot be read or written.
    #[error("{}: {error}", path.display())]
    Capture {
        /// Its name.
        path: PathBuf,
        /// The error.
        error: CaptureError,
    },
    /// No packet of a capture is of a link type that is known.
    #[error("{}: no packet is of a link type that is known", path.display())]
    UnknownLinks {
        /// Its name.
        path: PathBuf,
        /// Its link types, each with its packets.
        links: Unknown,
    },
    /// Captures have no queues.
    #[error(
        "a capture is one sequence of packets, and there are {workers} workers that would each want \
         its own: take `--workers 1`, or `--deployment shared`"
    )]
    Sequence {
        /// Workers with ports of their own.
        workers: usize,
    },
    /// Both ports have one interface.
    #[error("{far} cannot be joined to {near}, which is the same: name two ports")]
    Same {
        /// The near port.
        near: Box<PortSpec>,
        /// The far port.
        far: Box<PortSpec>,
    },
    /// Another process has attached the interface.
    #[error(
        "another process has attached {port}: end it first (`pgrep -af 'linecard attach'` lists them), or look on \
         by the option `mirror` of packet:"
    )]
    Claimed {
        /// The port.
        port: Box<PortSpec>,
    },
    /// The port has fewer queues than there are workers.
    #[error(
        "{port} has at most {most} {}, and each of {workers} workers needs one: take `--workers {most}`, \
         or `--deployment shared`",
        if *most == 1 { "queue" } else { "queues" }
    )]
    Queues {
        /// The port.
        port: Box<PortSpec>,
        /// Its queues.
        most: usize,
        /// Workers with ports of their own.
        workers: usize,
    },
    /// The ports of all workers need more memory than there is.
    #[error(
        "{buffers} buffers for each port, with ports for {workers} {}, take at least {needed} bytes of memory, \
         and {available} are available: take fewer `--buffers`, or fewer `--workers`",
        if *workers == 1 { "worker" } else { "workers" }
    )]
    Memory {
        /// Workers with ports of their own.
        workers: usize,
        /// Buffers of each port.
        buffers: usize,
        /// The need of all, in bytes.
        needed: u64,
        /// The memory available, in bytes.
        available: u64,
    },
    /// Privileges cannot be dropped.
    #[error("{0}")]
    Rights(#[from] RightsError),
    /// Addresses and routes cannot be moved.
    #[error("addresses were not moved: {0}")]
    Addresses(MoveError),
    /// Addresses and routes that were moved cannot be given back.
    #[error("{0}")]
    NotGivenBack(MoveError),
    /// A setting is out of its range.
    #[error("{what} is {value}: choose {range}")]
    Setting {
        /// Which.
        what: &'static str,
        /// The value given.
        value: usize,
        /// The values allowed.
        range: &'static str,
    },
    /// A thread has ended without a reason: a bug.
    #[error("a thread has ended before it had its ports; please report this")]
    Ended,
    /// The ports have different link types.
    #[error(
        "{} has {} and {} has {}, so they cannot be joined: {}",
        ports[0],
        words(links[0]),
        ports[1],
        words(links[1]),
        advice(ports, links)
    )]
    Links {
        /// The near and the far port.
        ports: [Box<PortSpec>; 2],
        /// Their link types.
        links: [LinkType; 2],
    },
    /// Not possible.
    #[error("{what} cannot be attached")]
    Unsupported {
        /// What.
        what: &'static str,
    },
}

impl From<MoveError> for AttachError {
    fn from(error: MoveError) -> Self {
        match error {
            MoveError::NotBack(_) | MoveError::Killed { .. } => Self::NotGivenBack(error),
            error => Self::Addresses(error),
        }
    }
}

/// Names of packets by link type.
fn words(link: LinkType) -> &'static str {
    match link {
        LinkType::Ethernet => "Ethernet frames",
        LinkType::Raw => "bare IP packets",
        LinkType::Loopback => "packets of a BSD loopback",
        LinkType::LinuxSll | LinkType::LinuxSll2 => "packets of Linux's `any` interface (SLL)",
        LinkType::Other => "packets of an unknown link type",
    }
}
