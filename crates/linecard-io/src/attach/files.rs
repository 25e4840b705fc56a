//! Captures as ports: one that is read at the near end, or written at the far end.

use super::AttachError;
use super::gate::{Gate, ThreadEvent};
use crate::capture::{CaptureError, Format, OutputFile, decompressed};
use crate::port::{CaptureSink, CaptureSource, LivePort, Pace, left_to};
use crate::rights::Account;
use linecard::packet::{Batch, LinkType};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use linecard_tun::{Buffers, Counters};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Opens a capture to read; `-` is the standard input.
fn open(path: &Path) -> Result<Box<dyn Read>, AttachError> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let failed = |source| AttachError::Open { path: path.into(), source };
    let file = File::open(path).map_err(failed)?;
    if file.metadata().is_ok_and(|data| data.is_dir()) {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    Ok(Box::new(file))
}

/// A capture that is read. Damage is reported at the end.
pub(super) struct Player<S: Buffers> {
    source: CaptureSource<Box<dyn Read>, S>,
    path: PathBuf,
    gate: Arc<Gate>,
}

impl<S: Buffers> Player<S> {
    pub(super) fn open(
        path: &Path,
        pool: S,
        pace: Pace,
        gate: &Arc<Gate>,
    ) -> Result<Self, AttachError> {
        let refused = |error| AttachError::Capture { path: path.into(), error };
        let input = decompressed(open(path)?);
        let mut source = CaptureSource::new(input, pool, pace).map_err(refused)?;
        source.look_ahead(!path.is_file());
        Ok(Self { source, path: path.into(), gate: Arc::clone(gate) })
    }
}

impl<S: Buffers> Drop for Player<S> {
    fn drop(&mut self) {
        if let Some(error) = self.source.take_error() {
            let path = self.path.clone();
            self.gate.tell(ThreadEvent::Failed(AttachError::Capture { path, error }));
        }
        if let Some(links) = self.source.only_unknown() {
            let path = self.path.clone();
            self.gate.tell(ThreadEvent::Failed(AttachError::UnknownLinks { path, links }));
        }
    }
}

impl<S: Buffers> Port<S::Buffer> for Player<S> {
    fn receive(&mut self, batch: &mut Batch<S::Buffer>, now: Instant) -> PortState {
        self.source.receive(batch, now)
    }

    fn transmit(&mut self, batch: &mut Batch<S::Buffer>, now: Instant) {
        self.source.transmit(batch, now);
    }
}

impl<S: Buffers> LivePort<S::Buffer> for Player<S> {
    left_to!(source: link, counters, next_due);
}

/// A capture that is written. It is completed on drop if the gate was ever open and no thread has
/// panicked; errors are reported.
pub(super) struct Recorder {
    state: State,
    path: PathBuf,
    gate: Arc<Gate>,
    /// When the packets that wait in memory are written.
    due: Option<Instant>,
}

enum State {
    /// No packet has arrived yet, so the link type is unknown.
    Waiting(Box<OutputFile>),
    Writing(Box<CaptureSink>),
    /// It could not be started, which was reported.
    Failed,
}

/// Longest time that packets wait in memory to be written.
const FLUSH: Duration = Duration::from_secs(1);

