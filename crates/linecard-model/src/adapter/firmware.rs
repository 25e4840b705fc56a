//! The firmware (`firmware/adapter.c`) on its core: headers of packets, and the treatment of received frames.

use super::{AdapterError, FirmwareEnd};
use crate::rv32::{self, Bus, Core, Image, Reply, Stop, Wake, Width};
use alloc::vec;
use alloc::vec::Vec;
use linecard::packet::checksum::Sum;
use linecard::packet::{Form, LayerKind, Layout, LinkType, MAX_HEADER_LEN};

const IMAGE: &[u8] = include_bytes!("../../../../firmware/images/adapter.bin");
/// More than the firmware takes for the longest message: some 300 headers.
const MAX_CYCLES: u64 = 1_000_000;
/// Bytes before a header, so that the IP header is aligned.
const BEFORE: usize = 2;

/// Where the firmware has the IP header.
const IP_AT: usize = 16;

/// A message being sent: its headers, and the division of its payload.
#[derive(Debug, Clone)]
pub(super) struct Message {
    /// Each with the cycles that it took.
    headers: Vec<(Vec<u8>, u64)>,
    checksum_at: usize,
    /// Bytes of payload in total, and per packet.
    payload: usize,
    size: usize,
}

/// The firmware's answers to a received frame.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// Each answer: the sequence number of payload to deliver, or none. There should be one.
    pub(super) answers: Vec<Option<u32>>,
    pub(super) cycles: u64,
}

/// The adapter's own.
pub(super) fn image() -> Image {
    Image::flat(IMAGE)
}

/// The layout of a frame, if it is plain TCP over IPv4.
pub(super) fn plain(bytes: &[u8]) -> Option<Layout> {
    let layout = Layout::parse(LinkType::Ethernet, bytes);
    let kinds = layout.layers().map(|layer| layer.kind);
    let is_plain = layout.form() == Form::Datagram && kinds.eq([LayerKind::Ipv4, LayerKind::Tcp]);
    is_plain.then_some(layout)
}

impl Message {
    /// Has the firmware build the headers of a message, if it is plain TCP over IPv4.
    pub(super) fn take(index: usize, bytes: &[u8], mtu: usize) -> Result<Self, AdapterError> {
        let (layout, size) = dividable(bytes, mtu).ok_or(AdapterError::Message(index))?;
        let (header_len, payload) = (layout.header_len(), layout.payload().len());
        let work = [1, (header_len + BEFORE) as u32, payload as u32, size as u32, 0];
        let unit = Unit::run(&image(), &bytes[..header_len], work)
            .map_err(|end| AdapterError::Firmware { index, end })?;
        Ok(Self {
            headers: unit.headers,
            checksum_at: layout.checksum_offset().unwrap_or_default(),
            payload,
            size,
        })
    }

    pub(super) fn header_len(&self) -> usize {
        self.headers.first().map_or(0, |(header, _)| header.len())
    }

    /// Number of packets: one if the data fits.
    pub(super) fn packets(&self) -> usize {
        self.headers.len()
    }

    /// Offset of a packet's payload in the message, and its length.
    pub(super) fn part(&self, index: usize) -> (usize, usize) {
        let start = index * self.size;
        (start, self.size.min(self.payload - start))
    }

    /// Offset of the checksum that the device has to complete.
    pub(super) fn checksum_at(&self) -> usize {
        self.checksum_at
    }

    /// The header of a packet, and the cycles that it took. Its checksum field holds the sum of pseudo header and header,
    /// to which the device adds the payload.
    pub(super) fn header(&self, index: usize) -> (&[u8], u64) {
        self.headers.get(index).map_or((&[], 0), |(header, cycles)| (header, *cycles))
    }
}

