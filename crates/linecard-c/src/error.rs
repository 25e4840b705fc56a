//! Error codes and their texts.

use linecard::offload::burst::{CutError, OutsideBuffer};
use linecard::offload::segment::SegmentError;
use linecard::offload::virtio::FieldError;
use std::ffi::CStr;

/// No error.
pub const LINECARD_OK: i32 = 0;
/// A pointer is NULL, or not aligned.
pub const LINECARD_E_NULL: i32 = -1;
/// A number is not an allowed value.
pub const LINECARD_E_INVALID: i32 = -2;
/// A struct is larger than this library's, and sets a field that this library does not know.
pub const LINECARD_E_VERSION: i32 = -3;
/// A buffer or an array of the caller is too small.
pub const LINECARD_E_NO_ROOM: i32 = -4;
/// Not a complete TCP or UDP datagram.
pub const LINECARD_E_NOT_A_DATAGRAM: i32 = -5;
/// More than 320 bytes of headers.
pub const LINECARD_E_HEADER_TOO_LONG: i32 = -6;
/// The size of segments is 0.
pub const LINECARD_E_ZERO_SIZE: i32 = -7;
/// A segment would exceed one of its length fields: 65,535 bytes of an IPv4 or UDP datagram, or
/// after an IPv6 header. Choose a smaller `gso.size`.
pub const LINECARD_E_SEGMENT_TOO_LONG: i32 = -8;
/// The virtio header's flags contradict each other or the frame.
pub const LINECARD_E_VIRTIO_FLAGS: i32 = -20;
/// The virtio header's gso_type is unknown, or does not match the frame.
pub const LINECARD_E_VIRTIO_GSO_TYPE: i32 = -21;
/// The virtio header's gso_size does not divide the frame.
pub const LINECARD_E_VIRTIO_GSO_SIZE: i32 = -22;
/// The virtio header's hdr_len exceeds the frame.
pub const LINECARD_E_VIRTIO_HDR_LEN: i32 = -23;
/// The virtio header's csum_start is not where the transport header starts.
pub const LINECARD_E_VIRTIO_CSUM_START: i32 = -24;
/// The virtio header's csum_offset is not where the transport header has its checksum.
pub const LINECARD_E_VIRTIO_CSUM_OFFSET: i32 = -25;
/// The virtio header's outer_th_offset is not where the tunnel's UDP header starts.
pub const LINECARD_E_VIRTIO_OUTER_TH_OFFSET: i32 = -26;
/// The virtio header's inner_nh_offset is not where the IP header in the tunnel starts.
pub const LINECARD_E_VIRTIO_INNER_NH_OFFSET: i32 = -27;
/// A bug in this library, or a handle that is used twice at once, or in which a bug has occurred:
/// it can only be freed.
pub const LINECARD_E_BROKEN: i32 = -99;

/// Why a call had no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Error {
    Null = LINECARD_E_NULL,
    Invalid = LINECARD_E_INVALID,
    Version = LINECARD_E_VERSION,
    NoRoom = LINECARD_E_NO_ROOM,
    NotADatagram = LINECARD_E_NOT_A_DATAGRAM,
    HeaderTooLong = LINECARD_E_HEADER_TOO_LONG,
    ZeroSize = LINECARD_E_ZERO_SIZE,
    SegmentTooLong = LINECARD_E_SEGMENT_TOO_LONG,
    Flags = LINECARD_E_VIRTIO_FLAGS,
    GsoType = LINECARD_E_VIRTIO_GSO_TYPE,
    GsoSize = LINECARD_E_VIRTIO_GSO_SIZE,
    HdrLen = LINECARD_E_VIRTIO_HDR_LEN,
    CsumStart = LINECARD_E_VIRTIO_CSUM_START,
    CsumOffset = LINECARD_E_VIRTIO_CSUM_OFFSET,
    OuterThOffset = LINECARD_E_VIRTIO_OUTER_TH_OFFSET,
    InnerNhOffset = LINECARD_E_VIRTIO_INNER_NH_OFFSET,
    Broken = LINECARD_E_BROKEN,
}

