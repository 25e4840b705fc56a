//! Linecard, as a data path would drive it. All calls into the crate are in this file.

use crate::buffers::Slot;
use crate::check::Account;
use crate::measure::{BURST, Receiver, Sender};
use crate::packet::ETHERNET;
use crate::trace::Trace;
use linecard::offload::coalesce::{Coalescer, Config, Flush, Input};
use linecard::offload::segment::segment;
use linecard::packet::{ChecksumState, Gso, LinkType, Meta, Packet, Piece};
use linecard::time::Instant;
use std::hint::black_box;
use std::time::Duration;

/// How packets are received.
#[derive(Debug, Clone, Copy)]
pub struct Mode {
    /// Checksums are computed; otherwise the card has vouched for them.
    pub verify: bool,
    /// Held across bursts; otherwise flushed at each burst's end, as at the end of a poll.
    pub held: bool,
    /// Flows that traffic has at once or that are to be remembered; 0 for the default.
    pub flows: usize,
}

/// Packets that are held at most: with many flows, and by default.
pub const MANY_HELD: usize = 1 << 15;
pub const HELD: usize = 1 << 14;

fn config(mode: Mode) -> Config {
    let config = Config { flush_at_batch_end: !mode.held, ..Config::default() };
    if mode.flows == 0 {
        return Config { max_held_packets: HELD, max_held_bytes: 1 << 30, ..config };
    }
    Config {
        // At 100 Gbit/s, some 80,000 packets: enough for a packet of a flow to be followed by
        // another among thousands of others.
        hold_budget: Duration::from_millis(10),
        max_flows: mode.flows,
        max_held_packets: MANY_HELD,
        max_held_bytes: 1 << 30,
        ..config
    }
}

/// Receive: parse, coalesce, and keep what comes out in a list.
pub struct Coalesce<'a> {
    mode: Mode,
    meta: Meta,
    coalescer: Coalescer<Slot<'a>>,
    out: Vec<Packet<Slot<'a>>>,
}

impl Coalesce<'_> {
    pub fn new(mode: Mode) -> Self {
        let checksum = if mode.verify { ChecksumState::Unknown } else { ChecksumState::Valid };
        Self {
            mode,
            meta: Meta { checksum, ..Meta::default() },
            coalescer: Coalescer::new(config(mode)),
            out: Vec::with_capacity(MANY_HELD + BURST),
        }
    }
}

impl<'a> Receiver<Slot<'a>> for Coalesce<'a> {
    fn fill(&self, trace: &Trace, index: usize, slot: &mut Slot<'a>) {
        slot.take(trace, index);
    }

    fn burst(&mut self, burst: &mut Vec<Slot<'a>>, now_ns: u64) {
        let Self { meta, coalescer, out, .. } = self;
        let now = Instant::from_ns(now_ns);
        let meta = Meta { timestamp: now, ..*meta };
        let frames = Input::Frames(burst, LinkType::Ethernet, meta);
        coalescer.push_batch(frames, now, &mut |packet, _| out.push(packet));
    }

    fn settle(&mut self, _: &mut Vec<Slot<'a>>, free: &mut Vec<Slot<'a>>, account: &mut Account) {
        for packet in self.out.drain(..) {
            account.leaves(&packet.header()[ETHERNET..], packet.payload());
            let (buffer, mut chain) = packet.into_parts();
            free.push(buffer);
            if chain.capacity() > 0 {
                free.extend(chain.drain(..).map(Piece::into_buffer));
                self.coalescer.recycle(chain);
            }
        }
    }

    fn finish(&mut self) {
        let Self { coalescer, out, .. } = self;
        coalescer.flush_all(Flush::Stop, &mut |packet, _| out.push(packet));
    }

    fn remembers(&self) -> bool {
        self.mode.held
    }
}

/// How segments are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Headers and slices, the checksum left to the card.
    Headers,
    /// Headers and slices, payload read for the checksum.
    Summed,
    /// One run of bytes, copied and summed.
    Copied,
}

/// Send: a large packet divided into segments.
pub struct Segmenter<'a> {
    pub form: Form,
    pub size: usize,
    pub slots: Vec<Slot<'a>>,
}

impl Sender for Segmenter<'_> {
    fn cut(&mut self, _: usize, frame: &mut [u8]) -> usize {
        let checksum = match self.form {
            Form::Headers => ChecksumState::Partial,
            Form::Summed | Form::Copied => ChecksumState::Unknown,
        };
        let meta = Meta { checksum, ..Meta::default() };
        let packet = Packet::new(&*frame, LinkType::Ethernet, meta);
        let gso = Gso { size: self.size as u16, ..Gso::default() };
        let mut segments = segment(&packet, gso).expect("a whole datagram");
        let mut count = 0;
        if self.form == Form::Copied {
            for slot in &mut self.slots {
                let Some(written) = segments.write_next(slot.room()).expect("room") else { break };
                slot.set_len(written.len);
                count += 1;
            }
            return count;
        }
        while let Some(part) = segments.next_segment() {
            black_box(part.header);
            part.payload.for_each(|slice| {
                black_box(slice);
            });
            count += 1;
        }
        count
    }

    fn segments(&self, count: usize) -> Vec<Vec<u8>> {
        if self.form != Form::Copied {
            return Vec::new();
        }
        self.slots[..count].iter().map(|slot| slot.as_ref()[ETHERNET..].to_vec()).collect()
    }
}
