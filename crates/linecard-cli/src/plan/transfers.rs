//! Plans held against transfers: real files over loopback, predicted and measured side by side.

use super::lanes::{BATCH, Transfer};
use crate::calibrate::lines::{CHUNK_BYTES, PAYLOADS, memory, name, visit};
use crate::calibrate::undisturbed;
use crate::failure::Failure;
use crate::progress::Progress;
use linecard::plan::{Cost, plan};
use linecard::report::{Report, Section, Value};
use linecard::rng::Rng;
use linecard_host::calibrate::{Identity, Measured, Series, median, pin};
use linecard_lanes::control::Access;
use linecard_lanes::file::ChunkBytes;
use linecard_lanes::keys::SharedKey;
use linecard_lanes::lane::{Family, Place, Spec};
use linecard_lanes::receive::{ReceiveOptions, receive};
use linecard_lanes::send::{SendOptions, Sent, send};
use linecard_transfer::fec::Scheme;
use linecard_transfer::send::Mode;
use linecard_transfer::wire::OVERHEAD_BYTES;
use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// Bytes of the file that is sent.
const FILE_BYTES: u64 = 512 << 20;
/// What a receiver may keep of it in memory: eight chunks.
const MEMORY_BYTES: u64 = 8 * CHUNK_BYTES as u64;
/// How long stages are measured before each kind of packet.
const VISIT: Duration = Duration::from_millis(300);
/// Shares of the predicted rate at which lanes are paced: what should fit, and what should not.
const OFFERED: [f64; 2] = [0.8, 1.3];
/// What is within this share of what was predicted is as predicted.
const NEAR: f64 = 0.10;
/// Less than this of what is offered is a miss.
const KEPT: f64 = 0.97;
/// Share of the file before which nothing counts.
const WARM: f64 = 0.08;
/// Headers of UDP, IPv4 and Ethernet, which lanes count.
const FRAMING: u32 = 42;
/// Codes of the table.
const CODES: [&str; 3] = ["none", "xor:10", "rs:28,4"];

/// A transfer of the table, and what was seen of it.
struct Row {
    transfer: Transfer,
    /// Predicted and measured in each round, bit/s.
    runs: Vec<[f64; 2]>,
    /// The same of the less that should fit: offered and done.
    kept: Vec<[f64; 2]>,
    /// Packets sent again, of all in the last run.
    resent: f64,
}

/// The table of all transfers: `--verify transfer`.
pub(super) fn verify(rounds: u64, only: Option<u32>) -> Result<Report, Failure> {
    let most_cores = Identity::of_this_host().cores.min(2);
    let mut rows = transfers(most_cores)?;
    rows.retain(|row| only.is_none_or(|payload| payload == row.transfer.payload));
    let file = Original::new()?;
    let mut progress = Progress::for_rounds(rounds);
    let mut alone = Ok(());
    for round in 0..rounds {
        progress.at(round);
        for kind in rows.chunk_by_mut(|a, b| a.is_like(b)) {
            let stages;
            (stages, alone) = calibrate(&kind[0].transfer)?;
            kind.iter_mut().try_for_each(|row| row.run(&file, &stages))?;
        }
    }
    progress.done();
    let mut report = Report::new("plan-verify-transfer");
    report.push(table(&rows));
    report.push(offers(&rows));
    let near = rows.iter().filter(|row| row.difference().abs() <= NEAR).count();
    report.note(format!(
        "{near} of {} transfers are within {:.0} % of what was predicted; {rounds} rounds of \
         calibration and measurement in turn, medians.",
        rows.len(),
        NEAR * 100.0
    ));
    if let Err(why) = alone {
        report.note(format!("Other programs may have disturbed this: {why}"));
    }
    Ok(report)
}

fn transfers(most_cores: usize) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for payload in PAYLOADS {
        for code in CODES {
            let fec: Scheme = code.parse().map_err(failed)?;
            for lanes in [1, 4] {
                for cores in 1..=most_cores {
                    let transfer = Transfer { payload, fec, lanes, cores };
                    rows.push(Row { transfer, runs: vec![], kept: vec![], resent: 0.0 });
                }
            }
        }
    }
    Ok(rows)
}

/// What stages of such packets cost just now.
fn calibrate(transfer: &Transfer) -> Result<(Vec<Measured>, Result<(), String>), Failure> {
    let mut series = Series::new(Vec::new());
    let kind = (transfer.payload, transfer.fec);
    let ((), alone) = undisturbed(Some(0), || visit(&mut series, kind, BATCH, VISIT))?;
    Ok((series.results().map_err(failed)?, alone))
}

