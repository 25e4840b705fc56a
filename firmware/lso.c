/*
 * Approach 2 in C: what a compiler makes of it. Its steady packets (COM) cost what the published
 * tables say; first, last and single packets cost more than those scheduled by hand in approach2.s.
 */
#include "linecard.h"

#define MORE_FRAGMENTS 0x2000u

static void tcp(uint32_t end, uint32_t mss, uint32_t header_end)
{
    uint32_t spp = header_end, epp = header_end + mss;
    uint32_t id = SB_WORD(IP_ID), seq = SB_WORD(TCP_SEQ), last_flags = LAST_FLAGS;

    SB_HALF(IP_LENGTH) = epp;
    SPP = spp;
    START = epp;
    for (id += 0x10000, seq += mss, spp += mss, epp += mss; epp < end; epp += mss) {
        SB_WORD(IP_ID) = id;
        SB_WORD(TCP_SEQ) = seq;
        SPP = spp;
        START = epp;
        id += 0x10000;
        seq += mss;
        spp += mss;
    }
    SB_HALF(IP_LENGTH) = end - spp + header_end;
    SB_WORD(IP_ID) = id;
    SB_WORD(TCP_SEQ) = seq;
    SB_HALF(TCP_FLAGS) = last_flags;
    SPP = spp;
    START = end;
}

static void fragments(uint32_t end, uint32_t mss, uint32_t header_end)
{
    uint32_t spp = header_end, epp = header_end + mss;
    uint32_t id = SB_WORD(IP_ID) | MORE_FRAGMENTS, step = mss >> 3;

    SB_WORD(IP_ID) = id;
    SB_HALF(IP_LENGTH) = epp;
    SPP = spp;
    START = epp;
    for (id += step, spp += mss, epp += mss; epp < end; epp += mss) {
        SB_WORD(IP_ID) = id;
        SPP = spp;
        START = epp;
        id += step;
        spp += mss;
    }
    SB_HALF(IP_LENGTH) = end - spp + header_end;
    SB_WORD(IP_ID) = id ^ MORE_FRAGMENTS;
    SPP = spp;
    START = end;
}

int main(void)
{
    for (;;) {
        wait_for_message();
        uint32_t length = LENGTH, header_end = HEADER_END;

        EHAP = header_end;
        if (length <= MTU) {
            SPP = header_end;
            START = length;
        } else if (KIND == KIND_TCP) {
            tcp(length, MSS, header_end);
        } else {
            fragments(length, MSS, header_end);
        }
    }
}
