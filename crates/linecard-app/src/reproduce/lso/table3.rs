//! Table 3: the core clock that carries 40 and 100 Gbit/s, copying headers and updating them in place.

use super::super::Reproduced;
use super::super::comparison::{Comparison, Row, add_all};
use super::clocks::{Clocks, Scan};
use super::{Bench, DMA_HZ, Point, SIZES};
use crate::Error;
use crate::model::core::DmaClock;
use linecard_report::{Section, Value};
use std::path::Path;

const RATES: [(u64, &str); 2] = [(40_000_000_000, "40"), (100_000_000_000, "100")];

/// MHz as published: by approach, size and rate.
const TABLE_3: [(&str, [[u32; 2]; 3]); 2] = [
    ("approach-1", [[125, 313], [182, 455], [357, 893]]),
    ("approach-2", [[60, 148], [87, 216], [170, 423]]),
];

/// What firmware needed of each cell when the reasons were written, in MHz, and how far from it they
/// hold. Both numbers of a cell are computed, so that only a change of model or scenario moves ours.
const SEEN: [[[u32; 2]; 3]; 2] =
    [[[60, 371], [87, 503], [170, 870]], [[33, 140], [48, 192], [94, 329]]];
const MARGIN: f64 = 0.02;

/// Cells of the table, the cycles that they are of, and what firmware needs.
pub(in super::super) fn table3(path: Option<&Path>) -> Result<Reproduced, Error> {
    let formula_title = "Table 3 as N cycles for every packet: MHz = N · rate / ((size + 20) · 8)";
    let mut formula = Comparison::new("formula", formula_title);
    let runs_title = "Table 3 and our firmware: the clock from which all carry the rate";
    let mut runs = Comparison::new("table_3", runs_title);
    let title = "Clocks that carry the rate, continuation packets, DMA at 2115 MHz";
    let mut found = Section::list("clocks", title);
    let mut jobs = Vec::new();
    for name in ["approach-1", "approach-2", "best"] {
        let bench = Bench::new(path, name)?;
        jobs.push(bench.job());
        let published = TABLE_3.iter().find(|(known, _)| *known == name);
        let overhead = bench.config.line.overhead.get();
        let cycles = published.map(|(_, cells)| published_cycles(cells, overhead));
        for (row, mtu) in SIZES.into_iter().enumerate() {
            let dma = DmaClock::Hz(DMA_HZ);
            let scan = Scan::run(&bench, Point { udp: false, mtu, core_hz: DMA_HZ, dma })?;
            for (column, (rate, gbps)) in RATES.into_iter().enumerate() {
                let clocks = scan.clocks(rate)?;
                let what = format!("{name}, {mtu} bytes, {gbps} Gbit/s");
                found.add("", what.clone(), value(clocks, scan.messages(rate)?));
                let (Some((_, cells)), Some(cycles)) = (published, cycles) else { continue };
                let paper = cells[row][column];
                formula.add(by_formula(&what, (paper, cycles), mtu, (rate, overhead)));
                let reason = bench.reason(mtu, (paper, cycles), clocks)?;
                let seen = SEEN[usize::from(name == "approach-2")][row][column];
                runs.add(by_run(what, paper, clocks, reason, seen));
            }
        }
    }
    let mut report = super::report("reproduce lso-table3", jobs);
    let unexplained = add_all(&[formula, runs], &[], &mut report);
    report.push(found);
    report.note(
        "Where ours is lower it is because a packet costs P cycles before its transfer and the longer of transfer and \
         the work beside it, not one number for all sizes; in the best firmware P is 2 (RFC 6864 spares \
         the identification). Messages' first and last packets cost more: they are in the clock for whole messages, of 40 packets \
         one behind the other, only.",
    );
    report.note(
        "A transfer takes whole core cycles: where a faster core sees one more, it may not carry what a \
         slower one does. Tried is each whole MHz up to 1000, and below the first that carries the rate \
         each tenth.",
    );
    Ok(Reproduced { report, unexplained })
}

