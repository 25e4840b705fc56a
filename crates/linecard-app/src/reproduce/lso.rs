//! Quantities of papers/lso.toml (Elbeshti et al.): real firmware on the modelled core, with the clocks, sizes and
//! protocol of a job.

use super::error::ReproduceError;
use crate::model::core::DmaClock;
use crate::model::transmit::figures::{CLASSES, simulate};
use crate::model::transmit::{Config, firmware, refused_run};
use crate::{Context, Error};
use linecard::offload::segment::Class;
use linecard::packet::header::{self, Ipv4};
use linecard_config::{Bytes, Document, Frequency, Maybe, OneOrMany, Parsed, Rate};
use linecard_model::Ps;
use linecard_model::elf::Firmware;
use linecard_model::transmit::{Cell, Sent};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Packets of a message whose spacing is measured: what its ends cost is left out.
const STEADY_PACKETS: usize = 40;
/// Packets of a message that has packets of all classes but SSM.
const FEW_PACKETS: usize = 5;
/// Clocks that are tried, in MHz: above what the paper asks for (893 MHz).
const HIGHEST_MHZ: u64 = 1_000;
/// The same of the DMA: twice the paper's.
const HIGHEST_DMA_MHZ: u64 = 4_230;
/// Hz of the steps below the first whole MHz that carries a rate.
const TENTH: u64 = 100_000;
const MHZ: u64 = 1_000_000;
/// Headers without options.
const TCP_LEN: usize = 20;
const UDP_LEN: usize = 8;

/// A design, and its program.
struct Bench {
    config: Config,
    firmware: Firmware,
}

/// Time between packets.
#[derive(Debug, Clone, Copy, Default)]
struct Spacing {
    ps: u64,
    /// Packets that passed in this time, with the overhead of the line.
    wire_bytes: u64,
}

/// The first cell of each class; the DMA's cycles for a full packet; the rate that the core and its bus would carry, and
/// the time of a packet on the line; fragment offsets.
pub(super) fn cells(document: &Document, context: &Context<'_>) -> Result<Value, Error> {
    let bench = Bench::new(document, context)?;
    let core = bench.config.core.mhz;
    let sizes = [bench.payload(1), bench.payload(FEW_PACKETS)];
    let (mut cells, mut offsets) = (Map::new(), Vec::new());
    let settings = bench.sending(core, &sizes, 2);
    bench.run(&settings, |sent| {
        let class = CLASSES.iter().find(|(class, _)| *class == sent.cell.class);
        let name = class.map_or("", |(_, name)| *name).to_lowercase();
        let Cell { total, before, beside, idle, .. } = sent.cell;
        let cell = json!({ "total": total, "before": before, "beside": beside, "idle": idle });
        cells.entry(name).or_insert(cell);
        if sent.message == 1 {
            // 13 bits beside the flags, in units of 8 bytes (RFC 791, section 3.1).
            offsets.push(header::at::<Ipv4>(&sent.bytes, 0).flags_fragment & 0x1FFF);
        }
    })?;
    let transfer = settings.design(0)?.transfer_cycles(0, bench.mss());
    cells.insert("transfer_cycles".to_owned(), transfer.into());
    cells.insert("fragment_offsets".to_owned(), json!(offsets));
    let carried = bench.spacing(core)?.bits_per_second();
    cells.insert("carried_bits_per_second".to_owned(), carried.into());
    cells.insert("packet_ns".to_owned(), bench.packet_ns()?.into());
    Ok(cells.into())
}

/// Core clocks that carry the line's rate, in MHz: the slowest, to a tenth; the slowest whole one from which on all do, as
/// a transfer takes whole core cycles, so that a faster core may wait for one more; and that with which messages are
/// carried that come one behind the other. Null where no clock does.
pub(super) fn clocks(document: &Document, context: &Context<'_>) -> Result<Value, Error> {
    let bench = Bench::new(document, context)?;
    let rate = bench.config.line.rate.0.map_or(0, Rate::bits_per_second);
    let carries = |hz: u64| {
        context.go_on()?;
        Ok::<_, Error>(bench.spacing(Frequency::from_hz(hz))?.carries(rate))
    };
    let first = first_of((1..=HIGHEST_MHZ).map(|mhz| mhz * MHZ), carries)?;
    // Below three quarters even the instructions take too long, as they do not depend on the bus.
    let tenths = first.map(|hz| hz * 3 / 4 / TENTH..=hz / TENTH);
    let smallest = first_of(tenths.into_iter().flatten().map(|n| n * TENTH), carries)?;
    let fails = |hz| carries(hz).map(|carries| !carries);
    let too_slow = first_of((1..=HIGHEST_MHZ).rev().map(|mhz| mhz * MHZ), fails)?;
    let all_above = too_slow.map_or(1, |hz| hz / MHZ + 1);
    let whole =
        |hz: u64| Ok::<_, Error>(bench.message_spacing(Frequency::from_hz(hz))?.carries(rate));
    let messages = first_of((all_above..=HIGHEST_MHZ).map(|mhz| mhz * MHZ), whole)?;
    Ok(json!({
        "smallest_mhz": smallest.map(|hz| hz as f64 / 1e6),
        "all_above_mhz": (all_above <= HIGHEST_MHZ).then_some(all_above),
        "messages_mhz": messages.map(|hz| hz / MHZ),
    }))
}

