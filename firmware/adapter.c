/*
 * The firmware of the adapter whose device fetches payload from host memory (US application 10/082,893, Cheng): it forms
 * headers in embedded memory, and sums them without payload, which the device adds. Of frames that are received it has
 * the header and the device's sum of the payload, which goes to host memory.
 *
 * Headers have the network's byte order; their first two bytes are not used, so that the IP header is aligned.
 */
#include <stdint.h>

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define HALF(address) (*(volatile uint16_t *)(address))
#define BYTE(address) (*(volatile uint8_t *)(address))

/* What there is to do: a message to send, or a frame. Its header, payload, and of a message the most of a packet. */
#define WORK REGISTER(0x30000000u)
#define END REGISTER(0x30000004u)
#define PAYLOAD REGISTER(0x30000008u)
#define SIZE REGISTER(0x3000000cu)
#define PAYLOAD_SUM REGISTER(0x30000010u)
/* Written: bytes of payload behind the header in the slot; the sequence number of a frame's payload; no payload is kept. */
#define SEND REGISTER(0x30000014u)
#define DELIVER REGISTER(0x30000018u)
#define REFUSE REGISTER(0x3000001cu)

enum { MESSAGE = 1 };
/* The header that came, and the slot in embedded memory for the next one. */
enum { HEADER = 0x10000000, SLOT = 0x20000000 };
enum { IP = 16, LENGTH = IP + 2, ID = IP + 4, IP_SUM = IP + 10, FROM = IP + 12, TO = IP + 16 };
/* From where TCP begins. */
enum { SEQ = 4, FLAGS = 12, SUM = 16 };
enum { FIN = 1, PSH = 8, CWR = 128, TCP = 6 };

static inline uint32_t add(uint32_t total, uint32_t word)
{
    total += word;
    return total + (total < word);
}

static inline uint32_t fold(uint32_t total)
{
    total = (total & 0xffff) + (total >> 16);
    return (total & 0xffff) + (total >> 16);
}

static uint32_t sum(uint32_t at, uint32_t end, uint32_t total)
{
    for (; at < end; at += 4)
        total = add(total, REGISTER(HEADER + at));
    return total;
}

/* Addresses, protocol and length of the pseudo header. */
static inline uint32_t pseudo(uint32_t bytes)
{
    return add(add(REGISTER(HEADER + FROM), REGISTER(HEADER + TO)), TCP + bytes);
}

static void send(uint32_t tcp, uint32_t end)
{
    uint32_t left = PAYLOAD, size = SIZE, id = HALF(HEADER + ID), first = CWR;
    uint32_t seq = REGISTER(HEADER + tcp + SEQ), flags = HALF(HEADER + tcp + FLAGS);
    /* All but what differs from packet to packet, whose complement takes it out. */
    uint32_t ip_sum = sum(IP, tcp, 0), tcp_sum = sum(tcp, end, pseudo(0));

    ip_sum = add(ip_sum, 0xffff ^ HALF(HEADER + LENGTH));
    ip_sum = add(ip_sum, 0xffff ^ id);
    ip_sum = add(ip_sum, 0xffff ^ HALF(HEADER + IP_SUM));
    tcp_sum = add(tcp_sum, ~seq);
    tcp_sum = add(tcp_sum, 0xffff ^ flags);
    tcp_sum = add(tcp_sum, 0xffff ^ HALF(HEADER + tcp + SUM));
    for (;;) {
        uint32_t bytes = left > size ? size : left, total = end - IP + bytes, now = flags;

        if (left > size)
            now &= ~(FIN | PSH);
        if (!first)
            now &= ~CWR;
        for (uint32_t at = 0; at < end; at += 4)
            REGISTER(SLOT + at) = REGISTER(HEADER + at);
        HALF(SLOT + LENGTH) = total;
        HALF(SLOT + ID) = id;
        HALF(SLOT + IP_SUM) = ~fold(add(add(ip_sum, total), id));
        REGISTER(SLOT + tcp + SEQ) = seq;
        HALF(SLOT + tcp + FLAGS) = now;
        HALF(SLOT + tcp + SUM) = fold(add(add(add(tcp_sum, seq), now), end - tcp + bytes));
        SEND = bytes;
        if (left <= size)
            return;
        left -= size;
        seq += size;
        id = (id + 1) & 0xffff;
        first = 0;
    }
}

static void receive(uint32_t tcp, uint32_t end)
{
    uint32_t total = add(pseudo(end - tcp + PAYLOAD), PAYLOAD_SUM);

    if (fold(sum(IP, tcp, 0)) == 0xffff && fold(sum(tcp, end, total)) == 0xffff)
        DELIVER = REGISTER(HEADER + tcp + SEQ);
    else
        REFUSE = 0;
}

int main(void)
{
    for (;;) {
        __asm__ volatile("wfi" ::: "memory");
        uint32_t end = END, tcp = IP + (BYTE(HEADER + IP) & 15) * 4;

        if (WORK == MESSAGE)
            send(tcp, end);
        else
            receive(tcp, end);
    }
}