impl Row {
    /// Whether its stages cost the same.
    fn is_like(&self, other: &Self) -> bool {
        let kind = |row: &Self| (row.transfer.payload, row.transfer.fec);
        kind(self) == kind(other)
    }

    fn run(&mut self, file: &Original, stages: &[Measured]) -> Result<(), Failure> {
        let Transfer { payload, fec, .. } = self.transfer;
        let cost = |stage| {
            let wanted = format!("{}@{payload}", name(stage, fec));
            stages.iter().find(|found| found.name == wanted).map(|found| found.cost.clone())
        };
        let predicted = self.most(cost)?;
        for share in OFFERED {
            let offered = share * predicted;
            let is_feasible = self.is_feasible(offered, cost)?;
            if is_feasible != (share < 1.0) {
                let what = format!("the plan says that {share} of what it predicts at most fits");
                return Err(Failure::Wrong(format!("{what}: {is_feasible}")));
            }
            let (rate, sent) = file.send(&self.transfer, offered)?;
            if share < 1.0 {
                self.kept.push([offered, rate]);
            } else {
                self.runs.push([predicted, rate]);
                let packets: u64 = sent.lanes.iter().map(|lane| lane.counters.packets).sum();
                self.resent = sent.counters.resent as f64 / packets.max(1) as f64;
            }
        }
        Ok(())
    }

    /// Goodput at most as the plan has it, bit/s.
    fn most(&self, cost: impl Fn(linecard_lanes::stages::Stage) -> Option<Cost>) -> Result<f64, Failure> {
        let question = self.transfer.question(1e6, cost).ok_or_else(not_measured)?;
        let plan = plan(&question).map_err(failed)?;
        plan.map(|plan| plan.most_goodput_bps).map_err(|why| failed(why.text))
    }

    fn is_feasible(
        &self,
        goodput_bps: f64,
        cost: impl Fn(linecard_lanes::stages::Stage) -> Option<Cost>,
    ) -> Result<bool, Failure> {
        let question = self.transfer.question(goodput_bps, cost).ok_or_else(not_measured)?;
        Ok(plan(&question).map_err(failed)?.is_ok())
    }

    /// Median over rounds.
    fn middle(&self, value: impl Fn(&[f64; 2]) -> f64) -> f64 {
        median(self.runs.iter().map(value).collect()).unwrap_or(f64::NAN)
    }

    /// Of measured to predicted rates, each of its own round.
    fn difference(&self) -> f64 {
        self.middle(|[predicted, measured]| measured / predicted) - 1.0
    }

    fn label(&self) -> String {
        let Transfer { payload, fec, lanes, cores } = self.transfer;
        let s = |count| if count == 1 { "" } else { "s" };
        format!("{payload} bytes, {fec}, {lanes} lane{}, {cores} core{}", s(lanes), s(cores))
    }
}

fn not_measured() -> Failure {
    failed("a stage of the transfer was not measured")
}

fn failed(why: impl Display) -> Failure {
    Failure::Thread(why.to_string())
}

/// A file in memory, which is sent to a folder beside it.
struct Original {
    folder: PathBuf,
}

impl Drop for Original {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.folder);
    }
}

