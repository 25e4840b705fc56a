/* Packets are made, merged, described by a virtio header, and cut again: byte for byte what they
 * were. Compiled and run by the test `programs`; it prints what it did and exits with 0 if all was
 * as it should be.
 *
 *     cc -std=c11 -I crates/linecard-c/include crates/linecard-c/examples/roundtrip.c \
 *        target/release/liblinecard.a -lpthread -ldl -lm -o roundtrip
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "linecard.h"
#include "check.h"

enum { COUNT = 100, PAYLOAD = 1448, HEADER = 54, FRAME = HEADER + PAYLOAD, ROOM = 200 };

static void must(int32_t code, const char *what) {
    if (code != LINECARD_OK) {
        fprintf(stderr, "%s: %s\n", what, linecard_strerror(code));
        exit(1);
    }
}

static void put32(uint8_t *at, uint32_t value) {
    put16(at, value >> 16);
    put16(at + 2, value & 0xFFFF);
}

/* The `index`th packet of a bulk transfer: Ethernet, IPv4, TCP. */
static size_t make_packet(uint8_t *frame, unsigned index, size_t payload) {
    static const uint8_t start[HEADER] = {
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0,                          /* Ethernet */
        0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, /* IPv4 */
        0x10, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0x50, 0x10, 1, 0, 0, 0, 0, 0 /* TCP */
    };
    memcpy(frame, start, HEADER);
    put16(frame + 16, (unsigned)(40 + payload));
    put16(frame + 18, index);
    put32(frame + 38, index * PAYLOAD);
    for (size_t at = 0; at < payload; at++) {
        frame[HEADER + at] = (uint8_t)(at * 7 + index);
    }
    put16(frame + 24, (uint16_t)~linecard_sum(frame + 14, 20));
    linecard_slice slice = {frame, HEADER + payload};
    must(linecard_checksum_complete(slice, LINECARD_LINK_ETHERNET), "checksum");
    return slice.len;
}

/* The segments of one merged packet, twice: in slices, and copied. `next` is the first packet of
 * those that were sent that should be among them; the packet behind them is given back. */
static unsigned cut(const linecard_merged *merged, uint8_t sent[COUNT][FRAME],
                    const size_t *lens, unsigned next) {
    linecard_large large = {0};
    large.head = merged->slices[0].data;
    large.head_len = merged->slices[0].len;
    large.pieces = merged->slices + 1;
    large.piece_count = merged->count - 1;
    large.gso = merged->gso;
    large.link = LINECARD_LINK_ETHERNET;
    large.checksum = LINECARD_CHECKSUM_UNKNOWN; /* so that segments get whole ones */

    linecard_plan plan;
    must(linecard_segment_plan(&large, &plan), "plan");
    CHECK(plan.segments == merged->count && plan.segments <= ROOM && plan.longest <= FRAME);

    linecard_segment list[ROOM];
    linecard_segments segments = {list, ROOM, 0};
    linecard_slice array[3 * ROOM], headers = {malloc(plan.header_bytes), plan.header_bytes};
    linecard_slices slices = {array, 3 * ROOM};
    CHECK(headers.data != NULL && plan.slices <= slices.room);
    must(linecard_segment_gather(&large, headers, &slices, &segments), "gather");
    CHECK(segments.count == plan.segments);
    for (size_t at = 0; at < segments.count; at++) {
        uint8_t frame[FRAME], *end = frame;
        for (size_t part = 0; part < list[at].slices; part++) {
            const linecard_slice *slice = &array[list[at].start + part];
            memcpy(end, slice->data, slice->len);
            end += slice->len;
        }
        CHECK(list[at].len == lens[next + at] && list[at].len == (size_t)(end - frame));
        CHECK(memcmp(frame, sent[next + at], list[at].len) == 0);
    }
    free(headers.data);

    linecard_slice out = {malloc(plan.bytes), plan.bytes};
    CHECK(out.data != NULL);
    linecard_slice short_of_one = {out.data, plan.bytes - 1};
    CHECK(linecard_segment_write(&large, short_of_one, &segments) == LINECARD_E_NO_ROOM);
    must(linecard_segment_write(&large, out, &segments), "write");
    for (size_t at = 0; at < segments.count; at++) {
        CHECK(list[at].len == lens[next + at]);
        CHECK(memcmp(out.data + list[at].start, sent[next + at], list[at].len) == 0);
    }
    CHECK(list[0].position == LINECARD_CLASS_BEGINNING);
    CHECK(list[segments.count - 1].position == LINECARD_CLASS_END);
    free(out.data);
    return next + (unsigned)segments.count;
}

