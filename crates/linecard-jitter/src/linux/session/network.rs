//! The network of a measurement: a virtual cable between two namespaces, the loopback interface, or an interface at
//! which a stream of another host arrives.

use super::{Conditions, Receive, SessionError, generator_config};
use crate::linux::audit::{Host as AuditedHost, interrupts_to};
use crate::linux::experiment::Way;
use crate::linux::generator::{Departures, Generator};
use crate::linux::journal::{Journal, JournalError, Restoration, Store};
use crate::linux::remote::{Ready, RemoteError, RemoteSender, Request};
use crate::linux::setting::{Form, Setting, list, mask};
use crate::linux::sink::{Sink, SinkConfig};
use crate::linux::toggle::napi_threads;
use crate::linux::trace::this_thread;
use linecard_io::lab::{CABLE, Cable, Host, Lab};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::borrow::Cow;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, io};

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
    /// A sender on another host, or in another namespace.
    Remote(Box<RemoteNetwork>),
}

/// A sender on another host, and the interface at which its stream arrives.
#[derive(Debug)]
pub struct RemoteNetwork {
    sender: Mutex<RemoteSender>,
    /// The sender's core, if it is not the sender's choice.
    sender_core: Option<u16>,
    address: SocketAddr,
    interface: Option<String>,
    /// Settings of the interface under the present conditions, and what was changed for them.
    settings: Mutex<Settings>,
}

/// Changed settings of an interface.
#[derive(Debug, Default)]
struct Settings {
    journal: Option<Journal>,
    restored: Vec<Restoration>,
}

/// The sender of a stream.
pub(super) enum Source<'n> {
    Local(Generator),
    Remote { network: &'n RemoteNetwork, ready: Ready, length: Duration },
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
    pub fn name(&self) -> Cow<'static, str> {
        match self {
            Self::Cable(_) => "a virtual cable between two namespaces".into(),
            Self::Loopback => "the loopback interface".into(),
            Self::Remote(remote) => remote.name().into(),
        }
    }

    /// The interface that the sink receives at, and the file of its namespace if it is not this process's.
    #[must_use]
    pub fn interface(&self) -> Option<(&str, Option<PathBuf>)> {
        match self {
            Self::Cable(lab) => Some((CABLE, Some(lab.namespace_file(Host::Own)))),
            Self::Loopback => None,
            Self::Remote(remote) => Some((remote.interface.as_deref()?, None)),
        }
    }

    /// The way of the stream.
    #[must_use]
    pub fn way(&self) -> Way {
        match self {
            Self::Cable(_) => Way::Cable,
            Self::Loopback => Way::Loopback,
            Self::Remote(remote) => match &remote.interface {
                None => Way::Unnamed,
                Some(_) if remote.interrupts(0).is_ok() => Way::Adapter,
                Some(_) => Way::Virtual,
            },
        }
    }

    /// Restores the settings that measurements have changed, and returns the state of each; nothing where all of them
    /// end with the network. Dropping the network restores them, too.
    ///
    /// # Errors
    ///
    /// The journal of the settings cannot be read any more.
    pub fn restore(&self) -> Result<Vec<Restoration>, JournalError> {
        let Self::Remote(remote) = self else { return Ok(Vec::new()) };
        let mut settings = lock(&remote.settings);
        settings.restore()?;
        Ok(std::mem::take(&mut settings.restored))
    }

    pub(super) fn sink_address(&self) -> SocketAddr {
        match self {
            Self::Cable(_) => (Host::Own.address(), 0).into(),
            Self::Loopback => (Ipv4Addr::LOCALHOST, 0).into(),
            Self::Remote(remote) => remote.address,
        }
    }

    /// Configures the cable as the conditions say.
    ///
    /// # Errors
    ///
    /// The loopback interface does not support these conditions.
    pub fn prepare(&self, conditions: &Conditions) -> Result<(), SessionError> {
        let needs_interface =
            conditions.deferral.is_some() || conditions.receive != Receive::Sender;
        let lab = match self {
            Self::Cable(lab) => lab,
            Self::Loopback if needs_interface => return Err(SessionError::Loopback),
            Self::Loopback => return Ok(()),
            Self::Remote(remote) => return remote.prepare(conditions),
        };
        if matches!(conditions.receive, Receive::Interrupt { .. }) {
            let why = "it is a virtual cable".to_owned();
            return Err(SessionError::NoInterrupts { interface: CABLE.to_owned(), why });
        }
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
        match self {
            Self::Cable(lab) => {
                let path = format!("/sys/class/net/{CABLE}/gro_flush_timeout");
                Ok(lab.set(Host::Own, &path, &timeout.as_nanos().to_string())?)
            }
            Self::Loopback => Ok(()),
            Self::Remote(remote) => remote.put_off(timeout),
        }
    }

    pub(super) fn sink(
        &self,
        _conditions: &Conditions,
        config: SinkConfig,
    ) -> Result<Sink, SessionError> {
        Ok(match self {
            Self::Cable(lab) => lab.enter(Host::Own, || Sink::open(config))??,
            Self::Loopback | Self::Remote(_) => Sink::open(config)?,
        })
    }

    pub(super) fn source(
        &self,
        conditions: &Conditions,
        target: SocketAddr,
    ) -> Result<Source<'_>, SessionError> {
        let config = generator_config(conditions, target);
        Ok(match self {
            Self::Cable(lab) => Source::Local(lab.enter(Host::Peer, || Generator::open(config))??),
            Self::Loopback => Source::Local(Generator::open(config)?),
            Self::Remote(remote) => {
                let ready = lock(&remote.sender).prepare(&Request {
                    period_ps: conditions.period_ps,
                    count: conditions.count,
                    payload_len: conditions.payload_len,
                    is_sleeping: conditions.sleeping_sender,
                    core: remote.sender_core,
                    fifo: conditions.sender_fifo,
                })?;
                Source::Remote { network: remote, ready, length: conditions.duration() }
            }
        })
    }

    /// Lets both ends resolve each other's addresses before the measurement.
    pub(super) fn introduce(&self, target: SocketAddr) -> Result<(), SessionError> {
        match self {
            Self::Cable(lab) => {
                lab.enter(Host::Peer, || {
                    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
                    socket.send_to(b"hello", target)
                })??;
            }
            Self::Loopback => return Ok(()),
            // Its sender has greeted the target.
            Self::Remote(_) => {}
        }
        std::thread::sleep(INTRODUCTION);
        Ok(())
    }
}

