//! Merges the packets of a burst where they lie, in memory that the caller lends for one call.
//!
//! A packet that stays alone costs little: it is parsed and hashed, and a note of it is made. It is
//! examined, and its checksum verified, only when a second packet of its flow arrives.

use super::aggregate::Aggregate;
use super::arrivals::{Source, Trust, Upcoming};
use super::bypass::{has_ip_options, may_belong_to_a_flow};
use super::candidate::{Candidate, ChecksumKind, END_FLAGS, transport_of};
use super::config::{ChecksumPolicy, Config};
use super::merge;
use super::predict::{Expected, Head, Limits};
use super::reason::{Flush, Flushes, Refusal, Refusals};
use super::recent::Recent;
use super::steady;
use crate::offload::virtio::{Device, Frame, Header};
use crate::packet::header::{self, Tcp};
use crate::packet::{
    ChecksumState, FlowHasher, Form, LayerKind, Layout, LinkType, Meta, Packet, same_ends,
};
use crate::time::Instant;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;
use core::ops::Range;

/// Marks the end of a chain and a free place of the table.
const NONE: u32 = u32::MAX;
/// Notes that a packet without visible ports is compared with; with more of them, all packets noted
/// leave instead.
const MAX_COMPARED: usize = 256;
/// Nothing but the aggregate limits a run: no data is held beyond the call.
const UNLIMITED: Limits = Limits { packets: usize::MAX, bytes: usize::MAX };

/// A range that is not inside of the buffer, or of which less than 4 GiB are. Nothing was merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutsideBuffer {
    /// The frame, counted from 0.
    pub index: usize,
    /// The end of its range.
    pub end: usize,
    /// Bytes of the buffer.
    pub len: usize,
}

impl fmt::Display for OutsideBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, end, len } = self;
        write!(f, "frame {index} ends at byte {end} of a buffer of {len} bytes")
    }
}

impl Error for OutsideBuffer {}

/// A packet of a burst: several merged, or one as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Merged<'a> {
    /// Describes it to a device. All zeros for a packet that stayed alone.
    pub header: Header,
    /// Its bytes in order: first its headers, with the payload of the first packet, then the
    /// payload of each further packet.
    pub slices: &'a [&'a [u8]],
    /// Its first packet, counted from 0 in the burst.
    pub first: usize,
    /// The number of packets in it.
    pub packets: usize,
}

impl Merged<'_> {
    /// Bytes of the frame.
    #[must_use]
    pub fn frame_len(&self) -> usize {
        self.slices.iter().map(|slice| slice.len()).sum()
    }
}

/// Counters of a [`Merger`]: `packets_in == packets_out + merged`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BurstCounters {
    /// Packets received.
    pub packets_in: u64,
    /// Packets that left, merged ones counted once.
    pub packets_out: u64,
    /// Packets merged into another.
    pub merged: u64,
    /// Why packets did not merge. A packet that met no other one of its flow is not examined.
    pub refused: Refusals,
    /// Why packets left.
    pub flushed: Flushes,
}

/// Where a frame is in the buffer, and the next one of its merged packet.
#[derive(Debug, Clone, Copy)]
struct Place {
    start: u32,
    len: u32,
    next: u32,
}

