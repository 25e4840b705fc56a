//! Plans compared with transfers: real files over loopback, predicted and measured side by side.

use super::error::PlanningError;
use super::lanes::{BATCH, Transfer};
use super::outcome::{Compared, Disturbed, NEAR, Offer, Verified};
use crate::calibrate::lines::{CHUNK_BYTES, CODES, PAYLOADS, Round, name};
use crate::{Context, Error, Failure};
use linecard::rng::Rng;
use linecard_io::calibrate::{Identity, Measured, Series, median, pin};
use linecard_plan::{PlanInput, plan};
use linecard_report::{BitRate, Item, Share};
use linecard_transfer::control::{LaneKind, Mode};
use linecard_transfer::fec::{Repair, Scheme};
use linecard_transfer::wire::OVERHEAD_BYTES;
use linecard_transfer_net::control::Access;
use linecard_transfer_net::end::{CoreTimes, Cores, processor_time};
use linecard_transfer_net::file::{Choice, ChunkBytes, Input};
use linecard_transfer_net::keys::SharedKey;
use linecard_transfer_net::lane::Spec;
use linecard_transfer_net::receive::{ReceiveOptions, ReceiveProgress, receive};
use linecard_transfer_net::send::{SendOptions, Sent, send};
use linecard_transfer_net::stages::{Folder, Stage};
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Bytes of the file that is sent.
const FILE_BYTES: u64 = 512 << 20;
/// The part of it that a receiver may keep in memory: sixteen chunks.
const MEMORY_BYTES: u64 = 16 * CHUNK_BYTES as u64;
/// How long stages are measured before and after each transfer.
const VISIT: Duration = Duration::from_millis(100);
/// Share of the predicted rate at which lanes are paced, which should fit; and more than all that can be,
/// which should not.
const OFFERED: [f64; 2] = [0.8, 1.3];
/// Share of the file before which nothing counts.
const WARM: f64 = 0.08;
/// Headers of UDP, IPv4 and Ethernet, which lanes count.
const FRAMING: u32 = 42;
/// Of the time of the cores in use, what other programs may have in a run that counts.
const OTHERS: f64 = 0.05;

/// A transfer of the table, and what was seen of it.
struct Row {
    transfer: Transfer,
    /// At each of [`OFFERED`].
    runs: [Vec<Run>; 2],
}

/// Measurements of a transfer, rates in bit/s.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    predicted: f64,
    offered: f64,
    measured: f64,
    /// Packets sent again, of all.
    resent: f64,
    /// Share of the time of the cores in use that other programs and a hypervisor took.
    others: f64,
}

/// The table of all transfers: `--verify transfer`.
pub(super) fn verify(
    rounds: u64,
    only: Option<u32>,
    context: &Context<'_>,
) -> Result<Verified, Error> {
    let most_cores = Identity::of_this_host().cores.min(2);
    let mut rows = transfers(most_cores)?;
    rows.retain(|row| only.is_none_or(|payload| payload == row.transfer.payload));
    let file = Original::new()?;
    context.progress.expect(rounds as usize);
    for round in 0..rounds {
        context.go_on()?;
        context.progress.reach(round as usize);
        for kind in rows.chunk_by_mut(|a, b| a.is_like(b)) {
            let mut lines = Lines::new(&kind[0].transfer)?;
            kind.iter_mut().try_for_each(|row| row.run(&file, &mut lines))?;
        }
    }
    let near = rows.iter().filter(|row| row.difference().abs() <= NEAR).count();
    let mut notes = vec![format!(
        "{near} of {} transfers are within {:.0} % of the prediction; {rounds} rounds of \
         calibration and measurement in turn, medians.",
        rows.len(),
        NEAR * 100.0
    )];
    let disturbed = |row: &&Row| row.runs[1].iter().all(|run| run.others > OTHERS);
    let disturbed = rows.iter().filter(disturbed).count();
    if disturbed > 0 {
        notes.push(format!(
            "Other programs used more than {:.0} % of the cores in every run of {disturbed} of \
             them.",
            OTHERS * 100.0
        ));
    }
    let transfers = rows.iter().map(|row| Item { label: row.label(), value: row.compared() });
    let offered = OFFERED.into_iter().enumerate().flat_map(|(at, share)| {
        let done = move |row: &Row| row.middle(at, |run| run.measured / run.offered);
        rows.iter().map(move |row| Item { label: row.label(), value: Offer::new(share, done(row)) })
    });
    let (transfers, offered) = (transfers.collect(), offered.collect());
    Ok(Verified { transfers, offered, notes, ..Verified::default() })
}

