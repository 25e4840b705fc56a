//! Tables 1 and 2: core cycles of a packet, in all and idle.
//!
//! Where a cell differs, the reason is one that the table itself gives: cycles of a packet of a class
//! that are not idle are those of its instructions, and the same at every size and clock.

use super::super::Reproduced;
use super::super::comparison::{Comparison, Row, add_all};
use super::{Bench, DMA_HZ, Point, SIZES, protocol};
use crate::Error;
use crate::model::core::DmaClock;
use crate::model::transmit::figures::CLASSES;
use std::path::Path;

/// Total and idle cycles as published: by protocol, class and size.
type Published = [[[(u32, u32); 3]; 4]; 2];

const TABLE_1: Published = [
    [
        [(45, 37), (33, 25), (20, 12)],
        [(49, 31), (37, 19), (24, 5)],
        [(41, 31), (29, 19), (16, 6)],
        [(41, 37), (30, 25), (17, 11)],
    ],
    [
        [(45, 37), (33, 25), (22, 13)],
        [(49, 31), (37, 19), (25, 7)],
        [(40, 32), (28, 20), (16, 8)],
        [(40, 37), (28, 25), (16, 12)],
    ],
];

const TABLE_2: Published = [
    [
        [(18, 9), (15, 6), (20, 11)],
        [(23, 4), (20, 1), (24, 5)],
        [(14, 4), (11, 1), (16, 6)],
        [(15, 9), (11, 5), (17, 11)],
    ],
    [
        [(8, 0), (8, 0), (22, 13)],
        [(23, 5), (20, 2), (25, 7)],
        [(13, 5), (11, 3), (16, 8)],
        [(13, 9), (11, 7), (16, 12)],
    ],
];

/// Where continuation packets stand among the classes.
const COM: usize = 2;
/// The clock at which the DMA of 2115 MHz is five times as fast as the core.
const FIFTH_HZ: u64 = DMA_HZ / 5;

/// Table 1: the DMA has five times the core's clock.
pub(in super::super) fn table1(path: Option<&Path>) -> Result<Reproduced, Error> {
    let bench = Bench::new(path, "approach-2")?;
    let title = "Table 1: core cycles, DMA five times as fast as the core";
    let mut table = Comparison::new("table_1", title);
    let mut exact = [0; 2];
    for udp in [false, true] {
        for (column, mtu) in SIZES.into_iter().enumerate() {
            let dma = DmaClock::OfCore(5_000_000);
            let point = Point { udp, mtu, core_hz: FIFTH_HZ, dma };
            add_column(&bench, point, (&TABLE_1, column), (&mut table, &mut exact))?;
        }
    }
    let mut report = bench.report("reproduce lso-table1");
    report.note(exact_text(exact));
    let unexplained = add_all(&[table], &[], &mut report);
    report.note(
        "Real firmware (approach-2) on the modelled core; each cell is read off the first packet of its \
         class. Nothing here depends on the core's clock: only the ratio counts.",
    );
    Ok(Reproduced { report, unexplained })
}

/// Table 2: the DMA has 2115 MHz. The paper does not say which clock the core had.
pub(in super::super) fn table2(path: Option<&Path>) -> Result<Reproduced, Error> {
    let bench = Bench::new(path, "approach-2")?;
    let title = "Table 2: core cycles, DMA at 2115 MHz";
    let mut table = Comparison::new("table_2", title);
    let mut report = bench.report("reproduce lso-table2");
    let mut exact = [0; 2];
    for (column, mtu) in SIZES.into_iter().enumerate() {
        let (core_hz, how) = column_clock(&bench, column)?;
        report.note(how);
        for udp in [false, true] {
            let point = Point { udp, mtu, core_hz, dma: DmaClock::Hz(DMA_HZ) };
            add_column(&bench, point, (&TABLE_2, column), (&mut table, &mut exact))?;
        }
    }
    report.note(exact_text(exact));
    let unexplained = add_all(&[table], &[], &mut report);
    Ok(Reproduced { report, unexplained })
}

/// A column of one protocol: four classes, two numbers each.
fn add_column(
    bench: &Bench,
    point: Point,
    (published, column): (&Published, usize),
    (table, exact): (&mut Comparison, &mut [u32; 2]),
) -> Result<(), Error> {
    let cells = bench.cells(point)?;
    for (class, cell) in cells.iter().enumerate() {
        let Some(cell) = cell else { continue };
        let (total, idle) = published[usize::from(point.udp)][class][column];
        let befores = [cell.before, cells[COM].map_or(0, |com| com.before)];
        let reason = reason(published, (point.udp, class, column), befores);
        let what = |which| {
            format!("{} {} {} bytes, {which}", protocol(point.udp), CLASSES[class].1, point.mtu)
        };
        for (which, (name, paper, ours)) in
            [("total", total, cell.total), ("idle", idle, cell.idle)].into_iter().enumerate()
        {
            exact[which] += u32::from(u64::from(paper) == ours);
            let mut row = Row::number(what(name), paper, ours as f64);
            if let Some((reason, cycles)) = &reason {
                let (paper, cycles) = (f64::from(paper), *cycles as f64);
                row = row.because(reason.clone(), (paper - cycles).max(0.0)..=paper + cycles);
            }
            table.add(row);
        }
    }
    Ok(())
}

