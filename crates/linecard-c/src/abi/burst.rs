//! Exported functions of bursts.

use super::{Exclusive, array, array_mut, guard, one, place, read_config, write_versioned};
use crate::burst::{self, Described, Merger};
use crate::error::Error;
use crate::types::{BurstPacket, Config, Counters, Range, Run, Slice};
use linecard::offload::burst::Room;
use std::ffi::c_void;
use std::ptr;
use std::slice;

/// Takes a packet of a burst, which is valid until the function returns. It has to return, not to
/// unwind or jump; it may not use the merger, and reads the buffer through the slices only.
pub type PacketCallback =
    Option<unsafe extern "C" fn(context: *mut c_void, packet: *const BurstPacket)>;

/// Takes segments of a frame, which are valid until the function returns. It has to return, not to
/// unwind or jump.
pub type RunCallback = Option<unsafe extern "C" fn(context: *mut c_void, run: *const Run)>;

/// Where `linecard_cut` writes segments, and who takes them.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CutOutput {
    /// Memory for at least one segment: `front`, its headers with `gso_size` bytes of payload (or the
    /// whole frame if it is not segmented), and `back`. More takes fewer calls of the callback. It does
    /// not overlap the frame.
    pub buffer: Slice,
    /// Bytes left free before each segment, for headers of the caller's.
    pub front: usize,
    /// Bytes left free after each segment, for example for the tag of an AEAD.
    pub back: usize,
    /// Called whenever no more segments fit into the buffer, and after the last one.
    pub callback: RunCallback,
    /// Given to the callback.
    pub context: *mut c_void,
}

/// A merger as held by C.
#[derive(Debug)]
pub struct MergerHandle(Exclusive<Merger>);

/// A piece of a frame, which has been checked, and is readable during the call.
#[derive(Debug)]
#[repr(transparent)]
struct Piece(Slice);

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        if self.0.len == 0 {
            return &[];
        }
        // SAFETY: checked before it became a piece; the rest is the caller's promise.
        unsafe { slice::from_raw_parts(self.0.data, self.0.len) }
    }
}

/// Runs `work` with the merger of a handle.
///
/// # Safety
///
/// `handle` is NULL or from [`linecard_merger_new`], and has not been freed.
unsafe fn with<R>(
    handle: *const MergerHandle,
    work: impl FnOnce(&mut Merger) -> Result<R, Error>,
) -> Result<R, Error> {
    // SAFETY: the caller's promise; only shared references are made of it.
    unsafe { handle.as_ref() }.ok_or(Error::Null)?.0.with(work)
}

/// Creates a merger for frames with this link header, LINECARD_LINK_*, and stores it in `*merger`:
/// it merges the packets of bursts where they were received, and holds none. Of the configuration,
/// set by `linecard_config_burst`, it uses `max_bytes` (up to 65,535, which a higher number means too;
/// nothing merges that would be longer), `max_segments` (up to 1,023, so that
/// `writev` takes a packet with its header), `max_datagrams`, `max_tunnels`, `trust_checksums`,
/// `secret`, `exact_ids`, `as_arrived` and `virtio_len`, which may not be 0: packets that a header of this length
/// cannot describe do not merge. Memory is allocated as bursts grow, and kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_merger_new(
    link: u8,
    config: *const Config,
    merger: *mut *mut MergerHandle,
) -> i32 {
    guard(|| {
        // SAFETY: the caller has a pointer there to be set.
        let place = unsafe { place(merger) }?;
        // SAFETY: the caller has a configuration there.
        let made = Merger::new(link, &unsafe { read_config(config) }?)?;
        place.write(Box::into_raw(Box::new(MergerHandle(Exclusive::new(made)))));
        Ok(())
    })
}

/// Frees a merger; NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_merger_free(merger: *mut MergerHandle) {
    guard(|| {
        if !merger.is_null() {
            // SAFETY: from `linecard_merger_new`, and freed once, the caller promises.
            drop(unsafe { Box::from_raw(merger) });
        }
        Ok(())
    });
}

