//! Connects two ports: the offloads on live interfaces.
//!
//! Between the *near* port, which stands for the wire, and the *far* port, which stands for the
//! host, packets are merged (LRO) as a network adapter does. Large packets received from the far
//! port are segmented (LSO) by the near one.
//!
//! [`Prepared::new`] opens the ports on the threads that will use them. It only makes changes that
//! the kernel reverts when the process ends, for whatever reason: devices, programs and
//! memberships. The process can drop its privileges before [`Prepared::start`].
//!
//! ```no_run
//! use linecard_io::attach::{Prepared, Settings};
//!
//! let prepared = Prepared::new(Settings::new("xdp:eth0".parse()?, "tap:lc0".parse()?))?;
//! let attached = prepared.start();
//! std::thread::sleep(std::time::Duration::from_secs(10));
//! attached.stop();
//! let (account, failures) = attached.finish();
//! println!("{:.1} packets merged into one", linecard_io::attach::AttachStats::merged(&account.ingress).mean_aggregate());
//! assert!(failures.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ack_queue;
mod answer;
mod claim;
mod delay;
mod device;
mod error;
mod files;
mod follow;
mod gate;
mod generated;
mod heir;
mod iproute;
mod join;
mod limits;
mod links;
mod netlink;
mod open;
mod plan;
mod script;
mod settings;
mod stats;
mod unmovable;

pub use error::AttachError;
pub use follow::Follower;
pub use heir::MoveError;
pub use settings::{Deployment, Merge, PortKind, PortSpec, Settings, SpecError};
pub use stats::{AttachStats, AttachStatsHandle, MergeStats, WorkerTotals};

use crate::engine::{self, Class, Engine, OnFull, Scheduling};
use crate::port::vhost::{VhostConfig, VhostDevice};
use crate::port::{LocalPool, SharedPool, Takeover};
use claim::Claim;
use device::Devices;
use gate::{Gate, Keeper, ThreadEvent};
use heir::Moved;
use join::{Joined, secret};
use linecard::packet::{LinkType, Pool};
use linecard_tun::{PortError, interface};
use open::Opening;
use stats::{SharedStats, Side};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant as Clock};

/// Open ports, and threads that wait to start. On drop they are closed as by
/// [`give_up`](Self::give_up), which waits for that.
#[derive(Debug)]
pub struct Prepared {
    attached: Attached,
    opened: Vec<String>,
    obstacles: Vec<String>,
    follower: Option<Follower>,
}

/// Connected ports. On drop they end as by [`stop`](Self::stop), without waiting.
#[derive(Debug)]
pub struct Attached {
    engine: Engine<()>,
    stats: Arc<SharedStats>,
    keeper: Keeper,
    /// Reports of threads when they end.
    told: Mutex<Receiver<ThreadEvent>>,
    begun: Clock,
    /// Keeps packets that packet sockets receive from the kernel's own stack.
    _takeovers: Vec<Takeover>,
    /// Keeps other processes from attaching the interfaces.
    _claims: Vec<Claim>,
    /// Given back at the end.
    moved: Option<Moved>,
}

/// A port that a thread has opened.
struct Opened {
    side: Side,
    /// Its description.
    what: String,
    link: Option<LinkType>,
}

/// Reports of threads until all ports are open.
#[derive(Default)]
struct Listened {
    opened: Vec<Opened>,
    class: Class,
    /// A queue of the far device.
    queue: Option<OwnedFd>,
    /// Findings about interfaces.
    found: Vec<String>,
    /// Those that keep packets from passing.
    obstacles: Vec<String>,
}

impl Listened {
    /// A line for each open port, what was found about interfaces, and a line if threads run in real
    /// time.
    fn lines(self) -> Vec<String> {
        let mut lines: Vec<String> = self.opened.into_iter().map(|opened| opened.what).collect();
        lines.extend(self.found);
        lines.extend(match self.class {
            Class::Ordinary => None,
            Class::Refused => Some(
                "no real-time scheduling of busy threads, which takes root or sys_nice".to_owned(),
            ),
            Class::WhileBusy => Some("real-time scheduling of busy threads".to_owned()),
            Class::Realtime => Some("real-time scheduling".to_owned()),
        });
        lines
    }
}

