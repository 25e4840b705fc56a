//! Tables and JSON.

use crate::measure::Times;
use std::fmt::Write;

/// The measured implementations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Floor(&'static str),
    Linecard,
    TunRs,
    Dpdk,
}

impl Who {
    pub fn name(self) -> &'static str {
        match self {
            Self::Floor(name) => name,
            Self::Linecard => "linecard",
            Self::TunRs => "tun-rs",
            Self::Dpdk => "dpdk",
        }
    }
}

/// The class of work: others are compared with ours of the same class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    None,
    Trusted,
    Verified,
    HeldTrusted,
    HeldVerified,
    Headers,
    Summed,
    Copied,
}

impl Class {
    pub const RECEIVE: [Self; 4] =
        [Self::Trusted, Self::Verified, Self::HeldTrusted, Self::HeldVerified];
    pub const SEND: [Self; 3] = [Self::Headers, Self::Summed, Self::Copied];

    /// Whether checksums are verified, and whether packets are held across bursts.
    pub fn receive(self) -> (bool, bool) {
        let verify = matches!(self, Self::Verified | Self::HeldVerified);
        (verify, matches!(self, Self::HeldTrusted | Self::HeldVerified))
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Trusted => "trusted",
            Self::Verified => "verified",
            Self::HeldTrusted => "held, trusted",
            Self::HeldVerified => "held, verified",
            Self::Headers => "headers",
            Self::Summed => "headers, summed",
            Self::Copied => "copied and summed",
        }
    }
}

/// One row of a table.
#[derive(Debug)]
pub struct Line {
    pub who: Who,
    pub class: Class,
    pub hot: Times,
    pub cold: Times,
    /// Packets in for one out.
    pub aggregate: Option<f64>,
    /// Whether what came out is right; `None` where nothing can be said.
    pub right: Option<bool>,
    /// Quiet estimates over those of ours, hot and cold: below 1, this one is faster.
    pub ratio: Option<[f64; 2]>,
}

impl Line {
    pub fn new(who: Who, class: Class, [hot, cold]: [Times; 2]) -> Self {
        Self { who, class, hot, cold, aggregate: None, right: None, ratio: None }
    }

    fn quiet(&self) -> [f64; 2] {
        [self.hot.quiet(), self.cold.quiet()]
    }
}

/// All of one input.
#[derive(Debug)]
pub struct Report {
    pub direction: &'static str,
    pub name: String,
    pub what: String,
    pub unit: &'static str,
    pub units: usize,
    /// Mean bytes of payload.
    pub payload: f64,
    pub lines: Vec<Line>,
}

impl Report {
    /// Compares the others with ours.
    pub fn with_ratios(mut self) -> Self {
        for index in 0..self.lines.len() {
            let line = &self.lines[index];
            if matches!(line.who, Who::TunRs | Who::Dpdk)
                && let Some(ours) = self.find(Who::Linecard, line.class)
            {
                let ([a, b], [c, d]) = (line.quiet(), ours.quiet());
                self.lines[index].ratio = Some([a / c, b / d]);
            }
        }
        self
    }

    /// Whether anything that came out is not right.
    pub fn wrong(&self) -> bool {
        self.lines.iter().any(|line| line.right == Some(false))
    }

    fn find(&self, who: Who, class: Class) -> Option<&Line> {
        self.lines.iter().find(|line| line.who == who && line.class == class)
    }

    /// The full table of one input.
    pub fn table(&self) -> String {
        let Self { direction, name, what, unit, units, payload, .. } = self;
        let mut text =
            format!("\n{name}: {direction}, {what}; {units} {unit}s of {payload:.0} B\n");
        let title = format!("ns per {unit}");
        let _ = writeln!(
            text,
            "{title:<28}|   hot: quiet  median |  cold: quiet  median | in/out | peer/ours hot  cold"
        );
        for line in &self.lines {
            let name = format!("{} {}", line.who.name(), line.class.name());
            let _ = write!(text, "{name:<28}");
            for times in [&line.hot, &line.cold] {
                let _ = write!(text, "| {:12.1} {:7.1} ", times.quiet(), times.median());
            }
            let aggregate = line.aggregate.map_or(String::new(), |mean| format!("{mean:.2}"));
            let _ = write!(text, "| {aggregate:>6} |");
            if let Some([hot, cold]) = line.ratio {
                let _ = write!(text, " {hot:13.2} {cold:5.2}");
            }
            text += if line.right == Some(false) { "  WRONG: not what went in\n" } else { "\n" };
        }
        text
    }

    fn json(&self) -> String {
        let lines: Vec<String> = self.lines.iter().map(Line::json).collect();
        format!(
            "{{\"direction\":{:?},\"input\":{:?},\"what\":{:?},\"unit\":{:?},\"units\":{},\
             \"payload\":{:.1},\"rows\":[\n  {}\n]}}",
            self.direction,
            self.name,
            self.what,
            self.unit,
            self.units,
            self.payload,
            lines.join(",\n  ")
        )
    }
}

