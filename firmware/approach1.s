# Approach 1 as published: the header lies in the core's registers as a template; a copy with the
# fields of each packet is stored into the line interface (papers: "Large Sending Offload", section 2
# and table 3). Headers of 40 bytes (TCP) and 20 bytes (fragments).
#
# Ten stores a TCP packet instead of the two of approach 2: all on the bus, before START.

.include "linecard.inc"
.equ MORE_FRAGMENTS, 0x2000
.equ TCP_HEADER, 40

#   s0 SB      s1 SBI_HEADER       s2 DMA      s3 MTU
#   a0 end of payload  a1 MSS      a2 end of headers
#   t0 SPP     t1 EPP  t2 MBOX; in fragments step of the offset
#   s4..s11, a3, a4: the ten words of the header; a5 flags of the last segment

# What both ways of sending do several times.
.macro load_fragment_header
        lw      s4, 0(s0)
        lw      s5, 4(s0)
        lw      s6, 8(s0)
        lw      s7, 12(s0)
        lw      s8, 16(s0)
.endm

.macro store_fragment_header
        sw      s4, 0(s1)
        sw      s5, 4(s1)
        sw      s6, 8(s1)
        sw      s7, 12(s1)
        sw      s8, 16(s1)
.endm

.macro load_tcp_header
        load_fragment_header
        lw      s9, 20(s0)
        lw      s10, 24(s0)
        lw      s11, 28(s0)
        lw      a3, 32(s0)
        lw      a4, 36(s0)
.endm

.macro store_tcp_header
        store_fragment_header
        sw      s9, 20(s1)
        sw      s10, 24(s1)
        sw      s11, 28(s1)
        sw      a3, 32(s1)
        sw      a4, 36(s1)
.endm

# The total length of the last packet, into the header's first word.
.macro length_of_last
        srli    s4, s4, 16
        slli    s4, s4, 16
        sub     t1, a0, t0
        add     t1, t1, a2
        or      s4, s4, t1
.endm

        .text
        .globl  _start
_start:
        li      s0, SB
        li      s1, SBI_HEADER
        li      s2, DMA
        li      t2, MBOX
        la      t0, tcp
        sw      t0, VECTOR_TCP(t2)
        la      t0, udp
        sw      t0, VECTOR_UDP(t2)
        lw      s3, MTU(t2)
        wfi

single: lw      a2, HEADER_END(t2)
        sw      a2, EHAP(s2)
        sw      a2, SPP(s2)
        sw      a0, START(s2)
        wfi

tcp:    li      t2, MBOX
        lhu     a0, IP_LENGTH(s0)
        lw      a1, MSS(t2)
        bgeu    s3, a0, single
        lw      a2, HEADER_END(t2)
        li      t0, TCP_HEADER
        bne     a2, t0, refused         # options have no register
        lw      a5, LAST_FLAGS(t2)
        sw      zero, EHAP(s2)
        load_tcp_header
        srli    s4, s4, 16              # total length of a full packet
        slli    s4, s4, 16
        add     t1, a2, a1
        or      s4, s4, t1
        mv      t0, a2
        li      a6, 0x10000
tcp_next:
        store_tcp_header
        sw      t0, SPP(s2)
        sw      t1, START(s2)
        add     s5, s5, a6
        add     s10, s10, a1
        add     t0, t0, a1
        add     t1, t1, a1
        bltu    t1, a0, tcp_next
        # EOM
        length_of_last
        slli    a3, a3, 16
        srli    a3, a3, 16
        slli    a5, a5, 16
        or      a3, a3, a5
        sw      t0, SPP(s2)
        store_tcp_header
        sw      a0, START(s2)
        wfi

udp:    li      t2, MBOX
        lhu     a0, IP_LENGTH(s0)
        lw      a1, MSS(t2)
        bgeu    s3, a0, single
        lw      a2, HEADER_END(t2)
        sw      zero, EHAP(s2)
        load_fragment_header
        li      a6, MORE_FRAGMENTS
        or      s5, s5, a6
        srli    s4, s4, 16
        slli    s4, s4, 16
        add     t1, a2, a1
        or      s4, s4, t1
        mv      t0, a2
        srli    t2, a1, 3
udp_next:
        store_fragment_header
        sw      t0, SPP(s2)
        sw      t1, START(s2)
        add     s5, s5, t2
        add     t0, t0, a1
        add     t1, t1, a1
        bltu    t1, a0, udp_next
        # EOM
        length_of_last
        xor     s5, s5, a6
        sw      t0, SPP(s2)
        store_fragment_header
        sw      a0, START(s2)
        wfi

        # Says so by stopping: the model gives cycle and address.
refused:
        ebreak