impl Place {
    #[inline(always)]
    fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

/// The packet that the next packet of a flow may join.
#[derive(Debug, Clone, Copy)]
struct Note {
    hash: u64,
    layout: Layout,
    first: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// One packet, not examined yet.
    Alone,
    /// Examined, and possibly merged with others: the place of its aggregate.
    Open(u32),
    /// It has left.
    Gone,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    aggregate: Aggregate,
    /// The last of its frames.
    last: u32,
}

/// Merges the packets of bursts; nothing of a burst outlives the call.
///
/// Frames stay where they were received: a merged packet is a virtio header and a list of slices of
/// the buffer, of which only the headers of the first packet are changed. So one buffer can be used
/// for all bursts. The rules are those of [`Coalescer`](super::Coalescer); packets that no virtio
/// header could describe to the [`Config::device`] do not merge. Packets of a flow leave in the
/// order in which they arrived.
///
/// Memory is allocated as bursts grow, and kept: 12 bytes a frame and about 60 a flow of the
/// largest burst, and about 250 for each merged packet of it.
///
/// ```
/// use linecard::offload::burst::{Merger, stride};
/// use linecard::offload::coalesce::Config;
/// use linecard::offload::virtio::gso_type;
/// use linecard::packet::LinkType;
/// # fn datagram(id: u8) -> Vec<u8> {
/// #     let mut bytes = vec![0x45, 0, 0, 32, 0, id, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
/// #     let sum = linecard::packet::checksum::Sum::of(&bytes).checksum();
/// #     bytes[10..12].copy_from_slice(&sum.to_be_bytes());
/// #     bytes.extend([0, 7, 0, 9, 0, 12, 0xEB, 0xC2]);
/// #     bytes.extend([0; 4]);
/// #     bytes
/// # }
/// // Two UDP datagrams of one flow, as a socket with UDP_GRO gives them: one behind the other.
/// let mut buffer = [datagram(1), datagram(2)].concat();
///
/// let mut merger = Merger::new(LinkType::Raw, Config::burst());
/// let mut out = Vec::new();
/// merger.merge_burst(&mut buffer, stride(64, 32), &mut |packet| {
///     out.push((packet.header.gso_type, packet.header.gso_size, packet.slices.concat()));
/// })?;
/// let [(kind, size, bytes)] = &out[..] else { panic!("one packet") };
/// assert_eq!((*kind, *size, bytes.len()), (gso_type::UDP_L4, 4, 28 + 2 * 4));
/// # Ok::<(), linecard::offload::burst::OutsideBuffer>(())
/// ```
#[derive(Debug)]
pub struct Merger {
    link: LinkType,
    config: Config,
    device: Device,
    hasher: FlowHasher,
    places: Vec<Place>,
    /// Notes in the order of their first packets.
    notes: Vec<Note>,
    /// The first note that may not be gone.
    oldest: usize,
    /// Notes by flow hash, open addressing: the latest of each flow.
    table: Vec<u32>,
    open: Vec<Open>,
    /// The note that the last packet joined or made.
    current: Option<u32>,
    recent: Recent,
    counters: BurstCounters,
    /// Empty; kept for its memory.
    slices: Vec<&'static [u8]>,
}

/// Frames of `size` bytes one behind the other in the first `total` bytes; the last may be shorter.
/// None if `size` is 0.
///
/// ```
/// use linecard::offload::burst::stride;
/// assert!(stride(7, 3).eq([0..3, 3..6, 6..7]));
/// ```
pub fn stride(total: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    let count = total.checked_div(size).map_or(0, |_| total.div_ceil(size));
    (0..count).map(move |index| index * size..((index + 1) * size).min(total))
}

/// What one call works on.
struct Lent<'a, F: ?Sized> {
    buffer: &'a mut [u8],
    out: &'a mut F,
}

impl Merger {
    /// For frames with this link header: [`LinkType::Raw`] for a TUN device. Of the configuration,
    /// what concerns held packets and the creation of flows is not used.
    #[must_use]
    pub fn new(link: LinkType, config: Config) -> Self {
        let device = config.device.unwrap_or_default();
        Self {
            link,
            hasher: FlowHasher::new(config.secret),
            config: Config { device: Some(device), max_held_bytes: usize::MAX, ..config },
            device,
            places: Vec::new(),
            notes: Vec::new(),
            oldest: 0,
            table: Vec::new(),
            open: Vec::new(),
            current: None,
            recent: Recent::new(),
            counters: BurstCounters::default(),
            slices: Vec::new(),
        }
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> &BurstCounters {
        &self.counters
    }

    /// Merges the frames at these ranges of `buffer`, in the order of their arrival, and calls
    /// `out` for each packet that results: merged ones, and all others as they are. See [`stride`]
    /// for frames one behind the other.
    ///
    /// Ranges should not overlap: the headers of merged packets are changed in place.
    ///
    /// # Errors
    ///
    /// A range outside of the buffer; nothing was merged then, and `out` was not called.
    pub fn merge_burst<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        buffer: &mut [u8],
        frames: impl IntoIterator<Item = Range<usize>>,
        out: &mut F,
    ) -> Result<(), OutsideBuffer> {
        self.begin(buffer.len(), frames)?;
        let lent = &mut Lent { buffer, out };
        let mut at = 0;
        while at < self.places.len() {
            at += match self.follow(at, lent) {
                0 => self.take(at, lent),
                taken => taken,
            };
        }
        for note in self.oldest..self.notes.len() {
            self.emit(note as u32, Flush::BatchEnd, lent);
        }
        Ok(())
    }

