/* Linecard's offloads for C: packets of a flow are merged (LRO) and large ones are cut (LSO).
 *
 * Written by the test `header` of the crate linecard-c out of its sources: change those. How it all
 * fits together is told by docs/howto/library.md, and shown by crates/linecard-c/examples/.
 *
 * Errors. Functions that can fail give LINECARD_OK or an error code below 0, and have done nothing
 * in that case. Pointers are checked for NULL and alignment, numbers for their range; what they
 * lead to cannot be checked. A bug of the library gives LINECARD_E_BROKEN and never unwinds into C.
 *
 * Memory. A frame belongs to its caller. Between the `linecard_coalescer_push` that takes it and
 * the call whose output has its token, it is lent: it stays where it is, nobody else writes to it,
 * and it overlaps no other lent frame. What an output points to is valid until the next call with
 * that coalescer; the frames in it are the caller's again at once. No payload is copied: a merged
 * packet is the first frame with its header patched, and the others' payload as a list of slices.
 *
 * Threads. A handle is used by one thread at a time, any thread. All else may be called anywhere.
 */


#ifndef LINECARD_H
#define LINECARD_H

#include <stddef.h>
#include <stdint.h>


// No error.
#define LINECARD_OK 0

// A pointer is NULL, or not aligned.
#define LINECARD_E_NULL -1

// A number is none of those that are allowed.
#define LINECARD_E_INVALID -2

// A struct is larger than this library's, and has something in it that this library does not know.
#define LINECARD_E_VERSION -3

// A buffer or an array of the caller is too small.
#define LINECARD_E_NO_ROOM -4

// Not a whole TCP or UDP datagram.
#define LINECARD_E_NOT_A_DATAGRAM -5

// More than 320 bytes of headers.
#define LINECARD_E_HEADER_TOO_LONG -6

// The size of segments is 0.
#define LINECARD_E_ZERO_SIZE -7

// A segment would be longer than one of its length fields can say: 65,535 bytes of an IPv4 or UDP
// datagram, or behind an IPv6 header. Choose a smaller `gso.size`.
#define LINECARD_E_SEGMENT_TOO_LONG -8

// The virtio header's flags contradict each other or the frame.
#define LINECARD_E_VIRTIO_FLAGS -20

// The virtio header's gso_type is unknown, or not what the frame is.
#define LINECARD_E_VIRTIO_GSO_TYPE -21

// The virtio header's gso_size does not divide the frame.
#define LINECARD_E_VIRTIO_GSO_SIZE -22

// The virtio header's hdr_len is more than the frame.
#define LINECARD_E_VIRTIO_HDR_LEN -23

// The virtio header's csum_start is not where the transport header starts.
#define LINECARD_E_VIRTIO_CSUM_START -24

// The virtio header's csum_offset is not where the transport header has its checksum.
#define LINECARD_E_VIRTIO_CSUM_OFFSET -25

// The virtio header's outer_th_offset is not where the tunnel's UDP header starts.
#define LINECARD_E_VIRTIO_OUTER_TH_OFFSET -26

// The virtio header's inner_nh_offset is not where the IP header in the tunnel starts.
#define LINECARD_E_VIRTIO_INNER_NH_OFFSET -27

// A bug of this library, or a handle in which one has happened, or that is used twice at once: it
// can only be freed.
#define LINECARD_E_BROKEN -99

// Version of this interface. It changes when a program has to be compiled anew.
#define LINECARD_ABI_VERSION 1

// Ethernet, with up to four VLAN tags.
#define LINECARD_LINK_ETHERNET 0

// IPv4 or IPv6 without a link header, as on a TUN device.
#define LINECARD_LINK_RAW 1

// Nothing is known of the transport checksum. Segments get complete ones.
#define LINECARD_CHECKSUM_UNKNOWN 0

// Somebody trusted has verified it.
#define LINECARD_CHECKSUM_VALID 1

// It holds the pseudo header's sum, and hardware completes it. So it is in segments.
#define LINECARD_CHECKSUM_PARTIAL 2

// The packet was never held; `reason` is a refusal.
#define LINECARD_EXIT_PASSED 0

// The packet was held, alone or with others; `reason` is why it was let go.
#define LINECARD_EXIT_FLUSHED 1