/// The layout of a message that can be sent, and the most payload of a packet.
fn dividable(bytes: &[u8], mtu: usize) -> Option<(Layout, usize)> {
    let layout = plain(bytes)?;
    let network = layout.network().filter(|network| network.at() + BEFORE == IP_AT)?;
    let size = mtu.checked_sub(layout.header_len() - network.at()).filter(|&size| size > 0)?;
    Some((layout, size))
}

/// Has the firmware look at the header of a received frame, beside the device's sum of its payload.
pub(super) fn receive(
    image: &Image,
    header: &[u8],
    payload: &[u8],
) -> Result<Received, FirmwareEnd> {
    let sum = Sum::of(payload).fold();
    let work = [2, (header.len() + BEFORE) as u32, payload.len() as u32, 0, sum.into()];
    Ok(Unit::run(image, header, work)?.received)
}

/// The surroundings of the core: registers, the header that came, and the slot for the next one.
struct Unit {
    header: Vec<u8>,
    slot: Vec<u8>,
    /// Kind, end of the header, payload, most of a packet, sum of the payload.
    work: [u32; 5],
    is_new: bool,
    since: u64,
    headers: Vec<(Vec<u8>, u64)>,
    received: Received,
}

impl Unit {
    /// Until the firmware waits for more, or why it does not.
    fn run(image: &Image, header: &[u8], work: [u32; 5]) -> Result<Self, FirmwareEnd> {
        let mut words = vec![0; BEFORE];
        words.extend_from_slice(header);
        let mut unit = Self {
            header: words,
            slot: vec![0; BEFORE + MAX_HEADER_LEN],
            work,
            is_new: true,
            since: 0,
            headers: Vec::new(),
            received: Received::default(),
        };
        let mut core = Core::new(image, rv32::Config::default())?;
        match core.run(&mut unit, MAX_CYCLES)? {
            Stop::Blocked => Ok(unit),
            stop => Err(FirmwareEnd::Stop { stop, pc: core.pc(), cycle: core.cycle() }),
        }
    }

    fn cycles(&mut self, now: u64) -> u64 {
        now - core::mem::replace(&mut self.since, now)
    }
}

impl Bus for Unit {
    fn load(&mut self, _: u64, address: u32, width: Width) -> Reply {
        let at = (address & 0xffff) as usize;
        let value = match address {
            0x1000_0000..0x1001_0000 => number(&self.header, at, width),
            0x2000_0000..0x2001_0000 => number(&self.slot, at, width),
            0x3000_0000..0x3000_0014 => self.work.get(at / 4).copied(),
            _ => None,
        };
        value.map_or(Reply::Refused, |value| Reply::Done { value, stall: 0 })
    }

    fn store(&mut self, now: u64, address: u32, width: Width, value: u32) -> Reply {
        let at = (address & 0xffff) as usize;
        match address {
            0x2000_0000..0x2001_0000 => {
                let bytes = width.bytes() as usize;
                let Some(slot) = self.slot.get_mut(at..at + bytes) else { return Reply::Refused };
                slot.copy_from_slice(&value.to_be_bytes()[4 - bytes..]);
            }
            0x3000_0014 => {
                let cycles = self.cycles(now);
                self.headers.push((self.slot[BEFORE..self.header.len()].to_vec(), cycles));
            }
            0x3000_0018 | 0x3000_001c => {
                self.received.answers.push((address == 0x3000_0018).then_some(value));
                self.received.cycles += self.cycles(now);
            }
            _ => return Reply::Refused,
        }
        Reply::Done { value: 0, stall: 0 }
    }

    fn wait(&mut self, cycle: u64) -> Wake {
        match core::mem::take(&mut self.is_new) {
            true => {
                self.since = cycle + 1;
                Wake::At { cycle: self.since, vector: None }
            }
            false => Wake::Blocked,
        }
    }
}

/// A number of a header, in the network's byte order.
fn number(header: &[u8], at: usize, width: Width) -> Option<u32> {
    let bytes = header.get(at..at + width.bytes() as usize)?;
    Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
}
