/*
 * A receive thread of a network processor: filters, algorithms 1 to 3, average intervals, active acknowledgment and
 * reconstruction as Li, Chen and Su describe them. The model of the unit takes its steps: instructions, and lines of
 * memory. Memory is in the network's byte order; the first word of a packet's IP header is aligned.
 */
#include <stddef.h>
#include <stdint.h>

#define REGISTER(address) (*(volatile uint32_t *)(address))

/* Messages: a connection that has timed out, a packet and its length, the time. */
#define TIMED_OUT REGISTER(0x30000000u)
#define PACKET REGISTER(0x30000004u)
#define LENGTH REGISTER(0x30000008u)
#define NOW REGISTER(0x3000000cu)
/* To the sending thread, to the DMA engine, and back to the pool. */
#define SEND REGISTER(0x30000010u)
#define DMA_FROM REGISTER(0x30000014u)
#define DMA_START REGISTER(0x30000018u)
#define FREE REGISTER(0x3000001cu)

#define TABLE ((struct connection **)0x80000000u)
#define CONNECTIONS ((struct connection *)0x80010000u)
#define ANSWERS ((struct packet *)0x80020000u)

enum { BUCKETS = 256, DESCRIPTORS = 256, ANSWER_BUFFERS = 16, THRESHOLD = 64000, WINDOW = 0xffff };
/* Words of a packet: the first two bytes are not used. */
enum { TYPE = 3, IP = 4, FRAGMENT = 5, PROTOCOL = 6, FROM = 7, TO = 8, PORTS = 9, SEQ = 10, ACK = 11, FLAGS = 12, SUM = 13 };
enum { HEADERS = 54, IP_BYTES = 20, TCP_BYTES = 20 };
enum { FIN = 1 << 16, SYN = 2 << 16, RST = 4 << 16, URG = 32 << 16 };

/* A buffer: a line for the list, then the frame. */
struct packet {
    struct packet *next;
    uint32_t seq, len, unused[5];
    uint32_t word[504];
};

/* Two lines. */
struct connection {
    struct connection *next;
    uint32_t from, to, ports, nextseq;
    struct packet *list;
    uint32_t average_interval, last_arrival, ack, unused[6];
};

static struct connection *free_connections;
static uint32_t answers, known;

static inline uint32_t add(uint32_t total, uint32_t word)
{
    total += word;
    return total + (total < word);
}

static uint32_t sum(const uint32_t *word, uint32_t bytes, uint32_t total)
{
    for (; bytes >= 32; bytes -= 32, word += 8) {
        total = add(total, word[0]);
        total = add(total, word[1]);
        total = add(total, word[2]);
        total = add(total, word[3]);
        total = add(total, word[4]);
        total = add(total, word[5]);
        total = add(total, word[6]);
        total = add(total, word[7]);
    }
    for (; bytes >= 4; bytes -= 4, word++)
        total = add(total, *word);
    return bytes == 0 ? total : add(total, *word & ~(0xffffffffu >> (8 * bytes)));
}

static uint32_t fold(uint32_t total)
{
    total = (total & 0xffff) + (total >> 16);
    return (total & 0xffff) + (total >> 16);
}

/* The sum of the pseudo header. */
static inline uint32_t pseudo(const struct packet *p, uint32_t bytes)
{
    return add(add(p->word[FROM], p->word[TO]), bytes + 6);
}

static void dma(const uint32_t *from, uint32_t offset, uint32_t bytes)
{
    DMA_FROM = (uint32_t)from + offset;
    DMA_START = bytes;
}

static void pass(const struct packet *p, uint32_t length) { dma(p->word, 2, length); }

/* Reconstruction (IV.D): the first packet's headers are those of all, and each packet is a request. */
static void flush(struct connection *c)
{
    struct packet *first = c->list, *p = first;

    if (first == NULL)
        return;
    uint32_t bytes = IP_BYTES + TCP_BYTES;
    for (; p != NULL && p->seq == first->seq + bytes - IP_BYTES - TCP_BYTES; p = p->next)
        bytes += p->len;
    uint32_t *word = first->word;
    word[IP] = (word[IP] & 0xffff0000u) | bytes;
    word[PROTOCOL] &= 0xffff0000u;
    word[PROTOCOL] |= ~fold(sum(word + IP, IP_BYTES, 0)) & 0xffff;
    word[ACK] = c->ack;
    /* The data's sum was verified: the host is told so, and the field is left with that of the pseudo header. */
    word[SUM] = fold(pseudo(first, bytes - IP_BYTES)) << 16;
    struct packet *rest = p;
    dma(word, 2, HEADERS + first->len);
    for (p = first->next; p != rest; p = p->next)
        dma(p->word, 2 + HEADERS, p->len);
    c->list = rest;
}

static struct connection **bucket_of(uint32_t from, uint32_t to, uint32_t ports)
{
    uint32_t hash = from ^ to ^ ports;

    hash ^= hash >> 16;
    return &TABLE[(hash ^ hash >> 8) % BUCKETS];
}

static struct connection *search(const uint32_t *word)
{
    struct connection *c = *bucket_of(word[FROM], word[TO], word[PORTS]);