// The only segment of its packet.
#define LINECARD_CLASS_SINGLE 0

// The first of several.
#define LINECARD_CLASS_BEGINNING 1

// Neither first nor last.
#define LINECARD_CLASS_CONTINUATION 2

// The last of several.
#define LINECARD_CLASS_END 3

// Bytes of the longest virtio-net header.
#define LINECARD_VIRTIO_MAX 24

// A coalescer as C holds it. Once a call has begun and not ended, because of a panic or in another
// thread, no further one begins.
typedef struct linecard_coalescer linecard_coalescer;

// Configuration of a coalescer. Set by `linecard_config_default`, then changed.
typedef struct linecard_config {
    // Bytes of this struct as the program was compiled.
    size_t size;
    // No packet is held longer than this. Default: 1 ms.
    uint64_t hold_budget_ns;
    // A flow has paused when nothing comes for ten times its average interval, but for at least
    // this long. Default: 20 µs.
    uint64_t idle_floor_ns;
    // Key of the flow hash: a random number where peers are not trusted.
    uint64_t secret;
    // Bytes of a merged packet from its outermost IP header on. Default: 65,535.
    size_t max_bytes;
    // Flows in the table, at most 16 Mi. Default: 4,096.
    size_t max_flows;
    // Packets held in all, at most 1 Mi. Default: 16,384.
    size_t max_held_packets;
    // Bytes held in all. Default: 32 MiB.
    size_t max_held_bytes;
    // Packets in a merged TCP packet. Default: 1,024.
    uint16_t max_segments;
    // Packets in a merged UDP packet. Default: 64.
    uint16_t max_datagrams;
    // Tunnels around what is merged, at most 3. Default: 2.
    uint8_t max_tunnels;
    // Not 0: no checksum is computed, hardware has verified them all. Default: 0.
    uint8_t trust_checksums;
    // Not 0: TCP flows are made at their SYN, not at their first data. Default: 0.
    uint8_t on_syn;
    // Not 0: every call of `linecard_coalescer_push` lets everything go at its end. Default: 0.
    uint8_t flush_at_end;
    // Bytes of the virtio header that leaves with each packet: 10, 12 or 24; 0 for none. Default:
    // 0. With it, the checksum of merged packets is left to whoever reads the header.
    uint8_t virtio_len;
    // How IPv4 identifications come back from whoever segments by the virtio header, which counts
    // them up. 0: constant ones may become counting ones where "don't fragment" is set, which makes
    // them meaningless (RFC 6864). Not 0: exactly as they came, so that packets with constant
    // identifications leave without a virtio header. Default: 0.
    uint8_t exact_ids;
} linecard_config;

// A received packet: a frame in a buffer of the caller's.
typedef struct linecard_frame {
    // The frame. It is read, and its header may be written, until it is given back.
    uint8_t *data;
    // Bytes of the frame, at least 1.
    size_t len;
    // Given back with the frame; not looked at.
    void *token;
    // Packets of different lanes never merge.
    uint32_t lane;
    // Packets of one flow with different marks never merge; UINT32_MAX never merges at all.
    uint32_t mark;
    // LINECARD_LINK_*.
    uint8_t link;
    // LINECARD_CHECKSUM_*.
    uint8_t checksum;
} linecard_frame;

// A run of bytes, laid out as POSIX's `struct iovec`.
typedef struct linecard_slice {
    // Its first byte.
    uint8_t *data;
    // Its length.
    size_t len;
} linecard_slice;

// How a large packet divides into segments.
typedef struct linecard_gso {
    // Payload bytes of every segment but the last; 0 for a packet that is not to be cut.
    uint16_t size;
    // Number of segments; not needed to cut.
    uint16_t segments;
    // A bit for each IPv4 header, the innermost lowest: set where all segments carry the same
    // identification; else it counts up by one.
    uint8_t fixed_ids;
    // Not 0: CWR goes on every segment (RFC 9768), not only on the first (RFC 3168).
    uint8_t accecn;
    // Not 0: segments shorter than 60 bytes are padded to 60 with zeros.
    uint8_t padded;
} linecard_gso;

