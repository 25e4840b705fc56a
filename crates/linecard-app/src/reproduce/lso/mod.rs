//! Elbeshti et al.: tables and figures from runs of real firmware on the modelled hardware.

mod cells;
mod clock;
mod clocks;
mod table3;

use crate::model::Scenario;
use crate::model::core::{DmaClock, Protocol};
use crate::model::transmit::figures::{CLASSES, simulate};
use crate::model::transmit::{Config, TransmitModel, firmware, refused_run};
use crate::{Context, Error, Job};
use linecard::offload::segment::Class;
use linecard::packet::header::Ipv4;
use linecard_config::{Bytes, Frequency, Maybe, OneOrMany, Parsed};
use linecard_model::Ps;
use linecard_model::elf::Firmware;
use linecard_model::transmit::{Cell, Sent};
use linecard_report::Report;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;

pub(super) use cells::{table1, table2};
pub(super) use clock::clock;
pub(super) use table3::table3;

/// The hardware that comes with the command.
const BUILT_IN: &str = include_str!("../../../../../scenarios/lso-published.toml");
const BUILT_IN_NAME: &str = "scenarios/lso-published.toml";
/// Sizes that the tables have.
const SIZES: [u16; 3] = [1500, 1024, 512];
/// The clock that the paper fixes the DMA at (section 4).
const DMA_HZ: u64 = 2_115_000_000;
/// Packets of a message whose spacing is measured: what its ends cost is left out.
const STEADY_PACKETS: usize = 40;

/// A design that points are tried on.
struct Bench {
    config: Config,
    firmware: Firmware,
}

/// What is tried.
#[derive(Debug, Clone, Copy)]
struct Point {
    udp: bool,
    mtu: u16,
    core_hz: u64,
    dma: DmaClock,
}

/// Time between the starts of continuation packets.
#[derive(Debug, Clone, Copy, Default)]
struct Spacing {
    ps: u64,
    intervals: u64,
    /// Bytes of each packet, with what the line needs beside it.
    wire_bytes: u64,
}

impl Bench {
    fn new(path: Option<&Path>, firmware: &str) -> Result<Self, Error> {
        let scenario = match path {
            Some(path) => Scenario::read(path, &[])?,
            None => Scenario::of_text(Path::new(BUILT_IN_NAME), BUILT_IN, &[])?,
        };
        let document = scenario.only::<TransmitModel>()?;
        let mut config: Config = document.config()?;
        firmware.clone_into(&mut config.firmware.image);
        let context = Context { progress: &Arc::default(), document: Some(&document) };
        let firmware = firmware::load(&config, &context)?;
        Ok(Self { config, firmware })
    }

    /// The hardware for `config` of a report, by its firmware.
    fn job(&self) -> (String, Value) {
        let mut config = serde_json::to_value(&self.config).unwrap_or_default();
        config["model"] = TransmitModel::NAME.into();
        (self.config.firmware.image.clone(), config)
    }

    /// An empty report of runs on this hardware.
    fn report(&self, name: &'static str) -> Report {
        report(name, [self.job()])
    }

    fn settings(&self, point: Point) -> Config {
        let mut config = self.config.clone();
        config.load.protocol = if point.udp { Protocol::Udp } else { Protocol::Tcp };
        config.load.mtu = Bytes::new(point.mtu.into());
        config.core.mhz = Frequency::from_hz(point.core_hz);
        config.dma.mhz = Parsed(point.dma);
        // Cells are those of the core: a line that takes everything never makes it wait.
        config.line.rate = Maybe::NONE;
        config
    }

    /// The same with messages of these sizes, in turn.
    fn sending(&self, point: Point, sizes: &[usize], messages: u64) -> Config {
        let mut config = self.settings(point);
        config.load.size = OneOrMany(sizes.iter().map(|size| Bytes::new(*size as u64)).collect());
        config.load.messages = messages;
        config
    }

