//! A lane of UDP datagrams: many by one call, segmented and merged by the kernel.
//!
//! Datagrams sent in one call pass the host as one packet (`UDP_SEGMENT`), and received ones are merged where the
//! kernel can (`UDP_GRO`). Nothing is fragmented: a datagram that is too long is refused here, and lost on the way.

use super::buffer::{ReceiveBuffer, SLOT_BYTES, SLOTS};
use super::error::or_none;
use super::open::{At, OpenError};
use super::{Datagrams, Lane, LaneError, MAX_DATAGRAM_BYTES, MAX_SEND, sys};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use rustix::net::sockopt;
use socket2::{Socket, Type};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

/// Receive buffer of a socket: 64 ms at 1 Gbit/s.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;
/// Send buffer of a socket; more would only wait longer.
const SEND_BUFFER_BYTES: usize = 1 << 20;
/// The packets of one call should still be in the cache when the last one is decrypted.
const CACHED_BYTES: usize = 256 << 10;
/// Merged packets that a call takes, however long they are.
const LEAST_SLOTS: usize = 4;
/// IPv4 and UDP headers.
const HEADERS_V4: usize = 20 + 8;
/// IPv6 and UDP headers.
const HEADERS_V6: usize = 40 + 8;

/// A UDP socket of its own, connected on the sending end.
#[derive(Debug)]
pub struct Udp {
    socket: Socket,
    state: UdpSocketState,
    peer: Option<SocketAddr>,
    name: String,
    max_datagram: usize,
    note: Option<String>,
    calls: u64,
    /// Merged packets that the next call takes at most.
    slots: usize,
    is_drained: bool,
}

impl Udp {
    /// The sending end: from `at` to `peer`; it receives only from there.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: an interface or address that this host does not have, a port in use, no route.
    pub fn connect(at: &At, peer: SocketAddr) -> Result<Self, OpenError> {
        let socket = at.socket(Type::DGRAM, Some(peer))?;
        socket.connect(&peer.into()).map_err(|source| at.failed(source))?;
        Self::of(socket, Some(peer)).map_err(|source| at.failed(source))
    }

    /// The receiving end: accepts packets from every source that sends to `at`. It sends after [`Lane::answer_to`].
    ///
    /// # Errors
    ///
    /// [`OpenError`], as above.
    pub fn bind(at: &At) -> Result<Self, OpenError> {
        let socket = at.socket(Type::DGRAM, None)?;
        Self::of(socket, None).map_err(|source| at.failed(source))
    }

    /// This end's address.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        local(&self.socket)
    }

    /// System calls that have sent something.
    #[must_use]
    pub const fn send_calls(&self) -> u64 {
        self.calls
    }

    fn of(socket: Socket, peer: Option<SocketAddr>) -> io::Result<Self> {
        let note = enlarge(&socket);
        let state = UdpSocketState::new((&socket).into())?;
        let mut name = format!("udp {}", local(&socket)?);
        if let Some(peer) = peer {
            name = format!("{name} to {peer}");
        }
        let max_datagram = fitting(&socket, peer);
        Ok(Self {
            socket,
            state,
            peer,
            name,
            max_datagram,
            note,
            calls: 0,
            slots: SLOTS,
            is_drained: false,
        })
    }

    /// Sends all of `part` by one call.
    fn give(&mut self, part: &Datagrams<'_>, peer: SocketAddr) -> io::Result<()> {
        let transmit = Transmit {
            destination: peer,
            ecn: None,
            contents: part.bytes,
            segment_size: (part.count() > 1).then_some(part.stride),
            src_ip: None,
        };
        self.state.try_send((&self.socket).into(), &transmit)?;
        self.calls += 1;
        Ok(())
    }

    /// Meaning of a failed call, and whether to retry without `UDP_SEGMENT`.
    fn judge(&mut self, error: io::Error, part: &Datagrams<'_>) -> Result<usize, LaneError> {
        let bytes = part.stride.min(part.bytes.len());
        match error.raw_os_error() {
            Some(libc::EMSGSIZE | libc::EINVAL | libc::EIO) => {
                self.max_datagram = fitting(&self.socket, self.peer);
                if bytes <= self.max_datagram && error.raw_os_error() != Some(libc::EMSGSIZE) {
                    return Err(LaneError::System(error));
                }
                // A packet that is too long says nothing about segmentation, which was given up for it.
                self.state =
                    UdpSocketState::new((&self.socket).into()).map_err(LaneError::System)?;
                Err(LaneError::TooLong { bytes, limit: self.max_datagram.min(bytes - 1) })
            }
            _ => or_none(error),
        }
    }
}

