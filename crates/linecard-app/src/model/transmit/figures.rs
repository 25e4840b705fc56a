//! One run of a scenario, and its figures.

use super::Config;
use crate::Context;
use linecard::offload::segment::Class;
use linecard_model::Ps;
use linecard_model::rv32::Image;
use linecard_model::transmit::{Cell, Design, Sent, Transmit, TransmitError, TransmitResults};

/// The classes in the order of the published tables.
pub const CLASSES: [(Class, &str); 4] =
    [(Class::Ssm, "SSM"), (Class::Bom, "BOM"), (Class::Com, "COM"), (Class::Eom, "EOM")];

/// Result of a run.
#[derive(Debug, Clone)]
pub struct Figures {
    /// The system that ran.
    pub design: Design,
    /// Counters of the model.
    pub outcome: TransmitResults,
    classes: [ClassFigures; 4],
}

/// Cells of one class.
#[derive(Debug, Clone, Default)]
pub struct ClassFigures {
    /// Packets.
    pub packets: u64,
    /// All cycles of a packet.
    pub total: Spread,
    /// Those before its transfer.
    pub before: Spread,
    /// Those of work beside its transfer.
    pub beside: Spread,
    /// Those that the core waited.
    pub idle: Spread,
}

/// Least, mean and most of a number.
#[derive(Debug, Clone, Default)]
pub struct Spread {
    /// The least.
    pub least: u64,
    /// The most.
    pub most: u64,
    sum: u64,
    count: u64,
}

/// Runs a design with the configuration's load, until the job is cancelled; `sink` gets each packet that has left.
///
/// # Errors
///
/// Firmware that fails, and messages that cannot be segmented.
pub fn simulate(
    (config, design): (&Config, &Design),
    firmware: &Image,
    context: &Context<'_>,
    sink: impl FnMut(&Sent),
) -> Result<Figures, TransmitError> {
    let mut transmit = Transmit::new(design, firmware)?;
    let messages = context.each(config.load.messages());
    Figures::of(&mut transmit, design, messages, sink)
}

impl Figures {
    /// Runs what was built.
    ///
    /// # Errors
    ///
    /// As [`simulate`].
    pub fn of(
        transmit: &mut Transmit,
        design: &Design,
        messages: impl IntoIterator<Item = linecard_model::transmit::Message>,
        mut sink: impl FnMut(&Sent),
    ) -> Result<Self, TransmitError> {
        let mut classes = <[ClassFigures; 4]>::default();
        let outcome = transmit.run(messages, |sent| {
            let at = CLASSES.iter().position(|(class, _)| *class == sent.cell.class);
            classes[at.unwrap_or(0)].add(&sent.cell);
            sink(sent);
        })?;
        Ok(Self { design: design.clone(), outcome, classes })
    }

    /// The classes that occurred.
    pub fn classes(&self) -> impl Iterator<Item = (&'static str, &ClassFigures)> {
        let named = CLASSES.iter().map(|(_, name)| *name).zip(&self.classes);
        named.filter(|(_, figures)| figures.packets > 0)
    }

    /// One class.
    #[must_use]
    pub fn class(&self, class: Class) -> &ClassFigures {
        let at = CLASSES.iter().position(|(known, _)| *known == class);
        &self.classes[at.unwrap_or(0)]
    }

    /// From the beginning until the last packet had left.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.outcome.left.max(Ps(1)).as_secs_f64()
    }

    /// Packets that left in a second.
    #[must_use]
    pub fn packets_per_second(&self) -> f64 {
        self.outcome.packets() as f64 / self.seconds()
    }

    /// Core cycles of a packet, on average over all classes.
    #[must_use]
    pub fn cycles_per_packet(&self) -> f64 {
        let cycles: u64 = self.classes.iter().map(|class| class.total.sum).sum();
        cycles as f64 / self.outcome.packets().max(1) as f64
    }

    /// Payload of messages, in bytes: taken, and moved.
    #[must_use]
    pub fn payload(&self) -> (u64, u64) {
        let units = &self.outcome.units;
        let sum = |of: fn(&linecard_model::transmit::UnitCounters) -> u64| {
            units.iter().map(of).sum::<u64>()
        };
        (sum(|unit| unit.payload_in), sum(|unit| unit.payload_out))
    }

    /// Messages taken.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.outcome.units.iter().map(|unit| unit.messages).sum()
    }

    /// Headers written while they were moved.
    #[must_use]
    pub fn hazards(&self) -> u64 {
        self.outcome.units.iter().map(|unit| unit.hazards).sum()
    }

    /// Payload, in bits per second.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        self.payload().1 as f64 * 8.0 / self.seconds()
    }

    /// Packets and what the line needs beside them, in bits per second.
    #[must_use]
    pub fn wire_rate(&self) -> f64 {
        let beside = self.outcome.packets() * self.design.wire_overhead_bytes;
        (self.outcome.bytes + beside) as f64 * 8.0 / self.seconds()
    }

    /// The wire rate as a share of the line, where it has a limit.
    #[must_use]
    pub fn line_share(&self) -> Option<f64> {
        let rate = self.design.line_bits_per_second?;
        Some(self.wire_rate() / rate as f64)
    }

    /// The share of all cores' cycles that were instructions, stalls and bubbles.
    #[must_use]
    pub fn core_shares(&self) -> [f64; 3] {
        let cycles = self.seconds() * self.design.core.hz() as f64 * self.design.cores as f64;
        let all = &self.outcome.cycles;
        let share = |sum: u64| sum as f64 / cycles;
        [
            share(all.iter().map(|core| core.busy).sum()),
            share(all.iter().map(|core| core.stalled).sum()),
            share(all.iter().map(|core| core.bubbles).sum()),
        ]
    }

    /// The share of time in which a DMA moves words, and with it has its bus.
    #[must_use]
    pub fn dma_share(&self) -> f64 {
        let words: u64 = self.outcome.units.iter().map(|unit| unit.words).sum();
        let cycles = (words * self.design.cycles_per_word) as f64;
        let seconds = self.seconds() * self.design.cores as f64;
        cycles / self.design.dma.hz() as f64 / seconds
    }

    /// Whether every packet was what the offload of this project makes of its message, and all
    /// payload left.
    #[must_use]
    pub fn is_right(&self) -> bool {
        let (taken, moved) = self.payload();
        self.outcome.wrong == 0 && taken == moved
    }
}

impl ClassFigures {
    fn add(&mut self, cell: &Cell) {
        self.packets += 1;
        self.total.add(cell.total);
        self.before.add(cell.before);
        self.beside.add(cell.beside);
        self.idle.add(cell.idle);
    }
}

impl Spread {
    /// Adds a number.
    pub fn add(&mut self, value: u64) {
        self.least = if self.count == 0 { value } else { self.least.min(value) };
        self.most = self.most.max(value);
        self.sum += value;
        self.count += 1;
    }

    /// The mean, 0 of none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// One number where all are equal, else least, mean and most.
    #[must_use]
    pub fn text(&self) -> String {
        if self.least == self.most {
            return self.least.to_string();
        }
        format!("{}/{:.1}/{}", self.least, self.mean(), self.most)
    }
}
