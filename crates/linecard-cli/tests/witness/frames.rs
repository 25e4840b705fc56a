//! The frame builder of the core crate's proofs.
#![expect(dead_code, reason = "a part of what the proofs of the core crate use")]

#[path = "../../../linecard/tests/common/frame.rs"]
pub(crate) mod frame;
#[path = "../../../linecard/tests/common/ip.rs"]
pub(crate) mod ip;
#[path = "../../../linecard/tests/common/tunnel.rs"]
pub(crate) mod tunnel;