impl Lane for Udp {
    fn send(&mut self, datagrams: &Datagrams<'_>) -> Result<usize, LaneError> {
        let all = datagrams.bounded(self.max_datagram)?;
        let Some(peer) = self.peer else {
            return Err(LaneError::System(io::ErrorKind::NotConnected.into()));
        };
        let mut taken = 0;
        while taken < all.count() {
            let at_once = self.state.max_gso_segments().clamp(1, MAX_SEND);
            let part = all.after(taken).first(at_once);
            let Err(error) = self.give(&part, peer) else {
                taken += part.count();
                continue;
            };
            // The interface cannot segment: send them one by one.
            if part.count() > self.state.max_gso_segments() && part.stride <= self.max_datagram {
                continue;
            }
            match self.judge(error, &part) {
                Err(error) if taken == 0 => return Err(error),
                _ => break,
            }
        }
        Ok(taken)
    }

    fn receive(&mut self, received: &mut ReceiveBuffer) -> Result<usize, LaneError> {
        let area = received.begin();
        let mut slots = area.chunks_exact_mut(SLOT_BYTES);
        let mut buffers: [IoSliceMut<'_>; SLOTS] =
            std::array::from_fn(|_| IoSliceMut::new(slots.next().unwrap_or_default()));
        let mut meta = [RecvMeta::default(); SLOTS];
        let buffers = &mut buffers[..self.slots];
        let came = match self.state.recv((&self.socket).into(), buffers, &mut meta) {
            Ok(came) => came,
            Err(error) => return or_none(error),
        };
        self.is_drained = came < self.slots;
        let bytes: usize = meta.iter().take(came).map(|meta| meta.len).sum();
        self.slots = (CACHED_BYTES * came / bytes.max(1)).clamp(LEAST_SLOTS, SLOTS);
        let runs = meta.iter().enumerate().take(came);
        Ok(runs
            .map(|(slot, meta)| {
                received.add(slot * SLOT_BYTES, (meta.len, meta.stride), Some(meta.addr))
            })
            .sum())
    }

    fn is_drained(&self) -> bool {
        self.is_drained
    }

    fn answer_to(&mut self, peer: SocketAddr) {
        if self.peer != Some(peer) {
            self.peer = Some(peer);
            self.name = match local(&self.socket) {
                Ok(own) => format!("udp {own} to {peer}"),
                Err(_) => format!("udp to {peer}"),
            };
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn describe(&self) -> String {
        self.name.clone()
    }

    fn is_stream(&self) -> bool {
        false
    }

    fn max_datagram(&self) -> usize {
        self.max_datagram
    }

    fn dropped(&self) -> u64 {
        sys::drops(self.socket.as_fd()).unwrap_or(0).into()
    }

    fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }
}

/// Requests large buffers, first as a privileged process, beyond the limits; what was not granted.
fn enlarge(socket: &Socket) -> Option<String> {
    if sockopt::set_socket_recv_buffer_size_force(socket, RECEIVE_BUFFER_BYTES).is_err() {
        // The size is read back: a refusal shows there.
        let _refused = socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES);
    }
    if sockopt::set_socket_send_buffer_size_force(socket, SEND_BUFFER_BYTES).is_err() {
        let _refused = socket.set_send_buffer_size(SEND_BUFFER_BYTES);
    }
    // Linux reports twice the requested value (socket(7)).
    let granted = socket.recv_buffer_size().unwrap_or(0) / 2;
    (granted < RECEIVE_BUFFER_BYTES).then(|| {
        format!(
            "the kernel grants a receive buffer of {} KiB instead of {}: bursts may be lost; \
             `sysctl -w net.core.rmem_max={RECEIVE_BUFFER_BYTES}` allows more",
            granted >> 10,
            RECEIVE_BUFFER_BYTES >> 10,
        )
    })
}

/// The longest datagram that the way to `peer` is known to carry.
fn fitting(socket: &Socket, peer: Option<SocketAddr>) -> usize {
    let (mtu, headers) = match peer.map(|peer| peer.ip()) {
        Some(IpAddr::V4(_)) => (sockopt::ip_mtu(socket), HEADERS_V4),
        Some(IpAddr::V6(_)) => (sockopt::ipv6_mtu(socket), HEADERS_V6),
        None => return MAX_DATAGRAM_BYTES,
    };
    // Sockets that are not connected have no way, and no MTU.
    let mtu = mtu.map_or(usize::MAX, |mtu| mtu as usize);
    mtu.saturating_sub(headers).clamp(1, MAX_DATAGRAM_BYTES)
}

fn local(socket: &Socket) -> io::Result<SocketAddr> {
    let address = socket.local_addr()?.as_socket();
    address.ok_or_else(|| io::Error::other("a socket without an address"))
}