/// Merges `count` frames in `buffer`, at most 1,048,576, in the order of their arrival, and calls
/// `callback` for each packet that results: merged ones, and all others as they are. Packets of a
/// flow leave in the order in which they arrived, except late TCP packets that merge (see `as_arrived`).
/// Nothing is held when the function returns, and the buffer may be used again.
///
/// The first header of each merged packet is changed in place, so frames should not overlap. If a
/// frame is not inside of the buffer, LINECARD_E_INVALID is returned, and nothing has been changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_merger_merge(
    merger: *mut MergerHandle,
    buffer: Slice,
    frames: *const Range,
    count: usize,
    callback: PacketCallback,
    context: *mut c_void,
) -> i32 {
    guard(|| {
        let callback = callback.ok_or(Error::Null)?;
        // SAFETY: the callback takes this context, and a packet that is there while it runs.
        let mut out = |packet: &_| unsafe { callback(context, ptr::from_ref(packet)) };
        let merge = |merger: &mut Merger| {
            // SAFETY: the caller has both there, for this call, and nobody else uses the buffer: a
            // call inside of another one with the same merger has been refused.
            let (buffer, frames) =
                unsafe { (array_mut(buffer.data, buffer.len)?, array(frames, count)?) };
            merger.merge(buffer, frames, &mut out)
        };
        // SAFETY: the caller's handle.
        unsafe { with(merger, merge) }
    })
}

/// Reads the merger's counters: `packets_in`, `packets_out` and `merged`; the others are 0. `size`
/// is `sizeof *counters`, as in `linecard_config_default`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_merger_counters(
    merger: *const MergerHandle,
    counters: *mut Counters,
    size: usize,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's handle.
        let counted = unsafe { with(merger, |it| Ok(it.counters())) }?;
        // SAFETY: the caller has a struct of `size` bytes there.
        unsafe { write_versioned(&counted, counters, size) }
    })
}

/// How often a reason occurred, with numbers as in `linecard_reason_name`. 0 for unknown reasons. A
/// packet that met no other one of its flow is not examined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_merger_reason_count(
    merger: *const MergerHandle,
    exit_kind: u8,
    reason: u8,
) -> u64 {
    let mut count = 0;
    guard(|| {
        // SAFETY: the caller's handle.
        count = unsafe { with(merger, |it| it.count(exit_kind, reason).ok_or(Error::Invalid)) }?;
        Ok(())
    });
    count
}

