//! One UDP flow of a capture: its packets and its content.

use super::content::{Content, DYNAMIC};
use super::number::NumberField;
use super::rtp::{self, Unwrapped};
use super::st2022_6;
use super::st2110::audio::PacketTime;
use crate::stream::probe::Probe;
use alloc::vec::Vec;

/// In an RTP flow, at most one packet in this many may be something else (RTCP, STUN) on the same
/// ports.
const OTHERS: usize = 10;
/// Packets that are checked before all are.
const HEAD: usize = 256;
/// Minimum packets of a stream.
pub const MIN_PACKETS: usize = 3;

/// The content of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Packets of `linecard jitter send`.
    Probe,
    /// An SDI signal.
    St2022_6,
    /// Video: ST 2110-20.
    Video,
    /// Compressed video: JPEG XS in ST 2110-22.
    Jxs,
    /// Audio: PCM in ST 2110-30.
    Audio,
    /// AES3 signals: AM824 in ST 2110-31.
    Am824,
    /// Ancillary data: ST 2110-40.
    Ancillary,
    /// RTP with another payload.
    Rtp,
    /// Other packets, whose numbers are at a place that was given.
    Numbered,
    /// Not RTP.
    Udp,
}

impl Kind {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Probe => "linecard probe",
            Self::St2022_6 => "ST 2022-6",
            Self::Video => "ST 2110-20 video",
            Self::Jxs => "ST 2110-22 video, JPEG XS",
            Self::Audio => "ST 2110-30 audio",
            Self::Am824 => "ST 2110-31 audio, AM824",
            Self::Ancillary => "ST 2110-40 ancillary data",
            Self::Rtp => "RTP",
            Self::Numbered => "numbered UDP",
            Self::Udp => "UDP",
        }
    }
}

/// One packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Time of capture.
    pub at_ns: u64,
    /// Its number: RTP's sequence number extended, a probe's own number, or for other UDP the
    /// packets before it.
    pub number: i64,
    /// RTP's time stamp, extended; for a probe, its due time in nanoseconds; 0 for others.
    pub timestamp: i64,
    /// Octets of UDP payload.
    pub octets: u32,
    /// RTP's marker: the last packet of a frame or field.
    pub marker: bool,
    /// Whether it is the first packet of a frame (of its first field), if the payload says so.
    pub starts: bool,
    /// Whether it carries a line of a second field.
    pub second_field: bool,
}

/// The source of a flow's packet numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Source {
    #[default]
    Udp,
    Rtp {
        ssrc: u32,
        payload_type: u8,
    },
    Probe,
    Numbered,
}

/// The packets of one flow, in order of arrival.
#[derive(Debug, Clone, Default)]
pub struct Flow {
    source: Source,
    /// Where packets have their number, if that was given.
    field: Option<NumberField>,
    packets: Vec<Packet>,
    /// Arrival and octets of packets that are not numbered like the others, and of those before the
    /// first numbered one.
    others: Vec<Packet>,
    /// How many of them look like RTP of another source.
    other_sources: usize,
    sequence: Unwrapped,
    clock: Unwrapped,
    /// Header of ST 2022-6 in a probe.
    header: Option<st2022_6::Header>,
    content: Content,
}

impl Flow {
    /// A flow whose packets have their number there.
    #[must_use]
    pub fn with_numbers(field: Option<NumberField>) -> Self {
        Self { field, ..Self::default() }
    }

    /// Adds a packet: its time of arrival, and its UDP payload of `len` octets; `payload` may be
    /// only its beginning.
    pub fn push(&mut self, at_ns: u64, payload: &[u8], len: usize) {
        let octets = u32::try_from(len.max(payload.len())).unwrap_or(u32::MAX);
        let plain = Packet {
            at_ns,
            number: self.others.len() as i64,
            timestamp: 0,
            octets,
            marker: false,
            starts: false,
            second_field: false,
        };
        if let Some(field) = self.field {
            return self.push_numbered(plain, field, payload);
        }
        if let Some(probe) = Probe::read(payload) {
            return self.push_probe(plain, &probe, payload);
        }
        let header = rtp::Header::read(payload, len);
        if let (Source::Udp, Some(header)) = (self.source, &header) {
            let rtp::Header { ssrc, payload_type, .. } = *header;
            self.source = Source::Rtp { ssrc, payload_type };
        }
        match (self.source, header) {
            (Source::Rtp { ssrc, .. }, Some(header)) if header.ssrc == ssrc => {
                self.push_rtp(plain, &header, payload);
            }
            (_, header) => {
                self.other_sources += usize::from(header.is_some());
                self.others.push(plain);
            }
        }
    }

    fn push_numbered(&mut self, plain: Packet, field: NumberField, payload: &[u8]) {
        self.source = Source::Numbered;
        match field.read(payload) {
            Some(value) => {
                let number = self.sequence.push(value, field.bits());
                self.packets.push(Packet { number, ..plain });
            }
            None => self.others.push(plain),
        }
    }

