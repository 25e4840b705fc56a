//! A device at each end that all data pass through in both directions, such as one that computes repair.
//!
//! Each lane has a link of its own to the device; what the device computes is shared by all lanes, in the order in which
//! packets come. A packet is at most at one place of each link and of the device.

use super::link::{Link, LinkSettings};
use alloc::vec::Vec;
use linecard::rng::Rng;
use linecard::time::Instant;

/// Parameters of the devices, equal at both ends.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSettings {
    /// The link of each lane to it, equal in both directions.
    pub link: LinkSettings,
    /// Rate of its computation, for all lanes together, in bit/s.
    pub rate_bits_per_second: u64,
    /// From a packet's last bit in to its first bit out, in ns.
    pub time_ns: u64,
}

/// The device of one end.
#[derive(Debug)]
pub(super) struct Device {
    settings: DeviceSettings,
    there: Vec<Link>,
    back: Vec<Link>,
    free: Instant,
    pub(super) busy_ns: u64,
}

impl DeviceSettings {
    /// Time of a datagram there and back if nothing is before it, in ns.
    #[must_use]
    pub fn round_trip_ns(&self, bytes: u32) -> u64 {
        let link_ns = Link::new(self.link.clone()).time_ns(bytes) + self.link.delay_ns;
        2 * link_ns + self.compute_ns(bytes) + self.time_ns
    }

    fn compute_ns(&self, bytes: u32) -> u64 {
        u64::from(bytes) * 8_000_000_000 / self.rate_bits_per_second.max(1)
    }
}

impl Device {
    pub(super) fn new(settings: &DeviceSettings, lanes: usize) -> Self {
        let links = || (0..lanes).map(|_| Link::new(settings.link.clone())).collect();
        let (there, back) = (links(), links());
        Self { settings: settings.clone(), there, back, free: Instant::ZERO, busy_ns: 0 }
    }

    /// The link to it of a lane.
    pub(super) fn entry(&mut self, lane: usize) -> &mut Link {
        &mut self.there[lane]
    }

    /// Passes a datagram; returns when it is back.
    pub(super) fn pass(
        &mut self,
        lane: usize,
        bytes: u32,
        now: Instant,
        rng: &mut Rng,
    ) -> Option<Instant> {
        let came = self.there[lane].send(bytes, now, rng).arrivals[0]?;
        let compute_ns = self.settings.compute_ns(bytes);
        self.free = self.free.max(came).plus_ns(compute_ns);
        self.busy_ns += compute_ns;
        self.back[lane].send(bytes, self.free.plus_ns(self.settings.time_ns), rng).arrivals[0]
    }
}
