//! `SIOCETHTOOL`: coalescing of interrupts, features by the kernel's names, and time stamps.
#![expect(unsafe_code, reason = "ioctl has no safe form in std")]

use super::check;
use linecard_tun::sys::device::{MAX_NAME, request};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

/// Numbers of `struct ethtool_coalesce` behind its command.
pub const COALESCING: usize = 22;
/// Bytes of a name in a set of names (`ETH_GSTRING_LEN`).
const NAME: usize = 32;
/// Features that are asked for; Linux 6.18 has 61.
const MAX_FEATURES: usize = 256;
/// The set of names of features (`ETH_SS_FEATURES`).
const FEATURES: u32 = 4;

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_SCOALESCE: u32 = 0x0f;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETHTOOL_GET_TS_INFO: u32 = 0x41;
/// Numbers of `struct ethtool_drvinfo`: the command, five names, and 32 bytes.
const DRIVER_INFO: usize = 1 + 5 * NAME / 4 + 8;
/// Numbers before the blocks of features: command, blocks.
const HEAD: usize = 2;
/// Numbers of a block that is read: available, requested, active, never changed.
const BLOCK: usize = 4;

/// Numbers of `struct ethtool_ts_info`: command, kinds of stamps, clock, kinds of sending, three reserved, filters, three
/// reserved.
const STAMPING: usize = 11;

/// How an interface stamps packets that it receives, by a clock of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamping {
    /// The number of the clock, `/dev/ptpN`.
    pub clock: u32,
    /// It can stamp every packet, not only those of PTP.
    pub every: bool,
}

/// A feature of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    /// It can be switched.
    pub available: bool,
    /// It was requested.
    pub requested: bool,
    /// It is on.
    pub active: bool,
}

/// The name of the driver behind an interface, as `veth`.
///
/// # Errors
///
/// As the system says.
pub fn driver(interface: &str) -> io::Result<String> {
    let mut words = [0; DRIVER_INFO];
    words[0] = ETHTOOL_GDRVINFO;
    call(interface, &mut words)?;
    let name: Vec<u8> = words[1..].iter().flat_map(|word| word.to_ne_bytes()).take(NAME).collect();
    Ok(text(&name))
}

/// How an interface stamps received packets, if it does so itself.
///
/// # Errors
///
/// As the system says.
pub fn stamping(interface: &str) -> io::Result<Option<Stamping>> {
    let mut words = [0; STAMPING];
    words[0] = ETHTOOL_GET_TS_INFO;
    call(interface, &mut words)?;
    Ok(Stamping::of(&words))
}

impl Stamping {
    fn of(words: &[u32; STAMPING]) -> Option<Self> {
        let wanted = libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        let clock = u32::try_from(words[2].cast_signed()).ok()?;
        let every = words[7] >> libc::HWTSTAMP_FILTER_ALL & 1 == 1;
        (words[1] & wanted == wanted).then_some(Self { clock, every })
    }
}

/// The packets that an interface stamps now: flags, kind of sending (`HWTSTAMP_TX_*`), filter of received packets
/// (`HWTSTAMP_FILTER_*`).
///
/// # Errors
///
/// As the system says.
pub fn stamped(interface: &str) -> io::Result<[u32; 3]> {
    let mut words = [0; 3];
    ask(libc::SIOCGHWTSTAMP, interface, &mut words)?;
    Ok(words)
}

/// Sets that. The driver may stamp more.
///
/// # Errors
///
/// As the system says.
pub fn set_stamped(interface: &str, mut words: [u32; 3]) -> io::Result<()> {
    ask(libc::SIOCSHWTSTAMP, interface, &mut words)
}

/// The 22 numbers of coalescing, in the order of `struct ethtool_coalesce`.
///
/// # Errors
///
/// As the system says.
pub fn coalescing(interface: &str) -> io::Result<[u32; COALESCING]> {
    let mut words = [0; COALESCING + 1];
    words[0] = ETHTOOL_GCOALESCE;
    call(interface, &mut words)?;
    let mut numbers = [0; COALESCING];
    numbers.copy_from_slice(&words[1..]);
    Ok(numbers)
}

/// Sets all of them.
///
/// # Errors
///
/// As the system says.
pub fn set_coalescing(interface: &str, numbers: &[u32; COALESCING]) -> io::Result<()> {
    let mut words = [ETHTOOL_SCOALESCE; COALESCING + 1];
    words[1..].copy_from_slice(numbers);
    call(interface, &mut words)
}

