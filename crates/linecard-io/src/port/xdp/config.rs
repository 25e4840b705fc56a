//! Configuration of an AF_XDP port: its memory, and the modes that it tries.

use super::error::XdpError;

/// Ring slots: at least a batch; the kernel accepts up to 2³¹, but more than 65,536 only adds
/// latency.
pub(super) const SLOTS: std::ops::RangeInclusive<u32> = 64..=1 << 16;
/// The most frames beyond those of the rings: 4 GiB of 4,096 bytes.
const MAX_SPARE: u32 = 1 << 20;

/// Bytes of a frame. The kernel keeps 256 of them free before a received packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FrameLen {
    /// 2,048 bytes: packets of up to 1,792 in one frame.
    #[default]
    B2048,
    /// 4,096 bytes: packets of up to 3,840 in one frame.
    B4096,
}

impl FrameLen {
    /// The number of bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::B2048 => 2048,
            Self::B4096 => 4096,
        }
    }
}

/// Configuration of one port: the socket of one queue.
///
/// ```
/// use linecard_io::port::xdp::Config;
/// let config = Config { spare_frames: 20_000, ..Config::default() };
/// assert_eq!(config.frames(), 2 * 1024 + 2 * 1024 + 20_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Bytes of a frame.
    pub frame_len: FrameLen,
    /// Slots of the fill ring and of the RX ring, each: a power of two, 64 … 65,536. Default 1,024:
    /// 0.7 ms at 1.5 million packets a second.
    pub rx_slots: u32,
    /// Slots of the TX ring and of the completion ring, each: a power of two, 64 … 65,536.
    /// Default 1,024.
    pub tx_slots: u32,
    /// Frames beyond those that the rings can hold, 1 … 1,048,576: how many the application may
    /// hold without taking room from receiving. Default 4,096, as many as a coalescer holds for 64
    /// flows of 64 packets.
    pub spare_frames: u32,
    /// Try zero-copy mode. Default true; otherwise, or if the driver does not support it, the
    /// kernel copies each packet once.
    pub zero_copy: bool,
    /// Try to receive and send packets longer than a frame, such as jumbo frames. Default true;
    /// requires Linux 6.6 and support by the driver.
    pub multi_buffer: bool,
    /// A packet received in several frames stays there, its payload in pieces. Default true;
    /// otherwise such a packet is copied into one buffer, which merging requires.
    pub gather: bool,
    /// Recognise TCP and UDP checksums that a sender in this machine has left open, as on a veth:
    /// AF_XDP does not tell. A packet in whose checksum field there is the sum of its pseudo header
    /// is received with [`ChecksumState::Partial`](linecard::packet::ChecksumState::Partial). Default
    /// false: from a wire one packet in 65,536 has such a checksum, which is then not verified.
    pub open_checksums: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            frame_len: FrameLen::B2048,
            rx_slots: 1024,
            tx_slots: 1024,
            spare_frames: 4096,
            zero_copy: true,
            multi_buffer: true,
            gather: true,
            open_checksums: false,
        }
    }
}

impl Config {
    /// Total number of frames, each of [`Config::frame_len`]: one for each slot of the four rings,
    /// and the spare ones. With fewer than the rings can hold, frames would get stuck in them.
    #[must_use]
    pub fn frames(&self) -> u32 {
        let rings = self.rx_slots.saturating_add(self.tx_slots).saturating_mul(2);
        rings.saturating_add(self.spare_frames)
    }

    /// Bytes of memory that the port pins.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.frames()) * u64::from(self.frame_len.bytes())
    }

    pub(super) fn check(&self) -> Result<(), XdpError> {
        for (what, slots) in [("rx_slots", self.rx_slots), ("tx_slots", self.tx_slots)] {
            if !slots.is_power_of_two() || !SLOTS.contains(&slots) {
                let wanted = "a power of two, 64 to 65,536";
                return Err(XdpError::Config { what, value: slots.into(), wanted });
            }
        }
        if !(1..=MAX_SPARE).contains(&self.spare_frames) {
            let (what, wanted) = ("spare_frames", "1 to 1,048,576");
            return Err(XdpError::Config { what, value: self.spare_frames.into(), wanted });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(config: Config) -> String {
        config.check().err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn values_outside_their_range_are_named() {
        let good = Config::default();
        assert_eq!(said(good), "");
        assert_eq!(
            said(Config { rx_slots: 1000, ..good }),
            "rx_slots is 1000: choose a power of two, 64 to 65,536"
        );
        assert!(said(Config { tx_slots: 1 << 17, ..good }).starts_with("tx_slots is 131072"));
        assert!(said(Config { tx_slots: 0, ..good }).starts_with("tx_slots is 0"));
        assert!(said(Config { spare_frames: 0, ..good }).starts_with("spare_frames is 0"));
    }

    #[test]
    fn the_largest_configuration_does_not_overflow() {
        let largest = Config {
            frame_len: FrameLen::B4096,
            rx_slots: 1 << 16,
            tx_slots: 1 << 16,
            spare_frames: MAX_SPARE,
            ..Config::default()
        };
        assert_eq!(said(largest), "");
        assert_eq!(largest.bytes(), 5 << 30);
    }
}
