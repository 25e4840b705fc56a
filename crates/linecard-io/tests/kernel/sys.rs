//! The system calls that the witness needs and std does not have: packet sockets, and the order in
//! which threads run. The only file of this test with `unsafe`.
#![expect(unsafe_code, reason = "system calls have no safe form in std")]

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

/// Bytes of `struct virtio_net_hdr`, which stands before a frame.
pub(crate) const VNET_LEN: usize = 10;
/// Room for the longest frame and what stands before it.
const MAX_READ: usize = 1 << 17;
/// `PACKET_VNET_HDR_SZ` of `linux/if_packet.h`, which libc does not name.
const PACKET_VNET_HDR_SZ: libc::c_int = 24;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The first processor that the calling thread may run on.
pub(crate) fn first_processor() -> io::Result<usize> {
    // SAFETY: a set of bits, for which zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let len = size_of::<libc::cpu_set_t>();
    // SAFETY: `set` has room for `len` bytes.
    check(unsafe { libc::sched_getaffinity(0, len, &raw mut set) })?;
    // SAFETY: reads a bit of `set`, within its size.
    let first = (0..len * 8).find(|processor| unsafe { libc::CPU_ISSET(*processor, &set) });
    first.ok_or_else(|| io::Error::other("no processor"))
}

/// Lets a thread (0: the calling one) run on one processor only.
pub(crate) fn pin(thread: i32, processor: usize) -> io::Result<()> {
    // SAFETY: a set of bits, for which zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: sets a bit, within the size of `set`.
    unsafe { libc::CPU_SET(processor, &mut set) };
    let len = size_of::<libc::cpu_set_t>();
    // SAFETY: `set` is `len` bytes long and lives during the call.
    check(unsafe { libc::sched_setaffinity(thread, len, &raw const set) }).map(drop)
}

