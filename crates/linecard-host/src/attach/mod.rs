//! Two ports joined: the offloads on live interfaces.
//!
//! Between the *near* port, which stands for the wire, and the *far* one, which stands for the host,
//! packets are merged (LRO) as a network adapter does. What the far port gives in large packets is cut
//! (LSO) by the near one.
//!
//! [`Prepared::new`] opens the ports, on the threads that will use them, and changes nothing that does
//! not go with them: devices, programs and memberships are the kernel's to remove when the process
//! ends, however that happens. Before [`Prepared::start`] the process can give up its rights.
//!
//! ```no_run
//! use linecard_host::attach::{Prepared, Settings};
//!
//! let prepared = Prepared::new(Settings::new("xdp:eth0".parse()?, "tap:lc0".parse()?))?;
//! let attached = prepared.start();
//! std::thread::sleep(std::time::Duration::from_secs(10));
//! attached.stop();
//! let (account, failures) = attached.finish();
//! println!("{:.1} packets merged into one", linecard_host::attach::Account::merged(&account.inward).mean_aggregate());
//! assert!(failures.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod board;
mod gate;
mod join;
mod open;
mod settings;

pub use board::{Account, Merged};
pub use settings::{Deployment, Merge, PortKind, PortSpec, Settings, SpecError};

use crate::engine::{self, Engine, Failure};
use crate::port::xdp::{Attachment, XdpError};
use crate::port::{LocalPool, PortError, SharedPool, interface};
use crate::rights::RightsError;
use board::{Board, Side};
use gate::{Gate, Told};
use join::Joined;
use linecard::packet::Pool;
use open::Opening;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant as Clock};

/// Why ports cannot be joined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// A packet socket or TAP device.
    #[error("{0}")]
    Port(#[from] PortError),
    /// An AF_XDP port.
    #[error("{0}")]
    Xdp(#[from] XdpError),
    /// A thread.
    #[error("{0}")]
    Engine(#[from] Failure),
    /// Rights cannot be given up.
    #[error("{0}")]
    Rights(#[from] RightsError),
    /// A setting is out of its range.
    #[error("{what} is {value}: choose {range}")]
    Setting {
        /// Which.
        what: &'static str,
        /// What it is.
        value: usize,
        /// What it may be.
        range: &'static str,
    },
    /// More queues receive than there are workers for.
    #[error(
        "`{interface}` has {queues} receive queues and there are {workers} workers: the packets of \
         the others would stay with the kernel; take `--workers {queues}`, or `ethtool -L \
         {interface} combined {workers}`"
    )]
    Queues {
        /// The interface.
        interface: String,
        /// Its receive queues.
        queues: usize,
        /// Workers that could each have one.
        workers: usize,
    },
    /// A thread has ended and has not said why: a bug.
    #[error("a thread has ended before it had its ports; please report this")]
    Ended,
    /// Not possible.
    #[error("{what} cannot be attached")]
    Unsupported {
        /// What.
        what: &'static str,
    },
}

/// Open ports, and threads that wait to begin.
#[derive(Debug)]
pub struct Prepared {
    attached: Attached,
    opened: Vec<String>,
}

/// Ports that are joined.
#[derive(Debug)]
pub struct Attached {
    engine: Engine<()>,
    board: Arc<Board>,
    gate: Arc<Gate>,
    begun: Clock,
}

impl Prepared {
    /// Opens the ports in the calling thread's network namespace. A TAP device that was not there gets
    /// the near interface's MTU and address, and is brought up.
    ///
    /// # Errors
    ///
    /// The first thing that goes wrong; nothing stays open then. See [`AttachError`].
    pub fn new(settings: Settings) -> Result<Self, AttachError> {
        check(&settings)?;
        let device = NewDevice::of(&settings);
        let ports = match settings.deployment {
            Deployment::Inline => usize::from(settings.engine.workers.max(1)),
            Deployment::Shared | Deployment::Dedicated => 1,
        };
        let workers = usize::from(settings.engine.workers.max(1));
        let threads = match settings.deployment {
            Deployment::Inline => workers,
            Deployment::Shared => workers + 1,
            Deployment::Dedicated => workers + 2,
        };
        let board = Board::new(ports, workers);
        let (told, listening) = channel();
        let (board, gate) = (Arc::new(board), Arc::new(Gate::new(told)));
        let deployment = settings.deployment;
        let config = settings.engine.clone();
        let near = opening(&settings, Side::Near, ports)?;
        let far = opening(&settings, Side::Far, ports)?;
        let shown = (Arc::clone(&board), Arc::clone(&gate));
        let engine = match deployment {
            Deployment::Inline => {
                let pool = |buffers, len| LocalPool(Pool::new(buffers, len));
                engine::inline(
                    &config,
                    &Arc::new(Joined { near, far, settings, board, gate, pool }),
                )
            }
            Deployment::Shared | Deployment::Dedicated => {
                let pool = SharedPool::new;
                let join = Arc::new(Joined { near, far, settings, board, gate, pool });
                if deployment == Deployment::Shared {
                    engine::shared(&config, &join)
                } else {
                    engine::dedicated(&config, &join)
                }
            }
        };
        let (board, gate) = shown;
        let engine = engine.inspect_err(|_| gate.give_up())?;
        let attached = Attached { engine, board, gate, begun: Clock::now() };
        match attached.listen(&listening, threads).and_then(|opened| {
            device.configure()?;
            Ok(opened)
        }) {
            Ok(opened) => Ok(Self { attached, opened }),
            Err(error) => Err(attached.give_up(error)),
        }
    }

    /// What was opened, a line for each port.
    #[must_use]
    pub fn opened(&self) -> &[String] {
        &self.opened
    }

    /// Begins.
    #[must_use]
    pub fn start(self) -> Attached {
        self.attached.gate.open();
        Attached { begun: Clock::now(), ..self.attached }
    }
}

impl Attached {
    /// Waits until so many threads have all their ports.
    fn listen(
        &self,
        told: &Receiver<Told>,
        mut waiting: usize,
    ) -> Result<Vec<String>, AttachError> {
        let mut opened = Vec::new();
        while waiting > 0 {
            // In this order: what a thread has told before its end is heard.
            let has_ended = self.engine.has_ended();
            match told.recv_timeout(Duration::from_millis(20)) {
                Ok(Told::Opened(what)) => opened.push(what),
                Ok(Told::Ready) => waiting -= 1,
                Ok(Told::Failed(error)) => return Err(error),
                Err(RecvTimeoutError::Timeout) if !has_ended => {}
                Err(_) => return Err(AttachError::Ended),
            }
        }
        Ok(opened)
    }

    /// Ends all threads before they have begun; gives what has gone wrong. A thread that cannot be
    /// pinned, or has panicked, tells when it is joined.
    fn give_up(self, error: AttachError) -> AttachError {
        self.gate.give_up();
        self.stop();
        let failure = self.engine.join().into_iter().find_map(Result::err);
        match (error, failure) {
            (AttachError::Ended, Some(failure)) => failure.into(),
            (error, _) => error,
        }
    }

    /// What has been done until some 50 ms ago.
    #[must_use]
    pub fn account(&self) -> Account {
        self.board.account()
    }

    /// Time since the beginning.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Whether a thread has ended, or all are about to: a port is gone, a thread has failed, or
    /// somebody has stopped it.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.engine.has_ended() || self.engine.stopper().is_stopping()
    }

    /// Lets go what is held and ends; who takes nothing is waited for one second.
    pub fn stop(&self) {
        self.engine.stop();
    }

    /// Waits for the end; gives the final account, and what went wrong in threads.
    #[must_use]
    pub fn finish(self) -> (Account, Vec<Failure>) {
        self.gate.open();
        let failures = self.engine.join().into_iter().filter_map(Result::err).collect();
        (self.board.account(), failures)
    }
}