fn transfers(most_cores: usize) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for payload in PAYLOADS {
        for code in CODES {
            let fec: Scheme = code.parse().map_err(failed)?;
            for lanes in [1, 4] {
                for cores in 1..=most_cores {
                    let transfer = Transfer { payload, fec, lanes, cores };
                    rows.push(Row { transfer, runs: [vec![], vec![]] });
                }
            }
        }
    }
    Ok(rows)
}

/// Lines that are measured, with the priority that transfers have, so that other programs take as much from
/// both: one on each core, at the same time where a transfer uses both. Two busy cores
/// share caches, memory, and where a hypervisor has it so, the parts of one physical core.
struct Lines {
    own: Round,
    /// None when it ends.
    orders: Option<mpsc::Sender<()>>,
    found: mpsc::Receiver<Result<Vec<Measured>, Error>>,
    other: Option<thread::JoinHandle<()>>,
}

impl Drop for Lines {
    /// The other thread has a file to remove.
    fn drop(&mut self) {
        self.orders = None;
        self.other.take().map(thread::JoinHandle::join);
    }
}

impl Lines {
    fn new(transfer: &Transfer) -> Result<Self, Error> {
        let Transfer { payload, fec, .. } = *transfer;
        let (orders, ordered) = mpsc::channel();
        let (out, found) = mpsc::channel();
        let other = thread::spawn(move || {
            let mut line = pin(1).map_err(failed).and_then(|()| Round::new(payload, fec));
            while let Ok(()) = ordered.recv() {
                let look = line.as_mut().map_err(|error| failed(error.to_string()));
                let _gone = out.send(look.and_then(|line| look_at(line, 1)));
            }
        });
        let (orders, other) = (Some(orders), Some(other));
        Ok(Self { own: Round::new(payload, fec)?, orders, found, other })
    }

    /// Current costs of stages.
    fn now(&mut self, cores: usize) -> Result<Vec<Measured>, Error> {
        if cores == 1 {
            return look_at(&mut self.own, 0);
        }
        let _gone = self.orders.as_ref().map(|orders| orders.send(()));
        let near = look_at(&mut self.own, 0);
        let far = self.found.recv().map_err(failed)??;
        let of = |end: bool| move |found: &Measured| is_near(&found.name) == end;
        Ok(near?.into_iter().filter(of(true)).chain(far.into_iter().filter(of(false))).collect())
    }
}

fn look_at(line: &mut Round, core: usize) -> Result<Vec<Measured>, Error> {
    let mut series = Series::new(Vec::new());
    pin(core).map_err(failed)?;
    line.warm()?;
    line.visit(&mut series, BATCH, VISIT)?;
    series.results().map_err(failed)
}

/// Whether a stage of this name is the sending end's.
fn is_near(name: &str) -> bool {
    let base = name.split(['/', '@']).next().unwrap_or(name);
    Stage::ALL.into_iter().any(|stage| stage.name() == base && stage.is_near())
}

impl Row {
    /// Whether its stages cost the same.
    fn is_like(&self, other: &Self) -> bool {
        let kind = |row: &Self| (row.transfer.payload, row.transfer.fec);
        kind(self) == kind(other)
    }

    /// Predictions just before and just after each transfer, and its measurement: offered more than
    /// should fit, and less.
    fn run(&mut self, file: &Original, lines: &mut Lines) -> Result<(), Error> {
        let mut stages = lines.now(self.transfer.cores)?;
        for (share, seen) in OFFERED.into_iter().zip([0, 1]) {
            let before = self.most(&stages)?;
            let offered = share * before;
            if self.is_feasible(offered, &stages)? != (share < 1.0) {
                return Err(PlanningError::Unsure { share }.into());
            }
            let run = file.send(&self.transfer, offered)?;
            stages = lines.now(self.transfer.cores)?;
            let predicted = f64::midpoint(before, self.most(&stages)?);
            self.runs[seen].push(Run { predicted, offered, ..run });
        }
        Ok(())
    }

    /// Goodput at most as the plan has it, bit/s.
    fn most(&self, stages: &[Measured]) -> Result<f64, Error> {
        let plan = plan(&self.question(1e6, stages)?).map_err(failed)?;
        plan.map(|plan| plan.most_goodput_bits_per_second).map_err(|why| failed(why.text))
    }

