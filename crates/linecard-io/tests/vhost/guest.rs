//! A guest and its front end: messages as bytes, and rings in a file that both sides map.
//!
//! It uses none of the port's crates for the protocol, so that both are checked against the specifications.

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Where the guest, and the front end, see the memory.
pub(crate) const GUEST: u64 = 0x4000_0000;
pub(crate) const USER: u64 = 0x7f12_3400_0000;
pub(crate) const MEMORY_LEN: u64 = 8 << 20;
/// Entries of each ring.
pub(crate) const ENTRIES: u16 = 256;
/// Where packets lie, behind the rings.
pub(crate) const BUFFERS: u64 = 1 << 20;

const RING_LEN: u64 = 0x1_0000;
const AVAILABLE: u64 = 0x4000;
const USED: u64 = 0x8000;

pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;

/// Requests of vhost-user.
pub(crate) mod request {
    pub(crate) const GET_FEATURES: u32 = 1;
    pub(crate) const SET_FEATURES: u32 = 2;
    pub(crate) const SET_OWNER: u32 = 3;
    pub(crate) const SET_MEM_TABLE: u32 = 5;
    pub(crate) const SET_LOG_BASE: u32 = 6;
    pub(crate) const SET_VRING_NUM: u32 = 8;
    pub(crate) const SET_VRING_ADDR: u32 = 9;
    pub(crate) const SET_VRING_BASE: u32 = 10;
    pub(crate) const GET_VRING_BASE: u32 = 11;
    pub(crate) const SET_VRING_KICK: u32 = 12;
    pub(crate) const SET_VRING_CALL: u32 = 13;
    pub(crate) const SET_VRING_ERR: u32 = 14;
    pub(crate) const GET_PROTOCOL_FEATURES: u32 = 15;
    pub(crate) const SET_PROTOCOL_FEATURES: u32 = 16;
    pub(crate) const GET_QUEUE_NUM: u32 = 17;
    pub(crate) const SET_VRING_ENABLE: u32 = 18;
}

/// Bits of features.
pub(crate) mod feature {
    pub(crate) const CSUM: u64 = 1;
    pub(crate) const GUEST_CSUM: u64 = 1 << 1;
    pub(crate) const GUEST_TSO4: u64 = 1 << 7;
    pub(crate) const GUEST_USO: u64 = 3 << 54;
    pub(crate) const HOST_USO: u64 = 1 << 56;
    pub(crate) const MRG_RXBUF: u64 = 1 << 15;
    pub(crate) const MQ: u64 = 1 << 22;
    pub(crate) const LOG_ALL: u64 = 1 << 26;
    pub(crate) const EVENT_IDX: u64 = 1 << 29;
    pub(crate) const PROTOCOL: u64 = 1 << 30;
    pub(crate) const VERSION_1: u64 = 1 << 32;
    /// The features that a usual guest accepts.
    pub(crate) const USUAL: u64 =
        CSUM | GUEST_CSUM | GUEST_TSO4 | GUEST_USO | HOST_USO | MRG_RXBUF | PROTOCOL | VERSION_1;
}

/// The front end's connection.
pub(crate) struct FrontEnd {
    pub(crate) stream: UnixStream,
}

