//! Turns the first fragment into the first part of its complete datagram.

use super::ecn::Ecn;
use super::fragment::{FRAGMENT_HEADER, Fragment, HEAD};
use super::reason::GiveUp;
use crate::offload::set_lengths;
use crate::packet::header::{self, IPV4_MF, IPV4_OFFSET, Ipv4, be16_at};
use crate::packet::{Layout, LinkType, MAX_HEADER_LEN, Packet};
use alloc::boxed::Box;
use alloc::vec;

/// The longest frame: a complete IPv6 datagram and the headers before it.
const MAX_FRAME: usize = MAX_HEADER_LEN + 65_535 + 40;

/// Builds the headers of complete datagrams.
///
/// Headers are built and parsed in a scratch area as long as any datagram, with the datagram's
/// first bytes at the front and zeros after them. The parser finds there what it would find in a
/// contiguous datagram, and the fragments stay unchanged until it succeeds. Cost: [`HEAD`] bytes
/// copied per datagram, whatever its size; no payload is moved.
#[derive(Debug)]
pub(super) struct Builder {
    link: LinkType,
    area: Box<[u8]>,
}

impl Builder {
    pub(super) fn new(link: LinkType) -> Self {
        Self { link, area: vec![0; MAX_FRAME].into_boxed_slice() }
    }

    /// Copies the first bytes of a datagram into the area: what comes before its data, without the
    /// fragment header, then its data in order.
    pub(super) fn fill<'d>(&mut self, header: &[u8], data: impl Iterator<Item = &'d [u8]>) {
        let (area, mut rest) = self.area[..HEAD].split_at_mut(header.len());
        area.copy_from_slice(header);
        for part in data {
            let (front, behind) = rest.split_at_mut(part.len().min(rest.len()));
            front.copy_from_slice(&part[..front.len()]);
            rest = behind;
        }
        rest.fill(0);
    }

    /// Turns `first` into the first part of a datagram with `data` bytes after the IP header, whose
    /// first bytes are in the area.
    pub(super) fn complete<B: AsRef<[u8]> + AsMut<[u8]>>(
        &mut self,
        first: &mut Packet<B>,
        fragment: &Fragment,
        data: usize,
        ecn: Ecn,
    ) -> Result<(), GiveUp> {
        let layout = *first.layout();
        if fragment.exceeds(&layout, data) {
            return Err(GiveUp::TooLong);
        }
        let header_end = fragment.header_end;
        let header = &mut self.area[..header_end];
        if fragment.v6 {
            // RFC 8200, section 4.5: the fragment header is removed, and its next header value
            // moves to the last header before it.
            header[fragment.type_field] = first.bytes()[header_end];
        } else {
            let at = fragment.network + Ipv4::FLAGS_FRAGMENT;
            header::set_be16(header, at, be16_at(header, at) & !(IPV4_MF | IPV4_OFFSET));
        }
        ecn.mark(header, &layout);
        set_lengths(header, &layout, header_end - layout.header_len() + data);
        let whole = Layout::parse(self.link, &self.area[..header_end + data]);
        let end = header_end + fragment.len;
        // Headers after the transport header, those of a tunnel, may extend into other fragments.
        if whole.header_len() > end {
            return Err(GiveUp::HeaderChain);
        }
        if fragment.v6 {
            first.cut_out(header_end..fragment.start);
        }
        first.bytes_mut()[..header_end].copy_from_slice(&self.area[..header_end]);
        first.set_layout(whole.ending_at(end));
        Ok(())
    }
}

const _: () = assert!(FRAGMENT_HEADER == 8 && HEAD <= MAX_FRAME);