// A packet that leaves a coalescer: one or several of those that came, in order.
typedef struct linecard_merged {
    // Header with the first packet's payload, then the others' payload.
    const struct linecard_slice *slices;
    // The token of the packet that each slice is part of.
    void *const *tokens;
    // Slices, and so packets.
    size_t count;
    // Bytes of all slices.
    size_t len;
    // How it divides into what came.
    struct linecard_gso gso;
    // LINECARD_CHECKSUM_*: what is known of the checksum, or whether it is left to hardware.
    uint8_t checksum;
    // LINECARD_EXIT_*.
    uint8_t exit;
    // Number of the reason: see `linecard_reason_name`.
    uint8_t reason;
    // Bytes of the virtio header: what the configuration asks for, or 0 where no header says how
    // the packet is to be cut, so that its segments have to be sent one by one.
    uint8_t virtio_len;
    // The virtio header, to be sent before the slices; little endian.
    uint8_t virtio[LINECARD_VIRTIO_MAX];
} linecard_merged;

// What has left a coalescer by one call.
typedef struct linecard_output {
    // The packets, in the order in which they left.
    const struct linecard_merged *packets;
    // Their number.
    size_t count;
} linecard_output;

// What a coalescer has done.
typedef struct linecard_counters {
    // Packets received.
    uint64_t packets_in;
    // Bytes of frames received.
    uint64_t bytes_in;
    // Packets let out, merged ones counted once.
    uint64_t packets_out;
    // Bytes of frames let out.
    uint64_t bytes_out;
    // Packets never held.
    uint64_t passed;
    // Packets merged into another.
    uint64_t merged;
    // Packets held now.
    uint64_t held;
    // Flows in the table now.
    uint64_t flows;
    // Flows that gave their place to another.
    uint64_t flows_evicted;
} linecard_counters;

// A large packet to be cut: a frame, or its headers with payload in pieces behind them.
typedef struct linecard_large {
    // The frame, or its first part with all headers. Lengths in the headers are the whole's.
    const uint8_t *head;
    // Bytes of it.
    size_t head_len;
    // Payload that follows. May be NULL when there is none.
    const struct linecard_slice *pieces;
    // Number of pieces.
    size_t piece_count;
    // How it is to be cut.
    struct linecard_gso gso;
    // LINECARD_LINK_*.
    uint8_t link;
    // LINECARD_CHECKSUM_*: with PARTIAL, segments' checksums are left to hardware.
    uint8_t checksum;
} linecard_large;

// What a packet will be cut into: the room that is needed.
typedef struct linecard_plan {
    // Segments.
    size_t segments;
    // Bytes of all segments, one behind the other.
    size_t bytes;
    // Bytes of all their headers.
    size_t header_bytes;
    // Slices at most: each segment has one for its header, and those of its payload.
    size_t slices;
    // Bytes of the longest segment at most.
    size_t longest;
} linecard_plan;

// A segment that was made.
typedef struct linecard_segment {
    // Where it starts: a byte of the buffer, or a slice of the array.
    size_t start;
    // Its slices; 0 when it was written to a buffer.
    size_t slices;
    // Bytes of the frame.
    size_t len;
    // LINECARD_CLASS_*.
    uint8_t position;
} linecard_segment;

// An array for the segments that are made.
typedef struct linecard_segments {
    // The array.
    struct linecard_segment *list;
    // Its length.
    size_t room;
    // Set to the number of segments.
    size_t count;
} linecard_segments;

// An array for the slices of segments.
typedef struct linecard_slices {
    // The array.
    struct linecard_slice *list;
    // Its length.
    size_t room;
} linecard_slices;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Version of the interface that the library was compiled with: LINECARD_ABI_VERSION.
uint32_t linecard_abi_version(void);

// Version of the library, as "0.1.0". Never freed.
const char *linecard_version(void);

// What an error code means, in a line. Never NULL, never freed.
const char *linecard_strerror(int32_t code);

// Name of a reason: `exit_kind` is LINECARD_EXIT_PASSED for why packets pass or do not merge, or
// LINECARD_EXIT_FLUSHED for why they are let go. Reasons are numbered from 0; NULL behind the last.
// Never freed.
const char *linecard_reason_name(uint8_t exit_kind, uint8_t reason);

