//! Active acknowledgment as a stage for both directions.

use super::give;
use crate::offload::active_ack::{self, Answer, Config, Counters, Reply};
use crate::packet::{Batch, ChecksumState, LinkType, Meta, Packet, Pool, PoolBuffer};
use crate::stage::Stage;
use crate::time::Instant;
use alloc::collections::VecDeque;

/// Acknowledges data on behalf of the receiver; see [`crate::offload::active_ack`] for the
/// limitations.
///
/// Both directions pass through it: packets of the host's lane ([`Meta::lane`]) come from the
/// receiver, all others go to it. Its acknowledgments leave on the host's lane, after the data that
/// they acknowledge. It belongs between [`Resequence`](super::Resequence) and
/// [`Coalesce`](super::Coalesce).
///
/// ```
/// use linecard::offload::active_ack::Config;
/// use linecard::packet::{Batch, LinkType, Pool};
/// use linecard::stage::Stage;
/// use linecard::stages::ActiveAck;
/// use linecard::time::Instant;
///
/// const HOST: u32 = 1;
/// let mut stage = ActiveAck::new(LinkType::Ethernet, HOST, Pool::new(64, 128), Config::default());
/// let (mut input, mut output) = (Batch::new(), Batch::new());
/// stage.process(&mut input, Instant::ZERO, &mut output);
/// assert_eq!((output.len(), stage.held()), (0, 0));
/// ```
#[derive(Debug)]
pub struct ActiveAck {
    active: active_ack::ActiveAck,
    link: LinkType,
    host: u32,
    pool: Pool,
    /// Not yet output: at most a packet and its acknowledgment.
    ready: VecDeque<Packet<PoolBuffer>>,
}

impl ActiveAck {
    /// Acknowledges frames of `link` on behalf of the host on lane `host`, in buffers of `pool`
    /// with at least [`Reply::MAX_LEN`] bytes; if none is free, nothing is sent.
    #[must_use]
    pub fn new(link: LinkType, host: u32, pool: Pool, config: Config) -> Self {
        let active = active_ack::ActiveAck::new(link, config);
        Self { active, link, host, pool, ready: VecDeque::with_capacity(2) }
    }

    /// The counters of the offload.
    #[must_use]
    pub fn offload_counters(&self) -> &Counters {
        self.active.counters()
    }

    fn take(&mut self, mut packet: Packet<PoolBuffer>, now: Instant) {
        if packet.meta.lane == self.host {
            if self.active.answer(&mut packet) != Answer::Suppressed {
                self.ready.push_back(packet);
            }
            return;
        }
        let can_send = self.pool.free() > 0 && self.pool.buffer_len() >= Reply::MAX_LEN;
        let reply = self.active.data(&mut packet, can_send);
        self.ready.push_back(packet);
        if let Ok(reply) = reply {
            let answer = self.packet(&reply, now);
            self.ready.extend(answer);
        }
    }

    fn packet(&self, reply: &Reply, now: Instant) -> Option<Packet<PoolBuffer>> {
        let bytes = reply.as_ref();
        let mut buffer = self.pool.take()?;
        buffer.as_mut()[..bytes.len()].copy_from_slice(bytes);
        buffer.truncate(bytes.len());
        let (lane, checksum) = (self.host, ChecksumState::Valid);
        let meta = Meta { timestamp: now, lane, checksum, ..Meta::default() };
        Some(Packet::new(buffer, self.link, meta))
    }
}

impl Stage<PoolBuffer> for ActiveAck {
    fn name(&self) -> &'static str {
        "active-ack"
    }

    fn process(
        &mut self,
        input: &mut Batch<PoolBuffer>,
        now: Instant,
        output: &mut Batch<PoolBuffer>,
    ) {
        loop {
            if !give(&mut self.ready, output) {
                return;
            }
            let Some(packet) = input.pop() else { return };
            self.take(packet, now);
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        (!self.ready.is_empty()).then_some(Instant::ZERO)
    }

    fn held(&self) -> usize {
        self.ready.len()
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        let counters = self.active.counters();
        visit("data_in", counters.data_in);
        visit("sent", counters.sent);
        visit("answers_in", counters.answers_in);
        visit("raised", counters.answers.of(Answer::Raised));
        visit("suppressed", counters.answers.of(Answer::Suppressed));
    }
}
