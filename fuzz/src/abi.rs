//! Calls of the C interface in any order that the header allows, with any frames: each frame comes back once, all
//! pointers lead into memory of the caller, room of the size that was announced is enough, and less is refused.

use crate::draw::Draw;
use crate::traffic::arrivals;
use linecard::packet::LinkType;
use linecard_c::abi::{
    Handle, linecard_checksum_complete, linecard_checksum_defer, linecard_coalescer_advance,
    linecard_coalescer_counters, linecard_coalescer_flush, linecard_coalescer_free,
    linecard_coalescer_new, linecard_coalescer_push, linecard_config_default,
    linecard_segment_gather, linecard_segment_plan, linecard_segment_write, linecard_sum,
    linecard_sum_copy, linecard_virtio_check,
};
use linecard_c::error::{LINECARD_E_BROKEN, LINECARD_E_NO_ROOM, LINECARD_OK};
use linecard_c::types::{
    Config, Counters, Frame, LINECARD_CHECKSUM_UNKNOWN, LINECARD_LINK_ETHERNET, LINECARD_LINK_RAW,
    Large, Merged, Output, Plan, Segment, Segments, Slice, Slices,
};
use std::ffi::c_void;
use std::mem::{MaybeUninit, zeroed};
use std::ptr;

/// Frames that are handed over by one call.
const MAX_COUNT: usize = 16;

/// Input: the configuration, then traffic with the calls between its packets, or any bytes to functions of one frame.
pub fn abi(data: &[u8]) {
    let draw = &mut Draw::new(data);
    let mode = draw.byte();
    if mode & 1 == 0 { single(draw) } else { coalescer(draw, mode) }
}

/// A frame in memory of its own, so that the sanitizer sees each byte that is read beyond it.
struct Lent {
    frame: Vec<u8>,
    before: Vec<u8>,
    link: u8,
    is_out: bool,
}

impl Lent {
    fn slice(&mut self) -> Slice {
        Slice { data: self.frame.as_mut_ptr(), len: self.frame.len() }
    }
}

fn coalescer(draw: &mut Draw<'_>, mode: u8) {
    let config = config(draw, mode);
    let calls = draw.take(MAX_COUNT);
    let mut lent: Vec<Lent> = Vec::new();
    let mut frames = Vec::new();
    for arrival in arrivals(draw).into_iter().filter(|arrival| !arrival.bytes.is_empty()) {
        let link = if arrival.link == LinkType::Ethernet {
            LINECARD_LINK_ETHERNET
        } else {
            LINECARD_LINK_RAW
        };
        let before = arrival.bytes.clone();
        let mut one = Lent { frame: arrival.bytes, before, link, is_out: true };
        let Slice { data, len } = one.slice();
        let token = ptr::without_provenance_mut::<c_void>(lent.len());
        let (lane, mark) = (arrival.meta.lane, arrival.meta.mark);
        frames
            .push((Frame { data, len, token, lane, mark, link, checksum: 0 }, arrival.now.as_ns()));
        lent.push(one);
    }
    let (mut handle, mut output) =
        (ptr::null_mut::<Handle>(), Output { packets: ptr::null(), count: 0 });
    // SAFETY: both pointers are valid.
    let code = unsafe { linecard_coalescer_new(&raw const config, &raw mut handle) };
    if code != LINECARD_OK {
        assert!(code != LINECARD_E_BROKEN && handle.is_null());
        return;
    }
    let mut calls = calls.into_iter().cycle();
    let mut rest = &frames[..];
    while let Some((_, now_ns)) = rest.first() {
        let call = calls.next().unwrap_or(0);
        let (now, behind) = rest.split_at(rest.len().min(1 + usize::from(call) % MAX_COUNT));
        rest = behind;
        let list: Vec<Frame> = now.iter().map(|(frame, _)| *frame).collect();
        // SAFETY: the frames stay in place until the end; the handle is good.
        let code = unsafe {
            linecard_coalescer_push(handle, list.as_ptr(), list.len(), *now_ns, &raw mut output)
        };
        assert_eq!(code, LINECARD_OK);
        take(&output, &mut lent, &config);
        if call & 0x80 != 0 {
            // SAFETY: as before.
            let code = unsafe {
                linecard_coalescer_advance(
                    handle,
                    now_ns + u64::from(call) * 10_000,
                    &raw mut output,
                )
            };
            assert_eq!(code, LINECARD_OK);
            take(&output, &mut lent, &config);
        }
    }
    // SAFETY: as before.
    let code = unsafe { linecard_coalescer_flush(handle, &raw mut output) };
    assert_eq!(code, LINECARD_OK);
    take(&output, &mut lent, &config);
    let mut counters = Counters::default();
    // SAFETY: all pointers are valid; it is freed once.
    unsafe {
        let size = size_of::<Counters>();
        assert_eq!(linecard_coalescer_counters(handle, &raw mut counters, size), LINECARD_OK);
        linecard_coalescer_free(handle);
    }
    assert_eq!((counters.packets_in, counters.held), (frames.len() as u64, 0));
    assert!(lent.iter().all(|one| !one.is_out), "a frame has not come back");
}

