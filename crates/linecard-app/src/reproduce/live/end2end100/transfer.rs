//! A transfer between the hosts of a lab.

use super::super::error::LiveError;
use crate::Error;
use linecard_io::lab::{Host, Lab};
use linecard_transfer::control::Mode;
use linecard_transfer::lane::LaneState;
use linecard_transfer_net::control::Access;
use linecard_transfer_net::end::Cores;
use linecard_transfer_net::file::{Choice, ChunkBytes, Input};
use linecard_transfer_net::keys::SharedKey;
use linecard_transfer_net::receive::{ReceiveOptions, receive};
use linecard_transfer_net::send::{SendOptions, SendProgress, Sent, send};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where the receiver listens.
const PORT: u16 = 4_780;
/// Without progress for so long, something is broken.
const PATIENCE: Duration = Duration::from_secs(20);
/// Memory for chunks in flight, in bytes.
const MEMORY: u64 = 640 << 20;

/// The data to transfer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order<'a> {
    pub(super) rates_bits_per_second: &'a [u64],
    pub(super) mode: Mode,
    pub(super) fec: &'static str,
    pub(super) chunks: u64,
    pub(super) event: Option<Event>,
}

/// A lane is cut some time after the first data, and joined again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) lane: u8,
    pub(super) after_ms: u64,
    pub(super) for_ms: u64,
}

/// The transferred data.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) sent: Sent,
    /// From joining the lane again until it was alive, in ns.
    pub(super) back_ns: u64,
    /// Chunks that were whole when the lane was cut.
    pub(super) before_cut: usize,
}

impl Moved {
    pub(super) fn goodput_bits_per_second(&self) -> f64 {
        self.sent.bytes as f64 * 8.0 / self.sent.elapsed.as_secs_f64()
    }

    /// The latency of the chunk in which the lane was cut, in ns.
    pub(super) fn cut_ns(&self) -> u64 {
        self.sent.latencies_ns.get(self.before_cut).copied().unwrap_or(0)
    }

    /// The time below which this percentage of chunks stayed, in ns.
    pub(super) fn quantile_ns(&self, percent: usize) -> u64 {
        let mut sorted = self.sent.latencies_ns.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
        sorted.get(at).copied().unwrap_or(0)
    }
}

/// Moves the ordered chunks from the lab's own host to its peer.
pub(super) fn run(lab: &Lab, order: &Order<'_>) -> Result<Moved, Error> {
    let listener = lab.enter(Host::Peer, || TcpListener::bind((Host::Peer.address(), PORT)));
    let listener = listener.map_err(failed)?.map_err(failed)?;
    let access = Access::Shared(SharedKey::new(&[7; 32]));
    let receiving = receive_options(access.clone(), order.rates_bits_per_second.len())?;
    let sending = send_options(access, order)?;
    std::thread::scope(|scope| {
        let receiver =
            scope.spawn(|| lab.enter(Host::Peer, || receive(&receiving, &listener, &mut |_| {})));
        let mut watch = LaneCut::new(lab, order.event);
        let sent = lab.enter(Host::Own, || send(&sending, &mut |progress| watch.look(progress)));
        let sent = sent.map_err(failed).and_then(|sent| sent.map_err(failed));
        // No sender will connect to the receiver any more, if none has.
        if sent.is_err() {
            receiving.stop.stop();
        }
        let got = receiver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let sent = sent?;
        got.map_err(failed)?.map_err(failed)?;
        Ok(Moved { sent, back_ns: watch.back_ns, before_cut: watch.before_cut })
    })
}

/// Cuts the lane and joins it when it is time, and sees it come back.
struct LaneCut<'a> {
    lab: &'a Lab,
    event: Option<Event>,
    cut: bool,
    joined: Option<Instant>,
    back_ns: u64,
    before_cut: usize,
}

impl<'a> LaneCut<'a> {
    const fn new(lab: &'a Lab, event: Option<Event>) -> Self {
        Self { lab, event, cut: false, joined: None, back_ns: 0, before_cut: 0 }
    }

    fn look(&mut self, progress: &SendProgress) {
        let Some(event) = self.event else { return };
        let ms = progress.elapsed.as_millis() as u64;
        if !self.cut && ms >= event.after_ms {
            self.cut = self.lab.set_lane_up(event.lane, false).is_ok();
            self.before_cut = (progress.done_bytes / super::CHUNK) as usize;
        } else if self.cut && self.joined.is_none() && ms >= event.after_ms + event.for_ms {
            let _joined = self.lab.set_lane_up(event.lane, true);
            self.joined = Some(Instant::now());
        }
        let lane = progress.lanes.get(usize::from(event.lane));
        let alive = lane.is_some_and(|lane| lane.state == LaneState::Alive);
        if let (Some(joined), true, 0) = (self.joined, alive, self.back_ns) {
            self.back_ns = u64::try_from(joined.elapsed().as_nanos()).unwrap_or(u64::MAX);
        }
    }
}

fn send_options(access: Access, order: &Order<'_>) -> Result<SendOptions, Error> {
    let lanes = (0..=u8::MAX).zip(order.rates_bits_per_second).map(|(lane, rate)| {
        let address = Host::Own.lane_address(lane);
        format!("udp:{address},rate={rate}").parse().map_err(failed)
    });
    Ok(SendOptions {
        dry_run: false,
        delete: false,
        max_delete: None,
        input: Input::Test(order.chunks * super::CHUNK),
        choice: Choice::default(),
        peer: SocketAddr::new(Host::Peer.address().into(), PORT),
        name: "the lab's peer".into(),
        access,
        lanes: lanes.collect::<Result<_, _>>()?,
        rate_bits_per_second: None,
        mode: order.mode,
        fec: order.fec.parse().map_err(failed)?,
        chunk_bytes: ChunkBytes::new(super::CHUNK).map_err(failed)?,
        payload_bytes: Some(super::PAYLOAD as u32),
        cores: Cores::default(),
        patience: PATIENCE,
        stop: Arc::default(),
    })
}

fn receive_options(access: Access, lanes: usize) -> Result<ReceiveOptions, Error> {
    let lanes = (0..=u8::MAX)
        .take(lanes)
        .map(|lane| format!("udp:{}", Host::Peer.lane_address(lane)).parse().map_err(failed));
    Ok(ReceiveOptions {
        folder: None,
        bucket: None,
        overwrite: false,
        allow_delete: false,
        allow_links_out: false,
        access,
        lanes: lanes.collect::<Result<_, _>>()?,
        at_once: None,
        memory_bytes: MEMORY,
        cores: Cores::default(),
        patience: PATIENCE,
        stop: Arc::default(),
    })
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    LiveError::Lanes(Box::new(error)).into()
}
