//! VLAN tags without VLAN devices: two programs of two and four instructions on an interface.

use crate::sys;
use std::io;
use std::os::fd::OwnedFd;

/// Numbers of `bpf_skb_vlan_push` and `bpf_skb_vlan_pop` (bpf-helpers(7)).
const PUSH: u32 = 18;
const POP: u32 = 19;
/// `ETH_P_8021Q`, as it stands in a frame, read on a machine of little endian.
const DOT1Q: u32 = 0x0081;

/// Everything that the kernel sends by an interface has a tag, and everything that it receives there
/// loses it, until this is dropped.
#[derive(Debug)]
pub(crate) struct Tags {
    _links: [OwnedFd; 2],
}

impl Tags {
    /// On an interface of the calling thread's namespace.
    pub(crate) fn on(interface: &str, vlan: u32) -> io::Result<Self> {
        let (set, call, end) = (0xB7, 0x85, 0x95);
        // The frame is in register 1.
        let push = [
            step(set, 2, DOT1Q),
            step(set, 3, vlan),
            step(call, 0, PUSH),
            step(set, 0, 0),
            step(end, 0, 0),
        ];
        let pop = [step(call, 0, POP), step(set, 0, 0), step(end, 0, 0)];
        let ingress = sys::on_frames(interface, sys::RECEIVED, &pop)?;
        Ok(Self { _links: [ingress, sys::on_frames(interface, sys::SENT, &push)?] })
    }
}

/// An instruction: what, to which register, with which number.
fn step(code: u8, register: u8, number: u32) -> u64 {
    u64::from(code) | u64::from(register) << 8 | u64::from(number) << 32
}
