//! Every exported function, and the crate's only `unsafe` code, which turns pointers into slices.
//! Those of bursts are in [`burst`].
//!
//! The top of the header states what all functions have in common (see `cbindgen.toml`): ownership
//! and lifetime of buffers, threads, and checks. No panic leaves a function.
#![expect(unsafe_code, reason = "C gives pointers, and nothing of them can be proven here")]

mod burst;

use crate::coalesce::{self, Coalescer};
use crate::error::{self, Error, LINECARD_OK};
use crate::segment::{self, Room};
use crate::types::{
    self, Config, Counters, Frame, Gso, LINECARD_ABI_VERSION, Large, Output, Plan, Segment,
    Segments, Slice, Slices,
};
use linecard::offload::virtio::{Endian, Format, Header};
use linecard::offload::{complete_checksum, defer_checksum};
use linecard::packet::checksum::Sum;
use linecard::packet::{Layout, Meta, Packet, Piece};
use linecard::time::Instant;
use std::cell::UnsafeCell;
use std::ffi::{CString, c_char, c_void};
use std::mem::{MaybeUninit, forget};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that are summed, then copied while they are in the cache; even, because sums are of 16-bit
/// words.
const COPIED_AT_ONCE: usize = 4096;

/// A frame lent by the caller, on the terms at the top of the header: until it is given back, it
/// stays in place and nobody else writes to it.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Lent(Frame);

impl Lent {
    pub(crate) fn frame(&self) -> &Frame {
        &self.0
    }
}

/// The bytes of a lent frame.
#[derive(Debug)]
pub(crate) struct Buffer {
    data: *mut u8,
    len: usize,
    token: *mut c_void,
}

impl Buffer {
    pub(crate) fn new(lent: &Lent) -> Result<Self, Error> {
        let Frame { data, len, token, .. } = lent.0;
        if data.is_null() {
            return Err(Error::Null);
        }
        // Layouts use 32-bit lengths.
        let valid = len > 0 && u32::try_from(len).is_ok();
        if valid { Ok(Self { data, len, token }) } else { Err(Error::Invalid) }
    }

    pub(crate) fn token(&self) -> *mut c_void {
        self.token
    }

