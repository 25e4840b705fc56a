//! Overhead of Ethernet and TCP/IP (figures 6 and 7 of the paper).

/// Bytes of a frame that are not data: Ethernet header 14, IP 20, TCP 20, CRC 4.
pub const FRAME_OVERHEAD: u32 = 58;
/// Bytes on the wire beside the frame: preamble 8, gap 12.
pub const WIRE_OVERHEAD: u32 = 20;

/// The share of the wire that carries data, 0 … 1, in frames of `frame` bytes (64 … 1518).
///
/// ```
/// use linecard_model::pci::efficiency;
/// assert_eq!(format!("{:.4}", efficiency(1518)), "0.9493");
/// ```
#[must_use]
pub fn efficiency(frame: u32) -> f64 {
    f64::from(frame.saturating_sub(FRAME_OVERHEAD)) / f64::from(frame.saturating_add(WIRE_OVERHEAD))
}

/// How many full frames a file fills, and the rest for a last one, in bytes of data.
///
/// ```
/// assert_eq!(linecard_model::pci::file_frames(100_000), (68, 720));
/// ```
#[must_use]
pub const fn file_frames(file_bytes: u32) -> (u32, u32) {
    (file_bytes / FULL_PAYLOAD, file_bytes % FULL_PAYLOAD)
}

/// Data in a frame of 1518 bytes.
pub(super) const FULL_PAYLOAD: u32 = 1518 - FRAME_OVERHEAD;