fn config(draw: &mut Draw<'_>, mode: u8) -> Config {
    let mut config = MaybeUninit::<Config>::uninit();
    // SAFETY: as many bytes as it says are there; all are set.
    let mut config = unsafe {
        assert_eq!(linecard_config_default(config.as_mut_ptr(), size_of::<Config>()), LINECARD_OK);
        config.assume_init()
    };
    config.max_flows = 1 + draw.below(16);
    config.max_held_packets = 1 + draw.below(64);
    config.virtio_len = draw.pick(&[0, 0, 10, 12, 24, 11]);
    config.max_tunnels = draw.byte() % 5;
    config.max_segments = draw.pick(&[1_024, 1, 2, 17]);
    config.on_syn = mode >> 1 & 1;
    config.flush_at_end = mode >> 2 & 1;
    config.as_arrived = mode >> 3 & 1;
    config.exact_ids = mode >> 4 & 1;
    config
}

/// Packets that left: their frames come back.
fn take(output: &Output, lent: &mut [Lent], config: &Config) {
    // SAFETY: valid until the next call.
    for merged in unsafe { array(output.packets, output.count) } {
        // SAFETY: as before.
        let (slices, tokens) =
            unsafe { (array(merged.slices, merged.count), array(merged.tokens, merged.count)) };
        let mut link = LINECARD_LINK_RAW;
        for (slice, token) in slices.iter().zip(tokens) {
            let one = &mut lent[token.addr()];
            assert!(std::mem::replace(&mut one.is_out, false), "a frame came back twice");
            let (begin, all) = (slice.data.addr(), one.slice());
            assert!(begin >= all.data.addr() && begin + slice.len <= all.data.addr() + all.len);
            link = one.link;
        }
        assert_eq!(merged.len, slices.iter().map(|slice| slice.len).sum::<usize>());
        assert!(merged.virtio_len == 0 || merged.virtio_len == config.virtio_len);
        let before: Vec<&[u8]> =
            tokens.iter().map(|token| &lent[token.addr()].before[..]).collect();
        if merged.count > 1 {
            restore(merged, slices, link, &before);
        } else if config.virtio_len == 0 {
            // SAFETY: of a frame that is there.
            assert_eq!(unsafe { array(slices[0].data, slices[0].len) }, before[0]);
        }
    }
}

/// The segments of a merged packet are the frames that were received.
fn restore(merged: &Merged, slices: &[Slice], link: u8, before: &[&[u8]]) {
    let large = Large {
        head: slices[0].data,
        head_len: slices[0].len,
        pieces: slices[1..].as_ptr(),
        piece_count: slices.len() - 1,
        gso: merged.gso,
        link,
        checksum: LINECARD_CHECKSUM_UNKNOWN,
    };
    let segments = segments(&large).expect("a merged packet divides");
    assert!(segments.iter().eq(before), "{:?}\n{segments:02x?}\n{before:02x?}", merged.gso);
}