impl Recorder {
    /// Writes what has waited for long enough.
    fn flush(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            if let State::Writing(sink) = &mut self.state {
                sink.flush();
            }
        }
    }

    /// Written under a temporary name until it is complete; see [`OutputFile`].
    pub(super) fn create(
        path: &Path,
        input: Option<&Path>,
        owner: Option<Account>,
        gate: &Arc<Gate>,
    ) -> Result<Self, AttachError> {
        let refused = |error| AttachError::Capture { path: path.into(), error };
        let file = OutputFile::create_capture(path, input.as_slice()).map_err(refused)?;
        if let Some(owner) = owner {
            file.give_to(owner.uid(), owner.gid()).map_err(refused)?;
        }
        Ok(Self {
            state: State::Waiting(Box::new(file)),
            path: path.into(),
            gate: Arc::clone(gate),
            due: None,
        })
    }

    /// Starts writing, now that the link type is known.
    fn begin(&mut self, link: LinkType, now: Instant) -> Result<(), CaptureError> {
        let State::Waiting(file) = std::mem::replace(&mut self.state, State::Failed) else {
            return Ok(());
        };
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let zero_ns = linecard::time::ns(since_1970).saturating_sub(now.as_ns());
        let format = Format::of_name(&self.path);
        self.state = State::Writing(Box::new(CaptureSink::new(*file, format, link, zero_ns)?));
        Ok(())
    }

    fn tell(&self, error: CaptureError) {
        let path = self.path.clone();
        self.gate.tell(ThreadEvent::Failed(AttachError::Capture { path, error }));
    }

    fn finish(&mut self) -> Result<(), CaptureError> {
        // An empty capture is written as Ethernet.
        if matches!(self.state, State::Waiting(_)) {
            self.begin(LinkType::Ethernet, Instant::ZERO)?;
        }
        match std::mem::replace(&mut self.state, State::Failed) {
            State::Writing(sink) => sink.finish().map(drop),
            _ => Ok(()),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if !self.gate.is_open() || thread::panicking() {
            return;
        }
        if let Err(error) = self.finish() {
            self.tell(error);
        }
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Port<B> for Recorder {
    /// Ends if nothing can be written any more.
    fn receive(&mut self, batch: &mut Batch<B>, now: Instant) -> PortState {
        self.flush(now);
        match &mut self.state {
            State::Waiting(_) => PortState::Open,
            State::Writing(sink) => sink.receive(batch, now),
            State::Failed => PortState::Ended,
        }
    }

    fn transmit(&mut self, batch: &mut Batch<B>, now: Instant) {
        if let (State::Waiting(_), Some(packet)) = (&self.state, batch.front())
            && let Err(error) = self.begin(packet.link(), now)
        {
            self.tell(error);
        }
        self.flush(now);
        if !batch.is_empty() {
            self.due.get_or_insert(now.plus(FLUSH));
        }
        match &mut self.state {
            State::Writing(sink) => sink.transmit(batch, now),
            _ => batch.drain().for_each(drop),
        }
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> LivePort<B> for Recorder {
    fn counters(&mut self) -> Counters {
        match &self.state {
            State::Writing(sink) => CaptureSink::counters(sink),
            _ => Counters::default(),
        }
    }

    fn next_due(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::packet::{Meta, Packet};
    use std::fs;
    use std::sync::mpsc::channel;

    #[test]
    fn packets_are_written_out_within_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let (told, _listening) = channel();
        let gate = Arc::new(Gate::new(told));
        let path = folder.path().join("a.pcap");
        let mut recorder = Recorder::create(&path, None, None, &gate).unwrap();
        let written = || {
            let files = fs::read_dir(folder.path()).unwrap();
            files.map(|file| file.unwrap().metadata().unwrap().len()).sum::<u64>()
        };
        let mut batch: Batch<Vec<u8>> = Batch::new();
        let packet = Packet::new(vec![0; 60], LinkType::Ethernet, Meta::default());
        assert!(batch.push(packet).is_ok());
        let begun = Instant::from_ns(1_000);
        recorder.transmit(&mut batch, begun);
        assert_eq!((batch.len(), written()), (0, 0));
        let due = LivePort::<Vec<u8>>::next_due(&recorder);
        assert_eq!(due, Some(begun.plus(FLUSH)));
        recorder.receive(&mut batch, begun.plus(FLUSH));
        assert_eq!(written(), 24 + 16 + 60, "a header, and that of a packet");
        assert_eq!(LivePort::<Vec<u8>>::next_due(&recorder), None);
    }
}
