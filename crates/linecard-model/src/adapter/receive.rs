//! Frames that are received: the device puts headers into embedded memory, sums payload, and, once the firmware accepts the
//! frame, moves it to host memory. The storing adapter has it in embedded memory meanwhile.

use super::firmware::{self, plain};
use super::simulation::{Resource, WIRE_OVERHEAD, clock};
use super::{AdapterError, AdapterResults, Config, Kind};
use crate::Ps;
use alloc::vec::Vec;

/// Receives frames that come one behind the other. Those with wrong checksums are dropped, and what has no room in the
/// window of host memory is a fault.
pub(super) fn receive(config: &Config, frames: &[Vec<u8>]) -> Result<AdapterResults, AdapterError> {
    let clock = clock(config)?;
    let mut wire = Resource::new(config.adapter.wire);
    let mut embedded = Resource::new(config.adapter.embedded);
    let mut host_bus = Resource::new(config.host.bus);
    let stores = config.adapter.kind == Kind::StoreAndForward;
    let (mut outcome, mut host) = (AdapterResults::default(), Vec::new());
    let mut core_free = Ps::ZERO;
    for (index, frame) in frames.iter().enumerate() {
        let layout = plain(frame).ok_or(AdapterError::Message(index))?;
        let (header, rest) = frame.split_at(layout.header_len());
        let payload = &rest[..layout.payload().len()];
        let found = firmware::receive(header, payload).ok_or(AdapterError::Message(index))?;
        let bytes = payload.len() as u64;
        let stored = if stores { bytes } else { 0 };
        // The header is written and read, and so is payload that is stored.
        let arrived = wire.take(Ps::ZERO, frame.len() as u64 + WIRE_OVERHEAD);
        let there = embedded.take(arrived, header.len() as u64 + stored);
        let read = embedded.take(there.max(core_free), header.len() as u64);
        core_free = read + clock.cycles(found.cycles);
        outcome.embedded_bytes += 2 * header.len() as u64 + stored;
        outcome.embedded_payload_bytes += stored;
        outcome.core_cycles += found.cycles;
        outcome.single_packets += 1;
        let has_room = host.len() as u64 + bytes <= config.host.window;
        outcome.faults += u64::from(!has_room);
        if found.sequence.is_none() || !has_room {
            outcome.dropped += 1;
            continue;
        }
        let out = embedded.take(core_free, stored);
        let done = host_bus.take(out, bytes);
        outcome.embedded_bytes += stored;
        outcome.embedded_payload_bytes += stored;
        outcome.host_bus_bytes += bytes;
        outcome.payload_bytes += bytes;
        let at = host.len();
        host.extend_from_slice(payload);
        if outcome.frames.is_empty() {
            outcome.first = done;
        }
        outcome.last = done;
        outcome.frames.push([header, &host[at..]].concat());
    }
    Ok(outcome)
}
