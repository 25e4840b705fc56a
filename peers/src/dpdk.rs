//! DPDK's `rte_gro` and `rte_gso`, in the same process: see dpdk.c for what is timed.

use crate::buffers::{Buffer, HEADROOM, PAGE, aligned, room, stride};
use crate::check::Account;
use crate::measure::{BURST, Receiver, Sender};
use crate::packet::{ETHERNET, Kind};
use crate::trace::Trace;
use core::ffi::{CStr, c_char, c_int, c_uint};
use core::ptr::null_mut;
use core::slice;
use std::ffi::CString;
use std::sync::OnceLock;

#[repr(C)]
struct RteMbuf([u8; 0]);
#[repr(C)]
struct RteMempool([u8; 0]);
#[repr(C)]
struct PeerGro([u8; 0]);

unsafe extern "C" {
    fn peer_init(megabytes: *const c_char) -> c_int;
    fn peer_version() -> *const c_char;
    fn peer_pool(
        name: *const c_char,
        memory: *mut u8,
        len: usize,
        count: c_uint,
        room: c_uint,
    ) -> *mut RteMempool;
    fn peer_pool_free(pool: *mut RteMempool);
    fn peer_mbuf_take(pool: *mut RteMempool) -> *mut RteMbuf;
    fn peer_mbuf_give(mbufs: *mut *mut RteMbuf, count: c_uint);
    fn peer_mbuf_arm(mbuf: *mut RteMbuf, len: c_uint);
    fn peer_mbuf_room(mbuf: *mut RteMbuf) -> *mut u8;
    fn peer_mbuf_capacity(mbuf: *const RteMbuf) -> c_uint;
    fn peer_mbuf_data(mbuf: *const RteMbuf) -> *const u8;
    fn peer_mbuf_len(mbuf: *const RteMbuf) -> c_uint;
    fn peer_mbuf_next(mbuf: *const RteMbuf) -> *mut RteMbuf;
    fn peer_gro_new(flows: c_uint, items: c_uint, every: c_uint, verify: c_int) -> *mut PeerGro;
    fn peer_gro_free(gro: *mut PeerGro);
    fn peer_gro_bad(gro: *const PeerGro) -> u64;
    fn peer_gro_burst(
        gro: *mut PeerGro,
        packets: *mut *mut RteMbuf,
        count: c_uint,
        out: *mut *mut RteMbuf,
        room: c_uint,
        flushed: *mut c_uint,
    ) -> c_uint;
    fn peer_gro_flush(gro: *mut PeerGro, out: *mut *mut RteMbuf, room: c_uint) -> c_uint;
    fn peer_gso_arm(mbuf: *mut RteMbuf, len: c_uint, l4_len: c_uint);
    fn peer_gso_cut(
        mbuf: *mut RteMbuf,
        direct: *mut RteMempool,
        indirect: *mut RteMempool,
        frame_len: c_uint,
        sum: c_int,
        to: *mut u8,
        stride: usize,
        out: *mut *mut RteMbuf,
        room: c_uint,
    ) -> c_int;
}

/// DPDK's own memory, in MiB: its tables and rings.
const MEMORY: &CStr = c"512";

/// Starts DPDK at the first call; its version, or why it does not start.
pub fn version() -> Result<&'static str, String> {
    static STARTED: OnceLock<Result<&'static str, String>> = OnceLock::new();
    let start = || {
        // SAFETY: called once; the strings are static.
        let (error, version) = unsafe { (peer_init(MEMORY.as_ptr()), peer_version()) };
        if error != 0 {
            return Err(format!("DPDK does not start: error {error}"));
        }
        // SAFETY: a constant string of the library.
        Ok(unsafe { CStr::from_ptr(version) }.to_str().unwrap_or("DPDK"))
    };
    STARTED.get_or_init(start).clone()
}

/// A pool of mbufs in memory of this process.
pub struct Pool {
    pool: *mut RteMempool,
    /// Where the mbufs lie: used by DPDK alone while the pool is there.
    _memory: Vec<u8>,
}

impl Pool {
    /// `name` must be another one for each pool that lives.
    pub fn new(name: &str, count: usize, room: usize) -> Self {
        version().expect("DPDK has started");
        let mut memory = vec![0; count * (stride(room) + 64) + (1 << 16) + PAGE];
        let name = CString::new(name).expect("a name");
        let room = (HEADROOM + room).min(usize::from(u16::MAX));
        // SAFETY: the memory lives, and stays where it is, as long as the pool.
        let pool = unsafe {
            let memory = aligned(&mut memory);
            let (start, len) = (memory.as_mut_ptr(), memory.len());
            peer_pool(name.as_ptr(), start, len, count as c_uint, room as c_uint)
        };
        assert!(!pool.is_null(), "DPDK makes no pool of {count} buffers of {room} bytes");
        Self { pool, _memory: memory }
    }