/// Segments in memory that is just long enough, written and gathered; none if the packet is refused.
fn segments(large: &Large) -> Option<Vec<Vec<u8>>> {
    let mut plan = Plan::default();
    // SAFETY: both are valid.
    let code = unsafe { linecard_segment_plan(large, &raw mut plan) };
    assert_ne!(code, LINECARD_E_BROKEN);
    if code != LINECARD_OK || plan.segments > 1_000 {
        return None;
    }
    let mut list = vec![Segment::default(); plan.segments];
    let mut segments = Segments { list: list.as_mut_ptr(), room: list.len(), count: 0 };
    let mut bytes = vec![0; plan.bytes];
    let out = Slice { data: bytes.as_mut_ptr(), len: bytes.len() };
    let short = Slice { len: bytes.len() - 1, ..out };
    // SAFETY: all pointers lead to as many bytes as they say.
    unsafe {
        assert_eq!(linecard_segment_write(large, short, &raw mut segments), LINECARD_E_NO_ROOM);
        assert_eq!(linecard_segment_write(large, out, &raw mut segments), LINECARD_OK);
    }
    assert_eq!(segments.count, plan.segments);
    let written: Vec<Vec<u8>> =
        list.iter().map(|one| bytes[one.start..][..one.len].to_vec()).collect();
    assert!(written.iter().all(|segment| segment.len() <= plan.longest));

    let mut headers = vec![0; plan.header_bytes];
    let headers = Slice { data: headers.as_mut_ptr(), len: headers.len() };
    // SAFETY: null pointers and zeros are a value of it.
    let mut parts: Vec<Slice> = vec![unsafe { zeroed() }; plan.slices];
    let room = Slices { list: parts.as_mut_ptr(), room: parts.len() };
    // SAFETY: as before; what is gathered lies in the headers and in the packet.
    let gathered: Vec<Vec<u8>> = unsafe {
        assert_eq!(
            linecard_segment_gather(large, headers, &raw const room, &raw mut segments),
            LINECARD_OK
        );
        let of = |one: &Segment| {
            parts[one.start..][..one.slices].iter().flat_map(|part| array(part.data, part.len))
        };
        list.iter().map(|one| of(one).copied().collect()).collect()
    };
    assert!(written == gathered, "{written:02x?}\n{gathered:02x?}");
    Some(written)
}

/// Functions of one frame, with any bytes.
fn single(draw: &mut Draw<'_>) {
    let (choice, link) = (draw.byte(), draw.below(3) as u8);
    let header = draw.take([10, 12, 24, 11][usize::from(choice & 3)]);
    let size = draw.word();
    let mut frame = draw.rest().to_vec();
    let slice = Slice { data: frame.as_mut_ptr(), len: frame.len() };
    // SAFETY: the frame is there; an empty one is not looked at.
    let sum = unsafe { linecard_sum(frame.as_ptr(), frame.len()) };
    let mut copy = vec![0; frame.len()];
    // SAFETY: both are there, and do not overlap.
    let copied = unsafe { linecard_sum_copy(frame.as_ptr(), copy.as_mut_ptr(), frame.len()) };
    assert_eq!((sum, &copy), (plain_sum(&frame), &frame));
    assert_eq!(copied, sum);

    // SAFETY: null pointers and zeros are a value of it.
    let empty = Large { head: frame.as_ptr(), head_len: frame.len(), link, ..unsafe { zeroed() } };
    let mut large = empty;
    let big_endian = i32::from(choice >> 2 & 1);
    // SAFETY: the header has as many bytes as it says, the frame too.
    let code =
        unsafe { linecard_virtio_check(header.as_ptr(), header.len(), big_endian, &raw mut large) };
    assert_ne!(code, LINECARD_E_BROKEN);
    if code == LINECARD_OK && large.gso.size > 0 {
        assert!(segments(&large).is_none_or(|list| list.len() == usize::from(large.gso.segments)));
    }
    let mut large = Large { gso: empty.gso, ..large };
    large.gso.size = size;
    let _segments = segments(&large);
    // SAFETY: the frame is there.
    unsafe {
        if linecard_checksum_defer(slice, link) == LINECARD_OK {
            assert_eq!(linecard_checksum_complete(slice, link), LINECARD_OK);
            let before = array(slice.data, slice.len).to_vec();
            assert_eq!(linecard_checksum_defer(slice, link), LINECARD_OK);
            assert_eq!(linecard_checksum_complete(slice, link), LINECARD_OK);
            assert_eq!(array(slice.data, slice.len), before, "a complete checksum is a fixed one");
        }
    }
}

/// RFC 1071, word by word.
fn plain_sum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u64 = bytes.chunks(2).map(word).sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// # Safety
///
/// `len` elements are there, unless it is 0.
unsafe fn array<'a, T>(data: *const T, len: usize) -> &'a [T] {
    // SAFETY: the caller's promise.
    if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(data, len) } }
}