    /// `part` of the bytes, as a slice the caller may write to again.
    pub(crate) fn slice(&self, part: &[u8]) -> Slice {
        let offset = part.as_ptr().addr() - self.data.addr();
        Slice { data: self.data.wrapping_add(offset), len: part.len() }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: a lent frame is readable for its length until it is given back, which is after
        // this value is gone; and nobody else writes to it.
        unsafe { slice::from_raw_parts(self.data, self.len) }
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_ref`; and lent frames do not overlap, so that this is the only
        // reference to these bytes.
        unsafe { slice::from_raw_parts_mut(self.data, self.len) }
    }
}

/// The content of a handle of C. If a call has begun and not ended, because of a panic or in another
/// thread, no other call begins.
#[derive(Debug)]
struct Exclusive<T> {
    busy: AtomicBool,
    value: UnsafeCell<T>,
}

impl<T> Exclusive<T> {
    fn new(value: T) -> Self {
        Self { busy: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    fn with<R>(&self, work: impl FnOnce(&mut T) -> Result<R, Error>) -> Result<R, Error> {
        if self.busy.swap(true, Ordering::Acquire) {
            return Err(Error::Broken);
        }
        // SAFETY: a thread that finds `busy` false has exclusive access to the value until it clears `busy`.
        let done = work(unsafe { &mut *self.value.get() });
        self.busy.store(false, Ordering::Release);
        done
    }
}

/// A coalescer as held by C.
#[derive(Debug)]
pub struct Handle(Exclusive<Coalescer>);

/// Runs the body of a function, and turns a panic into an error.
fn guard(work: impl FnOnce() -> Result<(), Error>) -> i32 {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => LINECARD_OK,
        Ok(Err(error)) => error as i32,
        Err(panic) => {
            // Dropping it could panic again.
            forget(panic);
            Error::Broken as i32
        }
    }
}

/// The array at `data`; `data` may be anything when the array is empty.
///
/// # Safety
///
/// The array is readable, of type `T`, and not written to for `'a`.
unsafe fn array<'a, T>(data: *const T, len: usize) -> Result<&'a [T], Error> {
    check_array(data, len)?;
    if len == 0 {
        return Ok(&[]);
    }
    // SAFETY: not null, aligned and not too long; the rest is the caller's promise.
    Ok(unsafe { slice::from_raw_parts(data, len) })
}

/// [`array`] for writing; use [`room`] for memory that may be uninitialised.
///
/// # Safety
///
/// The array is writable, initialised, of type `T`, and not used otherwise for `'a`.
unsafe fn array_mut<'a, T>(data: *mut T, len: usize) -> Result<&'a mut [T], Error> {
    check_array(data, len)?;
    if len == 0 {
        return Ok(&mut []);
    }
    // SAFETY: not null, aligned and not too long; the rest is the caller's promise.
    Ok(unsafe { slice::from_raw_parts_mut(data, len) })
}

fn check_array<T>(data: *const T, len: usize) -> Result<(), Error> {
    if len > 0 && (data.is_null() || !data.is_aligned()) {
        return Err(Error::Null);
    }
    let bytes = len.checked_mul(size_of::<T>());
    let fits = bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok());
    if fits { Ok(()) } else { Err(Error::Invalid) }
}

/// Memory at `data` for results. It may be uninitialised, as from `malloc`, so no reference to a
/// `T` may be made.
///
/// # Safety
///
/// The memory is writable, and not used otherwise for `'a`.
unsafe fn room<'a, T>(data: *mut T, len: usize) -> Result<&'a mut [MaybeUninit<T>], Error> {
    // SAFETY: the caller's promise; of `MaybeUninit` any bytes are a value.
    unsafe { array_mut(data.cast::<MaybeUninit<T>>(), len) }
}

/// [`room`] for one value.
///
/// # Safety
///
/// As for [`room`].
unsafe fn place<'a, T>(data: *mut T) -> Result<&'a mut MaybeUninit<T>, Error> {
    // SAFETY: the caller's promise.
    unsafe { room(data, 1) }?.first_mut().ok_or(Error::Null)
}

/// Runs `work` with the coalescer of a handle.
///
/// # Safety
///
/// `handle` is NULL or from [`linecard_coalescer_new`], and has not been freed.
unsafe fn with<R>(
    handle: *const Handle,
    work: impl FnOnce(&mut Coalescer) -> Result<R, Error>,
) -> Result<R, Error> {
    // SAFETY: the caller's promise; only shared references are made of it.
    unsafe { handle.as_ref() }.ok_or(Error::Null)?.0.with(work)
}

/// Version of the interface that the library was compiled with: LINECARD_ABI_VERSION.
#[unsafe(no_mangle)]
pub extern "C" fn linecard_abi_version() -> u32 {
    LINECARD_ABI_VERSION
}

/// Version of the library, as "0.1.0". Never freed.
#[unsafe(no_mangle)]
pub extern "C" fn linecard_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Describes an error code in one line. Never NULL, never freed.
#[unsafe(no_mangle)]
pub extern "C" fn linecard_strerror(code: i32) -> *const c_char {
    error::text(code).as_ptr()
}

/// Name of a reason: `exit_kind` is LINECARD_EXIT_PASSED for why packets pass unmerged, or
/// LINECARD_EXIT_FLUSHED for why they are flushed. Reasons are numbered from 0; NULL after the last
/// one. Never freed.
#[unsafe(no_mangle)]
pub extern "C" fn linecard_reason_name(exit_kind: u8, reason: u8) -> *const c_char {
    static NAMES: OnceLock<Vec<CString>> = OnceLock::new();
    let Some(name) = coalesce::reason_name(exit_kind, reason) else { return ptr::null() };
    let names = NAMES.get_or_init(|| {
        let all = (0..=1).flat_map(|exit| (0..=u8::MAX).map(move |reason| (exit, reason)));
        let names = all.filter_map(|(exit, reason)| coalesce::reason_name(exit, reason));
        names.filter_map(|name| CString::new(name).ok()).collect()
    });
    let found = names.iter().find(|known| known.as_bytes() == name.as_bytes());
    found.map_or(ptr::null(), |name| name.as_ptr())
}

/// Sets the defaults. `size` is `sizeof *config`: a program compiled with an older header has a
/// shorter struct, and only its fields are set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_config_default(config: *mut Config, size: usize) -> i32 {
    guard(|| {
        let default = Config { size, ..Config::default() };
        // SAFETY: the caller has a struct of `size` bytes there.
        unsafe { write_versioned(&default, config, size) }
    })
}

/// As `linecard_config_default`, for programs that receive packets in bursts and hold none, as
/// mergers do: `virtio_len` is 12, `max_segments` 1,023, and `flush_at_end` 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_config_burst(config: *mut Config, size: usize) -> i32 {
    guard(|| {
        let burst = Config { size, ..Config::burst() };
        // SAFETY: the caller has a struct of `size` bytes there.
        unsafe { write_versioned(&burst, config, size) }
    })
}