    /// Takes buffers out; they must not be used once the pool is gone.
    fn take(&self, count: usize) -> Vec<*mut RteMbuf> {
        // SAFETY: the pool lives.
        let taken: Vec<_> = (0..count).map(|_| unsafe { peer_mbuf_take(self.pool) }).collect();
        assert!(taken.iter().all(|mbuf| !mbuf.is_null()), "a pool holds what it was made for");
        taken
    }

    /// All buffers of a pool made for `count`, as the harness uses them.
    pub fn mbufs(&self, count: usize) -> Vec<Mbuf<'_>> {
        let of = |mbuf| Mbuf { mbuf, len: 0, _pool: core::marker::PhantomData };
        self.take(count).into_iter().map(of).collect()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: its buffers borrow the pool, or belong to those who hold the pool.
        unsafe { peer_pool_free(self.pool) };
    }
}

/// A received packet's buffer.
#[repr(C)]
pub struct Mbuf<'p> {
    mbuf: *mut RteMbuf,
    len: usize,
    _pool: core::marker::PhantomData<&'p Pool>,
}

impl Buffer for Mbuf<'_> {
    fn address(&self) -> usize {
        self.mbuf as usize
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes were written there; nobody else has the buffer.
        unsafe { slice::from_raw_parts(peer_mbuf_room(self.mbuf), self.len) }
    }
}

/// How packets are received.
#[derive(Debug, Clone, Copy)]
pub struct Mode {
    pub verify: bool,
    /// Bursts after which the table flushes; 0: the lightweight mode, without a table.
    pub every: usize,
    pub flows: usize,
    pub items: usize,
}

/// Receive: parse, perhaps verify, merge.
pub struct Gro {
    gro: *mut PeerGro,
    mode: Mode,
    packets: Vec<*mut RteMbuf>,
    /// How many of `packets`, at the front, came out of the last burst.
    left: usize,
    flushed: Vec<*mut RteMbuf>,
    room: usize,
}

impl Gro {
    pub fn new(mode: Mode) -> Self {
        version().expect("DPDK has started");
        let [flows, items, every] = [mode.flows, mode.items, mode.every].map(|n| n as c_uint);
        // SAFETY: nothing is lent.
        let gro = unsafe { peer_gro_new(flows, items, every, c_int::from(mode.verify)) };
        assert!(!gro.is_null(), "DPDK makes no table of {flows} flows");
        let room = (mode.every.max(1) * BURST).min(usize::from(u16::MAX));
        let flushed = Vec::with_capacity(room);
        Self { gro, mode, packets: Vec::with_capacity(BURST), left: 0, flushed, room }
    }
}

impl Drop for Gro {
    fn drop(&mut self) {
        // SAFETY: made by `new`; the table is empty after the last round.
        unsafe { peer_gro_free(self.gro) };
    }
}

impl<'p> Receiver<Mbuf<'p>> for Gro {
    fn fill(&self, trace: &Trace, index: usize, buffer: &mut Mbuf<'p>) {
        // SAFETY: the buffer has as much room, and nobody else has it.
        let room = unsafe {
            let capacity = peer_mbuf_capacity(buffer.mbuf) as usize;
            slice::from_raw_parts_mut(peer_mbuf_room(buffer.mbuf), capacity)
        };
        buffer.len = trace.write(index, room);
    }

    fn arm(&mut self, burst: &mut [Mbuf<'p>]) {
        for buffer in burst {
            // SAFETY: nobody else has the buffer.
            unsafe { peer_mbuf_arm(buffer.mbuf, buffer.len as c_uint) };
        }
    }

    fn burst(&mut self, burst: &mut Vec<Mbuf<'p>>, _: u64) {
        self.packets.clear();
        self.packets.extend(burst.drain(..).map(|buffer| buffer.mbuf));
        let mut flushed = 0;
        // SAFETY: the packets are this receiver's; `flushed` has the room that is said.
        unsafe {
            let (packets, out) = (self.packets.as_mut_ptr(), self.flushed.as_mut_ptr());
            let (count, room) = (self.packets.len() as c_uint, self.room as c_uint);
            self.left = peer_gro_burst(self.gro, packets, count, out, room, &mut flushed) as usize;
            self.flushed.set_len(flushed as usize);
        }
    }

    fn settle(&mut self, _: &mut Vec<Mbuf<'p>>, free: &mut Vec<Mbuf<'p>>, account: &mut Account) {
        for mbuf in self.packets.drain(..).take(self.left).chain(self.flushed.drain(..)) {
            account.leaves(&bytes(mbuf)[ETHERNET..], chain(mbuf).skip(1).map(bytes));
            let of = |mbuf| Mbuf { mbuf, len: 0, _pool: core::marker::PhantomData };
            free.extend(chain(mbuf).map(of));
        }
        self.left = 0;
    }

    fn finish(&mut self) {
        if self.mode.every == 0 {
            return;
        }
        // SAFETY: as in `burst`; `settle` has emptied the list.
        unsafe {
            let out = self.flushed.as_mut_ptr();
            let flushed = peer_gro_flush(self.gro, out, self.room as c_uint);
            self.flushed.set_len(flushed as usize);
        }
    }

    fn refused(&self) -> u64 {
        // SAFETY: it lives as long as this.
        unsafe { peer_gro_bad(self.gro) }
    }
}

/// The buffers of a packet.
fn chain(first: *mut RteMbuf) -> impl Iterator<Item = *mut RteMbuf> {
    // SAFETY: packets are given back whole, so every buffer of the chain is still there.
    let next =
        |mbuf: &*mut RteMbuf| Some(unsafe { peer_mbuf_next(*mbuf) }).filter(|m| !m.is_null());
    core::iter::successors(Some(first).filter(|mbuf| !mbuf.is_null()), next)
}

/// A buffer's part of its packet.
fn bytes<'b>(mbuf: *mut RteMbuf) -> &'b [u8] {
    // SAFETY: DPDK says what it holds; read before the buffer is used again.
    unsafe { slice::from_raw_parts(peer_mbuf_data(mbuf), peer_mbuf_len(mbuf) as usize) }
}

/// Whether segments are also summed or copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Headers,
    Summed,
    Copied,
}