impl FrontEnd {
    pub(crate) fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).expect("the port listens");
        stream.set_nonblocking(true).expect("a socket");
        Self { stream }
    }

    /// Sends a request; errors are those of a connection that was closed.
    pub(crate) fn send(&self, code: u32, body: &[u8], files: &[BorrowedFd<'_>]) -> bool {
        let mut bytes = [code.to_ne_bytes(), 1_u32.to_ne_bytes()].concat();
        bytes.extend((body.len() as u32).to_ne_bytes());
        bytes.extend(body);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(files)));
        let parts = [IoSlice::new(&bytes)];
        sendmsg(&self.stream, &parts, &mut control, SendFlags::NOSIGNAL).is_ok()
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("a connection");
    }

    /// The number of a reply, if it has arrived.
    pub(crate) fn reply(&mut self) -> Option<u64> {
        let mut bytes = [0; 20];
        match self.stream.read(&mut bytes) {
            Ok(20) => bytes[12..].first_chunk().map(|body| u64::from_ne_bytes(*body)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            other => unreachable!("no reply but {other:?}"),
        }
    }

    /// Whether the port has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.stream.read(&mut [0; 64]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// Two numbers as the body of a request.
pub(crate) fn pair(index: u32, value: u32) -> [u8; 8] {
    (u64::from(value) << 32 | u64::from(index)).to_le_bytes()
}

/// The memory of a guest, as it sees it.
pub(crate) struct Memory {
    pub(crate) file: File,
}

impl Memory {
    pub(crate) fn new() -> Self {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(MEMORY_LEN).expect("room");
        Self { file }
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, at).expect("inside");
    }

    pub(crate) fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, at).expect("inside");
        bytes
    }

    pub(crate) fn read_u16(&self, at: u64) -> u16 {
        u16::from_le_bytes(*self.read(at, 2).first_chunk().expect("two"))
    }

    /// The same bytes in another file.
    pub(crate) fn copy(&self) -> Self {
        let other = Self::new();
        other.write(0, &self.read(0, MEMORY_LEN as usize));
        other
    }

    /// The body of the message that describes it as two halves, between which the guest sees a gap.
    pub(crate) fn halves(gap: u64) -> Vec<u8> {
        let half = MEMORY_LEN / 2;
        let numbers = [2, GUEST, half, USER, 0, GUEST + half + gap, half, USER + half, half];
        numbers.iter().flat_map(|number: &u64| number.to_ne_bytes()).collect()
    }

    /// The body of the message that describes it.
    pub(crate) fn table(len: u64) -> Vec<u8> {
        let numbers = [1, GUEST, len, USER, 0];
        numbers.iter().flat_map(|number: &u64| number.to_ne_bytes()).collect()
    }
}

/// A ring as a driver sees it.
pub(crate) struct Ring {
    pub(crate) number: u32,
    base: u64,
    /// The next descriptor, available entry and used entry.
    descriptor: u16,
    available: u16,
    used: u16,
    pub(crate) kick: OwnedFd,
    pub(crate) call: OwnedFd,
    pub(crate) error: OwnedFd,
    /// Buffers from which the guest receives, by their first descriptor.
    posted: VecDeque<(u16, u64, u32)>,
}

impl Ring {
    pub(crate) fn new(number: u32) -> Self {
        let event =
            || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a free one");
        Self {
            number,
            base: u64::from(number) * RING_LEN,
            descriptor: 0,
            available: 0,
            used: 0,
            kick: event(),
            call: event(),
            error: event(),
            posted: VecDeque::new(),
        }
    }

    /// The body of the message that says where it is.
    pub(crate) fn addresses(&self) -> Vec<u8> {
        let at = USER + self.base;
        let numbers = [u64::from(self.number), at, at + USED, at + AVAILABLE, 0];
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    pub(crate) fn available_at(&self) -> u64 {
        self.base + AVAILABLE
    }

    pub(crate) fn used_at(&self) -> u64 {
        self.base + USED
    }

    /// Writes a descriptor.
    pub(crate) fn describe(
        &self,
        memory: &Memory,
        number: u16,
        at: u64,
        len: u32,
        flags: u16,
        next: u16,
    ) {
        memory.write(self.base + u64::from(number) * 16, &descriptor(at, len, flags, next));
    }

    /// Makes the chain that starts at a descriptor available.
    pub(crate) fn provide(&mut self, memory: &Memory, head: u16) {
        let entry = u64::from(self.available % ENTRIES);
        memory.write(self.available_at() + 4 + 2 * entry, &head.to_le_bytes());
        self.available = self.available.wrapping_add(1);
        memory.write(self.available_at() + 2, &self.available.to_le_bytes());
    }

    /// Provides a chain of these parts, of guest addresses.
    pub(crate) fn chain(&mut self, memory: &Memory, parts: &[(u64, u32)], flags: u16) -> u16 {
        let head = self.descriptor;
        for (number, &(at, len)) in parts.iter().enumerate() {
            let this = self.descriptor;
            self.descriptor = (this + 1) % ENTRIES;
            let flags = if number + 1 < parts.len() { flags | NEXT } else { flags };
            self.describe(memory, this, at, len, flags, self.descriptor);
        }
        self.provide(memory, head);
        head
    }

    /// Provides a buffer to receive into.
    pub(crate) fn post(&mut self, memory: &Memory, at: u64, len: u32) {
        let head = self.chain(memory, &[(GUEST + at, len)], WRITE);
        self.posted.push_back((head, at, len));
    }

    /// The next used chain with its length.
    pub(crate) fn next_used(&mut self, memory: &Memory) -> Option<(u16, u32)> {
        if memory.read_u16(self.used_at() + 2) == self.used {
            return None;
        }
        let entry = memory.read(self.used_at() + 4 + 8 * u64::from(self.used % ENTRIES), 8);
        self.used = self.used.wrapping_add(1);
        let number = |bytes: &[u8]| u32::from_le_bytes(*bytes.first_chunk().expect("four"));
        Some((number(&entry) as u16, number(&entry[4..])))
    }

    /// The next packet: header and frame, gathered of as many buffers as the header says.
    pub(crate) fn next_packet(&mut self, memory: &Memory) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut bytes = self.next_buffer(memory)?;
        let buffers = u16::from_le_bytes([bytes[10], bytes[11]]);
        for _ in 1..buffers {
            bytes.extend(self.next_buffer(memory).expect("all are there when one is"));
        }
        let frame = bytes.split_off(12);
        Some((bytes, frame))
    }

