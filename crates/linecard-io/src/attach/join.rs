//! Supplies the threads of an attachment with ports and stages.

use super::ack_queue::{self, AckQueue};
use super::answer::Answering;
use super::gate::{Gate, ThreadEvent};
use super::open::Opening;
use super::settings::{PortKind, Settings};
use super::stats::SharedStats;
use super::{AttachError, Side};
use crate::capture::OutputFile;
use crate::engine::{self, Gather, Join, Spread};
use crate::port::LivePort;
use crate::port::xdp::XdpBuffer;
use crate::rights::{self, RightsError, Use, folder_of};
use linecard::offload::active_ack::{self, ActiveAck};
use linecard::offload::{coalesce, resequence};
use linecard::packet::LinkType;
use linecard::port::Port;
use linecard::stage::Stage;
use linecard::stages::{Coalesce, Forward};
use linecard_tun::Buffers;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Two ports, and the merging between them. `P` makes pools for threads.
pub(super) struct Joined<P> {
    pub(super) near: Opening,
    pub(super) far: Opening,
    pub(super) settings: Settings,
    pub(super) stats: Arc<SharedStats>,
    pub(super) gate: Arc<Gate>,
    pub(super) pool: P,
}

/// A random number that peers cannot know, for hashing.
pub(super) fn secret() -> u64 {
    RandomState::new().hash_one(0)
}

/// The share of each of several holders of a port's buffers. A port without free buffers could not
/// receive, and packets would be flushed only by timeouts.
fn share_of_buffers(buffers: usize, holders: usize) -> usize {
    (buffers * 3 / 4 / holders.max(1)).max(1)
}

impl<P> Joined<P> {
    /// Reports the result of opening a port.
    fn report_opened<B, T: LivePort<B>>(
        &self,
        side: Side,
        opened: Result<(T, String), AttachError>,
    ) -> Option<T> {
        let (port, what) = match opened {
            Ok((port, what)) => {
                let link = port.link();
                (Some(port), ThreadEvent::Opened(side, what, link))
            }
            Err(error) => (None, ThreadEvent::Failed(error)),
        };
        self.gate.tell(what);
        port
    }

    /// Leaves the calling thread no files, but for completing a capture and removing the socket of a guest.
    fn confine(&self) -> Result<(), RightsError> {
        let of_port = |opening: &Opening| match &opening.spec.kind {
            PortKind::File(path) if opening.side == Side::Far => {
                Some((OutputFile::folder(path)?, Use::Replace))
            }
            PortKind::Vhost(path) => Some((folder_of(path).to_owned(), Use::Remove)),
            _ => None,
        };
        let files: Vec<_> = [&self.near, &self.far].into_iter().filter_map(of_port).collect();
        let files: Vec<_> = files.iter().map(|(folder, used)| (folder.as_path(), *used)).collect();
        rights::confine(&files).map(drop)
    }

    /// A port that publishes its counters, and between live ports the delay of its packets: those of
    /// a capture have the times of its recording. Acknowledgments wait where it knows when it has received much.
    fn watched<S>(
        &self,
        side: Side,
        worker: usize,
        port: impl LivePort<S::Buffer> + 'static,
    ) -> Box<dyn LivePort<S::Buffer>>
    where
        P: Fn(usize, usize) -> S,
        S: Buffers<Buffer: 'static> + 'static,
    {
        let port = self.stats.port(side, worker, port);
        if [&self.near, &self.far].into_iter().any(|opening| opening.spec.file().is_some()) {
            return Box::new(port);
        }
        let port = self.stats.delayed(side, worker, port);
        if port.is_crowded().is_none() {
            return Box::new(port);
        }
        let buffers = (self.pool)(ack_queue::CAPACITY, ack_queue::MAX_LEN);
        Box::new(AckQueue::new(port, buffers))
    }

    /// Packets received from that side that each stage may hold.
    fn most_held(&self, from: Side) -> usize {
        let workers = usize::from(self.settings.engine.workers.max(1));
        // With rings, all workers hold buffers of the same port.
        let sharing = if from == Side::Near { workers / self.near.shares } else { 1 };
        let stages = 1 + usize::from(self.settings.resequence.is_some());
        share_of_buffers(self.settings.buffers, sharing * stages)
    }

    fn stage<B: AsRef<[u8]> + AsMut<[u8]> + 'static>(
        &self,
        from: Side,
        worker: usize,
    ) -> Box<dyn Stage<B>> {
        let merge = self.settings.merge;
        if !(if from == Side::Near { merge.ingress } else { merge.egress }) {
            return Box::new(Forward::default());
        }
        let (config, most) = (&self.settings.coalesce, self.most_held(from));
        let max_held_packets = config.max_held_packets.min(most);
        let config = coalesce::Config { secret: secret(), max_held_packets, ..config.clone() };
        let mut stage = Coalesce::new(config);
        if let Some(config) = &self.settings.resequence {
            let max_held_packets = config.max_held_packets.min(most);
            let secret = secret();
            let config = resequence::Config { secret, max_held_packets, ..config.clone() };
            stage = stage.resequenced(config);
        }
        if self.settings.flows {
            stage = stage.observed(self.stats.flows(from, worker));
        }
        Box::new(self.stats.stage(from, worker, stage))
    }
}