    fn begin(
        &mut self,
        len: usize,
        frames: impl IntoIterator<Item = Range<usize>>,
    ) -> Result<(), OutsideBuffer> {
        self.places.clear();
        for (index, Range { start, end }) in frames.into_iter().enumerate() {
            let (Ok(first), Ok(size), true) =
                (u32::try_from(start), u32::try_from(end.saturating_sub(start)), end <= len)
            else {
                return Err(OutsideBuffer { index, end, len });
            };
            self.places.push(Place { start: first, len: size, next: NONE });
        }
        self.notes.clear();
        self.open.clear();
        self.table.clear();
        self.table.resize((2 * self.places.len()).next_power_of_two(), NONE);
        (self.oldest, self.current, self.recent) = (0, None, Recent::new());
        self.counters.packets_in += self.places.len() as u64;
        Ok(())
    }

    /// Merges packets from `at` on into the packet that the last one joined, or into a recent one
    /// with the same ports, as long as they simply continue it; returns their number.
    #[inline(always)]
    fn follow<F: FnMut(Merged<'_>) + ?Sized>(&mut self, at: usize, lent: &mut Lent<F>) -> usize {
        let bytes = &lent.buffer[self.places[at].range()];
        let note = match self.current {
            Some(note) if self.has_ports_of(note, bytes, lent.buffer) => note,
            _ => match self.recent.guess(bytes) {
                Some(note) if self.has_ports_of(note, bytes, lent.buffer) => note,
                _ => return 0,
            },
        };
        self.open(note, lent).map_or(0, |open| self.join_all(note, open, at, lent))
    }

    /// Whether the packet noted is still here and has the same ports.
    #[inline(always)]
    fn has_ports_of(&self, note: u32, bytes: &[u8], buffer: &[u8]) -> bool {
        let Note { layout, first, state, .. } = &self.notes[note as usize];
        let (Some(transport), true) = (layout.transport(), *state != State::Gone) else {
            return false;
        };
        let ports = |bytes: &[u8]| bytes.get(transport.at()..)?.first_chunk::<4>().copied();
        ports(&buffer[self.places[*first as usize].range()]) == ports(bytes)
    }