impl Prepared {
    /// Opens the ports in the calling thread's network namespace. A newly made far device gets the near
    /// interface's MTU and address; every TUN or TAP device is brought up.
    ///
    /// # Errors
    ///
    /// The first error; nothing stays open then. See [`AttachError`].
    pub fn new(mut settings: Settings) -> Result<Self, AttachError> {
        for port in [&mut settings.near, &mut settings.far] {
            port.resolve();
        }
        check(&settings)?;
        let claims = [&settings.near, &settings.far].into_iter().filter_map(Claim::of);
        let claims = claims.collect::<Result<_, _>>()?;
        let are_captures = [&settings.near, &settings.far].map(|port| port.file().is_some());
        if are_captures == [true; 2] && settings.engine.scheduling == Scheduling::Automatic {
            // Nothing is lost when the threads wait.
            settings.engine.scheduling = Scheduling::Normal;
        }
        let (devices, interfaces) = (Devices::of(&settings), to_take_over(&settings));
        let specs = (settings.near.clone(), settings.far.clone());
        let followed = settings.clone();
        let workers = usize::from(settings.engine.workers.max(1));
        let threads = match settings.deployment {
            Deployment::Inline => workers,
            Deployment::Shared => workers + 1,
            Deployment::Dedicated => workers + 2,
        };
        let (told, listening) = channel();
        let stats = Arc::new(SharedStats::new(ports(&settings), workers));
        let gate = Arc::new(Gate::new(told));
        let engine = deploy(settings, &stats, &gate).inspect_err(|_| gate.give_up())?;
        let keeper = Keeper::new(gate, engine.stop_handle());
        let told = Mutex::new(listening);
        let begun = Clock::now();
        let mut attached = Attached {
            engine,
            stats,
            keeper,
            told,
            begun,
            _takeovers: Vec::new(),
            moved: None,
            _claims: claims,
        };
        let listened = attached.listen(threads).and_then(|mut listened| {
            let link = |which| {
                let mut links = listened.opened.iter().filter(|opened| opened.side == which);
                links.find_map(|opened| opened.link)
            };
            links::check([&specs.0, &specs.1], [link(Side::Near), link(Side::Far)])?;
            attached._takeovers = takeovers(&interfaces)?;
            listened.found = devices.configure()?;
            if followed.take_addresses {
                let (moved, said) = heir::take(&followed)?;
                attached.moved = Some(moved);
                listened.found.extend(said);
            }
            listened.obstacles = devices.obstacles();
            for (side, spec) in [(Side::Near, &specs.0), (Side::Far, &specs.1)] {
                spec.device().into_iter().for_each(|name| attached.stats.watch_queue(side, name));
            }
            Ok(listened)
        });
        match listened {
            Ok(mut listened) => {
                let heir = attached.moved.as_ref().and_then(|moved| moved.monitor().ok());
                let follower = Follower::new(&followed, listened.queue.take(), heir);
                let obstacles = std::mem::take(&mut listened.obstacles);
                Ok(Self { attached, opened: listened.lines(), obstacles, follower })
            }
            Err(error) => Err(attached.give_up(error)),
        }
    }

    /// A line for each open port, one for each change to an interface, and one if threads run in real time.
    #[must_use]
    pub fn opened(&self) -> &[String] {
        &self.opened
    }

    /// A line for everything about interfaces that keeps packets from passing.
    #[must_use]
    pub fn obstacles(&self) -> &[String] {
        &self.obstacles
    }

    /// The follower that keeps a far device like the near interface, if the ports are these; it has to be asked to
    /// [look](Follower::look). It can be taken once.
    #[must_use]
    pub fn take_follower(&mut self) -> Option<Follower> {
        self.follower.take()
    }

    /// Closes the ports; a capture to be written is not created.
    pub fn give_up(self) {
        let _why = self.attached.give_up(AttachError::Ended);
    }