    fn is_feasible(
        &self,
        goodput_bits_per_second: f64,
        stages: &[Measured],
    ) -> Result<bool, Error> {
        Ok(plan(&self.question(goodput_bits_per_second, stages)?).map_err(failed)?.is_ok())
    }

    fn question(
        &self,
        goodput_bits_per_second: f64,
        stages: &[Measured],
    ) -> Result<PlanInput, Error> {
        let Transfer { payload, fec, .. } = self.transfer;
        let cost = |stage| {
            let wanted = format!("{}@{payload}", name(stage, fec));
            stages.iter().find(|found| found.name == wanted).map(|found| found.cost.clone())
        };
        let question = self.transfer.question(goodput_bits_per_second, cost);
        question.ok_or_else(|| {
            let missing = self.transfer.stages().into_iter().filter(|stage| cost(*stage).is_none());
            let missing = missing.collect();
            PlanningError::NotMeasured { transfer: self.label(), missing }.into()
        })
    }

    /// Median over the runs at one of [`OFFERED`] in which other programs had little, or over all.
    fn middle(&self, at: usize, value: impl Fn(&Run) -> f64) -> f64 {
        let quiet = self.runs[at].iter().filter(|run| run.others <= OTHERS).map(&value).collect();
        let all = || median(self.runs[at].iter().map(&value).collect());
        median(quiet).or_else(all).unwrap_or(f64::NAN)
    }

    /// Of measured to predicted rates, each of its own run.
    fn difference(&self) -> f64 {
        self.middle(1, |run| run.measured / run.predicted) - 1.0
    }

    /// Of what was measured, from the least to the greatest, as a share.
    fn spread(&self) -> f64 {
        let rates = || self.runs[1].iter().map(|run| run.measured);
        let (low, high) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
        (high - low) / self.middle(1, |run| run.measured)
    }

    fn compared(&self) -> Compared {
        let middle = |value: fn(&Run) -> f64| self.middle(1, value);
        Compared {
            predicted: BitRate(middle(|run| run.predicted)),
            measured: BitRate(middle(|run| run.measured)),
            difference: Share(self.difference()),
            spread: Share(self.spread()),
            transfer: Some(Disturbed {
                resent: Share(middle(|run| run.resent)),
                others: Share(middle(|run| run.others)),
            }),
        }
    }

    fn label(&self) -> String {
        let Transfer { payload, fec, lanes, cores } = self.transfer;
        let s = |count| if count == 1 { "" } else { "s" };
        format!("{payload} bytes, {fec}, {lanes} lane{}, {cores} core{}", s(lanes), s(cores))
    }
}

fn failed(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Failure::Thread.with(why)
}

/// A file in memory, which is sent to a folder beside it.
struct Original {
    folder: Folder,
}

impl Original {
    fn new() -> Result<Self, Error> {
        let original = Self { folder: Folder::with_room(3 * FILE_BYTES).map_err(failed)? };
        let mut file = fs::File::create(original.path()).map_err(failed)?;
        let (mut rng, mut bytes) = (Rng::new(1), vec![0; CHUNK_BYTES as usize]);
        for _ in 0..FILE_BYTES / bytes.len() as u64 {
            rng.fill(&mut bytes);
            file.write_all(&bytes).map_err(failed)?;
        }
        Ok(original)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("file")
    }

    /// Sends it, paced at this goodput.
    fn send(&self, transfer: &Transfer, goodput_bits_per_second: f64) -> Result<Run, Error> {
        pin(transfer.cores - 1).map_err(failed)?;
        self.folder.warm(FILE_BYTES + MEMORY_BYTES).map_err(failed)?;
        let into = self.folder.path().join("into");
        let before = Time::so_far(transfer.cores);
        let result = over_loopback(transfer, goodput_bits_per_second, (&self.path(), &into));
        let others = before.others_since(transfer.cores);
        let _gone = fs::remove_dir_all(&into);
        let (measured, sent) = result?;
        let packets: u64 = sent.lanes.iter().map(|lane| lane.counters.packets).sum();
        let resent = sent.counters.resent as f64 / packets.max(1) as f64;
        Ok(Run { measured, resent, others, ..Run::default() })
    }
}