    fn next_buffer(&mut self, memory: &Memory) -> Option<Vec<u8>> {
        let (head, len) = self.next_used(memory)?;
        let (first, at, room) = self.posted.pop_front().expect("as many as posted");
        assert!(head == first && len <= room, "{head} {first} {len}");
        Some(memory.read(at, len as usize))
    }

    /// Whether the event has been signalled since the last call.
    pub(crate) fn is_signalled(event: impl AsFd) -> bool {
        rustix::io::read(event, &mut [0; 8]).is_ok()
    }
}

/// A descriptor.
pub(crate) fn descriptor(at: u64, len: u32, flags: u16, next: u16) -> Vec<u8> {
    let mut bytes = at.to_le_bytes().to_vec();
    bytes.extend(len.to_le_bytes());
    bytes.extend(flags.to_le_bytes());
    bytes.extend(next.to_le_bytes());
    bytes
}

/// A guest with one queue pair: it receives from the first ring and sends by the second.
pub(crate) struct Guest {
    pub(crate) front: FrontEnd,
    pub(crate) memory: Memory,
    pub(crate) rx: Ring,
    pub(crate) tx: Ring,
}

impl Guest {
    /// Connects and configures everything, without waiting for replies.
    pub(crate) fn start(path: &Path, features: u64) -> Self {
        let front = FrontEnd::connect(path);
        let guest = Self { front, memory: Memory::new(), rx: Ring::new(0), tx: Ring::new(1) };
        guest.configure(features);
        guest
    }

    pub(crate) fn configure(&self, features: u64) {
        let send = |code, body: &[u8], files: &[BorrowedFd<'_>]| {
            assert!(self.front.send(code, body, files), "a connection");
        };
        send(request::SET_OWNER, &[], &[]);
        send(request::SET_FEATURES, &features.to_ne_bytes(), &[]);
        send(request::SET_MEM_TABLE, &Memory::table(MEMORY_LEN), &[self.memory.file.as_fd()]);
        for ring in [&self.rx, &self.tx] {
            let number = ring.number;
            let index = u64::from(number).to_ne_bytes();
            send(request::SET_VRING_NUM, &pair(number, ENTRIES.into()), &[]);
            send(request::SET_VRING_BASE, &pair(number, ring.available.into()), &[]);
            send(request::SET_VRING_ADDR, &ring.addresses(), &[]);
            send(request::SET_VRING_CALL, &index, &[ring.call.as_fd()]);
            send(request::SET_VRING_ERR, &index, &[ring.error.as_fd()]);
            send(request::SET_VRING_KICK, &index, &[ring.kick.as_fd()]);
            if features & feature::PROTOCOL != 0 {
                send(request::SET_VRING_ENABLE, &pair(number, 1), &[]);
            }
        }
    }

    /// Sends a frame behind a header, in one descriptor.
    pub(crate) fn send(&mut self, header: &[u8; 12], frame: &[u8]) {
        let at = BUFFERS + u64::from(self.tx.available % ENTRIES) * 0x1000;
        self.memory.write(at, &[&header[..], frame].concat());
        let len = (12 + frame.len()) as u32;
        self.tx.chain(&self.memory, &[(GUEST + at, len)], 0);
    }

    /// Provides buffers of this length to receive into.
    pub(crate) fn post(&mut self, buffers: u64, len: u32) {
        for _ in 0..buffers {
            let at = (4 << 20) + u64::from(self.rx.available % ENTRIES) * 0x2000;
            self.rx.post(&self.memory, at, len);
        }
    }
}
