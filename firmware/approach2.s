# Approach 2 as published: the header is updated in place in the sending buffer, and moved from there
# (papers: "Large Sending Offload", sections 2 and 3, tables 1 and 2). TCP segmentation and
# fragmentation of IPv4 datagrams.
#
# The host leaves in SB the header of all segments but the last (FIN and PSH cleared).
#
#                      cycles before START     cycles beside the transfer
#                      SSM BOM COM EOM         SSM BOM COM EOM
#   TCP                  8  12   4   5           0   6   6   0
#   fragments            8  12   3   3           0   6   5   0
#
# What the last COM's transfer leaves time for is done there: EOM has a short way to START.

.include "linecard.inc"

# Constants, for as long as the interface runs.
.equ MORE_FRAGMENTS, 0x2000
#   s0 SB      s1 MBOX     s2 DMA      s3 MTU      s4 1 << 16 (next identification)    s5 MF
# Of the message.
#   a0 length = end of payload     a1 MSS      a2 end of headers (first payload)
#   a3 identification and offset   a4 sequence number          a5 flags of the last segment
#   t0 SPP     t1 EPP = end of this packet's payload    t2 end of payload + length of headers
#   t3 step of the fragment offset

        .text
        .globl  _start
_start:
        li      s0, SB
        li      s1, MBOX
        li      s2, DMA
        li      s4, 0x10000
        li      s5, MORE_FRAGMENTS
        la      t0, tcp
        sw      t0, VECTOR_TCP(s1)
        la      t0, udp
        sw      t0, VECTOR_UDP(s1)
        lw      s3, MTU(s1)
        wfi

        # The whole message fits one packet.
single: lw      a2, HEADER_END(s1)
        sw      a2, EHAP(s2)
        sw      a2, SPP(s2)
        sw      a0, START(s2)
        wfi

tcp:    lhu     a0, IP_LENGTH(s0)
        lw      a1, MSS(s1)
        bgeu    s3, a0, single
        # BOM
        lw      a2, HEADER_END(s1)
        sw      a2, EHAP(s2)
        sw      a2, SPP(s2)
        lw      a4, TCP_SEQ(s0)
        lw      a3, IP_ID(s0)
        lw      a5, LAST_FLAGS(s1)
        add     t1, a2, a1
        sh      t1, IP_LENGTH(s0)       # headers and MSS: as long as all but the last
        sw      t1, START(s2)
        add     a3, a3, s4
        add     a4, a4, a1
        mv      t0, t1
        add     t1, t1, a1
        add     t2, a0, a2
        bgeu    t1, a0, tcp_last
        # COM
tcp_com:
        sw      a3, IP_ID(s0)
        sw      a4, TCP_SEQ(s0)
        sw      t0, SPP(s2)
        sw      t1, START(s2)
        add     a3, a3, s4
        add     a4, a4, a1
        add     t0, t0, a1
        add     t1, t1, a1
        bltu    t1, a0, tcp_com
        # EOM: the first two beside the transfer that is under way.
tcp_last:
        sub     t2, t2, t0
        sw      t0, SPP(s2)
        sh      t2, IP_LENGTH(s0)
        sw      a3, IP_ID(s0)
        sw      a4, TCP_SEQ(s0)
        sh      a5, TCP_FLAGS(s0)
        sw      a0, START(s2)
        wfi

udp:    lhu     a0, IP_LENGTH(s0)
        lw      a1, MSS(s1)
        bgeu    s3, a0, single
        # BOM
        lw      a2, HEADER_END(s1)
        sw      a2, EHAP(s2)
        sw      a2, SPP(s2)
        lw      a3, IP_ID(s0)
        or      a3, a3, s5
        sw      a3, IP_ID(s0)
        add     t1, a2, a1
        sh      t1, IP_LENGTH(s0)
        sw      t1, START(s2)
        srli    t3, a1, 3               # offsets count 8 bytes (RFC 791, section 3.1)
        add     a3, a3, t3
        mv      t0, t1
        add     t1, t1, a1
        add     t2, a0, a2
        bgeu    t1, a0, udp_last
        # COM
udp_com:
        sw      a3, IP_ID(s0)
        sw      t0, SPP(s2)
        sw      t1, START(s2)
        add     a3, a3, t3
        add     t0, t0, a1
        add     t1, t1, a1
        bltu    t1, a0, udp_com
        # EOM: the first three beside the transfer that is under way.
udp_last:
        sub     t2, t2, t0
        xor     a3, a3, s5
        sw      t0, SPP(s2)
        sh      t2, IP_LENGTH(s0)
        sw      a3, IP_ID(s0)
        sw      a0, START(s2)
        wfi
