//! Elbeshti et al., "Cycle processing" and figures 7 and 8: the receiving side, with real firmware
//! on the modelled core.

use super::Reproduced;
use super::comparison::{Comparison, Row, add_all};
use crate::Error;
use linecard_model::receive::{ReceiveError, Remedy, com_cell, firmware, smallest_core_hz};
use linecard_model::rv32::Image;
use linecard_model::transmit::BusPolicy::{self, DualPort, Hold, Interleave};
use linecard_model::transmit::Cell;
use linecard_report::{Report, Section, Value};
use std::path::Path;

/// Bytes from the IP header on, and their keys.
const SIZES: [(u16, &str); 6] = [
    (64, "bytes_64"),
    (128, "bytes_128"),
    (256, "bytes_256"),
    (512, "bytes_512"),
    (1024, "bytes_1024"),
    (1500, "bytes_1500"),
];
/// DMA cycles for each core cycle.
const RATIOS: [u64; 6] = [1, 2, 3, 4, 5, 10];
/// What the paper weighs, and wider buses, which it concludes with.
const REMEDIES: [(Remedy, &str); 10] = [
    (Remedy::NONE, "as published, equal clocks"),
    (remedy(Hold, 2, 64), "DMA 2 times as fast"),
    (remedy(Hold, 5, 64), "DMA 5 times as fast"),
    (remedy(Interleave, 1, 64), "core between two words"),
    (remedy(DualPort, 1, 64), "multiport memory, or several buses"),
    (remedy(DualPort, 5, 64), "the same, DMA 5 times as fast"),
    (remedy(Hold, 1, 128), "128-bit bus"),
    (remedy(Hold, 1, 256), "256-bit bus"),
    (remedy(Hold, 1, 512), "512-bit bus"),
    (remedy(DualPort, 5, 512), "all: ports, DMA 5 times, 512 bits"),
];
const BITS_PER_SECOND: u64 = 100_000_000_000;

const fn remedy(policy: BusPolicy, dma_ratio: u64, bus_bits: u32) -> Remedy {
    Remedy { policy, dma_ratio, bus_bits }
}

/// Paper and ours side by side; then what the paper has no figures for.
pub(super) fn reproduce(scenario: Option<&Path>) -> Result<Reproduced, Error> {
    if let Some(path) = scenario {
        let path = path.display();
        let what = format!("{path}: lso-receive takes no scenario: leave --scenario out");
        return Err(Error::Usage(what));
    }
    tables().map_err(|error| Error::Usage(format!("the receiving side: {error}")))
}

fn tables() -> Result<Reproduced, ReceiveError> {
    let (published, best) = (firmware::published(), firmware::best());
    let mut report = Report::new("reproduce lso-receive");
    let unexplained = add_all(&[comparison(&published)?], &[], &mut report);
    let title = "Idle cycles of a TCP packet between first and last, by the DMA's clock";
    report.push(idle_section(("idle", title), &published)?);
    let title = "Core clock in MHz that carries 100 Gbit/s of TCP in messages of 44 packets";
    report.push(clock_section(("clocks", title), &published)?);
    let title = "The same, where all that can be is beside the transfer";
    report.push(clock_section(("clocks_best", title), &best)?);
    report.note(
        "Sizes are bytes from the IP header on, with 20 more on the line. The DMA's clock follows the \
         core's. A bus of its own for the DMA is to the core what multiport memory is.",
    );
    Ok(Reproduced { report, unexplained })
}

/// What the paper says of one transfer.
fn comparison(firmware: &Image) -> Result<Comparison, ReceiveError> {
    let mut table = Comparison::new("figure_8", "Figure 8: 1460 bytes over 64 bits, equal clocks");
    let cells = (
        com_cell(firmware, Remedy::NONE, 1500)?,
        com_cell(firmware, remedy(Hold, 5, 64), 1500)?.map(|cell| cell.idle),
    );
    // The firmware that comes with the model sorts these packets: its test says so.
    let (Some(Cell { total, before, beside, idle, .. }), Some(fast)) = cells else {
        return Ok(table);
    };
    // What is neither before the transfer nor beside it is waited for it.
    let cycles = (total - before) as f64;
    table.add(Row::number("cycles of the DMA", 366, cycles));
    table.add(Row::number("instructions beside them", 6, beside as f64));
    table.add(
        Row::number("cycles idle", 359, idle as f64)
            .because("\"about 359\": the paper's own 366 less 6 is 360", 360.0..=360.0),
    );
    let ours = format!("{fast} cycles idle, of {idle}");
    table.add(Row::shape("DMA 5 times as fast", "most idle cycles go", ours, fast * 2 < idle));
    Ok(table)
}

fn idle_section(
    (key, title): (&'static str, &'static str),
    firmware: &Image,
) -> Result<Section, ReceiveError> {
    let mut section = Section::list(key, title);
    for ratio in RATIOS {
        let mut row = Line::default();
        for (size, key) in SIZES {
            let cell = com_cell(firmware, remedy(Hold, ratio, 64), size)?;
            row.add((size, key), cell.map(|cell| cell.idle));
        }
        section.add("", format!("clock × {ratio}"), row.value());
    }
    Ok(section)
}

fn clock_section(
    (key, title): (&'static str, &'static str),
    firmware: &Image,
) -> Result<Section, ReceiveError> {
    let mut section = Section::list(key, title);
    for (remedy, label) in REMEDIES {
        let mut row = Line::default();
        for (size, key) in SIZES {
            let hz = smallest_core_hz(firmware, (remedy, size), BITS_PER_SECOND)?;
            row.add((size, key), hz.map(|hz| hz.div_ceil(1_000_000)));
        }
        section.add("", label, row.value());
    }
    Ok(section)
}

/// One value for each size.
#[derive(Default)]
struct Line {
    text: String,
    fields: Vec<(&'static str, Value)>,
}

impl Line {
    fn add(&mut self, (size, key): (u16, &'static str), value: Option<u64>) {
        let shown = value.map_or_else(|| "none".to_owned(), |value| value.to_string());
        let gap = if self.text.is_empty() { "" } else { "   " };
        self.text += &format!("{gap}{size} B {shown:>5}");
        self.fields.extend(value.map(|value| (key, Value::Count(value))));
    }

    fn value(self) -> Value {
        Value::Fields(self.text, self.fields)
    }
}

#[cfg(test)]
mod tests {
    use super::super::comparison::Verdict;
    use super::{comparison, firmware};

    #[test]
    fn what_the_paper_says_of_a_transfer_is_so() {
        let table = comparison(&firmware::published()).unwrap();
        assert_eq!((table.count(Verdict::Same), table.count(Verdict::Explained)), (3, 1));
        assert_eq!(table.unexplained(), 0);
    }
}