/// The slowest clock of the DMA, in whole MHz, with which the core carries the line's rate; null where none does.
pub(super) fn dma_clock(document: &Document, context: &Context<'_>) -> Result<Value, Error> {
    let mut bench = Bench::new(document, context)?;
    let rate = bench.config.line.rate.0.map_or(0, Rate::bits_per_second);
    // A transfer alone may not take longer than a packet on the line.
    let cycles = bench.config.design(0)?.transfer_cycles(0, bench.mss());
    let bits = (u64::from(bench.config.load.mtu()) + bench.config.line.overhead.get()) * 8;
    let mut slowest = None;
    for mhz in (cycles * rate / bits / MHZ).max(1)..=HIGHEST_DMA_MHZ {
        context.go_on()?;
        bench.config.dma.mhz = Parsed(DmaClock::Hz(mhz * MHZ));
        if bench.spacing(bench.config.core.mhz)?.carries(rate) {
            slowest = Some(mhz);
            break;
        }
    }
    Ok(json!({ "slowest_mhz": slowest }))
}

/// The first for which it is so.
fn first_of(
    mut all: impl Iterator<Item = u64>,
    is_so: impl Fn(u64) -> Result<bool, Error>,
) -> Result<Option<u64>, Error> {
    all.find_map(|hz| is_so(hz).map(|is| is.then_some(hz)).transpose()).transpose()
}

impl Bench {
    fn new(document: &Document, context: &Context<'_>) -> Result<Self, Error> {
        let config: Config = document.config()?;
        let firmware = firmware::load(&config, context)?;
        Ok(Self { config, firmware })
    }

    fn is_udp(&self) -> bool {
        self.config.load.protocol == crate::model::core::Protocol::Udp
    }

    /// Payload of a full packet: behind all headers, or of a fragment.
    fn mss(&self) -> usize {
        let room = usize::from(self.config.load.mtu()) - Ipv4::LEN;
        if self.is_udp() { room & !7 } else { room - TCP_LEN }
    }

    /// Payload of a message that becomes this many full packets.
    fn payload(&self, packets: usize) -> usize {
        // The first fragment holds the UDP header too.
        packets * self.mss() - if self.is_udp() { UDP_LEN } else { 0 }
    }

    /// The design with another clock, and messages of these sizes, in turn.
    fn sending(&self, core: Frequency, sizes: &[usize], messages: u64) -> Config {
        let mut config = self.config.clone();
        config.core.mhz = core;
        config.load.size = OneOrMany(sizes.iter().map(|size| Bytes::new(*size as u64)).collect());
        config.load.messages = messages;
        // Cells are those of the core: a line that takes everything never makes it wait.
        config.line.rate = Maybe::NONE;
        config
    }

    fn run(&self, config: &Config, mut sink: impl FnMut(&Sent)) -> Result<(), Error> {
        let design = config.design(0).map_err(ReproduceError::Hardware)?;
        let progress = Arc::default();
        let context = Context::new(&progress);
        let figures = simulate((config, &design), self.firmware.image(), &context, &mut sink)
            .map_err(|error| refused_run(&self.firmware, error))?;
        if figures.is_right() {
            return Ok(());
        }
        Err(ReproduceError::Wrong { count: figures.outcome.wrong }.into())
    }

    /// Bytes that a packet takes on the line.
    fn wire_bytes(&self, sent: &Sent) -> u64 {
        sent.bytes.len() as u64 + self.config.line.overhead.get()
    }

    /// How far apart continuation packets are, from the first to the last.
    fn spacing(&self, core: Frequency) -> Result<Spacing, Error> {
        let settings = self.sending(core, &[self.payload(STEADY_PACKETS)], 1);
        let (mut first, mut spacing) = (None, Spacing::default());
        self.run(&settings, |sent| {
            if sent.cell.class == Class::Com {
                let at = sent.cell.moved_from;
                if let Some(first) = first {
                    spacing.ps = (at - first).0;
                    spacing.wire_bytes += self.wire_bytes(sent);
                } else {
                    first = Some(at);
                }
            }
        })?;
        Ok(spacing)
    }

    /// From the second of three messages to the third, one behind the other: with what first and last packets cost.
    fn message_spacing(&self, core: Frequency) -> Result<Spacing, Error> {
        let settings = self.sending(core, &[self.payload(STEADY_PACKETS)], 3);
        let (mut starts, mut wire_bytes) = ([None; 3], 0);
        self.run(&settings, |sent| {
            let message = usize::try_from(sent.message).unwrap_or(usize::MAX);
            if let Some(start) = starts.get_mut(message) {
                let _ = start.get_or_insert(sent.cell.moved_from);
            }
            if message == 1 {
                wire_bytes += self.wire_bytes(sent);
            }
        })?;
        let [_, Some(from), Some(to)] = starts else { return Ok(Spacing::default()) };
        Ok(Spacing { ps: (to - from).0, wire_bytes })
    }

    /// The time of a packet on the line, if that is always busy.
    fn packet_ns(&self) -> Result<f64, Error> {
        let mut settings = self.sending(self.config.core.mhz, &[self.payload(STEADY_PACKETS)], 1);
        settings.line.rate = self.config.line.rate;
        let mut ends = Vec::new();
        self.run(&settings, |sent| ends.push(sent.to))?;
        let from_to = ends.first().zip(ends.last());
        let time = from_to.map_or(Ps::ZERO, |(from, to)| *to - *from);
        Ok(time.as_secs_f64() / ends.len().saturating_sub(1) as f64 * 1e9)
    }
}

impl Spacing {
    /// Whether packets come as fast as a line of this rate takes them.
    fn carries(self, bits_per_second: u64) -> bool {
        let needed = u128::from(self.ps) * u128::from(bits_per_second);
        let bits = u128::from(self.wire_bytes * 8);
        self.wire_bytes > 0 && needed <= bits * u128::from(Ps::SECOND.0)
    }

    fn bits_per_second(self) -> f64 {
        self.wire_bytes as f64 * 8.0 / Ps(self.ps).as_secs_f64()
    }
}
