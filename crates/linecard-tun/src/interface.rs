//! Basic properties of interfaces, and a list of interfaces. Addresses and
//! routes are managed by `ip`.

use crate::PortError;
use crate::sys::{self, addresses, device};
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::{fs, io};

/// That of the calling thread's namespace; `/proc/net` is that of the process's first thread.
const NAMES: &str = "/proc/thread-self/net/dev";
/// Plain IP, as of mobile links: of `linux/if_arp.h`, not named by libc.
const ARPHRD_RAWIP: u16 = 519;
const FOLDER: &str = "/sys/class/net";
/// Required for changes, but not for queries.
const CAPABILITY: &str = "CAP_NET_ADMIN";

/// Refuses names that no interface can have; `%d` stands for the first free number, where that is
/// allowed.
///
/// ```
/// use linecard_tun::interface::check_name;
/// assert!(check_name("tap%d").is_ok() && check_name("a b").is_err());
/// ```
///
/// # Errors
///
/// [`PortError::BadName`], unless the name has 1 to 15 bytes without `/`, `:`, white space and `%`
/// except of one `%d`, and is none of `.`, `..`, `all` and `default`.
pub fn check_name(name: &str) -> Result<(), PortError> {
    let allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b':';
    // The kernel has settings for `all` interfaces and for those to come (`default`).
    let reserved = matches!(name, "." | ".." | "all" | "default");
    let known = (1..=device::MAX_NAME).contains(&name.len()) && !reserved;
    let numbered = name.replacen("%d", "", 1);
    if known && name.bytes().all(allowed) && !numbered.contains('%') {
        return Ok(());
    }
    Err(PortError::BadName { name: name.to_owned() })
}

/// The name of the interface that has this name, or has it as an alternative one (`ip link property`).
///
/// ```
/// assert_eq!(linecard_tun::interface::resolve("lo")?, "lo");
/// # Ok::<(), linecard_tun::PortError>(())
/// ```
///
/// # Errors
///
/// If the interface does not exist in the calling thread's network namespace.
pub fn resolve(name: &str) -> Result<String, PortError> {
    check_name(name)?;
    let found = device::index(name).and_then(device::name);
    found.map_err(about(name, "look for an interface"))
}

