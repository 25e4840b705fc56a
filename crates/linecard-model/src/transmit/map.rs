//! The firmware's view: addresses of buffers and registers (`firmware/include/linecard.inc`).
//!
//! Buffers are on the local bus, which has the network's byte order: a header field read with its
//! own width is a number. Registers are on the core's own port, which never waits for the bus.

/// The sending buffer: a message as the host left it, headers first.
pub const SB: u32 = 0x1000_0000;
/// Bytes of the sending buffer: the longest IP packet, and headers before it.
pub const SB_LEN: usize = 65_536 + 256;
/// Where the line interface takes the header of the next packet from when the DMA moves none.
pub const SBI_HEADER: u32 = 0x2000_0000;
/// Bytes for that header.
pub const SBI_HEADER_LEN: usize = 128;

/// Host mailbox: 1 for TCP segments, 2 for fragments of an IPv4 datagram; 0 when there is no message.
pub const KIND: u32 = 0x3000_0000;
/// Offset in [`SB`] at which headers end.
pub const HEADER_END: u32 = KIND + 0x04;
/// Bytes of the message.
pub const LENGTH: u32 = KIND + 0x08;
/// The longest packet on the line, from the IP header on.
pub const MTU: u32 = KIND + 0x0C;
/// Payload of a full packet; of fragments a multiple of 8.
pub const MSS: u32 = KIND + 0x10;
/// TCP data offset and flags of the last segment; in [`SB`] are those of all others.
pub const LAST_FLAGS: u32 = KIND + 0x14;
/// Where `wfi` goes on with a message of kind 1; behind itself when 0.
pub const VECTOR_TCP: u32 = KIND + 0x20;
/// Where `wfi` goes on with a message of kind 2; behind itself when 0.
pub const VECTOR_UDP: u32 = KIND + 0x24;

/// DMA: start of the headers, an offset in [`SB`].
pub const SHAP: u32 = 0x4000_0000;
/// DMA: end of the headers; equal to [`SHAP`] when they are in [`SBI_HEADER`].
pub const EHAP: u32 = SHAP + 0x04;
/// DMA: start of the payload.
pub const SPP: u32 = SHAP + 0x08;
/// DMA: written with the end of the payload (EPP), which starts the transfer. Waits for one that is
/// under way, and for room in the line interface.
pub const START: u32 = SHAP + 0x10;
/// DMA: 1 during a transfer.
pub const BUSY: u32 = SHAP + 0x14;
