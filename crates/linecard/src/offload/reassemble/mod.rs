//! IP reassembly: combines the fragments of a datagram into one packet.
//!
//! [`Reassembler`] reassembles fragments of IPv4 (RFC 791, section 3.2; RFC 815; RFC 1122, section
//! 3.3.2) and IPv6 (RFC 8200, section 4.5), those of the innermost IP header that a packet's
//! [`Layout`] shows. The complete datagram is the packet of the first fragment, its header patched
//! in place, with the data of the others as a list of [`Piece`]s: payload is neither copied nor
//! read.
//!
//! **Nothing is lost.** Fragments that cannot be reassembled leave unchanged: those that overlap
//! (RFC 5722), contradict each other or exceed the largest datagram, those whose timeout has
//! expired, and the oldest ones if a bound is reached. The fragments of such a datagram leave in
//! the order of their arrival, each with a counted reason ([`GiveUp`]); its later fragments pass
//! unchanged until another timeout has expired or the place is needed.
//!
//! | question | answer |
//! |---|---|
//! | which header is used | that of the first fragment (offset 0): options, TTL, DSCP, "don't fragment" |
//! | congestion marks | CE if any fragment has it; Not-ECT beside others: given up (RFC 3168, 5.3) |
//! | timestamp | that of the fragment that completed the datagram, as in Linux |
//! | checksum state | verified only if it was for every fragment |
//! | exact duplicates | passed unchanged, or dropped if configured; others count as overlap |
//! | atomic fragments | completed at once, whatever else is held (RFC 6946) |
//! | a first fragment without all headers | given up (RFC 7112; for TCP over IPv4, RFC 1858) |
//! | order | other packets pass at once: they may overtake an incomplete datagram, as in hosts |
//!
//! **In tunnels** everything before the inner header has to be equal too, except for fields that
//! differ from packet to packet; the length fields of outer headers are updated. A fragment inside
//! an outer header whose checksum covers payload passes unchanged.
//!
//! Not supported: if the complete datagram is itself a fragment, or contains one, that fragment is
//! not reassembled any further; a second stage would pass it.

mod config;
mod counters;
mod datagram;
mod ecn;
mod fragment;
mod held;
mod key;
mod reason;
mod table;
mod whole;

pub use config::Config;
pub use counters::Counters;
pub use reason::{GiveUp, GiveUps, Pass, Passes};

use crate::packet::{Batch, ChecksumState, FlowHasher, LinkType, Meta, Packet, Piece};
use crate::time::Instant;
use alloc::vec::Vec;
use config::Limits;
use datagram::{Datagram, Slot};
use ecn::Ecn;
use fragment::Fragment;
use held::{Fragments, Misfit};
use key::Key;
use table::{Id, Table};
use whole::Builder;

#[cfg(doc)]
use crate::packet::Layout;

/// Emptied lists of pieces kept for the next datagrams.
const SPARE_CHAINS: usize = 64;

/// The result of [`Reassembler::push`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is held until its datagram is complete.
    Held,
    /// It completed its datagram.
    Completed,
    /// It passed unchanged.
    Passed(Pass),
    /// It left unchanged, and so did all held fragments of its datagram.
    GivenUp(GiveUp),
    /// It is an exact duplicate and was dropped.
    Dropped,
}

/// Why a packet leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It was never held.
    Passed(Pass),
    /// It is a complete datagram.
    Reassembled,
    /// It is an unchanged fragment whose datagram was given up.
    GivenUp(GiveUp),
}

