//! The treatment of each packet of one flow, with the reason.

use linecard::offload::coalesce::{Exit, Flush, Verdict};
use linecard::packet::{FiveTuple, Packet};
use linecard_config::ConfigError;
use linecard_io::convert::Numbered;
use linecard_report::Item;
use std::collections::HashMap;
use std::net::SocketAddr;

/// Flows counted to name the largest ones when the given one does not exist.
const MAX_FLOWS: usize = 65_536;
/// How many of them are named.
const NAMED: usize = 5;
/// Packets explained one by one; the others count in the summary only.
const MAX_LINES: usize = 10_000;

/// The parameter that names the flow.
const PARAMETER: &str = "explain_flow";

type Ends = (SocketAddr, SocketAddr);

/// A packet of a flow, or a flush of the flow.
pub type Line = Item<String>;

/// Collects what happens to one flow, one direction of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Explanation {
    wanted: Ends,
    lines: Vec<Line>,
    /// The packet being decided on, when it is of the flow.
    current: Option<(u64, String)>,
    /// Flushes that it causes, listed after it.
    leaving: Vec<String>,
    /// Time of the flow's first packet.
    start_ns: Option<u64>,
    left_out: u64,
    others: HashMap<Ends, u64>,
}

impl Explanation {
    /// For a flow written as `SOURCE:PORT-DESTINATION:PORT`.
    pub(super) fn of_flow(text: &str) -> Result<Self, ConfigError> {
        let ends = text.split_once('-').and_then(|(source, destination)| {
            Some((source.trim().parse().ok()?, destination.trim().parse().ok()?))
        });
        let wanted = ends.ok_or_else(|| {
            let what = "write SOURCE:PORT-DESTINATION:PORT, for example 10.0.0.1:5000-10.0.0.2:80 or \
                        [fd00::1]:5000-[fd00::2]:80";
            ConfigError::of_parameter(PARAMETER, what)
        })?;
        Ok(Self {
            wanted,
            lines: Vec::new(),
            current: None,
            leaving: Vec::new(),
            start_ns: None,
            left_out: 0,
            others: HashMap::new(),
        })
    }

    /// A packet is about to be decided on.
    pub(super) fn arrives(&mut self, number: u64, packet: &Packet<Numbered>) {
        self.current = None;
        let Some(ends) = ends_of(packet) else { return };
        if ends != self.wanted {
            if self.others.len() < MAX_FLOWS || self.others.contains_key(&ends) {
                *self.others.entry(ends).or_default() += 1;
            }
            return;
        }
        let at = packet.meta.timestamp.as_ns();
        let start = *self.start_ns.get_or_insert(at);
        let seconds = at.saturating_sub(start) as f64 / 1e9;
        self.current = Some((number, format!("+{seconds:.6} s  {:>5} B", packet.payload_len())));
    }

    /// Records the verdict on the packet.
    pub(super) fn decided(&mut self, number: u64, verdict: Verdict) {
        let Some((_, packet)) = self.current.take() else { return };
        let fate = match verdict {
            Verdict::Merged => "merged".to_owned(),
            Verdict::Opened(None) => "opens a merged packet".to_owned(),
            Verdict::Opened(Some(reason)) => {
                format!("not merged ({}): {}", reason.name(), reason.explanation())
            }
            Verdict::Passed(reason) => {
                format!("passed as it is ({}): {}", reason.name(), reason.explanation())
            }
        };
        self.line(number, format!("{packet}  {fate}"));
        for text in std::mem::take(&mut self.leaving) {
            self.line(number, text);
        }
    }

    /// Held packets are flushed.
    pub(super) fn leaves(&mut self, packet: &Packet<Numbered>, exit: Exit) {
        let Exit::Flushed(reason) = exit else { return };
        if ends_of(packet) == Some(self.wanted) {
            let last = packet.chain().last().map_or(packet.buffer(), |piece| piece.buffer());
            let text = let_go(packet, reason);
            match self.current {
                Some((number, _)) if number == last.number() => self.leaving.push(text),
                _ => self.line(last.number(), text),
            }
        }
    }

    /// The fate of each packet.
    pub(super) fn lines(&self) -> Vec<Line> {
        self.lines.clone()
    }

    /// The title above the lines.
    pub(super) fn title(&self) -> String {
        let (source, destination) = self.wanted;
        format!("Flow {source} to {destination}, packet by packet")
    }

    /// The note on lines beyond the limit.
    pub(super) fn note(&self) -> Option<String> {
        let left_out = self.left_out;
        (left_out > 0).then(|| format!("{left_out} further lines of the flow are left out."))
    }

    /// Refuses a flow that is not in the capture.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.start_ns.is_some() {
            return Ok(());
        }
        let mut largest: Vec<_> = self.others.iter().collect();
        largest.sort_by_key(|(ends, packets)| (std::cmp::Reverse(**packets), **ends));
        let named: Vec<String> = largest
            .iter()
            .take(NAMED)
            .map(|((source, destination), packets)| format!("{source}-{destination} ({packets})"))
            .collect();
        let known = match named.is_empty() {
            true => "it has no TCP or UDP flow".to_owned(),
            false => format!("its largest flows (packets) are {}", named.join(", ")),
        };
        let what = format!("no such flow in the capture; {known}");
        Err(ConfigError::of_parameter(PARAMETER, what))
    }

    fn line(&mut self, number: u64, text: String) {
        if self.lines.len() < MAX_LINES {
            self.lines.push(Line { label: format!("#{number}"), value: text });
        } else {
            self.left_out += 1;
        }
    }
}

fn let_go(packet: &Packet<Numbered>, reason: Flush) -> String {
    let (bytes, first) = (packet.payload_len(), packet.buffer().number());
    let what = match packet.chain().len() {
        0 => "alone".to_owned(),
        more => format!("{} packets from #{first}, {bytes} B", more + 1),
    };
    format!("  flushed {what} ({}): {}", reason.name(), reason.explanation())
}

fn ends_of(packet: &Packet<Numbered>) -> Option<Ends> {
    FiveTuple::of(packet.layout(), packet.bytes()).map(FiveTuple::ends)
}
