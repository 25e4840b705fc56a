//! Errors of captures, each in one line that names the value and the remedy.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::input::MAX_ENTRY;
use super::interface::MAX_INTERFACES;

/// Why a capture cannot be opened, read on, or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The input has neither format's magic number.
    #[error("not a capture: {found}; wanted is a pcap or pcapng file")]
    NotACapture {
        /// The content found instead.
        found: String,
    },
    /// The input is compressed.
    #[error("compressed with {with}: decompress it first, for instance `{with} -dc FILE`")]
    Compressed {
        /// The program that decompresses it.
        with: &'static str,
    },
    /// The name of an output asks for a compression that is not written.
    #[error("{}: captures are compressed as .gz, .zst or .lz4 only: choose one of these, or none", path.display())]
    Ending {
        /// The name.
        path: PathBuf,
    },
    /// The file contradicts its format; everything before `offset` has been delivered.
    #[error("damaged at byte {offset}: {what}")]
    Damaged {
        /// Where the entry begins that cannot be read.
        offset: u64,
        /// The damage.
        what: Damage,
    },
    /// The operating system failed to read.
    #[error("cannot read at byte {offset}: {source}")]
    Read {
        /// How much had been read.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// The operating system failed to write.
    #[error("cannot write: {source}")]
    Write {
        /// The system's reason.
        #[from]
        source: io::Error,
    },
    /// pcap has one link type for the whole file.
    #[error(
        "pcap holds one link type, this capture has {first} and {other}: write pcapng, \
         or take the interfaces apart first"
    )]
    LinkTypes {
        /// Link type of the first interface.
        first: u16,
        /// The first one that differs.
        other: u16,
    },
    /// A packet too long to be read back.
    #[error("an entry of {length} bytes is too long to write: the limit is {MAX_ENTRY}")]
    TooLong {
        /// Bytes the entry would have.
        length: usize,
    },
    /// An option value that its 16-bit length field cannot hold.
    #[error("option {code} of {length} bytes is too long to write: the limit is 65535")]
    OptionTooLong {
        /// The option's code.
        code: u16,
        /// Bytes of its value.
        length: usize,
    },
    /// A record from a capture that the writer was not made for (a bug in the caller).
    #[error("a writer made for one capture was given a record that cannot be from it")]
    ForeignRecord,
    /// The place for the output cannot be opened or completed.
    #[error("cannot write {}: {source}", path.display())]
    Output {
        /// The output as the user named it.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The output would overwrite the input.
    #[error(
        "output {} is the same file as input {}: choose another name",
        output.display(),
        input.display()
    )]
    SameFile {
        /// The output as the user named it.
        output: PathBuf,
        /// The input as the user named it.
        input: PathBuf,
    },
}

impl CaptureError {
    /// Whether the input's content is to blame, not the system or the caller.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }
}

/// Damage of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Damage {
    /// The compressed data cannot be followed, or its checksum is wrong.
    #[error("compressed data is damaged or cut short")]
    Compressed,
    /// The file ends inside an entry's header.
    #[error("the next header needs {needed} bytes, only {left} left")]
    HeaderCut {
        /// Bytes of the header.
        needed: usize,
        /// Bytes that are present.
        left: usize,
    },
    /// The file ends inside an entry.
    #[error("record claims {claims} bytes, {left} are left")]
    Cut {
        /// Bytes according to the entry.
        claims: u64,
        /// Bytes that are present.
        left: usize,
    },
    /// An entry longer than is read here.
    #[error("record claims {claims} bytes, the limit is {MAX_ENTRY}")]
    TooLong {
        /// Bytes according to the entry.
        claims: u64,
    },
    /// A block length that is not a multiple of 4.
    #[error("block length {length} is not a multiple of 4")]
    Misaligned {
        /// The length.
        length: u32,
    },
    /// A block too short for its kind.
    #[error("block of type {code:#010x} has length {length}, it needs {needed}")]
    BlockTooShort {
        /// The block's type.
        code: u32,
        /// Its length.
        length: u32,
        /// The least length of such a block.
        needed: u32,
    },
    /// A block whose two length fields differ.
    #[error("block length is {head} before the block and {tail} after it")]
    LengthMismatch {
        /// The length field before the body.
        head: u32,
        /// The length field behind it.
        tail: u32,
    },
    /// A section header without a known byte order.
    #[error("section header has byte-order magic {magic:#010x}, known is 0x1a2b3c4d")]
    ByteOrder {
        /// The four bytes, most significant first.
        magic: u32,
    },
    /// A section in a version of pcapng that is not known.
    #[error("section has pcapng version {major}, known is 1")]
    Version {
        /// The major version.
        major: u16,
    },
    /// A packet on an interface that its section does not describe.
    #[error("packet is from interface {interface}, the section has {known}")]
    NoSuchInterface {
        /// The number in the packet's block.
        interface: u32,
        /// Interfaces described so far.
        known: usize,
    },
    /// More interfaces in a section than are kept.
    #[error("more than {MAX_INTERFACES} interfaces in one section")]
    TooManyInterfaces,
    /// A packet longer than the block it is in.
    #[error("packet claims {claims} captured bytes, its block holds {holds}")]
    PacketTooLong {
        /// Captured length according to the block.
        claims: u32,
        /// The room of the block.
        holds: usize,
    },
}
