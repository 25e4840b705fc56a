//! Reading pcapng: blocks, each framed by its length before and behind.
//!
//! Framing and the few fixed fields are read here and not by pcap-file's `PcapNgParser`: that
//! refuses whole files for what does not matter to a packet (a name that is not UTF-8, reserved
//! bits set, timestamps finer than a nanosecond) and keeps every interface's options.

use std::io::Read;

use super::input::Input;
use super::interface::{Interface, Interfaces};
use super::options;
use super::record::{Layout, Record, Shape};
use super::{CaptureError, Damage, Endianness};

/// Type and length before a block's body and length behind it.
const FRAME: usize = 12;
/// A section header without options.
const SECTION_FIXED: usize = 16;
/// An enhanced or obsolete packet block's fields.
const PACKET_FIXED: usize = 20;

/// Type and length of a block, and the byte order they are in.
#[derive(Debug, Clone, Copy)]
struct Frame {
    code: u32,
    length: u32,
    endianness: Endianness,
}

/// The section being read.
#[derive(Debug)]
pub(super) struct Section {
    endianness: Endianness,
    interfaces: Interfaces,
}

impl Section {
    /// Starts at the first section header, which stays to be read.
    pub(super) fn open<R: Read>(input: &mut Input<R>) -> Result<Self, CaptureError> {
        let frame = Frame::next(input, Endianness::default())?;
        let endianness = frame.map_or_else(Endianness::default, |frame| frame.endianness);
        Ok(Self { endianness, interfaces: Interfaces::default() })
    }

    pub(super) fn endianness(&self) -> Endianness {
        self.endianness
    }

    pub(super) fn interfaces(&self) -> &Interfaces {
        &self.interfaces
    }

    #[inline]
    pub(super) fn read<R: Read>(
        &mut self,
        input: &mut Input<R>,
        record: &mut Record,
    ) -> Result<bool, CaptureError> {
        let Some(frame) = Frame::next(input, self.endianness)? else {
            return Ok(false);
        };
        let length = frame.length as usize;
        if !input.fill_to(length as u64)? {
            return Err(input.shortfall(length as u64, 0));
        }
        let block = &input.bytes()[..length];
        let body = &block[8..length - 4];
        let layout = frame
            .check_tail(block)
            .and_then(|()| self.layout(frame, body))
            .map_err(|what| input.damage(what))?;
        record.fill_block(body, layout, frame.endianness);
        input.consume(length);
        Ok(true)
    }

    /// Finds the parts of a block; a section or interface becomes known by this.
    #[inline]
    fn layout(&mut self, frame: Frame, body: &[u8]) -> Result<Layout, Damage> {
        let shape = Shape::of_block(frame.code);
        match shape {
            Shape::Enhanced => {
                let interface = frame.field(body, 0)?;
                self.packet(frame, body, Layout { interface, shape, ..Layout::default() })
            }
            Shape::Obsolete => {
                let interface = frame.endianness.u16_at(body, 0).unwrap_or(0).into();
                self.packet(frame, body, Layout { interface, shape, ..Layout::default() })
            }
            Shape::Simple => self.simple(frame, body),
            Shape::Interface => {
                let layout = frame.with_options(shape, body, Interface::FIXED)?;
                let interface = Interface::parse(body, frame.endianness);
                interface.map_or(Ok(()), |interface| self.interfaces.add(interface))?;
                Ok(layout)
            }
            Shape::Section => self.section(frame, body),
            Shape::Other(_) | Shape::Pcap => Ok(Layout { shape, ..Layout::default() }),
        }
    }

    /// Enhanced and obsolete packets differ only in their interface field.
    #[inline]
    fn packet(&self, frame: Frame, body: &[u8], layout: Layout) -> Result<Layout, Damage> {
        frame.need(body, PACKET_FIXED)?;
        let interface = self.interfaces.get(layout.interface)?;
        let ticks = u64::from(frame.field(body, 4)?) << 32 | u64::from(frame.field(body, 8)?);
        let data_len = frame.field(body, 12)?;
        let room = body.len() - PACKET_FIXED;
        if data_len as usize > room {
            return Err(Damage::PacketTooLong { claims: data_len, holds: room });
        }
        // Blocks are whole words, so the padded packet ends within the body too.
        let options_start = PACKET_FIXED + (data_len as usize).next_multiple_of(4);
        let options_len = options::length(&body[options_start..], frame.endianness);
        Ok(Layout {
            ticks,
            timestamp_ns: interface.clock.timestamp_ns(ticks),
            data_start: PACKET_FIXED as u32,
            data_len,
            options_start: options_start as u32,
            options_len: options_len as u32,
            original_len: frame.field(body, 16)?,
            ..layout
        })
    }

