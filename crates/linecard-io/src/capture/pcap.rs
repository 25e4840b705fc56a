//! Reading pcap: a header of 24 bytes, then packets.

use std::io::Read;

use super::input::Input;
use super::interface::Clock;
use super::record::{PcapHead, Record};
use super::source::{PcapHeader, Source};
use super::{CaptureError, Damage, Endianness, Format};

/// Bytes before each packet.
const HEAD: usize = 16;

/// The order of the two length fields in a packet's header: original length first before version
/// 2.3, either way in 2.3 itself (libpcap's `sf-pcap.c` decides the same way).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lengths {
    CapturedFirst,
    OriginalFirst,
    SmallerIsCaptured,
}

/// A pcap file behind its header.
#[derive(Debug)]
pub(super) struct Pcap {
    header: PcapHeader,
    endianness: Endianness,
    clock: Clock,
    lengths: Lengths,
}

impl Pcap {
    pub(super) fn open<R: Read>(
        input: &mut Input<R>,
        endianness: Endianness,
        nanoseconds: bool,
    ) -> Result<Self, CaptureError> {
        let needed = PcapHeader::LENGTH;
        input.fill_to(needed as u64)?;
        let left = input.bytes().len();
        let cut = || input.damage(Damage::HeaderCut { needed, left });
        let header = PcapHeader(*input.bytes().first_chunk().ok_or_else(cut)?);
        let lengths = match header.version(endianness) {
            (2, 0..=2) => Lengths::OriginalFirst,
            (2, 3) => Lengths::SmallerIsCaptured,
            _ => Lengths::CapturedFirst,
        };
        input.consume(needed);
        let clock = if nanoseconds { Clock::NANOSECONDS } else { Clock::MICROSECONDS };
        Ok(Self { header, endianness, clock, lengths })
    }

    pub(super) fn source(&self) -> Source {
        Source {
            format: Format::Pcap,
            endianness: self.endianness,
            header: self.header,
            sizes_change: false,
        }
    }

    pub(super) fn link_type(&self) -> u16 {
        self.header.link_type(self.endianness)
    }

    pub(super) fn endianness(&self) -> Endianness {
        self.endianness
    }

    #[inline]
    pub(super) fn read<R: Read>(
        &self,
        input: &mut Input<R>,
        record: &mut Record,
    ) -> Result<bool, CaptureError> {
        loop {
            let claims = match self.packet(input.bytes()) {
                Ok((head, data)) => {
                    record.fill_pcap(head, data, self.clock, self.endianness);
                    let used = HEAD + data.len();
                    input.consume(used);
                    return Ok(true);
                }
                Err(claims) => claims,
            };
            let wanted = HEAD as u64 + u64::from(claims.unwrap_or(0));
            if !input.fill_to(wanted)? {
                return match (claims, input.bytes().len()) {
                    (Some(claims), _) => Err(input.shortfall(claims.into(), HEAD)),
                    (None, 0) => Ok(false),
                    (None, left) => Err(input.damage(Damage::HeaderCut { needed: HEAD, left })),
                };
            }
        }
    }

    /// Whether `bytes` start with a whole packet.
    pub(super) fn holds_packet(&self, bytes: &[u8]) -> bool {
        self.packet(bytes).is_ok()
    }

    /// The packet at the start of `bytes`, or the length that it claims to have, if that can be read.
    #[inline]
    fn packet<'a>(&self, bytes: &'a [u8]) -> Result<(PcapHead, &'a [u8]), Option<u32>> {
        let field = |at| self.endianness.u32_at(bytes, at).ok_or(None);
        let (first, second) = (field(8)?, field(12)?);
        let swapped = match self.lengths {
            Lengths::CapturedFirst => false,
            Lengths::OriginalFirst => true,
            Lengths::SmallerIsCaptured => first > second,
        };
        let (captured, original_len) = if swapped { (second, first) } else { (first, second) };
        let data = bytes[HEAD..].get(..captured as usize).ok_or(Some(captured))?;
        let head = PcapHead { seconds: field(0)?, fraction: field(4)?, original_len, swapped };
        Ok((head, data))
    }
}
