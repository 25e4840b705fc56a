//! The Ethernet device: fetches a frame by its fragments and completes the checksum.

use super::memory::{Fault, Memories, Side};
use alloc::vec::Vec;
use linecard::packet::checksum::Sum;

/// A part of a frame that the device fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Its address, in one of the windows.
    pub address: u64,
    /// Its bytes.
    pub len: usize,
}

/// The description of a frame for the device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Descriptor {
    pub(super) header: Fragment,
    pub(super) payload: Fragment,
    /// Offset in the frame of the header checksum to which the payload's sum is added.
    pub(super) checksum_at: usize,
}

/// Bytes fetched from each side.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fetched {
    pub(super) host: u64,
    pub(super) embedded: u64,
    pub(super) embedded_payload: u64,
}

/// Fetches a frame: returns its bytes, and the number from each side.
pub(super) fn fetch(
    memories: &mut Memories,
    descriptor: &Descriptor,
) -> Result<(Vec<u8>, Fetched), Fault> {
    let mut frame = Vec::with_capacity(descriptor.header.len + descriptor.payload.len);
    let mut fetched = Fetched::default();
    for (fragment, is_payload) in [(descriptor.header, false), (descriptor.payload, true)] {
        if fragment.len == 0 {
            continue;
        }
        let (side, bytes) = memories.read(fragment.address, fragment.len)?;
        frame.extend_from_slice(bytes);
        match side {
            Side::Host => fetched.host += fragment.len as u64,
            Side::Embedded => {
                fetched.embedded += fragment.len as u64;
                fetched.embedded_payload += if is_payload { fragment.len as u64 } else { 0 };
            }
        }
    }
    complete(&mut frame, descriptor);
    Ok((frame, fetched))
}

/// Adds the payload to the sum in the checksum field, and stores the checksum there.
fn complete(frame: &mut [u8], descriptor: &Descriptor) {
    let payload = Sum::of(&frame[descriptor.header.len..]);
    let field = &mut frame[descriptor.checksum_at..][..2];
    let sum = Sum::word(u16::from_be_bytes([field[0], field[1]])).plus(payload);
    field.copy_from_slice(&sum.checksum().to_be_bytes());
}