    /// A simple packet's captured length is nowhere in it: the draft derives it from the snapshot
    /// length of the section's first interface.
    fn simple(&self, frame: Frame, body: &[u8]) -> Result<Layout, Damage> {
        frame.need(body, 4)?;
        let original_len = frame.field(body, 0)?;
        let data_len = match self.interfaces.get(0)?.snaplen {
            0 => original_len,
            snaplen => original_len.min(snaplen),
        };
        let holds = body.len() - 4;
        if data_len as usize > holds {
            return Err(Damage::PacketTooLong { claims: data_len, holds });
        }
        let shape = Shape::Simple;
        Ok(Layout { data_start: 4, data_len, original_len, shape, ..Layout::default() })
    }

    fn section(&mut self, frame: Frame, body: &[u8]) -> Result<Layout, Damage> {
        let layout = frame.with_options(Shape::Section, body, SECTION_FIXED)?;
        let major = frame.endianness.u16_at(body, 4).unwrap_or(0);
        if major != 1 {
            return Err(Damage::Version { major });
        }
        self.endianness = frame.endianness;
        self.interfaces.clear();
        Ok(layout)
    }
}

impl Frame {
    /// The frame of the next block; none at the end of the file. The block may be incomplete.
    #[inline]
    fn next<R: Read>(
        input: &mut Input<R>,
        endianness: Endianness,
    ) -> Result<Option<Self>, CaptureError> {
        if !input.fill_to(FRAME as u64)? {
            let left = input.bytes().len();
            let cut = Damage::HeaderCut { needed: FRAME, left };
            return if left == 0 { Ok(None) } else { Err(input.damage(cut)) };
        }
        let frame = Self::parse(input.bytes(), endianness).map_err(|what| input.damage(what))?;
        Ok(Some(frame))
    }

    /// Reads the first [`FRAME`] bytes of a block.
    #[inline]
    fn parse(bytes: &[u8], section: Endianness) -> Result<Self, Damage> {
        let field = |endianness: Endianness, at| {
            let cut = Damage::HeaderCut { needed: FRAME, left: bytes.len() };
            endianness.u32_at(bytes, at).ok_or(cut)
        };
        let code = field(section, 0)?;
        // The section header's type reads the same both ways: its body says which one it is.
        let endianness = match (Shape::of_block(code), field(Endianness::Big, 8)?) {
            (Shape::Section, 0x1a2b_3c4d) => Endianness::Big,
            (Shape::Section, 0x4d3c_2b1a) => Endianness::Little,
            (Shape::Section, magic) => return Err(Damage::ByteOrder { magic }),
            _ => section,
        };
        let length = field(endianness, 4)?;
        if length < FRAME as u32 {
            return Err(Damage::BlockTooShort { code, length, needed: FRAME as u32 });
        }
        if !length.is_multiple_of(4) {
            return Err(Damage::Misaligned { length });
        }
        Ok(Self { code, length, endianness })
    }

    /// The length behind the body must be the length before it.
    #[inline]
    fn check_tail(self, block: &[u8]) -> Result<(), Damage> {
        let tail = self.field(block, block.len() - 4)?;
        if tail == self.length {
            return Ok(());
        }
        Err(Damage::LengthMismatch { head: self.length, tail })
    }

    /// Refuses a body without room for its fixed fields.
    #[inline]
    fn need(self, body: &[u8], fixed: usize) -> Result<(), Damage> {
        if body.len() >= fixed {
            return Ok(());
        }
        Err(self.too_short(fixed))
    }

    #[inline]
    fn field(self, body: &[u8], at: usize) -> Result<u32, Damage> {
        self.endianness.u32_at(body, at).ok_or_else(|| self.too_short(at + 4))
    }

    fn too_short(self, fixed: usize) -> Damage {
        let needed = (FRAME + fixed) as u32;
        Damage::BlockTooShort { code: self.code, length: self.length, needed }
    }

    /// A block that has options behind `fixed` bytes.
    fn with_options(self, shape: Shape, body: &[u8], fixed: usize) -> Result<Layout, Damage> {
        self.need(body, fixed)?;
        Ok(Layout {
            shape,
            options_start: fixed as u32,
            options_len: options::length(&body[fixed..], self.endianness) as u32,
            ..Layout::default()
        })
    }
}