/// Divides a frame with this link header, LINECARD_LINK_*, as its virtio header asks for, into
/// segments with complete headers and checksums. A frame that is not to be segmented is one segment,
/// with its checksum completed if that was left to the reader.
///
/// The first of the `count` slices is the virtio header, 10, 12 or 24 bytes, little endian; the
/// second begins the frame, and has all of its headers; others may follow, as in the descriptors of
/// a virtual machine's queue, whose headers have to be copied out of the machine's memory first:
/// nobody may write to them during the call. Segments are written to `output->buffer` as long as they fit, with
/// `front` bytes before and `back` bytes after each, which are left as they are. The callback takes
/// them; then the buffer is filled again, until all segments have left.
///
/// The frame is checked before the first segment: an error code names the wrong field of the virtio
/// header, or says that the buffer has no room for even one segment, and the callback has not been
/// called. The frame is only read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linecard_cut(
    link: u8,
    frame: *const Slice,
    count: usize,
    output: *const CutOutput,
) -> i32 {
    guard(|| {
        // SAFETY: the caller has both there.
        let (frame, output) = unsafe { (array(frame, count)?, one(output)?) };
        let [virtio, head, rest @ ..] = frame else { return Err(Error::Invalid) };
        let callback = output.callback.ok_or(Error::Null)?;
        let context = output.context;
        for piece in rest {
            // SAFETY: as before, and the slices are readable.
            unsafe { array(piece.data.cast_const(), piece.len) }?;
        }
        // SAFETY: a `Piece` is a slice that has been checked.
        let rest = unsafe { array(rest.as_ptr().cast::<Piece>(), rest.len()) }?;
        // SAFETY: the slices are readable, nobody else writes to them, and the buffer, which is written
        // to, overlaps no other.
        let (virtio, head, buffer) = unsafe {
            let virtio = array(virtio.data.cast_const(), virtio.len)?;
            let buffer = array_mut(output.buffer.data, output.buffer.len)?;
            (virtio, array(head.data.cast_const(), head.len)?, buffer)
        };
        // SAFETY: the callback takes this context, and a run that is there while it runs.
        let mut out = |run: &_| unsafe { callback(context, ptr::from_ref(run)) };
        let room = Room { front: output.front, back: output.back };
        burst::cut(&Described { link, virtio, head, rest }, room, buffer, &mut out)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{linecard_config_burst, linecard_config_default};
    use crate::error::{self, LINECARD_OK};
    use crate::types;
    use linecard::packet::checksum::Sum;
    use std::mem::MaybeUninit;

    const LEN: usize = 28 + 8;

    /// A UDP datagram over IPv4 with 8 bytes of payload.
    fn datagram(id: u8) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..20].copy_from_slice(&[
            0x45, 0, 0, LEN as u8, 0, id, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ]);
        let sum = Sum::of(&bytes[..20]).checksum();
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes[20..28].copy_from_slice(&[0, 7, 0, 9, 0, 16, 0, 0]);
        bytes[28..].fill(id);
        let pseudo = Sum::of(&bytes[12..20]).plus(Sum::word(17 + 16));
        let sum = Sum::of(&bytes[20..]).plus(pseudo).checksum();
        bytes[26..28].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    fn config() -> Config {
        let mut config = MaybeUninit::uninit();
        // SAFETY: the pointer is valid, and its target is set when the code says so.
        unsafe {
            let code = linecard_config_burst(config.as_mut_ptr(), size_of::<Config>());
            assert_eq!(code, LINECARD_OK);
            config.assume_init()
        }
    }

    fn new(link: u8, config: &Config) -> Result<*mut MergerHandle, i32> {
        let mut handle = ptr::null_mut();
        // SAFETY: both pointers are valid.
        let code = unsafe { linecard_merger_new(link, config, &raw mut handle) };
        if code == LINECARD_OK { Ok(handle) } else { Err(code) }
    }

    /// Packets that left, and the merger that they left.
    struct Left {
        merger: *mut MergerHandle,
        packets: Vec<(usize, usize, Vec<Vec<u8>>)>,
        nested: i32,
    }

    unsafe extern "C" fn keep(context: *mut c_void, packet: *const BurstPacket) {
        // SAFETY: `merge` below gives both.
        let (left, packet) = unsafe { (&mut *context.cast::<Left>(), &*packet) };
        // SAFETY: valid during the call, as are the slices.
        let slices = unsafe { slice::from_raw_parts(packet.slices, packet.count) };
        // SAFETY: as before.
        let bytes = |part: &Slice| unsafe { slice::from_raw_parts(part.data, part.len) }.to_vec();
        let slices: Vec<_> = slices.iter().map(bytes).collect();
        assert_eq!(slices.iter().map(Vec::len).sum::<usize>(), packet.len);
        left.packets.push((packet.first, packet.packets, slices));
        let none = Slice { data: ptr::null_mut(), len: 0 };
        // SAFETY: the handle has not been freed; the call is refused.
        left.nested = unsafe {
            linecard_merger_merge(left.merger, none, ptr::null(), 0, Some(keep), context)
        };
    }

    fn merge(merger: *mut MergerHandle, buffer: &mut [u8], frames: &[Range]) -> (i32, Left) {
        let mut left = Left { merger, packets: Vec::new(), nested: LINECARD_OK };
        let (context, count) = ((&raw mut left).cast(), frames.len());
        let buffer = Slice { data: buffer.as_mut_ptr(), len: buffer.len() };
        // SAFETY: all pointers are valid.
        let code = unsafe {
            linecard_merger_merge(merger, buffer, frames.as_ptr(), count, Some(keep), context)
        };
        (code, left)
    }

    #[test]
    fn a_burst_leaves_with_its_virtio_header_first() {
        let merger = new(types::LINECARD_LINK_RAW, &config()).expect("valid");
        let mut buffer = [datagram(1), datagram(2), datagram(3)].concat();
        let at = |index: usize| Range { offset: index * LEN, len: LEN };
        let (code, left) = merge(merger, &mut buffer, &[at(0), at(1), at(2)]);
        assert_eq!((code, left.nested), (LINECARD_OK, error::LINECARD_E_BROKEN));
        let [(0, 3, slices)] = &left.packets[..] else { panic!("{:?}", left.packets) };
        // NEEDS_CSUM, UDP_L4, headers, payload of each, the start and the offset of the checksum.
        assert_eq!(slices[0], [1, 5, 28, 0, 8, 0, 20, 0, 6, 0, 0, 0]);
        assert_eq!(slices[1..].iter().map(Vec::len).collect::<Vec<_>>(), [LEN, 8, 8]);

        // Nothing merges with an empty frame, and nothing is lost.
        let empty = Range { offset: 5, len: 0 };
        let (code, left) = merge(merger, &mut buffer, &[empty, empty]);
        assert_eq!((code, left.packets.len()), (LINECARD_OK, 2));
        assert_eq!(left.packets[1], (1, 1, vec![vec![0; 12], vec![]]));

        let mut counters = MaybeUninit::<Counters>::uninit();
        // SAFETY: both pointers are valid; the counters are set when the code says so.
        let (counters, reasons) = unsafe {
            let size = size_of::<Counters>();
            let code = linecard_merger_counters(merger, counters.as_mut_ptr(), size);
            assert_eq!(code, LINECARD_OK);
            let count = |exit| move |reason| linecard_merger_reason_count(merger, exit, reason);
            let reasons: u64 = (0..=u8::MAX).map(count(types::LINECARD_EXIT_FLUSHED)).sum();
            (counters.assume_init(), reasons)
        };
        assert_eq!((counters.packets_in, counters.packets_out, counters.merged), (5, 3, 2));
        assert_eq!(reasons, 1, "the burst has ended");
        // SAFETY: freed once.
        unsafe { linecard_merger_free(merger) };
    }

    #[test]
    fn frames_outside_of_the_buffer_are_refused_before_anything_is_done() {
        let merger = new(types::LINECARD_LINK_RAW, &config()).expect("valid");
        let mut buffer = [datagram(1), datagram(2)].concat();
        let before = buffer.clone();
        let outside =
            [(LEN + 1, LEN), (2 * LEN + 1, 0), (usize::MAX, 1), (1, usize::MAX), (1 << 40, 0)];
        for (offset, len) in outside {
            let frames = [Range { offset: 0, len: LEN }, Range { offset, len }];
            let (code, left) = merge(merger, &mut buffer, &frames);
            assert_eq!(
                (code, left.packets.len()),
                (error::LINECARD_E_INVALID, 0),
                "{offset} {len}"
            );
        }
        assert_eq!(buffer, before);
        // SAFETY: freed once.
        unsafe { linecard_merger_free(merger) };
    }

    #[test]
    fn wrong_arguments_of_mergers_have_a_code() {
        use error::{LINECARD_E_INVALID, LINECARD_E_NULL};
        let good = config();
        assert_eq!(new(77, &good), Err(LINECARD_E_INVALID));
        for virtio_len in [0, 11] {
            let wrong = Config { virtio_len, ..good };
            assert_eq!(new(0, &wrong), Err(LINECARD_E_INVALID));
        }
        let mut holding = MaybeUninit::<Config>::uninit();
        let merger = new(types::LINECARD_LINK_RAW, &good).expect("valid");
        let (mut byte, frame, none) = (0, Range { offset: 0, len: 1 }, ptr::null_mut());
        let one = Slice { data: &raw mut byte, len: 1 };
        let nowhere = Slice { data: ptr::null_mut(), len: 1 };
        let mut left = Left { merger, packets: Vec::new(), nested: LINECARD_OK };
        let context = (&raw mut left).cast();
        // SAFETY: a missing part is NULL, and refused.
        unsafe {
            let code = linecard_config_default(holding.as_mut_ptr(), size_of::<Config>());
            assert_eq!(code, LINECARD_OK);
            let holding = holding.assume_init();
            assert_eq!(new(0, &holding), Err(LINECARD_E_INVALID), "no virtio header");
            let code = linecard_merger_new(0, ptr::null(), &mut ptr::null_mut());
            assert_eq!(code, LINECARD_E_NULL);
            assert_eq!(linecard_merger_new(0, &raw const good, ptr::null_mut()), LINECARD_E_NULL);
            let frames = &raw const frame;
            let merge = linecard_merger_merge;
            assert_eq!(merge(none, one, frames, 1, Some(keep), context), LINECARD_E_NULL);
            assert_eq!(merge(merger, nowhere, frames, 1, Some(keep), context), LINECARD_E_NULL);
            assert_eq!(merge(merger, one, ptr::null(), 1, Some(keep), context), LINECARD_E_NULL);
            assert_eq!(merge(merger, one, frames, 1, None, context), LINECARD_E_NULL);
            let code = linecard_merger_counters(merger, ptr::null_mut(), size_of::<Counters>());
            assert_eq!(code, LINECARD_E_NULL);
            assert_eq!(linecard_merger_reason_count(none, 0, 0), 0);
            linecard_merger_free(ptr::null_mut());
            linecard_merger_free(merger);
        }
        assert!(left.packets.is_empty());
    }

    /// The segments of all runs, and the lengths of the runs.
    #[derive(Debug, Default, PartialEq)]
    struct CutRuns {
        segments: Vec<Vec<u8>>,
        counts: Vec<usize>,
    }

    unsafe extern "C" fn collect(context: *mut c_void, run: *const Run) {
        // SAFETY: `cut` below gives both.
        let (cut, run) = unsafe { (&mut *context.cast::<CutRuns>(), &*run) };
        // SAFETY: valid during the call, also for writing.
        let bytes = unsafe { slice::from_raw_parts_mut(run.data, run.len) };
        assert_eq!(bytes.chunks(run.size).len(), run.count);
        cut.segments.extend(bytes.chunks(run.size).map(<[u8]>::to_vec));
        cut.counts.push(run.count);
        bytes.fill(0xEE);
    }

    const ROOM: [usize; 2] = [2, 3];

    /// Cuts into a buffer of `len` bytes, all 0xEE.
    fn cut(link: u8, parts: &mut [&mut [u8]], len: usize) -> Result<CutRuns, i32> {
        let slices = parts.iter_mut();
        let slices: Vec<_> =
            slices.map(|part| Slice { data: part.as_mut_ptr(), len: part.len() }).collect();
        let (mut buffer, mut cut) = (vec![0xEE; len], CutRuns::default());
        let output = CutOutput {
            buffer: Slice { data: buffer.as_mut_ptr(), len },
            front: ROOM[0],
            back: ROOM[1],
            callback: Some(collect),
            context: (&raw mut cut).cast(),
        };
        // SAFETY: all pointers are valid.
        let code = unsafe { linecard_cut(link, slices.as_ptr(), slices.len(), &raw const output) };
        if code == LINECARD_OK {
            return Ok(cut);
        }
        assert_eq!(cut, CutRuns::default(), "nothing came before the error");
        Err(code)
    }

    /// Three datagrams as one, with the header that describes them.
    fn merged() -> [Vec<u8>; 3] {
        let merger = new(types::LINECARD_LINK_RAW, &config()).expect("valid");
        let mut buffer = [datagram(1), datagram(2), datagram(3)].concat();
        let frames = [0, LEN, 2 * LEN].map(|offset| Range { offset, len: LEN });
        let (_, mut left) = merge(merger, &mut buffer, &frames);
        // SAFETY: freed once.
        unsafe { linecard_merger_free(merger) };
        let slices = left.packets.remove(0).2;
        [slices[0].clone(), slices[1].clone(), slices[2..].concat()]
    }

    #[test]
    fn what_was_merged_is_cut_again_in_any_room_and_in_pieces() {
        let expected = [1, 2, 3].map(|id| {
            let mut segment = vec![0xEE; ROOM[0]];
            segment.extend(datagram(id));
            segment.extend([0xEE; ROOM[1]]);
            segment
        });
        let one = LEN + ROOM[0] + ROOM[1];
        for (len, counts) in
            [(one, vec![1, 1, 1]), (2 * one, vec![2, 1]), (3 * one, vec![3]), (999, vec![3])]
        {
            let [mut virtio, mut head, mut rest] = merged();
            let (near, far) = rest.split_at_mut(5);
            let parts: &mut [&mut [u8]] = &mut [&mut virtio, &mut head, near, &mut [], far];
            let made = cut(types::LINECARD_LINK_RAW, parts, len).expect("valid");
            assert_eq!((&made.segments[..], made.counts), (&expected[..], counts));
        }
        let [mut virtio, mut head, mut rest] = merged();
        let parts: &mut [&mut [u8]] = &mut [&mut virtio, &mut head, &mut rest];
        let code = cut(types::LINECARD_LINK_RAW, parts, one - 1);
        assert_eq!(code, Err(error::LINECARD_E_NO_ROOM));
    }

    /// If it were completed before the error, the second try would complete it twice.
    #[test]
    fn a_checksum_is_completed_once_however_little_room_there_is_first() {
        for gso in [[0, 0], [5, 8]] {
            let whole = datagram(1);
            let mut frame = whole;
            let pseudo = Sum::of(&whole[12..20]).plus(Sum::word(17 + 16)).fold();
            frame[26..28].copy_from_slice(&pseudo.to_be_bytes());
            let mut virtio = [1, gso[0], 28, 0, gso[1], 0, 20, 0, 6, 0];
            let needed = LEN + ROOM[0] + ROOM[1];
            for len in [0, 1, 4, 5, LEN, needed - 1] {
                let code = cut(types::LINECARD_LINK_RAW, &mut [&mut virtio, &mut frame], len);
                assert_eq!(code, Err(error::LINECARD_E_NO_ROOM), "{gso:?} {len}");
            }
            let made = cut(types::LINECARD_LINK_RAW, &mut [&mut virtio, &mut frame], needed);
            let made = made.expect("room").segments.remove(0);
            assert_eq!(made[ROOM[0]..][..LEN], whole, "{gso:?}");
        }
    }

    #[test]
    fn wrong_arguments_of_cut_have_a_code() {
        use error::{LINECARD_E_INVALID, LINECARD_E_NULL};
        let code = |link, parts: &mut [&mut [u8]]| cut(link, parts, 999).expect_err("wrong");
        let [mut virtio, mut head, mut rest] = merged();
        assert_eq!(code(1, &mut []), LINECARD_E_INVALID);
        assert_eq!(code(1, &mut [&mut virtio]), LINECARD_E_INVALID);
        assert_eq!(code(1, &mut [&mut virtio, &mut []]), LINECARD_E_INVALID, "no frame");
        assert_eq!(code(1, &mut [&mut virtio[..11], &mut head]), LINECARD_E_INVALID);
        assert_eq!(code(77, &mut [&mut virtio, &mut head, &mut rest]), LINECARD_E_INVALID);
        virtio[6] = 22;
        let found = code(1, &mut [&mut virtio, &mut head, &mut rest]);
        assert_eq!(found, error::LINECARD_E_VIRTIO_CSUM_START);
        virtio[6] = 20;
        let found = code(1, &mut [&mut virtio, &mut head[..27], &mut rest]);
        assert!(found < 0, "headers end in the second slice");

        let part = |part: &mut [u8]| Slice { data: part.as_mut_ptr(), len: part.len() };
        let nowhere = Slice { data: ptr::null_mut(), len: 1 };
        let mut buffer = [0; 999];
        let output = CutOutput {
            buffer: part(&mut buffer),
            front: 0,
            back: 0,
            callback: Some(collect),
            context: ptr::null_mut(),
        };
        let frame = [part(&mut virtio), part(&mut head), part(&mut rest)];
        let with = |index: usize| {
            let mut frame = frame;
            frame[index] = nowhere;
            // SAFETY: a missing part is NULL, and refused.
            unsafe { linecard_cut(1, frame.as_ptr(), 3, &raw const output) }
        };
        assert_eq!([with(0), with(1), with(2)], [LINECARD_E_NULL; 3]);
        let into = |output: *const CutOutput| {
            // SAFETY: as before.
            unsafe { linecard_cut(1, frame.as_ptr(), 3, output) }
        };
        assert_eq!(into(ptr::null()), LINECARD_E_NULL);
        assert_eq!(into(&CutOutput { callback: None, ..output }), LINECARD_E_NULL);
        assert_eq!(into(&CutOutput { buffer: nowhere, ..output }), LINECARD_E_NULL);
        let far = usize::MAX;
        for (front, back) in [(far, 0), (0, far), (far, far), (far / 2, far / 2), (999, 0)] {
            let code = into(&CutOutput { front, back, ..output });
            assert_eq!(code, error::LINECARD_E_NO_ROOM, "{front} {back}");
        }
    }
}