// Sets the defaults. `size` is `sizeof *config`: a program that was compiled with an older header
// has a shorter struct, and gets what fits.
int32_t linecard_config_default(struct linecard_config *config, size_t size);

// Makes a coalescer and stores it in `*coalescer`. It takes all its memory here, but for lists of
// what leaves, which grow to what they need and stay.
int32_t linecard_coalescer_new(const struct linecard_config *config,
                               struct linecard_coalescer **coalescer);

// Frees a coalescer; NULL is nothing to free. Frames that it holds are the caller's again, untold:
// flush before to have them back in order.
void linecard_coalescer_free(struct linecard_coalescer *coalescer);

// Takes `count` frames that arrived at `now_ns` (any clock that does not go back; an earlier time
// counts as the latest one). What leaves is in `*output` until the next call with this coalescer.
// Either all frames are taken or, with an error, none.
int32_t linecard_coalescer_push(struct linecard_coalescer *coalescer,
                                const struct linecard_frame *frames,
                                size_t count,
                                uint64_t now_ns,
                                struct linecard_output *output);

// Lets go what is due at `now_ns`.
int32_t linecard_coalescer_advance(struct linecard_coalescer *coalescer,
                                   uint64_t now_ns,
                                   struct linecard_output *output);

// Lets everything go.
int32_t linecard_coalescer_flush(struct linecard_coalescer *coalescer,
                                 struct linecard_output *output);

// When `linecard_coalescer_advance` wants to be called next, in nanoseconds; UINT64_MAX when
// nothing is held.
uint64_t linecard_coalescer_next_wakeup(const struct linecard_coalescer *coalescer);

// What the coalescer has done. `size` is `sizeof *counters`, as in `linecard_config_default`.
int32_t linecard_coalescer_counters(const struct linecard_coalescer *coalescer,
                                    struct linecard_counters *counters,
                                    size_t size);

// How often a reason occurred; numbers as in `linecard_reason_name`. 0 for others.
uint64_t linecard_coalescer_reason_count(const struct linecard_coalescer *coalescer,
                                         uint8_t exit_kind,
                                         uint8_t reason);

// What `large` will be cut into, and the room that takes.
int32_t linecard_segment_plan(const struct linecard_large *large, struct linecard_plan *plan);

// Cuts `large`, and writes all segments into `out`, one behind the other: payload is summed and
// copied, segment by segment. Nothing is written when there is an error.
int32_t linecard_segment_write(const struct linecard_large *large,
                               struct linecard_slice out,
                               struct linecard_segments *segments);

// Cuts `large` without copying payload: headers are written into `headers`, one behind the other,
// and `slices` lists each segment's header and payload. Payload is read only to compute checksums.
// Nothing is written when there is an error.
int32_t linecard_segment_gather(const struct linecard_large *large,
                                struct linecard_slice headers,
                                const struct linecard_slices *slices,
                                struct linecard_segments *segments);

// Holds the virtio header of `len` bytes (10, 12 or 24) at `header` against the packet behind it,
// and sets `large->gso` and `large->checksum` by it. Numbers are little endian, or big if
// `big_endian` is not 0. With an error, which names the field that is not true, nothing is set.
//
// `large->checksum` then says PARTIAL where the sender has left the checksum to be computed. Set it
// to UNKNOWN to have it computed in the segments.
int32_t linecard_virtio_check(const uint8_t *header,
                              size_t len,
                              int32_t big_endian,
                              struct linecard_large *large);

// Computes the transport checksum of a frame, and those of the tunnels around it: what hardware
// does where LINECARD_CHECKSUM_PARTIAL left it to.
int32_t linecard_checksum_complete(struct linecard_slice frame, uint8_t link);

// Leaves the transport checksum of a frame to hardware, LINECARD_CHECKSUM_PARTIAL. Only for frames
// whose checksum is known to be right.
int32_t linecard_checksum_defer(struct linecard_slice frame, uint8_t link);

// The Internet checksum's sum (RFC 1071) of `len` bytes, not complemented. 0 without bytes.
uint16_t linecard_sum(const uint8_t *data, size_t len);

// `linecard_sum` of `len` bytes that are copied meanwhile, while the processor's cache has them.
uint16_t linecard_sum_copy(const uint8_t *from, uint8_t *to, size_t len);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LINECARD_H */