impl RemoteNetwork {
    /// Starts a sender by a command, as [`RemoteSender::start`] does. It sends on this core of its host, or on the first
    /// one, to this address of this host, where the stream arrives at the interface. Without an interface, its settings
    /// are left alone.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn start(
        command: &str,
        sender_core: Option<u16>,
        address: SocketAddr,
        interface: Option<String>,
        stop: &AtomicBool,
    ) -> Result<Self, RemoteError> {
        let sender = Mutex::new(RemoteSender::start(command, address, stop)?);
        Ok(Self { sender, sender_core, address, interface, settings: Mutex::default() })
    }

    /// Whether the sender's times are by another clock than this host's.
    #[must_use]
    pub fn has_own_clock(&self) -> bool {
        lock(&self.sender).has_own_clock()
    }

    fn name(&self) -> String {
        let address = self.address;
        match &self.interface {
            Some(interface) => format!("a remote sender's stream to {address} at {interface}"),
            None => format!("a remote sender's stream to {address}"),
        }
    }

    /// Settings of the interface that these conditions need, with their values.
    fn wanted(&self, conditions: &Conditions) -> Result<Vec<(Setting, String)>, SessionError> {
        let is_found = conditions.receive == Receive::Sender && conditions.deferral.is_none();
        let Some(interface) = &self.interface else {
            return if is_found { Ok(Vec::new()) } else { Err(SessionError::Unnamed) };
        };
        let file =
            |name: &str, form| Setting::file(format!("/sys/class/net/{interface}/{name}"), form);
        let mut wanted = Vec::new();
        if matches!(conditions.receive, Receive::Thread { .. }) || conditions.deferral.is_some() {
            // A veth interface polls (NAPI) only with GRO on.
            wanted.push((Setting::feature(interface.clone(), "rx-gro"), "on".to_owned()));
        }
        match conditions.receive {
            Receive::Sender => {}
            Receive::Sink => {
                let cores = mask(&[conditions.cores.sink.into()]);
                let queues = self.queues().into_iter();
                let mask = |queue| file(&format!("queues/{queue}/rps_cpus"), Form::Mask);
                wanted.extend(queues.map(|queue| (mask(queue), cores.clone())));
            }
            Receive::Thread { .. } => {
                wanted.push((file("threaded", Form::Plain), "1".to_owned()));
            }
            Receive::Interrupt { core } => wanted.extend(self.interrupts(core)?),
        }
        if let Some(period) = conditions.deferral {
            let timeout = period.saturating_sub(POLL).max(SHORTEST);
            wanted.push((file("gro_flush_timeout", Form::Plain), timeout.as_nanos().to_string()));
            wanted.push((file("napi_defer_hard_irqs", Form::Plain), "1".to_owned()));
        }
        Ok(wanted)
    }

    fn prepare(&self, conditions: &Conditions) -> Result<(), SessionError> {
        let wanted = self.wanted(conditions)?;
        let mut settings = lock(&self.settings);
        settings.restore()?;
        let interface = self.interface.as_deref().unwrap_or_default();
        let before = napi_threads(interface);
        for (setting, value) in wanted {
            settings.journal()?.change(&setting, &value)?;
        }
        if let Receive::Thread { core } = conditions.receive {
            // Interfaces of other namespaces may have the same name, and so may their threads.
            let mut threads = napi_threads(interface);
            if threads.iter().any(|thread| !before.contains(thread)) {
                threads.retain(|thread| !before.contains(thread));
            }
            for thread in threads {
                let setting = Setting::thread(thread).map_err(JournalError::from)?;
                settings.journal()?.change(&setting, &list(&[core.into()]))?;
            }
        }
        Ok(())
    }

    fn put_off(&self, timeout: Duration) -> Result<(), SessionError> {
        let Some(interface) = &self.interface else { return Ok(()) };
        let path = format!("/sys/class/net/{interface}/gro_flush_timeout");
        let setting = Setting::file(path, Form::Plain);
        lock(&self.settings).journal()?.change(&setting, &timeout.as_nanos().to_string())?;
        Ok(())
    }

    /// Settings that move all interrupts of the interface to a core.
    fn interrupts(&self, core: u16) -> Result<Vec<(Setting, String)>, SessionError> {
        let interface = self.interface.clone().ok_or(SessionError::Unnamed)?;
        let none = |why: String| SessionError::NoInterrupts { interface: interface.clone(), why };
        let host = AuditedHost::new(Some(core.into()), Some(&interface));
        let found =
            host.and_then(|host| interrupts_to(&host)).map_err(|error| none(error.to_string()))?;
        let found: Vec<_> = found.into_iter().map(|one| (one.setting, one.value)).collect();
        if found.is_empty() { Err(none("it has none".to_owned())) } else { Ok(found) }
    }

    /// Its receive queues, such as `rx-0`.
    fn queues(&self) -> Vec<String> {
        let folder =
            format!("/sys/class/net/{}/queues", self.interface.as_deref().unwrap_or_default());
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.starts_with("rx-")).collect()
    }
}

