//! Forward error correction: lost packets are computed from those that arrived, without
//! retransmission.
//!
//! Data packets are sent unchanged (the code is systematic), and after each group of `k` of them
//! `m` repair packets, each as long as the group's longest. Any `k` packets of a group determine
//! all its data; fewer determine nothing. A short last group has fewer data packets and as many
//! repair packets: missing ones count as zeros, and so do the missing bytes of a shorter packet.
//!
//! All schemes are one code, a Cauchy Reed–Solomon code over GF(2⁸) with `x⁸ + x⁴ + x³ + x² + 1`
//! whose columns are scaled so that the first repair packet is the plain sum. With `⊕` for the sum,
//! byte by byte, and `!` for the complement of a byte,
//!
//! ```text
//! repair[r] = ⊕ over j of  data[j] · !j / (!j ⊕ r)         j < k, r < m, k + m ≤ 256
//! ```
//!
//! This defines the wire format, which never changes. A factor depends neither on `k` nor on `m`.
//! XOR is the code with one repair packet, and duplication that of one data packet: their factors
//! are 1.
//!
//! Source: J. Blömer and others, "An XOR-Based Erasure-Resilient Coding Scheme", ICSI TR-95-048,
//! 1995 (Cauchy matrices); SMPTE ST 2022-7 for the duplicate.

mod cauchy;
mod code;
mod field;
mod kernel;
mod repair;
mod scheme;

pub use code::{Code, CodeError, Piece, RepairPacket};
pub use kernel::Kernel;
pub use repair::Repair;
pub use scheme::{Kind, MAX_GROUP, Scheme, SchemeError};