    fn run(&self, config: &Config, mut sink: impl FnMut(&Sent)) -> Result<(), Error> {
        let refuse = |error: String| Error::Usage(format!("this hardware cannot be: {error}"));
        let design = config.design(0).map_err(|error| refuse(error.to_string()))?;
        let progress = Arc::default();
        let context = Context::new(&progress);
        let figures = simulate((config, &design), self.firmware.image(), &context, &mut sink)
            .map_err(|error| refused_run(config, &error))?;
        if figures.is_right() {
            return Ok(());
        }
        Err(Error::Wrong(format!("{} packets are wrong", figures.outcome.wrong)))
    }

    /// The first cell of each class, in the order of the tables, all of full packets.
    fn cells(&self, point: Point) -> Result<[Option<Cell>; 4], Error> {
        let settings = self.sending(point, &[point.payload(1), point.payload(5)], 2);
        let mut cells = [None; 4];
        self.run(&settings, |sent| {
            let at = CLASSES.iter().position(|(class, _)| *class == sent.cell.class);
            let _ = cells[at.unwrap_or(0)].get_or_insert(sent.cell);
        })?;
        Ok(cells)
    }

    /// How far apart continuation packets are.
    fn spacing(&self, point: Point) -> Result<Spacing, Error> {
        let settings = self.sending(point, &[point.payload(STEADY_PACKETS)], 1);
        let (mut first, mut spacing) = (None, Spacing::default());
        self.run(&settings, |sent| {
            if sent.cell.class != Class::Com {
                return;
            }
            let at = sent.cell.moved_from;
            match first {
                None => first = Some(at),
                Some(first) => {
                    spacing.ps = (at - first).0;
                    spacing.intervals += 1;
                }
            }
            spacing.wire_bytes = sent.bytes.len() as u64 + settings.line.overhead.get();
        })?;
        Ok(spacing)
    }

    /// From the second of three messages to the third, one behind the other: with what first and last
    /// packets cost.
    fn message_spacing(&self, point: Point) -> Result<Spacing, Error> {
        let settings = self.sending(point, &[point.payload(STEADY_PACKETS)], 3);
        let (mut starts, mut wire_bytes) = ([None; 3], 0);
        self.run(&settings, |sent| {
            let message = usize::try_from(sent.message).unwrap_or(usize::MAX);
            if let Some(start) = starts.get_mut(message) {
                let _ = start.get_or_insert(sent.cell.moved_from);
            }
            if message == 1 {
                wire_bytes += sent.bytes.len() as u64 + settings.line.overhead.get();
            }
        })?;
        let [_, Some(from), Some(to)] = starts else { return Ok(Spacing::default()) };
        Ok(Spacing { ps: (to - from).0, intervals: 1, wire_bytes })
    }
}

impl Point {
    /// Payload of a full packet: behind all headers, or of a fragment.
    fn mss(self) -> usize {
        let room = usize::from(self.mtu) - Ipv4::LEN;
        if self.udp { room & !7 } else { room - TCP_LEN }
    }

    /// Payload of a message that becomes so many full packets.
    fn payload(self, packets: usize) -> usize {
        // The first fragment holds the UDP header too.
        packets * self.mss() - if self.udp { UDP_LEN } else { 0 }
    }
}

/// Headers without options.
const TCP_LEN: usize = 20;
const UDP_LEN: usize = 8;

impl Spacing {
    /// Whether packets come as fast as a line of this rate takes them.
    fn carries(self, bits_per_second: u64) -> bool {
        let needed = u128::from(self.ps) * u128::from(bits_per_second);
        let bits = u128::from(self.intervals * self.wire_bytes * 8);
        self.intervals > 0 && needed <= bits * u128::from(Ps::SECOND.0)
    }
}

/// An empty report with the hardware that it is of.
fn report(name: &'static str, jobs: impl IntoIterator<Item = (String, Value)>) -> Report {
    let mut report = Report::new(name);
    report.add_config(&json!({ "jobs": Map::from_iter(jobs) }));
    report
}

fn protocol(udp: bool) -> &'static str {
    if udp { "UDP" } else { "TCP" }
}
