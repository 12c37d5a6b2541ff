// A server and its clients, processes of one machine that talk through every kind of socket.
//
//   talk [CLIENTS] [ROUNDS]
//
// Each client is a process with a connection of TCP (even ones) or UNIX (odd ones) to a server
// that waits with epoll. A client sends numbers, as large as it likes, and checks the answers; at
// its end it sends the descriptor of a pipe, through which the server says goodbye. Datagrams count
// who is done. The output does not depend on who comes first.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCK = 20000 };

static void fail(const char *what)
{
    perror(what);
    exit(3);
}

static void check(int right, const char *what)
{
    if (!right)
        fail(what);
}

static uint64_t mix(uint64_t value)
{
    value ^= value >> 31;
    return value * 0x9e3779b97f4a7c15u + 1;
}

// All bytes, however many calls it takes.
static int all(int fd, void *bytes, size_t length, int sends)
{
    char *at = bytes;
    while (length > 0) {
        ssize_t n = sends ? send(fd, at, length, MSG_NOSIGNAL) : recv(fd, at, length, 0);
        if (n <= 0)
            return -1;
        at += n;
        length -= (size_t)n;
    }
    return 0;
}

static void pass(int fd, int descriptor)
{
    _Alignas(8) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec io = {"p", 1};
    struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    check(sendmsg(fd, &message, 0) == 1, "sendmsg");
}

static int taken(int fd)
{
    _Alignas(8) char control[CMSG_SPACE(sizeof(int))];
    char byte;
    struct iovec io = {&byte, 1};
    struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    check(recvmsg(fd, &message, 0) == 1 && message.msg_controllen > 0, "recvmsg");
    int descriptor;
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    return descriptor;
}

static struct sockaddr_in tcp = {.sin_family = AF_INET}, udp = {.sin_family = AF_INET};
static struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = "talk.socket"};
static struct sockaddr_un last = {.sun_family = AF_UNIX, .sun_path = "talk.last"};

static int client(int number, int rounds)
{
    int is_local = number % 2;
    int fd = socket(is_local ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
    int connected = is_local ? connect(fd, (void *)&local, sizeof local)
                             : connect(fd, (void *)&tcp, sizeof tcp);
    check(connected == 0, "connect");
    static uint64_t block[BLOCK], answer[BLOCK];
    uint64_t value = (uint64_t)number;
    for (int round = 0; round < rounds; round++) {
        uint32_t count = round % 5 == 4 ? BLOCK : (uint32_t)(round * 7 + number) % 50 + 1;
        for (uint32_t i = 0; i < count; i++)
            block[i] = value = mix(value);
        // The other end answers only when it has all, so that both directions fill up.
        check(!all(fd, &count, sizeof count, 1) && !all(fd, block, count * 8, 1), "send");
        check(!all(fd, answer, count * 8, 0), "receive");
        for (uint32_t i = 0; i < count; i++)
            check(answer[i] == mix(block[i]), "answer");
    }
    uint32_t none = 0;
    check(!all(fd, &none, sizeof none, 1), "send the end");
    // A pipe's end goes through a socket of its own.
    int ends[2], way = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    char goodbye[8] = {0};
    check(pipe(ends) == 0 && connect(way, (void *)&last, sizeof last) == 0, "last way");
    pass(way, ends[1]);
    close(ends[1]);
    check(read(ends[0], goodbye, 8) == 4 && !strcmp(goodbye, "bye!"), "goodbye");
    check(read(ends[0], goodbye, 8) == 0, "the pipe's end");
    int done = socket(AF_INET, SOCK_DGRAM, 0);
    check(sendto(done, &value, 8, 0, (void *)&udp, sizeof udp) == 8, "sendto");
    return 0;
}

static int bound(int family, int kind, void *name, socklen_t length)
{
    int fd = socket(family, kind, 0);
    check(fd >= 0 && bind(fd, name, length) == 0, "bind");
    if (kind != SOCK_DGRAM)
        check(listen(fd, 64) == 0, "listen");
    if (family == AF_INET)
        getsockname(fd, name, &length);
    return fd;
}

// One request of a connection: false at its end.
static int serve(int fd, uint64_t *sum)
{
    static uint64_t block[BLOCK];
    uint32_t count;
    check(!all(fd, &count, sizeof count, 0) && count <= BLOCK, "request");
    if (count == 0)
        return 0;
    check(!all(fd, block, count * 8, 0), "numbers");
    for (uint32_t i = 0; i < count; i++)
        *sum += block[i] = mix(block[i]);
    check(!all(fd, block, count * 8, 1), "send answers");
    return 1;
}

int main(int count, char **arguments)
{
    int clients = count > 1 ? atoi(arguments[1]) : 6;
    int rounds = count > 2 ? atoi(arguments[2]) : 12;
    if (clients < 1 || clients > 64 || rounds < 0) {
        fprintf(stderr, "usage: talk [CLIENTS] [ROUNDS]\n");
        return 2;
    }
    tcp.sin_addr.s_addr = udp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listeners[3] = {bound(AF_INET, SOCK_STREAM, &tcp, sizeof tcp),
                        bound(AF_UNIX, SOCK_STREAM, &local, sizeof local),
                        bound(AF_UNIX, SOCK_SEQPACKET, &last, sizeof last)};
    int done = bound(AF_INET, SOCK_DGRAM, &udp, sizeof udp);
    for (int i = 0; i < clients; i++)
        if (fork() == 0)
            _exit(client(i, rounds));
    int poller = epoll_create1(0), finished = 0, goodbyes = 0;
    for (int i = 0; i < 3; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = listeners[i]};
        check(epoll_ctl(poller, EPOLL_CTL_ADD, listeners[i], &event) == 0, "epoll_ctl");
    }
    uint64_t sum = 0, requests = 0;
    while (finished < clients || goodbyes < clients) {
        struct epoll_event events[16];
        int ready = epoll_wait(poller, events, 16, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listeners[2]) {
                int way = accept(fd, NULL, NULL), pipe = taken(way);
                check(write(pipe, "bye!", 4) == 4, "goodbye");
                close(pipe);
                close(way);
                goodbyes++;
            } else if (fd == listeners[0] || fd == listeners[1]) {
                struct epoll_event event = {.events = EPOLLIN, .data.fd = accept(fd, NULL, NULL)};
                epoll_ctl(poller, EPOLL_CTL_ADD, event.data.fd, &event);
            } else if (serve(fd, &sum)) {
                requests++;
            } else {
                close(fd);
                finished++;
            }
        }
    }
    uint64_t last_values = 0;
    for (int i = 0; i < clients; i++) {
        uint64_t value;
        check(recv(done, &value, 8, 0) == 8, "recv");
        last_values ^= value;
        int status;
        check(wait(&status) > 0 && status == 0, "a client");
    }
    unlink(local.sun_path);
    unlink(last.sun_path);
    printf("%d clients, %llu requests, sum %016llx, last %016llx\n", clients,
           (unsigned long long)requests, (unsigned long long)sum, (unsigned long long)last_values);
    return 0;
}
