//! Assigns flows to workers.

use linecard::packet::{Packet, RSS_KEY_LEN, Toeplitz};

/// Entries of the indirection table, as in most hardware.
const ENTRIES: usize = 128;

/// Steers packets as hardware does: the low seven bits of the Toeplitz hash select an entry of a
/// table, which names the worker.
#[derive(Debug, Clone)]
pub struct Steering {
    toeplitz: Toeplitz,
    table: [u16; ENTRIES],
}

impl Steering {
    /// Distributes flows evenly over `workers` (1 to 65,535) with this key: [`Toeplitz::SYMMETRIC`]
    /// keeps both directions of a connection on one worker.
    #[must_use]
    pub fn new(workers: u16, key: &[u8; RSS_KEY_LEN]) -> Self {
        let workers = usize::from(workers.max(1));
        // There are fewer than 2¹⁶ workers.
        let table = core::array::from_fn(|entry| (entry % workers) as u16);
        Self { toeplitz: Toeplitz::new(key), table }
    }

    /// The worker of a packet.
    #[must_use]
    pub fn worker<B: AsRef<[u8]>>(&self, packet: &Packet<B>) -> usize {
        self.table[self.toeplitz.of(packet) as usize % ENTRIES].into()
    }
}