    while (c != NULL && (c->ports != word[PORTS] || c->from != word[FROM] || c->to != word[TO]))
        c = c->next;
    return c;
}

static void make(const uint32_t *word)
{
    struct connection **bucket = bucket_of(word[FROM], word[TO], word[PORTS]);
    struct connection *c = free_connections;

    if (c == NULL && known == DESCRIPTORS)
        return;
    if (c == NULL)
        c = &CONNECTIONS[known++];
    else
        free_connections = c->next;
    c->from = word[FROM];
    c->to = word[TO];
    c->ports = word[PORTS];
    c->nextseq = word[SEQ] + 1;
    c->list = NULL;
    c->average_interval = 0;
    c->last_arrival = NOW;
    c->next = *bucket;
    *bucket = c;
}

static void end(struct connection *c)
{
    struct connection **at = bucket_of(c->from, c->to, c->ports);

    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    c->next = free_connections;
    free_connections = c;
}

/* Algorithm 2. */
static int insert(struct packet *p, struct connection *c)
{
    struct packet **at = &c->list, *q;

    for (; (q = *at) != NULL; at = &q->next) {
        if (q->seq == p->seq)
            return 0;
        if ((int32_t)(q->seq - p->seq) > 0)
            break;
    }
    p->next = q;
    *at = p;
    return 1;
}

/* Algorithm 3. */
static void update_next_seq(struct connection *c)
{
    uint32_t next = c->nextseq;

    for (struct packet *q = c->list; q != NULL; q = q->next)
        if (q->seq == next)
            next += q->len;
    c->nextseq = next;
}

/* Active acknowledgment (V.C). */
static void answer(const struct packet *p, const struct connection *c)
{
    struct packet *a = &ANSWERS[answers++ % ANSWER_BUFFERS];
    const uint32_t *from = p->word;
    uint32_t *to = a->word;

    to[0] = from[2] >> 16;
    to[1] = from[2] << 16 | from[3] >> 16;
    to[2] = from[0] << 16 | from[1] >> 16;
    to[3] = from[1] << 16 | 0x0800;
    to[IP] = 0x45000000u | (IP_BYTES + TCP_BYTES);
    to[FRAGMENT] = 0x4000;
    to[PROTOCOL] = 64u << 24 | 6u << 16;
    to[FROM] = from[TO];
    to[TO] = from[FROM];
    to[PORTS] = from[PORTS] << 16 | from[PORTS] >> 16;
    to[SEQ] = from[ACK];
    to[ACK] = c->nextseq;
    to[FLAGS] = 5u << 28 | 16u << 16 | WINDOW;
    to[SUM] = 0;
    to[PROTOCOL] |= ~fold(sum(to + IP, IP_BYTES, 0)) & 0xffff;
    to[SUM] = (~fold(sum(to + PORTS, TCP_BYTES, pseudo(a, TCP_BYTES))) & 0xffff) << 16;
    SEND = (uint32_t)to;
}

/* Figure 4, from a new packet on. */
static void receive(struct packet *p, uint32_t length)
{
    const uint32_t *word = p->word;
    uint32_t total = word[IP] & 0xffff, flags = word[FLAGS];

    if ((word[TYPE] & 0xffff) != 0x0800 || word[IP] >> 24 != 0x45 || (word[FRAGMENT] & 0x3fff) != 0 ||
        (word[PROTOCOL] >> 16 & 0xff) != 6 || flags >> 28 != 5 || total > length || total < IP_BYTES + TCP_BYTES) {
        pass(p, length);
        return;
    }
    uint32_t bytes = total - IP_BYTES;
    if (fold(sum(word + IP, IP_BYTES, 0)) != 0xffff || fold(sum(word + PORTS, bytes, pseudo(p, bytes))) != 0xffff) {
        FREE = (uint32_t)p;
        return;
    }
    struct connection *c = search(word);
    if (flags & SYN && c == NULL)
        make(word);
    if (flags & (SYN | RST | URG) || c == NULL || (bytes == TCP_BYTES && !(flags & FIN))) {
        pass(p, length);
        return;
    }
    uint32_t now = NOW;
    c->average_interval = (c->average_interval + now - c->last_arrival) >> 1;
    c->last_arrival = now;
    p->seq = word[SEQ];
    p->len = bytes - TCP_BYTES;
    /* Algorithm 1. */
    if ((int32_t)(c->nextseq - p->seq) > 0 || (p->len > 0 && !insert(p, c))) {
        FREE = (uint32_t)p;
        return;
    }
    if (c->nextseq == p->seq)
        update_next_seq(c);
    c->ack = word[ACK];
    answer(p, c);
    if (flags & FIN) {
        flush(c);
        end(c);
        if (p->len == 0)
            pass(p, length);
    } else if (c->nextseq - c->list->seq >= THRESHOLD) {
        flush(c);
    }
}

int main(void)
{
    for (;;) {
        __asm__ volatile("wfi" ::: "memory");
        struct connection *timed_out = (struct connection *)TIMED_OUT;
        struct packet *p = (struct packet *)PACKET;

        if (timed_out != NULL)
            flush(timed_out);
        if (p != NULL)
            receive(p, LENGTH);
    }
}
