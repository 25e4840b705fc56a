//! The figures of all rounds, as a table.

use super::iperf::Direction;
use super::session::{Sample, Way};

/// A column: its title, the width of its values, their decimals, and the value with its unit.
type Column = (&'static str, usize, usize, fn(&Sample) -> f64);

const COLUMNS: [Column; 9] = [
    ("Gbit/s", 7, 2, |sample| sample.gbps),
    ("kp/s", 6, 0, |sample| sample.packets_per_second / 1e3),
    ("acks", 5, 2, |sample| sample.acks),
    ("merge", 6, 1, |sample| sample.aggregate),
    ("own s/GB", 9, 2, |sample| sample.own_cpu),
    ("user s/GB", 10, 2, |sample| sample.own_user_cpu),
    ("all s/GB", 9, 2, |sample| sample.all_cpu),
    ("kp/core-s", 10, 0, |sample| sample.packets_per_cpu_second / 1e3),
    ("resent", 7, 0, |sample| sample.retransmits),
];

/// The columns.
const LEGEND: &str = "\
in: from the peer, merged or as packets come; out: to the peer, cut or as packets come.
Gbit/s: TCP payload. kp/s: thousand data packets on the wire a second. acks: packets back for each.
merge: packets on the wire for each one at the receiver's device. own, user s/GB: CPU seconds of
linecard's threads for each GB of payload, and those outside the kernel. all s/GB: of the whole machine,
both ends of TCP and whatever else runs included. kp/core-s: thousand data packets for each CPU second of
linecard's threads. resent: segments sent again.";

/// One way under one load.
pub(crate) struct Row {
    pub(crate) way: Way,
    pub(crate) load: (Direction, u32),
    samples: Vec<Sample>,
}

impl Row {
    pub(crate) fn new(way: Way, load: (Direction, u32)) -> Self {
        Self { way, load, samples: Vec::new() }
    }

    pub(crate) fn add(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    fn line(&self) -> String {
        let (direction, connections) = self.load;
        let direction = if direction == Direction::In { "in" } else { "out" };
        let mut line = format!("{:<24} {direction:<3} {connections:>2}", self.way);
        for (_, width, decimals, value) in COLUMNS {
            let value = median(self.samples.iter().map(value).collect());
            line += &format!(" {value:>width$.decimals$}");
        }
        line
    }
}

/// Prints the table, rows of one load below each other.
pub(crate) fn print(rows: &[Row]) {
    println!("{LEGEND}\n");
    let mut head = format!("{:<24} {:<3} {:>2}", "way", "to", "n");
    for (title, width, _, _) in COLUMNS {
        head += &format!(" {title:>width$}");
    }
    println!("{head}");
    for load in super::LOADS {
        rows.iter().filter(|row| row.load == load).for_each(|row| println!("{}", row.line()));
    }
}

/// The middle one of some values; 0 of none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
