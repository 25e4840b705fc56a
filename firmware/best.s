# The fewest cycles we know for the published hardware: approach 2 with everything that needs no bus
# beside the transfer, and no identification where none is needed.
#
# SPP of the next packet is EPP of this one, and is written while this one is moved. A datagram that
# must not be fragmented (DF) may carry any identification (RFC 6864, section 4.1): its segments keep
# the message's.
#
#                      cycles before START     cycles beside the transfer
#                      COM EOM                 COM
#   TCP with DF          2   4                   5
#   TCP                  3   5                   6
#   fragments            2   3                   5

.include "linecard.inc"
.equ MORE_FRAGMENTS, 0x2000
.equ DONT_FRAGMENT, 0x4000

        .text
        .globl  _start
_start:
        li      s0, SB
        li      s1, MBOX
        li      s2, DMA
        li      s4, 0x10000
        li      s5, MORE_FRAGMENTS
        li      s6, DONT_FRAGMENT
        la      t0, tcp
        sw      t0, VECTOR_TCP(s1)
        la      t0, udp
        sw      t0, VECTOR_UDP(s1)
        lw      s3, MTU(s1)
        wfi

single: sw      a2, EHAP(s2)
        sw      a2, SPP(s2)
        sw      a0, START(s2)
        wfi

tcp:    lw      a0, LENGTH(s1)
        lw      a2, HEADER_END(s1)
        bgeu    s3, a0, single
        # BOM
        lw      a1, MSS(s1)
        lw      a4, TCP_SEQ(s0)
        lw      a3, IP_ID(s0)
        add     t1, a2, a1
        sh      t1, IP_LENGTH(s0)
        sw      a2, EHAP(s2)
        sw      a2, SPP(s2)
        sw      t1, START(s2)
        lw      a5, LAST_FLAGS(s1)
        add     t2, a0, a2
        add     a4, a4, a1
        sw      t1, SPP(s2)
        and     t0, a3, s6
        add     a3, a3, s4
        mv      t3, t1
        add     t1, t1, a1
        bgeu    t1, a0, tcp_last
        bnez    t0, atomic_com
        # COM
tcp_com:
        sw      a3, IP_ID(s0)
        sw      a4, TCP_SEQ(s0)
        sw      t1, START(s2)
        add     a3, a3, s4
        add     a4, a4, a1
        sw      t1, SPP(s2)
        add     t1, t1, a1
        bltu    t1, a0, tcp_com
        # EOM
        sub     t3, t1, a1              # where the last packet's payload begins
tcp_last:
        sub     t2, t2, t3
        bnez    t0, atomic_last
        sh      t2, IP_LENGTH(s0)
        sw      a3, IP_ID(s0)
        sw      a4, TCP_SEQ(s0)
        sh      a5, TCP_FLAGS(s0)
        sw      a0, START(s2)
        wfi

atomic_com:
        sw      a4, TCP_SEQ(s0)
        sw      t1, START(s2)
        add     a4, a4, a1
        sw      t1, SPP(s2)
        add     t1, t1, a1
        bltu    t1, a0, atomic_com
        sub     t3, t1, a1
        sub     t2, t2, t3
atomic_last:
        sh      t2, IP_LENGTH(s0)
        sw      a4, TCP_SEQ(s0)
        sh      a5, TCP_FLAGS(s0)
        sw      a0, START(s2)
        wfi

udp:    lw      a0, LENGTH(s1)
        lw      a2, HEADER_END(s1)
        bgeu    s3, a0, single
        # BOM
        lw      a1, MSS(s1)
        lw      a3, IP_ID(s0)
        or      a3, a3, s5
        sw      a3, IP_ID(s0)
        add     t1, a2, a1
        sh      t1, IP_LENGTH(s0)
        sw      a2, EHAP(s2)
        sw      a2, SPP(s2)
        sw      t1, START(s2)
        srli    t3, a1, 3
        sw      t1, SPP(s2)
        add     t2, a0, a2
        add     a3, a3, t3
        add     t1, t1, a1
        bgeu    t1, a0, udp_last
        # COM
udp_com:
        sw      a3, IP_ID(s0)
        sw      t1, START(s2)
        add     a3, a3, t3
        sw      t1, SPP(s2)
        add     t1, t1, a1
        bltu    t1, a0, udp_com
        # EOM
udp_last:
        sub     t1, t1, a1
        sub     t2, t2, t1
        xor     a3, a3, s5
        sh      t2, IP_LENGTH(s0)
        sw      a3, IP_ID(s0)
        sw      a0, START(s2)
        wfi
