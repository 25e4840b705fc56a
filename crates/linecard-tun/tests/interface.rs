//! What is asked of an interface by name, and changed. Each test makes its own network namespace;
//! without root it says so and passes.

use linecard::packet::Pool;
use linecard_testkit::lab::{inside, ip};
use linecard_tun::interface::{exists, mac, mtu, set_mac, set_mtu};
use linecard_tun::{BUFFER_LEN, DeviceConfig, DeviceKind, PortError, Tap};

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