    fn push_probe(&mut self, plain: Packet, probe: &Probe, payload: &[u8]) {
        if self.source != Source::Probe {
            self.others.append(&mut self.packets);
            self.source = Source::Probe;
        }
        let rtp = rtp::Header::read(payload, payload.len());
        if self.header.is_none() {
            self.header = payload.get(rtp::HEADER..).and_then(st2022_6::Header::read);
        }
        self.packets.push(Packet {
            number: i64::try_from(probe.sequence).unwrap_or(i64::MAX),
            timestamp: i64::try_from(probe.due_ns).unwrap_or(i64::MAX),
            marker: rtp.is_some_and(|rtp| rtp.marker),
            ..plain
        });
    }

    fn push_rtp(&mut self, plain: Packet, header: &rtp::Header, bytes: &[u8]) {
        let there = header.payload.start..header.payload.end.min(bytes.len());
        let payload = bytes.get(there).unwrap_or(&[]);
        let mut packet = Packet {
            number: self.sequence.push(header.sequence.into(), 16),
            timestamp: self.clock.push(header.timestamp, 32),
            marker: header.marker,
            ..plain
        };
        self.content.push(&mut packet, header, payload);
        self.packets.push(packet);
    }

    /// The content of the flow.
    #[must_use]
    pub fn kind(&self) -> Kind {
        let n = self.packets.len();
        if n < MIN_PACKETS || self.others.len() > n / OTHERS {
            return Kind::Udp;
        }
        match self.source {
            Source::Udp => Kind::Udp,
            Source::Probe => Kind::Probe,
            Source::Numbered if self.counts() => Kind::Numbered,
            Source::Numbered => Kind::Udp,
            Source::Rtp { .. } if self.content.st2022_6 == n => Kind::St2022_6,
            // Headers of ancillary data can be parsed as those of video, but not vice versa: all
            // segments would have to begin their line, with line numbers that are multiples of 64.
            Source::Rtp { .. } if self.content.ancillary == n => Kind::Ancillary,
            Source::Rtp { .. } if self.content.video == n => Kind::Video,
            Source::Rtp { .. } if self.content.is_jxs() => Kind::Jxs,
            // The packet rate of voice may be one of ST 2110-30 by chance.
            Source::Rtp { payload_type: DYNAMIC.., .. } if self.packet_time().is_some() => {
                if self.content.is_am824() { Kind::Am824 } else { Kind::Audio }
            }
            // Other protocols can look like RTP, but their sequence numbers do not increase by one.
            Source::Rtp { .. } if self.counts() => Kind::Rtp,
            Source::Rtp { .. } => Kind::Udp,
        }
    }

    /// The packets that the figures describe, in order of arrival.
    #[must_use]
    pub fn packets(&self) -> Vec<Packet> {
        if self.kind() != Kind::Udp {
            return self.packets.clone();
        }
        let mut all = [&self.packets[..], &self.others[..]].concat();
        all.sort_by_key(|packet| packet.at_ns);
        for (number, packet) in all.iter_mut().enumerate() {
            *packet = Packet { number: number as i64, timestamp: 0, marker: false, ..*packet };
        }
        all
    }

    /// Number of packets of the flow.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len() + self.others.len()
    }

    /// Whether there are no packets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of packets on the same ports that do not belong to the stream.
    #[must_use]
    pub fn others(&self) -> usize {
        if self.kind() == Kind::Udp { 0 } else { self.others.len() }
    }

    /// Number of packets that look like RTP of another source than the first one.
    #[must_use]
    pub fn other_sources(&self) -> usize {
        self.other_sources
    }

    /// RTP's source and payload type, for flows of RTP.
    #[must_use]
    pub fn rtp(&self) -> Option<(u32, u8)> {
        match self.source {
            Source::Rtp { ssrc, payload_type } if self.kind() != Kind::Udp => {
                Some((ssrc, payload_type))
            }
            _ => None,
        }
    }

    /// The format that an ST 2022-6 payload header names.
    #[must_use]
    pub fn format(&self) -> Option<st2022_6::Format> {
        self.header.or(self.content.header).and_then(|header| header.format())
    }

    /// The content of its RTP payloads.
    #[must_use]
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Lines of a video: those of a field, twice if there are two.
    #[must_use]
    pub fn lines(&self) -> u32 {
        let fields = if self.packets.iter().any(|packet| packet.second_field) { 2 } else { 1 };
        self.content.raster.lines() * fields
    }

    /// The packet time, if the stream is audio.
    #[must_use]
    pub fn packet_time(&self) -> Option<PacketTime> {
        if self.packets.iter().any(|packet| packet.starts) {
            return None;
        }
        // Most other streams can be excluded by their first packets.
        let head = &self.packets[..self.packets.len().min(HEAD)];
        PacketTime::samples(&triples(head))?;
        PacketTime::of(&triples(&self.packets))
    }

    /// Whether most sequence numbers increase by one, or stay, where a mirror port shows each packet twice.
    fn counts(&self) -> bool {
        let steps = |by: i64| {
            let is_step = |pair: &&[Packet]| pair[1].number == pair[0].number.saturating_add(by);
            self.packets.windows(2).filter(is_step).count()
        };
        let (next, again) = (steps(1), steps(0).min(self.packets.len() / 2));
        next > 0 && 2 * (next + again) >= self.packets.len() - 1
    }
}

