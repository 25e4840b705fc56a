//! The firmware's view: addresses of buffers and registers (`firmware/include/receive.inc`).
//!
//! The packet is on the local bus, which has the network's byte order: a header field read with its own
//! width is a number. Registers and nodes are on the core's own port, which never waits for the bus.

/// The receive buffer: the packet at its head, from the IP header on.
pub const RBI: u32 = 0x1000_0000;

/// Line interface: where `wfi` goes on with a packet; behind itself when 0.
pub const VECTOR: u32 = 0x3000_0000;
/// The same when there is a packet and no empty node.
pub const VECTOR_FULL: u32 = VECTOR + 0x04;
/// Written: gives up the packet at the head.
pub const DROP: u32 = VECTOR + 0x08;

/// DMA: start of the moved bytes, an offset in the packet.
pub const SPP: u32 = 0x4000_0000;
/// DMA: the node whose buffer the next transfer fills, 0 for none.
pub const NODE: u32 = SPP + 0x04;
/// DMA: 1 during a transfer.
pub const BUSY: u32 = SPP + 0x08;
/// DMA: the node of the last transfer.
pub const TAKEN: u32 = SPP + 0x0C;
/// DMA: written with the end of the moved bytes (EPP), which starts the transfer, behind the one under
/// way. Four registers, one for each class: SSM, BOM, COM, EOM.
pub const START: u32 = SPP + 0x10;

/// CAM: source address of the key.
pub const SOURCE: u32 = 0x5000_0000;
/// CAM: destination address.
pub const DESTINATION: u32 = SOURCE + 0x04;
/// CAM: protocol, of datagrams.
pub const PROTOCOL: u32 = SOURCE + 0x08;
/// CAM: written with the ports: looks a connection up.
pub const FIND_CONNECTION: u32 = SOURCE + 0x0C;
/// CAM: written with the identification: looks a datagram up.
pub const FIND_DATAGRAM: u32 = SOURCE + 0x10;
/// CAM: what was inserted with the key, 0 for none. Waits for the lookup.
pub const RESULT: u32 = SOURCE + 0x14;
/// CAM: written with a word to keep under the key; 0 or a full CAM give [`RESULT`] 0.
pub const INSERT: u32 = SOURCE + 0x18;
/// CAM: written: forgets the key.
pub const REMOVE: u32 = SOURCE + 0x1C;
/// CAM: how many entries it has.
pub const SIZE: u32 = SOURCE + 0x20;

/// Host: written with the first node of a list, which is the host's when the current transfer ends.
pub const EVENT: u32 = 0x6000_0000;

/// Nodes: four words each, pointer, length, next, count.
pub const NODES: u32 = 0x7000_0000;
/// Bytes of a node.
pub const NODE_LEN: u32 = 16;