impl<P, S> Join<S::Buffer> for Joined<P>
where
    P: Fn(usize, usize) -> S + Send + Sync + 'static,
    S: Buffers + Clone + 'static,
    S::Buffer: From<XdpBuffer> + 'static,
{
    fn near(&self, worker: usize) -> Option<Box<dyn LivePort<S::Buffer>>> {
        let port = self.report_opened(Side::Near, self.near.open(worker, &self.pool))?;
        let port = self.watched(Side::Near, worker, self.stats.timed(worker, port));
        let Some(config) = &self.settings.active_ack else { return Some(port) };
        let config = active_ack::Config { secret: secret(), ..config.clone() };
        let active = ActiveAck::new(LinkType::Ethernet, config);
        // As many as a batch may need, and as many waiting to be sent.
        let buffers = (self.pool)(256, active_ack::Reply::MAX_LEN);
        let port = Answering::new(port, active, buffers);
        Some(Box::new(self.stats.answering(worker, port)))
    }

    fn far(&self, worker: usize) -> Option<Box<dyn LivePort<S::Buffer>>> {
        let port = self.report_opened(Side::Far, self.far.open(worker, &self.pool))?;
        Some(self.watched(Side::Far, worker, port))
    }

    fn ingress(&self, worker: usize) -> Box<dyn Stage<S::Buffer>> {
        self.stage(Side::Near, worker)
    }

    fn egress(&self, worker: usize) -> Box<dyn Stage<S::Buffer>> {
        self.stage(Side::Far, worker)
    }

    fn ready(&self) -> bool {
        self.gate.tell(ThreadEvent::Scheduled(engine::class()));
        let _opens_its_file = engine::ThreadTime::current();
        let forgotten = if self.settings.keep_rights { Ok(()) } else { rights::forget() };
        if let Err(error) = forgotten.and_then(|()| self.confine()) {
            self.gate.tell(ThreadEvent::Failed(error.into()));
        }
        self.gate.wait()
    }

    fn spread(&self, spread: Spread<S::Buffer>) -> Box<dyn Port<S::Buffer>> {
        Box::new(self.stats.spread(spread))
    }

    fn gather(&self, gather: Gather<S::Buffer>) -> Box<dyn Port<S::Buffer>> {
        Box::new(self.stats.gather(gather))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::settings::PortSpec;
    use crate::port::SharedPool;
    use std::io::Write;
    use std::path::Path;
    use std::sync::mpsc::channel;
    use std::time::Duration;
    use std::{fs, io, thread};

    /// Promise (Live interfaces): Threads of `attach` that process packets can open no files, nor connect by TCP, where the
    /// kernel has Landlock: they only rename and remove files beside a capture that they write, and remove files beside
    /// sockets of guests.
    #[test]
    fn threads_that_are_ready_open_no_files() {
        if !thread::spawn(|| rights::confine(&[])).join().unwrap().unwrap() {
            linecard_testkit::skip("Landlock", "the kernel has none");
            return;
        }
        let at = tempfile::tempdir().unwrap();
        let [input, output] = ["in", "out"].map(|name| at.path().join(name));
        [&input, &output].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
        fs::write(input.join("a"), "secret").unwrap();
        // The capture is completed where its link leads to.
        let links = at.path().join("links");
        fs::create_dir(&links).unwrap();
        fs::write(output.join("a"), "before").unwrap();
        std::os::unix::fs::symlink(output.join("a"), links.join("a")).unwrap();
        let file = |folder: &Path| PortSpec::new(PortKind::File(folder.join("a")));
        let (told, _listening) = channel();
        let gate = Arc::new(Gate::new(told));
        gate.open();
        let opening = |side, spec| Opening {
            spec,
            side,
            shares: 1,
            buffers: 128,
            merges: false,
            attachment: None,
            queues: 1,
            vhost: None,
            input: None,
            owner: None,
            gate: Arc::clone(&gate),
        };
        let joined = Joined {
            near: opening(Side::Near, file(&input)),
            far: opening(Side::Far, file(&links)),
            settings: Settings::new(file(&input), file(&links)),
            stats: Arc::new(SharedStats::new(1, 1)),
            gate,
            pool: SharedPool::new,
        };
        let confined = move || {
            let before = fs::read(input.join("a"));
            let mut capture = OutputFile::create(&links.join("a"), &[]).unwrap();
            assert!(joined.ready());
            let denied = |result: io::Result<()>| {
                let error = result.expect_err("it is forbidden");
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
            };
            before.unwrap();
            denied(fs::read(input.join("a")).map(drop));
            denied(fs::write(input.join("b"), "x"));
            denied(fs::read("/proc/self/status").map(drop));
            denied(fs::read(output.join("a")).map(drop));
            capture.write_all(b"after").unwrap();
            capture.commit().unwrap();
            // The statistics of a worker need them. The kernel counts a thread's time when it stops, or at a tick.
            thread::sleep(Duration::from_millis(1));
            assert_ne!(engine::ThreadTime::current(), engine::ThreadTime::default());
        };
        thread::spawn(confined).join().unwrap();
        assert_eq!(fs::read(at.path().join("out/a")).unwrap(), b"after");
    }

    #[test]
    fn a_port_keeps_buffers_to_receive_into_whoever_holds_the_others() {
        for (buffers, holders) in [(128, 1), (128, 8), (8_192, 3), (1 << 20, 2_048)] {
            let most = share_of_buffers(buffers, holders);
            assert!(most > 0 && most * holders <= buffers * 3 / 4, "{buffers} {holders}");
        }
        assert_eq!(share_of_buffers(128, 1_024), 1);
    }
}
