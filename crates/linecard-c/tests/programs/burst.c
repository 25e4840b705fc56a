/* Bursts of two flows are merged, and what leaves is cut: byte for byte what it was. Compiled and run by
 * the test `programs`; it exits with 0 if all was as it should be. */
#include <stdlib.h>
#include <string.h>

#include "linecard.h"
#include "../../examples/check.h"

enum { COUNT = 80, FLOWS = 2, PAYLOAD = 1400, HEADER = 40, FRAME = HEADER + PAYLOAD, GAP = 3 };
enum { FRONT = 8, BACK = 16, STRIDE = FRONT + FRAME + BACK, ROOM = 7 * STRIDE };

static uint8_t sent[COUNT][FRAME];
static size_t lens[COUNT];

/* The `index`th packet: IPv4 and TCP, of one flow after the other. */
static void make_packet(unsigned index) {
    static const uint8_t start[HEADER] = {
        0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,     /* IPv4 */
        0x10, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0x50, 0x10, 1, 0, 0, 0, 0, 0 /* TCP */
    };
    uint8_t *frame = sent[index];
    unsigned flow = index % FLOWS, number = index / FLOWS;
    /* The last of each flow is shorter, as at the end of a transfer. */
    size_t payload = index + FLOWS >= COUNT ? 77 : PAYLOAD, at;
    linecard_slice slice;
    memcpy(frame, start, HEADER);
    put16(frame + 2, (unsigned)(HEADER + payload));
    put16(frame + 4, number);
    frame[21] = (uint8_t)flow;
    put16(frame + 24, number * PAYLOAD >> 16);
    put16(frame + 26, number * PAYLOAD & 0xFFFF);
    for (at = 0; at < payload; at++) {
        frame[HEADER + at] = (uint8_t)(at * 7 + index);
    }
    put16(frame + 10, (uint16_t)~linecard_sum(frame, 20));
    slice.data = frame;
    slice.len = lens[index] = HEADER + payload;
    CHECK(linecard_checksum_complete(slice, LINECARD_LINK_RAW) == LINECARD_OK);
}

/* How far each flow has come back, and the memory that segments are written to. */
struct state {
    unsigned next[FLOWS], packets, runs;
    linecard_merger *merger;
    uint8_t *room;
};

/* Segments are what was sent; the bytes around them are free. */
static void compare(void *context, const linecard_run *run) {
    struct state *state = context;
    size_t at, count = 0;
    state->runs++;
    CHECK(run->data == state->room && run->len <= ROOM && run->size <= STRIDE);
    for (at = 0; at < run->len; at += run->size, count++) {
        size_t len = run->len - at < run->size ? run->len - at : run->size;
        uint8_t *packet = run->data + at + FRONT;
        unsigned flow = packet[21], index = state->next[flow]++ * FLOWS + flow;
        CHECK(index < COUNT && len == FRONT + lens[index] + BACK);
        CHECK(memcmp(packet, sent[index], lens[index]) == 0);
        memset(run->data + at, 0x55, len);
    }
    CHECK(count == run->count);
}

/* What `writev` would take is what `linecard_cut` takes. */
static void cut(void *context, const linecard_burst_packet *packet) {
    struct state *state = context;
    linecard_cut_output output;
    size_t at, len = 0;
    for (at = 0; at < packet->count; at++) {
        len += packet->slices[at].len;
    }
    CHECK(packet->slices[0].len == 12 && packet->count == packet->packets + 1 && packet->len == len);
    CHECK(linecard_merger_merge(state->merger, packet->slices[1], NULL, 0, cut, state) ==
          LINECARD_E_BROKEN);
    state->packets++;
    output.buffer.data = state->room;
    output.buffer.len = STRIDE - 1;
    output.front = FRONT;
    output.back = BACK;
    output.callback = compare;
    output.context = state;
    if (packet->packets > 1) {
        CHECK(linecard_cut(LINECARD_LINK_RAW, packet->slices, packet->count, &output) ==
              LINECARD_E_NO_ROOM);
    }
    output.buffer.len = ROOM;
    CHECK(linecard_cut(LINECARD_LINK_RAW, packet->slices, packet->count, &output) == LINECARD_OK);
}

int main(void) {
    static linecard_range frames[COUNT];
    struct state state = {{0}, 0, 0, NULL, NULL};
    linecard_config config;
    linecard_counters counters;
    /* No more than is needed, so that an access beyond it is seen. */
    linecard_slice buffer = {NULL, COUNT * (FRAME + GAP)};
    size_t end = 0;
    unsigned index, burst;
    CHECK(linecard_config_burst(&config, sizeof config) == LINECARD_OK);
    CHECK(config.virtio_len == 12 && config.max_segments == 1023 && config.flush_at_end == 1);
    CHECK(linecard_merger_new(LINECARD_LINK_RAW, &config, &state.merger) == LINECARD_OK);
    buffer.data = calloc(buffer.len, 1);
    state.room = calloc(ROOM, 1);
    CHECK(buffer.data != NULL && state.room != NULL);
    for (burst = 0; burst < 3; burst++) {
        memset(state.next, 0, sizeof state.next);
        end = 0;
        for (index = 0; index < COUNT; index++) {
            make_packet(index);
            memcpy(buffer.data + end, sent[index], lens[index]);
            frames[index].offset = end;
            frames[index].len = lens[index];
            end += lens[index] + GAP;
        }
        CHECK(linecard_merger_merge(state.merger, buffer, frames, COUNT, cut, &state) ==
              LINECARD_OK);
        CHECK(state.next[0] == COUNT / FLOWS && state.next[1] == COUNT / FLOWS);
    }
    CHECK(state.packets == 3 * FLOWS && state.runs == 3 * FLOWS * 6);
    CHECK(linecard_merger_counters(state.merger, &counters, sizeof counters) == LINECARD_OK);
    CHECK(counters.packets_in == 3 * COUNT && counters.packets_out == state.packets);
    CHECK(counters.merged == counters.packets_in - counters.packets_out);
    linecard_merger_free(state.merger);
    free(buffer.data);
    free(state.room);
    return 0;
}
