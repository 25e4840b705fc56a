//! The network of a measurement: a virtual cable between two namespaces, or the loopback interface.

use super::{Conditions, Receive, SessionError};
use crate::linux::generator::{Generator, GeneratorConfig};
use crate::linux::setting::mask;
use crate::linux::sink::{Sink, SinkConfig};
use crate::linux::toggle::napi_threads;
use linecard_io::lab::{CABLE, Cable, Host, Lab};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

/// Shortest deferral: the duration of a poll is subtracted from the requested period.
pub(super) const SHORTEST: Duration = Duration::from_micros(10);
/// First estimate of the duration of a poll: the kernel starts its timer at the end of it.
pub(super) const POLL: Duration = Duration::from_micros(4);
/// Time for both ends to learn each other's hardware addresses after the first packet.
const INTRODUCTION: Duration = Duration::from_millis(20);

/// The network that carries the stream.
#[derive(Debug)]
pub enum TestNetwork {
    /// Two namespaces and a cable between them.
    Cable(Lab),
    /// The loopback interface: needs no rights, and has none of the cable's settings.
    Loopback,
}

impl TestNetwork {
    /// Creates two namespaces and a cable; dropping the value removes them.
    ///
    /// # Errors
    ///
    /// The process is not root.
    pub fn cable() -> Result<Self, SessionError> {
        let lab = Lab::new(Cable { mtu: 9_000, ..Cable::default() })?;
        lab.add_address(Host::Own, CABLE)?;
        Ok(Self::Cable(lab))
    }

    /// Name for people.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Cable(_) => "a virtual cable between two namespaces",
            Self::Loopback => "the loopback interface",
        }
    }

    /// The interface that the sink receives at, and the file of its namespace.
    #[must_use]
    pub fn interface(&self) -> Option<(&'static str, PathBuf)> {
        match self {
            Self::Cable(lab) => Some((CABLE, lab.namespace_file(Host::Own))),
            Self::Loopback => None,
        }
    }

    pub(super) fn sink_address(&self) -> SocketAddr {
        match self {
            Self::Cable(_) => (Host::Own.address(), 0).into(),
            Self::Loopback => (Ipv4Addr::LOCALHOST, 0).into(),
        }
    }

    /// Configures the cable as the conditions say.
    ///
    /// # Errors
    ///
    /// The loopback interface does not support these conditions.
    pub fn prepare(&self, conditions: &Conditions) -> Result<(), SessionError> {
        let Self::Cable(lab) = self else {
            let needs_cable =
                conditions.deferral.is_some() || conditions.receive != Receive::Sender;
            return if needs_cable { Err(SessionError::Loopback) } else { Ok(()) };
        };
        let queue = format!("/sys/class/net/{CABLE}/queues/rx-0/rps_cpus");
        let mask = match conditions.receive {
            Receive::Sink => mask(&[conditions.cores.sink.into()]),
            _ => "0".to_owned(),
        };
        lab.set(Host::Own, &queue, &mask)?;
        let is_threaded = matches!(conditions.receive, Receive::Thread { .. });
        // A veth interface polls (NAPI) only with GRO on, and that needs TSO off at the peer.
        let polls = is_threaded || conditions.deferral.is_some() || conditions.is_polled;
        // Settings of polling can be written only while the interface polls.
        lab.features(Host::Own, CABLE, &["gro", "on"])?;
        let setting = |name: &str| format!("/sys/class/net/{CABLE}/{name}");
        lab.set(Host::Own, &setting("threaded"), if is_threaded { "1" } else { "0" })?;
        let timeout = conditions
            .deferral
            .map_or(Duration::ZERO, |period| period.saturating_sub(POLL).max(SHORTEST));
        self.put_off(timeout)?;
        let defer = u32::from(conditions.deferral.is_some());
        lab.set(Host::Own, &setting("napi_defer_hard_irqs"), &defer.to_string())?;
        if let Receive::Thread { core } = conditions.receive {
            pin_poller(core)?;
        }
        if !polls {
            lab.features(Host::Own, CABLE, &["gro", "off"])?;
        }
        Ok(())
    }

    /// Sets the minimum time from one poll to the next (`gro_flush_timeout`).
    pub(super) fn put_off(&self, timeout: Duration) -> Result<(), SessionError> {
        let Self::Cable(lab) = self else { return Ok(()) };
        let path = format!("/sys/class/net/{CABLE}/gro_flush_timeout");
        Ok(lab.set(Host::Own, &path, &timeout.as_nanos().to_string())?)
    }

    pub(super) fn sink(
        &self,
        _conditions: &Conditions,
        config: SinkConfig,
    ) -> Result<Sink, SessionError> {
        Ok(match self {
            Self::Cable(lab) => lab.enter(Host::Own, || Sink::open(config))??,
            Self::Loopback => Sink::open(config)?,
        })
    }

    pub(super) fn generator(&self, config: GeneratorConfig) -> Result<Generator, SessionError> {
        Ok(match self {
            Self::Cable(lab) => lab.enter(Host::Peer, || Generator::open(config))??,
            Self::Loopback => Generator::open(config)?,
        })
    }

    /// Lets both ends resolve each other's addresses before the measurement.
    pub(super) fn introduce(&self, target: SocketAddr) -> Result<(), SessionError> {
        let Self::Cable(lab) = self else { return Ok(()) };
        lab.enter(Host::Peer, || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.send_to(b"hello", target)
        })??;
        std::thread::sleep(INTRODUCTION);
        Ok(())
    }
}

/// Pins the kernel thread that polls the cable's end.
fn pin_poller(core: u16) -> Result<(), SessionError> {
    let failed = |source| SessionError::Pin { interface: CABLE.to_owned(), source };
    if usize::from(core) >= CpuSet::MAX_CPU {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    }
    // Other labs may have such threads too; ours was created last.
    let newest = napi_threads(CABLE).into_iter().max();
    let process = newest.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
    let mut set = CpuSet::new();
    set.set(core.into());
    sched_setaffinity(rustix::process::Pid::from_raw(process.cast_signed()), &set)
        .map_err(|error| failed(error.into()))
}

#[cfg(test)]
mod tests {
    /// Before any thread is looked for.
    #[test]
    fn a_core_beyond_all_is_refused() {
        assert!(super::pin_poller(u16::MAX).is_err());
    }

    #[test]
    fn masks_are_in_groups() {
        assert_eq!(super::mask(&[0]), "1");
        assert_eq!(super::mask(&[31]), "80000000");
        assert_eq!(super::mask(&[33]), "2,00000000");
    }
}
