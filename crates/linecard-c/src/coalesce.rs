//! A coalescer with the state that C needs: leaving packets stay in place until the next call.

use crate::abi::{Buffer, Lent};
use crate::error::Error;
use crate::types::{
    self, Config, Counters, LINECARD_EXIT_FLUSHED, LINECARD_EXIT_PASSED, Merged, Output, Slice,
};
use linecard::offload::coalesce::{self, Exit, Flush, Flushes, Refusal, Refusals};
use linecard::offload::defer_checksum;
use linecard::offload::virtio::{Endian, Format, Header, Identifications, Undescribable};
use linecard::packet::{Meta, Packet};
use linecard::time::Instant;
use std::ffi::c_void;

/// A coalescer and the packets that left it in the latest call.
#[derive(Debug)]
pub(crate) struct Coalescer {
    inner: coalesce::Coalescer<Buffer>,
    /// Empty; kept for its memory.
    packets: Vec<Packet<Buffer>>,
    virtio: Option<(Format, Identifications)>,
    /// The packets that left in the latest call, and the arrays that describe them to C.
    left: Vec<(Packet<Buffer>, Exit)>,
    slices: Vec<Slice>,
    tokens: Vec<*mut c_void>,
    merged: Vec<Merged>,
}

impl Coalescer {
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        Ok(Self {
            inner: coalesce::Coalescer::new(config.checked()?),
            packets: Vec::new(),
            virtio: config.virtio()?.map(|format| (format, config.identifications())),
            left: Vec::new(),
            slices: Vec::new(),
            tokens: Vec::new(),
            merged: Vec::new(),
        })
    }

    /// Takes `frames`, all or none.
    pub(crate) fn push(&mut self, frames: &[Lent], now: Instant) -> Result<Output, Error> {
        self.packets.clear();
        self.packets.reserve(frames.len());
        for frame in frames {
            self.packets.push(packet(frame)?);
        }
        self.recycle();
        let Self { inner, packets, left, .. } = self;
        inner.push_batch(packets, now, &mut |packet, exit| left.push((packet, exit)));
        Ok(self.describe())
    }

    /// Flushes packets that are due.
    pub(crate) fn advance(&mut self, now: Instant) -> Output {
        self.recycle();
        let left = &mut self.left;
        self.inner.advance(now, &mut |packet, exit| left.push((packet, exit)));
        self.describe()
    }

    /// Flushes all packets.
    pub(crate) fn flush(&mut self) -> Output {
        self.recycle();
        let left = &mut self.left;
        self.inner.flush_all(Flush::Stop, &mut |packet, exit| left.push((packet, exit)));
        self.describe()
    }

    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        self.inner.next_wakeup()
    }

    pub(crate) fn counters(&self) -> Counters {
        let counters = self.inner.counters();
        Counters {
            packets_in: counters.packets_in,
            bytes_in: counters.bytes_in,
            packets_out: counters.packets_out,
            bytes_out: counters.bytes_out,
            passed: counters.passed,
            merged: counters.merged,
            held: self.inner.held() as u64,
            flows: self.inner.flows() as u64,
            flows_evicted: counters.flows_evicted,
        }
    }

    /// How often a reason occurred.
    pub(crate) fn count(&self, exit: u8, reason: u8) -> Option<u64> {
        let counters = self.inner.counters();
        reason_count((exit, reason), &counters.refused, &counters.flushed)
    }

    /// Drops the packets of the previous call.
    fn recycle(&mut self) {
        for (packet, _) in self.left.drain(..) {
            self.inner.recycle(packet.into_parts().1);
        }
        self.slices.clear();
        self.tokens.clear();
        self.merged.clear();
    }

    fn describe(&mut self) -> Output {
        let total: usize = self.left.iter().map(|(packet, _)| 1 + packet.chain().len()).sum();
        // Pointers into both are handed out below: they must not be reallocated.
        self.slices.reserve(total);
        self.tokens.reserve(total);
        for (packet, exit) in &mut self.left {
            let start = self.slices.len();
            let virtio = self.virtio.map(|virtio| describe(packet, virtio));
            let (virtio, virtio_len) = virtio.unwrap_or_default();
            add_slices(packet, &mut self.slices, &mut self.tokens);
            let slices = &self.slices[start..];
            let (exit, reason) = match exit {
                Exit::Passed(refusal) => (LINECARD_EXIT_PASSED, *refusal as u8),
                Exit::Flushed(flush) => (LINECARD_EXIT_FLUSHED, *flush as u8),
            };
            self.merged.push(Merged {
                slices: slices.as_ptr(),
                tokens: self.tokens[start..].as_ptr(),
                count: slices.len(),
                len: slices.iter().map(|slice| slice.len).sum(),
                gso: packet.meta.gso.map(Into::into).unwrap_or_default(),
                checksum: types::checksum_number(packet.meta.checksum),
                exit,
                reason,
                virtio_len,
                virtio,
            });
        }
        Output { packets: self.merged.as_ptr(), count: self.merged.len() }
    }
}

fn packet(lent: &Lent) -> Result<Packet<Buffer>, Error> {
    let frame = lent.frame();
    let (link, checksum) = (types::link(frame.link)?, types::checksum(frame.checksum)?);
    let meta = Meta { lane: frame.lane, mark: frame.mark, checksum, ..Meta::default() };
    Ok(Packet::new(Buffer::new(lent)?, link, meta))
}

/// The virtio header of the packet, which leaves the checksum to the reader; of length 0 when there
/// is none.
fn describe(
    packet: &mut Packet<Buffer>,
    (format, identifications): (Format, Identifications),
) -> ([u8; Format::MAX_LEN], u8) {
    let mut header = Header::of_with(packet, identifications);
    if header == Err(Undescribable::Checksum) && defer_checksum(packet) {
        header = Header::of_with(packet, identifications);
    }
    let mut bytes = [0; Format::MAX_LEN];
    let written = header.ok().and_then(|h| h.write(&mut bytes, format, Endian::Little));
    (bytes, written.unwrap_or_default() as u8)
}

fn add_slices(packet: &Packet<Buffer>, slices: &mut Vec<Slice>, tokens: &mut Vec<*mut c_void>) {
    let first = match packet.is_merged() {
        // Bytes after the datagram are the padding of a short frame.
        true => &packet.bytes()[..packet.layout().end()],
        false => packet.bytes(),
    };
    slices.push(packet.buffer().slice(first));
    tokens.push(packet.buffer().token());
    for piece in packet.chain() {
        slices.push(piece.buffer().slice(piece.bytes()));
        tokens.push(piece.buffer().token());
    }
}

/// Name of a reason in JSON and in `linecard coalesce`.
pub(crate) fn reason_name(exit: u8, reason: u8) -> Option<&'static str> {
    match exit {
        LINECARD_EXIT_PASSED => Refusal::ALL.get(usize::from(reason)).map(|r| r.name()),
        LINECARD_EXIT_FLUSHED => Flush::ALL.get(usize::from(reason)).map(|r| r.name()),
        _ => None,
    }
}

/// How often a reason occurred.
pub(crate) fn reason_count(
    (exit, reason): (u8, u8),
    refused: &Refusals,
    flushed: &Flushes,
) -> Option<u64> {
    let index = usize::from(reason);
    match exit {
        LINECARD_EXIT_PASSED => Refusal::ALL.get(index).map(|reason| refused.of(*reason)),
        LINECARD_EXIT_FLUSHED => Flush::ALL.get(index).map(|reason| flushed.of(*reason)),
        _ => None,
    }
}