    /// Starts the threads.
    #[must_use]
    pub fn start(self) -> Attached {
        self.attached.keeper.open();
        Attached { begun: Clock::now(), ..self.attached }
    }
}

impl Attached {
    /// Waits until the given number of threads have opened all their ports.
    fn listen(&self, mut waiting: usize) -> Result<Listened, AttachError> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut listened = Listened::default();
        while waiting > 0 {
            // Checked first: reports that a thread sent before its end are received below.
            let has_ended = self.engine.has_ended();
            match told.recv_timeout(Duration::from_millis(20)) {
                Ok(ThreadEvent::Opened(side, what, link)) => {
                    listened.opened.push(Opened { side, what, link });
                }
                Ok(ThreadEvent::Queue(Side::Far, queue)) => listened.queue = Some(queue),
                Ok(ThreadEvent::Queue(Side::Near, _)) => {}
                Ok(ThreadEvent::Scheduled(class)) => listened.class = class,
                Ok(ThreadEvent::Ready) => waiting -= 1,
                Ok(ThreadEvent::Failed(error)) => return Err(error),
                Err(RecvTimeoutError::Timeout) if !has_ended => {}
                Err(_) => return Err(AttachError::Ended),
            }
        }
        Ok(listened)
    }

    /// Ends without having started; returns the error. A thread that could not be pinned or has
    /// panicked reports that when it is joined.
    fn give_up(self, error: AttachError) -> AttachError {
        self.keeper.give_up();
        let failure = self.engine.join().into_iter().find_map(Result::err);
        match (error, failure) {
            (AttachError::Ended, Some(failure)) => failure.into(),
            (error, _) => error,
        }
    }

    /// A handle by which other threads read the statistics.
    #[must_use]
    pub fn stats_handle(&self) -> AttachStatsHandle {
        AttachStatsHandle(Arc::clone(&self.stats))
    }

    /// The statistics, at most about 50 ms old.
    #[must_use]
    pub fn stats(&self) -> AttachStats {
        self.stats.account()
    }

    /// Time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Whether a thread has ended, or all are about to: a port is gone, a thread has failed, or it
    /// was stopped.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.engine.has_ended() || self.engine.stop_handle().is_stopping()
    }

    /// Flushes held packets and ends; a port that accepts no packets delays the end by at most one
    /// second.
    pub fn stop(&self) {
        self.engine.stop();
    }

    /// Waits for the end; returns the final statistics and the errors of threads and captures.
    #[must_use]
    pub fn finish(mut self) -> (AttachStats, Vec<AttachError>) {
        // A device may end with the threads, and with it what the kernel counts.
        let _latest = self.stats.account();
        let failures = self.engine.join().into_iter().filter_map(Result::err);
        let mut failures: Vec<AttachError> = failures.map(AttachError::from).collect();
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        failures.extend(told.try_iter().filter_map(|told| match told {
            ThreadEvent::Failed(error) => Some(error),
            ThreadEvent::Opened(..)
            | ThreadEvent::Queue(..)
            | ThreadEvent::Scheduled(_)
            | ThreadEvent::Ready => None,
        }));
        drop(told);
        if let Some(Err(error)) = self.moved.take().map(Moved::give_back) {
            failures.push(AttachError::NotGivenBack(error));
        }
        (self.stats.account(), failures)
    }
}

/// Starts the threads, which open their ports.
fn deploy(
    settings: Settings,
    stats: &Arc<SharedStats>,
    gate: &Arc<Gate>,
) -> Result<Engine<()>, AttachError> {
    let (deployment, config) = (settings.deployment, engine(&settings));
    let near = opening(&settings, Side::Near, gate)?;
    let far = opening(&settings, Side::Far, gate)?;
    let (stats, gate) = (Arc::clone(stats), Arc::clone(gate));
    Ok(match deployment {
        Deployment::Inline => {
            let pool = |buffers, len| LocalPool(Pool::new(buffers, len));
            engine::inline(&config, &Arc::new(Joined { near, far, settings, stats, gate, pool }))?
        }
        Deployment::Shared | Deployment::Dedicated => {
            let pool = SharedPool::new;
            let join = Arc::new(Joined { near, far, settings, stats, gate, pool });
            match deployment {
                Deployment::Shared => engine::shared(&config, &join)?,
                _ => engine::dedicated(&config, &join)?,
            }
        }
    })
}

