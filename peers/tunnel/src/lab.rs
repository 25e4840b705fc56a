//! Two network namespaces and the cable between them, which carries the datagrams of the tunnels.
//!
//! The names contain the process's id. Namespaces are removed at the end and on a signal; those of a process that
//! was killed, when the next makes its own. Processes in them end with this one (`processes.rs`).

use crate::Result;
use linecard_testkit::lab::{End, Namespace, cable};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::Ipv4Addr;
use std::process::Command;

/// Name of both ends of the cable.
const CABLE: &str = "wire";
/// Name of the device of a tunnel, in both namespaces.
pub const DEVICE: &str = "tun0";
/// Bytes of the largest packet of the cable.
const CABLE_MTU: &str = "1500";

/// One of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Sends.
    Near,
    /// Receives.
    Far,
}

impl Side {
    /// Its address on the cable.
    pub fn outer(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 71, 1, 1 + self as u8)
    }

    /// Its address in the tunnel.
    pub fn inner(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 72, 1, 1 + self as u8)
    }
}

/// Both ends.
#[derive(Debug)]
pub struct Lab {
    near: Namespace,
    far: Namespace,
}

impl Lab {
    /// Makes them, with all offloads that the cable has by itself.
    pub fn new() -> Result<Self> {
        let lab = Self { near: Namespace::quiet()?, far: Namespace::quiet()? };
        let end = |namespace| End { namespace, device: CABLE, options: &["mtu", CABLE_MTU] };
        cable(end(&lab.near), end(&lab.far))?;
        for side in [Side::Near, Side::Far] {
            lab.configure(side, CABLE, side.outer(), CABLE_MTU)?;
        }
        Ok(lab)
    }

    /// The namespace of an end.
    pub fn at(&self, side: Side) -> &Namespace {
        match side {
            Side::Near => &self.near,
            Side::Far => &self.far,
        }
    }

    /// Gives a device its address and MTU, and switches it on.
    pub fn configure(&self, side: Side, device: &str, address: Ipv4Addr, mtu: &str) -> Result<()> {
        let namespace = self.at(side);
        namespace.ip(&["address", "add", &format!("{address}/24"), "dev", device])?;
        namespace.ip(&["link", "set", device, "mtu", mtu, "up"])?;
        Ok(())
    }

    /// From now on a signal removes the namespaces and ends this process.
    pub fn remove_on_signal(&self) -> Result<()> {
        let names = [self.near.name().to_owned(), self.far.name().to_owned()];
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        std::thread::spawn(move || {
            let signal = signals.forever().next().unwrap_or(SIGTERM);
            for name in &names {
                // Namespaces that cannot be removed now are removed by the next start.
                let _status = Command::new("ip").args(["netns", "del", name]).status();
            }
            std::process::exit(128 + signal);
        });
        Ok(())
    }
}