/// Writes the part of a struct that the caller's version has; if that is longer, the rest is set to
/// 0.
///
/// # Safety
///
/// `size` bytes are writable at `to`.
unsafe fn write_versioned<T: Copy>(value: &T, to: *mut T, size: usize) -> Result<(), Error> {
    if to.is_null() {
        return Err(Error::Null);
    }
    if size < size_of::<usize>() {
        return Err(Error::Invalid);
    }
    let known = size.min(size_of::<T>());
    // SAFETY: `size` bytes are writable there, and `value` has `known`; it is not the caller's.
    unsafe {
        ptr::write_bytes(to.cast::<u8>(), 0, size);
        ptr::copy_nonoverlapping(ptr::from_ref(value).cast::<u8>(), to.cast::<u8>(), known);
    }
    Ok(())
}

/// Reads a configuration of the size that it states; fields beyond that have their defaults.
///
/// # Safety
///
/// `from` is NULL or points to as many bytes as its first field says.
unsafe fn read_config(from: *const Config) -> Result<Config, Error> {
    if from.is_null() {
        return Err(Error::Null);
    }
    // SAFETY: the struct's first field is there in every version.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    if !(size_of::<usize>()..=4096).contains(&size) {
        return Err(Error::Invalid);
    }
    let from = from.cast::<u8>();
    let mut config = Config::default();
    let known = size.min(size_of::<Config>());
    // SAFETY: the caller's promise. What a newer program adds is set, if only to 0; what lies between
    // the fields that are known here, and may not be set, is not looked at.
    let newer = unsafe { array(from.wrapping_add(known), size - known) }?;
    if newer.iter().any(|byte| *byte != 0) {
        return Err(Error::Version);
    }
    // SAFETY: `config` has `known` bytes, and any bytes are integers.
    unsafe {
        ptr::copy_nonoverlapping(from, ptr::from_mut(&mut config).cast::<u8>(), known);
    }
    Ok(config)
}

/// Creates a coalescer and stores it in `*coalescer`. It allocates all its memory here, except
/// lists of leaving packets, which grow to the size needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_coalescer_new(
    config: *const Config,
    coalescer: *mut *mut Handle,
) -> i32 {
    guard(|| {
        // SAFETY: the caller has a pointer there to be set.
        let place = unsafe { place(coalescer) }?;
        // SAFETY: the caller has a configuration there.
        let made = Coalescer::new(&unsafe { read_config(config) }?)?;
        place.write(Box::into_raw(Box::new(Handle(Exclusive::new(made)))));
        Ok(())
    })
}

/// Frees a coalescer; NULL is ignored. Frames that it still holds belong to the caller again
/// without notice: flush first to get them back in order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_coalescer_free(coalescer: *mut Handle) {
    guard(|| {
        if !coalescer.is_null() {
            // SAFETY: from `linecard_coalescer_new`, and freed once, the caller promises.
            drop(unsafe { Box::from_raw(coalescer) });
        }
        Ok(())
    });
}

/// Takes `count` frames that arrived at `now_ns` (any monotonic clock; an earlier time counts as
/// the latest one). `*output` describes the packets that leave, until the next call with this
/// coalescer. Either all frames are taken or, with an error, none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_coalescer_push(
    coalescer: *mut Handle,
    frames: *const Frame,
    count: usize,
    now_ns: u64,
    output: *mut Output,
) -> i32 {
    guard(|| {
        // SAFETY: the caller has a struct there to be set.
        let output = unsafe { place(output) }?;
        // SAFETY: `Lent` is a `Frame` on the terms of this interface.
        let frames = unsafe { array(frames.cast::<Lent>(), count) }?;
        // SAFETY: the caller's handle.
        output.write(unsafe { with(coalescer, |it| it.push(frames, Instant::from_ns(now_ns))) }?);
        Ok(())
    })
}

/// Flushes the packets that are due at `now_ns`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_coalescer_advance(
    coalescer: *mut Handle,
    now_ns: u64,
    output: *mut Output,
) -> i32 {
    guard(|| {
        // SAFETY: the caller has a struct there to be set.
        let output = unsafe { place(output) }?;
        // SAFETY: the caller's handle.
        output.write(unsafe { with(coalescer, |it| Ok(it.advance(Instant::from_ns(now_ns)))) }?);
        Ok(())
    })
}

