//! The memory of a port (UMEM): frames of equal size, each owned by one side at a time.
//!
//! The owner of each frame is recorded, so that a frame that a driver returns twice, or that is not
//! ours, is refused instead of being used twice.
#![expect(unsafe_code, reason = "frames are parts of memory that the kernel writes too")]

use super::sys::Mapping;
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::rc::Rc;
use std::slice;

/// The owner of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// It is in the free list.
    Nobody,
    /// The kernel, to receive into.
    Filling,
    /// The kernel, to send.
    Sending,
    /// An [`XdpBuffer`].
    Buffer,
    /// An [`XdpBuffer`], while the kernel sends from it.
    BufferSending,
}

/// Frames of one port.
pub(super) struct Umem {
    memory: Mapping,
    frame_len: u32,
    frames: RefCell<Frames>,
}

struct Frames {
    owner: Vec<Owner>,
    free: Vec<u32>,
}

impl Umem {
    /// Takes memory for `frames` frames of `frame_len` bytes, a power of two of a page at most.
    pub(super) fn new(frames: u32, frame_len: u32) -> io::Result<Rc<Self>> {
        let len = (frames as usize).checked_mul(frame_len as usize);
        let len = len.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let memory = Mapping::anonymous(len)?;
        // The frames at the start are handed out first.
        let free = (0..frames).rev().collect();
        let owner = vec![Owner::Nobody; frames as usize];
        Ok(Rc::new(Self { memory, frame_len, frames: RefCell::new(Frames { owner, free }) }))
    }

    pub(super) fn memory(&self) -> &Mapping {
        &self.memory
    }

    pub(super) fn frame_len(&self) -> u32 {
        self.frame_len
    }

    /// Number of free frames.
    pub(super) fn free(&self) -> usize {
        self.frames.borrow().free.len()
    }

    /// Number of frames in buffers.
    pub(super) fn in_buffers(&self) -> usize {
        let in_buffer = |owner: &&Owner| matches!(owner, Owner::Buffer | Owner::BufferSending);
        self.frames.borrow().owner.iter().filter(in_buffer).count()
    }

    /// Takes a free frame for the kernel to receive into: its address in the UMEM.
    pub(super) fn take_to_fill(&self) -> Option<u64> {
        let frame = self.frames.borrow_mut().take(Owner::Filling)?;
        Some(u64::from(frame) * u64::from(self.frame_len))
    }

    /// Returns a frame that was not passed to the kernel after all.
    pub(super) fn untake(&self, address: u64) {
        if let Some((frame, _)) = self.frame_at(address) {
            self.frames.borrow_mut().change(frame, Owner::Filling, Owner::Nobody);
        }
    }

    /// The buffer of a received packet: `len` bytes at `address`. None if that is not inside a
    /// frame that the kernel was given to fill.
    pub(super) fn received(self: &Rc<Self>, address: u64, len: u32) -> Option<XdpBuffer> {
        let (frame, offset) = self.frame_at(address)?;
        if len > self.frame_len - offset {
            return None;
        }
        let changed = self.frames.borrow_mut().change(frame, Owner::Filling, Owner::Buffer);
        changed.then(|| self.buffer_of(frame, offset, len))
    }

    /// A free frame as a buffer of `len` bytes with arbitrary contents. None if no frame is free or
    /// `len` is too large.
    pub(super) fn buffer(self: &Rc<Self>, len: usize) -> Option<XdpBuffer> {
        let len = u32::try_from(len).ok().filter(|len| *len <= self.frame_len)?;
        let frame = self.frames.borrow_mut().take(Owner::Buffer)?;
        Some(self.buffer_of(frame, 0, len))
    }

    /// The only buffer of a frame whose owner has just become [`Owner::Buffer`].
    fn buffer_of(self: &Rc<Self>, frame: u32, offset: u32, len: u32) -> XdpBuffer {
        let at = frame as usize * self.frame_len as usize + offset as usize;
        // SAFETY: inside the memory: frames below their number, offsets below a frame's length.
        let start = unsafe { self.memory.start().add(at) };
        XdpBuffer(Storage::Frame(Frame { umem: Rc::clone(self), start, len, frame }))
    }

