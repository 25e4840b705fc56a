//! The TAP or TUN device that replaces an interface.

use super::settings::Settings;
use linecard_tun::{PortError, interface};

/// Configures a newly made TAP or TUN device like the interface that it replaces.
pub(super) struct NewDevice {
    device: Option<String>,
    /// The near interface, and whether it is promiscuous.
    like: Option<(String, bool)>,
}

impl NewDevice {
    pub(super) fn of(settings: &Settings) -> Self {
        let device = settings
            .far
            .device()
            .filter(|name| interface::exists(name).is_ok_and(|exists| !exists));
        let near = &settings.near;
        let like = near.interface().map(|name| (name.to_owned(), near.promiscuous));
        Self { device: device.map(str::to_owned), like }
    }

    pub(super) fn configure(self) -> Result<(), PortError> {
        let Some(device) = self
            .device
            .as_deref()
            .filter(|name| interface::exists(name).is_ok_and(|exists| exists))
        else {
            return Ok(());
        };
        if let Some((like, promiscuous)) = &self.like {
            interface::set_mtu(device, interface::mtu(like)?)?;
            // A TUN device has no address.
            if !promiscuous && interface::mac(device).is_ok() {
                interface::set_mac(device, interface::mac(like)?)?;
            }
        }
        interface::set_up(device, true)
    }
}
