//! A TUN or TAP device at the far end follows the interface at the near end.

use super::heir::ShellMonitor;
use super::settings::Settings;
use linecard_tun::interface::{self, State};
use std::os::fd::{AsFd, OwnedFd};

/// Keeps the carrier and the MTU of the far device like those of the near interface. Holds a queue of
/// the device, which exists at least as long.
#[derive(Debug)]
pub struct Follower {
    near: String,
    far: String,
    queue: OwnedFd,
    has_carrier: bool,
    mtu: Option<usize>,
    /// Of the shell that gives addresses back.
    heir: Option<ShellMonitor>,
}

impl Follower {
    /// None if the near port is not an interface, or the far one not a device.
    pub(super) fn new(
        settings: &Settings,
        queue: Option<OwnedFd>,
        heir: Option<ShellMonitor>,
    ) -> Option<Self> {
        let near = settings.near.interface()?.to_owned();
        let far = settings.far.device()?.to_owned();
        let mtu = interface::mtu(&near).ok();
        Some(Self { near, far, queue: queue?, has_carrier: true, mtu, heir })
    }

    /// Looks at the interface, and changes the device as far as privileges allow; returns what to say.
    /// An interface that is gone changes nothing.
    pub fn look(&mut self) -> Vec<String> {
        let heir = self.heir.as_mut().and_then(ShellMonitor::look);
        [self.carrier(), self.mtu(), heir].into_iter().flatten().collect()
    }

    fn carrier(&mut self) -> Option<String> {
        let state = interface::state(&self.near).ok()?;
        let has_carrier = state == State::Up;
        if has_carrier == self.has_carrier {
            return None;
        }
        self.has_carrier = has_carrier;
        // A kernel that cannot do this is older than those that have what `attach` needs.
        interface::set_carrier(self.queue.as_fd(), has_carrier).ok()?;
        let Self { near, far, .. } = self;
        Some(match state {
            State::Up => format!("{near} has a carrier again, and so has {far}"),
            State::NoCarrier => format!("{near} has no carrier, so {far} has none"),
            State::Down => format!("{near} is down, so {far} has no carrier"),
        })
    }

    fn mtu(&mut self) -> Option<String> {
        let Self { near, far, .. } = self;
        let mtu = interface::mtu(near).ok();
        if mtu == self.mtu {
            return None;
        }
        self.mtu = mtu;
        let (mtu, old) = (mtu?, interface::mtu(far).ok()?);
        (mtu != old).then(|| match interface::set_mtu(far, mtu) {
            Ok(()) => format!("{far} has an MTU of {mtu} bytes now, as {near}"),
            Err(_) => format!(
                "{near} has an MTU of {mtu} bytes now, and {far} still one of {old}: `ip link set {far} mtu \
                 {mtu}`"
            ),
        })
    }
}
