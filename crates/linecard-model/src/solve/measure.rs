//! Measures the throughput of firmware in a run.

use super::traffic::{Flow, Traffic};
use crate::Ps;
use crate::rv32::Image;
use crate::transmit::firmware::example_message;
use crate::transmit::{Design, Kind, Message, Sent, Transmit, TransmitError};
use alloc::vec::Vec;

/// The result of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Measured {
    /// Packets per second.
    pub packets_per_second: f64,
    /// Bits on the line per second, overhead included.
    pub wire_bits_per_second: f64,
    /// Packets evaluated.
    pub packets: u64,
    /// Packets that were wrong.
    pub wrong: u64,
}

/// Packets at least before and in the time that is measured, for each core. Enough for clocks to drift
/// past each other, and for the end, where some cores have run out of messages, not to count.
const PACKETS: u64 = 1_000;

/// Runs the firmware with messages of the mix, which are always there, and measures between the
/// first tenth and the last: whole rounds of the mix.
///
/// # Errors
/// As [`Transmit::run`]; messages that IPv4 cannot carry.
pub fn measure(
    design: &Design,
    firmware: &Image,
    traffic: &Traffic,
) -> Result<Measured, TransmitError> {
    let flows = traffic.flows.iter().map(|flow| Ok((*flow, example(flow)?)));
    let flows = flows.collect::<Result<Vec<_>, TransmitError>>()?;
    let round: u64 = flows.iter().map(|(flow, _)| flow.packets(design.mtu) * flow.weight).sum();
    let cores = design.cores as u64;
    // Messages leave in order: with several cores, the measured time ends in the middle of some.
    let each = if cores > 1 { cores * 100 } else { 10 };
    let rounds = (cores * PACKETS).div_ceil(round.max(1)).max(each);
    let messages = (0..rounds)
        .flat_map(|_| flows.iter().flat_map(|(flow, m)| (0..flow.weight).map(move |_| m.clone())));
    let (skip, all) = (rounds / 10 * round, rounds * round);
    let mut window = Window { skip, all, ..Window::new(design) };
    let outcome = Transmit::new(design, firmware)?.run(messages, |sent| window.take(sent))?;
    Ok(Measured { wrong: outcome.wrong, ..window.measured() })
}

/// Runs long messages and measures only the packets between their first and last: the steady stream
/// of [`Traffic::endless`], for which no message is long enough.
///
/// # Errors
/// As [`Transmit::run`].
#[expect(clippy::cast_precision_loss, reason = "rates for people")]
pub fn measure_steady(
    design: &Design,
    firmware: &Image,
    kind: Kind,
) -> Result<Measured, TransmitError> {
    // One core by itself: several carry as many times as much.
    let design = Design { cores: 1, line_bits_per_second: None, ..design.clone() };
    let mss = Traffic::mss(kind, design.mtu) as u64;
    let payload = mss * (65_000 / mss.max(1)).max(4);
    let flow = Flow { kind, payload: payload.min(65_480), weight: 1 };
    let packets = flow.packets(design.mtu).max(1);
    let message = example(&flow)?;
    let messages = (0..(2 * PACKETS).div_ceil(packets)).map(|_| message.clone());
    let outcome = Transmit::new(&design, firmware)?.run(messages, |_| ())?;
    let rate = design.core.hz() as f64 / outcome.com.mean().max(1e-9);
    let bits = (mss + Traffic::header_len(kind) + design.wire_overhead_bytes) * 8;
    Ok(Measured {
        packets_per_second: rate,
        wire_bits_per_second: rate * bits as f64,
        packets: outcome.com.packets,
        wrong: outcome.wrong,
    })
}

/// The message of a flow, with bytes that count up.
fn example(flow: &Flow) -> Result<Message, TransmitError> {
    let udp = flow.kind == Kind::Udp;
    let payload = usize::try_from(flow.payload).unwrap_or(usize::MAX);
    let bytes = example_message(udp, payload.saturating_sub(if udp { 8 } else { 0 }));
    Message::new(bytes, Ps::ZERO).map_err(|why| TransmitError::Message { number: 0, why })
}

/// Packets between the first tenth and the last.
struct Window<'a> {
    design: &'a Design,
    skip: u64,
    all: u64,
    seen: u64,
    from: Ps,
    to: Ps,
    packets: u64,
    bits: u64,
}

impl<'a> Window<'a> {
    fn new(design: &'a Design) -> Self {
        Self { design, skip: 0, all: 0, seen: 0, from: Ps::ZERO, to: Ps::ZERO, packets: 0, bits: 0 }
    }

    fn take(&mut self, sent: &Sent) {
        self.seen += 1;
        if self.seen == self.skip {
            (self.from, self.to) = (sent.to, sent.to);
        } else if self.seen > self.skip && self.seen <= self.all - self.skip {
            self.to = sent.to;
            self.packets += 1;
            self.bits += (sent.bytes.len() as u64 + self.design.wire_overhead_bytes) * 8;
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "rates for people")]
    fn measured(&self) -> Measured {
        let seconds = self.to.since(self.from).as_secs_f64().max(1e-12);
        Measured {
            packets_per_second: self.packets as f64 / seconds,
            wire_bits_per_second: self.bits as f64 / seconds,
            packets: self.packets,
            wrong: 0,
        }
    }
}
