//! The throughput of a design in closed form.

use super::costs::Costs;
use super::timing::{Phase, Timing, Walk};
use super::traffic::{Flow, Part, Traffic};
use crate::Ps;
use crate::rv32::{Image, Timing as CoreTiming};
use crate::transmit::{BusPolicy, Design, Kind, TransmitError};

/// A sending side's firmware: its costs for each protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Firmware {
    /// TCP segments.
    pub tcp: Costs,
    /// Fragments.
    pub udp: Costs,
}

impl Firmware {
    /// Reads the costs off runs; see [`Costs::measure`].
    ///
    /// # Errors
    /// As [`Costs::measure`].
    pub fn measure(image: &Image, timing: CoreTiming) -> Result<Self, TransmitError> {
        let costs = |kind| Costs::measure(image, timing, kind);
        Ok(Self { tcp: costs(Kind::Tcp)?, udp: costs(Kind::Udp)? })
    }

    fn of(&self, kind: Kind) -> &Costs {
        if kind == Kind::Tcp { &self.tcp } else { &self.udp }
    }
}

/// The predicted throughput of a design for an endless mix. All sums are over the mix: a message of
/// each flow times its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prediction {
    /// Core cycles, times the core's frequency: means over two clocks are fractions of that.
    cycles: u128,
    core_hz: u128,
    cores: u128,
    /// Of these the core computes, in cycles.
    busy: u128,
    /// DMA cycles.
    moving: u128,
    dma_hz: u128,
    packets: u128,
    /// Core cycles until a message wakes the core; grows with the clock as the transfers do.
    messages_wait: u128,
    wire_bits: u128,
    payload_bits: u128,
    line_bits_per_second: Option<u64>,
}

/// A limiting resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Instructions of the cores.
    Core,
    /// Words of the DMA over the bus.
    Dma,
    /// The line.
    Line,
}

impl Prediction {
    /// Rate of a design for this traffic with this firmware; `None` where no closed form is known,
    /// which is when core and DMA take the bus in turns.
    ///
    /// Positions of two unrelated clocks are not all alike: a transfer ends with an edge of the DMA's, and
    /// what comes behind it begins there. So some hundred packets are walked through, in whole numbers.
    #[must_use]
    pub fn of(
        design: &Design,
        firmware: &Firmware,
        traffic: &Traffic,
        phase: Phase,
    ) -> Option<Self> {
        let mut prediction = Self::estimate(design, firmware, traffic, phase)?;
        let timing = Timing::new(design, phase);
        if timing.is_free() {
            let mut walk = timing.walk();
            let mut walked = || Self::walk(design, firmware, traffic, &mut walk);
            walked();
            prediction.cycles = walked();
        }
        Some(prediction)
    }

    /// Rounds of the mix, one behind the other: cycles of one on average.
    fn walk(design: &Design, firmware: &Firmware, traffic: &Traffic, walk: &mut Walk) -> u128 {
        let interrupt = design.core.at_or_after(design.core.edge(0) + design.interrupt);
        let (mut cycles, mut packets, mut rounds) = (0, 0, 0);
        while packets < WALKED && rounds < WALKED {
            for flow in traffic.flows.iter().filter(|flow| flow.weight > 0) {
                let costs = firmware.of(flow.kind);
                let message = Message { design, costs, flow, packets: flow.packets(design.mtu) };
                let messages = flow.weight.min(MESSAGES);
                let mut sum = 0;
                for _ in 0..messages {
                    let walked = message.walk(walk, interrupt);
                    sum += walked.cycles;
                    packets += walked.packets;
                }
                cycles += sum * u128::from(flow.weight) / u128::from(messages);
            }
            rounds += 1;
        }
        cycles / u128::from(rounds.max(1))
    }

    /// A fast estimate for searches, which treats all clock phases alike.
    #[must_use]
    pub(super) fn estimate(
        design: &Design,
        firmware: &Firmware,
        traffic: &Traffic,
        phase: Phase,
    ) -> Option<Self> {
        if design.policy == BusPolicy::Interleave {
            return None;
        }
        let mut sum = Self {
            core_hz: design.core.hz().into(),
            cores: design.cores as u128,
            dma_hz: design.dma.hz().into(),
            line_bits_per_second: design.line_bits_per_second,
            ..Self::default()
        };
        let timing = Timing::new(design, phase);
        for flow in &traffic.flows {
            sum.add(design, &timing, firmware.of(flow.kind), flow);
        }
        Some(sum)
    }