impl Original {
    fn new() -> Result<Self, Failure> {
        let folder = memory().join(format!(".linecard-verify-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(failed)?;
        let original = Self { folder };
        let mut file = fs::File::create(original.path()).map_err(failed)?;
        let (mut rng, mut bytes) = (Rng::new(1), vec![0; CHUNK_BYTES as usize]);
        for _ in 0..FILE_BYTES / bytes.len() as u64 {
            rng.fill(&mut bytes);
            file.write_all(&bytes).map_err(failed)?;
        }
        Ok(original)
    }

    fn path(&self) -> PathBuf {
        self.folder.join("file")
    }

    /// Sends it, paced at this goodput. Bits per second that the receiver has written in the midst of it,
    /// and what the sender says.
    fn send(&self, transfer: &Transfer, goodput_bps: f64) -> Result<(f64, Sent), Failure> {
        let into = self.folder.join("into");
        let result = over_loopback(transfer, goodput_bps, (&self.path(), &into));
        let _gone = fs::remove_dir_all(&into);
        result
    }
}

fn over_loopback(
    transfer: &Transfer,
    goodput_bps: f64,
    (from, into): (&Path, &Path),
) -> Result<(f64, Sent), Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let peer = listener.local_addr().map_err(failed)?;
    let access = Access::Shared(SharedKey::new(&[7; 32]));
    let stop = Arc::new(AtomicBool::new(false));
    let patience = Duration::from_secs(20);
    let sending = SendOptions {
        path: from.into(),
        peer,
        name: "loopback".into(),
        access: access.clone(),
        lanes: vec![lane(transfer, goodput_bps); transfer.lanes],
        rate_bps: None,
        mode: Mode::Stable,
        fec: transfer.fec,
        chunk_bytes: ChunkBytes::new(CHUNK_BYTES.into()).map_err(failed)?,
        payload_bytes: Some(transfer.payload),
        patience,
        stop: Arc::clone(&stop),
    };
    let receiving = ReceiveOptions {
        folder: Some(into.into()),
        overwrite: false,
        access,
        lanes: Vec::new(),
        memory_bytes: MEMORY_BYTES,
        patience,
        stop,
    };
    let cores = [0, transfer.cores - 1];
    let mut seen: Vec<(Duration, u64)> = Vec::new();
    let (sent, got) = thread::scope(|scope| {
        // Threads that these start inherit their cores.
        let far = scope.spawn(|| {
            pin(cores[1]).map_err(failed)?;
            let mut watch = |now: &linecard_lanes::receive::ReceiveProgress| {
                seen.push((now.elapsed, now.done_bytes));
            };
            receive(&receiving, &listener, &mut watch).map_err(failed)
        });
        let near = scope.spawn(|| {
            pin(cores[0]).map_err(failed)?;
            send(&sending, &mut |_| {}).map_err(failed)
        });
        (near.join(), far.join())
    });
    let ended = |_| failed("a thread of the transfer has panicked");
    got.map_err(ended)??;
    Ok((steady(&seen).ok_or_else(|| failed("the transfer was over at once"))?, sent.map_err(ended)??))
}

/// A lane's share of the rate, with all that is on the line.
fn lane(transfer: &Transfer, goodput_bps: f64) -> Spec {
    let Transfer { payload, fec, lanes, .. } = *transfer;
    let on_line = f64::from(payload + OVERHEAD_BYTES as u32 + FRAMING) / f64::from(payload);
    let rate = goodput_bps * on_line * (1.0 + fec.overhead()) / lanes as f64;
    Spec {
        family: Family::Udp,
        place: Place::Address(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        port: None,
        rate_bps: Some(rate as u64),
        shared: None,
    }
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

fn table(rows: &[Row]) -> Section {
    let title = "Goodput at most: predicted, measured, difference; packets sent again";
    let mut section = Section::list("transfers", title);
    for row in rows {
        let [predicted, measured] = [0, 1].map(|at| row.middle(|run| run[at]));
        let text = format!(
            "{:>11}  {:>11}  {:>+6.1} %  {:>4.1} %",
            Value::BitRate(predicted).to_string(),
            Value::BitRate(measured).to_string(),
            row.difference() * 100.0,
            row.resent * 100.0
        );
        let fields = vec![
            ("predicted", Value::BitRate(predicted)),
            ("measured", Value::BitRate(measured)),
            ("difference", Value::Share(row.difference())),
            ("resent", Value::Share(row.resent)),
        ];
        section.add("", row.label(), Value::Fields(text, fields));
    }
    section
}

/// What of an offered rate is done, below and above what was predicted.
fn offers(rows: &[Row]) -> Section {
    let title = "Lanes paced below and above what was predicted: share offered, share of it done";
    let mut section = Section::list("offered", title);
    for share in OFFERED {
        for row in rows {
            let done = if share < 1.0 {
                median(row.kept.iter().map(|[offered, done]| done / offered).collect())
            } else {
                Some(row.middle(|[predicted, measured]| measured / (share * predicted)))
            };
            let done = done.unwrap_or(f64::NAN);
            let misses = done < KEPT;
            let word = if misses { "misses" } else { "keeps up" };
            let text = format!("{:>4.0} %  {:>5.1} %  {word}", share * 100.0, done * 100.0);
            let fields = vec![
                ("offered", Value::Share(share)),
                ("done", Value::Share(done)),
                ("misses", Value::Flag(misses)),
            ];
            section.add("", row.label(), Value::Fields(text, fields));
        }
    }
    section
}