fn exact_text([totals, idles]: [u32; 2]) -> String {
    format!("{totals} of 24 totals and {idles} of 24 numbers of idle cycles are the same.")
}

/// What is odd about a published cell, by what its table says elsewhere, and how many cycles that may
/// make. `befores` are the cycles that come before the transfer for this class and for continuation
/// packets.
fn reason(
    published: &Published,
    (udp, class, column): (bool, usize, usize),
    befores: [u64; 2],
) -> Option<(String, u64)> {
    let rows = &published[usize::from(udp)];
    let (total, idle) = rows[class][column];
    let busy = total - idle;
    let mut usual = TABLE_1[usize::from(udp)][class].map(|(total, idle)| total - idle);
    usual.sort_unstable();
    let usual = usual[1];
    let transfer = |total: u32, before: u64| u64::from(total).checked_sub(before);
    let com = transfer(rows[COM][column].0, befores[1])?;
    if idle == 0 && u64::from(total) == befores[0] {
        let text = "a slip: its transfer is left out, although no work is beside it to hide it";
        return Some((text.to_owned(), com));
    }
    if busy != usual {
        let text = format!(
            "{total} less {idle} leaves {busy} busy cycles; packets of this class have {usual} \
             (table 1, middle of three sizes)"
        );
        // The slip may be in either number, and rounding takes another cycle.
        return Some((text, u64::from(busy.abs_diff(usual)) + 1));
    }
    let own = transfer(total, befores[0])?;
    (own != com).then(|| {
        let text = format!(
            "a transfer of {own} cycles, where the COM of the same column has one of {com}"
        );
        (text, own.abs_diff(com))
    })
}

/// The core clock of a column of table 2, and how it was found.
fn column_clock(bench: &Bench, column: usize) -> Result<(u64, String), Error> {
    let mtu = SIZES[column];
    let (mut low, mut high) = (0_f64, f64::INFINITY);
    let mut lengths = [0; 2];
    for udp in [false, true] {
        let point = Point { udp, mtu, core_hz: FIFTH_HZ, dma: DmaClock::Hz(DMA_HZ) };
        let before = bench.cells(point)?[COM].map_or(0, |com| com.before);
        let transfer = u64::from(TABLE_2[usize::from(udp)][COM][column].0).saturating_sub(before);
        lengths[usize::from(udp)] = transfer;
        let word = u64::from(bench.config.bus.bits) / 8;
        let cycles = (point.mss() as u64).div_ceil(word) * bench.config.dma.cycles_per_word;
        // A transfer takes `transfer` core cycles, rounded up, between these clocks.
        let clock = |cycles_of_core: u64| {
            cycles_of_core as f64 * DMA_HZ as f64 / 1e6 / cycles.max(1) as f64
        };
        low = low.max(clock(transfer.saturating_sub(1)));
        high = high.min(clock(transfer));
    }
    let [tcp, udp] = lengths;
    let fifth = FIFTH_HZ as f64 / 1e6;
    let mhz = if (low..=high).contains(&fifth) { fifth } else { f64::midpoint(low, high).floor() };
    let how = format!(
        "{mtu} bytes: the paper does not give the core's clock. Its COM cells leave {tcp} cycles for the \
         transfer (TCP) and {udp} (UDP), which a core of {low:.1} to {high:.1} MHz sees; taken: {mhz} \
         MHz."
    );
    Ok(((mhz * 1e6) as u64, how))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::comparison::Verdict;

    /// Cells that agree need no reason: it would hide it if they no longer did.
    #[test]
    fn reasons_are_for_few_cells() {
        let befores = [[8, 12, 4, 5], [8, 12, 3, 3]];
        let count = |published: &Published| {
            let mut count = 0;
            for udp in [false, true] {
                for class in 0..4 {
                    for column in 0..3 {
                        let own = befores[usize::from(udp)];
                        let befores = [own[class], own[COM]];
                        let found = reason(published, (udp, class, column), befores);
                        count += usize::from(found.is_some());
                    }
                }
            }
            count
        };
        assert_eq!((count(&TABLE_1), count(&TABLE_2)), (5, 16));
    }

    #[test]
    fn table_1_is_exact_but_for_five_numbers() {
        let bench = Bench::new(None, "approach-2").expect("a bench");
        let (mut table, mut exact) = (Comparison::new("table", "table"), [0; 2]);
        for udp in [false, true] {
            for (column, mtu) in SIZES.into_iter().enumerate() {
                let dma = DmaClock::OfCore(5_000_000);
                let point = Point { udp, mtu, core_hz: FIFTH_HZ, dma };
                let found = (&mut table, &mut exact);
                add_column(&bench, point, (&TABLE_1, column), found).expect("runs");
            }
        }
        let verdicts = [Verdict::Same, Verdict::Within, Verdict::Explained, Verdict::Unexplained];
        assert_eq!(verdicts.map(|verdict| table.count(verdict)), [43, 0, 5, 0]);
        assert_eq!(exact, [22, 21]);
    }
}