/// The whole number of cycles that the largest cell is of.
fn published_cycles(cells: &[[u32; 2]; 3], overhead: u64) -> f64 {
    let bits = (u64::from(SIZES[2]) + overhead) as f64 * 8.0;
    (f64::from(cells[2][1]) * 1e6 * bits / RATES[1].0 as f64).round()
}

fn by_formula(
    what: &str,
    (paper, cycles): (u32, f64),
    mtu: u16,
    (rate, overhead): (u64, u64),
) -> Row {
    let mhz = cycles * rate as f64 / ((u64::from(mtu) + overhead) as f64 * 8.0) / 1e6;
    let row = Row::number(format!("{what}, N = {cycles}"), paper, mhz).unit("MHz");
    let paper = f64::from(paper);
    row.because("rounded up, where other cells are rounded", paper - 1.0..=paper)
}

fn by_run(
    what: String,
    paper: u32,
    clocks: Option<Clocks>,
    reason: Option<String>,
    seen: u32,
) -> Row {
    let Some(clocks) = clocks else {
        return Row::shape(what, format!("{paper} MHz"), Clocks::text(None), false);
    };
    let row = Row::number(what, paper, clocks.all_above as f64).unit("MHz");
    let (low, high) = (f64::from(seen) * (1.0 - MARGIN), f64::from(seen) * (1.0 + MARGIN));
    match reason {
        Some(reason) => row.because(reason, low..=high),
        None => row,
    }
}

fn value(clocks: Option<Clocks>, messages: Option<u64>) -> Value {
    let whole = messages.map_or_else(|| "none".to_owned(), |mhz| format!("{mhz} MHz"));
    let text = format!("{}; whole messages {whole}", Clocks::text(clocks));
    let mhz = |of: fn(Clocks) -> f64| clocks.map_or(Value::Flag(false), |c| Value::Number(of(c)));
    let fields = vec![
        ("smallest_mhz", mhz(|c| c.smallest)),
        ("all_above_mhz", mhz(|c| c.all_above as f64)),
        ("messages_mhz", messages.map_or(Value::Flag(false), |mhz| Value::Number(mhz as f64))),
    ];
    Value::Fields(text, fields)
}

impl Bench {
    /// What a cell's number of cycles leaves out, if ours is higher, or has too many, if it is lower:
    /// shown by a packet of a run.
    fn reason(
        &self,
        mtu: u16,
        (paper, cycles): (u32, f64),
        clocks: Option<Clocks>,
    ) -> Result<Option<String>, Error> {
        let Some(ours) = clocks.map(|clocks| clocks.all_above) else { return Ok(None) };
        if ours > u64::from(paper) {
            return self.no_room(mtu, (paper, cycles));
        }
        let dma = DmaClock::Hz(DMA_HZ);
        let point = Point { udp: false, mtu, core_hz: ours * 1_000_000, dma };
        let Some(com) = self.cells(point)?[2] else { return Ok(None) };
        Ok(((com.total as f64) < cycles).then(|| {
            format!(
                "{cycles} cycles for every packet there; at {ours} MHz the firmware takes {} for one",
                com.total
            )
        }))
    }

    /// Whether a cell's cycles have no room for its own transfer and what has to come before it.
    fn no_room(&self, mtu: u16, (paper, cycles): (u32, f64)) -> Result<Option<String>, Error> {
        let core_hz = u64::from(paper) * 1_000_000;
        let point = Point { udp: false, mtu, core_hz, dma: DmaClock::Hz(DMA_HZ) };
        let Some(com) = self.cells(point)?[2] else { return Ok(None) };
        let transfer = com.total - com.before;
        let is_full = (com.before + transfer) as f64 > cycles && com.idle > 0;
        Ok(is_full.then(|| {
            format!(
                "the paper's {cycles} cycles leave out that the core waits: at {paper} MHz a transfer \
                 takes {transfer}, and {} instructions come before it",
                com.before
            )
        }))
    }
}
