//! Two memories behind one address range.

use alloc::vec;
use alloc::vec::Vec;

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its first address.
    pub base: u64,
    /// Its bytes.
    pub len: u64,
}

impl Window {
    /// The offset in the window of an access that lies completely inside.
    fn offset(self, address: u64, len: u64) -> Option<u64> {
        let offset = address.checked_sub(self.base)?;
        (offset.checked_add(len)? <= self.len).then_some(offset)
    }
}

/// The target of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Host memory.
    Host,
    /// The adapter's embedded memory.
    Embedded,
}

/// An access that lies completely in neither window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "an access of {len} bytes at {address:#x} lies in no window: check the descriptors given to \
     the device"
)]
pub struct Fault {
    /// Its address.
    pub address: u64,
    /// Its bytes.
    pub len: u64,
}

/// The address decoder of the bridge in front of the device (claim 10 of the application).
///
/// ```
/// use linecard_model::adapter::{AddressMap, Side, Window};
/// let map = AddressMap {
///     host: Window { base: 0, len: 0x1000 },
///     embedded: Window { base: 0x8000, len: 0x100 },
/// };
/// assert_eq!(map.decode(0x8010, 16), Ok((Side::Embedded, 0x10)));
/// assert!(map.decode(0xFF8, 16).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressMap {
    /// The window to host memory.
    pub host: Window,
    /// The window to embedded memory.
    pub embedded: Window,
}

impl AddressMap {
    /// The target of an access, and its offset there.
    ///
    /// # Errors
    /// If it lies completely in neither window.
    pub fn decode(&self, address: u64, len: u64) -> Result<(Side, u64), Fault> {
        let host = self.host.offset(address, len).map(|offset| (Side::Host, offset));
        let embedded = || self.embedded.offset(address, len).map(|offset| (Side::Embedded, offset));
        host.or_else(embedded).ok_or(Fault { address, len })
    }
}

/// Both memories, and counters of accesses.
#[derive(Debug)]
pub(super) struct Memories {
    pub(super) map: AddressMap,
    host: Vec<u8>,
    embedded: Vec<u8>,
    pub(super) host_bytes: u64,
    pub(super) embedded_bytes: u64,
    pub(super) faults: u64,
}

impl Memories {
    pub(super) fn new(host: Vec<u8>, host_window: u64, embedded_len: usize) -> Self {
        let host_window = Window { base: 0, len: host_window.min(host.len() as u64) };
        // Far above any host window.
        let embedded = Window { base: 1 << 48, len: embedded_len as u64 };
        Self {
            map: AddressMap { host: host_window, embedded },
            host,
            embedded: vec![0; embedded_len],
            host_bytes: 0,
            embedded_bytes: 0,
            faults: 0,
        }
    }

    /// Reads through the windows; a fault is counted.
    pub(super) fn read(&mut self, address: u64, len: usize) -> Result<(Side, &[u8]), Fault> {
        let (side, offset) =
            self.map.decode(address, len as u64).inspect_err(|_| self.faults += 1)?;
        let (memory, moved) = match side {
            Side::Host => (&self.host, &mut self.host_bytes),
            Side::Embedded => (&self.embedded, &mut self.embedded_bytes),
        };
        *moved += len as u64;
        Ok((side, &memory[offset as usize..][..len]))
    }

    /// The firmware or the DMA engine writes to embedded memory, at an address of its own choosing.
    pub(super) fn write_embedded(&mut self, offset: usize, bytes: &[u8]) {
        self.embedded[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.embedded_bytes += bytes.len() as u64;
    }

    /// The DMA engine copies host memory to embedded memory.
    pub(super) fn copy_in(&mut self, from: u64, offset: usize, len: usize) -> Result<(), Fault> {
        let (_, bytes) = self.read(from, len)?;
        let bytes = bytes.to_vec();
        self.write_embedded(offset, &bytes);
        Ok(())
    }
}