fn check(settings: &Settings) -> Result<(), AttachError> {
    let (what, value) = ("buffers", settings.buffers);
    if !Settings::BUFFERS.contains(&value) {
        return Err(AttachError::Setting { what, value, range: "128 to 1048576" });
    }
    Ok(())
}

/// How a port is opened by threads; what is opened once for all of them is opened here.
fn opening(settings: &Settings, side: Side, shares: usize) -> Result<Opening, AttachError> {
    let spec = if side == Side::Near { &settings.near } else { &settings.far };
    let attachment = match &spec.kind {
        PortKind::Xdp(name) => {
            let queues = interface::receive_queues(name)?;
            if queues > shares {
                let (interface, workers) = (name.clone(), shares);
                return Err(AttachError::Queues { interface, queues, workers });
            }
            Some(Attachment::new(name)?)
        }
        _ => None,
    };
    let buffers = settings.buffers;
    Ok(Opening { spec: spec.clone(), side, shares, buffers, attachment })
}

/// A TAP or TUN device that is made: it becomes like the interface that it stands for.
struct NewDevice {
    device: Option<String>,
    /// The near interface, and whether it takes frames for any address.
    like: Option<(String, bool)>,
}

impl NewDevice {
    fn of(settings: &Settings) -> Self {
        let device = settings
            .far
            .device()
            .filter(|name| interface::exists(name).is_ok_and(|exists| !exists));
        let near = &settings.near;
        let like = near.interface().map(|name| (name.to_owned(), near.promiscuous));
        Self { device: device.map(str::to_owned), like }
    }

    fn configure(self) -> Result<(), PortError> {
        let Some(device) = self
            .device
            .as_deref()
            .filter(|name| interface::exists(name).is_ok_and(|exists| exists))
        else {
            return Ok(());
        };
        if let Some((like, promiscuous)) = &self.like {
            interface::set_mtu(device, interface::mtu(like)?)?;
            // A TUN device has no address.
            if !promiscuous && interface::mac(device).is_ok() {
                interface::set_mac(device, interface::mac(like)?)?;
            }
        }
        interface::set_up(device, true)
    }
}
