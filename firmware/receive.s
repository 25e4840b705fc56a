# Receiving with a CAM: packets are sorted into lists in host buffers, one list for each message
# (papers: "Large Sending Offload", figures 7 and 8).
#
# A message begins with the first data of a connection, or with a first fragment, and ends with PSH or
# FIN, or with the last fragment. Its first packet is moved whole, of the others only the payload.
#
# Published is that the core executes 6 instructions beside a transfer. So in COM all that is read
# and computed comes before START and all that is written behind it: length, next pointer, and the
# message's tail, expected number and count, and wfi. With ALL_BESIDE (receive_best.s) everything that
# needs neither the bus nor START is beside; then P is as short as we know.
#
#                      cycles before START     cycles beside the transfer
#                      SSM BOM COM EOM         SSM BOM COM EOM
#   TCP                 26  29  30  32           5  12   6  14
#   fragments            9  24  26  23           5  12   6  15
#   ALL_BESIDE, TCP             25                      11
#   ALL_BESIDE, fragments       20                      12
#
# SSM are data with PSH and a datagram in one piece: its protocol is looked at, no more.
#
# What cannot be sorted passes alone (SSM), with its header: no data, a full CAM, other protocols, a
# fragment out of order. Data out of order ends the message that is held, so that each is one range.
# A message that never ends is held for ever: the paper has no timer, neither has this.

.include "receive.inc"

.equ MORE_FRAGMENTS, 0x2000
.equ IP_HEADER,     20
.equ TCP,           6

# A record of an open message, in data memory.
.equ RECORDS,       0x10000
.equ RECORD_BYTES,  32
.equ HEAD,          0x00            # first node
.equ TAIL,          0x04            # last node
.equ COUNT,         0x08            # nodes
.equ EXPECTED,      0x0c            # TCP: sequence number; fragments: MF and offset
.equ FLAGS,         0x10            # TCP: data offset and flags of all its packets but the last
.equ PAYLOAD,       0x14            # TCP: where payload begins
.equ FREE,          0x18            # of a free record: the next free one

# Constants, for as long as the interface runs.
#   s0 RBI      s1 LINE     s2 DMA      s3 CAM      s4 HOST
#   s5 TCP      s7 length of the IP header          s8 1            s9 MF
# s6 is the first free record, 0 for none: there are as many as the CAM has entries.
# Of the packet.
#   a0 sequence number      a1 flags (TCP), MF and offset (fragments)       a2 length
#   a3 record               a4 bytes of payload     a5 node

        .text
        .globl  _start
_start:
        li      s0, RBI
        li      s1, LINE
        li      s2, DMA
        li      s3, CAM
        li      s4, HOST
        li      s5, TCP
        li      s7, IP_HEADER
        li      s8, 1
        li      s9, MORE_FRAGMENTS
        la      t0, packet
        sw      t0, VECTOR(s1)
        la      t0, full
        sw      t0, VECTOR_FULL(s1)
        lw      t0, SIZE(s3)
        li      t1, RECORDS
link:   sw      s6, FREE(t1)
        mv      s6, t1
        addi    t1, t1, RECORD_BYTES
        addi    t0, t0, -1
        bnez    t0, link
        wfi

        # No node is empty.
full:   sw      zero, DROP(s1)
        wfi

packet: lhu     a1, IP_FRAGMENT(s0)
        slli    t0, a1, 18              # without the upper two flags
        bnez    t0, fragment
        lbu     t1, IP_PROTOCOL(s0)
        bne     t1, s5, other
        lw      t0, IP_SOURCE(s0)
        sw      t0, SOURCE(s3)
        lw      t1, IP_DESTINATION(s0)
        sw      t1, DESTINATION(s3)
        lw      t2, TCP_PORTS(s0)
        sw      t2, FIND_CONNECTION(s3)
        lhu     a1, TCP_FLAGS(s0)       # beside the lookup
        lw      a0, TCP_SEQ(s0)
        lhu     a2, IP_LENGTH(s0)
        lw      a3, RESULT(s3)
        beqz    a3, tcp_new
        lw      t0, FLAGS(a3)
        lw      t1, EXPECTED(a3)
        lw      t2, PAYLOAD(a3)
        bne     a1, t0, tcp_other
        bne     a0, t1, tcp_other
        sub     a4, a2, t2
        blez    a4, tcp_other
        # COM
.ifndef ALL_BESIDE
        lw      a5, NODE(s2)
        lw      t3, TAIL(a3)
        lw      t4, COUNT(a3)
        addi    t4, t4, 1
        add     a0, a0, a4
        sw      t2, SPP(s2)
        sw      a2, START_COM(s2)
        sw      a4, NODE_LENGTH(a5)
        sw      a5, NODE_NEXT(t3)
        sw      a5, TAIL(a3)
        sw      a0, EXPECTED(a3)
        sw      t4, COUNT(a3)
        wfi
.else
        sw      t2, SPP(s2)
        sw      a2, START_COM(s2)
        lw      a5, TAKEN(s2)
        lw      t3, TAIL(a3)
        lw      t4, COUNT(a3)
        addi    t4, t4, 1
        add     a0, a0, a4
        sw      a4, NODE_LENGTH(a5)
        sw      a5, NODE_NEXT(t3)
        sw      a5, TAIL(a3)
        sw      a0, EXPECTED(a3)
        sw      t4, COUNT(a3)
        wfi
.endif

        # Not the plain next one of its connection.
tcp_other:
        srli    t3, a1, 10
        andi    t3, t3, 0x3c
        add     t3, t3, s7
        bltu    t3, a2, tcp_data
        andi    t4, a1, 0x2f            # URG, PSH, RST, SYN, FIN
        beqz    t4, single              # an acknowledgment: the message stays open
        j       tcp_close
