//! Ports that cannot be opened say why, in one line.

use crate::lab::{self, cable, inside};
use crate::sys;
use linecard_io::port::{PacketConfig, PacketSocket};
use linecard_tun::{DeviceConfig, PortError, Tap, interface};

fn one_line(error: &PortError, parts: &[&str]) {
    let text = error.to_string();
    assert!(!text.contains('\n') && parts.iter().all(|part| text.contains(part)), "{text}");
}

#[test]
fn without_rights_the_error_names_the_capability() {
    inside("errors without rights", || {
        cable();
        sys::lose_rights().expect("root may");
        let socket = PacketSocket::open(&PacketConfig::new("va"), lab::pool());
        one_line(
            &socket.expect_err("no rights"),
            &["packet socket", "needs CAP_NET_RAW", "setcap"],
        );
        match Tap::open(&DeviceConfig::tap("lc0"), lab::pool()).expect_err("no rights") {
            error @ PortError::NoAccess { .. } => one_line(&error, &["/dev/net/tun"]),
            error => one_line(&error, &["TAP device", "needs CAP_NET_ADMIN", "setcap"]),
        }
        let up = interface::set_up("va", false).expect_err("no rights");
        one_line(&up, &["interface up or down", "CAP_NET_ADMIN"]);
        let mac = interface::set_mac("va", [2; 6]).expect_err("no rights");
        one_line(&mac, &["MAC address", "CAP_NET_ADMIN"]);
        let mtu = interface::set_mtu("va", 1_000).expect_err("no rights");
        one_line(&mtu, &["MTU", "CAP_NET_ADMIN"]);
    });
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let absent = PacketSocket::open(&PacketConfig::new("no-such-name"), lab::pool());
    one_line(&absent.expect_err("none has this name"), &["no interface `no-such-name`", "ip link"]);
    let mtu = interface::mtu("no-such-name").expect_err("none has this name");
    one_line(&mtu, &["no interface `no-such-name`"]);
    let group = PortError::BadMac { mac: [1, 0, 0x5E, 0, 0, 1] };
    one_line(&group, &["[01, 00, 5e, 00, 00, 01] cannot be", "first byte even"]);
    let long = Tap::open(&DeviceConfig::tap("a-name-too-long-for-it"), lab::pool());
    one_line(&long.expect_err("too long"), &["22 bytes", "1 to 15"]);
}

#[test]
fn settings_out_of_range_give_the_range() {
    let config = PacketConfig { receive_buffer: 1, ..PacketConfig::new("lo") };
    let error = PacketSocket::open(&config, lab::pool()).expect_err("too few");
    one_line(&error, &["receive_buffer 1", "65536 to 1073741824"]);
}