/// Whether there is an interface of this name in the calling thread's network namespace.
///
/// ```
/// assert!(!linecard_tun::interface::exists("no-such-name")?);
/// # Ok::<(), linecard_tun::PortError>(())
/// ```
///
/// # Errors
///
/// If no interface can have this name.
pub fn exists(name: &str) -> Result<bool, PortError> {
    check_name(name)?;
    match device::index(name).map_err(about(name, "look for an interface")) {
        Ok(_) => Ok(true),
        Err(PortError::NoInterface { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The MTU: bytes of the largest IP packet.
///
/// ```no_run
/// let mtu = linecard_tun::interface::mtu("eth0")?;
/// # Ok::<(), linecard_tun::PortError>(())
/// ```
///
/// # Errors
///
/// If the interface does not exist in the calling thread's network namespace.
pub fn mtu(name: &str) -> Result<usize, PortError> {
    check_name(name)?;
    let mtu = device::mtu(name).map_err(about(name, "read an interface's MTU"))?;
    Ok(usize::try_from(mtu).unwrap_or(0))
}

/// Sets the MTU: 68 … 65,535 for TUN devices, 68 … 65,521 for TAP devices, 68 … 1,500 or more for
/// others.
///
/// ```no_run
/// linecard_tun::interface::set_mtu("tap0", 9_000)?;
/// # Ok::<(), linecard_tun::PortError>(())
/// ```
///
/// # Errors
///
/// If the interface does not exist or does not accept the size, or permission is missing: it needs
/// `CAP_NET_ADMIN`.
pub fn set_mtu(name: &str, mtu: usize) -> Result<(), PortError> {
    check_name(name)?;
    // An invalid value stands for one that the system call cannot express.
    let bytes = i32::try_from(mtu).unwrap_or(-1);
    device::set_mtu(name, bytes).map_err(|error| {
        if !sys::is(&error, libc::EINVAL) {
            return about(name, "set an interface's MTU")(error);
        }
        let range = "68 to 65535 for a TUN device, to 65521 for a TAP device; `ip -d link` shows \
                     minmtu and maxmtu of each interface";
        PortError::Setting { setting: "mtu", value: mtu, range }
    })
}

/// The MAC address; all zeros for the loopback interface.
///
/// ```no_run
/// let mac = linecard_tun::interface::mac("eth0")?;
/// # Ok::<(), linecard_tun::PortError>(())
/// ```
///
/// # Errors
///
/// If the interface does not exist in the calling thread's network namespace, or it has no MAC
/// address, like TUN devices.
pub fn mac(name: &str) -> Result<[u8; 6], PortError> {
    ethernet(name).map(|(_, mac)| mac)
}

/// Sets the MAC address, which must not be all zeros or a group address (with an odd first byte).
///
/// ```no_run
/// // The second bit of the first byte says "chosen, not bought".
/// linecard_tun::interface::set_mac("tap0", [2, 0, 0, 0, 0, 1])?;
/// # Ok::<(), linecard_tun::PortError>(())
/// ```
///
/// # Errors
///
/// If the address is not valid, the interface does not exist or has no MAC address, or permission is missing: it needs
/// `CAP_NET_ADMIN`. Some devices have to be down.
pub fn set_mac(name: &str, mac: [u8; 6]) -> Result<(), PortError> {
    let (kind, _) = ethernet(name)?;
    if mac == [0; 6] || mac[0] & 1 != 0 {
        return Err(PortError::BadMac { mac });
    }
    let doing = "set an interface's MAC address";
    device::set_hardware(name, (kind, mac)).map_err(about(name, doing))
}

/// Whether the kernel responds on it: it has an IPv4 address.
///
/// ```no_run
/// assert!(linecard_tun::interface::has_ipv4("lo")?);
/// # Ok::<(), linecard_tun::PortError>(())
/// ```
///
/// # Errors
///
/// If the interface does not exist in the calling thread's network namespace.
pub fn has_ipv4(name: &str) -> Result<bool, PortError> {
    check_name(name)?;
    device::has_ipv4(name).map_err(about(name, "read an interface's address"))
}

/// Sets it up or down.
///
/// ```no_run
/// linecard_tun::interface::set_up("tap0", true)?;
/// # Ok::<(), linecard_tun::PortError>(())
/// ```
///
/// # Errors
///
/// If the interface does not exist, or permission is missing: it needs `CAP_NET_ADMIN`.
pub fn set_up(name: &str, up: bool) -> Result<(), PortError> {
    check_name(name)?;
    device::set_up(name, up).map_err(about(name, "bring an interface up or down"))
}

/// Its IP addresses, with the bits of their prefixes.
///
/// ```
/// assert!(linecard_tun::interface::addresses("no-such-name")?.is_empty());
/// # Ok::<(), linecard_tun::PortError>(())
/// ```
///
/// # Errors
///
/// If no interface can have this name, or the system does not list addresses.
pub fn addresses(name: &str) -> Result<Vec<(IpAddr, u32)>, PortError> {
    check_name(name)?;
    addresses::of_interface(name).map_err(about(name, "read an interface's addresses"))
}

/// Whether packets can pass.
///
/// ```no_run
/// use linecard_tun::interface::{State, state};
/// assert_eq!(state("lo")?, State::Up);
/// # Ok::<(), linecard_tun::PortError>(())
/// ```
///
/// # Errors
///
/// If the interface does not exist in the calling thread's network namespace.
pub fn state(name: &str) -> Result<State, PortError> {
    check_name(name)?;
    device::flags(name).map(state_of).map_err(about(name, "read an interface's state"))
}

/// Says whether a TUN or TAP device, one of whose queues this is, has a carrier. This takes no
/// privilege, so that a device can follow an interface after privileges were dropped.
///
/// # Errors
///
/// The system's, if the descriptor is not such a queue, or the kernel cannot do this (Linux 5.0).
pub fn set_carrier(queue: BorrowedFd<'_>, has_carrier: bool) -> io::Result<()> {
    device::set_tun_carrier(queue, has_carrier)
}

/// Link type and MAC address.
fn ethernet(name: &str) -> Result<(u16, [u8; 6]), PortError> {
    check_name(name)?;
    let hardware = device::hardware(name);
    match hardware.map_err(about(name, "read an interface's MAC address"))? {
        found @ (libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK, _) => Ok(found),
        _ => Err(PortError::NoMac { name: name.to_owned() }),
    }
}

/// An error about an interface.
fn about(name: &str, doing: &'static str) -> impl Fn(io::Error) -> PortError {
    move |error| PortError::about(name, doing, CAPABILITY, error)
}

/// Number of receive queues; none where `/sys` does not show the interface, as in another network namespace.
///
/// ```no_run
/// let queues = linecard_tun::interface::receive_queues("eth0")?;
/// # Ok::<(), linecard_tun::PortError>(())
/// ```
///
/// # Errors
///
/// If the interface does not exist in the calling thread's network namespace.
pub fn receive_queues(name: &str) -> Result<Option<usize>, PortError> {
    check_name(name)?;
    let device = describe(name).map_err(about(name, "count an interface's queues"))?.device;
    Ok(device.map(|device| device.rx_queues.max(1)))
}

/// Properties of an interface that matter for choosing a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Whether packets can pass.
    pub state: State,
    /// Bytes of its largest IP packet.
    pub mtu: usize,
    /// Its link type: an `ARPHRD_*` of `linux/if_arp.h`.
    pub hardware: u16,
    /// Its address, where it is one of Ethernet.
    pub mac: Option<[u8; 6]>,
    /// Its device according to `/sys`, if that shows the interface: `/sys` shows those of the
    /// namespace in which it was mounted.
    pub device: Option<Device>,
}

/// Whether packets can pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// They can.
    Up,
    /// It is up, but its cable or other end is not.
    NoCarrier,
    /// It is down.
    Down,
}

/// The device behind an interface.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    /// Receive queues.
    pub rx_queues: usize,
    /// Transmit queues.
    pub tx_queues: usize,
    /// The driver, if there is a (possibly virtual) device.
    pub driver: Option<String>,
    /// It is a TUN or TAP device.
    pub is_tap: bool,
}

impl Interface {
    /// Whether its frames start with an Ethernet header, or as if they did (loopback).
    #[must_use]
    pub fn is_ethernet(&self) -> bool {
        matches!(self.hardware, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK)
    }

    /// Whether its frames start with an IP header.
    #[must_use]
    pub fn is_ip(&self) -> bool {
        matches!(self.hardware, libc::ARPHRD_NONE | ARPHRD_RAWIP)
    }
}

/// The interfaces of the calling thread's network namespace, in the kernel's order.
///
/// ```no_run
/// for interface in linecard_tun::interface::list()? {
///     println!("{} {:?}", interface.name, interface.state);
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// The system's error, if `/proc` is not available.
pub fn list() -> io::Result<Vec<Interface>> {
    let text = fs::read_to_string(NAMES)?;
    // Two lines of headings, then "  name: numbers".
    let names = text.lines().skip(2).filter_map(|line| line.split_once(':'));
    // Interfaces that have disappeared meanwhile are not listed.
    Ok(names.filter_map(|(name, _)| describe(name.trim()).ok()).collect())
}

/// Packets for an interface of the calling thread's network namespace that the kernel has dropped: on a
/// TUN or TAP device, those for which its queue had no room because nobody read it in time, and those that came
/// before its carrier was noticed.
///
/// ```
/// assert!(linecard_tun::interface::unsent("no-such-name").is_err());
/// ```
///
/// # Errors
///
/// [`NotFound`](io::ErrorKind::NotFound) without such an interface, and the system's error if `/proc` is
/// not available.
pub fn unsent(name: &str) -> io::Result<u64> {
    InterfaceCounters::open()?.unsent(name)
}

/// The counters of all interfaces of a network namespace, opened once: threads that may open no files can read them.
#[derive(Debug)]
pub struct InterfaceCounters(File);

impl InterfaceCounters {
    /// Those of the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// The system's error, if `/proc` is not available.
    pub fn open() -> io::Result<Self> {
        File::open(NAMES).map(Self)
    }

    /// [`unsent`], of the namespace in which they were opened.
    ///
    /// # Errors
    ///
    /// [`NotFound`](io::ErrorKind::NotFound) without such an interface, and the system's error if they cannot be read.
    pub fn unsent(&self, name: &str) -> io::Result<u64> {
        dropped(&self.text()?, name)
    }

    /// From the beginning, wherever another thread reads.
    fn text(&self) -> io::Result<String> {
        let (mut text, mut piece) = (Vec::new(), [0; 4_096]);
        loop {
            match self.0.read_at(&mut piece, text.len() as u64) {
                Ok(0) => return String::from_utf8(text).map_err(io::Error::other),
                Ok(len) => text.extend_from_slice(&piece[..len]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn dropped(text: &str, name: &str) -> io::Result<u64> {
    /// Eight columns are about reception; then bytes, packets, errors and drops.
    const DROPPED: usize = 11;
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let counts = lines.find(|(other, _)| other.trim() == name).map(|(_, counts)| counts);
    let dropped = counts.and_then(|counts| counts.split_whitespace().nth(DROPPED)?.parse().ok());
    dropped.ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn describe(name: &str) -> io::Result<Interface> {
    let (flags, (hardware, address)) = (device::flags(name)?, device::hardware(name)?);
    Ok(Interface {
        name: name.to_owned(),
        state: state_of(flags),
        mtu: usize::try_from(device::mtu(name)?).unwrap_or(0),
        hardware,
        mac: (hardware == libc::ARPHRD_ETHER).then_some(address),
        device: described(name, device::index(name)?, address),
    })
}

/// From the lower 16 of its `IFF_*`.
fn state_of(flags: libc::c_short) -> State {
    let has = |bit: libc::c_int| i32::from(flags) & bit != 0;
    match (has(libc::IFF_UP), has(libc::IFF_RUNNING)) {
        (true, true) => State::Up,
        (true, false) => State::NoCarrier,
        (false, _) => State::Down,
    }
}

/// The device according to `/sys`, unless `/sys` shows another interface of this name.
fn described(name: &str, index: i32, address: [u8; 6]) -> Option<Device> {
    let folder = Path::new(FOLDER).join(name);
    let says = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let same_address = says("address").is_none_or(|text| {
        // Addresses of other lengths are not compared.
        text.trim().len() != 17 || text.trim() == format_mac(address)
    });
    if says("ifindex")?.trim() != index.to_string() || !same_address {
        return None;
    }
    let queues = |kind: &str| {
        let queues = fs::read_dir(folder.join("queues")).into_iter().flatten().flatten();
        queues.filter(|queue| queue.file_name().to_string_lossy().starts_with(kind)).count()
    };
    let driver = fs::read_link(folder.join("device/driver")).ok();
    let driver = driver.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    Some(Device {
        rx_queues: queues("rx-"),
        tx_queues: queues("tx-"),
        driver: driver.map(str::to_owned),
        is_tap: folder.join("tun_flags").exists(),
    })
}

/// An Ethernet address in the usual notation.
///
/// ```
/// use linecard_tun::interface::format_mac;
/// assert_eq!(format_mac([2, 0, 0, 0, 0, 0xAB]), "02:00:00:00:00:ab");
/// ```
#[must_use]
pub fn format_mac(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_before_the_kernel_sees_them() {
        for good in ["eth0", "tap%d", "t%dx", "lo", "a.100", "...", "all0", "abcdefghijklmno"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "abcdefghijklmnop", "a b", "a/b", "a:1", ".", "..", "é", "a\0"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        for bad in ["all", "default", "%", "a%", "%s", "%%d", "a%d%d", "%d%", "%%dd"] {
            let error = check_name(bad).expect_err(bad).to_string();
            assert!(error.contains(&format!("`{bad}`")) && !error.contains('\n'), "{error}");
        }
    }
}
