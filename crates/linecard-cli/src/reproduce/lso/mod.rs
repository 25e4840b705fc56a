//! papers/lso-risc.txt: tables and figures from runs of real firmware on the modelled hardware.

mod cells;
mod clock;
mod clocks;
mod table3;

use crate::failure::Failure;
use crate::model::figures::{CLASSES, simulate};
use crate::model::firmware;
use crate::model::scenario::Scenario;
use crate::model::settings::{DmaClock, Protocol, Settings};
use linecard::offload::segment::Class;
use linecard::packet::header::Ipv4;
use linecard_model::Ps;
use linecard_model::elf::Firmware;
use linecard_model::transmit::{Cell, Sent};
use std::path::Path;

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
    scenario: Scenario,
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
    fn new(path: Option<&Path>, firmware: &str) -> Result<Self, Failure> {
        let mut scenario = match path {
            Some(path) => Scenario::read(path, &[])?,
            None => Scenario::built_in(BUILT_IN_NAME, BUILT_IN)?,
        };
        firmware.clone_into(&mut scenario.settings.firmware);
        let firmware = firmware::load(&scenario)?;
        Ok(Self { scenario, firmware })
    }

    fn settings(&self, point: Point) -> Settings {
        Settings {
            protocol: if point.udp { Protocol::Udp } else { Protocol::Tcp },
            mtu: point.mtu,
            core_hz: point.core_hz,
            dma: point.dma,
            // Cells are those of the core: a line that takes everything never makes it wait.
            line: None,
            ..self.scenario.settings.clone()
        }
    }

    fn run(&self, settings: &Settings, mut sink: impl FnMut(&Sent)) -> Result<(), Failure> {
        let refuse = |error: String| Failure::Usage(format!("this hardware cannot be: {error}"));
        let design = settings.design(0).map_err(|error| refuse(error.to_string()))?;
        let figures = simulate(settings, &design, self.firmware.image(), &mut sink)
            .map_err(|error| self.scenario.failure(&error))?;
        if figures.is_right() {
            return Ok(());
        }
        Err(Failure::Wrong(format!("{} packets are wrong", figures.outcome.wrong)))
    }

    /// The first cell of each class, in the order of the tables, all of full packets.
    fn cells(&self, point: Point) -> Result<[Option<Cell>; 4], Failure> {
        let sizes = vec![point.payload(1), point.payload(5)];
        let settings = Settings { sizes, messages: 2, ..self.settings(point) };
        let mut cells = [None; 4];
        self.run(&settings, |sent| {
            let at = CLASSES.iter().position(|(class, _)| *class == sent.cell.class);
            let _ = cells[at.unwrap_or(0)].get_or_insert(sent.cell);
        })?;
        Ok(cells)
    }

    /// How far apart continuation packets are.
    fn spacing(&self, point: Point) -> Result<Spacing, Failure> {
        let sizes = vec![point.payload(STEADY_PACKETS)];
        let settings = Settings { sizes, messages: 1, ..self.settings(point) };
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
            spacing.wire_bytes = sent.bytes.len() as u64 + settings.overhead;
        })?;
        Ok(spacing)
    }

    /// From the second of three messages to the third, one behind the other: with what first and last
    /// packets cost.
    fn message_spacing(&self, point: Point) -> Result<Spacing, Failure> {
        let sizes = vec![point.payload(STEADY_PACKETS)];
        let settings = Settings { sizes, messages: 3, ..self.settings(point) };
        let (mut starts, mut wire_bytes) = ([None; 3], 0);
        self.run(&settings, |sent| {
            let message = usize::try_from(sent.message).unwrap_or(usize::MAX);
            if let Some(start) = starts.get_mut(message) {
                let _ = start.get_or_insert(sent.cell.moved_from);
            }
            if message == 1 {
                wire_bytes += sent.bytes.len() as u64 + settings.overhead;
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

fn protocol(udp: bool) -> &'static str {
    if udp { "UDP" } else { "TCP" }
}
