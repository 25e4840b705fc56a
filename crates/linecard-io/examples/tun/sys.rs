//! What std does not have: opening a TUN device, and waiting for two descriptors.
#![expect(unsafe_code, reason = "system calls have no safe form in std")]

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

/// What is read may be: checksums left open, TCP and UDP to be cut, both versions of IP.
const OFFLOADS: libc::c_uint =
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
/// Linux 6.2 and later.
const UDP_OFFLOADS: libc::c_uint = libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// A TUN device that gives and takes large packets behind a virtio header, little endian.
pub(crate) struct Tun(File);

impl Tun {
    pub(crate) fn new(name: &str, header_len: usize) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open("/dev/net/tun")?;
        // SAFETY: a struct of integers, for which zeros are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // Its last byte stays 0.
        for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        let (fd, len, little) = (file.as_raw_fd(), header_len as libc::c_int, 1 as libc::c_int);
        // SAFETY: `request` is what this call reads and writes, and lives during the call.
        check(unsafe { libc::ioctl(fd, libc::TUNSETIFF, &raw mut request) })?;
        // SAFETY: this call reads an integer, which lives during the call.
        check(unsafe { libc::ioctl(fd, libc::TUNSETVNETHDRSZ, &raw const len) })?;
        // SAFETY: as before.
        check(unsafe { libc::ioctl(fd, libc::TUNSETVNETLE, &raw const little) })?;
        let offer = |offloads: libc::c_uint| {
            // SAFETY: this call takes a number.
            check(unsafe { libc::ioctl(fd, libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads)) })
        };
        offer(OFFLOADS | UDP_OFFLOADS).or_else(|_| offer(OFFLOADS))?;
        Ok(Self(file))
    }

    pub(crate) fn file(&self) -> &File {
        &self.0
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Lets a socket keep this many bytes until they are read, and until they have left, or as many as
/// the system allows.
pub(crate) fn enlarge_buffers(socket: &UdpSocket, bytes: libc::c_int) -> io::Result<()> {
    let set = |name| {
        let (value, len) = ((&raw const bytes).cast(), size_of_val(&bytes) as libc::socklen_t);
        // SAFETY: `value` points to an integer of `len` bytes that lives during the call.
        check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, value, len) })
    };
    // Beyond the system's limit only for who may administer networks.
    set(libc::SO_SNDBUFFORCE).or_else(|_| set(libc::SO_SNDBUF))?;
    set(libc::SO_RCVBUFFORCE).or_else(|_| set(libc::SO_RCVBUF))
}

/// Waits until one of both can be read, or `time` has passed.
pub(crate) fn wait(device: &Tun, peer: &UdpSocket, time: Duration) -> io::Result<()> {
    let one = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut both = [one(device.0.as_raw_fd()), one(peer.as_raw_fd())];
    // SAFETY: two entries, which live during the call.
    let ready = unsafe { libc::poll(both.as_mut_ptr(), 2, time.as_millis() as libc::c_int) };
    check(ready)
}

/// A number that peers cannot know, for the flow hash.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0)
}
