//! A capture file as transmit port.

use crate::capture::{CaptureError, Format, OutputFile, PacketChange, Record, Source, Writer};
use linecard::offload::complete_checksum;
use linecard::packet::{Batch, ChecksumState, LinkType, Packet};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use linecard_tun::Counters;

/// The longest packet that readers based on libpcap accept.
const SNAPLEN: u32 = 262_144;

/// Writes transmitted packets as on a wire that carries large packets: merged ones whole, each as
/// one frame with its checksum.
///
/// ```no_run
/// use linecard::packet::LinkType;
/// use linecard_io::capture::{Format, OutputFile};
/// use linecard_io::port::CaptureSink;
/// use std::path::Path;
///
/// let file = OutputFile::create(Path::new("out.pcapng"), &[])?;
/// let sink = CaptureSink::new(file, Format::PcapNg, LinkType::Ethernet, 0)?;
/// // … a pipeline transmits to it, then:
/// let counters = sink.finish()?;
/// println!("{} packets", counters.transmitted);
/// # Ok::<(), linecard_io::capture::CaptureError>(())
/// ```
///
/// A packet is written with the time of its arrival
/// ([`Meta::timestamp`](linecard::packet::Meta::timestamp)), a merged one with that of its
/// transmission; times never go back.
///
/// A file has one link type: packets of others are dropped ([`Drops::other_link`]). So are all
/// packets after a write error ([`Drops::refused`]), which [`finish`](Self::finish) returns.
/// Nothing is ever received from it: it stays open until such an error ends it.
///
/// [`Drops::other_link`]: linecard_tun::Drops::other_link
/// [`Drops::refused`]: linecard_tun::Drops::refused
#[derive(Debug)]
pub struct CaptureSink {
    writer: Writer<OutputFile>,
    link: LinkType,
    zero_ns: u64,
    /// The time of the packet written last.
    last: Instant,
    counters: Counters,
    error: Option<CaptureError>,
}

impl CaptureSink {
    /// Starts a capture with nanosecond timestamps. `zero_ns` is the caller's time 0, in
    /// nanoseconds since 1970.
    ///
    /// # Errors
    ///
    /// If the start of the file cannot be written.
    pub fn new(
        file: OutputFile,
        format: Format,
        link: LinkType,
        zero_ns: u64,
    ) -> Result<Self, CaptureError> {
        let writer = Writer::new(file, format, Source::pcap(number(link), true, SNAPLEN))?;
        let (last, counters) = (Instant::ZERO, Counters::default());
        Ok(Self { writer, link, zero_ns, last, counters, error: None })
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The write error, if any.
    #[must_use]
    pub fn error(&self) -> Option<&CaptureError> {
        self.error.as_ref()
    }

    /// Writes buffered packets, so that they are not lost if the process is killed; of a compressed capture, those of
    /// which a block is complete.
    pub fn flush(&mut self) {
        if self.error.is_none() {
            self.error = self.writer.flush().err();
        }
    }

    /// Completes the file, which gets its name only then. A sink that is dropped leaves no file.
    ///
    /// # Errors
    ///
    /// The write error, earlier or now; there is no file then.
    pub fn finish(self) -> Result<Counters, CaptureError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.writer.finish()?.commit()?;
        Ok(self.counters)
    }

    /// The time to write: that of a packet's arrival, but not earlier than that of the packet
    /// before it; for merged packets and unknown arrivals, that of transmission.
    fn time<B: AsRef<[u8]>>(&mut self, packet: &Packet<B>, now: Instant) -> Instant {
        let arrived = packet.meta.timestamp;
        let is_known = !packet.is_merged() && arrived > Instant::ZERO && arrived <= now;
        let time = if is_known { arrived } else { now };
        self.last = self.last.max(time);
        self.last
    }

    fn write<B: AsRef<[u8]> + AsMut<[u8]>>(&mut self, packet: &mut Packet<B>, now: Instant) {
        let dropped = &mut self.counters.dropped;
        if packet.link() != self.link {
            dropped.other_link += 1;
            return;
        }
        if self.error.is_some() {
            dropped.refused += 1;
            return;
        }
        if packet.meta.checksum == ChecksumState::Partial {
            // Packets without a computable checksum stay unchanged.
            complete_checksum(packet);
        }
        let ticks = Some(self.zero_ns.saturating_add(self.time(packet, now).as_ns()));
        let change = PacketChange { ticks, ..PacketChange::default() };
        let like = Record::default();
        let (written, len) = if packet.is_merged() {
            let parts: Vec<&[u8]> =
                std::iter::once(packet.header()).chain(packet.payload()).collect();
            (self.writer.write_packet(&like, &parts, change), packet.datagram_len())
        } else {
            let bytes = packet.bytes();
            (self.writer.write_packet(&like, &[bytes], change), bytes.len())
        };
        match written {
            Ok(()) => self.counters.count_transmitted(len),
            Err(error) => {
                self.counters.dropped.refused += 1;
                self.error = Some(error);
            }
        }
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Port<B> for CaptureSink {
    fn receive(&mut self, _batch: &mut Batch<B>, _now: Instant) -> PortState {
        if self.error.is_some() { PortState::Ended } else { PortState::Open }
    }

    fn transmit(&mut self, batch: &mut Batch<B>, now: Instant) {
        batch.drain().for_each(|mut packet| self.write(&mut packet, now));
    }
}

/// The number of a link type in captures.
fn number(link: LinkType) -> u16 {
    match link {
        LinkType::Ethernet => 1,
        LinkType::Raw => 101,
        LinkType::Loopback => 0,
        LinkType::LinuxSll => 113,
        LinkType::LinuxSll2 => 276,
        // LINKTYPE_USER0, for private use, because the link type is unknown.
        LinkType::Other => 147,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_mean_the_same_to_who_reads_them() {
        use LinkType::{Ethernet, LinuxSll, LinuxSll2, Loopback, Other, Raw};
        for link in [Ethernet, Raw, Loopback, LinuxSll, LinuxSll2, Other] {
            assert_eq!(LinkType::from_capture(number(link).into()), link);
        }
    }
}