fn check(settings: &Settings) -> Result<(), AttachError> {
    let (what, value) = ("buffers", settings.buffers);
    if !Settings::BUFFERS.contains(&value) {
        return Err(AttachError::Setting { what, value, range: "128 to 1048576" });
    }
    if settings.far.recorded {
        return Err(AttachError::Unsupported {
            what: "a recorded pace where a capture is written",
        });
    }
    let both = [&settings.near, &settings.far];
    if both[0].name().is_some() && both[0].name() == both[1].name() {
        let [near, far] = both.map(|port| Box::new(port.clone()));
        return Err(AttachError::Same { near, far });
    }
    links::check([both[0], both[1]], [both[0].link(), both[1].link()])?;
    if both.into_iter().filter_map(PortSpec::device).any(|name| name.contains('%')) {
        return Err(AttachError::Unsupported { what: "a device whose name has a `%`" });
    }
    let workers = ports(settings);
    let files = both.into_iter().filter_map(PortSpec::file);
    if workers > 1 && files.count() > 0 {
        return Err(AttachError::Sequence { workers });
    }
    limits::check(both, workers, settings.buffers)
}

/// Number of ports at each end.
fn ports(settings: &Settings) -> usize {
    match settings.deployment {
        Deployment::Inline => usize::from(settings.engine.workers.max(1)),
        Deployment::Shared | Deployment::Dedicated => 1,
    }
}

/// A capture that is read at full speed waits for workers, so that no packet of it is lost.
fn engine(settings: &Settings) -> engine::Config {
    let mut config = settings.engine.clone();
    // Peers that knew the key could direct all flows to one worker.
    config.key.as_chunks_mut().0.iter_mut().for_each(|word| *word = secret().to_ne_bytes());
    if settings.near.file().is_some() && !settings.near.recorded {
        config.on_full = OnFull::Wait;
    }
    config
}

/// How threads open a port; what all of them share is opened here.
fn opening(settings: &Settings, side: Side, gate: &Arc<Gate>) -> Result<Opening, AttachError> {
    let shares = ports(settings);
    let spec = if side == Side::Near { &settings.near } else { &settings.far };
    let (attachment, queues) = match &spec.kind {
        PortKind::Xdp(name) => {
            let queues = interface::receive_queues(name)?.unwrap_or(1);
            (Some(open::attach(spec, name)?), queues)
        }
        _ => (None, shares),
    };
    let vhost = match &spec.kind {
        PortKind::Vhost(path) => Some(VhostDevice::open(&VhostConfig {
            client: spec.client,
            once: spec.once,
            offloads: spec.offloads.unwrap_or(true),
            pairs: spec.queues.unwrap_or(shares),
            workers: shares,
            ..VhostConfig::new(path)
        })?),
        _ => None,
    };
    let (buffers, merge) = (settings.buffers, settings.merge);
    let merges = if side == Side::Near { merge.ingress } else { merge.egress };
    let (owner, gate) = (settings.owner, Arc::clone(gate));
    let input = settings.near.file().map(PathBuf::from);
    Ok(Opening {
        spec: spec.clone(),
        side,
        shares,
        buffers,
        merges,
        attachment,
        queues,
        vhost,
        input,
        owner,
        gate,
    })
}

/// Interfaces whose packets the kernel's own stack must not receive.
fn to_take_over(settings: &Settings) -> Vec<String> {
    let of = |spec: &PortSpec| match &spec.kind {
        PortKind::Packet(name) if !spec.mirror => Some(name.clone()),
        _ => None,
    };
    [&settings.near, &settings.far].into_iter().filter_map(of).collect()
}

fn takeovers(interfaces: &[String]) -> Result<Vec<Takeover>, PortError> {
    interfaces.iter().map(|name| Takeover::new(name)).collect()
}