/// Lets a thread (0: the calling one) run before all ordinary ones, and those of lower priority.
pub(crate) fn real_time(thread: i32, priority: i32) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameter` lives during the call.
    check(unsafe { libc::sched_setscheduler(thread, libc::SCHED_FIFO, &raw const parameter) })
        .map(drop)
}

/// Number of an interface in the calling thread's namespace.
pub(crate) fn interface(name: &str) -> io::Result<u32> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: `name` ends with a zero and lives during the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// A frame with what the kernel says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    /// `struct virtio_net_hdr`, in the machine's byte order.
    pub(crate) vnet: [u8; VNET_LEN],
    pub(crate) frame: Vec<u8>,
    /// Sent by this machine, not received.
    pub(crate) outgoing: bool,
}

/// A raw packet socket on one interface of the namespace it was opened in.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

impl PacketSocket {
    /// For sending only; frames have a virtio header of `vnet_len` bytes before them, if not 0.
    pub(crate) fn sender(interface: u32, vnet_len: usize) -> io::Result<Self> {
        let socket = Self::open(interface, 0)?;
        if vnet_len > 0 {
            socket.set(libc::SOL_PACKET, PACKET_VNET_HDR_SZ, vnet_len as libc::c_int)?;
        }
        Ok(socket)
    }

    /// For receiving everything.
    pub(crate) fn receiver(interface: u32) -> io::Result<Self> {
        let socket = Self::open(interface, (libc::ETH_P_ALL as u16).to_be())?;
        socket.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
        Ok(socket)
    }

    fn open(interface: u32, protocol: u16) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers; the result is checked.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: just opened, and owned by nobody else.
        let socket = Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, buffer: vec![0; MAX_READ] };
        // A whole session waits in it.
        socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 64 << 20)?;
        socket.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 64 << 20)?;
        // SAFETY: a struct of integers, for which zeros are valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = interface as i32;
        let len = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: `address` is a socket address of `len` bytes and lives during the call.
        check(unsafe { libc::bind(socket.fd.as_raw_fd(), (&raw const address).cast(), len) })?;
        Ok(socket)
    }

    fn set(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        let len = size_of::<libc::c_int>() as u32;
        let value = (&raw const value).cast();
        // SAFETY: `value` points to an integer of `len` bytes that lives during the call.
        check(unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, name, value, len) }).map(drop)
    }

    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: `frame` is readable for its length.
        let sent = unsafe {
            libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT)
        };
        if sent == frame.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits until something can be received; whether it can.
    pub(crate) fn wait(&self, time: Duration) -> io::Result<bool> {
        let mut poll = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which lives during the call.
        check(unsafe { libc::poll(&raw mut poll, 1, time.as_millis() as libc::c_int) })
            .map(|ready| ready > 0)
    }

    /// The next frame, none when there is none now.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Received>> {
        // SAFETY: structs of integers and pointers, for which zeros are valid.
        let (mut message, mut from): (libc::msghdr, libc::sockaddr_ll) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // Aligned for the control header, which is read in place.
        let mut control = [0_u64; 16];
        let (base, len) = (self.buffer.as_mut_ptr().cast(), self.buffer.len());
        let mut vector = libc::iovec { iov_base: base, iov_len: len };
        (message.msg_name, message.msg_namelen) =
            ((&raw mut from).cast(), size_of::<libc::sockaddr_ll>() as u32);
        (message.msg_iov, message.msg_iovlen) = (&raw mut vector, 1);
        (message.msg_control, message.msg_controllen) =
            (control.as_mut_ptr().cast(), size_of_val(&control));
        let fd = self.fd.as_raw_fd();
        // SAFETY: every pointer in `message` is to memory of the length beside it that lives here.
        let got = unsafe { libc::recvmsg(fd, &raw mut message, libc::MSG_DONTWAIT) };
        if got < 0 {
            let error = io::Error::last_os_error();
            let none = error.kind() == io::ErrorKind::WouldBlock;
            return if none { Ok(None) } else { Err(error) };
        }
        let (vnet, frame) = self.buffer[..got as usize].split_at(VNET_LEN);
        let mut vnet: [u8; VNET_LEN] = vnet.try_into().expect("split there");
        let mut frame = frame.to_vec();
        if let Some(tag) = vlan_tag(&message) {
            frame.splice(12..12, tag);
            // Where the checksum starts was told for the frame without its tag.
            let start = u16::from_ne_bytes([vnet[6], vnet[7]]) + 4;
            vnet[6..8].copy_from_slice(&start.to_ne_bytes());
        }
        let outgoing = from.sll_pkttype == libc::PACKET_OUTGOING;
        Ok(Some(Received { vnet, frame, outgoing }))
    }
}

/// A TAP device of the namespace it was opened in, gone when dropped.
#[derive(Debug)]
pub(crate) struct Tap {
    file: File,
    buffer: Vec<u8>,
}

impl Tap {
    /// A device whose frames have a virtio header of `vnet_len` bytes, little endian, before them;
    /// `offloads` are what its reader can do, bits of `TUN_F_*`.
    pub(crate) fn new(name: &str, vnet_len: usize, offloads: libc::c_uint) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let file = std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK)
            .open("/dev/net/tun")?;
        // SAFETY: a struct of integers, for which zeros are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // Its last byte stays 0.
        for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        let (fd, len, little) = (file.as_raw_fd(), vnet_len as libc::c_int, 1 as libc::c_int);
        // SAFETY: `request` is what this call reads and writes, and lives during the call.
        check(unsafe { libc::ioctl(fd, libc::TUNSETIFF, &raw mut request) })?;
        // SAFETY: this call reads an integer, which lives during the call.
        check(unsafe { libc::ioctl(fd, libc::TUNSETVNETHDRSZ, &raw const len) })?;
        // SAFETY: as before.
        check(unsafe { libc::ioctl(fd, libc::TUNSETVNETLE, &raw const little) })?;
        // SAFETY: this call takes a number.
        let set = unsafe { libc::ioctl(fd, libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads)) };
        check(set)?;
        Ok(Self { file, buffer: vec![0; MAX_READ] })
    }

    /// Puts a frame with its header into the kernel, as if it had come by a cable.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let written = (&self.file).write(bytes)?;
        if written == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// The next frame that the kernel sends by this device, its header before it; none when none
    /// comes in `time`.
    pub(crate) fn read(&mut self, time: Duration) -> io::Result<Option<Vec<u8>>> {
        let mut poll = libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which lives during the call.
        check(unsafe { libc::poll(&raw mut poll, 1, time.as_millis() as libc::c_int) })?;
        match self.file.read(&mut self.buffer) {
            Ok(len) => Ok(Some(self.buffer[..len].to_vec())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The VLAN tag that the kernel took out of the frame.
fn vlan_tag(message: &libc::msghdr) -> Option<[u8; 4]> {
    // SAFETY: the kernel has filled `message`; a header, if there is one, is whole and aligned.
    let header = unsafe { ptr::NonNull::new(libc::CMSG_FIRSTHDR(message))?.as_ref() };
    if (header.cmsg_level, header.cmsg_type) != (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
        return None;
    }
    // SAFETY: data of this type is one `tpacket_auxdata`.
    let data: libc::tpacket_auxdata =
        unsafe { ptr::read_unaligned(libc::CMSG_DATA(header).cast()) };
    if data.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let [a, b] = data.tp_vlan_tpid.to_be_bytes();
    let [c, d] = data.tp_vlan_tci.to_be_bytes();
    Some([a, b, c, d])
}