/// Flushes all packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_coalescer_flush(
    coalescer: *mut Handle,
    output: *mut Output,
) -> i32 {
    guard(|| {
        // SAFETY: the caller has a struct there to be set.
        let output = unsafe { place(output) }?;
        // SAFETY: the caller's handle.
        output.write(unsafe { with(coalescer, |it| Ok(it.flush())) }?);
        Ok(())
    })
}

/// Time at which `linecard_coalescer_advance` should be called next, in nanoseconds; UINT64_MAX
/// when no packet is held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_coalescer_next_wakeup(coalescer: *const Handle) -> u64 {
    let mut ns = u64::MAX;
    guard(|| {
        // SAFETY: the caller's handle.
        let wakeup = unsafe { with(coalescer, |it| Ok(it.next_wakeup())) }?;
        ns = wakeup.map_or(u64::MAX, Instant::as_ns);
        Ok(())
    });
    ns
}

/// Reads the coalescer's counters. `size` is `sizeof *counters`, as in `linecard_config_default`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_coalescer_counters(
    coalescer: *const Handle,
    counters: *mut Counters,
    size: usize,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's handle.
        let counted = unsafe { with(coalescer, |it| Ok(it.counters())) }?;
        // SAFETY: the caller has a struct of `size` bytes there.
        unsafe { write_versioned(&counted, counters, size) }
    })
}

/// How often a reason occurred, with numbers as in `linecard_reason_name`. 0 for unknown reasons.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_coalescer_reason_count(
    coalescer: *const Handle,
    exit_kind: u8,
    reason: u8,
) -> u64 {
    let mut count = 0;
    guard(|| {
        // SAFETY: the caller's handle.
        count = unsafe { with(coalescer, |it| it.count(exit_kind, reason).ok_or(Error::Invalid)) }?;
        Ok(())
    });
    count
}

/// A packet in the caller's memory.
///
/// # Safety
///
/// All pointers in `large` are valid for the stated lengths, for `'a`.
unsafe fn large_packet<'a>(large: &Large) -> Result<Packet<&'a [u8]>, Error> {
    let link = types::link(large.link)?;
    let meta = Meta { checksum: types::checksum(large.checksum)?, ..Meta::default() };
    // SAFETY: the caller's promise.
    let head = unsafe { array(large.head, large.head_len) }?;
    // SAFETY: as before.
    let pieces = unsafe { array(large.pieces, large.piece_count) }?;
    if pieces.is_empty() {
        return Ok(Packet::new(head, link, meta));
    }
    let piece = |slice: &Slice| {
        // SAFETY: as before.
        let bytes: &[u8] = unsafe { array(slice.data.cast_const(), slice.len) }?;
        Piece::new(bytes, 0..bytes.len(), Instant::ZERO).ok_or(Error::Invalid)
    };
    let pieces: Vec<_> = pieces.iter().map(piece).collect::<Result<_, _>>()?;
    Packet::gather(head, pieces, link, meta).map_err(|_| Error::NotADatagram)
}

/// Number and sizes of the segments of `large`, and the memory they need.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_segment_plan(large: *const Large, plan: *mut Plan) -> i32 {
    guard(|| {
        // SAFETY: the caller has both there.
        let (large, plan) = unsafe { (one(large)?, place(plan)?) };
        // SAFETY: its pointers are good.
        plan.write(segment::plan(&unsafe { large_packet(large) }?, large.gso.into())?);
        Ok(())
    })
}

/// Segments `large`, and writes all segments contiguously into `out`: payload is summed and copied
/// segment by segment. Writes nothing on error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_segment_write(
    large: *const Large,
    out: Slice,
    segments: *mut Segments,
) -> i32 {
    guard(|| {
        // SAFETY: the caller has both there.
        let (large, (list, count)) = unsafe { (one(large)?, segments_room(segments)?) };
        // SAFETY: the caller has room there, and nothing of the packet.
        let out = unsafe { room(out.data, out.len) }?;
        // SAFETY: its pointers are good.
        let packet = unsafe { large_packet(large) }?;
        count.write(segment::write(&packet, large.gso.into(), out, list)?);
        Ok(())
    })
}