tcp_data:
        bne     a0, t1, tcp_close
        xor     t0, t0, a1
        andi    t0, t0, ~0x09           # PSH and FIN may differ: one of them does
        bnez    t0, tcp_close
        # EOM
        sw      t2, SPP(s2)
        sw      a2, START_EOM(s2)
        lw      a5, TAKEN(s2)
        sub     a4, a2, t2
eom:    lw      t3, TAIL(a3)
        lw      t4, COUNT(a3)
        lw      t5, HEAD(a3)
        addi    t4, t4, 1
        sw      a4, NODE_LENGTH(a5)
        sw      a5, NODE_NEXT(t3)
        sw      t4, NODE_COUNT(t5)
        sw      t5, EVENT(s4)
        sw      zero, REMOVE(s3)
        sw      s6, FREE(a3)
        mv      s6, a3
        wfi

        # What is held ends here; the packet begins anew.
tcp_close:
        lw      t4, COUNT(a3)
        lw      t5, HEAD(a3)
        sw      t4, NODE_COUNT(t5)
        sw      t5, EVENT(s4)
        sw      zero, REMOVE(s3)
        sw      s6, FREE(a3)
        mv      s6, a3

        # Nothing is held of this connection.
tcp_new:
        srli    t2, a1, 10
        andi    t2, t2, 0x3c
        add     t2, t2, s7
        bgeu    t2, a2, single          # no data
        andi    t0, a1, 0x2f            # URG, PSH, RST, SYN, FIN
        bnez    t0, single
        sw      s6, INSERT(s3)
        lw      t0, RESULT(s3)
        beqz    t0, single
        # BOM
        mv      a3, s6
        sw      zero, SPP(s2)
        sw      a2, START_BOM(s2)
        lw      a5, TAKEN(s2)
        sub     a4, a2, t2
        add     a0, a0, a4
        sw      a1, FLAGS(a3)
        sw      t2, PAYLOAD(a3)
        sw      a0, EXPECTED(a3)
bom:    lw      s6, FREE(a3)
        sw      a5, HEAD(a3)
        sw      a5, TAIL(a3)
        sw      s8, COUNT(a3)
        sw      a2, NODE_LENGTH(a5)
        wfi

        # Alone, with its header.
other:  lhu     a2, IP_LENGTH(s0)
single: sw      zero, SPP(s2)
        sw      a2, START_SSM(s2)
        lw      a5, TAKEN(s2)
        sw      a2, NODE_LENGTH(a5)
        sw      s8, NODE_COUNT(a5)
        sw      a5, EVENT(s4)
        wfi

fragment:
        lw      t0, IP_SOURCE(s0)
        sw      t0, SOURCE(s3)
        lw      t1, IP_DESTINATION(s0)
        sw      t1, DESTINATION(s3)
        lbu     t2, IP_PROTOCOL(s0)
        sw      t2, PROTOCOL(s3)
        lhu     t3, IP_ID(s0)
        sw      t3, FIND_DATAGRAM(s3)
        lhu     a2, IP_LENGTH(s0)       # beside the lookup
        sub     a4, a2, s7
        lw      a3, RESULT(s3)
        beqz    a3, fragment_new
        lw      t1, EXPECTED(a3)
        bne     a1, t1, fragment_other
        # COM
.ifndef ALL_BESIDE
        lw      a5, NODE(s2)
        lw      t3, TAIL(a3)
        lw      t4, COUNT(a3)
        addi    t4, t4, 1
        srli    t5, a4, 3               # offsets count 8 bytes (RFC 791, section 3.1)
        add     t5, t5, a1
        sw      s7, SPP(s2)
        sw      a2, START_COM(s2)
        sw      a4, NODE_LENGTH(a5)
        sw      a5, NODE_NEXT(t3)
        sw      a5, TAIL(a3)
        sw      t5, EXPECTED(a3)
        sw      t4, COUNT(a3)
        wfi
.else
        sw      s7, SPP(s2)
        sw      a2, START_COM(s2)
        lw      a5, TAKEN(s2)
        lw      t3, TAIL(a3)
        lw      t4, COUNT(a3)
        addi    t4, t4, 1
        srli    t5, a4, 3
        add     t5, t5, a1
        sw      a4, NODE_LENGTH(a5)
        sw      a5, NODE_NEXT(t3)
        sw      a5, TAIL(a3)
        sw      t5, EXPECTED(a3)
        sw      t4, COUNT(a3)
        wfi
.endif

fragment_other:
        xor     t0, a1, t1
        bne     t0, s9, fragment_close  # the offset expected, without MF
        # EOM
        sw      s7, SPP(s2)
        sw      a2, START_EOM(s2)
        lw      a5, TAKEN(s2)
        j       eom

        # What is held ends here; the packet begins anew, or passes.
fragment_close:
        lw      t4, COUNT(a3)
        lw      t5, HEAD(a3)
        sw      t4, NODE_COUNT(t5)
        sw      t5, EVENT(s4)
        sw      zero, REMOVE(s3)
        sw      s6, FREE(a3)
        mv      s6, a3
fragment_new:
        bne     a1, s9, single          # not a first fragment
        sw      s6, INSERT(s3)
        lw      t0, RESULT(s3)
        beqz    t0, single
        # BOM
        mv      a3, s6
        sw      zero, SPP(s2)
        sw      a2, START_BOM(s2)
        lw      a5, TAKEN(s2)
        srli    t5, a4, 3
        add     t5, t5, a1
        sw      t5, EXPECTED(a3)
        j       bom