/// Number, time stamp and arrival, sorted by number.
fn triples(packets: &[Packet]) -> Vec<(i64, i64, u64)> {
    let triple = |packet: &Packet| (packet.number, packet.timestamp, packet.at_ns);
    by_number(packets).iter().map(triple).collect()
}

/// Packets sorted by number, without duplicates: the first arrival stays.
#[must_use]
pub fn by_number(packets: &[Packet]) -> Vec<Packet> {
    let mut sorted = packets.to_vec();
    // Stable: of equal numbers, the first arrival stays in front.
    sorted.sort_by_key(|packet| packet.number);
    sorted.dedup_by_key(|packet| packet.number);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::probe::MIN_LEN;

    fn rtp(kind: u8, sequence: u16, timestamp: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = alloc::vec![0x80, kind];
        bytes.extend(sequence.to_be_bytes());
        bytes.extend(timestamp.to_be_bytes());
        bytes.extend([0, 0, 0, 7]);
        bytes.extend(payload);
        bytes
    }

    fn kind_of(packets: impl IntoIterator<Item = (Vec<u8>, usize)>) -> Kind {
        let mut flow = Flow::default();
        for (n, (bytes, len)) in packets.into_iter().enumerate() {
            flow.push(n as u64 * 1_000_000, &bytes, len);
        }
        flow.kind()
    }

    #[test]
    fn kinds_are_told_apart() {
        let sdi = [8, 0, 0, 0, 2, 1, 0x71, 0];
        let video = [0, 0, 4, 0xB0, 0, 1, 0, 0];
        let data = [0, 0, 0, 0, 0, 0, 0, 0];
        let timecode = [0, 0, 0, 0x20, 1, 0xC0, 0, 0];
        let each = |make: &dyn Fn(u16) -> (Vec<u8>, usize)| kind_of((0..100).map(make));
        assert_eq!(each(&|n| (rtp(98, n, 0, &sdi), 1_396)), Kind::St2022_6);
        assert_eq!(each(&|n| (rtp(98, n, 0, &sdi), 1_395)), Kind::Rtp);
        assert_eq!(each(&|n| (rtp(96, n, 0, &video), 1_220)), Kind::Video);
        assert_eq!(each(&|n| (rtp(100, n, 0, &data), 20)), Kind::Ancillary);
        assert_eq!(each(&|n| (rtp(100, n, 0, &timecode), 52)), Kind::Ancillary);
        assert_eq!(each(&|n| (rtp(97, n, 48 * u32::from(n), &[1]), 300)), Kind::Audio);
        // A voice call whose packets come as fast as those of audio at 48 kHz.
        assert_eq!(each(&|n| (rtp(0, n, 48 * u32::from(n), &[1]), 300)), Kind::Rtp);
        assert_eq!(each(&|n| (rtp(97, n, 90 * u32::from(n), &[1]), 300)), Kind::Rtp);
        assert_eq!(each(&|n| (rtp(97, n.wrapping_mul(9_973), 0, &[1]), 300)), Kind::Udp);
        assert_eq!(each(&|_| (alloc::vec![1; 40], 40)), Kind::Udp);
        assert_eq!(kind_of([(rtp(98, 1, 0, &sdi), 1_396)]), Kind::Udp);
    }

    #[test]
    fn probes_are_numbered_by_themselves() {
        let mut flow = Flow::default();
        for sequence in [5, 6, 8] {
            let mut payload = [0; MIN_LEN];
            payload[0] = 0x80;
            Probe { sequence, due_ns: 1, sent_ns: 2 }.write(&mut payload);
            flow.push(sequence * 1_000, &payload, 1_396);
        }
        assert_eq!(flow.kind(), Kind::Probe);
        let numbers: Vec<i64> = flow.packets().iter().map(|packet| packet.number).collect();
        assert_eq!(numbers, [5, 6, 8]);
    }

    #[test]
    fn a_flow_that_is_no_stream_keeps_all_packets() {
        let mut flow = Flow::default();
        flow.push(10, &rtp(96, 1, 0, &[]), 12);
        flow.push(5, b"other", 5);
        flow.push(20, b"other", 5);
        assert_eq!((flow.kind(), flow.len(), flow.others()), (Kind::Udp, 3, 0));
        let all: Vec<(u64, i64)> =
            flow.packets().iter().map(|packet| (packet.at_ns, packet.number)).collect();
        assert_eq!(all, [(5, 0), (10, 1), (20, 2)]);
    }
}
