/* Sockets in every state at once, with bytes and descriptors between them; then it uses them all,
   over and over. */
#include "facts.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

static void pass(int to, int fd) {
    _Alignas(8) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec io = {"d", 1};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control,
                       .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    sendmsg(to, &m, MSG_DONTWAIT);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (void *)&at, n);
    listen(listener, 1);
    getsockname(listener, (void *)&at, &n);
    int client[4];
    for (int i = 0; i < 4; i++) {
        client[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(client[i], (void *)&at, sizeof at);
        send(client[i], "waiting", 7, MSG_DONTWAIT);
    }
    int near[2], datagrams[2], packets[2], closed[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, near);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, datagrams);
    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packets);
    socketpair(AF_UNIX, SOCK_STREAM, 0, closed);
    close(closed[1]);
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "crowd"};
    int named = socket(AF_UNIX, SOCK_STREAM, 0);
    bind(named, (void *)&name, sizeof name);
    listen(named, 2);
    int reaching = socket(AF_UNIX, SOCK_STREAM, 0);
    connect(reaching, (void *)&name, sizeof name);
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    bind(udp, (void *)&at, sizeof at);
    sendto(udp, "to itself", 9, 0, (void *)&at, sizeof at);
    int poller = epoll_create1(0);
    int all[] = {listener, client[0], client[3], near[0], near[1], datagrams[1], packets[1], named, udp};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | (i % 2 ? EPOLLET : 0)};
        epoll_ctl(poller, EPOLL_CTL_ADD, all[i], &e);
    }
    for (int i = 0; i < 3; i++) {
        pass(near[0], datagrams[0]);
        pass(near[1], near[0]);
        send(datagrams[0], "datagram", 8, MSG_DONTWAIT);
        send(packets[0], "packet", 6, MSG_DONTWAIT);
    }
    if (fork() == 0) {
        char byte;
        recv(packets[0], &byte, 1, 0);
        _exit(0);
    }
    for (;;) {
        char bytes[100];
        struct epoll_event e[16];
        epoll_wait(poller, e, 16, 0);
        for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
            recv(all[i], bytes, sizeof bytes, MSG_DONTWAIT);
            send(all[i], bytes, 50, MSG_DONTWAIT);
        }
        pass(near[0], udp);
        pass(packets[0], near[1]);
        int end = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        shutdown(end, SHUT_WR);
        close(end);
        int again = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(again, (void *)&at, sizeof at);
        getpeername(again, (void *)bytes, &n);
        close(again);
    }
}