/* What a reader makes of the virtio header that leaves with a merged packet. */
static void check_virtio(const linecard_merged *merged) {
    linecard_large large = {0};
    CHECK(merged->virtio_len == 12);
    large.head = merged->slices[0].data;
    large.head_len = merged->slices[0].len;
    large.pieces = merged->slices + 1;
    large.piece_count = merged->count - 1;
    must(linecard_virtio_check(merged->virtio, 12, 0, &large), "virtio header");
    CHECK(large.gso.size == merged->gso.size && large.gso.segments == merged->count);
    CHECK(large.checksum == LINECARD_CHECKSUM_PARTIAL);

    uint8_t wrong[12];
    memcpy(wrong, merged->virtio, sizeof wrong);
    wrong[6] ^= 2;
    CHECK(linecard_virtio_check(wrong, 12, 0, &large) == LINECARD_E_VIRTIO_CSUM_START);
}

static void check_errors(linecard_coalescer *coalescer) {
    linecard_output output;
    uint8_t byte = 0;
    linecard_frame frames[2] = {{&byte, 1, NULL, 0, 0, LINECARD_LINK_RAW, 0},
                                {NULL, 60, NULL, 0, 0, LINECARD_LINK_RAW, 0}};
    CHECK(linecard_coalescer_push(NULL, frames, 1, 0, &output) == LINECARD_E_NULL);
    CHECK(linecard_coalescer_push(coalescer, frames, 2, 0, &output) == LINECARD_E_NULL);
    CHECK(linecard_coalescer_push(coalescer, NULL, 1, 0, &output) == LINECARD_E_NULL);
    CHECK(linecard_coalescer_push(coalescer, frames, 1, 0, NULL) == LINECARD_E_NULL);
    frames[0].link = 77;
    CHECK(linecard_coalescer_push(coalescer, frames, 1, 0, &output) == LINECARD_E_INVALID);
    frames[0].link = LINECARD_LINK_RAW;
    frames[0].len = 0;
    CHECK(linecard_coalescer_push(coalescer, frames, 1, 0, &output) == LINECARD_E_INVALID);
    CHECK(linecard_coalescer_push(coalescer, NULL, 0, 0, &output) == LINECARD_OK);
    CHECK(output.count == 0);

    struct {
        linecard_config config;
        uint64_t later;
    } newer;
    linecard_coalescer *made = NULL;
    must(linecard_config_default(&newer.config, sizeof newer), "defaults");
    CHECK(newer.config.size == sizeof newer && newer.later == 0);
    newer.later = 1;
    CHECK(linecard_coalescer_new(&newer.config, &made) == LINECARD_E_VERSION && made == NULL);
    newer.later = 0;
    newer.config.virtio_len = 11;
    CHECK(linecard_coalescer_new(&newer.config, &made) == LINECARD_E_INVALID && made == NULL);
    linecard_coalescer_free(NULL);
    CHECK(strcmp(linecard_strerror(-1000), "unknown error") == 0);
}

/* A segment beyond what the length fields of IP can say is refused. */
static void check_longest(void) {
    static uint8_t big[HEADER + 70000];
    make_packet(big, 0, PAYLOAD);
    put16(big + 16, 0); /* "BIG TCP": the length does not fit */
    linecard_large large = {0};
    large.head = big;
    large.head_len = sizeof big;
    large.link = LINECARD_LINK_ETHERNET;
    linecard_plan plan;
    linecard_slice none = {NULL, 0};
    linecard_slices slices = {NULL, 0};
    linecard_segments segments = {NULL, 0, 0};
    large.gso.size = 65535 - 40;
    must(linecard_segment_plan(&large, &plan), "the longest segments");
    for (unsigned size = 65535 - 39; size <= 65535; size++) {
        large.gso.size = (uint16_t)size;
        CHECK(linecard_segment_plan(&large, &plan) == LINECARD_E_SEGMENT_TOO_LONG);
        CHECK(linecard_segment_write(&large, none, &segments) == LINECARD_E_SEGMENT_TOO_LONG);
        CHECK(linecard_segment_gather(&large, none, &slices, &segments) ==
              LINECARD_E_SEGMENT_TOO_LONG);
    }
    CHECK(strstr(linecard_strerror(LINECARD_E_SEGMENT_TOO_LONG), "65535") != NULL);
}

/* Packets with one identification, "don't fragment" set: they have a virtio header unless their
 * identifications have to come back exactly. */