    /// The aggregate of a packet noted. If it turns out that it cannot be merged, it leaves.
    #[inline(always)]
    fn open<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        note: u32,
        lent: &mut Lent<F>,
    ) -> Option<u32> {
        match self.notes[note as usize].state {
            State::Open(open) => Some(open),
            State::Gone => None,
            State::Alone => match self.examine_noted(note, lent.buffer) {
                Ok(open) => Some(open),
                Err(refusal) => {
                    self.counters.refused.count(refusal);
                    self.emit(note, Flush::Displaced, lent);
                    None
                }
            },
        }
    }

    #[inline(never)]
    fn examine_noted(&mut self, note: u32, buffer: &[u8]) -> Result<u32, Refusal> {
        let Note { layout, first, .. } = self.notes[note as usize];
        let packet = self.packet(first as usize, layout, buffer);
        let candidate = Candidate::examine(&packet, &self.config, &[])?;
        let aggregate = Aggregate::open((0, &packet), &candidate, &self.config, Instant::ZERO);
        let open = self.open.len() as u32;
        self.open.push(Open { aggregate, last: first });
        self.notes[note as usize].state = State::Open(open);
        Ok(open)
    }

    fn packet<'b>(&self, at: usize, layout: Layout, buffer: &'b [u8]) -> Packet<&'b [u8]> {
        let trusted = self.config.checksum == ChecksumPolicy::Trust;
        let checksum = if trusted { ChecksumState::Valid } else { ChecksumState::Unknown };
        let meta = Meta { checksum, ..Meta::default() };
        Packet::with_layout(&buffer[self.places[at].range()], self.link, layout, meta)
    }

    /// Merges packets from `at` on as long as they continue the aggregate.
    fn join_all<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        note: u32,
        open: u32,
        at: usize,
        lent: &mut Lent<F>,
    ) -> usize {
        let Note { layout, first, .. } = &self.notes[note as usize];
        let Open { aggregate, last } = &mut self.open[open as usize];
        let verifies = self.config.checksum == ChecksumPolicy::Verify;
        let buffer = &*lent.buffer;
        let first = &buffer[self.places[*first as usize].range()];
        let trust = if verifies { Trust::Verify } else { Trust::Vouched };
        let mut upcoming = Frames { buffer, places: &mut self.places, at, trust };
        let may_continue = |aggregate: &Aggregate, upcoming: &Frames<'_>| {
            upcoming.bytes(0).is_some_and(|next| aggregate.may_continue(first, next))
        };
        let Some(shape) = self.hasher.shape(layout).filter(|_| may_continue(aggregate, &upcoming))
        else {
            return 0;
        };
        let source = Source { link: self.link, lane: 0, mark: 0, verifies };
        let head = Head { bytes: first, layout, source };
        let expected = Expected::after(head, aggregate, shape, &upcoming);
        let mut packets = steady::follow(&upcoming, &expected, aggregate, &UNLIMITED);
        upcoming.take_pieces(packets, 0..0, last);
        let mut ended = None;
        if may_continue(aggregate, &upcoming) {
            let taken = expected.run(aggregate, &UNLIMITED, (&mut upcoming, last));
            packets += taken.packets;
            ended = taken.ended;
        }
        if packets > 0 {
            self.current = Some(note);
        }
        if let Some(reason) = ended {
            self.emit(note, reason, lent);
        }
        packets
    }

    /// Handles one packet, which does not simply continue another; returns 1.
    #[inline(never)]
    fn take<F: FnMut(Merged<'_>) + ?Sized>(&mut self, at: usize, lent: &mut Lent<F>) -> usize {
        let bytes = &lent.buffer[self.places[at].range()];
        let layout = Layout::parse(self.link, bytes);
        let hash = self.hasher.flow_of(bytes, &layout, 0);
        match hash.filter(|_| !has_ip_options(&self.packet(at, layout, lent.buffer))) {
            None => self.bypass(at, &layout, lent),
            Some(hash) => match self.find(hash) {
                Some(note) => self.meet(note, (at, hash, layout), lent),
                None => self.note(at, hash, layout, lent),
            },
        }
        1
    }

    /// A packet whose flow is not visible: it leaves after all packets between its addresses.
    fn bypass<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        at: usize,
        layout: &Layout,
        lent: &mut Lent<F>,
    ) {
        let refusal = match transport_of(layout) {
            Err(refusal) => refusal,
            Ok(_) if has_ip_options(&self.packet(at, *layout, lent.buffer)) => Refusal::IpOptions,
            Ok(_) => Refusal::HeaderTooLong,
        };
        self.counters.refused.count(refusal);
        let has_ends = layout.layers().any(|layer| layer.kind.is_ip());
        if has_ends && may_belong_to_a_flow(layout.protocol()) {
            let all = self.notes.len() - self.oldest > MAX_COMPARED;
            for note in self.oldest..self.notes.len() {
                let Note { layout: noted, first, .. } = self.notes[note];
                let is_between = all || {
                    let packet = self.packet(at, *layout, lent.buffer);
                    same_ends(&self.packet(first as usize, noted, lent.buffer), &packet)
                };
                if is_between {
                    self.emit(note as u32, Flush::Bypass, lent);
                }
            }
            if all {
                self.oldest = self.notes.len();
            }
        }
        self.emit_alone(at, lent);
    }

    /// The first packet of a flow: it is noted, unless none could join it.
    fn note<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        at: usize,
        hash: u64,
        layout: Layout,
        lent: &mut Lent<F>,
    ) {
        let bytes = &lent.buffer[self.places[at].range()];
        let refusal = match layout.form() {
            Form::Datagram if !layout.payload().is_empty() => None,
            Form::Datagram => Some(Refusal::NoPayload),
            _ => Some(Refusal::Trailer),
        };
        if refusal.is_some() || ends(bytes, &layout) {
            match refusal {
                Some(refusal) => self.counters.refused.count(refusal),
                None => self.counters.flushed.count(Flush::EndFlag),
            }
            return self.emit_alone(at, lent);
        }
        self.add_note(Note { hash, layout, first: at as u32, state: State::Alone }, bytes);
    }

    fn add_note(&mut self, note: Note, bytes: &[u8]) {
        let index = self.notes.len() as u32;
        let place = self.place_of(note.hash);
        self.table[place] = index;
        let ports = note.layout.transport().map_or(0, |transport| transport.at());
        self.recent.note(bytes, ports, index);
        self.current = Some(index);
        self.notes.push(note);
    }

    /// The place of a flow in the table, or a free one for it: at least half of the table is free.
    #[inline]
    fn place_of(&self, hash: u64) -> usize {
        let mask = self.table.len() - 1;
        let mut place = hash as usize & mask;
        while let Some(note) = self.notes.get(self.table[place] as usize)
            && note.hash != hash
        {
            place = (place + 1) & mask;
        }
        place
    }

    /// The note of a flow whose packet has not left.
    #[inline]
    fn find(&self, hash: u64) -> Option<u32> {
        let index = self.table[self.place_of(hash)];
        self.notes.get(index as usize).filter(|note| note.state != State::Gone).map(|_| index)
    }

    /// A packet whose flow has an earlier one here: it joins that one, or takes its place.
    fn meet<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        note: u32,
        (at, hash, layout): (usize, u64, Layout),
        lent: &mut Lent<F>,
    ) {
        let Some(open) = self.open(note, lent) else {
            return self.note(at, hash, layout, lent);
        };
        let packet = self.packet(at, layout, lent.buffer);
        let candidate = match Candidate::examine(&packet, &self.config, &[]) {
            Ok(candidate) => candidate,
            Err(refusal) => {
                self.counters.refused.count(refusal);
                self.emit(note, Flush::Bypass, lent);
                return self.emit_alone(at, lent);
            }
        };
        let Note { layout: noted, first, .. } = self.notes[note as usize];
        let first = self.packet(first as usize, noted, lent.buffer);
        match self.fits(open, (&first, &packet), &candidate) {
            Ok(candidate) => self.join(note, open, (at, &candidate), lent),
            Err(refusal) => {
                self.counters.refused.count(refusal);
                let full = matches!(refusal, Refusal::SizeLimit | Refusal::SegmentLimit);
                self.emit(note, if full { Flush::Size } else { Flush::Displaced }, lent);
                if candidate.ends() {
                    self.counters.flushed.count(Flush::EndFlag);
                    return self.emit_alone(at, lent);
                }
                // It has been examined already.
                let packet = self.packet(at, layout, lent.buffer);
                let opened = Aggregate::open((0, &packet), &candidate, &self.config, Instant::ZERO);
                let state = State::Open(self.open.len() as u32);
                self.open.push(Open { aggregate: opened, last: at as u32 });
                let bytes = &lent.buffer[self.places[at].range()];
                self.add_note(Note { hash, layout, first: at as u32, state }, bytes);
            }
        }
    }

    /// Whether a packet may join the first; the candidate with the padding that the whole has then.
    fn fits(
        &mut self,
        open: u32,
        (first, next): (&Packet<&[u8]>, &Packet<&[u8]>),
        candidate: &Candidate,
    ) -> Result<Candidate, Refusal> {
        let layout = first.layout();
        let shape = self.hasher.shape(layout).filter(|_| layout.same_headers(next.layout()));
        if !shape.is_some_and(|shape| shape.mergeable(first.bytes(), next.bytes())) {
            return Err(merge::difference(first, next).unwrap_or(Refusal::Envelope));
        }
        let aggregate = &mut self.open[open as usize].aggregate;
        let step = aggregate.fits(candidate, 0)?;
        aggregate.grown.fixed_ids = step.fixed_ids;
        Ok(Candidate { padding: step.padding, ..*candidate })
    }

    /// Adds a packet that fits.
    fn join<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        note: u32,
        open: u32,
        (at, candidate): (usize, &Candidate),
        lent: &mut Lent<F>,
    ) {
        let Open { aggregate, last } = &mut self.open[open as usize];
        let ended = aggregate.append(candidate, self.places[at].len as usize);
        self.places[*last as usize].next = at as u32;
        *last = at as u32;
        self.current = Some(note);
        if let Some(reason) = ended {
            self.emit(note, reason, lent);
        }
    }

    /// The packet noted leaves, if it has not yet.
    fn emit<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        note: u32,
        reason: Flush,
        lent: &mut Lent<F>,
    ) {
        let noted = &mut self.notes[note as usize];
        let (first, layout) = (noted.first as usize, noted.layout);
        match core::mem::replace(&mut noted.state, State::Gone) {
            State::Gone => return,
            State::Open(open) if self.open[open as usize].aggregate.grown.count > 1 => {
                self.emit_merged((first, layout), open, lent);
            }
            State::Open(_) | State::Alone => self.emit_alone(first, lent),
        }
        self.counters.flushed.count(reason);
    }

    fn emit_alone<F: FnMut(Merged<'_>) + ?Sized>(&mut self, at: usize, lent: &mut Lent<F>) {
        self.counters.packets_out += 1;
        let bytes = &lent.buffer[self.places[at].range()];
        let header = Header::default();
        (lent.out)(Merged { header, slices: &[bytes], first: at, packets: 1 });
    }

    #[inline(never)]
    fn emit_merged<F: FnMut(Merged<'_>) + ?Sized>(
        &mut self,
        (first, layout): (usize, Layout),
        open: u32,
        lent: &mut Lent<F>,
    ) {
        let aggregate = &mut self.open[open as usize].aggregate;
        let packets = usize::from(aggregate.grown.count);
        self.counters.packets_out += 1;
        self.counters.merged += packets as u64 - 1;
        // A device requires that the checksum is left to it.
        aggregate.checksum = ChecksumKind::Partial;
        let bytes = &mut lent.buffer[self.places[first].range()];
        let mut packet = Packet::with_layout(bytes, self.link, layout, Meta::default());
        aggregate.patch(&mut packet);
        let gso = packet.meta.gso;
        let buffer = &*lent.buffer;
        let bytes = &buffer[self.places[first].range()];
        let frame = Frame {
            bytes,
            layout: &layout,
            payload_len: aggregate.grown.payload_len as usize,
            checksum: ChecksumState::Partial,
        };
        // What cannot be described has been refused.
        let header = Header::of_frame(&frame, gso, self.device.identifications);
        let mut slices: Vec<&[u8]> = core::mem::take(&mut self.slices);
        slices.push(bytes);
        let mut next = self.places[first].next;
        while let Some(place) = self.places.get(next as usize) {
            slices.push(&buffer[place.range()][layout.header_len()..]);
            next = place.next;
        }
        let header = header.unwrap_or_default();
        (lent.out)(Merged { header, slices: &slices, first, packets });
        slices.clear();
        // Of an empty list, this keeps only the memory.
        self.slices = slices.into_iter().map(|_| &[][..]).collect();
    }
}