    fn add(&mut self, design: &Design, timing: &Timing, costs: &Costs, flow: &Flow) {
        let packets = flow.packets(design.mtu);
        let weight = u128::from(flow.weight);
        let header = Traffic::header_len(flow.kind);
        let interrupt = design.core.at_or_after(design.core.edge(0) + design.interrupt);
        let message = Message { design, costs, flow, packets };
        let cycles = message.mean(timing);
        self.cycles += weight * (cycles + u128::from(interrupt) * self.core_hz);
        self.messages_wait += weight * u128::from(interrupt);
        for part in flow.parts(design.mtu) {
            let count = weight * u128::from(part.count);
            let cost = costs.of(part.at, packets);
            self.busy += count * u128::from(cost.before + cost.beside);
            self.moving += count * u128::from(message.transfer(part));
            let bytes = part.payload + header + design.wire_overhead_bytes;
            self.wire_bits += count * u128::from(bytes) * 8;
            self.payload_bits += count * u128::from(part.payload) * 8;
            self.packets += count;
        }
    }

    /// Whether the cores sustain a line of this rate.
    #[must_use]
    pub fn carries(&self, bits_per_second: u64) -> bool {
        let core = self.cores * self.core_hz * self.core_hz;
        is_product_at_least((core, self.wire_bits), (bits_per_second.into(), self.cycles))
    }

    /// Rounds of the mix in a second that the cores could do.
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    fn rounds_of_cores(&self) -> f64 {
        self.cores as f64 * self.core_hz as f64 * self.core_hz as f64 / self.cycles.max(1) as f64
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    fn rounds(&self) -> f64 {
        let line = self.line_bits_per_second;
        let of_line = line.map(|rate| rate as f64 / self.wire_bits.max(1) as f64);
        of_line.unwrap_or(f64::INFINITY).min(self.rounds_of_cores())
    }

    /// Packets per second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub fn packets_per_second(&self) -> f64 {
        self.rounds() * self.packets as f64
    }

    /// Bits on the line per second, overhead included.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub fn wire_bits_per_second(&self) -> f64 {
        self.rounds() * self.wire_bits as f64
    }

    /// Payload bits per second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub fn payload_bits_per_second(&self) -> f64 {
        self.rounds() * self.payload_bits as f64
    }

    /// Core cycles of a packet on average.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    pub fn cycles_per_packet(&self) -> f64 {
        self.cycles as f64 / self.core_hz as f64 / self.packets.max(1) as f64
    }

    /// Utilisation of a resource, 0 … 1.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    pub fn utilisation(&self, of: Resource) -> f64 {
        let each = self.rounds() / self.cores as f64;
        match of {
            Resource::Core => each * self.busy as f64 / self.core_hz as f64,
            Resource::Dma => each * self.moving as f64 / self.dma_hz as f64,
            Resource::Line => self
                .line_bits_per_second
                .map_or(0.0, |rate| self.wire_bits_per_second() / rate as f64),
        }
    }

    /// The DMA's share of its time if the line were full: 1 and above can never be carried
    /// (ρ of Elbeshti et al., section 4).
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    pub fn dma_demand(&self, bits_per_second: u64) -> f64 {
        let rounds = bits_per_second as f64 / self.wire_bits.max(1) as f64;
        rounds * self.moving as f64 / (self.dma_hz as f64 * self.cores as f64)
    }

    /// Whether every faster core carries it too: its waiting costs less than the remaining time.
    pub(super) fn is_enough_from_here(&self, bits_per_second: u64) -> bool {
        // Each transfer takes at most a DMA cycle more and ends at most a core cycle later.
        let rate = u128::from(bits_per_second);
        let moving = self.moving + self.packets;
        let left = (self.cores * self.wire_bits * self.dma_hz).checked_sub(rate * moving);
        let cycles = rate * (self.busy + 2 * self.packets + self.messages_wait);
        left.is_some_and(|left| is_product_at_least((left, self.core_hz), (cycles, self.dma_hz)))
    }

    /// The lowest core clock at which anything could be carried: all instructions, no waiting.
    pub(super) fn least_core_hz(&self, bits_per_second: u64) -> u128 {
        (u128::from(bits_per_second) * self.busy).div_ceil((self.wire_bits * self.cores).max(1))
    }
}