/// Segments `large` without copying payload: writes headers contiguously into `headers`, and lists
/// each segment's header and payload in `slices`. Reads payload only to compute checksums. Writes
/// nothing on error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_segment_gather(
    large: *const Large,
    headers: Slice,
    slices: *const Slices,
    segments: *mut Segments,
) -> i32 {
    guard(|| {
        // SAFETY: the caller has them there.
        let (large, slices) = unsafe { (one(large)?, one(slices)?) };
        // SAFETY: as before.
        let (list, count) = unsafe { segments_room(segments) }?;
        // SAFETY: the caller has room there, and nothing of the packet.
        let (headers, slices) =
            unsafe { (room(headers.data, headers.len)?, room(slices.list, slices.room)?) };
        // SAFETY: its pointers are good.
        let packet = unsafe { large_packet(large) }?;
        let room = Room { headers, slices, list };
        count.write(segment::gather(&packet, large.gso.into(), room)?);
        Ok(())
    })
}

/// The list for segments, and their number, which the caller need not initialise.
///
/// # Safety
///
/// `segments` is NULL or its `list` and `room` are set, and what they lead to is as for [`room`].
unsafe fn segments_room<'a>(
    segments: *mut Segments,
) -> Result<(&'a mut [MaybeUninit<Segment>], &'a mut MaybeUninit<usize>), Error> {
    check_array(segments, 1)?;
    // SAFETY: not null and aligned; these two fields are set.
    let (list, len) = unsafe { ((&raw const (*segments).list).read(), (*segments).room) };
    // SAFETY: the caller's promise; the field lies apart from the list.
    unsafe { Ok((room(list, len)?, place(&raw mut (*segments).count)?)) }
}

/// The struct at `data`, for reading.
///
/// # Safety
///
/// As for [`array`].
unsafe fn one<'a, T>(data: *const T) -> Result<&'a T, Error> {
    // SAFETY: the caller's promise.
    unsafe { array(data, 1) }?.first().ok_or(Error::Null)
}

/// Checks the virtio header of `len` bytes (10, 12 or 24) at `header` against the packet behind it,
/// and sets `large->gso` and `large->checksum` from it. Numbers are little endian, or big endian if
/// `big_endian` is not 0. On error nothing is set; the error code names the wrong field.
///
/// `large->checksum` is then PARTIAL if the sender has left the checksum to be computed. Set it to
/// UNKNOWN to have it computed in the segments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_virtio_check(
    header: *const u8,
    len: usize,
    big_endian: i32,
    large: *mut Large,
) -> i32 {
    guard(|| {
        // SAFETY: the caller has a header there.
        let header = unsafe { read_virtio(header, len, big_endian) }?;
        check_array(large, 1)?;
        // SAFETY: not null and aligned; these fields are set, and their pointers are good. The two
        // that are set below may not be.
        let (head, pieces, link) = unsafe {
            let (head, pieces) = ((*large).head, (*large).pieces);
            let pieces = array(pieces, (*large).piece_count)?;
            (array(head, (*large).head_len)?, pieces, (*large).link)
        };
        let len = pieces.iter().fold(head.len(), |len, piece| len.saturating_add(piece.len));
        let layout = Layout::parse_head(types::link(link)?, head, len);
        let offload = header.check(head, &layout)?;
        // SAFETY: the caller has a struct there, to be set.
        unsafe {
            (&raw mut (*large).gso).write(offload.gso.map_or_else(Gso::default, Into::into));
            (&raw mut (*large).checksum).write(types::checksum_number(offload.checksum));
        }
        Ok(())
    })
}

/// Completes the checksum that the virtio header of `len` bytes (10, 12 or 24) at `header` leaves to
/// its reader, as a device does: it sums from csum_start to the end of the frame, and follows no
/// protocols. For frames that are not to be segmented and for which `linecard_virtio_check` returns
/// LINECARD_E_VIRTIO_CSUM_START: their checksum is that of a protocol or tunnel that is not followed
/// here. Without the flag NEEDS_CSUM nothing is changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_virtio_complete_checksum(
    header: *const u8,
    len: usize,
    big_endian: i32,
    frame: Slice,
) -> i32 {
    guard(|| {
        // SAFETY: the caller has a header there.
        let header = unsafe { read_virtio(header, len, big_endian) }?;
        // SAFETY: the caller has a frame there.
        header.complete_checksum(unsafe { array_mut(frame.data, frame.len) }?)?;
        Ok(())
    })
}

/// The virtio header of `len` bytes at `header`.
///
/// # Safety
///
/// As for [`array`].
unsafe fn read_virtio(header: *const u8, len: usize, big_endian: i32) -> Result<Header, Error> {
    let format = Format::of_len(len).ok_or(Error::Invalid)?;
    let endian = if big_endian == 0 { Endian::Little } else { Endian::Big };
    // SAFETY: the caller's promise.
    Header::read(unsafe { array(header, len) }?, format, endian).ok_or(Error::Invalid)
}

