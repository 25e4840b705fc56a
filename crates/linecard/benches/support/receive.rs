//! Our receive side, as a data path would drive it: with frames as they came.

use super::Slot;
use super::measure::{Account, Receive};
use linecard::offload::coalesce::{Coalescer, Config, Flush, Input};
use linecard::packet::{Batch, LinkType, Meta, Packet};
use linecard::time::Instant;

/// Parse, coalesce, and keep what comes out in a list.
pub(crate) struct Coalesce<'a> {
    link: LinkType,
    meta: Meta,
    coalescer: Coalescer<Slot<'a>>,
    /// Where packets are made of the frames first, as between stages.
    batch: Option<Batch<Slot<'a>>>,
    out: Vec<Packet<Slot<'a>>>,
}

impl Coalesce<'_> {
    /// Every packet gets `meta` from its port.
    pub(crate) fn new(link: LinkType, meta: Meta, config: Config) -> Self {
        let coalescer = Coalescer::new(config);
        Self { link, meta, coalescer, batch: None, out: Vec::with_capacity(1 << 16) }
    }

    /// The same, through a batch.
    pub(crate) fn batched(self) -> Self {
        Self { batch: Some(Batch::new()), ..self }
    }
}

impl<'a> Receive<'a> for Coalesce<'a> {
    fn burst(&mut self, burst: &mut Vec<Slot<'a>>, now: Instant) {
        let Self { link, meta, coalescer, batch, out } = self;
        let meta = Meta { timestamp: now, ..*meta };
        let Some(batch) = batch else {
            let frames = Input::Frames(burst, *link, meta);
            coalescer.push_batch(frames, now, &mut |packet, _| out.push(packet));
            return;
        };
        for slot in burst.drain(..) {
            let packet = Packet::new(slot, *link, meta);
            batch.push(packet).expect("a burst is no longer than a batch");
        }
        coalescer.push_batch(batch, now, &mut |packet, _| out.push(packet));
    }

    fn settle(&mut self, _: &mut Vec<Slot<'a>>, free: &mut Vec<Slot<'a>>, account: &mut Account) {
        for packet in self.out.drain(..) {
            account.leaves(packet.payload_len());
            account.hash(packet.header());
            packet.payload().for_each(|slice| account.hash(slice));
            let (buffer, mut chain) = packet.into_parts();
            free.push(buffer);
            if chain.capacity() > 0 {
                free.extend(chain.drain(..).map(linecard::packet::Piece::into_buffer));
                self.coalescer.recycle(chain);
            }
        }
    }

    fn finish(&mut self) {
        let Self { coalescer, out, .. } = self;
        coalescer.flush_all(Flush::Stop, &mut |packet, _| out.push(packet));
    }
}