/// Reassembles datagrams; see the [module](self).
///
/// ```
/// use linecard::offload::reassemble::{Config, Reassembler};
/// use linecard::offload::segment::fragment;
/// use linecard::packet::{Form, LinkType, Meta, Packet};
/// use linecard::time::Instant;
///
/// // A UDP datagram of 100 bytes, in fragments of at most 60.
/// let mut bytes = vec![0x45, 0, 0, 100, 0, 7, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
/// let checksum = linecard::packet::checksum::Sum::of(&bytes).checksum();
/// bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
/// bytes.extend([0, 7, 0, 9, 0, 80, 0, 0]);
/// bytes.resize(100, b'x');
/// let datagram = Packet::new(bytes.clone(), LinkType::Raw, Meta::default());
/// let mut fragments = fragment(&datagram, 60, 0)?;
///
/// let mut reassembler = Reassembler::new(LinkType::Raw, Config::default());
/// let mut out = Vec::new();
/// while let Some(part) = fragments.next_segment() {
///     let frame = [part.header, &part.payload.collect::<Vec<_>>().concat()].concat();
///     let packet = Packet::new(frame, LinkType::Raw, Meta::default());
///     assert_eq!(packet.layout().form(), Form::Fragment);
///     reassembler.push(packet, Instant::ZERO, &mut |packet, exit| out.push((packet, exit)));
/// }
/// let (whole, _) = &out[0];
/// assert_eq!((out.len(), whole.layout().form()), (1, Form::Datagram));
/// assert_eq!([whole.header(), &whole.payload().collect::<Vec<_>>().concat()].concat(), bytes);
/// # Ok::<(), linecard::offload::segment::SegmentError>(())
/// ```
#[derive(Debug)]
pub struct Reassembler<B> {
    config: Config,
    link: LinkType,
    share: Limits,
    hasher: FlowHasher,
    table: Table,
    fragments: Fragments<B>,
    held_bytes: usize,
    builder: Builder,
    chains: Vec<Vec<Piece<B>>>,
    now: Instant,
    counters: Counters,
}