/// Time of the first cores, and of this process.
#[derive(Debug, Clone, Copy)]
struct Time {
    cores: CoreTimes,
    /// Time of this process, on any core.
    own: Duration,
}

impl Time {
    fn so_far(cores: usize) -> Self {
        let cores = CoreTimes::of(|core| core < cores);
        Self { cores, own: processor_time() }
    }

    /// The share of these cores' time since then that others had.
    fn others_since(self, cores: usize) -> f64 {
        let now = Self::so_far(cores);
        let mut others = now.cores.since(self.cores);
        others.busy = others.busy.saturating_sub(now.own.saturating_sub(self.own));
        others.busy_share()
    }
}

fn over_loopback(
    transfer: &Transfer,
    goodput_bits_per_second: f64,
    (from, into): (&Path, &Path),
) -> Result<(f64, Sent), Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let peer = listener.local_addr().map_err(failed)?;
    let access = Access::Shared(SharedKey::new(&[7; 32]));
    let stop = Arc::default();
    let on = |core| Cores { lanes: Some(core), files: Some(core), more: Vec::new() };
    let patience = Duration::from_secs(20);
    let sending = SendOptions {
        dry_run: false,
        delete: false,
        max_delete: None,
        input: Input::Paths(vec![from.into()]),
        choice: Choice::default(),
        peer,
        name: "loopback".into(),
        access: access.clone(),
        lanes: vec![lane(transfer, goodput_bits_per_second); transfer.lanes],
        rate_bits_per_second: None,
        mode: Mode::Stable,
        fec: Repair::Fixed(transfer.fec),
        chunk_bytes: ChunkBytes::new(CHUNK_BYTES.into()).map_err(failed)?,
        payload_bytes: Some(transfer.payload),
        cores: on(0),
        patience,
        stop: Arc::clone(&stop),
    };
    let receiving = ReceiveOptions {
        folder: Some(into.into()),
        bucket: None,
        overwrite: false,
        allow_delete: false,
        allow_links_out: false,
        access,
        lanes: Vec::new(),
        at_once: None,
        memory_bytes: MEMORY_BYTES,
        cores: on(transfer.cores - 1),
        patience,
        stop,
    };
    let mut seen: Vec<(Duration, u64)> = Vec::new();
    let watch = &mut |now: &ReceiveProgress| seen.push((now.elapsed, now.done_bytes));
    let far = || receive(&receiving, &listener, watch).map_err(failed);
    let near = || {
        let sent = send(&sending, &mut |_| {}).map_err(failed);
        // No sender will connect to the receiver any more, if none has.
        if sent.is_err() {
            sending.stop.stop();
        }
        sent
    };
    let (sent, got) = thread::scope(|scope| {
        let (far, near) = (scope.spawn(far), scope.spawn(near));
        (near.join(), far.join())
    });
    let ended = |_| failed("a thread of the transfer has panicked");
    let sent = sent.map_err(ended)??;
    got.map_err(ended)??;
    let rate = steady(&seen).ok_or_else(|| failed("the transfer was over at once"))?;
    Ok((rate, sent))
}

/// A lane's share of the rate, with all that is on the line.
fn lane(transfer: &Transfer, goodput_bits_per_second: f64) -> Spec {
    let Transfer { payload, fec, lanes, .. } = *transfer;
    let on_line = f64::from(payload + OVERHEAD_BYTES as u32 + FRAMING) / f64::from(payload);
    let more = on_line * (1.0 + fec.overhead()) / lanes as f64;
    let rate_bits_per_second = Some((goodput_bits_per_second * more) as u64);
    Spec { rate_bits_per_second, ..Spec::new(LaneKind::Udp, Ipv4Addr::LOCALHOST.into()) }
}

/// Bits per second between the first look with some of the file and the last before its end.
fn steady(seen: &[(Duration, u64)]) -> Option<f64> {
    let all = seen.last()?.1 as f64;
    let inside: Vec<_> = seen.iter().filter(|(_, bytes)| *bytes as f64 > WARM * all).collect();
    let (first, last) = (inside.first()?, inside.get(inside.len().checked_sub(2)?)?);
    // A transfer with few looks: up to its end.
    let last = if last.1 > first.1 { last } else { inside.last()? };
    let seconds = last.0.checked_sub(first.0)?.as_secs_f64();
    (last.1 > first.1).then(|| (last.1 - first.1) as f64 * 8.0 / seconds)
}
