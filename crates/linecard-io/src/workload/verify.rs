//! The receiving end: checks that every byte is the one that was sent at its position.

use super::stream::Stream;
use super::{Workload, flow_number};
use linecard::offload::verify_checksum;
use linecard::packet::checksum::Sum;
use linecard::packet::header::{self, Ipv4, Tcp};
use linecard::packet::{Batch, Form, LayerKind, Packet};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use std::collections::BTreeMap;

/// Gaps remembered per flow: with more, the oldest counts as lost.
const MAX_GAPS: usize = 65_536;

/// Counters of a [`Verify`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyCounters {
    /// Packets, merged ones counted once.
    pub packets: u64,
    /// Payload bytes that were correct, each counted once.
    pub good: u64,
    /// Packets with a wrong byte, a wrong position, or bytes received before.
    pub bad: u64,
    /// Packets with wrong checksums, which corrupted packets must have.
    pub bad_checksum: u64,
    /// Payload bytes of those.
    pub rejected: u64,
    /// Packets that arrived after data sent later.
    pub late: u64,
}

impl VerifyCounters {
    /// Adds the counters of `other`.
    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.good += other.good;
        self.bad += other.bad;
        self.bad_checksum += other.bad_checksum;
        self.rejected += other.rejected;
        self.late += other.late;
    }
}

/// A port that receives what [`Application`](super::Application) has sent and checks every byte.
#[derive(Debug)]
pub struct Verify {
    stream: Stream,
    first_flow: usize,
    flow_step: usize,
    flows: Vec<Receiver>,
    counters: VerifyCounters,
}

#[derive(Debug, Clone, Default)]
struct Receiver {
    /// All data before this has arrived, or is in a gap.
    high: u64,
    /// Missing data: start → end.
    gaps: BTreeMap<u64, u64>,
}

impl Verify {
    /// Expects the data of the workload's flows.
    #[must_use]
    pub fn new(workload: &Workload) -> Self {
        Self {
            stream: Stream::new(workload.seed),
            first_flow: workload.first_flow,
            flow_step: workload.flow_step.max(1),
            flows: vec![Receiver::default(); workload.flows],
            counters: VerifyCounters::default(),
        }
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> VerifyCounters {
        self.counters
    }

    fn check<B: AsRef<[u8]>>(&mut self, packet: &Packet<B>) {
        self.counters.packets += 1;
        let (layout, bytes) = (packet.layout(), packet.bytes());
        let (Form::Datagram, Some(network), Some(transport)) =
            (layout.form(), layout.network(), layout.transport())
        else {
            self.counters.bad += 1;
            return;
        };
        if !checksums_are_right(packet) {
            self.counters.bad_checksum += 1;
            self.counters.rejected += packet.payload_len() as u64;
            return;
        }
        let flow = flow_number(bytes, network.offset.into(), transport.offset.into());
        let sequence = header::at::<Tcp>(bytes, transport.offset.into()).sequence;
        let good = self.check_payload(packet, flow, sequence);
        match good {
            Some(bytes) => self.counters.good += bytes,
            None => self.counters.bad += 1,
        }
    }

    /// The number of payload bytes if all of them are correct and new.
    fn check_payload<B: AsRef<[u8]>>(
        &mut self,
        packet: &Packet<B>,
        flow: usize,
        sequence: u32,
    ) -> Option<u64> {
        let turn = flow.checked_sub(self.first_flow)? / self.flow_step;
        let receiver = self.flows.get_mut(turn)?;
        let start = position(receiver.high, sequence);
        let mut at = start;
        for slice in packet.payload() {
            if self.stream.bytes(flow, at, slice.len()) != slice {
                return None;
            }
            at += slice.len() as u64;
        }
        self.counters.late += u64::from(start < receiver.high);
        receiver.take(start, at).then_some(at - start)
    }
}

impl<B: AsRef<[u8]>> Port<B> for Verify {
    fn receive(&mut self, _batch: &mut Batch<B>, _now: Instant) -> PortState {
        PortState::Ended
    }

    fn transmit(&mut self, batch: &mut Batch<B>, _now: Instant) {
        batch.drain().for_each(|packet| self.check(&packet));
    }
}

impl Receiver {
    /// Records data that has arrived; false if some of it arrived before.
    fn take(&mut self, start: u64, end: u64) -> bool {
        if start >= self.high {
            if start > self.high {
                self.gaps.insert(self.high, start);
                if self.gaps.len() > MAX_GAPS {
                    self.gaps.pop_first();
                }
            }
            self.high = end;
            return true;
        }
        let gap = self.gaps.range(..=start).next_back().map(|(start, end)| (*start, *end));
        let Some((gap_start, gap_end)) = gap.filter(|(_, gap_end)| end <= *gap_end) else {
            return false;
        };
        self.gaps.remove(&gap_start);
        if gap_start < start {
            self.gaps.insert(gap_start, start);
        }
        if end < gap_end {
            self.gaps.insert(end, gap_end);
        }
        true
    }
}

/// The stream position of a sequence number: the one closest to the expected position.
fn position(expected: u64, sequence: u32) -> u64 {
    let ahead = i64::from(sequence.wrapping_sub(expected as u32) as i32);
    expected.saturating_add_signed(ahead)
}

/// Verifies checksums over all bytes, whatever the coalescer has done.
fn checksums_are_right<B: AsRef<[u8]>>(packet: &Packet<B>) -> bool {
    let bytes = packet.bytes();
    let Some(network) = packet.layout().network() else { return false };
    let start = usize::from(network.offset);
    let ip = network.kind != LayerKind::Ipv4
        || Sum::of(&bytes[start..start + header::at::<Ipv4>(bytes, start).header_len()]).is_valid();
    ip && verify_checksum(packet) == Some(true)
}