impl Settings {
    fn journal(&mut self) -> Result<&mut Journal, JournalError> {
        let journal = match self.journal.take() {
            Some(journal) => journal,
            None => Journal::begin(&Store::of_user())?,
        };
        Ok(self.journal.insert(journal))
    }

    fn restore(&mut self) -> Result<(), JournalError> {
        if let Some(journal) = self.journal.take() {
            self.restored.extend(journal.roll_back()?);
        }
        Ok(())
    }
}

impl Source<'_> {
    /// Whether its times are by a clock of its own; if so, it is none of this host's threads.
    pub(super) fn has_own_clock(&self) -> bool {
        matches!(self, Self::Remote { network, .. } if network.has_own_clock())
    }

    /// The conditions under which it sends.
    pub(super) fn applied(&self, conditions: &Conditions) -> Conditions {
        let mut applied = conditions.clone();
        if let Self::Remote { ready, .. } = self {
            applied.cores.generator = ready.core;
            (applied.sender_fifo, applied.sleeping_sender) = (ready.fifo, ready.is_sleeping);
            applied.is_sender_remote = self.has_own_clock();
        }
        applied
    }

    /// The thread that sends, as the trace knows it; 0 if it is on another host.
    pub(super) fn thread(&self) -> u32 {
        match self {
            Self::Local(_) => this_thread(),
            Self::Remote { .. } if self.has_own_clock() => 0,
            Self::Remote { ready, .. } => ready.thread,
        }
    }

    pub(super) fn run(self, stop: &AtomicBool) -> Result<Departures, SessionError> {
        match self {
            Self::Local(generator) => Ok(generator.run(stop)?),
            Self::Remote { network, length, .. } => Ok(lock(&network.sender).run(length, stop)?),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