    /// Passes the frame that contains `bytes` to the kernel for sending: returns their address in
    /// the UMEM. None if they are not in one of our frames, or the kernel is already sending from
    /// it.
    pub(super) fn lend(&self, bytes: &[u8]) -> Option<u64> {
        let address = bytes.as_ptr().addr().checked_sub(self.memory.start().addr().get())?;
        let address = u64::try_from(address).ok()?;
        let (frame, offset) = self.frame_at(address)?;
        let inside = bytes.len() <= (self.frame_len - offset) as usize;
        let mut frames = self.frames.borrow_mut();
        (inside && frames.change(frame, Owner::Buffer, Owner::BufferSending)).then_some(address)
    }

    /// Takes back a frame that the kernel has sent; returns whether it was being sent.
    pub(super) fn sent(&self, address: u64) -> bool {
        let Some((frame, _)) = self.frame_at(address) else { return false };
        let mut frames = self.frames.borrow_mut();
        frames.change(frame, Owner::Sending, Owner::Nobody)
            || frames.change(frame, Owner::BufferSending, Owner::Buffer)
    }

    /// The frame that contains an address, and the offset in that frame.
    fn frame_at(&self, address: u64) -> Option<(u32, u32)> {
        let frame_len = u64::from(self.frame_len);
        let frame = u32::try_from(address / frame_len).ok()?;
        let known = (frame as usize) < self.memory.len() / self.frame_len as usize;
        known.then_some((frame, (address % frame_len) as u32))
    }
}

impl fmt::Debug for Umem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frames = self.memory.len() / self.frame_len as usize;
        write!(f, "Umem({} of {frames} frames of {} bytes free)", self.free(), self.frame_len)
    }
}

impl Frames {
    fn take(&mut self, owner: Owner) -> Option<u32> {
        let frame = self.free.pop()?;
        self.owner[frame as usize] = owner;
        Some(frame)
    }

    /// Changes the owner of a frame; returns whether the previous owner was the expected one.
    fn change(&mut self, frame: u32, from: Owner, to: Owner) -> bool {
        let owner = &mut self.owner[frame as usize];
        if *owner != from {
            return false;
        }
        *owner = to;
        if to == Owner::Nobody {
            self.free.push(frame);
        }
        true
    }
}

/// Bytes of a packet at an AF_XDP port: in the frame into which the kernel wrote them, or bytes of
/// your own to be sent.
///
/// A buffer of a frame returns it to its port on drop. Until then the port cannot receive into it:
/// hold no more than [`Config::spare_frames`](super::Config::spare_frames). Like its port, a buffer
/// stays on one thread.
///
/// ```
/// use linecard_io::port::xdp::XdpBuffer;
/// let own = XdpBuffer::from(vec![0xFF; 60]);
/// assert_eq!(own.as_ref().len(), 60);
/// assert!(!own.is_frame());
/// ```
#[derive(Debug)]
pub struct XdpBuffer(Storage);

#[derive(Debug)]
enum Storage {
    Frame(Frame),
    Own(Vec<u8>),
}

struct Frame {
    umem: Rc<Umem>,
    start: NonNull<u8>,
    len: u32,
    frame: u32,
}

impl XdpBuffer {
    /// Whether the bytes are in a frame of a port, which sends them without copying.
    #[must_use]
    pub fn is_frame(&self) -> bool {
        matches!(self.0, Storage::Frame(_))
    }

    /// Shortens the buffer to the bytes in use; has no effect if `len` is larger.
    pub fn truncate(&mut self, len: usize) {
        match &mut self.0 {
            // A length that does not fit is larger.
            Storage::Frame(frame) => {
                frame.len = frame.len.min(u32::try_from(len).unwrap_or(u32::MAX));
            }
            Storage::Own(bytes) => bytes.truncate(len),
        }
    }
}

impl From<Vec<u8>> for XdpBuffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Storage::Own(bytes))
    }
}

impl From<XdpBuffer> for Vec<u8> {
    /// Copies out of a frame, which is returned to its port; your own bytes are not copied.
    fn from(buffer: XdpBuffer) -> Self {
        match buffer.0 {
            Storage::Own(bytes) => bytes,
            Storage::Frame(_) => buffer.as_ref().to_vec(),
        }
    }
}