/// Computes the transport checksum of a frame, and those of the tunnels around it, as hardware does
/// for LINECARD_CHECKSUM_PARTIAL. LINECARD_E_NOT_A_DATAGRAM, and nothing is changed, if the frame is no
/// complete TCP or UDP datagram, or UDP over IPv4 whose checksum field is 0, which carries none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_checksum_complete(frame: Slice, link: u8) -> i32 {
    // SAFETY: the caller has a frame there.
    unsafe { change_checksum(frame, link, complete_checksum) }
}

/// Leaves the transport checksum of a frame to hardware, LINECARD_CHECKSUM_PARTIAL. Only for frames
/// whose checksum is known to be right.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_checksum_defer(frame: Slice, link: u8) -> i32 {
    // SAFETY: the caller has a frame there.
    unsafe { change_checksum(frame, link, defer_checksum) }
}

/// # Safety
///
/// As for [`array_mut`].
unsafe fn change_checksum<'a>(
    frame: Slice,
    link: u8,
    change: impl FnOnce(&mut Packet<&'a mut [u8]>) -> bool,
) -> i32 {
    guard(|| {
        let link = types::link(link)?;
        // SAFETY: the caller's promise.
        let bytes = unsafe { array_mut(frame.data, frame.len) }?;
        let mut packet = Packet::new(bytes, link, Meta::default());
        change(&mut packet).then_some(()).ok_or(Error::NotADatagram)
    })
}

/// The Internet checksum's sum (RFC 1071) of `len` bytes, not complemented. 0 without bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_sum(data: *const u8, len: usize) -> u16 {
    let mut sum = 0;
    guard(|| {
        // SAFETY: the caller has them there.
        sum = Sum::of(unsafe { array(data, len) }?).fold();
        Ok(())
    });
    sum
}