/// Whether the first two numbers' product is the second two's or more. Products of an endless stream on
/// slow clocks have more than 128 bits.
fn is_product_at_least((a, b): (u128, u128), (c, d): (u128, u128)) -> bool {
    let wide = |x: u128, y: u128| {
        let (low, high) = x.carrying_mul(y, 0);
        (high, low)
    };
    wide(a, b) >= wide(c, d)
}

/// A message on its way through a core.
struct Message<'a> {
    design: &'a Design,
    costs: &'a Costs,
    flow: &'a Flow,
    packets: u64,
}

impl Message<'_> {
    fn transfer(&self, part: Part) -> u64 {
        let moves_header = self.costs.of(part.at, self.packets).moves_header;
        let header = if moves_header { Traffic::header_len(self.flow.kind) as usize } else { 0 };
        self.design.transfer_cycles(header, part.payload as usize)
    }

    /// Cycles of a packet that are there whatever the transfer takes, and those beside which it is
    /// hidden.
    ///
    /// On a bus that the DMA keeps, a packet is P and the longer of transfer and O. Where nobody
    /// waits for the bus, the next packet's P is beside the transfer too, but START, which takes a
    /// cycle when the transfer is over.
    fn split(&self, at: u64) -> (u64, u64) {
        let cost = self.costs.of(at, self.packets);
        match self.design.policy {
            _ if at + 1 == self.packets => {
                let first = at == 0 || self.design.policy != BusPolicy::DualPort;
                (if first { cost.before } else { 1 }, cost.beside + self.falling_asleep())
            }
            BusPolicy::Hold | BusPolicy::Interleave => (cost.before, cost.beside),
            BusPolicy::DualPort => {
                let next = self.costs.of(at + 1, self.packets);
                let first = if at == 0 { cost.before } else { 1 };
                (first, (cost.beside + next.before).saturating_sub(1))
            }
        }
    }

    /// The cycle of `wfi`, which is beside the last transfer, or beside the interrupt that follows.
    fn falling_asleep(&self) -> u64 {
        u64::from(self.design.interrupt == Ps::ZERO)
    }

    /// Cycles on average over all positions of the clocks.
    fn mean(&self, timing: &Timing) -> u128 {
        let parts = self.flow.parts(self.design.mtu);
        let core_hz = u128::from(self.design.core.hz());
        parts
            .map(|part| {
                let (fixed, floor) = self.split(part.at);
                let moved = timing.mean(self.transfer(part), floor);
                u128::from(part.count) * (u128::from(fixed) * core_hz + moved)
            })
            .sum()
    }

    /// One message, from where the clocks stand: packets that are alike only so often that their mean
    /// is known.
    fn walk(&self, walk: &mut Walk, interrupt: u64) -> Walked {
        let core_hz = u128::from(self.design.core.hz());
        let mut walked = Walked { cycles: u128::from(interrupt) * core_hz, packets: 0 };
        walk.pass(interrupt);
        for part in self.flow.parts(self.design.mtu) {
            let (fixed, floor) = self.split(part.at);
            let transfer = self.transfer(part);
            let count = part.count.min(ALIKE);
            let mut cycles = 0;
            for _ in 0..count {
                walk.pass(fixed);
                let takes = walk.transfer(transfer).max(floor);
                walk.pass(takes);
                cycles += u128::from(fixed + takes);
            }
            walked.cycles += cycles * core_hz * u128::from(part.count) / u128::from(count.max(1));
            walked.packets += count;
        }
        walked
    }
}

/// Packets that are alike, of which the mean is taken.
const ALIKE: u64 = 64;

/// Packets that are walked through, and as many before: positions of the clocks find their places.
const WALKED: u64 = 256;

/// Messages of a flow that are walked through in a round.
const MESSAGES: u64 = 8;

/// Result of a walk.
#[derive(Debug, Clone, Copy, Default)]
struct Walked {
    /// Times the core's frequency, as in [`Prediction`].
    cycles: u128,
    packets: u64,
}
