//! Configuration of a packet socket.

use linecard_tun::PortError;
use linecard_tun::interface::check_name;

/// An interface and options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketConfig {
    /// The interface's name, 1 … 15 bytes.
    pub interface: String,
    /// Shares received frames with other sockets; none by default: this one receives everything.
    pub fanout: Option<Fanout>,
    /// Whether frames for other MAC addresses are received too, as long as the socket is open. Off
    /// by default.
    pub promiscuous: bool,
    /// Whether large packets and partial checksums are exchanged, behind virtio headers, if the
    /// kernel supports that. On by default.
    pub offloads: bool,
    /// Whether sent frames bypass the interface's queueing discipline: faster, and without traffic
    /// shaping. On by default. Has no effect with offloads, because the kernel would lose large
    /// packets there that the interface cannot segment.
    pub qdisc_bypass: bool,
    /// Bytes of memory for frames that wait to be received, 64 KiB … 1 GiB; 16 MiB by default.
    /// Without offloads it is the size of a ring: a frame takes 2 KiB of it, or more if the MTU
    /// requires that when the socket is opened; longer frames, which the kernel has merged, have
    /// the same amount of memory in addition. Without `CAP_NET_ADMIN` it is bounded by
    /// `net.core.rmem_max`, except for the ring.
    pub receive_buffer: usize,
}

/// Several sockets that share received frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fanout {
    /// The group's number, the same for all members, and not used by another program in this
    /// network namespace.
    pub group: u16,
    /// How frames are distributed; the same for all members.
    pub by: FanoutBy,
}

/// How frames are distributed over the sockets of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FanoutBy {
    /// By flow hash: a flow stays with one socket.
    #[default]
    Hash,
    /// By the processor that received the frame.
    Cpu,
    /// By the interface's queue.
    Queue,
}

impl PacketConfig {
    /// An interface with default options: received alone, and as fast as possible.
    #[must_use]
    pub fn new(interface: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            fanout: None,
            promiscuous: false,
            offloads: true,
            qdisc_bypass: true,
            receive_buffer: 16 << 20,
        }
    }

    /// Refuses values out of range.
    pub(super) fn check(&self) -> Result<(), PortError> {
        check_name(&self.interface)?;
        let value = self.receive_buffer;
        if !(64 << 10..=1 << 30).contains(&value) {
            let (setting, range) = ("receive_buffer", "65536 to 1073741824 bytes");
            return Err(PortError::Setting { setting, value, range });
        }
        Ok(())
    }
}

impl Fanout {
    /// The option value for the kernel.
    pub(super) fn argument(self, ignore_outgoing: bool) -> libc::c_int {
        let by = match self.by {
            FanoutBy::Hash => libc::PACKET_FANOUT_HASH,
            FanoutBy::Cpu => libc::PACKET_FANOUT_CPU,
            FanoutBy::Queue => libc::PACKET_FANOUT_QM,
        };
        let flag = if ignore_outgoing { libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING } else { 0 };
        (u32::from(self.group) | (by | flag) << 16) as libc::c_int
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_refused_with_the_range() {
        let good = PacketConfig::new("eth0");
        assert!(good.check().is_ok());
        let bad = [
            PacketConfig { receive_buffer: 65_535, ..good.clone() },
            PacketConfig { receive_buffer: (1 << 30) + 1, ..good.clone() },
        ];
        for config in bad {
            let text = config.check().expect_err("out of range").to_string();
            assert!(text.contains("is out of range") && text.contains(" to "), "{text}");
        }
        assert!(PacketConfig::new("").check().is_err());
    }

    #[test]
    fn a_fanout_is_one_number() {
        let fanout = Fanout { group: 0xFFEE, by: FanoutBy::Queue };
        assert_eq!(fanout.argument(false) as u32, 0x0005_FFEE);
        assert_eq!(fanout.argument(true) as u32, 0x4005_FFEE);
    }
}
