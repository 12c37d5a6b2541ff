/* How datagrams came: to what address, with how many hops, of what service, and when. */
#include "facts.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static int in, out, port;

static void bound(int family)
{
    struct sockaddr_in6 any = {.sin6_family = family};
    socklen_t length = sizeof any;
    in = socket(family, SOCK_DGRAM, 0);
    out = socket(family, SOCK_DGRAM, 0);
    CALL(bind(in, (void *)&any, family == AF_INET ? sizeof(struct sockaddr_in) : sizeof any));
    CALL(getsockname(in, (void *)&any, &length));
    port = any.sin6_port;
}

static void set(int fd, int level, int name, int value)
{
    CALL(setsockopt(fd, level, name, &value, sizeof value));
}

static void say(uint32_t to)
{
    struct sockaddr_in address = {AF_INET, port, {htonl(to)}, {0}};
    CALL(sendto(out, "text", 4, 0, (void *)&address, sizeof address));
}

static void say_v6(void)
{
    struct sockaddr_in6 address = {AF_INET6, port, 0, in6addr_loopback, 0};
    CALL(sendto(out, "text", 4, 0, (void *)&address, sizeof address));
}

static void time_of(uint64_t seconds, uint64_t part, uint64_t parts)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t age = (uint64_t)now.tv_sec - seconds;
    printf("  a time, %s\n", age <= 60 && part < parts ? "not long ago" : "WRONG");
}

/* What a message says beside its text. */
static void hear(int flags, size_t room)
{
    char text[8];
    _Alignas(8) char space[256];
    struct iovec piece = {text, sizeof text};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = space,
                             .msg_controllen = room};
    CALL(recvmsg(in, &message, flags));
    FACT(message.msg_flags);
    FACT(message.msg_controllen);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    for (; header != NULL; header = CMSG_NXTHDR(&message, header)) {
        const uint32_t *body = (void *)CMSG_DATA(header);
        const uint64_t *wide = (void *)body;
        printf(" %d/%d, %d bytes\n", header->cmsg_level, header->cmsg_type, (int)header->cmsg_len);
        if (header->cmsg_level == SOL_SOCKET)
            time_of(wide[0], wide[1], header->cmsg_type == SO_TIMESTAMP ? 1000000 : 1000000000);
        else if (header->cmsg_type == IP_TOS && header->cmsg_level == SOL_IP)
            printf("  %d\n", *(const uint8_t *)body);
        else
            for (size_t at = 0; at < (header->cmsg_len - sizeof *header) / 4; at++)
                printf("  %x\n", body[at]);
    }
}

int main(void)
{
    bound(AF_INET);
    say(0x7f000001);
    set(in, SOL_IP, IP_PKTINFO, 1);
    set(in, SOL_IP, IP_RECVTTL, 1);
    say(0x7f000002);
    set(out, SOL_IP, IP_TTL, 9);
    set(out, SOL_IP, IP_TOS, 0x20);
    set(in, SOL_IP, IP_RECVTOS, 1);
    say(0x7f000003);
    /* One that comes while nobody wants to know it, and one after it. */
    for (int wanted = 0; wanted < 2; wanted++) {
        for (int name = 0; name < 3; name++)
            set(in, SOL_IP, (int[]){IP_PKTINFO, IP_RECVTTL, IP_RECVTOS}[name], wanted);
        say(0x7f000004 + wanted);
    }
    hear(0, 256);
    hear(MSG_PEEK, 256);
    hear(0, 256);
    hear(0, 30);
    hear(0, 256);
    CALL(recv(in, &port, 0, 0));

    bound(AF_INET);
    set(in, SOL_SOCKET, SO_TIMESTAMP, 1);
    set(in, SOL_IP, IP_RECVTTL, 1);
    say(0x7f000001);
    hear(0, 256);
    set(in, SOL_SOCKET, SO_TIMESTAMPNS, 1);
    say(0x7f000001);
    hear(0, 256);
    set(in, SOL_SOCKET, SO_TIMESTAMPNS, 0);
    set(in, SOL_IP, IP_RECVTTL, 0);
    say(0x7f000001);
    hear(0, 256);

    bound(AF_INET6);
    set(in, SOL_IPV6, IPV6_RECVPKTINFO, 1);
    set(in, SOL_IPV6, IPV6_RECVHOPLIMIT, 1);
    set(out, SOL_IPV6, IPV6_UNICAST_HOPS, 7);
    set(out, SOL_IPV6, IPV6_MTU, 1280);
    set(out, SOL_IPV6, IPV6_MTU, 1279);
    say_v6();
    hear(0, 256);
    return 0;
}