/// Whether no packet may be merged after this one.
fn ends(bytes: &[u8], layout: &Layout) -> bool {
    layout.transport().is_some_and(|layer| {
        layer.kind == LayerKind::Tcp
            && header::at::<Tcp>(bytes, layer.at()).offset_flags & END_FLAGS != 0
    })
}

/// The frames of a burst from one on.
struct Frames<'a> {
    buffer: &'a [u8],
    places: &'a mut [Place],
    at: usize,
    trust: Trust,
}

impl Upcoming for Frames<'_> {
    /// The last frame of a merged packet.
    type Chain = u32;

    #[inline(always)]
    fn len(&self) -> usize {
        self.places.len() - self.at
    }

    #[inline(always)]
    fn bytes(&self, index: usize) -> Option<&[u8]> {
        self.buffer.get(self.places.get(self.at + index)?.range())
    }

    #[inline(always)]
    fn trust(&self, _: usize, _: &Source) -> Option<Trust> {
        Some(self.trust)
    }

    #[inline(always)]
    fn take_pieces(&mut self, count: usize, _: Range<usize>, last: &mut u32) {
        for at in self.at..self.at + count {
            self.places[*last as usize].next = at as u32;
            *last = at as u32;
        }
        self.at += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mergers_move_between_threads() {
        fn is_send_and_sync<T: Send + Sync>() {}
        is_send_and_sync::<Merger>();
        is_send_and_sync::<Merged<'_>>();
    }

    #[test]
    fn a_range_outside_of_the_buffer_is_refused_before_anything_is_done() {
        let mut merger = Merger::new(LinkType::Raw, Config::burst());
        let mut buffer = [0; 10];
        let refused = merger.merge_burst(&mut buffer, [0..10, 4..11], &mut |_| panic!("called"));
        assert_eq!(refused, Err(OutsideBuffer { index: 1, end: 11, len: 10 }));
        assert_eq!(*merger.counters(), BurstCounters::default());
    }
}
