//! Figures 6 and 7: what is left of the wire for data.

use super::scenario::Overhead;
use crate::failure::Failure;
use crate::reproduce::Reproduced;
use crate::reproduce::comparison::{Comparison, Row, add_all};
use linecard_model::pci::{FRAME_OVERHEAD, WIRE_OVERHEAD, efficiency, file_frames};
use linecard_report::{Report, Section, Value};
use std::path::Path;

/// The paper's frames: the longest and the shortest.
const LONGEST: u32 = 1_518;
const SHORTEST: u32 = 64;

/// Computes, paper and ours side by side.
pub(in super::super) fn reproduce(path: Option<&Path>) -> Result<Reproduced, Failure> {
    let scenario = Overhead::read(path)?;
    let mut report = Report::new("reproduce");
    let unexplained = add_all(&[figure_6(), files(&scenario)], &mut report);
    report.push(curve(&scenario));
    Ok(Reproduced { report, unexplained })
}

fn figure_6() -> Comparison {
    let mut table =
        Comparison::new("figure_6", "Figure 6 and the text: overhead of Ethernet and TCP/IP");
    let overhead = f64::from(FRAME_OVERHEAD + WIRE_OVERHEAD);
    table.add(Row::number("beside the data of a frame", 78, overhead).unit("bytes"));
    let least = f64::from(SHORTEST - FRAME_OVERHEAD);
    table.add(Row::number("data in a frame of 64 bytes", 6, least).unit("bytes"));
    let most = f64::from(LONGEST - FRAME_OVERHEAD);
    table.add(Row::number("data in a frame of 1518 bytes", 1_460, most).unit("bytes"));
    let share = efficiency(LONGEST) * 100.0;
    table.add(Row::number("data of the wire, 1518 bytes", (94.9, 1), share).unit("%"));
    for (name, paper, mbps) in [
        ("most data over 100 Mbit/s", (94.9, 1), 100.0),
        ("most data over 1 Gbit/s", (949.0, 0), 1_000.0),
    ] {
        table.add(Row::number(name, paper, efficiency(LONGEST) * mbps).unit("Mbit/s"));
    }
    table
}

/// Of the text's example.
const FILE_OF_PAPER: u32 = 100_000;

fn files(scenario: &Overhead) -> Comparison {
    let (full, rest) = file_frames(scenario.file_bytes);
    let mut table = Comparison::new("file", "A file of 100,000 bytes");
    let row = |what, paper: i32, ours: u32| {
        let row = Row::number(what, paper, ours.into());
        let most = f64::from(scenario.file_bytes);
        let is_another = scenario.file_bytes != FILE_OF_PAPER;
        if is_another { row.because("the scenario has another file", 0.0..=most) } else { row }
    };
    table.add(row("full frames", 68, full));
    table.add(row("data in the last frame", 720, rest).unit("bytes"));
    table
}

/// Figure 7 has no numbers: ours alone.
fn curve(scenario: &Overhead) -> Section {
    let mut section = Section::list("figure_7", "Figure 7: data of the wire over the frame, ours");
    for &frame in &scenario.frames {
        let share = efficiency(frame);
        let mut text = format!("{:5.2} %", share * 100.0);
        let mut fields =
            vec![("frame_bytes", Value::Bytes(frame.into())), ("data_share", Value::Share(share))];
        let mut rates = Vec::new();
        for &mbps in &scenario.rates_mbps {
            let rate = share * f64::from(mbps) * 1e6;
            text +=
                &format!("  {} of {}", Value::BitRate(rate), Value::BitRate(f64::from(mbps) * 1e6));
            rates.push(rate);
        }
        let most = rates.into_iter().fold(0.0, f64::max);
        fields.push(("most_bits_per_second", Value::BitRate(most)));
        section.add("", format!("{frame} bytes"), Value::Fields(text, fields));
    }
    section
}