/// Fate of the table entry of a datagram that is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// The entry is kept, so that later fragments are passed at once.
    Refuse,
    /// Its place is free.
    Forget,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Reassembler<B> {
    /// Allocates all memory but packet buffers and lists of pieces. All packets are frames of
    /// `link`.
    #[must_use]
    pub fn new(link: LinkType, config: Config) -> Self {
        Self {
            link,
            share: config.share(),
            hasher: FlowHasher::new(config.secret),
            table: Table::new(config.max_datagrams.max(1)),
            fragments: Fragments::new(config.max_held_fragments.max(1)),
            held_bytes: 0,
            builder: Builder::new(link),
            chains: Vec::with_capacity(SPARE_CHAINS),
            now: Instant::ZERO,
            counters: Counters::default(),
            config,
        }
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Fragments held now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.fragments.held()
    }

    /// Bytes of frames held now.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Datagrams in the table now, including those given up but still remembered.
    #[must_use]
    pub fn datagrams(&self) -> usize {
        self.table.used()
    }

    /// When [`Reassembler::advance`] has to be called next: the earliest deadline of a held
    /// datagram.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.table.next_deadline()
    }

    /// Whether all sums and bounds hold: for tests and fuzzing, because it visits every entry.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        let counters = &self.counters;
        let left = counters.passed.total() + counters.dropped + counters.joined + counters.released;
        self.table.is_consistent()
            && counters.packets_in == left + self.held() as u64
            && self.held() <= self.config.max_held_fragments.max(1)
            && self.held_bytes <= self.config.max_held_bytes
            && self.table.used() <= self.config.max_datagrams.max(1)
    }

    /// Processes all packets of a batch. Packets that leave go to `out`, each with its reason.
    pub fn push_batch<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        batch: &mut Batch<B>,
        now: Instant,
        out: &mut F,
    ) {
        for packet in batch.drain() {
            self.push(packet, now, out);
        }
    }

    /// Processes a packet that arrived at `now`, after giving up due datagrams. If `now` lies before
    /// the latest time given, that latest time is used.
    pub fn push<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: Packet<B>,
        now: Instant,
        out: &mut F,
    ) -> Verdict {
        self.advance(now, out);
        self.counters.received(packet.bytes().len());
        match Fragment::examine(&packet) {
            Err(why) => self.pass(packet, why, out),
            Ok(_) if packet.bytes().len() > self.share.bytes => {
                self.pass(packet, Pass::TooLarge, out)
            }
            Ok(fragment) if fragment.v6 && fragment.is_atomic() => {
                self.strip(packet, &fragment, out)
            }
            Ok(fragment) => self.admit(packet, fragment, out),
        }
    }

    /// Gives up datagrams that are due at `now`.
    #[inline]
    pub fn advance<F: FnMut(Packet<B>, Exit)>(&mut self, now: Instant, out: &mut F) {
        self.now = self.now.max(now);
        while let Some(id) = self.table.due(self.now) {
            self.give_up(id, GiveUp::Timeout, After::Forget, out);
        }
    }

    /// Gives up everything, the oldest datagrams first, and forgets those given up before.
    pub fn flush_all<F: FnMut(Packet<B>, Exit)>(&mut self, out: &mut F) {
        while let Some(id) = self.table.oldest_of_all() {
            self.give_up(id, GiveUp::Stop, After::Forget, out);
        }
    }

    /// Starts a new timeline, for captures whose clock was set back: gives up everything, after
    /// which `now` may lie before earlier times.
    pub fn restart_clock<F: FnMut(Packet<B>, Exit)>(&mut self, now: Instant, out: &mut F) {
        self.flush_all(out);
        self.now = now;
    }

    /// Takes the list of a datagram's pieces back for reuse, which avoids an allocation per
    /// datagram.
    pub fn recycle(&mut self, mut chain: Vec<Piece<B>>) {
        if chain.capacity() > 0 && self.chains.len() < SPARE_CHAINS {
            chain.clear();
            self.chains.push(chain);
        }
    }

    /// Removes the fragment header of an atomic fragment. Other fragments with the same
    /// identification are unrelated (RFC 6946, section 4).
    fn strip<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        mut packet: Packet<B>,
        fragment: &Fragment,
        out: &mut F,
    ) -> Verdict {
        let bytes = packet.bytes();
        let data = core::iter::once(&bytes[fragment.data()]);
        self.builder.fill(&bytes[..fragment.header_end], data);
        let done = self.builder.complete(&mut packet, fragment, fragment.len, Ecn::default());
        match done {
            Err(why) => {
                self.counters.given_up.count(why);
                self.release(packet, why, out)
            }
            Ok(()) => {
                self.counters.atomic += 1;
                self.counters.completed(1, 0);
                self.send(packet, Exit::Reassembled, out);
                Verdict::Completed
            }
        }
    }

    /// Holds a fragment, and emits its datagram if that is complete.
    fn admit<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: Packet<B>,
        fragment: Fragment,
        out: &mut F,
    ) -> Verdict {
        let key = Key::of(&packet, &fragment, self.link, &self.hasher);
        let hash = key.hash(&self.hasher);
        let found = self.table.find(hash, &key).or_else(|| self.open(key, hash, out));
        // After making room, the table has a free place.
        let Some(id) = found.filter(|id| !self.table.get(*id).refused) else {
            return self.pass(packet, Pass::Refused, out);
        };
        let ahead = match self.fits(id, &packet, &fragment) {
            Ok(ahead) => ahead,
            Err(Misfit::Duplicate) if self.config.drop_duplicates => {
                self.counters.dropped += 1;
                return Verdict::Dropped;
            }
            Err(Misfit::Duplicate) => return self.pass(packet, Pass::Duplicate, out),
            Err(Misfit::Fault(why)) => {
                self.give_up(id, why, After::Refuse, out);
                return self.release(packet, why, out);
            }
        };
        if let Some(why) = self.make_room(id, packet.bytes().len(), out) {
            return self.release(packet, why, out);
        }
        self.hold(id, ahead, packet, fragment);
        match self.table.get(id).whole() {
            Some(data) => self.complete(id, data, out),
            None => Verdict::Held,
        }
    }

    fn fits(&self, id: Id, packet: &Packet<B>, fragment: &Fragment) -> Result<Slot, Misfit> {
        match fragment.fault(packet) {
            Some(fault) => Err(Misfit::Fault(fault)),
            None => {
                let datagram = self.table.get(id);
                self.fragments.fits(datagram, packet, fragment, self.config.max_fragments)
            }
        }
    }

    /// Makes a place for a new datagram, giving up an older one if necessary.
    fn open<F: FnMut(Packet<B>, Exit)>(&mut self, key: Key, hash: u64, out: &mut F) -> Option<Id> {
        let share = self.table.share_of(key.source_hash(&self.hasher));
        if self.table.uses(share).datagrams >= self.share.datagrams {
            let oldest = self.table.oldest_of_share(share)?;
            self.give_up(oldest, GiveUp::Share, After::Forget, out);
        }
        if self.table.is_full() {
            let oldest = self.table.oldest_of_all()?;
            self.give_up(oldest, GiveUp::TableFull, After::Forget, out);
        }
        let deadline = self.deadline(&key);
        self.table.open(hash, Datagram::new(key, share, self.now), deadline)
    }

    fn deadline(&self, key: &Key) -> Instant {
        let Config { timeout_v4, timeout_v6, .. } = self.config;
        self.now.plus(if key.is_v6() { timeout_v6 } else { timeout_v4 })
    }

    /// Gives up datagrams, the oldest first, until one more fragment of `bytes` may be held for
    /// `id`: those of its source if that exceeds its share, else any. Returns the reason if `id`
    /// itself was given up.
    fn make_room<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        id: Id,
        bytes: usize,
        out: &mut F,
    ) -> Option<GiveUp> {
        let share = self.table.get(id).share;
        let mut own = None;
        while let Some((oldest, why)) = self.in_the_way(share, bytes) {
            self.give_up(oldest, why, After::Refuse, out);
            own = own.or((oldest == id).then_some(why));
        }
        own
    }

    /// The datagram to give up for another fragment of a source, if one has to be.
    fn in_the_way(&self, share: usize, bytes: usize) -> Option<(Id, GiveUp)> {
        let uses = self.table.uses(share);
        if uses.fragments >= self.share.fragments || uses.bytes + bytes > self.share.bytes {
            return Some((self.table.oldest_live_of_share(share)?, GiveUp::Share));
        }
        let full = self.fragments.is_full();
        if full || self.held_bytes + bytes > self.config.max_held_bytes {
            return Some((self.table.oldest()?, GiveUp::HeldLimit));
        }
        None
    }

    fn hold(&mut self, id: Id, ahead: Slot, packet: Packet<B>, fragment: Fragment) {
        let bytes = packet.bytes().len();
        let datagram = self.table.get_mut(id);
        let share = datagram.share;
        self.fragments.insert(datagram, ahead, packet, fragment);
        let uses = self.table.uses_mut(share);
        uses.fragments += 1;
        uses.bytes += bytes;
        self.held_bytes += bytes;
    }

    /// Emits a complete datagram.
    fn complete<F: FnMut(Packet<B>, Exit)>(&mut self, id: Id, data: usize, out: &mut F) -> Verdict {
        if let Err(why) = self.build(id, data) {
            self.give_up(id, why, After::Refuse, out);
            return Verdict::GivenUp(why);
        }
        let (count, opened) = (self.table.get(id).count, self.table.get(id).opened);
        let whole = self.collect(id);
        self.settle(id, After::Forget);
        self.counters.completed(count, self.now.ns_since(opened));
        if let Some(packet) = whole {
            self.send(packet, Exit::Reassembled, out);
        }
        Verdict::Completed
    }

    /// Patches the first fragment's header; on error, nothing has changed.
    fn build(&mut self, id: Id, data: usize) -> Result<(), GiveUp> {
        let datagram = self.table.get(id);
        let Some(first) = self.fragments.get(datagram.first) else { return Ok(()) };
        let header = &first.packet.bytes()[..first.fragment.header_end];
        self.builder.fill(header, self.fragments.data(datagram.first));
        let Some(first) = self.fragments.get_mut(datagram.first) else { return Ok(()) };
        self.builder.complete(&mut first.packet, &first.fragment, data, datagram.ecn)
    }

    /// Collects the fragments in data order: the first becomes the packet, the others its pieces.
    fn collect(&mut self, id: Id) -> Option<Packet<B>> {
        let (first, count, latest) = {
            let datagram = self.table.get(id);
            (datagram.first, datagram.count, datagram.latest)
        };
        let timestamp = self.fragments.get(latest)?.packet.meta.timestamp;
        let (held, mut next) = self.fragments.take(first)?;
        let mut packet = held.packet;
        let spare = self.chains.pop();
        let mut chain = spare.unwrap_or_else(|| Vec::with_capacity(count.into()));
        let mut checksum = packet.meta.checksum;
        while let Some((held, behind)) = self.fragments.take(next) {
            if held.packet.meta.checksum != ChecksumState::Valid {
                checksum = ChecksumState::Unknown;
            }
            chain.push(held.packet.into_piece_of(held.fragment.data()));
            next = behind;
        }
        packet.set_chain(chain);
        packet.meta = Meta { timestamp, checksum, ..packet.meta };
        Some(packet)
    }

    /// Emits the fragments of a datagram unchanged, in the order of their arrival.
    fn give_up<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        id: Id,
        why: GiveUp,
        after: After,
        out: &mut F,
    ) {
        let Datagram { mut earliest, refused, .. } = *self.table.get(id);
        self.settle(id, after);
        if !refused {
            self.counters.given_up.count(why);
        }
        while let Some((packet, later)) = self.fragments.release(earliest) {
            self.release(packet, why, out);
            earliest = later;
        }
    }

    /// Updates the sums for a datagram that holds nothing any more.
    fn settle(&mut self, id: Id, after: After) {
        let Datagram { key, share, count, bytes, .. } = *self.table.get(id);
        let uses = self.table.uses_mut(share);
        uses.fragments -= usize::from(count);
        uses.bytes -= bytes;
        self.held_bytes -= bytes;
        match after {
            After::Forget => self.table.remove(id),
            After::Refuse => self.table.refuse(id, self.deadline(&key)),
        }
    }

    fn pass<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: Packet<B>,
        why: Pass,
        out: &mut F,
    ) -> Verdict {
        self.counters.passed.count(why);
        self.send(packet, Exit::Passed(why), out);
        Verdict::Passed(why)
    }

    fn release<F: FnMut(Packet<B>, Exit)>(
        &mut self,
        packet: Packet<B>,
        why: GiveUp,
        out: &mut F,
    ) -> Verdict {
        self.counters.released += 1;
        self.send(packet, Exit::GivenUp(why), out);
        Verdict::GivenUp(why)
    }

    fn send<F: FnMut(Packet<B>, Exit)>(&mut self, packet: Packet<B>, exit: Exit, out: &mut F) {
        let pieces = packet.chain().iter().map(Piece::len).sum::<usize>();
        self.counters.sent(packet.bytes().len() + pieces);
        out(packet, exit);
    }
}

/// Reassembles a list of frames that all arrive at once, and gives up what stays incomplete:
/// [`Reassembler`] for tests, fuzzing and small tools. Packets are returned in the order in which
/// they leave.
///
/// ```
/// use linecard::offload::reassemble::{Config, Exit, Pass, reassemble};
/// use linecard::packet::LinkType;
/// let out = reassemble(LinkType::Ethernet, [[0_u8; 60]], Config::default());
/// assert_eq!(out[0].1, Exit::Passed(Pass::NotAFragment));
/// ```
pub fn reassemble<B: AsRef<[u8]> + AsMut<[u8]>>(
    link: LinkType,
    frames: impl IntoIterator<Item = B>,
    config: Config,
) -> Vec<(Packet<B>, Exit)> {
    let mut reassembler = Reassembler::new(link, config);
    let mut out = Vec::new();
    for frame in frames {
        let packet = Packet::new(frame, link, Meta::default());
        reassembler.push(packet, Instant::ZERO, &mut |packet, exit| out.push((packet, exit)));
    }
    reassembler.flush_all(&mut |packet, exit| out.push((packet, exit)));
    out
}

#[cfg(test)]
mod tests;