static void check_constant_ids(uint8_t exact) {
    static uint8_t frames[2][FRAME];
    linecard_config config;
    linecard_coalescer *coalescer;
    linecard_output output;
    must(linecard_config_default(&config, sizeof config), "defaults");
    CHECK(config.exact_ids == 0);
    config.virtio_len = 12;
    config.exact_ids = exact;
    must(linecard_coalescer_new(&config, &coalescer), "a coalescer");
    for (unsigned index = 0; index < 2; index++) {
        linecard_frame frame = {frames[index], make_packet(frames[index], index, PAYLOAD), NULL, 0, 0,
                                LINECARD_LINK_ETHERNET, LINECARD_CHECKSUM_UNKNOWN};
        put16(frames[index] + 18, 9);
        put16(frames[index] + 24, 0);
        put16(frames[index] + 24, (uint16_t)~linecard_sum(frames[index] + 14, 20));
        must(linecard_coalescer_push(coalescer, &frame, 1, 0, &output), "push");
    }
    must(linecard_coalescer_flush(coalescer, &output), "flush");
    CHECK(output.count == 1 && output.packets[0].count == 2);
    CHECK(output.packets[0].gso.fixed_ids == 1);
    CHECK(output.packets[0].virtio_len == (exact ? 0 : 12));
    linecard_coalescer_free(coalescer);
}

int main(void) {
    static uint8_t sent[COUNT][FRAME], received[COUNT][FRAME];
    static size_t lens[COUNT];
    static linecard_frame frames[COUNT];
    CHECK(linecard_abi_version() == LINECARD_ABI_VERSION);
    for (unsigned index = 0; index < COUNT; index++) {
        /* The last is shorter, as at the end of a transfer. */
        lens[index] = make_packet(sent[index], index, index + 1 == COUNT ? 77 : PAYLOAD);
        memcpy(received[index], sent[index], lens[index]);
        linecard_frame frame = {received[index], lens[index], &lens[index], 0, 0,
                                LINECARD_LINK_ETHERNET, LINECARD_CHECKSUM_UNKNOWN};
        frames[index] = frame;
    }

    linecard_config config;
    linecard_coalescer *coalescer;
    must(linecard_config_default(&config, sizeof config), "defaults");
    config.virtio_len = 12;
    must(linecard_coalescer_new(&config, &coalescer), "a coalescer");
    check_errors(coalescer);
    check_longest();
    check_constant_ids(0);
    check_constant_ids(1);
    CHECK(linecard_coalescer_next_wakeup(coalescer) == UINT64_MAX);

    unsigned next = 0;
    size_t packets = 0;
    for (int call = 0; call < 3; call++) {
        linecard_output output;
        if (call == 0) {
            must(linecard_coalescer_push(coalescer, frames, COUNT - 1, 1000, &output), "push");
        } else if (call == 1) {
            uint64_t due = linecard_coalescer_next_wakeup(coalescer);
            CHECK(due > 1000 && due < UINT64_MAX);
            must(linecard_coalescer_advance(coalescer, due, &output), "advance");
            CHECK(output.count > 0);
        } else {
            must(linecard_coalescer_push(coalescer, frames + COUNT - 1, 1, 9000, &output), "push");
            must(linecard_coalescer_flush(coalescer, &output), "flush");
        }
        for (size_t at = 0; at < output.count; at++) {
            const linecard_merged *merged = &output.packets[at];
            for (size_t part = 0; part < merged->count; part++) {
                CHECK(merged->tokens[part] == &lens[next + part]);
            }
            packets++;
            if (merged->count == 1) {
                CHECK(merged->gso.size == 0 && merged->slices[0].len == lens[next]);
                CHECK(memcmp(merged->slices[0].data, sent[next], lens[next]) == 0);
                next++;
                continue;
            }
            check_virtio(merged);
            next = cut(merged, sent, lens, next);
        }
    }
    CHECK(next == COUNT);

    linecard_counters counters;
    must(linecard_coalescer_counters(coalescer, &counters, sizeof counters), "counters");
    CHECK(counters.packets_in == COUNT && counters.packets_out == packets && counters.held == 0);
    printf("linecard %s: %u packets in, %zu out, cut again into the same\n", linecard_version(),
           COUNT, packets);
    for (uint8_t reason = 0; linecard_reason_name(LINECARD_EXIT_FLUSHED, reason); reason++) {
        uint64_t count =
            linecard_coalescer_reason_count(coalescer, LINECARD_EXIT_FLUSHED, reason);
        if (count > 0) {
            printf("  %s: %llu\n", linecard_reason_name(LINECARD_EXIT_FLUSHED, reason),
                   (unsigned long long)count);
        }
    }
    linecard_coalescer_free(coalescer);
    return 0;
}