impl Line {
    fn json(&self) -> String {
        let times = |times: &Times| {
            format!("{{\"quiet\":{:.2},\"median\":{:.2}}}", times.quiet(), times.median())
        };
        let option = |text: Option<String>| text.unwrap_or("null".into());
        format!(
            "{{\"who\":{:?},\"class\":{:?},\"hot\":{},\"cold\":{},\"in_per_out\":{},\"right\":{},\
             \"ratio\":{}}}",
            self.who.name(),
            self.class.name(),
            times(&self.hot),
            times(&self.cold),
            option(self.aggregate.map(|mean| format!("{mean:.3}"))),
            option(self.right.map(|right| right.to_string())),
            option(self.ratio.map(|[hot, cold]| format!("[{hot:.3},{cold:.3}]"))),
        )
    }
}

/// All figures.
pub fn json(conditions: &[(&str, String)], reports: &[Report]) -> String {
    let conditions: Vec<String> =
        conditions.iter().map(|(name, value)| format!("{name:?}:{value:?}")).collect();
    let reports: Vec<String> = reports.iter().map(Report::json).collect();
    format!(
        "{{\"conditions\":{{{}}},\n\"inputs\":[\n{}\n]}}\n",
        conditions.join(","),
        reports.join(",\n")
    )
}

/// A column of the summary: ours, or another's ratio to it.
type Column = (&'static str, Who, Class);

const RECEIVE: [Column; 9] = [
    ("trusted", Who::Linecard, Class::Trusted),
    ("dpdk", Who::Dpdk, Class::Trusted),
    ("verified", Who::Linecard, Class::Verified),
    ("tun-rs", Who::TunRs, Class::Verified),
    ("dpdk", Who::Dpdk, Class::Verified),
    ("held", Who::Linecard, Class::HeldTrusted),
    ("dpdk table", Who::Dpdk, Class::HeldTrusted),
    ("held, ver.", Who::Linecard, Class::HeldVerified),
    ("dpdk table", Who::Dpdk, Class::HeldVerified),
];
const SEND: [Column; 7] = [
    ("headers", Who::Linecard, Class::Headers),
    ("dpdk", Who::Dpdk, Class::Headers),
    ("summed", Who::Linecard, Class::Summed),
    ("dpdk", Who::Dpdk, Class::Summed),
    ("copied", Who::Linecard, Class::Copied),
    ("tun-rs", Who::TunRs, Class::Copied),
    ("dpdk", Who::Dpdk, Class::Copied),
];

/// The last tables: all inputs beside each other.
pub fn summary(reports: &[Report]) -> String {
    let mut text = String::from(
        "\nSummary, hot/cold, quiet estimates. Ours in ns; others as a multiple of ours on their \
         left: below 1, they\nare faster. *: merges less than 2/3 as much as ours does.\n",
    );
    for (direction, columns) in [("receive", &RECEIVE[..]), ("send", &SEND[..])] {
        let reports: Vec<&Report> = reports.iter().filter(|r| r.direction == direction).collect();
        if reports.is_empty() {
            continue;
        }
        let _ = write!(text, "\n{direction:<11}");
        columns.iter().for_each(|(title, ..)| text += &format!(" | {title:>10}"));
        if direction == "receive" {
            text += " | in/out: ours tun-rs dpdk; held: ours table";
        }
        text += "\n";
        for report in reports {
            let _ = write!(text, "{:<11}", report.name);
            columns.iter().for_each(|column| text += &cell(report, column));
            if direction == "receive" {
                text += &aggregates(report);
            }
            text += if report.wrong() { "  WRONG\n" } else { "\n" };
        }
    }
    text
}

fn cell(report: &Report, (_, who, class): &Column) -> String {
    let text = report.find(*who, *class).map(|line| match line.ratio {
        Some([hot, cold]) => {
            let ours = report.find(Who::Linecard, *class).and_then(|ours| ours.aggregate);
            let less = line.aggregate.zip(ours).is_some_and(|(mean, ours)| mean * 1.5 < ours);
            format!("{hot:.2}/{cold:.2}{}", if less { "*" } else { "" })
        }
        None => line.quiet().map(|ns| format!("{ns:.0}")).join("/"),
    });
    format!(" | {:>10}", text.unwrap_or("-".into()))
}

fn aggregates(report: &Report) -> String {
    let [ours, tun, dpdk, held, table] = [
        (Who::Linecard, Class::Trusted),
        (Who::TunRs, Class::Verified),
        (Who::Dpdk, Class::Trusted),
        (Who::Linecard, Class::HeldTrusted),
        (Who::Dpdk, Class::HeldTrusted),
    ]
    .map(|(who, class)| {
        let mean = report.find(who, class).and_then(|line| line.aggregate);
        mean.map_or("-".into(), |mean| format!("{mean:.1}"))
    });
    format!(" | {ours:>12} {tun:>6} {dpdk:>4}; {held:>10} {table:>5}")
}
