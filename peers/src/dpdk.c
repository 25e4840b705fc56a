// What the harness needs of DPDK: buffers in memory that the harness gives, rte_gro, rte_gso.
// Much of DPDK's interface is inline functions, which only C can call.

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_gro.h>
#include <rte_gso.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_net.h>
#include <rte_prefetch.h>
#include <rte_tcp.h>
#include <rte_version.h>
#include <string.h>

// Packets that the parser asks ahead for, as DPDK's own examples do.
#define AHEAD 4

struct peer_gro {
	struct rte_gro_param param;
	void *table; // NULL in lightweight mode
	unsigned every, bursts; // bursts between flushes of the table, and since the last one
	int verify;
	uint64_t bad; // packets with a wrong checksum
};

// Memory of its own, no card, no files: 0 or an error number.
int peer_init(const char *megabytes)
{
	char *arguments[] = { "linecard-peers", "--no-huge", "--no-shconf", "--no-pci",
		"--no-telemetry", "--log-level=4", "-m", (char *)megabytes };

	return rte_eal_init(RTE_DIM(arguments), arguments) < 0 ? rte_errno : 0;
}

const char *peer_version(void)
{
	return rte_version();
}

// A pool of mbufs in the harness's own memory: it can lie in large pages without a system that
// reserves any. NULL if it cannot be made, or not of `count`.
struct rte_mempool *peer_pool(const char *name, void *memory, size_t len, unsigned count,
	unsigned room)
{
	unsigned element = sizeof(struct rte_mbuf) + room;
	struct rte_pktmbuf_pool_private private = { .mbuf_data_room_size = room };
	struct rte_mempool *pool = rte_mempool_create_empty(name, count, element,
		count > 1024 ? 256 : 0, sizeof(private), SOCKET_ID_ANY,
		RTE_MEMPOOL_F_NO_IOVA_CONTIG);

	if (pool == NULL)
		return NULL;
	rte_pktmbuf_pool_init(pool, &private);
	if (rte_mempool_set_ops_byname(pool, "ring_mp_mc", NULL) != 0 ||
	    rte_mempool_populate_iova(pool, memory, RTE_BAD_IOVA, len, NULL, NULL) !=
		    (int)count) {
		rte_mempool_free(pool);
		return NULL;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;
}

void peer_pool_free(struct rte_mempool *pool)
{
	rte_mempool_free(pool);
}

struct rte_mbuf *peer_mbuf_take(struct rte_mempool *pool)
{
	return rte_pktmbuf_alloc(pool);
}

void peer_mbuf_give(struct rte_mbuf **mbufs, unsigned count)
{
	rte_pktmbuf_free_bulk(mbufs, count);
}

// What a driver writes for a packet of `len` bytes that it has received.
void peer_mbuf_arm(struct rte_mbuf *mbuf, unsigned len)
{
	mbuf->data_off = RTE_PKTMBUF_HEADROOM;
	mbuf->next = NULL;
	mbuf->nb_segs = 1;
	mbuf->ol_flags = 0;
	mbuf->packet_type = 0;
	mbuf->tx_offload = 0;
	mbuf->data_len = len;
	mbuf->pkt_len = len;
	rte_mbuf_refcnt_set(mbuf, 1);
}

uint8_t *peer_mbuf_room(struct rte_mbuf *mbuf)
{
	return (uint8_t *)mbuf->buf_addr + RTE_PKTMBUF_HEADROOM;
}

unsigned peer_mbuf_capacity(const struct rte_mbuf *mbuf)
{
	return mbuf->buf_len - RTE_PKTMBUF_HEADROOM;
}

const uint8_t *peer_mbuf_data(const struct rte_mbuf *mbuf)
{
	return rte_pktmbuf_mtod(mbuf, const uint8_t *);
}

unsigned peer_mbuf_len(const struct rte_mbuf *mbuf)
{
	return mbuf->data_len;
}

struct rte_mbuf *peer_mbuf_next(const struct rte_mbuf *mbuf)
{
	return mbuf->next;
}

// Receive offload; `every` 0 is the lightweight mode, which lets go all at a burst's end.
struct peer_gro *peer_gro_new(unsigned flows, unsigned items, unsigned every, int verify)
{
	struct peer_gro *gro = calloc(1, sizeof(*gro));

	gro->param.gro_types = RTE_GRO_TCP_IPV4 | RTE_GRO_UDP_IPV4;
#ifdef RTE_GRO_TCP_IPV6
	gro->param.gro_types |= RTE_GRO_TCP_IPV6;
#endif
	gro->param.max_flow_num = flows;
	gro->param.max_item_per_flow = items;
	gro->every = every;
	gro->verify = verify;
	if (every != 0) {
		gro->table = rte_gro_ctx_create(&gro->param);
		if (gro->table == NULL) {
			free(gro);
			return NULL;
		}
	}
	return gro;
}

void peer_gro_free(struct peer_gro *gro)
{
	if (gro->table != NULL)
		rte_gro_ctx_destroy(gro->table);
	free(gro);
}

uint64_t peer_gro_bad(const struct peer_gro *gro)
{
	return gro->bad;
}

// rte_gro merges what these fields say: they have to be right before it is called.
static inline void parse(struct rte_mbuf *mbuf)
{
	struct rte_net_hdr_lens lens;

	mbuf->packet_type = rte_net_get_ptype(mbuf, &lens, RTE_PTYPE_ALL_MASK);
	mbuf->l2_len = lens.l2_len;
	mbuf->l3_len = lens.l3_len;
	mbuf->l4_len = lens.l4_len;
}

// Whether a checksum is wrong; packets other than TCP and UDP have none that count.
static inline int wrong(const struct rte_mbuf *mbuf)
{
	uint32_t l4 = mbuf->packet_type & RTE_PTYPE_L4_MASK;
	const void *ip = rte_pktmbuf_mtod_offset(mbuf, const void *, mbuf->l2_len);
	const void *transport = (const char *)ip + mbuf->l3_len;

	if (l4 != RTE_PTYPE_L4_TCP && l4 != RTE_PTYPE_L4_UDP)
		return 0;
	if (RTE_ETH_IS_IPV6_HDR(mbuf->packet_type))
		return rte_ipv6_udptcp_cksum_verify(ip, transport) != 0;
	return rte_raw_cksum(ip, mbuf->l3_len) != 0xFFFF ||
		rte_ipv4_udptcp_cksum_verify(ip, transport) != 0;
}

unsigned peer_gro_flush(struct peer_gro *gro, struct rte_mbuf **out, unsigned room)
{
	gro->bursts = 0;
	return rte_gro_timeout_flush(gro->table, 0, gro->param.gro_types, out, room);
}

// The whole of receiving a burst: gives how many packets are left in `packets`, and in `flushed`
// how many came out of the table.
unsigned peer_gro_burst(struct peer_gro *gro, struct rte_mbuf **packets, unsigned count,
	struct rte_mbuf **out, unsigned room, unsigned *flushed)
{
	unsigned i, left;

	for (i = 0; i < count; i++) {
		if (i + AHEAD < count)
			rte_prefetch0(rte_pktmbuf_mtod(packets[i + AHEAD], const void *));
		parse(packets[i]);
	}
	if (gro->verify)
		for (i = 0; i < count; i++)
			gro->bad += wrong(packets[i]);
	*flushed = 0;
	if (gro->table == NULL)
		return rte_gro_reassemble_burst(packets, count, &gro->param);
	left = rte_gro_reassemble(packets, count, gro->table);
	if (++gro->bursts >= gro->every)
		*flushed = peer_gro_flush(gro, out, room);
	return left;
}

// A large TCP/IPv4 packet in a buffer becomes one to be cut.
void peer_gso_arm(struct rte_mbuf *mbuf, unsigned len, unsigned l4_len)
{
	peer_mbuf_arm(mbuf, len);
	mbuf->l2_len = RTE_ETHER_HDR_LEN;
	mbuf->l3_len = sizeof(struct rte_ipv4_hdr);
	mbuf->l4_len = l4_len;
	mbuf->packet_type = RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_TCP;
	mbuf->ol_flags = RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
}

static inline void checksum(struct rte_mbuf *mbuf)
{
	struct rte_ipv4_hdr *ip =
		rte_pktmbuf_mtod_offset(mbuf, struct rte_ipv4_hdr *, RTE_ETHER_HDR_LEN);
	struct rte_tcp_hdr *tcp = (struct rte_tcp_hdr *)(ip + 1);

	ip->hdr_checksum = 0;
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	tcp->cksum = 0;
	tcp->cksum = rte_ipv4_udptcp_cksum_mbuf(mbuf, ip, RTE_ETHER_HDR_LEN + sizeof(*ip));
}

static inline void copy(const struct rte_mbuf *mbuf, uint8_t *to)
{
	for (; mbuf != NULL; mbuf = mbuf->next) {
		memcpy(to, rte_pktmbuf_mtod(mbuf, const void *), mbuf->data_len);
		to += mbuf->data_len;
	}
}

// Cuts: gives the number of segments, or less than 0. `frame_len` is that of a whole segment;
// copies go to `to`, `stride` bytes apart, if it is not NULL.
int peer_gso_cut(struct rte_mbuf *mbuf, struct rte_mempool *direct, struct rte_mempool *indirect,
	unsigned frame_len, int sum, uint8_t *to, size_t stride, struct rte_mbuf **out,
	unsigned room)
{
	struct rte_gso_ctx context = { .direct_pool = direct, .indirect_pool = indirect,
		.gso_types = RTE_ETH_TX_OFFLOAD_TCP_TSO, .gso_size = frame_len };
	int count = rte_gso_segment(mbuf, &context, out, room);

	for (int i = 0; i < count && sum; i++)
		checksum(out[i]);
	for (int i = 0; i < count && to != NULL; i++)
		copy(out[i], to + i * stride);
	return count;
}
