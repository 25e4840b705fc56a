//! The content of an RTP flow, by the payload headers of its packets.
//!
//! RTP does not name a dynamic payload type; a session description does, but a capture has none. A flow carries what
//! every one of its packets can be.

use super::flow::Packet;
use super::rtp;
use super::st2022_6;
use super::st2110::anc;
use super::st2110::jxs::Codestreams;
use super::st2110::payload::{Ancillary, Video};
use super::st2110::raster::Raster;
use super::st2110::sound::{Widths, is_am824};

/// Payload types by agreement begin here (RFC 3551, section 6); those below are fixed, and most of them voice.
pub const DYNAMIC: u8 = 96;

/// The RTP payloads of a flow.
#[derive(Debug, Clone, Default)]
pub struct Content {
    packets: usize,
    /// Packets that could be each of these.
    pub(super) st2022_6: usize,
    pub(super) video: usize,
    pub(super) ancillary: usize,
    jxs: usize,
    am824: usize,
    /// The header of the first packet of ST 2022-6.
    pub(super) header: Option<st2022_6::Header>,
    /// The picture of ST 2110-20.
    pub raster: Raster,
    /// Codestreams of JPEG XS.
    pub codestreams: Codestreams,
    /// The ANC data packets of ST 2110-40.
    pub anc: anc::Counts,
    /// Width of the samples of sound.
    pub widths: Widths,
    /// Octets of the shortest payload, and of the longest.
    sizes: Option<(usize, usize)>,
    /// The time stamp of the last packet.
    stamp: Option<i64>,
}

impl Content {
    /// Takes the next packet, with the part of its payload of `len` octets that was captured, and notes where frames
    /// and fields begin.
    pub(super) fn push(&mut self, packet: &mut Packet, header: &rtp::Header, payload: &[u8]) {
        let (len, before) = (header.payload.len(), self.packets);
        self.packets += 1;
        let (least, most) = self.sizes.unwrap_or((len, len));
        self.sizes = Some((least.min(len), most.max(len)));
        if header.payload_type == st2022_6::PAYLOAD_TYPE {
            let found = st2022_6::Header::read(payload);
            let fits = found.filter(|found| found.len + st2022_6::MEDIA_OCTETS as usize == len);
            self.st2022_6 += usize::from(fits.is_some());
            self.header = self.header.or(fits);
        }
        if header.payload_type < DYNAMIC {
            return;
        }
        // Packets behind one that was something else do not need to be read. Of two contents that a packet could have,
        // the one with more conditions sets its fields last.
        if self.jxs == before {
            self.push_jxs(packet, payload);
        }
        if self.video == before {
            self.push_video(packet, payload, len);
        }
        if self.ancillary == before {
            self.push_ancillary(packet, payload, len);
        }
        self.am824 += usize::from(self.am824 == before && is_am824(payload, len));
        let samples = self.stamp.replace(packet.timestamp).map(|stamp| packet.timestamp - stamp);
        let samples = samples.and_then(|samples| usize::try_from(samples).ok());
        // A payload whose end was not captured has another number of octets per sample.
        if let Some(samples) = samples.filter(|_| payload.len() == len) {
            self.widths.push(payload, samples);
        }
    }

    fn push_video(&mut self, packet: &mut Packet, payload: &[u8], len: usize) {
        let Some(video) = Video::read(payload, len) else { return };
        self.video += 1;
        self.raster.push(packet.number, &video);
        let first = video.first();
        packet.second_field = first.second_field;
        packet.starts = !first.second_field && first.line == 0 && first.offset == 0;
    }

    fn push_ancillary(&mut self, packet: &mut Packet, payload: &[u8], len: usize) {
        let Some(ancillary) = Ancillary::read(payload, len) else { return };
        self.ancillary += 1;
        self.anc.push(payload, len, ancillary.count);
        packet.second_field = ancillary.field == 3;
    }

    fn push_jxs(&mut self, packet: &mut Packet, payload: &[u8]) {
        let place = (packet.number, packet.timestamp);
        let Some(header) = self.codestreams.push(place, payload) else { return };
        self.jxs += 1;
        packet.second_field = header.field == 3;
        packet.starts = header.starts() && !packet.second_field;
    }

    /// Whether all packets are JPEG XS.
    pub(super) fn is_jxs(&self) -> bool {
        self.jxs == self.packets && self.codestreams.begun > 0
    }

    /// Whether all packets are AM824.
    pub(super) fn is_am824(&self) -> bool {
        self.am824 == self.packets
    }

    /// Octets of RTP payload of the shortest and of the longest packet.
    #[must_use]
    pub fn sizes(&self) -> Option<(usize, usize)> {
        self.sizes
    }
}
