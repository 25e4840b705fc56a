//! Properties of interfaces, read and changed by name. Each test makes its own network namespace;
//! without root it says so and passes.

use linecard::packet::Pool;
use linecard_testkit::lab::{inside, ip};
use linecard_tun::interface::{exists, mac, mtu, set_mac, set_mtu, set_up, unsent};
use linecard_tun::{BUFFER_LEN, DeviceConfig, DeviceKind, PortError, Tap};
use std::net::UdpSocket;

#[test]
fn what_is_set_is_there() {
    inside("settings of interfaces", |_| {
        assert!(!exists("va").expect("a name"));
        ip("link add va type veth peer name vb");
        assert!(exists("va").expect("a name") && exists("lo").expect("a name"));
        for bytes in [68, 1_400, 9_000] {
            set_mtu("va", bytes).expect("root may");
            assert_eq!(mtu("va").expect("it is there"), bytes);
        }
        // Bytes that are negative where `char` has a sign, and neighbours that stay.
        let address = [0xFE, 0x80, 0xFF, 0, 0x7F, 0x81];
        let other = mac("vb").expect("it is there");
        set_mac("va", address).expect("root may");
        assert_eq!((mac("va").expect("it is there"), mac("vb").expect("too")), (address, other));
        assert_eq!(mac("lo").expect("it is there"), [0; 6]);
        ip("link del va");
        assert!(!exists("va").expect("a name"));
    });
}

/// A device's queue has 500 places at first.
#[test]
fn what_nobody_reads_from_a_device_is_counted() {
    inside("a queue that nobody reads", |_| {
        let tun = DeviceConfig { kind: DeviceKind::Tun, ..DeviceConfig::tap("lc0") };
        let tun = Tap::open(&tun, Pool::new(1, BUFFER_LEN)).expect("root may");
        ip("addr add 10.9.0.1/24 dev lc0");
        set_up(tun.name(), true).expect("it was just made");
        let before = unsent(tun.name()).expect("it is there");
        let socket = UdpSocket::bind("10.9.0.1:0").expect("it has this address");
        for _ in 0..700 {
            // An error says that this one was lost, too.
            let _sent = socket.send_to(b"to nobody", "10.9.0.2:9");
        }
        let lost = unsent(tun.name()).expect("it is there") - before;
        assert!((200..=700).contains(&lost), "{lost}");
        assert_eq!(unsent("lo").expect("it is there"), 0);
    });
}

#[test]
fn what_cannot_be_is_refused() {
    inside("settings that interfaces do not take", |_| {
        ip("link add va type veth peer name vb");
        for bytes in [0, 67, 1 << 20, usize::MAX] {
            let error = set_mtu("va", bytes).expect_err("out of range");
            assert!(matches!(error, PortError::Setting { value, .. } if value == bytes), "{error}");
        }
        let error = set_mtu("va", 67).expect_err("out of range").to_string();
        assert!(error.starts_with("mtu 67 is out of range: 68 to ") && !error.contains('\n'));
        assert_eq!(error.matches(": ").count(), 1, "{error}");
        for address in [[0; 6], [1, 2, 3, 4, 5, 6], [0xFF; 6]] {
            let error = set_mac("va", address).expect_err("none for an interface");
            assert!(matches!(error, PortError::BadMac { .. }), "{error}");
        }
        let config = DeviceConfig { kind: DeviceKind::Tun, ..DeviceConfig::tap("lc0") };
        let _tun = Tap::open(&config, Pool::new(1, BUFFER_LEN)).expect("root may");
        let _tap = Tap::open(&DeviceConfig::tap("lc1"), Pool::new(1, BUFFER_LEN)).expect("too");
        for (device, most) in [("lc0", 65_535), ("lc1", 65_521)] {
            set_mtu(device, most).expect("the most");
            assert!(set_mtu(device, most + 1).is_err() && set_mtu(device, 67).is_err());
        }
        for error in [mac("lc0").err(), set_mac("lc0", [2; 6]).err()] {
            assert!(matches!(error, Some(PortError::NoMac { .. })), "{error:?}");
        }
        let absent = [mac("gone").err(), set_mac("gone", [2; 6]).err(), set_mtu("gone", 99).err()];
        for error in absent {
            assert!(matches!(error, Some(PortError::NoInterface { .. })), "{error:?}");
        }
        assert!(matches!(exists("a name"), Err(PortError::BadName { .. })));
    });
}