impl AsRef<[u8]> for XdpBuffer {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: inside a frame that this buffer alone has, of memory that it keeps alive; the
            // kernel reads it at most.
            Storage::Frame(frame) => unsafe {
                slice::from_raw_parts(frame.start.as_ptr(), frame.len as usize)
            },
            Storage::Own(bytes) => bytes,
        }
    }
}

impl AsMut<[u8]> for XdpBuffer {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            // SAFETY: as above, and borrowed exclusively.
            Storage::Frame(frame) => unsafe {
                slice::from_raw_parts_mut(frame.start.as_ptr(), frame.len as usize)
            },
            Storage::Own(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({}, {} bytes)", self.frame, self.len)
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let mut frames = self.umem.frames.borrow_mut();
        // If the kernel is sending from it, the frame becomes free when that is done.
        if !frames.change(self.frame, Owner::Buffer, Owner::Nobody) {
            frames.change(self.frame, Owner::BufferSending, Owner::Sending);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u32 = 2048;

    fn umem() -> Rc<Umem> {
        Umem::new(4, LEN).expect("8 KiB of memory")
    }

    #[test]
    fn a_received_frame_comes_back_when_its_buffer_is_dropped() {
        let umem = umem();
        let address = umem.take_to_fill().expect("one of four");
        let mut buffer = umem.received(address + 256, 60).expect("it was given");
        buffer.as_mut().fill(7);
        assert_eq!((buffer.as_ref(), umem.free(), umem.in_buffers()), (&[7; 60][..], 3, 1));
        buffer.truncate(usize::MAX);
        assert_eq!(buffer.as_ref().len(), 60);
        buffer.truncate(20);
        assert_eq!(Vec::from(buffer), [7; 20]);
        assert_eq!((umem.free(), umem.in_buffers()), (4, 0));
    }

    #[test]
    fn frames_that_the_kernel_does_not_have_are_refused() {
        let umem = umem();
        let address = umem.take_to_fill().expect("one of four");
        assert!(umem.received(address + u64::from(LEN), 60).is_none(), "never given");
        assert!(umem.received(address + 256, LEN - 255).is_none(), "ends in the next frame");
        assert!(umem.received(u64::from(LEN) * 4, 1).is_none(), "outside");
        assert!(umem.received(u64::MAX, 1).is_none(), "outside");
        let buffer = umem.received(address, LEN).expect("a whole frame");
        assert!(umem.received(address, LEN).is_none(), "given twice");
        assert!(!umem.sent(address), "never sent");
        drop(buffer);
        assert_eq!(umem.free(), 4);
    }

    #[test]
    fn a_lent_frame_is_free_when_sent_and_dropped_in_either_order() {
        let umem = umem();
        let buffer = umem.buffer(100).expect("one of four");
        let address = umem.lend(&buffer.as_ref()[40..]).expect("a frame of ours");
        assert_eq!(address % u64::from(LEN), 40);
        assert!(umem.lend(buffer.as_ref()).is_none(), "being sent already");
        drop(buffer);
        assert_eq!(umem.free(), 3, "the kernel has it");
        assert!(umem.sent(address));
        assert_eq!(umem.free(), 4);

        let buffer = umem.buffer(100).expect("one of four");
        let address = umem.lend(buffer.as_ref()).expect("a frame of ours");
        assert!(umem.sent(address));
        assert!(!umem.sent(address), "said twice");
        assert_eq!(umem.free(), 3, "the buffer is still there");
        drop(buffer);
        assert_eq!(umem.free(), 4);
    }

    #[test]
    fn bytes_from_elsewhere_are_not_lent() {
        let (umem, other) = (umem(), umem());
        let foreign = other.buffer(60).expect("one of four");
        assert!(umem.lend(foreign.as_ref()).is_none());
        assert!(umem.lend(&[0; 60]).is_none());
        assert!(umem.lend(XdpBuffer::from(vec![0; 60]).as_ref()).is_none());
    }

    #[test]
    fn no_more_frames_than_there_are() {
        let umem = umem();
        assert!(umem.buffer(LEN as usize + 1).is_none());
        let all: Vec<XdpBuffer> = std::iter::from_fn(|| umem.buffer(1)).collect();
        assert_eq!(all.len(), 4);
        assert!(umem.take_to_fill().is_none());
        drop(all);
        let address = umem.take_to_fill().expect("all are free");
        umem.untake(address);
        assert_eq!(umem.free(), 4);
    }
}