/// `linecard_sum` of `len` bytes, which are copied from the cache in the same pass.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_sum_copy(from: *const u8, to: *mut u8, len: usize) -> u16 {
    let mut sum = 0;
    guard(|| {
        // SAFETY: the caller has both there, and they do not overlap.
        let (from, to) = unsafe { (array(from, len)?, room(to, len)?) };
        let parts = from.chunks(COPIED_AT_ONCE).zip(to.chunks_mut(COPIED_AT_ONCE));
        sum = parts
            .fold(Sum::ZERO, |sum, (from, to)| sum.plus(segment::copy_and_sum(from, to)))
            .fold();
        Ok(())
    });
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LINECARD_E_NO_ROOM;

    fn new() -> *mut Handle {
        let mut handle = ptr::null_mut();
        // The first field only: what a program with a very old header has.
        let config = Config { size: size_of::<usize>(), ..Config::default() };
        // SAFETY: both pointers are valid.
        let code = unsafe { linecard_coalescer_new(&raw const config, &raw mut handle) };
        assert_eq!(code, LINECARD_OK);
        handle
    }

    #[test]
    fn a_panic_becomes_an_error_and_breaks_the_handle() {
        std::panic::set_hook(Box::new(|_| {}));
        let (handle, mut output) = (new(), Output { packets: ptr::null(), count: 0 });
        let code = guard(|| {
            // SAFETY: just made.
            unsafe { with(handle, |_| -> Result<(), Error> { panic!("a bug") }) }
        });
        assert_eq!(code, Error::Broken as i32);
        // SAFETY: not freed yet.
        let code = unsafe { linecard_coalescer_flush(handle, &raw mut output) };
        assert_eq!(code, Error::Broken as i32);
        // SAFETY: freed once.
        unsafe { linecard_coalescer_free(handle) };
    }

    #[test]
    fn a_handle_is_used_by_one_at_a_time() {
        let (handle, mut output) = (new(), Output { packets: ptr::null(), count: 0 });
        // SAFETY: just made; the inner call is refused.
        let inner =
            unsafe { with(handle, |_| Ok(linecard_coalescer_flush(handle, &raw mut output))) };
        assert_eq!(inner, Ok(Error::Broken as i32));
        // SAFETY: not freed yet.
        assert_eq!(unsafe { linecard_coalescer_flush(handle, &raw mut output) }, LINECARD_OK);
        // SAFETY: freed once.
        unsafe { linecard_coalescer_free(handle) };
    }

    #[test]
    fn every_reason_has_a_name() {
        // SAFETY: names end with a zero.
        let name = |exit, reason| unsafe {
            let name = linecard_reason_name(exit, reason);
            (!name.is_null()).then(|| std::ffi::CStr::from_ptr(name).to_str().expect("ASCII"))
        };
        assert_eq!(name(0, 0), Some("not-ip"));
        assert_eq!(name(1, 0), Some("size"));
        assert_eq!((name(0, 200), name(1, 200), name(2, 0)), (None, None, None));
    }

    /// UDP with 9 bytes of payload, of which the last 6 lie in pieces of 2.
    fn udp_head() -> Vec<u8> {
        let mut head = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        head.extend([0x45, 0, 0, 37, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        head.extend([0, 7, 0, 9, 0, 17, 1, 1, 1, 2, 3]);
        head
    }

    /// Memory as `malloc` gives it.
    fn uninitialised<T>(len: usize) -> Vec<MaybeUninit<T>> {
        (0..len).map(|_| MaybeUninit::uninit()).collect()
    }

    /// The first elements, which have been written.
    fn written<T: Copy>(memory: &[MaybeUninit<T>], count: usize) -> Vec<T> {
        // SAFETY: the caller has had them written; Miri checks.
        memory[..count].iter().map(|one| unsafe { one.assume_init() }).collect()
    }

    /// Writes and gathers; gives the segments' bytes both ways. Nothing that is written to has a
    /// value before.
    fn both_ways(large: &Large) -> [Vec<Vec<u8>>; 2] {
        let mut plan = MaybeUninit::uninit();
        // SAFETY: both pointers are valid; the plan is set when the code says so.
        let plan = unsafe {
            assert_eq!(linecard_segment_plan(large, plan.as_mut_ptr()), LINECARD_OK);
            plan.assume_init()
        };
        let mut list = uninitialised::<Segment>(plan.segments);
        let mut segments = MaybeUninit::<Segments>::uninit();
        let at = segments.as_mut_ptr();
        // SAFETY: two fields of three are set, the third is not.
        unsafe {
            (&raw mut (*at).list).write(list.as_mut_ptr().cast());
            (&raw mut (*at).room).write(list.len());
        }
        let mut out = uninitialised::<u8>(plan.bytes);
        let data = out.as_mut_ptr().cast::<u8>();
        let short = Slice { data: data.wrapping_add(1), len: plan.bytes - 1 };
        // SAFETY: all is there and as long as it says.
        let copied: Vec<Vec<u8>> = unsafe {
            assert_eq!(linecard_segment_write(large, short, at), LINECARD_E_NO_ROOM);
            let out = Slice { data, len: plan.bytes };
            assert_eq!(linecard_segment_write(large, out, at), LINECARD_OK);
            assert_eq!((*at).count, plan.segments);
            let bytes = slice::from_raw_parts(data, plan.bytes);
            let all = written(&list, plan.segments);
            assert_eq!(all.last().map(|last| last.start + last.len), Some(plan.bytes));
            all.iter().map(|one| bytes[one.start..one.start + one.len].to_vec()).collect()
        };
        let (mut headers, mut parts) =
            (uninitialised::<u8>(plan.header_bytes), uninitialised::<Slice>(plan.slices));
        let room = Slice { data: headers.as_mut_ptr().cast(), len: headers.len() };
        let slices = Slices { list: parts.as_mut_ptr().cast(), room: parts.len() };
        // SAFETY: as before.
        let gathered = unsafe {
            assert_eq!(linecard_segment_gather(large, room, &raw const slices, at), LINECARD_OK);
            let all = written(&list, plan.segments);
            // Slices are used from the first on, and headers lie one behind the other.
            let used: usize = all.iter().map(|one| one.slices).sum();
            let parts = written(&parts, used);
            let whole = |one: &Segment| {
                let own = &parts[one.start..one.start + one.slices];
                assert!(own.iter().all(|part| part.len > 0));
                let bytes = own.iter().flat_map(|part| slice::from_raw_parts(part.data, part.len));
                let bytes: Vec<u8> = bytes.copied().collect();
                assert_eq!(bytes.len(), one.len);
                bytes
            };
            all.iter().map(whole).collect()
        };
        [copied, gathered]
    }

    #[test]
    fn both_ways_make_the_same_in_the_room_that_was_planned() {
        let (head, rest) = (udp_head(), [4_u8, 5, 6, 7, 8, 9]);
        let pieces: Vec<_> = rest
            .chunks(2)
            .map(|part| Slice { data: part.as_ptr().cast_mut(), len: part.len() })
            .collect();
        for (size, padded) in (1..=10).flat_map(|size| [(size, 0), (size, 1)]) {
            let large = Large {
                head: head.as_ptr(),
                head_len: head.len(),
                pieces: pieces.as_ptr(),
                piece_count: pieces.len(),
                gso: Gso { size, padded, ..Gso::default() },
                link: types::LINECARD_LINK_ETHERNET,
                checksum: types::LINECARD_CHECKSUM_UNKNOWN,
            };
            let [copied, gathered] = both_ways(&large);
            assert_eq!(copied, gathered, "{size}");
            assert_eq!(copied.len(), 9_usize.div_ceil(size.into()));
            let payload = copied.iter().flat_map(|frame| &frame[42..]).copied();
            let payload: Vec<u8> = payload.filter(|byte| *byte != 0).collect();
            assert_eq!(payload, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        }
    }

    #[test]
    fn a_segment_beyond_its_length_field_has_a_code_of_its_own() {
        let (mut head, rest) = (udp_head(), vec![7_u8; 65_000]);
        // TCP, and the length that does not fit is 0.
        head[16..18].fill(0);
        head[23] = 6;
        head.truncate(34);
        head.extend([0, 7, 0, 9, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0, 9, 0, 0, 0, 0]);
        let pieces = [(); 2].map(|()| Slice { data: rest.as_ptr().cast_mut(), len: rest.len() });
        let mut large = Large {
            head: head.as_ptr(),
            head_len: head.len(),
            pieces: pieces.as_ptr(),
            piece_count: pieces.len(),
            gso: Gso { size: 65_495, ..Gso::default() },
            link: types::LINECARD_LINK_ETHERNET,
            checksum: types::LINECARD_CHECKSUM_UNKNOWN,
        };
        let mut plan = MaybeUninit::uninit();
        // SAFETY: both pointers are valid.
        let code = unsafe { linecard_segment_plan(&raw const large, plan.as_mut_ptr()) };
        assert_eq!(code, LINECARD_OK);
        for size in [65_496, 65_535] {
            large.gso.size = size;
            // SAFETY: both pointers are valid.
            let code = unsafe { linecard_segment_plan(&raw const large, plan.as_mut_ptr()) };
            assert_eq!(code, error::LINECARD_E_SEGMENT_TOO_LONG);
        }
    }

    /// In a protocol that is not followed, the checksum lies where the header says.
    #[test]
    fn a_checksum_is_completed_where_the_virtio_header_says() {
        // UDP inside of a protocol of its own, its field holding the sum of the pseudo header.
        let mut frame = vec![0x45, 0, 0, 36, 0, 1, 0, 0, 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        frame.extend([9, 9, 9, 9, 0, 7, 0, 9, 0, 12, 0x14, 0x20, 1, 2, 3, 4]);
        let complete = |header: [u8; 10], frame: &mut [u8]| {
            let slice = Slice { data: frame.as_mut_ptr(), len: frame.len() };
            // SAFETY: both pointers are valid.
            unsafe { linecard_virtio_complete_checksum(header.as_ptr(), 10, 0, slice) }
        };
        let before = frame.clone();
        assert_eq!(complete([0, 0, 0, 0, 0, 0, 24, 0, 6, 0], &mut frame), LINECARD_OK);
        assert_eq!(frame, before, "nothing is asked for");
        let outside = complete([1, 0, 0, 0, 0, 0, 40, 0, 6, 0], &mut frame);
        assert_eq!((outside, &frame), (error::LINECARD_E_VIRTIO_CSUM_START, &before));
        let outside = complete([1, 0, 0, 0, 0, 0, 24, 0, 11, 0], &mut frame);
        assert_eq!((outside, &frame), (error::LINECARD_E_VIRTIO_CSUM_OFFSET, &before));
        assert_eq!(complete([1, 0, 0, 0, 0, 0, 24, 0, 6, 0], &mut frame), LINECARD_OK);
        let pseudo = Sum::word(0x1420);
        assert!(Sum::of(&frame[24..]).plus(pseudo).is_valid(), "with the pseudo header");
        assert_eq!((&frame[..30], &frame[32..]), (&before[..30], &before[32..]));
    }

    #[test]
    fn bytes_are_summed_and_copied_into_memory_without_a_value() {
        for len in [0, 1, 3, 1_448, 4_096, 4_097, 9_001] {
            let from: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
            let mut to = uninitialised::<u8>(len);
            // SAFETY: both are as long.
            let sum = unsafe { linecard_sum_copy(from.as_ptr(), to.as_mut_ptr().cast(), len) };
            assert_eq!((sum, written(&to, len)), (Sum::of(&from).fold(), from));
        }
    }
}
