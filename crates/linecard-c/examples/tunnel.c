/* A tunnel between TUN devices, by UDP over IPv4. Linux 5.0.
 *
 *     cc crates/linecard-c/examples/tunnel.c $(pkg-config --cflags --libs linecard) -o tunnel
 *     ./tunnel tun0 192.0.2.1 192.0.2.2
 *     ip addr add 10.0.0.1/30 dev tun0; ip link set tun0 mtu 1420 up
 *
 * Packets of up to 64 KiB are segmented, and sent by one call for up to 64 datagrams (UDP GSO); as many
 * are received by one call (UDP GRO), and merged where they lie.
 * IT DOES NOT ENCRYPT: `seal` and `unseal` are the places for it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linecard.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PORT = 5000, VIRTIO = 12, FRONT = 8, BACK = 16, LONGEST = 65536, CALLS = 64, FRAMES = 1024 };
typedef union { struct cmsghdr head; uint8_t room[CMSG_SPACE(sizeof(int))]; } control_message;

static int device, peer;
static linecard_merger *merger;
static uint64_t lost; /* packets and runs that were refused, as by a full queue */

static void check(int failed, const char *what) {
    if (failed) {
        perror(what);
        exit(1);
    }
}

/* Encrypt here: there are FRONT bytes before the packet, for a counter, and BACK after it, for a tag. */
static void seal(uint8_t *packet, size_t len) {
    (void)packet, (void)len;
}

/* Decrypt here; 0 if the tag is wrong, or the counter has been seen. */
static int unseal(uint8_t *packet, size_t len) {
    return packet != NULL && len > 0;
}

/* UDP GSO: a call sends up to 64 datagrams and 65,507 bytes, all but the last of one size. */
static void send_run(void *context, const linecard_run *run) {
    size_t count = 65507 / run->size, most = run->size * (count < 1 ? 1 : count > 64 ? 64 : count);
    (void)context;
    for (size_t at = 0; at < run->len; at += run->size) {
        size_t len = run->len - at < run->size ? run->len - at : run->size;
        seal(run->data + at + FRONT, len - FRONT - BACK);
    }
    for (size_t at = 0; at < run->len; at += most) {
        struct iovec part = {run->data + at, run->len - at < most ? run->len - at : most};
        uint16_t size = (uint16_t)run->size;
        control_message control = {.head = {.cmsg_level = SOL_UDP, .cmsg_type = UDP_SEGMENT}};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control};
        control.head.cmsg_len = CMSG_LEN(sizeof size);
        message.msg_controllen = sizeof control;
        memcpy(CMSG_DATA(&control.head), &size, sizeof size);
        lost += sendmsg(peer, &message, 0) < 0;
    }
}

static void from_device(void) {
    static uint8_t frame[VIRTIO + LONGEST], room[2 * LONGEST];
    const linecard_cut_output output = {{room, sizeof room}, FRONT, BACK, send_run, NULL};
    ssize_t len;
    for (int call = 0; call < CALLS && (len = read(device, frame, sizeof frame)) > VIRTIO; call++) {
        linecard_slice parts[2] = {{frame, VIRTIO}, {frame + VIRTIO, (size_t)len - VIRTIO}};
        lost += linecard_cut(LINECARD_LINK_RAW, parts, 2, &output) != LINECARD_OK;
    }
}

/* The virtio header is the first slice. */
static void write_packet(void *context, const linecard_burst_packet *packet) {
    (void)context;
    lost += writev(device, (const struct iovec *)packet->slices, (int)packet->count) < 0;
}

/* UDP GRO: a call receives datagrams of one size, except that the last may be shorter. */
static void from_peer(void) {
    static uint8_t data[4 * LONGEST];
    linecard_slice buffer = {data, 0};
    linecard_range frames[FRAMES];
    size_t count = 0;
    while (buffer.len + LONGEST <= sizeof data) {
        control_message control;
        struct iovec part = {data + buffer.len, LONGEST};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control};
        message.msg_controllen = sizeof control;
        ssize_t len = recvmsg(peer, &message, MSG_DONTWAIT), size = len;
        if (len <= 0) {
            break;
        }
        if (message.msg_controllen > 0 && control.head.cmsg_type == UDP_GRO) {
            size = *(int *)CMSG_DATA(&control.head);
        }
        for (ssize_t at = 0; at < len && count < FRAMES; at += size) {
            ssize_t packet = (len - at < size ? len - at : size) - FRONT - BACK;
            linecard_range range = {buffer.len + (size_t)at + FRONT, (size_t)packet};
            if (packet > 0 && unseal(data + range.offset, range.len)) {
                frames[count++] = range;
            }
        }
        buffer.len += (size_t)len;
    }
    linecard_merger_merge(merger, buffer, frames, count, write_packet, NULL);
}

static void open_device(const char *name) {
    int header = VIRTIO, little = 1, tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    int udp = tcp | 0x60; /* TUN_F_USO4 and TUN_F_USO6: Linux 6.2 */
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    check((device = open("/dev/net/tun", O_RDWR | O_NONBLOCK)) < 0, "/dev/net/tun");
    check(ioctl(device, TUNSETIFF, &request) < 0, name);
    check(ioctl(device, TUNSETVNETHDRSZ, &header) || ioctl(device, TUNSETVNETLE, &little), name);
    check(ioctl(device, TUNSETOFFLOAD, udp) && ioctl(device, TUNSETOFFLOAD, tcp), name);
}

int main(int argc, char **argv) {
    int yes = 1, buffered = 5 << 20;
    linecard_config config;
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons(PORT)}, far = local;
    if (argc != 4 || !inet_aton(argv[2], &local.sin_addr) || !inet_aton(argv[3], &far.sin_addr)) {
        fprintf(stderr, "usage: tunnel DEVICE LOCAL PEER, the last two as 192.0.2.1\n");
        return 2;
    }
    peer = socket(AF_INET, SOCK_DGRAM, 0);
    check(bind(peer, (struct sockaddr *)&local, sizeof local), argv[2]);
    check(connect(peer, (struct sockaddr *)&far, sizeof far), argv[3]);
    check(setsockopt(peer, SOL_UDP, UDP_GRO, &yes, sizeof yes), "UDP_GRO");
    check(setsockopt(peer, SOL_SOCKET, SO_RCVBUFFORCE, &buffered, sizeof buffered), "buffers");
    open_device(argv[1]);
    linecard_config_burst(&config, sizeof config);
    check(getrandom(&config.secret, sizeof config.secret, 0) < 0, "getrandom");
    check(linecard_merger_new(LINECARD_LINK_RAW, &config, &merger) != LINECARD_OK, "a merger");
    for (struct pollfd from[2] = {{device, POLLIN, 0}, {peer, POLLIN, 0}};;) {
        check(poll(from, 2, -1) < 0, "poll");
        from_device();
        from_peer();
    }
}