/// Describes an error code.
pub(crate) fn text(code: i32) -> &'static CStr {
    match code {
        LINECARD_OK => c"no error",
        LINECARD_E_NULL => c"a pointer is NULL or not aligned",
        LINECARD_E_INVALID => c"an argument is out of its range",
        LINECARD_E_VERSION => c"a struct of a newer version asks for something unknown",
        LINECARD_E_NO_ROOM => c"a buffer or an array is too small",
        LINECARD_E_NOT_A_DATAGRAM => c"not a whole TCP or UDP datagram",
        LINECARD_E_HEADER_TOO_LONG => c"more header bytes than are kept for one packet",
        LINECARD_E_ZERO_SIZE => c"the size of segments is 0",
        LINECARD_E_SEGMENT_TOO_LONG => {
            c"a segment exceeds 65535, the limit of its 16-bit length field"
        }
        LINECARD_E_VIRTIO_FLAGS => c"virtio header: flags contradict each other or the frame",
        LINECARD_E_VIRTIO_GSO_TYPE => {
            c"virtio header: gso_type is unknown or not what the frame is"
        }
        LINECARD_E_VIRTIO_GSO_SIZE => c"virtio header: gso_size does not divide the frame",
        LINECARD_E_VIRTIO_HDR_LEN => c"virtio header: hdr_len is more than the frame",
        LINECARD_E_VIRTIO_CSUM_START => {
            c"virtio header: csum_start is not where the transport header starts"
        }
        LINECARD_E_VIRTIO_CSUM_OFFSET => c"virtio header: csum_offset is not where the checksum is",
        LINECARD_E_VIRTIO_OUTER_TH_OFFSET => {
            c"virtio header: outer_th_offset is not where the tunnel's UDP header starts"
        }
        LINECARD_E_VIRTIO_INNER_NH_OFFSET => {
            c"virtio header: inner_nh_offset is not where the inner IP header starts"
        }
        LINECARD_E_BROKEN => c"a bug of this library: the handle can only be freed",
        _ => c"unknown error",
    }
}

impl From<SegmentError> for Error {
    fn from(error: SegmentError) -> Self {
        match error {
            SegmentError::ZeroSize => Self::ZeroSize,
            SegmentError::HeaderTooLong { .. } => Self::HeaderTooLong,
            SegmentError::LengthField { .. } => Self::SegmentTooLong,
            SegmentError::OutputTooSmall { .. } => Self::NoRoom,
            // The other errors are about fragments, which this crate does not make.
            _ => Self::NotADatagram,
        }
    }
}

impl From<CutError> for Error {
    fn from(error: CutError) -> Self {
        match error {
            CutError::Header(error) => error.into(),
            CutError::Segment(error) => error.into(),
            // Errors of later versions of the crate get codes then.
            _ => Self::Invalid,
        }
    }
}

impl From<OutsideBuffer> for Error {
    fn from(_: OutsideBuffer) -> Self {
        Self::Invalid
    }
}

impl From<FieldError> for Error {
    fn from(error: FieldError) -> Self {
        match error {
            FieldError::Flags(_) => Self::Flags,
            FieldError::GsoType { .. } => Self::GsoType,
            FieldError::GsoSize(_) => Self::GsoSize,
            FieldError::HdrLen(_) => Self::HdrLen,
            FieldError::CsumStart(_) => Self::CsumStart,
            FieldError::CsumOffset(_) => Self::CsumOffset,
            FieldError::OuterThOffset(_) => Self::OuterThOffset,
            FieldError::InnerNhOffset(_) => Self::InnerNhOffset,
            // Errors of later versions of the crate get codes then.
            _ => Self::Invalid,
        }
    }
}
