//! Receiving from the ring of slots.

use super::{Clock, PacketSocket, Refused, count_packet, packet, system_ns};
use crate::sys::frames::{Arrival, Receiver};
use crate::sys::ring::Frame;
use linecard::packet::{Batch, Meta};
use linecard::time::Instant;
use linecard_tun::Buffers;
use std::os::fd::{AsFd, BorrowedFd};

impl<S: Buffers> PacketSocket<S> {
    /// Receives as many frames from the ring as the batch and the pool have room for; returns
    /// whether any arrived.
    pub(super) fn receive_slots(&mut self, batch: &mut Batch<S::Buffer>, now: Instant) -> bool {
        let Self { ring: Some(ring), pool, counters, receiver, socket, link, .. } = self else {
            return false;
        };
        if ring.frame().is_none() {
            return false;
        }
        let clock = Clock { now, system_ns: system_ns(), opened_ns: self.opened_ns };
        let mut came = false;
        while batch.room() > 0
            && let Some(frame) = ring.frame()
        {
            let Some(mut buffer) = pool.take() else {
                counters.no_buffer += 1;
                break;
            };
            let (arrival, is_queued) = (frame.arrival, frame.is_queued);
            let taken = take(&frame, receiver, socket.as_fd(), &mut buffer);
            ring.release();
            came = true;
            let Some((len, is_truncated)) = taken else {
                counters.dropped.ring_full += 1;
                continue;
            };
            if arrival.is_outgoing {
                continue;
            }
            let arrival = Arrival { len, is_truncated, ..arrival };
            let meta = Meta { timestamp: clock.of_frame(arrival.time_ns), ..Meta::default() };
            match packet::<S>(&arrival, buffer, (*link, None), meta) {
                Ok(packet) => {
                    count_packet(counters, &packet);
                    // The kernel has copied it into the ring; one that was too long for its slot has no copy there.
                    counters.copied_bytes += u64::from(!is_queued) * packet.bytes().len() as u64;
                    let _fits = batch.push(packet);
                }
                Err(Refused::TooLong) => counters.dropped.too_long += 1,
                Err(Refused::BadHeader) => counters.dropped.bad_header += 1,
            }
        }
        came
    }
}

/// Copies a frame into the buffer, or receives it there if its slot was too short: returns how many
/// bytes, and whether the frame had more. None if the socket had no room for a frame that was too
/// long for its slot.
fn take<B: AsMut<[u8]>>(
    frame: &Frame<'_>,
    receiver: &mut Receiver,
    socket: BorrowedFd<'_>,
    buffer: &mut B,
) -> Option<(usize, bool)> {
    if frame.is_queued {
        let came = receiver.receive(socket, std::slice::from_mut(buffer)).ok()?;
        let whole = receiver.arrival(0).filter(|_| came > 0)?;
        return Some((whole.len, whole.is_truncated));
    }
    if frame.arrival.is_truncated {
        return None;
    }
    let fits = buffer.as_mut().get_mut(..frame.bytes.len());
    let is_truncated = fits.map(|place| place.copy_from_slice(frame.bytes)).is_none();
    Some((frame.bytes.len(), is_truncated))
}