/// A feature by the kernel's name, as `rx-gro`; `None` where this kernel has no such name.
///
/// # Errors
///
/// As the system says.
pub fn feature(interface: &str, name: &str) -> io::Result<Option<Feature>> {
    let names = names(interface)?;
    let Some(index) = names.iter().position(|other| other == name) else { return Ok(None) };
    let blocks = names.len().div_ceil(32);
    let mut words = vec![0; HEAD + blocks * BLOCK];
    (words[0], words[1]) = (ETHTOOL_GFEATURES, blocks as u32);
    call(interface, &mut words)?;
    let block = &words[HEAD + index / 32 * BLOCK..][..BLOCK];
    let bit = |word: u32| word >> (index % 32) & 1 == 1;
    Ok(Some(Feature { available: bit(block[0]), requested: bit(block[1]), active: bit(block[2]) }))
}

/// Requests a feature, or that it be off. Whether it follows is for a later read to say.
///
/// # Errors
///
/// As the system says.
pub fn set_feature(interface: &str, name: &str, on: bool) -> io::Result<()> {
    let names = names(interface)?;
    let index = names.iter().position(|other| other == name);
    let index = index.ok_or_else(|| io::Error::from_raw_os_error(libc::EOPNOTSUPP))?;
    let blocks = names.len().div_ceil(32);
    // A block that is written: which bits are meant, and what they are to be.
    let mut words = vec![0; HEAD + blocks * 2];
    (words[0], words[1]) = (ETHTOOL_SFEATURES, blocks as u32);
    let (at, bit) = (HEAD + index / 32 * 2, 1 << (index % 32));
    (words[at], words[at + 1]) = (bit, if on { bit } else { 0 });
    call(interface, &mut words)
}

/// All names of features; each one's place is its bit.
fn names(interface: &str) -> io::Result<Vec<String>> {
    let mask = (1_u64 << FEATURES).to_ne_bytes();
    let half = |at: usize| u32::from_ne_bytes([mask[at], mask[at + 1], mask[at + 2], mask[at + 3]]);
    let mut count = [ETHTOOL_GSSET_INFO, 0, half(0), half(4), 0];
    call(interface, &mut count)?;
    let names = count[4] as usize;
    if names > MAX_FEATURES {
        return Err(io::Error::other(format!("{names} features, limit {MAX_FEATURES}")));
    }
    // Command, set, number of names, and room for as many as there can be.
    let mut words = vec![0; 3 + MAX_FEATURES * NAME / 4];
    (words[0], words[1], words[2]) = (ETHTOOL_GSTRINGS, FEATURES, names as u32);
    call(interface, &mut words)?;
    let bytes: Vec<u8> = words[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    Ok(bytes.chunks_exact(NAME).take(names).map(text).collect())
}

/// A name that a zero ends, unless it is as long as it may be.
fn text(name: &[u8]) -> String {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

/// One command of ethtool.
fn call(interface: &str, words: &mut [u32]) -> io::Result<()> {
    ask(libc::SIOCETHTOOL, interface, words)
}

/// One request, whose struct is all of `u32`. `words` must have room for what it writes, which the callers above see to.
fn ask(code: libc::c_ulong, interface: &str, words: &mut [u32]) -> io::Result<()> {
    if interface.len() > MAX_NAME {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let mut request = request(interface);
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: both structs live during the call. The kernel writes at most what the request's struct
    // holds, or the number of blocks or names said in it, for all of which the words have room:
    // `GSTRINGS` writes as many names as the kernel has, for which there is room by the check before.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), code as libc::Ioctl, &raw mut request) })
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_an_interface_have_a_clock() {
        // Answers of the kernel about a card with a clock, of one that stamps PTP only, and of a virtual one.
        let card = [ETHTOOL_GET_TS_INFO, 0x7F, 3, 3, 0, 0, 0, 0b11, 0, 0, 0];
        assert_eq!(Stamping::of(&card), Some(Stamping { clock: 3, every: true }));
        let mut only_ptp = card;
        only_ptp[7] = 1 << libc::HWTSTAMP_FILTER_PTP_V2_EVENT | 1;
        assert_eq!(Stamping::of(&only_ptp), Some(Stamping { clock: 3, every: false }));
        let software = [ETHTOOL_GET_TS_INFO, 0x1A, u32::MAX, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Stamping::of(&software), None);
    }

    #[test]
    fn the_loopback_interface_has_no_clock() {
        assert_eq!(stamping("lo").expect("every interface answers"), None);
        let error = stamped("lo").expect_err("it cannot stamp");
        assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
        assert!(stamping("no-such").is_err());
    }
}
