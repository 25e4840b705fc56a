/* Preloaded: TCP sockets of a program are sockets of Multipath TCP (protocol 262). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/socket.h>
int socket(int domain, int type, int protocol) {
    int (*real)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
    int stream = (type & 0xf) == SOCK_STREAM && (domain == AF_INET || domain == AF_INET6);
    return real(domain, type, stream && (protocol == 0 || protocol == 6) ? 262 : protocol);
}