/// Send: large packets of TCP over IPv4, the only ones that it cuts into segments.
pub struct Gso {
    form: Form,
    frame_len: usize,
    sources: Vec<*mut RteMbuf>,
    /// Those of `sources` that have been cut since the last [`Sender::settle`].
    cut: Vec<usize>,
    /// Their segments, those of the last at the end.
    made: Vec<*mut RteMbuf>,
    l4_len: usize,
    target: Vec<u8>,
    stride: usize,
    pools: [Pool; 3],
}

impl Gso {
    pub fn new(form: Form, kind: Kind, size: usize, frames: &[Vec<u8>]) -> Self {
        let name = |part: &str| format!("{form:?}-{part}");
        let pools = [
            Pool::new(&name("large"), frames.len(), 65_535 - HEADROOM),
            Pool::new(&name("direct"), 2047, 256),
            Pool::new(&name("indirect"), 2047, 0),
        ];
        let sources = pools[0].take(frames.len());
        for (source, frame) in sources.iter().zip(frames) {
            // SAFETY: large packets with their headroom are within 64 KiB, the buffer's room.
            unsafe {
                let room = slice::from_raw_parts_mut(peer_mbuf_room(*source), frame.len());
                room.copy_from_slice(frame);
                peer_gso_arm(*source, frame.len() as c_uint, kind.transport_len() as c_uint);
            }
        }
        let frame_len = kind.headers() + size;
        let stride = stride(room(frame_len));
        let target = if form == Form::Copied { vec![0; stride * BURST + PAGE] } else { Vec::new() };
        let made = Vec::with_capacity(BURST * 8);
        let (l4_len, cut) = (kind.transport_len(), Vec::with_capacity(BURST));
        Self { form, frame_len, sources, cut, made, l4_len, target, stride, pools }
    }
}

impl Sender for Gso {
    fn source<'s>(&'s self, index: usize, _: &'s [u8]) -> &'s [u8] {
        bytes(self.sources[index])
    }

    fn cut(&mut self, index: usize, _: &mut [u8]) -> usize {
        let copied = self.form == Form::Copied;
        let to = if copied { aligned(&mut self.target).as_mut_ptr() } else { null_mut() };
        let [direct, indirect] = [self.pools[1].pool, self.pools[2].pool];
        let (frame_len, sum) = (self.frame_len as c_uint, c_int::from(self.form != Form::Headers));
        let (source, stride) = (self.sources[index], self.stride);
        let room = BURST.min(self.made.capacity() - self.made.len()) as c_uint;
        // SAFETY: the source and the pools are this sender's; `made` has `room` left, the target
        // has room for a burst of segments, and a large packet gives fewer.
        let count = unsafe {
            let out = self.made.as_mut_ptr().add(self.made.len());
            peer_gso_cut(source, direct, indirect, frame_len, sum, to, stride, out, room)
        };
        let count = usize::try_from(count).expect("rte_gso_segment takes the packet");
        // SAFETY: this many elements have been written.
        unsafe { self.made.set_len(self.made.len() + count) };
        self.cut.push(index);
        count
    }

    fn segments(&self, count: usize) -> Vec<Vec<u8>> {
        let last = &self.made[self.made.len() - count..];
        let whole = |mbuf: &*mut RteMbuf| chain(*mbuf).flat_map(bytes).skip(ETHERNET).copied();
        last.iter().map(|mbuf| whole(mbuf).collect()).collect()
    }

    fn settle(&mut self) {
        // SAFETY: every segment is given back once, and then nothing refers to its source.
        unsafe {
            peer_mbuf_give(self.made.as_mut_ptr(), self.made.len() as c_uint);
            for source in self.cut.drain(..).map(|index| self.sources[index]) {
                // rte_gso_segment takes the mark away that says what to do.
                peer_gso_arm(source, peer_mbuf_len(source), self.l4_len as c_uint);
            }
        }
        self.made.clear();
    }
}
